//! Directory trees arrive as they are, and hostile ones do not arrive.

mod store_common;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mobcast_net::store::{ObjectSink, ObjectSource, SinkTarget, StoreError};
use mobcast_proto::content::tree::{Attributes, EntryKind, TreeBuilder};
use mobcast_proto::content::{Descriptor, FileMeta, ObjectKind};
use mobcast_proto::wire::codec::Writer;
use store_common::*;

#[test]
fn a_file_that_changes_after_it_was_read_is_noticed_when_it_is_served() {
    let dir = tempdir();
    for name in ["small", "large"] {
        write(dir.path().join(name), &vec![1; if name == "small" { 100 } else { 200_000 }]);
    }
    let source = ObjectSource::open(dir.path()).expect("open");
    let data = object(&source);
    let mut all = vec![0; data.len()];
    source.serve_at(0, &mut all).expect("nothing has changed");
    for name in ["small", "large"] {
        set_time(&dir.path().join(name), 1_000_000_000);
        let error = source.serve_at(0, &mut all).expect_err("somebody may have written to it");
        assert!(matches!(error, StoreError::Changed { .. }) && error.to_string().contains(name), "{error}");
        fs::remove_file(dir.path().join(name)).expect("remove");
        let start = source.description().index_length as usize;
        let error = source.serve_at(start as u64, &mut all[start..]).expect_err("it is gone");
        assert!(matches!(error, StoreError::Changed { .. }), "{error}");
    }
}

#[test]
fn a_file_of_a_tree_that_its_user_changes_is_not_served_any_more() {
    let dir = tempdir();
    let (from, plain, merged) = (dir.path().join("from"), dir.path().join("plain"), dir.path().join("merged"));
    write(from.join("a/kept"), &[1; 2 * PIECE]);
    write(from.join("b/changed"), &[2; 2 * PIECE]);
    write(merged.join("mine"), b"mine");
    let source = ObjectSource::open(&from).expect("open");
    let (data, start) = (object(&source), source.description().index_length as usize);
    for (to, force) in [(plain, false), (merged, true)] {
        let sink = ObjectSink::open(to_path(&to), &descriptor(&source), &options(force, false)).expect("open");
        fill(&sink, &data, start).expect("writes");
        sink.finish(data.len() as u64).expect("finish");
        write(to.join("b/changed"), &[3; 2 * PIECE]);
        // Two writes within one tick of the kernel's clock would have the same time.
        set_time(&to.join("b/changed"), 2_000_000_000);
        let mut back = vec![0; 2 * PIECE];
        sink.read_at(start as u64, &mut back).expect("nobody has touched it");
        assert!(back == [1; 2 * PIECE]);
        let error = sink.read_at((start + 2 * PIECE) as u64, &mut back).expect_err("written to");
        assert!(matches!(&error, StoreError::Changed { path, .. } if *path == to.join("b/changed")), "{error}");
    }
}

#[test]
fn a_named_pipe_in_the_place_of_a_file_stops_nobody_who_reads() {
    let dir = tempdir();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    write(from.join("f"), &[1; PIECE]);
    let source = ObjectSource::open(&from).expect("open");
    let (data, start) = (object(&source), source.description().index_length);
    let sink = ObjectSink::open(to_path(&to), &descriptor(&source), &options(false, false)).expect("open");
    fill(&sink, &data, start as usize).expect("writes");
    sink.finish(data.len() as u64).expect("finish");
    fs::remove_file(to.join("f")).expect("remove");
    rustix::fs::mkfifoat(rustix::fs::CWD, to.join("f"), rustix::fs::Mode::RUSR).expect("mkfifo");
    let (sender, answers) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(sink.read_at(start, &mut [0; PIECE])));
    let answer = answers.recv_timeout(Duration::from_secs(60)).expect("nothing is waited for");
    assert!(matches!(answer, Err(StoreError::Changed { .. })), "{answer:?}");
}

#[test]
fn two_names_that_are_one_file_here_are_not_mixed() {
    let (dir, from) = (tempdir(), tempdir());
    write(from.path().join("a/one"), b"first");
    write(from.path().join("a/two"), &vec![2; 3 * PIECE]);
    let source = ObjectSource::open(from.path()).expect("open");
    let data = object(&source);
    let index_length = source.description().index_length as usize;
    let open = || {
        let sink = ObjectSink::open(to_path(dir.path().join("out")), &descriptor(&source), &options(false, false))
            .expect("open");
        sink.write_at(0, &data[..index_length]).expect("the index is right");
        let partial = partials(dir.path()).pop().expect("it has begun");
        (sink, partial)
    };
    // As on a file system where its name is that of another entry, which has come before.
    let (sink, partial) = open();
    write(partial.join("a/two"), b"of another entry");
    let error = sink.write_at(index_length as u64, &data[index_length..]).expect_err("it is there");
    assert!(matches!(&error, StoreError::SameFile { path } if path.ends_with("out/a/two")), "{error}");
    assert!(error.is_local_io());
    drop(sink);
    // A file that comes in several pieces is its own.
    let (sink, _partial) = open();
    for (at, part) in data[index_length..].chunks(PIECE / 3).enumerate() {
        sink.write_at((index_length + at * (PIECE / 3)) as u64, part).expect("written");
    }
    sink.finish(data.len() as u64).expect("complete");
    assert_eq!(fs::read(dir.path().join("out/a/two")).expect("there"), [2; 3 * PIECE]);
}

#[test]
fn a_tree_arrives_as_it_is() {
    let dir = tempdir();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir(&from).expect("mkdir");
    colourful(&from);
    let source = ObjectSource::open(&from).expect("open");
    let finished = copy(&source, to_path(&to), &options(false, true)).expect("copies");
    source.check_unchanged().expect("nobody wrote");
    assert_eq!(finished.path, Some(to.clone()));
    let without_times_of_links =
        |root| -> Vec<String> { fingerprint(root).into_iter().map(|line| line.replace("\"\"", "\".\"")).collect() };
    assert_eq!(without_times_of_links(&from), without_times_of_links(&to));
    assert!(partials(dir.path()).is_empty());
    if source.description().meta.sparse {
        assert!(fs::metadata(to.join("sparse")).expect("stat").blocks() * 512 < 1 << 20, "holes are kept");
    }
    let plain = dir.path().join("plain");
    copy(&source, to_path(&plain), &options(false, false)).expect("copies");
    assert_eq!(fs::metadata(plain.join("run")).expect("stat").mode() & 0o7777, 0o755, "set-uid is dropped");
}

#[test]
fn owners_are_kept_by_root_on_request() {
    if fs::metadata("/proc/self").expect("stat").uid() != 0 {
        return skipped("owners can only be given by root");
    }
    let dir = tempdir();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    write(from.join("f"), b"x");
    symlink("f", from.join("l")).expect("symlink");
    chmod(&from.join("f"), 0o4711);
    std::os::unix::fs::lchown(from.join("f"), Some(1234), Some(2345)).expect("chown");
    std::os::unix::fs::lchown(from.join("l"), Some(34), Some(45)).expect("chown");
    chmod(&from.join("f"), 0o4711);
    let source = ObjectSource::open(&from).expect("open");
    copy(&source, to_path(&to), &options(false, true)).expect("copies");
    let owner = |path: PathBuf| fs::symlink_metadata(path).map(|m| (m.uid(), m.gid())).expect("stat");
    assert_eq!((owner(to.join("f")), owner(to.join("l"))), ((1234, 2345), (34, 45)));
    assert_eq!(fs::metadata(to.join("f")).expect("stat").mode() & 0o7777, 0o4711);
    copy(&source, to_path(dir.path().join("plain")), &options(false, false)).expect("copies");
    assert_eq!(owner(dir.path().join("plain/f")), (0, 0));
}

#[test]
fn an_empty_tree_arrives() {
    let dir = tempdir();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir(&from).expect("mkdir");
    copy(&ObjectSource::open(&from).expect("open"), to_path(&to), &options(false, false)).expect("copies");
    assert_eq!(fs::read_dir(&to).expect("list").count(), 0);
}

#[test]
fn an_index_that_ends_within_a_piece_and_one_of_many_pieces_work() {
    let dir = tempdir();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir(&from).expect("mkdir");
    for i in 0..400u32 {
        let name = format!("{:08x}{}", i.wrapping_mul(0x9e37_79b9), "n".repeat(i as usize % 200));
        fs::write(from.join(name), i.to_le_bytes()).expect("write");
    }
    let source = ObjectSource::open(&from).expect("open");
    assert!(source.description().index_length > 2 * PIECE as u64);
    copy(&source, to_path(&to), &options(false, false)).expect("copies");
    assert_eq!(fingerprint(&from), fingerprint(&to));
}

#[test]
fn contents_may_come_before_the_index() {
    let dir = tempdir();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    write(from.join("f"), &[5; 3 * PIECE]);
    let source = ObjectSource::open(&from).expect("open");
    let data = object(&source);
    let sink = ObjectSink::open(to_path(&to), &descriptor(&source), &options(false, false)).expect("open");
    for offset in (0..data.len()).step_by(PIECE).rev() {
        let piece = &data[offset..data.len().min(offset + PIECE)];
        sink.write_at(offset as u64, piece).expect("write");
        let mut back = vec![0; piece.len()];
        sink.read_at(offset as u64, &mut back).expect("read");
        assert!(back == piece);
    }
    sink.finish(data.len() as u64).expect("finish");
    assert_eq!(fs::read(to.join("f")).expect("read"), [5; 3 * PIECE]);
}

#[test]
fn the_destination_is_the_name_of_the_tree() {
    let dir = tempdir();
    let from = dir.path().join("from");
    write(from.join("f"), b"x");
    let source = ObjectSource::open(&from).expect("open");
    let to = dir.path().join("to");
    let plain = options(false, false);
    fs::create_dir(&to).expect("mkdir");
    copy(&source, to_path(&to), &plain).expect("an empty directory is filled");
    assert_eq!(fs::read(to.join("f")).expect("read"), b"x");
    let error = copy(&source, to_path(&to), &plain).expect_err("not empty by now");
    assert!(matches!(error, StoreError::Exists { .. }), "{error}");
    assert!(error.to_string().contains("to/from") && error.to_string().contains("--force"), "{error}");
    copy(&source, to_path(to.join("from")), &plain).expect("as the message says");
    let left = dir.path().join("left");
    fs::create_dir_all(left.join(".tree.mobcast-partial-01234567")).expect("mkdir");
    let error = copy(&source, to_path(&left), &plain).expect_err("another one may be at work there").to_string();
    assert!(error.contains(&format!("rm -r {}/.*.mobcast-partial-*", left.display())), "{error}");
    fs::remove_dir_all(left).expect("remove");
    copy(&source, to_path(&to), &options(true, false)).expect("merges");
    fs::write(dir.path().join("file"), "x").expect("write");
    for force in [false, true] {
        let error = copy(&source, to_path(dir.path().join("file")), &options(force, false)).expect_err("a file");
        assert!(matches!(error, StoreError::Conflict { .. }) && error.is_local_io(), "no force helps: {error}");
    }
    let error = copy(&source, SinkTarget::Bytes { max: 1 << 20 }, &plain).expect_err("no stream");
    assert!(matches!(error, StoreError::Mismatch { .. }));
    copy(&source, SinkTarget::Verify, &plain).expect("verifies");
    assert!(partials(dir.path()).is_empty());
}

#[test]
fn a_name_that_cannot_be_is_refused_before_anything_is_written() {
    let dir = tempdir();
    let from = dir.path().join("from");
    write(from.join("f"), b"x");
    let source = ObjectSource::open(&from).expect("open");
    let to = dir.path().join("n".repeat(300));
    let error = ObjectSink::open(to_path(to), &descriptor(&source), &options(false, false)).expect_err("too long");
    assert!(error.is_local_io() && error.to_string().contains("name too long"), "{error}");
    assert!(partials(dir.path()).is_empty());
}

#[test]
fn abandoning_a_tree_leaves_nothing() {
    let dir = tempdir();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir(&from).expect("mkdir");
    colourful(&from);
    let source = ObjectSource::open(&from).expect("open");
    let data = object(&source);
    let existing = dir.path().join("existing");
    write(existing.join("mine"), b"mine");
    for (target, force) in [(&to, false), (&existing, true)] {
        let sink = ObjectSink::open(to_path(target), &descriptor(&source), &options(force, false)).expect("open");
        fill(&sink, &data, source.description().index_length as usize).expect("writes");
        assert_eq!(partials(dir.path()).len(), 1);
        sink.abandon();
        assert!(partials(dir.path()).is_empty());
        assert!(matches!(sink.write_at(0, &data[..PIECE]), Err(StoreError::Stopped)));
        drop(sink);
    }
    assert!(!to.exists());
    assert_eq!(fs::read_dir(&existing).expect("list").count(), 1);
}

#[test]
fn abandoning_while_others_write_leaves_nothing() {
    let dir = tempdir();
    let from = dir.path().join("from");
    fs::create_dir(&from).expect("mkdir");
    for i in 0..300u32 {
        write(from.join(format!("d{}/f{i}", i % 7)), &[i as u8; 1000]);
    }
    let source = ObjectSource::open(&from).expect("open");
    let (data, index_length) = (object(&source), source.description().index_length as usize);
    let mut abandoned = 0;
    for round in 0..20 {
        let to = dir.path().join("to");
        let sink = ObjectSink::open(to_path(&to), &descriptor(&source), &options(false, false)).expect("open");
        std::thread::scope(|scope| {
            let filler = scope.spawn(|| match fill(&sink, &data, index_length) {
                Ok(()) => drop(sink.finish(data.len() as u64)),
                Err(StoreError::Stopped | StoreError::Io { .. }) => {}
                Err(error) => panic!("{error}"),
            });
            std::thread::sleep(Duration::from_micros(round * 700));
            sink.abandon();
            filler.join().expect("no panic");
        });
        assert!(partials(dir.path()).is_empty(), "round {round}");
        if to.exists() {
            assert_eq!(fingerprint(&from), fingerprint(&to), "it was finished before");
            fs::remove_dir_all(to).expect("remove");
        } else {
            abandoned += 1;
        }
    }
    assert!(abandoned > 0, "each time it was finished before");
}

fn directory_of(index: &[u8], contents: u64) -> Descriptor {
    Descriptor {
        kind: ObjectKind::Directory,
        name: b"tree".to_vec(),
        meta: FileMeta::default(),
        length: Some(index.len() as u64 + contents),
        index_length: index.len() as u64,
        piece_size: PIECE as u32,
        strategy: "mob".to_owned(),
    }
}

#[test]
fn a_tree_with_links_is_refused_early_where_there_are_none() {
    let dir = tempdir();
    let (symbolic, hard) = (dir.path().join("symbolic"), dir.path().join("hard"));
    for from in [&symbolic, &hard] {
        write(from.join("sub/f"), &[1; PIECE]);
    }
    symlink("sub/f", symbolic.join("sub/symbolic")).expect("symlink");
    fs::hard_link(hard.join("sub/f"), hard.join("sub/hard")).expect("link");
    for from in [symbolic, hard] {
        let source = ObjectSource::open(&from).expect("open");
        let (data, index_length) = (object(&source), source.description().index_length as usize);
        let to = dir.path().join("to");
        let sink = ObjectSink::open(to_path(&to), &descriptor(&source), &options(false, false)).expect("open");
        let Some(result) = without_links(|| sink.write_at(0, &data[..index_length])) else {
            return skipped("the kernel filters no system calls");
        };
        let error = result.expect_err("no links").to_string();
        let link = to.join("sub").join(from.file_name().expect("it has one"));
        assert!(error.starts_with(&format!("cannot create link {}: ", link.display())), "{error}");
        drop(sink);
        assert!(partials(dir.path()).is_empty());
        copy(&source, to_path(&to), &options(false, false)).expect("there are links here");
        assert_eq!(fingerprint(&from), fingerprint(&to));
        fs::remove_dir_all(to).expect("remove");
    }
}

/// Kind (flags) and path of an entry, and what follows its attributes.
type RawEntry<'a> = (u8, &'a [u8], &'a [u8]);

/// An index that no source makes.
fn hostile_index(entries: &[RawEntry<'_>]) -> Vec<u8> {
    let mut out = Writer::new();
    out.u8(1).varint(entries.len() as u64 + 1);
    for (flags, path, rest) in [(0, &b""[..], &b""[..])].iter().chain(entries) {
        // Nothing shared, mode, owner, group, time in seconds and nanoseconds.
        out.u8(*flags).varint(0).bytes(path).varint(0o755).varint(0).varint(0).varint(0).varint(0).raw(rest);
    }
    out.into_bytes()
}

#[test]
fn a_hostile_index_writes_nothing_outside() {
    let dir = tempdir();
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).expect("mkdir");
    let out = outside.as_os_str().as_bytes();
    let mut link_target = Writer::new();
    link_target.bytes(out);
    let link_target = link_target.into_bytes();
    let absolute = [out, b"/evil"].concat();
    let (file, directory, link) = (1u8, 0u8, 2u8);
    let attacks: Vec<Vec<RawEntry<'_>>> = vec![
        vec![(file, &absolute, b"\0")],
        vec![(file, b"../outside/evil", b"\0")],
        vec![(directory, b"..", b"")],
        vec![(link, b"a", &link_target), (file, b"a/evil", b"\0")],
        vec![(link, b"a", &link_target), (directory, b"a", b""), (file, b"a/evil", b"\0")],
        vec![(link, b"a", &link_target), (file, b"a", b"\0")],
        vec![(file, b"a", b"\0"), (3, b"b", b"\x09")],
        vec![(file, b"a/b", b"\0")],
        vec![(file, b"a", b"\x05")],
    ];
    for attack in attacks {
        let index = hostile_index(&attack);
        let sink = ObjectSink::open(to_path(dir.path().join("to")), &directory_of(&index, 0), &options(true, true))
            .expect("open");
        let error = sink.write_at(0, &index).expect_err("refused");
        assert!(matches!(error, StoreError::Tree(_)) && !error.is_local_io(), "{attack:?}: {error}");
        drop(sink);
        assert_eq!(fs::read_dir(&outside).expect("list").count(), 0, "{attack:?}");
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1, "{attack:?}");
    }
    for index_length in [0, 1 << 40] {
        let descriptor = Descriptor { index_length, length: Some(1 << 41), ..directory_of(b"", 0) };
        let error = ObjectSink::open(to_path(dir.path().join("to")), &descriptor, &options(false, false));
        assert!(matches!(error, Err(StoreError::Tree(_))), "{error:?}");
    }
}

#[test]
fn a_hard_link_to_a_link_is_no_way_out() {
    let mut builder = TreeBuilder::new();
    builder.push(b"", Attributes::default(), EntryKind::Directory).expect("root");
    builder.push(b"a", Attributes::default(), EntryKind::Symlink { target: (*b"/etc").into() }).expect("link");
    assert!(builder.push(b"b", Attributes::default(), EntryKind::HardLink { target: 1 }).is_err());
}

#[test]
fn a_full_file_system_is_no_space() {
    let dir = tempdir();
    with_tmpfs(dir.path(), || fill_small_file_system(dir.path()));
}

fn fill_small_file_system(mount: &Path) {
    let no_space = |error: StoreError| {
        assert!(matches!(error, StoreError::NoSpace { .. }) && error.is_local_io(), "{error}");
        assert_eq!(fs::read_dir(mount).expect("list").count(), 0);
    };
    let plain = options(false, false);
    // Known beforehand.
    let large = ObjectSource::synthetic(2 << 20, 1).expect("generated");
    no_space(ObjectSink::open(to_path(mount.join("to")), &descriptor(&large), &plain).expect_err("2 MiB"));
    // Not known beforehand: a stream.
    let spool = tempdir();
    let (source, feeder) = ObjectSource::stream(spool.path()).expect("create");
    feeder.run(&vec![1; 2 << 20][..], |_| {}).expect("reads");
    no_space(copy(&source, to_path(mount.join("to")), &plain).expect_err("2 MiB"));
    // A tree is refused when its index is known: small files take whole blocks.
    let many = tempdir();
    (0..400).for_each(|i| write(many.path().join(format!("{i}")), b"x"));
    no_space(
        copy(&ObjectSource::open(many.path()).expect("open"), to_path(mount.join("to")), &plain).expect_err("400"),
    );
    // A spool that is full.
    let spool = mobcast_net::store::SinkOptions { spool_dir: mount.to_owned(), ..plain.clone() };
    let target = SinkTarget::Writer(Box::new(std::io::sink()));
    no_space(copy(&source, target, &spool).expect_err("2 MiB"));
    // A mount point cannot be renamed onto, but it can be filled.
    let small = tempdir();
    write(small.path().join("f"), b"fits");
    copy(&ObjectSource::open(small.path()).expect("open"), to_path(mount), &plain).expect("fits");
    assert_eq!(fs::read(mount.join("f")).expect("read"), b"fits");
}

#[test]
#[ignore = "takes some seconds; run it for the time per file"]
fn a_hundred_thousand_small_files() {
    let dir = tempdir();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    for i in 0..100_000u32 {
        let sub = from.join(format!("{:03}", i / 500));
        if i % 500 == 0 {
            fs::create_dir_all(&sub).expect("mkdir");
        }
        fs::write(sub.join(format!("file-{i:06}.txt")), [(i % 251) as u8; 4096]).expect("write");
    }
    let start = Instant::now();
    let source = ObjectSource::open(&from).expect("open");
    println!("scan: {:?}, index {} bytes", start.elapsed(), source.description().index_length);
    let start = Instant::now();
    let data = object(&source);
    println!("read: {:?}", start.elapsed());
    let start = Instant::now();
    source.check_unchanged().expect("nobody wrote");
    println!("check: {:?}", start.elapsed());
    let start = Instant::now();
    let sink = ObjectSink::open(to_path(&to), &descriptor(&source), &options(false, false)).expect("open");
    fill(&sink, &data, source.description().index_length as usize).expect("writes");
    println!("write and read back in pieces of 16 KiB: {:?}", start.elapsed());
    let start = Instant::now();
    sink.finish(data.len() as u64).expect("finish");
    println!("finish: {:?}", start.elapsed());
    assert_eq!(fingerprint(&from), fingerprint(&to));
    let sink = ObjectSink::open(to_path(dir.path().join("to2")), &descriptor(&source), &options(false, false));
    let sink = sink.expect("open");
    fill(&sink, &data, source.description().index_length as usize).expect("writes");
    let start = Instant::now();
    sink.abandon();
    println!("abandon: {:?}", start.elapsed());
}
