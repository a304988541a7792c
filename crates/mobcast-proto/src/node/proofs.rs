//! What a node has signed and checked, and what it does with the answers. Where members trust each other their word is
//! enough for most of it: then the answer is at hand, and the driver is not asked.
//!
//! Left to others: keys, which the driver has, and what a signature or its lack means.

use super::{Node, Pending, Token};
use crate::content::manifest::{SignatureDomain, signed_message};
use crate::io::{Check, Output, Signer};
use crate::units::{PublicKey, Signature};

// ---- Questions ----

impl Node {
    pub(super) fn ask(&mut self, pending: Pending) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        self.pending.insert(token, Box::new(pending));
        token
    }

    /// Whether the word of a member is enough for this.
    pub(super) fn takes_word(&self, domain: SignatureDomain) -> bool {
        domain.is_waived_by_trust() && self.assignment().is_some_and(|assignment| assignment.trusts_members)
    }

    /// What has to be signed, and by whom; none where that is waived.
    pub(super) fn to_be_signed(
        &self,
        signer: Signer,
        domain: SignatureDomain,
        body: impl FnOnce() -> Vec<u8>,
    ) -> Option<(Signer, Vec<u8>)> {
        (!self.takes_word(domain)).then(|| (signer, signed_message(domain, self.config.group, &body())))
    }

    /// Has something signed, unless that is waived.
    pub(super) fn have_signed(&mut self, pending: Pending, to_be_signed: Option<(Signer, Vec<u8>)>) {
        let Some((signer, message)) = to_be_signed else { return self.signed(pending, Signature::WAIVED) };
        let token = self.ask(pending);
        self.outputs.push_back(Output::Sign { token, signer, message });
    }

    /// What has to be checked of something that may be waived; `key` is none for the authority's.
    pub(super) fn check(
        &self,
        domain: SignatureDomain,
        key: Option<PublicKey>,
        body: impl FnOnce() -> Vec<u8>,
        signature: Signature,
    ) -> Option<Check> {
        let message = || signed_message(domain, self.config.group, &body());
        (!self.takes_word(domain)).then(|| Check { key, message: message(), signature })
    }

    /// Has something verified, unless there is nothing to check.
    pub(super) fn have_verified(&mut self, pending: Pending, checks: Vec<Check>) {
        if checks.is_empty() {
            return self.verified(pending, true);
        }
        let token = self.ask(pending);
        self.outputs.push_back(Output::Verify { token, checks });
    }
}

// ---- Answers ----

impl Node {
    pub(super) fn signed(&mut self, pending: Pending, signature: Signature) {
        match pending {
            Pending::SignAssignment(assignment) => self.assignment_signed(assignment, signature),
            Pending::SignReport(report) => self.report_signed(report, signature),
            Pending::SignSuccession(succession) => self.succession_signed(succession, signature),
            Pending::SignRootLost { broadcast } => self.root_loss_signed(broadcast, signature),
            Pending::SignDescriptor { broadcast } => self.descriptor_signed(broadcast, signature),
            Pending::SignBatch { broadcast } => self.batch_signed(broadcast, signature),
            Pending::SignRelease { broadcast } => self.release_signed(broadcast, signature),
            Pending::SignAbort { broadcast, reason } => self.abort_signed(broadcast, reason, signature),
            _ => {}
        }
    }

    pub(super) fn verified(&mut self, pending: Pending, valid: bool) {
        match pending {
            Pending::VerifyAdmission { credential, signature, certificate, reason } => {
                self.admission_verified(valid, credential, signature, certificate, reason);
            }
            Pending::VerifyAssignment(assignment, signature) => {
                self.assignment_verified(*assignment, signature, valid);
            }
            Pending::VerifySuccession { succession, signature, link } => {
                self.succession_verified(link, succession, signature, valid);
            }
            Pending::VerifyRootLost { broadcast, frame, link } => {
                self.root_loss_verified(broadcast, frame, link, valid);
            }
            Pending::VerifyReport { report, link } => self.report_verified(link, report, valid),
            Pending::VerifyOwnReport { link, others } => self.own_report_verified(link, others, valid),
            Pending::VerifyAnnouncement { broadcast } => self.announcement_verified(broadcast, valid),
            Pending::VerifyBatch { link, batch, signature } => self.batch_verified(link, batch, signature, valid),
            Pending::VerifyAbort { broadcast, reason, frame, link } => {
                self.abort_verified(broadcast, reason, frame, link, valid);
            }
            Pending::VerifyRelease { broadcast, frame, link } => {
                self.release_verified(broadcast, frame, link, valid);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::group::report::{Report, SignedReport};
    use crate::io::Output;
    use crate::node::founder::tests::{claim, standing};
    use crate::node::testing::{founder, linked, outputs, to_verify};
    use crate::time::Time;
    use crate::units::{LinkId, NodeId, Signature};
    use crate::wire::frame::Frame;

    /// The links that a coordinator closes because member 1, or one below it, has reported with a wrong signature.
    fn closed_for(from: NodeId) -> (LinkId, Vec<LinkId>) {
        let mut node = founder();
        node.succession_signed(claim(2, 0), Signature([0; 64]));
        (1..=2).for_each(|own| node.standing_verified(standing(own, 0)));
        let link = linked(&mut node, NodeId(1));
        outputs(&mut node);
        let report = SignedReport { from, report: Report::Ready { epoch: 0 }, signature: Signature([9; 64]) };
        node.handle_frame(Time::ZERO, link, Frame::Reports { reports: vec![report] });
        let token = to_verify(&outputs(&mut node)).expect("the report");
        node.handle_verified(Time::ZERO, token, false);
        let closed = |output: Output| match output {
            Output::Close { link, .. } => Some(link),
            _ => None,
        };
        (link, outputs(&mut node).into_iter().filter_map(closed).collect())
    }

    #[test]
    fn who_signs_its_report_wrongly_is_dropped_and_who_passes_one_on_is_not() {
        let (link, closed) = closed_for(NodeId(1));
        assert_eq!(closed, [link]);
        let (_, closed) = closed_for(NodeId(2));
        assert_eq!(closed, []);
    }
}
