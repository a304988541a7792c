//! Running `ip`, which makes and joins namespaces, devices, addresses and routes.

use std::process::{Command, Stdio};

/// Runs `ip` with these words, which must succeed.
#[track_caller]
pub fn ip(words: &str) {
    try_ip(words).unwrap_or_else(|error| panic!("ip {words}: {error}"));
}

/// What `ip` with these words prints, or why it failed.
pub fn try_ip(words: &str) -> Result<String, String> {
    let output = Command::new("ip").args(words.split_whitespace()).stdin(Stdio::null()).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}
