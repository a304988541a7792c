//! What runs at the same time and has nothing to do with each other: two groups, two broadcasts in one group. Neither
//! sees the other, and what happens to one does not happen to the other.

mod common;

use std::collections::BTreeSet;

use common::*;
use mobcast::{Broadcast, BroadcastOptions, ErrorClass, Group, GroupEvent, GroupOptions, NodeState, Sink, Source};

/// Slow enough that something can happen in the midst of it.
const SLOW: Option<u64> = Some(2_000_000);

async fn slow_group(name: &str) -> (Group, Group) {
    trace();
    let root = Group::create(GroupOptions { max_rate_bytes_per_s: SLOW, ..options(&format!("{name}-root"), "a") });
    let root = root.await.expect("a group");
    let receiver = join(&root, &format!("{name}-receiver"), "a").await;
    (root, receiver)
}

async fn start(root: &Group, bytes: &[u8]) -> Broadcast {
    let options = BroadcastOptions { piece_size: Some(16 << 10), ..BroadcastOptions::default() };
    root.broadcast(Source::bytes(bytes.to_vec()), options).await.expect("started")
}

/// Waits until some of it has arrived, and not all.
async fn begun(received: &Broadcast) {
    within(async {
        while received.progress().bytes == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_groups_neither_see_nor_disturb_each_other() {
    let ((first_root, first), (second_root, second)) = (slow_group("first").await, slow_group("second").await);
    let (lost, kept) = (pattern(6_000_000), pattern(1_000_000));
    let broadcasts = (start(&first_root, &lost).await, start(&second_root, &kept).await);
    let mut of_first = receive(&first, Sink::bytes(1 << 30)).await.expect("accepted");
    let mut of_second = receive(&second, Sink::bytes(1 << 30)).await.expect("accepted");
    begun(&of_first).await;
    begun(&of_second).await;
    for (root, name) in [(&first_root, "first-receiver"), (&second_root, "second-receiver")] {
        let members: Vec<String> = root.members().into_iter().map(|member| member.name).collect();
        assert_eq!(members, [name]);
    }
    // The first group ends in the midst of it.
    drop(broadcasts.0);
    within(first_root.leave()).await;
    within(first.leave()).await;
    assert!(within(of_first.complete()).await.is_err());
    let completed = within(of_second.complete()).await.expect("complete");
    assert!(completed.data.expect("in memory")[..] == kept);
    let (mut broadcast, mut events) = (broadcasts.1, second_root.events());
    within(broadcast.released()).await.expect("released");
    let report = broadcast.report().await;
    let names: BTreeSet<&str> = report.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["second-root", "second-receiver"]));
    drop((broadcast, of_second));
    within(second.leave()).await;
    within(second_root.leave()).await;
    while let Some(event) = within(events.next()).await {
        let lost = matches!(&event, GroupEvent::MemberLost { name, .. } if name != "second-receiver");
        assert!(!lost && !matches!(event, GroupEvent::PeerDropped { .. }), "{event:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_is_good_for_one_group_alone() {
    let (first, _) = group(&[]).await;
    let (second, receivers) = group(&["a"]).await;
    let mut ticket = first.ticket().expect("the founder's").clone();
    ticket.addresses = second.ticket().expect("the founder's").addresses.clone();
    let error = within(Group::join(&ticket, options("stray", "a"), LONG)).await.expect_err("not of this group");
    assert_eq!(error.class(), ErrorClass::NotAdmitted, "{error}");
    assert_eq!(second.members().len(), 1);
    let mut broadcast = start(&second, &pattern(100_000)).await;
    let (_received, _) = receive_bytes(&receivers[0]).await.expect("received");
    within(broadcast.released()).await.expect("released");
}

/// Two roots in one group; one of them gives up, and a receiver declines the other one's object.
#[tokio::test(flavor = "multi_thread")]
async fn a_broadcast_that_is_given_up_leaves_another_one_alone() {
    let (coordinator, receivers) = group(&["a", "b", "b"]).await;
    let (given_up, kept) = (pattern(5_000_000), pattern(3_000_001));
    let aborted = start(&receivers[0], &given_up).await;
    let mut other = start(&coordinator, &kept).await;
    let mut failing = Vec::new();
    let mut completing = Vec::new();
    for receiver in &receivers[1..] {
        for _ in 0..2 {
            let offer = within(receiver.next_offer()).await.expect("offered");
            let wanted = if offer.id == aborted.id() { &mut failing } else { &mut completing };
            let received = within(offer.receive(Sink::bytes(1 << 30), Default::default())).await;
            wanted.push(received.expect("accepted"));
        }
    }
    within(receivers[0].next_offer()).await.expect("offered").decline("no interest");
    assert_eq!((failing.len(), completing.len()), (2, 2), "each is offered both");
    aborted.abort("changed its mind").await;
    for received in &mut failing {
        if let Err(error) = within(received.complete()).await {
            assert!(error.to_string().contains("changed its mind"), "{error}");
        }
    }
    for received in &mut completing {
        let completed = within(received.complete()).await.expect("complete");
        assert!(completed.data.expect("in memory")[..] == kept);
    }
    within(other.released()).await.expect("released");
    let states: Vec<NodeState> = other.progress().nodes.into_iter().map(|node| node.state).collect();
    assert_eq!(states.iter().filter(|state| **state == NodeState::Complete).count(), 2, "{states:?}");
    assert!(matches!(&states[0], NodeState::Failed(reason) if reason.contains("no interest")), "{states:?}");
}
