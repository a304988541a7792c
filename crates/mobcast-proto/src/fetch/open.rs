//! Pieces that were asked for and are not stored yet: who was asked for which bytes, and which have arrived.

use crate::flow::window::RequestMark;
use crate::time::Time;
use crate::units::{ByteRange, LinkId};

/// A request of one piece at one peer.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The peer.
    pub peer: LinkId,
    /// The bytes that have not arrived from it.
    pub rest: ByteRange,
    /// For the delivery rate.
    pub mark: RequestMark,
}

/// One piece that is on its way.
#[derive(Clone, Debug)]
pub struct OpenPiece {
    len: u32,
    /// Arrived, ascending, disjoint, not touching.
    received: Vec<ByteRange>,
    /// Requests that are not served in full.
    pub parts: Vec<Part>,
    /// Peers from which bytes have come: to blame if they are wrong.
    pub contributors: Vec<LinkId>,
    /// Those of them that were not asked when they began.
    pub unasked: Vec<LinkId>,
    /// When the last byte arrived: from then on it waits for being verified and stored.
    pub arrived_at: Option<Time>,
}

impl OpenPiece {
    /// A piece of `len` bytes, of which nothing has arrived.
    pub fn new(len: u32) -> OpenPiece {
        OpenPiece {
            len,
            received: Vec::new(),
            parts: Vec::new(),
            contributors: Vec::new(),
            unasked: Vec::new(),
            arrived_at: None,
        }
    }

    /// Bytes of the piece.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether nothing has arrived.
    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    /// Whether every byte has arrived.
    pub fn is_complete(&self) -> bool {
        self.received == [ByteRange::whole(self.len)]
    }

    /// Whether nothing would be missing if a range arrived.
    pub fn is_completed_by(&self, range: ByteRange) -> bool {
        let mut after = self.clone();
        after.insert(range);
        after.is_complete()
    }

    /// Bytes that have arrived.
    pub fn received_bytes(&self) -> u32 {
        self.received.iter().map(|range| range.len()).sum()
    }

    /// From the first missing byte to the end of the gap that it starts; none if nothing is missing.
    pub fn first_gap(&self) -> Option<ByteRange> {
        let first = self.received.first();
        let start = first.filter(|range| range.start == 0).map_or(0, |range| range.end);
        let next = self.received.iter().find(|range| range.start > start);
        let gap = ByteRange { start, end: next.map_or(self.len, |range| range.start) };
        (!gap.is_empty()).then_some(gap)
    }

    /// The same for a peer that is asked once: none if it was asked already.
    pub fn first_gap_for(&self, peer: LinkId) -> Option<ByteRange> {
        self.first_gap().filter(|_| self.parts.iter().all(|part| part.peer != peer))
    }

    /// From the first byte that has neither arrived nor been asked for to the end of the gap that it starts; none if there
    /// is no such byte.
    pub fn first_unasked(&self) -> Option<ByteRange> {
        let taken = || self.received.iter().copied().chain(self.parts.iter().map(|part| part.rest));
        let mut start = 0;
        while let Some(range) = taken().find(|range| range.start <= start && start < range.end) {
            start = range.end;
        }
        let end = taken().map(|range| range.start).filter(|&at| at > start).min().unwrap_or(self.len);
        (start < self.len).then_some(ByteRange { start, end })
    }

    /// Bytes have arrived; returns how many of them are new.
    pub fn insert(&mut self, range: ByteRange) -> u32 {
        let before = self.received_bytes();
        let mut merged = range;
        self.received.retain(|other| {
            let apart = other.end < merged.start || merged.end < other.start;
            if !apart {
                merged = ByteRange { start: merged.start.min(other.start), end: merged.end.max(other.end) };
            }
            apart
        });
        let at = self.received.partition_point(|other| other.start < merged.start);
        self.received.insert(at, merged);
        self.received_bytes() - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::window::Window;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_unasked_is_found(ranges in proptest::collection::vec((any::<bool>(), 0u32..100, 1u32..30), 0..20)) {
            let mut piece = OpenPiece::new(130);
            let mut taken = [false; 130];
            for (arrived, start, len) in ranges {
                let range = ByteRange { start, end: start + len };
                if arrived {
                    piece.insert(range);
                } else {
                    let mark = Window::default().handle_request(Time::ZERO, len);
                    piece.parts.push(Part { peer: LinkId(1), rest: range, mark });
                }
                taken[start as usize..(start + len) as usize].fill(true);
            }
            let start = taken.iter().position(|&taken| !taken);
            let end = |start: usize| taken[start..].iter().position(|&taken| taken).map_or(130, |i| start + i);
            let gap = start.map(|start| ByteRange { start: start as u32, end: end(start) as u32 });
            prop_assert_eq!(piece.first_unasked(), gap);
        }

        #[test]
        fn ranges_add_up(ranges in proptest::collection::vec((0u32..100, 1u32..30), 1..20)) {
            let mut piece = OpenPiece::new(130);
            let mut model = [false; 130];
            for (start, len) in ranges {
                let range = ByteRange { start, end: start + len };
                let fresh = model[start as usize..(start + len) as usize].iter().filter(|&&b| !b).count();
                prop_assert_eq!(piece.insert(range) as usize, fresh);
                model[start as usize..(start + len) as usize].fill(true);
                prop_assert_eq!(piece.received_bytes() as usize, model.iter().filter(|&&b| b).count());
                let gap_start = model.iter().position(|&b| !b);
                prop_assert_eq!(piece.first_gap().map(|gap| gap.start as usize), gap_start);
                if let (Some(gap), Some(start)) = (piece.first_gap(), gap_start) {
                    let end = model[start..].iter().position(|&b| b).map_or(130, |i| start + i);
                    prop_assert_eq!(gap.end as usize, end);
                }
            }
            prop_assert_eq!(piece.is_complete(), model.iter().all(|&b| b));
        }
    }
}
