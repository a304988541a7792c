//! Real processes on machines of their own, killed at random moments: `cargo xtask torture`.
//!
//! Two thirds of the runs kill a random receiver with -9 at a random moment; the others kill the root, the coordinator
//! with it, at a random moment after it has said that it may leave. Whoever survives must end by itself with all bytes, and
//! the sender with the exit status that fits. The choices of a run follow from the seed and the run's number; the moment
//! is one of the real clock, so what it hits differs from time to time: the summary counts what was hit.
//!
//! | module | what |
//! |---|---|
//! | `machines` | the network namespaces, and who removes them however this ends |
//! | `process` | a command with its log, waited for with patience |
//! | `run` | one run: what is sent, who is killed when, what must hold |
//! | `summary` | what became of all runs |

use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use crate::steps::cargo;
use machines::Machines;
use run::{Plan, Setting};
use summary::Summary;

mod machines;
mod process;
mod run;
mod summary;

/// Runs of the full form: 100 that kill a receiver, 50 that kill the root.
const RUNS: u64 = 150;
/// Runs of the short form, in CI: three and two.
const RUNS_IN_CI: u64 = 5;
/// The seed of the short form.
const SEED_IN_CI: u64 = 1;
/// With this variable, a machine on which it cannot run is a failure.
const REQUIRED: &str = "MOBCAST_REQUIRE_NETNS";

/// What can be asked for.
pub const HELP: &str = "cargo xtask torture [--runs N] [--seed S] [--from FIRST]\n";

/// What is to be run.
struct Options {
    runs: u64,
    seed: u64,
    /// The number of the first run, to see one of an earlier time again.
    from: u64,
}

/// The full form, as the words say; true if all runs passed, nothing if the words are wrong.
pub fn run(words: &[&str]) -> Option<bool> {
    parse(words).map(|options| torture(&options))
}

/// The short form.
pub fn run_in_ci() -> bool {
    torture(&Options { runs: RUNS_IN_CI, seed: SEED_IN_CI, from: 0 })
}

fn parse(words: &[&str]) -> Option<Options> {
    let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut options = Options { runs: RUNS, seed: seconds, from: 0 };
    let mut words = words.iter();
    while let Some(flag) = words.next() {
        let value = words.next()?.parse().ok()?;
        match *flag {
            "--runs" => options.runs = value,
            "--seed" => options.seed = value,
            "--from" => options.from = value,
            _ => return None,
        }
    }
    // No run is no check.
    (options.runs > 0 && options.from.checked_add(options.runs).is_some()).then_some(options)
}

fn torture(options: &Options) -> bool {
    if let Err(reason) = machines::possible() {
        println!("SKIPPED torture: {reason}");
        return std::env::var_os(REQUIRED).is_none();
    }
    if !cargo(&["build", "--quiet", "-p", "mobcast-cli"]) {
        return false;
    }
    println!("seed {}, runs {} to {}", options.seed, options.from, options.from + options.runs - 1);
    match repeat(options) {
        Ok(summary) => {
            println!("{summary}");
            summary.passed()
        }
        Err(error) => {
            println!("torture cannot go on: {error}");
            false
        }
    }
}

fn repeat(options: &Options) -> std::io::Result<Summary> {
    let machines = Machines::start(run::MACHINES)?;
    let directory = tempfile::Builder::new().prefix("mobcast-torture-").tempdir()?.keep();
    let mut summary = Summary::default();
    for number in options.from..options.from + options.runs {
        let plan = Plan::new(options.seed, number);
        let place = directory.join(format!("run-{number}"));
        std::fs::create_dir(&place)?;
        let setting = Setting { machines: &machines, program: &program(), directory: &place };
        let started = Instant::now();
        let result = run::run(&plan, &setting);
        let elapsed = started.elapsed();
        match &result {
            Ok(hit) => println!("run {number}: {plan}: hit {hit}, {:.1} s", elapsed.as_secs_f64()),
            Err(why) => {
                println!("run {number}: {plan}: FAILED: {why}");
                println!("  logs: {}; again: --seed {} --from {number} --runs 1", place.display(), options.seed);
            }
        }
        if result.is_ok() {
            std::fs::remove_dir_all(&place)?;
        }
        summary.add(plan.victim, result, elapsed);
    }
    // Logs of failed runs stay.
    let _ = std::fs::remove_dir(&directory);
    Ok(summary)
}

/// The command, as cargo has built it.
fn program() -> PathBuf {
    crate::repository::built("debug/mobcast")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_understood() {
        let options = parse(&["--seed", "7", "--runs", "3", "--from", "5"]).expect("right");
        assert_eq!((options.runs, options.seed, options.from), (3, 7, 5));
        assert_eq!(parse(&[]).map(|options| options.runs), Some(RUNS));
        for wrong in [
            &["--runs"][..],
            &["--runs", "x"],
            &["--often", "3"],
            &["--runs", "0"],
            &["--from", "18446744073709551615"],
        ] {
            assert!(parse(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn both_forms_kill_receivers_and_roots_two_to_one() {
        let roots = |runs: u64| (0..runs).filter(|&number| Plan::new(1, number).victim == run::Victim::Root).count();
        assert_eq!((roots(RUNS), roots(RUNS_IN_CI)), (50, 2));
    }
}
