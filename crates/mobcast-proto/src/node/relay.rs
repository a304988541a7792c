//! Passing on what the coordinator sends down the control tree. It sends no more than comes through, so a relay tells it when the links
//! below have taken what was passed on over them: a link to another cluster may be far slower than the one over which it came.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::PASSED_ON_BYTES_MAX;
use crate::units::{LinkId, NodeId};
use crate::wire::frame::Frame;

use super::Node;

/// What a frame on its way down has beside the frame in it and the path.
const ROUTED_BYTES: usize = 16;

/// What a node has passed on to relays below it and does not know to be through. A member right below that is no relay gets views of
/// its own alone: it need not answer, and whether it sleeps keeps no others waiting.
#[derive(Debug, Default)]
pub(super) struct Relay {
    /// Relays below to whom something was passed on since they were asked last.
    passed_on: BTreeSet<NodeId>,
    /// Questions that wait for answers from below, by who asks.
    questions: BTreeMap<NodeId, Question>,
    /// The last question to anybody below.
    last_token: u64,
}

#[derive(Debug)]
struct Question {
    token: u64,
    /// Who has to answer, and which question at least.
    awaited: BTreeMap<NodeId, u64>,
}

impl Relay {
    fn passed_on(&mut self, to: NodeId) {
        self.passed_on.insert(to);
    }

    /// Somebody asks whether what came before is through. Returns the questions to those below, of whom the answer depends; none: it is.
    fn asked(&mut self, by: NodeId, token: u64) -> Vec<(NodeId, u64)> {
        let mut below = Vec::new();
        for node in std::mem::take(&mut self.passed_on) {
            self.last_token += 1;
            below.push((node, self.last_token));
        }
        // Whoever asks again has given up the first question, and not what it was about.
        let mut awaited = self.questions.remove(&by).map(|old| old.awaited).unwrap_or_default();
        awaited.extend(below.iter().copied());
        self.questions.insert(by, Question { token, awaited });
        below
    }

    /// Somebody below answers.
    fn answered(&mut self, by: NodeId, token: u64) {
        for question in self.questions.values_mut() {
            if question.awaited.get(&by).is_some_and(|&awaited| awaited <= token) {
                question.awaited.remove(&by);
            }
        }
    }

    /// The link to a node is gone, and with it what was on its way and what it asked.
    fn gone(&mut self, node: NodeId) {
        self.passed_on.remove(&node);
        self.questions.remove(&node);
        self.answered(node, u64::MAX);
    }

    /// Answers that are due: to whom, and to which question.
    fn due(&mut self) -> Vec<(NodeId, u64)> {
        let due = self.questions.extract_if(.., |_, question| question.awaited.is_empty());
        due.map(|(by, question)| (by, question.token)).collect()
    }
}

impl Node {
    /// A frame on its way down the tree. Only what the authority has signed travels so: of anything else the receiver
    /// could not tell who says it. What there is no room for is left out: the coordinator sends again what is not acknowledged.
    pub(super) fn routed(&mut self, path: Vec<NodeId>, frame: Vec<u8>) {
        // A way down leads to each node once. In circles, one frame of anybody's would fill the links of others.
        let steps: BTreeSet<NodeId> = path.iter().copied().chain(self.id()).collect();
        if steps.len() <= path.len() {
            return;
        }
        let Some((&next, rest)) = path.split_first() else { return };
        let Some(link) = self.link_to(next).filter(|&link| self.under_way(link) < PASSED_ON_BYTES_MAX) else { return };
        let bytes = frame.len() + ROUTED_BYTES + path.len() * size_of::<NodeId>();
        let frame = if rest.is_empty() {
            // The last relay is not to blame for what another one wrote.
            let Ok(frame @ Frame::Assign { .. }) = Frame::decode(&frame) else { return };
            frame
        } else {
            self.relay.passed_on(next);
            Frame::Routed { path: rest.to_vec(), frame }
        };
        self.pass_on(link, frame, bytes);
    }

    /// Whoever sends frames to be passed on asks whether those before this one are through.
    pub(super) fn check_way(&mut self, link: LinkId, token: u64) {
        let Some(by) = self.member_at(link) else { return };
        for (node, token) in self.relay.asked(by, token) {
            match self.link_to(node) {
                Some(link) => self.send(link, Frame::CheckWay { token }),
                None => self.relay.gone(node),
            }
        }
        self.answer_ways();
    }

    /// A node below says that what was sent to it before a question is through.
    pub(super) fn way_clear(&mut self, link: LinkId, token: u64) {
        let Some(by) = self.member_at(link) else { return };
        self.child_answered(by, token);
        self.relay.answered(by, token);
        self.answer_ways();
    }

    /// A node is not below this one any more.
    pub(super) fn way_gone(&mut self, node: NodeId) {
        self.relay.gone(node);
        self.answer_ways();
    }

    fn answer_ways(&mut self) {
        for (by, token) in self.relay.due() {
            if let Some(link) = self.link_to(by) {
                self.send(link, Frame::WayClear { token });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{CloseReason, Output};
    use crate::limits::FRAME_BYTES_MAX;
    use crate::node::testing::{founder, linked, outputs};
    use crate::time::Time;

    const ABOVE: NodeId = NodeId(1);
    const OTHER: NodeId = NodeId(2);

    #[test]
    fn what_was_not_passed_on_is_through() {
        let mut relay = Relay::default();
        assert_eq!(relay.asked(ABOVE, 7), []);
        assert_eq!(relay.due(), [(ABOVE, 7)]);
        assert_eq!(relay.due(), [], "it is said once");
    }

    #[test]
    fn what_was_passed_on_is_through_when_all_below_say_so() {
        let mut relay = Relay::default();
        [10, 11, 10].map(NodeId).into_iter().for_each(|to| relay.passed_on(to));
        assert_eq!(relay.asked(ABOVE, 7), [(NodeId(10), 1), (NodeId(11), 2)]);
        assert_eq!(relay.asked(OTHER, 8), [], "they have been asked");
        assert_eq!(relay.due(), [(OTHER, 8)]);
        relay.answered(NodeId(10), 1);
        relay.answered(NodeId(11), 1);
        assert_eq!(relay.due(), [], "that is no answer to what was asked");
        relay.answered(NodeId(11), 2);
        assert_eq!(relay.due(), [(ABOVE, 7)]);
    }

    #[test]
    fn whoever_asks_again_waits_for_what_was_passed_on_before_too() {
        let mut relay = Relay::default();
        relay.passed_on(NodeId(10));
        assert_eq!(relay.asked(ABOVE, 7), [(NodeId(10), 1)]);
        assert_eq!(relay.asked(ABOVE, 8), []);
        assert_eq!(relay.due(), []);
        relay.passed_on(NodeId(10));
        assert_eq!(relay.asked(ABOVE, 9), [(NodeId(10), 2)]);
        relay.answered(NodeId(10), 1);
        assert_eq!(relay.due(), []);
        relay.answered(NodeId(10), 2);
        assert_eq!(relay.due(), [(ABOVE, 9)]);
    }

    #[test]
    fn who_is_gone_is_neither_waited_for_nor_answered() {
        let mut relay = Relay::default();
        [10, 11].map(NodeId).into_iter().for_each(|to| relay.passed_on(to));
        assert_eq!(relay.asked(ABOVE, 7).len(), 2);
        relay.passed_on(NodeId(11));
        assert_eq!(relay.asked(OTHER, 8).len(), 1);
        relay.gone(NodeId(11));
        assert_eq!(relay.due(), [(OTHER, 8)]);
        relay.gone(ABOVE);
        relay.answered(NodeId(10), 1);
        assert_eq!(relay.due(), []);
    }

    /// A node between one above and two below.
    struct Between {
        node: Node,
        above: LinkId,
        below: [LinkId; 2],
    }

    impl Between {
        fn new() -> Between {
            let mut node = founder();
            let above = linked(&mut node, ABOVE);
            let below = [10, 11].map(|n| linked(&mut node, NodeId(n)));
            outputs(&mut node);
            Between { node, above, below }
        }

        /// Control frames by which the node answers to one.
        fn said(&mut self, link: LinkId, frame: Frame) -> Vec<(LinkId, Frame)> {
            self.node.handle_frame(Time::ZERO, link, frame);
            sent(&mut self.node)
        }

        /// Something comes from above for a member, which may hang below others.
        fn passes_on(&mut self, path: &[u32]) {
            let path = path.iter().copied().map(NodeId).collect();
            let said = self.said(self.above, Frame::Routed { path, frame: Frame::Bye.encode() });
            assert_eq!(said.len(), 1, "it is passed on");
        }
    }

    fn sent(node: &mut Node) -> Vec<(LinkId, Frame)> {
        let frame = |output| match output {
            Output::Send { link, frame } => Some((link, frame)),
            _ => None,
        };
        outputs(node).into_iter().filter_map(frame).collect()
    }

    #[test]
    fn a_way_is_clear_when_the_last_relay_has_what_came_over_it() {
        let mut between = Between::new();
        let (above, [below, beside]) = (between.above, between.below);
        between.passes_on(&[10, 20]);
        assert_eq!(between.said(above, Frame::CheckWay { token: 7 }), [(below, Frame::CheckWay { token: 1 })]);
        assert_eq!(between.said(beside, Frame::WayClear { token: 1 }), []);
        assert_eq!(between.said(below, Frame::WayClear { token: 1 }), [(above, Frame::WayClear { token: 7 })]);
    }

    #[test]
    fn a_way_is_clear_when_the_link_below_is_gone_or_closed_by_this_node() {
        let ends: [fn(&mut Node, LinkId); 2] = [
            |node, below| node.handle_link_down(Time::ZERO, below),
            |node, below| node.close(below, CloseReason::Unneeded),
        ];
        for end in ends {
            let mut between = Between::new();
            let (above, [below, _]) = (between.above, between.below);
            between.passes_on(&[10, 20]);
            assert_eq!(between.said(above, Frame::CheckWay { token: 7 }).len(), 1);
            end(&mut between.node, below);
            let answer = (above, Frame::WayClear { token: 7 });
            assert!(sent(&mut between.node).contains(&answer), "what was on its way is lost, and awaited no more");
        }
    }

    #[test]
    fn what_goes_round_in_circles_is_not_passed_on() {
        let mut between = Between::new();
        for path in [&[10, 11, 10][..], &[10, 0, 11]] {
            let path = path.iter().copied().map(NodeId).collect();
            let frame = Frame::Routed { path, frame: Frame::Bye.encode() };
            assert_eq!(between.said(between.above, frame), []);
        }
    }

    #[test]
    fn no_more_is_passed_on_than_comes_through() {
        let mut between = Between::new();
        let (above, [below, _]) = (between.above, between.below);
        let flood = |between: &mut Between| {
            let routed = || Frame::Routed { path: [10, 20].map(NodeId).into(), frame: vec![0; 60 << 10] };
            (0..32).flat_map(|_| between.said(above, routed())).collect::<Vec<_>>()
        };
        let said = flood(&mut between);
        let bytes = |said: &[(LinkId, Frame)]| said.iter().map(|(_, frame)| frame.encode().len()).sum::<usize>();
        let expected = PASSED_ON_BYTES_MAX..PASSED_ON_BYTES_MAX + FRAME_BYTES_MAX;
        assert!(expected.contains(&bytes(&said)), "{} bytes", bytes(&said));
        let ping = said.iter().find_map(|(_, frame)| match frame {
            Frame::Ping { token } => Some(*token),
            _ => None,
        });
        let pong = Frame::Pong { token: ping.expect("it asks what is through") };
        assert_eq!(between.said(below, pong), []);
        let more = bytes(&flood(&mut between));
        assert!(
            (PASSED_ON_BYTES_MAX / 2..PASSED_ON_BYTES_MAX).contains(&more),
            "{more} bytes in the place of what was"
        );
    }
}
