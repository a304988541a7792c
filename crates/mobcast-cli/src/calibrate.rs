//! `mobcast calibrate`: measures what this machine costs, and keeps it for the choice of strategies.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::BoolishValueParser;
use mobcast::{Costs, GroupOptions};
use serde::{Deserialize, Serialize};
use tracing::debug;

use crate::failure::{Failure, Outcome, Status};
use crate::output::{print_json, print_line};

/// Measure what this machine costs, for the automatic choice of strategies
///
/// Takes a few seconds, on this machine alone, and keeps the result in $XDG_CACHE_HOME/mobcast/costs-HOST.json (or
/// ~/.cache/…), from where send takes it on the same host. Without it, send reckons with a usual machine.
#[derive(Args, Debug)]
pub struct CalibrateArgs {
    /// Print the result as JSON
    #[arg(long, env = "MOBCAST_JSON", hide_env_values = true, value_parser = BoolishValueParser::new())]
    json: bool,
}

/// The contents of a host's file. What another version or another number of cores has measured does not count.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    version: String,
    cores: usize,
    /// Payload that a node takes in, verifies and passes on.
    bytes_per_s: f64,
    /// What a piece costs beside its bytes.
    piece_us: f64,
    /// From a piece's last byte until its first leaves for the next node.
    hop_us: f64,
}

impl Kept {
    fn new(costs: &Costs) -> Kept {
        Kept {
            version: env!("CARGO_PKG_VERSION").into(),
            cores: cores(),
            bytes_per_s: costs.bytes_per_s,
            piece_us: costs.piece.as_secs_f64() * 1e6,
            hop_us: costs.hop.as_secs_f64() * 1e6,
        }
    }

    /// The costs, if they are of this program and machine, and costs at all.
    fn costs(&self) -> Option<Costs> {
        let is_own = self.version == env!("CARGO_PKG_VERSION") && self.cores == cores();
        let numbers = [self.bytes_per_s, self.piece_us, self.hop_us];
        if !is_own || numbers.iter().any(|number| !number.is_finite() || *number <= 0.0) {
            return None;
        }
        Some(Costs::new(self.bytes_per_s, self.piece_us / 1e6, self.hop_us / 1e6))
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Measures, keeps and prints.
pub async fn run(args: CalibrateArgs) -> Outcome {
    let kept = Kept::new(&mobcast::calibrate().await?);
    let path = path();
    if let Some(path) = &path {
        write(path, &kept)?;
    }
    if args.json {
        return print_json(&kept);
    }
    let Kept { bytes_per_s, piece_us, hop_us, .. } = kept;
    let rate = bytes_per_s / 1e6;
    let place = path.map_or("not kept: neither XDG_CACHE_HOME nor HOME is set".into(), |path| {
        format!("kept in {}", path.display())
    });
    print_line(&format!("{rate:.0} MB/s, {piece_us:.0} µs for each piece, {hop_us:.0} µs for each hop; {place}"))
}

/// What was measured here, or a usual machine.
pub fn costs() -> Costs {
    path().and_then(|path| read(&path)).unwrap_or(Costs::USUAL)
}

fn path() -> Option<PathBuf> {
    let directory = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = directory("XDG_CACHE_HOME").or_else(|| Some(directory("HOME")?.join(".cache")))?;
    // Which is the name of the host, if nobody has said another one.
    Some(cache.join("mobcast").join(file_name(&GroupOptions::default().name)))
}

/// A file for each host: many may share a home.
fn file_name(host: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let host: String = host.chars().map(|c| if is_safe(c) { c } else { '_' }).collect();
    format!("costs-{host}.json")
}

fn read(path: &Path) -> Option<Costs> {
    let text = fs::read_to_string(path).ok()?;
    let costs = serde_json::from_str::<Kept>(&text).ok().and_then(|kept| kept.costs());
    if costs.is_none() {
        debug!(path = %path.display(), "of another version or machine: mobcast calibrate makes it anew");
    }
    costs
}

/// Complete or not at all: another process may be reading it.
fn write(path: &Path, kept: &Kept) -> Outcome {
    let failed = |error: std::io::Error| {
        Failure::new(Status::LocalIo, format_args!("cannot keep the result in {}: {error}", path.display()))
    };
    let directory = path.parent().expect("it has a directory");
    fs::create_dir_all(directory).map_err(failed)?;
    let file = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
    serde_json::to_writer(&file, kept).map_err(|error| failed(error.into()))?;
    file.persist(path).map(drop).map_err(|error| failed(error.error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_share_a_home_have_files_of_their_own() {
        assert_eq!(["gpu-17", "gpu-18.site"].map(file_name), ["costs-gpu-17.json", "costs-gpu-18.site.json"]);
        assert_eq!(["a/../b c", "é"].map(file_name), ["costs-a_.._b_c.json", "costs-_.json"]);
    }

    #[test]
    fn what_was_kept_is_read_again_and_nothing_else() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("mobcast").join(file_name("host"));
        assert_eq!(read(&path), None);
        let kept = Kept::new(&Costs::USUAL);
        write(&path, &kept).expect("written");
        assert_eq!(read(&path), Some(Costs::USUAL));
        let wrong = [
            Kept { version: "0".into(), ..kept.clone() },
            Kept { cores: cores() + 1, ..kept.clone() },
            Kept { piece_us: 0.0, ..kept.clone() },
            Kept { hop_us: -1.0, ..kept },
        ];
        for kept in wrong {
            write(&path, &kept).expect("written");
            assert_eq!(read(&path), None, "{kept:?}");
        }
        fs::write(&path, "{").expect("written");
        assert_eq!(read(&path), None);
    }
}
