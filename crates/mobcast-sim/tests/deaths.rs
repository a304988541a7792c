//! What the root's death must not do: harm those who were promised that it may leave.

use mobcast_proto::content::object::{Descriptor, FileMeta, ObjectKind};
use mobcast_proto::{BroadcastId, Time};
use mobcast_sim::network::{Network, NodeIndex, Settings as NetworkSettings, Stop};
use mobcast_sim::world::{Settings, World};
use mobcast_topology::{Cluster, ClusterIndex, preset};

const MB: u64 = 1_000_000;
/// Everything here is over within seconds.
const NEVER: Time = Time(120_000_000_000);

/// Nodes in these clusters, one after the other.
fn world(seed: u64, clusters: &[u32]) -> World {
    let topology = preset::full_mesh(2, &Cluster::new("", 1).with_nic(10 * MB), 10 * MB, 1_000_000);
    let network = NetworkSettings { report_drained: true, ..NetworkSettings::default() };
    let mut world = World::new(Network::new(&topology, network), Settings { seed, ..Settings::default() });
    for &cluster in clusters {
        join(&mut world, cluster);
    }
    world
}

fn join(world: &mut World, cluster: u32) -> NodeIndex {
    world.start_machine(ClusterIndex(cluster), Some(format!("c{cluster}")))
}

fn descriptor(length: u64) -> Descriptor {
    Descriptor {
        kind: ObjectKind::Synthetic { seed: 0 },
        name: b"object".to_vec(),
        meta: FileMeta::default(),
        length: Some(length),
        index_length: 0,
        piece_size: 128 << 10,
        strategy: "mob".into(),
    }
}

#[track_caller]
fn run_until(world: &mut World, what: &str, done: impl Fn(&World) -> bool) {
    while !done(world) {
        assert!(world.network.now() < NEVER, "{what}: not by {NEVER:?}");
        world.step().expect("timers never end");
    }
}

fn is_complete(world: &World, node: usize, id: BroadcastId) -> bool {
    world.machines[node].seen.complete.contains_key(&id)
}

/// A newcomer in the root's own cluster, which imports nothing while the root is there, finds all it lacks in the other
/// one.
#[test]
fn what_the_root_cluster_lacks_when_the_root_dies_comes_from_others() {
    for seed in 0..5 {
        let mut world = world(seed, &[0, 1, 1]);
        let id = world.broadcast(NodeIndex(0), descriptor(10 * MB), None);
        run_until(&mut world, "may leave", |world| world.machines[0].seen.may_leave.contains_key(&id));
        let late = join(&mut world, 0);
        run_until(&mut world, "hears", |world| world.machines[late.0 as usize].seen.announced.contains(&id));
        world.stop_machine(NodeIndex(0), Stop::Reset);
        run_until(&mut world, &format!("seed {seed}"), |world| is_complete(world, late.0 as usize, id));
    }
}
