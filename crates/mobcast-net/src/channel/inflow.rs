//! Reading from the socket of a channel without being woken for less than can be opened.
//!
//! A record can be opened when all of it has come. On a slow link its packets come one at a time, and each would wake the
//! reader, be copied, and be acknowledged at once because the reader has taken it, where TCP acknowledges every second packet otherwise. So who waits for the rest of a
//! record says how much that is (`SO_RCVLOWAT`; on Linux, readiness goes by it since 4.18). The end of the stream, an error, and a
//! full receive buffer wake the reader in any case.

use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::tcp::OwnedReadHalf;

/// Less than this is not worth a system call to wait for: two or three packets.
const WORTH_WAITING: usize = 4 << 10;

/// The reading half of a TCP connection, and how much of what comes wakes its reader.
#[derive(Debug)]
pub(super) struct Inflow {
    stream: OwnedReadHalf,
    /// Bytes that have to be there before the reader is woken, at least 1.
    low_water: usize,
}

impl Inflow {
    pub(super) fn new(stream: OwnedReadHalf) -> Inflow {
        Inflow { stream, low_water: 1 }
    }

    /// Reads what is there, at least one byte; 0 at the end of the stream. If nothing is there, waits until there are
    /// about `enough` bytes, never for more. May be dropped and called again.
    pub(super) async fn read(&mut self, into: &mut [u8], enough: usize) -> io::Result<usize> {
        let mut into = ReadBuf::new(into);
        poll_fn(|context| self.poll_read(context, &mut into, enough)).await?;
        Ok(into.filled().len())
    }

    fn poll_read(&mut self, context: &mut Context<'_>, into: &mut ReadBuf<'_>, enough: usize) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(context, into);
        if result.is_pending() {
            // Who lowers it is woken by the kernel if that much is there already.
            self.wait_for(enough)?;
        }
        result
    }

    /// [`Inflow::read`] into several slices.
    pub(super) async fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>], enough: usize) -> io::Result<usize> {
        loop {
            match self.stream.try_read_vectored(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait_for(enough)?;
                    self.stream.readable().await?;
                }
                result => return result,
            }
        }
    }

    /// Has the reader woken by `enough` bytes, or by half as many if that is what it was: most records are of one length.
    fn wait_for(&mut self, enough: usize) -> io::Result<()> {
        let enough = if enough < WORTH_WAITING { 1 } else { enough };
        if (enough.div_ceil(2)..=enough).contains(&self.low_water) {
            return Ok(());
        }
        self.low_water = enough;
        #[cfg(target_os = "linux")]
        super::option::set(self.stream.as_ref(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, enough as libc::c_int)?;
        Ok(())
    }
}
