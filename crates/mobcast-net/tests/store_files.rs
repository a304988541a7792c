//! Files, streams and buffers arrive whole, under the right name, or leave nothing.

mod store_common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mobcast_net::store::{Finished, ObjectSink, ObjectSource, SinkOptions, SinkTarget, StoreError};
use mobcast_proto::content::{Descriptor, FileMeta, ObjectKind};
use store_common::*;

fn file_of(path: &Path, length: usize) -> ObjectSource {
    let data: Vec<u8> = (0..length).map(|i| (i % 253) as u8 ^ (i / PIECE) as u8).collect();
    fs::write(path, data).expect("write");
    ObjectSource::open(path).expect("open")
}

fn named(name: &[u8], length: u64) -> Descriptor {
    Descriptor {
        kind: ObjectKind::File,
        name: name.to_owned(),
        meta: FileMeta { mode: 0o644, ..FileMeta::default() },
        length: Some(length),
        index_length: 0,
        piece_size: PIECE as u32,
        strategy: "mob".to_owned(),
    }
}

#[test]
fn files_of_all_lengths_arrive_with_mode_and_time() {
    let dir = tempdir();
    for length in [0, 1, PIECE - 1, PIECE, 3 * PIECE, 3 * PIECE + 1, 40 * PIECE + 77] {
        let (from, to) = (dir.path().join("from"), dir.path().join(format!("to-{length}")));
        fs::write(&from, "").expect("write");
        fs::set_permissions(&from, fs::Permissions::from_mode(0o751)).expect("chmod");
        let source = file_of(&from, length);
        drop(source);
        let when = UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
        fs::File::options().write(true).open(&from).expect("open").set_modified(when).expect("set time");
        let source = ObjectSource::open(&from).expect("open");
        let finished = copy(&source, to_path(&to), &options(false, false)).expect("copies");
        assert_eq!(finished.path.as_deref(), Some(&*to));
        assert!(fs::read(&to).expect("read") == fs::read(&from).expect("read"), "{length} bytes");
        let metadata = fs::metadata(&to).expect("stat");
        assert_eq!((metadata.mode() & 0o7777, metadata.modified().expect("time")), (0o751, when));
    }
    assert!(partials(dir.path()).is_empty());
}

#[test]
fn a_file_that_its_user_changes_is_not_served_any_more() {
    let dir = tempdir();
    let source = file_of(&dir.path().join("from"), 3 * PIECE);
    let (to, data) = (dir.path().join("to"), object(&source));
    let sink = ObjectSink::open(to_path(&to), &descriptor(&source), &options(false, false)).expect("open");
    fill(&sink, &data, 0).expect("writes");
    sink.finish(data.len() as u64).expect("finish");
    let mut back = vec![0; PIECE];
    sink.read_at(0, &mut back).expect("as it was received");
    assert!(sink.seems_unchanged() && back == data[..PIECE]);
    let file = fs::File::options().write(true).open(&to).expect("open");
    file.write_all_at(b"x", 2 * PIECE as u64).expect("write");
    file.set_modified(SystemTime::now() + Duration::from_secs(1)).expect("set time");
    let error = sink.read_at(0, &mut back).expect_err("any of it may be another");
    assert!(matches!(&error, StoreError::Changed { path, .. } if *path == to), "{error}");
    assert!(!sink.seems_unchanged());
    file.set_len(10).expect("truncate");
    assert!(matches!(sink.read_at(0, &mut back), Err(StoreError::Changed { .. })));
}

/// As on a file system that gives every file to one owner.
#[test]
fn a_file_whose_attributes_are_not_kept_arrives_all_the_same() {
    if fs::metadata("/proc/self").expect("stat").uid() != 0 {
        return skipped("a file can only be given to somebody else by root");
    }
    let dir = tempdir();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("chmod");
    let source = file_of(&dir.path().join("from"), 3 * PIECE);
    let data = object(&source);
    for preserve in [false, true] {
        let to = dir.path().join(format!("to-{preserve}"));
        let sink = ObjectSink::open(to_path(&to), &descriptor(&source), &options(false, preserve)).expect("open");
        fill(&sink, &data, 0).expect("writes");
        let finish = || {
            // SAFETY: it changes nothing but by which user this one thread, which ends with it, is seen by file systems.
            unsafe { libc::setfsuid(65_534) };
            sink.finish(data.len() as u64)
        };
        let finished = std::thread::scope(|scope| scope.spawn(finish).join().expect("no panic"));
        if preserve {
            let error = finished.expect_err("it was to be kept").to_string();
            assert!(error.starts_with("cannot set the attributes of "), "{error}");
        } else {
            assert!(finished.expect("its contents are there").lost_attributes);
            assert!(fs::read(&to).expect("read") == data);
        }
    }
    let kept = copy(&source, to_path(dir.path().join("kept")), &options(false, false)).expect("copies");
    assert!(!kept.lost_attributes);
}

#[test]
fn a_partial_file_has_another_name_and_goes_when_abandoned() {
    let dir = tempdir();
    let source = file_of(&dir.path().join("from"), 5 * PIECE);
    let to = dir.path().join("to");
    for by_drop in [false, true] {
        let sink = ObjectSink::open(to_path(&to), &descriptor(&source), &options(false, false)).expect("open");
        assert_eq!(sink.path(), Some(&*to));
        sink.write_at(0, &[1; PIECE]).expect("write");
        let partial = partials(dir.path());
        assert_eq!(partial.len(), 1);
        let name = partial[0].file_name().expect("name").to_string_lossy().into_owned();
        assert!(name.starts_with(".to.mobcast-partial-") && !to.exists());
        assert_eq!(fs::metadata(&partial[0]).expect("stat").mode() & 0o777, 0o600);
        if by_drop {
            drop(sink);
        } else {
            sink.abandon();
            assert!(matches!(sink.write_at(0, &[1; 10]), Err(StoreError::Stopped)));
            assert!(matches!(sink.finish(5 * PIECE as u64), Err(StoreError::Stopped)));
        }
        assert!(partials(dir.path()).is_empty() && !to.exists());
    }
}

#[test]
fn an_incomplete_object_is_not_finished() {
    let dir = tempdir();
    let source = file_of(&dir.path().join("from"), 2 * PIECE);
    let sink =
        ObjectSink::open(to_path(dir.path().join("to")), &descriptor(&source), &options(false, false)).expect("open");
    sink.write_at(0, &[1; PIECE]).expect("write");
    assert!(matches!(sink.finish(2 * PIECE as u64), Err(StoreError::Incomplete { .. })));
    assert!(matches!(sink.write_at(2 * PIECE as u64, &[1]), Err(StoreError::OutOfRange { .. })));
    drop(sink);
    assert!(!dir.path().join("to").exists());
}

#[test]
fn an_existing_destination_is_replaced_only_by_force() {
    let dir = tempdir();
    let source = file_of(&dir.path().join("from"), PIECE + 5);
    let to = dir.path().join("to");
    fs::write(&to, "precious").expect("write");
    let error = copy(&source, to_path(&to), &options(false, false)).expect_err("exists");
    assert!(matches!(error, StoreError::Exists { .. }) && error.is_local_io());
    assert!(error.to_string().contains("--force"), "{error}");
    assert_eq!(fs::read(&to).expect("read"), b"precious");
    copy(&source, to_path(&to), &options(true, false)).expect("forced");
    assert_eq!(fs::read(&to).expect("read"), object(&source));
    assert!(partials(dir.path()).is_empty());
}

#[test]
fn a_destination_that_appears_meanwhile_is_kept() {
    let dir = tempdir();
    let source = file_of(&dir.path().join("from"), 10);
    let to = dir.path().join("to");
    let sink = ObjectSink::open(to_path(&to), &descriptor(&source), &options(false, false)).expect("open");
    sink.write_at(0, &object(&source)).expect("write");
    fs::write(&to, "precious").expect("write");
    assert!(matches!(sink.finish(10), Err(StoreError::Exists { .. })));
    drop(sink);
    assert_eq!(fs::read(&to).expect("read"), b"precious");
    assert!(partials(dir.path()).is_empty());
}

#[test]
fn a_link_as_destination_is_replaced_itself() {
    let dir = tempdir();
    let source = file_of(&dir.path().join("from"), 10);
    fs::write(dir.path().join("victim"), "precious").expect("write");
    symlink("victim", dir.path().join("to")).expect("symlink");
    symlink("nowhere", dir.path().join("dangling")).expect("symlink");
    for name in ["to", "dangling"] {
        let to = dir.path().join(name);
        let refused = copy(&source, to_path(&to), &options(false, false));
        assert!(matches!(refused, Err(StoreError::Exists { .. })), "{name}");
        copy(&source, to_path(&to), &options(true, false)).expect("forced");
        assert!(!to.is_symlink());
    }
    assert_eq!(fs::read(dir.path().join("victim")).expect("read"), b"precious");
    assert!(!dir.path().join("nowhere").exists());
}

#[test]
fn a_directory_as_destination_takes_the_file_by_its_name() {
    let dir = tempdir();
    let source = file_of(&dir.path().join("from"), 10);
    let into = dir.path().join("into");
    fs::create_dir(&into).expect("mkdir");
    let finished = copy(&source, to_path(&into), &options(false, false)).expect("copies");
    assert_eq!(finished.path, Some(into.join("from")));
    assert!(matches!(copy(&source, to_path(&into), &options(false, false)), Err(StoreError::Exists { .. })));
    fs::remove_file(into.join("from")).expect("remove");
    fs::create_dir(into.join("from")).expect("mkdir");
    for force in [false, true] {
        let error = copy(&source, to_path(&into), &options(force, false)).expect_err("a directory is in the way");
        assert!(matches!(error, StoreError::Conflict { .. }), "no force helps: {error}");
    }
    let missing = copy(&source, to_path(dir.path().join("no/such/file")), &options(false, false));
    assert!(missing.expect_err("no parent").to_string().contains("no/such"));
    let slash = copy(&source, to_path(format!("{}/new/", dir.path().display())), &options(false, false));
    assert!(slash.expect_err("no such directory").to_string().contains("new/"));
}

#[test]
fn hostile_names_do_not_leave_the_directory() {
    let dir = tempdir();
    for name in [&b"../evil"[..], b"/etc/evil", b"..", b".", b"", b"a/b", b"a\0b", &[b'n'; 256]] {
        let error = ObjectSink::open(to_path(dir.path()), &named(name, 1), &options(true, false)).expect_err("refused");
        assert!(matches!(error, StoreError::NoName { .. }), "{name:?}: {error}");
        let given = ObjectSink::open(to_path(dir.path().join("x")), &named(name, 1), &options(true, false));
        given.expect("a given destination needs no name");
    }
    assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 0);
    let long = named(&[b'n'; 255], 1);
    let sink = ObjectSink::open(to_path(dir.path()), &long, &options(false, false)).expect("fits");
    sink.write_at(0, b"x").expect("write");
    sink.finish(1).expect("finish");
}

/// A single file comes without its owner: another one's set-uid program is not to become the receiver's.
#[test]
fn set_uid_of_a_single_file_is_dropped() {
    let dir = tempdir();
    let from = dir.path().join("from");
    drop(file_of(&from, 10));
    fs::set_permissions(&from, fs::Permissions::from_mode(0o6755)).expect("chmod");
    let source = ObjectSource::open(&from).expect("open");
    for preserve in [false, true] {
        let to = dir.path().join(format!("to-{preserve}"));
        copy(&source, to_path(&to), &options(false, preserve)).expect("copies");
        assert_eq!(fs::metadata(&to).expect("stat").mode() & 0o7777, 0o755);
    }
}

#[test]
fn a_sparse_file_stays_sparse() {
    let dir = tempdir();
    let from = dir.path().join("from");
    let file = fs::File::create(&from).expect("create");
    file.set_len(32 << 20).expect("truncate");
    file.write_all_at(&[7; 5000], 10 << 20).expect("write");
    file.sync_all().expect("sync");
    let source = ObjectSource::open(&from).expect("open");
    if !source.description().meta.sparse {
        return skipped("the file system for temporary files has no holes");
    }
    let to = dir.path().join("to");
    copy(&source, to_path(&to), &options(false, false)).expect("copies");
    assert!(fs::read(&to).expect("read") == fs::read(&from).expect("read"));
    let blocks = fs::metadata(&to).expect("stat").blocks();
    assert!(blocks * 512 < 1 << 20, "{blocks} blocks");
}

#[test]
fn what_cannot_fit_is_refused_before_anything_is_written() {
    let dir = tempdir();
    let huge = named(b"huge", 8 << 40);
    let error = ObjectSink::open(to_path(dir.path().join("to")), &huge, &options(false, false)).expect_err("8 TiB");
    let StoreError::NoSpace { needed, free, .. } = error else { panic!("{error}") };
    assert!(needed == Some(8 << 40) && free.is_some());
    assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 0);
}

fn stream_of(data: &[u8], spool_dir: &Path) -> ObjectSource {
    let (source, feeder) = ObjectSource::stream(spool_dir).expect("create");
    assert_eq!(feeder.run(data, |_| {}).expect("reads"), data.len() as u64);
    source
}

#[test]
fn a_stream_of_unknown_length_arrives_in_a_file_and_in_memory() {
    let dir = tempdir();
    for length in [0, 1, PIECE, 5 * PIECE + 1] {
        let data: Vec<u8> = (0..length).map(|i| (i % 241) as u8).collect();
        let source = stream_of(&data, dir.path());
        let to = dir.path().join(format!("to-{length}"));
        copy(&source, to_path(&to), &options(false, false)).expect("copies");
        assert_eq!(fs::read(&to).expect("read"), data);
        let finished = copy(&source, SinkTarget::Bytes { max: 1 << 20 }, &options(false, false)).expect("copies");
        assert_eq!(finished.bytes.as_deref(), Some(&data));
    }
    let error = copy(&stream_of(b"x", dir.path()), SinkTarget::Path(None), &options(false, false));
    assert!(matches!(error, Err(StoreError::NoName { .. })));
}

#[test]
fn memory_is_not_allocated_beyond_what_the_receiver_allows() {
    let source = ObjectSource::synthetic(1 << 40, 1).expect("generated");
    let error = ObjectSink::open(SinkTarget::Bytes { max: 1 << 20 }, &descriptor(&source), &options(false, false));
    assert!(matches!(error, Err(StoreError::TooLarge { .. })));
    let dir = tempdir();
    let source = stream_of(&[0; 3 * PIECE], dir.path());
    let error = copy(&source, SinkTarget::Bytes { max: 2 * PIECE as u64 }, &options(false, false));
    assert!(matches!(error, Err(StoreError::TooLarge { .. })));
}

#[test]
fn verify_only_leaves_nothing_but_serves() {
    let dir = tempdir();
    let spool = SinkOptions { spool_dir: dir.path().to_owned(), ..SinkOptions::default() };
    let synthetic = ObjectSource::synthetic(3 * PIECE as u64 + 9, 5).expect("generated");
    let bytes = ObjectSource::bytes(Arc::from(vec![3; 2 * PIECE + 1])).expect("small");
    for source in [synthetic, bytes] {
        assert_eq!(copy(&source, SinkTarget::Verify, &spool).expect("verifies"), Finished::default());
    }
    assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 0);
}

/// A pipe's end that remembers what was written.
#[derive(Clone, Default)]
struct Collected(Arc<Mutex<Vec<u8>>>);

impl Write for Collected {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("lock").extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_pipe_is_written_in_order_as_soon_as_there_is_no_gap() {
    let dir = tempdir();
    let data: Vec<u8> = (0..4 * PIECE).map(|i| (i / 7) as u8).collect();
    let source = stream_of(&data, dir.path());
    let output = Collected::default();
    let target = SinkTarget::Writer(Box::new(output.clone()));
    let sink = ObjectSink::open(target, &descriptor(&source), &options(false, false)).expect("open");
    let put = |piece: usize| sink.write_at((piece * PIECE) as u64, &data[piece * PIECE..][..PIECE]).expect("write");
    put(2);
    assert_eq!(sink.drain_ready().expect("drains"), 0);
    put(0);
    assert_eq!(sink.drain_ready().expect("drains"), PIECE as u64);
    put(1);
    assert_eq!(sink.drain_ready().expect("drains"), 3 * PIECE as u64);
    assert!(matches!(sink.finish(4 * PIECE as u64), Err(StoreError::Incomplete { .. })));
    put(3);
    sink.finish(4 * PIECE as u64).expect("complete");
    assert!(*output.0.lock().expect("lock") == data);
    let mut back = vec![0; PIECE];
    sink.read_at(PIECE as u64, &mut back).expect("what was written out is still served");
    assert!(back == data[PIECE..2 * PIECE]);
}

#[test]
fn a_named_pipe_ends_when_the_object_is_complete() {
    let dir = tempdir();
    let pipe = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let from = pipe.clone();
    let reader = std::thread::spawn(move || fs::read(from));
    let source = ObjectSource::synthetic(3 * PIECE as u64 + 1, 1).expect("generated");
    let data = object(&source);
    let sink = ObjectSink::open(to_path(&pipe), &descriptor(&source), &options(false, false)).expect("open");
    fill(&sink, &data, 0).expect("written");
    sink.finish(data.len() as u64).expect("complete");
    let patience = Instant::now() + Duration::from_secs(60);
    while !reader.is_finished() {
        assert!(Instant::now() < patience, "the reader waits for the end of the pipe");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(reader.join().expect("no panic").expect("read") == data);
    let mut back = vec![0; PIECE];
    sink.read_at(0, &mut back).expect("it is still served");
    assert_eq!(sink.drain_ready().expect("nothing is left"), data.len() as u64);
}

#[test]
fn only_generated_data_is_taken_for_generated_data() {
    let source = ObjectSource::synthetic(2 * PIECE as u64, 7).expect("generated");
    let data = object(&source);
    let sink = ObjectSink::open(SinkTarget::Verify, &descriptor(&source), &options(false, false)).expect("open");
    sink.write_at(3, &data[3..PIECE]).expect("it is what the seed generates");
    let mut other = data[PIECE..].to_vec();
    other[PIECE - 1] ^= 1;
    let error = sink.write_at(PIECE as u64, &other).expect_err("its last byte is another");
    assert!(matches!(error, StoreError::NotGenerated { seed: 7, .. }) && !error.is_local_io(), "{error}");
}

#[test]
fn a_source_that_changes_after_it_was_read_is_noticed_when_it_is_served() {
    let dir = tempdir();
    let path = dir.path().join("file");
    let source = file_of(&path, 3 * PIECE);
    let mut part = vec![0; PIECE];
    source.serve_at(PIECE as u64, &mut part).expect("nothing has changed");
    assert!(source.seems_unchanged());
    let file = fs::File::options().write(true).open(&path).expect("open");
    file.write_all_at(b"other", 0).expect("write");
    // Two writes within one tick of the kernel's clock would have the same time.
    file.set_modified(SystemTime::now() + Duration::from_secs(1)).expect("set time");
    assert!(!source.seems_unchanged());
    let error = source.serve_at(PIECE as u64, &mut part).expect_err("somebody wrote to it");
    assert!(matches!(error, StoreError::Changed { .. }), "{error}");
}

#[test]
fn a_file_that_may_not_be_read_is_named_before_anything_is_sent() {
    let dir = tempdir();
    fs::create_dir(dir.path().join("sub")).expect("mkdir");
    for name in ["sub/secret", "sub"] {
        fs::write(dir.path().join("sub/secret"), "x").expect("write");
        fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(0o0)).expect("chmod");
        let error = without_privileges(|| ObjectSource::open(dir.path()).expect_err("unreadable").to_string());
        let expected = format!("/{name}: Permission denied");
        fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(0o700)).expect("chmod");
        assert!(error.starts_with("cannot read /") && error.contains(&expected), "{error}");
    }
}

#[test]
fn a_closed_pipe_is_an_error_that_says_so() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let source = ObjectSource::synthetic(10, 1).expect("generated");
    let error = copy(&source, SinkTarget::Writer(Box::new(Closed)), &options(false, false)).expect_err("closed");
    assert!(error.is_broken_pipe() && error.is_local_io(), "{error}");
}

#[test]
fn a_character_device_is_written_in_order() {
    let source = ObjectSource::synthetic(2 * PIECE as u64 + 1, 1).expect("generated");
    copy(&source, to_path("/dev/null"), &options(false, false)).expect("copies");
    assert!(fs::metadata("/dev/null").expect("stat").mode() & 0o170_000 == 0o020_000, "still a device");
}

#[test]
fn what_waits_for_its_other_end_is_known_before_it_is_opened() {
    let dir = tempdir();
    let pipe = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).expect("mkfifo");
    assert!(to_path(&pipe).waits_for_reader() && to_path("/dev/null").waits_for_reader());
    assert!(!to_path(dir.path()).waits_for_reader() && !to_path(dir.path().join("copy")).waits_for_reader());
}

#[test]
fn a_block_device_is_read_and_written_in_place() {
    let dir = tempdir();
    let image = dir.path().join("image");
    fs::File::create(&image).expect("create").set_len(1 << 20).expect("truncate");
    let losetup = |arguments: &[&str]| std::process::Command::new("losetup").args(arguments).arg(&image).output();
    let device = match losetup(&["--find", "--show"]) {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => return skipped("a loop device needs root and `losetup`"),
    };
    let result = std::panic::catch_unwind(|| {
        let small = ObjectSource::synthetic(PIECE as u64 * 3 + 5, 1).expect("generated");
        let finished = copy(&small, to_path(&device), &options(false, false)).expect("copies");
        assert_eq!(finished.path.as_deref(), Some(Path::new(&device)));
        let source = ObjectSource::open(Path::new(&device)).expect("open");
        assert_eq!(source.description().length, Some(1 << 20));
        assert!(object(&source).starts_with(&object(&small)));
        source.check_unchanged().expect("devices are not compared");
        let large = ObjectSource::synthetic(2 << 20, 1).expect("generated");
        let error = copy(&large, to_path(&device), &options(false, false)).expect_err("too large");
        assert!(matches!(error, StoreError::DeviceTooSmall { .. }) && error.is_local_io(), "{error}");
    });
    let _ = std::process::Command::new("losetup").args(["--detach", &device]).status();
    result.expect("works on a block device");
}
