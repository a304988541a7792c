//! Which peers reject requests: one may just not know of the broadcast yet, or has given it up and rejects at once what it lacks. Until it
//! sends something it is asked for nothing in advance, for pauses that grow, and nobody counts on it.

use std::collections::BTreeMap;

use crate::fetch::swarm::Swarm;
use crate::strategy::help::MUTE_FOR;
use crate::time::{Duration, Time};
use crate::units::LinkId;

use super::sent_by;

/// Who has rejected a request is asked for nothing in advance for this long, twice as long each time after that, up to [`MUTE_FOR`].
pub(super) const REJECTED_FOR: Duration = Duration::from_millis(500);

/// A peer that has rejected a request.
struct Rejection {
    /// Until when it is asked for nothing in advance, and for how long next time.
    until: Time,
    pause: Duration,
    /// What it had sent by then, bytes.
    sent: u64,
}

/// Those that have rejected a request and sent nothing since.
#[derive(Default)]
pub(super) struct Rejecting(BTreeMap<LinkId, Rejection>);

impl Rejecting {
    /// A peer rejects a request.
    pub(super) fn note(&mut self, swarm: &Swarm, link: LinkId) {
        let (now, sent) = (swarm.now(), sent_by(swarm, link));
        let fresh = || Rejection { until: Time::ZERO, pause: REJECTED_FOR, sent };
        let rejection = self.0.entry(link).or_insert_with(fresh);
        if rejection.sent != sent {
            *rejection = fresh();
        }
        // What was asked at the same time is rejected at the same time.
        if now >= rejection.until {
            rejection.until = now + rejection.pause;
            rejection.pause = Duration((2 * rejection.pause.0).min(MUTE_FOR.0));
        }
    }

    /// Whether a peer has sent nothing since it rejected a request.
    pub(super) fn contains(&self, swarm: &Swarm, link: LinkId) -> bool {
        self.0.get(&link).is_some_and(|rejection| rejection.sent == sent_by(swarm, link))
    }

    /// Whether it is too early to ask such a peer in advance again.
    pub(super) fn pauses(&self, swarm: &Swarm, link: LinkId) -> bool {
        self.contains(swarm, link) && self.0.get(&link).is_some_and(|rejection| swarm.now() < rejection.until)
    }

    /// A peer is gone.
    pub(super) fn forget(&mut self, link: LinkId) {
        self.0.remove(&link);
    }
}
