//! Files and streams from one process to others: who may start when, what arrives, and what is said about it.

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::Signal;

use common::{Experiment, Process, data, left_out, mobcast, names, through, tree};

const PIECE: usize = 16 << 10;

#[test]
fn a_file_reaches_three_receivers() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 5_000_000);
    tree::set_mode(&source, 0o640);
    tree::set_time(&source, Duration::new(1_234_567_890, 987_654_321));
    let send = experiment.send([source.as_os_str(), "--receivers".as_ref(), "3".as_ref()]);
    let receivers = ["a", "b", "c"].map(|name| experiment.recv(name, [name]));
    for (name, receiver) in ["a", "b", "c"].iter().zip(receivers) {
        let ended = receiver.succeeds();
        assert!(ended.stdout.is_empty(), "standard output is for payload and reports");
        assert_eq!(fs::read(experiment.path(name)).expect("there"), data(5_000_000));
        let metadata = fs::metadata(experiment.path(name)).expect("there");
        assert_eq!(metadata.mode() & 0o7777, 0o640);
        assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (1_234_567_890, 987_654_321));
    }
    send.succeeds();
    assert_eq!(names(&experiment.path("")), ["a", "b", "c", "source", "ticket"], "nothing partial is left");
}

#[test]
fn the_ticket_is_one_line_on_standard_output_and_a_file_of_its_owner() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 10);
    let send = experiment.send([source]);
    let ticket = send.first_line();
    assert!(ticket.starts_with("mob1"));
    let file = experiment.path("ticket");
    assert_eq!(fs::read_to_string(&file).expect("there"), format!("{ticket}\n"));
    assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o7777, 0o600);
    let by_argument = Process::start("a", mobcast().arg("recv").arg(&ticket).arg(experiment.path("a")));
    by_argument.succeeds();
    let mut by_environment = mobcast();
    by_environment.env("MOBCAST_TICKET", &ticket).arg("recv").arg(experiment.path("b"));
    Process::start("b", &mut by_environment).succeeds();
    let mut by_stdin = mobcast();
    by_stdin.args(["recv", "@-"]).arg(experiment.path("c")).stdin(Stdio::piped());
    let mut by_stdin = Process::start("c", &mut by_stdin);
    writeln!(by_stdin.stdin(), "{ticket}").expect("written");
    by_stdin.succeeds();
    for copy in ["a", "b", "c"] {
        assert_eq!(fs::read(experiment.path(copy)).expect("there"), data(10), "{copy}");
    }
}

#[test]
fn receivers_may_be_started_before_the_sender() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 1_000_000);
    let early = experiment.recv("early", ["early"]);
    let send = experiment.send([source.as_os_str(), "--receivers".as_ref(), "2".as_ref()]);
    send.expect_line("joined early");
    let late = experiment.recv("late", ["late"]);
    early.succeeds();
    late.succeeds();
    send.succeeds();
    for copy in ["early", "late"] {
        assert_eq!(fs::read(experiment.path(copy)).expect("there"), data(1_000_000));
    }
}

#[test]
fn a_ticket_file_left_from_an_earlier_run_is_overcome() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 1_000);
    let source = source.as_os_str();
    let earlier = experiment.send([source]);
    earlier.first_line();
    earlier.signal(Signal::INT);
    earlier.ends_with(130);
    let early = experiment.recv("early", ["copy"]);
    let send = experiment.send([source, "--receivers".as_ref(), "1".as_ref()]);
    early.succeeds();
    send.succeeds();
    assert_eq!(fs::read(experiment.path("copy")).expect("there"), data(1_000));
}

#[test]
fn a_ticket_file_that_others_may_read_is_warned_of() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 10);
    let send = experiment.send([source]);
    send.first_line();
    tree::set_mode(&experiment.path("ticket"), 0o644);
    let ended = experiment.recv("a", ["copy"]).succeeds();
    assert!(ended.stderr.contains("warning:") && ended.stderr.contains("chmod 600"), "{}", ended.stderr);
}

#[test]
fn a_ticket_file_that_is_a_link_stays_one() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 1_000);
    let (link, target) = (experiment.path("ticket"), experiment.directory("shared").join("ticket"));
    std::os::unix::fs::symlink("shared/ticket", &link).expect("linked");
    // It leads to nothing at first, and then to the first one's ticket.
    for name in ["a", "b"] {
        let receiver = experiment.recv(name, [name]);
        let send = experiment.send([source.as_os_str(), "--receivers=1".as_ref()]);
        receiver.succeeds();
        let ticket = send.succeeds().text();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&target).expect("there"), ticket);
        assert_eq!(fs::metadata(&target).expect("there").mode() & 0o7777, 0o600);
        assert_eq!(fs::read(experiment.path(name)).expect("there"), data(1_000));
    }
    fs::remove_file(&link).expect("removed");
    std::os::unix::fs::symlink("/dev/null", &link).expect("linked");
    let send = experiment.send([&source]);
    send.first_line();
    assert_eq!(fs::read_link(&link).expect("a link"), Path::new("/dev/null"), "nor is a device replaced");
}

#[test]
fn a_ticket_file_that_is_a_named_pipe_is_written_to() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 1_000);
    let pipe = experiment.path("ticket");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    let send = experiment.send([source.as_os_str(), "--receivers=1".as_ref()]);
    experiment.recv("a", ["copy"]).succeeds();
    send.succeeds();
    assert!(fs::metadata(&pipe).expect("there").file_type().is_fifo());
    // Nobody reads this one, and nobody waits for that.
    let send = experiment.send([&source]);
    send.first_line();
    send.signal(Signal::INT);
    send.ends_with(130);
}

/// A sender without --receivers serves whoever comes until it is interrupted.
#[test]
fn later_receivers_are_taken_in_until_the_interrupt() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 300_000);
    let send = experiment.send([source]);
    for name in ["first", "second", "third"] {
        experiment.recv(name, [name]).succeeds();
        assert_eq!(fs::read(experiment.path(name)).expect("there"), data(300_000));
    }
    send.signal(Signal::TERM);
    send.succeeds();
}

#[test]
fn any_size_arrives() {
    for size in [0, 1, PIECE - 1, PIECE, PIECE + 1, 7 * PIECE, 7 * PIECE + 1] {
        let experiment = Experiment::new();
        let source = experiment.file("source", size);
        let send = experiment.send([source.as_os_str(), "--receivers=2".as_ref(), "--piece-size=16KiB".as_ref()]);
        let receivers = ["a", "b"].map(|name| experiment.recv(name, [name]));
        receivers.into_iter().for_each(|receiver| drop(receiver.succeeds()));
        send.succeeds();
        for name in ["a", "b"] {
            assert!(fs::read(experiment.path(name)).expect("there") == data(size), "{size} bytes");
        }
    }
}

#[test]
fn a_pipe_goes_through_in_order() {
    for size in [0, 1, PIECE, 3_000_001] {
        let experiment = Experiment::new();
        let (send, mut stdin) = experiment.send_pipe(["--receivers", "2", "--piece-size", "16KiB"]);
        let receivers = ["a", "b"].map(|name| experiment.recv(name, ["-"]));
        // Half of it leaves before the other half exists.
        let data = data(size);
        let (first, second) = data.split_at(size / 2);
        stdin.write_all(first).expect("written");
        send.expect_line("joined a");
        stdin.write_all(second).expect("written");
        drop(stdin);
        for receiver in receivers {
            assert!(receiver.succeeds().stdout == data, "{size} bytes");
        }
        send.succeeds();
    }
}

#[test]
fn the_reader_of_a_pipe_has_its_end_while_others_are_served() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 3_000_001);
    let send = experiment.send([source.as_os_str(), "--receivers=2".as_ref()]);
    let program = env!("CARGO_BIN_EXE_mobcast");
    let words = format!("{program} recv {} - | {{ wc -c; echo it has ended >&2; }}", experiment.ticket());
    let reader = Process::start("reader", through("sh").args(["-c", &words]));
    reader.expect_line("it has ended");
    experiment.recv("late", ["copy"]).succeeds();
    assert_eq!(reader.succeeds().text().trim(), "3000001");
    send.succeeds();
}

#[test]
fn a_pipe_can_become_a_file_and_a_file_a_pipe() {
    let experiment = Experiment::new();
    let (send, mut stdin) = experiment.send_pipe(["--receivers", "1"]);
    let receiver = experiment.recv("a", ["file"]);
    stdin.write_all(&data(100_000)).expect("written");
    drop(stdin);
    receiver.succeeds();
    send.succeeds();
    let file = experiment.path("file");
    assert_eq!(fs::read(&file).expect("there"), data(100_000));
    fs::remove_file(experiment.path("ticket")).expect("removed");
    let send = experiment.send([file.as_os_str(), "--receivers=1".as_ref()]);
    assert_eq!(experiment.recv("b", ["-"]).succeeds().stdout, data(100_000));
    send.succeeds();
}

#[test]
fn without_a_destination_it_takes_its_own_name() {
    let experiment = Experiment::new();
    experiment.directory("from");
    let source = experiment.file("from/weights.bin", 1_000);
    let into = experiment.directory("into");
    let send = experiment.send([source.as_os_str(), "--receivers=2".as_ref()]);
    let no_arguments: [&str; 0] = [];
    let bare = experiment.recv("a", no_arguments);
    let directory = experiment.recv("b", [&into]);
    bare.succeeds();
    directory.succeeds();
    send.succeeds();
    for copy in ["weights.bin", "into/weights.bin"] {
        assert_eq!(fs::read(experiment.path(copy)).expect("there"), data(1_000), "{copy}");
    }
}

#[test]
fn a_device_that_is_in_use_is_warned_of() {
    let experiment = Experiment::new();
    let image = experiment.file("image", 1 << 20);
    let losetup = |words: &[&str], of: &Path| std::process::Command::new("losetup").args(words).arg(of).output();
    let device = match losetup(&["--find", "--show"], &image) {
        Ok(made) if made.status.success() => PathBuf::from(String::from_utf8_lossy(&made.stdout).trim()),
        _ => return left_out("a loop device needs root and `losetup`"),
    };
    let said = std::panic::catch_unwind(|| {
        let alone = OFlags::EXCL.bits() as i32;
        let _user = fs::File::options().read(true).custom_flags(alone).open(&device).expect("nobody else uses it");
        experiment.send([&device]).expect_line("is in use");
    });
    losetup(&["--detach"], &device).expect("losetup runs");
    said.expect("it is said");
}

#[test]
fn the_report_is_one_object_with_the_fields_of_the_contract() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 2_000_000);
    let send = experiment.send([source.as_os_str(), "--receivers=2".as_ref(), "--json".as_ref()]);
    let far = ["--cluster", "far", "copy", "--json"];
    let (near, far) = (experiment.recv("near", ["--verify-only"]), experiment.recv("far", far));
    let received = far.succeeds().json();
    near.succeeds();
    let ended = send.succeeds();
    let report = ended.json();
    let hash = blake3::hash(&data(2_000_000)).to_string();
    for report in [&report, &received] {
        assert_eq!(report["object_hash"], *hash, "the hash is that of b3sum");
        assert_eq!(report["bytes"], 2_000_000);
        assert_eq!(report["strategy"], "mob");
        for number in ["seconds", "throughput_mb_s", "pieces", "piece_size"] {
            assert!(report[number].as_f64().is_some_and(|value| value > 0.0), "{number}: {report}");
        }
    }
    let nodes = report["nodes"].as_array().expect("nodes");
    for name in ["near", "far"] {
        let node = nodes.iter().find(|node| node["name"] == name).unwrap_or_else(|| panic!("{name}: {report}"));
        assert_eq!(node["verified"], true);
        for number in ["seconds", "bytes_in_wan", "bytes_in_lan", "bytes_out_wan", "bytes_out_lan"] {
            assert!(node[number].is_number(), "{number}: {node}");
        }
        let total = node["bytes_in_wan"].as_u64().zip(node["bytes_in_lan"].as_u64()).map(|(wan, lan)| wan + lan);
        assert!(total.is_some_and(|total| total >= 2_000_000), "{node}");
    }
    // It has two sources, and asks the other one where the first stands still.
    assert!(report["wan_copies"]["far"].as_f64().is_some_and(|copies| (1.0..=1.25).contains(&copies)), "{report}");
    assert_eq!(
        report["wan_copies"].as_object().map(serde_json::Map::len),
        Some(1),
        "receiving clusters only: {report}"
    );
    assert_eq!(received["nodes"][0]["name"], "far");
    assert_eq!(ended.text().lines().count(), 1);
}

#[test]
fn with_json_the_ticket_goes_to_the_file_or_to_standard_error() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 100);
    let mut command = mobcast();
    command.args(["send", "--json", "--receivers=1", "--listen=127.0.0.1:0"]).arg(source);
    let send = Process::start("send", &mut command);
    let line = send.expect_line("ticket: mob1");
    let mut recv = mobcast();
    recv.args(["recv", line.strip_prefix("ticket: ").expect("alone in its line")]).arg(experiment.path("copy"));
    Process::start("recv", &mut recv).succeeds();
    assert_eq!(send.succeeds().json()["bytes"], 100);
}

#[test]
fn quiet_says_nothing() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 100);
    let send = experiment.send([source.as_os_str(), "--receivers=1".as_ref(), "--quiet".as_ref()]);
    let ended = experiment.recv("a", ["-q", "copy"]).succeeds();
    assert_eq!(ended.stderr, "");
    assert_eq!(send.succeeds().stderr, "");
}

#[test]
fn generated_data_is_verified_and_not_kept() {
    let experiment = Experiment::new();
    let send = experiment.send(["synthetic:20MB:7", "--receivers", "2", "--json"]);
    let receivers = ["a", "b"].map(|name| experiment.recv(name, ["--verify-only"]));
    receivers.into_iter().for_each(|receiver| drop(receiver.succeeds()));
    assert_eq!(send.succeeds().json()["bytes"], 20_000_000);
    assert_eq!(names(&experiment.path("")), ["ticket"]);
}

#[test]
fn payload_may_go_in_the_clear_if_both_say_so() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 1_000_000);
    let send = experiment.send([source.as_os_str(), "--receivers=2".as_ref(), "--plain".as_ref()]);
    let plain = experiment.recv("plain", ["a", "--plain"]);
    let sealed = experiment.recv("sealed", ["b"]);
    plain.succeeds();
    sealed.succeeds();
    send.succeeds();
    for copy in ["a", "b"] {
        assert!(fs::read(experiment.path(copy)).expect("there") == data(1_000_000));
    }
}

#[test]
fn two_groups_do_not_see_each_other() {
    let experiments = [Experiment::new(), Experiment::new()];
    let sends = [(&experiments[0], 400_000), (&experiments[1], 500_000)].map(|(experiment, size)| {
        let source = experiment.file("source", size);
        experiment.send([source.as_os_str(), "--receivers=2".as_ref()])
    });
    let start = |experiment: &Experiment| ["a", "b"].map(|name| experiment.recv(name, [name]));
    let receivers = [start(&experiments[0]), start(&experiments[1])];
    receivers.into_iter().flatten().for_each(|receiver| drop(receiver.succeeds()));
    sends.into_iter().for_each(|send| drop(send.succeeds()));
    for (experiment, size) in experiments.iter().zip([400_000, 500_000]) {
        assert_eq!(fs::read(experiment.path("a")).expect("there").len(), size);
    }
}

/// Without --cluster, nodes that are near each other find themselves in one cluster, and are told why.
#[test]
fn neighbours_find_themselves_in_one_cluster() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 100_000);
    let mut send = mobcast();
    send.args(["send", "--listen=127.0.0.1:0", "--receivers=1", "--json", "--ticket-file"]);
    let send = Process::start("send", send.arg(experiment.path("ticket")).arg(source));
    let recv = Process::start("recv", mobcast().args(["recv", &experiment.ticket(), "--verify-only"]));
    recv.expect_line("joined as");
    recv.succeeds();
    let report = send.succeeds().json();
    let node = &report["nodes"].as_array().and_then(|nodes| nodes.last()).expect("the receiver");
    assert!(
        node["bytes_in_wan"] == 0 && node["cluster_reason"].as_str().is_some_and(|reason| !reason.is_empty()),
        "{node}"
    );
}
