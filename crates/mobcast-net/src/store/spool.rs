//! An unnamed temporary file: gone when it is closed, however the process ends.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::beneath::{check_space, open_user_dir, partial_name};
use super::{AtHand, StoreError, is_in_memory};

/// Where spools go unless the user says otherwise: `TMPDIR`, else `/var/tmp`, which unlike `/tmp` is not memory.
pub fn default_spool_dir() -> PathBuf {
    match std::env::var_os("TMPDIR") {
        Some(dir) if !dir.is_empty() => dir.into(),
        _ if Path::new("/var/tmp").is_dir() => "/var/tmp".into(),
        _ => std::env::temp_dir(),
    }
}

/// A temporary file without a name, written and read at any offset by several threads.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    /// Whether it has no disk behind it.
    in_memory: bool,
    /// The directory whose file system holds it, for messages.
    dir: PathBuf,
}

impl Spool {
    /// Makes a spool in `dir`; refused at once if `length` bytes (where known) do not fit there.
    pub(crate) fn create(dir: &Path, length: Option<u64>) -> Result<Spool, StoreError> {
        let parent = open_user_dir(dir)?;
        check_space(&parent, dir, length.unwrap_or(0), 1)?;
        let fd =
            match fs::openat(&parent, ".", OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR) {
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => Self::create_unlinked(&parent),
                result => result,
            };
        let fd = fd.map_err(|error| StoreError::io("create a temporary file in", dir, error))?;
        Ok(Spool::new(fd, dir))
    }

    fn new(fd: OwnedFd, dir: &Path) -> Spool {
        Spool { in_memory: is_in_memory(&fd), file: File::from(fd), dir: dir.to_owned() }
    }

    /// For file systems without `O_TMPFILE`.
    fn create_unlinked(parent: &OwnedFd) -> Result<OwnedFd, Errno> {
        let name = partial_name(b"spool");
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = fs::openat(parent, &name, flags, Mode::RUSR | Mode::WUSR)?;
        fs::unlinkat(parent, &name, AtFlags::empty())?;
        Ok(fd)
    }

    pub(crate) fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        self.file.write_all_at(data, offset).map_err(|error| self.error("write a temporary file in", error))
    }

    pub(crate) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.file.read_exact_at(buf, offset).map_err(|error| self.error("read a temporary file in", error))
    }

    /// The file, for those who must not wait.
    pub(crate) fn at_hand(&self) -> AtHand<'_> {
        AtHand::File { file: self.file.as_fd(), in_memory: self.in_memory }
    }

    fn error(&self, action: &'static str, error: io::Error) -> StoreError {
        StoreError::io(action, &self.dir, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spool_has_no_name_and_keeps_its_bytes() {
        let dir = tempfile::tempdir().expect("tempdir");
        let parent = open_user_dir(dir.path()).expect("open");
        let unlinked = Spool::new(Spool::create_unlinked(&parent).expect("create"), dir.path());
        for spool in [Spool::create(dir.path(), Some(100)).expect("create"), unlinked] {
            spool.write_at(5, b"hello").expect("write");
            let mut buf = [9; 10];
            spool.read_at(0, &mut buf).expect("read");
            assert_eq!(&buf, b"\0\0\0\0\0hello");
            assert!(spool.read_at(8, &mut buf).is_err(), "beyond the end");
            assert_eq!(dir.path().read_dir().expect("list").count(), 0);
        }
    }

    #[test]
    fn what_cannot_fit_is_refused_at_once() {
        let dir = tempfile::tempdir().expect("tempdir");
        let error = Spool::create(dir.path(), Some(u64::MAX)).expect_err("too large");
        assert!(matches!(error, StoreError::NoSpace { .. }), "{error}");
        let error = Spool::create(&dir.path().join("none"), None).expect_err("no directory");
        assert!(error.to_string().contains("none"), "{error}");
    }
}
