//! Running the real command: processes with their output, a directory for an experiment, and what trees are like.
//!
//! Every process is ended by its number when its handle is dropped; every wait has a generous limit, at which the
//! output so far is shown.

#![allow(dead_code, reason = "each test file uses its part")]

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub mod tree;

/// Nothing here takes nearly as long, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The command without what the environment would set.
pub fn mobcast() -> Command {
    through(env!("CARGO_BIN_EXE_mobcast"))
}

/// A program that starts the command, without what the environment would set for that.
pub fn through(program: &str) -> Command {
    let mut command = Command::new(program);
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("MOBCAST_") && variable != "MOBCAST_LOG" {
            command.env_remove(variable);
        }
    }
    // Nor what was measured on this machine.
    command.env("XDG_CACHE_HOME", "/nonexistent");
    command.env_remove("COLUMNS").stdin(Stdio::null());
    command
}

/// Runs the command with these arguments to its end.
pub fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ended {
    Process::start("mobcast", mobcast().args(arguments)).wait()
}

/// What a process has written so far.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    is_closed: bool,
}

#[derive(Default)]
struct Captured {
    stream: Mutex<Stream>,
    changed: Condvar,
}

impl Captured {
    fn lock(&self) -> MutexGuard<'_, Stream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.lock().bytes).into_owned()
    }

    fn read(self: Arc<Captured>, mut from: impl Read + Send + 'static) -> JoinHandle<()> {
        std::thread::spawn(move || {
            let mut block = vec![0; 1 << 16];
            loop {
                let n = from.read(&mut block).unwrap_or(0);
                let mut stream = self.lock();
                stream.bytes.extend_from_slice(&block[..n]);
                stream.is_closed = n == 0;
                self.changed.notify_all();
                if n == 0 {
                    return;
                }
            }
        })
    }

    /// Waits for a complete line that contains `part`.
    fn wait_for(&self, part: &str) -> Option<String> {
        let deadline = Instant::now() + PATIENCE;
        let mut stream = self.lock();
        loop {
            let text = String::from_utf8_lossy(&stream.bytes);
            let complete = text.rfind('\n').map_or("", |end| &text[..end]);
            if let Some(line) = complete.lines().find(|line| line.contains(part)) {
                return Some(line.to_owned());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if stream.is_closed || left.is_zero() {
                return None;
            }
            stream = self.changed.wait_timeout(stream, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A running process.
pub struct Process {
    name: String,
    child: Child,
    stdout: Arc<Captured>,
    stderr: Arc<Captured>,
    readers: Vec<JoinHandle<()>>,
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit status; 128 + the signal's number, as a shell would say, if a signal ended it.
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Process {
    pub fn start(name: &str, command: &mut Command) -> Process {
        Process::start_into(name, command, Stdio::piped())
    }

    /// Starts a process whose standard output goes elsewhere, if `stdout` is not a pipe to the test.
    pub fn start_into(name: &str, command: &mut Command, stdout: impl Into<Stdio>) -> Process {
        let mut child = command.stdout(stdout).stderr(Stdio::piped()).spawn().expect("the command starts");
        let (stdout, stderr) = (Arc::new(Captured::default()), Arc::new(Captured::default()));
        let out = child.stdout.take().map(|from| Arc::clone(&stdout).read(from));
        let err = child.stderr.take().map(|from| Arc::clone(&stderr).read(from));
        Process { name: name.to_owned(), child, stdout, stderr, readers: out.into_iter().chain(err).collect() }
    }

    pub fn pid(&self) -> i32 {
        Pid::from_child(&self.child).as_raw_nonzero().get()
    }

    /// The writing end of its standard input, if it was started with one.
    pub fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("started with a pipe")
    }

    /// Waits for a line on standard error that contains `part`.
    pub fn expect_line(&self, part: &str) -> String {
        let line = self.stderr.wait_for(part);
        line.unwrap_or_else(|| panic!("{} never said {part:?}; it said:\n{}", self.name, self.stderr.text()))
    }

    /// What it has written to standard error so far.
    pub fn said(&self) -> String {
        self.stderr.text()
    }

    /// Waits for the first line on standard output.
    pub fn first_line(&self) -> String {
        let line = self.stdout.wait_for("");
        line.unwrap_or_else(|| panic!("{} printed nothing; it said:\n{}", self.name, self.stderr.text()))
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is running");
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// The most memory that it has held so far, in KiB.
    pub fn resident_kib_max(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux");
        peak.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Waits for the end.
    pub fn wait(mut self) -> Ended {
        use std::os::unix::process::ExitStatusExt;
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            assert!(Instant::now() < deadline, "{} hangs; it said:\n{}", self.name, self.stderr.text());
            std::thread::sleep(Duration::from_millis(2));
        };
        for reader in self.readers.drain(..) {
            reader.join().expect("reads to the end");
        }
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).expect("ended");
        Ended { code, stdout: std::mem::take(&mut self.stdout.lock().bytes), stderr: self.stderr.text() }
    }

    /// Waits for the end, which must be a success.
    #[track_caller]
    pub fn succeeds(self) -> Ended {
        self.ends_with(0)
    }

    /// Waits for the end, which must be with this exit status.
    #[track_caller]
    pub fn ends_with(self, code: i32) -> Ended {
        let name = self.name.clone();
        let ended = self.wait();
        assert_eq!(ended.code, code, "exit status of {name}; it said:\n{}", ended.stderr);
        ended
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).expect("text")
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The one line that says why it failed.
    #[track_caller]
    pub fn complaint(&self) -> &str {
        let lines: Vec<&str> = self.stderr.lines().filter(|line| line.starts_with("mobcast: ")).collect();
        assert_eq!(lines.len(), 1, "one line says why: {}", self.stderr);
        lines[0]
    }
}

/// A directory in which one experiment takes place.
pub struct Experiment {
    dir: TempDir,
}

impl Experiment {
    pub fn new() -> Experiment {
        Experiment { dir: tempfile::Builder::new().prefix("mobcast-test-").tempdir().expect("a directory") }
    }

    /// A path in the directory.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A new file with `size` bytes that do not compress.
    pub fn file(&self, name: &str, size: usize) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, data(size)).expect("written");
        path
    }

    /// A new directory.
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir(&path).expect("made");
        path
    }

    /// `@FILE` for the ticket of this experiment.
    pub fn ticket(&self) -> String {
        format!("@{}", self.path("ticket").display())
    }

    /// `send` on a loopback address with the ticket in this experiment's file, ready for more arguments.
    pub fn send_command(&self) -> Command {
        self.send_command_at("127.0.0.1:0")
    }

    /// The same at another address.
    pub fn send_command_at(&self, listen: &str) -> Command {
        let mut command = mobcast();
        command.args(["send", "--listen", listen, "--cluster", "here", "--ticket-file"]);
        command.arg(self.path("ticket"));
        command
    }

    /// Starts `send` with these arguments.
    pub fn send<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Process {
        Process::start("send", self.send_command().args(arguments))
    }

    /// Starts `send -` with a pipe as standard input, and these arguments.
    pub fn send_pipe<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> (Process, ChildStdin) {
        let mut send = Process::start("send", self.send_command().arg("-").args(arguments).stdin(Stdio::piped()));
        let stdin = send.stdin();
        (send, stdin)
    }

    /// `recv` called `name` in this experiment's directory, ready for destination and more arguments.
    pub fn recv_command(&self, name: &str) -> Command {
        let mut command = mobcast();
        command.args(["recv", "--name", name, "--cluster", "here"]).arg(self.ticket());
        command.current_dir(self.dir.path());
        command
    }

    /// Starts `recv` called `name` with these arguments (the destination among them).
    pub fn recv<S: AsRef<OsStr>>(&self, name: &str, arguments: impl IntoIterator<Item = S>) -> Process {
        Process::start(name, self.recv_command(name).args(arguments))
    }
}

/// With this variable, tests that could not run for want of rights or programs fail.
pub const REQUIRED: &str = "MOBCAST_REQUIRE_NETNS";

/// Says that a test cannot run here.
#[track_caller]
pub fn skipped(reason: &str) {
    assert!(std::env::var_os(REQUIRED).is_none(), "{REQUIRED} is set, but {reason}");
    left_out(reason);
}

/// The same for want of what not every machine with namespaces has. Past the macros, whose output is not shown for tests that
/// pass; and in one piece.
pub fn left_out(reason: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let _ = std::io::stderr().write_all(format!("SKIPPED {test}: {reason}\n").as_bytes());
}

/// Bytes that do not compress, the same ones every time.
pub fn data(size: usize) -> Vec<u8> {
    let mut data = vec![0; size];
    blake3::Hasher::new_derive_key("mobcast test data").finalize_xof().fill(&mut data);
    data
}

/// Names of everything in a directory, sorted.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Waits until something holds that no event tells of.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
