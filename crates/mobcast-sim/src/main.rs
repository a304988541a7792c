//! The command `mobcast-sim`: experiments from files, run in the simulator.

#![forbid(unsafe_code)]

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
