//! `scatter-allgather`: a binomial tree scatters one part of the object to each node, then all pass parts on around a ring
//! (Dichev and Lastovetsky, section 2; van de Geijn's algorithm, MPICH's broadcast of long messages).

use super::binomial::parent_of;
use super::plan::{Plan, PlanError, PlanInput, PlanTree, Split};
use super::{SEGMENT_BYTES, StrategyKind, trees};
use crate::limits::TREES_MAX;

/// The entry of the registry.
pub const KIND: StrategyKind = StrategyKind {
    name: "scatter-allgather",
    summary: "scatter one part to each node down a binomial tree, then swap all parts around a ring",
    make: trees::make,
    planner: Some(plan),
    needs_network: false,
    piece_size: Some(SEGMENT_BYTES),
    in_parts: true,
};

/// One part of the object for each node, as long as a plan may have so many trees; beyond, one part is for several nodes.
fn plan(input: &PlanInput<'_>) -> Result<Plan, PlanError> {
    let nodes = input.order.len();
    let parts = nodes.min(TREES_MAX);
    let trees = (0..parts).map(|part| PlanTree::new(part_parents(nodes, part * nodes / parts))).collect();
    Ok(Plan { trees, split: Split::Parts, ..Plan::default() })
}

/// The way of the part that is scattered to `owner`: down the binomial tree to it, from there around the ring. Those on the
/// way down have it already.
fn part_parents(nodes: usize, owner: usize) -> Vec<Option<usize>> {
    let mut parents: Vec<Option<usize>> = (0..nodes).map(|node| Some((node + nodes - 1) % nodes)).collect();
    parents[0] = None;
    let mut at = owner;
    while let Some(parent) = parent_of(at) {
        parents[at] = Some(parent);
        at = parent;
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::plan::tests;

    #[test]
    fn a_part_goes_down_the_tree_to_its_owner_and_on_around_the_ring() {
        let plan = tests::plan(plan, &[8]);
        assert_eq!((plan.trees.len(), plan.split), (8, Split::Parts));
        // Part 6 goes from 0 over 4 to 6; from there to 7. What the root and 4 have, they pass on as well.
        let around = [None, Some(0), Some(1), Some(2), Some(0), Some(4), Some(4), Some(6)];
        assert_eq!(plan.trees[6].parents, around);
        assert_eq!(plan.trees[0].parents, (0..8).map(|node: usize| node.checked_sub(1)).collect::<Vec<_>>());
    }

    /// Everybody but the root receives every part once, so that all together send no more than n - 1 objects, and nobody
    /// sends much more than two: it takes about 2 M/B, as van de Geijn's algorithm does.
    #[test]
    fn nobody_sends_more_than_two_objects() {
        let nodes = 16;
        let plan = tests::plan(plan, &[nodes]);
        let sent = |node: usize| plan.trees.iter().flat_map(|t| &t.parents).filter(|&&p| p == Some(node)).count();
        assert_eq!((0..nodes).map(sent).sum::<usize>(), nodes * (nodes - 1));
        assert!((0..nodes).all(|node| sent(node) <= 2 * nodes), "{:?}", (0..nodes).map(sent).collect::<Vec<_>>());
    }

    #[test]
    fn there_are_as_many_parts_as_nodes_but_256_at_most() {
        let parts = |nodes: usize| tests::plan(plan, &[nodes]).trees.len();
        assert_eq!([255, 256, 257, 600].map(parts), [255, 256, 256, 256]);
    }

    /// The last of 256 parts is for 597, 598 and 599: it goes to the first of them, and around the ring from there.
    #[test]
    fn where_a_part_is_for_several_nodes_they_follow_one_another() {
        let plan = tests::plan(plan, &[600]);
        let of_last = |position: usize| plan.trees[255].parents[position];
        assert_eq!([597, 596, 592, 576, 512].map(of_last), [596, 592, 576, 512, 0].map(Some), "down the binomial tree");
        assert_eq!([598, 599, 1, 595].map(of_last), [597, 598, 0, 594].map(Some), "around the ring");
        assert!(plan.trees.iter().all(|tree| tree.depths().len() == 600), "each spans all");
    }
}
