//! Who has joined, who has everything, who is missing: from this `send` decides when it is done, and how it ends.
//!
//! Promises: a decision to give up never cuts off a receiver that is still receiving. It is a function of what it is
//! told and of the times that come with it; it reads no clock.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use mobcast::{NodeId, NodeProgress, NodeState};

use crate::failure::{Failure, Status};

/// How long `send --receivers` waits for the replacement of a lost receiver.
pub const WAIT_AFTER_LOSS: Duration = Duration::from_secs(60);

/// All receivers that ever joined.
#[derive(Debug)]
pub struct Roster {
    receivers: Vec<NodeProgress>,
    /// Receivers that are wanted; without it `send` serves until it is interrupted.
    wanted: Option<usize>,
    /// The user's `--wait`.
    wait: Option<Duration>,
    /// When a receiver came or went for the last time, or when it began.
    changed: Instant,
}

impl Roster {
    /// Nobody has joined at `now`.
    pub fn new(wanted: Option<usize>, wait: Option<Duration>, now: Instant) -> Roster {
        Roster { receivers: Vec::new(), wanted, wait, changed: now }
    }

    /// These are the receivers at `now`. Whoever was there and is not any more was lost, even if it had not begun.
    pub fn observe(&mut self, receivers: &[NodeProgress], now: Instant) {
        let were = (self.receivers.len(), self.count(is_there));
        let listed: BTreeSet<NodeId> = receivers.iter().map(|receiver| receiver.node).collect();
        self.receivers.retain(|receiver| !listed.contains(&receiver.node));
        for vanished in self.receivers.iter_mut().filter(|receiver| receiver.state == NodeState::Receiving) {
            vanished.state = NodeState::Lost;
        }
        self.receivers.extend_from_slice(receivers);
        if were != (self.receivers.len(), self.count(is_there)) {
            self.changed = now;
        }
    }

    /// Receivers that have verified everything.
    pub fn complete(&self) -> usize {
        self.count(|state| *state == NodeState::Complete)
    }

    /// Receivers of whom a result is expected: those wanted, or those that are there.
    pub fn expected(&self) -> usize {
        self.wanted.unwrap_or(0).max(self.count(is_there))
    }

    /// Whether `send` is done at `now`, and how.
    pub fn verdict(&self, now: Instant) -> Option<Result<(), Failure>> {
        let wanted = self.wanted?;
        if self.count(|state| *state == NodeState::Receiving) > 0 {
            return None;
        }
        if self.complete() >= wanted {
            return Some(Ok(()));
        }
        let was_lost = self.count(|state| !is_there(state)) > 0;
        let wait = self.wait.or(was_lost.then_some(WAIT_AFTER_LOSS))?;
        (now.duration_since(self.changed) >= wait).then(|| Err(self.incomplete(wanted)))
    }

    /// How `send` ends when it is interrupted, which is its ordinary end without `--receivers`.
    pub fn at_interrupt(&self) -> Result<(), Failure> {
        if self.wanted.is_some() || self.receivers.is_empty() {
            return Err(Failure::interrupted());
        }
        let is_receiving = |receiver: &&NodeProgress| receiver.state == NodeState::Receiving;
        let unfinished: Vec<&str> = self.receivers.iter().filter(is_receiving).map(|r| &*r.name).collect();
        if !unfinished.is_empty() {
            let message = format!("interrupted before these receivers had everything: {}", unfinished.join(", "));
            return Err(Failure::new(Status::Interrupted, message));
        }
        match self.losses() {
            losses if losses.is_empty() => Ok(()),
            losses => {
                let message = format!("not everybody has everything: {}; start these again", losses.join(", "));
                Err(Failure::new(Status::Incomplete, message))
            }
        }
    }

    fn incomplete(&self, wanted: usize) -> Failure {
        let mut message = format!("{} of {wanted} receivers have everything", self.complete());
        match self.losses() {
            losses if losses.is_empty() => {
                message += ", and no other joined in time; start the others sooner or give a longer --wait";
            }
            losses => message += &format!("; {}; start these again, with a new send", losses.join(", ")),
        }
        Failure::new(Status::Incomplete, message)
    }

    /// Everybody who left without everything, each with the reason.
    fn losses(&self) -> Vec<String> {
        let described = |receiver: &NodeProgress| match &receiver.state {
            NodeState::Lost => Some(format!("{} was lost", receiver.name)),
            NodeState::Failed(reason) => Some(format!("{} failed ({reason})", receiver.name)),
            NodeState::Receiving | NodeState::Complete => None,
        };
        self.receivers.iter().filter_map(described).collect()
    }

    fn count(&self, is_counted: impl Fn(&NodeState) -> bool) -> usize {
        self.receivers.iter().filter(|receiver| is_counted(&receiver.state)).count()
    }
}

/// Whether a receiver counts: it has everything, or will have.
pub fn is_there(state: &NodeState) -> bool {
    matches!(state, NodeState::Receiving | NodeState::Complete)
}

#[cfg(test)]
mod tests {
    use NodeState::{Complete, Lost, Receiving};
    use mobcast::NodeId;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The same receivers (a, b, ...) in these states.
    fn receivers(states: &[NodeState]) -> Vec<NodeProgress> {
        let receiver = |(number, state): (u32, &NodeState)| NodeProgress {
            node: NodeId(number + 1),
            name: char::from(b'a' + number as u8).to_string(),
            cluster: "x".into(),
            bytes: 0,
            state: state.clone(),
        };
        (0..).zip(states).map(receiver).collect()
    }

    fn roster(wanted: Option<usize>, wait: Option<Duration>, states: &[NodeState]) -> (Roster, Instant) {
        let now = Instant::now();
        let mut roster = Roster::new(wanted, wait, now);
        roster.observe(&receivers(states), now);
        (roster, now)
    }

    fn status(end: Result<(), Failure>) -> Status {
        end.map_or_else(|failure| failure.status, |()| Status::Done)
    }

    #[test]
    fn it_is_done_when_all_wanted_receivers_have_everything() {
        let (mut roster, now) = roster(Some(2), None, &[Complete, Receiving]);
        assert_eq!(roster.verdict(now), None);
        roster.observe(&receivers(&[Complete, Complete]), now);
        assert_eq!(roster.verdict(now), Some(Ok(())));
        roster.observe(&receivers(&[Complete, Complete, Receiving]), now);
        assert_eq!(roster.verdict(now), None, "one more than wanted is not cut off");
        assert_eq!((roster.complete(), roster.expected()), (2, 3));
    }

    #[test]
    fn the_first_receivers_have_all_the_time_unless_wait_says_otherwise() {
        let (patient, now) = roster(Some(1), None, &[]);
        assert_eq!(patient.verdict(now + 1_000_000 * SECOND), None);
        let (hasty, now) = roster(Some(2), Some(5 * SECOND), &[Receiving]);
        assert_eq!(hasty.verdict(now + 9 * SECOND), None, "a is receiving and must not be cut off");
        let (hasty, now) = roster(Some(1), Some(5 * SECOND), &[]);
        assert_eq!(hasty.verdict(now + 4 * SECOND), None);
        assert_eq!(hasty.verdict(now + 5 * SECOND).map(status), Some(Status::Incomplete));
    }

    #[test]
    fn a_lost_receiver_is_waited_for_and_then_named() {
        let (mut roster, start) = roster(Some(2), None, &[Complete, Receiving]);
        let lost = start + 100 * SECOND;
        roster.observe(&receivers(&[Complete, Lost]), lost);
        assert_eq!(roster.verdict(lost + WAIT_AFTER_LOSS - SECOND), None);
        let failure = roster.verdict(lost + WAIT_AFTER_LOSS).expect("decided").expect_err("incomplete");
        assert_eq!(failure.status, Status::Incomplete);
        assert_eq!(failure.message, "1 of 2 receivers have everything; b was lost; start these again, with a new send");
    }

    #[test]
    fn a_receiver_that_vanishes_was_lost() {
        let (mut roster, start) = roster(Some(2), None, &[Receiving, Receiving]);
        roster.observe(&receivers(&[Complete]), start);
        let failure = roster.verdict(start + WAIT_AFTER_LOSS).expect("decided").expect_err("incomplete");
        assert!(failure.message.contains("b was lost"), "{failure}");
    }

    #[test]
    fn a_replacement_makes_up_for_a_loss() {
        let (mut roster, now) = roster(Some(1), Some(SECOND), &[Lost]);
        roster.observe(&receivers(&[Lost, Receiving]), now);
        assert_eq!(roster.verdict(now + 9 * SECOND), None);
        roster.observe(&receivers(&[Lost, Complete]), now);
        assert_eq!(roster.verdict(now + 9 * SECOND), Some(Ok(())));
    }

    #[test]
    fn an_interrupt_ends_it_by_what_was_reached() {
        let failed = NodeState::Failed("no space".into());
        for (wanted, states, expected) in [
            (None, vec![], Status::Interrupted),
            (None, vec![Complete, Receiving], Status::Interrupted),
            (None, vec![Complete, failed], Status::Incomplete),
            (None, vec![Complete, Complete], Status::Done),
            (Some(2), vec![Complete], Status::Interrupted),
        ] {
            let (roster, _) = roster(wanted, None, &states);
            assert_eq!(status(roster.at_interrupt()), expected, "{wanted:?} {states:?}");
        }
    }
}
