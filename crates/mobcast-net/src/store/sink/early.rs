//! Contents of a directory that come before its index is complete, so that nobody knows which file they belong to: a
//! little in memory, usually the rest of the index' last piece, and the others in an unnamed temporary file.

use std::ops::Range;
use std::path::PathBuf;

use crate::store::StoreError;
use crate::store::spool::Spool;

/// Contents held in memory, bytes: a piece of the usual size.
const MEMORY_BYTES_MAX: u64 = 1 << 20;
/// Bytes taken from the spool at once.
const STEP: u64 = 1 << 20;

/// What came early, by the ranges in which it came. Offsets are within the contents.
#[derive(Debug)]
pub(super) struct EarlyContents {
    spool_dir: PathBuf,
    memory: Vec<(u64, Vec<u8>)>,
    memory_bytes: u64,
    spool: Option<Spool>,
    spooled: Vec<Range<u64>>,
}

impl EarlyContents {
    pub(super) fn new(spool_dir: PathBuf) -> EarlyContents {
        let (memory, spooled) = Default::default();
        EarlyContents { spool_dir, memory, memory_bytes: 0, spool: None, spooled }
    }

    pub(super) fn add(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let len = data.len() as u64;
        if self.memory_bytes + len <= MEMORY_BYTES_MAX {
            self.memory_bytes += len;
            self.memory.push((offset, data.to_owned()));
            return Ok(());
        }
        let spool = match &mut self.spool {
            Some(spool) => spool,
            none => none.insert(Spool::create(&self.spool_dir, None)?),
        };
        spool.write_at(offset, data)?;
        self.spooled.push(offset..offset + len);
        Ok(())
    }

    /// Bytes that came in one range; an error if they did not.
    pub(super) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let end = offset + buf.len() as u64;
        let held = self.memory.iter().find(|(start, data)| *start <= offset && end <= start + data.len() as u64);
        if let Some((start, data)) = held {
            let at = (offset - start) as usize;
            buf.copy_from_slice(&data[at..at + buf.len()]);
            return Ok(());
        }
        match &self.spool {
            Some(spool) if self.spooled.iter().any(|range| range.start <= offset && end <= range.end) => {
                spool.read_at(offset, buf)
            }
            _ if buf.is_empty() => Ok(()),
            _ => Err(StoreError::OutOfRange { offset, end, length: self.memory_bytes }),
        }
    }

    /// Gives everything to `write`, in parts.
    pub(super) fn for_each(
        &self,
        mut write: impl FnMut(u64, &[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.memory.iter().try_for_each(|(offset, data)| write(*offset, data))?;
        let Some(spool) = &self.spool else { return Ok(()) };
        let mut buf = Vec::new();
        for range in &self.spooled {
            let mut at = range.start;
            while at < range.end {
                buf.resize((range.end - at).min(STEP) as usize, 0);
                spool.read_at(at, &mut buf)?;
                write(at, &buf)?;
                at += buf.len() as u64;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_is_read_back_from_memory_and_spool() {
        let dir = tempfile::tempdir().expect("tempdir");
        let mut early = EarlyContents::new(dir.path().to_owned());
        let data: Vec<u8> = (0..5 * STEP + 7).map(|i| (i / 999) as u8).collect();
        let ranges = [10..2000, STEP..4 * STEP + 5, 4 * STEP + 5..5 * STEP + 7];
        let part = |range: &Range<u64>| &data[range.start as usize..range.end as usize];
        ranges.iter().for_each(|range| early.add(range.start, part(range)).expect("room"));
        assert_eq!((early.memory.len(), early.spooled.len()), (1, 2), "only the small one is in memory");
        for range in &ranges {
            let mut buf = vec![0; (range.end - range.start) as usize - 1];
            early.read_at(range.start + 1, &mut buf).expect("it came");
            assert_eq!(buf, part(range)[1..]);
        }
        assert!(early.read_at(3000, &mut [0; 1]).is_err(), "it did not come");
        let (mut copy, mut total) = (vec![0; data.len()], 0);
        let copied = early.for_each(|offset, run| {
            copy[offset as usize..offset as usize + run.len()].copy_from_slice(run);
            total += run.len() as u64;
            Ok(())
        });
        copied.expect("nothing fails");
        assert!(ranges.iter().all(|range| copy[range.start as usize..range.end as usize] == *part(range)));
        assert_eq!(total, ranges.iter().map(|range| range.end - range.start).sum::<u64>());
    }
}
