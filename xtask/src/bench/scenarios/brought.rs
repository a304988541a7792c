//! Measurements that a crate of the workspace brings along: cargo builds and runs them, and their lines are read.

use std::process::{Command, Stdio};

use crate::repository;

/// What a measurement of a crate prints: built and run by cargo, with the release profile.
pub fn cargo(words: &[&str], arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.args(&words[..1]).arg("--release").args(&words[1..]).args(arguments);
    if words.first() == Some(&"test") {
        command.arg("--nocapture");
    }
    let output = command.current_dir(repository::root()).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo does not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(format!("cargo {} failed:\n{text}", words.join(" "))) }
}

/// The number that stands behind these words.
pub fn number_behind(text: &str, words: &str) -> Result<f64, String> {
    let behind = text.split_once(words).map(|(_, rest)| rest);
    let number = behind.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| format!("nothing is said of {words:?} in:\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_behind_its_words() {
        assert_eq!(number_behind("a 1 b\nall: median 4.25 ms, x", "median "), Ok(4.25));
        assert!(number_behind("median", "median ").is_err());
    }
}
