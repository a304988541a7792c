//! Where the bytes of a broadcast come from.

use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use mobcast_net::store::StoreError;

use crate::Error;

/// What is broadcast.
pub struct Source(pub(crate) SourceKind);

pub(crate) enum SourceKind {
    Path(PathBuf),
    Bytes(Arc<[u8]>),
    Reader(Box<dyn Read + Send>),
    Synthetic { length: u64, seed: u64 },
}

impl Source {
    /// Whether it can be opened without waiting for a disk.
    pub(crate) fn opens_at_once(&self) -> bool {
        matches!(self.0, SourceKind::Bytes(_) | SourceKind::Synthetic { .. })
    }

    /// The regular file, directory or block device at `path`.
    pub fn path(path: impl Into<PathBuf>) -> Source {
        Source(SourceKind::Path(path.into()))
    }

    /// Bytes in memory.
    pub fn bytes(bytes: impl Into<Arc<[u8]>>) -> Source {
        Source(SourceKind::Bytes(bytes.into()))
    }

    /// A stream of unknown length. It is read on a thread of its own, and kept in an unnamed temporary file, so that
    /// it can be larger than memory.
    pub fn reader(reader: impl Read + Send + 'static) -> Source {
        Source(SourceKind::Reader(Box::new(reader)))
    }

    /// `length` bytes generated from `seed`: for benchmarks and demonstrations.
    pub fn synthetic(length: u64, seed: u64) -> Source {
        Source(SourceKind::Synthetic { length, seed })
    }

    /// Whether there is anything at its path: to be known before others are made to wait for it.
    ///
    /// # Errors
    /// If there is not, or it cannot be looked at.
    pub fn check(&self) -> Result<(), Error> {
        match &self.0 {
            SourceKind::Path(path) => {
                std::fs::metadata(path).map_err(|error| StoreError::io("read", path, error))?;
                Ok(())
            }
            SourceKind::Bytes(_) | SourceKind::Reader(_) | SourceKind::Synthetic { .. } => Ok(()),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            SourceKind::Path(path) => f.debug_tuple("Path").field(path).finish(),
            SourceKind::Bytes(bytes) => write!(f, "Bytes({} bytes)", bytes.len()),
            SourceKind::Reader(_) => f.write_str("Reader"),
            SourceKind::Synthetic { length, seed } => write!(f, "Synthetic({length} bytes, seed {seed})"),
        }
    }
}
