//! The coordinator's role passes on: whenever it dies, whatever it has just done, survivors complete or give up, and
//! the results are collected. Virtual time, seeds, the shipped protocol.

mod support;

use mobcast_proto::{BroadcastId, Duration, NodeId};
use mobcast_sim::network::{NodeIndex, Stop};
use mobcast_sim::world::World;
use mobcast_topology::{ClusterIndex, LinkRef};

use support::{descriptor, group, pause, run_until, seconds};

const MB: u64 = 1_000_000;

/// What must hold of everyone who was in the group and lives: it has the object, or has given up; and it may go.
fn settled(world: &World, id: BroadcastId) -> bool {
    let living = |i: &usize| world.network.is_running(NodeIndex(*i as u32));
    (0..world.machines.len()).filter(living).all(|i| {
        let machine = &world.machines[i];
        let member = machine.node.assignment().is_some();
        let done = machine.seen.released.contains_key(&id) && machine.seen.complete.contains_key(&id);
        !member || done || machine.seen.failed.contains_key(&id)
    })
}

#[test]
fn the_successor_collects_the_results_of_a_transfer_whose_root_has_left() {
    for (seed, stop) in (0..6).flat_map(|seed| [(seed, Stop::Reset), (seed, Stop::Silent)]) {
        let mut world = group(&[4, 4, 4], seed);
        let id = world.broadcast(NodeIndex(0), descriptor(20 * MB, 64 << 10), None);
        run_until(&mut world, seconds(60.0), |world| world.machines[0].seen.may_leave.contains_key(&id));
        let died = world.network.now();
        world.stop_machine(NodeIndex(0), stop);
        run_until(&mut world, seconds(200.0), |world| settled(world, id));
        let failed = world.machines[1..].iter().filter(|machine| machine.seen.failed.contains_key(&id)).count();
        assert_eq!(failed, 0, "seed {seed}, {stop:?}");
        let coordinators: Vec<usize> =
            (1..12).filter(|&i| world.machines[i].seen.coordinator_since.is_some()).collect();
        assert_eq!(coordinators.len(), 1, "seed {seed}, {stop:?}");
        let results = &world.machines[coordinators[0]].seen.results;
        let collected = (1..12).filter(|&node| results.get(&(id, NodeId(node))) == Some(&true)).count();
        assert_eq!(collected, 11, "seed {seed}, {stop:?}: {results:?}");
        let pause = world.network.now().since(died);
        println!("seed {seed}, {stop:?}: over {pause} after the root's death");
    }
}

#[test]
fn whenever_the_coordinator_dies_nobody_hangs() {
    let mut told = 0;
    for step in 0..60 {
        let stop = if step % 2 == 0 { Stop::Reset } else { Stop::Silent };
        let mut world = group(&[3, 5, 4], step);
        let id = world.broadcast(NodeIndex(0), descriptor(10 * MB, 64 << 10), None);
        pause(&mut world, Duration::from_millis(5 + 50 * step));
        let may_leave = world.machines[0].seen.may_leave.contains_key(&id);
        world.stop_machine(NodeIndex(0), stop);
        run_until(&mut world, seconds(200.0), |world| settled(world, id));
        let complete = world.machines[1..].iter().filter(|machine| machine.seen.complete.contains_key(&id)).count();
        println!(
            "step {step}, {stop:?}: may leave {may_leave}, {complete} complete, over at {:?}",
            world.network.now()
        );
        assert!(!may_leave || complete == 11, "step {step}: the root had been told that it may leave");
        told += u32::from(may_leave);
    }
    assert!((1..60).contains(&told), "the root dies before it may and after that: {told} times after");
}

#[test]
fn a_broadcast_of_a_member_survives_the_coordinator_and_its_successor() {
    for seed in 0..20u64 {
        let mut world = group(&[4, 4, 4], seed);
        run_until(&mut world, seconds(5.0), |world| world.machines.iter().all(|m| m.node.assignment().is_some()));
        pause(&mut world, Duration::from_secs(1));
        let id = world.broadcast(NodeIndex(7), descriptor(40 * MB, 64 << 10), None);
        pause(&mut world, Duration::from_millis(100 * (1 + seed % 7)));
        world.stop_machine(NodeIndex(0), Stop::Reset);
        pause(&mut world, Duration::from_millis(500 * (1 + seed)));
        world.stop_machine(NodeIndex(1), Stop::Reset);
        // The word that all is over may be on its way; in this time nobody takes over.
        pause(&mut world, Duration::from_secs(1));
        let over = (2..12).all(|i| world.machines[i].seen.released.contains_key(&id));
        run_until(&mut world, seconds(200.0), |world| {
            (2..12).all(|i| world.machines[i].seen.released.contains_key(&id))
        });
        assert!((2..12).all(|i| world.machines[i].seen.complete.contains_key(&id)), "seed {seed}");
        let successor = &world.machines[2].seen;
        assert!(over || successor.coordinator_since.is_some(), "seed {seed}: the second successor has taken over");
    }
}

#[test]
fn coordinator_and_first_successor_may_die_together() {
    for (seed, stop) in (0..6).flat_map(|seed| [(seed, Stop::Reset), (seed, Stop::Silent)]) {
        let mut world = group(&[4, 4], seed);
        let id = world.broadcast(NodeIndex(0), descriptor(20 * MB, 64 << 10), None);
        run_until(&mut world, seconds(60.0), |world| {
            (2..8).all(|i| world.machines[i].seen.complete.contains_key(&id))
                || world.machines[0].seen.may_leave.contains_key(&id)
        });
        world.stop_machine(NodeIndex(0), stop);
        world.stop_machine(NodeIndex(1), stop);
        run_until(&mut world, seconds(200.0), |world| settled(world, id));
        // Of the two holders that each piece has, one is left.
        assert!((2..8).all(|i| world.machines[i].seen.complete.contains_key(&id)), "seed {seed}, {stop:?}");
    }
}

#[test]
fn receivers_are_told_when_a_root_that_is_not_the_coordinator_dies_too_early() {
    for stop in [Stop::Reset, Stop::Silent] {
        let mut world = group(&[4, 4], 1);
        run_until(&mut world, seconds(5.0), |world| world.machines.iter().all(|m| m.node.assignment().is_some()));
        pause(&mut world, Duration::from_secs(1));
        let id = world.broadcast(NodeIndex(5), descriptor(100 * MB, 64 << 10), None);
        pause(&mut world, Duration::from_millis(700));
        world.stop_machine(NodeIndex(5), stop);
        let others = [0usize, 1, 2, 3, 4, 6, 7];
        run_until(&mut world, seconds(60.0), |world| {
            others.iter().all(|&i| world.machines[i].seen.failed.contains_key(&id))
        });
        for i in others {
            let reason = &world.machines[i].seen.failed[&id];
            assert!(reason.contains("pieces are missing"), "{reason}");
        }
        println!("{stop:?}: given up at {:?}", world.network.now());
    }
}

#[test]
fn a_coordinator_that_only_some_have_lost_is_not_replaced() {
    // Node 1 is the first successor; cutting its link for less than the pause must not depose anyone.
    let mut world = group(&[3, 3], 4);
    let id = world.broadcast(NodeIndex(0), descriptor(30 * MB, 64 << 10), None);
    pause(&mut world, Duration::from_millis(400));
    world.cut_links(NodeIndex(0), NodeIndex(1));
    run_until(&mut world, seconds(120.0), |world| settled(world, id));
    assert!(world.machines.iter().all(|machine| machine.seen.coordinator_since.is_none()));
    assert!(world.machines[1..].iter().all(|machine| machine.seen.complete.contains_key(&id)));
}

#[test]
fn an_object_of_one_frame_reaches_everyone_although_the_coordinator_dies_meanwhile() {
    for step in 0..20u64 {
        let mut world = group(&[4, 4, 4], step);
        run_until(&mut world, seconds(5.0), |world| world.machines.iter().all(|m| m.node.assignment().is_some()));
        pause(&mut world, Duration::from_secs(1));
        let id = world.broadcast(NodeIndex(6), descriptor(100, 16 << 10), Some(vec![7; 100]));
        pause(&mut world, Duration::from_millis(3 * step));
        world.stop_machine(NodeIndex(0), Stop::Reset);
        run_until(&mut world, seconds(100.0), |world| {
            (1..12).all(|i| world.machines[i].seen.released.contains_key(&id))
        });
        assert!((1..12).all(|i| world.machines[i].seen.complete.contains_key(&id)), "step {step}");
    }
}

/// The link over which a cluster would hear that a broadcast is over stands still at that moment, and who says so goes at once: others
/// who have heard it say it, too.
#[test]
fn a_release_comes_from_any_peer_while_the_way_down_the_tree_stands_still() {
    for seed in 0..6 {
        let mut world = group(&[2, 4, 4], seed);
        let id = world.broadcast(NodeIndex(0), descriptor(5 * MB, 64 << 10), None);
        run_until(&mut world, seconds(60.0), |world| world.machines.iter().all(|m| m.seen.complete.contains_key(&id)));
        let way = LinkRef::Wan { from: ClusterIndex(0), to: ClusterIndex(1) };
        world.network.set_rate(way, Some(0)).expect("the clusters are linked");
        run_until(&mut world, seconds(61.0), |world| world.machines[0].seen.released.contains_key(&id));
        pause(&mut world, Duration::from_millis(500));
        world.stop_machine(NodeIndex(0), Stop::Reset);
        world.stop_machine(NodeIndex(1), Stop::Reset);
        let released = |world: &World, i: usize| world.machines[i].seen.released.contains_key(&id);
        assert!((2..10).all(|i| released(&world, i)), "seed {seed}: some would wait for a minute");
    }
}

/// A newcomer in the root's own cluster, which imports nothing while the root is there, finds all it lacks in the other
/// one.
#[test]
fn what_the_root_cluster_lacks_when_the_root_dies_comes_from_others() {
    for seed in 0..5 {
        let mut world = group(&[1, 2], seed);
        let id = world.broadcast(NodeIndex(0), descriptor(10 * MB, 128 << 10), None);
        run_until(&mut world, seconds(60.0), |world| world.machines[0].seen.may_leave.contains_key(&id));
        let late = world.start_machine(ClusterIndex(0), Some("c0".into()));
        run_until(&mut world, seconds(60.0), |world| world.machines[late.0 as usize].seen.announced.contains(&id));
        world.stop_machine(NodeIndex(0), Stop::Reset);
        run_until(&mut world, seconds(120.0), |world| world.machines[late.0 as usize].seen.complete.contains_key(&id));
    }
}

/// The founder stands still for longer than a silence is borne, or its links break while it does for less. Whoever had taken over follows it again,
/// all complete, it has their results, and newcomers are admitted.
#[test]
fn a_founder_that_stood_still_takes_its_group_back() {
    for seed in 0..12u64 {
        let mut world = group(&[1, 6], seed);
        let id = world.broadcast(NodeIndex(0), descriptor(30 * MB, 64 << 10), None);
        pause(&mut world, Duration::from_millis(300 + 100 * seed));
        let time = if seed % 2 == 0 { 13_000 + 500 * seed } else { 2_500 + 500 * seed };
        world.pause_machine(NodeIndex(0), Duration::from_millis(time));
        if seed % 2 == 1 {
            for other in 1..7 {
                world.cut_links(NodeIndex(0), NodeIndex(other));
            }
        }
        let led = |world: &World| world.machines.iter().any(|machine| machine.seen.coordinator_since.is_some());
        run_until(&mut world, seconds(60.0), led);
        run_until(&mut world, seconds(60.0), |world| !led(world));
        let late = world.start_machine(ClusterIndex(1), Some("c1".into()));
        let everybody = 1..=late.0;
        run_until(&mut world, seconds(120.0), |world| world.machines[0].seen.released.contains_key(&id));
        let results = &world.machines[0].seen.results;
        let complete = everybody.filter(|&node| world.machines[node as usize].seen.complete.contains_key(&id)).count();
        assert_eq!(complete, 7, "seed {seed}");
        assert_eq!(results.values().filter(|&&complete| complete).count(), 7, "seed {seed}: {results:?}");
        assert!(world.machines.iter().all(|machine| machine.seen.failed.is_empty()), "seed {seed}");
    }
}

/// A pause ends with the process that stood still: the next one's is as long as it was asked for.
#[test]
fn a_pause_ends_with_the_process() {
    let mut world = group(&[1, 3], 1);
    let node = NodeIndex(2);
    assert!(world.pause_machine(node, Duration::from_secs(10)));
    world.stop_machine(node, Stop::Reset);
    pause(&mut world, Duration::from_secs(1));
    world.restart_machine(node, Some("c1".into()));
    assert!(world.pause_machine(node, Duration::from_secs(20)));
    pause(&mut world, Duration::from_secs(15));
    assert!(world.is_standing(node), "the first pause would be over");
    pause(&mut world, Duration::from_secs(6));
    assert!(!world.is_standing(node));
}
