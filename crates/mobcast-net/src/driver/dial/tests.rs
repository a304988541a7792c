//! Dialling peers of several addresses, not all of which lead to them.

use mobcast_proto::group::ticket::Ticket;
use mobcast_proto::{ClusterId, GroupId, NodeId};
use rustls::CertificateError;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::*;
use crate::driver::clock::unix_s;
use crate::driver::keys::Keys;

const GROUP: GroupId = GroupId([7; 16]);

fn hello(node: NodeId) -> Hello {
    Hello { version: PROTOCOL_VERSION, group: GROUP, node, cluster: ClusterId(0), stream: 0, plain: false }
}

/// A coordinator's doorway, and how a joiner dials it at these addresses.
fn group(addresses: Vec<SocketAddr>) -> (Arc<Doorway>, DialPlan) {
    let (secret, expires_unix_s, authority) = ([3; 32], unix_s() + 3600, Default::default());
    let mut ticket = Ticket { addresses: addresses.clone(), group: GROUP, secret, expires_unix_s, authority };
    let (coordinator, ..) = Keys::found(&mut ticket).expect("keys");
    let doorway = coordinator.doorway(hello(NodeId(0))).expect("an identity").expect("it is a member");
    let joiner = Keys::join(&ticket).expect("keys");
    let identity = joiner.joiner().expect("it wants to join").clone();
    let (expected, greeting) = (Expected::Coordinator, Vec::new());
    (Arc::new(doorway), DialPlan { identity, expected, addresses, hello: hello(NODE_UNKNOWN), greeting })
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("free ports");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

/// An address at which nobody listens.
async fn closed() -> SocketAddr {
    listener().await.1
}

async fn arrival(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    listener.accept().await.expect("somebody connects")
}

#[tokio::test]
async fn the_best_address_is_waited_for_however_many_others_there_are() {
    let (best, address) = listener().await;
    let (silent, second) = listener().await;
    let mut addresses = vec![address, second];
    for _ in 2..8 {
        addresses.push(closed().await);
    }
    let (doorway, plan) = group(addresses);
    let far_away = async {
        let (stream, from) = arrival(&best).await;
        // Before it answers, the next address is tried.
        let held = arrival(&silent).await;
        let admitted = admit(stream, from, doorway, HANDSHAKE_TIME).await;
        (admitted, held)
    };
    let (dialled, (admitted, _held)) = tokio::join!(dial(plan), far_away);
    assert_eq!(dialled.expect("it has answered").address, address);
    assert!(admitted.is_ok());
}

#[tokio::test]
async fn who_has_answered_and_is_busy_is_not_asked_at_its_other_addresses_at_once() {
    let (busy, first) = listener().await;
    let (other, second) = listener().await;
    let (_, plan) = group(vec![first, second]);
    let started = Instant::now();
    let peer = async {
        let _held = arrival(&busy).await;
        let met = started.elapsed();
        arrival(&other).await;
        (met, started.elapsed())
    };
    let dialling = dial(plan);
    let (met, asked) = tokio::select! { both = peer => both, _ = dialling => panic!("nobody has answered") };
    // A machine that stood still until then has asked both at once.
    assert!(met >= NEXT_AFTER || asked >= NEXT_AFTER + CONNECTED_LONGER, "{met:?}, {asked:?}");
}

#[tokio::test]
async fn a_node_that_reaches_its_peer_twice_is_not_taken_for_two() {
    let (first, address) = listener().await;
    let (second, other) = listener().await;
    let (doorway, plan) = group(vec![address, other]);
    let peer = async {
        let (one, from) = arrival(&first).await;
        let (two, from_too) = arrival(&second).await;
        let again = admit(two, from_too, Arc::clone(&doorway), HANDSHAKE_TIME);
        let admitted = tokio::join!(admit(one, from, Arc::clone(&doorway), HANDSHAKE_TIME), again);
        [admitted.0.is_ok(), admitted.1.is_ok()]
    };
    let (dialled, admitted) = tokio::join!(dial(plan), peer);
    dialled.expect("it has answered twice");
    assert_eq!(admitted.iter().filter(|&&is_in| is_in).count(), 1);
}

#[tokio::test]
async fn what_the_peer_itself_refuses_is_told_wherever_it_was_reached() {
    let (_silent, first) = listener().await;
    let (listener, second) = listener().await;
    let (doorway, mut plan) = group(vec![first, second]);
    plan.hello.group = GroupId([8; 16]);
    let peer = async {
        let (stream, from) = arrival(&listener).await;
        admit(stream, from, doorway, HANDSHAKE_TIME).await
    };
    let (dialled, _) = tokio::join!(dial(plan), peer);
    assert!(matches!(dialled, Err(DialError::OtherGroup { address }) if address == second));
}

#[tokio::test]
async fn a_stranger_that_refuses_ends_no_attempt_at_another_address() {
    const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];
    let (stranger, first) = listener().await;
    let (listener, second) = listener().await;
    let (doorway, plan) = group(vec![first, second]);
    let network = async {
        let (mut stream, _) = arrival(&stranger).await;
        stream.readable().await.expect("a handshake begins");
        stream.write_all(&ACCESS_DENIED).await.expect("somebody reads it");
        let (peer, from) = arrival(&listener).await;
        (admit(peer, from, doorway, HANDSHAKE_TIME).await, stream)
    };
    let (dialled, (admitted, _stream)) = tokio::join!(dial(plan), network);
    assert_eq!(dialled.expect("the peer has answered").address, second);
    assert!(admitted.is_ok());
}

#[tokio::test]
async fn a_way_that_fails_once_the_peer_is_met_does_not_hold_up_the_others() {
    let (dying, first) = listener().await;
    let (listener, second) = listener().await;
    let (doorway, plan) = group(vec![first, second]);
    let peer = async {
        let (stream, _) = arrival(&dying).await;
        let met = accept(stream, &doorway.server).await.expect("a handshake");
        let (stream, from) = arrival(&listener).await;
        (admit(stream, from, Arc::clone(&doorway), HANDSHAKE_TIME).await, met)
    };
    let (dialled, (admitted, _met)) = tokio::join!(dial(plan), peer);
    assert_eq!(dialled.expect("the peer has answered").address, second);
    assert!(admitted.is_ok());
}

// ---- What is told ----

#[tokio::test]
async fn who_takes_the_connection_and_says_nothing_is_told_from_who_is_not_there() {
    // The system takes connections for it.
    let (_deaf, address) = listener().await;
    let (_, plan) = group(vec![address]);
    let error = dial(plan).await.expect_err("nobody has answered");
    assert!(matches!(error, DialError::Handshake { source: HandshakeError::Timeout, .. }), "{error}");
    assert!(!error.is_refusal());
}

fn timed_out(address: SocketAddr) -> DialError {
    Way::new(address).failure()
}

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 7077))
}

fn refused(host: u8) -> DialError {
    DialError::Connect { address: address(host), source: io::ErrorKind::ConnectionRefused.into() }
}

fn stranger(host: u8) -> DialError {
    let source = HandshakeError::Untrusted(CertificateError::UnknownIssuer);
    DialError::Handshake { address: address(host), source }
}

#[track_caller]
fn tells(failures: Vec<DialError>, expected: &DialError) {
    assert_eq!(telling(failures).to_string(), expected.to_string());
}

#[test]
fn of_several_failures_the_best_address_is_told() {
    tells(vec![timed_out(address(1)), refused(2)], &timed_out(address(1)));
    tells(vec![refused(1), timed_out(address(2))], &refused(1));
    tells(Vec::new(), &DialError::NoAddress);
}

#[test]
fn a_stranger_at_another_address_refuses_nobody_as_long_as_one_has_not_answered() {
    tells(vec![timed_out(address(1)), stranger(2)], &timed_out(address(1)));
    tells(vec![refused(1), stranger(2), timed_out(address(3))], &refused(1));
    tells(vec![refused(1), stranger(2), refused(3)], &stranger(2));
    let busy = DialError::Handshake { address: address(1), source: HandshakeError::Closed };
    tells(vec![busy, stranger(2)], &DialError::Handshake { address: address(1), source: HandshakeError::Closed });
    // Where the peer should be, somebody else is.
    tells(vec![stranger(1), timed_out(address(2))], &stranger(1));
}

#[test]
fn what_would_be_the_same_a_moment_later_is_an_answer() {
    assert!(stranger(1).is_refusal() && stranger(1).is_answer());
    assert!(refused(1).is_answer() && !timed_out(address(1)).is_answer());
}
