//! Reports on their way up the control tree: a node's own and those of the nodes below it, several to a frame.
//!
//! Left to others: what is reported, and what the coordinator makes of it.

use super::{Node, Pending};
use crate::content::manifest::SignatureDomain;
use crate::group::report::{NodeResult, Report, SignedReport};
use crate::io::Signer;
use crate::time::Duration;
use crate::units::Signature;
use crate::wire::frame::{Frame, REPORTS_BYTES_MAX, REPORTS_PER_FRAME};

/// Reports travel up the control tree together with others of the same few milliseconds.
const REPORT_INTERVAL: Duration = Duration::from_millis(2);
/// What a leaf of the tree says about an object that came in one frame waits so long: others are still waiting for the object.
const WHOLE_REPORT_HOLD: Duration = Duration::from_millis(1);

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
