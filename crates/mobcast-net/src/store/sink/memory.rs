//! Sinks that leave no file: bytes in memory, generated data that is dropped, and data held only for peers.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use super::{Finished, Sink};
use crate::store::spool::Spool;
use crate::store::synthetic::is_synthetic;
use crate::store::{AtHand, StoreError, synthetic_fill};

/// An object collected in memory.
#[derive(Debug)]
pub(super) struct BytesSink {
    data: RwLock<Arc<Vec<u8>>>,
    max: u64,
}

impl BytesSink {
    /// `length` bytes, where known; never more than `max`.
    pub(super) fn create(length: Option<u64>, max: u64) -> Result<BytesSink, StoreError> {
        let length = length.unwrap_or(0);
        check_max(length, max)?;
        Ok(BytesSink { data: RwLock::new(Arc::new(vec![0; length as usize])), max })
    }
}

fn check_max(length: u64, max: u64) -> Result<(), StoreError> {
    if length > max {
        return Err(StoreError::TooLarge { length, limit: max, what: "the memory buffer" });
    }
    Ok(())
}

impl Sink for BytesSink {
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let end = offset + data.len() as u64;
        check_max(end, self.max)?;
        let mut all = self.data.write().unwrap_or_else(PoisonError::into_inner);
        // Shared only once it is finished, and then nobody writes.
        let all = Arc::get_mut(&mut all).ok_or(StoreError::Stopped)?;
        if all.len() < end as usize {
            all.resize(end as usize, 0);
        }
        all[offset as usize..end as usize].copy_from_slice(data);
        Ok(())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let all = self.data.read().unwrap_or_else(PoisonError::into_inner);
        let (end, length) = (offset + buf.len() as u64, all.len() as u64);
        if end > length {
            return Err(StoreError::OutOfRange { offset, end, length });
        }
        buf.copy_from_slice(&all[offset as usize..end as usize]);
        Ok(())
    }

    fn at_hand(&self) -> Option<AtHand<'_>> {
        self.data.try_read().ok().map(AtHand::Filling)
    }

    fn finish(&self, _length: u64) -> Result<Finished, StoreError> {
        let all = self.data.read().unwrap_or_else(PoisonError::into_inner);
        Ok(Finished { bytes: Some(Arc::clone(&all)), ..Finished::default() })
    }

    fn abandon(&self) {}

    fn ends_at_once(&self) -> bool {
        true
    }
}

/// Generated data: any node can make it again from the seed. What peers are served is made again, so only what is the
/// same is taken.
#[derive(Debug)]
pub(super) struct DroppingSink {
    seed: u64,
}

impl DroppingSink {
    pub(super) fn new(seed: u64) -> DroppingSink {
        DroppingSink { seed }
    }
}

impl Sink for DroppingSink {
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let seed = self.seed;
        if is_synthetic(seed, offset, data) { Ok(()) } else { Err(StoreError::NotGenerated { seed, offset }) }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        synthetic_fill(self.seed, offset, buf);
        Ok(())
    }

    fn at_hand(&self) -> Option<AtHand<'_>> {
        Some(AtHand::Generated { seed: self.seed })
    }

    fn finish(&self, _length: u64) -> Result<Finished, StoreError> {
        Ok(Finished::default())
    }

    fn abandon(&self) {}

    fn ends_at_once(&self) -> bool {
        true
    }
}

/// Data that is only verified, held in a spool so that peers can be served.
#[derive(Debug)]
pub(super) struct HoldingSink {
    spool: Spool,
}

impl HoldingSink {
    pub(super) fn create(length: Option<u64>, spool_dir: &Path) -> Result<HoldingSink, StoreError> {
        Ok(HoldingSink { spool: Spool::create(spool_dir, length)? })
    }
}

impl Sink for HoldingSink {
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        self.spool.write_at(offset, data)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.spool.read_at(offset, buf)
    }

    fn at_hand(&self) -> Option<AtHand<'_>> {
        Some(self.spool.at_hand())
    }

    fn finish(&self, _length: u64) -> Result<Finished, StoreError> {
        Ok(Finished::default())
    }

    fn abandon(&self) {}

    fn ends_at_once(&self) -> bool {
        true
    }
}
