//! The system calls that source and sink share: opening beneath a directory without ever following a link, caching
//! handles, removing partial trees, checking for space.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, StatVfs, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

use super::StoreError;

/// Set when the kernel (before 5.6) or a sandbox does not have `openat2`.
static OPENAT2_MISSING: AtomicBool = AtomicBool::new(false);

/// Opens `path`, which is relative to `dir`, without leaving `dir` and without following any symbolic link. An empty
/// path is `dir` itself.
pub(crate) fn open_beneath(dir: impl AsFd, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { b"." } else { path };
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    if !OPENAT2_MISSING.load(Ordering::Relaxed) {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match fs::openat2(&dir, path, flags, mode, resolve) {
            Err(Errno::NOSYS) => OPENAT2_MISSING.store(true, Ordering::Relaxed),
            // Some sandboxes answer EPERM for calls they do not know; the walk finds out which it is.
            Err(Errno::PERM) => {}
            result => return result,
        }
    }
    open_by_walking(dir, path, flags, mode)
}

/// What `openat2` does, one component at a time.
fn open_by_walking(dir: impl AsFd, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let step_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut components = path.split(|&byte| byte == b'/').peekable();
    let mut at: Option<OwnedFd> = None;
    while let Some(component) = components.next() {
        if component.is_empty() || component == b".." {
            return Err(Errno::XDEV);
        }
        let from = at.as_ref().map_or(dir.as_fd(), AsFd::as_fd);
        if components.peek().is_none() {
            return fs::openat(from, component, flags, mode);
        }
        at = Some(fs::openat(from, component, step_flags, Mode::empty())?);
    }
    Err(Errno::NOENT)
}

/// Opens a directory beneath `dir` for listing and for opening what it holds.
pub(crate) fn open_dir_beneath(dir: impl AsFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    open_beneath(dir, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
}

/// Opens a directory that the user named, through links if there are any.
pub(crate) fn open_user_dir(path: &Path) -> Result<OwnedFd, StoreError> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| StoreError::io("open directory", path, error))
}

/// Whether an open failed because something on the way is a link or is not a directory.
pub(crate) fn is_not_a_directory(error: Errno) -> bool {
    matches!(error, Errno::LOOP | Errno::NOTDIR | Errno::XDEV)
}

/// A few open handles by entry number, the least recently used one closed first.
#[derive(Debug)]
pub(crate) struct HandleCache {
    slots: Mutex<Vec<(u32, Arc<File>)>>,
    capacity: usize,
}

impl HandleCache {
    pub(crate) fn new(capacity: usize) -> HandleCache {
        HandleCache { slots: Mutex::new(Vec::with_capacity(capacity)), capacity }
    }

    /// The handle of `key`, opened if it is not there.
    pub(crate) fn get(&self, key: u32, open: impl FnOnce() -> Result<OwnedFd, Errno>) -> Result<Arc<File>, Errno> {
        if let Some(handle) = self.lookup(key) {
            return Ok(handle);
        }
        // Opened outside the lock: a slow disk must not stop the threads whose handles are there.
        let handle = Arc::new(File::from(open()?));
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= self.capacity {
            slots.remove(0);
        }
        slots.push((key, Arc::clone(&handle)));
        Ok(handle)
    }

    /// Most recently used ones stand last; with a few dozen slots a linear search is as fast as any.
    fn lookup(&self, key: u32) -> Option<Arc<File>> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let at = slots.iter().rposition(|&(slot, _)| slot == key)?;
        let slot = slots.remove(at);
        let handle = Arc::clone(&slot.1);
        slots.push(slot);
        Some(handle)
    }
}

const PARTIAL_SUFFIX: &[u8] = b".mobcast-partial-";

/// A name for partial data of `name`, hidden and never taken for the finished thing.
pub(crate) fn partial_name(name: &[u8]) -> Vec<u8> {
    // One component has at most 255 bytes, of which dot, suffix and eight digits are not the name's.
    let kept = name.len().min(255 - 1 - PARTIAL_SUFFIX.len() - 8);
    let random = RandomState::new().build_hasher().finish() as u32;
    [b".", &name[..kept], PARTIAL_SUFFIX, format!("{random:08x}").as_bytes()].concat()
}

/// Whether a name is one of partial data.
pub(crate) fn is_partial_name(name: &[u8]) -> bool {
    name.starts_with(b".") && name.windows(PARTIAL_SUFFIX.len()).any(|part| part == PARTIAL_SUFFIX)
}

/// A directory that is being removed.
struct Doomed {
    name: Vec<u8>,
    /// Device and inode: it is come back to by `..`, and nothing else is touched if somebody has moved it meanwhile.
    identity: (u64, u64),
    /// What is left in it.
    subdirectories: Vec<Vec<u8>>,
}

/// Removes the directory `name` in `parent` with everything in it, following no link, as far as the system allows. It goes
/// down and up by handles, of which two are open at a time: paths may be longer than the system takes, and deeper than there
/// are handles.
pub(crate) fn remove_tree(parent: impl AsFd, name: &[u8]) -> Result<(), Errno> {
    let Some((mut dir, doomed)) = enter_doomed(&parent, name)? else { return Ok(()) };
    let (mut at, mut above) = (doomed, Vec::new());
    loop {
        if let Some(subdirectory) = at.subdirectories.pop() {
            if let Some((below, doomed)) = enter_doomed(&dir, &subdirectory)? {
                above.push(std::mem::replace(&mut at, doomed));
                dir = below;
            }
            continue;
        }
        let Some(back) = above.pop() else { return fs::unlinkat(&parent, &at.name, AtFlags::REMOVEDIR) };
        dir = fs::openat(&dir, "..", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        if identity(&dir)? != back.identity {
            return Err(Errno::XDEV);
        }
        fs::unlinkat(&dir, &at.name, AtFlags::REMOVEDIR)?;
        at = back;
    }
}

/// Opens a directory and unlinks all in it but directories. None if there is none.
fn enter_doomed(parent: impl AsFd, name: &[u8]) -> Result<Option<(OwnedFd, Doomed)>, Errno> {
    let dir = match open_dir_beneath(&parent, name) {
        Err(Errno::NOENT) => return Ok(None),
        // It already got its final mode.
        Err(Errno::ACCESS) => {
            fs::chmodat(&parent, name, Mode::RWXU, AtFlags::empty())?;
            open_dir_beneath(&parent, name)?
        }
        result => result?,
    };
    // The same, for one that can be read and not written to. If it is not ours to change, what follows says so.
    let _ = fs::fchmod(&dir, Mode::RWXU);
    let subdirectories = empty_of_files(&dir)?;
    let doomed = Doomed { name: name.to_owned(), identity: identity(&dir)?, subdirectories };
    Ok(Some((dir, doomed)))
}

fn identity(dir: impl AsFd) -> Result<(u64, u64), Errno> {
    let stat = fs::fstat(dir)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Unlinks all but the directories in a directory, and returns the names of those.
fn empty_of_files(dir: impl AsFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut subdirectories = Vec::new();
    for (name, file_type) in list(&dir)? {
        let is_directory = match file_type {
            FileType::Unknown => is_directory(&dir, &name)?,
            known => known == FileType::Directory,
        };
        if is_directory {
            subdirectories.push(name);
        } else {
            fs::unlinkat(&dir, name, AtFlags::empty())?;
        }
    }
    Ok(subdirectories)
}

pub(crate) fn is_directory(dir: impl AsFd, name: &[u8]) -> Result<bool, Errno> {
    let stat = fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Names and types of what a directory holds, in the order of the file system.
pub(crate) fn list(dir: impl AsFd) -> Result<Vec<(Vec<u8>, FileType)>, Errno> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            entries.push((name.to_owned(), entry.file_type()));
        }
    }
    Ok(entries)
}

/// Permission bits to restore: set-uid, set-gid and sticky bits only if they are to be preserved.
pub(crate) fn permissions(mode: u32, preserve: bool) -> Mode {
    Mode::from_raw_mode(mode & if preserve { 0o7777 } else { 0o777 })
}

/// A time of last modification to set, leaving the time of last access alone.
pub(crate) fn modified(seconds: i64, nanoseconds: u32) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() },
    }
}

/// Refuses at once what the file system of `fd` cannot hold: `needed` bytes in `inodes` files. `path` is for the
/// message.
pub(crate) fn check_space(fd: impl AsFd, path: &Path, needed: u64, inodes: u64) -> Result<(), StoreError> {
    let stat = fs::fstatvfs(fd).map_err(|error| StoreError::io("find the free space of", path, error))?;
    match free_bytes(&stat) {
        Some(free) if needed > free => {
            return Err(StoreError::NoSpace { path: path.to_owned(), needed: Some(needed), free: Some(free) });
        }
        _ => {}
    }
    // File systems that make inodes as they go report none at all.
    if stat.f_files > 0 && inodes > stat.f_favail {
        return Err(StoreError::NoSpace { path: path.to_owned(), needed: None, free: None });
    }
    Ok(())
}

/// What is free on a file system, if it knows its size: some user-space ones do not.
fn free_bytes(stat: &StatVfs) -> Option<u64> {
    let unit = if stat.f_frsize == 0 { stat.f_bsize } else { stat.f_frsize };
    (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(unit))
}

/// Granularity at which zeros are left out of a file: a block of most file systems.
const HOLE_BLOCK: u64 = 4096;
static ZEROS: [u8; HOLE_BLOCK as usize] = [0; HOLE_BLOCK as usize];

/// Calls `write` for the parts of `data`, which belongs at `offset` of a file, that are not all zeros, block by block.
/// A file that was just made reads as zeros wherever nothing is written; of a block that spans two pieces, each may
/// leave its part out.
pub(crate) fn for_each_nonzero<E>(
    offset: u64,
    data: &[u8],
    mut write: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let (mut run_start, mut at) = (0, 0);
    while at < data.len() {
        let to_boundary = (HOLE_BLOCK - (offset + at as u64) % HOLE_BLOCK) as usize;
        let end = data.len().min(at + to_boundary);
        let block = &data[at..end];
        if block == &ZEROS[..block.len()] {
            if run_start < at {
                write(offset + run_start as u64, &data[run_start..at])?;
            }
            run_start = end;
        }
        at = end;
    }
    if run_start < data.len() { write(offset + run_start as u64, &data[run_start..]) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    fn tempdir_with_links() -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::tempdir().expect("tempdir");
        std::fs::create_dir_all(dir.path().join("a/b")).expect("mkdir");
        std::fs::write(dir.path().join("a/b/c"), "inside").expect("write");
        symlink("/etc", dir.path().join("out")).expect("symlink");
        symlink("a", dir.path().join("in")).expect("symlink");
        let fd = open_user_dir(dir.path()).expect("open");
        (dir, fd)
    }

    #[test]
    fn opening_stays_beneath_and_follows_nothing() {
        let (_dir, fd) = tempdir_with_links();
        let walk = |path: &[u8]| open_by_walking(&fd, path, OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty());
        let beneath = |path: &[u8]| open_beneath(&fd, path, OFlags::RDONLY, Mode::empty());
        let both = |path: &[u8]| (walk(path).is_ok(), beneath(path).is_ok());
        assert_eq!(both(b"a/b/c"), (true, true));
        assert_eq!(both(b"."), (true, true));
        for path in [&b"out/passwd"[..], b"in/b/c", b"out", b"in", b"../x", b"a/../../etc", b"/etc/passwd"] {
            assert_eq!(both(path), (false, false), "{path:?}");
        }
    }

    #[test]
    fn removing_a_tree_leaves_what_its_links_point_to() {
        let (dir, fd) = tempdir_with_links();
        std::fs::create_dir(dir.path().join("x")).expect("mkdir");
        symlink(dir.path().join("a"), dir.path().join("x/link")).expect("symlink");
        fs::chmodat(&fd, "x", Mode::RUSR, AtFlags::empty()).expect("chmod");
        remove_tree(&fd, b"x").expect("remove");
        assert!(!dir.path().join("x").exists() && dir.path().join("a/b/c").exists());
        remove_tree(&fd, b"x").expect("what is not there is removed");
    }

    #[test]
    fn a_tree_is_removed_whose_paths_are_longer_than_the_system_takes() {
        let (dir, fd) = tempdir_with_links();
        let name = [b'n'; 200];
        let mut at = fs::openat(&fd, ".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("open");
        for _ in 0..30 {
            fs::mkdirat(&at, &name[..], Mode::RWXU).expect("mkdir");
            fs::mkdirat(&at, "beside", Mode::RWXU).expect("mkdir");
            at = open_dir_beneath(&at, &name).expect("open");
            fs::openat(&at, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).expect("create");
        }
        fs::fchmod(&at, Mode::RUSR | Mode::XUSR).expect("chmod");
        remove_tree(&fd, &name).expect("remove");
        assert!(!dir.path().join(OsStr::from_bytes(&name)).exists() && dir.path().join("a/b/c").exists());
    }

    #[test]
    fn a_file_system_that_does_not_know_its_size_is_not_full() {
        let (_dir, fd) = tempdir_with_links();
        let known = fs::fstatvfs(&fd).expect("statvfs");
        assert!(free_bytes(&known).is_some());
        assert_eq!(free_bytes(&StatVfs { f_blocks: 0, f_bavail: 0, ..known }), None);
        let in_blocks = StatVfs { f_blocks: 9, f_bavail: 7, f_frsize: 0, f_bsize: 512, ..known };
        assert_eq!(free_bytes(&in_blocks), Some(7 * 512));
    }

    #[test]
    fn partial_names_fit_into_a_component() {
        for name in [&b"x"[..], &[b'n'; 255]] {
            let partial = partial_name(name);
            assert!(partial.len() <= 255 && partial.starts_with(b".") && partial != partial_name(name));
            assert!(is_partial_name(&partial) && !is_partial_name(name) && !is_partial_name(&partial[1..]));
        }
    }

    #[test]
    fn blocks_of_zeros_are_left_out() {
        let runs = |offset: u64, data: &[u8]| {
            let mut runs = Vec::new();
            for_each_nonzero(offset, data, |at, run| {
                runs.push((at, run.len()));
                Ok::<(), ()>(())
            })
            .expect("no error");
            runs
        };
        let mut data = vec![0; 5 * 4096];
        assert_eq!(runs(0, &data), []);
        data[4096] = 1;
        assert_eq!(runs(0, &data), [(4096, 4096)]);
        data[3 * 4096 - 1] = 1;
        assert_eq!(runs(0, &data), [(4096, 8192)]);
        // Blocks are those of the file; an unaligned piece has parts of them at its ends.
        assert_eq!(runs(100, &[0; 3 * 4096]), []);
        let mut data = vec![0; 3 * 4096];
        data[0] = 1;
        data[3 * 4096 - 1] = 1;
        assert_eq!(runs(100, &data), [(100, 3996), (3 * 4096, 100)]);
    }

    #[test]
    fn the_least_recently_used_handle_is_closed() {
        let (_dir, fd) = tempdir_with_links();
        let cache = HandleCache::new(2);
        let opened = std::cell::Cell::new(0);
        let get = |key| {
            cache.get(key, || {
                opened.set(opened.get() + 1);
                open_dir_beneath(&fd, b"a")
            })
        };
        [1, 2, 1, 3, 1].into_iter().for_each(|key| drop(get(key).expect("opens")));
        assert_eq!(opened.get(), 3);
        drop(get(2).expect("opens"));
        assert_eq!(opened.get(), 4);
    }
}
