//! `mobcast send`: founds a group and is the root of one broadcast.
//!
//! Left to others: who counts as missing, and when it is over (`roster`).

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::{BoolishValueParser, PossibleValuesParser};
use mobcast::{
    AUTO, Broadcast, BroadcastId, BroadcastOptions, DEFAULT_PORT, Error, EventStream, Gauge, Group, GroupEvent,
    Progress, STRATEGIES, Source,
};
use rustix::fs::OFlags;
use serde_json::json;
use tokio::time::timeout;

use crate::args::{Listen, NodeArgs, OutputArgs, piece_size, positive_time};
use crate::calibrate;
use crate::failure::{Failure, Outcome, Status};
use crate::interrupt::Interrupt;
use crate::node::{conclude, describe, leave};
use crate::output;
use crate::progress::{ClusterProgress, DRAW_INTERVAL, Screen, Snapshot};
use crate::quantity::{parse_size, parse_time};
use crate::ticket;

mod roster;

use roster::Roster;

/// After the last receiver's result, the word that all may go takes one way down the group.
const RELEASE_MAX: Duration = Duration::from_millis(500);

/// The gauge that is no file.
const MEASURE: &str = "measure";

/// What a group takes to be linked after the last one has joined: it is not the user's patience.
const LINKING_MAX: Duration = Duration::from_secs(2);

/// Send a file, directory or stream to everybody who has the ticket
///
/// Prints a ticket; on each receiver, run: mobcast recv TICKET. The transfer starts with the first receiver and takes
/// later ones in; with --gather it starts when all are there.
///
/// With --receivers N it exits 0 when N receivers have verified everything, and 4, naming them, when receivers are lost
/// and none replaces them within --wait. Without, it serves until it is interrupted, and exits 0 if somebody joined and
/// all who joined have everything, 4 if one of them was lost or failed, and 130 if nobody joined or the interrupt cut
/// somebody off.
#[derive(Args, Debug)]
pub struct SendArgs {
    /// A file, directory or block device; - for standard input; synthetic:SIZE or synthetic:SIZE:SEED for
    /// generated data
    #[arg(value_name = "PATH|-|synthetic:SIZE[:SEED]")]
    path: OsString,

    /// Exit when this many receivers have verified everything [default: serve until interrupted]
    #[arg(long, value_name = "N", env = "MOBCAST_RECEIVERS", hide_env_values = true,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    receivers: Option<u32>,

    /// How the nodes exchange pieces; see mobcast strategies
    #[arg(long, value_name = "NAME", env = "MOBCAST_STRATEGY", hide_env_values = true,
        default_value = AUTO,
        value_parser = PossibleValuesParser::new([AUTO].into_iter().chain(STRATEGIES.iter().map(|kind| kind.name))))]
    strategy: String,

    /// What the network between the clusters is like, for strategies that plan for it: a topology file,
    /// or measure, to have the receivers measure it (with --gather)
    #[arg(long, value_name = "FILE|measure", env = "MOBCAST_GAUGE", hide_env_values = true)]
    gauge: Option<PathBuf>,

    /// Wait with the transfer until all --receivers have joined, for --wait at most
    #[arg(long, requires = "receivers", env = "MOBCAST_GATHER", hide_env_values = true,
        value_parser = BoolishValueParser::new())]
    gather: bool,

    /// Unit of exchange and verification: a power of two from 16KiB to 16MiB
    /// [default: chosen from the sizes of object and group]
    #[arg(long, value_name = "SIZE", env = "MOBCAST_PIECE_SIZE", hide_env_values = true, value_parser = piece_size)]
    piece_size: Option<u32>,

    /// How long to wait for a missing receiver, from when the last one came or went; only with --receivers
    /// [default: for ever until one is lost, 60s from then on]
    #[arg(long, value_name = "TIME", env = "MOBCAST_WAIT", hide_env_values = true, value_parser = parse_time)]
    wait: Option<Duration>,

    /// How long the ticket admits receivers
    #[arg(long, value_name = "TIME", env = "MOBCAST_EXPIRES", hide_env_values = true, default_value = "24h",
        value_parser = positive_time)]
    expires: Duration,

    /// Write the ticket to a file, too: complete or not at all, readable by its owner alone. It
    /// is left there at the end
    #[arg(long, value_name = "FILE", env = "MOBCAST_TICKET_FILE", hide_env_values = true)]
    ticket_file: Option<PathBuf>,

    #[command(flatten)]
    node: NodeArgs,

    #[command(flatten)]
    output: OutputArgs,
}

/// Sends, and returns when it is over.
pub async fn run(args: SendArgs) -> Outcome {
    let mut interrupt = Interrupt::new()?;
    let mut screen = Screen::new(args.output.quiet);
    let source = source(&args.path)?;
    in_use(&args.path).into_iter().for_each(|words| screen.say(&words));
    args.ticket_file.as_deref().into_iter().for_each(ticket::remove_stale);
    let mut options = args.node.options();
    options.expires = args.expires;
    // Before anybody has joined there is nothing to compare, and no need of links for what will not be chosen.
    let early = args.strategy == AUTO && !args.gather;
    options.strategies = vec![if early { STRATEGIES[0].name.to_owned() } else { args.strategy.clone() }];
    options.costs = calibrate::costs();
    options.gauge = args.gauge()?;
    args.unused_gauge().into_iter().for_each(|words| screen.say(&words));
    let group = Group::create(options).await?;
    let outcome = send(&args, &group, source, &mut screen, &mut interrupt).await;
    leave(group).await;
    outcome
}

async fn send(
    args: &SendArgs,
    group: &Group,
    source: Source,
    screen: &mut Screen,
    interrupt: &mut Interrupt,
) -> Outcome {
    if args.gather {
        source.check()?;
        hand_out(group, args, screen)?;
        gather(args, group, screen, interrupt).await?;
        measure(args, group, screen, interrupt).await?;
    }
    let events = group.events();
    // A directory is scanned here, which may take a while.
    let broadcast = tokio::select! {
        broadcast = group.broadcast(source, args.broadcast_options()) => broadcast?,
        () = interrupt.wait() => return Err(Failure::interrupted()),
    };
    if !args.gather {
        hand_out(group, args, screen)?;
    }
    if let Some(choice) = broadcast.choice().filter(|choice| !choice.predicted.is_empty()) {
        screen.say(&choice.reason);
    }
    Sending::new(args, broadcast, screen).run(events, interrupt).await
}

/// Waits until all receivers have joined.
async fn gather(args: &SendArgs, group: &Group, screen: &mut Screen, interrupt: &mut Interrupt) -> Outcome {
    let wanted = args.receivers.unwrap_or(0);
    screen.say(&format!("the transfer starts when {wanted} receivers have joined"));
    let mut events = group.events();
    let patience = args.wait.map_or(Duration::MAX, |wait| wait.saturating_add(LINKING_MAX));
    let gathered = timeout(patience, group.gather(wanted as usize));
    let mut gathered = pin!(gathered);
    loop {
        tokio::select! {
            all = &mut gathered => {
                let all = all.map_err(|_| {
                    let (joined, wait) = (group.members().len(), args.wait.unwrap_or_default());
                    let remedy = "give it longer, start the others, or leave --gather away";
                    Failure::new(
                        Status::Incomplete,
                        format_args!("{joined} of {wanted} receivers joined within {} s; {remedy}", wait.as_secs_f64()),
                    )
                });
                return Ok(all??);
            }
            Some(event) = events.next() => args.describe(&event).into_iter().for_each(|words| screen.say(&words)),
            () = interrupt.wait() => return Err(Failure::interrupted()),
        }
    }
}

/// Has the receivers measure the network, if that is what the gauge is.
async fn measure(args: &SendArgs, group: &Group, screen: &mut Screen, interrupt: &mut Interrupt) -> Outcome {
    if !args.measures() {
        return Ok(());
    }
    screen.say("measuring the network between the clusters");
    let mut events = group.events();
    let mut measured = pin!(group.measure());
    loop {
        tokio::select! {
            measured = &mut measured => return Ok(measured.map(drop)?),
            Some(event) = events.next() => args.describe(&event).into_iter().for_each(|words| screen.say(&words)),
            () = interrupt.wait() => return Err(Failure::interrupted()),
        }
    }
}

impl SendArgs {
    /// Whether the receivers measure the network.
    fn measures(&self) -> bool {
        self.gauge.as_deref() == Some(Path::new(MEASURE))
    }

    fn gauge(&self) -> Outcome<Option<Gauge>> {
        if self.measures() && !self.gather {
            let remedy = "only receivers who are there can measure: add --gather and --receivers N";
            return Err(Failure::new(Status::Usage, format_args!("--gauge {MEASURE} without --gather: {remedy}")));
        }
        Ok(match &self.gauge {
            Some(_) if self.measures() => Some(Gauge::measure()),
            Some(path) => Some(Gauge::read(path)?),
            None => None,
        })
    }

    /// That the gauge has no part in this transfer, if that is so.
    fn unused_gauge(&self) -> Option<String> {
        self.gauge.as_ref()?;
        let why = match STRATEGIES.iter().find(|kind| kind.name == self.strategy) {
            Some(kind) if !kind.needs_network => format!("strategy {} does not plan for a network", kind.name),
            None if !self.gather => "without --gather no strategies are compared".to_owned(),
            _ => return None,
        };
        Some(format!("warning: --gauge is of no use here: {why}"))
    }

    /// What happens before the transfer, in a line for the person. Where a strategy is still to be chosen, one without a plan will not be.
    fn describe(&self, event: &GroupEvent) -> Option<String> {
        match event {
            GroupEvent::Unplanned { strategy, reason } if self.strategy == AUTO => {
                Some(format!("warning: {strategy} cannot be chosen: {reason}"))
            }
            event => describe(event),
        }
    }

    fn broadcast_options(&self) -> BroadcastOptions {
        BroadcastOptions { strategy: self.strategy.clone(), piece_size: self.piece_size, receivers: self.receivers }
    }
}

fn source(path: &OsString) -> Outcome<Source> {
    match path.as_bytes() {
        b"-" => Ok(Source::reader(output::source()?)),
        bytes if bytes.starts_with(b"synthetic:") => synthetic(&path.to_string_lossy()),
        _ => Ok(Source::path(path)),
    }
}

/// That others use the block device that is to be sent, if they do: unlike a file, it does not tell whether it has changed.
fn in_use(path: &OsString) -> Option<String> {
    let is_device = fs::metadata(path).is_ok_and(|there| there.file_type().is_block_device());
    let alone = || File::options().read(true).custom_flags(OFlags::EXCL.bits() as i32).open(path);
    is_device.then(alone)?.err().filter(|error| error.kind() == ErrorKind::ResourceBusy)?;
    let remedy = "if it is written to meanwhile, receivers fail: unmount it, or send a snapshot";
    Some(format!("warning: {} is in use, as a mounted device is; {remedy}", path.to_string_lossy()))
}

fn synthetic(text: &str) -> Outcome<Source> {
    let wrong = |why: String| {
        Failure::new(
            Status::Usage,
            format_args!("{text}: {why}; generated data is synthetic:SIZE or synthetic:SIZE:SEED"),
        )
    };
    let mut parts = text.split(':').skip(1);
    let size = parts.next().unwrap_or_default();
    let length = parse_size(size).map_err(|error| wrong(error.to_string()))?;
    let seed = parts.next().map_or(Ok(0), str::parse);
    match (seed, parts.next()) {
        (Ok(seed), None) => Ok(Source::synthetic(length, seed)),
        _ => Err(wrong("the seed is a number".into())),
    }
}

/// Tells the person if it is not the port that firewalls are opened for.
fn tell_port(ticket: &mobcast::Ticket, args: &SendArgs, screen: &mut Screen) {
    let is_chosen = args.node.listen.is_some() || args.node.advertise.is_some_and(|advertise| advertise.port.is_some());
    let port = ticket.addresses.first().map_or(DEFAULT_PORT, SocketAddr::port);
    if !is_chosen && port != DEFAULT_PORT {
        screen.say(&format!("port {DEFAULT_PORT} is taken: listening on port {port}"));
    }
}

/// Tells the person if nobody else can use the ticket, and that is not what the flags say.
fn tell_alone(ticket: &mobcast::Ticket, args: &SendArgs, screen: &mut Screen) {
    let is_chosen = matches!(args.node.listen, Some(Listen::At(_))) || args.node.advertise.is_some();
    if !is_chosen && ticket.addresses.iter().all(|address| address.ip().is_loopback()) {
        screen.say(
            "warning: only this machine can use the ticket: it has no address in a network; connect it and start anew, or \
             give --advertise",
        );
    }
}

/// Gives the ticket to the person or the file. With `--json`, standard output is kept for the report.
fn hand_out(group: &Group, args: &SendArgs, screen: &mut Screen) -> Outcome {
    let ticket = group.ticket().expect("the founder has the ticket");
    tell_port(ticket, args, screen);
    tell_alone(ticket, args, screen);
    if let Some(path) = &args.ticket_file {
        ticket::write_file(path, ticket)?;
    }
    match (args.output.json, &args.ticket_file) {
        (false, _) => output::print_line(&ticket.to_string()),
        (true, Some(_)) => Ok(()),
        (true, None) => {
            output::tell(&format!("ticket: {ticket}\n"));
            Ok(())
        }
    }
}

/// How far a broadcast is at its root.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The source is being read.
    Reading,
    /// All of it was read.
    Read,
    /// Nobody needs the root, but for those who come later.
    Released,
}

/// Waits for the next stage, after the last one for ever; fails as soon as the broadcast does.
async fn next_stage(broadcast: &mut Broadcast, stage: Stage) -> Result<Stage, Error> {
    match stage {
        Stage::Reading => broadcast.complete().await.map(|_| Stage::Read),
        Stage::Read => broadcast.released().await.map(|()| Stage::Released),
        Stage::Released => Err(broadcast.failed().await),
    }
}

/// A broadcast from the root's side, while it runs.
struct Sending<'a> {
    args: &'a SendArgs,
    broadcast: Broadcast,
    roster: Roster,
    /// Whether it was said last that the source may leave.
    source_may_leave: bool,
    screen: &'a mut Screen,
}

impl<'a> Sending<'a> {
    fn new(args: &'a SendArgs, broadcast: Broadcast, screen: &'a mut Screen) -> Sending<'a> {
        let wanted = args.receivers.map(|receivers| receivers as usize);
        let roster = Roster::new(wanted, args.wait, Instant::now());
        Sending { args, broadcast, roster, source_may_leave: false, screen }
    }

    async fn run(mut self, events: EventStream, interrupt: &mut Interrupt) -> Outcome {
        let outcome = self.serve(events, interrupt).await;
        if outcome.is_ok() {
            let _ = timeout(RELEASE_MAX, self.broadcast.released()).await;
        }
        let concluded = conclude(&self.broadcast, self.args.output, self.screen, interrupt).await;
        // Why it failed says more than why there is no report of it.
        outcome.and(concluded)
    }

    /// Serves until it is over, one way or another.
    async fn serve(&mut self, mut events: EventStream, interrupt: &mut Interrupt) -> Outcome {
        let mut tick = tokio::time::interval(DRAW_INTERVAL);
        let (mut stage, mut has_events) = (Stage::Reading, true);
        loop {
            tokio::select! {
                reached = next_stage(&mut self.broadcast, stage) => stage = reached?,
                event = events.next(), if has_events => {
                    match event {
                        Some(event) => self.tell(&event),
                        None => has_events = false,
                    }
                    // Who is there is looked up ten times a second, however much happens.
                    continue;
                }
                () = interrupt.wait() => {
                    self.observe();
                    return self.roster.at_interrupt();
                }
                _ = tick.tick() => {}
            }
            self.observe();
            // Before everything is read, nobody can have everything; and a change of the source shows at its end.
            if let Some(verdict) = self.roster.verdict(Instant::now())
                && (stage != Stage::Reading || verdict.is_err())
            {
                // What has happened before that is told.
                while let Ok(Some(event)) = timeout(Duration::ZERO, events.next()).await {
                    self.tell(&event);
                }
                self.tell_of_source();
                return verdict;
            }
        }
    }

    /// What happens in the group, in a line for the person.
    fn tell(&mut self, event: &GroupEvent) {
        match event {
            GroupEvent::RootMayLeave { .. } | GroupEvent::RootNeeded { .. } => self.tell_of_source(),
            // Another one was chosen.
            GroupEvent::Unplanned { strategy, .. } if *strategy != self.broadcast.strategy() => {}
            event => describe(event).into_iter().for_each(|words| self.screen.say(&words)),
        }
    }

    /// Says whether the source may leave, if that is another than was said last: to the person, or, as a script has to act on it, in
    /// a line of JSON. It goes by how it stands: where much happens at a time, events are lost.
    fn tell_of_source(&mut self) {
        let (id, may_leave) = (self.broadcast.id(), self.broadcast.source_may_leave());
        let Some((signal, event)) = change_of_source(id, self.source_may_leave, may_leave.is_some()) else { return };
        self.source_may_leave = may_leave.is_some();
        if self.args.output.json {
            let seconds = may_leave.unwrap_or_else(|| self.broadcast.progress().elapsed).as_secs_f64();
            self.screen.signal(&json!({ "event": signal, "seconds": seconds }).to_string());
        } else {
            describe(&event).into_iter().for_each(|words| self.screen.say(&words));
        }
    }

    /// Takes stock of the receivers, and shows it.
    fn observe(&mut self) {
        let progress = self.broadcast.progress();
        self.roster.observe(&progress.nodes, Instant::now());
        self.tell_of_source();
        self.screen.update(&mut self.snapshot(&progress));
    }

    fn snapshot(&self, progress: &Progress) -> Snapshot {
        let clusters = clusters(progress);
        let nodes: usize = clusters.iter().map(|cluster| cluster.nodes).sum();
        let bytes: u64 = clusters.iter().map(|cluster| cluster.bytes * cluster.nodes as u64).sum();
        Snapshot {
            bytes: bytes.checked_div(nodes as u64).unwrap_or(0),
            length: progress.length,
            rate_bytes_per_s: 0,
            nodes_complete: self.roster.complete(),
            nodes: self.roster.expected(),
            clusters,
        }
    }
}

/// What is to be said when it was said that the source may leave, or not, and then it `may_leave`, or not.
fn change_of_source(id: BroadcastId, said: bool, may_leave: bool) -> Option<(&'static str, GroupEvent)> {
    match (said, may_leave) {
        (false, true) => Some(("source_may_leave", GroupEvent::RootMayLeave { broadcast: id })),
        (true, false) => Some(("source_needed", GroupEvent::RootNeeded { broadcast: id })),
        _ => None,
    }
}

/// The living receivers by cluster, in the order in which the clusters came.
fn clusters(progress: &Progress) -> Vec<ClusterProgress> {
    let mut clusters: Vec<ClusterProgress> = Vec::new();
    let living = progress.nodes.iter().filter(|node| roster::is_there(&node.state));
    for node in living {
        let at = clusters.iter().position(|cluster| cluster.name == node.cluster).unwrap_or_else(|| {
            clusters.push(ClusterProgress { name: node.cluster.clone(), ..ClusterProgress::default() });
            clusters.len() - 1
        });
        let cluster = &mut clusters[at];
        let is_complete = node.state == mobcast::NodeState::Complete;
        let bytes = if is_complete { progress.length.unwrap_or(node.bytes) } else { node.bytes };
        cluster.nodes += 1;
        cluster.nodes_complete += usize::from(is_complete);
        cluster.bytes += bytes;
    }
    clusters.iter_mut().for_each(|cluster| cluster.bytes /= cluster.nodes as u64);
    clusters
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without an event for it, as those are lost that come too fast.
    #[test]
    fn a_script_is_told_by_how_the_source_stands() {
        let id = BroadcastId { root: mobcast::NodeId(0), sequence: 0 };
        let said = |before, now| change_of_source(id, before, now).map(|(signal, _)| signal);
        assert_eq!((said(false, false), said(false, true)), (None, Some("source_may_leave")));
        assert_eq!((said(true, true), said(true, false)), (None, Some("source_needed")), "each is said once");
    }

    #[test]
    fn generated_data_has_a_size_and_a_seed() {
        assert_eq!(format!("{:?}", source(&"synthetic:1MiB:7".into())), "Ok(Synthetic(1048576 bytes, seed 7))");
        assert_eq!(format!("{:?}", source(&"synthetic:10".into())), "Ok(Synthetic(10 bytes, seed 0))");
        for wrong in ["synthetic:", "synthetic:x", "synthetic:1MiB:x", "synthetic:1:2:3"] {
            let failure = source(&wrong.into()).expect_err(wrong);
            assert_eq!(failure.status, Status::Usage, "{failure}");
        }
    }
}
