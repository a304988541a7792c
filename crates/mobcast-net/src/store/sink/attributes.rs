//! Restoring modes, times and owners of the entries of a tree.

use std::fs::File;

use mobcast_proto::content::tree::Attributes;
use rustix::fs::{self, AtFlags, Gid, Uid};
use rustix::io::Errno;

use crate::store::beneath::{modified, permissions};

/// What of the attributes is restored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restorer {
    /// Set-uid, set-gid and sticky bits.
    special_bits: bool,
    /// Owners, which only root can give away.
    owners: bool,
    /// Whether modes do not bind this process.
    pub(super) is_root: bool,
}

impl Restorer {
    pub(super) fn new(preserve: bool) -> Restorer {
        let is_root = rustix::process::geteuid().is_root();
        Restorer { special_bits: preserve, owners: preserve && is_root, is_root }
    }

    /// For a file that is completely written, or a directory that is completely filled.
    pub(super) fn restore(&self, file: &File, attributes: &Attributes) -> Result<(), Errno> {
        // The owner first: giving a file away clears its set-uid bit.
        if self.owners {
            fs::fchown(file, Some(Uid::from_raw(attributes.uid)), Some(Gid::from_raw(attributes.gid)))?;
        }
        fs::fchmod(file, permissions(attributes.mode, self.special_bits))?;
        fs::futimens(file, &modified(attributes.modified_s, attributes.modified_ns))
    }

    /// For a symbolic link, which has no mode of its own.
    pub(super) fn restore_link(&self, dir: &File, name: &[u8], attributes: &Attributes) -> Result<(), Errno> {
        if self.owners {
            let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
            fs::chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        let times = modified(attributes.modified_s, attributes.modified_ns);
        fs::utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)
    }
}
