//! The description of an object, which its root signs before anything else of it is sent.

use crate::units::{ByteRange, PieceIndex};

/// What kind of thing the object is; decides how a sink puts it down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectKind {
    /// One regular file (or the contents of a block device). The object hash is what `b3sum FILE` prints.
    File,
    /// A directory tree: a tree index, then the contents of its files one after the other.
    Directory,
    /// A memory buffer.
    Bytes,
    /// A stream whose length is unknown until its end.
    Stream,
    /// Generated data of [`crate::content::Descriptor::length`] bytes; only benchmarks and demonstrations send it.
    Synthetic {
        /// The seed from which every node can generate the same bytes.
        seed: u64,
    },
}

/// Permissions and time of last modification of a single file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileMeta {
    /// Permission bits (the lower 12 of `st_mode`).
    pub mode: u32,
    /// Seconds since 1970 of the last modification.
    pub modified_s: i64,
    /// Nanoseconds on top of `modified_s`.
    pub modified_ns: u32,
    /// Whether the source has holes, so that the sink may leave zeros out.
    pub sparse: bool,
}

/// What every node must know of an object before its first piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// What kind of thing it is.
    pub kind: ObjectKind,
    /// Last component of the source's path, as bytes (names need not be UTF-8); empty for memory and streams.
    pub name: Vec<u8>,
    /// Permissions and times, for a single file.
    pub meta: FileMeta,
    /// Bytes, where known beforehand (not of a stream). For a directory, the tree index is included.
    pub length: Option<u64>,
    /// Bytes of the tree index at the start of a directory's object; zero otherwise.
    pub index_length: u64,
    /// Bytes of a piece: a power of two.
    pub piece_size: u32,
    /// Name of the strategy by which all nodes exchange it.
    pub strategy: String,
}

impl Descriptor {
    /// Pieces of the whole object, where its length is known.
    pub fn piece_count(&self) -> Option<u32> {
        self.length.map(|length| piece_count(length, self.piece_size))
    }
}

/// Pieces of an object of `length` bytes; an empty object has none.
pub fn piece_count(length: u64, piece_size: u32) -> u32 {
    u32::try_from(length.div_ceil(u64::from(piece_size))).expect("objects are limited to PIECES_MAX pieces")
}

/// First byte of a piece within the object.
pub fn piece_offset(piece: PieceIndex, piece_size: u32) -> u64 {
    u64::from(piece.0) * u64::from(piece_size)
}

/// The bytes of a piece of an object of `length` bytes: all but the last have `piece_size`.
pub fn piece_range(piece: PieceIndex, length: u64, piece_size: u32) -> ByteRange {
    let rest = length.saturating_sub(piece_offset(piece, piece_size));
    ByteRange::whole(rest.min(u64::from(piece_size)) as u32)
}
