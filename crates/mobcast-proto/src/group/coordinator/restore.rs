//! A new coordinator rebuilds its view of the group from what the members say of themselves.

use std::collections::BTreeMap;

use super::*;
use crate::group::succession::Standing;
use crate::strategy::Registry;

impl Coordinator {
    /// The coordinator of a later term, at node `own`. `standings` are those of all members that have shown
    /// themselves, its own included. Everyone gets a new assignment; nobody is admitted any more, because tickets name
    /// the founder's address.
    ///
    /// # Panics
    /// If its own standing is not among them.
    pub fn restore(
        own: NodeId,
        term: u32,
        standings: &BTreeMap<NodeId, Standing>,
        registry: Registry,
        seed: u64,
    ) -> Self {
        assert!(standings.contains_key(&own), "a coordinator is a member itself");
        let mut coordinator = Coordinator::empty(own, term, seed);
        coordinator.closing = true;
        coordinator.trusts_members = standings[&own].assignment.trusts_members;
        coordinator.restore_plans(registry, standings.values().map(|standing| &standing.assignment), term);
        let mut claimed = BTreeMap::new();
        for standing in standings.values() {
            coordinator.restore_member(standing, claimed.entry(standing.assignment.cluster).or_default());
        }
        for (&node, standing) in standings {
            let told = standing.assignment.local_peers.iter().chain(&standing.assignment.global_peers);
            told.for_each(|peer| coordinator.graph.restore_link(node, peer.node));
        }
        for (&node, standing) in standings {
            coordinator.restore_parent(node, standing);
        }
        coordinator.attach_orphans();
        for (&node, standing) in standings {
            standing.banned.iter().for_each(|&banned| coordinator.handle_accused(node, banned));
        }
        coordinator.refresh_all();
        coordinator
    }

    /// A member that shows itself late, after the group was rebuilt. False if it is known already.
    pub fn adopt(&mut self, now: Time, standing: &Standing) -> bool {
        let node = standing.credential.node;
        if self.members.contains_key(&node) || self.members.len() >= NODES_MAX {
            return false;
        }
        let mut claimed = SlotSet::none();
        for other in self.clusters.get(&standing.assignment.cluster).into_iter().flat_map(|cluster| &cluster.members) {
            claimed.union(&self.members[other].slots);
        }
        self.restore_member(standing, &mut claimed);
        self.restore_parent(node, standing);
        self.attach_orphans();
        self.connect(node);
        self.changed.insert(node);
        self.rebalance(Newcomers::All);
        self.replan_later(now);
        self.publish();
        true
    }

    /// Replaces links, slots and places in plans of those who have not come, and gives everyone a new assignment.
    fn refresh_all(&mut self) {
        self.decisions.clear();
        for node in self.members.keys().copied().collect::<Vec<_>>() {
            self.connect(node);
        }
        self.pair_clusters();
        self.rebalance(Newcomers::All);
        self.replan();
        self.changed.extend(self.members.keys());
        self.publish();
    }

    /// Takes a member in as it says that it was. Of its slots it keeps those that are not among `claimed`, the slots of the others in
    /// its cluster: one that changed hands just before may be claimed by two, and either may have it. They are claimed from here on.
    fn restore_member(&mut self, standing: &Standing, claimed: &mut SlotSet) {
        let Assignment { cluster, ref cluster_name, rank, epoch, ref slots, .. } = standing.assignment;
        let node = standing.credential.node;
        let name = cluster_name.clone();
        let entry = self.clusters.entry(cluster).or_insert_with(|| Cluster::named(name));
        let place = entry.members.partition_point(|&other| other < node);
        entry.members.insert(place, node);
        entry.next_rank = entry.next_rank.max(rank.saturating_add(1));
        let mut own = slots.clone();
        own.subtract(claimed);
        claimed.union(slots);
        let info = MemberInfo { name: standing.name.clone(), cluster, key: standing.credential.key };
        let addresses = standing.addresses.clone();
        self.graph.add(node, cluster, !addresses.is_empty());
        self.plans.note_change();
        self.members.insert(node, Member { info, rank, addresses, slots: own, epoch });
        self.epoch = self.epoch.max(epoch);
        self.next_node = self.next_node.max(node.0.saturating_add(1));
        self.next_cluster = self.next_cluster.max(cluster.0.saturating_add(1));
    }

    /// Puts a member below its parent, if that is still there and does not hang below the member itself.
    fn restore_parent(&mut self, node: NodeId, standing: &Standing) {
        let Some(parent) = standing.assignment.parent.as_ref().map(|parent| parent.node) else { return };
        if node == self.own || !self.members.contains_key(&parent) {
            return;
        }
        let mut above = Some(parent);
        while let Some(at) = above {
            if at == node {
                return;
            }
            above = self.graph.parent(at);
        }
        self.graph.set_parent(node, parent);
    }
}
