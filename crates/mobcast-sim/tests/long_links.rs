//! Fast links of 90 to 220 ms to and fro: what is on its way over them is more than a node may have open, and more than many
//! pieces. Every experiment follows from its seed.

use mobcast_sim::experiment::{Experiment, Outcome};
use mobcast_topology::{Cluster, ClusterIndex, Scenario, Topology, WanLink, optimum};

const MB: u64 = 1_000_000;
const MS: u64 = 1_000_000;

/// Hosts with cards of 10 Gbit/s in three regions, as in `scenarios/topologies/three-regions.toml`.
fn regions(nodes: [u32; 3]) -> Topology {
    let mut topology = Topology::new();
    let mut cluster =
        |name: &str, nodes| topology.add_cluster(Cluster::new(name, nodes).with_nic(1_250 * MB)).expect("one of three");
    let [us, eu, ap] = [cluster("us", nodes[0]), cluster("eu", nodes[1]), cluster("ap", nodes[2])];
    for (a, b, rate, delay_ms) in [(us, eu, 625, 45), (us, ap, 375, 75), (eu, ap, 375, 110)] {
        topology.link_both(a, b, WanLink::new(rate * MB, delay_ms * MS)).expect("they exist");
    }
    topology
}

/// Seconds after which each node of the last cluster was complete.
fn complete_at(outcome: &Outcome, last: u32) -> Vec<f64> {
    let nodes = outcome.complete.iter().rev().take(last as usize);
    nodes.map(|at| at.expect("it is complete").as_secs_f64()).collect()
}

#[test]
fn three_regions_have_what_their_links_carry_once_those_have_opened() {
    let topology = regions([12, 8, 8]);
    let best = optimum(&topology, ClusterIndex(0)).payload_bytes_per_s.expect("the links bind") as f64;
    let [short, long] = [1_000, 3_000].map(|megabytes| {
        let mut experiment = Experiment::new(Scenario::steady(topology.clone()), megabytes * MB, 1);
        experiment.settings.check_every = 10_000;
        let outcome = experiment.run();
        assert_eq!(outcome.stuck, None);
        let ap = complete_at(&outcome, 8);
        let (first, last) = (ap.iter().copied().fold(f64::MAX, f64::min), ap.iter().copied().fold(0.0, f64::max));
        println!("{megabytes} MB: the nodes of the last region are complete after {first:.2} to {last:.2} s");
        assert!(last - first < 0.3, "{first:.2} to {last:.2} s: who imports much must not be behind with the rest");
        last
    });
    let rate = 2_000.0 * MB as f64 / (long - short);
    println!("2,000 MB more: {:.3} of the optimum", rate / best);
    assert!(rate >= 0.97 * best, "{:.3} of the optimum", rate / best);
}
