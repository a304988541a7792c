//! The reading task of a link: frames go to the core, payload to its place in the piece, and the core is told.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use mobcast_proto::limits::{FRAME_BYTES_MAX, FRAMES_ARRIVED_BYTES_MAX};
use mobcast_proto::wire::{Frame, PayloadHeader};
use mobcast_proto::{BroadcastId, ByteRange, LinkId, PieceIndex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tracing::trace;

use super::LinkEnd;
use crate::channel::{ChannelError, Incoming, Receiver};
use crate::driver::input::Input;
use crate::driver::pieces::PieceTable;

/// The core hears of payload when nothing more is at hand, or when this much has come: often enough to keep requests
/// going, seldom enough to cost nothing.
const TELL_BYTES: u32 = 256 << 10;
/// Payload that nobody wants is read in steps of this.
const SCRATCH_BYTES: usize = 4 << 10;
/// Bytes that a frame takes in memory at least.
const FRAME_BYTES_MIN: usize = 512;
const _: () = assert!(FRAME_BYTES_MAX <= FRAMES_ARRIVED_BYTES_MAX, "or the longest frame would wait for ever");

/// The reading half of one link.
#[derive(Debug)]
pub struct Reader {
    link: LinkId,
    receiver: Receiver,
    pieces: Arc<PieceTable>,
    /// For frames, in bytes, of all links of the node.
    places: Arc<Semaphore>,
    inputs: mpsc::Sender<Input>,
    /// Payload in its place that the core does not know of.
    untold: Option<(BroadcastId, PieceIndex, ByteRange)>,
}

enum Item {
    Frame(Box<Frame>, OwnedSemaphorePermit),
    Payload(PayloadHeader),
    Closed,
}

impl Reader {
    /// For a link whose channel is open.
    pub fn new(
        link: LinkId,
        receiver: Receiver,
        pieces: Arc<PieceTable>,
        places: Arc<Semaphore>,
        inputs: mpsc::Sender<Input>,
    ) -> Reader {
        Reader { link, receiver, pieces, places, inputs, untold: None }
    }

    /// Reads until the link ends.
    pub async fn run(mut self) -> LinkEnd {
        loop {
            let item = match self.next_item().await {
                Ok(item) => item,
                Err(end) => {
                    self.tell().await;
                    return end;
                }
            };
            match item {
                Item::Frame(frame, place) => {
                    self.tell().await;
                    if self.inputs.send(Input::Frame { link: self.link, frame, place }).await.is_err() {
                        return LinkEnd::Closed;
                    }
                }
                Item::Payload(header) => {
                    // Of a piece that is there the core knows before there is place for another one.
                    if self.untold.is_some_and(|(b, p, _)| (b, p) != (header.broadcast, header.piece)) {
                        self.tell().await;
                    }
                    if let Err(error) = self.take_chunk(&header).await {
                        self.tell().await;
                        return error.into();
                    }
                    self.note(&header).await;
                }
                Item::Closed => {
                    self.tell().await;
                    return LinkEnd::Closed;
                }
            }
        }
    }

    /// The next item. If it is not at hand, the core first hears of the payload so far.
    async fn next_item(&mut self) -> Result<Item, LinkEnd> {
        let Reader { link, receiver, places, inputs, untold, .. } = self;
        let mut next = pin!(next_item(receiver, places));
        if untold.is_some() {
            if let Poll::Ready(item) = poll_fn(|context| Poll::Ready(next.as_mut().poll(context))).await {
                return item;
            }
            tell(*link, inputs, untold).await;
        }
        next.await
    }

    /// Reads a chunk into its place; what others have brought already is passed over.
    async fn take_chunk(&mut self, header: &PayloadHeader) -> Result<(), ChannelError> {
        let mut filling = self.pieces.claim(self.link, header.broadcast, header.piece, header.range);
        let mut at = header.range.start;
        for claim in filling.claims_mut() {
            skip(&mut self.receiver, claim.range().start - at).await?;
            at = claim.range().end;
            self.receiver.read_payload(claim.bytes_mut()).await?;
        }
        filling.done();
        self.receiver.skip_payload().await
    }

    /// Notes a chunk to be told to the core, together with the ones before it where they touch.
    async fn note(&mut self, header: &PayloadHeader) {
        let PayloadHeader { broadcast, piece, range, .. } = *header;
        trace!(link = %self.link, %broadcast, %piece, start = range.start, bytes = range.len(), "received");
        match &mut self.untold {
            Some((b, p, so_far)) if (*b, *p, so_far.end) == (broadcast, piece, range.start) => so_far.end = range.end,
            _ => {
                self.tell().await;
                self.untold = Some((broadcast, piece, range));
            }
        }
        if self.untold.is_some_and(|(_, _, so_far)| so_far.len() >= TELL_BYTES) {
            self.tell().await;
        }
    }

    async fn tell(&mut self) {
        tell(self.link, &self.inputs, &mut self.untold).await;
    }
}

async fn tell(link: LinkId, inputs: &mpsc::Sender<Input>, untold: &mut Option<(BroadcastId, PieceIndex, ByteRange)>) {
    if let Some((broadcast, piece, range)) = untold.take() {
        // If the node's task is gone, so will be this one.
        let _ = inputs.send(Input::Payload { link, broadcast, piece, range }).await;
    }
}

/// A frame is taken apart when there is a place for it.
async fn next_item(receiver: &mut Receiver, places: &Arc<Semaphore>) -> Result<Item, LinkEnd> {
    Ok(match receiver.next().await? {
        Incoming::Frame(bytes) => {
            let place = Arc::clone(places).acquire_many_owned(bytes.len().max(FRAME_BYTES_MIN) as u32).await;
            Item::Frame(Box::new(Frame::decode(bytes)?), place.expect("nobody closes it"))
        }
        Incoming::Payload(header) => Item::Payload(header),
        Incoming::Closed => Item::Closed,
    })
}

async fn skip(receiver: &mut Receiver, bytes: u32) -> Result<(), ChannelError> {
    let mut scratch = [0; SCRATCH_BYTES];
    let mut left = bytes as usize;
    while left > 0 {
        let step = left.min(SCRATCH_BYTES);
        receiver.read_payload(&mut scratch[..step]).await?;
        left -= step;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::channel::tests::one_way;

    #[tokio::test]
    async fn what_the_node_does_not_take_up_is_read_no_further() {
        let long = Frame::Routed { path: Vec::new(), frame: vec![0; 60 << 10] };
        for frame in [long, Frame::Bye] {
            let (mut sender, receiver) = one_way().await;
            let bytes = frame.encode();
            let fit = FRAMES_ARRIVED_BYTES_MAX / bytes.len().max(FRAME_BYTES_MIN);
            let frames = vec![bytes; 3 * fit];
            let sending = tokio::spawn(async move { sender.send_frames(&frames).await.map(|()| sender) });
            let places = Arc::new(Semaphore::new(FRAMES_ARRIVED_BYTES_MAX));
            let (inputs, mut queue) = mpsc::channel(4 * fit);
            let reader = tokio::spawn(Reader::new(LinkId(1), receiver, Arc::default(), places, inputs).run());
            for _ in 0..3 {
                let mut waiting = Vec::new();
                for _ in 0..fit {
                    let input = timeout(Duration::from_secs(60), queue.recv()).await.expect("it comes");
                    waiting.push(input.expect("the reader runs"));
                }
                assert!(timeout(Duration::from_millis(200), queue.recv()).await.is_err(), "no more than fit");
            }
            sending.await.expect("no panic").expect("sent");
            reader.abort();
        }
    }
}
