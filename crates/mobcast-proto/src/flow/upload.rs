//! The order in which a node serves requests. Pieces for other clusters go first, because each is imported there once
//! and many wait for it (design, `mob` rule 7); inside the cluster the most deprived peer is served first (Massoulié
//! et al., INFOCOM 2007, which is optimal for node-capacitated complete graphs).

use std::collections::{BTreeSet, VecDeque};

use crate::sorted_map::SortedMap;
use crate::time::{Duration, Time};
use crate::units::{BroadcastId, ByteRange, LinkId, PieceIndex};

/// Parts of pieces that the driver holds for one link at a time: one on its way, one behind it.
const PER_LINK: usize = 2;
/// Local links that are sent the same piece at a time: sooner than a slow card could send it to all, those who had it first pass it on.
const SAME_AT_ONCE: usize = 2;
/// Whoever takes longer than this to receive one holds nobody up.
const SAME_FOR: Duration = Duration::from_secs(1);
/// Requests of a link among which one is looked for that may be served.
const LOOKED_AT: usize = 4;
/// Parts that a local link is served before it is the next one's turn.
const PARTS_PER_TURN: u64 = 4;
/// Requests that a peer may have waiting: the open pieces of a node at the smallest piece size.
const WAITING_MAX: usize = 3_072;

/// A limited link may make up for so much time in which there was nothing to send, or its connection had losses to repair.
const BURST: Duration = Duration::from_millis(1_000);

/// A part of a piece to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Upload {
    /// The broadcast.
    pub broadcast: BroadcastId,
    /// The piece.
    pub piece: PieceIndex,
    /// The bytes of it.
    pub range: ByteRange,
}

#[derive(Clone, Default)]
struct Queue {
    wan: bool,
    waiting: VecDeque<Upload>,
    /// What the driver holds.
    in_driver: VecDeque<Piece>,
    /// Pieces that the peer has: the fewer, the sooner it is served.
    peer_pieces: u32,
    /// Parts that it was served.
    served: u64,
    /// Broadcasts of which it is sent no more than at a rate.
    limits: Vec<Limit>,
    /// Its place in the order of serving, if it is open.
    turn: Option<Turn>,
}

/// What a strategy limits of a broadcast on a link, which says nothing of others that the link carries.
#[derive(Clone)]
struct Limit {
    broadcast: BroadcastId,
    rate_bytes_per_s: u64,
    /// Until when the peer has had its due.
    due_at: Time,
}

/// A link that something waits for and that may take more: whose comes first is served first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Turn {
    local: bool,
    in_driver: usize,
    has: (u32, u64),
    link: LinkId,
    due_at: Time,
}

/// A link in the order of serving.
#[derive(Clone)]
struct Waiter {
    turn: Turn,
    /// Why it is passed over, if it asks for nothing that is not being sent to enough others.
    bar: Option<Bar>,
}

/// What a link waits for: that one of the pieces that it asks for, of whatever broadcast, is being sent to fewer, or for this time.
#[derive(Clone, Copy)]
struct Bar {
    pieces: [Option<PieceIndex>; LOOKED_AT],
    until: Time,
}

/// Parts of a piece that the driver holds for a local link.
#[derive(Clone)]
struct Sending {
    piece: Piece,
    link: LinkId,
    parts: usize,
    /// When it was given the last one.
    since: Time,
}

/// A piece of a broadcast.
type Piece = (BroadcastId, PieceIndex);

impl Queue {
    /// Whoever has less comes first. A peer does not tell what it has to those who have it; then what it was served counts, in
    /// turns of a few parts, so that connections are not idle between them.
    fn has(&self) -> (u32, u64) {
        (self.peer_pieces, self.served / PARTS_PER_TURN)
    }

    fn is_open(&self) -> bool {
        !self.waiting.is_empty() && self.in_driver.len() < PER_LINK
    }

    fn next_turn(&self, link: LinkId) -> Option<Turn> {
        let (local, in_driver, has) = (!self.wan, self.in_driver.len(), self.has());
        self.is_open().then(|| Turn { local, in_driver, has, link, due_at: self.due_at() })
    }

    /// When the first of its requests may be served.
    fn due_at(&self) -> Time {
        if self.limits.is_empty() {
            return Time::ZERO;
        }
        let mut first = Time(u64::MAX);
        for upload in &self.waiting {
            first = first.min(self.due_of(upload));
            if first == Time::ZERO {
                break;
            }
        }
        first
    }

    fn due_of(&self, upload: &Upload) -> Time {
        let limit = self.limits.iter().find(|limit| limit.broadcast == upload.broadcast);
        limit.map_or(Time::ZERO, |limit| limit.due_at)
    }

    /// Requests among which one is looked for that may be served, by their places.
    fn looked_at(&self, now: Time) -> impl Iterator<Item = (usize, &Upload)> {
        let due = move |(_, upload): &(usize, &Upload)| self.limits.is_empty() || self.due_of(upload) <= now;
        self.waiting.iter().enumerate().filter(due).take(LOOKED_AT)
    }
}

/// Requests of all links that wait for being served.
#[derive(Clone, Default)]
pub struct Uploads {
    queues: SortedMap<LinkId, Queue>,
    /// Links that are open, in the order of serving: those to look at, of many.
    waiters: Vec<Waiter>,
    /// What the driver is sending to local links, by piece and link.
    sending: Vec<Sending>,
    /// Limits of all links: where there are none, nobody waits for its due.
    limits: usize,
    /// No link may take anything before, unless something changes for one.
    quiet_until: Time,
}

impl Uploads {
    /// A link is up; `wan` if it leads to another cluster.
    pub fn add_link(&mut self, link: LinkId, wan: bool) {
        self.remove_link(link);
        self.queues.insert(link, Queue { wan, ..Queue::default() });
    }

    /// A link is gone, with everything that it waited for.
    pub fn remove_link(&mut self, link: LinkId) {
        let Some(queue) = self.queues.remove(&link) else { return };
        self.limits -= queue.limits.len();
        self.waiters.retain(|waiter| waiter.turn.link != link);
        queue.in_driver.into_iter().for_each(|piece| self.left_driver(piece, link));
    }

    /// A peer, which has `peer_pieces`, asks for a part of a piece; false if it has more requests waiting than any node may have.
    pub fn add(&mut self, link: LinkId, upload: Upload, peer_pieces: u32) -> bool {
        let Some(queue) = self.queues.get_mut(&link) else { return true };
        if queue.waiting.len() >= WAITING_MAX {
            return false;
        }
        queue.peer_pieces = peer_pieces;
        queue.waiting.push_back(upload);
        self.review(link);
        true
    }

    /// A peer takes its requests for a piece back.
    pub fn cancel(&mut self, link: LinkId, broadcast: BroadcastId, piece: PieceIndex) {
        if let Some(queue) = self.queues.get_mut(&link) {
            queue.waiting.retain(|upload| (upload.broadcast, upload.piece) != (broadcast, piece));
            // The driver drops it sooner than it has sent what stands before it.
            queue.in_driver.make_contiguous().sort_by_key(|&held| held != (broadcast, piece));
        }
        self.review(link);
    }

    /// Bytes that a peer has asked for and that the driver has not been given.
    pub fn waiting_bytes(&self, link: LinkId) -> u64 {
        let Some(queue) = self.queues.get(&link) else { return 0 };
        queue.waiting.iter().map(|upload| u64::from(upload.range.len())).sum()
    }

    /// A broadcast is over, with what limited it: who waits for which pieces of it.
    pub fn remove_broadcast(&mut self, broadcast: BroadcastId) -> BTreeSet<(LinkId, PieceIndex)> {
        let mut waiting = BTreeSet::new();
        for (link, queue) in self.queues.iter_mut() {
            let of_it = |upload: &&Upload| upload.broadcast == broadcast;
            waiting.extend(queue.waiting.iter().filter(of_it).map(|upload| (link, upload.piece)));
            queue.waiting.retain(|upload| upload.broadcast != broadcast);
            let before = queue.limits.len();
            queue.limits.retain(|limit| limit.broadcast != broadcast);
            self.limits -= before - queue.limits.len();
        }
        let links: Vec<LinkId> = self.queues.keys().collect();
        links.into_iter().for_each(|link| self.review(link));
        waiting
    }

    /// Limits what a link is sent of a broadcast to a rate in bytes per second, or takes the limit back (shaping at the sender,
    /// as in Balanced Multicasting: den Burger, Kielmann and Bal, SC 2005).
    pub fn limit_rate(&mut self, link: LinkId, broadcast: BroadcastId, rate_bytes_per_s: Option<u64>) {
        let Some(queue) = self.queues.get_mut(&link) else { return };
        let rate_bytes_per_s = rate_bytes_per_s.map(|rate| rate.max(1));
        let at = queue.limits.iter().position(|limit| limit.broadcast == broadcast);
        match (at, rate_bytes_per_s) {
            // What has been sent still counts; at another rate nobody knows for how much.
            (Some(at), Some(rate)) if queue.limits[at].rate_bytes_per_s == rate => return,
            (Some(at), Some(rate_bytes_per_s)) => {
                queue.limits[at] = Limit { broadcast, rate_bytes_per_s, due_at: Time::ZERO };
            }
            (Some(at), None) => {
                queue.limits.remove(at);
                self.limits -= 1;
            }
            (None, Some(rate_bytes_per_s)) => {
                queue.limits.push(Limit { broadcast, rate_bytes_per_s, due_at: Time::ZERO });
                self.limits += 1;
            }
            (None, None) => return,
        }
        self.review(link);
    }

    /// When, after `now`, a link may be sent more that has had its due.
    pub fn timeout(&self, now: Time) -> Option<Time> {
        if self.limits == 0 {
            return None;
        }
        self.waiters.iter().map(|waiter| waiter.turn.due_at).filter(|&at| at > now).min()
    }

    /// The driver has sent (or dropped) one part of a piece that it was given for `link`.
    pub fn handle_sent(&mut self, link: LinkId) {
        if let Some(piece) = self.queues.get_mut(&link).and_then(|queue| queue.in_driver.pop_front()) {
            self.left_driver(piece, link);
            self.review(link);
        }
    }

    /// The next part for the driver to send, if any link may take one.
    pub fn poll(&mut self, now: Time) -> Option<(LinkId, Upload)> {
        let (link, next) = self.next(now)?;
        let queue = self.queues.get_mut(&link).expect("chosen among the queues");
        let upload = queue.waiting.remove(next)?;
        let piece = (upload.broadcast, upload.piece);
        queue.in_driver.push_back(piece);
        queue.served += 1;
        if let Some(limit) = queue.limits.iter_mut().find(|limit| limit.broadcast == upload.broadcast) {
            let takes = u128::from(upload.range.len()) * 1_000_000_000 / u128::from(limit.rate_bytes_per_s);
            limit.due_at = limit.due_at.max(Time(now.0.saturating_sub(BURST.0)))
                + Duration(u64::try_from(takes).unwrap_or(u64::MAX / 2));
        }
        if !queue.wan {
            match self.find_sending(piece, link) {
                Ok(at) => (self.sending[at].parts, self.sending[at].since) = (self.sending[at].parts + 1, now),
                Err(at) => self.sending.insert(at, Sending { piece, link, parts: 1, since: now }),
            }
        }
        self.review(link);
        Some((link, upload))
    }

    /// The link whose turn it is, and the first of its requests that may be served.
    fn next(&mut self, now: Time) -> Option<(LinkId, usize)> {
        if now < self.quiet_until {
            return None;
        }
        let mut quiet_until = Time(u64::MAX);
        for at in 0..self.waiters.len() {
            let Waiter { turn: Turn { link, due_at, .. }, bar } = &self.waiters[at];
            let waits_until = bar.as_ref().map_or(*due_at, |bar| bar.until.max(*due_at));
            if waits_until > now {
                quiet_until = quiet_until.min(waits_until);
                continue;
            }
            let link = *link;
            match self.next_of(now, link) {
                Ok(next) => return Some((link, next)),
                Err(until) => {
                    let bar = self.bar(now, link, until);
                    quiet_until = quiet_until.min(bar.until);
                    self.waiters[at].bar = Some(bar);
                }
            }
        }
        self.quiet_until = quiet_until;
        None
    }

    /// The first of a link's requests whose piece is not being sent to enough others; if there is none, until when at least.
    fn next_of(&self, now: Time, link: LinkId) -> Result<usize, Time> {
        let queue = &self.queues[&link];
        let mut until = Time(u64::MAX);
        for (at, upload) in queue.looked_at(now) {
            let piece = (upload.broadcast, upload.piece);
            let first = self.sending.partition_point(|sending| sending.piece < piece);
            let sending = self.sending[first..].iter().take_while(|sending| sending.piece == piece);
            let others = sending.filter(|other| other.link != link && now.since(other.since) < SAME_FOR);
            let ends = others.map(|other| other.since + SAME_FOR);
            let (others, end) = ends.fold((0, until), |(others, end), at| (others + 1, end.min(at)));
            if queue.wan || others < SAME_AT_ONCE {
                return Ok(at);
            }
            until = end;
        }
        Err(until)
    }

    fn bar(&self, now: Time, link: LinkId, until: Time) -> Bar {
        let queue = &self.queues[&link];
        let mut until = until;
        if !queue.limits.is_empty() {
            // Another broadcast of the link may have its due sooner.
            let due = queue.waiting.iter().map(|upload| queue.due_of(upload)).filter(|&at| at > now).min();
            until = due.map_or(until, |due| due.min(until));
        }
        let mut looked_at = queue.looked_at(now);
        let pieces = std::array::from_fn(|_| looked_at.next().map(|(_, upload)| upload.piece));
        Bar { pieces, until }
    }

    fn left_driver(&mut self, piece: Piece, link: LinkId) {
        let Ok(at) = self.find_sending(piece, link) else { return };
        self.sending[at].parts -= 1;
        if self.sending[at].parts == 0 {
            self.sending.remove(at);
            // Who asks for it is looked at again.
            self.quiet_until = Time::ZERO;
            let waits = |bar: &Bar| bar.pieces.contains(&Some(piece.1));
            self.waiters.iter_mut().for_each(|waiter| waiter.bar = waiter.bar.filter(|bar| !waits(bar)));
        }
    }

    fn find_sending(&self, piece: Piece, link: LinkId) -> Result<usize, usize> {
        self.sending.binary_search_by_key(&(piece, link), |sending| (sending.piece, sending.link))
    }

    /// # Panics
    /// If the books do not add up: that is a bug.
    pub(crate) fn check_invariants(&self) {
        for (link, queue) in self.queues.iter() {
            assert_eq!(queue.turn, queue.next_turn(link), "{link} is looked at for nothing, or not at all");
        }
        let turns = self.queues.values().filter_map(|queue| queue.turn).count();
        let sorted = self.waiters.is_sorted_by_key(|waiter| waiter.turn);
        assert!(sorted && self.waiters.len() == turns, "the order of serving is wrong");
        let held = self.queues.values().filter(|queue| !queue.wan).map(|queue| queue.in_driver.len()).sum::<usize>();
        let sending = self.sending.iter().map(|sending| sending.parts).sum::<usize>();
        assert_eq!(held, sending, "parts in the driver are counted wrongly");
        let limits = self.queues.values().map(|queue| queue.limits.len()).sum::<usize>();
        assert_eq!(self.limits, limits, "limits are counted wrongly");
    }

    /// Something has changed for a link: it gets its place in the order of serving, and is looked at again.
    fn review(&mut self, link: LinkId) {
        let Some(queue) = self.queues.get_mut(&link) else { return };
        self.quiet_until = Time::ZERO;
        let turn = queue.next_turn(link);
        let before = std::mem::replace(&mut queue.turn, turn);
        let at = before.and_then(|before| self.waiters.binary_search_by_key(&before, |waiter| waiter.turn).ok());
        match at {
            Some(at) if turn == before => self.waiters[at].bar = None,
            Some(at) => drop(self.waiters.remove(at)),
            None => {}
        }
        if let Some(turn) = turn.filter(|_| turn != before) {
            let at = self.waiters.partition_point(|other| other.turn < turn);
            self.waiters.insert(at, Waiter { turn, bar: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn upload(piece: u32) -> Upload {
        Upload { broadcast: BroadcastId::default(), piece: PieceIndex(piece), range: ByteRange::whole(1) }
    }

    /// One of two broadcasts, odd pieces of which are of the second, so that a piece's number says all of it.
    fn of_two(piece: u32) -> Upload {
        Upload { broadcast: BroadcastId { sequence: piece % 2, ..BroadcastId::default() }, ..upload(piece) }
    }

    fn uploads(links: &[(u32, bool, u32)]) -> Uploads {
        let mut uploads = Uploads::default();
        for &(link, wan, peer_pieces) in links {
            uploads.add_link(LinkId(link), wan);
            for piece in 0..5 {
                assert!(uploads.add(LinkId(link), upload(piece), peer_pieces));
            }
        }
        uploads
    }

    fn order(uploads: &mut Uploads) -> Vec<u32> {
        std::iter::from_fn(|| uploads.poll(Time::ZERO).map(|(link, _)| link.0)).collect()
    }

    #[test]
    fn other_clusters_come_first_then_the_most_deprived() {
        let mut uploads = uploads(&[(1, false, 50), (2, false, 10), (3, true, 99)]);
        assert_eq!(order(&mut uploads), [3, 3, 2, 1, 2, 1]);
    }

    #[test]
    fn a_piece_is_not_sent_to_all_who_ask_for_it_at_a_time() {
        let mut uploads = uploads(&[(1, false, 1), (2, false, 2), (3, false, 3), (4, true, 9)]);
        let next = |uploads: &mut Uploads| uploads.poll(Time::ZERO).map(|(link, upload)| (link.0, upload.piece.0));
        let all: Vec<_> = std::iter::from_fn(|| next(&mut uploads)).collect();
        let wan = [(4, 0), (4, 1)];
        assert_eq!(
            all,
            [&wan[..], &[(1, 0), (2, 0), (3, 1), (1, 1), (2, 2), (3, 2)]].concat(),
            "the third one gets another piece"
        );
        uploads.handle_sent(LinkId(1));
        assert_eq!(next(&mut uploads), Some((1, 3)), "two are being sent piece 2");
        uploads.handle_sent(LinkId(3));
        assert_eq!(next(&mut uploads), Some((3, 0)), "piece 0 is on its way to the second one alone");
    }

    #[test]
    fn who_asks_for_what_two_others_are_sent_waits_for_one_of_them_and_not_long() {
        let mut uploads = Uploads::default();
        for link in 1..=3 {
            uploads.add_link(LinkId(link), false);
            assert!(uploads.add(LinkId(link), upload(7), link));
        }
        assert_eq!(order(&mut uploads), [1, 2]);
        let (mut other, mut without) = (uploads.clone(), uploads.clone());
        uploads.handle_sent(LinkId(1));
        assert_eq!(order(&mut uploads), [3]);
        without.remove_link(LinkId(1));
        assert_eq!(order(&mut without), [3]);
        assert_eq!(other.poll(Time::ZERO + SAME_FOR).map(|(link, _)| link), Some(LinkId(3)), "both may be asleep");
    }

    #[test]
    fn turns_also_pass_among_peers_that_do_not_tell_what_they_have() {
        let mut uploads = Uploads::default();
        (1..=5).for_each(|link| uploads.add_link(LinkId(link), false));
        uploads.add_link(LinkId(6), true);
        let mut served = [0; 6];
        for _ in 0..100 {
            for link in 1..=5 {
                while uploads.waiting_bytes(LinkId(link)) < 3 {
                    assert!(uploads.add(LinkId(link), upload(0), 0));
                }
            }
            for link in order(&mut uploads) {
                served[link as usize] += 1;
                uploads.handle_sent(LinkId(link));
            }
        }
        let [least, most] = [served[1..].iter().min(), served[1..].iter().max()].map(|parts| *parts.expect("five"));
        assert!(most - least <= 2 * PARTS_PER_TURN, "{served:?}");
    }

    #[test]
    fn what_the_driver_has_does_not_wait_and_a_link_gets_more_when_some_of_it_is_sent() {
        let mut uploads = uploads(&[(1, false, 1)]);
        assert_eq!(uploads.waiting_bytes(LinkId(1)), 5);
        assert_eq!(order(&mut uploads), [1, 1]);
        assert_eq!((uploads.waiting_bytes(LinkId(1)), uploads.waiting_bytes(LinkId(2))), (3, 0));
        uploads.handle_sent(LinkId(1));
        assert_eq!(order(&mut uploads), [1]);
    }

    /// The link that is next, looked for among all, as the rules say it.
    fn next_by_the_rules(
        uploads: &Uploads,
        now: Time,
        given: &BTreeMap<(LinkId, PieceIndex), Time>,
    ) -> Option<(LinkId, PieceIndex)> {
        let busy = |link: LinkId, piece: PieceIndex| {
            let others = uploads.queues.iter().filter(|(other, queue)| {
                let holds = queue.in_driver.iter().any(|&(_, p)| p == piece);
                *other != link && !queue.wan && holds && now.since(given[&(*other, piece)]) < SAME_FOR
            });
            others.count() >= SAME_AT_ONCE
        };
        let next =
            uploads.queues.iter().filter(|(_, queue)| queue.in_driver.len() < PER_LINK).filter_map(|(link, queue)| {
                let due = |upload: &&Upload| {
                    let limit = queue.limits.iter().find(|limit| limit.broadcast == upload.broadcast);
                    limit.is_none_or(|limit| limit.due_at <= now)
                };
                let free = |upload: &&Upload| queue.wan || !busy(link, upload.piece);
                let piece = queue.waiting.iter().filter(due).take(LOOKED_AT).find(free)?.piece;
                Some((!queue.wan, queue.in_driver.len(), queue.has(), link, piece))
            });
        next.min().map(|(.., link, piece)| (link, piece))
    }

    proptest! {
        #[test]
        fn the_next_is_who_the_rules_say(steps in vec((0..9_u8, 0..6_u32, 0..5_u32, 0..400_u64), 1..200)) {
            let mut uploads = Uploads::default();
            (0..6).for_each(|link| uploads.add_link(LinkId(link), link == 5));
            let (mut now, mut given) = (Time::ZERO, BTreeMap::new());
            for (what, link, piece, wait) in steps {
                now += Duration::from_millis(wait);
                match what {
                    0..=2 => assert!(uploads.add(LinkId(link), of_two(piece), piece)),
                    3..=4 => uploads.handle_sent(LinkId(link)),
                    5 => uploads.cancel(LinkId(link), of_two(piece).broadcast, PieceIndex(piece)),
                    8 => {
                        let rate = [None, Some(1), Some(1), Some(4), Some(100)][piece as usize];
                        uploads.limit_rate(LinkId(link), of_two(piece).broadcast, rate);
                    }
                    6 if piece == 0 => uploads.add_link(LinkId(link), link == 5),
                    _ => {
                        let expected = next_by_the_rules(&uploads, now, &given);
                        let next = uploads.poll(now).map(|(link, upload)| (link, upload.piece));
                        prop_assert_eq!(next, expected);
                        given.extend(next.map(|next| (next, now)));
                    }
                }
                uploads.check_invariants();
            }
        }
    }

    #[test]
    fn a_limited_link_is_sent_at_its_rate_and_holds_nobody_up() {
        let mut uploads = uploads(&[(1, true, 1), (2, true, 1)]);
        uploads.limit_rate(LinkId(1), BroadcastId::default(), Some(1));
        let later = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        let next = |uploads: &mut Uploads, ms: u64| uploads.poll(later(ms)).map(|(link, _)| link.0);
        // One byte is a second, and so much may be made up for.
        assert_eq!([0; 5].map(|_| next(&mut uploads, 1_000)), [Some(1), Some(2), Some(1), Some(2), None]);
        (0..2).for_each(|_| uploads.handle_sent(LinkId(1)));
        assert_eq!(uploads.timeout(later(1_000)), Some(later(2_000)));
        assert_eq!(next(&mut uploads, 1_999), None);
        assert_eq!(next(&mut uploads, 2_000), Some(1));
        uploads.limit_rate(LinkId(1), BroadcastId::default(), None);
        assert_eq!(next(&mut uploads, 2_000), Some(1), "nobody limits it any more");
        assert_eq!(uploads.timeout(Time::ZERO), None);
    }

    #[test]
    fn a_limit_ends_with_its_broadcast_and_holds_no_other_one_up() {
        let mut uploads = uploads(&[(1, true, 1)]);
        let other = BroadcastId { sequence: 7, ..BroadcastId::default() };
        uploads.limit_rate(LinkId(1), BroadcastId::default(), Some(1));
        let next = |uploads: &mut Uploads| {
            let next = uploads.poll(Time::ZERO + BURST).map(|(_, upload)| upload.broadcast.sequence);
            uploads.handle_sent(LinkId(1));
            uploads.check_invariants();
            next
        };
        assert_eq!([0; 3].map(|_| next(&mut uploads)), [Some(0), Some(0), None], "it has had its due");
        uploads.limit_rate(LinkId(1), BroadcastId::default(), Some(1));
        assert_eq!(next(&mut uploads), None, "the same limit once more gives nothing away");
        for piece in 0..2 {
            assert!(uploads.add(LinkId(1), Upload { broadcast: other, ..upload(piece) }, 1));
        }
        assert_eq!([0; 3].map(|_| next(&mut uploads)), [Some(7), Some(7), None], "behind three requests that wait");
        uploads.remove_broadcast(BroadcastId::default());
        assert!(uploads.add(LinkId(1), upload(9), 1));
        assert_eq!(next(&mut uploads), Some(0), "nothing limits what begins anew");
    }

    #[test]
    fn a_cancelled_request_is_not_served() {
        let mut uploads = uploads(&[(1, false, 1)]);
        uploads.cancel(LinkId(1), BroadcastId::default(), PieceIndex(0));
        assert_eq!(uploads.poll(Time::ZERO).unwrap().1.piece, PieceIndex(1));
        assert_eq!(uploads.poll(Time::ZERO).unwrap().1.piece, PieceIndex(2));
        uploads.cancel(LinkId(1), BroadcastId::default(), PieceIndex(2));
        uploads.handle_sent(LinkId(1));
        let sent = (BroadcastId::default(), PieceIndex(1));
        assert_eq!(uploads.queues[&LinkId(1)].in_driver, [sent], "the driver had not begun with the other one");
    }
}
