//! Slots: 4,096 classes of pieces by hash. A node's share is a set of slots, so that a share can be handed over
//! without knowing how many pieces there are, and a contiguous part of the object is nobody's hot spot.

use crate::limits::SLOTS;
use crate::random::mix2;
use crate::units::{BroadcastId, PieceIndex};
use crate::wire::codec::{DecodeError, Reader, Writer};

const WORDS: usize = SLOTS / 64;
const BYTES: usize = SLOTS / 8;

/// A set of slots.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet {
    words: Box<[u64; WORDS]>,
}

impl Default for SlotSet {
    fn default() -> Self {
        SlotSet { words: Box::new([0; WORDS]) }
    }
}

/// The slot of a piece.
pub fn slot_of(broadcast: BroadcastId, piece: PieceIndex) -> usize {
    let salt = u64::from(broadcast.root.0) << 32 | u64::from(broadcast.sequence);
    (mix2(salt, u64::from(piece.0)) % SLOTS as u64) as usize
}

impl SlotSet {
    /// No slot.
    pub fn none() -> SlotSet {
        SlotSet::default()
    }

    /// Every slot.
    pub fn all() -> SlotSet {
        SlotSet { words: Box::new([u64::MAX; WORDS]) }
    }

    /// Whether `slot` is in the set.
    pub fn contains(&self, slot: usize) -> bool {
        self.words[slot / 64] >> (slot % 64) & 1 == 1
    }

    /// Adds `slot`.
    pub fn insert(&mut self, slot: usize) {
        self.words[slot / 64] |= 1 << (slot % 64);
    }

    /// Removes `slot`.
    pub fn remove(&mut self, slot: usize) {
        self.words[slot / 64] &= !(1 << (slot % 64));
    }

    /// Whether no slot is in the set.
    pub fn is_none(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Whether every slot is in the set.
    pub fn is_all(&self) -> bool {
        self.words.iter().all(|&word| word == u64::MAX)
    }

    /// Slots in the set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The slots in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let set = |word: u64| Some(word).filter(|&word| word != 0);
        let lowest_of = move |&word: &u64| std::iter::successors(set(word), move |&rest| set(rest & (rest - 1)));
        let slots = move |(i, word)| lowest_of(word).map(move |rest| i * 64 + rest.trailing_zeros() as usize);
        self.words.iter().enumerate().flat_map(slots)
    }

    /// Adds the slots of `other`.
    pub fn union(&mut self, other: &SlotSet) {
        self.words.iter_mut().zip(other.words.iter()).for_each(|(a, b)| *a |= b);
    }

    /// Removes the slots of `other`.
    pub fn subtract(&mut self, other: &SlotSet) {
        self.words.iter_mut().zip(other.words.iter()).for_each(|(a, b)| *a &= !b);
    }

    /// Whether all slots of `other` are in the set.
    pub fn includes(&self, other: &SlotSet) -> bool {
        self.words.iter().zip(other.words.iter()).all(|(a, b)| b & !a == 0)
    }

    /// Moves up to `count` slots out of `self` and returns them.
    pub fn take(&mut self, count: usize) -> SlotSet {
        let mut taken = SlotSet::none();
        let chosen: Vec<usize> = self.iter().take(count).collect();
        for slot in chosen {
            self.remove(slot);
            taken.insert(slot);
        }
        taken
    }

    /// Writes 512 bytes, or one byte for none and for all.
    pub fn write(&self, w: &mut Writer) {
        if self.is_none() {
            w.u8(0);
        } else if self.is_all() {
            w.u8(1);
        } else {
            let mut bytes = [0; BYTES];
            bytes
                .chunks_exact_mut(8)
                .zip(self.words.iter())
                .for_each(|(to, word)| to.copy_from_slice(&word.to_be_bytes()));
            w.u8(2).raw(&bytes);
        }
    }

    /// Reads what [`SlotSet::write`] wrote.
    pub fn read(r: &mut Reader<'_>) -> Result<SlotSet, DecodeError> {
        match r.u8()? {
            0 => Ok(SlotSet::none()),
            1 => Ok(SlotSet::all()),
            2 => {
                let mut set = SlotSet::none();
                let bytes = r.array::<BYTES>()?;
                let words = bytes.chunks_exact(8).map(|word| u64::from_be_bytes(word.try_into().expect("eight bytes")));
                set.words.iter_mut().zip(words).for_each(|(to, word)| *to = word);
                Ok(set)
            }
            value => Err(DecodeError::Unknown { what: "form of a slot set", value: u64::from(value) }),
        }
    }
}

impl std::fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SlotSet({} slots)", self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_slots_leave_and_come_back_by_union() {
        let mut all = SlotSet::all();
        let mut taken = all.take(1_000);
        assert_eq!((all.count(), taken.count()), (SLOTS - 1_000, 1_000));
        taken.union(&all);
        assert_eq!(taken, SlotSet::all());
    }

    #[test]
    fn travels_in_every_form() {
        for set in [SlotSet::none(), SlotSet::all(), SlotSet::all().take(77)] {
            let mut w = Writer::new();
            set.write(&mut w);
            let bytes = w.into_bytes();
            assert_eq!(SlotSet::read(&mut Reader::new(&bytes)).unwrap(), set);
        }
    }

    #[test]
    fn pieces_spread_evenly_over_slots() {
        let broadcast = BroadcastId::default();
        let mut half = SlotSet::all();
        half.take(SLOTS / 2);
        let inside = (0..10_000).filter(|&i| half.contains(slot_of(broadcast, PieceIndex(i)))).count();
        assert!((4_700..5_300).contains(&inside), "{inside}");
    }
}
