//! What is wrong with a file, and where.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;

/// A file that cannot be used. Shown as `FILE:LINE: KEY: message`; the message names the mend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1; none if the file cannot be read.
    pub line: Option<usize>,
    /// The key or table.
    pub key: Option<String>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        if let Some(key) = &self.key {
            write!(f, " {key}:")?;
        }
        write!(f, " {}", self.message)
    }
}

impl std::error::Error for FileError {}

/// The text of a file with its name, for pointing into it.
pub(super) struct Text {
    pub(super) file: String,
    pub(super) text: String,
}

impl Text {
    pub(super) fn read(path: &Path) -> Result<Text, FileError> {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Text { file, text }),
            Err(error) => Err(FileError { file, line: None, key: None, message: format!("cannot be read: {error}") }),
        }
    }

    pub(super) fn parse<T: DeserializeOwned>(&self) -> Result<T, FileError> {
        toml::from_str(&self.text).map_err(|error| self.error(error.span().unwrap_or(0..0), error.message()))
    }

    /// An error at these bytes of the text.
    pub(super) fn error(&self, span: Range<usize>, message: impl Into<String>) -> FileError {
        let start = span.start.min(self.text.len());
        let line = self.text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
        FileError { file: self.file.clone(), line: Some(line), key: self.key_at(line), message: message.into() }
    }

    /// The key whose value stands in a line: there, or above it where a value takes several lines.
    fn key_at(&self, line: usize) -> Option<String> {
        let above: Vec<&str> = self.text.lines().take(line).collect();
        above.into_iter().rev().find_map(|line| {
            let line = line.trim();
            if let Some(table) = line.strip_prefix('[') {
                let name: String = table.trim_start_matches('[').chars().take_while(|c| *c != ']').collect();
                return Some(name).filter(|name| is_key(name));
            }
            let (key, _) = line.split_once('=')?;
            Some(key.trim().to_owned()).filter(|key| is_key(key))
        })
    }
}

fn is_key(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

/// The name that a file stands for: its own without the extension.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}
