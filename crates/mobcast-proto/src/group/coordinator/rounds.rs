//! When nodes are admitted: those who ask together, together, so that shares are divided once and not once for each.

use crate::time::{Duration, Time};

/// Who asks when nobody has for a while is admitted at once; those behind him wait this long, and each round behind that one
/// twice as long as the last…
const INTERVAL_MIN: Duration = Duration::from_millis(2);
/// …up to this.
const INTERVAL_MAX: Duration = Duration::from_millis(20);

/// Rounds of admissions.
#[derive(Debug)]
pub(super) struct Rounds {
    interval: Duration,
    last: Option<Time>,
    next: Option<Time>,
}

impl Rounds {
    /// None so far.
    pub(super) fn new() -> Rounds {
        Rounds { interval: INTERVAL_MIN, last: None, next: None }
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

    /// A round is held; `more` are left for the next one.
    pub(super) fn hold(&mut self, now: Time, more: bool) {
        let calm = self.last.is_none_or(|last| now.since(last) > INTERVAL_MAX);
        self.interval = if calm { INTERVAL_MIN } else { self.interval.times(2).min(INTERVAL_MAX) };
        self.last = Some(now);
        self.next = more.then(|| now + self.interval);
    }
}
