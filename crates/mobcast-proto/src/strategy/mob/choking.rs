//! While the root's card is what its own cluster waits for, each piece that it exports is one that it could have given out
//! inside, and another node of its cluster could have exported: then it chokes its links to other clusters. Where the
//! network between clusters is slower, exports take nothing away, and the root serves them.
//!
//! Who is choked asks the other peer that it has in the root's cluster, and only then: otherwise each has the way to itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::fetch::swarm::Swarm;
use crate::strategy::message::StrategyMessage;
use crate::units::LinkId;

use super::{Mob, is_wan};

/// With fewer local peers the root is needed for exports.
const LOCAL_PEERS_MIN: usize = 3;
/// Links are compared when each local peer has asked for so many pieces since they were last.
const COMPARED_AFTER: usize = 8;

/// What is choked, on either side.
#[derive(Default)]
pub(super) struct Choking {
    /// At the root: pieces that each peer has asked for since links were last compared.
    asked: BTreeMap<LinkId, usize>,
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
        if !self.root_shares.most_are_busy() {
            self.choking.asked.clear();
            for link in std::mem::take(&mut self.choking.choked) {
                swarm.tell(link, StrategyMessage::Unchoke);
            }
            return;
        }
        *self.choking.asked.entry(peer).or_default() += 1;
        let local: Vec<LinkId> = swarm.peers().filter(|(_, p)| p.local).map(|(link, _)| link).collect();
        let of = |link: &LinkId| self.choking.asked.get(link).copied().unwrap_or(0);
        let inside: usize = local.iter().map(of).sum();
        if local.len() < LOCAL_PEERS_MIN || inside < COMPARED_AFTER * local.len() {
            return;
        }
        let asked = std::mem::take(&mut self.choking.asked);
        for (link, pieces) in asked {
            // At least two thirds of what a local peer has asked for.
            let alike = 3 * pieces * local.len() >= 2 * inside;
            if is_wan(swarm, link) && alike && self.choking.choked.insert(link) {
                swarm.tell(link, StrategyMessage::Choke);
            }
        }
    }

    /// A peer in another cluster does not want to be asked, or does again.
    pub(super) fn peer_chokes(&mut self, swarm: &mut Swarm, peer: LinkId, choke: bool) {
        if !choke {
            self.choking.refused.remove(&peer);
            return self.fill(swarm, peer);
        }
        if is_wan(swarm, peer) {
            self.choking.refused.insert(peer);
            self.fill_global(swarm);
        }
    }

    /// Whether a peer in another cluster is not to be asked now: it has choked this node, which has another peer there;
    /// or it is that other peer, and is not needed, because others have the way to it to themselves.
    pub(super) fn is_spared(&self, swarm: &Swarm, link: LinkId) -> bool {
        let Some(peer) = swarm.peer(link) else { return true };
        let refused = |link: LinkId| self.choking.refused.contains(&link);
        let mut others = swarm.peers().filter(|(other, p)| *other != link && p.cluster == peer.cluster);
        if refused(link) {
            return others.any(|(other, _)| !refused(other));
        }
        peer.node != swarm.id.root && others.any(|(other, p)| p.node == swarm.id.root && !refused(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::slots::SlotSet;
    use crate::strategy::{Strategy, StrategyEvent};
    use crate::time::{Duration, Time};
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
        (Mob::default(), swarm)
    }

    #[test]
    fn the_other_way_is_used_while_the_root_chokes() {
        let (mut mob, mut swarm) = importer();
        let spared = |mob: &Mob, swarm: &Swarm| [1, 2].map(|link| mob.is_spared(swarm, LinkId(link)));
        assert_eq!(spared(&mob, &swarm), [false, true]);
        mob.peer_chokes(&mut swarm, LinkId(1), true);
        assert_eq!(spared(&mob, &swarm), [true, false]);
        mob.peer_chokes(&mut swarm, LinkId(1), false);
        assert_eq!(spared(&mob, &swarm), [false, true]);
        mob.peer_chokes(&mut swarm, LinkId(1), true);
        mob.choking.forget(LinkId(1));
        assert_eq!(spared(&mob, &swarm), [false, true], "another link to the root knows nothing of it");
    }

    #[test]
    fn who_has_no_other_way_goes_on_asking() {
        let (mut mob, mut swarm) = importer();
        swarm.remove_peer(LinkId(2));
        mob.peer_chokes(&mut swarm, LinkId(1), true);
        assert!(!mob.is_spared(&swarm, LinkId(1)));
    }
}
