//! An approximation of BBR version 1 (Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016;
//! draft-cardwell-iccrg-bbr-congestion-control-00): what a connection sends follows the highest rate at which segments arrived and the
//! shortest round trip, not losses. In segments and nanoseconds.
//!
//! **Left out**: segments go out one by one rather than in bursts of a millisecond; there is no packet conservation in the first round
//! after a loss (a loss costs nothing); the cycle of gains begins at the same place in every connection, where BBR draws it; a rate is
//! measured by arrivals alone, not also by departures; a token-bucket policer is not recognised.

use std::collections::VecDeque;

/// Doubles the rate in each round: 2 / ln 2.
const STARTUP_GAIN: f64 = 2.885;
/// Of the window in the steady phase.
const WINDOW_GAIN: f64 = 2.0;
/// Of the rate, one round trip each.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Where the cycle is entered: not with less, after the queue was drained.
const CYCLE_FIRST: usize = 2;
/// Rounds over which the highest rate counts.
const RATE_ROUNDS: u64 = 10;
/// The pipe is full when the rate has not grown by this factor for so many rounds.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// How long the shortest round trip counts, and how long the queue is kept empty to see it again.
const RTT_COUNTS_NS: u64 = 10_000_000_000;
const PROBE_RTT_NS: u64 = 200_000_000;
/// The window then, and at least.
const WINDOW_MIN: f64 = 4.0;
/// The round trip that is supposed before one was measured.
const RTT_FIRST_NS: u64 = 1_000_000;

/// What was known when a segment left.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp {
    delivered: u64,
    delivered_at_ns: u64,
    /// The application had no more to send: the rate seen is no bound.
    idle: bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    Startup,
    Drain,
    Cruise { step: usize, since_ns: u64 },
    ProbeRtt { until_ns: Option<u64> },
}

/// The state of one connection.
#[derive(Clone, Debug)]
pub struct Bbr {
    phase: Phase,
    window: f64,
    window_first: f64,
    /// Rates of the last rounds, segments per second: falling, the highest first.
    rates: VecDeque<(u64, f64)>,
    rtt_min_ns: Option<u64>,
    rtt_min_at_ns: u64,
    /// The best rate of the start, and for how many rounds it has not grown.
    full: (f64, u32),
    /// Whether the start is over.
    was_full: bool,
    delivered: u64,
    delivered_at_ns: u64,
    round: u64,
    /// The round ends when a segment that left after so many had arrived does.
    round_ends_at: u64,
    /// Before so many have arrived, samples are of an application that had nothing to send.
    idle_until: u64,
}

impl Bbr {
    /// A connection that begins with a window of so many segments.
    pub fn new(window: f64) -> Bbr {
        Bbr {
            phase: Phase::Startup,
            window,
            window_first: window,
            rates: VecDeque::new(),
            rtt_min_ns: None,
            rtt_min_at_ns: 0,
            full: (0.0, 0),
            was_full: false,
            delivered: 0,
            delivered_at_ns: 0,
            round: 0,
            round_ends_at: 0,
            idle_until: 0,
        }
    }

    /// Segments that may be on their way.
    pub fn window(&self) -> f64 {
        self.window
    }

    /// Nanoseconds between two segments.
    pub fn gap_ns(&self) -> u64 {
        let gain = match self.phase {
            Phase::Startup => STARTUP_GAIN,
            Phase::Drain => 1.0 / STARTUP_GAIN,
            Phase::Cruise { step, .. } => CYCLE[step],
            Phase::ProbeRtt { .. } => 1.0,
        };
        let first = self.window_first * 1e9 / RTT_FIRST_NS as f64;
        (1e9 / (gain * self.rate().unwrap_or(first))) as u64
    }

    /// What a segment that leaves now has to remember.
    pub fn stamp(&mut self, now_ns: u64, in_flight: u32) -> Stamp {
        if in_flight == 0 {
            self.delivered_at_ns = now_ns;
        }
        let (delivered, delivered_at_ns) = (self.delivered, self.delivered_at_ns);
        Stamp { delivered, delivered_at_ns, idle: self.idle_until > self.delivered }
    }

    /// The application has nothing to send, and the window would allow more.
    pub fn note_idle(&mut self, in_flight: u32) {
        self.idle_until = self.delivered + u64::from(in_flight).max(1);
    }

    /// `count` segments have arrived; the latest of them left with `stamp`, `rtt_ns` ago if it was sent once; `in_flight` are left.
    pub fn deliver(&mut self, now_ns: u64, count: u32, stamp: Stamp, rtt_ns: Option<u64>, in_flight: u32) {
        self.delivered += u64::from(count);
        self.delivered_at_ns = now_ns;
        let round_over = stamp.delivered >= self.round_ends_at;
        if round_over {
            self.round += 1;
            self.round_ends_at = self.delivered;
        }
        let seconds = now_ns.saturating_sub(stamp.delivered_at_ns) as f64 / 1e9;
        let rate = (self.delivered - stamp.delivered) as f64 / seconds.max(1e-9);
        if !stamp.idle || self.rate().is_none_or(|best| rate > best) {
            self.note_rate(rate);
        }
        let stale = self.rtt_min_ns.is_some() && now_ns > self.rtt_min_at_ns + RTT_COUNTS_NS;
        if let Some(rtt_ns) = rtt_ns.filter(|&rtt_ns| stale || self.rtt_min_ns.is_none_or(|min| rtt_ns <= min)) {
            self.rtt_min_ns = Some(rtt_ns);
            self.rtt_min_at_ns = now_ns;
        }
        if round_over && self.phase == Phase::Startup && !stamp.idle {
            self.look_whether_full();
        }
        // After a rest the queue is empty, and what was just measured is the shortest round trip.
        self.change_phase(now_ns, in_flight, stale && !stamp.idle);
        self.open(count);
    }

    /// Nothing arrived for a whole timeout.
    pub fn start_over(&mut self) {
        self.window = 1.0;
    }

    fn rate(&self) -> Option<f64> {
        self.rates.front().map(|&(_, rate)| rate)
    }

    /// Segments on their way when the line is full and the queue empty.
    fn pipe(&self) -> f64 {
        match (self.rate(), self.rtt_min_ns) {
            (Some(rate), Some(rtt_ns)) => rate * rtt_ns as f64 / 1e9,
            _ => self.window_first,
        }
    }

    fn note_rate(&mut self, rate: f64) {
        while self.rates.back().is_some_and(|&(_, other)| other <= rate) {
            self.rates.pop_back();
        }
        self.rates.push_back((self.round, rate));
        while self.rates.front().is_some_and(|&(round, _)| round + RATE_ROUNDS < self.round) {
            self.rates.pop_front();
        }
    }

    fn look_whether_full(&mut self) {
        let rate = self.rate().unwrap_or(0.0);
        let (best, rounds) = self.full;
        self.full = if rate >= best * FULL_GROWTH { (rate, 0) } else { (best, rounds + 1) };
        if self.full.1 >= FULL_ROUNDS {
            self.phase = Phase::Drain;
            self.was_full = true;
        }
    }

    fn change_phase(&mut self, now_ns: u64, in_flight: u32, rtt_is_stale: bool) {
        let (pipe, in_flight) = (self.pipe(), f64::from(in_flight));
        let rtt_ns = self.rtt_min_ns.unwrap_or(RTT_FIRST_NS);
        self.phase = match self.phase {
            Phase::ProbeRtt { until_ns: None } if in_flight <= WINDOW_MIN => {
                Phase::ProbeRtt { until_ns: Some(now_ns + PROBE_RTT_NS.max(rtt_ns)) }
            }
            Phase::ProbeRtt { until_ns: Some(until_ns) } if now_ns >= until_ns => {
                self.rtt_min_at_ns = now_ns;
                self.window = self.window.max(pipe);
                if !self.was_full {
                    self.phase = Phase::Startup;
                    return;
                }
                Phase::Cruise { step: CYCLE_FIRST, since_ns: now_ns }
            }
            Phase::ProbeRtt { .. } => self.phase,
            _ if rtt_is_stale => Phase::ProbeRtt { until_ns: None },
            Phase::Drain if in_flight <= pipe => Phase::Cruise { step: CYCLE_FIRST, since_ns: now_ns },
            Phase::Cruise { step, since_ns } => {
                let over = now_ns - since_ns > rtt_ns;
                let next = match step {
                    0 => over && in_flight >= CYCLE[0] * pipe,
                    1 => over || in_flight <= pipe,
                    _ => over,
                };
                // A line that loses what it is offered more of never has so much on its way.
                let next = next || now_ns - since_ns > 2 * rtt_ns;
                if next { Phase::Cruise { step: (step + 1) % CYCLE.len(), since_ns: now_ns } } else { self.phase }
            }
            phase => phase,
        };
    }

    fn open(&mut self, count: u32) {
        let count = f64::from(count);
        let gain = if matches!(self.phase, Phase::Startup | Phase::Drain) { STARTUP_GAIN } else { WINDOW_GAIN };
        let target = (gain * self.pipe()).max(WINDOW_MIN);
        self.window = match self.phase {
            Phase::ProbeRtt { .. } => WINDOW_MIN,
            _ if self.was_full => (self.window + count).min(target),
            _ if self.window < target || self.delivered < self.window_first as u64 => self.window + count,
            _ => self.window,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A line that takes a segment every `gap`, 10 ms one way, and an empty queue at first; what is sent goes in at once.
    struct Line {
        bbr: Bbr,
        now: u64,
        free_at: u64,
        gap: u64,
        flight: VecDeque<(u64, u64, Stamp)>,
        longest: usize,
    }

    impl Line {
        fn run(&mut self, until: u64) -> u64 {
            let (before, mut next_send) = (self.bbr.delivered, self.now);
            while self.now < until {
                let arrival = self.flight.front().map(|&(at, ..)| at);
                let may_send = (self.flight.len() as f64) < self.bbr.window();
                if may_send && arrival.is_none_or(|at| next_send.max(self.now) < at) {
                    self.now = next_send.max(self.now);
                    let stamp = self.bbr.stamp(self.now, self.flight.len() as u32);
                    self.free_at = self.free_at.max(self.now) + self.gap;
                    self.flight.push_back((self.free_at + 20 * MS, self.now, stamp));
                    next_send = self.now + self.bbr.gap_ns();
                } else if let Some((at, sent, stamp)) = self.flight.pop_front() {
                    self.now = at;
                    self.bbr.deliver(at, 1, stamp, Some(at - sent), self.flight.len() as u32);
                }
                if self.now > until / 2 {
                    self.longest = self.longest.max(self.flight.len());
                }
            }
            self.bbr.delivered - before
        }
    }

    fn line(gap: u64) -> Line {
        Line { bbr: Bbr::new(10.0), now: 0, free_at: 0, gap, flight: VecDeque::new(), longest: 0 }
    }

    #[test]
    fn it_finds_the_rate_and_the_round_trip_and_keeps_the_queue_short() {
        let mut line = line(MS / 10);
        let delivered = line.run(4_000 * MS);
        // 10,000 segments a second, 20.1 ms: 201 segments fill the line.
        assert!(delivered > 38_000, "{delivered} of 40,000");
        let (rate, rtt) = (line.bbr.rate().expect("measured"), line.bbr.rtt_min_ns.expect("measured"));
        assert!((rate / 10_000.0 - 1.0).abs() < 0.02, "{rate}");
        assert!(rtt < 21 * MS, "{rtt}");
        assert!(matches!(line.bbr.phase, Phase::Cruise { .. }), "{:?}", line.bbr.phase);
        assert!(line.longest < 300, "{} on their way, of 201 that fill the line", line.longest);
    }

    #[test]
    fn it_empties_the_queue_every_ten_seconds_to_see_the_round_trip() {
        let mut line = line(MS / 10);
        line.bbr.rtt_min_ns = Some(5 * MS);
        let mut seen = false;
        for second in 1..=12 {
            line.run(second * 1_000 * MS);
            for step in 0..10 {
                line.run(second * 1_000 * MS + step * 50 * MS);
                seen |= matches!(line.bbr.phase, Phase::ProbeRtt { .. });
            }
        }
        assert!(seen, "the shortest round trip was not looked for");
        assert!(line.bbr.rtt_min_ns.expect("measured") > 19 * MS, "one that was shorter does not count any more");
    }

    #[test]
    fn a_slower_line_is_believed_after_ten_rounds() {
        let mut line = line(MS / 10);
        line.run(1_000 * MS);
        line.gap = MS;
        line.run(6_000 * MS);
        let rate = line.bbr.rate().expect("measured");
        assert!((rate / 1_000.0 - 1.0).abs() < 0.05, "{rate} segments a second");
    }

    #[test]
    fn a_connection_that_begins_late_or_rests_long_still_doubles() {
        for rest in [11_000 * MS, 60_000 * MS] {
            let mut line = line(MS / 10);
            line.now = rest;
            line.run(rest + 1_000 * MS);
            assert!(line.bbr.was_full && line.bbr.delivered > 8_000, "{} of 10,000", line.bbr.delivered);
        }
        // A segment every five seconds, for a minute, then as many as fit.
        let mut line = line(MS / 10);
        for at in (0..12).map(|i| i * 5_000 * MS) {
            line.bbr.note_idle(0);
            let stamp = line.bbr.stamp(at, 0);
            line.bbr.deliver(at + 20 * MS, 1, stamp, Some(20 * MS), 0);
            assert_eq!(line.bbr.phase, Phase::Startup);
        }
        line.now = 60_000 * MS;
        let delivered = line.run(61_000 * MS);
        assert!(delivered > 8_000, "{delivered} of 10,000");
    }

    #[test]
    fn after_a_timeout_it_starts_with_one_segment() {
        let mut bbr = Bbr::new(10.0);
        bbr.start_over();
        assert_eq!(bbr.window(), 1.0);
    }
}
