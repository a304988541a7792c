//! Experiments: each run in turn on a lab that has its network, and a line for each in a file.
//!
//! | module | what it holds |
//! |---|---|
//! | [`mobcast`] | a broadcast with mobcast |
//! | [`rival`] | a broadcast with another program |
//! | [`process`] | programs on nodes |
//! | [`census`] | what all programs of a node cost |
//! | [`load`] | how busy the machine was |
//! | [`phases`] | where the time went |
//! | [`lines`] | the file of finished runs |
//! | [`judge`] | what a run gives as a record |

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use mobcast_topology::files::striping::is_striping;
use mobcast_topology::files::{Experiment, Planned, Program, RivalFile};
use mobcast_topology::record::{RunOutcome, RunRecord};
use mobcast_topology::{Cluster, Topology};

use crate::cli::RunArgs;
use crate::error::LabError;
use crate::hub::control::Counts;
use crate::interrupt::Interrupt;
use crate::lab::Lab;
use crate::plan;
use judge::Conditions;
use lines::Lines;
use load::{Busy, Load};
use process::Usage;

pub mod census;
pub mod judge;
pub mod lines;
pub mod load;
pub mod mobcast;
pub mod phases;
pub mod process;
pub mod rival;

/// What a run takes beside the transfer, for the time that is left.
const BESIDE: Duration = Duration::from_secs(4);
/// The name of this program in records.
const LAB: &str = "mobcast-lab";
/// A pause between runs, in which what the one before has left behind settles.
const SETTLING: Duration = Duration::from_millis(500);

/// What became of a run, before it is judged.
#[derive(Debug)]
pub struct Attempt {
    /// By the number of the node.
    pub nodes: Vec<NodeOutcome>,
    /// When the sender was started, on the monotonic clock.
    pub begun_ns: u64,
    /// When its clock began to count, in seconds after that.
    pub started_s: f64,
    /// How long each of several broadcasts in a running group took.
    pub rounds: Vec<f64>,
    /// Why its strategy was taken, if it was chosen automatically.
    pub choice: String,
    /// Why it failed, first reason first.
    pub failure: Option<String>,
}

/// What became of a node.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NodeOutcome {
    /// When its broadcast began, by the wall clock in seconds, if it says so.
    pub started_at: Option<f64>,
    /// When it had everything, in seconds after the start.
    pub complete_s: Option<f64>,
    /// The cluster in which it found itself, if it says so.
    pub cluster: String,
    /// Payload from other clusters.
    pub bytes_in_wan: u64,
    /// What else came from there.
    pub overhead_in_wan: u64,
    /// Payload from its own cluster.
    pub bytes_in_lan: u64,
    /// What it cost.
    pub usage: Usage,
}

impl Attempt {
    fn new(lab: &Lab, begun_ns: u64) -> Attempt {
        let nodes = vec![NodeOutcome::default(); lab.nodes().len()];
        Attempt { nodes, begun_ns, started_s: 0.0, rounds: Vec::new(), choice: String::new(), failure: None }
    }

    fn failed(&mut self, reason: String) {
        self.failure.get_or_insert(reason);
    }
}

/// Runs an experiment, or what is left of it.
pub fn run(args: RunArgs) -> Result<(), LabError> {
    if is_striping(&args.experiment)? {
        let path = args.experiment.display();
        return Err(LabError::Usage(format!("{path} has stripes, which the simulator runs: mobcast-sim run {path}")));
    }
    let mut experiment = Experiment::load(&args.experiment)?;
    if args.quick && experiment.quick.is_none() {
        let path = args.experiment.display();
        return Err(LabError::Usage(format!("{path} has no short form: write [quick] into it, or leave --quick away")));
    }
    if let Some(repetitions) = args.repetitions {
        experiment.repeat(repetitions);
    }
    let interrupt = Interrupt::watch()?;
    if let Some(reason) = crate::lab::obstacle() {
        return Err(LabError::Missing(reason));
    }
    crate::lab::say_crashed();
    plan::say_without_effect(&experiment.topology);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(LabError::Hub)?;
    let mut session = Session::new(args, &experiment, interrupt.clone())?;
    runtime.block_on(async {
        tokio::select! {
            biased;
            () = interrupt.happened() => {
                eprintln!("\nruns that were finished are kept: the same command goes on after them");
                Err(LabError::Interrupted)
            }
            done = session.all(&experiment) => done,
        }
    })
}

struct Session {
    args: RunArgs,
    lines: Lines,
    mobcast: PathBuf,
    machine: String,
    versions: BTreeMap<String, String>,
    /// When mobcast's file was written, and its size, when its version was taken.
    mobcast_stamp: Option<(SystemTime, u64)>,
    interrupt: Interrupt,
    /// The lab that is there, and what it was built for.
    lab: Option<(Lab, Vec<Cluster>)>,
    prepared: BTreeSet<String>,
    failed: u32,
    void: u32,
}

impl Session {
    fn new(args: RunArgs, experiment: &Experiment, interrupt: Interrupt) -> Result<Session, LabError> {
        // Nodes have directories of their own.
        let given = |path: &PathBuf| std::path::absolute(path).map_err(LabError::at(path));
        let mobcast = args.mobcast.as_ref().map_or_else(find_mobcast, given)?;
        let default = format!("{}{}.jsonl", experiment.name, if args.quick { "-quick" } else { "" });
        let output = args.output.clone().unwrap_or_else(|| PathBuf::from(default));
        let beside = output.parent().filter(|directory| !directory.as_os_str().is_empty());
        for directory in args.logs.as_deref().into_iter().chain(beside) {
            std::fs::create_dir_all(directory).map_err(LabError::at(directory))?;
        }
        Ok(Session {
            lines: Lines::open(&output, args.accept_void)?,
            mobcast,
            machine: machine(),
            versions: BTreeMap::new(),
            mobcast_stamp: None,
            interrupt,
            lab: None,
            prepared: BTreeSet::new(),
            failed: 0,
            void: 0,
            args,
        })
    }

    async fn all(&mut self, experiment: &Experiment) -> Result<(), LabError> {
        let planned = self.select(experiment.runs(self.args.quick))?;
        self.check(&planned).await?;
        let open: Vec<&Planned> = planned.iter().filter(|run| !self.lines.has(run)).collect();
        eprintln!("{}: {}", experiment.name, experiment.title);
        if open.len() < planned.len() {
            eprintln!("{} of {} runs stand in the output already", planned.len() - open.len(), planned.len());
        }
        for other in self.lines.other_versions(&planned, &self.versions) {
            let remedy = "they count all the same, unless you give another --output";
            eprintln!("some of these were made with {other}: {remedy}");
        }
        for (number, run) in open.iter().enumerate() {
            let left: f64 = open[number..].iter().map(|run| expected_s(run)).sum();
            eprint!("[{}/{}] {} (about {} left) … ", number + 1, open.len(), describe(run), minutes(left));
            let record = self.one(run).await?;
            eprintln!("{}", summary(&record));
        }
        match (self.failed, self.void) {
            (0, 0) => Ok(()),
            (0, void) if self.args.accept_void => {
                eprintln!("{void} runs are void");
                Ok(())
            }
            (failed, void) => Err(LabError::Failed(format!(
                "{failed} runs failed and {void} are void: the reasons stand in their lines; the same command repeats them"
            ))),
        }
    }

    /// The runs that are asked for, with the lab named in them.
    fn select(&self, planned: Vec<Planned>) -> Result<Vec<Planned>, LabError> {
        let program = |run: &Planned| {
            let case = &run.case;
            if case.strategy.is_empty() { case.program.clone() } else { case.strategy.clone() }
        };
        let scenario = |run: &Planned| run.case.scenario.clone();
        named("--only", &self.args.only, planned.iter().map(program).collect())?;
        named("--scenario", &self.args.scenario, planned.iter().map(scenario).collect())?;
        let wanted = |names: &[String], name: &String| names.is_empty() || names.contains(name);
        let chosen =
            |run: &Planned| wanted(&self.args.only, &program(run)) && wanted(&self.args.scenario, &scenario(run));
        let mut runs: Vec<Planned> = planned.into_iter().filter(chosen).collect();
        if runs.is_empty() {
            return Err(LabError::Usage("the experiment has no run of these: --only and --scenario leave none".into()));
        }
        for run in &mut runs {
            "lab".clone_into(&mut run.case.instrument);
        }
        Ok(runs)
    }

    /// Checks before anything is run that every program is there, and takes their versions.
    async fn check(&mut self, planned: &[Planned]) -> Result<(), LabError> {
        let known = strategies(&self.mobcast)?;
        let needs_gauge = |strategy: &String| known.get(strategy).copied().unwrap_or(false);
        let mut rivals: BTreeMap<&str, &RivalFile> = BTreeMap::new();
        for run in planned {
            let of = |error: LabError| LabError::Usage(format!("topology {}: {error}", run.case.topology));
            plan::plan(&run.scenario.topology, "check").map_err(of)?;
            match &run.program {
                Program::Mobcast { strategy } if !known.contains_key(strategy) => {
                    let known = Vec::from_iter(known.keys().cloned()).join(", ");
                    let program = self.mobcast.display();
                    return Err(LabError::Usage(format!("{program} has no strategy {strategy:?}: it has {known}")));
                }
                Program::Mobcast { strategy } if needs_gauge(strategy) && !run.is_told() => {
                    let remedy = "leave `gauge = false`, `named_clusters = false`, `rounds`, or the strategy out";
                    let message = format!("{strategy} plans for a network that it has to know: {remedy}");
                    return Err(LabError::Usage(message));
                }
                Program::Mobcast { .. } => {}
                Program::Rival(rival) => drop(rivals.insert(&rival.name, rival)),
            }
            if let Program::Rival(rival) = &run.program
                && rival.one_cluster
                && run.scenario.topology.clusters().len() > 1
            {
                return Err(LabError::Usage(format!("{} works inside one cluster only", rival.name)));
            }
            if run.gather && !run.scenario.changes.is_empty() {
                let remedy = "leave gather away, or run it in the simulator";
                return Err(LabError::Usage(format!("links change from the start of the sender on: {remedy}")));
            }
        }
        let own = std::env::current_exe().map_err(LabError::at("mobcast-lab"))?;
        self.versions.insert(LAB.into(), format!("{} (build {})", env!("CARGO_PKG_VERSION"), build(&own)?));
        self.look_at_mobcast()?;
        for (name, rival) in rivals {
            let version = rival::version(rival).await;
            let version = version.map_err(|error| LabError::Missing(rival::obstacle(rival, &error)))?;
            self.versions.insert(name.to_owned(), version);
        }
        Ok(())
    }

    /// Takes the version of mobcast, again if its file has changed: others may build while an experiment goes on for hours.
    fn look_at_mobcast(&mut self) -> Result<(), LabError> {
        let file = std::fs::metadata(&self.mobcast).map_err(LabError::at(&self.mobcast))?;
        let stamp = (file.modified().map_err(LabError::at(&self.mobcast))?, file.len());
        if self.mobcast_stamp == Some(stamp) {
            return Ok(());
        }
        let said = output_of(unset(&self.mobcast).arg("version")).unwrap_or_default();
        let version = said.lines().next().unwrap_or_default();
        let version = version.strip_prefix("mobcast ").unwrap_or(version);
        self.versions.insert("mobcast".into(), format!("{version} (build {})", build(&self.mobcast)?));
        self.mobcast_stamp = Some(stamp);
        Ok(())
    }

    /// One run, again if it is void.
    async fn one(&mut self, run: &Planned) -> Result<RunRecord, LabError> {
        let mut tries = 0;
        loop {
            let record = match self.attempt(run).await {
                Ok(record) => record,
                // What concerns every run.
                Err(error) if error.status() != 1 => return Err(error),
                Err(error) => {
                    self.interrupt.check()?;
                    // What is wrong with the lab is not to be the next run's.
                    self.lab = None;
                    judge::not_run(run, &self.conditions_of(run, date()), error.to_string())
                }
            };
            self.lines.append(&record)?;
            if record.outcome == RunOutcome::Void && tries < self.args.retries && !self.args.accept_void {
                eprint!("void ({}), again … ", record.reason.as_deref().unwrap_or_default());
                tries += 1;
                continue;
            }
            self.failed += u32::from(record.outcome == RunOutcome::Failed);
            self.void += u32::from(record.outcome == RunOutcome::Void);
            return Ok(record);
        }
    }

    async fn attempt(&mut self, run: &Planned) -> Result<RunRecord, LabError> {
        self.look_at_mobcast()?;
        self.provide(&run.scenario.topology)?;
        let (lab, _) = self.lab.as_ref().expect("it was provided");
        lab.clear();
        std::fs::create_dir_all(lab.scratch()).map_err(LabError::at(lab.scratch()))?;
        tokio::time::sleep(SETTLING).await;
        let logs = match &self.args.logs {
            Some(all) => new_directory(all, &describe(run))?,
            None => lab.scratch(),
        };
        let hub_before = lab.hub_pid().map_or(0.0, process::cpu_seconds);
        let before = Load::now();
        let date = date();
        let attempt = match &run.program {
            Program::Mobcast { strategy } => mobcast::run(lab, run, strategy, &self.mobcast, &logs).await?,
            Program::Rival(rival) => {
                let build = lab.scratch().join("build");
                if self.prepared.insert(rival.name.clone()) || !build.exists() {
                    rival::prepare(rival, &build).await?;
                }
                rival::run(lab, run, rival, &build, &logs).await?
            }
        };
        let (after, hub_cpu_seconds) = (Load::now(), lab.hub_pid().map_or(0.0, process::cpu_seconds) - hub_before);
        let mut busy = after.since(&before);
        // Ticks do not see what sleeps and wakes between them, as the hub does.
        let nodes: f64 = attempt.nodes.iter().map(|node| node.usage.cpu_seconds).sum();
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let known = 100.0 * (nodes + hub_cpu_seconds) / (cores * after.seconds_since(&before));
        busy.processors = busy.processors.max(known);
        let counts = lab.counts()?;
        if self.args.logs.is_some() {
            let (path, text) = (logs.join("hub.json"), serde_json::to_string(&counts).expect("plain data"));
            std::fs::write(&path, text).map_err(LabError::at(path))?;
        }
        let conditions = Conditions { load: busy, hub_cpu_seconds, counts, ..self.conditions_of(run, date) };
        Ok(judge::record(lab.nodes(), run, &attempt, &conditions))
    }

    /// What is known of a run's conditions before it.
    fn conditions_of(&self, run: &Planned, date: String) -> Conditions {
        let took_part = |name: &String| *name == run.case.program || name == LAB;
        let versions = self.versions.iter().filter(|(name, _)| took_part(name));
        Conditions {
            date,
            machine: self.machine.clone(),
            versions: versions.map(|(name, version)| (name.clone(), version.clone())).collect(),
            load: Busy::default(),
            hub_cpu_seconds: 0.0,
            counts: Counts::default(),
        }
    }

    /// The lab becomes one that has this topology's nodes and cards; its links are set with each run.
    fn provide(&mut self, topology: &Topology) -> Result<(), LabError> {
        if self.lab.as_ref().is_some_and(|(_, clusters)| clusters == topology.clusters()) {
            return Ok(());
        }
        // Before the other is built: it has the same name.
        self.lab = None;
        let lab = Lab::build(topology, &format!("run-{}", std::process::id()), true, &self.interrupt)?;
        self.lab = Some((lab, topology.clusters().to_vec()));
        self.prepared.clear();
        Ok(())
    }
}

/// The command beside this program, or in PATH.
fn find_mobcast() -> Result<PathBuf, LabError> {
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("mobcast")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates = beside.into_iter().chain(std::env::split_paths(&path).map(|directory| directory.join("mobcast")));
    let found = candidates.into_iter().find(|path| path.is_file());
    let missing = "the command mobcast is neither beside mobcast-lab nor in PATH: build it, or say --mobcast FILE";
    found.ok_or_else(|| LabError::Missing(missing.to_owned()))
}

/// Every name that was given is one of those that there are.
fn named(option: &str, given: &[String], known: BTreeSet<String>) -> Result<(), LabError> {
    match given.iter().find(|name| !known.contains(*name)) {
        None => Ok(()),
        Some(name) => {
            let known = Vec::from_iter(known).join(", ");
            Err(LabError::Usage(format!("{option} {name}: the experiment has {known}")))
        }
    }
}

/// Which build a program is: the beginning of its file's hash (BLAKE3), since code changes while versions stay.
fn build(program: &Path) -> Result<String, LabError> {
    const DIGITS: usize = 12;
    let bytes = std::fs::read(program).map_err(LabError::at(program))?;
    Ok(blake3::hash(&bytes).to_hex()[..DIGITS].to_owned())
}

/// The strategies by name, and whether each has to know the network.
fn strategies(mobcast: &Path) -> Result<BTreeMap<String, bool>, LabError> {
    let text = output_of(unset(mobcast).args(["strategies", "--json"]))
        .map_err(|error| LabError::Tool { tool: format!("{} strategies --json", mobcast.display()), error })?;
    let list: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
    let entry = |entry: &serde_json::Value| Some((entry["name"].as_str()?.to_owned(), entry["needs_gauge"] == true));
    Ok(list.iter().filter_map(entry).collect())
}

/// The command mobcast without what the environment would set.
fn unset(mobcast: &Path) -> Command {
    let mut command = Command::new(mobcast);
    process::settings().for_each(|name| _ = command.env_remove(name));
    command
}

fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(String::from_utf8_lossy(&output.stdout).into_owned()) } else { Err(said) }
}

/// Processor, cores, kernel.
pub fn machine() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map_or("", |m| m.1);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{model}, {cores} cores, Linux {}", kernel.trim())
}

fn date() -> String {
    output_of(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"])).unwrap_or_default().trim().to_owned()
}

fn expected_s(run: &Planned) -> f64 {
    let ideal = if run.ideal_seconds.is_finite() { run.ideal_seconds } else { run.timeout_s };
    let factor = if matches!(run.program, Program::Rival(_)) { 3.0 } else { 1.1 };
    (factor * ideal).min(run.timeout_s) + BESIDE.as_secs_f64()
}

fn minutes(seconds: f64) -> String {
    if seconds < 120.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) }
}

fn describe(run: &Planned) -> String {
    let case = &run.case;
    let layout: Vec<String> = case.nodes_per_cluster.iter().map(u32::to_string).collect();
    let program = if case.strategy.is_empty() { &case.program } else { &case.strategy };
    let megabytes = case.object_bytes as f64 / 1e6;
    format!("{}, {} nodes, {megabytes} MB, {program}, no. {}", case.scenario, layout.join("+"), run.repetition + 1)
}

/// A directory of its own in `parent` for what a run writes, by the run's name. A run that is made again has another one.
fn new_directory(parent: &Path, run: &str) -> Result<PathBuf, LabError> {
    let name = run.replace(", ", "-").replace([' ', '/'], "_");
    for attempt in 1.. {
        let directory = parent.join(if attempt == 1 { name.clone() } else { format!("{name}-attempt_{attempt}") });
        match std::fs::create_dir(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(LabError::at(&directory)(error)),
        }
    }
    unreachable!("some name is free")
}

fn summary(record: &RunRecord) -> String {
    let reason = record.reason.as_deref().unwrap_or_default();
    let RunRecord { seconds, throughput_mb_per_s, .. } = record;
    let figures = format!("{seconds:.2} s, {throughput_mb_per_s:.3} MB/s{}", record.fraction_in_words());
    match record.outcome {
        RunOutcome::Complete => figures,
        RunOutcome::Void => format!("{figures}, void: {reason}"),
        RunOutcome::Failed => format!("failed: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_run_again_leaves_the_first_attempt_s_logs_alone() {
        let parent = tempfile::tempdir().expect("a directory");
        let name = |_| new_directory(parent.path(), "slow, 4+4 nodes, 600 MB, mob, no. 1").expect("it is new");
        let names: Vec<PathBuf> = (0..3).map(name).collect();
        let ends = ["", "-attempt_2", "-attempt_3"].map(|end| format!("slow-4+4_nodes-600_MB-mob-no._1{end}"));
        assert_eq!(names, ends.map(|end| parent.path().join(end)));
        let missing = new_directory(&parent.path().join("none"), "fast").expect_err("there is no such parent");
        assert!(missing.to_string().contains("none"), "{missing}");
    }
}
