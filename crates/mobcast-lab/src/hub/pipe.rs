//! A drop-tail queue before a serializer: what a link, or an access link, does to packets. Time is an argument.

use std::collections::VecDeque;

use super::switch::Travelling;

const NS_PER_S: u128 = 1_000_000_000;

/// A queue and the link that it waits for.
#[derive(Debug)]
pub struct Pipe {
    rate_bytes_per_s: Option<u64>,
    limit_bytes: u64,
    queue: VecDeque<Travelling>,
    queued_bytes: u64,
    /// The head's bytes times a billion that are still to be sent at `since_ns`.
    head_left: u128,
    since_ns: u64,
    /// Changes whenever the time at which the head is through does.
    pub generation: u32,
}

impl Pipe {
    /// An empty one. Without a rate, nothing waits; a rate of zero lets nothing through.
    pub fn new(rate_bytes_per_s: Option<u64>, limit_bytes: u64) -> Pipe {
        Pipe {
            rate_bytes_per_s,
            limit_bytes,
            queue: VecDeque::new(),
            queued_bytes: 0,
            head_left: 0,
            since_ns: 0,
            generation: 0,
        }
    }

    /// Puts a segment into the queue, or gives it back if the queue is full.
    pub fn offer(&mut self, now_ns: u64, travelling: Travelling) -> Result<(), Travelling> {
        let bytes = travelling.segment.wire_bytes();
        if self.queued_bytes + bytes > self.limit_bytes && !self.queue.is_empty() {
            return Err(travelling);
        }
        self.queued_bytes += bytes;
        self.queue.push_back(travelling);
        if self.queue.len() == 1 {
            self.begin(now_ns);
        }
        Ok(())
    }

    /// When the head is through; none if there is none, or the link is cut.
    pub fn ready_at_ns(&self) -> Option<u64> {
        if self.queue.is_empty() {
            return None;
        }
        match self.rate_bytes_per_s {
            None => Some(self.since_ns),
            Some(0) => None,
            Some(rate) => {
                Some(self.since_ns + u64::try_from(self.head_left / u128::from(rate)).unwrap_or(u64::MAX / 4))
            }
        }
    }

    /// Takes the head, which is through at `now_ns`.
    pub fn take(&mut self, now_ns: u64) -> Option<Travelling> {
        let travelling = self.queue.pop_front()?;
        self.queued_bytes -= travelling.segment.wire_bytes();
        self.begin(now_ns);
        Some(travelling)
    }

    /// Another rate from `now_ns` on; what the head has been sent of stays sent. The queue keeps its length.
    pub fn set_rate(&mut self, now_ns: u64, rate_bytes_per_s: Option<u64>) {
        if let Some(rate) = self.rate_bytes_per_s {
            let sent = u128::from(now_ns.saturating_sub(self.since_ns)) * u128::from(rate);
            self.head_left = self.head_left.saturating_sub(sent);
        }
        self.since_ns = now_ns;
        self.rate_bytes_per_s = rate_bytes_per_s;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Its rate in bytes per second.
    pub fn rate_bytes_per_s(&self) -> Option<u64> {
        self.rate_bytes_per_s
    }

    fn begin(&mut self, now_ns: u64) {
        self.generation = self.generation.wrapping_add(1);
        self.since_ns = now_ns;
        self.head_left = self.queue.front().map_or(0, |head| u128::from(head.segment.wire_bytes()) * NS_PER_S);
    }
}
