//! Every limit of the protocol, each with the sum or the reason behind it (design: everything has a limit).

use crate::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Smallest piece, bytes: sixteen BLAKE3 chunks; below it, hashes and requests outweigh the payload.
pub const PIECE_SIZE_MIN: u32 = 16 << 10;
/// Largest piece, bytes: one of them is open at any time, and two unless hashes or a tree take the place ([`held_bytes`]).
pub const PIECE_SIZE_MAX: u32 = 16 << 20;

/// Pieces of one object: their hashes (32 bytes each) are 16 MiB, which a node holds in memory.
pub const PIECES_MAX: u32 = 1 << 19;
/// Largest object, bytes: 2^19 pieces of 16 MiB = 8 TiB.
pub const OBJECT_BYTES_MAX: u64 = PIECES_MAX as u64 * PIECE_SIZE_MAX as u64;

/// Largest control frame, bytes, header included: what a reader buffers before it knows what it reads. An object of 64 KiB, the largest that
/// travels in one frame, is in it with all that proves it.
pub const FRAME_BYTES_MAX: usize = 68 << 10;
/// Largest chunk of payload behind one header, bytes: what a chunk costs beside its bytes (header, record, system
/// calls) then is a few microseconds in a hundred. On a slow link it is less: [`CHUNK_TIME`].
pub const CHUNK_BYTES_MAX: u32 = 256 << 10;
/// Smallest chunk of payload, bytes, so that headers stay below one percent on the slowest links.
pub const CHUNK_BYTES_MIN: u32 = 8 << 10;
/// A chunk takes its link no longer than this, so that a control frame never waits behind a piece.
pub const CHUNK_TIME: Duration = Duration::from_millis(50);

/// Bytes of pieces that a node has asked for or is receiving, over all links, together with what it holds of objects
/// for as long as it has to do with them ([`held_bytes`]): new requests wait beyond it.
pub const OPEN_PIECES_BYTES_MAX: u64 = 40 * MIB;
/// However much is held, this much is left for open pieces.
pub const OPEN_PIECES_BYTES_MIN: u64 = PIECE_SIZE_MAX as u64;
/// Buffers of pieces beyond the open ones: payload of requests that were taken back still comes in.
pub const SPARE_PIECES_BYTES_MAX: u64 = 4 * MIB;
/// Control frames that wait on all links of a node together: twice what a coordinator says at one moment, when the views of
/// 2,048 members change, of under 2 KiB each.
pub const FRAMES_WAITING_BYTES_MAX: usize = 8 << 20;
/// Control frames that have come over all links of a node and that it has not handled, bytes: a few milliseconds of a fast link. Short
/// numbers and many lists make up to seven times as much of them in memory.
pub const FRAMES_ARRIVED_BYTES_MAX: usize = 512 << 10;
/// What a node has passed on for others over a link and does not know to be through, bytes: half of what may wait there before the link
/// is given up, so that they cannot bring that about.
pub const PASSED_ON_BYTES_MAX: usize = 512 << 10;
/// Buffers of a link, bytes: what has been received and not been taken apart, what is sealed and not sent, and a span
/// of payload, which either a thread has read or the link reads to where it seals it.
const LINK_BUFFERS_BYTES: u64 = (128 + 128 + 256) * KIB;
/// Spans of payload read ahead, bytes.
const SPANS_AHEAD_BYTES: u64 = 16 * 256 * KIB;
/// The program, its threads and all that is small, with frames that have come.
const PROGRAM_BYTES: u64 = 8 * MIB;
const _: () = assert!(7 * FRAMES_ARRIVED_BYTES_MAX as u64 <= PROGRAM_BYTES / 2);
/// Resident memory of a node, by the sum below. Two things are not in it: beyond 240,000 entries, the tree of a directory
/// takes some 100 bytes for each; and the coordinator keeps a few hundred bytes for each member, and in a group for plans some 80 for each
/// of its places in trees: in [`TREES_MAX`] trees, 20 kB.
pub const NODE_MEMORY_BYTES_MAX: u64 = 96 * MIB;
const _: () = assert!(
    OPEN_PIECES_BYTES_MAX
        + SPARE_PIECES_BYTES_MAX
        + FRAMES_WAITING_BYTES_MAX as u64
        + LINKS_MAX as u64 * LINK_BUFFERS_BYTES
        + SPANS_AHEAD_BYTES
        + PROGRAM_BYTES
        <= NODE_MEMORY_BYTES_MAX
);
const _: () = assert!(PIECE_SIZE_MAX as u64 * 2 <= OPEN_PIECES_BYTES_MAX);
const _: () = assert!(PIECES_MAX as u64 * (32 + LINKS_MAX as u64 / 8) + OPEN_PIECES_BYTES_MIN <= OPEN_PIECES_BYTES_MAX);

/// What a node holds of an object besides its pieces: for each piece its hash, once for manifest and driver, and a bit for
/// each link whose peer has it; and the tree of a directory, which takes about four times the bytes of its encoded index.
/// A stream may come to have all the pieces that there may be.
pub fn held_bytes(pieces: Option<u32>, index_length: u64) -> u64 {
    u64::from(pieces.unwrap_or(PIECES_MAX)) * (32 + LINKS_MAX as u64 / 8) + index_length * 4
}
/// Of each object that the application has not taken a node has two batches of hashes at most, beside those of the largest that it has.
const _: () = assert!(
    PIECES_MAX as u64 * (32 + LINKS_MAX as u64 / 8)
        + BROADCASTS_MAX as u64 * 2 * BATCH_HASHES_MAX as u64 * 32
        + OPEN_PIECES_BYTES_MIN
        <= OPEN_PIECES_BYTES_MAX
);
const _: () = assert!(PIECE_SIZE_MIN as u64 == 16 * KIB && FRAME_BYTES_MAX as u64 == 68 * KIB);

/// Links of a node, whatever the size of the group: control tree, local peers, global peers and the spare ones that
/// a hand-over needs.
pub const LINKS_MAX: usize = 64;
/// Links of a coordinator beyond them, for nodes that ask to be admitted: each lasts for a few round trips and an admission interval, has
/// sent a frame or two, and touches a few pages of its buffers. With 512 strangers at the door and members they are 832 files; 112 pipes of two
/// files each carry payload in the clear, and links that say goodbye stay for half a second. So the command raises the limit of 1,024 that is
/// usual for a process.
pub const LINKS_SPARE: usize = 256;
/// Longest pause that a coordinator may ask for of a node that finds as many there: a crowd of 100,000 is through by then on a
/// machine that admits 12,800 in a second.
pub const LATER_MAX: Duration = SILENCE_MAX;
/// Members that the coordinator itself carries in the control tree; the others hang below them.
pub const COORDINATOR_CHILDREN_MAX: usize = 16;
/// Those of them that may belong to its own cluster; the rest is for the leaders of others.
pub const COORDINATOR_LOCAL_CHILDREN_MAX: usize = COORDINATOR_CHILDREN_MAX * 2 / 3;
/// Children of any other node in the control tree: five levels below the coordinator hold 16 * 8^4 = 65,536 nodes.
pub const TREE_CHILDREN_MAX: usize = 8;
/// Nodes of a cluster in which everybody is linked to everybody: a node with few links falls behind where the cards bind.
pub const LOCAL_MESH_MAX: usize = 17;
/// Local peers that a node is told to connect to when it joins a larger cluster: as many as all have there.
pub const LOCAL_PEERS_TOLD: usize = LOCAL_MESH_MAX - 1;
/// Local peers of a node, told and accepted, when it has taken over some of nodes that were lost.
pub const LOCAL_PEERS_MAX: usize = 24;
/// Global peers of a node, told and accepted: as many as a root alone in its cluster can serve.
pub const GLOBAL_PEERS_MAX: usize = 24;
const _: () = assert!(COORDINATOR_CHILDREN_MAX + LOCAL_PEERS_MAX + GLOBAL_PEERS_MAX <= LINKS_MAX);
/// Links that a newcomer needs before a plan has a place for it, and those to a parent.
const NEWCOMER_LINKS: usize = 8;
/// Peers of a node by a strategy's plan: a node may have no more links, with those of the control tree.
pub const PLANNED_PEERS_MAX: usize = LINKS_MAX - COORDINATOR_CHILDREN_MAX - NEWCOMER_LINKS;
/// Global peers that a joining node is told to connect to: one in every other cluster, up to this many.
pub const GLOBAL_PEERS_TOLD: usize = 15;

/// Clusters whose leaders a joining node probes at a time.
pub const PROBES_MAX: usize = 16;
/// Bytes of filler that one request of a measurement asks for.
pub const FILLER_BYTES_MAX: u32 = 1 << 20;
/// Bytes that a probe may have on their way: a link of 1 Gbit/s over 130 ms. They are in no memory but that of sockets.
pub const PROBE_WINDOW_MAX: u64 = 16 << 20;
/// Bytes of filler that one probe asks for: a fifth of a second at 10 Gbit/s. Whoever serves it gives out no more.
pub const PROBE_BYTES_MAX: u64 = 256 << 20;
/// Parts that a node has in a measurement at a time: to ask one, and to serve one.
pub const PROBE_ORDERS_MAX: usize = 2;
/// Slots to which the pieces of any object belong by hash; a node's share is a set of slots.
pub const SLOTS: usize = 4096;
/// Successors of the coordinator that an assignment names.
pub const SUCCESSORS: usize = 2;
/// Nodes of a group.
pub const NODES_MAX: usize = 100_000;
/// Clusters of a group.
pub const CLUSTERS_MAX: usize = 256;
/// Strategies with plans that a group is founded for: all that there are. Four of them have more than two trees, so that an
/// assignment with places in all plans stays below half of a frame.
pub const PLANS_MAX: usize = 16;
/// Trees of a plan. A node's place in one takes some 15 bytes, so that an assignment stays below a quarter of a frame.
pub const TREES_MAX: usize = 256;
/// Broadcasts that a group carries at the same time.
pub const BROADCASTS_MAX: usize = 64;

/// Have-messages to one peer are gathered for this long into one frame.
pub const HAVE_INTERVAL: Duration = Duration::from_millis(10);
/// The root signs at most this often, so that a long stream does not drown in small batches.
pub const BATCH_INTERVAL: Duration = Duration::from_millis(10);
/// Piece hashes of one manifest batch: 1,024 × 32 bytes are half a control frame.
pub const BATCH_HASHES_MAX: usize = 1024;
/// A link on which nothing arrived for this long is asked for a sign of life.
pub const PING_INTERVAL: Duration = Duration::from_secs(2);
/// One on which something does is asked this often, for its round-trip time.
pub const RTT_INTERVAL: Duration = Duration::from_secs(10);
/// A peer that was silent for this long is given up.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);
const _: () = assert!(PING_INTERVAL.0 * 3 < SILENCE_MAX.0);

/// Bytes of a name (node, cluster, object): what a file system allows for one component.
pub const NAME_BYTES_MAX: usize = 255;
/// Addresses that a node advertises.
pub const ADDRESSES_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forty_bytes_are_held_of_each_piece_and_four_for_each_of_a_tree_s_index() {
        assert_eq!(held_bytes(Some(1_000), 0), 40_000, "a hash, and a bit for each of 64 links");
        assert_eq!(held_bytes(Some(1_000), 500), 42_000);
        assert_eq!(held_bytes(None, 0), 20 << 20, "a stream may come to have all the pieces that there may be");
    }
}
