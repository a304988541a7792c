//! A directory tree: written under a partial name and renamed when complete, or merged into a directory that is
//! there.
//!
//! First the tree index is collected. When it is complete, it is decoded (which proves that no path leaves the
//! tree), the directories are made, and contents can be written. Links are made last, so that while contents are
//! written there is none that could be followed; and nothing here would follow it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use mobcast_proto::content::Descriptor;
use mobcast_proto::content::tree::{EntryKind, Segment, TREE_INDEX_BYTES_MAX, Tree, TreeEntry, TreeError};
use mobcast_proto::limits::OPEN_PIECES_BYTES_MAX;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::attributes::Restorer;
use super::early::EarlyContents;
use super::index::IndexBuffer;
use super::syncfs::syncfs_tells_errors;
use super::target::TreeDestination;
use super::{Finished, Sink, SinkOptions};
use crate::store::StoreError;
use crate::store::beneath::{
    HandleCache, check_space, for_each_nonzero, open_beneath, open_dir_beneath, partial_name, remove_tree,
};
use crate::store::error::below;
use crate::store::stamp::Stamp;

/// Directory handles kept: a piece of small files comes from few directories, which follow one another.
const CACHED_DIRECTORIES: usize = 64;

/// A directory tree being received.
#[derive(Debug)]
pub(super) struct DirectorySink {
    /// The destination, also for messages.
    pub(super) path: PathBuf,
    pub(super) destination: TreeDestination,
    /// Name of the partial directory, beside the destination or (for merging) in it.
    partial: Vec<u8>,
    pub(super) staging: View,
    index_length: u64,
    content_length: u64,
    collecting: Mutex<Collecting>,
    received: OnceLock<Received>,
    pub(super) restorer: Restorer,
    /// Whether the file system has kept the times of all files, so that they tell which of them is changed afterwards.
    keeps_times: AtomicBool,
    lost_attributes: AtomicBool,
    phase: RwLock<Phase>,
}

/// The index as it comes in, and what came with it.
#[derive(Debug)]
struct Collecting {
    index: IndexBuffer,
    index_received: u64,
    /// Contents that came before the index was complete.
    early: EarlyContents,
    early_bytes: u64,
}

/// The decoded index, and what is done of it.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) tree: Tree,
    /// Files that are there.
    begun: EntrySet,
    /// Held while a file is made, by its entry: more than one for many threads.
    making: [Mutex<()>; 16],
    /// Files that have all their contents and attributes.
    sealed: EntrySet,
}

/// A bit for each entry of a tree.
#[derive(Debug)]
struct EntrySet(Vec<AtomicU64>);

/// How far the sink is; see `enter` and `name_it`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Partial,
    Named,
    Abandoned,
}

/// A root directory and the handles of some directories below it.
#[derive(Debug)]
pub(super) struct View {
    root: Arc<File>,
    directories: HandleCache,
}

impl View {
    pub(super) fn new(root: File) -> View {
        View { root: Arc::new(root), directories: HandleCache::new(CACHED_DIRECTORIES) }
    }

    /// The directory that is an entry of the tree, opened without following links.
    pub(super) fn directory(&self, tree: &Tree, entry: u32) -> Result<Arc<File>, Errno> {
        if entry == 0 {
            return Ok(Arc::clone(&self.root));
        }
        self.directories.get(entry, || open_dir_beneath(&self.root, &tree.path(entry)))
    }

    /// Opens a file that is an entry of the tree. One that is made must not be there.
    fn open(&self, tree: &Tree, entry: u32, flags: OFlags) -> Result<File, Errno> {
        let directory = self.directory(tree, tree.entry(entry).parent)?;
        // O_NONBLOCK: somebody may have put a named pipe there since, and opening that would wait for its other end.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        fs::openat(&*directory, tree.name(entry), flags, Mode::RUSR | Mode::WUSR).map(File::from)
    }
}

impl Received {
    fn new(tree: Tree) -> Received {
        let (begun, sealed) = (EntrySet::new(tree.len()), EntrySet::new(tree.len()));
        Received { tree, begun, making: Default::default(), sealed }
    }
}

impl EntrySet {
    fn new(entries: u32) -> EntrySet {
        EntrySet((0..entries.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    fn insert(&self, entry: u32) {
        self.0[entry as usize / 64].fetch_or(1 << (entry % 64), Ordering::AcqRel);
    }

    fn contains(&self, entry: u32) -> bool {
        self.0[entry as usize / 64].load(Ordering::Acquire) & (1 << (entry % 64)) != 0
    }
}

impl DirectorySink {
    /// Makes the partial directory.
    pub(super) fn create(
        path: Option<&Path>,
        descriptor: &Descriptor,
        options: &SinkOptions,
    ) -> Result<DirectorySink, StoreError> {
        let index_length = descriptor.index_length;
        if index_length > TREE_INDEX_BYTES_MAX {
            return Err(TreeError::TooLong(index_length).into());
        }
        if index_length == 0 {
            Tree::decode(&[], 0)?;
        }
        let destination = TreeDestination::of_directory(path, &descriptor.name, options.force)?;
        let path = destination.path().to_owned();
        let content_length = descriptor.length.unwrap_or(0) - index_length;
        // How much of a tree with holes is written, only its index tells.
        let needed = if descriptor.meta.sparse { 0 } else { content_length };
        check_space(destination.parent(), &path, needed, 1)?;
        let index = IndexBuffer::create(index_length, &options.spool_dir)?;
        let early = EarlyContents::new(options.spool_dir.clone());
        let partial = partial_name(destination.name());
        let cannot = |error| StoreError::io("create the partial directory of", &path, error);
        fs::mkdirat(destination.parent(), &partial, Mode::RWXU).map_err(cannot)?;
        let staging = open_dir_beneath(destination.parent(), &partial).map_err(|error| {
            let _ = remove_tree(destination.parent(), &partial);
            cannot(error)
        })?;
        Ok(DirectorySink {
            path,
            destination,
            partial,
            staging: View::new(staging.into()),
            index_length,
            content_length,
            collecting: Mutex::new(Collecting { index, index_received: 0, early, early_bytes: 0 }),
            received: OnceLock::new(),
            restorer: Restorer::new(options.preserve),
            keeps_times: AtomicBool::new(true),
            lost_attributes: AtomicBool::new(false),
            phase: RwLock::new(Phase::Partial),
        })
    }

    pub(super) fn error(
        &self,
        action: &'static str,
        tree: &Tree,
        entry: u32,
        error: impl Into<std::io::Error>,
    ) -> StoreError {
        StoreError::io(action, below(&self.path, &tree.path(entry)), error)
    }

    /// Held while something is made, so that nothing is made behind the back of `abandon`.
    pub(super) fn enter(&self) -> Result<RwLockReadGuard<'_, Phase>, StoreError> {
        let phase = self.phase.read().unwrap_or_else(PoisonError::into_inner);
        if *phase == Phase::Abandoned { Err(StoreError::Stopped) } else { Ok(phase) }
    }

    fn collecting(&self) -> MutexGuard<'_, Collecting> {
        self.collecting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes bytes of which at least the first belongs to the index, or which came before its end.
    fn collect(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let mut collecting = self.collecting();
        let of_index = self.index_length.saturating_sub(offset).min(data.len() as u64) as usize;
        let (index_part, contents) = data.split_at(of_index);
        if !index_part.is_empty() {
            collecting.index.write_at(offset, index_part)?;
            collecting.index_received += of_index as u64;
        }
        let content_offset = (offset + of_index as u64).saturating_sub(self.index_length);
        if let Some(received) = self.received.get() {
            drop(collecting);
            return self.write_contents(received, content_offset, contents);
        }
        if !contents.is_empty() {
            collecting.early_bytes += contents.len() as u64;
            if collecting.early_bytes > OPEN_PIECES_BYTES_MAX {
                return Err(StoreError::IndexLate { bytes: collecting.early_bytes });
            }
            collecting.early.add(content_offset, contents)?;
        }
        if collecting.index_received >= self.index_length { self.begin(&mut collecting) } else { Ok(()) }
    }

    /// The index is complete: makes the directories and writes the contents that came early.
    fn begin(&self, collecting: &mut Collecting) -> Result<(), StoreError> {
        let received = Received::new(collecting.index.decode(self.content_length)?);
        self.check_tree_space(&received.tree)?;
        if let TreeDestination::Merge { dir, replace: true, .. } = &self.destination {
            self.check_conflicts(&received.tree, dir)?;
        }
        self.check_links(&received.tree)?;
        for (entry, what) in received.tree.entries().skip(1) {
            if what.kind == EntryKind::Directory {
                self.make_directory(&received.tree, entry, what)?;
            }
        }
        collecting
            .early
            .for_each(|content_offset, contents| self.write_contents(&received, content_offset, contents))?;
        // Set before the early contents are given up: a reader always finds them in one of the two.
        if self.received.set(received).is_err() {
            unreachable!("the index becomes complete once, under the lock");
        }
        collecting.early = EarlyContents::new(PathBuf::new());
        Ok(())
    }

    /// Whether the file system has the blocks and inodes of the whole tree.
    fn check_tree_space(&self, tree: &Tree) -> Result<(), StoreError> {
        const BLOCK: u64 = 4096;
        let on_disk = |entry: &TreeEntry| match entry.kind {
            EntryKind::File { size, sparse: false } => size.div_ceil(BLOCK) * BLOCK,
            EntryKind::Directory => BLOCK,
            _ => 0,
        };
        let needed = tree.entries().map(|(_, entry)| on_disk(entry)).sum();
        check_space(self.destination.parent(), &self.path, needed, u64::from(tree.len()))
    }

    /// Refuses a tree with links where the file system makes none: they are made last, when everything has arrived. Called while
    /// the partial directory is empty.
    fn check_links(&self, tree: &Tree) -> Result<(), StoreError> {
        let _entered = self.enter()?;
        let root = &*self.staging.root;
        let unlink = |name| fs::unlinkat(root, name, AtFlags::empty());
        let symlink = || fs::symlinkat("target", root, "link").and_then(|()| unlink("link"));
        let hard_link = || {
            fs::openat(root, "file", OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
            fs::linkat(root, "file", root, "link", AtFlags::empty())?;
            unlink("link").and_then(|()| unlink("file"))
        };
        let try_first = |is_one: fn(&EntryKind) -> bool, make: &dyn Fn() -> Result<(), Errno>| {
            let Some((entry, _)) = tree.entries().find(|(_, what)| is_one(&what.kind)) else { return Ok(()) };
            make().map_err(|error| self.error("create link", tree, entry, error))
        };
        try_first(|kind| matches!(kind, EntryKind::Symlink { .. }), &symlink)?;
        try_first(|kind| matches!(kind, EntryKind::HardLink { .. }), &hard_link)
    }

    fn make_directory(&self, tree: &Tree, entry: u32, what: &TreeEntry) -> Result<(), StoreError> {
        let _entered = self.enter()?;
        let make = || fs::mkdirat(&*self.staging.directory(tree, what.parent)?, tree.name(entry), Mode::RWXU);
        make().map_err(|error| self.cannot_make("create directory", tree, entry, error))
    }

    /// What is made in the partial directory is not there yet, unless another entry of the tree has made it.
    fn cannot_make(&self, action: &'static str, tree: &Tree, entry: u32, error: Errno) -> StoreError {
        match error {
            Errno::EXIST => StoreError::SameFile { path: below(&self.path, &tree.path(entry)) },
            _ => self.error(action, tree, entry, error),
        }
    }

    /// Opens a file to be written. The first time makes it, and no second one: where a file system takes two names for one,
    /// the contents of two files must not end up in one.
    fn open_for_writing(&self, received: &Received, entry: u32) -> Result<File, StoreError> {
        let tree = &received.tree;
        let cannot = |error| self.cannot_make("create", tree, entry, error);
        if !received.begun.contains(entry) {
            let making = &received.making[entry as usize % received.making.len()];
            let _making = making.lock().unwrap_or_else(PoisonError::into_inner);
            if !received.begun.contains(entry) {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
                let file = self.staging.open(tree, entry, flags).map_err(cannot)?;
                received.begun.insert(entry);
                return Ok(file);
            }
        }
        self.staging.open(tree, entry, OFlags::WRONLY).map_err(cannot)
    }

    fn write_contents(&self, received: &Received, content_offset: u64, data: &[u8]) -> Result<(), StoreError> {
        for segment in received.tree.segments(content_offset..content_offset + data.len() as u64) {
            let at = (segment.content_offset - content_offset) as usize;
            self.write_segment(received, segment, &data[at..at + segment.len as usize])?;
        }
        Ok(())
    }

    fn write_segment(&self, received: &Received, segment: Segment, data: &[u8]) -> Result<(), StoreError> {
        let _entered = self.enter()?;
        let (tree, entry) = (&received.tree, segment.entry);
        let what = tree.entry(entry);
        let EntryKind::File { size, sparse } = what.kind else { unreachable!("segments are of files") };
        let cannot = |error: std::io::Error| self.error("write", tree, entry, error);
        let file = self.open_for_writing(received, entry)?;
        let write = |at: u64, run: &[u8]| file.write_all_at(run, at);
        if sparse {
            for_each_nonzero(segment.file_offset, data, write).map_err(cannot)?;
        } else {
            write(segment.file_offset, data).map_err(cannot)?;
        }
        // Most files of a tree lie within one piece and need not be opened again. One that its owner may not read
        // is left as it is until the end, to be served from.
        let stays_readable = self.restorer.is_root || what.attributes.mode & 0o400 != 0;
        if segment.len == size && stays_readable { self.seal(received, entry, &file) } else { Ok(()) }
    }

    /// Gives a file that has all its contents its attributes.
    fn seal(&self, received: &Received, entry: u32, file: &File) -> Result<(), StoreError> {
        let (tree, what) = (&received.tree, received.tree.entry(entry));
        let cannot = |error| self.error("set the attributes of", tree, entry, error);
        if let EntryKind::File { size, sparse: true } = what.kind {
            fs::ftruncate(file, size).map_err(cannot)?;
        }
        self.note_kept(self.restorer.restore(file, &what.attributes).map_err(cannot)?);
        if self.check_sealed(tree, entry, file).is_err() {
            self.keeps_times.store(false, Ordering::Release);
        }
        if !syncfs_tells_errors() {
            fs::fdatasync(file).map_err(|error| self.error("sync", tree, entry, error))?;
        }
        received.sealed.insert(entry);
        Ok(())
    }

    /// Whether the attributes of something that was made were kept.
    fn note_kept(&self, kept: bool) {
        self.lost_attributes.fetch_or(!kept, Ordering::AcqRel);
    }

    fn read_contents(&self, content_offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let Some(received) = self.received.get() else {
            let collecting = self.collecting();
            // The index may have been completed while this thread waited for the lock.
            if self.received.get().is_some() {
                drop(collecting);
                return self.read_contents(content_offset, buf);
            }
            return collecting.early.read_at(content_offset, buf);
        };
        for segment in received.tree.segments(content_offset..content_offset + buf.len() as u64) {
            let at = (segment.content_offset - content_offset) as usize;
            self.read_segment(received, segment, &mut buf[at..at + segment.len as usize])?;
        }
        Ok(())
    }

    fn read_segment(&self, received: &Received, segment: Segment, buf: &mut [u8]) -> Result<(), StoreError> {
        let (tree, entry) = (&received.tree, segment.entry);
        let cannot = |error: std::io::Error| self.error("read", tree, entry, error);
        let file = self.open_for_reading(tree, entry).map_err(|error| cannot(error.into()))?;
        let read = self.read_file(tree, segment, &file, buf).map_err(cannot);
        // Its user has it by its name, and may do with it what he likes.
        if received.sealed.contains(entry) && self.keeps_times.load(Ordering::Acquire) {
            self.check_sealed(tree, entry, &file)?;
        }
        read
    }

    /// Whether a file that has got all its attributes is still as it was.
    fn check_sealed(&self, tree: &Tree, entry: u32, file: &File) -> Result<(), StoreError> {
        let TreeEntry { kind: EntryKind::File { size, .. }, attributes, .. } = tree.entry(entry) else { return Ok(()) };
        let stamp = Stamp { size: *size, modified: (attributes.modified_s, attributes.modified_ns) };
        stamp.check(file, || below(&self.path, &tree.path(entry)))
    }

    fn read_file(&self, tree: &Tree, segment: Segment, file: &File, buf: &mut [u8]) -> std::io::Result<()> {
        let is_sparse = matches!(tree.entry(segment.entry).kind, EntryKind::File { sparse: true, .. });
        if !is_sparse {
            return file.read_exact_at(buf, segment.file_offset);
        }
        // The file gets its length at the end; what it does not reach yet are zeros that were left out.
        let mut filled = 0;
        while filled < buf.len() {
            match file.read_at(&mut buf[filled..], segment.file_offset + filled as u64)? {
                0 => break,
                len => filled += len,
            }
        }
        buf[filled..].fill(0);
        Ok(())
    }

    /// A file is in the partial directory until it has been merged into the destination.
    fn open_for_reading(&self, tree: &Tree, entry: u32) -> Result<File, Errno> {
        match (self.staging.open(tree, entry, OFlags::RDONLY), &self.destination) {
            (Err(Errno::NOENT), TreeDestination::Merge { dir, .. }) => {
                let path = tree.path(entry);
                let flags = OFlags::RDONLY | OFlags::NONBLOCK;
                open_beneath(dir, &path, flags, Mode::empty()).map(File::from)
            }
            (result, _) => result,
        }
    }

    /// Everything that is not a directory gets its final form within the partial directory.
    fn complete_entries(&self, received: &Received) -> Result<(), StoreError> {
        let tree = &received.tree;
        for (entry, what) in tree.entries() {
            if matches!(what.kind, EntryKind::File { .. }) && !received.sealed.contains(entry) {
                let _entered = self.enter()?;
                let file = self.open_for_writing(received, entry)?;
                self.seal(received, entry, &file)?;
            }
        }
        let links = |(_, what): &(u32, &TreeEntry)| matches!(what.kind, EntryKind::HardLink { .. });
        tree.entries().filter(links).try_for_each(|(entry, what)| self.make_link(tree, entry, what))?;
        let symlinks = |(_, what): &(u32, &TreeEntry)| matches!(what.kind, EntryKind::Symlink { .. });
        tree.entries().filter(symlinks).try_for_each(|(entry, what)| self.make_link(tree, entry, what))
    }

    fn make_link(&self, tree: &Tree, entry: u32, what: &TreeEntry) -> Result<(), StoreError> {
        let _entered = self.enter()?;
        let name = tree.name(entry);
        let make = || {
            let directory = self.staging.directory(tree, what.parent)?;
            match &what.kind {
                EntryKind::HardLink { target } => {
                    let from = self.staging.directory(tree, tree.entry(*target).parent)?;
                    fs::linkat(&*from, tree.name(*target), &*directory, name, AtFlags::empty())
                }
                EntryKind::Symlink { target } => {
                    fs::symlinkat(&**target, &*directory, name)?;
                    self.note_kept(self.restorer.restore_link(&directory, name, &what.attributes)?);
                    Ok(())
                }
                EntryKind::Directory | EntryKind::File { .. } => Ok(()),
            }
        };
        make().map_err(|error| self.cannot_make("create link", tree, entry, error))
    }

    /// Gives a directory its attributes: after those below it, because making anything in one changes its time.
    pub(super) fn restore_directory(&self, tree: &Tree, view: &View, entry: u32) -> Result<(), StoreError> {
        let restore = || {
            let directory = view.directory(tree, entry)?;
            self.restorer.restore(&directory, &tree.entry(entry).attributes)
        };
        let kept = restore().map_err(|error| self.error("set the attributes of", tree, entry, error))?;
        self.note_kept(kept);
        Ok(())
    }

    /// Puts everything that was written on disk: one call for the file system costs less than one for each file. Where that
    /// does not tell of what could not be written, files were synced one by one.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        fs::syncfs(&*self.staging.root).map_err(|error| StoreError::io("sync", &self.path, error))
    }

    /// The one step after which the sink is not abandoned any more, or cannot be finished any more; `abandon` waits for its end.
    fn name_it(&self, give_name: impl FnOnce() -> Result<(), StoreError>) -> Result<(), StoreError> {
        let mut phase = self.phase.write().unwrap_or_else(PoisonError::into_inner);
        if *phase == Phase::Abandoned {
            return Err(StoreError::Stopped);
        }
        give_name()?;
        *phase = Phase::Named;
        Ok(())
    }

    fn remove_partial(&self) {
        // Nothing can be done if it fails: the name itself says what the directory is.
        let _ = remove_tree(self.destination.parent(), &self.partial);
    }
}

impl Sink for DirectorySink {
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        match self.received.get() {
            Some(received) if offset >= self.index_length => {
                self.write_contents(received, offset - self.index_length, data)
            }
            _ => self.collect(offset, data),
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let of_index = self.index_length.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (index_part, contents) = buf.split_at_mut(of_index);
        if !index_part.is_empty() {
            self.collecting().index.read_at(offset, index_part)?;
        }
        self.read_contents((offset + of_index as u64).saturating_sub(self.index_length), contents)
    }

    fn finish(&self, length: u64) -> Result<Finished, StoreError> {
        let received = self.received.get().ok_or(StoreError::Incomplete { stored: 0, length })?;
        self.complete_entries(received)?;
        match &self.destination {
            TreeDestination::Place(place) => {
                let directories = received.tree.entries().filter(|(_, what)| what.kind == EntryKind::Directory);
                for (entry, _) in directories.rev() {
                    let _entered = self.enter()?;
                    self.restore_directory(&received.tree, &self.staging, entry)?;
                }
                self.sync()?;
                self.name_it(|| place.rename_from(&self.partial))?;
                place.sync()?;
            }
            TreeDestination::Merge { dir, replace, .. } => {
                self.sync()?;
                self.name_it(|| {
                    self.merge(&received.tree, dir, *replace)?;
                    self.remove_partial();
                    Ok(())
                })?;
                self.sync()?;
            }
        }
        let lost_attributes = self.lost_attributes.load(Ordering::Acquire);
        Ok(Finished { path: Some(self.path.clone()), bytes: None, lost_attributes })
    }

    fn abandon(&self) {
        let mut phase = self.phase.write().unwrap_or_else(PoisonError::into_inner);
        if *phase == Phase::Partial {
            *phase = Phase::Abandoned;
            drop(phase);
            self.remove_partial();
        }
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }
}
