//! Sends a file or directory to everybody who has the ticket, or receives one.
//!
//! ```text
//! cargo run --release --example broadcast_file -- send PATH
//! cargo run --release --example broadcast_file -- recv TICKET DESTINATION
//! ```

use std::error::Error;
use std::time::Duration;

use mobcast::{BroadcastOptions, Group, GroupOptions, Sink, SinkOptions, Source, Ticket};

const WAIT: Duration = Duration::from_secs(60);

async fn send(path: &str) -> Result<(), Box<dyn Error>> {
    let group = Group::create(GroupOptions::default()).await?;
    println!("{}", group.ticket().expect("the founder has the ticket"));
    let mut broadcast = group.broadcast(Source::path(path), BroadcastOptions::default()).await?;
    // Released as soon as every member of the moment has it, and there is at least one.
    broadcast.released().await?;
    for node in broadcast.report().await.nodes {
        eprintln!("{} ({}): {:.2} s", node.name, node.cluster, node.seconds);
    }
    drop(broadcast);
    group.leave().await;
    Ok(())
}

async fn receive(ticket: &str, destination: &str) -> Result<(), Box<dyn Error>> {
    let ticket: Ticket = ticket.parse()?;
    let group = Group::join(&ticket, GroupOptions::default(), WAIT).await?;
    let offer = group.next_offer().await?;
    let sink = Sink::path(Some(destination.into()));
    let mut broadcast = offer.receive(sink, SinkOptions::default()).await?;
    let completed = broadcast.complete().await?;
    eprintln!("{} bytes, BLAKE3 {}", completed.bytes, completed.object_hash);
    // Stays until its peers have everything too.
    broadcast.released().await?;
    drop(broadcast);
    group.leave().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["send", path] => send(path).await,
        ["recv", ticket, destination] => receive(ticket, destination).await,
        _ => Err("usage: broadcast_file send PATH | recv TICKET DESTINATION".into()),
    }
}
