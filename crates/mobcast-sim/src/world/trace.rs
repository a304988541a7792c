//! The last happenings of a run in words, for somebody who wants to know how it came to its end.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use mobcast_proto::io::Event;
use mobcast_proto::wire::Frame;
use mobcast_proto::{BroadcastId, PieceIndex, Time};

use super::World;
use crate::network::NodeIndex;

/// What happened where, in words.
#[derive(Clone, Debug)]
pub struct Told {
    at: Time,
    node: Option<NodeIndex>,
    what: String,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = self.node.map_or_else(|| "network".to_owned(), |node| format!("machine {}", node.0));
        write!(f, "{:>11.6} s  {who:<10} {}", self.at.as_secs_f64(), self.what)
    }
}

/// The last happenings.
#[derive(Debug)]
pub(super) struct Trace {
    kept: VecDeque<Told>,
    kept_max: usize,
    /// Who sent the last byte of a piece to whom.
    senders: BTreeMap<(NodeIndex, BroadcastId, PieceIndex), NodeIndex>,
}

impl World {
    /// Keeps the last `happenings` in words from here on. What happens does not depend on it.
    pub fn keep_trace(&mut self, happenings: usize) {
        self.told = Some(Trace { kept: VecDeque::new(), kept_max: happenings, senders: BTreeMap::new() });
    }

    /// The last happenings, where they are kept.
    pub fn trace(&self) -> impl Iterator<Item = &Told> {
        self.told.iter().flat_map(|trace| &trace.kept)
    }

    /// Notes what happens, where that is kept.
    pub fn tell(&mut self, node: Option<NodeIndex>, what: impl FnOnce() -> String) {
        let at = self.network.now();
        if let Some(trace) = &mut self.told {
            if trace.kept.len() >= trace.kept_max {
                trace.kept.pop_front();
            }
            trace.kept.push_back(Told { at, node, what: what() });
        }
    }

    pub(super) fn tell_sender(&mut self, to: NodeIndex, broadcast: BroadcastId, piece: PieceIndex, from: NodeIndex) {
        if let Some(trace) = &mut self.told {
            trace.senders.insert((to, broadcast, piece), from);
        }
    }

    pub(super) fn tell_stored(&mut self, node: NodeIndex, broadcast: BroadcastId, piece: PieceIndex, forged: bool) {
        let from = self.told.as_ref().and_then(|trace| trace.senders.get(&(node, broadcast, piece))).map(|from| from.0);
        let what = if forged { "finds a forged" } else { "stores" };
        let from = move || from.map_or_else(String::new, |from| format!(", the last of it from machine {from}"));
        self.tell(Some(node), || format!("{what} {piece} of {broadcast}{}", from()));
    }

    /// Frames that tell how a group fares: all but those of the transfer itself, signs of life, and reports.
    pub(super) fn tell_frame(&mut self, from: NodeIndex, to: NodeIndex, frame: &Frame) {
        let what = match frame {
            Frame::Assign { assignment, .. } => {
                let parent = assignment.parent.as_ref().map(|parent| parent.node);
                format!("an assignment of term {} epoch {}, parent {parent:?}", assignment.term, assignment.epoch)
            }
            Frame::Release { broadcast, .. } => format!("the release of {broadcast}"),
            Frame::RootLost { broadcast, .. } => format!("that the root of {broadcast} is gone"),
            Frame::Succession { succession, .. } => {
                format!("that {} is coordinator in term {}", succession.coordinator.node, succession.term)
            }
            Frame::Abort { broadcast, .. } => format!("that {broadcast} is given up"),
            Frame::Adrift => "that it has no way up".to_owned(),
            Frame::Holding { epoch, slots, .. } => format!("that it holds {} slots (epoch {epoch})", slots.count()),
            Frame::Entrust { .. } => "the authority's key".to_owned(),
            Frame::Bye => "that it leaves".to_owned(),
            Frame::Retire => "that it uses another link".to_owned(),
            _ => return,
        };
        self.tell(Some(from), || format!("tells machine {} {what}", to.0));
    }

    pub(super) fn tell_event(&mut self, index: NodeIndex, event: &Event) {
        let what = match event {
            Event::Admitted { node, .. } => format!("is admitted as {node}"),
            Event::Assigned { cluster_name, .. } => format!("has a place in {cluster_name}"),
            Event::Refused { refusal } => format!("is refused: {refusal:?}"),
            Event::CoordinatorLost => "has lost the coordinator".to_owned(),
            Event::CoordinatorChanged { node, own } => {
                if *own {
                    "takes over as coordinator".to_owned()
                } else {
                    format!("follows {node} as coordinator")
                }
            }
            Event::Announced { broadcast, .. } => format!("hears of {broadcast}"),
            Event::Complete { broadcast, .. } => format!("has all of {broadcast}"),
            Event::Failed { broadcast, failure } => format!("gives {broadcast} up: {failure}"),
            Event::Released { broadcast } => format!("is released from {broadcast}"),
            Event::MemberJoined { node, .. } => format!("counts {node} as member"),
            Event::MemberLost { node, .. } => format!("gives {node} up as member"),
            Event::Result { node, result, .. } => {
                format!("has the result of {node} for {}: {}", result.broadcast, result.outcome.is_ok())
            }
            Event::RootMayLeave { broadcast } => format!("says that the root of {broadcast} may leave"),
            Event::RootNeeded { broadcast } => format!("says that the root of {broadcast} is needed again"),
            Event::PeerDropped { node, reason } => format!("drops {node:?}: {reason}"),
            Event::Measured(measurement) => format!("has had the network measured: {:?}", measurement.problems),
            Event::Unplanned { strategy, reason } => format!("has no plan for {strategy}: {reason}"),
            Event::Progress { .. } => return,
        };
        self.tell(Some(index), || what);
    }
}
