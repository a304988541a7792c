//! Restoring modes, times and owners of the entries of a tree.

use std::fs::File;

use mobcast_proto::content::tree::Attributes;
use rustix::fs::{self, AtFlags, Gid, Uid};
use rustix::io::Errno;

use crate::store::beneath::{modified, permissions};

/// What of the attributes is restored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restorer {
    /// Set-uid, set-gid and sticky bits; and what cannot be restored is an error.
    preserve: bool,
    /// Owners, which only root can give away.
    owners: bool,
    /// Whether modes do not bind this process.
    pub(super) is_root: bool,
}

impl Restorer {
    pub(super) fn new(preserve: bool) -> Restorer {
        let is_root = rustix::process::geteuid().is_root();
        Restorer { preserve, owners: preserve && is_root, is_root }
    }

    /// For a file that is completely written, or a directory that is completely filled. Whether all was kept.
    pub(super) fn restore(&self, file: &File, attributes: &Attributes) -> Result<bool, Errno> {
        // The owner first: giving a file away clears its set-uid bit.
        if self.owners {
            fs::fchown(file, Some(Uid::from_raw(attributes.uid)), Some(Gid::from_raw(attributes.gid)))?;
        }
        let mode = fs::fchmod(file, permissions(attributes.mode, self.preserve));
        self.kept([mode, fs::futimens(file, &modified(attributes.modified_s, attributes.modified_ns))])
    }

    /// For a symbolic link, which has no mode of its own.
    pub(super) fn restore_link(&self, dir: &File, name: &[u8], attributes: &Attributes) -> Result<bool, Errno> {
        if self.owners {
            let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
            fs::chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        let times = modified(attributes.modified_s, attributes.modified_ns);
        self.kept([fs::utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)])
    }

    /// Whether all of this was done. What a file system has no place for, or gives to an owner who is not this process' user,
    /// whatever that has made, is no reason to throw away contents that are complete.
    pub(super) fn kept<const N: usize>(&self, results: [Result<(), Errno>; N]) -> Result<bool, Errno> {
        let mut kept = true;
        for result in results {
            match result {
                Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) if !self.preserve => kept = false,
                result => result?,
            }
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_system_does_not_keep_fails_only_for_those_who_insist() {
        let [casual, insisting] = [false, true].map(Restorer::new);
        for error in [Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS] {
            assert_eq!(casual.kept([Err(error), Ok(())]), Ok(false));
            assert_eq!(insisting.kept([Ok(()), Err(error)]), Err(error));
        }
        assert_eq!(casual.kept([Ok(()), Err(Errno::IO)]), Err(Errno::IO));
        assert_eq!(casual.kept([Ok(()), Ok(())]), Ok(true));
    }
}
