//! Network namespaces: making them with `ip`, entering them, ending what runs in them, removing them.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::linux::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::LabError;

/// Where named namespaces are.
const PLACE: &str = "/run/netns";

/// Runs something in a namespace, on a thread that ends there; descriptors that it opens work everywhere.
pub fn in_namespace<T: Send>(name: &str, body: impl FnOnce() -> T + Send) -> io::Result<T> {
    let network = File::open(Path::new(PLACE).join(name))?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(body())
        });
        thread.join().expect("what runs in a namespace does not panic")
    })
}

/// Runs `ip` or `tc` with a batch of lines, in a namespace or where this process is.
pub fn batch(tool: &str, namespace: Option<&str>, lines: &str) -> Result<(), LabError> {
    let mut command = Command::new(tool);
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    // Not in the terminal's group: its interrupt is for the lab, which then removes what these have made.
    command.process_group(0).args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let failed = |error: &dyn std::fmt::Display| LabError::Tool { tool: tool.to_owned(), error: error.to_string() };
    let mut child = command.spawn().map_err(|error| failed(&error))?;
    let written = child.stdin.take().expect("piped").write_all(lines.as_bytes());
    let output = child.wait_with_output().map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr).trim()));
    }
    written.map_err(|error| failed(&error))
}

/// What `ip` with these words prints, or why it failed.
pub fn ip(words: &str) -> Result<String, LabError> {
    let failed = |error: &dyn std::fmt::Display| LabError::Tool { tool: "ip".to_owned(), error: error.to_string() };
    let output = Command::new("ip").process_group(0).args(words.split_whitespace()).stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Names of all namespaces that begin like this.
pub fn list(prefix: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(PLACE) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort();
    names
}

/// The number of a namespace, which `/proc/PID/ns/net` has for each process in it.
pub fn inode(name: &str) -> io::Result<u64> {
    Ok(std::fs::metadata(Path::new(PLACE).join(name))?.st_ino())
}

/// What runs in a namespace.
pub fn processes(name: &str) -> Vec<Pid> {
    let pids = ip(&format!("netns pids {name}")).unwrap_or_default();
    pids.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)).collect()
}

/// Kills what runs in these namespaces, and removes them with everything in them.
pub fn remove(names: &[String]) -> Result<(), LabError> {
    for name in names {
        empty(name);
    }
    let lines: String = names.iter().map(|name| format!("netns delete {name}\n")).collect();
    if names.is_empty() { Ok(()) } else { batch("ip", None, &lines) }
}

/// Kills what runs in a namespace, and what that has started between the look and the kill.
fn empty(name: &str) {
    const TRIES: u32 = 20;
    for _ in 0..TRIES {
        let running = processes(name);
        if running.is_empty() {
            return;
        }
        for pid in running {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
