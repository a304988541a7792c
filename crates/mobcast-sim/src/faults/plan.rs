//! A run of the faults machine as data: all that follows from a seed. Which network, who broadcasts what, which clocks and
//! disks the machines have, who is malicious, and what goes wrong when. What becomes of it is [`super::run`]'s.

use std::collections::BTreeSet;
use std::fmt;

use mobcast_proto::content::object::{Descriptor, FileMeta, ObjectKind};
use mobcast_proto::strategy::{STRATEGIES, find};
use mobcast_proto::{Duration, Time};
use mobcast_topology::{Cluster, ClusterIndex, LinkRef, Topology};

use crate::network::Stop;
use crate::world::clock::Clock;
use crate::world::mischief::Mischief;

use super::draw;

/// Something that goes wrong, or changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A machine is started late.
    Join(ClusterIndex),
    /// A machine dies, or its process ends.
    Stop(u32, Stop),
    /// A machine that was stopped starts again, with another node.
    Restart(u32),
    /// A machine stands still: it reads nothing.
    Pause(u32, Duration),
    /// A machine's disk stores nothing.
    StallDisk(u32, Duration),
    /// The links between two nodes break, and both notice.
    Break(u32, u32),
    /// A link between clusters has another rate, bytes per second.
    Rate(LinkRef, u64),
    /// Packets are lost between two clusters, this many in a thousand.
    Loss(ClusterIndex, ClusterIndex, u32, Duration),
    /// Nothing passes between two clusters.
    Cut(ClusterIndex, ClusterIndex, Duration),
    /// Nothing passes between a machine and all others.
    Unplug(u32, Duration),
}

impl Fault {
    /// How long it lasts, if it ends by itself.
    pub fn lasts(&self) -> Option<Duration> {
        match self {
            Fault::Pause(_, time)
            | Fault::StallDisk(_, time)
            | Fault::Loss(_, _, _, time)
            | Fault::Cut(_, _, time)
            | Fault::Unplug(_, time) => Some(*time),
            Fault::Join(_) | Fault::Stop(..) | Fault::Restart(_) | Fault::Break(..) | Fault::Rate(..) => None,
        }
    }

    /// Whether all nodes and clusters that it names are among the first `nodes` and `clusters`.
    fn is_within(&self, nodes: u32, clusters: u32) -> bool {
        match *self {
            Fault::Join(cluster) => cluster.0 < clusters,
            Fault::Stop(node, _)
            | Fault::Restart(node)
            | Fault::Pause(node, _)
            | Fault::StallDisk(node, _)
            | Fault::Unplug(node, _) => node < nodes,
            Fault::Break(a, b) => a.max(b) < nodes,
            Fault::Rate(LinkRef::Wan { from, to }, _) => from.0.max(to.0) < clusters,
            Fault::Rate(..) => true,
            Fault::Loss(a, b, ..) | Fault::Cut(a, b, _) => a.0.max(b.0) < clusters,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Join(cluster) => write!(f, "a machine is started in {cluster}"),
            Fault::Stop(node, Stop::Silent) => write!(f, "machine {node} dies silently"),
            Fault::Stop(node, Stop::Reset) => write!(f, "the process on machine {node} ends"),
            Fault::Restart(node) => write!(f, "machine {node} starts again"),
            Fault::Pause(node, time) => write!(f, "machine {node} stands still for {time}"),
            Fault::StallDisk(node, time) => write!(f, "the disk of machine {node} stores nothing for {time}"),
            Fault::Break(a, b) => write!(f, "the links between machines {a} and {b} break"),
            Fault::Rate(LinkRef::Wan { from, to }, rate) => write!(f, "{from} to {to} carries {} kB/s", rate / 1_000),
            Fault::Rate(link, rate) => write!(f, "{link:?} carries {} kB/s", rate / 1_000),
            Fault::Loss(a, b, permille, time) => {
                write!(f, "of {a} to {b} and back {permille} packets in a thousand are lost for {time}")
            }
            Fault::Cut(a, b, time) => write!(f, "nothing passes between {a} and {b} for {time}"),
            Fault::Unplug(node, time) => write!(f, "machine {node} is unplugged for {time}"),
        }
    }
}

/// One broadcast of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Planned {
    /// The machine whose node is root.
    pub root: u32,
    /// Begins then, or as soon as its root is a member.
    pub at: Time,
    /// Bytes of the object.
    pub bytes: u64,
    /// Bytes of a piece.
    pub piece_size: u32,
    /// By its name in the registry.
    pub strategy: &'static str,
    /// Whether it travels in one frame.
    pub whole: bool,
}

impl Planned {
    /// Pieces of the object.
    pub fn pieces(&self) -> u32 {
        self.bytes.div_ceil(u64::from(self.piece_size)) as u32
    }

    /// What its root says of it.
    pub fn descriptor(&self) -> Descriptor {
        Descriptor {
            kind: ObjectKind::Synthetic { seed: 0 },
            name: b"object".to_vec(),
            meta: FileMeta::default(),
            length: Some(self.bytes),
            index_length: 0,
            piece_size: self.piece_size,
            strategy: self.strategy.into(),
        }
    }
}

/// A fault and its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timed {
    /// Its number in the plan that follows from the seed alone.
    pub number: usize,
    /// When it happens, or begins.
    pub at: Time,
    /// What.
    pub fault: Fault,
}

impl Timed {
    /// When it is over.
    pub fn until(&self) -> Time {
        self.at + self.fault.lasts().unwrap_or_default()
    }
}

/// What is left away of a plan, to see what matters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reduction {
    /// The faults that remain, by their numbers; all if none are given.
    pub only: Option<Vec<usize>>,
    /// The first nodes alone.
    pub nodes: Option<u32>,
    /// The largest object, bytes.
    pub bytes: Option<u64>,
    /// Honest members alone.
    pub honest: bool,
    /// True clocks and fast disks alone.
    pub plain: bool,
    /// Not less, but another strategy than the default for all broadcasts: one of this name, or for `all` the one whose turn
    /// it is by the seed.
    pub strategy: Option<String>,
}

impl fmt::Display for Reduction {
    /// As flags of the command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(only) = &self.only {
            let numbers: Vec<String> = only.iter().map(usize::to_string).collect();
            write!(f, " --only {}", if numbers.is_empty() { "none".into() } else { numbers.join(",") })?;
        }
        if let Some(nodes) = self.nodes {
            write!(f, " --nodes {nodes}")?;
        }
        if let Some(bytes) = self.bytes {
            write!(f, " --bytes {bytes}")?;
        }
        if self.honest {
            write!(f, " --honest")?;
        }
        if self.plain {
            write!(f, " --plain")?;
        }
        self.strategy.iter().try_for_each(|strategy| write!(f, " --strategy {strategy}"))
    }
}

/// A run, with all that follows from its seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The network.
    pub topology: Topology,
    /// What is broadcast.
    pub broadcasts: Vec<Planned>,
    /// Who is malicious, and how.
    pub malicious: Option<(u32, Mischief)>,
    /// Clocks of the first machines; all others are true.
    pub clocks: Vec<Clock>,
    /// Slow disks, and what a piece takes on them.
    pub slow_disks: Vec<(u32, Duration)>,
    /// What goes wrong, in order.
    pub faults: Vec<Timed>,
}

impl Plan {
    /// What follows from a seed.
    pub fn of(seed: u64) -> Plan {
        draw::plan(seed)
    }

    /// Machines at the start.
    pub fn nodes(&self) -> u32 {
        self.topology.nodes() as u32
    }

    /// The cluster of a machine that is there at the start.
    pub fn cluster_of(&self, node: u32) -> ClusterIndex {
        let mut before = 0;
        let within = |cluster: &ClusterIndex| {
            before += self.topology.clusters()[cluster.as_usize()].nodes;
            node < before
        };
        self.topology.indices().find(within).expect("plans name machines that they start")
    }

    /// Pieces of all objects.
    pub fn pieces(&self) -> u32 {
        self.broadcasts.iter().map(Planned::pieces).sum()
    }

    /// When the last fault is over.
    pub fn faults_end(&self) -> Time {
        self.faults.iter().map(Timed::until).max().unwrap_or_default()
    }

    /// The same with less.
    pub fn reduced(mut self, reduction: &Reduction) -> Plan {
        if let Some(only) = &reduction.only {
            self.faults.retain(|timed| only.contains(&timed.number));
        }
        if let Some(name) = &reduction.strategy {
            let turn = &STRATEGIES[(self.seed % STRATEGIES.len() as u64) as usize];
            let kind = find(name).unwrap_or(turn);
            self.broadcasts.iter_mut().for_each(|planned| planned.strategy = kind.name);
        }
        if reduction.honest {
            self.malicious = None;
        }
        if reduction.plain {
            self.clocks.clear();
            self.slow_disks.clear();
        }
        if let Some(bytes) = reduction.bytes {
            self.broadcasts.iter_mut().for_each(|planned| planned.bytes = planned.bytes.min(bytes.max(1)));
        }
        match reduction.nodes {
            Some(nodes) => self.first_nodes(nodes),
            None => self,
        }
    }

    fn first_nodes(mut self, nodes: u32) -> Plan {
        let mut topology = Topology::new();
        let mut left = nodes.max(1);
        for cluster in self.topology.clusters() {
            let kept = cluster.nodes.min(left);
            left -= kept;
            if kept > 0 {
                let cluster = Cluster { nodes: kept, ..cluster.clone() };
                topology.add_cluster(cluster).expect("names are as unique as they were");
            }
        }
        let clusters = topology.clusters().len() as u32;
        for (from, to, link) in self.topology.wan_links().filter(|(from, to, _)| from.0.max(to.0) < clusters) {
            topology.link(from, to, link).expect("both clusters are kept");
        }
        self.topology = topology;
        let nodes = self.nodes();
        self.faults.retain(|timed| timed.fault.is_within(nodes, clusters));
        self.broadcasts.retain(|planned| planned.root < nodes);
        self.malicious = self.malicious.filter(|(node, _)| *node < nodes);
        self.slow_disks.retain(|(node, _)| *node < nodes);
        self
    }

    /// The times at which nothing passes between two machines of the start, each until the next ends, in order.
    pub fn silences(&self, a: u32, b: u32) -> Vec<(Time, Time)> {
        let (near, far) = (self.cluster_of(a), self.cluster_of(b));
        let silent = |fault: &Fault| match *fault {
            Fault::Pause(node, _) | Fault::Unplug(node, _) => node == a || node == b,
            Fault::Cut(c, d, _) => (c, d) == (near, far) || (d, c) == (near, far),
            _ => false,
        };
        self.faults.iter().filter(|timed| silent(&timed.fault)).map(|timed| (timed.at, timed.until())).collect()
    }

    /// Nodes that are stopped and not started again.
    pub fn stopped(&self) -> BTreeSet<u32> {
        let mut stopped = BTreeSet::new();
        for timed in &self.faults {
            match timed.fault {
                Fault::Stop(node, _) => drop(stopped.insert(node)),
                Fault::Restart(node) => drop(stopped.remove(&node)),
                _ => {}
            }
        }
        stopped
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.topology.clusters().iter().map(|cluster| cluster.nodes.to_string()).collect();
        writeln!(f, "seed {}: clusters of {} nodes", self.seed, sizes.join(", "))?;
        let of_cards = self.topology.clusters().iter().filter_map(|cluster| cluster.nic_in_bytes_per_s);
        let cards: Vec<String> = of_cards.map(|rate| (rate / 1_000_000).to_string()).collect();
        writeln!(f, "  cards of {} MB/s", cards.join(", "))?;
        for (from, to, link) in self.topology.wan_links().filter(|(from, to, _)| from < to) {
            let rate = link.rate_bytes_per_s.unwrap_or(0) / 1_000;
            writeln!(f, "  {from} and {to}: {rate} kB/s, {} one way", Duration(link.one_way_delay_ns))?;
        }
        for planned in &self.broadcasts {
            let Planned { root, bytes, piece_size, strategy, at, whole } = planned;
            let (pieces, way) = (planned.pieces(), if *whole { ", in one frame" } else { "" });
            let size = piece_size >> 10;
            writeln!(
                f,
                "  from {at:?} on machine {root} broadcasts {bytes} bytes: {pieces} pieces of {size} KiB, {strategy}{way}"
            )?;
        }
        if let Some((node, mischief)) = self.malicious {
            writeln!(f, "  machine {node} is malicious: {mischief:?}")?;
        }
        for (node, clock) in self.clocks.iter().enumerate().filter(|(_, clock)| **clock != Clock::default()) {
            writeln!(f, "  the clock of machine {node} is {} ahead and {} ppm fast", clock.ahead, clock.fast_ppm)?;
        }
        for (node, time) in &self.slow_disks {
            writeln!(f, "  the disk of machine {node} takes {time} for a piece")?;
        }
        for Timed { number, at, fault } in &self.faults {
            writeln!(f, "  {number:>3}. at {at:?} {fault}")?;
        }
        Ok(())
    }
}
