//! Runs of one case put together. Promises the order in which things first appear in the lines, so that scenarios and
//! programs stand as in the experiment's file; of several lines of one run the last one counts, and of a case that was run with
//! several settings those of its last line.

use mobcast_topology::record::{Case, RunOutcome, RunRecord, Settings};

/// What settings say of a network that stays as it is.
const NO_CHANGES: &str = "none";
/// The program that everything is compared with.
const OURS: &str = "mobcast";

/// All runs of one case.
#[derive(Debug)]
pub struct Summary<'a> {
    /// What was run.
    pub case: &'a Case,
    /// Every run, in the order of repetitions.
    pub runs: Vec<&'a RunRecord>,
    /// How many lines are left out, because they are of another network or other settings.
    pub others: usize,
}

/// Least, middle and greatest of some values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of these values; none if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let even = values.len().is_multiple_of(2);
        let median = if even { (values[middle - 1] + values[middle]) / 2.0 } else { values[middle] };
        Some(Spread { min, median, max })
    }
}

impl<'a> Summary<'a> {
    /// The runs that count.
    pub fn complete(&self) -> impl Iterator<Item = &'a RunRecord> + '_ {
        self.runs.iter().copied().filter(|run| run.outcome == RunOutcome::Complete)
    }

    /// Whether there are void runs and no complete ones.
    pub fn is_void(&self) -> bool {
        self.count(RunOutcome::Complete) == 0 && self.count(RunOutcome::Void) > 0
    }

    /// The runs whose figures a table shows: those that count, or, where none does, the void ones.
    pub fn shown(&self) -> impl Iterator<Item = &'a RunRecord> + '_ {
        let outcome = if self.is_void() { RunOutcome::Void } else { RunOutcome::Complete };
        self.runs.iter().copied().filter(move |run| run.outcome == outcome)
    }

    /// The runs that do not count.
    pub fn incomplete(&self) -> impl Iterator<Item = &'a RunRecord> + '_ {
        self.runs.iter().copied().filter(|run| run.outcome != RunOutcome::Complete)
    }

    /// How many runs ended so.
    pub fn count(&self, outcome: RunOutcome) -> usize {
        self.runs.iter().filter(|run| run.outcome == outcome).count()
    }

    /// A figure of the complete runs.
    pub fn spread(&self, figure: impl Fn(&RunRecord) -> f64) -> Option<Spread> {
        Spread::of(self.complete().map(figure))
    }

    /// The optimum in MB/s, its lower and upper bound: the middle of all runs, complete or not, whose record has one.
    pub fn optimum(&self) -> Option<(f64, f64)> {
        optimum_of(self.runs.iter().copied())
    }

    /// Whether the true optimum may be lower.
    pub fn is_optimum_at_most(&self) -> bool {
        self.runs.iter().any(|run| run.optimum_at_most)
    }

    /// The program as it is called in tables and legends.
    pub fn label(&self) -> String {
        let name = if self.case.strategy.is_empty() { &self.case.program } else { &self.case.strategy };
        let found = if self.case.named_clusters || self.is_rival() { "" } else { ", clusters found" };
        let instrument =
            if self.case.instrument == "lab" { String::new() } else { format!(", {}", self.case.instrument) };
        format!("{name}{found}{instrument}")
    }

    /// Whether the program is not ours.
    pub fn is_rival(&self) -> bool {
        self.case.program != OURS
    }

    /// Median throughput of ours in the same place, of the strategy that comes first in the lines, divided by that of this
    /// one; none for ours, or where one is missing.
    pub fn ours_to_it(&self, all: &[Summary<'_>]) -> Option<f64> {
        if !self.is_rival() {
            return None;
        }
        let place = |case: &Case| Case {
            program: String::new(),
            strategy: String::new(),
            named_clusters: false,
            ..case.clone()
        };
        let here = place(self.case);
        let ours = all.iter().filter(|other| !other.is_rival() && place(other.case) == here);
        let ours = ours.min_by_key(|other| !other.case.named_clusters)?;
        let median = |summary: &Summary<'_>| summary.spread(|run| run.throughput_mb_per_s).map(|s| s.median);
        let (ours, its) = (median(ours)?, median(self)?);
        (its > 0.0).then_some(ours / its)
    }
}

/// The middle of the optima of these runs, lower and upper bound; none where nothing binds.
pub fn optimum_of<'a>(runs: impl Iterator<Item = &'a RunRecord> + Clone) -> Option<(f64, f64)> {
    let middle = |figure: fn(&RunRecord) -> f64| {
        Spread::of(runs.clone().map(figure).filter(|rate| *rate > 0.0)).map(|spread| spread.median)
    };
    let lower = middle(|run| run.optimum_mb_per_s)?;
    Some((lower, middle(|run| run.optimum_upper_mb_per_s).unwrap_or(lower).max(lower)))
}

/// Puts records of the same case together.
pub fn summaries(records: &[RunRecord]) -> Vec<Summary<'_>> {
    grouped(records, |record| &record.case).into_iter().map(|(case, lines)| summary(case, &lines)).collect()
}

fn summary<'a>(case: &'a Case, lines: &[&'a RunRecord]) -> Summary<'a> {
    let counts = with_last_settings(lines);
    let mut runs: Vec<&RunRecord> = Vec::new();
    for &record in &counts {
        match runs.iter_mut().find(|run| run.repetition == record.repetition) {
            Some(earlier) => *earlier = record,
            None => runs.push(record),
        }
    }
    runs.sort_by_key(|run| run.repetition);
    Summary { case, runs, others: lines.len() - counts.len() }
}

/// The lines of a case that were made as its last one was. Those of versions that did not write settings count as such.
fn with_last_settings<'a>(lines: &[&'a RunRecord]) -> Vec<&'a RunRecord> {
    let settings = || lines.iter().filter_map(|line| Some((line.repetition, line.settings.as_ref()?)));
    let Some((_, last)) = settings().next_back() else { return lines.to_vec() };
    // Where chance changes the links, each repetition has a network of its own: none is another one's.
    let same_network = |a: &Settings, b: &Settings| a.network == b.network && a.changes == b.changes;
    let meets_again = |(repetition, network): (u32, &Settings)| {
        settings().any(|(other, again)| other != repetition && same_network(network, again))
    };
    let by_chance = settings().all(|of| of.1.changes != NO_CHANGES && !meets_again(of));
    let alike = |of: &Settings| {
        let Settings { network, changes, .. } = if by_chance { last } else { of };
        Settings { network: network.clone(), changes: changes.clone(), ..of.clone() } == *last
    };
    lines.iter().copied().filter(|line| line.settings.as_ref().is_none_or(alike)).collect()
}

/// Sorts things into groups by a key; groups and their members keep the order in which they appear.
pub fn grouped<T, K: PartialEq>(items: impl IntoIterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for item in items {
        let of = key(&item);
        match groups.iter_mut().find(|(key, _)| *key == of) {
            Some((_, members)) => members.push(item),
            None => groups.push((of, vec![item])),
        }
    }
    groups
}

/// Nodes of each cluster in few words: `4 × 16`, or `4, 12, 16, 32`.
pub fn layout(nodes: &[u32]) -> String {
    match nodes {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => format!("{} × {first}", nodes.len()),
        _ => nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// Bytes in MB (10^6), with as many decimals as needed up to three.
pub fn megabytes(bytes: u64) -> String {
    let text = format!("{:.3}", bytes as f64 / 1e6);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
