//! Seeds of the faults machine (docs/faults.md) that nobody has seen before: they follow from the commit. What they find is printed
//! with its replay command and kept in a file, and fails nothing: a commit is not to blame for what was there before it.

use std::process::Command;

use crate::repository;

/// Seeds, of the default strategy and of all of the registry in turn.
const SERIES: [(u64, &[&str]); 2] = [(500, &[]), (200, &["--strategy", "all"])];

/// Runs the seeds of the present commit; always true.
pub fn run() -> bool {
    let commit = commit().unwrap_or_default();
    let from = first_seed(&commit);
    let (mut violations, mut violated) = (String::new(), false);
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
                if !output.status.success() {
                    violations += &text;
                    violated = true;
                }
            }
            Err(error) => println!("the faults machine does not start: {error}"),
        }
    }
    if violated {
        keep(&commit, &violations);
    }
    true
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
    fn seeds_follow_from_the_commit() {
        assert_eq!(first_seed("00000000000f4b7c"), 15);
        assert_ne!(first_seed("a1b2c3d4e5f60718"), first_seed("a1b2c3d4e5f70718"));
        assert_eq!((first_seed(""), first_seed("no commit at all")), (0, 0));
    }
}
