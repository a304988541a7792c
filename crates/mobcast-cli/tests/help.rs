//! The command line itself: its help, its completions, and what is refused before anything happens.

mod common;

use expect_test::expect_file;

use common::{Experiment, mobcast, run};

fn help(arguments: &[&str]) -> String {
    run(arguments).text()
}

#[test]
fn every_subcommand_documents_its_flags() {
    expect_file!["snapshots/help.txt"].assert_eq(&help(&["--help"]));
    expect_file!["snapshots/help-send.txt"].assert_eq(&help(&["send", "--help"]));
    expect_file!["snapshots/help-recv.txt"].assert_eq(&help(&["recv", "--help"]));
    expect_file!["snapshots/help-demo.txt"].assert_eq(&help(&["demo", "--help"]));
    expect_file!["snapshots/help-bench.txt"].assert_eq(&help(&["bench", "--help"]));
    expect_file!["snapshots/help-calibrate.txt"].assert_eq(&help(&["calibrate", "--help"]));
    expect_file!["snapshots/help-strategies.txt"].assert_eq(&help(&["strategies", "--help"]));
    expect_file!["snapshots/help-completions.txt"].assert_eq(&help(&["completions", "--help"]));
    expect_file!["snapshots/help-version.txt"].assert_eq(&help(&["version", "--help"]));
    assert_eq!(help(&["help", "send"]), help(&["send", "--help"]));
}

#[test]
fn the_version_is_the_same_both_ways() {
    let version = run(["version"]).text();
    assert_eq!(version, concat!("mobcast ", env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(run(["--version"]).text(), version);
    assert_eq!(run(["-V"]).text(), version);
}

#[test]
fn strategies_are_listed_for_people_and_programs() {
    let listed = run(["strategies", "--json"]).json();
    let names = listed.as_array().expect("a list").iter().map(|one| one["name"].as_str().expect("a name"));
    let text = run(["strategies"]).text();
    let first_words = text.lines().map(|line| line.split_whitespace().next().unwrap_or_default());
    assert!(first_words.eq(names.clone()), "a line for each: {text}");
    assert!(names.clone().count() > 10 && text.lines().all(|line| line.split_whitespace().count() > 3), "{text}");
    assert_eq!((&listed[0]["name"], &listed[1]["name"]), (&"auto".into(), &"mob".into()));
    assert_eq!(listed[0]["default"], true);
    assert!(listed[0]["summary"].is_string());
}

#[test]
fn completions_know_the_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(["completions", shell]).text();
        assert!(script.contains("ticket-file") && script.contains("verify-only"), "{shell}");
    }
    assert_eq!(run(["completions", "dos"]).code, 2);
}

#[test]
fn wrong_usage_is_status_2_and_says_what_would_be_right() {
    for (arguments, remedy) in [
        (vec![], "Usage: mobcast <COMMAND>"),
        (vec!["fly"], "unrecognized subcommand 'fly'"),
        (vec!["send"], "PATH|-|synthetic:SIZE[:SEED]"),
        (vec!["send", "x", "--receivers", "0"], "1..=100000"),
        (vec!["send", "x", "--receivers", "many"], "invalid digit"),
        (vec!["send", "x", "--listen", "nowhere"], "10.0.0.5:7777"),
        (vec!["send", "x", "--advertise", "host"], "198.51.100.7"),
        (vec!["send", "x", "--piece-size", "1MB"], "a power of two from 16KiB to 16MiB"),
        (vec!["send", "x", "--max-rate", "10"], "10MB/s, 512KiB/s or 100Mbit/s"),
        (vec!["send", "x", "--wait", "5"], "500ms, 30s, 5m or 24h"),
        (vec!["send", "x", "--expires", "0s"], "a time of zero is over at once; write one like 30s, 5m or 24h"),
        (vec!["send", "x", "--strategy", "hope"], "possible values: auto, mob"),
        (vec!["send", "x", "--gather"], "--receivers <N>"),
        (vec!["send", "synthetic:lots"], "64MiB"),
        (vec!["recv"], "there is no ticket"),
        (vec!["recv", "mob1x", "a", "b"], "unexpected argument 'b'"),
        (vec!["recv", "mob1x", "--verify-only", "a"], "leave the destination out"),
        (vec!["recv", "mob1x", "-", "--json"], "both need standard output"),
        (vec!["demo", "--nodes", "1"], "2..=250"),
        (vec!["demo", "--nodes", "3", "--clusters", "4"], "fewer --clusters"),
        (vec!["demo", "--size", "64M"], "MiB"),
    ] {
        let ended = run(&arguments);
        assert_eq!(ended.code, 2, "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(remedy), "{arguments:?} should say {remedy:?}: {}", ended.stderr);
        assert!(ended.stdout.is_empty(), "{arguments:?}: standard output is for results");
    }
}

#[test]
fn every_flag_can_come_from_the_environment() {
    let ended = common::Process::start("send", mobcast().args(["send", "x"]).env("MOBCAST_PIECE_SIZE", "3")).wait();
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("a power of two from 16KiB to 16MiB"), "{}", ended.stderr);
}

#[test]
fn what_is_not_a_ticket_is_status_3() {
    for (ticket, remedy) in [
        ("hello", "copy the line that `mobcast send` printed"),
        ("mob2abc", "use the same mobcast at both ends"),
        ("mob1abc", "copy it again, to its very end"),
        ("mob1ab.c", "a character that no ticket has"),
    ] {
        let ended = run(["recv", ticket]);
        assert_eq!(ended.code, 3, "{ticket}: {}", ended.stderr);
        assert!(ended.complaint().contains(remedy), "{}", ended.stderr);
    }
}

#[test]
fn a_ticket_file_that_does_not_come_is_status_3() {
    let experiment = Experiment::new();
    let ended = experiment.recv("a", ["--wait", "100ms"]).ends_with(3);
    assert!(ended.complaint().contains("mobcast send --ticket-file"), "{}", ended.stderr);
}

#[test]
fn a_source_that_is_not_there_is_status_5() {
    let experiment = Experiment::new();
    let ended = experiment.send(["nothing here"]).ends_with(5);
    assert!(ended.complaint().contains("cannot read nothing here"), "{}", ended.stderr);
    assert!(ended.stdout.is_empty(), "no ticket for what cannot be sent");
    assert!(!experiment.path("ticket").exists());
}
