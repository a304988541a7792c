//! The machine's clocks.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on the monotonic clock, which all processes of the machine share.
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
