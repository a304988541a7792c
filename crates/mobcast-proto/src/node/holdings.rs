//! Who holds which slots, as the members of a cluster tell each other. Assignments reach them one by one, and may be late where the
//! way down the control tree crosses a busy link: until then two would import the same pieces. Whoever hears of a newer
//! assignment than its own leaves that member's slots alone, as its own next assignment will say.

use crate::content::slots::SlotSet;
use crate::limits::LINKS_MAX;
use crate::time::{Duration, Time};
use crate::units::{BroadcastId, LinkId};
use crate::wire::Frame;

use super::Node;

/// A member's word is taken for so long, unless an assignment confirms it: it may lie, and import nothing. Another word of the same
/// member, or another link to it, does not begin anew.
const TRUSTED_FOR: Duration = Duration::from_secs(20);
/// Slots change hands no more often than this by what peers say: each time, all who should announce pieces are told.
const REVIEW_INTERVAL: Duration = Duration::from_millis(20);
/// Members whose word is kept: those that are linked, and some that were.
const HOLDINGS_MAX: usize = 4 * LINKS_MAX;

/// What a member of this node's cluster says that it holds.
pub(super) struct Holding {
    /// Term and epoch of its assignment, which is newer than this node's.
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

    /// A peer says what it holds. What an older assignment says is known already, or untrue.
    pub(super) fn peer_holds(&mut self, link: LinkId, version: (u32, u32), slots: SlotSet) {
        let (Some(node), Some(assignment)) = (self.member_at(link), self.assignment()) else { return };
        let ahead = version > (assignment.term, assignment.epoch);
        if !ahead || self.cluster_at(link) != Some(assignment.cluster) {
            return;
        }
        let holdings = &mut self.membership.holdings;
        let since = match holdings.get(&node) {
            Some(before) if before.version >= version => return,
            Some(before) => before.since,
            None if holdings.len() >= HOLDINGS_MAX => return,
            None => self.now,
        };
        holdings.insert(node, Holding { version, slots, since });
        let due = self.membership.slots_reviewed.map_or(self.now, |at| (at + REVIEW_INTERVAL).max(self.now));
        self.membership.slots_review_at.get_or_insert(due);
    }

    /// This node has another assignment: who was ahead of it may not be any more. Peers are told what it holds now.
    pub(super) fn slots_assigned(&mut self) {
        let Some(version) = self.assignment().map(|assignment| (assignment.term, assignment.epoch)) else { return };
        self.membership.holdings.retain(|_, holding| holding.version > version);
        self.membership.slots = self.own_slots();
        self.place_in_swarms();
        self.member_links().into_iter().for_each(|link| self.tell_holding(link));
    }

    /// This node's slots without those that others hold by a newer assignment.
    fn own_slots(&self) -> SlotSet {
        let Some(assignment) = self.assignment() else { return SlotSet::none() };
        let mut own = assignment.slots.clone();
        let trusted = |holding: &&Holding| self.now.since(holding.since) < TRUSTED_FOR;
        self.membership.holdings.values().filter(trusted).for_each(|holding| own.subtract(&holding.slots));
        own
    }

    /// Tells all broadcasts if this node's slots are not what they were.
    pub(super) fn review_slots(&mut self) {
        self.membership.slots_review_at = None;
        self.membership.slots_reviewed = Some(self.now);
        let own = self.own_slots();
        if own != self.membership.slots {
            self.membership.slots = own;
            self.place_in_swarms();
        }
    }

    fn place_in_swarms(&mut self) {
        let ids: Vec<BroadcastId> = self.broadcasts.keys().collect();
        let now = self.now;
        for id in ids {
            self.place_in_swarm(id);
            self.with_broadcast(id, |broadcast| broadcast.handle_assignment(now));
        }
    }

    /// # Panics
    /// If the books do not add up: that is a bug.
    pub(super) fn check_slots(&self) {
        let Some(assignment) = self.assignment() else { return };
        assert!(assignment.slots.includes(&self.membership.slots), "slots are imported that were not assigned");
        let version = (assignment.term, assignment.epoch);
        let ahead = self.membership.holdings.values().all(|holding| holding.version > version);
        assert!(ahead && self.membership.holdings.len() <= HOLDINGS_MAX, "what others hold is kept for nothing");
    }
}
