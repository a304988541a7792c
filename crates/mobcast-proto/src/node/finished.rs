//! Broadcasts that the application has no more use for: whatever is still said of them is no news.

use std::collections::{BTreeMap, VecDeque};

use crate::group::report::NodeResult;
use crate::limits::BROADCASTS_MAX;
use crate::units::{BroadcastId, NodeId};

/// Runs of one root's broadcasts, and roots, of which so many are remembered. A root numbers its broadcasts in a row, and those that are
/// forgotten soon make one run, however many they are.
const REMEMBERED: usize = 16 * BROADCASTS_MAX;

/// The broadcasts that were forgotten.
#[derive(Debug, Default)]
pub(super) struct Finished {
    /// Of each root runs of numbers, by their first one: the last one of each.
    runs: BTreeMap<NodeId, BTreeMap<u32, u32>>,
    /// The last ones, from the oldest on.
    latest: VecDeque<BroadcastId>,
    /// Of those what was reported of the ones that came to nothing here.
    failed: BTreeMap<BroadcastId, NodeResult>,
}

impl Finished {
    pub(super) fn insert(&mut self, id: BroadcastId) {
        if self.contains(id) {
            return;
        }
        self.latest.push_back(id);
        if self.latest.len() > BROADCASTS_MAX {
            self.latest.pop_front().into_iter().for_each(|oldest| self.forget_failure(oldest));
        }
        let runs = self.runs.entry(id.root).or_default();
        let before = runs.range(..id.sequence).next_back().filter(|&(_, last)| last + 1 == id.sequence);
        let first = before.map_or(id.sequence, |(&first, _)| first);
        let behind = id.sequence.checked_add(1).and_then(|next| runs.remove(&next));
        runs.insert(first, behind.unwrap_or(id.sequence));
        if runs.len() > REMEMBERED {
            runs.pop_first();
        }
        if self.runs.len() > REMEMBERED {
            let other = self.runs.keys().find(|root| **root != id.root).copied();
            other.map(|root| self.runs.remove(&root));
        }
    }

    pub(super) fn contains(&self, id: BroadcastId) -> bool {
        let run = self.runs.get(&id.root).and_then(|runs| runs.range(..=id.sequence).next_back());
        run.is_some_and(|(_, &last)| id.sequence <= last)
    }

    /// One that came to nothing here, which whoever comes to coordinate has to be told.
    pub(super) fn insert_failed(&mut self, result: NodeResult) {
        self.insert(result.broadcast);
        self.failed.insert(result.broadcast, result);
    }

    /// Nobody waits for the result of one any more.
    pub(super) fn forget_failure(&mut self, id: BroadcastId) {
        self.failed.remove(&id);
    }

    /// What was reported of the last ones that came to nothing here.
    pub(super) fn failed(&self) -> Vec<NodeResult> {
        self.failed.values().cloned().collect()
    }

    /// The last ones, at most [`BROADCASTS_MAX`], but for those that came to nothing here.
    pub(super) fn latest_first(&self) -> impl Iterator<Item = BroadcastId> + '_ {
        self.latest.iter().rev().copied().filter(|id| !self.failed.contains_key(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn id(root: u32, sequence: u32) -> BroadcastId {
        BroadcastId { root: NodeId(root), sequence }
    }

    #[test]
    fn what_a_root_has_done_in_a_row_is_never_forgotten() {
        let mut finished = Finished::default();
        (0..10_000).for_each(|sequence| finished.insert(id(5, sequence)));
        finished.insert(id(0, u32::MAX));
        assert!((0..10_000).all(|sequence| finished.contains(id(5, sequence))));
        assert!(!finished.contains(id(5, 10_000)) && !finished.contains(id(0, 0)));
        assert_eq!(finished.latest_first().take(2).collect::<Vec<_>>(), [id(0, u32::MAX), id(5, 9_999)]);
        assert_eq!(finished.latest_first().count(), BROADCASTS_MAX);
    }

    #[test]
    fn memory_is_bounded_whatever_is_finished() {
        let mut finished = Finished::default();
        (0..5_000).for_each(|i| finished.insert(id(1, 2 * i)));
        (2..5_000).for_each(|root| finished.insert(id(root, 0)));
        assert!(finished.runs.len() <= REMEMBERED && finished.runs.values().all(|runs| runs.len() <= REMEMBERED));
        assert!(finished.contains(id(4_999, 0)));
    }

    proptest! {
        #[test]
        fn behaves_like_a_set(ids in proptest::collection::vec((0u32..3, 0u32..60), 0..120)) {
            let (mut finished, mut model) = (Finished::default(), BTreeSet::new());
            for (root, sequence) in ids {
                finished.insert(id(root, sequence));
                model.insert(id(root, sequence));
            }
            let all = (0..3).flat_map(|root| (0..61).map(move |sequence| id(root, sequence)));
            for id in all {
                prop_assert_eq!(finished.contains(id), model.contains(&id));
            }
        }
    }
}
