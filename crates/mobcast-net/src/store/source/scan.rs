//! Scanning a directory into a tree: sorted, so that the same directory gives the same index, and complete, so that
//! what cannot be sent is found before anything is.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use mobcast_proto::content::tree::{Attributes, EntryKind, Tree, TreeBuilder};
use rustix::fs::{self, Access, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{has_few_blocks, has_holes, special_kind, tells_of_holes};
use crate::store::StoreError;
use crate::store::beneath::{list, open_dir_beneath};
use crate::store::error::below;

/// What a scan found.
pub(super) struct Scan {
    pub(super) tree: Tree,
    /// Whether any file has holes.
    pub(super) sparse: bool,
}

/// Something found in a directory.
struct Found {
    stat: Stat,
    /// The target, if it is a symbolic link.
    target: Option<Box<[u8]>>,
    /// Whether it is a file with holes.
    sparse: bool,
}

/// A directory whose entries are being added: of those to come only the names are kept, as there may be millions.
struct Level {
    path: Vec<u8>,
    names: std::vec::IntoIter<(Vec<u8>, FileType)>,
    /// Not kept open while a directory in it is scanned: trees may be deeper than there are handles.
    dir: Option<OwnedFd>,
}

struct Scanner<'a> {
    root: &'a OwnedFd,
    /// The root's path, for messages.
    base: &'a Path,
    builder: TreeBuilder,
    /// Files with several names, by device and inode, and the entry of the first name.
    linked: HashMap<(u64, u64), u32>,
    /// Which devices' file systems say where files have holes: to ask may take a server's answer.
    telling: HashMap<u64, bool>,
    sparse: bool,
}

/// Scans the directory `root`, whose path is `base`.
pub(super) fn scan(root: &OwnedFd, base: &Path) -> Result<Scan, StoreError> {
    let stat = fs::fstat(root).map_err(|error| StoreError::io("read", base, error))?;
    let builder = TreeBuilder::new();
    let mut scanner = Scanner { root, base, builder, linked: HashMap::new(), telling: HashMap::new(), sparse: false };
    scanner.push(b"", &stat, EntryKind::Directory)?;
    // A stack of our own: trees may be deeper than a thread's stack.
    let mut levels = vec![scanner.enter(Vec::new())?];
    while let Some(level) = levels.last_mut() {
        let Some((name, _)) = level.names.next() else {
            levels.pop();
            continue;
        };
        let path = join(&level.path, &name);
        let found = scanner.look_at(level, &name).map_err(|error| scanner.cannot_read(&path, error))?;
        if scanner.add(&path, found)? {
            level.dir = None;
            levels.push(scanner.enter(path)?);
        }
    }
    let tree = scanner.builder.finish().map_err(|source| StoreError::TreeSource { path: base.to_owned(), source })?;
    Ok(Scan { tree, sparse: scanner.sparse })
}

fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_owned() } else { [path, b"/", name].concat() }
}

impl Scanner<'_> {
    fn cannot_read(&self, path: &[u8], error: Errno) -> StoreError {
        StoreError::io("read", below(self.base, path), error)
    }

    /// Lists a directory.
    fn enter(&self, path: Vec<u8>) -> Result<Level, StoreError> {
        let dir = open_dir_beneath(self.root, &path).map_err(|error| self.cannot_read(&path, error))?;
        let mut names = list(&dir).map_err(|error| self.cannot_read(&path, error))?;
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(Level { path, names: names.into_iter(), dir: Some(dir) })
    }

    /// Asks for everything about an entry of a directory, which is opened again if it is not open.
    fn look_at(&mut self, level: &mut Level, name: &[u8]) -> Result<Found, Errno> {
        let dir = match level.dir.take() {
            Some(dir) => dir,
            None => open_dir_beneath(self.root, &level.path)?,
        };
        let tells = |device| *self.telling.entry(device).or_insert_with(|| tells_of_holes(&dir));
        let found = look_at(&dir, name, tells);
        level.dir = Some(dir);
        found
    }

    /// Adds one entry; whether it is a directory to enter.
    fn add(&mut self, path: &[u8], found: Found) -> Result<bool, StoreError> {
        let stat = found.stat;
        let file_type = FileType::from_raw_mode(stat.st_mode);
        if let Some(what) = special_kind(file_type) {
            let what = format!("it is a {what}, which a directory to be sent may not hold; remove it");
            return Err(StoreError::Unsupported { path: below(self.base, path), what });
        }
        match (file_type, found.target) {
            (FileType::Directory, _) => self.push(path, &stat, EntryKind::Directory)?,
            (_, Some(target)) => self.push(path, &stat, EntryKind::Symlink { target })?,
            _ => self.add_file(path, &stat, found.sparse)?,
        };
        Ok(file_type == FileType::Directory)
    }

    fn add_file(&mut self, path: &[u8], stat: &Stat, sparse: bool) -> Result<u32, StoreError> {
        let identity = (stat.st_dev, stat.st_ino);
        if let Some(&target) = self.linked.get(&identity) {
            return self.push(path, stat, EntryKind::HardLink { target });
        }
        let size = stat.st_size as u64;
        self.sparse |= sparse;
        let entry = self.push(path, stat, EntryKind::File { size, sparse })?;
        if stat.st_nlink > 1 {
            self.linked.insert(identity, entry);
        }
        Ok(entry)
    }

    fn push(&mut self, path: &[u8], stat: &Stat, kind: EntryKind) -> Result<u32, StoreError> {
        let attributes = Attributes {
            mode: stat.st_mode & 0o7777,
            modified_s: stat.st_mtime,
            modified_ns: stat.st_mtime_nsec as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
        };
        self.builder
            .push(path, attributes, kind)
            .map_err(|source| StoreError::TreeSource { path: below(self.base, path), source })
    }
}

fn look_at(dir: &OwnedFd, name: &[u8], tells_of_holes: impl FnOnce(u64) -> bool) -> Result<Found, Errno> {
    let stat = fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let (mut target, mut sparse) = (None, false);
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => target = Some(fs::readlinkat(dir, name, Vec::new())?.into_bytes().into_boxed_slice()),
        FileType::RegularFile => {
            check_readable(dir, name)?;
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let open = || fs::openat(dir, name, flags, Mode::empty());
            sparse = has_few_blocks(stat.st_blocks as u64, stat.st_size as u64)
                && (!tells_of_holes(stat.st_dev) || open().map_or(true, |file| has_holes(&file, stat.st_size as u64)));
        }
        _ => {}
    }
    Ok(Found { stat, target, sparse })
}

/// Unreadable files are named before the transfer starts, not when their turn comes.
fn check_readable(dir: impl AsFd, name: &[u8]) -> Result<(), Errno> {
    match fs::accessat(dir, name, Access::READ_OK, AtFlags::EACCESS) {
        Err(Errno::ACCESS) => Err(Errno::ACCESS),
        _ => Ok(()),
    }
}
