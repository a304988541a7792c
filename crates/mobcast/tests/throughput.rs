//! How fast one node sends to another on this machine, and what it costs. Not a test of anything:
//! `cargo test --release -p mobcast --test throughput -- --ignored --nocapture`
//!
//! `MOBCAST_BENCH_MIB` is the size of the object (1024), `MOBCAST_BENCH_DIR` where its files are (`/dev/shm`), and
//! `MOBCAST_BENCH_ONLY` an arm, such as `file` or `plain file`, `MOBCAST_BENCH_REPEATS` how often each is run (3);
//! `MOBCAST_BENCH_PIECE_KIB` is the size of a piece (chosen by itself).

mod common;

use std::path::{Path, PathBuf};
use std::time::Instant;

use common::*;
use mobcast::{BroadcastOptions, Group, GroupOptions, Sink, SinkOptions, Source};

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// Processor seconds of this process, user and system together, and its largest resident memory in MiB.
fn usage() -> (f64, u64) {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name in brackets").split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux");
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    // USER_HZ is 100 on every Linux.
    (ticks as f64 / 100.0, kib >> 10)
}

/// One arm: from `source` to `receivers` sinks.
async fn measure(what: &str, bytes: u64, plain: bool, source: Source, sinks: Vec<Sink>) {
    let named = |name: &str, cluster: &str| GroupOptions { plain, ..options(name, cluster) };
    let root = Group::create(named("root", "a")).await.expect("a group");
    let ticket = root.ticket().expect("the founder's").clone();
    let mut receivers = Vec::new();
    for i in 0..sinks.len() {
        receivers
            .push(within(Group::join(&ticket, named(&format!("receiver{i}"), "a"), LONG)).await.expect("admitted"));
    }
    let delivered = bytes as f64 * sinks.len() as f64 / 1e9;
    let (before, start) = (usage().0, Instant::now());
    let piece_size = setting("MOBCAST_BENCH_PIECE_KIB", "").parse::<u32>().ok().map(|kib| kib << 10);
    let options = BroadcastOptions { piece_size, ..BroadcastOptions::default() };
    let mut broadcast = root.broadcast(source, options).await.expect("started");
    let tasks: Vec<_> = receivers
        .iter()
        .cloned()
        .zip(sinks)
        .map(|(receiver, sink)| {
            tokio::spawn(async move {
                let offer = receiver.next_offer().await?;
                let mut received = offer.receive(sink, SinkOptions { force: true, preserve: false }).await?;
                received.complete().await
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic").expect("received");
    }
    let elapsed = start.elapsed().as_secs_f64();
    within(broadcast.released()).await.expect("released");
    let (after, peak) = usage();
    let payload = if plain { "plain " } else { "sealed" };
    println!(
        "{what:24} {payload} {:6.2} GB/s  {:5.2} s/GB  {elapsed:6.2} s, peak {peak} MiB",
        delivered / elapsed,
        (after - before) / delivered
    );
    drop(broadcast);
    for group in receivers.into_iter().chain([root]) {
        within(group.leave()).await;
    }
}

fn write_source(path: &Path, bytes: u64) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).expect("created");
    let block = pattern(1 << 20);
    for _ in 0..bytes >> 20 {
        file.write_all(&block).expect("written");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: takes seconds and gigabytes"]
async fn one_to_one_and_one_to_four() {
    trace();
    let mib: u64 = setting("MOBCAST_BENCH_MIB", "1024").parse().expect("a number");
    let only = setting("MOBCAST_BENCH_ONLY", "");
    let bytes = mib << 20;
    let dir = tempfile::tempdir_in(setting("MOBCAST_BENCH_DIR", "/dev/shm")).expect("a directory");
    let from = dir.path().join("source");
    write_source(&from, bytes);
    let to = |i: usize| -> PathBuf { dir.path().join(format!("copy{i}")) };
    let repeats: usize = setting("MOBCAST_BENCH_REPEATS", "3").parse().expect("a number");
    // The first round also warms up the memory of a virtual machine.
    for plain in std::iter::repeat_n([true, false], repeats).flatten() {
        let payload = if plain { "plain" } else { "sealed" };
        let wanted = |arm: &str| only.is_empty() || only == arm || only == format!("{payload} {arm}");
        if wanted("synthetic") {
            let sinks = vec![Sink::verify_only()];
            measure("synthetic to verify-only", bytes, plain, Source::synthetic(bytes, 1), sinks).await;
        }
        if wanted("file") {
            measure("file to file", bytes, plain, Source::path(&from), vec![Sink::path(Some(to(0)))]).await;
            std::fs::remove_file(to(0)).expect("there");
        }
        if wanted("four") {
            let sinks = (0..4).map(|i| Sink::path(Some(to(i)))).collect();
            measure("file to four files", bytes, plain, Source::path(&from), sinks).await;
            (0..4).for_each(|i| std::fs::remove_file(to(i)).expect("there"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn small_objects_to_fifteen_receivers() {
    trace();
    let (root, receivers) = group(&["a"; 15]).await;
    // The control tree takes its shape while the nodes report for the first time.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let (mut received, mut known) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let start = Instant::now();
        let mut broadcast = root.broadcast(Source::bytes(*b"x"), BroadcastOptions::default()).await.expect("started");
        let tasks: Vec<_> = receivers
            .iter()
            .cloned()
            .map(|receiver| tokio::spawn(async move { receive(&receiver, Sink::bytes(1)).await?.complete().await }))
            .collect();
        for task in tasks {
            task.await.expect("no panic").expect("received");
        }
        received.push(start.elapsed().as_secs_f64() * 1e3);
        within(broadcast.released()).await.expect("released");
        known.push(start.elapsed().as_secs_f64() * 1e3);
    }
    for (what, mut times) in [("all have it", received), ("the root knows that", known)] {
        times.sort_by(f64::total_cmp);
        println!("1 byte to 15 receivers, {what}: median {:.2} ms, 90 % within {:.2} ms", times[50], times[90]);
    }
}
