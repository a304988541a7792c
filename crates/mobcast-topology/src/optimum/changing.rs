//! The optimum where capacities change: between what is reached without ever storing ahead, the integral of the
//! optimum of each moment, and what no schedule exceeds, the least over all cuts of the integral of the cut.

use super::{Binding, Optimum, occupied, optimal_rate, optimum};
use crate::flow::{FlowGraph, UNLIMITED};
use crate::network::{Cluster, ClusterIndex, LinkRef, Topology};
use crate::scenario::Scenario;

const NS_PER_S: u128 = 1_000_000_000;
/// Up to so many clusters every cut is looked at, 2,048 of them; beyond, those around one or all but one cluster, which
/// gives an upper bound that may be higher than it need be.
const CLUSTERS_OF_ALL_CUTS: usize = 12;

/// Between which rates the optimum of one object lies: its bytes divided by the time of an ideal schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bracket {
    /// A rate that is reached, in bytes of payload per second; `None` when nothing binds, zero when the object never
    /// arrives.
    pub payload_bytes_per_s_lower: Option<u64>,
    /// A rate that is not exceeded, in bytes of payload per second; as the lower one where nothing changes.
    pub payload_bytes_per_s_upper: Option<u64>,
    /// What binds at the start.
    pub binding: Binding,
    /// Whether both rates may be too high, as [`Optimum::is_upper_bound`] says of the start.
    pub is_upper_bound: bool,
}

impl Bracket {
    /// Seconds that an object takes at the lower rate: infinite when it never arrives.
    pub fn ideal_seconds(&self, object_bytes: u64) -> f64 {
        self.payload_bytes_per_s_lower.map_or(0.0, |rate| object_bytes as f64 / rate as f64)
    }
}

/// The bracket of a broadcast of `object_bytes` bytes from a node of cluster `root` that begins at the scenario's start.
pub fn bracket(scenario: &Scenario, root: ClusterIndex, object_bytes: u64) -> Bracket {
    let wire_bytes = scenario.topology.payload_factor.on_the_wire(object_bytes);
    let moments = scenario.phases().map(|(at_ns, topology)| (at_ns, optimal_rate(&topology, root)));
    let slowest_ns = arrival_ns(moments, wire_bytes);
    let (_, start) = scenario.phases().next().expect("there is a first phase");
    let Optimum { payload_bytes_per_s: first, binding, is_upper_bound, .. } = optimum(&start, root);
    let first_phase_ns = scenario.phases().nth(1).map(|(at_ns, _)| u128::from(at_ns));
    if first_phase_ns.is_none_or(|end_ns| slowest_ns.is_some_and(|time_ns| time_ns <= end_ns)) {
        return Bracket { payload_bytes_per_s_lower: first, payload_bytes_per_s_upper: first, binding, is_upper_bound };
    }
    let fixed_ns = arrival_ns(std::iter::once((0, unchanging(scenario, root))), wire_bytes);
    let fastest_ns = cuts(&start, root).into_iter().fold(fixed_ns, |fastest_ns, near| {
        let capacities = scenario.phases().map(|(at_ns, topology)| (at_ns, across(&topology, &near)));
        let time_ns = arrival_ns(capacities, wire_bytes);
        fastest_ns.zip(time_ns).map(|(one, other)| one.max(other))
    });
    let lower = rate(object_bytes, slowest_ns);
    let upper = rate(object_bytes, fastest_ns).map(|upper| upper.max(lower.unwrap_or(upper)));
    Bracket { payload_bytes_per_s_lower: lower, payload_bytes_per_s_upper: upper, binding, is_upper_bound }
}

/// When so many bytes have passed at rates that change at the given times; `None` if never. A rate without limit lets
/// them pass at once.
fn arrival_ns(rates: impl Iterator<Item = (u64, Option<u64>)>, bytes: u64) -> Option<u128> {
    let mut left = u128::from(bytes) * NS_PER_S;
    let mut rates = rates.peekable();
    while let Some((start_ns, rate)) = rates.next() {
        let start_ns = u128::from(start_ns);
        let Some(rate) = rate.map(u128::from) else { return Some(start_ns) };
        let end_ns = rates.peek().map(|(at_ns, _)| u128::from(*at_ns));
        let passed = end_ns.map(|end_ns| rate * (end_ns - start_ns));
        if rate > 0 && passed.is_none_or(|passed| passed >= left) {
            return Some(start_ns + left.div_ceil(rate));
        }
        left -= passed.unwrap_or(0);
    }
    None
}

/// Bytes in a time as a rate. A time of zero stands for a rate without limit, above every other.
fn rate(object_bytes: u64, time_ns: Option<u128>) -> Option<u64> {
    let Some(time_ns) = time_ns else { return Some(0) };
    (u128::from(object_bytes) * NS_PER_S).checked_div(time_ns).map(|rate| u64::try_from(rate).unwrap_or(u64::MAX))
}

/// What binds whatever links between clusters and access links do: network cards, and the switches that the scenario leaves as they are.
fn unchanging(scenario: &Scenario, root: ClusterIndex) -> Option<u64> {
    let mut free = scenario.topology.clone();
    let between = scenario.topology.wan_links().map(|(from, to, _)| LinkRef::Wan { from, to });
    let access = free.indices().flat_map(|cluster| [LinkRef::AccessOut(cluster), LinkRef::AccessIn(cluster)]);
    for link in between.chain(access).chain(scenario.changes.iter().map(|change| change.link)) {
        // Changes of what does not exist are passed over.
        let _ = free.set_rate(link, None);
    }
    optimal_rate(&free, root)
}

/// Sets of clusters that hold the root and miss another, as flags by cluster. Clusters without nodes are in none.
fn cuts(topology: &Topology, root: ClusterIndex) -> Vec<Vec<bool>> {
    let others: Vec<usize> =
        topology.indices().filter(|c| *c != root && occupied(topology, *c)).map(ClusterIndex::as_usize).collect();
    let near = |is_near: &dyn Fn(usize) -> bool| {
        let mut flags = vec![false; topology.clusters().len()];
        flags[root.as_usize()] = true;
        for (place, cluster) in others.iter().enumerate() {
            flags[*cluster] = is_near(place);
        }
        flags
    };
    if others.len() < CLUSTERS_OF_ALL_CUTS {
        let all = (1usize << others.len()) - 1;
        return (0..all).map(|set| near(&|place| set >> place & 1 == 1)).collect();
    }
    let all_but_one = (0..others.len()).map(|far| near(&|place| place != far));
    std::iter::once(near(&|_| false)).chain(all_but_one).collect()
}

/// What the clusters of `near` send to the others at most, in bytes per second.
fn across(topology: &Topology, near: &[bool]) -> Option<u64> {
    let (source, sink) = (near.len(), near.len() + 1);
    let mut graph = FlowGraph::new(near.len() + 2);
    let mut ends = topology.indices().filter(|c| occupied(topology, *c)).collect::<Vec<_>>();
    ends.sort_by_key(|cluster| !near[cluster.as_usize()]);
    for cluster in ends {
        let index = cluster.as_usize();
        let [sends, receives] = doors(&topology.clusters()[index]);
        match near[index] {
            true => graph.arc(source, index, sends),
            false => graph.arc(index, sink, receives),
        }
    }
    for (from, to, link) in topology.wan_links() {
        let crosses = near[from.as_usize()] && !near[to.as_usize()];
        if crosses && occupied(topology, from) && occupied(topology, to) {
            graph.arc(from.as_usize(), to.as_usize(), link.rate_bytes_per_s.unwrap_or(UNLIMITED));
        }
    }
    Some(graph.maximum(source, sink)).filter(|rate| *rate < UNLIMITED)
}

/// What a cluster's access links and network cards let out and in.
fn doors(cluster: &Cluster) -> [u64; 2] {
    let [card_out, card_in] = match cluster.wan_nic {
        Some(card) => [card.out_bytes_per_s, card.in_bytes_per_s],
        None => [cluster.nic_out_bytes_per_s, cluster.nic_in_bytes_per_s],
    };
    let access = [cluster.access_out_bytes_per_s, cluster.access_in_bytes_per_s];
    let cards = [card_out, card_in].map(|rate| rate.map(|rate| rate.saturating_mul(u64::from(cluster.nodes))));
    [0, 1].map(|way| access[way].unwrap_or(UNLIMITED).min(cards[way].unwrap_or(UNLIMITED)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{PayloadFactor, WanLink};
    use crate::preset::{m2_fast, m2_slow};
    use crate::scenario::Change;

    const ROOT: ClusterIndex = ClusterIndex(0);
    const OBJECT: u64 = 600_000_000;
    const HALF_NS: u64 = 30_000_000_000;

    fn limits(scenario: &Scenario) -> (u64, u64) {
        let bracket = bracket(scenario, ROOT, OBJECT);
        (bracket.payload_bytes_per_s_lower.unwrap(), bracket.payload_bytes_per_s_upper.unwrap())
    }

    #[test]
    fn m2_that_changes_after_30_s_has_the_known_optima() {
        let (fast, slow) = (m2_fast(4), m2_slow(4));
        let (lower, upper) = limits(&Scenario::switch(fast.clone(), &slow, HALF_NS));
        assert_eq!((lower, upper), (8_764_044, 8_764_044), "8.76: 300 MB at 10, 300 MB at 7.8");
        let (lower, upper) = limits(&Scenario::switch(slow, &fast, HALF_NS));
        assert_eq!((lower, upper), (9_009_009, 9_009_009), "9.01: 234 MB at 7.8, 366 MB at 10");
    }

    #[test]
    fn what_changes_after_the_end_does_not_count() {
        let late = Scenario::switch(m2_fast(4), &m2_slow(4), 60_000_000_000);
        assert_eq!(limits(&late), (10_000_000, 10_000_000));
    }

    #[test]
    fn storing_ahead_is_the_gap_of_the_bracket() {
        // The root's side is fast while the receiver's side is slow, then the other way round.
        let mut start = m2_fast(1);
        let [a, b] = [0, 1].map(ClusterIndex);
        for to in [1, 2, 3].map(ClusterIndex) {
            start.set_rate(LinkRef::Wan { from: a, to }, Some(if to == b { 0 } else { 20_000_000 })).unwrap();
            start.set_rate(LinkRef::Wan { from: to, to: b }, Some(1_000_000)).unwrap();
        }
        let change = |from: u32, to: u32, rate: u64| Change {
            at_ns: HALF_NS,
            link: LinkRef::Wan { from: ClusterIndex(from), to: ClusterIndex(to) },
            rate_bytes_per_s: Some(rate),
        };
        let changes =
            vec![change(2, 1, 20_000_000), change(3, 1, 20_000_000), change(0, 2, 1_000_000), change(0, 3, 1_000_000)];
        let (lower, upper) = limits(&Scenario { topology: start, changes });
        assert_eq!((lower, upper), (2_000_000, 13_793_103), "2 MB/s all the time; 60 MB in 30 s, the rest at 40 MB/s");
    }

    #[test]
    fn a_switch_that_becomes_faster_lifts_the_upper_bound() {
        let mut start = Topology::new();
        let a = start.add_cluster(Cluster { nic_out_bytes_per_s: Some(10_000_000), ..Cluster::new("A", 1) }).unwrap();
        let slow = Cluster { fabric_bytes_per_s: Some(1_000_000), ..Cluster::new("B", 3) };
        let b = start.add_cluster(slow).unwrap();
        start.link(a, b, WanLink::new(None, 0)).unwrap();
        let mut end = start.clone();
        end.set_rate(LinkRef::Fabric(b), Some(100_000_000)).unwrap();
        let (lower, upper) = limits(&Scenario::switch(start, &end, 1_000_000_000));
        assert_eq!(upper, 10_000_000, "what A's card sends");
        assert!(lower < upper, "{lower}");
    }

    #[test]
    fn a_link_that_is_cut_for_good_and_one_that_comes_back() {
        let mut island = m2_fast(1);
        let into_b = [0, 2, 3].map(|from| LinkRef::Wan { from: ClusterIndex(from), to: ClusterIndex(1) });
        for link in into_b {
            island.set_rate(link, Some(0)).unwrap();
        }
        assert_eq!(limits(&Scenario::steady(island.clone())), (0, 0));
        let changes = into_b.map(|link| Change { at_ns: HALF_NS, link, rate_bytes_per_s: Some(5_000_000) }).to_vec();
        let (lower, upper) = limits(&Scenario { topology: island, changes });
        assert_eq!((lower, upper), (7_500_000, 8_571_428), "50 s at 12 MB/s out of A, 40 s at 15 into B");
    }

    #[test]
    fn headers_are_counted_once() {
        let mut start = m2_fast(4);
        start.payload_factor = PayloadFactor::ETHERNET_TCP;
        let scenario = Scenario::switch(start, &m2_slow(4), HALF_NS);
        let (lower, _) = limits(&scenario);
        assert!((8_420_000..8_430_000).contains(&lower), "{lower}: 621.5 MB in 71.2 s on the wire");
    }
}
