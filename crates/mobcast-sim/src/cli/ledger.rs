//! Lines of results: those that a file has from before, and those that are added. Promises that what it holds is never
//! lost, and that a line is there as a whole before the next run begins.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use mobcast_sim::network::Model;
use mobcast_sim::run;
use mobcast_topology::files::Planned;
use mobcast_topology::record::{RunRecord, is_cut_line};
use thiserror::Error;

/// Why lines cannot be read or written. The message names the mend.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// What the system does not allow.
    #[error("{}: {source}: name a file that can be read and written", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A line that is no record.
    #[error("{}:{line}: {problem}: mend or remove this line, or name another file", path.display())]
    BrokenLine {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        problem: serde_json::Error,
    },
    /// The same run with other dice.
    #[error("{} has this run with seed {found}, not {wanted}: name another file, or the same --seed", path.display())]
    OtherSeed {
        /// The file.
        path: PathBuf,
        /// In the file.
        found: u64,
        /// Planned.
        wanted: u64,
    },
    /// Standard output is gone.
    #[error("standard output: {0}")]
    StandardOutput(std::io::Error),
}

/// Where lines of results go, and those that were there.
#[derive(Debug)]
pub struct Ledger {
    /// None for standard output.
    file: Option<(PathBuf, File)>,
    earlier: Vec<RunRecord>,
}

impl Ledger {
    /// Lines of this file, which is made if it is not there, or standard output. An incomplete last line, as an
    /// interrupted run leaves, is cut off.
    pub fn open(path: Option<&Path>) -> Result<Ledger, LedgerError> {
        let Some(path) = path else { return Ok(Ledger { file: None, earlier: Vec::new() }) };
        let failed = |source| LedgerError::File { path: path.to_owned(), source };
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        let bytes = std::fs::read(path).map_err(failed)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let (lines, rest) = bytes.split_at(whole);
        let mut earlier = Vec::new();
        for (index, line) in lines.split(|byte| *byte == b'\n').enumerate() {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let broken = |problem| LedgerError::BrokenLine { path: path.to_owned(), line: index + 1, problem };
            earlier.push(serde_json::from_slice(line).map_err(broken)?);
        }
        match serde_json::from_slice(rest) {
            Ok(last) => {
                earlier.push(last);
                file.write_all(b"\n").map_err(failed)?;
            }
            Err(_) if rest.is_empty() => {}
            Err(_) if is_cut_line(rest.trim_ascii()) => {
                eprintln!("{}: an incomplete last line, as an interrupted run leaves, is cut off", path.display());
                file.set_len(whole as u64).map_err(failed)?;
            }
            Err(problem) => {
                let line = 1 + lines.iter().filter(|byte| **byte == b'\n').count();
                return Err(LedgerError::BrokenLine { path: path.to_owned(), line, problem });
            }
        }
        Ok(Ledger { file: Some((path.to_owned(), file)), earlier })
    }

    /// The line of a planned run, if it was there: on this network and with these settings, because files change.
    pub fn find(&self, planned: &Planned, model: Model) -> Result<Option<RunRecord>, LedgerError> {
        let case = run::case(planned, model);
        let settings = Some(run::settings(planned));
        let same = |record: &&RunRecord| {
            record.case == case
                && record.repetition == planned.repetition
                && (record.settings.is_none() || record.settings == settings)
        };
        // Of several lines of one run the last one counts.
        let Some(record) = self.earlier.iter().rev().find(same) else { return Ok(None) };
        match &self.file {
            Some((path, _)) if record.seed != planned.seed => {
                Err(LedgerError::OtherSeed { path: path.clone(), found: record.seed, wanted: planned.seed })
            }
            _ => Ok(Some(record.clone())),
        }
    }

    /// Adds a line.
    pub fn add(&mut self, record: &RunRecord) -> Result<(), LedgerError> {
        let line = serde_json::to_string(record).expect("a record is made of texts and numbers") + "\n";
        match &mut self.file {
            Some((path, file)) => {
                file.write_all(line.as_bytes()).map_err(|source| LedgerError::File { path: path.clone(), source })
            }
            None => std::io::stdout().lock().write_all(line.as_bytes()).map_err(LedgerError::StandardOutput),
        }
    }
}
