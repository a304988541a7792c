//! The core's time from the machine's monotonic clock.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use mobcast_proto::Time;

/// A clock that starts with the node.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// Starts now.
    pub fn start() -> Clock {
        Clock { origin: Instant::now() }
    }

    /// The time.
    pub fn now(&self) -> Time {
        Time(self.origin.elapsed().as_nanos() as u64)
    }

    /// When the machine's clock will show `time`.
    pub fn instant(&self, time: Time) -> Instant {
        self.origin + std::time::Duration::from_nanos(time.0)
    }
}

/// Seconds since 1970, for certificates and tickets.
pub fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
