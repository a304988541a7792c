//! The task that owns the node. Each input is handed to the core, and then everything that the core wants is carried
//! out before the next one; nothing here waits for links, threads or the application.
//!
//! | file | what |
//! |---|---|
//! | `inputs` | what comes in |
//! | `outputs` | what the core wants done |
//! | `links` | opening and closing links |
//! | `transfers` | sources, sinks and pieces of broadcasts |
//! | `view` | what those who watch are told |

mod inputs;
mod links;
mod outputs;
mod transfers;
mod view;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use mobcast_proto::limits::FRAMES_ARRIVED_BYTES_MAX;
use mobcast_proto::node::Node;
use mobcast_proto::{BroadcastId, LinkId, Time};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};
use tracing::warn;

use super::clock::Clock;
use super::dial::Doorway;
use super::input::Input;
use super::keys::Keys;
use super::ledger::Ledger;
use super::link::queue::FramesWaiting;
use super::link::spans::SpanReader;
use super::link::writer::Shared;
use super::listen::{ListenPlan, accept_all};
use super::pieces::PieceTable;
use super::rate::Limit;
use super::workers::Workers;
use super::{Application, Notice};
use links::{OpenDial, OpenLink};
use transfers::Transfer;

/// Threads that verify and store pieces, and as many that read, at most.
const THREADS_MAX: usize = 4;
/// Inputs taken out of the queue at a time.
const INPUTS_AT_ONCE: usize = 64;
/// For goodbyes, when the node leaves.
const FAREWELL_TIME: Duration = Duration::from_millis(600);
/// For the threads to end what they are doing, when the node leaves.
const THREADS_END_TIME: Duration = Duration::from_millis(300);

/// What an engine is made of.
pub struct Parts {
    /// The core, just made.
    pub node: Node,
    /// The node's keys.
    pub keys: Keys,
    /// The clock by which the core was made.
    pub clock: Clock,
    /// Where others connect.
    pub listener: TcpListener,
    /// By which plan and at which address, if it is not known where others reach that.
    pub unreached: Option<(ListenPlan, SocketAddr)>,
    /// Whether payload may travel in the clear.
    pub plain: bool,
    /// Limit to the payload sent, bytes per second.
    pub limit: Option<u64>,
    /// Who is told.
    pub application: Arc<dyn Application>,
    /// By which everybody else reaches the engine.
    pub inputs: mpsc::Sender<Input>,
}

/// The node and everything that is done for it.
pub struct Engine {
    node: Node,
    keys: Keys,
    clock: Clock,
    application: Arc<dyn Application>,
    inputs: mpsc::Sender<Input>,
    plain: bool,
    doorway: watch::Sender<Option<Arc<Doorway>>>,
    /// As long as it is not known where others reach this node.
    unreached: Option<(ListenPlan, SocketAddr)>,
    /// Listening and probing: tasks that end by themselves or with the engine.
    tasks: JoinSet<()>,
    dials: BTreeMap<LinkId, OpenDial>,
    links: BTreeMap<LinkId, OpenLink>,
    /// What crossed them and those before them.
    ledger: Ledger,
    /// When the links are to be looked at again.
    look_at: Time,
    /// Links whose frames pile up, to be given up when the core is not in the middle of something.
    congested: Vec<(LinkId, usize)>,
    /// Bytes of frames that wait on all of them.
    frames_waiting: FramesWaiting,
    /// Places, in bytes, for frames that have come over all of them.
    frames_arrived: Arc<Semaphore>,
    /// Links that say goodbye.
    closing: JoinSet<()>,
    /// Partial objects that are being removed, each on a thread of its own: that waits for the disk alone, and nothing waits behind it.
    removing: JoinSet<()>,
    writers: Shared,
    pieces: Arc<PieceTable>,
    transfers: BTreeMap<BroadcastId, Transfer>,
    storing: Arc<Workers>,
    reading: Arc<Workers>,
    /// Whether the runtime has one thread, so that waking another one costs more than a quick piece does.
    single: bool,
}

/// Whether the engine goes on.
enum Flow {
    On,
    Leave(Option<oneshot::Sender<()>>),
}

impl Engine {
    /// Starts the threads and listens. Must be called within a runtime.
    pub fn new(parts: Parts) -> io::Result<Engine> {
        let Parts { node, keys, clock, listener, unreached, plain, limit, application, inputs } = parts;
        let threads = available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let storing = Arc::new(Workers::start("mobcast-store", threads)?);
        let reading = Arc::new(Workers::start("mobcast-read", threads)?);
        let (doorway, shown) = watch::channel(None);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept_all(listener, shown, inputs.clone()));
        let writers = Shared {
            inputs: inputs.clone(),
            spans: Arc::new(SpanReader::new(Arc::clone(&reading))),
            limit: limit.map(|rate| Arc::new(Limit::new(rate))),
        };
        Ok(Engine {
            node,
            keys,
            clock,
            application,
            inputs,
            plain,
            doorway,
            unreached,
            tasks,
            dials: BTreeMap::new(),
            links: BTreeMap::new(),
            ledger: Ledger::default(),
            look_at: Time::ZERO,
            congested: Vec::new(),
            frames_waiting: FramesWaiting::default(),
            frames_arrived: Arc::new(Semaphore::new(FRAMES_ARRIVED_BYTES_MAX)),
            closing: JoinSet::new(),
            removing: JoinSet::new(),
            writers,
            pieces: Arc::default(),
            transfers: BTreeMap::new(),
            storing,
            reading,
            single: Handle::current().metrics().num_workers() == 1,
        })
    }

    /// Runs until the node leaves, or `stop` is notified.
    pub async fn run(mut self, mut inputs: mpsc::Receiver<Input>, stop: Arc<Notify>) {
        self.drain();
        let mut batch = Vec::with_capacity(INPUTS_AT_ONCE);
        let mut timer = pin!(sleep_until(self.deadline()));
        let done = 'run: loop {
            let deadline = self.deadline();
            if timer.deadline() != deadline {
                timer.as_mut().reset(deadline);
            }
            tokio::select! {
                () = stop.notified() => break None,
                _ = inputs.recv_many(&mut batch, INPUTS_AT_ONCE) => {}
                () = &mut timer => {}
            }
            for input in batch.drain(..) {
                if let Flow::Leave(done) = self.handle(input) {
                    break 'run done;
                }
            }
            // Also when inputs keep coming, so that they do not keep the timers waiting.
            let now = self.clock.now();
            if self.node.poll_timeout() <= now {
                self.find_addresses();
                self.node.handle_timeout(now);
                self.drain();
            }
            self.watch_links(now);
            while self.closing.try_join_next().is_some() || self.tasks.try_join_next().is_some() {}
            while self.removing.try_join_next().is_some() {}
        };
        self.shut_down(inputs).await;
        if let Some(done) = done {
            // Whoever asked may have stopped waiting.
            let _ = done.send(());
        }
    }

    fn deadline(&self) -> tokio::time::Instant {
        let due = self.node.poll_timeout();
        self.clock.instant(self.look_due().map_or(due, |look| due.min(look))).into()
    }

    fn tell(&self, notice: Notice) {
        self.application.handle(notice);
    }

    /// Says goodbye and ends everything.
    async fn shut_down(mut self, mut inputs: mpsc::Receiver<Input>) {
        self.tasks.shutdown().await;
        self.dials.clear();
        self.node.leave(self.clock.now());
        self.drain();
        for broadcast in self.transfers.keys().copied().collect::<Vec<_>>() {
            self.end_transfer(broadcast);
        }
        // Links may be waiting to tell something; nobody listens any more, but they must not be held up.
        let farewell = async {
            loop {
                tokio::select! {
                    ended = self.closing.join_next() => if ended.is_none() { return },
                    _ = inputs.recv() => {}
                }
            }
        };
        if timeout(FAREWELL_TIME, farewell).await.is_err() {
            self.closing.shutdown().await;
        }
        inputs.close();
        drop(inputs);
        self.links.clear();
        let Engine { storing, reading, writers, application, mut removing, .. } = self;
        drop(writers);
        let join = tokio::task::spawn_blocking(move || {
            for workers in [storing, reading] {
                // Tasks that were aborted may hold the other references for another moment; the threads end all the
                // same, only nobody waits for them.
                if let Some(workers) = Arc::into_inner(workers) {
                    workers.join();
                }
            }
        });
        if timeout(THREADS_END_TIME, join).await.is_err() {
            warn!("a thread is held up by the disk; it ends when the disk answers");
        }
        // However large it is: a node leaves nothing behind.
        while removing.join_next().await.is_some() {}
        application.handle(Notice::Ended);
    }
}
