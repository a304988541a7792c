//! The choice made for the user: which strategy a broadcast takes, from what its root knows of object, group and network, by a
//! cost model (`docs/strategies/auto.md` has its terms, and how its constants were found). A function: it measures nothing.
//!
//! Strategies that cannot adapt are taken for what is over soon: for longer than ten seconds (`STEADY_FOR`), nobody promises that links and
//! nodes stay as they are, and `mob`, which adapts, loses little.

use std::sync::Arc;

use mobcast_topology::{Cluster, ClusterIndex, QueueLimit, Topology, WanLink, optimum};

use super::overlay::Overlays;
use super::plan::{Order, Plan, PlanInput};
use super::{Registry, StrategyKind};
use crate::content::announcement::WHOLE_BYTES_MAX;
use crate::limits::{PIECE_SIZE_MIN, PIECES_MAX};
use crate::time::Duration;

mod cost;

pub use cost::Costs;

/// The name by which the choice is asked for.
pub const AUTO: &str = "auto";

/// What is chosen if nothing speaks for another one.
const DEFAULT: &str = "mob";
/// Trees that need not know the network, and those that do.
const TREES: [&str; 2] = ["chain", "binomial"];
/// The same, between clusters.
const TREES_BETWEEN: [&str; 1] = ["magpie"];
const PLANNED_TREES: [&str; 1] = ["optimal-trees"];
/// So long, links and nodes are taken to stay as they are.
const STEADY_FOR: f64 = 10.0;
/// In larger groups trees are not considered: one of so many nodes is slow.
const NODES_MAX: usize = 1_024;
/// With more clusters, trees would take more links of one node than it has.
const CLUSTERS_MAX: usize = 16;
/// Largest piece that trees are considered with, bytes.
const TREE_PIECE_MAX: u32 = 1 << 20;

/// What a network card carries where nobody has measured, bytes per second: 1 Gbit/s.
const ASSUMED_NIC: u64 = 125_000_000;
/// What a link between clusters carries where nobody has measured, bytes per second.
const ASSUMED_WAN: u64 = 2_500_000;
/// Round-trip times where nobody has measured.
const ASSUMED_LOCAL_RTT: Duration = Duration::from_micros(100);
const ASSUMED_WAN_RTT: Duration = Duration::from_millis(20);
/// Clusters that are nearer than this are taken to have a link as fast as their cards between them.
const CAMPUS_RTT: Duration = Duration::from_millis(1);

/// What a root knows of its group.
#[derive(Clone, Debug)]
pub struct Situation {
    /// The nodes; the root comes first.
    pub order: Order,
    /// The network, where somebody has measured or described it. Clusters are found by their names.
    pub network: Option<Arc<Topology>>,
    /// The shortest round-trip time to a peer in the own cluster.
    pub local_rtt: Option<Duration>,
    /// The longest round-trip time to another cluster.
    pub wan_rtt: Option<Duration>,
}

/// What was chosen, and why.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The strategy.
    pub strategy: &'static str,
    /// Bytes of a piece that the prediction is for; none to leave it to the usual choice.
    pub piece_size: Option<u32>,
    /// Seconds that each considered strategy is predicted to take, the chosen one first. Empty where nothing was compared.
    pub predicted: Vec<(&'static str, f64)>,
    /// In words, for a line of output.
    pub reason: String,
}

/// The strategies that a group is founded for so that the choice is free.
pub fn candidates(has_network: bool) -> impl Iterator<Item = &'static str> {
    let planned = PLANNED_TREES.into_iter().filter(move |_| has_network);
    [DEFAULT].into_iter().chain(TREES).chain(TREES_BETWEEN).chain(planned)
}

/// Chooses a strategy for an object of `bytes`, of those for which the group was founded. Without a situation, as at a node that
/// does not know the group, or before anybody has joined, it is `mob`.
pub fn choose(bytes: Option<u64>, situation: Option<&Situation>, overlays: &Overlays, costs: &Costs) -> Choice {
    // A group without a mesh was founded for trees alone.
    let default = overlays.plans.first().filter(|_| !overlays.mesh).map_or(DEFAULT, |kind| kind.name);
    let plain = |why: String| Choice {
        strategy: default,
        piece_size: None,
        predicted: Vec::new(),
        reason: format!("{default}: {why}"),
    };
    let Some(bytes) = bytes else { return plain("a stream of unknown length".into()) };
    let whole = bytes <= WHOLE_BYTES_MAX;
    let several = situation.is_none_or(|situation| situation.order.len() < 2 || situation.order.clusters().len() > 1);
    if bytes <= u64::from(PIECE_SIZE_MIN) || whole && several {
        let size = size_in_words(bytes);
        return Choice { reason: format!("in one frame to each: {size}"), ..plain(String::new()) };
    }
    let Some(situation) = situation.filter(|situation| situation.order.len() > 1) else {
        return plain(format!("{}, to receivers who join while it runs", size_in_words(bytes)));
    };
    let group = group_in_words(situation);
    if situation.order.len() > NODES_MAX || situation.order.clusters().len() > CLUSTERS_MAX {
        return plain(format!("{} to {group}", size_in_words(bytes)));
    }
    let network = known_network(situation).unwrap_or_else(|| assumed_network(situation));
    let mut compared = Vec::new();
    if whole {
        compared.push((default, None, costs.of_whole(bytes, &situation.order, &network)));
    } else if overlays.mesh {
        compared.push((DEFAULT, None, costs.of_mob(bytes, &situation.order, &network)));
    }
    // In one cluster, trees between clusters are those of others.
    let all = candidates(situation.network.is_some())
        .filter(|name| situation.order.clusters().len() > 1 || TREES.contains(name));
    for kind in all.filter_map(|name| Registry::default().find(name)) {
        compared.extend(best_of_tree(kind, bytes, situation, &network, costs).filter(|_| overlays.carry(kind)));
    }
    compared.sort_by(|a, b| a.2.total_cmp(&b.2));
    if compared.is_empty() {
        return plain(format!("{} to {group}", size_in_words(bytes)));
    }
    let chosen = compared.iter().position(|&(name, _, seconds)| name == DEFAULT || seconds <= STEADY_FOR).unwrap_or(0);
    let (strategy, piece_size, seconds) = compared.remove(chosen);
    let next = compared.iter().find(|(name, ..)| *name == DEFAULT).or(compared.first());
    let named = |name, size: Option<u32>| if whole && size.is_none() { "in one frame" } else { name };
    let other = next.map(|&(name, size, seconds)| format!("; {} {}", named(name, size), time_in_words(seconds)));
    let other = other.unwrap_or_default();
    let predicted =
        std::iter::once((strategy, seconds)).chain(compared.iter().map(|&(name, _, s)| (name, s))).collect();
    let (size, time) = (size_in_words(bytes), time_in_words(seconds));
    let in_one_frame = whole && piece_size.is_none();
    let how = if in_one_frame { "in one frame to each" } else { strategy };
    Choice { strategy, piece_size, predicted, reason: format!("{how}: {size} to {group}, predicted {time}{other}") }
}

/// The piece size with which a tree is fastest, and the time that it takes then.
fn best_of_tree(
    kind: &'static StrategyKind,
    bytes: u64,
    situation: &Situation,
    network: &Topology,
    costs: &Costs,
) -> Option<(&'static str, Option<u32>, f64)> {
    let input = PlanInput { order: &situation.order, network: Some(network), seed: 0 };
    let plan: Plan = kind.planner?(&input).ok()?;
    let least = PIECE_SIZE_MIN.max(bytes.div_ceil(u64::from(PIECES_MAX)).next_power_of_two() as u32);
    let sizes =
        std::iter::successors(Some(least), |size| size.checked_mul(2)).take_while(|&s| s <= TREE_PIECE_MAX.max(least));
    // In one piece it would travel in one frame, and not down this tree.
    let sizes = sizes.filter(|&size| bytes > WHOLE_BYTES_MAX || u64::from(size) < bytes);
    let timed = sizes.map(|size| (size, costs.of_trees(bytes, size, &plan, &situation.order, network)));
    // A network without a way to some cluster has no time.
    let (size, seconds) = timed.filter(|(_, seconds)| seconds.is_finite()).min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some((kind.name, Some(size), seconds))
}

/// The network of the gauge with the nodes that there are; none if it does not know all clusters.
fn known_network(situation: &Situation) -> Option<Topology> {
    let mut network = Topology::clone(situation.network.as_deref()?);
    for index in network.indices() {
        network.cluster_mut(index)?.nodes = 0;
    }
    for cluster in situation.order.clusters() {
        let index = network.find(&cluster.name)?;
        network.cluster_mut(index)?.nodes = cluster.nodes.len() as u32;
    }
    optimum(&network, network.find(&situation.order.clusters().first()?.name)?).rate_bytes_per_s?;
    Some(network)
}

/// What the network is taken for where nobody has measured more of it than round-trip times.
fn assumed_network(situation: &Situation) -> Topology {
    let mut network = Topology::new();
    let local = situation.local_rtt.unwrap_or(ASSUMED_LOCAL_RTT);
    let wan = situation.wan_rtt.unwrap_or(ASSUMED_WAN_RTT);
    let mut indices: Vec<ClusterIndex> = Vec::new();
    for cluster in situation.order.clusters() {
        let alike = Cluster::new(cluster.name.clone(), cluster.nodes.len() as u32);
        // The order has no two clusters of one name.
        indices.extend(network.add_cluster(alike.with_nic(ASSUMED_NIC).with_lan_delay(local.0 / 2)));
    }
    let rate = if wan < CAMPUS_RTT { ASSUMED_NIC } else { ASSUMED_WAN };
    for (i, &a) in indices.iter().enumerate() {
        for &b in &indices[i + 1..] {
            let link = WanLink { queue: QueueLimit::TwiceBdp, ..WanLink::new(rate, wan.0 / 2) };
            let linked = network.link_both(a, b, link);
            debug_assert!(linked.is_ok(), "both clusters were just added");
        }
    }
    network
}

fn group_in_words(situation: &Situation) -> String {
    let (nodes, clusters) = (situation.order.len() - 1, situation.order.clusters().len());
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    match clusters {
        1 => format!("{} in one cluster", plural(nodes, "node")),
        _ => format!("{} in {clusters} clusters", plural(nodes, "node")),
    }
}

fn size_in_words(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some(&(unit, name)) => {
            let value = bytes as f64 / unit as f64;
            let digits = if value < 10.0 && !bytes.is_multiple_of(unit) { 1 } else { 0 };
            format!("{value:.digits$} {name}")
        }
        None => format!("{bytes} B"),
    }
}

fn time_in_words(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s if s < 100.0 => format!("{s:.2} s"),
        s => format!("{s:.0} s"),
    }
}

#[cfg(test)]
mod tests;
