//! How a broadcast begins: what passes between clusters until payload does.

use mobcast_proto::{Duration, Time};
use mobcast_sim::experiment::{Experiment, Outcome};
use mobcast_sim::run::PACKET;
use mobcast_topology::{Cluster, ClusterIndex, Scenario, Topology, WanLink};

const MB: u64 = 1_000_000;
const MS: u64 = 1_000_000;

/// Two clusters, the root's of one node, and 50 ms each way between them.
fn far_apart(nodes: u32, wan_bytes_per_s: u64) -> Topology {
    let mut topology = Topology::new();
    for (name, nodes) in [("root", 1), ("far", nodes)] {
        topology.add_cluster(Cluster::new(name, nodes).with_nic(125 * MB)).expect("names are unique");
    }
    let link = WanLink::new(wan_bytes_per_s, 50 * MS);
    topology.link_both(ClusterIndex(0), ClusterIndex(1), link).expect("clusters exist");
    topology
}

fn run(mut experiment: Experiment) -> Outcome {
    experiment.settings.check_every = 1_000;
    let outcome = experiment.run();
    assert_eq!((&outcome.stuck, &outcome.failed), (&None, &Vec::new()));
    outcome
}

#[test]
fn a_far_newcomer_has_what_it_asks_for_after_seven_round_trips() {
    // Two for a connection and its handshake, one for the answer to what comes with the greeting; the same for the link to a peer;
    // and one for the piece, were it not for slow start.
    let round_trips = |trips: u64| Time::ZERO + Duration::from_millis(100 * trips);
    let mut experiment = Experiment::new(Scenario::steady(far_apart(1, 100 * MB)), 128 << 10, 1);
    experiment.piece_size = Some(128 << 10);
    experiment.network.slow_start = false;
    let outcome = run(experiment);
    let complete = outcome.complete[1].expect("it is complete");
    println!("complete after {complete:?}");
    assert!(complete > round_trips(7), "{complete:?}: light is not so fast");
    // What remains is the transfer and a few milliseconds of gathering.
    assert!(complete < round_trips(8), "{complete:?}");
}

#[test]
fn a_far_cluster_that_is_there_asks_for_pieces_as_soon_as_it_hears_of_a_broadcast() {
    let mut experiment = Experiment::new(Scenario::steady(far_apart(4, 100 * MB)), 128 << 10, 1);
    experiment.piece_size = Some(16 << 10);
    experiment.gather = true;
    experiment.network.slow_start = false;
    let outcome = run(experiment);
    let complete = outcome.complete.iter().skip(1).map(|at| at.expect("it is complete")).max().expect("there are four");
    println!("complete after {complete:?}");
    // The announcement and all that belongs to it, a request, and the payload: half a round trip each.
    assert!(complete > Time::ZERO + Duration::from_millis(150), "{complete:?}: light is not so fast");
    // It was a round trip more when nothing was said before the receiver had answered.
    assert!(complete < Time::ZERO + Duration::from_millis(200), "{complete:?}");
}

#[test]
fn a_large_cluster_on_a_thin_link_fetches_the_manifest_about_once() {
    let pieces: u64 = 2_000;
    let topology = far_apart(32, MB / 2);
    let mut experiment = Experiment::new(Scenario::steady(topology), pieces * (16 << 10), 1);
    experiment.piece_size = Some(16 << 10);
    experiment.network.model = PACKET;
    // Later others are more: what peers have and want.
    let mut control_bytes = 0;
    let outcome = experiment.run_watched(|world, _| {
        if world.network.now() < Time::ZERO + Duration::from_secs(3) {
            control_bytes = world.network.pair_traffic(ClusterIndex(0), ClusterIndex(1)).control_bytes;
        }
    });
    assert_eq!((&outcome.stuck, &outcome.failed), (&None, &Vec::new()));
    let manifests = control_bytes as f64 / (32 * pieces) as f64;
    println!("control bytes from the root's cluster: {manifests:.2} times the manifest's hashes");
    // The rest is what peers have and want, and the first batch, which the root sends one of them while the one whose slot it
    // is in asks for it (2.3 without). When each member waited for less than a round trip it was 4.2.
    assert!(manifests < 2.7, "{manifests:.2}");
}

#[test]
fn a_crowd_is_admitted_as_fast_as_rounds_of_admissions_go() {
    let nodes = 3_000;
    let mut topology = Topology::new();
    topology.add_cluster(Cluster::new("hosts", nodes).with_nic(1_250 * MB)).expect("it is the only one");
    let mut experiment = Experiment::new(Scenario::steady(topology), 4 * MB, 1);
    experiment.piece_size = Some(1 << 20);
    experiment.settings.check_every = 0;
    let (mut all_at, mut dials) = (None, Vec::new());
    let outcome = experiment.run_watched(|world, _| {
        dials = world.machines.iter().map(|machine| machine.join_dials).collect();
        if all_at.is_none() && world.machines.iter().all(|machine| machine.node.assignment().is_some()) {
            all_at = Some(world.network.now());
        }
    });
    assert_eq!((&outcome.stuck, &outcome.failed), (&None, &Vec::new()));
    let all_at = all_at.expect("all have joined");
    let (all, most) = (dials.iter().sum::<u32>(), dials.iter().max().copied().unwrap_or(0));
    println!("{nodes} nodes are in after {all_at:?}, have asked {all} times, and none more than {most} times");
    // 256 in 20 ms, and the first rounds.
    assert!(all_at < Time::ZERO + Duration::from_millis(330), "{all_at:?}");
    // Each connection is a handshake, also for whoever is turned away: hardly anybody comes a third time.
    assert!(all <= 2 * nodes && most <= 3, "{all} times, at most {most}");
}
