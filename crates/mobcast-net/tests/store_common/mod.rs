//! Copying an object from a source to a sink piece by piece, in any order, as a driver would.

#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

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
