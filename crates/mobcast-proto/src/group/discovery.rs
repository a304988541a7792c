//! Clusters found by measurement (theory of the project: a wrong split costs little, a wrong merge over a slow link
//! costs much; so a node joins a cluster only if it is clearly near). Rule 0: a cluster that the user names. Rule 1:
//! round-trip times to cluster leaders, its own and those that others have measured to the same leader: half a
//! millisecond is near where everybody is so far, and far where most are a tenth of it away.

use crate::time::Duration;
use crate::units::ClusterId;

/// Without any gap in the round-trip times, what is nearer than this is the same cluster.
const THRESHOLD_DEFAULT: Duration = Duration::from_millis(1);
/// A threshold is never below this: scheduling noise on one switch. What is nearer is near whatever others measure.
const THRESHOLD_MIN: Duration = Duration::from_micros(300);
/// A threshold is never above this: no two machines of one site are further apart. What is further is far.
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

/// Judges the shortest round-trip times of a node to cluster leaders. `others` gives what other nodes measured to the leader
/// of a cluster.
pub fn judge<'a, I>(rtts: &[(ClusterId, Option<Duration>)], others: impl Fn(ClusterId) -> I) -> Verdict
where
    I: IntoIterator<Item = &'a Duration>,
{
    let nearest = rtts.iter().filter_map(|&(cluster, rtt)| Some((rtt?, cluster))).min();
    let mut known: Vec<Duration> = rtts.iter().filter_map(|&(_, rtt)| rtt).collect();
    known.extend(nearest.into_iter().flat_map(|(_, cluster)| others(cluster)));
    known.sort_unstable();
    let threshold = threshold(&known);
    match nearest {
        Some((rtt, cluster)) if rtt <= threshold => Verdict::Near { cluster, rtt, threshold },
        _ => Verdict::Far { nearest: nearest.map(|(rtt, cluster)| (cluster, rtt)), threshold },
    }
}

/// Whether what others measure can change the verdict on the shortest of these times.
pub fn is_unclear(rtts: &[(ClusterId, Option<Duration>)]) -> bool {
    let nearest = rtts.iter().filter_map(|&(_, rtt)| rtt).min();
    nearest.is_some_and(|rtt| THRESHOLD_MIN < rtt && rtt <= THRESHOLD_MAX)
}

/// The middle (geometric mean) of the widest gap in the sorted times, if one is wide enough.
fn threshold(sorted: &[Duration]) -> Duration {
    let widest = sorted
        .windows(2)
        .map(|pair| (pair[0].0.max(1), pair[1].0.max(1)))
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
        cluster_beside(rtts, &[])
    }

    /// The same where others have measured these times, microseconds, to the nearest leader.
    fn cluster_beside(rtts: &[Option<u64>], others: &[u64]) -> Option<u32> {
        let others: Vec<Duration> = others.iter().map(|&rtt| Duration::from_micros(rtt)).collect();
        match judge(&us(rtts), |_| &others) {
            Verdict::Near { cluster, .. } => Some(cluster.0),
            Verdict::Far { .. } => None,
        }
    }

    #[test]
    fn what_others_measured_shows_who_is_far() {
        assert_eq!(
            cluster_beside(&[Some(600)], &[90, 110, 650, 580, 100]),
            None,
            "five times further than the near ones"
        );
        assert_eq!(cluster_beside(&[Some(110)], &[90, 650, 580, 100]), Some(0));
        assert_eq!(cluster_beside(&[Some(600)], &[350, 420, 500, 800]), Some(0), "all are so far: one site");
        assert_eq!(cluster_beside(&[Some(280)], &[20, 30, 25]), Some(0), "noise of one switch");
        assert_eq!(cluster_beside(&[Some(3_100)], &[3_000, 2_900]), None, "no site is as wide");
    }

    #[test]
    fn what_others_measure_matters_between_the_bounds_of_the_threshold() {
        assert!(!is_unclear(&us(&[Some(300), Some(20_000)])));
        assert!(is_unclear(&us(&[Some(301), None])) && is_unclear(&us(&[Some(3_000)])));
        assert!(!is_unclear(&us(&[Some(3_001)])) && !is_unclear(&us(&[None])));
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
        assert!(judge(&us(&[]), |_| &[]).explain(|c| c.to_string()).contains("no leader"));
    }

    #[test]
    fn the_order_of_measurements_does_not_matter() {
        assert_eq!(
            judge(&us(&[Some(5), Some(9_000)]), |_| &[]),
            judge(&us(&[Some(5), Some(9_000)]).into_iter().rev().collect::<Vec<_>>(), |_| &[])
        );
    }
}
