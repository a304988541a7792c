//! Merging a tree into a directory that is there: whole or not at all, and without following a link.

mod store_common;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use mobcast_net::store::{ObjectSink, ObjectSource, StoreError};
use store_common::*;

#[test]
fn merging_replaces_files_and_keeps_everything_else() {
    let dir = tempdir();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir(&from).expect("mkdir");
    colourful(&from);
    write(to.join("a/small"), b"old");
    write(to.join("a/mine"), b"mine");
    write(to.join("other/mine"), b"mine");
    write(to.join("link"), b"was a file");
    chmod(&to.join("a"), 0o700);
    let source = ObjectSource::open(&from).expect("open");
    assert!(matches!(copy(&source, to_path(&to), &options(false, false)), Err(StoreError::Exists { .. })));
    assert_eq!(fs::read(to.join("a/small")).expect("read"), b"old");
    copy(&source, to_path(&to), &options(true, false)).expect("merges");
    let read = |path: &str| fs::read(to.join(path)).expect("read");
    assert_eq!((read("a/small"), read("a/mine"), read("other/mine")), ("small".into(), "mine".into(), "mine".into()));
    assert_eq!(fs::read_link(to.join("link")).expect("readlink"), Path::new("a/small"));
    assert_eq!(fs::metadata(to.join("a")).expect("stat").mode() & 0o777, 0o700, "it was there");
    assert_eq!(fs::metadata(to.join("hollow")).expect("stat").mode() & 0o777, 0o555, "it was made");
    let inode = |path: &str| fs::metadata(to.join(path)).expect("stat").ino();
    assert_eq!(inode("a/large"), inode("large-again"));
    assert!(partials(dir.path()).is_empty());
}

#[test]
fn merging_never_follows_a_link_of_the_destination() {
    let dir = tempdir();
    let (from, to, outside) = (dir.path().join("from"), dir.path().join("to"), dir.path().join("outside"));
    write(from.join("sub/file"), b"new");
    write(from.join("top"), b"new");
    write(outside.join("file"), b"precious");
    fs::create_dir(&to).expect("mkdir");
    symlink(&outside, to.join("sub")).expect("symlink");
    symlink(outside.join("file"), to.join("top")).expect("symlink");
    let source = ObjectSource::open(&from).expect("open");
    copy(&source, to_path(&to), &options(true, false)).expect("merges");
    assert_eq!(fs::read(outside.join("file")).expect("read"), b"precious");
    assert_eq!(fs::read_dir(&outside).expect("list").count(), 1);
    assert!(!to.join("sub").is_symlink() && !to.join("top").is_symlink());
    assert_eq!(fs::read(to.join("sub/file")).expect("read"), b"new");
}

#[test]
fn a_directory_in_the_place_of_a_file_is_refused_early() {
    let dir = tempdir();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    write(from.join("a/x"), b"file");
    write(to.join("a/x/precious"), b"precious");
    let error = copy(&ObjectSource::open(&from).expect("open"), to_path(&to), &options(true, false));
    let error = error.expect_err("conflict");
    assert!(matches!(error, StoreError::Conflict { .. }) && error.to_string().contains("to/a/x"), "{error}");
    assert_eq!(fs::read(to.join("a/x/precious")).expect("read"), b"precious");
    assert!(partials(dir.path()).is_empty());
}

#[test]
fn abandoning_during_a_merge_leaves_no_half_tree() {
    let dir = tempdir();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    for i in 0..3000u32 {
        write(from.join(format!("d{}/f{i}", i % 7)), b"");
    }
    fs::create_dir(&to).expect("mkdir");
    let source = ObjectSource::open(&from).expect("open");
    let (data, index_length) = (object(&source), source.description().index_length as usize);
    let sink = ObjectSink::open(to_path(&to), &descriptor(&source), &options(false, false)).expect("open");
    fill(&sink, &data, index_length).expect("writes");
    std::thread::scope(|scope| {
        let finishing = scope.spawn(|| sink.finish(data.len() as u64));
        while !to.join("d0").exists() && !finishing.is_finished() {
            std::thread::yield_now();
        }
        sink.abandon();
        assert_eq!(fs::read_dir(&to).expect("list").count(), 7, "nothing is missing, and nothing partial is left");
        assert!(finishing.join().expect("no panic").is_ok());
    });
    // The first line is of the root, which was there.
    assert!(fingerprint(&from)[1..] == fingerprint(&to)[1..], "the trees differ");
}

#[test]
fn a_tree_is_not_merged_half_where_another_file_system_is_mounted() {
    let dir = tempdir();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    write(from.join("a"), b"new");
    write(from.join("sub/f"), b"new");
    write(to.join("a"), b"old");
    fs::create_dir(to.join("sub")).expect("mkdir");
    with_tmpfs(&to.join("sub"), || {
        let error = copy(&ObjectSource::open(&from).expect("open"), to_path(&to), &options(true, false));
        let error = error.expect_err("nothing can be renamed to there");
        assert!(matches!(&error, StoreError::OtherFileSystem { path } if *path == to.join("sub")), "{error}");
        assert!(error.is_local_io());
        assert_eq!(fs::read(to.join("a")).expect("read"), b"old");
        assert!(partials(dir.path()).is_empty());
    });
}

#[test]
fn a_tree_is_not_merged_half_where_its_receiver_may_not_write() {
    let dir = tempdir();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    write(from.join("a"), b"new");
    write(from.join("sub/below/f"), b"new");
    write(to.join("a"), b"old");
    fs::create_dir(to.join("sub")).expect("mkdir");
    chmod(&to.join("sub"), 0o555);
    let source = ObjectSource::open(&from).expect("open");
    let merge = || without_privileges(|| copy(&source, to_path(&to), &options(true, false)));
    let error = merge().expect_err("not permitted").to_string();
    assert!(error.starts_with("cannot write into directory ") && error.contains("/to/sub: Permission"), "{error}");
    assert_eq!(fs::read(to.join("a")).expect("read"), b"old");
    chmod(&to.join("sub"), 0o755);
    merge().expect("it may by now");
}

#[test]
fn a_tree_is_not_merged_half_where_another_user_s_file_cannot_be_replaced() {
    const USER: u32 = 4321;
    if !rustix::process::geteuid().is_root() {
        return skipped("another user's directory needs root");
    }
    let dir = tempdir();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    chmod(dir.path(), 0o755);
    write(from.join("a"), b"new");
    write(from.join("sub/f"), b"new");
    write(to.join("a"), b"old");
    write(to.join("sub/f"), b"old");
    if std::os::unix::fs::chown(&to, Some(USER), None).is_err() {
        return skipped("this root has no other users");
    }
    [&from, &from.join("sub"), &to].into_iter().for_each(|dir| chmod(dir, 0o755));
    [&from.join("a"), &from.join("sub/f")].into_iter().for_each(|file| chmod(file, 0o644));
    chmod(&to.join("sub"), 0o1777);
    let source = ObjectSource::open(&from).expect("open");
    let merge = || as_user(USER, || copy(&source, to_path(&to), &options(true, false)));
    let error = merge().expect_err("it is of somebody else").to_string();
    assert!(error.starts_with("cannot replace ") && error.contains("/to/sub/f: Operation not"), "{error}");
    assert_eq!(fs::read(to.join("a")).expect("read"), b"old");
    std::os::unix::fs::chown(to.join("sub/f"), Some(USER), None).expect("chown");
    merge().expect("its own file");
    assert_eq!(fs::read(to.join("sub/f")).expect("read"), b"new");
    copy(&source, to_path(&to), &options(true, false)).expect("root may");
}

#[test]
fn a_tree_is_not_merged_half_where_a_file_is_mounted() {
    let dir = tempdir();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    write(from.join("a"), b"new");
    write(from.join("b"), b"new");
    write(to.join("a"), b"old");
    write(to.join("b"), b"old");
    write(dir.path().join("other"), b"other");
    let mount = ["--bind".into(), dir.path().join("other"), to.join("b")];
    with_mount(&mount, || {
        let error = copy(&ObjectSource::open(&from).expect("open"), to_path(&to), &options(true, false));
        let error = error.expect_err("a mount point cannot be replaced");
        assert!(matches!(&error, StoreError::OtherFileSystem { path } if *path == to.join("b")), "{error}");
        assert_eq!(fs::read(to.join("a")).expect("read"), b"old");
    });
}
