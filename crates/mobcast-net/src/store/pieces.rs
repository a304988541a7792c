//! Hashing of pieces: each piece has the BLAKE3 subtree value (the non-root chaining value) of its place in the
//! object, so that the values of all pieces merge into the hash that `b3sum` prints for the whole.
//!
//! Left to others: which pieces there are, and whether a value is the one that the root signed.

use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use mobcast_proto::content::HashedObject;
use mobcast_proto::{Digest, PieceIndex};

/// The hash values of one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PieceHash {
    /// The subtree value at the piece's offset: what the manifest holds.
    pub subtree: Digest,
    /// Only for piece 0: the plain BLAKE3 of the piece, which is the object's hash if no other piece follows.
    pub root: Option<Digest>,
}

impl PieceHash {
    /// Those of an object of one piece, which is hashed already.
    pub fn of_whole(object: &HashedObject) -> PieceHash {
        PieceHash { subtree: object.piece().unwrap_or_default(), root: Some(object.hash()) }
    }
}

/// Hashes one piece in as many steps as the caller likes (64 KiB to 1 MiB are fast).
#[derive(Clone, Debug)]
pub struct PieceHasher {
    hasher: blake3::Hasher,
    first: bool,
}

impl PieceHasher {
    /// Starts a piece. `piece_size` (bytes) is the size of all pieces of the object but the last: a power of two of
    /// at least 1 KiB.
    pub fn new(piece: PieceIndex, piece_size: u32) -> PieceHasher {
        assert!(piece_size.is_power_of_two() && piece_size >= 1024, "pieces are whole BLAKE3 subtrees");
        let mut hasher = blake3::Hasher::new();
        if piece.0 > 0 {
            hasher.set_input_offset(u64::from(piece.0) * u64::from(piece_size));
        }
        PieceHasher { hasher, first: piece.0 == 0 }
    }

    /// The next bytes of the piece.
    pub fn update(&mut self, data: &[u8]) -> &mut PieceHasher {
        self.hasher.update(data);
        self
    }

    /// The values of all bytes given. A piece has at least one byte; an object of none has no pieces.
    pub fn finish(&self) -> PieceHash {
        let root = self.first.then(|| Digest(*self.hasher.finalize().as_bytes()));
        PieceHash { subtree: Digest(self.hasher.finalize_non_root()), root }
    }
}

/// Hashes a whole piece of at least one byte; `piece_size` as for [`PieceHasher::new`].
pub fn hash_piece(piece: PieceIndex, piece_size: u32, data: &[u8]) -> PieceHash {
    PieceHasher::new(piece, piece_size).update(data).finish()
}

/// Merges the subtree values of an object's pieces, in their order, into the object's hash. Holds one value per
/// level of the tree, whatever the number of pieces.
#[derive(Clone, Debug, Default)]
pub struct ObjectHasher {
    /// Values of full subtrees, the largest first; like the digits of `pieces` in binary, but merged one step late,
    /// because the last merge of all is a different one.
    stack: Vec<ChainingValue>,
    pieces: u64,
    root_of_first: Option<Digest>,
}

impl ObjectHasher {
    /// No pieces yet.
    pub fn new() -> ObjectHasher {
        ObjectHasher::default()
    }

    /// Pieces pushed so far.
    pub fn pieces(&self) -> u64 {
        self.pieces
    }

    /// The next piece. All but the last pushed have the full piece size. `root` is that of [`PieceHash`] for piece
    /// 0, and is not looked at for others.
    pub fn push(&mut self, subtree: Digest, root: Option<Digest>) {
        if self.pieces == 0 {
            self.root_of_first = root;
        }
        while self.stack.len() > self.pieces.count_ones() as usize {
            self.merge_top();
        }
        self.stack.push(subtree.0);
        self.pieces += 1;
    }

    fn merge_top(&mut self) {
        let right = self.stack.pop().expect("two values are on the stack");
        let left = self.stack.pop().expect("two values are on the stack");
        self.stack.push(merge_subtrees_non_root(&left, &right, Mode::Hash));
    }

    /// The object's hash: BLAKE3 of all its bytes. None only if there is one piece and its root value was not given.
    pub fn finish(&self) -> Option<Digest> {
        match self.pieces {
            0 => Some(Digest(*blake3::hash(b"").as_bytes())),
            1 => self.root_of_first,
            _ => Some(self.merge_all()),
        }
    }

    fn merge_all(&self) -> Digest {
        let mut rest = self.clone();
        while rest.stack.len() > 2 {
            rest.merge_top();
        }
        Digest(*merge_subtrees_root(&rest.stack[0], &rest.stack[1], Mode::Hash).as_bytes())
    }
}

/// The hash of an object from the subtree values of all its pieces, in order, and the root value of piece 0 (see
/// [`PieceHash`]). None only if there is one piece and its root value was not given.
pub fn object_hash(subtrees: impl IntoIterator<Item = Digest>, root_of_first: Option<Digest>) -> Option<Digest> {
    let mut hasher = ObjectHasher::new();
    subtrees.into_iter().for_each(|subtree| hasher.push(subtree, root_of_first));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(length: usize, piece_size: u32) {
        let data: Vec<u8> = (0..length).map(|i| (i * 31 + i / 1024) as u8).collect();
        let hashes: Vec<PieceHash> = data
            .chunks(piece_size as usize)
            .enumerate()
            .map(|(i, piece)| hash_piece(PieceIndex(i as u32), piece_size, piece))
            .collect();
        let root = hashes.first().and_then(|hash| hash.root);
        assert!(hashes.iter().skip(1).all(|hash| hash.root.is_none()));
        let got = object_hash(hashes.iter().map(|hash| hash.subtree), root);
        assert_eq!(got, Some(Digest(*blake3::hash(&data).as_bytes())), "{length} bytes in pieces of {piece_size}");
    }

    #[test]
    fn the_merged_values_are_the_hash_of_the_whole() {
        for pieces in 0..=17usize {
            for extra in [0, 1, 1023, 1024, 1025, 16383] {
                check(pieces * 16384 + extra, 16384);
            }
        }
    }

    #[test]
    fn small_steps_give_the_same_values() {
        let data = vec![7u8; 50_000];
        let mut hasher = PieceHasher::new(PieceIndex(3), 65536);
        data.chunks(1000).for_each(|step| {
            hasher.update(step);
        });
        assert_eq!(hasher.finish(), hash_piece(PieceIndex(3), 65536, &data));
    }

    #[test]
    fn one_piece_without_its_root_value_has_no_hash() {
        assert_eq!(object_hash([Digest::default()], None), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_length_and_piece_size(length in 0usize..600_000, shift in 0u32..4) {
            check(length, 16384 << shift);
        }
    }
}
