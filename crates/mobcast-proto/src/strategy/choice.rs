//! The choice made for the user: which strategy a broadcast takes, from what its root knows of object, group and network, by a
//! cost model (`docs/strategies/auto.md` has its terms, and how its constants were found). A function: it measures nothing.
//!
//! Strategies that cannot adapt are taken for what is over soon: for longer than ten seconds (`STEADY_FOR`), or one where links are known
//! to vary, nobody promises that links and nodes stay as they are, and `mob`, which adapts, loses little.

use std::collections::BTreeSet;
use std::sync::Arc;

use mobcast_topology::{Cluster, ClusterIndex, QueueLimit, Topology, WanLink, optimal_rate};

use super::overlay::Overlays;
use super::plan::{Order, Plan, PlanInput, PlanTree};
use super::{ASSUMED_CARD_BYTES_PER_S, Registry, StrategyKind};
use crate::content::announcement::WHOLE_BYTES_MAX;
use crate::content::piece_size::{PieceSizeInput, automatic_piece_size};
use crate::limits::{PIECE_SIZE_MIN, PIECES_MAX};
use crate::time::Duration;

mod cost;

pub(crate) use cost::control_tree;

pub use cost::Costs;

/// The name by which the choice is asked for.
pub const AUTO: &str = "auto";

/// What is chosen if nothing speaks for another one.
const DEFAULT: &str = "mob";
/// Trees that are weighed everywhere…
const TREES: [&str; 3] = ["chain", "binomial", "two-trees"];
/// …between clusters alone…
const TREES_BETWEEN: [&str; 1] = ["magpie"];
/// …and there where the network is known.
const PLANNED_TREES: [&str; 1] = ["optimal-trees"];
/// The tree that an object in one frame goes down, in one cluster and between several.
const FRAME_TREES: [&str; 2] = ["binomial", "magpie"];
/// So long, links and nodes are taken to stay as they are, in seconds…
const STEADY_FOR: f64 = 10.0;
/// …and so long where the gauge says that links vary. Where it says that they do not, there is no limit.
const STEADY_FOR_WHERE_LINKS_VARY: f64 = 1.0;
/// In larger groups trees are not considered: one of so many nodes is slow.
const NODES_MAX: usize = 1_024;
/// With more clusters, trees would take more links of one node than it has.
const CLUSTERS_MAX: usize = 16;
/// Largest piece that trees are considered with, bytes.
const TREE_PIECE_MAX: u32 = 1 << 20;

/// What a network card carries where nobody has measured, bytes per second, for what fits into a frame: 100 Mbit/s. On a fast card a tree
/// of frames takes little longer than the root alone, on a slow one a third.
const ASSUMED_NIC_OF_FRAMES: u64 = 12_500_000;
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

/// Why the situation is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unknown {
    /// Receivers are still to come.
    Early,
    /// Another node coordinates the group: it alone knows who is in it.
    Elsewhere,
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

/// What is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extent {
    /// Bytes of the object; none for a stream.
    pub bytes: Option<u64>,
    /// Bytes of a piece, where that was asked for.
    pub piece_size: Option<u32>,
}

impl Extent {
    /// An object of so many bytes, in pieces of whatever size.
    pub fn of(bytes: u64) -> Extent {
        Extent { bytes: Some(bytes), piece_size: None }
    }
}

/// Chooses a strategy for an object, of those for which the group was founded. Without a situation it is `mob`.
pub fn choose(object: Extent, situation: Result<&Situation, Unknown>, overlays: &Overlays, costs: &Costs) -> Choice {
    // A group without a mesh was founded for trees alone.
    let default = overlays.plans.first().filter(|_| !overlays.mesh).map_or(DEFAULT, |kind| kind.name);
    let plain = |why: String| Choice {
        strategy: default,
        piece_size: None,
        predicted: Vec::new(),
        reason: format!("{default}: {why}"),
    };
    let Some(bytes) = object.bytes else { return plain("a stream of unknown length".into()) };
    let whole = bytes <= WHOLE_BYTES_MAX && object.piece_size.is_none_or(|size| bytes <= u64::from(size));
    let in_words = size_in_words(bytes);
    let situation = match situation {
        Ok(situation) if situation.order.len() > 1 => situation,
        _ if whole => return Choice { reason: format!("in one frame to each: {in_words}"), ..plain(String::new()) },
        Err(Unknown::Elsewhere) => {
            return plain(format!("{in_words}, from a node that does not coordinate the group: nothing was compared"));
        }
        _ => return plain(format!("{in_words}, to receivers who join while it runs")),
    };
    let (order, group) = (&situation.order, group_in_words(situation));
    if order.len() > NODES_MAX || order.clusters().len() > CLUSTERS_MAX {
        return match whole {
            true => Choice { reason: format!("in one frame to each: {in_words} to {group}"), ..plain(String::new()) },
            false => plain(format!("{in_words} to {group}")),
        };
    }
    let mut compared = ways(object, whole, default, situation, overlays, costs);
    // Where the network has no way to some cluster, nobody can say how long it takes.
    compared.retain(|way| way.seconds.is_finite());
    compared.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    // In one frame or in pieces: of each the better way.
    let mut names = BTreeSet::new();
    compared.retain(|way| names.insert(way.strategy));
    let known = situation.network.as_ref().filter(|_| known_network(situation).is_some());
    let steady_for = match known.and_then(|network| network.links_vary) {
        None => STEADY_FOR,
        Some(true) => STEADY_FOR_WHERE_LINKS_VARY,
        Some(false) => f64::INFINITY,
    };
    let chosen = compared.iter().position(|way| way.strategy == DEFAULT || way.seconds <= steady_for).unwrap_or(0);
    if compared.is_empty() {
        return plain(format!("{in_words} to {group}"));
    }
    let best = compared.remove(chosen);
    let next = compared.iter().find(|way| way.strategy == DEFAULT).or(compared.first());
    let other = next.map(|way| format!("; {} {}", way.in_words(default), time_in_words(way.seconds)));
    let (how, time, other) = (best.in_words(default), time_in_words(best.seconds), other.unwrap_or_default());
    Choice {
        strategy: best.strategy,
        piece_size: best.piece_size,
        predicted: std::iter::once(&best).chain(&compared).map(|way| (way.strategy, way.seconds)).collect(),
        reason: format!("{how}: {in_words} to {group}, predicted {time}{other}"),
    }
}

/// The ways that an object could go, with their times.
fn ways(
    object: Extent,
    whole: bool,
    default: &'static str,
    situation: &Situation,
    overlays: &Overlays,
    costs: &Costs,
) -> Vec<Predicted> {
    let (order, bytes) = (&situation.order, object.bytes.unwrap_or_default());
    let known = known_network(situation);
    let is_known = known.is_some();
    let network = known.unwrap_or_else(|| {
        assumed_network(situation, if whole { ASSUMED_NIC_OF_FRAMES } else { ASSUMED_CARD_BYTES_PER_S })
    });
    let several = order.clusters().len() > 1;
    let mut compared: Vec<Predicted> = Vec::new();
    if whole {
        let frame = |strategy, tree: &PlanTree| {
            let seconds = costs.of_frame(bytes, tree, order, &network);
            Predicted { strategy, piece_size: object.piece_size, in_one_frame: true, seconds }
        };
        let tree_of = |name| {
            let kind = Registry::default().find(name).filter(|kind| overlays.carry(kind))?;
            plan_of(kind, order, &network)?.trees.into_iter().next()
        };
        compared.push(frame(default, &tree_of(default).unwrap_or_else(|| control_tree(order))));
        let name = FRAME_TREES[usize::from(several)];
        compared.extend(tree_of(name).map(|tree| frame(name, &tree)));
    } else if overlays.mesh {
        let seconds = costs.of_mob(bytes, piece_of_mob(object, order), order, &network);
        compared.push(Predicted { strategy: DEFAULT, piece_size: object.piece_size, in_one_frame: false, seconds });
    }
    // In one cluster, trees between clusters are those of others. Between several, what fits into a frame is over before a tree has asked
    // for its first piece. Where the gauge lacks a cluster, nobody can plan for it.
    let all = candidates(is_known).filter(|name| several || TREES.contains(name));
    for kind in all.filter_map(|name| Registry::default().find(name)).filter(|kind| overlays.carry(kind)) {
        let is_worth = !whole || (!several && bytes > u64::from(PIECE_SIZE_MIN) && object.piece_size.is_none());
        compared.extend(is_worth.then(|| best_of_tree(kind, bytes, object, order, &network, costs)).flatten());
    }
    compared
}

/// A way that was compared.
struct Predicted {
    strategy: &'static str,
    piece_size: Option<u32>,
    in_one_frame: bool,
    seconds: f64,
}

impl Predicted {
    fn in_words(&self, default: &str) -> String {
        match self.in_one_frame {
            true if self.strategy == default => "in one frame to each".into(),
            true => format!("{} in one frame", self.strategy),
            false => self.strategy.into(),
        }
    }
}

fn plan_of(kind: &StrategyKind, order: &Order, network: &Topology) -> Option<Plan> {
    kind.planner?(&PlanInput { order, network: Some(network), seed: 0 }).ok()
}

/// The piece size with which a tree is fastest, unless one was asked for, and the time that it takes then.
fn best_of_tree(
    kind: &'static StrategyKind,
    bytes: u64,
    object: Extent,
    order: &Order,
    network: &Topology,
    costs: &Costs,
) -> Option<Predicted> {
    let plan = plan_of(kind, order, network)?;
    let least = PIECE_SIZE_MIN.max(bytes.div_ceil(u64::from(PIECES_MAX)).next_power_of_two() as u32);
    let doubled = std::iter::successors(Some(least), |size| size.checked_mul(2));
    let sizes = doubled.take_while(|&size| size <= TREE_PIECE_MAX.max(least));
    // In one piece it would travel in one frame.
    let usual = sizes.filter(|&size| bytes > WHOLE_BYTES_MAX || u64::from(size) < bytes);
    let sizes: Vec<u32> = object.piece_size.map_or_else(|| usual.collect(), |size| vec![size]);
    let timed = sizes.into_iter().map(|size| (size, costs.of_trees(bytes, size, &plan, order, network)));
    // A network without a way to some cluster has no time.
    let (size, seconds) = timed.filter(|(_, seconds)| seconds.is_finite()).min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Predicted { strategy: kind.name, piece_size: Some(size), in_one_frame: false, seconds })
}

/// The piece size that an object gets if `mob` takes it, bytes.
fn piece_of_mob(object: Extent, order: &Order) -> u32 {
    let usual = PieceSizeInput { length: object.bytes, receivers: u32::try_from(order.len() - 1).ok() };
    object.piece_size.unwrap_or_else(|| automatic_piece_size(usual))
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
    optimal_rate(&network, network.find(&situation.order.clusters().first()?.name)?)?;
    Some(network)
}

/// What the network is taken for where nobody has measured more of it than round-trip times.
fn assumed_network(situation: &Situation, nic: u64) -> Topology {
    let mut network = Topology::new();
    let local = situation.local_rtt.unwrap_or(ASSUMED_LOCAL_RTT);
    let wan = situation.wan_rtt.unwrap_or(ASSUMED_WAN_RTT);
    let mut indices: Vec<ClusterIndex> = Vec::new();
    for cluster in situation.order.clusters() {
        let alike = Cluster::new(cluster.name.clone(), cluster.nodes.len() as u32);
        // The order has no two clusters of one name.
        indices.extend(network.add_cluster(alike.with_nic(nic).with_lan_delay(local.0 / 2)));
    }
    let rate = if wan < CAMPUS_RTT { nic } else { ASSUMED_WAN };
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
