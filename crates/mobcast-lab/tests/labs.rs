//! The command `mobcast-lab` on this machine: networks made and removed, the quick form of the first experiment, and what
//! becomes of programs that do not do what they should. Without root they say that they were skipped.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use mobcast_lab::report::read;
use mobcast_topology::record::{RunOutcome, RunRecord};

/// Nothing here takes nearly as long, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// With this variable, tests that could not run for want of rights or programs fail.
const REQUIRED: &str = "MOBCAST_REQUIRE_NETNS";

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn lab(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mobcast-lab")).args(words).stdin(Stdio::null()).output().expect("it starts")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// One test at a time: `down` removes what stays of others, too. None if there can be no lab here, which is said.
fn alone() -> Option<MutexGuard<'static, ()>> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    match mobcast_lab::lab::obstacle() {
        Some(reason) => {
            assert!(std::env::var_os(REQUIRED).is_none(), "{REQUIRED} is set, but {reason}");
            left_out(&reason);
            None
        }
        None => Some(guard),
    }
}

/// Says that a test is left out. Not through the macro, whose words the test runner keeps to itself when a test passes.
fn left_out(reason: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let _ = std::io::stderr().write_all(format!("SKIPPED {test}: {reason}\n").as_bytes());
}

/// The command mobcast, built from this checkout with the tests' own profile.
fn mobcast() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "mobcast-cli", "--bin", "mobcast"]);
        build.args((!cfg!(debug_assertions)).then_some("--release"));
        assert!(build.status().expect("cargo starts").success());
        Path::new(env!("CARGO_BIN_EXE_mobcast-lab")).with_file_name("mobcast")
    })
}

/// Namespaces of labs whose name begins like this.
fn left(name: &str) -> Vec<String> {
    mobcast_lab::namespace::list(&format!("mobcast-lab-{name}"))
}

/// Nothing of a run of this process is left: no namespace, no note, no file in memory.
fn nothing_is_left(pid: u32) {
    assert_eq!(left(&format!("run-{pid}.")), [""; 0]);
    for place in ["/run/mobcast-lab/run-", "/dev/shm/mobcast-lab-run-"] {
        let place = format!("{place}{pid}");
        assert!(!Path::new(&place).exists(), "{place} is left");
    }
}

/// An experiment with three nodes on a switch, of these lines beside, in a directory of its own with places for topologies and rivals.
fn on_a_switch(directory: &Path, lines: &str) -> PathBuf {
    for place in ["experiments", "topologies", "rivals"] {
        std::fs::create_dir(directory.join(place)).expect("made");
    }
    std::fs::copy(scenarios().join("topologies/switch.toml"), directory.join("topologies/switch.toml"))
        .expect("copied");
    let experiment = directory.join("experiments/x.toml");
    let text = format!("title = \"x\"\ntopology = \"switch\"\nnodes = [[3]]\nrepetitions = 1\n{lines}[quick]\n");
    std::fs::write(&experiment, text).expect("written");
    experiment
}

/// A program in this directory, of these lines of shell.
fn script(directory: &Path, lines: &str) -> PathBuf {
    let path = directory.join("wrapper");
    std::fs::write(&path, format!("#!/bin/sh\n{lines}")).expect("written");
    readable(&path);
    path
}

/// Anybody may read and execute it.
fn readable(path: &Path) {
    let mut allowed = std::fs::metadata(path).expect("it is there").permissions();
    allowed.set_mode(0o755);
    std::fs::set_permissions(path, allowed).expect("set");
}

/// Runs an experiment's quick form; the process's number is part of its lab's name.
fn run(experiment: &Path, output: &Path, more: &[&str]) -> (Output, u32) {
    run_with(&[], experiment, output, more)
}

/// The same, with these variables in the environment.
fn run_with(variables: &[(&str, &str)], experiment: &Path, output: &Path, more: &[&str]) -> (Output, u32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mobcast-lab"));
    command.envs(variables.iter().copied());
    command.arg("run").arg(experiment).args(["--quick", "--accept-void", "--output"]).arg(output);
    command.args(more).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("it starts");
    let pid = child.id();
    (child.wait_with_output().expect("it ends"), pid)
}

fn records(path: &Path) -> Vec<RunRecord> {
    read(&[path]).expect("lines of records").runs
}

#[test]
fn the_first_experiment_delivers_everything_once_while_links_change() {
    let Some(_guard) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let lines = directory.path().join("mob-1.jsonl");
    let program = mobcast().display().to_string();
    let experiment = scenarios().join("experiments/mob-1.toml");
    let (output, pid) = run(&experiment, &lines, &["--mobcast", &program]);
    assert!(output.status.success(), "{}", said(&output));
    let records = records(&lines);
    let scenarios: Vec<&str> = records.iter().map(|record| record.case.scenario.as_str()).collect();
    assert_eq!(scenarios, ["fast", "slow", "fast-slow", "slow-fast", "mayhem"]);
    for record in &records {
        let scenario = &record.case.scenario;
        assert_ne!(record.outcome, RunOutcome::Failed, "{scenario}: {:?}", record.reason);
        assert_eq!(record.nodes.iter().filter(|node| node.seconds > 0.0).count(), 16, "{scenario}: all were verified");
        assert_eq!(record.wan_copies.len(), 3);
        let copies = record.wan_copies.values().copied().fold(0.0, f64::max);
        assert!(copies >= 0.999, "{scenario}: {:?}", record.wan_copies);
        // Whoever stands still because the processor is busy is asked for nothing more, and some comes twice.
        assert!(copies <= 1.05 || record.outcome == RunOutcome::Void, "{scenario}: {:?}", record.wan_copies);
        let changes = record.emulation.as_ref().expect("of a lab").changes;
        match scenario.as_str() {
            "fast" | "slow" => assert_eq!(changes, 0),
            "mayhem" => assert!(changes >= 12, "{changes} changes"),
            _ => assert_eq!(changes, 4, "{scenario}: two links in both directions"),
        }
    }
    assert!(records.iter().all(|record| record.versions["mobcast"].contains("build") && record.settings.is_some()));
    let again = run(&experiment, &lines, &["--mobcast", &program]).0;
    assert!(said(&again).contains("5 of 5 runs stand in the output already"), "{}", said(&again));
    nothing_is_left(pid);
    let charts = directory.path().join("charts");
    let reported = lab(&["report", &lines.display().to_string(), "--output", &charts.display().to_string()]);
    assert!(reported.status.success(), "{}", said(&reported));
    assert!(std::fs::read_dir(&charts).expect("charts").count() >= 2, "a table and a chart");
}

#[test]
fn small_objects_are_timed_one_by_one_in_a_running_group() {
    let Some(_guard) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let lines = directory.path().join("small.jsonl");
    let program = mobcast().display().to_string();
    let (output, pid) = run(&scenarios().join("experiments/small.toml"), &lines, &["--mobcast", &program]);
    assert!(output.status.success(), "{}", said(&output));
    for record in records(&lines) {
        assert_ne!(record.outcome, RunOutcome::Failed, "{:?}", record.reason);
        assert_eq!(record.rounds_seconds.len(), 100);
        let (min, max) = record.rounds_seconds.iter().fold((f64::MAX, 0.0_f64), |(a, b), s| (a.min(*s), b.max(*s)));
        assert!(min > 0.0 && (min..=max).contains(&record.seconds), "{record:?}");
        assert!(!record.choice.is_empty(), "the root says why");
    }
    nothing_is_left(pid);
}

#[test]
fn a_lab_stays_until_it_is_taken_down() {
    let Some(_guard) = alone() else { return };
    let name = format!("stay-{}", std::process::id());
    let topology = scenarios().join("topologies/das2.toml").display().to_string();
    let up = lab(&["up", &topology, "--name", &name]);
    assert!(up.status.success(), "{}", said(&up));
    assert_eq!(lab(&["up", &topology, "--name", &name]).status.code(), Some(2), "it is there already");
    let route = lab(&["exec", "--name", &name, "Amsterdam1", "ip", "-4", "route", "get", "10.100.2.9"]);
    assert!(said(&route).contains("dev eth1 src 10.100.1.1"), "the second card goes to others: {}", said(&route));
    let inside = lab(&["exec", "--name", &name, "Amsterdam1", "--", "ip", "-4", "route", "get", "10.100.1.2"]);
    assert!(said(&inside).contains("dev eth0"), "and the first to the own cluster: {}", said(&inside));
    assert_eq!(lab(&["exec", "--name", &name, "Z9", "true"]).status.code(), Some(2));
    assert_eq!(lab(&["exec", "--name", &name, "Delft1", "sh", "-c", "exit 7"]).status.code(), Some(7));
    let down = lab(&["down", "--name", &name]);
    assert!(down.status.success(), "{}", said(&down));
    assert_eq!(left(&name), [""; 0]);
    assert_eq!(lab(&["down", "--name", &name]).status.code(), Some(2), "there is nothing left to remove");
}

#[test]
fn what_a_killed_run_leaves_is_removed_by_down() {
    let Some(_guard) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mobcast-lab"));
    command.arg("run").arg(scenarios().join("experiments/mob-1.toml")).arg("--mobcast").arg(mobcast());
    command.current_dir(&directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    let name = format!("run-{}", child.id());
    let started = Instant::now();
    let nodes = || left(&name).iter().filter(|name| !mobcast_lab::namespace::processes(name).is_empty()).count();
    while nodes() < 16 {
        assert!(started.elapsed() < PATIENCE, "16 nodes run programs");
        assert_eq!(child.try_wait().expect("a child"), None, "it runs");
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().expect("a child");
    child.wait().expect("a child");
    assert_eq!(left(&name).len(), 20, "16 nodes and 4 switches were left");
    let experiment = scenarios().join("experiments/mob-1.toml").display().to_string();
    let output = directory.path().join("x.jsonl").display().to_string();
    let next = lab(&["run", &experiment, "--mobcast", "/nowhere", "--output", &output]);
    assert!(said(&next).contains(&format!("the lab {name:?} of a run that crashed is still there")), "{}", said(&next));
    let down = lab(&["down"]);
    assert!(said(&down).contains(&format!("removed the lab {name:?}")), "{}", said(&down));
    assert_eq!(left(&name), [""; 0]);
    assert!(!Path::new("/run/mobcast-lab").join(&name).exists());
}

#[test]
fn a_program_that_fails_on_one_node_fails_its_run_alone() {
    let Some(_guard) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let lines = directory.path().join("x.jsonl");
    // The first time, B2 gives up, and C3 hangs until it is ended.
    let text = format!(
        "if [ \"$1\" = recv ] && [ ! -e {0}/second ]; then\n case \"$*\" in\n *B2*) echo 'B2 has no mind to' >&2; \
         touch {0}/second; exit 9;;\n *C3*) exec sleep 1000;;\n esac\nfi\nexec {1} \"$@\"\n",
        directory.path().display(),
        mobcast().display(),
    );
    let wrapper = script(directory.path(), &text);
    let experiment = scenarios().join("experiments/mob-1.toml");
    let more = ["--mobcast", &wrapper.display().to_string(), "--scenario", "fast,slow"];
    let (output, pid) = run(&experiment, &lines, &more);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let records = records(&lines);
    assert_eq!(records[0].outcome, RunOutcome::Failed);
    let reason = records[0].reason.as_deref().unwrap_or_default();
    assert_eq!(reason, "B2 ended with status 9: B2 has no mind to");
    assert_ne!(records[1].outcome, RunOutcome::Failed, "{:?}", records[1].reason);
    nothing_is_left(pid);
}

#[test]
fn a_program_that_hangs_is_named_and_ended() {
    let Some(_guard) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let experiment = on_a_switch(directory.path(), "sizes_mb = [1.0]\ntimeout_s = 4.0\n");
    let text = "case \"$*\" in\n recv*A3*) echo 'waits for nothing' >&2; exec sleep 1000;;\nesac\n";
    let wrapper = script(directory.path(), &format!("{text}exec {} \"$@\"\n", mobcast().display()));
    let lines = directory.path().join("x.jsonl");
    let (output, pid) = run(&experiment, &lines, &["--mobcast", &wrapper.display().to_string()]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let reason = records(&lines).remove(0).reason.unwrap_or_default();
    assert!(reason.starts_with("not done after 4 s: ") && reason.ends_with("A3 (waits for nothing)"), "{reason}");
    nothing_is_left(pid);
}

#[test]
fn what_its_caller_has_set_for_mobcast_is_not_what_is_measured() {
    let Some(_guard) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let experiment = on_a_switch(directory.path(), "sizes_mb = [1.0]\n");
    let seen = directory.path().join("seen");
    let text = format!("env >> {}\nexec {} \"$@\"\n", seen.display(), mobcast().display());
    let wrapper = script(directory.path(), &text);
    let lines = directory.path().join("x.jsonl");
    let variables = [("MOBCAST_PIECE_SIZE", "3"), ("MOBCAST_LOG", "info"), ("XDG_CACHE_HOME", "/of-the-caller")];
    let (output, pid) = run_with(&variables, &experiment, &lines, &["--mobcast", &wrapper.display().to_string()]);
    assert!(output.status.success(), "{}", said(&output));
    let seen = std::fs::read_to_string(seen).expect("the command was started");
    assert!(seen.contains("MOBCAST_LOG=info") && !seen.contains("MOBCAST_PIECE_SIZE"), "{seen}");
    assert!(seen.contains("TOKIO_WORKER_THREADS"), "{seen}");
    let of_nodes = seen.lines().filter(|line| line.starts_with("XDG_CACHE_HOME=/dev/shm/")).count();
    assert!(of_nodes >= 3, "{seen}");
    nothing_is_left(pid);
}

#[test]
fn a_run_that_cannot_be_made_has_failed_and_the_next_ones_are_made() {
    let Some(_guard) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let experiment = on_a_switch(directory.path(), "sizes_mb = [1.0, 2.0]\nrivals = [\"broken\"]\n");
    let rival = "title = \"x\"\nversion = [\"echo\", \"1\"]\nprepare = [\"sh\", \"-c\", \"echo no compiler >&2; exit 1\"]\nroot = [\"true\"]\n";
    std::fs::write(directory.path().join("rivals/broken.toml"), rival).expect("written");
    let lines = directory.path().join("x.jsonl");
    let (output, pid) = run(&experiment, &lines, &["--mobcast", &mobcast().display().to_string()]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let failed: Vec<bool> = records(&lines).iter().map(|record| record.outcome == RunOutcome::Failed).collect();
    assert_eq!(failed, [false, true, false, true], "mobcast and the other one, with each size");
    let reason = records(&lines).remove(1).reason.unwrap_or_default();
    assert!(reason.contains("no compiler"), "{reason}");
    nothing_is_left(pid);
}

#[test]
fn receivers_that_are_never_ready_are_named_and_nothing_is_sent_to_them() {
    let Some(_guard) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let lines = "sizes_mb = [1.0]\ntimeout_s = 2.0\nrivals = [\"late\"]\n";
    let experiment = on_a_switch(directory.path(), lines);
    let sent = directory.path().join("sent");
    let rival = format!(
        "title = \"x\"\nversion = [\"echo\", \"1\"]\nroot = [\"touch\", {sent:?}]\nwait_for_receivers = true\n\
         receiver = [\"sleep\", \"1000\"]\n"
    );
    std::fs::write(directory.path().join("rivals/late.toml"), rival).expect("written");
    let lines = directory.path().join("x.jsonl");
    let (output, pid) = run(&experiment, &lines, &["--mobcast", "/bin/true", "--only", "late"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(records(&lines).remove(0).reason.unwrap_or_default(), "not ready after 2 s: A2, A3");
    assert!(!sent.exists(), "the root was not started");
    nothing_is_left(pid);
}

#[test]
fn an_interrupt_removes_what_is_there_whenever_it_comes() {
    let Some(_guard) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    // While the network is made, and while the broadcast goes on; to the process, or to its group as a terminal does.
    for (namespaces, programs, to_group) in [(3, 0, false), (3, 0, true), (20, 16, true)] {
        // What runs the tests may ignore the signal (nohup, a shell's background), and the lab keeps to what it inherits.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT").arg(env!("CARGO_BIN_EXE_mobcast-lab"));
        command.process_group(0);
        command.arg("run").arg(scenarios().join("experiments/mob-1.toml")).arg("--mobcast").arg(mobcast());
        command.current_dir(&directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let pid = child.id();
        let (name, started) = (format!("run-{pid}."), Instant::now());
        let runs = |name: &String| !mobcast_lab::namespace::processes(name).is_empty();
        let there = || {
            let all = left(&name);
            all.len() >= namespaces && (programs == 0 || all.iter().filter(|name| runs(name)).count() >= programs)
        };
        while !there() {
            assert!(started.elapsed() < PATIENCE, "{namespaces} namespaces and {programs} programs");
            assert_eq!(child.try_wait().expect("a child"), None, "it runs");
            std::thread::sleep(Duration::from_millis(2));
        }
        let itself = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a child");
        let send = if to_group { rustix::process::kill_process_group } else { rustix::process::kill_process };
        send(itself, rustix::process::Signal::INT).expect("it is there");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(130), "{}", said(&output));
        assert!(said(&output).contains("interrupted"), "{}", said(&output));
        nothing_is_left(pid);
    }
}

#[test]
fn without_root_it_says_what_is_missing() {
    let directory = tempfile::tempdir().expect("a directory");
    let topology = scenarios().join("topologies/switch.toml");
    // Nobody may enter root's directories, so the program and the file stand where anybody may read.
    let [copy, file] = ["mobcast-lab", "switch.toml"].map(|name| directory.path().join(name));
    std::fs::copy(env!("CARGO_BIN_EXE_mobcast-lab"), &copy).expect("copied");
    std::fs::copy(topology, &file).expect("copied");
    readable(directory.path());
    let is_root = rustix::process::geteuid().is_root();
    let may_enter = |place: &Path| place.metadata().is_ok_and(|place| place.permissions().mode() & 0o001 != 0);
    if is_root && !directory.path().ancestors().all(may_enter) {
        return left_out("only root may enter the directory for temporary files");
    }
    for words in
        [&["up", &file.display().to_string()][..], &["down"], &["down", "--name", "x"], &["exec", "A1", "true"]]
    {
        let mut command = Command::new(&copy);
        if is_root {
            command.uid(65_534).gid(65_534);
        }
        let output = command.args(words).stdin(Stdio::null()).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains("needs root: run it with sudo"), "{}", said(&output));
    }
}

#[test]
fn whoever_reads_no_further_breaks_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let [lines, charts] = ["x.jsonl", "charts"].map(|name| directory.path().join(name));
    std::fs::write(&lines, serde_json::to_string(&RunRecord::default()).expect("plain data")).expect("written");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_mobcast-lab"));
    let output =
        command.arg("report").arg(&lines).arg("--output").arg(&charts).stdout(writer).output().expect("it starts");
    assert!(output.status.success(), "{}", said(&output));
    assert!(charts.join("report.md").exists(), "{}", said(&output));
}

#[test]
fn the_optimum_of_a_topology_is_printed_with_what_binds_it() {
    let topology = scenarios().join("topologies/m2.toml").display().to_string();
    let output = lab(&["optimum", &topology]);
    assert!(output.status.success(), "{}", said(&output));
    // 10 MB/s leave A, 3 + 4 + 3, of which 1448 bytes in 1500 are payload.
    for line in ["optimum          10.000 MB/s", "payload optimum  9.653 MB/s", "bound by         "] {
        assert!(said(&output).contains(line), "{}", said(&output));
    }
}

#[test]
fn an_optimum_that_may_be_lower_is_said_to_be_at_most_so_much() {
    let directory = tempfile::tempdir().expect("a directory");
    let topology = directory.path().join("x.toml");
    let clusters = (0..41).map(|i| format!("[[cluster]]\nname = \"C{i}x\"\nnodes = 1\nnic_mb_per_s = 10.0\n"));
    let pairs = (0..41).flat_map(|a| (a + 1..41).map(move |b| (a, b)));
    let keys = "rate_mb_per_s = 1.0\none_way_delay_ms = 1.0\n";
    let links = pairs.map(|(a, b)| format!("[[link]]\nbetween = [\"C{a}x\", \"C{b}x\"]\n{keys}"));
    std::fs::write(&topology, format!("title = \"x\"\n{}", clusters.chain(links).collect::<String>()))
        .expect("written");
    let topology = topology.display().to_string();
    let words = lab(&["optimum", &topology]);
    assert!(said(&words).contains("optimum at most ") && said(&words).contains("payload at most "), "{}", said(&words));
    let json = lab(&["optimum", &topology, "--json"]);
    assert!(said(&json).contains("\"is_upper_bound\":true"), "{}", said(&json));
}

#[test]
fn mistakes_are_told_before_anything_is_made() {
    let directory = tempfile::tempdir().expect("a directory");
    let topology = directory.path().join("x.toml");
    let mistakes = [
        ("[[cluster]]\nname = \"A\"\nnodes = 2\n[[cluster]]\nname = \"B\"\nnodes = 2\n", "A"),
        ("[[cluster]]\nname = \"A\"\nnodes = 2\nnic_mb_per_s = 0.0\n", "nic_mb_per_s"),
        ("[[cluster]]\nname = \"A\"\nnodes = 2\nnic = 1.0\n", "nic"),
        ("[[cluster]]\nname = \"A\"\nnodes = 200000\n", "nodes"),
        // The file is in order, and for the simulator.
        ("[[cluster]]\nname = \"A\"\nnodes = 2000\n", "addresses for 250 nodes"),
    ];
    for (text, key) in mistakes {
        std::fs::write(&topology, format!("title = \"x\"\n{text}")).expect("written");
        let name = format!("bad-{}", std::process::id());
        let output = lab(&["up", &topology.display().to_string(), "--name", &name]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains("x.toml:") && said(&output).contains(key), "{}", said(&output));
        assert_eq!(left(&name), [""; 0]);
    }
    let missing = lab(&["run", "no-such-file.toml"]);
    assert_eq!(missing.status.code(), Some(2), "{}", said(&missing));
}
