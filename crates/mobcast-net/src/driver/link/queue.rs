//! What waits to be written on a link. The node's task puts it in and never waits; the link's writer takes it out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mobcast_proto::limits::{self, BROADCASTS_MAX, FRAMES_WAITING_BYTES_MAX, LINKS_MAX, PASSED_ON_BYTES_MAX};
use mobcast_proto::{BroadcastId, ByteRange, PieceIndex};
use tokio::sync::Notify;

use crate::driver::stats::TransferStats;
use crate::driver::store::Store;

/// Control frames that may wait for a peer that takes none of them, bytes. A peer that lets more pile up does not read.
const FRAME_BYTES_MAX: usize = 1 << 20;
const _: () = assert!(2 * PASSED_ON_BYTES_MAX <= FRAME_BYTES_MAX);
/// It takes none if the writer has taken none for this long: a link of 45 kB/s is sent in less what is taken at once.
const TAKES_NONE_TIME: Duration = Duration::from_secs(3);
/// Control frames that may wait for any peer, bytes: one that has just come is told at one moment of all objects that travel in one frame.
const BURST_BYTES_MAX: usize = BROADCASTS_MAX * limits::FRAME_BYTES_MAX + FRAME_BYTES_MAX;
const _: () = assert!(BURST_BYTES_MAX <= FRAMES_WAITING_BYTES_MAX);
/// A peer for which no more than this waits is not given up, however much waits for the others.
const FRAME_BYTES_MIN: usize = 128 << 10;
const _: () = assert!(FRAME_BYTES_MIN * LINKS_MAX <= FRAMES_WAITING_BYTES_MAX);
/// Bytes of frames taken at once: what the channel packs into one write.
const FRAMES_AT_ONCE_BYTES: usize = 64 << 10;

/// A part of a piece that a peer asked for.
#[derive(Debug)]
pub struct Part {
    /// The broadcast.
    pub broadcast: BroadcastId,
    /// The piece.
    pub piece: PieceIndex,
    /// The bytes of it.
    pub range: ByteRange,
    /// Where the piece begins in the object, bytes.
    pub piece_offset: u64,
    /// Where its bytes are read.
    pub store: Store,
    /// The broadcast's counters.
    pub stats: Arc<TransferStats>,
    cancelled: AtomicBool,
    /// Bytes that are sent.
    sent: AtomicU32,
}

impl Part {
    /// A part that is wanted.
    pub fn new(
        (broadcast, piece, range): (BroadcastId, PieceIndex, ByteRange),
        piece_offset: u64,
        store: Store,
        stats: Arc<TransferStats>,
    ) -> Part {
        let (cancelled, sent) = Default::default();
        Part { broadcast, piece, range, piece_offset, store, stats, cancelled, sent }
    }

    /// Whether it is not wanted any more.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Another chunk of it is sent.
    pub fn note_sent(&self, bytes: u32) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
        self.stats.add_out(u64::from(bytes));
    }

    fn unsent_bytes(&self) -> u64 {
        u64::from(self.range.len().saturating_sub(self.sent.load(Ordering::Relaxed)))
    }
}

/// Bytes of control frames that wait on all links of a node: of a frame that waits on several, once.
#[derive(Clone, Debug, Default)]
pub struct FramesWaiting(Arc<AtomicUsize>);

impl FramesWaiting {
    /// A frame that counts for as long as it waits on any link.
    pub fn frame(&self, encoded: Vec<u8>) -> Arc<WaitingFrame> {
        self.0.fetch_add(encoded.len(), Ordering::Relaxed);
        Arc::new(WaitingFrame { bytes: encoded.into(), node: self.clone() })
    }

    fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A control frame that is to be sent on one link or several.
#[derive(Debug)]
pub struct WaitingFrame {
    bytes: Bytes,
    node: FramesWaiting,
}

impl Drop for WaitingFrame {
    fn drop(&mut self) {
        self.node.0.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// The queue of one link.
#[derive(Debug)]
pub struct LinkQueue {
    state: Mutex<State>,
    changed: Notify,
    node: FramesWaiting,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<Arc<WaitingFrame>>,
    frame_bytes: usize,
    /// Since when the writer has taken none of them.
    untaken_since: Option<Instant>,
    /// Parts that the writer has not begun.
    parts: VecDeque<Arc<Part>>,
    /// Parts that the writer has begun and not reported as sent.
    begun: Vec<Arc<Part>>,
    closing: bool,
}

// ---- The node's side ----

impl LinkQueue {
    /// An empty queue, whose frames count among those of its node.
    pub fn new(node: FramesWaiting) -> LinkQueue {
        LinkQueue { state: Mutex::default(), changed: Notify::new(), node }
    }

    /// Frames that wait on all links of the node.
    pub fn node(&self) -> &FramesWaiting {
        &self.node
    }

    /// Sends a frame, before all payload. Returns the bytes of frames that wait if they are too many: for a peer that takes none, for
    /// any peer, or for the node's memory and not few.
    pub fn push_frame(&self, now: Instant, frame: Arc<WaitingFrame>) -> Result<(), usize> {
        let mut state = self.lock();
        state.frame_bytes += frame.bytes.len();
        state.frames.push_back(frame);
        let waiting = state.frame_bytes;
        let takes_none = now.duration_since(*state.untaken_since.get_or_insert(now)) >= TAKES_NONE_TIME;
        drop(state);
        self.changed.notify_one();
        let most = if takes_none { FRAME_BYTES_MAX } else { BURST_BYTES_MAX };
        let is_crowded = self.node.bytes() > FRAMES_WAITING_BYTES_MAX && waiting > FRAME_BYTES_MIN;
        if waiting > most || is_crowded { Err(waiting) } else { Ok(()) }
    }

    /// Sends a part of a piece, when its turn comes.
    pub fn push_part(&self, part: Part) {
        self.lock().parts.push_back(Arc::new(part));
        self.changed.notify_one();
    }

    /// Takes back what is not sent of a piece. Returns how many parts the writer will never see.
    pub fn cancel(&self, broadcast: BroadcastId, piece: PieceIndex) -> usize {
        let mut state = self.lock();
        let matches = |part: &Arc<Part>| (part.broadcast, part.piece) == (broadcast, piece);
        state.begun.iter().filter(|part| matches(part)).for_each(|part| part.cancelled.store(true, Ordering::Relaxed));
        let before = state.parts.len();
        state.parts.retain(|part| !matches(part));
        before - state.parts.len()
    }

    /// Closes the link after the frames that wait.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closing = true;
        state.parts.clear();
        state.begun.iter().for_each(|part| part.cancelled.store(true, Ordering::Relaxed));
        drop(state);
        self.changed.notify_one();
    }

    /// Bytes of frames and payload that wait to be written.
    pub fn waiting_bytes(&self) -> u64 {
        let state = self.lock();
        let parts = state.parts.iter().chain(&state.begun).map(|part| part.unsent_bytes());
        state.frame_bytes as u64 + parts.sum::<u64>()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// ---- The writer's side ----

impl LinkQueue {
    /// Frames to be sent at once; and whether nothing will follow them.
    pub fn take_frames(&self, now: Instant) -> (Vec<Bytes>, bool) {
        let mut state = self.lock();
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while bytes < FRAMES_AT_ONCE_BYTES
            && let Some(frame) = state.frames.pop_front()
        {
            bytes += frame.bytes.len();
            taken.push(frame.bytes.clone());
        }
        state.frame_bytes -= bytes;
        state.untaken_since = (!state.frames.is_empty()).then_some(now);
        (taken, state.closing && state.frames.is_empty())
    }

    /// The next part to be read and sent.
    pub fn begin_part(&self) -> Option<Arc<Part>> {
        let mut state = self.lock();
        let part = state.parts.pop_front()?;
        state.begun.push(Arc::clone(&part));
        Some(part)
    }

    /// A part that was begun is sent, or given up.
    pub fn end_part(&self, part: &Arc<Part>) {
        self.lock().begun.retain(|begun| !Arc::ptr_eq(begun, part));
    }

    /// Waits until something was put in since the last look.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(piece: u32) -> Part {
        let which = (BroadcastId::default(), PieceIndex(piece), ByteRange::whole(1));
        Part::new(which, 0, Store::none(), Arc::default())
    }

    #[test]
    fn what_is_begun_is_flagged_and_what_waits_is_removed() {
        let queue = LinkQueue::new(FramesWaiting::default());
        [1, 1, 2].into_iter().for_each(|piece| queue.push_part(part(piece)));
        let begun = queue.begin_part().expect("three wait");
        assert_eq!(queue.cancel(BroadcastId::default(), PieceIndex(1)), 1);
        assert!(begun.is_cancelled());
        assert_eq!(queue.waiting_bytes(), 2, "the one that is begun and the one behind it");
        begun.note_sent(1);
        assert_eq!(queue.waiting_bytes(), 1);
        queue.end_part(&begun);
        assert_eq!(queue.begin_part().expect("one waits").piece, PieceIndex(2));
        assert!(queue.begin_part().is_none());
    }

    /// So many frames of 64 KiB at one moment; how much waits once that is too much.
    fn fill(queue: &LinkQueue, now: Instant, frames: usize) -> Option<usize> {
        let frame = || queue.node().frame(vec![0; 64 << 10]);
        (0..frames).map(|_| queue.push_frame(now, frame())).find_map(Result::err)
    }

    #[test]
    fn frames_leave_in_order_and_a_peer_that_does_not_read_is_noticed() {
        let (queue, start) = (LinkQueue::new(FramesWaiting::default()), Instant::now());
        [1, 2].into_iter().for_each(|byte| queue.push_frame(start, queue.node().frame(vec![byte])).expect("room"));
        queue.close();
        assert_eq!(queue.take_frames(start), (vec![vec![1].into(), vec![2].into()], true));
        assert_eq!(fill(&queue, start, 1), None);
        let full = fill(&queue, start + TAKES_NONE_TIME, 100);
        assert!(
            full.is_some_and(|bytes| (FRAME_BYTES_MAX + 1..=FRAME_BYTES_MAX + (64 << 10)).contains(&bytes)),
            "{full:?}"
        );
    }

    #[test]
    fn a_burst_does_not_end_the_link_of_a_peer_that_reads() {
        let (queue, start) = (LinkQueue::new(FramesWaiting::default()), Instant::now());
        assert_eq!(fill(&queue, start, 1), None);
        queue.take_frames(start);
        // Nothing was to be taken meanwhile.
        let mut now = start + 10 * TAKES_NONE_TIME;
        assert_eq!(fill(&queue, now, BROADCASTS_MAX), None, "the writer has not had a chance to run");
        for _ in 0..BROADCASTS_MAX {
            now += TAKES_NONE_TIME / 2;
            queue.take_frames(now);
            assert_eq!(fill(&queue, now + TAKES_NONE_TIME / 4, 1), None, "it takes them slowly, but it does");
        }
        let full = fill(&queue, now, 100);
        assert!(full.is_some_and(|bytes| bytes > BURST_BYTES_MAX), "{full:?}");
    }

    #[test]
    fn a_frame_for_several_links_takes_the_memory_of_one() {
        let (node, now) = (FramesWaiting::default(), Instant::now());
        let queues: Vec<LinkQueue> = (0..LINKS_MAX).map(|_| LinkQueue::new(node.clone())).collect();
        for _ in 0..16 {
            let frame = node.frame(vec![0; 64 << 10]);
            queues.iter().for_each(|queue| queue.push_frame(now, Arc::clone(&frame)).expect("they are one MiB"));
        }
        assert_eq!(node.bytes(), 1 << 20);
        queues[1..].iter().for_each(|queue| while !queue.take_frames(now).0.is_empty() {});
        assert_eq!(node.bytes(), 1 << 20, "one link has them");
        queues[0].take_frames(now);
        assert_eq!(node.bytes(), 15 * (64 << 10));
    }

    #[test]
    fn peers_that_do_not_read_share_the_memory_of_their_node() {
        let (node, now) = (FramesWaiting::default(), Instant::now());
        let queues: Vec<LinkQueue> = (0..LINKS_MAX).map(|_| LinkQueue::new(node.clone())).collect();
        let given_up: Vec<usize> = queues.iter().filter_map(|queue| fill(queue, now, 100)).collect();
        assert_eq!(given_up.len(), LINKS_MAX);
        assert!(given_up.iter().all(|&bytes| bytes > FRAME_BYTES_MIN));
        assert!(given_up.last().is_some_and(|&bytes| bytes <= FRAME_BYTES_MIN + (64 << 10)), "{given_up:?}");
        drop(queues);
        assert_eq!(node.bytes(), 0);
    }
}
