//! Groups whose members take each other's word: no signatures for what they broadcast.

mod support;

use mobcast_sim::network::NodeIndex;
use mobcast_sim::world::World;
use mobcast_topology::ClusterIndex;
use support::{descriptor, run_until, seconds, start, unstarted};

const NODES: [u32; 2] = [5, 4];

/// Signatures that are made for broadcasts of one object in one frame, and of one in pieces.
fn signatures(trusts: bool) -> (u64, u64) {
    let mut world = unstarted(&NODES, 7);
    if trusts {
        world.found_in_trust();
    }
    start(&mut world, &NODES);
    let nodes = NODES.iter().sum::<u32>() as usize;
    run_until(&mut world, seconds(20.0), |world| world.machines[0].node.members().len() == nodes);
    let settled = world.network.now() + mobcast_proto::Duration::from_secs(2);
    run_until(&mut world, seconds(30.0), |world| world.network.now() >= settled);
    let before = world.signatures();
    assert!(before > 0, "who is a member is always signed");
    deliver(&mut world, 1000, Some(vec![5; 1000]));
    let between = world.signatures();
    deliver(&mut world, 3_000_000, None);
    (between - before, world.signatures() - between)
}

fn deliver(world: &mut World, bytes: u64, whole: Option<Vec<u8>>) {
    let id = world.broadcast(NodeIndex(0), descriptor(bytes, 64 << 10), whole);
    let all = |world: &World| world.machines.iter().all(|machine| machine.seen.released.contains_key(&id));
    run_until(world, world.network.now() + mobcast_proto::Duration::from_secs(30), all);
    assert!(world.machines.iter().all(|machine| machine.seen.complete.contains_key(&id)), "everybody has it");
}

#[test]
fn what_members_broadcast_is_signed_unless_they_trust_each_other() {
    let (small, large) = signatures(false);
    // Description, hashes, release, and a report of each receiver at least.
    assert!(small >= 3 + 8 && large >= 3 + 8, "{small} {large}");
    assert_eq!(signatures(true), (0, 0));
}

#[test]
fn a_newcomer_takes_part_in_what_nobody_has_signed() {
    let mut world = unstarted(&NODES, 7);
    world.found_in_trust();
    start(&mut world, &NODES);
    let nodes = NODES.iter().sum::<u32>() as usize;
    run_until(&mut world, seconds(20.0), |world| world.machines[0].node.members().len() == nodes);
    let id = world.broadcast(NodeIndex(0), descriptor(30_000_000, 64 << 10), None);
    world.start_machine(ClusterIndex(1), Some("c1".to_owned()));
    let all = |world: &World| world.machines.iter().all(|machine| machine.seen.complete.contains_key(&id));
    let deadline = world.network.now() + mobcast_proto::Duration::from_secs(30);
    run_until(&mut world, deadline, all);
    assert_eq!(world.machines.len(), nodes + 1);
}
