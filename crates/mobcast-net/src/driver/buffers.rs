//! Memory of pieces on their way in. A piece is one contiguous buffer; links fill disjoint ranges of it at the same
//! time, each through a part of its own that is split off and put back ([`BytesMut`]), so that no two ever alias. Blocks
//! that one part has whole are hashed by who filled it, while they are in the processor's cache.
//!
//! Left to others: which pieces there may be, and what becomes of a complete one.

use bytes::BytesMut;
use mobcast_proto::{ByteRange, Digest};

use crate::store::{BLOCK_BYTES, hash_block};

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
    /// Values of its blocks, with their numbers.
    hashed: Vec<(usize, Digest)>,
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

    /// Hashes the blocks that it has whole, once it is filled. `offset` is that of the piece in the object, and `len`
    /// the piece's length. A piece of one block is hashed when it is complete.
    pub fn hash_blocks(&mut self, offset: u64, len: u32) {
        if len <= BLOCK_BYTES {
            return;
        }
        let ByteRange { start, end } = self.range();
        for first in (start.next_multiple_of(BLOCK_BYTES)..end).step_by(BLOCK_BYTES as usize) {
            let last = len.min(first + BLOCK_BYTES);
            if last <= end {
                let block = &self.segment.bytes[(first - start) as usize..(last - start) as usize];
                self.hashed.push(((first / BLOCK_BYTES) as usize, hash_block(offset + u64::from(first), block)));
            }
        }
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
    /// Values of the blocks of `filled` that were hashed.
    blocks: Vec<Option<Digest>>,
}

impl Assembly {
    /// A piece of which nothing has arrived. What the buffer holds does not matter. `number` tells it from another
    /// attempt at the same piece.
    pub fn new(buffer: BytesMut, number: u64) -> Assembly {
        let blocks = vec![None; buffer.len().div_ceil(BLOCK_BYTES as usize)];
        Assembly { number, free: vec![Segment { start: 0, bytes: buffer }], filled: Vec::new(), blocks }
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
                claims.push(Claim { segment: Segment { start: range.start, bytes }, hashed: Vec::new() });
                at += 1;
            } else {
                claims.push(Claim { segment: self.free.remove(at), hashed: Vec::new() });
            }
        }
        claims
    }

    /// Takes a claim back that was filled.
    pub fn put_filled(&mut self, claim: Claim) {
        claim.hashed.iter().for_each(|&(block, hash)| self.blocks[block] = Some(hash));
        put(&mut self.filled, claim.segment);
    }

    /// Takes a claim back that was not filled.
    pub fn put_free(&mut self, claim: Claim) {
        put(&mut self.free, claim.segment);
    }

    /// Takes the values of its blocks, where they were hashed.
    pub fn take_blocks(&mut self) -> Vec<Option<Digest>> {
        std::mem::take(&mut self.blocks)
    }

    /// Whether the first `len` bytes are filled.
    pub fn is_filled(&self, len: u32) -> bool {
        matches!(&self.filled[..], [only] if only.start == 0 && only.end() >= len)
    }

    /// The buffer in one part again; none while a claim is out.
    pub fn into_buffer(self, size: u32) -> Option<BytesMut> {
        let mut segments = self.free;
        segments.extend(self.filled);
        segments.sort_by_key(|segment| segment.start);
        let whole = segments.into_iter().reduce(|mut whole, next| {
            if whole.end() == next.start {
                whole.bytes.unsplit(next.bytes);
            }
            whole
        });
        whole.filter(|whole| whole.start == 0 && whole.end() == size).map(|whole| whole.bytes)
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
            let buffer = piece.into_buffer(SIZE).expect("no claim is out");
            prop_assert_eq!(&buffer[..], &model[..]);
        }
    }

    #[test]
    fn blocks_are_hashed_where_one_claim_has_them_whole() {
        const LEN: u32 = 3 * BLOCK_BYTES + 500;
        let mut piece = Assembly::new(BytesMut::zeroed(4 * BLOCK_BYTES as usize), 0);
        for (start, end) in [(0, BLOCK_BYTES + 1), (BLOCK_BYTES + 1, LEN)] {
            for mut claim in piece.claim(ByteRange { start, end }) {
                claim.bytes_mut().fill(7);
                claim.hash_blocks(0, LEN);
                piece.put_filled(claim);
            }
        }
        let hashed: Vec<bool> = piece.take_blocks().iter().map(Option::is_some).collect();
        assert_eq!(hashed, [true, false, true, true], "the second came in two parts; the last one is short");
        let mut small = Assembly::new(BytesMut::zeroed(BLOCK_BYTES as usize / 4), 0);
        let mut claim = small.claim(ByteRange::whole(BLOCK_BYTES / 4)).remove(0);
        claim.hash_blocks(u64::from(BLOCK_BYTES / 4), BLOCK_BYTES / 4);
        small.put_filled(claim);
        assert_eq!(small.take_blocks(), [None]);
    }

    #[test]
    fn a_buffer_with_a_claim_out_does_not_come_back() {
        let mut piece = Assembly::new(BytesMut::zeroed(100), 0);
        let claims = piece.claim(ByteRange { start: 10, end: 20 });
        assert_eq!(claims.len(), 1);
        assert!(piece.into_buffer(100).is_none());
    }
}
