//! One broadcast with another program, as its adapter in `scenarios/rivals` says. The object is a file in memory; what
//! arrives is compared with it byte by byte.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use mobcast_topology::files::{Clock, Planned, RivalFile};
use rustix::process::{Pid, Signal};
use tokio::process::Command;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::Instant;

use super::Attempt;
use super::census::Census;
use super::process::{self, Heard, Program};
use crate::error::LabError;
use crate::hub::control::Links;
use crate::lab::{Lab, LabNode};

/// How long programs may take to end once they were told to.
const ENDING: Duration = Duration::from_secs(3);
/// Time for receivers of which nothing is heard to be ready.
const STARTING: Duration = Duration::from_secs(1);
/// How long a program may take to say its version, and to build what it has to build.
const ASKED_MAX: Duration = Duration::from_secs(60);
const PREPARED_MAX: Duration = Duration::from_secs(1_800);
/// Bytes compared, and made, at a time.
const BLOCK: usize = 1 << 20;

/// What was heard so far.
struct Progress {
    ready: Vec<bool>,
    /// When each node had everything, on the monotonic clock.
    complete_ns: Vec<Option<u64>>,
    verified: Vec<bool>,
    /// When the root began, on the same clock.
    started_ns: Option<u64>,
    ended: Vec<bool>,
    rounds: Vec<f64>,
}

impl Progress {
    fn new(count: usize, rival: &RivalFile) -> Progress {
        let mut ended = vec![rival.receiver.is_none(); count];
        ended[0] = false;
        let (ready, verified) = (vec![false; count], vec![false; count]);
        Progress { ready, complete_ns: vec![None; count], verified, started_ns: None, ended, rounds: Vec::new() }
    }

    fn all_ready(&self) -> bool {
        self.ready.iter().skip(1).all(|ready| *ready)
    }

    fn all_ended(&self) -> bool {
        self.ended.iter().all(|ended| *ended)
    }

    /// Nobody compares any more, or there is nothing left to compare.
    fn all_compared(&self) -> bool {
        self.all_ended() || self.verified.iter().skip(1).all(|verified| *verified)
    }

    /// When each receiver was complete, after the clock has started.
    fn times(&self, clock: Clock, attempt: &mut Attempt) {
        let started_ns = match clock {
            Clock::Spawn => Some(attempt.begun_ns),
            Clock::Announced => self.started_ns,
        };
        let Some(started_ns) = started_ns else { return };
        attempt.started_s = seconds_between(attempt.begun_ns, started_ns);
        for (node, at_ns) in self.complete_ns.iter().enumerate().skip(1) {
            attempt.nodes[node].complete_s = at_ns.map(|at_ns| seconds_between(started_ns, at_ns));
        }
    }

    fn all_complete(&self) -> bool {
        self.complete_ns.iter().skip(1).all(Option::is_some)
    }

    /// Whether all have everything and so many rounds were timed. The root's last words come another way than the others', and may come
    /// behind them.
    fn all_timed(&self, rounds: usize) -> bool {
        self.all_complete() && self.rounds.len() >= rounds
    }

    /// A line from the program of a node: `ready`, `start`, `complete [RANK]`, `verified [RANK]`, `round SECONDS`. Others are ignored.
    fn take(&mut self, node: usize, line: &str, at_ns: u64) {
        let mut words = line.split_whitespace();
        let word = words.next();
        if word == Some("round") {
            return self.rounds.extend(words.next().and_then(|seconds| seconds.parse::<f64>().ok()));
        }
        let rank = words.next().and_then(|rank| rank.parse().ok()).unwrap_or(node);
        if rank >= self.ready.len() {
            return;
        }
        match word {
            Some("ready") => self.ready[rank] = true,
            Some("start") => self.started_ns = Some(at_ns),
            Some("complete") => drop(self.complete_ns[rank].get_or_insert(at_ns)),
            Some("verified") => self.verified[rank] = true,
            _ => {}
        }
    }
}

/// Seconds from one time to another, which may be the earlier one: what two programs print may be heard in any order.
fn seconds_between(from_ns: u64, to_ns: u64) -> f64 {
    (to_ns as f64 - from_ns as f64) / 1e9
}

/// Why a rival that says no version cannot be run here: what it needs is missing.
pub fn obstacle(rival: &RivalFile, error: &str) -> String {
    let (packages, install) = (rival.packages.join(", "), rival.directory.join("install.sh"));
    format!("{} is not there ({error}): install {packages} with `sh {}`", rival.name, install.display())
}

/// What the rival says of its version.
pub async fn version(rival: &RivalFile) -> Result<String, String> {
    let mut command = Command::new(&rival.version[0]);
    let output = output_of(command.args(&rival.version[1..]).current_dir(directory(rival)), ASKED_MAX).await?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().find(|line| !line.trim().is_empty()) {
        Some(line) if output.status.success() => Ok(line.trim().to_owned()),
        _ => Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("it says no version").to_owned()),
    }
}

/// Builds what the rival has to build.
pub async fn prepare(rival: &RivalFile, build: &Path) -> Result<(), LabError> {
    let Some(prepare) = &rival.prepare else { return Ok(()) };
    std::fs::create_dir_all(build).map_err(LabError::at(build))?;
    let mut command = Command::new(&prepare[0]);
    command.args(&prepare[1..]).current_dir(directory(rival)).env("LAB_BUILD", build).env("LAB_DIR", build);
    let failed = |error: String| LabError::Tool { tool: prepare.join(" "), error };
    let output = output_of(&mut command, PREPARED_MAX).await.map_err(failed)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(failed(said.trim().to_owned())) }
}

/// What a command prints and how it ends, which has to be in time. An interrupt ends it and what it has started, as whatever ends
/// the waiting.
async fn output_of(command: &mut Command, time_max: Duration) -> Result<Output, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).process_group(0);
    let child = command.spawn().map_err(|error| error.to_string())?;
    let mut group = Group(child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())));
    let output = tokio::time::timeout(time_max, child.wait_with_output()).await;
    let output = output.map_err(|_| format!("it took longer than {} s", time_max.as_secs()))?;
    // It was waited for: its number may soon be another one's.
    group.0 = None;
    output.map_err(|error| error.to_string())
}

/// A program with what it has started: all of it ends with this.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
    }
}

fn directory(rival: &RivalFile) -> PathBuf {
    let directory = &rival.directory;
    std::fs::canonicalize(if directory.as_os_str().is_empty() { Path::new(".") } else { directory })
        .unwrap_or_else(|_| directory.clone())
}

/// What all programs of a run are started with.
struct Run<'a> {
    lab: &'a Lab,
    planned: &'a Planned,
    rival: &'a RivalFile,
    build: &'a Path,
    logs: &'a Path,
    scratch: PathBuf,
    object: PathBuf,
    hosts: PathBuf,
    directory: PathBuf,
    enter: PathBuf,
    heard: UnboundedSender<Heard>,
    deadline: Instant,
}

/// Runs it.
pub async fn run(
    lab: &Lab,
    planned: &Planned,
    rival: &RivalFile,
    build: &Path,
    logs: &Path,
) -> Result<Attempt, LabError> {
    let (heard, mut hearing) = tokio::sync::mpsc::unbounded_channel();
    let run = Run::new(lab, planned, rival, build, logs, heard)?;
    let mut progress = Progress::new(lab.nodes().len(), rival);
    let mut attempt = Attempt::new(lab, crate::clock::monotonic_ns());
    let census = Census::start(lab.nodes());
    let mut pids = Vec::new();
    if let Some(receiver) = &rival.receiver {
        for node in 1..lab.nodes().len() {
            pids.push((node, run.start(node, receiver)?));
        }
    }
    if rival.wait_for_receivers {
        run.listen(&mut hearing, &mut progress, &mut attempt, Progress::all_ready).await;
        run.check_ready(&progress, &mut attempt);
    } else if rival.receiver.is_some() {
        tokio::time::sleep(STARTING).await;
    }
    lab.begin(Links::new(&planned.scenario, planned.seed))?;
    attempt.begun_ns = crate::clock::monotonic_ns();
    if attempt.failure.is_none() {
        pids.push((0, run.start(0, &rival.root)?));
    } else {
        progress.ended[0] = true;
    }
    let rounds = planned.rounds.unwrap_or(0) as usize;
    run.listen(&mut hearing, &mut progress, &mut attempt, |progress| progress.all_timed(rounds)).await;
    progress.times(rival.clock, &mut attempt);
    attempt.rounds = std::mem::take(&mut progress.rounds);
    if progress.all_complete() && attempt.rounds.len() != rounds {
        attempt.failed(format!("{} of {rounds} rounds were timed", attempt.rounds.len()));
    }
    if !progress.all_complete() {
        let missing = (1..lab.nodes().len()).filter(|node| progress.complete_ns[*node].is_none()).collect();
        attempt.failed(process::not_yet("done", lab, &missing, planned.timeout_s, |node| run.log(node)));
    }
    // Those that keep the data in memory compare it themselves, which takes a moment.
    if rival.receiver.is_none() {
        run.listen(&mut hearing, &mut progress, &mut attempt, Progress::all_compared).await;
    }
    end(&pids, &mut hearing, &mut progress, &mut attempt).await;
    for (outcome, usage) in attempt.nodes.iter_mut().zip(census.end(lab.nodes().len())) {
        outcome.usage = outcome.usage.larger(usage);
    }
    lab.clear();
    run.compare(&progress, &mut attempt).await;
    // It is made again for the next run.
    let _ = std::fs::remove_dir_all(&run.scratch);
    Ok(attempt)
}

impl<'a> Run<'a> {
    fn new(
        lab: &'a Lab,
        planned: &'a Planned,
        rival: &'a RivalFile,
        build: &'a Path,
        logs: &'a Path,
        heard: UnboundedSender<Heard>,
    ) -> Result<Run<'a>, LabError> {
        let scratch = lab.scratch().join("rival");
        // Of the run before.
        let _ = std::fs::remove_dir_all(&scratch);
        std::fs::create_dir_all(&scratch).map_err(LabError::at(&scratch))?;
        let line =
            |(rank, node): (usize, &LabNode)| format!("{rank} {} {} {}\n", node.name, node.cluster, node.address);
        let lines: String = lab.nodes().iter().enumerate().map(line).collect();
        let hosts = scratch.join("hosts");
        std::fs::write(&hosts, lines).map_err(LabError::at(&hosts))?;
        let program = std::env::current_exe().map_err(LabError::Hub)?;
        let enter = scratch.join("enter.sh");
        std::fs::write(&enter, enter_script(&program, lab.name())).map_err(LabError::at(&enter))?;
        Ok(Run {
            lab,
            planned,
            rival,
            build,
            logs,
            object: object(lab, planned)?,
            scratch,
            hosts,
            directory: directory(rival),
            enter,
            heard,
            deadline: Instant::now() + Duration::from_secs_f64(planned.timeout_s),
        })
    }

    /// Where a receiver puts its copy.
    fn out(&self, node: usize) -> PathBuf {
        self.scratch.join(format!("out.{}", self.lab.nodes()[node].name))
    }

    fn environment(&self, node: usize) -> [(String, String); 17] {
        let nodes = self.lab.nodes();
        let nic = self.planned.scenario.topology.clusters()[0].nic_out_bytes_per_s;
        [
            ("LAB_DIR", self.scratch.display().to_string()),
            ("LAB_BUILD", self.build.display().to_string()),
            ("LAB_FILE", self.object.display().to_string()),
            ("LAB_OUT", self.out(node).display().to_string()),
            ("LAB_BYTES", self.planned.case.object_bytes.to_string()),
            ("LAB_NODE", nodes[node].name.clone()),
            ("LAB_CLUSTER", nodes[node].cluster.clone()),
            ("LAB_RANK", node.to_string()),
            ("LAB_NODES", nodes.len().to_string()),
            ("LAB_ADDRESS", nodes[node].address.clone()),
            ("LAB_INTERFACE", "eth0".to_owned()),
            ("LAB_ROOT_ADDRESS", nodes[0].address.clone()),
            ("LAB_HOSTS", self.hosts.display().to_string()),
            ("LAB_NIC_MB_PER_S", nic.map(|rate| (rate as f64 / 1e6).to_string()).unwrap_or_default()),
            // Scripts take it apart at blanks.
            ("LAB_ENTER", format!("sh {}", self.enter.display())),
            ("LAB_ROUNDS", self.planned.rounds.unwrap_or(0).to_string()),
            ("LAB_SEED", self.planned.seed.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
    }

    fn start(&self, node: usize, command: &[String]) -> Result<Pid, LabError> {
        let program = Program {
            node,
            namespace: &self.lab.nodes()[node].namespace,
            command,
            environment: &self.environment(node),
            directory: &self.directory,
            log: self.log(node),
        };
        process::start(&program, self.heard.clone())
    }

    fn log(&self, node: usize) -> PathBuf {
        self.logs.join(format!("{}.log", self.lab.nodes()[node].name))
    }

    /// Takes what is heard until `enough`, or for as long as the run may take, or until a program has failed.
    async fn listen(
        &self,
        hearing: &mut UnboundedReceiver<Heard>,
        progress: &mut Progress,
        attempt: &mut Attempt,
        enough: impl Fn(&Progress) -> bool,
    ) {
        while !enough(progress) && attempt.failure.is_none() {
            match tokio::time::timeout_at(self.deadline, hearing.recv()).await {
                Err(_) | Ok(None) => return,
                Ok(Some(Heard::Line { node, line, at_ns })) => progress.take(node, &line, at_ns),
                Ok(Some(Heard::Ended { node, status, usage })) => {
                    progress.ended[node] = true;
                    attempt.nodes[node].usage = usage;
                    if let Some(how) = process::failure(status) {
                        let name = &self.lab.nodes()[node].name;
                        attempt.failed(format!("{name} {how}: {}", process::last_line(&self.log(node))));
                    } else if progress.all_ended() && !enough(progress) {
                        attempt.failed("all programs ended before everything was there".to_owned());
                    }
                }
            }
        }
    }

    /// Where receivers are not ready, the root has nobody to send to.
    fn check_ready(&self, progress: &Progress, attempt: &mut Attempt) {
        let missing: BTreeSet<usize> = (1..progress.ready.len()).filter(|node| !progress.ready[*node]).collect();
        if !missing.is_empty() {
            let after_s = self.planned.timeout_s;
            attempt.failed(process::not_yet("ready", self.lab, &missing, after_s, |node| self.log(node)));
        }
    }

    /// Compares what arrived with the object, where nobody has done so.
    async fn compare(&self, progress: &Progress, attempt: &mut Attempt) {
        for node in 1..self.lab.nodes().len() {
            if attempt.failure.is_some() || progress.verified[node] {
                continue;
            }
            // An interrupt is heard between two of them.
            tokio::task::yield_now().await;
            let wrong = match &self.rival.receiver {
                Some(_) => same(&self.object, &self.out(node)).err(),
                None => Some("nobody has compared it".to_owned()),
            };
            if let Some(error) = wrong {
                attempt.failed(format!("what {} received is not the object: {error}", self.lab.nodes()[node].name));
            }
        }
    }
}

/// What enters a node, wherever this program stands: its path may have blanks.
fn enter_script(program: &Path, lab: &str) -> String {
    let program = program.display().to_string().replace('\'', "'\\''");
    format!("exec '{program}' exec --name {lab} \"$@\"\n")
}

/// Ends all programs, kindly at first.
async fn end(
    pids: &[(usize, Pid)],
    hearing: &mut UnboundedReceiver<Heard>,
    progress: &mut Progress,
    attempt: &mut Attempt,
) {
    let deadline = Instant::now() + ENDING;
    process::signal(pids, |node| !progress.ended[node], Signal::TERM);
    while !progress.all_ended() {
        match tokio::time::timeout_at(deadline, hearing.recv()).await {
            Err(_) | Ok(None) => break,
            Ok(Some(Heard::Ended { node, usage, .. })) => {
                progress.ended[node] = true;
                attempt.nodes[node].usage = usage;
            }
            Ok(Some(Heard::Line { .. })) => {}
        }
    }
    process::signal(pids, |node| !progress.ended[node], Signal::KILL);
}

/// The object of a run: bytes that nothing can compress. One of the same size is used again.
fn object(lab: &Lab, planned: &Planned) -> Result<PathBuf, LabError> {
    let (bytes, copies) = (planned.case.object_bytes, lab.nodes().len() as u64 + 1);
    let path = lab.scratch().join(format!("object-{bytes}"));
    if path.exists() {
        return Ok(path);
    }
    let place = rustix::fs::statvfs(lab.scratch()).map_err(|error| LabError::at(lab.scratch())(error.into()))?;
    let free = place.f_bavail * place.f_frsize;
    if free < bytes.saturating_mul(copies) {
        let (need, free) = (bytes * copies / 1_000_000, free / 1_000_000);
        return Err(LabError::Failed(format!(
            "{copies} copies need {need} MB in {}, and {free} MB are free: take fewer nodes or a smaller object",
            lab.scratch().display()
        )));
    }
    let made = || -> std::io::Result<()> {
        let mut file = File::create(&path)?;
        let (mut state, mut left, mut block) = (planned.seed | 1, bytes, vec![0; BLOCK]);
        while left > 0 {
            for word in block.chunks_exact_mut(8) {
                // xorshift64* (Vigna 2016).
                state ^= state >> 12;
                state ^= state << 25;
                state ^= state >> 27;
                word.copy_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
            }
            let part = left.min(BLOCK as u64) as usize;
            file.write_all(&block[..part])?;
            left -= part as u64;
        }
        Ok(())
    };
    made().map_err(LabError::at(&path))?;
    Ok(path)
}

/// Whether two files hold the same bytes.
fn same(object: &Path, copy: &Path) -> Result<(), String> {
    let open = |path: &Path| File::open(path).map_err(|error| error.to_string());
    let (mut a, mut b) = (BufReader::new(open(object)?), BufReader::new(open(copy)?));
    let (mut left, mut right) = (vec![0; BLOCK], vec![0; BLOCK]);
    loop {
        let [n, m] = [(&mut a, &mut left), (&mut b, &mut right)].map(|(file, block)| fill(file, block));
        let (n, m) = (n.map_err(|error| error.to_string())?, m.map_err(|error| error.to_string())?);
        if n != m {
            return Err("it has another length".to_owned());
        }
        if left[..n] != right[..m] {
            return Err("it has other bytes".to_owned());
        }
        if n == 0 {
            return Ok(());
        }
    }
}

fn fill(file: &mut impl Read, block: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < block.len() {
        match file.read(&mut block[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::super::NodeOutcome;
    use super::*;

    #[test]
    fn copies_are_compared_byte_by_byte() {
        let directory = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| directory.path().join(name));
        let mut bytes = vec![7; BLOCK + 3];
        std::fs::write(&a, &bytes).unwrap();
        std::fs::write(&b, &bytes).unwrap();
        assert_eq!(same(&a, &b), Ok(()));
        bytes[BLOCK + 1] = 8;
        std::fs::write(&b, &bytes).unwrap();
        assert_eq!(same(&a, &b), Err("it has other bytes".to_owned()));
        std::fs::write(&b, &bytes[1..]).unwrap();
        assert!(same(&a, &b).is_err());
        assert!(same(&a, &directory.path().join("none")).is_err());
    }

    #[test]
    fn a_program_that_does_not_say_its_version_is_not_waited_for_by_an_interrupt() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut hangs = Command::new("sleep");
            let output = output_of(hangs.arg("600"), ASKED_MAX);
            assert!(tokio::time::timeout(Duration::from_millis(50), output).await.is_err());
            let error = output_of(Command::new("sleep").arg("600"), Duration::ZERO).await.expect_err("it hangs");
            assert_eq!(error, "it took longer than 0 s");
            let directory = tempfile::tempdir().unwrap();
            let noted = directory.path().join("pid");
            let script = format!("sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait", noted.display());
            let mut shell = Command::new("sh");
            let waits = output_of(shell.args(["-c", &script]), ASKED_MAX);
            let started = async {
                while !noted.exists() {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            tokio::select! { _ = waits => panic!("it waits"), () = started => {} }
            let state = format!("/proc/{}/stat", std::fs::read_to_string(&noted).unwrap().trim());
            let runs = || std::fs::read_to_string(&state).is_ok_and(|state| !state.contains(") Z "));
            let deadline = Instant::now() + Duration::from_secs(60);
            while runs() {
                assert!(Instant::now() < deadline, "what it has started goes on");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
    }

    #[test]
    fn a_node_is_entered_by_a_program_whose_path_has_blanks() {
        let directory = tempfile::tempdir().unwrap();
        let [program, enter] = ["it's a program", "enter.sh"].map(|name| directory.path().join(name));
        std::os::unix::fs::symlink("/bin/echo", &program).unwrap();
        std::fs::write(&enter, enter_script(&program, "run-1")).unwrap();
        let said = std::process::Command::new("sh").arg(&enter).args(["A2", "sh", "-c", "a b"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout), "exec --name run-1 A2 sh -c a b\n");
    }

    #[test]
    fn what_programs_say_is_taken_by_rank() {
        let none = vec![None; 3];
        let mut progress = Progress {
            ready: vec![false; 3],
            complete_ns: none,
            verified: vec![false; 3],
            started_ns: None,
            ended: vec![],
            rounds: Vec::new(),
        };
        progress.take(1, "ready", 1);
        progress.take(0, "start", 2);
        progress.take(0, "complete 2 0.7", 3);
        progress.take(1, "complete", 4);
        progress.take(1, "complete", 9);
        progress.take(0, "verified 7", 5);
        progress.take(0, "anything else", 5);
        assert!(progress.ready[1] && progress.all_complete());
        assert!(progress.all_timed(0) && !progress.all_timed(1), "the root has not said how long the round took");
        progress.take(0, "round 0.5", 6);
        assert!(progress.all_timed(1));
        assert_eq!((progress.started_ns, progress.complete_ns), (Some(2), vec![None, Some(4), Some(3)]));
    }

    #[test]
    fn receivers_are_timed_from_the_root_s_process_or_its_word() {
        let progress = Progress {
            ready: vec![true; 3],
            complete_ns: vec![None, Some(9_000_000_000), Some(6_500_000_000)],
            verified: vec![true; 3],
            started_ns: Some(7_000_000_000),
            ended: vec![true; 3],
            rounds: Vec::new(),
        };
        let times = |clock: Clock| {
            let mut attempt = Attempt {
                nodes: vec![NodeOutcome::default(); 3],
                begun_ns: 5_000_000_000,
                started_s: 0.0,
                rounds: Vec::new(),
                choice: String::new(),
                failure: None,
            };
            progress.times(clock, &mut attempt);
            (attempt.started_s, attempt.nodes[1].complete_s, attempt.nodes[2].complete_s)
        };
        assert_eq!(times(Clock::Spawn), (0.0, Some(4.0), Some(1.5)));
        assert_eq!(times(Clock::Announced), (2.0, Some(2.0), Some(-0.5)));
    }
}
