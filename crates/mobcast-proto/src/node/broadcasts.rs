//! A node's broadcasts: starting and announcing them, verifying what others announce, the frames of each, the manifest.

use crate::broadcast::{Broadcast, Phase};
use crate::content::announcement::{Announcement, WHOLE_BYTES_MAX, Whole};
use crate::content::hashed::HashedObject;
use crate::content::manifest::{Batch, SignatureDomain};
use crate::content::object::Descriptor;
use crate::flow::held::HELD_MAX;
use crate::flow::upload::Upload;
use crate::io::{CloseReason, Failure, Output, Signer};
use crate::limits::{OPEN_PIECES_BYTES_MAX, OPEN_PIECES_BYTES_MIN, held_bytes};
use crate::time::Time;
use crate::units::{BroadcastId, ByteRange, LinkId, PieceIndex, Signature};
use crate::wire::codec::Writer;
use crate::wire::frame::{Frame, TEXT_BYTES_MAX};

use super::{Node, Pending};

pub(super) fn broadcast_body(broadcast: BroadcastId, text: &str) -> Vec<u8> {
    let mut w = Writer::new();
    w.broadcast(broadcast).string(text);
    w.into_bytes()
}

// ---- Commands ----

impl Node {
    /// Starts a broadcast of which this node is root. The whole object comes along if it is small enough for one
    /// frame ([`WHOLE_BYTES_MAX`]) and has at most one piece. None if this node is not a member yet, or carries too
    /// many broadcasts.
    pub fn broadcast(&mut self, now: Time, descriptor: Descriptor, whole: Option<HashedObject>) -> Option<BroadcastId> {
        self.set_now(now);
        let (credential, credential_signature) = self.membership.credential()?;
        let cluster = self.assignment()?.cluster;
        if !self.has_room_for_another() {
            return None;
        }
        let strategy = (self.config.registry.find(&descriptor.strategy)?.make)();
        let id = BroadcastId { root: credential.node, sequence: self.next_sequence };
        self.next_sequence += 1;
        let signature = Signature::default();
        let announcement = Announcement { descriptor, cluster, credential, credential_signature, signature };
        let seed = self.random.next_u64();
        let signed = self.to_be_signed(Signer::Node, SignatureDomain::Descriptor, || announcement.body(id));
        let mut broadcast = Broadcast::new(now, id, announcement, strategy, true, seed);
        broadcast.whole = whole.filter(|object| object.data().len() as u64 <= WHOLE_BYTES_MAX);
        self.broadcasts.insert(id, broadcast);
        self.open_broadcast(id);
        self.have_signed(Pending::SignDescriptor { broadcast: id }, signed);
        Some(id)
    }

    /// The application has made place for an announced object.
    pub fn accept(&mut self, now: Time, id: BroadcastId) {
        self.set_now(now);
        let Some(broadcast) = self.broadcasts.get(&id) else { return };
        let (whole, offered) = (broadcast.whole.clone(), broadcast.phase == Phase::Offered);
        // With what the others leave it asks for its first pieces.
        self.share_open_budget(offered.then_some(id));
        if offered {
            self.with_broadcast(id, |broadcast| broadcast.start(now));
        }
        if let Some(object) = whole.filter(|object| !object.data().is_empty()) {
            self.outputs.push_back(Output::StoreWhole { broadcast: id, object });
        }
        if self.with_broadcast(id, |broadcast| broadcast.finish_if_complete()) == Some(true) {
            self.broadcast_complete(id);
        }
    }

    /// Broadcasts that this node fetches share the limit of open pieces, or what is left of it beside what is held of all. Who has more open
    /// than its part, because it was alone before, keeps that until it has come, and the others have so much less.
    /// One that is about to begin counts already.
    pub(super) fn share_open_budget(&mut self, beginning: Option<BroadcastId>) {
        let own = self.id();
        let is_taken = |b: &Broadcast| b.phase == Phase::Active || Some(b.id) == beginning;
        let is_active = |b: &Broadcast| is_taken(b) && Some(b.id.root) != own;
        let held_of = |b: &Broadcast| {
            let object = &b.announcement.descriptor;
            // Of what the application has not taken, or not any more, there is what has come of the manifest.
            let pieces = if is_taken(b) { object.piece_count() } else { Some(b.swarm().known()) };
            let has_tree = is_taken(b) || b.phase == Phase::Complete;
            held_bytes(pieces, if has_tree { object.index_length } else { 0 })
        };
        let held: u64 = self.broadcasts.values().map(held_of).sum();
        let limit = OPEN_PIECES_BYTES_MAX.saturating_sub(held).max(OPEN_PIECES_BYTES_MIN);
        let active: Vec<&Broadcast> = self.broadcasts.values().filter(|b| is_active(b)).collect();
        let mut parts =
            open_parts(limit, &active.iter().map(|b| b.swarm().open_bytes()).collect::<Vec<_>>()).into_iter();
        for broadcast in self.broadcasts.values_mut().filter(|b| is_active(b)) {
            broadcast.swarm_mut().set_open_limit(parts.next().expect("one for each"));
        }
    }

    /// Bytes of open pieces, of all broadcasts.
    pub(super) fn open_bytes(&self) -> u64 {
        self.broadcasts.values().map(|broadcast| broadcast.swarm().open_bytes()).sum()
    }

    /// The application cannot take an object, or not any more.
    pub fn decline(&mut self, now: Time, id: BroadcastId, reason: String) {
        self.set_now(now);
        self.fail(id, Failure::Local(reason));
    }

    /// The root gives a broadcast up: all members are told.
    pub fn abort(&mut self, now: Time, id: BroadcastId, reason: String) {
        self.set_now(now);
        // What is signed is what travels.
        let reason = crate::text_within(&reason, TEXT_BYTES_MAX).to_owned();
        let signed = self.to_be_signed(Signer::Node, SignatureDomain::Abort, || broadcast_body(id, &reason));
        self.have_signed(Pending::SignAbort { broadcast: id, reason }, signed);
    }

    /// The application has no more use for a broadcast: it is neither served nor taken up again.
    pub fn forget(&mut self, now: Time, id: BroadcastId) {
        self.set_now(now);
        if Some(id.root) != self.id() {
            // Whoever waits for its result must not wait for ever.
            self.fail(id, Failure::Local("its receiver gave it up".into()));
        }
        // What this node's application does not want, others may still be waiting for; it may have to coordinate them.
        let over = |b: &Broadcast| id.root == b.swarm().standing.node || b.released || b.aborted || b.release.is_some();
        let open = self.broadcasts.remove(&id).filter(|broadcast| !over(broadcast));
        match &open {
            Some(_) => self.coordination.note_unwanted(id),
            None => self.coordination.forget(id),
        }
        self.share_open_budget(None);
        for (link, piece) in self.uploads.remove_broadcast(id) {
            self.send(link, Frame::Reject { broadcast: id, piece });
        }
        match open.and_then(|broadcast| broadcast.result).filter(|result| result.outcome.is_err()) {
            Some(result) => self.finished.insert_failed(result),
            None => self.finished.insert(id),
        }
    }

    /// The node leaves the group.
    pub fn leave(&mut self, now: Time) {
        self.set_now(now);
        self.flush_reports();
        self.say_releases();
        for link in self.links.keys().collect::<Vec<_>>() {
            self.send(link, Frame::Bye);
            self.outputs.push_back(Output::Close { link, reason: CloseReason::Unneeded });
        }
        self.links.clear();
    }
}

// ---- Frames ----

impl Node {
    pub(super) fn member_frame(&mut self, link: LinkId, frame: Frame) {
        let now = self.now;
        if self.member_at(link).is_none() {
            return self.admission_frame(link, frame);
        }
        if let Some(broadcast) = self.comes_early(&frame) {
            return self.hold_early(link, broadcast, frame);
        }
        match frame {
            Frame::Ping { token } => self.send(link, Frame::Pong { token }),
            Frame::Pong { token } => self.pong(link, token),
            Frame::Bye => self.member_leaves(link),
            Frame::Retire => self.left_by_peer(link),
            Frame::Assign { assignment, signature } => self.assigned_place(link, *assignment, signature),
            Frame::Routed { path, frame } => self.routed(path, frame),
            Frame::CheckWay { token } => self.check_way(link, token),
            Frame::WayClear { token } => self.way_clear(link, token),
            Frame::Reports { reports } => self.reports_from(link, reports),
            Frame::Announce { broadcast, announcement } => self.announced(link, broadcast, *announcement, None),
            Frame::Whole { broadcast, whole } => match whole.intact() {
                Some(object) => {
                    let Whole { announcement, batch, batch_signature, .. } = *whole;
                    self.announced(link, broadcast, announcement, Some((batch, batch_signature, object)));
                }
                None => {
                    self.drop_peer(link, CloseReason::Violation("sent an object that does not match its hash".into()))
                }
            },
            Frame::Batch { batch, signature } => self.batch(link, batch, signature),
            Frame::WantBatches { broadcast, from, until } => {
                self.with_broadcast(broadcast, |b| b.handle_want_batches(link, from, until));
            }
            Frame::Have { broadcast, batches, pieces } => {
                self.with_broadcast(broadcast, |b| b.handle_have(now, link, batches, &pieces));
            }
            Frame::Reject { broadcast: BroadcastId::FILLER, .. } => self.filler_refused(link),
            Frame::Request { broadcast, piece, range } => self.requested(link, broadcast, piece, range),
            Frame::Cancel { broadcast, piece } => {
                self.uploads.cancel(link, broadcast, piece);
                self.with_broadcast(broadcast, |b| b.held.cancel(link, piece));
                self.outputs.push_back(Output::CancelPayload { link, broadcast, piece });
            }
            Frame::Reject { broadcast, piece } => {
                self.with_broadcast(broadcast, |b| b.handle_rejected(now, link, piece));
            }
            Frame::Strategy { broadcast, message } => {
                self.with_broadcast(broadcast, |b| b.handle_message(now, link, &message));
            }
            Frame::Abort { broadcast, ref reason, signature } => {
                let reason = reason.clone();
                let pending = Pending::VerifyAbort { broadcast, reason, frame, link };
                self.verify_end(broadcast, SignatureDomain::Abort, signature, pending);
            }
            Frame::Release { broadcast, signature } => self.release_heard(link, broadcast, signature),
            Frame::RootLost { broadcast, .. } if !self.hears_end(link, broadcast, &frame) => {}
            Frame::RootLost { broadcast, signature } => {
                let pending = Pending::VerifyRootLost { broadcast, frame, link };
                self.verify_end(broadcast, SignatureDomain::RootLost, signature, pending);
            }
            Frame::Entrust { authority, children } => self.entrusted(link, authority, children),
            Frame::Succession { succession, signature } => self.verify_succession(link, succession, signature),
            Frame::Adrift => self.parent_adrift(link),
            Frame::Holding { term, epoch, slots } => self.peer_holds(link, (term, epoch), slots),
            Frame::Hello(_)
            | Frame::Join(_)
            | Frame::Probe { .. }
            | Frame::Probed { .. }
            | Frame::Admit { .. }
            | Frame::Refuse { .. }
            | Frame::Later { .. } => {
                let reason = CloseReason::Violation("sent a frame that does not belong on this link".into());
                self.drop_peer(link, reason);
            }
        }
    }

    fn requested(&mut self, link: LinkId, broadcast: BroadcastId, piece: PieceIndex, range: ByteRange) {
        if broadcast == BroadcastId::FILLER {
            return self.filler_requested(link, piece, range);
        }
        let can = self.broadcasts.get(&broadcast).is_some_and(|b| b.can_serve(piece, range));
        if can {
            self.queue_upload(link, broadcast, piece, range);
            self.drain_uploads();
            return;
        }
        let has_room = self.broadcasts.values().map(|b| b.held.of(link)).sum::<usize>() < HELD_MAX;
        if !has_room || self.with_broadcast(broadcast, |b| b.hold(link, piece, range)) != Some(true) {
            self.send(link, Frame::Reject { broadcast, piece });
        }
    }

    /// A piece is here: those who asked for it in advance are sent it.
    pub(super) fn serve_held(&mut self, broadcast: BroadcastId, piece: PieceIndex) {
        let waiting = self.with_broadcast(broadcast, |b| b.held.take(piece)).unwrap_or_default();
        waiting.into_iter().for_each(|(link, range)| self.queue_upload(link, broadcast, piece, range));
        self.drain_uploads();
    }

    /// Pieces that a strategy sends without being asked wait behind what a peer has asked for.
    pub(super) fn queue_pushes(&mut self, broadcast: BroadcastId, pushes: Vec<(LinkId, PieceIndex)>) {
        for (link, piece) in pushes {
            let Some(swarm) = self.broadcasts.get_mut(&broadcast).map(Broadcast::swarm_mut) else { return };
            let range = ByteRange::whole(swarm.piece_len(piece));
            let peer_pieces = swarm.peer(link).map_or(0, |peer| peer.have.count());
            swarm.count_out(link, range.len());
            self.uploads.add(link, Upload { broadcast, piece, range }, peer_pieces);
        }
        self.drain_uploads();
    }

    fn queue_upload(&mut self, link: LinkId, broadcast: BroadcastId, piece: PieceIndex, range: ByteRange) {
        let now = self.now;
        let Some(swarm) = self.broadcasts.get(&broadcast).map(Broadcast::swarm) else { return };
        let peer_pieces = swarm.peer(link).map_or(0, |p| p.have.count());
        if !self.uploads.add(link, Upload { broadcast, piece, range }, peer_pieces) {
            return self.drop_peer(link, CloseReason::Violation("asks for more than a node may have open".into()));
        }
        self.with_broadcast(broadcast, |b| b.handle_wanted(now, link, piece, range));
    }
}

// ---- The manifest ----

impl Node {
    pub(super) fn verify_batch(&mut self, (link, batch, signature): (LinkId, Batch, Signature)) {
        let Some(broadcast) = self.broadcasts.get(&batch.broadcast) else { return };
        let key = Some(broadcast.announcement.credential.key);
        let checks = self.check(SignatureDomain::Batch, key, || batch.to_bytes(), signature).into_iter().collect();
        self.have_verified(Pending::VerifyBatch { link, batch, signature }, checks);
    }

    pub(super) fn batch_verified(&mut self, link: LinkId, batch: Batch, signature: Signature, valid: bool) {
        let (now, id) = (self.now, batch.broadcast);
        let result = self.with_broadcast(id, |b| b.handle_batch_verified(now, batch, signature, valid));
        if let Some(Err(reason)) = result {
            self.drop_peer(link, CloseReason::Violation(reason));
        }
        // An object without a single byte is complete with its manifest.
        if self.with_broadcast(id, |b| b.finish_if_complete()) == Some(true) {
            self.broadcast_complete(id);
        }
        if let Some(Some(next)) = self.with_broadcast(id, Broadcast::next_to_verify) {
            self.verify_batch(next);
        }
    }

    pub(super) fn sign_next_batch(&mut self, id: BroadcastId) {
        let now = self.now;
        let signed = |b: &Broadcast| b.announcement.signature != Signature::default();
        if !self.broadcasts.get(&id).is_some_and(signed) {
            return;
        }
        if let Some(Some(batch)) = self.with_broadcast(id, |b| b.next_to_sign(now)) {
            let signed = self.to_be_signed(Signer::Node, SignatureDomain::Batch, || batch.to_bytes());
            self.have_signed(Pending::SignBatch { broadcast: id }, signed);
        }
    }

    pub(super) fn batch_signed(&mut self, id: BroadcastId, signature: Signature) {
        let now = self.now;
        self.with_broadcast(id, |b| b.handle_batch_signed(now, signature));
        // It may have been given up while it was signed.
        if self.broadcasts.get(&id).is_some_and(Broadcast::is_announced) {
            self.pass_whole_on(id, None);
        }
        if self.broadcasts.get(&id).is_some_and(|b| b.phase == Phase::Complete) {
            self.broadcast_complete(id);
        }
        self.sign_next_batch(id);
    }
}

/// What each of several broadcasts, which have so many bytes open, may have open of `limit` bytes together: equal parts, and where one
/// has more than its part, that and what is left.
fn open_parts(limit: u64, open: &[u64]) -> Vec<u64> {
    let part = limit / open.len().max(1) as u64;
    let mut left = limit.saturating_sub(open.iter().sum());
    let may_have = |&open: &u64| {
        let more = part.saturating_sub(open).min(left);
        left -= more;
        open + more
    };
    open.iter().map(may_have).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::have::Run;
    use crate::node::testing::{PIECE_BYTES, announcement, descriptor, founder, linked, outputs, to_verify};
    use crate::units::NodeId;

    /// What a peer takes back before the driver has it is no rate for which tit for tat should serve the peer.
    #[test]
    fn a_peer_was_sent_what_the_driver_was_given_for_it() {
        let mut node = founder();
        let link = linked(&mut node, NodeId(1));
        let id = node.broadcast(Time::ZERO, descriptor("bittorrent", 4), None).expect("it is a member");
        let announcement = Box::new(node.broadcasts[&id].announcement.clone());
        node.handle_frame(Time::ZERO, link, Frame::Announce { broadcast: id, announcement });
        let pieces = [0, 1, 2, 3].map(PieceIndex);
        let swarm = node.broadcasts.get_mut(&id).expect("it has begun").swarm_mut();
        pieces.into_iter().for_each(|piece| swarm.add_own(piece));
        outputs(&mut node);
        let range = ByteRange::whole(PIECE_BYTES);
        for piece in pieces {
            node.handle_frame(Time::ZERO, link, Frame::Request { broadcast: id, piece, range });
        }
        node.handle_frame(Time::ZERO, link, Frame::Cancel { broadcast: id, piece: pieces[3] });
        node.handle_sent(Time::ZERO, link);
        node.handle_sent(Time::ZERO, link);
        let given = outputs(&mut node).iter().filter(|output| matches!(output, Output::SendPayload { .. })).count();
        let sent_bytes = node.broadcasts[&id].swarm().peer(link).expect("it has announced it").sent_bytes;
        assert_eq!((given, sent_bytes), (3, 3 * u64::from(PIECE_BYTES)));
    }

    #[test]
    fn who_waits_for_what_is_given_up_is_told_so() {
        let mut node = founder();
        let link = linked(&mut node, NodeId(1));
        let id = node.broadcast(Time::ZERO, descriptor("mob", 64), None).expect("it is a member");
        let announcement = Box::new(node.broadcasts[&id].announcement.clone());
        node.handle_frame(Time::ZERO, link, Frame::Announce { broadcast: id, announcement });
        let swarm = node.broadcasts.get_mut(&id).expect("it has begun").swarm_mut();
        (0..64).map(PieceIndex).for_each(|piece| swarm.add_own(piece));
        let range = ByteRange::whole(PIECE_BYTES);
        for piece in (0..64).map(PieceIndex) {
            node.handle_frame(Time::ZERO, link, Frame::Request { broadcast: id, piece, range });
        }
        let given = outputs(&mut node).iter().filter(|output| matches!(output, Output::SendPayload { .. })).count();
        node.forget(Time::ZERO, id);
        let is_reject = |output: &Output| matches!(output, Output::Send { frame: Frame::Reject { .. }, .. });
        let rejected = outputs(&mut node).iter().filter(|output| is_reject(output)).count();
        assert!(given < 64, "some wait");
        assert_eq!(given + rejected, 64);
    }

    #[test]
    fn nobody_has_more_waiting_of_all_broadcasts_than_a_node_may_have_open() {
        let mut node = founder();
        let [first, second] = [1, 2].map(|peer| linked(&mut node, NodeId(peer)));
        let root = NodeId(5);
        let ids = [0, 1].map(|sequence| BroadcastId { root, sequence });
        for id in ids {
            announce(&mut node, first, id, descriptor("chain", 2_000));
            let announcement = Box::new(announcement(&node, root, descriptor("chain", 2_000)));
            node.handle_frame(Time::ZERO, second, Frame::Announce { broadcast: id, announcement });
        }
        outputs(&mut node);
        let mut rejected = |link: LinkId, pieces: u32| {
            for (broadcast, piece) in ids.into_iter().flat_map(|id| (0..pieces).map(move |piece| (id, piece))) {
                let range = ByteRange::whole(PIECE_BYTES);
                node.handle_frame(Time::ZERO, link, Frame::Request { broadcast, piece: PieceIndex(piece), range });
            }
            let is_reject = |output: &Output| matches!(output, Output::Send { frame: Frame::Reject { .. }, .. });
            outputs(&mut node).iter().filter(|output| is_reject(output)).count()
        };
        assert_eq!(rejected(first, 2_000), 2 * 2_000 - HELD_MAX);
        assert_eq!(rejected(second, 1), 0, "each peer has its own");
    }

    /// A node that waits for so many pieces of two objects.
    fn with_open(pieces: [u32; 2]) -> Node {
        let mut node = founder();
        let link = linked(&mut node, NodeId(1));
        for count in pieces {
            let id = node.broadcast(Time::ZERO, descriptor("mob", count), None).expect("it is a member");
            let announcement = Box::new(node.broadcasts[&id].announcement.clone());
            node.handle_frame(Time::ZERO, link, Frame::Announce { broadcast: id, announcement });
            let swarm = node.broadcasts.get_mut(&id).expect("it has begun").swarm_mut();
            swarm.add_known(count, 1, None);
            swarm.set_paused(false);
            swarm.set_open_limit(u64::MAX);
            swarm.add_have(link, 1, &[Run { first: PieceIndex(0), count }]);
            (0..count).map(PieceIndex).for_each(|piece| assert!(swarm.request(link, piece)));
            swarm.set_open_limit(OPEN_PIECES_BYTES_MAX);
        }
        node
    }

    #[test]
    fn as_much_may_be_open_as_fits_and_a_piece_of_each_object() {
        with_open([1281, 1281]).check_invariants();
    }

    #[test]
    #[should_panic(expected = "are open of all broadcasts")]
    fn a_piece_too_many_is_open() {
        with_open([1281, 1282]).check_invariants();
    }

    /// The peer that announces it to `node`, of whose object it is.
    fn announce(node: &mut Node, link: LinkId, id: BroadcastId, descriptor: Descriptor) {
        let announcement = Box::new(announcement(node, id.root, descriptor));
        outputs(node);
        node.handle_frame(Time::ZERO, link, Frame::Announce { broadcast: id, announcement });
        let token = to_verify(&outputs(node)).expect("the announcement");
        node.handle_verified(Time::ZERO, token, true);
    }

    #[test]
    fn only_what_is_fetched_has_a_part_of_what_may_be_open_and_only_what_is_there_is_held() {
        let mut node = founder();
        let root = NodeId(5);
        let link = linked(&mut node, root);
        let ids = [0, 1].map(|sequence| BroadcastId { root, sequence });
        let stream = Descriptor { length: None, ..descriptor("mob", 0) };
        node.broadcast(Time::ZERO, descriptor("mob", 64), None).expect("it is a member");
        announce(&mut node, link, ids[0], stream);
        announce(&mut node, link, ids[1], descriptor("mob", 64));
        node.accept(Time::ZERO, ids[1]);
        let limit = |node: &Node| node.broadcasts[&ids[1]].swarm().open_limit();
        let all = OPEN_PIECES_BYTES_MAX - 2 * held_bytes(Some(64), 0);
        assert_eq!(limit(&node), all, "the stream may never be taken");
        node.accept(Time::ZERO, ids[0]);
        node.handle_timeout(Time::ZERO);
        assert_eq!(limit(&node), (all - held_bytes(None, 0)) / 2);
        node.decline(Time::ZERO, ids[0], "no use for it".into());
        node.handle_timeout(Time::ZERO);
        assert_eq!(limit(&node), all);
    }

    #[test]
    fn who_comes_later_has_what_is_left_until_its_part_is_free() {
        assert_eq!(open_parts(40, &[0]), [40]);
        assert_eq!(open_parts(40, &[40, 0]), [40, 0]);
        assert_eq!(open_parts(40, &[30, 0]), [30, 10]);
        assert_eq!(open_parts(40, &[10, 0]), [20, 20]);
        assert_eq!(open_parts(40, &[27, 0, 0]), [27, 13, 0], "all together have no more than there is");
    }
}
