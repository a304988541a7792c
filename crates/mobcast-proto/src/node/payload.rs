//! Payload that has arrived. That of a broadcast's peers goes to its books; what others send counts for nothing.

use crate::broadcast::Broadcast;
use crate::io::{CloseReason, Output};
use crate::units::{BroadcastId, ByteRange, LinkId, PieceIndex};
use crate::wire::frame::{Frame, Refusal};

use super::Node;

/// Honest chunks are smaller only at the end of what was asked for.
const CRUMB_BYTES: u32 = 1 << 10;
/// Crumbs between two pings of a link of which nothing is wanted. Some come late, of broadcasts that this node has forgotten; these are
/// more than several hundred small objects a second leave.
const STRAYS_MAX: u32 = 4_096;

impl Node {
    pub(super) fn member_payload(&mut self, link: LinkId, broadcast: BroadcastId, piece: PieceIndex, range: ByteRange) {
        if broadcast == BroadcastId::FILLER {
            return self.filler_arrived(link, range.len());
        }
        let now = self.now;
        let swarm = self.broadcasts.get(&broadcast).map(Broadcast::swarm);
        if swarm.is_none_or(|swarm| swarm.peer(link).is_none()) {
            if swarm.is_some_and(|swarm| swarm.open_piece(piece).is_none()) {
                self.outputs.push_back(Output::DropPiece { broadcast, piece });
            }
            return self.stray_arrived(link, range.len());
        }
        self.payload_at = now;
        if self.with_broadcast(broadcast, |b| b.handle_payload(now, link, piece, range)) == Some(true) {
            self.drop_peer(link, CloseReason::Violation(format!("sends {broadcast} in crumbs")));
        }
    }

    /// Payload of what is not exchanged with this peer has come. It may be late: only who sends no end of crumbs breaks the protocol.
    pub(super) fn stray_arrived(&mut self, link: LinkId, bytes: u32) {
        let Some(state) = self.links.get_mut(&link) else { return };
        state.strays += u32::from(bytes < CRUMB_BYTES);
        if state.strays > STRAYS_MAX {
            self.drop_peer(link, CloseReason::Violation("sends crumbs of what it was not asked for".into()));
        }
    }

    /// Somebody who is to be admitted sends payload.
    pub(super) fn joiner_payload(&mut self, link: LinkId) {
        self.send(link, Frame::Refuse { refusal: Refusal::Invalid });
        self.drop_peer(link, CloseReason::Violation("sent payload before it was admitted".into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::have::Run;
    use crate::node::testing::{PIECE_BYTES, broadcast_of, descriptor, founder, linked, outputs};
    use crate::time::{Duration, Time};
    use crate::units::NodeId;

    const PIECE: PieceIndex = PieceIndex(0);

    /// A node that has asked a peer for a piece; the peer, and a member that has never spoken of the broadcast.
    fn asking() -> (Node, BroadcastId, LinkId, LinkId) {
        let mut node = founder();
        let [peer, other] = [1, 2].map(|member| linked(&mut node, NodeId(member)));
        let id = node.broadcast(Time::ZERO, descriptor("mob", 4), None).expect("it is a member");
        let announcement = Box::new(broadcast_of(&mut node, id).announcement.clone());
        node.handle_frame(Time::ZERO, peer, Frame::Announce { broadcast: id, announcement });
        let swarm = broadcast_of(&mut node, id).swarm_mut();
        swarm.add_known(4, 1, None);
        swarm.set_paused(false);
        swarm.add_have(peer, 1, &[Run { first: PIECE, count: 4 }]);
        assert!(swarm.request(peer, PIECE));
        outputs(&mut node);
        (node, id, peer, other)
    }

    fn closed(node: &mut Node) -> Vec<LinkId> {
        let link = |output: Output| match output {
            Output::Close { link, .. } => Some(link),
            _ => None,
        };
        outputs(node).into_iter().filter_map(link).collect()
    }

    #[test]
    fn payload_of_a_member_that_is_no_peer_counts_for_nothing() {
        let (mut node, id, peer, other) = asking();
        let later = Time::ZERO + Duration::from_secs(1);
        node.handle_payload(later, other, id, PIECE, ByteRange { start: 0, end: 1 });
        assert_eq!(broadcast_of(&mut node, id).arrived_at(), Time::ZERO);
        node.handle_payload(later, peer, id, PIECE, ByteRange::whole(PIECE_BYTES));
        node.handle_wrong(later, id, PIECE, true);
        assert_eq!(closed(&mut node), [peer], "it has sent all that counts");
    }

    #[test]
    fn payload_that_is_here_already_does_not_count_as_getting_on() {
        let (mut node, id, peer, _) = asking();
        broadcast_of(&mut node, id).swarm_mut().add_own(PieceIndex(1));
        let second = |second| Time::ZERO + Duration::from_secs(second);
        let half = ByteRange { start: 0, end: PIECE_BYTES / 2 };
        node.handle_payload(second(1), peer, id, PIECE, half);
        assert_eq!(broadcast_of(&mut node, id).arrived_at(), second(1));
        for piece in [PIECE, PieceIndex(1)] {
            node.handle_payload(second(2), peer, id, piece, half);
        }
        assert_eq!(broadcast_of(&mut node, id).arrived_at(), second(1), "half a piece twice, and what is stored");
    }

    #[test]
    fn what_the_driver_has_no_room_for_is_wasted() {
        let (mut node, id, peer, _) = asking();
        node.handle_payload(Time::ZERO, peer, id, PIECE, ByteRange::whole(PIECE_BYTES));
        node.handle_wrong(Time::ZERO, id, PIECE, false);
        assert_eq!(broadcast_of(&mut node, id).swarm().traffic().wasted, u64::from(PIECE_BYTES));
    }

    #[test]
    fn a_piece_that_only_a_stranger_to_it_sends_is_dropped() {
        let (mut node, id, _, other) = asking();
        let range = ByteRange::whole(PIECE_BYTES);
        node.handle_payload(Time::ZERO, other, id, PieceIndex(1), range);
        assert_eq!(outputs(&mut node), [Output::DropPiece { broadcast: id, piece: PieceIndex(1) }]);
    }

    #[test]
    fn who_sends_no_end_of_crumbs_of_nothing_loses_its_link() {
        let (mut node, id, _, other) = asking();
        let unknown = BroadcastId { sequence: 7, ..id };
        for (broadcast, range) in [(id, 0..1_000), (unknown, 1_000..2_000), (BroadcastId::FILLER, 2_000..STRAYS_MAX)] {
            range.for_each(|_| {
                node.handle_payload(Time::ZERO, other, broadcast, PIECE, ByteRange { start: 0, end: 1 });
                node.handle_payload(Time::ZERO, other, broadcast, PIECE, ByteRange::whole(PIECE_BYTES));
            });
        }
        assert_eq!(closed(&mut node), []);
        node.handle_payload(Time::ZERO, other, unknown, PIECE, ByteRange { start: 0, end: 1 });
        assert_eq!(closed(&mut node), [other]);
    }
}
