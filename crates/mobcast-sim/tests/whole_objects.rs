//! Objects that travel in one frame, and what is said about them.

mod support;

use mobcast_proto::{BroadcastId, Duration};
use mobcast_sim::network::NodeIndex;
use mobcast_sim::world::World;
use support::{descriptor, group, pause, run_until};

const NODES: [u32; 1] = [12];

fn results(world: &World, id: BroadcastId) -> usize {
    world.machines[0].seen.results.keys().filter(|(of, node)| *of == id && *node != id.root).count()
}

#[test]
fn reports_about_a_small_object_leave_the_way_to_the_object() {
    let mut world = group(&NODES, 7);
    pause(&mut world, Duration::from_secs(4));
    let id = world.broadcast(NodeIndex(0), descriptor(1000, 64 << 10), Some(vec![5; 1000]));
    let deadline = world.network.now() + Duration::from_secs(5);
    run_until(&mut world, deadline, |world| world.machines.iter().all(|m| m.seen.complete.contains_key(&id)));
    let early = results(&world, id);
    assert!(early <= 1, "{early} have reported before the last one has it, more than have others below them");
    run_until(&mut world, deadline, |world| world.machines.iter().all(|m| m.seen.released.contains_key(&id)));
    assert_eq!(results(&world, id), NODES[0] as usize - 1);
    let complete = world.machines.iter().map(|machine| machine.seen.complete[&id]).max();
    let waited = world.network.now().since(complete.expect("there are machines"));
    assert!(waited < Duration::from_millis(20), "over {waited:?} after the last one has it");
}
