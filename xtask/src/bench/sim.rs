//! `cargo xtask bench sim`: how fast the simulator is, and whether the striping paper's figures come out of it. Runs the released
//! command; its lines tell how many events it handled.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use wait4::Wait4;

use crate::repository;
use crate::steps::cargo;

/// What can be asked for.
pub const HELP: &str = "\
cargo xtask bench sim [--rounds N]
cargo xtask bench sim --fluid [NODES CLUSTERS PIECES]

  without --fluid: packet events in a second on one core, and the figures of the striping paper
  (docs/reproducing/striping.md); five rounds of 45 s without --rounds
  --fluid: the real protocol in the fluid model, time and memory for each node and piece; five rounds of 1,000 nodes in
  10 clusters and 100 pieces of 128 KiB, or one of the size that is given (docs/reproducing/scale.md: 10000 10 1000, and 100000 50 500)
  figures that take longer have commands of their own: `cargo run --release -p mobcast-sim --example hosts 10000 10000`,
  `cargo run --release -p mobcast-sim -- faults --seeds 10000`
";

const ROUNDS: usize = 5;
const EXPERIMENT: &str = "scenarios/experiments/striping-nodes.toml";

/// Pieces in the fluid runs, KiB.
const FLUID_PIECE_KIB: u32 = 128;

/// One round: how long it took, and its lines.
struct Round {
    seconds: f64,
    lines: Vec<Value>,
}

/// Measures; none if the words make no sense.
pub fn run(words: &[&str]) -> Option<bool> {
    let rounds = match words {
        [] => ROUNDS,
        ["--fluid"] => return Some(report(fluid(1_000, 10, 100, ROUNDS))),
        ["--fluid", nodes, clusters, pieces] => {
            let [nodes, clusters, pieces] = [nodes, clusters, pieces].map(|word| word.parse().ok().filter(|&n| n > 0));
            return Some(report(fluid(nodes?, clusters?, pieces?, 1)));
        }
        ["--rounds", number] => number.parse().ok().filter(|rounds| *rounds > 0)?,
        _ => return None,
    };
    if !cargo(&["build", "--release", "--package", "mobcast-sim"]) {
        return Some(false);
    }
    let directory = repository::root().join("target/sim");
    if let Err(error) = std::fs::create_dir_all(&directory) {
        eprintln!("{}: {error}", directory.display());
        return Some(false);
    }
    let output = directory.join("striping-nodes.jsonl");
    // There may be none. Lines of an earlier form of the experiment would be in the way.
    let _ = std::fs::remove_file(&output);
    let all: Result<Vec<Round>, String> = (0..rounds).map(|_| round(&output)).collect();
    Some(report(all.map(|rounds| print(&rounds))))
}

/// Prints why something did not work, if it did not.
fn report(result: Result<(), String>) -> bool {
    result.inspect_err(|error| eprintln!("{error}")).is_ok()
}

/// The real protocol in the fluid model: seconds of real time for each node and piece, and memory.
fn fluid(nodes: u64, clusters: u64, pieces: u64, rounds: usize) -> Result<(), String> {
    if !cargo(&["build", "--release", "--package", "mobcast-sim", "--example", "scale"]) {
        return Err("the example does not build".to_owned());
    }
    let program = repository::built("release/examples/scale");
    // As many in each cluster.
    let nodes = nodes.div_ceil(clusters) * clusters;
    let words = [nodes / clusters, clusters, pieces, 1, u64::from(FLUID_PIECE_KIB)].map(|n| n.to_string());
    let (mut seconds, mut memory) = (Vec::new(), 0);
    for _ in 0..rounds {
        let began = Instant::now();
        // The books of thousands of nodes take gigabytes: huge pages save an eighth of the time.
        let mut run = Command::new(&program);
        run.args(&words).env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
        let mut child = run.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let ended = child.wait4().map_err(|error| format!("{}: {error}", program.display()))?;
        if !ended.status.success() {
            return Err(format!("{} {} ended with {}", program.display(), words.join(" "), ended.status));
        }
        seconds.push(began.elapsed().as_secs_f64());
        memory = memory.max(ended.rusage.maxrss);
    }
    let each: Vec<f64> = seconds.iter().map(|s| s * 1e6 / (nodes * pieces) as f64).collect();
    println!("{nodes} nodes in {clusters} clusters, {pieces} pieces");
    println!("real time, seconds                     {}", spread(seconds));
    println!("for a node and piece         (goal 6)  {} µs", spread(each));
    println!("largest resident memory                {} MiB", memory >> 20);
    Ok(())
}

fn round(output: &Path) -> Result<Round, String> {
    let program: PathBuf = repository::built("release/mobcast-sim");
    let began = Instant::now();
    let mut run = Command::new(&program);
    run.args(["run", EXPERIMENT, "--output"]).arg(output).current_dir(repository::root());
    let ended = run.output().map_err(|error| format!("{}: {error}", program.display()))?;
    let seconds = began.elapsed().as_secs_f64();
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        return Err(format!("mobcast-sim run {EXPERIMENT} ended with {}:\n{}", ended.status, said.trim()));
    }
    let text = std::fs::read_to_string(output).map_err(|error| format!("{}: {error}", output.display()))?;
    let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    Ok(Round { seconds, lines: lines.map_err(|error| format!("{}: {error}", output.display()))? })
}

fn print(rounds: &[Round]) {
    let lines = &rounds[0].lines;
    let events: u64 = lines.iter().filter_map(|line| line["events"].as_u64()).sum();
    let times: Vec<f64> = rounds.iter().map(|round| round.seconds).collect();
    let rates: Vec<f64> = times.iter().map(|seconds| events as f64 / 1e6 / seconds).collect();
    let same = rounds.iter().all(|round| round.lines == *lines);
    println!("packet events                          {:.0} million in {} cases", events as f64 / 1e6, lines.len());
    println!("packet events in a second    (goal 3)  {} million", spread(rates));
    println!("all cases, seconds          (goal 60)  {}", spread(times));
    println!("the same lines in every round          {}", if same { "yes" } else { "NO" });
    let [before, after] = [51, 52].map(|stripes| seconds_of(lines, (1, 100.0, 160.0, stripes)));
    println!("1 node, 100 Mbit/s, 160 ms             51 stripes {before:.1} s, 52 stripes {after:.1} s");
    let [few, many] = [4, 64].map(|stripes| seconds_of(lines, (8, 10.0, 20.0, stripes)));
    println!("8 nodes, 10 Mbit/s, 20 ms    (goal 5)  64 stripes {:.1} times the time of 4", many / few);
}

/// Seconds of a case: nodes, Mbit/s, round trip in ms, stripes.
fn seconds_of(lines: &[Value], (nodes, rate, rtt, stripes): (u64, f64, f64, u64)) -> f64 {
    let is = |line: &&Value| {
        line["nodes"] == nodes
            && line["between_mbit_per_s"] == rate
            && line["round_trip_ms"] == rtt
            && line["stripes"] == stripes
    };
    lines.iter().find(is).and_then(|line| line["seconds"].as_f64()).unwrap_or(f64::NAN)
}

/// The median, the least and the greatest.
fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
    format!("{:.1} ({:.1}–{:.1})", (low + high) / 2.0, values[0], values[values.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_stands_between_its_ends() {
        assert_eq!(spread(vec![3.0, 1.0, 2.0, 10.0]), "2.5 (1.0–10.0)");
        assert_eq!(spread(vec![3.0, 1.0, 2.0]), "2.0 (1.0–3.0)");
    }

    #[test]
    fn a_case_is_found_by_its_network() {
        let line = |stripes: u64, seconds: f64| {
            serde_json::json!({
                "nodes": 1, "between_mbit_per_s": 100.0, "round_trip_ms": 160.0, "stripes": stripes, "seconds": seconds,
            })
        };
        let lines = [line(51, 5.1), line(52, 9.0)];
        assert_eq!(seconds_of(&lines, (1, 100.0, 160.0, 52)), 9.0);
        assert!(seconds_of(&lines, (8, 100.0, 160.0, 52)).is_nan());
    }

    #[test]
    fn words_that_make_no_sense_are_refused() {
        assert_eq!(run(&["--rounds", "0"]), None);
        assert_eq!(run(&["fast"]), None);
        assert_eq!(run(&["--fluid", "1000", "0", "100"]), None);
        assert_eq!(run(&["--fluid", "1000"]), None);
    }
}
