//! `two-trees`: two binary trees in each cluster, each for half of the pieces, in which whoever passes on the one half is a leaf for
//! the other (Sanders, Speck and Träff, 2009: the two-tree broadcast). A full card's rate, as down a chain, and the last node of a cluster
//! has a piece after log₂ n hops, where a chain takes n. Clusters follow one another.

use std::ops::Range;

use super::plan::{Plan, PlanError, PlanInput, PlanTree, Split};
use super::{SEGMENT_BYTES, StrategyKind, trees};

/// The entry of the registry.
pub const KIND: StrategyKind = StrategyKind {
    name: "two-trees",
    summary: "two binary trees in each cluster, each for half of the pieces; inner nodes of one are leaves of the other",
    make: trees::make,
    planner: Some(plan),
    needs_network: false,
    piece_size: Some(SEGMENT_BYTES),
    in_parts: false,
};

fn plan(input: &PlanInput<'_>) -> Result<Plan, PlanError> {
    let nodes = input.order.len();
    let trees = [Half::Even, Half::Odd].map(|half| {
        let mut parents = vec![None; nodes];
        // The trees of the root's cluster span its other nodes, and hang at the root; those of each further cluster hang where the card of a
        // node in the one before has room.
        let mut feeder = 0;
        for range in input.order.ranges() {
            let receivers = range.start.max(1)..range.end;
            hang(&mut parents, &receivers, feeder, half);
            if !receivers.is_empty() {
                feeder = receivers.start + free_label(receivers.len(), half) - 1;
            }
        }
        PlanTree::new(parents)
    });
    Ok(Plan { trees: trees.into(), split: Split::RoundRobin, ..Plan::default() })
}

/// Hangs one of the two trees of some positions at `feeder`.
fn hang(parents: &mut [Option<usize>], receivers: &Range<usize>, feeder: usize, half: Half) {
    for (position, label) in receivers.clone().zip(1..) {
        let inside = parent_label(label, receivers.len(), half);
        parents[position] = Some(inside.map_or(feeder, |above| receivers.start + above - 1));
    }
}

/// One of the two trees. Nodes are labelled 1 to n.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Half {
    /// The first one, in which even labels alone have children.
    Even,
    /// The second one, in which odd labels alone have.
    Odd,
}

/// The parent of a label in the binary tree of so many; none for the first of the tree.
fn parent_label(label: usize, count: usize, half: Half) -> Option<usize> {
    let parent = in_order_parent(place_of(label, count, half), count)?;
    Some(label_at(parent, count, half))
}

/// A label that sends less than the others, by half of the object for each half: of an even number the last one of each tree, which has
/// one child there; of an odd number the one that is a leaf of both.
fn free_label(count: usize, half: Half) -> usize {
    if count.is_multiple_of(2) && half == Half::Even { count } else { 1 }
}

/// Where a label stands in its tree, in order. In the second tree even labels and odd ones have changed places: of an even number they stand
/// in the mirror, of an odd number each a place further on.
fn place_of(label: usize, count: usize, half: Half) -> usize {
    match (half, count % 2) {
        (Half::Even, _) => label,
        (Half::Odd, 0) => count + 1 - label,
        (Half::Odd, _) => (label + count - 2) % count + 1,
    }
}

/// Which label stands there.
fn label_at(place: usize, count: usize, half: Half) -> usize {
    match (half, count % 2) {
        (Half::Even, _) => place,
        (Half::Odd, 0) => count + 1 - place,
        (Half::Odd, _) => place % count + 1,
    }
}

/// The parent of a place in the binary tree that has its places in order, left before middle before right: one whose lowest bit is 2^k has
/// children 2^(k-1) below and above. Where the upper one does not exist, it is 2^(k-2) above, and so on down to one that does.
fn in_order_parent(place: usize, count: usize) -> Option<usize> {
    let bit = 1 << place.trailing_zeros();
    let up = (place ^ bit) | (bit << 1);
    let parent = if up <= count { up } else { place ^ bit };
    (parent > 0).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::flat::tests::children;
    use crate::strategy::plan::tests::{self, crossings};

    #[test]
    fn the_first_tree_is_in_order() {
        let parents: Vec<_> = (1..=7).map(|label| parent_label(label, 7, Half::Even)).collect();
        assert_eq!(parents, [Some(2), Some(4), Some(2), None, Some(6), Some(4), Some(6)]);
        // 8 is missing: 4 is the first, and 5 hangs where 6 does not exist.
        let parents: Vec<_> = (1..=5).map(|label| parent_label(label, 5, Half::Even)).collect();
        assert_eq!(parents, [Some(2), Some(4), Some(2), None, Some(4)]);
    }

    #[test]
    fn the_second_tree_is_mirrored_or_shifted() {
        // Of six, from the other end: 4 of the first tree is 3.
        let parents: Vec<_> = (1..=6).map(|label| parent_label(label, 6, Half::Odd)).collect();
        assert_eq!(parents, [Some(3), Some(1), None, Some(5), Some(3), Some(5)]);
        // Of seven, one further: 4 of the first tree is 5.
        let parents: Vec<_> = (1..=7).map(|label| parent_label(label, 7, Half::Odd)).collect();
        assert_eq!(parents, [Some(7), Some(3), Some(5), Some(3), None, Some(7), Some(5)]);
    }

    #[test]
    fn nobody_sends_more_than_the_object_and_whoever_passes_on_one_half_does_not_pass_on_the_other() {
        for nodes in 2..200 {
            let plan = tests::plan(plan, &[nodes]);
            let [even, odd] = [0, 1].map(|tree: usize| children(&plan.trees[tree]));
            assert_eq!((even[0], odd[0]), (1, 1), "{nodes} nodes: the root sends each piece once");
            for position in 1..nodes {
                let (a, b) = (even[position], odd[position]);
                assert!((a == 0 || b == 0) && a.max(b) <= 2, "{nodes} nodes: {position} has {a} and {b}");
            }
            let deepest = plan.trees.iter().flat_map(PlanTree::depths).max();
            assert_eq!(deepest, Some(usize::ilog2(2 * nodes - 2)), "{nodes} nodes");
        }
    }

    #[test]
    fn each_half_enters_each_cluster_once_and_nobody_sends_more_for_it() {
        for sizes in [&[3, 1, 2, 7][..], &[1, 4, 1, 1], &[2, 2], &[8, 9, 10, 11, 12]] {
            let plan = tests::plan(plan, sizes);
            let borders = sizes.len() - 1;
            assert_eq!((crossings(&plan, sizes), plan.split), (vec![borders; 2], Split::RoundRobin), "{sizes:?}");
            let [even, odd] = [0, 1].map(|tree: usize| children(&plan.trees[tree]));
            let sent = even.iter().zip(&odd).map(|(a, b)| a + b);
            assert!(sent.clone().all(|halves| halves <= 2), "{sizes:?}: {:?}", sent.collect::<Vec<_>>());
        }
        let entries = |tree: usize| -> Vec<(usize, usize)> {
            let plan = tests::plan(plan, &[3, 1, 2, 7]);
            let cluster =
                |position: usize| [0..3, 3..4, 4..6, 6..13].into_iter().position(|range| range.contains(&position));
            let edges = plan.trees[tree].parents.iter().enumerate().filter_map(|(to, from)| Some(((*from)?, to)));
            edges.filter(|&(from, to)| cluster(from) != cluster(to)).collect()
        };
        // Of two receivers the second has a child less in the first tree, and the first in the second; of one or seven the first has none.
        assert_eq!(entries(0), [(2, 3), (3, 5), (5, 9)]);
        assert_eq!(entries(1), [(1, 3), (3, 4), (4, 10)]);
        // Who feeds the next cluster is the deepest of 15 receivers, the last but one level of 14, and the first of 16.
        let deepest = |sizes: &[usize]| tests::plan(plan, sizes).trees.iter().flat_map(PlanTree::depths).max();
        assert_eq!([&[16][..], &[16, 15], &[15, 15], &[17, 15]].map(deepest), [4, 8, 7, 5].map(Some));
    }
}
