//! Who gets nothing asks all its neighbours for help, fetches from whoever has what is missing, and passes over those who are silent.

use crate::fetch::swarm::Swarm;
use crate::strategy::help::{self, MUTE_FOR};
use crate::time::Duration;
use crate::units::{LinkId, PieceIndex};

use super::{Exchange, PENDING_MAX};

/// Whoever misses pieces and has not received a byte for so long asks for help.
const HELP_AFTER: Duration = Duration::from_secs(2);
/// A peer has so long to send a byte when it is asked for the first time, and twice as long after each time that it did not.
const PATIENCE: Duration = HELP_AFTER;
/// But not longer: the link itself notices when the other end is dead.
const PATIENCE_MAX: Duration = Duration::from_secs(32);
/// How often a node looks whether it has to.
const TICK: Duration = Duration::from_millis(250);

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
            help::ask_all(swarm);
        }
        self.mute.retain(|_, until| *until > swarm.now());
        if self.in_need {
            self.give_silent_up(swarm);
        }
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
    /// helpers, so that a slow one holds up its part alone.
    pub(super) fn has_help_enough(&self, swarm: &Swarm, link: LinkId) -> bool {
        let foreign =
            |link: &LinkId| swarm.peer(*link).is_some_and(|peer| !peer.local) && !self.mute.contains_key(link);
        if !self.in_need || !foreign(&link) {
            return false;
        }
        let helpers: Vec<LinkId> = swarm.links().into_iter().filter(foreign).collect();
        let asked: usize = helpers.iter().map(|&link| swarm.requests_at(link)).sum();
        asked >= PENDING_MAX || swarm.requests_at(link) >= PENDING_MAX.div_ceil(helpers.len())
    }
}
