//! Directory trees with everything that must be kept, and the description by which two of them are compared.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Bytes of the file with a hole.
pub const SPARSE_BYTES: u64 = 8 << 20;

/// A tree with one of each kind.
pub fn of_every_kind(root: &Path) {
    fs::create_dir_all(root.join("a/b/empty directory")).expect("made");
    fs::write(root.join("a/file"), super::data(100_000)).expect("written");
    fs::write(root.join("a/empty"), "").expect("written");
    fs::write(root.join("a/read only"), "x").expect("written");
    fs::write(root.join(OsStr::from_bytes(b"not utf-8 \xff\xfe \n")), "y").expect("written");
    fs::hard_link(root.join("a/file"), root.join("a/b/the same file")).expect("linked");
    symlink("file", root.join("a/link")).expect("linked");
    symlink("/etc/passwd", root.join("a/link to outside")).expect("linked");
    symlink("../../../..", root.join("a/link upwards")).expect("linked");
    symlink("nowhere", root.join("a/dangling link")).expect("linked");
    let sparse = File::create(root.join("sparse")).expect("made");
    sparse.write_all_at(b"end", SPARSE_BYTES - 3).expect("written");
    set_mode(&root.join("a/read only"), 0o440);
    set_mode(&root.join("a/empty"), 0o711);
    set_mode(&root.join("a/b"), 0o750);
    let times = ["a/file", "a/read only", "a/b/empty directory", "a/b", "a", "sparse", "."];
    for (number, path) in times.into_iter().enumerate() {
        set_time(&root.join(path), Duration::new(1_000_000_000 + number as u64, 123_456_789));
    }
}

pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("mode is set");
}

pub fn set_time(path: &Path, since_epoch: Duration) {
    File::open(path).and_then(|file| file.set_modified(UNIX_EPOCH + since_epoch)).expect("time is set");
}

/// A line for each entry: path, kind, mode, time of modification, contents or target, and with which other paths it is
/// one file.
pub fn describe(root: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    collect(root, &mut paths);
    paths.sort();
    let mut first_of_inode = BTreeMap::new();
    paths
        .iter()
        .map(|path| {
            let metadata = fs::symlink_metadata(path).expect("there");
            let relative = path.strip_prefix(root).expect("below");
            let first = first_of_inode.entry(metadata.ino()).or_insert(relative.to_owned());
            let what = if metadata.is_symlink() {
                // The time of a link is not kept by every file system.
                return format!("{relative:?} link to {:?}", fs::read_link(path).expect("a link"));
            } else if metadata.is_dir() {
                "directory".to_owned()
            } else {
                format!("{} bytes {}", metadata.len(), blake3::hash(&fs::read(path).expect("readable")))
            };
            let (mode, s, ns) = (metadata.mode(), metadata.mtime(), metadata.mtime_nsec());
            format!("{relative:?} {mode:o} {s}.{ns:09} same as {first:?} {what}")
        })
        .collect()
}

fn collect(path: &Path, paths: &mut Vec<PathBuf>) {
    paths.push(path.to_owned());
    if fs::symlink_metadata(path).expect("there").is_dir() {
        fs::read_dir(path).expect("readable").for_each(|entry| collect(&entry.expect("readable").path(), paths));
    }
}
