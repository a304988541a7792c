//! From spanning trees of clusters, which a planner packs into a network, to trees of nodes: a chain inside each cluster (den
//! Burger, Kielmann and Bal, SC 2005), and gateways that differ from tree to tree, so that the cards of all nodes of a
//! cluster carry a part of what enters and leaves it.

use std::cmp::Reverse;
use std::iter::repeat_n;

use mobcast_topology::packing::PackedTree;
use mobcast_topology::{Cluster, ClusterIndex, Topology};

use super::plan::{Order, Plan, PlanError, PlanInput, PlanTree, Split};
use crate::limits::TREES_MAX;

/// Trees of nodes for one tree of clusters, each with other gateways: as many as a cluster has nodes, up to this.
const TURNS_MAX: usize = 16;

/// A planner of trees of clusters.
pub(super) type Packing = fn(&Topology, ClusterIndex) -> Vec<PackedTree>;

/// How trees of clusters are used.
#[derive(Clone, Copy)]
pub(super) struct Use {
    /// Which piece goes down which tree.
    pub split: Split,
    /// Whether senders keep to the trees' rates.
    pub shaped: bool,
}

/// The plan of a strategy that packs trees into a network.
pub(super) fn plan(input: &PlanInput<'_>, strategy: &'static str, pack: Packing, how: Use) -> Result<Plan, PlanError> {
    let network = input.network.ok_or(PlanError::NoNetwork { strategy })?;
    let part = part_of(network, input.order)?;
    let mut packed = pack(&part, ClusterIndex(0));
    if packed.is_empty() {
        return Err(PlanError::Unreachable { root: input.order.clusters()[0].name.clone() });
    }
    if packed.len() > TREES_MAX {
        packed.sort_by_key(|tree| Reverse(tree.rate_bytes_per_s));
        packed.truncate(TREES_MAX);
    }
    let largest = input.order.clusters().iter().map(|cluster| cluster.nodes.len()).max().unwrap_or(1);
    let turns = largest.min(TURNS_MAX).min(TREES_MAX / packed.len()).max(1);
    let second_card = part.clusters()[0].wan_nic.is_some();
    let all = packed.iter().flat_map(|packed| (0..turns).map(move |turn| (packed, turn)));
    let rated = |(packed, turn): (&PackedTree, usize)| {
        (packed.rate_bytes_per_s / turns as u64, parents(input.order, &packed.edges, turn, second_card))
    };
    let mut trees: Vec<(u64, Vec<Option<usize>>)> = all.map(rated).collect();
    if how.shaped {
        fit_cards(&mut trees, &part, input.order);
    }
    let tree = |(rate, parents): (u64, Vec<Option<usize>>)| {
        let limit = part.payload_factor.of(rate).max(1);
        PlanTree { weight: rate.max(1), rate_bytes_per_s: how.shaped.then_some(limit), parents }
    };
    Ok(Plan { trees: trees.into_iter().map(tree).collect(), split: how.split, peers: Vec::new() })
}

/// Cards of a node: out and in, inside its cluster, and the same of a second card.
const CARDS: usize = 4;

/// Lowers rates where all trees together would make a node's card send or receive more than it can (theory.md 2.2): each tree gets of the
/// scarcest card on its way the part that it has of its load. What planners of clusters count is what all cards of a cluster
/// carry together.
fn fit_cards(trees: &mut [(u64, Vec<Option<usize>>)], part: &Topology, order: &Order) {
    let cluster_of: Vec<&Cluster> = order
        .ranges()
        .iter()
        .zip(part.clusters())
        .flat_map(|(range, cluster)| repeat_n(cluster, range.len()))
        .collect();
    let mut load = vec![0u128; CARDS * order.len()];
    for (rate, parents) in trees.iter() {
        let used = edges(parents).flat_map(|(from, to)| cards(&cluster_of, from, to));
        used.for_each(|(card, _)| load[card] += u128::from(*rate));
    }
    for (rate, parents) in trees {
        let used = edges(parents).flat_map(|(from, to)| cards(&cluster_of, from, to));
        let limits = used.filter_map(|(card, limit)| Some((load[card], u128::from(limit?))));
        let fitted = limits.filter(|(load, limit)| load > limit).map(|(load, limit)| u128::from(*rate) * limit / load);
        *rate = fitted.min().map_or(*rate, |least| least as u64);
    }
}

/// Parent and child of each edge.
fn edges(parents: &[Option<usize>]) -> impl Iterator<Item = (usize, usize)> + '_ {
    parents.iter().enumerate().filter_map(|(to, from)| Some(((*from)?, to)))
}

/// The two cards that an edge takes, by their numbers among those of all positions, with what they carry.
fn cards(cluster_of: &[&Cluster], from: usize, to: usize) -> [(usize, Option<u64>); 2] {
    let [sender, receiver] = [from, to].map(|position| cluster_of[position]);
    let leaves = sender.name != receiver.name;
    let out = match sender.wan_nic.filter(|_| leaves) {
        Some(second) => (CARDS * from + 2, second.out_bytes_per_s),
        None => (CARDS * from, sender.nic_out_bytes_per_s),
    };
    let into = match receiver.wan_nic.filter(|_| leaves) {
        Some(second) => (CARDS * to + 3, second.in_bytes_per_s),
        None => (CARDS * to + 1, receiver.nic_in_bytes_per_s),
    };
    [out, into]
}

/// The part of a network in which the group's clusters are, in the group's order and with as many nodes as they have.
fn part_of(network: &Topology, order: &Order) -> Result<Topology, PlanError> {
    let mut part = Topology::new();
    part.payload_factor = network.payload_factor;
    let mut indices = Vec::new();
    for ordered in order.clusters() {
        let Some(index) = network.find(&ordered.name) else {
            let names: Vec<&str> = network.clusters().iter().map(|cluster| cluster.name.as_str()).collect();
            return Err(PlanError::NoSuchCluster { name: ordered.name.clone(), known: names.join(", ") });
        };
        let mut cluster = network.clusters()[index.as_usize()].clone();
        cluster.nodes = ordered.nodes.len() as u32;
        part.add_cluster(cluster).expect("clusters of a group have different names");
        indices.push(index);
    }
    for (from, to, link) in network.wan_links() {
        let place = |index| indices.iter().position(|&other| other == index).map(|at| ClusterIndex(at as u32));
        if let (Some(from), Some(to)) = (place(from), place(to)) {
            part.link(from, to, link).expect("both clusters were added");
        }
    }
    Ok(part)
}

/// The tree of nodes for a tree of clusters: in each cluster a chain from the gateway on, whose next members feed the clusters
/// below. The gateway is another one at each turn. The root comes last among those of its cluster who feed others, but in its turn if it
/// has a second card for that, which its own cluster takes nothing of.
fn parents(
    order: &Order,
    edges: &[(ClusterIndex, ClusterIndex)],
    turn: usize,
    second_card: bool,
) -> Vec<Option<usize>> {
    let ranges = order.ranges();
    let chains: Vec<Vec<usize>> = ranges
        .iter()
        .map(|range| {
            let root = range.start == 0;
            let rest: Vec<usize> = range.clone().skip(usize::from(root)).collect();
            let from = turn % rest.len().max(1);
            let turned = rest[from.min(rest.len())..].iter().chain(&rest[..from.min(rest.len())]).copied();
            (root.then_some(0)).into_iter().chain(turned).collect()
        })
        .collect();
    let mut parents = vec![None; order.len()];
    for chain in &chains {
        chain.windows(2).for_each(|pair| parents[pair[1]] = Some(pair[0]));
    }
    let mut fed = vec![0; chains.len()];
    for &(from, to) in edges {
        let (from, to) = (from.as_usize(), to.as_usize());
        let chain = &chains[from];
        let others_first = chain[0] == 0 && !(second_card && turn % chain.len() == chain.len() - 1);
        let feeder = chain[(fed[from] + usize::from(others_first)) % chain.len()];
        fed[from] += 1;
        parents[chains[to][0]] = Some(feeder);
    }
    parents
}

#[cfg(test)]
pub(super) mod tests {
    use mobcast_topology::{PayloadFactor, WanLink};

    use super::*;
    use crate::strategy::plan::Planner;
    use crate::strategy::plan::tests::{crossings, order};

    /// The matrix M2 of the MOB paper's scenario "fast", MB/s.
    pub(crate) fn m2() -> Topology {
        let mut topology = Topology::new();
        topology.payload_factor = PayloadFactor::ONE;
        let mut add = |name: &str| topology.add_cluster(Cluster::new(name, 4)).unwrap();
        let [a, b, c, d] = ["A", "B", "C", "D"].map(&mut add);
        for (from, to, rate) in [(a, b, 3), (a, c, 4), (a, d, 3), (b, c, 3), (b, d, 4), (c, d, 8)] {
            topology.link_both(from, to, WanLink::new(rate * 1_000_000, 10_000_000)).unwrap();
        }
        topology
    }

    pub(crate) fn planned(planner: Planner, network: Option<&Topology>, sizes: &[usize]) -> Result<Plan, PlanError> {
        planner(&PlanInput { order: &order(sizes), network, seed: 1 })
    }

    /// Each tree of a plan spans all nodes, and enters each cluster but the root's once.
    pub(crate) fn check_plan(plan: &Plan, sizes: &[usize]) {
        for tree in &plan.trees {
            assert_eq!(tree.depths().len(), sizes.iter().sum::<usize>(), "it spans all nodes");
        }
        let least = sizes.len() - 1;
        assert!(crossings(plan, sizes).iter().all(|&count| count == least), "each tree enters each cluster once");
    }

    /// M2 whose nodes have cards, first ones, and second ones in B and C.
    fn with_cards() -> Topology {
        let mut topology = m2();
        for index in topology.indices() {
            let cluster = topology.cluster_mut(index).unwrap();
            (cluster.nic_out_bytes_per_s, cluster.nic_in_bytes_per_s) = (Some(4_000_000), Some(7_000_000));
            let second = mobcast_topology::WanNic { out_bytes_per_s: Some(2_000_000), in_bytes_per_s: Some(900_000) };
            cluster.wan_nic = ["B", "C"].contains(&cluster.name.as_str()).then_some(second);
        }
        topology
    }

    #[test]
    fn no_card_is_oversubscribed_where_senders_keep_to_rates() {
        let (topology, sizes) = (with_cards(), [4, 4, 4, 4]);
        let network = part_of(&topology, &order(&sizes)).unwrap();
        let cluster_of: Vec<&Cluster> = network.clusters().iter().flat_map(|cluster| repeat_n(cluster, 4)).collect();
        for name in ["balanced", "optimal-trees", "fpfr"] {
            let planner = crate::strategy::find(name).and_then(|kind| kind.planner).unwrap();
            let plan = planned(planner, Some(&topology), &sizes).unwrap();
            let mut load: std::collections::BTreeMap<usize, (u64, u64)> = std::collections::BTreeMap::new();
            for tree in &plan.trees {
                for (card, limit) in edges(&tree.parents).flat_map(|(from, to)| cards(&cluster_of, from, to)) {
                    let (carried, _) = load.entry(card).or_insert((0, limit.unwrap()));
                    *carried += tree.weight;
                }
            }
            let over = load.values().filter(|(carried, limit)| *carried > limit + plan.trees.len() as u64).count();
            assert_eq!(over > 0, name == "fpfr", "{name}: {over} cards have more than they carry");
            let total: u64 = plan.trees.iter().map(|tree| tree.weight).sum();
            assert!(
                name == "fpfr" || (2_300_000..=3_600_000).contains(&total),
                "{name}: {total} of what B and C take in"
            );
        }
    }

    #[test]
    fn gateways_take_turns() {
        let order = order(&[3, 2]);
        let edges = [(ClusterIndex(0), ClusterIndex(1))];
        let by_turn = [0, 1].map(|turn| parents(&order, &edges, turn, false));
        assert_eq!(by_turn[0], [None, Some(0), Some(1), Some(1), Some(3)]);
        assert_eq!(by_turn[1], [None, Some(2), Some(0), Some(4), Some(2)]);
    }

    #[test]
    fn with_a_second_card_the_root_takes_its_turn() {
        let edges = [(ClusterIndex(0), ClusterIndex(1))];
        let feeders = |second_card: bool| -> Vec<Option<usize>> {
            (0..3).map(|turn| parents(&order(&[3, 1]), &edges, turn, second_card)[3]).collect()
        };
        assert_eq!(feeders(false), [Some(1), Some(2), Some(1)]);
        assert_eq!(feeders(true), [Some(1), Some(2), Some(0)]);
    }

    #[test]
    fn a_root_without_company_feeds_other_clusters_itself() {
        let order = order(&[1, 1, 2]);
        let edges = [(ClusterIndex(0), ClusterIndex(1)), (ClusterIndex(0), ClusterIndex(2))];
        assert_eq!(parents(&order, &edges, 0, false), [None, Some(0), Some(0), Some(2)]);
        assert_eq!(parents(&order, &edges, 1, false), [None, Some(0), Some(3), Some(0)]);
    }

    #[test]
    fn the_network_has_to_know_the_clusters() {
        let mut lacking = Topology::new();
        lacking.add_cluster(Cluster::new("A", 1)).unwrap();
        let error = part_of(&lacking, &order(&[1, 1])).unwrap_err().to_string();
        assert!(error.contains("no cluster \"B\": it has A"), "{error}");
    }
}
