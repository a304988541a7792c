//! Two versions of mobcast that meet: whoever does not fit is told both numbers, and ends with status 3. The other version
//! is played by the test, with the ticket and all certificates of a real group.

mod common;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use mobcast::Ticket;
use mobcast_net::channel::{Incoming, Receiver, Sender, accept, connect, socket};
use mobcast_net::tls::{Authority, Expected, Identity, JoinSecret, Membership, NodeKey, Role, ServerIdentity};
use mobcast_proto::wire::{Frame, Hello, NODE_UNKNOWN, PROTOCOL_VERSION};
use mobcast_proto::{ClusterId, GroupId, NodeId};
use tokio::net::TcpListener;

use common::{Experiment, Process, names};

const OTHER: u16 = PROTOCOL_VERSION + 1;

fn greeting(group: GroupId, node: NodeId) -> Vec<u8> {
    let cluster = ClusterId::default();
    Frame::Hello(Hello { version: OTHER, group, node, cluster, stream: 0, plain: false }).encode()
}

/// The version in the peer's greeting.
async fn greeted(receiver: &mut Receiver) -> u16 {
    let greeting = receiver.next().await.expect("a greeting");
    let Incoming::Frame(bytes) = greeting else { panic!("it says something else: {greeting:?}") };
    let Ok(Frame::Hello(hello)) = Frame::decode(bytes) else { panic!("it says something else: {bytes:?}") };
    hello.version
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// A sender of the other version, which has a ticket and answers one connection after the other.
struct OtherSender {
    ticket: Ticket,
    identity: ServerIdentity,
}

impl OtherSender {
    fn listen() -> (OtherSender, TcpListener) {
        let listener = socket::listen("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let group = GroupId([7; 16]);
        let authority = Authority::random(group).expect("a key");
        let key = Arc::new(NodeKey::random().expect("a key"));
        let until = now() + 3600;
        let certificate = authority.issue(NodeId(0), key.public(), Role::Coordinator, now(), until).expect("issued");
        let membership = Membership::new(group, authority.public(), key, certificate, now()).expect("its own");
        let ticket = Ticket {
            addresses: vec![listener.local_addr().expect("bound")],
            group,
            secret: *NodeKey::random().expect("a key").seed(),
            expires_unix_s: until,
            authority: authority.public(),
        };
        let identity = ServerIdentity::new(&membership, Some(&JoinSecret::of_ticket(&ticket))).expect("settings");
        (OtherSender { ticket, identity }, listener)
    }

    async fn greet(self, listener: TcpListener) {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let (mut sender, mut receiver, _): (Sender, _, _) =
                accept(stream, &self.identity).await.expect("it has the ticket");
            assert_eq!(greeted(&mut receiver).await, PROTOCOL_VERSION);
            sender.send_frames(&[greeting(self.ticket.group, NodeId(0))]).await.expect("sent");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_meets_another_version_names_both() {
    let experiment = Experiment::new();
    let (other, listener) = OtherSender::listen();
    let ticket = other.ticket.to_string();
    let sender = tokio::spawn(other.greet(listener));
    let mut recv = common::mobcast();
    let recv = Process::start("recv", recv.args(["recv", &ticket]).arg(experiment.path("copy")));
    let ended = tokio::task::spawn_blocking(|| recv.ends_with(3)).await.expect("no panic");
    let both = format!("speaks version {OTHER} of the protocol and this program version {PROTOCOL_VERSION}");
    assert!(ended.complaint().contains(&both), "{}", ended.stderr);
    assert!(names(&experiment.path("")).is_empty());
    sender.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_refuses_another_version_names_both_and_goes_on() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 1_000);
    let mut send = experiment.send_command();
    let send = Process::start("send", send.arg(source).arg("--receivers=1").env("MOBCAST_LOG", "debug"));
    let ticket: Ticket = send.first_line().parse().expect("a ticket");
    let stream = socket::dial(ticket.addresses[0], std::time::Duration::from_secs(30)).await.expect("it listens");
    let identity = Identity::joiner(&ticket).expect("settings");
    let (mut sender, mut receiver, _) =
        connect(stream, &identity, Expected::Coordinator).await.expect("the ticket is right");
    sender.send_frames(&[greeting(ticket.group, NODE_UNKNOWN)]).await.expect("sent");
    assert_eq!(greeted(&mut receiver).await, PROTOCOL_VERSION, "it tells the other side");
    send.expect_line(&format!("speaks version {OTHER} of the protocol and this program version {PROTOCOL_VERSION}"));
    let recv = experiment.recv("a", ["copy"]);
    tokio::task::spawn_blocking(|| (recv.succeeds(), send.succeeds())).await.expect("no panic");
}

#[test]
fn tickets_that_are_none_are_refused_in_one_line() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 1_000);
    let send = experiment.send([source]);
    let ticket = send.first_line();
    let (start, end) = ticket.split_at(ticket.len() / 2);
    let other_version = ticket.replacen("mob1", "mob2", 1);
    for (wrong, reason) in [
        ("hello", "this is not a ticket"),
        (&other_version, "this ticket has version 2, and this program reads version 1"),
        (start, "the ticket is incomplete or damaged"),
        (&format!("{start}A{end}"), "the ticket is incomplete or damaged"),
        (&format!("{start}!{end}"), "the ticket has a character that no ticket has"),
    ] {
        let ended = common::run(["recv".as_ref(), wrong.as_ref(), experiment.path("copy").as_os_str()]);
        assert_eq!(ended.code, 3, "{wrong}: {}", ended.stderr);
        assert!(ended.complaint().contains(reason), "{wrong}: {}", ended.stderr);
        assert!(!ended.stderr.contains(wrong) || wrong == "hello", "the ticket is a secret: {}", ended.stderr);
    }
    assert_eq!(names(&experiment.path("")), ["source", "ticket"]);
}
