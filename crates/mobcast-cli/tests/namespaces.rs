//! The real command on several machines, each a network namespace: on one switch, with both families of addresses, and
//! at two sites with 20 ms between them. What does not need a network is tested on loopback, in the other files.
//!
//! These tests need root and `ip`. Where they cannot run they say so, and fail if MOBCAST_REQUIRE_NETNS is set.
//! MOBCAST_TEST_LARGE makes the file one of 1 GiB.

mod common;
mod support_netns;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use common::{Experiment, Process, eventually, left_out, mobcast, names, tree};
use support_netns::{Family, Lab, Machine, Needs, fresh_name, listed, processes, remove_leftovers};

const MIB: u64 = 1 << 20;

/// `send` on a machine, with the ticket in the experiment's file.
fn send(experiment: &Experiment, machine: &Machine, arguments: &[&str]) -> Process {
    Process::start("send", &mut send_command(experiment, machine, arguments))
}

fn send_command(experiment: &Experiment, machine: &Machine, arguments: &[&str]) -> Command {
    let mut command = mobcast();
    command.args(["send", "--name=root", "--json", "--ticket-file=ticket"]).args(arguments);
    machine.on(command.current_dir(experiment.path("")))
}

/// `recv` called `name` on a machine, which waits for the ticket's file.
fn recv(experiment: &Experiment, machine: &Machine, name: &str, arguments: &[&str]) -> Process {
    Process::start(name, &mut recv_command(experiment, machine, name, arguments))
}

fn recv_command(experiment: &Experiment, machine: &Machine, name: &str, arguments: &[&str]) -> Command {
    let mut command = mobcast();
    command.args(["recv", "--name", name, "@ticket"]).args(arguments);
    machine.on(command.current_dir(experiment.path("")))
}

#[test]
fn a_file_reaches_two_other_machines() {
    let Some(mut lab) = Lab::new(Needs::Switches) else { return };
    let [root, a, b] = lab.site(Family::V4);
    let experiment = Experiment::new();
    let size = if std::env::var_os("MOBCAST_TEST_LARGE").is_some() { 1024 * MIB } else { 64 * MIB };
    let source = experiment.path("source");
    write_data(&source, size);
    // Receivers wait for a sender that does not exist yet.
    let receivers = [("a", &a), ("b", &b)].map(|(name, machine)| recv(&experiment, machine, name, &[name, "--json"]));
    receivers.iter().for_each(|receiver| drop(receiver.expect_line("waiting for the ticket")));
    let send = send(&experiment, &root, &["source", "--receivers=2"]);
    let mut reports: Vec<Value> = receivers.into_iter().map(|receiver| receiver.succeeds().json()).collect();
    let report = send.succeeds().json();
    assert_same_bytes(&source, &experiment.path("a"));
    assert_same_bytes(&source, &experiment.path("b"));
    assert_eq!(clusters(&report).into_values().collect::<Vec<_>>(), [members(["root", "a", "b"])]);
    assert_eq!(report["wan_copies"], serde_json::json!({}), "one switch is one cluster: {report}");
    for name in ["a", "b"] {
        let imported = node(&report, name)["bytes_in_lan"].as_u64().expect("a number");
        assert!((size..size + size / 4).contains(&imported), "each byte once, and little twice: {report}");
    }
    let exported = node(&report, "root")["bytes_out_lan"].as_u64().expect("a number");
    assert!(exported >= size, "each byte leaves the root: {report:#}");
    reports.push(report);
    let hash = hash(&source);
    for report in reports {
        assert_eq!(report["object_hash"], *hash, "the object's hash is that of b3sum");
        assert_eq!(report["bytes"], size);
    }
    assert_eq!(names(&experiment.path("")), ["a", "b", "source", "ticket"], "nothing partial is left");
}

#[test]
fn a_directory_reaches_two_other_machines() {
    let Some(mut lab) = Lab::new(Needs::Switches) else { return };
    let [root, a, b] = lab.site(Family::V4);
    let experiment = Experiment::new();
    make_tree(&experiment);
    let receivers = [recv(&experiment, &a, "a", &["a"]), recv(&experiment, &b, "b", &["b"])];
    let send = send(&experiment, &root, &["tree", "--receivers=2"]);
    receivers.into_iter().for_each(|receiver| drop(receiver.succeeds()));
    send.succeeds();
    assert_same_trees(&experiment, "a");
    assert_same_trees(&experiment, "b");
}

#[test]
fn what_tar_writes_on_one_machine_tar_reads_on_another() {
    let Some(mut lab) = Lab::new(Needs::Switches) else { return };
    let [root, a] = lab.site(Family::V4);
    let experiment = Experiment::new();
    make_tree(&experiment);
    experiment.directory("a");
    let mut tar = Command::new("tar");
    let pack =
        tar.args(["-C", "tree", "-c", "--format=pax", "."]).current_dir(experiment.path("")).stdout(Stdio::piped());
    let mut pack = pack.spawn().expect("tar starts");
    let mut tar = Command::new("tar");
    let unpack = tar.args(["-C", "a", "-x", "-p"]).current_dir(experiment.path("")).stdin(Stdio::piped());
    let mut unpack = unpack.spawn().expect("tar starts");
    let mut send = send_command(&experiment, &root, &["-", "--receivers=1"]);
    let send = Process::start("send", send.stdin(pack.stdout.take().expect("piped")));
    let mut recv = recv_command(&experiment, &a, "a", &["-"]);
    let recv = Process::start_into("a", &mut recv, unpack.stdin.take().expect("piped"));
    recv.succeeds();
    send.succeeds();
    assert!(pack.wait().expect("a child").success());
    assert!(unpack.wait().expect("a child").success());
    assert_same_trees(&experiment, "a");
}

#[test]
fn machines_with_ipv6_alone_reach_each_other() {
    if !Path::new("/proc/net/if_inet6").exists() {
        return left_out("the kernel has no IPv6");
    }
    let Some(mut lab) = Lab::new(Needs::Switches) else { return };
    let [root, a, b] = lab.site(Family::V6);
    let experiment = Experiment::new();
    let source = experiment.file("source", 3_000_000);
    let receivers = [recv(&experiment, &a, "a", &["a"]), recv(&experiment, &b, "b", &["b"])];
    let send = send(&experiment, &root, &["source", "--receivers=2"]);
    receivers.into_iter().for_each(|receiver| drop(receiver.succeeds()));
    let report = send.succeeds().json();
    assert_eq!(clusters(&report).into_values().collect::<Vec<_>>(), [members(["root", "a", "b"])]);
    assert_same_bytes(&source, &experiment.path("a"));
    assert_same_bytes(&source, &experiment.path("b"));
}

/// Nobody names a cluster. The receivers of the far site come all at once, and must not found one each.
#[test]
fn two_sites_20_ms_apart_become_two_clusters_and_hardly_a_byte_crosses_twice() {
    let Some(mut lab) = Lab::new(Needs::LongLines) else { return };
    let [root, near_1, near_2] = lab.site(Family::V4);
    let [far_1, far_2, far_3] = lab.site(Family::V4);
    lab.connect(0, 1, Duration::from_millis(10));
    let experiment = Experiment::new();
    let source = experiment.file("source", 16 << 20);
    let machines = [("near-1", near_1), ("near-2", near_2), ("far-1", far_1), ("far-2", far_2), ("far-3", far_3)];
    let receivers: Vec<Process> =
        machines.iter().map(|(name, machine)| recv(&experiment, machine, name, &[name])).collect();
    let send = send(&experiment, &root, &["source", "--receivers=5"]);
    receivers.into_iter().for_each(|receiver| drop(receiver.succeeds()));
    let report = send.succeeds().json();
    for (name, _) in &machines {
        assert_same_bytes(&source, &experiment.path(name));
    }
    let clusters = clusters(&report);
    let found: BTreeSet<_> = clusters.values().cloned().collect();
    let sites = [members(["root", "near-1", "near-2"]), members(["far-1", "far-2", "far-3"])];
    assert_eq!(found, BTreeSet::from(sites), "{report:#}");
    for (name, _) in &machines {
        let reason = node(&report, name)["cluster_reason"].as_str().expect("a reason");
        let away = time_in(reason).unwrap_or_else(|| panic!("{name} was told no time: {reason}"));
        if reason.starts_with("founded") {
            assert!(away >= Duration::from_millis(20), "{name} {reason}");
        } else {
            assert!(reason.starts_with("joined"), "{name} {reason}");
        }
    }
    let far = node(&report, "far-1")["cluster"].as_str().expect("a cluster");
    let wan_copies: Vec<_> = report["wan_copies"].as_object().expect("clusters").iter().collect();
    assert_eq!(wan_copies.len(), 1, "the root's own cluster imports nothing: {report:#}");
    let copies = wan_copies[0].1.as_f64().expect("a number");
    assert!(wan_copies[0].0 == far && (1.0..=1.25).contains(&copies), "{report:#}");
}

#[test]
fn a_receiver_without_a_way_to_the_sender_says_so() {
    let Some(mut lab) = Lab::new(Needs::Switches) else { return };
    let [root] = lab.site(Family::V4);
    let [stranger] = lab.site(Family::V4);
    let experiment = Experiment::new();
    experiment.file("source", 1_000);
    let send = send(&experiment, &root, &["source"]);
    eventually("the ticket is there", || experiment.path("ticket").exists());
    let ended = recv(&experiment, &stranger, "stranger", &["copy", "--wait=2s"]).wait();
    assert!([3, 4].contains(&ended.code), "exit status {}; it said:\n{}", ended.code, ended.stderr);
    let complaint = ended.complaint();
    assert!(complaint.contains("the coordinator could not be reached within"), "as the README has it: {complaint}");
    assert!(complaint.contains("10.77.0.1:"), "which address it was: {complaint}");
    assert_eq!(names(&experiment.path("")), ["source", "ticket"], "nothing partial is left");
    send.signal(rustix::process::Signal::INT);
    send.ends_with(130);
}

#[test]
fn a_failed_experiment_leaves_nothing() {
    let Some(mut lab) = Lab::new(Needs::LongLines) else { return };
    let mut forgotten = None;
    let mut namespaces = Vec::new();
    let failed = catch_unwind(AssertUnwindSafe(|| {
        let [a] = lab.site(Family::V4);
        let [_b] = lab.site(Family::V4);
        lab.connect(0, 1, Duration::from_millis(1));
        namespaces = lab.namespaces();
        forgotten = Some(a.on(Command::new("sleep").arg("600")).spawn().expect("started"));
        let _moved = lab;
        // A panic whose message is not printed.
        resume_unwind(Box::new(()));
    }));
    assert!(failed.is_err());
    assert_eq!(namespaces.len(), 4, "two routers and two machines");
    let listed = listed();
    assert!(namespaces.iter().all(|name| !listed.contains(name)), "{listed:?}");
    assert!(!forgotten.expect("started").wait().expect("a child").success(), "it was killed");
    for device in ["switch", "port0", "line"] {
        assert!(!Path::new("/sys/class/net").join(device).exists(), "{device} is in the namespace of the tests");
    }
}

#[test]
fn what_a_killed_test_left_is_removed_by_the_next() {
    let Some(_lab) = Lab::new(Needs::Switches) else { return };
    let mut owner = Command::new("sleep").arg("600").spawn().expect("started");
    let name = fresh_name(owner.id());
    assert!(Command::new("ip").args(["netns", "add", &name]).status().expect("started").success());
    let mut inside = Command::new("ip");
    let mut inside = inside.args(["netns", "exec", &name, "sleep", "600"]).spawn().expect("started");
    eventually("the process is in the namespace", || !processes(&name).is_empty());
    remove_leftovers();
    assert!(listed().contains(&name), "it belongs to a process that lives");
    owner.kill().expect("a child");
    owner.wait().expect("a child");
    remove_leftovers();
    assert!(!listed().contains(&name));
    assert!(!inside.wait().expect("a child").success(), "it was killed");
}

/// `tree`: this repository's sources, and one entry of each kind.
fn make_tree(experiment: &Experiment) {
    let tree = experiment.directory("tree");
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it is one of the crates");
    let copied = Command::new("cp").arg("-a").arg(crates).arg(&tree).status().expect("cp starts");
    assert!(copied.success());
    tree::of_every_kind(&tree.join("of every kind"));
}

/// The copy has all that is kept of a tree, and `diff` sees no difference either.
fn assert_same_trees(experiment: &Experiment, copy: &str) {
    let (tree, copy) = (experiment.path("tree"), experiment.path(copy));
    let descriptions = [&tree, &copy].map(|root| tree::describe(root));
    for (sent, arrived) in descriptions[0].iter().zip(&descriptions[1]) {
        assert_eq!(sent, arrived);
    }
    assert_eq!(descriptions[0].len(), descriptions[1].len());
    let diff = Command::new("diff").args(["-r", "--no-dereference"]).arg(tree).arg(copy).output().expect("diff starts");
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
}

/// A file with bytes that do not compress, larger than what one has in memory.
fn write_data(path: &Path, size: u64) {
    let data = blake3::Hasher::new_derive_key("mobcast test data").finalize_xof();
    let mut file = File::create(path).expect("made");
    std::io::copy(&mut data.take(size), &mut file).expect("written");
}

fn hash(path: &Path) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path).expect("there")).expect("readable");
    hasher.finalize().to_string()
}

fn assert_same_bytes(source: &Path, copy: &Path) {
    let mut files = [source, copy].map(|path| File::open(path).expect("there"));
    let [source_size, size] = files.each_ref().map(|file| file.metadata().expect("open").len());
    assert_eq!(size, source_size, "size of {}", copy.display());
    let mut blocks = [vec![0; 1 << 20], vec![0; 1 << 20]];
    for offset in (0..size).step_by(1 << 20) {
        let n = (size - offset).min(1 << 20) as usize;
        for (file, block) in files.iter_mut().zip(&mut blocks) {
            file.read_exact(&mut block[..n]).expect("readable");
        }
        assert!(blocks[0][..n] == blocks[1][..n], "{} differs after byte {offset}", copy.display());
    }
}

/// A node's part of a report.
fn node<'a>(report: &'a Value, name: &str) -> &'a Value {
    let nodes = report["nodes"].as_array().expect("nodes");
    nodes.iter().find(|node| node["name"] == name).unwrap_or_else(|| panic!("{name} is not there: {report:#}"))
}

/// The names of each cluster's members. All of them must be verified.
fn clusters(report: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let mut clusters: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in report["nodes"].as_array().expect("nodes") {
        assert_eq!(node["verified"], true, "{report:#}");
        let [cluster, name] = ["cluster", "name"].map(|field| node[field].as_str().expect("a name").to_owned());
        assert!(clusters.entry(cluster).or_default().insert(name), "each node once: {report:#}");
    }
    clusters
}

fn members<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

/// The round-trip time in a sentence such as `joined cluster-0: 210 µs away, within the threshold of 1 ms`.
fn time_in(reason: &str) -> Option<Duration> {
    let (before, _) = reason.split_once(" away")?;
    let mut words = before.rsplit(' ');
    let second = match words.next()? {
        "s" => 1.0,
        "ms" => 1e-3,
        "µs" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    };
    let number: f64 = words.next()?.parse().ok()?;
    Some(Duration::from_secs_f64(number * second))
}
