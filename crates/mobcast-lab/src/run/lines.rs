//! The file of finished runs: one line each, appended, so that an interrupted experiment goes on where it was.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use mobcast_topology::files::Planned;
use mobcast_topology::record::{Case, RunOutcome, RunRecord, Settings, is_cut_line};

use crate::error::LabError;
use crate::report;

/// The file, and which runs stand in it.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    /// Whether void runs count as done.
    enough: bool,
    done: BTreeMap<(Case, u32), Done>,
}

/// What a line says of how its run was made.
#[derive(Debug)]
struct Done {
    seed: u64,
    settings: Option<Settings>,
    versions: BTreeMap<String, String>,
}

impl Lines {
    /// Opens the file, or one that does not exist yet. Failed runs do not count as done, and void ones only if that is
    /// `enough`.
    pub fn open(path: &Path, enough: bool) -> Result<Lines, LabError> {
        let mut lines = Lines { path: path.to_owned(), enough, done: BTreeMap::new() };
        if path.exists() {
            let records = report::read(&[path.to_owned()]).map_err(|error| LabError::Usage(error.to_string()))?;
            records.runs.iter().for_each(|record| lines.note(record));
            lines.check_end()?;
        }
        Ok(lines)
    }

    /// What is no line of ours is not to be cut off.
    fn check_end(&self) -> Result<(), LabError> {
        let bytes = std::fs::read(&self.path).map_err(LabError::at(&self.path))?;
        let rest = &bytes[whole_lines(&bytes)..];
        if is_cut_line(rest.trim_ascii()) || serde_json::from_slice::<RunRecord>(rest).is_ok() {
            return Ok(());
        }
        let remedy = "remove it, or give another --output";
        Err(LabError::Usage(format!("{}: its last line is of no run: {remedy}", self.path.display())))
    }

    /// Of several lines of a run the last one counts.
    fn note(&mut self, record: &RunRecord) {
        let run = (record.case.clone(), record.repetition);
        let counts = record.outcome == RunOutcome::Complete || (self.enough && record.outcome == RunOutcome::Void);
        if counts {
            let RunRecord { seed, settings, versions, .. } = record;
            self.done.insert(run, Done { seed: *seed, settings: settings.clone(), versions: versions.clone() });
        } else {
            self.done.remove(&run);
        }
    }

    fn of(&self, run: &Planned) -> Option<&Done> {
        self.done.get(&(run.case.clone(), run.repetition))
    }

    /// Whether this run was made, on this network and with these settings: an experiment's file may have changed.
    pub fn has(&self, run: &Planned) -> bool {
        let same = |done: &Done| {
            done.seed == run.seed && done.settings.as_ref().is_none_or(|settings| *settings == run.settings())
        };
        self.of(run).is_some_and(same)
    }

    /// What finished runs among these were made with, where it is not what there is now.
    pub fn other_versions(&self, runs: &[Planned], now: &BTreeMap<String, String>) -> BTreeSet<String> {
        let made =
            runs.iter().filter(|run| self.has(run)).filter_map(|run| self.of(run)).flat_map(|done| &done.versions);
        let others = made.filter(|(program, version)| now.get(*program).is_some_and(|current| current != *version));
        others.map(|(program, version)| format!("{program} {version}")).collect()
    }

    /// Appends a run. A line that an interruption has cut is taken away; one that lacks nothing but its end stays.
    pub fn append(&mut self, record: &RunRecord) -> Result<(), LabError> {
        let text = serde_json::to_string(record).expect("plain data");
        let written = self.write(text.as_bytes());
        written.map_err(LabError::at(&self.path))?;
        self.note(record);
        Ok(())
    }

    fn write(&self, line: &[u8]) -> std::io::Result<()> {
        let before = std::fs::read(&self.path).unwrap_or_default();
        let whole = whole_lines(&before);
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&self.path)?;
        let is_run = serde_json::from_slice::<RunRecord>(&before[whole..]).is_ok();
        if !is_run {
            file.set_len(whole as u64)?;
        }
        file.write_all(&[if is_run { b"\n" } else { &b""[..] }, line, b"\n"].concat())
    }
}

/// Bytes up to the end of the last line that has one.
fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
}

#[cfg(test)]
mod tests {
    use mobcast_topology::files::Experiment;

    use super::*;

    #[test]
    fn an_interrupted_experiment_goes_on_where_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.jsonl");
        let planned = |scenario: &str| {
            let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/experiments/mob-1.toml");
            let runs = Experiment::load(&example).unwrap().runs(true);
            runs.into_iter().find(|run| run.case.scenario == scenario).unwrap()
        };
        let record = |scenario: &str, outcome| {
            let run = planned(scenario);
            let versions = [("mobcast".to_owned(), "1".to_owned())].into();
            RunRecord {
                settings: Some(run.settings()),
                seed: run.seed,
                case: run.case,
                outcome,
                versions,
                ..RunRecord::default()
            }
        };
        let mut lines = Lines::open(&path, false).unwrap();
        lines.append(&record("fast", RunOutcome::Complete)).unwrap();
        lines.append(&record("slow", RunOutcome::Void)).unwrap();
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"case\":").unwrap();
        let mut lines = Lines::open(&path, false).unwrap();
        assert!(lines.has(&planned("fast")));
        assert!(!lines.has(&Planned { repetition: 1, ..planned("fast") }) && !lines.has(&planned("slow")));
        assert!(!lines.has(&Planned { piece_size: Some(1 << 20), ..planned("fast") }), "that is another experiment");
        assert!(!lines.has(&Planned { seed: 0, ..planned("fast") }), "and that");
        let now = |version: &str| [("mobcast".to_owned(), version.to_owned())].into();
        assert!(lines.other_versions(&[planned("fast")], &now("1")).is_empty());
        assert_eq!(lines.other_versions(&[planned("fast")], &now("2")), ["mobcast 1".to_owned()].into());
        assert!(Lines::open(&path, true).unwrap().has(&planned("slow")), "void was enough");
        lines.append(&record("slow", RunOutcome::Failed)).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
        assert!(!Lines::open(&path, true).unwrap().has(&planned("slow")), "what failed is made again");
        lines.append(&record("slow", RunOutcome::Complete)).unwrap();
        assert!(Lines::open(&path, false).unwrap().has(&planned("slow")));
        // Somebody's editor has left out the last line's end.
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, whole.trim_end()).unwrap();
        Lines::open(&path, false).unwrap().append(&record("fast", RunOutcome::Void)).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().starts_with(&whole), "a whole line is kept");
    }
    #[test]
    fn a_file_that_is_not_ours_loses_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes.txt");
        std::fs::write(&path, "what I have to do").unwrap();
        let error = Lines::open(&path, false).expect_err("it is no file of lines");
        assert!(error.to_string().contains("notes.txt: its last line is of no run"), "{error}");
        for ours in ["", "{\"ca", "{\"case\":{"] {
            std::fs::write(&path, ours).unwrap();
            assert!(Lines::open(&path, false).is_ok(), "{ours}");
        }
    }
}
