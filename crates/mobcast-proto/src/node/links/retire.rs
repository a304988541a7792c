//! Of two links between the same nodes, both made at once, one is retired: nothing that was sent on it is lost.

use crate::io::{CloseReason, Output, PeerIdentity};
use crate::node::Node;
use crate::units::{LinkId, NodeId};
use crate::wire::frame::Frame;

use super::Link;

impl Node {
    /// Whether a link, just up, is retired at once because there is another one to the same node. If not, the other one is: both
    /// keep the link that the lower node made; of two made by the same node, the later one.
    pub(super) fn is_surplus(&mut self, link: LinkId, identity: PeerIdentity, node: NodeId) -> bool {
        let Some(other) = self.link_to(node) else { return false };
        let own = self.id().unwrap_or(NodeId(u32::MAX));
        let made_by = |link| if self.links[&link].dial.is_some() { own } else { node };
        let surplus = made_by(other) < made_by(link);
        if surplus && let Some(state) = self.links.get_mut(&link) {
            state.identity = Some(identity);
            state.heard_at = self.now;
        }
        self.retire(if surplus { link } else { other }, node);
        surplus
    }

    /// From here on this node sends over another link to the same member. What that one still sends over this link, until it has
    /// changed over too, counts as if it had come over the other: nothing is lost on the way between coordinator and member.
    fn retire(&mut self, link: LinkId, node: NodeId) {
        self.close_retired(node);
        let Some(state) = self.links.get_mut(&link) else { return };
        state.retired_at = Some(self.now);
        let left_by_peer = state.left_by_peer;
        self.forget_link(link);
        self.outputs.push_back(Output::Send { link, frame: Frame::Retire });
        if left_by_peer {
            self.close(link, CloseReason::Duplicate);
        } else {
            self.outputs.push_back(Output::Retire { link });
        }
    }

    /// No link outlives the one for which it was retired.
    pub(super) fn close_retired(&mut self, node: NodeId) {
        let retired = self.links.iter().find(|(_, state)| state.retired_from() == Some(node));
        if let Some((link, _)) = retired {
            self.close(link, CloseReason::Duplicate);
        }
    }

    /// The peer sends over another link to this node from here on, which may not be up here yet.
    pub(in crate::node) fn left_by_peer(&mut self, link: LinkId) {
        if let Some(state) = self.links.get_mut(&link) {
            state.left_by_peer = true;
            if state.is_retired() {
                self.close(link, CloseReason::Duplicate);
            }
        }
    }

    /// A frame over a link that is retired. What belongs to the exchange of pieces has ended with the link.
    pub(in crate::node) fn last_frame(&mut self, link: LinkId, frame: Frame) {
        let node = self.links.get(&link).and_then(Link::retired_from);
        match frame {
            Frame::Retire => self.left_by_peer(link),
            Frame::Have { .. }
            | Frame::WantBatches { .. }
            | Frame::Request { .. }
            | Frame::Cancel { .. }
            | Frame::Reject { .. }
            | Frame::Strategy { .. }
            | Frame::Ping { .. }
            | Frame::Pong { .. } => {}
            _ => {
                if let Some(other) = node.and_then(|node| self.link_to(node)) {
                    self.member_frame(other, frame);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::assignment::PeerAddress;
    use crate::group::succession::Succession;
    use crate::limits::SILENCE_MAX;
    use crate::node::testing::{founder, linked, outputs};
    use crate::time::{Duration, Time};
    use crate::units::{BroadcastId, ByteRange, ClusterId, PieceIndex, Signature};
    use crate::wire::frame::Hello;

    const PEER: NodeId = NodeId(5);

    fn up(node: &mut Node, link: Option<LinkId>) -> LinkId {
        let Some(link) = link else { return linked(node, PEER) };
        let identity = PeerIdentity::Member { node: PEER, cluster: ClusterId(0) };
        let hello = Hello { node: PEER, ..node.hello(0) };
        node.handle_link_up(Time::ZERO, link, identity, &hello);
        link
    }

    fn dialled(node: &mut Node) -> LinkId {
        node.dial_member(PEER, vec!["127.0.0.1:7077".parse().expect("an address")], None);
        let made = outputs(node).into_iter().find_map(|output| match output {
            Output::Connect { link, .. } => Some(link),
            _ => None,
        });
        made.expect("a dial")
    }

    fn closed(outputs: &[Output]) -> Vec<LinkId> {
        let link = |output: &Output| match output {
            Output::Close { link, .. } => Some(*link),
            _ => None,
        };
        outputs.iter().filter_map(link).collect()
    }

    fn retired(outputs: &[Output]) -> Vec<LinkId> {
        let link = |output: &Output| match output {
            Output::Send { link, frame: Frame::Retire } => Some(*link),
            _ => None,
        };
        outputs.iter().filter_map(link).collect()
    }

    /// Whether what the peer says of the group is heard.
    fn hears(node: &mut Node, link: LinkId) -> bool {
        let coordinator = PeerAddress { node: PEER, cluster: ClusterId(0), rank: 0, addresses: Vec::new() };
        let succession = Succession { term: 1, coordinator };
        node.handle_frame(Time::ZERO, link, Frame::Succession { succession, signature: Signature([0; 64]) });
        outputs(node).iter().any(|output| matches!(output, Output::Verify { .. }))
    }

    #[test]
    fn of_two_links_one_is_closed_when_both_sides_have_sent_their_last_frame_on_it() {
        // The lower node's link stays, whichever is up first.
        for own_first in [true, false] {
            let mut node = founder();
            let own = dialled(&mut node);
            let (peers, seen) = if own_first {
                up(&mut node, Some(own));
                outputs(&mut node);
                (up(&mut node, None), outputs(&mut node))
            } else {
                let peers = up(&mut node, None);
                outputs(&mut node);
                up(&mut node, Some(own));
                (peers, outputs(&mut node))
            };
            assert_eq!((retired(&seen), closed(&seen)), (vec![peers], vec![]));
            assert!(seen.contains(&Output::Retire { link: peers }));
            assert_eq!((node.link_to(PEER), node.member_links(), node.link_count()), (Some(own), vec![own], 1));

            assert!(hears(&mut node, peers), "sent before the peer had both links");
            let (broadcast, piece) = (BroadcastId { root: NodeId(0), sequence: 0 }, PieceIndex(0));
            let request = Frame::Request { broadcast, piece, range: ByteRange { start: 0, end: 1 } };
            node.handle_frame(Time::ZERO, peers, request);
            assert_eq!(outputs(&mut node), vec![], "pieces are asked for anew");

            node.handle_frame(Time::ZERO, peers, Frame::Retire);
            assert_eq!(closed(&outputs(&mut node)), vec![peers]);
            assert_eq!(node.link_to(PEER), Some(own));
        }
    }

    #[test]
    fn a_link_that_the_peer_has_left_serves_until_the_other_one_is_up() {
        let mut node = founder();
        let own = dialled(&mut node);
        let peers = up(&mut node, None);
        node.handle_frame(Time::ZERO, peers, Frame::Retire);
        let seen = outputs(&mut node);
        assert_eq!((node.link_to(PEER), closed(&seen)), (Some(peers), vec![]));
        up(&mut node, Some(own));
        let seen = outputs(&mut node);
        assert_eq!((retired(&seen), closed(&seen)), (vec![peers], vec![peers]));
        assert_eq!(node.link_to(PEER), Some(own));
    }

    #[test]
    fn a_retired_link_ends_with_the_one_that_replaced_it_or_when_its_peer_says_nothing() {
        let mut node = founder();
        let own = dialled(&mut node);
        let peers = up(&mut node, None);
        up(&mut node, Some(own));
        outputs(&mut node);
        node.handle_link_down(Time::ZERO, own);
        assert_eq!(closed(&outputs(&mut node)), vec![peers]);
        assert_eq!(node.links.len(), 0);

        // Of links that the same node makes again and again no more than two are kept.
        let links: Vec<LinkId> = (0..10).map(|_| up(&mut node, None)).collect();
        let seen = outputs(&mut node);
        assert_eq!((closed(&seen), node.links.len()), (links[..8].to_vec(), 2));
        assert_eq!(node.link_to(PEER), Some(links[9]));
        let mut now = Time::ZERO;
        while now < Time::ZERO + SILENCE_MAX {
            now += Duration::from_secs(1);
            node.handle_frame(now, links[9], Frame::Ping { token: 1 });
            node.handle_timeout(now);
        }
        assert_eq!(closed(&outputs(&mut node)), vec![links[8]]);
        assert_eq!(node.link_to(PEER), Some(links[9]));
    }
}
