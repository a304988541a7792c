//! Checks and chores of this repository: `cargo xtask help`. The subcommands have the names of CI's steps, so that
//! what fails there can be run here by the same word.
//!
//! | module | what |
//! |---|---|
//! | `steps` | runs the tools of the Rust distribution, and all steps of CI in order |
//! | `tidy` | rules of the house that no tool knows: one module for each group of rules |
//! | `torture` | kills processes of the real command, and sees what becomes of the others |
//! | `faults` | seeds of the faults machine that follow from the commit |
//! | `hashes` | simulated runs in a release build, held against the hashes that the tests expect |
//! | `bench` | measures the released command beside its references |
//! | `repository` | the files that are looked at |
//! | `fuzz` | looks for inputs that the protocol cannot take |
//! | `masked` | Rust source without comments and texts, and where its functions are |

#![forbid(unsafe_code)]

use std::process::ExitCode;

mod bench;
mod faults;
mod fuzz;
mod masked;
mod repository;
mod steps;
mod tidy;
mod torture;

const HELP: &str = "\
cargo xtask STEP

  tidy     rules of the house: dependencies, banned calls, sizes, headers, documents
  fmt      formatting (cargo fmt mends it)
  clippy   lints of all targets, warnings are errors
  doc      documentation of the crates, warnings are errors
  torture  150 transfers between real processes, one of which is killed; 5 of them in ci
           [--runs N] [--seed S] [--from FIRST]
  faults   700 runs of the simulator's faults machine, of seeds that follow from the commit: what is violated is printed and
           kept in target/faults, and fails nothing; that it does not run to its end does
  hashes   simulated runs in a release build, held against the hashes that the tests expect
  test     all tests
  ci       all of these in this order, as `make test` and .ci/run do
  fuzz     looks for inputs that the protocol cannot take: [TARGET] [--seconds N], see fuzz/README.md; not in CI
  bench    measures the command beside its references: cargo xtask bench --help
           experiments on emulated networks: cargo xtask bench lab --help
           the simulator: cargo xtask bench sim --help
  help     this text
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Some(true) => ExitCode::SUCCESS,
        Some(false) => ExitCode::FAILURE,
        None => {
            eprint!("{}", help(&words));
            ExitCode::from(2)
        }
    }
}

/// Does what the words say; whether it passed, or nothing if they make no sense.
fn run(words: &[&str]) -> Option<bool> {
    if words == ["help"] || words.iter().any(|word| matches!(*word, "--help" | "-h")) {
        print!("{}", help(words));
        return Some(true);
    }
    match *words {
        ["ci"] => Some(steps::ci()),
        ["fuzz", ref rest @ ..] => fuzz::run(rest),
        ["torture", ref rest @ ..] => torture::run(rest),
        ["bench", "lab", ref rest @ ..] => bench::lab::run(rest),
        ["bench", "sim", ref rest @ ..] => bench::sim::run(rest),
        ["bench", ref rest @ ..] => bench::run(rest),
        [name] if steps::find(name).is_some() => Some(steps::run_one(name)),
        _ => None,
    }
}

/// What can be asked of the step that the words name.
fn help(words: &[&str]) -> String {
    match *words {
        ["fuzz", ..] => fuzz::HELP.to_owned(),
        ["torture", ..] => torture::HELP.to_owned(),
        ["bench", "lab", ..] => bench::lab::HELP.to_owned(),
        ["bench", "sim", ..] => bench::sim::HELP.to_owned(),
        ["bench", ..] => bench::help(),
        _ => HELP.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_its_help_and_refuses_what_makes_no_sense() {
        for step in
            [&["bench"][..], &["bench", "one-to-one"], &["bench", "lab"], &["bench", "sim"], &["fuzz"], &["torture"]]
        {
            let words = [step, &["-h"]].concat();
            assert_eq!(run(&words), Some(true), "{step:?}");
            assert!(help(&words).starts_with(&format!("cargo xtask {}", step[0])), "{step:?}");
            assert_eq!(run(&[step, &["--rounds", "-1"]].concat()), None, "{step:?}");
        }
        assert_eq!(run(&["no-such-step"]), None);
    }
}
