//! How long planners take: `cargo run --release -p mobcast-topology --example planning`. Networks are full meshes with rates that
//! follow from a seed, without and with access links that bind; of five networks the middle one and the worst.

use std::time::Instant;

use mobcast_topology::packing::{PackedTree, arborescences, balanced, fpfr, total_rate_bytes_per_s};
use mobcast_topology::{Cluster, ClusterIndex, Topology, WanLink};

/// A planner with its name.
type Planner = (&'static str, fn(&Topology, ClusterIndex) -> Vec<PackedTree>);

const PLANNERS: [Planner; 3] = [("fpfr", fpfr), ("balanced", balanced), ("optimal-trees", arborescences)];
const NETWORKS: u64 = 5;
/// Rates are drawn up to this, in bytes per second.
const RATE_MAX: u64 = 10_000_000;

fn main() {
    println!("| clusters | access links | planner | trees | MB/s | ms, middle | ms, most |");
    println!("|--:|---|---|--:|--:|--:|--:|");
    for clusters in [4, 10, 25, 50] {
        for with_access in [false, true] {
            for (name, plan) in PLANNERS {
                let mut runs: Vec<(f64, usize, u64)> = (0..NETWORKS)
                    .map(|seed| {
                        let topology = mesh(clusters, with_access, seed);
                        let start = Instant::now();
                        let trees = plan(&topology, ClusterIndex(0));
                        (start.elapsed().as_secs_f64() * 1e3, trees.len(), total_rate_bytes_per_s(&trees))
                    })
                    .collect();
                runs.sort_by(|a, b| a.0.total_cmp(&b.0));
                let (middle, worst) = (runs[runs.len() / 2], runs[runs.len() - 1].0);
                let bind = if with_access { "bind" } else { "none" };
                let (ms, trees, rate) = middle;
                println!(
                    "| {clusters} | {bind} | {name} | {trees} | {:.2} | {ms:.1} | {worst:.1} |",
                    rate as f64 / 1e6
                );
            }
        }
    }
}

fn mesh(clusters: u32, with_access: bool, seed: u64) -> Topology {
    let mut numbers = Numbers(seed);
    let mut topology = Topology::new();
    for number in 0..clusters {
        let mut cluster = Cluster::new(format!("C{number}x"), 4);
        if with_access {
            cluster.access_out_bytes_per_s = Some(if number == 0 { RATE_MAX } else { numbers.next() });
        }
        topology.add_cluster(cluster).expect("names differ");
    }
    for from in topology.indices() {
        for to in topology.indices().filter(|to| *to != from) {
            topology.link(from, to, WanLink::new(numbers.next(), 10_000_000)).expect("both are there");
        }
    }
    topology
}

/// Rates from a seed: splitmix64 (Steele, Lea, Flood 2014).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        1 + (mixed ^ (mixed >> 31)) % RATE_MAX
    }
}
