//! What a receiver writes an object to, and serves it to its peers from.
//!
//! Promises: pieces may come in any order from several threads; what was written can be read back at once; the
//! destination's name appears when [`ObjectSink::finish`] has everything on disk, and not before; an abandoned sink
//! leaves nothing behind. Left to others: verifying, deciding which pieces to fetch, and fetching the pieces of a
//! directory's tree index before the rest.
//!
//! | destination | object | what happens |
//! |---|---|---|
//! | none | any with a name | goes to its own name in the current directory |
//! | does not exist | any | gets that name; its parent must exist |
//! | an existing file | not a directory | refused, or replaced atomically by force |
//! | an existing directory | not a directory | goes to the object's name in it |
//! | an empty directory | a directory | is filled, like `git clone` does |
//! | another existing directory | a directory | refused, or merged by force: files of the object replace those of the same path, everything else stays |
//! | a block device | not a directory | is written in place |
//! | a character device or named pipe | not a directory | is written in order |
//!
//! So a directory's destination is always the name that the tree will have, whether it exists or not and with or
//! without force, and the same command run twice never puts a tree into its own copy.

use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mobcast_proto::content::{Descriptor, ObjectKind};
use mobcast_proto::limits::OBJECT_BYTES_MAX;

use super::{AtHand, StoreError, default_spool_dir};

mod attributes;
mod directory;
mod early;
mod file;
mod index;
mod memory;
mod merge;
mod syncfs;
mod target;
mod writer;

use directory::DirectorySink;
use file::FileSink;
use memory::{BytesSink, DroppingSink, HoldingSink};
use target::Destination;
use writer::WriterSink;

/// Where an object goes.
pub enum SinkTarget {
    /// To a path, by the rules at the top of this module; without one, to the object's own name in the current
    /// directory.
    Path(Option<PathBuf>),
    /// Into memory, if it has at most this many bytes.
    Bytes {
        /// Most bytes taken.
        max: u64,
    },
    /// In order to a pipe or the like. What arrives out of order waits in an unnamed temporary file, which keeps
    /// everything, as peers are served from it.
    Writer(Box<dyn Write + Send>),
    /// Nowhere: generated data is dropped and generated again for peers; anything else is held for them in an
    /// unnamed temporary file.
    Verify,
}

/// How an object is put down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SinkOptions {
    /// Replace existing files, and merge into an existing directory.
    pub force: bool,
    /// Keep set-uid, set-gid and sticky bits within a directory, and, when run as root, the numeric owners; fail where the
    /// destination does not keep modes or times.
    pub preserve: bool,
    /// Directory for unnamed temporary files.
    pub spool_dir: PathBuf,
}

impl Default for SinkOptions {
    fn default() -> SinkOptions {
        SinkOptions { force: false, preserve: false, spool_dir: default_spool_dir() }
    }
}

/// What a finished sink leaves.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Finished {
    /// The destination, if it is a path, and no named pipe or character device.
    pub path: Option<PathBuf>,
    /// The object, if it was collected in memory.
    pub bytes: Option<Arc<Vec<u8>>>,
    /// Whether the destination's file system has not kept all modes and times.
    pub lost_attributes: bool,
}

/// What each kind of sink does. Offsets are within the object, checked by [`ObjectSink`].
trait Sink: Send + Sync {
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), StoreError>;
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError>;
    /// All `length` bytes are written.
    fn finish(&self, length: u64) -> Result<Finished, StoreError>;
    /// Nothing partial may be left; never called after a successful `finish`.
    fn abandon(&self);
    /// Where the bytes are at the object's offsets, if they can be read without waiting.
    fn at_hand(&self) -> Option<AtHand<'_>> {
        None
    }
    /// Whether nothing is known by which what is at hand has changed since `finish`. Does not wait.
    fn seems_unchanged(&self) -> bool {
        true
    }
    /// Whether `finish` and `abandon` wait for nothing.
    fn ends_at_once(&self) -> bool {
        false
    }
    fn drain_ready(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
    fn is_in_order(&self) -> bool {
        false
    }
    fn path(&self) -> Option<&Path> {
        None
    }
}

/// A sink of any kind. Shared between threads by reference; dropping it unfinished abandons it.
pub struct ObjectSink {
    sink: Box<dyn Sink>,
    /// Bytes of the object, where known.
    length: Option<u64>,
    stored: AtomicU64,
    finished: AtomicBool,
    abandoned: AtomicBool,
}

impl ObjectSink {
    /// Prepares a place for the object of `descriptor`. What can be known beforehand is refused here, before
    /// anything is written: an existing destination, too little space, a name that is none.
    pub fn open(target: SinkTarget, descriptor: &Descriptor, options: &SinkOptions) -> Result<ObjectSink, StoreError> {
        let length = descriptor.length;
        if length.unwrap_or(0) > OBJECT_BYTES_MAX || descriptor.index_length > length.unwrap_or(0) {
            let length = length.unwrap_or(0).max(descriptor.index_length);
            return Err(StoreError::TooLarge { length, limit: OBJECT_BYTES_MAX, what: "object" });
        }
        let is_directory = descriptor.kind == ObjectKind::Directory;
        let sink: Box<dyn Sink> = match target {
            SinkTarget::Path(path) if is_directory => {
                Box::new(DirectorySink::create(path.as_deref(), descriptor, options)?)
            }
            SinkTarget::Path(path) => open_path(path.as_deref(), descriptor, options)?,
            SinkTarget::Bytes { .. } | SinkTarget::Writer(_) if is_directory => {
                let what = "the object is a directory, which has no form as one stream; give a destination path";
                return Err(StoreError::Mismatch { what });
            }
            SinkTarget::Bytes { max } => Box::new(BytesSink::create(length, max)?),
            SinkTarget::Writer(writer) => {
                Box::new(WriterSink::create(writer, "standard output".into(), length, &options.spool_dir)?)
            }
            SinkTarget::Verify => match descriptor.kind {
                ObjectKind::Synthetic { seed } => Box::new(DroppingSink::new(seed)),
                _ => Box::new(HoldingSink::create(length, &options.spool_dir)?),
            },
        };
        let (stored, finished, abandoned) = Default::default();
        Ok(ObjectSink { sink, length, stored, finished, abandoned })
    }

    fn check_range(&self, offset: u64, len: usize) -> Result<(), StoreError> {
        let length = self.length.unwrap_or(OBJECT_BYTES_MAX);
        let end = offset.saturating_add(len as u64);
        if end > length { Err(StoreError::OutOfRange { offset, end, length }) } else { Ok(()) }
    }

    /// Puts down verified bytes of the object at `offset`. Each byte is given once. Callers wait for each other only until the
    /// index of a directory is complete and its directories are made.
    /// [`StoreError::Tree`] means that the sender of a directory is faulty or hostile.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        self.check_range(offset, data.len())?;
        if self.abandoned.load(Ordering::Acquire) {
            return Err(StoreError::Stopped);
        }
        self.sink.write_at(offset, data)?;
        self.stored.fetch_add(data.len() as u64, Ordering::AcqRel);
        Ok(())
    }

    /// Reads back bytes that were written, also after [`ObjectSink::finish`]: [`StoreError::Changed`] if they come from a file
    /// that somebody has changed since. What was not written reads as anything or as an error.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.check_range(offset, buf.len())?;
        self.sink.read_at(offset, buf)
    }

    /// What was written, at the object's offsets, for those who must not wait; none for a directory, and for memory while
    /// somebody writes to it.
    pub fn at_hand(&self) -> Option<AtHand<'_>> {
        self.sink.at_hand()
    }

    /// Whether nothing is known by which what is at hand has changed since it was finished; for those who must not wait.
    pub fn seems_unchanged(&self) -> bool {
        self.sink.seems_unchanged()
    }

    /// Writes out what has arrived without a gap, if the sink is a pipe; a no-op for others. Blocks as long as the
    /// pipe does, so it wants a thread of its own, called after writes. Returns the bytes written out so far.
    pub fn drain_ready(&self) -> Result<u64, StoreError> {
        self.sink.drain_ready()
    }

    /// Whether it is a pipe, so that [`ObjectSink::drain_ready`] has to be called.
    pub fn is_in_order(&self) -> bool {
        self.sink.is_in_order()
    }

    /// Bytes written so far.
    pub fn stored(&self) -> u64 {
        self.stored.load(Ordering::Acquire)
    }

    /// The destination, if it is a path, and no named pipe or character device: where the object will be once it is finished.
    pub fn path(&self) -> Option<&Path> {
        self.sink.path()
    }

    /// Completes an object of `length` bytes, all written: puts them on disk, restores modes and times where there is a place for
    /// them, and gives the result its name. Called once, when no write is under way. After an error, abandon the sink.
    pub fn finish(&self, length: u64) -> Result<Finished, StoreError> {
        if self.abandoned.load(Ordering::Acquire) {
            return Err(StoreError::Stopped);
        }
        let stored = self.stored();
        if stored != length || self.length.is_some_and(|known| known != length) {
            return Err(StoreError::Incomplete { stored, length: self.length.unwrap_or(length) });
        }
        let finished = self.sink.finish(length)?;
        self.finished.store(true, Ordering::Release);
        Ok(finished)
    }

    /// Whether [`ObjectSink::finish`] and [`ObjectSink::abandon`] wait for no disk, so that they need no thread.
    pub fn ends_at_once(&self) -> bool {
        self.sink.ends_at_once()
    }

    /// Gives the object up: removes all partial state, and lets writes under way fail. Blocks for as long as that takes,
    /// for a large tree seconds, unless it [ends at once](ObjectSink::ends_at_once). Does nothing to a finished sink. A `finish` under way on another thread ends with
    /// [`StoreError::Stopped`], unless it already has the result in its place, or is merging it into a directory: that is waited for.
    pub fn abandon(&self) {
        if !self.finished.load(Ordering::Acquire) && !self.abandoned.swap(true, Ordering::AcqRel) {
            self.sink.abandon();
        }
    }
}

impl Drop for ObjectSink {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl SinkTarget {
    /// Whether an object can be given a place there without waiting for a disk.
    pub fn opens_at_once(&self) -> bool {
        matches!(self, SinkTarget::Bytes { .. })
    }

    /// Whether it is a named pipe, which is opened only when somebody reads it, or a device like a serial line, which may wait for
    /// whoever is at the other end.
    pub fn waits_for_reader(&self) -> bool {
        let SinkTarget::Path(Some(path)) = self else { return false };
        let waits = |file_type: std::fs::FileType| file_type.is_fifo() || file_type.is_char_device();
        std::fs::metadata(path).is_ok_and(|metadata| waits(metadata.file_type()))
    }
}

impl std::fmt::Debug for ObjectSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectSink").field("path", &self.path()).field("length", &self.length).finish_non_exhaustive()
    }
}

/// A sink for anything but a directory at a path.
fn open_path(path: Option<&Path>, descriptor: &Descriptor, options: &SinkOptions) -> Result<Box<dyn Sink>, StoreError> {
    match Destination::of_file(path, &descriptor.name, options.force)? {
        Destination::Place(place) => Ok(Box::new(FileSink::create(place, descriptor, options)?)),
        Destination::Device(path) => Ok(Box::new(FileSink::device(path, descriptor)?)),
        Destination::Pipe(path) => {
            let pipe = std::fs::OpenOptions::new()
                .write(true)
                .open(&path)
                .map_err(|error| StoreError::io("open for writing", &path, error))?;
            let length = descriptor.length;
            Ok(Box::new(WriterSink::create(Box::new(pipe), path, length, &options.spool_dir)?))
        }
    }
}
