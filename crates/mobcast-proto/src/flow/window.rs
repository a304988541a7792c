//! The request window of a link (design: windows follow rate × RTT). Published MOB keeps five requests in flight, which
//! at 100 ms starves a link; here the bytes requested and not yet received follow the measured delivery rate and the
//! shortest round-trip time, as BBR's inflight does (Cardwell et al., ACM Queue 2016): while the window binds, each
//! round trip doubles the measured rate and so the window; when the link binds, it settles.

use crate::limits::CHUNK_TIME;
use crate::time::{Duration, Time, rate_bytes_per_s};

/// Window of a fresh link, bytes: keeps it busy until its rate is known.
const WINDOW_FIRST: u64 = 64 << 10;
/// At most so much more is asked for because of chunks that are on their way unseen, bytes: a fast link has several under way.
const UNSEEN_MAX: u64 = WINDOW_FIRST;
/// The same inside a cluster, whatever the rate: at pieces of 64 KiB one is on its way and one behind it. No share changes
/// hands there, and whoever serves many peers alike should always have somebody to serve.
const UNSEEN_LOCAL: u64 = 96 << 10;
/// Inside a cluster no peer counts as farther than the nearest one and this: what was measured when cards were busy already
/// is the time in their queues. Whoever reckoned with it would ask for more, and take the card from those who do not.
const NEAR: Duration = Duration::from_millis(5);
/// Added to two round trips: what scheduling, batching and disk reads of the peer may take. On top comes a chunk:
/// bytes are seen to arrive only when the chunk is complete that they are in.
const SLACK: Duration = Duration::from_millis(10);
/// While a link opens, so many times the window that the rate seen so far would have is enough.
const OPENING_GAIN: u64 = 3;
/// Delivery-rate samples of which the largest counts.
const SAMPLES: usize = 8;
/// Samples older than this no longer count, so that the window follows a link that has become slow.
const SAMPLE_AGE_MAX: Duration = Duration::from_secs(3);
/// Round-trip time assumed before the first measurement.
const RTT_UNKNOWN: Duration = Duration::from_millis(1);

/// What was true when a request was sent; comes back when it is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestMark {
    sent_at: Time,
    delivered: u64,
}

/// The window of one link.
#[derive(Clone, Debug, Default)]
pub struct Window {
    local: bool,
    rtt_min: Option<Duration>,
    /// The same of the nearest peer of the cluster.
    nearest: Option<Duration>,
    delivered: u64,
    outstanding: u64,
    /// Requests that are not served in full.
    requests: u32,
    /// How many of them there may be, where that is fixed.
    requests_max: Option<u32>,
    /// When bytes arrived last, or the first of those outstanding were requested.
    alive_at: Time,
    samples: Vec<(Time, u64)>,
    /// The largest of them.
    rate_bytes_per_s: u64,
    /// Bytes that should be outstanding, once there are samples.
    size: u64,
    opening: Opening,
}

/// The opening of a link to another cluster. While its connection is in slow start, each round trip brings twice as much as the one before, if as
/// much was asked for: what has arrived is asked for once more, though whole pieces say nothing of the rate yet, or too little. It ends
/// with the first round trip that brings at most a quarter more than the best one before, as BBR's start-up after three.
#[derive(Clone, Debug, Default)]
struct Opening {
    is_over: bool,
    /// When the link was asked first.
    since: Option<Time>,
    /// Bytes delivered at the end of the last round trip, and the best rate until then.
    round: (u64, u64),
    /// So much may be outstanding, bytes.
    size: u64,
}

impl Window {
    /// Whether the peer is of the same cluster.
    pub fn set_local(&mut self, local: bool) {
        self.local = local;
        self.resize();
    }

    /// A round-trip time was measured.
    pub fn handle_rtt(&mut self, rtt: Duration) {
        self.rtt_min = Some(self.rtt_min.map_or(rtt, |min| min.min(rtt)));
        self.resize();
    }

    /// The shortest round-trip time to any peer of the cluster; it counts if this one is of the cluster.
    pub fn set_nearest(&mut self, rtt: Option<Duration>) {
        self.nearest = rtt;
        self.resize();
    }

    /// Keeps a fixed number of requests outstanding, as published algorithms do, whatever rate and round-trip time.
    pub fn set_requests_max(&mut self, requests: u32) {
        self.requests_max = Some(requests);
    }

    /// Bytes were requested.
    pub fn handle_request(&mut self, now: Time, bytes: u32) -> RequestMark {
        if self.outstanding == 0 {
            self.alive_at = now;
        }
        self.opening.since.get_or_insert(now);
        self.outstanding += u64::from(bytes);
        self.requests += 1;
        RequestMark { sent_at: now, delivered: self.delivered }
    }

    /// Requested bytes have arrived.
    pub fn handle_bytes(&mut self, now: Time, bytes: u32) {
        self.alive_at = now;
        self.delivered += u64::from(bytes);
        self.outstanding = self.outstanding.saturating_sub(u64::from(bytes));
        self.open(now);
    }

    fn open(&mut self, now: Time) {
        let Some(since) = self.opening.since.filter(|_| !self.local && !self.opening.is_over) else { return };
        let rate = rate_bytes_per_s(self.delivered, now.since(since).max(self.rtt_min())).max(self.rate_bytes_per_s);
        let most = (self.rtt_min().times(2) + SLACK).bytes_at(rate) * OPENING_GAIN;
        self.opening.size = (WINDOW_FIRST + self.delivered).min(most);
    }

    /// The last byte of a request has arrived: a sample of the delivery rate.
    pub fn handle_served(&mut self, now: Time, mark: RequestMark) {
        self.requests = self.requests.saturating_sub(1);
        let elapsed = now.since(mark.sent_at);
        let sample = rate_bytes_per_s(self.delivered - mark.delivered, elapsed.max(Duration::from_micros(50)));
        self.samples.retain(|&(at, _)| now.since(at) < SAMPLE_AGE_MAX);
        if self.samples.len() == SAMPLES {
            self.samples.remove(0);
        }
        self.samples.push((now, sample));
        self.rate_bytes_per_s = self.samples.iter().map(|&(_, rate)| rate).max().unwrap_or(0);
        let (end, best) = self.opening.round;
        if mark.delivered >= end {
            self.opening.is_over |= self.rate_bytes_per_s <= best + best / 4;
            self.opening.round = (self.delivered, best.max(self.rate_bytes_per_s));
        }
        self.resize();
    }

    /// The rest of a request, so many bytes, will not arrive.
    pub fn handle_dropped(&mut self, bytes: u32) {
        self.requests = self.requests.saturating_sub(1);
        self.outstanding = self.outstanding.saturating_sub(u64::from(bytes));
    }

    /// Bytes requested and not yet received.
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Requests that are not served in full.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// Payload bytes received in answer to requests, ever.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Measured delivery rate, bytes per second; zero before the first sample.
    pub fn rate_bytes_per_s(&self) -> u64 {
        self.rate_bytes_per_s
    }

    /// Whether a request was served lately, so that its rate says something.
    pub fn was_tried_lately(&self, now: Time) -> bool {
        self.samples.last().is_some_and(|&(at, _)| now.since(at) < SAMPLE_AGE_MAX)
    }

    /// Shortest round-trip time seen.
    pub fn rtt_min(&self) -> Duration {
        self.rtt_min.unwrap_or(RTT_UNKNOWN)
    }

    /// Shortest round-trip time seen, if any was.
    pub fn rtt_measured(&self) -> Option<Duration> {
        self.rtt_min
    }

    /// Time since bytes arrived last, or since the first of those outstanding were requested.
    pub fn quiet_for(&self, now: Time) -> Duration {
        now.since(self.alive_at)
    }

    /// How long something has been outstanding without a byte arriving.
    pub fn stalled_for(&self, now: Time) -> Duration {
        if self.outstanding == 0 { Duration::ZERO } else { self.quiet_for(now) }
    }

    /// Bytes that should be outstanding.
    pub fn size(&self) -> u64 {
        let size = if self.samples.is_empty() { WINDOW_FIRST } else { self.size };
        if self.opening.is_over { size } else { size.max(self.opening.size) }
    }

    fn resize(&mut self) {
        let rate = self.rate_bytes_per_s;
        let unseen = if self.local { UNSEEN_LOCAL } else { CHUNK_TIME.bytes_at(rate).min(UNSEEN_MAX) };
        let near = self.nearest.filter(|_| self.local).map(|rtt| rtt + NEAR);
        let rtt = near.map_or(self.rtt_min(), |near| self.rtt_min().min(near));
        self.size = (rtt.times(2) + SLACK).bytes_at(rate) + unseen;
    }

    /// Whether another request should be sent: the window is not full. Pieces are not split for it, so that the
    /// bytes outstanding may exceed it by one piece.
    pub fn has_room(&self) -> bool {
        self.requests_max.map_or_else(|| self.outstanding < self.size(), |max| self.requests < max)
    }

    /// Time until everything outstanding will have arrived, as far as can be told at `now`: a peer that has sent nothing for
    /// long will mostly go on like that for as long again, whatever its rate was before. Who has sent nothing yet is no slow one until it
    /// could have sent something.
    pub fn time_left(&self, now: Time) -> Duration {
        let at_its_rate = if self.rate_bytes_per_s() > 0 { self.time_to_receive(0) } else { self.rtt_min() };
        at_its_rate.max(self.stalled_for(now))
    }

    /// Time until everything outstanding, and `bytes` more, will have arrived.
    pub fn time_to_receive(&self, bytes: u64) -> Duration {
        self.rtt_min() + Duration::for_bytes(self.outstanding + bytes, self.rate_bytes_per_s().max(1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that delivers 64 KiB requests at `rate` after a round trip, and a requester that obeys the window.
    fn run(rate: u64, rtt: Duration, until: Time) -> Window {
        const REQUEST: u32 = 64 << 10;
        let mut window = Window::default();
        window.handle_rtt(rtt);
        let mut in_flight = std::collections::VecDeque::new();
        let (mut now, mut free_at) = (Time::ZERO, Time::ZERO);
        while now < until {
            while window.has_room() {
                let mark = window.handle_request(now, REQUEST);
                free_at = free_at.max(now + rtt) + Duration::for_bytes(u64::from(REQUEST), rate);
                in_flight.push_back((free_at, mark));
            }
            let (arrival, mark) = in_flight.pop_front().expect("the window admits at least one request");
            now = arrival;
            window.handle_bytes(now, REQUEST);
            window.handle_served(now, mark);
        }
        window
    }

    #[test]
    fn a_long_link_is_filled() {
        let window = run(50_000_000, Duration::from_millis(100), Time(4_000_000_000));
        assert!(window.rate_bytes_per_s() > 48_000_000, "{}", window.rate_bytes_per_s());
        assert!(window.size() > 10_000_000 && window.size() < 12_000_000, "{}", window.size());
    }

    /// A connection in slow start delivers 10 packets in its first round trip and twice as many in each one after it, if it has them to
    /// send. Returns bytes delivered after each round trip.
    fn slow_start(piece: u64, rtt: Duration, rounds: u32) -> Vec<u64> {
        let (mut window, mut marks) = (Window::default(), std::collections::VecDeque::new());
        window.handle_rtt(rtt);
        let (mut now, mut congestion_window, mut rest) = (Time::ZERO, 14_480, piece);
        let mut delivered = vec![];
        for _ in 0..rounds {
            while window.has_room() {
                marks.push_back(window.handle_request(now, piece as u32));
            }
            now += rtt;
            let sent = congestion_window.min(window.outstanding());
            let mut left = sent;
            while left > 0 {
                let bytes = left.min(rest);
                window.handle_bytes(now, bytes as u32);
                (left, rest) = (left - bytes, rest - bytes);
                if rest == 0 {
                    window.handle_served(now, marks.pop_front().expect("it was asked for"));
                    rest = piece;
                }
            }
            if sent == congestion_window {
                congestion_window *= 2;
            }
            delivered.push(window.delivered());
        }
        delivered
    }

    #[test]
    fn a_connection_in_slow_start_always_has_something_to_send() {
        for piece in [32 << 10, 256 << 10] {
            let delivered = slow_start(piece, Duration::from_millis(200), 9);
            let doubling: Vec<u64> = (1..=9).map(|round| ((1 << round) - 1) * 14_480).collect();
            assert_eq!(delivered, doubling, "pieces of {piece} bytes");
        }
    }

    #[test]
    fn a_link_that_brings_no_more_has_opened() {
        let mut window = run(50_000_000, Duration::from_millis(100), Time(2_000_000_000));
        assert!(window.opening.is_over);
        let size = window.size();
        window.handle_request(Time(2_000_000_000), 10_000_000);
        window.handle_bytes(Time(2_100_000_000), 10_000_000);
        assert_eq!(window.size(), size, "what has arrived says nothing any more");
        let mut local = Window::default();
        local.set_local(true);
        local.handle_request(Time::ZERO, 1_000_000);
        local.handle_bytes(Time(1_000_000), 1_000_000);
        assert_eq!(local.size(), WINDOW_FIRST, "inside a cluster nothing opens");
    }

    #[test]
    fn a_slow_link_is_asked_for_one_piece_at_a_time() {
        let window = run(100_000, Duration::from_millis(20), Time(20_000_000_000));
        assert!(window.size() < 16 << 10, "{}: a tenth of a second ahead", window.size());
    }

    #[test]
    fn a_fixed_number_of_requests_counts_in_place_of_bytes() {
        let mut window = Window::default();
        window.set_requests_max(2);
        let marks = [1, 10_000_000].map(|bytes| window.handle_request(Time::ZERO, bytes));
        assert!(!window.has_room());
        window.handle_bytes(Time::ZERO, 1);
        window.handle_served(Time::ZERO, marks[0]);
        assert!(window.has_room(), "one is left, whatever it asks for");
        window.handle_dropped(10_000_000);
        assert_eq!((window.requests(), window.outstanding()), (0, 0));
    }

    #[test]
    fn old_samples_do_not_count() {
        let mut window = run(50_000_000, Duration::from_millis(20), Time(2_000_000_000));
        let mark = window.handle_request(Time(10_000_000_000), 100_000);
        window.handle_bytes(Time(11_000_000_000), 100_000);
        window.handle_served(Time(11_000_000_000), mark);
        assert_eq!(window.rate_bytes_per_s(), 100_000);
    }

    #[test]
    fn who_falls_silent_is_waited_for_longer_and_longer() {
        let mut window = Window::default();
        let mark = window.handle_request(Time::ZERO, 100_000);
        let asked = Time::ZERO + Duration::from_millis(100);
        window.handle_bytes(asked, 100_000);
        window.handle_served(asked, mark);
        window.handle_request(asked, 100_000);
        let after = |s: u64| window.time_left(asked + Duration::from_secs(s));
        assert_eq!(after(0), RTT_UNKNOWN + Duration::from_millis(100), "a megabyte a second");
        assert_eq!(after(5), Duration::from_secs(5));
    }

    #[test]
    fn who_was_asked_just_now_for_the_first_time_is_not_slow() {
        let mut window = Window::default();
        window.handle_rtt(Duration::from_millis(100));
        window.handle_request(Time::ZERO, 1_000_000);
        let after = |s: u64| window.time_left(Time::ZERO + Duration::from_secs(s));
        assert_eq!(after(0), Duration::from_millis(100), "nobody knows its rate");
        assert_eq!(after(5), Duration::from_secs(5));
    }

    #[test]
    fn inside_a_cluster_a_window_never_falls_below_its_floor() {
        let window = |local| {
            let mut window = Window::default();
            window.set_local(local);
            window.handle_rtt(Duration::from_micros(100));
            let mark = window.handle_request(Time::ZERO, 64 << 10);
            window.handle_bytes(Time::ZERO + Duration::from_secs(1), 64 << 10);
            window.handle_served(Time::ZERO + Duration::from_secs(1), mark);
            window.size()
        };
        assert!(window(true) >= UNSEEN_LOCAL, "{}", window(true));
        assert!(window(false) < UNSEEN_MAX / 10, "64 KiB a second from another cluster: {}", window(false));
    }

    #[test]
    fn inside_a_cluster_time_in_queues_does_not_widen_a_window() {
        let size = |local, rtt_ms| {
            let mut window = run(10_000_000, Duration::from_millis(rtt_ms), Time(2_000_000_000));
            window.set_local(local);
            window.set_nearest(Some(Duration::from_millis(1)));
            window.size()
        };
        assert!(size(true, 40) < size(true, 6) + 10_000, "{} {}", size(true, 40), size(true, 6));
        assert!(size(false, 40) > size(false, 6) + 500_000, "{} {}", size(false, 40), size(false, 6));
    }
}
