//! Which bytes of TCP streams have passed a point: those that pass for the first time are counted apart from those that
//! pass again.

use std::collections::HashMap;

use super::packet::StreamKey;

/// Ranges of a stream that were overtaken and not seen yet, at most so many; beyond that the lowest are forgotten.
const HOLES_MAX: usize = 4_096;

/// The streams that pass a point.
#[derive(Default, Debug)]
pub struct Streams {
    streams: HashMap<StreamKey, Passed>,
}

/// What has passed of one stream. Positions count from its first byte seen, far enough from zero for what was sent
/// before that.
#[derive(Debug)]
struct Passed {
    /// The sequence number at position `end`.
    sequence: u32,
    end: u64,
    /// In rising order, disjoint, below `end`.
    holes: Vec<(u64, u64)>,
}

impl Streams {
    /// Bytes of this range of a stream that pass for the first time.
    pub fn pass(&mut self, key: StreamKey, sequence: u32, bytes: u32) -> u64 {
        let start = 1 << 32;
        let passed = self.streams.entry(key).or_insert(Passed { sequence, end: start, holes: Vec::new() });
        passed.pass(sequence, bytes)
    }

    /// Forgets all streams.
    pub fn clear(&mut self) {
        self.streams.clear();
    }
}

impl Passed {
    fn pass(&mut self, sequence: u32, bytes: u32) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let distance = i64::from(sequence.wrapping_sub(self.sequence).cast_signed());
        let from = self.end.saturating_add_signed(distance);
        let to = from + u64::from(bytes);
        let mut first = 0;
        if to > self.end {
            if from > self.end {
                self.holes.push((self.end, from));
            }
            first += to - from.max(self.end);
            self.sequence = self.sequence.wrapping_add((to - self.end) as u32);
            self.end = to;
        }
        first + self.fill(from, to)
    }

    /// Bytes of the range that were missing; they are not from here on.
    fn fill(&mut self, from: u64, to: u64) -> u64 {
        // What was passed last is not a hole, so a range in order, the usual case, costs nothing.
        if self.holes.last().is_none_or(|(_, end)| *end <= from) {
            return 0;
        }
        let mut filled = 0;
        let mut left = Vec::with_capacity(self.holes.len() + 1);
        for &(start, end) in &self.holes {
            let (low, high) = (start.max(from), end.min(to));
            if low >= high {
                left.push((start, end));
                continue;
            }
            filled += high - low;
            left.extend([(start, low), (high, end)].into_iter().filter(|(a, b)| a < b));
        }
        let excess = left.len().saturating_sub(HOLES_MAX);
        left.drain(..excess);
        self.holes = left;
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::{Packet, tests::tcp};
    use super::*;

    fn pass(streams: &mut Streams, sequence: u32, bytes: usize) -> u64 {
        let segment = Packet::parse(&tcp(1, 2, sequence, bytes, 0)).unwrap().segment(0..1);
        let (key, sequence, bytes) = segment.stream().unwrap();
        streams.pass(key, sequence, bytes)
    }

    #[test]
    fn every_byte_counts_once_in_whatever_order() {
        let mut streams = Streams::default();
        let start = u32::MAX - 1_500;
        assert_eq!(pass(&mut streams, start, 1_000), 1_000);
        assert_eq!(pass(&mut streams, start, 1_000), 0, "again");
        assert_eq!(pass(&mut streams, start.wrapping_add(2_000), 1_000), 1_000, "behind a gap, over the wrap");
        assert_eq!(pass(&mut streams, start.wrapping_add(1_500), 1_000), 500, "half of the gap");
        assert_eq!(pass(&mut streams, start.wrapping_add(900), 700), 500, "the other half");
        assert_eq!(pass(&mut streams, start.wrapping_add(3_000), 500), 500, "in order");
        assert_eq!(pass(&mut streams, start, 1_400), 0);
        assert_eq!(pass(&mut streams, start, 0), 0);
    }
}
