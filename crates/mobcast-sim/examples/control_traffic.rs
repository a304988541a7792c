//! What the protocol's own words take beside payload, in the two groups for which there is a goal:
//! `cargo run --release -p mobcast-sim --example control_traffic [MiB of the object] [seed]`. `cargo xtask bench` reads the
//! lines.

use mobcast_sim::experiment::{Experiment, Outcome};
use mobcast_topology::{Cluster, Scenario, Topology, preset};

const NIC_BYTES_PER_S: u64 = 125_000_000;

fn main() {
    let argument = |i: usize, default: u64| std::env::args().nth(i).map_or(default, |a| a.parse().expect("a number"));
    let (mebibytes, seed) = (argument(1, 256), argument(2, 1));
    let one_cluster = preset::full_mesh(1, &Cluster::new("", 16).with_nic(NIC_BYTES_PER_S), 0, 0);
    let outcome = run(one_cluster, mebibytes, 1 << 20, seed);
    println!("16 nodes, 1 MiB pieces: control by payload {:.6}", outcome.control);
    let outcome = run(preset::m2_fast(16), mebibytes, 64 << 10, seed);
    println!("64 nodes, 64 KiB pieces: control on WAN links by all bytes {:.6}", outcome.wan_control);
}

fn run(topology: Topology, mebibytes: u64, piece_size: u32, seed: u64) -> Outcome {
    let mut experiment = Experiment::new(Scenario::steady(topology), mebibytes << 20, seed);
    experiment.piece_size = Some(piece_size);
    experiment.settings.check_every = 0;
    let outcome = experiment.run();
    assert_eq!(outcome.stuck, None, "everybody has everything");
    outcome
}
