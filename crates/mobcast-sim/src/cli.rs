//! Flags, words and exit statuses of the command. Lines of results go to standard output or to the file of `--output`;
//! everything else goes to standard error.

mod faults;
mod ledger;
mod memory;
mod progress;
mod striping;
mod table;

use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use mobcast_proto::Duration;
use mobcast_sim::network::Model;
use mobcast_sim::run::ns_trace::NsTrace;
use mobcast_sim::run::{self, Simulated};
use mobcast_sim::world::World;
use mobcast_topology::files::{Experiment, Planned, Program};
use mobcast_topology::record::{RunOutcome, RunRecord};

use ledger::{Ledger, LedgerError};
use progress::Progress;

/// A run failed.
const FAILED: u8 = 1;
/// Wrong usage, or a file that cannot be used.
const UNUSABLE: u8 = 2;
/// Results cannot be written.
const UNWRITTEN: u8 = 5;

/// Why the command could not do its work, in words that say what to do.
#[derive(Debug)]
enum Problem {
    Unusable(String),
    Unwritten(String),
}

impl From<LedgerError> for Problem {
    fn from(error: LedgerError) -> Problem {
        match error {
            LedgerError::File { .. } | LedgerError::StandardOutput(_) => Problem::Unwritten(error.to_string()),
            LedgerError::BrokenLine { .. } | LedgerError::OtherSeed { .. } => Problem::Unusable(error.to_string()),
        }
    }
}

impl From<String> for Problem {
    fn from(message: String) -> Problem {
        Problem::Unusable(message)
    }
}

/// Runs experiments in simulated networks, with the shipped protocol in virtual time
#[derive(Debug, Parser)]
#[command(name = "mobcast-sim", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an experiment's file; rivals are left to the lab
    Run(RunArgs),
    /// Run groups in which everything goes wrong that may, each from a seed, and see what holds
    Faults(faults::FaultsArgs),
}

#[derive(Debug, Args)]
struct RunArgs {
    /// The experiment, like scenarios/experiments/NAME.toml
    #[arg(value_name = "EXPERIMENT.toml")]
    experiment: PathBuf,
    /// The short form, as the file's table `quick` gives it
    #[arg(long)]
    quick: bool,
    /// How connections share the network: as liquids, or as TCP does, packet by packet (which takes longer)
    /// [default: fluid]
    #[arg(long, value_enum)]
    model: Option<ModelName>,
    /// How TCP behaves in the packet model: CUBIC as in Linux, an approximation of BBR, or Reno as in ns-2
    #[arg(long, value_enum, value_name = "TCP")]
    tcp: Option<TcpName>,
    /// Directory for a trace of each run (packet model): windows and queues over time, as ns-2 writes them
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Milliseconds of virtual time between two looks of the trace
    #[arg(long, value_name = "MS", default_value_t = 100, requires = "trace", value_parser = clap::value_parser!(u64).range(1..))]
    trace_every: u64,
    /// Seed of the experiment, in place of the file's
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Run also what would not fit into the memory that is free
    #[arg(long)]
    force: bool,
    /// File that lines of results are added to; runs that it holds are not run again (those of an experiment with
    /// stripes are, and take the place of its earlier ones) [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The models by their names.
#[derive(Clone, Copy, PartialEq, Debug, Default, ValueEnum)]
enum ModelName {
    #[default]
    Fluid,
    Packet,
}

/// The kinds of TCP by their names.
#[derive(Clone, Copy, PartialEq, Debug, ValueEnum)]
enum TcpName {
    Cubic,
    Bbr,
    Reno,
}

impl RunArgs {
    fn model(&self) -> Result<Model, String> {
        match (self.model.unwrap_or_default(), self.tcp) {
            (ModelName::Fluid, None) => Ok(Model::Fluid),
            (ModelName::Fluid, Some(_)) => {
                Err("--tcp: there are connections of TCP in the packet model alone: add --model packet".to_owned())
            }
            (ModelName::Packet, None | Some(TcpName::Cubic)) => Ok(run::PACKET),
            (ModelName::Packet, Some(TcpName::Bbr)) => Ok(run::PACKET_BBR),
            (ModelName::Packet, Some(TcpName::Reno)) => Ok(run::PACKET_RENO),
        }
    }

    /// What has no effect is refused: who asks for another kind of TCP must not be given the file's without a word.
    fn check_for_stripes(&self) -> Result<(), String> {
        let flags = [
            ("--quick", self.quick, "it has no short form: leave the flag out, or make a file with fewer cases"),
            ("--model", self.model.is_some(), "it runs packet by packet in any case: leave the flag out"),
            ("--tcp", self.tcp.is_some(), "the file says how TCP behaves: leave the flag out, and set the key tcp"),
            (
                "--trace",
                self.trace.is_some(),
                "leave the flag out, and set the key sample_ms: lines of results have samples then",
            ),
            ("--seed", self.seed.is_some(), "nothing in it is random: leave the flag out"),
            ("--force", self.force, "nobody looks at the memory that it takes: leave the flag out"),
        ];
        match flags.into_iter().find(|(_, given, _)| *given) {
            Some((flag, _, mend)) => Err(format!("{flag}: {} has stripes: {mend}", self.experiment.display())),
            None => Ok(()),
        }
    }
}

/// Runs the command.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run(&args),
        Command::Faults(args) => faults::run(&args),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILED),
        Err(problem) => {
            let (status, message) = match problem {
                Problem::Unusable(message) => (UNUSABLE, message),
                Problem::Unwritten(message) => (UNWRITTEN, message),
            };
            eprintln!("mobcast-sim: {message}");
            ExitCode::from(status)
        }
    }
}

/// A line on standard output. Whoever reads no further is told no more.
fn say(line: impl Display) -> Result<(), Problem> {
    match writeln!(std::io::stdout(), "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Problem::Unwritten(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}

/// Runs all runs that are not there yet; whether all, earlier ones too, are complete.
fn run(args: &RunArgs) -> Result<bool, Problem> {
    if mobcast_topology::files::striping::is_striping(&args.experiment).map_err(text)? {
        args.check_for_stripes()?;
        return striping::run(&args.experiment, args.output.as_deref());
    }
    let mut experiment = Experiment::load(&args.experiment).map_err(text)?;
    experiment.seed = args.seed.unwrap_or(experiment.seed);
    if args.quick && experiment.quick.is_none() {
        let path = args.experiment.display();
        return Err(format!("{path} has no short form: write [quick] into it, or leave --quick away").into());
    }
    let model = args.model()?;
    if args.trace.is_some() && args.model != Some(ModelName::Packet) {
        return Err("--trace: there are windows and queues in the packet model alone: add --model packet"
            .to_owned()
            .into());
    }
    let (ours, rivals): (Vec<Planned>, Vec<Planned>) =
        experiment.runs(args.quick).into_iter().partition(|planned| matches!(planned.program, Program::Mobcast { .. }));
    for planned in &ours {
        run::check(planned)
            .map_err(|error| experiment.misnamed(&planned.case.strategy, error.to_string()).to_string())?;
    }
    say_without_effect(&experiment, model);
    let mut ledger = Ledger::open(args.output.as_deref())?;
    if !args.force {
        let mut ahead = Vec::new();
        for planned in &ours {
            if ledger.find(planned, model).map_err(text)?.is_none() {
                ahead.push(planned);
            }
        }
        memory::check(ahead.into_iter(), model)?;
    }
    eprintln!("{}: {} runs, seed {}", experiment.title, ours.len(), experiment.seed);
    say_skipped(&rivals);
    let mut records = Vec::new();
    for (i, planned) in ours.iter().enumerate() {
        let number = format!("{}/{}", i + 1, ours.len());
        if let Some(earlier) = ledger.find(planned, model).map_err(text)? {
            eprintln!("{number} {}: is there already", name(planned));
            records.push(earlier);
            continue;
        }
        eprintln!("{number} {}{}", name(planned), at_best(planned));
        let simulated = match &args.trace {
            None => {
                let mut progress = Progress::begin();
                run::simulate_watched(planned, model, |world| progress.look(world)).map_err(text)?
            }
            Some(dir) => traced(planned, args, model, &dir.join(format!("{}", i + 1)))?,
        };
        say_result(&simulated);
        ledger.add(&simulated.record)?;
        records.push(simulated.record);
    }
    eprint!("{}", table::table(&records));
    Ok(records.iter().all(|record| record.outcome == RunOutcome::Complete))
}

/// Runs it, and writes `PLACE-connections.tr` and `PLACE-queues.tr`.
fn traced(planned: &Planned, args: &RunArgs, model: Model, place: &Path) -> Result<Simulated, Problem> {
    let file = |what: &str| {
        let path = PathBuf::from(format!("{}-{what}.tr", place.display()));
        let parent = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let file = parent.and_then(|()| File::create(&path)).map(BufWriter::new);
        let say = |error| format!("{}: {error}: name a directory that can be written", path.display());
        file.map_err(|error| Problem::Unwritten(say(error)))
    };
    let every = Duration::from_millis(args.trace_every);
    let mut trace = NsTrace::new(&planned.scenario.topology, every, file("connections")?, file("queues")?);
    let mut progress = Progress::begin();
    let watch = |world: &World| {
        trace.look(&world.network);
        progress.look(world);
    };
    let simulated = run::simulate_watched(planned, model, watch).map_err(text)?;
    let say = |error| format!("{}: {error}: the trace is not whole", place.display());
    trace.finish().map_err(|error| Problem::Unwritten(say(error)))?;
    Ok(simulated)
}

/// Whoever asks for loss expects to see what it does.
fn say_without_effect(experiment: &Experiment, model: Model) {
    let lossy = experiment.topology.wan_links().any(|(_, _, link)| link.loss_per_million > 0);
    if lossy && model == Model::Fluid {
        eprintln!("loss_percent: nothing is lost in the fluid model: --model packet takes account of it");
    }
}

fn say_skipped(rivals: &[Planned]) {
    if rivals.is_empty() {
        return;
    }
    let mut names: Vec<&str> = rivals.iter().map(|planned| planned.case.program.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    eprintln!("skipped: {} runs of other programs, which run in the lab alone: {}", rivals.len(), names.join(", "));
}

fn name(planned: &Planned) -> String {
    let case = &planned.case;
    let (nodes, size) = (table::layout(&case.nodes_per_cluster), case.object_bytes as f64 / 1e6);
    format!(
        "{}, {nodes} nodes, {size} MB, {}, repetition {}, seed {}",
        case.scenario, case.strategy, planned.repetition, planned.seed
    )
}

/// What the network could do, where it has limits.
fn at_best(planned: &Planned) -> String {
    let limited = planned.optimum.payload_bytes_per_s_lower.is_some();
    if limited { format!(": at best {:.1} s", planned.ideal_seconds) } else { String::new() }
}

fn say_result(simulated: &Simulated) {
    let Simulated { record, trace_hash } = simulated;
    let trace = format!("trace hash {trace_hash:016x}");
    let RunRecord { seconds, throughput_mb_per_s, phases, .. } = record;
    if let Some(reason) = &record.reason {
        return eprintln!("    failed: {reason}; {trace}");
    }
    eprintln!(
        "    {seconds:.2} s, {throughput_mb_per_s:.2} MB/s{}; start {:.2} s, steady {:.2} MB/s, tail {:.2} s; {trace}",
        record.fraction_in_words(),
        phases.start_seconds,
        phases.steady_mb_per_s,
        phases.tail_seconds
    );
    eprintln!("    {}", table::nodes(record));
}
