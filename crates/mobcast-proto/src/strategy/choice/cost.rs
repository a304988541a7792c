//! What a broadcast costs by each strategy, in seconds: the terms of the model.

use std::collections::BTreeMap;

use mobcast_topology::{ClusterIndex, Topology, WanLink, optimal_rate};

use crate::limits::{COORDINATOR_CHILDREN_MAX, COORDINATOR_LOCAL_CHILDREN_MAX, TREE_CHILDREN_MAX};
use crate::strategy::FIRST_FLIGHT_BYTES;
use crate::strategy::mob::is_worth_waiting;
use crate::strategy::plan::{Order, Plan, PlanTree};
use crate::time::Duration;

/// Bytes that are sent and answered beside each piece: headers, the request, the announcement.
const PIECE_OVERHEAD_BYTES: f64 = 100.0;

/// What a new TCP connection sends in its first round trip, bytes, and twice as much in each that follows, until something else limits it.
const FIRST_FLIGHT: f64 = FIRST_FLIGHT_BYTES as f64;

/// Seconds that `mob` takes before its rate is reached, in one cluster and between several: what nobody has asked for is left for a tenth
/// of a second to those whose part it is…
const MOB_START_INSIDE: f64 = 0.05;
const MOB_START_BETWEEN: f64 = 0.055;
/// …parts find their takers, between clusters a little later with each node…
const MOB_START_PER_NODE: f64 = 0.0015;
/// …and half as late if there are but so many pieces: few are left to be asked for then…
const MOB_START_HALF_PIECES: f64 = 40.0;
/// …and between clusters requests and news of what is there go to and fro…
const MOB_ROUND_TRIPS: f64 = 5.0;
/// …but less where each node has so little to fetch that nobody waits for what other clusters pass on.
const MOB_ROUND_TRIPS_FOR_LITTLE: f64 = 2.5;
/// Part of the optimum that `mob` reaches from then on: where the root's card binds, and between clusters.
const MOB_PART_INSIDE: f64 = 0.95;
const MOB_PART_BETWEEN: f64 = 0.98;

/// What a machine costs, beside its network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Costs {
    /// Bytes per second that a node takes in, verifies and passes on, if pieces are large.
    pub bytes_per_s: f64,
    /// What each piece costs a node beside its bytes.
    pub piece: Duration,
    /// From a piece's last byte at one node until its first leaves for the next one.
    pub hop: Duration,
    /// The same of an object in one frame, which is passed on before it is stored. Where nobody has measured it apart, what a piece's takes.
    pub frame_hop: Duration,
}

impl Costs {
    /// What a machine is taken for that was not measured: estimates.
    pub const USUAL: Costs = Costs {
        bytes_per_s: 600e6,
        piece: Duration::from_micros(60),
        hop: Duration::from_micros(200),
        frame_hop: Duration::from_micros(200),
    };
    /// Machines that cost nothing.
    pub const NONE: Costs =
        Costs { bytes_per_s: f64::INFINITY, piece: Duration::ZERO, hop: Duration::ZERO, frame_hop: Duration::ZERO };

    /// Bytes per second, and seconds for a piece and a hop, in one frame or not.
    pub fn new(bytes_per_s: f64, piece_s: f64, hop_s: f64) -> Costs {
        let time = |seconds: f64| Duration((seconds * 1e9) as u64);
        Costs { bytes_per_s, piece: time(piece_s), hop: time(hop_s), frame_hop: time(hop_s) }
    }

    /// Seconds that an object takes by `mob`, in pieces of so many bytes.
    pub(super) fn of_mob(&self, bytes: u64, piece_size: u32, order: &Order, network: &Topology) -> f64 {
        let root = network.find(&order.clusters()[0].name).unwrap_or_default();
        let payload = optimal_rate(network, root).map(|rate| network.payload_factor.of(rate));
        let best = payload.map_or(f64::INFINITY, |rate| rate as f64);
        let rtt = 2.0 * Places::new(order, network).longest_delay();
        let piece = (bytes as f64).min(f64::from(piece_size));
        let pieces = bytes as f64 / piece;
        let few = pieces / (pieces + MOB_START_HALF_PIECES);
        let (start, part) = match order.clusters() {
            [_] => (MOB_START_INSIDE, MOB_PART_INSIDE),
            _ => ((MOB_START_BETWEEN + MOB_START_PER_NODE * order.len() as f64) * few, MOB_PART_BETWEEN),
        };
        let others = order.clusters().iter().skip(1).map(|cluster| bytes / cluster.nodes.len().max(1) as u64);
        let little = others.max().is_some_and(|share| !is_worth_waiting(share, Duration((rtt * 1e9) as u64)));
        let start = start + if little { MOB_ROUND_TRIPS_FOR_LITTLE } else { MOB_ROUND_TRIPS } * rtt;
        start + bytes as f64 / best.min(self.own_rate(piece)) / part
    }

    /// Seconds that an object takes in one frame down a tree. Who has it sends it to all its children at once, and they have it at the
    /// same time: connections share a card evenly, by the kernel's queues.
    pub(super) fn of_frame(&self, bytes: u64, tree: &PlanTree, order: &Order, network: &Topology) -> f64 {
        let places = Places::new(order, network);
        let used = places.used(tree);
        let piece = Piece { bytes: bytes as f64, is_asked_for: false, behind_s: 0.0 };
        self.until_the_last_has(piece, tree, |resource| used[&resource], &places)
    }

    /// Seconds that an object takes down the trees of a plan: it passes the resource that has most to carry at that one's rate, and the last
    /// piece is passed on from node to node beside that. Children of a node share its card. Where several nodes send over one link, a piece
    /// shares it with those of other trees, as much as it is busy; one node sends one piece after another.
    pub(super) fn of_trees(&self, bytes: u64, piece_size: u32, plan: &Plan, order: &Order, network: &Topology) -> f64 {
        let (bytes, places) = (bytes as f64, Places::new(order, network));
        let piece = bytes.min(f64::from(piece_size));
        let weights: f64 = plan.trees.iter().map(|tree| tree.weight as f64).sum();
        let trees: Vec<_> =
            plan.trees.iter().map(|tree| (tree, places.used(tree), tree.weight as f64 / weights)).collect();
        let mut loads: BTreeMap<Resource, Load> = BTreeMap::new();
        let mut far: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for (tree, used, part) in &trees {
            used.iter().for_each(|(&resource, &edges)| loads.entry(resource).or_default().add(edges, *part));
            places.senders(tree).for_each(|(resource, from)| loads.entry(resource).or_default().add_sender(from));
            places.far_edges(tree).for_each(|edge| *far.entry(edge).or_default() += part);
        }
        let seconds_per_byte = |resource, load: &Load| load.of_a_piece / self.rate(resource, piece, &places);
        let slowest = loads.iter().map(|(&resource, load)| seconds_per_byte(resource, load)).fold(0.0, f64::max);
        for (&resource, load) in &mut loads {
            load.busy = if slowest > 0.0 { seconds_per_byte(resource, load) / slowest } else { 0.0 };
        }
        // With fewer pieces than trees some trees have none; and where there are more, those that carry less than a piece.
        let meeting = (bytes / piece / trees.len() as f64).min(1.0);
        let heaviest = trees.iter().map(|(.., part)| *part).fold(0.0, f64::max);
        let that_carry = trees.iter().filter(|(.., part)| *part >= heaviest.min(piece / bytes));
        let last = that_carry.map(|(tree, used, part)| {
            let edges = |resource: Resource| loads[&resource].edges(used[&resource], *part, meeting);
            let piece = Piece { bytes: piece, is_asked_for: true, behind_s: bytes * slowest };
            self.until_the_last_has(piece, tree, edges, &places)
        });
        // Windows have opened for the first piece, and open further for the others.
        let opening = far.iter().map(|(&(from, to), part)| {
            let opened = |bytes: f64| opening(bytes, part / slowest, 2.0 * places.delay(from, to));
            opened(bytes * part) - opened(piece.min(bytes * part))
        });
        last.fold(0.0, f64::max) + opening.fold(0.0, f64::max)
    }

    /// Seconds until the last node has a piece that goes down a tree, and what comes behind it the same way; `edges` of the piece go over a
    /// resource at a time. A node asks for it as soon as it has heard of the broadcast, also if it is not there yet.
    fn until_the_last_has(
        &self,
        piece: Piece,
        tree: &PlanTree,
        edges: impl Fn(Resource) -> f64,
        places: &Places<'_>,
    ) -> f64 {
        let Piece { bytes, is_asked_for, behind_s } = piece;
        let hop_s = if is_asked_for { self.hop } else { self.frame_hop }.as_secs_f64();
        // When each node has the piece, and what it took over the slowest edge on its way.
        let mut at = vec![(0.0_f64, 0.0_f64); tree.parents.len()];
        for position in from_the_root(tree) {
            let Some(parent) = tree.parents[position] else { continue };
            let slowest = places.of_edge(parent, position).into_iter().flatten();
            let seconds = slowest.map(|resource| edges(resource) * bytes / self.rate(resource, bytes, places));
            let (delay, seconds) = (places.delay(parent, position), seconds.fold(0.0, f64::max));
            let far = if places.same_cluster(parent, position) { 0.0 } else { 2.0 * delay };
            let asked_at = if is_asked_for { places.delay(0, position) + delay } else { 0.0 };
            let opening = opening(bytes, bytes / seconds, far);
            let (parent_at, longest) = at[parent];
            at[position] = (parent_at.max(asked_at) + delay + opening + hop_s + seconds, longest.max(seconds));
        }
        // What is behind it comes over that edge in its own time, which includes the piece's.
        at.into_iter().map(|(at, longest)| at + (behind_s - longest).max(0.0)).fold(0.0, f64::max)
    }

    /// Payload per second that a resource carries in pieces of this size.
    fn rate(&self, resource: Resource, piece: f64, places: &Places<'_>) -> f64 {
        let wire = places.capacity(resource) * piece / (piece + PIECE_OVERHEAD_BYTES);
        let is_card = matches!(resource, Resource::Out(_) | Resource::WanOut(_));
        if is_card { wire.min(self.own_rate(piece)) } else { wire }
    }

    /// Payload per second that a node itself takes in, verifies and passes on in pieces of this size.
    fn own_rate(&self, piece: f64) -> f64 {
        1.0 / (1.0 / self.bytes_per_s + self.piece.as_secs_f64() / piece)
    }
}

/// What goes down a tree.
#[derive(Clone, Copy)]
struct Piece {
    bytes: f64,
    /// Whether each node has to ask for it, or gets it unasked, in one frame.
    is_asked_for: bool,
    /// What the slowest edge takes for all that goes the same way, in seconds.
    behind_s: f64,
}

/// What the trees of a plan put on a resource.
#[derive(Clone, Copy, Default)]
struct Load {
    /// Edges that a piece takes of it, on average over all pieces.
    of_a_piece: f64,
    /// Edges of all trees.
    edges: f64,
    /// How busy it is, while the busiest one is at 1.
    busy: f64,
    /// The one node that sends over it, if it is one.
    sender: Option<usize>,
    has_several_senders: bool,
}

impl Load {
    fn add(&mut self, edges: f64, part: f64) {
        self.of_a_piece += edges * part;
        self.edges += edges;
    }

    fn add_sender(&mut self, position: usize) {
        self.has_several_senders |= *self.sender.get_or_insert(position) != position;
    }

    /// Edges that carry something while a piece of a tree with this part of all goes over its `own`. What a tree's pieces wait for at most is one
    /// of each other.
    fn edges(&self, own: f64, part: f64, meeting: f64) -> f64 {
        let all = (self.of_a_piece / part).min(self.edges);
        if self.has_several_senders { own + (all - own).max(0.0) * meeting * self.busy } else { own }
    }
}

/// How many seconds longer than at its rate a new connection takes for some bytes, because its window opens slowly.
fn opening(bytes: f64, bytes_per_s: f64, round_trip: f64) -> f64 {
    let until_open = bytes.min(bytes_per_s * round_trip - FIRST_FLIGHT);
    // Also if there is no round trip, or no limit to the rate.
    if until_open > 0.0 {
        round_trip * (1.0 + until_open / FIRST_FLIGHT).log2() - until_open / bytes_per_s
    } else {
        0.0
    }
}

/// The control tree as the coordinator makes it while nodes join in order ([`crate::group::graph`]), which a test there holds it against.
pub(crate) fn control_tree(order: &Order) -> PlanTree {
    let (mut parents, mut children) = (Vec::with_capacity(order.len()), vec![0; order.len()]);
    for range in order.ranges() {
        for position in range.clone() {
            let has_room = |&other: &usize| other > 0 && children[other] < TREE_CHILDREN_MAX;
            let within = (range.start..position).find(has_room);
            let parent = match position {
                0 => None,
                _ if range.start == 0 && children[0] < COORDINATOR_LOCAL_CHILDREN_MAX => Some(0),
                _ if within.is_some() => within,
                _ if children[0] < COORDINATOR_CHILDREN_MAX => Some(0),
                _ => (1..position).find(has_room).or(Some(0)),
            };
            parent.into_iter().for_each(|parent: usize| children[parent] += 1);
            parents.push(parent);
        }
    }
    PlanTree::new(parents)
}

/// The positions of a tree, each after its parent.
fn from_the_root(tree: &PlanTree) -> Vec<usize> {
    let depths = tree.depths();
    let mut positions: Vec<usize> = (0..tree.parents.len()).collect();
    positions.sort_by_key(|&position| depths[position]);
    positions
}

/// Something that edges of a tree share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Resource {
    /// What a position's card sends inside its cluster.
    Out(usize),
    /// What it sends to others, and the node behind it.
    WanOut(usize),
    /// What it receives from others.
    WanIn(usize),
    /// A link between clusters, by their numbers in the network.
    Link(u32, u32),
    AccessOut(u32),
    AccessIn(u32),
    Fabric(u32),
}

/// Where each position of an order stands in a network.
struct Places<'a> {
    network: &'a Topology,
    cluster: Vec<ClusterIndex>,
}

impl Places<'_> {
    fn new<'a>(order: &Order, network: &'a Topology) -> Places<'a> {
        let of = |name: &str| network.find(name).unwrap_or_default();
        let each =
            order.clusters().iter().flat_map(|cluster| std::iter::repeat_n(of(&cluster.name), cluster.nodes.len()));
        Places { network, cluster: each.collect() }
    }

    /// What an edge needs.
    fn of_edge(&self, parent: usize, child: usize) -> [Option<Resource>; 5] {
        let (from, to) = (self.cluster[parent], self.cluster[child]);
        if from == to {
            return [Some(Resource::Out(parent)), Some(Resource::Fabric(from.0)), None, None, None];
        }
        // One card for everything counts as that of its own cluster.
        let own_card = self.network.clusters()[from.as_usize()].wan_nic.is_some();
        let out = if own_card { Resource::WanOut(parent) } else { Resource::Out(parent) };
        [
            Some(out),
            Some(Resource::WanIn(child)),
            Some(Resource::Link(from.0, to.0)),
            Some(Resource::AccessOut(from.0)),
            Some(Resource::AccessIn(to.0)),
        ]
    }

    /// How many edges of a tree share each resource.
    fn used(&self, tree: &PlanTree) -> BTreeMap<Resource, f64> {
        let mut used = BTreeMap::new();
        for (child, parent) in tree.parents.iter().enumerate() {
            let of_edge = parent.map(|parent| self.of_edge(parent, child));
            of_edge.into_iter().flatten().flatten().for_each(|resource| *used.entry(resource).or_insert(0.0) += 1.0);
        }
        used
    }

    /// Who sends over what in a tree.
    fn senders(&self, tree: &PlanTree) -> impl Iterator<Item = (Resource, usize)> {
        let edges = tree.parents.iter().enumerate().filter_map(|(child, parent)| Some(((*parent)?, child)));
        edges.flat_map(|(parent, child)| {
            self.of_edge(parent, child).into_iter().flatten().map(move |resource| (resource, parent))
        })
    }

    /// Payload bytes per second that a resource carries.
    fn capacity(&self, resource: Resource) -> f64 {
        let cluster = |number: u32| &self.network.clusters()[number as usize];
        let of = |position: usize| &self.network.clusters()[self.cluster[position].as_usize()];
        let bytes_per_s = match resource {
            Resource::Out(position) => of(position).nic_out_bytes_per_s,
            Resource::WanOut(position) => of(position).wan_nic.and_then(|nic| nic.out_bytes_per_s),
            Resource::WanIn(position) => {
                let cluster = of(position);
                cluster.wan_nic.map_or(cluster.nic_in_bytes_per_s, |nic| nic.in_bytes_per_s)
            }
            Resource::Link(from, to) => match self.network.wan(ClusterIndex(from), ClusterIndex(to)) {
                Some(link) => link.rate_bytes_per_s,
                None => Some(0),
            },
            Resource::AccessOut(number) => cluster(number).access_out_bytes_per_s,
            Resource::AccessIn(number) => cluster(number).access_in_bytes_per_s,
            Resource::Fabric(number) => cluster(number).fabric_bytes_per_s,
        };
        bytes_per_s.map_or(f64::INFINITY, |rate| self.network.payload_factor.of(rate) as f64)
    }

    /// The edges of a tree between clusters.
    fn far_edges(&self, tree: &PlanTree) -> impl Iterator<Item = (usize, usize)> {
        let edges = tree.parents.iter().enumerate().filter_map(|(child, parent)| Some(((*parent)?, child)));
        edges.filter(|&(parent, child)| !self.same_cluster(parent, child))
    }

    fn same_cluster(&self, a: usize, b: usize) -> bool {
        self.cluster[a] == self.cluster[b]
    }

    /// Seconds from one position to another.
    fn delay(&self, from: usize, to: usize) -> f64 {
        let (a, b) = (self.cluster[from], self.cluster[to]);
        let delay_ns = match a == b {
            true => self.network.clusters()[a.as_usize()].lan_delay_ns,
            false => self.network.wan(a, b).map_or(0, |link| link.one_way_delay_ns),
        };
        delay_ns as f64 / 1e9
    }

    fn longest_delay(&self) -> f64 {
        match self.cluster.iter().all(|cluster| *cluster == self.cluster[0]) {
            true => self.delay(0, 0),
            false => longest_delay(self.network),
        }
    }
}

/// Seconds of the longest way between two clusters that have nodes.
fn longest_delay(network: &Topology) -> f64 {
    let occupied = |cluster: ClusterIndex| network.clusters()[cluster.as_usize()].nodes > 0;
    let links = network.wan_links().filter(|&(from, to, _)| occupied(from) && occupied(to));
    links.map(|(.., WanLink { one_way_delay_ns, .. })| one_way_delay_ns as f64 / 1e9).fold(0.0, f64::max)
}
