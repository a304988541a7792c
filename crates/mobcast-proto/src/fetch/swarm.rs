//! The books of one broadcast at one node: which pieces it has, which its peers have, what was asked of whom. A
//! strategy reads them, and acts through the methods under "Actions".

use std::collections::BTreeMap;

use crate::content::have::{HaveSet, RUNS_PER_FRAME, Run, runs_of};
use crate::content::manifest::End;
use crate::content::object::{piece_count, piece_range};
use crate::fetch::open::{OpenPiece, Part};
use crate::fetch::peer::{Audience, Standing, SwarmPeer};
use crate::group::report::Traffic;
use crate::io::{OUTPUTS_KEPT, Output};
use crate::limits::OPEN_PIECES_BYTES_MAX;
use crate::random::Random;
use crate::sorted_map::SortedMap;
use crate::strategy::message::StrategyMessage;
use crate::time::{Duration, Time};
use crate::units::{BroadcastId, ByteRange, ClusterId, LinkId, NodeId, PieceIndex};
use crate::wire::frame::Frame;

/// Such a part of what may be open is left to what comes from the own cluster.
const LOCAL_PART: u64 = 4;

/// One broadcast at one node.
#[derive(Debug)]
pub struct Swarm {
    /// The broadcast.
    pub id: BroadcastId,
    /// Where this node stands.
    pub standing: Standing,
    /// Chance, seeded.
    pub random: Random,
    now: Time,
    piece_size: u32,
    index_pieces: u32,
    length: Option<u64>,
    known: u32,
    end: Option<End>,
    batches: u32,
    have: HaveSet,
    pub(super) peers: SortedMap<LinkId, SwarmPeer>,
    local_copies: Vec<u16>,
    open: BTreeMap<PieceIndex, OpenPiece>,
    open_set: HaveSet,
    open_bytes: u64,
    /// This broadcast's part of the node's limit of open pieces.
    open_limit: u64,
    /// Pieces that were wrong with several contributors: the next try comes from one, who can be blamed.
    suspect: HaveSet,
    traffic: Traffic,
    /// While the node has no place for pieces.
    paused: bool,
    /// When pieces were first asked for, and how many were there then.
    began: Option<(Time, u32)>,
    flush_at: Option<Time>,
    wake_at: Option<Time>,
    rate_limits: Vec<(LinkId, Option<u64>)>,
    pushes: Vec<(LinkId, PieceIndex)>,
    outputs: Vec<Output>,
}

/// What became of payload that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Some of it was missing.
    pub fresh: bool,
    /// The piece has all its bytes and is being verified.
    pub complete: bool,
    /// The peer may be asked for more.
    pub room: bool,
    /// The peer sends so little at a time that keeping the books costs more than the payload is worth.
    pub crumbs: bool,
}

impl Swarm {
    /// The books of a broadcast of which nothing has arrived. `length` is the object's, where known.
    pub fn new(id: BroadcastId, piece_size: u32, index_length: u64, length: Option<u64>, seed: u64) -> Swarm {
        Swarm {
            id,
            standing: Standing::default(),
            random: Random::new(seed),
            now: Time::ZERO,
            piece_size,
            index_pieces: piece_count(index_length, piece_size),
            length,
            known: 0,
            end: None,
            batches: 0,
            have: HaveSet::new(),
            peers: SortedMap::default(),
            local_copies: Vec::new(),
            open: BTreeMap::new(),
            open_set: HaveSet::new(),
            open_bytes: 0,
            open_limit: OPEN_PIECES_BYTES_MAX,
            suspect: HaveSet::new(),
            traffic: Traffic::default(),
            paused: true,
            began: None,
            flush_at: None,
            wake_at: None,
            rate_limits: Vec::new(),
            pushes: Vec::new(),
            outputs: Vec::new(),
        }
    }

    // ---- Reading ----

    /// The time of the event being handled.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Bytes of a piece, but the last.
    pub fn piece_size(&self) -> u32 {
        self.piece_size
    }

    /// Bytes of this piece.
    pub fn piece_len(&self, piece: PieceIndex) -> u32 {
        match self.end.map(|end| end.length).or(self.length) {
            Some(length) => piece_range(piece, length, self.piece_size).len(),
            None => self.piece_size,
        }
    }

    /// Pieces whose hashes are known: the first ones of the object.
    pub fn known(&self) -> u32 {
        self.known
    }

    /// The first pieces, of which others may be asked for: those of the tree index alone while it is not complete, because
    /// the places of all others are in it.
    pub fn askable(&self) -> u32 {
        let index = self.index_pieces.min(self.known);
        let complete = (0..self.index_pieces).all(|piece| self.have.contains(PieceIndex(piece)));
        if complete { self.known } else { index }
    }

    /// Pieces that have to come first, because the places of all others are in them.
    pub fn index_pieces(&self) -> u32 {
        self.index_pieces
    }

    /// Pieces of the whole object, once that is known.
    pub fn total(&self) -> Option<u32> {
        match self.end {
            Some(_) => Some(self.known),
            None => self.length.map(|length| piece_count(length, self.piece_size)),
        }
    }

    /// Whether nobody knew beforehand how long the object would be.
    pub fn is_stream(&self) -> bool {
        self.length.is_none()
    }

    /// How the object ends, once that is known.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Pieces stored and verified.
    pub fn have(&self) -> &HaveSet {
        &self.have
    }

    /// Whether a peer says that it has something that is missing here.
    pub fn is_obtainable(&self) -> bool {
        self.peers().any(|(_, peer)| peer.have.missing_from(&self.have) > 0)
    }

    /// Whether every piece of the whole object is stored.
    pub fn is_complete(&self) -> bool {
        self.end.is_some() && self.have.count() == self.known
    }

    /// Whether the root is in this node's cluster, and not said to be gone.
    pub fn in_root_cluster(&self) -> bool {
        self.standing.root_cluster == Some(self.standing.cluster)
    }

    /// Peers, in fixed order.
    pub fn peers(&self) -> impl Iterator<Item = (LinkId, &SwarmPeer)> {
        self.peers.iter()
    }

    /// Links of all peers, in fixed order.
    pub fn links(&self) -> Vec<LinkId> {
        self.peers.keys().collect()
    }

    /// One peer.
    pub fn peer(&self, link: LinkId) -> Option<&SwarmPeer> {
        self.peers.get(&link)
    }

    /// Local peers that have a piece.
    pub fn local_copies(&self, piece: PieceIndex) -> u16 {
        self.local_copies.get(piece.as_usize()).copied().unwrap_or(0)
    }

    /// Pieces asked for and not stored yet.
    pub fn open(&self) -> impl Iterator<Item = (PieceIndex, &OpenPiece)> {
        self.open.iter().map(|(&piece, open)| (piece, open))
    }

    /// One such piece.
    pub fn open_piece(&self, piece: PieceIndex) -> Option<&OpenPiece> {
        self.open.get(&piece)
    }

    /// The 64 pieces from `index * 64` on that this node neither has nor asked for (nor, for pieces on their way,
    /// waits for anybody to send), as bits.
    pub fn missing_word(&self, index: usize) -> u64 {
        !self.have.word(index) & !self.open_set.word(index)
    }

    /// Whether this node neither has nor asked for a piece.
    pub fn is_missing(&self, piece: PieceIndex) -> bool {
        !self.have.contains(piece) && !self.open_set.contains(piece)
    }

    /// Whether somebody was asked for a piece that is not stored yet.
    pub fn is_asked_for(&self, piece: PieceIndex) -> bool {
        self.open_set.contains(piece)
    }

    /// Whether there are pieces with known hashes that this node neither has nor asked anybody for.
    pub fn has_unasked(&self) -> bool {
        self.unasked() > 0
    }

    /// Pieces with known hashes that this node neither has nor asked anybody for.
    pub fn unasked(&self) -> u32 {
        self.known.saturating_sub(self.have.count() + self.open_set.count())
    }

    /// Whether a piece has to come from one peer alone.
    pub fn is_suspect(&self, piece: PieceIndex) -> bool {
        self.suspect.contains(piece)
    }

    /// Whether a peer may be asked for another piece: its window and the node's open pieces have room.
    pub fn has_room(&self, link: LinkId) -> bool {
        self.has_open_room() && self.window_has_room(link) && self.leaves_local_room(link)
    }

    /// Whether a piece of another cluster leaves room for those of this one. What is on its way over long links may be more than may be
    /// open, and a node that only imported would have nothing of what the others did.
    fn leaves_local_room(&self, link: LinkId) -> bool {
        let far = |link: &LinkId| self.peers.get(link).is_some_and(|peer| !peer.local);
        let most = self.open_limit - self.open_limit / LOCAL_PART;
        if self.standing.cluster_size < 2 || self.open_bytes < most || !far(&link) {
            return true;
        }
        let imports = self.peers.values().filter(|peer| !peer.local).map(|peer| peer.window.outstanding());
        let imports: u64 = imports.sum();
        imports == 0 || imports + u64::from(self.piece_size) <= most
    }

    /// Whether a peer may be asked for more of a piece that is open: its window has room.
    pub fn window_has_room(&self, link: LinkId) -> bool {
        !self.paused && self.peers.get(&link).is_some_and(|peer| peer.window.has_room())
    }

    /// Whether the node's open pieces have room for another one, for strategies that do not ask by windows.
    pub fn has_open_room(&self) -> bool {
        !self.paused && self.open_bytes + u64::from(self.piece_size) <= self.open_limit
    }

    /// Pieces that may be open at a time.
    pub fn open_max(&self) -> usize {
        (self.open_limit / u64::from(self.piece_size)) as usize
    }

    /// Requests to a peer that are not served in full.
    pub fn requests_at(&self, link: LinkId) -> usize {
        self.open.values().flat_map(|open| &open.parts).filter(|part| part.peer == link).count()
    }

    /// Whether the node has no place for pieces: the application has not said where they should go, or it is over.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether the limit of open pieces may have kept links idle before the last piece was stored.
    pub fn was_crowded(&self) -> bool {
        self.open_bytes + 2 * u64::from(self.piece_size) > self.open_limit
    }

    /// Payload that crossed this node's links.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    // ---- Actions ----

    /// Asks a peer for what is missing of a piece (its first gap). False if that is nothing, or the peer is gone.
    pub fn request(&mut self, link: LinkId, piece: PieceIndex) -> bool {
        self.ask(link, piece, |open| open.first_gap_for(link))
    }

    /// Asks a peer for a block: the first bytes of a piece that nobody has been asked for, at most so many. Of several blocks
    /// of a piece each is a request of its own. False if there are no such bytes, or the peer is gone.
    pub fn request_block(&mut self, link: LinkId, piece: PieceIndex, bytes_max: u32) -> bool {
        let block = |gap: ByteRange| ByteRange { start: gap.start, end: gap.end.min(gap.start + bytes_max) };
        self.ask(link, piece, |open| open.first_unasked().map(block))
    }

    fn ask(&mut self, link: LinkId, piece: PieceIndex, choose: impl FnOnce(&OpenPiece) -> Option<ByteRange>) -> bool {
        let Some(range) = self.expect(link, piece, choose) else { return false };
        self.send(link, Frame::Request { broadcast: self.id, piece, range });
        true
    }

    /// Takes back everything that was asked of a peer for a piece. Bytes that have arrived stay.
    pub fn cancel(&mut self, link: LinkId, piece: PieceIndex) {
        if self.forget_part(link, piece) {
            self.send(link, Frame::Cancel { broadcast: self.id, piece });
        }
    }

    /// Tells a peer that this node has a piece, together with others; not if it has the piece itself.
    pub fn announce(&mut self, link: LinkId, piece: PieceIndex) {
        if !self.peers.get(&link).is_some_and(|peer| peer.have.contains(piece)) {
            self.announce_always(link, piece);
        }
    }

    /// Tells those of its peers that `wants` names that this node has a piece, together with others; not those that have it themselves.
    pub fn announce_to(&mut self, piece: PieceIndex, wants: impl Fn(LinkId, &SwarmPeer) -> bool) {
        let (now, patience, batches) = (self.now, self.audience().patience(), self.batches);
        for (link, peer) in self.peers.iter_mut() {
            if peer.have.contains(piece) || peer.announced.contains(piece) || !wants(link, peer) {
                continue;
            }
            peer.add_news(piece);
            let due = peer.flush_due(now, patience, batches);
            self.flush_at = Some(self.flush_at.map_or(due, |at| at.min(due)));
        }
    }

    /// Tells a peer that this node has a piece, together with others.
    pub fn announce_always(&mut self, link: LinkId, piece: PieceIndex) {
        let (now, patience, batches) = (self.now, self.audience().patience(), self.batches);
        let Some(peer) = self.peers.get_mut(&link) else { return };
        if peer.announced.contains(piece) {
            return;
        }
        peer.add_news(piece);
        let due = peer.flush_due(now, patience, batches);
        self.flush_at = Some(self.flush_at.map_or(due, |at| at.min(due)));
    }

    /// What a peer is to be told waits for no more company: it has asked for it.
    pub fn hasten(&mut self, link: LinkId) {
        let Some(peer) = self.peers.get_mut(&link).filter(|peer| !peer.to_announce.is_empty()) else { return };
        peer.flushed_at = None;
        self.flush_at = Some(self.now);
    }

    /// Sends a piece that was not asked for. It is behind what the peer has asked for, and is taken only if the peer's strategy takes
    /// such pieces, knows the hash and has room.
    pub fn push(&mut self, link: LinkId, piece: PieceIndex) {
        assert!(self.have.contains(piece), "{piece} is pushed and not stored");
        self.pushes.push((link, piece));
    }

    /// Says something to the same strategy at a peer.
    pub fn tell(&mut self, link: LinkId, message: StrategyMessage) {
        self.send(link, Frame::Strategy { broadcast: self.id, message });
    }

    /// Limits what this node sends to a peer to a rate in bytes per second, or takes the limit back.
    pub fn limit_rate(&mut self, link: LinkId, rate_bytes_per_s: Option<u64>) {
        self.rate_limits.push((link, rate_bytes_per_s));
    }

    /// Keeps at most so many requests outstanding at a peer, whatever its window would be.
    pub fn limit_requests(&mut self, link: LinkId, requests: u32) {
        if let Some(peer) = self.peers.get_mut(&link) {
            peer.window.set_requests_max(requests);
        }
    }

    /// Asks for [`crate::strategy::StrategyEvent::Timeout`] at a time; the earliest one asked for counts.
    pub fn wake_at(&mut self, time: Time) {
        self.wake_at = Some(self.wake_at.map_or(time, |at| at.min(time)));
    }
}

mod books;
