//! Broadcasts that a node's application has no more use for, and that are not over: whoever coordinates keeps their books until they are, and
//! any node may come to coordinate.

use crate::limits::BROADCASTS_MAX;
use crate::time::Time;
use crate::units::BroadcastId;

use super::Node;
use super::coordination::Coordination;

impl Coordination {
    /// Of a node that becomes coordinator in the place of another one, or leaves that place to another one: of what it has heard before only
    /// that counts which its own application did not want.
    pub(super) fn restarted(self, now: Time) -> Coordination {
        let mut restarted = Coordination::since(now);
        restarted.unwanted = self.unwanted;
        restarted
    }

    /// This node's application has no more use for a broadcast that others may wait for: its books are kept until it is over.
    pub(super) fn note_unwanted(&mut self, id: BroadcastId) {
        self.unwanted.push_back(id);
        if self.unwanted.len() > BROADCASTS_MAX {
            self.unwanted.pop_front().into_iter().for_each(|oldest| self.forget(oldest));
        }
    }

    /// What this node's application has no more use for, and others may wait for.
    pub(super) fn unwanted(&self) -> impl Iterator<Item = BroadcastId> {
        self.unwanted.iter().copied()
    }

    /// A broadcast is over: what this node's application did not want is forgotten.
    pub(super) fn note_released(&mut self, id: BroadcastId) {
        if self.unwanted.contains(&id) {
            self.forget(id);
        }
    }
}

impl Node {
    /// Whether nobody waits for a broadcast any more that this node's application has no more use for.
    pub(super) fn is_over(&self, id: BroadcastId) -> bool {
        self.finished.contains(id) && !self.coordination.unwanted.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::founder::tests::{claim, follower};
    use crate::node::testing::linked;
    use crate::units::{NodeId, Signature};

    #[test]
    fn who_leaves_the_place_of_coordinator_to_another_one_knows_what_its_application_did_not_want() {
        let mut node = follower();
        node.succession_signed(claim(2, 3), Signature([0; 64]));
        assert!(node.is_taking_over());
        let id = BroadcastId { root: NodeId(2), sequence: 0 };
        node.coordination.note_unwanted(id);
        let link = linked(&mut node, NodeId(2));
        node.succession_verified(link, claim(3, 2), Signature([0; 64]), true);
        assert!(!node.is_taking_over());
        assert_eq!(node.coordination.unwanted().collect::<Vec<_>>(), [id]);
    }
}
