//! A command with its log in a file, waited for with patience, killed when nobody wants it any more.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Nothing here takes nearly as long, unless it hangs: a lost peer is given up after 10 s.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(3);

/// A process that was started.
pub struct Process {
    /// What it is called in messages.
    pub name: String,
    log: PathBuf,
    out: PathBuf,
    child: Child,
}

impl Process {
    /// Starts `command`; what it says goes to files in `directory`.
    pub fn start(name: &str, command: &mut Command, directory: &Path) -> io::Result<Process> {
        let (log, out) = (directory.join(format!("{name}.log")), directory.join(format!("{name}.out")));
        let child = command.stdout(File::create(&out)?).stderr(File::create(&log)?).spawn()?;
        Ok(Process { name: name.into(), log, out, child })
    }

    /// What it has said on standard error.
    pub fn log(&self) -> String {
        fs::read(&self.log).map_or(String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What it has written to standard output.
    pub fn out(&self) -> String {
        fs::read_to_string(&self.out).unwrap_or_default()
    }

    /// Waits until it says something, or has ended: false then.
    pub fn says(&mut self, words: &str) -> Result<bool, String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Looked at first, so that the last words of a process count.
            let ended = self.child.try_wait().map_err(|error| error.to_string())?.is_some();
            if self.log().contains(words) {
                return Ok(true);
            }
            if ended {
                return Ok(false);
            }
            if Instant::now() > deadline {
                return Err(format!("{} never says {words:?}; its last words: {}", self.name, self.last_words()));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Kills it with -9, if it has not ended.
    pub fn kill(&mut self) -> Result<(), String> {
        self.child.kill().map_err(|error| format!("{} cannot be killed: {error}", self.name))
    }

    /// Waits for its end. The status of a process that a signal has ended is 128 and the signal's number.
    pub fn end(&mut self) -> Result<i32, String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
                return Ok(code(status));
            }
            if Instant::now() > deadline {
                return Err(format!("{} hangs; its last words: {}", self.name, self.last_words()));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Waits for its end, which must be with this status.
    pub fn ends_with(&mut self, expected: i32) -> Result<(), String> {
        match self.end()? {
            code if code == expected => Ok(()),
            code => Err(format!("{} ends with {code} and not {expected}: {}", self.name, self.last_words())),
        }
    }

    /// The last line of its log.
    pub fn last_words(&self) -> String {
        self.log().lines().last().unwrap_or("nothing").to_owned()
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

impl Drop for Process {
    fn drop(&mut self) {
        // After its end, both do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
