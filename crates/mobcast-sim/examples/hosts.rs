//! Hosts with cards of 10 Gbit/s in one cluster, over time: who has joined, how much of their cards is used, how much has left the
//! root. `cargo run --release --example hosts [hosts] [MB] [KiB of a piece] [seed] [ms between lines]`.
#![allow(clippy::disallowed_types, reason = "an example measures real time")]

use mobcast_proto::BroadcastId;
use mobcast_sim::experiment::{Experiment, Outcome};
use mobcast_sim::network::NodeIndex;
use mobcast_sim::world::World;
use mobcast_topology::{Cluster, Scenario, preset};

const CARD_BYTES_PER_S: u64 = 1_250_000_000;
/// What a card carries of payload in packets of 1,500 bytes.
const PAYLOAD_BYTES_PER_S: f64 = CARD_BYTES_PER_S as f64 * 1448.0 / 1500.0;

fn main() {
    let argument = |i: usize, default: u64| std::env::args().nth(i).map_or(default, |a| a.parse().expect("a number"));
    let (hosts, megabytes, piece_kib, seed) =
        (argument(1, 300), argument(2, 2_000), argument(3, 4_096), argument(4, 1));
    let interval_ns = argument(5, 200) * 1_000_000;
    let topology = preset::full_mesh(1, &Cluster::new("", hosts as u32).with_nic(CARD_BYTES_PER_S), 1, 0);
    let bytes = megabytes * 1_000_000;
    let mut experiment = Experiment::new(Scenario::steady(topology), bytes, seed);
    experiment.piece_size = Some((piece_kib << 10) as u32);
    experiment.settings.check_every = 0;
    experiment.settings.chunk_bytes_max = (piece_kib << 10) as u32;
    let started = std::time::Instant::now();
    let (mut next, mut before) = (0, [0, 0]);
    let outcome = experiment.run_watched(|world, id| {
        let now = world.network.now().0;
        if now >= next {
            next = (now / interval_ns + 1) * interval_ns;
            before = line(world, id, before, interval_ns as f64 / 1e9, bytes);
        }
    });
    summary(&outcome, bytes);
    let deliveries = (hosts * bytes.div_ceil(piece_kib << 10)) as f64;
    let seconds = started.elapsed().as_secs_f64();
    println!("{} steps in {seconds:.1} s, {:.1} µs for a host and piece", outcome.steps, seconds * 1e6 / deliveries);
}

/// Prints how things stand, and returns what all have received and the root has sent.
fn line(world: &World, id: BroadcastId, before: [u64; 2], seconds: f64, bytes: u64) -> [u64; 2] {
    let traffic = |i: usize| world.network.node_traffic(NodeIndex(i as u32));
    let hosts = world.machines.len();
    let received: u64 = (1..hosts).map(|i| traffic(i).lan_in.payload_bytes).sum();
    let sent = traffic(0).lan_out.payload_bytes;
    let joined = world.machines.iter().filter(|machine| machine.node.assignment().is_some()).count();
    let pieces = |i: usize| world.machines[i].node.progress(id).map_or(0, |progress| progress.pieces);
    let fewest = (1..hosts).map(pieces).min().unwrap_or(0);
    let part = |bytes: u64| bytes as f64 / seconds / PAYLOAD_BYTES_PER_S;
    println!(
        "{:.2} s: {joined} joined, {} complete, fewest pieces {fewest}; cards in use {:.3}, the root's {:.3}; it sent {:.3} copies",
        world.network.now().as_secs_f64(),
        world.completions(),
        part(received - before[0]) / (hosts - 1) as f64,
        part(sent - before[1]),
        sent as f64 / bytes as f64,
    );
    [received, sent]
}

fn summary(outcome: &Outcome, bytes: u64) {
    let mut times: Vec<f64> = outcome.complete.iter().skip(1).flatten().map(|at| at.as_secs_f64()).collect();
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    let fraction = bytes as f64 / at(1.0) / PAYLOAD_BYTES_PER_S;
    println!(
        "complete: half {:.3} s, 99 % {:.3} s ({:.3} of it), last {:.3} s: {fraction:.3} of a card",
        at(0.5),
        at(0.99),
        at(0.99) / at(0.5),
        at(1.0)
    );
    assert!(outcome.stuck.is_none(), "not everybody has everything: {:?}", outcome.stuck);
}
