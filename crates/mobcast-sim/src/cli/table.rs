//! The short table after the runs of an experiment: a row for each case. The full one is made by `mobcast-lab report`.

use std::fmt::Write;

use mobcast_topology::record::{RunOutcome, RunRecord};

const HEADINGS: [&str; 9] =
    ["scenario", "nodes", "MB", "strategy", "complete", "MB/s", "optimum", "fraction", "WAN copies"];

/// Rows of the cases, in the order in which they first appear, for a terminal. Figures are medians of complete runs.
pub fn table(records: &[RunRecord]) -> String {
    let mut cases: Vec<Vec<&RunRecord>> = Vec::new();
    for record in records {
        match cases.iter_mut().find(|runs| runs[0].case == record.case) {
            Some(runs) => runs.push(record),
            None => cases.push(vec![record]),
        }
    }
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(cases.iter().map(|runs| row(runs)));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; HEADINGS.len()] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text
}

fn row(runs: &[&RunRecord]) -> [String; HEADINGS.len()] {
    let complete: Vec<&RunRecord> = runs.iter().copied().filter(|run| run.outcome == RunOutcome::Complete).collect();
    let cell = |figure: fn(&RunRecord) -> f64, decimals: usize| {
        let median = median(complete.iter().map(|run| figure(run)).collect());
        median.map_or("–".into(), |value| format!("{value:.decimals$}"))
    };
    let case = &runs[0].case;
    [
        case.scenario.clone(),
        layout(&case.nodes_per_cluster),
        (case.object_bytes as f64 / 1e6).to_string(),
        case.strategy.clone(),
        format!("{}/{}", complete.len(), runs.len()),
        cell(|run| run.throughput_mb_per_s, 2),
        cell(|run| run.optimum_mb_per_s, 2),
        cell(|run| run.fraction, 3),
        cell(|run| run.wan_copies.values().copied().fold(0.0, f64::max), 3),
    ]
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some((values[low] + values[high]) / 2.0)
}

/// Nodes of each cluster.
pub fn layout(nodes: &[u32]) -> String {
    nodes.iter().map(u32::to_string).collect::<Vec<_>>().join("+")
}
