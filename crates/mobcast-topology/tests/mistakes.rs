//! What a user is told about a file that cannot be used: file, line, key, and what to do.

#![cfg(feature = "files")]

use std::path::{Path, PathBuf};

use mobcast_topology::files::{Experiment, Program, StripingExperiment, TopologyFile};
use mobcast_topology::{LinkRef, QueueLimit};

const TWO: &str = r#"title = "two"

[[cluster]]
name = "A"
nodes = 2

[[cluster]]
name = "B"
nodes = 3
nic_mb_per_s = 100

[[link]]
between = ["A", "B"]
rate_mb_per_s = 3.0
one_way_delay_ms = 10.0
"#;

/// The error of the topology above with one text replaced by another.
fn topology_error(from: &str, to: &str) -> String {
    assert!(TWO.contains(from), "{from}");
    TopologyFile::parse(&TWO.replacen(from, to, 1), "two.toml").unwrap_err().to_string()
}

#[track_caller]
fn assert_starts(error: &str, expected: &str) {
    assert!(error.starts_with(expected), "\n  {error}\ndoes not start with\n  {expected}");
}

#[test]
fn a_topology_without_mistakes_is_taken() {
    let file = TopologyFile::parse(TWO, "two.toml").unwrap();
    assert_eq!((file.name.as_str(), file.topology.nodes()), ("two", 5));
    let [a, b] = ["A", "B"].map(|name| file.topology.find(name).unwrap());
    assert_eq!(file.topology.clusters()[1].nic_in_bytes_per_s, Some(100_000_000));
    let link = file.topology.wan(b, a).unwrap();
    assert_eq!((link.rate_bytes_per_s, link.one_way_delay_ns), (Some(3_000_000), 10_000_000));
    assert_eq!((link.queue, link.queue_bytes()), (QueueLimit::TwiceBdp, 120_000));
}

#[test]
fn a_rate_has_to_be_a_rate() {
    let with_rate = |rate: &str| topology_error("rate_mb_per_s = 3.0", &format!("rate_mb_per_s = {rate}"));
    assert_starts(&with_rate("0"), "two.toml:14: rate_mb_per_s: has to be more than 0");
    assert_starts(&with_rate("-1.0"), "two.toml:14: rate_mb_per_s: -1 is not in the range 0 to");
    assert_starts(&with_rate("nan"), "two.toml:14: rate_mb_per_s: NaN is not in the range 0 to");
    assert_starts(&with_rate("inf"), "two.toml:14: rate_mb_per_s: inf is not in the range 0 to");
    assert_starts(&with_rate("\"3\""), "two.toml:14: rate_mb_per_s: invalid type: string");
    assert_starts(&with_rate("0.0000001"), "two.toml:14: rate_mb_per_s: has to be more than 0");
    let nic = topology_error("nic_mb_per_s = 100", "nic_mb_per_s = 100\nnic_in_mb_per_s = 10");
    assert_starts(&nic, "two.toml:10: nic_mb_per_s: stands for both directions");
}

#[test]
fn links_join_two_known_clusters_once_and_all_of_them() {
    let one_way = topology_error("between = [\"A\", \"B\"]", "from = \"A\"\nto = \"B\"");
    assert_starts(&one_way, "two.toml:17: link: missing link from B to A: add a [[link]] with from = \"B\"");
    let unknown = topology_error("[\"A\", \"B\"]", "[\"A\", \"Z\"]");
    assert_starts(&unknown, "two.toml:13: between: there is no cluster \"Z\": the clusters are A, B");
    let alone = topology_error("[\"A\", \"B\"]", "[\"A\", \"A\"]");
    assert_starts(&alone, "two.toml:13: between: \"A\" is linked to itself");
    let three = topology_error("[\"A\", \"B\"]", "[\n    \"A\",\n    \"B\",\n    \"A\",\n]");
    assert_starts(&three, "two.toml:13: between: two names of clusters are needed");
    let both = topology_error("between = [\"A\", \"B\"]", "between = [\"A\", \"B\"]\nfrom = \"A\"");
    assert_starts(&both, "two.toml:13: between: stands for both directions");
    let neither = topology_error("between = [\"A\", \"B\"]", "from = \"A\"");
    assert_starts(&neither, "two.toml:12: link: which link? Give between");
    let twice = TWO.to_owned() + "\n[[link]]\nfrom = \"B\"\nto = \"A\"\none_way_delay_ms = 1\n";
    let twice = TopologyFile::parse(&twice, "two.toml").unwrap_err().to_string();
    assert_starts(&twice, "two.toml:17: link: the link from B to A is there twice");
}

#[test]
fn clusters_have_names_of_their_own_and_addresses() {
    assert_starts(&topology_error("name = \"B\"", "name = \"A\""), "two.toml:8: name: cluster \"A\" is there twice");
    assert_starts(&topology_error("name = \"B\"", "name = \"B1\""), "two.toml:8: name: \"B1\" cannot name a cluster");
    assert_starts(
        &topology_error("nodes = 3", "nodes = 100001"),
        "two.toml:9: nodes: 100001 is not in the range 1 to 100000",
    );
    assert_starts(&topology_error("nodes = 3", "nodes = 0"), "two.toml:9: nodes: 0 is not in the range 1 to 100000");
    assert_starts(&topology_error("nodes = 3", "nodes = 99999"), "two.toml:9: nodes: a group has at most 100000 nodes");
    let many: String = (0..251).map(|i| format!("[[cluster]]\nname = \"C{i}x\"\nnodes = 1\n")).collect();
    let many = TopologyFile::parse(&format!("title = \"many\"\n{many}"), "many.toml").unwrap_err().to_string();
    assert_starts(&many, "many.toml:752: cluster: at most 250 clusters");
    let none = TopologyFile::parse("title = \"none\"\n", "none.toml").unwrap_err().to_string();
    assert_starts(&none, "none.toml:1: title: there is no [[cluster]]");
}

#[test]
fn unknown_keys_and_missing_ones_are_named() {
    let unknown = topology_error("one_way_delay_ms = 10.0", "one_way_delay_ms = 10.0\ndelay = 3");
    assert_starts(&unknown, "two.toml:16: delay: unknown field `delay`, expected one of `between`");
    let missing = topology_error("one_way_delay_ms = 10.0\n", "");
    assert_starts(&missing, "two.toml:12: link: missing field `one_way_delay_ms`");
    let factor = topology_error("title = \"two\"", "title = \"two\"\npayload_factor = \"half\"");
    assert_starts(&factor, "two.toml:2: payload_factor: unknown variant `half`, expected `ethernet-tcp` or `one`");
    let syntax = topology_error("nodes = 3", "nodes = ");
    assert_starts(&syntax, "two.toml:9: nodes:");
}

#[test]
fn loss_and_queues_have_ranges() {
    let with = |line: &str| topology_error("one_way_delay_ms = 10.0", &format!("one_way_delay_ms = 10.0\n{line}"));
    assert_starts(
        &with("loss_percent = 100.5"),
        "two.toml:16: loss_percent: 100.5 is not in the range 0 to 100 percent",
    );
    assert_starts(&with("queue_bytes = 10"), "two.toml:16: queue_bytes: has to be at least a packet");
    assert_starts(&with("queue_ms = 0"), "two.toml:16: queue_ms: has to be more than 0");
    assert_starts(&with("queue_ms = 0.01"), "two.toml:16: queue_ms: is less than a packet, 1500 bytes, takes");
    assert_starts(&with("loss_percent = 0.00004"), "two.toml:16: loss_percent: is less than a packet in a million");
    assert_starts(&with("queue_ms = 1\nqueue_bytes = 9000"), "two.toml:17: queue_bytes: queue_ms is there too");
}

/// A directory with the topology above and one experiment.
struct House {
    directory: tempfile::TempDir,
}

impl House {
    fn new(experiment: &str) -> House {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("topologies/two.toml", TWO),
            ("topologies/one.toml", "title = \"one\"\n[[cluster]]\nname = \"A\"\nnodes = 1\n"),
            ("experiments/e.toml", experiment),
            ("rivals/cast.toml", "title = \"c\"\nversion = [\"v\"]\nroot = [\"r\"]\none_cluster = true\n"),
            ("rivals/tree.toml", "title = \"t\"\nversion = [\"v\"]\nroot = [\"r\"]\n"),
        ] {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        House { directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("experiments/e.toml")
    }
}

const EXPERIMENT: &str = "title = \"e\"\ntopology = \"two\"\nsizes_mb = [10]\n";

/// The error of the least experiment with more lines, from its line 4 on, without the directory.
fn experiment_error(more: &str) -> String {
    error_of(&format!("{EXPERIMENT}{more}\n"))
}

fn error_of(experiment: &str) -> String {
    let house = House::new(experiment);
    let error = Experiment::load(&house.path()).unwrap_err();
    assert_eq!(Path::new(&error.file).parent().unwrap(), house.path().parent().unwrap());
    error.to_string().rsplit_once("/e.toml:").map(|(_, rest)| rest.to_owned()).unwrap()
}

#[test]
fn lists_of_an_experiment_are_checked_against_the_topology() {
    assert_starts(
        &experiment_error("nodes = [[2, 2, 2]]"),
        "4: nodes: [2, 2, 2] is for 3 clusters, the topology has 2",
    );
    assert_starts(&experiment_error("nodes = [[2, 100001]]"), "4: nodes: 100001 nodes: a cluster has 1 to 100000");
    assert_starts(&experiment_error("nodes = [[2, 99999]]"), "4: nodes: [2, 99999]: a group has at most 100000 nodes");
    assert_starts(&experiment_error("nodes = [\n  [2, 2],\n  [2, 2],\n]"), "6: nodes: [2, 2] is there twice");
    assert_starts(&experiment_error("nodes = []"), "4: nodes: the list is empty");
    assert_starts(&experiment_error("strategies = []"), "4: strategies: the list is empty");
    assert_starts(&experiment_error("strategies = [\"mob\", \"mob\"]"), "4: strategies: \"mob\" is there twice");
    assert_starts(&experiment_error("repetitions = 0"), "4: repetitions: 0 is not in the range 1 to");
    assert_starts(&experiment_error("piece_size = 100000"), "4: piece_size: has to be a power of two");
    assert_starts(&experiment_error("timeout_s = 0"), "4: timeout_s: has to be more than 0");
    assert_starts(
        &experiment_error("rival_scenarios = [\"fast\"]"),
        "4: rival_scenarios: there is no scenario \"fast\": the scenarios are steady",
    );
    assert_starts(&experiment_error("[quick]\nsizes_mb = [0]"), "5: sizes_mb: has to be more than 0");
    assert_starts(&experiment_error("[quick]\nsizes_mb = [8796094]"), "5: sizes_mb: 8796094 is not in the range 0 to");
    let many = experiment_error("piece_size = 16384\n[quick]\nsizes_mb = [8589.934592, 8590]");
    assert_starts(&many, "4: piece_size: 8590 MB are more than 524288 pieces of that size: give 32768 or more");
    assert_starts(&experiment_error("colour = 3"), "4: colour: unknown field `colour`");
}

#[test]
fn a_strategy_that_is_none_can_be_pointed_at() {
    let house = House::new(&format!("{EXPERIMENT}strategies = [\n  \"mob\",\n  \"mop\",\n]\n"));
    let error = Experiment::load(&house.path()).unwrap().misnamed("mop", "there is none").to_string();
    assert!(error.ends_with("/e.toml:6: strategies: there is none"), "{error}");
}

#[test]
fn files_that_an_experiment_names_have_to_be_there() {
    let unknown = error_of("title = \"e\"\ntopology = \"three\"\nsizes_mb = [1]\n");
    assert_starts(&unknown, "2: topology: there is no file ");
    assert!(unknown.ends_with("there are one, two"), "{unknown}");
    let path = error_of("title = \"e\"\ntopology = \"../two\"\nsizes_mb = [1]\n");
    assert_starts(&path, "2: topology: \"../two\" is not a name");
    assert_starts(&experiment_error("rivals = [\"walk\"]"), "4: rivals: there is no file ");
    assert_starts(&experiment_error("rivals = [\"cast\"]"), "4: rivals: cast works in one cluster only");
    let lonely = error_of("title = \"e\"\ntopology = \"one\"\nsizes_mb = [1]\n");
    assert_starts(&lonely, "2: topology: a topology of one node: there is nobody to send to");
    let lonely = error_of("title = \"e\"\ntopology = \"one\"\nsizes_mb = [1]\nnodes = [[1]]\n");
    assert_starts(&lonely, "4: nodes: [1]: there is nobody to send to");
    let missing = Experiment::load(Path::new("nowhere/e.toml")).unwrap_err().to_string();
    assert_starts(&missing, "nowhere/e.toml: cannot be read:");
}

#[test]
fn changes_have_one_time_and_one_place() {
    let change = |lines: &str| experiment_error(&format!("[[scenario]]\nname = \"x\"\n[[scenario.change]]\n{lines}"));
    let place = "between = [\"A\", \"B\"]\nrate_mb_per_s = 0\n";
    assert_starts(&change(place), "6: scenario.change: when? Give either at_fraction or at_s");
    assert_starts(&change(&format!("at_s = -1\n{place}")), "7: at_s: -1 is not in the range 0 to");
    assert_starts(&change("at_s = 1\nrate_mb_per_s = 1"), "6: scenario.change: which link?");
    let both = change(&format!("at_s = 1\naccess_in = \"A\"\n{place}"));
    assert_starts(&both, "6: scenario.change: a link or an access link?");
    let unknown = change("at_s = 1\naccess_in = \"C\"\nrate_mb_per_s = 1");
    assert_starts(&unknown, "8: access_in: there is no cluster \"C\"");
    let same_name = experiment_error("[[scenario]]\nname = \"x\"\n[[scenario]]\nname = \"x\"");
    assert_starts(&same_name, "7: name: \"x\" is there twice");
}

#[test]
fn chance_has_a_range_and_a_limit() {
    let random = |lines: &str| experiment_error(&format!("[[scenario]]\nname = \"x\"\n[scenario.random]\n{lines}"));
    let upside_down = random("every_s = 1\nfactor_min = 0.5\nfactor_max = 0.1");
    assert_starts(&upside_down, "8: factor_min: is more than factor_max, 0.1");
    assert_starts(&random("factor_min = 0.5\nfactor_max = 1"), "6: scenario.random: how often?");
    assert_starts(&random("every_s = 0\nfactor_min = 0.5\nfactor_max = 1"), "7: every_s: has to be more than 0");
    let often = random("every_s = 0.0001\nfactor_min = 0.5\nfactor_max = 1");
    assert_starts(&often, "4: scenario: 6000000 changes until the time-out");
}

#[test]
fn a_link_that_is_cut_at_the_start_keeps_its_queue() {
    let house = House::new(
        "title = \"e\"\ntopology = \"two\"\nsizes_mb = [10]\n[[scenario]]\nname = \"cut\"\n[[scenario.change]]\nat_s = 0\n\
         between = [\"A\", \"B\"]\nrate_mb_per_s = 0\n[[scenario.change]]\nat_s = 1\nbetween = [\"A\", \"B\"]\n\
         rate_mb_per_s = 3\n",
    );
    let runs = Experiment::load(&house.path()).unwrap().runs(false);
    let link = |run: &mobcast_topology::files::Planned| run.scenario.topology.wan_links().next().unwrap().2;
    assert_eq!((link(&runs[0]).rate_bytes_per_s, link(&runs[0]).queue_bytes()), (Some(0), 120_000), "that of 3 MB/s");
}

#[test]
fn a_link_that_is_slower_from_the_start_still_has_room_for_a_packet() {
    let change =
        "[[scenario]]\nname = \"slow\"\n[[scenario.change]]\nat_s = 0\nbetween = [\"A\", \"B\"]\nrate_mb_per_s = 1\n";
    let random =
        "[[scenario]]\nname = \"mayhem\"\n[scenario.random]\nevery_s = 1\nfactor_min = 0.1\nfactor_max = 0.4\n";
    let house = House::new(&format!("{EXPERIMENT}{change}{random}"));
    let short = TWO.replacen("one_way_delay_ms = 10.0", "one_way_delay_ms = 10.0\nqueue_ms = 1", 1);
    std::fs::write(house.directory.path().join("topologies/two.toml"), short).unwrap();
    let runs = Experiment::load(&house.path()).unwrap().runs(false);
    assert!(runs.iter().any(|run| run.case.scenario == "mayhem"));
    for run in runs {
        let read = TopologyFile::parse(&run.settings().network, "start.toml").unwrap();
        let (_, _, link) = read.topology.wan_links().next().unwrap();
        assert_eq!(link.queue_bytes(), 1_500, "of what a millisecond of less than 1.5 MB/s is");
    }
}

#[test]
fn runs_repeat_on_the_outside_and_share_seed_and_network() {
    let house = House::new(
        "title = \"e\"\ntopology = \"two\"\nsizes_mb = [10]\nrival_sizes_mb = [5, 10]\nrepetitions = 3\nseed = 7\n\
         nodes = [[1, 1], [2, 2]]\nstrategies = [\"mob\", \"chain\"]\nrivals = [\"tree\"]\nrival_repetitions = 2\n\
         rival_scenarios = [\"mayhem\"]\n[[scenario]]\nname = \"still\"\n[[scenario]]\nname = \"mayhem\"\n\
         [scenario.random]\nevery_s = 1\nfactor_min = 0.1\nfactor_max = 1\n[quick]\nrivals = []\nrepetitions = 1\n",
    );
    let experiment = Experiment::load(&house.path()).unwrap();
    let runs = experiment.runs(false);
    let of_rivals = runs.iter().filter(|run| matches!(run.program, Program::Rival(_))).count();
    assert_eq!((runs.len(), of_rivals), (3 * 2 * 2 * 2 + 2 * 2 * 2, 2 * 2 * 2));
    assert!(runs.is_sorted_by_key(|run| run.repetition));
    let mayhem: Vec<_> =
        runs.iter().filter(|r| r.case.scenario == "mayhem" && r.case.object_bytes == 10_000_000).collect();
    assert_eq!(mayhem[0].scenario, mayhem[1].scenario, "the same for both strategies");
    assert!(matches!(&mayhem[2].program, Program::Rival(rival) if rival.name == "tree"));
    assert_eq!((mayhem[2].seed, &mayhem[2].scenario), (mayhem[0].seed, &mayhem[0].scenario), "and for the rival");
    assert_eq!(mayhem[0].scenario.changes, mayhem[3].scenario.changes, "and for both layouts");
    let second = mayhem.iter().find(|run| run.repetition == 1).unwrap();
    assert_ne!(mayhem[0].scenario.changes, second.scenario.changes);
    let rates = mayhem[0].scenario.changes.iter().map(|change| change.rate_bytes_per_s.unwrap());
    assert!(rates.clone().all(|rate| (300_000..=3_000_000).contains(&rate)));
    assert!(mayhem[0].scenario.changes.iter().all(|c| c.at_ns > 0 && matches!(c.link, LinkRef::Wan { .. })));
    assert_eq!(rates.count(), 2 * 299, "every second but the first until the time-out");
    assert_eq!(experiment.runs(true).len(), 8);
    assert!(Experiment::load_without_rivals(&house.path()).unwrap().extent.rivals.is_empty());
}

/// The error of an experiment with stripes with one text replaced by another.
fn striping_error(from: &str, to: &str) -> String {
    const STRIPES: &str = "title = \"s\"\n\n[striping]\nnodes = [1, 8]\nbetween_mbit_per_s = [1.5, 10]\n\
                           round_trip_ms = [20]\nstripes = [1, 4]\n";
    assert!(STRIPES.contains(from), "{from}");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.toml");
    std::fs::write(&path, STRIPES.replacen(from, to, 1)).unwrap();
    let error = StripingExperiment::load(&path).unwrap_err().to_string();
    error.rsplit_once("s.toml:").expect("the file is named").1.to_owned()
}

#[test]
fn an_experiment_with_stripes_is_checked() {
    assert_starts(&striping_error("[1, 8]", "[0]"), "4: nodes: 0 is not in the range 1 to 1000");
    assert_starts(&striping_error("[1, 8]", "[]"), "4: nodes: the list is empty");
    assert_starts(&striping_error("[1, 8]", "[8, 8]"), "4: nodes: this value is there twice");
    assert_starts(&striping_error("[1.5, 10]", "[10, 1.5, 10.0]"), "5: between_mbit_per_s: this value is there twice");
    assert_starts(&striping_error("1.5", "0"), "5: between_mbit_per_s: 0 is not in the range 0.001 to");
    assert_starts(&striping_error("[20]", "[-1]"), "6: round_trip_ms: -1 is not in the range 0 to");
    assert_starts(&striping_error("stripes =", "strips ="), "7: strips: unknown field `strips`");
    let waits = striping_error("stripes = [1, 4]", "stripes = [1, 4]\ndelayed_ack_ms = 501");
    assert_starts(&waits, "8: delayed_ack_ms: 501 is not in the range 0 to 500");
    let list = |last: u32| (1..=last).map(|value| value.to_string()).collect::<Vec<_>>().join(",");
    let wide = format!("stripes = [{}]\nqueue_packets = [{}]", list(500), list(200));
    assert_starts(&striping_error("stripes = [1, 4]", &wide), "7: stripes: 400000 cases are more than 100000");
}
