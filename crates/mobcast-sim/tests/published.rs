//! MOB and Robber as they were published, in the simulator: everybody gets everything, MOB imports each piece into each cluster
//! exactly once, and a death on the way stops nobody.

use mobcast_proto::Time;
use mobcast_sim::experiment::{Experiment, Outcome, Step};
use mobcast_sim::network::Stop;
use mobcast_topology::{Cluster, ClusterIndex, Scenario, Topology, preset};

const MB: u64 = 1_000_000;
const PUBLISHED: [&str; 2] = ["mob-hpdc07", "robber-tpds11"];
/// Headers of payload messages count as payload; a single piece more would be 0.004.
const ONCE: std::ops::Range<f64> = 1.0..1.002;

fn experiment(strategy: &str, topology: Topology, bytes: u64, seed: u64) -> Experiment {
    let mut experiment = Experiment::new(Scenario::steady(topology), bytes, seed);
    experiment.strategy = strategy.into();
    experiment.settings.check_every = 10;
    experiment
}

fn all_complete(what: &str, outcome: &Outcome) {
    assert_eq!(outcome.stuck, None, "{what}");
    assert_eq!(outcome.failed, Vec::<String>::new(), "{what}");
}

#[test]
fn mob_imports_each_piece_into_each_cluster_exactly_once() {
    for seed in 1..=5 {
        let outcome = experiment("mob-hpdc07", preset::m2_fast(4), 8 * MB, seed).run();
        all_complete("mob-hpdc07", &outcome);
        assert_eq!(outcome.wan_copies[0], 0.0, "seed {seed}: the root's cluster imports nothing");
        let imported = &outcome.wan_copies[1..];
        assert!(imported.iter().all(|copies| ONCE.contains(copies)), "seed {seed}: {imported:?}");
    }
}

#[test]
fn robber_imports_little_twice() {
    for seed in 1..=5 {
        let outcome = experiment("robber-tpds11", preset::m2_fast(4), 8 * MB, seed).run();
        all_complete("robber-tpds11", &outcome);
        let imported = &outcome.wan_copies[1..];
        println!("seed {seed}: {imported:.4?}");
        assert!(imported.iter().all(|copies| (1.0..1.05).contains(copies)), "seed {seed}: {imported:?}");
    }
}

#[test]
fn clusters_of_different_sizes_complete() {
    let mut topology = preset::m2_fast(1);
    for (cluster, nodes) in [1, 7, 2, 12].into_iter().enumerate() {
        topology.cluster_mut(ClusterIndex(cluster as u32)).expect("M2 has four clusters").nodes = nodes;
    }
    for strategy in PUBLISHED {
        let outcome = experiment(strategy, topology.clone(), 8 * MB, 2).run();
        all_complete(strategy, &outcome);
        println!("{strategy}: {:.4?}", outcome.wan_copies);
        let imported = &outcome.wan_copies[1..];
        assert!(strategy != "mob-hpdc07" || imported.iter().all(|copies| ONCE.contains(copies)), "{imported:?}");
    }
}

/// A node has 40 links to peers: twenty of sixty have none to the root, and no share.
#[test]
fn one_node_gives_a_cluster_of_sixty_everything_once_and_without_a_pause() {
    let mut topology = preset::full_mesh(2, &Cluster::new("", 60), 4_000_000, 10_000_000);
    topology.cluster_mut(ClusterIndex(0)).expect("there are two").nodes = 1;
    for strategy in PUBLISHED {
        let outcome = experiment(strategy, topology.clone(), 8 * MB, 1).run();
        all_complete(strategy, &outcome);
        let end = outcome.last_complete().expect("all are complete").as_secs_f64();
        println!("{strategy}: {end:.2} s, {:.4?}", outcome.wan_copies);
        assert!(ONCE.contains(&outcome.wan_copies[1]), "{strategy}: {:?}", outcome.wan_copies);
        // At 4 MB/s it takes two seconds, and nobody asks for help before two more.
        assert!(end < 4.0, "{strategy}: {end:.2} s");
    }
}

#[test]
fn two_clusters_of_three_swap_what_crosses_their_border_once() {
    let topology = preset::full_mesh(2, &Cluster::new("", 3), 4_000_000, 10_000_000);
    let outcome = experiment("mob-hpdc07", topology, 8 * MB, 1).run();
    all_complete("mob-hpdc07", &outcome);
    assert!(outcome.wan_copies[0] == 0.0 && ONCE.contains(&outcome.wan_copies[1]), "{:?}", outcome.wan_copies);
}

#[test]
fn a_death_on_the_way_stops_nobody() {
    for strategy in PUBLISHED {
        for (victim, stop) in [(1, Stop::Silent), (4, Stop::Silent), (9, Stop::Silent), (9, Stop::Reset)] {
            let mut experiment = experiment(strategy, preset::m2_fast(4), 24 * MB, 1);
            experiment.steps.push((Time(800_000_000), Step::Stop(victim, stop)));
            let outcome = experiment.run();
            all_complete(strategy, &outcome);
            let missing: Vec<usize> = (0..16).filter(|&i| outcome.complete[i].is_none()).collect();
            // In the root's cluster nothing limits links, and all is there by then.
            let expected = Vec::from_iter((victim > 3).then_some(victim as usize));
            assert_eq!(missing, expected, "{strategy}, {stop:?}: it dies before it is complete");
            let end = outcome.last_complete().expect("the others are complete").as_secs_f64();
            println!("{strategy}: without {victim} ({stop:?}) {end:.1} s, {:.3?}", outcome.wan_copies);
        }
    }
}

#[test]
fn who_comes_late_is_given_a_place() {
    for strategy in PUBLISHED {
        let mut experiment = experiment(strategy, preset::m2_fast(2), 8 * MB, 1);
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
    for strategy in PUBLISHED {
        let hash = |seed| experiment(strategy, preset::m2_fast(3), 2 * MB, seed).run().trace_hash;
        assert_eq!(hash(1), hash(1), "{strategy}");
        assert_ne!(hash(1), hash(2), "{strategy}");
    }
}
