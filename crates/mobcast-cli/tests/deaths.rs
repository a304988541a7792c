//! Processes that are killed with -9 in the midst of a transfer: the others finish if they can, and say what is missing if
//! they cannot. One that only stands still, until another takes its place, comes back. Random moments are `cargo xtask torture`'s.

mod common;

use std::fs;
use std::io::Write;

use rustix::process::Signal;

use common::{Ended, Experiment, Process, data, eventually, names};

/// How much is missing, by the one line that says so: pieces, of how many.
#[track_caller]
fn missing(ended: &Ended) -> (u32, u32) {
    let complaint = ended.complaint();
    let (_, rest) =
        complaint.split_once("are gone: ").unwrap_or_else(|| panic!("not what the README says: {complaint}"));
    let numbers: Vec<u32> = rest.split(' ').filter_map(|word| word.parse().ok()).collect();
    let &[missing, pieces] = &numbers[..] else { panic!("two numbers: {complaint}") };
    (missing, pieces)
}

fn has_partial_data(experiment: &Experiment, count: usize) -> bool {
    names(&experiment.path("")).iter().filter(|name| name.contains("mobcast-partial")).count() >= count
}

/// A file, whose length is known from the start, and a stream, whose length nobody has heard of.
#[test]
fn without_the_sender_nothing_gets_the_final_name_and_receivers_say_how_much_is_missing() {
    let (file, stream) = (Experiment::new(), Experiment::new());
    let source = file.file("source", 16 << 20);
    let limited = ["--receivers=2", "--max-rate=1MB/s", "--piece-size=64KiB"];
    let mut command = file.send_command();
    let send_file = Process::start("send", command.arg(source).args(limited));
    let (send_stream, mut stdin) = stream.send_pipe(["--receivers=2", "--piece-size=64KiB"]);
    stdin.write_all(&data(2_000_000)).expect("written");
    let receivers = [&file, &stream].map(|experiment| ["a", "b"].map(|name| experiment.recv(name, [name])));
    receivers.iter().flatten().for_each(|receiver| drop(receiver.expect_line("receiving")));
    for (experiment, send) in [(&file, send_file), (&stream, send_stream)] {
        eventually("both have begun", || has_partial_data(experiment, 2));
        send.signal(Signal::KILL);
        send.ends_with(128 + 9);
    }
    let [of_file, of_stream] = receivers;
    for receiver in of_file {
        let (missing, pieces) = missing(&receiver.ends_with(4));
        assert_eq!(pieces, 256);
        assert!((1..=256).contains(&missing), "{missing}");
    }
    for receiver in of_stream {
        let ended = receiver.ends_with(4);
        assert!(ended.complaint().contains("are gone: "), "{}", ended.stderr);
        assert!(!ended.complaint().contains(" 0 of "), "that would be nothing: {}", ended.stderr);
    }
    assert_eq!(names(&file.path("")), ["source", "ticket"]);
    assert_eq!(names(&stream.path("")), ["ticket"]);
    drop(stdin);
}

#[test]
fn a_killed_receiver_is_named_in_the_report_and_the_others_finish() {
    let experiment = Experiment::new();
    // The first one has to join within the wait, too, which counts anew from the loss.
    let (send, mut stdin) = experiment.send_pipe(["--receivers=3", "--wait=5s", "--json", "--piece-size=64KiB"]);
    let kept = ["a", "b"].map(|name| experiment.recv(name, [name]));
    let lost = experiment.recv("lost", ["lost"]);
    let all = data(3_000_000);
    stdin.write_all(&all[..2_000_000]).expect("written");
    kept.iter().chain([&lost]).for_each(|receiver| drop(receiver.expect_line("receiving")));
    eventually("all have begun", || has_partial_data(&experiment, 3));
    lost.signal(Signal::KILL);
    lost.ends_with(128 + 9);
    stdin.write_all(&all[2_000_000..]).expect("written");
    drop(stdin);
    send.expect_line("left lost");
    for (name, receiver) in ["a", "b"].iter().zip(kept) {
        receiver.succeeds();
        assert!(fs::read(experiment.path(name)).expect("there") == all, "{name}");
    }
    assert!(!experiment.path("lost").exists(), "half a file has no name");
    let ended = send.ends_with(4);
    assert!(ended.complaint().contains("2 of 3 receivers have everything; lost was lost"), "{}", ended.stderr);
    let report = ended.json();
    for node in report["nodes"].as_array().expect("nodes") {
        assert_eq!(node["verified"] == true, node["name"] != "lost", "{report:#}");
    }
}

/// Two receivers have everything, and a third, in another cluster, has just begun when the sender is killed. One of the two collects
/// the results in its place.
#[test]
fn once_the_source_may_leave_killing_it_harms_nobody_who_has_joined() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 4_000_000);
    let mut command = experiment.send_command();
    let send =
        Process::start("send", command.arg(source).args(["--receivers=3", "--max-rate=4MB/s", "--piece-size=64KiB"]));
    let holders = ["a", "b"].map(|name| experiment.recv(name, [name, "--max-rate=1MB/s", "--json"]));
    send.expect_line("the source may leave");
    holders.iter().for_each(|holder| drop(holder.expect_line("complete")));
    let late = experiment.recv("late", ["late", "--cluster=far", "--json"]);
    late.expect_line("receiving");
    send.signal(Signal::KILL);
    send.ends_with(128 + 9);
    let mut reports = Vec::new();
    for (name, receiver) in ["a", "b", "late"].iter().zip(holders.into_iter().chain([late])) {
        reports.push(receiver.succeeds().json());
        assert!(fs::read(experiment.path(name)).expect("there") == data(4_000_000), "{name}");
    }
    let of_all = reports.iter().find(|report| report["nodes"].as_array().is_some_and(|nodes| nodes.len() == 3));
    let report = of_all.unwrap_or_else(|| panic!("nobody's report is that of all: {reports:#?}"));
    let clusters: Vec<&String> = report["wan_copies"].as_object().expect("clusters").keys().collect();
    assert_eq!(clusters, ["far"], "the root's own cluster imports nothing: {report:#}");
}

/// Those who had everything have left before the third one joins.
#[test]
fn a_source_that_is_needed_again_says_so() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 1_000_000);
    let mut command = experiment.send_command();
    let send = Process::start("send", command.arg(source).args(["--max-rate=1MB/s", "--piece-size=64KiB"]));
    experiment.recv("a", ["a"]).succeeds();
    send.expect_line("the source may leave");
    let late = experiment.recv("late", ["late"]);
    send.expect_line("the source is needed again");
    eventually("it may leave again", || send.said().matches("the source may leave").count() >= 2);
    late.succeeds();
    send.signal(Signal::INT);
    send.ends_with(0);
}

/// Half of the stream is with the receivers when the sender is stopped, and the other half never was anywhere else.
#[test]
fn a_sender_that_stood_still_until_another_took_its_place_takes_its_group_back() {
    let experiment = Experiment::new();
    let (send, mut stdin) = experiment.send_pipe(["--receivers=3", "--piece-size=1MiB"]);
    let early = ["a", "b"].map(|name| experiment.recv(name, [name]));
    let all = data(4_000_000);
    stdin.write_all(&all[..2_000_000]).expect("written");
    early.iter().for_each(|receiver| drop(receiver.expect_line("receiving")));
    // One piece can be told of so far. Who lacks it when the sender is gone has nobody to get it from.
    let piece = &all[..1 << 20];
    let has_piece = |name: &String| fs::read(experiment.path(name)).is_ok_and(|partial| partial.starts_with(piece));
    eventually("both have what there is", || {
        let partial = names(&experiment.path("")).into_iter().filter(|name| name.contains("mobcast-partial"));
        partial.filter(has_piece).count() == 2
    });
    send.signal(Signal::STOP);
    early.iter().for_each(|receiver| drop(receiver.expect_line("the sender is gone")));
    send.signal(Signal::CONT);
    send.expect_line("it collects the results again");
    let late = experiment.recv("late", ["late"]);
    late.expect_line("receiving");
    stdin.write_all(&all[2_000_000..]).expect("written");
    drop(stdin);
    for (name, receiver) in ["a", "b", "late"].iter().zip(early.into_iter().chain([late])) {
        receiver.succeeds();
        assert!(fs::read(experiment.path(name)).expect("there") == all, "{name}");
    }
    send.succeeds();
}
