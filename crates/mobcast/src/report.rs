//! The result of a broadcast, as `--json` prints it.

use std::collections::BTreeMap;
use std::time::Duration;

use mobcast_net::driver::{LinkSummary, WireTraffic};
use mobcast_proto::strategy::choice::Choice;
use mobcast_topology::{ClusterIndex, Topology};
use serde::Serialize;

use crate::Measurement;

/// What became of a broadcast. At the coordinator it has an entry for each node that has reported; elsewhere this
/// node's own.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Report {
    /// BLAKE3 of the object in hex, as `b3sum` prints it for a file; empty if it is not known.
    pub object_hash: String,
    /// Bytes of the object.
    pub bytes: u64,
    /// Seconds from the start of the broadcast (or from the offer) to its end.
    pub seconds: f64,
    /// Start of the broadcast at this node, in seconds since 1970 by its wall clock, to the microsecond: at the root
    /// when it began to offer the object, at a receiver when it first heard of it.
    pub started_at: f64,
    /// When this node had everything, likewise: a receiver verified and in its place, the root read and hashed. Counted
    /// from `started_at` by the monotonic clock, so that a clock that is set meanwhile does no harm. Left out until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete_at: Option<f64>,
    /// Bytes divided by seconds, in 10^6 bytes per second.
    pub throughput_mb_s: f64,
    /// At the coordinator: seconds from the start of the broadcast until every piece was receipted by two holders outside
    /// the root, or by all receivers where there are fewer. Left out while that is not so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_may_leave_seconds: Option<f64>,
    /// Name of the strategy.
    pub strategy: String,
    /// At the root: why this strategy was chosen, if it was not asked for by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<ChoiceReport>,
    /// At the coordinator: what it took to measure the network, if that was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gauge: Option<GaugeReport>,
    /// Pieces of the object.
    pub pieces: u32,
    /// Bytes of a piece.
    pub piece_size: u32,
    /// The nodes' results.
    pub nodes: Vec<NodeReport>,
    /// For each receiving cluster: payload that came in over WAN links, divided by the object's bytes.
    pub wan_copies: BTreeMap<String, f64>,
    /// The links of the node that makes this report, in the order of the peers' numbers: those that are up and those
    /// closed last, at most 64. Links that only served to admit somebody are not among them.
    pub links: Vec<LinkReport>,
}

/// Why a strategy was chosen.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct ChoiceReport {
    /// In words.
    pub reason: String,
    /// Seconds that each strategy that came into question was predicted to take; empty where nothing was compared.
    pub predicted_seconds: BTreeMap<&'static str, f64>,
}

impl From<&Choice> for ChoiceReport {
    fn from(choice: &Choice) -> ChoiceReport {
        let Choice { reason, predicted, .. } = choice;
        ChoiceReport { reason: reason.clone(), predicted_seconds: predicted.iter().copied().collect() }
    }
}

/// What came of a measurement of the network, and what it cost.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct GaugeReport {
    /// Seconds that it took.
    pub seconds: f64,
    /// Filler that was received for it, by all nodes together.
    pub bytes: u64,
    /// Short transfers that were made.
    pub probes: u32,
    /// What links between clusters carry.
    pub links: Vec<GaugeLink>,
    /// What could not be measured, in words; nothing, as a rule.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// One direction of a measured link between two clusters.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct GaugeLink {
    /// The sending cluster.
    pub from: String,
    /// The receiving cluster.
    pub to: String,
    /// Payload, 10^6 bytes per second.
    pub mb_s: f64,
    /// Round-trip time, milliseconds.
    pub rtt_ms: f64,
}

impl From<&Measurement> for GaugeReport {
    fn from(measurement: &Measurement) -> GaugeReport {
        let name = |network: &Topology, index: ClusterIndex| network.clusters()[index.as_usize()].name.clone();
        let links = measurement.network.iter().flat_map(|network| {
            network.wan_links().map(|(from, to, link)| GaugeLink {
                from: name(network, from),
                to: name(network, to),
                mb_s: link.rate_bytes_per_s.unwrap_or(0) as f64 / 1e6,
                rtt_ms: 2.0 * link.one_way_delay_ns as f64 / 1e6,
            })
        });
        GaugeReport {
            seconds: measurement.took.as_secs_f64(),
            bytes: measurement.bytes,
            probes: measurement.probes,
            links: links.collect(),
            problems: measurement.problems.clone(),
        }
    }
}

/// What became of a broadcast at one node.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct NodeReport {
    /// Its number in the group, by which links name it.
    pub number: u32,
    /// What the node calls itself.
    pub name: String,
    /// Its cluster's name.
    pub cluster: String,
    /// Why it is in that cluster.
    pub cluster_reason: String,
    /// Seconds from its first word of the broadcast to its end.
    pub seconds: f64,
    /// Payload received from other clusters, bytes.
    pub bytes_in_wan: u64,
    /// Payload received from its own cluster, bytes.
    pub bytes_in_lan: u64,
    /// Payload sent to other clusters, bytes; what a peer asked for and took back before it left counts, too.
    pub bytes_out_wan: u64,
    /// Payload sent within its own cluster, likewise.
    pub bytes_out_lan: u64,
    /// Of the node that makes this report alone: all bytes that its sockets have taken and given.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireReport>,
    /// Whether it has everything, and every piece was verified.
    pub verified: bool,
    /// Why not, if it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// All bytes that crossed a node's links to members, joiners and the coordinator that admitted it, closed ones included,
/// for all its broadcasts together: payload, control frames, headers, TLS records and handshakes, as the sockets took and
/// gave them (so without the headers of TCP and IP). A link counts by the cluster that its peer says it is of, one to a
/// joiner by the cluster that it is given; a peer whose cluster never becomes known, and every peer while this node
/// itself has no cluster, counts as one of another cluster. Connections that were refused or given up before the
/// greeting are left out, and probes carry nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct WireReport {
    /// Received from other clusters.
    pub wire_in_wan: u64,
    /// Received from its own cluster.
    pub wire_in_lan: u64,
    /// Sent to other clusters.
    pub wire_out_wan: u64,
    /// Sent within its own cluster.
    pub wire_out_lan: u64,
}

/// The link to one peer, since it was first made, for all broadcasts together. How it stands is of the moment of the
/// report; of a link that is closed, of the second before that.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct LinkReport {
    /// What the peer calls itself, where that is known (at the coordinator), else `node` and its number.
    pub peer: String,
    /// The peer's number in the group.
    pub number: u32,
    /// Name of the peer's cluster, where that is known (at the coordinator, and of this node's own), else `cluster` and
    /// its number.
    pub cluster: String,
    /// TCP connections that make up the link.
    pub streams: u32,
    /// Payload received, bytes.
    pub bytes_in: u64,
    /// Payload sent, bytes.
    pub bytes_out: u64,
    /// Everything received, as counted at the socket, bytes.
    pub wire_in: u64,
    /// Everything sent, as counted at the socket, bytes.
    pub wire_out: u64,
    /// Least round-trip time measured, milliseconds; null if none was.
    pub rtt_ms: Option<f64>,
    /// The last estimate of the rate at which requested payload arrives, 10^6 bytes per second; 0 before the first.
    pub rate_in_mb_s: f64,
    /// The request window, bytes.
    pub window_bytes: u64,
    /// Requests to the peer that are not served in full.
    pub requests_in_flight: u32,
}

impl From<WireTraffic> for WireReport {
    fn from(wire: WireTraffic) -> WireReport {
        let WireTraffic { in_wan, in_lan, out_wan, out_lan } = wire;
        WireReport { wire_in_wan: in_wan, wire_in_lan: in_lan, wire_out_wan: out_wan, wire_out_lan: out_lan }
    }
}

impl From<&LinkSummary> for LinkReport {
    /// Without the names.
    fn from(link: &LinkSummary) -> LinkReport {
        let (bytes, view) = (link.bytes, link.view);
        LinkReport {
            peer: String::new(),
            number: link.peer.0,
            cluster: String::new(),
            streams: link.streams,
            bytes_in: bytes.payload_in,
            bytes_out: bytes.payload_out,
            wire_in: bytes.wire_in,
            wire_out: bytes.wire_out,
            rtt_ms: view.rtt_min.map(|rtt| rtt.0 as f64 / 1e6),
            rate_in_mb_s: view.rate_in_bytes_per_s as f64 / 1e6,
            window_bytes: view.window_bytes,
            requests_in_flight: view.requests,
        }
    }
}

/// Seconds since 1970, to the microsecond.
pub(crate) fn unix_seconds(since_1970: Duration) -> f64 {
    since_1970.as_micros() as f64 / 1e6
}

/// Payload that each receiving cluster took in over WAN links, divided by the object's bytes. The root's cluster
/// receives nothing that way; without knowing it (at a receiver), there is nothing to add up.
pub(crate) fn wan_copies(bytes: u64, root_cluster: Option<&str>, nodes: &[NodeReport]) -> BTreeMap<String, f64> {
    let Some(root_cluster) = root_cluster else { return BTreeMap::new() };
    let mut copies = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.cluster != root_cluster) {
        *copies.entry(node.cluster.clone()).or_insert(0.0) += node.bytes_in_wan as f64 / bytes.max(1) as f64;
    }
    copies
}
