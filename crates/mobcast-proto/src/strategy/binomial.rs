//! `binomial`: the tree in which whoever has it gives it to half of those that are left (Dichev and Lastovetsky, section 2;
//! MPI's binomial broadcast).

use super::plan::{Plan, PlanError, PlanInput};
use super::{SEGMENT_BYTES, StrategyKind, trees};

/// The entry of the registry.
pub const KIND: StrategyKind = StrategyKind {
    name: "binomial",
    summary: "a binomial tree over all nodes: few hops, for small objects",
    make: trees::make,
    planner: Some(plan),
    needs_network: false,
    piece_size: Some(SEGMENT_BYTES),
    in_parts: false,
};

/// The parent of a rank in the binomial tree whose root is rank 0: the rank without its lowest bit, as in MPICH.
pub(super) fn parent_of(rank: usize) -> Option<usize> {
    (rank > 0).then(|| rank & (rank - 1))
}

/// How many children rank 0 has among so many ranks: one for each power of two below.
pub(super) fn children_of_first(ranks: usize) -> usize {
    ranks.next_power_of_two().ilog2() as usize
}

fn plan(input: &PlanInput<'_>) -> Result<Plan, PlanError> {
    Ok(Plan::tree((0..input.order.len()).map(parent_of).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::plan::tests;

    #[test]
    fn the_tree_is_that_of_mpi() {
        let plan = tests::plan(plan, &[8]);
        let parents = [None, Some(0), Some(0), Some(2), Some(0), Some(4), Some(4), Some(6)];
        assert_eq!(plan.trees[0].parents, parents);
        let counted = |ranks: usize| (1..ranks).filter(|&rank| parent_of(rank) == Some(0)).count();
        (1..70).for_each(|ranks| assert_eq!(children_of_first(ranks), counted(ranks), "{ranks} ranks"));
        for nodes in [2, 3, 16, 17, 64, 100] {
            let depth = tests::plan(super::plan, &[nodes]).trees[0].depths().into_iter().max();
            assert!(depth <= Some(nodes.ilog2()), "{nodes} nodes: {depth:?} hops");
        }
    }
}
