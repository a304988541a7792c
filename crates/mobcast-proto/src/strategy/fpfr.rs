//! `fpfr`: fast parallel file replication (Izmailov, Ganguly and Tu, GGF-10, 2004; HPDC 2007, section 2.3): spanning trees are found by
//! depth-first search, one after the other, until the links between clusters have nothing left; pieces go down all of them in turn.

use mobcast_topology::packing;

use super::packed::{self, Use};
use super::plan::{Plan, PlanError, PlanInput, Split};
use super::{SEGMENT_BYTES, StrategyKind, trees};

/// The entry of the registry.
pub const KIND: StrategyKind = StrategyKind {
    name: "fpfr",
    summary: "depth-first spanning trees until the links are used up, pieces in turn over them (needs --gauge)",
    make: trees::make,
    planner: Some(plan),
    needs_network: true,
    piece_size: Some(SEGMENT_BYTES),
    in_parts: false,
};

fn plan(input: &PlanInput<'_>) -> Result<Plan, PlanError> {
    packed::plan(input, "fpfr", packing::fpfr, Use { split: Split::RoundRobin, shaped: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::packed::tests::{check_plan, m2, planned};

    #[test]
    fn pieces_go_down_all_trees_in_turn_and_nobody_is_limited() {
        let sizes = [4, 4, 4, 4];
        let plan = planned(plan, Some(&m2()), &sizes).unwrap();
        check_plan(&plan, &sizes);
        assert_eq!(plan.split, Split::RoundRobin);
        assert!(plan.trees.iter().all(|tree| tree.rate_bytes_per_s.is_none()));
        assert_eq!(planned(super::plan, None, &sizes), Err(PlanError::NoNetwork { strategy: "fpfr" }));
    }
}
