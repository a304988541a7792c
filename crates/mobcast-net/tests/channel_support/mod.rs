//! A group to play with: its authority, members of it, and connections over loopback.

#![allow(dead_code, reason = "each test file uses its own part of it")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use mobcast_net::channel::{HandshakeError, Receiver, Sender, accept, connect, socket};
use mobcast_net::tls::{Authority, Expected, Identity, JoinSecret, Membership, NodeKey, Role, ServerIdentity};
use mobcast_net::tls::{Certificate, PeerIdentity};
use mobcast_proto::group::ticket::Ticket;
use mobcast_proto::wire::PayloadHeader;
use mobcast_proto::{BroadcastId, ByteRange, GroupId, NodeId, PieceIndex};
use tokio::net::{TcpListener, TcpStream};

/// What one end of a handshake gets.
pub type Outcome = Result<(Sender, Receiver, PeerIdentity), HandshakeError>;

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A group with its coordinator, node 0.
pub struct Group {
    pub authority: Authority,
    pub ticket: Ticket,
}

impl Group {
    pub fn new(number: u8) -> Group {
        let group = GroupId([number; 16]);
        let authority = Authority::random(group).unwrap();
        let ticket = Ticket {
            addresses: vec!["127.0.0.1:1".parse().unwrap()],
            group,
            secret: *NodeKey::random().unwrap().seed(),
            expires_unix_s: now() + 3600,
            authority: authority.public(),
        };
        Group { authority, ticket }
    }

    pub fn member(&self, node: u32) -> Membership {
        self.issue(node, Role::Member)
    }

    pub fn coordinator(&self) -> Membership {
        self.issue(0, Role::Coordinator)
    }

    fn issue(&self, node: u32, role: Role) -> Membership {
        let key = Arc::new(NodeKey::random().unwrap());
        let certificate = self.authority.issue(NodeId(node), key.public(), role, now(), now() + 3600).unwrap();
        self.membership(key, certificate)
    }

    pub fn membership(&self, key: Arc<NodeKey>, certificate: Certificate) -> Membership {
        Membership::new(self.ticket.group, self.ticket.authority, key, certificate, now()).unwrap()
    }

    pub fn join_secret(&self) -> JoinSecret {
        JoinSecret::of_ticket(&self.ticket)
    }
}

pub fn client(membership: &Membership) -> Identity {
    Identity::member(membership).unwrap()
}

pub fn server(membership: &Membership) -> ServerIdentity {
    ServerIdentity::new(membership, None).unwrap()
}

/// A connection over loopback: the dialling end, then the accepting one.
pub async fn tcp_pair() -> (TcpStream, TcpStream) {
    let (listener, address) = listener();
    let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (dialled, accepted) = (dialled.unwrap(), accepted.unwrap().0);
    socket::configure(&dialled).unwrap();
    socket::configure(&accepted).unwrap();
    (dialled, accepted)
}

pub fn listener() -> (TcpListener, SocketAddr) {
    let listener = socket::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Both ends of a handshake.
pub async fn handshake(identity: &Identity, expected: Expected, server: &ServerIdentity) -> (Outcome, Outcome) {
    let (dialled, accepted) = tcp_pair().await;
    tokio::join!(connect(dialled, identity, expected), accept(accepted, server))
}

/// The channel of nodes 1 and 2 of a group: node 1's end, then node 2's.
pub async fn channel() -> ((Sender, Receiver), (Sender, Receiver)) {
    let group = Group::new(1);
    let (one, two) = (client(&group.member(1)), server(&group.member(2)));
    let (dialled, accepted) = handshake(&one, Expected::Node(NodeId(2)), &two).await;
    let ((s1, r1, _), (s2, r2, _)) = (dialled.unwrap(), accepted.unwrap());
    ((s1, r1), (s2, r2))
}

pub fn header(piece: u32, start: u32, len: usize, plain: bool) -> PayloadHeader {
    let range = ByteRange { start, end: start + len as u32 };
    let broadcast = BroadcastId { root: NodeId(0), sequence: 1 };
    PayloadHeader { broadcast, piece: PieceIndex(piece), range, plain }
}
