//! Counters of one broadcast at one node, written by whoever does the work and read by whoever watches.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use mobcast_proto::content::object::piece_count;

const UNKNOWN: u64 = u64::MAX;

/// How far a broadcast is. All loads and stores are relaxed: a reader sees recent values, not one moment's.
#[derive(Debug)]
pub struct TransferStats {
    bytes: AtomicU64,
    pieces: AtomicU32,
    total: AtomicU32,
    length: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

impl Default for TransferStats {
    fn default() -> TransferStats {
        TransferStats {
            bytes: AtomicU64::new(0),
            pieces: AtomicU32::new(0),
            total: AtomicU32::new(0),
            length: AtomicU64::new(UNKNOWN),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
        }
    }
}

impl TransferStats {
    /// Bytes of pieces that are here: stored, or at the root read.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Pieces that are here.
    pub fn pieces(&self) -> u32 {
        self.pieces.load(Ordering::Relaxed)
    }

    /// Whether payload of it has crossed any link.
    pub fn has_traffic(&self) -> bool {
        self.bytes_in() + self.bytes_out() > 0
    }

    /// Pieces of the object, once its length is known.
    pub fn total(&self) -> Option<u32> {
        self.length().map(|_| self.total.load(Ordering::Relaxed))
    }

    /// Bytes of the object, once known.
    pub fn length(&self) -> Option<u64> {
        Some(self.length.load(Ordering::Acquire)).filter(|&length| length != UNKNOWN)
    }

    /// Payload received, bytes.
    pub fn bytes_in(&self) -> u64 {
        self.bytes_in.load(Ordering::Relaxed)
    }

    /// Payload sent, bytes.
    pub fn bytes_out(&self) -> u64 {
        self.bytes_out.load(Ordering::Relaxed)
    }

    /// The length of the object is known.
    pub fn set_length(&self, length: u64, piece_size: u32) {
        self.total.store(piece_count(length, piece_size), Ordering::Relaxed);
        self.length.store(length, Ordering::Release);
    }

    pub(super) fn add_stored(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.pieces.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_in(&self, bytes: u64) {
        self.bytes_in.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_out(&self, bytes: u64) {
        self.bytes_out.fetch_add(bytes, Ordering::Relaxed);
    }
}
