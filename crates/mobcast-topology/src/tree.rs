//! The best single tree: what a broadcast down one spanning tree of clusters reaches at most. For comparison with the
//! optimum, which takes many trees.

use crate::flow::UNLIMITED;
use crate::network::{ClusterIndex, LinkRef, Topology};

/// A spanning tree of clusters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    /// Parent and child, parents before their children.
    pub edges: Vec<(ClusterIndex, ClusterIndex)>,
    /// Rate of its slowest link in bytes per second; `None` when every link is unlimited.
    pub rate_bytes_per_s: Option<u64>,
}

/// The spanning tree from `root` whose slowest link is fastest (Prim's rule: always take the fastest link that leaves
/// the tree). Only links between clusters count. `None` when a cluster cannot be reached.
pub fn widest(topology: &Topology, root: ClusterIndex) -> Option<Tree> {
    let rate = |from, to| topology.rate_bytes_per_s(LinkRef::Wan { from, to }).unwrap_or(UNLIMITED);
    let mut inside = vec![root];
    let mut tree = Tree { edges: Vec::new(), rate_bytes_per_s: None };
    while inside.len() < topology.clusters().len() {
        let leaving = inside.iter().flat_map(|from| topology.indices().map(move |to| (*from, to)));
        let candidates = leaving.filter(|(_, to)| !inside.contains(to));
        let (from, to) = candidates.max_by_key(|(from, to)| (rate(*from, *to), std::cmp::Reverse((*from, *to))))?;
        match rate(from, to) {
            0 => return None,
            UNLIMITED => {}
            slow => tree.rate_bytes_per_s = Some(tree.rate_bytes_per_s.map_or(slow, |rate| rate.min(slow))),
        }
        tree.edges.push((from, to));
        inside.push(to);
    }
    Some(tree)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::{m2_fast, m2_slow};

    #[test]
    fn the_best_tree_of_m2_is_the_chain_a_c_d_b() {
        let chain = [(0, 2), (2, 3), (3, 1)].map(|(from, to)| (ClusterIndex(from), ClusterIndex(to)));
        for topology in [m2_fast(1), m2_slow(1)] {
            let tree = widest(&topology, ClusterIndex(0)).unwrap();
            assert_eq!(tree.rate_bytes_per_s, Some(4_000_000));
            assert_eq!(tree.edges, chain);
        }
    }
}
