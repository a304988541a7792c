//! A node's part of what the root gives: what it is to fetch from there, and nobody else. How the parts are made, the root knows
//! (`root_shares.rs`).

use crate::content::have::{HaveSet, Run};
use crate::content::slots::{SlotSet, slot_of};
use crate::fetch::swarm::Swarm;
use crate::units::{LinkId, PieceIndex};

/// What the root wants this node to fetch from it.
pub(super) struct OwnRootShare {
    /// The link to the root.
    pub root: LinkId,
    slots: SlotSet,
    /// The known pieces of these slots.
    pub pieces: HaveSet,
}

impl OwnRootShare {
    pub fn new(swarm: &Swarm, root: LinkId, slots: SlotSet) -> OwnRootShare {
        let mut share = OwnRootShare { root, slots, pieces: HaveSet::new() };
        share.grow(swarm, Run { first: PieceIndex(0), count: swarm.known() });
        share
    }

    /// Whether it is the whole object: anybody may ask the root for anything.
    pub fn is_open_to_all(&self) -> bool {
        self.slots.is_all()
    }

    /// Whether this node has not asked for all of it.
    pub fn has_missing(&self, swarm: &Swarm) -> bool {
        (0..self.pieces.word_count()).any(|i| self.pieces.word(i) & swarm.missing_word(i) != 0)
    }

    /// More pieces are known.
    pub fn grow(&mut self, swarm: &Swarm, pieces: Run) {
        let own = pieces.pieces().filter(|&piece| self.slots.contains(slot_of(swarm.id, piece)));
        for piece in own {
            self.pieces.insert(piece);
        }
    }
}
