//! What memory a run will take, before it starts. A fit to peaks that were measured (`VmHWM`) for 64 to 100,000 nodes and 100 to 4,000
//! pieces, within a third of each: an operator learns that a run cannot fit, not how many bytes it takes.

use mobcast_proto::content::piece_size::PieceSizeInput;
use mobcast_proto::limits::{GLOBAL_PEERS_MAX, LINKS_MAX, LOCAL_PEERS_MAX};
use mobcast_proto::strategy;
use mobcast_topology::Topology;
use mobcast_topology::files::Planned;

use crate::network::Model;

/// Of a node without links and pieces.
const NODE_BYTES: u64 = 48 << 10;
/// Of each end of a link.
const LINK_BYTES: u64 = 900;
/// The same with the packets of its connection, where there are packets.
const LINK_OF_PACKETS_BYTES: u64 = 52 << 10;
/// At each node, of each piece: its hash, and what is known of its copies.
const PIECE_BYTES: u64 = 45;
/// At each end of a link, of each piece: who has it, who was told, and what is said about it.
const PIECE_OF_LINK_BYTES: u64 = 1;

/// About the bytes that a run takes at its peak.
pub fn needed_bytes(planned: &Planned, model: Model) -> u64 {
    let topology = &planned.scenario.topology;
    let receivers = u32::try_from(topology.nodes().saturating_sub(1)).ok();
    let input = PieceSizeInput { length: Some(planned.case.object_bytes), receivers };
    let own = strategy::find(&planned.case.strategy);
    let piece_size = planned.piece_size.unwrap_or_else(|| strategy::piece_size_of(own, input));
    let pieces = planned.case.object_bytes.div_ceil(u64::from(piece_size.max(1)));
    let per_link = match model {
        Model::Fluid => LINK_BYTES,
        Model::Packet(_) => LINK_OF_PACKETS_BYTES,
    };
    let of_link = per_link + PIECE_OF_LINK_BYTES * pieces;
    let of_node = NODE_BYTES + PIECE_BYTES * pieces;
    topology.nodes() * of_node + link_ends(topology) * of_link
}

/// Ends of all links between nodes, as far as assignments name them.
fn link_ends(topology: &Topology) -> u64 {
    let others = topology.clusters().len().saturating_sub(1).min(GLOBAL_PEERS_MAX);
    let ends = |nodes: u32| {
        let local = (nodes as usize).saturating_sub(1).min(LOCAL_PEERS_MAX);
        u64::from(nodes) * (local + others).min(LINKS_MAX) as u64
    };
    topology.clusters().iter().map(|cluster| ends(cluster.nodes)).sum()
}
