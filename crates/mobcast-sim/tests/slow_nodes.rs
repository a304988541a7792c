//! One node that is slow, or whose disk stalls, delays nobody else. Each experiment is held against the same one, with the
//! same seeds, without that node, or where it is well, if that takes longer; time is virtual, so the comparison is exact.

use mobcast_proto::{BroadcastId, Duration, Time};
use mobcast_sim::network::{Network, NodeIndex, Settings as NetworkSettings};
use mobcast_sim::world::{Settings, World};
use mobcast_topology::{Cluster, ClusterIndex, Topology, preset};

mod support;

use support::descriptor;

const MB: u64 = 1_000_000;
/// The network card of every other node, bytes per second.
const NIC: u64 = 50 * MB;
/// Others may be late by this much, in percent.
const DELAY_PERCENT_MAX: f64 = 5.0;
const SEEDS: u64 = 6;

/// What is the matter with the last node.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// It does not exist.
    Absent,
    /// Nothing.
    None,
    /// Its card has 5 % of the others' rate.
    SlowNetwork,
    /// Its disk stores nothing for 5 s from the middle of the transfer on.
    StalledDisk { from: Time },
}

/// Which network: clusters, and the place of the node in trouble among them.
#[derive(Clone, Copy, Debug)]
struct Place {
    nodes: [u32; 2],
    wan: u64,
    cluster: u32,
    object: u64,
}

/// Within one switch, where cards bind; across a WAN, which binds, with the node on either side.
const PLACES: [Place; 4] = [
    Place { nodes: [8, 0], wan: MB, cluster: 0, object: 600 * MB },
    Place { nodes: [4, 8], wan: 10 * MB, cluster: 0, object: 200 * MB },
    Place { nodes: [4, 8], wan: 10 * MB, cluster: 1, object: 200 * MB },
    Place { nodes: [6, 6], wan: 100 * MB, cluster: 1, object: 600 * MB },
];

#[test]
fn a_node_at_5_percent_of_the_others_rate_delays_nobody() {
    compare(&[|_| Trouble::SlowNetwork]);
}

#[test]
fn a_disk_that_stalls_for_5_seconds_delays_nobody() {
    compare(&[|time| stalled_after(time, 1), |time| stalled_after(time, 2), |time| stalled_after(time, 3)]);
}

fn stalled_after(undisturbed: Time, quarters: u64) -> Trouble {
    Trouble::StalledDisk { from: Time(undisturbed.0 * quarters / 4) }
}

/// The others complete with the node in trouble about when they do without it: over some seeds, because which pieces meet
/// where is chance.
fn compare(troubles: &[fn(Time) -> Trouble]) {
    let mut late = Vec::new();
    for place in &PLACES {
        let all = |trouble| (0..SEEDS).map(|seed| last_of_others(place, seed, trouble).0).sum::<u64>() / SEEDS;
        let (absent, well) = (all(Trouble::Absent), all(Trouble::None));
        let undisturbed = absent.max(well);
        for trouble in troubles.iter().map(|trouble| trouble(Time(undisturbed))) {
            let with = all(trouble);
            let percent = with as f64 * 100.0 / undisturbed as f64;
            let [absent, well, with] = [absent, well, with].map(|ns| format!("{:.2} s", ns as f64 / 1e9));
            let what =
                format!("{place:?}, {trouble:?}: {with}, {percent:.1} %; {absent} without it, {well} if it is well");
            println!("{what}");
            if percent > 100.0 + DELAY_PERCENT_MAX {
                late.push(what);
            }
        }
    }
    assert!(late.is_empty(), "the others are late:\n{}", late.join("\n"));
}

/// When the last node that is not in trouble is complete.
fn last_of_others(place: &Place, seed: u64, trouble: Trouble) -> Time {
    let settings = NetworkSettings { report_drained: true, ..NetworkSettings::default() };
    // A driver sends in smaller chunks where the link is slow.
    let machines = Settings { seed, check_every: 10_000, chunk_bytes_max: 64 << 10, ..Settings::default() };
    let mut world = World::new(Network::new(&topology(place), settings), machines);
    for (cluster, count) in (0..).zip(place.nodes) {
        for _ in 0..count {
            world.start_machine(ClusterIndex(cluster), Some(format!("c{cluster}")));
        }
    }
    let others = world.machines.len();
    if !matches!(trouble, Trouble::Absent) {
        let node = world.start_machine(ClusterIndex(place.cluster), Some(format!("c{}", place.cluster)));
        if let Trouble::SlowNetwork = trouble {
            world.network.set_nic(node, Some(NIC / 20), Some(NIC / 20));
        }
    }
    let id = world.broadcast(NodeIndex(0), descriptor(place.object, 256 << 10), None);
    let done = |world: &World| world.machines[..others].iter().all(|machine| machine.seen.complete.contains_key(&id));
    while !done(&world) {
        assert!(world.network.now() < Time(600_000_000_000), "{place:?}, seed {seed}, {trouble:?}: it hangs");
        if let Trouble::StalledDisk { from } = trouble
            && world.network.now() >= from
            && world.machines[others].disk_stalls_until == Time::ZERO
        {
            world.machines[others].disk_stalls_until = world.network.now() + Duration::from_secs(5);
        }
        world.step().expect("timers never end");
    }
    last(&world, others, id)
}

fn last(world: &World, others: usize, id: BroadcastId) -> Time {
    world.machines[..others].iter().map(|machine| machine.seen.complete[&id]).max().expect("there are others")
}

fn topology(place: &Place) -> Topology {
    // Two clusters also where the second stays empty: nodes are started by hand.
    preset::full_mesh(2, &Cluster::new("", 1).with_nic(NIC), place.wan, 10_000_000)
}
