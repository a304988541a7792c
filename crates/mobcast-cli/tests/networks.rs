//! Networks that stand in the way: the port of the sender, translation of addresses, firewalls that let nobody in.
//!
//! These tests need root, `ip` and `nft`. Where they cannot run they say so, and fail if MOBCAST_REQUIRE_NETNS is set.

mod common;
mod support_netns;

use std::fs;
use std::net::SocketAddr;
use std::time::Instant;

use mobcast::Ticket;
use serde_json::Value;

use common::{Experiment, Process, data, mobcast};
use support_netns::{Family, Lab, Machine, Needs};

const DEFAULT_PORT: u16 = mobcast::DEFAULT_PORT;

/// `send` on a machine, with the ticket in the experiment's file.
fn send(experiment: &Experiment, machine: &Machine, arguments: &[&str]) -> Process {
    let mut command = mobcast();
    command.args(["send", "--name=root", "--ticket-file=ticket"]).args(arguments);
    Process::start("send", &mut machine.on(command.current_dir(experiment.path(""))))
}

/// `recv` called `name` on a machine, into the file of that name.
fn recv(experiment: &Experiment, machine: &Machine, name: &str, arguments: &[&str]) -> Process {
    let mut command = mobcast();
    command.args(["recv", "@ticket", name, "--name", name]).args(arguments);
    Process::start(name, &mut machine.on(command.current_dir(experiment.path(""))))
}

fn addresses(send: &Process) -> Vec<SocketAddr> {
    send.first_line().parse::<Ticket>().expect("a ticket").addresses
}

#[test]
fn a_sender_takes_the_port_that_firewalls_are_opened_for_or_says_which() {
    let Some(mut lab) = Lab::new(Needs::Switches) else { return };
    let [root, a] = lab.site(Family::V4);
    let (first, second) = (Experiment::new(), Experiment::new());
    let sends = [&first, &second].map(|experiment| {
        experiment.file("source", 100_000);
        let send = send(experiment, &root, &["source", "--receivers=1"]);
        let addresses = addresses(&send);
        (send, addresses)
    });
    let ports = sends.each_ref().map(|(_, addresses)| addresses[0].port());
    assert_eq!(ports[0], DEFAULT_PORT);
    assert_ne!(ports[1], DEFAULT_PORT, "both cannot have it");
    let note = sends[1].0.expect_line("is taken");
    assert!(note.contains("7077") && note.contains(&ports[1].to_string()), "{note}");
    for (experiment, (send, _)) in [&first, &second].into_iter().zip(sends) {
        recv(experiment, &a, "copy", &[]).succeeds();
        send.succeeds();
        assert_eq!(fs::read(experiment.path("copy")).expect("there"), data(100_000));
    }
}

#[test]
fn a_sender_without_a_network_says_that_its_ticket_is_of_no_use_to_others() {
    let Some(mut lab) = Lab::new(Needs::Switches) else { return };
    let alone = lab.alone();
    let experiment = Experiment::new();
    experiment.file("source", 100_000);
    let send = send(&experiment, &alone, &["source", "--receivers=1"]);
    assert!(addresses(&send).iter().all(|address| address.ip().is_loopback()));
    send.expect_line("warning: only this machine can use the ticket");
    recv(&experiment, &alone, "copy", &[]).succeeds();
    send.succeeds();
}

/// By the kernel's count. From above only: on a busy machine, less may leave.
#[test]
fn a_limit_to_the_rate_is_not_exceeded_by_5_percent_on_the_wire() {
    const LIMIT: f64 = 4e6;
    let Some(mut lab) = Lab::new(Needs::Switches) else { return };
    let [root, a, b] = lab.site(Family::V4);
    let experiment = Experiment::new();
    experiment.file("source", 8_000_000);
    let limited = ["--max-rate=4MB/s"];
    let (started, before) = (Instant::now(), [&root, &a, &b].map(Machine::sent_bytes));
    let send = send(&experiment, &root, &["source", "--receivers=2", "--json", limited[0]]);
    let receivers = [("a", &a), ("b", &b)].map(|(name, machine)| recv(&experiment, machine, name, &limited));
    receivers.into_iter().for_each(|receiver| drop(receiver.succeeds()));
    let report = send.succeeds().json();
    let permitted = LIMIT * started.elapsed().as_secs_f64() * 1.05;
    for (machine, before) in [&root, &a, &b].into_iter().zip(before) {
        let sent = machine.sent_bytes() - before;
        assert!((sent as f64) < permitted, "{sent} bytes left a machine that may send {permitted:.0}");
    }
    let payload = number(&report, "root", "bytes_out_lan") as f64;
    let permitted = LIMIT * report["seconds"].as_f64().expect("a number") * 1.05;
    assert!(payload >= 8e6 && payload < permitted, "{payload} bytes of payload, {permitted:.0} may be");
}

#[test]
fn a_sender_behind_translated_addresses_is_reached_at_what_it_advertises() {
    let Some(mut lab) = Lab::new(Needs::Firewalls) else { return };
    let [a, b] = lab.site(Family::V4);
    let (root, outside) = lab.behind_gateway(0, (17_077, DEFAULT_PORT));
    let experiment = Experiment::new();
    experiment.file("source", 3_000_000);
    let advertise = format!("--advertise={outside}");
    let send = send(&experiment, &root, &["source", "--receivers=2", &advertise]);
    assert_eq!(addresses(&send), [outside], "the private address is of no use to others");
    let receivers = [("a", &a), ("b", &b)].map(|(name, machine)| recv(&experiment, machine, name, &[]));
    receivers.into_iter().for_each(|receiver| drop(receiver.succeeds()));
    send.succeeds();
    for copy in ["a", "b"] {
        assert!(fs::read(experiment.path(copy)).expect("there") == data(3_000_000), "{copy}");
    }
}

/// Two receivers in a cluster of their own; one of them lets nobody in. It comes last, and dials the other one.
#[test]
fn a_receiver_that_can_only_dial_out_relays_all_the_same() {
    let Some(mut lab) = Lab::new(Needs::Firewalls) else { return };
    let [root, open, closed] = lab.site(Family::V4);
    closed.lets_nobody_in();
    takes_part(&root, [("open", &open), ("closed", &closed)]);
}

/// The same, where its cluster's first member cannot be dialled, and the control tree begins with it.
#[test]
fn a_receiver_that_can_only_dial_out_may_be_the_first_of_its_cluster() {
    let Some(mut lab) = Lab::new(Needs::Firewalls) else { return };
    let [root, open, closed] = lab.site(Family::V4);
    closed.lets_nobody_in();
    takes_part(&root, [("closed", &closed), ("open", &open)]);
}

/// The others are told its private address, which leads nowhere.
#[test]
fn a_receiver_behind_translated_addresses_relays_all_the_same() {
    let Some(mut lab) = Lab::new(Needs::Firewalls) else { return };
    let [root, open] = lab.site(Family::V4);
    let (inside, _) = lab.behind_gateway(0, (17_077, DEFAULT_PORT));
    takes_part(&root, [("open", &open), ("inside", &inside)]);
}

/// They pass on what they have, for which at least one must know where the other is.
#[test]
fn receivers_that_were_started_before_their_network_reach_each_other() {
    let Some(mut lab) = Lab::new(Needs::Switches) else { return };
    let [root, a, b] = lab.site(Family::V4);
    let experiment = Experiment::new();
    experiment.file("source", 4_000_000);
    let limited = ["source", "--receivers=2", "--max-rate=1MB/s", "--piece-size=64KiB", "--json"];
    let send = send(&experiment, &root, &limited);
    let receivers = [("a", &a), ("b", &b)].map(|(name, machine)| {
        machine.set_up(false);
        let mut command = mobcast();
        command.args(["recv", "@ticket", name, "--name", name]).env("MOBCAST_LOG", "debug");
        let receiver = Process::start(name, &mut machine.on(command.current_dir(experiment.path(""))));
        receiver.expect_line("dial failed");
        receiver
    });
    [&a, &b].into_iter().for_each(|machine| machine.set_up(true));
    receivers.into_iter().for_each(|receiver| drop(receiver.succeeds()));
    let report = send.succeeds().json();
    let relayed = ["a", "b"].map(|name| number(&report, name, "bytes_out_lan"));
    assert!(relayed.iter().any(|&bytes| bytes > 0), "both have all from the sender: {report:#}");
}

fn takes_part(root: &Machine, receivers: [(&str, &Machine); 2]) {
    let experiment = Experiment::new();
    experiment.file("source", 4_000_000);
    let together = ["source", "--receivers=2", "--gather", "--strategy=mob", "--cluster=near", "--json"];
    let send = send(&experiment, root, &[&together[..], &["--max-rate=1MB/s", "--piece-size=64KiB"]].concat());
    let started = receivers.map(|(name, machine)| {
        let receiver = recv(&experiment, machine, name, &["--cluster=far"]);
        receiver.expect_line("joined as");
        receiver
    });
    started.into_iter().for_each(|receiver| drop(receiver.succeeds()));
    let report = send.succeeds().json();
    for (name, _) in receivers {
        assert!(fs::read(experiment.path(name)).expect("there") == data(4_000_000), "{name}");
        let relayed = number(&report, name, "bytes_out_lan");
        assert!(relayed > 0, "{name} passes nothing on: {report:#}");
    }
}

fn number(report: &Value, name: &str, field: &str) -> u64 {
    let nodes = report["nodes"].as_array().expect("nodes");
    let node = nodes.iter().find(|node| node["name"] == name).unwrap_or_else(|| panic!("{name}: {report:#}"));
    node[field].as_u64().unwrap_or_else(|| panic!("{field}: {node}"))
}
