//! The result of a broadcast, as `--json` prints it.

use std::collections::BTreeMap;

use serde::Serialize;

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
    /// Bytes divided by seconds, in 10^6 bytes per second.
    pub throughput_mb_s: f64,
    /// At the coordinator: seconds from the start of the broadcast until every piece was receipted by two holders outside
    /// the root, or by all receivers where there are fewer. Left out while that is not so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_may_leave_seconds: Option<f64>,
    /// Name of the strategy.
    pub strategy: String,
    /// Pieces of the object.
    pub pieces: u32,
    /// Bytes of a piece.
    pub piece_size: u32,
    /// The nodes' results.
    pub nodes: Vec<NodeReport>,
    /// For each receiving cluster: payload that came in over WAN links, divided by the object's bytes.
    pub wan_copies: BTreeMap<String, f64>,
}

/// What became of a broadcast at one node.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct NodeReport {
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
    /// Payload sent to other clusters, bytes.
    pub bytes_out_wan: u64,
    /// Payload sent within its own cluster, bytes.
    pub bytes_out_lan: u64,
    /// Whether it has everything, and every piece was verified.
    pub verified: bool,
    /// Why not, if it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
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
