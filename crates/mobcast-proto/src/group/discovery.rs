//! Clusters found by measurement (theory of the project: a wrong split costs little, a wrong merge over a slow link
//! costs much; so a node joins a cluster only if it is clearly near). Rule 0: a cluster that the user names. Rule 1:
//! round-trip times to cluster leaders.

use crate::time::Duration;
use crate::units::ClusterId;

/// Without any gap in the round-trip times, what is nearer than this is the same cluster.
const THRESHOLD_DEFAULT: Duration = Duration::from_millis(1);
/// A threshold is never below this: scheduling noise on one switch.
const THRESHOLD_MIN: Duration = Duration::from_micros(300);
/// A threshold is never above this: no two machines of one site are further apart.
const THRESHOLD_MAX: Duration = Duration::from_millis(3);
/// Neighbouring round-trip times that differ by this factor show a border between near and far.
const GAP_FACTOR: u64 = 3;

/// What measurements say about a node's place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The node belongs to this cluster.
    Near {
        /// The cluster with the shortest round-trip time.
        cluster: ClusterId,
        /// That time.
        rtt: Duration,
        /// The threshold below which it counts as near.
        threshold: Duration,
    },
    /// None of the leaders is near.
    Far {
        /// The shortest round-trip time, if any leader answered.
        nearest: Option<(ClusterId, Duration)>,
        /// The threshold below which it would have counted as near.
        threshold: Duration,
    },
}

/// Judges the shortest round-trip times to cluster leaders.
pub fn judge(rtts: &[(ClusterId, Option<Duration>)]) -> Verdict {
    let mut answered: Vec<(Duration, ClusterId)> = rtts.iter().filter_map(|&(c, rtt)| Some((rtt?, c))).collect();
    answered.sort_unstable();
    let threshold = threshold(&answered);
    match answered.first() {
        Some(&(rtt, cluster)) if rtt <= threshold => Verdict::Near { cluster, rtt, threshold },
        nearest => Verdict::Far { nearest: nearest.map(|&(rtt, cluster)| (cluster, rtt)), threshold },
    }
}

/// The middle (geometric mean) of the widest gap in the sorted times, if one is wide enough.
fn threshold(sorted: &[(Duration, ClusterId)]) -> Duration {
    let widest = sorted
        .windows(2)
        .map(|pair| (pair[0].0.0.max(1), pair[1].0.0.max(1)))
        .filter(|&(near, far)| far / near >= GAP_FACTOR)
        .max_by(|a, b| (u128::from(a.1) * u128::from(b.0)).cmp(&(u128::from(b.1) * u128::from(a.0))));
    match widest {
        Some((near, far)) => {
            let middle = (u128::from(near) * u128::from(far)).isqrt() as u64;
            Duration(middle.clamp(THRESHOLD_MIN.0, THRESHOLD_MAX.0))
        }
        None => THRESHOLD_DEFAULT,
    }
}

impl Verdict {
    /// The verdict in words, for the report; `name` gives a cluster's name.
    pub fn explain(&self, name: impl Fn(ClusterId) -> String) -> String {
        match self {
            Verdict::Near { cluster, rtt, threshold } => {
                format!("joined {}: {rtt} away, within the threshold of {threshold}", name(*cluster))
            }
            Verdict::Far { nearest: Some((cluster, rtt)), threshold } => {
                format!("founded a cluster: the nearest, {}, is {rtt} away, beyond {threshold}", name(*cluster))
            }
            Verdict::Far { nearest: None, .. } => "founded a cluster: no leader of another one answered".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(rtts: &[Option<u64>]) -> Vec<(ClusterId, Option<Duration>)> {
        rtts.iter().enumerate().map(|(i, rtt)| (ClusterId(i as u32), rtt.map(Duration::from_micros))).collect()
    }

    fn cluster(rtts: &[Option<u64>]) -> Option<u32> {
        match judge(&us(rtts)) {
            Verdict::Near { cluster, .. } => Some(cluster.0),
            Verdict::Far { .. } => None,
        }
    }

    #[test]
    fn a_single_leader_is_near_within_a_millisecond() {
        assert_eq!(cluster(&[Some(200)]), Some(0));
        assert_eq!(cluster(&[Some(1_200)]), None);
        assert_eq!(cluster(&[Some(20_000)]), None);
    }

    #[test]
    fn a_gap_moves_the_threshold() {
        assert_eq!(cluster(&[Some(20_000), Some(1_500)]), Some(1), "1.5 ms is near when the other is 20 ms away");
        assert_eq!(cluster(&[Some(20_000), Some(80_000)]), None, "two far ones stay far whatever the gap");
        assert_eq!(cluster(&[Some(400), Some(40)]), Some(1));
    }

    #[test]
    fn silent_leaders_do_not_count() {
        assert_eq!(cluster(&[None, Some(100), None]), Some(1));
        assert_eq!(cluster(&[None, None]), None);
        assert!(judge(&us(&[])).explain(|c| c.to_string()).contains("no leader"));
    }

    #[test]
    fn the_order_of_measurements_does_not_matter() {
        assert_eq!(
            judge(&us(&[Some(5), Some(9_000)])),
            judge(&us(&[Some(5), Some(9_000)]).into_iter().rev().collect::<Vec<_>>())
        );
    }
}
