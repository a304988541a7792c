//! What goes in at one end comes out at the other: frames and chunks, sealed and plain, whatever the sizes.

mod channel_support;

use std::io::{IoSliceMut, Read, Write};
use std::os::fd::AsFd;

use channel_support::{channel, header};
use mobcast_net::channel::{ChannelError, Incoming, Receiver, Sender};
use mobcast_proto::limits::{CHUNK_BYTES_MAX, FRAME_BYTES_MAX};
use mobcast_proto::random::Random;

/// One thing to send.
#[derive(Clone, Debug)]
enum Item {
    Frames(Vec<Vec<u8>>),
    Chunk { way: Way, bytes: Vec<u8> },
}

/// How a chunk gets to the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Sealed,
    SealedWhereRead,
    Plain,
    PlainFromPipe,
}

impl Way {
    fn is_plain(self) -> bool {
        matches!(self, Way::Plain | Way::PlainFromPipe)
    }
}

fn random_bytes(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.next_u64() as u8).collect()
}

/// Mostly small or at a border, sometimes anything up to `limit`.
fn random_len(random: &mut Random, limit: usize) -> usize {
    let borders = [1, 2, 16_358, 16_384, 16_385, 32_768, limit - 1, limit];
    match random.below(3) {
        0 => 1 + random.below(200),
        1 => borders[random.below(borders.len())],
        _ => 1 + random.below(limit),
    }
}

fn random_item(random: &mut Random) -> Item {
    if random.below(4) > 0 {
        let len = random_len(random, CHUNK_BYTES_MAX as usize);
        let ways = [Way::Sealed, Way::SealedWhereRead, Way::Plain, Way::PlainFromPipe];
        return Item::Chunk { way: ways[random.below(4)], bytes: random_bytes(random, len) };
    }
    let frames = 1 + random.below(20);
    Item::Frames((0..frames).map(|_| random_frame(random)).collect())
}

fn random_frame(random: &mut Random) -> Vec<u8> {
    let len = if random.below(20) == 0 { random_len(random, FRAME_BYTES_MAX) } else { 1 + random.below(100) };
    let mut frame = random_bytes(random, len);
    frame[0] &= 0x7f;
    frame
}

async fn send_chunk(sender: &mut Sender, way: Way, bytes: &[u8]) {
    let header = header(3, 100, bytes.len(), way.is_plain());
    match way {
        Way::Sealed | Way::Plain => sender.send_payload(&header, bytes).await.unwrap(),
        Way::SealedWhereRead => {
            assert!(!sender.send_read(&header, |_| false).await.unwrap(), "what cannot be read leaves no trace");
            let read = |places: &mut [IoSliceMut<'_>]| {
                let mut rest = bytes;
                places.iter_mut().for_each(|place| rest.read_exact(place).unwrap());
                rest.is_empty()
            };
            assert!(sender.send_read(&header, read).await.unwrap());
        }
        Way::PlainFromPipe => {
            let (reader, mut writer) = std::io::pipe().unwrap();
            rustix::pipe::fcntl_setpipe_size(&writer, 2 * CHUNK_BYTES_MAX as usize).unwrap();
            writer.write_all(bytes).unwrap();
            sender.send_piped(&header, reader.as_fd()).await.unwrap();
        }
    }
}

async fn send_all(mut sender: Sender, items: Vec<Item>) -> Sender {
    for item in items {
        match item {
            Item::Frames(frames) => sender.send_frames(&frames).await.unwrap(),
            Item::Chunk { way, bytes } => send_chunk(&mut sender, way, &bytes).await,
        }
    }
    sender.close().await.unwrap();
    sender
}

/// Reads a chunk in steps of random size; sometimes leaves the end of it for `next` to skip.
async fn receive_chunk(receiver: &mut Receiver, random: &mut Random, expected: &[u8], plain: bool) {
    assert_eq!(receiver.next().await.unwrap(), Incoming::Payload(header(3, 100, expected.len(), plain)));
    let mut chunk = vec![0; expected.len()];
    let mut at = 0;
    let wanted = if random.below(8) == 0 { random.below(chunk.len() + 1) } else { chunk.len() };
    while at < wanted {
        let step = if random.below(2) == 0 { wanted - at } else { 1 + random.below(wanted - at) };
        receiver.read_payload(&mut chunk[at..at + step]).await.unwrap();
        at += step;
        assert_eq!(receiver.payload_left(), expected.len() - at);
    }
    assert!(chunk[..wanted] == expected[..wanted], "the chunk differs");
}

async fn receive_all(receiver: &mut Receiver, random: &mut Random, items: &[Item]) {
    for item in items {
        match item {
            Item::Frames(frames) => {
                for frame in frames {
                    assert_eq!(receiver.next().await.unwrap(), Incoming::Frame(frame));
                }
            }
            Item::Chunk { way, bytes } => receive_chunk(receiver, random, bytes, way.is_plain()).await,
        }
    }
    assert_eq!(receiver.next().await.unwrap(), Incoming::Closed);
    assert_eq!(receiver.next().await.unwrap(), Incoming::Closed);
}

/// Sends `items` items of seed `seed`, with a new key after each `records_per_key` records.
async fn exchange(seed: u64, items: usize, records_per_key: u64) {
    let mut random = Random::new(seed);
    let items: Vec<Item> = (0..items).map(|_| random_item(&mut random)).collect();
    let ((mut sender, _), (_, mut receiver)) = channel().await;
    sender.set_records_per_key(records_per_key);
    receiver.permit_plain();
    let sending = tokio::spawn(send_all(sender, items.clone()));
    receive_all(&mut receiver, &mut random, &items).await;
    let sender = sending.await.unwrap();
    let payload: usize =
        items.iter().map(|item| if let Item::Chunk { bytes, .. } = item { bytes.len() } else { 0 }).sum();
    assert_eq!(sender.counters().payload_sent(), payload as u64);
    assert_eq!(receiver.counters().payload_received(), payload as u64);
    assert_eq!(sender.counters().sent(), receiver.counters().received(), "the handshake counts at both ends");
    assert!(sender.counters().sent() >= payload as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_items_arrive_as_they_were_sent() {
    for seed in 0..20 {
        eprintln!("seed {seed}");
        exchange(seed, 150, u64::MAX).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_updates_are_not_noticed() {
    for (seed, records_per_key) in [(100, 1), (101, 2), (102, 7), (103, 50)] {
        eprintln!("seed {seed}");
        exchange(seed, 150, records_per_key).await;
    }
}

#[tokio::test]
async fn many_small_frames_share_a_record() {
    let ((mut sender, _), (_, mut receiver)) = channel().await;
    let before = sender.counters().sent();
    let frames = vec![[7u8; 12]; 1_000];
    sender.send_frames(&frames).await.unwrap();
    let overhead = sender.counters().sent() - before - 1_000 * 16;
    assert!(overhead <= 22, "{overhead} bytes for 1,000 frames");
    for _ in 0..1_000 {
        assert_eq!(receiver.next().await.unwrap(), Incoming::Frame(&[7; 12]));
    }
}

#[tokio::test]
async fn plain_payload_needs_permission() {
    let ((mut sender, _), (_, mut receiver)) = channel().await;
    sender.send_payload(&header(0, 0, 3, true), b"abc").await.unwrap();
    let outcome = receiver.next().await;
    assert!(matches!(outcome, Err(ChannelError::PlainNotPermitted)), "{outcome:?}");
}

#[tokio::test]
async fn what_arrived_before_the_link_broke_is_kept() {
    // Short chunks are opened in the receiver's buffer, long ones where they go to.
    for (plain, len) in [(false, 60_000), (true, 60_000), (false, 256 << 10)] {
        let ((mut sender, _own), (_, mut receiver)) = channel().await;
        receiver.permit_plain();
        let payload = vec![5; len];
        // The peer reads nothing, so that the chunk is dropped half-way once the sockets are full.
        let sending = async {
            loop {
                sender.send_payload(&header(0, 0, payload.len(), plain), &payload).await.unwrap();
            }
        };
        assert!(tokio::time::timeout(std::time::Duration::from_millis(300), sending).await.is_err());
        let next = sender.send_frames(&[[1]]).await;
        assert!(matches!(next, Err(ChannelError::Interrupted)), "{next:?}");
        drop(sender);
        let (mut chunks, mut into) = (0, vec![0; payload.len()]);
        let error = loop {
            match receiver.next().await {
                Ok(Incoming::Payload(_)) => match receiver.read_payload(&mut into).await {
                    Ok(()) => {
                        chunks += 1;
                        into.fill(0);
                    }
                    Err(error) => break error,
                },
                other => panic!("{other:?}"),
            }
        };
        assert!(matches!(error, ChannelError::Truncated | ChannelError::Io(_)), "{error:?}");
        let filled = payload.len() - receiver.payload_left();
        assert_eq!(receiver.counters().payload_received(), (chunks * payload.len() + filled) as u64);
        assert!(chunks * len + filled > 100_000 && into[..filled] == payload[..filled], "{chunks} chunks and {filled}");
        let others = receiver.counters().received() - receiver.counters().payload_received();
        // The handshake, what each record adds, and one record that has not come to its end.
        assert!(others < 4_096 + chunks as u64 * 512 + (17 << 10), "{others} bytes have come and are not there");
    }
}

#[tokio::test]
async fn a_dropped_call_is_completed_by_the_next_one() {
    let ((mut sender, _), (_, mut receiver)) = channel().await;
    let frame = |number: u32| [&[9][..], &number.to_be_bytes(), &[0; 65_000]].concat();
    let mut whole = 0;
    let sending = async {
        loop {
            sender.send_frames(&[frame(whole)]).await.unwrap();
            whole += 1;
        }
    };
    assert!(tokio::time::timeout(std::time::Duration::from_millis(300), sending).await.is_err());
    let reading = tokio::spawn(async move {
        let mut numbers = Vec::new();
        loop {
            match receiver.next().await.unwrap() {
                Incoming::Frame(frame) if frame.len() > 1 => {
                    numbers.push(u32::from_be_bytes(frame[1..5].try_into().unwrap()));
                }
                Incoming::Frame(frame) => assert_eq!(frame, [1]),
                Incoming::Closed => return numbers,
                other => panic!("{other:?}"),
            }
        }
    });
    sender.send_frames(&[[1]]).await.unwrap();
    sender.close().await.unwrap();
    assert_eq!(reading.await.unwrap(), (0..=whole).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_dropped_read_goes_on_where_it_was() {
    let ((mut sender, _), (_, mut receiver)) = channel().await;
    let nothing = tokio::time::timeout(std::time::Duration::from_millis(20), receiver.next()).await;
    assert!(nothing.is_err());
    sender.send_frames(&[b"\x01late"]).await.unwrap();
    assert_eq!(receiver.next().await.unwrap(), Incoming::Frame(b"\x01late"));
}

#[tokio::test]
async fn an_end_without_notice_is_an_error() {
    let ((mut sender, own), (_, mut receiver)) = channel().await;
    sender.send_frames(&[b"\x01last"]).await.unwrap();
    drop((sender, own));
    assert_eq!(receiver.next().await.unwrap(), Incoming::Frame(b"\x01last"));
    let end = receiver.next().await;
    assert!(matches!(end, Err(ChannelError::Truncated)), "{end:?}");
}

#[tokio::test]
async fn a_closed_sender_sends_nothing_more() {
    let ((mut sender, _), (_, mut receiver)) = channel().await;
    sender.close().await.unwrap();
    assert!(matches!(sender.send_frames(&[[1]]).await, Err(ChannelError::Closed)));
    assert_eq!(receiver.next().await.unwrap(), Incoming::Closed);
}
