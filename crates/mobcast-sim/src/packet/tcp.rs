//! The two ends of a TCP connection that carries data one way, as functions of time: no network, no timers, no events.
//! Segments are counted, not bytes, as ns-2 does.
//!
//! | module | sender |
//! |---|---|
//! | [`ns2`] | Reno as in ns-2 2.1b8, without selective acknowledgements |
//! | [`sack`] | what systems do today: selective acknowledgements, loss found by time, probes of the tail |
//! | [`congestion`] | what the latter may send: [`cubic`] or [`bbr`] |

pub mod bbr;
pub mod congestion;
pub mod cubic;
pub mod ns2;
pub mod sack;

use std::collections::VecDeque;

use ns2::Ns2Sender;
use sack::SackSender;

/// Which sender a connection has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// As in ns-2.
    Ns2Reno,
    /// CUBIC with selective acknowledgements.
    Cubic,
    /// BBR, approximated, with selective acknowledgements.
    Bbr,
}

/// How connections behave.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TcpSettings {
    /// The sender.
    pub control: Control,
    /// Segments that the receiver takes ahead of acknowledgements: the window never exceeds it.
    pub window_max: u32,
    /// The window at first, in segments.
    pub window_first: f64,
    /// The timeout before a round-trip time was measured.
    pub timeout_first_ns: u64,
    /// The longest timeout.
    pub timeout_max_ns: u64,
    /// Whether every second segment is acknowledged, or one that stays alone for so long (RFC 1122, 4.2.3.2).
    pub delayed_ack_ns: Option<u64>,
}

impl TcpSettings {
    /// As ns-2 2.1b8 has them, but for the window of `window_max` segments.
    pub const fn ns2(window_max: u32) -> TcpSettings {
        TcpSettings {
            control: Control::Ns2Reno,
            window_max,
            window_first: 1.0,
            timeout_first_ns: 6_000_000_000,
            timeout_max_ns: 64_000_000_000,
            delayed_ack_ns: None,
        }
    }

    /// As Linux has them where BBR is chosen, with a receive buffer for `window_max` segments.
    pub const fn bbr(window_max: u32) -> TcpSettings {
        TcpSettings { control: Control::Bbr, ..TcpSettings::linux(window_max) }
    }

    /// As Linux has them, with a receive buffer for `window_max` segments.
    pub const fn linux(window_max: u32) -> TcpSettings {
        TcpSettings {
            control: Control::Cubic,
            window_max,
            window_first: 10.0,
            timeout_first_ns: 1_000_000_000,
            timeout_max_ns: 120_000_000_000,
            delayed_ack_ns: Some(40_000_000),
        }
    }
}

/// What a sender has done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SenderCounters {
    /// Segments sent, again and again counted.
    pub sent: u64,
    /// Those of them that had been sent before.
    pub resent: u64,
    /// Timeouts.
    pub timeouts: u32,
    /// Times that duplicate acknowledgements told of a loss.
    pub fast_retransmits: u32,
}

/// An acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack {
    /// The receiver has all segments before this one.
    pub expected: u32,
    /// The segment that made it say so, which it has, too.
    pub segment: u32,
    /// What it has around that one without a gap, as in the first block of RFC 2018: from this one on,
    pub from: u32,
    /// up to the one before this.
    pub until: u32,
}

/// The sending end.
#[derive(Clone, Debug)]
pub enum Sender {
    /// As in ns-2.
    Ns2(Ns2Sender),
    /// With selective acknowledgements.
    Sack(Box<SackSender>),
}

impl Sender {
    /// A sender without anything to send.
    pub fn new(settings: TcpSettings) -> Sender {
        match settings.control {
            Control::Ns2Reno => Sender::Ns2(Ns2Sender::new(settings)),
            Control::Cubic | Control::Bbr => Sender::Sack(Box::new(SackSender::new(settings))),
        }
    }

    /// The application gives `segments` more.
    pub fn supply(&mut self, segments: u32) {
        match self {
            Sender::Ns2(sender) => sender.supply(segments),
            Sender::Sack(sender) => sender.supply(segments),
        }
    }

    /// Whether everything that was given is acknowledged.
    pub fn is_done(&self) -> bool {
        match self {
            Sender::Ns2(sender) => sender.is_done(),
            Sender::Sack(sender) => sender.is_done(),
        }
    }

    /// Segments acknowledged in order.
    pub fn acknowledged(&self) -> u32 {
        match self {
            Sender::Ns2(sender) => sender.acknowledged(),
            Sender::Sack(sender) => sender.acknowledged(),
        }
    }

    /// Segments that were given and never sent.
    pub fn unsent(&self) -> u32 {
        match self {
            Sender::Ns2(sender) => sender.unsent(),
            Sender::Sack(sender) => sender.unsent(),
        }
    }

    /// The congestion window in segments.
    pub fn window(&self) -> f64 {
        match self {
            Sender::Ns2(sender) => sender.window(),
            Sender::Sack(sender) => sender.window(),
        }
    }

    /// When [`Sender::handle_timeout`] wants to be called.
    pub fn deadline_ns(&self) -> Option<u64> {
        match self {
            Sender::Ns2(sender) => sender.deadline_ns(),
            Sender::Sack(sender) => sender.deadline_ns(),
        }
    }

    /// What it has done.
    pub fn counters(&self) -> SenderCounters {
        match self {
            Sender::Ns2(sender) => sender.counters(),
            Sender::Sack(sender) => sender.counters(),
        }
    }

    /// The next segment that may leave now.
    pub fn poll(&mut self, now_ns: u64) -> Option<u32> {
        match self {
            Sender::Ns2(sender) => sender.poll(now_ns),
            Sender::Sack(sender) => sender.poll(now_ns),
        }
    }

    /// The sender's card takes no more for the moment.
    pub fn note_held(&mut self) {
        match self {
            // Whose window opens whatever holds it back.
            Sender::Ns2(_) => {}
            Sender::Sack(sender) => sender.note_held(),
        }
    }

    /// An acknowledgement has arrived.
    pub fn handle_ack(&mut self, now_ns: u64, ack: Ack) {
        match self {
            Sender::Ns2(sender) => sender.handle_ack(now_ns, ack.expected),
            Sender::Sack(sender) => sender.handle_ack(now_ns, ack),
        }
    }

    /// Time has passed without an acknowledgement.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        match self {
            Sender::Ns2(sender) => sender.handle_timeout(now_ns),
            Sender::Sack(sender) => sender.handle_timeout(now_ns),
        }
    }
}

/// The receiving end.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    /// Segments received in order.
    received: u32,
    /// Which of those after the first missing one are there.
    ahead: VecDeque<bool>,
    delayed_ack_ns: Option<u64>,
    /// When the acknowledgement that is put off goes out.
    ack_due_ns: Option<u64>,
    latest: u32,
}

impl Receiver {
    /// A receiver without any segment.
    pub fn new(settings: TcpSettings) -> Receiver {
        Receiver { delayed_ack_ns: settings.delayed_ack_ns, ..Receiver::default() }
    }

    /// Segments received in order.
    pub fn received(&self) -> u32 {
        self.received
    }

    /// A segment has arrived; the acknowledgement to send at once, if any.
    pub fn handle_segment(&mut self, now_ns: u64, segment: u32) -> Option<Ack> {
        self.latest = segment;
        let in_order = segment == self.received && self.ahead.is_empty();
        if in_order {
            self.received += 1;
        } else if let Some(place) = segment.checked_sub(self.received) {
            let place = place as usize;
            if self.ahead.len() <= place {
                self.ahead.resize(place + 1, false);
            }
            self.ahead[place] = true;
            while self.ahead.front() == Some(&true) {
                self.ahead.pop_front();
                self.received += 1;
            }
        }
        match (self.delayed_ack_ns, self.ack_due_ns) {
            (Some(delay), None) if in_order => {
                self.ack_due_ns = Some(now_ns + delay);
                None
            }
            _ => self.acknowledge(),
        }
    }

    /// When [`Receiver::handle_timeout`] wants to be called.
    pub fn deadline_ns(&self) -> Option<u64> {
        self.ack_due_ns
    }

    /// The acknowledgement that was put off, when it is due.
    pub fn handle_timeout(&mut self, now_ns: u64) -> Option<Ack> {
        self.ack_due_ns.filter(|&at| at <= now_ns).and_then(|_| self.acknowledge())
    }

    fn acknowledge(&mut self) -> Option<Ack> {
        self.ack_due_ns = None;
        let (from, until) = self.around_latest();
        Some(Ack { expected: self.received, segment: self.latest, from, until })
    }

    fn around_latest(&self) -> (u32, u32) {
        let Some(place) = self.latest.checked_sub(self.received) else { return (self.latest, self.latest + 1) };
        let there = |there: &&bool| **there;
        let before = self.ahead.range(..place as usize).rev().take_while(there).count();
        let after = self.ahead.range(place as usize..).take_while(there).count();
        (self.latest - before as u32, self.latest + after as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_receiver_acknowledges_what_it_has_in_order() {
        let mut receiver = Receiver::new(TcpSettings::ns2(64));
        let acks = [0, 2, 3, 1, 1, 4].map(|segment| receiver.handle_segment(0, segment).expect("at once"));
        assert_eq!(acks.map(|ack| ack.expected), [1, 1, 1, 4, 4, 5]);
        assert_eq!(acks.map(|ack| ack.segment), [0, 2, 3, 1, 1, 4]);
    }

    #[test]
    fn an_acknowledgement_names_what_is_there_around_the_latest_segment() {
        let mut receiver = Receiver::new(TcpSettings::ns2(64));
        let acks = [0, 3, 7, 4, 6, 5, 1].map(|segment| receiver.handle_segment(0, segment).expect("at once"));
        let around = [(0, 1), (3, 4), (7, 8), (3, 5), (6, 8), (3, 8), (1, 2)];
        assert_eq!(acks.map(|ack| (ack.from, ack.until)), around);
        assert_eq!(acks.map(|ack| ack.expected), [1, 1, 1, 1, 1, 1, 2]);
    }

    #[test]
    fn a_delayed_acknowledgement_waits_for_a_second_segment_or_its_time() {
        let settings = TcpSettings { delayed_ack_ns: Some(100 * MS), ..TcpSettings::ns2(64) };
        let mut receiver = Receiver::new(settings);
        let ack = |expected, segment| Some(Ack { expected, segment, from: segment, until: segment + 1 });
        assert_eq!(receiver.handle_segment(0, 0), None);
        assert_eq!(receiver.handle_segment(MS, 1), ack(2, 1));
        assert_eq!(receiver.handle_segment(2 * MS, 2), None);
        assert_eq!((receiver.handle_timeout(101 * MS), receiver.handle_timeout(102 * MS)), (None, ack(3, 2)));
        assert_eq!(receiver.handle_segment(200 * MS, 4), ack(3, 4), "out of order: at once");
    }
}
