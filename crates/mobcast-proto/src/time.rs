//! The time that the core is given: nanoseconds since an origin that the driver chooses (the start of the process, or
//! of the simulation). The core never asks for it.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A point in time, in nanoseconds since the driver's origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(pub u64);

impl Time {
    /// The driver's origin.
    pub const ZERO: Time = Time(0);

    /// Time from `earlier` to `self`; zero when `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// The earliest of those that are set. A loop, because it is asked for after every input, and iterators over options are not made
    /// one.
    pub fn earliest<const N: usize>(times: [Option<Time>; N]) -> Option<Time> {
        let mut earliest: Option<Time> = None;
        for time in times {
            if earliest.is_none() || time.is_some_and(|time| earliest.is_some_and(|least| time < least)) {
                earliest = time;
            }
        }
        earliest
    }

    /// Seconds since the origin.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);

    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Duration {
        Duration(s.saturating_mul(1_000_000_000))
    }

    /// `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Duration {
        Duration(ms.saturating_mul(1_000_000))
    }

    /// `us` microseconds.
    pub const fn from_micros(us: u64) -> Duration {
        Duration(us.saturating_mul(1_000))
    }

    /// Whole microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Bytes that pass in this time at `rate` bytes per second.
    pub fn bytes_at(self, rate_bytes_per_s: u64) -> u64 {
        product_over(self.0, rate_bytes_per_s, 1_000_000_000) as u64
    }

    /// Time that `bytes` take at `rate` bytes per second (a rate of zero counts as one byte per second).
    pub fn for_bytes(bytes: u64, rate_bytes_per_s: u64) -> Duration {
        let ns = product_over(bytes, 1_000_000_000, rate_bytes_per_s.max(1));
        Duration(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// `self` times `factor`.
    pub const fn times(self, factor: u64) -> Duration {
        Duration(self.0.saturating_mul(factor))
    }
}

/// Bytes per second from `bytes` in `elapsed` (at least a nanosecond).
pub fn rate_bytes_per_s(bytes: u64, elapsed: Duration) -> u64 {
    let rate = product_over(bytes, 1_000_000_000, elapsed.0.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// `a` times `b` over `c`, where it is possible by a division of 64 bits: one of 128 takes many times as long.
fn product_over(a: u64, b: u64, c: u64) -> u128 {
    let wide = || u128::from(a) * u128::from(b) / u128::from(c);
    a.checked_mul(b).map_or_else(wide, |product| u128::from(product / c))
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, d: Duration) -> Time {
        Time(self.0.saturating_add(d.0))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }
}

impl Sub for Duration {
    type Output = Duration;
    fn sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns if ns < 1_000_000 => write!(f, "{} µs", ns / 1_000),
            ns if ns < 10_000_000_000 => write!(f, "{} ms", ns / 1_000_000),
            ns => write!(f, "{:.1} s", ns as f64 / 1e9),
        }
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} s", self.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_claims_does_not_overflow() {
        assert_eq!(Duration::from_micros(u64::MAX), Duration(u64::MAX));
        assert_eq!(Time(5) + Duration::from_secs(u64::MAX), Time(u64::MAX));
        assert_eq!(rate_bytes_per_s(u64::MAX, Duration::ZERO), u64::MAX);
        assert_eq!(Duration::for_bytes(u64::MAX, 0), Duration(u64::MAX));
    }
}
