//! Trees planned for a whole group: what a planner is given, what it returns, and what of it each node is told. A planner
//! is a function of the group's nodes in order (and of a network, for those that need to know it); the coordinator runs it
//! when members have come or gone, and [`crate::strategy::trees`] carries out what came of it.

use std::collections::BTreeSet;
use std::ops::Range;

use mobcast_topology::Topology;
use thiserror::Error;

use crate::group::place::{PlanPlace, TreeChild, TreePlace};
use crate::limits::LINKS_MAX;
use crate::units::{ClusterId, NodeId};

/// Nodes of one cluster, in the order of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderedCluster {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its name, by which networks speak of it.
    pub name: String,
    /// Its nodes, in the order of joining; the root comes first in its own.
    pub nodes: Vec<NodeId>,
}

/// The nodes of a group in the order in which plans count them: the root is position 0, the rest of its cluster follows, then
/// the other clusters one after the other (ranks as MPI deals them, cluster by cluster: Dichev and Lastovetsky's setting).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    clusters: Vec<OrderedCluster>,
    nodes: Vec<NodeId>,
}

impl Order {
    /// The order of these clusters; the root is the first node of the first one.
    pub fn new(clusters: Vec<OrderedCluster>) -> Order {
        let nodes = clusters.iter().flat_map(|cluster| cluster.nodes.iter().copied()).collect();
        Order { clusters, nodes }
    }

    /// Nodes, the root included.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is nobody, not even a root.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The clusters, that of the root first.
    pub fn clusters(&self) -> &[OrderedCluster] {
        &self.clusters
    }

    /// The positions of each cluster's nodes.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        let mut start = 0;
        let range = |cluster: &OrderedCluster| {
            let range = start..start + cluster.nodes.len();
            start = range.end;
            range
        };
        self.clusters.iter().map(range).collect()
    }

    /// The node at a position.
    pub fn node(&self, position: usize) -> NodeId {
        self.nodes[position]
    }
}

/// What a planner is given.
#[derive(Clone, Copy, Debug)]
pub struct PlanInput<'a> {
    /// The nodes.
    pub order: &'a Order,
    /// The network, where somebody has measured or described it (the gauge of den Burger and Kielmann).
    pub network: Option<&'a Topology>,
    /// For choices by chance.
    pub seed: u64,
}

/// Which tree a piece goes down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Split {
    /// Piece i goes down tree i modulo their number (Izmailov et al. 2004: chunks in turn over all trees).
    #[default]
    RoundRobin,
    /// In proportion to the trees' weights, evenly over the object.
    Weighted,
    /// The object is cut into as many contiguous parts as there are trees. Where the length is not known beforehand, as
    /// [`Split::RoundRobin`].
    Parts,
}

/// One spanning tree of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanTree {
    /// Its part of the object, among those of all trees.
    pub weight: u64,
    /// What the tree adds to the rate to which each link between clusters that it uses is limited at its sender, bytes per second, for plans
    /// that shape.
    pub rate_bytes_per_s: Option<u64>,
    /// The position of each position's parent; none for the root, position 0.
    pub parents: Vec<Option<usize>>,
}

impl PlanTree {
    /// A tree of equal weight whose edges nobody limits.
    pub fn new(parents: Vec<Option<usize>>) -> PlanTree {
        PlanTree { weight: 1, rate_bytes_per_s: None, parents }
    }

    /// Edges from the root to each position.
    ///
    /// # Panics
    /// If a position is not connected to the root: that is a bug of the planner.
    pub fn depths(&self) -> Vec<u32> {
        let mut depths: Vec<Option<u32>> = vec![None; self.parents.len()];
        depths[0] = Some(0);
        for start in 0..self.parents.len() {
            let mut path = Vec::new();
            let mut at = start;
            while depths[at].is_none() {
                path.push(at);
                assert!(path.len() <= self.parents.len(), "position {start} hangs in a circle");
                at = self.parents[at].expect("every position but the first has a parent");
            }
            let base = depths[at].expect("the loop ends at a known depth");
            for (above, position) in path.into_iter().rev().enumerate() {
                depths[position] = Some(base + 1 + above as u32);
            }
        }
        depths.into_iter().map(|depth| depth.expect("all were walked")).collect()
    }
}

/// What a planner returns.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Spanning trees of all positions.
    pub trees: Vec<PlanTree>,
    /// Which piece goes down which.
    pub split: Split,
    /// For each position, others that it makes a link to besides its parents; empty if there are none at all. Where two name
    /// each other, both are told, and the later one makes the link.
    pub peers: Vec<Vec<usize>>,
    /// For each position, whether it has a share of what its cluster imports; empty if all have.
    pub importers: Vec<bool>,
}

impl Plan {
    /// A plan of one tree.
    pub fn tree(parents: Vec<Option<usize>>) -> Plan {
        Plan { trees: vec![PlanTree::new(parents)], ..Plan::default() }
    }

    /// What each position is told of it. `is_dialable` says which nodes others can connect to; who cannot be is the one that
    /// connects.
    pub fn places(&self, strategy: &str, order: &Order, is_dialable: impl Fn(NodeId) -> bool) -> Vec<Placed> {
        let empty = |position: usize, (cluster_first, cluster_size): (usize, usize)| PlanPlace {
            strategy: strategy.to_owned(),
            root: order.node(0),
            position: position as u32,
            nodes: order.len() as u32,
            cluster_first: cluster_first as u32,
            cluster_size: cluster_size as u32,
            split: self.split,
            trees: Vec::with_capacity(self.trees.len()),
            peers: Vec::new(),
        };
        let ranges = order.ranges();
        let positions = ranges.iter().flat_map(|range| range.clone().zip(self.ranks(range)));
        let mut placed: Vec<Placed> =
            positions.map(|(position, rank)| Placed { place: empty(position, rank), dials: BTreeSet::new() }).collect();
        let dial = |placed: &mut Vec<Placed>, from: usize, to: usize| {
            let (from, to) = if is_dialable(order.node(to)) { (from, to) } else { (to, from) };
            placed[from].dials.insert(order.node(to));
        };
        let cluster_of = |position: usize| ranges.partition_point(|range| range.end <= position);
        for (number, tree) in self.trees.iter().enumerate() {
            for (placed, depth) in placed.iter_mut().zip(tree.depths()) {
                let place = TreePlace { weight: tree.weight, depth, parent: None, children: Vec::new() };
                placed.place.trees.push(place);
            }
            for (child, parent) in tree.parents.iter().enumerate() {
                let Some(parent) = *parent else { continue };
                let crosses = cluster_of(child) != cluster_of(parent);
                let rate_bytes_per_s = tree.rate_bytes_per_s.filter(|_| crosses);
                let edge = TreeChild { node: order.node(child), rate_bytes_per_s };
                placed[child].place.trees[number].parent = Some(order.node(parent));
                placed[parent].place.trees[number].children.push(edge);
                dial(&mut placed, child, parent);
            }
        }
        // For help when parents fail: somebody far off, so that nobody's only way leads to one node.
        (0..order.len()).for_each(|position| {
            let far = (position + order.len() / 3) % order.len();
            if far != position {
                dial(&mut placed, position, far);
            }
        });
        for (from, peers) in self.peers.iter().enumerate() {
            placed[from].place.peers = peers.iter().map(|&to| order.node(to)).collect();
            let left_to_other = |to: usize| to > from && self.peers[to].contains(&from);
            peers.iter().filter(|&&to| !left_to_other(to)).for_each(|&to| dial(&mut placed, from, to));
        }
        // The coordinator keeps all of them, and most have one child or none.
        let trees = placed.iter_mut().flat_map(|placed| &mut placed.place.trees);
        trees.for_each(|tree| tree.children.shrink_to_fit());
        placed
    }

    /// Of each position of a cluster, from where its rank counts, and how many there are.
    fn ranks(&self, cluster: &Range<usize>) -> Vec<(usize, usize)> {
        let imports = |position: usize| self.importers.get(position).is_none_or(|imports| *imports);
        let size = cluster.clone().filter(|&position| imports(position)).count();
        let mut rank = 0;
        let of = |position: usize| {
            let first = position - rank;
            rank += usize::from(imports(position));
            (first, if imports(position) { size } else { 0 })
        };
        cluster.clone().map(of).collect()
    }
}

/// What a plan means for one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// What it is told.
    pub place: PlanPlace,
    /// Whom it connects to.
    pub dials: BTreeSet<NodeId>,
}

/// Why there is no plan.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PlanError {
    /// The planner needs a network, and nobody has said what it is like.
    #[error(
        "strategy {strategy} plans its trees for a network that it has to know: say what it is like with --gauge FILE or --gauge measure"
    )]
    NoNetwork {
        /// Which one.
        strategy: &'static str,
    },
    /// The network has no such cluster.
    #[error("the network of --gauge has no cluster {name:?}: it has {known}; name nodes' clusters with --cluster")]
    NoSuchCluster {
        /// The cluster that the group has.
        name: String,
        /// Those that the network has.
        known: String,
    },
    /// Some cluster cannot be reached.
    #[error("in the network of --gauge there is no way from cluster {root:?} to all others")]
    Unreachable {
        /// The root's cluster.
        root: String,
    },
    /// Some node would have more neighbours than it may have links.
    #[error(
        "by strategy {strategy} some node would have more than the {LINKS_MAX} links that it may have: take another strategy, or make fewer clusters"
    )]
    TooManyLinks {
        /// Which one.
        strategy: &'static str,
    },
}

/// A planner: the shape of a strategy's trees, as a function.
pub type Planner = fn(&PlanInput<'_>) -> Result<Plan, PlanError>;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Clusters of these sizes, with nodes numbered through and clusters named A, B and so on.
    pub(crate) fn order(sizes: &[usize]) -> Order {
        let mut next = 0..;
        let cluster = |(i, &size): (usize, &usize)| OrderedCluster {
            cluster: ClusterId(i as u32),
            name: char::from(b'A' + i as u8).to_string(),
            nodes: next.by_ref().take(size).map(NodeId).collect(),
        };
        Order::new(sizes.iter().enumerate().map(cluster).collect())
    }

    pub(crate) fn plan(planner: Planner, sizes: &[usize]) -> Plan {
        planner(&PlanInput { order: &order(sizes), network: None, seed: 1 }).expect("these need no network")
    }

    /// Edges that lead from one cluster to another, of each tree.
    pub(crate) fn crossings(plan: &Plan, sizes: &[usize]) -> Vec<usize> {
        let ranges = order(sizes).ranges();
        let cluster = |position: usize| ranges.iter().position(|range| range.contains(&position));
        let crosses = |(child, parent): (usize, &Option<usize>)| parent.is_some_and(|p| cluster(p) != cluster(child));
        plan.trees.iter().map(|tree| tree.parents.iter().enumerate().filter(|&edge| crosses(edge)).count()).collect()
    }

    #[test]
    fn each_node_is_told_its_parents_and_children_and_whom_to_dial() {
        let order = order(&[2, 2]);
        let plan = Plan {
            trees: vec![
                PlanTree::new(vec![None, Some(0), Some(1), Some(1)]),
                PlanTree { weight: 3, rate_bytes_per_s: Some(7), parents: vec![None, Some(2), Some(0), Some(2)] },
            ],
            split: Split::Weighted,
            peers: vec![vec![], vec![3], vec![], vec![0, 1]],
            importers: vec![true, true, false, true],
        };
        // Nobody can connect to node 2.
        let placed = plan.places("example", &order, |node| node != NodeId(2));
        let tree = |position: usize, number: usize| &placed[position].place.trees[number];
        assert_eq!(tree(0, 0).children.len(), 1);
        assert_eq!(tree(1, 0).children.iter().map(|child| child.node.0).collect::<Vec<_>>(), [2, 3]);
        assert_eq!((tree(1, 1).parent, tree(1, 1).depth), (Some(NodeId(2)), 2));
        let limits: Vec<_> = tree(2, 1).children.iter().map(|child| (child.node.0, child.rate_bytes_per_s)).collect();
        assert_eq!(limits, [(1, Some(7)), (3, None)], "nobody limits what stays in a cluster");
        assert_eq!(placed[3].place.peers, [NodeId(0), NodeId(1)]);
        assert_eq!(placed[1].place.peers, [NodeId(3)], "both are told, and node 3 makes the link");
        let cluster = |position: usize| (placed[position].place.cluster_first, placed[position].place.cluster_size);
        assert_eq!([0, 1, 2, 3].map(cluster), [(0, 2), (0, 2), (2, 0), (3, 1)], "node 2 does not import");
        assert_eq!([0, 1, 3].map(|position| placed[position].place.rank()), [0, 1, 0]);
        let dials = |position: usize| placed[position].dials.iter().map(|node| node.0).collect::<Vec<_>>();
        assert_eq!([0, 1, 2, 3].map(dials), [vec![1], vec![0], vec![0, 1, 3], vec![0, 1]]);
    }
}
