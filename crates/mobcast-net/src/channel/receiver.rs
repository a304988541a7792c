//! The receiving half of a channel.
//!
//! One buffer holds, from front to back, contents that are opened and not yet taken, a gap, and bytes as they came
//! from the socket. Records are opened inside it, each one's contents put right behind the last one's, so that frames
//! that cross records are contiguous without being copied. Chunks are read from the socket straight to the caller. Plain
//! ones come together with the few bytes behind them that hold the next header; sealed ones are opened there, each
//! record's contents put right behind the last one's, but for the last one or two of a chunk, whose records end behind
//! the caller's memory: they are opened in the buffer and copied.
//!
//! Every call may be dropped and made again: what was received stays received. The exception is a call that was reading
//! sealed payload to its caller: then the channel is of no more use.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;

use mobcast_proto::limits::FRAME_BYTES_MAX;
use mobcast_proto::wire::payload::{PAYLOAD_HEADER_BYTES, PAYLOAD_TYPE, PayloadHeader};
use rustls::AlertDescription;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;

use super::record::{CIPHERTEXT_BYTES_MAX, HEADER_BYTES, OVERHEAD_BYTES, Opener, content, record_bytes};
use super::rekey::Rekeying;
use super::{ChannelError, Counters, LENGTH_BYTES};

/// The buffer: room for the longest frame and a record behind it, and enough beyond to take several records with one
/// system call. 64 links have 8 MiB of it.
const BUFFER_BYTES: usize = 128 << 10;
/// The longest record.
const RECORD_BYTES_MAX: usize = HEADER_BYTES + CIPHERTEXT_BYTES_MAX;
const _: () = assert!(LENGTH_BYTES + FRAME_BYTES_MAX + 2 * RECORD_BYTES_MAX <= BUFFER_BYTES);
/// While chunks come, no more than this is read ahead of them: what is read ahead has to be copied. It takes the next
/// header's record and some small frames.
const LOOK_AHEAD_BYTES: usize = 512;
const _: () = assert!(LENGTH_BYTES + PAYLOAD_HEADER_BYTES + OVERHEAD_BYTES <= LOOK_AHEAD_BYTES);

/// Sealed chunks that are shorter are opened in the buffer.
const IN_PLACE_BYTES_MIN: usize = 4 * RECORD_BYTES_MAX;

/// What came in.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming<'a> {
    /// A control frame: its bytes, type first. At least one, at most [`FRAME_BYTES_MAX`].
    Frame(&'a [u8]),
    /// The header of a chunk, which is to be read with [`Receiver::read_payload`] or else is skipped.
    Payload(PayloadHeader),
    /// The peer has closed its sending half in good order.
    Closed,
}

/// What stands at the front of the opened contents, by where it is.
enum Item {
    Frame(Range<usize>),
    Payload(PayloadHeader),
}

/// A chunk that is being read.
#[derive(Clone, Copy, Default)]
struct Chunk {
    left: usize,
    plain: bool,
}

/// The receiving half of a channel.
pub struct Receiver {
    stream: OwnedReadHalf,
    opener: Opener,
    rekeying: Arc<Rekeying>,
    counters: Arc<Counters>,
    buffer: Box<[u8]>,
    /// Contents that are opened.
    opened: Range<usize>,
    /// Bytes from the socket; never before `opened`.
    raw: Range<usize>,
    /// The chunk whose header was the last item.
    chunk: Chunk,
    /// Whether the last chunk was long enough to be read straight to the caller, so that another one is likely to follow.
    flow: bool,
    /// Whether records are being opened in the caller's memory; seen from outside only if that call was dropped.
    in_place: bool,
    plain_permitted: bool,
    closed: bool,
}

impl Receiver {
    /// `read` holds what came in behind the handshake.
    pub(super) fn new(
        stream: OwnedReadHalf,
        opener: Opener,
        rekeying: Arc<Rekeying>,
        counters: Arc<Counters>,
        read: &[u8],
    ) -> Receiver {
        let mut buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        buffer[..read.len()].copy_from_slice(read);
        Receiver {
            stream,
            opener,
            rekeying,
            counters,
            buffer,
            opened: 0..0,
            raw: 0..read.len(),
            chunk: Chunk::default(),
            flow: false,
            in_place: false,
            plain_permitted: false,
            closed: false,
        }
    }

    /// Bytes that passed the channel, in both directions.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Lets the peer send chunks in the clear. Without it such a chunk is an error.
    pub fn permit_plain(&mut self) {
        self.plain_permitted = true;
    }

    /// The next frame, or the header of the next chunk. What is left of the last chunk is skipped.
    pub async fn next(&mut self) -> Result<Incoming<'_>, ChannelError> {
        self.check_whole()?;
        self.skip_payload().await?;
        loop {
            match self.take_item()? {
                Some(Item::Frame(at)) => return Ok(Incoming::Frame(&self.buffer[at])),
                Some(Item::Payload(header)) => return Ok(Incoming::Payload(header)),
                None if self.closed => return self.closed_item(),
                None => self.advance().await?,
            }
        }
    }

    /// Bytes of the last chunk that are neither read nor skipped. After an error or a dropped call, it tells how much
    /// of the buffer given to [`Receiver::read_payload`] is filled.
    pub fn payload_left(&self) -> usize {
        self.chunk.left
    }

    /// Fills `into` with the next bytes of the chunk.
    ///
    /// # Panics
    /// If `into` is longer than [`Receiver::payload_left`].
    pub async fn read_payload(&mut self, into: &mut [u8]) -> Result<(), ChannelError> {
        assert!(into.len() <= self.chunk.left, "reading {} of {} bytes", into.len(), self.chunk.left);
        self.check_whole()?;
        let mut filled = self.read_in_place(into).await?;
        while filled < into.len() {
            let rest = &mut into[filled..];
            let bytes = match self.available() {
                0 if self.chunk.plain => self.read_plain(rest).await?,
                0 => {
                    self.advance_in_chunk().await?;
                    continue;
                }
                available => {
                    let bytes = available.min(rest.len());
                    rest[..bytes].copy_from_slice(self.take(bytes));
                    bytes
                }
            };
            filled += bytes;
            self.count_payload(bytes);
        }
        Ok(())
    }

    /// Passes over what is left of the chunk.
    pub async fn skip_payload(&mut self) -> Result<(), ChannelError> {
        while self.chunk.left > 0 {
            let bytes = self.available().min(self.chunk.left);
            if bytes > 0 {
                self.take(bytes);
                self.count_payload(bytes);
            } else if self.chunk.plain {
                self.fill(1).await?;
            } else {
                self.advance_in_chunk().await?;
            }
        }
        Ok(())
    }

    fn closed_item(&self) -> Result<Incoming<'_>, ChannelError> {
        if self.opened.is_empty() { Ok(Incoming::Closed) } else { Err(ChannelError::Truncated) }
    }

    fn count_payload(&mut self, bytes: usize) {
        self.chunk.left -= bytes;
        self.counters.add_payload_received(bytes);
    }

    /// Bytes in the buffer that can be taken as payload.
    fn available(&self) -> usize {
        if self.chunk.plain { self.raw.len() } else { self.opened.len() }
    }

    /// Takes `bytes` of the [`Receiver::available`] ones.
    fn take(&mut self, bytes: usize) -> &[u8] {
        let from = if self.chunk.plain { &mut self.raw } else { &mut self.opened };
        let start = from.start;
        from.start += bytes;
        &self.buffer[start..start + bytes]
    }

    /// Takes the item at the front of the opened contents, if it is complete.
    fn take_item(&mut self) -> Result<Option<Item>, ChannelError> {
        let contents = &self.buffer[self.opened.clone()];
        let Some((length, rest)) = contents.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length == 0 || length > FRAME_BYTES_MAX {
            return Err(ChannelError::Misbehaved("a frame of no bytes or too many"));
        }
        let Some(frame) = rest.get(..length) else { return Ok(None) };
        let header = (frame[0] == PAYLOAD_TYPE).then(|| PayloadHeader::decode(frame)).transpose()?;
        let start = self.opened.start + LENGTH_BYTES;
        self.opened.start = start + length;
        match header {
            None => Ok(Some(Item::Frame(start..start + length))),
            Some(header) => {
                self.begin_chunk(&header)?;
                Ok(Some(Item::Payload(header)))
            }
        }
    }

    fn begin_chunk(&mut self, header: &PayloadHeader) -> Result<(), ChannelError> {
        if header.plain && !self.plain_permitted {
            return Err(ChannelError::PlainNotPermitted);
        }
        if header.plain && !self.opened.is_empty() {
            return Err(ChannelError::Misbehaved("a header of plain payload that does not end its record"));
        }
        let left = header.range.len() as usize;
        self.chunk = Chunk { left, plain: header.plain };
        self.flow = header.plain || left >= IN_PLACE_BYTES_MIN;
        Ok(())
    }

    async fn advance_in_chunk(&mut self) -> Result<(), ChannelError> {
        if self.closed {
            return Err(ChannelError::Truncated);
        }
        self.advance().await
    }

    /// Opens the next record, or reads more of it.
    async fn advance(&mut self) -> Result<(), ChannelError> {
        let raw = &self.buffer[self.raw.clone()];
        match (raw.first_chunk::<HEADER_BYTES>(), whole_record(raw)?) {
            (_, Some((header, bytes))) => self.open(header, bytes),
            (Some(&header), None) => self.fill(record_bytes(header)?).await,
            (None, None) => self.fill(HEADER_BYTES).await,
        }
    }

    fn open(&mut self, header: [u8; HEADER_BYTES], bytes: usize) -> Result<(), ChannelError> {
        let body = self.raw.start + HEADER_BYTES;
        self.raw.start += bytes;
        if self.opened.is_empty() {
            self.opened = body..body;
        }
        let space = &mut self.buffer[self.opened.end..self.raw.start];
        let (content_type, len) = self.opener.open(header, space, body - self.opened.end)?;
        if content_type == content::APPLICATION_DATA {
            self.opened.end += len;
            return Ok(());
        }
        let message = space[..len].to_vec();
        self.take_message(content_type, &message)
    }

    /// Reads at least one byte of the `wanted` that have to stand together at the start of `raw`.
    async fn fill(&mut self, wanted: usize) -> Result<(), ChannelError> {
        self.make_room(wanted);
        let ahead = if self.flow { wanted.max(LOOK_AHEAD_BYTES) } else { BUFFER_BYTES };
        let end = BUFFER_BYTES.min(self.raw.start + ahead);
        let bytes = self.stream.read(&mut self.buffer[self.raw.end..end]).await?;
        self.received(bytes)?;
        self.raw.end += bytes;
        Ok(())
    }

    /// Moves everything to the front when the rest of the buffer is too short for a good read.
    fn make_room(&mut self, wanted: usize) {
        if self.opened.is_empty() && self.raw.is_empty() {
            (self.opened, self.raw) = (0..0, 0..0);
        }
        let fits = BUFFER_BYTES - self.raw.start >= wanted && BUFFER_BYTES - self.raw.end >= RECORD_BYTES_MAX;
        if fits || self.raw.start == 0 {
            return;
        }
        self.buffer.copy_within(self.opened.clone(), 0);
        self.opened = 0..self.opened.len();
        self.buffer.copy_within(self.raw.clone(), self.opened.end);
        self.raw = self.opened.end..self.opened.end + self.raw.len();
    }

    /// Reads from the socket to the caller, and what follows up to the look-ahead into the empty buffer.
    async fn read_plain(&mut self, into: &mut [u8]) -> Result<usize, ChannelError> {
        debug_assert!(self.opened.is_empty() && self.raw.is_empty());
        (self.opened, self.raw) = (0..0, 0..0);
        let whole_rest = into.len() == self.chunk.left;
        let ahead = if whole_rest { LOOK_AHEAD_BYTES } else { 0 };
        loop {
            let mut slices = [IoSliceMut::new(into), IoSliceMut::new(&mut self.buffer[..ahead])];
            match self.stream.try_read_vectored(&mut slices) {
                Ok(bytes) => {
                    self.received(bytes)?;
                    let direct = bytes.min(into.len());
                    self.raw.end = bytes - direct;
                    return Ok(direct);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.readable().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads records of a sealed chunk to the caller and opens them there. Returns how much of `into` then holds contents;
    /// what else has come is in the buffer.
    async fn read_in_place(&mut self, into: &mut [u8]) -> Result<usize, ChannelError> {
        let direct = !self.chunk.plain && self.opened.is_empty() && self.raw.len() < RECORD_BYTES_MAX;
        if !direct || into.len() < IN_PLACE_BYTES_MIN {
            return Ok(0);
        }
        self.in_place = true;
        let mut end = self.raw.len();
        into[..end].copy_from_slice(&self.buffer[self.raw.clone()]);
        (self.opened, self.raw) = (0..0, 0..0);
        // Contents up to `opened`, nothing, records from `at` to `end`.
        let (mut opened, mut at) = (0, 0);
        loop {
            while let Some((header, bytes)) = whole_record(&into[at..end])? {
                let space = &mut into[opened..at + bytes];
                let (content_type, len) = self.opener.open(header, space, at + HEADER_BYTES - opened)?;
                match content_type {
                    content::APPLICATION_DATA => {
                        opened += len;
                        self.count_payload(len);
                    }
                    content_type => self.take_message(content_type, &space[..len])?,
                }
                at += bytes;
            }
            if self.closed {
                return Err(ChannelError::Truncated);
            }
            if end == into.len() {
                break;
            }
            let bytes = self.stream.read(&mut into[end..]).await?;
            self.received(bytes)?;
            end += bytes;
        }
        self.raw = 0..end - at;
        self.buffer[self.raw.clone()].copy_from_slice(&into[at..end]);
        self.in_place = false;
        Ok(opened)
    }

    /// Does what a record wants that holds neither frames nor payload.
    fn take_message(&mut self, content_type: u8, message: &[u8]) -> Result<(), ChannelError> {
        match content_type {
            content::HANDSHAKE => self.opener = Opener::new(self.rekeying.handle(message)?)?,
            content::ALERT => self.closed = is_close_notify(message)?,
            _ => return Err(ChannelError::Misbehaved("a record of unknown type")),
        }
        Ok(())
    }

    fn check_whole(&self) -> Result<(), ChannelError> {
        if self.in_place { Err(ChannelError::Interrupted) } else { Ok(()) }
    }

    fn received(&self, bytes: usize) -> Result<(), ChannelError> {
        self.counters.add_received(bytes);
        if bytes == 0 { Err(ChannelError::Truncated) } else { Ok(()) }
    }
}

/// Header and length of the record at the front of `raw`, if all of it is there.
fn whole_record(raw: &[u8]) -> Result<Option<([u8; HEADER_BYTES], usize)>, ChannelError> {
    let Some(&header) = raw.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let bytes = record_bytes(header)?;
    Ok((bytes <= raw.len()).then_some((header, bytes)))
}

/// Whether an alert is the notice of a clean end; any other one is an error.
fn is_close_notify(alert: &[u8]) -> Result<bool, ChannelError> {
    match *alert {
        [_, description] => match AlertDescription::from(description) {
            AlertDescription::CloseNotify => Ok(true),
            description => Err(ChannelError::Alert(description)),
        },
        _ => Err(ChannelError::Misbehaved("an alert that is not one")),
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("payload_left", &self.chunk.left).finish_non_exhaustive()
    }
}
