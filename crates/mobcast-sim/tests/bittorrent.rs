//! The strategies `bittorrent`, `bittorrent-rarest` and `bittorrent-biased` in simulated networks: everybody completes, whatever
//! dies, and clusters are entered as often as the published algorithm enters them.

use mobcast_proto::Time;
use mobcast_sim::experiment::{Experiment, Outcome, Step};
use mobcast_sim::network::{NodeIndex, Stop};
use mobcast_topology::{ClusterIndex, Scenario, optimum, preset};

const MB: u64 = 1_000_000;
const ALL: [&str; 3] = ["bittorrent", "bittorrent-rarest", "bittorrent-biased"];

fn experiment(strategy: &str, nodes_per_cluster: u32, bytes: u64, seed: u64) -> Experiment {
    let mut experiment = Experiment::new(Scenario::steady(preset::m2_fast(nodes_per_cluster)), bytes, seed);
    experiment.strategy = strategy.to_owned();
    experiment.settings.check_every = 20;
    experiment
}

fn assert_complete(outcome: &Outcome, what: &str) {
    assert_eq!(outcome.stuck, None, "{what}");
    assert!(outcome.failed.is_empty(), "{what}: {:?}", outcome.failed);
    let running = (0..outcome.complete.len()).filter(|&i| !outcome.stopped.contains(&NodeIndex(i as u32)));
    running.for_each(|i| assert!(outcome.complete[i].is_some(), "{what}: node {i}"));
}

#[test]
fn everybody_completes_and_clusters_are_entered_several_times() {
    for strategy in ALL {
        let experiment = experiment(strategy, 4, 8 * MB, 1);
        let outcome = experiment.run();
        assert_complete(&outcome, strategy);
        let copies = outcome.wan_copies[1..].iter().sum::<f64>() / 3.0;
        let best =
            optimum(&experiment.scenario.topology, ClusterIndex(0)).payload_bytes_per_s.expect("something binds");
        let fraction = outcome.throughput_bytes_per_s(8 * MB) / best as f64;
        println!("{strategy}: {fraction:.3} of the optimum, {copies:.2} WAN copies, {:.1?}", outcome.last_complete());
        let expected = if strategy == "bittorrent-biased" { 1.2..2.2 } else { 2.5..4.5 };
        assert!(expected.contains(&copies), "{strategy}: {:?}", outcome.wan_copies);
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for strategy in ALL {
        let hash = |seed| experiment(strategy, 2, 2 * MB, seed).run().trace_hash;
        assert_eq!(hash(3), hash(3), "{strategy}");
        assert_ne!(hash(3), hash(4), "{strategy}");
    }
}

#[test]
fn a_node_that_dies_keeps_nobody_from_completing() {
    for (strategy, stop) in ALL.into_iter().flat_map(|name| [(name, Stop::Reset), (name, Stop::Silent)]) {
        for victim in [1, 6] {
            let mut experiment = experiment(strategy, 4, 8 * MB, 2);
            experiment.steps.push((Time(1_500_000_000), Step::Stop(victim, stop)));
            let outcome = experiment.run();
            assert_complete(&outcome, &format!("{strategy}, {stop:?} of {victim}"));
            assert_eq!(outcome.stopped, [NodeIndex(victim)]);
        }
    }
}

#[test]
fn whoever_comes_late_is_given_neighbours() {
    for strategy in ALL {
        let mut experiment = experiment(strategy, 2, 8 * MB, 1);
        for cluster in [1, 3] {
            experiment.steps.push((Time(500_000_000), Step::Join(ClusterIndex(cluster))));
        }
        let outcome = experiment.run();
        assert_complete(&outcome, strategy);
        assert_eq!(outcome.complete.iter().flatten().count(), 10, "{strategy}");
    }
}

#[test]
fn more_nodes_than_anybody_knows_complete() {
    for strategy in ALL {
        let mut experiment = experiment(strategy, 16, 8 * MB, 1);
        experiment.settings.check_every = 500;
        let outcome = experiment.run();
        assert_complete(&outcome, strategy);
        println!("{strategy}: 64 nodes, {:.1?}, WAN copies {:.2?}", outcome.last_complete(), outcome.wan_copies);
    }
}
