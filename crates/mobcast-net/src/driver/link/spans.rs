//! Payload on its way from the store to a link: read by threads that may block, a span ahead of what is being sent.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mobcast_proto::ByteRange;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::pipe::Pipe;
use super::queue::{LinkQueue, Part};
use crate::driver::workers::Workers;
use crate::store::StoreError;

/// Bytes read at once. Each link that sends has one span; 64 links have 16 MiB.
pub const SPAN_BYTES: u32 = 256 << 10;
/// Spans read ahead, over all links.
const SPANS_AHEAD: usize = 16;
/// Spans of one link at a time: one being sent, the others being read.
const SPANS_PER_LINK: usize = 3;
/// Buffers, and as many pipes, kept for the next span.
const KEPT: usize = 32;
/// Spans that threads read ahead once one was not in memory, before the next one is looked for there.
const SPANS_AFTER_MISS: u32 = 16;
/// Spans are passed on as pages of a file only where they begin one.
const PAGE_BYTES: u64 = 4096;

/// Reads spans for all links of a node.
#[derive(Debug)]
pub struct SpanReader {
    workers: Arc<Workers>,
    ahead: Arc<Semaphore>,
    kept: Arc<Kept>,
}

/// What carried spans and is empty.
#[derive(Debug, Default)]
struct Kept {
    buffers: Mutex<Vec<Vec<u8>>>,
    pipes: Mutex<Vec<Pipe>>,
}

impl SpanReader {
    /// Reads on these threads.
    pub fn new(workers: Arc<Workers>) -> SpanReader {
        SpanReader { workers, ahead: Arc::new(Semaphore::new(SPANS_AHEAD)), kept: Arc::default() }
    }

    fn read(&self, part: &Arc<Part>, range: ByteRange, plain: bool) -> oneshot::Receiver<Result<SpanData, StoreError>> {
        let (sender, receiver) = oneshot::channel();
        let (part, kept) = (Arc::clone(part), Arc::clone(&self.kept));
        self.workers.run(move || {
            // Nobody waits for it any more: the link is gone.
            if sender.is_closed() {
                return;
            }
            let piped = if plain { kept.pipe(&part, range) } else { None };
            let data = match piped {
                Some(piped) => Ok(SpanData::Piped(piped)),
                None => kept.copy(&part, range).map(SpanData::Copied),
            };
            let _ = sender.send(data);
        });
        receiver
    }
}

impl Kept {
    fn copy(self: Arc<Kept>, part: &Part, range: ByteRange) -> Result<Copied, StoreError> {
        let bytes = lock(&self.buffers).pop().unwrap_or_else(|| vec![0; SPAN_BYTES as usize]);
        let mut copied = Copied { bytes, len: range.len() as usize, kept: self };
        part.store.read_at(part.piece_offset + u64::from(range.start), &mut copied.bytes[..copied.len])?;
        Ok(copied)
    }

    /// The pages of a span, where it is of a file. None if the system does not give them like this; if that is because
    /// they cannot be read, or the file is another one by now, reading them says why. Until they are sent they are still the file's: who
    /// writes to it meanwhile changes them.
    fn pipe(self: &Arc<Kept>, part: &Part, range: ByteRange) -> Option<Piped> {
        let offset = part.piece_offset + u64::from(range.start);
        let file = part.store.at_hand()?.file().filter(|_| offset.is_multiple_of(PAGE_BYTES))?;
        let kept = lock(&self.pipes).pop();
        let pipe = kept.or_else(|| Pipe::new(SPAN_BYTES as usize).ok());
        let mut piped = Piped { pipe, kept: Arc::clone(self) };
        piped.pipe.as_mut()?.fill(file, offset, range.len() as usize).ok()?;
        part.store.seems_unchanged().then_some(piped)
    }
}

fn lock<T>(kept: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes of a span.
#[derive(Debug)]
pub enum SpanData {
    /// In memory.
    Copied(Copied),
    /// As pages of the file that they are in, for a link whose payload travels in the clear.
    Piped(Piped),
    /// Probably in memory, or quickly made: the link itself reads them, straight into the records that it seals.
    AtHand,
}

/// The bytes of a span, in a buffer that goes back when they are sent.
#[derive(Debug)]
pub struct Copied {
    bytes: Vec<u8>,
    len: usize,
    kept: Arc<Kept>,
}

impl Copied {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        let mut buffers = lock(&self.kept.buffers);
        if buffers.len() < KEPT {
            buffers.push(std::mem::take(&mut self.bytes));
        }
    }
}

/// The pages of a span, in a pipe that goes back when they are sent.
#[derive(Debug)]
pub struct Piped {
    pipe: Option<Pipe>,
    kept: Arc<Kept>,
}

impl Piped {
    /// The pipe.
    pub fn pipe_mut(&mut self) -> &mut Pipe {
        self.pipe.as_mut().expect("it is taken when this is dropped")
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        let mut pipes = lock(&self.kept.pipes);
        // One that was not read to its end holds what nobody wants.
        if pipes.len() < KEPT
            && let Some(pipe) = self.pipe.take().filter(|pipe| pipe.held() == 0)
        {
            pipes.push(pipe);
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
    /// Whether payload leaves in the clear.
    plain: bool,
    /// Whether the link may read spans that are in memory.
    reads: bool,
    /// Spans that threads read before the next one is looked for in memory.
    after_miss: u32,
    spans: VecDeque<Span>,
    /// The part that is being cut into spans, and where its next one begins.
    cutting: Option<(Arc<Part>, u32)>,
}

impl SpanQueue {
    /// The spans of a link that has sent nothing.
    pub fn new(reader: Arc<SpanReader>, plain: bool, reads: bool) -> SpanQueue {
        SpanQueue { reader, plain, reads, after_miss: 0, spans: VecDeque::new(), cutting: None }
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
            let data = self.begin(&part, range);
            if !last {
                self.cutting = Some((Arc::clone(&part), range.end));
            }
            self.spans.push_back(Span { part, range, last, data, _ahead: ahead });
        }
    }

    fn begin(&mut self, part: &Arc<Part>, range: ByteRange) -> oneshot::Receiver<Result<SpanData, StoreError>> {
        let Some(data) = self.at_once(part, range) else {
            return self.reader.read(part, range, self.plain);
        };
        let (sender, receiver) = oneshot::channel();
        // The receiver is at hand.
        let _ = sender.send(Ok(data));
        receiver
    }

    /// What needs no thread, because no disk has to be waited for.
    fn at_once(&mut self, part: &Part, range: ByteRange) -> Option<SpanData> {
        let at_hand = part.store.at_hand()?;
        if self.plain {
            // Whether pages of other file systems are in memory cannot be asked.
            return if at_hand.is_file_in_memory() {
                self.reader.kept.pipe(part, range).map(SpanData::Piped)
            } else {
                None
            };
        }
        let read_by_thread = !self.reads || self.after_miss > 0;
        self.after_miss = self.after_miss.saturating_sub(1);
        if read_by_thread { None } else { Some(SpanData::AtHand) }
    }

    /// What was looked for in memory is not there: a thread reads it, and the next ones ahead.
    pub fn missed(&mut self, part: Arc<Part>, range: ByteRange, last: bool) {
        self.after_miss = SPANS_AFTER_MISS;
        let data = self.reader.read(&part, range, self.plain);
        self.spans.push_front(Span { part, range, last, data, _ahead: None });
    }

    /// The span to be sent next.
    pub fn front_mut(&mut self) -> Option<&mut Span> {
        self.spans.front_mut()
    }

    /// Takes the span at the front.
    pub fn pop(&mut self) -> Option<Span> {
        self.spans.pop_front()
    }

    /// A part cannot be sent to its end: no more of it is read.
    pub fn abandon(&mut self, part: &Arc<Part>) {
        if self.cutting.as_ref().is_some_and(|(cutting, _)| Arc::ptr_eq(cutting, part)) {
            self.cutting = None;
        }
        self.spans.retain(|span| !Arc::ptr_eq(&span.part, part));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use mobcast_proto::{BroadcastId, PieceIndex};

    use super::*;
    use crate::driver::store::Store;
    use crate::store::ObjectSource;

    /// The spans of a link that was asked for two spans of a file with this contents.
    fn spans_of(data: &[u8], plain: bool, reads: bool) -> (SpanQueue, LinkQueue) {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(data).expect("room");
        let store = Store::Source(Arc::new(ObjectSource::open(file.path()).expect("it is there")));
        let workers = Workers::start("test", 1).expect("a thread");
        let mut spans = SpanQueue::new(Arc::new(SpanReader::new(Arc::new(workers))), plain, reads);
        let (queue, range) = (LinkQueue::new(Default::default()), ByteRange::whole(2 * SPAN_BYTES));
        queue.push_part(Part::new((BroadcastId::default(), PieceIndex(0), range), 0, store, Arc::default()));
        spans.refill(&queue, false);
        (spans, queue)
    }

    async fn data_of(span: Span) -> SpanData {
        span.data.await.expect("a thread answers").expect("it can be read")
    }

    #[tokio::test]
    async fn what_is_not_in_memory_is_read_by_threads() {
        let data: Vec<u8> = (0..2 * SPAN_BYTES).map(|i| (i / 77) as u8).collect();
        let (mut spans, _queue) = spans_of(&data, false, true);
        let first = spans.pop().expect("two spans wait");
        let (part, last) = (Arc::clone(&first.part), first.last);
        assert!(matches!(data_of(first).await, SpanData::AtHand));
        spans.missed(Arc::clone(&part), ByteRange { start: 100, end: SPAN_BYTES }, last);
        let SpanData::Copied(copied) = data_of(spans.pop().expect("it comes again")).await else { panic!("copied") };
        assert!(copied.bytes() == &data[100..SPAN_BYTES as usize]);
        for _ in 0..SPANS_AFTER_MISS {
            assert!(spans.at_once(&part, ByteRange::whole(1)).is_none(), "threads read ahead for a while");
        }
        assert!(spans.at_once(&part, ByteRange::whole(1)).is_some(), "and then it is looked for again");
    }

    #[tokio::test]
    async fn plain_payload_of_a_file_is_piped_and_the_pipe_comes_back() {
        let data = vec![5; 2 * SPAN_BYTES as usize];
        let (mut spans, _queue) = spans_of(&data, true, false);
        let reader = Arc::clone(&spans.reader);
        let SpanData::Piped(mut piped) = data_of(spans.pop().expect("two spans wait")).await else { panic!("piped") };
        assert_eq!(piped.pipe_mut().held(), SPAN_BYTES as usize);
        drop(piped);
        assert_eq!(lock(&reader.kept.pipes).len(), 0, "it still holds what nobody wants");
        let SpanData::Piped(mut piped) = data_of(spans.pop().expect("one waits")).await else { panic!("piped") };
        piped.pipe_mut().took(SPAN_BYTES as usize);
        drop(piped);
        assert_eq!(lock(&reader.kept.pipes).len(), 1);
    }
}
