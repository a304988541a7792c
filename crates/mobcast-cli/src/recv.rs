//! `mobcast recv`: joins a group and receives what is broadcast in it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::BoolishValueParser;
use mobcast::{Broadcast, Completed, Error, EventStream, Group, Offer, Progress, Sink, SinkOptions};

use crate::args::{NodeArgs, OutputArgs};
use crate::failure::{Failure, Outcome, Status};
use crate::interrupt::Interrupt;
use crate::node::{conclude, describe, leave_nothing};
use crate::offers::{Patience, next_event, next_offer};
use crate::output;
use crate::progress::{DRAW_INTERVAL, Screen, Snapshot};
use crate::quantity::{parse_time, show_size};
use crate::ticket::TicketSource;

/// Telling the others that this node gives up takes no longer than this.
const ABORT_MAX: Duration = Duration::from_millis(100);

/// Receive what a ticket gives access to
///
/// Exits 0 when everything is verified and in its place and no other receiver needs this one. Ctrl-C before that
/// removes what has arrived and exits 130; Ctrl-C when everything is in its place and others are still served exits 0.
///
/// A ticket is a secret, and a command line can be read by others on the same machine: @FILE, @- and MOBCAST_TICKET
/// keep it.
#[derive(Args, Debug)]
pub struct RecvArgs {
    /// The line that mobcast send printed; @FILE to read it from a file, which is waited for; @- for standard input.
    /// Where the environment variable MOBCAST_TICKET is set, this argument may be left out
    #[arg(value_name = "TICKET|@FILE|@-")]
    ticket: Option<OsString>,

    /// Where to put it: a new name, an existing directory for a file, a block device; - for standard output
    /// [default: the object's own name in the current directory]
    #[arg(value_name = "DEST|-")]
    destination: Option<OsString>,

    /// Replace existing files, and merge into an existing directory
    #[arg(long, short, env = "MOBCAST_FORCE", hide_env_values = true, value_parser = BoolishValueParser::new())]
    force: bool,

    /// Verify and pass on to others, but keep nothing
    #[arg(long, env = "MOBCAST_VERIFY_ONLY", hide_env_values = true, value_parser = BoolishValueParser::new())]
    verify_only: bool,

    /// Keep set-uid, set-gid and sticky bits of a directory's entries, and, when run as root, the numeric owners
    #[arg(long, env = "MOBCAST_PRESERVE", hide_env_values = true, value_parser = BoolishValueParser::new())]
    preserve: bool,

    /// How long to wait for the ticket file and for the sender
    #[arg(long, value_name = "TIME", env = "MOBCAST_WAIT", hide_env_values = true, default_value = "60s",
        value_parser = parse_time)]
    wait: Duration,

    #[command(flatten)]
    node: NodeArgs,

    #[command(flatten)]
    output: OutputArgs,
}

/// Receives, and returns when it is over.
pub async fn run(args: RecvArgs) -> Outcome {
    let mut interrupt = Interrupt::new()?;
    let mut screen = Screen::new(args.output.quiet);
    let (ticket, destination) =
        TicketSource::sort(args.ticket.clone(), args.destination.clone(), std::env::var_os("MOBCAST_TICKET"))?;
    let sink = args.sink(destination.as_deref())?;
    let group = tokio::select! {
        group = join(&ticket, &args, &mut screen) => group?,
        () = interrupt.wait() => return Err(Failure::interrupted()),
    };
    let node = group.node();
    screen.say(&format!("joined as {}: cluster {} ({})", node.name, node.cluster, node.reason));
    let outcome = receive(&group, sink, &args, &mut screen, &mut interrupt).await;
    leave_nothing(group, &mut screen, &mut interrupt).await;
    outcome
}

impl RecvArgs {
    fn sink(&self, destination: Option<&Path>) -> Outcome<Sink> {
        let is_stdout = destination == Some(Path::new("-"));
        let refuse = |why| Err(Failure::new(Status::Usage, why));
        match destination {
            Some(_) if self.verify_only => refuse("--verify-only keeps nothing: leave the destination out"),
            _ if is_stdout && self.output.json => {
                refuse("--json and the destination - both need standard output: give a file as destination")
            }
            _ if self.verify_only => Ok(Sink::verify_only()),
            _ if is_stdout => Ok(Sink::writer(output::payload()?)),
            path => Ok(Sink::path(path.map(PathBuf::from))),
        }
    }
}

/// Joins the group; a ticket file that is replaced meanwhile counts anew, as it may be left from an earlier `send`.
async fn join(source: &TicketSource, args: &RecvArgs, screen: &mut Screen) -> Outcome<Group> {
    let deadline = Instant::now() + args.wait;
    loop {
        let ticket = source.read(deadline, &mut |words| screen.say(words)).await?;
        let wait = deadline.saturating_duration_since(Instant::now());
        tokio::select! {
            group = Group::join(&ticket, args.node.options(), wait) => match group.map_err(Failure::from) {
                Err(failure) if failure.status == Status::NotAdmitted && !source.is_current(&ticket) => {}
                decided => return decided,
            },
            () = source.replaced(&ticket) => {}
        }
    }
}

/// The next event that a receiver is told of, in words. Never ends.
async fn next_word(events: &mut EventStream) -> String {
    loop {
        if let Some(words) = describe(&next_event(events).await) {
            return words;
        }
    }
}

async fn receive(
    group: &Group,
    sink: Sink,
    args: &RecvArgs,
    screen: &mut Screen,
    interrupt: &mut Interrupt,
) -> Outcome {
    let options = SinkOptions { force: args.force, preserve: args.preserve };
    let mut events = group.events();
    let mut broadcast = tokio::select! {
        broadcast = accept(group, sink, options, &mut events, screen) => broadcast?,
        () = interrupt.wait() => return Err(Failure::interrupted()),
    };
    let outcome = match transfer(&mut broadcast, &mut events, screen, interrupt).await {
        Ok(completed) => {
            if completed.lost_attributes {
                screen.say(
                    "warning: the file system does not keep all modes and times; --preserve takes that for an error",
                );
            }
            screen.say(&format!("complete{}", place(&completed)));
            if !args.output.json {
                output::close();
            }
            loop {
                tokio::select! {
                    // Everything is in its place: whatever becomes of the group is no failure of this node.
                    _ = broadcast.released() => break,
                    words = next_word(&mut events) => screen.say(&words),
                    () = interrupt.wait() => break,
                }
            }
            Ok(())
        }
        Err(failure) => Err(failure),
    };
    let concluded = conclude(&broadcast, args.output, screen, interrupt).await;
    // Why it failed says more than why there is no report of it.
    outcome.and(concluded)
}

async fn accept(
    group: &Group,
    sink: Sink,
    options: SinkOptions,
    events: &mut EventStream,
    screen: &mut Screen,
) -> Result<Broadcast, Error> {
    let mut patience = Patience::default();
    let Some(offer) = next_offer(group, events, &mut patience, screen).await? else {
        return Err(Error::Incomplete("the sender went away before it had offered anything".into()));
    };
    screen.say(&announcement(&offer));
    offer.receive(sink, options).await
}

fn announcement(offer: &Offer) -> String {
    let name = match String::from_utf8_lossy(&offer.name) {
        name if name.is_empty() => "an object without a name".to_owned(),
        name => name.into_owned(),
    };
    let length = offer.length.map_or("unknown length".into(), show_size);
    let piece_kib = offer.piece_size >> 10;
    format!("receiving {name}: {length}, pieces of {piece_kib} KiB, strategy {}", offer.strategy)
}

/// Waits until everything is here, or gives up when interrupted.
async fn transfer(
    broadcast: &mut Broadcast,
    events: &mut EventStream,
    screen: &mut Screen,
    interrupt: &mut Interrupt,
) -> Outcome<Completed> {
    let mut tick = tokio::time::interval(DRAW_INTERVAL);
    loop {
        tokio::select! {
            completed = broadcast.complete() => return Ok(completed?),
            words = next_word(events) => screen.say(&words),
            () = interrupt.wait() => {
                let _ = tokio::time::timeout(ABORT_MAX, broadcast.abort("interrupted by its user")).await;
                return Err(Failure::interrupted());
            }
            _ = tick.tick() => screen.update(&mut snapshot(&broadcast.progress())),
        }
    }
}

fn snapshot(progress: &Progress) -> Snapshot {
    Snapshot { bytes: progress.bytes, length: progress.length, ..Snapshot::default() }
}

fn place(completed: &Completed) -> String {
    completed.path.as_ref().map_or(String::new(), |path| format!(": {}", path.display()))
}
