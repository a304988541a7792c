//! Links of the last members of a broadcast to its root: where all whom they were told of have given it up, nobody else can send them what
//! they lack.

use super::*;

impl Coordinator {
    /// Members, each with the root that it is to be linked to, instead of those before. False if nobody has to be told.
    pub fn lead_to_roots(&mut self, led: &BTreeSet<(NodeId, NodeId)>) -> bool {
        let dials: BTreeSet<(NodeId, NodeId)> =
            led.iter().filter_map(|&(node, root)| self.missing_way(node, root)).collect();
        let differ = self.root_dials.symmetric_difference(&dials).map(|&(from, _)| from);
        let concerned: BTreeSet<NodeId> = differ.filter(|node| self.members.contains_key(node)).collect();
        self.root_dials = dials;
        let any = !concerned.is_empty();
        if any {
            self.changed.extend(concerned);
            self.publish();
        }
        any
    }

    /// Whom a node connects to so that the last members have their roots.
    pub(super) fn root_dials_of(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let own = self.root_dials.range((node, NodeId(0))..=(node, NodeId(u32::MAX)));
        own.map(|&(_, to)| to).filter(|to| self.members.contains_key(to))
    }

    /// Who has to dial whom so that two members are linked: the first one, if the other can be dialled. None if they are told to by other rules.
    pub(super) fn missing_way(&self, from: NodeId, to: NodeId) -> Option<(NodeId, NodeId)> {
        let planned = self.plans.dials_of(from).contains(&to) || self.plans.dials_of(to).contains(&from);
        let dialable = self.members.get(&to).is_some_and(|member| !member.addresses.is_empty());
        let way = if dialable { (from, to) } else { (to, from) };
        (!planned && !self.graph.are_neighbours(from, to)).then_some(way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_member_is_told_to_connect_to_the_root_until_it_is_done() {
        let key = PublicKey([0; 32]);
        let overlays = Overlays::of(&["chain"], None).expect("a chain needs no network");
        let mut coordinator = Coordinator::new("root".into(), Some("a".into()), Vec::new(), key, 1, overlays, false);
        for i in 0..4 {
            let addresses = vec!["10.0.0.1:7077".parse().expect("an address")];
            let join = Join { name: format!("n{i}"), cluster: Some("a".into()), addresses, key };
            coordinator.handle_join(Time::ZERO, LinkId(i), join);
        }
        while let Some(at) = coordinator.timeout() {
            coordinator.handle_timeout(at);
        }
        let mut told = |links: &[(u32, u32)]| -> Vec<(u32, bool)> {
            while coordinator.poll_decision().is_some() {}
            coordinator.lead_to_roots(&links.iter().map(|&(node, root)| (NodeId(node), NodeId(root))).collect());
            let decisions = std::iter::from_fn(|| coordinator.poll_decision());
            let leads = |a: &Assignment| a.plan_peers.iter().any(|peer| peer.node == NodeId(1));
            let view = |decision| match decision {
                Decision::Assign { assignment } => Some((assignment.node.0, leads(&assignment))),
                _ => None,
            };
            decisions.filter_map(view).collect()
        };
        assert_eq!(told(&[(4, 1)]), [(4, true)], "in a chain it would have node 3 alone");
        assert_eq!(told(&[(4, 1)]), [], "it knows");
        assert_eq!(told(&[]), [(4, false)]);
        assert_eq!(told(&[(2, 1)]), [], "it has that link as it is");
    }
}
