//! Who hears of a broadcast, and when: announcements are verified and passed on, and peers in other clusters are told more before they
//! answer.

use std::collections::BTreeMap;
use std::iter;

use crate::broadcast::{Broadcast, Phase};
use crate::content::announcement::Announcement;
use crate::content::hashed::HashedObject;
use crate::content::manifest::{Batch, SignatureDomain, signed_message};
use crate::fetch::peer::Standing;
use crate::group::report::{NodeResult, Report, Traffic};
use crate::io::{Check, CloseReason, Event};
use crate::limits::{BROADCASTS_MAX, PASSED_ON_BYTES_MAX};
use crate::units::{BroadcastId, LinkId, Signature};
use crate::wire::frame::Frame;

use super::{Node, Pending, Untold, Unverified};

/// What each of those who announced a broadcast says of it while it is still being verified is kept up to so many bytes: 256 hashes, what is
/// there and what is wanted are less.
const EARLY_BYTES_MAX: usize = 32 << 10;
/// What a node says of a broadcast for which it has no room.
const NO_ROOM: &str = "it has too many broadcasts: those that are over take a place until their handles are dropped";
/// Objects in one frame for whoever takes its place below: as much again is left on the link for what goes on to it and through it.
const GREETING_BYTES_MAX: usize = PASSED_ON_BYTES_MAX / 2;
/// What a frame takes beside its encoded bytes, at least.
const EARLY_FRAME_BYTES: usize = 128;

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
        if let Some(abort) = self.abort_of(id).filter(|_| self.member_at(link).is_some()) {
            return self.send(link, abort);
        }
        if self.broadcasts.contains_key(&id) {
            return self.peer_knows(link, id);
        }
        if self.finished.contains(id) {
            return;
        }
        if let Some(entry) = self.unverified.get_mut(&id) {
            entry.links.insert(link);
            return;
        }
        if self.unverified.len() >= BROADCASTS_MAX {
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
            if batch.broadcast != id {
                let reason = CloseReason::Violation(format!("sent {id} with the manifest of {}", batch.broadcast));
                return self.drop_peer(link, reason);
            }
            checks.extend(self.check(SignatureDomain::Batch, key, || batch.to_bytes(), *signature));
        }
        let whole = whole.map(|(batch, signature, object)| (link, batch, signature, object));
        let links = [link].into();
        self.unverified.insert(
            id,
            Box::new(Unverified {
                announcement,
                first: link,
                links,
                whole,
                verified: false,
                early: Vec::new(),
                early_bytes: BTreeMap::new(),
            }),
        );
        self.have_verified(Pending::VerifyAnnouncement { broadcast: id }, checks);
    }

    /// What is over and only kept by the application takes no place but some memory.
    pub(super) fn has_room_for_another(&self) -> bool {
        let is_over = |b: &Broadcast| b.released || b.release.is_some() || b.phase == Phase::Failed;
        let open = self.broadcasts.values().filter(|b| !is_over(b)).count();
        open < BROADCASTS_MAX && self.broadcasts.len() < 2 * BROADCASTS_MAX
    }

    /// There is no room for a broadcast: whoever waits for this node's result must not wait for ever.
    fn refuse_announced(&mut self, id: BroadcastId) {
        // Others may be waiting for it, and this node may have to coordinate them.
        self.coordination.note_unwanted(id);
        let outcome = Err(NO_ROOM.into());
        let result = NodeResult { broadcast: id, outcome, elapsed_us: 0, traffic: Traffic::default() };
        self.finished.insert_failed(result.clone());
        self.report(Report::Result(result));
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
            self.open_one_announced(id, *announced);
        }
    }

    fn open_one_announced(&mut self, id: BroadcastId, announced: Unverified) {
        if !self.has_room_for_another() {
            return self.refuse_announced(id);
        }
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
        self.take_held_root_loss(id);
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

    /// The broadcast that a frame is about, if it is still being verified and the frame belongs to it.
    pub(super) fn comes_early(&self, frame: &Frame) -> Option<BroadcastId> {
        let (Frame::Batch { batch: Batch { broadcast, .. }, .. }
        | Frame::Have { broadcast, .. }
        | Frame::Strategy { broadcast, .. }) = frame
        else {
            return None;
        };
        Some(*broadcast).filter(|broadcast| self.unverified.contains_key(broadcast))
    }

    /// Something about a broadcast that is still being verified waits for that.
    pub(super) fn hold_early(&mut self, link: LinkId, id: BroadcastId, frame: Frame) {
        let Some(entry) = self.unverified.get_mut(&id).filter(|entry| entry.links.contains(&link)) else { return };
        let bytes = entry.early_bytes.entry(link).or_default();
        *bytes += frame.encode().len() + EARLY_FRAME_BYTES;
        if *bytes <= EARLY_BYTES_MAX {
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

    pub(super) fn batch(&mut self, link: LinkId, batch: Batch, signature: Signature) {
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

    /// A node that has just taken its place in the tree may have missed what went down it. Of objects in one frame it gets those that are not
    /// over, and as many as there is room for: all were announced to it when its link came up, and it can ask for them.
    pub(super) fn greet_child(&mut self, link: LinkId) {
        for broadcast in self.broadcasts.values().map(|b| b.id).collect::<Vec<_>>() {
            self.greet_with_whole(link, broadcast);
        }
        let loss = |b: &Broadcast| b.root_loss.map(|signature| Frame::RootLost { broadcast: b.id, signature });
        let release = |b: &Broadcast| b.release.map(|signature| Frame::Release { broadcast: b.id, signature });
        let losses = self.broadcasts.values().filter_map(loss).chain(self.unknown_ends.root_losses());
        let releases = self.broadcasts.values().filter_map(release);
        let adrift = self.membership.adrift.then_some(Frame::Adrift);
        let frames: Vec<Frame> = losses.chain(releases).chain(adrift).collect();
        frames.into_iter().for_each(|frame| self.send(link, frame));
    }

    fn greet_with_whole(&mut self, link: LinkId, id: BroadcastId) {
        let wanted = self.broadcasts.get(&id).filter(|b| b.is_announced() && !b.released);
        if let Some(frame) = wanted.and_then(Broadcast::whole_frame)
            && self.under_way(link) < GREETING_BYTES_MAX
        {
            let bytes = frame.encode().len();
            self.pass_on(link, frame, bytes);
        }
    }

    /// Sends an object in one frame to those who have it from this node.
    pub(super) fn pass_whole_on(&mut self, id: BroadcastId, from: Option<LinkId>) {
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

    pub(super) fn open_broadcast(&mut self, id: BroadcastId) {
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
            placed_at: self.membership.placed_at,
        };
        broadcast.swarm_mut().set_standing(standing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::announcement::Whole;
    use crate::content::manifest::{Chain, End};
    use crate::content::object::Descriptor;
    use crate::io::{Output, Token};
    use crate::node::testing::{announcement, descriptor, founder, linked, outputs, to_verify};
    use crate::time::Time;
    use crate::units::{ClusterId, Digest, NodeId, PieceIndex};

    const ROOT: NodeId = NodeId(5);
    const ID: BroadcastId = BroadcastId { root: ROOT, sequence: 0 };
    const SIGNATURE: Signature = Signature([1; 64]);

    #[test]
    fn what_is_over_and_kept_by_the_application_takes_no_place() {
        let mut node = founder();
        let start = |node: &mut Node| node.broadcast(Time::ZERO, descriptor("mob", 64), None);
        let first = start(&mut node).expect("there is room");
        assert_eq!((1..BROADCASTS_MAX).filter_map(|_| start(&mut node)).count(), BROADCASTS_MAX - 1);
        assert_eq!(start(&mut node), None);
        node.tell_released(first);
        assert!(start(&mut node).is_some() && start(&mut node).is_none());
    }

    #[test]
    fn who_keeps_too_many_broadcasts_says_of_another_one_that_it_cannot_have_it() {
        let mut node = founder();
        for _ in 0..2 * BROADCASTS_MAX {
            let id = node.broadcast(Time::ZERO, descriptor("mob", 64), None).expect("those before are over");
            node.tell_released(id);
        }
        let link = linked(&mut node, ROOT);
        let announcement = Box::new(announcement(&node, ROOT, descriptor("mob", 64)));
        let announce = Frame::Announce { broadcast: ID, announcement };
        outputs(&mut node);
        node.handle_frame(Time::ZERO, link, announce.clone());
        let token = to_verify(&outputs(&mut node)).expect("nobody has others told what it has not signed");
        node.handle_verified(Time::ZERO, token, true);
        let said = |output: Output| match output {
            Output::Event(Event::Result { result, .. }) => Some((result.broadcast, result.outcome)),
            _ => None,
        };
        let said: Vec<_> = outputs(&mut node).into_iter().filter_map(said).collect();
        assert_eq!(said, [(ID, Err(NO_ROOM.into()))]);
        node.handle_frame(Time::ZERO, link, announce);
        assert_eq!(outputs(&mut node), [], "it is not offered again");
    }

    /// A node that has heard of a broadcast over a link, and is asked by this token whether it is the root's.
    fn informed() -> (Node, LinkId, Announcement, Token) {
        let mut node = founder();
        let link = linked(&mut node, ROOT);
        let announcement = announcement(&node, ROOT, descriptor("mob", 64));
        outputs(&mut node);
        let frame = Frame::Announce { broadcast: ID, announcement: Box::new(announcement.clone()) };
        node.handle_frame(Time::ZERO, link, frame);
        let token = to_verify(&outputs(&mut node)).expect("it is verified");
        (node, link, announcement, token)
    }

    #[test]
    fn what_is_said_of_a_broadcast_while_it_is_verified_counts_when_it_is() {
        let (mut node, link, announcement, token) = informed();
        let batch = Batch {
            broadcast: ID,
            piece_size: announcement.descriptor.piece_size,
            first: PieceIndex(0),
            previous: Chain::new(&announcement.descriptor).last(),
            hashes: vec![Digest([3; 32]); 4].into(),
            end: None,
        };
        node.handle_frame(Time::ZERO, link, Frame::Batch { batch, signature: SIGNATURE });
        let pieces = vec![crate::content::have::Run { first: PieceIndex(1), count: 2 }];
        node.handle_frame(Time::ZERO, link, Frame::Have { broadcast: ID, batches: 1, pieces });
        assert_eq!(outputs(&mut node), [], "nothing is believed yet");
        node.handle_verified(Time::ZERO, token, true);
        let said = outputs(&mut node);
        let announced = said.iter().position(|o| matches!(o, Output::Event(Event::Announced { .. })));
        let token = to_verify(&said).expect("the batch is verified next");
        assert!(announced.is_some(), "the application is told");
        node.handle_verified(Time::ZERO, token, true);
        let broadcast = node.broadcasts.get(&ID).expect("it is known");
        assert_eq!(broadcast.swarm().known(), 4);
        let (_, peer) = broadcast.swarm().peers().next().expect("who announced it is a peer");
        assert_eq!(peer.have.count(), 2);
    }

    #[test]
    fn whoever_says_too_much_of_what_is_not_verified_loses_its_link() {
        let (mut node, link, ..) = informed();
        let have = || Frame::Have { broadcast: ID, batches: 0, pieces: Vec::new() };
        let fit = EARLY_BYTES_MAX / (have().encode().len() + EARLY_FRAME_BYTES);
        (0..fit).for_each(|_| node.handle_frame(Time::ZERO, link, have()));
        let closed = |node: &mut Node| outputs(node).iter().any(|output| matches!(output, Output::Close { .. }));
        assert!(!closed(&mut node));
        let other = linked(&mut node, NodeId(8));
        node.handle_frame(Time::ZERO, other, have());
        assert!(!closed(&mut node), "who has not announced it is not listened to, nor blamed");
        node.handle_frame(Time::ZERO, link, have());
        assert!(closed(&mut node));
    }

    #[test]
    fn an_object_in_one_frame_comes_with_the_manifest_of_its_own_broadcast() {
        let earlier = BroadcastId { sequence: 7, ..ID };
        for (of, is_taken) in [(ID, true), (earlier, false)] {
            let mut node = founder();
            let link = linked(&mut node, ROOT);
            let data = [5; 100];
            let descriptor = Descriptor { length: Some(data.len() as u64), ..descriptor("mob", 1) };
            let object = HashedObject::of(data.as_slice().into());
            let end = End { length: data.len() as u64, object_hash: object.hash() };
            // The same description, so that the manifest of the one is that of the other but for the broadcast.
            let batch = Batch {
                broadcast: of,
                piece_size: descriptor.piece_size,
                first: PieceIndex(0),
                previous: Chain::new(&descriptor).last(),
                hashes: object.piece().into_iter().collect(),
                end: Some(end),
            };
            let announcement = announcement(&node, ROOT, descriptor);
            let whole = Whole { announcement, batch, batch_signature: SIGNATURE, data: data.as_slice().into() };
            outputs(&mut node);
            node.handle_frame(Time::ZERO, link, Frame::Whole { broadcast: ID, whole: Box::new(whole) });
            let said = outputs(&mut node);
            let is_closed = said.iter().any(|output| matches!(output, Output::Close { .. }));
            if let Some(token) = to_verify(&said) {
                node.handle_verified(Time::ZERO, token, true);
            }
            assert_eq!((node.broadcasts.contains_key(&ID), is_closed), (is_taken, !is_taken), "manifest of {of}");
        }
    }

    /// A node that has so many objects of 60 kB each in one frame.
    fn with_wholes(count: u32) -> (Node, Vec<BroadcastId>) {
        let mut node = founder();
        let object = HashedObject::of([5; 60_000].as_slice().into());
        let object_hash = object.hash();
        let descriptor = || Descriptor { piece_size: 64 << 10, length: Some(60_000), ..descriptor("mob", 1) };
        let ids = (0..count).map(|_| {
            let id = node.broadcast(Time::ZERO, descriptor(), Some(object.clone())).expect("there is room");
            node.descriptor_signed(id, SIGNATURE);
            let last = object.piece().into_iter().collect();
            node.handle_source_end(Time::ZERO, id, last, 60_000, object_hash);
            node.batch_signed(id, SIGNATURE);
            id
        });
        let ids = ids.collect();
        outputs(&mut node);
        (node, ids)
    }

    #[test]
    fn who_takes_its_place_below_is_sent_the_objects_that_are_not_over_as_far_as_there_is_room() {
        let wholes = |node: &mut Node, link: LinkId| {
            node.greet_child(link);
            let whole = |output: Output| match output {
                Output::Send { link: to, frame: Frame::Whole { broadcast, .. } } if to == link => Some(broadcast),
                _ => None,
            };
            outputs(node).into_iter().filter_map(whole).collect::<Vec<_>>()
        };
        let (mut node, ids) = with_wholes(20);
        let link = linked(&mut node, NodeId(1));
        let announced = |output: &Output| matches!(output, Output::Send { frame: Frame::Announce { .. }, .. });
        assert_eq!(outputs(&mut node).iter().filter(|output| announced(output)).count(), 20, "it can ask for all");
        node.tell_released(ids[0]);
        let room = GREETING_BYTES_MAX.div_ceil(60_000);
        assert_eq!(wholes(&mut node, link), ids[1..=room]);
        assert_eq!(wholes(&mut node, link), [], "these are not known to be through");
    }

    #[test]
    fn peers_in_other_clusters_are_told_more_before_they_answer() {
        let (mut node, _, announcement, token) = informed();
        let far = node.accept_link(
            Time::ZERO,
            crate::io::PeerIdentity::Member { node: NodeId(6), cluster: ClusterId(3) },
            &crate::wire::frame::Hello { node: NodeId(6), ..node.hello(0) },
        );
        let near = linked(&mut node, NodeId(8));
        outputs(&mut node);
        node.handle_verified(Time::ZERO, token, true);
        let told = |link: LinkId, said: &[Output]| {
            let about = |output: &&Output| matches!(output, Output::Send { link: to, frame: Frame::Strategy { .. } } if *to == link);
            said.iter().filter(about).count()
        };
        let said = outputs(&mut node);
        assert_eq!((told(far, &said), told(near, &said)), (1, 0), "of {:?}", announcement.descriptor.strategy);
    }
}
