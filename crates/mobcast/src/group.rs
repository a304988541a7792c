//! A process as a member of a group.

use std::sync::Arc;
use std::time::Duration;

use mobcast_net::driver::{Driver, DriverError, DriverOptions};
use mobcast_net::store::{ObjectSource, StoreError};
use mobcast_proto::NodeId;
use mobcast_proto::content::Descriptor;
use mobcast_proto::content::announcement::WHOLE_BYTES_MAX;
use mobcast_proto::content::piece_size::PieceSizeInput;
use mobcast_proto::group::ticket::Ticket;
use mobcast_proto::limits::{PIECE_SIZE_MAX, PIECE_SIZE_MIN, PIECES_MAX};
use mobcast_proto::strategy::choice::{AUTO, Extent, Unknown, candidates, choose};
use mobcast_proto::strategy::overlay::Overlays;
use mobcast_proto::strategy::{Registry, StrategyKind, piece_size_of};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, RwLock, mpsc};
use tokio::time::timeout;

use crate::gauge::Kind;
use crate::source::SourceKind;
use crate::state::{GroupState, Standing};
use crate::transfer::Transfer;
use crate::{Broadcast, BroadcastOptions, Error, EventStream, Gauge, GroupOptions, Measurement, Offer, Source};

/// Piece size of objects that travel in one frame, bytes: such an object must not have two pieces.
const WHOLE_PIECE_SIZE: u32 = 64 << 10;
const _: () = assert!(WHOLE_BYTES_MAX <= WHOLE_PIECE_SIZE as u64);

/// What nodes take to make their links once they are members, with room to spare: a link between continents needs three round
/// trips.
const LINKING: Duration = Duration::from_secs(1);

/// Who this node is in its group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeInfo {
    /// Its number.
    pub id: NodeId,
    /// What it calls itself.
    pub name: String,
    /// Its cluster's name.
    pub cluster: String,
    /// Why it is in that cluster.
    pub reason: String,
}

/// A member of a group; clones are handles of the same one. When the last handle (of broadcasts, too) is dropped, the
/// node leaves without waiting; [`Group::leave`] waits until its peers know.
#[derive(Clone, Debug)]
pub struct Group {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) driver: Driver,
    pub(crate) state: Arc<GroupState>,
    pub(crate) options: GroupOptions,
    ticket: Option<Ticket>,
    offers: Mutex<mpsc::UnboundedReceiver<Arc<Transfer>>>,
    /// Held, to be shared, while a destination is prepared: whoever leaves waits for it, as it leaves something behind.
    pub(crate) openings: Arc<RwLock<()>>,
}

// ---- Coming and going ----

impl Group {
    /// Founds a group, of which this node is the coordinator.
    pub async fn create(options: GroupOptions) -> Result<Group, Error> {
        options.check()?;
        let overlays = overlays(&options)?;
        let (state, offers) = GroupState::new(options.name.clone(), true);
        let driver_options = driver_options(&options, overlays);
        let (driver, ticket) = Driver::found(driver_options, options.expires, Arc::clone(&state) as _)?;
        let group = Group::new(driver, state, options, Some(ticket), offers);
        group.standing().await?;
        Ok(group)
    }

    /// Joins the group of `ticket`. An attempt that does not reach the coordinator is repeated until `wait` is over.
    pub async fn join(ticket: &Ticket, options: GroupOptions, wait: Duration) -> Result<Group, Error> {
        options.check()?;
        let (state, offers) = GroupState::new(options.name.clone(), false);
        let driver = Driver::join(ticket, driver_options(&options, Overlays::default()), Arc::clone(&state) as _)?;
        let group = Group::new(driver, state, options, None, offers);
        match timeout(wait, group.standing()).await {
            Ok(result) => result.map(|()| group),
            Err(_) => {
                let reason = match &*group.inner.state.standing.borrow() {
                    Standing::Joining(Some(reason)) => reason.clone(),
                    _ => "it did not answer in that time; give it longer, or check that no firewall is between".into(),
                };
                Err(Error::Unreachable { wait, reason })
            }
        }
    }

    fn new(
        driver: Driver,
        state: Arc<GroupState>,
        options: GroupOptions,
        ticket: Option<Ticket>,
        offers: mpsc::UnboundedReceiver<Arc<Transfer>>,
    ) -> Group {
        // It is set here and nowhere else.
        let _ = state.driver.set(driver.handle().clone());
        let (offers, openings) = (Mutex::new(offers), Arc::default());
        Group { inner: Arc::new(Inner { driver, state, options, ticket, offers, openings }) }
    }

    /// Waits until the node is a member, or will not become one.
    async fn standing(&self) -> Result<(), Error> {
        let mut standing = self.inner.state.standing.subscribe();
        let decided = standing.wait_for(|now| !matches!(now, Standing::Joining(_))).await;
        match decided.map_err(|_| Error::Left)?.clone() {
            Standing::Member => Ok(()),
            Standing::Refused(error) => Err(error),
            Standing::Joining(_) | Standing::Ended => Err(Error::Left),
        }
    }

    /// Says goodbye and closes everything, within a second. What is not complete is given up, and its partial state
    /// removed, which takes longer where that is a tree of many thousand files, or a file whose space is still being reserved.
    pub async fn leave(self) {
        self.inner.driver.leave().await;
        let _all_prepared = self.inner.openings.write().await;
    }
}

// ---- Reading ----

impl Group {
    /// The ticket by which others join; the founder has it.
    pub fn ticket(&self) -> Option<&Ticket> {
        self.inner.ticket.as_ref()
    }

    /// Who this node is.
    pub fn node(&self) -> NodeInfo {
        self.inner.state.node()
    }

    /// Members of the group besides this node, as far as the coordinator knows; none elsewhere.
    pub fn members(&self) -> Vec<NodeInfo> {
        let members = self.inner.state.members().into_iter();
        members.filter(|member| !member.lost).map(|member| member.info).collect()
    }

    /// Waits until this many other nodes are members and have had time to make their links. Only at the coordinator.
    pub async fn gather(&self, members: usize) -> Result<(), Error> {
        let mut events = self.inner.state.subscribe();
        while self.members().len() < members {
            while self.members().len() < members {
                if let Err(RecvError::Closed) = events.recv().await {
                    return Err(Error::Left);
                }
            }
            // One may be lost meanwhile.
            tokio::time::sleep(LINKING).await;
        }
        Ok(())
    }

    /// Has the members measure the network between their clusters, for the strategies that plan for it, and waits until they have,
    /// and have the places that the plans give them. It takes about a second for each cluster, and at most half a minute and eight
    /// seconds for each. Only at the coordinator.
    pub async fn measure(&self) -> Result<Arc<Measurement>, Error> {
        let before = self.inner.state.measured.borrow().clone();
        let mut measured = self.inner.state.measured.subscribe();
        // If they are about it, that is waited for.
        if !self.inner.driver.handle().measure().await {
            let reason = "only the node that coordinates the group, which is its founder as a rule, can have the network measured";
            return Err(Error::Gauge(reason.to_owned()));
        }
        let is_new = |now: &Option<Arc<Measurement>>| match (now, &before) {
            (Some(now), Some(before)) => !Arc::ptr_eq(now, before),
            (now, _) => now.is_some(),
        };
        let result = tokio::select! {
            now = measured.wait_for(is_new) => now.ok().and_then(|now| now.clone()),
            () = self.standing_ended() => None,
        };
        tokio::time::sleep(LINKING).await;
        result.ok_or(Error::Left)
    }

    /// What came of the last measurement of the network.
    pub fn measurement(&self) -> Option<Arc<Measurement>> {
        self.inner.state.measured.borrow().clone()
    }

    /// What happens in the group, from here on.
    pub fn events(&self) -> EventStream {
        EventStream { receiver: self.inner.state.subscribe() }
    }
}

// ---- Broadcasting ----

impl Group {
    /// Starts a broadcast with this node as its root. Members are told at once; later joiners when they come.
    pub async fn broadcast(&self, source: Source, options: BroadcastOptions) -> Result<Broadcast, Error> {
        let is_auto = options.strategy == AUTO;
        if !is_auto {
            let kind = Registry::default().named(&options.strategy)?;
            if self.inner.ticket.is_some() && !overlays(&self.inner.options)?.carry(kind) {
                return Err(Error::NotFounded {
                    name: options.strategy,
                    founded: self.inner.options.strategies.clone(),
                });
            }
        }
        let spool_dir = self.inner.options.spool_dir.clone();
        let quick = source.opens_at_once();
        let source = aside(quick, move || open(source, &spool_dir)).await??;
        let driver = self.inner.driver.handle();
        let object = Extent { bytes: source.description().length, piece_size: options.piece_size };
        // Of a group that is still to come, nothing is known.
        let is_early = options.receivers.is_some_and(|receivers| receivers as usize > self.members().len());
        let is_unmeasured = self.measurement().is_none() && self.inner.ticket.is_some() && !self.members().is_empty();
        if is_unmeasured && !is_early && self.inner.options.gauge.as_ref().is_some_and(Gauge::measures) {
            self.measure().await?;
        }
        let choice = match (is_auto, is_early) {
            (true, true) => {
                Some(choose(object, Err(Unknown::Early), &overlays(&self.inner.options)?, &self.inner.options.costs))
            }
            (true, false) => Some(driver.choose(object, self.inner.options.costs).await.ok_or(Error::Left)?),
            (false, _) => None,
        };
        let mut options = options;
        if let Some(choice) = &choice {
            choice.strategy.clone_into(&mut options.strategy);
            options.piece_size = options.piece_size.or(choice.piece_size);
        }
        let expected = options.receivers.or_else(|| u32::try_from(self.members().len()).ok().filter(|&n| n > 0));
        let receivers = options.receivers;
        let quick = source.is_in_memory();
        let prepared = aside(quick, move || prepare(source, &options, expected)).await??;
        let Prepared { source, descriptor, whole } = prepared;
        let started = driver.broadcast(descriptor, source, whole, receivers).await;
        let Some(id) = started else {
            let ended = matches!(*self.inner.state.standing.borrow(), Standing::Ended);
            return Err(if ended { Error::Left } else { Error::Busy });
        };
        let transfer = self.inner.state.transfer(id).ok_or(Error::Left)?;
        Ok(Broadcast::new(Arc::clone(&self.inner), transfer, choice))
    }

    /// Waits for the next broadcast that another member announces. There is place for 64 that are not over, and for 128 whose handles are
    /// kept: of another one this node reports that it cannot have it.
    pub async fn next_offer(&self) -> Result<Offer, Error> {
        let ended = self.standing_ended();
        let next = async { self.inner.offers.lock().await.recv().await };
        tokio::select! {
            biased;
            transfer = next => transfer.map(|transfer| Offer::new(Arc::clone(&self.inner), transfer)).ok_or(Error::Left),
            () = ended => Err(Error::Left),
        }
    }

    async fn standing_ended(&self) {
        let mut standing = self.inner.state.standing.subscribe();
        // The sender lives as long as this handle.
        let _ = standing.wait_for(|now| matches!(now, Standing::Ended)).await;
    }
}

/// Does what may block on a thread for that, and at once what is `quick`: a small object is over before a thread has woken.
pub(crate) async fn aside<T: Send + 'static>(
    quick: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    if quick {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Left)
}

/// A broadcast that is ready to start.
struct Prepared {
    source: Arc<ObjectSource>,
    descriptor: Descriptor,
    whole: Option<Vec<u8>>,
}

/// The links of a group that is founded with these options.
fn overlays(options: &GroupOptions) -> Result<Overlays, Error> {
    let candidates: Vec<&str> = candidates(options.gauge.is_some()).collect();
    let named = options.strategies.iter().flat_map(|name| match name.as_str() {
        AUTO => candidates.clone(),
        name => vec![name],
    });
    let named: Vec<&str> = named.collect();
    Ok(match options.gauge.as_ref().map(|gauge| &gauge.0) {
        Some(Kind::Measured) => Overlays::measuring(Registry::default(), &named)?,
        Some(Kind::Known(network)) => Overlays::of(&named, Some(Arc::clone(network)))?,
        None => Overlays::of(&named, None)?,
    })
}

/// Opens a source. Blocks.
fn open(source: Source, spool_dir: &std::path::Path) -> Result<ObjectSource, Error> {
    Ok(match source.0 {
        SourceKind::Path(path) => ObjectSource::open(&path)?,
        SourceKind::Bytes(bytes) => ObjectSource::bytes(bytes)?,
        SourceKind::Synthetic { length, seed } => ObjectSource::synthetic(length, seed)?,
        SourceKind::Reader(reader) => {
            let (source, feeder) = ObjectSource::stream(spool_dir)?;
            let feed = move || {
                // The reader of the source is given the error as well.
                let _ = feeder.run(reader, |_| {});
            };
            let thread = std::thread::Builder::new().name("mobcast-stream".into()).spawn(feed);
            thread.map_err(|error| StoreError::io("start the thread that reads", "the stream", error))?;
            source
        }
    })
}

/// Chooses the piece size, and reads the whole object, if it is small. Blocks.
fn prepare(source: ObjectSource, options: &BroadcastOptions, receivers: Option<u32>) -> Result<Prepared, Error> {
    let description = source.description().clone();
    let own = Registry::default().named(&options.strategy)?;
    let piece_size = piece_size(options.piece_size, own, description.length, receivers)?;
    let small = description.length.filter(|&length| length <= WHOLE_BYTES_MAX && length <= u64::from(piece_size));
    let whole = small.map(|length| -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; length as usize];
        source.read_at(0, &mut bytes)?;
        source.check_unchanged()?;
        Ok(bytes)
    });
    let whole = whole.transpose()?;
    let descriptor = description.into_descriptor(piece_size, &options.strategy);
    Ok(Prepared { source: Arc::new(source), descriptor, whole })
}

/// The piece size that was `asked` for; or that of its `own` strategy.
fn piece_size(
    asked: Option<u32>,
    own: &StrategyKind,
    length: Option<u64>,
    receivers: Option<u32>,
) -> Result<u32, Error> {
    let Some(size) = asked else {
        let small = length.is_some_and(|length| length <= WHOLE_BYTES_MAX);
        let input = PieceSizeInput { length, receivers };
        return Ok(if small { WHOLE_PIECE_SIZE } else { piece_size_of(Some(own), input) });
    };
    let refuse = |reason: String| Err(Error::PieceSize { size: size.into(), reason });
    if !size.is_power_of_two() || !(PIECE_SIZE_MIN..=PIECE_SIZE_MAX).contains(&size) {
        return refuse(format!("choose a power of two from {PIECE_SIZE_MIN} to {PIECE_SIZE_MAX}"));
    }
    if length.is_some_and(|length| length.div_ceil(u64::from(size)) > u64::from(PIECES_MAX)) {
        return refuse(format!("the object would have more than {PIECES_MAX} pieces; choose a larger size"));
    }
    Ok(size)
}

fn driver_options(options: &GroupOptions, overlays: Overlays) -> DriverOptions {
    DriverOptions {
        name: options.name.clone(),
        cluster: options.cluster.clone(),
        listen: options.listen,
        advertise: options.advertise.clone(),
        plain: options.plain,
        max_rate_bytes_per_s: options.max_rate_bytes_per_s,
        overlays,
        trusts_members: options.trust_members,
    }
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Error {
        match error {
            DriverError::Listen { address, source } => Error::Listen { address, source },
            DriverError::Identity(error) => Error::Identity(error),
            DriverError::NoAddress => Error::Address(error.to_string()),
            DriverError::Threads(error) => Error::Threads(error),
        }
    }
}
