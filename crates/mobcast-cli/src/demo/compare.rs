//! Comparing copies with their source: contents byte by byte, and of a tree also kinds, modes, times and link targets.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::local;
use crate::failure::{Failure, Outcome, Status};

/// Set-uid, set-gid and sticky bits are dropped on receiving.
const MODE_KEPT: u32 = 0o777;
const BLOCK_BYTES: usize = 1 << 20;

/// Compares each copy with the source, and a file's BLAKE3 value with the object hash that the sender reported.
pub fn all(source: &Path, copies: &[PathBuf], object_hash: &str) -> Outcome {
    let unreadable = |error| local(format_args!("cannot compare the copies: {error}"));
    if fs::metadata(source).map_err(unreadable)?.is_file() {
        let hash = hash(source).map_err(unreadable)?.to_string();
        if hash != object_hash {
            return Err(differs(source, &format!("the report has the hash {object_hash}, it has {hash}")));
        }
    }
    for copy in copies {
        match compare(source, copy).map_err(unreadable)? {
            None => {}
            Some((path, what)) => return Err(differs(&path, what)),
        }
    }
    Ok(())
}

fn differs(path: &Path, what: &str) -> Failure {
    Failure::new(Status::Failed, format_args!("{} differs from the source: {what}", path.display()))
}

fn hash(path: &Path) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut io::BufReader::with_capacity(BLOCK_BYTES, File::open(path)?), &mut hasher)?;
    Ok(hasher.finalize())
}

/// The first difference: the path of the copy and what is different about it.
fn compare(source: &Path, copy: &Path) -> io::Result<Option<(PathBuf, &'static str)>> {
    let different = |what| Ok(Some((copy.to_owned(), what)));
    let Ok(there) = fs::symlink_metadata(copy) else { return different("it is missing") };
    let here = fs::symlink_metadata(source)?;
    if here.file_type() != there.file_type() {
        return different("it is of another kind");
    }
    if here.is_symlink() {
        return if fs::read_link(source)? == fs::read_link(copy)? { Ok(None) } else { different("its target") };
    }
    if let Some(what) = attributes(&here, &there) {
        return different(what);
    }
    if here.is_dir() {
        return compare_entries(source, copy);
    }
    if contents_equal(source, copy)? { Ok(None) } else { different("its contents") }
}

fn compare_entries(source: &Path, copy: &Path) -> io::Result<Option<(PathBuf, &'static str)>> {
    let names = |dir: &Path| -> io::Result<Vec<_>> {
        let mut names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    };
    let expected = names(source)?;
    if expected != names(copy)? {
        return Ok(Some((copy.to_owned(), "it has other entries")));
    }
    for name in expected {
        let difference = compare(&source.join(&name), &copy.join(&name))?;
        if difference.is_some() {
            return Ok(difference);
        }
    }
    Ok(None)
}

fn attributes(here: &Metadata, there: &Metadata) -> Option<&'static str> {
    let time = |metadata: &Metadata| (metadata.mtime(), metadata.mtime_nsec());
    if here.mode() & MODE_KEPT != there.mode() & MODE_KEPT {
        return Some("its mode");
    }
    (time(here) != time(there)).then_some("its time of modification")
}

fn contents_equal(source: &Path, copy: &Path) -> io::Result<bool> {
    let (mut here, mut there) = (File::open(source)?, File::open(copy)?);
    if here.metadata()?.len() != there.metadata()?.len() {
        return Ok(false);
    }
    let (mut expected, mut found) = (vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]);
    loop {
        let n = here.read(&mut expected)?;
        if n == 0 {
            return Ok(true);
        }
        there.read_exact(&mut found[..n])?;
        if expected[..n] != found[..n] {
            return Ok(false);
        }
    }
}

/// Bytes of a file, or of all files of a tree.
pub fn size(path: &Path) -> Outcome<u64> {
    tree_size(path).map_err(|error| local(format_args!("cannot read {}: {error}", path.display())))
}

fn tree_size(path: &Path) -> io::Result<u64> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    // Sparse files may have more bytes than a number holds.
    fs::read_dir(path)?.try_fold(0, |sum: u64, entry| Ok(sum.saturating_add(tree_size(&entry?.path())?)))
}

/// Makes all directories of a tree writable, so that it can be removed.
pub fn make_removable(path: &Path) {
    // What does not work here shows when the tree is removed.
    let _ = fs::set_permissions(path, Permissions::from_mode(0o700));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_removable(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(root: &Path) {
        fs::create_dir_all(root.join("sub/empty")).expect("made");
        fs::write(root.join("sub/file"), vec![7; BLOCK_BYTES + 1]).expect("written");
        std::os::unix::fs::symlink("nowhere", root.join("link")).expect("linked");
        for path in ["sub/file", "sub/empty", "sub", "."] {
            let time = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1));
            File::open(root.join(path)).and_then(|file| file.set_times(time)).expect("set");
        }
    }

    /// What a change to the copy is found as.
    fn found(change: impl FnOnce(&Path)) -> Option<&'static str> {
        let dir = tempfile::tempdir().expect("directory");
        let (source, copy) = (dir.path().join("source"), dir.path().join("copy"));
        tree(&source);
        tree(&copy);
        change(&copy);
        assert_eq!(size(&source).expect("readable"), BLOCK_BYTES as u64 + 1 + "nowhere".len() as u64);
        compare(&source, &copy).expect("readable").map(|(_, what)| what)
    }

    fn keeping_time(path: &Path, change: impl FnOnce(&Path)) {
        let time = fs::metadata(path).and_then(|metadata| metadata.modified()).expect("time");
        change(path);
        File::open(path).and_then(|file| file.set_modified(time)).expect("set");
    }

    #[test]
    fn every_difference_is_found() {
        assert_eq!(found(|_| {}), None);
        let last_byte = |path: &Path| {
            let mut data = fs::read(path).expect("read");
            *data.last_mut().expect("a byte") ^= 1;
            fs::write(path, data).expect("written");
        };
        assert_eq!(found(|copy| keeping_time(&copy.join("sub/file"), last_byte)), Some("its contents"));
        let mode = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o600)).expect("set");
        assert_eq!(found(|copy| mode(&copy.join("sub/file"))), Some("its mode"));
        assert_eq!(found(|copy| last_byte(&copy.join("sub/file"))), Some("its time of modification"));
        let add = |path: &Path| fs::write(path.join("more"), "").expect("written");
        assert_eq!(found(|copy| keeping_time(copy, add)), Some("it has other entries"));
        let retarget = |path: &Path| {
            fs::remove_file(path.join("link")).expect("removed");
            std::os::unix::fs::symlink("elsewhere", path.join("link")).expect("linked");
        };
        assert_eq!(found(|copy| keeping_time(copy, retarget)), Some("its target"));
        assert_eq!(found(|copy| fs::remove_dir_all(copy).expect("removed")), Some("it is missing"));
    }

    #[test]
    fn the_object_hash_is_held_against_the_file() {
        let dir = tempfile::tempdir().expect("directory");
        let (source, copy) = (dir.path().join("source"), dir.path().join("copy"));
        fs::write(&source, "x").expect("written");
        fs::hard_link(&source, &copy).expect("linked");
        let right = blake3::hash(b"x").to_string();
        assert_eq!(all(&source, std::slice::from_ref(&copy), &right), Ok(()));
        assert!(all(&source, &[copy], "wrong").is_err());
    }
}
