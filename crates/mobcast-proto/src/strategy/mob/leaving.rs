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
    /// A peer asks this node for a piece.
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
