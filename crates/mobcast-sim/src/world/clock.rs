//! A machine's own clock: where it starts and how fast it runs is the machine's own. A node is told its machine's time
//! alone, and no time of one machine means anything to another.

use mobcast_proto::{Duration, Time};

/// Parts in which the error of a clock's rate is counted.
const MILLION: i128 = 1_000_000;

/// A clock beside the network's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Clock {
    /// How far it is ahead at the start of the run.
    pub ahead: Duration,
    /// How much faster it runs, in millionths; below zero for a clock that is slow.
    pub fast_ppm: i32,
}

impl Clock {
    /// What it shows at the network's `time`.
    pub fn shows(self, time: Time) -> Time {
        if self.fast_ppm == 0 {
            return time + self.ahead;
        }
        let gained = i128::from(time.0) * i128::from(self.fast_ppm) / MILLION;
        let shown = i128::from(self.ahead.0) + i128::from(time.0) + gained;
        Time(u64::try_from(shown).unwrap_or(u64::MAX))
    }

    /// The network's time at which it shows `shown`, or has just passed it.
    pub fn when(self, shown: Time) -> Time {
        if self.fast_ppm == 0 {
            return Time(shown.0.saturating_sub(self.ahead.0));
        }
        let since_start = i128::from(shown.0.saturating_sub(self.ahead.0));
        let exact = since_start * MILLION / (MILLION + i128::from(self.fast_ppm));
        let mut time = Time(u64::try_from(exact).unwrap_or(u64::MAX));
        while self.shows(time) < shown && time.0 < u64::MAX {
            time.0 += 1;
        }
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_never_early_and_at_most_a_few_nanoseconds_late() {
        for fast_ppm in [-100, -1, 0, 3, 100] {
            let clock = Clock { ahead: Duration::from_secs(77), fast_ppm };
            for at in (0..2_000u64).map(|i| Time(77_000_000_000 + i * 987_654_321)) {
                let shown = clock.shows(clock.when(at));
                assert!(shown >= at && shown.0 - at.0 < 4, "{fast_ppm}: {at:?} {shown:?}");
            }
        }
        assert_eq!(Clock::default().shows(Time(5)), Time(5));
    }
}
