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

/// Comparisons of strategies, which are run by name only: those with 150 runs take hours.
const BY_NAME: [&str; 8] = [
    "strategies-64",
    "strategies-uneven",
    "mob-4",
    "mob-4-0ms",
    "mob-4-100ms",
    "mob-4-untold",
    "small",
    "small-trusted",
];

/// What can be asked for.
pub const HELP: &str = "\
cargo xtask bench lab [EXPERIMENT]… [--quick] [--repetitions N] [--fresh]

  runs scenarios/experiments/EXPERIMENT.toml with mobcast-lab as root, keeps the runs in target/lab, goes on where it was
  interrupted, and prints the tables; charts are in target/lab/report. Without a name: mob-1, mob-1-sizes, mob-1-64, mob-2,
  mob-3, mob-3-uneven, das2, bordeaux-2, bordeaux-3, bordeaux-found, switch, rivals, rivals-switch (docs/reproducing/mob.md);
  by name also strategies-64, strategies-uneven, mob-4, mob-4-0ms, mob-4-100ms, mob-4-untold, small, small-trusted
  (docs/reproducing/strategies.md)
  --quick            the short forms
  --repetitions N    another number than the experiments'
  --fresh            forgets earlier runs
";

/// Runs them; none if the words make no sense.
pub fn run(words: &[&str]) -> Option<bool> {
    let mut names: Vec<&str> = Vec::new();
    let (mut more, mut fresh) = (Vec::new(), false);
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        match word {
            "--quick" => more.push(word),
            "--repetitions" => more.extend([word, *words.next()?]),
            "--fresh" => fresh = true,
            name if EXPERIMENTS.contains(&name) || BY_NAME.contains(&name) => names.push(name),
            _ => return None,
        }
    }
    if names.is_empty() {
        names.extend(EXPERIMENTS);
    }
    Some(run_all(&names, &more, fresh))
}

fn run_all(names: &[&str], more: &[&str], fresh: bool) -> bool {
    let build = ["build", "--release", "--package", "mobcast-cli", "--package", "mobcast-lab"];
    if !cargo(&build) {
        return false;
    }
    let suffix = if more.contains(&"--quick") { "-quick" } else { "" };
    let directory = repository::root().join("target/lab");
    let lines = |name: &str| directory.join(format!("{name}{suffix}.jsonl"));
    let mut passed = true;
    for name in names {
        if fresh {
            // There may be none.
            let _ = std::fs::remove_file(lines(name));
        }
        let (experiment, output) = (format!("scenarios/experiments/{name}.toml"), lines(name).display().to_string());
        let words = [&LAB[..], &["run", &experiment, "--output", &output], more].concat();
        // The others are worth having, too.
        passed &= cargo(&words);
    }
    let files: Vec<PathBuf> = names.iter().map(|name| lines(name)).filter(|path| path.exists()).collect();
    let files: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let report = directory.join("report").display().to_string();
    cargo(&[&LAB[..], &["report"], &files, &["--output", &report]].concat()) && passed
}

const LAB: [&str; 6] = ["run", "--quiet", "--release", "--package", "mobcast-lab", "--"];
