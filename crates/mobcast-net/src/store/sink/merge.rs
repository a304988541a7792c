//! Merging a complete tree into a directory that is there: each file replaces what has its path in one step, and
//! everything else stays. No link in the destination is followed: one that is in the way is replaced itself.

use std::fs::File;

use mobcast_proto::content::tree::{EntryKind, Tree};
use rustix::fs::{self, Access, AtFlags, Mode, Statx, StatxFlags};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::process::geteuid;

use super::directory::{DirectorySink, View};
use super::target::rename;
use crate::store::StoreError;
use crate::store::beneath::{is_directory, is_not_a_directory};
use crate::store::error::below;

const MERGE_HINT: &str = "it appeared while the tree was received; use --force to replace it";

impl DirectorySink {
    /// Refuses, before anything is received, a tree that could be merged in part only: one that has a file where the
    /// destination has a directory (whole directories are never removed), or something for a directory that takes nothing from
    /// here, or in the place of what cannot be replaced.
    pub(super) fn check_conflicts(&self, tree: &Tree, dir: &File) -> Result<(), StoreError> {
        let destination = self.view_of(dir)?;
        let own = stat_of(dir, "");
        let mut checked = None;
        for (entry, what) in tree.entries().skip(1) {
            // What is not there will be made.
            let Ok(parent) = destination.directory(tree, what.parent) else { continue };
            if what.kind == EntryKind::Directory {
                match destination.directory(tree, entry) {
                    Ok(_) => continue,
                    Err(Errno::ACCESS) => return Err(self.error("open directory", tree, entry, Errno::ACCESS)),
                    Err(_) => {}
                }
            } else if is_directory(&*parent, tree.name(entry)).unwrap_or(false) {
                return Err(self.conflict(tree, entry));
            }
            let of_parent = match checked {
                Some((checked, stat)) if checked == what.parent => stat,
                _ => self.check_parent(tree, what.parent, &parent, own)?,
            };
            checked = Some((what.parent, of_parent));
            self.check_replaced(tree, entry, &parent, of_parent)?;
        }
        Ok(())
    }

    /// Whether names can be made in a directory of the destination.
    fn check_parent(
        &self,
        tree: &Tree,
        entry: u32,
        parent: &File,
        own: Option<Statx>,
    ) -> Result<Option<Statx>, StoreError> {
        let stat = stat_of(parent, "");
        if stat.as_ref().map(mount_of) != own.as_ref().map(mount_of) {
            return Err(StoreError::OtherFileSystem { path: below(&self.path, &tree.path(entry)) });
        }
        check_writable(parent).map_err(|error| self.error("write into directory", tree, entry, error))?;
        Ok(stat)
    }

    /// Whether what is in the place of an entry, if anything is, can be replaced there.
    fn check_replaced(
        &self,
        tree: &Tree,
        entry: u32,
        parent: &File,
        of_parent: Option<Statx>,
    ) -> Result<(), StoreError> {
        let (Some(there), Some(of_parent)) = (stat_of(parent, tree.name(entry)), of_parent) else { return Ok(()) };
        // The device of a file may be another one without a mount, as with overlays.
        if there.stx_mnt_id != of_parent.stx_mnt_id {
            return Err(StoreError::OtherFileSystem { path: below(&self.path, &tree.path(entry)) });
        }
        let is_sticky = Mode::from_raw_mode(of_parent.stx_mode.into()).contains(Mode::SVTX);
        let owners = [there.stx_uid, of_parent.stx_uid];
        if is_sticky && !self.restorer.is_root && !owners.contains(&geteuid().as_raw()) {
            return Err(self.error("replace", tree, entry, Errno::PERM));
        }
        Ok(())
    }

    fn conflict(&self, tree: &Tree, entry: u32) -> StoreError {
        let path = below(&self.path, &tree.path(entry));
        StoreError::Conflict { path, what: "it is a directory, where the tree has a file or a link" }
    }

    fn view_of(&self, dir: &File) -> Result<View, StoreError> {
        dir.try_clone().map(View::new).map_err(|error| StoreError::io("open directory", &self.path, error))
    }

    /// Moves everything from the partial directory into `dir`. Directories that were there keep their attributes. Called where
    /// `abandon` waits for it: half a merge would stay.
    pub(super) fn merge(&self, tree: &Tree, dir: &File, replace: bool) -> Result<(), StoreError> {
        let destination = self.view_of(dir)?;
        let mut made = Vec::new();
        let merged = self.merge_entries(tree, &destination, replace, &mut made);
        // Those that were made stay, whatever the others say.
        let restored = made.iter().rev().try_for_each(|&entry| self.restore_directory(tree, &destination, entry));
        merged.and(restored)
    }

    fn merge_entries(
        &self,
        tree: &Tree,
        destination: &View,
        replace: bool,
        made: &mut Vec<u32>,
    ) -> Result<(), StoreError> {
        for (entry, what) in tree.entries().skip(1) {
            let parent = destination
                .directory(tree, what.parent)
                .map_err(|error| self.error("open directory", tree, what.parent, error))?;
            if what.kind == EntryKind::Directory {
                if self.merge_directory(tree, entry, &parent, destination, replace)? {
                    made.push(entry);
                }
            } else {
                self.merge_file(tree, entry, &parent, replace)?;
            }
        }
        Ok(())
    }

    /// Makes sure that a directory is there; whether it was made.
    fn merge_directory(
        &self,
        tree: &Tree,
        entry: u32,
        parent: &File,
        destination: &View,
        replace: bool,
    ) -> Result<bool, StoreError> {
        let name = tree.name(entry);
        let cannot = |error| self.error("create directory", tree, entry, error);
        match fs::mkdirat(parent, name, Mode::RWXU) {
            Ok(()) => return Ok(true),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(cannot(error)),
        }
        match destination.directory(tree, entry) {
            Ok(_) => Ok(false),
            Err(error) if is_not_a_directory(error) && replace => {
                fs::unlinkat(parent, name, AtFlags::empty()).map_err(cannot)?;
                fs::mkdirat(parent, name, Mode::RWXU).map_err(cannot)?;
                Ok(true)
            }
            Err(error) => Err(cannot(error)),
        }
    }

    fn merge_file(&self, tree: &Tree, entry: u32, parent: &File, replace: bool) -> Result<(), StoreError> {
        let name = tree.name(entry);
        let merge = || {
            let from = self.staging.directory(tree, tree.entry(entry).parent)?;
            rename(&from, name, parent, name, replace)
        };
        merge().map_err(|error| match error {
            Errno::ISDIR => self.conflict(tree, entry),
            Errno::EXIST if !replace => {
                StoreError::Exists { path: below(&self.path, &tree.path(entry)), hint: MERGE_HINT.to_owned() }
            }
            _ => self.error("replace", tree, entry, error),
        })
    }
}

/// What is known of a name in a directory, or of the directory itself. None on kernels that do not tell.
fn stat_of(dir: &File, name: impl Arg) -> Option<Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    fs::statx(dir, name, flags, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID).ok()
}

/// Where a directory is: nothing can be renamed from one file system, or one mount of it, to another.
fn mount_of(stat: &Statx) -> (u32, u32, u64) {
    (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_mnt_id)
}

/// Whether names can be made in a directory. What else stands in the way shows when they are.
fn check_writable(dir: &File) -> Result<(), Errno> {
    match fs::accessat(dir, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
        Err(error @ (Errno::ACCESS | Errno::ROFS)) => Err(error),
        _ => Ok(()),
    }
}
