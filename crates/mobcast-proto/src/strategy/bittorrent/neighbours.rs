//! Who knows whom: the lists of peers that the coordinator gives out. They are made of rings: in
//! each, all nodes stand in an order by chance, and who stands next to each other knows each other. So everybody
//! is connected, all know equally many, and whoever comes or goes changes a few lists only.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::random::{Random, mix2};
use crate::strategy::plan::{Plan, PlanError, PlanInput};

/// Peers that a node knows at most, told and accepted together: the original client asks for no more when it has so many.
const KNOWN_MAX: usize = 35;
/// Peers in other clusters of a node whose neighbours are biased: Bindal and others' k, the least that connects clusters.
const FOREIGN: usize = 1;
/// More rings hardly add anybody: of 37 nodes nearly all have met by then.
const RINGS: u64 = 96;

/// Anybody knows anybody.
pub(super) fn random(input: &PlanInput<'_>) -> Result<Plan, PlanError> {
    let mut lists = Lists::new(input);
    lists.link_by_chance((0..input.order.len()).collect(), KNOWN_MAX);
    Ok(lists.into_plan())
}

/// All that a node knows are of its own cluster but one (Bindal and others, ICDCS 2006).
pub(super) fn biased(input: &PlanInput<'_>) -> Result<Plan, PlanError> {
    let mut lists = Lists::new(input);
    for range in input.order.ranges() {
        lists.link_by_chance(range.collect(), KNOWN_MAX - FOREIGN);
    }
    lists.link_clusters();
    Ok(lists.into_plan())
}

/// Who knows whom, by position.
struct Lists<'a> {
    input: &'a PlanInput<'a>,
    known: Vec<BTreeSet<usize>>,
}

impl<'a> Lists<'a> {
    fn new(input: &'a PlanInput<'a>) -> Lists<'a> {
        Lists { input, known: vec![BTreeSet::new(); input.order.len()] }
    }

    fn link(&mut self, a: usize, b: usize) {
        self.known[a].insert(b);
        self.known[b].insert(a);
    }

    /// These positions in an order by chance, another one for each `ring`.
    fn by_chance(&self, mut positions: Vec<usize>, ring: u64) -> Vec<usize> {
        let number = |&position: &usize| {
            let node = self.input.order.node(position);
            (mix2(mix2(self.input.seed, ring), u64::from(node.0)), node)
        };
        positions.sort_unstable_by_key(number);
        positions
    }

    /// Makes each of these know up to `most` of the others.
    fn link_by_chance(&mut self, positions: Vec<usize>, most: usize) {
        if positions.len() <= most + 1 {
            for (i, &a) in positions.iter().enumerate() {
                positions[..i].iter().for_each(|&b| self.link(a, b));
            }
            return;
        }
        for ring in 0..RINGS {
            let ring = self.by_chance(positions.clone(), ring);
            for (i, &a) in ring.iter().enumerate() {
                let b = ring[(i + 1) % ring.len()];
                if self.known[a].len() < most && self.known[b].len() < most {
                    self.link(a, b);
                }
            }
            if ring.iter().filter(|&&position| self.known[position].len() < most).count() < 2 {
                return;
            }
        }
    }

    /// Gives each node a peer in another cluster, and only one as far as that is possible: first so that all clusters are
    /// connected, then in pairs. Where one cluster is larger than all others together, some of these have several.
    fn link_clusters(&mut self) {
        let mut random = Random::new(self.input.seed);
        let clusters: Vec<Vec<usize>> = self.input.order.ranges().into_iter().map(|range| range.collect()).collect();
        let mut free: Vec<Vec<usize>> = clusters.iter().map(|nodes| self.by_chance(nodes.clone(), RINGS)).collect();
        let mut order: Vec<usize> = (0..clusters.len()).collect();
        order.sort_by_key(|&cluster| Reverse(clusters[cluster].len()));
        for (i, &cluster) in order.iter().enumerate().skip(1) {
            let with = order[..i].iter().copied().max_by_key(|&other| (free[other].len(), Reverse(other)));
            let with = with.expect("the largest cluster comes first");
            let from = free[cluster].pop().expect("nobody of it has a peer yet");
            let earlier: Vec<usize> = order[..i].iter().flat_map(|&other| clusters[other].clone()).collect();
            let mut taken = |positions: &[usize]| self.any_with_room(positions, &mut random);
            let to = free[with].pop().or_else(|| taken(&clusters[with])).or_else(|| taken(&earlier));
            let to = to.unwrap_or(clusters[with][0]);
            self.link(from, to);
        }
        let largest =
            |free: &[Vec<usize>]| (0..free.len()).max_by_key(|&cluster| (free[cluster].len(), Reverse(cluster)));
        let Some(mut from) = largest(&free) else { return };
        loop {
            let others: usize = free.iter().map(Vec::len).sum::<usize>() - free[from].len();
            if others == 0 {
                break;
            }
            let mut number = random.below(others);
            let with = (0..free.len()).filter(|&cluster| cluster != from).find(|&cluster| {
                let here = number < free[cluster].len();
                number = number.saturating_sub(free[cluster].len());
                here
            });
            let pair = with.and_then(|with| Some((free[from].pop()?, free[with].pop()?)));
            let (a, b) = pair.expect("both have somebody left");
            self.link(a, b);
            from = largest(&free).expect("there are clusters");
        }
        let left = std::mem::take(&mut free[from]);
        let others =
            (0..clusters.len()).filter(|&cluster| cluster != from).flat_map(|cluster| clusters[cluster].clone());
        let others = self.by_chance(others.collect(), RINGS + 1);
        let mut turns = others.iter().cycle();
        for node in left {
            let mut next = turns.by_ref().take(others.len()).copied();
            let Some(other) = next.find(|&other| self.known[other].len() < KNOWN_MAX) else { return };
            self.link(node, other);
        }
    }

    /// One of these by chance that may know another one.
    fn any_with_room(&self, positions: &[usize], random: &mut Random) -> Option<usize> {
        let has_room = |position: &usize| self.known[*position].len() < KNOWN_MAX;
        let with_room: Vec<usize> = positions.iter().copied().filter(has_room).collect();
        (!with_room.is_empty()).then(|| with_room[random.below(with_room.len())])
    }

    /// Of two that know each other, the one that comes later in the order connects to the other one.
    fn into_plan(self) -> Plan {
        let before = |(position, known): (usize, BTreeSet<usize>)| known.range(..position).copied().collect();
        Plan { peers: self.known.into_iter().enumerate().map(before).collect(), ..Plan::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::plan::Planner;
    use crate::strategy::plan::tests::{order, plan};

    /// Whom each position knows.
    fn known(planner: Planner, sizes: &[usize]) -> Vec<BTreeSet<usize>> {
        let plan = plan(planner, sizes);
        let mut known = vec![BTreeSet::new(); plan.peers.len()];
        for (a, peers) in plan.peers.iter().enumerate() {
            for &b in peers {
                assert!(known[a].insert(b) && known[b].insert(a), "{a} and {b} are told of each other twice");
            }
        }
        known
    }

    fn foreign(known: &[BTreeSet<usize>], sizes: &[usize]) -> Vec<usize> {
        let ranges = order(sizes).ranges();
        let cluster = |position: usize| ranges.iter().position(|range| range.contains(&position));
        known.iter().enumerate().map(|(a, k)| k.iter().filter(|&&b| cluster(a) != cluster(b)).count()).collect()
    }

    fn is_connected(known: &[BTreeSet<usize>]) -> bool {
        let mut seen = BTreeSet::from([0]);
        let mut next = vec![0];
        while let Some(at) = next.pop() {
            next.extend(known[at].iter().copied().filter(|&other| seen.insert(other)));
        }
        seen.len() == known.len()
    }

    #[test]
    fn each_strategy_has_its_own_lists_and_each_group_others() {
        let order = order(&[40, 60]);
        let peers =
            |planner: Planner, seed: u64| planner(&PlanInput { order: &order, network: None, seed }).unwrap().peers;
        let named = |name: &str| crate::strategy::find(name).and_then(|kind| kind.planner).unwrap();
        for (name, planner) in
            [("bittorrent", random as Planner), ("bittorrent-rarest", random), ("bittorrent-biased", biased)]
        {
            assert_eq!(peers(named(name), 1), peers(planner, 1), "{name}");
            assert_ne!(peers(planner, 1), peers(planner, 2), "{name}");
        }
        assert_ne!(peers(random, 1), peers(biased, 1));
    }

    #[test]
    fn a_small_group_knows_each_other() {
        for size in [1, 2, 36] {
            let known = known(random, &[size]);
            assert!(known.iter().all(|peers| peers.len() == size - 1), "{known:?}");
        }
    }

    #[test]
    fn nobody_knows_more_than_35_and_hardly_anybody_fewer() {
        for sizes in [&[37][..], &[64], &[16, 16, 16, 16], &[200, 300, 400]] {
            let known = known(random, sizes);
            assert!(is_connected(&known), "{sizes:?}");
            assert!(known.iter().all(|peers| (30..=35).contains(&peers.len())), "{sizes:?}: {known:?}");
            let mean = known.iter().map(BTreeSet::len).sum::<usize>() as f64 / known.len() as f64;
            assert!(mean > 34.0, "{sizes:?}: {mean}");
        }
    }

    #[test]
    fn clusters_play_no_part() {
        let sizes = [16, 16, 16, 16];
        let known = known(random, &sizes);
        let foreign: usize = foreign(&known, &sizes).iter().sum();
        let all: usize = known.iter().map(BTreeSet::len).sum();
        // 48 of the 63 others are in other clusters: 0.76.
        assert!((0.72..0.80).contains(&(foreign as f64 / all as f64)), "{foreign} of {all}");
    }

    #[test]
    fn whoever_comes_changes_few_lists() {
        let (before, after) = (known(random, &[40, 60]), known(random, &[40, 61]));
        let lost: usize = before.iter().zip(&after).map(|(before, after)| before.difference(after).count()).sum();
        let all: usize = before.iter().map(BTreeSet::len).sum();
        assert!(lost * 5 < all, "{lost} of {all}");
    }

    #[test]
    fn with_bias_all_but_one_are_of_the_own_cluster() {
        for sizes in [&[2, 2][..], &[4, 4, 4, 4], &[16, 16, 16, 16], &[4, 12, 16, 32], &[50, 60, 70], &[1, 1, 2]] {
            let known = known(biased, sizes);
            assert!(is_connected(&known), "{sizes:?}");
            let foreign = foreign(&known, sizes);
            assert!(foreign.iter().all(|&count| count == 1), "{sizes:?}: {foreign:?}");
            assert!(known.iter().all(|peers| peers.len() <= 35));
            let own = order(sizes).ranges().into_iter().flat_map(|r| std::iter::repeat_n(r.len() - 1, r.len()));
            for (peers, own) in known.iter().zip(own) {
                assert!(peers.len() > own.min(30), "{sizes:?}: {known:?}");
            }
        }
    }

    #[test]
    fn with_bias_too_nobody_knows_more_than_35() {
        let sizes: Vec<usize> = std::iter::once(35).chain([1; 60]).collect();
        let known = known(biased, &sizes);
        assert!(known.iter().all(|peers| peers.len() <= 35), "{known:?}");
        assert!(is_connected(&known));
    }

    #[test]
    fn where_one_each_is_not_possible_everybody_has_one_at_least_and_all_are_connected() {
        for sizes in [&[1, 1, 1][..], &[3, 9], &[1, 60], &[2, 1, 1, 1], &[7, 2, 2], &[5]] {
            let known = known(biased, sizes);
            assert!(is_connected(&known), "{sizes:?}");
            let foreign = foreign(&known, sizes);
            let without = foreign.iter().filter(|&&count| count == 0).count();
            // One node cannot know more than 35 of 60.
            let expected = match sizes {
                [1, 60] => 60 - 35,
                [_] => 5,
                _ => 0,
            };
            assert_eq!(without, expected, "{sizes:?}: {foreign:?}");
            assert!(known.iter().all(|peers| peers.len() <= 35));
        }
    }

    #[test]
    fn pairs_are_of_all_clusters() {
        let sizes = [16, 16, 16, 16];
        let known = known(biased, &sizes);
        let cluster = |position: usize| position / 16;
        let pairs: BTreeSet<(usize, usize)> =
            known.iter().enumerate().flat_map(|(a, k)| k.iter().map(move |&b| (cluster(a), cluster(b)))).collect();
        assert_eq!(pairs.len(), 16, "each cluster exchanges with each: {pairs:?}");
    }
}
