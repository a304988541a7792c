//! Reports on their way up the control tree: a node's own and those of the nodes below it, several to a frame.
//!
//! Left to others: what is reported, and what the coordinator makes of it.

use super::{Node, Pending};
use crate::content::manifest::SignatureDomain;
use crate::group::report::{NodeResult, Report, SignedReport};
use crate::io::Signer;
use crate::time::Duration;
use crate::units::{LinkId, Signature};
use crate::wire::frame::{Frame, REPORTS_BYTES_MAX, REPORTS_PER_FRAME};

/// Reports travel up the control tree together with others of the same few milliseconds.
const REPORT_INTERVAL: Duration = Duration::from_millis(2);
/// What a leaf of the tree says about an object that came in one frame waits so long: others are still waiting for the object.
const WHOLE_REPORT_HOLD: Duration = Duration::from_millis(1);
/// Reports of others that a node holds while it has no way up: what their results and receipts take in a group of some
/// ten thousand nodes.
pub(super) const REPORTS_HELD_BYTES_MAX: usize = 4 << 20;

// ---- Upwards ----

impl Node {
    /// Says something to the coordinator.
    pub(super) fn report(&mut self, report: Report) {
        let Some(node) = self.id() else { return };
        if self.coordinator.is_some() {
            return self.handle_report(node, report);
        }
        if self.regency.is_some() {
            return self.hold_report(node, report);
        }
        let signed = self.to_be_signed(Signer::Node, SignatureDomain::Report, || SignedReport::body(node, &report));
        self.have_signed(Pending::SignReport(report), signed);
    }

    pub(super) fn report_signed(&mut self, report: Report, signature: Signature) {
        if let Some(from) = self.id() {
            self.pass_up(SignedReport { from, report, signature });
        }
    }

    pub(super) fn pass_up(&mut self, report: SignedReport) {
        let bytes = report.encoded_len();
        // Never at once, even when it is due: what else the node says at this moment goes along in the same frame.
        let due = self.membership.reports_flushed.map_or(self.now, |at| at + REPORT_INTERVAL);
        let due = due.max(self.now + self.report_hold(&report.report));
        self.membership.reports_bytes += bytes;
        self.membership.reports.push((report, bytes));
        self.membership.reports_at = Some(self.membership.reports_at.map_or(due, |at| at.min(due)));
    }

    /// How long a report waits. At a leaf of the tree those about an object in one frame do until others have the object too; from
    /// further up they would come no sooner, where they wait for others.
    fn report_hold(&self, report: &Report) -> Duration {
        let id = match report {
            Report::Receipt { broadcast, .. } | Report::Result(NodeResult { broadcast, .. }) => broadcast,
            _ => return Duration::ZERO,
        };
        let is_whole = self.broadcasts.get(id).is_some_and(|broadcast| broadcast.whole.is_some());
        if is_whole && self.membership.children.is_empty() { WHOLE_REPORT_HOLD } else { Duration::ZERO }
    }

    pub(super) fn flush_reports(&mut self) {
        self.membership.reports_at = None;
        let Some(link) = self.upward_link() else { return };
        self.membership.reports_flushed = Some(self.now);
        self.membership.reports_bytes = 0;
        let (mut reports, mut bytes) = (Vec::new(), 0);
        for (report, report_bytes) in std::mem::take(&mut self.membership.reports) {
            // One alone fits: it came in a frame, or is this node's own.
            if reports.len() == REPORTS_PER_FRAME || (bytes > 0 && bytes + report_bytes > REPORTS_BYTES_MAX) {
                self.send(link, Frame::Reports { reports: std::mem::take(&mut reports) });
                bytes = 0;
            }
            bytes += report_bytes;
            reports.push(report);
        }
        if !reports.is_empty() {
            self.send(link, Frame::Reports { reports });
        }
    }
}

// ---- Those of others ----

impl Node {
    /// Reports of nodes further down.
    pub(super) fn reports_from(&mut self, link: LinkId, reports: Vec<SignedReport>) {
        if reports.iter().any(|report| Some(report.from) == self.id()) && !self.is_coordinating() {
            return self.leave_circle(link);
        }
        self.keep_child(link);
        for report in reports {
            let child = report.introduces() && self.member_at(link) == Some(report.from);
            if child && self.membership.children.insert(report.from) {
                self.greet_with_succession(link);
                self.greet_child(link);
            }
            if !child && report.introduces() && self.is_coordinating() && !self.is_child_of_coordinator(report.from) {
                // It has taken its place.
                self.membership.children.remove(&report.from);
            }
            if self.is_coordinating() {
                self.verify_report(link, report);
            } else if self.membership.reports_bytes < REPORTS_HELD_BYTES_MAX {
                self.await_release(&report.report);
                self.pass_up(report);
            }
        }
    }

    /// Whoever reports over this node hangs below it, also if it was let go because it seemed to be above as well ([`Node::leave_circle`]):
    /// it does not know of that, and says who it is no second time. (To the coordinator anybody reports who has lost its parent.)
    fn keep_child(&mut self, link: LinkId) {
        let below = !self.is_coordinating() && self.upward_link() != Some(link);
        if let Some(node) = self.member_at(link).filter(|_| below)
            && self.membership.let_go.remove(&node)
            && self.membership.children.insert(node)
        {
            self.greet_child(link);
        }
    }

    /// A report of this node has come back to it: whoever is above it hangs below it too. It turns to the coordinator.
    fn leave_circle(&mut self, link: LinkId) {
        if let Some(child) = self.member_at(link)
            && self.membership.children.remove(&child)
        {
            self.membership.let_go.insert(child);
        }
        self.refuse_parent();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::have::Run;
    use crate::group::assignment::tests::assignment;
    use crate::io::{Output, PeerIdentity};
    use crate::node::testing::joiner;
    use crate::time::Time;
    use crate::units::{BroadcastId, ClusterId, NodeId, PieceIndex};
    use crate::wire::frame::Hello;

    #[test]
    fn a_large_report_behind_a_small_one_gets_a_frame_of_its_own() {
        let mut node = joiner();
        node.apply_assignment(assignment());
        let (parent, cluster) = (node.membership.parent().expect("has its place"), ClusterId(1));
        let hello = Hello { node: parent, cluster, ..node.hello(0) };
        node.accept_link(Time::ZERO, PeerIdentity::Member { node: parent, cluster }, &hello);
        node.membership.reports.clear();
        while node.poll_output().is_some() {}
        let receipt = |runs: u32| SignedReport {
            from: NodeId(9),
            report: Report::Receipt {
                broadcast: BroadcastId::default(),
                pieces: (0..runs).map(|i| Run { first: PieceIndex(2 * i), count: 1 }).collect(),
            },
            signature: Signature::default(),
        };
        // Both have come, and the large one nearly fills a frame.
        [1_000, 34_000].into_iter().for_each(|runs| node.pass_up(receipt(runs)));
        node.flush_reports();
        let mut sent = Vec::new();
        while let Some(output) = node.poll_output() {
            if let Output::Send { frame: frame @ Frame::Reports { .. }, .. } = output {
                sent.push(frame.encode().len());
            }
        }
        assert!(matches!(sent[..], [small, large] if small < 3_000 && large > 68_000), "{sent:?}");
    }
}
