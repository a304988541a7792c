//! Releases on their way to all members: the authority's word that a broadcast is over, and nodes may go.
//!
//! A release goes down the control tree at once, that of an object in one frame the way of the object, with the next one. Whoever hears it may go, and a child whose link stands still for a moment (between
//! clusters, mostly) would find nobody left to hear it from: so each node says it to its other peers, too, before it goes, or
//! soon. Not at once: in a group that makes one small broadcast after another, as many frames as there are links would be on their way
//! beside the next object.

use crate::broadcast::{Broadcast, Phase};
use crate::content::manifest::SignatureDomain;
use crate::group::report::Report;
use crate::io::{CloseReason, Event, Output, Signer};
use crate::time::{Duration, Time};
use crate::units::{BroadcastId, LinkId, Signature};
use crate::wire::frame::Frame;

use super::broadcasts::broadcast_body;
use super::{Node, Pending};

/// A release that is heard again is passed on again after this: it may have been lost further down. Not at once, because what
/// orphans hang on may for a while be part of a circle; unless somebody further down is known to wait for it.
const RELEASE_INTERVAL: Duration = Duration::from_secs(1);
/// Releases that wait to be said to those who are no children. Who lacks an older one says its result again, and is answered.
const UNSAID_MAX: usize = 16;

/// The release of an object that went in one frame waits so long for another frame to the same peer, most often the next object: a
/// message of its own costs sender and receiver as much as the object did.
const HOLD: Duration = Duration::from_millis(4);
/// Further down what it goes along with has come with it, if it does so at all.
const HOLD_BELOW: Duration = Duration::from_millis(1);

/// Releases that wait for company.
#[derive(Default)]
pub(super) struct Held {
    frames: Vec<(LinkId, BroadcastId, Signature)>,
    /// Of which the application hears when the object that comes with them is on its way.
    untold: Vec<BroadcastId>,
    due: Option<Time>,
}

impl Held {
    /// When they leave at the latest; none if there are none.
    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    fn stop_if_none(&mut self) {
        if self.frames.is_empty() && self.untold.is_empty() {
            self.due = None;
        }
    }
}

/// A release that not all peers have heard from this node.
pub(super) struct Unsaid {
    broadcast: BroadcastId,
    signature: Signature,
    /// Links whose other ends have it: from here, or they have said it.
    known: Vec<LinkId>,
}

impl Node {
    pub(super) fn sign_release(&mut self, id: BroadcastId) {
        let signed = self.to_be_signed(Signer::Authority, SignatureDomain::Release, || broadcast_body(id, ""));
        self.have_signed(Pending::SignRelease { broadcast: id }, signed);
    }

    pub(super) fn release_signed(&mut self, id: BroadcastId, signature: Signature) {
        self.pass_release_on(id, signature, None);
        self.tell_released(id);
        self.finished.forget_failure(id);
        self.coordination.note_released(id);
    }

    /// A peer says that a broadcast is over.
    pub(super) fn release_heard(&mut self, link: LinkId, id: BroadcastId, signature: Signature) {
        let is_it = |unsaid: &&mut Unsaid| (unsaid.broadcast, unsaid.signature) == (id, signature);
        if let Some(unsaid) = self.unsaid.iter_mut().find(is_it).filter(|unsaid| !unsaid.known.contains(&link)) {
            unsaid.known.push(link);
        }
        let frame = Frame::Release { broadcast: id, signature };
        if self.is_released_already(id, signature, link) || !self.hears_end(link, id, &frame) {
            return;
        }
        let pending = Pending::VerifyRelease { broadcast: id, frame, link };
        self.verify_end(id, SignatureDomain::Release, signature, pending);
    }

    /// A coordinator that stood still, or was cut off, has not heard what another one released meanwhile. Whoever was released then says its result no
    /// more, once that has been sent, and it may be lost.
    pub(super) fn tell_coordinator_of_releases(&mut self) {
        let coordinator = self.membership.coordinator_node();
        let Some(link) = self.upward_link().filter(|&link| self.member_at(link) == Some(coordinator)) else { return };
        let release = |b: &Broadcast| b.release.map(|signature| Frame::Release { broadcast: b.id, signature });
        let releases: Vec<Frame> = self.broadcasts.values().filter_map(release).collect();
        releases.into_iter().for_each(|frame| self.send(link, frame));
    }

    /// Whoever reports its result when a broadcast has been released already, as late members do, waits for the release to be said again.
    pub(super) fn await_release(&mut self, report: &Report) {
        if let Report::Result(result) = report
            && let Some(broadcast) = self.broadcasts.get_mut(&result.broadcast)
        {
            broadcast.release_awaited |= broadcast.release.is_some();
        }
    }

    /// Whether a release says nothing new: it comes from several peers, and counts again only from above.
    fn is_released_already(&self, id: BroadcastId, signature: Signature, from: LinkId) -> bool {
        let told = self.broadcasts.get(&id).is_some_and(|b| b.released && b.release == Some(signature));
        told && self.upward_link() != Some(from)
    }

    pub(super) fn release_verified(&mut self, id: BroadcastId, frame: Frame, from: LinkId, valid: bool) {
        if !valid {
            return self.drop_peer(from, CloseReason::Violation(format!("forged the end of {id}")));
        }
        let Frame::Release { signature, .. } = frame else { return };
        if self.is_coordinating() {
            // Another coordinator has said so: members that it led may be done, and what they said of that lost with a link. So it ends
            // when nothing is news for long.
            if let Some(broadcast) = self.broadcasts.get_mut(&id) {
                broadcast.release.get_or_insert(signature);
            }
            return;
        }
        if !self.broadcasts.contains_key(&id) {
            self.finished.forget_failure(id);
            self.unknown_ends.take_root_loss(id);
            return self.pass_unknown_end_on(from, frame);
        }
        let now = self.now;
        let due =
            |b: &Broadcast| b.release_awaited || b.release_passed_at.is_none_or(|at| now.since(at) >= RELEASE_INTERVAL);
        if self.broadcasts.get(&id).is_some_and(due) {
            self.pass_release_on(id, signature, Some(from));
        }
        let done = |b: &Broadcast| b.reported || (b.phase == Phase::Complete && b.swarm().standing.node == id.root);
        match self.broadcasts.get(&id).filter(|broadcast| done(broadcast)) {
            Some(broadcast) if broadcast.whole.is_some() && self.id() != Some(id.root) => {
                self.held_releases.untold.push(id);
                self.held_releases.due.get_or_insert(now + HOLD_BELOW);
            }
            Some(_) => self.tell_released(id),
            None => {}
        }
    }

    /// Passes a release on, down the tree; when it is new, the other peers hear it later.
    fn pass_release_on(&mut self, id: BroadcastId, signature: Signature, from: Option<LinkId>) {
        let (mut new, mut small) = (false, false);
        if let Some(broadcast) = self.broadcasts.get_mut(&id) {
            broadcast.release_passed_at = Some(self.now);
            broadcast.release_awaited = false;
            new = broadcast.release.replace(signature).is_none();
            small = broadcast.whole.is_some();
        }
        let children = if small && new { self.small_release_links(id) } else { self.child_links() };
        let children: Vec<LinkId> = children.into_iter().filter(|&link| Some(link) != from).collect();
        let hold = if self.is_coordinating() { HOLD } else { HOLD_BELOW };
        for &link in &children {
            // Its root is about to start the next one.
            if small && new && self.member_at(link) != Some(id.root) {
                self.held_releases.frames.push((link, id, signature));
                self.held_releases.due.get_or_insert(self.now + hold);
            } else {
                self.send(link, Frame::Release { broadcast: id, signature });
            }
        }
        if new {
            // It comes from others too, when the broadcast may be forgotten here.
            self.unknown_ends.note(Frame::Release { broadcast: id, signature }, self.now);
            self.unsaid.truncate(UNSAID_MAX - 1);
            let known = children.into_iter().chain(from).collect();
            self.unsaid.push_front(Unsaid { broadcast: id, signature, known });
        }
    }

    /// Where the release of an object that went in one frame goes first: the way of the object, if that began at the coordinator, so
    /// that it goes along with the next one. Whoever it does not reach there hears it from another peer soon.
    fn small_release_links(&self, id: BroadcastId) -> Vec<LinkId> {
        let ours = id.root == self.membership.coordinator_node();
        if ours { self.whole_links(id) } else { self.child_links() }
    }

    /// Something is about to go to a peer: so do the releases that wait for that.
    pub(super) fn send_held_releases(&mut self, to: LinkId) {
        if self.held_releases.due.is_none() {
            return;
        }
        let own = self.held_releases.frames.extract_if(.., |&mut (link, ..)| link == to);
        let frame =
            |(link, broadcast, signature)| Output::Send { link, frame: Frame::Release { broadcast, signature } };
        self.outputs.extend(own.map(frame));
        self.held_releases.stop_if_none();
    }

    /// A link is gone. Whoever was there hears of releases when it has greeted another parent.
    pub(super) fn drop_held_releases(&mut self, of: LinkId) {
        self.held_releases.frames.retain(|&(link, ..)| link != of);
        self.held_releases.stop_if_none();
    }

    /// Sends the releases that have waited for long enough, and those behind them.
    pub(super) fn let_releases_go(&mut self) {
        if self.held_releases.due.is_some_and(|due| due <= self.now) {
            while let Some(&(link, ..)) = self.held_releases.frames.first() {
                self.send_held_releases(link);
            }
            std::mem::take(&mut self.held_releases.untold).into_iter().for_each(|id| self.tell_released(id));
            self.held_releases.due = None;
        }
    }

    /// Says the last releases to all peers that have not heard them.
    pub(super) fn say_releases(&mut self) {
        self.held_releases.due = self.held_releases.due.map(|_| self.now);
        self.let_releases_go();
        let links = self.member_links();
        while let Some(Unsaid { broadcast, signature, known }) = self.unsaid.pop_back() {
            let others = links.iter().filter(|link| !known.contains(link));
            others.for_each(|&link| self.send(link, Frame::Release { broadcast, signature }));
        }
    }

    /// Tells the application, once: the release is said again for late members, and for those who may have missed it.
    pub(super) fn tell_released(&mut self, id: BroadcastId) {
        if self.broadcasts.get_mut(&id).is_some_and(|b| !std::mem::replace(&mut b.released, true)) {
            self.event(Event::Released { broadcast: id });
        }
    }
}
