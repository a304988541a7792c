//! A node in the middle of its life is fed a sequence of whatever its links, its driver and its application may come up
//! with: frames with right and wrong signatures, payload, failures, time. The input is the sequence; `world` is the
//! driver and holds what must be true after each step.
//!
//! Signatures are not computed: one of a fixed form counts as right, whoever should have made it. So members, roots
//! and even the coordinator may say anything here, which is more than any of them can do in a real group.

mod frames;
mod steps;
mod world;

use arbitrary::{Result, Unstructured};
use mobcast_proto::content::object::{Descriptor, FileMeta, ObjectKind};
use mobcast_proto::content::slots::SlotSet;
use mobcast_proto::group::assignment::{Assignment, Credential, PeerAddress};
use mobcast_proto::group::report::{Report, SignedReport};
use mobcast_proto::io::PeerIdentity;
use mobcast_proto::node::{Node, NodeConfig};
use mobcast_proto::strategy::Registry;
use mobcast_proto::strategy::overlay::Overlays;
use mobcast_proto::wire::Frame;
use mobcast_proto::wire::frame::Join;
use mobcast_proto::{BroadcastId, ClusterId, Duration, GroupId, NodeId, PublicKey, Time};

use frames::{RIGHT, announcement};
use world::World;

/// The group of all that is right here.
const GROUP: GroupId = GroupId([3; 16]);
/// The key of the node that is fed.
const KEY: PublicKey = PublicKey([1; 32]);
/// The member that is fed.
const MEMBER: NodeId = NodeId(3);
/// The broadcast that there is from the start.
const BROADCAST: BroadcastId = BroadcastId { root: NodeId(0), sequence: 0 };
const PIECE_SIZE: u32 = 16 << 10;

/// A member with links to its parent, two local peers and two global ones.
pub fn member(data: &[u8]) {
    let mut u = Unstructured::new(data);
    // Input that ends early has been fed as far as it goes.
    let _ = feed_member(&mut u);
}

/// The coordinator, which is root of a broadcast, with four members.
pub fn coordinator(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let _ = feed_coordinator(&mut u);
}

fn feed_member(u: &mut Unstructured<'_>) -> Result<()> {
    let settings: u8 = u.arbitrary()?;
    let node = Node::join(config(u64::from(settings)), vec![address(0)], Time::ZERO);
    let mut world = World::new(node);
    world.settle();
    if settings & 1 == 0 {
        world.all_dials_succeed();
        let admission = world.first_link().expect("the coordinator is dialled");
        world.feed(admission, &admit());
        world.feed(admission, &Frame::Assign { assignment: Box::new(assignment()), signature: RIGHT });
        world.all_dials_succeed();
        if let Some(parent) = world.link_to(NodeId(0)).filter(|_| settings & 2 == 0) {
            let announcement = Box::new(announcement(BROADCAST.root, description(u, settings >> 2)?));
            world.feed(parent, &Frame::Announce { broadcast: BROADCAST, announcement });
            world.accept(BROADCAST);
        }
        if settings & 0x80 != 0 {
            lose_coordinator(&mut world);
        }
    }
    steps::run(&mut world, u)
}

/// The member is a successor, and the coordinator goes away: it takes over.
fn lose_coordinator(world: &mut World) {
    let Some(link) = world.link_to(NodeId(0)) else { return };
    world.feed(link, &Frame::Entrust { authority: world::secret(), children: vec![NodeId(1), MEMBER] });
    world.link_down(link);
    for _ in 0..40 {
        world.no_dial_succeeds();
        world.pass(Duration::from_millis(100));
    }
}

fn feed_coordinator(u: &mut Unstructured<'_>) -> Result<()> {
    let settings: u8 = u.arbitrary()?;
    let credential = Credential { group: GROUP, node: NodeId(0), key: KEY, expires_unix_s: 1 };
    let node = Node::found(config(u64::from(settings)), credential, RIGHT, Time::ZERO);
    let mut world = World::new(node);
    world.settle();
    for node in 1..=4u32 {
        let joiner = world.accept_link(PeerIdentity::Joiner, GROUP);
        let cluster = Some(if node % 2 == 0 { "a" } else { "b" }.to_owned());
        let (name, key) = (format!("node {node}"), PublicKey([node as u8; 32]));
        world.feed(joiner, &Frame::Join(Join { name, cluster, addresses: vec![address(node)], key }));
        world.pass(Duration::from_millis(20));
        world.link_down(joiner);
        let cluster = ClusterId(node % 2);
        let link = world.accept_link(PeerIdentity::Member { node: NodeId(node), cluster }, GROUP);
        let ready = SignedReport { from: NodeId(node), report: Report::Ready { epoch: 1 }, signature: RIGHT };
        world.feed(link, &Frame::Reports { reports: vec![ready] });
    }
    if settings & 1 == 0 {
        world.broadcast(description(u, settings >> 2)?);
    }
    steps::run(&mut world, u)
}

fn config(seed: u64) -> NodeConfig {
    let (name, cluster) = ("fed".to_owned(), Some("a".to_owned()));
    let (registry, overlays) = (Registry::default(), Overlays::default());
    NodeConfig {
        group: GROUP,
        name,
        cluster,
        addresses: vec![address(99)],
        key: KEY,
        plain: false,
        trusts_members: false,
        seed,
        registry,
        overlays,
    }
}

fn address(node: u32) -> std::net::SocketAddr {
    ([10, 0, 0, node as u8], 7077).into()
}

fn admit() -> Frame {
    let credential = Credential { group: GROUP, node: MEMBER, key: KEY, expires_unix_s: 1 };
    Frame::Admit { credential, signature: RIGHT, certificate: vec![0x30; 8], reason: "named by --cluster a".into() }
}

fn peer(node: u32) -> PeerAddress {
    PeerAddress { node: NodeId(node), cluster: ClusterId(node % 2), rank: node / 2, addresses: vec![address(node)] }
}

/// The member's first: its cluster is 1, the coordinator's 0.
fn assignment() -> Assignment {
    Assignment {
        term: 0,
        epoch: 1,
        node: MEMBER,
        cluster: ClusterId(1),
        cluster_name: "a".into(),
        rank: 1,
        cluster_size: 3,
        clusters: vec![ClusterId(0), ClusterId(1)],
        parent: Some(peer(0)),
        local_peers: vec![peer(1), peer(5)],
        global_peers: vec![peer(2), peer(4)],
        slots: SlotSet::all().take(2048),
        successors: vec![peer(MEMBER.0), peer(2)],
        plans: Vec::new(),
        plan_peers: Vec::new(),
        probes: Vec::new(),
        counterparts: Vec::new(),
        trusts_members: false,
    }
}

/// A small object of one of several kinds.
fn description(u: &mut Unstructured<'_>, form: u8) -> Result<Descriptor> {
    let pieces = u.int_in_range(0..=40u64)?;
    let kind = [ObjectKind::File, ObjectKind::Directory, ObjectKind::Stream, ObjectKind::Bytes][usize::from(form & 3)];
    let length = pieces * u64::from(PIECE_SIZE) + u64::from(u.arbitrary::<u8>()?);
    Ok(Descriptor {
        kind,
        name: b"object".to_vec(),
        meta: FileMeta::default(),
        length: (kind != ObjectKind::Stream).then_some(length),
        index_length: if kind == ObjectKind::Directory { length.min(100) } else { 0 },
        piece_size: PIECE_SIZE,
        strategy: ["mob", "chain", "scatter-allgather", "balanced"][u.int_in_range(0..=3)?].into(),
    })
}
