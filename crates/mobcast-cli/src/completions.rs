//! `mobcast completions SHELL`: what makes the Tab key work.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Outcome;
use crate::output::print_bytes;

/// Print a completion script for a shell
///
/// For bash: mobcast completions bash > ~/.local/share/bash-completion/completions/mobcast
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub fn run(args: CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "mobcast", &mut script);
    print_bytes(&script)
}
