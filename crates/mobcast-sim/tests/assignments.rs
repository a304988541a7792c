//! Assignments reach members, also when links break under them.

use mobcast_proto::Duration;
use mobcast_proto::content::slots::SlotSet;
use mobcast_proto::limits::SLOTS;
use mobcast_sim::network::{NodeIndex, Stop};
use mobcast_sim::world::World;
use mobcast_topology::{ClusterIndex, LinkRef};

mod support;

use support::{group, pause};

/// The shares of the second cluster's members, by their own word: how many slots, and how many of them are different ones.
fn shares(world: &World) -> (usize, usize) {
    let mut all = SlotSet::none();
    let mut count = 0;
    for (i, machine) in world.machines.iter().enumerate() {
        let index = NodeIndex(i as u32);
        if world.network.cluster(index) == ClusterIndex(1) && world.network.is_running(index) {
            let slots = &machine.node.assignment().expect("it was admitted").slots;
            count += slots.count();
            all.union(slots);
        }
    }
    (count, all.count())
}

/// What becomes of a dead member's share is told over the first link into its cluster, which dies meanwhile: nothing comes over it for twelve
/// seconds, and ten are taken for a death.
#[test]
fn a_share_that_is_lost_with_a_link_is_given_again_over_the_next_one() {
    let mut world = group(&[2, 6], 1);
    let there = LinkRef::Wan { from: ClusterIndex(0), to: ClusterIndex(1) };
    pause(&mut world, Duration::from_secs(3));
    assert_eq!(shares(&world), (SLOTS, SLOTS));
    world.network.set_rate(there, Some(0)).expect("there is such a link");
    world.stop_machine(NodeIndex(7), Stop::Reset);
    pause(&mut world, Duration::from_secs(12));
    world.network.set_rate(there, Some(5_000_000)).expect("there is such a link");
    assert_ne!(shares(&world), (SLOTS, SLOTS), "nobody has heard of it");
    pause(&mut world, Duration::from_secs(2));
    assert_eq!(shares(&world), (SLOTS, SLOTS));
}

/// What newcomers say of their places is lost with the links over which it goes up.
#[test]
fn newcomers_whose_first_word_is_lost_stay_members() {
    let mut world = group(&[2, 4], 1);
    pause(&mut world, Duration::from_secs(3));
    for _ in 0..8 {
        world.start_machine(ClusterIndex(1), Some("c1".into()));
    }
    while world.machines[0].node.members().len() < 14 {
        world.step().expect("timers never end");
    }
    pause(&mut world, Duration::from_millis(3));
    let broken: usize = (2..6).map(|other| world.cut_links(NodeIndex(0), NodeIndex(other))).sum();
    assert!(broken > 0, "there were links");
    pause(&mut world, Duration::from_secs(15));
    assert_eq!(world.machines[0].node.members().len(), 14);
    assert_eq!(shares(&world), (SLOTS, SLOTS));
}
