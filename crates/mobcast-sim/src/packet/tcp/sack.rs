//! A sender as systems have it today: selective acknowledgements (RFC 2018), losses found by what was sent later and has arrived
//! (RACK, RFC 8985; paths here never reorder, so that one segment is enough), a probe when the tail stays unacknowledged
//! (the same, section 7), timeouts of RFC 6298 whose variation counts for at least 200 ms as in Linux, and the window of CUBIC or BBR.
//!
//! Unlike RFC 8985, a probe always is the last segment again, a loss that it mends costs no window, and an acknowledgement of a
//! segment that was sent twice is taken for the second one's.

use std::collections::VecDeque;

use super::bbr::Stamp;
use super::congestion::{Congestion, Delivery};
use super::{Ack, SenderCounters, TcpSettings};

/// The least that is added to the smoothed round-trip time.
const TIMEOUT_MIN_NS: u64 = 200_000_000;
/// A timeout doubles at most so often.
const BACKOFF_MAX: u32 = 10;
/// What a receiver may put an acknowledgement off, when only one segment is out.
const PROBE_SINGLE_NS: u64 = 50_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    InFlight,
    Lost,
    Delivered,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    /// Number of its last transmission.
    order: u64,
    sent_at_ns: u64,
    state: State,
    /// Transmissions; after more than one it cannot be timed.
    sends: u32,
    stamp: Stamp,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Timer {
    Probe,
    Timeout,
}

/// How far the window was used, as Linux sees it (`tcp_cwnd_validate`): the most that was seen in a window of data.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    /// The window was full.
    full: bool,
    /// Segments that were out.
    out: u32,
    /// It counts until all segments before this one are acknowledged.
    until: u32,
}

/// The sending end.
#[derive(Clone, Debug)]
pub struct SackSender {
    settings: TcpSettings,
    supplied: u32,
    /// Segments acknowledged in order.
    acknowledged: u32,
    /// From the first that is not, to the last that was sent.
    segments: VecDeque<Outstanding>,
    /// All transmissions whose fate is open, in order: number and segment.
    transmissions: VecDeque<(u64, u32)>,
    sent_total: u64,
    /// The latest transmission that has arrived, and one.
    delivered_before: u64,
    in_flight: u32,
    lost: VecDeque<u32>,
    /// Losses before this segment are of one congestion.
    recover: Option<u32>,
    /// Whether later ones were lost meanwhile: another congestion.
    lost_beyond: bool,
    congestion: Congestion,
    /// When the next segment may leave, if segments leave one by one.
    next_at_ns: u64,
    /// Whether it waits for that.
    paced: bool,
    usage: Usage,
    /// Whether something was sent since the window's use was looked at.
    has_sent: bool,
    srtt_ns: Option<u64>,
    rttvar_ns: u64,
    backoff: u32,
    timer: Option<(u64, Timer)>,
    probe: bool,
    counters: SenderCounters,
}

impl SackSender {
    /// A sender without anything to send.
    pub fn new(settings: TcpSettings) -> SackSender {
        SackSender {
            settings,
            supplied: 0,
            acknowledged: 0,
            segments: VecDeque::new(),
            transmissions: VecDeque::new(),
            sent_total: 0,
            delivered_before: 0,
            in_flight: 0,
            lost: VecDeque::new(),
            recover: None,
            lost_beyond: false,
            congestion: Congestion::new(settings),
            next_at_ns: 0,
            paced: false,
            usage: Usage::default(),
            has_sent: false,
            srtt_ns: None,
            rttvar_ns: 0,
            backoff: 0,
            timer: None,
            probe: false,
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
        self.supplied - self.next()
    }

    /// The congestion window in segments.
    pub fn window(&self) -> f64 {
        self.congestion.window()
    }

    /// When [`SackSender::handle_timeout`] wants to be called.
    pub fn deadline_ns(&self) -> Option<u64> {
        let timer = self.timer.map(|(at_ns, _)| at_ns);
        let paced = self.paced.then_some(self.next_at_ns);
        timer.into_iter().chain(paced).min()
    }

    /// What it has done.
    pub fn counters(&self) -> SenderCounters {
        self.counters
    }

    /// The next segment that may leave now.
    pub fn poll(&mut self, now_ns: u64) -> Option<u32> {
        let segment = self.next_segment(now_ns);
        if segment.is_none() {
            self.note_held();
        }
        segment
    }

    /// Nothing more leaves for the moment, whatever holds it back.
    pub fn note_held(&mut self) {
        let (full, out) = (self.is_full(), self.segments.len() as u32);
        if !std::mem::take(&mut self.has_sent) && !full {
            return;
        }
        let Usage { full: was_full, out: most, until } = self.usage;
        if full || self.acknowledged >= until || (!was_full && out > most) {
            self.usage = Usage { full, out, until: self.next() };
        }
    }

    fn is_full(&self) -> bool {
        f64::from(self.in_flight) + 1.0 > self.congestion.window().max(1.0)
    }

    /// Whether the window is what holds it back: only then it grows (RFC 9438, 5.8). In slow start it may become twice what was out.
    fn is_window_bound(&self) -> bool {
        let twice = self.congestion.window() < 2.0 * f64::from(self.usage.out);
        self.usage.full || (self.congestion.in_slow_start() && twice)
    }

    fn next_segment(&mut self, now_ns: u64) -> Option<u32> {
        self.paced = false;
        // What it would repeat may have arrived while the sender's card held the probe back.
        if std::mem::take(&mut self.probe) && self.segments.back().is_some_and(|last| last.state == State::InFlight) {
            let last = self.next() - 1;
            self.transmit(now_ns, last);
            return Some(last);
        }
        while self.lost.front().is_some_and(|&segment| !self.is(segment, State::Lost)) {
            self.lost.pop_front();
        }
        let new = self.next() < self.supplied && (self.segments.len() as u32) < self.settings.window_max;
        if self.lost.is_empty() && !new {
            if self.next() == self.supplied && f64::from(self.in_flight) < self.congestion.window() {
                self.congestion.note_idle(self.in_flight);
            }
            return None;
        }
        if self.is_full() {
            return None;
        }
        if let Some(gap_ns) = self.congestion.gap_ns() {
            if now_ns < self.next_at_ns {
                self.paced = true;
                return None;
            }
            self.next_at_ns = now_ns + gap_ns;
        }
        let segment = match self.lost.pop_front() {
            Some(segment) => segment,
            None => {
                self.segments.push_back(Outstanding {
                    order: 0,
                    sent_at_ns: 0,
                    state: State::Lost,
                    sends: 0,
                    stamp: Stamp::default(),
                });
                self.next() - 1
            }
        };
        self.transmit(now_ns, segment);
        Some(segment)
    }

    fn transmit(&mut self, now_ns: u64, segment: u32) {
        let order = self.sent_total;
        self.sent_total += 1;
        let stamp = self.congestion.stamp(now_ns, self.in_flight);
        self.transmissions.push_back((order, segment));
        let outstanding = &mut self.segments[(segment - self.acknowledged) as usize];
        if outstanding.state != State::InFlight {
            self.in_flight += 1;
        }
        let sends = outstanding.sends + 1;
        *outstanding = Outstanding { order, sent_at_ns: now_ns, state: State::InFlight, sends, stamp };
        self.has_sent = true;
        self.counters.sent += 1;
        self.counters.resent += u64::from(sends > 1);
        if !matches!(self.timer, Some((_, Timer::Timeout))) {
            self.set_timer(now_ns);
        }
    }

    /// An acknowledgement has arrived.
    pub fn handle_ack(&mut self, now_ns: u64, ack: Ack) {
        let (mut delivered, mut rtt_ns, mut stamp) = (0, None, Stamp::default());
        let cumulative = self.acknowledged..ack.expected.min(self.next());
        // The latest one comes last: what it remembers, and its time, count.
        let around = (ack.from..ack.segment).chain(ack.segment + 1..ack.until);
        for segment in cumulative.chain(around).chain([ack.segment]) {
            if let Some(remembered) = self.deliver(now_ns, segment, &mut delivered, &mut rtt_ns) {
                stamp = remembered;
            }
        }
        while self.acknowledged < ack.expected && self.segments.pop_front().is_some() {
            self.acknowledged += 1;
        }
        if delivered == 0 {
            return;
        }
        self.backoff = 0;
        if let Some(rtt_ns) = rtt_ns {
            self.measure(rtt_ns);
        }
        let delivery = Delivery { count: delivered, stamp, rtt_ns, in_flight: self.in_flight };
        self.congestion.deliver(now_ns, delivery, self.acknowledged, self.next());
        let mut lost = self.find_lost();
        if self.recover.is_some_and(|recover| self.acknowledged >= recover) {
            self.recover = None;
            lost |= std::mem::take(&mut self.lost_beyond);
        }
        match (self.recover, lost) {
            (None, true) => {
                self.counters.fast_retransmits += 1;
                self.recover = Some(self.next());
                self.congestion.lose();
            }
            // After a timeout the window opens while what was lost goes out again.
            (None, false) if self.is_window_bound() => self.open(now_ns, delivered),
            (Some(_), _) if self.congestion.in_slow_start() => self.open(now_ns, delivered),
            _ => {}
        }
        self.timer = None;
        if !self.segments.is_empty() {
            self.set_timer(now_ns);
        }
    }

    fn open(&mut self, now_ns: u64, delivered: u32) {
        self.congestion.open(now_ns, delivered, self.srtt_ns.unwrap_or(0));
    }

    /// Time has passed without an acknowledgement.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        let Some((_, timer)) = self.timer.filter(|&(at_ns, _)| at_ns <= now_ns) else { return };
        match timer {
            Timer::Probe => {
                self.probe = true;
                self.timer = Some((now_ns + self.timeout_ns(), Timer::Timeout));
            }
            Timer::Timeout => {
                self.probe = false;
                self.counters.timeouts += 1;
                self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
                self.lost.clear();
                for (i, outstanding) in self.segments.iter_mut().enumerate() {
                    if outstanding.state != State::Delivered {
                        outstanding.state = State::Lost;
                        self.lost.push_back(self.acknowledged + i as u32);
                    }
                }
                self.in_flight = 0;
                self.transmissions.clear();
                self.congestion.start_over(self.backoff == 1);
                self.recover = Some(self.next());
                self.lost_beyond = false;
                self.timer = Some((now_ns + self.timeout_ns(), Timer::Timeout));
            }
        }
    }

    /// The next segment that was never sent.
    fn next(&self) -> u32 {
        self.acknowledged + self.segments.len() as u32
    }

    fn is(&self, segment: u32, state: State) -> bool {
        let place = segment.checked_sub(self.acknowledged);
        place.and_then(|place| self.segments.get(place as usize)).is_some_and(|it| it.state == state)
    }

    /// Counts a segment that has arrived, and returns what it remembered; none if that was known.
    fn deliver(&mut self, now_ns: u64, segment: u32, delivered: &mut u32, rtt_ns: &mut Option<u64>) -> Option<Stamp> {
        let place = segment.checked_sub(self.acknowledged)?;
        let outstanding = self.segments.get_mut(place as usize)?;
        if outstanding.state == State::Delivered {
            return None;
        }
        if outstanding.state == State::InFlight {
            self.in_flight -= 1;
        }
        outstanding.state = State::Delivered;
        *delivered += 1;
        self.delivered_before = self.delivered_before.max(outstanding.order + 1);
        if outstanding.sends == 1 {
            *rtt_ns = Some(now_ns - outstanding.sent_at_ns);
        }
        Some(outstanding.stamp)
    }

    /// Everything that was sent before what has arrived, and has not arrived, is lost; whether there was something.
    fn find_lost(&mut self) -> bool {
        let mut found = false;
        while let Some(&(order, segment)) =
            self.transmissions.front().filter(|(order, _)| *order < self.delivered_before)
        {
            self.transmissions.pop_front();
            let Some(place) = segment.checked_sub(self.acknowledged) else { continue };
            let outstanding = &mut self.segments[place as usize];
            if outstanding.order == order && outstanding.state == State::InFlight {
                outstanding.state = State::Lost;
                self.in_flight -= 1;
                self.lost.push_back(segment);
                self.lost_beyond |= self.recover.is_some_and(|recover| segment >= recover);
                found = true;
            }
        }
        found
    }

    /// RFC 6298, section 2.
    fn measure(&mut self, rtt_ns: u64) {
        match self.srtt_ns {
            None => {
                self.srtt_ns = Some(rtt_ns);
                self.rttvar_ns = rtt_ns / 2;
            }
            Some(srtt) => {
                self.rttvar_ns = (3 * self.rttvar_ns + srtt.abs_diff(rtt_ns)) / 4;
                self.srtt_ns = Some((7 * srtt + rtt_ns) / 8);
            }
        }
    }

    fn timeout_ns(&self) -> u64 {
        let measured = |srtt| srtt + (4 * self.rttvar_ns).max(TIMEOUT_MIN_NS);
        let timeout = self.srtt_ns.map_or(self.settings.timeout_first_ns, measured);
        (timeout << self.backoff).min(self.settings.timeout_max_ns)
    }

    fn set_timer(&mut self, now_ns: u64) {
        let timeout = self.timeout_ns();
        let probe = self.srtt_ns.filter(|_| self.in_flight > 0 && self.recover.is_none());
        let single = if self.in_flight == 1 { PROBE_SINGLE_NS } else { 0 };
        self.timer = Some(match probe {
            Some(srtt) => (now_ns + (2 * srtt + single).min(timeout), Timer::Probe),
            None => (now_ns + timeout, Timer::Timeout),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn sender(segments: u32) -> SackSender {
        let mut sender = SackSender::new(TcpSettings::linux(1_000));
        sender.supply(segments);
        sender
    }

    fn burst(sender: &mut SackSender, now_ns: u64) -> Vec<u32> {
        std::iter::from_fn(|| sender.poll(now_ns)).collect()
    }

    fn ack(expected: u32, segment: u32) -> Ack {
        Ack { expected, segment, from: segment, until: segment + 1 }
    }

    #[test]
    fn it_begins_with_ten_segments_and_doubles() {
        let mut sender = sender(100);
        assert_eq!(burst(&mut sender, 0), (0..10).collect::<Vec<_>>());
        (0..10).for_each(|segment| sender.handle_ack(50 * MS, ack(segment + 1, segment)));
        assert_eq!(burst(&mut sender, 50 * MS).len(), 20);
        assert_eq!(sender.counters(), SenderCounters { sent: 30, ..SenderCounters::default() });
    }

    #[test]
    fn all_losses_of_a_window_are_mended_at_once() {
        let mut sender = sender(100);
        burst(&mut sender, 0);
        // Segments 2, 3 and 7 are lost.
        for segment in [0, 1, 4, 5, 6, 8, 9] {
            sender.handle_ack(50 * MS, ack(segment.min(1) + 1, segment));
        }
        assert!((sender.window() - 8.4).abs() < 1e-9, "one loss of a window of twelve counts: {}", sender.window());
        let sent = burst(&mut sender, 50 * MS);
        assert_eq!(sent[..3], [2, 3, 7]);
        assert_eq!(sent[3..], [10, 11, 12, 13, 14], "and as much as fits beside them");
        assert_eq!(sender.counters().resent, 3);
        sender.handle_ack(100 * MS, ack(10, 7));
        assert_eq!(sender.counters().fast_retransmits, 1);
    }

    #[test]
    fn what_lost_acknowledgements_told_is_learnt_from_the_next_one() {
        let mut sender = sender(100);
        burst(&mut sender, 0);
        // Segment 0 is lost, and so are the acknowledgements of all others but the last.
        sender.handle_ack(50 * MS, Ack { from: 1, until: 10, ..ack(0, 9) });
        assert_eq!(sender.window(), 7.0);
        assert_eq!(burst(&mut sender, 50 * MS), [0, 10, 11, 12, 13, 14, 15], "segment 0 alone is sent again");
        assert_eq!(sender.counters().resent, 1);
    }

    #[test]
    fn a_resent_segment_that_is_lost_again_is_found() {
        let mut sender = sender(100);
        burst(&mut sender, 0);
        (1..10).for_each(|segment| sender.handle_ack(50 * MS, ack(0, segment)));
        assert_eq!(burst(&mut sender, 50 * MS)[..2], [0, 10]);
        sender.handle_ack(100 * MS, ack(0, 10));
        assert_eq!(burst(&mut sender, 100 * MS)[0], 0, "what was sent after it has arrived");
    }

    #[test]
    fn a_loss_of_what_was_sent_since_costs_the_window_once_more() {
        let mut sender = sender(100);
        burst(&mut sender, 0);
        // Segment 0 is lost, and lost again with 10, the first that is sent after that was found.
        (1..10).for_each(|segment| sender.handle_ack(50 * MS, ack(0, segment)));
        assert_eq!(sender.window(), 7.0);
        assert_eq!(burst(&mut sender, 50 * MS), [0, 10, 11, 12, 13, 14, 15]);
        (11..16).for_each(|segment| sender.handle_ack(100 * MS, ack(0, segment)));
        assert_eq!((sender.window(), sender.counters().fast_retransmits), (7.0, 1), "until the first one is over");
        assert_eq!(burst(&mut sender, 100 * MS), [0, 10, 16, 17, 18, 19, 20]);
        sender.handle_ack(150 * MS, ack(10, 0));
        assert!((sender.window() - 4.9).abs() < 1e-9, "{}", sender.window());
        // That congestion is over with segment 20, and none follows it.
        sender.handle_ack(150 * MS, ack(16, 10));
        (16..21).for_each(|segment| sender.handle_ack(150 * MS, ack(segment + 1, segment)));
        assert_eq!(sender.counters().fast_retransmits, 2);
    }

    #[test]
    fn the_tail_is_probed_after_two_round_trips() {
        let mut sender = sender(12);
        burst(&mut sender, 0);
        (0..10).for_each(|segment| sender.handle_ack(50 * MS, ack(segment + 1, segment)));
        assert_eq!(burst(&mut sender, 50 * MS), [10, 11]);
        let at = sender.deadline_ns().expect("a timer");
        assert_eq!(at, 150 * MS);
        sender.handle_timeout(at);
        assert_eq!(burst(&mut sender, at), [11]);
        sender.handle_ack(at + 50 * MS, ack(10, 11));
        assert_eq!(burst(&mut sender, at + 50 * MS), [10]);
        sender.handle_ack(at + 100 * MS, ack(12, 10));
        assert!(sender.is_done() && sender.deadline_ns().is_none());
        assert_eq!(sender.counters().timeouts, 0);
    }

    #[test]
    fn a_probe_that_was_held_back_until_its_segment_has_arrived_is_not_sent() {
        // All has arrived; or the last one alone, so that those before it are lost, and 7.7 fit.
        for (expected, sent) in [(10, 0..0), (1, 1..8)] {
            let mut sender = sender(10);
            burst(&mut sender, 0);
            sender.handle_ack(50 * MS, ack(1, 0));
            let at = sender.deadline_ns().expect("a timer");
            sender.handle_timeout(at);
            sender.handle_ack(at, ack(expected, 9));
            assert_eq!(burst(&mut sender, at), Vec::from_iter(sent));
            assert_eq!(sender.is_done(), expected == 10);
        }
    }

    #[test]
    fn without_any_answer_it_waits_a_second_then_two() {
        let mut sender = sender(3);
        assert_eq!(burst(&mut sender, 0), [0, 1, 2]);
        sender.handle_timeout(1_000 * MS);
        assert_eq!(burst(&mut sender, 1_000 * MS), [0], "one segment at a time");
        assert_eq!(sender.deadline_ns(), Some(3_000 * MS));
        sender.handle_ack(1_050 * MS, ack(1, 0));
        assert_eq!(burst(&mut sender, 1_050 * MS), [1, 2]);
        assert_eq!(sender.counters(), SenderCounters { sent: 6, resent: 3, timeouts: 1, fast_retransmits: 0 });
    }

    #[test]
    fn a_window_that_does_not_bind_does_not_grow() {
        let mut sender = sender(5);
        burst(&mut sender, 0);
        (0..5).for_each(|segment| sender.handle_ack(50 * MS, ack(segment + 1, segment)));
        assert_eq!(sender.window(), 10.0);
    }

    #[test]
    fn a_window_that_the_card_holds_back_grows_to_twice_what_was_out() {
        let mut sender = sender(100);
        let send = |sender: &mut SackSender, now_ns: u64, count: usize| {
            assert_eq!((0..count).filter_map(|_| sender.poll(now_ns)).count(), count);
            sender.note_held();
        };
        send(&mut sender, 0, 4);
        (0..4).for_each(|segment| sender.handle_ack(50 * MS, ack(segment + 1, segment)));
        assert_eq!(sender.window(), 10.0, "more than twice four");
        send(&mut sender, 50 * MS, 8);
        (4..12).for_each(|segment| sender.handle_ack(100 * MS, ack(segment + 1, segment)));
        assert_eq!(sender.window(), 16.0, "twice eight, though ten and eight would be more");
        // The whole window once: from then on it is what binds, until that is acknowledged.
        send(&mut sender, 100 * MS, 16);
        (12..28).for_each(|segment| sender.handle_ack(150 * MS, ack(segment + 1, segment)));
        assert_eq!(sender.window(), 32.0);
        send(&mut sender, 150 * MS, 4);
        (28..32).for_each(|segment| sender.handle_ack(200 * MS, ack(segment + 1, segment)));
        assert_eq!(sender.window(), 32.0);
    }

    #[test]
    fn no_more_is_sent_than_the_receiver_has_room_for() {
        for settings in [TcpSettings::linux(4), TcpSettings::bbr(4)] {
            let mut sender = SackSender::new(settings);
            sender.supply(100);
            // BBR sends one by one.
            let sent = |sender: &mut SackSender, from_ms: u64| -> Vec<u32> {
                (from_ms..from_ms + 40).filter_map(|ms| sender.poll(ms * MS)).collect()
            };
            assert_eq!(sent(&mut sender, 0), [0, 1, 2, 3], "the windows of both begin with ten segments");
            (1..4).for_each(|segment| sender.handle_ack(50 * MS, ack(0, segment)));
            assert_eq!(sent(&mut sender, 50), [0], "what has arrived waits for the first segment, and takes its place");
            sender.handle_ack(100 * MS, ack(4, 0));
            assert_eq!(sent(&mut sender, 100), [4, 5, 6, 7]);
        }
    }
}
