//! How much to send at once, and when: the size of chunks from what a link carries, and the node's own limit.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mobcast_proto::limits::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CHUNK_TIME};

/// Bytes that may leave at once under a limit.
const BURST_BYTES: u64 = 64 << 10;
/// The timers of the runtime are this late at most; a limit makes up for it, or it would not be reached.
const TIMER_SLACK: Duration = Duration::from_millis(4);

/// A limit to the payload that a node sends, over all its links: no burst is longer than 64 KiB or 4 ms.
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

    /// Takes `bytes` out of the future; they may be sent at the returned time.
    pub fn reserve(&self, now: Instant, bytes: u64) -> Instant {
        let burst = self.time_of(BURST_BYTES).max(TIMER_SLACK);
        let mut spent_until = self.spent_until.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = now.checked_sub(burst).unwrap_or(now);
        let start = spent_until.map_or(earliest, |until| until.max(earliest));
        let end = start + self.time_of(bytes);
        *spent_until = Some(end);
        end.max(now)
    }

    fn time_of(&self, bytes: u64) -> Duration {
        Duration::from_nanos((u128::from(bytes) * 1_000_000_000 / u128::from(self.rate_bytes_per_s)) as u64)
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
        // Whole pages, so that chunks of a piece do not share one.
        bytes as u32 / PAGE_BYTES * PAGE_BYTES
    }

    /// Bytes that the kernel should take beyond what it can send: two chunks less the smallest, so that a control frame waits for two
    /// chunks at most, and the next one is there when a segment leaves; from 8 to 128 KiB.
    pub fn unsent_bytes(&self) -> u32 {
        (2 * self.chunk_bytes() - CHUNK_BYTES_MIN).min(UNSENT_BYTES_MAX)
    }

    /// A chunk of `bytes` took this long.
    pub fn sent(&mut self, bytes: u32, took: Duration) {
        self.bytes += u64::from(bytes);
        self.busy += took;
        if self.bytes >= SAMPLE_BYTES || self.busy >= SAMPLE_TIME {
            let nanos = self.busy.as_nanos().max(1);
            let rate = (u128::from(self.bytes) * 1_000_000_000 / nanos).min(u128::from(u64::MAX)) as u64;
            self.rate_bytes_per_s = Some(self.rate_bytes_per_s.map_or(rate, |old| old / 2 + rate / 2));
            (self.bytes, self.busy) = (0, Duration::ZERO);
        }
    }
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
}
