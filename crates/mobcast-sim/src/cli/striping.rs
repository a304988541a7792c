//! Experiments with stripes: all cases of a file, one line each, and a short table.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use mobcast_sim::striping::{is_of, simulate};
use mobcast_topology::files::StripingExperiment;
use mobcast_topology::record::StripingRecord;

use super::text;

/// Runs all cases; whether all came to their end. Lines go to `output`, where they take the place of earlier ones of the same
/// cases, or to standard output.
pub fn run(path: &Path, output: Option<&Path>) -> Result<bool, String> {
    let experiment = StripingExperiment::load(path).map_err(text)?;
    if let Some(path) = output {
        check_replaceable(path, &experiment)?;
    }
    eprintln!("{}: {} cases", experiment.title, experiment.cases.len());
    let records: Vec<StripingRecord> = experiment.cases.iter().map(|case| simulate(&experiment, case)).collect();
    let mut lines = String::new();
    for record in &records {
        lines += &serde_json::to_string(record).map_err(text)?;
        lines.push('\n');
    }
    match output {
        None => std::io::stdout().write_all(lines.as_bytes()).map_err(text)?,
        Some(path) => std::fs::write(path, lines).map_err(|error| format!("{}: {error}", path.display()))?,
    }
    eprint!("{}", table(&records));
    let over: Vec<&StripingRecord> = records.iter().filter(|record| record.seconds.is_none()).collect();
    if !over.is_empty() {
        let longest = experiment.longest_ns as f64 / 1e9;
        eprintln!("{} cases take longer than longest_s = {longest}: raise it", over.len());
    }
    Ok(over.is_empty())
}

/// What took hours must not be lost to a wrong name: a file is written anew only if it holds lines of these cases alone.
fn check_replaceable(path: &Path, experiment: &StripingExperiment) -> Result<(), String> {
    // A device or a pipe holds nothing, and reading it could last.
    if !path.is_file() {
        return Ok(());
    }
    let text = std::fs::read_to_string(path).map_err(|error| {
        let path = path.display();
        format!("{path}: {error}: name a file that holds nothing but lines of {}, or another one", experiment.name)
    })?;
    let is_ours = |line: &str| serde_json::from_str(line).is_ok_and(|record| is_of(&record, experiment));
    match text.lines().position(|line| !line.trim().is_empty() && !is_ours(line)) {
        Some(index) => Err(format!(
            "{}:{}: this is no line of a case of {}, and would be lost: name another file, or remove this one",
            path.display(),
            index + 1,
            experiment.name
        )),
        None => Ok(()),
    }
}

/// Seconds by the number of stripes (columns) and everything else (rows).
fn table(records: &[StripingRecord]) -> String {
    let stripes: Vec<u32> = records.iter().map(|record| record.stripes).collect::<BTreeSet<_>>().into_iter().collect();
    let mut text = format!("{:>5} {:>7} {:>6} {:>5} |", "nodes", "Mbit/s", "RTT ms", "queue");
    text.extend(stripes.iter().map(|count| format!(" {count:>7}")));
    text += " stripes\n";
    let place = |r: &StripingRecord| (r.nodes, r.between_mbit_per_s, r.round_trip_ms, r.queue_packets);
    for row in records.chunk_by(|a, b| place(a) == place(b)) {
        let (nodes, rate, rtt, queue) = place(&row[0]);
        let _ = write!(text, "{nodes:>5} {rate:>7} {rtt:>6} {queue:>5} |");
        text.extend(stripes.iter().map(|count| {
            let seconds = row.iter().find(|record| record.stripes == *count).and_then(|record| record.seconds);
            let cell = seconds.map_or("–".to_owned(), |seconds| format!("{seconds:.1}"));
            format!(" {cell:>7}")
        }));
        text.push('\n');
    }
    text
}
