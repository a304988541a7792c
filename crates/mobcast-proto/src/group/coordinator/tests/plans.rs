//! Plans: who has a place in which tree, whatever becomes of the members.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::group::assignment::Credential;
use crate::group::gauge::{ProbeOrder, ProbeResult, ProbeRole, Reading};
use crate::group::succession::Standing;
use crate::limits::FRAME_BYTES_MAX;
use crate::strategy::{Registry, StrategyKind};
use crate::units::Signature;
use crate::wire::codec::Reader;

fn overlays(strategies: &[&str]) -> Overlays {
    Overlays::of(strategies, None).expect("these need no network")
}

/// The parent of each member in the only tree of its only plan, by node.
fn parents(group: &Group) -> BTreeMap<u32, Option<u32>> {
    let parent = |view: &Assignment| view.plans[0].trees[0].parent.map(|node| node.0);
    group.coordinator.members().map(|node| (node.0, parent(&group.views[&node]))).collect()
}

#[test]
fn a_group_for_a_chain_is_linked_as_a_chain_and_has_no_mesh() {
    let mut group = Group::found_for(overlays(&["chain"]));
    group.join_all((0..5).map(|i| join(&format!("n{i}"), Some(["a", "b"][i % 2]))));
    group.check();
    // Nodes 1, 3 and 5 are in the root's cluster.
    assert_eq!(
        parents(&group),
        [(0, None), (1, Some(0)), (2, Some(5)), (3, Some(1)), (4, Some(2)), (5, Some(3))].into()
    );
    for view in group.views.values() {
        assert!(view.local_peers.is_empty() && view.global_peers.is_empty(), "{}", view.node);
        let dials: Vec<NodeId> = view.plan_peers.iter().map(|peer| peer.node).collect();
        assert!(view.plans[0].trees[0].parent.is_none_or(|parent| dials.contains(&parent)), "{dials:?}");
    }
}

#[test]
fn when_one_is_lost_its_child_hangs_at_its_parent() {
    let mut group = Group::found_for(overlays(&["chain"]));
    group.join_all((0..3).map(|i| join(&format!("n{i}"), Some("a"))));
    group.coordinator.handle_lost(group.now, NodeId(2));
    group.views.remove(&NodeId(2));
    group.settle();
    assert_eq!(parents(&group), [(0, None), (1, Some(0)), (3, Some(1))].into());
}

/// A group that is too large to be planned for at once.
fn large() -> Group {
    let mut group = Group::found_for(overlays(&["chain"]));
    group.join_all((0..300).map(|i| join(&format!("n{i}"), Some("a"))));
    check_chain(&group);
    group
}

/// That all members hang in one chain, each at the one that joined before it.
fn check_chain(group: &Group) {
    let members: Vec<u32> = group.coordinator.members().map(|node| node.0).collect();
    let before = std::iter::once(None).chain(members.iter().copied().map(Some));
    assert_eq!(parents(group), members.iter().copied().zip(before).collect());
}

/// What the members of a group say of themselves when its founder is gone.
fn standings(group: &Group) -> BTreeMap<NodeId, Standing> {
    let standing = |view: &Assignment| Standing {
        credential: Credential { node: view.node, ..Credential::default() },
        credential_signature: Signature::default(),
        name: view.node.to_string(),
        addresses: vec!["10.0.0.1:7077".parse().unwrap()],
        assignment: view.clone(),
        assignment_signature: Signature::default(),
        children: Vec::new(),
        banned: Vec::new(),
        over: Vec::new(),
    };
    let members = group.views.values().filter(|view| view.node != NodeId(0));
    members.map(|view| (view.node, standing(view))).collect()
}

#[test]
fn a_large_group_is_planned_for_without_whom_it_has_lost_when_no_more_are() {
    let mut group = large();
    for lost in [1, 2, 150] {
        assert!(group.coordinator.handle_lost(group.now, NodeId(lost)));
        group.views.remove(&NodeId(lost));
        group.now = group.coordinator.timeout().expect("others are told");
        group.coordinator.handle_timeout(group.now);
        group.drain();
    }
    group.settle();
    check_chain(&group);
}

#[test]
fn many_clusters_are_packed_for_when_nobody_has_come_for_a_while() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let planner: crate::strategy::plan::Planner = |input| {
        CALLS.fetch_add(1, Ordering::Relaxed);
        Ok(crate::strategy::plan::Plan::tree((0..input.order.len()).map(|i| i.checked_sub(1)).collect()))
    };
    let make = crate::strategy::find("chain").expect("it is a strategy").make;
    let (name, summary) = ("packed-chain", "a chain that is said to need a network");
    let planner = Some(planner);
    let kind = StrategyKind { name, summary, make, planner, needs_network: true, piece_size: None, in_parts: false };
    let network = Some(std::sync::Arc::new(mobcast_topology::Topology::new()));
    let registry = Registry(Vec::leak(vec![kind]));
    let mut group = Group::found_for(Overlays::within(registry, &["packed-chain"], network).unwrap());
    group.join_all((1..20).map(|i| join(&format!("n{i}"), Some(&format!("c{i}")))));
    let before = CALLS.load(Ordering::Relaxed);
    for i in 20..30 {
        group.coordinator.handle_join(group.now, LinkId(i), join(&format!("n{i}"), Some("a")));
        group.now = group.coordinator.timeout().expect("somebody waits");
        group.coordinator.handle_timeout(group.now);
        group.drain();
    }
    assert_eq!((group.views.len(), CALLS.load(Ordering::Relaxed)), (30, before), "ten have come, each in a round");
    group.settle();
    assert_eq!(CALLS.load(Ordering::Relaxed), before + 1);
    assert!(group.views.values().all(|view| view.plans.len() == 1), "and each has a place");
}

#[test]
fn a_coordinator_that_takes_a_large_group_over_plans_for_those_who_are_there_and_for_the_late() {
    let mut group = large();
    let mut present = standings(&group);
    let late = present.remove(&NodeId(200)).expect("it is a member");
    group.views.clear();
    group.coordinator = Coordinator::restore(NodeId(1), 1, &present, Registry::default(), 1);
    group.drain();
    check_chain(&group);
    assert!(group.coordinator.adopt(group.now, &late));
    group.drain();
    group.settle();
    check_chain(&group);
}

#[test]
fn a_group_may_be_for_several_strategies() {
    let mut group = Group::found_for(overlays(&["mob", "binomial", "flat"]));
    group.join_all((0..7).map(|i| join(&format!("n{i}"), Some("a"))));
    group.check();
    for view in group.views.values() {
        let names: Vec<&str> = view.plans.iter().map(|plan| plan.strategy.as_str()).collect();
        assert_eq!(names, ["binomial", "flat"]);
    }
    assert!(group.views.values().any(|view| !view.local_peers.is_empty()), "mob needs the mesh");
}

#[test]
fn a_group_may_be_for_all_strategies_that_there_are() {
    let names: Vec<&str> = crate::strategy::STRATEGIES.iter().map(|kind| kind.name).collect();
    let clusters = ["a", "b", "c", "d"];
    let mut network = mobcast_topology::Topology::new();
    for name in clusters {
        network.add_cluster(mobcast_topology::Cluster::new(name, 75).with_nic(1_000_000_000)).unwrap();
    }
    for (i, (from, to)) in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))).enumerate() {
        if from != to {
            let link = mobcast_topology::WanLink::new(10_000_000 + 1_000_003 * i as u64, 20_000_000);
            let index = mobcast_topology::ClusterIndex;
            network.link(index(from), index(to), link).unwrap();
        }
    }
    let mut group = Group::found_for(Overlays::of(&names, Some(std::sync::Arc::new(network))).unwrap());
    group.join_all((0..299).map(|i| join(&format!("n{i}"), Some(clusters[i % 4]))));
    assert_eq!((group.views.len(), &group.unplanned), (300, &vec![]));
    let largest = group.views.values().map(|view| {
        let bytes = view.to_bytes();
        let told = Assignment::read(&mut Reader::new(&bytes)).expect("a member can read it");
        assert_eq!(told.plans.len(), names.len() - 1, "all but mob plan");
        bytes.len()
    });
    let largest = largest.max().unwrap();
    assert!(largest <= FRAME_BYTES_MAX / 2, "{largest} bytes");
}

#[test]
fn a_cluster_that_the_network_does_not_know_is_told_of_once() {
    let mut network = mobcast_topology::Topology::new();
    network.add_cluster(mobcast_topology::Cluster::new("a", 1)).unwrap();
    let network = Some(std::sync::Arc::new(network));
    let mut group = Group::found_for(Overlays::of(&["optimal-trees"], network).unwrap());
    assert_eq!(group.unplanned, []);
    group.join_all([join("n1", Some("b")), join("n2", Some("b"))]);
    assert_eq!(group.unplanned.len(), 1, "{:?}", group.unplanned);
    assert!(group.unplanned[0].1.contains("no cluster \"b\""), "{:?}", group.unplanned);
}

#[test]
fn that_the_network_does_not_know_the_founder_s_cluster_is_told_when_somebody_listens_and_once() {
    let mut network = mobcast_topology::Topology::new();
    network.add_cluster(mobcast_topology::Cluster::new("b", 1)).unwrap();
    let network = Some(std::sync::Arc::new(network));
    let mut group = Group::found_for(Overlays::of(&["optimal-trees"], network).unwrap());
    assert_eq!(group.unplanned, [], "it is alone");
    group.join_all([join("n1", Some("b"))]);
    assert_eq!(group.unplanned.len(), 1, "{:?}", group.unplanned);
    assert!(group.unplanned[0].1.contains("no cluster \"a\""), "{:?}", group.unplanned);
    group.coordinator.handle_lost(group.now, NodeId(1));
    group.views.remove(&NodeId(1));
    group.settle();
    group.join_all([join("n2", Some("b"))]);
    assert_eq!(group.unplanned.len(), 1, "{:?}", group.unplanned);
}

#[test]
fn orders_of_a_measurement_travel_in_assignments_and_plans_follow_it() {
    measure_and_plan(5);
}

#[test]
fn plans_follow_a_measurement_also_in_a_large_group() {
    measure_and_plan(300);
}

fn measure_and_plan(joiners: usize) {
    let overlays = Overlays::measuring(Registry::default(), &["optimal-trees"]).unwrap();
    let mut group = Group::found_for(overlays);
    group.join_all((0..joiners).map(|i| join(&format!("n{i}"), Some(["b", "c"][i % 2]))));
    group.settle();
    assert_eq!(group.unplanned, [], "there is nothing to plan for yet");
    assert!(group.views.values().all(|view| view.plans.is_empty() && view.probes.is_empty()));
    assert!(group.coordinator.measure(group.now));
    assert!(!group.coordinator.measure(group.now), "one at a time");
    group.drain();
    let mut reported = BTreeSet::new();
    for _ in 0..100 {
        let asked = group.views.values().flat_map(|view| view.probes.iter().map(move |order| (view.node, *order)));
        let is_open = |order: &ProbeOrder| order.role == ProbeRole::Ask && !reported.contains(&order.number);
        let asking = asked.clone().find(|(_, order)| is_open(order));
        let Some((node, order)) = asking else { break };
        let peer = &group.views[&order.peer];
        assert!(peer.probes.iter().any(|other| other.role == ProbeRole::Serve && other.peer == node), "both know");
        let told = |a: NodeId, b: NodeId| {
            let view = &group.views[&a];
            view.parent.iter().chain(&view.plan_peers).any(|peer| peer.node == b)
        };
        assert!(told(node, order.peer) || told(order.peer, node), "one of them connects to the other");
        let reading = Some(Reading { rate_bytes_per_s: 1_000_000, rtt: Duration::from_millis(20) });
        let result = ProbeResult { number: order.number, bytes: 1_000_000, reading };
        group.coordinator.handle_probe_result(group.now, NodeId(u32::MAX), result);
        group.coordinator.handle_probe_result(group.now, node, result);
        reported.insert(order.number);
        group.drain();
    }
    let measured = group.measured.pop().expect("it ends");
    assert_eq!((measured.problems.len(), measured.network.is_some()), (0, true));
    assert_eq!(group.unplanned, []);
    for (node, view) in &group.views {
        assert_eq!((view.plans.len(), view.probes.len()), (1, 0), "{node}");
    }
}
