//! The reading task of a link: frames go to the core, payload to its place in the piece, and the core is told.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use mobcast_proto::wire::{Frame, PayloadHeader};
use mobcast_proto::{BroadcastId, ByteRange, LinkId, PieceIndex};
use tokio::sync::mpsc;
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

/// The reading half of one link.
#[derive(Debug)]
pub struct Reader {
    link: LinkId,
    receiver: Receiver,
    pieces: Arc<PieceTable>,
    inputs: mpsc::Sender<Input>,
    /// Payload in its place that the core does not know of.
    untold: Option<(BroadcastId, PieceIndex, ByteRange)>,
}

enum Item {
    Frame(Box<Frame>),
    Payload(PayloadHeader),
    Closed,
}

impl Reader {
    /// For a link whose channel is open.
    pub fn new(link: LinkId, receiver: Receiver, pieces: Arc<PieceTable>, inputs: mpsc::Sender<Input>) -> Reader {
        Reader { link, receiver, pieces, inputs, untold: None }
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
                Item::Frame(frame) => {
                    self.tell().await;
                    if self.inputs.send(Input::Frame { link: self.link, frame }).await.is_err() {
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
        if self.untold.is_some() {
            let mut next = pin!(next_item(&mut self.receiver));
            if let Poll::Ready(item) = poll_fn(|context| Poll::Ready(next.as_mut().poll(context))).await {
                return item;
            }
        }
        self.tell().await;
        next_item(&mut self.receiver).await
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
        if let Some((broadcast, piece, range)) = self.untold.take() {
            // If the node's task is gone, so will be this one.
            let _ = self.inputs.send(Input::Payload { link: self.link, broadcast, piece, range }).await;
        }
    }
}

async fn next_item(receiver: &mut Receiver) -> Result<Item, LinkEnd> {
    Ok(match receiver.next().await? {
        Incoming::Frame(bytes) => Item::Frame(Box::new(Frame::decode(bytes)?)),
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
