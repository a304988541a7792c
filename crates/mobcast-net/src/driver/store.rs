//! Where a broadcast's bytes are read to serve peers: the root's source, or a receiver's sink.

use std::sync::Arc;

use crate::store::{AtHand, ObjectSink, ObjectSource, StoreError, synthetic_fill};

const FILLER_SEED: u64 = 0;

/// Bytes of an object, by offset.
#[derive(Clone, Debug)]
pub enum Store {
    /// At the root.
    Source(Arc<ObjectSource>),
    /// At a receiver.
    Sink(Arc<ObjectSink>),
    /// Bytes without a meaning, which nobody on the way can make fewer: for measurements of links.
    Filler,
}

impl Store {
    /// Fills `buf` from byte `offset` of the object on. Blocks.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        match self {
            Store::Source(source) => source.serve_at(offset, buf),
            Store::Sink(sink) => sink.read_at(offset, buf),
            Store::Filler => {
                synthetic_fill(FILLER_SEED, offset, buf);
                Ok(())
            }
        }
    }

    /// The bytes, for those who must not wait; none if they may always have to.
    pub fn at_hand(&self) -> Option<AtHand<'_>> {
        match self {
            Store::Source(source) => source.at_hand(),
            Store::Sink(sink) => sink.at_hand(),
            Store::Filler => Some(AtHand::Generated { seed: FILLER_SEED }),
        }
    }

    /// Whether nothing is known by which what is at hand is not what its hashes say. Does not wait.
    pub fn seems_unchanged(&self) -> bool {
        match self {
            Store::Source(source) => source.seems_unchanged(),
            Store::Sink(sink) => sink.seems_unchanged(),
            Store::Filler => true,
        }
    }

    /// A store without a byte.
    #[cfg(test)]
    pub fn none() -> Store {
        Store::Source(Arc::new(ObjectSource::synthetic(0, 0).expect("nothing is not too long")))
    }
}
