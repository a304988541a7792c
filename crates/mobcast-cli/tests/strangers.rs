//! Who has no ticket: connections that say nothing, something else, or speak TLS without a certificate that admits. They
//! get no further than the handshake, cost bounded memory, and disturb nobody.

mod common;
mod support_tls;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use mobcast::{BroadcastOptions, Group, GroupOptions, Sink, SinkOptions, Source, Ticket};

use common::{Experiment, Process, data, eventually};
use support_tls::Impostor;

/// Longer than anything here takes, unless it hangs.
const GUARD: Duration = Duration::from_secs(60);
/// Connections in the midst of a transfer.
const STRANGERS: usize = 1_000;
/// Places for connections that have not shown who they are, and what a sender has open besides: members, files, threads.
const OPEN_FILES_MAX: usize = 512 + 64;
/// What the README promises of a node.
const RESIDENT_KIB_MAX: u64 = 96 << 10;

/// A member of the group offers something before whoever made the ticket does.
#[test]
fn a_receiver_takes_only_what_the_founder_sends() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 1_000_000);
    let send = experiment.send([source.as_os_str(), "--receivers=2".as_ref(), "--gather".as_ref()]);
    let ticket = ticket(&send);
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let options = GroupOptions { name: "rival".into(), cluster: Some("default".into()), ..GroupOptions::default() };
    let rival = runtime.block_on(Group::join(&ticket, options, GUARD)).expect("admitted");
    let offer = rival.broadcast(Source::bytes(data(1_000)), BroadcastOptions::default());
    let _own = runtime.block_on(offer).expect("it may");
    let receiver = experiment.recv("a", ["copy"]);
    receiver.expect_line("not taken: node 1 offers something");
    runtime.block_on(async {
        let offer = rival.next_offer().await.expect("the founder's");
        let mut taken = offer.receive(Sink::verify_only(), SinkOptions::default()).await.expect("taken");
        taken.complete().await.expect("all of it");
    });
    receiver.succeeds();
    send.succeeds();
    assert_eq!(std::fs::read(experiment.path("copy")).expect("there"), data(1_000_000));
}

fn address(send: &Process) -> SocketAddr {
    ticket(send).addresses[0]
}

fn ticket(send: &Process) -> Ticket {
    send.first_line().parse().expect("a ticket")
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the sender listens");
    stream.set_read_timeout(Some(GUARD)).expect("a socket");
    stream
}

/// Reads to the end, which must come.
#[track_caller]
fn is_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Ok(_) => said,
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => said,
        Err(error) => panic!("the connection stays open: {error}"),
    }
}

/// What strangers say first, and what the sender's log makes of it.
fn openings() -> [(&'static str, Vec<u8>, &'static str); 4] {
    let record = |length: [u8; 2], rest: usize| [vec![22, 3, 1], length.to_vec(), vec![0; rest]].concat();
    let silent = "did not complete the handshake within 5 s";
    let foreign = "does not speak mobcast";
    [
        ("nothing", Vec::new(), silent),
        ("the beginning of a record", record([0x10, 0x00], 100), silent),
        ("another protocol", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), foreign),
        ("a record without end", record([0xff, 0xff], 70_000), foreign),
    ]
}

#[test]
fn a_stranger_gets_no_further_than_the_handshake() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 1_000_000);
    let mut command = experiment.send_command();
    let send = Process::start("send", command.arg(source).args(["--receivers=1"]).env("MOBCAST_LOG", "debug"));
    let (address, group) = (address(&send), ticket(&send).group);
    let silent: Vec<(&str, &str, JoinHandle<Vec<u8>>)> = openings()
        .into_iter()
        .map(|(what, opening, reason)| {
            let stranger = std::thread::spawn(move || {
                let mut stream = connect(address);
                // The sender may have closed it in the midst of this.
                let _ = stream.write_all(&opening);
                is_closed(stream)
            });
            (what, reason, stranger)
        })
        .collect();
    for (impostor, reason) in [
        (Impostor::without_certificate(), "shows no certificate"),
        (Impostor::with_own_certificate(group), "is not of our group"),
    ] {
        let refusal = impostor.connect(connect(address)).expect_err("not let in");
        assert!(refusal.to_string().contains("alert"), "it is told so in the words of TLS: {refusal}");
        send.expect_line(reason);
    }
    for (what, reason, stranger) in silent {
        let said = stranger.join().expect("it is closed");
        // At most an alert: a record of its own.
        assert!(said.len() < 100, "{what} is answered with {} bytes", said.len());
        send.expect_line(reason);
    }
    experiment.recv("a", ["copy"]).succeeds();
    let ended = send.succeeds();
    assert_eq!(ended.stderr.matches("not let in").count(), openings().len() + 2, "{}", ended.stderr);
}

/// The transfer is held open by a pipe: half of it is through when the strangers come, and the other half follows while
/// those are there that it lets wait.
#[test]
fn a_thousand_strangers_do_not_disturb_a_running_transfer() {
    let experiment = Experiment::new();
    let (send, mut stdin) = experiment.send_pipe(["--receivers=3", "--piece-size=64KiB"]);
    let receivers = ["a", "b"].map(|name| experiment.recv(name, [name]));
    let all = data(4_000_000);
    let (first, second) = all.split_at(2_000_000);
    stdin.write_all(first).expect("written");
    receivers.iter().for_each(|receiver| drop(receiver.expect_line("receiving")));
    let (address, group) = (address(&send), ticket(&send).group);
    let impostor = Impostor::with_own_certificate(group);
    let mut waiting = Vec::new();
    for number in 0..STRANGERS {
        let mut stream = connect(address);
        match (number % 10, &openings()[number % 4]) {
            (9, _) => drop(impostor.connect(stream).expect_err("not let in")),
            (_, (_, opening, _)) => {
                // The sender may have closed it in the midst of this.
                let _ = stream.write_all(opening);
                waiting.push(stream);
            }
        }
        assert!(open_files(&send) <= OPEN_FILES_MAX, "{} files are open after {number} strangers", open_files(&send));
    }
    let late = experiment.recv("late", ["late"]);
    send.expect_line("joined late");
    let resident = send.resident_kib_max();
    stdin.write_all(second).expect("written");
    drop(stdin);
    // All are still there that the sender has not closed.
    for receiver in receivers.into_iter().chain([late]) {
        receiver.expect_line("complete");
        receiver.succeeds();
    }
    send.succeeds();
    for name in ["a", "b", "late"] {
        assert!(std::fs::read(experiment.path(name)).expect("there") == all, "{name}");
    }
    println!("{STRANGERS} strangers: the sender held {resident} KiB at most");
    assert!(resident <= RESIDENT_KIB_MAX, "{resident} KiB");
    drop(waiting);
}

/// Silence is noticed also where places are not short: the sender is rid of it while it goes on.
#[test]
fn a_silent_stranger_takes_no_place_for_long() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 1_000);
    let send = experiment.send([source]);
    let address = address(&send);
    let before = open_files(&send);
    let strangers: Vec<TcpStream> = (0..50).map(|_| connect(address)).collect();
    eventually("they are accepted", || open_files(&send) >= before + 50);
    strangers.into_iter().for_each(|stranger| assert!(is_closed(stranger).is_empty()));
    eventually("their places are free", || open_files(&send) <= before);
    experiment.recv("a", ["copy"]).succeeds();
}

/// Files, sockets among them, that a process has open.
fn open_files(process: &Process) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", process.pid())).expect("it runs").count()
}
