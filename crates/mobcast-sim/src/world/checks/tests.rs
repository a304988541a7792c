//! Each check finds what it is there for.

use mobcast_proto::ClusterId;
use mobcast_proto::content::Descriptor;
use mobcast_proto::content::announcement::{Announcement, Whole};
use mobcast_proto::content::manifest::{Batch, End};
use mobcast_proto::content::object::{FileMeta, ObjectKind};
use mobcast_proto::group::assignment::Credential;
use mobcast_proto::group::report::{NodeResult, SignedReport, Traffic};
use mobcast_topology::{Cluster, ClusterIndex, Topology};

use super::*;
use crate::network::{Network, Settings as NetworkSettings};
use crate::world::Settings;
use crate::world::mischief::Mischief;

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
    let id = world.broadcast(machines[0], descriptor(), None);
    while world.machine(LAST).stored(id).is_none_or(|stored| stored.count() < PIECES / 4) {
        world.step();
    }
    assert!(!world.machine(LAST).seen.complete.contains_key(&id));
    (world, id)
}

fn descriptor() -> Descriptor {
    Descriptor {
        kind: ObjectKind::Synthetic { seed: 0 },
        name: b"object".to_vec(),
        meta: FileMeta::default(),
        length: Some(u64::from(PIECES * PIECE)),
        index_length: 0,
        piece_size: PIECE,
        strategy: "mob".into(),
    }
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
    world.check_frame(LAST, &have(id, stored));
    world.check_held(LAST, id, stored, "serves");
}

#[test]
#[should_panic(expected = "without having stored it")]
fn an_announcement_of_what_is_not_stored() {
    let (world, id) = group();
    world.check_frame(LAST, &have(id, piece(&world, id, false)));
}

fn receipt(world: &World, broadcast: BroadcastId, piece: PieceIndex) -> Frame {
    let from = world.machine(LAST).node.id().expect("it is a member");
    let report = Report::Receipt { broadcast, pieces: vec![Run { first: piece, count: 1 }] };
    Frame::Reports { reports: vec![SignedReport { from, report, signature: Signature::default() }] }
}

#[test]
fn what_is_stored_may_be_receipted() {
    let (world, id) = group();
    world.check_frame(LAST, &receipt(&world, id, piece(&world, id, true)));
}

#[test]
#[should_panic(expected = "receipts piece")]
fn a_receipt_of_what_is_not_stored() {
    let (world, id) = group();
    world.check_frame(LAST, &receipt(&world, id, piece(&world, id, false)));
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
    let hashes = [world.true_digest(id, 0), world.true_digest(id, 2)];
    world.check_hashes(LAST, id, PieceIndex(0), &hashes, "goes by");
}

/// A batch with the hashes of these pieces in the place of the first ones'.
fn batch(world: &World, broadcast: BroadcastId, pieces: &[u32]) -> Frame {
    let hashes: Vec<Digest> = pieces.iter().map(|&piece| world.true_digest(broadcast, piece)).collect();
    let (first, previous) = (PieceIndex(0), Digest([0; 32]));
    let batch = Batch { broadcast, piece_size: PIECE, first, previous, hashes: hashes.into(), end: None };
    Frame::Batch { batch, signature: Signature::default() }
}

#[test]
fn the_roots_hashes_may_be_passed_on() {
    let (world, id) = group();
    world.check_frame(LAST, &batch(&world, id, &[0, 1, 2]));
}

#[test]
#[should_panic(expected = "passes on a forged hash of piece 1")]
fn a_forged_hash_that_is_passed_on() {
    let (world, id) = group();
    world.check_frame(LAST, &batch(&world, id, &[0, 2]));
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

/// An object in one frame, whose manifest fits it.
fn whole(broadcast: BroadcastId, object: &HashedObject) -> Frame {
    let end = End { length: object.data().len() as u64, object_hash: object.hash() };
    let (first, previous) = (PieceIndex(0), Digest([0; 32]));
    let hashes = object.piece().into_iter().collect();
    let batch = Batch { broadcast, piece_size: PIECE, first, previous, hashes, end: Some(end) };
    let announcement = Announcement {
        cluster: ClusterId(0),
        descriptor: descriptor(),
        credential: Credential::default(),
        credential_signature: Signature::default(),
        signature: Signature::default(),
    };
    let data = object.data().clone();
    let whole = Whole { announcement, batch, batch_signature: Signature::default(), data };
    Frame::Whole { broadcast, whole: Box::new(whole) }
}

#[test]
#[should_panic(expected = "passes on what is not the object")]
fn another_object_in_a_frame_that_is_passed_on() {
    let (mut world, _) = group();
    let (real, other) = ([b"real", b"lies"]).map(|bytes| HashedObject::of(bytes.to_vec().into())).into();
    let id = BroadcastId { root: NodeId(0), sequence: 1 };
    world.real.extend(real.piece().map(|digest| (id, digest)));
    world.check_frame(LAST, &whole(id, &real));
    world.check_frame(LAST, &whole(id, &other));
}

/// The authority's word that a broadcast is over or, in its place, that its root is gone.
fn release(world: &World, broadcast: BroadcastId, domain: SignatureDomain) -> Frame {
    Frame::Release { broadcast, signature: sign(AUTHORITY, &word_of(domain, world.group, broadcast)) }
}

#[test]
fn the_authoritys_word_may_be_passed_on() {
    let (world, id) = group();
    world.check_frame(LAST, &release(&world, id, SignatureDomain::Release));
}

#[test]
#[should_panic(expected = "what the authority has not said")]
fn a_release_that_is_made_of_another_word() {
    let (world, id) = group();
    world.check_frame(LAST, &release(&world, id, SignatureDomain::RootLost));
}

#[test]
#[should_panic(expected = "what the authority has not said")]
fn a_loss_of_the_root_that_nobody_has_signed() {
    let (world, id) = group();
    world.check_frame(LAST, &Frame::RootLost { broadcast: id, signature: Signature::default() });
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
#[should_panic(expected = "is released before node")]
fn a_release_that_is_signed_before_all_are_done() {
    let (mut world, id) = group();
    world.note_signed(&word_of(SignatureDomain::Release, world.group, id));
    world.check_signed(NodeIndex(0));
}

#[test]
fn a_release_that_is_signed_again_is_for_those_who_come_late() {
    let (mut world, id) = group();
    world.said.released.insert(id);
    world.note_signed(&word_of(SignatureDomain::Release, world.group, id));
    world.check_signed(NodeIndex(0));
}

#[test]
#[should_panic(expected = "and nobody has said so")]
fn a_node_that_goes_by_itself() {
    let (world, id) = group();
    world.check_event(LAST, &Event::Released { broadcast: id });
}

#[test]
fn a_node_may_go_when_the_root_has_given_up() {
    let (mut world, id) = group();
    world.said.aborted.insert(id);
    world.check_event(LAST, &Event::Released { broadcast: id });
}

/// The last machine drops the second one.
fn drops(world: &World, what: &str) {
    let node = world.machine(NodeIndex(1)).node.id();
    world.check_event(LAST, &Event::PeerDropped { node, reason: CloseReason::Violation(what.into()) });
}

#[test]
#[should_panic(expected = "which is honest")]
fn an_honest_member_that_is_dropped() {
    let (world, _) = group();
    drops(&world, "sent a forged piece");
}

#[test]
#[should_panic(expected = "which is honest: signed its report wrongly")]
fn an_honest_member_that_is_dropped_beside_a_liar() {
    let (mut world, _) = group();
    world.machines[0].malicious = Some(Mischief::WrongPieces);
    drops(&world, "sent a forged piece");
    drops(&world, "signed its report wrongly");
}

#[test]
fn a_liar_may_be_dropped() {
    let (mut world, _) = group();
    world.machines[1].malicious = Some(Mischief::ForgedBatches);
    drops(&world, "sent a manifest batch with a wrong signature");
    world.check_valid(LAST, false);
}

#[test]
#[should_panic(expected = "does not believe an honest member")]
fn an_honest_member_that_is_not_believed() {
    let (world, _) = group();
    world.check_valid(LAST, true);
    world.check_valid(LAST, false);
}

#[test]
#[should_panic(expected = "bytes of frames wait at")]
fn frames_without_end() {
    let (mut world, _) = group();
    let flow = world.machine(LAST).links.keys().next().expect("it is linked");
    (0..10).for_each(|_| world.check_frames_waiting(LAST, flow, FRAMES_WAITING_BYTES_MAX as u32 / 8));
}
