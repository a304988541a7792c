//! Descriptions and chains of batches: a root that does what it likes, and signs it. The chain must take exactly what
//! continues it, and come to an end exactly once, with the number of pieces that the length asks for.

use arbitrary::{Result, Unstructured};
use mobcast_proto::content::manifest::{Batch, Chain, ChainError, End};
use mobcast_proto::content::object::{Descriptor, FileMeta, ObjectKind, piece_count};
use mobcast_proto::limits::{BATCH_HASHES_MAX, PIECES_MAX};
use mobcast_proto::wire::codec::Reader;
use mobcast_proto::{BroadcastId, Digest, PieceIndex};

/// A description and batches for it.
pub fn run(data: &[u8]) {
    let mut u = Unstructured::new(data);
    // Input that ends early has been fed as far as it goes.
    let _ = feed(&mut u);
}

fn feed(u: &mut Unstructured<'_>) -> Result<()> {
    let descriptor = descriptor(u)?;
    let bytes = descriptor.to_bytes();
    let Ok(read) = Descriptor::read(&mut Reader::new(&bytes)) else { return Ok(()) };
    assert_eq!(read, descriptor, "a description changes on its way");
    let mut chain = Chain::new(&descriptor);
    while !u.is_empty() {
        let batch = batch(u, &descriptor, &chain)?;
        let bytes = batch.to_bytes();
        let Ok(read) = Batch::read(&mut Reader::new(&bytes)) else { continue };
        assert_eq!(read, batch, "a batch changes on its way");
        let before = chain.clone();
        let outcome = chain.accept(&batch, &bytes);
        check(&descriptor, &before, &batch, &chain, outcome);
    }
    Ok(())
}

/// A description, most of the time a sound one. Numbers stay near the limits, where faults are.
pub fn descriptor(u: &mut Unstructured<'_>) -> Result<Descriptor> {
    let kind = match u.int_in_range(0..=5)? {
        0 => ObjectKind::Directory,
        1 => ObjectKind::Stream,
        2 => ObjectKind::Synthetic { seed: u.arbitrary()? },
        3 => ObjectKind::Bytes,
        _ => ObjectKind::File,
    };
    let piece_size = 1u32 << u.int_in_range(13..=25)?;
    let length = match u.int_in_range(0..=7)? {
        0 => u.arbitrary()?,
        1 => u64::from(PIECES_MAX) * u64::from(piece_size) - u64::from(u.arbitrary::<u8>()?),
        pieces => (pieces - 2) * u64::from(piece_size) + u64::from(u.arbitrary::<u16>()?),
    };
    Ok(Descriptor {
        kind,
        name: b"object".to_vec(),
        meta: FileMeta::default(),
        length: (kind != ObjectKind::Stream || u.ratio(1, 8)?).then_some(length),
        index_length: if kind == ObjectKind::Directory { u64::from(u.arbitrary::<u16>()?) } else { 0 },
        piece_size,
        strategy: "mob".into(),
    })
}

/// A batch that continues `chain`, with at most a few things wrong.
fn batch(u: &mut Unstructured<'_>, descriptor: &Descriptor, chain: &Chain) -> Result<Batch> {
    let wrong = u.arbitrary::<u8>()?;
    let is_wrong = |bit: u8| wrong & 0xc0 == 0xc0 && wrong >> bit & 1 == 1;
    let hashes = match u.int_in_range(0..=4)? {
        0 => BATCH_HASHES_MAX,
        1 => usize::from(u.arbitrary::<u16>()?) % (BATCH_HASHES_MAX + 2),
        few => few - 1,
    };
    let fitting = u64::from(chain.pieces()) + hashes as u64;
    let length = match u.int_in_range(0..=3)? {
        0 => u.arbitrary()?,
        1 => fitting * u64::from(descriptor.piece_size),
        _ => descriptor.length.unwrap_or(fitting.saturating_sub(1) * u64::from(descriptor.piece_size) + 1),
    };
    let end = if u.ratio(1, 4)? { Some(End { length, object_hash: Digest([9; 32]) }) } else { None };
    Ok(Batch {
        broadcast: BroadcastId::default(),
        piece_size: if is_wrong(0) { descriptor.piece_size / 2 } else { descriptor.piece_size },
        first: PieceIndex(if is_wrong(1) { u.arbitrary()? } else { chain.pieces() }),
        previous: if is_wrong(2) { Digest([1; 32]) } else { chain.last() },
        hashes: vec![Digest([7; 32]); hashes].into(),
        end,
    })
}

/// What the chain must do with a batch, said a second time in other words.
fn check(of: &Descriptor, before: &Chain, batch: &Batch, after: &Chain, outcome: std::result::Result<(), ChainError>) {
    let pieces = u64::from(before.pieces()) + batch.hashes.len() as u64;
    let continues = batch.first.0 == before.pieces() && batch.previous == before.last();
    let announced = of.length.map(|length| piece_count(length, of.piece_size));
    let ends_well = match batch.end {
        Some(end) => {
            of.length.is_none_or(|length| length == end.length)
                && u64::from(piece_count(end.length, of.piece_size)) == pieces
        }
        None => !batch.hashes.is_empty() && announced.is_none_or(|announced| pieces <= u64::from(announced)),
    };
    let right = before.end().is_none() && batch.piece_size == of.piece_size && continues && ends_well;
    assert_eq!(outcome.is_ok(), right, "{outcome:?}: {batch:?} behind {before:?} of {of:?}");
    if right {
        assert_eq!((u64::from(after.pieces()), after.batches()), (pieces, before.batches() + 1));
        assert_ne!(after.last(), before.last());
    } else {
        assert_eq!((after.pieces(), after.batches()), (before.pieces(), before.batches()));
        assert_eq!((after.last(), after.end()), (before.last(), before.end()));
    }
    assert!(after.pieces() <= PIECES_MAX, "{} pieces", after.pieces());
}
