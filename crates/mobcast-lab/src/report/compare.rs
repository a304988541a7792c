//! Lab and simulator side by side: the same case on two instruments, which should say the same.

use std::fmt::Write;

use mobcast_topology::record::{Case, RunRecord};

use super::summary::{Summary, layout, megabytes, summaries};
use super::table::{median_phase, others};

const LAB: &str = "lab";
const SIMULATOR: &str = "sim-";

/// A table of the cases that ran in the lab and in a simulator, with the simulator's difference from the lab in percent;
/// a sentence if there are none.
pub fn compare(records: &[RunRecord]) -> String {
    let all = summaries(records);
    let anywhere = |case: &Case| Case { instrument: String::new(), ..case.clone() };
    let mut rows = String::new();
    for lab in all.iter().filter(|summary| summary.case.instrument == LAB) {
        let simulators = all.iter().filter(|other| other.case.instrument.starts_with(SIMULATOR));
        for simulator in simulators.filter(|other| anywhere(other.case) == anywhere(lab.case)) {
            row(&mut rows, lab, simulator);
        }
    }
    if rows.is_empty() {
        return "No case ran both in the lab and in a simulator.\n".into();
    }
    let head = "\
| experiment | scenario | nodes | MB | program | simulator | lab MB/s | simulated | difference % | lab steady MB/s \
| simulated | difference % | lab start s | simulated | lab tail s | simulated |
|---|---|---|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
";
    let left_out = all.iter().map(|summary| summary.others).sum();
    let note = if left_out == 0 { String::new() } else { format!("\n{}.\n", others(left_out)) };
    format!("{head}{rows}{note}")
}

fn row(text: &mut String, lab: &Summary<'_>, simulator: &Summary<'_>) {
    let case = lab.case;
    let pair = |figure: fn(&RunRecord) -> f64| [lab, simulator].map(|of| of.spread(figure).map(|spread| spread.median));
    let throughput = pair(|run| run.throughput_mb_per_s);
    let phase = |figure: fn(&RunRecord) -> f64| [lab, simulator].map(|of| median_phase(of.complete(), figure));
    let steady = phase(|run| run.phases.steady_mb_per_s);
    let names = [&case.experiment, &case.scenario, &layout(&case.nodes_per_cluster), &megabytes(case.object_bytes)];
    let mut cells: Vec<String> = names.map(|name| name.replace('|', "\\|")).into();
    cells.push(lab.label().replace('|', "\\|"));
    cells.push(simulator.case.instrument.clone());
    for figures in [throughput, steady] {
        cells.extend(figures.map(number));
        cells.push(difference(figures));
    }
    cells.extend(phase(|run| run.phases.start_seconds).map(number));
    cells.extend(phase(|run| run.phases.tail_seconds).map(number));
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

fn number(value: Option<f64>) -> String {
    value.map_or("–".into(), |value| format!("{value:.2}"))
}

fn difference([lab, simulated]: [Option<f64>; 2]) -> String {
    match (lab, simulated) {
        (Some(lab), Some(simulated)) if lab > 0.0 => format!("{:+.1}", 100.0 * (simulated - lab) / lab),
        _ => "–".into(),
    }
}
