//! Packings of spanning trees: which trees of clusters to use, and each at which rate, so that together they broadcast
//! as fast as a planner can make them. For strategies that follow a plan, and for comparison with those that do not.
//!
//! | planner | what it minds | total rate |
//! |---|---|---|
//! | [`fpfr`] | links between clusters | greedy |
//! | [`balanced`] | also what clusters send and receive | greedy, improved by search |
//! | [`arborescences`] | the same | the optimum where only links bind, by Edmonds' theorem |
//!
//! Promises that every tree spans the clusters that have nodes, and that all trees together stay within the capacities
//! that their planner minds. How nodes of one cluster pass on what has come to one of them is left to others: a
//! cluster's fabric and the copies between its nodes are not counted, nor that each node takes everything in with its
//! own card. Plans are made from the topology alone, without chance: the same topology yields the same plan. There is
//! none when some cluster cannot be reached at a byte per second, or the root's cluster has no nodes.

mod balanced;
mod cuts;
mod fitting;
mod peeling;
mod rates;
mod room;
mod search;

use crate::flow;
use crate::network::{ClusterIndex, Topology};
use room::{Room, Tree};
use search::{Order, Search};

/// The rate of a tree in which nothing binds, and the highest that [`total_rate_bytes_per_s`] returns, in bytes per
/// second. Capacities of so much and more count as none.
pub const UNLIMITED_BYTES_PER_S: u64 = flow::UNLIMITED;

/// A spanning tree of clusters and the rate at which it is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackedTree {
    /// What goes down the tree, in bytes per second; [`UNLIMITED_BYTES_PER_S`] when nothing binds.
    pub rate_bytes_per_s: u64,
    /// Parent and child, parents before their children.
    pub edges: Vec<(ClusterIndex, ClusterIndex)>,
}

/// What all trees carry together, in bytes per second, at most [`UNLIMITED_BYTES_PER_S`].
pub fn total_rate_bytes_per_s(trees: &[PackedTree]) -> u64 {
    let sum = trees.iter().fold(0u64, |sum, tree| sum.saturating_add(tree.rate_bytes_per_s));
    sum.min(UNLIMITED_BYTES_PER_S)
}

/// The trees of Fast Parallel File Replication (Izmailov, Ganguly, Tu 2004), as Balanced Multicasting's authors tell
/// it: a depth-first search from the root over links that have capacity left finds a tree, the rate of its slowest link
/// is reserved on all its links, and so on until a search does not reach all clusters. A search tries neighbours in the
/// order of their indices. Only links between clusters count: what a cluster sends and receives is ignored, as
/// published, so that it may be oversubscribed.
///
/// Empty when a cluster cannot be reached. Panics when `root` is not in the topology.
pub fn fpfr(topology: &Topology, root: ClusterIndex) -> Vec<PackedTree> {
    planned(topology, root, |mut room| {
        room.forget_clusters();
        search::fill(&mut room, Search::DepthFirst(Order::Index), 1)
    })
}

/// The trees of Balanced Multicasting (den Burger, Kielmann, Bal, SC'05): found as by [`fpfr`], with rates that also
/// leave room in what each cluster sends to others and receives from them: its access link, and the cards of all its
/// nodes that carry such traffic. A tree that leaves a cluster k times takes k times its rate of what it sends.
///
/// Its authors call the best such packing NP-hard to find; the MOB paper leaves their heuristics out. Here the search
/// is made in ten ways (neighbours in several orders, narrow trees at once or after wide ones), the packing of the
/// highest total is kept, and parts of it are taken out and searched for again while that raises the total, with
/// bounded effort. Trees of less than 1/10,000 of the rate that the links admit are looked for only if there are no
/// others. In random networks of 3 to 16 clusters whose access links bind, the total was at least 96 % of the optimum
/// on average for each kind and size of network, and 81 % at worst.
///
/// Empty when a cluster cannot be reached, or only by a tree that none of these ways finds. Panics when `root` is not
/// in the topology.
pub fn balanced(topology: &Topology, root: ClusterIndex) -> Vec<PackedTree> {
    planned(topology, root, |room| balanced::pack(&room))
}

/// An optimal packing by Edmonds' theorem (1973): where only links between clusters bind, the total is the least of the
/// maximum flows from the root to each other cluster, less 1/10,000 at most. Trees are peeled off as in the proof of
/// Lovász (1976), each with the highest weight that leaves every cut enough for the rest.
///
/// Where access links or network cards bind, how much goes over each link is a choice, whose optimum is the value of a
/// linear program. Here links are first lowered by a heuristic until clusters have room for all of them: links share in
/// proportion what their cluster sends and receives, what no cut needs is taken back, and what that frees is shared
/// again; it starts from what [`balanced`] uses, too, and keeps the better. The trees are an optimal packing of the
/// lowered links, and their total is a lower bound of the optimum: in the networks of which [`balanced`] speaks at
/// least 97 % of it on average, and 89 % at worst.
///
/// Empty when a cluster cannot be reached. Panics when `root` is not in the topology.
pub fn arborescences(topology: &Topology, root: ClusterIndex) -> Vec<PackedTree> {
    planned(topology, root, |room| {
        let unlimited = Search::DepthFirst(Order::Index).tree(&room, UNLIMITED_BYTES_PER_S);
        if let Some(edges) = unlimited {
            return vec![Tree { rate: UNLIMITED_BYTES_PER_S, edges }];
        }
        peeling::peel(fitting::fitted(&room), room.root())
    })
}

/// Lets `plan` work on the clusters that have nodes, and names the clusters of its trees.
fn planned(topology: &Topology, root: ClusterIndex, plan: impl FnOnce(Room) -> Vec<Tree>) -> Vec<PackedTree> {
    assert!(root.as_usize() < topology.clusters().len(), "the root's {root} is not in the topology");
    let Some((room, names)) = Room::of(topology, root) else { return Vec::new() };
    let named = |(from, to): (usize, usize)| (names[from], names[to]);
    let packed =
        |tree: Tree| PackedTree { rate_bytes_per_s: tree.rate, edges: tree.edges.into_iter().map(named).collect() };
    plan(room).into_iter().map(packed).collect()
}

#[cfg(test)]
mod tests;
