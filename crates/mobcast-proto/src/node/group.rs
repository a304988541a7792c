//! A node as a member of its group: joining, its assignment, the control tree, reports.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use crate::content::manifest::{Batch, SignatureDomain, signed_message};
use crate::group::assignment::{Assignment, Credential, PeerAddress};
use crate::group::report::Report;
use crate::io::{Check, CloseReason, Event, Output};
use crate::limits::{LATER_MAX, SILENCE_MAX};
use crate::time::{Duration, Time};
use crate::units::{ClusterId, LinkId, NodeId, Signature};
use crate::wire::frame::{Frame, Join, Leader};

use super::{Node, Pending};

/// First pause before another attempt to reach the coordinator; grows to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(100);
/// Longest pause between attempts.
const RETRY_MAX: Duration = Duration::from_secs(2);
/// Whoever takes longer than this from asking to be admitted to having its place tells who it is: well before a coordinator
/// gives up a node that does not take its place.
const INTRODUCTION_MAX: Duration = Duration(SILENCE_MAX.0 / 2);
/// Attempts to reach a peer before the coordinator is asked for another one.
const DIALS_MAX: u32 = 3;
// ---- Joining ----

impl Node {
    /// Connects to the coordinator: to be admitted, or (as a member) to be given another place in the tree.
    pub(super) fn dial_coordinator(&mut self) {
        let addresses = self.membership.coordinator.clone();
        self.membership.retry = None;
        if self.id().is_some() {
            let node = self.membership.coordinator_node();
            if !self.has_link_to(node) {
                self.dial_member(node, addresses, None);
            }
        } else {
            let NodeConfigView { name, cluster, addresses: own } = NodeConfigView::of(self);
            let join = Join { name, cluster, addresses: own, key: self.config.key };
            self.membership.asked_at = self.now;
            let link = self.dial_to_join(addresses, join);
            self.membership.join_link = Some(link);
        }
    }

    pub(super) fn join_link_down(&mut self) {
        self.membership.join_link = None;
        self.membership.probes.clear();
        if self.assignment().is_none() {
            // What was announced together with an admission that came to nothing may be over when the next one succeeds.
            self.unverified.retain(|_, entry| !entry.links.is_empty());
            // Admitted and cut off before the assignment: the coordinator gives up that identity by itself.
            self.membership.credential = None;
            self.coordinator_unreachable();
        }
    }

    /// Too many ask the coordinator to be admitted.
    fn come_again(&mut self, link: LinkId, after_ms: u32) {
        if self.membership.join_link != Some(link) || self.id().is_some() {
            return;
        }
        // The end of this link may come later than the next attempt, and must not be taken for that one's.
        self.membership.join_link = None;
        self.membership.probes.clear();
        let after = Duration::from_millis(u64::from(after_ms)).min(LATER_MAX);
        self.membership.retry = Some((self.now + after, RETRY_MIN));
        self.close(link, CloseReason::Unneeded);
    }

    /// The coordinator is out of reach, as far as this node can see.
    fn coordinator_missed(&mut self) -> Time {
        let since = *self.membership.unreachable_since.get_or_insert(self.now);
        if self.membership.takeover_at.is_none() && !self.is_coordinating() {
            self.membership.takeover_at = self.takeover_due(since).map(|at| at.max(self.now));
        }
        since
    }

    fn coordinator_unreachable(&mut self) {
        let since = self.coordinator_missed();
        // Another failure does not put off what is due already.
        if self.membership.retry.is_none_or(|(at, _)| at <= self.now) {
            let pause = self.membership.retry.map_or(RETRY_MIN, |(_, pause)| pause.times(2));
            let grown = Duration(pause.0.max(self.now.since(since).0 / 2).min(RETRY_MAX.0));
            let jitter = Duration(self.random.below(grown.0 as usize / 4 + 1) as u64);
            self.membership.retry = Some((self.now + grown + jitter, grown));
        }
        if !self.membership.lost_told {
            self.membership.lost_told = true;
            self.event(Event::CoordinatorLost);
        }
    }

    pub(super) fn membership_timeout(&mut self) {
        let now = self.now;
        if let Some((_, pause)) = self.membership.retry.take_if(|(at, _)| *at <= now) {
            if self.assignment().is_none() {
                self.dial_coordinator();
            } else if self.is_coordinating() {
                self.seek_founder();
                self.seek_rivals();
                self.seek_later(pause.times(2));
            } else if self.upward_link().is_none() {
                self.dial_coordinator();
                self.dial_successors();
                if self.membership.is_adrift(now) {
                    self.seek_founder();
                }
            }
        }
        if self.membership.slots_review_at.is_some_and(|at| at <= now) {
            self.review_slots();
        }
        if self.membership.takeover_at.is_some_and(|at| at <= now) {
            self.membership.takeover_at = None;
            self.take_over();
        }
        if self.membership.reports_at.is_some_and(|at| at <= now) {
            self.flush_reports();
        }
    }

    /// The coordinator asks for measurements.
    pub(super) fn probe(&mut self, leaders: Vec<Leader>) {
        self.membership.probes = leaders.iter().map(|leader| (leader.cluster, None)).collect();
        for Leader { cluster, addresses } in leaders {
            self.outputs.push_back(Output::Probe { cluster, addresses });
        }
    }

    pub(super) fn probed(&mut self, cluster: ClusterId, rtt: Option<Duration>) {
        if let Some(entry) = self.membership.probes.iter_mut().find(|(c, _)| *c == cluster) {
            entry.1 = Some(rtt.map(Duration::as_micros));
        }
        let answers: Option<Vec<_>> = self.membership.probes.iter().map(|&(c, rtt)| Some((c, rtt?))).collect();
        if let (Some(rtts_us), Some(link)) = (answers, self.membership.join_link)
            && !rtts_us.is_empty()
        {
            self.membership.probes.clear();
            self.send(link, Frame::Probed { rtts_us });
        }
    }

    /// A frame of the coordinator to a node that is joining.
    pub(super) fn admission_frame(&mut self, link: LinkId, frame: Frame) {
        match frame {
            Frame::Probe { leaders } => self.probe(leaders),
            Frame::Admit { credential, signature, certificate, reason } => {
                let message = signed_message(SignatureDomain::Credential, self.config.group, &credential.to_bytes());
                let checks = vec![Check { key: None, message, signature }];
                let admission = Pending::VerifyAdmission { credential, signature, certificate, reason };
                let token = self.ask(admission);
                self.outputs.push_back(Output::Verify { token, checks });
            }
            Frame::Refuse { refusal } => self.event(Event::Refused { refusal }),
            Frame::Later { after_ms } => self.come_again(link, after_ms),
            Frame::Succession { succession, signature } => self.verify_succession(link, succession, signature),
            Frame::Assign { assignment, signature } => self.verify_assignment(*assignment, signature),
            Frame::Announce { broadcast, announcement } => self.announced(link, broadcast, *announcement, None),
            Frame::Batch { batch: Batch { broadcast, .. }, .. } => self.hold_early(link, broadcast, frame),
            Frame::Ping { token } => self.send(link, Frame::Pong { token }),
            _ => {}
        }
    }

    pub(super) fn admission_verified(
        &mut self,
        valid: bool,
        credential: Credential,
        signature: Signature,
        certificate: Vec<u8>,
        reason: String,
    ) {
        let ours = credential.group == self.config.group && credential.key == self.config.key;
        if !valid || !ours || self.id().is_some() {
            return;
        }
        self.membership.set_identity(credential, signature);
        self.outputs.push_back(Output::Identity { credential, signature, certificate });
        self.event(Event::Admitted { group: credential.group, node: credential.node, reason });
    }

    /// A member is given a place, over a link.
    pub(super) fn assigned_place(&mut self, link: LinkId, assignment: Assignment, signature: Signature) {
        if assignment.term < self.membership.term() {
            self.tell_founder(link);
        }
        self.verify_assignment(assignment, signature);
    }

    pub(super) fn verify_assignment(&mut self, assignment: Assignment, signature: Signature) {
        let message = signed_message(SignatureDomain::Assignment, self.config.group, &assignment.to_bytes());
        let token = self.ask(Pending::VerifyAssignment(Box::new(assignment), signature));
        self.outputs.push_back(Output::Verify { token, checks: vec![Check { key: None, message, signature }] });
    }

    pub(super) fn assignment_verified(&mut self, assignment: Assignment, signature: Signature, valid: bool) {
        let newer = self.assignment().is_none_or(|old| (old.term, old.epoch) < (assignment.term, assignment.epoch));
        let current = assignment.term == self.membership.term();
        if valid && newer && current && self.id() == Some(assignment.node) {
            self.membership.assignment_signature = signature;
            self.apply_assignment(assignment);
        }
    }

    pub(super) fn apply_assignment(&mut self, assignment: Assignment) {
        if let Some(link) = self.membership.join_link.take() {
            self.close(link, CloseReason::Unneeded);
        }
        let (cluster, cluster_name) = (assignment.cluster, assignment.cluster_name.clone());
        let old_parent = self.membership.parent();
        let first = self.assignment().is_none();
        let old = self.membership.set_assignment(self.now, assignment);
        let told_parent = old.as_ref().and_then(|old| old.parent.as_ref()).map(|parent| parent.node);
        let told = self.assignment().and_then(|assignment| assignment.parent.as_ref()).map(|parent| parent.node);
        // The coordinator may not have heard of it yet.
        let banned = told.filter(|parent| self.banned.contains(parent));
        self.membership.refused_parent = banned;
        let new_parent = self.membership.parent();
        self.membership.dial_failures.clear();
        if first {
            for link in self.member_links() {
                let wan = self.cluster_at(link) != Some(cluster);
                self.uploads.add_link(link, wan);
            }
        }
        self.slots_assigned();
        self.open_announced();
        // Whom a new coordinator does not know may keep to another one, and have what is missing here.
        let term = self.membership.term();
        let renewed = old.as_ref().is_some_and(|old| old.term < term);
        let old = old.filter(|old| old.term == term);
        self.part_from(&old.map(|old| [old.local_peers, old.plan_peers].concat()).unwrap_or_default());
        self.ensure_links();
        self.probes_assigned();
        // The coordinator waits for whom it has moved, also for one that had left its parent for it already.
        // So it does for one that hung elsewhere under the coordinator before.
        let left = |told| Some(told) != new_parent && (renewed || !self.membership.is_deposed(told));
        let left = told_parent.is_some_and(left);
        let moved = new_parent != old_parent || left;
        if banned.is_some() {
            self.orphaned();
        } else if moved && new_parent.is_some_and(|parent| self.link_to(parent).is_some()) {
            self.report_ready();
        }
        // One that keeps to another coordinator has to miss this node there.
        let parted = told_parent.filter(|parent| Some(*parent) != new_parent).and_then(|parent| self.link_to(parent));
        parted.into_iter().for_each(|link| self.greet_with_succession(link));
        self.acknowledge_later();
        self.event(Event::Assigned { cluster, cluster_name });
    }

    /// Closes links to local peers that this node was told to connect to and is not any more: a newcomer stands between them.
    fn part_from(&mut self, told_before: &[PeerAddress]) {
        let told: BTreeSet<NodeId> = self.membership.told().map(|peer| peer.node).collect();
        for peer in told_before.iter().filter(|peer| !told.contains(&peer.node)) {
            let in_tree = self.membership.children.contains(&peer.node) || self.membership.parent() == Some(peer.node);
            if let Some(link) = self.link_to(peer.node).filter(|_| !in_tree) {
                self.close(link, CloseReason::Unneeded);
            }
        }
    }

    /// The cluster of the member at the other end of a link.
    pub(super) fn cluster_at(&self, link: LinkId) -> Option<ClusterId> {
        match self.links.get(&link)?.identity()? {
            crate::io::PeerIdentity::Member { cluster, .. } => Some(cluster),
            crate::io::PeerIdentity::Joiner => None,
        }
    }
}

/// The parts of the configuration that a node tells the coordinator.
struct NodeConfigView {
    name: String,
    cluster: Option<String>,
    addresses: Vec<SocketAddr>,
}

impl NodeConfigView {
    fn of(node: &Node) -> NodeConfigView {
        let config = &node.config;
        NodeConfigView {
            name: config.name.clone(),
            cluster: config.cluster.clone(),
            addresses: config.addresses.clone(),
        }
    }
}

// ---- The control tree ----

impl Node {
    /// Dials the peers that this node was told to connect to, where no link is.
    pub(super) fn ensure_links(&mut self) {
        let told: Vec<PeerAddress> = self.membership.told().cloned().collect();
        for peer in told {
            let failures = self.membership.dial_failures.get(&peer.node).copied().unwrap_or(0);
            let wanted = failures < DIALS_MAX && !self.banned.contains(&peer.node);
            if wanted && !self.has_link_to(peer.node) && !peer.addresses.is_empty() {
                self.dial_member(peer.node, peer.addresses, Some(peer.cluster));
            }
        }
    }

    pub(super) fn member_link_up(&mut self, link: LinkId, node: NodeId) {
        self.membership.dial_failures.remove(&node);
        if self.is_coordinating() {
            self.greet_with_succession(link);
            self.member_reached(node);
        } else {
            self.tell_founder(link);
        }
        if self.upward_link() == Some(link) {
            self.membership.adrift = false;
            self.report_ready();
            self.flush_reports();
        }
    }

    /// A member has sent a frame, so it takes this node for one too. If it is the coordinator, and the application was told that it is
    /// out of reach, that is over.
    pub(super) fn heard_of(&mut self, link: LinkId) {
        let coordinator = self.membership.coordinator_node();
        if self.membership.unreachable_since.is_some() && self.member_at(link) == Some(coordinator) {
            let told = self.membership.lost_told;
            self.membership.coordinator_reached();
            if told {
                self.event(Event::CoordinatorChanged { node: coordinator, own: false });
            }
        }
    }

    pub(super) fn member_link_down(&mut self, node: NodeId) {
        self.child_gone(node);
        let coordinator = self.membership.coordinator_node();
        if self.membership.parent() == Some(node) || (node == coordinator && self.upward_link().is_none()) {
            if node == coordinator && !self.is_coordinating() {
                self.coordinator_missed();
            }
            self.orphaned();
        }
    }

    /// A node is not below this one any more, if it was.
    pub(super) fn child_gone(&mut self, node: NodeId) {
        self.way_gone(node);
        self.membership.let_go.remove(&node);
        let was_child = self.membership.children.remove(&node);
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.way_gone(self.now, node);
            // Also one whose place is elsewhere: its parent may never have heard of it.
            if was_child {
                self.coordination.missing.entry(node).or_insert(self.now);
            }
        } else if was_child {
            self.report(Report::Lost { node });
        }
    }

    pub(super) fn dial_failed(&mut self, node: NodeId) {
        let failures = self.membership.dial_failures.entry(node).or_insert(0);
        *failures += 1;
        let given_up = *failures == DIALS_MAX;
        let (parent, coordinator) = (self.membership.parent(), self.membership.coordinator_node());
        if node == coordinator && (parent == Some(coordinator) || self.upward_link().is_none()) {
            self.membership.dial_failures.remove(&node);
            self.coordinator_unreachable();
        } else if parent == Some(node) && given_up {
            self.orphaned();
        } else if given_up {
            self.report(Report::Unreachable { node });
        }
    }

    /// Without a way up the control tree, a member turns to the coordinator itself.
    fn orphaned(&mut self) {
        if !self.is_coordinating() && self.upward_link().is_none() {
            self.follow_claim();
        }
        if self.is_coordinating() {
            return;
        }
        if self.upward_link().is_some() {
            // A link to the coordinator is there already: it has to know what it is for from now on.
            self.report_ready();
        } else if self.membership.retry.is_none() {
            // One that is connected to and hangs up at once is out of reach as well.
            let gone = self.membership.unreachable_since.map_or(Duration::ZERO, |since| self.now.since(since));
            let least = RETRY_MIN.0.max(gone.0 / 2).min(RETRY_MAX.0);
            let pause = Duration(least / 2 + self.random.below(least as usize) as u64);
            self.membership.retry = Some((self.now + pause, RETRY_MIN));
        }
    }

    /// The link to the parent, or for want of it to the coordinator.
    pub(super) fn upward_link(&self) -> Option<LinkId> {
        if self.is_coordinating() {
            return None;
        }
        let parent = self.membership.parent()?;
        self.link_to(parent).or_else(|| self.link_to(self.membership.coordinator_node()))
    }

    /// Links along which one frame reaches every node once.
    pub(super) fn tree_links(&self) -> Vec<LinkId> {
        self.upward_link().into_iter().chain(self.child_links()).collect()
    }

    /// Links down the control tree.
    pub(super) fn child_links(&self) -> Vec<LinkId> {
        self.membership.children.iter().filter_map(|&child| self.link_to(child)).collect()
    }

    /// Tells the coordinator that this node has its place, and again what may have been lost on another way up.
    pub(super) fn report_ready(&mut self) {
        let epoch = self.assignment().map_or(0, |a| a.epoch);
        self.membership.shown_at = self.now;
        // Whoever has been out of sight may have been given up meanwhile, also while it was being admitted, and a new coordinator
        // knows nobody.
        let swift = self.now.since(self.membership.asked_at) < INTRODUCTION_MAX;
        let known = !std::mem::replace(&mut self.membership.introduced, true) && self.membership.term() == 0 && swift;
        let standing = self.standing().filter(|_| !known);
        if standing.is_some() {
            self.tell_coordinator_of_releases();
        }
        self.report(standing.map_or(Report::Ready { epoch }, |standing| Report::Standing(Box::new(standing))));
        self.repeat_reports();
    }

    /// The parent leads nowhere: until it is given another one, this node turns to the coordinator.
    pub(super) fn refuse_parent(&mut self) {
        let parent = self.membership.parent();
        if parent.is_some_and(|parent| parent != self.membership.coordinator_node()) {
            self.membership.refused_parent = parent;
            self.orphaned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::assignment::tests::assignment;
    use crate::group::succession::Succession;
    use crate::io::PeerIdentity;
    use crate::node::testing::{joiner, linked};
    use crate::units::{GroupId, PublicKey};

    /// The links that it makes, and those that it closes.
    fn links(node: &mut Node) -> (Vec<LinkId>, Vec<LinkId>) {
        let (mut made, mut closed) = (Vec::new(), Vec::new());
        while let Some(output) = node.poll_output() {
            match output {
                Output::Connect { link, .. } => made.push(link),
                Output::Close { link, .. } => closed.push(link),
                _ => {}
            }
        }
        (made, closed)
    }

    #[test]
    fn who_is_told_to_come_again_does_so_once_whenever_the_first_link_ends() {
        let mut node = joiner();
        let coordinator = PeerIdentity::Member { node: NodeId(0), cluster: ClusterId(0) };
        let hello = node.hello(0);
        let first = links(&mut node).0[0];
        node.handle_link_up(Time::ZERO, first, coordinator, &hello);
        node.handle_frame(Time::ZERO, first, Frame::Later { after_ms: 20 });
        assert_eq!(links(&mut node), (vec![], vec![first]));
        let again = Time::ZERO + Duration::from_millis(20);
        assert_eq!(node.poll_timeout(), again);
        node.handle_timeout(again);
        let (made, _) = links(&mut node);
        node.handle_link_up(again, made[0], coordinator, &hello);
        node.handle_link_down(again, first);
        node.handle_frame(again, first, Frame::Later { after_ms: 20 });
        assert_eq!((node.membership.join_link, node.membership.retry), (Some(made[0]), None));
        assert_eq!(links(&mut node), (vec![], vec![]), "it is asking to be admitted already");
    }

    #[test]
    fn a_node_that_learns_late_where_it_listens_tells_it_when_it_asks_again() {
        let mut node = joiner();
        let asked = |node: &mut Node| {
            let mut outputs = std::iter::from_fn(|| node.poll_output());
            outputs.find_map(|output| match output {
                Output::Connect { link, greeting, .. } => match &greeting[..] {
                    [Frame::Join(join)] => Some((link, join.addresses.clone())),
                    _ => None,
                },
                _ => None,
            })
        };
        let (first, addresses) = asked(&mut node).expect("it asks to be admitted");
        assert!(addresses.is_empty());
        node.handle_link_down(Time::ZERO, first);
        let found: Vec<SocketAddr> = vec!["10.0.0.7:4444".parse().expect("an address")];
        node.set_addresses(found.clone());
        node.handle_timeout(Time::ZERO + RETRY_MAX);
        assert_eq!(asked(&mut node).expect("it asks again").1, found);
    }

    #[test]
    fn a_coordinator_that_was_out_of_reach_for_a_moment_is_there_again() {
        let mut node = joiner();
        let credential =
            Credential { group: GroupId([7; 16]), node: NodeId(3), key: PublicKey([8; 32]), expires_unix_s: u64::MAX };
        node.membership.set_identity(credential, Signature([0; 64]));
        node.apply_assignment(Assignment { node: NodeId(3), ..assignment() });
        let events = |node: &mut Node| {
            let events = std::iter::from_fn(|| node.poll_output()).filter_map(|output| match output {
                Output::Event(event @ (Event::CoordinatorLost | Event::CoordinatorChanged { .. })) => Some(event),
                _ => None,
            });
            events.collect::<Vec<_>>()
        };
        events(&mut node);
        node.coordinator_unreachable();
        node.coordinator_unreachable();
        assert!(matches!(events(&mut node)[..], [Event::CoordinatorLost]), "it is told once");
        let link = linked(&mut node, NodeId(0));
        node.handle_frame(Time::ZERO, link, Frame::Pong { token: 1 });
        let told = events(&mut node);
        assert!(matches!(told[..], [Event::CoordinatorChanged { node: NodeId(0), own: false }]), "{told:?}");
        node.handle_frame(Time::ZERO, link, Frame::Pong { token: 1 });
        assert!(events(&mut node).is_empty(), "nothing has changed since");
    }

    #[test]
    fn a_former_coordinator_is_a_parent_where_the_coordinator_says_so() {
        let peer =
            |node: u32| PeerAddress { node: NodeId(node), cluster: ClusterId(0), rank: node, addresses: Vec::new() };
        let peers = || [1, 2].map(peer).to_vec();
        let place = |term: u32| Assignment {
            term,
            node: NodeId(3),
            parent: Some(peer(2)),
            local_peers: peers(),
            global_peers: Vec::new(),
            plan_peers: Vec::new(),
            ..assignment()
        };
        let mut node = joiner();
        let credential =
            Credential { group: GroupId([7; 16]), node: NodeId(3), key: PublicKey([8; 32]), expires_unix_s: u64::MAX };
        node.membership.set_identity(credential, Signature([0; 64]));
        node.apply_assignment(place(0));
        let (first, second) = (linked(&mut node, NodeId(1)), linked(&mut node, NodeId(2)));
        // Both successors have taken over, out of each other's sight, and the first one has prevailed.
        for coordinator in [2, 1].map(peer) {
            node.membership.acknowledge(Succession { term: 1, coordinator }, Signature([0; 64]));
        }
        assert_eq!(node.upward_link(), Some(first), "of the second one nobody knows whether it follows the first");
        links(&mut node);
        node.apply_assignment(place(1));
        assert_eq!((node.upward_link(), links(&mut node).1), (Some(second), vec![]));
    }
}
