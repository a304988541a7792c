//! The command line of `mobcast-lab`, and its standard output.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::error::LabError;

/// Networks on one machine: clusters and the WAN between them, and experiments on it with mobcast and its rivals
#[derive(Parser, Debug)]
#[command(name = "mobcast-lab", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Build the network of a topology, which stays until `down`
    Up(UpArgs),
    /// Run a command on a node of a lab
    Exec(ExecArgs),
    /// Run an experiment, or the rest of an interrupted one
    Run(RunArgs),
    /// Make tables and charts from what runs have written
    Report(ReportArgs),
    /// Print what a broadcast on a topology could reach at best, and what binds it
    Optimum(OptimumArgs),
    /// Measure how well the links are emulated on this machine
    Calibrate(CalibrateArgs),
    /// Remove labs, also those of runs that crashed
    Down(DownArgs),
    /// Carry packets between clusters (started by the lab)
    #[command(hide = true)]
    Hub(HubArgs),
}

/// Arguments of `up`.
#[derive(Args, Debug)]
pub struct UpArgs {
    /// The topology
    pub topology: PathBuf,
    /// The lab's name
    #[arg(long, default_value = "lab")]
    pub name: String,
    /// Seed of losses
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Arguments of `exec`.
#[derive(Args, Debug)]
pub struct ExecArgs {
    /// The lab's name
    #[arg(long, default_value = "lab")]
    pub name: String,
    /// The node's name (like A1) or address
    pub node: String,
    /// The command, with its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}

/// Arguments of `run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The experiment
    pub experiment: PathBuf,
    /// Its short form
    #[arg(long)]
    pub quick: bool,
    /// Where the lines of finished runs are kept; runs that stand there are not made again [default: the experiment's
    /// name with .jsonl, here]
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// The command mobcast [default: the one beside this program, else the one in PATH]
    #[arg(long)]
    pub mobcast: Option<PathBuf>,
    /// Only programs and strategies of these names (comma-separated)
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only scenarios of these names (comma-separated)
    #[arg(long, value_delimiter = ',')]
    pub scenario: Vec<String>,
    /// Another number of repetitions than the experiment's, also of rivals
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: Option<u32>,
    /// How often a void run is made again at once
    #[arg(long, default_value_t = 1)]
    pub retries: u32,
    /// Keep runs that were made while the machine was busy, marked as void (for functional tests)
    #[arg(long)]
    pub accept_void: bool,
    /// Keep what programs log (mobcast as MOBCAST_LOG says) and print, and the hub's counters over time, in this directory,
    /// where each run has one of its own
    #[arg(long)]
    pub logs: Option<PathBuf>,
}

/// Arguments of `report`.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Files that `run` of the lab or the simulator has written
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Directory for the charts (SVG) and the table, which is printed in any case
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// Compare lab and simulator, where both have run the same
    #[arg(long)]
    pub compare: bool,
}

/// Arguments of `optimum`.
#[derive(Args, Debug)]
pub struct OptimumArgs {
    /// The topology
    pub topology: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `calibrate`.
#[derive(Args, Debug)]
pub struct CalibrateArgs {
    /// Seconds of each measurement, 0.5 to 60
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    pub seconds: f64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `down`.
#[derive(Args, Debug)]
pub struct DownArgs {
    /// Only the lab of this name, even if its run goes on
    #[arg(long)]
    pub name: Option<String>,
}

/// Arguments of `hub`.
#[derive(Args, Debug)]
pub struct HubArgs {
    /// Where it takes requests
    #[arg(long)]
    pub socket: PathBuf,
    /// End with standard input
    #[arg(long)]
    pub attached: bool,
    /// The namespaces of the clusters' switches
    pub namespaces: Vec<String>,
}

/// Lines on standard output.
pub fn say(lines: impl Display) -> Result<(), LabError> {
    print(&format!("{lines}\n"))
}

/// Text on standard output. Whoever reads no further is told no more.
pub fn print(text: &str) -> Result<(), LabError> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(LabError::at("standard output")(error)),
        _ => Ok(()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.5..=60.0).contains(seconds));
    seconds.ok_or_else(|| "that is no number from 0.5 to 60".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_takes_a_time_that_there_is() {
        let parse = |seconds: &str| Cli::try_parse_from(["mobcast-lab", "calibrate", &format!("--seconds={seconds}")]);
        for wrong in ["nan", "inf", "-5", "0.1", "600", "long"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        for right in ["0.5", "7", "60"] {
            assert!(parse(right).is_ok(), "{right}");
        }
    }
}
