//! One broadcast with another program, as its adapter in `scenarios/rivals` says. The object is a file in memory; what
//! arrives is compared with it byte by byte.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use mobcast_topology::files::{Clock, Planned, RivalFile};
use rustix::process::Signal;
use tokio::sync::mpsc::UnboundedReceiver;

use super::Attempt;
use super::process::{self, Heard, Program, unix_seconds};
use crate::error::LabError;
use crate::hub::control::Links;
use crate::lab::Lab;

/// How long programs may take to end once they were told to.
const ENDING: Duration = Duration::from_secs(3);
/// Time for receivers of which nothing is heard to be ready.
const STARTING: Duration = Duration::from_secs(1);
/// Bytes compared, and made, at a time.
const BLOCK: usize = 1 << 20;

/// What was heard so far.
struct Progress {
    ready: Vec<bool>,
    complete: Vec<Option<f64>>,
    verified: Vec<bool>,
    started_at: Option<f64>,
    ended: Vec<bool>,
}

impl Progress {
    fn all_complete(&self) -> bool {
        self.complete.iter().skip(1).all(Option::is_some)
    }

    /// A line from the program of a node: `ready`, `start`, `complete [RANK]`, `verified [RANK]`. Others are ignored.
    fn take(&mut self, node: usize, line: &str, at: f64) {
        let mut words = line.split_whitespace();
        let word = words.next();
        let rank = words.next().and_then(|rank| rank.parse().ok()).unwrap_or(node);
        if rank >= self.ready.len() {
            return;
        }
        match word {
            Some("ready") => self.ready[rank] = true,
            Some("start") => self.started_at = Some(at),
            Some("complete") => drop(self.complete[rank].get_or_insert(at)),
            Some("verified") => self.verified[rank] = true,
            _ => {}
        }
    }
}

/// Why this rival cannot be run here: what it needs is missing.
pub fn obstacle(rival: &RivalFile) -> Option<String> {
    version(rival).err().map(|error| {
        let install = rival.directory.join("install.sh");
        format!(
            "{} is not there ({error}): install {} with `sh {}`",
            rival.name,
            rival.packages.join(", "),
            install.display()
        )
    })
}

/// What the rival says of its version.
pub fn version(rival: &RivalFile) -> Result<String, String> {
    let output = Command::new(&rival.version[0]).args(&rival.version[1..]).current_dir(directory(rival)).output();
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().find(|line| !line.trim().is_empty()) {
        Some(line) if output.status.success() => Ok(line.trim().to_owned()),
        _ => Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("it says no version").to_owned()),
    }
}

/// Builds what the rival has to build.
pub fn prepare(rival: &RivalFile, build: &Path) -> Result<(), LabError> {
    let Some(prepare) = &rival.prepare else { return Ok(()) };
    std::fs::create_dir_all(build).map_err(LabError::at(build))?;
    let mut command = Command::new(&prepare[0]);
    command.args(&prepare[1..]).current_dir(directory(rival)).env("LAB_BUILD", build).env("LAB_DIR", build).stdin(Stdio::null());
    let failed = |error: String| LabError::Tool { tool: prepare.join(" "), error };
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(failed(said.trim().to_owned())) }
}

fn directory(rival: &RivalFile) -> PathBuf {
    let directory = &rival.directory;
    std::fs::canonicalize(if directory.as_os_str().is_empty() { Path::new(".") } else { directory })
        .unwrap_or_else(|_| directory.clone())
}

/// Runs it.
pub async fn run(
    lab: &Lab,
    planned: &Planned,
    rival: &RivalFile,
    build: &Path,
    logs: &Path,
) -> Result<Attempt, LabError> {
    let nodes = lab.nodes();
    let scratch = lab.scratch().join("rival");
    // Of the run before.
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir_all(&scratch).map_err(LabError::at(&scratch))?;
    let object = object(lab, planned)?;
    let hosts: String = nodes
        .iter()
        .enumerate()
        .map(|(rank, node)| format!("{rank} {} {} {}\n", node.name, node.cluster, node.address))
        .collect();
    let hosts_file = scratch.join("hosts");
    std::fs::write(&hosts_file, hosts).map_err(LabError::at(&hosts_file))?;
    let out = |node: usize| scratch.join(format!("out.{}", nodes[node].name));
    let program = std::env::current_exe().map_err(LabError::Hub)?;
    let nic = planned.scenario.topology.clusters()[0].nic_out_bytes_per_s;
    let environment = |node: usize| {
        [
            ("LAB_DIR", scratch.display().to_string()),
            ("LAB_BUILD", build.display().to_string()),
            ("LAB_FILE", object.display().to_string()),
            ("LAB_OUT", out(node).display().to_string()),
            ("LAB_BYTES", planned.case.object_bytes.to_string()),
            ("LAB_NODE", nodes[node].name.clone()),
            ("LAB_CLUSTER", nodes[node].cluster.clone()),
            ("LAB_RANK", node.to_string()),
            ("LAB_NODES", nodes.len().to_string()),
            ("LAB_ADDRESS", nodes[node].address.clone()),
            ("LAB_INTERFACE", "eth0".to_owned()),
            ("LAB_ROOT_ADDRESS", nodes[0].address.clone()),
            ("LAB_HOSTS", hosts_file.display().to_string()),
            ("LAB_NIC_MB_PER_S", nic.map(|rate| (rate as f64 / 1e6).to_string()).unwrap_or_default()),
            ("LAB_ENTER", format!("{} exec --name {}", program.display(), lab.name())),
            ("LAB_SEED", planned.seed.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
    };
    let (heard_tx, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let directory = directory(rival);
    let start = |node: usize, command: &[String]| {
        let environment = environment(node);
        let program = Program {
            node,
            namespace: &nodes[node].namespace,
            command,
            environment: &environment,
            directory: &directory,
            log: logs.join(format!("{}.log", nodes[node].name)),
        };
        process::start(&program, heard_tx.clone())
    };
    let count = nodes.len();
    let mut progress = Progress {
        ready: vec![false; count],
        complete: vec![None; count],
        verified: vec![false; count],
        started_at: None,
        ended: vec![rival.receiver.is_none(); count],
    };
    let mut pids = Vec::new();
    if let Some(receiver) = &rival.receiver {
        for node in 1..count {
            pids.push(start(node, receiver)?);
        }
    }
    let mut attempt = Attempt::new(lab, crate::clock::monotonic_ns());
    let deadline = tokio::time::Instant::now() + Duration::from_secs_f64(planned.timeout_s);
    if rival.wait_for_receivers {
        let ready = |progress: &Progress| progress.ready.iter().skip(1).all(|ready| *ready);
        listen(lab, &mut heard, deadline, &mut progress, &mut attempt, logs, ready).await;
    } else if rival.receiver.is_some() {
        tokio::time::sleep(STARTING).await;
    }
    lab.begin(Links::new(&planned.scenario, planned.seed))?;
    attempt.begun_ns = crate::clock::monotonic_ns();
    let spawned_at = unix_seconds();
    progress.ended[0] = false;
    pids.push(start(0, &rival.root)?);
    listen(lab, &mut heard, deadline, &mut progress, &mut attempt, logs, Progress::all_complete).await;
    let started_at = match rival.clock {
        Clock::Spawn => Some(spawned_at),
        Clock::Announced => progress.started_at,
    };
    for node in 1..count {
        let times = (progress.complete[node], started_at);
        attempt.nodes[node].complete_s = if let (Some(at), Some(from)) = times { Some(at - from) } else { None };
    }
    attempt.started_s = started_at.map_or(0.0, |at| at - spawned_at);
    if !progress.all_complete() {
        let missing = progress.complete.iter().skip(1).filter(|at| at.is_none()).count();
        attempt.failed(format!("{missing} receivers had not everything after {} s", planned.timeout_s));
    }
    // Those that keep the data in memory compare it themselves, which takes a moment.
    let compared = |p: &Progress| p.ended.iter().all(|ended| *ended) || p.verified.iter().skip(1).all(|v| *v);
    let soon = tokio::time::Instant::now() + ENDING;
    if rival.receiver.is_none() && attempt.failure.is_none() {
        listen(lab, &mut heard, deadline, &mut progress, &mut attempt, logs, compared).await;
    }
    end(&pids, &mut heard, &mut progress, &mut attempt, soon.max(tokio::time::Instant::now() + ENDING)).await;
    lab.clear();
    if attempt.failure.is_none() {
        for node in (1..count).filter(|node| !progress.verified[*node]) {
            if let Err(error) = same(&object, &out(node)) {
                attempt.failed(format!("what {} received is not the object: {error}", nodes[node].name));
            }
        }
    }
    let _ = std::fs::remove_dir_all(&scratch);
    Ok(attempt)
}

/// Takes what is heard until `enough`, or until the deadline, or until a program has failed.
async fn listen(
    lab: &Lab,
    heard: &mut UnboundedReceiver<Heard>,
    deadline: tokio::time::Instant,
    progress: &mut Progress,
    attempt: &mut Attempt,
    logs: &Path,
    enough: impl Fn(&Progress) -> bool,
) {
    while !enough(progress) && attempt.failure.is_none() {
        match tokio::time::timeout_at(deadline, heard.recv()).await {
            Err(_) | Ok(None) => return,
            Ok(Some(Heard::Line { node, line, at })) => progress.take(node, &line, at),
            Ok(Some(Heard::Ended { node, status, usage })) => {
                progress.ended[node] = true;
                attempt.nodes[node].usage = usage;
                let name = &lab.nodes()[node].name;
                if let Some(how) = process::failure(status) {
                    let said = process::last_line(&logs.join(format!("{name}.log")));
                    attempt.failed(format!("{name} {how}: {said}"));
                } else if progress.ended.iter().all(|ended| *ended) && !enough(progress) {
                    attempt.failed("all programs ended before everything was there".to_owned());
                }
            }
        }
    }
}

/// Ends all programs, kindly at first.
async fn end(
    pids: &[rustix::process::Pid],
    heard: &mut UnboundedReceiver<Heard>,
    progress: &mut Progress,
    attempt: &mut Attempt,
    deadline: tokio::time::Instant,
) {
    pids.iter().for_each(|pid| process::signal(*pid, Signal::TERM));
    while !progress.ended.iter().all(|ended| *ended) {
        match tokio::time::timeout_at(deadline, heard.recv()).await {
            Err(_) | Ok(None) => break,
            Ok(Some(Heard::Ended { node, usage, .. })) => {
                progress.ended[node] = true;
                attempt.nodes[node].usage = usage;
            }
            Ok(Some(Heard::Line { .. })) => {}
        }
    }
    pids.iter().for_each(|pid| process::signal(*pid, Signal::KILL));
}

/// The object of a run: bytes that nothing can compress. One of the same size and seed is used again.
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
            "{copies} copies need {need} MB of memory files, and {free} MB are free"
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
    fn what_programs_say_is_taken_by_rank() {
        let none = vec![None; 3];
        let mut progress = Progress {
            ready: vec![false; 3],
            complete: none,
            verified: vec![false; 3],
            started_at: None,
            ended: vec![],
        };
        progress.take(1, "ready", 1.0);
        progress.take(0, "start", 2.0);
        progress.take(0, "complete 2 0.7", 3.0);
        progress.take(1, "complete", 4.0);
        progress.take(1, "complete", 9.0);
        progress.take(0, "verified 7", 5.0);
        progress.take(0, "anything else", 5.0);
        assert!(progress.ready[1] && progress.all_complete());
        assert_eq!((progress.started_at, progress.complete), (Some(2.0), vec![None, Some(4.0), Some(3.0)]));
    }
}
