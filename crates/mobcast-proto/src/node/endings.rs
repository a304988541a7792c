//! How broadcasts end at a node: complete, failed, given up by the root, without one; and what is reported of that. Releases are in
//! `releases.rs`.

use std::collections::BTreeSet;

use crate::broadcast::{Broadcast, Phase};
use crate::content::manifest::SignatureDomain;
use crate::group::report::{NodeResult, Report};
use crate::io::{CloseReason, Event, Failure, Signer};
use crate::limits::{BROADCASTS_MAX, SILENCE_MAX};
use crate::time::{Duration, Time};
use crate::units::{BroadcastId, Digest, LinkId, NodeId, Signature};
use crate::wire::frame::Frame;

use super::broadcasts::broadcast_body;
use super::{Node, Pending};

/// Pieces are receipted this often by each node of a group of up to a thousand; less often by larger ones.
const RECEIPT_INTERVAL: Duration = Duration::from_secs(1);
/// Without a coordinator, a complete node serves peers that miss something for this long after its own last payload.
const SERVING_MAX: Duration = Duration::from_secs(60);
/// Without a root, what some peer says it has is waited for so long, though nothing comes: it takes half of this to find out that a
/// peer does not send what it has, and a moment to find another one.
const OBTAINABLE_MAX: Duration = SILENCE_MAX.times(3);
/// So long at most while payload of other broadcasts arrives: thin links may be busy with that.
const BUSY_MAX: Duration = SILENCE_MAX.times(10);
/// So many members of broadcasts that stand still are linked to their root at a time…
const LAST_MAX: usize = 8;
/// …and for so long, unless somebody gets on. As receipts, longer in large groups.
const LED_FOR: Duration = SILENCE_MAX.times(3);
/// A result that is not answered by a release is said again after this, together with who says it: whoever was above may be gone,
/// and have taken it along, or the coordinator may have given this node up. As receipts, less often in large groups.
const RESULT_INTERVAL: Duration = SILENCE_MAX;
/// An object that went down the tree in one frame is announced to all peers if it is not over by then.
const WHOLE_PATIENCE: Duration = Duration::from_millis(500);

impl Node {
    pub(super) fn broadcast_complete(&mut self, id: BroadcastId) {
        let Some(end) = self.broadcasts.get(&id).and_then(Broadcast::end) else { return };
        self.event(Event::Complete { broadcast: id, length: end.length, object_hash: end.object_hash });
        // The root's part is known to the coordinator; what it waits for is the receivers.
        if self.broadcasts[&id].swarm().standing.node == id.root {
            self.release_if_over(id);
        }
    }

    /// The application has put a complete object where it belongs: the coordinator may know.
    pub fn confirm(&mut self, now: Time, id: BroadcastId) {
        self.set_now(now);
        if let Some(end) = self.broadcasts.get(&id).and_then(Broadcast::end) {
            self.report_result(id, Ok(end.object_hash));
            if self.broadcasts.get(&id).is_some_and(|broadcast| broadcast.aborted) {
                self.tell_released(id);
            }
        }
    }

    /// Receipts what was stored since the last time.
    fn receipt(&mut self, id: BroadcastId) {
        while let Some(pieces) = self.broadcasts.get_mut(&id).and_then(Broadcast::take_receipt) {
            self.report(Report::Receipt { broadcast: id, pieces });
        }
    }

    fn report_result(&mut self, id: BroadcastId, outcome: Result<Digest, String>) {
        let now = self.now;
        self.receipt(id);
        let Some(broadcast) = self.broadcasts.get_mut(&id) else { return };
        if std::mem::replace(&mut broadcast.reported, true) {
            return;
        }
        broadcast.result_said_at = now;
        let elapsed_us = now.since(broadcast.started).as_micros();
        let traffic = broadcast.traffic();
        let result = NodeResult { broadcast: id, outcome, elapsed_us, traffic };
        broadcast.result = Some(result.clone());
        self.report(Report::Result(result));
    }

    /// Reports again what may have been lost with those that were above, or with a coordinator.
    pub(super) fn repeat_reports(&mut self) {
        let now = self.now;
        let ids: Vec<BroadcastId> = self.broadcasts.keys().collect();
        for id in ids {
            let Some(broadcast) = self.broadcasts.get_mut(&id) else { continue };
            broadcast.repeat_receipts();
            broadcast.result_said_at = now;
            let result = broadcast.result.clone();
            self.receipt(id);
            if let Some(result) = result {
                self.report(Report::Result(result));
            }
        }
        self.finished.failed().into_iter().for_each(|result| self.report(Report::Result(result)));
    }

    pub(super) fn fail(&mut self, id: BroadcastId, failure: Failure) {
        let failed = self.with_broadcast(id, |broadcast| {
            // A complete object may still fail to get to its place, until the application has confirmed it.
            let unplaced = broadcast.phase == Phase::Complete && matches!(failure, Failure::Local(_));
            let open = (matches!(broadcast.phase, Phase::Offered | Phase::Active) || unplaced) && !broadcast.reported;
            if open {
                broadcast.fail();
            }
            open
        });
        if failed == Some(true) {
            self.report_result(id, Err(failure.to_string()));
            self.event(Event::Failed { broadcast: id, failure });
        }
    }

    pub(super) fn verify_end(
        &mut self,
        id: BroadcastId,
        domain: SignatureDomain,
        signature: Signature,
        pending: Pending,
    ) {
        // What the root signs needs its credential; what the authority signs nothing that came with the broadcast.
        let root_signs = domain == SignatureDomain::Abort;
        let broadcast = self.broadcasts.get(&id);
        if root_signs && broadcast.is_none_or(|broadcast| broadcast.aborted) {
            return;
        }
        let key = broadcast.filter(|_| root_signs).map(|broadcast| broadcast.announcement.credential.key);
        let reason = match &pending {
            Pending::VerifyAbort { reason, .. } => reason,
            _ => "",
        };
        let checks = self.check(domain, key, || broadcast_body(id, reason), signature).into_iter().collect();
        self.have_verified(pending, checks);
    }

    pub(super) fn abort_signed(&mut self, id: BroadcastId, reason: String, signature: Signature) {
        let frame = Frame::Abort { broadcast: id, reason: reason.clone(), signature };
        self.keep_abort(id, frame.clone());
        self.member_links().into_iter().for_each(|link| self.send(link, frame.clone()));
        if let Some(broadcast) = self.broadcasts.get_mut(&id) {
            broadcast.aborted = true;
            // The root had everything; its application is told all the same.
            broadcast.phase = Phase::Active;
            broadcast.reported = false;
        }
        self.fail(id, Failure::Aborted(reason));
    }

    pub(super) fn abort_verified(&mut self, id: BroadcastId, reason: String, frame: Frame, from: LinkId, valid: bool) {
        if !valid {
            return self.drop_peer(from, CloseReason::Violation(format!("forged the end of {id}")));
        }
        let news = self.broadcasts.get_mut(&id).is_some_and(|b| !std::mem::replace(&mut b.aborted, true));
        if news {
            self.keep_abort(id, frame.clone());
            let links = self.member_links().into_iter().filter(|&link| link != from);
            links.collect::<Vec<_>>().into_iter().for_each(|link| self.send(link, frame.clone()));
            self.fail(id, Failure::Aborted(reason));
            // Who has everything and has said so waits for nobody any more.
            if self.broadcasts.get(&id).is_some_and(|b| b.phase == Phase::Complete && b.reported) {
                self.tell_released(id);
            }
        }
    }

    /// Whoever was told of a broadcast and had no link when it was given up announces it when it has one.
    fn keep_abort(&mut self, id: BroadcastId, frame: Frame) {
        self.aborts.push_back((id, frame));
        if self.aborts.len() > BROADCASTS_MAX {
            self.aborts.pop_front();
        }
    }

    /// What its root has said of a broadcast that it gave up, if that is one of the last.
    pub(super) fn abort_of(&self, id: BroadcastId) -> Option<Frame> {
        self.aborts.iter().find(|(other, _)| *other == id).map(|(_, frame)| frame.clone())
    }

    /// The root is not a member any more: whoever waits for pieces may have to give up.
    pub(super) fn sign_root_loss(&mut self, id: BroadcastId) {
        let signed = self.to_be_signed(Signer::Authority, SignatureDomain::RootLost, || broadcast_body(id, ""));
        self.have_signed(Pending::SignRootLost { broadcast: id }, signed);
    }

    pub(super) fn root_loss_signed(&mut self, id: BroadcastId, signature: Signature) {
        if let Some(broadcast) = self.broadcasts.get_mut(&id) {
            broadcast.root_loss = Some(signature);
            self.coordination.note_news(id, self.now);
            self.go_on_without_root(id);
        } else {
            // Whoever reports from here on is released at once, and who comes below has to hear of it.
            self.coordination.note_released(id);
            self.unknown_ends.hold_root_loss(id, signature);
        }
        let frame = Frame::RootLost { broadcast: id, signature };
        self.child_links().into_iter().for_each(|link| self.send(link, frame.clone()));
    }

    pub(super) fn root_loss_verified(&mut self, id: BroadcastId, frame: Frame, from: LinkId, valid: bool) {
        if !valid {
            return self.drop_peer(from, CloseReason::Violation(format!("forged the loss of the root of {id}")));
        }
        let Frame::RootLost { signature, .. } = frame else { return };
        if self.is_there(id.root) {
            // It was taken for lost: what others say of that is old.
            return;
        }
        let Some(broadcast) = self.broadcasts.get_mut(&id) else { return self.unknown_root_lost(from, id, signature) };
        if broadcast.root_loss.replace(signature).is_none() {
            self.go_on_without_root(id);
            let links = self.child_links().into_iter().filter(|&link| link != from);
            links.collect::<Vec<_>>().into_iter().for_each(|link| self.send(link, frame.clone()));
        }
    }

    /// A broadcast is heard of: its root may have been lost before that.
    pub(super) fn take_held_root_loss(&mut self, id: BroadcastId) {
        if let Some(signature) = self.unknown_ends.take_root_loss(id)
            && let Some(broadcast) = self.broadcasts.get_mut(&id)
            && broadcast.root_loss.replace(signature).is_none()
        {
            self.go_on_without_root(id);
        }
    }

    /// The root's cluster has no pieces of its own any more: it imports like the others from here on.
    fn go_on_without_root(&mut self, id: BroadcastId) {
        let now = self.now;
        if let Some(broadcast) = self.broadcasts.get_mut(&id) {
            broadcast.lose_root(now);
        }
        self.place_in_swarm(id);
        self.with_broadcast(id, |broadcast| broadcast.handle_assignment(now));
    }

    /// Receipts pieces, announces what went down the tree in vain, and gives up what cannot be completed.
    pub(super) fn look_after_broadcasts(&mut self) {
        let now = self.now;
        let thousands = self.thousands();
        let lost = self.coordinator_lost();
        let ids: Vec<BroadcastId> = self.broadcasts.keys().collect();
        for id in ids {
            let Some(broadcast) = self.broadcasts.get_mut(&id) else { continue };
            let vain = broadcast.whole.is_some() && !broadcast.flooded && broadcast.is_announced();
            if vain && now.since(broadcast.started) >= WHOLE_PATIENCE {
                self.flood_announcement(id);
                continue;
            }
            let is_root = id.root == broadcast.swarm().standing.node;
            let active = broadcast.phase == Phase::Active && !is_root;
            let rootless = broadcast.root_loss.is_some();
            let unheard = broadcast.result.is_some() && !broadcast.released;
            if active && now.since(broadcast.receipted_at) >= RECEIPT_INTERVAL.times(thousands) {
                broadcast.receipted_at = now;
                self.receipt(id);
            } else if unheard && now.since(broadcast.result_said_at) >= RESULT_INTERVAL.times(thousands) {
                self.report_ready();
            }
            let with_coordinator = id.root == self.membership.coordinator_node();
            if lost && with_coordinator && self.broadcasts.get(&id).is_some_and(|b| b.root_cluster().is_some()) {
                self.go_on_without_root(id);
            }
            if lost {
                self.end_without_coordinator(id);
            } else if rootless {
                self.end_without_root(id);
            }
        }
        self.ensure_links();
        if self.membership.is_adrift(now) && !self.is_coordinating() {
            self.tell_adrift();
        }
        self.look_after_regency();
        if self.coordinator.is_some() {
            self.look_after_members();
            self.look_after_roots();
            self.look_after_the_last();
        }
    }

    /// Tells the members of roots that are gone.
    fn look_after_roots(&mut self) {
        let Some(coordinator) = &self.coordinator else { return };
        let gone = |b: &&Broadcast| b.root_loss.is_none() && coordinator.member(b.id.root).is_none();
        let unwanted = self.coordination.unwanted().filter(|id| coordinator.member(id.root).is_none());
        let ids: Vec<BroadcastId> = self.broadcasts.values().filter(gone).map(|b| b.id).chain(unwanted).collect();
        ids.into_iter().for_each(|id| self.sign_root_loss(id));
    }

    /// Where a member has given a broadcast up and nobody gets on with it, whoever is not done may know only such members: some of them are
    /// linked to the root, and after a while others. Whoever gets on then keeps that link until it is done.
    fn look_after_the_last(&mut self) {
        let (now, thousands) = (self.now, self.thousands());
        let Some(coordinator) = &self.coordinator else { return };
        let mut led: BTreeSet<(BroadcastId, NodeId)> = BTreeSet::new();
        for id in self.coordination.given_up().filter(|id| coordinator.member(id.root).is_some()) {
            let Some(broadcast) = self.broadcasts.get(&id) else { continue };
            let is_last = |node: &NodeId| coordinator.member(*node).is_some() && !self.is_done_with(*node, id);
            let still_for = now.since(self.coordination.last_news(id).max(broadcast.started));
            let last: Vec<NodeId> = if still_for >= SILENCE_MAX.times(thousands) {
                let last: Vec<NodeId> = coordinator.members().filter(is_last).collect();
                let turn = (still_for.0 / LED_FOR.times(thousands).0) as usize;
                last.iter().copied().cycle().skip(turn * LAST_MAX % last.len().max(1)).take(last.len()).collect()
            } else {
                let before = self.coordination.led_to_root.range((id, NodeId(0))..=(id, NodeId(u32::MAX)));
                before.map(|&(_, node)| node).filter(is_last).collect()
            };
            let room = LAST_MAX.saturating_sub(led.iter().filter(|(other, _)| other.root == id.root).count());
            led.extend(last.into_iter().take(room).map(|node| (id, node)));
        }
        let links: BTreeSet<(NodeId, NodeId)> = led.iter().map(|&(id, node)| (node, id.root)).collect();
        self.coordination.led_to_root = led;
        if self.coordinator.as_mut().is_some_and(|coordinator| coordinator.lead_to_roots(&links)) {
            self.drain_coordinator();
        }
    }

    /// Without its root a broadcast can still be completed from others: who gets nothing any more gives up.
    fn end_without_root(&mut self, id: BroadcastId) {
        let (now, busy) = (self.now, self.now.since(self.payload_at) < OBTAINABLE_MAX);
        let Some(broadcast) = self.broadcasts.get_mut(&id) else { return };
        let waited = now.since(broadcast.arrived_at());
        let in_vain = match (broadcast.is_obtainable(now), busy) {
            (true, true) => waited >= BUSY_MAX,
            (true, false) => waited >= OBTAINABLE_MAX,
            // When the last one is gone who was known to have it, it takes a while to find another one.
            (false, _) => waited.min(now.since(broadcast.obtainable_at)) >= SILENCE_MAX,
        };
        if broadcast.phase == Phase::Active && in_vain && !broadcast.waits_for_disk() {
            let pieces = broadcast.announcement.descriptor.piece_count().unwrap_or(broadcast.swarm().known());
            let missing = pieces.saturating_sub(broadcast.swarm().have().count());
            self.fail(id, Failure::Incomplete { missing, pieces });
        }
    }

    /// Whether nobody is known to miss what this node has of a complete broadcast.
    fn is_dispensable(&self, broadcast: &Broadcast) -> bool {
        let is_root = broadcast.swarm().standing.node == broadcast.id.root;
        let complete = broadcast.swarm().peers().all(|(_, peer)| peer.have.count() >= broadcast.swarm().known());
        let patient = self.now.since(broadcast.arrived_at()) < SERVING_MAX;
        (broadcast.reported || is_root) && (complete || !patient)
    }

    /// Without a coordinator nobody says that a broadcast is over: who has it all may go, who gets nothing any more
    /// gives up.
    fn end_without_coordinator(&mut self, id: BroadcastId) {
        let Some(broadcast) = self.broadcasts.get(&id) else { return };
        match broadcast.phase {
            Phase::Complete if self.is_dispensable(broadcast) => self.tell_released(id),
            Phase::Active => self.end_without_root(id),
            // What the application has not been told of it does not wait for.
            Phase::Offered if self.untold.iter().any(|untold| untold.broadcast == id) => {}
            Phase::Offered => self.fail(id, Failure::Incomplete { missing: 0, pieces: 0 }),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Output;
    use crate::node::founder::tests::{claim, follower, standing};
    use crate::node::testing::{announcement, descriptor, founder, linked, outputs, to_verify};

    /// Broadcasts of the founder that members 1 to 20 wait for.
    fn two_broadcasts() -> (Node, [BroadcastId; 2]) {
        let mut node = founder();
        node.succession_signed(claim(2, 0), Signature([0; 64]));
        (1..=20).for_each(|own| node.standing_verified(standing(own, 0)));
        let ids = [0, 1].map(|_| node.broadcast(Time::ZERO, descriptor("mob", 64), None).expect("it is a member"));
        outputs(&mut node);
        (node, ids)
    }

    fn tell(node: &mut Node, from: u32, broadcast: BroadcastId, outcome: Result<Digest, String>) {
        let result = NodeResult { broadcast, outcome, elapsed_us: 0, traffic: Default::default() };
        node.handle_report(NodeId(from), Report::Result(result));
    }

    /// Whether a release is to be signed by now.
    fn releases(node: &mut Node, millis: u64) -> bool {
        node.handle_timeout(Time::ZERO + Duration::from_millis(millis));
        outputs(node).iter().any(|output| matches!(output, Output::Sign { signer: Signer::Authority, .. }))
    }

    #[test]
    fn what_the_coordinator_does_not_want_is_not_over_before_the_others_are_done() {
        let (mut node, id) = unwanted();
        for member in 2..=20 {
            assert!(!releases(&mut node, u64::from(member) * 600), "member {member} and those behind it wait");
            tell(&mut node, member, id, Ok(Digest([3; 32])));
        }
        assert!(releases(&mut node, 12_600));
        node.release_signed(id, Signature([4; 64]));
        tell(&mut node, 2, id, Ok(Digest([3; 32])));
        assert!(releases(&mut node, 13_200), "it has not heard of it");
    }

    /// A broadcast of member 1's that the coordinator's application has declined.
    fn unwanted() -> (Node, BroadcastId) {
        let (mut node, _) = two_broadcasts();
        let root = NodeId(1);
        let id = BroadcastId { root, sequence: 7 };
        let link = linked(&mut node, root);
        declines(&mut node, link, id);
        outputs(&mut node);
        (node, id)
    }

    /// A peer announces a broadcast, which the node's application declines and forgets.
    fn declines(node: &mut Node, link: LinkId, id: BroadcastId) {
        let announcement = Box::new(announcement(node, id.root, descriptor("mob", 64)));
        outputs(node);
        node.handle_frame(Time::ZERO, link, Frame::Announce { broadcast: id, announcement });
        let token = to_verify(&outputs(node)).expect("it is verified");
        node.handle_verified(Time::ZERO, token, true);
        node.decline(Time::ZERO, id, "no use for it".into());
        node.forget(Time::ZERO, id);
    }

    #[test]
    fn who_comes_to_coordinate_is_told_of_what_a_member_has_declined_until_it_is_over() {
        let mut node = follower();
        let parent = linked(&mut node, NodeId(1));
        let id = BroadcastId { root: NodeId(7), sequence: 0 };
        declines(&mut node, parent, id);
        let said = |node: &mut Node| {
            node.pending.clear();
            node.repeat_reports();
            let failed =
                |pending: &Pending| matches!(pending, Pending::SignReport(Report::Result(r)) if r.outcome.is_err());
            let over = node.finished.latest_first().count();
            (over, node.pending.values().filter(|pending| failed(pending)).count())
        };
        assert_eq!(said(&mut node), (0, 1), "it is not over because it came to nothing here");
        let release = Frame::Release { broadcast: id, signature: Signature([4; 64]) };
        outputs(&mut node);
        node.handle_frame(Time::ZERO, parent, release);
        let token = to_verify(&outputs(&mut node)).expect("it is verified");
        node.handle_verified(Time::ZERO, token, true);
        assert_eq!(said(&mut node), (1, 0));
    }

    #[test]
    fn the_root_of_what_the_coordinator_does_not_want_is_missed_by_the_others() {
        let (mut node, id) = unwanted();
        tell(&mut node, 2, id, Ok(Digest([3; 32])));
        assert!(!releases(&mut node, 600));
        node.lose_member(id.root);
        outputs(&mut node);
        assert!(releases(&mut node, 1_200), "the loss of its root is signed");
        node.root_loss_signed(id, Signature([4; 64]));
        tell(&mut node, 2, id, Ok(Digest([3; 32])));
        assert!(releases(&mut node, 1_800), "who has everything may go");
    }

    /// What a member that comes to the node and announces a broadcast is answered.
    fn answered(node: &mut Node, member: u32, frame: Frame) -> Vec<Frame> {
        let link = linked(node, NodeId(member));
        outputs(node);
        node.handle_frame(Time::ZERO, link, frame);
        let frame = |output| match output {
            Output::Send { link: to, frame } if to == link => Some(frame),
            _ => None,
        };
        outputs(node).into_iter().filter_map(frame).collect()
    }

    #[test]
    fn whoever_announces_what_its_root_has_given_up_meanwhile_is_told_so() {
        let signature = Signature([6; 64]);
        let abort = |broadcast| Frame::Abort { broadcast, reason: "no more use".into(), signature };
        let mut root = founder();
        let id = root.broadcast(Time::ZERO, descriptor("mob", 64), None).expect("it is a member");
        let announce = root.broadcasts[&id].announce_frame();
        root.abort_signed(id, "no more use".into(), signature);
        assert_eq!(answered(&mut root, 3, announce.clone()), [abort(id)]);
        root.forget(Time::ZERO, id);
        assert_eq!(answered(&mut root, 4, announce), [abort(id)], "its application has no more use for it");

        let mut peer = founder();
        let of = NodeId(5);
        let id = BroadcastId { root: of, sequence: 0 };
        let link = linked(&mut peer, of);
        let announcement = Box::new(announcement(&peer, of, descriptor("mob", 64)));
        let announce = Frame::Announce { broadcast: id, announcement };
        for frame in [announce.clone(), abort(id)] {
            outputs(&mut peer);
            peer.handle_frame(Time::ZERO, link, frame);
            let token = to_verify(&outputs(&mut peer)).expect("it is verified");
            peer.handle_verified(Time::ZERO, token, true);
        }
        assert_eq!(answered(&mut peer, 3, announce.clone()), [abort(id)]);
        peer.forget(Time::ZERO, id);
        assert_eq!(answered(&mut peer, 4, announce), [abort(id)]);
    }

    /// Who is led to the root after so many seconds.
    fn led(node: &mut Node, second: u64) -> Vec<(BroadcastId, u32)> {
        node.set_now(Time::ZERO + Duration::from_secs(second));
        node.look_after_the_last();
        node.coordination.led_to_root.iter().map(|&(id, member)| (id, member.0)).collect()
    }

    #[test]
    fn the_last_members_of_what_others_have_given_up_are_led_to_the_root_in_turn() {
        let (mut calm, _) = two_broadcasts();
        assert_eq!(led(&mut calm, 60), [], "nobody has given anything up");
        let (mut node, [first, second]) = two_broadcasts();
        let of = |id, members: &[u32]| -> Vec<_> { members.iter().map(|&member| (id, member)).collect() };
        tell(&mut node, 2, first, Err("the sender is gone".into()));
        assert_eq!(led(&mut node, 9), [], "they may be waiting for the next piece");
        assert_eq!(led(&mut node, 10), of(first, &[1, 3, 4, 5, 6, 7, 8, 9]));
        tell(&mut node, 2, second, Err("the sender is gone".into()));
        assert_eq!(led(&mut node, 11).len(), LAST_MAX, "of all broadcasts of a root");
        assert_eq!(led(&mut node, 30), of(first, &[10, 11, 12, 13, 14, 15, 16, 17]), "others have their turn");
        tell(&mut node, 12, first, Err("no space left".into()));
        node.coordination.note_news(first, node.now);
        let left = [10, 11, 13, 14, 15, 16, 17];
        assert_eq!(led(&mut node, 35)[..7], of(first, &left), "who gets on keeps its link");
        left.into_iter().for_each(|member| tell(&mut node, member, first, Err("no space left".into())));
        assert!(led(&mut node, 36).iter().all(|&(id, _)| id == second), "they are done");
    }
}
