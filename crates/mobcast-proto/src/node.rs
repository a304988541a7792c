//! A node of a group as a state machine. This file only dispatches: inputs come in by the `handle_*` methods, and are
//! passed to the links, the group or the broadcasts; outputs are drained by [`Node::poll_output`].
//!
//! Contract: after every call of a `handle_*` method or a command, the driver drains `poll_output` until it returns
//! `None`, then asks [`Node::poll_timeout`] when to call [`Node::handle_timeout`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use crate::broadcast::Broadcast;
use crate::content::announcement::Announcement;
use crate::content::hashed::HashedObject;
use crate::content::manifest::Batch;
use crate::content::object::Descriptor;
use crate::flow::upload::Uploads;
use crate::group::assignment::{Assignment, Credential};
use crate::group::coordinator::Coordinator;
use crate::group::report::{Report, SignedReport};
use crate::group::succession::Succession;
use crate::io::{CloseReason, Event, OUTPUTS_KEPT, Output, PeerIdentity, Token};
use crate::limits::{LINKS_MAX, LINKS_SPARE, OPEN_PIECES_BYTES_MAX};
use crate::random::Random;
use crate::sorted_map::SortedMap;
use crate::strategy::Registry;
use crate::strategy::overlay::Overlays;
use crate::time::{Duration, Time};
use crate::units::{
    BroadcastId, ByteRange, ClusterId, Digest, GroupId, LinkId, NodeId, PieceIndex, PublicKey, Signature,
};
use crate::wire::frame::{Frame, Hello, PROTOCOL_VERSION};

mod acknowledgements;
mod announcements;
mod broadcasts;
mod coordination;
mod endings;
mod finished;
mod founder;
mod gauge;
mod group;
mod holdings;
mod links;
mod membership;
mod payload;
mod proofs;
mod relay;
mod releases;
mod reports;
mod results;
mod rivals;
mod succession;
#[cfg(test)]
pub(crate) mod testing;
mod unknown_ends;
mod unwanted;
pub mod view;

use finished::Finished;
use links::Link;
use membership::Membership;
use releases::{Held, Unsaid};
use unknown_ends::UnknownEnds;

/// How often links are looked after.
const TICK: Duration = Duration::from_millis(500);

/// What a node is started with.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The group.
    pub group: GroupId,
    /// What the node calls itself.
    pub name: String,
    /// The cluster that its user named.
    pub cluster: Option<String>,
    /// Where it listens; empty if it can only dial out.
    pub addresses: Vec<SocketAddr>,
    /// Its own key.
    pub key: PublicKey,
    /// Whether it lets payload travel in the clear.
    pub plain: bool,
    /// For all its choices by chance.
    pub seed: u64,
    /// The strategies that it knows.
    pub registry: Registry,
    /// At the founder: for which of them the group is.
    pub overlays: Overlays,
    /// At the founder: whether members take each other's word about broadcasts, instead of signatures for each.
    pub trusts_members: bool,
}

/// What a signature service is asked for, until it answers.
enum Pending {
    SignAssignment(Assignment),
    SignReport(Report),
    SignSuccession(Succession),
    SignRootLost { broadcast: BroadcastId },
    SignDescriptor { broadcast: BroadcastId },
    SignBatch { broadcast: BroadcastId },
    SignRelease { broadcast: BroadcastId },
    SignAbort { broadcast: BroadcastId, reason: String },
    VerifyAdmission { credential: Credential, signature: Signature, certificate: Vec<u8>, reason: String },
    VerifyAssignment(Box<Assignment>, Signature),
    VerifySuccession { succession: Succession, signature: Signature, link: LinkId },
    VerifyRootLost { broadcast: BroadcastId, frame: Frame, link: LinkId },
    VerifyReport { report: SignedReport, link: LinkId },
    VerifyOwnReport { link: LinkId, others: Vec<SignedReport> },
    VerifyAnnouncement { broadcast: BroadcastId },
    VerifyBatch { link: LinkId, batch: Batch, signature: Signature },
    VerifyAbort { broadcast: BroadcastId, reason: String, frame: Frame, link: LinkId },
    VerifyRelease { broadcast: BroadcastId, frame: Frame, link: LinkId },
}

/// An announcement on its way through verification.
struct Unverified {
    announcement: Announcement,
    /// Whose frame is being checked.
    first: LinkId,
    links: BTreeSet<LinkId>,
    whole: Option<(LinkId, Batch, Signature, HashedObject)>,
    /// Whether only this node's place in the group is missing.
    verified: bool,
    /// What those who announced it have said of it since.
    early: Vec<(LinkId, Frame)>,
    /// How much that is of each.
    early_bytes: BTreeMap<LinkId, usize>,
}

/// A broadcast that the application is to be told of.
struct Untold {
    broadcast: BroadcastId,
    descriptor: Descriptor,
    /// What was said of it before it was known here.
    early: Vec<(LinkId, Frame)>,
}

/// How far a broadcast is at this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Pieces stored and verified.
    pub pieces: u32,
    /// Pieces whose hashes are known.
    pub known: u32,
    /// Pieces of the whole object, where known.
    pub total: Option<u32>,
    /// Links over which the broadcast is exchanged.
    pub peers: u32,
}

/// A node of a group.
pub struct Node {
    config: NodeConfig,
    random: Random,
    now: Time,
    membership: Membership,
    coordinator: Option<Coordinator>,
    coordination: coordination::Coordination,
    relay: relay::Relay,
    regency: Option<succession::Regency>,
    links: SortedMap<LinkId, Link>,
    next_link: u32,
    uploads: Uploads,
    gauging: gauge::Gauging,
    broadcasts: SortedMap<BroadcastId, Broadcast>,
    unverified: BTreeMap<BroadcastId, Box<Unverified>>,
    /// Broadcasts that the application has not been told of.
    untold: Vec<Untold>,
    /// When payload of any broadcast arrived last.
    payload_at: Time,
    unknown_ends: UnknownEnds,
    finished: Finished,
    /// What roots have said of the last broadcasts that they gave up, for those who have not heard it.
    aborts: VecDeque<(BroadcastId, Frame)>,
    /// The last releases, which not all peers have heard from this node.
    unsaid: VecDeque<Unsaid>,
    /// Releases of small objects, which leave together with what else goes to a peer.
    held_releases: Held,
    /// Members that broke the protocol: no link to them is made or taken again.
    banned: BTreeSet<NodeId>,
    next_sequence: u32,
    pending: BTreeMap<Token, Box<Pending>>,
    next_token: u64,
    tick_at: Time,
    outputs: VecDeque<Output>,
}

// ---- Making and reading ----

impl Node {
    /// The founder of a group, which is its coordinator. Its credential comes from its own authority.
    pub fn found(config: NodeConfig, credential: Credential, signature: Signature, now: Time) -> Node {
        let (name, cluster) = (config.name.clone(), config.cluster.clone());
        let (addresses, overlays, trusts) = (config.addresses.clone(), config.overlays.clone(), config.trusts_members);
        let mut node = Node::new(config, now);
        let seed = node.random.next_u64();
        node.coordinator = Some(Coordinator::new(name, cluster, addresses, node.config.key, seed, overlays, trusts));
        node.membership.set_identity(credential, signature);
        node.drain_coordinator();
        node
    }

    /// A node that wants to join a group whose coordinator listens at `coordinator`.
    pub fn join(config: NodeConfig, coordinator: Vec<SocketAddr>, now: Time) -> Node {
        let mut node = Node::new(config, now);
        node.membership.set_coordinator(coordinator);
        node.dial_coordinator();
        node
    }

    fn new(config: NodeConfig, now: Time) -> Node {
        Node {
            random: Random::new(config.seed),
            config,
            now,
            membership: Membership::default(),
            coordinator: None,
            coordination: coordination::Coordination::default(),
            relay: relay::Relay::default(),
            regency: None,
            links: SortedMap::default(),
            next_link: 0,
            uploads: Uploads::default(),
            gauging: gauge::Gauging::default(),
            broadcasts: SortedMap::default(),
            unverified: BTreeMap::new(),
            untold: Vec::new(),
            payload_at: now,
            unknown_ends: UnknownEnds::default(),
            finished: Finished::default(),
            aborts: VecDeque::new(),
            unsaid: VecDeque::new(),
            held_releases: Held::default(),
            banned: BTreeSet::new(),
            next_sequence: 0,
            pending: BTreeMap::new(),
            next_token: 0,
            tick_at: now + TICK,
            outputs: VecDeque::new(),
        }
    }

    /// This node's identity, once it is admitted.
    pub fn id(&self) -> Option<NodeId> {
        self.membership.node()
    }

    /// This node's view of the group.
    pub fn assignment(&self) -> Option<&Assignment> {
        self.membership.assignment()
    }

    /// The greeting that this node sends on every stream.
    pub fn hello(&self, stream: u16) -> Hello {
        Hello {
            version: PROTOCOL_VERSION,
            group: self.config.group,
            node: self.id().unwrap_or(crate::wire::NODE_UNKNOWN),
            cluster: self.assignment().map(|a| a.cluster).unwrap_or_default(),
            stream,
            plain: self.config.plain,
        }
    }

    /// How far a broadcast is here.
    pub fn progress(&self, broadcast: BroadcastId) -> Option<Progress> {
        let swarm = self.broadcasts.get(&broadcast)?.swarm();
        let announced = self.broadcasts[&broadcast].announcement.descriptor.piece_count();
        Some(Progress {
            pieces: swarm.have().count(),
            known: swarm.known(),
            total: swarm.end().map(|_| swarm.known()).or(announced),
            peers: swarm.peers().count() as u32,
        })
    }

    /// A broadcast's state, for the simulator's checks and for reports.
    pub fn broadcast_state(&self, broadcast: BroadcastId) -> Option<&Broadcast> {
        self.broadcasts.get(&broadcast)
    }

    /// Members of the group, at its coordinator: identity, name, cluster's name.
    pub fn members(&self) -> Vec<(NodeId, String, String)> {
        let Some(coordinator) = &self.coordinator else { return Vec::new() };
        let info = |node| coordinator.member(node).map(|m| (node, m.name.clone(), coordinator.cluster_name(m.cluster)));
        coordinator.members().filter_map(info).collect()
    }

    /// Links that are up or being made, without those that another one to the same node has replaced.
    pub fn link_count(&self) -> usize {
        self.links.values().filter(|link| !link.is_retired()).count()
    }

    /// # Panics
    /// If something does not add up: that is a bug.
    pub fn check_invariants(&self) {
        let links = self.link_count();
        assert!(links <= LINKS_MAX + LINKS_SPARE, "{links} links");
        let members = self.links.values().filter(|link| link.member().is_some()).count();
        assert!(members <= LINKS_MAX, "links to {members} members");
        // At least a piece of each may be open.
        let pieces = self.broadcasts.values().map(|broadcast| u64::from(broadcast.announcement.descriptor.piece_size));
        let (open, most) = (self.open_bytes(), OPEN_PIECES_BYTES_MAX + pieces.sum::<u64>());
        assert!(open <= most, "{open} bytes are open of all broadcasts");
        self.broadcasts.values().for_each(Broadcast::check_invariants);
        self.uploads.check_invariants();
        self.check_slots();
        if let Some(coordinator) = &self.coordinator {
            coordinator.check_invariants(|link| self.links.contains_key(&link));
        }
    }
}

// ---- Outputs and time ----

impl Node {
    /// The next thing to do for the driver.
    pub fn poll_output(&mut self) -> Option<Output> {
        let next = self.outputs.pop_front();
        if next.is_none() {
            self.outputs.shrink_to(OUTPUTS_KEPT);
        }
        next
    }

    /// When [`Node::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Time {
        let coordinator = self.coordinator.as_ref().and_then(Coordinator::timeout);
        let membership = self.membership.timeout();
        let uploads = self.uploads.timeout(self.now);
        let others =
            Time::earliest([coordinator, membership, uploads, self.gauging.timeout(), self.held_releases.due()]);
        let first = others.map_or(self.tick_at, |at| at.min(self.tick_at));
        self.broadcasts.values().filter_map(Broadcast::timeout).fold(first, Time::min)
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        self.set_now(now);
        if self.broadcasts.len() > 1 {
            self.share_open_budget(None);
        }
        let due: Vec<BroadcastId> = self
            .broadcasts
            .values()
            .filter(|broadcast| broadcast.timeout().is_some_and(|at| at <= now))
            .map(|broadcast| broadcast.id)
            .collect();
        for id in due {
            self.with_broadcast(id, |broadcast| broadcast.handle_timeout(now));
            self.sign_next_batch(id);
        }
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.handle_timeout(now);
            self.drain_coordinator();
        }
        self.membership_timeout();
        self.look_after_probe();
        self.let_releases_go();
        self.drain_uploads();
        if now >= self.tick_at {
            self.tick_at = now + TICK;
            self.look_after_links();
            self.review_slots();
            self.look_after_broadcasts();
            self.say_releases();
            self.acknowledge_assignment();
            self.show_again_without_place();
            self.drain_uploads();
        }
    }

    fn set_now(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    fn send(&mut self, link: LinkId, frame: Frame) {
        self.send_held_releases(link);
        self.outputs.push_back(Output::Send { link, frame });
    }

    /// Sends a frame to several peers.
    fn send_to_all(&mut self, links: Vec<LinkId>, frame: Frame) {
        links.iter().for_each(|&link| self.send_held_releases(link));
        self.outputs.push_back(Output::SendToAll { links, frame });
    }

    /// Runs `f` on a broadcast, then passes on what it wants done.
    fn with_broadcast<T>(&mut self, id: BroadcastId, f: impl FnOnce(&mut Broadcast) -> T) -> Option<T> {
        let broadcast = self.broadcasts.get_mut(&id)?;
        let result = f(broadcast);
        for (link, rate) in broadcast.take_rate_limits() {
            self.uploads.limit_rate(link, id, rate);
        }
        self.outputs.extend(broadcast.take_outputs());
        let pushes = broadcast.take_pushes();
        if !pushes.is_empty() {
            self.queue_pushes(id, pushes);
        }
        Some(result)
    }
}

// ---- Inputs ----

impl Node {
    /// Where this node listens, if that was not known when it was started: the coordinator is told when it is asked the next time.
    pub fn set_addresses(&mut self, addresses: Vec<SocketAddr>) {
        self.config.addresses = addresses;
    }

    /// A stranger or member has connected to this node and proved who it is: the link's name from here on.
    pub fn accept_link(&mut self, now: Time, identity: PeerIdentity, hello: &Hello) -> LinkId {
        let link = self.new_link_id();
        self.links.insert(link, Link::accepted(now));
        self.handle_link_up(now, link, identity, hello);
        link
    }

    /// A link that [`Output::Connect`] asked for is up (or one that was just accepted).
    pub fn handle_link_up(&mut self, now: Time, link: LinkId, identity: PeerIdentity, hello: &Hello) {
        self.set_now(now);
        self.link_up(link, identity, hello);
    }

    /// A link is gone, or could not be made.
    pub fn handle_link_down(&mut self, now: Time, link: LinkId) {
        self.set_now(now);
        self.link_down(link);
    }

    /// A control frame has arrived.
    pub fn handle_frame(&mut self, now: Time, link: LinkId, frame: Frame) {
        self.set_now(now);
        let Some(state) = self.links.get_mut(&link) else { return };
        state.heard(now);
        match state.identity() {
            Some(PeerIdentity::Member { .. }) if state.is_retired() => self.last_frame(link, frame),
            Some(PeerIdentity::Member { .. }) => {
                self.heard_of(link);
                self.member_frame(link, frame);
            }
            Some(PeerIdentity::Joiner) => self.joiner_frame(link, frame),
            None => {}
        }
    }

    /// Payload has arrived and is where it belongs.
    pub fn handle_payload(
        &mut self,
        now: Time,
        link: LinkId,
        broadcast: BroadcastId,
        piece: PieceIndex,
        range: ByteRange,
    ) {
        self.set_now(now);
        let Some(state) = self.links.get_mut(&link) else {
            return self.outputs.push_back(Output::Close { link, reason: CloseReason::Unneeded });
        };
        state.heard(now);
        match state.identity() {
            Some(PeerIdentity::Member { .. }) if state.is_retired() => {}
            Some(PeerIdentity::Member { .. }) => self.member_payload(link, broadcast, piece, range),
            Some(PeerIdentity::Joiner) => self.joiner_payload(link),
            None => {}
        }
    }

    /// The driver has sent a part of a piece that [`Output::SendPayload`] asked for, or dropped it.
    pub fn handle_sent(&mut self, now: Time, link: LinkId) {
        self.set_now(now);
        self.uploads.handle_sent(link);
        self.drain_uploads();
    }

    /// A piece is verified and stored.
    pub fn handle_stored(&mut self, now: Time, broadcast: BroadcastId, piece: PieceIndex) {
        self.set_now(now);
        let done = self.with_broadcast(broadcast, |b| b.handle_stored(now, piece)) == Some(true);
        self.serve_held(broadcast, piece);
        if done {
            self.broadcast_complete(broadcast);
        }
    }

    /// A piece did not match its hash, and these links brought its bytes: the driver knows whose bytes were passed over, because
    /// others had brought them before anybody heard of it.
    pub fn handle_forged(&mut self, now: Time, broadcast: BroadcastId, piece: PieceIndex, brought: &[LinkId]) {
        self.with_broadcast(broadcast, |b| b.swarm_mut().note_brought(piece, brought));
        self.handle_wrong(now, broadcast, piece, true);
    }

    /// A piece did not match its hash, or (`forged` false) not all its bytes were there. Its bytes are from all who have sent some.
    pub fn handle_wrong(&mut self, now: Time, broadcast: BroadcastId, piece: PieceIndex, forged: bool) {
        self.set_now(now);
        let blamed = self.with_broadcast(broadcast, |b| b.handle_wrong(now, piece, forged)).unwrap_or_default();
        for link in blamed {
            self.drop_peer(link, CloseReason::Violation(format!("sent a forged {piece} of {broadcast}")));
        }
    }

    /// What had arrived of pieces that are not complete is lost with the link that brought some of it: all of them has to come again.
    pub fn handle_lost(&mut self, now: Time, broadcast: BroadcastId, pieces: &[PieceIndex]) {
        self.set_now(now);
        self.with_broadcast(broadcast, |b| b.handle_lost(now, pieces));
    }

    /// The answer to [`Output::Sign`].
    pub fn handle_signed(&mut self, now: Time, token: Token, signature: Signature) {
        self.set_now(now);
        if let Some(pending) = self.pending.remove(&token) {
            self.signed(*pending, signature);
        }
    }

    /// The answer to [`Output::Verify`].
    pub fn handle_verified(&mut self, now: Time, token: Token, valid: bool) {
        self.set_now(now);
        if let Some(pending) = self.pending.remove(&token) {
            self.verified(*pending, valid);
        }
    }

    /// The answer to [`Output::Certify`].
    pub fn handle_certified(&mut self, now: Time, credential: Credential, signature: Signature, certificate: Vec<u8>) {
        self.set_now(now);
        self.certified(credential, signature, certificate);
    }

    /// The answer to [`Output::Probe`]: the shortest round-trip time, none if nobody answered.
    pub fn handle_probed(&mut self, now: Time, cluster: ClusterId, rtt: Option<Duration>) {
        self.set_now(now);
        self.probed(cluster, rtt);
    }

    /// The root's source: its next piece was read and hashed.
    pub fn handle_hashed(&mut self, now: Time, broadcast: BroadcastId, hash: Digest) {
        self.set_now(now);
        self.with_broadcast(broadcast, |b| b.handle_hashed(hash));
        self.sign_next_batch(broadcast);
    }

    /// The root's source has ended, after these last pieces. A short last piece must come by this call: until the
    /// length is known, peers take every piece for a full one.
    pub fn handle_source_end(
        &mut self,
        now: Time,
        broadcast: BroadcastId,
        last: Vec<Digest>,
        length: u64,
        object_hash: Digest,
    ) {
        self.set_now(now);
        let end = crate::content::manifest::End { length, object_hash };
        self.with_broadcast(broadcast, |b| {
            last.into_iter().for_each(|hash| b.handle_hashed(hash));
            b.handle_source_end(end);
        });
        self.sign_next_batch(broadcast);
    }
}

/// As much of a text as fits into `bytes`, cut between characters.
pub(crate) fn text_within(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
