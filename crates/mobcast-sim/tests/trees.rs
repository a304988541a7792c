//! Strategies that send down trees, in the simulator: everybody gets everything, each cluster once, and a death on the way stops
//! nobody.

use mobcast_proto::strategy::STRATEGIES;
use mobcast_proto::{Duration, Time};
use mobcast_sim::experiment::{Experiment, Outcome, Step};
use mobcast_sim::network::Stop;
use mobcast_topology::{Cluster, ClusterIndex, Scenario, Topology, WanLink, preset};

const MB: u64 = 1_000_000;

fn planned() -> impl Iterator<Item = &'static str> {
    STRATEGIES.iter().filter(|kind| kind.is_tree()).map(|kind| kind.name)
}

fn experiment(strategy: &str, topology: Topology, bytes: u64) -> Experiment {
    let mut experiment = Experiment::new(Scenario::steady(topology), bytes, 1);
    experiment.strategy = strategy.into();
    experiment.settings.check_every = 100;
    experiment
}

fn all_complete(strategy: &str, outcome: &Outcome) {
    assert_eq!(outcome.stuck, None, "{strategy}");
    assert_eq!(outcome.failed, Vec::<String>::new(), "{strategy}");
}

#[test]
fn everybody_gets_everything_and_each_cluster_once() {
    for strategy in planned() {
        let mut experiment = experiment(strategy, preset::m2_fast(4), 8 * MB);
        // Whoever begins before all have joined has another place in the trees than later.
        experiment.gather = true;
        let outcome = experiment.run();
        all_complete(strategy, &outcome);
        let once = match strategy {
            // The root sends to each of four nodes itself.
            "flat" => 4.0..4.004,
            _ => 1.0..1.001,
        };
        let imported = &outcome.wan_copies[1..];
        assert!(imported.iter().all(|copies| once.contains(copies)), "{strategy}: {imported:?}");
    }
}

/// In pieces of 128 KiB eight of 64 parts would hold anything, and each of these eight go over 63 hops.
#[test]
fn a_part_for_each_node_is_ahead_of_a_chain_also_where_parts_are_small() {
    let seconds = |strategy: &str| {
        let mut topology = Topology::new();
        topology.add_cluster(Cluster::new("one", 64).with_nic(125_000_000)).expect("it is the first");
        let mut experiment = experiment(strategy, topology, MB);
        experiment.gather = true;
        let outcome = experiment.run();
        all_complete(strategy, &outcome);
        outcome.last_complete().expect("all are complete").as_secs_f64()
    };
    let (scattered, chain) = (seconds("scatter-allgather"), seconds("chain"));
    assert!(scattered < chain / 2.0, "{scattered:.3} s, down a chain {chain:.3} s");
}

#[test]
fn the_manifest_comes_down_one_of_several_trees() {
    let pieces = 4_000;
    let mut experiment = experiment("optimal-trees", preset::m2_fast(8), pieces * (16 << 10));
    experiment.piece_size = Some(16 << 10);
    experiment.gather = true;
    let mut control = 0;
    let outcome = experiment.run_watched(|world, _| {
        let into = |from: u32| world.network.pair_traffic(ClusterIndex(from), ClusterIndex(1)).control_bytes;
        control = [0, 2, 3].into_iter().map(into).sum();
    });
    all_complete("optimal-trees", &outcome);
    let manifests = control as f64 / (32 * pieces) as f64;
    println!("control bytes into a cluster of 8 nodes: {manifests:.1} times the manifest's hashes");
    // The first hashes are sent to each node by each of its parents, and the rest is requests: it was 20 when all hashes were.
    assert!(manifests < 7.0, "{manifests:.1}");
}

#[test]
fn what_came_in_one_frame_is_not_fetched_again() {
    for strategy in planned().chain(["mob"]) {
        let mut experiment = experiment(strategy, preset::m2_fast(3), 50_000);
        experiment.gather = true;
        // Long enough for a request and its answer to pass while the data is being stored.
        experiment.settings.store_time = Duration::from_millis(300);
        let outcome = experiment.run();
        all_complete(strategy, &outcome);
        let payload: u64 = outcome.traffic.iter().flatten().map(|pair| pair.payload_bytes).sum();
        assert_eq!(payload, 0, "{strategy}: the frame is no payload");
    }
}

#[test]
fn a_death_on_the_way_stops_nobody() {
    for strategy in planned() {
        for victim in [1, 4, 9] {
            let mut experiment = experiment(strategy, preset::m2_fast(4), 24 * MB);
            experiment.steps.push((Time(800_000_000), Step::Stop(victim, Stop::Silent)));
            let outcome = experiment.run();
            all_complete(strategy, &outcome);
            let missing: Vec<usize> = (0..16).filter(|&i| outcome.complete[i].is_none()).collect();
            // In the root's cluster nothing limits links, and all is there by then.
            let expected = Vec::from_iter((victim > 3).then_some(victim as usize));
            assert_eq!(missing, expected, "{strategy}: it dies before it is complete");
        }
    }
}

#[test]
fn who_comes_late_is_given_a_place() {
    for strategy in planned() {
        let mut experiment = experiment(strategy, preset::m2_fast(2), 8 * MB);
        for cluster in [1, 3] {
            experiment.steps.push((Time(500_000_000), Step::Join(ClusterIndex(cluster))));
        }
        let outcome = experiment.run();
        all_complete(strategy, &outcome);
        assert_eq!(outcome.complete.iter().flatten().count(), 10, "{strategy}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for strategy in planned() {
        let hash = || experiment(strategy, preset::m2_fast(3), 2 * MB).run().trace_hash;
        assert_eq!(hash(), hash(), "{strategy}");
    }
}

#[test]
fn where_trees_go_through_a_mesh_nobody_waits_for_whose_turn_it_is_to_fetch_the_manifest() {
    let round_trip = Duration::from_millis(15);
    let clusters = ["root", "far"].map(|name| Cluster::new(name, 16).with_nic(125 * MB));
    let topology = preset::symmetric(&clusters, &[(0, 1, 100 * MB)], round_trip.0 / 2);
    let mut experiment = experiment("auto", topology, 128 << 10);
    (experiment.gather, experiment.gauge, experiment.piece_size) = (true, false, Some(16 << 10));
    experiment.network.slow_start = false;
    let outcome = experiment.run();
    all_complete("auto", &outcome);
    let chosen = outcome.choice.as_ref().map(|choice| choice.strategy).expect("it was asked for");
    assert!(planned().any(|tree| tree == chosen), "{chosen} is no tree, of which this test speaks");
    let last = outcome.last_complete().expect("all are complete");
    println!("complete {last:?} after it began");
    // The announcement with the manifest behind it, a request, and the pieces: half a round trip each, and as long again inside the clusters.
    assert!(last < Time::ZERO + round_trip.times(2), "{last:?}");
}

/// Shaping at the sender (Balanced Multicasting; MOB paper, section 2.4): after a second all links carry twice as much, and who was planned at
/// rates goes on as planned.
#[test]
fn senders_keep_to_the_rates_of_the_plan() {
    let slow = preset::m2_slow(4);
    let mut doubled = slow.clone();
    for (from, to, link) in slow.wan_links() {
        let rate_bytes_per_s = link.rate_bytes_per_s.map(|rate| 2 * rate);
        doubled.link(from, to, WanLink { rate_bytes_per_s, ..link }).expect("it is there");
    }
    for (strategy, shaped) in [("balanced", true), ("optimal-trees", true), ("fpfr", false)] {
        let seconds = |scenario: Scenario| {
            let mut experiment = experiment(strategy, slow.clone(), 200 * MB);
            experiment.scenario = scenario;
            experiment.gather = true;
            let outcome = experiment.run();
            all_complete(strategy, &outcome);
            outcome.last_complete().expect("all are").as_secs_f64()
        };
        let gain =
            seconds(Scenario::steady(slow.clone())) / seconds(Scenario::switch(slow.clone(), &doubled, 1_000_000_000));
        println!("{strategy}: {gain:.3} times as fast on links that double");
        // A link that had nothing to send makes up for a second of it.
        assert!(if shaped { gain < 1.06 } else { gain > 1.8 }, "{strategy}: {gain:.3} times as fast");
    }
}
