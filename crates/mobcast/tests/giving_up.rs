//! Broadcasts that their roots or receivers give up: everybody else is done with them, and nothing of them stays.

mod common;

use std::future::poll_fn;
use std::io::Read;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::Poll;
use std::time::Duration;

use common::*;
use mobcast::{Broadcast, BroadcastOptions, Error, Group, Offer, Sink, SinkOptions, Source};

/// Broadcasts of a group at a time, and some more.
const MANY: usize = 80;

#[tokio::test]
async fn what_was_given_up_and_dropped_takes_no_place() {
    let (root, _receivers) = group(&["a"]).await;
    for _ in 0..MANY {
        let broadcast = loop {
            match within(root.broadcast(Source::bytes(pattern(200_000)), BroadcastOptions::default())).await {
                Ok(broadcast) => break broadcast,
                // The last ones are not forgotten yet.
                Err(Error::Busy) => tokio::time::sleep(Duration::from_millis(10)).await,
                Err(error) => panic!("{error}"),
            }
        };
        within(broadcast.abort("changed its mind")).await;
    }
    has_room(&root).await;
}

#[tokio::test]
async fn what_nobody_waited_for_takes_no_place() {
    let (root, _receivers) = group(&["a"]).await;
    // Whoever waits gives up after so many steps, at some of which the node has been asked and has not answered.
    for steps in (0..MANY * 8).map(|i| i % 8) {
        let mut started = pin!(root.broadcast(Source::bytes(pattern(200_000)), BroadcastOptions::default()));
        for _ in 0..steps {
            let ended = poll_fn(|context| Poll::Ready(started.as_mut().poll(context))).await;
            if let Poll::Ready(ended) = ended {
                if let Ok(broadcast) = ended {
                    broadcast.abort("nobody waits for it").await;
                }
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    has_room(&root).await;
}

/// Waits until the group takes another broadcast.
async fn has_room(root: &Group) {
    let started = within(async {
        loop {
            match root.broadcast(Source::bytes(pattern(1_000)), BroadcastOptions::default()).await {
                Err(Error::Busy) => tokio::time::sleep(Duration::from_millis(10)).await,
                started => return started,
            }
        }
    });
    started.await.expect("there is room");
}

#[tokio::test]
async fn who_has_everything_is_released_when_the_root_gives_up() {
    let (root, receivers) = group(&["a", "a"]).await;
    let options = BroadcastOptions { receivers: Some(2), ..BroadcastOptions::default() };
    let broadcast = within(root.broadcast(Source::bytes(pattern(200_000)), options)).await.expect("started");
    let (mut has_it, _) = receive_bytes(&receivers[0]).await.expect("received");
    let _does_not_answer = within(receivers[1].next_offer()).await.expect("offered");
    within(broadcast.abort("changed its mind")).await;
    within(has_it.released()).await.expect("nobody waits for it");
}

#[test]
fn who_leaves_waits_for_a_destination_that_is_being_prepared() {
    with_one_thread_for_disks(async {
        let dir = tempfile::tempdir().expect("a directory");
        let (_root, receiver, offer) = offered().await;
        let go_on = hold_up_disks();
        let mut receiving = Box::pin(offer.receive(Sink::path(Some(dir.path().join("copy"))), SinkOptions::default()));
        assert!(poll_fn(|context| Poll::Ready(receiving.as_mut().poll(context))).await.is_pending());
        drop(receiving);
        let mut leaving = pin!(receiver.leave());
        let left = tokio::time::timeout(Duration::from_secs(1), leaving.as_mut()).await;
        assert!(left.is_err(), "the destination may still be made");
        drop(go_on);
        within(leaving).await;
        assert_eq!(dir.path().read_dir().expect("listed").count(), 0);
    });
}

#[test]
fn who_leaves_does_not_wait_for_those_who_do_not_ask_again_whether_their_destination_is_ready() {
    with_one_thread_for_disks(async {
        let dir = tempfile::tempdir().expect("a directory");
        let (_root, receiver, offer) = offered().await;
        let go_on = hold_up_disks();
        let mut receiving = pin!(offer.receive(Sink::path(Some(dir.path().join("copy"))), SinkOptions::default()));
        assert!(poll_fn(|context| Poll::Ready(receiving.as_mut().poll(context))).await.is_pending());
        drop(go_on);
        within(receiver.leave()).await;
    });
}

/// Runs a test where one thread waits for disks, so that `hold_up_disks` holds up all that is to be done there.
fn with_one_thread_for_disks(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().max_blocking_threads(1).build().expect("a runtime").block_on(test);
}

/// Gives the thread that waits for disks something else to wait for, until what is returned is dropped.
fn hold_up_disks() -> Sender<()> {
    let (go_on, held_up) = channel();
    tokio::task::spawn_blocking(move || held_up.recv());
    go_on
}

/// A root with a broadcast that never ends, a receiver, and what the receiver is offered.
async fn offered() -> ((Group, Broadcast), Group, Offer) {
    let (root, mut receivers) = group(&["a"]).await;
    let started = root.broadcast(Source::bytes(pattern(200_000)), BroadcastOptions::default());
    let broadcast = within(started).await.expect("started");
    let receiver = receivers.remove(0);
    let offer = within(receiver.next_offer()).await.expect("offered");
    ((root, broadcast), receiver, offer)
}

/// A stream without end, which shares something as long as somebody reads it.
struct Endless(#[expect(dead_code, reason = "it is there to be dropped")] Arc<()>);

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        std::thread::sleep(Duration::from_micros(100));
        let n = into.len().min(1 << 10);
        into[..n].fill(7);
        Ok(n)
    }
}

#[tokio::test]
async fn a_stream_that_is_not_sent_after_all_is_not_read_on() {
    let (root, _receivers) = group(&["a"]).await;
    let reads = Arc::new(());
    let source = Source::reader(Endless(Arc::clone(&reads)));
    let options = BroadcastOptions { piece_size: Some(12_345), ..BroadcastOptions::default() };
    let refused = within(root.broadcast(source, options)).await;
    assert!(matches!(refused, Err(Error::PieceSize { .. })), "{:?}", refused.map(|_| ()));
    within(async {
        while Arc::strong_count(&reads) > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
