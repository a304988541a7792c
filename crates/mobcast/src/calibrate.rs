//! What this machine costs beside its network: the constants of the model by which a strategy is chosen, measured with nodes of this
//! process over its loopback interface.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use mobcast_proto::content::announcement::WHOLE_BYTES_MAX;
use mobcast_proto::strategy::choice::Costs;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::{BroadcastOptions, Error, Group, GroupOptions, Sink, SinkOptions, Source};

/// How the nodes stand: in a row.
const STRATEGY: &str = "chain";
/// Long enough that its bytes and pieces cost more than its start.
const LARGE_BYTES: u64 = 32 << 20;
/// Pieces whose bytes, and whose number, are most of what they cost.
const LARGE_PIECE: u32 = 1 << 20;
const SMALL_PIECE: u32 = 16 << 10;
/// An object of one piece, which is too large to travel in one frame down the control tree.
const SINGLE_PIECE: u32 = 128 << 10;
const _: () = assert!(SINGLE_PIECE as u64 > WHOLE_BYTES_MAX);
/// Hops more in the longer of two rows.
const HOPS: u32 = 4;
/// Measurements of each kind, of which the middle one counts.
const ROUNDS: usize = 7;
/// Threads that a node's payload keeps busy at the same time, at most: one takes in, one verifies, one passes on, and they wait for each other.
const THREADS: usize = 2;
/// Nothing here takes nearly as long.
const PATIENCE: Duration = Duration::from_secs(10);

/// Measures this machine, for a few seconds. What else it does meanwhile counts as its cost. The result is for
/// [`GroupOptions::costs`]. Model and meaning: `docs/strategies/auto.md`.
pub async fn calibrate() -> Result<Costs, Error> {
    let mut pair = Row::start(1).await?;
    let large = pair.processor_time(LARGE_PIECE).await?;
    let small = pair.processor_time(SMALL_PIECE).await?;
    let one_hop = pair.time_of_a_piece().await?;
    pair.leave().await;
    let mut row = Row::start(1 + HOPS).await?;
    let more_hops = row.time_of_a_piece().await?;
    row.leave().await;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    Ok(costs(threads as f64, large, small, more_hops.saturating_sub(one_hop) / HOPS))
}

/// The costs by the processor time of a large object in large and in small pieces, and by the time of a hop.
fn costs(threads: f64, large: Duration, small: Duration, hop: Duration) -> Costs {
    let pieces = |size: u32| LARGE_BYTES / u64::from(size);
    let piece = small.saturating_sub(large) / (pieces(SMALL_PIECE) - pieces(LARGE_PIECE)) as u32;
    // A noisy moment must not make anything free.
    let seconds = |time: Duration| time.max(Duration::from_micros(1)).as_secs_f64();
    let bytes_per_s = LARGE_BYTES as f64 * threads / seconds(large);
    // What the piece itself costs a node, the model counts beside the hop.
    let of_piece = Duration::from_secs_f64(f64::from(SINGLE_PIECE) / bytes_per_s + seconds(piece));
    Costs::new(bytes_per_s, seconds(piece), seconds(hop.saturating_sub(of_piece)))
}

/// A root and receivers behind it, in memory.
struct Row {
    root: Group,
    receivers: u32,
    /// Each receiver's word that it has an object.
    complete: mpsc::UnboundedReceiver<()>,
    /// The receivers; one that ends says why.
    tasks: JoinSet<Error>,
}

impl Row {
    async fn start(receivers: u32) -> Result<Row, Error> {
        let root = Group::create(options("root")).await?;
        let ticket = root.ticket().expect("the founder has the ticket").clone();
        let (tell, complete) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        for number in 0..receivers {
            let group = Group::join(&ticket, options(&format!("receiver-{number}")), PATIENCE).await?;
            tasks.spawn(receive_all(group, tell.clone()));
        }
        root.gather(receivers as usize).await?;
        Ok(Row { root, receivers, complete, tasks })
    }

    /// Processor time of this process for one large object.
    async fn processor_time(&mut self, piece_size: u32) -> Result<Duration, Error> {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let before = processor_time();
            self.broadcast(LARGE_BYTES, piece_size).await?;
            times.push(processor_time().saturating_sub(before));
        }
        Ok(middle(times))
    }

    /// Until the last of the row has an object of one piece.
    async fn time_of_a_piece(&mut self) -> Result<Duration, Error> {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            times.push(self.broadcast(u64::from(SINGLE_PIECE), SINGLE_PIECE).await?);
        }
        Ok(middle(times))
    }

    async fn broadcast(&mut self, bytes: u64, piece_size: u32) -> Result<Duration, Error> {
        let source = Source::bytes(vec![7; bytes as usize]);
        let options = BroadcastOptions {
            strategy: STRATEGY.into(),
            piece_size: Some(piece_size),
            receivers: Some(self.receivers),
        };
        let start = Instant::now();
        let mut broadcast = self.root.broadcast(source, options).await?;
        let (complete, receivers) = (&mut self.complete, self.receivers);
        let all = async {
            for _ in 0..receivers {
                complete.recv().await.ok_or(Error::Left)?;
            }
            let time = start.elapsed();
            broadcast.released().await.map(|()| time)
        };
        tokio::select! {
            time = all => time,
            // No receiver ends while objects come: the others would be waited for in vain.
            Some(ended) = self.tasks.join_next() => Err(ended.unwrap_or(Error::Left)),
        }
    }

    async fn leave(mut self) {
        self.root.leave().await;
        self.tasks.shutdown().await;
    }
}

fn options(name: &str) -> GroupOptions {
    GroupOptions {
        name: name.into(),
        cluster: Some("here".into()),
        listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        strategies: vec![STRATEGY.into()],
        ..GroupOptions::default()
    }
}

/// Takes all objects until the group is over, or something fails, and says what.
async fn receive_all(group: Group, complete: mpsc::UnboundedSender<()>) -> Error {
    loop {
        if let Err(error) = receive(&group).await {
            return error;
        }
        if complete.send(()).is_err() {
            return Error::Left;
        }
    }
}

async fn receive(group: &Group) -> Result<(), Error> {
    let offer = group.next_offer().await?;
    let mut broadcast = offer.receive(Sink::bytes(LARGE_BYTES), SinkOptions::default()).await?;
    broadcast.complete().await.map(drop)
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_is_without_the_time_of_its_piece() {
        let ms = Duration::from_millis;
        // 335.5 MB/s, and 10 µs for each of 2,016 pieces more: 128 KiB take 391 µs, and 10.
        let of_hop = |hop| costs(1.0, ms(100), Duration::from_micros(120_160), hop).hop.as_secs_f64();
        assert!((598e-6..600e-6).contains(&of_hop(ms(1))), "{}", of_hop(ms(1)));
        assert!((0.9e-6..1.1e-6).contains(&of_hop(Duration::from_micros(300))), "nothing is free");
    }

    #[tokio::test]
    async fn a_receiver_that_ends_early_ends_the_measurement() {
        let mut row = Row::start(1).await.expect("it starts");
        // One more, whose word never comes.
        row.receivers += 1;
        row.tasks.spawn(std::future::ready(Error::Busy));
        let ended = row.time_of_a_piece().await;
        assert!(matches!(ended, Err(Error::Busy)), "{ended:?}");
    }
}
