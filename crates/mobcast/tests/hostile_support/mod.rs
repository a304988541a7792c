//! A member that does what it likes: admitted like any other, with real keys and a real certificate, over real sockets;
//! what it sends is up to the test. And the log of the honest nodes of this process.

#![allow(dead_code, reason = "each test file uses its own part of it")]

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use mobcast::{NodeId, Ticket};
use mobcast_net::channel::{HandshakeError, Incoming, Receiver, Sender, connect};
use mobcast_net::tls::{Certificate, Expected, Identity, Membership, NodeKey};
use mobcast_proto::content::manifest::{SignatureDomain, signed_message};
use mobcast_proto::group::assignment::{Assignment, Credential};
use mobcast_proto::wire::frame::Join;
use mobcast_proto::wire::{Frame, Hello, NODE_UNKNOWN, PROTOCOL_VERSION};
use mobcast_proto::{ClusterId, GroupId, Signature};
use tokio::net::TcpStream;

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Keeps what the nodes log at INFO and above, as a user sees it. To be called before anything is logged.
pub fn keep_log() {
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::INFO);
    // Another test of this process may have been first.
    let _ = subscriber.with_ansi(false).with_writer(|| Log).try_init();
}

/// Where the log ends.
pub fn log_end() -> usize {
    LOG.lock().unwrap_or_else(PoisonError::into_inner).len()
}

/// Whether a line of the log behind `start` has all these words.
pub fn is_logged(start: usize, words: &[&str]) -> bool {
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    String::from_utf8_lossy(&log[start..]).lines().any(|line| words.iter().all(|word| line.contains(word)))
}

/// A member with a mind of its own.
pub struct Puppet {
    group: GroupId,
    pub key: Arc<NodeKey>,
    pub credential: Credential,
    pub credential_signature: Signature,
    pub assignment: Assignment,
    pub identity: Identity,
}

/// One of its links.
pub struct Link {
    pub sender: Sender,
    pub receiver: Receiver,
}

impl Puppet {
    /// Joins the group by its ticket, as any node does, in a cluster, and listens nowhere.
    pub async fn join(ticket: &Ticket, cluster: &str) -> Puppet {
        let key = Arc::new(NodeKey::random().expect("random bytes"));
        let identity = Identity::joiner(ticket).expect("an identity");
        let hello = hello(ticket.group, NODE_UNKNOWN, false);
        let mut link = Link::dial(ticket.addresses[0], &identity, Expected::Coordinator, hello).await.expect("let in");
        let (name, cluster) = ("puppet".to_owned(), Some(cluster.to_owned()));
        link.send(&Frame::Join(Join { name, cluster, addresses: vec![], key: key.public() })).await;
        let mut admission = None;
        loop {
            match link.next().await.expect("the coordinator answers") {
                Frame::Admit { credential, signature, certificate, .. } => {
                    admission = Some((credential, signature, Certificate(certificate)));
                }
                Frame::Assign { assignment, .. } => {
                    let (credential, credential_signature, certificate) = admission.expect("admitted before assigned");
                    let now = credential.expires_unix_s - 1;
                    let membership =
                        Membership::new(ticket.group, ticket.authority, Arc::clone(&key), certificate, now);
                    let identity = Identity::member(&membership.expect("a membership")).expect("an identity");
                    let (group, assignment) = (ticket.group, *assignment);
                    return Puppet { group, key, credential, credential_signature, assignment, identity };
                }
                _ => {}
            }
        }
    }

    pub fn node(&self) -> NodeId {
        self.credential.node
    }

    /// Where a member of its own cluster listens.
    pub fn address_of(&self, node: NodeId) -> SocketAddr {
        let peers = self.assignment.local_peers.iter().chain(&self.assignment.global_peers);
        let mut peers = peers.chain(&self.assignment.parent);
        peers.find(|peer| peer.node == node).expect("it was told of that node").addresses[0]
    }

    /// Connects to a member.
    pub async fn dial(&self, node: NodeId, plain: bool) -> Link {
        let hello = hello(self.group, self.node(), plain);
        self.dial_as(node, hello).await
    }

    /// Connects to a member with any greeting.
    pub async fn dial_as(&self, node: NodeId, hello: Hello) -> Link {
        let address = self.address_of(node);
        Link::dial(address, &self.identity, Expected::Node(node), hello).await.expect("its certificate is good")
    }

    /// Signs with its own key; it has no other.
    pub fn sign(&self, domain: SignatureDomain, body: &[u8]) -> Signature {
        self.key.sign(&signed_message(domain, self.group, body))
    }
}

impl Link {
    pub async fn dial(
        address: SocketAddr,
        identity: &Identity,
        expected: Expected,
        hello: Hello,
    ) -> Result<Link, HandshakeError> {
        let stream = TcpStream::connect(address).await.expect("it listens");
        let (sender, mut receiver, _) = connect(stream, identity, expected).await?;
        if hello.plain {
            receiver.permit_plain();
        }
        let mut link = Link { sender, receiver };
        link.send(&Frame::Hello(hello)).await;
        assert!(matches!(link.next().await, Some(Frame::Hello(_))), "the peer greets");
        Ok(link)
    }

    /// Sends a frame; if the peer has closed the link, that shows when reading.
    pub async fn send(&mut self, frame: &Frame) {
        let _ = self.sender.send_frames(&[frame.encode()]).await;
    }

    /// The next frame; none when the peer has closed the link. Payload is skipped.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            match super::common::within(self.receiver.next()).await {
                Ok(Incoming::Frame(bytes)) => return Some(Frame::decode(bytes).expect("honest nodes send frames")),
                Ok(Incoming::Payload(_)) => self.receiver.skip_payload().await.expect("the rest of a chunk"),
                Ok(Incoming::Closed) | Err(_) => return None,
            }
        }
    }

    /// Reads until the peer closes the link; returns what it said until then.
    pub async fn until_closed(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }

    /// The first frame that `pick` takes.
    pub async fn expect<T>(&mut self, mut pick: impl FnMut(Frame) -> Option<T>) -> T {
        loop {
            let frame = self.next().await.expect("the link stays up");
            if let Some(found) = pick(frame) {
                return found;
            }
        }
    }
}

/// A greeting.
pub fn hello(group: GroupId, node: NodeId, plain: bool) -> Hello {
    Hello { version: PROTOCOL_VERSION, group, node, cluster: ClusterId(1), stream: 0, plain }
}
