//! Reading and writing the primitive values of frames. Reading is total: every byte string gives a value or a named
//! error, and nothing is allocated for a length that the input does not really have.

use crate::limits::PIECES_MAX;
use crate::units::{BroadcastId, ClusterId, Digest, GroupId, NodeId, PieceIndex, PublicKey, Signature};

/// Values of a list for which there is place before they are read: they may be much longer in memory than on the wire.
const LIST_AT_ONCE: usize = 64;

/// Why a byte string is not a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// The input ends before the value does.
    #[error("the frame ends {0} bytes early")]
    Short(usize),
    /// Bytes are left over behind the last value.
    #[error("{0} bytes too many at the end of the frame")]
    Long(usize),
    /// A number that stands for a kind is none of the known ones.
    #[error("unknown {what} {value}")]
    Unknown {
        /// What the number stands for.
        what: &'static str,
        /// The number.
        value: u64,
    },
    /// A value is outside the limits of the protocol.
    #[error("{what} of {value} is beyond the limit of {limit}")]
    Limit {
        /// What is too large.
        what: &'static str,
        /// How large it claims to be.
        value: u64,
        /// How large it may be.
        limit: u64,
    },
    /// A value that has a fixed form does not have it.
    #[error("malformed {0}")]
    Malformed(&'static str),
}

/// Reads values from a byte string, front to back.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        if len > self.rest.len() {
            return Err(DecodeError::Short(len - self.rest.len()));
        }
        let (head, tail) = self.rest.split_at(len);
        self.rest = tail;
        Ok(head)
    }

    /// Everything that is left.
    pub fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        Ok(self.take(N)?.try_into().expect("take returns what it was asked for"))
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes, big-endian, like all fixed numbers here.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// A byte that is 0 or 1.
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(DecodeError::Unknown { what: "truth value", value: u64::from(value) }),
        }
    }

    /// A number in LEB128 (seven bits a byte, low ones first), in its shortest form.
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(DecodeError::Malformed("number of over 64 bits"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                if byte == 0 && shift > 0 {
                    return Err(DecodeError::Malformed("number with padding"));
                }
                return Ok(value);
            }
        }
        Err(DecodeError::Malformed("number of over 64 bits"))
    }

    /// A varint that counts something, of which there may be at most `limit`.
    pub fn count(&mut self, what: &'static str, limit: usize) -> Result<usize, DecodeError> {
        let value = self.varint()?;
        if value > limit as u64 {
            return Err(DecodeError::Limit { what, value, limit: limit as u64 });
        }
        Ok(value as usize)
    }

    /// A varint below 2^32.
    pub fn varint_u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        let value = self.varint()?;
        u32::try_from(value).map_err(|_| DecodeError::Limit { what, value, limit: u64::from(u32::MAX) })
    }

    /// A length, then as many bytes, at most `limit`.
    pub fn bytes(&mut self, what: &'static str, limit: usize) -> Result<&'a [u8], DecodeError> {
        let len = self.count(what, limit)?;
        self.take(len)
    }

    /// A length, then as many bytes of UTF-8, at most `limit`.
    pub fn string(&mut self, what: &'static str, limit: usize) -> Result<String, DecodeError> {
        let bytes = self.bytes(what, limit)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| DecodeError::Malformed(what))
    }

    /// A flag, then the value if the flag is set.
    pub fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        if self.bool()? { read(self).map(Some) } else { Ok(None) }
    }

    /// A count of at most `limit`, then as many values.
    pub fn list<T>(
        &mut self,
        what: &'static str,
        limit: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.count(what, limit)?;
        // Each value takes at least a byte, so a count beyond the input is refused before it is allocated.
        if count > self.remaining() {
            return Err(DecodeError::Short(count - self.remaining()));
        }
        let mut values = Vec::with_capacity(count.min(LIST_AT_ONCE));
        for _ in 0..count {
            values.push(read(self)?);
        }
        values.shrink_to_fit();
        Ok(values)
    }

    /// A group.
    pub fn group(&mut self) -> Result<GroupId, DecodeError> {
        self.array().map(GroupId)
    }

    /// A node.
    pub fn node(&mut self) -> Result<NodeId, DecodeError> {
        self.u32().map(NodeId)
    }

    /// A cluster.
    pub fn cluster(&mut self) -> Result<ClusterId, DecodeError> {
        self.u32().map(ClusterId)
    }

    /// A broadcast.
    pub fn broadcast(&mut self) -> Result<BroadcastId, DecodeError> {
        Ok(BroadcastId { root: self.node()?, sequence: self.u32()? })
    }

    /// A piece: no object has one at [`PIECES_MAX`] or beyond.
    pub fn piece(&mut self) -> Result<PieceIndex, DecodeError> {
        let value = self.u32()?;
        if value >= PIECES_MAX {
            return Err(DecodeError::Limit { what: "piece", value: value.into(), limit: PIECES_MAX.into() });
        }
        Ok(PieceIndex(value))
    }

    /// A BLAKE3 value.
    pub fn digest(&mut self) -> Result<Digest, DecodeError> {
        self.array().map(Digest)
    }

    /// A public key.
    pub fn public_key(&mut self) -> Result<PublicKey, DecodeError> {
        self.array().map(PublicKey)
    }

    /// A signature.
    pub fn signature(&mut self) -> Result<Signature, DecodeError> {
        self.array().map(Signature)
    }

    /// Nothing may be left.
    pub fn end(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Long(self.rest.len())) }
    }
}

/// Writes values to a byte string, the counterpart of [`Reader`].
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty byte string.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// An empty byte string with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Writer {
        Writer { bytes: Vec::with_capacity(bytes) }
    }

    /// What was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.raw(&[value])
    }

    /// Two bytes, big-endian.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Four bytes.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Eight bytes.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// A byte that is 0 or 1.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.u8(u8::from(value))
    }

    /// LEB128.
    pub fn varint(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8)
    }

    /// A length, then the bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.varint(bytes.len() as u64).raw(bytes)
    }

    /// A length, then the text.
    pub fn string(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    /// A flag, then the value if there is one.
    pub fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) -> &mut Self {
        self.bool(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
        self
    }

    /// A count, then the values.
    pub fn list<T>(&mut self, values: &[T], mut write: impl FnMut(&mut Self, &T)) -> &mut Self {
        self.varint(values.len() as u64);
        values.iter().for_each(|value| write(self, value));
        self
    }

    /// A node.
    pub fn node(&mut self, node: NodeId) -> &mut Self {
        self.u32(node.0)
    }

    /// A cluster.
    pub fn cluster(&mut self, cluster: ClusterId) -> &mut Self {
        self.u32(cluster.0)
    }

    /// A broadcast.
    pub fn broadcast(&mut self, broadcast: BroadcastId) -> &mut Self {
        self.node(broadcast.root).u32(broadcast.sequence)
    }

    /// A piece.
    pub fn piece(&mut self, piece: PieceIndex) -> &mut Self {
        self.u32(piece.0)
    }
}
