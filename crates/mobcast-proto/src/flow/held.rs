//! Requests for pieces that are not here yet. A child in a tree asks its parent in advance, so that each piece is passed on
//! the moment it is stored, and no round trip passes between.

use std::collections::BTreeMap;

use crate::limits::{OPEN_PIECES_BYTES_MAX, PIECE_SIZE_MIN};
use crate::units::{ByteRange, LinkId, PieceIndex};

/// Requests of one peer that wait for pieces, of all broadcasts: the open pieces of a node at the smallest piece size.
pub(crate) const HELD_MAX: usize = 3_072;
const _: () = assert!(HELD_MAX as u64 >= OPEN_PIECES_BYTES_MAX / PIECE_SIZE_MIN as u64);

/// Such requests, of one broadcast.
#[derive(Clone, Debug, Default)]
pub struct HeldRequests {
    by_piece: BTreeMap<PieceIndex, Vec<(LinkId, ByteRange)>>,
    by_link: BTreeMap<LinkId, usize>,
}

impl HeldRequests {
    /// Keeps a request.
    pub fn add(&mut self, link: LinkId, piece: PieceIndex, range: ByteRange) {
        *self.by_link.entry(link).or_insert(0) += 1;
        self.by_piece.entry(piece).or_default().push((link, range));
    }

    /// Requests of a peer that wait.
    pub fn of(&self, link: LinkId) -> usize {
        self.by_link.get(&link).copied().unwrap_or(0)
    }

    /// A peer takes its requests for a piece back.
    pub fn cancel(&mut self, link: LinkId, piece: PieceIndex) {
        let Some(waiting) = self.by_piece.get_mut(&piece) else { return };
        let before = waiting.len();
        waiting.retain(|(other, _)| *other != link);
        let gone = before - waiting.len();
        if waiting.is_empty() {
            self.by_piece.remove(&piece);
        }
        self.count_off(link, gone);
    }

    /// A peer is gone.
    pub fn remove_link(&mut self, link: LinkId) {
        if self.by_link.remove(&link).is_some() {
            self.by_piece.values_mut().for_each(|waiting| waiting.retain(|(other, _)| *other != link));
            self.by_piece.retain(|_, waiting| !waiting.is_empty());
        }
    }

    /// A piece is here: who waits for which bytes of it.
    pub fn take(&mut self, piece: PieceIndex) -> Vec<(LinkId, ByteRange)> {
        let waiting = self.by_piece.remove(&piece).unwrap_or_default();
        waiting.iter().for_each(|&(link, _)| self.count_off(link, 1));
        waiting
    }

    /// Nothing will come any more: who waits for which piece.
    pub fn take_all(&mut self) -> Vec<(LinkId, PieceIndex)> {
        self.by_link.clear();
        let all = std::mem::take(&mut self.by_piece);
        all.into_iter().flat_map(|(piece, waiting)| waiting.into_iter().map(move |(link, _)| (link, piece))).collect()
    }

    fn count_off(&mut self, link: LinkId, requests: usize) {
        if let Some(count) = self.by_link.get_mut(&link) {
            *count -= requests;
            if *count == 0 {
                self.by_link.remove(&link);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_until_it_is_taken_back_served_or_its_peer_gone() {
        let mut held = HeldRequests::default();
        let whole = ByteRange::whole(10);
        for (link, piece) in [(1, 5), (2, 5), (1, 6), (3, 6), (3, 7)] {
            held.add(LinkId(link), PieceIndex(piece), whole);
        }
        assert_eq!([1, 2, 4].map(|link| held.of(LinkId(link))), [2, 1, 0]);
        held.cancel(LinkId(1), PieceIndex(6));
        held.remove_link(LinkId(3));
        assert_eq!(held.take(PieceIndex(5)), [(LinkId(1), whole), (LinkId(2), whole)]);
        assert!(held.take(PieceIndex(6)).is_empty() && held.take_all().is_empty());
        assert!(held.by_link.is_empty(), "everything that waited is counted off");
    }
}
