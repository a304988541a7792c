//! How the coordinator's role passes on (design: vocabulary, group). A coordinator entrusts its successors with the
//! authority's key. When it is gone, the lowest living successor says so, signed by the authority; down the control
//! tree everyone learns of it, and says what it is and has (`Standing`, receipts, results). From that the new
//! coordinator rebuilds the group. Pieces flow meanwhile as before.

use std::collections::{BTreeMap, BTreeSet};

use crate::content::manifest::{SignatureDomain, signed_message};
use crate::group::assignment::PeerAddress;
use crate::group::coordinator::Coordinator;
use crate::group::report::{Report, SignedReport};
use crate::group::succession::{Secret, Standing, Succession};
use crate::io::{Check, CloseReason, Event, Output, Signer};
use crate::limits::{LINKS_MAX, NODES_MAX, SILENCE_MAX};
use crate::time::{Duration, Time};
use crate::units::{BroadcastId, LinkId, NodeId, Signature};
use crate::wire::frame::Frame;

use super::founder::FOUNDER;
use super::reports::REPORTS_HELD_BYTES_MAX;
use super::{Node, Pending};

/// The first successor leaves a coordinator that is out of reach this long to come back: two attempts over a
/// continent. The second one leaves it as long again to the first.
const TAKEOVER_PAUSE: Duration = Duration::from_secs(2);
/// A new coordinator listens at least this long for members, even if all those whom it expects have come: one may have
/// joined just before.
const REGENCY_MIN: Duration = Duration::from_secs(1);
/// And at most this long for those who do not come: until then they have noticed that the old one is gone.
const REGENCY_MAX: Duration = SILENCE_MAX;

/// The second successor has taken over by then, also if the first one has died silently just before it would have: that takes a
/// silence to be noticed and two pauses, and not all notice the end of the coordinator at once.
const SUCCESSION_PATIENCE: Duration = SILENCE_MAX.times(2);
const _: () = assert!(SILENCE_MAX.0 + 3 * TAKEOVER_PAUSE.0 < SUCCESSION_PATIENCE.0);

/// A successor that has taken over and learns who is there.
pub(super) struct Regency {
    since: Time,
    expected: BTreeSet<NodeId>,
    standings: BTreeMap<NodeId, Standing>,
    /// Reports that are dealt with once the group is rebuilt.
    held: Vec<(NodeId, Report)>,
    held_bytes: usize,
}

// ---- The coordinator, before ----

impl Node {
    /// Entrusts the successors with the authority's key, and with whom to expect.
    pub(super) fn entrust_successors(&mut self) {
        let Some(coordinator) = &self.coordinator else { return };
        let (successors, mut children) = (coordinator.successors(), coordinator.children());
        // Where nobody else has room it may have more than a frame names.
        children.truncate(LINKS_MAX);
        for node in successors {
            let Some(link) = self.link_to(node).filter(|_| self.membership.children.contains(&node)) else { continue };
            if self.coordination.entrusted.get(&node) != Some(&children) {
                self.coordination.entrusted.insert(node, children.clone());
                self.outputs.push_back(Output::Entrust { link, children: children.clone() });
            }
        }
    }
}

// ---- A successor ----

impl Node {
    /// Whether this node is coordinator, or about to be.
    pub(super) fn is_coordinating(&self) -> bool {
        self.coordinator.is_some() || self.regency.is_some()
    }

    /// Whether this node has taken over and learns who is there: what it hears of results it deals with when it knows.
    pub fn is_taking_over(&self) -> bool {
        self.regency.is_some()
    }

    /// The coordinator hands over what a successor needs.
    pub(super) fn entrusted(&mut self, link: LinkId, authority: Secret, children: Vec<NodeId>) {
        let from = self.member_at(link);
        if from.is_some_and(|node| self.membership.is_deposed(node)) {
            // It has not heard of its successor.
            return self.greet_with_succession(link);
        }
        if from != Some(self.membership.coordinator_node()) {
            let reason = CloseReason::Violation("hands over the authority's key without being coordinator".into());
            return self.drop_peer(link, reason);
        }
        self.membership.entrusted = Some(children);
        self.outputs.push_back(Output::Keep { authority });
    }

    /// Successors that may still take over, in their order.
    fn successors(&self) -> Vec<PeerAddress> {
        let Some(assignment) = self.assignment() else { return Vec::new() };
        let living = |peer: &&PeerAddress| !self.membership.is_deposed(peer.node);
        assignment.successors.iter().filter(living).cloned().collect()
    }

    /// Looks for a successor, while the coordinator is out of reach.
    pub(super) fn dial_successors(&mut self) {
        for PeerAddress { node, addresses, cluster, .. } in self.successors() {
            if self.id() != Some(node) && !self.has_link_to(node) && !self.banned.contains(&node) {
                self.dial_member(node, addresses, Some(cluster));
            }
        }
    }

    /// When this node, as a successor, takes over from a coordinator that is out of reach since `since`.
    pub(super) fn takeover_due(&self, since: Time) -> Option<Time> {
        let rank = self.successors().iter().position(|peer| Some(peer.node) == self.id())?;
        self.membership.entrusted.is_some().then(|| since + TAKEOVER_PAUSE.times(1 + rank as u64))
    }

    /// Whether nobody coordinates, and nobody is about to: the coordinator has been out of reach for long, and no successor is in
    /// sight. One that is, be it this node, may still be waiting for an earlier one that has died silently; not for ever, because it
    /// may see a coordinator that this node does not see.
    pub fn coordinator_lost(&self) -> bool {
        let Some(since) = self.membership.unreachable_since.filter(|_| !self.is_coordinating()) else { return false };
        let heir = |peer: &PeerAddress| match self.id() == Some(peer.node) {
            true => self.membership.entrusted.is_some(),
            false => self.link_to(peer.node).is_some(),
        };
        let patience = if self.successors().iter().any(heir) { SUCCESSION_PATIENCE } else { SILENCE_MAX };
        self.now.since(since) >= patience
    }

    /// Takes over, unless the coordinator or an earlier successor is there.
    pub(super) fn take_over(&mut self) {
        let earlier = self.successors().into_iter().take_while(|peer| Some(peer.node) != self.id());
        let earlier: Vec<NodeId> = earlier.map(|peer| peer.node).collect();
        if self.is_coordinating() || self.upward_link().is_some() {
            return;
        }
        if earlier.into_iter().any(|node| self.link_to(node).is_some()) {
            self.membership.takeover_at = Some(self.now + TAKEOVER_PAUSE);
            return;
        }
        self.claim(self.membership.term().saturating_add(1));
    }

    /// Has it signed that this node is coordinator in a term.
    pub(super) fn claim(&mut self, term: u32) {
        let (Some(node), Some(assignment)) = (self.id(), self.assignment()) else { return };
        let (cluster, rank) = (assignment.cluster, assignment.rank);
        let coordinator = PeerAddress { node, cluster, rank, addresses: self.config.addresses.clone() };
        let succession = Succession { term, coordinator };
        let message = signed_message(SignatureDomain::Succession, self.config.group, &succession.to_bytes());
        let token = self.ask(Pending::SignSuccession(succession));
        self.outputs.push_back(Output::Sign { token, signer: Signer::Authority, message });
    }

    pub(super) fn succession_signed(&mut self, succession: Succession, signature: Signature) {
        if self.is_founder() {
            return self.claimed_back(succession, signature);
        }
        if !succession.prevails_over(&self.membership.current()) || self.upward_link().is_some() {
            return;
        }
        let expected = self.membership.entrusted.iter().flatten().chain(&self.membership.children).copied();
        let expected = expected.filter(|&node| node != succession.coordinator.node).collect();
        self.regency =
            Some(Regency { since: self.now, expected, standings: BTreeMap::new(), held: Vec::new(), held_bytes: 0 });
        let frame = Frame::Succession { succession: succession.clone(), signature };
        // Each of them may take over where this node cannot be seen.
        self.successors().into_iter().for_each(|peer| self.membership.note_rival(peer));
        self.membership.acknowledge(succession, signature);
        self.member_links().into_iter().for_each(|link| self.send(link, frame.clone()));
        if let Some(standing) = self.standing() {
            self.standing_verified(standing);
        }
        self.repeat_reports();
        self.seek_later(Duration::ZERO);
        let node = self.membership.coordinator_node();
        self.event(Event::CoordinatorChanged { node, own: true });
    }

    /// Tells a node of the coordinator, if it may not have heard of it.
    pub(super) fn greet_with_succession(&mut self, link: LinkId) {
        if let Some((succession, signature)) = self.membership.succession() {
            self.send(link, Frame::Succession { succession, signature });
        }
    }
}

// ---- Everyone else ----

impl Node {
    pub(super) fn verify_succession(&mut self, link: LinkId, succession: Succession, signature: Signature) {
        let current = self.membership.current();
        if !succession.prevails_over(&current) {
            self.note_what_peer_follows(link, succession == current);
            if current.prevails_over(&succession) {
                // Who slept through another one's term has claimed it again: it has to know, and claim the next one.
                self.greet_with_succession(link);
            }
            if !self.is_rival(&succession) {
                return;
            }
        }
        let message = signed_message(SignatureDomain::Succession, self.config.group, &succession.to_bytes());
        let token = self.ask(Pending::VerifySuccession { succession, signature, link });
        self.outputs.push_back(Output::Verify { token, checks: vec![Check { key: None, message, signature }] });
    }

    pub(super) fn succession_verified(
        &mut self,
        link: LinkId,
        succession: Succession,
        signature: Signature,
        valid: bool,
    ) {
        if !valid {
            return self.drop_peer(link, CloseReason::Violation("forged a succession".into()));
        }
        if !succession.prevails_over(&self.membership.current()) {
            return self.overtaken(link, succession);
        }
        if self.is_founder() {
            // Until it shows itself: it may have gone on with the other one.
            self.member_at(link).into_iter().for_each(|node| self.child_gone(node));
            self.look_for(succession.coordinator);
            return self.claim(succession.term.saturating_add(1));
        }
        if self.assignment().is_none() {
            if self.membership.join_link == Some(link) {
                // What it is about to be given is of this term.
                self.membership.acknowledge(succession, signature);
            }
            return;
        }
        // Whose way up is intact hears of it from above, if it is true: one that lost sight of the coordinator may be
        // the only one.
        let intact = self.upward_link().is_some_and(|up| up != link);
        if intact {
            self.answer_claim(link, &succession);
            self.membership.remember_claim(succession, signature);
            // A child that says so follows another one than this node does.
            self.member_at(link).into_iter().for_each(|node| self.child_gone(node));
        } else {
            self.follow(succession, signature, Some(link));
        }
    }

    /// A member without a way up follows a successor of whom it has heard.
    pub(super) fn follow_claim(&mut self) {
        if let Some((succession, signature)) = self.membership.take_claim() {
            self.follow(succession, signature, None);
        }
    }

    fn follow(&mut self, succession: Succession, signature: Signature, from: Option<LinkId>) {
        if !succession.prevails_over(&self.membership.current()) {
            return;
        }
        if self.is_coordinating() {
            self.coordinator = None;
            self.regency = None;
            self.coordination = std::mem::take(&mut self.coordination).restarted(self.now);
        }
        let frame = Frame::Succession { succession: succession.clone(), signature };
        let PeerAddress { node, addresses, cluster, .. } = succession.coordinator.clone();
        let news = self.membership.coordinator_node() != node;
        self.membership.acknowledge(succession, signature);
        // What was said of its broadcasts while it was not there holds no more.
        self.root_is_back(node);
        // A parent that says so has a way up again.
        if from.is_some_and(|link| self.member_at(link) == self.membership.refused_parent) {
            self.membership.refused_parent = None;
        }
        let mut told = self.child_links();
        told.extend(self.who_claimed(&self.membership.current()));
        told.retain(|&link| Some(link) != from);
        told.into_iter().for_each(|link| self.send(link, frame.clone()));
        if news {
            self.event(Event::CoordinatorChanged { node, own: false });
        }
        if let Some(founder) = self.link_to(FOUNDER) {
            self.tell_founder(founder);
        }
        if self.upward_link().is_some() {
            self.report_ready();
            self.flush_reports();
        } else if !self.has_link_to(node) {
            self.dial_member(node, addresses, Some(cluster));
        }
    }

    /// Says down the tree, once, that this node has no way up.
    pub(super) fn tell_adrift(&mut self) {
        if !std::mem::replace(&mut self.membership.adrift, true) {
            self.child_links().into_iter().for_each(|link| self.send(link, Frame::Adrift));
        }
    }

    /// The node above has lost its way up, which may be its own fault: this one looks for the coordinator itself, and tells it of the
    /// successor that it has heard of.
    pub(super) fn parent_adrift(&mut self, link: LinkId) {
        if self.upward_link() == Some(link) {
            self.refuse_parent();
            self.greet_with_succession(link);
        }
    }

    /// All that a new coordinator must know of this node.
    pub(super) fn standing(&self) -> Option<Standing> {
        let (credential, credential_signature) = self.membership.credential()?;
        let (assignment, assignment_signature) = self.membership.signed_assignment()?;
        Some(Standing {
            credential,
            credential_signature,
            name: self.config.name.clone(),
            addresses: self.config.addresses.clone(),
            assignment,
            assignment_signature,
            children: self.membership.children.iter().copied().take(LINKS_MAX).collect(),
            banned: self.banned.iter().copied().take(LINKS_MAX).collect(),
            over: self.finished.latest_first().collect(),
        })
    }
}

// ---- A new coordinator ----

impl Node {
    /// What has to be checked before a standing is believed; none if it contradicts itself.
    pub(super) fn standing_checks(&self, from: NodeId, standing: &Standing) -> Option<Vec<Check>> {
        let Standing { credential, assignment, .. } = standing;
        let group = self.config.group;
        if (credential.node, assignment.node, credential.group) != (from, from, group) {
            return None;
        }
        let check = |domain, body: Vec<u8>, signature| Check {
            key: None,
            message: signed_message(domain, group, &body),
            signature,
        };
        Some(vec![
            check(SignatureDomain::Credential, credential.to_bytes(), standing.credential_signature),
            check(SignatureDomain::Assignment, assignment.to_bytes(), standing.assignment_signature),
        ])
    }

    /// A member has shown itself to this new coordinator.
    pub(super) fn standing_verified(&mut self, standing: Standing) {
        let node = standing.credential.node;
        self.miss_children(&standing);
        if let Some(coordinator) = &mut self.coordinator {
            let epoch = if standing.assignment.term == self.membership.term() { standing.assignment.epoch } else { 0 };
            if coordinator.adopt(self.now, &standing) {
                self.await_proof(&standing);
                self.note_place(&standing);
                self.root_is_back(node);
                self.tell_of_member(node, "was a member already");
                self.drain_coordinator();
                self.old_place_found(node);
            } else {
                // What it said of these may be lost with a way that it had.
                standing.banned.iter().for_each(|&banned| coordinator.handle_accused(node, banned));
                self.member_ready(node, epoch);
                self.note_place(&standing);
                self.way_renewed(node);
            }
            self.note_over(&standing).into_iter().for_each(|id| self.release_if_over(id));
        } else if let Some(regency) = self.regency.as_mut().filter(|regency| regency.standings.len() < NODES_MAX) {
            regency.expected.extend(&standing.children);
            regency.standings.insert(node, standing);
        }
    }

    /// A member that has been out of sight may have lost children meanwhile, and what it said of that may be lost as well.
    fn miss_children(&mut self, standing: &Standing) {
        let Some(coordinator) = &self.coordinator else { return };
        let absent = |child: &NodeId| !standing.children.contains(child) && !self.coordination.is_on_its_way(*child);
        let missing: Vec<NodeId> =
            coordinator.children_of(standing.credential.node).into_iter().filter(absent).collect();
        for child in missing {
            self.coordination.missing.entry(child).or_insert(self.now);
        }
    }

    /// A member's report, verified, while the group is being rebuilt.
    pub(super) fn hold_report(&mut self, from: NodeId, report: Report) {
        let Some(regency) = &mut self.regency else { return };
        match report {
            Report::Standing(standing) => self.standing_verified(*standing),
            Report::Lost { node } => {
                regency.expected.remove(&node);
                // Whoever lives, and has only lost this parent, shows itself again.
                let parent = regency.standings.get(&node).and_then(|s| s.assignment.parent.as_ref()).map(|p| p.node);
                if parent == Some(from) || parent.is_some_and(|parent| self.membership.is_deposed(parent)) {
                    regency.standings.remove(&node);
                }
            }
            Report::Ready { .. } | Report::Assigned { .. } | Report::Unreachable { .. } => {}
            report if regency.held_bytes < REPORTS_HELD_BYTES_MAX => {
                regency.held_bytes += SignedReport::body(from, &report).len();
                regency.held.push((from, report));
            }
            _ => {}
        }
    }

    /// The key of a member that has shown itself during the regency.
    pub(super) fn key_in_regency(&self, node: NodeId) -> Option<crate::units::PublicKey> {
        Some(self.regency.as_ref()?.standings.get(&node)?.credential.key)
    }

    /// Ends the regency when all have come that can be expected.
    pub(super) fn look_after_regency(&mut self) {
        let Some(regency) = &self.regency else { return };
        let waited = self.now.since(regency.since);
        let all = regency
            .expected
            .iter()
            .all(|node| regency.standings.contains_key(node) || self.membership.is_deposed(*node));
        if waited < REGENCY_MIN || (!all && waited < REGENCY_MAX) {
            return;
        }
        // What others say of this node is not asked.
        let (Some(standing), Some(mut regency)) = (self.standing(), self.regency.take()) else { return };
        let own = standing.credential.node;
        regency.standings.insert(own, standing);
        let seed = self.random.next_u64();
        let coordinator =
            Coordinator::restore(own, self.membership.term(), &regency.standings, self.config.registry, seed);
        self.coordinator = Some(coordinator);
        self.coordination = std::mem::take(&mut self.coordination).restarted(self.now);
        regency.standings.values().for_each(|standing| drop(self.note_over(standing)));
        for (&node, standing) in regency.standings.iter().filter(|&(&node, _)| node != own) {
            self.await_proof(standing);
            self.tell_of_member(node, "was a member already");
            if let Some(parent) = &standing.assignment.parent {
                let replaced = self.membership.is_deposed(parent.node);
                self.coordination.parents.insert(node, if replaced { own } else { parent.node });
            }
        }
        self.drain_coordinator();
        for (from, report) in regency.held {
            // Whoever was lost meanwhile holds nothing any more.
            if self.coordinator.as_ref().is_some_and(|coordinator| coordinator.member(from).is_some()) {
                self.handle_report(from, report);
            }
        }
        let ids: Vec<_> = self.broadcasts.keys().collect();
        ids.into_iter().for_each(|id| self.release_if_over(id));
        self.seek_later(Duration::ZERO);
    }

    /// A member that has done with broadcasts will not report its results again. Returns those of them that are not over here.
    fn note_over(&mut self, standing: &Standing) -> Vec<BroadcastId> {
        let open: Vec<_> = standing.over.iter().copied().filter(|id| self.broadcasts.contains_key(id)).collect();
        open.iter().for_each(|&id| self.coordination.note_over(id, standing.credential.node));
        open
    }
}

impl SignedReport {
    /// Whether it introduces its node.
    pub(super) fn introduces(&self) -> bool {
        matches!(self.report, Report::Ready { .. } | Report::Standing(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::have::Run;
    use crate::group::assignment::tests::assignment;
    use crate::node::founder::tests::{claim, follower, standing};
    use crate::node::testing::{announcement, descriptor, founder, linked, outputs, to_verify};
    use crate::units::PieceIndex;

    const WORD: Signature = Signature([0; 64]);
    const ID: BroadcastId = BroadcastId { root: NodeId(2), sequence: 0 };

    /// Node 3, which has taken over and knows of a broadcast of node 2's.
    fn regent() -> Node {
        let mut node = follower();
        let root = linked(&mut node, ID.root);
        let announcement = Box::new(announcement(&node, ID.root, descriptor("mob", 64)));
        outputs(&mut node);
        node.handle_frame(Time::ZERO, root, Frame::Announce { broadcast: ID, announcement });
        let token = to_verify(&outputs(&mut node)).expect("it is verified");
        node.handle_verified(Time::ZERO, token, true);
        node.succession_signed(claim(2, 3), WORD);
        assert!(node.is_taking_over());
        node
    }

    /// The regency is over.
    fn rebuilt(mut node: Node) -> Node {
        node.set_now(Time::ZERO + REGENCY_MAX);
        node.look_after_regency();
        assert!(!node.is_taking_over());
        node
    }

    #[test]
    fn what_one_has_said_that_was_lost_before_the_group_is_rebuilt_does_not_count() {
        let mut node = regent();
        for (own, parent) in [(4, 3), (5, 4), (6, 4)] {
            node.hold_report(NodeId(own), Report::Standing(Box::new(standing(own, parent))));
            let pieces = vec![Run { first: PieceIndex(0), count: 64 }];
            node.hold_report(NodeId(own), Report::Receipt { broadcast: ID, pieces });
        }
        node.hold_report(NodeId(4), Report::Lost { node: NodeId(5) });
        outputs(&mut node);
        let holders = outputs(&mut rebuilt(node)).into_iter().filter_map(|output| match output {
            Output::Event(Event::Progress { node, .. }) => Some(node),
            _ => None,
        });
        assert_eq!(holders.collect::<Vec<_>>(), [4, 6].map(NodeId));
    }

    #[test]
    fn a_successor_is_told_of_no_more_children_than_a_frame_names() {
        let mut node = founder();
        node.succession_signed(claim(2, 0), WORD);
        let dialable =
            |own| Standing { addresses: assignment().parent.expect("it has one").addresses, ..standing(own, 0) };
        (1..=100).for_each(|own| node.standing_verified(dialable(own)));
        node.membership.children.insert(NodeId(1));
        linked(&mut node, NodeId(1));
        outputs(&mut node);
        node.entrust_successors();
        let named = outputs(&mut node).into_iter().find_map(|output| match output {
            Output::Entrust { children, .. } => Some(children.len()),
            _ => None,
        });
        assert_eq!(named, Some(LINKS_MAX), "of a hundred");
    }
}
