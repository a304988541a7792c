//! How fast the channel alone is: one stream over loopback, one thread at each end, pieces of 1 MiB that both ends have
//! in memory. Beside it the same chunks over bare sockets. Not a test of anything:
//! `cargo test --release -p mobcast-net --test channel_throughput -- --ignored --nocapture`

mod channel_support;

use std::thread;
use std::time::Instant;

use channel_support::{Group, client, header, listener, server};
use mobcast_net::channel::{Incoming, Receiver, Sender, accept, connect, socket};
use mobcast_net::tls::{Expected, Identity, ServerIdentity};
use mobcast_proto::NodeId;
use mobcast_proto::limits::CHUNK_BYTES_MAX;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PIECE_BYTES: usize = 1 << 20;
const PIECES: u32 = 2 << 10;
const GIGABYTES: f64 = PIECE_BYTES as f64 * PIECES as f64 / 1e9;
const CHUNK: usize = CHUNK_BYTES_MAX as usize;

/// What the bytes travel in.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Arm {
    /// Sockets without a channel: the reference.
    Bare,
    Plain,
    Sealed,
}

async fn send(mut sender: Sender, plain: bool) {
    let piece = vec![0x5a; PIECE_BYTES];
    for number in 0..PIECES {
        for (i, chunk) in piece.chunks(CHUNK).enumerate() {
            sender.send_payload(&header(number, (i * CHUNK) as u32, CHUNK, plain), chunk).await.unwrap();
        }
    }
    sender.close().await.unwrap();
}

async fn receive(mut receiver: Receiver) {
    receiver.permit_plain();
    let mut piece = vec![0; PIECE_BYTES];
    while let Incoming::Payload(header) = receiver.next().await.unwrap() {
        let (start, end) = (header.range.start as usize, header.range.end as usize);
        receiver.read_payload(&mut piece[start..end]).await.unwrap();
    }
    assert_eq!(receiver.counters().payload_received() as f64, GIGABYTES * 1e9);
}

async fn send_bare(mut stream: TcpStream) {
    let piece = vec![0x5a; PIECE_BYTES];
    for _ in 0..PIECES {
        for chunk in piece.chunks(CHUNK) {
            stream.write_all(chunk).await.unwrap();
        }
    }
}

async fn receive_bare(mut stream: TcpStream) {
    let mut piece = vec![0; PIECE_BYTES];
    for _ in 0..PIECES {
        for chunk in piece.chunks_mut(CHUNK) {
            stream.read_exact(chunk).await.unwrap();
        }
    }
}

async fn sending_end(stream: TcpStream, identity: &Identity, arm: Arm) {
    if arm == Arm::Bare {
        return send_bare(stream).await;
    }
    let (sender, _receiver, _) = connect(stream, identity, Expected::Node(NodeId(2))).await.unwrap();
    send(sender, arm == Arm::Plain).await;
}

async fn receiving_end(stream: TcpStream, identity: &ServerIdentity, arm: Arm) {
    if arm == Arm::Bare {
        return receive_bare(stream).await;
    }
    let (_sender, receiver, _) = accept(stream, identity).await.unwrap();
    receive(receiver).await;
}

/// Each end in its own thread and runtime, as two processes would be.
fn run(arm: Arm) {
    let group = Group::new(1);
    let (one, two) = (client(&group.member(1)), server(&group.member(2)));
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let receiving = thread::spawn(move || {
        runtime().block_on(async {
            let (listener, address) = listener();
            tell.send(address).unwrap();
            let stream = listener.accept().await.unwrap().0;
            socket::configure(&stream).unwrap();
            receiving_end(stream, &two, arm).await;
        });
    });
    runtime().block_on(async {
        let stream = TcpStream::connect(told.recv().unwrap()).await.unwrap();
        socket::configure(&stream).unwrap();
        sending_end(stream, &one, arm).await;
    });
    receiving.join().unwrap();
}

/// Seconds of processor time of this process so far: in the program, and in the kernel for it.
fn processor_seconds() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() / 100.0, fields[12].parse::<f64>().unwrap() / 100.0)
}

#[test]
#[ignore = "a measurement, for release builds"]
fn throughput() {
    for round in 0..5 {
        for arm in [Arm::Bare, Arm::Plain, Arm::Sealed] {
            let (time, (user, system)) = (Instant::now(), processor_seconds());
            run(arm);
            let (user, system) = (processor_seconds().0 - user, processor_seconds().1 - system);
            println!(
                "round {round}, {arm:?}: {:.2} GB/s, processor seconds per GB: {:.2} + {:.2} in the kernel",
                GIGABYTES / time.elapsed().as_secs_f64(),
                user / GIGABYTES,
                system / GIGABYTES,
            );
        }
    }
}
