//! Who imports what: the slots of each cluster are divided among its members, and few change hands when nodes come and go.

use super::*;

impl Coordinator {
    /// Divides the slots of every cluster with members that have none, moving as few as possible.
    pub(super) fn rebalance(&mut self) {
        let clusters: Vec<ClusterId> = self.clusters.keys().copied().collect();
        for cluster in clusters {
            self.rebalance_cluster(cluster);
        }
    }

    /// Importers: members with a link to another cluster; all, while nobody has one.
    fn importers(&self, cluster: ClusterId) -> Vec<NodeId> {
        let members = &self.clusters[&cluster].members;
        let able = |&n: &NodeId| self.graph.has_global(n) && self.is_trusted(n);
        let linked: Vec<NodeId> = members.iter().copied().filter(able).collect();
        if linked.is_empty() { members.clone() } else { linked }
    }

    fn rebalance_cluster(&mut self, cluster: ClusterId) {
        let importers = self.importers(cluster);
        let held: usize = importers.iter().map(|n| self.members[n].slots.count()).sum();
        let newcomers = importers.iter().any(|n| self.members[n].slots.count() == 0) && importers.len() <= SLOTS;
        if held == SLOTS && !newcomers {
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
        self.deal(&importers, pool);
    }

    /// Gives the slots of a lost member to the rest of its cluster.
    pub(super) fn give_out(&mut self, cluster: ClusterId, slots: SlotSet) {
        if self.clusters.contains_key(&cluster) && slots.count() > 0 {
            let importers = self.importers(cluster);
            self.deal(&importers, slots);
        }
    }

    /// Deals slots to those who have the fewest.
    fn deal(&mut self, importers: &[NodeId], mut pool: SlotSet) {
        let mut by_count: BTreeSet<(usize, NodeId)> =
            importers.iter().map(|&node| (self.members[&node].slots.count(), node)).collect();
        let hand = (pool.count() / importers.len().max(1) / 4).max(1);
        while pool.count() > 0 {
            let Some((count, node)) = by_count.pop_first() else { return };
            let dealt = pool.take(hand);
            self.members.get_mut(&node).expect("importers are members").slots.union(&dealt);
            self.changed.insert(node);
            by_count.insert((count + dealt.count(), node));
        }
    }
}
