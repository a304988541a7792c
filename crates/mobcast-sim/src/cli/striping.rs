//! Experiments with stripes: all cases of a file, one line each, and a short table.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use mobcast_sim::striping::{is_of, simulate};
use mobcast_topology::files::StripingExperiment;
use mobcast_topology::record::StripingRecord;

use super::progress::Cases;
use super::{Problem, text};

/// Runs all cases; whether all came to their end. Lines go to `output`, where they take the place of earlier ones of the same
/// cases when all are there, or to standard output.
pub(super) fn run(path: &Path, output: Option<&Path>) -> Result<bool, Problem> {
    let experiment = StripingExperiment::load(path).map_err(text)?;
    let unwritten = |error: std::io::Error| {
        Problem::Unwritten(match output {
            None => format!("standard output: {error}"),
            Some(path) => format!("{}: {error}: name a file that can be written", path.display()),
        })
    };
    let mut lines = match output {
        None => Lines::on_standard_output(),
        Some(path) => {
            check_replaceable(path, &experiment)?;
            Lines::for_file(path).map_err(unwritten)?
        }
    };
    eprintln!("{}: {} cases", experiment.title, experiment.cases.len());
    let mut records = Vec::new();
    let mut progress = Cases::begin(experiment.cases.len());
    let written = experiment.cases.iter().try_for_each(|case| {
        records.push(simulate(&experiment, case));
        progress.look(records.len());
        lines.add(&records[records.len() - 1])
    });
    let written = written.and_then(|()| lines.finish());
    eprint!("{}", table(&records));
    written.map_err(unwritten)?;
    let over: Vec<&StripingRecord> = records.iter().filter(|record| record.seconds.is_none()).collect();
    if !over.is_empty() {
        let longest = experiment.longest_ns as f64 / 1e9;
        eprintln!("{} cases take longer than longest_s = {longest}: raise it", over.len());
    }
    Ok(over.is_empty())
}

/// Where lines go, one by one. A file keeps what it had until all are there: until then they stand in another one beside it, which an
/// interrupted experiment leaves.
struct Lines {
    to: Box<dyn Write>,
    /// The file that all are in, and the one that it becomes.
    whole: Option<[PathBuf; 2]>,
}

impl Lines {
    fn on_standard_output() -> Lines {
        Lines { to: Box::new(std::io::stdout()), whole: None }
    }

    fn for_file(path: &Path) -> std::io::Result<Lines> {
        // What cannot be written is found before hours are spent.
        let file = if path.exists() { Some(OpenOptions::new().append(true).open(path)?) } else { None };
        if let Some(file) = file.filter(|_| !path.is_file()) {
            return Ok(Lines { to: Box::new(file), whole: None });
        }
        // The file that a link leads to is replaced, and not the link.
        let place = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut part = place.clone().into_os_string();
        part.push(".new");
        Ok(Lines { to: Box::new(File::create(&part)?), whole: Some([part.into(), place]) })
    }

    fn add(&mut self, record: &StripingRecord) -> std::io::Result<()> {
        let line = serde_json::to_string(record).expect("a record is made of texts and numbers") + "\n";
        self.to.write_all(line.as_bytes())
    }

    fn finish(mut self) -> std::io::Result<()> {
        self.to.flush()?;
        self.whole.map_or(Ok(()), |[part, place]| std::fs::rename(part, place))
    }
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
