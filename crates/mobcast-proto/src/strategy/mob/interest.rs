//! What a node's peers in other clusters announce to it: the pieces that are its to import, and no others.

use crate::content::have::{HaveSet, RUNS_PER_FRAME, Run};
use crate::content::slots::{SlotSet, slot_of};
use crate::fetch::swarm::Swarm;
use crate::strategy::message::StrategyMessage;
use crate::units::{LinkId, PieceIndex};

use super::{Mob, is_wan};

/// What a peer in another cluster wants to hear of.
#[derive(Default)]
pub(super) struct Interest {
    pub(super) slots: SlotSet,
    pub(super) pieces: HaveSet,
}

impl Mob {
    /// A peer in another cluster says what it wants to hear of.
    pub(super) fn peer_is_interested(&mut self, swarm: &mut Swarm, peer: LinkId, slots: &SlotSet, pieces: &[Run]) {
        let interest = self.interests.get_or_default(peer);
        let before = std::mem::replace(&mut interest.slots, slots.clone());
        let mut news: Vec<PieceIndex> = Vec::new();
        for piece in pieces.iter().flat_map(|run| run.pieces()) {
            interest.pieces.insert(piece);
            if swarm.have().contains(piece) {
                news.push(piece);
            }
        }
        let gained = |slot: usize| slots.contains(slot) && !before.contains(slot);
        // A thief says the same slots again with each theft.
        if before != *slots {
            news.extend(swarm.have().iter().filter(|&piece| gained(slot_of(swarm.id, piece))));
        }
        news.into_iter().for_each(|piece| swarm.announce(peer, piece));
        swarm.hasten(peer);
    }

    /// Tells all peers in other clusters which pieces they should announce.
    pub(super) fn tell_interests(&self, swarm: &mut Swarm) {
        for link in swarm.links() {
            if is_wan(swarm, link) {
                self.tell_interest(swarm, link);
            }
        }
    }

    /// Tells a peer in another cluster which pieces it should announce.
    pub(super) fn tell_interest(&self, swarm: &mut Swarm, peer: LinkId) {
        swarm.tell(peer, self.interest(swarm));
    }

    /// Which pieces peers in other clusters should announce.
    pub(super) fn interest(&self, swarm: &Swarm) -> StrategyMessage {
        let slots = if swarm.in_root_cluster() { SlotSet::none() } else { swarm.standing.slots.clone() };
        let mut pieces = self.stolen.runs();
        pieces.truncate(RUNS_PER_FRAME);
        StrategyMessage::Interest { slots, pieces }
    }
}
