//! How near `mob` comes to what a broadcast takes at least where only the nodes' own cards bind, and that no simulated run
//! is better than possible: one that beats the bound would show a network that carries too much.

use mobcast_proto::Time;
use mobcast_proto::random::mix2;
use mobcast_sim::network::{Network, NodeIndex, Settings as NetworkSettings};
use mobcast_sim::world::{Settings, World};
use mobcast_topology::bounds::{fluid_seconds, pieces_time};
use mobcast_topology::{Cluster, ClusterIndex, Topology};

mod support;

use support::descriptor;

const MB: u64 = 1_000_000;
const OBJECT: u64 = 60 * MB;
const PIECE: u32 = 32 << 10;
/// The network of the fluid model carries so much more than its capacities at most (`network.rs`).
const MODEL_ERROR: f64 = 0.01;

/// Seconds until all nodes with cards of these rates (out, in) have the object of the first one.
fn seconds(cards: &[(u64, u64)], seed: u64) -> f64 {
    let mut topology = Topology::new();
    topology.add_cluster(Cluster::new("a", 1).with_nic(MB)).expect("it is the first");
    let network = NetworkSettings { report_drained: true, ..NetworkSettings::default() };
    let machines = Settings { seed, check_every: 10_000, ..Settings::default() };
    let mut world = World::new(Network::new(&topology, network), machines);
    for (out, into) in cards {
        let node = world.start_machine(ClusterIndex(0), Some("a".to_owned()));
        world.network.set_nic(node, Some(*out), Some(*into));
    }
    let id = world.broadcast(NodeIndex(0), descriptor(OBJECT, PIECE), None);
    while !world.machines.iter().all(|machine| machine.seen.complete.contains_key(&id)) {
        assert!(world.network.now() < Time(600_000_000_000), "it hangs");
        world.step().expect("timers never end");
    }
    let last = world.machines.iter().map(|machine| machine.seen.complete[&id]).max();
    last.expect("there are machines").as_secs_f64()
}

#[test]
fn equal_cards_are_used_as_far_as_whole_pieces_allow() {
    const CARD: u64 = 10 * MB;
    // With over 16 others, nobody is linked to all.
    for (receivers, most) in [(1, 1.01), (2, 1.03), (3, 1.03), (7, 1.05), (15, 1.08), (31, 1.12)] {
        let least = pieces_time(receivers, OBJECT.div_ceil(u64::from(PIECE))) * OBJECT as f64 / CARD as f64;
        let ratio = seconds(&vec![(CARD, CARD); receivers as usize + 1], receivers) / least;
        println!("{receivers} receivers: {ratio:.3} of the least time");
        assert!(ratio > 1.0 - MODEL_ERROR, "{receivers} receivers: {ratio} of what is possible");
        assert!(ratio < most, "{receivers} receivers: {ratio}");
    }
}

#[test]
fn unlike_cards_are_used_nearly_as_far_as_a_fluid_could() {
    for seed in 0..12 {
        let rate = |what: u64, from: u64, to: u64| (from + mix2(seed, what) % (to - from)) * MB / 10;
        let receivers = 3 + mix2(seed, 0) % 10;
        // Everybody takes in more than it gives out, as at home; the root's card may be the one that binds, or not.
        let mut cards = vec![(rate(1, 40, 400), 100 * MB)];
        cards.extend((0..receivers).map(|i| (rate(10 + i, 20, 100), rate(100 + i, 100, 300))));
        let ups: Vec<u64> = cards[1..].iter().map(|(out, _)| *out).collect();
        let slowest_down = cards[1..].iter().map(|(_, into)| *into).min().expect("there are some");
        let least = fluid_seconds(OBJECT, cards[0].0, &ups, slowest_down);
        let ratio = seconds(&cards, seed) / least;
        println!("seed {seed}, {receivers} receivers: {ratio:.3} of the least time");
        assert!(ratio > 1.0 - MODEL_ERROR, "seed {seed}: {ratio} of what is possible");
        assert!(ratio < 1.08, "seed {seed}: {ratio}");
    }
}
