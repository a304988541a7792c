//! A large group: `cargo run --release --example scale [nodes per cluster] [clusters] [pieces] [seed] [KiB of a piece]`. How far it is, it
//! says every 0.2 s of virtual time.
#![allow(clippy::disallowed_types, reason = "an example measures real time")]

use mobcast_sim::experiment::Experiment;
use mobcast_topology::{Cluster, ClusterIndex, Scenario, optimum, preset};

fn main() {
    let argument = |i: usize, default: u64| std::env::args().nth(i).map_or(default, |a| a.parse().expect("a number"));
    let (nodes, clusters, pieces, seed) = (argument(1, 125), argument(2, 8), argument(3, 1000), argument(4, 1));
    let piece = argument(5, 1024) << 10;
    let template = Cluster::new("", nodes as u32).with_nic(125_000_000);
    let topology = preset::full_mesh(clusters as u32, &template, 100_000_000, 10_000_000);
    let best = optimum(&topology, ClusterIndex(0)).rate_bytes_per_s.expect("network cards bind");
    let bytes = pieces * piece;
    let mut experiment = Experiment::new(Scenario::steady(topology), bytes, seed);
    experiment.piece_size = Some(piece as u32);
    experiment.settings.check_every = 0;
    experiment.settings.chunk_bytes_max = 1 << 20;
    let started = std::time::Instant::now();
    let mut next = 0;
    let outcome = experiment.run_watched(|world, _| {
        let now = world.network.now();
        if now.0 >= next {
            next = now.0 + 200_000_000;
            let joined = world.machines.iter().filter(|machine| machine.node.assignment().is_some()).count();
            let (complete, real) = (world.completions(), started.elapsed());
            eprintln!("{:.2} s: {joined} joined, {complete} complete; {real:.0?} of real time", now.as_secs_f64());
        }
    });
    let rate = outcome.throughput_bytes_per_s(bytes);
    println!("{:.2} MB/s of {:.2} ({:.3})", rate / 1e6, best as f64 / 1e6, rate / best as f64);
    println!("copies {:.4?} control {:.4} wan control {:.4}", outcome.wan_copies, outcome.control, outcome.wan_control);
    println!("{} steps in {:.1?}, end {:?}, stuck {:?}", outcome.steps, started.elapsed(), outcome.end, outcome.stuck);
    println!("trace {:016x}", outcome.trace_hash);
    assert!(outcome.stuck.is_none(), "not everybody has everything");
}
