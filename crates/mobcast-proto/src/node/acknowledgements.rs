//! Assignments are acknowledged. What a link has not delivered when it breaks is lost with it, and those further down hear nothing of
//! that: a member that kept an old assignment would keep an old share, and take for its cluster what others take too.

use crate::group::report::Report;
use crate::group::succession::Standing;
use crate::limits::SILENCE_MAX;
use crate::time::{Duration, Time};
use crate::units::NodeId;

use super::Node;

/// A member acknowledges its assignment so long after it has come, or up to twice that, and the later ones that have come meanwhile with
/// it. As receipts, less often in large groups.
const PAUSE: Duration = Duration::from_secs(1);
/// What is not acknowledged after this is sent again: by then a link that has died is known to be dead.
const PATIENCE: Duration = SILENCE_MAX;
/// Each time it is sent again doubles the patience, up to this: the way may just be slow.
const PATIENCE_MAX: Duration = Duration(8 * SILENCE_MAX.0);
/// Whoever is known from a standing alone acknowledges an assignment within this, or is given up. It is sent again once or twice
/// meanwhile. As the other patience, more in large groups: no member waits longer with its acknowledgement.
const STANDING_PATIENCE: Duration = SILENCE_MAX.times(3);
/// What was sent later than this before its way broke is on another way already.
const ON_ITS_WAY: Duration = Duration::from_secs(1);

/// A member's last assignment, which it has not acknowledged.
pub(super) struct Unacknowledged {
    epoch: u32,
    sent: Time,
    patience: Duration,
}

// ---- A member ----

impl Node {
    /// An assignment has come.
    pub(super) fn acknowledge_later(&mut self) {
        if !self.is_coordinating() && self.membership.acknowledge_at.is_none() {
            let pause = PAUSE.times(self.thousands());
            let spread = self.random.below(usize::try_from(pause.0).unwrap_or(usize::MAX).max(1)) as u64;
            self.membership.acknowledge_at = Some(self.now + pause + Duration(spread));
        }
    }

    pub(super) fn acknowledge_assignment(&mut self) {
        let due = self.membership.acknowledge_at.is_some_and(|at| at <= self.now);
        if due && (self.upward_link().is_some() || self.is_coordinating()) {
            self.membership.acknowledge_at = None;
            // Another coordinator's epochs are other ones.
            let current = self.assignment().filter(|assignment| assignment.term == self.membership.term());
            if let Some(epoch) = current.map(|a| a.epoch).filter(|_| !self.is_coordinating()) {
                self.report(Report::Assigned { epoch });
            }
        }
    }

    /// Who has been given no place by the coordinator that it follows shows itself again: that one may have heard of it over a way by which nothing
    /// finds back, and given it up.
    pub(super) fn show_again_without_place(&mut self) {
        let patience = PATIENCE.times(self.thousands());
        let placed = self.assignment().is_none_or(|assignment| assignment.term == self.membership.term());
        let waits = !placed && !self.is_coordinating() && self.upward_link().is_some();
        if waits && self.now.since(self.membership.shown_at) >= patience {
            self.report_ready();
        }
    }

    /// What each member says from time to time, those of larger groups say less often: the group's nodes in thousands, as this node
    /// counts them, which knows the size of its own cluster and the number of clusters.
    pub(super) fn thousands(&self) -> u64 {
        self.assignment().map_or(1, |a| thousands(a.cluster_size as usize, a.clusters.len()))
    }
}

/// Thousands of nodes, begun ones included, in so many clusters of this size.
fn thousands(cluster_size: usize, clusters: usize) -> u64 {
    (cluster_size as u64 * clusters as u64).div_ceil(1000)
}

// ---- The coordinator ----

impl Node {
    /// The thousands that those members count who count most, in the largest cluster: no member says anything less often.
    pub(super) fn most_thousands(&self) -> u64 {
        let counted = self.coordinator.as_ref().map(|c| thousands(c.largest_cluster(), c.cluster_count()));
        counted.unwrap_or_default().max(self.thousands())
    }

    /// An assignment goes to a member.
    pub(super) fn await_acknowledgement(&mut self, node: NodeId, epoch: u32) {
        let patience = self.coordination.unacknowledged.get(&node).map_or(PATIENCE, |before| before.patience);
        self.coordination.unacknowledged.insert(node, Unacknowledged { epoch, sent: self.now, patience });
    }

    /// A member has the assignment of this epoch.
    pub(super) fn acknowledged(&mut self, node: NodeId, epoch: u32) {
        if self.coordination.unacknowledged.get(&node).is_some_and(|last| last.epoch == epoch) {
            self.coordination.unacknowledged.remove(&node);
        }
        // Not the last one perhaps, but one that was made after its standing.
        if self.coordination.unproven.get(&node).is_some_and(|&(_, old)| epoch > old) {
            self.coordination.unproven.remove(&node);
        }
    }

    /// A standing has made a node a member. It may have waited at another node that had no way up, while the one that it is of
    /// died, or found a place below another coordinator.
    pub(super) fn await_proof(&mut self, standing: &Standing) {
        self.coordination.unproven.insert(standing.credential.node, (self.now, standing.assignment.epoch));
    }

    /// Members of which nothing but a standing of long ago is known.
    pub(super) fn unproven_for_long(&self) -> Vec<NodeId> {
        let patience = STANDING_PATIENCE.times(self.most_thousands());
        let unproven = self.coordination.unproven.iter();
        unproven.filter(|&(_, &(since, _))| self.now.since(since) >= patience).map(|(&node, _)| node).collect()
    }

    /// A member says which assignment it has. It has its place, then, also if what it said of that was lost further up.
    pub(super) fn assigned(&mut self, node: NodeId, epoch: u32) {
        self.coordination.joining.remove(&node);
        self.acknowledged(node, epoch);
    }

    /// Sends again what has not been acknowledged for long.
    pub(super) fn look_after_assignments(&mut self) {
        let (now, thousands) = (self.now, self.most_thousands());
        let mut due = Vec::new();
        for (&node, last) in &mut self.coordination.unacknowledged {
            if now.since(last.sent) >= last.patience.times(thousands) {
                last.patience = Duration((2 * last.patience.0).min(PATIENCE_MAX.0));
                due.push(node);
            }
        }
        self.assign_again(&due);
    }

    /// A member has come to this coordinator over a new link: what was on its way to it may be lost.
    pub(super) fn member_reached(&mut self, node: NodeId) {
        if self.coordination.unacknowledged.contains_key(&node) {
            self.assign_again(&[node]);
        }
    }

    /// A member has said again who it is: what was on its way to those below it may be lost.
    pub(super) fn way_renewed(&mut self, through: NodeId) {
        let (now, patience) = (self.now, ON_ITS_WAY.times(self.thousands()));
        let Some(coordinator) = &self.coordinator else { return };
        let old = self.coordination.unacknowledged.iter().filter(|(_, last)| now.since(last.sent) >= patience);
        let below = old.map(|(&node, _)| node).filter(|&node| coordinator.path_to(node).contains(&through));
        let below: Vec<NodeId> = below.collect();
        self.assign_again(&below);
    }

    /// A member has come below which others hang that were told of places by way of it: they have not heard of that.
    pub(super) fn old_place_found(&mut self, parent: NodeId) {
        let below = self.coordination.below_old_place(parent, self.now);
        self.assign_again(&below);
    }

    fn assign_again(&mut self, nodes: &[NodeId]) {
        if let Some(coordinator) = self.coordinator.as_mut().filter(|_| !nodes.is_empty()) {
            // As if they had none.
            nodes.iter().for_each(|&node| coordinator.renew(node, 0));
            self.drain_coordinator();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::founder::tests::{claim, standing};
    use crate::node::testing::founder;
    use crate::units::{ClusterId, Signature};

    #[test]
    fn whoever_counts_more_nodes_than_the_coordinator_has_time_for_its_acknowledgement() {
        let mut node = founder();
        node.succession_signed(claim(2, 0), Signature([0; 64]));
        // The founder is alone in its cluster and counts 101 nodes; those of the cluster of 200 count 20,200.
        let clusters = (1..100).chain(std::iter::repeat_n(100, 200));
        for (own, cluster) in (1..).zip(clusters) {
            let mut standing = standing(own, 0);
            standing.assignment.cluster = ClusterId(cluster);
            standing.assignment.cluster_name = format!("c{cluster}");
            node.standing_verified(standing);
        }
        let mut given_up = |seconds: u64| {
            node.set_now(Time::ZERO + Duration::from_secs(seconds));
            node.unproven_for_long().len()
        };
        assert_eq!(given_up(2 * 21), 0, "the last of them acknowledge only then");
        assert_eq!(given_up(30 * 21), 299);
    }
}
