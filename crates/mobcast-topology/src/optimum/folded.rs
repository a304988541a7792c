//! Upper bounds that every schedule obeys where network cards, access links or switches have limits: each byte leaves
//! the root once, enters each node and each cluster once, and somebody has to send each copy.

use super::{Binding, occupied};
use crate::network::{Cluster, ClusterIndex, LinkRef, Topology};

/// The bounds, in bytes per second, each with its reason.
pub(super) fn simple_bounds(topology: &Topology, root: ClusterIndex) -> Vec<(u64, Binding)> {
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
    for &index in &occupied_clusters {
        let cluster = &topology.clusters()[index.as_usize()];
        if let Some(rate) = node_in(cluster).filter(|_| index != root || cluster.nodes > 1) {
            bounds.push((rate, Binding::NicIn(index)));
        }
    }
    if occupied_clusters.iter().any(|c| *c != root) {
        bounds.extend(wan_nic_bounds(topology, root));
    }
    bounds.extend(fabric_bounds(topology));
    bounds
}

/// The bound by what all clusters together send to others, with its reason: each byte enters each cluster but the root's, and whatever enters
/// one has left another.
pub(super) fn total_wan_out(topology: &Topology, root: ClusterIndex) -> Option<(u64, Binding)> {
    let occupied_clusters: Vec<ClusterIndex> = topology.indices().filter(|c| occupied(topology, *c)).collect();
    let receiving: Vec<ClusterIndex> = occupied_clusters.iter().copied().filter(|c| *c != root).collect();
    let total = occupied_clusters.iter().map(|&from| leaving(topology, from, &receiving)).sum::<Option<u128>>()?;
    Some((narrow(total.checked_div(receiving.len() as u128)?), Binding::TotalWanOut))
}

/// What a cluster sends at most to those of the receiving clusters that are others: the least of what its links, its cards and its access
/// link carry.
fn leaving(topology: &Topology, from: ClusterIndex, receiving: &[ClusterIndex]) -> Option<u128> {
    let cluster = &topology.clusters()[from.as_usize()];
    let to_others = receiving.iter().filter(|to| **to != from);
    let links = to_others.map(|&to| topology.rate_bytes_per_s(LinkRef::Wan { from, to }).map(u128::from));
    let card = cluster.wan_nic.map_or(cluster.nic_out_bytes_per_s, |second| second.out_bytes_per_s);
    let cards = card.map(|rate| u128::from(rate) * u128::from(cluster.nodes));
    let access = cluster.access_out_bytes_per_s.map(u128::from);
    [links.sum::<Option<u128>>(), cards, access].into_iter().flatten().min()
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
