//! The driver of the protocol on a real machine: it feeds [`mobcast_proto::node::Node`] from sockets, files, hashing
//! threads and a clock, and does what it says. It decides nothing.
//!
//! One task owns the node. Everything else (links, threads, the application) sends it inputs through one bounded
//! queue; it never waits for any of them, so that there is no circle of waiting.
//!
//! | module | what |
//! |---|---|
//! | `engine` | the task that owns the node: inputs in, outputs carried out, the end |
//! | `dial`, `listen` | from addresses and connections to links: TCP, TLS, greeting |
//! | `link` | one link: reading, writing, what waits to be written |
//! | `pieces`, `buffers` | payload on its way in: from the socket to its place, verified, stored |
//! | `source` | the root's source: read once, hashed |
//! | `keys` | signing, verifying, certifying |
//! | `rate` | sizes of chunks, the limit of the user |
//! | `workers`, `drain` | threads that may block |
//! | `stats`, `ledger` | counters for those who watch: of a broadcast, of the links |
//!
//! Memory, whose sum is at `NODE_MEMORY_BYTES_MAX` of the core: open pieces, bounded by the core and once more by
//! `pieces`; one span of 256 KiB for each link that sends and 16 more; 128 KiB for each link that receives; control
//! frames for peers that do not read, at most 1 MiB each and 8 MiB together; and 512 KiB of frames that have come, as long as
//! they are on the wire.

mod buffers;
mod clock;
mod dial;
mod drain;
mod engine;
mod input;
mod keys;
mod ledger;
mod link;
mod listen;
mod pieces;
mod rate;
mod source;
mod stats;
mod store;
mod workers;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mobcast_proto::content::Descriptor;
use mobcast_proto::group::report::Traffic;
use mobcast_proto::group::ticket::Ticket;
use mobcast_proto::io::Event;
use mobcast_proto::node::{Node, NodeConfig};
use mobcast_proto::strategy::Registry;
use mobcast_proto::strategy::choice::{Choice, Costs, Extent};
use mobcast_proto::strategy::overlay::Overlays;
use mobcast_proto::{BroadcastId, ClusterId, Digest, GroupId};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot};

pub use dial::DialError;
pub use ledger::{LinkBytes, LinkSummary, WireTraffic};
pub use stats::TransferStats;

use crate::store::{Finished, ObjectSink, ObjectSource, StoreError};
use crate::tls::IdentityError;
use clock::{Clock, unix_s};
use engine::{Engine, Parts};
use input::{Command, Input};
use keys::Keys;
use listen::{ListenPlan, Listening};

/// The port that the founder of a group listens on, if it is free.
pub const DEFAULT_PORT: u16 = 7077;
/// Inputs that may wait for the node's task: a few milliseconds of a fast link.
const INPUTS_MAX: usize = 1024;

/// How a node takes part in a group.
#[derive(Clone, Debug)]
pub struct DriverOptions {
    /// What it calls itself.
    pub name: String,
    /// The cluster that its user named.
    pub cluster: Option<String>,
    /// Where it listens; chosen if not given.
    pub listen: Option<SocketAddr>,
    /// Where others reach it, if not where it listens. Port 0 stands for the one it listens on.
    pub advertise: Vec<SocketAddr>,
    /// Whether payload may travel in the clear.
    pub plain: bool,
    /// Limit to the payload sent, bytes per second.
    pub max_rate_bytes_per_s: Option<u64>,
    /// At the founder: for which strategies the group is.
    pub overlays: Overlays,
    /// At the founder: whether members take each other's word about broadcasts.
    pub trusts_members: bool,
}

/// Why a node cannot be started.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DriverError {
    /// No socket where it should listen.
    #[error("cannot listen on {address}: {source}; choose another address or port")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The system's answer.
        source: Arc<io::Error>,
    },
    /// Nobody could reach the founder.
    #[error("no address is known at which others could reach this machine; give one to be advertised")]
    NoAddress,
    /// A key or certificate could not be made.
    #[error("{0}")]
    Identity(Arc<IdentityError>),
    /// No threads.
    #[error("cannot start a thread: {0}; check the limits of processes and memory")]
    Threads(Arc<io::Error>),
}

impl From<IdentityError> for DriverError {
    fn from(error: IdentityError) -> DriverError {
        DriverError::Identity(Arc::new(error))
    }
}

/// What the application is told. The order of notices is that of the events.
#[derive(Clone, Debug)]
pub enum Notice {
    /// The core says so. [`Event::Announced`] and [`Event::Complete`] have notices of their own.
    Event(Event),
    /// A broadcast of this node has begun. Comes before [`DriverHandle::broadcast`] returns, and before any other
    /// notice about it.
    Started {
        /// The broadcast.
        broadcast: BroadcastId,
        /// What is broadcast.
        descriptor: Descriptor,
        /// Its counters here.
        stats: Arc<TransferStats>,
    },
    /// Whoever asked for a broadcast of this node has stopped waiting before it had begun: it is given up, and a failure follows.
    Unclaimed {
        /// The broadcast.
        broadcast: BroadcastId,
    },
    /// Another member's broadcast; to be accepted or declined.
    Announced {
        /// The broadcast.
        broadcast: BroadcastId,
        /// What is broadcast.
        descriptor: Descriptor,
        /// Its counters here.
        stats: Arc<TransferStats>,
    },
    /// An object is complete here, and in its place.
    Complete {
        /// The broadcast.
        broadcast: BroadcastId,
        /// Bytes of the object.
        length: u64,
        /// BLAKE3 of the object.
        object_hash: Digest,
        /// What the sink leaves; nothing at the root.
        finished: Finished,
    },
    /// The whole of an object is not what the hashes of its pieces say: its root is faulty. A failure follows.
    WrongHash {
        /// The broadcast.
        broadcast: BroadcastId,
    },
    /// A source or sink has failed. The failure of the broadcast follows, unless it was complete already.
    StoreFailed {
        /// The broadcast.
        broadcast: BroadcastId,
        /// Why.
        error: Arc<StoreError>,
    },
    /// The coordinator could not be reached by this node, which wants to join; further attempts follow.
    JoinFailed {
        /// Why.
        error: Arc<DialError>,
    },
    /// The authority's certificate for this node cannot be used.
    BadIdentity {
        /// Why.
        error: Arc<IdentityError>,
    },
    /// The node has left the group. The last notice.
    Ended,
}

/// Who uses a node. Called on the node's task: must return at once and never wait.
pub trait Application: Send + Sync + 'static {
    /// Something has happened.
    fn handle(&self, notice: Notice);
}

/// Where a broadcast and the links of this node stand.
#[derive(Clone, Debug, Default)]
pub struct NodeView {
    /// Payload that crossed this node's links for the broadcast, as the core has it.
    pub traffic: Traffic,
    /// This node's cluster, once it has one.
    pub cluster: Option<ClusterId>,
    /// At the coordinator: the name of the cluster of the broadcast's root.
    pub root_cluster: Option<String>,
    /// Everything that crossed this node's links, for whatever reason.
    pub wire: WireTraffic,
    /// The links to members, in the order of the peers' numbers: those that are up and those closed last, at most
    /// [`mobcast_proto::limits::LINKS_MAX`].
    pub links: Vec<LinkSummary>,
}

/// A running node. Dropping it makes the node leave without waiting for it.
#[derive(Debug)]
pub struct Driver {
    handle: DriverHandle,
    stop: Arc<Notify>,
}

/// Gives commands to a running node, and does not keep it running.
#[derive(Clone, Debug)]
pub struct DriverHandle {
    inputs: mpsc::Sender<Input>,
    runtime: Handle,
}

// ---- Starting and ending ----

impl Driver {
    /// Founds a group, to which `expires` from now on others may be admitted by the ticket. Must be called within a
    /// runtime.
    pub fn found(
        options: DriverOptions,
        expires: Duration,
        application: Arc<dyn Application>,
    ) -> Result<(Driver, Ticket), DriverError> {
        let (advertise, listen) = (options.advertise.clone(), options.listen);
        let plan = ListenPlan { listen, advertise, coordinator: Vec::new() };
        let listening = plan.open()?;
        if listening.advertised.is_empty() {
            return Err(DriverError::NoAddress);
        }
        let mut ticket = Ticket {
            addresses: listening.advertised.clone(),
            group: GroupId(random()?),
            secret: random()?,
            expires_unix_s: unix_s().saturating_add(expires.as_secs()),
            authority: Default::default(),
        };
        let (keys, credential, signature) = Keys::found(&mut ticket)?;
        let clock = Clock::start();
        let config = config(&options, &listening, ticket.group, &keys)?;
        let node = Node::found(config, credential, signature, clock.now());
        let driver = Driver::start(node, keys, clock, (plan, listening), &options, application)?;
        Ok((driver, ticket))
    }

    /// Joins a group; how that goes, the application is told. Must be called within a runtime.
    pub fn join(
        ticket: &Ticket,
        options: DriverOptions,
        application: Arc<dyn Application>,
    ) -> Result<Driver, DriverError> {
        let (advertise, listen) = (options.advertise.clone(), options.listen);
        let plan = ListenPlan { listen, advertise, coordinator: ticket.addresses.clone() };
        let listening = plan.open()?;
        let keys = Keys::join(ticket)?;
        let clock = Clock::start();
        let config = config(&options, &listening, ticket.group, &keys)?;
        let node = Node::join(config, ticket.addresses.clone(), clock.now());
        Driver::start(node, keys, clock, (plan, listening), &options, application)
    }

    fn start(
        node: Node,
        keys: Keys,
        clock: Clock,
        (plan, listening): (ListenPlan, Listening),
        options: &DriverOptions,
        application: Arc<dyn Application>,
    ) -> Result<Driver, DriverError> {
        let (inputs, receiver) = mpsc::channel(INPUTS_MAX);
        let stop = Arc::new(Notify::new());
        let told_of_the_end = Arc::clone(&application);
        let parts = Parts {
            node,
            keys,
            clock,
            listener: listening.listener,
            unreached: listening.advertised.is_empty().then_some((plan, listening.bound)),
            plain: options.plain,
            limit: options.max_rate_bytes_per_s,
            application,
            inputs: inputs.clone(),
        };
        let engine = Engine::new(parts).map_err(|error| DriverError::Threads(Arc::new(error)))?;
        let task = tokio::spawn(engine.run(receiver, Arc::clone(&stop)));
        tokio::spawn(async move {
            // A panic is our bug, but nobody should wait for ever because of it.
            if task.await.is_err() {
                told_of_the_end.handle(Notice::Ended);
            }
        });
        Ok(Driver { handle: DriverHandle { inputs, runtime: Handle::current() }, stop })
    }

    /// Says goodbye to all peers and closes everything, within a second. Objects that are not complete are given up, and it
    /// is waited for until nothing of them is left, however long removing a large tree takes.
    pub async fn leave(&self) {
        let (done, left) = oneshot::channel();
        self.handle.command(Command::Leave { done }).await;
        // An error means that the node has ended already.
        let _ = left.await;
    }

    /// For giving commands.
    pub fn handle(&self) -> &DriverHandle {
        &self.handle
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

fn config(
    options: &DriverOptions,
    listening: &Listening,
    group: GroupId,
    keys: &Keys,
) -> Result<NodeConfig, IdentityError> {
    Ok(NodeConfig {
        group,
        name: options.name.clone(),
        cluster: options.cluster.clone(),
        addresses: listening.advertised.clone(),
        key: keys.public(),
        plain: options.plain,
        seed: u64::from_be_bytes(random()?),
        registry: Registry::default(),
        overlays: options.overlays.clone(),
        trusts_members: options.trusts_members,
    })
}

fn random<const N: usize>() -> Result<[u8; N], IdentityError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| IdentityError::NoRandomness)?;
    Ok(bytes)
}

// ---- Commands ----

impl DriverHandle {
    /// Starts a broadcast of this node's `source`. `whole` is all of it, if it fits into one frame, and was found unchanged after it was
    /// read. None if the node
    /// carries as many broadcasts as it can, has left, or does not know the strategy.
    pub async fn broadcast(
        &self,
        descriptor: Descriptor,
        source: Arc<ObjectSource>,
        whole: Option<Vec<u8>>,
        receivers: Option<u32>,
    ) -> Option<BroadcastId> {
        let (answer, started) = oneshot::channel();
        let descriptor = Box::new(descriptor);
        let mut claim = Claim { handle: self, started };
        self.command(Command::Broadcast { descriptor, source, whole, receivers, answer }).await;
        (&mut claim.started).await.ok().flatten()
    }

    /// Takes an announced object.
    pub async fn accept(&self, broadcast: BroadcastId, sink: Arc<ObjectSink>) {
        self.command(Command::Accept { broadcast, sink }).await;
    }

    /// Gives up a broadcast of this node; all members are told why.
    pub async fn abort(&self, broadcast: BroadcastId, reason: String) {
        self.command(Command::Abort { broadcast, reason }).await;
    }

    /// Does not take an announced object, or not any more; the coordinator is told why.
    pub fn decline(&self, broadcast: BroadcastId, reason: String) {
        self.post(Command::Decline { broadcast, reason });
    }

    /// A broadcast is of no more use to the application: it is not served any more.
    pub fn forget(&self, broadcast: BroadcastId) {
        self.post(Command::Forget { broadcast });
    }

    /// Where a broadcast stands at this node; empty if it is not known.
    pub async fn view(&self, broadcast: BroadcastId) -> NodeView {
        let (answer, view) = oneshot::channel();
        self.command(Command::View { broadcast, answer }).await;
        view.await.unwrap_or_default()
    }

    /// The strategy that is best for an object, as far as this node knows; none if it has left.
    pub async fn choose(&self, object: Extent, costs: Costs) -> Option<Choice> {
        let (answer, choice) = oneshot::channel();
        self.command(Command::Choose { object, costs, answer }).await;
        choice.await.ok()
    }

    /// Has the members measure the network; the event `Measured` follows. False if this node is not the coordinator, or has
    /// ended.
    pub async fn measure(&self) -> bool {
        let (answer, begun) = oneshot::channel();
        self.command(Command::Measure { answer }).await;
        begun.await.unwrap_or(false)
    }

    async fn command(&self, command: Command) {
        // If the node has ended, its application has been told.
        let _ = self.inputs.send(Input::Command(command)).await;
    }

    /// Gives a command from where nobody can wait, such as a destructor, on whatever thread.
    fn post(&self, command: Command) {
        let Err(TrySendError::Full(input)) = self.inputs.try_send(Input::Command(command)) else { return };
        let inputs = self.inputs.clone();
        self.runtime.spawn(async move { drop(inputs.send(input).await) });
    }
}

/// Whoever waits for the answer to a broadcast. If it stops when the answer is there, nobody has the broadcast's handle.
struct Claim<'a> {
    handle: &'a DriverHandle,
    started: oneshot::Receiver<Option<BroadcastId>>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.started.close();
        if let Ok(Some(broadcast)) = self.started.try_recv() {
            self.handle.post(Command::Unclaimed { broadcast });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn commands_from_a_thread_without_a_runtime_wait_for_room() {
        let (inputs, mut queue) = mpsc::channel(1);
        let handle = DriverHandle { inputs, runtime: Handle::current() };
        let giving = std::thread::spawn(move || (0..3).for_each(|_| handle.forget(BroadcastId::default())));
        giving.join().expect("it waits for nothing");
        for _ in 0..3 {
            assert!(matches!(queue.recv().await, Some(Input::Command(Command::Forget { .. }))));
        }
    }
}
