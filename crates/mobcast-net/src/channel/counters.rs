//! Bytes that passed a channel, readable from any task.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one channel. Each is written by one half only, so relaxed order is enough: a reader sees a recent value.
#[derive(Debug, Default)]
pub struct Counters {
    payload_sent: AtomicU64,
    payload_received: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Counters {
    /// Bytes of chunks that were handed to the kernel.
    pub fn payload_sent(&self) -> u64 {
        self.payload_sent.load(Ordering::Relaxed)
    }

    /// Bytes of chunks that were read or skipped.
    pub fn payload_received(&self) -> u64 {
        self.payload_received.load(Ordering::Relaxed)
    }

    /// All bytes handed to the kernel: the handshake, chunks, frames, headers, tags.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// All bytes taken from the kernel, likewise.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub(super) fn add_payload_sent(&self, bytes: usize) {
        self.payload_sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn add_payload_received(&self, bytes: usize) {
        self.payload_received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
