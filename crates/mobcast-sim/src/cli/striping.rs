//! Experiments with stripes: all cases of a file, one line each, and a short table.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use mobcast_sim::striping::simulate;
use mobcast_topology::files::StripingExperiment;
use mobcast_topology::record::StripingRecord;

use super::text;

/// Runs all cases; whether all came to their end. Lines go to `output`, which is written anew, or to standard output.
pub fn run(path: &Path, output: Option<&Path>) -> Result<bool, String> {
    let experiment = StripingExperiment::load(path).map_err(text)?;
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
