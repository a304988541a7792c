//! `mobcast demo`: a whole group on one machine, as separate processes on loopback addresses.
//!
//! Promises: every copy is compared with the source byte by byte; what it made is removed, and the processes that it
//! started are ended (by their process numbers), however it ends. Left to others: the processes (`children`), the
//! comparison (`compare`), the table (`table`).

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use tempfile::TempDir;

use crate::failure::{Failure, Outcome, Status};
use crate::interrupt::Interrupt;
use crate::output::{print_line, tell};
use crate::quantity::{parse_size, show_size};

mod children;
mod compare;
mod table;

use children::Children;
pub use children::end_with_parent;
use table::Report;

/// How often the processes are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Nodes of the largest demonstration: what a machine bears as processes, and what fits into loopback addresses.
const NODES_MAX: i64 = 250;

/// Show a broadcast among processes on this machine, and check every copy
///
/// Starts a sender and receivers on loopback addresses, in a temporary directory (TMPDIR), compares every copy with the
/// source byte by byte, prints the results as a table (with --json: as one object on standard output), and removes
/// what it made.
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// A file or directory to broadcast [default: generated data that does not compress]
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,

    /// How much data to generate where no PATH is given
    #[arg(long, value_name = "SIZE", env = "MOBCAST_SIZE", hide_env_values = true, default_value = "256MiB",
        value_parser = parse_size)]
    size: u64,

    /// How many nodes, the sender among them
    #[arg(long, value_name = "N", env = "MOBCAST_NODES", hide_env_values = true, default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(2..=NODES_MAX))]
    nodes: u16,

    /// How many clusters they stand in [default: 4, or as many as there are nodes]
    #[arg(long, value_name = "K", env = "MOBCAST_CLUSTERS", hide_env_values = true,
        value_parser = clap::value_parser!(u16).range(1..=NODES_MAX))]
    clusters: Option<u16>,

    /// Print one report object as JSON to standard output at the end
    #[arg(long, env = "MOBCAST_JSON", hide_env_values = true, value_parser = BoolishValueParser::new())]
    json: bool,
}

/// One process of the demonstration.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Node {
    name: String,
    cluster: String,
    /// Its loopback address and port.
    listen: String,
}

/// Runs the demonstration.
pub async fn run(args: DemoArgs) -> Outcome {
    let mut interrupt = Interrupt::new()?;
    let nodes = plan(args.nodes, args.clusters.unwrap_or_else(|| args.nodes.min(4)))?;
    let dir = tempfile::Builder::new().prefix("mobcast-demo-").tempdir();
    let dir = dir.map_err(|error| local(format_args!("cannot make a temporary directory: {error}; set TMPDIR")))?;
    let outcome = tokio::select! {
        outcome = demonstrate(&args, &nodes, dir.path()) => outcome,
        () = interrupt.wait() => Err(Failure::interrupted()),
    };
    conclude(outcome, remove(dir))
}

/// Why it failed counts more than what it has left behind, of which the person is told all the same.
fn conclude(outcome: Outcome, removed: Outcome) -> Outcome {
    if let (Err(_), Err(left)) = (&outcome, &removed) {
        tell(&format!("warning: {left}\n"));
    }
    outcome.and(removed)
}

/// Who stands where: the sender is the first node of the first cluster, and clusters differ by one node at most.
fn plan(nodes: u16, clusters: u16) -> Outcome<Vec<Node>> {
    if clusters > nodes {
        let message =
            format!("{nodes} nodes cannot stand in {clusters} clusters: give more --nodes or fewer --clusters");
        return Err(Failure::new(Status::Usage, message));
    }
    let node = |number: u16| {
        let cluster = u32::from(number) * u32::from(clusters) / u32::from(nodes) + 1;
        let name = format!("node-{:02}", number + 1);
        Node { name, cluster: format!("cluster-{cluster}"), listen: format!("127.0.{cluster}.{}:0", number + 1) }
    };
    Ok((0..nodes).map(node).collect())
}

async fn demonstrate(args: &DemoArgs, nodes: &[Node], dir: &Path) -> Outcome {
    let (source, size) = prepare(args, dir).await?;
    let receivers = nodes.len() - 1;
    check_space(dir, size.saturating_mul(receivers as u64))?;
    tell(&format!("{receivers} receivers and a sender, {} in {}\n", show_size(size), dir.display()));
    let mut children = Children::start(&source, nodes, dir)?;
    while !children.poll()? {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let text = fs::read_to_string(children::report_path(dir));
    let text = text.map_err(|error| local(format_args!("cannot read the sender's report: {error}")))?;
    let report = Report::parse(&text)?;
    let copies: Vec<PathBuf> = nodes[1..].iter().map(|node| children::copy_path(dir, node)).collect();
    let expected = report.object_hash.clone();
    blocking(move || compare::all(&source, &copies, &expected)).await?;
    tell(&format!("{}{receivers} copies compared with the source: identical\n", report.table()));
    if args.json { print_line(text.trim_end()) } else { Ok(()) }
}

/// The object and its size in bytes.
async fn prepare(args: &DemoArgs, dir: &Path) -> Outcome<(PathBuf, u64)> {
    if let Some(path) = &args.path {
        let path =
            path.canonicalize().map_err(|error| local(format_args!("cannot read {}: {error}", path.display())))?;
        let scanned = path.clone();
        let size = blocking(move || compare::size(&scanned)).await?;
        return Ok((path, size));
    }
    check_space(dir, args.size)?;
    let (path, size) = (dir.join("generated.bin"), args.size);
    let generated = path.clone();
    blocking(move || generate(&generated, size)).await?;
    Ok((path, size))
}

/// Writes `size` bytes that do not compress: the key stream of BLAKE3.
fn generate(path: &Path, size: u64) -> Outcome {
    let cannot = |error| local(format_args!("cannot write {}: {error}", path.display()));
    let mut file = BufWriter::with_capacity(1 << 20, File::create_new(path).map_err(cannot)?);
    let mut stream = blake3::Hasher::new_derive_key("mobcast demo data").finalize_xof();
    let mut block = vec![0; 1 << 20];
    let mut left = size;
    while left > 0 {
        let part = &mut block[..left.min(1 << 20) as usize];
        stream.fill(part);
        file.write_all(part).map_err(cannot)?;
        left -= part.len() as u64;
    }
    file.flush().map_err(cannot)
}

fn check_space(dir: &Path, needed: u64) -> Outcome {
    let stat =
        rustix::fs::statvfs(dir).map_err(|error| local(format_args!("cannot examine {}: {error}", dir.display())))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    // Some file systems do not tell their size.
    if needed <= free || stat.f_blocks == 0 {
        return Ok(());
    }
    let (dir, needed, free) = (dir.display(), show_size(needed), show_size(free));
    Err(local(format_args!(
        "the copies need {needed} and {dir} has {free}: take fewer --nodes, less data, or set TMPDIR"
    )))
}

/// Runs something that reads or writes much on a thread where it may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Outcome<T> + Send + 'static) -> Outcome<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Failure::new(Status::Failed, error)))
}

fn local(message: impl std::fmt::Display) -> Failure {
    Failure::new(Status::LocalIo, message)
}

/// Removes the temporary directory, also if a broadcast directory came with modes that forbid it.
fn remove(dir: TempDir) -> Outcome {
    let path = dir.path().to_owned();
    if dir.close().is_ok() {
        return Ok(());
    }
    compare::make_removable(&path);
    fs::remove_dir_all(&path)
        .map_err(|error| local(format_args!("cannot remove {}: {error}; remove it", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_differ_by_one_node_at_most() {
        let nodes = plan(16, 4).expect("possible");
        assert_eq!(nodes[0].cluster, "cluster-1");
        for cluster in ["cluster-1", "cluster-2", "cluster-3", "cluster-4"] {
            assert_eq!(nodes.iter().filter(|node| node.cluster == cluster).count(), 4);
        }
        assert_eq!(
            nodes[15],
            Node { name: "node-16".into(), cluster: "cluster-4".into(), listen: "127.0.4.16:0".into() }
        );
        assert!(plan(3, 3).is_ok());
        assert_eq!(plan(3, 4).map_err(|failure| failure.status), Err(Status::Usage));
    }

    #[test]
    fn what_is_left_behind_does_not_hide_why_it_failed() {
        let _alone = crate::output::tests::alone();
        let (failed, left) = (Failure::new(Status::Incomplete, "a node was lost"), local("cannot remove it"));
        assert_eq!(conclude(Err(failed.clone()), Err(left.clone())), Err(failed.clone()));
        assert_eq!(conclude(Err(failed.clone()), Ok(())), Err(failed));
        assert_eq!(conclude(Ok(()), Err(left.clone())), Err(left));
        assert_eq!(conclude(Ok(()), Ok(())), Ok(()));
    }

    #[test]
    fn generated_data_has_its_size() {
        let dir = tempfile::tempdir().expect("directory");
        for size in [0, 1, (1 << 20) + 1] {
            let path = dir.path().join(size.to_string());
            generate(&path, size).expect("written");
            assert_eq!(fs::metadata(&path).expect("there").len(), size);
        }
    }
}
