//! A short transfer that measures what a link carries, at the node that receives it: how much is asked for at a time, when the
//! rate has settled, and what it is then. Whose link, and when, is decided elsewhere.
//!
//! Asking for more begins small and doubles with each round trip. The rate is taken in periods; the first ones, in which TCP
//! starts up, do not count. The rate is the best of some periods in a row, because TCP is slower for a while when it has lost
//! packets, and never faster than the link; it is over when the next ones have been no better.

use crate::limits::{FILLER_BYTES_MAX, PROBE_BYTES_MAX, PROBE_WINDOW_MAX};
use crate::time::{Duration, Time, rate_bytes_per_s};

/// What is asked for at first: half the window that TCP starts with, several times.
const WINDOW_MIN: u64 = 64 << 10;
/// The least that is asked for at once.
const REQUEST_BYTES_MIN: u64 = 16 << 10;
/// Requests that the window is divided into, so that the next ones are on their way while one is served.
const REQUESTS: u64 = 8;
/// The shortest period: a scheduler's pauses of a few milliseconds are a small part of it.
const PERIOD_MIN: Duration = Duration::from_millis(200);
/// The longest, whatever the round trip.
const PERIOD_MAX: Duration = Duration::from_millis(500);
/// Round trips of a period, so that a burst and the pause behind it are in the same one.
const PERIOD_ROUND_TRIPS: u64 = 4;
/// A period is long enough when so much has come, on links where the shortest one takes much more.
const PERIOD_BYTES: u64 = 32 << 20;
/// Periods after which the rate is taken as it is: 2.8 to 7 s.
const PERIODS_MAX: usize = 14;
/// Periods that do not count, in which TCP starts up, and what it has lost doing so comes again.
const START_UP: usize = 2;
/// Periods in a row over which a rate is taken: what a loss has held back comes with what follows, and must not count twice.
const IN_A_ROW: usize = 3;
/// So many later ones that are no better end it.
const NO_BETTER: usize = 2;
/// Better is by more than one part in so many.
const BETTER: u64 = 33;

/// One such transfer.
#[derive(Clone, Debug)]
pub struct Probe {
    period_min: Duration,
    round_trips: Duration,
    window: u64,
    requested: u64,
    outstanding: u64,
    received: u64,
    /// When the period began, at the arrival of something, and what has come since.
    period: Option<(Time, u64)>,
    periods: Vec<(Duration, u64)>,
    /// The best rate so far, and how many periods there were when it was found.
    best: (u64, usize),
}

impl Probe {
    /// Over a link with this round-trip time.
    pub fn new(rtt: Duration) -> Probe {
        let round_trips = rtt.times(PERIOD_ROUND_TRIPS);
        Probe {
            period_min: round_trips.clamp(PERIOD_MIN, PERIOD_MAX),
            round_trips: round_trips.min(PERIOD_MAX),
            window: WINDOW_MIN,
            requested: 0,
            outstanding: 0,
            received: 0,
            period: None,
            periods: Vec::new(),
            best: (0, 0),
        }
    }

    /// Bytes that have arrived.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// How much to ask for next; none if enough is on its way.
    pub fn next_request(&mut self) -> Option<u32> {
        let size = (self.window / REQUESTS).next_power_of_two();
        let size = size.clamp(REQUEST_BYTES_MIN, u64::from(FILLER_BYTES_MAX));
        if self.outstanding + size > self.window || self.requested + size > PROBE_BYTES_MAX {
            return None;
        }
        self.requested += size;
        self.outstanding += size;
        Some(size as u32)
    }

    /// Something has arrived. Returns the rate in bytes per second when that is known.
    pub fn handle_received(&mut self, now: Time, bytes: u64) -> Option<u64> {
        self.received += bytes;
        self.outstanding = self.outstanding.saturating_sub(bytes);
        self.window = (self.window + bytes).min(PROBE_WINDOW_MAX);
        let Some((began, so_far)) = &mut self.period else {
            self.period = Some((now, 0));
            return None;
        };
        *so_far += bytes;
        let (elapsed, so_far) = (now.since(*began), *so_far);
        let is_long = elapsed >= self.period_min || so_far >= PERIOD_BYTES && elapsed >= self.round_trips;
        let is_all = self.outstanding == 0 && self.requested + u64::from(FILLER_BYTES_MAX) > PROBE_BYTES_MAX;
        if !is_long && !is_all {
            return None;
        }
        self.periods.push((elapsed, so_far));
        self.period = Some((now, 0));
        let count = self.periods.len();
        if count >= START_UP + IN_A_ROW {
            let rate = rate_of(&self.periods[count - IN_A_ROW..]);
            let is_better = rate > self.best.0.saturating_add(self.best.0 / BETTER);
            self.best = (self.best.0.max(rate), if is_better { count } else { self.best.1 });
            if count >= self.best.1 + NO_BETTER || count >= PERIODS_MAX {
                return Some(self.best.0);
            }
        }
        is_all.then(|| self.best.0.max(rate_of(&self.periods[count / 2..])))
    }
}

fn rate_of(periods: &[(Duration, u64)]) -> u64 {
    let (elapsed, bytes) = periods.iter().fold((0, 0), |sum, &(elapsed, bytes)| (sum.0 + elapsed.0, sum.1 + bytes));
    rate_bytes_per_s(bytes, Duration(elapsed))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A link of this rate and round-trip time, that takes a while to come up to its rate. Returns what was measured, when that
    /// was known, and the most that was on its way.
    fn measure(rate: u64, rtt: Duration, start_up: Duration) -> (u64, Time, u64) {
        let mut probe = Probe::new(rtt);
        let mut on_their_way = std::collections::VecDeque::new();
        let (mut now, mut free_at, mut most) = (Time::ZERO, Time::ZERO, 0);
        for _ in 0..1_000_000 {
            while let Some(bytes) = probe.next_request() {
                let slow = if now < Time::ZERO + start_up { 4 } else { 1 };
                free_at = free_at.max(now) + Duration::for_bytes(u64::from(bytes) * slow, rate);
                on_their_way.push_back((free_at + rtt, u64::from(bytes)));
            }
            most = most.max(probe.outstanding);
            let (at, bytes) = on_their_way.pop_front().expect("something is always asked for");
            now = at;
            if let Some(rate) = probe.handle_received(now, bytes) {
                return (rate, now, most);
            }
        }
        panic!("it never ends");
    }

    #[test]
    fn the_start_does_not_count() {
        let (rate, at, _) = measure(3_000_000, Duration::from_millis(20), Duration::from_millis(300));
        assert!((2_950_000..=3_050_000).contains(&rate), "{rate}");
        assert!(at < Time::ZERO + Duration::from_secs(3), "{at:?}");
    }

    proptest! {
        #[test]
        fn any_link_is_measured_soon_and_within_its_limits(
            rate in 50_000u64..5_000_000_000,
            rtt_us in 50u64..300_000,
        ) {
            let rtt = Duration::from_micros(rtt_us);
            let (measured, at, most) = measure(rate, rtt, Duration::ZERO);
            // Over a long way, the window is what limits.
            let possible = rate.min(rate_bytes_per_s(PROBE_WINDOW_MAX, rtt));
            prop_assert!(measured <= rate + rate / 10, "{measured} of {rate}");
            prop_assert!(measured >= possible / 2, "{measured} of {possible}");
            prop_assert!(at < Time::ZERO + Duration::from_secs(9), "{at:?}");
            prop_assert!(most <= PROBE_WINDOW_MAX);
        }
    }
}
