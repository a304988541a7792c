//! Reports on their way up the control tree: a node's own and those of the nodes below it, several to a frame.
//!
//! Left to others: what is reported, and what the coordinator makes of it.

use super::{Node, Pending};
use crate::content::manifest::SignatureDomain;
use crate::group::report::{NodeResult, Report, SignedReport};
use crate::io::Signer;
use crate::limits::PASSED_ON_BYTES_MAX;
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
/// While so much is under way over the link up, further ones wait.
const REPORTS_UNDER_WAY_BYTES_MAX: usize = PASSED_ON_BYTES_MAX / 2;

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
        self.membership.reports.push_back((report, bytes));
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

    /// Sends what there is room for on the way up. The rest follows when that is through.
    pub(super) fn flush_reports(&mut self) {
        self.membership.reports_at = None;
        let Some(link) = self.upward_link() else { return };
        self.membership.reports_flushed = Some(self.now);
        while self.under_way(link) < REPORTS_UNDER_WAY_BYTES_MAX
            && let Some((reports, bytes)) = self.next_reports()
        {
            self.pass_on(link, Frame::Reports { reports }, bytes);
        }
    }

    /// As many of those that wait as a frame takes, and their bytes.
    fn next_reports(&mut self) -> Option<(Vec<SignedReport>, usize)> {
        let (mut reports, mut bytes) = (Vec::new(), 0);
        while let Some(&(_, next)) = self.membership.reports.front()
            // One alone fits: it came in a frame, or is this node's own.
            && (bytes == 0 || (reports.len() < REPORTS_PER_FRAME && bytes + next <= REPORTS_BYTES_MAX))
        {
            reports.extend(self.membership.reports.pop_front().map(|(report, _)| report));
            bytes += next;
        }
        self.membership.reports_bytes -= bytes;
        (!reports.is_empty()).then_some((reports, bytes))
    }
}

// ---- Those of others ----

impl Node {
    /// Reports of nodes further down.
    pub(super) fn reports_from(&mut self, link: LinkId, mut reports: Vec<SignedReport>) {
        let own = reports.iter().position(|report| Some(report.from) == self.id());
        if let Some(own) = own.filter(|_| !self.is_coordinating()) {
            let own = reports.remove(own);
            reports.retain(|report| report.from != own.from);
            return self.verify_own_report(link, own, reports);
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

    /// Whether a report in this node's name is its own. The others that came with it wait for that.
    fn verify_own_report(&mut self, link: LinkId, own: SignedReport, others: Vec<SignedReport>) {
        let SignedReport { from, report, signature } = own;
        let key = Some(self.config.key);
        let check = self.check(SignatureDomain::Report, key, || SignedReport::body(from, &report), signature);
        self.have_verified(Pending::VerifyOwnReport { link, others }, check.into_iter().collect());
    }

    pub(super) fn own_report_verified(&mut self, link: LinkId, others: Vec<SignedReport>, valid: bool) {
        if valid {
            self.leave_circle(link);
        } else {
            self.reports_from(link, others);
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
    use crate::group::assignment::Credential;
    use crate::group::assignment::tests::assignment;
    use crate::io::Output;
    use crate::limits::FRAME_BYTES_MAX;
    use crate::node::testing::{joiner, linked, outputs, to_verify};
    use crate::time::Time;
    use crate::units::{BroadcastId, GroupId, NodeId, PieceIndex, PublicKey};

    /// Member 9 without links, and its parent.
    fn member() -> (Node, NodeId) {
        let mut node = joiner();
        let (group, key) = (GroupId([7; 16]), PublicKey([8; 32]));
        let credential = Credential { group, node: NodeId(9), key, expires_unix_s: u64::MAX };
        node.membership.set_identity(credential, Signature::default());
        node.apply_assignment(assignment());
        let parent = node.membership.parent().expect("has its place");
        (node, parent)
    }

    /// Of somebody below it; each run takes two bytes.
    fn receipt(runs: u32) -> SignedReport {
        let pieces = (0..runs).map(|i| Run { first: PieceIndex(2 * i), count: 1 }).collect();
        let report = Report::Receipt { broadcast: BroadcastId::default(), pieces };
        SignedReport { from: NodeId(20), report, signature: Signature::default() }
    }

    /// Bytes of each frame with reports that the node sends, and its last ping.
    fn sent(node: &mut Node) -> (Vec<usize>, Option<u64>) {
        let (mut reports, mut ping) = (Vec::new(), None);
        for output in outputs(node) {
            match output {
                Output::Send { frame: frame @ Frame::Reports { .. }, .. } => reports.push(frame.encode().len()),
                Output::Send { frame: Frame::Ping { token }, .. } => ping = Some(token),
                _ => {}
            }
        }
        (reports, ping)
    }

    #[test]
    fn a_large_report_behind_a_small_one_gets_a_frame_of_its_own() {
        let (mut node, parent) = member();
        linked(&mut node, parent);
        node.membership.reports.clear();
        outputs(&mut node);
        // Both have come, and the large one nearly fills a frame.
        [1_000, 34_000].into_iter().for_each(|runs| node.pass_up(receipt(runs)));
        node.flush_reports();
        let (sent, _) = sent(&mut node);
        assert!(matches!(sent[..], [small, large] if small < 3_000 && large > 68_000), "{sent:?}");
    }

    #[test]
    fn no_more_of_what_has_waited_for_a_way_up_is_sent_at_once_than_the_link_takes() {
        let (mut node, parent) = member();
        let report = receipt(10_000);
        let all = (2 << 20) / report.encoded_len();
        (0..all).for_each(|_| node.pass_up(report.clone()));
        let link = linked(&mut node, parent);
        let (mut reports, mut ping) = sent(&mut node);
        let mut arrived = reports.len();
        for millisecond in 1.. {
            let bytes: usize = reports.iter().sum();
            assert!(bytes <= REPORTS_UNDER_WAY_BYTES_MAX + FRAME_BYTES_MAX, "{bytes} bytes at once");
            let now = Time::ZERO + Duration::from_millis(millisecond);
            node.handle_timeout(now);
            assert_eq!(sent(&mut node), (vec![], None), "the parent has not answered");
            let Some(token) = ping else { break };
            node.handle_frame(now, link, Frame::Pong { token });
            (reports, ping) = sent(&mut node);
            arrived += reports.len();
        }
        assert_eq!(arrived, all, "each fills a frame");
    }

    #[test]
    fn a_forged_report_in_a_nodes_own_name_does_not_take_it_from_its_parent() {
        let (mut node, parent) = member();
        let link = linked(&mut node, NodeId(3));
        let own = SignedReport { from: NodeId(9), ..receipt(1) };
        let reports = vec![receipt(2), own.clone(), receipt(3), own];
        for valid in [false, true] {
            outputs(&mut node);
            node.membership.reports.clear();
            node.handle_frame(Time::ZERO, link, Frame::Reports { reports: reports.clone() });
            let token = to_verify(&outputs(&mut node)).expect("it is checked whether it is its own");
            node.handle_verified(Time::ZERO, token, valid);
            assert_eq!(to_verify(&outputs(&mut node)), None, "one is enough");
            let expected = if valid { (Some(parent), 0) } else { (None, 2) };
            assert_eq!((node.membership.refused_parent, node.membership.reports.len()), expected);
        }
    }
}
