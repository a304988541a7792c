//! In order to a pipe: pieces wait in a spool until everything before them has arrived, so that an object larger
//! than memory can pass. What was written out stays in the spool, because peers are served from it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Finished, Sink};
use crate::store::spool::Spool;
use crate::store::{AtHand, StoreError};

/// Bytes taken from the spool at once.
const STEP: u64 = 1 << 20;

/// An object on its way into a pipe.
pub(super) struct WriterSink {
    spool: Spool,
    /// What the pipe is called, for messages.
    name: PathBuf,
    arrived: Mutex<Arrived>,
    output: Mutex<Output>,
    abandoned: AtomicBool,
}

/// Which bytes have arrived.
#[derive(Debug, Default)]
struct Arrived {
    /// Bytes without a gap from the start.
    prefix: u64,
    /// Ranges behind the first gap: start and end of each.
    beyond: BTreeMap<u64, u64>,
}

impl Arrived {
    fn insert(&mut self, start: u64, end: u64) {
        self.beyond.insert(start, end);
        while let Some(first) = self.beyond.first_entry() {
            if *first.key() > self.prefix {
                break;
            }
            self.prefix = self.prefix.max(first.remove());
        }
    }
}

struct Output {
    /// Closed when it has everything.
    writer: Option<Box<dyn Write + Send>>,
    written: u64,
}

impl WriterSink {
    pub(super) fn create(
        writer: Box<dyn Write + Send>,
        name: PathBuf,
        length: Option<u64>,
        spool_dir: &Path,
    ) -> Result<WriterSink, StoreError> {
        let spool = Spool::create(spool_dir, length)?;
        let output = Mutex::new(Output { writer: Some(writer), written: 0 });
        Ok(WriterSink { spool, name, arrived: Mutex::default(), output, abandoned: AtomicBool::new(false) })
    }

    fn arrived(&self) -> MutexGuard<'_, Arrived> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, error: std::io::Error) -> StoreError {
        StoreError::io("write", &self.name, error)
    }

    fn drain(&self, output: &mut Output) -> Result<(), StoreError> {
        let Some(writer) = &mut output.writer else { return Ok(()) };
        let mut buf = Vec::new();
        loop {
            let step = (self.arrived().prefix - output.written).min(STEP);
            if step == 0 {
                return writer.flush().map_err(|error| self.error(error));
            }
            if self.abandoned.load(Ordering::Acquire) {
                return Err(StoreError::Stopped);
            }
            buf.resize(step as usize, 0);
            self.spool.read_at(output.written, &mut buf)?;
            writer.write_all(&buf).map_err(|error| self.error(error))?;
            output.written += step;
        }
    }
}

impl Sink for WriterSink {
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        self.spool.write_at(offset, data)?;
        self.arrived().insert(offset, offset + data.len() as u64);
        Ok(())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.spool.read_at(offset, buf)
    }

    fn at_hand(&self) -> Option<AtHand<'_>> {
        Some(self.spool.at_hand())
    }

    fn drain_ready(&self) -> Result<u64, StoreError> {
        let mut output = self.output();
        self.drain(&mut output)?;
        Ok(output.written)
    }

    fn is_in_order(&self) -> bool {
        true
    }

    fn finish(&self, length: u64) -> Result<Finished, StoreError> {
        let mut output = self.output();
        self.drain(&mut output)?;
        if output.written != length {
            return Err(StoreError::Incomplete { stored: output.written, length });
        }
        // Whoever reads a pipe that this writer alone holds waits for its end, and peers may be served for long after this.
        output.writer = None;
        Ok(Finished::default())
    }

    fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }
}
