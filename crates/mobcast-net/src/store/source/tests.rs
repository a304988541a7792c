//! Sources give the bytes of what they stand for, name what they cannot read, and notice changes.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use mobcast_proto::content::tree::{EntryKind, Tree};

use rustix::fs::Mode;

use super::*;

fn read_all(source: &ObjectSource) -> Vec<u8> {
    let mut data = vec![0; source.available().expect("available").bytes as usize];
    source.read_at(0, &mut data).expect("read");
    data
}

fn decode(source: &ObjectSource) -> Tree {
    let description = source.description();
    let index_length = description.index_length as usize;
    let data = read_all(source);
    Tree::decode(&data[..index_length], (data.len() - index_length) as u64).expect("valid index")
}

#[test]
fn a_file_is_read_at_any_offset() {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = dir.path().join("weights.bin");
    let data: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
    fs::write(&path, &data).expect("write");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("chmod");
    let source = ObjectSource::open(&path).expect("open");
    let description = source.description();
    assert_eq!((description.kind, description.length), (ObjectKind::File, Some(100_000)));
    assert_eq!((&description.name[..], description.meta.mode), (&b"weights.bin"[..], 0o640));
    let mut part = vec![0; 1000];
    source.read_at(77_777, &mut part).expect("read");
    assert_eq!(part, data[77_777..78_777]);
    assert!(matches!(source.read_at(99_999, &mut part), Err(StoreError::OutOfRange { .. })));
    source.check_unchanged().expect("nobody wrote");
}

#[test]
fn a_dense_file_of_few_blocks_has_no_holes() {
    let file = tempfile::tempfile().expect("a file");
    if !tells_of_holes(&file) {
        let _ = std::io::stderr().write_all(b"SKIPPED the test of holes: this file system does not tell of them\n");
        return;
    }
    file.write_all_at(&[1; 100_000], 0).expect("room");
    assert!(has_few_blocks(0, 100_000), "as if it was compressed");
    assert!(!has_holes(&file, 100_000));
    file.set_len(1_000_000).expect("truncate");
    assert!(has_few_blocks(file.metadata().expect("stat").blocks(), 1_000_000));
    assert!(has_holes(&file, 1_000_000));
}

#[test]
fn a_file_that_changes_is_found_out() {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = dir.path().join("log");
    fs::write(&path, [1; 1000]).expect("write");
    let source = ObjectSource::open(&path).expect("open");
    fs::OpenOptions::new().append(true).open(&path).expect("open").write_all(b"more").expect("append");
    assert!(matches!(source.check_unchanged(), Err(StoreError::Changed { .. })));
    let source = ObjectSource::open(&path).expect("open");
    let file = fs::OpenOptions::new().write(true).open(&path).expect("open");
    file.write_all_at(b"x", 0).expect("write");
    // Two writes within one tick of the kernel's clock would have the same time.
    file.set_modified(SystemTime::now() + std::time::Duration::from_secs(1)).expect("set time");
    assert!(matches!(source.check_unchanged(), Err(StoreError::Changed { .. })));
    file.set_len(10).expect("truncate");
    let error = source.read_at(5, &mut [0; 20]).expect_err("too short by now");
    assert!(matches!(error, StoreError::Changed { .. }) && !error.is_local_io(), "{error}");
}

#[test]
fn what_cannot_be_opened_is_named() {
    let dir = tempfile::tempdir().expect("tempdir");
    let error = ObjectSource::open(&dir.path().join("nothing")).expect_err("not there").to_string();
    assert!(error.starts_with("cannot read /") && error.contains("nothing: No such file"), "{error}");
    let error = ObjectSource::open(Path::new("/dev/null")).expect_err("a device").to_string();
    assert!(error.contains("character device"), "{error}");
    let error = ObjectSource::open(Path::new("/proc/version")).expect_err("a file of no size").to_string();
    assert!(error.contains("it has contents and no size") && error.contains("use -"), "{error}");
    let _socket = UnixListener::bind(dir.path().join("socket")).expect("bind");
    let error = ObjectSource::open(&dir.path().join("socket")).expect_err("a socket").to_string();
    assert!(error.contains("it is a socket"), "{error}");
    let error = ObjectSource::open(dir.path()).expect_err("a socket inside").to_string();
    assert!(error.contains("/socket: it is a socket"), "{error}");
    fs::remove_file(dir.path().join("socket")).expect("remove");
    rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("fifo"), Mode::RUSR).expect("mkfifo");
    let error = ObjectSource::open(dir.path()).expect_err("a fifo inside").to_string();
    assert!(error.contains("/fifo: it is a named pipe"), "{error}");
}

#[test]
fn a_directory_keeps_everything_in_a_fixed_order() {
    let dir = tempfile::tempdir().expect("tempdir");
    let root = dir.path().join("tree");
    fs::create_dir_all(root.join("a/empty")).expect("mkdir");
    fs::write(root.join("a/x"), "xx").expect("write");
    fs::write(root.join("a-b"), "").expect("write");
    fs::hard_link(root.join("a/x"), root.join("z")).expect("link");
    symlink("/etc/../nowhere", root.join("link")).expect("symlink");
    fs::write(root.join(OsStr::from_bytes(b"\xff\xfe")), "odd").expect("write");
    let sparse = File::create(root.join("sparse")).expect("create");
    sparse.set_len(1 << 20).expect("truncate");
    let source = ObjectSource::open(&root).expect("open");
    let tree = decode(&source);
    let paths: Vec<Vec<u8>> = (0..tree.len()).map(|entry| tree.path(entry)).collect();
    let expected: [&[u8]; 9] = [b"", b"a", b"a/empty", b"a/x", b"a-b", b"link", b"sparse", b"z", b"\xff\xfe"];
    assert_eq!(paths, expected);
    assert_eq!(tree.entry(5).kind, EntryKind::Symlink { target: (*b"/etc/../nowhere").into() });
    assert_eq!(tree.entry(6).kind, EntryKind::File { size: 1 << 20, sparse: true });
    assert_eq!(tree.entry(7).kind, EntryKind::HardLink { target: 3 });
    assert!(source.description().meta.sparse);
    let data = read_all(&source);
    let contents = &data[source.description().index_length as usize..];
    assert_eq!((&contents[..2], &contents[contents.len() - 3..]), (&b"xx"[..], &b"odd"[..]));
    assert_eq!(read_all(&ObjectSource::open(&root).expect("again")), data);
}

#[test]
fn a_file_of_a_directory_that_changes_is_named() {
    let dir = tempfile::tempdir().expect("tempdir");
    fs::create_dir(dir.path().join("sub")).expect("mkdir");
    fs::write(dir.path().join("sub/f"), "1234").expect("write");
    fs::write(dir.path().join("sub/empty"), "").expect("write");
    let source = ObjectSource::open(dir.path()).expect("open");
    let length = source.description().length.expect("known");
    let read = || source.read_at(length - 2, &mut [0; 2]);
    read().and_then(|()| source.check_unchanged()).expect("nobody wrote");
    fs::write(dir.path().join("sub/f"), "12345").expect("write");
    let error = read().expect_err("changed").to_string();
    assert!(error.contains("sub/f changed while"), "{error}");
    source.check_unchanged().expect("what was read is not looked at once more");
    fs::write(dir.path().join("sub/empty"), "1").expect("write");
    let error = source.check_unchanged().expect_err("changed").to_string();
    assert!(error.contains("sub/empty changed while"), "{error}");
    // A link in the place of the file is not followed out of the tree.
    fs::remove_file(dir.path().join("sub/f")).expect("remove");
    symlink("/etc/passwd", dir.path().join("sub/f")).expect("symlink");
    let error = read().expect_err("a link");
    assert!(matches!(error, StoreError::Changed { .. }), "{error}");
}

#[test]
fn a_directory_of_many_small_files_is_read_by_several_threads() {
    let dir = tempfile::tempdir().expect("tempdir");
    for i in 0..500u32 {
        fs::write(dir.path().join(format!("f{i:03}")), i.to_le_bytes()).expect("write");
    }
    fs::write(dir.path().join("large"), vec![9; 300_000]).expect("write");
    let source = ObjectSource::open(dir.path()).expect("open");
    let whole = read_all(&source);
    std::thread::scope(|scope| {
        for start in 0..4 {
            let (source, whole) = (&source, &whole);
            scope.spawn(move || {
                for offset in (start * 100..whole.len() - 1000).step_by(997) {
                    let mut part = vec![0; 1000];
                    source.read_at(offset as u64, &mut part).expect("read");
                    assert_eq!(part, whole[offset..offset + 1000]);
                }
            });
        }
    });
    let contents = &whole[source.description().index_length as usize..];
    assert!((0..500u32).all(|i| contents[i as usize * 4..][..4] == i.to_le_bytes()));
}

#[test]
fn memory_and_generated_data_are_sources() {
    let source = ObjectSource::bytes(Arc::from(&b"hello"[..])).expect("small");
    assert_eq!((source.description().kind, read_all(&source)), (ObjectKind::Bytes, b"hello".to_vec()));
    let source = ObjectSource::synthetic(1000, 3).expect("small");
    let mut expected = vec![0; 1000];
    synthetic_fill(3, 0, &mut expected);
    assert_eq!(read_all(&source), expected);
    assert!(matches!(ObjectSource::synthetic(u64::MAX, 0), Err(StoreError::TooLarge { .. })));
}

#[test]
fn a_stream_is_readable_while_it_runs_and_complete_at_its_end() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (source, feeder) = ObjectSource::stream(dir.path()).expect("create");
    let (reader, mut writer) = std::io::pipe().expect("pipe");
    let thread = std::thread::spawn(move || feeder.run(reader, |_| {}));
    writer.write_all(&[1; 1000]).expect("write");
    assert_eq!(source.wait_available(1000).expect("open"), Available { bytes: 1000, complete: false });
    let mut part = [0; 10];
    source.read_at(990, &mut part).expect("read");
    assert!(matches!(source.read_at(991, &mut part), Err(StoreError::OutOfRange { .. })));
    writer.write_all(&[2; 500]).expect("write");
    drop(writer);
    assert_eq!(source.wait_available(9999).expect("ended"), Available { bytes: 1500, complete: true });
    assert_eq!(thread.join().expect("no panic").expect("read"), 1500);
    source.read_at(1490, &mut part).expect("read");
    assert_eq!(part, [2; 10]);
}

#[test]
fn a_stream_that_fails_or_is_stopped_is_not_complete() {
    struct Failing;
    impl std::io::Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the tape broke"))
        }
    }
    let dir = tempfile::tempdir().expect("tempdir");
    let (source, feeder) = ObjectSource::stream(dir.path()).expect("create");
    assert!(feeder.run(Failing, |_| {}).is_err());
    let error = source.wait_available(1).expect_err("failed").to_string();
    assert!(error.contains("the tape broke"), "{error}");
    let (source, feeder) = ObjectSource::stream(dir.path()).expect("create");
    drop(feeder);
    assert!(source.wait_available(1).is_err());
    let (source, feeder) = ObjectSource::stream(dir.path()).expect("create");
    source.stop();
    assert!(matches!(source.wait_available(1), Err(StoreError::Stopped)));
    assert!(matches!(feeder.run(&b"late"[..], |_| {}), Err(StoreError::Stopped)));
}
