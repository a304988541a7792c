//! Keeping the books: what the broadcast tells them.

use super::*;

/// Room for so many pieces to be announced is kept for the next ones.
const NEWS_KEPT: usize = 32;

/// Who was not asked for a piece, and sent bytes of it, may have been late: so often with pieces that were wrong before, it is to blame.
const STRIKES_MAX: u32 = 4;

/// So many first batches of a manifest are told of as they come.
const BATCHES_TOLD_AT_ONCE: u32 = 4;

impl Swarm {
    pub(crate) fn set_now(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    pub(crate) fn take_outputs(&mut self) -> std::vec::Drain<'_, Output> {
        if self.outputs.len() <= OUTPUTS_KEPT {
            self.outputs.shrink_to(OUTPUTS_KEPT);
        }
        self.outputs.drain(..)
    }

    /// Notes that a peer is to send the range of a piece that `choose` chooses, and returns that; none if it chooses none, or the
    /// peer is gone.
    pub(super) fn expect(
        &mut self,
        link: LinkId,
        piece: PieceIndex,
        choose: impl FnOnce(&OpenPiece) -> Option<ByteRange>,
    ) -> Option<ByteRange> {
        assert!(piece.0 < self.known, "{piece} is asked for before its hash is known");
        assert!(!self.have.contains(piece), "{piece} is asked for and stored already");
        let len = self.piece_len(piece);
        let peer = self.peers.get_mut(&link)?;
        let fresh = !self.open.contains_key(&piece);
        let open = self.open.entry(piece).or_insert_with(|| OpenPiece::new(len));
        if fresh {
            self.open_bytes += u64::from(len);
        }
        self.open_set.insert(piece);
        let alone = open.parts.is_empty() || !self.suspect.contains(piece);
        let range = choose(open).filter(|_| alone)?;
        let mark = peer.window.handle_request(self.now, range.len());
        peer.chunks.requests += 1;
        open.parts.push(Part { peer: link, rest: range, mark });
        Some(range)
    }

    /// A peer begins to send a piece that it was not asked for: that is taken, if nobody else was and there is room.
    pub(crate) fn take_pushed(&mut self, link: LinkId, piece: PieceIndex) {
        let room = !self.paused && self.open_bytes + u64::from(self.piece_size) <= self.open_limit;
        if room && piece.0 < self.known && self.is_missing(piece) {
            self.expect(link, piece, OpenPiece::first_gap);
        }
    }

    /// Pieces to be sent that nobody has asked for.
    pub(crate) fn take_pushes(&mut self) -> Vec<(LinkId, PieceIndex)> {
        std::mem::take(&mut self.pushes)
    }

    pub(crate) fn take_rate_limits(&mut self) -> Vec<(LinkId, Option<u64>)> {
        std::mem::take(&mut self.rate_limits)
    }

    pub(crate) fn send(&mut self, link: LinkId, frame: Frame) {
        self.outputs.push(Output::Send { link, frame });
    }

    pub(crate) fn push_output(&mut self, output: Output) {
        self.outputs.push(output);
    }

    pub(crate) fn timeout(&self) -> Option<Time> {
        Time::earliest([self.flush_at, self.wake_at])
    }

    /// Bytes of open pieces.
    pub(crate) fn open_bytes(&self) -> u64 {
        self.open_bytes
    }

    /// At least a piece may always be open. Where less may be open than before, half pieces that were kept are closed until there is
    /// room for others.
    pub(crate) fn set_open_limit(&mut self, bytes: u64) {
        let before = std::mem::replace(&mut self.open_limit, bytes.max(u64::from(self.piece_size)));
        if self.open_limit < before {
            let pieces: Vec<PieceIndex> = self.open.keys().copied().collect();
            pieces.into_iter().for_each(|piece| self.reopen_if_idle(piece));
        }
    }

    #[cfg(test)]
    pub(crate) fn open_limit(&self) -> u64 {
        self.open_limit
    }

    pub(crate) fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
        if !paused {
            self.began.get_or_insert((self.now, self.have.count()));
        }
    }

    pub(crate) fn take_wake_up(&mut self) -> bool {
        let due = self.wake_at.is_some_and(|at| at <= self.now);
        if due {
            self.wake_at = None;
        }
        due
    }

    /// Says where this node stands. Which peers are local changes only with the first word of its own cluster.
    pub(crate) fn set_standing(&mut self, standing: Standing) {
        let moved = self.standing.cluster != standing.cluster;
        self.standing = standing;
        if !moved {
            return;
        }
        self.local_copies.clear();
        for peer in self.peers.values_mut() {
            peer.local = peer.cluster == self.standing.cluster;
            peer.window.set_local(peer.local);
            for piece in peer.have.iter().filter(|_| peer.local) {
                count_copy(&mut self.local_copies, piece);
            }
        }
    }

    pub(crate) fn add_peer(&mut self, link: LinkId, node: NodeId, cluster: ClusterId) {
        let mut peer = SwarmPeer::new(node, cluster, cluster == self.standing.cluster);
        peer.window.set_local(peer.local);
        self.peers.insert(link, peer);
    }

    /// Removes a peer; what was asked of it is missing again.
    pub(crate) fn remove_peer(&mut self, link: LinkId) {
        let asked: Vec<PieceIndex> = self
            .open
            .iter()
            .filter(|(_, open)| open.parts.iter().any(|part| part.peer == link))
            .map(|(&piece, _)| piece)
            .collect();
        for piece in asked {
            self.forget_part(link, piece);
        }
        if let Some(peer) = self.peers.remove(&link)
            && peer.local
        {
            for piece in peer.have.iter() {
                self.local_copies[piece.as_usize()] -= 1;
            }
        }
    }

    /// A peer has pieces; returns those that are news, as runs.
    pub(crate) fn add_have(&mut self, link: LinkId, batches: u32, runs: &[Run]) -> Vec<Run> {
        let Some(peer) = self.peers.get_mut(&link) else { return Vec::new() };
        peer.batches = peer.batches.max(batches);
        let mut fresh = Vec::with_capacity(runs.len());
        runs.iter().for_each(|&run| peer.have.insert_run(run, &mut fresh));
        if peer.local {
            fresh.iter().flat_map(|run| run.pieces()).for_each(|piece| count_copy(&mut self.local_copies, piece));
        }
        peer.remove_news(&fresh);
        fresh
    }

    /// Hashes of more pieces are known.
    pub(crate) fn add_known(&mut self, pieces: u32, batches: u32, end: Option<End>) -> Run {
        let first = PieceIndex(self.known);
        self.known += pieces;
        self.batches = batches;
        self.end = end;
        self.announce_batches();
        Run { first, count: pieces }
    }

    /// A piece of this node's own source is known and stored at once.
    pub(crate) fn add_own(&mut self, piece: PieceIndex) {
        self.have.insert(piece);
    }

    /// Payload has arrived. What was sent before the peer knew that it is not wanted any more counts as well, while the piece is open:
    /// over a thin link that many share, all may come too late. Only the end of a piece that nobody is asked for does not: strategies
    /// take it for missing.
    pub(crate) fn add_payload(&mut self, link: LinkId, piece: PieceIndex, range: ByteRange) -> Arrival {
        self.count_in(link, range.len());
        let crumbs = self.peers.get_mut(&link).is_some_and(|peer| peer.chunks.add(range.len()));
        let Some(open) = self.open.get_mut(&piece) else {
            self.traffic.wasted += u64::from(range.len());
            self.outputs.push(Output::DropPiece { broadcast: self.id, piece });
            return Arrival { fresh: false, complete: false, room: self.has_room(link), crumbs };
        };
        if !open.contributors.contains(&link) {
            // In the driver its bytes lie among those of others.
            open.contributors.push(link);
            // Of a piece that is being verified nobody is asked any more, and some may be late.
            if !open.is_complete() && open.parts.iter().all(|part| part.peer != link) {
                open.unasked.push(link);
            }
        }
        let was_complete = open.is_complete();
        let ends_unasked = open.parts.is_empty() && !was_complete && open.is_completed_by(range);
        // A liar may send what lies outside the piece.
        if range.end > open.len() || ends_unasked {
            self.traffic.wasted += u64::from(range.len());
            return Arrival { fresh: false, complete: false, room: self.has_room(link), crumbs };
        }
        let fresh = open.insert(range);
        self.traffic.wasted += u64::from(range.len() - fresh);
        let complete = open.is_complete() && !was_complete;
        if complete {
            open.arrived_at = Some(self.now);
        }
        self.serve_parts(link, piece, range);
        if complete {
            self.cancel_all(piece);
        }
        let rest = self.open.get(&piece).is_some_and(|open| open.first_unasked().is_some());
        Arrival {
            fresh: fresh > 0,
            complete,
            room: self.has_room(link) || (rest && self.window_has_room(link)),
            crumbs,
        }
    }

    /// A piece is verified and stored.
    pub(crate) fn add_stored(&mut self, piece: PieceIndex) {
        self.cancel_all(piece);
        self.close_open(piece);
        let fresh = self.have.insert(piece);
        assert!(fresh, "{piece} is stored twice");
    }

    /// The bytes of a piece are from these peers and no others, whoever was heard to send some.
    pub(crate) fn note_brought(&mut self, piece: PieceIndex, links: &[LinkId]) {
        let Some(open) = self.open.get_mut(&piece) else { return };
        open.contributors = links.to_vec();
        open.unasked.retain(|link| links.contains(link));
    }

    /// A piece was wrong: it is missing again. Returns who is to blame, if it was forged: its only contributor. Of several nobody can be
    /// blamed; the next try comes from one. Whoever meddles with that unasked, again and again, is to blame as well.
    pub(crate) fn add_wrong(&mut self, piece: PieceIndex, forged: bool) -> Vec<LinkId> {
        self.cancel_all(piece);
        let Some(open) = self.close_open(piece) else { return Vec::new() };
        if open.contributors.len() < 2 {
            return if forged { open.contributors } else { Vec::new() };
        }
        let fresh = self.suspect.insert(piece);
        let strike = |link: &LinkId| {
            let strikes = self.peers.get_mut(link).map(|peer| &mut peer.strikes);
            strikes.is_some_and(|strikes| {
                *strikes += 1;
                *strikes >= STRIKES_MAX
            })
        };
        if fresh || !forged { Vec::new() } else { open.unasked.into_iter().filter(strike).collect() }
    }

    /// What had arrived of a piece is lost: it is missing again, and nobody is to blame. Returns whether there was anything.
    pub(crate) fn add_lost(&mut self, piece: PieceIndex) -> bool {
        if self.open.get(&piece).is_none_or(OpenPiece::is_complete) {
            return false;
        }
        self.count_in_vain(piece);
        self.cancel_all(piece);
        // Unless it was closed with the last request for it.
        self.close_open(piece);
        true
    }

    /// What has arrived of a piece is thrown away.
    pub(crate) fn count_in_vain(&mut self, piece: PieceIndex) {
        let bytes = self.open.get(&piece).map_or(0, OpenPiece::received_bytes);
        self.traffic.wasted += u64::from(bytes);
    }

    /// A peer will not serve a request.
    pub(crate) fn add_rejected(&mut self, link: LinkId, piece: PieceIndex) {
        self.forget_part(link, piece);
        // Whoever rejects a request does not have the piece, whatever it said.
        if let Some(peer) = self.peers.get_mut(&link)
            && peer.have.remove(piece)
            && peer.local
        {
            self.local_copies[piece.as_usize()] -= 1;
        }
    }

    /// A peer is to be sent payload.
    pub(crate) fn count_out(&mut self, link: LinkId, bytes: u32) {
        let local = self.peers.get(&link).is_some_and(|peer| peer.local);
        let out = if local { &mut self.traffic.out_lan } else { &mut self.traffic.out_wan };
        *out += u64::from(bytes);
    }

    /// The driver is given payload for a peer.
    pub(crate) fn count_sent(&mut self, link: LinkId, bytes: u32) {
        if let Some(peer) = self.peers.get_mut(&link) {
            peer.sent_bytes += u64::from(bytes);
        }
    }

    pub(super) fn audience(&self) -> Audience {
        Audience { peers: self.peers.len(), piece_size: self.piece_size, rest: self.rest() }
    }

    /// How long what is missing will take, if it goes on as since pieces were first asked for.
    fn rest(&self) -> Option<Duration> {
        let total = self.total()?;
        if total == self.known && !self.has_unasked() {
            return Some(Duration::ZERO);
        }
        let (began, had) = self.began?;
        let (have, elapsed) = (self.have.count(), self.now.since(began));
        let each = elapsed.0.checked_div(u64::from(have.saturating_sub(had)))?;
        Some(Duration(each).times(u64::from(total.saturating_sub(have))))
    }

    /// Sends the have-messages that are due.
    pub(crate) fn flush(&mut self) {
        if self.flush_at.is_none_or(|at| at > self.now) {
            return;
        }
        self.flush_at = None;
        let (now, id, batches, patience) = (self.now, self.id, self.batches, self.audience().patience());
        for (link, peer) in self.peers.iter_mut() {
            if !peer.has_news(batches) {
                continue;
            }
            let due = peer.flush_due(now, patience, batches);
            if due > now {
                self.flush_at = Some(self.flush_at.map_or(due, |at| at.min(due)));
                continue;
            }
            for &piece in &peer.to_announce {
                peer.announced.insert(piece);
            }
            peer.batches_announced = batches;
            // At the start nothing waits for company behind the word of the first hashes.
            if !peer.to_announce.is_empty() || batches > BATCHES_TOLD_AT_ONCE {
                peer.flushed_at = Some(now);
            }
            let runs = runs_of(peer.to_announce.drain(..));
            peer.to_announce.shrink_to(NEWS_KEPT);
            let mut send = |pieces| {
                let frame = Frame::Have { broadcast: id, batches, pieces };
                self.outputs.push(Output::Send { link, frame });
            };
            if runs.len() <= RUNS_PER_FRAME {
                send(runs);
            } else {
                runs.chunks(RUNS_PER_FRAME).for_each(|runs| send(runs.to_vec()));
            }
        }
    }

    /// Lets peers know how many manifest batches there are.
    pub(crate) fn announce_batches(&mut self) {
        let (now, batches, patience) = (self.now, self.batches, self.audience().patience());
        let due =
            self.peers.values().filter(|p| p.has_news(batches)).map(|p| p.flush_due(now, patience, batches)).min();
        if let Some(due) = due {
            self.flush_at = Some(self.flush_at.map_or(due, |at| at.min(due)));
        }
    }

    /// # Panics
    /// If the books do not add up: that is a bug.
    pub(crate) fn check_invariants(&self) {
        let open_bytes: u64 = self.open.values().map(|open| u64::from(open.len())).sum();
        assert_eq!(open_bytes, self.open_bytes, "open bytes are counted wrongly");
        assert!(open_bytes <= OPEN_PIECES_BYTES_MAX, "{open_bytes} bytes are open");
        for (&piece, open) in &self.open {
            assert!(!self.have.contains(piece), "{piece} is open and stored");
            assert!(piece.0 < self.known, "{piece} is open and its hash is not known");
            assert!(self.open_set.contains(piece) != (open.parts.is_empty() && !open.is_complete()), "{piece} is idle");
            assert!(open.parts.iter().all(|part| self.peers.contains_key(&part.peer)), "{piece} is asked of nobody");
        }
        for (link, peer) in self.peers.iter() {
            let parts = || self.open.values().flat_map(|open| &open.parts).filter(|part| part.peer == link);
            let outstanding: u64 = parts().map(|part| u64::from(part.rest.len())).sum();
            assert_eq!(outstanding, peer.window.outstanding(), "what is asked of {link} is counted wrongly");
            assert_eq!(parts().count() as u32, peer.window.requests(), "requests at {link} are counted wrongly");
        }
        assert!(self.have.count() <= self.known || self.id.root == self.standing.node, "more stored than known");
    }

    fn count_in(&mut self, link: LinkId, bytes: u32) {
        match self.peers.get(&link) {
            Some(peer) if peer.local => self.traffic.in_lan += u64::from(bytes),
            _ => self.traffic.in_wan += u64::from(bytes),
        }
    }

    /// Notes that a peer has served a range of what was asked of it: of several requests that follow one another, if its driver
    /// read what answers them at once.
    fn serve_parts(&mut self, link: LinkId, piece: PieceIndex, range: ByteRange) {
        let (Some(open), Some(peer)) = (self.open.get_mut(&piece), self.peers.get_mut(&link)) else { return };
        let begins = |part: &Part| part.peer == link && range.start <= part.rest.start && part.rest.start < range.end;
        let asked = open.parts.len();
        while let Some(at) = open.parts.iter().position(begins) {
            let part = &mut open.parts[at];
            let until = range.end.min(part.rest.end);
            peer.window.handle_bytes(self.now, until - part.rest.start);
            part.rest.start = until;
            if part.rest.is_empty() {
                peer.window.handle_served(self.now, open.parts.remove(at).mark);
            }
        }
        if open.parts.len() < asked {
            self.reopen_if_idle(piece);
        }
    }

    fn cancel_all(&mut self, piece: PieceIndex) {
        let asked: Vec<LinkId> =
            self.open.get(&piece).map(|open| open.parts.iter().map(|part| part.peer).collect()).unwrap_or_default();
        for link in asked {
            self.cancel(link, piece);
        }
    }

    /// Forgets what was asked of a peer for a piece; false if that was nothing.
    pub(super) fn forget_part(&mut self, link: LinkId, piece: PieceIndex) -> bool {
        let Some(open) = self.open.get_mut(&piece) else { return false };
        let mut forgotten = false;
        while let Some(at) = open.parts.iter().position(|part| part.peer == link) {
            let part = open.parts.remove(at);
            if let Some(peer) = self.peers.get_mut(&link) {
                peer.window.handle_dropped(part.rest.len());
            }
            forgotten = true;
        }
        if forgotten {
            self.reopen_if_idle(piece);
        }
        forgotten
    }

    /// A piece that nobody is asked for any more is missing again; one without a single byte needs no buffer.
    fn reopen_if_idle(&mut self, piece: PieceIndex) {
        let Some(open) = self.open.get(&piece) else { return };
        if !open.parts.is_empty() || open.is_complete() {
            return;
        }
        self.open_set.remove(piece);
        // Half a piece is worth keeping, but not so many of them that there is no room to ask for the other halves.
        if open.is_empty() || self.is_suspect(piece) || self.open_bytes > self.open_limit / 2 {
            self.close_open(piece);
        }
    }

    fn close_open(&mut self, piece: PieceIndex) -> Option<OpenPiece> {
        let open = self.open.remove(&piece)?;
        self.open_bytes -= u64::from(open.len());
        self.open_set.remove(piece);
        if !open.is_complete() {
            self.outputs.push(Output::DropPiece { broadcast: self.id, piece });
        }
        Some(open)
    }
}

fn count_copy(copies: &mut Vec<u16>, piece: PieceIndex) {
    if piece.as_usize() >= copies.len() {
        copies.resize(piece.as_usize() + 1, 0);
    }
    copies[piece.as_usize()] += 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::NodeId;

    const PIECE: u32 = 64 << 10;
    const ASKED: LinkId = LinkId(1);
    const OTHER: LinkId = LinkId(2);

    fn swarm() -> Swarm {
        let mut swarm = Swarm::new(BroadcastId::default(), PIECE, 0, None, 1);
        for link in [ASKED, OTHER] {
            swarm.add_peer(link, NodeId(link.0), swarm.standing.cluster);
        }
        swarm.add_known(64, 1, None);
        swarm.set_paused(false);
        swarm.add_have(ASKED, 1, &[Run { first: PieceIndex(0), count: 64 }]);
        swarm
    }

    #[test]
    fn who_meddles_with_a_piece_unasked_again_and_again_is_to_blame() {
        let (mut swarm, piece) = (swarm(), PieceIndex(0));
        for round in 0..=STRIKES_MAX {
            assert!(swarm.request(ASKED, piece));
            swarm.add_payload(OTHER, piece, ByteRange { start: 0, end: 1 });
            swarm.add_payload(ASKED, piece, ByteRange::whole(PIECE));
            let blamed = swarm.add_wrong(piece, true);
            let expected = if round == STRIKES_MAX { vec![OTHER] } else { Vec::new() };
            assert_eq!(blamed, expected, "in round {round}");
        }
    }

    #[test]
    fn who_is_heard_to_send_what_others_have_brought_is_not_to_blame_for_it() {
        let (mut swarm, piece) = (swarm(), PieceIndex(0));
        for (brought, blamed) in [(vec![OTHER, ASKED], vec![]), (vec![OTHER], vec![OTHER]), (vec![], vec![])] {
            assert!(swarm.request(ASKED, piece));
            swarm.add_payload(ASKED, piece, ByteRange::whole(PIECE));
            swarm.note_brought(piece, &brought);
            assert_eq!(swarm.add_wrong(piece, true), blamed, "brought by {brought:?}");
        }
    }

    #[test]
    fn half_pieces_give_way_where_less_may_be_open() {
        let mut swarm = swarm();
        swarm.set_open_limit(4 * u64::from(PIECE));
        for piece in [0, 1].map(PieceIndex) {
            assert!(swarm.request(ASKED, piece));
            swarm.add_payload(ASKED, piece, ByteRange { start: 0, end: PIECE / 2 });
        }
        swarm.remove_peer(ASKED);
        assert_eq!(swarm.open_bytes(), 2 * u64::from(PIECE), "they are worth keeping");
        assert!(swarm.has_open_room());
        swarm.set_open_limit(2 * u64::from(PIECE));
        assert!(swarm.has_open_room(), "or nothing would ever be asked for again");
        assert_eq!(swarm.open_bytes(), u64::from(PIECE));
    }

    #[test]
    fn of_several_who_were_asked_nobody_is_to_blame_and_one_alone_is() {
        let (mut swarm, piece) = (swarm(), PieceIndex(0));
        swarm.add_payload(ASKED, piece, ByteRange::whole(PIECE));
        assert_eq!(swarm.add_wrong(piece, true), [], "nobody was asked for it");
        assert!(swarm.request(ASKED, piece));
        swarm.add_payload(ASKED, piece, ByteRange::whole(PIECE));
        assert_eq!(swarm.add_wrong(piece, false), []);
        assert!(swarm.request(ASKED, piece));
        swarm.add_payload(ASKED, piece, ByteRange::whole(PIECE));
        assert_eq!(swarm.add_wrong(piece, true), [ASKED]);
    }

    /// A driver that reads several blocks at once tells of them at once (BitTorrent asks for five).
    #[test]
    fn payload_that_answers_several_requests_serves_each() {
        let mut swarm = swarm();
        let (link, piece, block) = (LinkId(1), PieceIndex(0), 4 << 10);
        (0..3).for_each(|_| assert!(swarm.request_block(link, piece, block)));
        swarm.add_payload(link, piece, ByteRange { start: 0, end: 2 * block + 1 });
        let open = swarm.open_piece(piece).unwrap();
        let rest: Vec<ByteRange> = open.parts.iter().map(|part| part.rest).collect();
        assert_eq!(rest, [ByteRange { start: 2 * block + 1, end: 3 * block }]);
        assert_eq!(swarm.peer(link).unwrap().window.outstanding(), u64::from(block) - 1);
    }

    #[test]
    fn who_sends_crumbs_is_found_out_and_who_sends_chunks_is_not() {
        let crumbs = |chunk: u32, chunks: u32| {
            let mut swarm = swarm();
            (0..64).for_each(|piece| assert!(swarm.request(ASKED, PieceIndex(piece))));
            let range = |i: u32| ByteRange { start: 2 * i * chunk % PIECE, end: 2 * i * chunk % PIECE + chunk };
            (0..chunks).any(|i| swarm.add_payload(ASKED, PieceIndex(0), range(i)).crumbs)
        };
        assert!(crumbs(1, 1_000));
        assert!(!crumbs(crate::limits::CHUNK_BYTES_MIN, 100_000));
    }

    #[test]
    fn a_piece_whose_bytes_are_lost_comes_again_from_anybody() {
        let (mut swarm, piece, quarter) = (swarm(), PieceIndex(0), PIECE / 4);
        assert!(swarm.request(ASKED, piece));
        swarm.add_payload(ASKED, piece, ByteRange { start: 0, end: quarter });
        swarm.add_payload(OTHER, piece, ByteRange { start: quarter, end: 2 * quarter });
        swarm.remove_peer(OTHER);
        assert!(swarm.add_lost(piece) && !swarm.add_lost(piece));
        assert!(!swarm.is_suspect(piece) && swarm.is_missing(piece));
        assert_eq!((swarm.open_bytes(), swarm.traffic.wasted), (0, u64::from(2 * quarter)));
        assert!(swarm.request(ASKED, piece));
        swarm.add_payload(ASKED, piece, ByteRange::whole(PIECE));
        assert!(!swarm.add_lost(piece), "it is being verified");
        swarm.add_stored(piece);
        swarm.check_invariants();
    }
}
