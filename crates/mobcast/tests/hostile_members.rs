//! A member, admitted like any other, turns against the group: what it forges harms nobody, it is dropped and named,
//! and the transfer completes from the others.

mod common;
mod hostile_support;

use std::io::{PipeWriter, Write};

use common::*;
use hostile_support::{Link, Puppet, hello, is_logged, keep_log, log_end};
use mobcast::{Broadcast, BroadcastId, BroadcastOptions, EventStream, Group, GroupEvent, GroupOptions, NodeId, Source};
use mobcast_net::tls::{Expected, Identity};
use mobcast_proto::content::announcement::{Announcement, Whole};
use mobcast_proto::content::have::Run;
use mobcast_proto::content::manifest::{Batch, SignatureDomain, digest};
use mobcast_proto::limits::CHUNK_BYTES_MAX;
use mobcast_proto::wire::frame::Join;
use mobcast_proto::wire::{Frame, NODE_UNKNOWN, PayloadHeader};
use mobcast_proto::{ByteRange, ClusterId, Digest, PieceIndex};

const PIECE: usize = 64 << 10;
const ROOT: NodeId = NodeId(0);

/// A root in one cluster, a receiver in another, and a stream on its way whose bytes the test provides.
struct Experiment {
    root: Group,
    receiver: Group,
    events: EventStream,
    broadcast: Broadcast,
    received: Broadcast,
    writer: PipeWriter,
    /// Where the log of this experiment begins: others of this process had puppets of the same number.
    log_start: usize,
}

impl Experiment {
    async fn start(plain: bool) -> Experiment {
        keep_log();
        let log_start = log_end();
        let options = |name: &str, cluster: &str| GroupOptions { plain, ..options(name, cluster) };
        let root = within(Group::create(options("root", "a"))).await.expect("a group");
        let ticket = root.ticket().expect("the founder's").clone();
        let receiver = within(Group::join(&ticket, options("receiver", "b"), LONG)).await.expect("admitted");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let piece_size = Some(PIECE as u32);
        let stream = root.broadcast(Source::reader(reader), BroadcastOptions { piece_size, ..Default::default() });
        let broadcast = within(stream).await.expect("started");
        let received = receive(&receiver, mobcast::Sink::bytes(1 << 30)).await.expect("accepted");
        let events = receiver.events();
        Experiment { root, receiver, events, broadcast, received, writer, log_start }
    }

    /// A member in the receiver's cluster.
    async fn puppet(&self) -> Puppet {
        within(Puppet::join(self.root.ticket().expect("the founder's"), "b")).await
    }

    fn receiver_id(&self) -> NodeId {
        self.receiver.node().id
    }

    /// The receiver says whom it dropped and why.
    async fn dropped(&mut self, puppet: NodeId, why: &str) {
        let reason = within(async {
            loop {
                match self.events.next().await.expect("the group goes on") {
                    GroupEvent::PeerDropped { node, reason } if node == Some(puppet) => return reason,
                    _ => {}
                }
            }
        });
        let reason = reason.await;
        assert!(reason.contains(why), "dropped because it {reason}, not because it {why}");
    }

    /// The log names who was dropped and why; it does when the link is closed.
    fn assert_logged(&self, puppet: NodeId, why: &str) {
        let is_named = is_logged(self.log_start, &[&format!("{puppet}"), why]);
        assert!(is_named, "the log does not name {puppet}: {why}");
    }

    /// The stream is written to its end, and arrives as it was.
    async fn completes(mut self, bytes: Vec<u8>) {
        let written = bytes.clone();
        let writing = tokio::task::spawn_blocking(move || self.writer.write_all(&written));
        let completed = within(self.received.complete()).await.expect("complete");
        within(writing).await.expect("no panic").expect("written");
        assert!(completed.data.expect("in memory")[..] == bytes);
        drop(self.broadcast);
    }
}

/// The announcement of the stream, as every peer passes it on.
async fn announcement(link: &mut Link) -> (BroadcastId, Announcement) {
    link.expect(|frame| match frame {
        Frame::Announce { broadcast, announcement } => Some((broadcast, *announcement)),
        _ => None,
    })
    .await
}

/// Claims to have everything, and serves rubbish, until it is thrown out. Returns how many chunks it got rid of.
async fn serve_rubbish(mut link: Link, plain: bool) -> usize {
    let (broadcast, announcement) = announcement(&mut link).await;
    link.send(&Frame::Announce { broadcast, announcement: Box::new(announcement) }).await;
    let pieces = vec![Run { first: PieceIndex(0), count: 1_000 }];
    link.send(&Frame::Have { broadcast, batches: 0, pieces }).await;
    let mut chunks = 0;
    while let Some(frame) = link.next().await {
        let Frame::Request { broadcast, piece, range } = frame else { continue };
        for start in (range.start..range.end).step_by(CHUNK_BYTES_MAX as usize) {
            let range = ByteRange { start, end: range.end.min(start + CHUNK_BYTES_MAX) };
            let header = PayloadHeader { broadcast, piece, range, plain };
            if link.sender.send_payload(&header, &vec![0x66; range.len() as usize]).await.is_err() {
                return chunks;
            }
            chunks += 1;
        }
    }
    chunks
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_sends_corrupt_pieces_is_dropped_and_the_transfer_completes() {
    for plain in [false, true] {
        let mut experiment = Experiment::start(plain).await;
        let puppet = experiment.puppet().await;
        let link = within(puppet.dial(experiment.receiver_id(), plain)).await;
        let rubbish = tokio::spawn(serve_rubbish(link, plain));
        let bytes = pattern(20 * PIECE + 1);
        // Written while the rest goes on: the receiver cannot complete before it has thrown the puppet out.
        let first = bytes[..10 * PIECE].to_vec();
        let mut writer = experiment.writer.try_clone().expect("a second handle");
        let writing = tokio::task::spawn_blocking(move || writer.write_all(&first));
        experiment.dropped(puppet.node(), "sent a forged piece").await;
        within(writing).await.expect("no panic").expect("written");
        assert!(within(rubbish).await.expect("no panic") > 0, "it was asked for something");
        experiment.assert_logged(puppet.node(), "sent a forged piece");
        let rest = bytes[10 * PIECE..].to_vec();
        let Experiment { mut received, mut writer, broadcast, .. } = experiment;
        let writing = tokio::task::spawn_blocking(move || writer.write_all(&rest));
        let completed = within(received.complete()).await.expect("complete");
        within(writing).await.expect("no panic").expect("written");
        assert!(completed.data.expect("in memory")[..] == bytes, "plain {plain}");
        drop(broadcast);
    }
}

/// Everything that a member could forge about a broadcast of somebody else, and why it is dropped for it.
fn forgeries(puppet: &Puppet, id: BroadcastId, real: &Announcement) -> Vec<(Frame, &'static str)> {
    let batch = Batch {
        broadcast: id,
        piece_size: real.descriptor.piece_size,
        first: PieceIndex(0),
        previous: digest(&real.descriptor.to_bytes()),
        hashes: [Digest([6; 32]); 3].into(),
        end: None,
    };
    let mut body = mobcast_proto::wire::codec::Writer::new();
    let ending = body.broadcast(id).string("").clone().into_bytes();
    let mut mine = real.clone();
    (mine.credential, mine.credential_signature) = (puppet.credential, puppet.credential_signature);
    let next = BroadcastId { root: ROOT, sequence: 9 };
    mine.signature = puppet.sign(SignatureDomain::Descriptor, &mine.body(next));
    let mut posing = mine.clone();
    posing.credential.node = ROOT;
    let whole =
        Whole { announcement: mine.clone(), batch: batch.clone(), batch_signature: mine.signature, data: [1].into() };
    let batch_signature = puppet.sign(SignatureDomain::Batch, &batch.to_bytes());
    let abort = puppet.sign(SignatureDomain::Abort, &ending);
    let release = puppet.sign(SignatureDomain::Release, &ending);
    let addresses = vec![];
    let join = Join { name: "again".into(), cluster: None, addresses, key: puppet.key.public() };
    vec![
        (Frame::Batch { batch, signature: batch_signature }, "manifest batch with a wrong signature"),
        (Frame::Abort { broadcast: id, reason: String::new(), signature: abort }, "forged the end"),
        (Frame::Release { broadcast: id, signature: release }, "forged the end"),
        (Frame::Announce { broadcast: next, announcement: Box::new(mine) }, "another node's credential"),
        (Frame::Announce { broadcast: next, announcement: Box::new(posing) }, "with a wrong signature"),
        (Frame::Whole { broadcast: next, whole: Box::new(whole) }, "does not match its hash"),
        (Frame::Join(join), "does not belong on this link"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_forges_what_others_have_to_say_is_dropped_and_nothing_comes_of_it() {
    let mut experiment = Experiment::start(false).await;
    // A new member for each, because nobody is taken back.
    for case in 0.. {
        let puppet = experiment.puppet().await;
        let mut link = within(puppet.dial(experiment.receiver_id(), false)).await;
        let (id, real) = announcement(&mut link).await;
        let forgeries = forgeries(&puppet, id, &real);
        let Some((forgery, why)) = forgeries.get(case) else { break };
        link.send(forgery).await;
        experiment.dropped(puppet.node(), why).await;
        link.until_closed().await;
        experiment.assert_logged(puppet.node(), why);
    }
    experiment.completes(pattern(5 * PIECE)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_impossible_frame_ends_the_link_and_is_named() {
    let mut experiment = Experiment::start(false).await;
    let unasked = PayloadHeader {
        broadcast: BroadcastId { root: ROOT, sequence: 0 },
        piece: PieceIndex(0),
        range: ByteRange { start: 0, end: 1 },
        plain: true,
    };
    for bytes in [&[0x99][..], &[0x15, 0, 0], &[0x01, b'm']] {
        let puppet = experiment.puppet().await;
        let mut link = within(puppet.dial(experiment.receiver_id(), false)).await;
        let _ = link.sender.send_frames(&[bytes]).await;
        experiment.dropped(puppet.node(), "no frame").await;
        link.until_closed().await;
        experiment.assert_logged(puppet.node(), "no frame");
    }
    let puppet = experiment.puppet().await;
    let mut link = within(puppet.dial(experiment.receiver_id(), true)).await;
    let _ = link.sender.send_payload(&unasked, &[0x66]).await;
    experiment.dropped(puppet.node(), "plain").await;
    experiment.completes(pattern(5 * PIECE)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_that_the_authority_has_not_signed_are_not_followed() {
    let experiment = Experiment::start(false).await;
    let puppet = experiment.puppet().await;
    let receiver = experiment.receiver_id();
    let mut link = within(puppet.dial(receiver, false)).await;
    let mut assignment = puppet.assignment.clone();
    (assignment.node, assignment.epoch, assignment.cluster) = (receiver, 1_000, ClusterId(7));
    (assignment.cluster_name, assignment.parent) = ("stolen".into(), None);
    let signature = puppet.sign(SignatureDomain::Assignment, &assignment.to_bytes());
    let assign = Frame::Assign { assignment: Box::new(assignment), signature };
    let routed = Frame::Routed { path: vec![receiver], frame: assign.encode() };
    for order in [assign, routed] {
        link.send(&order).await;
    }
    // Frames are handled in order: with the answer, the orders have been looked at.
    link.send(&Frame::Ping { token: 77 }).await;
    link.expect(|frame| matches!(frame, Frame::Pong { token: 77 }).then_some(())).await;
    assert_eq!(experiment.receiver.node().cluster, "b");
    experiment.completes(pattern(5 * PIECE)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_member_is_not_taken_back_with_its_old_certificate() {
    let mut experiment = Experiment::start(false).await;
    let puppet = experiment.puppet().await;
    let receiver = experiment.receiver_id();
    let mut link = within(puppet.dial(receiver, false)).await;
    announcement(&mut link).await;
    link.send(&Frame::Probe { leaders: vec![] }).await;
    experiment.dropped(puppet.node(), "does not belong on this link").await;
    for _ in 0..3 {
        let mut again = within(puppet.dial(receiver, false)).await;
        assert_eq!(again.until_closed().await, [], "it is told nothing");
    }
    experiment.assert_logged(puppet.node(), "was dropped before");
    experiment.completes(pattern(5 * PIECE)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_cannot_greet_as_another_node_or_as_the_coordinator() {
    let experiment = Experiment::start(false).await;
    let puppet = experiment.puppet().await;
    let group = experiment.root.ticket().expect("the founder's").group;
    for (at, posing) in [(experiment.receiver_id(), ROOT), (ROOT, experiment.receiver_id()), (ROOT, NODE_UNKNOWN)] {
        let mut link = within(puppet.dial_as(at, hello(group, posing, false))).await;
        assert_eq!(link.until_closed().await, [], "{posing} is told nothing by {at}");
    }
    // With its own name it is greeted with what there is.
    let mut link = within(puppet.dial(ROOT, false)).await;
    announcement(&mut link).await;
    experiment.completes(pattern(5 * PIECE)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_alone_opens_nothing_but_the_coordinators_door() {
    let experiment = Experiment::start(false).await;
    let puppet = experiment.puppet().await;
    let ticket = experiment.root.ticket().expect("the founder's");
    let joiner = Identity::joiner(ticket).expect("an identity");
    let greeting = || hello(ticket.group, NODE_UNKNOWN, false);
    let member = experiment.receiver_id();
    let refused = Link::dial(puppet.address_of(member), &joiner, Expected::Node(member), greeting());
    assert!(within(refused).await.is_err(), "a member admits nobody");
    let broadcast = BroadcastId { root: ROOT, sequence: 0 };
    let range = ByteRange { start: 0, end: 1 };
    for demand in [
        Frame::WantBatches { broadcast, from: 0, until: 4 },
        Frame::Request { broadcast, piece: PieceIndex(0), range },
        Frame::Have { broadcast, batches: 1, pieces: vec![] },
    ] {
        let link = Link::dial(ticket.addresses[0], &joiner, Expected::Coordinator, greeting());
        let mut link = within(link).await.expect("it may ask to be admitted");
        link.send(&demand).await;
        let answers = link.until_closed().await;
        assert!(matches!(answers[..], [Frame::Refuse { .. }]), "{answers:?}");
    }
    let link = Link::dial(ticket.addresses[0], &joiner, Expected::Coordinator, greeting());
    let mut link = within(link).await.expect("it may ask to be admitted");
    let header = PayloadHeader { broadcast, piece: PieceIndex(0), range, plain: false };
    within(link.sender.send_payload(&header, &[0x66])).await.expect("sent");
    let answers = link.until_closed().await;
    assert!(matches!(answers[..], [Frame::Refuse { .. }]), "{answers:?} to payload");
    experiment.completes(pattern(5 * PIECE)).await;
}
