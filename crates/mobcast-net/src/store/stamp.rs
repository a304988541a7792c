//! Whether a file is as it was when peers were told of what is in it. If it is not, their piece would be wrong, and this node to
//! blame.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, StatxFlags, statx};

use super::StoreError;

/// Size of a file, and time of its last modification in seconds and nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    pub(super) size: u64,
    pub(super) modified: (i64, u32),
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Stamp {
        Stamp { size: metadata.size(), modified: (metadata.mtime(), metadata.mtime_nsec() as u32) }
    }

    /// [`StoreError::Changed`] if the file has another one; `path` is for the message.
    pub(super) fn check(&self, file: &File, path: impl FnOnce() -> PathBuf) -> Result<(), StoreError> {
        let found = match file.metadata() {
            Ok(metadata) => Stamp::of(&metadata),
            Err(error) => return Err(StoreError::io("read", path(), error)),
        };
        let what = if found.size != self.size {
            "its size is another"
        } else if found != *self {
            "it was written to"
        } else {
            return Ok(());
        };
        Err(StoreError::Changed { path: path(), what })
    }

    /// The same by what the system knows without asking a server. Where it cannot say, as if nothing had changed.
    pub(super) fn seems_kept(&self, file: &File) -> bool {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let Ok(stat) = statx(file, "", flags, StatxFlags::SIZE | StatxFlags::MTIME) else { return true };
        let modified = (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec);
        *self == Stamp { size: stat.stx_size, modified }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_file_that_is_written_to_has_another_stamp() {
        let file = tempfile::tempfile().expect("a file");
        let stamp = Stamp::of(&file.metadata().expect("stat"));
        let check = || stamp.check(&file, || "/it".into()).map_err(|error| error.to_string());
        assert!(check().is_ok() && stamp.seems_kept(&file));
        file.set_modified(SystemTime::now() + Duration::from_secs(1)).expect("set time");
        assert!(check().is_err_and(|error| error.contains("written to")) && !stamp.seems_kept(&file));
        file.write_all_at(b"x", 0).expect("room");
        assert!(check().is_err_and(|error| error.contains("size is another")) && !stamp.seems_kept(&file));
    }
}
