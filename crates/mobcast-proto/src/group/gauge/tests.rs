//! Measurements of networks of words: who measures whom, what comes of it, and how it ends when nobody answers.

use mobcast_topology::optimum;
use proptest::prelude::*;

use super::*;
use crate::strategy::plan::OrderedCluster;
use crate::units::ClusterId;

/// Clusters A, B, … of these sizes; the root is node 0.
fn order(sizes: &[u32]) -> Order {
    let mut next = 0;
    let cluster = |(at, &size): (usize, &u32)| {
        let nodes = (next..next + size).map(NodeId).collect();
        next += size;
        let name = char::from(b'A' + at as u8).to_string();
        OrderedCluster { cluster: ClusterId(at as u32), name, nodes }
    };
    Order::new(sizes.iter().enumerate().map(cluster).collect())
}

/// What the link between two nodes carries: each ordered pair of nodes another rate.
fn reading(asks: NodeId, serves: NodeId) -> Reading {
    let rate_bytes_per_s = 1_000_000 + u64::from(serves.0) * 1_000 + u64::from(asks.0);
    Reading { rate_bytes_per_s, rtt: Duration::from_millis(20) }
}

fn asking(gauge: &Gauge) -> Vec<(NodeId, ProbeOrder)> {
    let all = gauge.orders().into_iter();
    all.flat_map(|(node, orders)| orders.into_iter().map(move |order| (node, order)))
        .filter(|(_, order)| order.role == ProbeRole::Ask)
        .collect()
}

fn order_of(probes: &[(NodeId, ProbeOrder)], node: NodeId) -> Option<ProbeOrder> {
    probes.iter().find(|(asks, _)| *asks == node).map(|(_, order)| *order)
}

/// Runs a measurement whose probes take a second each; those for which `answers` is false have no result.
fn run(order: &Order, answers: impl Fn(NodeId, NodeId) -> bool) -> Measurement {
    let mut gauge = Gauge::new(Time::ZERO, order, 0);
    let mut now = Time::ZERO;
    gauge.advance(now, order);
    while !gauge.is_over() {
        let probes = asking(&gauge);
        let ends: Vec<NodeId> = probes.iter().map(|(asks, _)| *asks).collect();
        let served: Vec<NodeId> = probes.iter().map(|(_, order)| order.peer).collect();
        let both_ways =
            probes.iter().any(|(asks, order)| order_of(&probes, order.peer).is_some_and(|other| other.peer == *asks));
        assert!(!both_ways, "none goes against another one");
        for ends in [ends, served] {
            assert_eq!(ends.iter().collect::<BTreeSet<_>>().len(), ends.len(), "no two probes share a card");
        }
        now += Duration::from_secs(1);
        for (asks, ProbeOrder { number, peer, .. }) in probes {
            let reading = answers(asks, peer).then(|| reading(asks, peer));
            assert!(gauge.handle_result(asks, ProbeResult { number, bytes: 1_000, reading }));
            assert!(!gauge.handle_result(asks, ProbeResult { number, bytes: 1_000, reading }), "once is enough");
        }
        gauge.advance(now, order);
        assert!(gauge.timeout() > now || gauge.is_over());
    }
    gauge.conclude(now, order)
}

#[test]
fn each_ordered_pair_of_clusters_is_measured_in_as_many_rounds_as_there_are_clusters() {
    let order = order(&[3, 2, 4, 1]);
    let measured = run(&order, |_, _| true);
    assert_eq!((measured.problems.len(), measured.probes, measured.bytes), (0, 12 + 3, 15_000));
    assert_eq!(measured.took, Duration::from_secs(5));
    let network = measured.network.expect("everybody answers");
    assert_eq!(network.wan_links().count(), 12);
    let index = |name| network.find(name).expect("it is there");
    let link = network.wan(index("A"), index("B")).expect("it was measured");
    // From the second node of A, not the root, to the first of B.
    assert_eq!((link.rate_bytes_per_s, link.one_way_delay_ns), (Some(1_001_003), 10_000_000));
    // Node 9 gives everybody most.
    assert_eq!(cards(&network), [1_009_001, 1_009_003, 1_009_005, 1_009_005], "as much as any link");
    assert!(optimum(&network, index("A")).rate_bytes_per_s.is_some());
}

/// What the card of a node in each cluster carries, in and out.
fn cards(network: &Topology) -> Vec<u64> {
    let card = |cluster: &Cluster| {
        assert_eq!(cluster.nic_in_bytes_per_s, cluster.nic_out_bytes_per_s);
        cluster.nic_in_bytes_per_s.expect("it was measured")
    };
    network.clusters().iter().map(card).collect()
}

#[test]
fn a_card_carries_what_was_seen_inside_its_cluster_or_else_what_the_fastest_one_does() {
    let network = run(&order(&[1, 2, 4]), |_, _| true).network.expect("everybody answers");
    // C's from node 4 to node 3. B's own, from node 2 to 1, is less than its link from node 3; A has no company.
    assert_eq!(cards(&network), [1_004_003, 1_003_001, 1_004_003]);
}

#[test]
fn who_does_not_answer_is_replaced() {
    let dead = NodeId(3);
    let measured = run(&order(&[3, 3]), |asks, serves| asks != dead && serves != dead);
    assert_eq!(measured.problems, Vec::<String>::new());
    let network = measured.network.expect("others answer");
    assert_eq!(network.wan_links().count(), 2);
}

#[test]
fn a_cluster_without_a_way_is_named_and_there_is_no_network() {
    let measured = run(&order(&[2, 1]), |asks, serves| asks != NodeId(2) && serves != NodeId(2));
    assert_eq!(measured.network, None);
    assert_eq!(measured.problems, ["from B to A: no answer in 3 tries", "from A to B: no answer in 3 tries"]);
}

#[test]
fn one_way_round_is_enough() {
    // B and C do not reach each other, and A reaches both.
    let measured = run(&order(&[1, 1, 1]), |asks, serves| asks == NodeId(0) || serves == NodeId(0));
    assert_eq!(measured.problems.len(), 2);
    assert_eq!(measured.network.expect("all can be reached").wan_links().count(), 4);
}

#[test]
fn silence_ends_in_other_nodes_and_then_in_words() {
    let order = order(&[2, 2]);
    let mut gauge = Gauge::new(Time::ZERO, &order, 7);
    let (mut now, mut asked) = (Time::ZERO, BTreeSet::new());
    gauge.advance(now, &order);
    while !gauge.is_over() {
        asked.extend(asking(&gauge).into_iter().map(|(asks, _)| asks));
        now = gauge.timeout();
        gauge.advance(now, &order);
        assert!(now < Time::ZERO + Duration::from_secs(200), "it ends");
    }
    assert!(asked.len() > 2, "others are tried: {asked:?}");
    let measured = gauge.conclude(now, &order);
    assert_eq!((measured.network, measured.problems.len()), (None, 4));
}

#[test]
fn who_is_lost_is_replaced_at_once_and_its_word_is_void() {
    let before = order(&[2, 3]);
    let mut gauge = Gauge::new(Time::ZERO, &before, 0);
    gauge.advance(Time::ZERO, &before);
    let (lost, old) = asking(&gauge).into_iter().find(|(node, _)| *node == NodeId(2)).expect("B measures itself");
    let mut clusters = before.clusters().to_vec();
    clusters[1].nodes.retain(|&node| node != lost);
    let after = Order::new(clusters);
    gauge.handle_lost(lost);
    assert_eq!(gauge.timeout(), Time::ZERO);
    assert!(gauge.advance(Time::ZERO, &after));
    assert!(asking(&gauge).iter().all(|(node, order)| *node != lost && order.peer != lost));
    let result = ProbeResult { number: old.number, bytes: 1, reading: Some(reading(lost, NodeId(3))) };
    assert!(!gauge.handle_result(lost, result));
}

#[test]
fn who_cannot_connect_is_connected_to() {
    let order = order(&[1, 1]);
    let mut gauge = Gauge::new(Time::ZERO, &order, 0);
    gauge.advance(Time::ZERO, &order);
    let first: Vec<_> = gauge.dials().collect();
    assert_eq!(first, [(NodeId(0), NodeId(1))]);
    gauge.handle_unreachable(NodeId(0), NodeId(1));
    assert!(gauge.advance(Time::ZERO, &order));
    let second: Vec<_> = gauge.dials().collect();
    assert_eq!(second, [(NodeId(1), NodeId(0))]);
}

proptest! {
    #[test]
    fn it_always_ends(sizes in prop::collection::vec(1u32..5, 1..7), silent in any::<u32>()) {
        let order = order(&sizes);
        let is_silent = |node: NodeId| silent >> (node.0 % 32) & 1 == 1;
        let measured = run(&order, |asks, serves| !is_silent(asks) && !is_silent(serves));
        let ordered = sizes.len() * (sizes.len() - 1);
        let most = TRIES as usize * (ordered + sizes.len());
        prop_assert!(measured.probes as usize <= most);
        let links = measured.network.as_ref().map_or(0, |network| network.wan_links().count());
        prop_assert!(measured.network.is_none() || links + measured.problems.len() >= ordered);
    }
}
