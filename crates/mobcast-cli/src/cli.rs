//! The command line as a whole: which subcommands there are, and how they are dispatched.

use std::ffi::OsString;

use clap::builder::styling::{AnsiColor, Styles};
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::failure::Outcome;
use crate::{bench, calibrate, completions, demo, recv, send, strategies, version};

const STYLES: Styles =
    Styles::styled().header(AnsiColor::Green.on_default().bold()).literal(AnsiColor::Cyan.on_default().bold());

const EXIT_STATUS: &str = "\
Exit status: 0 complete and verified everywhere, 1 failed, 2 wrong usage or impossible settings, 3 not admitted, \
4 incomplete (sender or receivers lost, or not reached), 5 local files (no space, no permission, destination exists), 130 interrupted.

Sizes: 64MiB, 1GB, 4096. Rates: 10MB/s, 100Mbit/s. Times: 500ms, 30s, 5m, 24h. 1 MB = 10^6 and 1 MiB = 2^20 bytes.

Every flag has an environment variable, which it overrides: MOBCAST_CLUSTER for --cluster, and so on. \
MOBCAST_LOG=info (or debug, or mobcast_net=trace) writes logs to standard error. \
TOKIO_WORKER_THREADS=1 keeps it to one thread beside those of payload, for many of it on one machine.";

/// Copies one big thing to many machines, as fast as the networks between them allow.
///
/// On one machine: mobcast send FILE. It prints a ticket. On all the others: mobcast recv TICKET.
#[derive(Parser, Debug)]
#[command(name = "mobcast", version, styles = STYLES, after_help = EXIT_STATUS)]
#[command(args_override_self = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Send(Box<send::SendArgs>),
    Recv(Box<recv::RecvArgs>),
    Demo(demo::DemoArgs),
    Bench(Box<bench::BenchArgs>),
    Calibrate(calibrate::CalibrateArgs),
    Strategies(strategies::StrategiesArgs),
    Completions(completions::CompletionsArgs),
    Version(version::VersionArgs),
}

impl Cli {
    /// Reads a command line.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
        let mut command = Cli::command();
        let matches = command.try_get_matches_from_mut(words)?;
        if let Some(("bench", of_bench)) = matches.subcommand()
            && let Some(message) = bench::conflict(of_bench)
        {
            let bench = command.find_subcommand_mut("bench").expect("it is a subcommand");
            return Err(bench.error(ErrorKind::ArgumentConflict, message));
        }
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }

    /// Runs the subcommand to its end.
    pub async fn run(self) -> Outcome {
        match self.command {
            Command::Send(args) => send::run(*args).await,
            Command::Recv(args) => recv::run(*args).await,
            Command::Demo(args) => demo::run(args).await,
            Command::Bench(args) => bench::run(*args).await,
            Command::Calibrate(args) => calibrate::run(args).await,
            Command::Strategies(args) => strategies::run(args),
            Command::Completions(args) => completions::run(args),
            Command::Version(args) => version::run(args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }

    /// `MOBCAST_` and the flag's name in capitals: nobody has to look it up.
    #[test]
    fn every_flag_has_its_environment_variable() {
        for subcommand in Cli::command().get_subcommands() {
            let flags = subcommand.get_arguments().filter(|argument| argument.get_long().is_some());
            for flag in flags.filter(|flag| !matches!(flag.get_long(), Some("help" | "version"))) {
                let long = flag.get_long().expect("filtered");
                let expected = format!("MOBCAST_{}", long.to_uppercase().replace('-', "_"));
                assert_eq!(flag.get_env().and_then(|env| env.to_str()), Some(expected.as_str()), "--{long}");
            }
        }
    }
}
