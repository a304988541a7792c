//! Each check finds what it is there for.

use mobcast_proto::Signature;
use mobcast_proto::content::Descriptor;
use mobcast_proto::content::object::{FileMeta, ObjectKind};
use mobcast_proto::group::report::{NodeResult, SignedReport, Traffic};
use mobcast_topology::{Cluster, ClusterIndex, Topology};

use super::*;
use crate::network::{Network, Settings as NetworkSettings};
use crate::world::Settings;

const PIECES: u32 = 16;
const PIECE: u32 = 64 << 10;
const LAST: NodeIndex = NodeIndex(2);

/// Three machines, the first of which broadcasts; the last one has some of the pieces, and not all.
fn group() -> (World, BroadcastId) {
    let mut topology = Topology::new();
    topology.add_cluster(Cluster::new("c", 3).with_nic(10_000_000)).expect("its name is the only one");
    let network = Network::new(&topology, NetworkSettings { report_drained: true, ..NetworkSettings::default() });
    let mut world = World::new(network, Settings::default());
    let machines = [(); 3].map(|()| world.start_machine(ClusterIndex(0), Some("c".into())));
    let waits = |world: &World| machines.iter().any(|&index| world.machine(index).node.assignment().is_none());
    while waits(&world) {
        world.step();
    }
    let descriptor = Descriptor {
        kind: ObjectKind::Synthetic { seed: 0 },
        name: b"object".to_vec(),
        meta: FileMeta::default(),
        length: Some(u64::from(PIECES * PIECE)),
        index_length: 0,
        piece_size: PIECE,
        strategy: "mob".into(),
    };
    let id = world.broadcast(machines[0], descriptor, None);
    while world.machine(LAST).stored(id).is_none_or(|stored| stored.count() < PIECES / 4) {
        world.step();
    }
    assert!(!world.machine(LAST).seen.complete.contains_key(&id));
    (world, id)
}

/// A piece that the last machine has, or has not.
fn piece(world: &World, id: BroadcastId, stored: bool) -> PieceIndex {
    let mut pieces = (0..PIECES).map(PieceIndex);
    pieces.find(|&piece| world.machine(LAST).holds(id, piece) == stored).expect("it has some, and not all")
}

fn have(broadcast: BroadcastId, piece: PieceIndex) -> Frame {
    Frame::Have { broadcast, batches: 1, pieces: vec![Run { first: piece, count: 1 }] }
}

#[test]
fn what_is_stored_may_be_announced_and_served() {
    let (world, id) = group();
    let stored = piece(&world, id, true);
    world.check_claims(LAST, &have(id, stored));
    world.check_held(LAST, id, stored, "serves");
}

#[test]
#[should_panic(expected = "without having stored it")]
fn an_announcement_of_what_is_not_stored() {
    let (world, id) = group();
    world.check_claims(LAST, &have(id, piece(&world, id, false)));
}

fn receipt(world: &World, broadcast: BroadcastId, piece: PieceIndex) -> Frame {
    let from = world.machine(LAST).node.id().expect("it is a member");
    let report = Report::Receipt { broadcast, pieces: vec![Run { first: piece, count: 1 }] };
    Frame::Reports { reports: vec![SignedReport { from, report, signature: Signature::default() }] }
}

#[test]
fn what_is_stored_may_be_receipted() {
    let (world, id) = group();
    world.check_claims(LAST, &receipt(&world, id, piece(&world, id, true)));
}

#[test]
#[should_panic(expected = "receipts piece")]
fn a_receipt_of_what_is_not_stored() {
    let (world, id) = group();
    world.check_claims(LAST, &receipt(&world, id, piece(&world, id, false)));
}

#[test]
#[should_panic(expected = "serves piece")]
fn serving_what_is_not_stored() {
    let (world, id) = group();
    world.check_held(LAST, id, piece(&world, id, false), "serves");
}

#[test]
#[should_panic(expected = "a forged hash of piece 1")]
fn a_forged_hash() {
    let (world, id) = group();
    world.check_hashes(LAST, id, PieceIndex(0), &[world.true_digest(id, 0), world.true_digest(id, 2)]);
}

#[test]
#[should_panic(expected = "complete without having all")]
fn completion_without_all() {
    let (world, id) = group();
    let length = u64::from(PIECES * PIECE);
    world.check_event(LAST, &Event::Complete { broadcast: id, length, object_hash: Digest([1; 32]) });
}

#[test]
#[should_panic(expected = "bytes for the 1048576")]
fn an_object_cut_short() {
    let (world, id) = group();
    world.check_event(LAST, &Event::Complete { broadcast: id, length: 0, object_hash: Digest([1; 32]) });
}

#[test]
#[should_panic(expected = "stores what is not the object")]
fn another_object_in_a_frame() {
    let (mut world, _) = group();
    let (real, other) = ([b"real", b"lies"]).map(|bytes| HashedObject::of(bytes.to_vec().into())).into();
    let id = BroadcastId { root: NodeId(0), sequence: 1 };
    world.real.extend(real.piece().map(|digest| (id, digest)));
    world.check_whole(LAST, id, &real);
    world.check_whole(LAST, id, &other);
}

#[test]
#[should_panic(expected = "is said to be complete, and is not")]
fn a_result_of_who_is_not_complete() {
    let (world, id) = group();
    let node = world.machine(LAST).node.id().expect("it is a member");
    let outcome = Ok(Digest([1; 32]));
    let result = NodeResult { broadcast: id, outcome, elapsed_us: 1, traffic: Traffic::default() };
    world.check_event(NodeIndex(0), &Event::Result { node, name: String::new(), cluster: String::new(), result });
}

#[test]
#[should_panic(expected = "may leave, and")]
fn a_root_that_may_leave_too_soon() {
    let (world, id) = group();
    world.check_event(NodeIndex(0), &Event::RootMayLeave { broadcast: id });
}

#[test]
#[should_panic(expected = "is released before node")]
fn a_release_before_all_are_done() {
    let (world, id) = group();
    world.check_event(NodeIndex(0), &Event::Released { broadcast: id });
}

#[test]
#[should_panic(expected = "bytes of frames wait at")]
fn frames_without_end() {
    let (mut world, _) = group();
    let flow = world.machine(LAST).links.keys().next().expect("it is linked");
    (0..10).for_each(|_| world.check_frames_waiting(LAST, flow, FRAMES_WAITING_BYTES_MAX as u32 / 8));
}
