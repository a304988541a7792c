//! The driver of [`mobcast_proto::node::Node`] in the simulated network: dials, delivers frames and payload, answers
//! for signatures, feeds the root's source, and runs everybody's timers. The protocol code is the shipped one; frames
//! are really encoded and decoded. Everything follows from the experiment and its seed.
//!
//! What is simplified: signing and verifying take no time; a dial takes three round trips (TCP, TLS and
//! greetings); storing a piece takes [`Settings::store_time`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use mobcast_proto::content::have::HaveSet;
use mobcast_proto::content::{Descriptor, HashedObject};
use mobcast_proto::group::gauge::Measurement;
use mobcast_proto::limits::CHUNK_BYTES_MAX;
use mobcast_proto::node::Node;
use mobcast_proto::random::mix2;
use mobcast_proto::sorted_map::SortedMap;
use mobcast_proto::strategy::Registry;
use mobcast_proto::strategy::overlay::Overlays;
use mobcast_proto::wire::{Frame, Hello};
use mobcast_proto::{
    BroadcastId, ByteRange, ClusterId, Digest, Duration, GroupId, LinkId, NodeId, PieceIndex, PublicKey, Signature,
    Time,
};
use mobcast_topology::ClusterIndex;

use crate::link::{Cancelled, Class};
use crate::network::{Delivery, FlowId, Happening, Network, NodeIndex};
use crate::queue::Token;

mod checks;
pub mod clock;
mod cuts;
mod links;
mod lives;
pub mod mischief;
mod outputs;
mod pauses;
pub mod trace;

use checks::{FramesWaiting, Said};
use clock::Clock;
use mischief::Mischief;
use trace::Trace;

/// Bytes that a control frame takes beside its own: framing, a TLS record, TCP and IP headers.
const FRAME_OVERHEAD_BYTES: u32 = 4 + 22 + 52;
/// Bytes that a chunk of payload takes beside its own: a sealed header.
const CHUNK_OVERHEAD_BYTES: u32 = 22 + 22;
/// The root's source delivers this often.
const SOURCE_INTERVAL: Duration = Duration::from_millis(5);

/// How the nodes' machines behave.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Everything that is random in machines follows from it; the network has a seed of its own.
    pub seed: u64,
    /// Bytes per second at which the root reads and hashes its source. By default what one core does: 0.17 and 0.16 s for a
    /// GB (`docs/performance.md`).
    pub source_rate_bytes_per_s: u64,
    /// From the last byte of a piece to the piece being stored.
    pub store_time: Duration,
    /// Largest part of a piece that travels as one message, bytes.
    pub chunk_bytes_max: u32,
    /// Nodes check their invariants after so many steps.
    pub check_every: u64,
    /// How much later a node learns of each assignment but its first: the way down the control tree may be busy.
    pub assignments_late: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            seed: 1,
            source_rate_bytes_per_s: 3_000_000_000,
            store_time: Duration::from_micros(200),
            chunk_bytes_max: CHUNK_BYTES_MAX,
            check_every: 1,
            assignments_late: Duration::ZERO,
        }
    }
}

/// What the world schedules for itself.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the arguments of the methods that handle them")]
pub enum Due {
    /// A node's timer.
    Timer(NodeIndex),
    /// A dial has arrived.
    DialArrives { from: NodeIndex, link: LinkId, to: NodeIndex, expected: Option<NodeId>, opened: u32 },
    /// A dial is answered: by the link's flow, or by nobody.
    DialDone { from: NodeIndex, link: LinkId, to: Option<(NodeIndex, FlowId)>, opened: u32 },
    /// A measurement is done.
    Probed { node: NodeIndex, cluster: ClusterId, rtt: Option<Duration>, opened: u32 },
    /// A piece is on disk.
    Stored { node: NodeIndex, broadcast: BroadcastId, piece: PieceIndex, opened: u32 },
    /// A frame that was held up reaches its node.
    Late { node: NodeIndex, link: LinkId, frame: Box<Frame>, opened: u32 },
    /// The source has more.
    Source(NodeIndex),
    /// A machine that stood still goes on.
    Resume { node: NodeIndex, life: u32 },
    /// The experiment's own: given to [`crate::experiment`].
    Step(usize),
}

/// A message on its way.
enum Message {
    Frame(Vec<u8>),
    Payload { broadcast: BroadcastId, piece: PieceIndex, range: ByteRange, forged: bool },
}

/// A part of a piece that was handed to the network, in chunks.
struct Sending {
    broadcast: BroadcastId,
    piece: PieceIndex,
    tags: Vec<usize>,
}

/// The root's source.
struct Source {
    broadcast: BroadcastId,
    length: u64,
    piece_size: u32,
    read: u64,
    hashed: u32,
}

/// What a node's application has seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// When each broadcast was complete here.
    pub complete: BTreeMap<BroadcastId, Time>,
    /// Broadcasts that failed here, and why.
    pub failed: BTreeMap<BroadcastId, String>,
    /// When they did.
    pub failed_at: BTreeMap<BroadcastId, Time>,
    /// Broadcasts that were released here.
    pub released: BTreeMap<BroadcastId, Time>,
    /// Broadcasts that the application has heard of, or started.
    pub announced: BTreeSet<BroadcastId>,
    /// Why the node is in its cluster.
    pub reason: String,
    /// Its cluster's name.
    pub cluster: String,
    /// When each broadcast's root was told that it may leave (at the coordinator).
    pub may_leave: BTreeMap<BroadcastId, Time>,
    /// When it took over as coordinator.
    pub coordinator_since: Option<Time>,
    /// Results that it has collected as coordinator: whether each node has the object.
    pub results: BTreeMap<(BroadcastId, NodeId), bool>,
    /// Peers that it dropped, and why.
    pub dropped: Vec<String>,
    /// What came of the last measurement of the network (at the coordinator).
    pub measured: Option<Measurement>,
    /// Strategies that there was no plan for, and why.
    pub unplanned: Vec<String>,
}

/// A simulated machine with a node on it.
pub struct Machine {
    /// The node.
    pub node: Node,
    /// What its application has seen.
    pub seen: Seen,
    /// How often it has connected to the coordinator to be admitted.
    pub join_dials: u32,
    /// Whether it has the authority's key.
    pub authority: bool,
    /// How it lies, if it does.
    pub malicious: Option<Mischief>,
    /// Whether it forgets a broadcast as soon as it is complete, and leaves its links up.
    pub forgetful: bool,
    /// Whether its application leaves every offer unanswered.
    pub undecided: bool,
    /// Until when its disk stores nothing.
    pub disk_stalls_until: Time,
    /// What a piece takes on a slow disk, which stores one after another.
    pub slow_disk: Option<Duration>,
    disk_free_at: Time,
    clock: Clock,
    key: PublicKey,
    flows: SortedMap<LinkId, FlowId>,
    links: SortedMap<FlowId, LinkId>,
    /// Links that it is making, and still wants, with what it says first.
    dialling: BTreeMap<LinkId, Vec<Frame>>,
    /// Those of them whose other end has taken the dial already, and what it says of itself.
    half_open: SortedMap<FlowId, (LinkId, Hello)>,
    in_driver: SortedMap<LinkId, Vec<Sending>>,
    /// Pieces that are really on its disk.
    stored: BTreeMap<BroadcastId, HaveSet>,
    /// What has come for it while it stands still.
    held: Option<Vec<Happening<Due>>>,
    unplugged: bool,
    frames_waiting: FramesWaiting,
    /// Chunks that hold wrong bytes, by where they start.
    forged: BTreeSet<(BroadcastId, PieceIndex, u32)>,
    timer: Option<(Time, Token)>,
    source: Option<Source>,
    /// Grows when the machine stops, so that what was scheduled for it before is void.
    life: u32,
}

/// All machines and the network between them.
pub struct World {
    /// The network.
    pub network: Network<Due>,
    /// The machines, by [`NodeIndex`].
    pub machines: Vec<Machine>,
    settings: Settings,
    registry: Registry,
    overlays: Overlays,
    trusts_members: bool,
    /// Made so far.
    signatures: u64,
    group: GroupId,
    messages: Vec<Option<Message>>,
    free: Vec<usize>,
    trace: u64,
    steps: u64,
    last_progress: Time,
    completions: u64,
    /// Pairs of clusters between which nothing passes.
    cuts: BTreeSet<(ClusterIndex, ClusterIndex)>,
    /// What was on the disks of machines that have started again.
    former: Vec<BTreeMap<BroadcastId, HaveSet>>,
    /// Who has ever been complete.
    completed: BTreeSet<(BroadcastId, NodeId)>,
    /// Hashes of objects whose bytes are real.
    real: BTreeMap<BroadcastId, Digest>,
    /// What each root has to broadcast: bytes, and bytes of a piece.
    objects: BTreeMap<BroadcastId, (u64, u32)>,
    said: Said,
    told: Option<Trace>,
}

/// The authority's key in a simulated group.
const AUTHORITY: PublicKey = PublicKey([0xaa; 32]);

fn sign(key: PublicKey, message: &[u8]) -> Signature {
    let half = blake3::keyed_hash(&key.0, message);
    let mut bytes = [0; 64];
    bytes[..32].copy_from_slice(half.as_bytes());
    Signature(bytes)
}

/// A node's address: only the world knows that it is made from the node's number.
fn address(node: NodeIndex) -> SocketAddr {
    let [_, a, b, c] = node.0.to_be_bytes();
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, a, b, c)), 7077)
}

fn node_at(address: SocketAddr) -> Option<NodeIndex> {
    match address.ip() {
        IpAddr::V4(ip) => {
            let [_, a, b, c] = ip.octets();
            Some(NodeIndex(u32::from_be_bytes([0, a, b, c])))
        }
        IpAddr::V6(_) => None,
    }
}

fn digest_of(broadcast: BroadcastId, piece: u32) -> Digest {
    let object = mix2(u64::from(broadcast.root.0), u64::from(broadcast.sequence));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&mix2(object, u64::from(piece)).to_be_bytes());
    Digest(bytes)
}

// ---- Building ----

impl World {
    /// An empty group on a network.
    pub fn new(network: Network<Due>, settings: Settings) -> World {
        World {
            network,
            machines: Vec::new(),
            settings,
            registry: Registry::default(),
            overlays: Overlays::default(),
            trusts_members: false,
            signatures: 0,
            group: GroupId([7; 16]),
            messages: Vec::new(),
            free: Vec::new(),
            trace: settings.seed,
            steps: 0,
            last_progress: Time::ZERO,
            completions: 0,
            cuts: BTreeSet::new(),
            former: Vec::new(),
            completed: BTreeSet::new(),
            real: BTreeMap::new(),
            objects: BTreeMap::new(),
            said: Said::default(),
            told: None,
        }
    }

    /// Says for which strategies, of those that nodes know, the first machine founds the group; to be called before any is
    /// started.
    pub fn found_for(&mut self, registry: Registry, overlays: Overlays) {
        (self.registry, self.overlays) = (registry, overlays);
    }

    /// Members of the group take each other's word about broadcasts; to be called before any is started.
    pub fn found_in_trust(&mut self) {
        self.trusts_members = true;
    }

    /// Signatures that were made so far, by nodes and the authority.
    pub fn signatures(&self) -> u64 {
        self.signatures
    }

    /// Starts a broadcast from a machine's synthetic source.
    ///
    /// # Panics
    /// If the machine is not a member yet.
    pub fn broadcast(&mut self, from: NodeIndex, descriptor: Descriptor, whole: Option<Vec<u8>>) -> BroadcastId {
        let (length, piece_size) = (descriptor.length.unwrap_or(0), descriptor.piece_size);
        let whole = whole.map(|data| HashedObject::of(data.into()));
        let real = whole.as_ref().and_then(HashedObject::piece);
        let now = self.local(from);
        let machine = &mut self.machines[from.0 as usize];
        assert!(machine.source.is_none(), "a machine reads one source at a time");
        let id = machine.node.broadcast(now, descriptor, whole).expect("the root is a member");
        machine.seen.announced.insert(id);
        machine.source = Some(Source { broadcast: id, length, piece_size, read: 0, hashed: 0 });
        self.real.extend(real.map(|digest| (id, digest)));
        self.objects.insert(id, (length, piece_size));
        self.network.schedule(self.network.now(), Due::Source(from));
        self.drain(from);
        id
    }

    /// Whether a machine's source has not ended: it can begin no other broadcast.
    pub fn is_reading(&self, index: NodeIndex) -> bool {
        self.machines[index.0 as usize].source.is_some()
    }

    /// What a machine's clock shows.
    fn local(&self, index: NodeIndex) -> Time {
        self.machines[index.0 as usize].clock.shows(self.network.now())
    }

    /// The hash of a piece, as its root has signed it.
    fn true_digest(&self, broadcast: BroadcastId, piece: u32) -> Digest {
        self.real.get(&broadcast).copied().unwrap_or_else(|| digest_of(broadcast, piece))
    }

    /// Has a machine's node, the coordinator, measure the network with the others.
    pub fn measure(&mut self, index: NodeIndex) {
        let now = self.local(index);
        self.machines[index.0 as usize].node.measure(now);
        self.drain(index);
    }

    /// The root gives a broadcast up.
    pub fn abort(&mut self, root: NodeIndex, id: BroadcastId, reason: &str) {
        let now = self.local(root);
        self.said.aborted.insert(id);
        self.machines[root.0 as usize].node.abort(now, id, reason.into());
        self.drain(root);
    }
}

// ---- The loop ----

impl World {
    /// Goes on to the next happening. False when nothing is left to happen; steps of the experiment are returned.
    pub fn step(&mut self) -> Option<Option<usize>> {
        let (now, happening) = self.network.step()?;
        self.steps += 1;
        if let Happening::Due(Due::Step(step)) = happening {
            return Some(Some(step));
        }
        if let Some(happening) = self.unless_standing(happening) {
            self.happen(now, happening);
        }
        Some(None)
    }

    fn happen(&mut self, now: Time, happening: Happening<Due>) {
        match happening {
            Happening::Delivered(delivery) => self.delivered(now, delivery),
            Happening::Closed { node, flow } => {
                // `flow` led towards `node`; what the node calls the link hangs on its own direction.
                self.link_gone(now, node, flow.reverse());
            }
            Happening::Drained(flow) => self.drained(flow),
            Happening::Due(due) => self.due(now, due),
        }
    }

    /// A number that any difference in what happened changes.
    pub fn trace_hash(&self) -> u64 {
        self.trace
    }

    /// Happenings so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// When a piece was stored last, anywhere.
    pub fn last_progress(&self) -> Time {
        self.last_progress
    }

    /// Objects completed, by all machines together.
    pub fn completions(&self) -> u64 {
        self.completions
    }

    fn note(&mut self, now: Time, node: NodeIndex, what: u64) {
        self.trace = mix2(self.trace, mix2(now.0, u64::from(node.0) << 32 ^ what));
    }

    fn delivered(&mut self, now: Time, delivery: Delivery) {
        self.finish_dial(now, delivery);
        let message = self.messages[delivery.tag as usize].take().expect("a message is delivered once");
        self.free.push(delivery.tag as usize);
        let to = delivery.to;
        self.note(now, to, u64::from(delivery.bytes) << 8 | 1);
        let now = self.local(to);
        if delivery.class == Class::Control {
            self.machines[delivery.from.0 as usize].frames_waiting.arrived(delivery.flow, delivery.bytes);
        }
        if let Message::Payload { broadcast, piece, .. } = message {
            self.tell_sender(to, broadcast, piece, delivery.from);
        }
        let machine = &mut self.machines[to.0 as usize];
        let Some(&link) = machine.links.get(&delivery.flow.reverse()) else { return };
        match message {
            Message::Frame(bytes) => {
                let frame = Frame::decode(&bytes).expect("the simulator sends what it has encoded");
                let late = self.settings.assignments_late;
                let assigned = || machine.node.assignment().is_some();
                if late > Duration::ZERO && matches!(frame, Frame::Assign { .. }) && assigned() {
                    let opened = machine.life;
                    let due = Due::Late { node: to, link, frame: Box::new(frame), opened };
                    self.network.schedule(self.network.now() + late, due);
                } else {
                    machine.node.handle_frame(now, link, frame);
                }
            }
            Message::Payload { broadcast, piece, range, forged } => {
                let chunk = (broadcast, piece, range.start);
                if forged {
                    machine.forged.insert(chunk);
                } else {
                    machine.forged.remove(&chunk);
                }
                machine.node.handle_payload(now, link, broadcast, piece, range);
            }
        }
        self.drain(to);
    }

    fn drained(&mut self, flow: FlowId) {
        let (from, _) = self.network.ends(flow);
        let now = self.local(from);
        let machine = &mut self.machines[from.0 as usize];
        let Some(&link) = machine.links.get(&flow) else { return };
        let parts = machine.in_driver.get_mut(&link).map(std::mem::take).unwrap_or_default();
        parts.iter().for_each(|_| machine.node.handle_sent(now, link));
        self.drain(from);
    }

    /// Takes back what has not begun of a piece.
    fn cancel_payload(&mut self, index: NodeIndex, link: LinkId, broadcast: BroadcastId, piece: PieceIndex) {
        let now = self.local(index);
        let machine = &mut self.machines[index.0 as usize];
        let Some(&flow) = machine.flows.get(&link) else { return };
        let parts = machine.in_driver.get_or_default(link);
        let matches = |part: &mut Sending| (part.broadcast, part.piece) == (broadcast, piece);
        for part in parts.extract_if(.., matches).collect::<Vec<_>>() {
            for tag in part.tags {
                // What was delivered long ago may have left its tag to another message.
                let same = matches!(&self.messages[tag], Some(Message::Payload { broadcast: b, piece: p, .. }) if (*b, *p) == (broadcast, piece));
                if same && self.network.cancel(flow, tag as u64) == Cancelled::Removed {
                    self.messages[tag] = None;
                    self.free.push(tag);
                }
            }
            self.machines[index.0 as usize].node.handle_sent(now, link);
        }
    }

    fn link_gone(&mut self, now: Time, node: NodeIndex, own_flow: FlowId) {
        self.note(now, node, 2);
        let now = self.local(node);
        let machine = &mut self.machines[node.0 as usize];
        if let Some(link) = machine.links.remove(&own_flow) {
            machine.flows.remove(&link);
            machine.in_driver.remove(&link);
            machine.frames_waiting.gone(own_flow);
            let other = self.network.ends(own_flow).1;
            self.tell(Some(node), || format!("finds its link to machine {} gone", other.0));
            let machine = &mut self.machines[node.0 as usize];
            machine.node.handle_link_down(now, link);
            self.drain(node);
        }
    }

    fn due(&mut self, now: Time, due: Due) {
        match due {
            Due::Timer(index) => {
                self.machines[index.0 as usize].timer = None;
                self.note(now, index, 3);
                let now = self.local(index);
                self.machines[index.0 as usize].node.handle_timeout(now);
                self.drain(index);
            }
            Due::DialArrives { from, link, to, expected, opened } => {
                self.dial_arrives(now, from, link, to, expected, opened);
            }
            Due::DialDone { from, link, to, opened } => self.dial_done(now, from, link, to, opened),
            Due::Probed { node, cluster, rtt, opened } => {
                if self.alive(node, opened) {
                    let now = self.local(node);
                    self.machines[node.0 as usize].node.handle_probed(now, cluster, rtt);
                    self.drain(node);
                }
            }
            Due::Stored { node, broadcast, piece, opened } => self.stored(now, node, broadcast, piece, opened),
            Due::Late { node, link, frame, opened } => {
                if self.alive(node, opened) {
                    let now = self.local(node);
                    self.machines[node.0 as usize].node.handle_frame(now, link, *frame);
                    self.drain(node);
                }
            }
            Due::Source(index) => self.read_source(now, index),
            Due::Resume { node, life } => self.resume(now, node, life),
            Due::Step(_) => unreachable!("steps are returned to the experiment"),
        }
    }

    fn alive(&self, node: NodeIndex, life: u32) -> bool {
        self.network.is_running(node) && self.machines[node.0 as usize].life == life
    }

    fn stored(&mut self, now: Time, index: NodeIndex, broadcast: BroadcastId, piece: PieceIndex, life: u32) {
        if !self.alive(index, life) {
            return;
        }
        let local = self.local(index);
        let machine = &mut self.machines[index.0 as usize];
        let before = machine.forged.len();
        machine.forged.retain(|&(b, p, _)| (b, p) != (broadcast, piece));
        let forged = machine.forged.len() < before;
        self.tell_stored(index, broadcast, piece, forged);
        let machine = &mut self.machines[index.0 as usize];
        if forged {
            machine.node.handle_wrong(local, broadcast, piece, true);
        } else {
            machine.stored.entry(broadcast).or_default().insert(piece);
            machine.node.handle_stored(local, broadcast, piece);
            self.last_progress = now;
        }
        self.note(now, index, u64::from(piece.0) << 8 | 4);
        self.drain(index);
    }

    fn read_source(&mut self, now: Time, index: NodeIndex) {
        let rate = self.settings.source_rate_bytes_per_s;
        if !self.network.is_running(index) {
            return;
        }
        let machine = &mut self.machines[index.0 as usize];
        let Some(source) = &mut machine.source else { return };
        source.read = (source.read + SOURCE_INTERVAL.bytes_at(rate)).min(source.length);
        let ended = source.read == source.length;
        let size = u64::from(source.piece_size);
        let pieces = if ended { source.length.div_ceil(size) } else { source.read / size } as u32;
        let (broadcast, length, hashed) = (source.broadcast, source.length, source.hashed);
        source.hashed = pieces;
        let local = self.local(index);
        for piece in hashed..pieces {
            let digest = self.true_digest(broadcast, piece);
            self.machines[index.0 as usize].node.handle_hashed(local, broadcast, digest);
        }
        let machine = &mut self.machines[index.0 as usize];
        if ended {
            machine.source = None;
            machine.node.handle_source_end(local, broadcast, Vec::new(), length, Digest([1; 32]));
        } else {
            self.network.schedule(now + SOURCE_INTERVAL, Due::Source(index));
        }
        self.drain(index);
    }
}
