//! How much to send at once, and when: the size of chunks from what a link carries, and the node's own limit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mobcast_proto::limits::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CHUNK_TIME};

/// Bytes that may leave at once under a limit.
const BURST_BYTES: u64 = 64 << 10;
const _: () = assert!(CHUNK_BYTES_MIN as u64 <= BURST_BYTES);
/// Payload makes up for control frames within this: it never stands still for longer.
const DEBT_MAX: Duration = Duration::from_secs(1);
/// The timers of the runtime are this late at most; a limit makes up for it, or it would not be reached.
const TIMER_SLACK: Duration = Duration::from_millis(4);

/// A limit to what a node sends, over all its links: no burst of payload is longer than 64 KiB or 4 ms. Control frames do not wait for
/// it; payload makes up for them as far as that takes no longer than a second.
#[derive(Debug)]
pub struct Limit {
    rate_bytes_per_s: u64,
    /// When everything permitted so far will have left at the limit's rate.
    spent_until: Mutex<Option<Instant>>,
}

impl Limit {
    /// A limit in bytes per second, at least one.
    pub fn new(rate_bytes_per_s: u64) -> Limit {
        Limit { rate_bytes_per_s: rate_bytes_per_s.max(1), spent_until: Mutex::new(None) }
    }

    /// The next chunk of payload, of at most `bytes`: it takes 50 ms of the limit, so that links take turns, but has 8 KiB at least and no more
    /// than may leave at once.
    pub fn permit(self: &Arc<Limit>, now: Instant, bytes: u32) -> Permit {
        let share = CHUNK_TIME.bytes_at(self.rate_bytes_per_s).clamp(u64::from(CHUNK_BYTES_MIN), self.burst_bytes());
        let bytes = bytes.min(whole_pages(share.min(u64::from(CHUNK_BYTES_MAX)) as u32));
        Permit { at: self.reserve(now, u64::from(bytes)), bytes, limit: Some(Arc::clone(self)) }
    }

    /// Bytes that may leave at once.
    fn burst_bytes(&self) -> u64 {
        let rate = u128::from(self.rate_bytes_per_s);
        BURST_BYTES.max((rate * TIMER_SLACK.as_nanos() / 1_000_000_000) as u64)
    }

    /// Frames of `bytes` are sent, which do not wait.
    pub fn count(&self, now: Instant, bytes: u64) {
        let mut spent_until = self.lock();
        let start = spent_until.map_or(now, |until| until.max(now));
        *spent_until = Some(start.max((start + self.time_of(bytes)).min(now + DEBT_MAX)));
    }

    /// Takes `bytes` out of the future; they may be sent at the returned time.
    pub fn reserve(&self, now: Instant, bytes: u64) -> Instant {
        let burst = self.time_of(BURST_BYTES).max(TIMER_SLACK);
        let mut spent_until = self.lock();
        let earliest = now.checked_sub(burst).unwrap_or(now);
        let start = spent_until.map_or(earliest, |until| until.max(earliest));
        let end = start + self.time_of(bytes);
        *spent_until = Some(end);
        end.max(now)
    }

    /// What was taken out of the future is not sent.
    fn refund(&self, bytes: u64) {
        let mut spent_until = self.lock();
        *spent_until = spent_until.and_then(|until| until.checked_sub(self.time_of(bytes)));
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.spent_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn time_of(&self, bytes: u64) -> Duration {
        Duration::from_nanos((u128::from(bytes) * 1_000_000_000 / u128::from(self.rate_bytes_per_s)) as u64)
    }
}

/// When a chunk may leave, and its bytes. If it is dropped before they are sent, others have their share of the limit.
#[derive(Debug)]
pub struct Permit {
    /// When.
    pub at: Instant,
    /// How much.
    pub bytes: u32,
    limit: Option<Arc<Limit>>,
}

impl Permit {
    /// Without a limit: at once.
    pub fn unlimited(now: Instant, bytes: u32) -> Permit {
        Permit { at: now, bytes, limit: None }
    }

    /// The chunk is sent.
    pub fn sent(mut self) {
        self.limit = None;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(limit) = &self.limit {
            limit.refund(u64::from(self.bytes));
        }
    }
}

const PAGE_BYTES: u32 = 4 << 10;
/// Before anything is known of a link, its chunks have this size.
const CHUNK_BYTES_FIRST: u32 = 16 << 10;
/// More than this lies idle in the kernel on the fastest links, too.
const UNSENT_BYTES_MAX: u32 = 128 << 10;
/// A rate is taken over at least this much: less is what the kernel buffers.
const SAMPLE_BYTES: u64 = 512 << 10;
/// Or over this long.
const SAMPLE_TIME: Duration = Duration::from_millis(100);

/// The rate of a link, from how long the kernel takes to accept chunks.
#[derive(Debug, Default)]
pub struct Pacer {
    rate_bytes_per_s: Option<u64>,
    bytes: u64,
    busy: Duration,
}

impl Pacer {
    /// Bytes of the next chunk: 50 ms of the link's rate, from 8 to 256 KiB.
    pub fn chunk_bytes(&self) -> u32 {
        let Some(rate) = self.rate_bytes_per_s else { return CHUNK_BYTES_FIRST };
        let bytes = CHUNK_TIME.bytes_at(rate).clamp(u64::from(CHUNK_BYTES_MIN), u64::from(CHUNK_BYTES_MAX));
        whole_pages(bytes as u32)
    }

    /// Bytes that the kernel should take beyond what it can send: two chunks less the smallest, so that a control frame waits for two
    /// chunks at most, and the next one is there when a segment leaves; from 8 to 128 KiB.
    pub fn unsent_bytes(&self) -> u32 {
        (2 * self.chunk_bytes() - CHUNK_BYTES_MIN).min(UNSENT_BYTES_MAX)
    }

    /// A chunk of `bytes` took this long. A link that has become slower is believed at once, or chunks of its old size would hold up
    /// its control frames.
    pub fn sent(&mut self, bytes: u32, took: Duration) {
        self.bytes += u64::from(bytes);
        self.busy += took;
        if self.bytes >= SAMPLE_BYTES || self.busy >= SAMPLE_TIME {
            let nanos = self.busy.as_nanos().max(1);
            let rate = (u128::from(self.bytes) * 1_000_000_000 / nanos).min(u128::from(u64::MAX)) as u64;
            self.rate_bytes_per_s = Some(self.rate_bytes_per_s.map_or(rate, |old| rate.min(old / 2 + rate / 2)));
            (self.bytes, self.busy) = (0, Duration::ZERO);
        }
    }
}

/// Chunks of a piece share no page.
fn whole_pages(bytes: u32) -> u32 {
    bytes / PAGE_BYTES * PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_within_its_burst() {
        let limit = Limit::new(1_000_000);
        let start = Instant::now();
        let mut now = start;
        for _ in 0..100 {
            now = limit.reserve(now, 64 << 10).max(now);
        }
        let took = (now - start).as_secs_f64();
        assert!((6.4..6.6).contains(&took), "100 chunks of 64 KiB at 1 MB/s take {took} s");
        // A pause earns one burst and no more.
        let later = now + Duration::from_secs(60);
        assert!(limit.reserve(later, 64 << 10) - later < Duration::from_millis(1));
        assert!(limit.reserve(later, 64 << 10) - later > Duration::from_millis(60));
    }

    /// Several links share a limit, each with chunks of its own size; each comes back when its chunk may leave, up to 2 ms
    /// late.
    #[test]
    fn a_limit_holds_within_one_percent_whatever_the_links_do() {
        for (rate, links, chunk) in
            [(1_000_000, 1, 4 << 10), (1_000_000, 16, 64 << 10), (50_000_000, 5, 16 << 10), (400_000_000, 3, 64 << 10)]
        {
            let limit = Limit::new(rate);
            let start = Instant::now();
            let mut links: Vec<Instant> = vec![start; links];
            let mut sent = 0;
            while links.iter().any(|&at| at < start + Duration::from_secs(20)) {
                let next = links.iter_mut().min().expect("there are links");
                let at = limit.reserve(*next, chunk);
                let lateness = Duration::from_micros(sent / chunk * 700 % 2_000);
                *next = at + if at > *next { lateness } else { Duration::ZERO };
                sent += chunk;
            }
            let took = links.iter().max().expect("there are links").duration_since(start);
            let reached = sent as f64 / took.as_secs_f64() / rate as f64;
            assert!((0.99..=1.01).contains(&reached), "{rate} B/s, chunks of {chunk}: {reached} of the limit");
        }
    }

    #[test]
    fn late_timers_do_not_slow_a_limit_down() {
        let limit = Limit::new(200_000_000);
        let start = Instant::now();
        let mut now = start;
        for _ in 0..10_000 {
            let at = limit.reserve(now, 64 << 10);
            if at > now {
                now = at + Duration::from_millis(1);
            }
        }
        let rate = 10_000.0 * 65_536.0 / (now - start).as_secs_f64();
        assert!((190e6..205e6).contains(&rate), "{rate}");
    }

    #[test]
    fn chunks_take_a_slow_link_no_longer_than_50_ms() {
        let mut pacer = Pacer::default();
        pacer.sent(16 << 10, Duration::from_millis(164));
        assert_eq!((pacer.chunk_bytes(), pacer.unsent_bytes()), (8 << 10, 8 << 10), "100 kB/s");
        let mut pacer = Pacer::default();
        pacer.sent(512 << 10, Duration::from_millis(1));
        assert_eq!((pacer.chunk_bytes(), pacer.unsent_bytes()), (CHUNK_BYTES_MAX, UNSENT_BYTES_MAX));
    }

    #[test]
    fn a_link_that_becomes_slower_has_small_chunks_at_once() {
        let mut pacer = Pacer::default();
        pacer.sent(512 << 10, Duration::from_millis(1));
        pacer.sent(pacer.chunk_bytes(), Duration::from_millis(2_600));
        assert_eq!(pacer.chunk_bytes(), 8 << 10, "100 kB/s");
        pacer.sent(512 << 10, Duration::from_millis(1));
        assert_eq!(pacer.chunk_bytes(), CHUNK_BYTES_MAX, "and large ones soon after it is fast again");
    }

    #[test]
    fn under_a_limit_a_fast_link_sends_no_burst() {
        let mut pacer = Pacer::default();
        pacer.sent(512 << 10, Duration::from_millis(1));
        for (rate, chunk) in [
            (10_000, 8 << 10),
            (300_000, 12 << 10),
            (1_000_000, 48 << 10),
            (20_000_000, 76 << 10),
            (100_000_000, CHUNK_BYTES_MAX),
        ] {
            let (limit, start) = (Arc::new(Limit::new(rate)), Instant::now());
            let (mut now, mut sent) = (start, 0);
            for _ in 0..100 {
                let permit = limit.permit(now, pacer.chunk_bytes());
                assert_eq!(permit.bytes, chunk, "{rate} B/s");
                now = permit.at;
                sent += u64::from(permit.bytes);
                let at_once = sent.saturating_sub((now - start).as_nanos() as u64 * rate / 1_000_000_000);
                assert!(at_once <= BURST_BYTES.max(rate / 250) + 1, "{rate} B/s: {at_once} bytes at once");
                permit.sent();
            }
        }
    }

    #[test]
    fn a_chunk_that_is_given_up_leaves_its_share_to_others() {
        let (limit, now) = (Arc::new(Limit::new(1_000_000)), Instant::now());
        limit.permit(now, 64 << 10).sent();
        let at = limit.permit(now, 16 << 10).at;
        assert_eq!(limit.permit(now, 16 << 10).at, at, "the one before was not sent");
        limit.permit(now, 16 << 10).sent();
        assert!(limit.permit(now, 16 << 10).at > at);
    }
}
