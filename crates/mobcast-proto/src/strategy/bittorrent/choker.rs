//! Whom a node serves: tit for tat. Of the peers that want something, the four with the highest rates are unchoked, chosen
//! anew every ten seconds; a fifth one is drawn every thirty seconds, whatever its rate, so that better ones are found and
//! newcomers have something to give. Between the rounds nobody loses a place for being slow; a place that is free is given
//! away at once.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::random::Random;
use crate::time::{Duration, Time, rate_bytes_per_s};
use crate::units::LinkId;

/// Peers that are unchoked for their rate; the optimistic one comes on top.
const REGULAR: usize = 4;
/// How often they are chosen.
const ROUND: Duration = Duration::from_secs(10);
/// How often another peer is unchoked by chance.
const OPTIMISTIC_EVERY: Duration = Duration::from_secs(30);
/// A peer without any piece is this many times as likely to be it.
const NEWCOMER_WEIGHT: usize = 3;

/// A peer that wants something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Its link.
    pub link: LinkId,
    /// What counts for it.
    pub rate_bytes_per_s: u64,
    /// Whether it has no piece.
    pub newcomer: bool,
}

/// Whose state has changed.
#[derive(Debug)]
pub(super) struct Changes {
    /// Who is not served any more.
    pub choked: Vec<LinkId>,
    /// Who is served from here on.
    pub unchoked: Vec<LinkId>,
}

/// Whom a node serves.
#[derive(Default)]
pub(super) struct Choker {
    regular: BTreeSet<LinkId>,
    optimistic: Option<LinkId>,
    round_at: Time,
    optimistic_at: Time,
}

impl Choker {
    /// The broadcast begins.
    pub(super) fn begin(&mut self, now: Time) {
        self.round_at = now + ROUND;
        self.optimistic_at = now + OPTIMISTIC_EVERY;
    }

    /// When peers are chosen anew.
    pub(super) fn due(&self) -> Time {
        self.round_at
    }

    /// Chooses anew, if it is time, and gives free places away.
    pub(super) fn review(&mut self, now: Time, candidates: &[Candidate], random: &mut Random) -> Changes {
        let before = self.unchoked();
        let round = now >= self.round_at;
        if round {
            self.round_at = now + ROUND;
            self.regular.clear();
        }
        let wants = |link: &LinkId| candidates.iter().any(|candidate| candidate.link == *link);
        self.regular.retain(wants);
        self.optimistic = self.optimistic.filter(wants);
        let last = self.optimistic;
        if now >= self.optimistic_at {
            self.optimistic_at = now + OPTIMISTIC_EVERY;
            self.optimistic = None;
        }
        let free = REGULAR - self.regular.len();
        let open = |candidate: &&Candidate| {
            !self.regular.contains(&candidate.link) && (round || self.optimistic != Some(candidate.link))
        };
        let mut best: Vec<&Candidate> = candidates.iter().filter(open).collect();
        best.sort_by_key(|c| (Reverse(c.rate_bytes_per_s), !before.contains(&c.link), c.link));
        self.regular.extend(best.into_iter().take(free).map(|candidate| candidate.link));
        self.optimistic = self.optimistic.filter(|link| !self.regular.contains(link));
        if self.optimistic.is_none() {
            let others = candidates.iter().filter(|c| !self.regular.contains(&c.link) && last != Some(c.link));
            // Whoever had the place has it again only if nobody else wants it.
            self.optimistic = draw(others, random).or(last.filter(|link| !self.regular.contains(link)));
        }
        let after = self.unchoked();
        Changes {
            choked: before.difference(&after).copied().collect(),
            unchoked: after.difference(&before).copied().collect(),
        }
    }

    fn unchoked(&self) -> BTreeSet<LinkId> {
        self.regular.iter().copied().chain(self.optimistic).collect()
    }

    /// # Panics
    /// If more are served than should be, or one that does not want anything: that is a bug.
    pub(super) fn check_invariants(&self, wants: impl Fn(LinkId) -> bool) {
        assert!(self.regular.len() <= REGULAR, "{:?} are unchoked", self.regular);
        assert!(self.optimistic.is_none_or(|link| !self.regular.contains(&link)), "one peer has two places");
        assert!(self.unchoked().into_iter().all(wants), "somebody is unchoked who wants nothing");
    }
}

/// One of these by chance.
fn draw<'a>(candidates: impl Iterator<Item = &'a Candidate>, random: &mut Random) -> Option<LinkId> {
    let weight = |candidate: &Candidate| if candidate.newcomer { NEWCOMER_WEIGHT } else { 1 };
    let tickets: Vec<LinkId> = candidates.flat_map(|c| std::iter::repeat_n(c.link, weight(c))).collect();
    (!tickets.is_empty()).then(|| tickets[random.below(tickets.len())])
}

/// Bytes that have crossed a link in one direction, over the last two rounds.
#[derive(Debug)]
pub(super) struct Meter {
    /// At the end of the round before the last one, and of the last one: when, and how many there were.
    marks: [(Time, u64); 2],
}

impl Meter {
    /// From here on; `bytes` have crossed the link before.
    pub(super) fn new(now: Time, bytes: u64) -> Meter {
        Meter { marks: [(now, bytes); 2] }
    }

    /// The rate of the last ten to twenty seconds, when `bytes` have crossed the link.
    pub(super) fn rate_bytes_per_s(&self, now: Time, bytes: u64) -> u64 {
        let (at, before) = self.marks[0];
        rate_bytes_per_s(bytes.saturating_sub(before), now.since(at))
    }

    /// A round is over.
    pub(super) fn end_round(&mut self, now: Time, bytes: u64) {
        self.marks = [self.marks[1], (now, bytes)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Peers of links 1, 2 and so on with these rates, none of them a newcomer.
    fn candidates(rates: &[u64]) -> Vec<Candidate> {
        let candidate = |(link, &rate_bytes_per_s): (u32, &u64)| Candidate {
            link: LinkId(link),
            rate_bytes_per_s,
            newcomer: false,
        };
        (1..).zip(rates).map(candidate).collect()
    }

    fn choker() -> (Choker, Random) {
        let mut choker = Choker::default();
        choker.begin(Time::ZERO);
        (choker, Random::new(1))
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn links(choker: &Choker) -> Vec<u32> {
        choker.regular.iter().map(|link| link.0).collect()
    }

    #[test]
    fn places_are_given_to_the_first_five_at_once() {
        let (mut choker, mut random) = choker();
        for count in 1..=9 {
            let changes = choker.review(at(1), &candidates(&vec![0; count]), &mut random);
            let fresh: &[LinkId] = if count <= 5 { &[LinkId(count as u32)] } else { &[] };
            assert_eq!((&changes.unchoked[..], changes.choked.len()), (fresh, 0), "peer {count}");
            assert_eq!(choker.unchoked().len(), count.min(5));
        }
    }

    #[test]
    fn the_four_with_the_highest_rates_are_unchoked_every_ten_seconds_and_not_before() {
        let (mut choker, mut random) = choker();
        choker.review(at(0), &candidates(&[0; 8]), &mut random);
        assert_eq!(links(&choker), [1, 2, 3, 4]);
        let optimistic = choker.optimistic.expect("the fifth place is given away too");
        let mut rates = [1, 2, 3, 4, 50, 60, 70, 80];
        rates[optimistic.0 as usize - 1] = 0;
        choker.review(at(9), &candidates(&rates), &mut random);
        assert_eq!(links(&choker), [1, 2, 3, 4], "it is not time");
        choker.review(at(10), &candidates(&rates), &mut random);
        let best: Vec<u32> = [4, 5, 6, 7, 8].into_iter().filter(|&link| link != optimistic.0).collect();
        assert_eq!(
            (links(&choker), choker.optimistic),
            (best, Some(optimistic)),
            "it keeps its place for thirty seconds"
        );
        choker.review(at(19), &candidates(&[9, 9, 9, 9, 0, 0, 0, 0]), &mut random);
        assert!(!links(&choker).contains(&1));
        choker.review(at(20), &candidates(&[9, 9, 9, 9, 0, 0, 0, 0]), &mut random);
        assert_eq!(links(&choker), [1, 2, 3, 4]);
    }

    #[test]
    fn an_optimistic_unchoke_that_pays_gets_a_place_of_its_own() {
        let (mut choker, mut random) = choker();
        choker.review(at(0), &candidates(&[0; 6]), &mut random);
        let optimistic = choker.optimistic.expect("there are enough");
        let mut rates = [1; 6];
        rates[optimistic.0 as usize - 1] = 9;
        choker.review(at(10), &candidates(&rates), &mut random);
        assert!(choker.regular.contains(&optimistic));
        assert_ne!(choker.optimistic, Some(optimistic), "the fifth place is another one's");
        assert_eq!(choker.unchoked().len(), 5);
    }

    #[test]
    fn the_optimistic_unchoke_changes_every_thirty_seconds_whatever_the_rates() {
        let (mut choker, mut random) = choker();
        let rates = candidates(&[9, 9, 9, 9, 0, 1, 2, 3]);
        let mut held = Vec::new();
        for second in (0..120).step_by(10).flat_map(|round| [round, round + 9]) {
            choker.review(at(second), &rates, &mut random);
            held.push(choker.optimistic.expect("there are enough").0);
        }
        let periods: Vec<&[u32]> = held.chunks(6).collect();
        for period in &periods {
            assert!(period.iter().all(|link| *link == period[0]), "{held:?}");
        }
        assert!(periods.windows(2).all(|pair| pair[0][0] != pair[1][0]), "somebody else each time: {held:?}");
    }

    #[test]
    fn newcomers_are_three_times_as_likely_to_be_unchoked() {
        let mut counts = [0; 9];
        for seed in 0..6_000 {
            let (mut choker, _) = choker();
            let mut all = candidates(&[9, 9, 9, 9, 0, 1, 2, 3]);
            all[4].newcomer = true;
            choker.review(at(0), &all, &mut Random::new(seed));
            counts[choker.optimistic.expect("there are enough").0 as usize] += 1;
        }
        // Of six tickets the newcomer has three.
        assert!((2_850..3_150).contains(&counts[5]), "{counts:?}");
        assert!(counts[6..].iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
    }

    #[test]
    fn who_wants_nothing_any_more_makes_room_for_the_best_of_the_others() {
        let (mut choker, mut random) = choker();
        choker.review(at(0), &candidates(&[0; 8]), &mut random);
        let mut others = candidates(&[5, 5, 5, 5, 6, 7, 8, 9]);
        others.remove(1);
        let optimistic = choker.optimistic;
        let best = (5..=8).map(LinkId).rfind(|&link| Some(link) != optimistic).expect("three are left");
        let changes = choker.review(at(5), &others, &mut random);
        assert_eq!((changes.choked, changes.unchoked), (vec![LinkId(2)], vec![best]));
        assert_eq!(choker.optimistic, optimistic);
    }

    #[test]
    fn a_rate_is_that_of_the_last_two_rounds() {
        let mut meter = Meter::new(at(0), 100);
        assert_eq!(meter.rate_bytes_per_s(at(10), 1_100), 100);
        meter.end_round(at(10), 1_100);
        assert_eq!(meter.rate_bytes_per_s(at(20), 1_100), 50);
        meter.end_round(at(20), 1_100);
        assert_eq!(meter.rate_bytes_per_s(at(25), 1_400), 20, "fifteen seconds");
        assert_eq!(meter.rate_bytes_per_s(at(30), 1_400), 15, "what was before does not count");
    }
}
