//! Links of the last members of a broadcast to its root: where all whom they were told of have given it up, nobody else can send them what
//! they lack.

use super::*;

impl Coordinator {
    /// Members, each with the root that it is to be linked to, until this is called again.
    pub fn lead_to_roots(&mut self, links: BTreeSet<(NodeId, NodeId)>) {
        if links != self.root_links {
            let differ = self.root_links.symmetric_difference(&links).map(|&(node, _)| node);
            self.changed.extend(differ.filter(|node| self.members.contains_key(node)));
            self.root_links = links;
            self.publish();
        }
    }

    /// Who is linked to which root for want of others.
    pub fn root_links(&self) -> &BTreeSet<(NodeId, NodeId)> {
        &self.root_links
    }

    pub(super) fn roots_of(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let own = self.root_links.range((node, NodeId(0))..=(node, NodeId(u32::MAX)));
        own.map(|&(_, root)| root).filter(|root| self.members.contains_key(root))
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
            coordinator.lead_to_roots(links.iter().map(|&(node, root)| (NodeId(node), NodeId(root))).collect());
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
        assert_eq!(told(&[(4, 9)]), [(4, false)], "a root that is no member leads nowhere");
    }
}
