//! From an address to a link, and from a connection to a link: TCP, TLS, and the greeting by which two nodes learn
//! version, group and number of each other.

use std::io;
use std::iter;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mobcast_proto::io::PeerIdentity;
use mobcast_proto::wire::codec::DecodeError;
use mobcast_proto::wire::{Frame, Hello, NODE_UNKNOWN, PROTOCOL_VERSION};
use tokio::net::TcpStream;
use tokio::time::{timeout, timeout_at};

use crate::channel::{
    ChannelError, HANDSHAKE_TIME, HandshakeError, Incoming, Receiver, Sender, accept, connect_with_greeting, socket,
};
use crate::tls;
use crate::tls::{Expected, Identity, ServerIdentity};

/// All attempts of one dial together.
const DIAL_TIME: Duration = Duration::from_secs(5);

/// A channel to a peer whose greeting was read.
#[derive(Debug)]
pub struct Established {
    /// Who it is.
    pub identity: PeerIdentity,
    /// Its greeting.
    pub hello: Hello,
    /// Where it is.
    pub address: SocketAddr,
    /// For sending.
    pub sender: Sender,
    /// For receiving.
    pub receiver: Receiver,
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The peer listens nowhere.
    #[error("it has no address at which it could be reached")]
    NoAddress,
    /// No connection.
    #[error("no connection to {address}: {source}; check that it is running, and that no firewall is between")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// No channel over the connection.
    #[error("{address}: {source}")]
    Handshake {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: HandshakeError,
    },
    /// The channel ended before the greeting.
    #[error("{address}: {source}")]
    Channel {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: ChannelError,
    },
    /// No greeting came.
    #[error("{address} said nothing after the handshake; it may be overloaded, try again")]
    Silent {
        /// Where.
        address: SocketAddr,
    },
    /// What came is no greeting.
    #[error("{address} sent something else than a greeting: {source}")]
    NoGreeting {
        /// Where.
        address: SocketAddr,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The peer has another version.
    #[error(
        "{address} speaks version {theirs} of the protocol and this program version {ours}; use the same mobcast at \
         both ends"
    )]
    OtherVersion {
        /// Where.
        address: SocketAddr,
        /// This program's version.
        ours: u16,
        /// The peer's.
        theirs: u16,
    },
    /// The peer is of another group.
    #[error("{address} is of another group; use the ticket that its coordinator printed last")]
    OtherGroup {
        /// Where.
        address: SocketAddr,
    },
    /// The peer says that it is somebody else than its certificate does.
    #[error("{address} names a node that its certificate does not")]
    OtherNode {
        /// Where.
        address: SocketAddr,
    },
}

impl DialError {
    /// Whether the peer has refused this node, so that further attempts are in vain.
    pub fn is_refusal(&self) -> bool {
        match self {
            DialError::OtherVersion { .. } | DialError::OtherGroup { .. } | DialError::OtherNode { .. } => true,
            DialError::Handshake { source, .. } => match source {
                HandshakeError::NotAdmitted(_)
                | HandshakeError::Expired
                | HandshakeError::Untrusted(_)
                | HandshakeError::PeerExpired
                | HandshakeError::OtherNode(_)
                | HandshakeError::OtherVersion { .. } => true,
                // A clock that is set right while it waits.
                HandshakeError::PeerNotValidYet
                | HandshakeError::Timeout
                | HandshakeError::NotMobcast
                | HandshakeError::Closed
                | HandshakeError::NoCertificate
                | HandshakeError::Tls(_)
                | HandshakeError::Io(_) => false,
            },
            DialError::NoAddress
            | DialError::Connect { .. }
            | DialError::Channel { .. }
            | DialError::Silent { .. }
            | DialError::NoGreeting { .. } => false,
        }
    }
}

/// Whom to dial, and as whom.
#[derive(Clone, Debug)]
pub struct DialPlan {
    /// This node's identity.
    pub identity: Identity,
    /// Who must answer.
    pub expected: Expected,
    /// Any of these.
    pub addresses: Vec<SocketAddr>,
    /// This node's greeting.
    pub hello: Hello,
    /// What goes right behind it: whoever answers has proved to be the expected one by then.
    pub greeting: Vec<Frame>,
}

/// Tries the addresses one after the other, within 5 s; the last failure is returned, unless an earlier one was a
/// refusal.
pub async fn dial(plan: DialPlan) -> Result<Established, DialError> {
    let deadline = Instant::now() + DIAL_TIME;
    let mut failure = DialError::NoAddress;
    let count = plan.addresses.len() as u32;
    for (i, &address) in plan.addresses.iter().enumerate() {
        // Each address gets its share of what is left, so that one that swallows packets does not use it up.
        let share = deadline.saturating_duration_since(Instant::now()) / (count - i as u32);
        let until = tokio::time::Instant::now() + share;
        let attempt = timeout_at(until, dial_one(&plan, address)).await;
        match attempt.unwrap_or_else(|_| Err(timed_out(address))) {
            Ok(established) => return Ok(established),
            Err(error) if failure.is_refusal() => drop(error),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn timed_out(address: SocketAddr) -> DialError {
    DialError::Connect { address, source: io::ErrorKind::TimedOut.into() }
}

async fn dial_one(plan: &DialPlan, address: SocketAddr) -> Result<Established, DialError> {
    let stream = socket::dial(address, DIAL_TIME).await.map_err(|source| DialError::Connect { address, source })?;
    let hello = Frame::Hello(plan.hello.clone());
    let greeting: Vec<_> = iter::once(&hello).chain(&plan.greeting).map(Frame::encode).collect();
    let channel = connect_with_greeting(stream, &plan.identity, plan.expected, &greeting).await;
    let (sender, mut receiver, peer) = channel.map_err(|source| DialError::Handshake { address, source })?;
    let hello = read_hello(address, &mut receiver).await?;
    let identity = check_hello(address, &hello, plan.hello.group, peer)?;
    Ok(Established { identity, hello, address, sender, receiver })
}

/// What a node shows to those that connect to it.
#[derive(Clone, Debug)]
pub struct Doorway {
    /// Its TLS identity.
    pub server: ServerIdentity,
    /// Its greeting.
    pub hello: Hello,
}

/// Lets a connection in, within `time` at most.
pub async fn admit(
    stream: TcpStream,
    address: SocketAddr,
    doorway: Arc<Doorway>,
    time: Duration,
) -> Result<Established, DialError> {
    let admission = async {
        socket::configure(&stream).map_err(|source| DialError::Connect { address, source })?;
        let channel = accept(stream, &doorway.server).await;
        let (mut sender, mut receiver, peer) = channel.map_err(|source| DialError::Handshake { address, source })?;
        let hello = read_hello(address, &mut receiver).await?;
        // Sent before anything is checked, so that a peer of another version learns of ours.
        let greeting = [Frame::Hello(doorway.hello.clone()).encode()];
        sender.send_frames(&greeting).await.map_err(|source| DialError::Channel { address, source })?;
        let identity = check_hello(address, &hello, doorway.hello.group, peer)?;
        Ok(Established { identity, hello, address, sender, receiver })
    };
    timeout(time, admission).await.unwrap_or(Err(DialError::Silent { address }))
}

async fn read_hello(address: SocketAddr, receiver: &mut Receiver) -> Result<Hello, DialError> {
    let greeting = timeout(HANDSHAKE_TIME, receiver.next()).await.map_err(|_| DialError::Silent { address })?;
    let no_greeting = |source| DialError::NoGreeting { address, source };
    match greeting.map_err(|source| DialError::Channel { address, source })? {
        Incoming::Frame(bytes) => match Frame::decode(bytes).map_err(no_greeting)? {
            Frame::Hello(hello) => Ok(hello),
            _ => Err(no_greeting(DecodeError::Malformed("another frame"))),
        },
        Incoming::Payload(_) => Err(no_greeting(DecodeError::Malformed("payload"))),
        Incoming::Closed => Err(DialError::Channel { address, source: ChannelError::Closed }),
    }
}

/// Who a peer is: what it says must fit what it has proved.
fn check_hello(
    address: SocketAddr,
    hello: &Hello,
    group: mobcast_proto::GroupId,
    peer: tls::PeerIdentity,
) -> Result<PeerIdentity, DialError> {
    if hello.version != PROTOCOL_VERSION {
        return Err(DialError::OtherVersion { address, ours: PROTOCOL_VERSION, theirs: hello.version });
    }
    if hello.group != group {
        return Err(DialError::OtherGroup { address });
    }
    match peer {
        tls::PeerIdentity::Joiner if hello.node == NODE_UNKNOWN => Ok(PeerIdentity::Joiner),
        tls::PeerIdentity::Member { node, .. } if hello.node == node => {
            Ok(PeerIdentity::Member { node, cluster: hello.cluster })
        }
        _ => Err(DialError::OtherNode { address }),
    }
}
