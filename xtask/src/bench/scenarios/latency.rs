//! How soon: the first piece at nodes that start together, and a small object in a group that stands.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::network::Network;
use super::super::process::{Running, wait_all};
use super::super::samples::{Bound, Goal, Quantity, Sample};
use super::super::{Scenario, Setting};
use super::brought::{cargo, number_behind};

const MOBCAST: &str = "mobcast";
/// Nodes that start together, the root among them.
const NODES: usize = 16;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// From the start of the last process until the last receiver has its first piece verified and stored.
const FIRST_PIECE: Quantity = Quantity { name: "first piece", unit: "ms" };
/// From the call of `broadcast` until the root knows that all receivers have the object; median of 100.
const BROADCAST: Quantity = Quantity { name: "broadcast", unit: "ms" };

/// Processes that start at the same moment; receivers wait for the ticket's file.
pub const START_UP: Scenario = Scenario {
    name: "start-up",
    about: "first piece at the last of 16 nodes that start together, on a switch",
    references: &[],
    goals: &[Goal { subject: MOBCAST, quantity: FIRST_PIECE, beside: None, bound: Bound::AtMost(300.0) }],
    round: |setting| {
        let waited = start_together(setting, &Network::switch(NODES)?)?;
        Ok(vec![Sample { subject: MOBCAST, quantity: FIRST_PIECE, value: waited.as_secs_f64() * 1e3 }])
    },
};

/// The library's own measurement, all nodes in one process.
pub const SMALL_OBJECT: Scenario = Scenario {
    name: "small-object",
    about: "an object of 1 byte to 15 receivers in one group, by the library",
    references: &[],
    goals: &[Goal { subject: MOBCAST, quantity: BROADCAST, beside: None, bound: Bound::AtMost(5.0) }],
    round: |_| {
        let output =
            cargo(&["test", "--package", "mobcast", "--test", "throughput", "--"], &["--ignored", "small_objects"])?;
        let value = number_behind(&output, "the root knows that: median ")?;
        Ok(vec![Sample { subject: MOBCAST, quantity: BROADCAST, value }])
    },
};

fn start_together(setting: &Setting, network: &Network) -> Result<Duration, String> {
    let ticket = setting.dir.path().join("ticket");
    // A ticket of the round before would be tried first.
    let _ = std::fs::remove_file(&ticket);
    let object = format!("synthetic:{}", setting.bytes_or(64 << 20));
    let (ticket_file, count) = (ticket.to_string_lossy().into_owned(), (NODES - 1).to_string());
    let listen = format!("{}:7077", Network::ip_address(0));
    let send = ["send", &object, "--quiet", "--receivers", &count, "--listen", &listen, "--ticket-file", &ticket_file];
    let log = |node: usize| setting.dir.path().join(format!("log-{node}"));
    let start = |node: usize, words: &[&str]| {
        // A log of stored pieces, each with the time, in a file: nobody reads a pipe meanwhile.
        let script = format!("MOBCAST_LOG=mobcast_net::driver::engine=debug exec \"$@\" 2> {}", log(node).display());
        let program = setting.mobcast.to_string_lossy();
        let words = ["-c", &script, "sh", &program].into_iter().chain(words.iter().copied());
        Running::start(network.machine(node), "sh", words)
    };
    let mut nodes = vec![start(0, &send)?];
    let receive = format!("@{ticket_file}");
    for node in 1..NODES {
        nodes.push(start(node, &["recv", &receive, "--quiet", "--verify-only"])?);
    }
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    wait_all(nodes)?;
    let firsts = (1..NODES).map(|node| {
        let text = std::fs::read_to_string(log(node)).map_err(|error| format!("{}: {error}", log(node).display()))?;
        let at = text.lines().find(|line| line.contains("stored")).and_then(time_of_day);
        at.ok_or_else(|| format!("the log of node {node} has no piece"))
    });
    let firsts = firsts.collect::<Result<Vec<Duration>, String>>()?;
    let started_ns = started.as_nanos() % DAY.as_nanos();
    // A time before the start is one after midnight.
    let waited = firsts.iter().map(|first| {
        let first_ns = first.as_nanos();
        (first_ns + DAY.as_nanos() - started_ns) % DAY.as_nanos()
    });
    // Pieces stored while the last processes were still being started come out as nearly a day.
    let waited = waited.filter(|&ns| ns < DAY.as_nanos() / 2).max().unwrap_or(0);
    Ok(Duration::from_nanos(waited as u64))
}

/// The time that a line of the log begins with, such as `2026-01-31T13:00:25.331795Z`, since midnight.
fn time_of_day(line: &str) -> Option<Duration> {
    // Logs may be coloured.
    let start = line.find('T').filter(|&at| line[..at].ends_with(|c: char| c.is_ascii_digit()))? + 1;
    let (time, _) = line[start..].split_once('Z')?;
    let parts: Vec<f64> = time.split(':').map_while(|part| part.parse().ok()).collect();
    let [hours, minutes, seconds] = parts[..] else { return None };
    Some(Duration::from_secs_f64(hours * 3600.0 + minutes * 60.0 + seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_has_a_time() {
        let expected = Some(Duration::from_secs_f64(13.0 * 3600.0 + 25.5));
        assert_eq!(time_of_day("2026-01-31T13:00:25.500Z DEBUG stored piece=1"), expected);
        assert_eq!(time_of_day("\u{1b}[2m2026-01-31T13:00:25.500Z\u{1b}[0m DEBUG stored"), expected);
        assert_eq!(time_of_day("THE END"), None);
    }
}
