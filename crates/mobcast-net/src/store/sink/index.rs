//! The encoded tree index of a directory that is being received: in memory while it is small, else in a spool.

use std::path::Path;

use mobcast_proto::content::tree::{Tree, TreeDecoder};

use crate::store::StoreError;
use crate::store::spool::Spool;

/// Largest index held in memory, bytes: it has the entries of some 30,000 files.
const MEMORY_BYTES_MAX: u64 = 1 << 20;
/// Bytes decoded at once from a spool.
const STEP: u64 = 1 << 20;

/// The bytes of an index of known length.
#[derive(Debug)]
pub(super) enum IndexBuffer {
    Memory(Vec<u8>),
    Spool { spool: Spool, length: u64 },
}

impl IndexBuffer {
    pub(super) fn create(length: u64, spool_dir: &Path) -> Result<IndexBuffer, StoreError> {
        if length > MEMORY_BYTES_MAX {
            return Ok(IndexBuffer::Spool { spool: Spool::create(spool_dir, Some(length))?, length });
        }
        Ok(IndexBuffer::Memory(vec![0; length as usize]))
    }

    pub(super) fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        match self {
            IndexBuffer::Spool { spool, .. } => spool.write_at(offset, data),
            IndexBuffer::Memory(bytes) => {
                bytes[offset as usize..offset as usize + data.len()].copy_from_slice(data);
                Ok(())
            }
        }
    }

    pub(super) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        match self {
            IndexBuffer::Spool { spool, .. } => spool.read_at(offset, buf),
            IndexBuffer::Memory(bytes) => {
                buf.copy_from_slice(&bytes[offset as usize..offset as usize + buf.len()]);
                Ok(())
            }
        }
    }

    /// The tree, once all bytes are there.
    pub(super) fn decode(&self, content_length: u64) -> Result<Tree, StoreError> {
        match self {
            IndexBuffer::Memory(bytes) => Ok(Tree::decode(bytes, content_length)?),
            IndexBuffer::Spool { spool, length } => decode_in_steps(spool, *length, content_length),
        }
    }
}

fn decode_in_steps(spool: &Spool, length: u64, content_length: u64) -> Result<Tree, StoreError> {
    let mut decoder = TreeDecoder::new();
    let mut buf = Vec::new();
    let mut at = 0;
    while at < length {
        buf.resize((length - at).min(STEP) as usize, 0);
        spool.read_at(at, &mut buf)?;
        decoder.feed(&buf)?;
        at += buf.len() as u64;
    }
    Ok(decoder.finish(content_length)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mobcast_proto::content::tree::{Attributes, EntryKind, TreeBuilder};

    #[test]
    fn a_large_index_goes_through_a_spool() {
        let mut builder = TreeBuilder::new();
        builder.push(b"", Attributes::default(), EntryKind::Directory).expect("root");
        for i in 0..100_000u32 {
            let kind = EntryKind::File { size: 1, sparse: false };
            builder.push(format!("{i:06}{}", "x".repeat(20)).as_bytes(), Attributes::default(), kind).expect("valid");
        }
        let tree = builder.finish().expect("valid");
        let encoded = tree.encode();
        assert!(encoded.len() as u64 > STEP, "several steps");
        let dir = tempfile::tempdir().expect("tempdir");
        let length = encoded.len() as u64;
        let spool = Spool::create(dir.path(), Some(length)).expect("create");
        let mut index = IndexBuffer::Spool { spool, length };
        let (head, tail) = encoded.split_at(777_777);
        index.write_at(777_777, tail).expect("write");
        index.write_at(0, head).expect("write");
        assert!(index.decode(100_000).expect("valid") == tree);
        let created = IndexBuffer::create(MEMORY_BYTES_MAX + 1, dir.path()).expect("create");
        assert!(matches!(created, IndexBuffer::Spool { .. }));
        let created = IndexBuffer::create(MEMORY_BYTES_MAX, dir.path()).expect("create");
        assert!(matches!(created, IndexBuffer::Memory(_)));
    }
}
