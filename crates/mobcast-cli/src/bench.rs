//! `mobcast bench`: broadcasts one after another in a running group, timed.
//!
//! The first process founds the group and is the root of all of them; the others take each into memory. The end is a
//! broadcast of one zero byte: what is timed begins with another byte.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::builder::{BoolishValueParser, PossibleValuesParser};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use mobcast::{
    AUTO, Broadcast, BroadcastOptions, Group, NodeId, NodeInfo, NodeState, STRATEGIES, Sink, SinkOptions, Source,
};
use serde::Serialize;
use tokio::time::timeout;

use crate::args::{NodeArgs, OutputArgs};
use crate::calibrate;
use crate::failure::{Failure, Outcome, Status};
use crate::interrupt::Interrupt;
use crate::node::leave;
use crate::offers::{Patience, next_offer};
use crate::output;
use crate::progress::Screen;
use crate::quantity::{QuantityError, parse_size, parse_time, show_size};
use crate::ticket::{self, TicketSource};

/// Objects are in memory, at the root twice over.
const SIZE_MAX: u64 = 1 << 30;
/// What is broadcast at the end.
const END: u8 = 0;
/// A group takes this long to be linked after the last one has joined, beside the patience of the user.
const LINKING_MAX: Duration = Duration::from_secs(2);
/// How often the first process looks whether all others are still there while a broadcast runs. Events would tell it sooner,
/// and wake it for each result of each node, within what is timed.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Time broadcasts in a running group, one after another
///
/// On one machine: mobcast bench --receivers N. It prints a ticket. On N others: mobcast bench TICKET. When all have
/// joined, objects of each size go out from memory into memory, each when the one before is verified everywhere. The
/// time of one runs from its start until the first machine knows that all others have it.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// The line that the first process printed; @FILE to read it from a file, which is waited for; @- for standard
    /// input. Without it, this is the first process
    #[arg(value_name = "TICKET|@FILE|@-")]
    ticket: Option<OsString>,

    /// How many others there are
    #[arg(long, value_name = "N", env = "MOBCAST_RECEIVERS", hide_env_values = true,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    receivers: Option<u32>,

    /// Sizes of the objects, 1GiB at most
    #[arg(long, value_name = "SIZE,…", env = "MOBCAST_SIZES", hide_env_values = true, value_delimiter = ',',
        default_value = "4KiB,64KiB,1MiB", value_parser = size)]
    sizes: Vec<u64>,

    /// Broadcasts of each size that count; one before them does not
    #[arg(long, value_name = "N", env = "MOBCAST_ROUNDS", hide_env_values = true, default_value = "20",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,

    /// How the nodes exchange pieces; see mobcast strategies
    #[arg(long, value_name = "NAME", env = "MOBCAST_STRATEGY", hide_env_values = true, default_value = AUTO,
        value_parser = PossibleValuesParser::new([AUTO].into_iter().chain(
            STRATEGIES.iter().filter(|kind| !kind.needs_network).map(|kind| kind.name))))]
    strategy: String,

    /// Members take each other's word instead of signatures for each object, which are most of a small one's time:
    /// see docs/security.md
    #[arg(long, env = "MOBCAST_TRUST_MEMBERS", hide_env_values = true, value_parser = BoolishValueParser::new())]
    trust_members: bool,

    /// Write the ticket to a file, too: complete or not at all, readable by its owner alone. It
    /// is left there at the end
    #[arg(long, value_name = "FILE", env = "MOBCAST_TICKET_FILE", hide_env_values = true)]
    ticket_file: Option<PathBuf>,

    /// How long to wait for the ticket file and for the first process; and that one for the others
    #[arg(long, value_name = "TIME", env = "MOBCAST_WAIT", hide_env_values = true, default_value = "60s",
        value_parser = parse_time)]
    wait: Duration,

    #[command(flatten)]
    node: NodeArgs,

    #[command(flatten)]
    output: OutputArgs,
}

/// What the first process reports.
#[derive(Serialize)]
struct RootReport {
    /// How many others took part.
    receivers: u32,
    /// By size, in the order in which they were asked for.
    sizes: Vec<SizeReport>,
}

/// Broadcasts of one size.
#[derive(Serialize)]
struct SizeReport {
    /// Bytes of each object.
    bytes: u64,
    /// The strategy.
    strategy: String,
    /// Why it was chosen, if it was.
    reason: Option<String>,
    /// When each began, in seconds since 1970 by the machine's clock; the first of them does not count.
    started_at: Vec<f64>,
    /// How long each took until all others were known to have it.
    seconds: Vec<f64>,
}

/// What the others report.
#[derive(Serialize)]
struct ReceiverReport {
    /// The node's name.
    name: String,
    /// When each object was here, verified, in seconds since 1970 by the machine's clock.
    complete_at: Vec<f64>,
}

fn size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|error: QuantityError| error.to_string())?;
    if (1..=SIZE_MAX).contains(&bytes) { Ok(bytes) } else { Err("an object has 1 byte to 1GiB here".into()) }
}

/// What is wrong with a command line of `bench` beyond its single arguments: it is either the first process or another one. A ticket
/// wins over what the environment says, which may be the same for all.
pub fn conflict(matches: &ArgMatches) -> Option<&'static str> {
    let is_first = matches.value_source("receivers") == Some(ValueSource::CommandLine);
    let is_other = matches.contains_id("ticket");
    (is_first && is_other).then_some("the argument '[TICKET|@FILE|@-]' cannot be used with '--receivers <N>'")
}

/// Runs until all sizes are timed, or the first process says that they are.
pub async fn run(args: BenchArgs) -> Outcome {
    let mut interrupt = Interrupt::new()?;
    let mut screen = Screen::new(args.output.quiet);
    let timed = async {
        match (&args.ticket, args.receivers) {
            (Some(ticket), _) => receive(TicketSource::of(ticket)?, &args, &mut screen).await,
            (None, Some(receivers)) => send(&args, receivers, &mut screen).await,
            (None, None) => {
                let remedy = "say --receivers N in the first process, and in the others the ticket that it printed";
                Err(Failure::new(Status::Usage, remedy))
            }
        }
    };
    tokio::select! {
        outcome = timed => outcome,
        () = interrupt.wait() => Err(Failure::interrupted()),
    }
}

// ---- The first process ----

async fn send(args: &BenchArgs, receivers: u32, screen: &mut Screen) -> Outcome {
    args.ticket_file.as_deref().into_iter().for_each(ticket::remove_stale);
    let mut options = args.node.options();
    options.costs = calibrate::costs();
    options.trust_members = args.trust_members;
    options.strategies = vec![args.strategy.clone(), STRATEGIES[0].name.to_owned()];
    let group = Group::create(options).await?;
    let ticket = group.ticket().expect("the founder has the ticket");
    if let Some(path) = &args.ticket_file {
        ticket::write_file(path, ticket)?;
    }
    if !args.output.json {
        output::print_line(&ticket.to_string())?;
    } else if args.ticket_file.is_none() {
        output::tell(&format!("ticket: {ticket}\n"));
    }
    screen.say(&format!("it starts when {receivers} others have joined"));
    let timed = time_all(&group, args, receivers, screen).await;
    leave(group).await;
    let report = timed?;
    if args.output.json { output::print_json(&report) } else { Ok(()) }
}

/// Waits for the others and times all sizes; the others are told at the end.
async fn time_all(group: &Group, args: &BenchArgs, receivers: u32, screen: &mut Screen) -> Outcome<RootReport> {
    let others = gather(group, args, receivers).await?;
    let mut report = RootReport { receivers, sizes: Vec::new() };
    for &bytes in &args.sizes {
        let timed = time_size(group, &others, args, bytes).await?;
        screen.say(&line(&timed));
        report.sizes.push(timed);
    }
    broadcast(group, &others, args, vec![END]).await?;
    Ok(report)
}

/// Waits until all others have joined, and says who they are.
async fn gather(group: &Group, args: &BenchArgs, receivers: u32) -> Outcome<Vec<NodeInfo>> {
    let all = async {
        loop {
            group.gather(receivers as usize).await?;
            let others = group.members();
            // One may have been lost at this very moment.
            if others.len() >= receivers as usize {
                return Ok::<_, Failure>(others);
            }
        }
    };
    let gathered = timeout(args.wait.saturating_add(LINKING_MAX), all).await;
    gathered.map_err(|_| {
        let (joined, wait) = (group.members().len(), args.wait.as_secs_f64());
        Failure::new(
            Status::Incomplete,
            format_args!(
                "{joined} of {receivers} joined within {wait} s; give it longer (--wait), or start the others"
            ),
        )
    })?
}

async fn time_size(group: &Group, others: &[NodeInfo], args: &BenchArgs, bytes: u64) -> Outcome<SizeReport> {
    let (mut started_at, mut seconds) = (Vec::new(), Vec::new());
    let mut report = SizeReport { bytes, strategy: String::new(), reason: None, started_at: vec![], seconds: vec![] };
    for round in 0..=args.rounds {
        let timed = broadcast(group, others, args, object(bytes, round)).await?;
        started_at.push(timed.started_at);
        seconds.push(timed.seconds);
        (report.strategy, report.reason) = (timed.strategy, timed.reason);
    }
    Ok(SizeReport { started_at, seconds, ..report })
}

/// Bytes that differ from round to round.
fn object(bytes: u64, round: u32) -> Vec<u8> {
    (0..bytes).map(|at| if at == 0 { END + 1 } else { (at ^ u64::from(round).wrapping_mul(151)) as u8 }).collect()
}

/// What one broadcast took.
struct Timed {
    strategy: String,
    reason: Option<String>,
    started_at: f64,
    seconds: f64,
}

async fn broadcast(group: &Group, others: &[NodeInfo], args: &BenchArgs, data: Vec<u8>) -> Outcome<Timed> {
    let options =
        BroadcastOptions { strategy: args.strategy.clone(), receivers: args.receivers, ..BroadcastOptions::default() };
    let start = Instant::now();
    let mut broadcast = group.broadcast(Source::bytes(data), options).await?;
    loop {
        match timeout(LOOK_INTERVAL, broadcast.released()).await {
            Ok(released) => break released?,
            Err(_) => check_all(&broadcast, others)?,
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    check_all(&broadcast, others)?;
    let reason = broadcast.choice().map(|choice| choice.reason.clone());
    Ok(Timed { strategy: broadcast.strategy().to_owned(), reason, started_at: broadcast.started_at(), seconds })
}

/// Fails if one of the others has not received a broadcast and never will. It makes no report, which says much more, and takes as
/// long as an object does at a node.
fn check_all(broadcast: &Broadcast, others: &[NodeInfo]) -> Outcome {
    let nodes = broadcast.progress().nodes;
    let states: BTreeMap<NodeId, NodeState> = nodes.into_iter().map(|node| (node.node, node.state)).collect();
    for other in others {
        let failure = match states.get(&other.id) {
            Some(NodeState::Complete | NodeState::Receiving) => continue,
            Some(NodeState::Failed(reason)) => reason.as_str(),
            // Who was lost before it began is not listed.
            Some(NodeState::Lost) | None => "the node was lost",
        };
        return Err(Failure::new(Status::Incomplete, format_args!("{}: {failure}; start all anew", other.name)));
    }
    Ok(())
}

/// A line for the person.
fn line(report: &SizeReport) -> String {
    let mut sorted = report.seconds[1..].to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part).round() as usize] * 1e3;
    let (size, strategy, rounds) = (show_size(report.bytes), &report.strategy, sorted.len());
    let (median, least, most) = (at(0.5), at(0.1), at(0.9));
    let rate = report.bytes as f64 / 1e3 / median;
    format!(
        "{size} by {strategy}: {median:.2} ms in the median of {rounds} (8 of 10: {least:.2} to {most:.2}), {rate:.1} MB/s"
    )
}

// ---- The others ----

async fn receive(source: TicketSource, args: &BenchArgs, screen: &mut Screen) -> Outcome {
    let deadline = Instant::now() + args.wait;
    let ticket = source.read(deadline, &mut |words| screen.say(words)).await?;
    let wait = deadline.saturating_duration_since(Instant::now());
    let group = Group::join(&ticket, args.node.options(), wait).await?;
    let name = group.node().name;
    screen.say(&format!("joined as {name}"));
    let mut report = ReceiverReport { name, complete_at: Vec::new() };
    let (mut events, mut patience) = (group.events(), Patience::default());
    loop {
        let offer = next_offer(&group, &mut events, &mut patience, screen).await?.ok_or_else(|| {
            Failure::new(Status::Incomplete, "the first process went away before all was timed; start all anew")
        })?;
        let mut broadcast = offer.receive(Sink::bytes(SIZE_MAX), SinkOptions::default()).await?;
        let completed = broadcast.complete().await?;
        if completed.data.is_some_and(|data| data[..] == [END]) {
            // Whatever becomes of the group now is no failure.
            let _ = broadcast.released().await;
            break;
        }
        report.complete_at.extend(broadcast.complete_at());
    }
    leave(group).await;
    if args.output.json { output::print_json(&report) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_object_is_taken_for_the_end() {
        assert_ne!(object(1, 0), [END]);
        assert_eq!(object(5, 0).len(), 5);
        assert_ne!(object(4096, 1), object(4096, 2));
    }

    #[test]
    fn sizes_fit_into_memory() {
        assert_eq!((size("4KiB"), size("1GiB")), (Ok(4096), Ok(1 << 30)));
        for wrong in ["0", "2GiB", "x"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_first_round_does_not_count() {
        let report = SizeReport {
            bytes: 4096,
            strategy: "mob".into(),
            reason: None,
            started_at: vec![0.0; 4],
            seconds: vec![9.0, 0.003, 0.001, 0.002],
        };
        let said = line(&report);
        assert!(said.contains("2.00 ms in the median of 3 (8 of 10: 1.00 to 3.00)"), "{said}");
    }
}
