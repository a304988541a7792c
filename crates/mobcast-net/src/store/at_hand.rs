//! Bytes that can be read at once, for callers that must not wait for a disk: from memory, from the page cache, and
//! generated ones.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, RwLockReadGuard};

use rustix::fs;
use rustix::io::{Errno, ReadWriteFlags, preadv, preadv2};

use super::synthetic_fill;

/// The type of a tmpfs, as `statfs` tells it (linux/magic.h).
const TMPFS_MAGIC: fs::FsWord = 0x0102_1994;

/// Where the bytes of an object are, if reading them need not take long.
#[derive(Debug)]
pub enum AtHand<'a> {
    /// In a file at the object's offsets, of which the page cache may have them.
    File {
        /// The file.
        file: BorrowedFd<'a>,
        /// See [`is_in_memory`].
        in_memory: bool,
    },
    /// In memory.
    Memory(&'a [u8]),
    /// In memory that is still written to.
    Filling(RwLockReadGuard<'a, Arc<Vec<u8>>>),
    /// They are made from this seed.
    Generated {
        /// See [`synthetic_fill`].
        seed: u64,
    },
}

impl<'a> AtHand<'a> {
    /// Fills `into` from byte `offset` of the object on. If that would have to wait, and for whatever else stands in the
    /// way, false: reading in the usual way then brings the bytes, or says why not.
    pub fn read(&self, offset: u64, into: &mut [IoSliceMut<'_>]) -> bool {
        match self {
            AtHand::File { file, in_memory } => read_cached(file, *in_memory, offset, into),
            AtHand::Memory(bytes) => copy(bytes, offset, into),
            AtHand::Filling(bytes) => copy(bytes, offset, into),
            AtHand::Generated { seed } => {
                let mut at = offset;
                for slice in into {
                    synthetic_fill(*seed, at, slice);
                    at += slice.len() as u64;
                }
                true
            }
        }
    }

    /// The file, if it is one.
    pub fn file(&self) -> Option<BorrowedFd<'a>> {
        if let AtHand::File { file, .. } = self { Some(*file) } else { None }
    }

    /// Whether it is a file that has no disk behind it.
    pub fn is_file_in_memory(&self) -> bool {
        matches!(self, AtHand::File { in_memory: true, .. })
    }
}

fn copy(bytes: &[u8], offset: u64, into: &mut [IoSliceMut<'_>]) -> bool {
    let Some(mut rest) = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)) else { return false };
    for slice in into {
        let Some((bytes, others)) = rest.split_at_checked(slice.len()) else { return false };
        slice.copy_from_slice(bytes);
        rest = others;
    }
    true
}

/// Whether a file has no disk behind it, so that reading it never waits for one. To be asked once: it stays so.
pub fn is_in_memory(file: impl AsFd) -> bool {
    fs::fstatfs(file).is_ok_and(|stat| stat.f_type == TMPFS_MAGIC)
}

fn read_cached(file: impl AsFd, in_memory: bool, offset: u64, into: &mut [IoSliceMut<'_>]) -> bool {
    let wanted: usize = into.iter().map(|slice| slice.len()).sum();
    let read = match preadv2(&file, into, offset, ReadWriteFlags::NOWAIT) {
        // A tmpfs does not know the flag, and has nothing to wait for.
        Err(Errno::OPNOTSUPP) if in_memory => preadv(&file, into, offset),
        read => read,
    };
    read == Ok(wanted)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::RwLock;

    use super::*;

    /// What two slices of three and two bytes get.
    fn read(at_hand: &AtHand<'_>, offset: u64) -> Option<[u8; 5]> {
        let mut got = [0; 5];
        let (first, second) = got.split_at_mut(3);
        at_hand.read(offset, &mut [IoSliceMut::new(first), IoSliceMut::new(second)]).then_some(got)
    }

    #[test]
    fn what_was_just_written_is_read_without_waiting_and_what_is_not_there_is_not() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"0123456789").expect("room");
        let filling = RwLock::new(Arc::new(b"0123456789".to_vec()));
        let kinds = [
            AtHand::File { file: file.as_fd(), in_memory: is_in_memory(&file) },
            AtHand::Memory(b"0123456789"),
            AtHand::Filling(filling.read().expect("nobody panicked")),
        ];
        for kind in kinds {
            assert_eq!(read(&kind, 4), Some(*b"45678"), "{kind:?}");
            assert_eq!(read(&kind, 5), Some(*b"56789"), "{kind:?}");
            assert_eq!(read(&kind, 6), None, "{kind:?}");
            assert_eq!(read(&kind, u64::MAX), None, "{kind:?}");
        }
    }

    #[test]
    fn what_can_be_made_again_is() {
        let mut whole = [0; 20];
        synthetic_fill(3, 0, &mut whole);
        assert_eq!(read(&AtHand::Generated { seed: 3 }, 11), whole[11..16].try_into().ok());
    }
}
