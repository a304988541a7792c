//! `mobcast-sim faults`: many seeds on all processors, or one of them with its story. Which thread runs a seed makes no
//! difference to it. Words go to standard error, one object to standard output with `--json`.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use mobcast_proto::strategy::Registry;
use mobcast_proto::strategy::overlay::OverlayError;
use mobcast_sim::faults::plan::{Plan, Reduction};
use mobcast_sim::faults::shrink::{Shrunk, shrink};
use mobcast_sim::faults::{self, Replay, Summary, Violation};

use super::{Problem, say};

/// Violations that are made smaller in one call.
const SHRUNK_MAX: usize = 3;

#[derive(Debug, Args)]
pub struct FaultsArgs {
    /// How many seeds to run
    #[arg(long, value_name = "N", default_value_t = 1_000, conflicts_with = "seed", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first of them
    #[arg(long, value_name = "S", default_value_t = 0, conflicts_with = "seed")]
    from: u64,
    /// Run this seed alone
    #[arg(long, value_name = "X")]
    seed: Option<u64>,
    /// Print the plan, and the last happenings of a run in words
    #[arg(long, value_name = "HAPPENINGS", num_args = 0..=1, default_missing_value = "60", requires = "seed")]
    trace: Option<usize>,
    /// Look for the faults that matter, and for a smaller object and group
    #[arg(long)]
    shrink: bool,
    /// Of the plan's faults, only those with these numbers, or `none`
    #[arg(long, value_name = "NUMBERS", requires = "seed")]
    only: Option<String>,
    /// The first nodes of the plan alone
    #[arg(long, value_name = "NODES", requires = "seed")]
    nodes: Option<u32>,
    /// Objects of at most so many bytes
    #[arg(long, value_name = "BYTES", requires = "seed")]
    bytes: Option<u64>,
    /// Nobody lies
    #[arg(long, requires = "seed")]
    honest: bool,
    /// Clocks are true and disks fast
    #[arg(long, requires = "seed")]
    plain: bool,
    /// Another strategy than the default for all broadcasts; `all` takes them in turn
    #[arg(long, value_name = "NAME", value_parser = strategy)]
    strategy: Option<String>,
    /// How many seeds run at a time [default: one for each processor]
    #[arg(long, value_name = "JOBS")]
    jobs: Option<NonZero<usize>>,
    /// Print one object at the end
    #[arg(long)]
    json: bool,
}

fn strategy(name: &str) -> Result<String, OverlayError> {
    if name != "all" {
        Registry::default().named(name)?;
    }
    Ok(name.to_owned())
}

/// Runs what was asked for; whether all that must hold has held.
pub(super) fn run(args: &FaultsArgs) -> Result<bool, Problem> {
    match args.seed {
        Some(seed) => one(args, seed),
        None => many(args),
    }
}

// ---- One seed ----

fn one(args: &FaultsArgs, seed: u64) -> Result<bool, Problem> {
    let reduction = reduction(args)?;
    let whole = Plan::of(seed);
    check(&whole, &reduction)?;
    let plan = whole.reduced(&reduction);
    if plan.broadcasts.is_empty() {
        return Err("nothing is broadcast among these nodes: give more --nodes".to_owned().into());
    }
    if args.trace.is_some() {
        eprint!("{plan}");
    }
    let Replay { result, told } = faults::replay(plan.clone(), args.trace.unwrap_or(0));
    told.iter().for_each(|line| eprintln!("{line}"));
    match &result {
        Ok(summary) => eprintln!("seed {seed}: {}", words(summary)),
        Err(violation) => {
            eprintln!("{}", line(seed, &reduction, violation));
            if args.trace.is_some() {
                eprintln!("everybody then:{}", violation.state);
            }
            if args.shrink {
                say_shrunk(seed, &shrink(&Plan::of(seed), &reduction, violation));
            }
        }
    }
    if args.json {
        let violation = result.as_ref().err().map(|violation| object(seed, &reduction, violation));
        say(serde_json::json!({ "seed": seed, "violation": violation }))?;
    }
    Ok(result.is_ok())
}

/// A mistyped replay must not look as if it held.
fn check(plan: &Plan, reduction: &Reduction) -> Result<(), String> {
    let numbers: Vec<usize> = plan.faults.iter().map(|timed| timed.number).collect();
    if let Some(missing) = reduction.only.iter().flatten().find(|number| !numbers.contains(number)) {
        let last = numbers.iter().max().map_or_else(|| "none".to_owned(), |last| format!("numbers up to {last}"));
        return Err(format!("--only: the plan of seed {} has no fault {missing}: it has {last}", plan.seed));
    }
    match reduction.nodes.filter(|&nodes| nodes > plan.nodes()) {
        Some(nodes) => Err(format!("--nodes: the plan of seed {} has {} nodes, not {nodes}", plan.seed, plan.nodes())),
        None => Ok(()),
    }
}

fn reduction(args: &FaultsArgs) -> Result<Reduction, String> {
    let number = |text: &str| text.trim().parse().map_err(|_| format!("--only: {text:?} is not a number"));
    let only = match args.only.as_deref() {
        None => None,
        Some("none") => Some(Vec::new()),
        Some(text) => Some(text.split(',').map(number).collect::<Result<_, _>>()?),
    };
    let Reduction { strategy, .. } = strategies(args);
    Ok(Reduction { only, nodes: args.nodes, bytes: args.bytes, honest: args.honest, plain: args.plain, strategy })
}

/// What many seeds have in common.
fn strategies(args: &FaultsArgs) -> Reduction {
    Reduction { strategy: args.strategy.clone(), ..Reduction::default() }
}

fn words(summary: &Summary) -> String {
    let Summary { machines, pieces, faults, hit, complete, gave_up, end, trace_hash, .. } = summary;
    format!(
        "holds: {machines} nodes, {pieces} pieces, {hit} of {faults} faults hit, {complete} copies, {gave_up} given up, \
         over at {end:?}, trace hash {trace_hash:016x}"
    )
}

/// What a failure comes down to, with the command that shows it again.
fn line(seed: u64, reduction: &Reduction, violation: &Violation) -> String {
    let Violation { kind, what, at, .. } = violation;
    format!("seed {seed}: at {at:?} {kind}: {what}; replay: {}", command(seed, reduction))
}

/// The command that shows a run again.
fn command(seed: u64, reduction: &Reduction) -> String {
    format!("mobcast-sim faults --seed {seed}{reduction} --trace")
}

fn say_shrunk(seed: u64, shrunk: &Shrunk) {
    let Shrunk { reduction, violation, runs } = shrunk;
    eprint!("after {runs} runs this is left: {}", Plan::of(seed).reduced(reduction));
    eprintln!("  at {:?} {}: {}", violation.at, violation.kind, violation.what);
    eprintln!("  replay: {}", command(seed, reduction));
}

fn object(seed: u64, reduction: &Reduction, violation: &Violation) -> serde_json::Value {
    let Violation { kind, what, at, .. } = violation;
    let replay = command(seed, reduction);
    serde_json::json!({ "kind": kind, "what": what, "at_seconds": at.as_secs_f64(), "replay": replay })
}

// ---- Many seeds ----

#[derive(Default)]
struct Results {
    held: Vec<(u64, Summary)>,
    violated: Vec<(u64, Violation)>,
}

fn many(args: &FaultsArgs) -> Result<bool, Problem> {
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZero::get);
    let (next, results) = (AtomicU64::new(0), Mutex::new(Results::default()));
    eprintln!("seeds {} to {}", args.from, args.from.saturating_add(args.seeds.saturating_sub(1)));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| work(args, &next, &results));
        }
    });
    let Results { mut held, mut violated } = results.into_inner().expect("no thread has panicked");
    held.sort_by_key(|(seed, _)| *seed);
    violated.sort_by_key(|(seed, _)| *seed);
    if args.shrink {
        for (seed, violation) in violated.iter().take(SHRUNK_MAX) {
            say_shrunk(*seed, &shrink(&Plan::of(*seed), &strategies(args), violation));
        }
    }
    eprintln!("{}", total(&held, violated.len()));
    violated.iter().for_each(|(seed, violation)| eprintln!("{}", line(*seed, &strategies(args), violation)));
    if args.json {
        let violations: Vec<_> =
            violated.iter().map(|(seed, v)| (seed.to_string(), object(*seed, &strategies(args), v))).collect();
        let violations: serde_json::Map<_, _> = violations.into_iter().collect();
        say(serde_json::json!({ "seeds": args.seeds, "from": args.from, "violations": violations }))?;
    }
    Ok(violated.is_empty())
}

fn work(args: &FaultsArgs, next: &AtomicU64, results: &Mutex<Results>) {
    let progress_every = (args.seeds / 10).max(1);
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= args.seeds {
            return;
        }
        let seed = args.from.wrapping_add(number);
        let result = faults::replay(Plan::of(seed).reduced(&strategies(args)), 0).result;
        let mut results = results.lock().expect("no thread has panicked");
        match result {
            Ok(summary) => results.held.push((seed, summary)),
            Err(violation) => {
                eprintln!("{}", line(seed, &strategies(args), &violation));
                results.violated.push((seed, violation));
            }
        }
        let done = (results.held.len() + results.violated.len()) as u64;
        if done.is_multiple_of(progress_every) {
            eprintln!("{done} of {} seeds, {} violations", args.seeds, results.violated.len());
        }
    }
}

fn total(held: &[(u64, Summary)], violations: usize) -> String {
    let median = |of: fn(&Summary) -> u32| {
        let mut values: Vec<u32> = held.iter().map(|(_, summary)| of(summary)).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    };
    let count = |of: fn(&Summary) -> bool| held.iter().filter(|(_, summary)| of(summary)).count();
    format!(
        "{} seeds: {violations} violations; median of {} nodes, {} pieces, {} of {} faults hit; the coordinator died in {}, \
         a root in {}, something was given up in {}",
        held.len() + violations,
        median(|s| s.machines),
        median(|s| s.pieces),
        median(|s| s.hit),
        median(|s| s.faults),
        count(|s| s.coordinator_died),
        count(|s| s.root_died),
        count(|s| s.gave_up > 0),
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        faults: FaultsArgs,
    }

    /// The flags of a command, without its two first words.
    fn parsed(command: &str) -> FaultsArgs {
        Line::try_parse_from(command.split(' ').skip(1)).unwrap_or_else(|error| panic!("{command}: {error}")).faults
    }

    #[test]
    fn the_command_that_is_printed_means_what_was_run() {
        let all = Reduction {
            only: Some(vec![1, 12]),
            nodes: Some(5),
            bytes: Some(70_000),
            honest: true,
            plain: true,
            strategy: Some("chain".into()),
        };
        let none_left = Reduction { only: Some(Vec::new()), ..Reduction::default() };
        for wanted in [all, none_left, Reduction::default()] {
            let args = parsed(&command(77, &wanted));
            assert_eq!((args.seed, args.trace.is_some(), reduction(&args)), (Some(77), true, Ok(wanted)));
        }
    }

    #[test]
    fn what_the_plan_does_not_have_is_refused() {
        let plan = Plan::of(1);
        let last = plan.faults.iter().map(|timed| timed.number).max().expect("something goes wrong");
        let only = |number: usize| Reduction { only: Some(vec![number]), ..Reduction::default() };
        assert_eq!(check(&plan, &only(last)), Ok(()));
        let error = check(&plan, &only(last + 1)).unwrap_err();
        assert!(error.contains(&format!("numbers up to {last}")), "{error}");
        let nodes = |nodes: u32| Reduction { nodes: Some(nodes), ..Reduction::default() };
        assert_eq!(check(&plan, &nodes(plan.nodes())), Ok(()));
        assert!(check(&plan, &nodes(plan.nodes() + 1)).is_err());
    }

    #[test]
    fn no_seed_is_no_check() {
        assert!(Line::try_parse_from(["faults", "--seeds", "0"]).is_err());
    }
}
