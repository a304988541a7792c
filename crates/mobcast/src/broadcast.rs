//! One broadcast at one node: an offer before it is accepted, a handle afterwards.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mobcast_proto::content::ObjectKind;
use mobcast_proto::{BroadcastId, Digest, NodeId};

use crate::{Error, Report, Sink, SinkOptions};

/// A broadcast that another member has announced. Dropping it declines it.
#[derive(Debug)]
pub struct Offer {
    /// The broadcast.
    pub id: BroadcastId,
    /// What kind of thing it is.
    pub kind: ObjectKind,
    /// Last component of the source's path, as bytes (names need not be UTF-8); empty for memory and streams.
    pub name: Vec<u8>,
    /// Bytes, where known beforehand.
    pub length: Option<u64>,
    /// Bytes of a piece.
    pub piece_size: u32,
    /// Name of the strategy.
    pub strategy: String,
    /// The node whose object it is.
    pub root: NodeId,
}

impl Offer {
    /// Takes the object. What can be known beforehand (an existing destination, too little space) is an error at
    /// once, of which the root is told.
    pub async fn receive(self, _sink: Sink, _options: SinkOptions) -> Result<Broadcast, Error> {
        Err(Error::Left)
    }

    /// Does not take the object; the coordinator is told why.
    pub fn decline(self, _reason: &str) {}
}

/// What a complete object is, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completed {
    /// BLAKE3 of the object, as `b3sum` prints it for a file.
    pub object_hash: Digest,
    /// Bytes of the object.
    pub bytes: u64,
    /// From the start of the broadcast (or the offer) until this node had everything.
    pub elapsed: Duration,
    /// Where it is, if the sink is a path.
    pub path: Option<PathBuf>,
    /// The object, if the sink is memory.
    pub data: Option<Arc<Vec<u8>>>,
}

/// How far a broadcast is. Cheap to ask for: it is read from counters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Bytes of pieces that are here: verified and stored, or at the root read and signed.
    pub bytes: u64,
    /// Bytes of the object, once known.
    pub length: Option<u64>,
    /// Pieces that are here.
    pub pieces: u32,
    /// Pieces of the object, once known.
    pub pieces_total: Option<u32>,
    /// Payload received, bytes; some of it may be waste.
    pub bytes_in: u64,
    /// Payload sent, bytes.
    pub bytes_out: u64,
    /// Since the start of the broadcast (or the offer), until its end.
    pub elapsed: Duration,
    /// At the coordinator: how far the receivers are, in the order of joining.
    pub nodes: Vec<NodeProgress>,
}

/// How far a receiver is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeProgress {
    /// The node.
    pub node: NodeId,
    /// What it calls itself.
    pub name: String,
    /// Its cluster's name.
    pub cluster: String,
    /// Bytes that it has verified and stored, as it said last (about once a second).
    pub bytes: u64,
    /// Whether it is done.
    pub state: NodeState,
}

/// Whether a receiver is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeState {
    /// Not yet.
    Receiving,
    /// It has everything, verified.
    Complete,
    /// It failed, for this reason.
    Failed(String),
    /// It is gone.
    Lost,
}

/// A broadcast in which this node takes part, as root or receiver. Dropping the handle of a receiver that is not
/// complete gives the object up; otherwise the node serves its peers until nobody needs it.
#[derive(Debug)]
pub struct Broadcast {
    id: BroadcastId,
}

impl Broadcast {
    /// Which broadcast it is.
    pub fn id(&self) -> BroadcastId {
        self.id
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress::default()
    }

    /// Waits until this node has everything: a receiver verified and in its place, the root read and signed, and found
    /// unchanged at the end.
    pub async fn complete(&mut self) -> Result<Completed, Error> {
        Err(Error::Left)
    }

    /// Waits until nobody needs this node for it any more. At the coordinator: as many receivers as were asked for are
    /// complete, and every member has its result.
    pub async fn released(&mut self) -> Result<(), Error> {
        Err(Error::Left)
    }

    /// What became of it so far.
    pub async fn report(&self) -> Report {
        Report::default()
    }

    /// Gives it up. At the root, all members are told.
    pub async fn abort(&self, _reason: &str) {}
}
