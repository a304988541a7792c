//! Drawing a plan's links: each node takes some of its candidates by chance. Whoever is taken accepts, as long as it can hold
//! another link; what was drawn stays when others come or go, because chance is a hash of the two nodes.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;

use crate::limits::PLANNED_PEERS_MAX;
use crate::random::mix2;
use crate::strategy::plan::{Order, Plan, PlanInput};

/// Links as they are drawn. The papers' nodes accept all; ours have [`PLANNED_PEERS_MAX`], drawn and accepted.
pub(in crate::strategy) struct Links<'a> {
    order: &'a Order,
    seed: u64,
    ranges: Vec<Range<usize>>,
    peers: Vec<BTreeSet<usize>>,
}

impl<'a> Links<'a> {
    /// None yet.
    pub(in crate::strategy) fn new(input: &PlanInput<'a>, seed: u64) -> Links<'a> {
        let peers = vec![BTreeSet::new(); input.order.len()];
        Links { order: input.order, seed, ranges: input.order.ranges(), peers }
    }

    /// The positions of each cluster.
    pub(in crate::strategy) fn ranges(&self) -> Vec<Range<usize>> {
        self.ranges.clone()
    }

    /// How the hash of two nodes orders candidates; any order of them is as likely as the others.
    pub(in crate::strategy) fn chance(&self, from: usize, to: usize) -> u64 {
        let own = mix2(self.seed, u64::from(self.order.node(from).0));
        mix2(own, u64::from(self.order.node(to).0))
    }

    /// Candidates in the order of chance. Of thousands a few are taken: only those are put into order.
    pub(in crate::strategy) fn drawn<C>(&self, from: usize, candidates: C) -> impl Iterator<Item = usize> + use<C>
    where
        C: Iterator<Item = usize>,
    {
        let with_chance = |to| Reverse((self.chance(from, to), to));
        let mut heap: BinaryHeap<_> = candidates.filter(|&to| to != from).map(with_chance).collect();
        std::iter::from_fn(move || heap.pop().map(|Reverse((_, to))| to))
    }

    /// Makes a link; false if one of the two can hold no more. One that is there already counts.
    pub(in crate::strategy) fn join(&mut self, from: usize, to: usize) -> bool {
        let room = |position: usize| self.peers[position].len() < PLANNED_PEERS_MAX;
        let can = self.peers[from].contains(&to) || (room(from) && room(to));
        if can {
            self.peers[from].insert(to);
            self.peers[to].insert(from);
        }
        can
    }

    /// Links so many of the candidates to a node.
    pub(in crate::strategy) fn join_some(
        &mut self,
        from: usize,
        candidates: impl Iterator<Item = usize>,
        count: usize,
    ) {
        candidates.filter(|&to| self.join(from, to)).take(count).for_each(drop);
    }

    /// Peers of a node in its own cluster, or else in the others.
    pub(in crate::strategy) fn degree(&self, position: usize, local: bool) -> usize {
        let own = self.ranges.iter().find(|range| range.contains(&position));
        self.peers[position].iter().filter(|to| own.is_some_and(|range| range.contains(to)) == local).count()
    }

    /// Whether every cluster hangs together by its own links, and all clusters do.
    pub(in crate::strategy) fn is_connected(&self) -> bool {
        let within = |range: &Range<usize>| range.is_empty() || self.reached(range.start, range).len() == range.len();
        let all = 0..self.order.len();
        self.ranges.iter().all(within) && (all.is_empty() || self.reached(0, &all).len() == all.len())
    }

    /// The positions that lead to one another from `start` on, without leaving `within`.
    fn reached(&self, start: usize, within: &Range<usize>) -> BTreeSet<usize> {
        let mut reached = BTreeSet::from([start]);
        let mut next = vec![start];
        while let Some(position) = next.pop() {
            let fresh = self.peers[position].iter().filter(|to| within.contains(to) && reached.insert(**to));
            next.extend(fresh.copied());
        }
        reached
    }

    /// The plan, in which both ends of a link name each other.
    pub(in crate::strategy) fn into_plan(self) -> Plan {
        let peers = self.peers.into_iter().map(|peers| peers.into_iter().collect()).collect();
        Plan { peers, ..Plan::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::plan::tests::order;

    #[test]
    fn nobody_is_given_more_links_than_it_can_hold() {
        let order = order(&[1, 100]);
        let input = PlanInput { order: &order, network: None, seed: 1 };
        let mut links = Links::new(&input, 1);
        (1..101).for_each(|position| links.join_some(position, 0..1, 1));
        assert_eq!(links.degree(0, false), 40, "of 64, 16 are for the control tree and eight for newcomers");
    }

    #[test]
    fn what_was_drawn_stays_when_others_come() {
        let (small, large) = (order(&[20]), order(&[21]));
        let first = |order: &Order| {
            let links = Links::new(&PlanInput { order, network: None, seed: 3 }, 3);
            links.drawn(4, 0..order.len()).filter(|&to| to != 20).take(5).collect::<Vec<_>>()
        };
        assert_eq!(first(&small), first(&large));
    }

    #[test]
    fn a_cluster_without_a_link_inside_is_not_connected() {
        let order = order(&[2, 2]);
        let mut links = Links::new(&PlanInput { order: &order, network: None, seed: 1 }, 1);
        for (from, to) in [(0, 1), (0, 2), (1, 3)] {
            links.join(from, to);
        }
        assert!(!links.is_connected(), "nodes 2 and 3 only meet in the other cluster");
        links.join(2, 3);
        assert!(links.is_connected());
    }
}
