//! `mobcast version`: which program this is.

use clap::Args;

use crate::failure::Outcome;
use crate::output::print_line;

/// Print the version
#[derive(Args, Debug)]
pub struct VersionArgs {}

/// Prints name and version, like `mobcast --version`.
pub fn run(_args: VersionArgs) -> Outcome {
    print_line(concat!("mobcast ", env!("CARGO_PKG_VERSION")))
}
