//! Work changes hands inside a cluster: who is idle steals from who would need longest, and who hears nothing helps
//! itself.

use crate::content::have::{Run, bits_of, runs_of};
use crate::fetch::open::{OpenPiece, Part};
use crate::fetch::picker::known_mask;
use crate::fetch::swarm::Swarm;
use crate::flow::window::Window;
use crate::random::mix2;
use crate::strategy::message::StrategyMessage;
use crate::time::Duration;
use crate::units::{LinkId, PieceIndex};

use super::{LATE, Mob, TAKE_OVER_FACTOR, is_wan};

/// A piece that has arrived and is not stored within this waits for a disk that stalls.
const DISK_PATIENCE: Duration = Duration::from_millis(300);
/// Pieces stolen at a time, at most.
const STEAL_MAX: u32 = 64;
/// Who would need so many times longer, and so much, cannot keep up even with what there is to import now.
const MUCH_SLOWER: u64 = 4;
const LONG: Duration = Duration::from_secs(10);
/// What is stolen lasts for so long, because it comes late: peers in other clusters have to be told of the interest, and to
/// announce the pieces, before they can be asked.
const STEAL_AHEAD_RTTS: u64 = 4;
const STEAL_AHEAD: Duration = Duration::from_millis(100);
/// What was stolen, and is announced by nobody within this and a few round-trip times, may go on to somebody else.
const STOLEN_IN_VAIN: Duration = Duration::from_millis(250);
/// So long after its slots have changed, a node neither steals nor gives.
const SETTLED_AFTER: Duration = Duration::from_secs(1);
/// A peer that was asked and has sent nothing for this long may not send it soon.
const SILENT: Duration = Duration::from_secs(1);
/// Pieces asked of other clusters by a node that is stuck for the first time; each time after that twice as many, but no more than its part
/// of what the cluster lacks, because others may be stuck as well.
const STUCK_PIECES: usize = 16;
const STUCK_DOUBLINGS: u32 = 16;
/// Without a stored piece, its own or a peer's, for this long, a node asks other clusters also for what is not its
/// share.
const STUCK_AFTER: Duration = Duration::from_secs(3);

impl Mob {
    /// This node's import rate, bytes per second.
    pub(super) fn import_rate(swarm: &Swarm) -> u64 {
        swarm.peers().filter(|(_, p)| !p.local).map(|(_, p)| p.window.rate_bytes_per_s()).sum()
    }

    pub(super) fn tell_backlog(&mut self, swarm: &mut Swarm) {
        let imports = || swarm.open().flat_map(|(_, open)| open.parts.iter().find(|part| is_wan(swarm, part.peer)));
        // Of what was asked for one piece is as good as here, unless nothing comes at all.
        let comes = |part: &Part| swarm.peer(part.peer).is_some_and(|p| p.window.stalled_for(swarm.now()) < SILENT);
        let asked = imports().count() as u32 - u32::from(imports().any(comes));
        let held_up = self.held_up(swarm).count() as u32;
        let backlog = (self.todo.count() + asked + held_up, Mob::import_rate(swarm));
        let told = self.backlog_told.unwrap_or_default();
        // Nothing to say while it is the same, or shrinks by less than an eighth, at about the same rate: who has only begun to
        // import would pass for somebody who has not, though it be slow.
        let as_fast = backlog.0 == 0 || backlog.1.max(told.1) <= backlog.1.min(told.1).saturating_mul(2);
        let as_much = backlog.0 == told.0 || (backlog.0 < told.0 && backlog.0 + told.0 / 8 > told.0);
        let alike = as_much && as_fast;
        if alike && self.backlog_told.is_some() {
            return;
        }
        self.backlog_told = Some(backlog);
        let message = StrategyMessage::Backlog { unrequested: backlog.0, rate_bytes_per_s: backlog.1 };
        let locals: Vec<LinkId> = swarm.peers().filter(|(_, p)| p.local).map(|(link, _)| link).collect();
        locals.into_iter().for_each(|link| swarm.tell(link, message.clone()));
    }

    /// Asks the local peer that would need longest for some of its work: as much as the idle links can ask for at once.
    pub(super) fn steal(&mut self, swarm: &mut Swarm) {
        if self.theft.is_under_way() || self.disk_stalls || swarm.in_root_cluster() || self.is_unsettled(swarm) {
            return;
        }
        let time_left =
            |left: u32, rate: u64| Duration::for_bytes(u64::from(left) * u64::from(swarm.piece_size()), rate.max(1));
        // With work of its own left, it takes some only from a slow member. Who has not begun to import is no slow one yet.
        let nothing_left = self.todo.is_empty();
        let busy = self.backlogs.iter().filter(|(_, (left, rate))| *left > 0 && (nothing_left || *rate > 0));
        let victim = busy.map(|(link, &(left, rate))| (time_left(left, rate), link)).max();
        let Some((theirs, victim)) = victim else { return };
        let ours = time_left(self.todo.count(), Mob::import_rate(swarm));
        if !nothing_left && theirs < (ours.times(MUCH_SLOWER) + LONG) {
            return;
        }
        self.theft.begin(victim, swarm.now());
        let room = |w: &Window| {
            let soon = (w.rtt_min().times(STEAL_AHEAD_RTTS) + STEAL_AHEAD).bytes_at(w.rate_bytes_per_s());
            (w.size().saturating_sub(w.outstanding()) + soon).div_ceil(u64::from(swarm.piece_size()))
        };
        let idle = swarm.peers().filter(|(link, p)| !p.local && !self.is_spared(swarm, *link));
        let pieces: u64 = idle.map(|(_, p)| room(&p.window)).sum();
        let rate_bytes_per_s = Mob::import_rate(swarm);
        let pieces_max = pieces.clamp(1, u64::from(STEAL_MAX)) as u32;
        swarm.tell(victim, StrategyMessage::Steal { rate_bytes_per_s, pieces_max });
    }

    /// Whether shares are still being dealt: what changes hands beside that is imported by its new owner and by its thief.
    fn is_unsettled(&self, swarm: &Swarm) -> bool {
        self.slots_changed_at.is_some_and(|at| swarm.now().since(at) < SETTLED_AFTER)
    }

    /// Whether there has been time enough for peers in other clusters to announce what was stolen last.
    fn may_pass_stolen_on(&self, swarm: &Swarm) -> bool {
        let rtt = swarm.peers().filter(|(_, p)| !p.local).map(|(_, p)| p.window.rtt_min()).max().unwrap_or_default();
        swarm.now().since(self.stole_at) >= STOLEN_IN_VAIN + rtt.times(STEAL_AHEAD_RTTS)
    }

    /// Whether some of what was stolen cannot be had here after all, because no peer in another cluster has it.
    pub(super) fn has_stolen_in_vain(&self, swarm: &Swarm) -> bool {
        let in_vain = |piece| self.stolen.contains(piece) && !is_obtainable(swarm, piece);
        !self.stolen.is_empty() && self.may_pass_stolen_on(swarm) && self.todo.iter().any(in_vain)
    }

    /// Gives a thief its part of what is left: what both would have finished at the same time. What was stolen already
    /// stays where it is, or it would wander about and never be asked for; unless it cannot be had here, or this node imports nothing
    /// while its disk stalls.
    pub(super) fn give(&mut self, swarm: &mut Swarm, thief: LinkId, thief_rate: u64, pieces_max: u32) {
        // The thief asks again when it hears of the backlog again.
        self.backlog_told = None;
        if self.is_unsettled(swarm) {
            return swarm.tell(thief, StrategyMessage::Grant { pieces: Vec::new() });
        }
        let own_rate = Mob::import_rate(swarm).max(1);
        let in_vain = self.may_pass_stolen_on(swarm);
        let may_go = |&piece: &PieceIndex| {
            self.disk_stalls || !self.stolen.contains(piece) || (in_vain && !is_obtainable(swarm, piece))
        };
        let mut own: Vec<PieceIndex> = self.todo.iter().filter(may_go).collect();
        let left = own.len() as u64;
        let part =
            u128::from(left) * u128::from(thief_rate.max(1)) / (u128::from(thief_rate.max(1)) + u128::from(own_rate));
        let count = (part as u32).max(u32::from(left > 0)).min(pieces_max);
        // First what no peer of this node can provide, then from the far end of the order in which it would come. A
        // much faster thief has nothing else to ask for now: it gets what is there.
        let far_slower = Mob::import_rate(swarm) > 0 && thief_rate / MUCH_SLOWER > own_rate;
        own.sort_by_cached_key(|&piece| {
            (is_obtainable(swarm, piece) != far_slower, std::cmp::Reverse(mix2(u64::from(piece.0), 0)))
        });
        own.truncate(count as usize);
        if own.is_empty() {
            own.extend(self.asked_and_late(swarm, thief_rate));
        }
        if own.is_empty() {
            // What waits for this node's disk comes sooner once more.
            own.extend(self.held_up(swarm).take(pieces_max as usize));
        }
        for &piece in &own {
            self.todo.remove(piece);
            if self.stolen.remove(piece) {
                self.passed_on.insert(piece);
            }
            self.given.insert(piece, thief);
        }
        own.sort_unstable();
        swarm.tell(thief, StrategyMessage::Grant { pieces: runs_of(own) });
    }

    /// What the cluster would have if this node's disk did not stall, and nobody else imports.
    fn held_up<'a>(&'a self, swarm: &'a Swarm) -> impl Iterator<Item = PieceIndex> + 'a {
        let wanted = |piece: &PieceIndex| swarm.local_copies(*piece) == 0 && !self.given.contains_key(piece);
        waiting_for_disk(swarm).filter(wanted)
    }

    /// A piece that was asked for in vain so far, and that the thief would have clearly earlier: the request is taken
    /// back, and the piece may be given away.
    fn asked_and_late(&self, swarm: &mut Swarm, thief_rate: u64) -> Option<PieceIndex> {
        let late = |piece: PieceIndex, len: u32, link: LinkId| {
            let peer = swarm.peer(link).filter(|p| !p.local)?;
            let ours = peer.window.time_left(swarm.now());
            let theirs = peer.window.rtt_min().times(2) + Duration::for_bytes(u64::from(len), thief_rate.max(1));
            (ours.0 > (theirs.times(TAKE_OVER_FACTOR) + LATE).0).then_some((ours, piece, link))
        };
        let untouched = swarm.open().filter(|(piece, open)| {
            open.is_empty() && open.parts.len() == 1 && !self.stolen.contains(*piece) && !self.moved.contains_key(piece)
        });
        let (_, piece, link) =
            untouched.filter_map(|(piece, open)| late(piece, open.len(), open.parts[0].peer)).max()?;
        swarm.cancel(link, piece);
        Some(piece)
    }

    /// Takes what a victim gave.
    pub(super) fn take(&mut self, swarm: &mut Swarm, victim: LinkId, pieces: &[Run]) {
        if !self.theft.end(victim) {
            return;
        }
        if pieces.is_empty() {
            self.backlogs.remove(&victim);
            return;
        }
        self.stole_at = swarm.now();
        for piece in pieces.iter().flat_map(|run| run.pieces()).take(STEAL_MAX as usize) {
            self.stolen.insert(piece);
            self.given.remove(&piece);
            self.consider(swarm, piece);
        }
        for link in swarm.links() {
            if swarm.peer(link).is_some_and(|p| !p.local) {
                let slots = swarm.standing.slots.clone();
                swarm.tell(link, StrategyMessage::Interest { slots, pieces: pieces.to_vec() });
            }
        }
        self.fill_global(swarm);
    }

    /// If nobody has stored anything for long, the owners of what is missing may have failed: this node asks for some of it
    /// itself, wherever it can get it. Copies that arrive twice by this are counted as waste.
    pub(super) fn help_if_stuck(&mut self, swarm: &mut Swarm) {
        if swarm.is_paused() {
            // It may ask for nothing, and has given others no reason to bring anything.
            self.last_news = swarm.now();
            return;
        }
        let since = swarm.now().since(self.last_news);
        let on_its_way = |open: &OpenPiece| open.parts.iter().any(|part| !self.mute.contains_key(&part.peer));
        if since < STUCK_AFTER || swarm.open().any(|(_, open)| on_its_way(open)) {
            return;
        }
        // Again after as long a pause.
        self.last_news = swarm.now();
        let words = (swarm.known() as usize).div_ceil(64);
        let missing = (0..words).flat_map(|i| bits_of(i, swarm.missing_word(i) & known_mask(swarm.known(), i)));
        let mut pieces: Vec<PieceIndex> = missing.filter(|&piece| !self.is_at_hand(swarm, piece)).collect();
        if pieces.is_empty() {
            return;
        }
        swarm.random.shuffle(&mut pieces);
        // What it is to import already it has asked for, and nobody seems to have it: all others have their turn before that.
        pieces.sort_by_key(|&piece| self.todo.contains(piece));
        let locals = swarm.peers().filter(|(_, p)| p.local).count();
        let part = pieces.len().div_ceil(locals + 1).max(STUCK_PIECES);
        pieces.truncate((STUCK_PIECES << self.stuck.min(STUCK_DOUBLINGS)).min(part));
        pieces.sort_unstable();
        self.stuck += 1;
        self.stole_at = swarm.now();
        for &piece in &pieces {
            self.stolen.insert(piece);
            self.given.remove(&piece);
            self.todo.insert(piece);
        }
        self.tell_interests(swarm);
    }
}

/// Whether a peer in another cluster has a piece.
fn is_obtainable(swarm: &Swarm, piece: PieceIndex) -> bool {
    swarm.peers().any(|(_, p)| !p.local && p.have.contains(piece))
}

/// Pieces that have arrived and wait for the disk for longer than a disk should take.
pub(super) fn waiting_for_disk(swarm: &Swarm) -> impl Iterator<Item = PieceIndex> {
    let late = |open: &OpenPiece| open.arrived_at.is_some_and(|at| swarm.now().since(at) >= DISK_PATIENCE);
    swarm.open().filter(move |(_, open)| late(open)).map(|(piece, _)| piece)
}

#[cfg(test)]
mod tests {
    use crate::content::slots::SlotSet;
    use crate::strategy::mob::tests::swarm;

    use super::*;

    #[test]
    fn a_stuck_node_asks_for_everything_once_before_it_asks_for_anything_again() {
        let (mut mob, mut swarm) = (Mob::default(), swarm());
        swarm.set_paused(false);
        swarm.standing.slots = SlotSet::none();
        swarm.add_known(56, 2, None);
        for asked in [16, 32 + 16, 64] {
            swarm.set_now(swarm.now() + STUCK_AFTER);
            mob.help_if_stuck(&mut swarm);
            assert_eq!(mob.todo.count(), asked, "of 64");
        }
    }

    #[test]
    fn a_share_that_nobody_imports_is_taken_over_in_few_steps() {
        let (mut mob, mut swarm) = (Mob::default(), swarm());
        swarm.set_paused(false);
        swarm.standing.slots = SlotSet::none();
        swarm.add_known(25_000 - 8, 2, None);
        let mut rounds = 0;
        while mob.todo.count() < 25_000 / 2 {
            swarm.set_now(swarm.now() + STUCK_AFTER);
            mob.help_if_stuck(&mut swarm);
            rounds += 1;
        }
        assert!(rounds <= 11, "{rounds} times");
    }

    #[test]
    fn who_may_ask_for_nothing_or_lacks_nothing_is_not_stuck() {
        let (mut mob, mut swarm) = (Mob::default(), swarm());
        swarm.standing.slots = SlotSet::none();
        let minute = |mob: &mut Mob, swarm: &mut Swarm| {
            for _ in 0..60 {
                swarm.set_now(swarm.now() + Duration::from_secs(1));
                mob.help_if_stuck(swarm);
            }
        };
        minute(&mut mob, &mut swarm);
        assert!(mob.todo.is_empty(), "the application has not said where it should go");
        (0..8).map(PieceIndex).for_each(|piece| swarm.add_own(piece));
        swarm.set_paused(false);
        minute(&mut mob, &mut swarm);
        swarm.add_known(25_000 - 8, 2, None);
        swarm.set_now(swarm.now() + STUCK_AFTER);
        mob.help_if_stuck(&mut swarm);
        assert_eq!(mob.todo.count(), STUCK_PIECES as u32, "it is stuck for the first time");
    }
}
