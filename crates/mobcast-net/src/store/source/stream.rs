//! A stream of unknown length as a source: one thread reads the stream into a spool, others read from the spool.

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mobcast_proto::limits::OBJECT_BYTES_MAX;

use super::check_length;
use crate::store::spool::Spool;
use crate::store::{AtHand, StoreError};

/// Bytes read from the stream at once: what a pipe may hold.
const STEP: usize = 1 << 20;

/// How much of a source can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Available {
    /// Bytes from the start of the object.
    pub bytes: u64,
    /// Whether that is the whole object.
    pub complete: bool,
}

#[derive(Debug)]
pub(super) struct StreamSpool {
    spool: Spool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    bytes: u64,
    end: End,
}

#[derive(Debug)]
enum End {
    /// More may come.
    Open,
    /// The stream has ended.
    Complete,
    /// The stream could not be read.
    Failed(StoreError),
}

impl StreamSpool {
    pub(super) fn create(spool_dir: &Path) -> Result<Arc<StreamSpool>, StoreError> {
        let spool = Spool::create(spool_dir, None)?;
        let state = Mutex::new(State { bytes: 0, end: End::Open });
        Ok(Arc::new(StreamSpool { spool, state, changed: Condvar::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.spool.read_at(offset, buf)
    }

    pub(super) fn at_hand(&self) -> AtHand<'_> {
        self.spool.at_hand()
    }

    pub(super) fn available(&self) -> Result<Available, StoreError> {
        Self::answer(&self.lock())
    }

    fn answer(state: &State) -> Result<Available, StoreError> {
        match &state.end {
            End::Open => Ok(Available { bytes: state.bytes, complete: false }),
            End::Complete => Ok(Available { bytes: state.bytes, complete: true }),
            End::Failed(reason) => Err(reason.duplicate()),
        }
    }

    pub(super) fn wait_available(&self, end: u64) -> Result<Available, StoreError> {
        let mut state = self.lock();
        while state.bytes < end && matches!(state.end, End::Open) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Self::answer(&state)
    }

    pub(super) fn stop(&self) {
        self.finish(End::Failed(StoreError::Stopped));
    }

    /// The first end counts.
    fn finish(&self, end: End) {
        let mut state = self.lock();
        if matches!(state.end, End::Open) {
            state.end = end;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Takes the next bytes; false if nobody wants them any more.
    fn append(&self, data: &[u8]) -> Result<bool, StoreError> {
        let offset = self.lock().bytes;
        check_length(offset + data.len() as u64, "a stream")?;
        self.spool.write_at(offset, data)?;
        let mut state = self.lock();
        state.bytes = offset + data.len() as u64;
        let wanted = matches!(state.end, End::Open);
        drop(state);
        self.changed.notify_all();
        Ok(wanted)
    }
}

/// The writing side of a stream source. Dropping it unrun ends the stream with an error, not as complete.
#[derive(Debug)]
pub struct StreamFeeder {
    spool: Arc<StreamSpool>,
}

impl StreamFeeder {
    pub(super) fn new(spool: Arc<StreamSpool>) -> StreamFeeder {
        StreamFeeder { spool }
    }

    /// Reads the stream to its end, calling `progress` with the bytes available after each step. Blocks as long as
    /// the stream does. Returns the stream's length in bytes; an error (reading, no space in the spool, over
    /// `OBJECT_BYTES_MAX`) is returned and also given to the next reader of the source.
    pub fn run(self, mut reader: impl Read, mut progress: impl FnMut(u64)) -> Result<u64, StoreError> {
        let mut buf = vec![0; STEP];
        let mut length = 0;
        loop {
            let step = match reader.read(&mut buf) {
                Ok(0) => {
                    self.spool.finish(End::Complete);
                    return Ok(length);
                }
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.fail(StoreError::io("read", "standard input", error))),
            };
            match self.spool.append(&buf[..step]) {
                Ok(true) => {}
                Ok(false) => return Err(StoreError::Stopped),
                Err(error) => return Err(self.fail(error)),
            }
            length += step as u64;
            debug_assert!(length <= OBJECT_BYTES_MAX);
            progress(length);
        }
    }

    /// Ends the stream with an error, which the waiting side is given as well.
    fn fail(&self, error: StoreError) -> StoreError {
        self.spool.finish(End::Failed(error.duplicate()));
        error
    }
}

impl Drop for StreamFeeder {
    fn drop(&mut self) {
        self.spool.stop();
    }
}
