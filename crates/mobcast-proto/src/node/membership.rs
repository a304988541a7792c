//! What a node knows of its place in the group.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use crate::content::slots::SlotSet;
use crate::group::assignment::{Assignment, Credential, PeerAddress};
use crate::group::report::SignedReport;
use crate::group::succession::Succession;
use crate::node::holdings::Holding;
use crate::time::{Duration, Time};
use crate::units::{ClusterId, LinkId, NodeId, Signature};

/// The second successor has taken over by then, if it lives.
const ADRIFT_AFTER: Duration = Duration::from_secs(6);

/// Others that a coordinator looks for at a time.
const RIVALS_MAX: usize = 8;

/// What a node knows of its place in the group.
#[derive(Default)]
pub(super) struct Membership {
    /// Where the coordinator listens.
    pub(super) coordinator: Vec<SocketAddr>,
    /// By which the coordinator became it; none for the founder, which is node 0, unless it has come back.
    pub(super) succession: Option<(Succession, Signature)>,
    /// A successor that says it has taken over, while the way up to the coordinator is intact.
    pub(super) claim: Option<(Succession, Signature)>,
    /// Others that coordinated, or may, the latest last: a coordinator looks for them.
    pub(super) rivals: Vec<PeerAddress>,
    /// Where the founder listens.
    pub(super) founder: Vec<SocketAddr>,
    /// Former coordinators.
    pub(super) deposed: BTreeSet<NodeId>,
    /// At a successor that has the authority's key: the coordinator's children.
    pub(super) entrusted: Option<Vec<NodeId>>,
    /// A parent that has turned out to hang below this node: one of the two has missed its last assignment.
    pub(super) refused_parent: Option<NodeId>,
    /// When this node looks whether it has to take over.
    pub(super) takeover_at: Option<Time>,
    /// Whether those below were told that this node has no way up.
    pub(super) adrift: bool,
    /// The authority's word for its key.
    pub(super) credential: Option<(Credential, Signature)>,
    /// Its view of the group.
    pub(super) assignment: Option<Assignment>,
    /// The authority's signature over the assignment.
    pub(super) assignment_signature: Signature,
    /// What members of the same cluster say that they hold, by newer assignments than this node's.
    pub(super) holdings: BTreeMap<NodeId, Holding>,
    /// When the slots are compared with that, and when they were last.
    pub(super) slots_review_at: Option<Time>,
    pub(super) slots_reviewed: Option<Time>,
    /// The slots that this node imports: those of its assignment without what a peer holds by a newer one.
    pub(super) slots: SlotSet,
    /// When it asked to be admitted last.
    pub(super) asked_at: Time,
    /// When it has said last who it is, and what its place.
    pub(super) shown_at: Time,
    /// The link over which it asks to be admitted.
    pub(super) join_link: Option<LinkId>,
    /// Round-trip times to cluster leaders that it was asked for, as far as they are measured.
    pub(super) probes: Vec<(ClusterId, Option<Option<u64>>)>,
    /// When it tries to reach the coordinator again, or as coordinator others that may be one, and the pause that this took.
    pub(super) retry: Option<(Time, Duration)>,
    /// Since when the coordinator is out of reach.
    pub(super) unreachable_since: Option<Time>,
    /// Whether the application knows that.
    pub(super) lost_told: bool,
    /// Since when its shares in plans are the ones that they are.
    pub(super) placed_at: Time,
    /// Members right below it in the control tree.
    pub(super) children: BTreeSet<NodeId>,
    /// Those that were let go, because what this node had reported came back from them.
    pub(super) let_go: BTreeSet<NodeId>,
    /// Whether this node has told a coordinator that it has its place.
    pub(super) introduced: bool,
    /// When it says which assignment it has.
    pub(super) acknowledge_at: Option<Time>,
    /// Attempts to reach peers that failed in a row.
    pub(super) dial_failures: BTreeMap<NodeId, u32>,
    /// Reports on their way up, each with its bytes.
    pub(super) reports: VecDeque<(SignedReport, usize)>,
    /// Bytes of them all.
    pub(super) reports_bytes: usize,
    /// When they are sent.
    pub(super) reports_at: Option<Time>,
    /// When some were sent last.
    pub(super) reports_flushed: Option<Time>,
}

impl Membership {
    pub(super) fn set_identity(&mut self, credential: Credential, signature: Signature) {
        self.credential = Some((credential, signature));
    }

    pub(super) fn set_coordinator(&mut self, addresses: Vec<SocketAddr>) {
        self.founder.clone_from(&addresses);
        self.coordinator = addresses;
    }

    pub(super) fn node(&self) -> Option<NodeId> {
        self.credential.map(|(credential, _)| credential.node)
    }

    pub(super) fn credential(&self) -> Option<(Credential, Signature)> {
        self.credential
    }

    pub(super) fn assignment(&self) -> Option<&Assignment> {
        self.assignment.as_ref()
    }

    pub(super) fn signed_assignment(&self) -> Option<(Assignment, Signature)> {
        Some((self.assignment.clone()?, self.assignment_signature))
    }

    pub(super) fn timeout(&self) -> Option<Time> {
        Time::earliest([self.retry.map(|(at, _)| at), self.reports_at, self.takeover_at, self.slots_review_at])
    }

    /// At a coordinator, the authority's signature over its own assignment.
    pub(super) fn own_assignment_signed(&mut self, assignment: &Assignment, signature: Signature) {
        if self.assignment.as_ref() == Some(assignment) {
            self.assignment_signature = signature;
        }
    }

    /// Whether neither the coordinator nor a successor has been in reach for so long that those below should look for
    /// themselves.
    pub(super) fn is_adrift(&self, now: Time) -> bool {
        self.unreachable_since.is_some_and(|since| now.since(since) >= ADRIFT_AFTER)
    }

    /// The coordinator's node.
    pub(super) fn coordinator_node(&self) -> NodeId {
        self.succession.as_ref().map_or(NodeId(0), |(succession, _)| succession.coordinator.node)
    }

    /// How many coordinators there were before this one.
    pub(super) fn term(&self) -> u32 {
        self.succession.as_ref().map_or(0, |(succession, _)| succession.term)
    }

    pub(super) fn succession(&self) -> Option<(Succession, Signature)> {
        self.succession.clone()
    }

    /// The succession that a later one has to prevail over.
    pub(super) fn current(&self) -> Succession {
        let founder = PeerAddress { node: NodeId(0), cluster: ClusterId(0), rank: 0, addresses: Vec::new() };
        let founded = Succession { term: 0, coordinator: founder };
        self.succession.as_ref().map_or(founded, |(succession, _)| succession.clone())
    }

    /// Whether a node has been coordinator, and is not any more.
    pub(super) fn is_deposed(&self, node: NodeId) -> bool {
        self.deposed.contains(&node)
    }

    /// The coordinator has put this node somewhere. A former coordinator of which it speaks there has come back as a member, and as one who
    /// may take over again; that may be this node.
    pub(super) fn set_assignment(&mut self, now: Time, assignment: Assignment) -> Option<Assignment> {
        let Assignment { local_peers, global_peers, plan_peers, successors, .. } = &assignment;
        let lists = [local_peers, global_peers, plan_peers, successors];
        for peer in assignment.parent.iter().chain(lists.into_iter().flatten()) {
            self.deposed.remove(&peer.node);
        }
        fn shares(assignment: &Assignment) -> Vec<(&str, u32, u32)> {
            assignment.plans.iter().map(|plan| (plan.strategy.as_str(), plan.rank(), plan.cluster_size)).collect()
        }
        if self.assignment.as_ref().map(shares) != Some(shares(&assignment)) {
            self.placed_at = now;
        }
        self.assignment.replace(assignment)
    }

    /// From here on this is the coordinator.
    pub(super) fn acknowledge(&mut self, succession: Succession, signature: Signature) {
        let old = self.current().coordinator;
        self.deposed.insert(old.node);
        self.note_rival(old);
        self.deposed.remove(&succession.coordinator.node);
        // Under which addresses the founder is reached the ticket knows best.
        let founder = succession.coordinator.node == NodeId(0) && !self.founder.is_empty();
        let addresses = if founder { &self.founder } else { &succession.coordinator.addresses };
        self.coordinator.clone_from(addresses);
        self.succession = Some((succession, signature));
        self.claim = None;
        self.coordinator_reached();
    }

    pub(super) fn remember_claim(&mut self, succession: Succession, signature: Signature) {
        if self.claim.as_ref().is_none_or(|(claim, _)| succession.prevails_over(claim)) {
            self.claim = Some((succession, signature));
        }
    }

    /// Somebody may coordinate others. Where the founder listens is known anyway.
    pub(super) fn note_rival(&mut self, peer: PeerAddress) {
        if peer.node == NodeId(0) || self.node() == Some(peer.node) {
            return;
        }
        self.rivals.retain(|other| other.node != peer.node);
        self.rivals.push(peer);
        let surplus = self.rivals.len().saturating_sub(RIVALS_MAX);
        self.rivals.drain(..surplus);
    }

    pub(super) fn take_claim(&mut self) -> Option<(Succession, Signature)> {
        self.claim.take()
    }

    pub(super) fn coordinator_reached(&mut self) {
        self.unreachable_since = None;
        self.lost_told = false;
        self.retry = None;
        self.takeover_at = None;
        self.adrift = false;
    }

    /// The node above in the control tree; a coordinator that is gone has been replaced by its successor. A coordinator that
    /// was replaced itself has had nobody above it.
    pub(super) fn parent(&self) -> Option<NodeId> {
        let assigned = self.assignment.as_ref()?.parent.as_ref().map(|parent| parent.node);
        let valid = |parent: &NodeId| !self.is_deposed(*parent) && self.refused_parent != Some(*parent);
        let parent = assigned.filter(valid).unwrap_or(self.coordinator_node());
        Some(parent).filter(|parent| self.node() != Some(*parent))
    }

    /// Peers that the node was told to connect to.
    pub(super) fn told(&self) -> impl Iterator<Item = &PeerAddress> {
        let told = self.assignment.iter().flat_map(|assignment| {
            let peers = assignment.parent.iter().chain(&assignment.local_peers).chain(&assignment.global_peers);
            peers.chain(&assignment.plan_peers)
        });
        told.filter(|peer| !self.is_deposed(peer.node))
    }
}
