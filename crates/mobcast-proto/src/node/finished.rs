//! Broadcasts that the application has no more use for: whatever is still said of them is no news.

use std::collections::{BTreeSet, VecDeque};

use crate::limits::BROADCASTS_MAX;
use crate::units::BroadcastId;

/// So many are remembered; what is older, nobody speaks of any more.
const REMEMBERED: usize = 16 * BROADCASTS_MAX;

/// The last broadcasts that were forgotten.
#[derive(Debug, Default)]
pub(super) struct Finished {
    known: BTreeSet<BroadcastId>,
    /// The same, from the oldest on.
    order: VecDeque<BroadcastId>,
}

impl Finished {
    pub(super) fn insert(&mut self, id: BroadcastId) {
        if self.known.insert(id) {
            self.order.push_back(id);
        }
        while self.order.len() > REMEMBERED {
            self.order.pop_front().map(|oldest| self.known.remove(&oldest));
        }
    }

    pub(super) fn contains(&self, id: BroadcastId) -> bool {
        self.known.contains(&id)
    }

    pub(super) fn latest_first(&self) -> impl Iterator<Item = BroadcastId> + '_ {
        self.order.iter().rev().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::NodeId;

    #[test]
    fn the_oldest_are_forgotten_whoever_their_root_is() {
        let id = |root, sequence| BroadcastId { root: NodeId(root), sequence };
        let mut finished = Finished::default();
        (0..REMEMBERED as u32).for_each(|number| finished.insert(id(5, number)));
        finished.insert(id(0, 0));
        finished.insert(id(5, 1));
        assert!(finished.contains(id(0, 0)), "the latest, though its root is the first");
        assert!(!finished.contains(id(5, 0)) && finished.contains(id(5, 1)));
        assert_eq!(finished.latest_first().next(), Some(id(0, 0)));
        assert_eq!(finished.latest_first().count(), REMEMBERED);
    }
}
