//! Receipts: which node says, signed, that it has which pieces of a broadcast. When every piece is receipted by two
//! holders outside the root (by all, if there are fewer), the root may leave (design: trust and integrity).
//!
//! Memory: a bit for each node and piece, 2.5 MB for 10,000 nodes and 2,000 pieces.

use std::collections::BTreeMap;

use crate::content::have::{HaveSet, Run};
use crate::units::NodeId;

/// Holders that a piece needs before it can do without the root.
const HOLDERS_WANTED: usize = 2;

/// The receipts of one broadcast.
#[derive(Default)]
pub struct Receipts {
    by_node: BTreeMap<NodeId, HaveSet>,
    holders: Vec<u32>,
}

impl Receipts {
    /// A node receipts pieces; returns how many it has receipted in all.
    pub fn add(&mut self, node: NodeId, runs: &[Run]) -> u32 {
        let have = self.by_node.entry(node).or_default();
        let mut fresh = Vec::with_capacity(runs.len());
        runs.iter().for_each(|&run| have.insert_run(run, &mut fresh));
        for piece in fresh.iter().flat_map(|run| run.pieces()) {
            if piece.as_usize() >= self.holders.len() {
                self.holders.resize(piece.as_usize() + 1, 0);
            }
            self.holders[piece.as_usize()] += 1;
        }
        have.count()
    }

    /// How many pieces a node has receipted.
    pub fn of(&self, node: NodeId) -> u32 {
        self.by_node.get(&node).map_or(0, HaveSet::count)
    }

    /// A node is gone, and what it held with it.
    pub fn remove(&mut self, node: NodeId) {
        for piece in self.by_node.remove(&node).iter().flat_map(HaveSet::iter) {
            self.holders[piece.as_usize()] -= 1;
        }
    }

    /// Whether each of `pieces` pieces is held by two of `receivers` receivers, or by all of them.
    pub fn suffice(&self, pieces: u32, receivers: usize) -> bool {
        let wanted = receivers.min(HOLDERS_WANTED) as u32;
        let held = self.holders.iter().take(pieces as usize).filter(|&&holders| holders >= wanted).count();
        wanted > 0 && held == pieces as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::PieceIndex;

    fn run(first: u32, count: u32) -> [Run; 1] {
        [Run { first: PieceIndex(first), count }]
    }

    #[test]
    fn two_holders_of_each_piece_suffice_and_a_repeated_receipt_is_one() {
        let mut receipts = Receipts::default();
        assert!(!receipts.suffice(4, 3));
        assert_eq!(receipts.add(NodeId(1), &run(0, 4)), 4);
        assert_eq!(receipts.add(NodeId(1), &run(0, 4)), 4, "the same holder twice");
        assert!(!receipts.suffice(4, 3));
        receipts.add(NodeId(2), &run(0, 2));
        receipts.add(NodeId(3), &run(3, 1));
        assert!(!receipts.suffice(4, 3), "piece 2 has one holder");
        receipts.add(NodeId(3), &run(2, 1));
        assert!(receipts.suffice(4, 3));
        receipts.remove(NodeId(3));
        assert!(!receipts.suffice(4, 3), "what it held is gone with it");
    }

    #[test]
    fn a_single_receiver_suffices_by_itself() {
        let mut receipts = Receipts::default();
        receipts.add(NodeId(1), &run(0, 2));
        assert!(receipts.suffice(2, 1));
        assert!(!receipts.suffice(2, 0), "nobody has it");
        assert!(Receipts::default().suffice(0, 1), "an empty object needs no holder");
    }
}
