//! What can go wrong with files: one error type, whose messages are for the person at the terminal.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use mobcast_proto::content::tree::TreeError;
use rustix::io::Errno;

/// Why a source cannot be read or a sink cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused an operation on a file.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb: "read", "create".
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file system cannot hold the object.
    #[error("no space for {}{}; free some space or choose another destination", path.display(), space(*needed, *free))]
    NoSpace {
        /// What was being written.
        path: PathBuf,
        /// Bytes needed, where known.
        needed: Option<u64>,
        /// Bytes free, where known.
        free: Option<u64>,
    },
    /// The destination is there already.
    #[error("{} exists already; {hint}", path.display())]
    Exists {
        /// The destination.
        path: PathBuf,
        /// What to do instead.
        hint: String,
    },
    /// Something at the destination is of a kind that is never replaced, even by force.
    #[error("cannot replace {}: {what}; move it away first", path.display())]
    Conflict {
        /// The thing in the way.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A tree cannot be merged into what is mounted within its destination: a directory, or a single file.
    #[error("cannot merge into {}: another file system is mounted there; send what belongs there by itself", path.display())]
    OtherFileSystem {
        /// Where it is mounted.
        path: PathBuf,
    },
    /// The file system takes two names of a tree for one.
    #[error("{} and another name in the tree are the same file here; choose a destination that tells upper from lower case", path.display())]
    SameFile {
        /// The second of the two.
        path: PathBuf,
    },
    /// The block device given as destination is too small.
    #[error("{} holds {size} bytes but the object has {needed}; choose a larger device", path.display())]
    DeviceTooSmall {
        /// The device.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The object's size in bytes.
        needed: u64,
    },
    /// The source changed while it was read.
    #[error("{} changed while it was being sent ({what}); send it again when nobody writes to it", path.display())]
    Changed {
        /// The file that changed.
        path: PathBuf,
        /// What about it.
        what: &'static str,
    },
    /// The source is of a kind that cannot be sent.
    #[error("cannot send {}: {what}", path.display())]
    Unsupported {
        /// The thing.
        path: PathBuf,
        /// What it is, and what to do about it.
        what: String,
    },
    /// The object has no name that could serve as a file name, and no destination was given.
    #[error("the object {what}; give a destination path")]
    NoName {
        /// Why its name does not serve.
        what: String,
    },
    /// This kind of object cannot go to this kind of sink.
    #[error("{what}")]
    Mismatch {
        /// Which, and what to do.
        what: &'static str,
    },
    /// The object is larger than what takes it.
    #[error("the object has {length} bytes, more than the {limit} that {what} may have")]
    TooLarge {
        /// The object's bytes, or a lower bound of them.
        length: u64,
        /// How many there may be.
        limit: u64,
        /// What has the limit.
        what: &'static str,
    },
    /// The tree index of a directory is not valid: its sender is faulty or hostile.
    #[error("the directory's index is invalid: {0}; nothing was written outside the partial directory")]
    Tree(#[from] TreeError),
    /// The tree of the source breaks a limit of the format.
    #[error("cannot send {}: {source}", path.display())]
    TreeSource {
        /// The entry that breaks it.
        path: PathBuf,
        /// The limit.
        source: TreeError,
    },
    /// More data arrived ahead of a directory's index than is kept.
    #[error("{bytes} bytes arrived before the directory's index was complete; the sender is faulty")]
    IndexLate {
        /// Bytes that would have to be kept.
        bytes: u64,
    },
    /// The object should be generated data, and is not what its seed generates: its sender is faulty or hostile.
    #[error(
        "the sender's data is not what it announced: the piece at byte {offset} is not generated from seed {seed}; nothing of it was kept"
    )]
    NotGenerated {
        /// The seed that was announced.
        seed: u64,
        /// Where the piece begins that is not.
        offset: u64,
    },
    /// Bytes of the object are missing at its end.
    #[error("the object is incomplete: {stored} of {length} bytes are stored")]
    Incomplete {
        /// Bytes there.
        stored: u64,
        /// Bytes that the object has.
        length: u64,
    },
    /// A range reaches beyond the object.
    #[error("bytes {offset} to {end} are beyond the object's {length} bytes")]
    OutOfRange {
        /// First byte asked for.
        offset: u64,
        /// One past the last byte asked for.
        end: u64,
        /// Bytes of the object.
        length: u64,
    },
    /// The sink was abandoned, or the stream stopped, by this node itself.
    #[error("the transfer was stopped")]
    Stopped,
}

fn space(needed: Option<u64>, free: Option<u64>) -> String {
    match (needed, free) {
        (Some(needed), Some(free)) => format!(" ({needed} bytes needed, {free} free)"),
        (Some(needed), None) => format!(" ({needed} bytes needed)"),
        _ => String::new(),
    }
}

impl StoreError {
    /// Wraps the system's answer to `action` (a verb) on `path`; a full file system or an exhausted quota becomes
    /// [`StoreError::NoSpace`].
    pub fn io(action: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> StoreError {
        let (path, source) = (path.into(), source.into());
        match Errno::from_io_error(&source) {
            Some(Errno::NOSPC | Errno::DQUOT) => StoreError::NoSpace { path, needed: None, free: None },
            _ => StoreError::Io { action, path, source },
        }
    }

    /// Whether this machine's files are the reason (no space, permission, a destination in the way), so that other
    /// receivers need not care; as opposed to a changed source, a faulty sender, or a sink that was stopped.
    pub fn is_local_io(&self) -> bool {
        match self {
            StoreError::Io { .. }
            | StoreError::NoSpace { .. }
            | StoreError::Exists { .. }
            | StoreError::Conflict { .. }
            | StoreError::OtherFileSystem { .. }
            | StoreError::SameFile { .. }
            | StoreError::DeviceTooSmall { .. } => true,
            StoreError::Changed { .. }
            | StoreError::Unsupported { .. }
            | StoreError::NoName { .. }
            | StoreError::Mismatch { .. }
            | StoreError::TooLarge { .. }
            | StoreError::Tree(_)
            | StoreError::TreeSource { .. }
            | StoreError::IndexLate { .. }
            | StoreError::NotGenerated { .. }
            | StoreError::Incomplete { .. }
            | StoreError::OutOfRange { .. }
            | StoreError::Stopped => false,
        }
    }

    /// The same error once more, for a second thread that waits for the same thing. The system's answer is kept as
    /// its number, or as its kind if it has none.
    pub(crate) fn duplicate(&self) -> StoreError {
        match self {
            StoreError::Io { action, path, source } => {
                let source = match source.raw_os_error() {
                    Some(number) => io::Error::from_raw_os_error(number),
                    None => io::Error::new(source.kind(), source.to_string()),
                };
                StoreError::Io { action, path: path.clone(), source }
            }
            StoreError::NoSpace { path, needed, free } => {
                StoreError::NoSpace { path: path.clone(), needed: *needed, free: *free }
            }
            StoreError::TooLarge { length, limit, what } => {
                StoreError::TooLarge { length: *length, limit: *limit, what }
            }
            _ => StoreError::Stopped,
        }
    }

    /// Whether the other end of a pipe went away, which ends `mobcast recv - | head` like any other writer.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, StoreError::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// The path of an entry below `base`, for messages.
pub(crate) fn below(base: &Path, relative: &[u8]) -> PathBuf {
    if relative.is_empty() { base.to_owned() } else { base.join(OsStr::from_bytes(relative)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_quota_are_no_space() {
        for errno in [Errno::NOSPC, Errno::DQUOT] {
            let error = StoreError::io("write", "/x", errno);
            assert!(matches!(error, StoreError::NoSpace { .. }) && error.is_local_io());
        }
        let error = StoreError::io("read", "/x", Errno::ACCESS);
        assert_eq!(error.to_string(), "cannot read /x: Permission denied (os error 13)");
        assert!(error.is_local_io() && !error.is_broken_pipe());
    }

    #[test]
    fn a_message_tells_how_much_is_missing() {
        let error = StoreError::NoSpace { path: "/x".into(), needed: Some(10), free: Some(5) };
        assert!(error.to_string().contains("10 bytes needed, 5 free"));
    }
}
