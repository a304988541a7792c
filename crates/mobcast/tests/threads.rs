//! What a group leaves behind in its process: nothing. Alone in its file, because it counts the process' threads.

mod common;

use std::time::{Duration, Instant};

use common::*;
use mobcast::{BroadcastOptions, Group, Source};

#[test]
fn a_group_leaves_no_threads_behind() {
    let mobcast_threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.starts_with("mobcast-")).count()
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (root, receivers) = group(&["a", "b"]).await;
        let mut broadcast =
            root.broadcast(Source::bytes(pattern(1_000_000)), BroadcastOptions::default()).await.expect("started");
        for receiver in &receivers {
            receive_bytes(receiver).await.expect("received");
        }
        within(broadcast.released()).await.expect("released");
        drop(broadcast);
        for group in receivers.into_iter().chain([root]) {
            within(group.leave()).await;
        }
        // Dropped without leaving: the same, a little later.
        drop(Group::create(options("root", "a")).await.expect("a group"));
        let deadline = Instant::now() + LONG;
        while mobcast_threads() > 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert_eq!(mobcast_threads(), 0, "threads are left");
}
