//! The sending half of a channel.
//!
//! Each call seals into one reused buffer and hands it to the kernel; a caller that sends a chunk at a time lets a
//! control frame wait for one chunk at most. Of a call that is dropped half-way the next one completes what is sealed: of frames
//! up to 64 KiB and one more, those behind them are lost. A chunk is not completed: then the channel is of no more use.
//!
//! Plain chunks leave from where they are: from the caller's memory, or, as references to the pages of a file, from a
//! pipe that the caller has filled. Sealed chunks are copied or read to where they are sealed.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use mobcast_proto::limits::{CHUNK_BYTES_MAX, FRAME_BYTES_MAX};
use mobcast_proto::wire::payload::{PAYLOAD_HEADER_BYTES, PAYLOAD_TYPE, PayloadHeader};
use rustix::net::SendFlags;
use rustix::pipe::SpliceFlags;
use socket2::SockRef;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tracing::debug;

use super::record::{
    CONTENTS_BYTES_MAX, OVERHEAD_BYTES, RECORD_BYTES_FULL, RECORDS_PER_KEY_MAX, Sealer, content, contents_mut,
};
use super::rekey::{KEY_UPDATE_MESSAGE, Rekeying};
use super::socket::set_unsent_max;
use super::{ChannelError, Counters, WELCOME_TYPE};

/// Frames, and chunks from memory, are sealed up to this many bytes before they are written. With one more frame it bounds the
/// buffer.
const GATHER_BYTES: usize = 64 << 10;
/// Level "warning" (which nobody reads in TLS 1.3), close_notify.
const CLOSE_NOTIFY: [u8; 2] = [1, 0];

/// The sending half of a channel.
pub struct Sender {
    stream: OwnedWriteHalf,
    sealer: Sealer,
    rekeying: Arc<Rekeying>,
    counters: Arc<Counters>,
    records_per_key: u64,
    /// Sealed bytes, of which `written` are with the kernel.
    out: Vec<u8>,
    written: usize,
    /// Room for the records of one chunk that is read into them; made when it is needed.
    records: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// In the middle of a chunk; seen from outside only if that call was dropped.
    InChunk,
    Closed,
}

impl Sender {
    /// `out` holds what the handshake has left to send.
    pub(super) fn new(
        stream: OwnedWriteHalf,
        sealer: Sealer,
        rekeying: Arc<Rekeying>,
        counters: Arc<Counters>,
        out: Vec<u8>,
    ) -> Sender {
        Sender {
            stream,
            sealer,
            rekeying,
            counters,
            records_per_key: RECORDS_PER_KEY_MAX,
            out,
            written: 0,
            records: Vec::new(),
            state: State::Open,
        }
    }

    /// Bytes that passed the channel, in both directions.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Updates the key after this many records, at most 2^24 (which is also the default): for tests.
    pub fn set_records_per_key(&mut self, records: u64) {
        self.records_per_key = records.clamp(1, RECORDS_PER_KEY_MAX);
    }

    /// Bounds the bytes that the kernel takes beyond what it can send. They cannot be taken back any more.
    pub fn set_unsent_max(&mut self, bytes: u32) {
        if let Err(error) = set_unsent_max(&SockRef::from(self.stream.as_ref()), bytes) {
            debug!(%error, "the kernel does not bound what it has not sent");
        }
    }

    /// Sends control frames, packed into as few records and writes as they fit.
    ///
    /// # Panics
    /// If a frame is empty, longer than [`FRAME_BYTES_MAX`], or of a type that is reserved for the channel.
    pub async fn send_frames<F: AsRef<[u8]>>(&mut self, frames: &[F]) -> Result<(), ChannelError> {
        self.begin().await?;
        let mut frames = frames.iter().map(F::as_ref).peekable();
        while frames.peek().is_some() {
            self.update_key_when_due()?;
            let mut packer = self.sealer.pack(&mut self.out);
            while packer.sealed_bytes() < GATHER_BYTES
                && let Some(frame) = frames.next()
            {
                assert!((1..=FRAME_BYTES_MAX).contains(&frame.len()), "a frame of {} bytes", frame.len());
                assert!(frame[0] != PAYLOAD_TYPE && frame[0] != WELCOME_TYPE, "frame type {:#x} is reserved", frame[0]);
                packer.push(&(frame.len() as u32).to_be_bytes());
                packer.push(frame);
            }
            packer.finish();
            self.flush().await?;
        }
        Ok(())
    }

    /// Sends one chunk: sealed, or with `header.plain` as it is behind a sealed header.
    ///
    /// # Panics
    /// If `payload` is not what the header says.
    pub async fn send_payload(&mut self, header: &PayloadHeader, payload: &[u8]) -> Result<(), ChannelError> {
        assert_eq!(payload.len(), header.range.len() as usize, "the payload is the header's range");
        // The caller has the chunk, and a link has room for one.
        self.records = Vec::new();
        self.begin_payload(header).await?;
        self.pack_header(header);
        self.state = State::InChunk;
        if header.plain {
            self.flush_with(payload).await?;
        } else {
            for part in payload.chunks(GATHER_BYTES) {
                let mut packer = self.sealer.pack(&mut self.out);
                packer.push(part);
                packer.finish();
                self.flush().await?;
            }
        }
        self.state = State::Open;
        self.counters.add_payload_sent(payload.len());
        Ok(())
    }

    /// Sends one sealed chunk, whose bytes `read` puts straight into the places where they are sealed. If it answers
    /// false, nothing is sent, and neither is anything of this call's.
    ///
    /// # Panics
    /// If the header is that of a plain chunk.
    pub async fn send_read(
        &mut self,
        header: &PayloadHeader,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> bool,
    ) -> Result<bool, ChannelError> {
        assert!(!header.plain, "what is plain is in no record");
        self.begin_payload(header).await?;
        if self.records.is_empty() {
            self.records = vec![0; records_bytes(CHUNK_BYTES_MAX as usize)];
        }
        let payload = header.range.len() as usize;
        let bytes = records_bytes(payload);
        let contents =
            self.records[..bytes].chunks_mut(RECORD_BYTES_FULL).map(|record| IoSliceMut::new(contents_mut(record)));
        if !read(&mut contents.collect::<Vec<_>>()) {
            // It comes from the caller's memory next, and a link has room for one chunk.
            self.records = Vec::new();
            return Ok(false);
        }
        self.pack_header(header);
        for record in self.records[..bytes].chunks_mut(RECORD_BYTES_FULL) {
            self.sealer.seal_record(record, content::APPLICATION_DATA);
        }
        self.state = State::InChunk;
        let records = std::mem::take(&mut self.records);
        self.flush_with(&records[..bytes]).await?;
        self.records = records;
        self.state = State::Open;
        self.counters.add_payload_sent(payload);
        Ok(true)
    }

    /// Sends one plain chunk, whose bytes are the next ones in the pipe already, without copying them.
    ///
    /// # Panics
    /// If the header is not that of a plain chunk.
    pub async fn send_piped(&mut self, header: &PayloadHeader, pipe: BorrowedFd<'_>) -> Result<(), ChannelError> {
        assert!(header.plain, "what is sealed has to be copied");
        self.begin_payload(header).await?;
        self.pack_header(header);
        self.state = State::InChunk;
        while self.written < self.out.len() {
            // Not alone: header and chunk share segments.
            let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
            let unsent = &self.out[self.written..];
            let written =
                when_writable(self.stream.as_ref(), |stream| rustix::net::send(stream, unsent, flags)).await?;
            self.advance(written)?;
        }
        self.out.clear();
        self.written = 0;
        let mut left = header.range.len() as usize;
        while left > 0 {
            let splice =
                |stream: &TcpStream| rustix::pipe::splice(pipe, None, stream, None, left, SpliceFlags::NONBLOCK);
            let written = when_writable(self.stream.as_ref(), splice).await?;
            self.advance(written)?;
            left -= written;
        }
        self.written = 0;
        self.state = State::Open;
        self.counters.add_payload_sent(header.range.len() as usize);
        Ok(())
    }

    async fn begin_payload(&mut self, header: &PayloadHeader) -> Result<(), ChannelError> {
        assert!((1..=CHUNK_BYTES_MAX).contains(&header.range.len()), "a chunk of {} bytes", header.range.len());
        self.begin().await?;
        self.update_key_when_due()
    }

    /// Seals a payload header.
    fn pack_header(&mut self, header: &PayloadHeader) {
        let mut packer = self.sealer.pack(&mut self.out);
        packer.push(&(PAYLOAD_HEADER_BYTES as u32).to_be_bytes());
        packer.push(&header.encode());
        packer.finish();
    }

    /// Says that nothing follows, and closes the sending direction. The peer's [`super::Receiver`] sees a clean end.
    pub async fn close(&mut self) -> Result<(), ChannelError> {
        self.begin().await?;
        self.sealer.seal(&mut self.out, content::ALERT, &CLOSE_NOTIFY);
        self.state = State::Closed;
        self.flush().await?;
        Ok(self.stream.shutdown().await?)
    }

    /// The accepting side's first item.
    pub(super) async fn send_welcome(&mut self) -> Result<(), ChannelError> {
        self.sealer.seal(&mut self.out, content::APPLICATION_DATA, &[0, 0, 0, 1, WELCOME_TYPE]);
        self.flush().await
    }

    /// Completes what a dropped call has left.
    async fn begin(&mut self) -> Result<(), ChannelError> {
        match self.state {
            State::Open => self.flush().await,
            State::InChunk => Err(ChannelError::Interrupted),
            State::Closed => Err(ChannelError::Closed),
        }
    }

    fn update_key_when_due(&mut self) -> Result<(), ChannelError> {
        if self.sealer.records() < self.records_per_key && !self.rekeying.take_wanted() {
            return Ok(());
        }
        self.sealer.seal(&mut self.out, content::HANDSHAKE, &KEY_UPDATE_MESSAGE);
        self.sealer = Sealer::new(self.rekeying.next_sending()?)?;
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), ChannelError> {
        while self.written < self.out.len() {
            let written = self.stream.write(&self.out[self.written..]).await?;
            self.advance(written)?;
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    /// Writes the buffer and, behind it, `payload`, from where it is.
    async fn flush_with(&mut self, payload: &[u8]) -> Result<(), ChannelError> {
        let total = self.out.len() + payload.len();
        while self.written < total {
            let sealed = self.out.get(self.written..).unwrap_or_default();
            let plain = &payload[self.written.saturating_sub(self.out.len())..];
            let written = self.stream.write_vectored(&[IoSlice::new(sealed), IoSlice::new(plain)]).await?;
            self.advance(written)?;
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    fn advance(&mut self, written: usize) -> Result<(), ChannelError> {
        if written == 0 {
            return Err(io::Error::from(io::ErrorKind::WriteZero).into());
        }
        self.written += written;
        self.counters.add_sent(written);
        Ok(())
    }
}

/// Bytes of full records, and one that need not be full, that hold so much.
fn records_bytes(contents: usize) -> usize {
    contents + contents.div_ceil(CONTENTS_BYTES_MAX) * OVERHEAD_BYTES
}

/// Makes a system call that does not wait, and waits where it would have.
async fn when_writable(
    stream: &TcpStream,
    mut call: impl FnMut(&TcpStream) -> rustix::io::Result<usize>,
) -> io::Result<usize> {
    stream.async_io(Interest::WRITABLE, || Ok(call(stream)?)).await
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("records", &self.sealer.records()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use mobcast_proto::{BroadcastId, ByteRange, PieceIndex};

    use super::super::tests::one_way;
    use super::*;

    #[tokio::test]
    async fn a_link_has_room_for_one_chunk() {
        let (mut sender, mut receiver) = one_way().await;
        let (broadcast, piece) = (BroadcastId::default(), PieceIndex(0));
        let header = PayloadHeader { broadcast, piece, range: ByteRange::whole(CHUNK_BYTES_MAX), plain: false };
        let receiving = tokio::spawn(async move {
            for _ in 0..3 {
                receiver.next().await.expect("a chunk");
                receiver.skip_payload().await.expect("all of it");
            }
        });
        assert!(sender.send_read(&header, |_| true).await.expect("sent"));
        assert!(!sender.records.is_empty(), "the next one is read to there");
        sender.send_payload(&header, &vec![1; CHUNK_BYTES_MAX as usize]).await.expect("sent");
        assert!(sender.records.is_empty() && sender.out.capacity() <= 2 * GATHER_BYTES, "it is with the caller");
        assert!(sender.send_read(&header, |_| true).await.expect("sent"));
        assert!(!sender.send_read(&header, |_| false).await.expect("nothing is sent"));
        assert!(sender.records.is_empty(), "the caller reads it");
        receiving.await.expect("no panic");
    }
}
