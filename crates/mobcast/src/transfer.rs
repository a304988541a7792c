//! One broadcast as the library keeps it: what it is, how it ended, and what other nodes say of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mobcast_net::driver::TransferStats;
use mobcast_net::store::Finished;
use mobcast_proto::content::Descriptor;
use mobcast_proto::group::report::NodeResult;
use mobcast_proto::io::Failure;
use mobcast_proto::{BroadcastId, Digest, NodeId};
use tokio::sync::watch;

use crate::{Completed, Error};

/// How a broadcast stands at this node.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Whether it is complete here, or cannot become so.
    pub completed: Option<Result<Completed, Error>>,
    /// Whether nobody needs this node for it any more.
    pub released: Option<Result<(), Error>>,
    /// Why it failed, also after it was released: whoever comes later gets nothing from this node.
    pub failed: Option<Error>,
}

/// What another node says of a broadcast, at the coordinator.
#[derive(Clone, Debug, Default)]
pub struct NodeEntry {
    /// Pieces that it has.
    pub pieces: u32,
    /// Its result, once it is done.
    pub result: Option<NodeResult>,
}

/// A broadcast.
#[derive(Debug)]
pub struct Transfer {
    /// Which one.
    pub id: BroadcastId,
    /// What is broadcast.
    pub descriptor: Descriptor,
    /// Whether this node is its root.
    pub is_root: bool,
    /// Its counters here.
    pub stats: Arc<TransferStats>,
    /// How it stands.
    pub outcome: watch::Sender<Outcome>,
    started: Instant,
    /// The same by the wall clock, since 1970.
    started_at: Duration,
    dropped: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    ended: Option<Instant>,
    /// When everything was here.
    complete: Option<Instant>,
    /// When the source could be spared.
    may_leave: Option<Instant>,
    /// What the driver said of a failure before the core did.
    cause: Option<Error>,
    nodes: BTreeMap<NodeId, NodeEntry>,
}

impl Transfer {
    /// A broadcast that was just announced or started.
    pub fn new(id: BroadcastId, descriptor: Descriptor, stats: Arc<TransferStats>, is_root: bool) -> Transfer {
        let (outcome, dropped, inner) = Default::default();
        let (started, started_at) = (Instant::now(), SystemTime::now());
        let started_at = started_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Transfer { id, descriptor, is_root, stats, outcome, started, started_at, dropped, inner }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the start, until the end.
    pub fn elapsed(&self) -> Duration {
        self.lock().ended.unwrap_or_else(Instant::now) - self.started
    }

    /// The start, since 1970.
    pub fn started_at(&self) -> Duration {
        self.started_at
    }

    /// When everything was here, since 1970: the start, and what has passed since by the monotonic clock.
    pub fn complete_at(&self) -> Option<Duration> {
        self.lock().complete.map(|at| self.started_at + (at - self.started))
    }

    /// Its source can be spared from here on, or not any more.
    pub fn set_may_leave(&self, may: bool) {
        self.lock().may_leave = may.then(Instant::now);
    }

    /// Time from the start until its source could be spared.
    pub fn may_leave(&self) -> Option<Duration> {
        self.lock().may_leave.map(|at| at - self.started)
    }

    /// What other nodes say of it.
    pub fn nodes(&self) -> BTreeMap<NodeId, NodeEntry> {
        self.lock().nodes.clone()
    }

    /// The driver names the cause of the failure that follows.
    pub fn set_cause(&self, cause: Error) {
        self.lock().cause.get_or_insert(cause);
    }

    /// A node is done.
    pub fn set_result(&self, node: NodeId, result: NodeResult) {
        self.lock().nodes.entry(node).or_default().result = Some(result);
    }

    /// A node has got further.
    pub fn set_progress(&self, node: NodeId, pieces: u32) {
        self.lock().nodes.entry(node).or_default().pieces = pieces;
    }

    /// Everything is here, in its place.
    pub fn completed(&self, bytes: u64, object_hash: Digest, finished: Finished) {
        let now = Instant::now();
        let mut inner = self.lock();
        inner.complete.get_or_insert(now);
        if !self.is_root {
            inner.ended = Some(now);
        }
        drop(inner);
        let Finished { path, bytes: data, lost_attributes } = finished;
        let completed = Completed { object_hash, bytes, elapsed: self.elapsed(), path, data, lost_attributes };
        self.outcome.send_modify(|outcome| outcome.completed = Some(Ok(completed)));
    }

    /// It has ended without success here.
    /// True if its handle is gone, so that nobody forgets it later.
    pub fn failed(&self, failure: &Failure) -> bool {
        let mut inner = self.lock();
        inner.ended.get_or_insert_with(Instant::now);
        let error = inner.cause.take().unwrap_or_else(|| match failure {
            Failure::Aborted(_) | Failure::Local(_) => Error::Aborted(failure.to_string()),
            Failure::Incomplete { .. } => Error::Incomplete(failure.to_string()),
        });
        drop(inner);
        self.end(&error);
        self.dropped.load(Ordering::Acquire)
    }

    /// The node has left the group.
    pub fn left(&self) {
        self.lock().ended.get_or_insert_with(Instant::now);
        self.end(&Error::Left);
    }

    /// What is open fails.
    fn end(&self, error: &Error) {
        self.outcome.send_modify(|outcome| {
            outcome.completed.get_or_insert_with(|| Err(error.clone()));
            outcome.released.get_or_insert_with(|| Err(error.clone()));
            outcome.failed.get_or_insert_with(|| error.clone());
        });
    }

    /// Nobody needs this node for it any more. True if its handle is gone too.
    pub fn released(&self) -> bool {
        if self.is_root {
            self.lock().ended = Some(Instant::now());
        }
        self.outcome.send_modify(|outcome| outcome.released = Some(Ok(())));
        self.dropped.load(Ordering::Acquire)
    }

    /// The handle is gone. Says what that means for the broadcast.
    pub fn handle_dropped(&self) -> Dropped {
        self.dropped.store(true, Ordering::Release);
        let outcome = self.outcome.borrow();
        match (&outcome.completed, &outcome.released) {
            (_, Some(_)) => Dropped::Over,
            (None, None) if !self.is_root => Dropped::GivenUp,
            _ => Dropped::Needed,
        }
    }
}

/// What it means that a handle is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dropped {
    /// The broadcast was over.
    Over,
    /// A receiver does not want the object any more.
    GivenUp,
    /// Peers may still need this node.
    Needed,
}
