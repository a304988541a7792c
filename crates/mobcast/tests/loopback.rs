//! Broadcasts of every kind and size of object, from one root to three receivers in two clusters.

mod common;

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};

use common::*;
use mobcast::{BroadcastOptions, Group, Sink, Source};

const CLUSTERS: [&str; 3] = ["a", "b", "b"];

async fn leave(root: Group, receivers: Vec<Group>) {
    for group in receivers.into_iter().chain([root]) {
        within(group.leave()).await;
    }
}

/// Broadcasts from `root` to all `receivers`' memory, and compares.
async fn broadcast_bytes(root: &Group, receivers: &[Group], source: Source, options: BroadcastOptions, bytes: &[u8]) {
    let mut broadcast = within(root.broadcast(source, options)).await.expect("started");
    let tasks: Vec<_> =
        receivers.iter().cloned().map(|receiver| tokio::spawn(async move { receive_bytes(&receiver).await })).collect();
    for task in tasks {
        let (mut broadcast, completed) = task.await.expect("no panic").expect("received");
        assert_eq!(completed.bytes, bytes.len() as u64);
        assert!(completed.data.expect("in memory")[..] == *bytes);
        assert_eq!(completed.object_hash.0, *blake3::hash(bytes).as_bytes());
        assert_eq!(Some(broadcast.progress().pieces), broadcast.progress().pieces_total);
        within(broadcast.released()).await.expect("released");
    }
    let completed = within(broadcast.complete()).await.expect("complete");
    assert_eq!(completed.object_hash.0, *blake3::hash(bytes).as_bytes());
    assert_eq!(Some(broadcast.progress().pieces), broadcast.progress().pieces_total);
    within(broadcast.released()).await.expect("released");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_reaches_every_receiver_and_is_imported_once_per_cluster() {
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("weights.bin");
    let bytes = pattern(20_000_000);
    std::fs::write(&source, &bytes).expect("written");
    std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o640)).expect("permitted");
    let (root, receivers) = group(&CLUSTERS).await;
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
        assert_eq!(path.metadata().expect("there").permissions().mode() & 0o7777, 0o640);
        within(broadcast.released()).await.expect("released");
        let report = broadcast.report().await;
        assert_eq!(report.nodes.len(), 1, "its own");
        assert!(report.nodes[0].verified && report.nodes[0].bytes_in_wan + report.nodes[0].bytes_in_lan > 0);
    }
    within(broadcast.released()).await.expect("released");
    let report = broadcast.report().await;
    assert_eq!(report.nodes.len(), 4, "{report:?}");
    assert!(report.nodes.iter().all(|node| node.verified && !node.cluster_reason.is_empty()));
    assert_eq!(report.object_hash, blake3::hash(&bytes).to_string());
    assert_eq!(report.wan_copies.len(), 1, "the root's cluster imports nothing");
    let copies = report.wan_copies["b"];
    assert!((1.0..=1.1).contains(&copies), "{copies} copies");
    let progress = broadcast.progress();
    assert_eq!((progress.bytes, progress.length), (20_000_000, Some(20_000_000)));
    assert!(progress.nodes.iter().all(|node| node.state == mobcast::NodeState::Complete && node.bytes == 20_000_000));
    drop(broadcast);
    leave(root, receivers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_every_length_around_a_piece() {
    const PIECE: usize = 16 << 10;
    let (root, receivers) = group(&CLUSTERS).await;
    for len in [0, 1, PIECE - 1, PIECE, PIECE + 1, 64 << 10, 40 * PIECE, 40 * PIECE + 1] {
        let bytes = pattern(len);
        for piece_size in [None, Some(PIECE as u32)] {
            let options = BroadcastOptions { piece_size, ..BroadcastOptions::default() };
            broadcast_bytes(&root, &receivers, Source::bytes(bytes.clone()), options, &bytes).await;
        }
    }
    leave(root, receivers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_every_length() {
    const PIECE: usize = 16 << 10;
    let (root, receivers) = group(&CLUSTERS).await;
    for len in [0, 1, PIECE, 10 * PIECE, 10 * PIECE + 1, 5_000_000] {
        let bytes = pattern(len);
        let options = BroadcastOptions { piece_size: Some(PIECE as u32), ..BroadcastOptions::default() };
        let source = Source::reader(std::io::Cursor::new(bytes.clone()));
        broadcast_bytes(&root, &receivers, source, options, &bytes).await;
    }
    leave(root, receivers).await;
}

/// A writer that others can look into.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Vec<u8>>>);

impl Write for Pipe {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_stream_flows_through_to_a_pipe_before_it_has_ended() {
    let (root, receivers) = group(&["b"]).await;
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let options = BroadcastOptions { piece_size: Some(16 << 10), ..BroadcastOptions::default() };
    let mut broadcast = root.broadcast(Source::reader(reader), options).await.expect("started");
    let pipe = Pipe::default();
    let mut received = receive(&receivers[0], Sink::writer(pipe.clone())).await.expect("accepted");
    let bytes = pattern(200_000);
    writer.write_all(&bytes[..100_000]).expect("room in the pipe");
    within(async {
        // Six whole pieces are in the first half.
        while pipe.0.lock().expect("no panic").len() < 6 * (16 << 10) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    writer.write_all(&bytes[100_000..]).expect("room in the pipe");
    drop(writer);
    assert_eq!(within(received.complete()).await.expect("complete").bytes, 200_000);
    assert!(*pipe.0.lock().expect("no panic") == bytes);
    within(broadcast.released()).await.expect("released");
    drop((broadcast, received));
    leave(root, receivers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_data_is_verified_and_held_nowhere() {
    let (root, receivers) = group(&CLUSTERS).await;
    let source = Source::synthetic(30_000_001, 7);
    let mut broadcast = root.broadcast(source, BroadcastOptions::default()).await.expect("started");
    let tasks: Vec<_> = receivers
        .iter()
        .cloned()
        .map(|receiver| tokio::spawn(async move { receive(&receiver, Sink::verify_only()).await?.complete().await }))
        .collect();
    for task in tasks {
        let completed = within(task).await.expect("no panic").expect("complete");
        assert_eq!(completed.bytes, 30_000_001);
    }
    within(broadcast.released()).await.expect("released");
    drop(broadcast);
    leave(root, receivers).await;
}

fn make_tree(root: &Path) {
    std::fs::create_dir_all(root.join("deep/er")).expect("made");
    std::fs::create_dir(root.join("empty")).expect("made");
    for i in 0..300 {
        std::fs::write(root.join(format!("deep/file{i}")), pattern(i * 37)).expect("written");
    }
    std::fs::write(root.join("deep/er/large"), pattern(3_000_000)).expect("written");
    std::fs::write(root.join("nothing"), b"").expect("written");
    symlink("../nowhere", root.join("deep/link")).expect("linked");
    std::fs::hard_link(root.join("deep/file1"), root.join("same")).expect("linked");
}

fn diff(a: &Path, b: &Path) {
    let output = std::process::Command::new("diff").args(["-r", "--no-dereference"]).args([a, b]).output();
    let output = output.expect("diff is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_arrives_as_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("tree");
    make_tree(&source);
    let (root, receivers) = group(&CLUSTERS).await;
    let options = BroadcastOptions { piece_size: Some(16 << 10), ..BroadcastOptions::default() };
    let mut broadcast = root.broadcast(Source::path(&source), options).await.expect("started");
    let mut tasks = Vec::new();
    for (i, receiver) in receivers.iter().cloned().enumerate() {
        let path = dir.path().join(format!("copy{i}"));
        tasks.push(tokio::spawn(async move { receive_path(&receiver, &path).await.map(|(b, _)| (b, path)) }));
    }
    let mut held = Vec::new();
    for task in tasks {
        let (received, path) = task.await.expect("no panic").expect("received");
        diff(&source, &path);
        held.push(received);
    }
    within(broadcast.released()).await.expect("released");
    drop((broadcast, held));
    leave(root, receivers).await;
}
