//! What every planner promises, on networks of experiments and on random ones.

use proptest::prelude::*;

use super::*;
use crate::network::{Cluster, LinkRef, WanLink, WanNic};
use crate::optimum;
use crate::preset::{full_mesh, m2_fast, m2_slow, symmetric};

const ROOT: ClusterIndex = ClusterIndex(0);
const PLANNERS: [fn(&Topology, ClusterIndex) -> Vec<PackedTree>; 3] = [fpfr, balanced, arborescences];

fn clusters_of(trees: &[PackedTree]) -> Vec<Vec<(u32, u32)>> {
    trees.iter().map(|tree| tree.edges.iter().map(|(from, to)| (from.0, to.0)).collect()).collect()
}

fn rates_of(trees: &[PackedTree]) -> Vec<u64> {
    trees.iter().map(|tree| tree.rate_bytes_per_s).collect()
}

/// What the edges carry that `wanted` selects.
fn carried(trees: &[PackedTree], wanted: impl Fn(ClusterIndex, ClusterIndex) -> bool) -> u64 {
    let times = |tree: &PackedTree| tree.edges.iter().filter(|(from, to)| wanted(*from, *to)).count() as u64;
    trees.iter().map(|tree| times(tree) * tree.rate_bytes_per_s).sum()
}

fn assert_trees_span(topology: &Topology, trees: &[PackedTree]) {
    let occupied = topology.clusters().iter().filter(|cluster| cluster.nodes > 0).count();
    for tree in trees {
        assert!(tree.rate_bytes_per_s > 0);
        let mut reached = vec![ROOT];
        for (from, to) in &tree.edges {
            assert!(reached.contains(from) && !reached.contains(to), "each cluster is entered once: {tree:?}");
            assert!(topology.clusters()[to.as_usize()].nodes > 0);
            reached.push(*to);
        }
        assert_eq!(reached.len(), occupied);
    }
}

fn assert_links_hold(topology: &Topology, trees: &[PackedTree]) {
    for from in topology.indices() {
        for to in topology.indices() {
            let limit = topology.rate_bytes_per_s(LinkRef::Wan { from, to }).unwrap_or(u64::MAX);
            assert!(carried(trees, |i, j| (i, j) == (from, to)) <= limit, "{from} to {to}");
        }
    }
}

fn assert_clusters_hold(topology: &Topology, trees: &[PackedTree]) {
    for (index, cluster) in topology.indices().zip(topology.clusters()) {
        let own = WanNic { out_bytes_per_s: cluster.nic_out_bytes_per_s, in_bytes_per_s: cluster.nic_in_bytes_per_s };
        let card = cluster.wan_nic.unwrap_or(own);
        let [cards_out, cards_in] = [card.out_bytes_per_s, card.in_bytes_per_s]
            .map(|rate| rate.map_or(u64::MAX, |rate| rate * u64::from(cluster.nodes)));
        let sends = carried(trees, |from, _| from == index);
        let receives = carried(trees, |_, to| to == index);
        assert!(sends <= cards_out.min(cluster.access_out_bytes_per_s.unwrap_or(u64::MAX)), "{index} sends {sends}");
        assert!(
            receives <= cards_in.min(cluster.access_in_bytes_per_s.unwrap_or(u64::MAX)),
            "{index} takes {receives}"
        );
    }
}

/// The least of the maximum flows from the root over links between clusters.
fn edmonds(topology: &Topology) -> u64 {
    optimum(topology, ROOT).rate_bytes_per_s.unwrap()
}

/// A full mesh in which the links have these rates, row by row; zero is no link.
fn mesh_of(clusters: u32, rates: &[u64]) -> Topology {
    let mut topology = full_mesh(clusters, &Cluster::new("", 1), 0, 0);
    let pairs: Vec<_> = topology.wan_links().collect();
    for ((from, to, link), rate) in pairs.into_iter().zip(rates) {
        topology.link(from, to, WanLink { rate_bytes_per_s: Some(*rate), ..link }).unwrap();
    }
    topology
}

/// Random numbers below `bound`, the same for the same seed.
fn numbers(mut seed: u64, bound: u64) -> impl Iterator<Item = u64> {
    std::iter::repeat_with(move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % bound
    })
}

/// Balanced Multicasting's own example (MOB paper, figure 2): x sends 10 to y and z, over links of 5, 5 and 4.
#[test]
fn the_papers_example_is_balanced_at_nine() {
    let hosts = ["x", "y", "z"].map(|name| Cluster::new(name, 1).with_nic(10));
    let topology = symmetric(&hosts, &[(0, 1, 5), (0, 2, 5), (1, 2, 4)], 0);
    let trees = balanced(&topology, ROOT);
    assert_eq!(rates_of(&trees), [4, 1, 4]);
    assert_eq!(clusters_of(&trees), [[(0, 1), (1, 2)], [(0, 1), (0, 2)], [(0, 2), (2, 1)]]);
    assert_eq!(total_rate_bytes_per_s(&arborescences(&topology, ROOT)), 9);
}

#[test]
fn fpfr_oversubscribes_what_it_does_not_mind() {
    let hosts = ["x", "y", "z"].map(|name| Cluster::new(name, 1).with_nic(6));
    let topology = symmetric(&hosts, &[(0, 1, 5), (0, 2, 5), (1, 2, 4)], 0);
    let trees = fpfr(&topology, ROOT);
    assert_eq!(rates_of(&trees), [4, 1, 4]);
    // Depth first, neighbours in their order: from x to y and on to z as long as there is something left between these two.
    assert_eq!(clusters_of(&trees), [[(0, 1), (1, 2)], [(0, 1), (0, 2)], [(0, 2), (2, 1)]]);
    assert_eq!(carried(&trees, |from, _| from == ROOT), 10, "x can send 6");
    let minding = balanced(&topology, ROOT);
    assert_clusters_hold(&topology, &minding);
    assert_eq!(total_rate_bytes_per_s(&minding), 6);
}

#[test]
fn m2_is_planned_up_to_its_optimum() {
    for (topology, optimum) in [(m2_fast(4), 10_000_000), (m2_slow(4), 7_800_000)] {
        let totals = PLANNERS.map(|plan| total_rate_bytes_per_s(&plan(&topology, ROOT)));
        assert_eq!(totals, [optimum; 3]);
    }
}

#[test]
fn m2_takes_few_trees() {
    assert_eq!(arborescences(&m2_fast(4), ROOT).len(), 3);
}

#[test]
fn one_cluster_takes_one_tree_without_edges() {
    let mut topology = Topology::new();
    topology.add_cluster(Cluster::new("alone", 3)).unwrap();
    topology.add_cluster(Cluster::new("empty", 0)).unwrap();
    for plan in PLANNERS {
        let trees = plan(&topology, ROOT);
        assert_eq!(trees, [PackedTree { rate_bytes_per_s: UNLIMITED_BYTES_PER_S, edges: Vec::new() }]);
    }
}

#[test]
fn nothing_is_planned_when_a_cluster_cannot_be_reached() {
    let mut topology = m2_fast(4);
    topology.add_cluster(Cluster::new("island", 1)).unwrap();
    for plan in PLANNERS {
        assert_eq!(plan(&topology, ROOT), []);
        assert_eq!(plan(&topology, ClusterIndex(4)), []);
    }
}

#[test]
fn a_cluster_without_nodes_relays_nothing() {
    let clusters = ["a", "b", "c"].map(|name| Cluster::new(name, u32::from(name != "b")));
    let topology = symmetric(&clusters, &[(0, 1, 9), (1, 2, 9), (0, 2, 1)], 0);
    for plan in PLANNERS {
        let trees = plan(&topology, ROOT);
        assert_eq!((rates_of(&trees), clusters_of(&trees)), (vec![1], vec![vec![(0, 2)]]));
    }
}

#[test]
fn links_without_limit_make_a_tree_without_limit() {
    let mut topology = full_mesh(4, &Cluster::new("", 2), 7, 0);
    for (from, to) in [(0, 2), (2, 1), (1, 3)] {
        topology.link(ClusterIndex(from), ClusterIndex(to), WanLink::new(None, 0)).unwrap();
    }
    for plan in PLANNERS {
        let trees = plan(&topology, ROOT);
        assert_eq!(trees.last().unwrap().rate_bytes_per_s, UNLIMITED_BYTES_PER_S);
        assert_eq!(total_rate_bytes_per_s(&trees), UNLIMITED_BYTES_PER_S);
        assert_trees_span(&topology, &trees);
    }
}

#[test]
fn a_link_without_limit_is_used_as_far_as_others_go() {
    let mut topology = symmetric(&["a", "b", "c"].map(|name| Cluster::new(name, 2)), &[(0, 1, 7), (0, 2, 5)], 0);
    topology.link_both(ClusterIndex(1), ClusterIndex(2), WanLink::new(None, 0)).unwrap();
    for plan in PLANNERS {
        assert_eq!(total_rate_bytes_per_s(&plan(&topology, ROOT)), 12);
    }
    topology.cluster_mut(ClusterIndex(1)).unwrap().access_out_bytes_per_s = Some(3);
    assert_eq!(total_rate_bytes_per_s(&arborescences(&topology, ROOT)), 8, "7 into b, of which 3 go on to c: 5 + 3");
}

#[test]
fn alike_access_links_are_filled() {
    let topology = full_mesh(4, &Cluster::new("", 4).with_access(9_000_000), 100_000_000, 0);
    for plan in [balanced, arborescences] {
        let trees = plan(&topology, ROOT);
        assert_clusters_hold(&topology, &trees);
        assert!(total_rate_bytes_per_s(&trees) >= 8_999_000, "{trees:?}");
    }
}

#[test]
fn fifty_clusters_fully_meshed_are_planned() {
    let rates: Vec<u64> = numbers(1, 10_000_000).take(50 * 49).collect();
    let topology = mesh_of(50, &rates);
    let trees = arborescences(&topology, ROOT);
    assert_trees_span(&topology, &trees);
    assert_links_hold(&topology, &trees);
    let (total, best) = (total_rate_bytes_per_s(&trees), edmonds(&topology));
    assert!(total <= best && total >= best - best / 10_000, "{total} of {best}");
    assert!(trees.len() <= rates.len(), "{} trees", trees.len());
}

/// What planners reach, of a million, on average in networks where nearly every cluster's way out binds.
#[cfg(feature = "lp")]
fn reached_where_clusters_bind(clusters: u32) -> [u64; 2] {
    let networks = 30;
    let mut sums = [0; 2];
    for seed in 0..networks {
        let rates: Vec<u64> = numbers(seed, 10_000_000).take(42).collect();
        let mut topology = mesh_of(clusters, &rates);
        for (index, limit) in topology.indices().zip(numbers(seed + networks, 10_000_000)) {
            let limit = if index == ROOT { 10_000_000 } else { limit };
            topology.cluster_mut(index).unwrap().access_out_bytes_per_s = Some(limit);
        }
        for (sum, plan) in sums.iter_mut().zip([balanced, arborescences]) {
            *sum += total_rate_bytes_per_s(&plan(&topology, ROOT)) * 1_000_000 / edmonds(&topology) / networks;
        }
    }
    sums
}

#[cfg(feature = "lp")]
#[test]
fn little_is_lost_where_clusters_bind() {
    for clusters in [4, 5, 7] {
        let [greedy, fitted] = reached_where_clusters_bind(clusters);
        assert!(greedy >= 990_000 && fitted >= 995_000, "{clusters} clusters: {greedy}, {fitted} of a million");
    }
}

prop_compose! {
    /// Two to seven clusters, links between some of which have rates.
    fn links_alone()(
        clusters in 2u32..8,
        rates in prop::collection::vec(prop_oneof![Just(0), 0u64..20, 0u64..9_000_000], 42),
    ) -> Topology {
        mesh_of(clusters, &rates)
    }
}

prop_compose! {
    /// The same with access links at some clusters.
    fn with_access()(
        mut topology in links_alone(),
        limits in prop::collection::vec(prop::option::of(0u64..20_000_000), 14),
    ) -> Topology {
        for (index, limits) in topology.indices().zip(limits.chunks(2)) {
            let cluster = topology.cluster_mut(index).unwrap();
            [cluster.access_out_bytes_per_s, cluster.access_in_bytes_per_s] = [limits[0], limits[1]];
        }
        topology
    }
}

prop_compose! {
    /// The same with network cards at some nodes.
    fn with_cards()(
        mut topology in with_access(),
        nodes in prop::collection::vec(1u32..4, 7),
        limits in prop::collection::vec(prop::option::of(0u64..9_000_000), 28),
    ) -> Topology {
        for ((index, limits), nodes) in topology.indices().zip(limits.chunks(4)).zip(nodes) {
            let cluster = topology.cluster_mut(index).unwrap();
            cluster.nodes = nodes;
            [cluster.nic_out_bytes_per_s, cluster.nic_in_bytes_per_s] = [limits[0], limits[1]];
            let second = WanNic { out_bytes_per_s: limits[2], in_bytes_per_s: limits[3] };
            cluster.wan_nic = (nodes == 3).then_some(second);
        }
        topology
    }
}

proptest! {
    #[test]
    fn edmonds_theorem_is_reached(topology in links_alone()) {
        let trees = arborescences(&topology, ROOT);
        assert_trees_span(&topology, &trees);
        assert_links_hold(&topology, &trees);
        let (total, best) = (total_rate_bytes_per_s(&trees), edmonds(&topology));
        prop_assert!(total <= best && total >= best - best / 10_000, "{} of {}", total, best);
        prop_assert!(trees.len() <= topology.wan_links().count());
    }

    #[test]
    fn greedy_trees_hold_to_the_links(topology in links_alone()) {
        for plan in [fpfr, balanced] {
            let trees = plan(&topology, ROOT);
            assert_trees_span(&topology, &trees);
            assert_links_hold(&topology, &trees);
            prop_assert!(total_rate_bytes_per_s(&trees) <= edmonds(&topology));
            prop_assert_eq!(trees.is_empty(), edmonds(&topology) == 0);
        }
    }

    #[test]
    fn nothing_is_oversubscribed(topology in with_cards()) {
        for plan in [balanced, arborescences] {
            let trees = plan(&topology, ROOT);
            assert_trees_span(&topology, &trees);
            assert_links_hold(&topology, &trees);
            assert_clusters_hold(&topology, &trees);
        }
    }

    #[test]
    fn no_plan_beats_the_optimum(topology in with_access()) {
        let best = edmonds(&topology);
        let totals = [balanced, arborescences].map(|plan| total_rate_bytes_per_s(&plan(&topology, ROOT)));
        prop_assert!(totals.into_iter().all(|total| total <= best + best / 1_000_000), "{:?} of {}", totals, best);
        prop_assert!(totals[1] >= totals[0] - totals[0] / 10_000, "fitting starts from balanced trees: {:?}", totals);
    }
}
