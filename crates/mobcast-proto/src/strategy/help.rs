//! What a published algorithm does not have: help for a node that gets nothing any more. Its nodes never die. Ours ask all their
//! neighbours what they have, and fetch it from whoever says so.

use crate::content::slots::SlotSet;
use crate::fetch::swarm::Swarm;
use crate::strategy::message::StrategyMessage;
use crate::time::Duration;
use crate::units::{LinkId, PieceIndex};

/// Who was asked for something and has not sent a byte is not asked again for this long, unless it sends one: many nodes may share a thin
/// link.
pub(super) const MUTE_FOR: Duration = Duration::from_secs(10);

/// Asks a peer to announce all that it has and will have.
pub(super) fn ask(swarm: &mut Swarm, peer: LinkId) {
    swarm.tell(peer, StrategyMessage::Interest { slots: SlotSet::all(), pieces: Vec::new() });
}

/// Asks all peers.
pub(super) fn ask_all(swarm: &mut Swarm) {
    swarm.links().into_iter().for_each(|link| ask(swarm, link));
}

/// Announces to a peer all that this node has.
pub(super) fn announce_all(swarm: &mut Swarm, peer: LinkId) {
    let pieces: Vec<PieceIndex> = swarm.have().iter().collect();
    pieces.into_iter().for_each(|piece| swarm.announce(peer, piece));
}

/// Whether a peer is gone, or was asked for something and has not sent a byte for `patience`.
pub(super) fn is_silent(swarm: &Swarm, link: LinkId, patience: Duration) -> bool {
    swarm.peer(link).is_none_or(|peer| peer.window.stalled_for(swarm.now()) >= patience)
}
