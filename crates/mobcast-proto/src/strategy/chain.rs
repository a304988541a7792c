//! `chain`: everybody passes on to the next one (Dichev and Lastovetsky, section 2: the linear tree; Open MPI's pipeline).

use super::plan::{Plan, PlanError, PlanInput};
use super::{SEGMENT_BYTES, StrategyKind, trees};

/// The entry of the registry.
pub const KIND: StrategyKind = StrategyKind {
    name: "chain",
    summary: "each node passes everything on to the next, cluster by cluster",
    make: trees::make,
    planner: Some(plan),
    needs_network: false,
    piece_size: Some(SEGMENT_BYTES),
    in_parts: false,
};

fn plan(input: &PlanInput<'_>) -> Result<Plan, PlanError> {
    Ok(Plan::tree((0..input.order.len()).map(|position| position.checked_sub(1)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::plan::tests;

    #[test]
    fn a_chain_enters_each_cluster_once() {
        let plan = tests::plan(plan, &[2, 3, 1]);
        assert_eq!(plan.trees[0].parents, [None, Some(0), Some(1), Some(2), Some(3), Some(4)]);
        assert_eq!(tests::crossings(&plan, &[2, 3, 1]), [2]);
    }
}
