//! The file of finished runs: one line each, appended, so that an interrupted experiment goes on where it was.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use mobcast_topology::record::{Case, RunOutcome, RunRecord};

use crate::error::LabError;
use crate::report;

/// The file, and which runs stand in it.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    done: BTreeSet<(Case, u32)>,
}

impl Lines {
    /// Opens the file, or one that does not exist yet. Void runs do not count as done, unless that is `enough`.
    pub fn open(path: &Path, enough: bool) -> Result<Lines, LabError> {
        let mut done = BTreeSet::new();
        if path.exists() {
            let records = report::read(&[path.to_owned()]).map_err(|error| LabError::Usage(error.to_string()))?;
            let kept = records.runs.into_iter().filter(|record| enough || record.outcome != RunOutcome::Void);
            done.extend(kept.map(|record| (record.case, record.repetition)));
        }
        Ok(Lines { path: path.to_owned(), done })
    }

    /// Whether this run was made.
    pub fn has(&self, case: &Case, repetition: u32) -> bool {
        self.done.contains(&(case.clone(), repetition))
    }

    /// Appends a run. A line that an interruption has cut is taken away.
    pub fn append(&mut self, record: &RunRecord) -> Result<(), LabError> {
        let text = serde_json::to_string(record).expect("plain data");
        let written = self.write(text.as_bytes());
        written.map_err(LabError::at(&self.path))?;
        self.done.insert((record.case.clone(), record.repetition));
        Ok(())
    }

    fn write(&self, line: &[u8]) -> std::io::Result<()> {
        let before = std::fs::read(&self.path).unwrap_or_default();
        let whole = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.set_len(whole as u64)?;
        file.write_all(&[line, b"\n"].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_experiment_goes_on_where_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.jsonl");
        let record = |scenario: &str, outcome| {
            let case = Case { scenario: scenario.to_owned(), ..Case::default() };
            RunRecord { case, outcome, ..RunRecord::default() }
        };
        let mut lines = Lines::open(&path, false).unwrap();
        lines.append(&record("fast", RunOutcome::Complete)).unwrap();
        lines.append(&record("slow", RunOutcome::Void)).unwrap();
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"case\":").unwrap();
        let mut lines = Lines::open(&path, false).unwrap();
        let case = |scenario: &str| record(scenario, RunOutcome::Void).case;
        assert!(lines.has(&case("fast"), 0));
        assert!(!lines.has(&case("fast"), 1) && !lines.has(&case("slow"), 0), "void runs are made again");
        assert!(Lines::open(&path, true).unwrap().has(&case("slow"), 0));
        lines.append(&record("slow", RunOutcome::Failed)).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
        assert!(Lines::open(&path, false).unwrap().has(&case("slow"), 0));
    }
}
