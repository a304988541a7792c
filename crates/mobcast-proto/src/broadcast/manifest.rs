//! The manifest of a broadcast at a node: asking peers for batches, verifying them in order, passing them on.

use super::*;
use crate::content::slots::slot_of;
use crate::limits::SILENCE_MAX;
use crate::random::mix2;

/// A manifest is fetched part by part, one for each question. A part ends at every so many hashes, 128 KiB: less is not enough for a
/// round trip of a fast and long link (4,096 pieces of 256 KiB are a second of 10 Gbit/s)…
const PART_HASHES_MAX: u32 = 4096;
/// …or at fewer, where these are as many bytes as a piece: pieces are small where links are slow or shared by many, and who fetched more
/// over one of them would hold all others up…
const PART_HASHES_MIN: u32 = 1024;
/// …and at every so many batches, for each has some 150 bytes besides, and those of a slow source have few hashes.
const PART_BATCHES: u32 = 64;
/// Batches that wait for their turn to be verified are of so many parts at most; a peer that sends more was not asked for them.
const PARTS_WAITING_MAX: usize = 4;
/// A question for batches that is not answered within this is put to another peer…
const BATCH_PATIENCE: Duration = Duration::from_secs(1);
/// …or within the time that so many bytes take over a thin link, twice a full batch: pieces go along with it. Another peer would mostly
/// answer over the same link.
const BATCH_PATIENCE_BYTES: u64 = 2 * (BATCH_HASHES_MAX * size_of::<Digest>()) as u64;
/// But no longer than this.
const BATCH_PATIENCE_MAX: Duration = Duration(SILENCE_MAX.0 / 2);
/// So many first batches are sent to a newcomer unasked, if the strategy wants it to have them.
const BATCHES_PUSHED: u32 = 4;
/// Members whose slot a batch is not in leave it this long to the one whose it is, before they fetch it over a WAN
/// link themselves.
const BATCH_DEFERENCE: Duration = Duration::from_millis(100);
/// As long as they know of pieces that nobody was asked for, they leave it for so long: a manifest that every member fetches for
/// itself is as much as many pieces, and takes a WAN link before any of them.
const BATCH_DEFERENCE_UNHURRIED: Duration = Duration::from_secs(2);
/// Who knows of so many pieces that nobody was asked for waits about [`BATCH_DEFERENCE`] before it asks for more batches, also in its own
/// cluster: at the start of a broadcast the root alone has them, and the whole manifest for each of its neighbours is as much
/// as many pieces. Not longer: the fewer pieces are known, the fewer of those that a peer has are of use.
const PLENTY: u32 = 512;
/// Who is sent batches without asking ([`Strategy::manifest_parents`]) waits so long for the next one: 32 KiB take 170 ms down a chain of
/// 64 nodes at 100 Mbit/s, and other peers say that they have them before. After a second without a piece it would ask anybody.
const PARENT_PATIENCE: Duration = Duration::from_millis(500);
/// What was left to one that has not fetched it is not fetched by all others at once: each waits one to so many times as long, by the
/// size of the cluster, so that about two at a time do.
const DEFERENCE_TURNS: (u64, u64) = (4, 32);
/// But no longer than this.
const DEFERENCE_MAX: Duration = Duration::from_secs(8);
/// Hashes of a first batch that newcomers are sent with the announcement: the root signs its first pieces as soon as it has some.
const FIRST_HASHES_MAX: usize = 64;

/// The part of the manifest that a batch belongs to, by its number and its first piece. Parts are numbered upwards, with gaps.
fn part_of(index: u32, first: u32, piece_size: u32) -> u32 {
    let hashes = (piece_size / size_of::<Digest>() as u32).clamp(PART_HASHES_MIN, PART_HASHES_MAX);
    index / PART_BATCHES + first / hashes
}

impl Broadcast {
    /// Asks for batches, if a peer has more of them and it is this node's turn.
    pub(super) fn want_batches(&mut self, now: Time) {
        let have = self.chain.batches();
        if self.rooted.is_some() || self.verifying || self.chain.end().is_some() {
            return;
        }
        if self.has_hashes_enough() {
            (self.asked, self.behind_since) = (None, None);
            return;
        }
        let ahead = || self.swarm.peers().filter(|(_, peer)| peer.batches > have);
        // What was asked of another cluster may be in the own one meanwhile.
        let is_local = |link: LinkId| self.swarm.peer(link).is_some_and(|peer| peer.local);
        if self.asked.is_some_and(|asked| is_local(asked.link)) {
            return;
        }
        if ahead().next().is_none() {
            self.behind_since = None;
            return;
        }
        let since = *self.behind_since.get_or_insert(now);
        if self.waits_until(now, since).is_some() {
            return;
        }
        // One member of the cluster, by the slot of their part, fetches these batches from another cluster; the others get them here.
        let part = part_of(have, self.chain.pieces(), self.swarm.piece_size());
        let slot = slot_of(self.id, PieceIndex(part));
        let deferred = now.since(since) < self.batch_deference() && !self.swarm.standing.slots.contains(slot);
        let unanswered = |link: LinkId| self.unanswered.get(&link).copied().unwrap_or(0);
        let candidates = ahead().filter(|(_, p)| p.local || !deferred);
        // Members ask different ones, or whoever has the first link would serve them all.
        let best = candidates.min_by_key(|&(link, p)| (unanswered(link), !p.local, self.chance(u64::from(link.0))));
        let Some((link, peer)) = best.filter(|(_, peer)| self.asked.is_none() || peer.local) else { return };
        let until = peer.batches.min(have.saturating_add(PART_BATCHES));
        self.asked = Some(Asked { link, at: now, part, until });
        self.swarm.send(link, Frame::WantBatches { broadcast: self.id, from: have, until });
    }

    /// Whether it has as much of the manifest as it may of an object that its application has not taken, or not any more. More comes
    /// when it is: of that many pieces the first ones can be asked for.
    pub(super) fn has_hashes_enough(&self) -> bool {
        let is_taken = matches!(self.phase, Phase::Active | Phase::Complete);
        !is_taken && self.swarm.known() as usize >= BATCH_HASHES_MAX
    }

    /// Until when this node leaves the next batch to others, if it is behind since then: to members of its cluster, as long as it has work
    /// enough, and to a peer that will send it.
    fn waits_until(&self, now: Time, since: Time) -> Option<Time> {
        let local = since + self.local_deference();
        let sent = since + PARENT_PATIENCE;
        if now < local && self.has_plenty() {
            return Some(local);
        }
        (now < sent && self.is_sent_batches()).then_some(sent)
    }

    /// Whether this node has work enough for now.
    fn has_plenty(&self) -> bool {
        self.swarm.unasked() >= PLENTY
    }

    /// Whether a peer will send the next batch without being asked. One that has more than it has sent will not: what there was when this
    /// node came to it, or was given to it by a plan, has to be asked for.
    fn is_sent_batches(&self) -> bool {
        let here = self.chain.batches() as usize + self.waiting.len();
        let parents = self.strategy.manifest_parents(&self.swarm);
        parents.into_iter().filter_map(|link| self.swarm.peer(link)).any(|peer| peer.batches as usize <= here)
    }

    /// How long this node leaves a batch to other members of its cluster if it has plenty. Each waits for another time,
    /// so that the last ones get it from the first.
    fn local_deference(&self) -> Duration {
        Duration(BATCH_DEFERENCE.0 / 2 + self.chance(u64::MAX) % BATCH_DEFERENCE.0)
    }

    /// Another number for each member, batch and `what`.
    fn chance(&self, what: u64) -> u64 {
        mix2(u64::from(self.swarm.standing.node.0), mix2(what, u64::from(self.chain.batches())))
    }

    /// When to look again for whom to ask, if it is behind since then.
    pub(super) fn batch_due(&self, since: Time) -> Time {
        self.waits_until(self.swarm.now(), since).unwrap_or_else(|| since + self.batch_deference())
    }

    /// How long this node leaves a batch to the member of its cluster whose slot it is in.
    fn batch_deference(&self) -> Duration {
        let deference = if self.swarm.has_unasked() { BATCH_DEFERENCE_UNHURRIED } else { BATCH_DEFERENCE };
        let far = self.swarm.peers().filter(|(_, peer)| !peer.local).filter_map(|(_, peer)| peer.window.rtt_measured());
        let far = far.min().unwrap_or_default().times(2);
        let turns = u64::from(self.swarm.standing.cluster_size / 2).clamp(DEFERENCE_TURNS.0, DEFERENCE_TURNS.1);
        (deference + far).times(1 + self.chance(0) % turns).min(DEFERENCE_MAX)
    }

    /// How long this node waits for a batch from a peer that it has asked.
    pub(super) fn batch_patience(&self, link: LinkId) -> Duration {
        // Who has let one lapse is not waited for as long again.
        let answers = self.unanswered.get(&link).is_none_or(|&lapsed| lapsed == 0);
        let rate = self.swarm.peer(link).filter(|_| answers).map_or(0, |peer| peer.window.rate_bytes_per_s());
        let at_its_rate = if rate > 0 { Duration::for_bytes(BATCH_PATIENCE_BYTES, rate) } else { Duration::ZERO };
        at_its_rate.clamp(BATCH_PATIENCE, BATCH_PATIENCE_MAX)
    }

    /// The first batch, if it is so small that every newcomer may have it at once.
    pub fn first_batch_frame(&self) -> Option<Frame> {
        let (batch, signature) = self.batches.first().filter(|(batch, _)| batch.hashes.len() <= FIRST_HASHES_MAX)?;
        Some(Frame::Batch { batch: batch.clone(), signature: *signature })
    }

    /// A peer asks for the batches from one up to another: it gets those of them that are in the first one's part.
    pub fn handle_want_batches(&mut self, link: LinkId, from: u32, until: u32) {
        let piece_size = self.swarm.piece_size();
        let wanted = (from..until).zip(self.batches.iter().skip(from as usize));
        let part = |(index, (batch, _)): &(u32, &(Batch, Signature))| part_of(*index, batch.first.0, piece_size);
        let first = wanted.clone().next().as_ref().map(part);
        for (_, (batch, signature)) in wanted.take_while(|batch| Some(part(batch)) == first) {
            self.swarm.send(link, Frame::Batch { batch: batch.clone(), signature: *signature });
        }
    }

    /// Sends a peer that has come those of the first batches that the strategy wants it to have unasked, as it will get those to
    /// come. If it had to ask, it would leave that to the member of its cluster whose slot they are in.
    pub(super) fn push_first_batches(&mut self, link: LinkId) {
        for (batch, signature) in self.batches.iter().take(BATCHES_PUSHED as usize) {
            if !self.strategy.manifest_children(&self.swarm, batch.first).contains(&link) {
                return;
            }
            self.swarm.send(link, Frame::Batch { batch: batch.clone(), signature: *signature });
        }
    }

    /// A batch has arrived. Returns it when it is the next to be verified.
    pub fn handle_batch(
        &mut self,
        link: LinkId,
        batch: Batch,
        signature: Signature,
    ) -> Option<(LinkId, Batch, Signature)> {
        // The root's manifest is its own to continue.
        let hashes: usize = self.waiting.iter().map(|(_, batch, _)| batch.hashes.len()).sum();
        let room = hashes < PARTS_WAITING_MAX * PART_HASHES_MAX as usize
            && self.waiting.len() < PARTS_WAITING_MAX * PART_BATCHES as usize;
        if self.rooted.is_none() && room {
            self.waiting.push_back((link, batch, signature));
        }
        self.next_to_verify()
    }

    /// The next batch that continues the chain, if none is being verified.
    pub fn next_to_verify(&mut self) -> Option<(LinkId, Batch, Signature)> {
        while !self.verifying {
            let (link, batch, signature) = self.waiting.pop_front()?;
            let next = batch.first.0 == self.chain.pieces() && batch.previous == self.chain.last();
            if next && self.chain.end().is_none() && !self.has_hashes_enough() {
                self.verifying = true;
                return Some((link, batch, signature));
            }
        }
        None
    }

    /// The batch given out last was verified (`valid`) or is forged. An error names what it breaks.
    pub fn handle_batch_verified(
        &mut self,
        now: Time,
        batch: Batch,
        signature: Signature,
        valid: bool,
    ) -> Result<(), String> {
        self.swarm.set_now(now);
        self.verifying = false;
        if !valid {
            self.asked = None;
            self.want_batches(now);
            return Err("sent a manifest batch with a wrong signature".into());
        }
        self.accept(batch, signature).map_err(|error| error.to_string())?;
        let batches = self.chain.batches();
        let part = part_of(batches, self.chain.pieces(), self.swarm.piece_size());
        let more = |asked: &Asked| batches < asked.until && part == asked.part;
        self.asked = self.asked.filter(more).map(|asked| Asked { at: now, ..asked });
        self.behind_since = None;
        self.want_batches(now);
        Ok(())
    }

    /// Appends a batch to the chain and lets the strategy know of its pieces.
    pub(super) fn accept(
        &mut self,
        batch: Batch,
        signature: Signature,
    ) -> Result<(), crate::content::manifest::ChainError> {
        self.chain.accept(&batch, &batch.to_bytes())?;
        let hashes = Arc::clone(&batch.hashes);
        let (first, end) = (batch.first, batch.end);
        for link in self.strategy.manifest_children(&self.swarm, first) {
            self.swarm.send(link, Frame::Batch { batch: batch.clone(), signature });
        }
        self.batches.push((batch, signature));
        let run = self.swarm.add_known(hashes.len() as u32, self.chain.batches(), end);
        assert_eq!(run.first, first, "the chain and the books disagree");
        if self.rooted.is_none() {
            let length = end.map(|end| end.length);
            self.swarm.push_output(Output::Hashes { broadcast: self.id, first, hashes, length });
        }
        if run.count > 0 || end.is_some() {
            self.tell_strategy(StrategyEvent::PiecesKnown(run));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::manifest::Chain;
    use crate::group::place::tests::place;
    use crate::group::place::{PlanPlace, TreePlace};
    use crate::node::Node;
    use crate::node::testing::{
        PIECE_BYTES, announcement, broadcast_of, descriptor, founder, give_place, linked, outputs, to_verify,
    };
    use crate::units::NodeId;

    /// The first pieces of the batches that a root with batches of so many hashes sends to a peer that asks for some of them.
    fn sent(hashes: &[usize], (from, until): (u32, u32)) -> Vec<u32> {
        let mut node = founder();
        let link = linked(&mut node, NodeId(1));
        let pieces = hashes.iter().sum::<usize>() as u32;
        let id = node.broadcast(Time::ZERO, descriptor("mob", pieces), None).expect("it is a member");
        let announcement = Box::new(broadcast_of(&mut node, id).announcement.clone());
        node.handle_frame(Time::ZERO, link, Frame::Announce { broadcast: id, announcement });
        let root = broadcast_of(&mut node, id);
        for &hashes in hashes {
            let batch = Batch {
                broadcast: id,
                piece_size: root.announcement.descriptor.piece_size,
                first: PieceIndex(root.chain.pieces()),
                previous: root.chain.last(),
                hashes: vec![Digest([3; 32]); hashes].into(),
                end: None,
            };
            root.accept(batch, Signature([1; 64])).expect("they form a chain");
        }
        outputs(&mut node);
        node.handle_frame(Time::ZERO, link, Frame::WantBatches { broadcast: id, from, until });
        let first = |output: &Output| match output {
            Output::Send { frame: Frame::Batch { batch, .. }, .. } => Some(batch.first.0),
            _ => None,
        };
        outputs(&mut node).iter().filter_map(first).collect()
    }

    #[test]
    fn an_answer_has_what_was_asked_for_and_no_more_than_a_part_of_the_manifest() {
        const LARGE: [usize; 6] = [256; 6];
        assert_eq!(sent(&LARGE, (0, 2)), [0, 256], "what was asked for");
        assert_eq!(sent(&LARGE, (0, u32::MAX)), [0, 256, 512, 768], "1,024 hashes");
        assert_eq!(sent(&LARGE, (2, 6)), [512, 768], "who has come in the middle gets the rest of the part");
        assert_eq!(sent(&LARGE, (4, 40)), [1024, 1280], "as many as there are");
        assert_eq!(sent(&LARGE, (6, 40)), [0; 0]);
        assert_eq!(sent(&LARGE, (3, 1)), [0; 0]);
        let small = [1; 100];
        assert_eq!(sent(&small, (0, 100)), (0..64).collect::<Vec<_>>(), "64 batches");
        assert_eq!(sent(&small, (64, 100)), (64..100).collect::<Vec<_>>());
    }

    /// A node whose parent in a chain is 1, and its link to that; 2 is another peer.
    fn below_a_parent() -> (Node, BroadcastId, LinkId) {
        let mut node = founder();
        let [parent, _] = [1, 2].map(|peer| linked(&mut node, NodeId(peer)));
        let id = BroadcastId { root: NodeId(5), sequence: 0 };
        let tree = TreePlace { weight: 1, depth: 1, parent: Some(NodeId(1)), children: Vec::new() };
        let strategy = "chain".into();
        give_place(&mut node, PlanPlace { strategy, root: id.root, trees: vec![tree], ..place() });
        let announcement = Box::new(announcement(&node, id.root, descriptor("chain", 100)));
        for link in [parent, LinkId(parent.0 + 1)] {
            let announcement = announcement.clone();
            node.handle_frame(Time::ZERO, link, Frame::Announce { broadcast: id, announcement });
        }
        let token = to_verify(&outputs(&mut node)).expect("the announcement");
        node.handle_verified(Time::ZERO, token, true);
        outputs(&mut node);
        (node, id, parent)
    }

    /// Who is asked for batches when a peer says that it has some.
    fn asked_when_told_by(node: &mut Node, broadcast: BroadcastId, link: LinkId, at: Time) -> Vec<LinkId> {
        node.handle_frame(at, link, Frame::Have { broadcast, batches: 1, pieces: Vec::new() });
        asked(node)
    }

    fn asked(node: &mut Node) -> Vec<LinkId> {
        let asked = |output: &Output| match output {
            Output::Send { link, frame: Frame::WantBatches { .. } } => Some(*link),
            _ => None,
        };
        outputs(node).iter().filter_map(asked).collect()
    }

    #[test]
    fn a_batch_is_left_to_a_parent_that_is_to_send_it_for_half_a_second() {
        let (mut node, id, parent) = below_a_parent();
        let other = LinkId(parent.0 + 1);
        assert_eq!(asked_when_told_by(&mut node, id, other, Time::ZERO), []);
        for (milliseconds, expected) in [(100, vec![]), (499, vec![]), (500, vec![other])] {
            let now = Time::ZERO + Duration::from_millis(milliseconds);
            assert!(node.poll_timeout() <= Time::ZERO + PARENT_PATIENCE);
            node.handle_timeout(now);
            assert_eq!(asked(&mut node), expected, "after {milliseconds} ms");
        }
    }

    #[test]
    fn a_parent_that_has_what_it_has_not_sent_is_asked_at_once() {
        let (mut node, id, parent) = below_a_parent();
        assert_eq!(asked_when_told_by(&mut node, id, parent, Time::ZERO), [parent]);
    }

    #[test]
    fn what_waits_to_be_verified_was_sent() {
        let (mut node, id, parent) = below_a_parent();
        let mut chain = Chain::new(&descriptor("chain", 100));
        for _ in 0..2 {
            node.handle_frame(Time::ZERO, parent, next_batch(id, &mut chain, 10));
        }
        node.handle_frame(Time::ZERO, parent, Frame::Have { broadcast: id, batches: 2, pieces: Vec::new() });
        for known in [10, 20] {
            let said = outputs(&mut node);
            assert!(!said.iter().any(|output| matches!(output, Output::Send { frame: Frame::WantBatches { .. }, .. })));
            node.handle_verified(Time::ZERO, to_verify(&said).expect("a batch"), true);
            assert_eq!(broadcast_of(&mut node, id).swarm().known(), known);
        }
        assert_eq!(asked(&mut node), []);
    }

    /// The next batch of a manifest.
    fn next_batch(broadcast: BroadcastId, chain: &mut Chain, hashes: usize) -> Frame {
        let (first, previous) = (PieceIndex(chain.pieces()), chain.last());
        let hashes = vec![Digest([3; 32]); hashes].into();
        let batch = Batch { broadcast, piece_size: PIECE_BYTES, first, previous, hashes, end: None };
        chain.accept(&batch, &batch.to_bytes()).expect("it continues the chain");
        Frame::Batch { batch, signature: Signature([1; 64]) }
    }

    #[test]
    fn of_what_the_application_has_not_taken_a_node_has_a_batch_or_two() {
        let mut node = founder();
        let peer = linked(&mut node, NodeId(1));
        let described = descriptor("mob", 1 << 14);
        let ids = [0, 1].map(|sequence| BroadcastId { root: NodeId(1), sequence });
        for id in ids {
            let announcement = Box::new(announcement(&node, id.root, described.clone()));
            node.handle_frame(Time::ZERO, peer, Frame::Announce { broadcast: id, announcement });
            let token = to_verify(&outputs(&mut node)).expect("the announcement");
            node.handle_verified(Time::ZERO, token, true);
            let mut chain = Chain::new(&described);
            for hashes in [BATCH_HASHES_MAX - 1, BATCH_HASHES_MAX, BATCH_HASHES_MAX, BATCH_HASHES_MAX] {
                node.handle_frame(Time::ZERO, peer, next_batch(id, &mut chain, hashes));
                if let Some(token) = to_verify(&outputs(&mut node)) {
                    node.handle_verified(Time::ZERO, token, true);
                }
            }
            node.handle_frame(Time::ZERO, peer, Frame::Have { broadcast: id, batches: 4, pieces: Vec::new() });
            assert_eq!(broadcast_of(&mut node, id).swarm().known() as usize, 2 * BATCH_HASHES_MAX - 1);
            assert_eq!(asked(&mut node), [], "for more");
        }
        node.handle_timeout(Time::ZERO + Duration::from_secs(5));
        assert_eq!(asked(&mut node), [], "for more, later");
        node.accept(Time::ZERO + Duration::from_secs(5), ids[0]);
        node.handle_timeout(Time::ZERO + Duration::from_secs(5) + BATCH_DEFERENCE.times(2));
        assert_eq!(asked(&mut node), [peer], "of what it has taken");
    }

    #[test]
    fn who_has_lost_its_parent_asks_others_at_once() {
        let (mut node, id, parent) = below_a_parent();
        broadcast_of(&mut node, id).swarm_mut().remove_peer(parent);
        let other = LinkId(parent.0 + 1);
        assert_eq!(asked_when_told_by(&mut node, id, other, Time::ZERO), [other]);
    }

    #[test]
    fn a_batch_has_the_time_that_it_takes_over_a_thin_link() {
        let mut node = founder();
        let [thin, other] = [1, 2].map(|peer| linked(&mut node, NodeId(peer)));
        let id = BroadcastId { root: NodeId(5), sequence: 0 };
        let announcement = Box::new(announcement(&node, id.root, descriptor("mob", 100)));
        for link in [thin, other] {
            let announcement = announcement.clone();
            node.handle_frame(Time::ZERO, link, Frame::Announce { broadcast: id, announcement });
        }
        let token = to_verify(&outputs(&mut node)).expect("the announcement");
        node.handle_verified(Time::ZERO, token, true);
        node.accept(Time::ZERO, id);
        let swarm = broadcast_of(&mut node, id).swarm_mut();
        swarm.add_known(1, 1, None);
        swarm.add_have(thin, 0, &[Run { first: PieceIndex(0), count: 1 }]);
        assert!(swarm.request(thin, PieceIndex(0)));
        // 16 KiB/s, of which two batches take four seconds.
        let second = |second| Time::ZERO + Duration::from_secs(second);
        node.handle_payload(second(1), thin, id, PieceIndex(0), ByteRange::whole(PIECE_BYTES));
        assert_eq!(asked_when_told_by(&mut node, id, thin, second(1)), [thin]);
        assert_eq!(asked_when_told_by(&mut node, id, other, second(1)), []);
        for (at, expected) in [(3, vec![]), (5, vec![other])] {
            node.handle_timeout(second(at));
            assert_eq!(asked(&mut node), expected, "after {at} s");
        }
    }

    #[test]
    fn parts_end_at_so_many_hashes_and_at_so_many_batches() {
        let part = |&(index, first): &(u32, u32)| part_of(index, first, 1 << 20);
        let same = [(0, 0), (15, 4095), (63, 63)];
        assert!(same.iter().all(|batch| part(batch) == 0));
        assert_eq!([(16, 4096), (64, 64), (64, 4096), (128, 8192)].map(|batch| part(&batch)), [1, 1, 2, 4]);
    }

    #[test]
    fn a_part_is_as_many_bytes_as_a_piece_from_32_to_128_kib() {
        for (piece_kib, hashes) in [(16, 1024), (32, 1024), (64, 2048), (128, 4096), (256, 4096), (16 << 10, 4096)] {
            let part = |first: u32| part_of(0, first, piece_kib << 10);
            assert_eq!([hashes - 1, hashes, 2 * hashes - 1, 2 * hashes].map(part), [0, 1, 1, 2], "{piece_kib} KiB");
        }
    }
}
