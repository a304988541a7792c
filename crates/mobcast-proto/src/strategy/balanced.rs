//! `balanced`: Balanced Multicasting (den Burger, Kielmann and Bal, SC 2005; HPDC 2007, section 2.4): the trees of FPFR as far as the
//! capacities of nodes and access links go, each at its own rate, which its senders keep to.

use mobcast_topology::packing;

use super::packed::{self, Use};
use super::plan::{Plan, PlanError, PlanInput, Split};
use super::{SEGMENT_BYTES, StrategyKind, trees};

/// The entry of the registry.
pub const KIND: StrategyKind = StrategyKind {
    name: "balanced",
    summary: "spanning trees at balanced rates that nobody exceeds (needs --gauge)",
    make: trees::make,
    planner: Some(plan),
    needs_network: true,
    piece_size: Some(SEGMENT_BYTES),
    in_parts: false,
};

fn plan(input: &PlanInput<'_>) -> Result<Plan, PlanError> {
    packed::plan(input, "balanced", packing::balanced, Use { split: Split::Weighted, shaped: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::packed::tests::{check_plan, m2, planned};

    #[test]
    fn each_tree_has_its_own_rate_and_its_part_of_the_object() {
        let sizes = [4, 12, 1, 2];
        let plan = planned(plan, Some(&m2()), &sizes).unwrap();
        check_plan(&plan, &sizes);
        assert_eq!(plan.split, Split::Weighted);
        for tree in &plan.trees {
            assert_eq!(tree.rate_bytes_per_s, Some(tree.weight), "in M2 every byte counts as payload here");
        }
        let total: u64 = plan.trees.iter().map(|tree| tree.weight).sum();
        assert!((9_000_000..=10_000_000).contains(&total), "{total}");
    }
}
