//! 500 groups in which everything goes wrong that may: what must hold, holds. A violation names its seed and the command that
//! shows it again. Other seeds: `mobcast-sim faults`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use mobcast_sim::faults::{self, Summary};

const SEEDS: u64 = 500;

/// Runs all seeds on all processors; in the order of the seeds.
fn run_all(seeds: u64) -> Vec<Summary> {
    let (next, results) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let jobs = std::thread::available_parallelism().map_or(1, |jobs| jobs.get());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    let result = faults::run(seed);
                    results.lock().unwrap().push((seed, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(seed, _)| *seed);
    let replay = |seed: u64| format!("replay: cargo run --release -p mobcast-sim -- faults --seed {seed} --trace");
    let violations: Vec<String> = results
        .iter()
        .filter_map(|(seed, result)| {
            let violation = result.as_ref().err()?;
            Some(format!("seed {seed}: at {:?} {}; {}", violation.at, violation.what, replay(*seed)))
        })
        .collect();
    assert!(violations.is_empty(), "{}", violations.join("\n"));
    results.into_iter().filter_map(|(_, result)| result.ok()).collect()
}

fn median(mut values: Vec<u32>) -> u32 {
    values.sort_unstable();
    values[values.len() / 2]
}

#[test]
fn whatever_goes_wrong_nobody_hangs_or_loses_what_is_there() {
    let summaries = run_all(SEEDS);
    let median = |of: fn(&Summary) -> u32| median(summaries.iter().map(of).collect());
    let [nodes, pieces, hit] = [median(|s| s.machines), median(|s| s.pieces), median(|s| s.hit)];
    println!("median of {nodes} nodes, {pieces} pieces, {hit} faults that hit");
    assert!(nodes >= 12 && pieces >= 64 && hit >= 3, "the faults are too tame to mean anything");
    let count = |of: fn(&Summary) -> bool| summaries.iter().filter(|summary| of(summary)).count();
    let [coordinators, roots, gave_up] =
        [count(|s| s.coordinator_died), count(|s| s.root_died), count(|s| s.gave_up > 0)];
    println!("the coordinator died in {coordinators}, a root in {roots}, something was given up in {gave_up}");
    assert!(coordinators > 100 && roots > 80 && gave_up > 20, "the faults are too tame to mean anything");
}

#[test]
fn a_seed_is_a_run() {
    let hash = |seed| faults::run(seed).expect("holds").trace_hash;
    assert_eq!(hash(3), hash(3));
    assert_ne!(hash(3), hash(4));
}
