//! What `--json` tells of a node besides its payload: when, every byte at its sockets, its links. Programs that judge
//! runs rely on it.

mod common;

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use common::{Experiment, Process};

const BYTES: u64 = 6_000_000;
/// Frames of the end that are on their way when the reports are made.
const CLOSING_BYTES: u64 = 64 << 10;
/// What a link has read, the books of a broadcast may have a chunk later.
const CHUNK_BYTES: u64 = 256 << 10;

/// Sends 6 MB from `root` and `a` (cluster `here`) to `b` and `c` (cluster `far`); the nodes' own reports, with their
/// names.
fn reports(more: &[&str]) -> Vec<(&'static str, Value)> {
    let experiment = Experiment::new();
    let source = experiment.file("source", BYTES as usize);
    let mut send = experiment.send_command();
    send.args(["--name=root", "--receivers=3", "--json"]).args(more).arg(source);
    let send = Process::start("root", &mut send);
    let receivers = [("a", "here"), ("b", "far"), ("c", "far")].map(|(name, cluster)| {
        let arguments = ["--verify-only", "--json", "--cluster", cluster];
        (name, experiment.recv(name, arguments.iter().chain(more)))
    });
    let mut reports: Vec<_> = receivers.into_iter().map(|(name, node)| (name, node.succeeds().json())).collect();
    reports.push(("root", send.succeeds().json()));
    reports
}

/// The entry of a node in its own report.
fn own<'a>(name: &str, report: &'a Value) -> &'a Value {
    let nodes = report["nodes"].as_array().expect("nodes");
    nodes.iter().find(|node| node["name"] == name).unwrap_or_else(|| panic!("{name}: {report:#}"))
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key}: {value:#}"))
}

fn sum(value: &Value, keys: [&str; 2]) -> u64 {
    keys.iter().map(|key| number(value, key)).sum()
}

#[test]
fn the_sockets_carry_the_payload_and_little_else_and_what_one_sends_another_receives() {
    for more in [&[][..], &["--plain"]] {
        let reports = reports(more);
        let (mut sent, mut received) = (0, 0);
        for (name, report) in &reports {
            let node = own(name, report);
            for [wire, payload] in [["wire_in_wan", "bytes_in_wan"], ["wire_in_lan", "bytes_in_lan"]] {
                assert!(number(node, wire) >= number(node, payload), "{name}: {wire} {node:#}");
            }
            sent += sum(node, ["wire_out_wan", "wire_out_lan"]);
            received += sum(node, ["wire_in_wan", "wire_in_lan"]);
        }
        assert!(sent.abs_diff(received) <= CLOSING_BYTES, "{sent} bytes sent, {received} received: {reports:#?}");
        let far = reports.iter().filter(|(_, report)| report["nodes"][0]["cluster"] == "far");
        let far: Vec<&Value> = far.map(|(name, report)| own(name, report)).collect();
        let total = |key| far.iter().map(|node| number(node, key)).sum::<u64>();
        let (wire, payload) = (total("wire_in_wan"), total("bytes_in_wan"));
        assert!(payload >= BYTES && wire > payload, "{wire} bytes of {payload}");
        assert!((wire as f64) < 1.1 * payload as f64, "{wire} bytes of {payload}");
    }
}

#[test]
fn each_node_tells_its_own_sockets_alone() {
    for (name, report) in reports(&[]) {
        for node in report["nodes"].as_array().expect("nodes") {
            let is_own = node["name"] == name;
            for key in ["wire_in_wan", "wire_in_lan", "wire_out_wan", "wire_out_lan"] {
                assert_eq!(node.get(key).is_some(), is_own, "{name}: {key} {node:#}");
            }
        }
    }
}

#[test]
fn a_report_says_when_it_began_and_when_this_node_had_everything() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let before = now();
    let reports = reports(&[]);
    let after = now();
    for (name, report) in reports {
        let time = |key: &str| report[key].as_f64().unwrap_or_else(|| panic!("{name}: {key} {report:#}"));
        let (started, complete) = (time("started_at"), time("complete_at"));
        assert!(before <= started + 1e-6 && started <= complete && complete <= after + 1e-6, "{name}: {report:#}");
    }
}

#[test]
fn links_add_up_to_the_payload_and_name_their_peers() {
    let reports = reports(&[]);
    let root = &reports.iter().find(|(name, _)| *name == "root").expect("it reports").1;
    for (name, report) in &reports {
        let links = report["links"].as_array().expect("links");
        assert!((1..=3).contains(&links.len()), "{name}: {links:#?}");
        let node = own(name, report);
        let total = |key| links.iter().map(|link| number(link, key)).sum::<u64>();
        let (told, read) = (sum(node, ["bytes_in_wan", "bytes_in_lan"]), total("bytes_in"));
        assert!((told..=told + CHUNK_BYTES).contains(&read), "{name}: {read} bytes of {told}: {report:#}");
        for link in links {
            assert_eq!(link["streams"], 1);
            assert!(number(link, "wire_in") > 0 && number(link, "wire_out") > 0, "{link:#}");
            assert!(link["rtt_ms"].is_null() || link["rtt_ms"].as_f64().is_some_and(|rtt| rtt > 0.0), "{link:#}");
            assert!(link["rate_in_mb_s"].is_number() && link["window_bytes"].is_u64(), "{link:#}");
            assert_eq!(link["requests_in_flight"], 0, "it has everything: {link:#}");
            let peers = root["nodes"].as_array().expect("nodes");
            assert!(
                peers.iter().any(|peer| peer["number"] == link["number"]),
                "the root knows them all by number: {link:#}"
            );
        }
        let names: Vec<&str> = links.iter().filter_map(|link| link["peer"].as_str()).collect();
        if *name == "root" {
            assert!(!names.is_empty() && names.iter().all(|peer| ["a", "b", "c"].contains(peer)), "{names:?}");
        }
    }
}

/// The log is for people, but what draws curves from it relies on these words.
#[test]
fn the_log_has_a_line_for_each_link_once_a_second_if_it_is_wanted() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 3_000_000);
    let limited = ["--max-rate=1MB/s", "--receivers=1"];
    let mut send = experiment.send_command();
    send.env("MOBCAST_LOG", "mobcast::links=debug").args(limited).arg(source);
    let send = Process::start("send", &mut send);
    let mut recv = experiment.recv_command("a");
    let recv = Process::start("a", recv.env("MOBCAST_LOG", "mobcast::links=info").arg("--verify-only"));
    assert!(!recv.succeeds().stderr.contains("mobcast::links"), "not wanted");
    let said = send.succeeds().stderr;
    let line = said.lines().find(|line| line.contains("mobcast::links")).unwrap_or_else(|| panic!("no line: {said}"));
    for key in ["peer", "cluster", "bytes_in", "bytes_out", "wire_in", "wire_out", "window", "in_flight", "queue"] {
        assert!(line.contains(&format!(" {key}=")), "{key}: {line}");
    }
}
