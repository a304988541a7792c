//! `flat`: the root sends everything to everybody itself (Dichev and Lastovetsky, section 2; MPI's basic linear broadcast).

use super::plan::{Plan, PlanError, PlanInput};
use super::{SEGMENT_BYTES, StrategyKind, trees};
use crate::limits::LINKS_MAX;

/// Children of the root: as many as it may have links, but a few for newcomers. Whoever comes on top hangs below these.
const CHILDREN_MAX: usize = LINKS_MAX - 4;

/// The entry of the registry.
pub const KIND: StrategyKind = StrategyKind {
    name: "flat",
    summary: "the root sends everything to every node itself",
    make: trees::make,
    planner: Some(plan),
    needs_network: false,
    piece_size: Some(SEGMENT_BYTES),
};

fn plan(input: &PlanInput<'_>) -> Result<Plan, PlanError> {
    let parent = |position: usize| match position {
        0 => None,
        1..=CHILDREN_MAX => Some(0),
        _ => Some(1 + (position - CHILDREN_MAX - 1) % CHILDREN_MAX),
    };
    Ok(Plan::tree((0..input.order.len()).map(parent).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::plan::tests;

    #[test]
    fn everybody_hangs_at_the_root_as_far_as_its_links_go() {
        let plan = tests::plan(plan, &[3, 3]);
        assert_eq!(plan.trees[0].parents, [None, Some(0), Some(0), Some(0), Some(0), Some(0)]);
        let plan = tests::plan(super::plan, &[200]);
        assert_eq!(plan.trees[0].parents.iter().filter(|&&parent| parent == Some(0)).count(), CHILDREN_MAX);
        assert_eq!(plan.trees[0].depths().into_iter().max(), Some(2));
    }
}
