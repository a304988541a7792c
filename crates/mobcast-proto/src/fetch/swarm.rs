//! The books of one broadcast at one node: which pieces it has, which its peers have, what was asked of whom. A
//! strategy reads them, and acts through the methods under "Actions".

use std::collections::BTreeMap;

use crate::content::have::{HaveSet, RUNS_PER_FRAME, Run, runs_of};
use crate::content::manifest::End;
use crate::content::object::{piece_count, piece_range};
use crate::fetch::open::{OpenPiece, Part};
use crate::fetch::peer::{Standing, SwarmPeer};
use crate::group::report::Traffic;
use crate::io::Output;
use crate::limits::OPEN_PIECES_BYTES_MAX;
use crate::random::Random;
use crate::strategy::message::StrategyMessage;
use crate::time::Time;
use crate::units::{BroadcastId, ByteRange, ClusterId, LinkId, NodeId, PieceIndex};
use crate::wire::frame::Frame;

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
    pub(super) peers: BTreeMap<LinkId, SwarmPeer>,
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
    flush_at: Option<Time>,
    wake_at: Option<Time>,
    outputs: Vec<Output>,
}

/// What became of payload that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The piece has all its bytes and is being verified.
    pub complete: bool,
    /// The peer may be asked for more.
    pub room: bool,
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
            peers: BTreeMap::new(),
            local_copies: Vec::new(),
            open: BTreeMap::new(),
            open_set: HaveSet::new(),
            open_bytes: 0,
            open_limit: OPEN_PIECES_BYTES_MAX,
            suspect: HaveSet::new(),
            traffic: Traffic::default(),
            paused: true,
            flush_at: None,
            wake_at: None,
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

    /// How the object ends, once that is known.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Pieces stored and verified.
    pub fn have(&self) -> &HaveSet {
        &self.have
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
        self.peers.iter().map(|(&link, peer)| (link, peer))
    }

    /// Links of all peers, in fixed order.
    pub fn links(&self) -> Vec<LinkId> {
        self.peers.keys().copied().collect()
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

    /// Whether there are pieces with known hashes that this node neither has nor asked anybody for.
    pub fn has_unasked(&self) -> bool {
        self.have.count() + self.open_set.count() < self.known
    }

    /// Whether a piece has to come from one peer alone.
    pub fn is_suspect(&self, piece: PieceIndex) -> bool {
        self.suspect.contains(piece)
    }

    /// Whether a peer may be asked for another piece: its window and the node's open pieces have room.
    pub fn has_room(&self, link: LinkId) -> bool {
        let within_limit = self.open_bytes + u64::from(self.piece_size) <= self.open_limit;
        !self.paused && within_limit && self.peers.get(&link).is_some_and(|peer| peer.window.has_room())
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
        assert!(piece.0 < self.known, "{piece} is asked for before its hash is known");
        assert!(!self.have.contains(piece), "{piece} is asked for and stored already");
        let len = self.piece_len(piece);
        let Some(peer) = self.peers.get_mut(&link) else { return false };
        let fresh = !self.open.contains_key(&piece);
        let open = self.open.entry(piece).or_insert_with(|| OpenPiece::new(len));
        if fresh {
            self.open_bytes += u64::from(len);
        }
        self.open_set.insert(piece);
        let Some(gap) = open.first_gap() else { return false };
        let alone = open.parts.is_empty() || !self.suspect.contains(piece);
        if !alone || open.parts.iter().any(|part| part.peer == link) {
            return false;
        }
        let mark = peer.window.handle_request(self.now, gap.len());
        open.parts.push(Part { peer: link, rest: gap, mark });
        self.send(link, Frame::Request { broadcast: self.id, piece, range: gap });
        true
    }

    /// Takes back what was asked of a peer for a piece. Bytes that have arrived stay.
    pub fn cancel(&mut self, link: LinkId, piece: PieceIndex) {
        if self.forget_part(link, piece) {
            self.send(link, Frame::Cancel { broadcast: self.id, piece });
        }
    }

    /// Tells a peer that this node has a piece, together with others.
    pub fn announce(&mut self, link: LinkId, piece: PieceIndex) {
        let (now, peers, size) = (self.now, self.peers.len(), self.piece_size);
        let Some(peer) = self.peers.get_mut(&link) else { return };
        if peer.have.contains(piece) || peer.announced.contains(piece) {
            return;
        }
        peer.to_announce.insert(piece);
        let due = peer.flush_due(now, peers, size);
        self.flush_at = Some(self.flush_at.map_or(due, |at| at.min(due)));
    }

    /// Sends a piece that was not asked for.
    pub fn push(&mut self, link: LinkId, piece: PieceIndex) {
        assert!(self.have.contains(piece), "{piece} is pushed and not stored");
        let range = ByteRange::whole(self.piece_len(piece));
        self.outputs.push(Output::SendPayload { link, broadcast: self.id, piece, range });
    }

    /// Says something to the same strategy at a peer.
    pub fn tell(&mut self, link: LinkId, message: StrategyMessage) {
        self.send(link, Frame::Strategy { broadcast: self.id, message });
    }

    /// Asks for [`crate::strategy::StrategyEvent::Timeout`] at a time; the earliest one asked for counts.
    pub fn wake_at(&mut self, time: Time) {
        self.wake_at = Some(self.wake_at.map_or(time, |at| at.min(time)));
    }

    // ---- Bookkeeping, for the broadcast ----

    pub(crate) fn set_now(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    pub(crate) fn take_outputs(&mut self) -> std::vec::Drain<'_, Output> {
        self.outputs.drain(..)
    }

    pub(crate) fn send(&mut self, link: LinkId, frame: Frame) {
        self.outputs.push(Output::Send { link, frame });
    }

    pub(crate) fn push_output(&mut self, output: Output) {
        self.outputs.push(output);
    }

    pub(crate) fn timeout(&self) -> Option<Time> {
        [self.flush_at, self.wake_at].into_iter().flatten().min()
    }

    /// At least a piece may always be open.
    pub(crate) fn set_open_limit(&mut self, bytes: u64) {
        self.open_limit = bytes.max(u64::from(self.piece_size));
    }

    pub(crate) fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
    }

    pub(crate) fn take_wake_up(&mut self) -> bool {
        let due = self.wake_at.is_some_and(|at| at <= self.now);
        if due {
            self.wake_at = None;
        }
        due
    }

    /// Says where this node stands. Which peers are local changes only with the first word of its own cluster.
    pub(crate) fn set_standing(&mut self, standing: Standing) {
        let moved = self.standing.cluster != standing.cluster;
        self.standing = standing;
        if !moved {
            return;
        }
        self.local_copies.clear();
        for peer in self.peers.values_mut() {
            peer.local = peer.cluster == self.standing.cluster;
            peer.window.set_local(peer.local);
            for piece in peer.have.iter().filter(|_| peer.local) {
                count_copy(&mut self.local_copies, piece);
            }
        }
    }

    pub(crate) fn add_peer(&mut self, link: LinkId, node: NodeId, cluster: ClusterId) {
        let mut peer = SwarmPeer::new(node, cluster, cluster == self.standing.cluster);
        peer.window.set_local(peer.local);
        self.peers.insert(link, peer);
    }

    /// Removes a peer; what was asked of it is missing again.
    pub(crate) fn remove_peer(&mut self, link: LinkId) {
        let asked: Vec<PieceIndex> = self
            .open
            .iter()
            .filter(|(_, open)| open.parts.iter().any(|part| part.peer == link))
            .map(|(&piece, _)| piece)
            .collect();
        for piece in asked {
            self.forget_part(link, piece);
        }
        if let Some(peer) = self.peers.remove(&link)
            && peer.local
        {
            for piece in peer.have.iter() {
                self.local_copies[piece.as_usize()] -= 1;
            }
        }
    }

    /// A peer has pieces; returns those that are news, as runs.
    pub(crate) fn add_have(&mut self, link: LinkId, batches: u32, runs: &[Run]) -> Vec<Run> {
        let Some(peer) = self.peers.get_mut(&link) else { return Vec::new() };
        peer.batches = peer.batches.max(batches);
        let mut fresh = Vec::new();
        for piece in runs.iter().flat_map(|run| run.pieces()) {
            if peer.have.insert(piece) {
                fresh.push(piece);
                peer.to_announce.remove(&piece);
                if peer.local {
                    count_copy(&mut self.local_copies, piece);
                }
            }
        }
        runs_of(fresh)
    }

    /// Hashes of more pieces are known.
    pub(crate) fn add_known(&mut self, pieces: u32, batches: u32, end: Option<End>) -> Run {
        let first = PieceIndex(self.known);
        self.known += pieces;
        self.batches = batches;
        self.end = end;
        self.announce_batches();
        Run { first, count: pieces }
    }

    /// A piece of this node's own source is known and stored at once.
    pub(crate) fn add_own(&mut self, piece: PieceIndex) {
        self.have.insert(piece);
    }

    /// Payload has arrived.
    pub(crate) fn add_payload(&mut self, link: LinkId, piece: PieceIndex, range: ByteRange) -> Arrival {
        self.count_in(link, range.len());
        let asked = self.open.get(&piece).is_some_and(|open| open.parts.iter().any(|part| part.peer == link));
        let Some(open) = self.open.get_mut(&piece).filter(|open| asked && range.end <= open.len()) else {
            // Sent before the peer knew that it is not wanted any more.
            self.traffic.wasted += u64::from(range.len());
            match self.open.get_mut(&piece) {
                // In the driver its bytes may lie among those of the peer that was asked.
                Some(open) if !open.contributors.contains(&link) => open.contributors.push(link),
                Some(_) => {}
                None => self.outputs.push(Output::DropPiece { broadcast: self.id, piece }),
            }
            return Arrival { complete: false, room: self.has_room(link) };
        };
        let was_complete = open.is_complete();
        self.traffic.wasted += u64::from(range.len() - open.insert(range));
        if !open.contributors.contains(&link) {
            open.contributors.push(link);
        }
        let complete = open.is_complete() && !was_complete;
        if complete {
            open.arrived_at = Some(self.now);
        }
        self.serve_part(link, piece, range);
        if complete {
            self.cancel_all(piece);
        }
        Arrival { complete, room: self.has_room(link) }
    }

    /// A piece is verified and stored.
    pub(crate) fn add_stored(&mut self, piece: PieceIndex) {
        self.cancel_all(piece);
        self.close_open(piece);
        let fresh = self.have.insert(piece);
        assert!(fresh, "{piece} is stored twice");
    }

    /// A piece was wrong: it is missing again. Returns who sent bytes of it.
    pub(crate) fn add_wrong(&mut self, piece: PieceIndex) -> Vec<LinkId> {
        self.cancel_all(piece);
        let contributors = self.close_open(piece).map(|open| open.contributors).unwrap_or_default();
        if contributors.len() > 1 {
            self.suspect.insert(piece);
        }
        contributors
    }

    /// A peer will not serve a request.
    pub(crate) fn add_rejected(&mut self, link: LinkId, piece: PieceIndex) {
        self.forget_part(link, piece);
        // Whoever rejects a request does not have the piece, whatever it said.
        if let Some(peer) = self.peers.get_mut(&link)
            && peer.have.remove(piece)
            && peer.local
        {
            self.local_copies[piece.as_usize()] -= 1;
        }
    }

    pub(crate) fn count_out(&mut self, link: LinkId, bytes: u32) {
        match self.peers.get(&link) {
            Some(peer) if peer.local => self.traffic.out_lan += u64::from(bytes),
            _ => self.traffic.out_wan += u64::from(bytes),
        }
    }

    /// Sends the have-messages that are due.
    pub(crate) fn flush(&mut self) {
        if self.flush_at.is_none_or(|at| at > self.now) {
            return;
        }
        self.flush_at = None;
        let (now, id, batches, peers, size) = (self.now, self.id, self.batches, self.peers.len(), self.piece_size);
        for (&link, peer) in &mut self.peers {
            if !peer.has_news(batches) {
                continue;
            }
            let due = peer.flush_due(now, peers, size);
            if due > now {
                self.flush_at = Some(self.flush_at.map_or(due, |at| at.min(due)));
                continue;
            }
            let pieces = std::mem::take(&mut peer.to_announce);
            for &piece in &pieces {
                peer.announced.insert(piece);
            }
            peer.batches_announced = batches;
            peer.flushed_at = Some(now);
            let runs = runs_of(pieces);
            let frames = runs.chunks(RUNS_PER_FRAME).map(|runs| runs.to_vec());
            let frames: Vec<Vec<Run>> = if runs.is_empty() { vec![Vec::new()] } else { frames.collect() };
            for pieces in frames {
                let frame = Frame::Have { broadcast: id, batches, pieces };
                self.outputs.push(Output::Send { link, frame });
            }
        }
    }

    /// Lets peers know how many manifest batches there are.
    pub(crate) fn announce_batches(&mut self) {
        let (now, batches, peers, size) = (self.now, self.batches, self.peers.len(), self.piece_size);
        let due = self.peers.values().filter(|p| p.has_news(batches)).map(|p| p.flush_due(now, peers, size)).min();
        if let Some(due) = due {
            self.flush_at = Some(self.flush_at.map_or(due, |at| at.min(due)));
        }
    }

    /// # Panics
    /// If the books do not add up: that is a bug.
    pub(crate) fn check_invariants(&self) {
        let open_bytes: u64 = self.open.values().map(|open| u64::from(open.len())).sum();
        assert_eq!(open_bytes, self.open_bytes, "open bytes are counted wrongly");
        assert!(open_bytes <= OPEN_PIECES_BYTES_MAX, "{open_bytes} bytes are open");
        for (&piece, open) in &self.open {
            assert!(!self.have.contains(piece), "{piece} is open and stored");
            assert!(piece.0 < self.known, "{piece} is open and its hash is not known");
            assert!(self.open_set.contains(piece) != (open.parts.is_empty() && !open.is_complete()), "{piece} is idle");
            assert!(open.parts.iter().all(|part| self.peers.contains_key(&part.peer)), "{piece} is asked of nobody");
        }
        for (link, peer) in &self.peers {
            let parts = self.open.values().flat_map(|open| &open.parts).filter(|part| part.peer == *link);
            let outstanding: u64 = parts.map(|part| u64::from(part.rest.len())).sum();
            assert_eq!(outstanding, peer.window.outstanding(), "what is asked of {link} is counted wrongly");
        }
        assert!(self.have.count() <= self.known || self.id.root == self.standing.node, "more stored than known");
    }

    fn count_in(&mut self, link: LinkId, bytes: u32) {
        match self.peers.get(&link) {
            Some(peer) if peer.local => self.traffic.in_lan += u64::from(bytes),
            _ => self.traffic.in_wan += u64::from(bytes),
        }
    }

    /// Notes that a peer has served a range of what was asked of it.
    fn serve_part(&mut self, link: LinkId, piece: PieceIndex, range: ByteRange) {
        let Some(open) = self.open.get_mut(&piece) else { return };
        let Some(at) = open.parts.iter().position(|part| part.peer == link && part.rest.start == range.start) else {
            return;
        };
        let Some(peer) = self.peers.get_mut(&link) else { return };
        let part = &mut open.parts[at];
        let served = range.len().min(part.rest.len());
        part.rest.start += served;
        peer.window.handle_bytes(self.now, served);
        if part.rest.is_empty() {
            let mark = part.mark;
            open.parts.remove(at);
            peer.window.handle_served(self.now, mark);
            self.reopen_if_idle(piece);
        }
    }

    fn cancel_all(&mut self, piece: PieceIndex) {
        let asked: Vec<LinkId> =
            self.open.get(&piece).map(|open| open.parts.iter().map(|part| part.peer).collect()).unwrap_or_default();
        for link in asked {
            self.cancel(link, piece);
        }
    }

    fn forget_part(&mut self, link: LinkId, piece: PieceIndex) -> bool {
        let Some(open) = self.open.get_mut(&piece) else { return false };
        let Some(at) = open.parts.iter().position(|part| part.peer == link) else { return false };
        let part = open.parts.remove(at);
        if let Some(peer) = self.peers.get_mut(&link) {
            peer.window.handle_dropped(part.rest.len());
        }
        self.reopen_if_idle(piece);
        true
    }

    /// A piece that nobody is asked for any more is missing again; one without a single byte needs no buffer.
    fn reopen_if_idle(&mut self, piece: PieceIndex) {
        let Some(open) = self.open.get(&piece) else { return };
        if !open.parts.is_empty() || open.is_complete() {
            return;
        }
        self.open_set.remove(piece);
        // Half a piece is worth keeping, but not so many of them that there is no room to ask for the other halves.
        if open.is_empty() || self.is_suspect(piece) || self.open_bytes > self.open_limit / 2 {
            self.close_open(piece);
        }
    }

    fn close_open(&mut self, piece: PieceIndex) -> Option<OpenPiece> {
        let open = self.open.remove(&piece)?;
        self.open_bytes -= u64::from(open.len());
        self.open_set.remove(piece);
        if !open.is_complete() {
            self.outputs.push(Output::DropPiece { broadcast: self.id, piece });
        }
        Some(open)
    }
}

fn count_copy(copies: &mut Vec<u16>, piece: PieceIndex) {
    if piece.as_usize() >= copies.len() {
        copies.resize(piece.as_usize() + 1, 0);
    }
    copies[piece.as_usize()] += 1;
}
