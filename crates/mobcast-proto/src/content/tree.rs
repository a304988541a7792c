//! The tree index of a directory object: what is in the tree, and where in the object the contents of its files are.
//!
//! A directory object is its encoded index, then the contents of all regular files in the order of the index,
//! without gaps. Decoding is total and believes nothing: a [`Tree`] that exists has only paths that stay beneath its
//! root, parents that are earlier directories (so nothing can be written through a link), no path twice, and sizes
//! that add up to the object's length.
//!
//! ```text
//! index = version (u8, 1) · count of entries (varint) · entries
//! entry = flags (u8) · bytes shared with the previous path (varint) · rest of the path (length, bytes)
//!         · [mode (varint)] · [uid (varint) · gid (varint)] · seconds since the previous entry's time (zigzag varint)
//!         · nanoseconds (varint) · file: size (varint) | link: target (length, bytes) | hard link: entry (varint)
//! flags = kind (bits 0 and 1) · sparse (2) · mode as in the previous entry of the kind (3) · owner as in the
//!         previous entry (4)
//! ```
//!
//! Entries are sorted by path, component by component, which makes duplicates visible and lets the parent of each be
//! found among the ancestors of the one before. Left to others: reading and writing files.

use std::ops::Range;

use crate::limits::OBJECT_BYTES_MAX;
use crate::wire::codec::{DecodeError, Reader, Writer};

mod build;
mod codec;

pub use build::TreeBuilder;
pub use codec::TreeDecoder;

/// Entries of one tree. The largest trees in use are data sets of some 14 million images; an entry takes about 100
/// bytes of memory, so that this limit is 1.6 GiB, and nothing is allocated before entries really arrive.
pub const TREE_ENTRIES_MAX: usize = 16 << 20;
/// Bytes of an encoded index: 128 for each of [`TREE_ENTRIES_MAX`] entries, where 30 are usual.
pub const TREE_INDEX_BYTES_MAX: u64 = 128 * TREE_ENTRIES_MAX as u64;
/// Bytes of a path below the root and of a link's target: Linux' `PATH_MAX` without the NUL that it counts.
pub const PATH_BYTES_MAX: usize = 4095;
/// Bytes of one component of a path: Linux' `NAME_MAX`.
pub const COMPONENT_BYTES_MAX: usize = 255;

/// What an entry of a tree is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file, whose contents are in the object.
    File {
        /// Bytes.
        size: u64,
        /// Whether the source has holes, so that zeros need not be written.
        sparse: bool,
    },
    /// A symbolic link. The target is data: kept verbatim, wherever it points, and never followed.
    Symlink {
        /// Where it points.
        target: Box<[u8]>,
    },
    /// Another name of a regular file of this tree.
    HardLink {
        /// The number of the earlier entry that is the file.
        target: u32,
    },
}

/// Permissions, owner and time of last modification of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attributes {
    /// Permission bits (the lower 12 of `st_mode`).
    pub mode: u32,
    /// Seconds since 1970 of the last modification.
    pub modified_s: i64,
    /// Nanoseconds on top of `modified_s`, below 10^9.
    pub modified_ns: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
}

/// One entry of a [`Tree`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeEntry {
    /// What it is.
    pub kind: EntryKind,
    /// Permissions, owner, time.
    pub attributes: Attributes,
    /// The entry of the directory that holds it; the root's is the root itself (0).
    pub parent: u32,
    /// Where its name begins in [`Tree::names`].
    name_start: u64,
    name_len: u8,
}

/// A part of one file that lies in a range of the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// The entry of the file.
    pub entry: u32,
    /// First byte within the file.
    pub file_offset: u64,
    /// First byte within the contents, that is, counted from the end of the index.
    pub content_offset: u64,
    /// Bytes.
    pub len: u64,
}

/// Why a tree index is not valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TreeError {
    /// The bytes are not an index.
    #[error("{0}")]
    Encoding(#[from] DecodeError),
    /// The index is of a version that this program does not know.
    #[error("version {0} is unknown; install the same mobcast on all machines")]
    Version(u8),
    /// The tree has too many entries.
    #[error("it has more than {TREE_ENTRIES_MAX} entries; send it in parts, or as a tar file")]
    TooManyEntries,
    /// The encoded index is too long.
    #[error("the index takes {0} bytes, more than {TREE_INDEX_BYTES_MAX}; send the tree in parts, or as a tar file")]
    TooLong(u64),
    /// An entry breaks a rule.
    #[error("entry {entry}: {problem}")]
    Entry {
        /// Its number.
        entry: u32,
        /// The rule.
        problem: EntryProblem,
    },
    /// The sizes of the files do not add up to the length of the object.
    #[error("its files add up to {sum} bytes but the object holds {length}")]
    Length {
        /// Bytes of all files.
        sum: u64,
        /// Bytes of the object behind the index.
        length: u64,
    },
}

/// Which rule an entry breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EntryProblem {
    /// The first entry, and only it, is the root: a directory with an empty path.
    #[error("the first entry, and only it, must be the root directory")]
    Root,
    /// The path starts with a slash.
    #[error("the path is absolute")]
    Absolute,
    /// A component is empty, `.` or `..`.
    #[error("the path has a component that is empty, `.` or `..`")]
    Component,
    /// The path or a link's target has a NUL byte.
    #[error("the path or link target has a NUL byte")]
    Nul,
    /// A component is too long.
    #[error("the path has a component of over {COMPONENT_BYTES_MAX} bytes")]
    ComponentLength,
    /// The path is too long.
    #[error("the path has over {PATH_BYTES_MAX} bytes")]
    PathLength,
    /// The path is not behind the previous one in the order of paths; a duplicate never is.
    #[error("the path is there twice or out of order")]
    Order,
    /// The parent is not an earlier directory of the tree.
    #[error("the parent is not a directory of the tree")]
    Parent,
    /// Mode or time are outside their range.
    #[error("the mode or the time is out of range")]
    Attributes,
    /// A symbolic link points nowhere or too far.
    #[error("the link target is empty or longer than {PATH_BYTES_MAX} bytes")]
    LinkTarget,
    /// A hard link's target is not an earlier regular file.
    #[error("the hard link's target is not an earlier regular file")]
    HardLinkTarget,
    /// The file, or all files together, are larger than an object may be.
    #[error("the files are larger than the {OBJECT_BYTES_MAX} bytes that an object may have")]
    Size,
}

/// A valid tree: entries sorted by path, the root first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tree {
    entries: Vec<TreeEntry>,
    /// The last components of all paths, one after the other; whole paths would take several times the memory.
    names: Vec<u8>,
    /// Files with contents, in order, and where their contents begin.
    content_entries: Vec<u32>,
    content_starts: Vec<u64>,
    content_length: u64,
}

impl Tree {
    /// Number of entries, the root included.
    pub fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Whether there is no entry; only the default value has none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all files: what follows the index in the object.
    pub fn content_length(&self) -> u64 {
        self.content_length
    }

    /// One entry, by its number.
    pub fn entry(&self, index: u32) -> &TreeEntry {
        &self.entries[index as usize]
    }

    /// All entries with their numbers, in order.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = (u32, &TreeEntry)> {
        self.entries.iter().enumerate().map(|(index, entry)| (index as u32, entry))
    }

    /// The last component of an entry's path; empty for the root.
    pub fn name(&self, index: u32) -> &[u8] {
        let entry = self.entry(index);
        let start = entry.name_start as usize;
        &self.names[start..start + usize::from(entry.name_len)]
    }

    /// An entry's path below the root, components separated by slashes; empty for the root.
    pub fn path(&self, index: u32) -> Vec<u8> {
        let mut chain = Vec::new();
        let mut at = index;
        while at != 0 {
            chain.push(at);
            at = self.entry(at).parent;
        }
        let names: Vec<&[u8]> = chain.iter().rev().map(|&entry| self.name(entry)).collect();
        names.join(&b'/')
    }

    /// The parts of files that lie in a range of the contents (byte 0 is the first behind the index), in order. What
    /// the range has beyond the contents is left out.
    pub fn segments(&self, range: Range<u64>) -> impl Iterator<Item = Segment> + '_ {
        // The last file that starts at or before the range; a range of no contents ends before the first.
        let first = self.content_starts.partition_point(|&start| start <= range.start).saturating_sub(1);
        (first..self.content_starts.len()).map_while(move |i| {
            let file_start = self.content_starts[i];
            let file_end = self.content_starts.get(i + 1).copied().unwrap_or(self.content_length);
            let (start, end) = (range.start.max(file_start), range.end.min(file_end));
            (start < end).then(|| Segment {
                entry: self.content_entries[i],
                file_offset: start - file_start,
                content_offset: start,
                len: end - start,
            })
        })
    }

    /// The index of a directory object.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// Reads the index of an object that has `content_length` bytes behind it.
    pub fn decode(index: &[u8], content_length: u64) -> Result<Tree, TreeError> {
        let mut decoder = TreeDecoder::new();
        decoder.feed(index)?;
        decoder.finish(content_length)
    }
}

#[cfg(test)]
mod tests;
