//! Who imports what: members of a cluster tell each other, so that a share that changes hands is not imported twice; and
//! what the root lets other clusters import before they have asked.

use std::collections::BTreeMap;

use crate::content::have::{RUNS_PER_FRAME, Run};
use crate::fetch::open::OpenPiece;
use crate::fetch::swarm::Swarm;
use crate::strategy::message::StrategyMessage;
use crate::units::{LinkId, PieceIndex};

use super::{Mob, is_wan};

/// Batches of the manifest that begin before this hash are sent to other clusters unasked: enough to import from while more
/// is fetched, and a few kilobytes for each cluster.
const PUSHED_HASHES: u32 = 256;

/// At the root, who is sent a batch of the manifest without asking: of the first ones, one node of each other cluster, which
/// has them a round trip sooner, and from which the others get them.
pub(super) fn first_to_know(swarm: &Swarm, first: PieceIndex) -> Vec<LinkId> {
    if swarm.standing.node != swarm.id.root || first.0 >= PUSHED_HASHES {
        return Vec::new();
    }
    let mut one_of_each = BTreeMap::new();
    for (link, peer) in swarm.peers().filter(|(_, peer)| !peer.local) {
        one_of_each.entry(peer.cluster).or_insert(link);
    }
    one_of_each.into_values().collect()
}

impl Mob {
    /// Tells a local peer what this node is importing, or is to although it is not in its slots, so that nobody who has these pieces
    /// in its share does too.
    pub(super) fn tell_importing(&self, swarm: &mut Swarm, peer: LinkId) {
        if swarm.in_root_cluster() {
            return;
        }
        let wan = |open: &OpenPiece| open.parts.iter().any(|part| is_wan(swarm, part.peer));
        let mut pieces = self.stolen.clone();
        for (piece, _) in swarm.open().filter(|(_, open)| wan(open)) {
            pieces.insert(piece);
        }
        // A newcomer waits to hear from everybody, also that it is nothing.
        let runs = pieces.runs();
        let frames =
            if runs.is_empty() { vec![runs] } else { runs.chunks(RUNS_PER_FRAME).map(<[Run]>::to_vec).collect() };
        for pieces in frames {
            swarm.tell(peer, StrategyMessage::Importing { pieces });
        }
    }

    /// A local peer is importing pieces. If this node is importing one of them too, or has stolen it, the one with the lower
    /// identity goes on.
    pub(super) fn peer_imports(&mut self, swarm: &mut Swarm, peer: LinkId, pieces: &[Run]) {
        let Some(node) = swarm.peer(peer).map(|p| p.node) else { return };
        let known = swarm.known();
        for piece in pieces.iter().flat_map(|run| run.pieces()).filter(|piece| piece.0 < known) {
            let asked = swarm.open_piece(piece).map(|open| (open.is_empty(), open.parts.clone()));
            if let Some((untouched, parts)) = asked {
                if !untouched || swarm.standing.node < node {
                    continue;
                }
                parts.iter().for_each(|part| swarm.cancel(part.peer, piece));
            } else if self.stolen.contains(piece) && swarm.standing.node < node {
                continue;
            }
            self.todo.remove(piece);
            if self.stolen.remove(piece) {
                self.passed_on.insert(piece);
            }
            self.given.insert(piece, peer);
        }
        let locals = swarm.peers().filter(|(_, p)| p.local).count();
        let heard = self.newcomer.as_mut().map(|(_, heard)| {
            heard.insert(peer);
            heard.len()
        });
        if heard.is_some_and(|heard| heard >= locals) {
            self.newcomer = None;
            self.fill_all(swarm);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::content::slots::SlotSet;
    use crate::io::Output;
    use crate::strategy::mob::tests::swarm;
    use crate::strategy::{Strategy, StrategyEvent};
    use crate::time::Duration;
    use crate::units::{ClusterId, NodeId};
    use crate::wire::frame::Frame;

    use super::*;

    const PEER: LinkId = LinkId(1);

    fn hear(mob: &mut Mob, swarm: &mut Swarm, message: StrategyMessage) {
        mob.handle(StrategyEvent::Message { peer: PEER, message: &message }, swarm);
    }

    fn run(first: u32) -> Vec<Run> {
        vec![Run { first: PieceIndex(first), count: 1 }]
    }

    fn told(swarm: &mut Swarm) -> Vec<StrategyMessage> {
        let message = |output| match output {
            Output::Send { frame: Frame::Strategy { message, .. }, .. } => Some(message),
            _ => None,
        };
        swarm.take_outputs().filter_map(message).collect()
    }

    #[test]
    fn what_was_stolen_is_told_when_shares_change_and_left_alone_by_its_new_owner() {
        let (mut thief, mut of_thief) = (Mob::default(), swarm());
        thief.stolen.insert(PieceIndex(3));
        thief.tell_importing(&mut of_thief, PEER);
        let said = told(&mut of_thief);
        assert_eq!(said, [StrategyMessage::Importing { pieces: run(3) }]);
        let (mut owner, mut of_owner) = (Mob::default(), swarm());
        owner.handle(StrategyEvent::Started, &mut of_owner);
        assert!(owner.todo.contains(PieceIndex(3)));
        hear(&mut owner, &mut of_owner, said[0].clone());
        assert!(!owner.todo.contains(PieceIndex(3)), "it is in good hands");
        assert_eq!(owner.todo.count(), 7);
    }

    #[test]
    fn the_root_lets_one_node_of_each_other_cluster_have_the_first_hashes_and_nobody_else_does() {
        let mut swarm = swarm();
        for (link, cluster) in [(2, 0), (3, 2), (4, 0), (5, 2)] {
            swarm.add_peer(LinkId(link), NodeId(10 + link), ClusterId(cluster));
        }
        assert_eq!(first_to_know(&swarm, PieceIndex(0)), [], "it is not the root");
        swarm.standing.node = swarm.id.root;
        for piece in [0, 255] {
            assert_eq!(first_to_know(&swarm, PieceIndex(piece)), [LinkId(2), LinkId(3)]);
        }
        let later = first_to_know(&swarm, PieceIndex(256));
        assert_eq!(later, [], "they have enough, and share the rest among themselves");
    }

    #[test]
    fn of_two_who_have_stolen_the_same_the_lower_identity_goes_on() {
        for (other, keeps) in [(NodeId(6), true), (NodeId(4), false)] {
            let (mut mob, mut swarm) = (Mob::default(), swarm());
            swarm.remove_peer(PEER);
            swarm.add_peer(PEER, other, swarm.standing.cluster);
            mob.stolen.insert(PieceIndex(3));
            hear(&mut mob, &mut swarm, StrategyMessage::Importing { pieces: run(3) });
            assert_eq!(mob.stolen.contains(PieceIndex(3)), keeps, "beside {other}");
        }
    }

    #[test]
    fn while_shares_are_being_dealt_nothing_changes_hands_beside() {
        let (mut mob, mut swarm) = (Mob::default(), swarm());
        mob.handle(StrategyEvent::Started, &mut swarm);
        swarm.standing.slots = SlotSet::all();
        swarm.standing.slots.remove(0);
        mob.handle(StrategyEvent::AssignmentChanged, &mut swarm);
        let granted = |mob: &mut Mob, swarm: &mut Swarm| {
            told(swarm);
            hear(mob, swarm, StrategyMessage::Steal { rate_bytes_per_s: 1_000, pieces_max: 1 });
            let pieces = told(swarm).into_iter().find_map(|message| match message {
                StrategyMessage::Grant { pieces } => Some(pieces.len()),
                _ => None,
            });
            pieces.expect("a thief is answered")
        };
        assert_eq!(granted(&mut mob, &mut swarm), 0);
        swarm.set_now(swarm.now() + Duration::from_secs(2));
        assert_eq!(granted(&mut mob, &mut swarm), 1);
    }
}
