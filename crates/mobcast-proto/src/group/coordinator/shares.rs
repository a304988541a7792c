//! Who imports what: the slots of each cluster are divided among its members, and few change hands when nodes come and go.

use super::*;

/// One in so many importers without a share is many.
const MANY: usize = 4;

/// A lost member's share is dealt to about so many.
const HEIRS: usize = 4;

/// For which members without slots a cluster's are divided anew: each division takes new assignments for all who give some.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Newcomers {
    /// For any.
    All,
    /// For a quarter of its importers: while many join one by one, each is told as often as the cluster grows by a third. Until
    /// then newcomers steal.
    Many,
}

impl Coordinator {
    /// Divides the slots of every cluster with members that have none, moving as few as possible. A group of one cluster imports
    /// nothing.
    pub(super) fn rebalance(&mut self, newcomers: Newcomers) {
        let clusters: Vec<ClusterId> = self.clusters.keys().copied().collect();
        for cluster in clusters {
            self.rebalance_cluster(cluster, newcomers);
        }
    }

    /// Importers: members with a link to another cluster; all, while nobody has one.
    fn importers(&self, cluster: ClusterId) -> Vec<NodeId> {
        let members = &self.clusters[&cluster].members;
        let able = |&n: &NodeId| self.graph.has_global(n) && self.is_trusted(n);
        let linked: Vec<NodeId> = members.iter().copied().filter(able).collect();
        if linked.is_empty() { members.clone() } else { linked }
    }

    fn rebalance_cluster(&mut self, cluster: ClusterId, newcomers: Newcomers) {
        let importers = self.importers(cluster);
        let held: usize = importers.iter().map(|n| self.members[n].slots.count()).sum();
        let without = importers.iter().filter(|&n| self.members[n].slots.count() == 0).count();
        let enough = match newcomers {
            Newcomers::All => without > 0,
            Newcomers::Many => without * MANY >= importers.len(),
        };
        let imports = self.clusters.len() > 1 && importers.len() <= SLOTS;
        if held == SLOTS && !(enough && imports) {
            return;
        }
        let target = SLOTS.div_ceil(importers.len()).max(1);
        let mut pool = SlotSet::all();
        // Nobody keeps more than a quarter over the target, and who cannot import keeps nothing.
        for &node in &self.clusters[&cluster].members.clone() {
            let keeps = importers.binary_search(&node).is_ok();
            let member = self.members.get_mut(&node).expect("members of clusters exist");
            let count = member.slots.count();
            let excess = if !keeps {
                count
            } else if count > target + target / 4 {
                count - target
            } else {
                0
            };
            if excess > 0 {
                member.slots.take(excess);
                self.changed.insert(node);
            }
            member.slots.iter().for_each(|slot| pool.remove(slot));
        }
        let hand = (pool.count() / importers.len().max(1) / 4).max(1);
        self.deal(&importers, pool, hand);
    }

    /// Gives the slots of a lost member to the rest of its cluster.
    pub(super) fn give_out(&mut self, cluster: ClusterId, slots: SlotSet) {
        if self.clusters.contains_key(&cluster) && slots.count() > 0 {
            let importers = self.importers(cluster);
            // Few are told: a member's share goes to a handful of those that have the fewest.
            let hand = slots.count().div_ceil(HEIRS);
            self.deal(&importers, slots, hand);
        }
    }

    /// Deals slots to those who have the fewest, a hand of them at a time.
    fn deal(&mut self, importers: &[NodeId], mut pool: SlotSet, hand: usize) {
        let mut by_count: BTreeSet<(usize, NodeId)> =
            importers.iter().map(|&node| (self.members[&node].slots.count(), node)).collect();
        while pool.count() > 0 {
            let Some((count, node)) = by_count.pop_first() else { return };
            let dealt = pool.take(hand);
            self.members.get_mut(&node).expect("importers are members").slots.union(&dealt);
            self.changed.insert(node);
            by_count.insert((count + dealt.count(), node));
        }
    }
}
