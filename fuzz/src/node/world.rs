//! The driver of the node that is fed: carries out what the node wants, keeps the promises that a driver makes, and
//! checks after each step those that the node makes.

use std::collections::{BTreeMap, BTreeSet};

use mobcast_proto::content::manifest::Chain;
use mobcast_proto::content::object::{Descriptor, piece_count};
use mobcast_proto::group::succession::Secret;
use mobcast_proto::io::{Dial, Event, Output, PeerIdentity, Signer};
use mobcast_proto::limits::{BROADCASTS_MAX, LINKS_MAX, LINKS_SPARE};
use mobcast_proto::node::Node;
use mobcast_proto::wire::frame::Hello;
use mobcast_proto::wire::{Frame, NODE_UNKNOWN, PROTOCOL_VERSION};
use mobcast_proto::{BroadcastId, ByteRange, ClusterId, Digest, Duration, GroupId, LinkId, NodeId, PieceIndex, Time};

use super::frames::RIGHT;

/// Outputs of one step. The most come of the open pieces of a node (3,072 of 16 KiB), each with a request and a
/// cancellation.
const OUTPUTS_PER_STEP_MAX: usize = 8_192;
/// Bytes of the frames of one step: what a driver holds for one peer before it gives it up. The most come of questions
/// for manifest batches, 16 of 32 KiB each.
const FRAME_BYTES_PER_STEP_MAX: usize = 4 << 20;
/// Calls of `handle_timeout` at one moment, before the node would keep a processor busy for nothing.
const TIMEOUTS_AT_ONCE_MAX: usize = 16;

/// A broadcast of the node itself.
pub struct Own {
    length: u64,
    piece_size: u32,
    hashed: u32,
    ended: bool,
}

/// A request that the node has made and that was not answered.
#[derive(Clone, Copy)]
pub struct Asked {
    pub link: LinkId,
    pub broadcast: BroadcastId,
    pub piece: PieceIndex,
    pub range: ByteRange,
}

/// The node and everything around it.
pub struct World {
    pub node: Node,
    pub now: Time,
    /// Links that are up, and who is at the other end; the node id of joiners is unknown.
    pub links: BTreeMap<LinkId, NodeId>,
    pub dials: BTreeMap<LinkId, Dial>,
    pub asked: Vec<Asked>,
    /// Pieces that are being verified and stored.
    pub full: Vec<(BroadcastId, PieceIndex)>,
    pub sending: Vec<(LinkId, BroadcastId, PieceIndex)>,
    pub probes: Vec<ClusterId>,
    /// Broadcasts of others that were announced, with the manifest as their root has sent it so far.
    pub heard: BTreeMap<BroadcastId, Chain>,
    pub own: BTreeMap<BroadcastId, Own>,
    /// Those that the application has not accepted yet.
    offered: BTreeSet<BroadcastId>,
    pub complete: Vec<BroadcastId>,
    /// Pieces whose hashes the driver was given.
    known: BTreeMap<BroadcastId, u32>,
    /// Whether the driver was entrusted with the authority's key.
    keeps_authority: bool,
    stored: BTreeSet<(BroadcastId, PieceIndex)>,
    outputs: usize,
    frame_bytes: usize,
}

// ---- Steps ----

impl World {
    pub fn new(node: Node) -> World {
        World {
            node,
            now: Time::ZERO,
            links: BTreeMap::new(),
            dials: BTreeMap::new(),
            asked: Vec::new(),
            full: Vec::new(),
            sending: Vec::new(),
            probes: Vec::new(),
            heard: BTreeMap::new(),
            own: BTreeMap::new(),
            offered: BTreeSet::new(),
            complete: Vec::new(),
            known: BTreeMap::new(),
            keeps_authority: false,
            stored: BTreeSet::new(),
            outputs: 0,
            frame_bytes: 0,
        }
    }

    /// A frame arrives, as its bytes; what is none ends the link.
    pub fn feed(&mut self, link: LinkId, frame: &Frame) {
        self.feed_bytes(link, &frame.encode());
    }

    /// Bytes arrive where a frame is due.
    pub fn feed_bytes(&mut self, link: LinkId, bytes: &[u8]) {
        match Frame::decode(bytes) {
            Ok(frame) => {
                self.node.handle_frame(self.now, link, frame);
                self.settle();
            }
            Err(_) => self.link_down(link),
        }
    }

    pub fn payload(&mut self, link: LinkId, broadcast: BroadcastId, piece: PieceIndex, range: ByteRange) {
        self.node.handle_payload(self.now, link, broadcast, piece, range);
        self.settle();
    }

    pub fn accept_link(&mut self, identity: PeerIdentity, group: GroupId) -> LinkId {
        let hello = hello(identity, group);
        let link = self.node.accept_link(self.now, identity, &hello);
        self.links.insert(link, hello.node);
        self.settle();
        link
    }

    /// A dial ends: with the one who was dialled, because the handshake proves that, or with nobody.
    pub fn dialled(&mut self, link: LinkId, identity: Option<PeerIdentity>) {
        let Some(dial) = self.dials.remove(&link) else { return };
        match (identity, dial) {
            (None, _) => self.node.handle_link_down(self.now, link),
            (Some(PeerIdentity::Member { cluster, .. }), Dial::Member { node, .. }) => {
                self.up(link, PeerIdentity::Member { node, cluster });
            }
            (Some(_), _) => self.up(link, PeerIdentity::Member { node: NodeId(0), cluster: ClusterId(0) }),
        }
        self.settle();
    }

    fn up(&mut self, link: LinkId, identity: PeerIdentity) {
        let hello = hello(identity, super::GROUP);
        self.links.insert(link, hello.node);
        self.node.handle_link_up(self.now, link, identity, &hello);
    }

    pub fn all_dials_succeed(&mut self) {
        for (link, dial) in self.dials.clone() {
            let node = if let Dial::Member { node, .. } = dial { node } else { NodeId(0) };
            self.dialled(link, Some(PeerIdentity::Member { node, cluster: ClusterId(node.0 % 2) }));
        }
    }

    pub fn no_dial_succeeds(&mut self) {
        let links: Vec<LinkId> = self.dials.keys().copied().collect();
        links.into_iter().for_each(|link| self.dialled(link, None));
    }

    pub fn link_down(&mut self, link: LinkId) {
        self.forget_link(link);
        self.node.handle_link_down(self.now, link);
        self.settle();
    }

    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        self.settle();
    }

    /// A piece was verified, and stored unless it is wrong.
    pub fn verified(&mut self, index: usize, right: bool, forged: bool) {
        let (broadcast, piece) = self.full.swap_remove(index);
        if right {
            self.stored.insert((broadcast, piece));
            self.node.handle_stored(self.now, broadcast, piece);
        } else {
            self.node.handle_wrong(self.now, broadcast, piece, forged);
        }
        self.settle();
    }

    pub fn sent(&mut self, index: usize) {
        let (link, ..) = self.sending.swap_remove(index);
        self.node.handle_sent(self.now, link);
        self.settle();
    }

    pub fn probed(&mut self, rtt: Option<Duration>) {
        if let Some(cluster) = self.probes.pop() {
            self.node.handle_probed(self.now, cluster, rtt);
            self.settle();
        }
    }
}

// ---- The application ----

impl World {
    pub fn broadcast(&mut self, descriptor: Descriptor) {
        let (length, piece_size) = (descriptor.length.unwrap_or(50_000), descriptor.piece_size);
        if let Some(id) = self.node.broadcast(self.now, descriptor, None) {
            self.own.insert(id, Own { length, piece_size, hashed: 0, ended: false });
        }
        self.settle();
    }

    /// The source of an own broadcast goes on: by a piece, or to its end.
    pub fn source(&mut self, id: BroadcastId, to_the_end: bool) {
        let Some(own) = self.own.get_mut(&id).filter(|own| !own.ended) else { return };
        let hash = Digest([7; 32]);
        let left = piece_count(own.length, own.piece_size) - own.hashed;
        if left > 1 && !to_the_end {
            own.hashed += 1;
            self.node.handle_hashed(self.now, id, hash);
        } else {
            (own.hashed, own.ended) = (own.hashed + left, true);
            let last = vec![hash; left as usize];
            self.node.handle_source_end(self.now, id, last, own.length, Digest([9; 32]));
        }
        self.settle();
    }

    /// Once for each that is offered.
    pub fn accept(&mut self, id: BroadcastId) {
        if self.offered.remove(&id) {
            self.node.accept(self.now, id);
            self.settle();
        }
    }

    pub fn decline(&mut self, id: BroadcastId) {
        self.node.decline(self.now, id, "no space".into());
        self.settle();
    }

    pub fn abort(&mut self, id: BroadcastId) {
        self.node.abort(self.now, id, "it has changed".into());
        self.settle();
    }

    pub fn confirm(&mut self, index: usize) {
        let id = self.complete.swap_remove(index);
        self.node.confirm(self.now, id);
        self.settle();
    }

    pub fn forget(&mut self, id: BroadcastId) {
        self.node.forget(self.now, id);
        self.heard.remove(&id);
        self.own.remove(&id);
        self.offered.remove(&id);
        self.known.remove(&id);
        self.full.retain(|&(broadcast, _)| broadcast != id);
        self.complete.retain(|&broadcast| broadcast != id);
        self.settle();
    }
}

// ---- Carrying out ----

impl World {
    /// Carries out everything that the node wants, and checks what must hold before the next input.
    pub fn settle(&mut self) {
        (self.outputs, self.frame_bytes) = (0, 0);
        self.drain();
        for round in 0.. {
            if self.node.poll_timeout() > self.now {
                break;
            }
            assert!(round < TIMEOUTS_AT_ONCE_MAX, "the node wants to be woken for ever");
            self.node.handle_timeout(self.now);
            self.drain();
        }
        self.node.check_invariants();
        assert!(self.outputs <= OUTPUTS_PER_STEP_MAX, "{} outputs of one step", self.outputs);
        assert!(self.frame_bytes <= FRAME_BYTES_PER_STEP_MAX, "{} bytes of frames of one step", self.frame_bytes);
        assert!(self.node.link_count() <= LINKS_MAX + LINKS_SPARE, "{} links", self.node.link_count());
        assert!(self.heard.len() + self.own.len() <= BROADCASTS_MAX, "{} broadcasts", self.heard.len());
    }

    fn drain(&mut self) {
        while let Some(output) = self.node.poll_output() {
            self.outputs += 1;
            self.carry_out(output);
        }
    }

    fn carry_out(&mut self, output: Output) {
        let now = self.now;
        match output {
            Output::Send { link, frame } => self.send(link, &frame),
            Output::SendToAll { links, frame } => links.into_iter().for_each(|link| self.send(link, &frame)),
            Output::SendPayload { link, broadcast, piece, range } => {
                assert!(self.holds(broadcast, piece), "serves {piece} of {broadcast}, which is not verified");
                assert!(!range.is_empty() && range.end <= mobcast_proto::limits::PIECE_SIZE_MAX);
                self.sending.push((link, broadcast, piece));
            }
            Output::CancelPayload { link, broadcast, piece } => {
                let before = self.sending.len();
                self.sending.retain(|&part| part != (link, broadcast, piece));
                (self.sending.len()..before).for_each(|_| self.node.handle_sent(now, link));
            }
            Output::Connect { link, dial, .. } => drop(self.dials.insert(link, dial)),
            Output::Close { link, .. } => self.forget_link(link),
            Output::Retire { link } => {
                self.asked.retain(|asked| asked.link != link);
                self.sending.retain(|&(of, ..)| of != link);
            }
            Output::Probe { cluster, .. } => self.probes.push(cluster),
            Output::Sign { token, signer, .. } => {
                let entitled = self.keeps_authority || !self.node.members().is_empty();
                assert!(signer != Signer::Authority || entitled, "a member signs as the authority");
                self.node.handle_signed(now, token, RIGHT);
            }
            Output::Verify { token, checks } => {
                let right = checks.iter().all(|check| check.signature == RIGHT);
                self.node.handle_verified(now, token, right);
            }
            Output::Certify { credential } => self.node.handle_certified(now, credential, RIGHT, vec![0x30; 8]),
            Output::Entrust { link, children } => self.send(link, &Frame::Entrust { authority: secret(), children }),
            Output::Keep { .. } => self.keeps_authority = true,
            Output::Identity { .. } => {}
            Output::Hashes { broadcast, first, hashes, .. } => {
                let known = self.known.entry(broadcast).or_default();
                assert_eq!(first.0, *known, "hashes of {broadcast} are out of order");
                *known += hashes.len() as u32;
            }
            Output::VerifyPiece { broadcast, piece } => self.full(broadcast, piece),
            Output::StoreWhole { broadcast, .. } => self.full(broadcast, PieceIndex(0)),
            Output::DropPiece { .. } => {}
            Output::Event(event) => self.event(event),
        }
    }

    fn full(&mut self, broadcast: BroadcastId, piece: PieceIndex) {
        assert!(!self.full.contains(&(broadcast, piece)), "{piece} of {broadcast} is verified twice at once");
        self.full.push((broadcast, piece));
    }

    fn send(&mut self, link: LinkId, frame: &Frame) {
        let bytes = frame.encode();
        self.frame_bytes += bytes.len();
        assert!(Frame::decode(&bytes).is_ok(), "sends what is no frame: {frame:?}");
        match frame {
            Frame::Request { broadcast, piece, range } => {
                let known = self.known.get(broadcast).copied().unwrap_or(0);
                assert!(piece.0 < known, "asks for {piece} of {broadcast}, whose hash it does not know");
                assert!(!self.stored.contains(&(*broadcast, *piece)), "asks for {piece}, which it has");
                self.asked.push(Asked { link, broadcast: *broadcast, piece: *piece, range: *range });
            }
            Frame::Cancel { broadcast, piece } => {
                self.asked.retain(|a| (a.link, a.broadcast, a.piece) != (link, *broadcast, *piece));
            }
            Frame::Have { broadcast, pieces, .. } => {
                let mut pieces = pieces.iter().flat_map(|run| run.pieces());
                assert!(pieces.all(|piece| self.holds(*broadcast, piece)), "announces what is not verified: {frame:?}");
            }
            _ => {}
        }
    }

    /// Whether a piece is verified and stored here, or comes from here.
    fn holds(&self, broadcast: BroadcastId, piece: PieceIndex) -> bool {
        let own = self.own.get(&broadcast).is_some_and(|own| piece.0 < own.hashed);
        own || self.stored.contains(&(broadcast, piece))
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Announced { broadcast, descriptor } => {
                self.stored.retain(|&(of, _)| of != broadcast);
                self.heard.insert(broadcast, Chain::new(&descriptor));
                self.offered.insert(broadcast);
            }
            Event::Complete { broadcast, length, .. } => {
                let state = self.node.broadcast_state(broadcast).expect("a complete broadcast is there");
                let pieces = piece_count(length, state.swarm().piece_size());
                assert!((0..pieces).all(|piece| self.holds(broadcast, PieceIndex(piece))), "complete with holes");
                self.complete.push(broadcast);
            }
            _ => {}
        }
    }

    fn forget_link(&mut self, link: LinkId) {
        self.links.remove(&link);
        self.dials.remove(&link);
        self.asked.retain(|asked| asked.link != link);
        self.sending.retain(|&(of, ..)| of != link);
    }

    pub fn first_link(&self) -> Option<LinkId> {
        self.links.keys().next().copied()
    }

    pub fn link_to(&self, node: NodeId) -> Option<LinkId> {
        self.links.iter().find(|&(_, &peer)| peer == node).map(|(&link, _)| link)
    }
}

/// What stands for the authority's key.
pub fn secret() -> Secret {
    Secret(vec![7; 49])
}

fn hello(identity: PeerIdentity, group: GroupId) -> Hello {
    let (node, cluster) = match identity {
        PeerIdentity::Joiner => (NODE_UNKNOWN, ClusterId::default()),
        PeerIdentity::Member { node, cluster } => (node, cluster),
    };
    Hello { version: PROTOCOL_VERSION, group, node, cluster, stream: 0, plain: false }
}
