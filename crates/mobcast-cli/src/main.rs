//! The command `mobcast`: argument parsing, words and exit statuses around the library.
//!
//! | file | what it holds |
//! |---|---|
//! | `cli.rs`, `args.rs` | the command line; flags of several subcommands |
//! | `send/`, `recv.rs`, `demo/`, `bench.rs`, `calibrate.rs`, `strategies.rs`, `completions.rs`, `version.rs` | a subcommand each |
//! | `node.rs`, `interrupt.rs` | what `send` and `recv` have in common; the signals that end them |
//! | `ticket.rs` | how a ticket gets from one to the other |
//! | `offers.rs` | how long a receiver waits for something to be offered |
//! | `progress/` | words and bars on standard error |
//! | `output.rs` | standard output, and the thread of standard error |
//! | `quantity.rs` | sizes, rates, times |
//! | `failure.rs` | exit statuses |

#![forbid(unsafe_code)]

mod args;
mod bench;
mod calibrate;
mod cli;
mod completions;
mod demo;
mod failure;
mod interrupt;
mod node;
mod offers;
mod output;
mod progress;
mod quantity;
mod recv;
mod send;
mod strategies;
mod ticket;
mod version;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};
use tracing_subscriber::EnvFilter;

use crate::cli::Cli;
use crate::failure::{Failure, Outcome, Status};

/// Threads of the async runtime at most. It moves frames and payload, and opens and seals both; hashing and disks have threads of their own.
const WORKERS_MAX: usize = 4;

fn main() -> ExitCode {
    let _words = output::LastWords;
    demo::end_with_parent();
    permit_files();
    let cli = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    start_logs();
    match run(cli) {
        Ok(()) => Status::Done.into(),
        Err(failure) => {
            output::tell(&format!("mobcast: {failure}\n"));
            failure.status.into()
        }
    }
}

/// Says what is wrong with a command line. A ticket at the wrong place in it is not quoted.
fn refuse(error: &clap::Error) -> ExitCode {
    let text = error.to_string();
    let shown = ticket::without_tickets(&text);
    if shown == text {
        // In colours; and help, which was asked for, on standard output.
        error.exit();
    }
    output::tell(&shown);
    Status::Usage.into()
}

fn run(cli: Cli) -> Outcome {
    let runtime =
        start_runtime().map_err(|error| Failure::new(Status::Failed, format_args!("cannot start threads: {error}")))?;
    // As a task among the node's: waking what the runtime blocks on takes a system call each time.
    let outcome = match runtime.block_on(runtime.spawn(cli.run())) {
        Ok(outcome) => outcome,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    };
    // A thread may be blocked in reading a terminal or pipe, which nothing but the end of the process ends.
    runtime.shutdown_background();
    outcome
}

fn start_runtime() -> io::Result<Runtime> {
    match workers() {
        // Without another thread beside this one: each object would be handed to that and back.
        1 => Builder::new_current_thread().enable_all().build(),
        workers => Builder::new_multi_thread().worker_threads(workers).enable_all().build(),
    }
}

/// As many files as the system lets this process open: the coordinator of a large group has more than the 1,024 that are usual.
fn permit_files() {
    let permitted = getrlimit(Resource::Nofile);
    // Where that is refused, what is usual has to do.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: permitted.maximum, ..permitted });
}

/// Threads of the runtime: one for each core, up to [`WORKERS_MAX`], unless the runtime's own variable says otherwise (for many nodes on one
/// machine, where threads that wake each other cost more than they bring).
fn workers() -> usize {
    let told = std::env::var("TOKIO_WORKER_THREADS").ok().and_then(|workers| workers.parse().ok());
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    told.unwrap_or_else(cores).clamp(1, WORKERS_MAX)
}

/// Logs go to standard error, as MOBCAST_LOG says; without it, nothing is logged. Colours are for terminals. Where they cannot
/// be written, they are lost, and everything else goes on.
fn start_logs() {
    let Ok(directives) = std::env::var("MOBCAST_LOG") else { return };
    let filter = match EnvFilter::builder().parse(&directives) {
        Ok(filter) => filter,
        Err(error) => {
            output::tell(&format!(
                "warning: nothing is logged, as MOBCAST_LOG={directives} is not understood: {error}\n"
            ));
            return;
        }
    };
    let is_coloured = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| output::Words).with_ansi(is_coloured);
    // It would print that it cannot print, which panics.
    logs.log_internal_errors(false).init();
}
