//! Processes with what they took: processor time and peak memory, as the system tells when they are waited for.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use wait4::Wait4;

/// A process that takes longer is ended, and the run fails.
const TIME_MAX_S: u32 = 300;

/// A process in a namespace. Dropping it ends it.
pub struct Running {
    name: String,
    child: Child,
    /// What it prints, by lines.
    lines: Receiver<String>,
    ended: bool,
}

/// What a process took, its children included.
#[derive(Clone, Copy, Default, Debug)]
pub struct Usage {
    /// User and system, seconds.
    pub processor_s: f64,
    /// Largest resident memory of any process, bytes.
    pub memory_bytes: u64,
}

impl Usage {
    /// Times add up; memory is that of the largest.
    pub fn and(self, other: Usage) -> Usage {
        Usage {
            processor_s: self.processor_s + other.processor_s,
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
        }
    }
}

impl Running {
    /// Starts `program` in a namespace, its standard input held open and its standard output read by lines.
    pub fn start<A: AsRef<std::ffi::OsStr>>(
        namespace: &str,
        program: impl AsRef<std::ffi::OsStr>,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Running, String> {
        let name = program.as_ref().to_string_lossy().into_owned();
        // `timeout` ends what hangs; it and `ip` take no time that could be seen.
        let mut command = Command::new("timeout");
        command.args(["--foreground", "--kill-after=1", &TIME_MAX_S.to_string()]);
        command.args(["ip", "netns", "exec", namespace]).arg(program).args(args);
        // What the caller has set for the command is not what is measured.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("MOBCAST_")) {
            command.env_remove(name);
        }
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().map_err(|error| format!("{name} does not start: {error}"))?;
        let (sender, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Ok(Running { name, child, lines, ended: false })
    }

    /// The next line that it prints.
    pub fn line(&self) -> Result<String, String> {
        let time = Duration::from_secs(u64::from(TIME_MAX_S) + 5);
        self.lines.recv_timeout(time).map_err(|_| format!("{} ended before it said what it should", self.name))
    }

    /// Writes a line to its standard input.
    pub fn say(&mut self, line: &str) -> Result<(), String> {
        let stdin = self.child.stdin.as_mut().expect("its standard input is open");
        writeln!(stdin, "{line}").map_err(|error| format!("{} does not listen: {error}", self.name))
    }

    /// Closes its standard input.
    pub fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits for its end, which must be a success.
    pub fn wait(mut self) -> Result<Usage, String> {
        let ended = self.child.wait4().map_err(|error| format!("cannot wait for {}: {error}", self.name))?;
        self.ended = true;
        if !ended.status.success() {
            let mut said = String::new();
            if let Some(mut stderr) = self.child.stderr.take() {
                // What it said helps; that it failed is known without.
                let _ = stderr.read_to_string(&mut said);
            }
            // What `timeout` ends with, also where it has to kill.
            if matches!(ended.status.code(), Some(124 | 137)) {
                return Err(format!("{} took longer than {TIME_MAX_S} s: {}", self.name, said.trim()));
            }
            return Err(format!("{} failed ({}): {}", self.name, ended.status, said.trim()));
        }
        let processor_s = (ended.rusage.utime + ended.rusage.stime).as_secs_f64();
        Ok(Usage { processor_s, memory_bytes: ended.rusage.maxrss })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            // `timeout` passes on the signal that ends it only if it can catch it; closing the pipes does the rest.
            let pid = self.child.id().to_string();
            let _ = Command::new("kill").args(["-TERM", &pid]).status();
            let _ = self.child.wait();
        }
    }
}

/// Waits for all, and adds up what they took.
pub fn wait_all(running: impl IntoIterator<Item = Running>) -> Result<Usage, String> {
    running.into_iter().try_fold(Usage::default(), |sum, process| Ok(sum.and(process.wait()?)))
}
