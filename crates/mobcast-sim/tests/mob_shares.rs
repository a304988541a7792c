//! What keeps `mob` from the optimum where many nodes share a slow link: a manifest that every member fetches for itself, requests
//! that wait one behind the other, pieces that are given up on their way. Time is virtual, so the figures are exact.

use mobcast_proto::{Duration, Time};
use mobcast_sim::experiment::{Experiment, Outcome, Step};
use mobcast_sim::network::{Network, NodeIndex, Settings as NetworkSettings};
use mobcast_sim::world::mischief::Mischief;
use mobcast_sim::world::{Settings, World};
use mobcast_topology::{Cluster, ClusterIndex, Scenario, Topology, WanLink, WanNic, optimum};

mod support;

use support::descriptor;

const KB: u64 = 1_000;

/// A root cluster and one of so many nodes behind a link that they share.
fn one_link(nodes: u32, rate: u64) -> Topology {
    let mut topology = Topology::new();
    topology.add_cluster(Cluster::new("A", 4)).expect("names are unique");
    topology.add_cluster(Cluster::new("B", nodes)).expect("names are unique");
    topology.link_both(ClusterIndex(0), ClusterIndex(1), WanLink::new(rate, 10_000_000)).expect("both clusters exist");
    topology
}

fn run(topology: Topology, object_bytes: u64, piece_size: u32) -> (Experiment, Outcome) {
    let mut experiment = Experiment::new(Scenario::steady(topology), object_bytes, 1);
    experiment.piece_size = Some(piece_size);
    experiment.settings.check_every = 1_000;
    let outcome = experiment.run();
    assert_eq!(outcome.stuck, None);
    (experiment, outcome)
}

/// Seconds beyond those that the optimum takes.
fn lost_seconds(experiment: &Experiment, outcome: &Outcome) -> f64 {
    let best = optimum(&experiment.scenario.topology, ClusterIndex(0)).payload_bytes_per_s.expect("the link binds");
    let end = outcome.last_complete().map_or(f64::INFINITY, Time::as_secs_f64);
    end - experiment.object_bytes as f64 / best as f64
}

#[test]
fn a_long_manifest_enters_a_cluster_about_once() {
    // 2,048 pieces: 64 KiB of hashes, which 16 members of their own would make 1 MiB, more than a second of the link.
    let (_, outcome) = run(one_link(16, 750 * KB), 2_048 * 32 * 1_024, 32 << 10);
    let control = outcome.traffic[0][1].control_bytes;
    println!("{control} bytes of control");
    assert!(control < 10 * 64 * 1_024, "{control} bytes of control, for 64 KiB of hashes and what else is said");
}

#[test]
fn the_root_does_not_give_the_manifest_to_every_neighbour() {
    let mut topology = Topology::new();
    topology.add_cluster(Cluster::new("A", 16).with_nic(25_000 * KB)).expect("the name is unique");
    let (_, outcome) = run(topology, 12_000 * 32 * 1_024, 32 << 10);
    let control = outcome.node_traffic[0].lan_out.control_bytes;
    println!("{control} bytes of control");
    // 384 KB of hashes for each of 15 neighbours would be 5.8 MB before anything else is said.
    assert!(control < 5_000 * KB, "{control} bytes of control");
}

#[test]
fn a_link_that_many_nodes_share_is_asked_for_little_ahead() {
    let (experiment, outcome) = run(one_link(32, 750 * KB), 40_000 * KB, 32 << 10);
    let lost = lost_seconds(&experiment, &outcome);
    println!("{lost:.2} s lost");
    // A piece for each of 32 nodes takes the link 1.4 s, of which half is lost on average at either end.
    assert!(lost < 1.2, "{lost:.2} s lost to start and tail");
}

#[test]
fn what_comes_slowly_is_not_asked_for_again() {
    // With all 32 nodes importing, a piece takes 6 s and comes in one chunk.
    let (_, outcome) = run(one_link(32, 175 * KB), 20_000 * KB, 32 << 10);
    println!("WAN copies {:.3?}", outcome.wan_copies);
    assert!(outcome.wan_copies[1] <= 1.02, "{:?}", outcome.wan_copies);
}

#[test]
fn members_whose_assignments_are_late_do_not_import_what_newcomers_import() {
    // 16 members, one after the other: each takes slots over from those before it, who hear of it from the coordinator late.
    let topology = one_link(1, 400 * KB);
    let mut experiment = Experiment::new(Scenario::steady(topology), 8_000 * KB, 1);
    experiment.piece_size = Some(32 << 10);
    experiment.settings.assignments_late = Duration::from_secs(15);
    let join = |i: u64| (Time::ZERO + Duration::from_millis(100 + i * 50), Step::Join(ClusterIndex(1)));
    experiment.steps = (0..15).map(join).collect();
    let outcome = experiment.run();
    println!("WAN copies {:.3?}", outcome.wan_copies);
    assert_eq!(outcome.stuck, None);
    // A newcomer may ask for a piece before it has heard who else does: one for each of 15 would be 1.06. Without word of what peers
    // hold it is 1.15.
    assert!(outcome.wan_copies[1] <= 1.04, "{:?}", outcome.wan_copies);
}

#[test]
fn who_says_that_it_holds_everything_stops_imports_for_a_while_and_not_longer() {
    // The last member of B says that all slots are its own, by the newest of assignments, and imports nothing.
    let network =
        Network::new(&one_link(4, 1_000 * KB), NetworkSettings { report_drained: true, ..Default::default() });
    let mut world = World::new(network, Settings { check_every: 100, ..Settings::default() });
    for cluster in [0, 0, 1, 1, 1, 1] {
        world.start_machine(ClusterIndex(cluster), Some(format!("c{cluster}")));
    }
    world.machines[5].malicious = Some(Mischief::FalseHave);
    let id = world.broadcast(NodeIndex(0), descriptor(20_000 * KB, 64 << 10), None);
    let done = |world: &World| (0..5).all(|i: usize| world.machines[i].seen.complete.contains_key(&id));
    while !done(&world) {
        assert!(world.network.now() < Time(40_000_000_000), "20 s for the object, and 20 s for the lie");
        world.step().expect("timers never end");
    }
    println!("complete at {:?}", world.network.now());
}

/// Four nodes and four, with slow cards towards the other cluster, of which so many of the second cluster join after the first of each, then so
/// many of the root's, and so on. The part of what four cards carry that is used.
fn card_for_each(order: [u32; 4]) -> f64 {
    let mut topology = Topology::new();
    let card = Some(WanNic { out_bytes_per_s: Some(1_250 * KB), in_bytes_per_s: Some(1_250 * KB) });
    for (name, nodes) in [("A", 1), ("B", 1)] {
        let cluster = topology.add_cluster(Cluster::new(name, nodes).with_nic(25_000 * KB)).expect("names are unique");
        topology.cluster_mut(cluster).expect("it was just added").wan_nic = card;
    }
    let link = WanLink::new(100_000 * KB, 1_000_000);
    topology.link_both(ClusterIndex(0), ClusterIndex(1), link).expect("both clusters exist");
    let mut experiment = Experiment::new(Scenario::steady(topology), 20_000 * KB, 1);
    let joins = order.iter().enumerate().flat_map(|(cluster, &nodes)| std::iter::repeat_n(cluster % 2, nodes as usize));
    for (i, cluster) in joins.enumerate() {
        experiment.steps.push((Time(2_000_000 * (i as u64 + 1)), Step::Join(ClusterIndex(1 - cluster as u32))));
    }
    let outcome = experiment.run();
    assert_eq!(outcome.stuck, None);
    // Four cards out of the root's cluster.
    outcome.throughput_bytes_per_s(20_000 * KB) / (5_000 * KB) as f64
}

#[test]
fn in_whatever_order_nodes_join_each_has_a_card_of_the_other_cluster_to_itself() {
    for order in [[3, 3, 0, 0], [0, 3, 3, 0], [2, 2, 1, 1], [1, 2, 2, 1], [1, 1, 2, 2]] {
        let part = card_for_each(order);
        println!("{order:?}: {part:.3}");
        assert!(part > 0.92, "{order:?}: {part:.3} of what four cards carry");
    }
}
