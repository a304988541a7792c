//! What reaches the node's task: commands of the application, and what links and threads have done.

use std::sync::Arc;

use mobcast_proto::content::Descriptor;
use mobcast_proto::strategy::choice::{Choice, Costs, Extent};
use mobcast_proto::wire::Frame;
use mobcast_proto::{BroadcastId, ByteRange, ClusterId, Digest, LinkId, PieceIndex};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::NodeView;
use super::dial::{DialError, Established};
use super::link::LinkEnd;
use super::pieces::Verdict;
use crate::store::{Finished, ObjectSink, ObjectSource, StoreError};

/// An input to the node's task.
#[derive(Debug)]
pub enum Input {
    /// The application wants something.
    Command(Command),
    /// A link that was dialled is open.
    LinkUp { link: LinkId, established: Box<Established> },
    /// A link could not be made.
    DialFailed { link: LinkId, error: DialError },
    /// Somebody has connected.
    Accepted(Box<Established>),
    /// A link has ended by itself.
    LinkDown { link: LinkId, end: LinkEnd },
    /// A frame has arrived. Its place among those that have is free again when it was handled.
    Frame { link: LinkId, frame: Box<Frame>, place: OwnedSemaphorePermit },
    /// Payload is in its place.
    Payload { link: LinkId, broadcast: BroadcastId, piece: PieceIndex, range: ByteRange },
    /// A part of a piece was sent or given up.
    Sent { link: LinkId },
    /// A complete piece was verified, and stored if it is right.
    Judged { broadcast: BroadcastId, piece: PieceIndex, verdict: Verdict },
    /// A source cannot be read to its end, or a sink cannot be written.
    StoreFailed { broadcast: BroadcastId, error: Arc<StoreError> },
    /// What a peer asked for cannot be read from a source or a sink.
    ServingFailed { broadcast: BroadcastId, error: Arc<StoreError> },
    /// The root has read more pieces.
    Hashed { broadcast: BroadcastId, hashes: Vec<Digest> },
    /// The root has read everything, and found it unchanged.
    SourceEnd { broadcast: BroadcastId, last: Vec<Digest>, length: u64, object_hash: Digest },
    /// A complete object is in its place, or cannot be put there.
    Finished { broadcast: BroadcastId, result: Result<Finished, StoreError> },
    /// A round trip was measured.
    Probed { cluster: ClusterId, rtt: Option<std::time::Duration> },
}

/// A command of the application.
#[derive(Debug)]
pub enum Command {
    /// Start a broadcast.
    Broadcast {
        descriptor: Box<Descriptor>,
        source: Arc<ObjectSource>,
        whole: Option<Vec<u8>>,
        receivers: Option<u32>,
        answer: oneshot::Sender<Option<BroadcastId>>,
    },
    /// Nobody has the handle of a broadcast of this node: it is given up.
    Unclaimed { broadcast: BroadcastId },
    /// Take an announced object.
    Accept { broadcast: BroadcastId, sink: Arc<ObjectSink> },
    /// Do not take it, or not any more.
    Decline { broadcast: BroadcastId, reason: String },
    /// Give up a broadcast of this node.
    Abort { broadcast: BroadcastId, reason: String },
    /// A broadcast is of no more use.
    Forget { broadcast: BroadcastId },
    /// Where a broadcast stands at this node.
    View { broadcast: BroadcastId, answer: oneshot::Sender<NodeView> },
    /// Choose a strategy for an object.
    Choose { object: Extent, costs: Costs, answer: oneshot::Sender<Choice> },
    /// Have the network measured.
    Measure { answer: oneshot::Sender<bool> },
    /// Leave the group.
    Leave { done: oneshot::Sender<()> },
}
