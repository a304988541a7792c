//! The tables: one for each experiment and topology, a row for each case, and below it what does not count and why,
//! and where and when it was measured.

use std::collections::BTreeSet;
use std::fmt::Write;

use mobcast_topology::record::{RunOutcome, RunRecord};

use super::summary::{Spread, Summary, grouped, layout, megabytes, summaries};

/// Headings, and whether the column holds numbers.
const COLUMNS: [(&str, bool); 22] = [
    ("scenario", false),
    ("nodes", false),
    ("MB", true),
    ("program", false),
    ("strategy", false),
    ("instrument", false),
    ("runs: complete/void/failed", true),
    ("MB/s", true),
    ("min–max", true),
    ("optimum", true),
    ("fraction", true),
    ("ms each", true),
    ("nodes at s: half, 99 %, all", true),
    ("start s", true),
    ("steady MB/s", true),
    ("tail s", true),
    ("WAN copies", true),
    ("repeated %", true),
    ("lost in queues", true),
    ("CPU busy %", true),
    ("hub late p99 ms", true),
    ("ours ÷ it", true),
];
const ABSENT: &str = "–";
/// Of the cells after the scenario's, the first that a run has measured, and one that it has not.
const FIRST_FIGURE: usize = 6;
const OPTIMUM: usize = 8;

/// Tables of all experiments in these records, in Markdown.
pub fn markdown(records: &[RunRecord]) -> String {
    let all = summaries(records);
    let key = |summary: &&Summary<'_>| (summary.case.experiment.clone(), summary.case.topology.clone());
    let mut text = String::new();
    for ((experiment, topology), cases) in grouped(&all, key) {
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{gap}## {} on {}\n", cell(&experiment), cell(&topology));
        table(&mut text, &cases, &all);
        legend(&mut text, &cases);
        left_out(&mut text, &cases);
        origin(&mut text, &cases);
    }
    text
}

fn table(text: &mut String, cases: &[&Summary<'_>], all: &[Summary<'_>]) {
    let mut rows = String::new();
    for (scenario, cases) in grouped(cases, |summary| &summary.case.scenario) {
        for summary in cases {
            row(&mut rows, &[vec![cell(scenario)], figures(summary, all)].concat());
        }
    }
    row(text, &COLUMNS.map(|(heading, _)| heading.to_owned()));
    row(text, &COLUMNS.map(|(_, number)| if number { "--:" } else { "---" }.to_owned()));
    text.push_str(&rows);
}

fn row(text: &mut String, cells: &[String]) {
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

/// A text that cannot end its cell or line.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or(ABSENT.into(), |value| format!("{value:.decimals$}"))
}

/// All columns but the first.
fn figures(summary: &Summary<'_>, all: &[Summary<'_>]) -> Vec<String> {
    let case = summary.case;
    let spread = |figure: fn(&RunRecord) -> Option<f64>| Spread::of(summary.shown().filter_map(figure));
    let highest = |figure: fn(&RunRecord) -> Option<f64>| spread(figure).map(|spread| spread.max);
    let some = |figure: fn(&RunRecord) -> Option<f64>| spread(figure).map(|spread| spread.median);
    let phase = |figure: fn(&RunRecord) -> f64| median_phase(summary.shown(), figure);
    let throughput = spread(|run| Some(run.throughput_mb_per_s));
    let counts = [RunOutcome::Complete, RunOutcome::Void, RunOutcome::Failed].map(|o| summary.count(o).to_string());
    let has_optimum = summary.optimum().is_some();
    let most = |sign: &'static str| if summary.is_optimum_at_most() { sign } else { "" };
    let found = if summary.is_rival() || case.named_clusters { "" } else { ", clusters found" };
    let strategy = if case.strategy.is_empty() { ABSENT } else { &case.strategy };
    let mut cells = vec![
        layout(&case.nodes_per_cluster),
        megabytes(case.object_bytes),
        cell(&case.program),
        format!("{}{found}", cell(strategy)),
        cell(&case.instrument),
        counts.join("/"),
        number(throughput.map(|spread| spread.median), 2),
        throughput.map_or(ABSENT.into(), |spread| format!("{:.2}–{:.2}", spread.min, spread.max)),
        summary.optimum().map_or(ABSENT.into(), |optimum| format!("{}{}", most("≤ "), bracket(optimum))),
        some(|run| Some(run.fraction))
            .filter(|_| has_optimum)
            .map_or(ABSENT.into(), |fraction| format!("{}{fraction:.3}", most("≥ "))),
        number(some(milliseconds_each), 2),
        completion(some),
        number(phase(|run| run.phases.start_seconds), 2),
        number(phase(|run| run.phases.steady_mb_per_s), 2),
        number(phase(|run| run.phases.tail_seconds), 2),
        number(some(wan_copies), 3),
        number(some(repeated_percent), 2),
        number(some(lost_in_queues), 0),
        number(highest(|run| Some(run.emulation.as_ref()?.cpu_busy_percent)), 0),
        number(highest(|run| Some(run.emulation.as_ref()?.late_p99_ms)), 1),
        number(summary.ours_to_it(all), 2),
    ];
    if summary.is_void() {
        let measured = cells.iter_mut().enumerate().filter(|(index, _)| *index >= FIRST_FIGURE && *index != OPTIMUM);
        measured.filter(|(_, cell)| *cell != ABSENT).for_each(|(_, cell)| *cell = format!("({cell})"));
    }
    cells
}

/// When half of the receivers, 99 of 100 and all of them had everything, where one broadcast is timed.
fn completion(some: impl Fn(fn(&RunRecord) -> Option<f64>) -> Option<f64>) -> String {
    let times = [some(|run| complete_s(run, 0.5)), some(|run| complete_s(run, 0.99)), some(|run| complete_s(run, 1.0))];
    if times.iter().all(Option::is_none) { ABSENT.into() } else { times.map(|time| number(time, 1)).join(", ") }
}

/// When this part of the receivers had everything: the root is the first node.
fn complete_s(run: &RunRecord, part: f64) -> Option<f64> {
    let mut times: Vec<f64> = run.nodes.iter().skip(1).map(|node| node.seconds).collect();
    times.sort_by(f64::total_cmp);
    let place = (part * times.len() as f64).ceil() as usize;
    times.get(place.max(1) - 1).copied().filter(|_| run.rounds_seconds.is_empty())
}

/// A figure of the phases, which programs that do not tell their imports lack.
pub(super) fn median_phase<'a>(
    runs: impl Iterator<Item = &'a RunRecord>,
    figure: fn(&RunRecord) -> f64,
) -> Option<f64> {
    let known = runs.filter(|run| run.phases.steady_mb_per_s > 0.0);
    Spread::of(known.map(figure)).map(|spread| spread.median)
}

fn bracket((lower, upper): (f64, f64)) -> String {
    let (lower, upper) = (format!("{lower:.2}"), format!("{upper:.2}"));
    if lower == upper { lower } else { format!("{lower}–{upper}") }
}

/// Of several broadcasts in a running group, the middle one's time.
fn milliseconds_each(run: &RunRecord) -> Option<f64> {
    (!run.rounds_seconds.is_empty()).then_some(run.seconds * 1e3)
}

/// The highest of all receiving clusters.
pub fn wan_copies(run: &RunRecord) -> Option<f64> {
    run.wan_copies.values().copied().max_by(f64::total_cmp)
}

fn repeated_percent(run: &RunRecord) -> Option<f64> {
    let sum = |of: fn(&(u64, u64)) -> u64| {
        run.wan.iter().map(|link| of(&(link.unique_bytes, link.repeated_bytes))).sum::<u64>() as f64
    };
    let (unique, repeated) = (sum(|bytes| bytes.0), sum(|bytes| bytes.1));
    (unique + repeated > 0.0).then(|| 100.0 * repeated / (unique + repeated))
}

fn lost_in_queues(run: &RunRecord) -> Option<f64> {
    (!run.wan.is_empty()).then(|| run.wan.iter().map(|link| link.lost_in_queue).sum::<u64>() as f64)
}

fn legend(text: &mut String, cases: &[&Summary<'_>]) {
    let _ = write!(
        text,
        "\nMedians of the complete runs; WAN copies are those of the cluster that imported most, processor and lateness \
         the highest of them; in parentheses what void runs gave, where no run counts; ours is the strategy of mobcast that stands first. 1 MB is 10^6 bytes of payload; the optimum is of payload too"
    );
    let changing = cases.iter().any(|summary| summary.optimum().is_some_and(|(lower, upper)| upper > lower));
    let _ = write!(text, "{}", if changing { ", with its lower and upper bound where links change" } else { "" });
    let at_most = cases.iter().any(|summary| summary.is_optimum_at_most());
    let _ = writeln!(text, "{}.", if at_most { "; ≤ where the true one may be lower" } else { "" });
}

fn left_out(text: &mut String, cases: &[&Summary<'_>]) {
    if cases.iter().all(|summary| summary.others == 0 && summary.incomplete().next().is_none()) {
        return;
    }
    let _ = writeln!(text, "\nNot in the medians:\n");
    for summary in cases {
        let parts = [&summary.case.scenario, &layout(&summary.case.nodes_per_cluster), &summary.label()];
        let [scenario, nodes, label] = parts.map(|part| cell(part));
        let place = format!("{scenario}, {nodes} nodes, {} MB, {label}", megabytes(summary.case.object_bytes));
        for run in summary.incomplete() {
            let how = if run.outcome == RunOutcome::Void { "void" } else { "failed" };
            let reason = run.reason.as_deref().unwrap_or("no reason given");
            let _ = writeln!(text, "- {place}, no. {}: {how}: {}", run.repetition + 1, cell(reason));
        }
        if summary.others > 0 {
            let _ = writeln!(text, "- {place}: {}", others(summary.others));
        }
    }
}

/// Lines that no median may hold beside others.
pub(super) fn others(lines: usize) -> String {
    let (runs, are) = if lines == 1 { ("run", "is") } else { ("runs", "are") };
    format!("{lines} {runs} with other settings or on another network than the last run {are} left out")
}

/// Where and when, and with what.
fn origin(text: &mut String, cases: &[&Summary<'_>]) {
    let runs = || cases.iter().flat_map(|summary| summary.runs.iter());
    let machines: BTreeSet<&str> = runs().map(|run| run.machine.as_str()).filter(|text| !text.is_empty()).collect();
    let days: BTreeSet<&str> = runs().filter_map(|run| run.date.get(..10)).collect();
    let versions = runs().flat_map(|run| run.versions.iter()).map(|(name, version)| format!("{name} {version}"));
    let versions: BTreeSet<String> = versions.collect();
    let join = |parts: Vec<String>, by: &str| cell(&parts.join(by));
    let mut sentences = Vec::new();
    if let (Some(first), Some(last)) = (days.first(), days.last()) {
        sentences.push(if first == last {
            format!("Measured on {first}")
        } else {
            format!("Measured from {first} to {last}")
        });
    }
    if !machines.is_empty() {
        sentences.push(format!("Machine: {}", join(machines.into_iter().map(str::to_owned).collect(), "; ")));
    }
    if !versions.is_empty() {
        sentences.push(format!("Versions: {}", join(versions.into_iter().collect(), ", ")));
    }
    if !sentences.is_empty() {
        let _ = writeln!(text, "\n{}.", sentences.join(". "));
    }
}
