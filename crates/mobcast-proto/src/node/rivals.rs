//! Two coordinators beside each other (docs/decisions/succession.md). A successor that was cut off from everybody may take over alone,
//! while the others follow another one. Neither deposes the other over members' heads: whose way up is intact keeps to it. So the two have
//! to meet. Of two that do, one holds, by the rules for all successions, and the other follows it with all whom it leads.

use std::collections::BTreeMap;

use crate::group::assignment::PeerAddress;
use crate::group::succession::Succession;
use crate::time::Duration;
use crate::units::{LinkId, NodeId};

use super::Node;

/// Others that a coordinator looks for at a time. Each has, or had, the authority's key.
const RIVALS_MAX: usize = 8;

// ---- A member ----

impl Node {
    /// A successor claims to coordinate, and this node keeps to another one: whoever says so hears of that one, once over each link.
    pub(super) fn answer_claim(&mut self, link: LinkId, claim: &Succession) {
        let key = (claim.term, claim.coordinator.node);
        if self.links.get_mut(&link).is_some_and(|state| state.answered_claim.replace(key) != Some(key)) {
            self.greet_with_succession(link);
        }
    }
}

// ---- A coordinator ----

impl Node {
    /// The successors besides this one that it was named with: each may take over where this node cannot be seen.
    pub(super) fn other_successors(&self) -> BTreeMap<NodeId, PeerAddress> {
        let others = self.successors().into_iter().filter(|peer| Some(peer.node) != self.id());
        others.map(|peer| (peer.node, peer)).collect()
    }

    /// Whether a succession that does not hold is of somebody whom this coordinator does not lead, and should look for.
    pub(super) fn is_rival(&self, succession: &Succession) -> bool {
        let node = succession.coordinator.node;
        self.is_coordinating()
            && self.id() != Some(node)
            && !self.leads(node)
            && !self.has_link_to(node)
            && !self.membership.rivals.contains_key(&node)
    }

    /// Somebody follows it: it has to hear of this coordinator.
    pub(super) fn rival_named(&mut self, succession: &Succession) {
        let peer = succession.coordinator.clone();
        if self.is_rival(succession) && self.membership.rivals.len() < RIVALS_MAX {
            self.membership.rivals.insert(peer.node, peer);
            self.seek_rivals();
            self.seek_later(Duration::ZERO);
        }
    }

    /// Looks for others that may coordinate as well. Who can be reached is told of this one.
    pub(super) fn seek_rivals(&mut self) {
        let rivals: Vec<PeerAddress> = self.membership.rivals.values().cloned().collect();
        for PeerAddress { node, addresses, cluster, .. } in rivals {
            if !self.leads(node) && !self.has_link_to(node) && !self.banned.contains(&node) {
                self.dial_member(node, addresses, Some(cluster));
            }
        }
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
    use crate::io::{Dial, Output};
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

    /// Node 2, a successor that has taken over alone in the second term.
    fn alone() -> Node {
        let mut node = member(2);
        node.succession_signed(claim(2, 2), WORD);
        node.look_after_regency();
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
    fn a_coordinator_looks_for_the_other_successors_until_they_are_met() {
        let mut node = alone();
        node.seek_rivals();
        assert_eq!(says(&mut node).0, [NodeId(1)]);
        node.seek_rivals();
        assert_eq!(says(&mut node).0, [], "an attempt is under way");
        let link = linked(&mut node, NodeId(1));
        assert_eq!(says(&mut node).1, [(link, NodeId(2))]);
        node.handle_link_down(Time::ZERO, link);
        node.seek_rivals();
        assert_eq!(says(&mut node).0, []);
    }

    #[test]
    fn a_coordinator_looks_for_whom_a_member_follows_once_the_signature_is_verified() {
        let mut node = alone();
        let link = linked(&mut node, NodeId(3));
        says(&mut node);
        node.verify_succession(link, claim(1, 4), WORD);
        let asked = node.pending.len();
        let (dialled, said) = says(&mut node);
        assert_eq!((dialled, said), (vec![], vec![(link, NodeId(2))]));
        node.succession_verified(link, claim(1, 4), WORD, true);
        assert_eq!(says(&mut node).0, [NodeId(1), NodeId(4)]);
        node.verify_succession(link, claim(1, 4), WORD);
        assert_eq!(node.pending.len(), asked, "it is looked for already");
        node.succession_verified(link, claim(1, 5), WORD, false);
        assert_eq!((says(&mut node).0, node.has_link_to(NodeId(3))), (vec![], false), "who forges is dropped");
    }

    #[test]
    fn of_rivals_that_meet_the_earlier_one_follows() {
        let mut node = member(1);
        node.succession_signed(claim(1, 1), WORD);
        let link = linked(&mut node, NodeId(2));
        node.succession_verified(link, claim(2, 2), WORD, true);
        assert!(!node.is_coordinating());
        assert_eq!((node.upward_link(), node.membership.coordinator_node()), (Some(link), NodeId(2)));
    }
}
