//! What those who watch a node may know of its links. Reading changes nothing.

use std::collections::BTreeMap;

use crate::strategy::choice::{Choice, Costs, Extent, Situation, Unknown, choose};
use crate::strategy::overlay::Overlays;
use crate::time::Duration;
use crate::units::{BroadcastId, ClusterId, LinkId, NodeId};

use super::Node;

/// How a link stands: sums over the broadcasts that are exchanged over it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkView {
    /// Least round-trip time measured; none before the first answer to a ping.
    pub rtt_min: Option<Duration>,
    /// Rate at which requested payload has arrived last, bytes per second; zero before the first sample.
    pub rate_in_bytes_per_s: u64,
    /// The request window, bytes; zero if no broadcast is exchanged.
    pub window_bytes: u64,
    /// Bytes asked of the peer that have not arrived.
    pub requested_bytes: u64,
    /// Requests to the peer that are not served in full.
    pub requests: u32,
    /// Bytes that the peer has asked for and that the driver has not been given.
    pub waiting_bytes: u64,
}

impl Node {
    /// All links, whether up or being made.
    pub fn link_views(&self) -> BTreeMap<LinkId, LinkView> {
        let view = |(id, link): (LinkId, &super::links::Link)| {
            let waiting_bytes = self.uploads.waiting_bytes(id);
            (id, LinkView { rtt_min: link.rtt_min(), waiting_bytes, ..LinkView::default() })
        };
        let mut views: BTreeMap<LinkId, LinkView> = self.links.iter().map(view).collect();
        for swarm in self.broadcasts.values().map(|broadcast| broadcast.swarm()) {
            for (link, peer) in swarm.peers() {
                let Some(view) = views.get_mut(&link) else { continue };
                view.rate_in_bytes_per_s += peer.window.rate_bytes_per_s();
                view.window_bytes += peer.window.size();
                view.requested_bytes += peer.window.outstanding();
            }
            for part in swarm.open().flat_map(|(_, open)| &open.parts) {
                if let Some(view) = views.get_mut(&part.peer) {
                    view.requests += 1;
                }
            }
        }
        views
    }

    /// Whether a member has broken the protocol here, so that no link to it is made or taken any more.
    pub fn has_dropped(&self, node: NodeId) -> bool {
        self.banned.contains(&node)
    }

    /// What the coordinator knows of the group when it chooses a strategy; none elsewhere.
    pub fn situation(&self) -> Option<(Situation, &Overlays)> {
        let coordinator = self.coordinator.as_ref()?;
        let own = self.assignment()?.cluster;
        let mut rtts: (Option<Duration>, Option<Duration>) = (None, None);
        for link in self.links.values() {
            let Some(rtt) = link.rtt_min() else { continue };
            match link.member().and_then(|node| coordinator.member(node)) {
                Some(member) if member.cluster == own => rtts.0 = Some(rtts.0.map_or(rtt, |other| other.min(rtt))),
                Some(_) => rtts.1 = rtts.1.max(Some(rtt)),
                None => {}
            }
        }
        let (order, overlays) = (coordinator.order(), coordinator.overlays());
        let situation = Situation { order, network: overlays.network.clone(), local_rtt: rtts.0, wan_rtt: rtts.1 };
        Some((situation, overlays))
    }

    /// The strategy for an object, as far as this node knows.
    pub fn choose(&self, object: Extent, costs: &Costs) -> Choice {
        match self.situation() {
            Some((situation, overlays)) => choose(object, Ok(&situation), overlays, costs),
            None => choose(object, Err(Unknown::Elsewhere), &Overlays::default(), costs),
        }
    }

    /// The cluster of a member, as the coordinator knows it; none elsewhere.
    pub fn member_cluster(&self, node: NodeId) -> Option<ClusterId> {
        Some(self.coordinator.as_ref()?.member(node)?.cluster)
    }

    /// The name of the cluster in which a broadcast's root is, or was, as the coordinator knows it; none elsewhere.
    pub fn root_cluster_name(&self, broadcast: BroadcastId) -> Option<String> {
        let cluster = self.broadcasts.get(&broadcast)?.announcement.cluster;
        Some(self.coordinator.as_ref()?.cluster_name(cluster))
    }
}
