//! What is chosen for which object and group, on networks small enough to be reckoned by hand.

use super::*;
use crate::strategy::plan::tests::order;
use mobcast_topology::preset::m2_fast;

fn overlays(has_network: bool) -> Overlays {
    let names: Vec<&str> = candidates(has_network).collect();
    Overlays::of(&names, has_network.then(|| Arc::new(m2_fast(4)))).expect("they are there")
}

fn one_cluster(nodes: u32, nic: u64) -> Situation {
    let mut network = Topology::new();
    network.add_cluster(Cluster::new("A", nodes).with_nic(nic)).expect("it is the first");
    let network = Some(Arc::new(network));
    Situation { order: order(&[nodes as usize]), network, local_rtt: None, wan_rtt: None }
}

fn chosen(bytes: u64, situation: &Situation) -> Choice {
    chosen_with(bytes, situation, &Costs::NONE)
}

fn chosen_with(bytes: u64, situation: &Situation, costs: &Costs) -> Choice {
    choose(Extent::of(bytes), Ok(situation), &overlays(situation.network.is_some()), costs)
}

#[test]
fn what_cannot_be_compared_is_mob_s() {
    let named = |choice: Choice| (choice.strategy, choice.predicted.len(), choice.reason);
    let why = |bytes, why| named(choose(Extent { bytes, piece_size: None }, Err(why), &overlays(false), &Costs::USUAL));
    let without = |bytes| why(bytes, Unknown::Early);
    assert_eq!(without(None), ("mob", 0, "mob: a stream of unknown length".into()));
    assert_eq!(without(Some(5_500_000)), ("mob", 0, "mob: 5.5 MB, to receivers who join while it runs".into()));
    assert_eq!(without(Some(60_000)), ("mob", 0, "in one frame to each: 60 kB".into()));
    let elsewhere = why(Some(5_500_000), Unknown::Elsewhere);
    let words = "mob: 5.5 MB, from a node that does not coordinate the group: nothing was compared";
    assert_eq!(elsewhere, ("mob", 0, words.into()));
    assert_eq!(why(Some(60_000), Unknown::Elsewhere).2, "in one frame to each: 60 kB");
    let (strategy, compared, reason) = named(chosen(1_000_000, &one_cluster(1_025, 12_500_000)));
    assert_eq!((strategy, compared, &*reason), ("mob", 0, "mob: 1 MB to 1024 nodes in one cluster"));
    assert!(!chosen(1_000_000, &one_cluster(1_024, 12_500_000)).predicted.is_empty(), "one fewer are compared");
    let clusters = |count: usize| Situation { order: order(&vec![2; count]), network: None, ..one_cluster(2, 1) };
    let (strategy, compared, reason) = named(chosen(1_000_000, &clusters(17)));
    assert_eq!((strategy, compared, &*reason), ("mob", 0, "mob: 1 MB to 33 nodes in 17 clusters"));
    assert_eq!(named(chosen(4_000, &clusters(17))).2, "in one frame to each: 4 kB to 33 nodes in 17 clusters");
    assert!(!chosen(1_000_000, &clusters(16)).predicted.is_empty(), "one fewer are compared");
}

#[test]
fn in_one_cluster_pieces_go_down_two_trees() {
    // Of five pieces of 16 KiB the last of 64 nodes has one after 63 hops of a chain, after 6 + 5 + 4 + 3 + 2 + 1 of a binomial tree, or
    // after 1 + 5 * 2 of two trees.
    let situation = one_cluster(64, 125_000_000);
    let little = chosen(70_000, &situation);
    let named = |choice: &Choice| choice.predicted.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    assert_eq!(named(&little), ["two-trees", "binomial", "chain", "mob"], "{little:?}");
    let much = chosen(100_000_000, &situation);
    assert_eq!((much.strategy, much.piece_size), ("two-trees", Some(32 << 10)), "{much:?}");
    assert!(much.reason.starts_with("two-trees: 100 MB to 63 nodes in one cluster, predicted 8"), "{}", much.reason);
    assert!(much.reason.contains("; mob "), "{}", much.reason);
    assert_eq!(named(&much)[1], "chain");
    // The second of two is the only one below the root, whatever the tree.
    assert_eq!(chosen(1_000_000, &one_cluster(2, 125_000_000)).strategy, "chain");
}

#[test]
fn what_fits_into_a_frame_goes_down_a_tree_where_the_root_s_card_would_send_it_often() {
    // 64 KiB fifteen times over 12.5 MB/s are 79 ms; down two trees in pieces of 16 KiB they take 1.4 ms for the first hop, and twice as long
    // for each of the three others.
    let slow = chosen(65_536, &one_cluster(16, 12_500_000));
    assert_eq!((slow.strategy, slow.piece_size), ("two-trees", Some(16 << 10)), "{slow:?}");
    assert!(slow.reason.contains("; in one frame to each 78.9 ms"), "{}", slow.reason);
    // 4 KiB take 0.34 ms: four children have it after four times that, those with three after seven, and so on.
    let small = chosen(4_096, &one_cluster(16, 12_500_000));
    assert_eq!((small.strategy, small.piece_size), ("binomial", None), "{small:?}");
    let words = "binomial in one frame: 4.1 kB to 15 nodes in one cluster, predicted 3.6 ms; in one frame to each 5.";
    assert!(small.reason.starts_with(words), "{}", small.reason);
    let unknown = Situation { network: None, ..one_cluster(16, 1) };
    let usual = choose(Extent::of(4_096), Ok(&unknown), &overlays(false), &Costs::USUAL);
    assert_eq!(usual.strategy, "binomial", "the card may be a slow one: {usual:?}");
    // To one other there is one way, and the first one is taken.
    let few = chosen(20_000, &one_cluster(2, 12_500_000));
    assert_eq!((few.strategy, few.piece_size), ("mob", None), "{few:?}");
    assert!(few.reason.starts_with("in one frame to each: 20 kB to 1 node"), "{}", few.reason);
    let named = |choice: Choice| choice.predicted.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(named(small), ["binomial", "mob"], "no pieces");
    let several = Situation { order: order(&[8, 8]), network: None, ..one_cluster(16, 12_500_000) };
    assert_eq!(named(chosen(4_096, &several)).len(), 2, "nor between clusters");
}

#[test]
fn the_control_tree_has_ten_and_other_clusters_at_the_root_and_eight_below_each() {
    let tree = control_tree(&order(&[40, 12]));
    let children = |parent| tree.parents.iter().filter(|p| **p == Some(parent)).count();
    assert_eq!((children(0), children(1), children(4)), (11, 8, 5));
    assert_eq!((tree.parents[40], children(40), tree.parents[49]), (Some(0), 8, Some(41)));
}

#[test]
fn a_piece_size_that_was_asked_for_is_what_is_compared() {
    let asked = |bytes, size| {
        let object = Extent { bytes: Some(bytes), piece_size: Some(size) };
        choose(object, Ok(&one_cluster(16, 12_500_000)), &overlays(true), &Costs::NONE)
    };
    let pieces = asked(60_000, 16 << 10);
    assert!(!pieces.reason.contains("frame") && pieces.piece_size == Some(16 << 10), "{pieces:?}");
    assert!(asked(60_000, 64 << 10).reason.contains("in one frame"));
    assert_eq!(asked(30_000_000, 1 << 20).piece_size, Some(1 << 20));
}

#[test]
fn what_takes_long_is_left_to_the_strategy_that_adapts() {
    let situation = one_cluster(16, 12_500_000);
    assert_eq!(chosen(100_000_000, &situation).strategy, "two-trees");
    let long = chosen(200_000_000, &situation);
    assert_eq!(long.strategy, "mob");
    assert!(
        long.predicted.iter().any(|&(name, seconds)| name == "two-trees" && seconds < long.predicted[0].1),
        "{long:?}"
    );
}

#[test]
fn between_clusters_little_goes_down_a_tree_and_much_by_mob() {
    let situation = Situation {
        order: order(&[4, 4, 4, 4]),
        network: None,
        local_rtt: None,
        wan_rtt: Some(Duration::from_millis(20)),
    };
    let of = |bytes| chosen(bytes, &situation).strategy;
    assert_eq!([100_000, 100_000_000].map(of), ["magpie", "mob"]);
    let known = Situation { network: Some(Arc::new(m2_fast(4))), ..situation };
    assert_eq!(chosen(600_000_000, &known).strategy, "mob", "links change within a minute");
}

#[test]
fn a_tree_is_taken_for_as_long_as_links_are_said_to_stay_as_they_are() {
    let mut network = m2_fast(4);
    let mut of = |links_vary| {
        network.links_vary = links_vary;
        let order = order(&[4, 4, 4, 4]);
        let situation = Situation { order, network: Some(Arc::new(network.clone())), local_rtt: None, wan_rtt: None };
        [500_000, 30_000_000, 300_000_000].map(|bytes| chosen(bytes, &situation).strategy)
    };
    assert_eq!(of(Some(true)), ["optimal-trees", "mob", "mob"]);
    assert_eq!(of(None), ["optimal-trees", "optimal-trees", "mob"]);
    assert_eq!(of(Some(false)), ["optimal-trees"; 3]);
}

#[test]
fn a_gauge_that_does_not_know_a_cluster_is_no_help() {
    let known = Situation { network: Some(Arc::new(m2_fast(4))), ..one_cluster(4, 1) };
    assert!(known_network(&known).is_none(), "it says nothing of the inside of a cluster");
    let mut other = known.clone();
    other.order = order(&[1, 1, 1, 1, 1]);
    assert!(known_network(&other).is_none());
    let considered: Vec<&str> = chosen(8_000_000, &other).predicted.iter().map(|(name, _)| *name).collect();
    assert_eq!((considered.contains(&"magpie"), considered.contains(&"optimal-trees")), (true, false));
    other.order = order(&[1, 1, 1, 1]);
    assert!(chosen(8_000_000, &other).predicted.iter().any(|(name, _)| *name == "optimal-trees"));
    assert_eq!(known_network(&other).map(|network| network.nodes()), Some(4));
}

#[test]
fn a_gauge_that_is_no_help_says_nothing_of_how_long_links_stay_as_they_are() {
    let mut network = m2_fast(4);
    network.links_vary = Some(false);
    // It says nothing of the inside of a cluster.
    let situation = Situation { network: Some(Arc::new(network)), ..one_cluster(16, 1) };
    assert!(known_network(&situation).is_none());
    assert_eq!(chosen(100_000_000, &situation).strategy, "two-trees");
    assert_eq!(chosen(10_000_000_000, &situation).strategy, "mob", "links may change within a minute");
}

#[test]
fn a_way_that_the_network_has_not_is_not_compared() {
    let mut network = Topology::new();
    for name in ["A", "B", "C"] {
        network.add_cluster(Cluster::new(name, 2).with_nic(100_000_000)).expect("names are unique");
    }
    for (a, b) in [(0, 1), (1, 2)] {
        let link = WanLink::new(10_000_000, 10_000_000);
        network.link_both(ClusterIndex(a), ClusterIndex(b), link).expect("both are there");
    }
    let network = Some(Arc::new(network));
    let situation = Situation { order: order(&[2; 3]), network, local_rtt: None, wan_rtt: None };
    for bytes in [4_000, 64_000, 1_000_000] {
        let choice = chosen(bytes, &situation);
        assert!(choice.predicted.iter().all(|(_, seconds)| seconds.is_finite()), "{choice:?}");
        assert!(!choice.reason.contains("inf"), "{}", choice.reason);
    }
}

#[test]
fn pieces_cost_their_part() {
    let situation = one_cluster(16, 125_000_000);
    let overlays = overlays(true);
    let slow = Costs { piece: Duration::from_millis(1), ..Costs::NONE };
    let size = |costs| choose(Extent::of(30_000_000), Ok(&situation), &overlays, costs).piece_size;
    assert!(size(&slow) > size(&Costs::NONE), "{:?}", size(&slow));
    let mob = |piece_size| {
        let object = Extent { bytes: Some(30_000_000), piece_size: Some(piece_size) };
        let all = choose(object, Ok(&situation), &overlays, &slow).predicted;
        all.into_iter().find(|(name, _)| *name == "mob").expect("it is compared").1
    };
    // 16 KiB in 1 ms are 16.4 MB/s, 1.93 s at 0.95 of it; larger pieces leave the card's 125 MB/s to bind, 0.262 s.
    let more = mob(16 << 10) - mob(256 << 10);
    assert!((1.66..1.68).contains(&more), "{more}");
}

/// Three clusters of four nodes without limits in a row, and links of 1 MB/s with no delay; trees by weight, and by the member of each cluster
/// that sends to the next one.
fn linked(trees: &[(u64, usize)]) -> (Order, Topology, Plan) {
    let mut network = Topology::new();
    let [a, b, c] = ["A", "B", "C"].map(|name| network.add_cluster(Cluster::new(name, 4)).expect("three names"));
    network.payload_factor = mobcast_topology::PayloadFactor::ONE;
    for (from, to) in [(a, b), (b, c)] {
        network.link_both(from, to, WanLink::new(1_000_000, 0)).expect("they are there");
    }
    let tree = |&(weight, gateway): &(u64, usize)| {
        let parent = |position: usize| match (position / 4, position % 4) {
            (0, 0) => None,
            (cluster, member) if member == gateway && cluster > 0 => Some(4 * (cluster - 1) + gateway),
            (0, _) => Some(0),
            (cluster, _) => Some(4 * cluster + gateway),
        };
        PlanTree { weight, rate_bytes_per_s: None, parents: (0..12).map(parent).collect() }
    };
    let split = crate::strategy::plan::Split::Weighted;
    (order(&[4; 3]), network, Plan { trees: trees.iter().map(tree).collect(), split, ..Plan::default() })
}

#[test]
fn pieces_of_several_nodes_share_a_link_and_those_of_one_do_not() {
    let seconds = |trees: &[(u64, usize)], bytes| {
        let (order, network, plan) = linked(trees);
        Costs::NONE.of_trees(bytes, 10_000, &plan, &order, &network)
    };
    let near = |seconds: f64, expected: f64| assert!((seconds / expected - 1.0).abs() < 0.03, "{seconds} {expected}");
    // The object passes one link, its last piece the other one: 0.1 and 0.01 s.
    near(seconds(&[(1, 1)], 100_000), 0.11);
    near(seconds(&[(1, 1), (1, 1)], 100_000), 0.11);
    // Four pieces are on their way at a time, and each takes four times as long.
    near(seconds(&[(1, 0), (1, 1), (1, 2), (1, 3)], 100_000), 0.14);
    // It waits for one of each other tree, also where its own carries little; and a tree that carries less than a piece is nobody's measure.
    near(seconds(&[(8, 1), (1, 2), (1, 3)], 100_000), 0.13);
    near(seconds(&[(998, 1), (1, 2), (1, 3)], 100_000), 0.11);
    // One piece alone takes its way, whatever trees there are.
    near(seconds(&[(1, 1)], 10_000), 0.02);
}

#[test]
fn storing_delays_pieces_and_not_frames() {
    let situation = one_cluster(16, 125_000_000);
    let time_of = |costs: &Costs, bytes| chosen_with(bytes, &situation, costs).predicted[0].1;
    let stores = Costs { hop: Duration::from_millis(10), ..Costs::NONE };
    assert_eq!(time_of(&stores, 4_000), time_of(&Costs::NONE, 4_000), "in one frame");
    assert!(time_of(&stores, 1_000_000) > time_of(&Costs::NONE, 1_000_000) + 0.009, "in pieces");
}

#[test]
fn sizes_and_times_have_words() {
    let sizes = [999, 48_000, 1_500_000, 2_000_000, 12_345_678, 3_200_000_000].map(size_in_words);
    assert_eq!(sizes, ["999 B", "48 kB", "1.5 MB", "2 MB", "12 MB", "3.2 GB"]);
    assert_eq!([0.000_4, 0.001_1, 1.0, 250.0].map(time_in_words), ["400 µs", "1.1 ms", "1.00 s", "250 s"]);
}
