//! Measures the released command beside its references: `cargo xtask bench --help`. A round runs the references and the
//! command one after the other, so that each ratio is of two runs of the same minute; what is printed are medians of all
//! rounds. Results and what they mean: `docs/performance.md`.
//!
//! | module | what |
//! |---|---|
//! | `lab` | experiments on emulated networks |
//! | `sim` | the simulator itself |
//! | `options` | the flags |
//! | `scenarios` | what is measured: one module and one entry of [`SCENARIOS`] for each |
//! | `programs` | how the command and its references are run, each once |
//! | `network` | namespaces: two machines on a wire, or many on a switch |
//! | `process` | processes with the processor time and memory that they took |
//! | `samples` | samples, goals, medians |
//! | `report` | the table and the JSON |

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::repository;

pub mod lab;
mod network;
mod options;
mod process;
mod programs;
mod report;
mod samples;
mod scenarios;
pub mod sim;

use options::Options;
pub use options::help;
use programs::Program;
use samples::{Goal, Results, Sample};
use scenarios::SCENARIOS;

/// Something that is measured. Its order in [`SCENARIOS`] is the order of the table.
pub struct Scenario {
    /// What `cargo xtask bench NAME` takes.
    name: &'static str,
    /// One line for `--help`.
    about: &'static str,
    /// References that it runs; each must be installed or left out by name.
    references: &'static [Program],
    /// What should come out.
    goals: &'static [Goal],
    /// Runs everything once, references and command in turn.
    round: fn(&Setting) -> Result<Vec<Sample>, String>,
}

/// What a round is given.
pub struct Setting {
    /// The released command.
    mobcast: PathBuf,
    /// On a tmpfs, and removed at the end.
    dir: TempDir,
    options: Options,
    /// From 1.
    round: u32,
}

impl Setting {
    /// Bytes of the object: the scenario's own size, or what `--size` says.
    fn bytes_or(&self, bytes: u64) -> u64 {
        self.options.bytes.unwrap_or(bytes)
    }

    /// Whether a reference takes part.
    fn has(&self, program: Program) -> bool {
        !self.options.without.contains(&program)
    }
}

/// Runs what the words say; true if everything could be run, none if the words make no sense. A goal that is missed is shown and
/// fails nothing: a measurement is no test.
pub fn run(words: &[&str]) -> Option<bool> {
    match Options::parse(words) {
        Ok(options) => Some(bench(options).inspect_err(|problem| eprintln!("bench: {problem}")).is_ok()),
        Err(text) => {
            eprintln!("{text}");
            None
        }
    }
}

fn bench(options: Options) -> Result<(), String> {
    let chosen: Vec<&Scenario> = SCENARIOS.iter().filter(|scenario| options.chooses(scenario.name)).collect();
    find_references(&chosen, &options)?;
    if let Some(path) = &options.json {
        // What cannot be written is found before an hour is spent.
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
        opened.map_err(|error| format!("{}: {error}: name a file that can be written", path.display()))?;
    }
    network::remove_leftovers();
    remove_leftovers(&options.dir);
    let prefix = format!("{}{}-", network::PREFIX, std::process::id());
    let dir = tempfile::Builder::new().prefix(&prefix).tempdir_in(&options.dir);
    let dir = dir.map_err(|error| format!("{}: {error}; name a tmpfs with --dir", options.dir.display()))?;
    let mobcast = options.command.clone().map_or_else(build, Ok)?;
    let mut setting = Setting { mobcast, dir, options, round: 0 };
    let (results, ended) = rounds(&mut setting, &chosen);
    print!("{}", report::table(&chosen, &results));
    let left_out = &setting.options.without;
    left_out.iter().for_each(|program| println!("NOT MEASURED BESIDE {}: --without", program.name()));
    // What an earlier run has measured is worth more than nothing.
    if let Some(path) = setting.options.json.as_ref().filter(|_| !results.is_empty()) {
        let json = report::json(&chosen, &results).to_string() + "\n";
        std::fs::write(path, json).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    ended
}

/// Removes the files of runs that were killed: gigabytes of memory, on a tmpfs.
fn remove_leftovers(dir: &Path) {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| network::is_leftover(&entry.file_name().to_string_lossy())) {
        // It may be gone meanwhile.
        let _ = std::fs::remove_dir_all(entry.path());
    }
}

/// All rounds, up to the first that fails: what was measured before it is worth having.
fn rounds(setting: &mut Setting, chosen: &[&Scenario]) -> (Results, Result<(), String>) {
    let mut results = Results::default();
    for round in 1..=setting.options.rounds {
        setting.round = round;
        for scenario in chosen {
            eprintln!("round {round} of {}: {}", setting.options.rounds, scenario.name);
            match (scenario.round)(setting) {
                Ok(samples) => results.add_round(scenario.name, samples),
                Err(problem) => return (results, Err(format!("{}: {problem}", scenario.name))),
            }
        }
    }
    (results, Ok(()))
}

/// A figure without its reference says nothing: a missing one ends the run, unless it is left out by name.
fn find_references(chosen: &[&Scenario], options: &Options) -> Result<(), String> {
    let wanted = chosen.iter().flat_map(|scenario| scenario.references);
    let mut missing: Vec<Program> = wanted.filter(|p| !options.without.contains(p) && !p.is_there()).copied().collect();
    missing.sort_unstable();
    missing.dedup();
    let lines = missing.iter().map(|program| {
        let (name, package) = (program.name(), program.package());
        format!("\n  {name} is MISSING: apt-get install {package}, or leave it out with --without {name}")
    });
    if missing.is_empty() { Ok(()) } else { Err(format!("references are missing{}", lines.collect::<String>())) }
}

fn build() -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["build", "--release", "--package", "mobcast-cli"]).current_dir(repository::root());
    match cargo.status() {
        Ok(status) if status.success() => {}
        Ok(_) => return Err("the command does not build".into()),
        Err(error) => return Err(format!("cargo does not start: {error}")),
    }
    Ok(repository::built("release/mobcast"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_have_different_names_and_are_told_of() {
        for scenario in SCENARIOS {
            assert_eq!(SCENARIOS.iter().filter(|other| other.name == scenario.name).count(), 1);
            assert!(help().contains(scenario.about), "{}", scenario.name);
        }
    }

    #[test]
    fn what_was_measured_before_a_round_that_fails_is_kept() {
        static SCENARIO: Scenario = Scenario {
            name: "x",
            about: "x",
            references: &[],
            goals: &[],
            round: |setting| {
                let sample = Sample { subject: "mobcast", quantity: samples::MEMORY, value: 1.0 };
                if setting.round < 3 { Ok(vec![sample]) } else { Err("the port is busy".into()) }
            },
        };
        let dir = TempDir::new().expect("a directory");
        let mut setting = Setting { mobcast: PathBuf::new(), dir, options: Options::default(), round: 0 };
        let (results, ended) = rounds(&mut setting, &[&SCENARIO]);
        assert_eq!(ended, Err("x: the port is busy".to_owned()));
        assert!(report::json(&[&SCENARIO], &results).to_string().contains("[1.0,1.0]"));
    }

    #[test]
    fn files_of_runs_that_were_killed_are_removed_and_no_others() {
        let dir = TempDir::new().expect("a directory");
        // No process has a number as large.
        let names =
            ["mobcast-bench-4194305-x".to_owned(), format!("mobcast-bench-{}-x", std::process::id()), "x".into()];
        names.iter().for_each(|name| std::fs::create_dir(dir.path().join(name)).expect("made"));
        remove_leftovers(dir.path());
        let there: Vec<bool> = names.iter().map(|name| dir.path().join(name).exists()).collect();
        assert_eq!(there, [false, true, true]);
    }

    #[test]
    fn a_missing_reference_is_named_with_its_package() {
        static SCENARIO: Scenario = Scenario {
            name: "x",
            about: "x",
            references: &[Program::Absent],
            goals: &[],
            round: |_| Err("nothing runs here".into()),
        };
        let problem = find_references(&[&SCENARIO], &Options::default()).expect_err("it is missing");
        assert!(problem.contains("apt-get install no-such-package"), "{problem}");
        let options = Options { without: vec![Program::Absent], ..Options::default() };
        assert_eq!(find_references(&[&SCENARIO], &options), Ok(()));
    }
}
