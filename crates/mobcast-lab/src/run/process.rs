//! Programs on nodes: what they print, how they end, what they cost.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::UnboundedSender;

use crate::clock::monotonic_ns;
use crate::error::LabError;
use crate::lab::Lab;

/// Clock ticks of `/proc/PID/stat` in a second, which Linux gives all programs.
const TICKS_PER_S: f64 = 100.0;
/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How long a program may take to end after it has closed its output.
const ENDING: Duration = Duration::from_secs(5);

/// A program to start.
#[derive(Debug)]
pub struct Program<'a> {
    /// Number of its node.
    pub node: usize,
    /// The namespace.
    pub namespace: &'a str,
    /// The command.
    pub command: &'a [String],
    /// Variables of its environment, beside those of the lab's own process that are no settings of mobcast.
    pub environment: &'a [(String, String)],
    /// Where it is started.
    pub directory: &'a Path,
    /// Where its standard error goes; beside it, with the extension `out`, what it prints.
    pub log: PathBuf,
}

/// What is heard of a program.
#[derive(Debug)]
pub enum Heard {
    /// It has printed a line.
    Line {
        /// Its node.
        node: usize,
        /// The line.
        line: String,
        /// When, on the monotonic clock.
        at_ns: u64,
    },
    /// It has ended.
    Ended {
        /// Its node.
        node: usize,
        /// How.
        status: ExitStatus,
        /// What it has cost.
        usage: Usage,
    },
}

/// What a program has cost, with those that it has started and waited for; of a rival, all programs of the node.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Usage {
    /// Processor time.
    pub cpu_seconds: f64,
    /// Resident memory at its highest; of the program alone, or of all programs of the node together.
    pub peak_memory_bytes: u64,
}

/// Unix time in seconds, for what is compared with times that other processes tell.
pub fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Settings of mobcast in this process's environment, which are not what is measured.
pub fn settings() -> impl Iterator<Item = OsString> {
    std::env::vars_os().map(|(name, _)| name).filter(|name| is_setting(name))
}

/// All but what it logs: that is asked for on purpose.
fn is_setting(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"MOBCAST_") && name != "MOBCAST_LOG"
}

/// Starts a program in a process group of its own. What it says and how it ends comes through the channel.
pub fn start(program: &Program<'_>, heard: UnboundedSender<Heard>) -> Result<Pid, LabError> {
    let log = std::fs::File::create(&program.log).map_err(LabError::at(&program.log))?;
    let out = program.log.with_extension("out");
    let out = std::fs::File::create(&out).map_err(LabError::at(out))?;
    let mut command = Command::new("ip");
    command.args(["netns", "exec", program.namespace]).args(program.command);
    settings().for_each(|name| _ = command.env_remove(name));
    command.envs(program.environment.iter().map(|(name, value)| (name, value))).current_dir(program.directory);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).process_group(0).kill_on_drop(true);
    let failed = |error: std::io::Error| LabError::Tool { tool: program.command[0].clone(), error: error.to_string() };
    let child = command.spawn().map_err(failed)?;
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).expect("it was not waited for");
    tokio::spawn(watch(program.node, child, pid, out, heard));
    Ok(pid)
}

/// Sends a signal to the programs of the nodes on which they still run, and to all that these have started. The number of one
/// that has ended may be another's by then.
pub fn signal(pids: &[(usize, Pid)], runs: impl Fn(usize) -> bool, signal: Signal) {
    for (_, pid) in pids.iter().filter(|(node, _)| runs(*node)) {
        // It may have ended by itself.
        let _ = kill_process_group(*pid, signal);
    }
}

async fn watch(node: usize, mut child: Child, pid: Pid, mut out: std::fs::File, heard: UnboundedSender<Heard>) {
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).split(b'\n');
    let mut look = tokio::time::interval(LOOK);
    let mut usage = Usage::default();
    loop {
        tokio::select! {
            line = lines.next_segment() => match line {
                Ok(Some(line)) => {
                    let at_ns = monotonic_ns();
                    // Any bytes may come, and what has a meaning is text.
                    let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line)).into_owned();
                    // It is for people to read: a run does not fail for it.
                    let _ = writeln!(out, "{line}");
                    // Who does not listen any more has given the run up.
                    let _ = heard.send(Heard::Line { node, line, at_ns });
                }
                Ok(None) | Err(_) => break,
            },
            _ = look.tick() => usage.look(pid),
        }
    }
    // Its processor time is read after its end, while it is not waited for: a process in state Z.
    let deadline = tokio::time::Instant::now() + ENDING;
    while !usage.look_at_end(pid) && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    if let Ok(status) = child.wait().await {
        let _ = heard.send(Heard::Ended { node, status, usage });
    }
}

impl Usage {
    /// Of two accounts of the same, which both may lack something, the larger figures.
    pub fn larger(self, other: Usage) -> Usage {
        Usage {
            cpu_seconds: self.cpu_seconds.max(other.cpu_seconds),
            peak_memory_bytes: self.peak_memory_bytes.max(other.peak_memory_bytes),
        }
    }

    fn look(&mut self, pid: Pid) {
        self.peak_memory_bytes =
            self.peak_memory_bytes.max(peak_memory_bytes(pid.as_raw_nonzero().get().cast_unsigned()));
    }

    /// True if it has ended.
    fn look_at_end(&mut self, pid: Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some(stat) = parse_stat(&stat) else { return true };
        self.cpu_seconds = stat.own_seconds + stat.waited_for_seconds;
        stat.ended
    }
}

/// Resident memory of a process at its highest.
fn peak_memory_bytes(pid: u32) -> u64 {
    of_status(pid, "VmHWM:")
}

/// Resident memory of a process now.
pub fn memory_bytes(pid: u32) -> u64 {
    of_status(pid, "VmRSS:")
}

fn of_status(pid: u32, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_suffix(" kB")?.parse().ok());
    value.unwrap_or(0u64) * 1024
}

/// Processor time of a process and of those that it has waited for, by its `/proc/PID/stat`, in seconds.
pub fn cpu_seconds(pid: u32) -> f64 {
    stat_of(pid).map_or(0.0, |stat| stat.own_seconds + stat.waited_for_seconds)
}

/// Processor time of a process alone, in seconds; none if it has ended.
pub fn cpu_seconds_alone(pid: u32) -> Option<f64> {
    stat_of(pid).map(|stat| stat.own_seconds)
}

/// What `/proc/PID/stat` says.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Stat {
    /// Whether the process has ended, and is not waited for yet.
    ended: bool,
    own_seconds: f64,
    /// Of its children that have ended.
    waited_for_seconds: f64,
}

fn stat_of(pid: u32) -> Option<Stat> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(stat: &str) -> Option<Stat> {
    // The name may hold anything, so the fields are counted from its end.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let seconds = |range: std::ops::Range<usize>| -> Option<f64> {
        let ticks: u64 = fields.get(range)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
        Some(ticks as f64 / TICKS_PER_S)
    };
    Some(Stat { ended: fields[0] == "Z", own_seconds: seconds(11..13)?, waited_for_seconds: seconds(13..15)? })
}

/// How a program ended, in words; none if it ended well.
pub fn failure(status: ExitStatus) -> Option<String> {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("ended with status {code}")),
        (None, Some(signal)) => Some(format!("was ended by signal {signal}")),
        (None, None) => Some("ended".to_owned()),
    }
}

/// Which nodes' programs were not done or ready in time, the first of them with what they said last.
pub fn not_yet(what: &str, lab: &Lab, nodes: &BTreeSet<usize>, after_s: f64, log: impl Fn(usize) -> PathBuf) -> String {
    const NAMED: usize = 4;
    let named = nodes.iter().take(NAMED).map(|node| {
        let said = last_line(&log(*node));
        let said = if said.is_empty() { said } else { format!(" ({said})") };
        format!("{}{said}", lab.nodes()[*node].name)
    });
    let more = if nodes.len() > NAMED { format!(" and {} more", nodes.len() - NAMED) } else { String::new() };
    format!("not {what} after {after_s} s: {}{more}", named.collect::<Vec<_>>().join(", "))
}

/// The last line of a log, for a message.
pub fn last_line(log: &Path) -> String {
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_mobcast_are_told_from_other_variables() {
        let names = ["MOBCAST_STRATEGY", "MOBCAST_PLAIN", "MOBCAST_LOG", "PATH", "NOT_MOBCAST_PLAIN"];
        let are: Vec<bool> = names.iter().map(|name| is_setting(OsStr::new(name))).collect();
        assert_eq!(are, [true, true, false, false, false]);
    }

    #[test]
    fn the_time_of_a_process_and_its_children_is_read() {
        let stat = "7 (a) b) Z 1 7 7 0 -1 4 0 0 0 0 150 50 20 30 20 0 1";
        assert_eq!(parse_stat(stat), Some(Stat { ended: true, own_seconds: 2.0, waited_for_seconds: 0.5 }));
        assert_eq!(parse_stat(""), None);
    }

    #[tokio::test]
    async fn lines_have_the_time_of_the_monotonic_clock() {
        let begun_ns = monotonic_ns();
        let heard = heard_of("echo ready; echo start").await;
        let lines: Vec<&str> = heard.iter().map(|(line, _)| line.as_str()).collect();
        assert_eq!(lines, ["ready", "start"]);
        let times: Vec<u64> = [begun_ns].into_iter().chain(heard.iter().map(|(_, at_ns)| *at_ns)).collect();
        assert!(times.is_sorted() && times[2] <= monotonic_ns(), "{times:?}");
    }

    #[tokio::test]
    async fn lines_that_are_no_text_do_not_end_the_reading() {
        let heard = heard_of("printf 'a\\r\\n\\377b\\n\\ncomplete'").await;
        let lines: Vec<&str> = heard.iter().map(|(line, _)| line.as_str()).collect();
        assert_eq!(lines, ["a", "\u{fffd}b", "", "complete"]);
    }

    /// The lines of a shell's script that ends well, and when they were heard.
    async fn heard_of(script: &str) -> Vec<(String, u64)> {
        let mut command = Command::new("sh");
        let child = command.args(["-c", script]).stdout(Stdio::piped()).spawn().expect("a shell");
        let pid = Pid::from_raw(child.id().expect("a child").cast_signed()).expect("a child");
        let (sender, mut hearing) = tokio::sync::mpsc::unbounded_channel();
        watch(7, child, pid, tempfile::tempfile().expect("a file"), sender).await;
        let mut lines = Vec::new();
        while let Some(heard) = hearing.recv().await {
            match heard {
                Heard::Line { node: 7, line, at_ns } => lines.push((line, at_ns)),
                Heard::Ended { node: 7, status, .. } if status.success() => return lines,
                other => panic!("{other:?}"),
            }
        }
        panic!("it has not ended: {lines:?}")
    }

    #[test]
    fn what_has_the_number_of_an_ended_program_gets_no_signal() {
        let start = || {
            let mut command = std::process::Command::new("sh");
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            let child = command.args(["-c", "read line"]).stdin(Stdio::piped()).spawn().expect("a shell");
            (Pid::from_raw(child.id().cast_signed()).expect("a child"), child)
        };
        let [(ended, mut other), (running, mut program)] = [start(), start()];
        signal(&[(0, ended), (1, running)], |node| node == 1, Signal::KILL);
        assert_eq!(failure(program.wait().expect("a child")).as_deref(), Some("was ended by signal 9"));
        assert_eq!(other.try_wait().expect("a child"), None, "it goes on");
        // It reads to the end of its input.
        drop(other.stdin.take());
        other.wait().expect("a child");
    }
}
