//! One experiment: a network and its changes, who joins when, what is broadcast, who dies; and its outcome, held
//! against the optimum of the network.

use std::collections::BTreeMap;
use std::sync::Arc;

use mobcast_proto::content::announcement::WHOLE_BYTES_MAX;
use mobcast_proto::content::object::{Descriptor, FileMeta, ObjectKind};
use mobcast_proto::content::piece_size::PieceSizeInput;
use mobcast_proto::group::gauge::Measurement;
use mobcast_proto::strategy::choice::{AUTO, Choice, Costs, Extent, candidates};
use mobcast_proto::strategy::overlay::Overlays;
use mobcast_proto::strategy::{Registry, piece_size_of};
use mobcast_proto::{BroadcastId, Duration, PieceIndex, Time};
use mobcast_topology::{ClusterIndex, Scenario};

use crate::network::{Network, NodeIndex, NodeTraffic, Settings as NetworkSettings, Stop, Traffic, WanPackets};
use crate::world::{Due, Settings, World};

/// Virtual time without a stored piece, after the last change of a link, after which a run that is not over counts as stuck, at least: where links are slow, see
/// [`Experiment::patience`].
const STUCK_AFTER: Duration = Duration::from_secs(60);
/// Pieces that each node of a cluster may be fetching over a slow link meanwhile.
const PIECES_AT_A_TIME: u64 = 5;
/// Piece size of objects that travel in one frame, as in the library.
const WHOLE_PIECE_SIZE: u32 = 64 << 10;
/// Virtual time for which a group that gathers is left alone once all are members: links are made, plans carried out.
const REST: Duration = Duration::from_secs(5);
/// Virtual time after which a run begins with those that are there.
const GATHERED_AT_LAST: Duration = Duration::from_secs(600);

/// What happens besides the transfer.
#[derive(Clone, Debug)]
pub enum Step {
    /// A node starts, and joins.
    Join(ClusterIndex),
    /// A node's process ends (by its number in the order of starting).
    Stop(u32, Stop),
    /// A link changes.
    Change(mobcast_topology::Change),
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The network, and its changes.
    pub scenario: Scenario,
    /// Bytes of the object.
    pub object_bytes: u64,
    /// Bytes of a piece; chosen automatically if none.
    pub piece_size: Option<u32>,
    /// Whether nodes are started with the name of their cluster, or have to find it.
    pub named_clusters: bool,
    /// Whether the clock starts when all nodes are members and links are made, instead of with the first node.
    pub gather: bool,
    /// Whether the group is told what the network is like at the start.
    pub gauge: bool,
    /// Whether the group measures the network before the clock starts, instead of being told what it is like; only where it
    /// gathers.
    pub measure: bool,
    /// What else happens, and when.
    pub steps: Vec<(Time, Step)>,
    /// How the network is simulated.
    pub network: NetworkSettings,
    /// How machines behave.
    pub settings: Settings,
    /// The strategy.
    pub strategy: String,
    /// The strategies that nodes know.
    pub registry: Registry,
    /// Virtual time at which the run is given up.
    pub deadline: Time,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// When the clock started. All other times are counted from there.
    pub began: Time,
    /// What was measured before, if it was.
    pub measurement: Option<Measurement>,
    /// What was chosen, if the strategy was left to the choice.
    pub choice: Option<Choice>,
    /// When each node was complete, by its number; none for those that were not.
    pub complete: Vec<Option<Time>>,
    /// Nodes that were stopped.
    pub stopped: Vec<NodeIndex>,
    /// What went from cluster to cluster: by sender, then receiver.
    pub traffic: Vec<Vec<Traffic>>,
    /// What the links between clusters have carried, in the packet model: by sender, then receiver.
    pub wan_packets: Vec<Vec<Option<WanPackets>>>,
    /// What each node sent and received, by its number.
    pub node_traffic: Vec<NodeTraffic>,
    /// Payload bytes that entered each cluster over the WAN, divided by the object's.
    pub wan_copies: Vec<f64>,
    /// Control bytes on WAN links, divided by all bytes on them.
    pub wan_control: f64,
    /// Control bytes on all links, divided by payload bytes.
    pub control: f64,
    /// A number that any difference in what happened changes.
    pub trace_hash: u64,
    /// Happenings.
    pub steps: u64,
    /// Set if the run did not come to its end, with what was seen.
    pub stuck: Option<String>,
    /// Why each node failed, if it did.
    pub failed: Vec<String>,
    /// Virtual time of the end.
    pub end: Time,
}

impl Experiment {
    /// A broadcast from the first cluster's first node to all nodes of a network that does not change. Machines and network
    /// have the same seed.
    pub fn new(scenario: Scenario, object_bytes: u64, seed: u64) -> Experiment {
        Experiment {
            scenario,
            object_bytes,
            piece_size: None,
            named_clusters: true,
            gather: false,
            gauge: true,
            measure: false,
            steps: Vec::new(),
            network: NetworkSettings { seed, report_drained: true, ..NetworkSettings::default() },
            settings: Settings { seed, ..Settings::default() },
            strategy: "mob".into(),
            registry: Registry::default(),
            deadline: Time(3_600_000_000_000),
        }
    }

    /// Runs it.
    pub fn run(&self) -> Outcome {
        self.run_watched(|_, _| {})
    }

    /// Runs it, and shows the world to `watch` after each step.
    pub fn run_watched(&self, mut watch: impl FnMut(&World, BroadcastId)) -> Outcome {
        let mut run = Run::start(self);
        while run.now() < self.deadline && !run.is_over() {
            match run.world.step() {
                None => break,
                Some(Some(step)) => run.take_step(step),
                Some(None) => {}
            }
            watch(&run.world, run.broadcast);
            if run.is_stuck() {
                break;
            }
        }
        run.outcome()
    }

    /// The network with nobody in it yet.
    fn empty_network(&self) -> Network<Due> {
        let mut network = Network::new(&self.scenario.topology, self.network);
        network.expect(&self.scenario.changes);
        network
    }

    /// Virtual time without a stored piece after which a run counts as stuck: what all nodes of the largest cluster fetch at a time over the
    /// slowest link that is not cut, twice, but 60 s at least.
    fn patience(&self, piece_size: u32) -> Duration {
        let topology = &self.scenario.topology;
        let links = topology.wan_links().filter_map(|(_, _, link)| link.rate_bytes_per_s);
        let changes = self.scenario.changes.iter().filter_map(|change| change.rate_bytes_per_s);
        let slowest = links.chain(changes).filter(|&rate| rate > 0).min();
        let largest = topology.clusters().iter().map(|cluster| cluster.nodes).max().unwrap_or(0);
        let bytes = 2 * PIECES_AT_A_TIME * u64::from(largest) * u64::from(piece_size);
        let takes = slowest.map_or(0, |rate| u128::from(bytes) * 1_000_000_000 / u128::from(rate));
        STUCK_AFTER.max(Duration(u64::try_from(takes).unwrap_or(u64::MAX)))
    }

    /// What is broadcast, with its bytes if they travel in one frame.
    fn object(&self, strategy: &str, chosen_size: Option<u32>) -> (Descriptor, Option<Vec<u8>>) {
        let descriptor = self.descriptor(strategy, chosen_size);
        if self.piece_size.or(chosen_size).is_some() || self.object_bytes > WHOLE_BYTES_MAX {
            return (descriptor, None);
        }
        (Descriptor { piece_size: WHOLE_PIECE_SIZE, ..descriptor }, Some(vec![0; self.object_bytes as usize]))
    }

    fn descriptor(&self, strategy: &str, chosen_size: Option<u32>) -> Descriptor {
        let length = Some(self.object_bytes);
        let kind = ObjectKind::Synthetic { seed: 0 };
        let receivers = Some((self.scenario.topology.nodes() - 1) as u32);
        let own = self.registry.find(strategy);
        let input = PieceSizeInput { length, receivers };
        Descriptor {
            kind,
            name: b"object".to_vec(),
            meta: FileMeta::default(),
            length,
            index_length: 0,
            piece_size: self.piece_size.or(chosen_size).unwrap_or_else(|| piece_size_of(own, input)),
            strategy: strategy.to_owned(),
        }
    }
}

struct Run<'a> {
    experiment: &'a Experiment,
    world: World,
    began: Time,
    /// Payload that went from cluster to cluster before.
    probed: BTreeMap<(ClusterIndex, ClusterIndex), u64>,
    choice: Option<Choice>,
    broadcast: BroadcastId,
    steps: Vec<(Time, Step)>,
    steps_left: usize,
    stopped: Vec<NodeIndex>,
    /// Completions at the last look: nothing is over before there are more.
    checked_at: u64,
    over: bool,
    /// For how long nobody may store a piece.
    patience: Duration,
    /// When the last link changes: a link that is cut may wait for that.
    changed_at_last: Time,
}

impl<'a> Run<'a> {
    fn start(experiment: &'a Experiment) -> Run<'a> {
        let topology = &experiment.scenario.topology;
        let mut world = World::new(experiment.empty_network(), experiment.settings);
        let network = experiment.gauge.then(|| Arc::new(experiment.scenario.gauge()));
        let is_auto = experiment.strategy == AUTO;
        let knows = experiment.gauge || experiment.measure;
        let founded: Vec<&str> = if is_auto { candidates(knows).collect() } else { vec![&experiment.strategy] };
        let overlays = match experiment.measure {
            true => Overlays::measuring(experiment.registry, &founded),
            false => Overlays::within(experiment.registry, &founded, network),
        };
        world.found_for(experiment.registry, overlays.expect("whoever asks for a strategy knows that there is one"));
        let name = |c: ClusterIndex| experiment.named_clusters.then(|| topology.clusters()[c.as_usize()].name.clone());
        for cluster in topology.indices() {
            for _ in 0..topology.clusters()[cluster.as_usize()].nodes {
                world.start_machine(cluster, name(cluster));
            }
        }
        if experiment.gather {
            gather(&mut world);
        }
        if experiment.measure {
            measure(&mut world);
        }
        let all = || topology.indices().flat_map(|from| topology.indices().map(move |to| (from, to)));
        let probed = all().map(|pair| (pair, world.network.pair_traffic(pair.0, pair.1).payload_bytes)).collect();
        let began = world.network.now();
        let changes = experiment.scenario.changes.iter().map(|c| (Time(c.at_ns), Step::Change(*c)));
        let steps: Vec<(Time, Step)> = experiment.steps.iter().cloned().chain(changes).collect();
        for (i, (at, _)) in steps.iter().enumerate() {
            world.network.schedule(began + at.since(Time::ZERO), Due::Step(i));
        }
        let object = Extent { bytes: Some(experiment.object_bytes), piece_size: experiment.piece_size };
        // Nothing costs time there but storing a piece.
        let costs = Costs { hop: experiment.settings.store_time, ..Costs::NONE };
        let choice = is_auto.then(|| world.machines[0].node.choose(object, &costs));
        let strategy = choice.as_ref().map_or(&*experiment.strategy, |choice| choice.strategy);
        let chosen_size = choice.as_ref().and_then(|choice| choice.piece_size);
        let (descriptor, whole) = experiment.object(strategy, chosen_size);
        let patience = experiment.patience(descriptor.piece_size);
        let broadcast = world.broadcast(NodeIndex(0), descriptor, whole);
        let steps_left = steps.iter().filter(|(_, step)| matches!(step, Step::Join(_))).count();
        let changed_at_last = last_change(&steps, began);
        let (checked_at, over) = Default::default();
        Run {
            experiment,
            world,
            began,
            probed,
            choice,
            broadcast,
            steps,
            steps_left,
            stopped: Vec::new(),
            checked_at,
            over,
            patience,
            changed_at_last,
        }
    }

    /// The time on the run's clock.
    fn now(&self) -> Time {
        self.on_clock(self.world.network.now())
    }

    fn on_clock(&self, at: Time) -> Time {
        Time::ZERO + at.since(self.began)
    }

    fn take_step(&mut self, index: usize) {
        match self.steps[index].1.clone() {
            Step::Join(cluster) => {
                self.steps_left -= 1;
                let name = self.experiment.scenario.topology.clusters()[cluster.as_usize()].name.clone();
                self.world.start_machine(cluster, self.experiment.named_clusters.then_some(name));
            }
            Step::Stop(node, stop) => {
                let node = NodeIndex(node);
                if self.world.network.is_running(node) {
                    self.world.stop_machine(node, stop);
                    self.stopped.push(node);
                }
            }
            Step::Change(change) => {
                self.world
                    .network
                    .set_rate(change.link, change.rate_bytes_per_s)
                    .expect("scenarios name existing links");
            }
        }
    }

    fn is_over(&mut self) -> bool {
        let completions = self.world.completions();
        if !self.over && completions > self.checked_at {
            self.checked_at = completions;
            let running = |i: &usize| self.world.network.is_running(NodeIndex(*i as u32));
            let machines = &self.world.machines;
            self.over = self.steps_left == 0
                && (0..machines.len()).filter(running).all(|i| machines[i].seen.complete.contains_key(&self.broadcast));
        }
        self.over
    }

    fn is_stuck(&self) -> bool {
        self.silence() > self.patience
    }

    /// For how long nobody has stored a piece, and no link was to change.
    fn silence(&self) -> Duration {
        self.world.network.now().since(self.world.last_progress().max(self.changed_at_last))
    }

    /// How far a node is, and what it has in mind for the first piece that it lacks.
    fn explain(&self, node: usize) -> String {
        let node = &self.world.machines[node].node;
        let Some(state) = node.broadcast_state(self.broadcast) else { return "has not heard of it".into() };
        let known = state.swarm().known();
        let missing = (0..known).map(PieceIndex).find(|&piece| !state.swarm().have().contains(piece));
        let why = missing.map(|piece| format!("{piece}: {}", state.explain(piece))).unwrap_or_default();
        format!("{:?}; {why}", node.progress(self.broadcast))
    }

    fn outcome(mut self) -> Outcome {
        let (end, silent) = (self.now(), self.is_stuck());
        let topology = &self.experiment.scenario.topology;
        let network = &mut self.world.network;
        let row = |from| topology.indices().map(|to| network.wan_packets(from, to)).collect();
        let wan_packets = topology.indices().map(row).collect();
        let world = &self.world;
        let complete: Vec<Option<Time>> =
            world.machines.iter().map(|m| Some(self.on_clock(*m.seen.complete.get(&self.broadcast)?))).collect();
        let failed = world.machines.iter().filter_map(|m| m.seen.failed.get(&self.broadcast).cloned()).collect();
        let (mut wan, mut lan) = ([0u64; 2], [0u64; 2]);
        let mut wan_copies = Vec::new();
        for to in topology.indices() {
            let mut imported = 0;
            for from in topology.indices() {
                let traffic = world.network.pair_traffic(from, to);
                let sum = if from == to { &mut lan } else { &mut wan };
                sum[0] += traffic.payload_bytes;
                sum[1] += traffic.control_bytes;
                let before = self.probed.get(&(from, to)).copied().unwrap_or(0);
                imported += if from == to { 0 } else { traffic.payload_bytes - before };
            }
            wan_copies.push(imported as f64 / self.experiment.object_bytes.max(1) as f64);
        }
        let stuck = (!self.over).then(|| {
            let missing = (0..complete.len())
                .filter(|&i| complete[i].is_none() && world.network.is_running(NodeIndex(i as u32)))
                .map(|i| format!("node {i}: {}", self.explain(i)));
            let idle = if silent { ", where nobody had stored a piece for too long" } else { "" };
            format!("at {:?}{idle}: {}", end, missing.take(5).collect::<Vec<_>>().join("; "))
        });
        let row = |from| topology.indices().map(|to| world.network.pair_traffic(from, to)).collect();
        Outcome {
            began: self.began,
            measurement: world.machines[0].seen.measured.clone(),
            choice: self.choice,
            traffic: topology.indices().map(row).collect(),
            wan_packets,
            node_traffic: (0..complete.len()).map(|i| world.network.node_traffic(NodeIndex(i as u32))).collect(),
            complete,
            stopped: self.stopped,
            wan_copies,
            wan_control: wan[1] as f64 / (wan[0] + wan[1]).max(1) as f64,
            control: (wan[1] + lan[1]) as f64 / (wan[0] + lan[0]).max(1) as f64,
            trace_hash: world.trace_hash(),
            steps: world.steps(),
            stuck,
            failed,
            end,
        }
    }
}

/// When the last link changes, or the beginning.
fn last_change(steps: &[(Time, Step)], began: Time) -> Time {
    let changes = steps.iter().filter(|(_, step)| matches!(step, Step::Change(_)));
    changes.map(|(at, _)| began + at.since(Time::ZERO)).max().unwrap_or(began)
}

/// Lets all machines become members, and rest.
fn gather(world: &mut World) {
    let mut whole_since = None;
    loop {
        let now = world.network.now();
        if world.machines.iter().all(|machine| machine.node.assignment().is_some()) {
            let since = *whole_since.get_or_insert(now);
            if now.since(since) > REST {
                return;
            }
        }
        if now > Time::ZERO + GATHERED_AT_LAST || world.step().is_none() {
            return;
        }
    }
}

/// Has the network measured, and lets all machines take their places.
fn measure(world: &mut World) {
    world.measure(NodeIndex(0));
    let begun = world.network.now();
    let mut measured_at = None;
    loop {
        let now = world.network.now();
        if world.machines[0].seen.measured.is_some() {
            let at = *measured_at.get_or_insert(now);
            if now.since(at) > REST {
                return;
            }
        }
        if now.since(begun) > GATHERED_AT_LAST || world.step().is_none() {
            return;
        }
    }
}

impl Outcome {
    /// When the last node was complete.
    pub fn last_complete(&self) -> Option<Time> {
        self.complete.iter().flatten().max().copied()
    }

    /// Throughput of the whole broadcast, bytes per second: the object by the time of the last node.
    pub fn throughput_bytes_per_s(&self, object_bytes: u64) -> f64 {
        self.last_complete().map_or(0.0, |at| object_bytes as f64 / at.as_secs_f64())
    }
}
