//! What the verdict finds, and how long a run may take.

use mobcast_topology::{Cluster, ClusterIndex, Topology, WanLink};

use super::*;
use crate::network::Stop;

#[test]
fn a_disk_stands_when_its_silences_together_are_longer_than_is_borne() {
    let ms = |ms: u64| Some(Time(ms * 1_000_000));
    let stands = |stalls: &[(u64, u64)]| {
        let timed = |&(at, time): &(u64, u64)| Timed {
            number: 0,
            at: Time(at * 1_000_000),
            fault: Fault::StallDisk(3, Duration::from_millis(time)),
        };
        let plan = Plan {
            seed: 0,
            topology: Topology::new(),
            broadcasts: Vec::new(),
            malicious: None,
            clocks: Vec::new(),
            slow_disks: Vec::new(),
            faults: stalls.iter().map(timed).collect(),
        };
        (plan.disk_stands(3), plan.disk_stands(4))
    };
    assert_eq!(stands(&[(124, 20_700)]), (ms(20_824), None));
    assert_eq!(stands(&[(124, 6_000)]), (None, None));
    assert_eq!(stands(&[(100, 4_000), (4_500, 4_000)]), (ms(8_500), None), "half a second apart");
    assert_eq!(stands(&[(100, 4_000), (9_000, 4_000)]), (None, None));
    assert_eq!(stands(&[(100, 8_000), (20_000, 9_000)]), (ms(8_100), None), "the first one counts");
}

/// Two clusters of three nodes; the second machine broadcasts 4 MB, which takes seconds.
fn plan(faults: &[(u64, Fault)]) -> Plan {
    let mut topology = Topology::new();
    for name in ["a", "b"] {
        topology.add_cluster(Cluster::new(name, 3).with_nic(5_000_000)).expect("names are unique");
    }
    topology.link_both(ClusterIndex(0), ClusterIndex(1), WanLink::new(1_000_000, 10_000_000)).expect("both are there");
    let broadcast = Planned {
        root: 1,
        at: Time(2_100_000_000),
        bytes: 4_000_000,
        piece_size: 32 << 10,
        strategy: "mob",
        whole: false,
    };
    let timed = |(number, (at, fault)): (usize, &(u64, Fault))| Timed {
        number,
        at: Time(at * 1_000_000),
        fault: fault.clone(),
    };
    Plan {
        seed: 1,
        topology,
        broadcasts: vec![broadcast],
        malicious: None,
        clocks: Vec::new(),
        slow_disks: Vec::new(),
        faults: faults.iter().enumerate().map(timed).collect(),
    }
}

/// A run that held, at its end.
fn ended(plan: Plan) -> (Run, BroadcastId) {
    let mut run = Run::start(plan, 0);
    run.finish().unwrap_or_else(|violation| panic!("{}{}", violation.what, violation.state));
    let id = run.ids().next().expect("it has begun");
    (run, id)
}

fn found(run: &Run) -> String {
    run.judge().expect_err("something is wrong").kind
}

#[test]
fn who_gives_up_what_it_could_have_had_is_found() {
    let (mut run, id) = ended(plan(&[]));
    run.judge().expect("all holds");
    run.world.machines[4].seen.failed.insert(id, "nobody has it".into());
    assert_eq!(found(&run), "gave up");
}

#[test]
fn who_gives_up_beside_somebody_who_has_all_is_found_although_another_one_was_out_of_sight() {
    let root_dies = (9_000, Fault::Stop(1, Stop::Silent));
    let stands = (9_500, Fault::Pause(5, Duration::from_secs(20)));
    let (mut run, id) = ended(plan(&[root_dies, stands]));
    assert!(run.roots_gone.contains(&id) && run.world.machines[3].seen.complete.contains_key(&id));
    run.world.machines[4].seen.failed.insert(id, "nobody has it".into());
    run.world.machines[4].seen.failed_at.insert(id, Time(12_000_000_000));
    run.judge().expect("nobody had all of it for long");
    run.world.machines[4].seen.failed_at.insert(id, Time(60_000_000_000));
    assert_eq!(found(&run), "gave up");
}

#[test]
fn results_that_the_new_coordinator_does_not_know_are_found() {
    let (mut run, id) = ended(plan(&[(3_000, Fault::Stop(0, Stop::Reset))]));
    assert_eq!(run.uncollected(id), None);
    run.world.machines.iter_mut().for_each(|machine| machine.seen.results.clear());
    assert_eq!(found(&run), "uncollected");
}

#[test]
fn who_never_hears_of_a_broadcast_is_found_unless_it_is_gone() {
    let (mut run, id) = ended(plan(&[]));
    assert_eq!(run.unheard(id), None);
    run.world.machines[4].seen.announced.remove(&id);
    assert_eq!(found(&run), "unheard");
    let (mut run, id) = ended(plan(&[(3_000, Fault::Stop(4, Stop::Reset))]));
    run.world.machines[4].seen.announced.remove(&id);
    run.judge().expect("nobody waits for whom is gone");
}

#[test]
fn a_run_does_not_end_before_members_have_heard_of_what_has_begun() {
    let (mut run, id) = ended(plan(&[]));
    assert_eq!(run.present[&id], (0..6).collect());
    run.world.machines[4].seen.announced.remove(&id);
    assert_eq!(run.finish().expect_err("it waits for that until the bound has passed").kind, "unheard");
}

#[test]
fn a_group_in_which_nobody_takes_over_is_found() {
    let (mut run, id) = ended(plan(&[(3_000, Fault::Stop(0, Stop::Reset))]));
    for machine in &mut run.world.machines {
        machine.seen.coordinator_since = None;
        machine.seen.released.insert(id, Time(63_000_000_000));
    }
    assert_eq!(found(&run), "uncollected");
}

#[test]
fn who_never_ends_is_found() {
    let mut run = Run::start(plan(&[]), 0);
    while run.world.network.now() < Time(3_000_000_000) {
        run.world.step();
        run.begin_broadcasts();
    }
    assert!(run.world.pause_machine(NodeIndex(4), Duration::from_secs(10_000)));
    assert_eq!(run.finish().expect_err("nobody knows of the pause").kind, "hangs");
}

#[test]
fn who_is_not_admitted_is_found() {
    let mut run = Run::start(plan(&[]), 0);
    let late = run.world.start_machine(ClusterIndex(1), Some("b".into()));
    assert!(run.world.unplug(late));
    assert_eq!(run.finish().expect_err("nobody knows that it is unplugged").kind, "outside");
}

#[test]
fn a_run_may_take_what_follows_from_its_plan() {
    let mut plan = plan(&[(500, Fault::Rate(LinkRef::Wan { from: ClusterIndex(0), to: ClusterIndex(1) }, 500_000))]);
    // 4 MB at the 500 kB/s of the slower direction are 8 s, six times.
    assert_eq!(plan.bound(), SLACK + Duration::from_secs(48));
    plan.slow_disks.push((3, Duration::from_millis(10)));
    assert_eq!(plan.bound(), SLACK + Duration::from_secs(48) + Duration::from_millis(10 * 123));
    plan.slow_disks.clear();
    plan.topology.cluster_mut(ClusterIndex(1)).expect("it is there").nodes = 10;
    plan.broadcasts[0].strategy = "flat";
    // Thirteen copies are three times as many as six.
    assert_eq!(plan.bound(), SLACK + Duration::from_secs(3 * 48));
}
