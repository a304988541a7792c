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
        let unasked = self.root_shares.left();
        if unasked == 0 {
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
