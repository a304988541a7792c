//! The command `mobcast-sim`, as it is seen from outside.

use std::process::{Command, Output};

use expect_test::expect;

#[path = "support/files.rs"]
mod files;

use files::{RIVAL, Scenarios, m2};

/// One run of a moment.
const ONE: &str = "sizes_mb = [1.0]\nrepetitions = 1\n";

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mobcast-sim")).args(arguments).env("COLUMNS", "100").output().unwrap()
}

fn run(scenarios: &Scenarios, arguments: &[&str]) -> Output {
    let experiment = scenarios.experiment();
    sim(&[&["run", experiment.to_str().unwrap()], arguments].concat())
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_bad_file_is_named_with_line_and_key() {
    let scenarios = Scenarios::new(&m2(), "sizes_mb = [16.0]\nrepetitions = \"many\"\n");
    let output = run(&scenarios, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("experiment.toml:4: repetitions: "), "{}", errors(&output));
    let broken = Scenarios::new(&m2().replace("rate_mb_per_s = 8.0", "rate_mb_per_s = -8.0"), ONE);
    let output = run(&broken, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("net.toml:") && errors(&output).contains("rate_mb_per_s"), "{}", errors(&output));
    assert_eq!(sim(&["run", "/nowhere.toml"]).status.code(), Some(2));
}

#[test]
fn wrong_usage_and_unknown_strategies_give_2() {
    assert_eq!(sim(&["run"]).status.code(), Some(2));
    assert_eq!(sim(&["run", "x.toml", "--seed", "red"]).status.code(), Some(2));
    let output = run(&Scenarios::new(&m2(), &format!("strategies = [\"mop\"]\n{ONE}")), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        errors(&output).contains("experiment.toml:3: strategies: there is no strategy \"mop\""),
        "{}",
        errors(&output)
    );
    let untold = format!("gauge = false\nstrategies = [\"balanced\"]\n{ONE}");
    let output = run(&Scenarios::new(&m2(), &untold), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        errors(&output).contains("experiment.toml:4: strategies: balanced plans for a network"),
        "{}",
        errors(&output)
    );
}

#[test]
fn a_short_form_that_is_not_there_is_no_reason_to_run_the_whole() {
    let output = run(&Scenarios::new(&m2(), ONE), &["--quick"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(errors(&output).contains("experiment.toml has no short form"), "{}", errors(&output));
}

#[test]
fn whoever_asks_for_loss_is_told_where_there_is_none() {
    let lossy = m2().replacen("rate_mb_per_s = 8.0", "rate_mb_per_s = 8.0\nloss_percent = 0.1", 1);
    let words = |flags: &[&str]| {
        let output = run(&Scenarios::new(&lossy, ONE), flags);
        assert!(output.status.success(), "{}", errors(&output));
        errors(&output)
    };
    let said = "loss_percent: nothing is lost in the fluid model";
    assert!(words(&[]).contains(said));
    assert!(!words(&["--model", "packet"]).contains(said));
}

#[test]
fn lines_go_to_standard_output_and_words_do_not() {
    let scenarios = Scenarios::new(&m2(), &format!("rivals = [\"cat\"]\n{ONE}"));
    scenarios.add("rivals/cat.toml", RIVAL);
    let output = run(&scenarios, &[]);
    assert!(output.status.success(), "{}", errors(&output));
    let lines = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(lines.lines().count(), 1);
    let record: serde_json::Value = serde_json::from_str(&lines).unwrap();
    assert_eq!((&record["outcome"], &record["case"]["instrument"]), (&"complete".into(), &"sim-fluid".into()));
    let words = errors(&output);
    for part in ["skipped: 1 runs of other programs", "trace hash ", "of the optimum", "WAN copies"] {
        assert!(words.contains(part), "{part} in {words}");
    }
    assert_eq!(run(&scenarios, &[]).stdout, output.stdout, "the same seed gives the same line");
    assert_ne!(run(&scenarios, &["--seed", "2"]).stdout, output.stdout);
}

#[test]
fn an_interrupted_experiment_goes_on_where_it_was() {
    let scenarios = Scenarios::new(&m2(), "sizes_mb = [1.0]\nrepetitions = 2\n");
    let file = scenarios.path("lines.jsonl");
    let to = ["--output", file.to_str().unwrap()];
    assert!(run(&scenarios, &to).status.success());
    let whole = std::fs::read_to_string(&file).unwrap();
    assert_eq!(whole.lines().count(), 2);

    let first = whole.lines().next().unwrap();
    std::fs::write(&file, format!("{first}\n{}", &whole[first.len() + 1..first.len() + 90])).unwrap();
    let output = run(&scenarios, &to);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(errors(&output).contains("is cut off") && errors(&output).matches("is there already").count() == 1);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), whole);

    std::fs::write(&file, first).unwrap();
    assert!(run(&scenarios, &to).status.success());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), whole, "a whole line without its end is kept");

    let output = run(&scenarios, &[&to[..], &["--seed", "5"]].concat());
    assert_eq!(output.status.code(), Some(2), "lines of another seed are not mixed in");
    std::fs::write(&file, "{}\n").unwrap();
    let output = run(&scenarios, &to);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("lines.jsonl:1: "), "{}", errors(&output));

    std::fs::write(&file, "what I have to do").unwrap();
    let output = run(&scenarios, &to);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("lines.jsonl:1: "), "{}", errors(&output));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "what I have to do", "a file that is not ours loses nothing");
}

#[test]
fn a_network_that_was_changed_is_run_anew() {
    let scenarios = Scenarios::new(&m2(), "sizes_mb = [1.0]\nrepetitions = 1\n");
    let file = scenarios.path("lines.jsonl");
    let to = ["--output", file.to_str().unwrap()];
    for (topology, lines) in [(m2(), 1), (m2(), 1), (m2().replace("rate_mb_per_s = 3.0", "rate_mb_per_s = 6.0"), 2)] {
        scenarios.add("topologies/net.toml", &topology);
        let output = run(&scenarios, &to);
        assert!(output.status.success(), "{}", errors(&output));
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), lines);
    }
}

#[test]
fn where_nothing_is_limited_no_optimum_is_told() {
    let free = m2().lines().filter(|line| !line.starts_with("rate_mb_per_s")).collect::<Vec<_>>().join("\n");
    let output = run(&Scenarios::new(&free, ONE), &[]);
    assert!(output.status.success(), "{}", errors(&output));
    let words = errors(&output);
    assert!(!words.contains("at best") && !words.contains("of the optimum"), "{words}");
    let row = words.lines().last().unwrap();
    assert_eq!(row.split_whitespace().filter(|cell| *cell == "–").count(), 2, "{words}");
}

#[test]
fn a_failed_run_gives_1_also_when_it_was_there_before() {
    let scenarios = Scenarios::new(&m2(), "sizes_mb = [16.0]\nrepetitions = 1\ntimeout_s = 1.0\n");
    let file = scenarios.path("lines.jsonl");
    for _ in 0..2 {
        let output = run(&scenarios, &["--output", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    }
    assert!(std::fs::read_to_string(&file).unwrap().contains("\"outcome\":\"failed\""));
}

#[test]
fn the_help_names_every_flag() {
    let help = String::from_utf8(sim(&["run", "--help"]).stdout).unwrap();
    expect![[r#"
        Run an experiment's file; rivals are left to the lab

        Usage: mobcast-sim run [OPTIONS] <EXPERIMENT.toml>

        Arguments:
          <EXPERIMENT.toml>  The experiment, like scenarios/experiments/NAME.toml

        Options:
              --quick             The short form, as the file's table `quick` gives it
              --model <MODEL>     How connections share the network: as liquids, or as TCP does, packet by
                                  packet (which takes longer) [default: fluid] [possible values: fluid,
                                  packet]
              --tcp <TCP>         How TCP behaves in the packet model: CUBIC as in Linux, an approximation
                                  of BBR, or Reno as in ns-2 [possible values: cubic, bbr, reno]
              --trace <DIR>       Directory for a trace of each run (packet model): windows and queues over
                                  time, as ns-2 writes them
              --trace-every <MS>  Milliseconds of virtual time between two looks of the trace [default: 100]
              --seed <SEED>       Seed of the experiment, in place of the file's
              --force             Run also what would not fit into the memory that is free
              --output <FILE>     File that lines of results are added to; runs that it holds are not run
                                  again (those of an experiment with stripes are, and take the place of its
                                  earlier ones) [default: standard output]
          -h, --help              Print help
    "#]]
    .assert_eq(&help);
}

/// Four cases of a moment.
const STRIPES: &str = "title = \"stripes\"\n[striping]\nnodes = [1]\nbetween_mbit_per_s = [10]\nround_trip_ms = [20, 40]\n\
                       stripes = [1, 4]\nbytes_per_node = 100_000\nsample_ms = 10.0\n";

#[test]
fn an_experiment_with_stripes_gives_a_line_for_each_case_and_a_table() {
    let directory = tempfile::tempdir().unwrap();
    let [file, lines] = ["s.toml", "s.jsonl"].map(|name| directory.path().join(name).display().to_string());
    std::fs::write(&file, STRIPES).unwrap();
    let output = sim(&["run", &file, "--output", &lines]);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(errors(&output).contains("1      10     40    50 |"), "{}", errors(&output));
    let written = std::fs::read_to_string(&lines).unwrap();
    let records: Vec<serde_json::Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 4);
    assert!(records.iter().all(|r| r["sent_packets"] == 98 && r["samples"].as_array().unwrap().len() > 10));
    let again = sim(&["run", &file]);
    assert_eq!(String::from_utf8(again.stdout).unwrap(), written, "the same again");
    std::fs::write(&file, format!("{STRIPES}longest_s = 0.05\n")).unwrap();
    let output = sim(&["run", &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("4 cases take longer than longest_s = 0.05"), "{}", errors(&output));
}

#[test]
fn stripes_take_the_place_of_their_own_lines_alone() {
    let directory = tempfile::tempdir().unwrap();
    let [file, lines] = ["s.toml", "r.jsonl"].map(|name| directory.path().join(name).display().to_string());
    std::fs::write(&file, STRIPES).unwrap();
    assert!(sim(&["run", &file, "--output", &lines]).status.success());
    let own = std::fs::read_to_string(&lines).unwrap();
    let output = sim(&["run", &file, "--output", &lines]);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(std::fs::read_to_string(&lines).unwrap(), own);

    let scenarios = Scenarios::new(&m2(), ONE);
    let of_a_run = String::from_utf8(run(&scenarios, &[]).stdout).unwrap();
    let of_another_file = own.replace("\"striping\":\"s\"", "\"striping\":\"t\"");
    let of_another_case = own.replace("\"stripes\":4", "\"stripes\":5");
    for (others, line) in [(of_a_run, 1), (of_another_file, 1), (of_another_case, 2), (format!("{own}notes\n"), 5)] {
        std::fs::write(&lines, &others).unwrap();
        let output = sim(&["run", &file, "--output", &lines]);
        assert_eq!(output.status.code(), Some(2), "{others}");
        assert!(
            errors(&output).contains(&format!("r.jsonl:{line}: this is no line of a case of s, and would be lost"))
        );
        assert_eq!(std::fs::read_to_string(&lines).unwrap(), others, "nothing is lost");
    }
}

#[test]
fn a_file_that_cannot_be_is_told_before_the_first_case() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(path("s.toml"), STRIPES).unwrap();
    std::fs::create_dir(path("results")).unwrap();
    let output = run(&Scenarios::new(&m2(), ONE), &["--output", &path("none/x.jsonl")]);
    assert_eq!(output.status.code(), Some(5), "{}", errors(&output));
    for output in ["none/s.jsonl", "results"] {
        let output = sim(&["run", &path("s.toml"), "--output", &path(output)]);
        assert_eq!(output.status.code(), Some(5));
        let words = errors(&output);
        assert!(words.contains("name a file that can be written") && !words.contains("4 cases"), "{words}");
    }
    std::fs::write(path("s.jsonl"), "").unwrap();
    std::os::unix::fs::symlink(path("s.jsonl"), path("link")).unwrap();
    let output = sim(&["run", &path("s.toml"), "--output", &path("link")]);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(std::fs::read_to_string(path("s.jsonl")).unwrap().lines().count(), 4, "what a link leads to is written");
    assert!(!directory.path().join("s.jsonl.new").exists());
    let output = sim(&["run", &path("s.toml"), "--output", "/dev/full"]);
    assert_eq!(output.status.code(), Some(5));
    assert!(errors(&output).contains("/dev/full: ") && errors(&output).contains(" stripes\n"), "{}", errors(&output));
}

#[test]
fn lines_that_cannot_be_written_give_5() {
    let scenarios = Scenarios::new(&m2(), ONE);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mobcast-sim"));
    let output = command.arg("run").arg(scenarios.experiment()).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", errors(&output));
    assert!(errors(&output).contains("mobcast-sim: standard output: "), "{}", errors(&output));
}

#[test]
fn whoever_reads_no_further_breaks_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let arguments = ["faults", "--seeds", "1", "--jobs", "1", "--json"];
    let output = Command::new(env!("CARGO_BIN_EXE_mobcast-sim")).args(arguments).stdout(writer).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
}

#[test]
fn flags_that_stripes_do_not_follow_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let [file, trace] = ["s.toml", "trace"].map(|name| directory.path().join(name).display().to_string());
    std::fs::write(&file, STRIPES).unwrap();
    let flags: [&[&str]; 7] = [
        &["--quick"],
        &["--model", "packet"],
        &["--model", "fluid"],
        &["--tcp", "cubic"],
        &["--trace", &trace],
        &["--seed", "1"],
        &["--force"],
    ];
    for flag in flags {
        let output = sim(&[&["run", &file], flag].concat());
        assert_eq!(output.status.code(), Some(2), "{flag:?}");
        let words = errors(&output);
        assert!(words.contains(&format!("{}: ", flag[0])) && words.contains("s.toml has stripes: "), "{words}");
        assert!(output.stdout.is_empty(), "{flag:?}");
    }
}

#[test]
fn seeds_of_the_faults_machine_hold_and_one_is_told_in_words() {
    let output = sim(&["faults", "--seeds", "4", "--jobs", "2", "--json"]);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(errors(&output).contains("4 seeds: 0 violations; median of "), "{}", errors(&output));
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&object["seeds"], &object["violations"]), (&4.into(), &serde_json::json!({})));

    let output = sim(&["faults", "--seed", "3", "--trace", "5", "--only", "none"]);
    let words = errors(&output);
    assert!(output.status.success() && words.contains("seed 3: clusters of "), "{words}");
    assert_eq!(words.lines().filter(|line| line.contains(" s  machine ")).count(), 5, "{words}");
    assert_eq!(sim(&["faults", "--trace"]).status.code(), Some(2), "of which seed?");
    assert_eq!(sim(&["faults", "--seed", "3", "--only", "some"]).status.code(), Some(2));
}

#[test]
fn a_trace_tells_of_windows_and_queues_and_changes_nothing() {
    let scenarios = Scenarios::new(&m2(), ONE);
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let plain = run(&scenarios, &["--model", "packet"]);
    let traced = run(&scenarios, &["--model", "packet", "--trace", trace.to_str().unwrap(), "--trace-every", "1"]);
    assert!(traced.status.success(), "{}", errors(&traced));
    assert_eq!((&plain.stdout, errors(&plain)), (&traced.stdout, errors(&traced)));
    let record: serde_json::Value = serde_json::from_slice(&traced.stdout).unwrap();
    let read = |what: &str| std::fs::read_to_string(trace.join(format!("1-{what}.tr"))).unwrap();
    let (connections, queues) = (read("connections"), read("queues"));
    let windows: Vec<f64> = connections
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|words| words[5] == "cwnd_")
        .map(|words| words[6].parse().unwrap())
        .collect();
    assert_eq!(windows[0], 10.0, "the first window");
    assert!(windows.iter().any(|window| *window > 20.0), "it opens");
    // As ns-2 writes a monitored queue: what arrived has left, was dropped or waits.
    for line in queues.lines() {
        let numbers: Vec<u64> = line.split(' ').skip(3).map(|word| word.parse().unwrap()).collect();
        let [bytes, packets, arrived, left, dropped, bytes_arrived, bytes_left, bytes_dropped] = numbers[..] else {
            panic!("{line}: eight numbers stand behind the ends of a queue");
        };
        assert_eq!((arrived, bytes_arrived), (left + dropped + packets, bytes_left + bytes_dropped + bytes), "{line}");
    }
    let resent: Vec<&str> = connections.lines().filter(|line| line.contains(" nrexmitpack_ ")).collect();
    let is_counted = |line: &&str| line.rsplit(' ').next().unwrap().parse::<u64>().is_ok();
    assert!(!resent.is_empty() && resent.iter().all(is_counted), "{resent:?}");
    // What a link had carried at the last look is nearly what the line of results says it carried.
    let wan = &record["wan"][0];
    let (from, to) = (wan["from"].as_str().unwrap(), wan["to"].as_str().unwrap());
    let left = queues.lines().rev().map(|line| line.split(' ').collect::<Vec<_>>());
    let last = left.into_iter().find(|words| (words[1], words[2]) == (from, to)).unwrap();
    let (seen, bytes) = (last[9].parse::<f64>().unwrap(), wan["bytes"].as_f64().unwrap());
    assert!(seen <= bytes && seen > 0.9 * bytes, "{seen} of {bytes}");
    let fluid = run(&scenarios, &["--trace", trace.to_str().unwrap()]);
    assert_eq!(fluid.status.code(), Some(2));
    assert!(errors(&fluid).contains("--model packet"), "{}", errors(&fluid));
}

#[test]
fn what_would_not_fit_into_memory_is_said_before_anything_runs() {
    let huge = m2().replace("nodes = 4", "nodes = 20000");
    let scenarios = Scenarios::new(&huge, "sizes_mb = [8000.0]\npiece_size = 16384\nrepetitions = 1\n");
    let output = run(&scenarios, &[]);
    assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
    assert!(errors(&output).contains("GiB of memory"), "{}", errors(&output));
    assert!(output.stdout.is_empty());
}
