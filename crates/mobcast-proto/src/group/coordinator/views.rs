//! What each member is told of the group: its bounded view, made of what the coordinator's parts know of it.

use super::*;
use crate::group::assignment::PeerAddress;
use crate::limits::LINKS_MAX;

impl Coordinator {
    /// Tells members of their new views: whoever has none at once, the others when there is room on the way to them.
    pub(super) fn publish(&mut self) {
        if self.plans_at_once() {
            self.replan();
        }
        let successors = self.successors();
        if successors != self.named {
            self.named = successors;
            self.changed.extend(self.members.keys());
        }
        let room = self.room();
        let mut told = std::mem::take(&mut self.changed);
        told.retain(|&node| {
            let has_view = self.members.get(&node).is_some_and(|member| member.epoch > 0);
            let way = self.graph.path_from_top(node).first().copied().filter(|_| has_view);
            way.is_none_or(|child| self.ways.admits(child, node, room))
        });
        self.tell(told);
    }

    fn tell(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        let mut nodes = nodes.into_iter().peekable();
        if nodes.peek().is_some() {
            self.epoch = self.epoch.saturating_add(1);
        }
        for node in nodes {
            if let Some(member) = self.members.get_mut(&node) {
                member.epoch = self.epoch;
                let assignment = self.assignment(node);
                self.decisions.push_back(Decision::Assign { assignment: Box::new(assignment) });
            }
        }
    }

    fn room(&self) -> usize {
        ways::room(self.graph.children(self.own).len())
    }

    /// All views so far have been sent. Returns the children to ask now whether they are through, so that others can be.
    pub fn views_sent(&mut self, now: Time) -> Vec<NodeId> {
        let room = self.room();
        self.ways.ask(now, room)
    }

    /// What a child was asked about at `asked` is through. True if somebody is told for that.
    pub fn way_clear(&mut self, child: NodeId, asked: Time) -> bool {
        let room = self.room();
        let told = self.ways.answered(child, asked, room);
        let any = !told.is_empty();
        self.tell(told);
        any
    }

    /// The link to a child is gone: who waited for a view below it is told at the next occasion.
    pub fn way_gone(&mut self, now: Time, child: NodeId) {
        let held = self.ways.remove(child);
        if !held.is_empty() {
            self.changed.extend(held.into_iter().filter(|node| self.members.contains_key(node)));
            self.departure_at.get_or_insert(now + DEPARTURE_PAUSE);
        }
    }

    /// A member's view of the group.
    pub(super) fn assignment(&self, node: NodeId) -> Assignment {
        let member = &self.members[&node];
        let cluster = &self.clusters[&member.info.cluster];
        // Plans and successors of before may name somebody who is gone: until they are made anew the others are told without him.
        let peers = |nodes: Vec<NodeId>| nodes.into_iter().filter_map(|n| self.address(n)).collect();
        let mut plan_peers: BTreeSet<NodeId> = self.plans.dials_of(node).into_iter().collect();
        plan_peers.extend(self.root_dials_of(node));
        plan_peers.extend(self.gauging.dials_of(node));
        plan_peers.retain(|peer| self.members.contains_key(peer));
        Assignment {
            term: self.term,
            epoch: member.epoch,
            node,
            cluster: member.info.cluster,
            cluster_name: cluster.name.clone(),
            rank: member.rank,
            cluster_size: cluster.members.len() as u32,
            clusters: self.clusters.keys().copied().collect(),
            parent: self.graph.parent(node).and_then(|parent| self.address(parent)),
            local_peers: peers(self.graph.told_local(node)),
            global_peers: peers(self.graph.told_global(node)),
            counterparts: self.graph.counterparts(node),
            trusts_members: self.trusts_members,
            slots: member.slots.clone(),
            successors: peers(self.named.clone()),
            plans: self.plans.places_of(node),
            plan_peers: peers(plan_peers.into_iter().take(LINKS_MAX).collect()),
            probes: self.gauging.orders_of(node),
        }
    }

    /// Where a member is reached; none if it is gone.
    fn address(&self, node: NodeId) -> Option<PeerAddress> {
        let member = self.members.get(&node)?;
        let cluster = member.info.cluster;
        Some(PeerAddress { node, cluster, rank: member.rank, addresses: member.addresses.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A coordinator, and the last view of each member.
    struct Told {
        coordinator: Coordinator,
        views: BTreeMap<NodeId, Assignment>,
    }

    impl Told {
        /// Members told through each child until it answers, with those who are told directly; the most of any one.
        fn drain(&mut self) -> usize {
            let mut on_way: BTreeMap<Option<NodeId>, usize> = BTreeMap::new();
            while let Some(decision) = self.coordinator.poll_decision() {
                if let Decision::Assign { assignment } = decision {
                    let is_first = !self.views.contains_key(&assignment.node);
                    let way = self.coordinator.path_to(assignment.node).first().copied().filter(|_| !is_first);
                    *on_way.entry(way).or_default() += usize::from(way.is_some());
                    self.views.insert(assignment.node, *assignment);
                }
            }
            on_way.into_values().max().unwrap_or_default()
        }

        /// Lets all be told that is due, with answers from the children. The most that were under way to one of them.
        fn settle(&mut self) -> usize {
            let (mut now, mut most) = (Time::ZERO, self.drain());
            loop {
                now = self.coordinator.timeout().map_or(now, |at| now.max(at));
                self.coordinator.handle_timeout(now);
                most = most.max(self.drain());
                let asked = self.coordinator.views_sent(now);
                if self.coordinator.timeout().is_none() && asked.is_empty() {
                    return most;
                }
                for child in asked {
                    self.coordinator.way_clear(child, now);
                    most = most.max(self.drain());
                }
            }
        }
    }

    /// A group of 3,001.
    fn large() -> Told {
        let key = PublicKey([0; 32]);
        let overlays = Overlays::default();
        let coordinator = Coordinator::new("root".into(), Some("a".into()), Vec::new(), key, 1, overlays, false);
        let mut told = Told { coordinator, views: BTreeMap::new() };
        for i in 0..3000 {
            let cluster = Some(["a", "b"][i as usize % 2].to_owned());
            let addresses = vec!["10.0.0.1:7077".parse().expect("an address")];
            let join = Join { name: format!("n{i}"), cluster, addresses, key };
            told.coordinator.handle_join(Time::ZERO, LinkId(i), join);
        }
        told.settle();
        assert_eq!(told.views.len(), 3001, "all have been told of their places");
        told
    }

    #[test]
    fn when_the_views_of_many_change_no_way_takes_more_than_it_has_room_for_and_all_are_told() {
        let mut told = large();
        // The views of all name the successors.
        let successor = told.coordinator.named[0];
        told.coordinator.handle_lost(Time::ZERO, successor);
        let most = told.settle();
        let (room, below) = (told.coordinator.room(), 3000 / told.coordinator.children().len());
        assert!(most <= room && room < below, "{most} of {below} views on a way with room for {room}");
        for (node, view) in told.views.iter().filter(|&(&node, _)| node != successor) {
            assert!(view.successors.iter().all(|peer| peer.node != successor), "{node} has not been told");
        }
    }

    #[test]
    fn who_is_told_between_a_loss_and_the_round_that_follows_hears_of_members_only() {
        let mut told = large();
        let lost = told.coordinator.named[0];
        told.coordinator.handle_lost(Time::ZERO, lost);
        let now = told.coordinator.timeout().expect("the views of all change");
        told.coordinator.handle_timeout(now);
        told.drain();
        let asked = told.coordinator.views_sent(now);
        let next = told.coordinator.named[0];
        told.coordinator.handle_lost(now, next);
        told.views.clear();
        for child in asked {
            told.coordinator.way_clear(child, now);
        }
        told.drain();
        assert!(!told.views.is_empty(), "some had waited");
        assert!(told.views.values().all(|view| view.successors.iter().all(|peer| peer.node != next)));
    }
}
