//! `bittorrent`: BitTorrent as den Burger and Kielmann describe and use it for broadcasts (HPDC 2007, section 2.5, with the
//! choices of the original client; Cohen, P2PECON 2003). It is here to be compared with, so its rules and numbers are the
//! published ones:
//!
//! 1. A node knows up to 35 others by chance, of whatever cluster ([`neighbours`]); the coordinator gives out the lists.
//! 2. Neighbours tell each other every piece that they have, and whether they want something of what the other one has.
//! 3. A node serves five of those that want something: tit for tat ([`choker`]). It asks only who serves it.
//! 4. It keeps five requests outstanding at each, of 16 KiB, of a piece chosen at random; a peer that has begun a piece
//!    finishes it first.
//!
//! The rule that who is choked is not served is kept by the one who asks: the core serves what it is asked for. Not described
//! there, and absent: the end game and the rule against peers that snub. What is added, for groups in which nodes die, is
//! in [`help`].
//!
//! `docs/strategies/bittorrent.md` tells the whole story.

use std::collections::BTreeMap;

use crate::content::have::Run;
use crate::fetch::open::OpenPiece;
use crate::fetch::picker::{known_mask, pick, pick_any};
use crate::fetch::swarm::Swarm;
use crate::strategy::message::StrategyMessage;
use crate::strategy::{Strategy, StrategyEvent, StrategyKind};
use crate::units::{LinkId, PieceIndex};

use choker::{Candidate, Choker, Meter};
use help::Help;

mod choker;
mod help;
mod neighbours;
#[cfg(test)]
mod tests;

/// Bytes of a piece, unless told otherwise: the original client's.
const PIECE_BYTES: u32 = 256 << 10;
/// Bytes of a request.
const BLOCK_BYTES: u32 = 16 << 10;
/// Requests outstanding at a peer.
const REQUESTS: u32 = 5;

/// The entry of the registry.
pub const KIND: StrategyKind = StrategyKind {
    name: "bittorrent",
    summary: "all swap random pieces with those who give most in return, in whatever cluster",
    make: || Box::new(BitTorrent::new(PieceOrder::Random)),
    planner: Some(neighbours::random),
    needs_network: false,
    piece_size: Some(PIECE_BYTES),
    in_parts: false,
};

/// The same with another order of pieces (Cohen 2003).
pub const RAREST: StrategyKind = StrategyKind {
    name: "bittorrent-rarest",
    summary: "bittorrent that asks for the piece first that the fewest neighbours have",
    make: || Box::new(BitTorrent::new(PieceOrder::RarestFirst)),
    ..KIND
};

/// The same with other neighbours (Bindal and others, ICDCS 2006).
pub const BIASED: StrategyKind = StrategyKind {
    name: "bittorrent-biased",
    summary: "bittorrent in which all neighbours of a node but one are of its own cluster",
    planner: Some(neighbours::biased),
    ..KIND
};

/// Which piece comes first, of those that a peer has and this node neither has nor has asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PieceOrder {
    /// Any.
    Random,
    /// One that the fewest neighbours have.
    RarestFirst,
}

/// A peer with which pieces are swapped.
struct Neighbour {
    /// Pieces that it has and this node has not.
    useful: u32,
    /// Whether it was told that this node wants some of them.
    interested: bool,
    /// Whether it wants something of this node.
    wants: bool,
    /// Whether it does not serve this node.
    chokes: bool,
    /// What it has sent.
    download: Meter,
    /// What it was sent.
    upload: Meter,
}

/// The strategy's state at one node.
pub struct BitTorrent {
    order: PieceOrder,
    neighbours: BTreeMap<LinkId, Neighbour>,
    choker: Choker,
    help: Help,
}

impl Strategy for BitTorrent {
    fn handle(&mut self, event: StrategyEvent<'_>, swarm: &mut Swarm) {
        match event {
            StrategyEvent::Started => {
                self.choker.begin(swarm.now());
                self.arm(swarm);
            }
            StrategyEvent::Resumed => {
                self.help.begin(swarm.now());
                self.fill_all(swarm);
            }
            StrategyEvent::PeerUp(peer) => self.peer_up(swarm, peer),
            StrategyEvent::PeerDown(peer) => self.peer_down(swarm, peer),
            StrategyEvent::Have { peer, pieces } => self.peer_has(swarm, peer, pieces),
            StrategyEvent::PiecesKnown(_) => self.fill_all(swarm),
            StrategyEvent::PieceStored(piece) => self.stored(swarm, piece),
            StrategyEvent::PieceWrong(_) => self.fill_all(swarm),
            StrategyEvent::RequestRejected { peer, .. } => {
                self.count_useful(swarm, peer);
                self.fill_all(swarm);
            }
            StrategyEvent::PieceWanted { .. } => {}
            StrategyEvent::LinkMeasured(peer) => {
                self.help.peer_sends(peer);
                self.fill(swarm, peer);
            }
            StrategyEvent::Message { peer, message } => self.message(swarm, peer, message),
            StrategyEvent::Timeout => {
                if swarm.now() >= self.choker.due() {
                    self.review(swarm);
                }
                self.tick(swarm);
                self.arm(swarm);
            }
            StrategyEvent::AssignmentChanged => {
                swarm.links().into_iter().for_each(|link| self.meet_if_told(swarm, link))
            }
        }
    }

    fn explain(&self, swarm: &Swarm, piece: PieceIndex) -> String {
        let mut said = format!("asks everybody for help: {}", self.help.in_need);
        for (link, peer) in swarm.peers().filter(|(_, peer)| peer.have.contains(piece)) {
            let state = match self.neighbours.get(&link) {
                None => "is no neighbour",
                Some(neighbour) if neighbour.chokes => "chokes",
                Some(_) => "serves",
            };
            said += &format!(", {} {state} ({} requests)", peer.node, peer.window.requests());
        }
        said
    }

    fn check_invariants(&self, swarm: &Swarm) {
        for (&link, neighbour) in &self.neighbours {
            let peer = swarm.peer(link).expect("a neighbour is a peer");
            assert_eq!(neighbour.useful, peer.have.missing_from(swarm.have()), "what {link} has is counted wrongly");
            assert_eq!(neighbour.interested, neighbour.useful > 0, "{link} was not told whether it is of use");
        }
        for (link, peer) in swarm.peers() {
            let requests = peer.window.requests();
            assert!(requests <= REQUESTS, "{requests} requests at {link}");
            assert!(requests == 0 || self.help.in_need || self.serves(link), "{link} is asked and does not serve");
        }
        let wants = |link: LinkId| self.neighbours.get(&link).is_some_and(|neighbour| neighbour.wants);
        self.choker.check_invariants(wants);
    }
}

// ---- Neighbours ----

impl BitTorrent {
    fn new(order: PieceOrder) -> BitTorrent {
        BitTorrent { order, neighbours: BTreeMap::new(), choker: Choker::default(), help: Help::default() }
    }

    fn peer_up(&mut self, swarm: &mut Swarm, peer: LinkId) {
        swarm.limit_requests(peer, REQUESTS);
        self.meet_if_told(swarm, peer);
        self.ask_newcomer_for_help(swarm, peer);
    }

    fn peer_down(&mut self, swarm: &mut Swarm, peer: LinkId) {
        self.help.forget(peer);
        if self.neighbours.remove(&peer).is_some() {
            self.review(swarm);
        }
        self.fill_all(swarm);
    }

    /// A peer becomes a neighbour if this node was told to connect to it.
    fn meet_if_told(&mut self, swarm: &mut Swarm, link: LinkId) {
        let Some(node) = swarm.peer(link).map(|peer| peer.node) else { return };
        if swarm.standing.plan.as_ref().is_some_and(|plan| plan.peers.contains(&node)) {
            self.meet(swarm, link);
        }
    }

    /// A peer becomes a neighbour, and learns that by being told whether this node wants something. It stays one while the
    /// link lasts.
    fn meet(&mut self, swarm: &mut Swarm, link: LinkId) {
        let Some(peer) = swarm.peer(link).filter(|_| !self.neighbours.contains_key(&link)) else { return };
        let useful = peer.have.missing_from(swarm.have());
        let neighbour = Neighbour {
            useful,
            interested: useful > 0,
            wants: false,
            chokes: true,
            download: Meter::new(swarm.now(), peer.window.delivered()),
            upload: Meter::new(swarm.now(), peer.sent_bytes),
        };
        self.neighbours.insert(link, neighbour);
        swarm.tell(link, interest(useful > 0));
        let pieces: Vec<PieceIndex> = swarm.have().iter().collect();
        pieces.into_iter().for_each(|piece| swarm.announce_always(link, piece));
    }

    fn message(&mut self, swarm: &mut Swarm, peer: LinkId, message: &StrategyMessage) {
        match message {
            StrategyMessage::Interested | StrategyMessage::NotInterested => {
                self.meet(swarm, peer);
                if let Some(neighbour) = self.neighbours.get_mut(&peer) {
                    neighbour.wants = *message == StrategyMessage::Interested;
                    self.review(swarm);
                }
            }
            StrategyMessage::Choke => {
                if let Some(neighbour) = self.neighbours.get_mut(&peer) {
                    neighbour.chokes = true;
                    take_back(swarm, peer);
                    self.fill_all(swarm);
                }
            }
            StrategyMessage::Unchoke => {
                if let Some(neighbour) = self.neighbours.get_mut(&peer) {
                    neighbour.chokes = false;
                    self.is_served(swarm, peer);
                    self.fill(swarm, peer);
                }
            }
            StrategyMessage::Interest { .. } => self.listen(swarm, peer),
            _ => {}
        }
    }

    fn peer_has(&mut self, swarm: &mut Swarm, peer: LinkId, pieces: &[Run]) {
        if let Some(neighbour) = self.neighbours.get_mut(&peer) {
            let fresh = pieces.iter().flat_map(|run| run.pieces()).filter(|&piece| !swarm.have().contains(piece));
            neighbour.useful += fresh.count() as u32;
            neighbour.tell_interest(swarm, peer);
        }
        self.fill(swarm, peer);
    }

    fn stored(&mut self, swarm: &mut Swarm, piece: PieceIndex) {
        for (&link, neighbour) in &mut self.neighbours {
            if swarm.peer(link).is_some_and(|peer| peer.have.contains(piece)) {
                neighbour.useful -= 1;
                neighbour.tell_interest(swarm, link);
            }
            swarm.announce_always(link, piece);
        }
        self.tell_listeners(swarm, piece);
        let index_complete = piece.0 < swarm.index_pieces() && swarm.askable() == swarm.known();
        if swarm.was_crowded() || index_complete {
            self.fill_all(swarm);
        }
    }

    /// What a peer said that it has may not be true.
    fn count_useful(&mut self, swarm: &mut Swarm, link: LinkId) {
        let Some(peer) = swarm.peer(link) else { return };
        let useful = peer.have.missing_from(swarm.have());
        if let Some(neighbour) = self.neighbours.get_mut(&link) {
            neighbour.useful = useful;
            neighbour.tell_interest(swarm, link);
        }
    }
}

impl Neighbour {
    /// Tells it whether this node wants something of what it has, if that has changed.
    fn tell_interest(&mut self, swarm: &mut Swarm, link: LinkId) {
        let interested = self.useful > 0;
        if std::mem::replace(&mut self.interested, interested) != interested {
            swarm.tell(link, interest(interested));
        }
    }
}

fn interest(interested: bool) -> StrategyMessage {
    if interested { StrategyMessage::Interested } else { StrategyMessage::NotInterested }
}

// ---- Serving ----

impl BitTorrent {
    /// Chooses whom to serve, if it is time to choose anew or a place is free.
    fn review(&mut self, swarm: &mut Swarm) {
        let now = swarm.now();
        let seed = has_all(swarm);
        let mut candidates = Vec::new();
        for (&link, neighbour) in self.neighbours.iter().filter(|(_, neighbour)| neighbour.wants) {
            let Some(peer) = swarm.peer(link) else { continue };
            let rate_bytes_per_s = if seed {
                neighbour.upload.rate_bytes_per_s(now, peer.sent_bytes)
            } else {
                neighbour.download.rate_bytes_per_s(now, peer.window.delivered())
            };
            candidates.push(Candidate { link, rate_bytes_per_s, newcomer: peer.have.is_empty() });
        }
        let round = now >= self.choker.due();
        let changes = self.choker.review(now, &candidates, &mut swarm.random);
        let links = |links: Vec<LinkId>| links.into_iter().filter(|link| self.neighbours.contains_key(link));
        links(changes.choked).for_each(|link| swarm.tell(link, StrategyMessage::Choke));
        links(changes.unchoked).for_each(|link| swarm.tell(link, StrategyMessage::Unchoke));
        if round {
            for (&link, neighbour) in &mut self.neighbours {
                let Some(peer) = swarm.peer(link) else { continue };
                neighbour.download.end_round(now, peer.window.delivered());
                neighbour.upload.end_round(now, peer.sent_bytes);
            }
        }
        self.arm(swarm);
    }

    /// Sets the timer: nobody chooses while nobody wants anything.
    fn arm(&self, swarm: &mut Swarm) {
        if self.neighbours.values().any(|neighbour| neighbour.wants) {
            swarm.wake_at(self.choker.due());
        }
        if !has_all(swarm) {
            swarm.wake_at(self.help.due());
        }
    }
}

/// Whether a node has nothing to fetch: what BitTorrent calls a seed.
fn has_all(swarm: &Swarm) -> bool {
    swarm.standing.node == swarm.id.root || swarm.is_complete()
}

// ---- Asking ----

impl BitTorrent {
    fn fill_all(&mut self, swarm: &mut Swarm) {
        swarm.links().into_iter().for_each(|link| self.fill(swarm, link));
    }

    /// Keeps requests outstanding at a peer that serves.
    fn fill(&mut self, swarm: &mut Swarm, link: LinkId) {
        if !self.may_ask(link) {
            return;
        }
        while swarm.window_has_room(link) {
            let Some(piece) = self.next(swarm, link) else { return };
            let asked = if swarm.is_suspect(piece) {
                // It has to come from one peer as a whole.
                swarm.request(link, piece)
            } else {
                swarm.request_block(link, piece, BLOCK_BYTES)
            };
            if !asked {
                return;
            }
        }
    }

    fn may_ask(&self, link: LinkId) -> bool {
        (self.help.in_need || self.serves(link)) && !self.help.is_mute(link)
    }

    fn serves(&self, link: LinkId) -> bool {
        self.neighbours.get(&link).is_some_and(|neighbour| !neighbour.chokes)
    }

    /// The piece of which a peer is asked for the next block: one that it is bringing, or nobody any more; else a fresh one; and
    /// if there is none, one that others are bringing.
    fn next(&self, swarm: &mut Swarm, link: LinkId) -> Option<PieceIndex> {
        let begun = begun(swarm, link);
        if let Some((false, piece)) = begun {
            return Some(piece);
        }
        let fresh = if swarm.has_room(link) { self.choose(swarm, link) } else { None };
        fresh.or(begun.map(|(_, piece)| piece))
    }

    /// A piece that a peer has and this node neither has nor has asked for.
    fn choose(&self, swarm: &mut Swarm, link: LinkId) -> Option<PieceIndex> {
        // The generator is in the swarm, which the choice reads.
        let mut random = swarm.random.clone();
        let have = &swarm.peer(link)?.have;
        let askable = swarm.askable();
        let wanted = |i: usize| have.word(i) & swarm.missing_word(i) & known_mask(askable, i);
        let neighbours = || self.neighbours.keys().filter_map(|&link| swarm.peer(link));
        let copies = |piece: PieceIndex| neighbours().filter(|peer| peer.have.contains(piece)).count() as u64;
        let piece = match self.order {
            PieceOrder::Random => pick_any(&mut random, have.word_count(), wanted),
            PieceOrder::RarestFirst => pick(&mut random, have.word_count(), wanted, copies),
        };
        swarm.random = random;
        piece
    }
}

/// A piece that is begun, and of which a peer may be asked for more; and whether others are bringing it.
fn begun(swarm: &Swarm, link: LinkId) -> Option<(bool, PieceIndex)> {
    let have = &swarm.peer(link)?.have;
    let wanted = |&(piece, open): &(PieceIndex, &OpenPiece)| {
        have.contains(piece) && !swarm.is_suspect(piece) && open.first_unasked().is_some()
    };
    let by_others = |open: &OpenPiece| !open.parts.is_empty() && open.parts.iter().all(|part| part.peer != link);
    swarm.open().filter(wanted).map(|(piece, open)| (by_others(open), piece)).min()
}

/// Takes back everything that was asked of a peer.
fn take_back(swarm: &mut Swarm, link: LinkId) {
    let asked = swarm.open().filter(|(_, open)| open.parts.iter().any(|part| part.peer == link));
    let pieces: Vec<PieceIndex> = asked.map(|(piece, _)| piece).collect();
    pieces.into_iter().for_each(|piece| swarm.cancel(link, piece));
}
