//! One broadcast at one node: from its announcement over the manifest and the pieces to its result. It keeps the
//! manifest chain, feeds the strategy, and turns what both want into outputs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::content::announcement::{Announcement, Whole};
use crate::content::hashed::HashedObject;
use crate::content::have::{Run, runs_of};
use crate::content::manifest::{Batch, Chain, End};
use crate::fetch::swarm::Swarm;
use crate::flow::held::HeldRequests;
use crate::group::report::{NodeResult, RECEIPT_RUNS_MAX, Traffic};
use crate::io::Output;
use crate::limits::{BATCH_HASHES_MAX, BATCH_INTERVAL};
use crate::strategy::message::StrategyMessage;
use crate::strategy::{Strategy, StrategyEvent};
use crate::time::{Duration, Time};
use crate::units::{BroadcastId, ByteRange, ClusterId, Digest, LinkId, NodeId, PieceIndex, Signature};
use crate::wire::frame::Frame;

mod manifest;
mod rooted;

/// How far a broadcast is at a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The application has not said yet where it should go.
    Offered,
    /// Pieces are asked for.
    Active,
    /// Every piece is stored.
    Complete,
    /// It ended without success here.
    Failed,
}

/// A question for batches.
#[derive(Clone, Copy)]
struct Asked {
    link: LinkId,
    /// When it was put, or the last batch came in answer to it.
    at: Time,
    /// The part of the manifest that it asks for.
    part: u32,
    /// The batch behind the last one that it asks for.
    until: u32,
}

/// What the root keeps on top.
#[derive(Default)]
struct Rooted {
    unsigned: VecDeque<Digest>,
    end: Option<End>,
    signing: Option<Batch>,
    signed_at: Option<Time>,
}

/// One broadcast at one node.
pub struct Broadcast {
    /// Its identity.
    pub id: BroadcastId,
    /// The proof that it is the root's.
    pub announcement: Announcement,
    /// How far it is here.
    pub phase: Phase,
    /// When this node first heard of it.
    pub started: Time,
    /// The whole object, if it is small enough to travel in one frame.
    pub whole: Option<HashedObject>,
    /// When pieces were receipted last.
    pub receipted_at: Time,
    /// Whether its result was reported.
    pub reported: bool,
    /// That result, to be reported again when the way up the control tree has changed.
    pub result: Option<NodeResult>,
    /// When it was said last.
    pub result_said_at: Time,
    /// The authority's word that it is over, if it is.
    pub release: Option<Signature>,
    /// When that was passed on last.
    pub release_passed_at: Option<Time>,
    /// Whether somebody further down has reported its result since then: it waits to hear it.
    pub release_awaited: bool,
    /// Whether the application knows that.
    pub released: bool,
    /// The authority's word that the root is gone for good, if it is.
    pub root_loss: Option<Signature>,
    /// Whether the root has given it up.
    pub aborted: bool,
    /// Whether it was announced on all links.
    pub flooded: bool,
    /// Requests for pieces that are not here yet.
    pub held: HeldRequests,
    rootless: bool,
    swarm: Swarm,
    strategy: Box<dyn Strategy>,
    chain: Chain,
    batches: Vec<(Batch, Signature)>,
    waiting: VecDeque<(LinkId, Batch, Signature)>,
    verifying: bool,
    asked: Option<Asked>,
    /// Questions for batches that peers left unanswered.
    unanswered: BTreeMap<LinkId, u32>,
    behind_since: Option<Time>,
    rooted: Option<Rooted>,
    /// When payload that was missing arrived last.
    arrived_at: Time,
    /// When a peer was last known to have something that is missing here, at a look without the root.
    pub(crate) obtainable_at: Time,
    /// Pieces stored since the last receipt.
    unreceipted: BTreeSet<PieceIndex>,
}

impl Broadcast {
    /// A broadcast that this node has just heard of, or starts itself.
    pub fn new(
        now: Time,
        id: BroadcastId,
        announcement: Announcement,
        strategy: Box<dyn Strategy>,
        is_root: bool,
        seed: u64,
    ) -> Broadcast {
        let descriptor = &announcement.descriptor;
        let mut swarm = Swarm::new(id, descriptor.piece_size, descriptor.index_length, descriptor.length, seed);
        swarm.set_now(now);
        let chain = Chain::new(descriptor);
        Broadcast {
            id,
            announcement,
            phase: if is_root { Phase::Active } else { Phase::Offered },
            started: now,
            whole: None,
            receipted_at: now,
            reported: false,
            result: None,
            result_said_at: now,
            release: None,
            release_passed_at: None,
            release_awaited: false,
            released: false,
            root_loss: None,
            rootless: false,
            aborted: false,
            flooded: false,
            held: HeldRequests::default(),
            swarm,
            strategy,
            chain,
            batches: Vec::new(),
            waiting: VecDeque::new(),
            verifying: false,
            asked: None,
            unanswered: BTreeMap::new(),
            behind_since: None,
            rooted: is_root.then(Rooted::default),
            arrived_at: now,
            obtainable_at: now,
            unreceipted: BTreeSet::new(),
        }
    }

    /// The frame that announces it.
    pub fn announce_frame(&self) -> Frame {
        Frame::Announce { broadcast: self.id, announcement: Box::new(self.announcement.clone()) }
    }

    /// Whether members may hear of it from this node: the root has signed its announcement and not given it up, and it has not failed here.
    pub fn is_announced(&self) -> bool {
        self.phase != Phase::Failed && !self.aborted && self.announcement.signature != Signature::default()
    }

    /// Whether peers in other clusters are told more of it before they have said that they know of it.
    pub fn speaks_first(&self) -> bool {
        self.strategy.speaks_first()
    }

    /// What its strategy says to a peer of `cluster` before the link to it is up.
    pub fn strategy_greeting(&self, cluster: ClusterId) -> Option<Frame> {
        let message = self.strategy.greeting(&self.swarm, cluster)?;
        Some(Frame::Strategy { broadcast: self.id, message })
    }

    /// The frame that carries the whole object, once its only batch is known.
    pub fn whole_frame(&self) -> Option<Frame> {
        let data = Arc::clone(self.whole.as_ref()?.data());
        let (batch, batch_signature) = self.batches.first().filter(|(batch, _)| batch.end.is_some())?.clone();
        let announcement = self.announcement.clone();
        let whole = Box::new(Whole { announcement, batch, batch_signature, data });
        Some(Frame::Whole { broadcast: self.id, whole })
    }

    /// The books, for reading.
    pub fn swarm(&self) -> &Swarm {
        &self.swarm
    }

    /// The books, for placing the node in the group.
    pub fn swarm_mut(&mut self) -> &mut Swarm {
        &mut self.swarm
    }

    /// How the object ends, once known.
    pub fn end(&self) -> Option<End> {
        self.chain.end()
    }

    /// The root is there after all.
    pub fn regain_root(&mut self) {
        (self.root_loss, self.rootless) = (None, false);
    }

    /// The root is gone. Whoever lacks something has from now on the usual time to get it from others.
    pub fn lose_root(&mut self, now: Time) {
        self.rootless = true;
        self.arrived_at = now;
    }

    /// The cluster that the root is in, while it is.
    pub fn root_cluster(&self) -> Option<ClusterId> {
        (!self.rootless).then_some(self.announcement.cluster)
    }

    /// The next receipt: pieces stored since the last one; none if there are none.
    pub fn take_receipt(&mut self) -> Option<Vec<Run>> {
        let mut runs = runs_of(std::mem::take(&mut self.unreceipted));
        let later = runs.split_off(runs.len().min(RECEIPT_RUNS_MAX));
        self.unreceipted.extend(later.into_iter().flat_map(Run::pieces));
        (!runs.is_empty()).then_some(runs)
    }

    /// Everything that is stored is to be receipted again.
    pub fn repeat_receipts(&mut self) {
        if self.rooted.is_none() {
            self.unreceipted = self.swarm.have().iter().collect();
        }
    }

    /// When payload that was missing arrived last, or the broadcast became known.
    pub fn arrived_at(&self) -> Time {
        self.arrived_at
    }

    /// Whether a peer is known to have something that is missing here.
    pub(crate) fn is_obtainable(&mut self, now: Time) -> bool {
        let obtainable = self.swarm.is_obtainable();
        if obtainable {
            self.obtainable_at = now;
        }
        obtainable
    }

    /// Whether a piece has arrived and is not stored yet.
    pub fn waits_for_disk(&self) -> bool {
        self.swarm.open().any(|(_, open)| open.is_complete())
    }

    /// Payload that crossed this node's links.
    pub fn traffic(&self) -> Traffic {
        self.swarm.traffic()
    }

    /// Whether a piece may be served.
    pub fn can_serve(&self, piece: PieceIndex, range: ByteRange) -> bool {
        self.swarm.have().contains(piece) && range.end <= self.swarm.piece_len(piece)
    }

    /// Keeps a request until its piece is here, if the strategy lets peers ask in advance. False if it does not, or never
    /// will be here.
    pub fn hold(&mut self, link: LinkId, piece: PieceIndex, range: ByteRange) -> bool {
        let total = self.swarm.total();
        let to_come = matches!(self.phase, Phase::Offered | Phase::Active) && !self.swarm.have().contains(piece);
        let exists = total.is_none_or(|total| piece.0 < total) && range.end <= self.swarm.piece_len(piece);
        let known = self.swarm.peer(link).is_some();
        let holds = to_come && exists && known && self.strategy.takes_requests_ahead();
        if holds {
            self.held.add(link, piece, range);
        }
        holds
    }

    /// When [`Broadcast::handle_timeout`] wants to be called.
    pub fn timeout(&self) -> Option<Time> {
        let batch = self.asked.map(|asked| asked.at + self.batch_patience(asked.link));
        let idle = self.asked.is_none() && !self.verifying;
        let deference = self.behind_since.filter(|_| idle).map(|since| self.batch_due(since));
        let sign = self.sign_due();
        Time::earliest([self.swarm.timeout(), batch, deference, sign])
    }

    /// Pieces that the strategy pushes.
    pub fn take_pushes(&mut self) -> Vec<(LinkId, PieceIndex)> {
        self.swarm.take_pushes()
    }

    /// Rates to which the strategy limits what is sent to peers, where that has changed.
    pub fn take_rate_limits(&mut self) -> Vec<(LinkId, Option<u64>)> {
        self.swarm.take_rate_limits()
    }

    /// Drains what the books and the strategy want done.
    pub fn take_outputs(&mut self) -> impl Iterator<Item = Output> {
        self.swarm.take_outputs()
    }

    /// What this node has in mind for a piece, in words.
    pub fn explain(&self, piece: PieceIndex) -> String {
        let open = self.swarm.open_piece(piece).map(|open| (open.received_bytes(), open.parts.clone()));
        let holders: Vec<_> = self.swarm.peers().filter(|(_, p)| p.have.contains(piece)).map(|(_, p)| p.node).collect();
        let have = self.swarm.have().contains(piece);
        format!("have {have}, open {open:?}, held by {holders:?}; {}", self.strategy.explain(&self.swarm, piece))
    }

    /// # Panics
    /// If something does not add up: that is a bug.
    pub fn check_invariants(&self) {
        self.swarm.check_invariants();
        self.strategy.check_invariants(&self.swarm);
    }

    fn tell_strategy(&mut self, event: StrategyEvent<'_>) {
        self.strategy.handle(event, &mut self.swarm);
    }
}

// ---- Events ----

impl Broadcast {
    /// The application is ready to receive, or the root to send.
    pub fn start(&mut self, now: Time) {
        self.swarm.set_now(now);
        let held_back = self.has_hashes_enough();
        self.phase = Phase::Active;
        // What came in one frame is asked of nobody: it would be stored twice.
        if self.whole.as_ref().is_none_or(|whole| whole.data().is_empty()) {
            self.resume();
        }
        if held_back {
            self.want_batches(now);
        }
    }

    fn resume(&mut self) {
        self.swarm.set_paused(false);
        self.tell_strategy(StrategyEvent::Resumed);
    }

    /// The node knows where it stands: its strategy begins, though it may ask for nothing yet.
    pub fn open(&mut self, now: Time) {
        self.swarm.set_now(now);
        self.tell_strategy(StrategyEvent::Started);
    }

    /// A peer knows of the broadcast too.
    pub fn handle_peer_up(&mut self, now: Time, link: LinkId, node: NodeId, cluster: ClusterId) {
        self.swarm.set_now(now);
        if self.swarm.peer(link).is_none() {
            self.swarm.add_peer(link, node, cluster);
            self.tell_strategy(StrategyEvent::PeerUp(link));
            self.push_first_batches(link);
            self.swarm.announce_batches();
        }
    }

    /// A link is gone.
    pub fn handle_peer_down(&mut self, now: Time, link: LinkId) {
        self.swarm.set_now(now);
        if self.swarm.peer(link).is_none() {
            return;
        }
        self.asked = self.asked.filter(|asked| asked.link != link);
        self.unanswered.remove(&link);
        self.held.remove_link(link);
        self.swarm.remove_peer(link);
        self.tell_strategy(StrategyEvent::PeerDown(link));
        self.want_batches(now);
    }

    /// The round-trip time of a link was measured.
    pub fn handle_rtt(&mut self, link: LinkId, rtt: Duration) {
        self.swarm.handle_rtt(link, rtt);
    }

    /// A peer has pieces and batches.
    pub fn handle_have(&mut self, now: Time, link: LinkId, batches: u32, runs: &[Run]) {
        self.swarm.set_now(now);
        let fresh = self.swarm.add_have(link, batches, runs);
        if !fresh.is_empty() {
            self.tell_strategy(StrategyEvent::Have { peer: link, pieces: &fresh });
        }
        self.want_batches(now);
    }

    /// A strategy says something.
    pub fn handle_message(&mut self, now: Time, link: LinkId, message: &StrategyMessage) {
        self.swarm.set_now(now);
        if self.swarm.peer(link).is_some() {
            self.tell_strategy(StrategyEvent::Message { peer: link, message });
        }
    }

    /// A peer asks for a piece that it gets.
    pub fn handle_wanted(&mut self, now: Time, link: LinkId, piece: PieceIndex, range: ByteRange) {
        self.swarm.set_now(now);
        self.swarm.count_out(link, range.len());
        self.tell_strategy(StrategyEvent::PieceWanted { peer: link, piece });
    }

    /// A peer does not serve a request.
    pub fn handle_rejected(&mut self, now: Time, link: LinkId, piece: PieceIndex) {
        self.swarm.set_now(now);
        self.swarm.add_rejected(link, piece);
        self.tell_strategy(StrategyEvent::RequestRejected { peer: link, piece });
    }

    /// Payload has arrived and is where it belongs. True if its sender sends crumbs.
    pub fn handle_payload(&mut self, now: Time, link: LinkId, piece: PieceIndex, range: ByteRange) -> bool {
        self.swarm.set_now(now);
        if self.strategy.takes_pushed_pieces() {
            self.swarm.take_pushed(link, piece);
        }
        let arrival = self.swarm.add_payload(link, piece, range);
        if arrival.fresh {
            self.arrived_at = now;
        }
        if arrival.complete {
            self.swarm.push_output(Output::VerifyPiece { broadcast: self.id, piece });
        }
        if arrival.room {
            self.tell_strategy(StrategyEvent::LinkMeasured(link));
        }
        arrival.crumbs
    }

    /// A piece is verified and stored. True if it was the last one.
    pub fn handle_stored(&mut self, now: Time, piece: PieceIndex) -> bool {
        self.swarm.set_now(now);
        if self.phase != Phase::Active || self.swarm.have().contains(piece) {
            return false;
        }
        self.swarm.add_stored(piece);
        self.unreceipted.insert(piece);
        self.tell_strategy(StrategyEvent::PieceStored(piece));
        self.want_batches(now);
        self.finish_if_complete()
    }

    /// A piece did not match its hash, or (`forged` false) not all its bytes were there. Returns who is to blame.
    pub fn handle_wrong(&mut self, now: Time, piece: PieceIndex, forged: bool) -> Vec<LinkId> {
        self.swarm.set_now(now);
        if !forged {
            self.swarm.count_in_vain(piece);
        }
        let blamed = self.swarm.add_wrong(piece, forged);
        self.tell_strategy(StrategyEvent::PieceWrong(piece));
        if self.phase == Phase::Active && self.swarm.is_paused() {
            self.resume();
        }
        blamed
    }

    /// What had arrived of pieces that are not complete is lost with the link that brought some of it.
    pub fn handle_lost(&mut self, now: Time, pieces: &[PieceIndex]) {
        self.swarm.set_now(now);
        let lost: Vec<PieceIndex> = pieces.iter().copied().filter(|&piece| self.swarm.add_lost(piece)).collect();
        lost.into_iter().for_each(|piece| self.tell_strategy(StrategyEvent::PieceWrong(piece)));
    }

    /// The node's view of the group has changed.
    pub fn handle_assignment(&mut self, now: Time) {
        self.swarm.set_now(now);
        self.tell_strategy(StrategyEvent::AssignmentChanged);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        self.swarm.set_now(now);
        self.swarm.flush();
        if self.swarm.take_wake_up() {
            self.tell_strategy(StrategyEvent::Timeout);
        }
        if let Some(asked) = self.asked.filter(|asked| now.since(asked.at) >= self.batch_patience(asked.link)) {
            *self.unanswered.entry(asked.link).or_insert(0) += 1;
            self.asked = None;
        }
        self.want_batches(now);
    }

    /// It ends without success here.
    pub fn fail(&mut self) {
        self.phase = Phase::Failed;
        self.swarm.set_paused(true);
        for (link, piece) in self.held.take_all() {
            self.swarm.send(link, Frame::Reject { broadcast: self.id, piece });
        }
        for (piece, _) in self.swarm.open().map(|(p, o)| (p, o.len())).collect::<Vec<_>>() {
            self.swarm.add_wrong(piece, false);
        }
    }

    /// Becomes complete when everything is stored; true if it just did.
    pub fn finish_if_complete(&mut self) -> bool {
        let done = self.phase == Phase::Active && self.swarm.is_complete();
        if done {
            self.phase = Phase::Complete;
        }
        done
    }
}
