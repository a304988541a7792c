//! Four nodes of one group send each other memory buffers, each in turn: what a program does that exchanges arrays
//! between its processes. All of them run in this one, over loopback.
//!
//! ```text
//! cargo run --release --example group_of_buffers
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mobcast::{BroadcastOptions, Group, GroupOptions, Sink, SinkOptions, Source};

const NODES: usize = 4;
const ROUNDS: usize = 25;
const BUFFER_BYTES: usize = 1 << 20;
const WAIT: Duration = Duration::from_secs(60);

fn options(i: usize) -> GroupOptions {
    let listen: SocketAddr = ([127, 0, 0, 1], 0).into();
    let (name, cluster) = (format!("node{i}"), Some("here".into()));
    GroupOptions { name, cluster, listen: Some(listen), ..GroupOptions::default() }
}

/// Takes the next buffer that another node sends.
async fn next_buffer(group: Group) -> Result<Vec<u8>, mobcast::Error> {
    let offer = group.next_offer().await?;
    let mut broadcast = offer.receive(Sink::bytes(BUFFER_BYTES as u64), SinkOptions::default()).await?;
    let data = broadcast.complete().await?.data.expect("a sink in memory gives bytes");
    Ok(data.to_vec())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let founder = Group::create(options(0)).await?;
    let ticket = founder.ticket().expect("the founder has the ticket").clone();
    let mut nodes = vec![founder];
    for i in 1..NODES {
        nodes.push(Group::join(&ticket, options(i), WAIT).await?);
    }
    let start = Instant::now();
    for round in 0..ROUNDS {
        let root = round % NODES;
        let buffer = vec![round as u8; BUFFER_BYTES];
        let receivers: Vec<_> = (0..NODES).filter(|&i| i != root).map(|i| nodes[i].clone()).collect();
        let receiving: Vec<_> = receivers.into_iter().map(|node| tokio::spawn(next_buffer(node))).collect();
        let source = Source::bytes(buffer.clone());
        let mut broadcast = nodes[root].broadcast(source, BroadcastOptions::default()).await?;
        for received in receiving {
            assert!(received.await?? == buffer);
        }
        broadcast.released().await?;
    }
    let each_ms = start.elapsed().as_secs_f64() * 1e3 / ROUNDS as f64;
    println!("{ROUNDS} broadcasts of {BUFFER_BYTES} bytes among {NODES} nodes, {each_ms:.2} ms each");
    for node in nodes {
        node.leave().await;
    }
    Ok(())
}
