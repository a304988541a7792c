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
    // Where nothing is limited there is no optimum.
    let of_optimum = |figure, decimals| match complete.iter().any(|run| run.optimum_mb_per_s > 0.0) {
        true => cell(figure, decimals),
        false => "–".into(),
    };
    let case = &runs[0].case;
    [
        case.scenario.clone(),
        layout(&case.nodes_per_cluster),
        (case.object_bytes as f64 / 1e6).to_string(),
        case.strategy.clone(),
        format!("{}/{}", complete.len(), runs.len()),
        cell(|run| run.throughput_mb_per_s, 2),
        of_optimum(|run| run.optimum_mb_per_s, 2),
        of_optimum(|run| run.fraction, 3),
        cell(|run| run.wan_copies.values().copied().fold(0.0, f64::max), 3),
    ]
}

/// When the nodes had everything, what kept the network from more, and what entered each cluster.
pub fn nodes(record: &RunRecord) -> String {
    let mut seconds: Vec<f64> = record.nodes.iter().skip(1).map(|node| node.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    let at =
        |part: f64| seconds.get(((seconds.len() as f64 * part).ceil() as usize).max(1) - 1).copied().unwrap_or(0.0);
    let last = record.nodes.iter().skip(1).max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let last = last.map_or(String::new(), |node| format!(" ({})", node.name));
    let copies: Vec<String> = record.wan_copies.iter().map(|(name, copies)| format!("{name} {copies:.2}")).collect();
    let copies = if copies.is_empty() { String::new() } else { format!("; copies: {}", copies.join(", ")) };
    let (half, most, all) = (at(0.5), at(0.99), at(1.0));
    format!(
        "nodes complete: half {half:.2} s, 99 % {most:.2} s, last {all:.2} s{last}; binds: {}{copies}",
        record.binding
    )
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

#[cfg(test)]
mod tests {
    use mobcast_topology::record::NodeRecord;

    use super::*;

    #[test]
    fn the_line_of_nodes_tells_when_they_were_complete() {
        // The root comes first and does not count.
        let seconds =
            (0..=200).map(|i| NodeRecord { name: format!("A{i}"), seconds: f64::from(i), ..NodeRecord::default() });
        let record = RunRecord {
            nodes: seconds.collect(),
            binding: "the card of the root".into(),
            wan_copies: [("B".to_owned(), 1.004)].into(),
            ..RunRecord::default()
        };
        let line = "nodes complete: half 100.00 s, 99 % 198.00 s, last 200.00 s (A200); binds: the card of the root; copies: B 1.00";
        assert_eq!(nodes(&record), line);
    }
}
