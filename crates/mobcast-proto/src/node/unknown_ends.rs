//! Ends of broadcasts that this node does not have: its application did not want them or is done with them, or it has never heard of them.
//! Those below it may be waiting for the word all the same. The authority has signed it, so it can be verified without the broadcast, and it goes
//! on down the control tree.

use std::collections::VecDeque;

use crate::limits::BROADCASTS_MAX;
use crate::time::{Duration, Time};
use crate::units::{BroadcastId, LinkId, NodeId, Signature};
use crate::wire::frame::Frame;

use super::Node;

/// The same word is not passed on again within this: what orphans hang on may for a while be part of a circle.
const PASSED_ON_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct UnknownEnds {
    /// What was passed on within the interval, the oldest first.
    passed_on: VecDeque<(Time, Frame)>,
    /// The word that a root is gone, the oldest first: this node may hear of the broadcast yet, and those who come below it have to know.
    root_losses: VecDeque<(BroadcastId, Signature)>,
}

impl UnknownEnds {
    /// Whether an end was passed on a moment ago, or so many that nobody knows.
    fn has(&self, end: &Frame, now: Time) -> bool {
        let mut lately = self.passed_on.iter().filter(|(at, _)| now.since(*at) < PASSED_ON_INTERVAL);
        let many = lately.clone().count() >= BROADCASTS_MAX;
        many || lately.any(|(_, other)| other == end)
    }

    /// An end is passed on.
    pub(super) fn note(&mut self, end: Frame, now: Time) {
        let is_old = |&(at, _): &(Time, Frame)| now.since(at) >= PASSED_ON_INTERVAL;
        while self.passed_on.len() >= BROADCASTS_MAX || self.passed_on.front().is_some_and(is_old) {
            self.passed_on.pop_front();
        }
        self.passed_on.push_back((now, end));
    }

    /// The root of a broadcast is gone, as the authority has signed.
    pub(super) fn hold_root_loss(&mut self, id: BroadcastId, signature: Signature) {
        self.take_root_loss(id);
        if self.root_losses.len() >= BROADCASTS_MAX {
            self.root_losses.pop_front();
        }
        self.root_losses.push_back((id, signature));
    }

    /// What was heard of the loss of a broadcast's root before the broadcast; it is needed no more where the broadcast is there, or over.
    pub(super) fn take_root_loss(&mut self, id: BroadcastId) -> Option<Signature> {
        let at = self.root_losses.iter().position(|(other, _)| *other == id)?;
        self.root_losses.remove(at).map(|(_, signature)| signature)
    }

    /// What was heard of the loss of roots.
    pub(super) fn root_losses(&self) -> impl Iterator<Item = Frame> {
        self.root_losses.iter().map(|&(broadcast, signature)| Frame::RootLost { broadcast, signature })
    }

    /// A root that was said to be lost is there again.
    pub(super) fn root_is_back(&mut self, root: NodeId) {
        self.root_losses.retain(|(id, _)| id.root != root);
    }
}

impl Node {
    /// Whether an end is to be verified: of a broadcast that this node does not have it takes it from above alone.
    pub(super) fn hears_end(&self, link: LinkId, id: BroadcastId, end: &Frame) -> bool {
        let from_above = self.upward_link() == Some(link);
        self.broadcasts.contains_key(&id) || (from_above && !self.unknown_ends.has(end, self.now))
    }

    /// The end, verified, of a broadcast that this node does not have.
    pub(super) fn pass_unknown_end_on(&mut self, from: LinkId, end: Frame) {
        if self.upward_link() != Some(from) || self.unknown_ends.has(&end, self.now) {
            return;
        }
        for link in self.child_links().into_iter().filter(|&link| link != from) {
            self.send(link, end.clone());
        }
        self.unknown_ends.note(end, self.now);
    }

    /// The loss of a root may be heard of before its broadcast: those above announce no broadcast that they have given up.
    pub(super) fn unknown_root_lost(&mut self, from: LinkId, broadcast: BroadcastId, signature: Signature) {
        if self.upward_link() == Some(from) {
            self.unknown_ends.hold_root_loss(broadcast, signature);
        }
        self.pass_unknown_end_on(from, Frame::RootLost { broadcast, signature });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Output;
    use crate::node::founder::tests::follower;
    use crate::node::testing::{announcement, descriptor, linked, outputs, to_verify};

    const ROOT: NodeId = NodeId(7);
    const ID: BroadcastId = BroadcastId { root: ROOT, sequence: 0 };
    const SIGNATURE: Signature = Signature([4; 64]);

    /// A member between the one above it and one below it.
    struct Between {
        node: Node,
        above: LinkId,
        below: LinkId,
    }

    impl Between {
        fn new() -> Between {
            let mut node = follower();
            let parent = node.membership.parent().expect("a member has one");
            let (above, below) = (linked(&mut node, parent), linked(&mut node, NodeId(9)));
            node.membership.children.insert(NodeId(9));
            outputs(&mut node);
            Between { node, above, below }
        }

        /// What goes down the tree when a frame has come, and was verified where the node asks for that.
        fn passes_on(&mut self, millis: u64, link: LinkId, frame: Frame) -> Vec<Frame> {
            let now = Time::ZERO + Duration::from_millis(millis);
            self.node.handle_frame(now, link, frame);
            let mut said = outputs(&mut self.node);
            if let Some(token) = to_verify(&said) {
                self.node.handle_verified(now, token, true);
                said.extend(outputs(&mut self.node));
            }
            let below = |output| match output {
                Output::Send { link, frame } if link == self.below => Some(frame),
                _ => None,
            };
            said.into_iter().filter_map(below).collect()
        }
    }

    #[test]
    fn what_ends_reaches_those_below_one_that_has_never_heard_of_it_or_wants_it_no_more() {
        for is_declined in [false, true] {
            let mut between = Between::new();
            let Between { above, below, .. } = between;
            if is_declined {
                let announcement = Box::new(announcement(&between.node, ROOT, descriptor("mob", 64)));
                between.passes_on(0, above, Frame::Announce { broadcast: ID, announcement });
                assert!(between.node.broadcasts.contains_key(&ID));
                between.node.decline(Time::ZERO, ID, "no use for it".into());
                between.node.forget(Time::ZERO, ID);
                outputs(&mut between.node);
            }
            let release = || Frame::Release { broadcast: ID, signature: SIGNATURE };
            let loss = || Frame::RootLost { broadcast: ID, signature: SIGNATURE };
            for end in [loss, release] {
                assert_eq!(between.passes_on(0, above, end()), [end()], "declined: {is_declined}");
            }
            assert_eq!(between.passes_on(999, above, release()), [], "it may go round in a circle");
            assert_eq!(between.passes_on(1_000, above, release()), [release()], "somebody waits for it still");
            let beside = linked(&mut between.node, NodeId(12));
            for link in [beside, below] {
                assert_eq!(between.passes_on(5_000, link, release()), [], "not from above");
            }
        }
    }

    #[test]
    fn who_comes_below_one_that_has_not_got_a_broadcast_hears_from_it_that_the_root_is_gone_until_it_is_back() {
        let mut between = Between::new();
        let loss = Frame::RootLost { broadcast: ID, signature: SIGNATURE };
        between.passes_on(0, between.above, loss.clone());
        let told = |between: &mut Between| {
            between.node.greet_child(between.below);
            outputs(&mut between.node)
        };
        assert_eq!(told(&mut between), [Output::Send { link: between.below, frame: loss }]);
        between.node.root_is_back(ROOT);
        assert_eq!(told(&mut between), []);
    }

    /// The link over which it has come may be gone when the broadcast is heard of.
    #[test]
    fn the_loss_of_a_root_is_known_whoever_announces_the_broadcast() {
        let mut between = Between::new();
        let Between { above, below, .. } = between;
        between.passes_on(0, above, Frame::RootLost { broadcast: ID, signature: SIGNATURE });
        between.node.handle_link_down(Time::ZERO, above);
        let announcement = Box::new(announcement(&between.node, ROOT, descriptor("mob", 64)));
        between.passes_on(1, below, Frame::Announce { broadcast: ID, announcement });
        assert_eq!(between.node.broadcasts.get(&ID).expect("it is announced").root_loss, Some(SIGNATURE));
    }

    #[test]
    fn what_is_over_needs_no_word_of_its_root() {
        let mut between = Between::new();
        between.passes_on(0, between.above, Frame::RootLost { broadcast: ID, signature: SIGNATURE });
        between.passes_on(0, between.above, Frame::Release { broadcast: ID, signature: SIGNATURE });
        assert_eq!(between.node.unknown_ends.root_losses().count(), 0);
    }

    #[test]
    fn many_ends_in_a_circle_do_not_push_each_other_out() {
        let mut between = Between::new();
        let ends = |between: &mut Between, millis: u64| {
            let release = |sequence| {
                let broadcast = BroadcastId { root: ROOT, sequence };
                between.passes_on(millis, between.above, Frame::Release { broadcast, signature: SIGNATURE }).len()
            };
            (0..2 * BROADCASTS_MAX as u32).map(release).sum::<usize>()
        };
        assert_eq!([0, 500, 1_000].map(|millis| ends(&mut between, millis)), [BROADCASTS_MAX, 0, BROADCASTS_MAX]);
    }

    #[test]
    fn of_many_lost_roots_the_last_ones_are_remembered() {
        let mut between = Between::new();
        let ids = (0..=BROADCASTS_MAX as u32).map(|sequence| BroadcastId { root: ROOT, sequence });
        for (second, broadcast) in ids.clone().enumerate() {
            let loss = Frame::RootLost { broadcast, signature: SIGNATURE };
            between.passes_on(1_000 * second as u64, between.above, loss);
        }
        let held = |id| between.node.unknown_ends.take_root_loss(id).is_some();
        assert_eq!(ids.map(held).collect::<Vec<_>>(), [vec![false], vec![true; BROADCASTS_MAX]].concat());
    }
}
