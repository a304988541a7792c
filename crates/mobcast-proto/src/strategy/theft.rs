//! Whom a thief has asked for work. It waits for one answer at a time and not for long; yet a late answer counts, because what a
//! victim has given nobody else will import.

use std::collections::BTreeMap;

use crate::time::{Duration, Time};
use crate::units::LinkId;

/// The thefts of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Theft {
    /// Who is being waited for, and since when.
    asked: Option<(LinkId, Time)>,
    /// Victims that have not answered in time, and how many answers each owes.
    late: BTreeMap<LinkId, u32>,
}

impl Theft {
    /// A victim was asked.
    pub(super) fn begin(&mut self, victim: LinkId, now: Time) {
        self.asked = Some((victim, now));
    }

    /// Whether a victim is being waited for.
    pub(super) fn is_under_way(&self) -> bool {
        self.asked.is_some()
    }

    /// Stops to wait for a victim that has not answered within `patience`, and says which.
    pub(super) fn give_up(&mut self, now: Time, patience: Duration) -> Option<LinkId> {
        let (victim, _) = self.asked.filter(|&(_, since)| now.since(since) >= patience)?;
        self.asked = None;
        *self.late.entry(victim).or_insert(0) += 1;
        Some(victim)
    }

    /// A peer answers: whether it was asked. Answers come in the order of the questions, so that one to an earlier question
    /// leaves a later one open.
    pub(super) fn end(&mut self, victim: LinkId) -> bool {
        if let Some(owed) = self.late.get_mut(&victim) {
            *owed -= 1;
            if *owed == 0 {
                self.late.remove(&victim);
            }
            return true;
        }
        let waited_for = self.asked.is_some_and(|(asked, _)| asked == victim);
        if waited_for {
            self.asked = None;
        }
        waited_for
    }

    /// A peer is gone.
    pub(super) fn forget(&mut self, peer: LinkId) {
        self.asked = self.asked.filter(|&(victim, _)| victim != peer);
        self.late.remove(&peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(1);

    #[test]
    fn whoever_was_asked_may_answer_once_in_time_or_late() {
        let [early, late, stranger] = [1, 2, 3].map(LinkId);
        let mut theft = Theft::default();
        theft.begin(early, Time::ZERO);
        assert!(!theft.end(stranger) && theft.is_under_way());
        assert!(theft.end(early) && !theft.is_under_way());
        assert!(!theft.end(early), "it was asked once");
        theft.begin(late, Time::ZERO);
        assert_eq!(theft.give_up(Time(999_999_999), PATIENCE), None);
        assert_eq!(theft.give_up(Time(1_000_000_000), PATIENCE), Some(late));
        theft.begin(early, Time(1_000_000_000));
        assert!(theft.end(late), "what it has given, it has no more");
        assert!(theft.is_under_way(), "the other one is still waited for");
        assert!(!theft.end(late));
    }

    #[test]
    fn who_was_asked_twice_may_answer_twice_unless_it_is_gone() {
        let victim = LinkId(1);
        let mut theft = Theft::default();
        let ask_twice = |theft: &mut Theft| {
            theft.begin(victim, Time::ZERO);
            theft.give_up(Time(2_000_000_000), PATIENCE);
            theft.begin(victim, Time(2_000_000_000));
        };
        ask_twice(&mut theft);
        assert!(theft.end(victim) && theft.is_under_way() && theft.end(victim));
        assert!(!theft.is_under_way() && !theft.end(victim));
        ask_twice(&mut theft);
        theft.forget(victim);
        assert!(!theft.is_under_way() && !theft.end(victim));
    }

    /// What it gives late it gives each time, and nobody else imports it.
    #[test]
    fn who_was_late_twice_may_answer_twice() {
        let victim = LinkId(1);
        let mut theft = Theft::default();
        for asked_at in [Time::ZERO, Time(2_000_000_000)] {
            theft.begin(victim, asked_at);
            assert_eq!(theft.give_up(asked_at + PATIENCE, PATIENCE), Some(victim));
        }
        assert!(theft.end(victim) && theft.end(victim) && !theft.end(victim));
    }
}
