//! Memory of pieces on their way in. A piece is one contiguous buffer; links fill disjoint ranges of it at the same
//! time, each through a part of its own that is split off and put back ([`BytesMut`]), so that no two ever alias.
//!
//! Left to others: which pieces there may be, and what becomes of a complete one.

use std::collections::BTreeMap;

use bytes::BytesMut;
use mobcast_proto::ByteRange;

/// A part of a piece's buffer.
#[derive(Debug)]
struct Segment {
    start: u32,
    bytes: BytesMut,
}

impl Segment {
    fn end(&self) -> u32 {
        self.start + self.bytes.len() as u32
    }
}

/// A part of a piece that one link is filling.
#[derive(Debug)]
pub struct Claim {
    segment: Segment,
}

impl Claim {
    /// Where in the piece it is.
    pub fn range(&self) -> ByteRange {
        ByteRange { start: self.segment.start, end: self.segment.end() }
    }

    /// The memory to be filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.segment.bytes
    }
}

/// A piece that is being filled.
#[derive(Debug)]
pub struct Assembly {
    number: u64,
    /// Not filled and not claimed; ascending.
    free: Vec<Segment>,
    /// Filled; ascending, neighbours joined.
    filled: Vec<Segment>,
    /// Claims that are out.
    claimed: usize,
}

/// Buffers of pieces that were given up while links had claims in them: their memory goes with the last of these.
#[derive(Debug, Default)]
pub struct Lent {
    /// By the assembly's number: claims that are out, and bytes of the buffer.
    buffers: BTreeMap<u64, (usize, u64)>,
}

impl Lent {
    /// Claims of a piece that was given up are dropped.
    pub fn put_back(&mut self, number: u64, claims: Vec<Claim>) {
        if let Some((claimed, _)) = self.buffers.get_mut(&number) {
            *claimed -= claims.len();
            if *claimed == 0 {
                self.buffers.remove(&number);
            }
        }
    }

    /// Bytes of the buffers.
    pub fn bytes(&self) -> u64 {
        self.buffers.values().map(|(_, bytes)| bytes).sum()
    }
}

impl Assembly {
    /// A piece of which nothing has arrived. What the buffer holds does not matter. `number` tells it from another
    /// attempt at the same piece.
    pub fn new(buffer: BytesMut, number: u64) -> Assembly {
        Assembly { number, free: vec![Segment { start: 0, bytes: buffer }], filled: Vec::new(), claimed: 0 }
    }

    /// The number that it was made with.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Takes what is free of a range. What is not in the answer has arrived or is arriving over another link.
    pub fn claim(&mut self, range: ByteRange) -> Vec<Claim> {
        let mut claims = Vec::with_capacity(1);
        let mut at = self.free.partition_point(|segment| segment.end() <= range.start);
        while at < self.free.len() && self.free[at].start < range.end {
            let segment = &mut self.free[at];
            if segment.end() > range.end {
                let tail = segment.bytes.split_off((range.end - segment.start) as usize);
                self.free.insert(at + 1, Segment { start: range.end, bytes: tail });
            }
            let segment = &mut self.free[at];
            if segment.start < range.start {
                let bytes = segment.bytes.split_off((range.start - segment.start) as usize);
                claims.push(Claim { segment: Segment { start: range.start, bytes } });
                at += 1;
            } else {
                claims.push(Claim { segment: self.free.remove(at) });
            }
        }
        self.claimed += claims.len();
        claims
    }

    /// Takes a claim back that was filled.
    pub fn put_filled(&mut self, claim: Claim) {
        self.claimed -= 1;
        put(&mut self.filled, claim.segment);
    }

    /// Takes a claim back that was not filled.
    pub fn put_free(&mut self, claim: Claim) {
        self.claimed -= 1;
        put(&mut self.free, claim.segment);
    }

    /// Whether the first `len` bytes are filled.
    pub fn is_filled(&self, len: u32) -> bool {
        matches!(&self.filled[..], [only] if only.start == 0 && only.end() >= len)
    }

    /// The buffer in one part again; none while a claim is out, and then it is lent.
    pub fn into_buffer(self, size: u32, lent: &mut Lent) -> Option<BytesMut> {
        if self.claimed > 0 {
            lent.buffers.insert(self.number, (self.claimed, u64::from(size)));
            return None;
        }
        let mut segments = self.free;
        segments.extend(self.filled);
        segments.sort_by_key(|segment| segment.start);
        let whole = segments.into_iter().reduce(|mut whole, next| {
            whole.bytes.unsplit(next.bytes);
            whole
        });
        whole.map(|whole| whole.bytes)
    }
}

/// Inserts a segment among others of one buffer, and joins it with its neighbours.
fn put(segments: &mut Vec<Segment>, segment: Segment) {
    let mut at = segments.partition_point(|other| other.start < segment.start);
    if at > 0 && segments[at - 1].end() == segment.start {
        at -= 1;
        segments[at].bytes.unsplit(segment.bytes);
    } else {
        segments.insert(at, segment);
    }
    if at + 1 < segments.len() && segments[at].end() == segments[at + 1].start {
        let next = segments.remove(at + 1);
        segments[at].bytes.unsplit(next.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u32 = 1000;

    proptest! {
        #[test]
        fn every_byte_is_claimed_once_and_the_buffer_comes_back_whole(
            ranges in proptest::collection::vec((0u32..SIZE, 1u32..300, any::<bool>()), 1..40),
        ) {
            let mut piece = Assembly::new(BytesMut::zeroed(SIZE as usize), 0);
            let (mut model, mut out) = (vec![0u8; SIZE as usize], Vec::new());
            for (i, (start, len, keep)) in ranges.into_iter().enumerate() {
                let range = ByteRange { start, end: (start + len).min(SIZE) };
                let claims = piece.claim(range);
                let claimed: u32 = claims.iter().map(|claim| claim.range().len()).sum();
                let free = model[range.start as usize..range.end as usize].iter().filter(|&&b| b == 0).count();
                prop_assert_eq!(claimed as usize, free);
                for mut claim in claims {
                    let at = claim.range();
                    model[at.start as usize..at.end as usize].fill(i as u8 + 1);
                    claim.bytes_mut().fill(i as u8 + 1);
                    if keep { out.push(claim) } else { piece.put_filled(claim) }
                }
                if out.len() > 3 {
                    for claim in out.drain(..) {
                        let at = claim.range();
                        model[at.start as usize..at.end as usize].fill(0);
                        piece.put_free(claim);
                    }
                }
            }
            out.drain(..).for_each(|claim| piece.put_filled(claim));
            let rest = piece.claim(ByteRange::whole(SIZE));
            rest.into_iter().for_each(|mut claim| {
                claim.bytes_mut().fill(0);
                piece.put_filled(claim);
            });
            prop_assert!(piece.is_filled(SIZE));
            let buffer = piece.into_buffer(SIZE, &mut Lent::default()).expect("no claim is out");
            prop_assert_eq!(&buffer[..], &model[..]);
        }
    }

    #[test]
    fn a_buffer_with_a_claim_out_does_not_come_back() {
        let (mut piece, mut lent) = (Assembly::new(BytesMut::zeroed(100), 7), Lent::default());
        let first = piece.claim(ByteRange { start: 10, end: 20 });
        let second = piece.claim(ByteRange { start: 0, end: 30 });
        assert_eq!((first.len(), second.len()), (1, 2));
        assert!(piece.into_buffer(100, &mut lent).is_none());
        lent.put_back(8, Vec::new());
        lent.put_back(7, second);
        assert_eq!(lent.bytes(), 100);
        lent.put_back(7, first);
        assert_eq!(lent.bytes(), 0);
    }
}
