//! An object of at most one piece, together with the hashes of its bytes: who has one need not hash them again, and there is no way to
//! have one whose hashes are of other bytes.
//!
//! Left to others: whether they are the hashes that the root signed.

use std::fmt;
use std::sync::Arc;

use blake3::hazmat::HasherExt;

use crate::units::Digest;

/// Bytes and their hashes. A clone shares the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct HashedObject {
    data: Arc<[u8]>,
    piece: Option<Digest>,
    hash: Digest,
}

impl HashedObject {
    /// Hashes an object.
    pub fn of(data: Arc<[u8]>) -> HashedObject {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&data);
        let piece = (!data.is_empty()).then(|| Digest(hasher.finalize_non_root()));
        let hash = Digest(*hasher.finalize().as_bytes());
        HashedObject { data, piece, hash }
    }

    /// The bytes.
    pub fn data(&self) -> &Arc<[u8]> {
        &self.data
    }

    /// The subtree value of its only piece, which a manifest holds; none if it has not a single byte.
    pub fn piece(&self) -> Option<Digest> {
        self.piece
    }

    /// BLAKE3 of the object.
    pub fn hash(&self) -> Digest {
        self.hash
    }
}

impl fmt::Debug for HashedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes with hash {}", self.data.len(), self.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_hash_is_that_of_the_bytes_and_only_bytes_make_a_piece() {
        let object = HashedObject::of(b"weights".as_slice().into());
        assert_eq!(object.hash().0, *blake3::hash(b"weights").as_bytes());
        assert_eq!(object.piece(), Some(Digest(blake3::Hasher::new().update(b"weights").finalize_non_root())));
        let empty = HashedObject::of([].into());
        assert_eq!((empty.hash().0, empty.piece()), (*blake3::hash(b"").as_bytes(), None));
    }
}
