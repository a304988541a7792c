//! From an address to a link, and from a connection to a link: TCP, TLS, and the greeting by which two nodes learn
//! version, group and number of each other.

use std::io;
use std::iter;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mobcast_proto::io::PeerIdentity;
use mobcast_proto::limits::ADDRESSES_MAX;
use mobcast_proto::wire::codec::DecodeError;
use mobcast_proto::wire::{Frame, Hello, NODE_UNKNOWN, PROTOCOL_VERSION};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::channel::{
    ChannelError, HANDSHAKE_TIME, HandshakeError, Incoming, Met, Receiver, Sender, accept, meet, socket,
};
use crate::tls;
use crate::tls::{Expected, Identity, ServerIdentity};

/// All attempts of one dial together.
const DIAL_TIME: Duration = Duration::from_secs(5);
/// An address that has not answered in this time is waited for beside the next one.
const NEXT_AFTER: Duration = Duration::from_millis(250);
/// Where somebody has answered, it has this much longer: it is far away or busy, and another connection costs it a handshake.
const CONNECTED_LONGER: Duration = Duration::from_millis(750);
/// All addresses together have this much longer, so that the last of [`ADDRESSES_MAX`] has its moment too.
const CONNECTED_LONGER_ALL: Duration = Duration::from_millis(2_500);
/// Where there are other addresses, a peer that says nothing to who this node is in this time is asked at the next one of them.
const TURN_TIME: Duration = Duration::from_secs(2);

const _: () = assert!(
    NEXT_AFTER.as_millis() * (ADDRESSES_MAX as u128 - 1) + CONNECTED_LONGER_ALL.as_millis() < DIAL_TIME.as_millis()
);

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

    /// Whether the address has given an answer that would be the same a moment later: nothing of ours is there, or it refuses.
    fn is_answer(&self) -> bool {
        match self {
            DialError::Connect { source, .. } => source.kind() == io::ErrorKind::ConnectionRefused,
            DialError::Handshake { source: HandshakeError::NotMobcast, .. } => true,
            other => other.is_refusal(),
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
    /// Any of these, the best one first.
    pub addresses: Vec<SocketAddr>,
    /// This node's greeting.
    pub hello: Hello,
    /// What goes right behind it: whoever answers has proved to be the expected one by then.
    pub greeting: Vec<Frame>,
}

/// Who answers first at one of the addresses, within 5 s. They are tried in their order, the next one when those before have
/// had a moment (a longer one where somebody is) or one has failed, and none is given up for another one: from far away an answer
/// takes its time.
pub async fn dial(plan: DialPlan) -> Result<Established, DialError> {
    let mut ways: Vec<Way> = plan.addresses.iter().map(|&address| Way::new(address)).collect();
    match timeout(DIAL_TIME, race(plan, &mut ways)).await {
        Ok(Some(decided)) => decided,
        Ok(None) | Err(_) => Err(telling(ways.into_iter().map(Way::failure).collect())),
    }
}

/// An address of a peer, and what has come of it.
#[derive(Debug)]
struct Way {
    address: SocketAddr,
    /// Whether somebody has taken the connection.
    connected: Arc<AtomicBool>,
    failure: Option<DialError>,
}

impl Way {
    fn new(address: SocketAddr) -> Way {
        Way { address, connected: Arc::default(), failure: None }
    }

    /// Of one that has not answered in the end, how far it came is told.
    fn failure(self) -> DialError {
        let address = self.address;
        self.failure.unwrap_or_else(|| match self.connected.load(Ordering::Relaxed) {
            true => DialError::Handshake { address, source: HandshakeError::Timeout },
            false => DialError::Connect { address, source: io::ErrorKind::TimedOut.into() },
        })
    }
}

/// The first success, or a refusal by the peer itself; none if all have failed.
async fn race(plan: DialPlan, ways: &mut [Way]) -> Option<Result<Established, DialError>> {
    let (plan, turn) = (Arc::new(plan), Arc::new(Semaphore::new(1)));
    let mut attempts = JoinSet::new();
    let mut patience = CONNECTED_LONGER_ALL;
    let mut begun = 0;
    loop {
        if let Some(way) = ways.get(begun) {
            let (plan, turn) = (Arc::clone(&plan), Arc::clone(&turn));
            let (index, address, connected) = (begun, way.address, Arc::clone(&way.connected));
            attempts.spawn(async move { (index, dial_one(&plan, address, &turn, &connected).await) });
            begun += 1;
        } else if attempts.is_empty() {
            return None;
        }
        let pause = if begun < ways.len() { NEXT_AFTER } else { DIAL_TIME };
        let mut ended = timeout(pause, attempts.join_next()).await;
        if ended.is_err() && ways[..begun].last().is_some_and(|last| last.connected.load(Ordering::Relaxed)) {
            let longer = CONNECTED_LONGER.min(patience);
            patience -= longer;
            ended = timeout(longer, attempts.join_next()).await;
        }
        match ended {
            Ok(Some(Ok((_, Ok(decided))))) => return Some(decided),
            Ok(Some(Ok((index, Err(error))))) => ways[index].failure = Some(error),
            Ok(_) | Err(_) => {}
        }
    }
}

/// Which of the failures, in the order of their addresses, says most: the first address is the best one, and those behind it
/// may be private to a machine and lead to strangers. So what those say counts only if every address has answered.
fn telling(mut failures: Vec<DialError>) -> DialError {
    let all_answered = failures.iter().all(DialError::is_answer);
    let refusal = failures.iter().position(|failure| all_answered && failure.is_refusal());
    if failures.is_empty() { DialError::NoAddress } else { failures.swap_remove(refusal.unwrap_or(0)) }
}

/// What the wanted peer decides, which has proved who it is by then: no other address has a better answer. Anything else that
/// goes wrong, whoever says it, concerns this address alone.
///
/// Several attempts may reach the peer; `turn` is for one of them at a time to show who this node is, so that it is not taken for
/// two.
async fn dial_one(
    plan: &DialPlan,
    address: SocketAddr,
    turn: &Semaphore,
    connected: &AtomicBool,
) -> Result<Result<Established, DialError>, DialError> {
    let stream = socket::dial(address, DIAL_TIME).await.map_err(|source| DialError::Connect { address, source })?;
    connected.store(true, Ordering::Relaxed);
    let met = meet(stream, &plan.identity, plan.expected).await;
    let met = met.map_err(|source| DialError::Handshake { address, source })?;
    let turn = turn.acquire().await.expect("nobody closes it");
    let time = if plan.addresses.len() > 1 { TURN_TIME } else { DIAL_TIME };
    match timeout(time, greet(plan, address, met)).await.unwrap_or(Err(DialError::Silent { address })) {
        Err(error) if !error.is_refusal() => Err(error),
        decided => {
            // It was the last one.
            turn.forget();
            Ok(decided)
        }
    }
}

/// Shows the peer who this node is, and learns what it says to that.
async fn greet(plan: &DialPlan, address: SocketAddr, met: Met) -> Result<Established, DialError> {
    let hello = Frame::Hello(plan.hello.clone());
    let greeting: Vec<_> = iter::once(&hello).chain(&plan.greeting).map(Frame::encode).collect();
    let greeted = met.greet(&greeting).await;
    let (sender, mut receiver, peer) = greeted.map_err(|source| DialError::Handshake { address, source })?;
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

#[cfg(test)]
mod tests;
