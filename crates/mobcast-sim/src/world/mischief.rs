//! What a malicious member does to the others: it speaks the protocol, and lies where it can.

use std::sync::Arc;

use mobcast_proto::content::HashedObject;
use mobcast_proto::content::have::Run;
use mobcast_proto::content::slots::SlotSet;
use mobcast_proto::wire::Frame;
use mobcast_proto::{Digest, PieceIndex};

use super::{Machine, digest_of};

/// How a member lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mischief {
    /// All payload that it sends is wrong, and each object in one frame.
    WrongPieces,
    /// The hashes of each manifest batch that it sends are its own; an object in one frame is, too.
    ForgedBatches,
    /// It says that it has every piece that is known, and refuses to send those that it does not have; and that it holds all slots
    /// of its cluster by an assignment that is newer than anybody's.
    FalseHave,
    /// It takes requests, and never sends a piece.
    Mute,
}

/// All of them.
pub const MISCHIEFS: [Mischief; 4] =
    [Mischief::WrongPieces, Mischief::ForgedBatches, Mischief::FalseHave, Mischief::Mute];

impl Machine {
    /// What becomes of a frame on the way out of a member that may be malicious.
    pub(super) fn tampered(&self, frame: Frame) -> Frame {
        match (self.malicious, frame) {
            (Some(Mischief::ForgedBatches), Frame::Batch { mut batch, signature }) => {
                let forged = (0..batch.hashes.len() as u32).map(|i| digest_of(batch.broadcast, u32::MAX - i));
                batch.hashes = forged.collect::<Vec<Digest>>().into();
                Frame::Batch { batch, signature }
            }
            (
                Some(mischief @ (Mischief::WrongPieces | Mischief::ForgedBatches)),
                Frame::Whole { broadcast, mut whole },
            ) => {
                let wrong: Arc<[u8]> = whole.data.iter().map(|byte| byte ^ 1).collect();
                if mischief == Mischief::ForgedBatches {
                    // Its hash is right, and only the signature is not.
                    whole.batch.hashes = HashedObject::of(Arc::clone(&wrong)).piece().into_iter().collect();
                }
                whole.data = wrong;
                Frame::Whole { broadcast, whole }
            }
            (Some(Mischief::FalseHave), Frame::Have { broadcast, batches, pieces }) => {
                let known = self.node.progress(broadcast).map_or(0, |progress| progress.known);
                let all = vec![Run { first: PieceIndex(0), count: known }];
                Frame::Have { broadcast, batches, pieces: if known > 0 { all } else { pieces } }
            }
            (Some(Mischief::FalseHave), Frame::Holding { .. }) => {
                Frame::Holding { term: u32::MAX, epoch: u32::MAX, slots: SlotSet::all() }
            }
            (_, frame) => frame,
        }
    }
}
