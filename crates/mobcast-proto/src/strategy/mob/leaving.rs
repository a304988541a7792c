//! What leaves the root's cluster: its nodes tell the other clusters what one of them has asked for, a request's way
//! earlier than that one could announce it. Near the end, when few pieces are left that have not gone out, clusters would
//! otherwise ask for the same ones, and each copy too many takes its time of the links that bind.
//!
//! What has just left for another cluster, or is another's to fetch, may soon come from there. The root's cluster is not asked
//! for it meanwhile: where its cards bind, each copy that leaves it costs one that its own nodes wait for.

use std::collections::{BTreeMap, BTreeSet};

use crate::content::have::{HaveSet, RUNS_PER_FRAME, Run, runs_of};
use crate::content::slots::slot_of;
use crate::fetch::swarm::Swarm;
use crate::limits::HAVE_INTERVAL;
use crate::strategy::message::StrategyMessage;
use crate::time::{Duration, Time};
use crate::units::{ClusterId, LinkId, PieceIndex};

use super::{Mob, is_wan};

/// A cluster that a piece has left for has it, and has told so, after this time and so many round trips.
const PASSING_ON: Duration = Duration::from_millis(200);
const PASSING_ON_RTTS: u64 = 4;
/// It is never waited longer, whatever round-trip time a peer pretends.
const PASSING_ON_MAX: Duration = Duration::from_secs(2);

/// What a node's links to other clusters are taken to bring at the start, bytes per second, where that is compared with a round trip.
const SHARE_RATE: u64 = 500_000;

/// Pieces that have left the root's cluster, or are about to.
#[derive(Default)]
pub(super) struct Leaving {
    known: HaveSet,
    /// Pieces that a peer in the root's cluster has told it has.
    announced: HaveSet,
    /// Pieces that another cluster may pass on soon, and when they are no longer waited for.
    passed_on_soon: HaveSet,
    passed_on_until: BTreeMap<PieceIndex, Time>,
    /// The same by time; entries that the map does not have any more are void.
    passed_on_order: BTreeSet<(Time, PieceIndex)>,
    /// What peers were not told yet: who asked, which piece, and whether it was asked of this node.
    untold: Vec<(ClusterId, PieceIndex, bool)>,
    tell_at: Option<Time>,
}

impl Leaving {
    pub(super) fn contains(&self, piece: PieceIndex) -> bool {
        self.known.contains(piece)
    }

    /// The bits of 64 pieces that another cluster may soon pass on.
    pub(super) fn passed_on_soon_word(&self, index: usize) -> u64 {
        self.passed_on_soon.word(index)
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
        pieces.iter().flat_map(|run| run.pieces()).for_each(|piece| self.leaves(swarm, to, piece, false));
    }

    fn leaves(&mut self, swarm: &mut Swarm, to: ClusterId, piece: PieceIndex, asked_here: bool) {
        let is_known = piece.0 < swarm.known();
        if !is_known && swarm.in_root_cluster() {
            // It is news that has to be passed on when the piece is asked for here.
            return;
        }
        if !self.leaving.known.insert(piece) || !is_known {
            return;
        }
        if !swarm.in_root_cluster() {
            return self.wait_for_passing_on(swarm, to, piece);
        }
        self.leaving.untold.push((to, piece, asked_here));
        let at = *self.leaving.tell_at.get_or_insert(swarm.now() + HAVE_INTERVAL);
        swarm.wake_at(at);
    }

    /// A peer in the root's cluster has a piece: unless it is this cluster's to fetch first, whose it is may pass it on.
    pub(super) fn may_leave(&mut self, swarm: &mut Swarm, piece: PieceIndex) {
        if self.leaving.announced.insert(piece) && !self.leaving.known.contains(piece) {
            self.leave_to_others(swarm, piece);
        }
    }

    /// Hashes are known of pieces that may have been heard of before: what was announced in a stream always is.
    pub(super) fn known_ones_may_leave(&mut self, swarm: &mut Swarm, run: Run) {
        if swarm.in_root_cluster() {
            return;
        }
        for piece in run.pieces() {
            if self.leaving.announced.contains(piece) || self.leaving.known.contains(piece) {
                self.leave_to_others(swarm, piece);
            }
        }
    }

    fn leave_to_others(&mut self, swarm: &mut Swarm, piece: PieceIndex) {
        let designated = Mob::designated(swarm, piece).filter(|&cluster| cluster != swarm.standing.cluster);
        if let Some(cluster) = designated.filter(|_| self.todo.contains(piece)) {
            self.wait_for_passing_on(swarm, cluster, piece);
        }
    }

    fn wait_for_passing_on(&mut self, swarm: &mut Swarm, to: ClusterId, piece: PieceIndex) {
        let rtt = swarm.peers().filter(|(_, p)| p.cluster == to).map(|(_, p)| p.window.rtt_min()).min();
        let bytes = swarm.total().map_or(u64::MAX, |pieces| u64::from(pieces) * u64::from(swarm.piece_size()));
        let share = bytes / u64::from(swarm.standing.cluster_size.max(1));
        let Some(rtt) = rtt.filter(|&rtt| swarm.is_missing(piece) && is_worth_waiting(share, rtt)) else { return };
        let until = swarm.now() + (rtt.times(PASSING_ON_RTTS) + PASSING_ON).min(PASSING_ON_MAX);
        self.leaving.passed_on_soon.insert(piece);
        self.leaving.passed_on_until.insert(piece, until);
        self.leaving.passed_on_order.insert((until, piece));
        swarm.wake_at(until);
    }

    /// Ends waiting for pieces that nobody has passed on in time.
    pub(super) fn end_waiting_for_passing_on(&mut self, swarm: &mut Swarm) {
        let mut ended = false;
        while let Some(&(until, piece)) = self.leaving.passed_on_order.first() {
            if until > swarm.now() {
                swarm.wake_at(until);
                break;
            }
            self.leaving.passed_on_order.pop_first();
            if self.leaving.passed_on_until.get(&piece) == Some(&until) {
                self.leaving.passed_on_until.remove(&piece);
                self.leaving.passed_on_soon.remove(piece);
                ended = true;
            }
        }
        if ended {
            self.fill_global(swarm);
        }
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

/// Whether a node's share of the object is so much that its link is better spared than asked at once: what another cluster passes on
/// comes a round trip later.
pub(in crate::strategy) fn is_worth_waiting(share_bytes: u64, rtt: Duration) -> bool {
    Duration::for_bytes(share_bytes, SHARE_RATE) >= rtt
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::have::Run;
    use crate::content::manifest::End;
    use crate::content::slots::SlotSet;
    use crate::io::Output;
    use crate::strategy::{Strategy, StrategyEvent};
    use crate::units::{BroadcastId, Digest, NodeId};
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

    /// What a node of cluster 1 asks of the root's cluster, by and by.
    fn asked_of_root_cluster(mob: &mut Mob, swarm: &mut Swarm) -> BTreeSet<u32> {
        let pick = || mob.pick_global(swarm, LOCAL).inspect(|&piece| assert!(mob.todo.remove(piece)));
        let picked: Vec<PieceIndex> = std::iter::from_fn(pick).collect();
        picked.into_iter().chain(swarm.open().map(|(piece, _)| piece)).map(|piece| piece.0).collect()
    }

    /// A node of cluster 1 that has heard which pieces there are, and that the root's cluster has all of them.
    fn importer() -> (Mob, Swarm) {
        let (mut mob, mut swarm) = node(1);
        mob.handle(StrategyEvent::Started, &mut swarm);
        mob.newcomer = None;
        swarm.add_have(LOCAL, 1, &[Run { first: PieceIndex(0), count: 8 }]);
        (mob, swarm)
    }

    #[test]
    fn what_has_just_left_for_another_cluster_is_not_asked_of_the_root_s() {
        let (mut mob, mut swarm) = importer();
        for (to, piece) in [(2, 2), (3, 3)] {
            let pieces = vec![Run { first: PieceIndex(piece), count: 1 }];
            let message = StrategyMessage::Leaving { to: ClusterId(to), pieces };
            mob.handle(StrategyEvent::Message { peer: LOCAL, message: &message }, &mut swarm);
        }
        let asked = asked_of_root_cluster(&mut mob, &mut swarm);
        assert_eq!(asked, BTreeSet::from([0, 1, 3, 4, 5, 6, 7]), "there is no link to where 3 has gone");
        swarm.set_now(swarm.now() + Duration::from_secs(60));
        mob.handle(StrategyEvent::Timeout, &mut swarm);
        assert!(asked_of_root_cluster(&mut mob, &mut swarm).contains(&2), "nobody has passed it on");
    }

    #[test]
    fn what_another_cluster_is_to_fetch_is_left_to_it_for_a_while() {
        let (mut mob, mut swarm) = importer();
        swarm.standing.clusters = [0, 1, 2].map(ClusterId).to_vec();
        let pieces = [Run { first: PieceIndex(0), count: 8 }];
        mob.handle(StrategyEvent::Have { peer: LOCAL, pieces: &pieces }, &mut swarm);
        let own = |piece: &u32| Mob::designated(&swarm, PieceIndex(*piece)) == Some(ClusterId(1));
        let (own, others): (BTreeSet<u32>, BTreeSet<u32>) = (0..8).partition(own);
        assert!(!own.is_empty() && !others.is_empty());
        assert_eq!(asked_of_root_cluster(&mut mob, &mut swarm), own);
        swarm.set_now(swarm.now() + Duration::from_secs(60));
        mob.handle(StrategyEvent::Timeout, &mut swarm);
        assert!(asked_of_root_cluster(&mut mob, &mut swarm).is_superset(&others), "nobody has passed them on");
    }

    #[test]
    fn who_has_little_to_fetch_far_away_leaves_nothing_to_others() {
        let waited_for = |rtt: Duration| {
            let (mut mob, mut swarm) = importer();
            swarm.standing.clusters = [0, 1, 2].map(ClusterId).to_vec();
            swarm.standing.cluster_size = 16;
            // 8 pieces of 16 KiB: 8 KiB for each of 16 members.
            swarm.add_known(0, 2, Some(End { length: 128 << 10, object_hash: Digest([0; 32]) }));
            swarm.handle_rtt(C, rtt);
            let pieces = [Run { first: PieceIndex(0), count: 8 }];
            mob.handle(StrategyEvent::Have { peer: LOCAL, pieces: &pieces }, &mut swarm);
            mob.leaving.passed_on_soon_word(0).count_ones()
        };
        assert!(waited_for(Duration::from_millis(10)) > 0, "its link has more to do than to wait");
        assert_eq!(waited_for(Duration::from_millis(20)), 0);
    }

    #[test]
    fn what_leaves_later_is_waited_for_anew_and_never_for_long() {
        let (mut mob, mut swarm) = importer();
        swarm.standing.clusters = [0, 1, 2].map(ClusterId).to_vec();
        swarm.handle_rtt(C, Duration::from_secs(3_600));
        let pieces = [Run { first: PieceIndex(0), count: 8 }];
        mob.handle(StrategyEvent::Have { peer: LOCAL, pieces: &pieces }, &mut swarm);
        let waited_for = |mob: &Mob| mob.leaving.passed_on_soon_word(0).count_ones();
        let others = waited_for(&mob);
        assert!(others > 0);
        let first = (0..8).find(|piece| mob.leaving.passed_on_soon_word(0) >> piece & 1 == 1).expect("one of them");
        swarm.set_now(swarm.now() + Duration::from_secs(1));
        let pieces = vec![Run { first: PieceIndex(first), count: 1 }];
        let message = StrategyMessage::Leaving { to: ClusterId(2), pieces };
        mob.handle(StrategyEvent::Message { peer: LOCAL, message: &message }, &mut swarm);
        swarm.set_now(swarm.now() + Duration::from_millis(1_500));
        mob.handle(StrategyEvent::Timeout, &mut swarm);
        assert_eq!(waited_for(&mob), 1, "the others after two seconds, this one has left a second later");
        swarm.set_now(swarm.now() + Duration::from_secs(1));
        mob.handle(StrategyEvent::Timeout, &mut swarm);
        assert_eq!(waited_for(&mob), 0);
    }

    #[test]
    fn only_the_root_s_cluster_is_believed() {
        let (mut mob, mut swarm) = node(1);
        let pieces = vec![Run { first: PieceIndex(2), count: 9 }];
        let message = StrategyMessage::Leaving { to: ClusterId(2), pieces };
        mob.handle(StrategyEvent::Message { peer: C, message: &message }, &mut swarm);
        assert!(!mob.leaving.contains(PieceIndex(2)));
        mob.handle(StrategyEvent::Message { peer: LOCAL, message: &message }, &mut swarm);
        assert!(mob.leaving.contains(PieceIndex(2)) && mob.leaving.contains(PieceIndex(9)));
        assert_eq!(mob.leaving.passed_on_order.len(), 6, "what is not known is not waited for");
    }

    #[test]
    fn what_was_heard_of_before_it_was_known_is_left_to_others_as_well() {
        for by_announcement in [true, false] {
            let (mut mob, mut swarm) = importer();
            swarm.standing.clusters = [0, 1, 2].map(ClusterId).to_vec();
            let pieces = vec![Run { first: PieceIndex(8), count: 8 }];
            if by_announcement {
                mob.handle(StrategyEvent::Have { peer: LOCAL, pieces: &pieces }, &mut swarm);
            } else {
                let message = StrategyMessage::Leaving { to: ClusterId(2), pieces };
                mob.handle(StrategyEvent::Message { peer: LOCAL, message: &message }, &mut swarm);
            }
            let run = swarm.add_known(8, 2, None);
            mob.handle(StrategyEvent::PiecesKnown(run), &mut swarm);
            let others = |piece: &u32| Mob::designated(&swarm, PieceIndex(*piece)) == Some(ClusterId(2));
            let others: BTreeSet<u32> = (8..16).filter(others).collect();
            let word = mob.leaving.passed_on_soon_word(0);
            let waited_for: BTreeSet<u32> = (0..16).filter(|piece| word >> piece & 1 == 1).collect();
            assert_eq!(waited_for, others, "by announcement {by_announcement}");
            assert!(!others.is_empty() && others.len() < 8);
        }
    }
}
