//! Ways down the control tree, each over one child of the coordinator: the views of all below a child go over the one link to it. In
//! groups of thousands that is more than the link takes at one moment, beside the payload on it, and a link on which too much waits is
//! given up. So a way takes a part of the views at a time, and more when the child has answered that they are through, over its
//! own link and those of all relays below it. Whoever has a view already waits for its turn, and what changes for it meanwhile costs no
//! second one.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::SILENCE_MAX;
use crate::time::Time;
use crate::units::NodeId;

/// Views under way to all children together: 2 to 4 MiB, of the frames that may wait at a node
/// ([`crate::limits::FRAMES_WAITING_BYTES_MAX`]).
const UNDER_WAY_MAX: usize = 2048;
/// Views under way to one child, however few there are: half of what may wait on a link.
const ON_WAY_MAX: usize = 256;

/// All ways, by the child over which they lead.
#[derive(Debug, Default)]
pub(super) struct Ways(BTreeMap<NodeId, Way>);

#[derive(Debug, Default)]
struct Way {
    /// Views sent and not known to be through.
    under_way: usize,
    /// When the child was last asked for an answer, and how many of the views were before that; none while there is no answer to
    /// wait for.
    asked: Option<(Time, usize)>,
    /// Members below the child whose view has changed and who wait.
    held: BTreeSet<NodeId>,
    /// Who was told last of those who waited: the next one is the first behind.
    last: NodeId,
}

/// Views that may be under way to one of so many children.
pub(super) fn room(children: usize) -> usize {
    (UNDER_WAY_MAX / children.max(1)).clamp(1, ON_WAY_MAX)
}

impl Ways {
    /// Whether the view of a member below `child` goes out now. If not, the member waits.
    pub(super) fn admits(&mut self, child: NodeId, member: NodeId, room: usize) -> bool {
        let way = self.0.entry(child).or_default();
        if way.under_way < room && way.held.is_empty() {
            way.under_way += 1;
            return true;
        }
        way.held.insert(member);
        false
    }

    /// Children to ask whether the views are through, because half of the room is taken.
    pub(super) fn ask(&mut self, now: Time, room: usize) -> Vec<NodeId> {
        let due = self.0.iter_mut().filter(|(_, way)| way.asked.is_none() && way.under_way >= room.div_ceil(2));
        due.map(|(&child, way)| {
            way.asked = Some((now, way.under_way));
            child
        })
        .collect()
    }

    /// A child has answered the question of this time. Returns who is told now of those who waited.
    pub(super) fn answered(&mut self, child: NodeId, asked: Time, room: usize) -> Vec<NodeId> {
        let Some(way) = self.0.get_mut(&child) else { return Vec::new() };
        let Some((_, through)) = way.asked.filter(|&(at, _)| at == asked) else { return Vec::new() };
        way.asked = None;
        way.under_way -= through;
        let mut told = Vec::new();
        while way.under_way < room
            && let Some(next) =
                way.held.range(NodeId(way.last.0.saturating_add(1))..).next().or(way.held.first()).copied()
        {
            way.held.remove(&next);
            way.last = next;
            way.under_way += 1;
            told.push(next);
        }
        told
    }

    /// The link to a child is gone, and with it what was on it. Returns who waited.
    pub(super) fn remove(&mut self, child: NodeId) -> BTreeSet<NodeId> {
        self.0.remove(&child).map(|way| way.held).unwrap_or_default()
    }

    /// Children that have not answered for so long that they must have another link by now.
    pub(super) fn stale(&self, now: Time) -> Vec<NodeId> {
        let stale = |way: &Way| way.asked.is_some_and(|(at, _)| now.since(at) >= SILENCE_MAX);
        self.0.iter().filter(|(_, way)| stale(way)).map(|(&child, _)| child).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHILD: NodeId = NodeId(7);

    #[test]
    fn a_way_takes_its_room_and_as_much_again_as_has_come_through() {
        let mut ways = Ways::default();
        let sent = (100..110).filter(|&n| ways.admits(CHILD, NodeId(n), 4)).count();
        assert_eq!(sent, 4);
        assert_eq!(ways.ask(Time(1), 4), [CHILD]);
        assert_eq!(ways.ask(Time(2), 4), [], "it is asked once at a time");
        assert_eq!(ways.answered(CHILD, Time(2), 4), [], "that is no answer to what was asked");
        assert_eq!(ways.answered(CHILD, Time(1), 4), [104, 105, 106, 107].map(NodeId));
        assert!(ways.admits(NodeId(8), NodeId(200), 4), "another way is free");
    }

    #[test]
    fn who_changes_again_and_again_does_not_keep_the_others_waiting() {
        let mut ways = Ways::default();
        assert!(ways.admits(CHILD, NodeId(1), 1));
        let mut told = BTreeSet::new();
        for round in 0..4 {
            (1..5).for_each(|n| assert!(!ways.admits(CHILD, NodeId(n), 1)));
            assert_eq!(ways.ask(Time(round), 1), [CHILD]);
            told.extend(ways.answered(CHILD, Time(round), 1));
        }
        assert_eq!(told, (1..5).map(NodeId).collect());
    }

    #[test]
    fn what_is_lost_with_a_link_keeps_nobody_waiting() {
        let mut ways = Ways::default();
        assert_eq!((1..5).filter(|&n| ways.admits(CHILD, NodeId(n), 2)).count(), 2);
        assert_eq!(ways.ask(Time(1), 2), [CHILD]);
        assert_eq!(ways.stale(Time(1)), []);
        assert_eq!(ways.stale(Time(1) + SILENCE_MAX), [CHILD]);
        assert_eq!(ways.remove(CHILD), [3, 4].map(NodeId).into());
        assert!(ways.admits(CHILD, NodeId(3), 2));
    }
}
