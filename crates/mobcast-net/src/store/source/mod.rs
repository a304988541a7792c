//! What a root reads: the bytes of an object by offset, from several threads at once.
//!
//! Promises: reading follows no link inside a directory; a source that changed while it was read is found out by reading it or by
//! [`ObjectSource::check_unchanged`]. Left to others: cutting into pieces, hashing, signing.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use mobcast_proto::content::{Descriptor, FileMeta, ObjectKind};
use mobcast_proto::limits::OBJECT_BYTES_MAX;
use rustix::fs::{FileType, FsWord, OFlags, SeekFrom, fstatfs, seek};

use super::stamp::Stamp;
use super::{AtHand, StoreError, is_in_memory, synthetic_fill};

mod directory;
mod scan;
mod stream;

use directory::DirectorySource;
use stream::StreamSpool;
pub use stream::{Available, StreamFeeder};

/// File systems that say where files have holes: ext2 to ext4, xfs, btrfs, f2fs, bcachefs, zfs, tmpfs, and overlayfs, which asks the one below
/// (linux/magic.h; that of zfs is its own).
const TELL_OF_HOLES: [FsWord; 8] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0xca45_1a4e, 0x2fc1_2fc1, 0x0102_1994, 0x794c_7630];

/// What a source knows of its object; piece size and strategy are chosen by others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceDescription {
    /// What kind of thing it is.
    pub kind: ObjectKind,
    /// Last component of its path; empty for memory, generated data and streams.
    pub name: Vec<u8>,
    /// Permissions and times of a file, or of the root of a directory. `sparse` is set if any file has holes.
    pub meta: FileMeta,
    /// Bytes, unless it is a stream. The tree index of a directory is included.
    pub length: Option<u64>,
    /// Bytes of the tree index of a directory, else zero.
    pub index_length: u64,
}

impl SourceDescription {
    /// The object's descriptor. `piece_size` is in bytes.
    pub fn into_descriptor(self, piece_size: u32, strategy: &str) -> Descriptor {
        let SourceDescription { kind, name, meta, length, index_length } = self;
        Descriptor { kind, name, meta, length, index_length, piece_size, strategy: strategy.to_owned() }
    }
}

/// A source of any kind. Shared between threads by reference.
#[derive(Debug)]
pub struct ObjectSource {
    description: SourceDescription,
    data: Data,
}

/// A stream that nobody will send is not read on.
impl Drop for ObjectSource {
    fn drop(&mut self) {
        self.stop();
    }
}

#[derive(Debug)]
enum Data {
    File(FileSource),
    Directory(DirectorySource),
    Bytes(Arc<[u8]>),
    Synthetic { seed: u64 },
    Stream(Arc<StreamSpool>),
}

impl ObjectSource {
    /// The regular file, block device or directory at `path`; a link is followed here, but none inside of a
    /// directory. A directory is scanned completely: what cannot be read or sent is an error that names it.
    pub fn open(path: &Path) -> Result<ObjectSource, StoreError> {
        let cannot_read = |error: std::io::Error| StoreError::io("read", path, error);
        // O_NONBLOCK: opening a FIFO would otherwise wait for its writer.
        let flags = OFlags::NONBLOCK.bits() as i32;
        let file =
            File::options().read(true).custom_flags(flags).open(path).map_err(|error| {
                special_file(path, std::fs::metadata(path).ok()).unwrap_or_else(|| cannot_read(error))
            })?;
        let metadata = file.metadata().map_err(cannot_read)?;
        let name = name_of(path);
        let (description, data) = match FileType::from_raw_mode(metadata.mode()) {
            FileType::RegularFile => FileSource::regular(path, file, name, &metadata)?,
            FileType::BlockDevice => FileSource::device(path, file, name)?,
            FileType::Directory => DirectorySource::open(path, file.into(), name)?,
            _ => return Err(special_file(path, Some(metadata)).unwrap_or(StoreError::Stopped)),
        };
        check_length(description.length.unwrap_or(0), "object")?;
        Ok(ObjectSource { description, data })
    }

    /// Bytes in memory.
    pub fn bytes(data: Arc<[u8]>) -> Result<ObjectSource, StoreError> {
        check_length(data.len() as u64, "object")?;
        let description = unnamed(ObjectKind::Bytes, Some(data.len() as u64));
        Ok(ObjectSource { description, data: Data::Bytes(data) })
    }

    /// `length` bytes generated from `seed` (see [`synthetic_fill`]).
    pub fn synthetic(length: u64, seed: u64) -> Result<ObjectSource, StoreError> {
        check_length(length, "object")?;
        let description = unnamed(ObjectKind::Synthetic { seed }, Some(length));
        Ok(ObjectSource { description, data: Data::Synthetic { seed } })
    }

    /// A stream of unknown length, kept in an unnamed temporary file in `spool_dir`, so that it can be larger than
    /// memory. The feeder reads the stream; its `run` wants a thread of its own.
    pub fn stream(spool_dir: &Path) -> Result<(ObjectSource, StreamFeeder), StoreError> {
        let spool = StreamSpool::create(spool_dir)?;
        let description = unnamed(ObjectKind::Stream, None);
        let feeder = StreamFeeder::new(Arc::clone(&spool));
        Ok((ObjectSource { description, data: Data::Stream(spool) }, feeder))
    }

    /// Whether reading it waits for no disk, pipe or stream.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.data, Data::Bytes(_) | Data::Synthetic { .. })
    }

    /// What is known of the object.
    pub fn description(&self) -> &SourceDescription {
        &self.description
    }

    /// Fills `buf` from byte `offset` of the object on. Of a stream, only bytes that are [`available`] can be read.
    ///
    /// [`available`]: ObjectSource::available
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let length = self.available()?.bytes;
        let end = offset.saturating_add(buf.len() as u64);
        if end > length {
            return Err(StoreError::OutOfRange { offset, end, length });
        }
        match &self.data {
            Data::File(file) => file.read_at(offset, buf),
            Data::Directory(directory) => directory.read_at(offset, buf),
            Data::Bytes(bytes) => {
                buf.copy_from_slice(&bytes[offset as usize..end as usize]);
                Ok(())
            }
            Data::Synthetic { seed } => {
                synthetic_fill(*seed, offset, buf);
                Ok(())
            }
            Data::Stream(spool) => spool.read_at(offset, buf),
        }
    }

    /// As [`ObjectSource::read_at`], for peers, who were told a hash of these bytes before: [`StoreError::Changed`] if they come from a
    /// file that was changed since it was opened or scanned, as they may be others.
    pub fn serve_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.read_at(offset, buf)?;
        match &self.data {
            Data::File(file) => file.check_unchanged(),
            // It looks at each file that it reads.
            Data::Directory(_) | Data::Bytes(_) | Data::Synthetic { .. } | Data::Stream(_) => Ok(()),
        }
    }

    /// Whether nothing is known by which what is at hand has changed since; for those who must not wait.
    pub fn seems_unchanged(&self) -> bool {
        match &self.data {
            Data::File(file) => file.seems_unchanged(),
            Data::Directory(_) | Data::Bytes(_) | Data::Synthetic { .. } | Data::Stream(_) => true,
        }
    }

    /// The bytes at the object's offsets, for those who must not wait; none for a directory. Of a stream, only bytes that are
    /// [`available`] may be read.
    ///
    /// [`available`]: ObjectSource::available
    pub fn at_hand(&self) -> Option<AtHand<'_>> {
        match &self.data {
            Data::File(source) => Some(AtHand::File { file: source.file.as_fd(), in_memory: source.in_memory }),
            Data::Bytes(bytes) => Some(AtHand::Memory(bytes)),
            Data::Synthetic { seed } => Some(AtHand::Generated { seed: *seed }),
            Data::Stream(spool) => Some(spool.at_hand()),
            Data::Directory(_) => None,
        }
    }

    /// How much can be read now. Everything, unless it is a stream; an error if the stream could not be read.
    pub fn available(&self) -> Result<Available, StoreError> {
        match (&self.data, self.description.length) {
            (Data::Stream(spool), _) => spool.available(),
            (_, length) => Ok(Available { bytes: length.unwrap_or(0), complete: true }),
        }
    }

    /// Waits until the first `end` bytes can be read or the stream has ended before them. Returns at once for
    /// anything but a stream, and with [`StoreError::Stopped`] after [`ObjectSource::stop`].
    pub fn wait_available(&self, end: u64) -> Result<Available, StoreError> {
        match &self.data {
            Data::Stream(spool) => spool.wait_available(end),
            _ => self.available(),
        }
    }

    /// Ends all waiting for a stream. A feeder that is blocked in reading notices at its next byte.
    pub fn stop(&self) {
        if let Data::Stream(spool) = &self.data {
            spool.stop();
        }
    }

    /// Whether files still have the size and time of last modification (in nanoseconds) of when they were opened or
    /// scanned; called when everything has been read once. Of a directory the empty files are compared, as the others were when they
    /// were read; entries added since are not looked for. [`StoreError::Changed`] names the first that changed.
    pub fn check_unchanged(&self) -> Result<(), StoreError> {
        match &self.data {
            Data::File(file) => file.check_unchanged(),
            Data::Directory(directory) => directory.check_unchanged(),
            Data::Bytes(_) | Data::Synthetic { .. } | Data::Stream(_) => Ok(()),
        }
    }
}

fn unnamed(kind: ObjectKind, length: Option<u64>) -> SourceDescription {
    SourceDescription { kind, name: Vec::new(), meta: FileMeta::default(), length, index_length: 0 }
}

fn check_length(length: u64, what: &'static str) -> Result<(), StoreError> {
    if length > OBJECT_BYTES_MAX {
        return Err(StoreError::TooLarge { length, limit: OBJECT_BYTES_MAX, what });
    }
    Ok(())
}

/// The last component of a path, also of one like `.` or `x/..`; empty for the root of the file system.
fn name_of(path: &Path) -> Vec<u8> {
    let plain = path.file_name().map(|name| name.as_bytes().to_owned());
    plain.or_else(|| path.canonicalize().ok()?.file_name().map(|name| name.as_bytes().to_owned())).unwrap_or_default()
}

/// The refusal of what is neither file, directory nor block device.
fn special_file(path: &Path, metadata: Option<std::fs::Metadata>) -> Option<StoreError> {
    let what = special_kind(FileType::from_raw_mode(metadata?.mode()))?;
    Some(only_as_a_stream(path, &format!("it is a {what}")))
}

fn only_as_a_stream(path: &Path, why: &str) -> StoreError {
    let what = format!("{why}; to send what comes out of it, use - and redirect it to standard input");
    StoreError::Unsupported { path: path.to_owned(), what }
}

/// What a special file is called, if it is one.
fn special_kind(file_type: FileType) -> Option<&'static str> {
    match file_type {
        FileType::Socket => Some("socket"),
        FileType::Fifo => Some("named pipe"),
        FileType::CharacterDevice => Some("character device"),
        FileType::BlockDevice => Some("block device"),
        FileType::RegularFile | FileType::Directory | FileType::Symlink => None,
        FileType::Unknown => Some("file of unknown kind"),
    }
}

/// A regular file or a block device.
#[derive(Debug)]
struct FileSource {
    file: File,
    /// Whether it has no disk behind it.
    in_memory: bool,
    path: PathBuf,
    /// Size and time of last modification when it was opened; a device has no such time.
    stamp: Option<Stamp>,
}

impl FileSource {
    fn regular(
        path: &Path,
        file: File,
        name: Vec<u8>,
        metadata: &std::fs::Metadata,
    ) -> Result<(SourceDescription, Data), StoreError> {
        // What the kernel makes up as it is read has no size before that.
        let has_bytes = |file: &File| file.read_at(&mut [0], 0).map_err(|error| StoreError::io("read", path, error));
        if metadata.size() == 0 && has_bytes(&file)? > 0 {
            return Err(only_as_a_stream(path, "it has contents and no size, as files of /proc do"));
        }
        let meta = FileMeta {
            mode: metadata.mode() & 0o7777,
            modified_s: metadata.mtime(),
            modified_ns: metadata.mtime_nsec() as u32,
            sparse: has_few_blocks(metadata.blocks(), metadata.size())
                && (!tells_of_holes(&file) || has_holes(&file, metadata.size())),
        };
        let (kind, length) = (ObjectKind::File, Some(metadata.size()));
        let stamp = Some(Stamp::of(metadata));
        let data = Data::File(FileSource { in_memory: is_in_memory(&file), file, path: path.to_owned(), stamp });
        Ok((SourceDescription { kind, name, meta, length, index_length: 0 }, data))
    }

    fn device(path: &Path, file: File, name: Vec<u8>) -> Result<(SourceDescription, Data), StoreError> {
        let length = device_size(&file, path)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // The image of a disk is its owner's business alone, whatever the modes of the device are.
        let meta = FileMeta { mode: 0o600, modified_s: now.as_secs() as i64, modified_ns: 0, sparse: false };
        let data = Data::File(FileSource { file, in_memory: false, path: path.to_owned(), stamp: None });
        let kind = ObjectKind::File;
        Ok((SourceDescription { kind, name, meta, length: Some(length), index_length: 0 }, data))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        read_exact(&self.file, offset, buf, || self.path.clone())
    }

    /// As `check_unchanged`, by what the system knows without asking a server. Where it cannot say, as if nothing had changed.
    fn seems_unchanged(&self) -> bool {
        self.stamp.is_none_or(|stamp| stamp.seems_kept(&self.file))
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        self.stamp.map_or(Ok(()), |stamp| stamp.check(&self.file, || self.path.clone()))
    }
}

/// Whether a file has fewer blocks (of 512 bytes) than bytes: it has holes, or its file system compresses it or has not put it on disk yet.
fn has_few_blocks(blocks: u64, size: u64) -> bool {
    blocks * 512 < size
}

/// Whether a file with few blocks has holes, on a file system that [tells of them](tells_of_holes).
fn has_holes(file: impl AsFd, size: u64) -> bool {
    seek(file, SeekFrom::Hole(0)).map_or(true, |hole| hole < size)
}

/// Whether a file system says where a file has holes. Others, among them those of networks and user space, may say of any file that its first
/// hole is at the end: there, few blocks count as holes.
fn tells_of_holes(on: impl AsFd) -> bool {
    fstatfs(on).is_ok_and(|stat| TELL_OF_HOLES.contains(&stat.f_type))
}

/// Bytes of a block device, which its metadata does not tell.
pub(crate) fn device_size(file: &File, path: &Path) -> Result<u64, StoreError> {
    seek(file, SeekFrom::End(0)).map_err(|error| StoreError::io("find the size of", path, error))
}

/// Reads what a file was found to have; less means that it was truncated since.
fn read_exact(file: &File, offset: u64, buf: &mut [u8], path: impl FnOnce() -> PathBuf) -> Result<(), StoreError> {
    file.read_exact_at(buf, offset).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => StoreError::Changed { path: path(), what: "it was truncated" },
        _ => StoreError::io("read", path(), error),
    })
}

#[cfg(test)]
mod tests;
