//! `cargo xtask bench lab`: the experiments on emulated networks, one after the other, and their table. Each keeps its runs in
//! `target/lab`, so that what was interrupted goes on; `--fresh` begins anew.

use std::path::PathBuf;

use crate::repository;
use crate::steps::cargo;

/// The experiments by name, in the order of the report.
const EXPERIMENTS: [&str; 13] = [
    "mob-1",
    "mob-1-sizes",
    "mob-1-64",
    "mob-2",
    "mob-3",
    "mob-3-uneven",
    "das2",
    "bordeaux-2",
    "bordeaux-3",
    "bordeaux-found",
    "switch",
    "rivals",
    "rivals-switch",
];

/// Comparisons of strategies, which the lab runs by name only: those with 150 runs take hours.
const BY_NAME: [&str; 14] = [
    "strategies-64",
    "strategies-64-short",
    "bordeaux-16",
    "bordeaux-64-lab",
    "strategies-uneven",
    "mob-4",
    "mob-4-16",
    "mob-4-0ms",
    "mob-4-40ms",
    "mob-4-100ms",
    "mob-4-untold",
    "small",
    "small-trusted",
    "rivals-trunk",
];

/// What the simulator runs unless it is told, in the order of the report.
const SIMULATED: [&str; 17] = [
    "strategies-64",
    "strategies-uneven",
    "strategies-20ms",
    "strategies-100ms",
    "strategies-tenfold-20ms",
    "strategies-tenfold-100ms",
    "mob-4-0ms",
    "mob-4",
    "mob-4-40ms",
    "mob-4-100ms",
    "mob-4-untold",
    "strategies-das2",
    "strategies-das2-four",
    "bordeaux-64-one",
    "bordeaux-64-near",
    "bordeaux-64",
    "bordeaux-64-three",
];

/// What can be asked for.
pub const HELP: &str = "\
cargo xtask bench lab [EXPERIMENT]… [--quick] [--scenario NAME,…] [--repetitions N] [--fresh]
cargo xtask bench lab --simulated [EXPERIMENT]… [--quick] [--fresh]

  runs scenarios/experiments/EXPERIMENT.toml with mobcast-lab as root, keeps the runs in target/lab, goes on where it was
  interrupted, and prints the tables; charts are in target/lab/report. Without a name: mob-1, mob-1-sizes, mob-1-64, mob-2,
  mob-3, mob-3-uneven, das2, bordeaux-2, bordeaux-3, bordeaux-found, switch, rivals, rivals-switch (docs/reproducing/mob.md);
  by name also strategies-64, strategies-64-short, strategies-uneven, mob-4, mob-4-16, mob-4-0ms, mob-4-40ms, mob-4-100ms,
  mob-4-untold, bordeaux-16, bordeaux-64-lab, small, small-trusted, rivals-trunk (docs/reproducing/strategies.md)
  --simulated        the same with mobcast-sim in its fluid model, anybody may; without a name all comparisons of strategies:
                     strategies-64, -uneven, -20ms, -100ms, -tenfold-20ms, -tenfold-100ms, -das2 and -das2-four, mob-4
                     with its latencies and untold, bordeaux-64 in four layouts
  --quick            the short forms
  --scenario NAME,…  only scenarios of these names
  --repetitions N    another number than the experiments'
  --fresh            forgets earlier runs, of all scenarios (so it does not go together with --scenario)
";

/// Runs them; none if the words make no sense.
pub fn run(words: &[&str]) -> Option<bool> {
    let mut names: Vec<&str> = Vec::new();
    let (mut more, mut fresh) = (Vec::new(), false);
    let instrument = if words.contains(&"--simulated") { &SIMULATOR } else { &LAB };
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        match word {
            "--simulated" => {}
            "--quick" => more.push(word),
            "--repetitions" | "--scenario" if instrument.takes_selections => more.extend([word, *words.next()?]),
            "--fresh" => fresh = true,
            name if EXPERIMENTS.contains(&name) || BY_NAME.contains(&name) || SIMULATED.contains(&name) => {
                names.push(name);
            }
            _ => return None,
        }
    }
    // With the file of an experiment's runs go those of all its scenarios.
    if fresh && more.contains(&"--scenario") {
        return None;
    }
    if names.is_empty() {
        names.extend(instrument.usual);
    }
    Some(run_all(instrument, &names, &more, fresh))
}

/// What runs experiments.
struct Instrument {
    /// Its program, from the words after `cargo` on.
    words: [&'static str; 6],
    package: &'static str,
    /// What it runs without a name.
    usual: &'static [&'static str],
    /// Whether one may ask it for other repetitions and for some scenarios.
    takes_selections: bool,
    /// In the names of the files of its runs.
    suffix: &'static str,
}

const LAB: Instrument = Instrument {
    words: ["run", "--quiet", "--release", "--package", "mobcast-lab", "--"],
    package: "mobcast-lab",
    usual: &EXPERIMENTS,
    takes_selections: true,
    suffix: "",
};

const SIMULATOR: Instrument = Instrument {
    words: ["run", "--quiet", "--release", "--package", "mobcast-sim", "--"],
    package: "mobcast-sim",
    usual: &SIMULATED,
    takes_selections: false,
    suffix: "-simulated",
};

fn run_all(instrument: &Instrument, names: &[&str], more: &[&str], fresh: bool) -> bool {
    // The report is the lab's.
    let packages = ["mobcast-cli", "mobcast-lab", instrument.package].map(|package| ["--package", package]);
    if !cargo(&[&["build", "--release"], packages.as_flattened()].concat()) {
        return false;
    }
    let short = if more.contains(&"--quick") { "-quick" } else { "" };
    let directory = repository::root().join("target/lab");
    let lines = |name: &str| directory.join(format!("{name}{}{short}.jsonl", instrument.suffix));
    if let Err(error) = std::fs::create_dir_all(&directory) {
        eprintln!("{}: {error}: the runs are kept there", directory.display());
        return false;
    }
    let mut passed = true;
    for name in names {
        if fresh {
            // There may be none.
            let _ = std::fs::remove_file(lines(name));
        }
        let (experiment, output) = (format!("scenarios/experiments/{name}.toml"), lines(name).display().to_string());
        let words = [&instrument.words[..], &["run", &experiment, "--output", &output], more].concat();
        // The others are worth having, too.
        passed &= cargo(&words);
    }
    let files: Vec<PathBuf> = names.iter().map(|name| lines(name)).filter(|path| path.exists()).collect();
    let files: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    if files.is_empty() {
        // Why there are none has been said.
        return false;
    }
    let report = directory.join("report").display().to_string();
    cargo(&[&LAB.words[..], &["report"], &files, &["--output", &report]].concat()) && passed
}
