//! Every strategy of the list, by the command: on one cluster and on several, and what is said when it cannot be.

mod common;

use std::fs;

use common::{Experiment, data, names, run};

const BYTES: usize = 3_000_000;

/// The names that `mobcast strategies` lists.
fn strategies() -> Vec<String> {
    let listed = run(["strategies", "--json"]).json();
    let name = |entry: &serde_json::Value| entry["name"].as_str().expect("entries have names").to_owned();
    listed.as_array().expect("a list").iter().map(name).collect()
}

/// A description of a network of clusters A and B.
fn gauge(experiment: &Experiment) -> String {
    let path = experiment.path("gauge.toml");
    let cluster = |name: &str| format!("[[cluster]]\nname = \"{name}\"\nnodes = 3\n");
    let link = "[[link]]\nbetween = [\"A\", \"B\"]\nrate_mb_per_s = 50.0\none_way_delay_ms = 1.0\n";
    fs::write(&path, format!("title = \"two\"\n{}{}{link}", cluster("A"), cluster("B"))).expect("written");
    path.display().to_string()
}

fn broadcast_to(clusters: &[&str]) {
    for strategy in strategies() {
        let experiment = Experiment::new();
        let source = experiment.file("source", BYTES);
        let receivers = clusters.len().to_string();
        let gauge = gauge(&experiment);
        let words = ["--receivers", &receivers, "--strategy", &strategy, "--gauge", &gauge, "--cluster", "A", "--json"];
        let send = experiment.send([source.to_str().expect("it is text")].into_iter().chain(words));
        let copies: Vec<String> = (0..clusters.len()).map(|number| format!("copy{number}")).collect();
        let receive = |(copy, cluster): (&String, &&str)| experiment.recv(copy, [copy, "--cluster", cluster]);
        let receivers: Vec<_> = copies.iter().zip(clusters).map(receive).collect();
        receivers.into_iter().for_each(|receiver| _ = receiver.succeeds());
        let report = send.succeeds().json();
        // Before anybody has joined there is nothing to compare.
        assert_eq!(report["strategy"], if strategy == "auto" { "mob" } else { &strategy });
        for copy in &copies {
            assert!(fs::read(experiment.path(copy)).expect("there") == data(BYTES), "{strategy}: {copy}");
        }
        assert_eq!(names(&experiment.path("")).len(), copies.len() + 3, "{strategy}: nothing partial is left");
    }
}

#[test]
fn every_strategy_serves_one_cluster() {
    broadcast_to(&["A", "A", "A"]);
}

#[test]
fn every_strategy_serves_two_clusters() {
    broadcast_to(&["A", "B", "B", "A", "B"]);
}

#[test]
fn a_group_that_has_gathered_gets_what_is_predicted_to_be_fastest() {
    for (clusters, bytes, expected) in [
        (vec!["A", "A", "A"], 10_000, "in one frame to each: 10 kB to 3 nodes in one cluster, predicted "),
        (vec!["A", "A", "A"], BYTES, "two-trees: 3 MB to 3 nodes in one cluster, predicted "),
        (vec!["A", "B", "B"], BYTES, "3 MB to 3 nodes in 2 clusters, predicted "),
    ] {
        let experiment = Experiment::new();
        let source = experiment.file("source", bytes);
        let gauge = gauge(&experiment);
        let words = ["--receivers", "3", "--gather", "--gauge", &gauge, "--cluster", "A", "--json"];
        let send = experiment.send([source.to_str().expect("it is text")].into_iter().chain(words));
        let receive = |(number, cluster): (usize, &&str)| {
            experiment.recv(&format!("node{number}"), [&*format!("copy{number}"), "--cluster", cluster])
        };
        let receivers: Vec<_> = clusters.iter().enumerate().map(receive).collect();
        receivers.into_iter().for_each(|receiver| _ = receiver.succeeds());
        let ended = send.succeeds();
        let report = ended.json();
        let reason = report["choice"]["reason"].as_str().expect("the root says why");
        assert!(reason.contains(expected), "{reason}");
        let predicted = report["choice"]["predicted_seconds"].as_object().expect("the root says what it compared");
        let strategy = report["strategy"].as_str().expect("it has a name");
        assert!(predicted.contains_key("mob") && predicted.contains_key(strategy), "{report}");
        assert!(ended.stderr.contains(reason), "{}", ended.stderr);
        for number in 0..3 {
            assert!(fs::read(experiment.path(format!("copy{number}"))).expect("there") == data(bytes), "{reason}");
        }
    }
}

#[test]
fn who_does_not_gather_in_time_is_not_waited_for() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 10);
    let words = ["--receivers", "2", "--gather", "--wait", "500ms"];
    let ended = experiment.send([source.to_str().expect("it is text")].into_iter().chain(words)).wait();
    assert_eq!(ended.code, 4, "{}", ended.stderr);
    assert!(ended.stderr.contains("0 of 2 receivers joined within 0.5 s; give it longer"), "{}", ended.stderr);
    let ended = run(["send", "nowhere", "--receivers", "2", "--gather"]);
    assert_eq!(ended.code, 5, "it does not wait for receivers of nothing: {}", ended.stderr);
}

#[test]
fn who_plans_for_a_network_has_to_know_it() {
    let experiment = Experiment::new();
    let source = experiment.file("source", 10);
    for strategy in ["balanced", "fpfr", "optimal-trees"] {
        let ended = run(["send", source.to_str().expect("it is text"), "--strategy", strategy]);
        assert_eq!(ended.code, 2, "{}", ended.stderr);
        assert!(ended.complaint().contains("--gauge FILE or --gauge measure"), "{}", ended.stderr);
    }
    let missing = experiment.path("none.toml");
    let missing = missing.to_str().expect("it is text");
    let ended = run(["send", source.to_str().expect("it is text"), "--strategy", "balanced", "--gauge", missing]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("none.toml"), "{}", ended.stderr);
}

#[test]
fn who_has_the_network_measured_has_to_gather_those_who_measure() {
    let ended = run(["send", "nowhere", "--strategy", "balanced", "--gauge", "measure"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.complaint().contains("add --gather and --receivers N"), "{}", ended.stderr);
}

#[test]
fn members_measure_the_network_and_plans_are_for_what_they_found() {
    let experiment = Experiment::new();
    let source = experiment.file("source", BYTES);
    let words = "--receivers 3 --gather --gauge measure --strategy optimal-trees --cluster A --json".split(' ');
    let send = experiment.send([source.to_str().expect("it is text")].into_iter().chain(words));
    let receive = |(number, cluster): (usize, &str)| {
        experiment.recv(&format!("node{number}"), [&*format!("copy{number}"), "--cluster", cluster])
    };
    let receivers: Vec<_> = ["A", "B", "B"].into_iter().enumerate().map(receive).collect();
    receivers.into_iter().for_each(|receiver| _ = receiver.succeeds());
    let ended = send.succeeds();
    let report = ended.json();
    let gauge = &report["gauge"];
    assert_eq!(gauge["links"].as_array().map(Vec::len), Some(2), "{report}");
    let is_positive = |value: &serde_json::Value| value.as_f64().is_some_and(|value| value > 0.0);
    assert!(["seconds", "bytes", "probes"].iter().all(|what| is_positive(&gauge[*what])), "{gauge}");
    assert!(is_positive(&gauge["links"][0]["mb_s"]) && is_positive(&gauge["links"][0]["rtt_ms"]), "{gauge}");
    assert!(ended.stderr.contains("measured the network: A to B "), "{}", ended.stderr);
    assert!(!ended.stderr.contains("warning"), "{}", ended.stderr);
    let copies = report["wan_copies"]["B"].as_f64().expect("B imports");
    assert!((1.0..1.001).contains(&copies), "the plan is followed: {copies}");
    for number in 0..3 {
        assert!(fs::read(experiment.path(format!("copy{number}"))).expect("there") == data(BYTES), "{number}");
    }
}

#[test]
fn a_cluster_that_the_gauge_does_not_know_is_warned_of() {
    let experiment = Experiment::new();
    let source = experiment.file("source", BYTES);
    let gauge = gauge(&experiment);
    let words = ["--receivers", "1", "--strategy", "optimal-trees", "--gauge", &gauge, "--cluster", "A"];
    let send = experiment.send([source.to_str().expect("it is text")].into_iter().chain(words));
    experiment.recv("node", ["copy", "--cluster", "elsewhere"]).succeeds();
    let ended = send.succeeds();
    assert!(ended.stderr.contains("warning: no plan for optimal-trees"), "{}", ended.stderr);
    assert!(ended.stderr.contains("no cluster \"elsewhere\": it has A, B"), "{}", ended.stderr);
}

#[test]
fn that_the_gauge_does_not_know_the_sender_s_own_cluster_is_warned_of_once() {
    for (more, warning) in [
        (&["--strategy", "optimal-trees"][..], "warning: no plan for optimal-trees"),
        (&["--gather"][..], "warning: optimal-trees cannot be chosen: "),
    ] {
        let experiment = Experiment::new();
        let source = experiment.file("source", BYTES);
        let gauge = gauge(&experiment);
        let words = [source.to_str().expect("it is text"), "--receivers", "2", "--gauge", &gauge];
        let send = experiment.send(words.into_iter().chain(more.iter().copied()));
        let receivers = ["copy0", "copy1"].map(|copy| experiment.recv(copy, [copy, "--cluster", "A"]));
        receivers.into_iter().for_each(|receiver| _ = receiver.succeeds());
        let ended = send.succeeds();
        assert_eq!(ended.stderr.matches("warning").count(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains(warning), "{}", ended.stderr);
        assert!(ended.stderr.contains("name nodes' clusters with --cluster"), "{}", ended.stderr);
    }
}

#[test]
fn a_gauge_of_which_no_use_is_made_is_warned_of() {
    for (more, why) in [
        (&["--strategy", "mob"][..], "strategy mob does not plan for a network"),
        (&[][..], "without --gather no strategies are compared"),
    ] {
        let experiment = Experiment::new();
        let source = experiment.file("source", 10);
        let gauge = gauge(&experiment);
        let words = [source.to_str().expect("it is text"), "--receivers", "1", "--wait", "100ms", "--gauge", &gauge];
        let ended = experiment.send(words.into_iter().chain(more.iter().copied())).wait();
        let warning = format!("warning: --gauge is of no use here: {why}");
        assert!(ended.code == 4 && ended.stderr.contains(&warning), "{}", ended.stderr);
    }
}

#[test]
fn an_unknown_strategy_is_answered_with_those_that_there_are() {
    let ended = run(["send", "x", "--strategy", "hope"]);
    assert_eq!(ended.code, 2);
    assert!(strategies().iter().all(|name| ended.stderr.contains(name.as_str())), "{}", ended.stderr);
}
