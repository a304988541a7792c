//! Which path an object goes to, decided before anything is written, and the last step: giving it that name.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, RenameFlags};
use rustix::io::Errno;

use crate::store::StoreError;
use crate::store::beneath::{is_partial_name, list, open_user_dir};

/// A name in an open directory.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) parent: File,
    pub(super) name: Vec<u8>,
    /// The whole path, for messages and reports.
    pub(super) path: PathBuf,
    /// Whether something of that name may be replaced.
    pub(super) replace: bool,
}

/// Where a file goes.
#[derive(Debug)]
pub(super) enum Destination {
    Place(Place),
    Device(PathBuf),
    Pipe(PathBuf),
}

/// Where a directory goes.
#[derive(Debug)]
pub(super) enum TreeDestination {
    Place(Place),
    /// Into a directory that is there.
    Merge {
        dir: File,
        path: PathBuf,
        replace: bool,
    },
}

const FORCE_HINT: &str = "give another destination, or --force to replace it";

impl Destination {
    pub(super) fn of_file(path: Option<&Path>, name: &[u8], force: bool) -> Result<Destination, StoreError> {
        let Some(path) = path else {
            return Place::check(Path::new(safe_name(name)?), force).map(Destination::Place);
        };
        let file_type = match std::fs::metadata(path) {
            Ok(metadata) => FileType::from_raw_mode(metadata.mode()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => FileType::Unknown,
            Err(error) => return Err(StoreError::io("write", path, error)),
        };
        match file_type {
            FileType::Directory => Place::check(&path.join(safe_name(name)?), force).map(Destination::Place),
            // A path like `out/` says that a directory is meant.
            FileType::Unknown if path.as_os_str().as_bytes().ends_with(b"/") => {
                Err(StoreError::io("write into directory", path, Errno::NOENT))
            }
            FileType::BlockDevice => Ok(Destination::Device(path.to_owned())),
            FileType::CharacterDevice | FileType::Fifo => Ok(Destination::Pipe(path.to_owned())),
            _ => Place::check(path, force).map(Destination::Place),
        }
    }
}

impl TreeDestination {
    pub(super) fn of_directory(path: Option<&Path>, name: &[u8], force: bool) -> Result<TreeDestination, StoreError> {
        let own_name;
        let path = match path {
            Some(path) => path,
            None => {
                own_name = PathBuf::from(safe_name(name)?);
                &own_name
            }
        };
        if !path.is_dir() {
            return match look(path)? {
                Some(_) => Err(StoreError::Conflict { path: path.to_owned(), what: "it is no directory" }),
                None => Place::new(path, false).map(TreeDestination::Place),
            };
        }
        let dir = open_user_dir(path)?;
        let entries = list(&dir).map_err(|error| StoreError::io("read", path, error))?;
        if !force && !entries.is_empty() {
            let (shown, inside) = (path.display(), path.join(OsStr::from_bytes(name)));
            let inside = inside.display();
            let hint = if entries.iter().all(|(name, _)| is_partial_name(name)) {
                format!(
                    "all that it holds is what an ended recv has left: rm -r {shown}/.*.mobcast-partial-* if none runs there"
                )
            } else {
                format!(
                    "the tree would become {shown} itself: give {inside} to put it inside, or --force to merge it into {shown}"
                )
            };
            return Err(StoreError::Exists { path: path.to_owned(), hint });
        }
        Ok(TreeDestination::Merge { dir: dir.into(), path: path.to_owned(), replace: force })
    }
}

impl TreeDestination {
    /// The destination's path.
    pub(super) fn path(&self) -> &Path {
        match self {
            TreeDestination::Place(place) => &place.path,
            TreeDestination::Merge { path, .. } => path,
        }
    }

    /// The directory that holds the partial one: on the same file system as the destination.
    pub(super) fn parent(&self) -> &File {
        match self {
            TreeDestination::Place(place) => &place.parent,
            TreeDestination::Merge { dir, .. } => dir,
        }
    }

    /// The name after which the partial directory is called.
    pub(super) fn name(&self) -> &[u8] {
        match self {
            TreeDestination::Place(place) => &place.name,
            TreeDestination::Merge { .. } => b"tree",
        }
    }
}

/// The object's own name, if it can be one component of a path.
fn safe_name(name: &[u8]) -> Result<&OsStr, StoreError> {
    let refuse = |what: &str| Err(StoreError::NoName { what: what.to_owned() });
    match name {
        b"" => refuse("has no name"),
        b"." | b".." => refuse("has a name that is no file name"),
        long if long.len() > 255 => refuse("has a name of over 255 bytes"),
        bad if bad.iter().any(|&byte| byte == b'/' || byte == 0) => refuse("has a name that is no file name"),
        good => Ok(OsStr::from_bytes(good)),
    }
}

/// What has a name, if anything has. A name that cannot be is an error, before anything is sent for it.
fn look(path: &Path) -> Result<Option<Metadata>, StoreError> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("write", path, error)),
    }
}

impl Place {
    /// A place where a file may go: nothing is there, or it may be replaced, which a directory never is.
    fn check(path: &Path, force: bool) -> Result<Place, StoreError> {
        match look(path)? {
            Some(metadata) if metadata.is_dir() => {
                Err(StoreError::Conflict { path: path.to_owned(), what: "it is a directory" })
            }
            _ => Place::new(path, force),
        }
    }

    /// A place where nothing is, unless it may be replaced.
    fn new(path: &Path, replace: bool) -> Result<Place, StoreError> {
        if look(path)?.is_some() && !replace {
            return Err(StoreError::Exists { path: path.to_owned(), hint: FORCE_HINT.to_owned() });
        }
        let no_file_name = || StoreError::io("create", path, Errno::ISDIR);
        let name = path.file_name().ok_or_else(no_file_name)?.as_bytes().to_owned();
        let parent = open_user_dir(path.parent().unwrap_or(Path::new("")))?.into();
        Ok(Place { parent, name, path: path.to_owned(), replace })
    }

    /// Gives the partial thing its name, unless something of that name appeared and may not be replaced, and puts
    /// the name on disk.
    pub(super) fn rename_from(&self, partial: &[u8]) -> Result<(), StoreError> {
        rename(&self.parent, partial, &self.parent, &self.name, self.replace).map_err(|error| match error {
            Errno::EXIST | Errno::NOTEMPTY if !self.replace => {
                StoreError::Exists { path: self.path.clone(), hint: FORCE_HINT.to_owned() }
            }
            _ => StoreError::io("rename the finished data to", &self.path, error),
        })
    }

    /// Puts the name on disk, where the file system knows how.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        synced(fs::fsync(&self.parent)).map_err(|error| StoreError::io("sync the directory of", &self.path, error))
    }
}

/// The answer to syncing a directory. Some network and user-space file systems sync files alone, and say of a directory that
/// they cannot: there is nothing more to be done for its names.
fn synced(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
        result => result,
    }
}

/// Renames; without `replace`, only if the new name is free.
pub(super) fn rename(from_dir: &File, from: &[u8], to_dir: &File, to: &[u8], replace: bool) -> Result<(), Errno> {
    if replace {
        return fs::renameat(from_dir, from, to_dir, to);
    }
    match fs::renameat_with(from_dir, from, to_dir, to, RenameFlags::NOREPLACE) {
        Err(error) if is_unknown(error) => match fs::statat(to_dir, to, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => fs::renameat(from_dir, from, to_dir, to),
            Err(error) => Err(error),
            Ok(_) => Err(Errno::EXIST),
        },
        result => result,
    }
}

/// Whether a file system answers so that it cannot do it in one step, as some network and user-space ones do.
fn is_unknown(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_cannot_rename_without_replacing_does_for_a_destination() {
        let answers = [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP, Errno::EXIST, Errno::IO];
        assert_eq!(answers.map(is_unknown), [true, true, true, false, false]);
    }

    #[test]
    fn a_file_system_that_cannot_sync_directories_does_for_a_destination() {
        let answers = [Ok(()), Err(Errno::INVAL), Err(Errno::OPNOTSUPP), Err(Errno::IO), Err(Errno::NOSPC)];
        let synced = answers.map(|answer| synced(answer).is_ok());
        assert_eq!(synced, [true, true, true, false, false]);
    }
}
