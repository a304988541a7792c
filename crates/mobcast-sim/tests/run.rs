//! Planned runs of experiments' files in the simulator, and what stands in their lines.

use mobcast_sim::network::Model;
use mobcast_sim::run::memory::needed_bytes;
use mobcast_sim::run::{PACKET, RunError, Simulated, check, simulate};
use mobcast_topology::files::{Experiment, Planned};
use mobcast_topology::record::{RunOutcome, RunRecord};

#[path = "support/files.rs"]
mod files;

use files::{Scenarios, m2, network};

const FIVE_SCENARIOS: &str = "sizes_mb = [600.0]
[[scenario]]
name = \"fast\"
[[scenario]]
name = \"fast-slow\"
[[scenario.change]]
at_fraction = 0.5
between = [\"A\", \"D\"]
rate_mb_per_s = 0.8
[quick]
sizes_mb = [16.0]
repetitions = 1
";

fn planned(topology: &str, experiment: &str) -> Vec<Planned> {
    let scenarios = Scenarios::new(topology, experiment);
    Experiment::load(&scenarios.experiment()).unwrap_or_else(|error| panic!("{error}")).runs(true)
}

fn only(topology: &str, experiment: &str) -> RunRecord {
    let planned = planned(topology, experiment);
    assert_eq!(planned.len(), 1);
    simulate(&planned[0], Model::Fluid).unwrap().record
}

#[test]
fn the_quick_form_of_m2_comes_near_the_optimum_and_imports_once() {
    let planned = planned(&m2(), FIVE_SCENARIOS);
    let runs: Vec<Simulated> = planned.iter().map(|planned| simulate(planned, Model::Fluid).unwrap()).collect();
    let fast = &runs[0].record;
    println!("{fast:?}");
    assert_eq!((fast.outcome, fast.case.instrument.as_str()), (RunOutcome::Complete, "sim-fluid"));
    assert!(fast.fraction > 0.8, "{}", fast.fraction);
    assert!((fast.optimum_mb_per_s - 10.0 * 1448.0 / 1500.0).abs() < 0.001, "{}", fast.optimum_mb_per_s);
    assert_eq!(fast.binding, "A→B + A→C + A→D");
    for run in &runs {
        assert_eq!(run.record.wan_copies.keys().collect::<Vec<_>>(), ["B", "C", "D"]);
        assert!(run.record.wan_copies.values().all(|copies| *copies <= 1.05), "{:?}", run.record.wan_copies);
    }
    let changed = &runs[1].record;
    assert!(changed.throughput_mb_per_s < fast.throughput_mb_per_s, "the change took place");
    assert!(changed.optimum_mb_per_s < fast.optimum_mb_per_s);
    assert_eq!(
        simulate(&planned[0], Model::Fluid).unwrap().trace_hash,
        runs[0].trace_hash,
        "the same plan gives the same run"
    );
}

#[test]
fn a_line_tells_of_every_node_and_link_and_its_phases_add_up() {
    let record = only(&m2(), "sizes_mb = [16.0]\nrepetitions = 1\n");
    let names: Vec<&str> = record.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!((names.len(), names[0], names[4], names[15]), (16, "A1", "B1", "D4"));
    let last = record.nodes.iter().map(|node| node.seconds).fold(0.0, f64::max);
    assert_eq!(record.seconds, last);
    assert!(record.nodes.iter().skip(4).all(|node| node.bytes_in_wan + node.bytes_in_lan >= 16_000_000));
    assert_eq!(record.wan.len(), 12);
    let into_b = record.wan.iter().filter(|link| link.to == "B");
    let bytes: u64 = into_b.clone().map(|link| link.unique_bytes).sum();
    assert!((16_000_000..17_500_000).contains(&bytes), "{bytes}");
    assert!(into_b.clone().all(|link| link.bytes == link.unique_bytes * 1500 / 1448));
    let phases = &record.phases;
    let sum = phases.start_seconds + 16.0 / phases.steady_mb_per_s + phases.tail_seconds;
    assert!((sum - record.seconds).abs() < 1e-9, "{phases:?}");
    assert!(phases.start_seconds > 0.0 && phases.tail_seconds > 0.0, "{phases:?}");
    assert!(phases.steady_mb_per_s > 0.9 * record.optimum_mb_per_s, "{phases:?}");
    assert_eq!((record.date.as_str(), record.emulation.is_none()), ("", true));
}

#[test]
fn headers_take_their_part_of_the_rate_and_none_of_the_fraction() {
    let experiment = "sizes_mb = [50.0]\nrepetitions = 1\n";
    let with = only(&m2(), experiment);
    let without = only(&format!("payload_factor = \"one\"\n{}", m2()), experiment);
    let ratio = with.throughput_mb_per_s / without.throughput_mb_per_s;
    assert!((ratio - 1448.0 / 1500.0).abs() < 0.02, "{ratio}");
    assert!((with.fraction - without.fraction).abs() < 0.02, "{} and {}", with.fraction, without.fraction);
}

#[test]
fn second_cards_bind_between_clusters_alone() {
    let cards = "nic_mb_per_s = 50.0\nwan_nic_mb_per_s = 1.0\n";
    let topology = network(&[("A", 4, cards), ("B", 4, cards)], &[("A", "B", 100.0)]);
    let record = only(&topology, "sizes_mb = [40.0]\nrepetitions = 1\n");
    // Four cards of 1 MB/s each way; with the cards of 50 MB/s it would be many times as much.
    assert!((record.optimum_mb_per_s - 4.0 * 1448.0 / 1500.0).abs() < 0.001, "{}", record.optimum_mb_per_s);
    assert!((0.7..=1.0).contains(&record.fraction), "{}", record.fraction);
}

#[test]
fn one_cluster_alone_is_taken_apart_at_the_node_that_was_last() {
    let topology = network(&[("A", 6, "nic_mb_per_s = 20.0\n")], &[]);
    let record = only(&topology, "sizes_mb = [20.0]\nrepetitions = 1\n");
    assert!(record.wan_copies.is_empty() && record.wan.is_empty());
    assert!(record.fraction > 0.5, "{}", record.fraction);
    assert!(record.phases.steady_mb_per_s > record.throughput_mb_per_s, "{:?}", record.phases);
}

#[test]
fn a_run_that_takes_too_long_has_failed_with_its_reason() {
    let record = only(&m2(), "sizes_mb = [16.0]\nrepetitions = 1\ntimeout_s = 1.0\n");
    assert_eq!((record.outcome, record.seconds, record.throughput_mb_per_s), (RunOutcome::Failed, 0.0, 0.0));
    assert!(record.reason.as_ref().is_some_and(|reason| reason.contains("not complete at")), "{:?}", record.reason);
}

/// Nobody stores anything for three minutes.
#[test]
fn a_piece_that_is_long_on_its_way_is_waited_for() {
    let topology = network(&[("A", 1, ""), ("B", 1, "")], &[("A", "B", 0.1)]);
    let record = only(&topology, "sizes_mb = [16.777216]\npiece_size = 16777216\nrepetitions = 1\n");
    assert_eq!(record.outcome, RunOutcome::Complete, "{:?}", record.reason);
    assert!(record.seconds > 160.0, "{}", record.seconds);
}

#[test]
fn files_have_the_limits_that_the_protocol_has() {
    assert_eq!(mobcast_topology::files::PIECES_MAX, u64::from(mobcast_proto::limits::PIECES_MAX));
    let largest = mobcast_proto::limits::OBJECT_BYTES_MAX;
    let planned = planned(&m2(), &format!("sizes_mb = [{}]\nrepetitions = 1\n", largest as f64 / 1e6));
    assert_eq!(planned[0].case.object_bytes, largest);
}

#[test]
fn what_the_simulator_cannot_run_is_refused() {
    let mut other = planned(&m2(), "sizes_mb = [16.0]\nrepetitions = 1\nstrategies = [\"mop\"]\n").remove(0);
    let error = simulate(&other, Model::Fluid).unwrap_err();
    assert!(matches!(&error, RunError::NoSuchStrategy { name, .. } if name == "mop"), "{error}");
    assert!(error.to_string().contains("choose one of mob"), "{error}");
    let untold = "sizes_mb = [16.0]\nrepetitions = 1\nstrategies = [\"balanced\", \"mob\"]\ngauge = false\n";
    let untold = planned(&m2(), untold);
    assert_eq!(simulate(&untold[0], Model::Fluid).unwrap_err(), RunError::NoGauge("balanced".into()));
    assert!(simulate(&untold[1], Model::Fluid).is_ok());
    let scenarios = Scenarios::new(&m2(), "sizes_mb = [16.0]\nrivals = [\"cat\"]\n");
    scenarios.add("rivals/cat.toml", files::RIVAL);
    let runs = Experiment::load(&scenarios.experiment()).unwrap_or_else(|error| panic!("{error}")).runs(false);
    other = runs.into_iter().find(|planned| planned.case.program == "cat").unwrap();
    assert_eq!(simulate(&other, Model::Fluid).unwrap_err(), RunError::Rival("cat".into()));
}

#[test]
fn what_the_lab_runs_runs_here_too() {
    let shipped = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/experiments");
    let mut seen = 0;
    for entry in std::fs::read_dir(&shipped).expect("they are there") {
        let path = entry.expect("an entry").path();
        if mobcast_topology::files::striping::is_striping(&path).unwrap_or_else(|error| panic!("{error}")) {
            continue;
        }
        let experiment = Experiment::load_without_rivals(&path).unwrap_or_else(|error| panic!("{error}"));
        for run in experiment.runs(false).iter().chain(&experiment.runs(true)) {
            check(run).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        seen += 1;
        if path.ends_with("mob-1.toml") {
            for run in experiment.runs(true) {
                let record = simulate(&run, Model::Fluid).expect("it was checked").record;
                assert_eq!(record.outcome, RunOutcome::Complete, "{}: {:?}", run.case.scenario, record.reason);
                let copies = record.wan_copies.values().copied().fold(0.0, f64::max);
                assert!((0.99..=1.05).contains(&copies), "{}: {copies}", run.case.scenario);
            }
        }
    }
    assert!(seen >= 20, "{seen} experiments");
}

#[test]
fn memory_is_reckoned_by_nodes_links_and_pieces() {
    let planned = &planned(&m2(), "sizes_mb = [1.6384]\npiece_size = 16384\nrepetitions = 1\n")[0];
    // 16 nodes with 100 pieces: 48 KiB, and 45 bytes for each piece. Each has three peers in its cluster and three in others: an end of a
    // link is 900 bytes, or 52 KiB with packets, and a byte for each piece.
    let nodes = 16 * (49_152 + 45 * 100);
    assert_eq!(needed_bytes(planned, Model::Fluid), nodes + 16 * 6 * (900 + 100));
    assert_eq!(needed_bytes(planned, PACKET), nodes + 16 * 6 * (53_248 + 100));
    let large = network(&[("A", 1_000, "")], &[]);
    let planned = &self::planned(&large, "sizes_mb = [1.6384]\npiece_size = 16384\nrepetitions = 1\n")[0];
    assert_eq!(needed_bytes(planned, Model::Fluid), 1_000 * (49_152 + 4_500 + 24 * 1_000), "at most 24 local peers");
}

#[test]
fn memory_is_reckoned_within_a_third_of_what_large_runs_took() {
    // Clusters, nodes of each, pieces, and MiB at the peak: the example `scale`, the last two as in docs/reproducing/scale.md.
    let (few, some) = ([(1, 300, 1_000, 42.0), (10, 30, 2_000, 67.0)], [(10, 100, 500, 120.0), (50, 20, 500, 140.0)]);
    let many = [(10, 1_000, 1_000, 1_585.0), (50, 2_000, 500, 10_957.0)];
    for (clusters, nodes, pieces, measured) in [few, some, many].concat() {
        let names: Vec<String> = (0..clusters).map(|i| format!("c{i}x")).collect();
        let sites: Vec<(&str, u32, &str)> = names.iter().map(|name| (name.as_str(), nodes, "")).collect();
        let pairs = (0..clusters).flat_map(|a| (a + 1..clusters).map(move |b| (a, b)));
        let links: Vec<(&str, &str, f64)> = pairs.map(|(a, b)| (&*names[a], &*names[b], 10.0)).collect();
        let megabytes = f64::from(pieces * (128 << 10)) / 1e6;
        let experiment = format!("sizes_mb = [{megabytes:?}]\npiece_size = 131072\nrepetitions = 1\n");
        let planned = &planned(&network(&sites, &links), &experiment)[0];
        let ratio = needed_bytes(planned, Model::Fluid) as f64 / f64::from(1 << 20) / measured;
        println!("{clusters} clusters of {nodes} nodes, {pieces} pieces: {ratio:.2} of what was measured");
        assert!((0.75..4.0 / 3.0).contains(&ratio), "{ratio:.2}");
    }
}

#[test]
fn a_cluster_that_is_cut_off_for_longer_than_a_stuck_run_may_be_silent_is_waited_for() {
    let mut experiment =
        "sizes_mb = [16.0]\nrepetitions = 1\ntimeout_s = 300.0\n[[scenario]]\nname = \"cut\"\n".to_owned();
    for (at_s, factor) in [(0.0, 0.0), (80.0, 1.0)] {
        for (other, rate) in [("A", 3.0), ("C", 3.0), ("D", 4.0)] {
            experiment += &format!("[[scenario.change]]\nat_s = {at_s:?}\nbetween = [\"B\", \"{other}\"]\n");
            experiment += &format!("rate_mb_per_s = {:?}\n", rate * factor);
        }
    }
    let record = only(&m2(), &experiment);
    assert_eq!((record.outcome, record.reason.as_ref()), (RunOutcome::Complete, None));
    assert!(record.seconds > 80.0, "{}", record.seconds);
}
