//! What the root's local peers fetch from it: each its own part of the object, so that each piece leaves the root once before
//! any leaves it twice, and asks it for nothing else: what the root can send is the most that all can get. Links are not alike,
//! and change: whoever is nearly through with its part takes over half of the largest rest; its last few pieces only when no more are to
//! come, or its owner is silent. When everything was asked for, anybody
//! may ask for anything. The part of each is what its peers in other clusters want from it, as far as parts stay even: such a piece comes
//! from the root to where it leaves the cluster at once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::content::have::{HaveSet, Run};
use crate::content::slots::{SlotSet, slot_of};
use crate::fetch::swarm::Swarm;
use crate::limits::SLOTS;
use crate::strategy::message::StrategyMessage;
use crate::time::{Duration, Time};
use crate::units::{LinkId, PieceIndex};

use super::Mob;
use super::asking::QUIET;

/// A part changes hands at most so often: the root looks at all pieces for it.
const MOVE_INTERVAL: Duration = Duration::from_millis(5);
/// Whoever has no more left than this of its part to ask for is given more, so that it never needs to ask for another's.
const LOW: u32 = 4;

/// Peers are compared when each has asked for so many pieces on average, and so much time has passed: what they ask for first, whole
/// windows of it, says nothing about them…
const COMPARED_AFTER: u32 = 16;
const COMPARED_EVERY: Duration = Duration::from_millis(500);
/// …and one that has asked for less than this part of the average is spared, if it is one of at least so many.
const SLOW_FACTOR: u32 = 4;
const SPARED_AMONG: u32 = 3;
/// So many always keep theirs.
const KEEP_THEIRS: u32 = 2;

/// The parts, as the root keeps them.
#[derive(Default)]
pub(super) struct RootShares {
    of: BTreeMap<LinkId, Part>,
    /// What other clusters want from local peers.
    wanted_of: BTreeMap<LinkId, SlotSet>,
    /// What has been asked for by any of them, or is there already.
    asked: HaveSet,
    /// When a part may change hands again.
    next_move: Time,
    /// When peers were last compared.
    compared_at: Time,
    /// Everything was asked for, and there will not be more.
    open_to_all: bool,
}

/// What one peer is to fetch.
#[derive(Default)]
struct Part {
    slots: SlotSet,
    /// Pieces of it that nobody has asked for.
    left: u32,
    /// Pieces that it has asked for since peers were last compared.
    wanted: u32,
    /// When it asked for one last.
    asked_at: Option<Time>,
    /// When it was given another one's last.
    given_at: Option<Time>,
    /// It is far slower than the others: what only it has, all would wait for. It has no part.
    spared: bool,
}

impl Mob {
    /// The root has its local peers fetch different parts from it.
    pub(super) fn divide_among_local_peers(&mut self, swarm: &mut Swarm) {
        if swarm.standing.node != swarm.id.root {
            return;
        }
        let peers: Vec<LinkId> = swarm.peers().filter(|(_, p)| p.local).map(|(link, _)| link).collect();
        self.root_shares.open_to_all = false;
        self.root_shares.wanted_of.retain(|link, _| peers.contains(link));
        self.root_shares.divide(&peers);
        self.root_shares.compare_from(swarm.now());
        peers.into_iter().for_each(|peer| self.tell_root_share(swarm, peer));
        let unasked = self.root_shares.unasked(swarm);
        self.root_shares.of.values_mut().for_each(|part| part.count(&unasked));
    }

    /// Other clusters want these slots from a local peer of the root.
    pub(super) fn peer_is_wanted_for(&mut self, swarm: &mut Swarm, peer: LinkId, slots: &SlotSet) {
        if swarm.standing.node == swarm.id.root {
            let before = self.root_shares.wanted_of.insert(peer, slots.clone());
            if before.as_ref() != Some(slots) {
                self.divide_among_local_peers(swarm);
            }
        }
    }

    /// Tells the root which slots other clusters want from this member of its cluster, if they are other ones than before.
    pub(super) fn tell_root_what_is_wanted(&mut self, swarm: &mut Swarm) {
        let root = swarm.peers().find(|(_, p)| p.local && p.node == swarm.id.root).map(|(link, _)| link);
        let mut slots = SlotSet::none();
        self.interests.values().for_each(|interest| slots.union(&interest.slots));
        let told = self.wanted_told.as_ref().filter(|(link, _)| Some(*link) == root);
        let news = told.map_or(!slots.is_none(), |(_, before)| *before != slots);
        if let Some(root) = root.filter(|_| news) {
            swarm.tell(root, StrategyMessage::Interest { slots: slots.clone(), pieces: Vec::new() });
            self.wanted_told = Some((root, slots));
        }
    }

    /// More pieces are known.
    pub(super) fn root_share_grows(&mut self, swarm: &Swarm, pieces: Run) {
        for piece in pieces.pieces() {
            let owner = self.root_shares.owner_mut(slot_of(swarm.id, piece));
            owner.into_iter().for_each(|part| part.left += 1);
        }
    }

    /// A local peer asks the root for a piece: when little of its part is left, it gets half of what the largest rest exceeds it by.
    pub(super) fn local_peer_wants(&mut self, swarm: &mut Swarm, peer: LinkId, piece: PieceIndex) {
        self.root_shares.take_off(swarm, piece);
        if let Some(part) = self.root_shares.of.get_mut(&peer) {
            part.wanted += 1;
            part.asked_at = Some(swarm.now());
            self.spare_slow_peers(swarm);
        }
        if self.root_shares.of.get(&peer).is_none_or(|part| part.left > LOW || part.spared) {
            return;
        }
        if swarm.now() < self.root_shares.next_move {
            // It may ask for nothing more until then.
            return swarm.wake_at(self.root_shares.next_move);
        }
        self.relieve_largest(swarm, peer);
    }

    /// Whoever has nothing left asks for nothing: it is looked at again and again, as long as others have not asked for all of theirs.
    /// But who was given something, and has asked for nothing since, may be out of reach; among such peers it would go around for ever.
    pub(super) fn feed_idle_peers(&mut self, swarm: &mut Swarm) {
        if swarm.now() < self.root_shares.next_move {
            return;
        }
        self.open_to_all_if_all_was_asked_for(swarm);
        let idle = |part: &Part| part.left == 0 && !part.spared && part.given_at <= part.asked_at;
        let idle: Vec<LinkId> = self.root_shares.of.iter().filter(|(_, part)| idle(part)).map(|(&l, _)| l).collect();
        for peer in idle {
            self.relieve_largest(swarm, peer);
        }
    }

    /// Takes the part from whoever has asked for far less than the others, though there was something to ask for.
    fn spare_slow_peers(&mut self, swarm: &mut Swarm) {
        let shares = &mut self.root_shares;
        let compared = || shares.of.values().filter(|part| !part.spared);
        let (wanted, peers) = (compared().map(|part| part.wanted).sum::<u32>(), compared().count() as u32);
        let early = swarm.now().since(shares.compared_at) < COMPARED_EVERY || wanted < COMPARED_AFTER * peers;
        if early || peers < SPARED_AMONG {
            return;
        }
        let slow = |part: &Part| part.wanted * SLOW_FACTOR < wanted / peers && part.left > LOW && !part.spared;
        let late = shares.of.iter().filter(|(_, part)| slow(part)).map(|(&link, part)| (part.wanted, link));
        let mut late: Vec<(u32, LinkId)> = late.collect();
        late.sort_unstable();
        late.truncate((peers - KEEP_THEIRS) as usize);
        shares.compare_from(swarm.now());
        for (_, link) in late {
            self.share_out(swarm, link);
        }
    }

    /// A peer's part goes to the others, slot by slot. There are others: not all can have asked for less than the average.
    fn share_out(&mut self, swarm: &mut Swarm, link: LinkId) {
        let unasked = self.root_shares.unasked(swarm);
        let others = |(&other, part): (&LinkId, &Part)| (other != link && !part.spared).then_some(other);
        let others: Vec<LinkId> = self.root_shares.of.iter().filter_map(others).collect();
        let Some(part) = self.root_shares.of.get_mut(&link).filter(|_| !others.is_empty()) else { return };
        part.spared = true;
        part.left = 0;
        let slots = std::mem::replace(&mut part.slots, SlotSet::none());
        for (slot, other) in slots.iter().zip(others.iter().cycle()) {
            let part = self.root_shares.of.get_mut(other).expect("listed above");
            part.slots.insert(slot);
            part.left += unasked[slot];
        }
        for peer in others.into_iter().chain([link]) {
            self.tell_root_share(swarm, peer);
        }
    }

    fn relieve_largest(&mut self, swarm: &mut Swarm, peer: LinkId) {
        let shares = &mut self.root_shares;
        let Some((left, from)) = shares.of.iter().map(|(&link, part)| (part.left, link)).max() else { return };
        if left == 0 {
            return self.open_to_all_if_all_was_asked_for(swarm);
        }
        let own = shares.of.get(&peer).map_or(0, |part| part.left);
        // As long as more is to come, the next pieces of whoever asks for its own are as near.
        let asks = |part: &Part| part.asked_at.is_some_and(|at| swarm.now().since(at) < QUIET);
        if left <= LOW && swarm.end().is_none() && shares.of.get(&from).is_some_and(asks) {
            return;
        }
        // The last piece of another one's is taken only by who has none.
        if left <= own + u32::from(own > 0) || from == peer {
            return;
        }
        shares.next_move = swarm.now() + MOVE_INTERVAL;
        swarm.wake_at(shares.next_move);
        let unasked = shares.unasked(swarm);
        let giver = shares.of.get_mut(&from).expect("chosen among them");
        let mut taken = SlotSet::none();
        let mut count = 0;
        let wanted_of = |link: LinkId, slot: usize| shares.wanted_of.get(&link).is_some_and(|set| set.contains(slot));
        let mut slots: Vec<usize> = giver.slots.iter().filter(|&slot| unasked[slot] > 0).collect();
        slots.sort_by_key(|&slot| (!wanted_of(peer, slot), wanted_of(from, slot)));
        for slot in slots {
            if count + unasked[slot] <= (left - own).div_ceil(2) {
                count += unasked[slot];
                taken.insert(slot);
            }
        }
        taken.iter().for_each(|slot| giver.slots.remove(slot));
        giver.count(&unasked);
        let taker = shares.of.get_mut(&peer).expect("it is one of the peers");
        taker.slots.union(&taken);
        taker.given_at = Some(swarm.now());
        taker.count(&unasked);
        if count > 0 {
            self.tell_root_share(swarm, from);
            self.tell_root_share(swarm, peer);
        }
    }

    fn open_to_all_if_all_was_asked_for(&mut self, swarm: &mut Swarm) {
        let shares = &mut self.root_shares;
        if shares.open_to_all || swarm.end().is_none() || shares.of.values().any(|part| part.left > 0) {
            return;
        }
        shares.open_to_all = true;
        for &peer in self.root_shares.of.keys() {
            swarm.tell(peer, StrategyMessage::Share { slots: SlotSet::all() });
        }
    }

    fn tell_root_share(&self, swarm: &mut Swarm, peer: LinkId) {
        let slots = self.root_shares.of[&peer].slots.clone();
        swarm.tell(peer, StrategyMessage::Share { slots });
    }
}

impl RootShares {
    /// Makes even parts: each slot goes to a peer that other clusters want it from, as long as that one's part is not full, or to the
    /// one with the smallest part.
    fn divide(&mut self, peers: &[LinkId]) {
        let even = SLOTS.div_ceil(peers.len().max(1));
        let mut parts = vec![(0, SlotSet::none()); peers.len()];
        let mut rest = SlotSet::all();
        let wanted: Vec<(usize, &SlotSet)> =
            peers.iter().enumerate().filter_map(|(i, peer)| Some((i, self.wanted_of.get(peer)?))).collect();
        let mut all_wanted = SlotSet::none();
        wanted.iter().for_each(|(_, slots)| all_wanted.union(slots));
        for slot in all_wanted.iter() {
            let takers = wanted.iter().filter(|(i, slots)| slots.contains(slot) && parts[*i].0 < even).map(|&(i, _)| i);
            if let Some(smallest) = takers.min_by_key(|&i| parts[i].0) {
                parts[smallest].0 += 1;
                parts[smallest].1.insert(slot);
                rest.remove(slot);
            }
        }
        let mut by_size: BinaryHeap<Reverse<(usize, usize)>> =
            parts.iter().enumerate().map(|(i, (size, _))| Reverse((*size, i))).collect();
        for slot in rest.iter() {
            let Some(mut smallest) = by_size.peek_mut() else { break };
            smallest.0.0 += 1;
            parts[smallest.0.1].1.insert(slot);
        }
        let part = |(_, slots)| Part { slots, ..Part::default() };
        self.of = peers.iter().copied().zip(parts.into_iter().map(part)).collect();
    }

    /// Peers are compared by what they ask for from now on.
    fn compare_from(&mut self, now: Time) {
        self.compared_at = now;
        self.of.values_mut().for_each(|part| part.wanted = 0);
    }

    /// Each piece is in the part of exactly one peer: what is in nobody's, nobody would ask for.
    pub(super) fn check_invariants(&self) {
        let slots = self.of.values().map(|part| part.slots.count());
        let mut all = SlotSet::none();
        self.of.values().for_each(|part| all.union(&part.slots));
        assert!(
            self.of.is_empty() || (slots.sum::<usize>(), all.count()) == (SLOTS, SLOTS),
            "the root's parts are not the whole"
        );
    }

    /// What is known of a piece, in words.
    pub(super) fn explain(&self, swarm: &Swarm, piece: PieceIndex) -> String {
        let asked = self.asked.contains(piece);
        let owner = self.of.iter().find(|(_, part)| part.slots.contains(slot_of(swarm.id, piece)));
        let owner = owner.map(|(&link, part)| (swarm.peer(link).map(|peer| peer.node), part.left));
        format!(", asked for {asked}, in the part of {owner:?}, open to all {}", self.open_to_all)
    }

    /// Whether most local peers have something left to ask the root for that nobody has asked for.
    pub(super) fn most_are_busy(&self) -> bool {
        2 * self.of.values().filter(|part| part.left > 0).count() > self.of.len()
    }

    /// A local peer has asked for a piece, or has it.
    pub(super) fn take_off(&mut self, swarm: &Swarm, piece: PieceIndex) {
        if self.asked.insert(piece) {
            let owner = self.owner_mut(slot_of(swarm.id, piece));
            owner.into_iter().for_each(|part| part.left = part.left.saturating_sub(1));
        }
    }

    /// The part that a slot belongs to.
    fn owner_mut(&mut self, slot: usize) -> Option<&mut Part> {
        self.of.values_mut().find(|part| part.slots.contains(slot))
    }

    /// Known pieces of each slot that nobody has asked for.
    fn unasked(&self, swarm: &Swarm) -> Vec<u32> {
        let mut unasked = vec![0; SLOTS];
        let pieces = (0..swarm.known()).map(PieceIndex).filter(|&piece| !self.asked.contains(piece));
        pieces.for_each(|piece| unasked[slot_of(swarm.id, piece)] += 1);
        unasked
    }
}

impl Part {
    fn count(&mut self, unasked: &[u32]) {
        self.left = self.slots.iter().map(|slot| unasked[slot]).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::manifest::End;
    use crate::io::Output;
    use crate::strategy::{Strategy, StrategyEvent};
    use crate::units::{BroadcastId, ClusterId, Digest, NodeId};
    use crate::wire::Frame;

    const PEERS: [LinkId; 2] = [LinkId(1), LinkId(2)];

    /// The root of 400 pieces, with two local peers.
    fn root() -> (Mob, Swarm) {
        let mut swarm = Swarm::new(BroadcastId::default(), 16 << 10, 0, None, 1);
        swarm.standing.node = swarm.id.root;
        swarm.standing.root_cluster = Some(ClusterId(0));
        swarm.add_known(400, 1, None);
        swarm.set_now(Time(1));
        let mut mob = Mob::default();
        for link in PEERS {
            swarm.add_peer(link, NodeId(link.0), ClusterId(0));
            mob.handle(StrategyEvent::PeerUp(link), &mut swarm);
        }
        (mob, swarm)
    }

    /// The last part that each peer was told.
    fn told(swarm: &mut Swarm) -> BTreeMap<LinkId, SlotSet> {
        let share = |output| match output {
            Output::Send { link, frame: Frame::Strategy { message: StrategyMessage::Share { slots }, .. } } => {
                Some((link, slots))
            }
            _ => None,
        };
        swarm.take_outputs().filter_map(share).collect()
    }

    fn want(mob: &mut Mob, swarm: &mut Swarm, peer: LinkId, piece: PieceIndex) {
        swarm.set_now(swarm.now() + MOVE_INTERVAL);
        mob.handle(StrategyEvent::PieceWanted { peer, piece }, swarm);
    }

    #[test]
    fn who_is_nearly_through_takes_over_half_of_the_rest_of_another() {
        let (mut mob, mut swarm) = root();
        let parts = told(&mut swarm);
        let pieces = |slots: &SlotSet| {
            (0..400).map(PieceIndex).filter(|&p| slots.contains(slot_of(BroadcastId::default(), p))).collect::<Vec<_>>()
        };
        let (own, others) = (pieces(&parts[&PEERS[0]]), pieces(&parts[&PEERS[1]]));
        assert_eq!(own.len() + others.len(), 400);
        let enough = own.len() - LOW as usize - 1;
        for &piece in &own[..enough] {
            want(&mut mob, &mut swarm, PEERS[0], piece);
        }
        assert!(told(&mut swarm).is_empty(), "each keeps to its part");
        want(&mut mob, &mut swarm, PEERS[0], own[enough]);
        let parts = told(&mut swarm);
        let (now_own, kept) = (pieces(&parts[&PEERS[0]]), pieces(&parts[&PEERS[1]]));
        assert!((now_own.len() - own.len()).abs_diff(others.len() / 2) <= 2, "half of it");
        assert!(now_own.iter().all(|piece| !kept.contains(piece)));
        want(&mut mob, &mut swarm, PEERS[0], own[enough + 1]);
        assert!(told(&mut swarm).is_empty(), "there is enough again");
    }

    /// The root of 400 pieces and more to come: one of two peers has asked for all of its part, the other, a moment ago, for all but a
    /// few. Also the first one's part, and a piece of it.
    fn root_with_a_few_left() -> (Mob, Swarm, SlotSet, PieceIndex) {
        let (mut mob, mut swarm) = root();
        let parts = told(&mut swarm);
        let in_part = |piece: &PieceIndex, peer: LinkId| parts[&peer].contains(slot_of(BroadcastId::default(), *piece));
        let pieces = || (0..400).map(PieceIndex);
        let others: Vec<PieceIndex> = pieces().filter(|piece| in_part(piece, PEERS[1])).collect();
        let own: Vec<PieceIndex> = pieces().filter(|piece| in_part(piece, PEERS[0])).collect();
        let asked = others[LOW as usize + 1..].iter().chain(&own[1..]);
        asked.for_each(|&piece| mob.root_shares.take_off(&swarm, piece));
        want(&mut mob, &mut swarm, PEERS[1], others[LOW as usize]);
        want(&mut mob, &mut swarm, PEERS[0], own[0]);
        assert!(told(&mut swarm).is_empty(), "the source goes on, and the other one asks");
        (mob, swarm, parts[&PEERS[0]].clone(), own[0])
    }

    #[test]
    fn the_last_few_of_a_part_change_hands_when_no_more_is_to_come() {
        let (mut mob, mut swarm, part, piece) = root_with_a_few_left();
        swarm.add_known(0, 2, Some(End { length: 400 * (16 << 10), object_hash: Digest::default() }));
        want(&mut mob, &mut swarm, PEERS[0], piece);
        assert!(told(&mut swarm)[&PEERS[0]].count() > part.count());
    }

    #[test]
    fn what_is_left_does_not_go_around_among_peers_that_ask_for_nothing() {
        let (mut mob, mut swarm, ..) = root_with_a_few_left();
        swarm.add_known(0, 2, Some(End { length: 400 * (16 << 10), object_hash: Digest::default() }));
        let unasked: Vec<PieceIndex> =
            (0..400).map(PieceIndex).filter(|&piece| !mob.root_shares.asked.contains(piece)).collect();
        unasked[1..].iter().for_each(|&piece| mob.root_shares.take_off(&swarm, piece));
        let mut parts = 0;
        for _ in 0..1_000 {
            swarm.set_now(swarm.now() + MOVE_INTERVAL);
            mob.handle(StrategyEvent::Timeout, &mut swarm);
            parts += told(&mut swarm).len();
        }
        assert!(parts <= 2 * PEERS.len(), "{parts} times a part is told to peers that are out of reach");
    }

    #[test]
    fn the_last_few_of_a_part_change_hands_when_its_owner_is_silent() {
        let (mut mob, mut swarm, part, piece) = root_with_a_few_left();
        swarm.set_now(swarm.now() + QUIET);
        want(&mut mob, &mut swarm, PEERS[0], piece);
        assert!(told(&mut swarm)[&PEERS[0]].count() > part.count());
    }

    #[test]
    fn parts_are_even_and_what_other_clusters_want_from_their_peers() {
        let (mut mob, mut swarm) = root_of_four();
        let slots = |range: std::ops::Range<usize>| {
            let mut slots = SlotSet::none();
            range.for_each(|slot| slots.insert(slot));
            slots
        };
        let quarter = SLOTS / 4;
        for (link, wanted) in [(LinkId(3), slots(0..quarter)), (SLOW, slots(quarter..3 * quarter))] {
            let message = StrategyMessage::Interest { slots: wanted, pieces: Vec::new() };
            mob.handle(StrategyEvent::Message { peer: link, message: &message }, &mut swarm);
        }
        let parts = told(&mut swarm);
        assert!(parts.values().all(|slots| slots.count() == quarter), "{parts:?}");
        assert_eq!(parts[&LinkId(3)], slots(0..quarter));
        assert!(parts[&SLOW].iter().all(|slot| (quarter..3 * quarter).contains(&slot)));
        mob.root_shares.check_invariants();
    }

    #[test]
    fn a_member_tells_the_root_what_other_clusters_want_from_it_once() {
        let mut swarm = Swarm::new(BroadcastId::default(), 16 << 10, 0, None, 1);
        swarm.standing.node = NodeId(5);
        swarm.standing.root_cluster = Some(ClusterId(0));
        let mut mob = Mob::default();
        for (link, node, cluster) in [(1, swarm.id.root, 0), (2, NodeId(9), 1), (3, NodeId(10), 2)] {
            swarm.add_peer(LinkId(link), node, ClusterId(cluster));
            mob.handle(StrategyEvent::PeerUp(LinkId(link)), &mut swarm);
        }
        let mut said = |link: u32, slots: &[usize], mob: &mut Mob| {
            let mut wanted = SlotSet::none();
            slots.iter().for_each(|&slot| wanted.insert(slot));
            let message = StrategyMessage::Interest { slots: wanted, pieces: Vec::new() };
            mob.handle(StrategyEvent::Message { peer: LinkId(link), message: &message }, &mut swarm);
            let interest = |output| match output {
                Output::Send {
                    link: LinkId(1),
                    frame: Frame::Strategy { message: StrategyMessage::Interest { slots, .. }, .. },
                } => Some(slots.iter().collect::<Vec<_>>()),
                _ => None,
            };
            swarm.take_outputs().filter_map(interest).collect::<Vec<_>>()
        };
        assert_eq!(said(2, &[7, 9], &mut mob), [[7, 9]]);
        assert_eq!(said(2, &[7, 9], &mut mob), Vec::<Vec<usize>>::new());
        assert_eq!(said(3, &[8], &mut mob), [[7, 8, 9]]);
    }

    #[test]
    fn an_end_that_becomes_known_after_all_else_opens_the_object_to_all() {
        let (mut mob, mut swarm) = root();
        for piece in (0..400).map(PieceIndex) {
            want(&mut mob, &mut swarm, PEERS[0], piece);
        }
        told(&mut swarm);
        let run = swarm.add_known(0, 2, Some(End { length: 400 * (16 << 10), object_hash: Digest::default() }));
        swarm.set_now(swarm.now() + MOVE_INTERVAL);
        mob.handle(StrategyEvent::PiecesKnown(run), &mut swarm);
        assert!(told(&mut swarm).values().all(|slots| *slots == SlotSet::all()));
        assert!(mob.root_shares.open_to_all);
    }

    #[test]
    fn once_all_was_asked_for_anybody_may_ask_for_anything() {
        let (mut mob, mut swarm) = root();
        swarm.add_known(0, 1, Some(End { length: 400 * (16 << 10), object_hash: Digest::default() }));
        told(&mut swarm);
        for piece in (0..400).map(PieceIndex) {
            want(&mut mob, &mut swarm, PEERS[0], piece);
        }
        let parts = told(&mut swarm);
        assert!(PEERS.iter().all(|peer| parts[peer] == SlotSet::all()));
    }

    const SLOW: LinkId = LinkId(4);

    /// The same with two more.
    fn root_of_four() -> (Mob, Swarm) {
        let (mut mob, mut swarm) = root();
        for link in [LinkId(3), SLOW] {
            swarm.add_peer(link, NodeId(link.0), ClusterId(0));
            mob.handle(StrategyEvent::PeerUp(link), &mut swarm);
        }
        told(&mut swarm);
        (mob, swarm)
    }

    fn spared(mob: &Mob) -> Vec<LinkId> {
        mob.root_shares.of.iter().filter(|(_, part)| part.spared).map(|(&link, _)| link).collect()
    }

    #[test]
    fn a_peer_that_asks_for_far_less_than_others_loses_its_part() {
        let (mut mob, mut swarm) = root_of_four();
        for piece in 0..COMPARED_AFTER * 7 {
            let peer = [PEERS[0], PEERS[1], LinkId(3)][piece as usize % 3];
            want(&mut mob, &mut swarm, peer, PieceIndex(piece));
        }
        want(&mut mob, &mut swarm, SLOW, PieceIndex(200));
        assert_eq!(told(&mut swarm)[&SLOW], SlotSet::none());
        assert_eq!(spared(&mob), [SLOW]);
        mob.root_shares.check_invariants();
        // It may still be asking for what it was told before.
        for piece in 200..400 {
            want(&mut mob, &mut swarm, SLOW, PieceIndex(piece));
        }
        assert_eq!(spared(&mob), [SLOW], "the others are not slower than it");
        mob.root_shares.check_invariants();
    }

    #[test]
    fn two_always_keep_their_parts() {
        let (mut mob, mut swarm) = root_of_four();
        for piece in 0..COMPARED_AFTER * 8 {
            want(&mut mob, &mut swarm, PEERS[0], PieceIndex(piece));
        }
        assert_eq!(spared(&mob).len(), 2, "all but one are slow");
        mob.root_shares.check_invariants();
    }

    #[test]
    fn nobody_is_slow_because_others_asked_for_whole_windows_at_once() {
        let (mut mob, mut swarm) = root_of_four();
        for piece in 0..COMPARED_AFTER * 4 {
            mob.handle(StrategyEvent::PieceWanted { peer: PEERS[0], piece: PieceIndex(piece) }, &mut swarm);
        }
        assert!(spared(&mob).is_empty());
    }

    #[test]
    fn nothing_but_the_own_part_is_asked_of_the_root() {
        let mut swarm = Swarm::new(BroadcastId::default(), 16 << 10, 0, None, 1);
        swarm.standing.node = NodeId(5);
        swarm.standing.root_cluster = Some(ClusterId(0));
        swarm.add_peer(PEERS[0], swarm.id.root, ClusterId(0));
        swarm.add_known(400, 1, None);
        swarm.set_now(Time(1));
        swarm.set_paused(false);
        swarm.add_have(PEERS[0], 1, &[Run { first: PieceIndex(0), count: 400 }]);
        let mut mob = Mob::default();
        let mut slots = SlotSet::none();
        slots.insert(slot_of(swarm.id, PieceIndex(77)));
        let message = StrategyMessage::Share { slots };
        mob.handle(StrategyEvent::Message { peer: PEERS[0], message: &message }, &mut swarm);
        let asked: Vec<PieceIndex> = swarm.open().map(|(piece, _)| piece).collect();
        assert_eq!(asked, [PieceIndex(77)]);
    }
}
