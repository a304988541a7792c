//! One broadcast with mobcast: receivers that wait for the ticket, then the sender, and what they report.

use std::path::Path;
use std::time::Duration;

use mobcast_topology::files::Planned;
use serde_json::Value;

use super::process::{self, Heard, Program, unix_seconds};
use super::{Attempt, NodeOutcome};
use crate::error::LabError;
use crate::hub::control::Links;
use crate::lab::Lab;

/// What receivers take to start, and wait for the ticket: so much, and so much for each.
const STARTING: Duration = Duration::from_millis(400);
const STARTING_EACH: Duration = Duration::from_millis(15);
/// How long the others may go on once one has failed.
const GRACE: Duration = Duration::from_secs(15);

/// Runs it.
pub async fn run(
    lab: &Lab,
    planned: &Planned,
    strategy: &str,
    mobcast: &Path,
    logs: &Path,
) -> Result<Attempt, LabError> {
    let ticket = lab.scratch().join("ticket");
    // It may be there from the run before.
    let _ = std::fs::remove_file(&ticket);
    let (heard_tx, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let start = |node: usize, words: &[String]| {
        let mut command = vec![mobcast.display().to_string()];
        command.extend_from_slice(words);
        let nodes = lab.nodes();
        command.extend(["--name".to_owned(), nodes[node].name.clone(), "--json".to_owned()]);
        if planned.named_clusters {
            command.extend(["--cluster".to_owned(), nodes[node].cluster.clone()]);
        }
        if planned.plain {
            command.push("--plain".to_owned());
        }
        let program = Program {
            node,
            namespace: &nodes[node].namespace,
            command: &command,
            environment: &[],
            directory: Path::new("/"),
            log: logs.join(format!("{}.log", nodes[node].name)),
        };
        process::start(&program, heard_tx.clone())
    };
    let receive = ["recv".to_owned(), format!("@{}", ticket.display()), "--verify-only".to_owned()];
    let wait = ["--wait".to_owned(), format!("{}s", planned.timeout_s.ceil())];
    let mut pids = Vec::new();
    for node in 1..lab.nodes().len() {
        pids.push(start(node, &[&receive[..], &wait[..]].concat())?);
    }
    tokio::time::sleep(STARTING + STARTING_EACH * pids.len() as u32).await;
    lab.begin(Links::new(&planned.scenario, planned.seed))?;
    let object = format!("synthetic:{}:{}", planned.case.object_bytes, planned.seed);
    let mut send = vec!["send".to_owned(), object, "--receivers".to_owned(), pids.len().to_string()];
    send.extend(["--strategy".to_owned(), strategy.to_owned()]);
    send.extend(["--ticket-file".to_owned(), ticket.display().to_string()]);
    if let Some(bytes) = planned.piece_size {
        send.extend(["--piece-size".to_owned(), bytes.to_string()]);
    }
    let begun_ns = crate::clock::monotonic_ns();
    let started_at = unix_seconds();
    pids.push(start(0, &send)?);
    let mut attempt = Attempt::new(lab, begun_ns);
    let mut deadline = tokio::time::Instant::now() + Duration::from_secs_f64(planned.timeout_s);
    let mut running = lab.nodes().len();
    while running > 0 {
        match tokio::time::timeout_at(deadline, heard.recv()).await {
            Err(_) => break,
            Ok(None) => break,
            Ok(Some(Heard::Line { node, line, .. })) => take_report(&mut attempt.nodes, node, &line, started_at),
            Ok(Some(Heard::Ended { node, status, usage })) => {
                running -= 1;
                let name = &lab.nodes()[node].name;
                attempt.nodes[node].usage = usage;
                if let Some(how) = process::failure(status) {
                    let said = process::last_line(&logs.join(format!("{name}.log")));
                    attempt.failed(format!("{name} {how}: {said}"));
                    deadline = deadline.min(tokio::time::Instant::now() + GRACE);
                }
            }
        }
    }
    if running > 0 {
        attempt.failed(format!("{running} programs were not done after {} s", planned.timeout_s));
        pids.iter().for_each(|pid| process::signal(*pid, rustix::process::Signal::KILL));
    }
    for (number, node) in lab.nodes().iter().enumerate().skip(1) {
        if attempt.nodes[number].complete_s.is_none() {
            attempt.failed(format!("{} did not say that it has everything", node.name));
        }
    }
    Ok(attempt)
}

/// Takes a node's own report, if the line is one. The sender prints its ticket, too.
fn take_report(nodes: &mut [NodeOutcome], node: usize, line: &str, started_at: f64) {
    let Ok(report) = serde_json::from_str::<Value>(line) else { return };
    let Some(own) = report["nodes"].as_array().and_then(|all| all.iter().find(|entry| !entry["wire_in_wan"].is_null()))
    else {
        return;
    };
    let outcome = &mut nodes[node];
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    outcome.cluster = own["cluster"].as_str().unwrap_or_default().to_owned();
    outcome.bytes_in_wan = number(&own["bytes_in_wan"]);
    outcome.bytes_in_lan = number(&own["bytes_in_lan"]);
    outcome.overhead_in_wan = number(&own["wire_in_wan"]).saturating_sub(outcome.bytes_in_wan);
    if own["verified"] == Value::Bool(true) || node == 0 {
        outcome.complete_s = report["complete_at"].as_f64().map(|at| at - started_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_s_own_report_is_taken() {
        let mut nodes = vec![NodeOutcome::default(), NodeOutcome::default()];
        take_report(&mut nodes, 0, "mobcast1-ticket", 0.0);
        let line = r#"{"complete_at":12.5,"nodes":[{"name":"A1","cluster":"A"},{"name":"B1","cluster":"B",
            "bytes_in_wan":100,"bytes_in_lan":20,"wire_in_wan":103,"verified":true}]}"#;
        take_report(&mut nodes, 1, &line.replace('\n', " "), 10.0);
        assert_eq!(nodes[0], NodeOutcome::default());
        let outcome = &nodes[1];
        assert_eq!((outcome.complete_s, outcome.cluster.as_str()), (Some(2.5), "B"));
        assert_eq!((outcome.bytes_in_wan, outcome.overhead_in_wan, outcome.bytes_in_lan), (100, 3, 20));
    }
}
