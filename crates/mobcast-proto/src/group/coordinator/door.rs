//! Who finds too many at the door is told when to come again: behind all who were told so before, at the pace at which nodes were
//! admitted lately. So a crowd comes twice; whoever came again and again would cost the coordinator a handshake each time.

use crate::time::{Duration, Time};

use super::rounds::{ADMISSIONS_AT_ONCE, INTERVAL_MAX};

/// No more can be admitted in a second than this leaves time for.
const PACE_MIN: Duration = Duration(INTERVAL_MAX.0 / ADMISSIONS_AT_ONCE as u64);
/// Who comes at the pace that was seen would never show that a quicker one is possible.
const HASTE: (u64, u64) = (3, 4);

/// When those for whom there was no place come again.
#[derive(Debug)]
pub(super) struct Door {
    /// From one of them to the next.
    pace: Duration,
    /// When the last one comes who was told.
    told_until: Time,
    /// Since when admissions are counted, and how many there were.
    counted: (Time, u64),
}

impl Door {
    /// Nobody has come.
    pub(super) fn new() -> Door {
        Door { pace: PACE_MIN, told_until: Time::ZERO, counted: (Time::ZERO, 0) }
    }

    /// Nodes were admitted.
    pub(super) fn admitted(&mut self, now: Time, nodes: usize) {
        let (since, count) = (self.counted.0, self.counted.1 + nodes as u64);
        self.counted = (since, count);
        if count >= ADMISSIONS_AT_ONCE as u64 {
            let seen = now.since(since).0 / count;
            self.pace = Duration(seen * HASTE.0 / HASTE.1).max(PACE_MIN);
            self.counted = (now, 0);
        }
    }

    /// There is no place for somebody: after this he should come again.
    pub(super) fn later(&mut self, now: Time) -> Duration {
        if self.told_until <= now {
            // A new crowd.
            *self = Door { counted: (now, 0), ..Door::new() };
        }
        let at = self.told_until.max(now + INTERVAL_MAX);
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
