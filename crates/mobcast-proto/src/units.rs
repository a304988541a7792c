//! Index, count and identity types. An index is not a count is not a size: each has its own type, so that the
//! compiler refuses to mix them.

use std::fmt;

/// A group: 128 random bits drawn by its creator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupId(pub [u8; 16]);

/// A node of a group. Given by the coordinator in the order of joining, never used twice; the coordinator that
/// founded the group is node 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u32);

/// A cluster of a group, numbered by the coordinator in the order of founding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ClusterId(pub u32);

/// A broadcast: its root and the root's own count of broadcasts. Needs no negotiation to be unique.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BroadcastId {
    /// The node whose object is broadcast.
    pub root: NodeId,
    /// Broadcasts that the root had started before.
    pub sequence: u32,
}

impl BroadcastId {
    /// Names filler where a broadcast is named: bytes without a meaning, by which a link is measured. No node has this number.
    pub const FILLER: BroadcastId = BroadcastId { root: NodeId(u32::MAX), sequence: u32::MAX };
}

/// A link of one node, numbered by that node; the two ends of a link number it independently.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LinkId(pub u32);

/// A piece of an object: byte `index * piece_size` onwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PieceIndex(pub u32);

impl PieceIndex {
    /// For indexing a `Vec` or a bit set.
    pub fn as_usize(self) -> usize {
        self.0 as usize
    }
}

/// A BLAKE3 value: of an object (as `b3sum` prints it), of a piece (a subtree's chaining value) or of a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Digest(pub [u8; 32]);

/// An Ed25519 public key (RFC 8032).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PublicKey(pub [u8; 32]);

/// An Ed25519 signature (RFC 8032).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature(pub [u8; 64]);

impl Signature {
    /// Stands where none is asked for, because members take each other's word.
    pub const WAIVED: Signature = Signature([0xff; 64]);
}

impl Default for Signature {
    fn default() -> Self {
        Signature([0; 64])
    }
}

/// A range of bytes within one piece.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ByteRange {
    /// First byte, counted from the start of the piece.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl ByteRange {
    /// The first `len` bytes of a piece.
    pub fn whole(len: u32) -> ByteRange {
        ByteRange { start: 0, end: len }
    }

    /// Bytes in the range.
    pub fn len(self) -> u32 {
        self.end - self.start
    }

    /// Whether the range holds no byte.
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

macro_rules! hex_display {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(f, &self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(f, &self.0)
            }
        }
    )*};
}
hex_display!(GroupId, Digest, PublicKey, Signature);

macro_rules! number_display {
    ($($name:ident $word:literal),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}
number_display!(NodeId "node", ClusterId "cluster", LinkId "link", PieceIndex "piece");

impl fmt::Display for BroadcastId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broadcast {}.{}", self.root.0, self.sequence)
    }
}

impl fmt::Debug for BroadcastId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
