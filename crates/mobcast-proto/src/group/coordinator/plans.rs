//! The group's plans: made anew when members have come or gone, and told to those whose place has changed.

use std::sync::Arc;

use mobcast_topology::Topology;

use super::*;
use crate::group::place::PlanPlace;
use crate::random::mix2;
use crate::strategy::Registry;
use crate::strategy::plan::{Order, OrderedCluster, Placed, PlanError, PlanInput};

/// The plans of the strategies that a group is for.
pub(super) struct Plans {
    overlays: Overlays,
    seed: u64,
    placed: BTreeMap<NodeId, Vec<Placed>>,
    /// Whether members have come or gone since.
    stale: bool,
    /// Why there is no plan of a strategy, where the network is known.
    failures: BTreeMap<&'static str, PlanError>,
}

impl Plans {
    pub(super) fn new(overlays: Overlays, seed: u64) -> Plans {
        Plans { overlays, seed, placed: BTreeMap::new(), stale: true, failures: BTreeMap::new() }
    }

    pub(super) fn overlays(&self) -> &Overlays {
        &self.overlays
    }

    /// The network is known, or has changed.
    pub(super) fn set_network(&mut self, network: Arc<Topology>) {
        self.overlays.network = Some(network);
        self.stale = true;
    }

    pub(super) fn note_change(&mut self) {
        self.stale = true;
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        self.placed.remove(&node);
        self.stale = true;
    }

    pub(super) fn places_of(&self, node: NodeId) -> Vec<PlanPlace> {
        self.placed.get(&node).into_iter().flatten().map(|placed| placed.place.clone()).collect()
    }

    /// Whom a node connects to because of its places; somebody who was lost since the plans were made may be among them.
    pub(super) fn dials_of(&self, node: NodeId) -> Vec<NodeId> {
        let all: BTreeSet<NodeId> =
            self.placed.get(&node).into_iter().flatten().flat_map(|placed| placed.dials.iter().copied()).collect();
        all.into_iter().collect()
    }
}

impl Coordinator {
    /// Members have come or gone in a group that is too large to plan for at once: it is planned for when that is over.
    pub(super) fn replan_later(&mut self, now: Time) {
        if !self.plans_at_once() && !self.plans.overlays.plans.is_empty() {
            self.completion_at = Some(now + COMPLETION_PAUSE);
        }
    }

    /// Whether the group is small enough that its plans follow every change at once.
    pub(super) fn plans_at_once(&self) -> bool {
        let packs = self.plans.overlays.plans.iter().any(|kind| kind.needs_network);
        self.members.len() <= PLANNED_AT_ONCE_MAX && (!packs || self.clusters.len() <= PACKED_AT_ONCE_MAX)
    }

    /// Makes the plans anew, if members have come or gone.
    pub(super) fn replan(&mut self) {
        if !std::mem::take(&mut self.plans.stale) || self.plans.overlays.plans.is_empty() {
            return;
        }
        let order = self.order();
        let mut placed: BTreeMap<NodeId, Vec<Placed>> = BTreeMap::new();
        let mut failures = BTreeMap::new();
        for kind in self.plans.overlays.plans.clone() {
            let network = self.plans.overlays.network.clone();
            let input = PlanInput { order: &order, network: network.as_deref(), seed: self.plans.seed };
            // Without a plan, as when a cluster has come that the network does not know, nodes fetch from whoever has it.
            let plan = match kind.planner.map(|plan| plan(&input)) {
                Some(Ok(plan)) => plan,
                Some(Err(error)) => {
                    failures.insert(kind.name, error);
                    continue;
                }
                None => continue,
            };
            let dialable = |node: NodeId| !self.members[&node].addresses.is_empty();
            for (position, place) in plan.places(kind.name, &order, dialable).into_iter().enumerate() {
                placed.entry(order.node(position)).or_default().push(place);
            }
        }
        for &node in self.members.keys() {
            if self.plans.placed.get(&node) != placed.get(&node) {
                self.changed.insert(node);
            }
        }
        self.plans.placed = placed;
        self.tell_failures(failures);
    }

    /// Tells of strategies that have come to be without a plan, or are for another reason. Until the network is measured, there is
    /// none to plan for; and for a founder alone there is nothing to plan, and nobody who listens yet.
    fn tell_failures(&mut self, mut failures: BTreeMap<&'static str, PlanError>) {
        if self.members.len() == 1 {
            return;
        }
        failures.retain(|_, error| !matches!(error, PlanError::NoNetwork { .. }));
        for (&strategy, error) in failures.iter().filter(|&(name, error)| self.plans.failures.get(name) != Some(error))
        {
            self.decisions.push_back(Decision::Unplanned { strategy, reason: error.to_string() });
        }
        self.plans.failures = failures;
    }

    /// The strategies that the group is for.
    pub(crate) fn overlays(&self) -> &Overlays {
        self.plans.overlays()
    }

    /// Nodes in the order of plans: this one first, then the rest of its cluster, then the other clusters. Two clusters of one
    /// name, of which one was founded when the other had lost its members, are one.
    pub(crate) fn order(&self) -> Order {
        let own = self.members[&self.own].info.cluster;
        let mut sorted: Vec<(ClusterId, &Cluster)> = self.clusters.iter().map(|(&id, cluster)| (id, cluster)).collect();
        sorted.sort_by_key(|&(id, _)| (id != own, id));
        let mut ordered: Vec<OrderedCluster> = Vec::new();
        for (cluster, Cluster { name, members, .. }) in sorted {
            let others = members.iter().copied().filter(|&node| node != self.own);
            let nodes: Vec<NodeId> = (cluster == own).then_some(self.own).into_iter().chain(others).collect();
            match ordered.iter_mut().find(|other| other.name == *name) {
                Some(other) => other.nodes.extend(nodes),
                None => ordered.push(OrderedCluster { cluster, name: name.clone(), nodes }),
            }
        }
        Order::new(ordered)
    }

    /// Plans of the strategies that the members' assignments speak of. A network that only the founder knew is lost with it; what
    /// was planned for it holds on, without those who are gone.
    pub(super) fn restore_plans<'a>(
        &mut self,
        registry: Registry,
        assignments: impl Iterator<Item = &'a Assignment>,
        term: u32,
    ) {
        let mut overlays = Overlays { mesh: false, ..Overlays::default() };
        for assignment in assignments {
            overlays.mesh |= !assignment.local_peers.is_empty() || !assignment.global_peers.is_empty();
            for name in assignment.plans.iter().map(|plan| plan.strategy.as_str()) {
                let kind = registry.find(name).filter(|kind| !kind.needs_network);
                let known = |kind: &&crate::strategy::StrategyKind| overlays.plans.iter().any(|k| k.name == kind.name);
                if let Some(kind) = kind.filter(|kind| !known(kind)) {
                    overlays.plans.push(kind);
                }
            }
        }
        overlays.mesh |= overlays.plans.is_empty();
        let seed = mix2(self.plans.seed, u64::from(term));
        self.plans = Plans::new(overlays, seed);
    }
}
