//! What one broadcast takes at least, in closed form, where nodes are joined by a network that never binds and only
//! their own up- and downlinks do. For checking programs and models against.

/// Seconds that a broadcast of `object_bytes` to receivers with the given uplinks takes at least, as a fluid: what the
/// root sends, what the slowest receiver takes in, and what all together send (Kumar, Ross 2006). It is reached. Rates
/// are bytes per second; infinite when a rate that is needed is zero.
pub fn fluid_seconds(object_bytes: u64, root_up: u64, receivers_up: &[u64], slowest_down: u64) -> f64 {
    if receivers_up.is_empty() {
        return 0.0;
    }
    let object = object_bytes as f64;
    let all_up = root_up as f64 + receivers_up.iter().map(|rate| *rate as f64).sum::<f64>();
    let copies = receivers_up.len() as f64;
    let bounds = [object / root_up as f64, object / slowest_down as f64, copies * object / all_up];
    bounds.into_iter().fold(0.0, f64::max)
}

/// The time that a broadcast of an object of `pieces` pieces to `receivers` nodes takes at least, in units of the time
/// in which one node sends the object once, when all uplinks are alike and only whole pieces are passed on: 1 +
/// floor(log2 N) / M (Mundinger, Weber, Weiss 2008). It is reached. No pieces and no receivers take no time.
pub fn pieces_time(receivers: u64, pieces: u64) -> f64 {
    match (receivers.checked_ilog2(), pieces) {
        (None, _) | (_, 0) => 0.0,
        (Some(rounds), pieces) => 1.0 + f64::from(rounds) / pieces as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fluid_is_bound_by_root_by_receiver_or_by_all() {
        let peers = [10; 4];
        assert_eq!(fluid_seconds(1_000, 5, &peers, 100), 200.0, "the root");
        assert_eq!(fluid_seconds(1_000, 100, &peers, 8), 125.0, "the slowest receiver");
        assert_eq!(fluid_seconds(1_000, 40, &[0; 4], 100), 100.0, "receivers that send nothing: four copies");
        assert_eq!(fluid_seconds(1_000, 20, &[20, 0, 0, 0], 100), 100.0, "all together");
        assert_eq!(fluid_seconds(1_000, 0, &peers, 8), f64::INFINITY);
        assert_eq!(fluid_seconds(1_000, 0, &[], 8), 0.0);
    }

    #[test]
    fn one_piece_doubles_and_many_pieces_flow() {
        assert_eq!([1, 2, 3, 4, 7, 8].map(|receivers| pieces_time(receivers, 1)), [1.0, 2.0, 2.0, 3.0, 3.0, 4.0]);
        assert_eq!(pieces_time(8, 300), 1.01);
        assert_eq!((pieces_time(0, 5), pieces_time(5, 0)), (0.0, 0.0));
    }

    /// Rounds that a doubling broadcast of one piece takes: whoever has it sends it once in each round.
    #[test]
    fn one_piece_takes_as_many_rounds_as_doubling() {
        for receivers in 1..100u64 {
            let rounds = (0u32..).find(|rounds| 1u64 << rounds > receivers).unwrap();
            assert_eq!(pieces_time(receivers, 1), f64::from(rounds));
        }
    }
}
