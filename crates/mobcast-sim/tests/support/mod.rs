//! Small groups and the passing of virtual time, for the tests of the simulator.
#![allow(dead_code, reason = "each test file uses its part")]

use mobcast_proto::content::object::{Descriptor, FileMeta, ObjectKind};
use mobcast_proto::{Duration, Time};
use mobcast_sim::network::{Network, NodeIndex, Settings as NetworkSettings};
use mobcast_sim::world::{Settings, World};
use mobcast_topology::{Cluster, ClusterIndex, Topology, WanLink};

pub fn seconds(s: f64) -> Time {
    Time((s * 1e9) as u64)
}

/// A group with so many nodes in its clusters: 50 MB/s for each node, 5 MB/s and 10 ms between two clusters. Node 0
/// founds it, the others ask to be admitted at the same time.
pub fn group(nodes: &[u32], seed: u64) -> World {
    let mut world = unstarted(nodes, seed);
    start(&mut world, nodes);
    world
}

/// The same before its nodes are started.
pub fn unstarted(nodes: &[u32], seed: u64) -> World {
    let mut topology = Topology::new();
    for (i, &nodes) in nodes.iter().enumerate() {
        let cluster = Cluster::new(format!("c{i}"), nodes).with_nic(50_000_000);
        topology.add_cluster(cluster).expect("names are unique");
    }
    let link = WanLink::new(5_000_000, 10_000_000);
    for a in 0..nodes.len() as u32 {
        for b in a + 1..nodes.len() as u32 {
            topology.link_both(ClusterIndex(a), ClusterIndex(b), link).expect("clusters exist");
        }
    }
    World::new(Network::new(&topology, drained()), Settings { seed, ..Settings::default() })
}

/// Starts a group's nodes.
pub fn start(world: &mut World, nodes: &[u32]) {
    for (i, &nodes) in nodes.iter().enumerate() {
        (0..nodes).for_each(|_| {
            world.start_machine(ClusterIndex(i as u32), Some(format!("c{i}")));
        });
    }
}

pub fn drained() -> NetworkSettings {
    NetworkSettings { report_drained: true, ..NetworkSettings::default() }
}

pub fn descriptor(length: u64, piece_size: u32) -> Descriptor {
    Descriptor {
        kind: ObjectKind::Synthetic { seed: 0 },
        name: b"object".to_vec(),
        meta: FileMeta::default(),
        length: Some(length),
        index_length: 0,
        piece_size,
        strategy: "mob".into(),
    }
}

/// Steps until something holds.
///
/// # Panics
/// If it does not hold by `deadline`.
pub fn run_until(world: &mut World, deadline: Time, done: impl Fn(&World) -> bool) {
    while !done(world) {
        assert!(world.network.now() < deadline, "not done by {deadline:?}: {}", describe(world));
        world.step().expect("timers never end");
    }
}

/// Lets time pass.
pub fn pause(world: &mut World, time: Duration) {
    let until = world.network.now() + time;
    while world.network.now() < until {
        world.step().expect("timers never end");
    }
}

/// What each running machine has seen, for a test that fails.
fn describe(world: &World) -> String {
    let mut text = String::new();
    for (i, machine) in world.machines.iter().enumerate() {
        if world.network.is_running(NodeIndex(i as u32)) {
            let seen = &machine.seen;
            let parent = machine.node.assignment().and_then(|a| a.parent.as_ref().map(|p| p.node));
            text += &format!(
                "\nnode {i}: parent {parent:?}, complete {:?}, failed {:?}, released {:?}, coordinator since {:?}, results {:?}, links {}",
                seen.complete,
                seen.failed,
                seen.released,
                seen.coordinator_since,
                seen.results,
                machine.node.link_count()
            );
        }
    }
    text
}
