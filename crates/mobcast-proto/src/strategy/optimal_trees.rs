//! `optimal-trees`: spanning trees whose rates add up to the optimum of the links between clusters (J. Edmonds, *Edge-disjoint branchings*, 1973),
//! each at its own rate: what a perfect planner reaches on links that do not change.

use mobcast_topology::packing;

use super::packed::{self, Use};
use super::plan::{Plan, PlanError, PlanInput, Split};
use super::{SEGMENT_BYTES, StrategyKind, trees};

/// The entry of the registry.
pub const KIND: StrategyKind = StrategyKind {
    name: "optimal-trees",
    summary: "an optimal packing of spanning trees: what a perfect planner reaches (needs --gauge)",
    make: trees::make,
    planner: Some(plan),
    needs_network: true,
    piece_size: Some(SEGMENT_BYTES),
    in_parts: false,
};

fn plan(input: &PlanInput<'_>) -> Result<Plan, PlanError> {
    packed::plan(input, "optimal-trees", packing::arborescences, Use { split: Split::Weighted, shaped: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::packed::tests::{check_plan, m2, planned};

    #[test]
    fn the_rates_add_up_to_the_optimum() {
        let sizes = [4, 4, 4, 4];
        let plan = planned(plan, Some(&m2()), &sizes).unwrap();
        check_plan(&plan, &sizes);
        let total: u64 = plan.trees.iter().map(|tree| tree.weight).sum();
        assert!((9_999_000..=10_000_000).contains(&total), "{total}");
    }

    #[test]
    fn each_tree_gets_pieces_by_its_rate_and_senders_keep_to_it() {
        let plan = planned(plan, Some(&m2()), &[4, 4, 4, 4]).unwrap();
        assert_eq!(plan.split, Split::Weighted);
        assert!(plan.trees.iter().all(|tree| tree.rate_bytes_per_s.is_some()));
    }
}
