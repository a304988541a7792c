//! What the published rules lack, so that nobody is left behind when nodes die: who has had nothing for long, although there
//! is something to have, tells all its peers, and asks whoever has what is missing, until a neighbour serves it
//! again; and what was asked of a peer that sends nothing is asked of others.

use std::collections::{BTreeMap, BTreeSet};

use crate::fetch::swarm::Swarm;
use crate::limits::SILENCE_MAX;
use crate::strategy::help::{self, MUTE_FOR};
use crate::time::{Duration, Time};
use crate::units::{LinkId, PieceIndex};

use super::{BitTorrent, has_all, take_back};

/// Longer than a round of the choker and what its first pieces take.
const HELP_AFTER: Duration = Duration::from_secs(15);
/// Who was in need before, and got nothing more from the neighbour that served it then, is in need again after this.
const HELP_AGAIN_AFTER: Duration = Duration::from_secs(3);
/// Without a root, and with nothing missing that a peer has told of: well before a broadcast is given up.
const ALONE_AFTER: Duration = Duration(SILENCE_MAX.0 / 3);
/// What was asked of a peer that has sent nothing for this long is asked of others.
const SILENCE: Duration = Duration::from_secs(5);
/// How often a node looks.
const TICK: Duration = Duration::from_secs(1);

/// What a node knows of its own need and of others'.
#[derive(Default)]
pub(super) struct Help {
    /// Whether this node asks everybody, also who chokes it.
    pub(super) in_need: bool,
    /// Whether it has told its peers to announce what they have.
    told: bool,
    /// Peers that want to hear of every piece.
    listeners: BTreeSet<LinkId>,
    /// Peers that were asked and have sent nothing, and when they may be asked again.
    mute: BTreeMap<LinkId, Time>,
    /// Whether the application has made place.
    begun: bool,
    /// Bytes that had arrived at the last look, and when there were more than before, or nothing was missing.
    arrived: u64,
    content_at: Time,
    next_look: Time,
}

impl Help {
    /// The node may ask.
    pub(super) fn begin(&mut self, now: Time) {
        self.begun = true;
        self.content_at = now;
    }

    /// When the node looks whether it is in need.
    pub(super) fn due(&self) -> Time {
        self.next_look
    }

    /// A peer has sent something.
    pub(super) fn peer_sends(&mut self, link: LinkId) {
        self.mute.remove(&link);
    }

    /// A peer is gone.
    pub(super) fn forget(&mut self, link: LinkId) {
        self.mute.remove(&link);
        self.listeners.remove(&link);
    }

    /// Whether a peer is not asked because it did not send what it was asked for.
    pub(super) fn is_mute(&self, link: LinkId) -> bool {
        self.mute.contains_key(&link)
    }
}

impl BitTorrent {
    /// Looks for peers that do not send, and whether this node is in need.
    pub(super) fn tick(&mut self, swarm: &mut Swarm) {
        let now = swarm.now();
        if has_all(swarm) || now < self.help.next_look {
            return;
        }
        self.help.next_look = now + TICK;
        self.help.mute.retain(|_, until| *until > now);
        let silent = swarm.peers().filter(|(_, peer)| peer.window.stalled_for(now) >= SILENCE);
        let silent: Vec<LinkId> = silent.map(|(link, _)| link).collect();
        for link in silent {
            self.help.mute.insert(link, now + MUTE_FOR);
            take_back(swarm, link);
        }
        let arrived = swarm.peers().map(|(_, peer)| peer.window.delivered()).sum();
        let lacks = swarm.have().count() < swarm.known() && self.help.begun;
        if std::mem::replace(&mut self.help.arrived, arrived) != arrived || !lacks {
            self.help.content_at = now;
        }
        let alone = swarm.standing.root_cluster.is_none() && !swarm.is_obtainable();
        let patience = match (self.help.told, alone) {
            (true, _) => HELP_AGAIN_AFTER,
            (false, true) => ALONE_AFTER,
            (false, false) => HELP_AFTER,
        };
        if now.since(self.help.content_at) >= patience {
            self.help.in_need = true;
            if !std::mem::replace(&mut self.help.told, true) {
                help::ask_all(swarm);
            }
        }
        self.fill_all(swarm);
    }

    /// A neighbour serves this node from here on: if it has something, the published rules are enough again.
    pub(super) fn is_served(&mut self, swarm: &mut Swarm, link: LinkId) {
        self.help.mute.remove(&link);
        if self.neighbours.get(&link).is_some_and(|neighbour| neighbour.useful > 0) && self.help.in_need {
            self.help.in_need = false;
            self.help.content_at = swarm.now();
            let others: Vec<LinkId> = swarm.links().into_iter().filter(|&link| !self.serves(link)).collect();
            others.into_iter().for_each(|link| take_back(swarm, link));
        }
    }

    /// A peer has come after this node has told the others that it is in need.
    pub(super) fn ask_newcomer_for_help(&self, swarm: &mut Swarm, link: LinkId) {
        if self.help.told {
            help::ask(swarm, link);
        }
    }

    /// A peer wants to hear of all that this node has and will have.
    pub(super) fn listen(&mut self, swarm: &mut Swarm, link: LinkId) {
        if self.help.listeners.insert(link) {
            help::announce_all(swarm, link);
        }
    }

    /// Neighbours are told anyway.
    pub(super) fn tell_listeners(&self, swarm: &mut Swarm, piece: PieceIndex) {
        self.help.listeners.iter().for_each(|&link| swarm.announce(link, piece));
    }
}
