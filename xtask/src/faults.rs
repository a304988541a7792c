//! Seeds of the faults machine (docs/faults.md) that nobody has seen before: they follow from the commit. What they find is printed
//! with its replay command and kept in a file, and fails nothing: a commit is not to blame for what was there before it. That the
//! machine does not run to its end does.

use std::process::Command;

use crate::repository;

/// Seeds, of the default strategy and of all of the registry in turn.
const SERIES: [(u64, &[&str]); 2] = [(500, &[]), (200, &["--strategy", "all"])];

/// Runs the seeds of the present commit; true if all were run, whatever was found.
pub fn run() -> bool {
    let commit = commit().unwrap_or_default();
    let from = first_seed(&commit);
    let (mut violations, mut violated, mut complete) = (String::new(), false, true);
    for (seeds, more) in SERIES {
        let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
        let arguments = ["run", "--quiet", "--package", "mobcast-sim", "--", "faults"];
        let output = Command::new(cargo)
            .args(arguments)
            .args(["--seeds", &seeds.to_string(), "--from", &from.to_string()])
            .args(more)
            .current_dir(repository::root())
            .output();
        match output {
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                print!("{text}");
                if !has_run(output.status.code(), &text, seeds) {
                    println!("the faults machine has not run to its end: {}", output.status);
                    complete = false;
                } else if !output.status.success() {
                    violations += &text;
                    violated = true;
                }
            }
            Err(error) => {
                println!("the faults machine does not start: {error}");
                complete = false;
            }
        }
    }
    if violated {
        keep(&commit, &violations);
    }
    complete
}

/// Whether the faults machine has said what became of all seeds: 0 if all hold, 1 if not. Everything else is of cargo, or of a machine
/// that was ended.
fn has_run(status: Option<i32>, said: &str, seeds: u64) -> bool {
    let total = format!("{seeds} seeds: ");
    matches!(status, Some(0 | 1)) && said.lines().any(|line| line.starts_with(&total))
}

fn keep(commit: &str, text: &str) {
    let dir = repository::root().join("target/faults");
    let file = dir.join(format!("{commit}.txt"));
    match std::fs::create_dir_all(&dir).and_then(|()| std::fs::write(&file, text)) {
        Ok(()) => println!("violations of seeds that follow from the commit: kept in {}", file.display()),
        Err(error) => println!("{}: {error}", file.display()),
    }
}

/// The hash of the commit that is checked out; none outside of a repository.
fn commit() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(repository::root()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// The first twelve hexadecimal digits of a commit, as a number; 0 without one.
fn first_seed(commit: &str) -> u64 {
    commit.get(..12).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_has_not_run_to_its_end_is_no_check() {
        let said = "seeds 7 to 506\n50 of 500 seeds, 0 violations\n500 seeds: 1 violations; median of 9 nodes\n";
        assert!(has_run(Some(0), said, 500) && has_run(Some(1), said, 500));
        for status in [Some(101), Some(2), None] {
            assert!(!has_run(status, said, 500), "{status:?}");
        }
        assert!(!has_run(Some(1), "50 of 500 seeds, 0 violations\n", 500), "it has not said what became of all");
        assert!(!has_run(Some(0), said, 200));
    }

    #[test]
    fn seeds_follow_from_the_commit() {
        assert_eq!(first_seed("00000000000f4b7c"), 15);
        assert_ne!(first_seed("a1b2c3d4e5f60718"), first_seed("a1b2c3d4e5f70718"));
        assert_eq!((first_seed(""), first_seed("no commit at all")), (0, 0));
    }
}
