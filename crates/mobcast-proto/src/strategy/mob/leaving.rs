//! What leaves the root's cluster: its nodes tell the other clusters what one of them has asked for, a request's way
//! earlier than that one could announce it. Near the end, when few pieces are left that have not gone out, clusters would
//! otherwise ask for the same ones, and each copy too many takes its time of the links that bind.

use crate::content::have::{HaveSet, RUNS_PER_FRAME, Run, runs_of};
use crate::content::slots::slot_of;
use crate::fetch::swarm::Swarm;
use crate::limits::HAVE_INTERVAL;
use crate::strategy::message::StrategyMessage;
use crate::time::Time;
use crate::units::{ClusterId, LinkId, PieceIndex};

use super::{Mob, is_wan};

/// Pieces that have left the root's cluster, or are about to.
#[derive(Default)]
pub(super) struct Leaving {
    known: HaveSet,
    /// What peers were not told yet: who asked, which piece, and whether it was asked of this node.
    untold: Vec<(ClusterId, PieceIndex, bool)>,
    tell_at: Option<Time>,
}

impl Leaving {
    pub(super) fn contains(&self, piece: PieceIndex) -> bool {
        self.known.contains(piece)
    }
}

impl Mob {
    /// A peer in another cluster asks this node for a piece.
    pub(super) fn piece_wanted(&mut self, swarm: &mut Swarm, link: LinkId, piece: PieceIndex) {
        let Some(to) = swarm.peer(link).filter(|p| !p.local && swarm.in_root_cluster()).map(|p| p.cluster) else {
            return;
        };
        self.leaves(swarm, to, piece, true);
    }

    /// A peer says what leaves the root's cluster.
    pub(super) fn peer_says_leaving(&mut self, swarm: &mut Swarm, link: LinkId, to: ClusterId, pieces: &[Run]) {
        let Some(from) = swarm.peer(link).map(|p| p.cluster) else { return };
        if swarm.standing.root_cluster != Some(from) || to == swarm.standing.cluster {
            return;
        }
        let known = swarm.known();
        for piece in pieces.iter().flat_map(|run| run.pieces()).filter(|piece| piece.0 < known) {
            self.leaves(swarm, to, piece, false);
        }
    }

    fn leaves(&mut self, swarm: &mut Swarm, to: ClusterId, piece: PieceIndex, asked_here: bool) {
        if !self.leaving.known.insert(piece) || !swarm.in_root_cluster() {
            return;
        }
        self.leaving.untold.push((to, piece, asked_here));
        let at = *self.leaving.tell_at.get_or_insert(swarm.now() + HAVE_INTERVAL);
        swarm.wake_at(at);
    }

    /// Tells peers what has not been told, when it is time to: local ones what was asked of this node, those in other
    /// clusters what concerns them.
    pub(super) fn tell_leaving(&mut self, swarm: &mut Swarm) {
        if self.leaving.tell_at.is_none_or(|at| at > swarm.now()) {
            self.leaving.tell_at.into_iter().for_each(|at| swarm.wake_at(at));
            return;
        }
        self.leaving.tell_at = None;
        let mut untold = std::mem::take(&mut self.leaving.untold);
        untold.sort_unstable();
        for link in swarm.links() {
            let Some(cluster) = swarm.peer(link).map(|p| p.cluster) else { continue };
            let wan = is_wan(swarm, link);
            let interest = self.interests.get(&link);
            let concerns = |piece: PieceIndex| {
                interest.is_some_and(|i| i.slots.contains(slot_of(swarm.id, piece)) || i.pieces.contains(piece))
            };
            let news: Vec<(ClusterId, PieceIndex)> = untold
                .iter()
                .filter(|&&(to, piece, here)| if wan { to != cluster && concerns(piece) } else { here })
                .map(|&(to, piece, _)| (to, piece))
                .collect();
            for of_one in news.chunk_by(|a, b| a.0 == b.0) {
                let runs = runs_of(of_one.iter().map(|&(_, piece)| piece));
                for pieces in runs.chunks(RUNS_PER_FRAME) {
                    swarm.tell(link, StrategyMessage::Leaving { to: of_one[0].0, pieces: pieces.to_vec() });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::have::Run;
    use crate::content::slots::SlotSet;
    use crate::io::Output;
    use crate::strategy::{Strategy, StrategyEvent};
    use crate::units::{BroadcastId, NodeId};
    use crate::wire::Frame;

    const LOCAL: LinkId = LinkId(1);
    const B: LinkId = LinkId(2);
    const C: LinkId = LinkId(3);

    /// A node of `cluster` with a peer in cluster 0, the root's, and peers in clusters 1 and 2.
    fn node(cluster: u32) -> (Mob, Swarm) {
        let mut swarm = Swarm::new(BroadcastId::default(), 16 << 10, 0, None, 1);
        swarm.standing.node = NodeId(5);
        swarm.standing.cluster = ClusterId(cluster);
        swarm.standing.root_cluster = Some(ClusterId(0));
        swarm.standing.slots = SlotSet::all();
        for (link, of) in [(LOCAL, 0), (B, 1), (C, 2)] {
            swarm.add_peer(link, NodeId(10 + of), ClusterId(of));
        }
        swarm.add_known(8, 1, None);
        swarm.set_now(Time(1));
        (Mob::default(), swarm)
    }

    fn leaving(swarm: &mut Swarm) -> Vec<(LinkId, ClusterId, Vec<Run>)> {
        let told = |output: Output| match output {
            Output::Send { link, frame: Frame::Strategy { message: StrategyMessage::Leaving { to, pieces }, .. } } => {
                Some((link, to, pieces))
            }
            _ => None,
        };
        swarm.take_outputs().filter_map(told).collect()
    }

    #[test]
    fn others_hear_at_once_of_what_one_cluster_asks_for() {
        let (mut mob, mut swarm) = node(0);
        for peer in [B, C] {
            let message = StrategyMessage::Interest { slots: SlotSet::all(), pieces: Vec::new() };
            mob.handle(StrategyEvent::Message { peer, message: &message }, &mut swarm);
        }
        mob.handle(StrategyEvent::PieceWanted { peer: B, piece: PieceIndex(3) }, &mut swarm);
        mob.handle(StrategyEvent::PieceWanted { peer: LOCAL, piece: PieceIndex(4) }, &mut swarm);
        swarm.set_now(swarm.now() + HAVE_INTERVAL);
        mob.handle(StrategyEvent::Timeout, &mut swarm);
        let run = vec![Run { first: PieceIndex(3), count: 1 }];
        let told = [(LOCAL, ClusterId(1), run.clone()), (C, ClusterId(1), run)];
        assert_eq!(leaving(&mut swarm), told, "the own cluster and the third one, not who asked");
    }

    #[test]
    fn only_the_root_s_cluster_is_believed() {
        let (mut mob, mut swarm) = node(1);
        let pieces = vec![Run { first: PieceIndex(2), count: 9 }];
        let message = StrategyMessage::Leaving { to: ClusterId(2), pieces };
        mob.handle(StrategyEvent::Message { peer: C, message: &message }, &mut swarm);
        assert!(!mob.leaving.contains(PieceIndex(2)));
        mob.handle(StrategyEvent::Message { peer: LOCAL, message: &message }, &mut swarm);
        assert!(
            mob.leaving.contains(PieceIndex(2)) && !mob.leaving.contains(PieceIndex(9)),
            "as far as pieces are known"
        );
    }
}
