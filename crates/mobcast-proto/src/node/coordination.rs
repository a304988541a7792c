//! The coordinator's node: what becomes of the coordinator's decisions, and of the reports that reach it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::content::manifest::{SignatureDomain, signed_message};
use crate::group::assignment::{Assignment, Credential};
use crate::group::coordinator::Decision;
use crate::group::receipts::Receipts;
use crate::group::report::{NodeResult, Report, SignedReport};
use crate::io::{CloseReason, Event, Output, Signer};
use crate::limits::SILENCE_MAX;
use crate::time::{Duration, Time};
use crate::units::{BroadcastId, LinkId, NodeId, Signature};
use crate::wire::frame::{Frame, REPORTS_PER_FRAME, Refusal};

use super::acknowledgements::Unacknowledged;
use super::results::Results;
use super::{Node, Pending};

/// A member that is out of sight may come back over another place in the tree within this.
const LOST_GRACE: Duration = Duration::from_secs(3);
/// A member that was given another parent and does not show itself below it, nor complains, is given up: it may have
/// to find out first that the new one is gone too.
const MOVE_PATIENCE: Duration = Duration(2 * SILENCE_MAX.0);
/// Reports that wait behind the verification of their node's standing: two frames full.
const WAITING_MAX: usize = 2 * REPORTS_PER_FRAME;
/// A node that was admitted and never took its place in the tree is given up.
const READY_PATIENCE: Duration = SILENCE_MAX;
/// Broadcasts that the coordinator has not heard of yet and that are reported about: an announcement may be overtaken
/// by a few reports. Each takes two bytes and a bit for a piece, up to 2 MiB.
const UNKNOWN_BROADCASTS_MAX: usize = 4;
/// Without news of a broadcast for this long nobody is served any more: whoever gets nothing gives up before.
const QUIET_BEFORE_RELEASE: Duration = SILENCE_MAX.times(4);

/// What the coordinator's node keeps on top of the coordinator's own state.
#[derive(Default)]
pub(super) struct Coordination {
    /// Nodes admitted and not in the tree yet.
    pub(super) joining: BTreeMap<NodeId, Joining>,
    /// The parents that members were given.
    pub(super) parents: BTreeMap<NodeId, NodeId>,
    /// Members that have been given another parent, and have not shown themselves below it.
    moving: BTreeMap<NodeId, Moving>,
    /// Members out of sight.
    pub(super) missing: BTreeMap<NodeId, Time>,
    /// Assignments that are being signed.
    unsigned: usize,
    /// Members that have not said that they have their last assignment.
    pub(super) unacknowledged: BTreeMap<NodeId, Unacknowledged>,
    /// Members known from a standing alone, until they acknowledge a later assignment: since when, and the epoch of the standing's.
    pub(super) unproven: BTreeMap<NodeId, (Time, u32)>,
    /// Successors that have the authority's key, with the children that they were told of.
    pub(super) entrusted: BTreeMap<NodeId, Vec<NodeId>>,
    /// Reports of nodes whose standing is being verified.
    waiting: BTreeMap<NodeId, Vec<(LinkId, SignedReport)>>,
    /// What members have reported of each broadcast.
    pub(super) results: BTreeMap<BroadcastId, Results>,
    /// Receivers that must be complete before a broadcast is over.
    receivers: BTreeMap<BroadcastId, u32>,
    released: BTreeMap<BroadcastId, usize>,
    /// Broadcasts that were released, and of which a member reports its result again: the release may be lost.
    release_again: BTreeSet<BroadcastId>,
    receipts: BTreeMap<BroadcastId, Receipts>,
    /// When a member receipted more pieces of a broadcast last, or its root was given up.
    news_at: BTreeMap<BroadcastId, Time>,
    /// When this node became coordinator.
    since: Time,
    /// Broadcasts whose root may leave.
    may_leave: BTreeSet<BroadcastId>,
    /// Broadcasts that this node's application has no more use for, and that are not over: others may wait for them.
    pub(super) unwanted: VecDeque<BroadcastId>,
    /// The last members of broadcasts, which are linked to the root.
    pub(super) led_to_root: BTreeSet<(BroadcastId, NodeId)>,
}

impl Coordination {
    /// Of a node that becomes coordinator now.
    pub(super) fn since(now: Time) -> Coordination {
        Coordination { since: now, ..Coordination::default() }
    }

    /// A member was done with a broadcast before this node became coordinator.
    pub(super) fn note_over(&mut self, id: BroadcastId, node: NodeId) {
        self.results.entry(id).or_default().note_over(node);
    }

    /// Whether a member has not shown itself below its parent yet.
    pub(super) fn is_on_its_way(&self, node: NodeId) -> bool {
        self.joining.contains_key(&node) || self.moving.contains_key(&node)
    }

    /// A member hangs below another parent than it should, and has not been told.
    pub(super) fn note_old_place(&mut self, node: NodeId, old_parent: NodeId, since: Time) {
        self.moving.entry(node).or_insert(Moving { since, old_parent, epoch: 0 });
    }

    /// Members whose old place is below one that has come only now. They have as long from here on as the others.
    pub(super) fn below_old_place(&mut self, parent: NodeId, now: Time) -> Vec<NodeId> {
        let below = self.moving.iter_mut().filter(|(_, moving)| moving.old_parent == parent);
        let node = |(&node, moving): (&NodeId, &mut Moving)| {
            moving.since = now;
            node
        };
        below.map(node).collect()
    }

    /// A member is given a parent: the one that it had, if that is another one.
    fn move_member(&mut self, node: NodeId, parent: Option<NodeId>) -> Option<NodeId> {
        let parent = parent?;
        // Its new place is the one that it has.
        if self.moving.get(&node).is_some_and(|moving| moving.epoch == 0 && moving.old_parent == parent) {
            self.moving.remove(&node);
        }
        self.parents.insert(node, parent).filter(|old| *old != parent)
    }

    /// Members of a broadcast may go on from here on.
    pub(super) fn note_news(&mut self, id: BroadcastId, now: Time) {
        self.news_at.insert(id, now);
    }

    /// Broadcasts that some member has given up, and that are not over.
    pub(super) fn given_up(&self) -> impl Iterator<Item = BroadcastId> {
        let failed = self.results.iter().filter(|(_, results)| results.has_failed());
        failed.map(|(&id, _)| id).filter(|id| !self.released.contains_key(id))
    }

    /// When anybody got on with a broadcast last, as far as this coordinator knows.
    pub(super) fn last_news(&self, id: BroadcastId) -> Time {
        self.news_at.get(&id).copied().unwrap_or_default().max(self.since)
    }

    /// Nothing more is to come of a broadcast.
    pub(super) fn forget(&mut self, id: BroadcastId) {
        self.unwanted.retain(|other| *other != id);
        self.news_at.remove(&id);
        self.results.remove(&id);
        self.receivers.remove(&id);
        self.released.remove(&id);
        self.receipts.remove(&id);
        self.may_leave.remove(&id);
    }
}

/// A member that has been given another parent.
struct Moving {
    since: Time,
    /// Where it was.
    old_parent: NodeId,
    /// Of the assignment: what it said with an earlier one was on its way before.
    epoch: u32,
}

pub(super) struct Joining {
    link: LinkId,
    since: Time,
    reason: String,
    admitted: bool,
    held: Vec<Frame>,
}

impl Node {
    /// A frame of a node that is not a member.
    pub(super) fn joiner_frame(&mut self, link: LinkId, frame: Frame) {
        let now = self.now;
        let Some(coordinator) = &mut self.coordinator else { return };
        match frame {
            Frame::Join(join) => coordinator.handle_join(now, link, join),
            Frame::Probed { rtts_us } => coordinator.handle_probed(now, link, &rtts_us),
            Frame::Ping { token } => self.send(link, Frame::Pong { token }),
            Frame::Bye => {}
            _ => {
                self.send(link, Frame::Refuse { refusal: Refusal::Invalid });
                self.drop_peer(link, CloseReason::Violation("sent a member's frame before it was admitted".into()));
            }
        }
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.handle_timeout(now);
        }
        self.drain_coordinator();
    }

    pub(super) fn drain_coordinator(&mut self) {
        while let Some(decision) = self.coordinator.as_mut().and_then(|coordinator| coordinator.poll_decision()) {
            match decision {
                Decision::Probe { link, leaders } => self.send(link, Frame::Probe { leaders }),
                Decision::Refuse { link, refusal } => self.send(link, Frame::Refuse { refusal }),
                Decision::Admit { link, node, key, reason } => {
                    let joining = Joining { link, since: self.now, reason, admitted: false, held: Vec::new() };
                    self.coordination.joining.insert(node, joining);
                    let credential = Credential { group: self.config.group, node, key, expires_unix_s: 0 };
                    self.outputs.push_back(Output::Certify { credential });
                }
                Decision::Measured(measurement) => self.event(Event::Measured(measurement)),
                Decision::Unplanned { strategy, reason } => self.event(Event::Unplanned { strategy, reason }),
                Decision::Assign { assignment } => {
                    if Some(assignment.node) == self.id() {
                        self.apply_assignment((*assignment).clone());
                    }
                    let (node, parent) = (assignment.node, assignment.parent.as_ref().map(|parent| parent.node));
                    if let Some(old_parent) = self.coordination.move_member(node, parent) {
                        let moving = Moving { since: self.now, old_parent, epoch: assignment.epoch };
                        self.coordination.moving.entry(node).or_insert(moving);
                    }
                    let bytes = assignment.to_bytes();
                    let message = signed_message(SignatureDomain::Assignment, self.config.group, &bytes);
                    self.coordination.unsigned += 1;
                    let token = self.ask(Pending::SignAssignment(*assignment));
                    self.outputs.push_back(Output::Sign { token, signer: Signer::Authority, message });
                }
            }
        }
        self.ask_children();
        self.entrust_successors();
    }

    pub(super) fn certified(&mut self, credential: Credential, signature: Signature, certificate: Vec<u8>) {
        let node = credential.node;
        let Some(joining) = self.coordination.joining.get_mut(&node) else { return };
        joining.admitted = true;
        let (link, reason) = (joining.link, joining.reason.clone());
        let held = std::mem::take(&mut joining.held);
        self.greet_with_succession(link);
        self.send(link, Frame::Admit { credential, signature, certificate, reason: reason.clone() });
        self.greet_newcomer(link);
        held.into_iter().for_each(|frame| self.send(link, frame));
        self.tell_of_member(node, &reason);
    }

    /// Tells the application of a member.
    pub(super) fn tell_of_member(&mut self, node: NodeId, reason: &str) {
        if let Some((name, cluster)) = self.describe(node) {
            self.event(Event::MemberJoined { node, name, cluster, reason: reason.into() });
            self.review_roots();
        }
    }

    fn describe(&self, node: NodeId) -> Option<(String, String)> {
        let coordinator = self.coordinator.as_ref()?;
        let member = coordinator.member(node)?;
        Some((member.name.clone(), coordinator.cluster_name(member.cluster)))
    }

    pub(super) fn assignment_signed(&mut self, assignment: Assignment, signature: Signature) {
        let node = assignment.node;
        self.coordination.unsigned = self.coordination.unsigned.saturating_sub(1);
        if Some(node) == self.id() {
            // For the day when another one coordinates, and asks who this is.
            self.membership.own_assignment_signed(&assignment, signature);
        } else {
            self.await_acknowledgement(node, assignment.epoch);
            self.send_to(node, Frame::Assign { assignment: Box::new(assignment), signature });
        }
        self.ask_children();
    }

    /// Asks the children to whom many views are under way whether they have them.
    fn ask_children(&mut self) {
        if self.coordination.unsigned > 0 {
            return;
        }
        let asked = self.coordinator.as_mut().map(|coordinator| coordinator.views_sent(self.now));
        for child in asked.into_iter().flatten() {
            match (self.link_to(child), self.coordinator.as_mut()) {
                (Some(link), _) => self.send(link, Frame::CheckWay { token: self.now.0 }),
                // Its link was closed, or is not there yet: it has nothing to answer.
                (None, Some(coordinator)) => coordinator.way_gone(self.now, child),
                (None, None) => (),
            }
        }
    }

    /// A child says that what was sent over it before a question is through.
    pub(super) fn child_answered(&mut self, child: NodeId, token: u64) {
        if let Some(coordinator) = self.coordinator.as_mut()
            && coordinator.way_clear(child, Time(token))
        {
            self.drain_coordinator();
        }
    }

    /// Sends a frame to any member: over a link of its own, or down the tree.
    fn send_to(&mut self, node: NodeId, frame: Frame) {
        if let Some(link) = self.link_to(node) {
            return self.send(link, frame);
        }
        if let Some(joining) = self.coordination.joining.get_mut(&node) {
            if !joining.admitted {
                return joining.held.push(frame);
            }
            let link = joining.link;
            return self.send(link, frame);
        }
        let Some(coordinator) = &self.coordinator else { return };
        // It knows nothing of a new parent before it has this frame. An old one may be below it by now.
        let before = self.coordination.moving.get(&node).map(|moving| moving.old_parent);
        let before = before
            .filter(|&parent| coordinator.member(parent).is_some() && !coordinator.path_to(parent).contains(&node));
        let place = before.or_else(|| coordinator.parent_of(node));
        let Some(parent) = place else { return };
        let mut path = coordinator.path_to(parent);
        path.push(node);
        if let Some((&first, rest)) = path.split_first()
            && let Some(link) = self.link_to(first)
        {
            self.send(link, Frame::Routed { path: rest.to_vec(), frame: frame.encode() });
        }
    }

    pub(super) fn verify_report(&mut self, link: LinkId, report: SignedReport) {
        if let Some(waiting) = self.coordination.waiting.get_mut(&report.from) {
            if waiting.len() < WAITING_MAX {
                waiting.push((link, report));
            }
            return;
        }
        let (mut checks, key) = match &report.report {
            Report::Standing(standing) => {
                let Some(checks) = self.standing_checks(report.from, standing) else { return };
                self.coordination.waiting.insert(report.from, Vec::new());
                (checks, standing.credential.key)
            }
            _ => {
                let member = self.coordinator.as_ref().and_then(|c| c.member(report.from)).map(|member| member.key);
                let Some(key) = member.or_else(|| self.key_in_regency(report.from)) else { return };
                (Vec::new(), key)
            }
        };
        let body = || SignedReport::body(report.from, &report.report);
        checks.extend(self.check(SignatureDomain::Report, Some(key), body, report.signature));
        self.have_verified(Pending::VerifyReport { report, link }, checks);
    }

    pub(super) fn report_verified(&mut self, link: LinkId, report: SignedReport, valid: bool) {
        let SignedReport { from, report, .. } = report;
        let standing = matches!(report, Report::Standing(_));
        // Whoever passes on what others report cannot tell. A standing is more than its own word.
        if !valid && !standing && self.member_at(link) == Some(from) {
            return self.drop_peer(link, CloseReason::Violation("signed its report wrongly".into()));
        }
        if valid && self.regency.is_some() {
            self.hold_report(from, report);
        } else if valid {
            self.handle_report(from, report);
        }
        if standing {
            let waiting = self.coordination.waiting.remove(&from).unwrap_or_default();
            waiting.into_iter().for_each(|(link, report)| self.verify_report(link, report));
        }
    }

    pub(super) fn handle_report(&mut self, from: NodeId, report: Report) {
        self.coordination.missing.remove(&from);
        match report {
            Report::Ready { epoch } => self.member_ready(from, epoch),
            Report::Assigned { epoch } => self.assigned(from, epoch),
            Report::Standing(standing) => self.standing_verified(*standing),
            Report::Lost { node } => {
                // A former parent knows nothing of a node that hangs elsewhere.
                let parent = self.coordinator.as_ref().and_then(|c| c.parent_of(node));
                if parent == Some(from) {
                    self.coordination.missing.entry(node).or_insert(self.now);
                }
            }
            Report::Unreachable { node } => {
                if let Some(coordinator) = &mut self.coordinator {
                    coordinator.handle_unreachable(from, node);
                }
                self.drain_coordinator();
            }
            Report::Violation { node } => {
                if let Some(coordinator) = &mut self.coordinator {
                    coordinator.handle_accused(from, node);
                }
                self.drain_coordinator();
            }
            Report::Result(result) if self.is_over(result.broadcast) => {
                self.coordination.release_again.insert(result.broadcast);
            }
            Report::Receipt { broadcast, .. } if self.is_over(broadcast) => {}
            Report::Result(result) if !self.keeps_books_of(result.broadcast) => {}
            Report::Receipt { broadcast, .. } if !self.keeps_books_of(broadcast) => {}
            Report::Result(result) => self.node_result(from, result),
            Report::Probed(result) => self.probe_reported(from, result),
            Report::Receipt { broadcast, pieces } => {
                let receipts = self.coordination.receipts.entry(broadcast).or_default();
                let before = receipts.of(from);
                let pieces = receipts.add(from, &pieces);
                if pieces > before {
                    self.coordination.note_news(broadcast, self.now);
                }
                self.event(Event::Progress { broadcast, node: from, pieces });
                self.let_root_leave(broadcast);
            }
        }
    }

    /// Whether reports about a broadcast are kept: any member can make numbers of broadcasts up.
    fn keeps_books_of(&self, id: BroadcastId) -> bool {
        let Coordination { receipts, results, unwanted, .. } = &self.coordination;
        let known = |id: &BroadcastId| self.broadcasts.contains_key(id) || unwanted.contains(id);
        let unknown = || receipts.keys().chain(results.keys()).filter(|id| !known(id)).count();
        known(&id) || unknown() < UNKNOWN_BROADCASTS_MAX
    }

    /// Whether a node's place in the control tree is right below this one.
    pub(super) fn is_child_of_coordinator(&self, node: NodeId) -> bool {
        self.coordinator.as_ref().is_some_and(|c| c.parent_of(node).is_some() && c.parent_of(node) == self.id())
    }

    /// A member has its place, by the assignment of this epoch; 0 if that was another coordinator's.
    pub(super) fn member_ready(&mut self, node: NodeId, epoch: u32) {
        self.coordination.joining.remove(&node);
        // What waited at a parent that had no way up is no sign that it lives.
        let stale = |moving: &Moving| (1..moving.epoch).contains(&epoch) && self.link_to(node).is_none();
        if !self.coordination.moving.get(&node).is_some_and(stale) {
            self.coordination.moving.remove(&node);
        }
        self.acknowledged(node, epoch);
        let direct = self.link_to(node).is_some() && self.membership.children.contains(&node);
        let Some(coordinator) = &mut self.coordinator else { return };
        // A node that turns to the coordinator although its place is elsewhere has lost its parent.
        if direct && coordinator.path_to(node) != [node] {
            coordinator.handle_orphan(node);
        } else {
            coordinator.renew(node, epoch);
        }
        self.drain_coordinator();
    }

    /// Says so when the receipts show that a broadcast can do without its root.
    fn let_root_leave(&mut self, id: BroadcastId) {
        let Some(coordinator) = &self.coordinator else { return };
        let receivers = coordinator.member_count() - usize::from(coordinator.member(id.root).is_some());
        let pieces = self.broadcasts.get(&id).filter(|b| b.end().is_some()).map(|b| b.swarm().known());
        let receipts = self.coordination.receipts.get(&id);
        if pieces.is_some_and(|pieces| receipts.is_some_and(|r| r.suffice(pieces, receivers))) {
            if self.coordination.may_leave.insert(id) {
                self.event(Event::RootMayLeave { broadcast: id });
            }
        } else if receivers > 0 && self.coordination.may_leave.remove(&id) {
            self.event(Event::RootNeeded { broadcast: id });
        }
    }

    /// Members have come or gone: what was said of roots may be true no more.
    fn review_roots(&mut self) {
        let said: Vec<BroadcastId> = self.coordination.may_leave.iter().copied().collect();
        said.into_iter().for_each(|id| self.let_root_leave(id));
    }

    fn node_result(&mut self, from: NodeId, mut result: NodeResult) {
        let broadcast = result.broadcast;
        let signed = self.broadcasts.get(&broadcast).and_then(|b| b.end()).map(|end| end.object_hash);
        if let (Ok(hash), Some(signed)) = (&result.outcome, signed)
            && *hash != signed
        {
            result.outcome = Err("reports another object than the root has sent".into());
        }
        let (name, cluster) = self.describe(from).unwrap_or_else(|| (from.to_string(), String::new()));
        let complete = result.outcome.is_ok();
        // A coordinator before this one may have released it.
        let released = self.broadcasts.get(&broadcast).is_some_and(|b| b.release.is_some());
        // It comes again when the node's way up has changed, or when it hears of no release.
        if self.coordination.results.entry(broadcast).or_default().add(from, complete) {
            self.event(Event::Result { node: from, name, cluster, result });
            self.release_if_over(broadcast);
        } else if released || self.coordination.released.contains_key(&broadcast) {
            self.coordination.release_again.insert(broadcast);
        }
    }

    /// Says how many receivers must be complete before a broadcast is over.
    pub fn require_receivers(&mut self, now: Time, broadcast: BroadcastId, receivers: u32) {
        self.set_now(now);
        self.coordination.receivers.insert(broadcast, receivers);
    }

    /// A broadcast is over when the root has given out everything and every member has its result.
    pub(super) fn release_if_over(&mut self, broadcast: BroadcastId) {
        let results = self.coordination.results.get(&broadcast).filter(|_| self.coordinator.is_some());
        let Some(results) = results else { return };
        let complete = results.complete_besides(broadcast.root);
        let required = self.coordination.receivers.get(&broadcast).copied().unwrap_or(1).max(1) as usize;
        let root_done = Some(broadcast.root) != self.id()
            || self.broadcasts.get(&broadcast).is_some_and(|b| b.phase == crate::broadcast::Phase::Complete);
        let told = self.coordination.released.get(&broadcast).copied().unwrap_or(0);
        // What this node's application did not want is over also if nobody has it.
        let unwanted = self.coordination.unwanted.contains(&broadcast);
        if !unwanted && (!root_done || complete < required || complete <= told) {
            return;
        }
        if self.awaited(broadcast).is_none() {
            self.coordination.released.insert(broadcast, complete);
            self.sign_release(broadcast);
        }
    }

    /// Whether nobody waits for a member's result: it is there, or it is the root's, or that of somebody who broke the protocol.
    pub(super) fn is_done_with(&self, node: NodeId, broadcast: BroadcastId) -> bool {
        let trusted = self.coordinator.as_ref().is_some_and(|coordinator| coordinator.is_trusted(node));
        let has_result = || self.coordination.results.get(&broadcast).is_some_and(|results| results.has(node));
        node == broadcast.root || !trusted || has_result()
    }

    /// Says releases again for those who may have missed them; not while somebody may lack something that they have. After a while
    /// without news whoever has reported no result was released by a coordinator before this one, or has given up, and
    /// the result was lost.
    fn release_again(&mut self) {
        for id in std::mem::take(&mut self.coordination.release_again) {
            let Some(coordinator) = &self.coordinator else { return };
            let all = coordinator.members().all(|node| self.is_done_with(node, id));
            let news = self.coordination.news_at.get(&id).copied().unwrap_or_default();
            let quiet = self.now.since(news.max(self.coordination.since)) >= QUIET_BEFORE_RELEASE;
            if all || quiet || self.is_over(id) {
                self.sign_release(id);
            }
        }
    }

    /// Gives up members that stay out of sight, admitted nodes that never took their place, and those whose standing is all
    /// that has come of them.
    pub(super) fn look_after_members(&mut self) {
        self.look_after_assignments();
        let now = self.now;
        let late = self.coordination.joining.iter().filter(|(_, joining)| now.since(joining.since) >= READY_PATIENCE);
        let missing = self.coordination.missing.iter().filter(|&(_, &since)| now.since(since) >= LOST_GRACE);
        let moving = self.coordination.moving.iter().filter(|(_, moving)| now.since(moving.since) >= MOVE_PATIENCE);
        let lost = late.map(|(&n, _)| n).chain(missing.map(|(&n, _)| n)).chain(moving.map(|(&n, _)| n));
        let lost: Vec<NodeId> = lost.chain(self.unproven_for_long()).collect();
        lost.into_iter().for_each(|node| self.lose_member(node));
        self.release_again();
    }

    /// Gives a member up: its work goes to others.
    pub(super) fn lose_member(&mut self, node: NodeId) {
        self.coordination.joining.remove(&node);
        self.coordination.missing.remove(&node);
        self.coordination.moving.remove(&node);
        self.coordination.unacknowledged.remove(&node);
        self.coordination.unproven.remove(&node);
        self.coordination.parents.remove(&node);
        let described = self.describe(node);
        let now = self.now;
        let Some(coordinator) = &mut self.coordinator else { return };
        // Its children in the control tree have to turn up elsewhere.
        for child in coordinator.children_of(node) {
            self.coordination.missing.entry(child).or_insert(now);
        }
        self.coordination.entrusted.remove(&node);
        self.coordination.receipts.values_mut().for_each(|receipts| receipts.remove(node));
        if coordinator.handle_lost(now, node) {
            let name = described.map(|(name, _)| name).unwrap_or_default();
            self.event(Event::MemberLost { node, name });
            self.review_roots();
        }
        self.drain_coordinator();
        let broadcasts: Vec<BroadcastId> = self.coordination.results.keys().copied().collect();
        broadcasts.into_iter().for_each(|broadcast| self.release_if_over(broadcast));
    }

    /// A member says that it leaves. Its link is closed here as well: what it would still bring nobody could be blamed for.
    pub(super) fn member_leaves(&mut self, link: LinkId) {
        let Some(node) = self.member_at(link) else { return };
        let was_child = self.coordinator.is_some() && self.membership.children.contains(&node);
        self.outputs.push_back(Output::Close { link, reason: CloseReason::Unneeded });
        self.link_down(link);
        if was_child {
            // It will not come back over another place in the tree.
            self.lose_member(node);
        }
    }

    /// No node is admitted any more.
    pub fn close_admission(&mut self) {
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.close();
        }
    }
}
