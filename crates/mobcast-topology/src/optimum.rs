//! The optimum R*: the highest rate at which a topology admits a broadcast.
//!
//! Where only the links between clusters bind, R* is the least of the maximum flows from the root's cluster to each
//! other cluster (Edmonds 1973): it is reached exactly, by a packing of trees. Where network cards, access links or
//! switches have limits, how much goes over each link is a choice, and R* is the value of a linear program (`linear`,
//! feature `lp`). Without that feature, and for more than 40 clusters with nodes, upper bounds that every schedule obeys
//! are taken (`folded`), as where the solver gives up; the true optimum may then be lower ([`Optimum::is_upper_bound`]).

pub mod changing;
mod folded;
#[cfg(feature = "lp")]
mod linear;

use crate::flow::{FlowGraph, UNLIMITED};
use crate::network::{ClusterIndex, LinkRef, Topology};
use folded::{simple_bounds, total_wan_out};

/// The program has a variable for each pair of clusters that have nodes; for more clusters it takes too long.
const CLUSTERS_MAX: usize = 40;

/// What keeps a broadcast from being faster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Binding {
    /// Nothing does: no capacity is given anywhere on the way.
    Nothing,
    /// Links that together separate the root from a cluster.
    Cut {
        /// The cluster that is cut off.
        receiver: ClusterIndex,
        /// The links of the cut.
        links: Vec<LinkRef>,
    },
    /// What the root's network cards send: every byte leaves it once.
    RootNicOut,
    /// What the network cards of each node of a cluster receive.
    NicIn(ClusterIndex),
    /// What the second network cards of the root's cluster send together: every byte leaves the cluster once.
    WanNicsOut,
    /// What the second network cards of a cluster receive together: every byte enters it once.
    WanNicsIn(ClusterIndex),
    /// What all clusters together send to others: each cluster but the root's needs a copy.
    TotalWanOut,
    /// What all network cards together send: each node but the root needs a copy.
    TotalNicOut,
    /// What a cluster's switches carry: each node but one gets its copy through them.
    Fabric(ClusterIndex),
    /// Several capacities: more of any of them would raise the optimum.
    Together(Vec<Resource>),
}

/// A capacity of a topology, shared or a network card's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Resource {
    /// A link that nodes share.
    Link(LinkRef),
    /// What the network cards of a cluster's nodes send together; with second cards, inside the cluster.
    NicsOut(ClusterIndex),
    /// What the network cards of a cluster's nodes receive together; with second cards, inside the cluster.
    NicsIn(ClusterIndex),
    /// What the second network cards of a cluster's nodes send together.
    WanNicsOut(ClusterIndex),
    /// What the second network cards of a cluster's nodes receive together.
    WanNicsIn(ClusterIndex),
    /// What a network card of the root sends.
    RootOut,
}

impl Resource {
    /// In words, with the topology's names of clusters.
    pub fn describe(self, topology: &Topology) -> String {
        let name = |cluster: ClusterIndex| &topology.clusters()[cluster.as_usize()].name;
        match self {
            Resource::Link(LinkRef::Wan { from, to }) => format!("{}→{}", name(from), name(to)),
            Resource::Link(LinkRef::AccessOut(cluster)) => format!("access link out of {}", name(cluster)),
            Resource::Link(LinkRef::AccessIn(cluster)) => format!("access link into {}", name(cluster)),
            Resource::Link(LinkRef::Fabric(cluster)) => format!("switches of {}", name(cluster)),
            Resource::NicsOut(cluster) => format!("network cards of {}, sending", name(cluster)),
            Resource::NicsIn(cluster) => format!("network cards of {}, receiving", name(cluster)),
            Resource::WanNicsOut(cluster) => format!("second network cards of {}, sending", name(cluster)),
            Resource::WanNicsIn(cluster) => format!("second network cards of {}, receiving", name(cluster)),
            Resource::RootOut => "network card of the root".to_owned(),
        }
    }
}

impl Binding {
    /// In words, with the topology's names of clusters.
    pub fn describe(&self, topology: &Topology) -> String {
        let words = |resource: Resource| resource.describe(topology);
        let list = |resources: &mut dyn Iterator<Item = Resource>| resources.map(words).collect::<Vec<_>>().join(" + ");
        match self {
            Binding::Nothing => "nothing".to_owned(),
            Binding::Cut { links, .. } if links.is_empty() => "no link".to_owned(),
            Binding::Cut { links, .. } => list(&mut links.iter().map(|link| Resource::Link(*link))),
            Binding::RootNicOut => words(Resource::RootOut),
            Binding::NicIn(cluster) => {
                format!("network card of each node of {}", topology.clusters()[cluster.as_usize()].name)
            }
            Binding::WanNicsOut => "second network cards of the root's cluster, sending".to_owned(),
            Binding::WanNicsIn(cluster) => words(Resource::WanNicsIn(*cluster)),
            Binding::TotalWanOut => "what all clusters together send to others".to_owned(),
            Binding::TotalNicOut => "network cards of all nodes, sending".to_owned(),
            Binding::Fabric(cluster) => words(Resource::Link(LinkRef::Fabric(*cluster))),
            Binding::Together(resources) => list(&mut resources.iter().copied()),
        }
    }
}

/// The optimum with its reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Optimum {
    /// In bytes per second, headers included; `None` when nothing binds.
    pub rate_bytes_per_s: Option<u64>,
    /// In bytes per second of payload.
    pub payload_bytes_per_s: Option<u64>,
    /// What binds.
    pub binding: Binding,
    /// Whether the true optimum may be lower: more than links between clusters has limits, and there are too many clusters for the
    /// linear program, or its solver gave up, or it is left out.
    pub is_upper_bound: bool,
}

/// The optimum of a broadcast from a node of cluster `root`. Clusters without nodes neither receive nor relay.
pub fn optimum(topology: &Topology, root: ClusterIndex) -> Optimum {
    let (rate, binding, gave_up) = best(topology, root, true);
    let is_upper_bound = gave_up || (has_choices(topology) && !is_solved(topology));
    let rate_bytes_per_s = (rate < UNLIMITED).then_some(rate);
    let payload_bytes_per_s = rate_bytes_per_s.map(|rate| topology.payload_factor.of(rate));
    Optimum { rate_bytes_per_s, payload_bytes_per_s, binding, is_upper_bound }
}

/// Whether the linear program is solved for so many clusters.
fn is_solved(topology: &Topology) -> bool {
    cfg!(feature = "lp") && topology.indices().filter(|c| occupied(topology, *c)).count() <= CLUSTERS_MAX
}

/// Whether anything but links between clusters has a limit.
fn has_choices(topology: &Topology) -> bool {
    topology.clusters().iter().filter(|cluster| cluster.nodes > 0).any(|cluster| {
        let second = cluster.wan_nic.is_some_and(|nic| nic.out_bytes_per_s.is_some() || nic.in_bytes_per_s.is_some());
        let limits = [
            cluster.nic_out_bytes_per_s,
            cluster.nic_in_bytes_per_s,
            cluster.access_out_bytes_per_s,
            cluster.access_in_bytes_per_s,
            cluster.fabric_bytes_per_s,
        ];
        second || limits.iter().any(Option::is_some)
    })
}

/// The rate of the optimum alone, in bytes per second, headers included, which is far cheaper to find than what binds it; `None` when nothing
/// does.
pub fn optimal_rate(topology: &Topology, root: ClusterIndex) -> Option<u64> {
    Some(best(topology, root, false).0).filter(|rate| *rate < UNLIMITED)
}

/// The rate, what binds it, and whether the solver gave up.
#[cfg_attr(not(feature = "lp"), allow(unused_variables, reason = "a bound comes with its reason for nothing"))]
fn best(topology: &Topology, root: ClusterIndex, with_reason: bool) -> (u64, Binding, bool) {
    assert!(root.as_usize() < topology.clusters().len(), "the root's {root} is not in the topology");
    let mut best = (UNLIMITED, Binding::Nothing);
    let mut offer = |rate: u64, binding: Binding| {
        if rate < best.0 {
            best = (rate, binding);
        }
    };
    for receiver in topology.indices().filter(|c| *c != root && occupied(topology, *c)) {
        let (rate, links) = minimum_cut(topology, root, receiver);
        offer(rate, Binding::Cut { receiver, links });
    }
    for (rate, binding) in simple_bounds(topology, root) {
        offer(rate, binding);
    }
    #[cfg(feature = "lp")]
    let gave_up = match linear::below(topology, root, best.0, with_reason) {
        Ok(Some((rate, resources))) => return (rate, Binding::Together(resources), false),
        Ok(None) => false,
        Err(linear::GaveUp) => true,
    };
    #[cfg(not(feature = "lp"))]
    let gave_up = false;
    // The program knows this bound, and names the capacities.
    let total = total_wan_out(topology, root).filter(|(rate, _)| *rate < best.0);
    let (rate, binding) = total.unwrap_or(best);
    (rate, binding, gave_up)
}

fn occupied(topology: &Topology, cluster: ClusterIndex) -> bool {
    topology.clusters()[cluster.as_usize()].nodes > 0
}

/// Least capacity between two clusters, with the links that make it up. Each cluster is three vertices, its way in, its
/// nodes and its way out, so that access links are arcs.
fn minimum_cut(topology: &Topology, root: ClusterIndex, receiver: ClusterIndex) -> (u64, Vec<LinkRef>) {
    let [way_in, nodes, way_out] = [0, 1, 2].map(|part| move |c: ClusterIndex| 3 * c.as_usize() + part);
    let mut arcs: Vec<(usize, usize, LinkRef)> = Vec::new();
    for cluster in topology.indices().filter(|c| occupied(topology, *c)) {
        arcs.push((way_in(cluster), nodes(cluster), LinkRef::AccessIn(cluster)));
        arcs.push((nodes(cluster), way_out(cluster), LinkRef::AccessOut(cluster)));
    }
    for (from, to, _) in topology.wan_links() {
        arcs.push((way_out(from), way_in(to), LinkRef::Wan { from, to }));
    }
    let mut graph = FlowGraph::new(3 * topology.clusters().len());
    for &(from, to, link) in &arcs {
        graph.arc(from, to, topology.rate_bytes_per_s(link).unwrap_or(UNLIMITED));
    }
    let rate = graph.maximum(nodes(root), nodes(receiver));
    let near = graph.source_side(nodes(root));
    let links = arcs.into_iter().filter(|(from, to, _)| near[*from] && !near[*to]).map(|(_, _, link)| link);
    (rate, links.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Cluster, PayloadFactor, WanLink};
    use crate::preset::{full_mesh, m2_fast, m2_slow, symmetric};
    use proptest::prelude::*;

    const ROOT: ClusterIndex = ClusterIndex(0);

    fn rate(topology: &Topology) -> Option<u64> {
        optimum(topology, ROOT).rate_bytes_per_s
    }

    #[test]
    fn m2_has_the_known_optima_and_the_root_s_links_bind() {
        assert_eq!(rate(&m2_slow(16)), Some(7_800_000));
        let fast = optimum(&m2_fast(16), ROOT);
        assert_eq!(fast.rate_bytes_per_s, Some(10_000_000));
        let Binding::Cut { links, .. } = fast.binding else { panic!("a cut binds") };
        let to = [1, 2, 3].map(|to| LinkRef::Wan { from: ROOT, to: ClusterIndex(to) });
        assert_eq!(links, to);
    }

    #[test]
    fn figure_2_of_the_mob_paper_gives_nine() {
        // One node in each of x, y, z; y can take 5 + 4.
        let mut topology = symmetric(
            &["x", "y", "z"].map(|name| Cluster::new(name, 1)),
            &[(0, 1, 5_000_000), (0, 2, 5_000_000), (1, 2, 4_000_000)],
            0,
        );
        topology.cluster_mut(ROOT).unwrap().nic_out_bytes_per_s = Some(10_000_000);
        assert_eq!(rate(&topology), Some(9_000_000));
        topology.cluster_mut(ROOT).unwrap().nic_out_bytes_per_s = Some(7_000_000);
        assert_eq!(optimum(&topology, ROOT).binding, Binding::RootNicOut);
        // 2 R <= (xy + 4) + (xz + 4), and xy + xz <= 8.5.
        topology.cluster_mut(ROOT).unwrap().nic_out_bytes_per_s = Some(8_500_000);
        let best = optimum(&topology, ROOT);
        assert_eq!(best.rate_bytes_per_s, Some(8_250_000));
        let words = if cfg!(feature = "lp") {
            "y→z + z→y + network card of the root"
        } else {
            "what all clusters together send to others"
        };
        assert_eq!(best.binding.describe(&topology), words);
    }

    #[test]
    fn network_cards_bind_where_links_do_not() {
        let one = full_mesh(1, &Cluster::new("", 10).with_nic(125_000_000), 0, 0);
        assert_eq!(rate(&one), Some(125_000_000));
        let mut slow_receiver = m2_fast(16);
        slow_receiver.cluster_mut(ClusterIndex(2)).unwrap().nic_in_bytes_per_s = Some(2_000_000);
        assert_eq!(optimum(&slow_receiver, ROOT).binding, Binding::NicIn(ClusterIndex(2)));
        let mut weak_senders = Cluster::new("", 11).with_nic(100);
        weak_senders.nic_in_bytes_per_s = None;
        weak_senders.nic_out_bytes_per_s = Some(50);
        let weak = full_mesh(1, &weak_senders, 0, 0);
        assert_eq!(rate(&weak), Some(50));
    }

    #[test]
    fn access_links_are_part_of_the_cut() {
        let mut topology = m2_fast(4);
        topology.cluster_mut(ClusterIndex(1)).unwrap().access_in_bytes_per_s = Some(6_000_000);
        let result = optimum(&topology, ROOT);
        assert_eq!(result.rate_bytes_per_s, Some(6_000_000));
        let receiver = ClusterIndex(1);
        assert_eq!(result.binding, Binding::Cut { receiver, links: vec![LinkRef::AccessIn(receiver)] });
        let shared = full_mesh(4, &Cluster::new("", 4).with_access(9_000_000), 100_000_000, 0);
        assert_eq!(rate(&shared), Some(9_000_000));
    }

    #[test]
    fn unlimited_and_unreachable_are_told_apart() {
        let mut topology = full_mesh(2, &Cluster::new("", 4), 1, 0);
        let free = WanLink::new(None, 0);
        topology.link_both(ROOT, ClusterIndex(1), free).unwrap();
        assert_eq!(optimum(&topology, ROOT).binding, Binding::Nothing);
        topology.add_cluster(Cluster::new("island", 1)).unwrap();
        assert_eq!(rate(&topology), Some(0));
    }

    #[test]
    fn headers_lower_the_payload_optimum() {
        let mut topology = m2_fast(4);
        topology.payload_factor = PayloadFactor::ETHERNET_TCP;
        assert_eq!(optimum(&topology, ROOT).payload_bytes_per_s, Some(9_653_333));
    }

    /// The least capacity over all sets of clusters that hold the root and miss somebody.
    fn by_enumeration(topology: &Topology) -> u64 {
        let k = topology.clusters().len();
        let cuts = (0u32..1 << k).filter(|set| set & 1 == 1 && *set != (1 << k) - 1);
        cuts.map(|set| {
            let inside = |c: ClusterIndex| set >> c.0 & 1 == 1;
            let crossing = topology.wan_links().filter(|(from, to, _)| inside(*from) && !inside(*to));
            crossing.map(|(_, _, link)| link.rate_bytes_per_s.unwrap()).sum()
        })
        .min()
        .unwrap()
    }

    proptest! {
        #[test]
        fn the_least_maximum_flow_is_the_least_cut(k in 2usize..7, rates in prop::collection::vec(0u64..50, 42)) {
            let mut topology = full_mesh(k as u32, &Cluster::new("", 1), 0, 0);
            let pairs: Vec<_> = topology.wan_links().collect();
            for ((from, to, link), rate) in pairs.into_iter().zip(rates) {
                topology.link(from, to, WanLink { rate_bytes_per_s: Some(rate), ..link }).unwrap();
            }
            prop_assert_eq!(rate(&topology), Some(by_enumeration(&topology)));
            let Binding::Cut { links, .. } = optimum(&topology, ROOT).binding else { panic!("a cut binds") };
            let sum: u64 = links.iter().map(|link| topology.rate_bytes_per_s(*link).unwrap()).sum();
            prop_assert_eq!(sum, by_enumeration(&topology));
        }
    }
}
