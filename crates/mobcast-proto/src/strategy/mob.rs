//! `mob`: the nodes of a cluster work together as one. Each member imports its share from other clusters and all swap
//! locally. The idea is MOB's (den Burger and Kielmann, HPDC 2007); what differs mends its weaknesses:
//!
//! 1. any idle WAN link takes a random useful piece (Massoulié et al., INFOCOM 2007) instead of a planned one;
//! 2. shares are sets of slots, which only prevent duplicates;
//! 3. an idle member steals from the local peer that would need longest, also what that one has asked for already;
//! 4. windows follow rate × RTT (`flow::window`);
//! 5. the root's cluster gives each piece out once before it gives any out twice: each piece has a *designated* first
//!    importer among the other clusters, by hash. A cluster asks for its own pieces in ascending order of the hash,
//!    and helps itself to others' pieces from their far end, so that fast and slow clusters meet in the middle;
//! 6. near the end, a piece that a slow peer has not delivered is taken over by a faster one, local ones first.
//!
//! `docs/strategies/mob.md` tells the whole story.

use std::collections::{BTreeMap, BTreeSet};

use crate::content::have::{HaveSet, Run};
use crate::content::slots::{SlotSet, slot_of};
use crate::fetch::open::OpenPiece;
use crate::fetch::swarm::Swarm;
use crate::random::mix2;
use crate::sorted_map::SortedMap;
use crate::strategy::message::StrategyMessage;
use crate::strategy::theft::Theft;
use crate::strategy::{Strategy, StrategyEvent, StrategyKind};
use crate::time::{Duration, Time};
use crate::units::{ClusterId, LinkId, PieceIndex};

use choking::Choking;
use interest::Interest;
use leaving::Leaving;
pub(super) use leaving::is_worth_waiting;
use own_share::OwnRootShare;
use resting::Resting;
use root_shares::RootShares;

mod asking;
mod choking;
mod giving_way;
mod importing;
mod interest;
mod leaving;
mod own_share;
mod resting;
mod root_shares;
mod steal;

/// The entry of the registry.
pub const KIND: StrategyKind = StrategyKind {
    name: "mob",
    summary: "the nodes of each cluster team up to import every piece once, and swap locally",
    make: || Box::new(Mob::default()),
    planner: None,
    needs_network: false,
    piece_size: None,
    in_parts: false,
};

/// A newcomer to a cluster waits this long for its peers to say what of its share they are importing already.
const NEWCOMER_PATIENCE: Duration = Duration::from_millis(100);
/// How often a node tells its local peers how much of its share is left, and looks for stuck pieces.
const TICK: Duration = Duration::from_millis(200);
/// Whoever does not answer a thief within this is not waited for.
const STEAL_PATIENCE: Duration = Duration::from_secs(1);
/// A piece changes its source only if the other one would have it in less than this fraction of the time.
const TAKE_OVER_FACTOR: u64 = 2;
/// A piece that was asked of another cluster changes its source or its importer only if that saves at least this.
const LATE: Duration = Duration::from_millis(500);

/// So many pieces the members of the root's cluster announce to peers in other clusters that have not said yet what they want: they can ask for
/// them a round trip sooner.
const ANNOUNCED_UNASKED: u32 = 64;

/// The strategy's state at one node.
#[derive(Default)]
pub struct Mob {
    /// Pieces of the share that nobody in the cluster has and this node has not asked for.
    todo: HaveSet,
    /// Pieces that this node is to import although they are not in its slots.
    stolen: HaveSet,
    /// Pieces of others' slots that this node has stolen, and given to somebody else.
    passed_on: HaveSet,
    /// Pieces of its slots that a local peer imports: it was given them, or had asked for them before the share changed
    /// hands.
    given: BTreeMap<PieceIndex, LinkId>,
    /// The slots that were this node's last, and when they became others while the broadcast went on.
    slots: SlotSet,
    slots_changed_at: Option<Time>,
    /// Until when a newcomer leaves its share alone, and the local peers that have said what they are importing of it.
    newcomer: Option<(Time, BTreeSet<LinkId>)>,
    /// What peers in other clusters want to hear of.
    interests: SortedMap<LinkId, Interest>,
    /// What local peers have left of their shares.
    backlogs: SortedMap<LinkId, (u32, u64)>,
    /// The part of the object that the root wants this node to fetch from it.
    root_share: Option<OwnRootShare>,
    /// What the root was told that other clusters want from this node.
    wanted_told: Option<(LinkId, SlotSet)>,
    /// At the root: what each of its local peers is to fetch from it first.
    root_shares: RootShares,
    choking: Choking,
    /// Peers that have left requests unanswered for long, or rejected many, and when they are tried again. Until they send something, nobody counts on
    /// what they have.
    mute: SortedMap<LinkId, Time>,
    /// Requests that peers have rejected since they sent something last.
    rejections: SortedMap<LinkId, u32>,
    theft: Theft,
    /// When it took over pieces last that are not in its slots.
    stole_at: Time,
    /// What it is to import and peers in other clusters do not know it wants.
    unsaid: HaveSet,
    backlog_told: Option<(u32, u64)>,
    last_news: Time,
    /// How often it was stuck.
    stuck: u32,
    /// Whether what has arrived waits for the disk: then others should import what comes next.
    disk_stalls: bool,
    resting: Resting,
    /// How often pieces that are open have changed their source: each time wastes what is on its way.
    moved: BTreeMap<PieceIndex, u32>,
    /// What has left the root's cluster.
    leaving: Leaving,
    next_tick: Time,
}

impl Strategy for Mob {
    fn handle(&mut self, event: StrategyEvent<'_>, swarm: &mut Swarm) {
        match event {
            StrategyEvent::Started => self.start(swarm),
            StrategyEvent::Resumed => self.fill_all(swarm),
            StrategyEvent::PeerUp(peer) => self.peer_up(swarm, peer),
            StrategyEvent::PeerDown(peer) => self.peer_down(swarm, peer),
            StrategyEvent::Have { peer, pieces } => self.peer_has(swarm, peer, pieces),
            StrategyEvent::PiecesKnown(run) => {
                run.pieces().for_each(|piece| self.consider(swarm, piece));
                self.known_ones_may_leave(swarm, run);
                self.root_share_grows(swarm, run);
                self.feed_idle_peers(swarm);
                self.root_share.iter_mut().for_each(|share| share.grow(swarm, run));
                self.fill_all(swarm);
            }
            StrategyEvent::PieceStored(piece) => self.stored(swarm, piece),
            StrategyEvent::RequestRejected { peer, piece } => {
                self.rejected(swarm, peer);
                // Its owner may have it and not be able to serve it: somebody has to import it again.
                if swarm.is_missing(piece) && !self.is_at_hand(swarm, piece) {
                    self.given.remove(&piece);
                    if self.stolen.insert(piece) {
                        self.unsaid.insert(piece);
                    }
                    self.stole_at = swarm.now();
                }
                self.consider(swarm, piece);
                self.fill_all(swarm);
            }
            StrategyEvent::PieceWrong(piece) => {
                self.consider(swarm, piece);
                self.fill_all(swarm);
            }
            StrategyEvent::PieceWanted { peer, piece } => {
                let at_root = swarm.standing.node == swarm.id.root;
                if is_wan(swarm, peer) {
                    self.piece_wanted(swarm, peer, piece);
                } else if at_root {
                    self.local_peer_wants(swarm, peer, piece);
                }
                if at_root {
                    self.choke_if_busy(swarm, peer);
                }
            }
            StrategyEvent::LinkMeasured(peer) => {
                self.mute.remove(&peer);
                self.rejections.remove(&peer);
                self.fill(swarm, peer);
            }
            StrategyEvent::Message { peer, message } => self.message(swarm, peer, message),
            StrategyEvent::Timeout => {
                self.tell_leaving(swarm);
                self.end_waiting_for_passing_on(swarm);
                self.unchoke_if_idle(swarm);
                self.feed_idle_peers(swarm);
                self.tick(swarm);
            }
            StrategyEvent::AssignmentChanged => self.assignment_changed(swarm),
        }
    }

    fn greeting(&self, swarm: &Swarm, cluster: ClusterId) -> Option<StrategyMessage> {
        (cluster != swarm.standing.cluster && !swarm.in_root_cluster()).then(|| self.interest(swarm))
    }

    fn speaks_first(&self) -> bool {
        true
    }

    fn manifest_children(&self, swarm: &Swarm, first: PieceIndex) -> Vec<LinkId> {
        importing::first_to_know(swarm, first)
    }

    fn explain(&self, swarm: &Swarm, piece: PieceIndex) -> String {
        let own = swarm.standing.slots.contains(slot_of(swarm.id, piece));
        let (todo, stolen) = (self.todo.contains(piece), self.stolen.contains(piece));
        let given = self.given.get(&piece);
        let mut said = format!("own slot {own}, to be imported {todo}, stolen {stolen}, given to {given:?}");
        if todo && (self.newcomer.is_some() || self.disk_stalls) {
            said += ", imports wait for peers or the disk";
        }
        if swarm.standing.node == swarm.id.root {
            said += &self.root_shares.explain(swarm, piece);
        }
        for (link, peer) in swarm.peers().filter(|(_, peer)| peer.have.contains(piece)) {
            let reasons = [
                (!swarm.has_room(link), "has no room"),
                (self.is_left_alone(swarm, link), "is left alone"),
                (!peer.local && self.is_spared(swarm, link), "is spared"),
            ];
            let reasons: Vec<&str> = reasons.into_iter().filter(|(holds, _)| *holds).map(|(_, why)| why).collect();
            let (node, asked) = (peer.node, peer.window.outstanding());
            said += &format!(", {node} {} ({asked} bytes asked for)", reasons.join(" and "));
        }
        said
    }

    fn check_invariants(&self, swarm: &Swarm) {
        self.root_shares.check_invariants();
        for piece in self.todo.iter() {
            assert!(swarm.is_missing(piece), "{piece} is to be imported and was asked for already");
            assert!(piece.0 < swarm.known(), "{piece} is to be imported and not known");
        }
    }
}

// ---- Events ----

impl Mob {
    fn start(&mut self, swarm: &mut Swarm) {
        self.last_news = swarm.now();
        self.slots = swarm.standing.slots.clone();
        if swarm.standing.cluster_size > 1 && !swarm.in_root_cluster() {
            let until = swarm.now() + NEWCOMER_PATIENCE;
            self.newcomer = Some((until, BTreeSet::new()));
            swarm.wake_at(until);
        }
        (0..swarm.known()).for_each(|piece| self.consider(swarm, PieceIndex(piece)));
        swarm.wake_at(swarm.now() + TICK);
    }

    fn peer_up(&mut self, swarm: &mut Swarm, peer: LinkId) {
        let Some(local) = swarm.peer(peer).map(|p| p.local) else { return };
        if local {
            let pieces: Vec<PieceIndex> = swarm.have().iter().collect();
            pieces.into_iter().for_each(|piece| swarm.announce(peer, piece));
            self.divide_among_local_peers(swarm);
            self.tell_root_what_is_wanted(swarm);
            self.tell_importing(swarm, peer);
        } else {
            self.tell_interest(swarm, peer);
        }
    }

    fn peer_down(&mut self, swarm: &mut Swarm, peer: LinkId) {
        self.interests.remove(&peer);
        self.backlogs.remove(&peer);
        self.choking.forget(peer);
        self.resting.forget(peer);
        self.mute.remove(&peer);
        self.rejections.remove(&peer);
        self.theft.forget(peer);
        self.root_share = self.root_share.take().filter(|share| share.root != peer);
        let back: Vec<PieceIndex> = self.given.iter().filter(|&(_, &p)| p == peer).map(|(&piece, _)| piece).collect();
        for piece in back {
            self.given.remove(&piece);
            // What was stolen and passed on comes back: whose slot it is in still counts on this node.
            if self.passed_on.remove(piece) {
                self.stolen.insert(piece);
                self.stole_at = swarm.now();
            }
        }
        // Whatever was asked of the lost peer, or given to it, may be this node's to import again.
        (0..swarm.known()).for_each(|piece| self.consider(swarm, PieceIndex(piece)));
        self.divide_among_local_peers(swarm);
        self.tell_root_what_is_wanted(swarm);
        self.unchoke_if_idle(swarm);
        self.fill_all(swarm);
    }

    fn peer_has(&mut self, swarm: &mut Swarm, peer: LinkId, runs: &[Run]) {
        // What another cluster says that it has too is no sign that anybody brings what is missing here.
        let mut pieces = runs.iter().flat_map(|run| run.pieces());
        if !is_wan(swarm, peer) || pieces.any(|piece| !swarm.have().contains(piece)) {
            self.last_news = swarm.now();
        }
        if self.mute.contains_key(&peer) {
            // It does not send what it has.
        } else if swarm.peer(peer).is_some_and(|p| p.local) {
            let at_root = swarm.standing.node == swarm.id.root;
            for piece in runs.iter().flat_map(|run| run.pieces()) {
                if at_root {
                    self.root_shares.take_off(swarm, piece);
                }
                self.todo.remove(piece);
                self.given.remove(&piece);
                self.abandon_import(swarm, piece);
            }
        } else if swarm.peer(peer).is_some_and(|p| Some(p.cluster) == swarm.standing.root_cluster) {
            runs.iter().flat_map(|run| run.pieces()).for_each(|piece| self.may_leave(swarm, piece));
        }
        self.fill(swarm, peer);
    }

    /// Somebody in the cluster has a piece that this node is importing: unless it is nearly here, it comes from there.
    fn abandon_import(&self, swarm: &mut Swarm, piece: PieceIndex) {
        if !swarm.is_asked_for(piece) {
            return;
        }
        let Some(open) = swarm.open_piece(piece) else { return };
        if open.received_bytes() > open.len() / 2 {
            return;
        }
        // Mostly it was asked of local peers alone, and this looks at every piece that a peer announces.
        if open.parts.iter().all(|part| !is_wan(swarm, part.peer)) {
            return;
        }
        let links: Vec<LinkId> = open.parts.iter().map(|part| part.peer).filter(|&link| is_wan(swarm, link)).collect();
        links.into_iter().for_each(|link| swarm.cancel(link, piece));
    }

    fn stored(&mut self, swarm: &mut Swarm, piece: PieceIndex) {
        self.last_news = swarm.now();
        self.todo.remove(piece);
        self.stolen.remove(piece);
        self.given.remove(&piece);
        self.moved.remove(&piece);
        let slot = slot_of(swarm.id, piece);
        let wants = |interest: &Interest| interest.slots.contains(slot) || interest.pieces.contains(piece);
        let unasked = swarm.in_root_cluster() && piece.0 < ANNOUNCED_UNASKED;
        swarm.announce_to(piece, |link, peer| peer.local || self.interests.get(&link).map_or(unasked, wants));
        let index_complete = piece.0 < swarm.index_pieces() && swarm.askable() == swarm.known();
        if swarm.was_crowded() || index_complete {
            self.fill_all(swarm);
        }
    }

    fn message(&mut self, swarm: &mut Swarm, peer: LinkId, message: &StrategyMessage) {
        match message {
            StrategyMessage::Interest { slots, pieces } if is_wan(swarm, peer) => {
                self.peer_is_interested(swarm, peer, slots, pieces);
                self.tell_root_what_is_wanted(swarm);
            }
            StrategyMessage::Interest { slots, .. } => self.peer_is_wanted_for(swarm, peer, slots),
            StrategyMessage::Share { slots } => {
                if swarm.peer(peer).is_some_and(|p| p.node == swarm.id.root) {
                    self.root_share = Some(OwnRootShare::new(swarm, peer, slots.clone()));
                    self.fill(swarm, peer);
                }
            }
            StrategyMessage::Leaving { to, pieces } => self.peer_says_leaving(swarm, peer, *to, pieces),
            StrategyMessage::Choke => self.root_chokes(swarm, peer, true),
            StrategyMessage::Unchoke => self.root_chokes(swarm, peer, false),
            StrategyMessage::Interested | StrategyMessage::NotInterested => {}
            // Work is shared within a cluster only.
            _ if is_wan(swarm, peer) => {}
            StrategyMessage::Backlog { unrequested, rate_bytes_per_s } => {
                self.backlogs.insert(peer, (*unrequested, *rate_bytes_per_s));
                self.fill_global(swarm);
            }
            StrategyMessage::Steal { rate_bytes_per_s, pieces_max } => {
                self.give(swarm, peer, *rate_bytes_per_s, *pieces_max);
            }
            StrategyMessage::Grant { pieces } => self.take(swarm, peer, pieces),
            StrategyMessage::Importing { pieces } => self.peer_imports(swarm, peer, pieces),
            // Other strategies say these.
            StrategyMessage::Work { .. } | StrategyMessage::Desire { .. } => {}
        }
    }

    fn assignment_changed(&mut self, swarm: &mut Swarm) {
        if self.slots != swarm.standing.slots {
            self.slots = swarm.standing.slots.clone();
            self.slots_changed_at = Some(swarm.now());
        }
        // What it has asked for stays its own to import, also if the first attempt fails.
        let wan = |open: &OpenPiece| open.parts.iter().any(|part| is_wan(swarm, part.peer));
        let asked: Vec<PieceIndex> = swarm.open().filter(|(_, open)| wan(open)).map(|(piece, _)| piece).collect();
        for piece in asked {
            self.stolen.insert(piece);
        }
        let pieces: Vec<PieceIndex> = self.todo.iter().collect();
        for piece in pieces {
            if !self.is_mine(swarm, piece) {
                self.todo.remove(piece);
            }
        }
        (0..swarm.known()).for_each(|piece| self.consider(swarm, PieceIndex(piece)));
        for link in swarm.links() {
            if is_wan(swarm, link) {
                self.tell_interest(swarm, link);
            } else {
                self.tell_importing(swarm, link);
            }
        }
        self.fill_all(swarm);
    }

    fn tick(&mut self, swarm: &mut Swarm) {
        if swarm.now() < self.next_tick {
            swarm.wake_at(self.next_tick);
            return;
        }
        if let Some(victim) = self.theft.give_up(swarm.now(), STEAL_PATIENCE) {
            self.backlogs.remove(&victim);
        }
        if swarm.is_complete() {
            return;
        }
        self.next_tick = swarm.now() + TICK;
        swarm.wake_at(self.next_tick);
        if self.newcomer.as_ref().is_some_and(|(until, _)| *until <= swarm.now()) {
            self.newcomer = None;
        }
        self.disk_stalls = steal::waiting_for_disk(swarm).next().is_some();
        if self.has_stolen_in_vain(swarm) {
            // Whoever looked for work here before is told again.
            self.backlog_told = None;
        }
        self.tell_backlog(swarm);
        self.tell_unsaid_interests(swarm);
        self.give_stalled_up(swarm);
        self.give_way(swarm);
        self.help_if_stuck(swarm);
        self.fill_all(swarm);
    }
}

// ---- Shares ----

impl Mob {
    /// Whether this node is the one of its cluster that imports a piece.
    fn is_mine(&self, swarm: &Swarm, piece: PieceIndex) -> bool {
        let own = swarm.standing.slots.contains(slot_of(swarm.id, piece)) && !self.given.contains_key(&piece);
        (own && !swarm.in_root_cluster()) || self.stolen.contains(piece)
    }

    /// Whether a local peer has a piece and sends what it has.
    fn is_at_hand(&self, swarm: &Swarm, piece: PieceIndex) -> bool {
        let mute = |link: &LinkId| swarm.peer(*link).is_some_and(|p| p.local && p.have.contains(piece));
        usize::from(swarm.local_copies(piece)) > self.mute.keys().filter(mute).count()
    }

    /// Puts a piece on the list of those to import, if it belongs there.
    fn consider(&mut self, swarm: &Swarm, piece: PieceIndex) {
        if piece.0 < swarm.known()
            && swarm.is_missing(piece)
            && !self.is_at_hand(swarm, piece)
            && self.is_mine(swarm, piece)
        {
            self.todo.insert(piece);
        }
    }

    /// How many clusters come before `own` in the order in which they may import a piece from the root's cluster: zero
    /// for the designated one, so that also two clusters that help a third one have different pieces to begin with.
    fn turn(swarm: &Swarm, own: ClusterId, piece: PieceIndex) -> u64 {
        let before = |&cluster: &ClusterId| import_weight(piece, cluster) > import_weight(piece, own);
        importing_clusters(swarm).filter(before).count() as u64
    }

    /// The cluster that is to import a piece from the root's cluster first.
    fn designated(swarm: &Swarm, piece: PieceIndex) -> Option<ClusterId> {
        importing_clusters(swarm).max_by_key(|&cluster| import_weight(piece, cluster))
    }
}

fn importing_clusters(swarm: &Swarm) -> impl Iterator<Item = ClusterId> {
    swarm.standing.clusters.iter().copied().filter(|&cluster| Some(cluster) != swarm.standing.root_cluster)
}

/// The cluster with the highest one imports a piece first (highest random weight: Thaler and Ravishankar, 1998).
fn import_weight(piece: PieceIndex, cluster: ClusterId) -> (u64, ClusterId) {
    (mix2(u64::from(piece.0), u64::from(cluster.0) + 1), cluster)
}

fn is_wan(swarm: &Swarm, link: LinkId) -> bool {
    swarm.peer(link).is_some_and(|p| !p.local)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;
    use crate::units::{BroadcastId, ByteRange, NodeId};

    /// A node of cluster 1 with a local peer (link 1), in a broadcast whose root is in cluster 0.
    pub(super) fn swarm() -> Swarm {
        let mut swarm = Swarm::new(BroadcastId::default(), 16 << 10, 0, None, 1);
        swarm.standing.node = NodeId(5);
        swarm.standing.cluster = ClusterId(1);
        swarm.standing.root_cluster = Some(ClusterId(0));
        swarm.standing.slots = SlotSet::all();
        swarm.add_peer(LinkId(1), NodeId(6), ClusterId(1));
        swarm.add_known(8, 1, None);
        swarm.set_now(Time(1));
        swarm
    }

    #[test]
    fn a_thief_may_claim_any_rate() {
        let mut swarm = swarm();
        let mut mob = Mob::default();
        mob.handle(StrategyEvent::Started, &mut swarm);
        assert_eq!(mob.todo.count(), 8);
        let message = StrategyMessage::Steal { rate_bytes_per_s: u64::MAX, pieces_max: u32::MAX };
        mob.handle(StrategyEvent::Message { peer: LinkId(1), message: &message }, &mut swarm);
        assert!(mob.given.len() >= 7, "nearly all goes to the faster one");
        mob.check_invariants(&swarm);
    }

    #[test]
    fn what_a_local_peer_has_is_imported_no_more_unless_over_half_of_it_is_here() {
        let (local, far, piece) = (LinkId(1), LinkId(2), PieceIndex(0));
        for (bytes, goes_on) in [(1, false), (8 << 10, false), ((8 << 10) + 1, true)] {
            let (mut mob, mut swarm) = (Mob::default(), swarm());
            let one = [Run { first: piece, count: 1 }];
            swarm.set_paused(false);
            swarm.add_peer(far, NodeId(9), ClusterId(0));
            swarm.add_have(far, 1, &one);
            assert!(swarm.request(far, piece));
            swarm.add_payload(far, piece, ByteRange { start: 0, end: bytes });
            let news = swarm.add_have(local, 1, &one);
            mob.handle(StrategyEvent::Have { peer: local, pieces: &news }, &mut swarm);
            assert_eq!(swarm.requests_at(far), usize::from(goes_on), "{bytes} of 16 KiB");
        }
    }

    #[test]
    fn nobody_can_press_work_on_a_node() {
        let mut swarm = swarm();
        swarm.standing.slots = SlotSet::none();
        let mut mob = Mob::default();
        let pieces = vec![Run { first: PieceIndex(0), count: 8 }];
        let message = StrategyMessage::Grant { pieces };
        mob.handle(StrategyEvent::Message { peer: LinkId(1), message: &message }, &mut swarm);
        assert!(mob.stolen.is_empty() && mob.todo.is_empty(), "it has not asked for any");
    }

    #[test]
    fn what_a_victim_gives_too_late_is_imported_all_the_same() {
        let mut swarm = swarm();
        swarm.standing.slots = SlotSet::none();
        let mut mob = Mob::default();
        mob.theft.begin(LinkId(1), swarm.now());
        swarm.set_now(swarm.now() + STEAL_PATIENCE + TICK);
        mob.handle(StrategyEvent::Timeout, &mut swarm);
        assert!(!mob.theft.is_under_way(), "others may be asked");
        let message = StrategyMessage::Grant { pieces: vec![Run { first: PieceIndex(3), count: 1 }] };
        mob.handle(StrategyEvent::Message { peer: LinkId(1), message: &message }, &mut swarm);
        assert!(mob.todo.contains(PieceIndex(3)), "its victim does not import it any more");
    }

    #[test]
    fn what_was_stolen_and_passed_on_comes_back_when_its_thief_is_lost_and_nothing_else_does() {
        let mut swarm = swarm();
        swarm.standing.slots = SlotSet::none();
        swarm.add_peer(LinkId(2), NodeId(7), ClusterId(1));
        let mut mob = Mob::default();
        mob.theft.begin(LinkId(1), swarm.now());
        let run = |first: u32, count: u32| vec![Run { first: PieceIndex(first), count }];
        let say = |mob: &mut Mob, swarm: &mut Swarm, peer: u32, message: StrategyMessage| {
            mob.handle(StrategyEvent::Message { peer: LinkId(peer), message: &message }, swarm);
        };
        say(&mut mob, &mut swarm, 1, StrategyMessage::Grant { pieces: run(3, 1) });
        assert!(mob.todo.contains(PieceIndex(3)), "it was stolen");
        let steal = || StrategyMessage::Steal { rate_bytes_per_s: 1_000, pieces_max: 8 };
        say(&mut mob, &mut swarm, 2, steal());
        assert!(mob.todo.contains(PieceIndex(3)), "nobody has had the time to announce it");
        swarm.set_now(swarm.now() + Duration::from_secs(1));
        say(&mut mob, &mut swarm, 2, steal());
        assert!(!mob.todo.contains(PieceIndex(3)), "who can obtain it may have it");
        // Another piece, which is not this node's, is imported by the same peer.
        say(&mut mob, &mut swarm, 2, StrategyMessage::Importing { pieces: run(5, 1) });
        swarm.remove_peer(LinkId(2));
        mob.handle(StrategyEvent::PeerDown(LinkId(2)), &mut swarm);
        assert_eq!(mob.todo.iter().collect::<Vec<_>>(), [PieceIndex(3)]);
    }
}
