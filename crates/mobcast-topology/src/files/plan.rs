//! The runs of an experiment, one by one: layouts applied, times and chance resolved, the optimum beside them.

use super::experiment::{At, Experiment, Extent, ScenarioPlan};
use super::rival::RivalFile;
use super::topology::QUEUE_BYTES_MIN;
use super::write::topology_text;
use crate::network::{ClusterIndex, LinkRef, QueueLimit, Topology, WanLink};
use crate::optimum::changing::{Bracket, bracket};
use crate::optimum::optimal_rate;
use crate::record::{Case, Settings};
use crate::scenario::{Change, Scenario};

const ROOT: ClusterIndex = ClusterIndex(0);

/// One run.
#[derive(Clone, PartialEq, Debug)]
pub struct Planned {
    /// What is run. The instrument is left empty.
    pub case: Case,
    /// Number of the run among those of its case, from 0.
    pub repetition: u32,
    /// From which everything that chance decides follows; the same for all programs.
    pub seed: u64,
    /// The network, with its layout, and all that happens to it until the time-out. What changes at time 0 is part of
    /// the starting topology.
    pub scenario: Scenario,
    /// What is run.
    pub program: Program,
    /// The payload optimum.
    pub optimum: Bracket,
    /// Seconds at the lower bound of the optimum; infinite when the object cannot arrive.
    pub ideal_seconds: f64,
    /// Seconds after which the run has failed.
    pub timeout_s: f64,
    /// Whether nodes are told their cluster.
    pub named_clusters: bool,
    /// Bytes of a piece; none for the automatic choice.
    pub piece_size: Option<u32>,
    /// Whether payload goes without encryption.
    pub plain: bool,
    /// Whether all nodes are members of the group before the clock starts.
    pub gather: bool,
    /// Broadcasts of the run, one after another; none for one.
    pub rounds: Option<u32>,
    /// Whether members take each other's word.
    pub trust_members: bool,
    /// Whether mobcast is told what the network is like at the start.
    pub gauge: bool,
}

/// What is run.
#[derive(Clone, PartialEq, Debug)]
pub enum Program {
    /// mobcast itself.
    Mobcast {
        /// Its strategy, by name.
        strategy: String,
    },
    /// Another program.
    Rival(RivalFile),
}

impl Planned {
    /// What the record of the run says of it beside its case.
    pub fn settings(&self) -> Settings {
        Settings {
            network: topology_text("as it is at the start", &self.scenario.at_start()),
            changes: changes_in_short(&self.scenario.changes),
            piece_size: self.piece_size,
            plain: self.plain,
            gather: self.gather,
            rounds: self.rounds,
            trust_members: self.trust_members,
            gauge: self.is_told(),
            timeout_s: self.timeout_s,
        }
    }

    /// Whether mobcast is told what the network is like at the start. Clusters that have no name for their nodes cannot be told of,
    /// and a group that makes several broadcasts is founded without.
    pub fn is_told(&self) -> bool {
        let ours = matches!(self.program, Program::Mobcast { .. });
        ours && self.gauge && self.named_clusters && self.rounds.is_none()
    }
}

impl Experiment {
    /// Makes as many runs of each case, of mobcast and of rivals, also in the short form.
    pub fn repeat(&mut self, repetitions: u32) {
        for extent in [Some(&mut self.extent), self.quick.as_mut()].into_iter().flatten() {
            (extent.repetitions, extent.rival_repetitions) = (repetitions, repetitions);
        }
    }

    /// All runs, in their order: each case once before any case again, so that a noisy minute hits all alike. With
    /// `quick`, those that `[quick]` asks for.
    pub fn runs(&self, quick: bool) -> Vec<Planned> {
        let extent = self.quick.as_ref().filter(|_| quick).unwrap_or(&self.extent);
        let mut sizes = extent.sizes_bytes.clone();
        sizes.extend(extent.rival_sizes_bytes.iter().filter(|size| !extent.sizes_bytes.contains(size)));
        let mut runs = Vec::new();
        for repetition in 0..extent.repetitions.max(extent.rival_repetitions) {
            for layout in &extent.layouts {
                for size in &sizes {
                    for scenario in &self.scenarios {
                        runs.extend(self.runs_of(extent, repetition, layout, *size, scenario));
                    }
                }
            }
        }
        runs
    }

    /// The runs of all programs on one network.
    fn runs_of(
        &self,
        extent: &Extent,
        repetition: u32,
        layout: &[u32],
        object_bytes: u64,
        scenario: &ScenarioPlan,
    ) -> Vec<Planned> {
        let programs = extent.programs(repetition, object_bytes, &scenario.name);
        if programs.is_empty() {
            return Vec::new();
        }
        let seed = seed_of(self.seed, &scenario.name, repetition);
        let network = self.network(layout, object_bytes, scenario, seed, extent.timeout_s);
        let optimum = bracket(&network, ROOT, object_bytes);
        let run = |program: Program| Planned {
            case: self.case(layout, object_bytes, scenario, &program),
            repetition,
            seed,
            scenario: network.clone(),
            program,
            ideal_seconds: optimum.ideal_seconds(object_bytes),
            optimum: optimum.clone(),
            timeout_s: extent.timeout_s,
            named_clusters: self.named_clusters,
            piece_size: self.piece_size,
            plain: self.plain,
            gather: self.gather,
            rounds: self.rounds,
            trust_members: self.trust_members,
            gauge: self.gauge,
        };
        programs.into_iter().map(run).collect()
    }

    fn case(&self, layout: &[u32], object_bytes: u64, scenario: &ScenarioPlan, program: &Program) -> Case {
        let (program, strategy) = match program {
            Program::Mobcast { strategy } => ("mobcast", strategy.as_str()),
            Program::Rival(rival) => (rival.name.as_str(), ""),
        };
        Case {
            experiment: self.name.clone(),
            instrument: String::new(),
            topology: self.topology_name.clone(),
            nodes_per_cluster: layout.to_vec(),
            scenario: scenario.name.clone(),
            program: program.to_owned(),
            strategy: strategy.to_owned(),
            object_bytes,
            named_clusters: self.named_clusters,
        }
    }

    /// The topology with other numbers of nodes.
    pub(super) fn laid_out(&self, layout: &[u32]) -> Topology {
        let mut topology = self.topology.clone();
        for (cluster, nodes) in topology.indices().zip(layout) {
            topology.cluster_mut(cluster).expect("the index is the topology's own").nodes = *nodes;
        }
        topology
    }

    fn network(&self, layout: &[u32], object_bytes: u64, plan: &ScenarioPlan, seed: u64, timeout_s: f64) -> Scenario {
        let mut topology = self.laid_out(layout);
        let rate = optimal_rate(&topology, ROOT).map(|rate| topology.payload_factor.of(rate));
        let ideal_s = rate.map_or(0.0, |rate| object_bytes as f64 / rate as f64);
        let at_ns = |at: At| (at.seconds(ideal_s) * 1e9).round() as u64;
        let mut changes: Vec<Change> = Vec::new();
        for planned in &plan.changes {
            let (at_ns, rate_bytes_per_s) = (at_ns(planned.at), Some(planned.rate_bytes_per_s));
            changes.extend(planned.links.iter().map(|&link| Change { at_ns, link, rate_bytes_per_s }));
        }
        changes.sort_by_key(|change| change.at_ns);
        apply_first(&mut topology, &mut changes);
        if let Some(random) = &plan.random {
            let mut dice = Dice(seed);
            let every_ns = at_ns(random.every).max(1);
            let links: Vec<_> = topology.wan_links().collect();
            let mut drawn: Vec<Change> = Vec::new();
            for at_ns in (0..(timeout_s * 1e9) as u64).step_by(usize::try_from(every_ns).expect("64 bits")) {
                for (from, to, link) in &links {
                    let factor = random.factor_min + dice.fraction() * (random.factor_max - random.factor_min);
                    let rate_bytes_per_s = link.rate_bytes_per_s.map(|rate| (rate as f64 * factor).round() as u64);
                    drawn.push(Change { at_ns, link: LinkRef::Wan { from: *from, to: *to }, rate_bytes_per_s });
                }
            }
            drawn.append(&mut changes);
            changes = drawn;
            changes.sort_by_key(|change| change.at_ns);
            apply_first(&mut topology, &mut changes);
        }
        Scenario { topology, changes }
    }
}

impl Extent {
    /// What is run on one network in one round.
    fn programs(&self, repetition: u32, object_bytes: u64, scenario: &str) -> Vec<Program> {
        let mut programs = Vec::new();
        if repetition < self.repetitions && self.sizes_bytes.contains(&object_bytes) {
            programs.extend(self.strategies.iter().map(|strategy| Program::Mobcast { strategy: strategy.clone() }));
        }
        let rivals = repetition < self.rival_repetitions
            && self.rival_sizes_bytes.contains(&object_bytes)
            && self.rival_scenarios.iter().any(|name| name == scenario);
        if rivals {
            programs.extend(self.rivals.iter().cloned().map(Program::Rival));
        }
        programs
    }
}

/// Makes the changes at time 0 part of the topology, with queues as its file could say them. A link that is cut keeps that of the rate in its
/// table, because nothing follows from a rate of zero; no queue is shorter than a packet.
fn apply_first(topology: &mut Topology, changes: &mut Vec<Change>) {
    let later = changes.partition_point(|change| change.at_ns == 0);
    let before: Vec<(ClusterIndex, ClusterIndex, WanLink)> = topology.wan_links().collect();
    for change in changes.drain(..later) {
        topology.set_rate(change.link, change.rate_bytes_per_s).expect("the file was checked against the topology");
    }
    for (from, to, old) in before {
        let link = topology.wan(from, to).expect("no change takes a link away");
        let queue = match link.rate_bytes_per_s {
            Some(0) => QueueLimit::Bytes(old.queue_bytes()),
            _ if link.queue_bytes() < QUEUE_BYTES_MIN => QueueLimit::Bytes(QUEUE_BYTES_MIN),
            _ => link.queue,
        };
        topology.link(from, to, WanLink { queue, ..link }).expect("it is there already");
    }
}

fn seed_of(experiment: u64, scenario: &str, repetition: u32) -> u64 {
    let seed = Dice(experiment ^ hash(scenario)).next();
    Dice(seed.wrapping_add(u64::from(repetition))).next()
}

/// FNV-1a; any hash that is the same everywhere would do.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn changes_in_short(changes: &[Change]) -> String {
    match changes.len() {
        0 => "none".to_owned(),
        count => format!("{count}: {:016x}", hash(&format!("{changes:?}"))),
    }
}

/// The generator splitmix64 (Steele, Lea, Flood 2014).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform from 0 up to, not including, 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
