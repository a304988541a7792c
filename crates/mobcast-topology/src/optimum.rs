//! The optimum R*: the highest rate at which a topology admits a broadcast.
//!
//! Where only the links between clusters bind, R* is the least of the maximum flows from the root's cluster to each
//! other cluster (Edmonds 1973): it is reached exactly, by a packing of trees. Limits of network cards and access links
//! are folded in as upper bounds that every schedule obeys (each byte leaves the root once, enters each node and each
//! cluster once, and somebody must send each copy); where one of them binds, the true optimum may be a little lower.

pub mod changing;

use crate::flow::{FlowGraph, UNLIMITED};
use crate::network::{Cluster, ClusterIndex, LinkRef, Topology};

/// What keeps a broadcast from being faster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Binding {
    /// Nothing does: no capacity is given anywhere on the way.
    Nothing,
    /// Links that together separate the root from a cluster.
    Cut {
        /// The cluster that is cut off.
        receiver: ClusterIndex,
        /// The links of the cut.
        links: Vec<LinkRef>,
    },
    /// What the root's network cards send: every byte leaves it once.
    RootNicOut,
    /// What the network cards of each node of a cluster receive.
    NicIn(ClusterIndex),
    /// What the second network cards of the root's cluster send together: every byte leaves the cluster once.
    WanNicsOut,
    /// What the second network cards of a cluster receive together: every byte enters it once.
    WanNicsIn(ClusterIndex),
    /// What all access links together send: each cluster but the root's needs a copy.
    TotalAccessOut,
    /// What all network cards together send: each node but the root needs a copy.
    TotalNicOut,
    /// What a cluster's switches carry: each node but one gets its copy through them.
    Fabric(ClusterIndex),
}

/// The optimum with its reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Optimum {
    /// In bytes per second, headers included; `None` when nothing binds.
    pub rate_bytes_per_s: Option<u64>,
    /// In bytes per second of payload.
    pub payload_bytes_per_s: Option<u64>,
    /// What binds.
    pub binding: Binding,
}

/// The optimum of a broadcast from a node of cluster `root`. Clusters without nodes neither receive nor relay.
pub fn optimum(topology: &Topology, root: ClusterIndex) -> Optimum {
    assert!(root.as_usize() < topology.clusters().len(), "the root's {root} is not in the topology");
    let mut best = (UNLIMITED, Binding::Nothing);
    let mut offer = |rate: u64, binding: Binding| {
        if rate < best.0 {
            best = (rate, binding);
        }
    };
    for receiver in topology.indices().filter(|c| *c != root && occupied(topology, *c)) {
        let (rate, links) = minimum_cut(topology, root, receiver);
        offer(rate, Binding::Cut { receiver, links });
    }
    for (rate, binding) in simple_bounds(topology, root) {
        offer(rate, binding);
    }
    let rate_bytes_per_s = (best.0 < UNLIMITED).then_some(best.0);
    let payload_bytes_per_s = rate_bytes_per_s.map(|rate| topology.payload_factor.of(rate));
    Optimum { rate_bytes_per_s, payload_bytes_per_s, binding: best.1 }
}

fn occupied(topology: &Topology, cluster: ClusterIndex) -> bool {
    topology.clusters()[cluster.as_usize()].nodes > 0
}

/// Least capacity between two clusters, with the links that make it up. Each cluster is three vertices, its way in, its
/// nodes and its way out, so that access links are arcs.
fn minimum_cut(topology: &Topology, root: ClusterIndex, receiver: ClusterIndex) -> (u64, Vec<LinkRef>) {
    let [way_in, nodes, way_out] = [0, 1, 2].map(|part| move |c: ClusterIndex| 3 * c.as_usize() + part);
    let mut arcs: Vec<(usize, usize, LinkRef)> = Vec::new();
    for cluster in topology.indices().filter(|c| occupied(topology, *c)) {
        arcs.push((way_in(cluster), nodes(cluster), LinkRef::AccessIn(cluster)));
        arcs.push((nodes(cluster), way_out(cluster), LinkRef::AccessOut(cluster)));
    }
    for (from, to, _) in topology.wan_links() {
        arcs.push((way_out(from), way_in(to), LinkRef::Wan { from, to }));
    }
    let mut graph = FlowGraph::new(3 * topology.clusters().len());
    for &(from, to, link) in &arcs {
        graph.arc(from, to, topology.rate_bytes_per_s(link).unwrap_or(UNLIMITED));
    }
    let rate = graph.maximum(nodes(root), nodes(receiver));
    let near = graph.source_side(nodes(root));
    let links = arcs.into_iter().filter(|(from, to, _)| near[*from] && !near[*to]).map(|(_, _, link)| link);
    (rate, links.collect())
}

fn simple_bounds(topology: &Topology, root: ClusterIndex) -> Vec<(u64, Binding)> {
    let mut bounds = Vec::new();
    let copies_for_nodes = topology.nodes().saturating_sub(1);
    let occupied_clusters: Vec<ClusterIndex> = topology.indices().filter(|c| occupied(topology, *c)).collect();
    let root_cluster = &topology.clusters()[root.as_usize()];
    if copies_for_nodes > 0 {
        bounds.extend(node_out(root_cluster).map(|rate| (rate, Binding::RootNicOut)));
        let total = topology.clusters().iter().filter(|c| c.nodes > 0).map(|c| Some((c.nodes, node_out(c)?)));
        if let Some(total) = total.map(|c| c.map(|(n, rate)| u128::from(n) * u128::from(rate))).sum::<Option<u128>>() {
            bounds.push((narrow(total / u128::from(copies_for_nodes)), Binding::TotalNicOut));
        }
    }
    let copies_for_clusters = occupied_clusters.iter().filter(|c| **c != root).count() as u128;
    let access = |c: &ClusterIndex| topology.rate_bytes_per_s(LinkRef::AccessOut(*c)).map(u128::from);
    let total = occupied_clusters.iter().map(access).sum::<Option<u128>>();
    if let Some(rate) = total.and_then(|total| total.checked_div(copies_for_clusters)) {
        bounds.push((narrow(rate), Binding::TotalAccessOut));
    }
    for &index in &occupied_clusters {
        let cluster = &topology.clusters()[index.as_usize()];
        if let Some(rate) = node_in(cluster).filter(|_| index != root || cluster.nodes > 1) {
            bounds.push((rate, Binding::NicIn(index)));
        }
    }
    if copies_for_clusters > 0 {
        bounds.extend(wan_nic_bounds(topology, root));
    }
    bounds.extend(fabric_bounds(topology));
    bounds
}

/// What all cards of a node send.
fn node_out(cluster: &Cluster) -> Option<u64> {
    let second = cluster.wan_nic.map_or(Some(0), |card| card.out_bytes_per_s);
    Some(cluster.nic_out_bytes_per_s?.saturating_add(second?))
}

/// What all cards of a node receive.
fn node_in(cluster: &Cluster) -> Option<u64> {
    let second = cluster.wan_nic.map_or(Some(0), |card| card.in_bytes_per_s);
    Some(cluster.nic_in_bytes_per_s?.saturating_add(second?))
}

fn wan_nic_bounds(topology: &Topology, root: ClusterIndex) -> impl Iterator<Item = (u64, Binding)> + '_ {
    topology.indices().filter(|c| occupied(topology, *c)).filter_map(move |index| {
        let cluster = &topology.clusters()[index.as_usize()];
        let card = cluster.wan_nic?;
        let (rate, binding) = match index == root {
            true => (card.out_bytes_per_s?, Binding::WanNicsOut),
            false => (card.in_bytes_per_s?, Binding::WanNicsIn(index)),
        };
        Some((rate.saturating_mul(u64::from(cluster.nodes)), binding))
    })
}

/// A copy that comes over the WAN spares the switches; with unlimited links between clusters every node could import
/// its own, so the bound holds for clusters that have no such way in.
fn fabric_bounds(topology: &Topology) -> impl Iterator<Item = (u64, Binding)> + '_ {
    let alone = topology.indices().filter(|_| topology.clusters().iter().filter(|c| c.nodes > 0).count() == 1);
    alone.filter_map(|index| {
        let cluster = &topology.clusters()[index.as_usize()];
        let copies = u64::from(cluster.nodes).checked_sub(1).filter(|copies| *copies > 0)?;
        Some((cluster.fabric_bytes_per_s? / copies, Binding::Fabric(index)))
    })
}

fn narrow(rate: u128) -> u64 {
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{PayloadFactor, WanLink};
    use crate::preset::{full_mesh, m2_fast, m2_slow, symmetric};
    use proptest::prelude::*;

    const ROOT: ClusterIndex = ClusterIndex(0);

    fn rate(topology: &Topology) -> Option<u64> {
        optimum(topology, ROOT).rate_bytes_per_s
    }

    #[test]
    fn m2_has_the_known_optima_and_the_root_s_links_bind() {
        assert_eq!(rate(&m2_slow(16)), Some(7_800_000));
        let fast = optimum(&m2_fast(16), ROOT);
        assert_eq!(fast.rate_bytes_per_s, Some(10_000_000));
        let Binding::Cut { links, .. } = fast.binding else { panic!("a cut binds") };
        let to = [1, 2, 3].map(|to| LinkRef::Wan { from: ROOT, to: ClusterIndex(to) });
        assert_eq!(links, to);
    }

    #[test]
    fn figure_2_of_the_mob_paper_gives_nine() {
        // One node in each of x, y, z; y can take 5 + 4.
        let mut topology = symmetric(
            &["x", "y", "z"].map(|name| Cluster::new(name, 1)),
            &[(0, 1, 5_000_000), (0, 2, 5_000_000), (1, 2, 4_000_000)],
            0,
        );
        topology.cluster_mut(ROOT).unwrap().nic_out_bytes_per_s = Some(10_000_000);
        assert_eq!(rate(&topology), Some(9_000_000));
        topology.cluster_mut(ROOT).unwrap().nic_out_bytes_per_s = Some(8_500_000);
        assert_eq!(optimum(&topology, ROOT).binding, Binding::RootNicOut);
    }

    #[test]
    fn network_cards_bind_where_links_do_not() {
        let one = full_mesh(1, &Cluster::new("", 10).with_nic(125_000_000), 0, 0);
        assert_eq!(rate(&one), Some(125_000_000));
        let mut slow_receiver = m2_fast(16);
        slow_receiver.cluster_mut(ClusterIndex(2)).unwrap().nic_in_bytes_per_s = Some(2_000_000);
        assert_eq!(optimum(&slow_receiver, ROOT).binding, Binding::NicIn(ClusterIndex(2)));
        let mut weak_senders = Cluster::new("", 11).with_nic(100);
        weak_senders.nic_in_bytes_per_s = None;
        weak_senders.nic_out_bytes_per_s = Some(50);
        let weak = full_mesh(1, &weak_senders, 0, 0);
        assert_eq!(rate(&weak), Some(50));
    }

    #[test]
    fn access_links_are_part_of_the_cut() {
        let mut topology = m2_fast(4);
        topology.cluster_mut(ClusterIndex(1)).unwrap().access_in_bytes_per_s = Some(6_000_000);
        let result = optimum(&topology, ROOT);
        assert_eq!(result.rate_bytes_per_s, Some(6_000_000));
        let receiver = ClusterIndex(1);
        assert_eq!(result.binding, Binding::Cut { receiver, links: vec![LinkRef::AccessIn(receiver)] });
        let shared = full_mesh(4, &Cluster::new("", 4).with_access(9_000_000), 100_000_000, 0);
        assert_eq!(rate(&shared), Some(9_000_000));
    }

    #[test]
    fn unlimited_and_unreachable_are_told_apart() {
        let mut topology = full_mesh(2, &Cluster::new("", 4), 1, 0);
        let free = WanLink::new(None, 0);
        topology.link_both(ROOT, ClusterIndex(1), free).unwrap();
        assert_eq!(optimum(&topology, ROOT).binding, Binding::Nothing);
        topology.add_cluster(Cluster::new("island", 1)).unwrap();
        assert_eq!(rate(&topology), Some(0));
    }

    #[test]
    fn headers_lower_the_payload_optimum() {
        let mut topology = m2_fast(4);
        topology.payload_factor = PayloadFactor::ETHERNET_TCP;
        assert_eq!(optimum(&topology, ROOT).payload_bytes_per_s, Some(9_653_333));
    }

    /// The least capacity over all sets of clusters that hold the root and miss somebody.
    fn by_enumeration(topology: &Topology) -> u64 {
        let k = topology.clusters().len();
        let cuts = (0u32..1 << k).filter(|set| set & 1 == 1 && *set != (1 << k) - 1);
        cuts.map(|set| {
            let inside = |c: ClusterIndex| set >> c.0 & 1 == 1;
            let crossing = topology.wan_links().filter(|(from, to, _)| inside(*from) && !inside(*to));
            crossing.map(|(_, _, link)| link.rate_bytes_per_s.unwrap()).sum()
        })
        .min()
        .unwrap()
    }

    proptest! {
        #[test]
        fn the_least_maximum_flow_is_the_least_cut(k in 2usize..7, rates in prop::collection::vec(0u64..50, 42)) {
            let mut topology = full_mesh(k as u32, &Cluster::new("", 1), 0, 0);
            let pairs: Vec<_> = topology.wan_links().collect();
            for ((from, to, link), rate) in pairs.into_iter().zip(rates) {
                topology.link(from, to, WanLink { rate_bytes_per_s: Some(rate), ..link }).unwrap();
            }
            prop_assert_eq!(rate(&topology), Some(by_enumeration(&topology)));
            let Binding::Cut { links, .. } = optimum(&topology, ROOT).binding else { panic!("a cut binds") };
            let sum: u64 = links.iter().map(|link| topology.rate_bytes_per_s(*link).unwrap()).sum();
            prop_assert_eq!(sum, by_enumeration(&topology));
        }
    }
}
