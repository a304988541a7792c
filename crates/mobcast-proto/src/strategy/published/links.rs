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
    /// Whether somebody could not accept a link to another cluster.
    is_short: bool,
}

impl<'a> Links<'a> {
    /// None yet.
    pub(in crate::strategy) fn new(input: &PlanInput<'a>, seed: u64) -> Links<'a> {
        let peers = vec![BTreeSet::new(); input.order.len()];
        Links { order: input.order, seed, ranges: input.order.ranges(), peers, is_short: false }
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
        } else {
            self.is_short |= !self.ranges.iter().any(|range| range.contains(&from) && range.contains(&to));
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
        let importers = if self.is_short { self.importers() } else { Vec::new() };
        let peers = self.peers.into_iter().map(|peers| peers.into_iter().collect()).collect();
        Plan { peers, importers, ..Plan::default() }
    }

    /// Who can import, where links are short: else some shares would be those of nodes without a link, or of two that wait for each other.
    /// Clusters follow the root's one after another, each time that of which the largest part has links to those before, and in it these
    /// nodes have a share. Whoever is in a cluster without such links has one as well: somebody has to.
    fn importers(&self) -> Vec<bool> {
        let mut importers = vec![true; self.order.len()];
        let mut linked = vec![false; self.order.len()];
        let mut left: BTreeSet<usize> = (1..self.ranges.len()).collect();
        let mut next = 0;
        loop {
            let cluster = self.ranges[next].clone();
            cluster.flat_map(|position| &self.peers[position]).for_each(|&to| linked[to] = true);
            let part = |range: &Range<usize>| {
                thousandths(range.clone().filter(|&position| linked[position]).count(), range.len())
            };
            let most = left.iter().map(|&cluster| (part(&self.ranges[cluster]), Reverse(cluster))).max();
            let Some((1.., Reverse(cluster))) = most else { return importers };
            left.remove(&cluster);
            self.ranges[cluster].clone().for_each(|position| importers[position] = linked[position]);
            next = cluster;
        }
    }
}

/// Which part `count` is of `all`: nothing only if there are none.
fn thousandths(count: usize, all: usize) -> usize {
    (1_000 * count).checked_div(all).map_or(0, |part| part.max(count.min(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::place::PlanPlace;
    use crate::strategy::find;
    use crate::strategy::plan::tests::{self, order};
    use crate::strategy::published::Place;

    #[test]
    fn nobody_is_given_more_links_than_it_can_hold() {
        let order = order(&[1, 100]);
        let input = PlanInput { order: &order, network: None, seed: 1 };
        let mut links = Links::new(&input, 1);
        (1..101).for_each(|position| links.join_some(position, 0..1, 1));
        assert_eq!(links.degree(0, false), 40, "of 64, 16 are for the control tree and eight for newcomers");
    }

    /// Where one node meets sixty, twenty have no link to it; where it meets twice as many, twenty of each have links to each other alone. All
    /// pieces of a hundred have a way into every cluster, from the one that is to import it to one whose cluster has it.
    #[test]
    fn every_share_can_be_had_also_where_a_small_cluster_meets_large_ones() {
        for (name, sizes) in ["mob-hpdc07", "robber-tpds11"].into_iter().flat_map(|name| {
            let sizes = [&[1, 60][..], &[1, 60, 60], &[2, 90, 3, 90, 40], &[1, 30, 30, 30, 30, 30, 30, 30]];
            sizes.map(|sizes| (name, sizes))
        }) {
            let order = order(sizes);
            let plan = tests::plan(find(name).and_then(|kind| kind.planner).expect(name), sizes);
            let places: Vec<PlanPlace> =
                plan.places(name, &order, |_| true).into_iter().map(|placed| placed.place).collect();
            let ranges = order.ranges();
            let cluster_of = |position: usize| ranges.iter().position(|range| range.contains(&position)).expect("all");
            for piece in 0..100 {
                let imports = |position: &usize| {
                    let place = &places[*position];
                    place.cluster_size > 0 && shares(place, 100).contains(&piece)
                };
                let owners: Vec<usize> = ranges.iter().filter_map(|range| range.clone().find(imports)).collect();
                assert_eq!(owners.len(), sizes.len(), "{name} {sizes:?}: somebody is to import piece {piece}");
                let mut has = BTreeSet::from([0]);
                for _ in sizes {
                    let reached = |owner: &&usize| plan.peers[**owner].iter().any(|&to| has.contains(&cluster_of(to)));
                    let fresh: Vec<usize> = owners.iter().filter(reached).map(|&owner| cluster_of(owner)).collect();
                    has.extend(fresh);
                }
                assert_eq!(has.len(), sizes.len(), "{name} {sizes:?}: piece {piece} reaches {has:?}");
            }
        }
    }

    fn shares(place: &PlanPlace, pieces: u32) -> Range<u32> {
        Place { rank: place.rank(), size: place.cluster_size, imports: true }.share(pieces)
    }

    #[test]
    fn few_of_very_many_are_some() {
        assert_eq!(
            [(0, 0), (0, 41_000), (40, 41_000), (20, 60)].map(|(count, all)| thousandths(count, all)),
            [0, 0, 1, 333]
        );
    }

    #[test]
    fn where_all_links_were_accepted_everybody_imports() {
        for sizes in [&[4, 4, 4, 4][..], &[1, 7, 2, 12], &[1, 40]] {
            assert!(tests::plan(find("mob-hpdc07").and_then(|kind| kind.planner).unwrap(), sizes).importers.is_empty());
        }
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
