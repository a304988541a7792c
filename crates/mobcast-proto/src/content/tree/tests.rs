//! A tree index survives its encoding, and no byte string makes it lie.

use super::*;
use proptest::prelude::*;

const ATTRIBUTES: Attributes = Attributes { mode: 0o644, modified_s: 1_700_000_000, modified_ns: 5, uid: 0, gid: 0 };

fn file(size: u64) -> EntryKind {
    EntryKind::File { size, sparse: false }
}

fn build(entries: &[(&[u8], EntryKind)]) -> Result<Tree, TreeError> {
    let mut builder = TreeBuilder::new();
    builder.push(b"", ATTRIBUTES, EntryKind::Directory)?;
    for (path, kind) in entries {
        builder.push(path, ATTRIBUTES, kind.clone())?;
    }
    builder.finish()
}

/// The encoding of entries that no builder would accept, behind a valid root.
fn hostile(entries: &[(&[u8], EntryKind)]) -> Vec<u8> {
    let mut out = Writer::new();
    out.u8(1).varint(entries.len() as u64 + 1);
    let mut raw = |path: &[u8], kind: &EntryKind| {
        let number = match kind {
            EntryKind::Directory => 0,
            EntryKind::File { .. } => 1,
            EntryKind::Symlink { .. } => 2,
            EntryKind::HardLink { .. } => 3,
        };
        // Nothing shared; mode 0644, owner 0:0, times 0.
        out.u8(number).varint(0).bytes(path).varint(0o644).varint(0).varint(0).varint(0).varint(0);
        match kind {
            EntryKind::Directory => {}
            EntryKind::File { size, .. } => {
                out.varint(*size);
            }
            EntryKind::Symlink { target } => {
                out.bytes(target);
            }
            EntryKind::HardLink { target } => {
                out.varint(u64::from(*target));
            }
        }
    };
    raw(b"", &EntryKind::Directory);
    entries.iter().for_each(|(path, kind)| raw(path, kind));
    out.into_bytes()
}

fn refusal(entries: &[(&[u8], EntryKind)], content_length: u64) -> EntryProblem {
    match Tree::decode(&hostile(entries), content_length) {
        Err(TreeError::Entry { problem, .. }) => problem,
        other => panic!("{other:?} for {entries:?}"),
    }
}

fn link(target: &[u8]) -> EntryKind {
    EntryKind::Symlink { target: target.into() }
}

#[test]
fn the_encoding_helper_of_these_tests_writes_valid_entries() {
    let tree = Tree::decode(&hostile(&[(b"a", EntryKind::Directory), (b"a/b", file(3)), (b"c", link(b"/x"))]), 3);
    assert_eq!(tree.expect("valid").path(2), b"a/b");
}

#[test]
fn paths_that_leave_the_root_are_refused() {
    assert_eq!(refusal(&[(b"/etc", file(0))], 0), EntryProblem::Absolute);
    for path in [&b".."[..], b"../x", b"a/../x", b".", b"./a", b"a//b", b"a/", b"a/.", b"a/.."] {
        assert_eq!(refusal(&[(path, file(0))], 0), EntryProblem::Component, "{path:?}");
    }
    assert_eq!(refusal(&[(b"a\0b", file(0))], 0), EntryProblem::Nul);
    assert_eq!(refusal(&[(&[b'a'; 256], file(0))], 0), EntryProblem::ComponentLength);
    assert!(build(&[(&[b'a'; 255], file(0))]).is_ok());
}

#[test]
fn names_too_long_are_refused() {
    let component = [b'a'; 250];
    let mut path = component.to_vec();
    let mut entries: Vec<(Vec<u8>, EntryKind)> = vec![(path.clone(), EntryKind::Directory)];
    while path.len() + 251 <= PATH_BYTES_MAX {
        path.push(b'/');
        path.extend_from_slice(&component);
        entries.push((path.clone(), EntryKind::Directory));
    }
    let mut builder = TreeBuilder::new();
    builder.push(b"", ATTRIBUTES, EntryKind::Directory).expect("root");
    for (path, kind) in entries {
        builder.push(&path, ATTRIBUTES, kind).expect("within the limit");
    }
    path.push(b'/');
    path.extend_from_slice(&component);
    let error = builder.push(&path, ATTRIBUTES, EntryKind::Directory);
    assert!(matches!(error, Err(TreeError::Entry { problem: EntryProblem::PathLength, .. })));
}

#[test]
fn the_parent_must_be_an_earlier_directory() {
    assert_eq!(refusal(&[(b"a/b", file(0))], 0), EntryProblem::Parent);
    assert_eq!(refusal(&[(b"a", file(0)), (b"a/b", file(0))], 0), EntryProblem::Parent);
    // The classic attack: a link that leads out, then a file "inside" of it.
    assert_eq!(refusal(&[(b"a", link(b"/etc")), (b"a/passwd", file(0))], 0), EntryProblem::Parent);
    assert_eq!(refusal(&[(b"a", EntryKind::Directory), (b"ab/c", file(0))], 0), EntryProblem::Parent);
    assert_eq!(refusal(&[(b"a", EntryKind::Directory), (b"a/b/c", file(0))], 0), EntryProblem::Parent);
}

#[test]
fn no_path_comes_twice_or_out_of_order() {
    assert_eq!(refusal(&[(b"a", file(0)), (b"a", file(0))], 0), EntryProblem::Order);
    assert_eq!(refusal(&[(b"a", EntryKind::Directory), (b"a", link(b"/"))], 0), EntryProblem::Order);
    assert_eq!(refusal(&[(b"b", file(0)), (b"a", file(0))], 0), EntryProblem::Order);
    // By bytes alone "a-b" would come before "a/c"; by components it does not.
    assert!(build(&[(b"a", EntryKind::Directory), (b"a/c", file(0)), (b"a-b", file(0))]).is_ok());
    let bytewise = [(&b"a"[..], EntryKind::Directory), (b"a-b", file(0)), (b"a/c", file(0))];
    assert_eq!(refusal(&bytewise, 0), EntryProblem::Order);
}

#[test]
fn the_root_comes_first_and_once() {
    assert_eq!(refusal(&[(b"", EntryKind::Directory)], 0), EntryProblem::Root);
    let mut out = Writer::new();
    out.u8(1).varint(1).u8(1).varint(0).bytes(b"a").varint(0).varint(0).varint(0).varint(0).varint(0).varint(0);
    let error = Tree::decode(&out.into_bytes(), 0);
    assert_eq!(error, Err(TreeError::Entry { entry: 0, problem: EntryProblem::Root }));
    let empty = Tree::decode(&[1, 0], 0);
    assert_eq!(empty, Err(TreeError::Entry { entry: 0, problem: EntryProblem::Root }));
}

#[test]
fn hard_links_point_to_earlier_files() {
    assert!(build(&[(b"a", file(1)), (b"b", EntryKind::HardLink { target: 1 })]).is_ok());
    for target in [0, 2, 3, 99, u32::MAX] {
        let entries = [(&b"a"[..], file(1)), (b"b", EntryKind::HardLink { target }), (b"c", file(1))];
        assert_eq!(refusal(&entries, 2), EntryProblem::HardLinkTarget, "{target}");
    }
}

#[test]
fn link_targets_are_kept_verbatim_but_neither_empty_nor_with_nul() {
    let tree = build(&[(b"a", link(b"../../../etc/\xff")), (b"b", link(b"/"))]).expect("links may point anywhere");
    assert_eq!(Tree::decode(&tree.encode(), 0).as_ref(), Ok(&tree));
    assert_eq!(refusal(&[(b"a", link(b""))], 0), EntryProblem::LinkTarget);
    assert_eq!(refusal(&[(b"a", link(b"x\0y"))], 0), EntryProblem::Nul);
}

#[test]
fn sizes_add_up_and_do_not_overflow() {
    let entries = [(&b"a"[..], file(10)), (b"b", file(20))];
    assert_eq!(Tree::decode(&hostile(&entries), 31), Err(TreeError::Length { sum: 30, length: 31 }));
    assert_eq!(refusal(&[(b"a", file(u64::MAX)), (b"b", file(2))], 1), EntryProblem::Size);
    assert_eq!(refusal(&[(b"a", file(OBJECT_BYTES_MAX)), (b"b", file(1))], 1), EntryProblem::Size);
}

#[test]
fn attributes_are_checked() {
    let mut builder = TreeBuilder::new();
    for bad in [Attributes { mode: 0o10000, ..ATTRIBUTES }, Attributes { modified_ns: 1_000_000_000, ..ATTRIBUTES }] {
        let error = builder.push(b"", bad, EntryKind::Directory);
        assert_eq!(error, Err(TreeError::Entry { entry: 0, problem: EntryProblem::Attributes }));
    }
}

#[test]
fn a_count_of_entries_is_not_believed() {
    let mut out = Writer::new();
    out.u8(1).varint(TREE_ENTRIES_MAX as u64);
    assert!(matches!(Tree::decode(&out.into_bytes(), 0), Err(TreeError::Encoding(DecodeError::Short(_)))));
    let mut out = Writer::new();
    out.u8(1).varint(TREE_ENTRIES_MAX as u64 + 1);
    assert!(matches!(Tree::decode(&out.into_bytes(), 0), Err(TreeError::Encoding(DecodeError::Limit { .. }))));
    assert_eq!(Tree::decode(&[2, 0], 0), Err(TreeError::Version(2)));
    assert!(Tree::decode(&[], 0).is_err());
}

#[test]
fn bytes_behind_the_last_entry_are_refused() {
    let mut index = build(&[(b"a", file(1))]).expect("valid").encode();
    index.push(0);
    assert_eq!(Tree::decode(&index, 1), Err(TreeError::Encoding(DecodeError::Long(1))));
}

#[test]
fn ranges_map_to_parts_of_files() {
    let tree = build(&[(b"a", file(10)), (b"b", file(0)), (b"c", file(5)), (b"d", file(1))]).expect("valid");
    let segments = |range| tree.segments(range).map(|s| (s.entry, s.file_offset, s.len)).collect::<Vec<_>>();
    assert_eq!(segments(0..16), [(1, 0, 10), (3, 0, 5), (4, 0, 1)]);
    assert_eq!(segments(9..11), [(1, 9, 1), (3, 0, 1)]);
    assert_eq!(segments(10..10), []);
    assert_eq!(segments(15..99), [(4, 0, 1)]);
    assert_eq!(segments(16..99), []);
    assert_eq!(build(&[]).expect("valid").segments(0..1).count(), 0);
}

#[test]
fn an_index_takes_few_bytes_per_file() {
    let mut builder = TreeBuilder::new();
    builder.push(b"", ATTRIBUTES, EntryKind::Directory).expect("root");
    for i in 0..10_000u32 {
        let attributes = Attributes { modified_ns: i * 7919 % 1_000_000_000, ..ATTRIBUTES };
        builder.push(format!("file-{i:06}").as_bytes(), attributes, file(4096)).expect("valid");
    }
    let len = builder.finish().expect("valid").encode().len();
    assert!(len < 10_000 * 16, "{len} bytes for 10,000 files");
}

fn any_kind() -> impl Strategy<Value = EntryKind> {
    prop_oneof![
        2 => Just(EntryKind::Directory),
        4 => (0u64..10_000, any::<bool>()).prop_map(|(size, sparse)| EntryKind::File { size, sparse }),
        1 => proptest::collection::vec(1u8.., 1..20).prop_map(|target| link(&target)),
        1 => (0u32..20).prop_map(|target| EntryKind::HardLink { target }),
    ]
}

prop_compose! {
    fn any_attributes()(mode in 0u32..0o10000, modified_s in any::<i64>(), modified_ns in 0u32..1_000_000_000,
                        uid in any::<u32>(), gid in any::<u32>()) -> Attributes {
        Attributes { mode, modified_s, modified_ns, uid, gid }
    }
}

fn any_path() -> impl Strategy<Value = Vec<u8>> {
    let component = prop_oneof![Just(b"a".to_vec()), Just(b"b".to_vec()), proptest::collection::vec(48u8.., 1..4)];
    proptest::collection::vec(component, 1..4).prop_map(|components| components.join(&b'/'))
}

/// Whatever of the given entries forms a valid tree.
fn valid_tree(root: Attributes, mut entries: Vec<(Vec<u8>, Attributes, EntryKind)>) -> Tree {
    entries.sort_by(|a, b| a.0.split(|&c| c == b'/').cmp(b.0.split(|&c| c == b'/')));
    let mut builder = TreeBuilder::new();
    builder.push(b"", root, EntryKind::Directory).expect("root");
    for (path, attributes, kind) in entries {
        // Entries that break a rule are left out, which the builder must survive as well.
        let _ = builder.push(&path, attributes, kind);
    }
    builder.finish().expect("has a root")
}

proptest! {
    #[test]
    fn a_tree_survives_its_encoding_in_steps_of_any_size(
        root in any_attributes(),
        entries in proptest::collection::vec((any_path(), any_attributes(), any_kind()), 0..60),
        step in 1usize..100,
    ) {
        let tree = valid_tree(root, entries);
        let index = tree.encode();
        let mut decoder = TreeDecoder::new();
        for bytes in index.chunks(step) {
            decoder.feed(bytes).expect("valid");
        }
        prop_assert_eq!(&decoder.finish(tree.content_length()).expect("valid"), &tree);
    }

    #[test]
    fn segments_cover_any_range_once(
        sizes in proptest::collection::vec(0u64..50, 0..20), start in 0u64..1100, len in 0u64..1100,
    ) {
        let names: Vec<String> = (0..sizes.len()).map(|i| format!("{i:04}")).collect();
        let entries: Vec<(&[u8], EntryKind)> =
            names.iter().zip(&sizes).map(|(name, &size)| (name.as_bytes(), file(size))).collect();
        let tree = build(&entries).expect("valid");
        let end = (start + len).min(tree.content_length());
        let mut at = start;
        for segment in tree.segments(start..start + len) {
            prop_assert_eq!(segment.content_offset, at);
            prop_assert!(segment.len > 0);
            let EntryKind::File { size, .. } = tree.entry(segment.entry).kind else { panic!("not a file") };
            prop_assert!(segment.file_offset + segment.len <= size);
            at += segment.len;
        }
        prop_assert_eq!(at, end.max(start));
    }

    #[test]
    fn random_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), length in any::<u64>()) {
        let _ = Tree::decode(&bytes, length);
        if bytes.len() > 2 {
            bytes[0] = 1;
            bytes[1] = 9;
            let _ = Tree::decode(&bytes, length);
        }
    }

    #[test]
    fn a_flipped_byte_never_panics_nor_leaves_the_root(at in any::<u16>(), value in any::<u8>()) {
        let tree = build(&[(b"a", EntryKind::Directory), (b"a/b", file(3)), (b"c", link(b"a")), (b"d", file(9))])
            .expect("valid");
        let mut index = tree.encode();
        let at = usize::from(at) % index.len();
        index[at] = value;
        if let Ok(tree) = Tree::decode(&index, 12) {
            for (entry, _) in tree.entries() {
                let path = tree.path(entry);
                prop_assert!(!path.starts_with(b"/") && !path.split(|&c| c == b'/').any(|part| part == b".."));
            }
        }
    }
}
