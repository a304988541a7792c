//! The writing task of a link. Control frames overtake payload: they are sent before each chunk, so that none waits
//! for more than a chunk, and a piece that is not wanted any more stops at the next one.

use std::io::IoSliceMut;
use std::sync::Arc;
use std::time::Instant;

use mobcast_proto::wire::{Frame, PayloadHeader};
use mobcast_proto::{ByteRange, LinkId};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep_until;
use tracing::{trace, warn};

use super::LinkEnd;
use super::queue::{LinkQueue, Part};
use super::spans::{SpanData, SpanQueue, SpanReader};
use crate::channel::Sender;
use crate::driver::input::Input;
use crate::driver::rate::{Limit, Pacer, Permit};
use crate::store::StoreError;

/// What a writer shares with the rest of the node.
#[derive(Clone, Debug)]
pub struct Shared {
    /// To the node's task.
    pub inputs: mpsc::Sender<Input>,
    /// Reads payload.
    pub spans: Arc<SpanReader>,
    /// The node's limit, if it has one.
    pub limit: Option<Arc<Limit>>,
}

/// The writing half of one link.
#[derive(Debug)]
pub struct Writer {
    link: LinkId,
    sender: Sender,
    queue: Arc<LinkQueue>,
    shared: Shared,
    plain: bool,
    spans: SpanQueue,
    sending: Option<Sending>,
    pacer: Pacer,
    /// Bytes that the kernel takes beyond what it can send, once that follows the link's rate.
    unsent_max: u32,
}

/// A span that is being sent.
#[derive(Debug)]
struct Sending {
    part: Arc<Part>,
    range: ByteRange,
    last: bool,
    data: SpanData,
    /// Bytes of it that are sent.
    sent: u32,
    /// The next chunk, once it was taken out of the node's limit.
    permit: Option<Permit>,
}

/// What ends a wait.
enum Wake {
    Changed,
    Read(Result<Result<SpanData, StoreError>, oneshot::error::RecvError>),
}

impl Writer {
    /// For a link whose channel is open. `plain` if payload goes in the clear.
    pub fn new(link: LinkId, sender: Sender, queue: Arc<LinkQueue>, shared: Shared, plain: bool) -> Writer {
        // Under a limit, what is taken out of it must be sent.
        let reads = !plain && shared.limit.is_none();
        let spans = SpanQueue::new(Arc::clone(&shared.spans), plain, reads);
        Writer { link, sender, queue, shared, plain, spans, sending: None, pacer: Pacer::default(), unsent_max: 0 }
    }

    /// Writes until the link is closed from this side, or fails.
    pub async fn run(mut self) -> Result<(), LinkEnd> {
        loop {
            let (frames, closing) = self.queue.take_frames(Instant::now());
            if !frames.is_empty() {
                if let Some(limit) = &self.shared.limit {
                    limit.count(Instant::now(), frames.iter().map(|frame| frame.len() as u64).sum());
                }
                self.sender.send_frames(&frames).await?;
                continue;
            }
            if closing {
                return Ok(self.sender.close().await?);
            }
            self.spans.refill(&self.queue, self.sending.is_some());
            match self.sending.take() {
                Some(sending) if sending.part.is_cancelled() => self.give_up(&sending.part).await,
                Some(sending) => self.send_chunk(sending).await?,
                None => self.next_span().await,
            }
        }
    }

    /// Waits for the next span to be read, or for anything else to do.
    async fn next_span(&mut self) {
        let wake = match self.spans.front_mut() {
            None => {
                self.queue.changed().await;
                Wake::Changed
            }
            Some(span) => tokio::select! {
                biased;
                read = &mut span.data => Wake::Read(read),
                () = self.queue.changed() => Wake::Changed,
            },
        };
        let Wake::Read(read) = wake else { return };
        let Some(span) = self.spans.pop() else { return };
        match read {
            Ok(Ok(data)) => {
                let (part, range, last) = (span.part, span.range, span.last);
                self.sending = Some(Sending { part, range, last, data, sent: 0, permit: None });
            }
            Ok(Err(error)) => {
                self.cannot_read(&span.part, error).await;
            }
            // The reading threads have ended: so will the node.
            Err(_) => self.give_up(&span.part).await,
        }
    }

    /// Has the kernel hold as much as suits the rate of the link, when that has changed by half or more.
    fn bound_unsent(&mut self) {
        let bytes = self.pacer.unsent_bytes();
        if bytes >= self.unsent_max.saturating_mul(2) || bytes <= self.unsent_max / 2 {
            self.sender.set_unsent_max(bytes);
            self.unsent_max = bytes;
        }
    }

    async fn send_chunk(&mut self, mut sending: Sending) -> Result<(), LinkEnd> {
        let rest = sending.range.len() - sending.sent;
        let now = Instant::now();
        let permit = sending.permit.take().unwrap_or_else(|| {
            let bytes = rest.min(self.pacer.chunk_bytes());
            let limited = self.shared.limit.as_ref().map(|limit| limit.permit(now, bytes));
            limited.unwrap_or_else(|| Permit::unlimited(now, bytes))
        });
        let (at, bytes) = (permit.at, permit.bytes);
        if at > now {
            sending.permit = Some(permit);
            self.sending = Some(sending);
            tokio::select! {
                () = sleep_until(at.into()) => {}
                () = self.queue.changed() => {}
            }
            return Ok(());
        }
        let start = sending.range.start + sending.sent;
        let (broadcast, piece) = (sending.part.broadcast, sending.part.piece);
        let range = ByteRange { start, end: start + bytes };
        let header = PayloadHeader { broadcast, piece, range, plain: self.plain };
        if !self.send_range(&header, &mut sending).await? {
            let rest = ByteRange { start, end: sending.range.end };
            self.spans.missed(sending.part, rest, sending.last);
            return Ok(());
        }
        permit.sent();
        trace!(link = %self.link, %broadcast, %piece, start, bytes, "sent");
        self.pacer.sent(bytes, now.elapsed());
        self.bound_unsent();
        sending.part.note_sent(bytes);
        sending.sent += bytes;
        if sending.sent < sending.range.len() {
            self.sending = Some(sending);
        } else if sending.last {
            self.ended(&sending.part).await;
        }
        Ok(())
    }

    /// Sends the bytes of a chunk; false if they have to be read by a thread first.
    async fn send_range(&mut self, header: &PayloadHeader, sending: &mut Sending) -> Result<bool, LinkEnd> {
        let bytes = header.range.len() as usize;
        match &mut sending.data {
            SpanData::Copied(data) => {
                let from = sending.sent as usize;
                self.sender.send_payload(header, &data.bytes()[from..from + bytes]).await?;
            }
            SpanData::Piped(data) => {
                let pipe = data.pipe_mut();
                self.sender.send_piped(header, pipe.reader()).await?;
                pipe.took(bytes);
            }
            SpanData::AtHand => {
                let part = &sending.part;
                let offset = part.piece_offset + u64::from(header.range.start);
                let read = |into: &mut [IoSliceMut<'_>]| {
                    let is_read = part.store.at_hand().is_some_and(|bytes| bytes.read(offset, into));
                    // What has been written to since is read by a thread, which finds out what is the matter.
                    is_read && part.store.seems_unchanged()
                };
                return Ok(self.sender.send_read(header, read).await?);
            }
        }
        Ok(true)
    }

    /// A piece that was promised cannot be read: the peer has to ask somebody else.
    async fn cannot_read(&mut self, part: &Arc<Part>, error: StoreError) {
        let (broadcast, piece) = (part.broadcast, part.piece);
        warn!(%broadcast, %piece, %error, "cannot serve a piece");
        // The peer may have closed the link meanwhile; then it needs no answer.
        let frame = self.queue.node().frame(Frame::Reject { broadcast, piece }.encode());
        let _ = self.queue.push_frame(Instant::now(), frame);
        self.give_up(part).await;
        let failed = Input::ServingFailed { broadcast, error: Arc::new(error) };
        let _ = self.shared.inputs.send(failed).await;
    }

    async fn give_up(&mut self, part: &Arc<Part>) {
        self.spans.abandon(part);
        self.ended(part).await;
    }

    /// Says that a part is sent or given up: exactly once for each that was begun.
    async fn ended(&mut self, part: &Arc<Part>) {
        self.queue.end_part(part);
        // If the node's task is gone, so will be this one.
        let _ = self.shared.inputs.send(Input::Sent { link: self.link }).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::channel::Incoming;
    use crate::channel::tests::one_way;
    use crate::driver::workers::Workers;

    #[tokio::test]
    async fn frames_do_not_wait_for_a_limit_and_count() {
        let (sender, mut receiver) = one_way().await;
        let reading = tokio::spawn(async move {
            let mut frames = 0;
            while let Ok(Incoming::Frame(_)) = receiver.next().await {
                frames += 1;
            }
            frames
        });
        let queue = Arc::new(LinkQueue::new(Default::default()));
        let frame = Frame::Routed { path: Vec::new(), frame: vec![0; 60_000] }.encode();
        (0..20).for_each(|_| queue.push_frame(Instant::now(), queue.node().frame(frame.clone())).expect("room"));
        queue.close();
        let (inputs, limit) = (mpsc::channel(1).0, Arc::new(Limit::new(1_000)));
        let spans = Arc::new(SpanReader::new(Arc::new(Workers::start("test", 1).expect("a thread"))));
        let shared = Shared { inputs, spans, limit: Some(Arc::clone(&limit)) };
        Writer::new(LinkId(1), sender, queue, shared, false).run().await.expect("the peer reads");
        assert_eq!(reading.await.expect("no panic"), 20);
        let now = Instant::now();
        let free = limit.reserve(now, 0);
        assert!(free > now && free <= now + Duration::from_secs(1), "payload makes up for 1.2 MB, but not for long");
    }
}
