//! Payload on its way from the store to a link: read by threads that may block, a span ahead of what is being sent.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use mobcast_proto::ByteRange;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::queue::{LinkQueue, Part};
use crate::driver::workers::Workers;
use crate::store::StoreError;

/// Bytes read at once. Each link that sends has one span; 64 links have 16 MiB.
pub const SPAN_BYTES: u32 = 256 << 10;
/// Spans read ahead, over all links.
const SPANS_AHEAD: usize = 16;
/// Spans of one link at a time: one being sent, the others being read.
const SPANS_PER_LINK: usize = 3;
/// Buffers kept for the next span.
const BUFFERS_KEPT: usize = 32;

/// Reads spans for all links of a node.
#[derive(Debug)]
pub struct SpanReader {
    workers: Arc<Workers>,
    ahead: Arc<Semaphore>,
    buffers: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl SpanReader {
    /// Reads on these threads.
    pub fn new(workers: Arc<Workers>) -> SpanReader {
        SpanReader { workers, ahead: Arc::new(Semaphore::new(SPANS_AHEAD)), buffers: Arc::default() }
    }

    fn read(&self, part: &Arc<Part>, range: ByteRange) -> oneshot::Receiver<Result<SpanData, StoreError>> {
        let (sender, receiver) = oneshot::channel();
        let (part, buffers) = (Arc::clone(part), Arc::clone(&self.buffers));
        self.workers.run(move || {
            // Nobody waits for it any more: the link is gone.
            if sender.is_closed() {
                return;
            }
            let kept = buffers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let bytes = kept.unwrap_or_else(|| vec![0; SPAN_BYTES as usize]);
            let mut data = SpanData { bytes, len: range.len() as usize, buffers };
            let offset = part.piece_offset + u64::from(range.start);
            let result = part.store.read_at(offset, &mut data.bytes[..data.len]);
            let _ = sender.send(result.map(|()| data));
        });
        receiver
    }
}

/// The bytes of a span, in a buffer that goes back when they are sent.
#[derive(Debug)]
pub struct SpanData {
    bytes: Vec<u8>,
    len: usize,
    buffers: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl SpanData {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for SpanData {
    fn drop(&mut self) {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if buffers.len() < BUFFERS_KEPT {
            buffers.push(std::mem::take(&mut self.bytes));
        }
    }
}

/// A span that is being read, or was.
#[derive(Debug)]
pub struct Span {
    /// The part that it belongs to.
    pub part: Arc<Part>,
    /// Its bytes within the piece.
    pub range: ByteRange,
    /// Whether the part ends with it.
    pub last: bool,
    /// Its bytes, when they are there.
    pub data: oneshot::Receiver<Result<SpanData, StoreError>>,
    /// Its share of what may be read ahead.
    _ahead: Option<OwnedSemaphorePermit>,
}

/// The spans of one link, in the order in which they are sent.
#[derive(Debug)]
pub struct SpanQueue {
    reader: Arc<SpanReader>,
    spans: VecDeque<Span>,
    /// The part that is being cut into spans, and where its next one begins.
    cutting: Option<(Arc<Part>, u32)>,
}

impl SpanQueue {
    /// The spans of a link that has sent nothing.
    pub fn new(reader: Arc<SpanReader>) -> SpanQueue {
        SpanQueue { reader, spans: VecDeque::new(), cutting: None }
    }

    /// Has spans read as far ahead as is permitted. `busy` says that one is being sent.
    pub fn refill(&mut self, queue: &LinkQueue, busy: bool) {
        while self.spans.len() + usize::from(busy) < SPANS_PER_LINK {
            let ahead = if self.spans.is_empty() && !busy {
                None
            } else {
                let Ok(permit) = Arc::clone(&self.reader.ahead).try_acquire_owned() else { return };
                Some(permit)
            };
            let Some((part, start)) =
                self.cutting.take().or_else(|| queue.begin_part().map(|p| (p.clone(), p.range.start)))
            else {
                return;
            };
            let range = ByteRange { start, end: part.range.end.min(start + SPAN_BYTES) };
            let last = range.end == part.range.end || part.is_cancelled();
            let data = self.reader.read(&part, range);
            if !last {
                self.cutting = Some((Arc::clone(&part), range.end));
            }
            self.spans.push_back(Span { part, range, last, data, _ahead: ahead });
        }
    }

    /// The span to be sent next.
    pub fn front_mut(&mut self) -> Option<&mut Span> {
        self.spans.front_mut()
    }

    /// Takes the span at the front.
    pub fn pop(&mut self) -> Option<Span> {
        self.spans.pop_front()
    }

    /// A part cannot be sent to its end: no more of it is read. Returns whether its end will never come up.
    pub fn abandon(&mut self, part: &Arc<Part>) {
        if self.cutting.as_ref().is_some_and(|(cutting, _)| Arc::ptr_eq(cutting, part)) {
            self.cutting = None;
        }
        self.spans.retain(|span| !Arc::ptr_eq(&span.part, part));
    }
}
