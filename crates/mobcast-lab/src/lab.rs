//! A lab in operation: namespaces and the hub, made from a plan and removed again.
//!
//! What is there of a lab stands in a directory of its own, so that another process can use it or remove it, also after
//! a crash of the one that made it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mobcast_topology::Topology;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::hub::carry::{DEVICE, ask};
use crate::hub::control::{Answer, Counts, Links, Request};
use crate::hub::tun::TUN;
use crate::interrupt::Interrupt;
use crate::namespace::{batch, in_namespace, ip, list, processes, remove};
use crate::plan::{self, LabPlan, prefix};

/// Where labs note what there is of them.
const PLACE: &str = "/run/mobcast-lab";
/// Where runs keep files: memory, so that no disk binds.
const SCRATCH: &str = "/dev/shm";
/// Real-time priority of the hub, so that busy nodes do not make it late.
const HUB_PRIORITY: &str = "20";
/// How long a hub may take to begin or to end.
const HUB_PATIENCE: Duration = Duration::from_secs(10);
/// The published measurements of this field are with this algorithm (or Reno), whatever the machine's own is.
const CONGESTION_CONTROL: &str = "cubic";
/// Settings in the namespace of every node and switch.
const SETTINGS: [(&str, &str); 6] = [
    ("ipv4/tcp_congestion_control", CONGESTION_CONTROL),
    // One run learns nothing from another.
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv6/conf/all/disable_ipv6", "1"),
    ("ipv6/conf/default/disable_ipv6", "1"),
];
/// Settings of switches, beside those.
const SWITCH_SETTINGS: [(&str, &str); 4] = [
    ("ipv4/ip_forward", "1"),
    // A switch has no packet filter, also where containers have made bridges go through it.
    ("bridge/bridge-nf-call-iptables", "0"),
    ("bridge/bridge-nf-call-ip6tables", "0"),
    ("bridge/bridge-nf-call-arptables", "0"),
];

/// A node of a lab that is there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LabNode {
    /// Cluster's name and number.
    pub name: String,
    /// Its cluster's name.
    pub cluster: String,
    /// Its address.
    pub address: String,
    /// Its network namespace.
    pub namespace: String,
}

/// What there is of a lab.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct State {
    /// The process that removes it at its end; none for a lab that stays.
    owner: Option<u32>,
    hub: Option<u32>,
    nodes: Vec<LabNode>,
}

/// A lab.
#[derive(Debug)]
pub struct Lab {
    name: String,
    state: State,
    hub: Option<Child>,
    /// Whether it is removed when this value goes.
    own: bool,
}

/// Why there cannot be a lab here, and what to do about it.
pub fn obstacle() -> Option<String> {
    for (program, package) in [("ip", "iproute2"), ("tc", "iproute2")] {
        if Command::new(program).arg("-V").output().is_err() {
            return Some(format!("the lab makes networks with `{program}`: install the package {package}"));
        }
    }
    if let Err(error) = check_root() {
        return Some(error.to_string());
    }
    // Threads of one process may ask at the same time.
    static PROBES: AtomicU32 = AtomicU32::new(0);
    let number = PROBES.fetch_add(1, Ordering::Relaxed);
    let probe = format!("{}probe{number}", prefix(&std::process::id().to_string()));
    if let Err(error) = ip(&format!("netns add {probe}")) {
        return Some(format!("no network namespace can be made here ({error}): the lab needs CAP_SYS_ADMIN"));
    }
    let bridge = ip(&format!("-n {probe} link add lan type bridge"));
    let device = in_namespace(&probe, || crate::hub::tun::device(DEVICE)).and_then(|device| device);
    // What it was made for is seen.
    let _ = remove(&[probe]);
    if let Err(error) = bridge {
        return Some(format!("the kernel makes no bridges here ({error})"));
    }
    device.err().map(|error| format!("no TUN device can be made with {TUN} ({error}): load the kernel's module tun"))
}

/// Whoever is not root may neither make, enter nor remove networks.
pub fn check_root() -> Result<(), LabError> {
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err(LabError::Missing("whoever makes, enters or removes a lab needs root: run it with sudo".into())),
    }
}

/// Says which labs of runs that crashed are still there: what runs in them would take processor time and memory from the next.
pub fn say_crashed() {
    let of_a_run = |name: &str| {
        let named = name.starts_with("run-") || name.starts_with("calibrate-");
        // What somebody has named so and is to stay has none.
        named && read_state(name).is_none_or(|state| state.owner.is_some())
    };
    for (name, _) in labs().into_iter().filter(|(name, owner)| owner.is_none() && of_a_run(name)) {
        let down = format!("`mobcast-lab down --name {name}` removes it");
        eprintln!("mobcast-lab: the lab {name:?} of a run that crashed is still there: {down}");
    }
}

impl Lab {
    /// Makes the network of a topology. An `own` lab is removed with the value, and with the process; what was made until
    /// an interrupt is removed in any case.
    pub fn build(topology: &Topology, name: &str, own: bool, interrupt: &Interrupt) -> Result<Lab, LabError> {
        if name.is_empty() || name.len() > 32 || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(LabError::Usage(format!(
                "{name:?} is no name for a lab: letters, digits and dashes, at most 32"
            )));
        }
        if let Some(reason) = obstacle() {
            return Err(LabError::Missing(reason));
        }
        let plan = plan::plan(topology, name)?;
        claim(Path::new(PLACE), name)?;
        let nodes = plan.nodes.iter().map(|node| LabNode {
            name: node.name.clone(),
            cluster: node.cluster_name.clone(),
            address: node.address.to_string(),
            namespace: node.namespace.clone(),
        });
        let owner = own.then(std::process::id);
        let state = State { owner, hub: None, nodes: nodes.collect() };
        // From here on, what is half made is removed.
        let mut lab = Lab { name: name.to_owned(), state, hub: None, own: true };
        lab.save()?;
        lab.make(&plan, interrupt)?;
        lab.own = own;
        Ok(lab)
    }

    /// The lab of this name, which another process has made.
    pub fn open(name: &str) -> Result<Lab, LabError> {
        let state = read_state(name).ok_or_else(|| LabError::NoLab(name.to_owned()))?;
        Ok(Lab { name: name.to_owned(), state, hub: None, own: false })
    }

    fn make(&mut self, plan: &LabPlan, interrupt: &Interrupt) -> Result<(), LabError> {
        run_batches(&plan.before_hub, interrupt)?;
        let _allowed = Allowed::add(CONGESTION_CONTROL)?;
        let everywhere = plan.nodes.iter().map(|node| (&node.namespace, &SETTINGS[..0]));
        for (namespace, more) in everywhere.chain(plan.switches.iter().map(|name| (name, &SWITCH_SETTINGS[..]))) {
            set(namespace, SETTINGS.iter().chain(more))?;
        }
        self.start_hub(&plan.switches)?;
        run_batches(&plan.after_hub, interrupt)?;
        interrupt.check()
    }

    fn start_hub(&mut self, switches: &[String]) -> Result<(), LabError> {
        let program = std::env::current_exe().map_err(LabError::Hub)?;
        let mut real_time = Command::new("chrt");
        real_time.process_group(0).args(["--fifo", HUB_PRIORITY, "true"]).stderr(Stdio::null());
        let real_time = real_time.status();
        let real_time = real_time.is_ok_and(|status| status.success());
        if !real_time {
            eprintln!("mobcast-lab: `chrt` gives no real-time priority here: busy nodes may make the links late");
        }
        let mut command = if real_time {
            let mut command = Command::new("chrt");
            command.args(["--fifo", HUB_PRIORITY]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.args(hub_words(&self.socket()));
        let attached = self.state.owner.is_some();
        if attached {
            command.arg("--attached");
        }
        command.args(switches).stdin(if attached { Stdio::piped() } else { Stdio::null() }).stdout(Stdio::piped());
        if !attached {
            let log = place(&self.name).join("hub.log");
            command.stderr(std::fs::File::create(&log).map_err(LabError::at(log))?);
        }
        let mut hub = command.process_group(0).spawn().map_err(LabError::Hub)?;
        self.state.hub = Some(hub.id());
        self.save()?;
        let mut line = String::new();
        let said = BufReader::new(hub.stdout.take().expect("piped")).read_line(&mut line);
        self.hub = Some(hub);
        said.map_err(LabError::Hub)?;
        if line.trim() == "ready" { Ok(()) } else { Err(LabError::Hub(ErrorKind::UnexpectedEof.into())) }
    }

    /// The links become those of a scenario, whose changes begin to happen.
    pub fn begin(&self, links: Links) -> Result<(), LabError> {
        ask(&self.socket(), &Request::Begin(links)).map(drop).map_err(LabError::Hub)
    }

    /// What the hub has counted since then.
    pub fn counts(&self) -> Result<Counts, LabError> {
        match ask(&self.socket(), &Request::Read).map_err(LabError::Hub)? {
            Answer::Counts(counts) => Ok(*counts),
            _ => Err(LabError::Hub(ErrorKind::InvalidData.into())),
        }
    }

    /// The lab's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its nodes; the first one is the root.
    pub fn nodes(&self) -> &[LabNode] {
        &self.state.nodes
    }

    /// The node with this name or address.
    pub fn node(&self, name: &str) -> Result<&LabNode, LabError> {
        self.state.nodes.iter().find(|node| node.name == name || node.address == name).ok_or_else(|| {
            let names: Vec<&str> = self.state.nodes.iter().map(|node| node.name.as_str()).collect();
            LabError::Usage(format!("the lab {:?} has no node {name:?}: there are {}", self.name, names.join(", ")))
        })
    }

    /// The hub's process.
    pub fn hub_pid(&self) -> Option<u32> {
        self.state.hub
    }

    /// A directory in memory for the files of runs.
    pub fn scratch(&self) -> PathBuf {
        scratch(&self.name)
    }

    /// Kills whatever runs on the nodes.
    pub fn clear(&self) {
        for pid in self.nodes().iter().flat_map(|node| processes(&node.namespace)) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    fn socket(&self) -> PathBuf {
        socket(&self.name)
    }

    fn save(&self) -> Result<(), LabError> {
        let path = place(&self.name).join("lab.json");
        let text = serde_json::to_string(&self.state).expect("plain data");
        std::fs::write(&path, text).map_err(LabError::at(path))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !self.own {
            return;
        }
        // Standard input's end tells an attached hub.
        if let Some(mut hub) = self.hub.take() {
            drop(hub.stdin.take());
            end_hub(&self.name, Some(hub.id()));
            let _ = hub.wait();
        }
        if let Err(error) = remove_rest(&self.name) {
            eprintln!("mobcast-lab: {error}; what is left is removed by `mobcast-lab down`");
        }
    }
}

/// Removes a lab, whoever made it. An error if there is nothing of it.
pub fn down(name: &str) -> Result<(), LabError> {
    let state = read_state(name);
    if state.is_none() && list(&prefix(name)).is_empty() && !place(name).exists() {
        return Err(LabError::NoLab(name.to_owned()));
    }
    end_hub(name, state.and_then(|state| state.hub));
    remove_rest(name)
}

/// The labs of which there is something: their names, and the process that removes each if it still runs.
pub fn labs() -> Vec<(String, Option<u32>)> {
    let entries = std::fs::read_dir(PLACE).into_iter().flatten();
    let noted = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    // What a probe or a crash between two steps has left is noted nowhere.
    let names: BTreeSet<String> = noted.chain(list("").iter().filter_map(|name| plan::lab_of(name))).collect();
    names
        .into_iter()
        .map(|name| {
            // A probe is called by the process that makes it, and is noted nowhere.
            let owner = read_state(&name).map_or_else(|| name.parse().ok(), |state| state.owner);
            let running = owner.filter(|pid| program_of(*pid).is_some_and(|program| program.contains("mobcast-lab")));
            (name, running)
        })
        .collect()
}

/// Takes a lab's name: of several at once, one gets it.
fn claim(places: &Path, name: &str) -> Result<(), LabError> {
    std::fs::create_dir_all(places).map_err(LabError::at(places))?;
    let place = places.join(name);
    std::fs::create_dir(&place).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => LabError::Exists(name.to_owned()),
        _ => LabError::at(place)(error),
    })
}

fn end_hub(name: &str, pid: Option<u32>) {
    let _ = ask(&socket(name), &Request::End);
    let Some(pid) = pid else { return };
    let deadline = Instant::now() + HUB_PATIENCE;
    let runs = || is_hub(pid, &socket(name));
    while runs() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    if let Some(pid) = Pid::from_raw(pid.cast_signed()).filter(|_| runs()) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// With what a hub with this socket is started.
fn hub_words(socket: &Path) -> [&OsStr; 3] {
    ["hub".as_ref(), "--socket".as_ref(), socket.as_os_str()]
}

/// Whether a process is the hub with this socket. The number of one that has ended may be another program's.
fn is_hub(pid: u32, socket: &Path) -> bool {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    words.windows(3).any(|words| words == hub_words(socket).map(OsStr::as_encoded_bytes))
}

fn remove_rest(name: &str) -> Result<(), LabError> {
    let removed = remove(&list(&prefix(name)));
    let [files, note] = [scratch(name), place(name)].map(|path| remove_directory(&path));
    removed.and(files).and(note)
}

/// Removes a directory, if it is there. Programs that were just killed may still be writing into it.
fn remove_directory(path: &Path) -> Result<(), LabError> {
    const TRIES: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(50);
    let mut left = TRIES;
    loop {
        match std::fs::remove_dir_all(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if left == 0 => return Err(LabError::at(path)(error)),
            Err(_) => std::thread::sleep(PAUSE),
        }
        left -= 1;
    }
}

fn place(name: &str) -> PathBuf {
    Path::new(PLACE).join(name)
}

fn socket(name: &str) -> PathBuf {
    place(name).join("hub.sock")
}

fn scratch(name: &str) -> PathBuf {
    Path::new(SCRATCH).join(prefix(name).trim_end_matches('.'))
}

fn read_state(name: &str) -> Option<State> {
    serde_json::from_str(&std::fs::read_to_string(place(name).join("lab.json")).ok()?).ok()
}

/// The command line of a process, empty for one that has ended and was not waited for.
fn program_of(pid: u32) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    Some(String::from_utf8_lossy(&bytes).replace('\0', " "))
}

fn run_batches(batches: &[(&'static str, Option<String>, String)], interrupt: &Interrupt) -> Result<(), LabError> {
    for (tool, namespace, lines) in batches.iter().filter(|(.., lines)| !lines.is_empty()) {
        interrupt.check()?;
        batch(tool, namespace.as_deref(), lines)?;
    }
    Ok(())
}

/// Namespaces may choose from the machine's list of algorithms. While this value lives, one more is in that list.
struct Allowed {
    before: Option<String>,
}

impl Allowed {
    const PATH: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

    fn add(algorithm: &str) -> Result<Allowed, LabError> {
        let list = std::fs::read_to_string(Allowed::PATH).map_err(LabError::at(Allowed::PATH))?;
        if list.split_whitespace().any(|allowed| allowed == algorithm) {
            return Ok(Allowed { before: None });
        }
        let with = format!("{} {algorithm}", list.trim());
        std::fs::write(Allowed::PATH, with).map_err(LabError::at(Allowed::PATH))?;
        Ok(Allowed { before: Some(list) })
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        if let Some(before) = &self.before
            && let Err(error) = std::fs::write(Allowed::PATH, before)
        {
            eprintln!("mobcast-lab: {} was {:?} and is not again: {error}", Allowed::PATH, before.trim());
        }
    }
}

/// Writes settings under `/proc/sys/net` of a namespace. One that the kernel does not have, is left as it is.
fn set<'a>(namespace: &str, settings: impl Iterator<Item = &'a (&'a str, &'a str)> + Send) -> Result<(), LabError> {
    let write = || {
        for (name, value) in settings {
            let path = Path::new("/proc/sys/net").join(name);
            match std::fs::write(&path, value) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(LabError::at(path)(error)),
                _ => {}
            }
        }
        Ok(())
    };
    in_namespace(namespace, write).map_err(LabError::at(namespace))?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that waits, and in whose command line these words are.
    fn process_with(words: &[&str]) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", "echo runs; read line; exit 0", "mobcast-lab"]).args(words);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        // Its command line can be read once it runs.
        let said = BufReader::new(child.stdout.take().expect("piped")).read_line(&mut String::new());
        said.expect("it says a word");
        child
    }

    #[test]
    fn another_lab_s_hub_and_other_programs_are_no_hub_of_this_lab() {
        let own = socket("own");
        let is_own = |words: &[&str]| {
            let mut child = process_with(words);
            let found = is_hub(child.id(), &own);
            child.kill().expect("a child");
            child.wait().expect("a child");
            found
        };
        assert!(is_own(&["hub", "--socket", "/run/mobcast-lab/own/hub.sock", "--attached", "switch"]));
        for other in [&["jupyterhub"][..], &["hub", "--socket", "/run/mobcast-lab/other/hub.sock"], &[]] {
            assert!(!is_own(other), "{other:?}");
        }
    }

    #[test]
    fn of_several_at_once_one_gets_a_name() {
        const AT_ONCE: usize = 8;
        let directory = tempfile::tempdir().expect("a directory");
        let places = directory.path().join("places");
        for round in 0..50 {
            let (name, barrier) = (format!("x-{round}"), std::sync::Barrier::new(AT_ONCE));
            let claim_together = || {
                barrier.wait();
                claim(&places, &name)
            };
            let results: Vec<Result<(), LabError>> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(claim_together)).collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
            });
            assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{name}");
            let refused = results.into_iter().filter_map(Result::err);
            assert_eq!(refused.filter(|error| matches!(error, LabError::Exists(_))).count(), AT_ONCE - 1);
        }
    }

    #[test]
    fn a_program_that_has_a_dead_hub_s_number_is_left_alone() {
        let mut child = process_with(&["jupyterhub"]);
        let started = Instant::now();
        end_hub("has-no-hub", Some(child.id()));
        assert!(started.elapsed() < HUB_PATIENCE, "nobody waits for it");
        assert_eq!(child.try_wait().expect("a child"), None, "it goes on");
        child.kill().expect("a child");
        child.wait().expect("a child");
    }
}
