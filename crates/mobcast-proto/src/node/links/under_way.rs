//! What a node passes on for others: their reports on the way up the control tree, and what the coordinator sends down it. The driver gives
//! up a link on which too much waits, which others must not bring about. So no more of theirs is under way over a link than comes
//! through: a ping behind it shows when it has.
//!
//! Left to others: whether what there is no room for waits or is left out.

use crate::limits::PASSED_ON_BYTES_MAX;
use crate::node::Node;
use crate::time::Time;
use crate::units::LinkId;
use crate::wire::frame::Frame;

/// When so much is under way, the peer is asked.
const ASKED_BYTES: usize = PASSED_ON_BYTES_MAX / 2;

/// What was passed on over a link and is not known to be through.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    bytes: usize,
    /// The ping that is behind so many of them.
    asked: Option<(Time, usize)>,
}

impl Node {
    /// Bytes that were passed on over a link and are not known to be through.
    pub(in crate::node) fn under_way(&self, link: LinkId) -> usize {
        self.links.get(&link).map_or(0, |state| state.under_way.bytes)
    }

    /// Sends a frame, of about so many bytes, that others have brought about.
    pub(in crate::node) fn pass_on(&mut self, link: LinkId, frame: Frame, bytes: usize) {
        self.send(link, frame);
        if let Some(state) = self.links.get_mut(&link) {
            state.under_way.bytes += bytes;
            self.ask_what_is_through(link);
        }
    }

    fn ask_what_is_through(&mut self, link: LinkId) {
        let is_due = |under_way: &UnderWay| under_way.asked.is_none() && under_way.bytes >= ASKED_BYTES;
        if self.links.get(&link).is_some_and(|state| is_due(&state.under_way)) {
            self.ping(link);
            if let Some(state) = self.links.get_mut(&link) {
                state.under_way.asked = state.pinged_at.map(|at| (at, state.under_way.bytes));
            }
        }
    }

    /// The peer has answered the ping of this time.
    pub(super) fn note_through(&mut self, link: LinkId, ping: Time) {
        let Some(state) = self.links.get_mut(&link) else { return };
        let Some((_, through)) = state.under_way.asked.take_if(|(at, _)| *at <= ping) else { return };
        state.under_way.bytes -= through;
        self.ask_what_is_through(link);
        if self.upward_link() == Some(link) {
            self.flush_reports();
        }
    }
}
