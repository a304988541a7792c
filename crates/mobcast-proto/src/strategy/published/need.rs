//! Who gets nothing asks all its neighbours for help, fetches from whoever has what is missing, and passes over those who are silent: until
//! the peers of the plan send again.

use crate::content::have::HaveSet;
use crate::fetch::swarm::Swarm;
use crate::strategy::help::{self, MUTE_FOR};
use crate::time::{Duration, Time};
use crate::units::{LinkId, NodeId, PieceIndex};

use super::{Exchange, PENDING_MAX};

/// Whoever misses pieces and has not received a byte for so long asks for help.
const HELP_AFTER: Duration = Duration::from_secs(2);
/// Peers that have sent nothing for so long do not serve a node that is in need…
const PAUSE: Duration = Duration::from_secs(1);
/// …and when they have done so for this long, it goes by the plan again.
const SERVED_FOR: Duration = HELP_AFTER;
/// A peer has so long to send a byte when it is asked for the first time, and twice as long after each time that it did not.
const PATIENCE: Duration = HELP_AFTER;
/// But not longer: the link itself notices when the other end is dead.
const PATIENCE_MAX: Duration = Duration::from_secs(32);
/// How often a node looks whether it has to.
const TICK: Duration = Duration::from_millis(250);

/// How the peers from which a node that is in need should have its pieces serve it.
#[derive(Default)]
pub(super) struct Served {
    /// What they had sent at the last look, bytes, and when that was seen to change.
    bytes: u64,
    changed_at: Time,
    /// When they last did not.
    lacking_at: Time,
    /// Whom the plan named when the node came to be in need: the same plan has taken notice of nothing since.
    named: Vec<NodeId>,
}

/// The peers of the plan.
fn named(swarm: &Swarm) -> &[NodeId] {
    swarm.standing.plan.as_ref().map_or(&[], |plan| &plan.peers)
}

impl Exchange {
    pub(super) fn tick(&mut self, swarm: &mut Swarm) {
        if swarm.is_complete() {
            return;
        }
        if swarm.now() >= self.next_tick {
            self.next_tick = swarm.now() + TICK;
            self.look_after(swarm);
        }
        let settling = Some(self.settled_at).filter(|&at| at > swarm.now());
        swarm.wake_at(settling.map_or(self.next_tick, |at| at.min(self.next_tick)));
    }

    fn look_after(&mut self, swarm: &mut Swarm) {
        let traffic = swarm.traffic();
        let arrived = traffic.in_lan + traffic.in_wan;
        let lacks = swarm.have().count() < swarm.known() && !swarm.is_paused();
        if arrived != self.arrived || !lacks {
            self.arrived = arrived;
            self.arrived_at = swarm.now();
        } else if !self.in_need && swarm.now().since(self.arrived_at) >= HELP_AFTER {
            self.in_need = true;
            self.served.lacking_at = swarm.now();
            self.served.named = named(swarm).to_vec();
            help::ask_all(swarm);
        }
        self.mute.retain(|_, until| *until > swarm.now());
        if self.in_need {
            self.give_silent_up(swarm);
            self.leave_help_if_served(swarm);
        }
    }

    /// Goes by the plan again when its peers have sent for a while what is left of this node's share: those in other clusters, or local
    /// ones where nobody imports. Who has all of its share may wait for that of somebody who is dead, which nobody says.
    fn leave_help_if_served(&mut self, swarm: &mut Swarm) {
        let links = if self.imports() { self.global_links(swarm) } else { self.local_links(swarm) };
        let windows = || links.iter().filter_map(|&link| Some((link, &swarm.peer(link)?.window)));
        let (now, bytes) = (swarm.now(), windows().map(|(_, window)| window.delivered()).sum());
        if std::mem::replace(&mut self.served.bytes, bytes) != bytes {
            self.served.changed_at = now;
        }
        let paused = now.since(self.served.changed_at) >= PAUSE;
        if paused || windows().any(|(link, window)| self.mute.contains_key(&link) || window.stalled_for(now) >= PAUSE) {
            self.served.lacking_at = now;
        }
        let has_share = self.imports() && self.work.is_empty();
        if now.since(self.served.lacking_at) >= SERVED_FOR && !has_share {
            self.leave_help(swarm);
        }
    }

    /// Goes by the plan again if that is another one, which has other peers in other clusters. Links that come and go say nothing.
    pub(super) fn leave_help_if_planned_anew(&mut self, swarm: &mut Swarm, changed: impl Iterator<Item = LinkId>) {
        let is_far = |link: LinkId| swarm.peer(link).is_some_and(|peer| !peer.local);
        if self.in_need && self.served.named != named(swarm) && changed.into_iter().any(is_far) {
            self.leave_help(swarm);
        }
    }

    /// This node's peers serve it again, or a new plan has taken notice of whatever was wrong. What was asked of other clusters and is not
    /// its to import belongs to somebody else.
    pub(super) fn leave_help(&mut self, swarm: &mut Swarm) {
        self.in_need = false;
        self.arrived_at = swarm.now();
        let foreign = swarm.open().filter(|(piece, open)| open.is_empty() && !self.work.contains(*piece));
        let parts = foreign.flat_map(|(piece, open)| open.parts.iter().map(move |part| (part.peer, piece)));
        let asked: Vec<_> = parts.filter(|(link, _)| swarm.peer(*link).is_some_and(|peer| !peer.local)).collect();
        asked.into_iter().for_each(|(link, piece)| swarm.cancel(link, piece));
    }

    /// Takes back what was asked of peers that send nothing.
    fn give_silent_up(&mut self, swarm: &mut Swarm) {
        let silent: Vec<LinkId> =
            swarm.links().into_iter().filter(|&link| help::is_silent(swarm, link, self.patience(link))).collect();
        let parts = swarm.open().flat_map(|(piece, open)| open.parts.iter().map(move |part| (part.peer, piece)));
        let late: Vec<(LinkId, PieceIndex)> = parts.filter(|(link, _)| silent.contains(link)).collect();
        late.into_iter().for_each(|(link, piece)| swarm.cancel(link, piece));
        for link in silent {
            let longer = self.patience(link).times(2).min(PATIENCE_MAX);
            self.mute.insert(link, swarm.now() + MUTE_FOR);
            self.patience.insert(link, longer);
        }
    }

    fn patience(&self, link: LinkId) -> Duration {
        self.patience.get(&link).copied().unwrap_or(PATIENCE)
    }

    /// Help from other clusters comes over a link that the whole cluster shares, and each of its nodes fetches what it lacks:
    /// one that asked every helper for five pieces would have the whole object on its way, as all the others. Five are divided among the
    /// helpers, those that have something, so that a slow one holds up its part alone.
    pub(super) fn has_help_enough(&self, swarm: &Swarm, link: LinkId) -> bool {
        let of_use = |have: &HaveSet| (0..have.word_count()).any(|i| have.word(i) & !swarm.have().word(i) != 0);
        let helps = |link: &LinkId| {
            !self.mute.contains_key(link) && swarm.peer(*link).is_some_and(|peer| !peer.local && of_use(&peer.have))
        };
        if !self.in_need || !helps(&link) {
            return false;
        }
        let helpers: Vec<LinkId> = swarm.links().into_iter().filter(helps).collect();
        let asked: usize = helpers.iter().map(|&link| swarm.requests_at(link)).sum();
        asked >= PENDING_MAX || swarm.requests_at(link) >= PENDING_MAX.div_ceil(helpers.len())
    }
}
