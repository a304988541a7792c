//! Who gets in, who does not, and what each side is told.

mod channel_support;

use std::sync::Arc;
use std::time::Duration;

use channel_support::{Group, channel, client, handshake, now, server, tcp_pair};
use mobcast_net::channel::{HANDSHAKE_TIME, HandshakeError, Incoming, accept, connect, connect_with_greeting};
use mobcast_net::driver::DialError;
use mobcast_net::tls::{
    Authority, Expected, Identity, JoinSecret, Membership, NodeKey, PeerIdentity, Role, ServerIdentity,
};
use mobcast_proto::{GroupId, NodeId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const NODE_2: Expected = Expected::Node(NodeId(2));

#[tokio::test]
async fn members_know_each_other_by_node_and_key() {
    let group = Group::new(1);
    let (one, two) = (group.member(1), group.member(2));
    let (dialled, accepted) = handshake(&client(&one), NODE_2, &server(&two)).await;
    let (node, key) = (NodeId(2), two.key().public());
    assert_eq!(dialled.unwrap().2, PeerIdentity::Member { node, key, coordinator: false });
    let (node, key) = (NodeId(1), one.key().public());
    assert_eq!(accepted.unwrap().2, PeerIdentity::Member { node, key, coordinator: false });
}

#[tokio::test]
async fn a_ticket_leads_to_the_coordinator_as_a_joiner() {
    let group = Group::new(1);
    let coordinator = group.coordinator();
    let door = ServerIdentity::new(&coordinator, Some(&group.join_secret())).unwrap();
    let joiner = Identity::joiner(&group.ticket.to_string().parse().unwrap()).unwrap();
    let (dialled, accepted) = handshake(&joiner, Expected::Coordinator, &door).await;
    let key = coordinator.key().public();
    assert_eq!(dialled.unwrap().2, PeerIdentity::Member { node: NodeId(0), key, coordinator: true });
    assert_eq!(accepted.unwrap().2, PeerIdentity::Joiner);
    // A member that comes through the same door is a member.
    let (_, accepted) = handshake(&client(&group.member(1)), Expected::Coordinator, &door).await;
    assert!(matches!(accepted.unwrap().2, PeerIdentity::Member { node: NodeId(1), coordinator: false, .. }));
}

#[tokio::test]
async fn a_successor_that_was_handed_the_authority_is_the_coordinator() {
    let group = Group::new(1);
    let authority = Authority::from_bytes(&group.authority.to_bytes()).unwrap();
    assert_eq!((authority.public(), authority.group()), (group.authority.public(), group.ticket.group));
    let key = Arc::new(NodeKey::random().unwrap());
    let certificate = authority.issue(NodeId(3), key.public(), Role::Coordinator, now(), now() + 60).unwrap();
    let successor = group.membership(key, certificate);
    let (dialled, _) = handshake(&client(&group.member(1)), Expected::Coordinator, &server(&successor)).await;
    assert!(matches!(dialled.unwrap().2, PeerIdentity::Member { node: NodeId(3), coordinator: true, .. }));
    assert!(Authority::from_bytes(&group.authority.to_bytes()[1..]).is_err());
}

#[tokio::test]
async fn a_ticket_with_another_secret_is_refused() {
    let group = Group::new(1);
    let door = ServerIdentity::new(&group.coordinator(), Some(&group.join_secret())).unwrap();
    let mut ticket = group.ticket.clone();
    ticket.secret[0] ^= 1;
    let (dialled, accepted) = handshake(&Identity::joiner(&ticket).unwrap(), Expected::Coordinator, &door).await;
    assert!(matches!(dialled, Err(HandshakeError::NotAdmitted(_))), "{dialled:?}");
    assert!(matches!(accepted, Err(HandshakeError::Untrusted(_))), "{accepted:?}");
}

#[tokio::test]
async fn an_expired_ticket_is_refused_by_the_clock_of_the_door() {
    let mut group = Group::new(1);
    group.ticket.expires_unix_s = now() - 1;
    let door = ServerIdentity::new(&group.coordinator(), Some(&group.join_secret())).unwrap();
    // The joiner claims that it has not expired.
    group.ticket.expires_unix_s = now() + 3600;
    let joiner = Identity::joiner(&group.ticket).unwrap();
    let (dialled, accepted) = handshake(&joiner, Expected::Coordinator, &door).await;
    assert!(matches!(dialled, Err(HandshakeError::Expired)), "{dialled:?}");
    assert!(matches!(accepted, Err(HandshakeError::PeerExpired)), "{accepted:?}");
}

#[tokio::test]
async fn a_coordinator_of_another_authority_is_not_believed() {
    let (group, other) = (Group::new(1), Group::new(1));
    let door = ServerIdentity::new(&other.coordinator(), Some(&group.join_secret())).unwrap();
    let joiner = Identity::joiner(&group.ticket).unwrap();
    let (dialled, accepted) = handshake(&joiner, Expected::Coordinator, &door).await;
    assert!(matches!(dialled, Err(HandshakeError::Untrusted(_))), "{dialled:?}");
    assert!(accepted.is_err());
}

#[tokio::test]
async fn members_of_another_group_are_refused() {
    let (group, other) = (Group::new(1), Group::new(2));
    let (dialled, accepted) = handshake(&client(&other.member(1)), NODE_2, &server(&group.member(2))).await;
    assert!(matches!(dialled, Err(HandshakeError::Untrusted(_))), "{dialled:?}");
    assert!(accepted.is_err());
}

#[tokio::test]
async fn a_node_cannot_pose_as_another_or_as_the_coordinator() {
    let group = Group::new(1);
    let (one, three) = (group.member(1), group.member(3));
    for expected in [NODE_2, Expected::Coordinator] {
        let (dialled, accepted) = handshake(&client(&one), expected, &server(&three)).await;
        assert!(matches!(dialled, Err(HandshakeError::OtherNode(found)) if found == expected), "{dialled:?}");
        assert!(accepted.is_err());
    }
}

#[tokio::test]
async fn a_joiner_is_no_member_and_no_server() {
    let group = Group::new(1);
    let joiner = Identity::joiner(&group.ticket).unwrap();
    // A node that admits no joiners.
    let (dialled, accepted) = handshake(&joiner, NODE_2, &server(&group.member(2))).await;
    assert!(matches!(dialled, Err(HandshakeError::NotAdmitted(_))), "{dialled:?}");
    assert!(matches!(accepted, Err(HandshakeError::Untrusted(_))), "{accepted:?}");
}

#[tokio::test]
async fn an_expired_certificate_is_refused_on_both_sides() {
    let group = Group::new(1);
    let key = Arc::new(NodeKey::random().unwrap());
    let expiry = now() + 2;
    let certificate = group.authority.issue(NodeId(2), key.public(), Role::Member, now(), expiry).unwrap();
    let late = group.membership(key, certificate);
    let (as_client, as_server) = (client(&late), server(&late));
    while now() <= expiry {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (dialled, accepted) = handshake(&client(&group.member(1)), NODE_2, &as_server).await;
    assert!(matches!(dialled, Err(HandshakeError::PeerExpired)), "{dialled:?}");
    assert!(matches!(accepted, Err(HandshakeError::Expired)), "{accepted:?}");
    let (dialled, accepted) = handshake(&as_client, Expected::Node(NodeId(1)), &server(&group.member(1))).await;
    assert!(matches!(dialled, Err(HandshakeError::Expired)), "{dialled:?}");
    assert!(matches!(accepted, Err(HandshakeError::PeerExpired)), "{accepted:?}");
}

/// A machine whose clock is behind by more than certificates allow for; its clock may be set right while it tries again.
#[tokio::test]
async fn a_certificate_that_is_not_valid_yet_is_told_apart_from_a_foreign_one() {
    let group = Group::new(1);
    let (key, later) = (Arc::new(NodeKey::random().unwrap()), now() + 7200);
    let certificate = group.authority.issue(NodeId(2), key.public(), Role::Member, later, later + 60).unwrap();
    let (id, authority) = (group.ticket.group, group.ticket.authority);
    let early = Membership::new(id, authority, key, certificate, later).unwrap();
    let (dialled, accepted) = handshake(&client(&group.member(1)), NODE_2, &server(&early)).await;
    let source = dialled.unwrap_err();
    assert!(matches!(source, HandshakeError::PeerNotValidYet), "{source:?}");
    assert!(accepted.is_err());
    let address = group.ticket.addresses[0];
    assert!(!DialError::Handshake { address, source }.is_refusal());
}

#[tokio::test]
async fn a_greeting_travels_with_the_handshake() {
    let group = Group::new(1);
    let (one, two) = (client(&group.member(1)), server(&group.member(2)));
    let (dialled, accepted) = tcp_pair().await;
    let greeting = [b"\x01hello"];
    let (dialled, accepted) =
        tokio::join!(connect_with_greeting(dialled, &one, NODE_2, &greeting), accept(accepted, &two));
    dialled.unwrap();
    assert_eq!(accepted.unwrap().1.next().await.unwrap(), Incoming::Frame(b"\x01hello"));
}

#[tokio::test]
async fn a_greeting_does_not_hide_why_we_are_refused() {
    let group = Group::new(1);
    let joiner = Identity::joiner(&group.ticket).unwrap();
    let two = server(&group.member(2));
    let (dialled, accepted) = tcp_pair().await;
    let greeting = [vec![1; 60_000], vec![2; 60_000]];
    let (dialled, _) = tokio::join!(connect_with_greeting(dialled, &joiner, NODE_2, &greeting), accept(accepted, &two));
    assert!(matches!(dialled, Err(HandshakeError::NotAdmitted(_))), "{dialled:?}");
}

#[tokio::test]
async fn other_protocols_are_refused_at_once() {
    let group = Group::new(1);
    let two = server(&group.member(2));
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"SSH-2.0-OpenSSH\r\n", &[0; 64], &[22, 3, 1, 0xff, 0xff]] {
        let (mut dialled, accepted) = tcp_pair().await;
        dialled.write_all(garbage).await.unwrap();
        // Not the time-out: nobody waits for more of it.
        let outcome = accept(accepted, &two).await;
        assert!(matches!(outcome, Err(HandshakeError::NotMobcast)), "{garbage:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_server_of_another_protocol_is_recognised() {
    let group = Group::new(1);
    let (dialled, mut accepted) = tcp_pair().await;
    accepted.write_all(b"220 mail.example ESMTP\r\n").await.unwrap();
    let outcome = connect(dialled, &client(&group.member(1)), NODE_2).await;
    assert!(matches!(outcome, Err(HandshakeError::NotMobcast)), "{outcome:?}");
}

#[tokio::test]
async fn a_silent_stranger_is_given_up_after_the_handshake_time() {
    let group = Group::new(1);
    let two = server(&group.member(2));
    let (mut dialled, accepted) = tcp_pair().await;
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    let outcome = accept(accepted, &two).await;
    assert!(matches!(outcome, Err(HandshakeError::Timeout)), "{outcome:?}");
    let waited = start.elapsed();
    assert!(waited >= HANDSHAKE_TIME && waited < HANDSHAKE_TIME + Duration::from_secs(1), "{waited:?}");
    assert_eq!(dialled.read(&mut [0; 1]).await.unwrap(), 0, "the connection is closed");
}

#[tokio::test]
async fn a_stranger_that_hangs_up_is_told_apart_from_a_silent_one() {
    let group = Group::new(1);
    let (dialled, accepted) = tcp_pair().await;
    drop(dialled);
    let outcome = accept(accepted, &server(&group.member(2))).await;
    assert!(matches!(outcome, Err(HandshakeError::Closed)), "{outcome:?}");
}

#[tokio::test]
async fn a_certificate_for_another_key_makes_no_membership() {
    let group = Group::new(1);
    let (own, other) = (Arc::new(NodeKey::random().unwrap()), NodeKey::random().unwrap());
    let certificate = group.authority.issue(NodeId(1), other.public(), Role::Member, now(), now() + 60).unwrap();
    let (id, authority) = (group.ticket.group, group.ticket.authority);
    assert!(Membership::new(id, authority, Arc::clone(&own), certificate, now()).is_err());
    let certificate = group.authority.issue(NodeId(1), own.public(), Role::Member, now(), now() + 60).unwrap();
    assert!(Membership::new(GroupId([9; 16]), authority, own, certificate, now()).is_err());
}

#[tokio::test]
async fn the_same_secret_in_another_group_is_another_key() {
    let group = Group::new(1);
    let mut ticket = group.ticket.clone();
    ticket.group = GroupId([2; 16]);
    let other = JoinSecret::of_ticket(&ticket);
    let door = ServerIdentity::new(&group.coordinator(), Some(&other)).unwrap();
    let joiner = Identity::joiner(&group.ticket).unwrap();
    let (dialled, _) = handshake(&joiner, Expected::Coordinator, &door).await;
    assert!(matches!(dialled, Err(HandshakeError::NotAdmitted(_))), "{dialled:?}");
}

#[tokio::test]
async fn a_channel_carries_frames_both_ways() {
    let ((mut s1, mut r1), (mut s2, mut r2)) = channel().await;
    s1.send_frames(&[b"\x01ping"]).await.unwrap();
    assert_eq!(r2.next().await.unwrap(), Incoming::Frame(b"\x01ping"));
    s2.send_frames(&[b"\x02pong"]).await.unwrap();
    assert_eq!(r1.next().await.unwrap(), Incoming::Frame(b"\x02pong"));
}
