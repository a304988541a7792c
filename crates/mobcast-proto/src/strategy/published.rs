//! What MOB and Robber have in common as den Burger and Kielmann published them ([`super::mob_hpdc07`],
//! [`super::robber_tpds11`]): a planned random mesh; pieces that are this node's *work* and are wanted from peers in other
//! clusters, all others from local peers; five requests in flight on a link; a random piece of those that the peer has;
//! have-messages to all local peers, and to a peer in another cluster for what it has said that it wants.
//!
//! Links that the plan does not name, those of the control tree, carry nothing by these rules.
//!
//! Some things are ours, most of them because our groups change and theirs did not (the strategies' pages list all). A share follows the
//! plan. What a node that was given its share a moment ago may ask of other clusters waits for the rest of the group (the paper starts when
//! all connections are there). Whoever gets nothing for a while asks all its neighbours for help. Nobody imports what the root of its own
//! cluster has, or what a local peer has already.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::content::have::{HaveSet, RUNS_PER_FRAME, Run, bits_of, runs_of};
use crate::content::slots::SlotSet;
use crate::fetch::picker::{known_mask, pick_any};
use crate::fetch::swarm::Swarm;
use crate::strategy::StrategyEvent;
use crate::strategy::help;
use crate::strategy::message::StrategyMessage;
use crate::time::{Duration, Time};
use crate::units::{LinkId, PieceIndex};

use need::Served;

pub(super) mod links;
mod need;

/// Requests in flight on a link.
pub(super) const PENDING_MAX: usize = 5;
/// Bytes of a piece.
pub(super) const PIECE_BYTES: u32 = 32 << 10;
/// A share that has not changed for so long is taken for the one that stays: members are admitted in rounds of
/// 2 to 20 ms.
const SETTLED_AFTER: Duration = Duration::from_millis(100);
/// So long after the start nobody waits for others to join.
const SETTLED_BY: Duration = Duration::from_secs(2);

/// A node's part in what its cluster imports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    rank: u32,
    size: u32,
    /// Nobody imports what the root of the own cluster has, nor who has no link by which its share could come.
    imports: bool,
}

impl Place {
    fn of(swarm: &Swarm) -> Option<Place> {
        let plan = swarm.standing.plan.as_ref()?;
        let imports = plan.cluster_size > 0 && !swarm.in_root_cluster();
        Some(Place { rank: plan.rank(), size: plan.cluster_size.max(1), imports })
    }

    /// Its share of an object of so many pieces: from floor(r P / s) up to floor((r + 1) P / s).
    fn share(self, pieces: u32) -> Range<u32> {
        let edge = |rank: u64| (rank * u64::from(pieces) / u64::from(self.size)) as u32;
        edge(u64::from(self.rank))..edge(u64::from(self.rank) + 1)
    }

    fn owns(self, swarm: &Swarm, piece: PieceIndex) -> bool {
        self.imports
            && match swarm.total().filter(|_| !swarm.is_stream()) {
                Some(pieces) => self.share(pieces).contains(&piece.0),
                // Nobody knows where a part of a stream ends: its pieces are dealt out in turns.
                None => piece.0 % self.size == self.rank,
            }
    }

    /// Its share, as far as it is known.
    fn pieces(self, swarm: &Swarm) -> Vec<PieceIndex> {
        let known = 0..swarm.known();
        let all = swarm.total().filter(|_| !swarm.is_stream()).map_or(known, |pieces| self.share(pieces));
        all.map(PieceIndex).filter(|&piece| self.owns(swarm, piece)).collect()
    }
}

/// The common part of a strategy's state at one node.
#[derive(Default)]
pub(super) struct Exchange {
    /// Pieces that this node is to import and does not have.
    work: HaveSet,
    /// Pieces that are its to import, whether it has them or not: its share, with what it took from others and without what it gave away.
    own: HaveSet,
    /// Pieces that it gave away, and to whom: they are its own again if that peer is gone.
    given: BTreeMap<PieceIndex, LinkId>,
    place: Option<Place>,
    /// Links to peers that the plan names.
    linked: BTreeSet<LinkId>,
    /// What peers in other clusters want to hear of.
    desires: BTreeMap<LinkId, HaveSet>,
    /// Peers that have asked for help: they hear of everything.
    listeners: BTreeSet<LinkId>,
    /// When its share changed last.
    moved_at: Time,
    /// From when on this node asks other clusters, and when at the latest.
    settled_at: Time,
    settled_by: Time,
    /// Whether it has asked for help: then it fetches what is missing from anybody.
    in_need: bool,
    served: Served,
    /// Peers that were asked and were silent, and until when they are not asked again, unless they send something.
    mute: BTreeMap<LinkId, Time>,
    /// How long a peer that was silent before may be silent the next time.
    patience: BTreeMap<LinkId, Duration>,
    /// Bytes received when that was last seen to change, and when that was.
    arrived: u64,
    arrived_at: Time,
    next_tick: Time,
}

// ---- Events ----

impl Exchange {
    pub(super) fn handle(&mut self, event: &StrategyEvent<'_>, swarm: &mut Swarm) {
        match *event {
            StrategyEvent::Started => {
                self.arrived_at = swarm.now();
                self.settled_by = swarm.now() + SETTLED_BY;
                self.take_place(swarm);
                self.tick(swarm);
            }
            StrategyEvent::Resumed | StrategyEvent::AssignmentChanged => {
                self.take_place(swarm);
                self.fill_all(swarm);
            }
            StrategyEvent::PeerUp(peer) => {
                self.take_place(swarm);
                if self.in_need {
                    help::ask(swarm, peer);
                }
            }
            StrategyEvent::PeerDown(peer) => {
                self.linked.remove(&peer);
                self.desires.remove(&peer);
                self.listeners.remove(&peer);
                self.mute.remove(&peer);
                self.patience.remove(&peer);
                self.take_given_back(peer);
                self.take_back(swarm);
                self.fill_all(swarm);
            }
            StrategyEvent::Have { peer, pieces } => {
                if self.is_local(swarm, peer) {
                    self.at_hand(swarm, pieces.iter().flat_map(|run| run.pieces()));
                }
                self.fill(swarm, peer);
            }
            StrategyEvent::PiecesKnown(run) => self.pieces_known(swarm, run),
            StrategyEvent::PieceStored(piece) => self.stored(swarm, piece),
            StrategyEvent::PieceWrong(_) | StrategyEvent::RequestRejected { .. } => {
                self.take_back(swarm);
                self.fill_all(swarm);
            }
            StrategyEvent::PieceWanted { .. } => {}
            StrategyEvent::LinkMeasured(peer) => {
                self.mute.remove(&peer);
                self.fill(swarm, peer);
            }
            StrategyEvent::Message { peer, message } => self.message(swarm, peer, message),
            StrategyEvent::Timeout => {
                self.tick(swarm);
                self.fill_all(swarm);
            }
        }
    }

    /// The plan may name other peers, and the share be another one.
    fn take_place(&mut self, swarm: &mut Swarm) {
        let before = std::mem::take(&mut self.linked);
        let named = |swarm: &Swarm, link: &LinkId| {
            let plan = swarm.standing.plan.as_ref();
            plan.zip(swarm.peer(*link)).is_some_and(|(plan, peer)| plan.peers.contains(&peer.node))
        };
        self.linked = swarm.links().into_iter().filter(|link| named(swarm, link)).collect();
        let fresh: Vec<LinkId> = self.linked.difference(&before).copied().collect();
        let place = Place::of(swarm);
        let moved = place != self.place;
        self.place = place;
        if moved {
            self.take_share(swarm);
        } else {
            self.take_back(swarm);
            let changed: Vec<LinkId> = before.symmetric_difference(&self.linked).copied().collect();
            self.leave_help_if_planned_anew(swarm, changed.into_iter());
        }
        for link in fresh {
            self.greet(swarm, link, moved);
        }
    }

    fn take_share(&mut self, swarm: &mut Swarm) {
        // In a group that stood before the broadcast began there is nothing to wait for.
        self.moved_at = swarm.standing.placed_at.min(swarm.now());
        self.settled_at = (self.moved_at + SETTLED_AFTER).min(self.settled_by);
        swarm.wake_at(self.settled_at.max(swarm.now()));
        (self.work, self.own, self.given) = Default::default();
        for piece in self.place.map(|place| place.pieces(swarm)).unwrap_or_default() {
            self.own.insert(piece);
            if !swarm.have().contains(piece) && !self.is_at_hand(swarm, piece) {
                self.work.insert(piece);
            }
        }
        self.leave_help(swarm);
        self.tell_desires(swarm);
    }

    /// A peer of the plan is there: it is told what is wanted of it, and what there is for it.
    fn greet(&mut self, swarm: &mut Swarm, link: LinkId, desire_told: bool) {
        if self.is_local(swarm, link) {
            let pieces: Vec<PieceIndex> = swarm.peer(link).map(|peer| peer.have.iter().collect()).unwrap_or_default();
            self.at_hand(swarm, pieces);
        } else if !desire_told {
            self.tell_desire(swarm, link);
        }
        let pieces: Vec<PieceIndex> = swarm.have().iter().filter(|&piece| self.hears(swarm, link, piece)).collect();
        pieces.into_iter().for_each(|piece| swarm.announce(link, piece));
    }

    fn pieces_known(&mut self, swarm: &mut Swarm, run: Run) {
        if let Some(place) = self.place.filter(|_| swarm.is_stream()) {
            let own: Vec<PieceIndex> = run.pieces().filter(|&piece| place.owns(swarm, piece)).collect();
            let pieces: Vec<Run> = own.iter().map(|&first| Run { first, count: 1 }).collect();
            for piece in own {
                self.own.insert(piece);
                if !swarm.have().contains(piece) {
                    self.work.insert(piece);
                }
            }
            self.tell_added(swarm, &pieces);
        }
        self.fill_all(swarm);
    }

    fn stored(&mut self, swarm: &mut Swarm, piece: PieceIndex) {
        self.work.remove(piece);
        for link in swarm.links() {
            if self.hears(swarm, link, piece) {
                swarm.announce(link, piece);
            }
        }
        self.fill_all(swarm);
    }

    fn message(&mut self, swarm: &mut Swarm, peer: LinkId, message: &StrategyMessage) {
        match message {
            StrategyMessage::Desire { pieces } => {
                self.desires.remove(&peer);
                self.add_desire(swarm, peer, pieces);
            }
            StrategyMessage::Interest { slots, pieces } => {
                if slots.count() > 0 && self.listeners.insert(peer) {
                    help::announce_all(swarm, peer);
                }
                self.add_desire(swarm, peer, pieces);
            }
            _ => {}
        }
    }
}

// ---- Who is told what ----

impl Exchange {
    /// Whether a peer is to hear that this node has a piece.
    fn hears(&self, swarm: &Swarm, link: LinkId, piece: PieceIndex) -> bool {
        // The paper's have-set message: the root's peers are told once that it has everything.
        let all = || swarm.standing.node == swarm.id.root || self.is_local(swarm, link);
        let wanted = || self.desires.get(&link).is_some_and(|desire| desire.contains(piece));
        self.listeners.contains(&link) || (self.linked.contains(&link) && (all() || wanted()))
    }

    fn add_desire(&mut self, swarm: &mut Swarm, peer: LinkId, pieces: &[Run]) {
        let desire = self.desires.entry(peer).or_default();
        pieces.iter().flat_map(|run| run.pieces()).for_each(|piece| {
            desire.insert(piece);
        });
        let there: Vec<PieceIndex> = swarm.have().iter().filter(|&piece| desire.contains(piece)).collect();
        let linked = self.linked.contains(&peer);
        there.into_iter().filter(|_| linked).for_each(|piece| swarm.announce(peer, piece));
    }

    /// Tells the peers in other clusters what this node is to import.
    pub(super) fn tell_desires(&self, swarm: &mut Swarm) {
        for link in self.global_links(swarm) {
            self.tell_desire(swarm, link);
        }
    }

    fn tell_desire(&self, swarm: &mut Swarm, link: LinkId) {
        let runs = self.work.runs();
        let (first, rest) = runs.split_at(runs.len().min(RUNS_PER_FRAME));
        swarm.tell(link, StrategyMessage::Desire { pieces: first.to_vec() });
        for more in rest.chunks(RUNS_PER_FRAME) {
            swarm.tell(link, StrategyMessage::Interest { slots: SlotSet::none(), pieces: more.to_vec() });
        }
    }

    fn tell_added(&self, swarm: &mut Swarm, pieces: &[Run]) {
        for link in self.global_links(swarm) {
            for more in pieces.chunks(RUNS_PER_FRAME) {
                swarm.tell(link, StrategyMessage::Interest { slots: SlotSet::none(), pieces: more.to_vec() });
            }
        }
    }
}

// ---- Work ----

impl Exchange {
    /// Pieces to import that nobody was asked for, in order: Robber's gold.
    pub(super) fn unasked(&self, swarm: &Swarm) -> Vec<PieceIndex> {
        (0..self.work.word_count()).flat_map(|i| bits_of(i, self.work.word(i) & swarm.missing_word(i))).collect()
    }

    /// How many they are.
    pub(super) fn unasked_count(&self, swarm: &Swarm) -> u32 {
        (0..self.work.word_count()).map(|i| (self.work.word(i) & swarm.missing_word(i)).count_ones()).sum()
    }

    /// This node is to import pieces that were somebody else's; true if it lacks any of them.
    pub(super) fn add_work(&mut self, swarm: &Swarm, pieces: &[Run]) -> bool {
        let pieces = pieces.iter().flat_map(|run| run.pieces());
        let exists = |piece: &PieceIndex| piece.0 < swarm.total().unwrap_or(swarm.known());
        let mut lacks_any = false;
        for piece in pieces.filter(exists).filter(|&piece| !swarm.have().contains(piece)) {
            // Also what is at hand: whoever has it may be lost before it has passed it on.
            self.own.insert(piece);
            self.given.remove(&piece);
            if swarm.is_missing(piece) && !self.is_at_hand(swarm, piece) {
                self.work.insert(piece);
                lacks_any = true;
            }
        }
        lacks_any
    }

    /// Somebody else imports a piece.
    pub(super) fn give_away(&mut self, piece: PieceIndex, to: LinkId) {
        self.own.remove(piece);
        self.work.remove(piece);
        self.given.insert(piece, to);
    }

    /// A peer to which pieces were given is gone.
    fn take_given_back(&mut self, thief: LinkId) {
        let given = self.given.iter().filter(|(_, to)| **to == thief);
        let pieces: Vec<PieceIndex> = given.map(|(&piece, _)| piece).collect();
        for piece in pieces {
            self.given.remove(&piece);
            self.own.insert(piece);
        }
    }

    /// Whether the others know by now of the plan that gave this node its share.
    pub(super) fn is_settled(&self, swarm: &Swarm) -> bool {
        swarm.now().since(self.moved_at) >= SETTLED_AFTER
    }

    /// Whether this node imports anything at all.
    pub(super) fn imports(&self) -> bool {
        self.place.is_some_and(|place| place.imports)
    }

    /// A local peer has pieces: they come from there, unless they are on their way already.
    fn at_hand(&mut self, swarm: &Swarm, pieces: impl IntoIterator<Item = PieceIndex>) {
        for piece in pieces.into_iter().filter(|&piece| swarm.is_missing(piece)) {
            self.work.remove(piece);
        }
    }

    fn is_at_hand(&self, swarm: &Swarm, piece: PieceIndex) -> bool {
        let has = |link: &LinkId| swarm.peer(*link).is_some_and(|peer| peer.local && peer.have.contains(piece));
        self.linked.iter().any(has)
    }

    /// What was to come from local peers is to be imported after all, if it is this node's and none of them has it any more.
    fn take_back(&mut self, swarm: &mut Swarm) {
        let local = self.local_links(swarm);
        let near: Vec<&HaveSet> = local.iter().filter_map(|&link| Some(&swarm.peer(link)?.have)).collect();
        let at_hand = |i: usize| near.iter().fold(0, |word, have| word | have.word(i));
        let lost = |i: usize| self.own.word(i) & swarm.missing_word(i) & !self.work.word(i) & !at_hand(i);
        let lost: Vec<PieceIndex> = (0..self.own.word_count()).flat_map(|i| bits_of(i, lost(i))).collect();
        for &piece in &lost {
            self.work.insert(piece);
        }
        self.tell_added(swarm, &runs_of(lost));
    }
}

// ---- Requests ----

impl Exchange {
    /// Whether a link leads to a local peer of the plan.
    pub(super) fn is_local(&self, swarm: &Swarm, link: LinkId) -> bool {
        self.linked.contains(&link) && swarm.peer(link).is_some_and(|peer| peer.local)
    }

    /// Links to local peers of the plan.
    pub(super) fn local_links(&self, swarm: &Swarm) -> Vec<LinkId> {
        self.linked.iter().copied().filter(|&link| self.is_local(swarm, link)).collect()
    }

    /// Links to peers of the plan in other clusters.
    pub(super) fn global_links(&self, swarm: &Swarm) -> Vec<LinkId> {
        self.linked.iter().copied().filter(|&link| !self.is_local(swarm, link)).collect()
    }

    pub(super) fn fill_all(&mut self, swarm: &mut Swarm) {
        let mut links = swarm.links();
        if swarm.has_open_room() && !links.is_empty() {
            // Whoever is asked first is another one each time.
            let start = swarm.random.below(links.len());
            links.rotate_left(start);
            links.into_iter().for_each(|link| self.fill(swarm, link));
        }
    }

    /// Asks a peer for pieces while fewer than five requests are in flight.
    fn fill(&mut self, swarm: &mut Swarm, link: LinkId) {
        if self.mute.contains_key(&link) {
            return;
        }
        while swarm.has_open_room() && swarm.requests_at(link) < PENDING_MAX && !self.has_help_enough(swarm, link) {
            let Some(piece) = self.choose(swarm, link) else { return };
            if !swarm.request(link, piece) {
                return;
            }
        }
    }

    /// A random piece among those that a peer has and that are wanted of it.
    fn choose(&self, swarm: &mut Swarm, link: LinkId) -> Option<PieceIndex> {
        let mut random = swarm.random.clone();
        let peer = swarm.peer(link)?;
        let linked = self.linked.contains(&link);
        let settled = swarm.now() >= self.settled_at;
        let near: Vec<&HaveSet> = match self.in_need && !peer.local {
            true => {
                swarm.peers().filter(|(l, p)| p.local && !self.mute.contains_key(l)).map(|(_, p)| &p.have).collect()
            }
            false => Vec::new(),
        };
        let wanted = |i: usize| match (self.in_need, linked, peer.local) {
            (true, _, true) => u64::MAX,
            (true, _, false) => !near.iter().fold(0, |word, have| word | have.word(i)),
            (false, true, true) => !self.work.word(i),
            (false, true, false) if settled => self.work.word(i),
            (false, ..) => 0,
        };
        let askable = swarm.askable();
        let words = peer.have.word_count().min((askable as usize).div_ceil(64));
        let candidates = |i: usize| peer.have.word(i) & swarm.missing_word(i) & known_mask(askable, i) & wanted(i);
        let piece = pick_any(&mut random, words, candidates);
        swarm.random = random;
        piece
    }
}

// ---- Watching ----

impl Exchange {
    pub(super) fn explain(&self, swarm: &Swarm, piece: PieceIndex) -> String {
        let work = self.work.contains(piece);
        let (local, global) = (self.local_links(swarm).len(), self.global_links(swarm).len());
        format!("to be imported {work}, {local} local and {global} global peers, has asked for help: {}", self.in_need)
    }

    pub(super) fn check_invariants(&self, swarm: &Swarm) {
        for piece in self.work.iter() {
            assert!(!swarm.have().contains(piece), "{piece} is to be imported and stored already");
        }
        assert!(self.imports() || self.work.is_empty(), "the root's cluster imports");
        for link in swarm.links() {
            let requests = swarm.requests_at(link);
            assert!(requests <= PENDING_MAX, "{requests} requests in flight to {link}");
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
