//! One file: written under a partial name beside its destination, with its space reserved, then renamed; or a block
//! device, written in place.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use mobcast_proto::content::{Descriptor, FileMeta, ObjectKind};
use rustix::fs::{self, AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use super::attributes::Restorer;
use super::target::Place;
use super::{Finished, Sink, SinkOptions};
use crate::store::StoreError;
use crate::store::beneath::{check_space, for_each_nonzero, modified, partial_name, permissions};
use crate::store::source::device_size;
use crate::store::stamp::Stamp;
use crate::store::{AtHand, is_in_memory};

/// A file or block device being received.
#[derive(Debug)]
pub(super) struct FileSink {
    file: File,
    /// Whether it has no disk behind it.
    in_memory: bool,
    path: PathBuf,
    /// Where it gets its name; a device has it already.
    partial: Option<Partial>,
    /// Whether blocks of zeros may be left out.
    sparse: bool,
    /// What it is like once it is finished; a device has nothing that tells.
    stamp: OnceLock<Stamp>,
}

#[derive(Debug)]
struct Partial {
    place: Place,
    name: Vec<u8>,
    /// Permissions and times to restore, if the source was a file.
    meta: Option<FileMeta>,
    restorer: Restorer,
    phase: Mutex<Phase>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Partial,
    Named,
    Abandoned,
}

impl FileSink {
    /// Makes the partial file beside `place` and reserves its space.
    pub(super) fn create(place: Place, descriptor: &Descriptor, options: &SinkOptions) -> Result<FileSink, StoreError> {
        let path = place.path.clone();
        let sparse = descriptor.meta.sparse;
        let length = descriptor.length.unwrap_or(0);
        check_space(&place.parent, &path, if sparse { 0 } else { length }, 1)?;
        let name = partial_name(&place.name);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file: File = fs::openat(&place.parent, &name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| StoreError::io("create", &path, error))?
            .into();
        let meta = (descriptor.kind == ObjectKind::File).then_some(descriptor.meta);
        let phase = Mutex::new(Phase::Partial);
        let partial = Some(Partial { place, name, meta, restorer: Restorer::new(options.preserve), phase });
        let (in_memory, stamp) = (is_in_memory(&file), OnceLock::new());
        let sink = FileSink { file, in_memory, path, partial, sparse, stamp };
        // From here on, an error must not leave the partial file.
        sink.reserve(length).inspect_err(|_| sink.abandon())?;
        Ok(sink)
    }

    /// A block device that is large enough and not in use.
    pub(super) fn device(path: PathBuf, descriptor: &Descriptor) -> Result<FileSink, StoreError> {
        // O_EXCL on a block device: refused while it is mounted.
        let file = File::options()
            .read(true)
            .write(true)
            .custom_flags(OFlags::EXCL.bits() as i32)
            .open(&path)
            .map_err(|error| StoreError::io("open for writing", &path, error))?;
        let (size, needed) = (device_size(&file, &path)?, descriptor.length.unwrap_or(0));
        if needed > size {
            return Err(StoreError::DeviceTooSmall { path, size, needed });
        }
        Ok(FileSink { file, in_memory: false, path, partial: None, sparse: false, stamp: OnceLock::new() })
    }

    /// A file with holes only gets its length; others get their blocks, so that a full disk is known at once. A tmpfs
    /// has no blocks: it would fetch every page now, which costs a fifth of writing it and makes that no cheaper.
    fn reserve(&self, length: u64) -> Result<(), StoreError> {
        let cannot = |error| StoreError::io("reserve the space of", &self.path, error);
        if length == 0 {
            return Ok(());
        }
        if !self.sparse && !self.in_memory {
            match fs::fallocate(&self.file, FallocateFlags::empty(), 0, length) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
                result => return result.map_err(cannot),
            }
        }
        fs::ftruncate(&self.file, length).map_err(cannot)
    }

    fn error(&self, action: &'static str, error: impl Into<std::io::Error>) -> StoreError {
        StoreError::io(action, &self.path, error)
    }

    /// Whether all attributes were kept.
    fn restore(&self, partial: &Partial, length: u64) -> Result<bool, StoreError> {
        let cannot = |error| self.error("set the attributes of", error);
        fs::ftruncate(&self.file, length).map_err(cannot)?;
        let kept = match partial.meta {
            None => partial.restorer.kept([fs::fchmod(&self.file, default_mode())]),
            Some(meta) => {
                // It comes without its owner, and another one's set-uid program is not to become this user's.
                let mode = fs::fchmod(&self.file, permissions(meta.mode, false));
                let times = fs::futimens(&self.file, &modified(meta.modified_s, meta.modified_ns));
                partial.restorer.kept([mode, times])
            }
        };
        kept.map_err(cannot)
    }
}

impl Partial {
    /// The one step after which the sink is not abandoned any more, or cannot be finished any more.
    fn name_it(&self) -> Result<(), StoreError> {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if *phase == Phase::Abandoned {
            return Err(StoreError::Stopped);
        }
        self.place.rename_from(&self.name)?;
        *phase = Phase::Named;
        Ok(())
    }

    fn remove(&self) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if *phase == Phase::Partial {
            *phase = Phase::Abandoned;
            // Nothing can be done if it fails: the name itself says what the file is.
            let _ = fs::unlinkat(self.place.parent.as_fd(), &self.name, AtFlags::empty());
        }
    }
}

impl Sink for FileSink {
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let write = |at: u64, run: &[u8]| self.file.write_all_at(run, at);
        let result = if self.sparse { for_each_nonzero(offset, data, write) } else { write(offset, data) };
        result.map_err(|error| self.error("write", error))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let read = self.file.read_exact_at(buf, offset).map_err(|error| self.error("read", error));
        // Its user has it by its name, and may do with it what he likes.
        self.stamp.get().map_or(Ok(()), |stamp| stamp.check(&self.file, || self.path.clone())).and(read)
    }

    fn seems_unchanged(&self) -> bool {
        self.stamp.get().is_none_or(|stamp| stamp.seems_kept(&self.file))
    }

    fn at_hand(&self) -> Option<AtHand<'_>> {
        Some(AtHand::File { file: self.file.as_fd(), in_memory: self.in_memory })
    }

    fn finish(&self, length: u64) -> Result<Finished, StoreError> {
        let kept = self.partial.as_ref().map_or(Ok(true), |partial| self.restore(partial, length))?;
        fs::fsync(&self.file).map_err(|error| self.error("sync", error))?;
        if let Some(partial) = &self.partial {
            let metadata = self.file.metadata().map_err(|error| self.error("read", error))?;
            self.stamp.get_or_init(|| Stamp::of(&metadata));
            partial.name_it()?;
            partial.place.sync()?;
        }
        Ok(Finished { path: Some(self.path.clone()), bytes: None, lost_attributes: !kept })
    }

    fn abandon(&self) {
        if let Some(partial) = &self.partial {
            partial.remove();
        }
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }
}

/// The mode of a file made by the user: what the process' umask leaves of 0666. The umask is read where reading
/// does not change it for other threads.
fn default_mode() -> Mode {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let umask = umask.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok()).unwrap_or(0o022);
    Mode::from_raw_mode(0o666 & !umask)
}
