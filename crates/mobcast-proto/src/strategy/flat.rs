//! `flat`: the root sends everything to everybody itself (Dichev and Lastovetsky, section 2; MPI's basic linear broadcast).

use super::plan::{Plan, PlanError, PlanInput};
use super::{SEGMENT_BYTES, StrategyKind, trees};
use crate::limits::{LINKS_MAX, PLANNED_PEERS_MAX};

/// Children of the root: as many as it may have links, but a few for newcomers. Whoever comes on top hangs below these.
pub(super) const ROOT_CHILDREN_MAX: usize = LINKS_MAX - 4;
/// Children of any other node: it has a parent as well, and links of the control tree that are no links of the plan.
pub(super) const CHILDREN_MAX: usize = PLANNED_PEERS_MAX;

/// The entry of the registry.
pub const KIND: StrategyKind = StrategyKind {
    name: "flat",
    summary: "the root sends everything to every node itself",
    make: trees::make,
    planner: Some(plan),
    needs_network: false,
    piece_size: Some(SEGMENT_BYTES),
    in_parts: false,
};

/// The parent of a position in the flattest tree that links allow, where every node has so many children by other rules already. Each
/// level is full before the next one begins, and the nodes of a level are dealt out evenly over those of the level above.
pub(super) fn parent_of(position: usize, other_children: usize) -> Option<usize> {
    let (mut above, mut children) = (0..1, ROOT_CHILDREN_MAX - other_children);
    while position >= above.end + above.len() * children {
        above = above.end..above.end + above.len() * children;
        children = CHILDREN_MAX - other_children;
    }
    (position >= above.end).then(|| above.start + (position - above.end) % above.len())
}

fn plan(input: &PlanInput<'_>) -> Result<Plan, PlanError> {
    Ok(Plan::tree((0..input.order.len()).map(|position| parent_of(position, 0)).collect()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::strategy::plan::{PlanTree, tests};

    /// How many children each position has.
    pub(in crate::strategy) fn children(tree: &PlanTree) -> Vec<usize> {
        let mut children = vec![0; tree.parents.len()];
        tree.parents.iter().flatten().for_each(|&parent| children[parent] += 1);
        children
    }

    #[test]
    fn everybody_hangs_at_the_root_as_far_as_its_links_go() {
        let plan = tests::plan(plan, &[3, 3]);
        assert_eq!(plan.trees[0].parents, [None, Some(0), Some(0), Some(0), Some(0), Some(0)]);
        let plan = tests::plan(super::plan, &[200]);
        assert_eq!(children(&plan.trees[0])[0], 60, "of 64 links four are left for newcomers");
        assert_eq!(plan.trees[0].depths().into_iter().max(), Some(2));
    }

    /// A node that is told of more children than it may have links takes its assignment for a violation.
    #[test]
    fn in_a_group_of_ten_thousand_nobody_has_more_children_than_links() {
        let tree = &tests::plan(plan, &[10_000]).trees[0];
        let children = children(tree);
        assert_eq!((children[0], children[1..].iter().max()), (60, Some(&40)));
        assert_eq!(tree.depths().into_iter().max(), Some(3));
    }

    #[test]
    fn who_has_other_children_has_room_for_fewer_of_these() {
        let mut children = vec![0; 10_000];
        (0..10_000).filter_map(|position| parent_of(position, 4)).for_each(|parent| children[parent] += 1);
        assert_eq!((children[0], children[1..].iter().max()), (60 - 4, Some(&(40 - 4))));
    }
}
