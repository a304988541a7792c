//! Network namespaces on one switch, and their end.
//!
//! Promises: they are gone, with all that runs in them, when this process ends, in whatever way: a shell waits at a pipe
//! for that and removes them. It has a process group of its own, so that Ctrl-C does not reach it.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What the shell does when its input ends: all namespaces of this prefix.
const REMOVE: &str = r#"
cat > /dev/null
for name in $(ip netns list | cut -d ' ' -f 1 | grep "^$1"); do
    for pid in $(ip netns pids "$name"); do kill -9 "$pid"; done
    ip netns delete "$name"
done 2> /dev/null
"#;

/// Machines with one interface each, by number.
pub struct Machines {
    prefix: String,
    remover: Child,
}

impl Machines {
    /// Starts this many.
    pub fn start(count: usize) -> io::Result<Machines> {
        let prefix = format!("mobcast-torture-{}-", std::process::id());
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", REMOVE, "sh", &prefix]).process_group(0);
        let remover = shell.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let machines = Machines { prefix, remover };
        let switch = format!("{}switch", machines.prefix);
        ip(&format!("netns add {switch}"))?;
        ip(&format!("-n {switch} link add switch type bridge"))?;
        ip(&format!("-n {switch} link set switch up"))?;
        for number in 0..count {
            let name = machines.name(number);
            ip(&format!("netns add {name}"))?;
            ip(&format!("-n {name} link set lo up"))?;
            ip(&format!("-n {switch} link add port{number} type veth peer name eth0 netns {name}"))?;
            ip(&format!("-n {switch} link set port{number} master switch up"))?;
            ip(&format!("-n {name} address add 10.78.0.{}/24 dev eth0", number + 1))?;
            ip(&format!("-n {name} link set eth0 up"))?;
        }
        Ok(machines)
    }

    /// A command that runs on a machine.
    pub fn on(&self, number: usize, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(number)]).arg(program).stdin(Stdio::null());
        command
    }

    fn name(&self, number: usize) -> String {
        format!("{}{number}", self.prefix)
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        drop(self.remover.stdin.take());
        // It reports nothing, and there is nobody to report to.
        let _ = self.remover.wait();
    }
}

/// Whether this machine has what it takes.
pub fn possible() -> Result<(), String> {
    let name = format!("mobcast-torture-{}-trial", std::process::id());
    let made = ip(&format!("netns add {name}")).and_then(|()| ip(&format!("-n {name} link add switch type bridge")));
    // If it was not made, there is nothing to delete.
    let _ = ip(&format!("netns delete {name}"));
    made.map_err(|error| format!("network namespaces need root, `ip` and bridges: {error}"))
}

fn ip(words: &str) -> io::Result<()> {
    let output = Command::new("ip").args(words.split_whitespace()).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(format!("ip {words}: {said}")))
}
