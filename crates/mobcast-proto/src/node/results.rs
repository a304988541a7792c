//! What the members have reported of a broadcast, as the coordinator's node counts it: at the end of a transfer thousands of results come
//! within a moment, and each of them may be the one that all have waited for.

use std::collections::BTreeMap;

use crate::units::{BroadcastId, NodeId};

use super::Node;

/// The results of one broadcast.
#[derive(Default)]
pub(super) struct Results {
    /// Whether each node is complete, as it said last.
    by_node: BTreeMap<NodeId, bool>,
    complete: usize,
    /// Whom it waited for at the last look.
    awaited: NodeId,
}

impl Results {
    /// A node reports. True if it had not before.
    pub(super) fn add(&mut self, node: NodeId, complete: bool) -> bool {
        let before = self.by_node.insert(node, complete);
        self.complete -= usize::from(before == Some(true));
        self.complete += usize::from(complete);
        before.is_none()
    }

    /// A node was done before this node became coordinator.
    pub(super) fn note_over(&mut self, node: NodeId) {
        if !self.has(node) {
            self.add(node, true);
        }
    }

    /// Whether a node has reported.
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.by_node.contains_key(&node)
    }

    /// Whether some node has given up.
    pub(super) fn has_failed(&self) -> bool {
        self.complete < self.by_node.len()
    }

    /// Nodes that are complete, without the root.
    pub(super) fn complete_besides(&self, root: NodeId) -> usize {
        self.complete - usize::from(self.by_node.get(&root) == Some(&true))
    }
}

impl Node {
    /// A member for whose result a broadcast waits: the one of the last look, or else the next one behind it. So all looks together take
    /// little more than one walk over the members.
    pub(super) fn awaited(&mut self, broadcast: BroadcastId) -> Option<NodeId> {
        let coordinator = self.coordinator.as_ref()?;
        let last = self.coordination.results.get(&broadcast).map(|results| results.awaited).unwrap_or_default();
        let awaited = coordinator.members_from(last).find(|&node| !self.is_done_with(node, broadcast));
        if let (Some(results), Some(node)) = (self.coordination.results.get_mut(&broadcast), awaited) {
            results.awaited = node;
        }
        awaited
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::founder::tests::{claim, standing};
    use crate::node::testing::founder;
    use crate::units::Signature;

    const ROOT: NodeId = NodeId(2);

    #[test]
    fn who_reports_again_counts_once_and_as_it_says_last() {
        let mut results = Results::default();
        assert!(results.add(NodeId(1), false) && results.add(ROOT, true));
        assert_eq!((results.complete_besides(ROOT), results.has_failed()), (0, true));
        assert!(!results.add(NodeId(1), true));
        results.note_over(NodeId(1));
        assert_eq!((results.complete_besides(ROOT), results.has_failed()), (1, false));
        assert!(!results.add(NodeId(1), false));
        results.note_over(NodeId(1));
        results.note_over(NodeId(3));
        assert_eq!((results.complete_besides(ROOT), results.has_failed()), (1, true));
    }

    #[test]
    fn a_broadcast_waits_for_each_member_in_whatever_order_they_report_and_also_for_who_comes_late() {
        let mut node = founder();
        let id = BroadcastId { root: ROOT, sequence: 0 };
        node.succession_signed(claim(2, 0), Signature([0; 64]));
        [1, 2, 4, 5, 6].into_iter().for_each(|own| node.standing_verified(standing(own, 0)));
        let mut awaited = Vec::new();
        for from in [0, 4, 6, 5, 1] {
            node.coordination.results.entry(id).or_default().add(NodeId(from), true);
            awaited.push(node.awaited(id).map(|node| node.0));
        }
        assert_eq!(awaited, [Some(1), Some(1), Some(1), Some(1), None]);
        node.standing_verified(standing(3, 0));
        assert_eq!(node.awaited(id), Some(NodeId(3)));
        node.lose_member(NodeId(3));
        assert_eq!(node.awaited(id), None);
    }
}
