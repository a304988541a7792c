//! Which piece is asked of which peer, and when a piece changes its source.

use crate::content::slots::slot_of;
use crate::fetch::peer::SwarmPeer;
use crate::fetch::picker::{known_mask, pick};
use crate::fetch::swarm::Swarm;
use crate::limits::SILENCE_MAX;
use crate::random::mix2;
use crate::time::Duration;
use crate::units::{LinkId, PieceIndex};

use super::own_share::OwnRootShare;
use super::{LATE, Mob, TAKE_OVER_FACTOR};

/// A peer that was asked and sends nothing for this long is asked in vain. Longer than it takes to notice that a peer is
/// gone ([`SILENCE_MAX`]): whoever is there and slow is worth waiting for, because what is on its way would be wasted.
const STALLED_AFTER: Duration = Duration::from_secs(15);
const _: () = assert!(STALLED_AFTER.0 > SILENCE_MAX.0);
/// So is one that has rejected so many requests, and sent nothing in between.
const REJECTIONS_MAX: u32 = 8;
/// A peer that was asked in vain is left alone for this long.
const TRIED_AGAIN_AFTER: Duration = STALLED_AFTER;
/// So long without a piece stored or announced, a node keeps to its part of what the root gives: whose part a piece is in may have died,
/// or be slow.
pub(super) const QUIET: Duration = Duration::from_millis(100);
/// Peers asked for the same piece at the same time, at most.
const SOURCES_MAX: usize = 2;

/// More changes of its source than this do not make another one any harder for a piece.
const TAKE_OVERS_MAX: u32 = 8;

impl Mob {
    pub(super) fn fill_all(&mut self, swarm: &mut Swarm) {
        // Links to other clusters first, and the root's while it has a part for this node: what they bring is what everybody waits
        // for. Then those that would bring something soonest, since there may not be room to ask all: otherwise whoever is asked
        // by many would go on being asked, and others idle. Who was not tried lately may be the fastest.
        let (turn, now) = (u64::from(swarm.have().count()), swarm.now());
        let order = |(link, peer): (LinkId, &SwarmPeer)| {
            let bytes = if peer.window.was_tried_lately(now) { u64::from(swarm.piece_size()) } else { 0 };
            let soon = if peer.local { peer.window.time_to_receive(bytes) } else { Duration::ZERO };
            let chance = if peer.local { mix2(turn, u64::from(link.0)) } else { 0 };
            let waited_for = !peer.local || self.has_part_to_fetch(swarm, link);
            (self.mute.contains_key(&link), !waited_for, soon, chance, link)
        };
        let mut links: Vec<(bool, bool, Duration, u64, LinkId)> = swarm.peers().map(order).collect();
        links.sort_unstable();
        links.into_iter().for_each(|(.., link)| self.fill(swarm, link));
    }

    pub(super) fn fill_global(&mut self, swarm: &mut Swarm) {
        let links: Vec<LinkId> = swarm.peers().filter(|(_, p)| !p.local).map(|(link, _)| link).collect();
        links.into_iter().for_each(|link| self.fill(swarm, link));
    }

    /// Asks a peer for pieces until its window is full.
    pub(super) fn fill(&mut self, swarm: &mut Swarm, link: LinkId) {
        let Some(peer) = swarm.peer(link) else { return };
        let local = peer.local;
        let served = peer.window.outstanding() == 0 && self.resting.is_waited_for(link);
        if !swarm.has_room(link) && !served {
            return;
        }
        if !local && (self.is_spared(swarm, link) || self.rests(swarm, link)) {
            return;
        }
        while swarm.has_room(link) {
            if self.is_left_alone(swarm, link) {
                return;
            }
            let piece = if local { self.pick_local(swarm, link) } else { self.pick_global(swarm, link) };
            let Some(piece) = piece else {
                self.idle(swarm, link, local);
                return;
            };
            self.todo.remove(piece);
            if !swarm.request(link, piece) {
                return;
            }
            if !local {
                self.resting.asked(link, swarm.now());
            }
        }
    }

    /// Whether a link to another cluster is left to others for a while. Not while all the others are idle: what is left may be had there alone.
    fn rests(&mut self, swarm: &Swarm, link: LinkId) -> bool {
        let window = swarm.peer(link).map(|peer| &peer.window).filter(|window| window.outstanding() == 0);
        if let Some(window) = window.filter(|_| self.resting.is_waited_for(link)) {
            let rate = window.rate_bytes_per_s();
            self.resting.served(link, swarm.now(), rate, Mob::import_rate(swarm) - rate);
        }
        let busy = |(other, peer): (LinkId, &SwarmPeer)| other != link && !peer.local && peer.window.outstanding() > 0;
        self.resting.rests(link, swarm.now()) && swarm.peers().any(busy)
    }

    pub(super) fn pick_global(&self, swarm: &mut Swarm, link: LinkId) -> Option<PieceIndex> {
        if self.newcomer.is_some() || self.disk_stalls {
            return None;
        }
        let mut random = swarm.random.clone();
        let peer = swarm.peer(link)?;
        let own = swarm.standing.cluster;
        let from_root = swarm.standing.root_cluster == Some(peer.cluster);
        let score = |piece: PieceIndex| {
            if piece.0 < swarm.index_pieces() {
                return 0;
            }
            let turn = Mob::turn(swarm, own, piece);
            let order = mix2(u64::from(piece.0), 0) >> 16;
            let left = self.leaving.contains(piece);
            let elsewhere = |p: &SwarmPeer| !p.local && Some(p.cluster) != swarm.standing.root_cluster;
            let exported = || swarm.peers().filter(|(_, p)| elsewhere(p) && p.have.contains(piece)).count() as u64;
            // The designated cluster comes from one end, the next one from the other, all others from anywhere.
            let from_there = match turn {
                0 => order,
                1 => (u64::MAX >> 16) - order,
                _ => mix2(u64::from(piece.0), u64::from(own.0) + 1) >> 16,
            };
            match (from_root, turn, left) {
                // Own pieces first, then what has not left the root's cluster; what has, last.
                (true, 0, false) => from_there,
                (true, _, false) => (1 + exported().min(100)) << 56 | turn.min(200) << 48 | from_there,
                (true, _, true) => (101 + exported().min(100)) << 56 | turn.min(200) << 48 | from_there,
                // What this cluster has to fetch from the root's may wait, the rest comes rarest first.
                (false, 0, false) => 1 << 32 | swarm_copies(swarm, piece),
                (false, ..) => swarm_copies(swarm, piece),
            }
        };
        let askable = swarm.askable();
        let waited_for = |i: usize| if from_root { self.leaving.passed_on_soon_word(i) } else { 0 };
        let candidates = |i: usize| self.todo.word(i) & peer.have.word(i) & known_mask(askable, i) & !waited_for(i);
        let piece = pick(&mut random, self.todo.word_count(), candidates, score);
        swarm.random = random;
        piece
    }

    fn pick_local(&self, swarm: &mut Swarm, link: LinkId) -> Option<PieceIndex> {
        let mut random = swarm.random.clone();
        let peer = swarm.peer(link)?;
        let share = self.part_of_root(swarm, link).map(|share| &share.pieces);
        let index = swarm.index_pieces();
        let needed = |slot: usize| self.interests.values().any(|interest| interest.slots.contains(slot));
        let asks = share.is_none() && swarm.in_root_cluster() && !self.interests.is_empty();
        let score = |piece: PieceIndex| {
            if piece.0 < index {
                return 0;
            }
            // Of the own part all is wanted elsewhere, from here or from who has no room for it in its part.
            let wanted_elsewhere = asks && needed(slot_of(swarm.id, piece));
            1 + (u64::from(!wanted_elsewhere) << 31 | u64::from(swarm.local_copies(piece)))
        };
        let words = peer.have.word_count();
        let askable = swarm.askable();
        let known = (askable as usize).div_ceil(64);
        // The tree index is needed before anything else, by everybody.
        let own = |i: usize| share.map_or(u64::MAX, |pieces| pieces.word(i) | known_mask(index, i));
        let candidates = |i: usize| peer.have.word(i) & swarm.missing_word(i) & known_mask(askable, i) & own(i);
        let piece = pick(&mut random, words.min(known), candidates, score);
        swarm.random = random;
        piece
    }

    /// What a peer, as the root, wants this node to fetch from it, while it is asked for nothing else. When nothing has been heard for a
    /// while, nobody who should have asked the root for what is missing brings it.
    fn part_of_root(&self, swarm: &Swarm, link: LinkId) -> Option<&OwnRootShare> {
        let quiet = swarm.now().since(self.last_news) >= QUIET;
        self.root_share.as_ref().filter(|share| share.root == link && !quiet)
    }

    /// Whether all wait for what this node is to fetch from a peer.
    fn has_part_to_fetch(&self, swarm: &Swarm, link: LinkId) -> bool {
        self.part_of_root(swarm, link).is_some_and(|share| !share.is_open_to_all() && share.has_missing(swarm))
    }

    /// Whether a peer has been mute: it is tried with one piece at a time, after a pause in which others are found.
    pub(super) fn is_left_alone(&self, swarm: &Swarm, link: LinkId) -> bool {
        let asked = || swarm.peer(link).is_some_and(|peer| peer.window.outstanding() > 0);
        self.mute.get(&link).is_some_and(|until| swarm.now() < *until || asked())
    }

    /// A link has room and nothing new to bring.
    fn idle(&mut self, swarm: &mut Swarm, link: LinkId, local: bool) {
        // Also when all that it has to import is still to come, while another one cannot keep up with what is there.
        let dry = || swarm.peers().filter(|(_, p)| !p.local).all(|(_, p)| p.window.outstanding() == 0);
        let idle = !local && (self.todo.is_empty() || dry());
        if !self.take_over(swarm, link, local) && idle {
            self.steal(swarm);
        }
    }

    /// Takes back what was asked of peers that deliver nothing at all, and does not count on them: others may have it.
    pub(super) fn give_stalled_up(&mut self, swarm: &mut Swarm) {
        let now = swarm.now();
        let stalled = |link: &LinkId| swarm.peer(*link).is_some_and(|p| p.window.stalled_for(now) >= STALLED_AFTER);
        let parts = swarm.open().flat_map(|(piece, open)| open.parts.iter().map(move |part| (part.peer, piece)));
        let late: Vec<(LinkId, PieceIndex)> = parts.filter(|(link, _)| stalled(link)).collect();
        for (link, piece) in late {
            self.mute.insert(link, now + TRIED_AGAIN_AFTER);
            swarm.cancel(link, piece);
            self.moved.remove(&piece);
            self.consider(swarm, piece);
        }
    }

    /// A peer does not send what it says that it has.
    pub(super) fn rejected(&mut self, swarm: &Swarm, link: LinkId) {
        let rejections = self.rejections.get_or_default(link);
        *rejections += 1;
        let believed = self.mute.get(&link).is_none_or(|&until| until <= swarm.now());
        if *rejections >= REJECTIONS_MAX && believed {
            self.mute.insert(link, swarm.now() + TRIED_AGAIN_AFTER);
            (0..swarm.known()).for_each(|piece| self.consider(swarm, PieceIndex(piece)));
        }
    }

    /// Takes a piece over from a source that would need much longer. From a local peer the piece may come twice; a
    /// source in another cluster is asked only for the rest, after the first one was told to stop.
    fn take_over(&mut self, swarm: &mut Swarm, link: LinkId, local: bool) -> bool {
        // As long as there is something that nobody was asked for, a link is better used for that.
        let unasked = if local { swarm.has_unasked() } else { !self.todo.is_empty() };
        if unasked {
            return false;
        }
        let Some(peer) = swarm.peer(link) else { return false };
        let now = swarm.now();
        let slowest = swarm
            .open()
            .filter(|(piece, open)| {
                peer.have.contains(*piece)
                    && !swarm.is_suspect(*piece)
                    && !open.parts.is_empty()
                    && open.parts.len() < SOURCES_MAX
                    && open.parts.iter().all(|part| part.peer != link)
            })
            .filter_map(|(piece, open)| {
                let source = swarm.peer(open.parts[0].peer)?;
                let missing = u64::from(open.len() - open.received_bytes());
                let theirs = source.window.time_left(now);
                let ours = peer.window.time_to_receive(missing);
                // Each time it has to be twice as much worth it, so that a piece does not wander about.
                let before = self.moved.get(&piece).copied().unwrap_or(0).min(TAKE_OVERS_MAX);
                let late = if source.local { Duration::ZERO } else { LATE };
                let worth = theirs.0 > (ours.times(TAKE_OVER_FACTOR << before) + late).0 && (local || !source.local);
                worth.then_some((theirs, piece, open.parts[0].peer))
            })
            .max();
        let Some((_, piece, source)) = slowest else { return false };
        if !swarm.peer(source).is_some_and(|p| p.local && local) {
            swarm.cancel(source, piece);
        }
        self.todo.remove(piece);
        *self.moved.entry(piece).or_default() += 1;
        swarm.request(link, piece)
    }
}

/// Peers in other clusters and local ones that have a piece.
fn swarm_copies(swarm: &Swarm, piece: PieceIndex) -> u64 {
    swarm.peers().filter(|(_, p)| p.have.contains(piece)).count() as u64
}

#[cfg(test)]
mod tests {
    use crate::content::have::Run;
    use crate::content::slots::SlotSet;
    use crate::strategy::mob::tests::swarm;
    use crate::strategy::{Strategy, StrategyEvent};
    use crate::units::{ByteRange, ClusterId, NodeId};

    use super::*;

    const PIECE: u32 = 16 << 10;

    /// A node of the root's cluster with room for so many open pieces, and two peers in it that have everything.
    fn crowded(room: u32) -> (Mob, Swarm, [LinkId; 2]) {
        let (mob, mut swarm) = (Mob::default(), swarm());
        let peers = [LinkId(7), LinkId(8)];
        swarm.remove_peer(LinkId(1));
        swarm.standing.root_cluster = Some(swarm.standing.cluster);
        swarm.set_paused(false);
        swarm.set_open_limit(u64::from(room * PIECE));
        for link in peers {
            swarm.add_peer(link, NodeId(link.0), swarm.standing.cluster);
            swarm.add_have(link, 1, &[Run { first: PieceIndex(0), count: 8 }]);
        }
        (mob, swarm, peers)
    }

    fn asked(swarm: &Swarm, link: LinkId) -> bool {
        swarm.peer(link).is_some_and(|peer| peer.window.outstanding() > 0)
    }

    #[test]
    fn where_not_all_can_be_asked_the_own_part_of_what_the_root_gives_comes_first() {
        let own = |swarm: &Swarm, pieces: u32| {
            let mut slots = SlotSet::none();
            (0..pieces).for_each(|piece| slots.insert(slot_of(swarm.id, PieceIndex(piece))));
            slots
        };
        for (pieces, comes_first) in [(3, true), (0, false), (u32::MAX, false)] {
            let (mut mob, mut swarm, [root, other]) = crowded(1);
            swarm.handle_rtt(root, Duration::from_micros(102));
            swarm.handle_rtt(other, Duration::from_micros(100));
            let slots = if pieces == u32::MAX { SlotSet::all() } else { own(&swarm, pieces) };
            mob.last_news = swarm.now();
            mob.root_share = Some(OwnRootShare::new(&swarm, root, slots));
            mob.fill_all(&mut swarm);
            assert_eq!(
                (asked(&swarm, root), asked(&swarm, other)),
                (comes_first, !comes_first),
                "the other one is nearer"
            );
        }
    }

    #[test]
    fn where_not_all_can_be_asked_whoever_was_faster_comes_first() {
        for slow in 0..2 {
            let (mut mob, mut swarm, peers) = crowded(2);
            for (piece, link) in (0..2).map(PieceIndex).zip([peers[1 - slow], peers[slow]]) {
                assert!(swarm.request(link, piece));
            }
            for (piece, link) in (0..2).map(PieceIndex).zip([peers[1 - slow], peers[slow]]) {
                swarm.set_now(swarm.now() + Duration::from_millis(10));
                swarm.add_payload(link, piece, ByteRange::whole(PIECE));
                swarm.add_stored(piece);
            }
            swarm.set_open_limit(u64::from(PIECE));
            mob.fill_all(&mut swarm);
            assert!(asked(&swarm, peers[1 - slow]) && !asked(&swarm, peers[slow]));
        }
    }

    #[test]
    fn where_not_all_can_be_asked_whoever_was_not_tried_lately_is() {
        for fresh in 0..2 {
            let (mut mob, mut swarm, peers) = crowded(1);
            let (fresh, known) = (peers[fresh], peers[1 - fresh]);
            assert!(swarm.request(known, PieceIndex(0)));
            swarm.add_payload(known, PieceIndex(0), ByteRange::whole(PIECE));
            swarm.add_stored(PieceIndex(0));
            mob.fill_all(&mut swarm);
            assert!(asked(&swarm, fresh) && !asked(&swarm, known));
        }
    }

    /// The first peer, of another cluster if it is `far`, is silent since it was asked for the last piece that is missing. The second one
    /// has that too, and brings a piece in a tenth of a second.
    fn last_piece(far: bool) -> (Mob, Swarm, [LinkId; 2]) {
        let (mob, mut swarm, [silent, fast]) = crowded(8);
        if far {
            swarm.remove_peer(silent);
            swarm.add_peer(silent, NodeId(silent.0), ClusterId(7));
        }
        assert!(swarm.request(fast, PieceIndex(0)));
        swarm.set_now(swarm.now() + Duration::from_millis(100));
        swarm.add_payload(fast, PieceIndex(0), ByteRange::whole(PIECE));
        swarm.add_stored(PieceIndex(0));
        (2..8).for_each(|piece| swarm.add_own(PieceIndex(piece)));
        assert!(swarm.request(silent, PieceIndex(1)));
        (mob, swarm, [silent, fast])
    }

    #[test]
    fn a_piece_changes_its_source_where_that_takes_less_than_half_the_time() {
        // A millisecond to and fro, and a tenth of a second: twice that, four times when it has changed before, and half a second more where
        // bytes from another cluster are lost with it.
        for (far, before, silent_ms, changes) in [
            (false, 0, 201, false),
            (false, 0, 203, true),
            (false, 1, 403, false),
            (false, 1, 405, true),
            (true, 0, 701, false),
            (true, 0, 703, true),
        ] {
            let (mut mob, mut swarm, [silent, fast]) = last_piece(far);
            mob.moved.insert(PieceIndex(1), before);
            swarm.set_now(swarm.now() + Duration::from_millis(silent_ms));
            mob.fill(&mut swarm, fast);
            assert_eq!(asked(&swarm, fast), changes, "far {far}, {before} before, after {silent_ms} ms");
            assert_eq!(asked(&swarm, silent), !(far && changes), "a local one may be sooner after all");
        }
    }

    #[test]
    fn two_are_asked_for_a_piece_and_no_third_one() {
        for (second, third) in [(8, 9), (9, 8)].map(|(second, third)| (LinkId(second), LinkId(third))) {
            let (mut mob, mut swarm, [first, _]) = last_piece(false);
            swarm.add_peer(LinkId(9), NodeId(9), swarm.standing.cluster);
            swarm.add_have(LinkId(9), 1, &[Run { first: PieceIndex(1), count: 1 }]);
            swarm.set_now(swarm.now() + Duration::from_secs(100));
            [second, third].into_iter().for_each(|link| mob.fill(&mut swarm, link));
            assert_eq!([first, second, third].map(|link| asked(&swarm, link)), [true, true, false]);
        }
    }

    #[test]
    fn a_thin_link_rests_only_while_another_one_is_busy() {
        let (thin, other) = (LinkId(2), LinkId(3));
        for busy in [false, true] {
            let (mut mob, mut swarm) = (Mob::default(), swarm());
            swarm.set_paused(false);
            for (link, first) in [(thin, 0), (other, 4)] {
                swarm.add_peer(link, NodeId(link.0 + 10), ClusterId(link.0));
                swarm.add_have(link, 1, &[Run { first: PieceIndex(first), count: 4 }]);
            }
            (0..8).for_each(|piece| mob.consider(&swarm, PieceIndex(piece)));
            mob.resting.asked(thin, swarm.now());
            swarm.set_now(swarm.now() + Duration::from_secs(5));
            mob.resting.served(thin, swarm.now(), 1_000, 100_000);
            if busy {
                mob.fill(&mut swarm, other);
            }
            mob.fill(&mut swarm, thin);
            let asked = swarm.peer(thin).is_some_and(|peer| peer.window.outstanding() > 0);
            assert_eq!(asked, !busy, "what is left may be had there alone");
        }
    }

    #[test]
    fn who_rejects_again_and_again_is_not_counted_on_until_it_sends_something() {
        let (mut mob, mut swarm) = (Mob::default(), swarm());
        let liar = LinkId(1);
        swarm.set_paused(false);
        mob.handle(StrategyEvent::Started, &mut swarm);
        swarm.add_known(56, 2, None);
        let all = [Run { first: PieceIndex(0), count: 64 }];
        swarm.add_have(liar, 2, &all);
        mob.handle(StrategyEvent::Have { peer: liar, pieces: &all }, &mut swarm);
        assert_eq!(mob.todo.count(), 0, "all is at hand, it says");
        for piece in (0..8).map(PieceIndex) {
            assert_eq!(mob.todo.count(), piece.0, "what it has rejected is to be imported");
            swarm.add_rejected(liar, piece);
            mob.handle(StrategyEvent::RequestRejected { peer: liar, piece }, &mut swarm);
        }
        let open = swarm.open().count() as u32;
        assert_eq!(mob.todo.count() + open, 64, "so is everything that it was not asked for");
        swarm.set_now(swarm.now() + Duration::from_millis(14_999));
        assert!(mob.mute[&liar] > swarm.now(), "it is left alone for a quarter of a minute");
        swarm.set_now(swarm.now() + Duration::from_millis(1));
        assert!(mob.mute[&liar] <= swarm.now(), "it is tried again");
        mob.handle(StrategyEvent::RequestRejected { peer: liar, piece: PieceIndex(20) }, &mut swarm);
        assert!(mob.mute[&liar] > swarm.now(), "once");
        mob.handle(StrategyEvent::LinkMeasured(liar), &mut swarm);
        assert_eq!((mob.mute.len(), mob.rejections.len()), (0, 0), "it does send what it has");
    }
}
