//! Copying an object from a source to a sink piece by piece, in any order, as a driver would.

#![allow(dead_code, reason = "each test file uses its part")]

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::panic::UnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use mobcast_net::store::{Finished, ObjectSink, ObjectSource, SinkOptions, SinkTarget, StoreError};
use mobcast_proto::content::Descriptor;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

pub const PIECE: usize = 16384;

pub fn descriptor(source: &ObjectSource) -> Descriptor {
    source.description().clone().into_descriptor(PIECE as u32, "mob")
}

pub fn to_path(path: impl Into<PathBuf>) -> SinkTarget {
    SinkTarget::Path(Some(path.into()))
}

pub fn options(force: bool, preserve: bool) -> SinkOptions {
    SinkOptions { force, preserve, ..SinkOptions::default() }
}

pub fn tempdir() -> tempfile::TempDir {
    tempfile::tempdir().expect("tempdir")
}

pub fn write(path: PathBuf, data: &[u8]) {
    fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
    fs::write(path, data).expect("write");
}

pub fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
}

pub fn set_time(path: &Path, seconds: u64) {
    let file = fs::File::open(path).expect("open");
    file.set_modified(UNIX_EPOCH + Duration::new(seconds, 987_654_321)).expect("set time");
}

/// Says that a test is left out, past the macros, whose output is not shown for tests that pass.
pub fn skipped(reason: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let _ = std::io::stderr().write_all(format!("SKIPPED {test}: {reason}\n").as_bytes());
}

/// Does something on a thread that may do with files what their modes permit, also if root runs the tests.
pub fn without_privileges<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let restricted = || {
        let mut sets = capabilities(None).expect("it is itself");
        for set in [&mut sets.effective, &mut sets.permitted] {
            set.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
        }
        set_capabilities(None, sets).expect("it may have fewer");
        work()
    };
    std::thread::scope(|scope| scope.spawn(restricted).join().expect("no panic"))
}

/// A tree with one of everything that is to be kept.
pub fn colourful(root: &Path) {
    write(root.join("a/small"), b"small");
    write(root.join("a/empty"), b"");
    write(root.join("a/large"), &(0..5 * PIECE).map(|i| (i % 255) as u8).collect::<Vec<u8>>());
    write(root.join("a/b/c/deep"), b"deep");
    write(root.join("run"), b"#!/bin/sh\n");
    write(root.join(OsStr::from_bytes(b"\xff not \xfe utf-8")), b"odd");
    fs::create_dir(root.join("hollow")).expect("mkdir");
    fs::hard_link(root.join("a/large"), root.join("large-again")).expect("link");
    fs::hard_link(root.join("a/empty"), root.join("empty-again")).expect("link");
    symlink("a/small", root.join("link")).expect("symlink");
    symlink("/etc/passwd", root.join("outward")).expect("symlink");
    symlink("../../../nowhere", root.join("a/dangling")).expect("symlink");
    let sparse = fs::File::create(root.join("sparse")).expect("create");
    sparse.set_len(4 << 20).expect("truncate");
    sparse.write_all_at(b"data", 1 << 20).expect("write");
    chmod(&root.join("run"), 0o4755);
    chmod(&root.join("a/small"), 0o440);
    for (i, path) in ["a/small", "a/b/c/deep", "a/b", "a/large", "hollow", "sparse", "a", ""].iter().enumerate() {
        set_time(&root.join(path), 1_000_000_000 + i as u64 * 1000);
    }
    chmod(&root.join("hollow"), 0o555);
}

/// Does something while a small file system is mounted at a directory, if this process may do that.
pub fn with_tmpfs(at: &Path, work: impl FnOnce() + UnwindSafe) {
    let arguments = ["-t", "tmpfs", "-o", "size=1m", "tmpfs"].map(PathBuf::from);
    with_mount(&[&arguments[..], &[at.to_owned()]].concat(), work);
}

/// Does something while something is mounted, by these arguments, of which the last is the place.
pub fn with_mount(arguments: &[PathBuf], work: impl FnOnce() + UnwindSafe) {
    let mounted = std::process::Command::new("mount").args(arguments).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return skipped("mounting needs root");
    }
    let at = arguments.last().expect("a place");
    let result = std::panic::catch_unwind(work);
    let unmounted = std::process::Command::new("umount").arg(at).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    result.expect("behaves on a small file system");
}

/// Does something on a thread for which no file system makes links; nothing where the kernel filters no system calls.
pub fn without_links<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    let statement = |code: u32, jt, k: u32| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    let returned = |value| statement(libc::BPF_RET | libc::BPF_K, 0, value);
    let skip_if = |jt, call: libc::c_long| statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jt, call as u32);
    let mut filter = [
        // The number of the system call.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        skip_if(2, libc::SYS_linkat),
        skip_if(1, libc::SYS_symlinkat),
        returned(libc::SECCOMP_RET_ALLOW),
        returned(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
    ];
    let restricted = || {
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the kernel copies the program, which lives until then; both calls concern this thread alone.
        let is_filtered = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
        };
        is_filtered.then(work)
    };
    std::thread::scope(|scope| scope.spawn(restricted).join().expect("no panic"))
}

/// Does something on a thread of another user.
pub fn as_user<T: Send>(user: u32, work: impl FnOnce() -> T + Send) -> T {
    let other = || {
        let user = rustix::fs::Uid::from_raw(user);
        rustix::thread::set_thread_res_uid(user, user, user).expect("root may");
        work()
    };
    std::thread::scope(|scope| scope.spawn(other).join().expect("no panic"))
}

/// The bytes of an object.
pub fn object(source: &ObjectSource) -> Vec<u8> {
    let length = source.wait_available(u64::MAX).expect("readable").bytes;
    let mut data = vec![0; length as usize];
    source.read_at(0, &mut data).expect("readable");
    data
}

/// Offsets of the pieces: those of the index in order, the others in a fixed disorder.
pub fn piece_offsets(length: usize, index_length: usize) -> Vec<usize> {
    let (mut first, mut rest): (Vec<usize>, Vec<usize>) =
        (0..length).step_by(PIECE).partition(|&offset| offset < index_length);
    rest.sort_by_key(|offset| (offset / PIECE).wrapping_mul(0x9e37_79b9) % 1009);
    first.append(&mut rest);
    first
}

/// Writes all pieces, those behind the index from three threads, and reads each back at once.
pub fn fill(sink: &ObjectSink, data: &[u8], index_length: usize) -> Result<(), StoreError> {
    let offsets = piece_offsets(data.len(), index_length);
    let of_index = index_length.div_ceil(PIECE).min(offsets.len());
    let put = |offset: usize| -> Result<(), StoreError> {
        let piece = &data[offset..data.len().min(offset + PIECE)];
        sink.write_at(offset as u64, piece)?;
        let mut back = vec![0xa5; piece.len()];
        sink.read_at(offset as u64, &mut back)?;
        assert!(back == piece, "the piece at {offset} reads as it was written");
        Ok(())
    };
    offsets[..of_index].iter().try_for_each(|&offset| put(offset))?;
    let next = AtomicUsize::new(of_index);
    let work = || -> Result<(), StoreError> {
        while let Some(&offset) = offsets.get(next.fetch_add(1, Ordering::Relaxed)) {
            put(offset)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

/// Copies a whole object, and checks that it can still be served when it is finished.
pub fn copy(source: &ObjectSource, target: SinkTarget, options: &SinkOptions) -> Result<Finished, StoreError> {
    let data = object(source);
    let sink = ObjectSink::open(target, &descriptor(source), options)?;
    fill(&sink, &data, source.description().index_length as usize)?;
    let finished = sink.finish(data.len() as u64)?;
    let mut back = vec![0xa5; data.len()];
    sink.read_at(0, &mut back)?;
    assert!(back == data, "a finished sink can serve everything");
    Ok(finished)
}

/// Whatever is in a directory but should not: partial files.
pub fn partials(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("list") {
        let path = entry.expect("entry").path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().contains("mobcast-partial")) {
            found.push(path.clone());
        }
        if path.is_dir() && !path.is_symlink() {
            found.extend(partials(&path));
        }
    }
    found
}

/// One line for each entry of a tree, with everything that must be kept.
pub fn fingerprint(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    walk(root, root, &mut lines);
    lines.sort();
    lines
}

fn walk(root: &Path, at: &Path, lines: &mut Vec<String>) {
    let metadata = fs::symlink_metadata(at).expect("stat");
    let what = if metadata.is_symlink() {
        format!("link to {:?}", fs::read_link(at).expect("readlink"))
    } else if metadata.is_dir() {
        "directory".to_owned()
    } else {
        format!("file {} links, {}", metadata.nlink(), blake3::hash(&fs::read(at).expect("read")))
    };
    lines.push(format!(
        "{:?} {:o} {}.{:09} {what}",
        at.strip_prefix(root).expect("below"),
        metadata.mode(),
        metadata.mtime(),
        metadata.mtime_nsec()
    ));
    if metadata.is_dir() {
        fs::read_dir(at).expect("list").for_each(|entry| walk(root, &entry.expect("entry").path(), lines));
    }
}
