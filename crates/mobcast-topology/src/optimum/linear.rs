//! R* as the value of a linear program over the rates between sites and inside them. A site is the nodes of a cluster;
//! the root is a site of its own, apart from the others of its cluster, because it alone need not receive.
//!
//! Variables are R, the rate from each site to each other one, and the rate between the nodes of a site. Every set of
//! sites that holds the root sends at least R to the rest (by Edmonds' theorem there is then a packing of trees), every
//! node takes R in, and every capacity holds. Of the exponentially many sets only those that some solution violates
//! become rows: a minimum cut finds them. Rates spread evenly over a site's alike nodes reach the value.

use std::collections::BTreeSet;

use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, Problem, SolveOptions, Variable};

use super::{Resource, has_choices, is_solved, occupied};
use crate::flow::FlowGraph;
use crate::network::{ClusterIndex, LinkRef, Topology};

/// Cuts that are added at most; each is another one, and a few dozen are enough.
const CUTS_MAX: usize = 2_000;
/// Rates that differ by less than this part are alike: the solver computes with 53 bits, and may leave rows unmet by [`UNMET`].
const ALIKE: f64 = 1e-6;
/// By how much of the largest capacity a solution may miss a row. The solver's own 10^-7 can be more than a part of 10^-6 of the rate where
/// one capacity is far above the others.
const UNMET: f64 = 1e-9;
/// By which part a capacity is raised to see whether it binds.
const RAISE: f64 = 0.01;
/// The root's site.
const ROOT_SITE: usize = 0;

/// What the solver did not find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GaveUp;

/// The optimum in bytes per second if it is lower than `bound`, and which capacities bind it (none without
/// `with_reason`). `bound` has to be an upper bound that is exact where only links between clusters bind.
pub(super) fn below(
    topology: &Topology,
    root: ClusterIndex,
    bound: u64,
    with_reason: bool,
) -> Result<Option<(u64, Vec<Resource>)>, GaveUp> {
    if bound == 0 || topology.nodes() < 2 || !has_choices(topology) || !is_solved(topology) {
        return Ok(None);
    }
    Program::new(topology, root, bound as f64 * topology.nodes() as f64).below(bound, with_reason)
}

/// Alike nodes of one cluster.
struct Site {
    cluster: ClusterIndex,
    nodes: u32,
}

/// A rate from a site to another one, or between the nodes of one.
type Flow = (usize, usize);

/// The sum of `flows` is at most `capacity`, in units.
struct Row {
    flows: Vec<Flow>,
    capacity: f64,
    resource: Resource,
}

struct Program<'a> {
    topology: &'a Topology,
    sites: Vec<Site>,
    /// Everything that can be chosen, in order.
    flows: Vec<Flow>,
    rows: Vec<Row>,
    /// Flows out of sets of sites around the root.
    cuts: BTreeSet<Vec<Flow>>,
    /// Bytes per second that count as 1.
    unit: f64,
    /// A rate in units that is reached only if nothing binds.
    unlimited: f64,
    /// The solver gives up when there are more cuts.
    cuts_max: usize,
}

struct Solution {
    rate: f64,
    /// As [`Program::flows`].
    values: Vec<f64>,
}

impl Program<'_> {
    fn new(topology: &Topology, root: ClusterIndex, most: f64) -> Program<'_> {
        let nodes_of = |c: ClusterIndex| topology.clusters()[c.as_usize()].nodes;
        let mut sites = vec![Site { cluster: root, nodes: 1 }];
        for cluster in topology.indices().filter(|c| occupied(topology, *c)) {
            let nodes = nodes_of(cluster) - u32::from(cluster == root);
            sites.extend((nodes > 0).then_some(Site { cluster, nodes }));
        }
        let pairs = (0..sites.len()).flat_map(|from| (1..sites.len()).map(move |to| (from, to)));
        let possible = |&(from, to): &Flow| match sites[from].cluster == sites[to].cluster {
            true => from != to || sites[to].nodes > 1,
            false => topology.wan(sites[from].cluster, sites[to].cluster).is_some(),
        };
        let flows: Vec<Flow> = pairs.filter(possible).collect();
        let (rows, cuts) = (Vec::new(), BTreeSet::new());
        let cuts_max = CUTS_MAX;
        let mut program = Program { topology, sites, flows, rows, cuts, unit: 1.0, unlimited: 1.0, cuts_max };
        program.add_links();
        (0..program.sites.len()).for_each(|site| program.add_cards(site));
        program.scale(most);
        let first_cuts = (1..program.sites.len()).map(|far| program.select(|from, to| from != far && to == far));
        let all = first_cuts.chain([program.select(|from, to| from == ROOT_SITE && to != ROOT_SITE)]);
        program.cuts = all.collect();
        program
    }

    fn below(mut self, bound: u64, with_reason: bool) -> Result<Option<(u64, Vec<Resource>)>, GaveUp> {
        let solution = self.solve(None).ok_or(GaveUp)?;
        let rate = solution.rate * self.unit;
        if rate > bound as f64 * (1.0 - ALIKE) || rate > self.unlimited * self.unit * (1.0 - ALIKE) {
            return Ok(None);
        }
        let resources = if with_reason { self.binding(&solution) } else { Vec::new() };
        Ok(Some((rate.round() as u64, resources)))
    }

    fn select(&self, wanted: impl Fn(usize, usize) -> bool) -> Vec<Flow> {
        self.flows.iter().copied().filter(|(from, to)| wanted(*from, *to)).collect()
    }

    /// Adds the row that what is `wanted` is at most `capacity` bytes per second for each of `times` nodes.
    fn limit(&mut self, capacity: Option<u64>, times: u32, resource: Resource, wanted: impl Fn(usize, usize) -> bool) {
        let flows = self.select(wanted);
        if let Some(capacity) = capacity.filter(|_| !flows.is_empty()) {
            self.rows.push(Row { flows, capacity: capacity as f64 * f64::from(times), resource });
        }
    }

    fn add_links(&mut self) {
        let topology = self.topology;
        let clusters: Vec<ClusterIndex> = self.sites.iter().map(|site| site.cluster).collect();
        for (from, to, link) in topology.wan_links() {
            let resource = Resource::Link(LinkRef::Wan { from, to });
            self.limit(link.rate_bytes_per_s, 1, resource, |i, j| clusters[i] == from && clusters[j] == to);
        }
        for index in topology.indices() {
            let links = [LinkRef::AccessOut(index), LinkRef::AccessIn(index), LinkRef::Fabric(index)];
            let [sends, receives, carries] = links.map(|link| topology.rate_bytes_per_s(link));
            let [way_out, way_in, fabric] = links.map(Resource::Link);
            self.limit(sends, 1, way_out, |i, j| clusters[i] == index && clusters[j] != index);
            self.limit(receives, 1, way_in, |i, j| clusters[i] != index && clusters[j] == index);
            self.limit(carries, 1, fabric, |i, j| clusters[i] == index && clusters[j] == index);
        }
    }

    fn add_cards(&mut self, site: usize) {
        let Site { cluster: index, nodes } = self.sites[site];
        let cluster = &self.topology.clusters()[index.as_usize()];
        let inside: Vec<bool> = self.sites.iter().map(|other| other.cluster == index).collect();
        let of_root = |resource: Resource| if site == ROOT_SITE { Resource::RootOut } else { resource };
        let first = |other: usize| cluster.wan_nic.is_none() || inside[other];
        let [sends, receives] = [of_root(Resource::NicsOut(index)), Resource::NicsIn(index)];
        self.limit(cluster.nic_out_bytes_per_s, nodes, sends, |i, j| i == site && first(j));
        self.limit(cluster.nic_in_bytes_per_s, nodes, receives, |i, j| j == site && first(i));
        if let Some(second) = cluster.wan_nic {
            let [sends, receives] = [of_root(Resource::WanNicsOut(index)), Resource::WanNicsIn(index)];
            self.limit(second.out_bytes_per_s, nodes, sends, |i, j| i == site && !inside[j]);
            self.limit(second.in_bytes_per_s, nodes, receives, |i, j| j == site && !inside[i]);
        }
    }

    /// Makes the largest capacity 1. All nodes together take in no more than `most` bytes per second: capacities beyond that bind
    /// nothing, and would only make the others small beside the solver's tolerances.
    fn scale(&mut self, most: f64) {
        self.rows.iter_mut().for_each(|row| row.capacity = row.capacity.min(most));
        self.unit = self.rows.iter().map(|row| row.capacity).fold(1.0, f64::max);
        for row in &mut self.rows {
            row.capacity /= self.unit;
        }
        self.unlimited = 1.0 + self.rows.iter().map(|row| row.capacity).sum::<f64>();
    }

    fn place(&self, flow: &Flow) -> usize {
        self.flows.binary_search(flow).expect("rows and cuts hold flows of the program")
    }

    /// Solves with the capacity of one row raised a little, if one is named. `None` when the solver gives up.
    fn solve(&mut self, raised: Option<usize>) -> Option<Solution> {
        while self.cuts.len() < self.cuts_max {
            let solution = self.solve_with_known_cuts(raised)?;
            let before = self.cuts.len();
            for far in 1..self.sites.len() {
                self.cuts.extend(self.violated_cut(far, &solution));
            }
            if self.cuts.len() == before {
                return Some(solution);
            }
        }
        None
    }

    fn solve_with_known_cuts(&self, raised: Option<usize>) -> Option<Solution> {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let rate = problem.add_var(1.0, (0.0, self.unlimited));
        let variables: Vec<Variable> = self.flows.iter().map(|_| problem.add_var(0.0, (0.0, f64::INFINITY))).collect();
        let sum = |flows: &[Flow], copies: u32| {
            let mut expression = LinearExpr::empty();
            flows.iter().for_each(|flow| expression.add(variables[self.place(flow)], 1.0));
            if copies > 0 {
                expression.add(rate, -f64::from(copies));
            }
            expression
        };
        for (index, row) in self.rows.iter().enumerate() {
            let capacity = if raised == Some(index) { row.capacity * (1.0 + RAISE) } else { row.capacity };
            problem.add_constraint(sum(&row.flows, 0), ComparisonOp::Le, capacity);
        }
        for cut in &self.cuts {
            problem.add_constraint(sum(cut, 1), ComparisonOp::Ge, 0.0);
        }
        for (site, Site { nodes, .. }) in self.sites.iter().enumerate().skip(1) {
            let intake = self.select(|_, to| to == site);
            problem.add_constraint(sum(&intake, *nodes), ComparisonOp::Ge, 0.0);
        }
        let mut options = SolveOptions::default();
        options.tolerances.feasibility = UNMET;
        let solution = problem.solve_with(options).ok()?.into_solution().ok()?;
        let values = variables.iter().map(|variable| solution.var_value(*variable)).collect();
        Some(Solution { rate: solution.var_value(rate), values })
    }

    /// The flows of a minimum cut before a site, if they carry less than the broadcast needs.
    fn violated_cut(&self, far: usize, solution: &Solution) -> Option<Vec<Flow>> {
        // Flows are whole numbers: as many to the unit that rounding is far below what counts as alike.
        const STEPS: f64 = 1e12;
        let mut graph = FlowGraph::new(self.sites.len());
        for ((from, to), value) in self.flows.iter().zip(&solution.values).filter(|((from, to), _)| from != to) {
            graph.arc(*from, *to, (value.clamp(0.0, self.unlimited) * STEPS) as u64);
        }
        let carried = graph.maximum(ROOT_SITE, far) as f64 / STEPS;
        if carried >= solution.rate * (1.0 - ALIKE / 10.0) {
            return None;
        }
        let near = graph.source_side(ROOT_SITE);
        Some(self.select(|from, to| near[from] && !near[to]))
    }

    /// The capacities of which a little more raises the optimum; if that needs several of them at once, or the solver cannot
    /// tell, all those that are used up.
    fn binding(&mut self, solution: &Solution) -> Vec<Resource> {
        let used = |row: &Row| row.flows.iter().map(|flow| solution.values[self.place(flow)]).sum::<f64>();
        let tight: Vec<usize> = (0..self.rows.len())
            .filter(|row| used(&self.rows[*row]) >= self.rows[*row].capacity * (1.0 - ALIKE))
            .collect();
        let mut binding = Vec::new();
        for &row in &tight {
            if self.solve(Some(row)).is_some_and(|more| more.rate > solution.rate * (1.0 + ALIKE)) {
                binding.push(self.rows[row].resource);
            }
        }
        if binding.is_empty() {
            binding = tight.into_iter().map(|row| self.rows[row].resource).collect();
        }
        binding.sort();
        binding.dedup();
        binding
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Cluster, WanNic};
    use crate::optimum::{Binding, optimum};
    use crate::preset::{full_mesh, m2_fast};
    use proptest::prelude::*;

    const ROOT: ClusterIndex = ClusterIndex(0);

    /// The optimum node by node: a variable for each pair of nodes, a row for each of all cuts.
    fn by_nodes(topology: &Topology) -> f64 {
        let nodes: Vec<ClusterIndex> = topology
            .indices()
            .flat_map(|c| std::iter::repeat_n(c, topology.clusters()[c.as_usize()].nodes as usize))
            .collect();
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let rate = problem.add_var(1.0, (0.0, f64::INFINITY));
        let mut pairs: Vec<(usize, usize, Variable)> = Vec::new();
        for from in 0..nodes.len() {
            for to in (0..nodes.len()).filter(|to| *to != from) {
                pairs.push((from, to, problem.add_var(0.0, (0.0, f64::INFINITY))));
            }
        }
        let mut limit = |capacity: Option<u64>, member: &dyn Fn(usize, usize) -> bool| {
            let sum: Vec<(Variable, f64)> =
                pairs.iter().filter(|(from, to, _)| member(*from, *to)).map(|(_, _, v)| (*v, 1.0)).collect();
            if let Some(capacity) = capacity {
                problem.add_constraint(sum, ComparisonOp::Le, capacity as f64);
            }
        };
        let same = |i: usize, j: usize| nodes[i] == nodes[j];
        for (from, to, link) in topology.wan_links() {
            limit(link.rate_bytes_per_s, &|i, j| nodes[i] == from && nodes[j] == to);
        }
        for index in topology.indices() {
            let cluster = &topology.clusters()[index.as_usize()];
            limit(cluster.access_out_bytes_per_s, &|i, j| nodes[i] == index && !same(i, j));
            limit(cluster.access_in_bytes_per_s, &|i, j| nodes[j] == index && !same(i, j));
            limit(cluster.fabric_bytes_per_s, &|i, j| nodes[i] == index && same(i, j));
        }
        for (node, cluster) in nodes.iter().enumerate() {
            let cluster = &topology.clusters()[cluster.as_usize()];
            let first = |i: usize, j: usize| cluster.wan_nic.is_none() || same(i, j);
            limit(cluster.nic_out_bytes_per_s, &|i, j| i == node && first(i, j));
            limit(cluster.nic_in_bytes_per_s, &|i, j| j == node && first(i, j));
            if let Some(second) = cluster.wan_nic {
                limit(second.out_bytes_per_s, &|i, j| i == node && !same(i, j));
                limit(second.in_bytes_per_s, &|i, j| j == node && !same(i, j));
            }
        }
        for near in (1u32..(1 << nodes.len()) - 1).filter(|near| near & 1 == 1) {
            let crosses = |i: usize, j: usize| near >> i & 1 == 1 && near >> j & 1 == 0;
            let mut sum: Vec<(Variable, f64)> =
                pairs.iter().filter(|(i, j, _)| crosses(*i, *j)).map(|(_, _, v)| (*v, 1.0)).collect();
            sum.push((rate, -1.0));
            problem.add_constraint(sum, ComparisonOp::Ge, 0.0);
        }
        problem.solve().unwrap().into_solution().unwrap().objective()
    }

    fn program_value(topology: &Topology) -> f64 {
        let mut program = Program::new(topology, ROOT, f64::MAX);
        program.solve(None).unwrap().rate * program.unit
    }

    fn small_cluster() -> impl Strategy<Value = Cluster> {
        let limit = || prop::option::of(5u64..60);
        let card = prop::option::of((5u64..60, 5u64..60));
        (1u32..3, (5u64..60, 5u64..60), card, limit(), limit(), limit()).prop_map(
            |(nodes, (sends, receives), second, access_out, access_in, fabric)| Cluster {
                nic_out_bytes_per_s: Some(sends * 1_000_000),
                nic_in_bytes_per_s: Some(receives * 1_000_000),
                wan_nic: second.map(|(sends, receives)| WanNic {
                    out_bytes_per_s: Some(sends * 1_000_000),
                    in_bytes_per_s: Some(receives * 1_000_000),
                }),
                access_out_bytes_per_s: access_out.map(|rate| rate * 1_000_000),
                access_in_bytes_per_s: access_in.map(|rate| rate * 1_000_000),
                fabric_bytes_per_s: fabric.map(|rate| rate * 1_000_000),
                ..Cluster::new("", nodes)
            },
        )
    }

    fn mesh(clusters: &[Cluster], rates: &[u64]) -> Topology {
        let mut topology = full_mesh(clusters.len() as u32, &Cluster::new("", 1), 0, 0);
        for (index, cluster) in topology.indices().zip(clusters) {
            let slot = topology.cluster_mut(index).unwrap();
            *slot = Cluster { name: slot.name.clone(), ..cluster.clone() };
        }
        let pairs: Vec<_> = topology.wan_links().collect();
        for ((from, to, _), rate) in pairs.into_iter().zip(rates) {
            topology.set_rate(LinkRef::Wan { from, to }, Some(rate * 1_000_000)).unwrap();
        }
        topology
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn clusters_reach_what_their_nodes_reach(
            clusters in prop::collection::vec(small_cluster(), 1..4),
            rates in prop::collection::vec(1u64..60, 6),
        ) {
            let topology = mesh(&clusters, &rates);
            prop_assume!(topology.nodes() > 1);
            let (found, nodes) = (program_value(&topology), by_nodes(&topology));
            prop_assert!((found - nodes).abs() <= 1e-5 * nodes, "{found} for clusters, {nodes} for nodes");
            let rate = optimum(&topology, ROOT).rate_bytes_per_s.unwrap() as f64;
            prop_assert!((rate - nodes).abs() <= 1e-5 * nodes + 1.0, "{rate} as optimum, {nodes} for nodes");
        }

        #[test]
        fn where_only_links_bind_the_program_is_the_minimum_cut(
            k in 2u32..7,
            rates in prop::collection::vec(0u64..50, 42),
        ) {
            let plain = mesh(&vec![Cluster::new("", 2); k as usize], &rates);
            let minimum_cut = optimum(&plain, ROOT);
            let rate = minimum_cut.rate_bytes_per_s.unwrap();
            prop_assert!((program_value(&plain) - rate as f64).abs() <= 1e-5 * rate as f64 + 1.0);
            let fast_cards = mesh(&vec![Cluster::new("", 2).with_nic(1_000_000_000); k as usize], &rates);
            prop_assert_eq!(optimum(&fast_cards, ROOT), minimum_cut, "exact, and with its cut");
        }
    }

    #[test]
    fn copies_inside_a_cluster_share_its_cards_with_what_leaves_it() {
        let topology = full_mesh(3, &Cluster::new("", 2).with_nic(6_000_000), 4_000_000, 0);
        assert_eq!(optimum(&topology, ROOT).binding, Binding::RootNicOut);
        let mut weak = topology.clone();
        weak.cluster_mut(ClusterIndex(1)).unwrap().nic_out_bytes_per_s = Some(1_000_000);
        // With z from c1 to c2: c2 takes in R <= 4 + z, the two nodes of c1 2 R <= 8 + 2 - z.
        let result = optimum(&weak, ROOT);
        assert_eq!(result.rate_bytes_per_s, Some(4_666_667));
        assert_eq!(result.binding.describe(&weak), "c0→c1 + c0→c2 + c2→c1 + network cards of c1, sending");
    }

    #[test]
    fn cards_far_faster_than_links_change_nothing() {
        let optimum_with = |nodes: u32, card: u64| {
            let cluster = |access: u64| Cluster {
                access_out_bytes_per_s: Some(access),
                ..Cluster::new("", nodes).with_nic(card)
            };
            let topology = mesh(&[1_200_000, 400_000, 300_000].map(cluster), &[1; 6]);
            optimum(&topology, ROOT).rate_bytes_per_s
        };
        let slow = optimum_with(4, 12_500_000);
        assert_eq!((optimum_with(500, 12_500_000_000), optimum_with(10_000, 125_000_000_000)), (slow, slow));
    }

    #[test]
    fn one_node_alone_waits_for_nothing() {
        let topology = mesh(&[Cluster::new("", 1).with_nic(1_000_000)], &[]);
        assert_eq!(optimum(&topology, ROOT).binding, Binding::Nothing);
    }

    /// A root whose card sends a megabyte per second to each of so many other clusters, which pass on a thousandth of it to each other.
    fn star(others: u64) -> Topology {
        let mut topology = full_mesh(others as u32 + 1, &Cluster::new("", 1), 1_000, 0);
        topology.cluster_mut(ROOT).unwrap().nic_out_bytes_per_s = Some(others * 1_000_000);
        for to in topology.indices().skip(1) {
            topology.set_rate(LinkRef::Wan { from: ROOT, to }, None).unwrap();
        }
        topology
    }

    #[test]
    fn beyond_forty_clusters_what_all_send_is_the_bound() {
        let [forty, more] = [star(39), star(40)];
        assert_eq!(below(&forty, ROOT, 39_000_000, false), Ok(Some((1_038_000, Vec::new()))));
        assert_eq!(below(&more, ROOT, 40_000_000, false), Ok(None));
        let bound = optimum(&more, ROOT);
        assert_eq!((bound.rate_bytes_per_s, bound.binding), (Some(1_039_000), Binding::TotalWanOut));
        assert!(!optimum(&star(2), ROOT).is_upper_bound);
        assert!(bound.is_upper_bound);
    }

    #[test]
    fn what_the_solver_gives_up_is_told_and_a_reason_that_it_does_not_find_costs_no_rate() {
        let topology = star(3);
        let mut program = Program::new(&topology, ROOT, 9_000_000.0);
        let solution = program.solve(None).unwrap();
        let rate = solution.rate * program.unit;
        program.cuts_max = 0;
        assert!(!program.binding(&solution).is_empty(), "what is used up is named");
        assert_eq!(program.below(3_000_000, true), Err(GaveUp));
        assert_eq!(below(&topology, ROOT, 3_000_000, true).unwrap().unwrap().0, rate.round() as u64);
    }

    #[test]
    fn clusters_without_nodes_do_not_count() {
        let mut topology = star(2);
        (0..40).for_each(|i| _ = topology.add_cluster(Cluster::new(format!("empty{i}"), 0)).unwrap());
        assert!(matches!(optimum(&topology, ROOT).binding, Binding::Together(_)));
    }

    #[test]
    fn cards_of_unequal_clusters_share_the_copies() {
        let mut uneven = m2_fast(4);
        for (index, rate) in uneven.indices().zip([9, 5, 7, 6]) {
            uneven.cluster_mut(index).unwrap().nic_out_bytes_per_s = Some(rate * 1_000_000);
        }
        let rate = optimum(&uneven, ROOT).rate_bytes_per_s;
        assert_eq!(rate, Some(6_833_333), "A sends 3 R inside and 10 to others, the others' cards 72: for 15 copies");
    }
}
