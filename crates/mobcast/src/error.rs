//! What can go wrong, in words for the person at the terminal, and sorted by what a script would do about it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mobcast_net::store::StoreError;
use mobcast_net::tls::IdentityError;
use mobcast_proto::limits::{ADDRESSES_MAX, NAME_BYTES_MAX};
use mobcast_proto::strategy::overlay::OverlayError;

/// Why a group or a broadcast failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The coordinator does not let this node in: wrong, expired or foreign ticket, a full or ending group, another
    /// version of mobcast.
    #[error("not admitted: {0}")]
    NotAdmitted(String),
    /// The coordinator does not answer.
    #[error("the coordinator could not be reached within {} s: {reason}", wait.as_secs_f64().ceil())]
    Unreachable {
        /// How long it was tried.
        wait: Duration,
        /// What the last attempt ended with.
        reason: String,
    },
    /// No socket could be opened where it should listen.
    #[error("cannot listen on {address}: {source}; choose another address or port with the listen option")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The system's answer.
        source: Arc<io::Error>,
    },
    /// No address is known by which others could reach the founder.
    #[error("{0}")]
    Address(String),
    /// The system gives no more threads.
    #[error("cannot start a thread: {0}; check the limits of processes and memory")]
    Threads(Arc<io::Error>),
    /// A key or certificate could not be made.
    #[error("{0}")]
    Identity(Arc<IdentityError>),
    /// The source cannot be read or changed meanwhile, or the sink cannot be written.
    #[error("{0}")]
    Store(Arc<StoreError>),
    /// The name of the node or of its cluster is none that the protocol takes.
    #[error("{what} {name:?} is no name: give it 1 to {NAME_BYTES_MAX} bytes without control characters")]
    Name {
        /// Of what.
        what: &'static str,
        /// What was asked for.
        name: String,
    },
    /// Others cannot be told of so many addresses.
    #[error(
        "too many addresses to advertise: {count} where {ADDRESSES_MAX} fit; leave out those that are of least use to others"
    )]
    Advertise {
        /// How many there are.
        count: usize,
    },
    /// There is no such strategy, or it lacks what it needs.
    #[error(transparent)]
    Strategy(#[from] OverlayError),
    /// The group was founded for other strategies.
    #[error("the group was founded for {}: name {name} among its strategies when it is founded", founded.join(", "))]
    NotFounded {
        /// What was asked for.
        name: String,
        /// What it was founded for.
        founded: Vec<String>,
    },
    /// The description of the network cannot be used.
    #[error("{0}")]
    Gauge(String),
    /// The piece size does not fit.
    #[error("a piece size of {size} bytes is not possible: {reason}")]
    PieceSize {
        /// What was asked for, bytes.
        size: u64,
        /// Why not.
        reason: String,
    },
    /// The group carries as many broadcasts as it can.
    #[error("the group carries too many broadcasts; wait until some are released")]
    Busy,
    /// The root gave the broadcast up.
    #[error("{0}")]
    Aborted(String),
    /// Too many nodes are gone: nobody has what is missing.
    #[error("{0}")]
    Incomplete(String),
    /// Everything arrived and the whole is not what the root signed.
    #[error("the object's hash is not the one that its root signed; its root is faulty")]
    WrongHash,
    /// The node has left the group, or was never asked to stay.
    #[error("the node has left the group")]
    Left,
}

/// What kind of failure an [`Error`] is; each kind has one exit status of the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorClass {
    /// Failed for good: the source changed, the root gave up, a wrong hash, no address to be reached at. Exit status 1.
    Failed,
    /// Not admitted to the group. Exit status 3.
    NotAdmitted,
    /// The source or the peers are lost, or the coordinator was not reached. Exit status 4.
    Incomplete,
    /// What was asked for cannot be: a strategy, gauge, piece size, name or so many addresses. Exit status 2.
    Usage,
    /// This machine's files or sockets. Exit status 5.
    LocalIo,
}

impl Error {
    /// What kind of failure it is.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::NotAdmitted(_) => ErrorClass::NotAdmitted,
            Error::Name { .. }
            | Error::Advertise { .. }
            | Error::Strategy(_)
            | Error::NotFounded { .. }
            | Error::Gauge(_)
            | Error::PieceSize { .. } => ErrorClass::Usage,
            Error::Unreachable { .. } | Error::Incomplete(_) => ErrorClass::Incomplete,
            Error::Listen { .. } | Error::Threads(_) => ErrorClass::LocalIo,
            Error::Store(error) if error.is_local_io() => ErrorClass::LocalIo,
            Error::Store(_)
            | Error::Address(_)
            | Error::Identity(_)
            | Error::Busy
            | Error::Aborted(_)
            | Error::WrongHash
            | Error::Left => ErrorClass::Failed,
        }
    }

    /// Whether a pipe that this node writes to was closed by its reader.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Error::Store(error) if error.is_broken_pipe())
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        Error::Store(Arc::new(error))
    }
}

impl From<IdentityError> for Error {
    fn from(error: IdentityError) -> Error {
        Error::Identity(Arc::new(error))
    }
}
