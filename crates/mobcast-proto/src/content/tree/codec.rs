//! The bytes of a tree index: writing them at once, and reading them in steps of any size.

use super::*;

const VERSION: u8 = 1;

const KIND_MASK: u8 = 0b11;
const KIND_DIRECTORY: u8 = 0;
const KIND_FILE: u8 = 1;
const KIND_SYMLINK: u8 = 2;
const KIND_HARD_LINK: u8 = 3;
const SPARSE: u8 = 1 << 2;
const SAME_MODE: u8 = 1 << 3;
const SAME_OWNER: u8 = 1 << 4;
const FLAGS_MASK: u8 = KIND_MASK | SPARSE | SAME_MODE | SAME_OWNER;

/// What entries are coded against.
#[derive(Clone, Debug, Default)]
struct Context {
    /// The last mode of each kind.
    modes: [u32; 4],
    owner: (u32, u32),
    modified_s: i64,
}

impl Context {
    fn advance(&mut self, kind: u8, attributes: Attributes) {
        self.modes[usize::from(kind & KIND_MASK)] = attributes.mode;
        self.owner = (attributes.uid, attributes.gid);
        self.modified_s = attributes.modified_s;
    }
}

pub(super) fn encode(tree: &Tree) -> Vec<u8> {
    let mut out = Writer::new();
    out.u8(VERSION).varint(tree.entries.len() as u64);
    let mut context = Context::default();
    let (mut path, mut last_path) = (Vec::new(), Vec::new());
    // Paths grow from their ancestors, so that each name is copied once: the length of the path of each directory
    // above the entry at hand.
    let mut lengths: Vec<(u32, usize)> = Vec::new();
    for (index, entry) in tree.entries() {
        while lengths.last().is_some_and(|&(ancestor, _)| ancestor != entry.parent) {
            lengths.pop();
        }
        path.truncate(lengths.last().map_or(0, |&(_, len)| len));
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(tree.name(index));
        if entry.kind == EntryKind::Directory {
            lengths.push((index, path.len()));
        }
        encode_entry(&mut out, &mut context, entry, &last_path, &path);
        last_path.clone_from(&path);
    }
    out.into_bytes()
}

fn encode_entry(out: &mut Writer, context: &mut Context, entry: &TreeEntry, last_path: &[u8], path: &[u8]) {
    let attributes = entry.attributes;
    let kind = kind_number(&entry.kind);
    let same_mode = context.modes[usize::from(kind)] == attributes.mode;
    let same_owner = context.owner == (attributes.uid, attributes.gid);
    let sparse = matches!(entry.kind, EntryKind::File { sparse: true, .. });
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    out.u8(kind | flag(sparse, SPARSE) | flag(same_mode, SAME_MODE) | flag(same_owner, SAME_OWNER));
    let shared = last_path.iter().zip(path).take_while(|(a, b)| a == b).count();
    out.varint(shared as u64).bytes(&path[shared..]);
    if !same_mode {
        out.varint(u64::from(attributes.mode));
    }
    if !same_owner {
        out.varint(u64::from(attributes.uid)).varint(u64::from(attributes.gid));
    }
    out.varint(zigzag(attributes.modified_s.wrapping_sub(context.modified_s)));
    out.varint(u64::from(attributes.modified_ns));
    match &entry.kind {
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
    context.advance(kind, attributes);
}

fn kind_number(kind: &EntryKind) -> u8 {
    match kind {
        EntryKind::Directory => KIND_DIRECTORY,
        EntryKind::File { .. } => KIND_FILE,
        EntryKind::Symlink { .. } => KIND_SYMLINK,
        EntryKind::HardLink { .. } => KIND_HARD_LINK,
    }
}

/// Signed numbers near zero as unsigned ones near zero.
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads an index in steps, so that the encoded form need not be in memory as a whole.
#[derive(Clone, Debug, Default)]
pub struct TreeDecoder {
    builder: TreeBuilder,
    context: Context,
    /// Bytes of an entry whose rest has not come yet.
    rest: Vec<u8>,
    /// Entries to come; none before the header is read.
    entries_left: Option<u64>,
}

/// An entry as it was read, before its path and kind are checked.
struct RawEntry<'a> {
    shared: usize,
    suffix: &'a [u8],
    attributes: Attributes,
    kind: EntryKind,
}

impl TreeDecoder {
    /// Nothing read yet.
    pub fn new() -> TreeDecoder {
        TreeDecoder::default()
    }

    /// The next bytes of the index.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), TreeError> {
        if self.rest.is_empty() {
            let used = self.read(bytes)?;
            self.rest.extend_from_slice(&bytes[used..]);
            return Ok(());
        }
        let mut joined = std::mem::take(&mut self.rest);
        joined.extend_from_slice(bytes);
        let used = self.read(&joined)?;
        joined.drain(..used);
        self.rest = joined;
        Ok(())
    }

    /// Takes whole entries from the front of `bytes` and returns how many bytes they were.
    fn read(&mut self, bytes: &[u8]) -> Result<usize, TreeError> {
        let mut reader = Reader::new(bytes);
        loop {
            let before = reader.remaining();
            let step = match self.entries_left {
                None => self.read_header(&mut reader),
                Some(0) => return Ok(bytes.len() - reader.end().map(|()| 0)?),
                Some(_) => self.read_entry(&mut reader),
            };
            match step {
                Ok(()) => {}
                Err(TreeError::Encoding(DecodeError::Short(_))) => return Ok(bytes.len() - before),
                Err(error) => return Err(error),
            }
        }
    }

    fn read_header(&mut self, reader: &mut Reader<'_>) -> Result<(), TreeError> {
        let version = reader.u8()?;
        if version != VERSION {
            return Err(TreeError::Version(version));
        }
        self.entries_left = Some(reader.count("tree entries", TREE_ENTRIES_MAX)? as u64);
        Ok(())
    }

    fn read_entry(&mut self, reader: &mut Reader<'_>) -> Result<(), TreeError> {
        let raw = parse_entry(reader, &self.context)?;
        let last_path = self.builder.last_path();
        let shared = last_path.get(..raw.shared).ok_or(DecodeError::Malformed("shared part of a path"))?;
        let path = [shared, raw.suffix].concat();
        let kind = kind_number(&raw.kind);
        self.builder.push(&path, raw.attributes, raw.kind)?;
        self.context.advance(kind, raw.attributes);
        self.entries_left = self.entries_left.map(|left| left - 1);
        Ok(())
    }

    /// The tree, if the index is complete and its files have `content_length` bytes together.
    pub fn finish(self, content_length: u64) -> Result<Tree, TreeError> {
        match self.entries_left {
            Some(0) => {}
            Some(left) => return Err(DecodeError::Short(left as usize).into()),
            None => return Err(DecodeError::Short(1).into()),
        }
        let tree = self.builder.finish()?;
        if tree.content_length() != content_length {
            return Err(TreeError::Length { sum: tree.content_length(), length: content_length });
        }
        Ok(tree)
    }
}

fn parse_entry<'a>(reader: &mut Reader<'a>, context: &Context) -> Result<RawEntry<'a>, TreeError> {
    let flags = reader.u8()?;
    let kind = flags & KIND_MASK;
    if flags & !FLAGS_MASK != 0 || (flags & SPARSE != 0 && kind != KIND_FILE) {
        return Err(DecodeError::Unknown { what: "flags of a tree entry", value: u64::from(flags) }.into());
    }
    let shared = reader.count("shared part of a path", PATH_BYTES_MAX)?;
    let suffix = reader.bytes("path", PATH_BYTES_MAX)?;
    let mode = match flags & SAME_MODE {
        0 => reader.varint_u32("mode")?,
        _ => context.modes[usize::from(kind)],
    };
    let (uid, gid) = match flags & SAME_OWNER {
        0 => (reader.varint_u32("owner")?, reader.varint_u32("group")?),
        _ => context.owner,
    };
    let modified_s = context.modified_s.wrapping_add(unzigzag(reader.varint()?));
    let modified_ns = reader.varint_u32("nanoseconds")?;
    let kind = match kind {
        KIND_DIRECTORY => EntryKind::Directory,
        KIND_FILE => EntryKind::File { size: reader.varint()?, sparse: flags & SPARSE != 0 },
        KIND_SYMLINK => EntryKind::Symlink { target: reader.bytes("link target", PATH_BYTES_MAX)?.into() },
        _ => EntryKind::HardLink { target: reader.varint_u32("hard link target")? },
    };
    Ok(RawEntry { shared, suffix, attributes: Attributes { mode, modified_s, modified_ns, uid, gid }, kind })
}
