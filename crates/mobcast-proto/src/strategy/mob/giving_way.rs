//! Who is ahead gives way. Where many connections share a thin link, they keep the queue before it full, and what must go the same way waits
//! there: the acknowledgements of all that goes the other way, where the link may be a fat one. Measured by the one link, it goes on being
//! used; measured by the broadcast, which is over when the last cluster is, it belongs to those who are behind.
//!
//! What only those have would come from nowhere else: if all who are ahead left it where it is, it would have to leave the root's cluster
//! once more for each of them at the end. So nobody puts off much of it.

use std::collections::BTreeSet;

use crate::content::slots::slot_of;
use crate::fetch::peer::SwarmPeer;
use crate::fetch::swarm::Swarm;
use crate::units::{LinkId, PieceIndex};

use super::Mob;

/// A link is given up if it brings less than one part in so many of what others bring on the average…
const THIN_PART: u64 = 2;
/// …to a peer that lacks so much more than this node, in hundredths of the node's share, and has no more that only it has. Less is as well
/// late news.
const AHEAD_PERCENT: u64 = 5;

impl Mob {
    /// Finds the links that this node leaves to the clusters at their other ends. Those lag behind, so that this holds no longer than it
    /// should: who waits is not ahead for long.
    pub(super) fn give_way(&mut self, swarm: &Swarm) {
        let imports = || swarm.peers().filter(|(_, peer)| !peer.local && peer.window.delivered() > 0);
        let (links, rate) = (imports().count() as u64, Mob::import_rate(swarm));
        let is_thin = |peer: &SwarmPeer| {
            let own = peer.window.rate_bytes_per_s();
            links > 1 && own.saturating_mul(THIN_PART * (links - 1)) <= rate - own
        };
        let thin: Vec<LinkId> = imports().filter(|(_, peer)| is_thin(peer)).map(|(link, _)| link).collect();
        let way: BTreeSet<LinkId> = thin.into_iter().filter(|&link| self.is_ahead(swarm, link)).collect();
        self.resting.give_way(way);
    }

    /// Whether this node has more of its share than a peer, and little to fetch that only the peer has: what others have of it is all that
    /// they tell it. What the peer imports as well is not compared: this node tells it of such pieces, and is not told of them by it then.
    fn is_ahead(&self, swarm: &Swarm, link: LinkId) -> bool {
        let passes_on = |peer: &SwarmPeer| !peer.local && Some(peer.cluster) != swarm.standing.root_cluster;
        let Some(peer) = swarm.peer(link).filter(|peer| passes_on(peer)) else {
            return false;
        };
        let others: Vec<&SwarmPeer> =
            swarm.peers().filter(|&(other, p)| other != link && passes_on(p)).map(|(_, p)| p).collect();
        let interest = self.interests.get(&link);
        let (mut all, mut compared, mut here, mut there, mut only_there) = (0, 0, 0, 0, 0);
        for piece in (0..swarm.known()).map(PieceIndex) {
            let slot = slot_of(swarm.id, piece);
            if !swarm.standing.slots.contains(slot) {
                continue;
            }
            let has = peer.have.contains(piece);
            let only = || swarm.is_missing(piece) && !others.iter().any(|other| other.have.contains(piece));
            all += 1;
            only_there += u64::from(has && only());
            if !interest.is_some_and(|interest| interest.slots.contains(slot) || interest.pieces.contains(piece)) {
                compared += 1;
                here += u64::from(swarm.have().contains(piece));
                there += u64::from(has);
            }
        }
        here * 100 > there * 100 + compared * AHEAD_PERCENT && only_there * 100 <= all * AHEAD_PERCENT
    }
}

#[cfg(test)]
mod tests {
    use crate::content::have::Run;
    use crate::strategy::mob::tests::swarm;
    use crate::time::Duration;
    use crate::units::{ByteRange, ClusterId, NodeId};

    use super::*;

    const THIN: LinkId = LinkId(2);
    const FAT: LinkId = LinkId(3);
    const PIECE: u32 = 16 << 10;

    /// A node that has so many of 108 pieces, of which so many are in its peer's hands at the other end of a link that took so many times as
    /// long for one as the only other one; and whether it leaves that link to the peer.
    fn gives_way(here: u32, there: u32, slower: u64, cluster: ClusterId) -> bool {
        leaves_link(here, there, slower, cluster, [0, 0])
    }

    /// The same where so many of the pieces that the node lacks are at that end, and so many of those also at the other one's.
    fn leaves_link(here: u32, there: u32, slower: u64, cluster: ClusterId, lacked: [u32; 2]) -> bool {
        let (mut mob, mut swarm) = thin_and_fat(here, there, slower, cluster, lacked);
        mob.tick(&mut swarm);
        mob.resting.rests(THIN, swarm.now())
    }

    fn thin_and_fat(here: u32, there: u32, slower: u64, cluster: ClusterId, lacked: [u32; 2]) -> (Mob, Swarm) {
        let (mob, mut swarm) = (Mob::default(), swarm());
        swarm.set_paused(false);
        swarm.add_known(100, 2, None);
        for (link, cluster) in [(THIN, cluster), (FAT, ClusterId(3))] {
            swarm.add_peer(link, NodeId(link.0 + 10), cluster);
            swarm.add_have(link, 2, &[Run { first: PieceIndex(0), count: 1 }]);
        }
        swarm.add_have(THIN, 2, &[Run { first: PieceIndex(1), count: there - 1 }]);
        for (link, piece, took) in [(FAT, PieceIndex(0), 1), (THIN, PieceIndex(1), slower)] {
            swarm.add_have(link, 2, &[Run { first: piece, count: 1 }]);
            assert!(swarm.request(link, piece));
            swarm.set_now(swarm.now() + Duration::from_millis(100 * took));
            swarm.add_payload(link, piece, ByteRange::whole(PIECE));
        }
        (0..here).for_each(|piece| swarm.add_stored(PieceIndex(piece)));
        for (link, count) in [THIN, FAT].into_iter().zip(lacked).filter(|&(_, count)| count > 0) {
            swarm.add_have(link, 2, &[Run { first: PieceIndex(here), count }]);
        }
        (mob, swarm)
    }

    #[test]
    fn who_has_more_leaves_a_thin_link_to_who_has_less() {
        assert!(gives_way(56, 50, 2, ClusterId(2)), "5 percent of 108 are less than 6");
        assert!(!gives_way(55, 50, 2, ClusterId(2)), "and more than 5");
        assert!(!gives_way(50, 56, 2, ClusterId(2)), "who is behind needs all");
    }

    #[test]
    fn a_link_that_brings_more_than_half_of_what_others_do_is_used_by_everybody() {
        assert!(gives_way(80, 40, 2, ClusterId(2)));
        assert!(!gives_way(80, 40, 1, ClusterId(2)));
    }

    #[test]
    fn what_only_who_is_behind_has_is_not_put_off() {
        let leaves = |lacked| leaves_link(80, 40, 2, ClusterId(2), lacked);
        assert!(leaves([5, 0]), "5 percent of 108 are more than 5");
        assert!(!leaves([6, 0]), "and less than 6, which nobody else passes on");
        assert!(leaves([20, 15]), "the others come from elsewhere, too");
    }

    /// Of what both import, each tells the other, and is not told of what the other has had from it.
    #[test]
    fn who_imports_the_same_is_not_compared() {
        use crate::content::slots::SlotSet;
        for (slots, gives_way) in [(SlotSet::none(), true), (SlotSet::all(), false)] {
            let (mut mob, mut swarm) = thin_and_fat(80, 40, 9, ClusterId(2), [0, 0]);
            mob.peer_is_interested(&mut swarm, THIN, &slots, &[]);
            mob.tick(&mut swarm);
            assert_eq!(mob.resting.rests(THIN, swarm.now()), gives_way);
        }
    }

    #[test]
    fn the_roots_cluster_needs_nothing_and_says_little_of_what_it_has() {
        assert!(!gives_way(80, 40, 9, ClusterId(0)));
    }

    #[test]
    fn who_is_no_longer_ahead_takes_its_part_again() {
        let (mut mob, mut swarm) = (Mob::default(), swarm());
        mob.resting.give_way(BTreeSet::from([THIN]));
        assert!(mob.resting.rests(THIN, swarm.now()));
        mob.tick(&mut swarm);
        assert!(!mob.resting.rests(THIN, swarm.now()));
    }
}
