//! `magpie`: the root sends to one node of each other cluster, and binomial trees go on inside (Kielmann et al., PPoPP 1999;
//! den Burger and Kielmann, HPDC 2007, experiment 4).

use std::ops::Range;

use super::binomial::{children_of_first, parent_of};
use super::plan::{Plan, PlanError, PlanInput};
use super::{SEGMENT_BYTES, StrategyKind, flat, trees};

/// The entry of the registry.
pub const KIND: StrategyKind = StrategyKind {
    name: "magpie",
    summary: "the root sends to one gateway of each cluster, binomial trees go on inside",
    make: trees::make,
    planner: Some(plan),
    needs_network: false,
    piece_size: Some(SEGMENT_BYTES),
    in_parts: false,
};

fn plan(input: &PlanInput<'_>) -> Result<Plan, PlanError> {
    let ranges: Vec<Range<usize>> = input.order.ranges().into_iter().filter(|range| !range.is_empty()).collect();
    let local_children = ranges.iter().map(|range| children_of_first(range.len())).max().unwrap_or(0);
    let mut parents = Vec::with_capacity(input.order.len());
    for (number, range) in ranges.iter().enumerate() {
        let gateway = range.start;
        // The root is the gateway of its own cluster.
        parents.extend(range.clone().map(|position| match parent_of(position - gateway) {
            Some(parent) => Some(gateway + parent),
            None => flat::parent_of(number, local_children).map(|above| ranges[above].start),
        }));
    }
    Ok(Plan::tree(parents))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::flat::tests::children;
    use crate::strategy::plan::{Order, OrderedCluster, tests};
    use crate::units::{ClusterId, NodeId};

    #[test]
    fn gateways_hang_at_the_root_and_the_others_at_their_gateway() {
        let plan = tests::plan(plan, &[2, 4, 3]);
        let parents = [None, Some(0), Some(0), Some(2), Some(2), Some(4), Some(0), Some(6), Some(6)];
        assert_eq!(plan.trees[0].parents, parents);
        assert_eq!(tests::crossings(&plan, &[2, 4, 3]), [2]);
    }

    #[test]
    fn of_two_hundred_gateways_nobody_has_more_children_than_links() {
        let nodes = |cluster: u32| (cluster * 9..(cluster + 1) * 9).map(NodeId).collect();
        let cluster =
            |number| OrderedCluster { cluster: ClusterId(number), name: number.to_string(), nodes: nodes(number) };
        let order = Order::new((0..200).map(cluster).collect());
        let plan = plan(&PlanInput { order: &order, network: None, seed: 1 }).expect("it needs no network");
        let children = children(&plan.trees[0]);
        // Each gateway has four in its cluster, and 143 hang below the 56 that there is room for at the root.
        assert_eq!((children[0], children[1..].iter().max()), (56 + 4, Some(&(3 + 4))), "{children:?}");
        let depth = plan.trees[0].depths().into_iter().max();
        assert_eq!(depth, Some(2 + 3), "two hops between gateways, three inside a cluster of nine");
    }
}
