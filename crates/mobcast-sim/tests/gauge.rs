//! A group that measures its own network, in virtual time: what it finds, what the plans make of it, and what happens when those
//! who measure are gone or stand still.

use mobcast_proto::group::gauge::Measurement;
use mobcast_proto::strategy::Registry;
use mobcast_proto::strategy::overlay::Overlays;
use mobcast_proto::{Duration, Time};
use mobcast_sim::experiment::{Experiment, Outcome};
use mobcast_sim::network::{Model, Network, NodeIndex, Settings as NetworkSettings, Stop};
use mobcast_sim::run::{PACKET, PACKET_BBR};
use mobcast_sim::world::{Settings, World};
use mobcast_topology::{Cluster, Scenario, Topology, optimum, preset};

const MB: u64 = 1_000_000;

/// M2, whose nodes have cards of 12.5 MB/s.
fn m2(nodes: u32) -> Topology {
    let mut topology = preset::m2_fast(nodes);
    for index in topology.indices() {
        let cluster = topology.cluster_mut(index).expect("it is there");
        *cluster = cluster.clone().with_nic(12_500_000);
    }
    topology
}

fn broadcast(strategy: &str, topology: &Topology, model: Model) -> Outcome {
    experiment(strategy, topology, model).run()
}

fn experiment(strategy: &str, topology: &Topology, model: Model) -> Experiment {
    let mut experiment = Experiment::new(Scenario::steady(topology.clone()), 32 * MB, 1);
    experiment.strategy = strategy.into();
    (experiment.gather, experiment.measure) = (true, true);
    experiment.network.model = model;
    experiment.settings.check_every = 100;
    experiment
}

/// The measured rates of links and cards, as fractions of the true ones: the least and the greatest.
fn compare(measured: &Topology, truth: &Topology) -> (f64, f64) {
    let mut ratios: Vec<f64> = Vec::new();
    let index = |name: &str| measured.find(name).expect("clusters have the names that members said");
    let name = |index: mobcast_topology::ClusterIndex| truth.clusters()[index.as_usize()].name.as_str();
    for (from, to, link) in truth.wan_links() {
        let found = measured.wan(index(name(from)), index(name(to))).expect("each link is measured");
        ratios.extend(found.rate_bytes_per_s.zip(link.rate_bytes_per_s).map(|(a, b)| a as f64 / b as f64));
        let delay = found.one_way_delay_ns as f64 / link.one_way_delay_ns as f64;
        assert!((0.99..1.2).contains(&delay), "a delay of {delay} times the true one");
    }
    for cluster in truth.clusters() {
        let found = &measured.clusters()[index(&cluster.name).as_usize()];
        assert_eq!(found.nic_in_bytes_per_s.is_some(), cluster.nodes > 1, "only company measures cards");
        ratios.extend(found.nic_in_bytes_per_s.zip(cluster.nic_in_bytes_per_s).map(|(a, b)| a as f64 / b as f64));
    }
    ratios.sort_by(f64::total_cmp);
    (ratios[0], ratios[ratios.len() - 1])
}

/// Measures a network and broadcasts on it; returns what is reached, and what a plan that knows the network reaches, as fractions of the
/// optimum.
fn measured_and_told(topology: &Topology, model: Model, what: &str) -> (f64, f64) {
    let outcome = broadcast("optimal-trees", topology, model);
    assert_eq!((&outcome.stuck, outcome.failed.len()), (&None, 0), "{what}");
    let measured = outcome.measurement.as_ref().expect("it was measured");
    assert_eq!(measured.problems, Vec::<String>::new(), "{what}");
    let network = measured.network.as_ref().expect("everybody answers");
    let (least, greatest) = compare(network, topology);
    let (seconds, megabytes) = (measured.took.as_secs_f64(), measured.bytes / MB);
    let mut told = experiment("optimal-trees", topology, model);
    told.measure = false;
    let told = told.run().throughput_bytes_per_s(32 * MB);
    let best = optimum(topology, topology.find("A").expect("the root's")).rate_bytes_per_s.expect("it has one") as f64;
    let reached = outcome.throughput_bytes_per_s(32 * MB);
    println!(
        "{what}: {least:.3} to {greatest:.3} of the rates, {seconds:.1} s, {megabytes} MB; {:.3} of the optimum, {:.3} where told",
        reached / best,
        told / best
    );
    assert!(least > 0.9 && greatest < 1.1, "{what}: {least} to {greatest}");
    assert!(seconds < 15.0, "{what}: {seconds} s");
    // A few pieces that are very late are pulled from elsewhere.
    let imported = &outcome.wan_copies[1..];
    assert!(imported.iter().all(|copies| (1.0..1.02).contains(copies)), "{what}: {imported:?}");
    (reached / best, told / best)
}

#[test]
fn measured_rates_are_those_of_the_network_and_plans_follow_them() {
    for (what, model) in [("fluid", Model::Fluid), ("cubic", PACKET), ("bbr", PACKET_BBR)] {
        // With packets, another millisecond makes other losses: the mean of three networks counts.
        let all = [2, 3, 4].map(|nodes| measured_and_told(&m2(nodes), model, what));
        let (measured, told) = all.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        assert!(measured > 0.9 * told, "{what}: {all:?}");
    }
}

#[test]
fn what_cards_carry_is_found_where_nobody_said() {
    let outcome = broadcast("auto", &m2(2), Model::Fluid);
    let choice = outcome.choice.expect("it was left to the choice");
    assert!(choice.predicted.iter().any(|(name, _)| *name == "optimal-trees"), "{choice:?}");
    assert_eq!(outcome.stuck, None);
    let network = outcome.measurement.expect("it was measured").network.expect("everybody answers");
    let (least, greatest) = compare(&network, &m2(2));
    assert!(least > 0.9 && greatest < 1.1, "{least} to {greatest}");
}

#[test]
fn single_nodes_are_measured_by_their_roots_as_well() {
    let outcome = broadcast("balanced", &m2(1), Model::Fluid);
    let network = outcome.measurement.expect("it was measured").network.expect("everybody answers");
    assert!(network.clusters().iter().all(|cluster| cluster.nic_in_bytes_per_s.is_none()), "{network:?}");
    let (least, greatest) = compare(&network, &m2(1));
    assert!(least > 0.9 && greatest < 1.1, "{least} to {greatest}");
}

/// A group of three clusters with three nodes each, in which something happens a moment after the measurement has begun.
fn disturbed(happens: impl Fn(&mut World)) -> (Measurement, World) {
    let cluster = Cluster::new("", 3).with_nic(12_500_000);
    let topology = preset::full_mesh(3, &cluster, 3 * MB, 10_000_000);
    let network = Network::new(&topology, NetworkSettings { report_drained: true, ..NetworkSettings::default() });
    let mut world = World::new(network, Settings { seed: 1, check_every: 16, ..Settings::default() });
    let overlays = Overlays::measuring(Registry::default(), &["optimal-trees"]).expect("there is such a strategy");
    world.found_for(Registry::default(), overlays);
    for index in topology.indices() {
        let name = topology.clusters()[index.as_usize()].name.clone();
        for _ in 0..3 {
            world.start_machine(index, Some(name.clone()));
        }
    }
    run_until(&mut world, Time::ZERO + Duration::from_secs(10));
    world.measure(NodeIndex(0));
    let soon = world.network.now() + Duration::from_millis(700);
    run_until(&mut world, soon);
    happens(&mut world);
    let late = world.network.now() + Duration::from_secs(150);
    while world.machines[0].seen.measured.is_none() {
        assert!(world.network.now() < late, "the measurement hangs");
        assert!(world.step().is_some(), "nothing happens any more");
    }
    let measured = world.machines[0].seen.measured.clone().expect("looked at above");
    (measured, world)
}

fn run_until(world: &mut World, at: Time) {
    while world.network.now() < at && world.step().is_some() {}
}

fn is_whole(measured: &Measurement) -> bool {
    let links = measured.network.as_ref().map_or(0, |network| network.wan_links().count());
    (links, &measured.problems) == (6, &Vec::new())
}

#[test]
fn who_dies_while_measuring_is_replaced() {
    for victim in 1..9 {
        for stop in [Stop::Silent, Stop::Reset] {
            let (measured, _) = disturbed(|world| world.stop_machine(NodeIndex(victim), stop));
            assert!(is_whole(&measured), "{victim}: {:?}", measured.problems);
            assert!(measured.took < Duration::from_secs(40), "{victim}: {:?}", measured.took);
        }
    }
}

#[test]
fn who_stands_still_while_measuring_is_replaced() {
    for victim in [1, 4, 7] {
        let (measured, _) = disturbed(|world| assert!(world.pause_machine(NodeIndex(victim), Duration::from_secs(60))));
        assert!(is_whole(&measured), "{victim}: {:?}", measured.problems);
    }
}

#[test]
fn a_cluster_that_is_cut_off_ends_it_in_words() {
    let (measured, world) = disturbed(|world| {
        for victim in 3..6 {
            world.pause_machine(NodeIndex(victim), Duration::from_secs(300));
        }
    });
    // Those who are silent for long are members no more, and a network without their cluster is one.
    let names: Vec<&str> = world.machines[0].seen.unplanned.iter().map(String::as_str).collect();
    assert!(!measured.problems.is_empty() && measured.took < Duration::from_secs(120), "{measured:?} {names:?}");
    assert!(measured.problems.iter().all(|words| words.contains("c1")), "{:?}", measured.problems);
}

#[test]
fn the_same_seed_measures_the_same() {
    let hash = || {
        let (measured, world) = disturbed(|_| {});
        (measured, world.trace_hash())
    };
    assert_eq!(hash(), hash());
}
