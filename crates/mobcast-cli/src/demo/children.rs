//! The processes of a demonstration: started, watched, and ended by their process numbers.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use super::{Node, local};
use crate::failure::{Failure, Outcome, Status};

/// Set for the processes of a demonstration, which must not outlive it, even if it is killed.
const END_WITH_PARENT: &str = "MOBCAST_END_WITH_PARENT";
/// How long processes have to end after they were asked to, before they are killed.
const END_MAX: Duration = Duration::from_secs(2);

/// Called first in `main`: a process of a demonstration ends with it.
pub fn end_with_parent() {
    if std::env::var_os(END_WITH_PARENT).is_some() {
        // Where the system has no such thing, the demonstration's own end has to do.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
    }
}

/// All processes that are running; dropping it ends them.
pub struct Children {
    running: Vec<Running>,
}

struct Running {
    name: String,
    child: Child,
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
            if is_sender {
                command.arg("--json").args(["--receivers", &receivers]).arg("--ticket-file").arg(&ticket);
                command.stdout(create(&report_path(dir))?).arg("--").arg(source);
            } else {
                let path = dir.join(format!("{}.log", node.name));
                command.stdout(Stdio::null()).stderr(create(&path)?);
                command.arg("--").arg(at_file(&ticket)).arg(copy_path(dir, node));
                log = Some(path);
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
                failure.get_or_insert(running.failure(ended.map(|status| status.and_then(|status| status.code()))));
                false
            }
        });
        failure.map_or(Ok(self.running.is_empty()), Err)
    }
}

impl Running {
    fn failure(&self, code: io::Result<Option<i32>>) -> Failure {
        let status = match code {
            Ok(Some(3)) => Status::NotAdmitted,
            Ok(Some(4)) => Status::Incomplete,
            Ok(Some(5)) => Status::LocalIo,
            Ok(Some(130)) => Status::Interrupted,
            _ => Status::Failed,
        };
        let log = self.log.as_ref().and_then(|log| std::fs::read_to_string(log).ok()).unwrap_or_default();
        let words = log.lines().rev().find(|line| !line.is_empty()).unwrap_or("see above");
        Failure::new(status, format_args!("{} failed: {words}", self.name))
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for running in &self.running {
            let _ = kill_process(Pid::from_child(&running.child), Signal::INT);
        }
        let deadline = Instant::now() + END_MAX;
        for running in &mut self.running {
            while matches!(running.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
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
    command.env(END_WITH_PARENT, "1").stdin(Stdio::null());
    command.args([subcommand, "--name", &node.name, "--cluster", &node.cluster, "--listen", &node.listen]);
    Ok(command)
}

fn at_file(path: &Path) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from("@");
    argument.push(path);
    argument
}
