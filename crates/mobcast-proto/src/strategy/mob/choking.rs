//! While the root's card is what its own cluster waits for, each piece that it exports is one that it could have given out
//! inside, and another node of its cluster could have exported: then it chokes its links to other clusters. Where the
//! network between clusters is slower, exports take nothing away, and the root serves them.
//!
//! Who is choked asks the other peer that it has in the root's cluster, and only then: otherwise each has the way to itself. Both
//! are preferences: a link is spared only while another one into the same cluster works.

use std::collections::{BTreeMap, BTreeSet};

use crate::fetch::peer::SwarmPeer;
use crate::fetch::swarm::Swarm;
use crate::strategy::message::StrategyMessage;
use crate::time::{Duration, Time};
use crate::units::LinkId;

use super::{Mob, is_wan};

/// With fewer local peers the root is needed for exports.
const LOCAL_PEERS_MIN: usize = 3;
/// Links are compared when each local peer has asked for so many pieces since they were last.
const COMPARED_AFTER: usize = 8;

/// Local peers that have asked for nothing for so long are not busy, whatever they have left to ask for; nor is a link of use that
/// has brought nothing for so long.
const QUIET_AFTER: Duration = Duration::from_secs(1);

/// What is choked, on either side.
#[derive(Default)]
pub(super) struct Choking {
    /// At the root: pieces that each peer has asked for since links were last compared.
    asked: BTreeMap<LinkId, usize>,
    /// At the root: how many of those by local peers.
    asked_inside: usize,
    /// At the root: when a local peer has asked last.
    inside_at: Time,
    /// At the root: links that it has choked.
    choked: BTreeSet<LinkId>,
    /// Links whose peers do not want to be asked.
    refused: BTreeSet<LinkId>,
}

impl Choking {
    /// A link is gone.
    pub(super) fn forget(&mut self, link: LinkId) {
        self.asked.remove(&link);
        self.choked.remove(&link);
        self.refused.remove(&link);
    }
}

impl Mob {
    /// At the root, somebody asks for a piece. A card that is the bottleneck serves all links alike: a link to another cluster
    /// that gets as much as a local one takes that from it.
    pub(super) fn choke_if_busy(&mut self, swarm: &mut Swarm, peer: LinkId) {
        if !is_wan(swarm, peer) {
            self.choking.inside_at = swarm.now();
        }
        if self.unchoke_if_idle(swarm) {
            return;
        }
        *self.choking.asked.entry(peer).or_default() += 1;
        self.choking.asked_inside += usize::from(!is_wan(swarm, peer));
        let inside = self.choking.asked_inside;
        let local = swarm.peers().filter(|(_, p)| p.local).count();
        if inside < COMPARED_AFTER * local {
            return;
        }
        let asked = std::mem::take(&mut self.choking.asked);
        self.choking.asked_inside = 0;
        for (link, pieces) in asked {
            // At least two thirds of what a local peer has asked for.
            let alike = 3 * pieces * local >= 2 * inside;
            if is_wan(swarm, link) && alike && self.choking.choked.insert(link) {
                swarm.tell(link, StrategyMessage::Choke);
                swarm.wake_at(self.choking.inside_at + QUIET_AFTER);
            }
        }
    }

    /// At the root: once its local peers have asked for enough, or ask no more, or are few, nobody is choked. True if so.
    pub(super) fn unchoke_if_idle(&mut self, swarm: &mut Swarm) -> bool {
        let local = swarm.peers().filter(|(_, p)| p.local).count();
        let quiet_at = self.choking.inside_at + QUIET_AFTER;
        if local >= LOCAL_PEERS_MIN && self.root_shares.most_are_busy() && swarm.now() < quiet_at {
            if !self.choking.choked.is_empty() {
                swarm.wake_at(quiet_at);
            }
            return false;
        }
        self.choking.asked.clear();
        self.choking.asked_inside = 0;
        for link in std::mem::take(&mut self.choking.choked) {
            swarm.tell(link, StrategyMessage::Unchoke);
        }
        true
    }

    /// The root, in another cluster, does not want to be asked, or does again.
    pub(super) fn root_chokes(&mut self, swarm: &mut Swarm, link: LinkId, choke: bool) {
        if !swarm.peer(link).is_some_and(|p| !p.local && p.node == swarm.id.root) {
            return;
        }
        let refused = &mut self.choking.refused;
        let is_news = if choke { refused.insert(link) } else { refused.remove(&link) };
        if is_news {
            self.fill_global(swarm);
        }
    }

    /// Whether a peer in another cluster is not to be asked now: it is the root and has choked this node, which has another
    /// peer there; or it is no counterpart, and there is one, so that others have the way to it to themselves.
    pub(super) fn is_spared(&self, swarm: &Swarm, link: LinkId) -> bool {
        let Some(peer) = swarm.peer(link) else { return true };
        let refused = |link: LinkId| self.choking.refused.contains(&link);
        let others = swarm.peers().filter(|(other, p)| *other != link && p.cluster == peer.cluster && !refused(*other));
        // Until the coordinator has said who are counterparts, the root, beside whom the other one was given.
        const PREFERENCE_MAX: u8 = 2;
        let preference = |p: &SwarmPeer| match swarm.standing.counterparts.contains(&p.node) {
            true => PREFERENCE_MAX,
            false => u8::from(p.node == swarm.id.root),
        };
        // Most are counterparts that want to be asked: nobody comes before those.
        if preference(peer) == PREFERENCE_MAX && !refused(link) {
            return false;
        }
        let mut instead = others.filter(|(_, p)| refused(link) || preference(p) > preference(peer));
        instead.any(|(_, p)| self.brings(swarm, p))
    }

    /// Whether a peer in another cluster is bringing something, or could.
    fn brings(&self, swarm: &Swarm, peer: &SwarmPeer) -> bool {
        let wanted = |i: usize| self.todo.word(i) & peer.have.word(i) != 0;
        let could = || self.todo.is_empty() || (0..self.todo.word_count()).any(wanted);
        peer.window.quiet_for(swarm.now()) < QUIET_AFTER || (peer.window.outstanding() == 0 && could())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::have::Run;
    use crate::content::slots::SlotSet;
    use crate::strategy::{Strategy, StrategyEvent};
    use crate::units::{BroadcastId, ClusterId, NodeId, PieceIndex};

    const LOCALS: [LinkId; 4] = [LinkId(1), LinkId(2), LinkId(3), LinkId(4)];
    const ABROAD: LinkId = LinkId(9);

    /// The root with four local peers and one in another cluster.
    fn root() -> (Mob, Swarm) {
        let mut swarm = Swarm::new(BroadcastId::default(), 16 << 10, 0, None, 1);
        swarm.standing.node = NodeId(0);
        swarm.standing.root_cluster = Some(ClusterId(0));
        swarm.standing.clusters = vec![ClusterId(0), ClusterId(1)];
        for link in LOCALS {
            swarm.add_peer(link, NodeId(link.0), ClusterId(0));
        }
        swarm.add_peer(ABROAD, NodeId(9), ClusterId(1));
        swarm.add_known(2_000, 1, None);
        swarm.set_now(Time::ZERO + Duration::from_secs(1));
        let mut mob = Mob::default();
        mob.divide_among_local_peers(&mut swarm);
        (mob, swarm)
    }

    fn want(mob: &mut Mob, swarm: &mut Swarm, peer: LinkId, piece: u32) {
        mob.handle(StrategyEvent::PieceWanted { peer, piece: PieceIndex(piece) }, swarm);
    }

    /// Each local peer asks for `pieces`, the one abroad for `abroad` of every ten.
    fn ask(mob: &mut Mob, swarm: &mut Swarm, pieces: u32, abroad: u32) {
        for piece in 0..pieces {
            LOCALS.iter().for_each(|&link| want(mob, swarm, link, 4 * piece + link.0 - 1));
            if piece % 10 < abroad {
                want(mob, swarm, ABROAD, piece);
            }
        }
    }

    #[test]
    fn a_link_that_gets_as_much_as_local_ones_is_choked_until_they_have_enough() {
        let (mut mob, mut swarm) = root();
        ask(&mut mob, &mut swarm, 30, 10);
        assert!(mob.choking.choked.contains(&ABROAD));
        ask(&mut mob, &mut swarm, 500, 0);
        assert!(mob.choking.choked.is_empty(), "all pieces were asked for inside");
    }

    /// A root that has everything looks at nothing by itself.
    #[test]
    fn a_choke_ends_when_nobody_inside_asks_any_more() {
        let (mut mob, mut swarm) = root();
        let mut asked =
            (0..30).flat_map(|piece| LOCALS.iter().chain([&ABROAD]).map(move |&link| (link, 4 * piece + link.0)));
        while mob.choking.choked.is_empty() {
            swarm.set_now(swarm.now() + Duration::from_millis(10));
            if swarm.take_wake_up() {
                mob.handle(StrategyEvent::Timeout, &mut swarm);
            }
            let (link, piece) = asked.next().expect("somebody is choked by then");
            want(&mut mob, &mut swarm, link, piece);
        }
        swarm.set_now(swarm.now() + QUIET_AFTER);
        assert!(swarm.take_wake_up());
        mob.handle(StrategyEvent::Timeout, &mut swarm);
        assert!(mob.choking.choked.is_empty());
    }

    #[test]
    fn a_root_whose_local_peers_are_gone_chokes_nobody() {
        let (mut mob, mut swarm) = root();
        ask(&mut mob, &mut swarm, 30, 10);
        let mut choked = Vec::new();
        for link in LOCALS {
            choked.push(mob.choking.choked.contains(&ABROAD));
            swarm.remove_peer(link);
            mob.handle(StrategyEvent::PeerDown(link), &mut swarm);
        }
        assert_eq!(choked, [true, true, false, false], "with two left it is needed for exports");
    }

    #[test]
    fn a_root_whose_local_peers_ask_for_nothing_more_chokes_nobody() {
        let (mut mob, mut swarm) = root();
        ask(&mut mob, &mut swarm, 30, 10);
        swarm.set_now(swarm.now() + Duration::from_millis(900));
        mob.handle(StrategyEvent::Timeout, &mut swarm);
        assert!(mob.choking.choked.contains(&ABROAD));
        swarm.set_now(swarm.now() + Duration::from_millis(100));
        mob.handle(StrategyEvent::Timeout, &mut swarm);
        assert!(mob.choking.choked.is_empty(), "their disks may stall");
    }

    #[test]
    fn pieces_that_local_peers_have_already_keep_the_root_busy_with_nothing() {
        let (mut mob, mut swarm) = root();
        ask(&mut mob, &mut swarm, 30, 10);
        let rest = [Run { first: PieceIndex(0), count: 2_000 }];
        mob.handle(StrategyEvent::Have { peer: LOCALS[0], pieces: &rest }, &mut swarm);
        want(&mut mob, &mut swarm, LOCALS[1], 7);
        assert!(mob.choking.choked.is_empty());
    }

    #[test]
    fn a_link_that_is_slower_than_local_ones_takes_nothing_from_them() {
        let (mut mob, mut swarm) = root();
        ask(&mut mob, &mut swarm, 100, 3);
        assert!(mob.choking.choked.is_empty());
    }

    /// An importer with links to the root (1) and to another node of its cluster (2).
    fn importer() -> (Mob, Swarm) {
        let mut swarm = Swarm::new(BroadcastId::default(), 16 << 10, 0, None, 1);
        swarm.standing.node = NodeId(5);
        swarm.standing.cluster = ClusterId(1);
        swarm.standing.root_cluster = Some(ClusterId(0));
        swarm.standing.slots = SlotSet::all();
        swarm.add_peer(LinkId(1), NodeId(0), ClusterId(0));
        swarm.add_peer(LinkId(2), NodeId(6), ClusterId(0));
        swarm.add_known(8, 1, None);
        swarm.set_now(Time::ZERO + Duration::from_secs(1));
        for link in [1, 2] {
            swarm.add_have(LinkId(link), 1, &[Run { first: PieceIndex(0), count: 4 }]);
        }
        let mut mob = Mob::default();
        (0..8).for_each(|piece| mob.consider(&swarm, PieceIndex(piece)));
        (mob, swarm)
    }

    fn choke(mob: &mut Mob, swarm: &mut Swarm, link: u32, choke: bool) {
        let message = if choke { StrategyMessage::Choke } else { StrategyMessage::Unchoke };
        mob.handle(StrategyEvent::Message { peer: LinkId(link), message: &message }, swarm);
    }

    fn spared(mob: &Mob, swarm: &Swarm) -> [bool; 2] {
        [1, 2].map(|link| mob.is_spared(swarm, LinkId(link)))
    }

    #[test]
    fn the_other_way_is_used_while_the_root_chokes() {
        let (mut mob, mut swarm) = importer();
        assert_eq!(spared(&mob, &swarm), [false, true]);
        choke(&mut mob, &mut swarm, 2, true);
        assert_eq!(spared(&mob, &swarm), [false, true], "nobody but the root chokes");
        choke(&mut mob, &mut swarm, 1, true);
        assert_eq!(spared(&mob, &swarm), [true, false]);
        choke(&mut mob, &mut swarm, 1, false);
        assert_eq!(spared(&mob, &swarm), [false, true]);
        choke(&mut mob, &mut swarm, 1, true);
        mob.choking.forget(LinkId(1));
        assert_eq!(spared(&mob, &swarm), [false, true], "another link to the root knows nothing of it");
    }

    #[test]
    fn a_link_is_not_spared_for_one_that_brings_nothing() {
        let (mut mob, mut swarm) = importer();
        mob.todo.remove(PieceIndex(0));
        assert!(swarm.request(LinkId(1), PieceIndex(0)));
        assert_eq!(spared(&mob, &swarm), [false, true]);
        swarm.set_now(swarm.now() + QUIET_AFTER);
        assert_eq!(spared(&mob, &swarm), [false, false], "the root's link stalls");

        let (mut mob, mut swarm) = importer();
        for piece in 0..4 {
            mob.todo.remove(PieceIndex(piece));
        }
        choke(&mut mob, &mut swarm, 1, true);
        assert_eq!(spared(&mob, &swarm), [false, false], "the other peer has nothing of what is to be imported");
    }

    #[test]
    fn who_has_no_other_way_goes_on_asking() {
        let (mut mob, mut swarm) = importer();
        swarm.remove_peer(LinkId(2));
        choke(&mut mob, &mut swarm, 1, true);
        assert!(!mob.is_spared(&swarm, LinkId(1)));
    }
}
