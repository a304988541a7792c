//! A process as a member of a group.

use std::sync::Arc;
use std::time::Duration;

use mobcast_proto::NodeId;
use mobcast_proto::group::ticket::Ticket;
use tokio::sync::broadcast;

use crate::{Broadcast, BroadcastOptions, Error, EventStream, GroupEvent, GroupOptions, Offer, Source};

/// Who this node is in its group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeInfo {
    /// Its number.
    pub id: NodeId,
    /// What it calls itself.
    pub name: String,
    /// Its cluster's name.
    pub cluster: String,
    /// Why it is in that cluster.
    pub reason: String,
}

/// A member of a group; clones are handles of the same one. When the last handle is dropped, the node leaves without
/// waiting; [`Group::leave`] waits until its peers know.
#[derive(Clone, Debug)]
pub struct Group {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    events: broadcast::Sender<GroupEvent>,
}

impl Group {
    /// Founds a group, of which this node is the coordinator.
    pub async fn create(_options: GroupOptions) -> Result<Group, Error> {
        Err(Error::Left)
    }

    /// Joins the group of `ticket`. An attempt that does not reach the coordinator is repeated until `wait` is over.
    pub async fn join(_ticket: &Ticket, _options: GroupOptions, _wait: Duration) -> Result<Group, Error> {
        Err(Error::Left)
    }

    /// The ticket by which others join; the founder has it.
    pub fn ticket(&self) -> Option<&Ticket> {
        None
    }

    /// Who this node is.
    pub fn node(&self) -> NodeInfo {
        NodeInfo { id: NodeId(0), name: String::new(), cluster: String::new(), reason: String::new() }
    }

    /// Members of the group besides this node, as far as the coordinator knows; none elsewhere.
    pub fn members(&self) -> Vec<NodeInfo> {
        Vec::new()
    }

    /// Starts a broadcast with this node as its root. Members are told at once; later joiners when they come.
    pub async fn broadcast(&self, _source: Source, _options: BroadcastOptions) -> Result<Broadcast, Error> {
        Err(Error::Left)
    }

    /// Waits for the next broadcast that another member announces.
    pub async fn next_offer(&self) -> Result<Offer, Error> {
        Err(Error::Left)
    }

    /// What happens in the group, from here on.
    pub fn events(&self) -> EventStream {
        EventStream { receiver: self.inner.events.subscribe() }
    }

    /// Says goodbye and closes everything, within a second. What is not complete is given up, and its partial state
    /// removed.
    pub async fn leave(self) {}
}
