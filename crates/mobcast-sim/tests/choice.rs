//! The choice of a strategy, held against all that could have been chosen: in the simulator, where nothing costs time but networks and storing, it has to be
//! the best or as good.

use mobcast_proto::strategy::choice::candidates;
use mobcast_sim::experiment::{Experiment, Outcome};
use mobcast_topology::{Cluster, Scenario, Topology, WanLink, preset};

fn run(topology: &Topology, bytes: u64, strategy: &str) -> Outcome {
    let mut experiment = Experiment::new(Scenario::steady(topology.clone()), bytes, 1);
    experiment.strategy = strategy.to_owned();
    experiment.gather = true;
    experiment.settings.check_every = 1_000;
    let outcome = experiment.run();
    assert_eq!(outcome.stuck, None);
    outcome
}

fn seconds(outcome: &Outcome) -> f64 {
    outcome.last_complete().expect("it is complete").as_secs_f64()
}

/// What was chosen, having been held against the others.
fn chosen(topology: &Topology, bytes: u64) -> &'static str {
    let outcome = run(topology, bytes, "auto");
    let choice = outcome.choice.clone().expect("it was asked for");
    let own = seconds(&outcome);
    let chosen = choice.predicted.first().map(|(_, predicted)| *predicted);
    println!("{}: {own:.4} s", choice.reason);
    for other in candidates(true) {
        let theirs = seconds(&run(topology, bytes, other));
        assert!(own <= 1.02 * theirs, "{}: {own:.4} s, and {other} {theirs:.4} s", choice.reason);
    }
    // A prediction is of use if it tells the strategies apart.
    assert!(chosen.is_none_or(|predicted| (0.5..1.5).contains(&(own / predicted))), "{}: {own:.4} s", choice.reason);
    if choice.strategy == "optimal-trees" {
        assert!(
            chosen.is_some_and(|predicted| (0.9..1.1).contains(&(own / predicted))),
            "{}: {own:.4} s",
            choice.reason
        );
    }
    choice.strategy
}

#[test]
fn in_one_cluster_it_is_the_best() {
    let mut switch = Topology::new();
    switch.add_cluster(Cluster::new("A", 16).with_nic(12_500_000)).expect("it is the first");
    let all: Vec<&str> =
        [4_000, 65_536, 100_000, 1_000_000, 10_000_000, 50_000_000].map(|bytes| chosen(&switch, bytes)).into();
    assert_eq!(all, ["binomial", "two-trees", "two-trees", "two-trees", "two-trees", "two-trees"]);
}

/// Peers of the mesh say early that they have more of the manifest than has come down a tree: who asked them for it had what was
/// on its way twice, and held those near the root up: `auto` took 1.04 times as long.
#[test]
fn a_tree_is_as_fast_in_a_group_that_has_a_mesh_as_well() {
    let mut switch = Topology::new();
    switch.add_cluster(Cluster::new("A", 64).with_nic(12_500_000)).expect("it is the first");
    let mut experiment = Experiment::new(Scenario::steady(switch), 10_000_000, 1);
    (experiment.gather, experiment.piece_size) = (true, Some(16 << 10));
    experiment.settings.check_every = 1_000;
    let mut seconds_by = |strategy: &str| {
        experiment.strategy = strategy.to_owned();
        let outcome = experiment.run();
        let chosen = outcome.choice.as_ref().map(|choice| choice.strategy);
        assert_eq!(chosen, (strategy == "auto").then_some("two-trees"));
        seconds(&outcome)
    };
    let (alone, with_mesh) = (seconds_by("two-trees"), seconds_by("auto"));
    assert!(with_mesh <= 1.015 * alone, "{with_mesh} s beside {alone} s");
}

#[test]
fn between_clusters_it_is_the_best() {
    let all: Vec<&str> =
        [4_000, 60_000, 100_000, 500_000, 4_000_000, 30_000_000].map(|b| chosen(&preset::m2_fast(4), b)).into();
    // What fits into a frame goes down the control tree: M2's cards have no limit, so that fewer hops are better.
    assert_eq!(all, ["mob", "mob", "magpie", "optimal-trees", "optimal-trees", "optimal-trees"]);
}

/// Far apart a link's window opens slowly: many connections of `mob`, on which little goes, are better than one of a tree until the object is
/// large.
#[test]
fn between_far_clusters_it_is_the_best() {
    let mut far = preset::m2_fast(16);
    let links: Vec<_> = far.wan_links().collect();
    for (from, to, link) in links {
        far.link(from, to, WanLink { one_way_delay_ns: 50_000_000, ..link }).expect("the clusters are there");
    }
    let all: Vec<&str> = [100_000, 500_000, 2_000_000].map(|bytes| chosen(&far, bytes)).into();
    assert_eq!(all, ["mob", "mob", "optimal-trees"]);
}

/// Sixteen nodes in each cluster could send over each link between clusters at the same time. Fewer do, or a piece would be long on its way.
#[test]
fn between_large_clusters_it_is_the_best() {
    let all: Vec<&str> = [500_000, 2_000_000].map(|bytes| chosen(&preset::m2_fast(16), bytes)).into();
    assert_eq!(all, ["optimal-trees", "optimal-trees"]);
}

/// A scenario knows whether its links will stay as they are.
#[test]
fn what_takes_long_goes_down_trees_where_links_are_known_to_stay_as_they_are() {
    assert_eq!(chosen(&preset::m2_fast(2), 130_000_000), "optimal-trees");
}
