//! Pieces that a node has said it has and cannot read when a peer asks for them: the peer is told, and nobody else has to
//! do without.

mod common;
mod hostile_support;

use std::collections::BTreeSet;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use common::*;
use hostile_support::{Link, Puppet};
use mobcast::{Broadcast, BroadcastOptions, Error, EventStream, Group, GroupEvent, GroupOptions, Sink, Source};
use mobcast_proto::PieceIndex;
use mobcast_proto::wire::Frame;
use mobcast_proto::{BroadcastId, ByteRange};

const PIECE: u32 = 16 << 10;

fn options_for(receivers: u32) -> BroadcastOptions {
    BroadcastOptions { receivers: Some(receivers), piece_size: Some(PIECE), ..BroadcastOptions::default() }
}

/// A directory with so many small files.
fn many_files(dir: &Path, count: usize) -> PathBuf {
    let tree = dir.join("tree");
    std::fs::create_dir(&tree).expect("made");
    for file in 0..count {
        let path = tree.join(format!("{file:03}"));
        std::fs::write(&path, &pattern(3_000 + file)[file..]).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("permitted");
    }
    tree
}

fn remove_files(tree: &Path, which: impl Fn(&Path) -> bool) -> usize {
    let files = tree.read_dir().expect("listed").map(|entry| entry.expect("an entry").path());
    files.filter(|path| which(path)).map(|path| std::fs::remove_file(path).expect("removed")).count()
}

/// Gives the file other contents of the same length, and a time of its own: two writes within one tick of the kernel's clock would
/// have the same one.
fn overwrite(source: &Path) {
    let file = std::fs::File::options().write(true).open(source).expect("there");
    let length = file.metadata().expect("there").len();
    file.write_all_at(&vec![7; length as usize], 0).expect("written");
    file.set_modified(SystemTime::now() + Duration::from_secs(1)).expect("set");
}

/// Waits until the coordinator says that the root may leave.
async fn may_leave(events: &mut EventStream) {
    within(async { while !matches!(events.next().await, Some(GroupEvent::RootMayLeave { .. })) {} }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_gone_when_it_may_be_holds_nobody_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let tree = many_files(dir.path(), 300);
    let (root, receivers) = group(&["a", "a"]).await;
    let mut events = root.events();
    let mut broadcast = within(root.broadcast(Source::path(&tree), options_for(3))).await.expect("started");
    let mut kept: Vec<Broadcast> = Vec::new();
    for (i, receiver) in receivers.iter().enumerate() {
        kept.push(receive_path(receiver, &dir.path().join(format!("copy{i}"))).await.expect("received").0);
    }
    may_leave(&mut events).await;
    assert!(broadcast.source_may_leave().is_some(), "whoever has missed the event learns it as well");
    assert_eq!(remove_files(&tree, |_| true), 300);
    let late = join(&root, "late", "a").await;
    receive_path(&late, &dir.path().join("late")).await.expect("the others have everything");
    within(broadcast.released()).await.expect("everybody has it");
    assert_eq!(broadcast.report().await.nodes.iter().filter(|node| node.verified).count(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_gone_too_early_is_given_up_and_says_which_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let tree = many_files(dir.path(), 300);
    let (root, _) = group(&[]).await;
    let mut broadcast = within(root.broadcast(Source::path(&tree), options_for(1))).await.expect("started");
    within(broadcast.complete()).await.expect("it is read to its end");
    remove_files(&tree, |_| true);
    let late = join(&root, "late", "a").await;
    let error = receive_path(&late, &dir.path().join("late")).await.map(|_| ()).expect_err("nobody has it");
    assert!(error.to_string().contains("it was removed"), "{error}");
    assert!(matches!(within(broadcast.failed()).await, Error::Store(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_was_written_to_afterwards_does_not_make_its_root_a_forger() {
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("source");
    std::fs::write(&source, pattern(1_000_000)).expect("written");
    let (root, _) = group(&[]).await;
    let mut broadcast = within(root.broadcast(Source::path(&source), options_for(1))).await.expect("started");
    within(broadcast.complete()).await.expect("it is read to its end");
    overwrite(&source);
    let late = join(&root, "late", "a").await;
    let mut events = late.events();
    let error = receive_bytes(&late).await.map(|_| ()).expect_err("what it was told of is gone");
    assert!(error.to_string().contains("changed while it was being sent"), "{error}");
    assert!(matches!(within(broadcast.failed()).await, Error::Store(_)));
    within(root.leave()).await;
    within(late.leave()).await;
    while let Some(event) = within(events.next()).await {
        assert!(!matches!(event, GroupEvent::PeerDropped { .. }), "{event:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_written_to_while_links_wait_does_not_make_its_root_a_forger() {
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("source");
    std::fs::write(&source, pattern(3_000_000)).expect("written");
    let limited = GroupOptions { max_rate_bytes_per_s: Some(300_000), ..options("root", "a") };
    let root = within(Group::create(limited)).await.expect("a group");
    let receiver = join(&root, "receiver", "a").await;
    let mut events = receiver.events();
    let mut broadcast = within(root.broadcast(Source::path(&source), options_for(1))).await.expect("started");
    let mut received = receive(&receiver, Sink::bytes(4_000_000)).await.expect("accepted");
    within(broadcast.complete()).await.expect("it is read to its end");
    within(async {
        while received.progress().pieces < 8 {
            tokio::task::yield_now().await
        }
    })
    .await;
    overwrite(&source);
    let error = within(received.complete()).await.map(|_| ()).expect_err("the rest is gone");
    assert!(error.to_string().contains("changed while it was being sent"), "{error}");
    within(root.leave()).await;
    within(receiver.leave()).await;
    while let Some(event) = within(events.next()).await {
        assert!(!matches!(event, GroupEvent::PeerDropped { .. }), "{event:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_its_user_changes_does_not_make_its_receiver_a_forger() {
    let dir = tempfile::tempdir().expect("a directory");
    let (root, receivers) = group(&["a"]).await;
    let bytes = pattern(1_000_000);
    let _broadcast = within(root.broadcast(Source::bytes(bytes.clone()), options_for(2))).await.expect("started");
    let copy = dir.path().join("copy");
    let (_served, _) = receive_path(&receivers[0], &copy).await.expect("received");
    overwrite(&copy);
    let late = join(&root, "late", "a").await;
    let mut events = late.events();
    let (_received, completed) = receive_bytes(&late).await.expect("the root has what the receiver has not any more");
    assert_eq!(completed.data.as_deref(), Some(&bytes));
    within(root.leave()).await;
    within(late.leave()).await;
    while let Some(event) = within(events.next()).await {
        assert!(!matches!(event, GroupEvent::PeerDropped { .. }), "{event:?}");
    }
}

/// Announces the broadcast back, and waits until the peer has said that it has so many pieces.
async fn pieces_of(link: &mut Link, count: usize) -> (BroadcastId, BTreeSet<PieceIndex>) {
    let (broadcast, announcement) = link
        .expect(|frame| match frame {
            Frame::Announce { broadcast, announcement } => Some((broadcast, announcement)),
            _ => None,
        })
        .await;
    link.send(&Frame::Announce { broadcast, announcement }).await;
    let mut pieces = BTreeSet::new();
    while pieces.len() < count {
        let runs = link.expect(|frame| if let Frame::Have { pieces, .. } = frame { Some(pieces) } else { None }).await;
        pieces.extend(runs.iter().flat_map(|run| run.pieces()));
    }
    (broadcast, pieces)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_cannot_serve_a_piece_keeps_what_it_has() {
    let dir = tempfile::tempdir().expect("a directory");
    let tree = many_files(dir.path(), 300);
    let limited = GroupOptions { max_rate_bytes_per_s: Some(300_000), ..options("root", "a") };
    let root: Group = within(Group::create(limited)).await.expect("a group");
    let receiver = join(&root, "receiver", "b").await;
    let _broadcast = within(root.broadcast(Source::path(&tree), options_for(1))).await.expect("started");
    let path = dir.path().join("copy");
    let mut received = receive(&receiver, Sink::path(Some(path))).await.expect("accepted");
    let puppet = within(Puppet::join(root.ticket().expect("the founder's"), "b")).await;
    let mut link = puppet.dial(receiver.node().id, false).await;
    let (broadcast, pieces) = pieces_of(&mut link, 12).await;
    let is_partial = |path: &Path| path.to_string_lossy().contains("mobcast-partial");
    let mut inside = dir.path().read_dir().expect("listed").map(|entry| entry.expect("an entry").path());
    let partial = inside.find(|path| is_partial(path)).expect("it is not complete");
    // Those that are written to have another mode.
    let is_written = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777 == 0o644;
    assert!(remove_files(&partial, is_written) > 0);
    for &piece in &pieces {
        link.send(&Frame::Request { broadcast, piece, range: ByteRange::whole(PIECE) }).await;
    }
    link.expect(|frame| matches!(frame, Frame::Reject { .. }).then_some(())).await;
    within(received.complete()).await.expect("it had every piece");
}
