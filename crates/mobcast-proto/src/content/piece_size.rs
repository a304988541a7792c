//! The automatic piece size, from object size and group size.

use crate::limits::{PIECE_SIZE_MAX, PIECE_SIZE_MIN, PIECES_MAX};

/// Receivers assumed when the root does not know how many will come.
const RECEIVERS_UNKNOWN: u64 = 16;
/// What a tail costs in time grows with the piece, what announcing costs grows with their number: the sum is least at a piece
/// that grows as the square root of the object, as in any pipeline. This times the root, bytes: what served 15 receivers of
/// 50 to 600 MB in the lab (32 or 64 KiB; half of it made no difference).
const PIECE_TIMES_ROOT: f64 = 4.5;
/// Smaller pieces than this, bytes…
const SMALL: u64 = 64 << 10;
/// …are for objects that would be fewer than so many of the next size: from there on, 16 nodes were as fast with larger ones, in four
/// fifths of the processor time. Where more share the links between clusters, a large piece is long on its way: 64 nodes on links of 0.75
/// MB/s began 0.7 s later with them (one run each).
const SMALL_PIECES_MAX: u64 = 1_500;
/// Objects below this, bytes, take half of it at most: 100 MB go over a trunk between two clusters of eight at 0.91 of it with 32 KiB and 0.90 with
/// 64, over a switch at 0.937 and 0.943 (packet model).
const LARGE: u64 = 150_000_000;
/// Fewer receivers have less to exchange: their pieces are larger, for up to this many of them.
const RECEIVERS_MANY: u64 = 15;
/// Largest automatic choice, bytes: larger ones save nothing more and make the tail longer.
const AUTOMATIC_MAX: u64 = 4 << 20;
/// For a stream, whose length nobody knows, bytes.
const STREAM_PIECE: u32 = 1 << 20;

/// What the choice is made from.
#[derive(Clone, Copy, Debug)]
pub struct PieceSizeInput {
    /// Bytes of the object, where known.
    pub length: Option<u64>,
    /// Receivers expected, where known.
    pub receivers: Option<u32>,
}

/// What a strategy sends at a time, unless that were more pieces than an object may have or it leaves the choice: then the
/// automatic size.
pub fn strategy_piece_size(own: Option<u32>, input: PieceSizeInput) -> u32 {
    let fits =
        |size: &u32| input.length.is_none_or(|length| length.div_ceil(u64::from(*size)) <= u64::from(PIECES_MAX));
    own.filter(fits).unwrap_or_else(|| automatic_piece_size(input))
}

/// What a strategy sends at a time that cuts an object into one part for each node: no more than a part, so that there is something in each.
pub fn piece_size_of_parts(own: u32, parts: u64, length: u64) -> u32 {
    let part = power_of_two_below(length / parts.max(1)).max(u64::from(PIECE_SIZE_MIN));
    own.min(u32::try_from(part).unwrap_or(own))
}

/// The piece size for an object: a power of two.
pub fn automatic_piece_size(input: PieceSizeInput) -> u32 {
    let Some(length) = input.length else {
        return STREAM_PIECE;
    };
    let receivers = input.receivers.map_or(RECEIVERS_UNKNOWN, u64::from);
    let few = (RECEIVERS_MANY + 1) as f64 / (receivers.clamp(1, RECEIVERS_MANY) + 1) as f64;
    let most = if length < LARGE { SMALL / 2 } else { SMALL };
    let least = if receivers <= RECEIVERS_UNKNOWN { (length / SMALL_PIECES_MAX).min(most) } else { 0 };
    let wanted = ((length as f64).sqrt() * PIECE_TIMES_ROOT * few) as u64;
    let by_count = power_of_two_below(wanted.max(least));
    let floor = u64::from(PIECE_SIZE_MIN).max(length.div_ceil(u64::from(PIECES_MAX)).next_power_of_two());
    by_count.min(AUTOMATIC_MAX).max(floor).min(u64::from(PIECE_SIZE_MAX)) as u32
}

fn power_of_two_below(value: u64) -> u64 {
    1 << value.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(length: u64, receivers: u32) -> u32 {
        automatic_piece_size(PieceSizeInput { length: Some(length), receivers: Some(receivers) })
    }

    #[test]
    fn the_choice_weighs_object_and_group() {
        assert_eq!(chosen(1, 1), PIECE_SIZE_MIN);
        assert_eq!(chosen(600_000_000, 15), 64 << 10);
        assert_eq!(chosen(200_000_000, 15), 64 << 10);
        assert_eq!(chosen(150_000_000, 63), 32 << 10);
        assert_eq!(chosen(50_000_000, 15), 32 << 10);
        assert_eq!(chosen(149_999_999, 15), 32 << 10);
        assert_eq!(chosen(150_000_000, 15), 64 << 10);
        assert_eq!(chosen(2 << 30, 1), 1 << 20, "few receivers: large pieces");
        assert_eq!(chosen(200_000_000_000, 500), 1 << 20);
        assert_eq!(chosen(8 << 40, 500), 16 << 20, "the largest object takes the largest pieces");
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
