//! Counterparts: which nodes of two clusters exchange with each other, so that each has its part of the other cluster's cards. Links
//! between clusters come about as nodes join, and some nodes end up with links to a peer that others have, too; where each
//! node's card towards other clusters is what binds (den Burger and Kielmann, HPDC 2007, section 4.2), two that ask the same
//! peer have half of it each while another peer idles. The larger cluster's nodes are spread evenly over the smaller one's: a
//! matching in which a node of the smaller cluster may be taken several times (augmenting paths, as in Kuhn 1955), over
//! the links that there are, and over new ones where these do not do.

use std::collections::{BTreeMap, BTreeSet};

use crate::units::NodeId;

/// Spreads `many` over `few`, which are not more. Those of `before` stay together as far as that is even. `is_linked` says
/// which links there are; `link` makes one more, and is false if that cannot be. Who can be linked to nobody stays alone.
pub fn spread(
    many: &[NodeId],
    few: &[NodeId],
    before: &BTreeMap<NodeId, NodeId>,
    is_linked: impl Fn(NodeId, NodeId) -> bool,
    mut link: impl FnMut(NodeId, NodeId) -> bool,
) -> BTreeMap<NodeId, NodeId> {
    let mut linked: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
    for &node in many {
        let own = before.get(&node).filter(|&&peer| few.contains(&peer) && is_linked(node, peer));
        let others = few.iter().filter(|&&peer| Some(&peer) != own && is_linked(node, peer));
        linked.insert(node, own.into_iter().chain(others).copied().collect());
    }
    let mut matching = Matching { linked, taken: few.iter().map(|&peer| (peer, Vec::new())).collect() };
    let mut alone: Vec<NodeId> = many.to_vec();
    for each in 1..=many.len().div_ceil(few.len().max(1)) {
        alone.retain(|&node| !matching.place(node, each, &mut BTreeSet::new()));
        // The links that there are do not do.
        alone.retain(|&node| {
            let free = matching.taken.iter().filter(|(_, nodes)| nodes.len() < each).map(|(&peer, _)| peer);
            let peer = free.collect::<Vec<_>>().into_iter().find(|&peer| link(node, peer));
            peer.into_iter().for_each(|peer| matching.join(node, peer));
            peer.is_none()
        });
    }
    let pairs = matching.taken.iter().flat_map(|(&peer, nodes)| nodes.iter().map(move |&node| (node, peer)));
    pairs.collect()
}

struct Matching {
    linked: BTreeMap<NodeId, Vec<NodeId>>,
    taken: BTreeMap<NodeId, Vec<NodeId>>,
}

impl Matching {
    /// Finds a place for `node` among its peers, who take `each` nodes at most; others may have to move.
    fn place(&mut self, node: NodeId, each: usize, seen: &mut BTreeSet<NodeId>) -> bool {
        for peer in self.linked[&node].clone() {
            if !seen.insert(peer) {
                continue;
            }
            if self.taken[&peer].len() < each {
                self.join(node, peer);
                return true;
            }
            for other in self.taken[&peer].clone() {
                if self.place(other, each, seen) {
                    self.taken.get_mut(&peer).expect("all peers are in it").retain(|&taken| taken != other);
                    self.join(node, peer);
                    return true;
                }
            }
        }
        false
    }

    fn join(&mut self, node: NodeId, peer: NodeId) {
        self.taken.get_mut(&peer).expect("all peers are in it").push(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nodes(ids: impl IntoIterator<Item = u32>) -> Vec<NodeId> {
        ids.into_iter().map(NodeId).collect()
    }

    /// Spreads nodes 100.. over nodes 0..; returns the pairs and the links that were made.
    fn spread_over(many: u32, few: u32, links: &[(u32, u32)]) -> (BTreeMap<NodeId, NodeId>, usize) {
        let linked = |a: NodeId, b: NodeId| links.contains(&(a.0, b.0));
        let mut made = 0;
        let link = |_, _| {
            made += 1;
            true
        };
        let pairs = spread(&nodes(100..100 + many), &nodes(0..few), &BTreeMap::new(), linked, link);
        (pairs, made)
    }

    #[test]
    fn two_that_share_a_peer_are_parted_by_way_of_a_third() {
        // All came by the links of the order of joining: 100 and 101 to 0, and later nodes to those with fewest links.
        let links = [(100, 0), (100, 1), (101, 0), (101, 2), (102, 1), (102, 3), (103, 2)];
        let (pairs, made) = spread_over(4, 4, &links);
        assert_eq!(made, 0);
        let peers: BTreeSet<NodeId> = pairs.values().copied().collect();
        assert_eq!((pairs.len(), peers.len()), (4, 4), "{pairs:?}");
        assert!(pairs.iter().all(|(a, b)| links.contains(&(a.0, b.0))));
    }

    #[test]
    fn those_who_all_know_the_same_one_get_links_to_others() {
        let (pairs, made) = spread_over(4, 4, &[(100, 0), (101, 0), (102, 0), (103, 0)]);
        assert_eq!((pairs.values().collect::<BTreeSet<_>>().len(), made), (4, 3));
    }

    #[test]
    fn pairs_stay_together() {
        let before: BTreeMap<NodeId, NodeId> = [(NodeId(100), NodeId(1)), (NodeId(101), NodeId(0))].into();
        let pairs = spread(&nodes([100, 101]), &nodes([0, 1]), &before, |_, _| true, |_, _| unreachable!());
        assert_eq!(pairs, before);
    }

    #[test]
    fn a_pair_that_is_not_linked_any_more_is_none() {
        let before: BTreeMap<NodeId, NodeId> = [(NodeId(100), NodeId(0))].into();
        let linked = |_, peer: NodeId| peer == NodeId(1);
        let pairs = spread(&nodes([100]), &nodes([0, 1]), &before, linked, |_, _| false);
        assert_eq!(pairs, [(NodeId(100), NodeId(1))].into());
    }

    #[test]
    fn who_can_be_linked_to_nobody_stays_alone() {
        let pairs = spread(&nodes([100, 101]), &nodes([0]), &BTreeMap::new(), |a, _| a.0 == 101, |_, _| false);
        assert_eq!(pairs, [(NodeId(101), NodeId(0))].into());
    }

    proptest! {
        #[test]
        fn all_have_a_place_and_places_are_even(
            few in 1..12u32,
            more in 0..40u32,
            links in proptest::collection::vec((0..52u32, 0..12u32), 0..60),
        ) {
            let many = few + more;
            let links: Vec<(u32, u32)> = links.into_iter().map(|(a, b)| (100 + a, b)).collect();
            let (pairs, _) = spread_over(many, few, &links);
            prop_assert_eq!(pairs.len(), many as usize);
            let mut loads = BTreeMap::new();
            pairs.values().for_each(|peer| *loads.entry(*peer).or_insert(0u32) += 1);
            let (least, most) = (many / few, many.div_ceil(few));
            prop_assert!(loads.len() == few as usize && loads.values().all(|load| (least..=most).contains(load)));
        }
    }
}
