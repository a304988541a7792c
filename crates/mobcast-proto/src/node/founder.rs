//! The founder comes back (docs/decisions/succession.md). A successor has taken over because the founder stood still, or was cut off; whoever
//! meets the founder then tells it of that, and it claims the next term. By the rules that hold for all successions the others follow it,
//! and show themselves. It has its group's state still, so that it learns from no regency.

use crate::broadcast::Broadcast;
use crate::group::succession::{Standing, Succession};
use crate::io::Event;
use crate::units::{LinkId, NodeId, Signature};
use crate::wire::frame::Frame;

use super::Node;

/// It has the first number.
pub(super) const FOUNDER: NodeId = NodeId(0);

// ---- The founder ----

impl Node {
    pub(super) fn is_founder(&self) -> bool {
        self.id() == Some(FOUNDER) && self.coordinator.is_some()
    }

    /// It has claimed the term after a successor's.
    pub(super) fn claimed_back(&mut self, succession: Succession, signature: Signature) {
        let Some(coordinator) = &mut self.coordinator else { return };
        if !succession.prevails_over(&self.membership.current()) {
            return;
        }
        coordinator.begin_term(succession.term);
        // Who followed another one has not kept the key.
        self.coordination.entrusted.clear();
        let frame = Frame::Succession { succession: succession.clone(), signature };
        self.membership.acknowledge(succession, signature);
        self.member_links().into_iter().for_each(|link| self.send(link, frame.clone()));
        self.drain_coordinator();
        self.event(Event::CoordinatorChanged { node: FOUNDER, own: true });
    }

    /// A member that had another coordinator hangs where that one has put it, until it is told otherwise. Where no link leads to it, that is
    /// the only way to it, also if who is above it there has not shown itself yet.
    pub(super) fn note_place(&mut self, standing: &Standing) {
        let Standing { credential, assignment, .. } = standing;
        let Some(coordinator) = self.coordinator.as_ref().filter(|_| assignment.term < self.membership.term()) else {
            return;
        };
        let parent = assignment.parent.as_ref().map(|parent| parent.node);
        let is_reached = self.link_to(credential.node).is_some();
        let parent = parent.filter(|&parent| !is_reached || coordinator.member(parent).is_some());
        if let Some(parent) = parent.filter(|_| parent != coordinator.parent_of(credential.node)) {
            self.coordination.note_old_place(credential.node, parent, self.now);
        }
    }
}

// ---- Those whom a successor leads ----

impl Node {
    /// Whether another one has taken the founder's place.
    pub(super) fn is_led_by_successor(&self) -> bool {
        self.membership.coordinator_node() != FOUNDER
    }

    /// Looks for the founder, which may be there again.
    pub(super) fn seek_founder(&mut self) {
        if let Some(link) = self.link_to(FOUNDER) {
            self.tell_founder(link);
        } else if self.is_led_by_successor() && !self.has_link_to(FOUNDER) && !self.banned.contains(&FOUNDER) {
            self.dial_member(FOUNDER, self.membership.founder.clone(), None);
        }
    }

    /// The founder is at the other end of a link, and goes on as before: it has to know who has taken over.
    pub(super) fn tell_founder(&mut self, link: LinkId) {
        if self.is_led_by_successor() && self.member_at(link) == Some(FOUNDER) {
            self.greet_with_succession(link);
        }
    }

    /// Whether a root cannot be lost: it is this node, or who coordinates.
    pub(super) fn is_there(&self, root: NodeId) -> bool {
        self.id() == Some(root) || self.membership.coordinator_node() == root
    }

    /// A root that was given up, or said to be lost, is a member again.
    pub(super) fn root_is_back(&mut self, root: NodeId) {
        self.unknown_ends.root_is_back(root);
        self.broadcasts.values_mut().filter(|broadcast| broadcast.id.root == root).for_each(Broadcast::regain_root);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::group::assignment::tests::assignment;
    use crate::group::assignment::{Assignment, Credential, PeerAddress};
    use crate::group::report::Report;
    use crate::group::succession::Secret;
    use crate::io::Output;
    use crate::node::Pending;
    use crate::node::testing::{founder, joiner, linked, outputs};
    use crate::time::{Duration, Time};
    use crate::units::{ClusterId, GroupId, PublicKey};

    const WORD: Signature = Signature([0; 64]);

    pub(in crate::node) fn claim(term: u32, node: u32) -> Succession {
        let coordinator = PeerAddress { node: NodeId(node), cluster: ClusterId(0), rank: node, addresses: Vec::new() };
        Succession { term, coordinator }
    }

    fn credential(node: u32) -> Credential {
        Credential { group: GroupId([7; 16]), node: NodeId(node), key: PublicKey([8; 32]), expires_unix_s: u64::MAX }
    }

    /// Node 3, which follows node 1 as coordinator.
    pub(in crate::node) fn follower() -> Node {
        let mut node = joiner();
        node.membership.set_identity(credential(3), WORD);
        node.apply_assignment(Assignment { node: NodeId(3), ..assignment() });
        node.membership.acknowledge(claim(1, 1), WORD);
        outputs(&mut node);
        node
    }

    /// The successions that a node says, with the link.
    fn said(node: &mut Node) -> Vec<(LinkId, u32, NodeId)> {
        let said = |output: Output| match output {
            Output::Send { link, frame: Frame::Succession { succession, .. } } => {
                Some((link, succession.term, succession.coordinator.node))
            }
            _ => None,
        };
        outputs(node).into_iter().filter_map(said).collect()
    }

    fn claimed(node: &Node) -> Option<Succession> {
        node.pending.values().find_map(|pending| match &**pending {
            Pending::SignSuccession(succession) => Some(succession.clone()),
            _ => None,
        })
    }

    #[test]
    fn a_founder_that_hears_of_its_successor_claims_the_next_term() {
        let mut node = founder();
        let link = linked(&mut node, NodeId(1));
        node.succession_verified(link, claim(1, 1), WORD, true);
        let own = claimed(&node).expect("a claim");
        assert_eq!((own.term, own.coordinator.node), (2, FOUNDER));
        node.succession_signed(own, WORD);
        assert!(node.is_founder());
        assert_eq!(node.assignment().map(|assignment| assignment.term), Some(2));
        assert_eq!(said(&mut node), [(link, 2, FOUNDER)]);
        // It is asked again, by one that has not heard of it.
        node.verify_succession(link, claim(1, 1), WORD);
        assert_eq!(said(&mut node), [(link, 2, FOUNDER)]);
    }

    #[test]
    fn the_founder_is_told_of_its_successor_when_it_is_met_and_when_it_assigns_places() {
        let mut node = follower();
        let (peer, founder) = (linked(&mut node, NodeId(2)), linked(&mut node, FOUNDER));
        assert_eq!(said(&mut node), [(founder, 1, NodeId(1))]);
        let old = || Frame::Assign { assignment: Box::new(assignment()), signature: WORD };
        node.handle_frame(Time::ZERO, peer, old());
        assert_eq!(said(&mut node), []);
        node.handle_frame(Time::ZERO, founder, old());
        assert_eq!(said(&mut node), [(founder, 1, NodeId(1))]);
    }

    #[test]
    fn a_founder_that_hands_the_key_over_before_it_has_heard_of_its_successor_is_told() {
        let mut node = follower();
        let founder = linked(&mut node, FOUNDER);
        outputs(&mut node);
        node.entrusted(founder, Secret(Vec::new()), Vec::new());
        assert_eq!(said(&mut node), [(founder, 1, NodeId(1))]);
        assert!(node.membership.entrusted.is_none() && node.link_to(FOUNDER).is_some());
    }

    #[test]
    fn who_joins_a_founder_that_came_back_is_given_a_place_of_its_term() {
        let mut node = joiner();
        node.membership.set_identity(credential(3), WORD);
        let (peer, link) = (linked(&mut node, NodeId(1)), linked(&mut node, FOUNDER));
        node.membership.join_link = Some(link);
        node.succession_verified(peer, claim(1, 1), WORD, true);
        assert_eq!(node.membership.term(), 0, "who admits it knows better");
        node.succession_verified(link, claim(2, 0), WORD, true);
        let dials = outputs(&mut node).into_iter().filter(|output| matches!(output, Output::Connect { .. })).count();
        assert_eq!(dials, 1, "the one with which it asks to be admitted");
        node.assignment_verified(Assignment { term: 2, node: NodeId(3), ..assignment() }, WORD, true);
        assert_eq!(node.assignment().map(|assignment| assignment.term), Some(2));
    }

    pub(in crate::node) fn standing(own: u32, parent: u32) -> Standing {
        let parent = Some(claim(1, parent).coordinator);
        Standing {
            credential: credential(own),
            credential_signature: WORD,
            name: String::new(),
            addresses: Vec::new(),
            assignment: Assignment { term: 1, node: NodeId(own), parent, ..assignment() },
            assignment_signature: WORD,
            children: Vec::new(),
            banned: Vec::new(),
            over: Vec::new(),
        }
    }

    /// A founder that has come back, and whom nodes 1, 2 and 3 have shown themselves, each below the one before.
    fn returned() -> Node {
        let mut node = founder();
        node.succession_signed(claim(2, 0), WORD);
        for (own, parent) in [(1, 0), (2, 1), (3, 2)] {
            node.standing_verified(standing(own, parent));
        }
        node
    }

    #[test]
    fn who_was_moved_by_a_successor_is_reached_where_it_hangs() {
        let mut node = returned();
        let (first, second) = (linked(&mut node, NodeId(1)), linked(&mut node, NodeId(2)));
        // In the founder's tree it is below node 2.
        node.standing_verified(standing(3, 1));
        outputs(&mut node);
        node.assignment_signed(Assignment { term: 2, node: NodeId(3), ..assignment() }, WORD);
        let ways = outputs(&mut node).into_iter().filter_map(|output| match output {
            Output::Send { link, frame: Frame::Routed { path, .. } } => Some((link, path)),
            _ => None,
        });
        assert_eq!(ways.collect::<Vec<_>>(), [(first, vec![NodeId(3)])], "{second} leads nowhere");
    }

    #[test]
    fn who_hangs_below_one_that_has_not_come_yet_is_reached_there_when_it_has() {
        // The one is a member, and below node 2 in the founder's tree; of the other one the founder has not heard before.
        for member in [3, 9] {
            let mut node = returned();
            node.standing_verified(standing(member, 4));
            let link = linked(&mut node, NodeId(4));
            node.set_now(Time::ZERO + Duration::from_secs(15));
            node.standing_verified(standing(4, 0));
            outputs(&mut node);
            node.assignment_signed(Assignment { term: 2, node: NodeId(member), ..assignment() }, WORD);
            let ways = outputs(&mut node).into_iter().filter_map(|output| match output {
                Output::Send { link, frame: Frame::Routed { path, .. } } => Some((link, path)),
                _ => None,
            });
            assert_eq!(ways.collect::<Vec<_>>(), [(link, vec![NodeId(member)])]);
            node.set_now(Time::ZERO + Duration::from_secs(25));
            node.look_after_members();
            let coordinator = node.coordinator.as_ref().expect("it is the founder");
            assert!(coordinator.member(NodeId(member)).is_some(), "{member} has been told for ten seconds only");
        }
    }

    #[test]
    fn who_is_given_no_place_by_the_coordinator_that_it_follows_shows_itself_again() {
        let mut node = follower();
        let parent = node.membership.parent().expect("a member has one");
        linked(&mut node, parent);
        node.pending.clear();
        let mut shows = |second: u64| {
            node.set_now(Time::ZERO + Duration::from_secs(second));
            node.show_again_without_place();
            let says = |pending: &Pending| matches!(pending, Pending::SignReport(Report::Standing(_)));
            let said = node.pending.values().any(|pending| says(pending));
            node.pending.clear();
            said
        };
        assert_eq!([9, 10, 11, 20].map(&mut shows), [false, true, false, true]);
        node.apply_assignment(Assignment { term: 1, node: NodeId(3), ..assignment() });
        node.membership.shown_at = Time::ZERO;
        node.pending.clear();
        node.show_again_without_place();
        assert!(node.pending.is_empty(), "it has one");
    }

    #[test]
    fn who_hung_below_the_successor_says_that_it_has_its_place_below_the_founder() {
        let mut node = follower();
        let place = |term, parent| {
            let (parent, none) = (Some(claim(1, parent).coordinator), Vec::new);
            let own = Assignment { term, node: NodeId(3), parent, ..assignment() };
            Assignment { local_peers: none(), global_peers: none(), plan_peers: none(), ..own }
        };
        node.apply_assignment(place(1, 1));
        let founder = linked(&mut node, FOUNDER);
        node.succession_verified(founder, claim(2, 0), WORD, true);
        outputs(&mut node);
        node.apply_assignment(place(2, 0));
        let says = |pending: &Pending| matches!(pending, Pending::SignReport(Report::Standing(_)));
        assert_eq!(node.pending.values().filter(|pending| says(pending)).count(), 2, "as follower, and in its place");
    }

    #[test]
    fn who_coordinates_is_there_whatever_was_said_of_it() {
        let mut node = follower();
        let there = |node: &Node| [0, 1, 2, 3].map(NodeId).map(|root| node.is_there(root));
        assert_eq!(there(&node), [false, true, false, true]);
        node.membership.acknowledge(claim(2, 0), WORD);
        assert_eq!(there(&node), [true, false, false, true]);
    }
}
