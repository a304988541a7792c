//! CI's steps: the order in which they run, what each runs, and how long it took.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::{faults, repository, tidy, torture};

/// A step, by the name that it has in CI and on the command line.
pub struct Step {
    name: &'static str,
    /// What to do when it fails.
    mend: &'static str,
    run: fn() -> bool,
}

/// Quick ones first, and the tests last, so that their closing lines are the last ones. `clippy` and `doc` share what
/// the compiler finds out without making code; `torture` and `test` make code, once, with the profile `dev`.
const STEPS: [Step; 8] = [
    Step { name: "tidy", mend: "each line above says what to do", run: tidy::run },
    Step { name: "fmt", mend: "run cargo fmt", run: || cargo(&["fmt", "--all", "--check"]) },
    Step {
        name: "clippy",
        mend: "mend the code, or allow the lint at its place with a reason",
        run: || cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    },
    // Libraries only: the command has the library's name, and its page would overwrite the library's.
    Step {
        name: "doc",
        mend: "mend the comments that it names",
        run: || cargo(&["doc", "--workspace", "--no-deps", "--lib"]),
    },
    Step { name: "torture", mend: "see the logs that it names", run: torture::run_in_ci },
    Step { name: "faults", mend: "it does not build or run: see the lines that it prints", run: faults::run },
    Step {
        name: "hashes",
        mend: "a simulated run depends on how it was built: look for what a debug build checks or rounds otherwise",
        run: hashes,
    },
    Step {
        name: "test",
        mend: "run the failing test alone: cargo test -p CRATE NAME",
        run: || test(&["test", "--workspace", "--no-fail-fast"]),
    },
];

/// The step of that name.
pub fn find(name: &str) -> Option<&'static Step> {
    STEPS.iter().find(|step| step.name == name)
}

/// Runs one step; true if it passed.
pub fn run_one(name: &str) -> bool {
    find(name).is_some_and(|step| step.run())
}

/// Runs all steps up to the first that fails; true if none did.
pub fn ci() -> bool {
    STEPS.iter().all(Step::run)
}

impl Step {
    fn run(&self) -> bool {
        println!("== {}", self.name);
        let started = Instant::now();
        let passed = (self.run)();
        // The tests tell their time themselves, before their closing lines.
        if passed && self.name != "test" {
            print_time(self.name, started);
        } else if !passed {
            println!("== {} failed after {:.1} s: {}", self.name, started.elapsed().as_secs_f64(), self.mend);
        }
        passed
    }
}

fn print_time(name: &str, started: Instant) {
    println!("== {name} passed in {:.1} s", started.elapsed().as_secs_f64());
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.args(args).current_dir(repository::root()).env("RUSTDOCFLAGS", "-D warnings");
    command
}

/// Simulated runs have the hashes in a release build that the tests, in the profile `dev`, expect too. Optimisation across crates
/// would take most of the time, and changes nothing of it.
fn hashes() -> bool {
    let mut command = command(&["test", "--release", "--package", "mobcast-sim", "--test", "hashes"]);
    command.env("CARGO_PROFILE_RELEASE_LTO", "off").status().is_ok_and(|status| status.success())
}

/// Runs cargo on this repository; true if it succeeds.
pub fn cargo(args: &[&str]) -> bool {
    match command(args).status() {
        Ok(status) => status.success(),
        Err(error) => {
            println!("cargo {} does not start: {error}", args.join(" "));
            false
        }
    }
}

/// Runs the tests, and prints the step's time before the closing lines of the test runner: who reads the end of a log
/// wants to find those there.
fn test(args: &[&str]) -> bool {
    let started = Instant::now();
    let mut child = match command(args).stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("cargo {} does not start: {error}", args.join(" "));
            return false;
        }
    };
    let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).split(b'\n').map_while(Result::ok);
    let mut tests = 0;
    let held = pass_on(lines.inspect(|line| tests += tests_passed(line)), &mut std::io::stdout());
    let passed = child.wait().is_ok_and(|status| status.success());
    if passed {
        println!("== {tests} tests passed");
        print_time("test", started);
    }
    print!("{}", String::from_utf8_lossy(&held));
    passed
}

/// What a line like `test result: ok. 12 passed; …` counts.
fn tests_passed(line: &[u8]) -> usize {
    let line = String::from_utf8_lossy(line);
    let count = line.strip_prefix("test result: ok. ").and_then(|rest| rest.split_once(" passed"));
    count.and_then(|(count, _)| count.parse().ok()).unwrap_or(0)
}

/// Prints lines as they come, and returns the last `test result` line with what follows it.
fn pass_on(lines: impl Iterator<Item = Vec<u8>>, out: &mut impl Write) -> Vec<u8> {
    let mut held: Vec<u8> = Vec::new();
    for mut line in lines {
        line.push(b'\n');
        let closing = line.starts_with(b"test result:");
        if closing || !(held.is_empty() || line == b"\n") {
            // A log that cannot be written to is no reason to stop testing.
            let _ = out.write_all(&held).and_then(|()| out.flush());
            held.clear();
        }
        if closing || !held.is_empty() {
            held.extend_from_slice(&line);
        } else {
            let _ = out.write_all(&line).and_then(|()| out.flush());
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> (String, String) {
        let mut out = Vec::new();
        let held = pass_on(text.lines().map(|line| line.as_bytes().to_vec()), &mut out);
        (String::from_utf8(out).unwrap(), String::from_utf8(held).unwrap())
    }

    #[test]
    fn the_last_closing_lines_are_held_back() {
        let (out, held) = split("running 1 test\n\ntest result: ok. 1\n\nrunning 0 tests\n\ntest result: ok. 0\n\n");
        assert_eq!(out, "running 1 test\n\ntest result: ok. 1\n\nrunning 0 tests\n\n");
        assert_eq!(held, "test result: ok. 0\n\n");
    }

    #[test]
    fn passed_tests_are_counted() {
        assert_eq!(tests_passed(b"test result: ok. 12 passed; 0 failed; 1 ignored"), 12);
        assert_eq!(tests_passed(b"test a ... ok") + tests_passed(b"test result: FAILED. 3 passed; 1 failed"), 0);
    }

    #[test]
    fn nothing_is_lost_without_closing_lines() {
        assert_eq!(split("a\n\nb\n"), ("a\n\nb\n".into(), String::new()));
    }

    #[test]
    fn steps_have_different_names() {
        for step in &STEPS {
            assert_eq!(STEPS.iter().filter(|other| other.name == step.name).count(), 1);
            assert!(crate::HELP.contains(&format!("\n  {} ", step.name)), "`cargo xtask help` lacks {}", step.name);
        }
    }
}
