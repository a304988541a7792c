//! What became of all runs, as a table.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::run::Victim;

/// The runs so far, by who was killed.
#[derive(Default)]
pub struct Summary {
    receivers: Row,
    roots: Row,
}

#[derive(Default)]
struct Row {
    failed: usize,
    /// What the kills hit, and how often.
    hits: BTreeMap<String, usize>,
    times: Vec<Duration>,
}

impl Summary {
    /// A run is over.
    pub fn add(&mut self, victim: Victim, result: Result<String, String>, elapsed: Duration) {
        let row = match victim {
            Victim::Receiver(_) => &mut self.receivers,
            Victim::Root => &mut self.roots,
        };
        row.times.push(elapsed);
        match result {
            Ok(hit) => *row.hits.entry(hit).or_default() += 1,
            Err(_) => row.failed += 1,
        }
    }

    /// Whether nothing failed.
    pub fn passed(&self) -> bool {
        self.receivers.failed + self.roots.failed == 0
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:22} {:>5} {:>7} {:>9} {:>9}  hit", "killed", "runs", "failed", "median", "longest")?;
        for (name, row) in [("a receiver", &self.receivers), ("the root, may leave", &self.roots)] {
            let mut times = row.times.clone();
            times.sort();
            let seconds = |time: Option<&Duration>| time.map_or(0.0, Duration::as_secs_f64);
            let (median, longest) = (seconds(times.get(times.len() / 2)), seconds(times.last()));
            let hits: Vec<String> = row.hits.iter().map(|(hit, count)| format!("{hit} {count}")).collect();
            let (runs, failed) = (times.len(), row.failed);
            writeln!(f, "{name:22} {runs:>5} {failed:>7} {median:>7.1} s {longest:>7.1} s  {}", hits.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_run_fails_the_whole() {
        let mut summary = Summary::default();
        summary.add(Victim::Root, Ok("3 of 5 complete".into()), Duration::from_secs(2));
        assert!(summary.passed());
        summary.add(Victim::Receiver(1), Err("hangs".into()), Duration::from_secs(3));
        assert!(!summary.passed());
        let table = summary.to_string();
        assert!(table.contains("3 of 5 complete 1") && table.lines().count() == 3, "{table}");
    }
}
