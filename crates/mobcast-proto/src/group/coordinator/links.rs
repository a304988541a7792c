//! Who hangs below whom, and who connects to whom: the links of members, completed when others have come or gone.

use super::*;

impl Coordinator {
    /// Gives everyone a parent who has none.
    pub(super) fn attach_orphans(&mut self) {
        for node in self.graph.orphans() {
            let cluster = self.members[&node].info.cluster;
            self.attach(node, cluster);
            self.changed.insert(node);
        }
    }

    /// Gives `node` a parent in the control tree.
    pub(super) fn attach(&mut self, node: NodeId, cluster: ClusterId) {
        let parent = self.graph.find_parent(node, cluster, &self.clusters[&cluster].members);
        self.graph.set_parent(node, parent);
    }

    /// Gives `node` local and global peers, up to the number that a node is told. True if it got any.
    pub(super) fn connect(&mut self, node: NodeId) -> bool {
        if !self.plans.overlays().mesh {
            return false;
        }
        let own = self.members[&node].info.cluster;
        let (local, parted) = self.graph.connect_local(node, &self.clusters[&own].members, &mut self.random);
        self.changed.extend(parted);
        let others: Vec<ClusterId> = self.clusters.keys().copied().filter(|&c| c != own).collect();
        let global = self.graph.connect_global(node, own, &others, |c| &self.clusters[&c].members, &mut self.random);
        local || global
    }

    /// Gives members that stand without a peer in some cluster, because it was founded or grew after them, one there.
    pub(super) fn complete_links(&mut self) {
        if self.members.len() > COMPLETED_GROUP_MAX {
            return;
        }
        let nodes: Vec<NodeId> = self.members.keys().copied().collect();
        for node in nodes {
            if self.connect(node) {
                self.changed.insert(node);
            }
        }
        self.pair_clusters();
    }

    /// Says who is whose counterpart.
    pub(super) fn pair_clusters(&mut self) {
        if self.plans.overlays().mesh && self.members.len() <= COMPLETED_GROUP_MAX {
            let members: Vec<&[NodeId]> = self.clusters.values().map(|cluster| &*cluster.members).collect();
            self.changed.extend(self.graph.pair_clusters(&members));
        }
    }
}
