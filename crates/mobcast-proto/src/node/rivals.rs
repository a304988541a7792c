//! Two coordinators beside each other (docs/decisions/succession.md). A successor that was cut off from everybody may take over alone,
//! while the others follow another one. Neither deposes the other over members' heads: whose way up is intact keeps to it. So the two have
//! to meet. Of two that do, one holds, by the rules for all successions, and the other follows it with all whom it leads.

use crate::group::assignment::PeerAddress;
use crate::group::succession::Succession;
use crate::limits::SILENCE_MAX;
use crate::time::Duration;
use crate::units::{LinkId, NodeId};

use super::Node;

/// First pause before a coordinator looks for others that may be one, the founder among them; grows to [`SEARCH_MAX`].
const SEARCH_MIN: Duration = Duration::from_secs(2);
/// Longest pause: two parts of a group may have been cut off from each other for as long before anybody took over.
const SEARCH_MAX: Duration = SILENCE_MAX;

// ---- A member ----

impl Node {
    /// A successor claims to coordinate, and this node keeps to another one: whoever says so hears of that one, for each claim once over each
    /// link.
    pub(super) fn answer_claim(&mut self, link: LinkId, claim: &Succession) {
        let key = (claim.term, claim.coordinator.node);
        if self.links.get_mut(&link).is_some_and(|state| state.answered_claim.replace(key) != Some(key)) {
            self.greet_with_succession(link);
        }
    }

    /// Links over which a claim was said that this node did not follow then, and which are no child's any more for that: who is there has to hear when it does.
    pub(super) fn who_claimed(&self, claim: &Succession) -> Vec<LinkId> {
        let key = Some((claim.term, claim.coordinator.node));
        self.links.iter().filter(|(_, state)| state.answered_claim == key).map(|(link, _)| link).collect()
    }

    /// A peer says a succession that is this node's own, or does not hold. If the node above has followed another coordinator until now, what it was given
    /// to pass on has gone there, and is said again.
    pub(super) fn note_what_peer_follows(&mut self, link: LinkId, same: bool) {
        let Some(state) = self.links.get_mut(&link) else { return };
        if std::mem::replace(&mut state.lags, !same) && same && self.upward_link() == Some(link) {
            self.report_ready();
            self.flush_reports();
        }
    }

    /// A claim, verified, that does not hold, or does not any more.
    pub(super) fn overtaken(&mut self, link: LinkId, claim: Succession) {
        if self.is_rival(&claim) {
            self.look_for(claim.coordinator);
        } else if !self.is_coordinating() && self.membership.current().prevails_over(&claim) {
            self.greet_with_succession(link);
        }
    }
}

// ---- A coordinator ----

impl Node {
    /// Whether a succession that does not hold is of somebody whom this coordinator does not lead, and does not look for.
    pub(super) fn is_rival(&self, succession: &Succession) -> bool {
        let node = succession.coordinator.node;
        let sought = || self.membership.rivals.iter().any(|peer| peer.node == node);
        self.is_coordinating() && self.id() != Some(node) && !self.leads(node) && !sought()
    }

    /// Somebody follows that one: it has to hear of this coordinator.
    pub(super) fn look_for(&mut self, rival: PeerAddress) {
        self.membership.note_rival(rival);
        self.seek_rivals();
        self.seek_later(Duration::ZERO);
    }

    /// Looks for others that may coordinate as well. Who can be reached is told of this one.
    pub(super) fn seek_rivals(&mut self) {
        for PeerAddress { node, addresses, cluster, .. } in self.membership.rivals.clone() {
            if !self.leads(node) && !self.has_link_to(node) && !self.banned.contains(&node) {
                self.dial_member(node, addresses, Some(cluster));
            }
        }
    }

    /// Looks for them, and a successor for the founder, again after a pause.
    pub(super) fn seek_later(&mut self, pause: Duration) {
        let pause = Duration(pause.0.clamp(SEARCH_MIN.0, SEARCH_MAX.0));
        let somebody = self.is_led_by_successor() || !self.membership.rivals.is_empty();
        self.membership.retry = Some((self.now + pause, pause)).filter(|_| somebody);
    }

    fn leads(&self, node: NodeId) -> bool {
        self.coordinator.as_ref().is_some_and(|coordinator| coordinator.member(node).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::assignment::Assignment;
    use crate::group::assignment::Credential;
    use crate::group::assignment::tests::assignment;
    use crate::group::report::Report;
    use crate::io::{Dial, Output};
    use crate::node::Pending;
    use crate::node::testing::{joiner, linked, outputs};
    use crate::time::Time;
    use crate::units::{ClusterId, GroupId, PublicKey, Signature};
    use crate::wire::frame::Frame;

    const WORD: Signature = Signature([0; 64]);

    fn peer(node: u32) -> PeerAddress {
        let addresses = vec!["127.0.0.1:7078".parse().expect("an address")];
        PeerAddress { node: NodeId(node), cluster: ClusterId(0), rank: node, addresses }
    }

    fn claim(term: u32, node: u32) -> Succession {
        Succession { term, coordinator: peer(node) }
    }

    /// Node `own`, with nodes 1 and 2 as successors.
    fn member(own: u32) -> Node {
        let mut node = joiner();
        let (group, key) = (GroupId([7; 16]), PublicKey([8; 32]));
        let credential = Credential { group, node: NodeId(own), key, expires_unix_s: u64::MAX };
        node.membership.set_identity(credential, WORD);
        let (successors, none) = (vec![peer(1), peer(2)], Vec::new);
        let own = Assignment { node: NodeId(own), successors, ..assignment() };
        let own = Assignment { local_peers: none(), global_peers: none(), plan_peers: none(), ..own };
        node.apply_assignment(Assignment { parent: None, ..own });
        outputs(&mut node);
        node
    }

    fn after(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    /// Node 2, a successor that has taken over alone in the second term, from node 4, and leads itself.
    fn alone() -> Node {
        let mut node = member(2);
        node.membership.acknowledge(claim(1, 4), WORD);
        node.succession_signed(claim(2, 2), WORD);
        node.set_now(after(10));
        node.look_after_regency();
        assert!(node.coordinator.is_some());
        outputs(&mut node);
        node
    }

    /// The members that are dialled, and who is said to coordinate, over which link.
    fn says(node: &mut Node) -> (Vec<NodeId>, Vec<(LinkId, NodeId)>) {
        let (mut dialled, mut said) = (Vec::new(), Vec::new());
        for output in outputs(node) {
            match output {
                Output::Connect { dial: Dial::Member { node, .. }, .. } => dialled.push(node),
                Output::Send { link, frame: Frame::Succession { succession, .. } } => {
                    said.push((link, succession.coordinator.node));
                }
                _ => {}
            }
        }
        (dialled, said)
    }

    #[test]
    fn who_claims_hears_once_over_each_link_whom_the_others_follow() {
        let mut node = member(3);
        node.membership.acknowledge(claim(1, 1), WORD);
        let (_up, link) = (linked(&mut node, NodeId(1)), linked(&mut node, NodeId(2)));
        says(&mut node);
        node.succession_verified(link, claim(2, 2), WORD, true);
        assert_eq!(says(&mut node).1, [(link, NodeId(1))]);
        assert_eq!(node.membership.coordinator_node(), NodeId(1), "its way up is intact");
        // The answer to the answer.
        node.succession_verified(link, claim(2, 2), WORD, true);
        assert_eq!(says(&mut node).1, []);
        node.handle_link_down(Time::ZERO, link);
        let link = linked(&mut node, NodeId(2));
        says(&mut node);
        node.succession_verified(link, claim(2, 2), WORD, true);
        assert_eq!(says(&mut node).1, [(link, NodeId(1))]);
    }

    #[test]
    fn what_went_to_a_parents_former_coordinator_is_said_again_when_the_parent_follows() {
        let standings = |node: &Node| {
            let said = |pending: &Pending| matches!(pending, Pending::SignReport(Report::Standing(_)));
            node.pending.values().filter(|pending| said(pending)).count()
        };
        let mut node = member(3);
        let parent = Assignment { term: 2, epoch: 9, parent: Some(peer(4)), ..node.assignment().expect("one").clone() };
        node.membership.acknowledge(claim(2, 1), WORD);
        node.apply_assignment(parent);
        let up = linked(&mut node, NodeId(4));
        let before = standings(&node);
        node.verify_succession(up, claim(2, 1), WORD);
        assert_eq!(standings(&node), before, "it has followed all the time");
        node.verify_succession(up, claim(1, 2), WORD);
        assert_eq!(says(&mut node).1, [(up, NodeId(1))]);
        node.verify_succession(up, claim(2, 1), WORD);
        assert_eq!(standings(&node), before + 1);
        node.verify_succession(up, claim(2, 1), WORD);
        assert_eq!(standings(&node), before + 1, "once");
    }

    #[test]
    fn whose_claim_was_not_followed_hears_when_it_is() {
        let mut node = member(3);
        node.membership.acknowledge(claim(1, 1), WORD);
        let (up, claimant) = (linked(&mut node, NodeId(1)), linked(&mut node, NodeId(4)));
        node.succession_verified(claimant, claim(2, 2), WORD, true);
        says(&mut node);
        node.succession_verified(up, claim(2, 2), WORD, true);
        assert_eq!(node.membership.coordinator_node(), NodeId(2));
        assert_eq!(says(&mut node).1, [(claimant, NodeId(2))]);
    }

    #[test]
    fn a_claim_that_was_overtaken_while_it_was_verified_is_answered() {
        let mut node = member(3);
        let link = linked(&mut node, NodeId(2));
        node.membership.acknowledge(claim(3, 1), WORD);
        says(&mut node);
        node.succession_verified(link, claim(2, 2), WORD, true);
        assert_eq!(says(&mut node).1, [(link, NodeId(1))]);
    }

    #[test]
    fn a_coordinator_looks_for_the_founder_its_predecessor_and_the_other_successors_after_growing_pauses() {
        let mut node = alone();
        node.membership.founder = peer(0).addresses;
        let (mut pauses, mut dialled) = (Vec::new(), Vec::new());
        while pauses.len() < 5 {
            let at = node.membership.timeout().expect("a search");
            pauses.push(at.since(node.now).0 / 1_000_000_000);
            node.handle_timeout(at);
            dialled.push(says(&mut node).0);
        }
        assert_eq!(dialled[0], [NodeId(0), NodeId(1), NodeId(4)]);
        assert_eq!(pauses, [2, 4, 8, 10, 10]);
    }

    #[test]
    fn who_was_met_and_lost_again_is_looked_for_again() {
        let mut node = alone();
        let link = linked(&mut node, NodeId(1));
        assert_eq!(says(&mut node).1, [(link, NodeId(2))]);
        node.seek_rivals();
        assert_eq!(says(&mut node).0, [NodeId(4)]);
        node.handle_link_down(node.now, link);
        node.seek_rivals();
        assert_eq!(says(&mut node).0, [NodeId(1)], "an attempt to reach the other one is under way");
    }

    #[test]
    fn a_coordinator_looks_for_whom_a_member_follows_once_the_signature_is_verified() {
        let mut node = alone();
        let link = linked(&mut node, NodeId(3));
        says(&mut node);
        let asked = |node: &mut Node, claim: Succession| {
            node.verify_succession(link, claim, WORD);
            let asked = |output: &Output| matches!(output, Output::Verify { .. });
            outputs(node).iter().filter(|output| asked(output)).count()
        };
        assert_eq!(asked(&mut node, claim(1, 5)), 1);
        node.succession_verified(link, claim(1, 5), WORD, true);
        assert!(says(&mut node).0.contains(&NodeId(5)));
        assert_eq!(asked(&mut node, claim(1, 5)), 0, "it is looked for already");
        node.succession_verified(link, claim(1, 6), WORD, false);
        assert_eq!((says(&mut node).0, node.has_link_to(NodeId(3))), (vec![], false), "who forges is dropped");
    }

    #[test]
    fn of_many_who_have_coordinated_the_latest_are_looked_for() {
        let mut node = member(2);
        (3..20).for_each(|other| node.membership.note_rival(peer(other)));
        node.membership.note_rival(peer(0));
        node.membership.note_rival(peer(2));
        let sought: Vec<u32> = node.membership.rivals.iter().map(|peer| peer.node.0).collect();
        assert_eq!(sought, (12..20).collect::<Vec<_>>(), "without the founder and itself");
    }
}
