//! How much a sender with selective acknowledgements may send, and how fast.

use super::TcpSettings;
use super::bbr::{Bbr, Stamp};
use super::cubic::Cubic;

/// The control of one connection.
#[derive(Clone, Debug)]
pub enum Congestion {
    /// By losses.
    Cubic(Cubic),
    /// By the rate of arrivals.
    Bbr(Box<Bbr>),
}

/// What an acknowledgement has brought.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// Segments that have arrived.
    pub count: u32,
    /// What the latest of them remembered.
    pub stamp: Stamp,
    /// The round-trip time, if it can be told.
    pub rtt_ns: Option<u64>,
    /// Segments still on their way.
    pub in_flight: u32,
}

impl Congestion {
    /// As the settings say.
    pub fn new(settings: TcpSettings) -> Congestion {
        match settings.control {
            super::Control::Bbr => Congestion::Bbr(Box::new(Bbr::new(settings.window_first))),
            _ => Congestion::Cubic(Cubic::new(settings.window_first)),
        }
    }

    /// Segments that may be on their way.
    pub fn window(&self) -> f64 {
        match self {
            Congestion::Cubic(cubic) => cubic.window(),
            Congestion::Bbr(bbr) => bbr.window(),
        }
    }

    /// Nanoseconds between two segments; none if they leave as the window allows.
    pub fn gap_ns(&self) -> Option<u64> {
        match self {
            Congestion::Cubic(_) => None,
            Congestion::Bbr(bbr) => Some(bbr.gap_ns()),
        }
    }

    /// What a segment that leaves now remembers.
    pub fn stamp(&mut self, now_ns: u64, in_flight: u32) -> Stamp {
        match self {
            Congestion::Cubic(_) => Stamp::default(),
            Congestion::Bbr(bbr) => bbr.stamp(now_ns, in_flight),
        }
    }

    /// The application has nothing to send, with so many segments on their way.
    pub fn note_idle(&mut self, in_flight: u32) {
        if let Congestion::Bbr(bbr) = self {
            bbr.note_idle(in_flight);
        }
    }

    /// Segments have arrived: all before `acknowledged`, and perhaps later ones; `next` is sent next.
    pub fn deliver(&mut self, now_ns: u64, delivery: Delivery, acknowledged: u32, next: u32) {
        match self {
            Congestion::Cubic(cubic) => {
                if let Some(rtt_ns) = delivery.rtt_ns {
                    cubic.handle_rtt(rtt_ns, acknowledged, next);
                }
            }
            Congestion::Bbr(bbr) => {
                bbr.deliver(now_ns, delivery.count, delivery.stamp, delivery.rtt_ns, delivery.in_flight);
            }
        }
    }

    /// Whether the window doubles in each round trip.
    pub fn in_slow_start(&self) -> bool {
        matches!(self, Congestion::Cubic(cubic) if cubic.in_slow_start())
    }

    /// `delivered` segments arrived while the window was what held the connection back, and none was lost.
    pub fn open(&mut self, now_ns: u64, delivered: u32, srtt_ns: u64) {
        if let Congestion::Cubic(cubic) = self {
            cubic.open(now_ns, delivered, srtt_ns);
        }
    }

    /// Segments were lost, for the first time in a window of data.
    pub fn lose(&mut self) {
        if let Congestion::Cubic(cubic) = self {
            cubic.lose();
        }
    }

    /// Nothing arrived for a whole timeout, the `first` one in a row or not.
    pub fn start_over(&mut self, first: bool) {
        match self {
            Congestion::Cubic(cubic) => cubic.start_over(first),
            Congestion::Bbr(bbr) => bbr.start_over(),
        }
    }
}
