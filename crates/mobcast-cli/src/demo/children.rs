//! The processes of a demonstration: started, watched, and ended by their process numbers.
//!
//! They are in process groups of their own, so that Ctrl-C reaches the demonstration alone, and ended without a word:
//! what they would clean up lies in the demonstration's directory.

use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use rustix::termios::{LocalModes, tcgetattr};

use super::{Node, local};
use crate::failure::{Failure, Outcome, Status};

/// The process number of the demonstration, for its processes: they must not outlive it, even if it is killed.
/// (The signal comes when the thread ends that started them: a worker of the runtime, which lives as long as that.)
const END_WITH_PARENT: &str = "MOBCAST_END_WITH_PARENT";

/// Called first in `main`: a process of a demonstration ends with it.
pub fn end_with_parent() {
    let Some(parent) = std::env::var(END_WITH_PARENT).ok().and_then(|number| number.parse().ok()) else { return };
    // Where the system has no such thing, the demonstration's own end has to do.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // It may have been killed before that.
    if getppid() != Pid::from_raw(parent) {
        std::process::exit(Status::Interrupted as i32);
    }
}

/// All processes that are running; dropping it ends them.
pub struct Children {
    running: Vec<Running>,
}

struct Running {
    name: String,
    child: Child,
    /// Where it writes what it has to say; none if that is where the demonstration does.
    log: Option<PathBuf>,
}

/// Where a receiver puts its copy.
pub fn copy_path(dir: &Path, node: &Node) -> PathBuf {
    dir.join(&node.name)
}

/// Where the sender's report is.
pub fn report_path(dir: &Path) -> PathBuf {
    dir.join("report.json")
}

impl Children {
    /// Starts the first node as the sender of `source`, the others as receivers.
    pub fn start(source: &Path, nodes: &[Node], dir: &Path) -> Outcome<Children> {
        let mut children = Children { running: Vec::new() };
        let ticket = dir.join("ticket");
        let receivers = (nodes.len() - 1).to_string();
        let create = |path: &Path| {
            File::create(path).map_err(|error| local(format_args!("cannot write {}: {error}", path.display())))
        };
        for (number, node) in nodes.iter().enumerate() {
            let is_sender = number == 0;
            let mut command = command(node, if is_sender { "send" } else { "recv" })?;
            let mut log = None;
            let path = dir.join(format!("{}.log", node.name));
            if !is_sender || terminal_stops_writers() {
                command.stderr(create(&path)?);
                log = Some(path);
            }
            if is_sender {
                command.arg("--json").args(["--receivers", &receivers]).arg("--ticket-file").arg(&ticket);
                command.stdout(create(&report_path(dir))?).arg("--").arg(source);
            } else {
                command.stdout(Stdio::null()).arg("--").arg(at_file(&ticket)).arg(copy_path(dir, node));
            }
            let child = command
                .spawn()
                .map_err(|error| Failure::new(Status::Failed, format_args!("cannot start {}: {error}", node.name)))?;
            children.running.push(Running { name: node.name.clone(), child, log });
        }
        Ok(children)
    }

    /// True when all have ended well; an error names the first that has not.
    pub fn poll(&mut self) -> Outcome<bool> {
        let mut failure = None;
        self.running.retain_mut(|running| match running.child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) if status.success() => false,
            ended => {
                failure.get_or_insert(running.failure(ended.ok().flatten()));
                false
            }
        });
        failure.map_or(Ok(self.running.is_empty()), Err)
    }
}

impl Running {
    fn failure(&self, ended: Option<ExitStatus>) -> Failure {
        let status = match ended.and_then(|status| status.code()) {
            Some(3) => Status::NotAdmitted,
            Some(4) => Status::Incomplete,
            Some(5) => Status::LocalIo,
            Some(130) => Status::Interrupted,
            _ => Status::Failed,
        };
        let log = self.log.as_ref().and_then(|log| std::fs::read_to_string(log).ok()).unwrap_or_default();
        let words = match (ended.and_then(|status| status.signal()), log.lines().last()) {
            (Some(signal), _) => format!("it was ended by signal {signal}"),
            (None, Some(line)) => line.strip_prefix("mobcast: ").unwrap_or(line).to_owned(),
            // What it said is on the terminal already.
            (None, None) if self.log.is_none() => "its reason stands above".to_owned(),
            (None, None) => "it told no reason".to_owned(),
        };
        Failure::new(status, format_args!("{} failed: {words}", self.name))
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for running in &mut self.running {
            // It fails for those that have ended already.
            let _ = running.child.kill();
        }
        for running in &mut self.running {
            let _ = running.child.wait();
        }
    }
}

/// Whether writing to the terminal stops who is not in its foreground, as the processes of a demonstration are not
/// (`stty tostop`).
fn terminal_stops_writers() -> bool {
    tcgetattr(io::stderr()).is_ok_and(|terminal| terminal.local_modes.contains(LocalModes::TOSTOP))
}

/// This program as a node that sends or receives, without what the environment would set otherwise.
fn command(node: &Node, subcommand: &str) -> Outcome<Command> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(Status::Failed, format_args!("cannot find this program's own file: {error}")))?;
    let mut command = Command::new(program);
    for (variable, _) in std::env::vars_os() {
        let is_ours = variable.to_string_lossy().starts_with("MOBCAST_");
        if is_ours && variable != "MOBCAST_LOG" {
            command.env_remove(variable);
        }
    }
    command.env(END_WITH_PARENT, std::process::id().to_string()).stdin(Stdio::null()).process_group(0);
    command.args([subcommand, "--name", &node.name, "--cluster", &node.cluster, "--listen", &node.listen]);
    Ok(command)
}

fn at_file(path: &Path) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from("@");
    argument.push(path);
    argument
}
