//! Machines for an experiment: network namespaces on switches of their own, and long lines between the switches.
//!
//! | file | what it holds |
//! |---|---|
//! | `mod.rs` | the lab: sites, machines, and that nothing of them remains |
//! | `line.rs` | a line with delay between two sites |
//! | `gateway.rs` | translation of addresses, firewalls |
//! | `ip.rs` | running `ip` |
//!
//! A site is a namespace with a bridge, which is its switch and its router; a machine is a namespace with one interface
//! to it. The namespace in which the tests run gets no interface, address or route. Namespaces carry the number of the
//! test's process in their names, so that those of a process that was killed are found and removed by the next.

#![allow(dead_code, reason = "each test file uses its part")]

use std::fmt::Display;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::skipped;
use ip::{ip, try_ip};
use line::Line;

mod gateway;
mod ip;
mod line;

const PREFIX: &str = "mobcast-test-";

/// The addresses of a site's machines.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

/// What an experiment takes from the system, beside namespaces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Switches,
    LongLines,
    Firewalls,
}

/// All sites of one experiment. Dropped after the processes in it, it removes everything.
pub struct Lab {
    sites: Vec<Site>,
    lines: Vec<Line>,
    namespaces: Vec<String>,
}

struct Site {
    router: String,
    family: Family,
    machines: Vec<Machine>,
}

/// Something that runs commands in its own network.
#[derive(Clone)]
pub struct Machine {
    namespace: String,
}

impl Lab {
    /// An empty lab, or nothing if the test is to be skipped, which is said.
    pub fn new(needs: Needs) -> Option<Lab> {
        if let Some(reason) = obstacle(needs) {
            skipped(&reason);
            return None;
        }
        static REMOVAL: Once = Once::new();
        REMOVAL.call_once(remove_leftovers);
        Some(Lab { sites: Vec::new(), lines: Vec::new(), namespaces: Vec::new() })
    }

    /// Adds a site with this many machines, which reach each other and nobody else.
    pub fn site<const MACHINES: usize>(&mut self, family: Family) -> [Machine; MACHINES] {
        let site = self.sites.len();
        let router = self.namespace();
        ip(&format!("-n {router} link add switch type bridge"));
        ip(&format!("-n {router} link set switch up"));
        add_address(&router, "switch", &family.router(site));
        let machines: [Machine; MACHINES] = std::array::from_fn(|number| {
            let namespace = self.namespace();
            ip(&format!("-n {router} link add port{number} type veth peer name eth0 netns {namespace}"));
            ip(&format!("-n {router} link set port{number} master switch up"));
            ip(&format!("-n {namespace} link set eth0 up"));
            add_address(&namespace, "eth0", &family.machine(site, number));
            Machine { namespace }
        });
        self.sites.push(Site { router, family, machines: machines.to_vec() });
        machines
    }

    /// A machine that no network reaches.
    pub fn alone(&mut self) -> Machine {
        Machine { namespace: self.namespace() }
    }

    /// Lays a line between two sites (by the order in which they were added) on which a packet takes `one_way`.
    pub fn connect(&mut self, first: usize, second: usize, one_way: Duration) {
        let ends = [first, second].map(|site| self.sites[site].router.as_str());
        self.lines.push(Line::lay(ends, one_way));
        for (from, to) in [(first, second), (second, first)] {
            let Site { router, family, machines } = &self.sites[from];
            ip(&format!("-n {router} link set {} up", line::DEVICE));
            ip(&format!("-n {router} route add {} dev {}", family.network(to), line::DEVICE));
            ip(&format!("netns exec {router} sysctl -q -w {}", family.forwarding()));
            for Machine { namespace } in machines {
                ip(&format!("-n {namespace} route add default via {}", family.router_address(from)));
            }
        }
    }

    fn router(&self, site: usize) -> String {
        self.sites[site].router.clone()
    }

    /// The namespaces' names.
    pub fn namespaces(&self) -> Vec<String> {
        self.namespaces.clone()
    }

    fn namespace(&mut self) -> String {
        let name = fresh_name(std::process::id());
        self.namespaces.push(name.clone());
        ip(&format!("netns add {name}"));
        ip(&format!("-n {name} link set lo up"));
        name
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.lines.clear();
        let left: Vec<String> = self.namespaces.iter().flat_map(|namespace| end_processes(namespace)).collect();
        for namespace in &self.namespaces {
            let _ = try_ip(&format!("netns delete {namespace}"));
        }
        if !std::thread::panicking() {
            assert!(left.is_empty(), "processes were left in the lab: {left:?}");
            let listed = listed();
            assert!(self.namespaces.iter().all(|name| !listed.contains(name)), "namespaces are left: {listed:?}");
        }
    }
}

impl Machine {
    /// Bytes that its interface has sent so far, headers included.
    pub fn sent_bytes(&self) -> u64 {
        let counter = "/sys/class/net/eth0/statistics/tx_bytes";
        let text = try_ip(&format!("netns exec {} cat {counter}", self.namespace)).expect("it has an interface");
        text.trim().parse().expect("a number")
    }

    /// Takes its interface from the network, or puts it back.
    pub fn set_up(&self, up: bool) {
        ip(&format!("-n {} link set eth0 {}", self.namespace, if up { "up" } else { "down" }));
    }

    /// The same command (program, arguments, directory, environment), on this machine.
    pub fn on(&self, command: &Command) -> Command {
        let mut there = Command::new("ip");
        there.args(["netns", "exec", &self.namespace]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => there.env(name, value),
                None => there.env_remove(name),
            };
        }
        if let Some(directory) = command.get_current_dir() {
            there.current_dir(directory);
        }
        there.stdin(Stdio::null());
        there
    }
}

impl Family {
    fn network(self, site: usize) -> String {
        match self {
            Family::V4 => format!("10.77.{site}.0/24"),
            Family::V6 => format!("fd00:0:0:{site}::/64"),
        }
    }

    fn router_address(self, site: usize) -> String {
        match self {
            Family::V4 => format!("10.77.{site}.254"),
            Family::V6 => format!("fd00:0:0:{site}::fe"),
        }
    }

    /// With the length of its network's prefix.
    fn router(self, site: usize) -> String {
        self.with_prefix(self.router_address(site))
    }

    fn machine_address(self, site: usize, number: usize) -> String {
        let host = number + 1;
        match self {
            Family::V4 => format!("10.77.{site}.{host}"),
            Family::V6 => format!("fd00:0:0:{site}::{host}"),
        }
    }

    /// With the length of its network's prefix.
    fn machine(self, site: usize, number: usize) -> String {
        self.with_prefix(self.machine_address(site, number))
    }

    fn with_prefix(self, address: impl Display) -> String {
        match self {
            Family::V4 => format!("{address}/24"),
            // An address is not usable while the kernel looks for others that have it.
            Family::V6 => format!("{address}/64 nodad"),
        }
    }

    fn forwarding(self) -> &'static str {
        match self {
            Family::V4 => "net.ipv4.ip_forward=1",
            Family::V6 => "net.ipv6.conf.all.forwarding=1",
        }
    }
}

/// Removes the namespaces of test processes that are gone, with what runs in them.
pub fn remove_leftovers() {
    for name in listed() {
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            end_processes(&name);
            let _ = try_ip(&format!("netns delete {name}"));
        }
    }
}

/// A name that no other namespace has, as the process with this number would choose it.
pub fn fresh_name(pid: u32) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{PREFIX}{pid}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Names of all namespaces that tests have made.
pub fn listed() -> Vec<String> {
    let list = try_ip("netns list").unwrap_or_default();
    list.lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|n| n.starts_with(PREFIX))
        .map(str::to_owned)
        .collect()
}

/// Why there cannot be a lab here.
fn obstacle(needs: Needs) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("network namespaces need root".into());
    }
    let name = fresh_name(std::process::id());
    if let Err(error) = try_ip(&format!("netns add {name}")) {
        return Some(format!("`ip` makes no network namespaces here: {error}"));
    }
    let switch = try_ip(&format!("-n {name} link add switch type bridge"));
    let _ = try_ip(&format!("netns delete {name}"));
    if let Err(error) = switch {
        return Some(format!("the kernel makes no bridges here: {error}"));
    }
    if needs == Needs::Firewalls {
        match Command::new("nft").args(["list", "tables"]).output() {
            Err(_) => return Some("firewalls need `nft`: install the package nftables".into()),
            Ok(listed) if !listed.status.success() => return Some("the kernel has no nftables".into()),
            Ok(_) => {}
        }
    }
    if needs == Needs::LongLines && !Path::new(line::TUN).exists() {
        return Some(format!("lines with delay need {}", line::TUN));
    }
    None
}

/// What runs in a namespace.
pub fn processes(namespace: &str) -> Vec<Pid> {
    let pids = try_ip(&format!("netns pids {namespace}")).unwrap_or_default();
    pids.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)).collect()
}

/// Kills what runs in a namespace, and tells what it was.
fn end_processes(namespace: &str) -> Vec<String> {
    let end = |pid: Pid| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let _ = kill_process(pid, Signal::KILL);
        format!("{pid} {}", name.trim_end())
    };
    processes(namespace).into_iter().map(end).collect()
}

fn add_address(namespace: &str, device: &str, address: &str) {
    ip(&format!("-n {namespace} address add {address} dev {device}"));
}
