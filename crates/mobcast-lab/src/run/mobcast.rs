//! One broadcast with mobcast: receivers that wait for the ticket, then the sender, and what they report.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mobcast_topology::files::Planned;
use mobcast_topology::files::write::topology_text;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::Instant;

use super::Attempt;
use super::process::{self, Heard, Program, unix_seconds};
use crate::error::LabError;
use crate::hub::control::Links;
use crate::lab::Lab;

/// What receivers take to start, and wait for the ticket: so much, and so much for each.
const STARTING: Duration = Duration::from_millis(400);
const STARTING_EACH: Duration = Duration::from_millis(15);
/// How long the others may go on once one has failed.
const GRACE: Duration = Duration::from_secs(5);

/// What all programs of a run are started with.
struct Run<'a> {
    lab: &'a Lab,
    planned: &'a Planned,
    mobcast: &'a Path,
    logs: &'a Path,
    ticket: PathBuf,
    /// What the network is like at the start, for strategies that want to know (as in the MOB paper, section 4.1).
    gauge: PathBuf,
    heard: UnboundedSender<Heard>,
}

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
    let (heard, mut hearing) = tokio::sync::mpsc::unbounded_channel();
    let gauge = lab.scratch().join("gauge.toml");
    let text = topology_text("as it is at the start", &planned.scenario.gauge());
    std::fs::write(&gauge, text).map_err(|error| LabError::Path { path: gauge.clone(), error })?;
    let run = Run { lab, planned, mobcast, logs, ticket, gauge, heard };
    let receive = if planned.rounds.is_some() { run.join_rounds() } else { run.receive() };
    let start = |node| run.start(node, &receive).map(|pid| (node, pid));
    let mut pids = (1..lab.nodes().len()).map(start).collect::<Result<Vec<(usize, Pid)>, _>>()?;
    tokio::time::sleep(STARTING + STARTING_EACH * pids.len() as u32).await;
    lab.begin(Links::new(&planned.scenario, planned.seed))?;
    let mut attempt = Attempt::new(lab, crate::clock::monotonic_ns());
    let started_at = unix_seconds();
    let send = planned
        .rounds
        .map_or_else(|| run.send(strategy, pids.len()), |rounds| run.make_rounds(rounds, strategy, pids.len()));
    pids.push((0, run.start(0, &send)?));
    let mut rounds = Rounds::default();
    let left = match planned.rounds {
        Some(_) => run.listen(&mut hearing, &mut attempt, |attempt, node, line| rounds.take(attempt, node, line)).await,
        None => {
            let take = |attempt: &mut Attempt, node, line: &str| take_report(attempt, node, line, started_at);
            run.listen(&mut hearing, &mut attempt, take).await
        }
    };
    if !left.is_empty() {
        attempt.failed(process::not_yet("done", lab, &left, planned.timeout_s, |node| run.log(node)));
        process::signal(&pids, |node| left.contains(&node), Signal::KILL);
    }
    if planned.rounds.is_some() {
        rounds.finish(&mut attempt);
    } else if planned.gather && attempt.failure.is_none() {
        attempt.start_later(started_at);
    }
    for (number, node) in lab.nodes().iter().enumerate().skip(1) {
        if attempt.nodes[number].complete_s.is_none() {
            attempt.failed(format!("{} did not say that it has everything", node.name));
        }
    }
    Ok(attempt)
}

impl Run<'_> {
    fn receive(&self) -> Vec<String> {
        let wait = format!("{}s", self.planned.timeout_s.ceil());
        ["recv", &format!("@{}", self.ticket.display()), "--verify-only", "--wait", &wait].map(str::to_owned).into()
    }

    fn send(&self, strategy: &str, receivers: usize) -> Vec<String> {
        let Planned { case, seed, piece_size, .. } = self.planned;
        let object = format!("synthetic:{}:{seed}", case.object_bytes);
        let (receivers, ticket) = (receivers.to_string(), self.ticket.display().to_string());
        let words = ["send", &object, "--receivers", &receivers, "--strategy", strategy, "--ticket-file", &ticket];
        let mut words: Vec<String> = words.map(str::to_owned).into();
        if self.planned.is_told() {
            words.extend(["--gauge".to_owned(), self.gauge.display().to_string()]);
        }
        words.extend(self.planned.gather.then(|| "--gather".to_owned()));
        words.extend(piece_size.iter().flat_map(|bytes| ["--piece-size".to_owned(), bytes.to_string()]));
        words
    }

    /// The object's size is what is timed: its bytes are others each time.
    fn make_rounds(&self, rounds: u32, strategy: &str, receivers: usize) -> Vec<String> {
        let (bytes, rounds) = (self.planned.case.object_bytes.to_string(), rounds.to_string());
        let (receivers, ticket) = (receivers.to_string(), self.ticket.display().to_string());
        let words =
            ["bench", "--receivers", &receivers, "--sizes", &bytes, "--rounds", &rounds, "--strategy", strategy];
        let trust = self.planned.trust_members.then_some("--trust-members");
        words.into_iter().chain(["--ticket-file", &ticket]).chain(trust).map(str::to_owned).collect()
    }

    fn join_rounds(&self) -> Vec<String> {
        let wait = format!("{}s", self.planned.timeout_s.ceil());
        ["bench", &format!("@{}", self.ticket.display()), "--wait", &wait].map(str::to_owned).into()
    }

    fn start(&self, node: usize, words: &[String]) -> Result<Pid, LabError> {
        let Run { lab, planned, .. } = self;
        let mut command = vec![self.mobcast.display().to_string()];
        command.extend_from_slice(words);
        let nodes = lab.nodes();
        command.extend(["--name".to_owned(), nodes[node].name.clone(), "--json".to_owned()]);
        if planned.named_clusters {
            command.extend(["--cluster".to_owned(), nodes[node].cluster.clone()]);
        }
        if planned.plain {
            command.push("--plain".to_owned());
        }
        // The nodes share the machine's cores, so each has one thread: a second one only wakes and is woken.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = (cores / nodes.len()).max(1).to_string();
        // Nothing is kept there: what this machine costs without the lab is not what is chosen by.
        let cache = lab.scratch().join("cache").display().to_string();
        let environment = [("TOKIO_WORKER_THREADS".to_owned(), workers), ("XDG_CACHE_HOME".to_owned(), cache)];
        let program = Program {
            node,
            namespace: &nodes[node].namespace,
            command: &command,
            environment: &environment,
            directory: Path::new("/"),
            log: self.log(node),
        };
        process::start(&program, self.heard.clone())
    }

    fn log(&self, node: usize) -> PathBuf {
        self.logs.join(format!("{}.log", self.lab.nodes()[node].name))
    }

    /// Takes what is heard until all programs have ended, or for as long as they may take; which still run.
    async fn listen(
        &self,
        hearing: &mut UnboundedReceiver<Heard>,
        attempt: &mut Attempt,
        mut take: impl FnMut(&mut Attempt, usize, &str),
    ) -> BTreeSet<usize> {
        let mut deadline = Instant::now() + Duration::from_secs_f64(self.planned.timeout_s);
        let mut running: BTreeSet<usize> = (0..self.lab.nodes().len()).collect();
        while !running.is_empty() {
            match tokio::time::timeout_at(deadline, hearing.recv()).await {
                Err(_) | Ok(None) => break,
                Ok(Some(Heard::Line { node, line, .. })) => take(attempt, node, &line),
                Ok(Some(Heard::Ended { node, status, usage })) => {
                    running.remove(&node);
                    attempt.nodes[node].usage = usage;
                    if let Some(how) = process::failure(status) {
                        let name = &self.lab.nodes()[node].name;
                        attempt.failed(format!("{name} {how}: {}", process::last_line(&self.log(node))));
                        deadline = deadline.min(Instant::now() + GRACE);
                    }
                }
            }
        }
        running
    }
}

impl Attempt {
    /// The clock starts when the root began to offer the object, not when it was started at `started_at`.
    fn start_later(&mut self, started_at: f64) {
        let Some(began) = self.nodes[0].started_at else {
            return self.failed("the sender did not say when it began".into());
        };
        self.started_s = began - started_at;
        for complete_s in self.nodes.iter_mut().filter_map(|node| node.complete_s.as_mut()) {
            *complete_s -= self.started_s;
        }
    }
}

/// What the nodes say of several broadcasts in a running group. They share the machine's clock.
#[derive(Debug, Default)]
struct Rounds {
    /// When each began.
    started_at: Vec<f64>,
    /// When each node had each of them.
    complete_at: Vec<Vec<f64>>,
}

impl Rounds {
    /// Takes a node's report, if the line is one.
    fn take(&mut self, attempt: &mut Attempt, node: usize, line: &str) {
        let Ok(report) = serde_json::from_str::<Value>(line) else { return };
        let numbers = |list: &Value| -> Option<Vec<f64>> { list.as_array()?.iter().map(Value::as_f64).collect() };
        if let Some(complete_at) = numbers(&report["complete_at"]) {
            let last = complete_at.last().copied();
            attempt.nodes[node].complete_s = last.map(|last| last - complete_at[0]);
            self.complete_at.push(complete_at);
        }
        let of_size = &report["sizes"][0];
        if let Some(started_at) = numbers(&of_size["started_at"]) {
            self.started_at = started_at;
            of_size["reason"].as_str().unwrap_or_default().clone_into(&mut attempt.choice);
        }
    }

    /// From the start of each but the first until the last node had it.
    fn finish(self, attempt: &mut Attempt) {
        if self.complete_at.iter().any(|times| times.len() != self.started_at.len()) {
            return attempt.failed("the nodes do not agree how many broadcasts there were".into());
        }
        let last = |round: usize| self.complete_at.iter().map(|times| times[round]).fold(0.0, f64::max);
        let starts = self.started_at.iter().enumerate().skip(1);
        attempt.rounds = starts.map(|(round, started_at)| last(round) - started_at).collect();
    }
}

/// Takes a node's own report, if the line is one. The sender prints its ticket, too.
fn take_report(attempt: &mut Attempt, node: usize, line: &str, started_at: f64) {
    let Ok(report) = serde_json::from_str::<Value>(line) else { return };
    let Some(own) = report["nodes"].as_array().and_then(|all| all.iter().find(|entry| !entry["wire_in_wan"].is_null()))
    else {
        return;
    };
    if let Some(reason) = report["choice"]["reason"].as_str() {
        reason.clone_into(&mut attempt.choice);
    }
    let outcome = &mut attempt.nodes[node];
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    outcome.cluster = own["cluster"].as_str().unwrap_or_default().to_owned();
    outcome.bytes_in_wan = number(&own["bytes_in_wan"]);
    outcome.bytes_in_lan = number(&own["bytes_in_lan"]);
    outcome.overhead_in_wan = number(&own["wire_in_wan"]).saturating_sub(outcome.bytes_in_wan);
    outcome.started_at = report["started_at"].as_f64();
    if own["verified"] == Value::Bool(true) || node == 0 {
        outcome.complete_s = report["complete_at"].as_f64().map(|at| at - started_at);
    }
}

#[cfg(test)]
mod tests {
    use super::super::NodeOutcome;
    use super::*;

    #[test]
    fn a_node_s_own_report_is_taken() {
        let nodes = vec![NodeOutcome::default(), NodeOutcome::default()];
        let mut attempt =
            Attempt { nodes, begun_ns: 0, started_s: 0.0, rounds: Vec::new(), choice: String::new(), failure: None };
        take_report(&mut attempt, 0, "mobcast1-ticket", 0.0);
        let line = r#"{"complete_at":12.5,"nodes":[{"name":"A1","cluster":"A"},{"name":"B1","cluster":"B",
            "bytes_in_wan":100,"bytes_in_lan":20,"wire_in_wan":103,"verified":true}]}"#;
        take_report(&mut attempt, 1, &line.replace('\n', " "), 10.0);
        assert_eq!(attempt.nodes[0], NodeOutcome::default());
        let outcome = &attempt.nodes[1];
        assert_eq!((outcome.complete_s, outcome.cluster.as_str()), (Some(2.5), "B"));
        assert_eq!((outcome.bytes_in_wan, outcome.overhead_in_wan, outcome.bytes_in_lan), (100, 3, 20));
    }

    #[test]
    fn a_group_that_gathers_is_not_timed_before_it_has() {
        let begun = NodeOutcome { started_at: Some(12.0), complete_s: Some(3.0), ..NodeOutcome::default() };
        let other = NodeOutcome { complete_s: Some(3.5), ..NodeOutcome::default() };
        let mut attempt = Attempt {
            rounds: Vec::new(),
            nodes: vec![begun, other],
            begun_ns: 0,
            started_s: 0.0,
            choice: String::new(),
            failure: None,
        };
        attempt.start_later(10.0);
        assert_eq!((attempt.started_s, attempt.nodes[1].complete_s), (2.0, Some(1.5)));
        attempt.nodes[0].started_at = None;
        attempt.start_later(10.0);
        assert_eq!(attempt.failure.as_deref(), Some("the sender did not say when it began"));
    }

    #[test]
    fn a_round_ends_with_the_last_node_and_the_first_round_does_not_count() {
        let mut attempt = Attempt {
            nodes: vec![NodeOutcome::default(); 3],
            begun_ns: 0,
            started_s: 0.0,
            rounds: Vec::new(),
            choice: String::new(),
            failure: None,
        };
        let mut rounds = Rounds::default();
        rounds.take(&mut attempt, 1, r#"{"name":"A2","complete_at":[10.5,11.25,12.5]}"#);
        rounds.take(&mut attempt, 2, r#"{"name":"A3","complete_at":[10.5,11.5,12.25]}"#);
        rounds.take(&mut attempt, 0, r#"{"sizes":[{"started_at":[10.0,11.0,12.0],"reason":"chain"}]}"#);
        rounds.finish(&mut attempt);
        assert_eq!((attempt.rounds, attempt.choice.as_str(), attempt.failure), (vec![0.5, 0.5], "chain", None));
    }
}
