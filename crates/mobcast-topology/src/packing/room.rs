//! The room that trees may fill: rates of links, and what clusters send to others and receive from them. Clusters
//! without nodes are left out, and so are links into the root, of which no tree has a use.

use super::UNLIMITED_BYTES_PER_S as UNLIMITED;
use super::rates::Rates;
use crate::network::{Cluster, ClusterIndex, Topology};

/// Parent and child.
pub(super) type Edge = (usize, usize);

/// A spanning tree and its rate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tree {
    /// In bytes per second.
    pub(super) rate: u64,
    /// Parents before their children.
    pub(super) edges: Vec<Edge>,
}

/// The sum of the rates of trees, in bytes per second.
pub(super) fn total(trees: &[Tree]) -> u64 {
    trees.iter().fold(0u64, |sum, tree| sum.saturating_add(tree.rate)).min(UNLIMITED)
}

/// What is left of capacities, in bytes per second. An unlimited one stays so, whatever is taken of it.
#[derive(Clone)]
pub(super) struct Room {
    root: usize,
    links: Rates,
    out: Vec<u64>,
    into: Vec<u64>,
}

impl Room {
    /// The whole room of a topology, and the names of its vertices. `None` when the root's cluster has no nodes.
    pub(super) fn of(topology: &Topology, root: ClusterIndex) -> Option<(Room, Vec<ClusterIndex>)> {
        let clusters = topology.clusters();
        let names: Vec<ClusterIndex> = topology.indices().filter(|c| clusters[c.as_usize()].nodes > 0).collect();
        let root_vertex = names.iter().position(|name| *name == root)?;
        let mut links = Rates::new(names.len());
        for (from, sender) in names.iter().enumerate() {
            for (to, receiver) in names.iter().enumerate().filter(|(to, _)| *to != root_vertex) {
                if let Some(link) = topology.wan(*sender, *receiver) {
                    *links.at(from, to) = finite(link.rate_bytes_per_s);
                }
            }
        }
        let all = |limit: fn(&Cluster) -> u64| names.iter().map(|name| limit(&clusters[name.as_usize()])).collect();
        Some((Room { root: root_vertex, links, out: all(sends), into: all(receives) }, names))
    }

    /// Lifts the limits of clusters and leaves those of links.
    pub(super) fn forget_clusters(&mut self) {
        self.out.fill(UNLIMITED);
        self.into.fill(UNLIMITED);
    }

    pub(super) fn vertices(&self) -> usize {
        self.out.len()
    }

    pub(super) fn root(&self) -> usize {
        self.root
    }

    pub(super) fn link(&self, from: usize, to: usize) -> u64 {
        self.links.get(from, to)
    }

    /// What a cluster sends to others.
    pub(super) fn out(&self, vertex: usize) -> u64 {
        self.out[vertex]
    }

    /// What a cluster receives from others.
    pub(super) fn into(&self, vertex: usize) -> u64 {
        self.into[vertex]
    }

    /// The highest rate of a tree that takes the link and leaves its sender `times` times.
    pub(super) fn edge_rate(&self, (from, to): Edge, times: u64) -> u64 {
        let out = if self.out[from] == UNLIMITED { UNLIMITED } else { self.out[from] / times };
        self.link(from, to).min(out).min(self.into[to])
    }

    /// What each link could carry if it were alone.
    pub(super) fn links_alone(&self) -> Rates {
        let mut alone = self.links.clone();
        for (from, to, _) in self.links.links() {
            *alone.at(from, to) = self.edge_rate((from, to), 1);
        }
        alone
    }

    /// The highest rate of a tree.
    pub(super) fn rate_of(&self, edges: &[Edge]) -> u64 {
        let mut children = vec![0u64; self.vertices()];
        edges.iter().for_each(|(from, _)| children[*from] += 1);
        edges.iter().map(|edge| self.edge_rate(*edge, children[edge.0])).min().unwrap_or(UNLIMITED)
    }

    /// Takes a tree's rate from all that it uses; it has to be there.
    pub(super) fn reserve(&mut self, tree: &Tree) {
        let take = |left: &mut u64| {
            if *left < UNLIMITED {
                *left = left.checked_sub(tree.rate).expect("a tree's rate is left on all that it uses");
            }
        };
        for &(from, to) in &tree.edges {
            [self.links.at(from, to), &mut self.out[from], &mut self.into[to]].into_iter().for_each(take);
        }
    }
}

/// What a cluster's access link and its nodes' cards send to other clusters.
fn sends(cluster: &Cluster) -> u64 {
    let card = cluster.wan_nic.map_or(cluster.nic_out_bytes_per_s, |second| second.out_bytes_per_s);
    finite(cluster.access_out_bytes_per_s).min(all_cards(cluster, card))
}

/// What a cluster's access link and its nodes' cards receive from other clusters.
fn receives(cluster: &Cluster) -> u64 {
    let card = cluster.wan_nic.map_or(cluster.nic_in_bytes_per_s, |second| second.in_bytes_per_s);
    finite(cluster.access_in_bytes_per_s).min(all_cards(cluster, card))
}

fn all_cards(cluster: &Cluster, card: Option<u64>) -> u64 {
    finite(card.map(|rate| rate.saturating_mul(u64::from(cluster.nodes))))
}

fn finite(capacity: Option<u64>) -> u64 {
    capacity.map_or(UNLIMITED, |rate| rate.min(UNLIMITED))
}
