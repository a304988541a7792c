//! What leaves the root's cluster, where its links bind: each byte too many costs time.

use mobcast_sim::experiment::Experiment;
use mobcast_topology::{ClusterIndex, Scenario, preset};

/// Payload that leaves the root's cluster, divided by the object's bytes.
fn exports(topology: mobcast_topology::Topology, object_bytes: u64, seed: u64) -> f64 {
    let outcome = Experiment::new(Scenario::steady(topology), object_bytes, seed).run();
    assert_eq!(outcome.stuck, None);
    let root = ClusterIndex(0).as_usize();
    let out: u64 = outcome.traffic[root].iter().skip(1).map(|pair| pair.payload_bytes).sum();
    out as f64 / object_bytes as f64
}

#[test]
fn hardly_a_piece_leaves_the_root_s_cluster_twice() {
    // Two of the three links out are much slower than the third one: helpers take most of a slow cluster's part.
    let mean = (0..4).map(|seed| exports(preset::m2_slow(4), 200_000_000, seed)).sum::<f64>() / 4.0;
    println!("exports {mean:.4}");
    assert!(mean <= 1.021, "{mean:.4} times the object left the root's cluster");
}
