//! Broadcasts one after another in a running group, and the costs of a machine.

mod common;

use std::fs;
use std::time::Duration;

use mobcast::{BroadcastOptions, Group, GroupOptions, Sink, SinkOptions, Source, Ticket};
use rustix::process::Signal;

use common::{Ended, Experiment, Process, mobcast, names};

#[test]
fn each_round_of_each_size_is_timed_at_both_ends() {
    let experiment = Experiment::new();
    let ticket_file = experiment.path("ticket");
    let mut first = mobcast();
    first.args(["bench", "--receivers", "2", "--sizes", "1,64KiB,300kB", "--rounds", "3", "--listen", "127.0.0.1:0"]);
    first.args(["--cluster", "here", "--json", "--ticket-file"]).arg(ticket_file);
    let first = Process::start("first", &mut first);
    let other = |name: &str| {
        let words = ["bench", &experiment.ticket(), "--name", name, "--cluster", "here", "--json"];
        Process::start(name, mobcast().args(words))
    };
    let others = ["a", "b"].map(other);
    let report = first.succeeds().json();
    assert_eq!(report["receivers"], 2);
    let sizes = report["sizes"].as_array().expect("a list");
    let bytes: Vec<u64> = sizes.iter().map(|size| size["bytes"].as_u64().expect("a number")).collect();
    assert_eq!(bytes, [1, 65_536, 300_000]);
    let numbers = |list: &serde_json::Value| -> Vec<f64> {
        list.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
    };
    let started: Vec<f64> = sizes.iter().flat_map(|size| numbers(&size["started_at"])).collect();
    assert_eq!(started.len(), 3 * 4, "one of each size before those that count");
    for size in sizes {
        let seconds = numbers(&size["seconds"]);
        assert!(seconds.len() == 4 && seconds.iter().all(|seconds| *seconds > 0.0), "{size}");
        assert!(size["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{size}");
    }
    for other in others {
        let report = other.succeeds().json();
        let complete = numbers(&report["complete_at"]);
        assert_eq!(complete.len(), started.len());
        assert!(complete.iter().zip(&started).all(|(complete, started)| complete > started), "{report} {started:?}");
    }
}

/// A first process that has many broadcasts before it, and others that take part, when the first ones are over.
fn long_bench(experiment: &Experiment) -> (Process, [Process; 2]) {
    let mut first = mobcast();
    let sizes = vec!["1"; 20_000].join(",");
    first.args(["bench", "--receivers", "2", "--rounds", "1", "--listen", "127.0.0.1:0", "--cluster", "here"]);
    first.args(["--sizes", &sizes, "--ticket-file"]).arg(experiment.path("ticket"));
    let first = Process::start("first", &mut first);
    let others = ["a", "b"].map(|name| {
        let words = ["bench", &experiment.ticket(), "--name", name, "--cluster", "here"];
        Process::start(name, mobcast().args(words))
    });
    first.expect_line("1 B by");
    (first, others)
}

#[test]
fn a_lost_node_is_named_and_ends_it_at_all_others() {
    let experiment = Experiment::new();
    let (first, [other, lost]) = long_bench(&experiment);
    lost.signal(Signal::KILL);
    lost.ends_with(128 + 9);
    let ended = first.ends_with(4);
    assert!(ended.complaint().contains("b: the node was lost"), "{}", ended.complaint());
    let ended = other.ends_with(4);
    assert!(ended.complaint().contains("went away") || ended.complaint().contains("gone"), "{}", ended.stderr);
}

#[test]
fn without_the_first_process_the_others_end() {
    let experiment = Experiment::new();
    let (first, others) = long_bench(&experiment);
    first.signal(Signal::KILL);
    first.ends_with(128 + 9);
    for other in others {
        let ended = other.ends_with(4);
        assert!(ended.complaint().contains("went away") || ended.complaint().contains("gone"), "{}", ended.stderr);
    }
}

/// A member of the group offers what the first process ends with.
#[test]
fn only_the_first_process_ends_it() {
    let experiment = Experiment::new();
    let mut first = mobcast();
    first.args(["bench", "--receivers", "2", "--sizes", "1", "--rounds", "1", "--listen", "127.0.0.1:0"]);
    first.args(["--cluster", "here", "--ticket-file"]).arg(experiment.path("ticket"));
    let first = Process::start("first", &mut first);
    let ticket: Ticket = first.first_line().parse().expect("a ticket");
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let options = GroupOptions { name: "rival".into(), cluster: Some("here".into()), ..GroupOptions::default() };
    let rival = runtime.block_on(Group::join(&ticket, options, Duration::from_secs(60))).expect("admitted");
    let end = rival.broadcast(Source::bytes(vec![0]), BroadcastOptions::default());
    let _own = runtime.block_on(end).expect("it may");
    let other = ["bench", &experiment.ticket(), "--name", "a", "--cluster", "here"];
    let other = Process::start("a", mobcast().args(other));
    other.expect_line("not taken: node 1 offers something");
    runtime.block_on(async {
        for _ in ["a round that does not count", "one that does", "the end"] {
            let offer = rival.next_offer().await.expect("the first process's");
            let mut taken = offer.receive(Sink::verify_only(), SinkOptions::default()).await.expect("taken");
            taken.complete().await.expect("all of it");
            taken.released().await.expect("everybody has it");
        }
    });
    other.succeeds();
    first.succeeds();
}

fn refused(words: &[&str], status: i32) -> Ended {
    Process::start("mobcast", mobcast().args(words)).ends_with(status)
}

#[test]
fn who_measures_nothing_is_told_what_to_do() {
    let complaint = refused(&["bench"], 2).complaint().to_owned();
    assert!(complaint.contains("--receivers"), "{complaint}");
    assert!(refused(&["bench", "--receivers", "1", "--sizes", "2GiB"], 2).stderr.contains("1GiB"));
    let both = refused(&["bench", "mob1abc", "--receivers", "1"], 2);
    assert!(both.stderr.contains("cannot be used with '--receivers <N>'"), "{}", both.stderr);
    let mut exported = mobcast();
    exported.args(["bench", "mob1abc"]).env("MOBCAST_RECEIVERS", "3");
    let complaint = Process::start("exported", &mut exported).ends_with(3).complaint().to_owned();
    assert!(complaint.contains("copy it again, to its very end"), "the ticket counts: {complaint}");
    let words = ["bench", "--receivers", "1", "--wait", "200ms", "--listen", "127.0.0.1:0"];
    let complaint = refused(&words, 4).complaint().to_owned();
    assert!(complaint.contains("0 of 1 joined") && complaint.contains("--wait"), "{complaint}");
}

#[test]
fn a_machine_s_costs_are_kept_where_send_finds_them() {
    let experiment = Experiment::new();
    let mut calibrate = mobcast();
    calibrate.args(["calibrate", "--json"]).env("XDG_CACHE_HOME", experiment.path("cache"));
    let report = Process::start("calibrate", &mut calibrate).succeeds().json();
    // Hosts that share a home have files of their own.
    let files = names(&experiment.path("cache/mobcast"));
    let [file] = &files[..] else { panic!("{files:?}") };
    assert!(file.starts_with("costs-") && file.len() > "costs-.json".len(), "{file}");
    let kept = fs::read_to_string(experiment.path("cache/mobcast").join(file)).expect("it is kept");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&kept).expect("it is JSON"), report);
    assert!(report["bytes_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{report}");
    fs::write(experiment.path("file"), "in the way").expect("written");
    let mut nowhere = mobcast();
    nowhere.arg("calibrate").env("XDG_CACHE_HOME", experiment.path("file"));
    let ended = Process::start("calibrate", &mut nowhere).ends_with(5);
    assert!(ended.complaint().contains("cannot keep the result in"), "{}", ended.complaint());
}
