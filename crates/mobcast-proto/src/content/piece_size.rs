//! The automatic piece size, from object size, group size and link rates.

use crate::content::object::ObjectKind;
use crate::limits::{PIECE_SIZE_MAX, PIECE_SIZE_MIN, PIECES_MAX};

/// Receivers assumed when the root does not know how many will come.
const RECEIVERS_UNKNOWN: u64 = 16;
/// Pieces per receiver: enough that all members of a cluster import at the same time until near the end
/// (c ~ F / (50..200 s), after the binomial pipeline's optimum; RDMC, DSN 2018).
const PIECES_PER_RECEIVER: u64 = 64;
/// Beyond this many pieces the tail is no longer what costs time.
const PIECES_WANTED_MAX: u64 = 4096;
/// Fewer pieces leave too little to exchange.
const PIECES_WANTED_MIN: u64 = 256;
/// Largest automatic choice, bytes: larger ones save nothing more and make the tail longer.
const AUTOMATIC_MAX: u64 = 4 << 20;
/// For a stream, whose length nobody knows, bytes.
const STREAM_PIECE: u32 = 1 << 20;

/// What the choice is made from.
#[derive(Clone, Copy, Debug)]
pub struct PieceSizeInput {
    /// The kind of object.
    pub kind: ObjectKind,
    /// Bytes of the object, where known.
    pub length: Option<u64>,
    /// Receivers expected, where known.
    pub receivers: Option<u32>,
    /// Rate of the slowest link in use, bytes per second, where measured.
    pub link_rate_bytes_per_s: Option<u64>,
}

/// The piece size for an object: a power of two. One piece should not take a link more than about a second.
pub fn automatic_piece_size(input: PieceSizeInput) -> u32 {
    let Some(length) = input.length else {
        return STREAM_PIECE;
    };
    let receivers = input.receivers.map_or(RECEIVERS_UNKNOWN, u64::from).max(1);
    let pieces = (receivers * PIECES_PER_RECEIVER).clamp(PIECES_WANTED_MIN, PIECES_WANTED_MAX);
    let by_count = power_of_two_below(length / pieces);
    let by_rate = input.link_rate_bytes_per_s.map_or(AUTOMATIC_MAX, power_of_two_below);
    let floor = u64::from(PIECE_SIZE_MIN).max(length.div_ceil(u64::from(PIECES_MAX)).next_power_of_two());
    by_count.min(by_rate).min(AUTOMATIC_MAX).max(floor).min(u64::from(PIECE_SIZE_MAX)) as u32
}

fn power_of_two_below(value: u64) -> u64 {
    1 << value.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(length: u64, receivers: u32) -> u32 {
        automatic_piece_size(PieceSizeInput {
            kind: ObjectKind::File,
            length: Some(length),
            receivers: Some(receivers),
            link_rate_bytes_per_s: None,
        })
    }

    #[test]
    fn the_choice_weighs_object_and_group() {
        assert_eq!(chosen(1, 1), PIECE_SIZE_MIN);
        assert_eq!(chosen(600_000_000, 63), 128 << 10);
        assert_eq!(chosen(2 << 30, 1), 4 << 20, "few receivers: large pieces");
        assert_eq!(chosen(200_000_000_000, 500), 4 << 20);
        assert_eq!(chosen(8 << 40, 500), 16 << 20, "the largest object takes the largest pieces");
    }

    #[test]
    fn a_slow_link_makes_pieces_small() {
        let input = PieceSizeInput {
            kind: ObjectKind::File,
            length: Some(1 << 30),
            receivers: Some(4),
            link_rate_bytes_per_s: Some(100_000),
        };
        assert_eq!(automatic_piece_size(input), 64 << 10);
    }

    #[test]
    fn every_choice_keeps_the_limits() {
        for shift in 0..44 {
            for receivers in [1, 7, 1_000, 100_000] {
                let size = chosen((1u64 << shift) - 1, receivers);
                assert!(size.is_power_of_two() && (PIECE_SIZE_MIN..=PIECE_SIZE_MAX).contains(&size));
                assert!(((1u64 << shift) - 1).div_ceil(u64::from(size)) <= u64::from(PIECES_MAX));
            }
        }
    }
}
