//! A group of nodes in one process, over real sockets on loopback.

#![allow(dead_code, reason = "each test file uses its own part of it")]

use std::path::Path;
use std::time::Duration;

use mobcast::{Broadcast, Completed, Error, Group, GroupOptions, Sink, SinkOptions};

/// Longer than anything here takes.
pub const LONG: Duration = Duration::from_secs(60);

/// Options of a node on loopback, in a cluster.
pub fn options(name: &str, cluster: &str) -> GroupOptions {
    GroupOptions {
        name: name.into(),
        cluster: Some(cluster.into()),
        listen: Some("127.0.0.1:0".parse().expect("an address")),
        ..GroupOptions::default()
    }
}

/// A coordinator in cluster "a" and receivers in these clusters.
pub async fn group(clusters: &[&str]) -> (Group, Vec<Group>) {
    trace();
    let root = Group::create(options("root", "a")).await.expect("a group");
    let mut receivers = Vec::new();
    for (i, cluster) in clusters.iter().enumerate() {
        receivers.push(join(&root, &format!("receiver{i}"), cluster).await);
    }
    (root, receivers)
}

/// Shows what `RUST_LOG` asks for.
pub fn trace() {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    // Another test may have been first.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
}

/// Joins a node to the group.
pub async fn join(root: &Group, name: &str, cluster: &str) -> Group {
    let ticket = root.ticket().expect("the founder's");
    within(Group::join(ticket, options(name, cluster), LONG)).await.expect("admitted")
}

/// Takes the next offer of a node.
pub async fn receive(group: &Group, sink: Sink) -> Result<Broadcast, Error> {
    let offer = within(group.next_offer()).await?;
    within(offer.receive(sink, SinkOptions::default())).await
}

/// Takes the next offer of a node to a path, and waits until it is there.
pub async fn receive_path(group: &Group, path: &Path) -> Result<(Broadcast, Completed), Error> {
    let mut broadcast = receive(group, Sink::path(Some(path.to_owned()))).await?;
    let completed = within(broadcast.complete()).await?;
    Ok((broadcast, completed))
}

/// Takes the next offer of a node into memory.
pub async fn receive_bytes(group: &Group) -> Result<(Broadcast, Completed), Error> {
    let mut broadcast = receive(group, Sink::bytes(1 << 30)).await?;
    let completed = within(broadcast.complete()).await?;
    Ok((broadcast, completed))
}

/// What should be over soon.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("it should not take a minute")
}

/// Bytes that differ from place to place.
pub fn pattern(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    mobcast_pattern(&mut bytes);
    bytes
}

fn mobcast_pattern(bytes: &mut [u8]) {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"pattern").finalize_xof().fill(bytes);
}
