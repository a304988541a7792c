//! One planned run of an experiment's file in the simulator, and its line of results. Promises that a plan and
//! its seed give the same line, and that the line means the same as the lab's: rates of payload against the payload
//! optimum, times from the start of the sender. Reading files and writing lines is left to the command.
//!
//! **Headers.** The links of the fluid model carry payload and control frames, but no packets. So that a run can be held
//! against one in the lab, where a link of 1,500 bytes carries 1,448 of payload, every capacity of the network and of
//! its changes is multiplied by the topology's payload factor before the run; the bytes on links that the line reports
//! are divided by it again, and are what the link would have carried as IP bytes. Delays stay as they are. The packet model
//! carries packets with their headers, and takes the capacities as they stand.
//!
//! **Absent here**: losses and queues in the fluid model (their columns stay zero), time for cryptography, memory and
//! processor of nodes, and the date, as time is virtual.

mod imports;
pub mod memory;
pub mod ns_trace;

use std::collections::BTreeMap;

use mobcast_proto::limits::PIECE_SIZE_MAX;
use mobcast_proto::strategy::choice::AUTO;
use mobcast_proto::{Time, strategy};
use mobcast_topology::files::{Planned, Program};
use mobcast_topology::record::{Case, NodeRecord, RunOutcome, RunRecord, Settings, WanTraffic};
use mobcast_topology::{ClusterIndex, PayloadFactor, Scenario, Topology, WanLink, WanNic};
use thiserror::Error;

use crate::experiment::{Experiment, Outcome};
use crate::network::{Model, Traffic, WanPackets};
use crate::packet::tcp::{Control, TcpSettings};
use crate::world::World;
use imports::Imports;

/// Nodes check their invariants after so many happenings: a run of minutes stays one of seconds.
const CHECK_EVERY: u64 = 1_000;
const MB: f64 = 1e6;
/// With more chunks than this, each piece is one in the fluid model, where a chunk is only the least that is delivered.
const CHUNKS_MAX: u64 = 10_000_000;
/// Segments that fit into a receiver's buffer at its largest: 4 MB, about what Linux lets a window become by default.
const WINDOW_SEGMENTS: u32 = 2_762;

/// The packet model as experiments use it: TCP as Linux has it.
pub const PACKET: Model = Model::Packet(TcpSettings::linux(WINDOW_SEGMENTS));
/// The same with BBR in place of CUBIC.
pub const PACKET_BBR: Model = Model::Packet(TcpSettings::bbr(WINDOW_SEGMENTS));
/// The same with Reno as in ns-2.
pub const PACKET_RENO: Model = Model::Packet(TcpSettings::ns2(WINDOW_SEGMENTS));

/// A model's name in lines of results.
pub fn instrument(model: Model) -> &'static str {
    match model {
        Model::Fluid => "sim-fluid",
        Model::Packet(TcpSettings { control: Control::Cubic, .. }) => "sim-packet",
        Model::Packet(TcpSettings { control: Control::Bbr, .. }) => "sim-packet-bbr",
        Model::Packet(TcpSettings { control: Control::Ns2Reno, .. }) => "sim-packet-reno",
    }
}

/// Why a planned run is none for the simulator. The message names the mend.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RunError {
    /// Another program.
    #[error("{0} is another program, which the simulator cannot run: run it in the lab")]
    Rival(String),
    /// A strategy that has to know the network, in an experiment that says nothing of it.
    #[error(
        "{0} plans for a network that it has to know: leave `gauge = false`, `named_clusters = false`, `rounds`, or the strategy out"
    )]
    NoGauge(String),
    /// A strategy that is not there.
    #[error("there is no strategy {name:?}: choose one of {known}")]
    NoSuchStrategy {
        /// As it was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
}

/// What came out of a run.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// The line of results.
    pub record: RunRecord,
    /// A number that any difference in what happened changes.
    pub trace_hash: u64,
}

/// The case of a planned run as it stands in this simulator's lines.
pub fn case(planned: &Planned, model: Model) -> Case {
    Case { instrument: instrument(model).into(), ..planned.case.clone() }
}

/// Whether the simulator can run this.
///
/// # Errors
/// If it is another program, a strategy that is not there, or one that is not told the network that it has to know.
pub fn check(planned: &Planned) -> Result<(), RunError> {
    match &planned.program {
        Program::Rival(_) => Err(RunError::Rival(planned.case.program.clone())),
        Program::Mobcast { strategy } if strategy == AUTO => Ok(()),
        Program::Mobcast { strategy } => {
            if let Some(kind) = strategy::find(strategy) {
                let can = planned.is_told() || !kind.needs_network;
                return if can { Ok(()) } else { Err(RunError::NoGauge(strategy.clone())) };
            }
            let known: Vec<&str> = strategy::STRATEGIES.iter().map(|kind| kind.name).collect();
            Err(RunError::NoSuchStrategy { name: strategy.clone(), known: known.join(", ") })
        }
    }
}

/// Runs it: the first node of the first cluster sends, and everybody starts at time zero, or has gathered before.
///
/// # Errors
/// If it is another program, a strategy that is not there, or one that is not told the network that it has to know.
pub fn simulate(planned: &Planned, model: Model) -> Result<Simulated, RunError> {
    simulate_watched(planned, model, |_| {})
}

/// The same, and shows the world to `watch` after each step.
///
/// # Errors
/// As above.
pub fn simulate_watched(planned: &Planned, model: Model, mut watch: impl FnMut(&World)) -> Result<Simulated, RunError> {
    check(planned)?;
    let scenario = match model {
        Model::Fluid => in_payload(&planned.scenario),
        Model::Packet(_) => planned.scenario.clone(),
    };
    let mut experiment = Experiment::new(scenario, planned.case.object_bytes, planned.seed);
    experiment.network.model = model;
    experiment.strategy.clone_from(&planned.case.strategy);
    experiment.piece_size = planned.piece_size;
    experiment.named_clusters = planned.named_clusters;
    experiment.gather = planned.gather;
    experiment.gauge = planned.is_told();
    experiment.settings.check_every = CHECK_EVERY;
    experiment.deadline = Time((planned.timeout_s * 1e9) as u64);
    let chunk = u64::from(experiment.settings.chunk_bytes_max);
    let chunks = planned.scenario.topology.nodes() * (planned.case.object_bytes / chunk);
    if model == Model::Fluid && chunks > CHUNKS_MAX {
        experiment.settings.chunk_bytes_max = PIECE_SIZE_MAX;
    }
    let mut imports = Imports::new(&planned.scenario.topology, planned.case.object_bytes);
    let outcome = experiment.run_watched(|world, _| {
        imports.look(&world.network);
        watch(world);
    });
    Ok(Simulated { record: record(planned, model, &outcome, &imports), trace_hash: outcome.trace_hash })
}

/// The network whose links carry only payload: every capacity times the payload factor.
fn in_payload(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    let topology = &mut scenario.topology;
    let factor = std::mem::replace(&mut topology.payload_factor, PayloadFactor::ONE);
    let payload = |rate: Option<u64>| rate.map(|rate| factor.of(rate));
    for index in topology.indices() {
        let cluster = topology.cluster_mut(index).expect("the index is the topology's own");
        cluster.nic_out_bytes_per_s = payload(cluster.nic_out_bytes_per_s);
        cluster.nic_in_bytes_per_s = payload(cluster.nic_in_bytes_per_s);
        cluster.access_out_bytes_per_s = payload(cluster.access_out_bytes_per_s);
        cluster.access_in_bytes_per_s = payload(cluster.access_in_bytes_per_s);
        cluster.fabric_bytes_per_s = payload(cluster.fabric_bytes_per_s);
        let scaled = |nic: WanNic| WanNic {
            out_bytes_per_s: payload(nic.out_bytes_per_s),
            in_bytes_per_s: payload(nic.in_bytes_per_s),
        };
        cluster.wan_nic = cluster.wan_nic.map(scaled);
    }
    for (from, to, link) in topology.wan_links().collect::<Vec<_>>() {
        let link = WanLink { rate_bytes_per_s: payload(link.rate_bytes_per_s), ..link };
        topology.link(from, to, link).expect("the link was there");
    }
    for change in &mut scenario.changes {
        change.rate_bytes_per_s = payload(change.rate_bytes_per_s);
    }
    scenario
}

fn record(planned: &Planned, model: Model, outcome: &Outcome, imports: &Imports) -> RunRecord {
    let topology = &planned.scenario.topology;
    let reason = reason(outcome);
    let end = outcome.last_complete().filter(|_| reason.is_none());
    let seconds = end.map_or(0.0, Time::as_secs_f64);
    let throughput = if seconds > 0.0 { planned.case.object_bytes as f64 / MB / seconds } else { 0.0 };
    let in_mb = |rate: Option<u64>| rate.map_or(0.0, |rate| rate as f64 / MB);
    let optimum = in_mb(planned.optimum.payload_bytes_per_s_lower);
    RunRecord {
        case: case(planned, model),
        // Of several broadcasts one after another it makes one.
        settings: Some(settings(planned)),
        repetition: planned.repetition,
        seed: planned.seed,
        machine: "simulated".into(),
        versions: [("mobcast".to_owned(), env!("CARGO_PKG_VERSION").to_owned())].into(),
        outcome: if reason.is_none() { RunOutcome::Complete } else { RunOutcome::Failed },
        reason,
        seconds,
        throughput_mb_per_s: throughput,
        optimum_mb_per_s: optimum,
        optimum_upper_mb_per_s: in_mb(planned.optimum.payload_bytes_per_s_upper),
        optimum_at_most: planned.optimum.is_upper_bound,
        fraction: if optimum > 0.0 { throughput / optimum } else { 0.0 },
        binding: planned.optimum.binding.describe(topology),
        choice: outcome.choice.as_ref().map(|choice| choice.reason.clone()).unwrap_or_default(),
        phases: end.map(|end| imports.phases(outcome.began, end, &outcome.complete)).unwrap_or_default(),
        wan_copies: wan_copies(topology, outcome),
        wan: wan(topology, outcome),
        nodes: nodes(topology, outcome),
        ..RunRecord::default()
    }
}

/// Why a run failed, if it did.
fn reason(outcome: &Outcome) -> Option<String> {
    if !outcome.failed.is_empty() {
        return Some(outcome.failed.join("; "));
    }
    outcome.stuck.as_ref().map(|seen| format!("not complete {seen}"))
}

/// What the record of a run says of it beside its case: here each run makes one broadcast.
pub fn settings(planned: &Planned) -> Settings {
    Settings { rounds: None, ..planned.settings() }
}

fn wan_copies(topology: &Topology, outcome: &Outcome) -> BTreeMap<String, f64> {
    let receiving =
        topology.clusters().iter().zip(&outcome.wan_copies).skip(1).filter(|(cluster, _)| cluster.nodes > 0);
    receiving.map(|(cluster, copies)| (cluster.name.clone(), *copies)).collect()
}

fn wan(topology: &Topology, outcome: &Outcome) -> Vec<WanTraffic> {
    let name = |cluster: ClusterIndex| topology.clusters()[cluster.as_usize()].name.clone();
    let factor = topology.payload_factor;
    let line = |(from, to, _): (ClusterIndex, ClusterIndex, WanLink)| {
        let Traffic { payload_bytes, control_bytes } = outcome.traffic[from.as_usize()][to.as_usize()];
        let unique_bytes = payload_bytes + control_bytes;
        if let Some(packets) = outcome.wan_packets[from.as_usize()][to.as_usize()] {
            let WanPackets { packets, bytes, repeated_bytes, lost_in_queue, lost_by_chance } = packets;
            let (from, to) = (name(from), name(to));
            return WanTraffic {
                from,
                to,
                bytes,
                packets,
                unique_bytes,
                repeated_bytes,
                lost_in_queue,
                lost_by_chance,
            };
        }
        let bytes = u128::from(unique_bytes) * u128::from(factor.denominator) / u128::from(factor.numerator.max(1));
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        WanTraffic { from: name(from), to: name(to), bytes, unique_bytes, ..WanTraffic::default() }
    };
    topology.wan_links().map(line).collect()
}

fn nodes(topology: &Topology, outcome: &Outcome) -> Vec<NodeRecord> {
    let places =
        topology.clusters().iter().flat_map(|cluster| (1..=cluster.nodes).map(move |number| (cluster, number)));
    let node = |(index, (cluster, number)): (usize, (&mobcast_topology::Cluster, u32))| {
        let traffic = outcome.node_traffic[index];
        NodeRecord {
            name: format!("{}{number}", cluster.name),
            cluster: cluster.name.clone(),
            seconds: outcome.complete[index].map_or(0.0, Time::as_secs_f64),
            bytes_in_wan: traffic.wan_in.payload_bytes,
            overhead_in_wan: traffic.wan_in.control_bytes,
            bytes_in_lan: traffic.lan_in.payload_bytes,
            ..NodeRecord::default()
        }
    };
    places.enumerate().map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mobcast_topology::{Change, Cluster, LinkRef, preset};

    #[test]
    fn every_capacity_is_scaled_once_and_delays_are_not() {
        let card = WanNic { out_bytes_per_s: Some(3_000), in_bytes_per_s: None };
        let mut cluster = Cluster::new("", 2).with_nic(1_500).with_access(15_000);
        cluster.wan_nic = Some(card);
        cluster.fabric_bytes_per_s = Some(150_000);
        let mut topology = preset::full_mesh(2, &cluster, 1_500_000, 7);
        topology.payload_factor = PayloadFactor::ETHERNET_TCP;
        let link = LinkRef::Wan { from: ClusterIndex(0), to: ClusterIndex(1) };
        let change = Change { at_ns: 5, link, rate_bytes_per_s: Some(3_000_000) };
        let scaled = in_payload(&Scenario { topology, changes: vec![change] });
        let cluster = &scaled.topology.clusters()[1];
        assert_eq!((cluster.nic_out_bytes_per_s, cluster.access_in_bytes_per_s), (Some(1_448), Some(14_480)));
        assert_eq!(cluster.wan_nic, Some(WanNic { out_bytes_per_s: Some(2_896), in_bytes_per_s: None }));
        assert_eq!(cluster.fabric_bytes_per_s, Some(144_800));
        let (_, _, wan) = scaled.topology.wan_links().next().unwrap();
        assert_eq!((wan.rate_bytes_per_s, wan.one_way_delay_ns), (Some(1_448_000), 7));
        assert_eq!(scaled.changes, [Change { rate_bytes_per_s: Some(2_896_000), ..change }]);
        assert_eq!(in_payload(&scaled), scaled, "with a factor of one nothing is left to scale");
    }
}
