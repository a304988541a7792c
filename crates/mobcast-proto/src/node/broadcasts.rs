//! A node's broadcasts: starting and announcing them, verifying what others announce, the frames of each, the manifest.

use std::iter;

use crate::broadcast::{Broadcast, Phase};
use crate::content::announcement::{Announcement, WHOLE_BYTES_MAX, Whole};
use crate::content::hashed::HashedObject;
use crate::content::manifest::{Batch, SignatureDomain, signed_message};
use crate::content::object::Descriptor;
use crate::fetch::peer::Standing;
use crate::flow::upload::Upload;
use crate::io::{Check, CloseReason, Event, Failure, Output, Signer};
use crate::limits::{BROADCASTS_MAX, OPEN_PIECES_BYTES_MAX, OPEN_PIECES_BYTES_MIN, held_bytes};
use crate::time::Time;
use crate::units::{BroadcastId, ByteRange, LinkId, PieceIndex, Signature};
use crate::wire::codec::Writer;
use crate::wire::frame::{Frame, TEXT_BYTES_MAX};

use super::{Node, Pending, Untold, Unverified};

/// What is said of a broadcast that is still being verified is kept up to so many frames: whoever speaks first says less.
const EARLY_MAX: usize = 256;

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
        if self.broadcasts.len() >= BROADCASTS_MAX {
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
        let Some(whole) = self.with_broadcast(id, |broadcast| {
            if broadcast.phase == Phase::Offered {
                broadcast.start(now);
            }
            broadcast.whole.clone()
        }) else {
            return;
        };
        self.share_open_budget();
        if let Some(object) = whole.filter(|object| !object.data().is_empty()) {
            self.outputs.push_back(Output::StoreWhole { broadcast: id, object });
        }
        if self.with_broadcast(id, |broadcast| broadcast.finish_if_complete()) == Some(true) {
            self.broadcast_complete(id);
        }
    }

    /// Broadcasts in progress share the limit of open pieces, or what is left of it beside what is held of all.
    fn share_open_budget(&mut self) {
        let active = self.broadcasts.values().filter(|b| b.phase == Phase::Active).count().max(1) as u64;
        let descriptors = self.broadcasts.values().map(|broadcast| &broadcast.announcement.descriptor);
        let held: u64 = descriptors.map(|object| held_bytes(object.piece_count(), object.index_length)).sum();
        let limit = OPEN_PIECES_BYTES_MAX.saturating_sub(held).max(OPEN_PIECES_BYTES_MIN);
        for broadcast in self.broadcasts.values_mut() {
            broadcast.swarm_mut().set_open_limit(limit / active);
        }
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
        self.broadcasts.remove(&id);
        self.coordination.forget(id);
        self.share_open_budget();
        self.uploads.remove_broadcast(id);
        self.finished.insert(id);
        while self.finished.len() > 16 * BROADCASTS_MAX {
            self.finished.pop_first();
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

// ---- Announcements ----

impl Node {
    pub(super) fn descriptor_signed(&mut self, id: BroadcastId, signature: Signature) {
        let now = self.now;
        let whole = self.with_broadcast(id, |broadcast| {
            broadcast.announcement.signature = signature;
            broadcast.start(now);
            broadcast.whole.is_some()
        });
        if whole == Some(false) {
            self.flood_announcement(id);
            self.speak_first(id);
        }
        self.sign_next_batch(id);
    }

    /// Announces a broadcast on all links.
    pub(super) fn flood_announcement(&mut self, id: BroadcastId) {
        let Some(broadcast) = self.broadcasts.get_mut(&id) else { return };
        broadcast.flooded = true;
        let frame = broadcast.announce_frame();
        self.send_to_all(self.member_links(), frame);
    }

    /// Lets a new peer know of the broadcasts that there are.
    pub(super) fn greet_broadcasts(&mut self, link: LinkId) {
        let greeted = self.take_greeted(link);
        let news = self.broadcasts.values().filter(|b| b.is_announced() && !greeted.contains(&b.id));
        let frames: Vec<Frame> = news.map(Broadcast::announce_frame).collect();
        frames.into_iter().for_each(|frame| self.send(link, frame));
    }

    pub(super) fn announced(
        &mut self,
        link: LinkId,
        id: BroadcastId,
        announcement: Announcement,
        whole: Option<(Batch, Signature, HashedObject)>,
    ) {
        if self.broadcasts.contains_key(&id) {
            return self.peer_knows(link, id);
        }
        if self.finished.contains(&id) {
            return;
        }
        if let Some(entry) = self.unverified.get_mut(&id) {
            entry.links.insert(link);
            return;
        }
        if self.broadcasts.len() + self.unverified.len() >= BROADCASTS_MAX {
            return;
        }
        let credential = &announcement.credential;
        if credential.group != self.config.group || credential.node != id.root {
            let reason = CloseReason::Violation(format!("announced {id} with another node's credential"));
            return self.drop_peer(link, reason);
        }
        let group = self.config.group;
        let mut checks = vec![Check {
            key: None,
            message: signed_message(SignatureDomain::Credential, group, &credential.to_bytes()),
            signature: announcement.credential_signature,
        }];
        let key = Some(credential.key);
        checks.extend(self.check(SignatureDomain::Descriptor, key, || announcement.body(id), announcement.signature));
        if let Some((batch, signature, _)) = &whole {
            checks.extend(self.check(SignatureDomain::Batch, key, || batch.to_bytes(), *signature));
        }
        let whole = whole.map(|(batch, signature, object)| (link, batch, signature, object));
        let links = [link].into();
        self.unverified
            .insert(id, Unverified { announcement, first: link, links, whole, verified: false, early: Vec::new() });
        self.have_verified(Pending::VerifyAnnouncement { broadcast: id }, checks);
    }

    pub(super) fn announcement_verified(&mut self, id: BroadcastId, valid: bool) {
        let Some(entry) = self.unverified.get_mut(&id) else { return };
        entry.verified = valid;
        let (first, links) = (entry.first, &entry.links);
        if valid {
            if self.assignment().is_some() {
                self.open_announced();
            }
            return;
        }
        let blamed = links.contains(&first);
        self.unverified.remove(&id);
        if blamed {
            self.drop_peer(first, CloseReason::Violation(format!("announced {id} with a wrong signature")));
        }
    }

    /// Opens what was announced and is verified, in a node that knows where it stands.
    pub(super) fn open_announced(&mut self) {
        for (id, announced) in self.unverified.extract_if(.., |_, entry| entry.verified).collect::<Vec<_>>() {
            self.open_one_announced(id, announced);
        }
    }

    fn open_one_announced(&mut self, id: BroadcastId, announced: Unverified) {
        let Unverified { announcement, links, whole, early, .. } = announced;
        let Some(kind) = self.config.registry.find(&announcement.descriptor.strategy) else { return };
        let descriptor = announcement.descriptor.clone();
        let seed = self.random.next_u64();
        let broadcast = Broadcast::new(self.now, id, announcement, (kind.make)(), false, seed);
        self.broadcasts.insert(id, broadcast);
        self.open_broadcast(id);
        let mut from = None;
        if let Some((link, batch, signature, object)) = whole {
            from = Some(link);
            let now = self.now;
            // What it leads to goes to the driver behind the announcement.
            let fits = self.broadcasts.get_mut(&id).map(|broadcast| {
                broadcast.whole = Some(object);
                broadcast.handle_batch(link, batch.clone(), signature).is_some()
                    && broadcast.handle_batch_verified(now, batch, signature, true).is_ok()
            });
            if fits != Some(true) {
                self.broadcasts.remove(&id);
                let reason = CloseReason::Violation(format!("sent {id} with a manifest that does not fit"));
                return self.drop_peer(link, reason);
            }
        }
        match from {
            Some(from) => self.pass_whole_on(id, Some(from)),
            None => self.flood_announcement(id),
        }
        self.untold.push(Untold { broadcast: id, descriptor, early: Vec::new() });
        if !self.member_links().is_empty() {
            self.tell_of_broadcasts();
        }
        // Who has sent the whole object is told of the rest if the object is announced after all.
        links.into_iter().filter(|&link| Some(link) != from).for_each(|link| self.peer_knows(link, id));
        self.speak_first(id);
        self.with_broadcast(id, |_| {});
        match self.untold.iter_mut().find(|untold| untold.broadcast == id) {
            Some(untold) => untold.early = early,
            None => self.take_early(early),
        }
        if let Some((link, frame)) = self.held_root_losses.remove(&id) {
            self.member_frame(link, frame);
        }
    }

    /// Lets a node that was just admitted know of the broadcasts, and of their first pieces, so that it can tell its peers with its
    /// greetings what it wants, and ask for it when they answer.
    pub(super) fn greet_newcomer(&mut self, link: LinkId) {
        if self.takes_word(SignatureDomain::Descriptor) {
            // It learns with its assignment that members trust each other, and could not take what nobody has signed.
            return;
        }
        let known = self.broadcasts.values().filter(|broadcast| broadcast.is_announced());
        let frames = known.flat_map(|b| iter::once(b.announce_frame()).chain(b.first_batch_frame()));
        frames.collect::<Vec<_>>().into_iter().for_each(|frame| self.send(link, frame));
    }

    /// Takes those for whom the broadcast is new, in other clusters, to know of it from now on, if the strategy has them told more
    /// before they answer: it comes behind the announcement.
    fn speak_first(&mut self, id: BroadcastId) {
        if !self.broadcasts.get(&id).is_some_and(|broadcast| broadcast.flooded && broadcast.speaks_first()) {
            return;
        }
        let own = self.assignment().map(|assignment| assignment.cluster);
        let links = self.member_links().into_iter().filter(|&link| self.cluster_at(link) != own);
        links.collect::<Vec<_>>().into_iter().for_each(|link| self.peer_knows(link, id));
    }

    /// Something about a broadcast that is still being verified waits for that.
    pub(super) fn hold_early(&mut self, link: LinkId, id: BroadcastId, frame: Frame) {
        let Some(entry) = self.unverified.get_mut(&id) else { return };
        if entry.early.len() < EARLY_MAX {
            entry.early.push((link, frame));
        } else {
            self.drop_peer(link, CloseReason::Violation(format!("said too much of {id} before it could be verified")));
        }
    }

    fn take_early(&mut self, early: Vec<(LinkId, Frame)>) {
        for (link, frame) in early {
            match frame {
                // Also from the coordinator, to whom this node was no member when it came.
                Frame::Batch { batch, signature } => self.batch(link, batch, signature),
                frame => {
                    if self.member_at(link).is_some() {
                        self.member_frame(link, frame);
                    }
                }
            }
        }
    }

    fn batch(&mut self, link: LinkId, batch: Batch, signature: Signature) {
        let id = batch.broadcast;
        if let Some(Some(next)) = self.with_broadcast(id, |b| b.handle_batch(link, batch, signature)) {
            self.verify_batch(next);
        }
    }

    /// Tells the application of the broadcasts that this node has heard of, if it has a link: without one it could not say that it
    /// does not take them.
    pub(super) fn tell_of_broadcasts(&mut self) {
        for Untold { broadcast, descriptor, early } in std::mem::take(&mut self.untold) {
            // First of all outputs about it, so that the driver knows what the others speak of.
            self.event(Event::Announced { broadcast, descriptor });
            self.take_early(early);
        }
    }

    /// A node that has just taken its place in the tree may have missed what went down it.
    pub(super) fn greet_child(&mut self, link: LinkId) {
        let wholes = self.broadcasts.values().filter_map(Broadcast::whole_frame);
        let loss = |b: &Broadcast| b.root_loss.map(|signature| Frame::RootLost { broadcast: b.id, signature });
        let release = |b: &Broadcast| b.release.map(|signature| Frame::Release { broadcast: b.id, signature });
        let losses = self.broadcasts.values().filter_map(loss);
        let releases = self.broadcasts.values().filter_map(release);
        let adrift = self.membership.adrift.then_some(Frame::Adrift);
        let frames: Vec<Frame> = wholes.chain(losses).chain(releases).chain(adrift).collect();
        frames.into_iter().for_each(|frame| self.send(link, frame));
    }

    /// Sends an object in one frame to those who have it from this node.
    fn pass_whole_on(&mut self, id: BroadcastId, from: Option<LinkId>) {
        let links: Vec<LinkId> = self.whole_links(id).into_iter().filter(|&link| Some(link) != from).collect();
        if let Some(frame) = self.broadcasts.get(&id).filter(|_| !links.is_empty()).and_then(Broadcast::whole_frame) {
            self.send_to_all(links, frame);
        }
    }

    /// Where an object in one frame goes: to the children in the first tree of its strategy's plan, the last ones of
    /// it first (those with most below them in a binomial tree); and along the control tree where the strategy has no plan for this root, or a child has no link yet.
    pub(super) fn whole_links(&self, id: BroadcastId) -> Vec<LinkId> {
        let strategy = self.broadcasts.get(&id).map(|broadcast| &broadcast.announcement.descriptor.strategy);
        let plans = self.assignment().into_iter().flat_map(|assignment| &assignment.plans);
        let plan = plans.into_iter().find(|plan| plan.root == id.root && Some(&plan.strategy) == strategy);
        let Some(tree) = plan.and_then(|plan| plan.trees.first()) else { return self.tree_links() };
        let children: Vec<Option<LinkId>> = tree.children.iter().rev().map(|child| self.link_to(child.node)).collect();
        let all = children.iter().all(Option::is_some);
        let mut links: Vec<LinkId> = children.into_iter().flatten().collect();
        if !all {
            let others: Vec<LinkId> = self.tree_links().into_iter().filter(|link| !links.contains(link)).collect();
            links.extend(others);
        }
        links
    }

    /// A peer knows of a broadcast that this node knows: from here on they exchange it.
    fn peer_knows(&mut self, link: LinkId, id: BroadcastId) {
        let (Some(node), Some(cluster)) = (self.member_at(link), self.cluster_at(link)) else { return };
        let rtt = self.rtt_of(link);
        let now = self.now;
        self.with_broadcast(id, |broadcast| {
            broadcast.handle_peer_up(now, link, node, cluster);
            if let Some(rtt) = rtt {
                broadcast.handle_rtt(link, rtt);
            }
        });
    }

    fn open_broadcast(&mut self, id: BroadcastId) {
        self.place_in_swarm(id);
        let now = self.now;
        self.with_broadcast(id, |broadcast| broadcast.open(now));
    }

    /// Tells a broadcast's swarm where this node stands.
    pub(super) fn place_in_swarm(&mut self, id: BroadcastId) {
        let Some(assignment) = self.membership.assignment() else { return };
        let Some(broadcast) = self.broadcasts.get_mut(&id) else { return };
        let strategy = &broadcast.announcement.descriptor.strategy;
        let standing = Standing {
            node: assignment.node,
            cluster: assignment.cluster,
            root_cluster: broadcast.root_cluster(),
            cluster_size: assignment.cluster_size,
            clusters: assignment.clusters.clone(),
            rank: assignment.rank,
            counterparts: assignment.counterparts.iter().copied().collect(),
            slots: self.membership.slots.clone(),
            plan: assignment.plans.iter().find(|plan| plan.strategy == *strategy).cloned(),
        };
        broadcast.swarm_mut().set_standing(standing);
    }
}

// ---- Frames ----

impl Node {
    pub(super) fn member_frame(&mut self, link: LinkId, frame: Frame) {
        let now = self.now;
        if self.member_at(link).is_none() {
            return self.admission_frame(link, frame);
        }
        match frame {
            Frame::Batch { batch: Batch { broadcast, .. }, .. }
            | Frame::Have { broadcast, .. }
            | Frame::Strategy { broadcast, .. }
                if self.unverified.contains_key(&broadcast) =>
            {
                self.hold_early(link, broadcast, frame);
            }
            Frame::Ping { token } => self.send(link, Frame::Pong { token }),
            Frame::Pong { token } => self.pong(link, token),
            Frame::Bye => self.member_leaves(link),
            Frame::Retire => self.left_by_peer(link),
            Frame::Assign { assignment, signature } => self.verify_assignment(*assignment, signature),
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
            Frame::WantBatches { broadcast, from } => {
                self.with_broadcast(broadcast, |b| b.handle_want_batches(link, from));
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
            Frame::RootLost { broadcast, .. } if !self.broadcasts.contains_key(&broadcast) => {
                self.hold_root_loss(link, broadcast, frame);
            }
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
        } else if self.with_broadcast(broadcast, |b| b.hold(link, piece, range)) != Some(true) {
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
    fn verify_batch(&mut self, (link, batch, signature): (LinkId, Batch, Signature)) {
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
        self.pass_whole_on(id, None);
        if self.broadcasts.get(&id).is_some_and(|b| b.phase == Phase::Complete) {
            self.broadcast_complete(id);
        }
        self.sign_next_batch(id);
    }
}
