//! Any bytes as the index of a directory object. What is accepted names no place outside of the tree, and its files
//! lie side by side in the object.

use mobcast_proto::content::tree::{EntryKind, Tree, TreeDecoder};

/// The first bytes say what the object's length is supposed to be and in which steps the index comes.
pub fn run(data: &[u8]) {
    let Some((length, rest)) = data.split_first_chunk::<4>() else { return };
    let Some((&step, index)) = rest.split_first() else { return };
    let length = u64::from(u32::from_be_bytes(*length));
    let at_once = Tree::decode(index, length);
    let mut decoder = TreeDecoder::new();
    let fed = index.chunks(usize::from(step) + 1).try_for_each(|bytes| decoder.feed(bytes));
    let in_steps = fed.and_then(|()| decoder.finish(length));
    assert_eq!(at_once.is_ok(), in_steps.is_ok(), "{at_once:?} at once, {in_steps:?} in steps");
    let Ok(tree) = at_once else { return };
    assert_eq!(Ok(&tree), in_steps.as_ref(), "the steps matter");
    assert_eq!(Tree::decode(&tree.encode(), length), Ok(tree.clone()), "a tree changes on its way");
    assert_eq!(tree.content_length(), length);
    check_entries(&tree);
    check_segments(&tree);
}

fn check_entries(tree: &Tree) {
    let mut last: Option<Vec<Vec<u8>>> = None;
    for (index, entry) in tree.entries() {
        let path = tree.path(index);
        if index > 0 {
            let sound = |name: &[u8]| !name.is_empty() && name != b"." && name != b".." && !name.contains(&0);
            assert!(path.split(|&byte| byte == b'/').all(sound), "entry {index} leads out: {path:?}");
            assert!(entry.parent < index && tree.entry(entry.parent).kind == EntryKind::Directory);
        }
        let components: Vec<Vec<u8>> = path.split(|&byte| byte == b'/').map(<[u8]>::to_vec).collect();
        assert!(last.is_none_or(|last| last < components), "entry {index} is there twice");
        last = Some(components);
        if let EntryKind::HardLink { target } = entry.kind {
            assert!(target < index && matches!(tree.entry(target).kind, EntryKind::File { .. }));
        }
    }
}

fn check_segments(tree: &Tree) {
    let length = tree.content_length();
    for range in [0..length, 0..u64::MAX, length / 2..length, length / 3..length / 2 + 1] {
        let mut at = range.start.min(length);
        for segment in tree.segments(range.clone()) {
            assert!(segment.len > 0 && segment.content_offset == at, "{segment:?} in {range:?}");
            let EntryKind::File { size, .. } = tree.entry(segment.entry).kind else { panic!("no file") };
            assert!(segment.file_offset + segment.len <= size, "{segment:?} of {size} bytes");
            at += segment.len;
        }
        assert_eq!(at, range.end.min(length).max(range.start.min(length)), "{range:?} has holes");
    }
}
