//! Waiting for what is offered in a group whose sender may go away, and come back.

use std::time::{Duration, Instant};

use mobcast::{Error, EventStream, Group, GroupEvent, NodeId, Offer};

use crate::node::describe;
use crate::progress::Screen;

/// Who made the ticket.
const FOUNDER: NodeId = NodeId(0);

/// A receiver that has lost sight of the sender before anything was offered gives up after this: others that know of an
/// object have told it by then.
const OFFER_PATIENCE: Duration = Duration::from_secs(15);

/// How long a receiver still waits for an offer: without end, unless the sender is gone.
#[derive(Default, Debug)]
pub struct Patience {
    give_up_at: Option<Instant>,
}

impl Patience {
    /// Something has happened at `now`: patience ends some time after the sender has gone, unless it comes back.
    fn observe(&mut self, event: &GroupEvent, now: Instant) {
        match event {
            GroupEvent::CoordinatorChanged { node, .. } if *node == FOUNDER => self.give_up_at = None,
            event if concerns_receiver(event) => {
                self.give_up_at.get_or_insert(now + OFFER_PATIENCE);
            }
            _ => {}
        }
    }

    fn left(&self, now: Instant) -> Duration {
        self.give_up_at.map_or(Duration::MAX, |at| at.saturating_duration_since(now))
    }
}

/// What of the group's events concerns a receiver: who coordinates it.
fn concerns_receiver(event: &GroupEvent) -> bool {
    matches!(event, GroupEvent::CoordinatorLost | GroupEvent::CoordinatorChanged { .. })
}

/// The next event that concerns a receiver. Never ends.
pub async fn next_event(events: &mut EventStream) -> GroupEvent {
    loop {
        match events.next().await {
            Some(event) if concerns_receiver(&event) => return event,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

/// Waits for the founder's next offer, and tells the person who coordinates the group meanwhile. None when patience is over.
/// Any member may offer something, and gets nobody to take it.
pub async fn next_offer(
    group: &Group,
    events: &mut EventStream,
    patience: &mut Patience,
    screen: &mut Screen,
) -> Result<Option<Offer>, Error> {
    loop {
        // What has happened already counts before patience does.
        tokio::select! {
            biased;
            event = next_event(events) => {
                describe(&event).into_iter().for_each(|words| screen.say(&words));
                patience.observe(&event, Instant::now());
            }
            offer = group.next_offer() => match offer? {
                offer if offer.root == FOUNDER => return Ok(Some(offer)),
                other => {
                    screen.say(&format!("not taken: {} offers something, and the ticket is not its own", other.root));
                    other.decline("its receiver takes only what the founder of the group sends");
                }
            },
            () = tokio::time::sleep(patience.left(Instant::now())) => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn coordinated_by(node: u32) -> GroupEvent {
        GroupEvent::CoordinatorChanged { node: NodeId(node), own: false }
    }

    #[test]
    fn patience_ends_some_time_after_the_sender_has_gone() {
        let (mut patience, start) = (Patience::default(), Instant::now());
        assert_eq!(patience.left(start), Duration::MAX);
        patience.observe(&GroupEvent::CoordinatorLost, start);
        patience.observe(&coordinated_by(3), start + SECOND);
        assert_eq!(patience.left(start + SECOND), OFFER_PATIENCE - SECOND, "it counts from when the sender had gone");
    }

    #[test]
    fn a_sender_that_has_come_back_is_waited_for() {
        let (mut patience, start) = (Patience::default(), Instant::now());
        patience.observe(&GroupEvent::CoordinatorLost, start);
        patience.observe(&coordinated_by(3), start);
        patience.observe(&coordinated_by(FOUNDER.0), start + SECOND);
        assert_eq!(patience.left(start + SECOND), Duration::MAX);
        patience.observe(&GroupEvent::CoordinatorLost, start + 9 * SECOND);
        assert_eq!(patience.left(start + 9 * SECOND), OFFER_PATIENCE, "it has gone once more");
    }

    #[test]
    fn what_does_not_concern_a_receiver_changes_nothing() {
        let (mut patience, start) = (Patience::default(), Instant::now());
        patience.observe(&GroupEvent::PeerDropped { node: None, reason: "silent".into() }, start);
        assert_eq!(patience.left(start), Duration::MAX);
    }
}
