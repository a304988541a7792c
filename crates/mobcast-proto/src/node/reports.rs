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
            if reports.len() == REPORTS_PER_FRAME || bytes > REPORTS_BYTES_MAX {
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
