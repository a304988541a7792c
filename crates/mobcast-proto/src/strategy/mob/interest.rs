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

    /// Tells all peers in other clusters which pieces more they should announce.
    pub(super) fn tell_unsaid_interests(&mut self, swarm: &mut Swarm) {
        let unsaid = std::mem::take(&mut self.unsaid).runs();
        for pieces in unsaid.chunks(RUNS_PER_FRAME) {
            let far: Vec<LinkId> = swarm.links().into_iter().filter(|&link| is_wan(swarm, link)).collect();
            far.into_iter().for_each(|link| swarm.tell(link, interest_in(swarm, pieces.to_vec())));
        }
    }

    /// Tells a peer in another cluster which pieces it should announce.
    pub(super) fn tell_interest(&self, swarm: &mut Swarm, peer: LinkId) {
        swarm.tell(peer, self.interest(swarm));
        for more in self.stolen.runs().chunks(RUNS_PER_FRAME).skip(1) {
            swarm.tell(peer, interest_in(swarm, more.to_vec()));
        }
    }

    /// Which pieces peers in other clusters should announce, as far as one frame can say it.
    pub(super) fn interest(&self, swarm: &Swarm) -> StrategyMessage {
        let mut pieces = self.stolen.runs();
        pieces.truncate(RUNS_PER_FRAME);
        interest_in(swarm, pieces)
    }
}

/// Interest in this node's share, and in these pieces beside what was named before.
fn interest_in(swarm: &Swarm, pieces: Vec<Run>) -> StrategyMessage {
    let slots = if swarm.in_root_cluster() { SlotSet::none() } else { swarm.standing.slots.clone() };
    StrategyMessage::Interest { slots, pieces }
}

#[cfg(test)]
mod tests {
    use crate::io::Output;
    use crate::strategy::mob::tests::swarm;
    use crate::strategy::{Strategy, StrategyEvent};
    use crate::units::{ClusterId, NodeId};
    use crate::wire::Frame;

    use super::*;

    #[test]
    fn everything_that_is_to_be_announced_is_named_in_as_many_frames_as_it_takes() {
        let (mut mob, mut swarm, far) = (Mob::default(), swarm(), LinkId(2));
        swarm.add_peer(far, NodeId(9), ClusterId(0));
        let pieces = 2 * RUNS_PER_FRAME as u32 + 1;
        (0..pieces).for_each(|piece| assert!(mob.stolen.insert(PieceIndex(2 * piece))));
        mob.tell_interests(&mut swarm);
        let named = |output: Output| match output {
            Output::Send {
                frame: Frame::Strategy { message: StrategyMessage::Interest { pieces, .. }, .. }, ..
            } => Some(pieces.len()),
            _ => None,
        };
        let named: Vec<usize> = swarm.take_outputs().filter_map(named).collect();
        assert_eq!(named, [RUNS_PER_FRAME, RUNS_PER_FRAME, 1]);
    }

    #[test]
    fn what_nobody_here_sends_is_named_to_those_who_may_have_it() {
        let (mut mob, mut swarm, far, piece) = (Mob::default(), swarm(), LinkId(2), PieceIndex(0));
        swarm.standing.slots = SlotSet::none();
        swarm.add_peer(far, NodeId(9), ClusterId(2));
        swarm.add_rejected(LinkId(1), piece);
        mob.handle(StrategyEvent::RequestRejected { peer: LinkId(1), piece }, &mut swarm);
        mob.handle(StrategyEvent::Timeout, &mut swarm);
        let mut frames = swarm.take_outputs().filter_map(|output| match output {
            Output::Send { link, frame: Frame::Strategy { message, .. } } if link == far => Some(message),
            _ => None,
        });
        let pieces = vec![Run { first: piece, count: 1 }];
        assert_eq!(frames.next_back(), Some(StrategyMessage::Interest { slots: SlotSet::none(), pieces }));
    }
}
