//! When nodes are admitted: those who ask together, together, so that shares are divided once and not once for each.

use crate::time::{Duration, Time};

use super::door::Door;

/// Who asks when nobody has for a while is admitted at once; those behind him wait this long, and each round behind that one
/// twice as long as the last…
const INTERVAL_MIN: Duration = Duration::from_millis(2);
/// …up to this.
pub(super) const INTERVAL_MAX: Duration = Duration::from_millis(20);
/// Nodes admitted in a round: 12,800 per second, each a certificate, two signatures and a few kilobytes.
pub(super) const ADMISSIONS_AT_ONCE: usize = 256;

/// Rounds of admissions.
#[derive(Debug)]
pub(super) struct Rounds {
    interval: Duration,
    last: Option<Time>,
    next: Option<Time>,
    door: Door,
}

impl Rounds {
    /// None so far.
    pub(super) fn new() -> Rounds {
        Rounds { interval: INTERVAL_MIN, last: None, next: None, door: Door::new() }
    }

    /// When the next one is, if somebody waits for it.
    pub(super) fn due(&self) -> Option<Time> {
        self.next
    }

    /// Somebody waits.
    pub(super) fn ask(&mut self, now: Time) {
        let due = self.last.map_or(now, |last| (last + self.interval).max(now));
        self.next = Some(self.next.map_or(due, |at| at.min(due)));
    }

    /// There is no place for somebody: after this he should come again.
    pub(super) fn later(&mut self, now: Time) -> Duration {
        self.door.later(now)
    }

    /// A round is held, in which so many are admitted; `more` are left for the next one.
    pub(super) fn hold(&mut self, now: Time, nodes: usize, more: bool) {
        self.door.admitted(now, nodes);
        let calm = self.last.is_none_or(|last| now.since(last) > INTERVAL_MAX);
        self.interval = if calm { INTERVAL_MIN } else { self.interval.times(2).min(INTERVAL_MAX) };
        self.last = Some(now);
        self.next = more.then(|| now + self.interval);
    }
}
