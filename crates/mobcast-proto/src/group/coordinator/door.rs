//! Who finds too many at the door is told when to come again: behind all who were told so before, at the pace at which nodes were
//! admitted lately. So most of a crowd come twice; whoever came again and again would cost the coordinator a handshake each time.

use crate::limits::LATER_MAX;
use crate::time::{Duration, Time};

use super::rounds::{ADMISSIONS_AT_ONCE, INTERVAL_MAX};

/// No more can be admitted in a second than this leaves time for.
const PACE_MIN: Duration = Duration(INTERVAL_MAX.0 / ADMISSIONS_AT_ONCE as u64);
/// A machine that seems slower than this stood still, or nobody came.
const PACE_MAX: Duration = Duration::from_millis(5);
/// The pace is this part of the time that an admission was seen to take: who comes no faster than that would never show that more is possible.
const HASTE: (u64, u64) = (3, 4);

/// When those for whom there was no place come again.
#[derive(Debug)]
pub(super) struct Door {
    /// From one of them to the next.
    pace: Duration,
    /// When the last one comes who was told.
    told_until: Time,
    /// Those for whom that is too far off.
    beyond: u64,
    /// Nodes admitted, and since when they are counted.
    admitted: u64,
    counted_since: Time,
}

impl Door {
    /// Nobody has come.
    pub(super) fn new() -> Door {
        Door { pace: PACE_MIN, told_until: Time::ZERO, beyond: 0, admitted: 0, counted_since: Time::ZERO }
    }

    /// Nodes were admitted.
    pub(super) fn admitted(&mut self, now: Time, nodes: usize) {
        self.admitted += nodes as u64;
        if self.admitted >= ADMISSIONS_AT_ONCE as u64 {
            let seen = now.since(self.counted_since).0 / self.admitted;
            self.pace = Duration((seen * HASTE.0 / HASTE.1).clamp(PACE_MIN.0, PACE_MAX.0));
            (self.counted_since, self.admitted) = (now, 0);
        }
    }

    /// There is no place for somebody: after this he should come again.
    pub(super) fn later(&mut self, now: Time) -> Duration {
        if self.told_until <= now {
            // A new crowd.
            *self = Door { counted_since: now, ..Door::new() };
        }
        let at = self.told_until.max(now + INTERVAL_MAX);
        if at.since(now) > LATER_MAX {
            // He has no number yet, and asks for one at a time of his own: otherwise all would come together.
            self.beyond += 1;
            let half = LATER_MAX.0 / 2;
            return Duration(half + self.beyond * self.pace.0 % half);
        }
        self.told_until = at + self.pace;
        at.since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CROWD: u64 = 10_000;

    #[test]
    fn a_crowd_comes_again_one_behind_the_other_as_fast_as_nodes_can_be_admitted() {
        let mut door = Door::new();
        let times: Vec<Duration> = (0..CROWD).map(|_| door.later(Time(7))).collect();
        assert_eq!(times[0], INTERVAL_MAX);
        assert!(times.windows(2).all(|pair| pair[1].0 - pair[0].0 == PACE_MIN.0));
        let later = Time(7) + times[CROWD as usize - 1] + INTERVAL_MAX;
        assert_eq!(door.later(later), INTERVAL_MAX, "nobody of it is expected any more");
    }

    #[test]
    fn a_crowd_that_takes_longer_than_anybody_waits_does_not_come_together() {
        let mut door = Door::new();
        door.pace = Duration::from_millis(3);
        door.told_until = Time(8);
        let times: Vec<Duration> = (0..CROWD).map(|_| door.later(Time(7))).collect();
        let latest = *times.iter().max().expect("there is a crowd");
        assert!(latest <= LATER_MAX, "{latest:?}");
        let in_ms = |at: u64| times.iter().filter(|time| time.0 / 1_000_000 == at).count();
        let crowded = (0..=LATER_MAX.0 / 1_000_000).map(in_ms).max().expect("there are milliseconds");
        assert!(crowded <= 6, "{crowded} of {CROWD} come within a millisecond");
    }

    #[test]
    fn a_slow_machine_is_not_overrun_and_a_quick_one_not_kept_waiting() {
        let mut door = Door::new();
        let mut now = Time::ZERO;
        let gap = |door: &mut Door, now: Time| {
            let first = door.later(now);
            Duration(door.later(now).0 - first.0)
        };
        assert_eq!(gap(&mut door, now), PACE_MIN);
        for _ in 0..4 {
            // It admits one in 3 ms.
            now += Duration::from_millis(3 * ADMISSIONS_AT_ONCE as u64);
            door.told_until = now + INTERVAL_MAX;
            door.admitted(now, ADMISSIONS_AT_ONCE);
        }
        assert_eq!(gap(&mut door, now), Duration::from_micros(2_250));
        for _ in 0..20 {
            // Whoever comes is admitted.
            now += Duration(door.pace.0 * ADMISSIONS_AT_ONCE as u64);
            door.told_until = now + INTERVAL_MAX;
            door.admitted(now, ADMISSIONS_AT_ONCE);
        }
        assert_eq!(gap(&mut door, now), PACE_MIN);
    }
}
