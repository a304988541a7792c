//! Files of lines, one run each. A run that was interrupted may leave an incomplete last line, which is left out and
//! told; any other line that cannot be read is an error with its place.

use std::path::{Path, PathBuf};

use mobcast_topology::record::{RunRecord, StripingRecord};
use thiserror::Error;

/// Why lines cannot be read. The message names the mend.
#[derive(Debug, Error)]
pub enum ReportError {
    /// A file that cannot be opened or read.
    #[error("{}: {source}: name the files that `run` wrote", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A line that is no record.
    #[error("{}:{line}: {problem}: mend or remove this line, or run the experiment again", path.display())]
    BrokenLine {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}

/// What lines hold.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Lines {
    /// Broadcasts.
    pub runs: Vec<RunRecord>,
    /// Transfers over several connections.
    pub striping: Vec<StripingRecord>,
}

/// Reads the records of all files, in the order of the files and their lines. An incomplete last line is left out, and
/// standard error says so.
///
/// # Errors
/// If a file cannot be read, or a line in it is no record.
pub fn read<P: AsRef<Path>>(paths: &[P]) -> Result<Lines, ReportError> {
    read_noting(paths, |note| eprintln!("{note}"))
}

/// Like [`read`], with `note` told of lines that are left out.
///
/// # Errors
/// If a file cannot be read, or a line in it is no record.
pub fn read_noting<P: AsRef<Path>>(paths: &[P], mut note: impl FnMut(String)) -> Result<Lines, ReportError> {
    let mut records = Lines::default();
    for path in paths {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|source| ReportError::Unreadable { path: path.to_owned(), source })?;
        read_file(path, &bytes, &mut records, &mut note)?;
    }
    Ok(records)
}

fn read_file(path: &Path, bytes: &[u8], records: &mut Lines, note: &mut impl FnMut(String)) -> Result<(), ReportError> {
    let mut lines = bytes.split(|&byte| byte == b'\n').enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match records.add(line) {
            Ok(()) => {}
            Err(_) if lines.peek().is_none() => {
                let place = format!("{}:{}", path.display(), index + 1);
                note(format!("{place}: an incomplete last line, as an interrupted run leaves, is left out"));
            }
            Err(error) => {
                let problem = error.to_string();
                return Err(ReportError::BrokenLine { path: path.to_owned(), line: index + 1, problem });
            }
        }
    }
    Ok(())
}

impl Lines {
    fn add(&mut self, line: &[u8]) -> Result<(), serde_json::Error> {
        if line.trim_ascii_start().starts_with(b"{\"striping\"") {
            self.striping.push(serde_json::from_slice(line)?);
        } else {
            self.runs.push(serde_json::from_slice(line)?);
        }
        Ok(())
    }
}
