//! Broadcasts of every kind of object to three receivers in two clusters.

mod common;


use common::*;
use mobcast::{BroadcastOptions, Source};

#[tokio::test(flavor = "multi_thread")]
async fn a_file_reaches_three_receivers_in_two_clusters() {
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("weights.bin");
    let bytes = pattern(20_000_000);
    std::fs::write(&source, &bytes).expect("written");
    let (root, receivers) = group(&["a", "b", "b"]).await;
    let mut broadcast = root.broadcast(Source::path(&source), BroadcastOptions::default()).await.expect("started");
    let mut tasks = Vec::new();
    for (i, receiver) in receivers.iter().cloned().enumerate() {
        let path = dir.path().join(format!("copy{i}"));
        tasks.push(tokio::spawn(async move { receive_path(&receiver, &path).await.map(|(b, c)| (b, c, path)) }));
    }
    for task in tasks {
        let (mut broadcast, completed, path) = task.await.expect("no panic").expect("received");
        assert_eq!(completed.path.as_deref(), Some(&*path));
        assert_eq!(completed.object_hash.to_string(), blake3::hash(&bytes).to_string());
        assert!(std::fs::read(&path).expect("there") == bytes);
        within(broadcast.released()).await.expect("released");
        let report = broadcast.report().await;
        assert_eq!(report.nodes.len(), 1);
        assert!(report.nodes[0].verified);
    }
    within(broadcast.released()).await.expect("released");
    let report = broadcast.report().await;
    assert_eq!(report.nodes.len(), 4, "{report:?}");
    assert!(report.nodes.iter().all(|node| node.verified));
    assert_eq!(report.object_hash, blake3::hash(&bytes).to_string());
    let copies = report.wan_copies["b"];
    assert!((0.99..=1.1).contains(&copies), "{copies} copies");
    drop(broadcast);
    for group in receivers.into_iter().chain([root]) {
        within(group.leave()).await;
    }
}
