//! TCP's slow start, for flows of the fluid model: a new connection, and one that has been idle, sends a window in each round trip,
//! which doubles until something else limits the flow. Left out are losses: a window that has opened stays open until the flow is idle.

use mobcast_proto::time::rate_bytes_per_s;
use mobcast_proto::{Duration, Time};

/// The first window: ten segments (RFC 6928) of Ethernet's size.
const WINDOW_FIRST_BYTES: u64 = 10 * 1_448;
/// Who has sent nothing for a round trip and this long begins anew (RFC 5681, section 4.1, with Linux's shortest timeout).
const IDLE: Duration = Duration::from_millis(200);

/// The window of one flow.
#[derive(Debug)]
pub(super) struct SlowStart {
    round_trip: Duration,
    /// Nothing, where it does not limit the flow any more.
    window_bytes: Option<u64>,
    /// Whether [`super::super::base::Event::Widens`] is in the queue.
    is_due: bool,
    sent_at: Time,
}

impl SlowStart {
    /// The window of a new flow.
    pub fn new(now: Time, round_trip: Duration) -> SlowStart {
        SlowStart { round_trip, window_bytes: Some(WINDOW_FIRST_BYTES), is_due: false, sent_at: now }
    }

    /// The most that the flow sends, bytes per second. A window goes out in the first half of a round trip, as with Linux's pacing,
    /// so that as much is on its way as in bursts at its beginning, in the mean.
    pub fn cap_bytes_per_s(&self) -> Option<u64> {
        self.window_bytes.map(|bytes| rate_bytes_per_s(2 * bytes, self.round_trip))
    }

    /// The flow sends.
    pub fn note_sending(&mut self, now: Time) {
        self.sent_at = now;
    }

    /// The flow begins to send; true if it has another window than before.
    pub fn begin(&mut self, now: Time) -> bool {
        let anew = now.since(self.sent_at) > IDLE + self.round_trip;
        if anew {
            self.window_bytes = Some(WINDOW_FIRST_BYTES);
        }
        self.sent_at = now;
        anew
    }

    /// When the window is to be looked at, if nobody knows yet.
    pub fn take_due(&mut self, now: Time) -> Option<Time> {
        let due = self.window_bytes.filter(|_| !self.is_due).map(|_| now + self.round_trip);
        self.is_due |= due.is_some();
        due
    }

    /// A round trip is over, in which the flow had `rate_bytes_per_s` at the end; nothing if it is idle.
    pub fn widen(&mut self, rate_bytes_per_s: Option<u64>) {
        self.is_due = false;
        if let (Some(rate), Some(cap)) = (rate_bytes_per_s, self.cap_bytes_per_s()) {
            // What is rounded away is less than this.
            let limits = rate.saturating_add(1 + cap / 128) >= cap;
            self.window_bytes = self.window_bytes.filter(|_| limits).map(|bytes| bytes.saturating_mul(2));
        }
    }
}
