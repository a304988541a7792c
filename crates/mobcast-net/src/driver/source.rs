//! The root's source: one thread reads it in order and hashes each piece once. Nothing of it is kept but the hashes;
//! what peers ask for is read again, from the page cache as a rule.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mobcast_proto::limits::{BATCH_HASHES_MAX, OBJECT_BYTES_MAX, PIECES_MAX};
use mobcast_proto::{BroadcastId, Digest, PieceIndex};
use tokio::sync::mpsc;

use super::input::Input;
use super::stats::TransferStats;
use crate::store::{ObjectHasher, ObjectSource, PieceHasher, StoreError};

/// Bytes read and hashed at a time: fits into the processor's second cache, beside what others need of it.
const STEP_BYTES: usize = 256 << 10;
/// The core hears of hashes this often, while the source is faster.
const TELL_TIME: Duration = Duration::from_millis(5);

/// Reads a source for its broadcast.
#[derive(Debug)]
pub struct SourceReader {
    /// The broadcast.
    pub broadcast: BroadcastId,
    /// What is read.
    pub source: Arc<ObjectSource>,
    /// Bytes of a piece.
    pub piece_size: u32,
    /// To the node's task.
    pub inputs: mpsc::Sender<Input>,
    /// The broadcast's counters.
    pub stats: Arc<TransferStats>,
    /// Set when the broadcast is over before its source.
    pub stopped: Arc<AtomicBool>,
}

/// How a source ended.
struct End {
    /// Hashes that the core has not heard of.
    last: Vec<Digest>,
    length: u64,
    object_hash: Digest,
}

impl SourceReader {
    /// Reads to the end. Blocks; for a thread of its own.
    pub fn run(self) {
        let end = self.read_all();
        let broadcast = self.broadcast;
        let last = match end {
            Ok(End { last, length, object_hash }) => Input::SourceEnd { broadcast, last, length, object_hash },
            Err(StoreError::Stopped) if self.stopped.load(Ordering::Relaxed) => return,
            Err(error) => Input::StoreFailed { broadcast, error: Arc::new(error) },
        };
        // If the node's task is gone, nobody wants to know.
        let _ = self.inputs.blocking_send(last);
    }

    fn read_all(&self) -> Result<End, StoreError> {
        let mut object = ObjectHasher::new();
        let mut buf = vec![0; STEP_BYTES];
        let (mut offset, mut untold, mut told_at) = (0, Vec::new(), None);
        while let Some(piece) = self.next_piece(offset, &mut untold)? {
            let len = piece;
            let index = PieceIndex(object.pieces() as u32);
            if index.0 >= PIECES_MAX {
                let limit = (u64::from(PIECES_MAX) * u64::from(self.piece_size)).min(OBJECT_BYTES_MAX);
                let what = "a stream in pieces of this size";
                return Err(StoreError::TooLarge { length: offset + len, limit, what });
            }
            let mut hasher = PieceHasher::new(index, self.piece_size);
            let mut at = 0;
            while at < len {
                let step = (len - at).min(STEP_BYTES as u64) as usize;
                self.source.read_at(offset + at, &mut buf[..step])?;
                hasher.update(&buf[..step]);
                at += step as u64;
            }
            let hash = hasher.finish();
            object.push(hash.subtree, hash.root);
            untold.push(hash.subtree);
            self.stats.add_stored(len);
            offset += len;
            if len < u64::from(self.piece_size) {
                // The last one: it is told of with the end, or peers would ask for a full piece.
                break;
            }
            let due = told_at.is_none_or(|at: Instant| at.elapsed() >= TELL_TIME);
            if due || untold.len() >= BATCH_HASHES_MAX {
                self.tell(&mut untold)?;
                told_at = Some(Instant::now());
            }
        }
        self.source.check_unchanged()?;
        self.stats.set_length(offset, self.piece_size);
        let object_hash = object.finish().expect("the first piece's root value was given with it");
        Ok(End { last: untold, length: offset, object_hash })
    }

    /// Bytes of the next piece, when all of it can be read; none at the end.
    fn next_piece(&self, offset: u64, untold: &mut Vec<Digest>) -> Result<Option<u64>, StoreError> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(StoreError::Stopped);
        }
        let end = offset + u64::from(self.piece_size);
        let mut available = self.source.available()?;
        if available.bytes < end && !available.complete {
            // A stream may pause for long: nothing waits for that.
            self.tell(untold)?;
            available = self.source.wait_available(end)?;
        }
        let len = available.bytes.min(end) - offset;
        Ok((len > 0).then_some(len))
    }

    fn tell(&self, untold: &mut Vec<Digest>) -> Result<(), StoreError> {
        if untold.is_empty() {
            return Ok(());
        }
        let input = Input::Hashed { broadcast: self.broadcast, hashes: std::mem::take(untold) };
        self.inputs.blocking_send(input).map_err(|_| StoreError::Stopped)
    }
}
