//! One run: a sender and five receivers in two clusters, one of which is killed.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::machines::Machines;
use super::process::Process;

/// The receivers' names and clusters; the sender is in the first cluster.
const RECEIVERS: [(&str, &str); 5] = [("a", "west"), ("b", "west"), ("c", "east"), ("d", "east"), ("e", "east")];
/// A machine for each, and one for the sender.
pub const MACHINES: usize = RECEIVERS.len() + 1;
/// A sender that has lost a receiver waits so long for another one.
const WAIT: &str = "--wait=3s";
/// About the time in which all have joined.
const START_MS: u64 = 150;
/// The longest time from the word that the root may leave to the kill.
const LEAVE_MS_MAX: u64 = 300;

/// Who is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victim {
    /// The receiver with this number.
    Receiver(usize),
    /// The sender, when it may leave.
    Root,
}

/// What one run does. It follows from seed and number.
pub struct Plan {
    /// Who is killed.
    pub victim: Victim,
    delay: Duration,
    object_bytes: u64,
    piece_kib: u64,
    /// The receivers' limit, in MB/s, in every second run: then the root is done long before they are.
    receivers_mb_s: Option<u64>,
    /// The sender's limit, in MB/s, so that the moment of the kill is in the midst of the transfer.
    sender_mb_s: u64,
    data_seed: u64,
}

/// Where a run takes place.
pub struct Setting<'a> {
    pub machines: &'a Machines,
    pub program: &'a Path,
    pub directory: &'a Path,
}

impl Plan {
    /// The run of this number.
    pub fn new(seed: u64, number: u64) -> Plan {
        let mut dice = Dice(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let receiver = dice.below(RECEIVERS.len() as u64) as usize;
        let victim = if number % 3 == 1 { Victim::Root } else { Victim::Receiver(receiver) };
        // Now and then an object that goes in one frame.
        let object_bytes = if dice.below(10) == 0 { dice.below(60 << 10) } else { dice.below(32 << 20) + 1 };
        let sender_mb_s = 20 + dice.below(100);
        // The sender serves two neighbours and one other cluster, which share some of the work.
        let transfer_ms = 2 * object_bytes / (sender_mb_s * 1_000);
        let longest_ms = if victim == Victim::Root { LEAVE_MS_MAX } else { START_MS + transfer_ms };
        Plan {
            victim,
            delay: Duration::from_millis(dice.below(longest_ms + 1)),
            object_bytes,
            piece_kib: 64 << dice.below(4),
            receivers_mb_s: (dice.below(2) == 0).then(|| 2 + dice.below(10)),
            sender_mb_s,
            data_seed: dice.next(),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { delay, object_bytes, piece_kib, sender_mb_s, .. } = self;
        let victim = match self.victim {
            Victim::Receiver(number) => RECEIVERS[number].0,
            Victim::Root => "the root",
        };
        write!(f, "kill {victim} after {} ms, {object_bytes} bytes in pieces of {piece_kib} KiB, ", delay.as_millis())?;
        write!(f, "sender {sender_mb_s} MB/s, receivers ")?;
        match self.receivers_mb_s {
            Some(rate) => write!(f, "{rate} MB/s"),
            None => write!(f, "unlimited"),
        }
    }
}

/// Runs it; tells what the kill hit, or what does not hold.
pub fn run(plan: &Plan, setting: &Setting<'_>) -> Result<String, String> {
    let source = setting.directory.join("source");
    write_data(&source, plan.object_bytes, plan.data_seed).map_err(|error| format!("{}: {error}", source.display()))?;
    let mut processes = Processes::start(plan, setting).map_err(|error| error.to_string())?;
    match plan.victim {
        Victim::Receiver(number) => processes.without_receiver(number, plan, setting),
        Victim::Root => processes.without_root(plan, setting),
    }
}

struct Processes {
    send: Process,
    receivers: Vec<Process>,
}

impl Processes {
    fn start(plan: &Plan, setting: &Setting<'_>) -> std::io::Result<Processes> {
        let Setting { machines, program, directory } = setting;
        let ready = |mut command: Command| {
            command.current_dir(directory).env("MOBCAST_LOG", "debug");
            command
        };
        let mut send = ready(machines.on(0, program));
        let (rate, piece) =
            (format!("--max-rate={}MB/s", plan.sender_mb_s), format!("--piece-size={}KiB", plan.piece_kib));
        send.args(["send", "--name=root", "--cluster=west", "--json", "--ticket-file=ticket", &rate, &piece, "source"]);
        if plan.victim != Victim::Root {
            send.args([&format!("--receivers={}", RECEIVERS.len()), WAIT]);
        }
        let send = Process::start("root", &mut send, directory)?;
        let mut receivers = Vec::new();
        for (number, (name, cluster)) in RECEIVERS.into_iter().enumerate() {
            let mut recv = ready(machines.on(number + 1, program));
            recv.args(["recv", "@ticket", name, "--name", name, "--cluster", cluster]);
            recv.args(plan.receivers_mb_s.map(|rate| format!("--max-rate={rate}MB/s")));
            receivers.push(Process::start(name, &mut recv, directory)?);
        }
        Ok(Processes { send, receivers })
    }

    fn without_receiver(&mut self, victim: usize, plan: &Plan, setting: &Setting<'_>) -> Result<String, String> {
        std::thread::sleep(plan.delay);
        self.receivers[victim].kill()?;
        let name = RECEIVERS[victim].0;
        let hit = match self.receivers[victim].end()? {
            0 => ENDED,
            _ => stage(&self.receivers[victim].log()),
        };
        for (number, receiver) in self.receivers.iter_mut().enumerate().filter(|(number, _)| *number != victim) {
            receiver.ends_with(0)?;
            has_everything(setting.directory, RECEIVERS[number].0)?;
        }
        if setting.directory.join(name).exists() {
            // Under its final name, a file is never half.
            has_everything(setting.directory, name)?;
        }
        self.sender_knows(name, hit)?;
        Ok(hit.to_owned())
    }

    /// The sender's status says whether it has heard from the victim that it was complete, and its words who was lost.
    fn sender_knows(&mut self, victim: &str, hit: &str) -> Result<(), String> {
        let code = self.send.end()?;
        let out = self.send.out();
        let report: Value = serde_json::from_str(&out).map_err(|error| format!("the report: {error}: {out}"))?;
        let nodes = report["nodes"].as_array().map_or(&[][..], Vec::as_slice);
        let verified = |name: &str| nodes.iter().any(|node| node["name"] == name && node["verified"] == true);
        let survivors = RECEIVERS.iter().filter(|(name, _)| *name != victim);
        if let Some((name, _)) = survivors.into_iter().find(|(name, _)| !verified(name)) {
            return Err(format!("{name} is not verified in the sender's report: {out}"));
        }
        let expected = if verified(victim) { 0 } else { 4 };
        if code != expected {
            return Err(format!("the sender ends with {code} and not {expected}: {}", self.send.last_words()));
        }
        if code == 0 && ![COMPLETE, ENDED].contains(&hit) {
            return Err(format!("the sender counts {victim}, which was killed when it was {hit}"));
        }
        // A sender that never heard of the victim cannot name it.
        let log = self.send.log();
        if code == 4 && log.contains(&format!("joined {victim}:")) && !log.contains(&format!("{victim} was lost")) {
            return Err(format!("the sender does not name {victim}: {}", self.send.last_words()));
        }
        Ok(())
    }

    fn without_root(&mut self, plan: &Plan, setting: &Setting<'_>) -> Result<String, String> {
        for (name, _) in RECEIVERS {
            if !self.send.says(&format!("joined {name}:"))? {
                return Err(format!("the sender ends before {name} has joined: {}", self.send.last_words()));
            }
        }
        if !self.send.says("source_may_leave")? {
            return Err(format!("the sender ends without saying that it may leave: {}", self.send.last_words()));
        }
        std::thread::sleep(plan.delay);
        self.send.kill()?;
        let complete = self.receivers.iter().filter(|receiver| stage(&receiver.log()) == COMPLETE).count();
        self.send.ends_with(128 + 9)?;
        for receiver in &mut self.receivers {
            receiver.ends_with(0)?;
            has_everything(setting.directory, &receiver.name)?;
        }
        Ok(format!("{complete} of {} complete", RECEIVERS.len()))
    }
}

const COMPLETE: &str = "complete";
/// The kill came too late.
const ENDED: &str = "ended";

/// How far a receiver is, by its own words.
fn stage(log: &str) -> &'static str {
    let said = |words: &str| log.lines().any(|line| line.starts_with(words));
    match () {
        () if said("complete") => COMPLETE,
        () if said("receiving") => "receiving",
        () if said("joined as") => "joined",
        () => "not joined",
    }
}

/// A copy has the bytes of the source.
fn has_everything(directory: &Path, copy: &str) -> Result<(), String> {
    let read = |name: &str| fs::read(directory.join(name)).map_err(|error| format!("{name}: {error}"));
    if read("source")? == read(copy)? { Ok(()) } else { Err(format!("{copy} has other bytes than the source")) }
}

fn write_data(path: &Path, bytes: u64, seed: u64) -> std::io::Result<()> {
    let mut dice = Dice(seed);
    let words = std::iter::from_fn(|| Some(dice.next().to_le_bytes()));
    let data: Vec<u8> = words.take(bytes.div_ceil(8) as usize).flatten().collect();
    fs::write(path, &data[..bytes as usize])
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_follows_from_seed_and_number() {
        assert_eq!(Plan::new(7, 3).to_string(), Plan::new(7, 3).to_string());
        assert_ne!(Plan::new(7, 3).to_string(), Plan::new(7, 5).to_string());
        assert_ne!(Plan::new(7, 3).to_string(), Plan::new(8, 3).to_string());
    }

    #[test]
    fn how_far_a_receiver_is_follows_from_its_words() {
        let log = "waiting for the ticket in ticket\njoined as a: cluster west (named)\nreceiving source: 3 MB\n";
        assert_eq!(stage(log), "receiving");
        assert_eq!(stage("joined as a: cluster west (complete)\n"), "joined");
        assert_eq!(stage(&format!("{log}complete: a\n")), "complete");
        assert_eq!(stage(""), "not joined");
    }
}
