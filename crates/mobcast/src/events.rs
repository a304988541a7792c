//! What happens in a group, for those who watch.

use std::sync::Arc;

use mobcast_proto::{BroadcastId, NodeId};
use tokio::sync::broadcast;

use crate::Measurement;

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupEvent {
    /// At the coordinator: a node has joined, or (at a new coordinator) was a member before.
    MemberJoined {
        /// The node.
        node: NodeId,
        /// What it calls itself.
        name: String,
        /// Its cluster's name.
        cluster: String,
        /// Why it is in that cluster.
        reason: String,
    },
    /// At the coordinator: a node is gone.
    MemberLost {
        /// The node.
        node: NodeId,
        /// What it called itself.
        name: String,
    },
    /// At the coordinator: a node is done with a broadcast.
    NodeResult {
        /// The broadcast.
        broadcast: BroadcastId,
        /// The node.
        node: NodeId,
        /// What it calls itself.
        name: String,
        /// Its cluster's name.
        cluster: String,
        /// Complete and verified, or why not.
        outcome: Result<(), String>,
    },
    /// At the coordinator: every piece is receipted by two holders outside the root (by all receivers, if there are
    /// fewer): the transfer completes without the root from here on.
    RootMayLeave {
        /// The broadcast.
        broadcast: BroadcastId,
    },
    /// At the coordinator: a member has joined, or those who held the pieces have gone: the root is needed again.
    RootNeeded {
        /// The broadcast.
        broadcast: BroadcastId,
    },
    /// At the coordinator: the members have measured the network, as far as they could.
    Measured {
        /// What came of it, and what it cost.
        measurement: Arc<Measurement>,
    },
    /// At the coordinator: there is no plan for a strategy that the group was founded for, as when a cluster has come that the
    /// gauge does not know. Nodes fetch from whoever has a piece.
    Unplanned {
        /// The strategy.
        strategy: &'static str,
        /// Why.
        reason: String,
    },
    /// A peer was dropped because it broke the protocol or was silent.
    PeerDropped {
        /// The peer, where it is known.
        node: Option<NodeId>,
        /// Why.
        reason: String,
    },
    /// The coordinator cannot be reached, or went away.
    CoordinatorLost,
    /// Another node has taken over from a coordinator that is gone, the founder has come back and taken its group back, or a coordinator
    /// that was lost is reached again.
    CoordinatorChanged {
        /// The new coordinator; node 0 is the founder.
        node: NodeId,
        /// Whether that is this node: results and members are known here from now on.
        own: bool,
    },
}

/// The events of a group, from the call of [`crate::Group::events`] on.
#[derive(Debug)]
pub struct EventStream {
    pub(crate) receiver: broadcast::Receiver<GroupEvent>,
}

impl EventStream {
    /// The next event; none when the group has ended. Whoever is too slow misses the oldest ones.
    pub async fn next(&mut self) -> Option<GroupEvent> {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}
