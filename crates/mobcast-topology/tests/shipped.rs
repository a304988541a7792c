//! The topologies and experiments that are shipped: all can be read, and their optima are those that their comments and
//! the papers give.

#![cfg(feature = "files")]

use std::path::{Path, PathBuf};

use mobcast_topology::files::striping::is_striping;
use mobcast_topology::files::{Experiment, Planned, StripingExperiment, TopologyFile};
use mobcast_topology::{ClusterIndex, PayloadFactor, optimum};

const ROOT: ClusterIndex = ClusterIndex(0);

fn scenarios(directory: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(directory)
}

fn files(directory: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(scenarios(directory)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// The experiment on links without headers.
fn experiment(name: &str) -> Experiment {
    let path = scenarios("experiments").join(format!("{name}.toml"));
    let mut experiment = Experiment::load_without_rivals(&path).unwrap_or_else(|error| panic!("{error}"));
    experiment.topology.payload_factor = PayloadFactor::ONE;
    experiment
}

fn run_of(experiment: &Experiment, scenario: &str) -> Planned {
    experiment.runs(false).into_iter().find(|run| run.case.scenario == scenario).unwrap()
}

#[test]
fn every_topology_can_be_read_and_has_its_optimum() {
    let mut optima: Vec<(String, u64)> = Vec::new();
    for path in files("topologies") {
        let file = TopologyFile::load(&path).unwrap_or_else(|error| panic!("{error}"));
        optima.push((file.name, optimum(&file.topology, ROOT).rate_bytes_per_s.unwrap()));
    }
    optima.sort();
    let expected = [
        ("bordeaux-10mbit", 1_250_000),
        ("bordeaux-2", 25_000_000),
        ("bordeaux-3", 25_000_000),
        ("bordeaux-gigabit", 125_000_000),
        ("bordeaux-gigabit-near", 125_000_000),
        ("bordeaux-gigabit-one", 125_000_000),
        ("bordeaux-gigabit-three", 125_000_000),
        ("das2", 10_000_000),
        ("das2-four", 10_000_000),
        ("hosts", 1_250_000_000),
        ("m2", 10_000_000),
        ("m2-0ms", 10_000_000),
        ("m2-100ms", 10_000_000),
        ("m2-40ms", 10_000_000),
        ("m2-quarter", 2_500_000),
        ("m2-quarter-100ms", 2_500_000),
        ("m2-tenfold", 100_000_000),
        ("m2-tenfold-100ms", 100_000_000),
        ("orientation", 13_000_000),
        ("switch", 12_500_000),
        ("three-regions", 750_000_000),
    ];
    assert_eq!(optima, expected.map(|(name, rate)| (name.to_owned(), rate)));
}

#[test]
fn every_experiment_can_be_read_and_has_runs_of_about_a_minute() {
    for path in files("experiments").into_iter().filter(|path| !is_striping(path).unwrap()) {
        let experiment = Experiment::load_without_rivals(&path).unwrap_or_else(|error| panic!("{error}"));
        if experiment.gather {
            // Sizes from one message on.
            continue;
        }
        let (runs, quick) = (experiment.runs(false), experiment.runs(true));
        let seconds = |runs: &[Planned]| runs.iter().map(|run| run.ideal_seconds).sum::<f64>();
        assert!(!quick.is_empty() && seconds(&quick) < seconds(&runs), "{}", experiment.name);
        assert!(quick.iter().all(|run| run.ideal_seconds < 6.0), "{}", experiment.name);
        for run in runs {
            assert!(run.ideal_seconds > 3.0 && run.ideal_seconds < 180.0, "{:?}: {}", run.case, run.ideal_seconds);
            assert!(run.timeout_s > 2.0 * run.ideal_seconds, "{:?}", run.case);
        }
    }
}

#[test]
fn the_scenarios_of_m2_have_the_known_optima() {
    for (name, scale) in [("mob-1", 1.0), ("mob-1-64", 0.25), ("mob-2", 0.25), ("mob-3", 1.0), ("mob-3-uneven", 0.25)] {
        let experiment = experiment(name);
        for (scenario, expected) in [("fast", 10.0), ("slow", 7.8), ("fast-slow", 8.764), ("slow-fast", 9.009)] {
            let bracket = run_of(&experiment, scenario).optimum;
            for rate in [bracket.payload_bytes_per_s_lower, bracket.payload_bytes_per_s_upper] {
                let rate = rate.unwrap() as f64 / 1e6 / scale;
                assert!((rate - expected).abs() < 0.001, "{name}, {scenario}: {rate} MB/s");
            }
        }
        let mayhem = run_of(&experiment, "mayhem").optimum;
        let [lower, upper] = [mayhem.payload_bytes_per_s_lower, mayhem.payload_bytes_per_s_upper]
            .map(|rate| rate.unwrap() as f64 / 1e6 / scale);
        assert!(lower > 3.0 && lower < upper && upper < 7.0, "{name}: mayhem between {lower} and {upper} MB/s");
    }
}

#[test]
fn m2_changes_in_the_middle_and_every_twelfth_of_the_ideal_time() {
    let experiment = experiment("mob-1");
    let times = |scenario: &str| {
        let mut times: Vec<u64> =
            run_of(&experiment, scenario).scenario.changes.iter().map(|c| c.at_ns / 1_000_000).collect();
        times.dedup();
        times
    };
    assert_eq!(times("slow"), [0; 0]);
    assert_eq!(times("fast-slow"), [30_000]);
    assert_eq!(times("slow-fast"), [30_000]);
    assert_eq!(times("mayhem")[..3], [5_000, 10_000, 15_000].map(|ms| ms - 1), "a little less than a twelfth");
}

#[test]
fn every_experiment_with_stripes_can_be_read() {
    let striping = files("experiments").into_iter().filter(|path| is_striping(path).unwrap());
    let experiments = striping.map(|path| StripingExperiment::load(&path).unwrap_or_else(|error| panic!("{error}")));
    let cases: Vec<(String, usize)> = experiments.map(|experiment| (experiment.name, experiment.cases.len())).collect();
    let expected = [
        ("striping-1", 1),
        ("striping-3", 2),
        ("striping-bbr", 144),
        ("striping-cubic", 144),
        ("striping-nodes", 1_050),
        ("striping-queue", 160),
    ];
    assert_eq!(cases, expected.map(|(name, count)| (name.to_owned(), count)));
}
