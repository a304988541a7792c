//! For those who watch: the node's view of a broadcast and of its links, and a line for each link once a second.

use mobcast_proto::{BroadcastId, Duration, Time};
use tracing::{Level, debug, enabled};

use super::Engine;
use crate::driver::NodeView;

/// Who wants to see the links sets this target to DEBUG.
const LINKS_TARGET: &str = "mobcast::links";
/// Between two looks at the links: what the core forgets with a link is known from the last one.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

impl Engine {
    /// Where a broadcast and the links stand.
    pub(super) fn view(&mut self, broadcast: BroadcastId) -> NodeView {
        self.look_at_links();
        let traffic = self.node.broadcast_state(broadcast).map(|state| state.traffic()).unwrap_or_default();
        let cluster = self.node.assignment().map(|assignment| assignment.cluster);
        let root_cluster = self.node.root_cluster_name(broadcast);
        NodeView { traffic, cluster, root_cluster, wire: self.ledger.wire(cluster), links: self.ledger.summaries() }
    }

    /// Notes how the links stand, before some of them change.
    pub(super) fn look_at_links(&mut self) {
        self.ledger.look(&self.node.link_views());
    }

    /// When the links are to be looked at, while a broadcast runs.
    pub(super) fn look_due(&self) -> Option<Time> {
        (!self.transfers.is_empty()).then_some(self.look_at)
    }

    /// Looks at the links when that is due, and writes a line about each if anybody wants to see it.
    pub(super) fn watch_links(&mut self, now: Time) {
        if self.look_due().is_none_or(|at| at > now) {
            return;
        }
        self.look_at = now + LOOK_INTERVAL;
        self.look_at_links();
        if enabled!(target: LINKS_TARGET, Level::DEBUG) {
            self.write_lines();
        }
    }

    fn write_lines(&mut self) {
        for (link, summary) in self.ledger.lately() {
            let queue = self.links.get(&link).map_or(0, |open| open.queue.waiting_bytes());
            let (bytes, view) = (summary.bytes, summary.view);
            debug!(
                target: LINKS_TARGET,
                peer = summary.peer.0,
                cluster = summary.cluster.0,
                bytes_in = bytes.payload_in,
                bytes_out = bytes.payload_out,
                wire_in = bytes.wire_in,
                wire_out = bytes.wire_out,
                window = view.window_bytes,
                in_flight = view.requested_bytes,
                requests = view.requests,
                rate_in = view.rate_in_bytes_per_s,
                rtt_us = view.rtt_min.map(|rtt| rtt.0 / 1_000),
                queue = view.waiting_bytes + queue,
                "link"
            );
        }
    }
}
