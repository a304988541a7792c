//! Reading what is in memory already: for callers that must not wait for a disk.

use std::io::IoSliceMut;
use std::os::fd::AsFd;

use rustix::fs;
use rustix::io::{Errno, ReadWriteFlags, preadv, preadv2};

/// The type of a tmpfs, as `statfs` tells it (linux/magic.h).
const TMPFS_MAGIC: fs::FsWord = 0x0102_1994;

/// Whether a file has no disk behind it, so that reading it never waits for one.
pub fn is_in_memory(file: impl AsFd) -> bool {
    fs::fstatfs(file).is_ok_and(|stat| stat.f_type == TMPFS_MAGIC)
}

/// Fills `into` from byte `offset` of `file` on, if the page cache has all of it. Otherwise, and for whatever else
/// stands in the way, false: reading in the usual way then brings it, or says why not.
pub fn read_cached(file: impl AsFd, offset: u64, into: &mut [IoSliceMut<'_>]) -> bool {
    let wanted: usize = into.iter().map(|slice| slice.len()).sum();
    let read = match preadv2(&file, into, offset, ReadWriteFlags::NOWAIT) {
        // A tmpfs does not know the flag, and has nothing to wait for.
        Err(Errno::OPNOTSUPP) if is_in_memory(&file) => preadv(&file, into, offset),
        read => read,
    };
    read == Ok(wanted)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_was_just_written_is_read_without_waiting_and_what_is_not_there_is_not() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"0123456789").expect("room");
        let (mut first, mut second) = ([0; 3], [0; 2]);
        assert!(read_cached(&file, 4, &mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)]));
        assert_eq!((&first, &second), (b"456", b"78"));
        assert!(!read_cached(&file, 6, &mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)]));
    }
}
