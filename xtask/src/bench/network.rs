//! Machines for a measurement: network namespaces, either two on a wire (a veth pair) or many on a switch (a bridge).
//! Connections use CUBIC, Linux's default, whatever this machine is set to: BBR paces every connection by timers, at
//! which a virtual machine moves 1.5 GB/s instead of 6 GB/s, and all figures would be about that. Names carry the number of this process, so that what a killed run has left is found and removed by the next.

use std::path::Path;
use std::process::Command;

/// Names of what belongs to a run begin like this, and go on with its process.
pub const PREFIX: &str = "mobcast-bench-";

/// Some machines that reach each other. Dropped after the processes in it, it removes everything.
pub struct Network {
    namespaces: Vec<String>,
    machines: usize,
}

impl Network {
    /// Two machines on a wire.
    pub fn wire() -> Result<Network, String> {
        let mut network = Network { namespaces: Vec::new(), machines: 2 };
        let (first, second) = (network.namespace()?, network.namespace()?);
        ip(&format!("-n {first} link add eth0 type veth peer name eth0 netns {second}"))?;
        (0..2).try_for_each(|machine| network.address(machine))?;
        Ok(network)
    }

    /// Many machines on a switch.
    pub fn switch(machines: usize) -> Result<Network, String> {
        let mut network = Network { namespaces: Vec::new(), machines };
        (0..machines).try_for_each(|_| network.namespace().map(drop))?;
        let switch = network.namespace()?;
        ip(&format!("-n {switch} link add switch type bridge"))?;
        ip(&format!("-n {switch} link set switch up"))?;
        for machine in 0..machines {
            let namespace = network.machine(machine);
            ip(&format!("-n {switch} link add port{machine} type veth peer name eth0 netns {namespace}"))?;
            ip(&format!("-n {switch} link set port{machine} master switch up"))?;
            network.address(machine)?;
        }
        Ok(network)
    }

    /// The namespace of a machine.
    pub fn machine(&self, machine: usize) -> &str {
        &self.namespaces[machine]
    }

    /// How many machines there are.
    pub fn machines(&self) -> usize {
        self.machines
    }

    /// The address of a machine.
    pub fn ip_address(machine: usize) -> String {
        format!("10.77.0.{}", machine + 1)
    }

    fn namespace(&mut self) -> Result<String, String> {
        let name = format!("{PREFIX}{}-{}", std::process::id(), self.namespaces.len());
        ip(&format!("netns add {name}"))?;
        self.namespaces.push(name.clone());
        ip(&format!("-n {name} link set lo up"))?;
        Ok(name)
    }

    fn address(&self, machine: usize) -> Result<(), String> {
        let (namespace, address) = (self.machine(machine), Network::ip_address(machine));
        ip(&format!("-n {namespace} address add {address}/24 dev eth0"))?;
        ip(&format!("-n {namespace} link set eth0 up"))?;
        ip(&format!("-n {namespace} route replace 10.77.0.0/24 dev eth0 congctl cubic"))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for namespace in &self.namespaces {
            if let Err(problem) = ip(&format!("netns delete {namespace}")) {
                eprintln!("bench: {problem}");
            }
        }
    }
}

/// Removes the namespaces of runs that were killed.
pub fn remove_leftovers() {
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_leftover(&name) {
            // What runs there would go on without a name. All of it may be gone meanwhile.
            let pids = Command::new("ip").args(["netns", "pids", &name]).output().map(|output| output.stdout);
            let pids = String::from_utf8_lossy(&pids.unwrap_or_default()).into_owned();
            if !pids.is_empty() {
                let _ = Command::new("kill").arg("-KILL").args(pids.split_whitespace()).status();
            }
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

/// Whether a name is of a run whose process is gone.
pub fn is_leftover(name: &str) -> bool {
    let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
    owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
}

fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip").args(words.split(' ')).output();
    let output = output.map_err(|error| format!("ip does not start ({error}): apt-get install iproute2"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("ip {words}: {} (network namespaces want root)", said.trim()))
}
