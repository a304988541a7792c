//! The sender of ns-2's `Agent/TCP/Reno`, version 2.1b8, whose rules and defaults the striping paper's figures depend on. What
//! happens on loss is RFC 5681 in this form:
//!
//! - the window opens by one segment for each acknowledgement in slow start, else by its inverse;
//! - three duplicate acknowledgements resend one segment and halve the window; each further one lets a new segment out; the
//!   first new acknowledgement ends it, also if more was lost (no partial acknowledgements); never twice in one window of data;
//! - one segment at a time is timed, none that was resent (Karn and Partridge, 1987); times are counted in ticks of 0.1 s
//!   (Jacobson, 1988); the first timeout is 6 s, later ones at least two ticks;
//! - after a timeout everything from the first missing segment on is sent again.

use super::{SenderCounters, TcpSettings};

/// What times are counted in.
const TICK_NS: u64 = 100_000_000;
/// Duplicate acknowledgements that mean a loss.
const DUPLICATES: u32 = 3;
/// The timeout doubles at most so often.
const BACKOFF_MAX: u64 = 64;
/// Above this the measured round-trip time is forgotten.
const BACKOFF_DISTRUST: u64 = 8;
/// Binary places of the smoothed round-trip time, and of its variation.
const SRTT_BITS: u32 = 3;
const RTTVAR_BITS: u32 = 2;

/// The sending end.
#[derive(Clone, Debug)]
pub struct Ns2Sender {
    settings: TcpSettings,
    /// Segments that the application has given so far.
    supplied: u32,
    /// Segments acknowledged in order: the number of the first that is not.
    acknowledged: u32,
    /// The next segment to send.
    next: u32,
    /// Segments sent at least once.
    reached: u32,
    window: f64,
    threshold: f64,
    duplicates: u32,
    /// By how much the window is larger because of segments that have left the network.
    inflation: u32,
    /// Duplicates say nothing new until this many are acknowledged.
    recover: u32,
    resend: Option<u32>,
    timed: Option<(u32, u64)>,
    /// The latest segment that was timed.
    timed_last: Option<u32>,
    srtt_ticks: u64,
    rttvar_ticks: u64,
    timeout_ns: u64,
    backoff: u64,
    deadline_ns: Option<u64>,
    counters: SenderCounters,
}

impl Ns2Sender {
    /// A sender without anything to send.
    pub fn new(settings: TcpSettings) -> Ns2Sender {
        Ns2Sender {
            settings,
            supplied: 0,
            acknowledged: 0,
            next: 0,
            reached: 0,
            window: settings.window_first,
            threshold: f64::from(settings.window_max),
            duplicates: 0,
            inflation: 0,
            recover: 1,
            resend: None,
            timed: None,
            timed_last: None,
            srtt_ticks: 0,
            rttvar_ticks: 12,
            timeout_ns: settings.timeout_first_ns,
            backoff: 1,
            deadline_ns: None,
            counters: SenderCounters::default(),
        }
    }

    /// The application gives `segments` more.
    pub fn supply(&mut self, segments: u32) {
        self.supplied += segments;
    }

    /// Whether everything that was given is acknowledged.
    pub fn is_done(&self) -> bool {
        self.acknowledged == self.supplied
    }

    /// Segments acknowledged in order.
    pub fn acknowledged(&self) -> u32 {
        self.acknowledged
    }

    /// Segments that were given and never sent.
    pub fn unsent(&self) -> u32 {
        self.supplied - self.reached
    }

    /// The congestion window in segments.
    pub fn window(&self) -> f64 {
        self.window
    }

    /// The slow-start threshold in segments.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// When [`Ns2Sender::handle_timeout`] wants to be called.
    pub fn deadline_ns(&self) -> Option<u64> {
        self.deadline_ns
    }

    /// What it has done.
    pub fn counters(&self) -> SenderCounters {
        self.counters
    }

    /// The next segment that may leave now.
    pub fn poll(&mut self, now_ns: u64) -> Option<u32> {
        let segment = match self.resend.take() {
            Some(segment) => segment,
            None if self.next < self.supplied && self.next < self.acknowledged + self.allowed() => {
                self.next += 1;
                self.next - 1
            }
            None => return None,
        };
        self.counters.sent += 1;
        if segment >= self.reached {
            self.reached = segment + 1;
            if self.timed.is_none() && self.timed_last.is_none_or(|last| segment > last) {
                self.timed = Some((segment, now_ns));
                self.timed_last = Some(segment);
            }
        } else {
            self.counters.resent += 1;
        }
        if self.deadline_ns.is_none() {
            self.start_timer(now_ns);
        }
        Some(segment)
    }

    /// The receiver has all segments before `expected` and is told about another one.
    pub fn handle_ack(&mut self, now_ns: u64, expected: u32) {
        if expected > self.acknowledged {
            self.inflation = 0;
            self.duplicates = 0;
            self.acknowledged = expected;
            self.next = self.next.max(expected);
            self.measure(now_ns, expected);
            if self.reached > expected {
                self.start_timer(now_ns)
            } else {
                self.deadline_ns = None
            }
            self.open();
        } else if expected == self.acknowledged && self.reached > expected {
            self.duplicates += 1;
            if self.duplicates == DUPLICATES {
                self.lose(now_ns);
                self.inflation = DUPLICATES;
            } else if self.duplicates > DUPLICATES {
                self.inflation += 1;
            }
        }
    }

    /// If the deadline has passed without an acknowledgement, starts over from the first missing segment.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        if self.deadline_ns.is_none_or(|at| at > now_ns) {
            return;
        }
        self.counters.timeouts += 1;
        self.recover = self.reached;
        self.halve_threshold();
        self.window = 1.0;
        self.duplicates = 0;
        self.inflation = 0;
        self.back_off();
        self.next = self.acknowledged;
        self.resend = None;
        self.timed = None;
        self.start_timer(now_ns);
    }

    /// Segments that may be sent and not acknowledged.
    fn allowed(&self) -> u32 {
        let window = self.window.min(f64::from(self.settings.window_max)) as u32;
        (window + self.inflation).min(self.settings.window_max)
    }

    fn open(&mut self) {
        if self.window < self.threshold {
            self.window += 1.0;
        } else {
            self.window += 1.0 / self.window;
        }
    }

    fn lose(&mut self, now_ns: u64) {
        if self.acknowledged <= self.recover {
            return;
        }
        self.counters.fast_retransmits += 1;
        self.recover = self.reached;
        self.halve_threshold();
        self.window = self.threshold;
        self.timed = None;
        self.resend = Some(self.acknowledged);
        self.start_timer(now_ns);
    }

    fn halve_threshold(&mut self) {
        let window = self.window.min(f64::from(self.settings.window_max));
        self.threshold = (window / 2.0).floor().max(2.0);
    }

    fn start_timer(&mut self, now_ns: u64) {
        let timeout = (self.timeout_ns * self.backoff).min(self.settings.timeout_max_ns);
        self.deadline_ns = Some(now_ns + timeout.max(2 * TICK_NS));
    }

    fn back_off(&mut self) {
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        if self.backoff > BACKOFF_DISTRUST {
            self.rttvar_ticks += self.srtt_ticks >> SRTT_BITS;
            self.srtt_ticks = 0;
        }
    }

    fn measure(&mut self, now_ns: u64, expected: u32) {
        let Some((_, sent_at_ns)) = self.timed.filter(|&(segment, _)| expected > segment) else { return };
        self.timed = None;
        self.backoff = 1;
        let ticks = ((now_ns - sent_at_ns + TICK_NS / 2) / TICK_NS).max(1);
        if self.srtt_ticks == 0 {
            self.srtt_ticks = ticks << SRTT_BITS;
            self.rttvar_ticks = ticks << (RTTVAR_BITS - 1);
        } else {
            let delta = ticks as i64 - (self.srtt_ticks >> SRTT_BITS) as i64;
            self.srtt_ticks = (self.srtt_ticks as i64 + delta).max(1) as u64;
            let delta = delta.abs() - (self.rttvar_ticks >> RTTVAR_BITS) as i64;
            self.rttvar_ticks = (self.rttvar_ticks as i64 + delta).max(1) as u64;
        }
        // The smoothed time and four variations, in whole ticks.
        let timeout_ticks = ((self.rttvar_ticks << (SRTT_BITS - RTTVAR_BITS + 2)) + self.srtt_ticks) >> SRTT_BITS;
        self.timeout_ns = timeout_ticks * TICK_NS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    fn sender(segments: u32) -> Ns2Sender {
        let mut sender = Ns2Sender::new(TcpSettings::ns2(64));
        sender.supply(segments);
        sender
    }

    fn burst(sender: &mut Ns2Sender, now_ns: u64) -> Vec<u32> {
        std::iter::from_fn(|| sender.poll(now_ns)).collect()
    }

    #[test]
    fn slow_start_doubles_in_each_round_trip() {
        let mut sender = sender(100);
        let mut now = 0;
        for (first, count) in [(0, 1), (1, 2), (3, 4), (7, 8), (15, 16), (31, 32)] {
            let sent = burst(&mut sender, now);
            assert_eq!(sent, (first..first + count).collect::<Vec<_>>());
            now += 100 * MS;
            (first..first + count).for_each(|segment| sender.handle_ack(now, segment + 1));
        }
        assert_eq!(sender.window(), 64.0);
    }

    #[test]
    fn above_the_threshold_a_round_trip_adds_one_segment() {
        let mut sender = sender(1_000);
        (sender.window, sender.threshold) = (10.0, 10.0);
        let sent = burst(&mut sender, 0);
        assert_eq!(sent.len(), 10);
        sent.iter().for_each(|segment| sender.handle_ack(100 * MS, segment + 1));
        assert!((10.9..11.0).contains(&sender.window()), "{}: ten times one tenth or less", sender.window());
    }

    #[test]
    fn the_window_never_exceeds_what_the_receiver_takes() {
        let mut sender = Ns2Sender::new(TcpSettings::ns2(4));
        sender.supply(100);
        sender.window = 50.0;
        assert_eq!(burst(&mut sender, 0).len(), 4);
    }

    /// Sixteen segments are on their way, the first of them is lost.
    fn after_a_loss() -> Ns2Sender {
        let mut sender = sender(100);
        (sender.window, sender.threshold) = (16.0, 16.0);
        sender.acknowledged = 4;
        (sender.next, sender.reached) = (4, 4);
        assert_eq!(burst(&mut sender, 0), (4..20).collect::<Vec<_>>());
        sender
    }

    #[test]
    fn three_duplicates_resend_one_segment_and_halve_the_window() {
        let mut sender = after_a_loss();
        for _ in 0..2 {
            sender.handle_ack(100 * MS, 4);
            assert_eq!(burst(&mut sender, 100 * MS), []);
        }
        sender.handle_ack(100 * MS, 4);
        assert_eq!(burst(&mut sender, 100 * MS), [4]);
        assert_eq!((sender.threshold(), sender.window()), (8.0, 8.0));
        // 15 segments have arrived: with the twelve duplicates to come, 8 + 15 may be out, and 16 are.
        (0..12).for_each(|_| sender.handle_ack(101 * MS, 4));
        assert_eq!(burst(&mut sender, 101 * MS), (20..27).collect::<Vec<_>>());
        sender.handle_ack(200 * MS, 20);
        assert_eq!(sender.window(), 8.125, "deflated, and opened by an eighth");
        assert_eq!(burst(&mut sender, 200 * MS), [27]);
        assert_eq!(sender.counters(), SenderCounters { sent: 25, resent: 1, timeouts: 0, fast_retransmits: 1 });
    }

    #[test]
    fn a_second_loss_in_the_same_window_waits_for_the_timeout() {
        let mut sender = after_a_loss();
        (0..3).for_each(|_| sender.handle_ack(100 * MS, 4));
        burst(&mut sender, 100 * MS);
        sender.handle_ack(200 * MS, 9);
        (0..5).for_each(|_| sender.handle_ack(201 * MS, 9));
        assert_eq!(sender.counters().fast_retransmits, 1);
        let at = sender.deadline_ns().expect("a timer runs");
        sender.handle_timeout(at);
        assert_eq!(burst(&mut sender, at), [9], "from the first missing segment, one at a time");
        assert_eq!((sender.window(), sender.counters().timeouts), (1.0, 1));
        sender.handle_ack(at + MS, 10);
        assert_eq!(burst(&mut sender, at + MS), [10, 11], "and everything after it again");
    }

    #[test]
    fn the_first_timeout_is_six_seconds_and_each_doubles_the_next() {
        let mut sender = sender(1);
        assert_eq!(burst(&mut sender, 0), [0]);
        let mut at = 0;
        for seconds in [6, 12, 24, 48, 64, 64] {
            assert_eq!(sender.deadline_ns(), Some(at + seconds * SECOND));
            sender.handle_timeout(at + seconds * SECOND - 1);
            assert_eq!(burst(&mut sender, at + seconds * SECOND - 1), []);
            at += seconds * SECOND;
            sender.handle_timeout(at);
            assert_eq!(burst(&mut sender, at), [0]);
        }
        sender.handle_ack(at + MS, 1);
        assert!(sender.is_done() && sender.deadline_ns().is_none());
        assert_eq!(sender.backoff, BACKOFF_MAX, "what was sent again is not timed");
    }

    #[test]
    fn the_timeout_is_the_smoothed_time_and_four_variations() {
        let mut sender = sender(10);
        burst(&mut sender, 0);
        sender.handle_ack(500 * MS, 1);
        // 5 ticks: srtt 5, variation 2.5, so 15 ticks.
        assert_eq!(sender.timeout_ns, 1_500 * MS);
        burst(&mut sender, 500 * MS);
        sender.handle_ack(1_400 * MS, 2);
        // 9 ticks: srtt 5.5; variation 2.5 + (4 - 2) / 4 = 3; so 17 whole ticks.
        assert_eq!(sender.timeout_ns, 1_700 * MS);
    }

    #[test]
    fn what_is_halved_is_the_window_that_the_receiver_allows() {
        let mut sender = Ns2Sender::new(TcpSettings::ns2(20));
        sender.supply(100);
        (sender.window, sender.threshold) = (50.0, 20.0);
        assert_eq!(burst(&mut sender, 0).len(), 20);
        sender.handle_ack(100 * MS, 2);
        burst(&mut sender, 100 * MS);
        (0..3).for_each(|_| sender.handle_ack(200 * MS, 2));
        assert_eq!((sender.threshold(), sender.window()), (10.0, 10.0), "20 of 50 were on their way");
    }

    #[test]
    fn the_threshold_never_falls_below_two_segments() {
        let mut sender = sender(10);
        for window in [3.0, 1.0] {
            sender.window = window;
            burst(&mut sender, 0);
            let at = sender.deadline_ns().expect("a timer runs");
            sender.handle_timeout(at);
            assert_eq!((sender.threshold(), sender.window()), (2.0, 1.0), "after a window of {window}");
        }
    }

    #[test]
    fn duplicates_of_what_was_out_before_a_timeout_tell_of_no_loss() {
        let mut sender = after_a_loss();
        let at = sender.deadline_ns().expect("a timer runs");
        sender.handle_timeout(at);
        burst(&mut sender, at);
        sender.handle_ack(at + MS, 10);
        (0..5).for_each(|_| sender.handle_ack(at + 2 * MS, 10));
        assert_eq!(sender.counters().fast_retransmits, 0, "10 is one of the 20 segments that were out");
        // Everything up to the first segment after them is there: what is missing then is a loss again.
        sender.window = 16.0;
        sender.handle_ack(at + 3 * MS, 21);
        burst(&mut sender, at + 3 * MS);
        (0..3).for_each(|_| sender.handle_ack(at + 4 * MS, 21));
        assert_eq!(sender.counters().fast_retransmits, 1);
    }

    #[test]
    fn a_timed_segment_that_is_lost_is_not_timed() {
        let mut sender = after_a_loss();
        assert_eq!(sender.timed, Some((4, 0)));
        (0..3).for_each(|_| sender.handle_ack(100 * MS, 4));
        assert_eq!(burst(&mut sender, 100 * MS), [4]);
        sender.handle_ack(200 * MS, 20);
        assert_eq!(
            (sender.timeout_ns, sender.srtt_ticks),
            (6 * SECOND, 0),
            "nobody knows which of the two has arrived"
        );
    }

    #[test]
    fn the_timeout_is_doubled_until_a_segment_was_timed() {
        let mut sender = sender(10);
        burst(&mut sender, 0);
        let mut at = 0;
        for _ in 0..2 {
            at = sender.deadline_ns().expect("a timer runs");
            sender.handle_timeout(at);
            burst(&mut sender, at);
        }
        sender.handle_ack(at + 100 * MS, 1);
        assert_eq!(burst(&mut sender, at + 100 * MS), [1, 2]);
        assert_eq!(sender.deadline_ns(), Some(at + 100 * MS + 24 * SECOND), "what was sent twice was not timed");
        sender.handle_ack(at + 200 * MS, 2);
        // One tick: srtt 1, variation 0.5, so 3 ticks.
        assert_eq!(sender.deadline_ns(), Some(at + 200 * MS + 300 * MS));
    }

    #[test]
    fn the_fourth_timeout_in_a_row_makes_it_forget_the_round_trip_time() {
        // A round trip of 5 ticks, so many timeouts, and then one of a tick: as the first that was ever seen, or as another one.
        let timeout_after = |timeouts: u32| {
            let mut sender = sender(10);
            burst(&mut sender, 0);
            sender.handle_ack(500 * MS, 1);
            burst(&mut sender, 500 * MS);
            let mut at = 0;
            for _ in 0..timeouts {
                at = sender.deadline_ns().expect("a timer runs");
                sender.handle_timeout(at);
                burst(&mut sender, at);
            }
            sender.handle_ack(at, 3);
            assert_eq!(burst(&mut sender, at), [3, 4]);
            sender.handle_ack(at + 100 * MS, 4);
            sender.timeout_ns
        };
        // srtt 5 - 4 / 8 = 4.5; variation 2.5 + (4 - 2) / 4 = 3; so 16 whole ticks.
        assert_eq!(timeout_after(3), 1_600 * MS);
        // srtt 1, variation 0.5, so 3 ticks.
        assert_eq!(timeout_after(4), 300 * MS);
    }
}
