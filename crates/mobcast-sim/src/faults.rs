//! Groups in which everything goes wrong that may: nodes join, die (the coordinator too) and stand still, links change and
//! break, while something is broadcast. All of it follows from a seed. What must hold in spite of it is checked during the
//! run by the world, and at its end here.

use std::collections::BTreeSet;

use mobcast_proto::content::object::{Descriptor, FileMeta, ObjectKind};
use mobcast_proto::limits::SUCCESSORS;
use mobcast_proto::random::Random;
use mobcast_proto::{BroadcastId, Duration, PieceIndex, Time};
use mobcast_topology::{Cluster, ClusterIndex, LinkRef, Topology, WanLink};

use crate::network::{Network, NodeIndex, Settings as NetworkSettings, Stop};
use crate::world::{Due, Settings, World};

const MB: u64 = 1_000_000;
/// Nodes check their invariants after so many steps.
const CHECK_EVERY: u64 = 16;
/// After the last fault a run has this long, and [`SLACK_FACTOR`] times what the transfer takes on the slowest link:
/// two silent deaths in a row are noticed after 10 seconds each, and a successor waits for others as long.
const SLACK: Duration = Duration::from_secs(100);
const SLACK_FACTOR: u64 = 6;
/// By then everyone who was there from the beginning has its place, and successors are named.
const STANDS_AFTER: Time = Time(2_000_000_000);
/// No machine stands still for as long as a silent peer is given up after.
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// Something that goes wrong, or changes.
#[derive(Clone, Debug)]
enum Fault {
    Join(ClusterIndex),
    Stop(u32, Stop),
    Pause(u32, Duration),
    Rate(LinkRef, u64),
    Cut(u32, u32),
}

/// What came out of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Machines that were started.
    pub machines: u32,
    /// Machines that were stopped.
    pub stopped: u32,
    /// Whether the coordinator was among them.
    pub coordinator_died: bool,
    /// Whether the root was among them.
    pub root_died: bool,
    /// Machines that were complete at the end.
    pub complete: u32,
    /// Machines that gave up, because the root had died too early.
    pub gave_up: u32,
    /// Virtual time of the end.
    pub end: Time,
    /// A number that any difference in what happened changes.
    pub trace_hash: u64,
}

/// A run, with all that follows from its seed.
struct Plan {
    topology: Topology,
    root: u32,
    bytes: u64,
    piece_size: u32,
    /// What the transfer takes on the slowest link.
    nominal: Duration,
    malicious: Option<u32>,
    faults: Vec<(Time, Fault)>,
}

impl Plan {
    fn of(seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let (topology, slowest) = random_topology(&mut random);
        let nodes = topology.nodes() as u32;
        let bytes = (1 + random.below(30_000_000)) as u64;
        let nominal = Duration::for_bytes(bytes, slowest);
        let root = if random.below(10) < 6 { 0 } else { random.below(nodes as usize) as u32 };
        let forging = nodes > 3 && random.below(8) == 0;
        let malicious = forging.then(|| random.below(nodes as usize) as u32);
        // What a malicious coordinator can do is another question (docs/security.md): it is none of the first successors.
        let malicious = malicious.filter(|&node| node != root && node > SUCCESSORS as u32);
        let piece_size = 16 << 10 << random.below(4);
        let horizon_ms = (nominal.as_micros() / 1_000 * 3 / 2 + 3_000) as usize;
        let mut plan = Plan { topology, root, bytes, piece_size, nominal, malicious, faults: Vec::new() };
        plan.choose_faults(&mut random, nodes, horizon_ms);
        plan
    }

    fn choose_faults(&mut self, random: &mut Random, nodes: u32, horizon_ms: usize) {
        let clusters = self.topology.clusters().len();
        let mut dead: BTreeSet<u32> = BTreeSet::new();
        let when = |random: &mut Random| Time(random.below(horizon_ms) as u64 * 1_000_000);
        for _ in 0..random.below(4) {
            let cluster = ClusterIndex(random.below(clusters) as u32);
            self.faults.push((when(random), Fault::Join(cluster)));
        }
        for _ in 0..random.below(4) {
            // The coordinator more often than others.
            let node = if random.below(3) == 0 { 0 } else { random.below(nodes as usize) as u32 };
            if dead.len() as u32 + 2 < nodes && dead.insert(node) {
                let stop = if random.below(2) == 0 { Stop::Silent } else { Stop::Reset };
                // A root is soon rid of what it has.
                let at = if node == self.root { Time(when(random).0 / 4) } else { when(random) };
                self.faults.push((at, Fault::Stop(node, stop)));
            }
        }
        for _ in 0..random.below(4) {
            let time = Duration::from_millis(200 + random.below(PAUSE_MAX.as_micros() as usize / 1_000 - 200) as u64);
            self.faults.push((when(random), Fault::Pause(random.below(nodes as usize) as u32, time)));
        }
        let links: Vec<LinkRef> = self.topology.wan_links().map(|(from, to, _)| LinkRef::Wan { from, to }).collect();
        for _ in 0..random.below(7) {
            if let Some(&link) = links.get(random.below(links.len().max(1))) {
                let rate = (2 + random.below(40)) as u64 * MB / 10;
                self.faults.push((when(random), Fault::Rate(link, rate)));
            }
        }
        for _ in 0..random.below(3) {
            let (a, b) = (random.below(nodes as usize) as u32, random.below(nodes as usize) as u32);
            self.faults.push((when(random), Fault::Cut(a, b)));
        }
    }

    fn descriptor(&self) -> Descriptor {
        Descriptor {
            kind: ObjectKind::Synthetic { seed: 0 },
            name: b"object".to_vec(),
            meta: FileMeta::default(),
            length: Some(self.bytes),
            index_length: 0,
            piece_size: self.piece_size,
            strategy: "mob".into(),
        }
    }
}

/// One to four clusters of one to five nodes, three nodes at least; and the rate of the slowest link.
fn random_topology(random: &mut Random) -> (Topology, u64) {
    let mut topology = Topology::new();
    let clusters = 1 + random.below(4) as u32;
    let mut slowest = u64::MAX;
    for i in 0..clusters {
        let nodes = (1 + random.below(5)) as u32 + if clusters == 1 { 2 } else { 0 } + u32::from(i == 0);
        let nic = (5 + random.below(100)) as u64 * MB;
        slowest = slowest.min(nic);
        topology.add_cluster(Cluster::new(format!("c{i}"), nodes).with_nic(nic)).expect("names are unique");
    }
    for a in 0..clusters {
        for b in a + 1..clusters {
            let rate = (1 + random.below(20)) as u64 * MB / 2;
            let one_way_delay_ns = (1 + random.below(60)) as u64 * 1_000_000;
            slowest = slowest.min(rate);
            let link = WanLink::new(rate, one_way_delay_ns);
            topology.link_both(ClusterIndex(a), ClusterIndex(b), link).expect("clusters exist");
        }
    }
    (topology, slowest)
}

struct Run {
    plan: Plan,
    world: World,
    broadcast: Option<BroadcastId>,
    stopped: BTreeSet<u32>,
    faults_left: usize,
    last_fault: Time,
}

/// Runs what follows from a seed.
///
/// # Errors
/// What was violated at the end: somebody hangs, or gave up although everything was there.
///
/// # Panics
/// If something was violated on the way.
pub fn run(seed: u64) -> Result<Summary, String> {
    let mut run = Run::start(Plan::of(seed), seed);
    let deadline = run.last_fault + SLACK + run.plan.nominal.times(SLACK_FACTOR);
    while !run.is_over() {
        if run.world.network.now() > deadline {
            return Err(format!("somebody hangs: {}", run.describe()));
        }
        match run.world.step() {
            Some(Some(step)) => run.take_step(step),
            Some(None) => run.start_broadcast(),
            None => break,
        }
    }
    run.verdict()
}

impl Run {
    fn start(plan: Plan, seed: u64) -> Run {
        let settings = NetworkSettings { report_drained: true, ..NetworkSettings::default() };
        let network: Network<Due> = Network::new(&plan.topology, settings);
        let mut world = World::new(network, Settings { seed, check_every: CHECK_EVERY, ..Settings::default() });
        for cluster in plan.topology.indices() {
            let Cluster { name, nodes, .. } = &plan.topology.clusters()[cluster.as_usize()];
            for _ in 0..*nodes {
                world.start_machine(cluster, Some(name.clone()));
            }
        }
        if let Some(node) = plan.malicious {
            world.machines[node as usize].malicious = true;
        }
        let mut last_fault = Time::ZERO;
        for (i, (at, fault)) in plan.faults.iter().enumerate() {
            world.network.schedule(*at, Due::Step(i));
            let until = if let Fault::Pause(_, time) = fault { *at + *time } else { *at };
            last_fault = last_fault.max(until);
        }
        let faults_left = plan.faults.len();
        let mut run = Run { plan, world, broadcast: None, stopped: BTreeSet::new(), faults_left, last_fault };
        run.start_broadcast();
        run
    }

    /// Begins as soon as the root is a member.
    fn start_broadcast(&mut self) {
        let root = NodeIndex(self.plan.root);
        let member = self.world.machines[root.0 as usize].node.assignment().is_some();
        if self.broadcast.is_none() && member && self.world.network.is_running(root) {
            self.broadcast = Some(self.world.broadcast(root, self.plan.descriptor(), None));
        }
    }

    fn take_step(&mut self, step: usize) {
        self.faults_left -= 1;
        match self.plan.faults[step].1.clone() {
            Fault::Join(cluster) => {
                let name = self.plan.topology.clusters()[cluster.as_usize()].name.clone();
                self.world.start_machine(cluster, Some(name));
            }
            Fault::Stop(node, stop) => {
                self.world.stop_machine(NodeIndex(node), stop);
                self.stopped.insert(node);
            }
            Fault::Pause(node, time) => self.world.pause_machine(NodeIndex(node), time),
            Fault::Rate(link, rate) => {
                self.world.network.set_rate(link, Some(rate)).expect("plans name existing links");
            }
            Fault::Cut(a, b) => self.world.cut_links(NodeIndex(a), NodeIndex(b)),
        }
    }

    /// Machines that live, are members, and have heard of the broadcast: those of which something is expected.
    fn concerned(&self, broadcast: BroadcastId) -> impl Iterator<Item = usize> + '_ {
        (0..self.world.machines.len()).filter(move |&i| {
            let machine = &self.world.machines[i];
            let member = machine.node.assignment().is_some() && machine.seen.announced.contains(&broadcast);
            member && !machine.malicious && self.world.network.is_running(NodeIndex(i as u32))
        })
    }

    fn is_over(&self) -> bool {
        if self.faults_left > 0 || self.world.network.now() < self.last_fault {
            return false;
        }
        let Some(id) = self.broadcast else {
            // The root died before it was a member; or it is on its way to become one.
            return self.stopped.contains(&self.plan.root) || self.stopped.contains(&0);
        };
        let settled = |i: usize| {
            let seen = &self.world.machines[i].seen;
            seen.failed.contains_key(&id) || (seen.complete.contains_key(&id) && seen.released.contains_key(&id))
        };
        self.concerned(id).all(settled) && self.is_released_or_empty(id)
    }

    /// A root that has no receivers left is never told to go.
    fn is_released_or_empty(&self, id: BroadcastId) -> bool {
        self.concerned(id).any(|i| i as u32 != self.plan.root) || self.stopped.contains(&self.plan.root) || {
            self.world.network.now() > self.last_fault + SLACK
        }
    }

    fn verdict(self) -> Result<Summary, String> {
        let root_died = self.stopped.contains(&self.plan.root);
        let (mut complete, mut gave_up) = (0, 0);
        if let Some(id) = self.broadcast {
            let seen = |i: usize| &self.world.machines[i].seen;
            complete = self.concerned(id).filter(|&i| seen(i).complete.contains_key(&id)).count() as u32;
            gave_up = self.concerned(id).filter(|&i| seen(i).failed.contains_key(&id)).count() as u32;
            // With the coordinator and both its successors dead, nobody gives those a new peer who have lost theirs.
            let led = self.concerned(id).any(|i| !self.world.machines[i].node.members().is_empty());
            if gave_up > 0 && led && !root_died {
                return Err(format!("somebody gave up although the root lives: {}", self.describe()));
            }
            let pieces = self.plan.bytes.div_ceil(u64::from(self.plan.piece_size)) as u32;
            let held = |piece: u32| self.concerned(id).any(|i| self.world.machines[i].holds(id, PieceIndex(piece)));
            if gave_up > 0 && led && (complete > 0 || (0..pieces).all(held)) {
                return Err(format!("somebody gave up although everything was there: {}", self.describe()));
            }
            if let Some(node) = self.uncollected(id) {
                return Err(format!("nobody has collected the result of node {node}: {}", self.describe()));
            }
        }
        Ok(Summary {
            machines: self.world.machines.len() as u32,
            stopped: self.stopped.len() as u32,
            coordinator_died: self.stopped.contains(&0),
            root_died,
            complete,
            gave_up,
            end: self.world.network.now(),
            trace_hash: self.world.trace_hash(),
        })
    }

    /// A node whose result the successor of a coordinator does not know; nothing else having gone wrong than that the
    /// coordinator died when the group stood.
    fn uncollected(&self, id: BroadcastId) -> Option<usize> {
        let stood = |(at, fault): &(Time, Fault)| match fault {
            Fault::Stop(0, _) => *at > STANDS_AFTER,
            Fault::Rate(..) => true,
            Fault::Join(_) | Fault::Stop(..) | Fault::Pause(..) | Fault::Cut(..) => false,
        };
        let died = self.stopped.contains(&0) && self.plan.faults.iter().all(stood);
        let collected = |i: usize| {
            let node = self.world.machines[i].node.id();
            let known = |key| {
                self.world
                    .machines
                    .iter()
                    .any(|machine| machine.seen.coordinator_since.is_some() && machine.seen.results.contains_key(&key))
            };
            node.is_some_and(|node| node == id.root || known((id, node)))
        };
        // What was over before is not reported again.
        let over = |i: usize| self.world.machines[i].seen.released.get(&id).is_some_and(|at| *at < self.last_fault);
        self.concerned(id).filter(|&i| died && !over(i)).find(|&i| !collected(i))
    }

    fn describe(&self) -> String {
        let now = self.world.network.now();
        let mut text = format!("at {now:?}, root {}, faults {:?}", self.plan.root, self.plan.faults);
        let Some(id) = self.broadcast else { return text };
        for (i, machine) in self.world.machines.iter().enumerate() {
            if !self.world.network.is_running(NodeIndex(i as u32)) {
                continue;
            }
            let seen = &machine.seen;
            let assignment = machine.node.assignment();
            let parent = assignment.and_then(|a| a.parent.as_ref().map(|parent| parent.node));
            let progress = machine.node.progress(id).map(|progress| (progress.pieces, progress.known));
            let (complete, released) = (seen.complete.get(&id), seen.released.get(&id));
            text += &format!(
                "\n  node {i} ({:?}, parent {parent:?}, {} links): {progress:?}, complete {complete:?}, released \
                 {released:?}, failed {:?}, coordinator since {:?}, members {}, results {:?}, dropped {:?}",
                machine.node.id(),
                machine.node.link_count(),
                seen.failed.get(&id),
                seen.coordinator_since,
                machine.node.members().len(),
                seen.results.keys().map(|(_, node)| node.0).collect::<Vec<_>>(),
                seen.dropped
            );
            let missing = machine.node.broadcast_state(id).and_then(|state| {
                let known = state.swarm().known();
                let piece = (0..known).map(PieceIndex).find(|&piece| !state.swarm().have().contains(piece))?;
                Some(format!(", {piece}: {}", state.explain(piece)))
            });
            text += &missing.unwrap_or_default();
        }
        text
    }
}
