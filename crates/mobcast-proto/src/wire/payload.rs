//! The header of a chunk of payload. The chunk itself follows outside of all frames, so that it can be read straight
//! into its place.

use crate::limits::{CHUNK_BYTES_MAX, PIECE_SIZE_MAX};
use crate::units::{BroadcastId, ByteRange, PieceIndex};
use crate::wire::codec::{DecodeError, Reader, Writer};

/// The type byte of a payload header, where control frames have theirs.
pub const PAYLOAD_TYPE: u8 = 0xf0;
/// Bytes of an encoded header, type byte included.
pub const PAYLOAD_HEADER_BYTES: usize = 22;

/// Says which bytes follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PayloadHeader {
    /// The broadcast.
    pub broadcast: BroadcastId,
    /// The piece.
    pub piece: PieceIndex,
    /// The bytes of the piece: at most [`CHUNK_BYTES_MAX`] of them, at least one.
    pub range: ByteRange,
    /// Whether they follow in the clear, outside the encrypted records.
    pub plain: bool,
}

impl PayloadHeader {
    /// The header as bytes.
    pub fn encode(&self) -> [u8; PAYLOAD_HEADER_BYTES] {
        let mut w = Writer::new();
        w.u8(PAYLOAD_TYPE).broadcast(self.broadcast).piece(self.piece);
        w.u32(self.range.start).u32(self.range.len()).bool(self.plain);
        w.into_bytes().try_into().expect("the fields of a header have fixed lengths")
    }

    /// Reads what [`PayloadHeader::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<PayloadHeader, DecodeError> {
        let mut r = Reader::new(bytes);
        let value = r.u8()?;
        if value != PAYLOAD_TYPE {
            return Err(DecodeError::Unknown { what: "payload header", value: u64::from(value) });
        }
        let (broadcast, piece) = (r.broadcast()?, r.piece()?);
        let (start, len) = (r.u32()?, r.u32()?);
        let plain = r.bool()?;
        r.end()?;
        if len == 0 || len > CHUNK_BYTES_MAX {
            let limit = u64::from(CHUNK_BYTES_MAX);
            return Err(DecodeError::Limit { what: "chunk", value: u64::from(len), limit });
        }
        if start > PIECE_SIZE_MAX - len {
            let limit = u64::from(PIECE_SIZE_MAX);
            return Err(DecodeError::Limit { what: "offset in a piece", value: u64::from(start), limit });
        }
        Ok(PayloadHeader { broadcast, piece, range: ByteRange { start, end: start + len }, plain })
    }
}
