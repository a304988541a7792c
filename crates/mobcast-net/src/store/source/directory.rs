//! A directory as a source: its tree index, then the contents of its files, which are opened as they are needed.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mobcast_proto::content::tree::{EntryKind, Segment, TREE_INDEX_BYTES_MAX, Tree, TreeEntry, TreeError};
use mobcast_proto::content::{FileMeta, ObjectKind};
use rustix::fs::{self, AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::scan::{Scan, scan};
use super::{Data, SourceDescription, read_exact};
use crate::store::StoreError;
use crate::store::beneath::{HandleCache, open_beneath};
use crate::store::error::below;

/// Files of at least this many bytes are read in several steps, so their handles are worth keeping.
const CACHED_FILE_BYTES: u64 = 64 << 10;
/// Handles kept: a few threads each in a file of its own.
const CACHED_FILES: usize = 16;

/// A scanned directory.
#[derive(Debug)]
pub(super) struct DirectorySource {
    root: OwnedFd,
    /// The root's path, for messages.
    base: PathBuf,
    tree: Tree,
    index: Vec<u8>,
    files: HandleCache,
}

impl DirectorySource {
    pub(super) fn open(path: &Path, root: OwnedFd, name: Vec<u8>) -> Result<(SourceDescription, Data), StoreError> {
        let Scan { tree, sparse } = scan(&root, path)?;
        let index = tree.encode();
        let index_length = index.len() as u64;
        if index_length > TREE_INDEX_BYTES_MAX {
            let source = TreeError::TooLong(index_length);
            return Err(StoreError::TreeSource { path: path.to_owned(), source });
        }
        let attributes = tree.entry(0).attributes;
        let description = SourceDescription {
            kind: ObjectKind::Directory,
            name,
            meta: FileMeta {
                mode: attributes.mode,
                modified_s: attributes.modified_s,
                modified_ns: attributes.modified_ns,
                sparse,
            },
            length: Some(index_length + tree.content_length()),
            index_length,
        };
        let files = HandleCache::new(CACHED_FILES);
        let source = DirectorySource { root, base: path.to_owned(), tree, index, files };
        Ok((description, Data::Directory(source)))
    }

    pub(super) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let index_length = self.index.len() as u64;
        let from_index = index_length.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (index_part, contents) = buf.split_at_mut(from_index);
        if !index_part.is_empty() {
            index_part.copy_from_slice(&self.index[offset as usize..offset as usize + from_index]);
        }
        let start = (offset + from_index as u64).saturating_sub(index_length);
        for segment in self.tree.segments(start..start + contents.len() as u64) {
            let at = (segment.content_offset - start) as usize;
            self.read_segment(segment, &mut contents[at..at + segment.len as usize])?;
        }
        Ok(())
    }

    fn read_segment(&self, segment: Segment, buf: &mut [u8]) -> Result<(), StoreError> {
        let path = self.tree.path(segment.entry);
        let shown = || below(&self.base, &path);
        let open = || open_beneath(&self.root, &path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
        let is_small = size_of(self.tree.entry(segment.entry)) < CACHED_FILE_BYTES;
        let handle = if is_small { open().map(|fd| Arc::new(fd.into())) } else { self.files.get(segment.entry, open) };
        let handle = handle.map_err(|error| match error {
            Errno::NOENT => StoreError::Changed { path: shown(), what: "it was removed" },
            Errno::LOOP | Errno::NOTDIR => StoreError::Changed { path: shown(), what: "it was replaced" },
            _ => StoreError::io("read", shown(), error),
        })?;
        read_exact(&handle, segment.file_offset, buf, shown)?;
        // Peers may have been told a hash of what was there before. Their piece would be wrong, and this node to blame.
        let stat = fs::fstat(&*handle).map_err(|error| StoreError::io("read", shown(), error))?;
        check_stat(&stat, self.tree.entry(segment.entry), shown)
    }

    /// Whether files without contents still have none. The others were compared when they were read: asking for each of a million
    /// once more would take a file server minutes.
    pub(super) fn check_unchanged(&self) -> Result<(), StoreError> {
        let is_empty = |(_, entry): &(u32, &TreeEntry)| matches!(entry.kind, EntryKind::File { size: 0, .. });
        self.tree.entries().filter(is_empty).try_for_each(|(index, entry)| self.check_entry(index, entry))
    }

    fn check_entry(&self, index: u32, entry: &TreeEntry) -> Result<(), StoreError> {
        let path = self.tree.path(index);
        let shown = || below(&self.base, &path);
        let stat = match fs::statat(&self.root, &path, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT | Errno::NOTDIR) => {
                return Err(StoreError::Changed { path: shown(), what: "it was removed" });
            }
            result => result.map_err(|error| StoreError::io("read", shown(), error))?,
        };
        check_stat(&stat, entry, shown)
    }
}

/// Whether a file is as it was when it was scanned.
fn check_stat(stat: &Stat, entry: &TreeEntry, path: impl FnOnce() -> PathBuf) -> Result<(), StoreError> {
    let modified = (stat.st_mtime, stat.st_mtime_nsec as u32);
    let what = if stat.st_size as u64 != size_of(entry) {
        "its size is another"
    } else if modified != (entry.attributes.modified_s, entry.attributes.modified_ns) {
        "it was written to"
    } else {
        return Ok(());
    };
    Err(StoreError::Changed { path: path(), what })
}

fn size_of(entry: &TreeEntry) -> u64 {
    if let EntryKind::File { size, .. } = entry.kind { size } else { 0 }
}
