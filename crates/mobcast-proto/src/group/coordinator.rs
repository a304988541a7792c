//! The coordinator: admits nodes at a bounded rate, finds their cluster, gives each its bounded view of the group
//! (peers, control tree, slots) and renews the views that a change concerns. It never ships the whole membership to
//! anyone. Who may have which certificate is its decision; making them is the driver's work.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use crate::content::slots::SlotSet;
use crate::group::assignment::Assignment;
use crate::group::gauge::Measurement;
use crate::group::graph::Graph;
use crate::limits::{CLUSTERS_MAX, NODES_MAX, SLOTS, SUCCESSORS};
use crate::random::Random;
use crate::strategy::overlay::Overlays;
use crate::time::{Duration, Time};
use crate::units::{ClusterId, LinkId, NodeId, PublicKey};
use crate::wire::frame::{Join, Leader, Refusal};

use gauging::Gauging;
use placing::Joining;
use plans::Plans;
use rounds::{ADMISSIONS_AT_ONCE, Rounds};
use shares::Newcomers;
use ways::Ways;

/// Members that must accuse another one before it loses its share.
const ACCUSERS_MIN: usize = 2;
/// When nobody was admitted for this long, links between clusters that were founded one after the other are completed:
/// earlier, they would all lead to a cluster's first member. Plans of large groups follow then as well.
const COMPLETION_PAUSE: Duration = Duration::from_millis(200);
/// Members that are lost within this time are replaced together: at the end of a transfer all leave one after the other, and each
/// round of new assignments takes a signature for each neighbour.
const DEPARTURE_PAUSE: Duration = Duration::from_millis(20);
/// Up to this size of the group, members get a peer in clusters that were founded after them, and are told of new
/// clusters. Beyond it, newcomers' own links connect the clusters well enough.
const COMPLETED_GROUP_MAX: usize = 2048;
/// Up to this size of the group, plans follow every change at once; beyond it, when nobody has come or gone for
/// [`COMPLETION_PAUSE`], because a plan may give everybody another place.
const PLANNED_AT_ONCE_MAX: usize = 256;
/// The same in clusters, where trees are packed into a network: for 25 clusters that takes up to 83 ms, for 50 up to 826.
const PACKED_AT_ONCE_MAX: usize = 16;

/// What the coordinator wants done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Ask a joining node for its round-trip times.
    Probe {
        /// The joining node's link.
        link: LinkId,
        /// Whom it should measure.
        leaders: Vec<Leader>,
    },
    /// Admit a joining node.
    Admit {
        /// The joining node's link.
        link: LinkId,
        /// Its identity.
        node: NodeId,
        /// Its key, for which it gets a certificate.
        key: PublicKey,
        /// Why it is in its cluster.
        reason: String,
    },
    /// Refuse a joining node.
    Refuse {
        /// Its link.
        link: LinkId,
        /// Why.
        refusal: Refusal,
    },
    /// A member's view has changed.
    Assign {
        /// The view.
        assignment: Box<Assignment>,
    },
    /// The network is measured, as far as it could be.
    Measured(Box<Measurement>),
    /// There is no plan for a strategy that the group is for.
    Unplanned {
        /// Which one.
        strategy: &'static str,
        /// Why.
        reason: String,
    },
}

/// What the coordinator knows of a member, as far as others need it.
#[derive(Clone, Debug)]
pub struct MemberInfo {
    /// What it calls itself.
    pub name: String,
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its key.
    pub key: PublicKey,
}

struct Member {
    info: MemberInfo,
    rank: u32,
    addresses: Vec<SocketAddr>,
    slots: SlotSet,
    epoch: u32,
}

struct Cluster {
    name: String,
    /// In the order of joining; the first is the leader.
    members: Vec<NodeId>,
    next_rank: u32,
    /// What nodes that joined, this cluster or another one, have measured to its leader: the shortest time of each.
    rtts: BTreeMap<LinkId, Duration>,
}

impl Cluster {
    fn named(name: String) -> Cluster {
        Cluster { name, members: Vec::new(), next_rank: 0, rtts: BTreeMap::new() }
    }
}

/// Where a joining node belongs.
enum Place {
    Cluster(ClusterId),
    New(Option<String>),
}

/// Who may be admitted: the link, what it says of itself, where it belongs, and why.
type Admissible = (LinkId, Join, Place, String);

/// The coordinator of one group.
pub struct Coordinator {
    random: Random,
    /// The coordinator's own node.
    own: NodeId,
    /// Grows with each coordinator of the group.
    term: u32,
    members: BTreeMap<NodeId, Member>,
    clusters: BTreeMap<ClusterId, Cluster>,
    graph: Graph,
    /// Links over which a node has asked to be admitted: once each.
    asked: BTreeSet<LinkId>,
    joining: BTreeMap<LinkId, Joining>,
    accusers: BTreeMap<NodeId, BTreeSet<NodeId>>,
    admissible: VecDeque<Admissible>,
    rounds: Rounds,
    completion_at: Option<Time>,
    departure_at: Option<Time>,
    /// Whether somebody's counterpart was lost since.
    unpaired: bool,
    /// Grows with each round of assignments: of two that name the same slot, the later one holds.
    epoch: u32,
    next_node: u32,
    next_cluster: u32,
    /// Successors that the last assignments named.
    named: Vec<NodeId>,
    changed: BTreeSet<NodeId>,
    ways: Ways,
    decisions: VecDeque<Decision>,
    closing: bool,
    plans: Plans,
    gauging: Gauging,
    root_dials: BTreeSet<(NodeId, NodeId)>,
    /// Whether members take each other's word.
    trusts_members: bool,
}

impl Coordinator {
    /// A group whose only member is its founder, node 0.
    pub fn new(
        name: String,
        cluster: Option<String>,
        addresses: Vec<SocketAddr>,
        key: PublicKey,
        seed: u64,
        overlays: Overlays,
        trusts_members: bool,
    ) -> Self {
        let mut coordinator = Coordinator::empty(NodeId(0), 0, seed);
        coordinator.trusts_members = trusts_members;
        coordinator.plans = Plans::new(overlays, seed);
        let founder = Join { name, cluster: cluster.clone(), addresses, key };
        coordinator.add_member(founder, Place::New(cluster));
        coordinator.rebalance(Newcomers::All);
        coordinator.publish();
        coordinator
    }

    fn empty(own: NodeId, term: u32, seed: u64) -> Self {
        Coordinator {
            random: Random::new(seed),
            own,
            term,
            members: BTreeMap::new(),
            clusters: BTreeMap::new(),
            graph: Graph::new(own),
            asked: BTreeSet::new(),
            joining: BTreeMap::new(),
            accusers: BTreeMap::new(),
            admissible: VecDeque::new(),
            rounds: Rounds::new(),
            completion_at: None,
            departure_at: None,
            unpaired: false,
            epoch: 0,
            next_node: 0,
            next_cluster: 0,
            named: Vec::new(),
            changed: BTreeSet::new(),
            ways: Ways::default(),
            decisions: VecDeque::new(),
            closing: false,
            plans: Plans::new(Overlays::default(), seed),
            gauging: Gauging::default(),
            root_dials: BTreeSet::new(),
            trusts_members: false,
        }
    }

    /// What is assigned from now on is of a later term: this coordinator was taken for gone, and is back.
    pub fn begin_term(&mut self, term: u32) {
        self.term = term;
        self.changed.insert(self.own);
        self.publish();
    }

    /// Members, the coordinator's own node included.
    pub fn members(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.keys().copied()
    }

    /// Members, those from `first` on before the others.
    pub fn members_from(&self, first: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.members.range(first..).chain(self.members.range(..first)).map(|(&node, _)| node)
    }

    /// How many members there are.
    pub fn member_count(&self) -> usize {
        self.members.len()
    }

    /// What is known of a member.
    pub fn member(&self, node: NodeId) -> Option<&MemberInfo> {
        self.members.get(&node).map(|member| &member.info)
    }

    /// A cluster's name.
    pub fn cluster_name(&self, cluster: ClusterId) -> String {
        self.clusters.get(&cluster).map_or_else(|| cluster.to_string(), |c| c.name.clone())
    }

    /// Clusters that have members.
    pub fn cluster_count(&self) -> usize {
        self.clusters.len()
    }

    /// Members of the cluster that has most.
    pub fn largest_cluster(&self) -> usize {
        self.clusters.values().map(|cluster| cluster.members.len()).max().unwrap_or_default()
    }

    /// The node above `node` in the control tree.
    pub fn parent_of(&self, node: NodeId) -> Option<NodeId> {
        self.graph.parent(node)
    }

    /// The nodes below `node` in the control tree, the lowest first.
    pub fn children_of(&self, node: NodeId) -> Vec<NodeId> {
        self.graph.children(node)
    }

    /// The coordinator's own children in the control tree.
    pub fn children(&self) -> Vec<NodeId> {
        self.children_of(self.own)
    }

    /// Who takes over when the coordinator goes: those of its children in the control tree with the lowest numbers
    /// that others can connect to.
    pub fn successors(&self) -> Vec<NodeId> {
        let dialable = |node: &NodeId| !self.members[node].addresses.is_empty();
        // Nobody whom anyone has accused is given the authority's key; nor anybody in his place, which is no reward for accusing.
        let accused = |node: &NodeId| self.accusers.get(node).is_some_and(|accusers| !accusers.is_empty());
        let first = self.children().into_iter().filter(dialable).take(SUCCESSORS);
        first.filter(|node| !accused(node)).collect()
    }

    /// Nodes from the coordinator's child down to `node` in the control tree.
    pub fn path_to(&self, node: NodeId) -> Vec<NodeId> {
        self.graph.path_from_top(node)
    }

    /// # Panics
    /// If something does not add up, or is kept for a link that is gone: that is a bug.
    pub(crate) fn check_invariants(&self, is_up: impl Fn(LinkId) -> bool) {
        let waiting = self.admissible.iter().map(|(link, ..)| link);
        let mut kept = self.asked.iter().chain(self.joining.keys()).chain(waiting);
        assert!(kept.all(|&link| is_up(link)), "somebody who is gone is being admitted");
        for (id, cluster) in &self.clusters {
            assert!(!cluster.members.is_empty(), "{id} is without members");
            let mut all = SlotSet::none();
            let held: usize = cluster.members.iter().map(|node| self.members[node].slots.count()).sum();
            cluster.members.iter().for_each(|node| all.union(&self.members[node].slots));
            assert_eq!((held, all.count()), (SLOTS, SLOTS), "slots of {id} belong to nobody, or to two");
        }
        for (&node, member) in &self.members {
            assert!(self.clusters[&member.info.cluster].members.contains(&node), "{node} is not in its cluster");
            let attached = node == self.own || !self.path_to(node).is_empty();
            assert!(attached, "{node} has no way up the control tree");
        }
        assert_eq!(self.graph.node_count(), self.members.len(), "the graph has other nodes than the group");
        assert_eq!(self.graph.orphans(), [], "somebody has no place in the control tree");
    }

    /// When [`Coordinator::handle_timeout`] wants to be called.
    pub fn timeout(&self) -> Option<Time> {
        let (round, company, gauging) = (self.rounds.due(), self.company_due(), self.gauging.timeout());
        Time::earliest([round, self.completion_at, self.departure_at, company, gauging])
    }

    /// The next decision, to be carried out in order.
    pub fn poll_decision(&mut self) -> Option<Decision> {
        self.decisions.pop_front()
    }

    /// No node is admitted any more.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// A node asks to be admitted.
    pub fn handle_join(&mut self, now: Time, link: LinkId, join: Join) {
        if !self.asked.insert(link) {
            return self.decisions.push_back(Decision::Refuse { link, refusal: Refusal::Invalid });
        }
        if let Some(refusal) = self.refusal() {
            return self.decisions.push_back(Decision::Refuse { link, refusal });
        }
        if let Some(name) = join.cluster.clone() {
            let reason = format!("named by --cluster {name}");
            return self.make_admissible(now, link, join, Place::New(Some(name)), reason);
        }
        self.joining.insert(link, Joining::new(join, now));
        self.probe_or_decide(now, link);
    }

    /// There is no place at the door for another one: after this it should come again, unless nobody is admitted any more.
    pub fn later(&mut self, now: Time) -> Result<Duration, Refusal> {
        self.refusal().map_or_else(|| Ok(self.rounds.later(now)), Err)
    }

    fn refusal(&self) -> Option<Refusal> {
        let full = self.members.len() + self.admissible.len() >= NODES_MAX;
        if self.closing { Some(Refusal::Closing) } else { full.then_some(Refusal::Full) }
    }

    /// The link of a joining node is gone before it was admitted.
    pub fn handle_joiner_gone(&mut self, link: LinkId) {
        self.asked.remove(&link);
        self.joining.remove(&link);
        self.admissible.retain(|(l, ..)| *l != link);
    }

    /// Admits who is waiting, completes the links of those who are in, and tells of what has changed.
    pub fn handle_timeout(&mut self, now: Time) {
        self.company_is_here(now);
        self.advance_gauge(now);
        self.ways.stale(now).into_iter().for_each(|child| self.way_gone(now, child));
        if self.rounds.due().is_some_and(|at| at <= now) {
            let first = self.admissible.len().min(ADMISSIONS_AT_ONCE);
            let waiting = self.admissible.drain(..first).collect();
            self.rounds.hold(now, first, !self.admissible.is_empty());
            self.admit(now, waiting);
        }
        if self.departure_at.is_some_and(|at| at <= now) {
            self.departure_at = None;
            if std::mem::take(&mut self.unpaired) {
                self.pair_clusters();
            }
            self.publish();
        }
        if self.completion_at.is_some_and(|at| at <= now) {
            self.completion_at = None;
            self.complete_links();
            self.rebalance(Newcomers::All);
            self.replan();
            self.publish();
        }
    }

    fn admit(&mut self, now: Time, waiting: Vec<Admissible>) {
        for (link, join, place, reason) in waiting {
            let (key, is_crowded) = (join.key, self.has_no_room_for(&place));
            let node = self.add_member(join, place);
            let cluster = self.cluster_name(self.members[&node].info.cluster);
            let crowded = || {
                format!("put into {cluster}, because a group has {CLUSTERS_MAX} clusters at most; otherwise {reason}")
            };
            let reason = if is_crowded { crowded() } else { reason };
            self.decisions.push_back(Decision::Admit { link, node, key, reason });
        }
        self.completion_at = Some(now + COMPLETION_PAUSE);
        self.rebalance(Newcomers::Many);
        self.publish();
    }

    /// A member is gone: its share, its neighbours' links and its place are given to others, and its children in the
    /// control tree get another parent; assignments that say so follow a moment later, for all that
    /// are lost within it. False if it was none.
    pub fn handle_lost(&mut self, now: Time, node: NodeId) -> bool {
        if node == self.own {
            return false;
        }
        let Some(member) = self.members.remove(&node) else { return false };
        let cluster = self.clusters.get_mut(&member.info.cluster).expect("a member's cluster exists");
        if cluster.members.first() == Some(&node) {
            cluster.rtts.clear();
        }
        cluster.members.retain(|&other| other != node);
        if cluster.members.is_empty() {
            self.clusters.remove(&member.info.cluster);
        }
        self.changed.extend(self.ways.remove(node));
        self.changed.remove(&node);
        self.plans.remove(node);
        self.unpaired |= !self.graph.counterparts(node).is_empty();
        self.gauge_without(node);
        let widowed = self.graph.remove(node);
        self.attach_orphans();
        self.give_out(member.info.cluster, member.slots);
        for neighbour in widowed {
            // Also one that was dialled by the lost node may have had no other link to that cluster.
            self.connect(neighbour);
            self.changed.insert(neighbour);
        }
        self.departure_at.get_or_insert(now + DEPARTURE_PAUSE);
        self.replan_later(now);
        true
    }

    /// A member whose parent in the control tree is gone asks for another one.
    pub fn handle_orphan(&mut self, node: NodeId) {
        if let Some(member) = self.members.get(&node) {
            let cluster = member.info.cluster;
            self.graph.detach(node);
            self.attach(node, cluster);
            self.changed.insert(node);
            self.publish();
        }
    }

    /// A member accuses another one of breaking the protocol, and has no link to it any more. One accuser may lie; of
    /// whom two accuse the share goes to others, and nobody is put below it.
    pub fn handle_accused(&mut self, accuser: NodeId, node: NodeId) {
        if !self.members.contains_key(&accuser) || !self.members.contains_key(&node) || accuser == node {
            return;
        }
        let accusers = self.accusers.entry(node).or_default();
        if !accusers.insert(accuser) {
            return;
        }
        let shunned = accusers.len() == ACCUSERS_MIN;
        self.graph.estrange(accuser, node);
        if shunned {
            self.graph.shun(node);
            let member = self.members.get_mut(&node).expect("looked up above");
            let (cluster, slots) = (member.info.cluster, std::mem::take(&mut member.slots));
            self.give_out(cluster, slots);
            self.graph.children(node).into_iter().for_each(|child| self.graph.detach(child));
        }
        for member in [accuser, node] {
            self.connect(member);
            self.changed.insert(member);
        }
        self.attach_orphans();
        self.publish();
    }

    /// Whether a member may have a share, and others wait for its result.
    pub fn is_trusted(&self, node: NodeId) -> bool {
        self.accusers.get(&node).is_none_or(|accusers| accusers.len() < ACCUSERS_MIN)
    }

    /// A member has the assignment of this epoch: if that is not the last one, it gets the last one again.
    pub fn renew(&mut self, node: NodeId, epoch: u32) {
        if self.members.get(&node).is_some_and(|member| member.epoch != epoch) {
            self.changed.insert(node);
            self.publish();
        }
    }

    /// A peer that `node` was told to connect to does not answer: it is told to connect to `node` instead, and `node` is
    /// given another one.
    pub fn handle_unreachable(&mut self, node: NodeId, peer: NodeId) {
        self.gauge_unreachable(node, peer);
        if self.members.contains_key(&node) && self.graph.parent(node) == Some(peer) && peer != self.own {
            self.graph.leave_unreached(node, peer);
            self.attach_orphans();
        }
        if self.members.contains_key(&node) && self.graph.disconnect(node, peer) {
            if self.graph.turn_round(node, peer) {
                self.changed.insert(peer);
            }
            self.connect(node);
            self.changed.insert(node);
        }
        self.publish();
    }

    fn make_admissible(&mut self, now: Time, link: LinkId, join: Join, place: Place, reason: String) {
        self.admissible.push_back((link, join, place, reason));
        self.rounds.ask(now);
    }

    fn add_member(&mut self, join: Join, place: Place) -> NodeId {
        let node = NodeId(self.next_node);
        self.next_node += 1;
        let cluster = self.cluster_for(place);
        let entry = self.clusters.get_mut(&cluster).expect("cluster_for returns an existing cluster");
        entry.members.push(node);
        let rank = entry.next_rank;
        entry.next_rank += 1;
        let info = MemberInfo { name: join.name, cluster, key: join.key };
        let dialable = !join.addresses.is_empty();
        self.members.insert(node, Member { info, rank, addresses: join.addresses, slots: SlotSet::none(), epoch: 0 });
        self.graph.add(node, cluster, dialable);
        self.plans.note_change();
        if node != self.own {
            self.attach(node, cluster);
            self.connect(node);
        }
        self.changed.insert(node);
        node
    }

    fn cluster_for(&mut self, place: Place) -> ClusterId {
        let name = match place {
            Place::Cluster(cluster) if self.clusters.contains_key(&cluster) => return cluster,
            // Its last member has left meanwhile.
            Place::Cluster(_) => None,
            Place::New(name) => name,
        };
        if let Some(name) = &name
            && let Some((&id, _)) = self.clusters.iter().find(|(_, cluster)| cluster.name == *name)
        {
            return id;
        }
        if self.clusters.len() >= CLUSTERS_MAX {
            return *self.clusters.keys().next_back().expect("CLUSTERS_MAX is not zero");
        }
        let (id, name) = self.next_cluster(name);
        self.clusters.insert(id, Cluster::named(name));
        if self.members.len() <= COMPLETED_GROUP_MAX {
            self.changed.extend(self.members.keys());
        }
        id
    }

    /// The number of the next cluster, and the name that it gets from that if it has none. Somebody may have named a cluster so.
    fn next_cluster(&mut self, name: Option<String>) -> (ClusterId, String) {
        let numbered = |number: u32| format!("cluster-{number}");
        while name.is_none() && self.clusters.values().any(|c| c.name == numbered(self.next_cluster)) {
            self.next_cluster += 1;
        }
        let id = ClusterId(self.next_cluster);
        self.next_cluster += 1;
        (id, name.unwrap_or_else(|| numbered(id.0)))
    }
}

mod door;
mod gauging;
mod links;
mod placing;
mod plans;
mod restore;
mod roots;
mod rounds;
mod shares;
mod views;
mod ways;

#[cfg(test)]
mod tests;
