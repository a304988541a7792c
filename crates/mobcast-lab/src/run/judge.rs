//! What a run gives as a record: throughput and fraction of the optimum, copies on the WAN, and whether the emulation was
//! good enough for these to mean anything.

use std::collections::BTreeMap;

use mobcast_topology::files::{Planned, Program};
use mobcast_topology::record::{Emulation, NodeRecord, Phases, RunOutcome, RunRecord, WanTraffic};
use mobcast_topology::{ClusterIndex, Topology};

use super::load::Busy;
use super::phases::phases;
use super::{Attempt, NodeOutcome};
use crate::hub::control::{Counts, LinkCounts};
use crate::hub::switch::Counters;
use crate::lab::LabNode;
use crate::report::summary::Spread;

/// A run during which more of the processors was busy than this, in percent, is void.
const BUSY_MAX_PERCENT: f64 = 80.0;
/// As is one of whose processors a virtual machine's host took more than this, in percent.
const STOLEN_MAX_PERCENT: f64 = 5.0;
/// A run in which one packet of a hundred was later than this, in milliseconds, is void.
const LATE_MAX_MS: f64 = 2.1;
/// As is one in which devices refused more than one packet of so many.
const REFUSED_MAX: u64 = 10_000;

/// The circumstances of a run.
#[derive(Debug)]
pub struct Conditions {
    /// When it began.
    pub date: String,
    /// The machine.
    pub machine: String,
    /// Versions of programs, by name.
    pub versions: BTreeMap<String, String>,
    /// How busy the machine was.
    pub load: Busy,
    /// The hub's processor time.
    pub hub_cpu_seconds: f64,
    /// What the hub has counted.
    pub counts: Counts,
}

/// The record of a run that could not be made.
pub fn not_run(run: &Planned, conditions: &Conditions, reason: String) -> RunRecord {
    RunRecord {
        case: run.case.clone(),
        settings: Some(run.settings()),
        repetition: run.repetition,
        seed: run.seed,
        date: conditions.date.clone(),
        machine: conditions.machine.clone(),
        versions: conditions.versions.clone(),
        outcome: RunOutcome::Failed,
        reason: Some(reason),
        ..RunRecord::default()
    }
}

/// Which two nodes were not where they belong, if nodes had to find their clusters: names do not matter, company does.
fn misplaced(nodes: &[LabNode], attempt: &Attempt) -> Option<String> {
    let known = nodes.iter().zip(&attempt.nodes).filter(|(_, outcome)| !outcome.cluster.is_empty());
    let known: Vec<(&LabNode, &str)> = known.map(|(node, outcome)| (node, outcome.cluster.as_str())).collect();
    let pairs = known.iter().enumerate().flat_map(|(index, one)| known[..index].iter().map(move |other| (other, one)));
    let mut wrong = pairs.filter(|((a, of_a), (b, of_b))| (a.cluster == b.cluster) != (of_a == of_b));
    wrong.next().map(|((a, _), (b, _))| {
        let how = if a.cluster == b.cluster { "two clusters, and are of one" } else { "one cluster, and are of two" };
        format!("{} and {} found themselves in {how}", a.name, b.name)
    })
}

/// How long a run took, or why it failed. One that took no time has failed: a clock was set meanwhile, or its programs did not
/// say what they should.
fn seconds_taken(attempt: &Attempt) -> Result<f64, String> {
    if let Some(reason) = &attempt.failure {
        return Err(reason.clone());
    }
    let all = attempt.nodes.iter().skip(1).map(|node| node.complete_s).collect::<Option<Vec<f64>>>();
    let last = all.and_then(|all| all.into_iter().reduce(f64::max));
    let last = last.ok_or("its programs did not say when it began, or when it ended")?;
    let seconds = Spread::of(attempt.rounds.iter().copied()).map_or(last, |spread| spread.median);
    if seconds.is_finite() && seconds > 0.0 {
        Ok(seconds)
    } else {
        Err(format!("it took {seconds} s by what its programs said: was a clock set?"))
    }
}

/// The record of a run.
pub fn record(nodes: &[LabNode], run: &Planned, attempt: &Attempt, conditions: &Conditions) -> RunRecord {
    let counts = &conditions.counts;
    let topology = &run.scenario.topology;
    let bytes = run.case.object_bytes as f64;
    let taken = seconds_taken(attempt);
    let seconds = taken.as_ref().ok().copied();
    let throughput = seconds.map_or(0.0, |seconds| bytes / 1e6 / seconds);
    let optimum = &run.optimum;
    let mb = |rate: Option<u64>| rate.map_or(0.0, |rate| rate as f64 / 1e6);
    let (lower, upper) = (mb(optimum.payload_bytes_per_s_lower), mb(optimum.payload_bytes_per_s_upper));
    let misplaced = misplaced(nodes, attempt).filter(|_| !run.named_clusters);
    let (outcome, reason) = match (taken.err().or(misplaced), void(conditions)) {
        (Some(reason), _) => (RunOutcome::Failed, Some(reason)),
        (None, Some(reason)) => (RunOutcome::Void, Some(reason)),
        (None, None) => (RunOutcome::Complete, None),
    };
    let offset_s = attempt.begun_ns.saturating_sub(counts.begun_ns) as f64 / 1e9 + attempt.started_s;
    RunRecord {
        outcome,
        reason,
        seconds: seconds.unwrap_or(0.0),
        throughput_mb_per_s: throughput,
        optimum_mb_per_s: lower,
        optimum_upper_mb_per_s: upper,
        optimum_at_most: optimum.is_upper_bound,
        fraction: if lower > 0.0 { throughput / lower } else { 0.0 },
        binding: optimum.binding.describe(topology),
        choice: attempt.choice.clone(),
        rounds_seconds: attempt.rounds.clone(),
        phases: seconds
            .filter(|_| attempt.rounds.is_empty())
            .map_or(Phases::default(), |s| phases(counts, run.case.object_bytes, offset_s, s)),
        wan_copies: wan_copies(topology, counts, nodes, attempt, run),
        wan: counts.links.iter().map(|link| traffic(topology, link)).collect(),
        nodes: nodes
            .iter()
            .zip(&attempt.nodes)
            .map(|(node, outcome)| node_record(node, outcome, run.named_clusters))
            .collect(),
        emulation: Some(Emulation {
            cpu_busy_percent: conditions.load.processors,
            cpu_stolen_percent: conditions.load.stolen,
            cpu_pressure_percent: conditions.load.waited,
            hub_cpu_seconds: conditions.hub_cpu_seconds,
            late_p99_ms: counts.late_ms(0.99),
            late_max_ms: counts.late_max_ns as f64 / 1e6,
            changes: counts.changes,
        }),
        ..not_run(run, conditions, String::new())
    }
}

/// Why the figures of a run mean nothing. The pressure on the processors is recorded and not judged: where 64 nodes share two
/// cores, something nearly always waits for one, also while half of their time is free.
fn void(conditions: &Conditions) -> Option<String> {
    let (Busy { processors: busy, stolen, .. }, counts) = (conditions.load, &conditions.counts);
    if stolen > STOLEN_MAX_PERCENT {
        return Some(format!("the machine's host took {stolen:.0} % of the processors for others"));
    }
    if busy > BUSY_MAX_PERCENT {
        return Some(format!("the processors were {busy:.0} % busy, more than {BUSY_MAX_PERCENT} %"));
    }
    let late = counts.late_ms(0.99);
    if late > LATE_MAX_MS {
        return Some(format!("one packet of a hundred left the hub {late:.1} ms late, or later"));
    }
    let packets: u64 = counts.late.iter().sum();
    if counts.refused > packets / REFUSED_MAX {
        return Some(format!("devices refused {} of {packets} packets of the hub", counts.refused));
    }
    None
}

fn name(topology: &Topology, cluster: u32) -> String {
    topology.clusters().get(ClusterIndex(cluster).as_usize()).map(|c| c.name.clone()).unwrap_or_default()
}

fn traffic(topology: &Topology, link: &LinkCounts) -> WanTraffic {
    let Counters { bytes, packets, unique_bytes, repeated_bytes, lost_in_queue, lost_by_chance } = link.counters;
    let (from, to) = (name(topology, link.from), name(topology, link.to));
    WanTraffic { from, to, bytes, packets, unique_bytes, repeated_bytes, lost_in_queue, lost_by_chance }
}

fn node_record(node: &LabNode, outcome: &NodeOutcome, named_clusters: bool) -> NodeRecord {
    NodeRecord {
        name: node.name.clone(),
        cluster: node.cluster.clone(),
        found_cluster: if named_clusters { String::new() } else { outcome.cluster.clone() },
        seconds: outcome.complete_s.unwrap_or(0.0),
        bytes_in_wan: outcome.bytes_in_wan,
        overhead_in_wan: outcome.overhead_in_wan,
        bytes_in_lan: outcome.bytes_in_lan,
        cpu_seconds: outcome.usage.cpu_seconds,
        peak_memory_bytes: outcome.usage.peak_memory_bytes,
    }
}

/// Unique bytes that entered each receiving cluster, less what its nodes report as no payload, by the object's bytes.
fn wan_copies(
    topology: &Topology,
    counts: &Counts,
    nodes: &[LabNode],
    attempt: &Attempt,
    run: &Planned,
) -> BTreeMap<String, f64> {
    let reports = matches!(run.program, Program::Mobcast { .. });
    let receiving = topology.indices().skip(1).filter(|c| topology.clusters()[c.as_usize()].nodes > 0);
    let copies = receiving.map(|cluster| {
        let name = name(topology, cluster.0);
        let unique: u64 =
            counts.links.iter().filter(|link| link.to == cluster.0).map(|link| link.counters.unique_bytes).sum();
        let own = nodes.iter().zip(&attempt.nodes).filter(|(node, _)| node.cluster == name);
        let overhead: u64 = own.map(|(_, outcome)| outcome.overhead_in_wan).sum();
        let payload = unique.saturating_sub(if reports { overhead } else { 0 });
        // One more than those that count.
        let objects = run.rounds.map_or(1, |rounds| u64::from(rounds) + 1);
        (name, payload as f64 / (run.case.object_bytes.max(1) * objects) as f64)
    });
    copies.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_in_the_wrong_company_is_seen() {
        let node = |name: &str| LabNode {
            name: name.to_owned(),
            cluster: name[..1].to_owned(),
            address: String::new(),
            namespace: String::new(),
        };
        let nodes = ["A1", "A2", "B1"].map(node);
        let found = |clusters: [&str; 3]| {
            let outcome = |cluster: &str| NodeOutcome { cluster: cluster.to_owned(), ..NodeOutcome::default() };
            let nodes_found = clusters.map(outcome).to_vec();
            misplaced(
                &nodes,
                &Attempt {
                    nodes: nodes_found,
                    begun_ns: 0,
                    started_s: 0.0,
                    rounds: Vec::new(),
                    choice: String::new(),
                    failure: None,
                },
            )
        };
        assert_eq!(found(["x", "x", "y"]), None, "the names are their own");
        assert_eq!(found(["x", "x", ""]), None, "who said nothing is not judged here");
        assert_eq!(found(["x", "y", "z"]).unwrap(), "A1 and A2 found themselves in two clusters, and are of one");
        assert_eq!(found(["x", "x", "x"]).unwrap(), "A1 and B1 found themselves in one cluster, and are of two");
    }

    #[test]
    fn a_run_that_took_no_time_has_failed() {
        let taken = |complete_s: &[Option<f64>], rounds: &[f64]| {
            let outcome = |complete_s: &Option<f64>| NodeOutcome { complete_s: *complete_s, ..NodeOutcome::default() };
            seconds_taken(&Attempt {
                nodes: [NodeOutcome::default()].into_iter().chain(complete_s.iter().map(outcome)).collect(),
                begun_ns: 0,
                started_s: 0.0,
                rounds: rounds.to_vec(),
                choice: String::new(),
                failure: None,
            })
        };
        assert_eq!(taken(&[Some(1.5), Some(2.5)], &[]), Ok(2.5));
        assert_eq!(taken(&[Some(1.5), Some(2.5)], &[0.25, 0.75, 0.5]), Ok(0.5));
        for (complete_s, rounds) in
            [([Some(-3600.0), Some(-3599.0)], &[][..]), ([Some(0.0); 2], &[]), ([Some(1.0); 2], &[-0.5])]
        {
            let reason = taken(&complete_s, rounds).expect_err("no time");
            assert!(reason.contains("was a clock set?"), "{reason}");
        }
        let reason = taken(&[Some(1.5), None], &[]).expect_err("one is missing");
        assert!(reason.contains("did not say when"), "{reason}");
    }
}
