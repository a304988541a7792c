//! The order in which a node serves requests. Pieces for other clusters go first, because each is imported there once
//! and many wait for it (design, `mob` rule 7); inside the cluster the most deprived peer is served first (Massoulié
//! et al., INFOCOM 2007, which is optimal for node-capacitated complete graphs).

use std::collections::{BTreeMap, VecDeque};

use crate::units::{BroadcastId, ByteRange, LinkId, PieceIndex};

/// Parts of pieces that the driver holds for one link at a time: one on its way, one behind it.
const PER_LINK: usize = 2;
/// Local links served at a time where pieces come in from other clusters: all peers ask for such a piece as soon as it is there,
/// and when a slow card serves all of them at a time, none has it soon to pass it on. Inside a single cluster there is always
/// something else to serve, and whoever waits for a turn leaves its card idle.
const LOCAL_AT_ONCE: usize = 4;
/// Parts that a local link is served before it is the next one's turn.
const PARTS_PER_TURN: u64 = 4;
/// Requests that a peer may have waiting: the open pieces of a node at the smallest piece size.
const WAITING_MAX: usize = 3_072;

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

#[derive(Default)]
struct Queue {
    wan: bool,
    waiting: VecDeque<Upload>,
    in_driver: usize,
    /// Pieces that the peer has: the fewer, the sooner it is served.
    peer_pieces: u32,
    /// Parts that it was served.
    served: u64,
    /// Whether it asks for what this node is the root of.
    of_root: bool,
}

impl Queue {
    /// Whoever has less comes first. A peer does not tell what it has to those who have it; then what it was served counts, in
    /// turns of a few parts, so that connections are not idle between them.
    fn has(&self) -> (u32, u64) {
        (self.peer_pieces, self.served / PARTS_PER_TURN)
    }
}

/// Requests of all links that wait for being served.
#[derive(Default)]
pub struct Uploads {
    queues: BTreeMap<LinkId, Queue>,
}

impl Uploads {
    /// A link is up; `wan` if it leads to another cluster.
    pub fn add_link(&mut self, link: LinkId, wan: bool) {
        self.queues.insert(link, Queue { wan, ..Queue::default() });
    }

    /// A link is gone, with everything that it waited for.
    pub fn remove_link(&mut self, link: LinkId) {
        self.queues.remove(&link);
    }

    /// A peer, which has `peer_pieces`, asks for a part of a piece, `of_root` if this node is the broadcast's root; false if
    /// it has more requests waiting than any node may have.
    pub fn add(&mut self, link: LinkId, upload: Upload, peer_pieces: u32, of_root: bool) -> bool {
        let Some(queue) = self.queues.get_mut(&link) else { return true };
        if queue.waiting.len() >= WAITING_MAX {
            return false;
        }
        queue.peer_pieces = peer_pieces;
        queue.of_root = of_root;
        queue.waiting.push_back(upload);
        true
    }

    /// A peer takes its requests for a piece back.
    pub fn cancel(&mut self, link: LinkId, broadcast: BroadcastId, piece: PieceIndex) {
        if let Some(queue) = self.queues.get_mut(&link) {
            queue.waiting.retain(|upload| (upload.broadcast, upload.piece) != (broadcast, piece));
        }
    }

    /// Bytes that a peer has asked for and that the driver has not been given.
    pub fn waiting_bytes(&self, link: LinkId) -> u64 {
        let Some(queue) = self.queues.get(&link) else { return 0 };
        queue.waiting.iter().map(|upload| u64::from(upload.range.len())).sum()
    }

    /// A broadcast is over.
    pub fn remove_broadcast(&mut self, broadcast: BroadcastId) {
        for queue in self.queues.values_mut() {
            queue.waiting.retain(|upload| upload.broadcast != broadcast);
        }
    }

    /// The driver has sent (or dropped) one part of a piece that it was given for `link`.
    pub fn handle_sent(&mut self, link: LinkId) {
        if let Some(queue) = self.queues.get_mut(&link) {
            queue.in_driver = queue.in_driver.saturating_sub(1);
        }
    }

    /// The next part for the driver to send, if any link may take one.
    pub fn poll(&mut self) -> Option<(LinkId, Upload)> {
        let local = || self.queues.values().filter(|queue| !queue.wan);
        let several_clusters = self.queues.values().any(|queue| queue.wan);
        let room =
            !several_clusters || local().filter(|queue| queue.in_driver > 0 && !queue.of_root).count() < LOCAL_AT_ONCE;
        // Those who are being served go on as long as nobody who waits for a turn has less.
        let waiting = local().filter(|queue| queue.in_driver == 0 && !queue.waiting.is_empty());
        let most_deprived = waiting.map(Queue::has).min();
        let goes_on = |queue: &Queue| queue.in_driver > 0 && most_deprived.is_none_or(|least| queue.has() <= least);
        let turn = |queue: &Queue| queue.wan || queue.of_root || room || goes_on(queue);
        let ready = |queue: &Queue| !queue.waiting.is_empty() && queue.in_driver < PER_LINK && turn(queue);
        let best = self.queues.iter().filter(|(_, queue)| ready(queue));
        let (&link, _) = best.min_by_key(|(link, queue)| (!queue.wan, queue.in_driver, queue.has(), **link))?;
        let queue = self.queues.get_mut(&link).expect("chosen among the queues");
        queue.in_driver += 1;
        queue.served += 1;
        queue.waiting.pop_front().map(|upload| (link, upload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(piece: u32) -> Upload {
        Upload { broadcast: BroadcastId::default(), piece: PieceIndex(piece), range: ByteRange::whole(1) }
    }

    fn uploads(links: &[(u32, bool, u32)]) -> Uploads {
        let mut uploads = Uploads::default();
        for &(link, wan, peer_pieces) in links {
            uploads.add_link(LinkId(link), wan);
            for piece in 0..5 {
                assert!(uploads.add(LinkId(link), upload(piece), peer_pieces, false));
            }
        }
        uploads
    }

    fn order(uploads: &mut Uploads) -> Vec<u32> {
        std::iter::from_fn(|| uploads.poll().map(|(link, _)| link.0)).collect()
    }

    #[test]
    fn other_clusters_come_first_then_the_most_deprived() {
        let mut uploads = uploads(&[(1, false, 50), (2, false, 10), (3, true, 99)]);
        assert_eq!(order(&mut uploads), [3, 3, 2, 1, 2, 1]);
    }

    #[test]
    fn where_pieces_come_from_other_clusters_few_local_links_are_served_at_a_time() {
        let mut uploads =
            uploads(&[(1, false, 1), (2, false, 2), (3, false, 3), (4, false, 4), (5, false, 5), (6, true, 9)]);
        assert_eq!(order(&mut uploads), [6, 6, 1, 2, 3, 4, 1, 2, 3, 4]);
        uploads.handle_sent(LinkId(2));
        uploads.handle_sent(LinkId(2));
        assert_eq!(order(&mut uploads), [2, 2], "the most deprived of those whose turn it may be");
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
                    assert!(uploads.add(LinkId(link), upload(0), 0, false));
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
    fn the_root_serves_all_local_peers_at_a_time() {
        let mut uploads = uploads(&[(6, true, 9)]);
        for link in 1..=5 {
            uploads.add_link(LinkId(link), false);
            assert!(uploads.add(LinkId(link), upload(0), 0, true));
        }
        assert_eq!(order(&mut uploads), [6, 6, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_link_passes_its_turn_on_when_another_peer_has_less() {
        let mut uploads =
            uploads(&[(1, false, 1), (2, false, 1), (3, false, 1), (4, false, 1), (5, false, 1), (6, true, 9)]);
        assert_eq!(order(&mut uploads), [6, 6, 1, 2, 3, 4, 1, 2, 3, 4]);
        assert!(uploads.add(LinkId(1), upload(9), 4, false), "it has got three more meanwhile");
        uploads.handle_sent(LinkId(1));
        assert_eq!(order(&mut uploads), [], "its last part goes out first");
        uploads.handle_sent(LinkId(1));
        assert_eq!(order(&mut uploads), [5, 5]);
    }

    #[test]
    fn a_link_gets_more_when_the_driver_has_sent_some() {
        let mut uploads = uploads(&[(1, false, 1)]);
        assert_eq!(order(&mut uploads), [1, 1]);
        uploads.handle_sent(LinkId(1));
        assert_eq!(order(&mut uploads), [1]);
    }

    #[test]
    fn what_the_driver_has_does_not_wait() {
        let mut uploads = uploads(&[(1, false, 1)]);
        assert_eq!(uploads.waiting_bytes(LinkId(1)), 5);
        assert_eq!(order(&mut uploads), [1, 1]);
        assert_eq!((uploads.waiting_bytes(LinkId(1)), uploads.waiting_bytes(LinkId(2))), (3, 0));
    }

    #[test]
    fn a_cancelled_request_is_not_served() {
        let mut uploads = uploads(&[(1, false, 1)]);
        uploads.cancel(LinkId(1), BroadcastId::default(), PieceIndex(0));
        assert_eq!(uploads.poll().unwrap().1.piece, PieceIndex(1));
    }
}
