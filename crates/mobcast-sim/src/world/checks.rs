//! What must hold whatever happens, seen by someone who sees all machines at once. A violation is a bug of the
//! protocol: the world panics and says what it saw.

use std::collections::{BTreeMap, BTreeSet};

use mobcast_proto::content::HashedObject;
use mobcast_proto::content::have::{HaveSet, Run};
use mobcast_proto::content::manifest::{SignatureDomain, signed_message};
use mobcast_proto::group::report::Report;
use mobcast_proto::io::{CloseReason, Event};
use mobcast_proto::limits::FRAMES_WAITING_BYTES_MAX;
use mobcast_proto::sorted_map::SortedMap;
use mobcast_proto::wire::Frame;
use mobcast_proto::wire::codec::Writer;
use mobcast_proto::{BroadcastId, Digest, GroupId, NodeId, PieceIndex, Signature};

use super::{AUTHORITY, Machine, World, sign};
use crate::network::{FlowId, NodeIndex};

/// Holders outside the root that a piece needs before the root may leave, where there are as many receivers.
const HOLDERS_WANTED: usize = 2;

/// Control frames of a machine that have not arrived, in bytes.
#[derive(Debug, Default)]
pub(super) struct FramesWaiting {
    by_flow: SortedMap<FlowId, usize>,
    bytes: usize,
}

impl FramesWaiting {
    fn sent(&mut self, flow: FlowId, bytes: u32) {
        *self.by_flow.get_or_default(flow) += bytes as usize;
        self.bytes += bytes as usize;
    }

    pub(super) fn arrived(&mut self, flow: FlowId, bytes: u32) {
        if let Some(waiting) = self.by_flow.get_mut(&flow) {
            *waiting -= bytes as usize;
            self.bytes -= bytes as usize;
        }
    }

    /// What waits on a link that is gone takes no memory.
    pub(super) fn gone(&mut self, flow: FlowId) {
        self.bytes -= self.by_flow.remove(&flow).unwrap_or(0);
    }
}

/// What was said in the group.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Broadcasts of which the authority has signed that they are over.
    released: BTreeSet<BroadcastId>,
    /// Those of them that have not been looked at.
    fresh: Vec<BroadcastId>,
    /// Broadcasts that their roots have given up.
    pub(super) aborted: BTreeSet<BroadcastId>,
    /// Whether a malicious machine has been replaced by an honest one.
    pub(super) lied: bool,
}

impl World {
    /// What a node says on links that carry nothing stays within its limit.
    pub(super) fn check_frames_waiting(&mut self, index: NodeIndex, flow: FlowId, bytes: u32) {
        let waiting = &mut self.machines[index.0 as usize].frames_waiting;
        waiting.sent(flow, bytes);
        assert!(waiting.bytes <= FRAMES_WAITING_BYTES_MAX, "{} bytes of frames wait at {index:?}", waiting.bytes);
    }

    /// What a node says is true, of itself and of others.
    pub(super) fn check_frame(&self, index: NodeIndex, frame: &Frame) {
        self.check_claims(index, frame);
        self.check_passed_on(index, frame);
    }

    /// A node announces and receipts what it has stored, and nothing else.
    fn check_claims(&self, index: NodeIndex, frame: &Frame) {
        match frame {
            Frame::Have { broadcast, pieces, .. } => {
                self.check_all_held(index, *broadcast, pieces, "announces");
            }
            Frame::Reports { reports } => {
                let own = reports.iter().filter(|report| Some(report.from) == self.machine(index).node.id());
                for report in own {
                    if let Report::Receipt { broadcast, pieces } = &report.report {
                        self.check_all_held(index, *broadcast, pieces, "receipts");
                    }
                }
            }
            _ => {}
        }
    }

    /// What a node passes on is what the root and the authority have said. (What members report is looked at where it is verified.)
    fn check_passed_on(&self, index: NodeIndex, frame: &Frame) {
        match frame {
            Frame::Batch { batch, .. } => {
                self.check_hashes(index, batch.broadcast, batch.first, &batch.hashes, "passes on");
            }
            Frame::Whole { broadcast, whole } => {
                let real = self.real.get(broadcast).copied();
                let intact = whole.intact().is_some_and(|object| object.piece() == real);
                assert!(intact, "{index:?} passes on what is not the object of {broadcast}");
            }
            Frame::Release { broadcast, signature } => {
                self.check_word(index, SignatureDomain::Release, *broadcast, *signature);
            }
            Frame::RootLost { broadcast, signature } => {
                self.check_word(index, SignatureDomain::RootLost, *broadcast, *signature);
            }
            _ => {}
        }
    }

    /// What passes for the authority's word is that, unless members trust each other.
    fn check_word(&self, index: NodeIndex, domain: SignatureDomain, broadcast: BroadcastId, signature: Signature) {
        let own = || sign(AUTHORITY, &word_of(domain, self.group, broadcast));
        let is_word = self.trusts_members || signature == own();
        assert!(is_word, "{index:?} passes on of {broadcast} what the authority has not said");
    }

    /// Honest members are believed.
    pub(super) fn check_valid(&self, index: NodeIndex, valid: bool) {
        assert!(valid || self.trusts_members || self.has_liars(), "{index:?} does not believe an honest member");
    }

    fn has_liars(&self) -> bool {
        self.said.lied || self.machines.iter().any(|machine| machine.malicious.is_some())
    }

    /// What a node does with a piece, it does with one that is on its disk (or is root). Filler is on nobody's.
    pub(super) fn check_held(&self, index: NodeIndex, broadcast: BroadcastId, piece: PieceIndex, does: &str) {
        if broadcast != BroadcastId::FILLER {
            self.check_all_held(index, broadcast, &[Run { first: piece, count: 1 }], does);
        }
    }

    fn check_all_held(&self, index: NodeIndex, broadcast: BroadcastId, runs: &[Run], does: &str) {
        let machine = self.machine(index);
        let (stored, is_root) = (machine.stored(broadcast), machine.node.id() == Some(broadcast.root));
        for piece in runs.iter().flat_map(|run| run.pieces()) {
            let held = is_root || stored.is_some_and(|stored| stored.contains(piece));
            assert!(held, "{index:?} {does} {piece} of {broadcast} without having stored it");
        }
    }

    /// Hashes that a node goes by, or passes on, are those that the root has signed.
    pub(super) fn check_hashes(
        &self,
        index: NodeIndex,
        broadcast: BroadcastId,
        first: PieceIndex,
        hashes: &[Digest],
        does: &str,
    ) {
        for (piece, digest) in (first.0..).zip(hashes) {
            let signed = *digest == self.true_digest(broadcast, piece);
            assert!(signed, "{index:?} {does} a forged hash of piece {piece} of {broadcast}");
        }
    }

    /// An object that came in one frame is stored if it is the root's, and not otherwise.
    pub(super) fn check_whole(&self, index: NodeIndex, broadcast: BroadcastId, object: &HashedObject) {
        let real = self.real.get(&broadcast).copied();
        assert!(object.piece() == real, "{index:?} stores what is not the object of {broadcast}");
    }

    pub(super) fn check_event(&self, index: NodeIndex, event: &Event) {
        match event {
            Event::RootMayLeave { broadcast } => self.check_may_leave(index, *broadcast),
            Event::Released { broadcast } => {
                self.check_release(index, *broadcast);
                self.check_let_go(index, *broadcast);
            }
            Event::PeerDropped { node: Some(node), reason: CloseReason::Violation(what) } => {
                self.check_dropped(index, *node, what);
            }
            Event::Complete { broadcast, length, .. } => {
                let machine = self.machine(index);
                let (bytes, pieces) = self.object(*broadcast);
                assert!(*length == bytes, "{index:?} takes {length} bytes for the {bytes} of {broadcast}");
                let all = (0..pieces).all(|piece| machine.holds(*broadcast, PieceIndex(piece)));
                assert!(all || machine.node.id() == Some(broadcast.root), "{index:?} is complete without having all");
            }
            Event::Result { node, result, .. } if result.outcome.is_ok() => {
                let complete = self.completed.contains(&(result.broadcast, *node));
                assert!(complete, "{node} is said to be complete, and is not");
            }
            _ => {}
        }
    }

    fn check_may_leave(&self, index: NodeIndex, broadcast: BroadcastId) {
        let node = &self.machine(index).node;
        let receivers = node.members().iter().filter(|(member, ..)| *member != broadcast.root).count();
        // Of what the root has, whatever the coordinator knows of it.
        for piece in (0..self.object(broadcast).1).map(PieceIndex) {
            let living = self.machines.iter().filter(|machine| machine.holds(broadcast, piece)).count();
            // The coordinator need not know that a machine has started again.
            let of_old = |stored: &&BTreeMap<BroadcastId, HaveSet>| {
                stored.get(&broadcast).is_some_and(|stored| stored.contains(piece))
            };
            let holders = living + self.former.iter().filter(of_old).count();
            let wanted = receivers.min(HOLDERS_WANTED);
            assert!(holders >= wanted, "the root of {broadcast} may leave, and {holders} others hold {piece}");
        }
    }

    /// Who is honest says nothing for which another one drops it. (Bytes of a forged piece may be from several, of whom one has lied.)
    fn check_dropped(&self, index: NodeIndex, node: NodeId, what: &str) {
        let honest = |machine: &Machine| machine.malicious.is_none();
        let peer = self.machines.iter().find(|machine| machine.node.id() == Some(node));
        let wronged = honest(self.machine(index)) && peer.is_some_and(honest);
        let shared = self.has_liars() && what.starts_with("sent a forged");
        assert!(!wronged || shared, "{index:?} drops {node}, which is honest: {what}");
    }

    /// The authority signs something: that a broadcast is over is looked at when its coordinator has done all that it does at once. Who comes
    /// later may hear it again.
    pub(super) fn note_signed(&mut self, message: &[u8]) {
        let group = self.group;
        let is_over = |id: &BroadcastId| word_of(SignatureDomain::Release, group, *id) == message;
        let over = self.objects.keys().copied().find(is_over);
        self.said.fresh.extend(over.filter(|&id| self.said.released.insert(id)));
    }

    /// Looks at what has been signed since.
    pub(super) fn check_signed(&mut self, index: NodeIndex) {
        std::mem::take(&mut self.said.fresh).into_iter().for_each(|id| self.check_release(index, id));
    }

    /// Whoever goes has heard that it may: from the authority or, of what was given up, from the root; unless there is nobody left to say so.
    fn check_let_go(&self, index: NodeIndex, broadcast: BroadcastId) {
        let Said { released, aborted, .. } = &self.said;
        let said = self.trusts_members || released.contains(&broadcast) || aborted.contains(&broadcast);
        let node = &self.machine(index).node;
        let led = node.members().is_empty() && !node.coordinator_lost();
        assert!(said || !led, "{index:?} is released from {broadcast}, and nobody has said so");
    }

    /// The coordinator lets nobody go while a member that it knows of lacks something and has not given up.
    fn check_release(&self, index: NodeIndex, broadcast: BroadcastId) {
        let members: BTreeSet<NodeId> = self.machine(index).node.members().into_iter().map(|(node, ..)| node).collect();
        for (i, machine) in self.machines.iter().enumerate() {
            // Whom its peers have dropped, nobody waits for.
            let running = self.network.is_running(NodeIndex(i as u32)) && machine.malicious.is_none();
            let counts = machine.node.id().is_some_and(|node| members.contains(&node) && node != broadcast.root);
            let done = machine.seen.complete.contains_key(&broadcast) || machine.seen.failed.contains_key(&broadcast);
            assert!(done || !running || !counts, "{broadcast} is released before node {i} is done");
        }
    }

    /// Bytes and pieces of what a root broadcasts.
    fn object(&self, broadcast: BroadcastId) -> (u64, u32) {
        let (bytes, piece_size) = self.objects[&broadcast];
        (bytes, bytes.div_ceil(u64::from(piece_size)) as u32)
    }

    fn machine(&self, index: NodeIndex) -> &Machine {
        &self.machines[index.0 as usize]
    }
}

/// What the authority signs to say something of a broadcast.
fn word_of(domain: SignatureDomain, group: GroupId, broadcast: BroadcastId) -> Vec<u8> {
    let mut w = Writer::new();
    w.broadcast(broadcast).string("");
    signed_message(domain, group, &w.into_bytes())
}

impl Machine {
    /// Whether a piece is on its disk.
    pub fn holds(&self, broadcast: BroadcastId, piece: PieceIndex) -> bool {
        self.stored.get(&broadcast).is_some_and(|stored| stored.contains(piece))
    }

    /// What is on its disk of a broadcast.
    pub fn stored(&self, broadcast: BroadcastId) -> Option<&HaveSet> {
        self.stored.get(&broadcast)
    }
}

#[cfg(test)]
mod tests;
