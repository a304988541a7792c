//! How fast the channel alone is, over loopback, one stream, one thread at each end. Not a test of anything:
//! `cargo test --release -p mobcast-net --test channel_throughput -- --ignored --nocapture`

mod channel_support;

use std::time::Instant;

use channel_support::{channel, header, tcp_pair};
use mobcast_net::channel::{Incoming, Receiver, Sender};
use mobcast_proto::limits::CHUNK_BYTES_MAX;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

const PIECE_BYTES: usize = 1 << 20;
const PIECES: u32 = 2 << 10;

async fn send(mut sender: Sender, plain: bool) {
    let piece = vec![0x5a; PIECE_BYTES];
    for number in 0..PIECES {
        for (i, chunk) in piece.chunks(CHUNK_BYTES_MAX as usize).enumerate() {
            let start = i as u32 * CHUNK_BYTES_MAX;
            sender.send_payload(&header(number, start, chunk.len(), plain), chunk).await.unwrap();
        }
    }
    sender.close().await.unwrap();
}

async fn receive(mut receiver: Receiver) -> u64 {
    receiver.permit_plain();
    let mut piece = vec![0; PIECE_BYTES];
    while let Incoming::Payload(header) = receiver.next().await.unwrap() {
        let (start, end) = (header.range.start as usize, header.range.end as usize);
        receiver.read_payload(&mut piece[start..end]).await.unwrap();
    }
    receiver.counters().payload_received()
}

/// Seconds of processor time of this process so far: in the program, and in the kernel for it.
fn processor_seconds() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() / 100.0, fields[12].parse::<f64>().unwrap() / 100.0)
}

/// What the bytes travel in.
#[derive(Clone, Copy, Debug)]
enum Arm {
    /// The same chunks over the same sockets without a channel: the reference.
    Bare,
    Plain,
    Sealed,
}

async fn start(arm: Arm) -> (JoinHandle<()>, JoinHandle<u64>) {
    if let Arm::Bare = arm {
        let (mut from, mut to) = tcp_pair().await;
        let sending = async move {
            let chunk = vec![0x5a; CHUNK_BYTES_MAX as usize];
            for _ in 0..PIECES as usize * PIECE_BYTES / chunk.len() {
                from.write_all(&chunk).await.unwrap();
            }
        };
        let receiving = async move {
            let (mut chunk, mut bytes) = (vec![0; CHUNK_BYTES_MAX as usize], 0);
            while to.read_exact(&mut chunk).await.is_ok() {
                bytes += chunk.len() as u64;
            }
            bytes
        };
        return (tokio::spawn(sending), tokio::spawn(receiving));
    }
    let ((sender, own), (other, receiver)) = channel().await;
    let sending = async move {
        send(sender, matches!(arm, Arm::Plain)).await;
        drop(own);
    };
    let receiving = async move {
        let bytes = receive(receiver).await;
        drop(other);
        bytes
    };
    (tokio::spawn(sending), tokio::spawn(receiving))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, for release builds"]
async fn throughput() {
    for round in 0..5 {
        for arm in [Arm::Bare, Arm::Plain, Arm::Sealed] {
            let (time, (user, system)) = (Instant::now(), processor_seconds());
            let (sending, receiving) = start(arm).await;
            let bytes = receiving.await.unwrap();
            sending.await.unwrap();
            let gigabytes = bytes as f64 / 1e9;
            let (user, system) = (processor_seconds().0 - user, processor_seconds().1 - system);
            println!(
                "round {round}, {arm:?}: {:.2} GB/s, processor seconds per GB: {:.2} + {:.2} in the kernel",
                gigabytes / time.elapsed().as_secs_f64(),
                user / gigabytes,
                system / gigabytes,
            );
        }
    }
}
