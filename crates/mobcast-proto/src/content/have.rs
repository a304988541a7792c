//! Have-sets: which pieces a node has, and runs of pieces, the form in which they travel.

use crate::limits::PIECES_MAX;
use crate::units::PieceIndex;
use crate::wire::codec::{DecodeError, Reader, Writer};

/// A set of pieces: a bit for each, grown on demand, so that a stream of unknown length needs no size beforehand.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct HaveSet {
    words: Vec<u64>,
    count: u32,
}

impl HaveSet {
    /// The empty set.
    pub fn new() -> HaveSet {
        HaveSet::default()
    }

    /// Pieces in the set.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether the set holds no piece.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether `piece` is in the set.
    pub fn contains(&self, piece: PieceIndex) -> bool {
        self.word(piece.as_usize() / 64) >> (piece.0 % 64) & 1 == 1
    }

    /// Adds `piece`; false if it was in the set already.
    pub fn insert(&mut self, piece: PieceIndex) -> bool {
        assert!(piece.0 < PIECES_MAX, "{piece} is beyond the limit");
        let index = piece.as_usize() / 64;
        if index >= self.words.len() {
            self.words.resize(index + 1, 0);
        }
        let bit = 1u64 << (piece.0 % 64);
        let fresh = self.words[index] & bit == 0;
        self.words[index] |= bit;
        self.count += u32::from(fresh);
        fresh
    }

    /// Adds a run and appends those of its pieces that were not in the set to `fresh`, which ends before it. Looks at 64 pieces at a
    /// time, so that what is no news costs little, however much is said.
    pub fn insert_run(&mut self, run: Run, fresh: &mut Vec<Run>) {
        let (first, end) = (run.first.0, run.first.0 + run.count);
        assert!(end <= PIECES_MAX, "a run to {end} is beyond the limit");
        let words = (end as usize).div_ceil(64);
        if words > self.words.len() {
            self.words.resize(words, 0);
        }
        for index in first as usize / 64..words {
            let from = first.saturating_sub(index as u32 * 64).min(63);
            let upto = (end - index as u32 * 64).min(64);
            let mask = u64::MAX << from & u64::MAX >> (64 - upto);
            let news = mask & !self.words[index];
            self.words[index] |= news;
            self.count += news.count_ones();
            bits_of(index, news).for_each(|piece| push_piece(fresh, piece));
        }
    }

    /// Removes `piece`; false if it was not in the set.
    pub fn remove(&mut self, piece: PieceIndex) -> bool {
        let present = self.contains(piece);
        if present {
            self.words[piece.as_usize() / 64] &= !(1u64 << (piece.0 % 64));
            self.count -= 1;
        }
        present
    }

    /// The 64 pieces from `index * 64` on, as bits, lowest first; zero beyond the end.
    pub fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }

    /// Words that may hold a bit.
    pub fn word_count(&self) -> usize {
        self.words.len()
    }

    /// Pieces in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = PieceIndex> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| bits_of(index, word))
    }

    /// Pieces of `self` that are not in `other`.
    pub fn missing_from(&self, other: &HaveSet) -> u32 {
        self.words.iter().enumerate().map(|(i, w)| (w & !other.word(i)).count_ones()).sum()
    }

    /// The set as runs, in ascending order.
    pub fn runs(&self) -> Vec<Run> {
        runs_of(self.iter())
    }
}

/// The pieces whose bits are set in `word`, which is the `index`-th of a set.
pub fn bits_of(index: usize, word: u64) -> impl Iterator<Item = PieceIndex> {
    let mut rest = word;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let bit = rest.trailing_zeros();
            rest &= rest - 1;
            PieceIndex(index as u32 * 64 + bit)
        })
    })
}

impl std::fmt::Debug for HaveSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HaveSet{:?}", self.runs())
    }
}

/// Neighbouring pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first piece.
    pub first: PieceIndex,
    /// Pieces in the run, at least one.
    pub count: u32,
}

impl Run {
    /// The pieces of the run.
    pub fn pieces(self) -> impl Iterator<Item = PieceIndex> {
        (self.first.0..self.first.0 + self.count).map(PieceIndex)
    }
}

/// Gathers ascending pieces into runs.
pub fn runs_of(pieces: impl IntoIterator<Item = PieceIndex>) -> Vec<Run> {
    let pieces = pieces.into_iter();
    let mut runs = Vec::with_capacity(pieces.size_hint().0);
    pieces.for_each(|piece| push_piece(&mut runs, piece));
    runs
}

/// Adds a piece behind those of all runs.
pub fn push_piece(runs: &mut Vec<Run>, piece: PieceIndex) {
    match runs.last_mut() {
        Some(run) if run.first.0 + run.count == piece.0 => run.count += 1,
        _ => runs.push(Run { first: piece, count: 1 }),
    }
}

/// Runs of one frame: at the worst ten bytes each, together well below a control frame.
pub const RUNS_PER_FRAME: usize = 6_000;

/// Writes ascending runs as gaps and lengths: one or two bytes for a piece near the one before.
pub fn write_runs(w: &mut Writer, runs: &[Run]) {
    let mut next = 0;
    w.list(runs, |w, run| {
        w.varint(u64::from(run.first.0 - next)).varint(u64::from(run.count - 1));
        next = run.first.0 + run.count;
    });
}

/// Reads what [`write_runs`] wrote; every piece is below [`PIECES_MAX`] and runs ascend.
pub fn read_runs(r: &mut Reader<'_>) -> Result<Vec<Run>, DecodeError> {
    let mut next = 0u32;
    r.list("runs of pieces", RUNS_PER_FRAME, |r| {
        let first = u64::from(next) + u64::from(r.varint_u32("gap between pieces")?);
        let end = first + u64::from(r.varint_u32("run of pieces")?) + 1;
        if end > u64::from(PIECES_MAX) {
            return Err(DecodeError::Limit { what: "piece", value: end, limit: u64::from(PIECES_MAX) });
        }
        next = end as u32;
        Ok(Run { first: PieceIndex(first as u32), count: (end - first) as u32 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_set_and_travels_as_runs(pieces in proptest::collection::vec(0u32..5_000, 0..300)) {
            let mut have = HaveSet::new();
            let mut model = BTreeSet::new();
            for &p in &pieces {
                prop_assert_eq!(have.insert(PieceIndex(p)), model.insert(p));
            }
            prop_assert_eq!(have.count() as usize, model.len());
            prop_assert_eq!(have.iter().map(|p| p.0).collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
            let mut w = Writer::new();
            write_runs(&mut w, &have.runs());
            let bytes = w.into_bytes();
            let mut r = Reader::new(&bytes);
            let runs = read_runs(&mut r).unwrap();
            prop_assert!(r.end().is_ok());
            prop_assert_eq!(runs.iter().flat_map(|run| run.pieces()).map(|p| p.0).collect::<BTreeSet<_>>(), model);
        }

        #[test]
        fn a_run_is_added_as_its_pieces_are(
            pieces in proptest::collection::vec(0u32..300, 0..100),
            runs in proptest::collection::vec((0u32..300, 1u32..200), 1..4),
        ) {
            let mut one_by_one = HaveSet::new();
            for piece in pieces {
                one_by_one.insert(PieceIndex(piece));
            }
            let mut at_once = one_by_one.clone();
            for (first, count) in runs {
                let run = Run { first: PieceIndex(first), count };
                let expected = runs_of(run.pieces().filter(|&piece| one_by_one.insert(piece)));
                let mut fresh = Vec::new();
                at_once.insert_run(run, &mut fresh);
                prop_assert_eq!(fresh, expected);
                prop_assert_eq!(&at_once, &one_by_one);
                prop_assert_eq!(at_once.count(), one_by_one.count());
            }
        }

        #[test]
        fn any_bytes_are_runs_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(runs) = read_runs(&mut Reader::new(&bytes)) {
                prop_assert!(runs.iter().all(|run| run.first.0 + run.count <= PIECES_MAX));
            }
        }
    }

    #[test]
    fn removal_undoes_insertion() {
        let mut have = HaveSet::new();
        assert!(have.insert(PieceIndex(70)));
        assert!(have.remove(PieceIndex(70)));
        assert!(!have.remove(PieceIndex(70)));
        assert!(have.is_empty() && !have.contains(PieceIndex(70)) && !have.contains(PieceIndex(9_999)));
    }
}
