//! What each member is told of the group: its bounded view, made of what the coordinator's parts know of it.

use super::*;
use crate::group::assignment::PeerAddress;
use crate::limits::LINKS_MAX;

impl Coordinator {
    /// A member's view of the group.
    pub(super) fn assignment(&self, node: NodeId) -> Assignment {
        let member = &self.members[&node];
        let cluster = &self.clusters[&member.info.cluster];
        let peers = |nodes: Vec<NodeId>| nodes.into_iter().map(|n| self.address(n)).collect();
        let mut plan_peers: BTreeSet<NodeId> = self.plans.dials_of(node).into_iter().collect();
        plan_peers.extend(self.gauging.dials_of(node).filter(|peer| self.members.contains_key(peer)));
        Assignment {
            term: self.term,
            epoch: member.epoch,
            node,
            cluster: member.info.cluster,
            cluster_name: cluster.name.clone(),
            rank: member.rank,
            cluster_size: cluster.members.len() as u32,
            clusters: self.clusters.keys().copied().collect(),
            parent: self.graph.parent(node).map(|parent| self.address(parent)),
            local_peers: peers(self.graph.told_local(node)),
            global_peers: peers(self.graph.told_global(node)),
            counterparts: self.graph.counterparts(node),
            trusts_members: self.trusts_members,
            slots: member.slots.clone(),
            successors: peers(self.named.clone()),
            plans: self.plans.places_of(node),
            plan_peers: peers(plan_peers.into_iter().take(LINKS_MAX).collect()),
            probes: self.gauging.orders_of(node),
        }
    }

    fn address(&self, node: NodeId) -> PeerAddress {
        let member = &self.members[&node];
        let cluster = member.info.cluster;
        PeerAddress { node, cluster, rank: member.rank, addresses: member.addresses.clone() }
    }
}
