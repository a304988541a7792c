//! Which parents are silent. A tree that carries little has long pauses between its pieces, and a parent that waits for its own
//! parent has nothing to send: for some time neither is a reason to fetch elsewhere. So whoever has had nothing for a while asks its
//! parent first. Who has nothing at all has nothing to say either, and is waited for as long as one that does not answer.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::fetch::swarm::Swarm;
use crate::limits::SILENCE_MAX;
use crate::strategy::help;
use crate::time::{Duration, Time};
use crate::units::LinkId;

use super::{HELP_AFTER, sent_by};

/// So many of its pieces could have come at its rate before a parent that has some counts as silent.
const PIECES_AWAITED: u64 = 4;
/// The same where nothing has come yet, so that its rate is not known.
const FIRST_AWAITED: Duration = SILENCE_MAX;
/// However little it may send, a parent that sends nothing is not waited for longer than this.
const AWAITED_MAX: Duration = Duration(3 * SILENCE_MAX.0);

/// What a node knows of peers that it has asked for pieces and that send nothing.
#[derive(Default)]
pub(super) struct Silence {
    /// Who was asked what it has, and when.
    asked: BTreeMap<LinkId, Time>,
    /// Who has something that it was asked for, and has sent nothing since.
    owing: BTreeMap<LinkId, Time>,
    /// Who was asked in vain, and what it had sent until then, bytes: it counts while it has sent no more.
    vain: BTreeMap<LinkId, u64>,
}

impl Silence {
    /// Asks those who have sent nothing for a while what they have, once, and notes who has what it was asked for.
    pub(super) fn look(&mut self, swarm: &mut Swarm) {
        let now = swarm.now();
        let quiet = swarm.peers().filter(|(_, peer)| peer.window.stalled_for(now) >= HELP_AFTER);
        let quiet: BTreeMap<LinkId, bool> = quiet.map(|(link, _)| (link, owes(swarm, link))).collect();
        self.owing.retain(|link, _| quiet.get(link).is_some_and(|owes| *owes));
        for (link, owes) in quiet {
            if let Entry::Vacant(entry) = self.asked.entry(link) {
                entry.insert(now);
                help::ask(swarm, link);
            }
            if owes {
                self.owing.entry(link).or_insert(now);
            }
        }
    }

    /// Whether a peer is gone, or sends nothing of what it was asked for although it has it, or says of nothing that it has it; or has
    /// sent nothing for very long. Without its root a broadcast ends for those who get nothing ([`crate::limits::SILENCE_MAX`]), so
    /// that nobody is waited for then.
    pub(super) fn is_silent(&self, swarm: &Swarm, link: LinkId) -> bool {
        let Some(peer) = swarm.peer(link) else { return true };
        let (now, quiet) = (swarm.now(), peer.window.stalled_for(swarm.now()));
        let in_vain = self.vain.get(&link).is_some_and(|&sent| sent == sent_by(swarm, link));
        if in_vain || swarm.standing.root_cluster.is_none() {
            return quiet >= HELP_AFTER;
        }
        let patience = match peer.window.rate_bytes_per_s() {
            0 => FIRST_AWAITED,
            rate => Duration::for_bytes(PIECES_AWAITED * u64::from(swarm.piece_size()), rate).max(HELP_AFTER),
        };
        let long_ago = |times: &BTreeMap<LinkId, Time>| times.get(&link).is_some_and(|at| now.since(*at) >= patience);
        let says_nothing = peer.have.is_empty() && long_ago(&self.asked);
        quiet >= AWAITED_MAX || (quiet >= patience && (says_nothing || long_ago(&self.owing)))
    }

    /// Whether a peer has sent something, since it was silent if it was.
    pub(super) fn has_sent(&self, swarm: &Swarm, link: LinkId) -> bool {
        sent_by(swarm, link) > self.vain.get(&link).copied().unwrap_or(0)
    }

    /// A peer was silent: it is not waited for as long again.
    pub(super) fn note_in_vain(&mut self, swarm: &Swarm, link: LinkId) {
        self.vain.insert(link, sent_by(swarm, link));
    }

    /// A peer is gone.
    pub(super) fn forget(&mut self, link: LinkId) {
        self.vain.remove(&link);
        self.asked.remove(&link);
        self.owing.remove(&link);
    }
}

/// Whether a peer has something that it was asked for.
fn owes(swarm: &Swarm, link: LinkId) -> bool {
    let asked = swarm.open().filter(|(_, open)| open.parts.iter().any(|part| part.peer == link));
    swarm.peer(link).is_some_and(|peer| asked.into_iter().any(|(piece, _)| peer.have.contains(piece)))
}
