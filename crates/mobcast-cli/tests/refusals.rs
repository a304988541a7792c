//! What a receiver refuses and is refused: destinations in the way, disks that are full, tickets that do not admit. In
//! each case the others go on.

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use mobcast::Ticket;
use rustix::process::Signal;

use common::{Experiment, Process, data, eventually, mobcast, names, run, skipped, through, tree};

#[test]
fn an_existing_file_is_not_replaced_without_force() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 100_000);
    let there = experiment.path("there");
    fs::write(&there, "precious").expect("written");
    let send = experiment.send([source]);
    let ended = experiment.recv("a", ["there"]).ends_with(5);
    assert!(ended.complaint().contains("exists already") && ended.complaint().contains("--force"), "{}", ended.stderr);
    assert_eq!(fs::read_to_string(&there).expect("there"), "precious");
    experiment.recv("b", ["there", "--force"]).succeeds();
    assert_eq!(fs::read(&there).expect("there"), data(100_000));
    drop(send);
    assert_eq!(names(&experiment.path("")), ["source", "there", "ticket"]);
}

#[test]
fn force_merges_a_tree_into_a_directory() {
    let experiment = Experiment::new();
    let source = experiment.directory("source");
    fs::write(source.join("both"), "from the tree").expect("written");
    let there = experiment.directory("there");
    fs::write(there.join("both"), "old").expect("written");
    fs::write(there.join("mine"), "mine").expect("written");
    let _send = experiment.send([source]);
    let ended = experiment.recv("a", ["there"]).ends_with(5);
    assert!(ended.complaint().contains("--force to merge"), "{}", ended.stderr);
    assert_eq!(fs::read_to_string(there.join("both")).expect("there"), "old");
    experiment.recv("b", ["there", "--force"]).succeeds();
    assert_eq!(names(&there), ["both", "mine"]);
    assert_eq!(fs::read_to_string(there.join("both")).expect("there"), "from the tree");
}

#[test]
fn nothing_is_written_through_a_link_in_the_destination() {
    let experiment = Experiment::new();
    let source = experiment.directory("source");
    fs::create_dir(source.join("sub")).expect("made");
    fs::write(source.join("sub/file"), "x").expect("written");
    let outside = experiment.directory("outside");
    let there = experiment.directory("there");
    std::os::unix::fs::symlink(&outside, there.join("sub")).expect("linked");
    let _send = experiment.send([source]);
    experiment.recv("a", ["there", "--force"]).succeeds();
    assert!(names(&outside).is_empty());
    assert!(!there.join("sub").is_symlink(), "the tree's directory is in the link's place");
    assert_eq!(fs::read_to_string(there.join("sub/file")).expect("there"), "x");
}

/// A small file system, if this process may make one; otherwise the test is skipped, which is said.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf) -> Option<SmallDisk> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&at);
        let is_mounted = mount.output().is_ok_and(|output| output.status.success());
        if !is_mounted {
            skipped("a small file system needs root and `mount`");
        }
        is_mounted.then_some(SmallDisk(at))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_one_receivers_own_trouble() {
    let experiment = Experiment::new();
    let Some(disk) = SmallDisk::mount(experiment.directory("disk")) else { return };
    let source = experiment.file("source", 3_000_000);
    let tree = experiment.directory("tree");
    fs::write(tree.join("large"), data(3_000_000)).expect("written");
    for source in [source, tree] {
        let send = experiment.send([source.as_os_str(), "--receivers=2".as_ref()]);
        let full = experiment.recv("full", [disk.0.join("copy")]);
        let ended = full.ends_with(5);
        assert!(ended.complaint().contains("no space for"), "{}", ended.stderr);
        let others = ["a", "b"].map(|name| experiment.recv(name, [name, "--force"]));
        others.into_iter().for_each(|receiver| drop(receiver.succeeds()));
        let ended = send.succeeds();
        assert!(ended.stderr.contains("failed full: no space"), "{}", ended.stderr);
        assert!(names(&disk.0).is_empty(), "nothing partial is left");
        for name in ["ticket", "a", "b"] {
            remove(&experiment.path(name));
        }
    }
}

/// A pipe's length is not known beforehand, so the disk is found to be full in the middle.
#[test]
fn a_disk_that_fills_up_under_way_is_one_receivers_own_trouble() {
    use std::io::Write;
    let experiment = Experiment::new();
    let Some(disk) = SmallDisk::mount(experiment.directory("disk")) else { return };
    let (send, mut stdin) = experiment.send_pipe(["--receivers=1"]);
    let full = experiment.recv("full", [disk.0.join("copy")]);
    let other = experiment.recv("other", ["-"]);
    send.expect_line("joined full");
    send.expect_line("joined other");
    stdin.write_all(&data(3_000_000)).expect("written");
    let ended = full.ends_with(5);
    assert!(ended.complaint().contains("no space for"), "{}", ended.stderr);
    drop(stdin);
    assert!(other.succeeds().stdout == data(3_000_000));
    send.succeeds();
    assert!(names(&disk.0).is_empty(), "nothing partial is left");
}

/// `ulimit -f`, whose signal would otherwise end the process in the middle.
#[test]
fn a_limit_of_file_sizes_is_one_receivers_own_trouble() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 3_000_000);
    let send = experiment.send([source.as_os_str(), "--receivers=1".as_ref()]);
    let words = format!("recv --name limited {} {}", experiment.ticket(), experiment.path("copy").display());
    let command = format!("ulimit -f 1000; exec {} {words}", env!("CARGO_BIN_EXE_mobcast"));
    let ended = Process::start("limited", through("sh").args(["-c", &command])).ends_with(5);
    assert!(ended.complaint().contains("File too large"), "{}", ended.stderr);
    send.expect_line("failed limited: ");
    assert_eq!(names(&experiment.path("")), ["source", "ticket"], "nothing partial is left");
    experiment.recv("a", ["copy"]).succeeds();
    send.succeeds();
}

fn remove(path: &Path) {
    if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("removed");
}

#[test]
fn a_destination_that_cannot_be_written_is_status_5() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 100);
    let _send = experiment.send([source]);
    let ended = experiment.recv("a", ["missing/directory/copy"]).ends_with(5);
    assert!(ended.complaint().contains("missing/directory"), "{}", ended.stderr);
}

/// The ticket of a running `send`, changed.
fn changed(experiment: &Experiment, change: impl FnOnce(&mut Ticket)) -> String {
    let text = fs::read_to_string(experiment.path("ticket")).expect("there");
    let mut ticket: Ticket = text.parse().expect("a ticket");
    change(&mut ticket);
    ticket.to_string()
}

#[test]
fn a_forged_ticket_does_not_admit() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 100);
    let send = experiment.send([source]);
    send.first_line();
    let other_secret = changed(&experiment, |ticket| ticket.secret[0] ^= 1);
    let other_authority = changed(&experiment, |ticket| ticket.authority.0[0] ^= 1);
    for (what, ticket) in [("secret", other_secret), ("authority", other_authority)] {
        let ended = run(["recv".as_ref(), "--wait=5s".as_ref(), ticket.as_ref(), experiment.path("copy").as_os_str()]);
        assert_eq!(ended.code, 3, "another {what}: {}", ended.stderr);
        assert!(!ended.complaint().contains(&ticket), "the ticket is a secret");
    }
    experiment.recv("a", ["copy"]).succeeds();
}

#[test]
fn a_ticket_in_the_wrong_place_is_not_quoted() {
    let experiment = Experiment::new();
    let send = experiment.send([experiment.file("source", 100)]);
    let ticket = send.first_line();
    let file = format!("@{ticket}");
    for (code, words) in [
        (2, &["recv", "a", "b", &ticket][..]),
        (2, &["recv", "--wait", &ticket]),
        (2, &["recv", &file]),
        (2, &["bench", &file]),
        (5, &["send", &ticket]),
    ] {
        let ended = run(words);
        assert_eq!(ended.code, code, "{}", ended.stderr);
        assert!(!ended.stderr.contains(&ticket), "{words:?}: the ticket is a secret");
    }
}

/// An address that no other test is given once a sender has left it.
fn own_address(port: u16) -> String {
    let [_, rest @ ..] = std::process::id().to_be_bytes();
    format!("127.{}.{}.{}:{port}", rest[0], rest[1], rest[2])
}

#[test]
fn a_ticket_of_an_earlier_sender_at_the_same_address_does_not_admit() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 100);
    let address = own_address(7412);
    let earlier = Process::start("send", experiment.send_command_at(&address).arg(&source));
    let ticket = earlier.first_line();
    earlier.signal(Signal::INT);
    earlier.ends_with(130);
    let mut later = mobcast();
    let later = Process::start("send", later.args(["send", "--listen", &address]).arg(source));
    later.first_line();
    let ended = run(["recv".as_ref(), "--wait=5s".as_ref(), ticket.as_ref(), experiment.path("copy").as_os_str()]);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
}

#[test]
fn an_expired_ticket_does_not_admit() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 100);
    let send = experiment.send([source.as_os_str(), "--expires=1s".as_ref()]);
    let ticket: Ticket = send.first_line().parse().expect("a ticket");
    eventually("the ticket expires", || {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        ticket.is_expired(now.as_secs())
    });
    let ended = experiment.recv("a", ["copy"]).ends_with(3);
    assert!(ended.complaint().contains("expired"), "{}", ended.stderr);
    // Whoever writes a later date into it is not admitted either.
    let prolonged = changed(&experiment, |ticket| ticket.expires_unix_s += 86_400);
    let ended = run(["recv".as_ref(), prolonged.as_ref(), experiment.path("copy").as_os_str()]);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
}

#[test]
fn a_sender_that_has_ended_is_named_as_unreachable() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 100);
    let send = Process::start("send", experiment.send_command_at(&own_address(7411)).arg(source).arg("--receivers=1"));
    experiment.recv("a", ["copy"]).succeeds();
    send.succeeds();
    let ended = experiment.recv("late", ["copy2", "--wait", "300ms"]).ends_with(4);
    assert!(ended.complaint().contains("could not be reached"), "{}", ended.stderr);
}

#[test]
fn an_address_that_is_taken_is_status_5() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 100);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound").to_string();
    let mut send = mobcast();
    let ended = Process::start("send", send.args(["send", "--listen", &address]).arg(source)).ends_with(5);
    assert!(ended.complaint().contains(&format!("cannot listen on {address}")), "{}", ended.stderr);
}

#[test]
fn a_ticket_file_that_cannot_be_written_is_status_5() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 100);
    let mut send = mobcast();
    send.args(["send", "--listen=127.0.0.1:0", "--ticket-file"]).arg(experiment.path("missing/ticket")).arg(source);
    let ended = Process::start("send", &mut send).ends_with(5);
    assert!(ended.complaint().contains("cannot write the ticket"), "{}", ended.stderr);
}

/// As with `--ticket-file /dev/stderr 2>> log`.
#[test]
fn a_ticket_file_that_leads_to_a_log_is_refused() {
    let experiment = Experiment::new();
    let (source, log) = (experiment.file("source", 100), experiment.path("log"));
    fs::write(&log, "what happened\n").expect("written");
    tree::set_mode(&log, 0o644);
    let words = format!("--listen=127.0.0.1:0 --ticket-file=/dev/fd/3 {} 3>> {}", source.display(), log.display());
    let command = format!("exec {} send {words}", env!("CARGO_BIN_EXE_mobcast"));
    let ended = Process::start("send", through("sh").args(["-c", &command])).ends_with(5);
    assert!(ended.complaint().contains("cannot write the ticket to /dev/fd/3"), "{}", ended.stderr);
    assert_eq!(fs::read_to_string(&log).expect("there"), "what happened\n");
    assert_eq!(fs::metadata(&log).expect("there").mode() & 0o7777, 0o644);
}

#[test]
fn an_empty_directory_is_filled_without_force() {
    let experiment = Experiment::new();
    let source = experiment.directory("source");
    fs::write(source.join("file"), "x").expect("written");
    let there = experiment.directory("there");
    let _send = experiment.send([source]);
    experiment.recv("a", ["there"]).succeeds();
    assert_eq!(names(&there), ["file"]);
}
