//! What must hold whatever happens, seen by someone who sees all machines at once. A violation is a bug of the
//! protocol: the world panics and says what it saw.

use std::collections::BTreeMap;

use mobcast_proto::content::HashedObject;
use mobcast_proto::content::have::{HaveSet, Run};
use mobcast_proto::group::report::Report;
use mobcast_proto::io::Event;
use mobcast_proto::limits::FRAMES_WAITING_BYTES_MAX;
use mobcast_proto::sorted_map::SortedMap;
use mobcast_proto::wire::Frame;
use mobcast_proto::{BroadcastId, Digest, NodeId, PieceIndex};

use super::{Machine, World};
use crate::network::{FlowId, NodeIndex};

/// Holders outside the root that a piece needs before the root may leave, where there are as many receivers.
const HOLDERS_WANTED: usize = 2;

/// Control frames of a machine that have not arrived, in bytes.
#[derive(Debug, Default)]
pub(super) struct FramesWaiting {
    by_flow: SortedMap<FlowId, usize>,
    bytes: usize,
}

impl FramesWaiting {
    fn sent(&mut self, flow: FlowId, bytes: u32) {
        *self.by_flow.get_or_default(flow) += bytes as usize;
        self.bytes += bytes as usize;
    }

    pub(super) fn arrived(&mut self, flow: FlowId, bytes: u32) {
        if let Some(waiting) = self.by_flow.get_mut(&flow) {
            *waiting -= bytes as usize;
            self.bytes -= bytes as usize;
        }
    }

    /// What waits on a link that is gone takes no memory.
    pub(super) fn gone(&mut self, flow: FlowId) {
        self.bytes -= self.by_flow.remove(&flow).unwrap_or(0);
    }
}

impl World {
    /// What a node says on links that carry nothing stays within its limit.
    pub(super) fn check_frames_waiting(&mut self, index: NodeIndex, flow: FlowId, bytes: u32) {
        let waiting = &mut self.machines[index.0 as usize].frames_waiting;
        waiting.sent(flow, bytes);
        assert!(waiting.bytes <= FRAMES_WAITING_BYTES_MAX, "{} bytes of frames wait at {index:?}", waiting.bytes);
    }

    /// A node announces and receipts what it has stored, and nothing else.
    pub(super) fn check_claims(&self, index: NodeIndex, frame: &Frame) {
        match frame {
            Frame::Have { broadcast, pieces, .. } => {
                self.check_all_held(index, *broadcast, pieces, "announces");
            }
            Frame::Reports { reports } => {
                let own = reports.iter().filter(|report| Some(report.from) == self.machine(index).node.id());
                for report in own {
                    if let Report::Receipt { broadcast, pieces } = &report.report {
                        self.check_all_held(index, *broadcast, pieces, "receipts");
                    }
                }
            }
            _ => {}
        }
    }

    /// What a node does with a piece, it does with one that is on its disk (or is root). Filler is on nobody's.
    pub(super) fn check_held(&self, index: NodeIndex, broadcast: BroadcastId, piece: PieceIndex, does: &str) {
        if broadcast != BroadcastId::FILLER {
            self.check_all_held(index, broadcast, &[Run { first: piece, count: 1 }], does);
        }
    }

    fn check_all_held(&self, index: NodeIndex, broadcast: BroadcastId, runs: &[Run], does: &str) {
        let machine = self.machine(index);
        let (stored, is_root) = (machine.stored(broadcast), machine.node.id() == Some(broadcast.root));
        for piece in runs.iter().flat_map(|run| run.pieces()) {
            let held = is_root || stored.is_some_and(|stored| stored.contains(piece));
            assert!(held, "{index:?} {does} {piece} of {broadcast} without having stored it");
        }
    }

    /// Hashes that a node goes by are those that the root has signed.
    pub(super) fn check_hashes(&self, index: NodeIndex, broadcast: BroadcastId, first: PieceIndex, hashes: &[Digest]) {
        for (piece, digest) in (first.0..).zip(hashes) {
            let signed = *digest == self.true_digest(broadcast, piece);
            assert!(signed, "{index:?} goes by a forged hash of piece {piece} of {broadcast}");
        }
    }

    /// An object that came in one frame is stored if it is the root's, and not otherwise.
    pub(super) fn check_whole(&self, index: NodeIndex, broadcast: BroadcastId, object: &HashedObject) {
        let real = self.real.get(&broadcast).copied();
        assert!(object.piece() == real, "{index:?} stores what is not the object of {broadcast}");
    }

    pub(super) fn check_event(&self, index: NodeIndex, event: &Event) {
        match event {
            Event::RootMayLeave { broadcast } => self.check_may_leave(index, *broadcast),
            Event::Released { broadcast } => self.check_release(index, *broadcast),
            Event::Complete { broadcast, length, .. } => {
                let machine = self.machine(index);
                let (bytes, pieces) = self.object(*broadcast);
                assert!(*length == bytes, "{index:?} takes {length} bytes for the {bytes} of {broadcast}");
                let all = (0..pieces).all(|piece| machine.holds(*broadcast, PieceIndex(piece)));
                assert!(all || machine.node.id() == Some(broadcast.root), "{index:?} is complete without having all");
            }
            Event::Result { node, result, .. } if result.outcome.is_ok() => {
                let complete = self.completed.contains(&(result.broadcast, *node));
                assert!(complete, "{node} is said to be complete, and is not");
            }
            _ => {}
        }
    }

    fn check_may_leave(&self, index: NodeIndex, broadcast: BroadcastId) {
        let node = &self.machine(index).node;
        let receivers = node.members().iter().filter(|(member, ..)| *member != broadcast.root).count();
        // Of what the root has, whatever the coordinator knows of it.
        for piece in (0..self.object(broadcast).1).map(PieceIndex) {
            let living = self.machines.iter().filter(|machine| machine.holds(broadcast, piece)).count();
            // The coordinator need not know that a machine has started again.
            let of_old = |stored: &&BTreeMap<BroadcastId, HaveSet>| {
                stored.get(&broadcast).is_some_and(|stored| stored.contains(piece))
            };
            let holders = living + self.former.iter().filter(of_old).count();
            let wanted = receivers.min(HOLDERS_WANTED);
            assert!(holders >= wanted, "the root of {broadcast} may leave, and {holders} others hold {piece}");
        }
    }

    /// The coordinator lets nobody go while a member that it knows of lacks something and has not given up.
    fn check_release(&self, index: NodeIndex, broadcast: BroadcastId) {
        let members: Vec<NodeId> = self.machine(index).node.members().into_iter().map(|(node, ..)| node).collect();
        for (i, machine) in self.machines.iter().enumerate() {
            // Whom its peers have dropped, nobody waits for.
            let running = self.network.is_running(NodeIndex(i as u32)) && machine.malicious.is_none();
            let counts = machine.node.id().is_some_and(|node| members.contains(&node) && node != broadcast.root);
            let done = machine.seen.complete.contains_key(&broadcast) || machine.seen.failed.contains_key(&broadcast);
            assert!(done || !running || !counts, "{broadcast} is released before node {i} is done");
        }
    }

    /// Bytes and pieces of what a root broadcasts.
    fn object(&self, broadcast: BroadcastId) -> (u64, u32) {
        let (bytes, piece_size) = self.objects[&broadcast];
        (bytes, bytes.div_ceil(u64::from(piece_size)) as u32)
    }

    fn machine(&self, index: NodeIndex) -> &Machine {
        &self.machines[index.0 as usize]
    }
}

impl Machine {
    /// Whether a piece is on its disk.
    pub fn holds(&self, broadcast: BroadcastId, piece: PieceIndex) -> bool {
        self.stored.get(&broadcast).is_some_and(|stored| stored.contains(piece))
    }

    /// What is on its disk of a broadcast.
    pub fn stored(&self, broadcast: BroadcastId) -> Option<&HaveSet> {
        self.stored.get(&broadcast)
    }
}

#[cfg(test)]
mod tests;
