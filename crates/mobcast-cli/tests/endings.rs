//! How it ends when something goes wrong: interrupts, lost receivers, a source that changes. The middle of a transfer is
//! held open by a pipe that the test writes to. Who is killed in it is in `deaths.rs`.

mod common;

use std::fs;
use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;

use rustix::pipe::fcntl_getpipe_size;
use rustix::process::Signal;

use common::{Experiment, Process, data, eventually, mobcast, names, through};

/// Interrupts a process, which must end by itself with this status: `wait` has the limit for what hangs.
#[track_caller]
fn interrupt(process: Process, code: i32) -> common::Ended {
    process.signal(Signal::INT);
    process.ends_with(code)
}

/// A receiver that has partial data.
fn receiving(experiment: &Experiment, receiver: Process) -> Process {
    receiver.expect_line("receiving");
    eventually("partial data is there", || partial_exists(experiment));
    receiver
}

fn partial_exists(experiment: &Experiment) -> bool {
    names(&experiment.path("")).iter().any(|name| name.contains("mobcast-partial"))
}

#[test]
fn an_interrupted_receiver_leaves_nothing() {
    let experiment = Experiment::new();
    let (send, mut stdin) = experiment.send_pipe(["--receivers", "1"]);
    let receiver = experiment.recv("a", ["copy"]);
    stdin.write_all(&data(3_000_000)).expect("written");
    interrupt(receiving(&experiment, receiver), 130);
    assert_eq!(names(&experiment.path("")), ["ticket"]);
    // Another one takes its place.
    let other = experiment.recv("b", ["copy"]);
    drop(stdin);
    other.succeeds();
    send.succeeds();
    assert_eq!(fs::read(experiment.path("copy")).expect("there"), data(3_000_000));
}

#[test]
fn a_receiver_whose_terminal_is_gone_leaves_nothing() {
    let experiment = Experiment::new();
    let (send, mut stdin) = experiment.send_pipe(["--receivers", "1"]);
    let copy = experiment.path("copy");
    // Who runs this test may ignore the signal.
    let mut command = through("env");
    command.arg("--default-signal=HUP").arg(env!("CARGO_BIN_EXE_mobcast")).arg("recv").arg(experiment.ticket());
    let receiver = Process::start("a", command.arg(copy));
    stdin.write_all(&data(3_000_000)).expect("written");
    let receiver = receiving(&experiment, receiver);
    receiver.signal(Signal::HUP);
    receiver.ends_with(130);
    assert_eq!(names(&experiment.path("")), ["ticket"]);
    interrupt(send, 130);
}

#[test]
fn a_receiver_that_is_to_outlive_its_terminal_does() {
    let experiment = Experiment::new();
    let (send, mut stdin) = experiment.send_pipe(["--receivers", "1"]);
    let copy = experiment.path("copy");
    let command =
        format!("trap '' HUP; exec {} recv {} {}", env!("CARGO_BIN_EXE_mobcast"), experiment.ticket(), copy.display());
    let receiver = Process::start("a", through("sh").args(["-c", &command]));
    stdin.write_all(&data(3_000_000)).expect("written");
    let receiver = receiving(&experiment, receiver);
    receiver.signal(Signal::HUP);
    drop(stdin);
    receiver.succeeds();
    send.succeeds();
    assert_eq!(fs::read(copy).expect("there"), data(3_000_000));
}

#[test]
fn an_interrupted_receiver_of_a_tree_leaves_nothing() {
    let experiment = Experiment::new();
    let source = experiment.directory("source");
    fs::write(source.join("large"), data(20_000_000)).expect("written");
    let send = experiment.send([source.as_os_str(), "--receivers=1".as_ref(), "--max-rate=1MB/s".as_ref()]);
    let receiver = experiment.recv("a", ["copy"]);
    interrupt(receiving(&experiment, receiver), 130);
    assert_eq!(names(&experiment.path("")), ["source", "ticket"]);
    interrupt(send, 130);
}

/// A soft limit is for programs that could not cope with more.
#[test]
fn a_node_may_open_as_many_files_as_the_system_permits() {
    let experiment = Experiment::new();
    let command = format!(
        "ulimit -Sn 100 && ulimit -Hn 1000 && exec {} recv @{}",
        env!("CARGO_BIN_EXE_mobcast"),
        experiment.path("ticket").display()
    );
    let receiver = Process::start("a", through("sh").args(["-c", &command]));
    receiver.expect_line("waiting for the ticket");
    let limits = fs::read_to_string(format!("/proc/{}/limits", receiver.pid())).expect("it runs");
    let files = limits.lines().find(|line| line.starts_with("Max open files")).expect("there is one");
    let numbers: Vec<&str> = files.split_whitespace().filter(|word| word.parse::<u32>().is_ok()).collect();
    assert_eq!(numbers, ["1000", "1000"], "{files}");
    interrupt(receiver, 130);
}

#[test]
fn a_receiver_is_interrupted_while_it_waits_for_the_ticket() {
    let experiment = Experiment::new();
    let receiver = experiment.recv("a", ["copy"]);
    receiver.expect_line("waiting for the ticket");
    interrupt(receiver, 130);
}

#[test]
fn a_receiver_is_interrupted_while_it_waits_for_a_ticket_in_a_pipe() {
    let experiment = Experiment::new();
    let pipe = named_pipe(&experiment);
    let receiver = Process::start("a", mobcast().args(["recv", &pipe, "--verify-only"]));
    // It has to be opened at its other end.
    receiver.expect_line("waiting for the ticket");
    interrupt(receiver, 130);
}

#[test]
fn a_ticket_comes_through_a_pipe() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 1_000_000);
    let send = experiment.send([source.as_os_str(), "--receivers=1".as_ref()]);
    let pipe = named_pipe(&experiment);
    let receiver = Process::start("a", mobcast().args(["recv", &pipe, "--verify-only"]));
    fs::write(&pipe[1..], send.first_line()).expect("somebody reads it");
    receiver.succeeds();
    send.succeeds();
}

#[test]
fn a_ticket_file_that_is_still_empty_is_waited_for() {
    let experiment = Experiment::new();
    fs::write(experiment.path("ticket"), "").expect("written");
    let receiver = experiment.recv("a", ["--verify-only"]);
    receiver.expect_line("waiting for the ticket");
    let source = experiment.file("source", 1_000_000);
    experiment.send([source.as_os_str(), "--receivers=1".as_ref()]).succeeds();
    receiver.succeeds();
}

/// A named pipe, as an argument.
fn named_pipe(experiment: &Experiment) -> String {
    let pipe = experiment.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    format!("@{}", pipe.display())
}

#[test]
fn a_complete_receiver_that_only_serves_may_be_interrupted() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 100_000);
    let send = experiment.send([source.as_os_str(), "--receivers=2".as_ref()]);
    let first = experiment.recv("a", ["a"]);
    // It stays for the second receiver, who has not come yet.
    first.expect_line("complete");
    interrupt(first, 0);
    experiment.recv("b", ["b"]).succeeds();
    send.succeeds();
}

#[test]
fn an_interrupted_sender_says_who_was_cut_off() {
    let experiment = Experiment::new();
    let (send, mut stdin) = experiment.send_pipe(["--quiet"]);
    let receiver = experiment.recv("a", ["copy"]);
    stdin.write_all(&data(100_000)).expect("written");
    receiver.expect_line("receiving");
    let ended = interrupt(send, 130);
    assert!(ended.complaint().contains("before these receivers had everything: a"), "{}", ended.stderr);
    receiver.ends_with(4);
    assert_eq!(names(&experiment.path("")), ["ticket"]);
}

#[test]
fn a_sender_that_nobody_joined_is_interrupted() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 100);
    let send = experiment.send([source]);
    send.first_line();
    interrupt(send, 130);
}

#[test]
fn a_lost_receiver_is_replaced_in_time() {
    let experiment = Experiment::new();
    let (send, mut stdin) = experiment.send_pipe(["--receivers=1"]);
    let lost = experiment.recv("lost", ["lost"]);
    stdin.write_all(&data(100_000)).expect("written");
    lost.expect_line("receiving");
    lost.signal(Signal::KILL);
    send.expect_line("left lost");
    let other = experiment.recv("other", ["copy"]);
    drop(stdin);
    other.succeeds();
    send.succeeds();
}

#[test]
fn a_sender_does_not_wait_for_receivers_longer_than_told() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 100);
    let ended = experiment.send([source.as_os_str(), "--receivers=1".as_ref(), "--wait=200ms".as_ref()]).ends_with(4);
    assert!(ended.complaint().contains("0 of 1 receivers"), "{}", ended.stderr);
}

/// Somebody appends to the file as long as it is being sent: the file is large enough (a hole, so it costs no space)
/// that a receiver is in the middle of it when its end is read.
#[test]
fn a_source_that_changes_is_a_failure_everywhere() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 0);
    let mut file = fs::File::options().append(true).open(&source).expect("opened");
    file.set_len(2 << 30).expect("a hole");
    let send = experiment.send([source.as_os_str(), "--receivers=1".as_ref(), "--max-rate=100MB/s".as_ref()]);
    let receiver = experiment.recv("a", ["--verify-only"]);
    receiver.expect_line("receiving");
    file.write_all(b"more").expect("written");
    let ended = send.ends_with(1);
    assert!(ended.complaint().contains("changed while it was being sent"), "{}", ended.stderr);
    let ended = receiver.ends_with(1);
    assert!(ended.complaint().contains("changed"), "{}", ended.stderr);
    assert_eq!(names(&experiment.path("")), ["source", "ticket"], "nothing is under the final name");
}

/// Everything was read, and somebody has it; then the file is emptied, and another one comes.
#[test]
fn a_source_that_cannot_be_read_again_is_a_failure() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 80_000_000);
    let send = experiment.send([source.as_os_str(), "--receivers=2".as_ref()]);
    let first = experiment.recv("a", ["--verify-only"]);
    first.expect_line("complete");
    fs::File::options().write(true).open(&source).expect("opened").set_len(0).expect("emptied");
    let second = experiment.recv("b", ["--verify-only"]);
    let ended = send.ends_with(1);
    assert!(ended.complaint().contains("source"), "{}", ended.stderr);
    drop((first, second));
}

/// Without a number of receivers the first one is released, and `send` serves on.
#[test]
fn a_source_that_cannot_be_read_for_later_receivers_is_a_failure() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 80_000_000);
    let send = experiment.send([&source]);
    experiment.recv("a", ["--verify-only"]).succeeds();
    fs::File::options().write(true).open(&source).expect("opened").set_len(0).expect("emptied");
    let _second = experiment.recv("b", ["--verify-only"]);
    let ended = send.ends_with(1);
    assert!(ended.complaint().contains("source"), "{}", ended.stderr);
}

#[test]
fn a_reader_that_goes_away_ends_the_receiver() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 5_000_000);
    let _send = experiment.send([source]);
    let shell = format!("{} recv {} - | head -c 10", env!("CARGO_BIN_EXE_mobcast"), experiment.ticket());
    let ended = Process::start("shell", through("sh").args(["-c", &shell])).succeeds();
    assert_eq!(ended.stdout, data(10));
    assert!(ended.complaint().contains("closed by its reader"), "{}", ended.stderr);
}

/// A full disk behind standard error, or a terminal that is gone.
#[test]
fn logs_that_cannot_be_written_end_nothing() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 1_000_000);
    let (ticket, copy) = (experiment.ticket(), experiment.path("copy"));
    let unheard = |name: &str, words: &str| {
        let command = format!("exec {} {words} 2> /dev/full", env!("CARGO_BIN_EXE_mobcast"));
        let mut shell = through("sh");
        Process::start(name, shell.args(["-c", &command]).env("MOBCAST_LOG", "debug"))
    };
    let words = format!("--listen 127.0.0.1:0 --receivers 1 --ticket-file {} {}", &ticket[1..], source.display());
    let send = unheard("send", &format!("send {words}"));
    let receiver = unheard("a", &format!("recv {ticket} {}", copy.display()));
    receiver.succeeds();
    send.succeeds();
    assert_eq!(fs::read(copy).expect("there"), data(1_000_000));
}

/// A receiver of `copy` whose standard error is a pipe that has no room left, and both ends of that: Ctrl-S, as it were, and a node of one
/// thread.
fn unheard(experiment: &Experiment) -> (Process, PipeReader, PipeWriter) {
    let (terminal, mut words) = std::io::pipe().expect("a pipe");
    words.write_all(&vec![b' '; fcntl_getpipe_size(&words).expect("a pipe")]).expect("it has room for just that");
    let stderr = format!("/proc/{}/fd/{}", std::process::id(), words.as_raw_fd());
    let (program, ticket, copy) = (env!("CARGO_BIN_EXE_mobcast"), experiment.ticket(), experiment.path("copy"));
    let command = format!("exec {program} recv {ticket} {} 2> {stderr}", copy.display());
    let mut shell = through("sh");
    let shell = shell.args(["-c", &command]).env("TOKIO_WORKER_THREADS", "1").env("MOBCAST_LOG", "debug");
    (Process::start("a", shell), terminal, words)
}

#[test]
fn a_terminal_that_is_stopped_stops_nothing_else() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 1_000_000);
    let send = experiment.send([source.as_os_str(), "--receivers=1".as_ref()]);
    let (receiver, mut terminal, words) = unheard(&experiment);
    send.succeeds();
    assert_eq!(fs::read(experiment.path("copy")).expect("there"), data(1_000_000));
    drop(words);
    let said = std::thread::spawn(move || std::io::read_to_string(&mut terminal));
    receiver.succeeds();
    let said = said.join().expect("no panic").expect("text");
    assert!(said.contains("joined as") && said.contains("verified 1.00 MB"), "nothing is lost: {said}");
}

#[test]
fn who_is_done_and_not_heard_out_is_ended_by_a_signal() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 1_000_000);
    let send = experiment.send([source.as_os_str(), "--receivers=1".as_ref()]);
    let (mut receiver, _terminal, _words) = unheard(&experiment);
    send.succeeds();
    eventually("it ends", || {
        // The first ones may come while it still leaves.
        receiver.signal(Signal::TERM);
        receiver.has_ended()
    });
    receiver.succeeds();
}

#[test]
fn wishes_for_logs_that_are_not_understood_are_said_to_be() {
    let ended = Process::start("mobcast", mobcast().arg("version").env("MOBCAST_LOG", "mobcast=loud")).succeeds();
    assert!(ended.stderr.contains("warning: nothing is logged, as MOBCAST_LOG=mobcast=loud"), "{}", ended.stderr);
    let command = format!("exec {} version 2>&1", env!("CARGO_BIN_EXE_mobcast"));
    let mut shell = through("sh");
    let shell = shell.args(["-c", &command]).env("MOBCAST_LOG", "mobcast=loud");
    let text = Process::start("mobcast", shell).succeeds().text();
    assert!(text.starts_with("warning: nothing is logged"), "in the order in which it was said: {text}");
}
