//! Runs the M2 network of the papers: `cargo run --release --example m2 [nodes per cluster] [MB] [seed] [strategy]`.

use mobcast_sim::experiment::Experiment;
use mobcast_topology::{Scenario, optimum, preset};

fn main() {
    let argument = |i: usize, default: u64| std::env::args().nth(i).map_or(default, |a| a.parse().expect("a number"));
    let (nodes, mb, seed) = (argument(1, 16), argument(2, 600), argument(3, 1));
    let topology = preset::m2_fast(nodes as u32);
    let best = optimum(&topology, mobcast_topology::ClusterIndex(0));
    let mut experiment = Experiment::new(Scenario::steady(topology), mb * 1_000_000, seed);
    experiment.settings.check_every = 0;
    experiment.strategy = std::env::args().nth(4).unwrap_or(experiment.strategy);
    let outcome = experiment.run();
    let rate = outcome.throughput_bytes_per_s(mb * 1_000_000);
    println!("{:.3} MB/s, optimum {best:?}", rate / 1e6);
    let total = outcome.last_complete().expect("somebody completes").as_secs_f64();
    for (from, row) in outcome.traffic.iter().enumerate() {
        let rates: Vec<String> = row.iter().map(|t| format!("{:7.3}", t.payload_bytes as f64 / 1e6 / total)).collect();
        println!("from {from}: {} MB/s", rates.join(" "));
    }
    for cluster in 0..4 {
        let times = outcome.complete.iter().skip(cluster * nodes as usize).take(nodes as usize).flatten();
        let times: Vec<f64> = times.map(|t| t.as_secs_f64()).collect();
        println!(
            "cluster {cluster} complete {:.1?} to {:.1?}",
            times.iter().cloned().fold(1e9, f64::min),
            times.iter().cloned().fold(0.0, f64::max)
        );
    }
    println!("copies {:.4?} control {:.4} wan control {:.4}", outcome.wan_copies, outcome.control, outcome.wan_control);
    println!("{} steps, end {:?}, stuck {:?}, failed {:?}", outcome.steps, outcome.end, outcome.stuck, outcome.failed);
}
