//! The rolling signed manifest (design: trust and integrity). The root hashes as it reads and signs batches of piece
//! hashes, which travel with the pieces; a receiver can verify and forward piece `i` before the root has read piece
//! `i + 1`. Each batch names the hash of the one before, the first names the descriptor's: nothing can be replayed,
//! spliced or cut short, and a stream is complete only with the signed final batch.

use std::sync::Arc;

use crate::content::object::{Descriptor, FileMeta, ObjectKind, piece_count};
use crate::limits::{BATCH_HASHES_MAX, NAME_BYTES_MAX, OBJECT_BYTES_MAX, PIECE_SIZE_MAX, PIECE_SIZE_MIN, PIECES_MAX};
use crate::units::{BroadcastId, Digest, GroupId, PieceIndex};
use crate::wire::codec::{DecodeError, Reader, Writer};

/// What a signature is made for; leads every signed message, so that no signature serves for another purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignatureDomain {
    /// The authority says which key a node has; it is also the delegation to be root.
    Credential,
    /// The authority gives a node its assignment.
    Assignment,
    /// The authority says that a broadcast is over and nodes may go.
    Release,
    /// The authority says that a broadcast's root is gone for good.
    RootLost,
    /// The authority says who is coordinator from now on.
    Succession,
    /// A root describes its object.
    Descriptor,
    /// A root vouches for the hashes of pieces.
    Batch,
    /// A root gives its broadcast up.
    Abort,
    /// A node reports to the coordinator.
    Report,
}

impl SignatureDomain {
    /// Whether it is about one broadcast, or what a member says of itself: where members trust each other, the link over which it comes
    /// vouches for it. Who is a member, and where it stands, is always signed.
    pub fn is_waived_by_trust(self) -> bool {
        match self {
            SignatureDomain::Release | SignatureDomain::RootLost | SignatureDomain::Descriptor => true,
            SignatureDomain::Batch | SignatureDomain::Abort | SignatureDomain::Report => true,
            SignatureDomain::Credential | SignatureDomain::Assignment | SignatureDomain::Succession => false,
        }
    }
}

/// The bytes that are signed for `domain` in `group`.
pub fn signed_message(domain: SignatureDomain, group: GroupId, body: &[u8]) -> Vec<u8> {
    let label = match domain {
        SignatureDomain::Credential => "mobcast 1 credential",
        SignatureDomain::Assignment => "mobcast 1 assignment",
        SignatureDomain::Release => "mobcast 1 release",
        SignatureDomain::RootLost => "mobcast 1 root lost",
        SignatureDomain::Succession => "mobcast 1 succession",
        SignatureDomain::Descriptor => "mobcast 1 descriptor",
        SignatureDomain::Batch => "mobcast 1 batch",
        SignatureDomain::Abort => "mobcast 1 abort",
        SignatureDomain::Report => "mobcast 1 report",
    };
    let mut w = Writer::new();
    w.string(label).raw(&group.0).raw(body);
    w.into_bytes()
}

/// BLAKE3 of a message.
pub fn digest(bytes: &[u8]) -> Digest {
    Digest(*blake3::hash(bytes).as_bytes())
}

/// Hashes of neighbouring pieces, as the root signs them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// The broadcast.
    pub broadcast: BroadcastId,
    /// Bytes of a piece.
    pub piece_size: u32,
    /// The piece of the first hash.
    pub first: PieceIndex,
    /// Digest of the batch before, or of the descriptor.
    pub previous: Digest,
    /// BLAKE3 chaining values of the pieces as subtrees of the object.
    pub hashes: Arc<[Digest]>,
    /// Set in the final batch.
    pub end: Option<End>,
}

/// How an object ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// Bytes of the whole object.
    pub length: u64,
    /// BLAKE3 of the whole object, as `b3sum` prints it for a single file.
    pub object_hash: Digest,
}

/// Why a batch does not continue a manifest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChainError {
    /// It does not start where the manifest ends, or names another predecessor.
    #[error("the manifest batch does not continue the chain")]
    NotNext,
    /// It follows the final batch.
    #[error("a manifest batch follows the final one")]
    AfterEnd,
    /// Its piece size is not the descriptor's.
    #[error("the manifest batch has another piece size than the object")]
    PieceSize,
    /// The number of hashes does not fit the length of the object.
    #[error("the manifest batch does not fit the length of the object")]
    Length,
}

impl Batch {
    /// Writes the batch; these bytes are what is signed and what the next batch names by digest.
    pub fn write(&self, w: &mut Writer) {
        w.broadcast(self.broadcast).u32(self.piece_size).piece(self.first).raw(&self.previous.0);
        w.list(&self.hashes, |w, hash| {
            w.raw(&hash.0);
        });
        w.option(self.end, |w, end| {
            w.u64(end.length).raw(&end.object_hash.0);
        });
    }

    /// The bytes of [`Batch::write`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut w = Writer::new();
        self.write(&mut w);
        w.into_bytes()
    }

    /// Reads what [`Batch::write`] wrote.
    pub fn read(r: &mut Reader<'_>) -> Result<Batch, DecodeError> {
        let broadcast = r.broadcast()?;
        let piece_size = r.u32()?;
        // The final batch of the longest object begins behind its last piece; the check below covers it.
        let first = PieceIndex(r.u32()?);
        let previous = r.digest()?;
        let hashes = r.list("hashes of a batch", BATCH_HASHES_MAX, Reader::digest)?;
        let end_piece = u64::from(first.0) + hashes.len() as u64;
        if end_piece > u64::from(PIECES_MAX) {
            return Err(DecodeError::Limit { what: "piece", value: end_piece, limit: u64::from(PIECES_MAX) });
        }
        let end = r.option(|r| Ok(End { length: r.u64()?, object_hash: r.digest()? }))?;
        if let Some(end) = end
            && end.length > OBJECT_BYTES_MAX
        {
            return Err(DecodeError::Limit { what: "object", value: end.length, limit: OBJECT_BYTES_MAX });
        }
        Ok(Batch { broadcast, piece_size, first, previous, hashes: hashes.into(), end })
    }
}

/// The part of the manifest that a node knows and has verified: hashes of a prefix of the pieces.
#[derive(Clone, Debug)]
pub struct Chain {
    piece_size: u32,
    pieces: u32,
    batches: u32,
    last: Digest,
    length_announced: Option<u64>,
    end: Option<End>,
}

impl Chain {
    /// A manifest of which only the descriptor is known.
    pub fn new(descriptor: &Descriptor) -> Chain {
        Chain {
            piece_size: descriptor.piece_size,
            pieces: 0,
            batches: 0,
            last: digest(&descriptor.to_bytes()),
            length_announced: descriptor.length,
            end: None,
        }
    }

    /// Pieces whose hashes are known.
    pub fn pieces(&self) -> u32 {
        self.pieces
    }

    /// Batches that were accepted.
    pub fn batches(&self) -> u32 {
        self.batches
    }

    /// Digest that the next batch must name.
    pub fn last(&self) -> Digest {
        self.last
    }

    /// How the object ends, once the final batch was accepted.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Appends a batch, given with its bytes. Its signature is the caller's business.
    pub fn accept(&mut self, batch: &Batch, bytes: &[u8]) -> Result<(), ChainError> {
        if self.end.is_some() {
            return Err(ChainError::AfterEnd);
        }
        if batch.piece_size != self.piece_size {
            return Err(ChainError::PieceSize);
        }
        let says_nothing = batch.hashes.is_empty() && batch.end.is_none();
        if batch.first.0 != self.pieces || batch.previous != self.last || says_nothing {
            return Err(ChainError::NotNext);
        }
        let pieces = self.pieces + batch.hashes.len() as u32;
        let announced = self.length_announced.map(|length| piece_count(length, self.piece_size));
        if announced.is_some_and(|announced| pieces > announced) {
            return Err(ChainError::Length);
        }
        if let Some(end) = batch.end {
            let announced_otherwise = self.length_announced.is_some_and(|length| length != end.length);
            if announced_otherwise || piece_count(end.length, self.piece_size) != pieces {
                return Err(ChainError::Length);
            }
        }
        self.pieces = pieces;
        self.batches += 1;
        self.last = digest(bytes);
        self.end = batch.end;
        Ok(())
    }
}

impl Descriptor {
    /// Writes the description; these bytes are what the root signs and what the first batch names by digest.
    pub fn write(&self, w: &mut Writer) {
        match self.kind {
            ObjectKind::File => w.u8(0),
            ObjectKind::Directory => w.u8(1),
            ObjectKind::Bytes => w.u8(2),
            ObjectKind::Stream => w.u8(3),
            ObjectKind::Synthetic { seed } => w.u8(4).u64(seed),
        };
        w.bytes(&self.name).u32(self.meta.mode).u64(self.meta.modified_s as u64).u32(self.meta.modified_ns);
        w.bool(self.meta.sparse);
        w.option(self.length, |w, length| {
            w.u64(length);
        });
        w.u64(self.index_length).u32(self.piece_size).string(&self.strategy);
    }

    /// The bytes of [`Descriptor::write`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut w = Writer::new();
        self.write(&mut w);
        w.into_bytes()
    }

    /// Reads and checks a description: lengths, piece size and number of pieces are within the limits.
    pub fn read(r: &mut Reader<'_>) -> Result<Descriptor, DecodeError> {
        let kind = match r.u8()? {
            0 => ObjectKind::File,
            1 => ObjectKind::Directory,
            2 => ObjectKind::Bytes,
            3 => ObjectKind::Stream,
            4 => ObjectKind::Synthetic { seed: r.u64()? },
            value => return Err(DecodeError::Unknown { what: "kind of object", value: u64::from(value) }),
        };
        let name = r.bytes("name of the object", NAME_BYTES_MAX)?.to_vec();
        let meta = FileMeta { mode: r.u32()?, modified_s: r.u64()? as i64, modified_ns: r.u32()?, sparse: r.bool()? };
        let length = r.option(Reader::u64)?;
        let index_length = r.u64()?;
        let piece_size = r.u32()?;
        let strategy = r.string("name of the strategy", 64)?;
        let descriptor = Descriptor { kind, name, meta, length, index_length, piece_size, strategy };
        descriptor.check().map(|()| descriptor)
    }

    fn check(&self) -> Result<(), DecodeError> {
        if !self.piece_size.is_power_of_two() || !(PIECE_SIZE_MIN..=PIECE_SIZE_MAX).contains(&self.piece_size) {
            return Err(DecodeError::Malformed("piece size"));
        }
        if self.meta.modified_ns >= 1_000_000_000 {
            return Err(DecodeError::Malformed("time of modification"));
        }
        let limit = u64::from(PIECES_MAX) * u64::from(self.piece_size);
        match self.length {
            Some(value) if value > limit => Err(DecodeError::Limit { what: "object", value, limit }),
            _ if self.index_length > 0 && self.kind != ObjectKind::Directory => {
                Err(DecodeError::Malformed("tree index of what is no tree"))
            }
            Some(length) if self.index_length > length => Err(DecodeError::Malformed("length of the tree index")),
            None if self.kind != ObjectKind::Stream => Err(DecodeError::Malformed("object without a length")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn descriptor(length: u64, piece_size: u32) -> Descriptor {
        Descriptor {
            kind: ObjectKind::File,
            name: b"weights.bin".to_vec(),
            meta: FileMeta { mode: 0o640, modified_s: -5, modified_ns: 7, sparse: true },
            length: Some(length),
            index_length: 0,
            piece_size,
            strategy: "mob".into(),
        }
    }

    fn batch(chain: &Chain, hashes: usize, end: Option<u64>) -> Batch {
        Batch {
            broadcast: BroadcastId::default(),
            piece_size: chain.piece_size,
            first: PieceIndex(chain.pieces()),
            previous: chain.last(),
            hashes: vec![Digest([7; 32]); hashes].into(),
            end: end.map(|length| End { length, object_hash: Digest([9; 32]) }),
        }
    }

    #[test]
    fn a_descriptor_travels() {
        let original = descriptor(100_000, 16 << 10);
        assert_eq!(Descriptor::read(&mut Reader::new(&original.to_bytes())).unwrap(), original);
    }

    #[test]
    fn a_descriptor_outside_the_limits_is_refused() {
        for bad in [
            Descriptor { piece_size: 48 << 10, ..descriptor(1, 16 << 10) },
            Descriptor { piece_size: 8 << 10, ..descriptor(1, 16 << 10) },
            descriptor(u64::from(PIECES_MAX) * (16 << 10) + 1, 16 << 10),
            Descriptor { index_length: 2, ..descriptor(1, 16 << 10) },
            Descriptor { length: None, ..descriptor(1, 16 << 10) },
            Descriptor {
                meta: FileMeta { modified_ns: 1_000_000_000, ..FileMeta::default() },
                ..descriptor(1, 16 << 10)
            },
            Descriptor { kind: ObjectKind::Stream, length: None, index_length: u64::MAX, ..descriptor(1, 16 << 10) },
        ] {
            assert!(Descriptor::read(&mut Reader::new(&bad.to_bytes())).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn batches_form_a_chain_that_ends_once() {
        let object = descriptor(50_000, 16 << 10);
        let mut chain = Chain::new(&object);
        let first = batch(&chain, 2, None);
        chain.accept(&first, &first.to_bytes()).unwrap();
        assert_eq!(chain.accept(&first, &first.to_bytes()), Err(ChainError::NotNext), "a replay");
        let short = batch(&chain, 1, Some(50_000));
        assert_eq!(chain.accept(&short, &short.to_bytes()), Err(ChainError::Length), "one piece is missing");
        let other = batch(&chain, 1, Some(49_000));
        assert_eq!(chain.accept(&other, &other.to_bytes()), Err(ChainError::Length), "not the announced length");
        let last = batch(&chain, 2, Some(50_000));
        chain.accept(&last, &last.to_bytes()).unwrap();
        assert_eq!((chain.pieces(), chain.batches(), chain.end().unwrap().length), (4, 2, 50_000));
        let after = batch(&chain, 1, None);
        assert_eq!(chain.accept(&after, &after.to_bytes()), Err(ChainError::AfterEnd));
    }

    #[test]
    fn no_batch_has_hashes_beyond_the_announced_length() {
        let mut chain = Chain::new(&descriptor(50_000, 16 << 10));
        let long = batch(&chain, 5, None);
        assert_eq!(chain.accept(&long, &long.to_bytes()), Err(ChainError::Length), "the object has four pieces");
        let all = batch(&chain, 4, None);
        chain.accept(&all, &all.to_bytes()).unwrap();
    }

    #[test]
    fn a_spliced_batch_is_refused() {
        let object = descriptor(50_000, 16 << 10);
        let mut chain = Chain::new(&object);
        let mut forged = batch(&chain, 2, None);
        forged.previous = Digest([1; 32]);
        assert_eq!(chain.accept(&forged, &forged.to_bytes()), Err(ChainError::NotNext));
    }

    #[test]
    fn a_signature_serves_one_purpose() {
        let group = GroupId([1; 16]);
        let one = signed_message(SignatureDomain::Batch, group, b"body");
        assert_ne!(one, signed_message(SignatureDomain::Abort, group, b"body"));
        assert_ne!(one, signed_message(SignatureDomain::Batch, GroupId([2; 16]), b"body"));
    }
}
