//! `magpie`: the root sends to one node of each other cluster, and binomial trees go on inside (Kielmann et al., PPoPP 1999;
//! den Burger and Kielmann, HPDC 2007, experiment 4).

use super::binomial::parent_of;
use super::plan::{Plan, PlanError, PlanInput};
use super::{SEGMENT_BYTES, StrategyKind, trees};

/// The entry of the registry.
pub const KIND: StrategyKind = StrategyKind {
    name: "magpie",
    summary: "the root sends to one gateway of each cluster, binomial trees go on inside",
    make: trees::make,
    planner: Some(plan),
    needs_network: false,
    piece_size: Some(SEGMENT_BYTES),
};

fn plan(input: &PlanInput<'_>) -> Result<Plan, PlanError> {
    let mut parents = Vec::with_capacity(input.order.len());
    for range in input.order.ranges() {
        let gateway = range.start;
        // The root is the gateway of its own cluster.
        parents.extend(range.map(|position| match parent_of(position - gateway) {
            Some(parent) => Some(gateway + parent),
            None => (gateway > 0).then_some(0),
        }));
    }
    Ok(Plan::tree(parents))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::plan::tests;

    #[test]
    fn gateways_hang_at_the_root_and_the_others_at_their_gateway() {
        let plan = tests::plan(plan, &[2, 4, 3]);
        let parents = [None, Some(0), Some(0), Some(2), Some(2), Some(4), Some(0), Some(6), Some(6)];
        assert_eq!(plan.trees[0].parents, parents);
        assert_eq!(tests::crossings(&plan, &[2, 4, 3]), [2]);
    }
}
