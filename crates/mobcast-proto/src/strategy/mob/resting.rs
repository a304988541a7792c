//! Thin links to other clusters are left to few. Where many nodes share one, each gets little of it, and what goes over it, control frames
//! too, is stuck behind the others': connections with a packet or two each lose so many that some are silent for longer than a
//! lost peer. Whoever has waited long for what it asked for, and gets far more from elsewhere, rests.

use std::collections::BTreeSet;

use crate::sorted_map::SortedMap;
use crate::time::{Duration, Time};
use crate::units::LinkId;

/// A link that takes so long for a piece…
const THIN: Duration = Duration::from_secs(3);
/// …and brings less than such a part of what the node's other links bring, is thin.
const THIN_PART: u64 = 8;
/// It rests so many times as long, and not longer than this.
const REST: u64 = 3;
const REST_MAX: Duration = Duration::from_secs(10);

/// What a node knows of each of its links to other clusters.
#[derive(Debug, Default)]
pub(super) struct Resting {
    links: SortedMap<LinkId, State>,
    /// Those that are left to the clusters at their other ends.
    given_way: BTreeSet<LinkId>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    AskedAt(Time),
    RestsUntil(Time),
}

impl Resting {
    /// A link was asked for a piece.
    pub(super) fn asked(&mut self, link: LinkId, now: Time) {
        self.links.insert(link, State::AskedAt(now));
    }

    /// Whether a link was asked, and is not known to have brought everything.
    pub(super) fn is_waited_for(&self, link: LinkId) -> bool {
        matches!(self.links.get(&link), Some(State::AskedAt(_)))
    }

    /// A link that was asked has brought everything, at the latest now: it may have to rest. It brings `rate` bytes per second, and all
    /// other links together `others`.
    pub(super) fn served(&mut self, link: LinkId, now: Time, rate: u64, others: u64) {
        let Some(&State::AskedAt(at)) = self.links.get(&link) else { return };
        self.links.remove(&link);
        let took = now.since(at);
        if took >= THIN && others >= rate.saturating_mul(THIN_PART) {
            self.links.insert(link, State::RestsUntil(now + took.times(REST).min(REST_MAX)));
        }
    }

    /// These links, and no others, are left to who is behind.
    pub(super) fn give_way(&mut self, links: BTreeSet<LinkId>) {
        self.given_way = links;
    }

    /// Whether a link is left to others.
    pub(super) fn rests(&self, link: LinkId, now: Time) -> bool {
        self.given_way.contains(&link)
            || matches!(self.links.get(&link), Some(&State::RestsUntil(until)) if now < until)
    }

    /// A link is gone.
    pub(super) fn forget(&mut self, link: LinkId) {
        self.links.remove(&link);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkId = LinkId(1);
    const RATE: u64 = 10_000;

    fn after(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn served(after_s: u64, others: u64) -> Resting {
        let mut resting = Resting::default();
        resting.asked(LINK, Time::ZERO);
        assert!(!resting.rests(LINK, after(after_s)), "it has not been served");
        resting.served(LINK, after(after_s), RATE, others);
        resting
    }

    #[test]
    fn a_thin_link_rests_three_times_as_long_as_it_took_and_ten_seconds_at_most() {
        let mut resting = served(3, 100_000);
        assert!(resting.rests(LINK, after(11)) && !resting.rests(LINK, after(12)));
        resting.asked(LINK, after(12));
        assert!(!resting.rests(LINK, after(12)));
        assert!(served(8, 100_000).rests(LINK, after(17)) && !served(8, 100_000).rests(LINK, after(18)));
    }

    #[test]
    fn a_link_that_brings_a_piece_soon_or_much_of_all_does_not_rest() {
        assert!(!served(2, 100_000).rests(LINK, after(2)));
        assert!(served(4, 8 * RATE).rests(LINK, after(4)));
        assert!(!served(4, 8 * RATE - 1).rests(LINK, after(4)), "others bring hardly more");
    }

    #[test]
    fn what_was_not_asked_or_is_gone_does_not_rest() {
        let mut resting = Resting::default();
        resting.served(LINK, after(9), RATE, u64::MAX);
        assert!(!resting.rests(LINK, after(9)));
        let mut resting = served(4, u64::MAX);
        resting.forget(LINK);
        assert!(!resting.rests(LINK, after(4)));
    }
}
