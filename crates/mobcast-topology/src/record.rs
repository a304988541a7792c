//! One run of an experiment as one JSON line, which the lab and the simulator write and the report reads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What was run, on what, and what came out. Rates are in 10^6 bytes per second.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RunRecord {
    /// What was run; two records with the same case and repetition are of the same run.
    pub case: Case,
    /// How, and on what in full; none in lines of versions that did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
    /// Number of the run among those of its case, from 0.
    pub repetition: u32,
    /// From which everything that chance decides follows.
    pub seed: u64,
    /// When the run began, as RFC 3339 in UTC; empty in virtual time.
    pub date: String,
    /// The machine: processor, number of cores, kernel.
    pub machine: String,
    /// Versions of the programs that took part, by name.
    pub versions: BTreeMap<String, String>,
    /// How it ended.
    pub outcome: RunOutcome,
    /// Why it failed or is void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// From the start of the sender to the last node that has everything, verified. 0 if the run failed.
    pub seconds: f64,
    /// Bytes of the object divided by `seconds`.
    pub throughput_mb_per_s: f64,
    /// The payload optimum of the network, or its lower bound where links change.
    pub optimum_mb_per_s: f64,
    /// The upper bound of the payload optimum where links change, else the optimum.
    pub optimum_upper_mb_per_s: f64,
    /// Whether the true optimum may be lower than both, and the fraction higher than `fraction`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optimum_at_most: bool,
    /// `throughput_mb_per_s` divided by `optimum_mb_per_s`.
    pub fraction: f64,
    /// What binds the optimum, in words.
    pub binding: String,
    /// Why the strategy was taken, if it was chosen automatically.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub choice: String,
    /// How long each of several broadcasts in a running group took; `seconds` is the middle of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds_seconds: Vec<f64>,
    /// Where the time went.
    pub phases: Phases,
    /// For each receiving cluster: payload that it took in over WAN links, divided by the object's bytes.
    pub wan_copies: BTreeMap<String, f64>,
    /// Traffic of each WAN link in each direction.
    pub wan: Vec<WanTraffic>,
    /// The nodes, cluster by cluster, the root first.
    pub nodes: Vec<NodeRecord>,
    /// How well the network was emulated; none in the simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulation: Option<Emulation>,
}

/// Whether this may be what an interrupted run has left of its line, which begins with the case.
pub fn is_cut_line(rest: &[u8]) -> bool {
    const BEGINS: &[u8] = b"{\"case\"";
    rest.starts_with(BEGINS) || BEGINS.starts_with(rest)
}

impl RunRecord {
    /// Which part of the optimum was reached, to be put behind the throughput; nothing where no capacity is given.
    pub fn fraction_in_words(&self) -> String {
        let least = if self.optimum_at_most { "at least " } else { "" };
        if self.optimum_mb_per_s > 0.0 {
            format!(", {least}{:.3} of the optimum", self.fraction)
        } else {
            String::new()
        }
    }
}

/// What is run: one bar of a chart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Case {
    /// Name of the experiment.
    pub experiment: String,
    /// `lab`, `sim-fluid`, `sim-packet`, or the latter with the name of another TCP than CUBIC.
    pub instrument: String,
    /// Name of the topology.
    pub topology: String,
    /// Nodes of each cluster.
    pub nodes_per_cluster: Vec<u32>,
    /// Name of the scenario.
    pub scenario: String,
    /// `mobcast`, or the name of a rival.
    pub program: String,
    /// The strategy; empty for a rival.
    pub strategy: String,
    /// Bytes of the object.
    pub object_bytes: u64,
    /// Whether nodes were told their cluster.
    pub named_clusters: bool,
}

/// What an experiment fixes for all of its cases, and the network of a run: what else it takes to make a run again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The network at the start, as a topology file.
    pub network: String,
    /// Capacities that change later: how many, and a hash of when, which and to what.
    pub changes: String,
    /// Bytes of a piece; none for the automatic choice.
    pub piece_size: Option<u32>,
    /// Whether payload went without encryption.
    pub plain: bool,
    /// Whether all nodes were members before the clock started.
    pub gather: bool,
    /// Broadcasts one after another in a running group; none for one.
    pub rounds: Option<u32>,
    /// Whether members took each other's word.
    pub trust_members: bool,
    /// Whether mobcast was told what the network is like at the start.
    pub gauge: bool,
    /// Seconds after which the run would have failed.
    pub timeout_s: f64,
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunOutcome {
    /// Everybody has everything, and it was verified.
    Complete,
    /// Something did not arrive, or not in time.
    #[default]
    Failed,
    /// Everything arrived, but the emulation was late or the processor too busy: the figures mean nothing.
    Void,
}

/// The time of a run, taken apart: `start_seconds + object / steady + tail_seconds = seconds`. Imports are counted at
/// the cluster that has least; in one cluster alone, at the node that completed last; the lab sees borders only, and gives none there.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Phases {
    /// Time lost before the steady rate was reached.
    pub start_seconds: f64,
    /// Rate between a tenth and nine tenths of the object.
    pub steady_mb_per_s: f64,
    /// Time lost after nine tenths were there.
    pub tail_seconds: f64,
}

/// One direction of a WAN link.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WanTraffic {
    /// Sending cluster.
    pub from: String,
    /// Receiving cluster.
    pub to: String,
    /// IP bytes that left the link's queue.
    pub bytes: u64,
    /// Packets of at most the MTU that left it.
    pub packets: u64,
    /// Bytes of TCP and UDP data that left it, each byte of a TCP stream once.
    pub unique_bytes: u64,
    /// Bytes of TCP data that had left it before.
    pub repeated_bytes: u64,
    /// Packets that found the queue full.
    pub lost_in_queue: u64,
    /// Packets lost by chance, or on a link that was cut.
    pub lost_by_chance: u64,
}

/// One node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its name.
    pub name: String,
    /// Its cluster.
    pub cluster: String,
    /// The name of the cluster that it found itself in, where nobody had told it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub found_cluster: String,
    /// From the start of the sender until it had everything, verified.
    pub seconds: f64,
    /// Payload received from other clusters, if the program reports it.
    pub bytes_in_wan: u64,
    /// Other bytes received from other clusters (control, headers of payload, TLS), if the program reports it.
    pub overhead_in_wan: u64,
    /// Payload received from its own cluster, if the program reports it.
    pub bytes_in_lan: u64,
    /// Processor time of its process and those that it started.
    pub cpu_seconds: f64,
    /// Resident memory at its highest.
    pub peak_memory_bytes: u64,
}

/// How well the network was emulated.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Emulation {
    /// Part of the machine's processors that was busy, in percent.
    pub cpu_busy_percent: f64,
    /// Part of them that the host of a virtual machine gave to others meanwhile, in percent (`steal` in `/proc/stat`).
    #[serde(default)]
    pub cpu_stolen_percent: f64,
    /// Part of the time in which something waited for a processor (`/proc/pressure/cpu`), in percent.
    pub cpu_pressure_percent: f64,
    /// The hub's processor time.
    pub hub_cpu_seconds: f64,
    /// How much after its due time a packet left the hub, in milliseconds: in 99 of 100 cases at most.
    pub late_p99_ms: f64,
    /// The same at worst.
    pub late_max_ms: f64,
    /// Changes of links that took place.
    pub changes: u32,
}

/// One run of an experiment with stripes, as one JSON line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StripingRecord {
    /// Name of the experiment.
    pub striping: String,
    /// Nodes that send, each to its own counterpart.
    pub nodes: u32,
    /// The rate of the line between the routers.
    pub between_mbit_per_s: f64,
    /// There and back between the routers.
    pub round_trip_ms: f64,
    /// Connections of each node.
    pub stripes: u32,
    /// Packets that wait before each line at most.
    pub queue_packets: u32,
    /// When the slowest stripe was acknowledged; none if that took longer than the experiment allows.
    pub seconds: Option<f64>,
    /// Packets with data, those sent again too.
    pub sent_packets: u64,
    /// Those that had been sent before.
    pub resent_packets: u64,
    /// Packets that found the queue of a node's card full.
    pub dropped_at_cards: u64,
    /// Packets that found the queue of the line between the routers full.
    pub dropped_between: u64,
    /// Timeouts of all connections.
    pub timeouts: u64,
    /// Packet events that were simulated.
    pub events: u64,
    /// A number, in hexadecimal, that any difference in what happened changes.
    pub trace_hash: String,
    /// The transfer at regular times, if the experiment asks for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<StripingSample>,
}

/// A moment of a transfer.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StripingSample {
    /// When.
    pub seconds: f64,
    /// The first connection's congestion window.
    pub window_packets: f64,
    /// Packets with data sent so far, by all connections.
    pub sent_packets: u64,
    /// Those that had been sent before.
    pub resent_packets: u64,
    /// Packets that wait for the line between the routers.
    pub queue_packets: u64,
}
