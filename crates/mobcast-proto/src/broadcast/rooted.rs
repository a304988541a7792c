//! What the root of a broadcast does besides: it signs the manifest while its source is read.

use super::*;

/// The second batch is signed twice as long after the first, and each later one after twice the time, up to [`BATCH_INTERVAL`].
const BATCH_INTERVAL_MIN: Duration = Duration::from_millis(2);
/// After each so many batches it is waited for [`BATCH_INTERVAL`] longer: a stream of 400 GB in an hour has 40,000 batches then, 10 MB.
const BATCHES_MANY: u32 = 2_048;
/// So many batches have at most…
const BATCHES_FIRST: u32 = 16;
/// …so many hashes.
const BATCH_HASHES_FIRST: usize = BATCH_HASHES_MAX / 4;

impl Broadcast {
    /// The source's next piece was read and hashed.
    pub fn handle_hashed(&mut self, hash: Digest) {
        if let Some(rooted) = &mut self.rooted {
            rooted.unsigned.push_back(hash);
        }
    }

    /// The source has ended.
    pub fn handle_source_end(&mut self, end: End) {
        if let Some(rooted) = &mut self.rooted {
            rooted.end = Some(end);
        }
    }

    /// The next batch to be signed, if it is time.
    pub fn next_to_sign(&mut self, now: Time) -> Option<Batch> {
        if self.sign_due().is_none_or(|due| due > now) || self.chain.end().is_some() {
            return None;
        }
        let most = self.batch_hashes();
        let rooted = self.rooted.as_mut()?;
        let count = rooted.unsigned.len().min(most);
        let hashes = rooted.unsigned.drain(..count).collect();
        let end = if rooted.unsigned.is_empty() { rooted.end.take() } else { None };
        let batch = Batch {
            broadcast: self.id,
            piece_size: self.announcement.descriptor.piece_size,
            first: PieceIndex(self.chain.pieces()),
            previous: self.chain.last(),
            hashes,
            end,
        };
        rooted.signing = Some(batch.clone());
        rooted.signed_at = Some(now);
        Some(batch)
    }

    /// When the next batch may be signed.
    pub(super) fn sign_due(&self) -> Option<Time> {
        let rooted = self.rooted.as_ref()?;
        // A whole object goes with its only batch, in one frame.
        let work = rooted.end.is_some() || (!rooted.unsigned.is_empty() && self.whole.is_none());
        if rooted.signing.is_some() || !work {
            return None;
        }
        let urgent = rooted.unsigned.len() >= self.batch_hashes() || rooted.end.is_some();
        Some(rooted.signed_at.filter(|_| !urgent).map_or(Time::ZERO, |at| at + self.batch_interval()))
    }

    /// Hashes that the next batch may have. The first ones have few: until it has them a cluster can ask for nothing, and they come over
    /// one link, which many may share.
    fn batch_hashes(&self) -> usize {
        if self.chain.batches() < BATCHES_FIRST { BATCH_HASHES_FIRST } else { BATCH_HASHES_MAX }
    }

    /// How long pieces are gathered for a batch: at the start everybody waits for the next ones. A long stream's source may bring a
    /// piece in each interval, and all nodes keep all batches: after many the intervals grow with their number.
    fn batch_interval(&self) -> Duration {
        let batches = self.chain.batches();
        let long = BATCH_INTERVAL.times(1 + u64::from(batches / BATCHES_MANY));
        BATCH_INTERVAL_MIN.times(1 << batches.min(16)).min(long)
    }

    /// The batch given out last is signed: its pieces may be announced.
    pub fn handle_batch_signed(&mut self, now: Time, signature: Signature) {
        self.swarm.set_now(now);
        let Some(batch) = self.rooted.as_mut().and_then(|rooted| rooted.signing.take()) else { return };
        let pieces = Run { first: batch.first, count: batch.hashes.len() as u32 };
        for piece in pieces.pieces() {
            self.swarm.add_own(piece);
        }
        self.accept(batch, signature).expect("the root's own batches continue its own chain");
        for piece in pieces.pieces() {
            self.tell_strategy(StrategyEvent::PieceStored(piece));
        }
        self.finish_if_complete();
    }
}
