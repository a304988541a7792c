//! The command and its references, each run once: the same file from the first machine of a network to all others.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Setting;
use super::network::Network;
use super::process::{Running, Usage, wait_all};
use super::samples::{MEMORY, PROCESSOR, Sample, THROUGHPUT};

/// Debian's Python, whose libtorrent Debian packages.
const PYTHON: &str = "/usr/bin/python3";
const TORRENT_NODE: &str = include_str!("torrent_node.py");
/// Bytes that socat moves at a time. With its default, 8 KiB, it would be a measurement of system calls.
const SOCAT_BYTES: &str = "262144";
/// Programs that do not say when they listen get this long before the clock starts.
const SETTLE_TIME: Duration = Duration::from_millis(200);

/// A reference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Program {
    /// A file through one TCP connection, unverified and in the clear.
    Socat,
    /// One TCP connection that touches no file.
    Iperf3,
    /// BitTorrent, tuned, over TCP alone.
    Libtorrent,
    /// A directory through a pipe.
    Tar,
    /// For tests: nothing that could be installed.
    #[cfg(test)]
    Absent,
}

impl Program {
    /// All of them.
    pub const ALL: [Program; 4] = [Program::Socat, Program::Iperf3, Program::Libtorrent, Program::Tar];

    /// As flags and tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Program::Socat => "socat",
            Program::Iperf3 => "iperf3",
            Program::Libtorrent => "libtorrent",
            Program::Tar => "tar",
            #[cfg(test)]
            Program::Absent => "absent",
        }
    }

    /// The Debian package that has it.
    pub fn package(self) -> &'static str {
        match self {
            Program::Socat => "socat",
            Program::Iperf3 => "iperf3",
            Program::Libtorrent => "python3-libtorrent",
            Program::Tar => "tar",
            #[cfg(test)]
            Program::Absent => "no-such-package",
        }
    }

    /// Whether it can be run.
    pub fn is_there(self) -> bool {
        let mut command = match self {
            Program::Socat => Command::new("socat"),
            Program::Iperf3 => Command::new("iperf3"),
            Program::Libtorrent => Command::new(PYTHON),
            Program::Tar => Command::new("tar"),
            #[cfg(test)]
            Program::Absent => return false,
        };
        match self {
            Program::Socat => command.arg("-V"),
            Program::Libtorrent => command.args(["-c", "import libtorrent"]),
            _ => command.arg("--version"),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    }
}

/// A file that is delivered.
pub struct Object {
    /// Where it is.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
}

impl Object {
    /// A file of this length that does not compress; made once in a run.
    pub fn make(setting: &Setting, bytes: u64) -> Result<Object, String> {
        let path = setting.dir.path().join(format!("object-{bytes}"));
        if !path.exists() {
            fill(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(Object { path, bytes })
    }
}

/// Makes memory for the copies of a run and gives it back: the host of a virtual machine takes back what is free for
/// long, and whoever runs first would pay for fetching it.
fn warm(setting: &Setting, network: &Network, object: &Object) -> Result<(), String> {
    let path = setting.dir.path().join("warm");
    let fill = || -> std::io::Result<()> {
        let (mut file, block) = (std::fs::File::create(&path)?, vec![1; 1 << 20]);
        let receivers = network.machines() as u64 - 1;
        (0..(object.bytes * receivers).div_ceil(1 << 20)).try_for_each(|_| file.write_all(&block))?;
        std::fs::remove_file(&path)
    };
    fill().map_err(|error| format!("{}: {error}", path.display()))
}

/// Words of a xorshift generator, so that neither links nor disks have anything to compress.
fn fill(path: &Path, bytes: u64) -> std::io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    let (mut state, mut block) = (0x9e37_79b9_7f4a_7c15_u64, vec![0; 1 << 20]);
    let mut left = bytes;
    while left > 0 {
        for word in block.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let step = left.min(block.len() as u64);
        file.write_all(&block[..step as usize])?;
        left -= step;
    }
    Ok(())
}

/// What one delivery took.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Bytes delivered, to all receivers together.
    pub bytes: u64,
    /// From the receivers' start to the last one's end, seconds.
    pub seconds: f64,
    /// Of all processes.
    pub usage: Usage,
}

impl Run {
    /// The three figures of a delivery.
    pub fn samples(&self, subject: &'static str) -> [Sample; 3] {
        let gigabytes = self.bytes as f64 / 1e9;
        let memory = self.usage.memory_bytes as f64 / f64::from(1 << 20);
        [(THROUGHPUT, gigabytes / self.seconds), (PROCESSOR, self.usage.processor_s / gigabytes), (MEMORY, memory)]
            .map(|(quantity, value)| Sample { subject, quantity, value })
    }
}

/// How the command is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    /// Encrypted, as by default.
    Tls,
    /// With `--plain` at all nodes.
    Plain,
}

/// What the command sends and where receivers put it.
pub struct Transfer<'a> {
    /// PATH of `mobcast send`.
    pub from: String,
    /// Its length.
    pub bytes: u64,
    /// How payload travels.
    pub payload: Payload,
    /// Flags or DEST of the receiver with this number.
    pub to: &'a dyn Fn(usize) -> Vec<String>,
}

/// The command from one to all others, whatever the object.
pub fn mobcast(setting: &Setting, network: &Network, transfer: &Transfer) -> Result<Run, String> {
    let receivers = network.machines() - 1;
    let plain = (transfer.payload == Payload::Plain).then_some("--plain");
    let (count, listen) = (receivers.to_string(), format!("{}:7077", Network::ip_address(0)));
    let send = ["send", "--quiet", "--receivers", &count, "--listen", &listen, &transfer.from];
    let sender = Running::start(network.machine(0), &setting.mobcast, send.into_iter().chain(plain))?;
    let ticket = sender.line()?;
    let start = Instant::now();
    let receivers = (1..=receivers).map(|receiver| {
        let mut words = vec!["recv".to_owned(), "--quiet".to_owned(), ticket.clone()];
        words.extend((transfer.to)(receiver));
        words.extend(plain.map(str::to_owned));
        Running::start(network.machine(receiver), &setting.mobcast, words)
    });
    let receivers = receivers.collect::<Result<Vec<Running>, String>>()?;
    let bytes = transfer.bytes * receivers.len() as u64;
    let usage = wait_all(receivers)?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Run { bytes, seconds, usage: usage.and(sender.wait()?) })
}

/// The command from file to files.
pub fn mobcast_files(setting: &Setting, network: &Network, object: &Object, payload: Payload) -> Result<Run, String> {
    warm(setting, network, object)?;
    let from = object.path.to_string_lossy().into_owned();
    let to = |receiver| vec![copy_path(setting, receiver).to_string_lossy().into_owned()];
    let run = mobcast(setting, network, &Transfer { from, bytes: object.bytes, payload, to: &to })?;
    take_away(setting, network, object)?;
    Ok(run)
}

/// A star of socats.
pub fn socat(setting: &Setting, network: &Network, object: &Object) -> Result<Run, String> {
    warm(setting, network, object)?;
    let receivers = 1..network.machines();
    let listen = |receiver| {
        let create = format!("CREATE:{}", copy_path(setting, receiver).display());
        let words = ["-u", "-b", SOCAT_BYTES, "TCP-LISTEN:9000,reuseaddr", &create].map(str::to_owned);
        Running::start(network.machine(receiver), "socat", words)
    };
    let listening = receivers.clone().map(listen).collect::<Result<Vec<Running>, String>>()?;
    std::thread::sleep(SETTLE_TIME);
    let start = Instant::now();
    let send = |receiver| {
        let open = format!("OPEN:{},rdonly", object.path.display());
        let connect = format!("TCP:{}:9000", Network::ip_address(receiver));
        let words = ["-u", "-b", SOCAT_BYTES, &open, &connect].map(str::to_owned);
        Running::start(network.machine(0), "socat", words)
    };
    let sending = receivers.map(send).collect::<Result<Vec<Running>, String>>()?;
    let bytes = object.bytes * listening.len() as u64;
    let usage = wait_all(listening)?;
    let seconds = start.elapsed().as_secs_f64();
    let usage = usage.and(wait_all(sending)?);
    take_away(setting, network, object)?;
    Ok(Run { bytes, seconds, usage })
}

/// One TCP stream from memory to nowhere, between the first two machines.
pub fn iperf3(network: &Network, bytes: u64) -> Result<Run, String> {
    let server = Running::start(network.machine(1), "iperf3", ["-s", "-1"])?;
    std::thread::sleep(SETTLE_TIME);
    let (address, bytes_text) = (Network::ip_address(1), bytes.to_string());
    let client = Running::start(network.machine(0), "iperf3", ["-J", "-c", &address, "-n", &bytes_text])?;
    let mut json = String::new();
    while let Ok(line) = client.line() {
        json.push_str(&line);
    }
    let usage = wait_all([client, server])?;
    let report: Value = serde_json::from_str(&json).map_err(|error| format!("iperf3's report: {error}"))?;
    let received = &report["end"]["sum_received"];
    match (received["bytes"].as_u64(), received["seconds"].as_f64()) {
        (Some(bytes), Some(seconds)) => Ok(Run { bytes, seconds, usage }),
        _ => Err("iperf3's report does not say what was received".into()),
    }
}

/// A swarm of libtorrents. The file is hashed beforehand, which does not count.
pub fn libtorrent(setting: &Setting, network: &Network, object: &Object) -> Result<Run, String> {
    warm(setting, network, object)?;
    let script = setting.dir.path().join("torrent_node.py");
    std::fs::write(&script, TORRENT_NODE).map_err(|error| format!("{}: {error}", script.display()))?;
    let torrent = object.path.with_extension("torrent");
    let start = |machine: usize, words: &[&str]| {
        let script = script.to_string_lossy();
        Running::start(network.machine(machine), PYTHON, [&*script].into_iter().chain(words.iter().copied()))
    };
    let torrent_path = torrent.to_string_lossy();
    if !torrent.exists() {
        start(0, &["make", &object.path.to_string_lossy(), &torrent_path])?.wait()?;
    }
    let node = |machine: usize| {
        let dir = if machine == 0 { setting.dir.path().to_owned() } else { libtorrent_dir(setting, machine) };
        std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        // Each connects to those before it.
        let peers: Vec<String> = (0..machine).map(Network::ip_address).collect();
        start(
            machine,
            &["node", &torrent_path, &dir.to_string_lossy(), &Network::ip_address(machine), &peers.join(",")],
        )
    };
    let mut nodes = (0..network.machines()).map(node).collect::<Result<Vec<Running>, String>>()?;
    nodes.iter().try_for_each(|node| node.line().map(drop))?;
    let start = Instant::now();
    nodes.iter_mut().try_for_each(|node| node.say("go"))?;
    nodes.iter().try_for_each(|node| node.line().map(drop))?;
    let seconds = start.elapsed().as_secs_f64();
    let mut processor_s = 0.0;
    for node in &mut nodes {
        node.close_stdin();
        processor_s += node.line()?.parse::<f64>().map_err(|error| format!("libtorrent's time: {error}"))?;
    }
    let bytes = object.bytes * (nodes.len() as u64 - 1);
    let usage = Usage { processor_s, ..wait_all(nodes)? };
    (1..network.machines()).for_each(|machine| drop(std::fs::remove_dir_all(libtorrent_dir(setting, machine))));
    Ok(Run { bytes, seconds, usage })
}

fn copy_path(setting: &Setting, receiver: usize) -> PathBuf {
    setting.dir.path().join(format!("copy-{receiver}"))
}

fn libtorrent_dir(setting: &Setting, machine: usize) -> PathBuf {
    setting.dir.path().join(format!("libtorrent-{machine}"))
}

/// Removes the copies, which must be there and complete.
fn take_away(setting: &Setting, network: &Network, object: &Object) -> Result<(), String> {
    for receiver in 1..network.machines() {
        let path = copy_path(setting, receiver);
        let length = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        if length != object.bytes {
            return Err(format!("{} has {length} of {} bytes", path.display(), object.bytes));
        }
        std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
