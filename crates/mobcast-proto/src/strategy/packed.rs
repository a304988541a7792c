//! From spanning trees of clusters, which a planner packs into a network, to trees of nodes: a chain inside each cluster (den
//! Burger, Kielmann and Bal, SC 2005), and gateways that differ from tree to tree, so that the cards of all nodes of a
//! cluster carry a part of what enters and leaves it.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::iter::repeat_n;

use mobcast_topology::packing::PackedTree;
use mobcast_topology::{Cluster, ClusterIndex, Topology};

use super::plan::{Order, Plan, PlanError, PlanInput, PlanTree, Split};
use super::{ASSUMED_CARD_BYTES_PER_S, FIRST_FLIGHT_BYTES, flat};
use crate::limits::TREES_MAX;
use crate::time::Duration;

/// Trees of nodes for one tree of clusters, each with other gateways: no more than the largest cluster has nodes, and than this.
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
    let trees = trees_of_nodes(&packed, &part, input.order, how.split);
    let mut trees = trees.ok_or(PlanError::TooManyLinks { strategy })?;
    if how.shaped {
        let rates = fitted_rates(&trees, &part, input.order, None);
        trees.iter_mut().zip(rates).for_each(|((rate, _), fitted)| *rate = fitted);
    }
    let tree = |(rate, parents): Tree| {
        let limit = part.payload_factor.of(rate).max(1);
        PlanTree { weight: rate.max(1), rate_bytes_per_s: how.shaped.then_some(limit), parents }
    };
    Ok(Plan { trees: trees.into_iter().map(tree).collect(), split: how.split, ..Plan::default() })
}

/// A tree of nodes: its rate, and each position's parent.
type Tree = (u64, Vec<Option<usize>>);

/// Trees of nodes for the trees of clusters, in no more turns than leave each node within its links; none if one is too many.
fn trees_of_nodes(packed: &[PackedTree], part: &Topology, order: &Order, split: Split) -> Option<Vec<Tree>> {
    let largest = order.clusters().iter().map(|cluster| cluster.nodes.len()).max().unwrap_or(1);
    let most = largest.min(TURNS_MAX).min(TREES_MAX / packed.len()).max(1);
    let mut fewer = (1..=most).rev().map(|most| in_few_turns(packed, part, order, split, most));
    fewer.find(|trees| links_fit(trees, order.len()))
}

/// Whether no node has more neighbours in all trees together than it may have links.
fn links_fit(trees: &[Tree], nodes: usize) -> bool {
    let mut neighbours: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); nodes];
    for (from, to) in trees.iter().flat_map(|(_, parents)| edges(parents)) {
        neighbours[from].insert(to);
        neighbours[to].insert(from);
    }
    let most = |position: usize| if position == 0 { flat::ROOT_CHILDREN_MAX } else { flat::CHILDREN_MAX };
    neighbours.iter().enumerate().all(|(position, others)| others.len() <= most(position))
}

/// Trees of nodes for the trees of clusters, in as few turns as do, and `most`. Each turn is one more connection on every link that its tree
/// takes, and those share the link: a piece takes as many times as long to get across as there are, and it passes several links. So there are
/// no more than the cards of a cluster need to carry what enters and leaves it, and new connections to fill their links at once.
fn in_few_turns(packed: &[PackedTree], part: &Topology, order: &Order, split: Split, most: usize) -> Vec<Tree> {
    let mut to_fill: Vec<usize> = packed.iter().map(|packed| connections_to_fill(packed, part).min(most)).collect();
    if split == Split::RoundRobin {
        // Trees of clusters that get equal parts have equally many turns.
        let equal = to_fill.iter().copied().max().unwrap_or(1);
        to_fill.fill(equal);
    }
    let second_card = part.clusters()[0].wan_nic.is_some();
    let in_turns = |least: usize| -> Vec<Tree> {
        let each = packed.iter().zip(&to_fill).map(|(packed, &to_fill)| (packed, to_fill.max(least)));
        let tree_of = |packed: &PackedTree, turns: usize, turn: usize| {
            (packed.rate_bytes_per_s / turns as u64, parents(order, &packed.edges, turn, second_card))
        };
        each.flat_map(|(packed, turns)| (0..turns).map(move |turn| tree_of(packed, turns, turn))).collect()
    };
    let carried = |trees: &[Tree]| fitted_rates(trees, part, order, Some(ASSUMED_CARD_BYTES_PER_S)).iter().sum::<u64>();
    let all = in_turns(most);
    let best = carried(&all);
    // What rounding takes away is not worth another turn.
    let is_enough = |trees: &Vec<Tree>| carried(trees) >= best - best / 100;
    let doubled = std::iter::successors(Some(1), |turns| Some(turns * 2));
    let fewer = doubled.take_while(|&turns| turns < most && to_fill.iter().any(|&to_fill| to_fill < most));
    fewer.map(in_turns).find(is_enough).unwrap_or(all)
}

/// How many new connections carry what a tree carries from their first round trip on.
fn connections_to_fill(packed: &PackedTree, part: &Topology) -> usize {
    let one_way =
        |&(from, to): &(ClusterIndex, ClusterIndex)| part.wan(from, to).map_or(0, |link| link.one_way_delay_ns);
    let round_trip = Duration(2 * packed.edges.iter().map(one_way).max().unwrap_or_default());
    let in_flight = u128::from(packed.rate_bytes_per_s) * u128::from(round_trip.0) / 1_000_000_000;
    usize::try_from(in_flight.div_ceil(u128::from(FIRST_FLIGHT_BYTES))).unwrap_or(usize::MAX)
}

/// Cards of a node: out and in, inside its cluster, and the same of a second card.
const CARDS: usize = 4;

/// The rates of trees, lowered where all trees together would make a node's card send or receive more than it can: each tree
/// gets of the scarcest card on its way the part that it has of its load. What planners of clusters count is what all cards of a cluster
/// carry together. A card without a limit is taken for one that carries `assumed`, if that is given.
fn fitted_rates(trees: &[Tree], part: &Topology, order: &Order, assumed: Option<u64>) -> Vec<u64> {
    let cluster_of: Vec<&Cluster> = order
        .ranges()
        .iter()
        .zip(part.clusters())
        .flat_map(|(range, cluster)| repeat_n(cluster, range.len()))
        .collect();
    let mut load = vec![0u128; CARDS * order.len()];
    for (rate, parents) in trees {
        let used = edges(parents).flat_map(|(from, to)| cards(&cluster_of, from, to));
        used.for_each(|(card, _)| load[card] += u128::from(*rate));
    }
    let fitted = |(rate, parents): &Tree| {
        let used = edges(parents).flat_map(|(from, to)| cards(&cluster_of, from, to));
        let limits = used.filter_map(|(card, limit)| Some((load[card], u128::from(limit.or(assumed)?))));
        let fitted = limits.filter(|(load, limit)| load > limit).map(|(load, limit)| u128::from(*rate) * limit / load);
        fitted.min().map_or(*rate, |least| least as u64)
    };
    trees.iter().map(fitted).collect()
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
            let mut turned = rest;
            let from = turn % turned.len().max(1);
            turned.rotate_left(from);
            root.then_some(0).into_iter().chain(turned).collect()
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
    use mobcast_topology::{PayloadFactor, WanLink, packing, preset};

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
        assert!(!plan.trees.is_empty(), "there are trees");
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

    /// M2 with other links.
    fn m2_linked(change: impl Fn(WanLink) -> WanLink) -> Topology {
        let mut topology = m2();
        let links: Vec<_> = topology.wan_links().collect();
        for (from, to, link) in links {
            topology.link(from, to, change(link)).unwrap();
        }
        topology
    }

    /// What a strategy plans, which spans all.
    fn plan_by(name: &str, topology: &Topology, sizes: &[usize]) -> Plan {
        let planner = crate::strategy::find(name).and_then(|kind| kind.planner).unwrap();
        let plan = planned(planner, Some(topology), sizes).unwrap();
        check_plan(&plan, sizes);
        plan
    }

    /// How many trees of nodes M2's trees become, with sixteen nodes in each cluster.
    fn trees_in_m2(one_way_delay_ns: u64, change: impl Fn(&mut Cluster)) -> usize {
        let mut topology = m2_linked(|link| WanLink { one_way_delay_ns, ..link });
        topology.indices().for_each(|index| change(topology.cluster_mut(index).unwrap()));
        plan_by("optimal-trees", &topology, &[16; 4]).trees.len()
    }

    #[test]
    fn there_are_as_few_turns_as_do() {
        let of_clusters = packing::arborescences(&m2(), ClusterIndex(0)).len();
        assert_eq!(trees_in_m2(0, |_| ()), of_clusters, "one node's card carries what goes to and from a cluster");
        // 10 MB/s leave A and enter the others, and each of them passes half of it on, at most.
        let slow = |cluster: &mut Cluster| {
            let card = mobcast_topology::WanNic { out_bytes_per_s: Some(1_250_000), in_bytes_per_s: Some(1_250_000) };
            cluster.wan_nic = Some(card);
        };
        assert!((8..=16).contains(&(trees_in_m2(0, slow) / of_clusters)), "{}", trees_in_m2(0, slow));
        // 29 kB at a time carry 1.45 MB/s at 20 ms, and 290 kB/s at 100 ms.
        let (near, far) = (trees_in_m2(10_000_000, |_| ()), trees_in_m2(50_000_000, |_| ()));
        assert!((2 * of_clusters..=4 * of_clusters).contains(&near), "{near}");
        assert!((10 * of_clusters..=16 * of_clusters).contains(&far), "{far}");
    }

    #[test]
    fn nobody_has_more_neighbours_than_it_may_have_links() {
        let sizes = [1, 16, 16, 16, 16, 16, 16, 16, 16];
        // 100 ms of round trip ask for eleven turns of each of eight trees, which lead from the root to eight clusters.
        let mut topology = preset::full_mesh(9, &Cluster::new("", 16), 3_000_000, 50_000_000);
        for (index, name) in topology.indices().zip('A'..) {
            topology.cluster_mut(index).unwrap().name = name.into();
        }
        let plan = plan_by("optimal-trees", &topology, &sizes);
        let mut neighbours: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); sizes.iter().sum()];
        for (from, to) in plan.trees.iter().flat_map(|tree| edges(&tree.parents)) {
            neighbours[from].insert(to);
            neighbours[to].insert(from);
        }
        let most = neighbours[1..].iter().map(BTreeSet::len).max().unwrap();
        assert!(neighbours[0].len() <= 60 && most <= 40, "{} of the root, {most} of another one", neighbours[0].len());
        assert_eq!(plan.trees.len(), 7 * 8, "as many turns as fit");
    }

    #[test]
    fn trees_with_equal_parts_have_equally_many_turns() {
        let topology = m2_linked(|link| WanLink { one_way_delay_ns: 50_000_000, ..link });
        for (name, equal) in [("fpfr", true), ("optimal-trees", false)] {
            let plan = plan_by(name, &topology, &[16, 16, 3, 1]);
            let cluster_of: Vec<usize> =
                (0..4).flat_map(|cluster| repeat_n(cluster, [16, 16, 3, 1][cluster])).collect();
            let mut turns: std::collections::BTreeMap<Vec<(usize, usize)>, usize> = std::collections::BTreeMap::new();
            for tree in &plan.trees {
                let of_clusters = edges(&tree.parents).map(|(from, to)| (cluster_of[from], cluster_of[to]));
                *turns.entry(of_clusters.filter(|(from, to)| from != to).collect()).or_default() += 1;
            }
            let (least, most) = (turns.values().min(), turns.values().max());
            assert_eq!(least == most, equal, "{name}: {turns:?}");
        }
    }

    #[test]
    fn where_nobody_has_measured_cards_a_fast_link_is_not_left_to_one() {
        let fast = |rate: Option<u64>| rate.map(|rate| 100 * rate);
        let faster =
            |link: WanLink| WanLink { rate_bytes_per_s: fast(link.rate_bytes_per_s), one_way_delay_ns: 0, ..link };
        let topology = m2_linked(faster);
        let plan = plan_by("optimal-trees", &topology, &[16; 4]);
        let of_clusters = packing::arborescences(&topology, ClusterIndex(0)).len();
        // Sixteen nodes with 125 MB/s each pass 1 GB/s on inside their cluster, and half as much to others.
        assert!(plan.trees.len() >= 8 * of_clusters, "{} trees for 1 GB/s", plan.trees.len());
        let total: u64 = plan.trees.iter().map(|tree| tree.weight).sum();
        assert!((990_000_000..=1_000_000_000).contains(&total), "what is not known limits no rate: {total}");
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

    /// Balanced Multicasting's own example (MOB paper, figure 2): A sends to B and C, over links of 5, 5 and 4.
    fn figure_2(card: u64) -> Topology {
        let mut topology = Topology::new();
        topology.payload_factor = PayloadFactor::ONE;
        let [a, b, c] = ["A", "B", "C"].map(|name| topology.add_cluster(Cluster::new(name, 1).with_nic(card)).unwrap());
        for (from, to, rate) in [(a, b, 5), (a, c, 5), (b, c, 4)] {
            topology.link_both(from, to, WanLink::new(rate, 0)).unwrap();
        }
        topology
    }

    fn weights(plan: &Plan) -> Vec<u64> {
        plan.trees.iter().map(|tree| tree.weight).collect()
    }

    #[test]
    fn the_papers_example_is_planned_as_in_the_paper() {
        let sizes = [1, 1, 1];
        let balanced = plan_by("balanced", &figure_2(10), &sizes);
        assert_eq!(weights(&balanced), [4, 1, 4], "9 of the 10 that A can send");
        let rates: Vec<Option<u64>> = balanced.trees.iter().map(|tree| tree.rate_bytes_per_s).collect();
        assert_eq!(rates, [Some(4), Some(1), Some(4)]);
        assert_eq!(weights(&plan_by("fpfr", &figure_2(6), &sizes)), [4, 1, 4], "A can send 6, which it does not mind");
        // FPFR's trees, lowered until the card carries them, would be 2, 1 and 2.
        assert_eq!(weights(&plan_by("balanced", &figure_2(6), &sizes)).iter().sum::<u64>(), 6);
    }

    #[test]
    fn of_more_trees_than_a_plan_may_have_the_fastest_are_taken() {
        fn pack(_: &Topology, root: ClusterIndex) -> Vec<PackedTree> {
            let edges = vec![(root, ClusterIndex(1))];
            (1..=300).map(|rate_bytes_per_s| PackedTree { rate_bytes_per_s, edges: edges.clone() }).collect()
        }
        let mut topology = Topology::new();
        for name in ["A", "B"] {
            topology.add_cluster(Cluster::new(name, 1)).unwrap();
        }
        let input = PlanInput { order: &order(&[1, 1]), network: Some(&topology), seed: 1 };
        let plan = plan(&input, "many", pack, Use { split: Split::Weighted, shaped: false }).unwrap();
        assert_eq!(weights(&plan), (45..=300).rev().collect::<Vec<u64>>());
    }

    #[test]
    fn each_strategy_has_its_own_packing() {
        let kinds: [(&str, Packing); 3] =
            [("fpfr", packing::fpfr), ("balanced", packing::balanced), ("optimal-trees", packing::arborescences)];
        let mut random = crate::random::Random::new(1);
        let mut seen: BTreeSet<(usize, usize)> = BTreeSet::new();
        for _ in 0..20 {
            let mut topology = Topology::new();
            topology.payload_factor = PayloadFactor::ONE;
            let clusters = ["A", "B", "C", "D"].map(|name| {
                let card = 5 + random.below(20) as u64;
                topology.add_cluster(Cluster::new(name, 1).with_nic(card)).unwrap()
            });
            for (from, to) in clusters.into_iter().flat_map(|from| clusters.map(|to| (from, to))) {
                if from != to {
                    topology.link(from, to, WanLink::new(1 + random.below(20) as u64, 0)).unwrap();
                }
            }
            let packed = kinds.map(|(_, pack)| pack(&topology, ClusterIndex(0)));
            let rates = packed.map(|trees| trees.iter().map(|tree| tree.rate_bytes_per_s).collect::<Vec<u64>>());
            for ((name, _), rates) in kinds.iter().zip(&rates) {
                assert_eq!(&weights(&plan_by(name, &topology, &[1; 4])), rates, "{name}");
            }
            let pairs = [(0, 1), (0, 2), (1, 2)];
            seen.extend(pairs.into_iter().filter(|&(a, b)| rates[a] != rates[b]));
        }
        assert_eq!(seen.len(), 3, "these networks tell the packings apart");
    }

    #[test]
    fn senders_keep_to_the_payload_of_a_rate() {
        let mut topology = m2();
        topology.payload_factor = PayloadFactor::ETHERNET_TCP;
        for tree in plan_by("optimal-trees", &topology, &[4; 4]).trees {
            assert_eq!(tree.rate_bytes_per_s, Some(tree.weight * 1_448 / 1_500));
        }
    }

    #[test]
    fn the_network_has_to_know_the_clusters() {
        let mut lacking = Topology::new();
        lacking.add_cluster(Cluster::new("A", 1)).unwrap();
        let error = part_of(&lacking, &order(&[1, 1])).unwrap_err().to_string();
        assert!(error.contains("no cluster \"B\": it has A"), "{error}");
    }
}
