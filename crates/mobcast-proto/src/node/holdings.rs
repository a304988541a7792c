//! Who holds which slots, as the members of a cluster tell each other. Assignments reach them one by one, and may be late where the
//! way down the control tree crosses a busy link: until then two would import the same pieces. Whoever hears of a newer
//! assignment than its own leaves that member's slots alone, as its own next assignment will say.

use crate::content::slots::SlotSet;
use crate::time::{Duration, Time};
use crate::units::{BroadcastId, LinkId};
use crate::wire::Frame;

use super::Node;

/// A member's word is taken for so long, unless the coordinator confirms it: it may lie, and import nothing.
const TRUSTED_FOR: Duration = Duration::from_secs(20);

/// What a local peer says that it holds.
pub(super) struct Holding {
    /// Term and epoch of its assignment.
    version: (u32, u32),
    slots: SlotSet,
    /// Since when it has been ahead of this node.
    since: Time,
}

impl Node {
    /// Says on a link what this node holds. Nothing is imported where there is but one cluster.
    pub(super) fn tell_holding(&mut self, link: LinkId) {
        let Some(assignment) = self.assignment() else { return };
        if assignment.clusters.len() > 1 && self.cluster_at(link) == Some(assignment.cluster) {
            let (term, epoch, slots) = (assignment.term, assignment.epoch, assignment.slots.clone());
            self.send(link, Frame::Holding { term, epoch, slots });
        }
    }

    /// A peer says what it holds.
    pub(super) fn peer_holds(&mut self, link: LinkId, version: (u32, u32), slots: SlotSet) {
        let own = self.assignment().map(|a| (a.term, a.epoch));
        let before = self.membership.holdings.get(&link).filter(|before| Some(before.version) > own);
        let since = before.map_or(self.now, |before| before.since);
        self.membership.holdings.insert(link, Holding { version, slots, since });
        self.review_slots();
    }

    /// This node's slots without those that a local peer holds by a newer assignment.
    pub(super) fn own_slots(&self) -> SlotSet {
        let Some(assignment) = self.assignment() else { return SlotSet::none() };
        let version = (assignment.term, assignment.epoch);
        let mut own = assignment.slots.clone();
        for (&link, holding) in &self.membership.holdings {
            let local = self.cluster_at(link) == Some(assignment.cluster);
            if local && holding.version > version && self.now.since(holding.since) < TRUSTED_FOR {
                own.subtract(&holding.slots);
            }
        }
        own
    }

    /// Tells all broadcasts if this node's slots are not what they were.
    pub(super) fn review_slots(&mut self) {
        let own = self.own_slots();
        if own == self.membership.slots {
            return;
        }
        self.membership.slots = own;
        self.place_in_swarms();
    }

    /// Tells all broadcasts where this node stands now.
    pub(super) fn place_in_swarms(&mut self) {
        let ids: Vec<BroadcastId> = self.broadcasts.keys().copied().collect();
        let now = self.now;
        for id in ids {
            self.place_in_swarm(id);
            self.with_broadcast(id, |broadcast| broadcast.handle_assignment(now));
        }
    }
}
