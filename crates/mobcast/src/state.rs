//! What the library knows of its node, kept up to date by the driver's notices: who this node is, who the others are
//! (at the coordinator), and how its broadcasts stand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mobcast_net::driver::{Application, DriverHandle, Notice};
use mobcast_proto::io::Event;
use mobcast_proto::wire::frame::Refusal;
use mobcast_proto::{BroadcastId, NodeId};
use tokio::sync::{broadcast, mpsc, watch};

use crate::transfer::Transfer;
use crate::{Error, GroupEvent, Measurement, NodeInfo};

/// Events that a slow watcher may be behind.
const EVENTS_MAX: usize = 1024;

/// How far a node is in becoming a member.
#[derive(Clone, Debug)]
pub enum Standing {
    /// It tries to reach the coordinator; the last attempt ended so.
    Joining(Option<String>),
    /// It has its place in the group.
    Member,
    /// It will not get one.
    Refused(Error),
    /// It has left.
    Ended,
}

/// Another node, as the coordinator knows it.
#[derive(Clone, Debug)]
pub struct Member {
    /// Who it is.
    pub info: NodeInfo,
    /// Whether it is gone.
    pub lost: bool,
}

/// The state of a node.
#[derive(Debug)]
pub struct GroupState {
    /// How far it is in becoming a member.
    pub standing: watch::Sender<Standing>,
    /// What came of the last measurement of the network.
    pub measured: watch::Sender<Option<Arc<Measurement>>>,
    /// For commands from within notices.
    pub driver: OnceLock<DriverHandle>,
    /// Whether it is the coordinator.
    pub is_coordinator: bool,
    offers: mpsc::UnboundedSender<Arc<Transfer>>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    node: NodeInfo,
    members: BTreeMap<NodeId, Member>,
    transfers: BTreeMap<BroadcastId, Arc<Transfer>>,
    events: Option<broadcast::Sender<GroupEvent>>,
}

impl GroupState {
    /// A node that has just been started. Offers come out of the receiver; there are never more than the core carries
    /// broadcasts.
    pub fn new(name: String, is_coordinator: bool) -> (Arc<GroupState>, mpsc::UnboundedReceiver<Arc<Transfer>>) {
        let (offers, taken) = mpsc::unbounded_channel();
        let reason = if is_coordinator { "founded the group" } else { "" };
        let node = NodeInfo { id: NodeId(0), name, cluster: String::new(), reason: reason.into() };
        let events = Some(broadcast::Sender::new(EVENTS_MAX));
        let inner = Inner { node, members: BTreeMap::new(), transfers: BTreeMap::new(), events };
        let standing = watch::Sender::new(Standing::Joining(None));
        let (driver, measured) = (OnceLock::new(), watch::Sender::new(None));
        let state = GroupState { standing, measured, driver, is_coordinator, offers, inner: Mutex::new(inner) };
        (Arc::new(state), taken)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who this node is.
    pub fn node(&self) -> NodeInfo {
        self.lock().node.clone()
    }

    /// The other nodes that have joined so far, at the coordinator.
    pub fn members(&self) -> Vec<Member> {
        self.lock().members.values().cloned().collect()
    }

    /// A broadcast that was announced or started and not forgotten.
    pub fn transfer(&self, broadcast: BroadcastId) -> Option<Arc<Transfer>> {
        self.lock().transfers.get(&broadcast).cloned()
    }

    /// Events from here on.
    pub fn subscribe(&self) -> broadcast::Receiver<GroupEvent> {
        // Without a sender, the stream has ended.
        self.lock().events.as_ref().map_or_else(|| broadcast::channel(1).1, broadcast::Sender::subscribe)
    }

    /// A broadcast is of no more use.
    pub fn forget(&self, broadcast: BroadcastId) {
        let mut inner = self.lock();
        let was_there = inner.transfers.remove(&broadcast).is_some();
        if inner.transfers.is_empty() {
            // No report names them any more.
            inner.members.retain(|_, member| !member.lost);
        }
        drop(inner);
        if let Some(driver) = self.driver.get().filter(|_| was_there) {
            driver.forget(broadcast);
        }
    }

    fn tell(&self, event: GroupEvent) {
        if let Some(events) = &self.lock().events {
            // Nobody may be watching.
            let _ = events.send(event);
        }
    }
}

impl Application for GroupState {
    fn handle(&self, notice: Notice) {
        match notice {
            Notice::Event(event) => self.event(event),
            Notice::Started { broadcast, descriptor, stats } => {
                let transfer = Arc::new(Transfer::new(broadcast, descriptor, stats, true));
                self.lock().transfers.insert(broadcast, transfer);
            }
            Notice::Unclaimed { broadcast } => {
                // No handle will be dropped.
                if let Some(transfer) = self.transfer(broadcast) {
                    transfer.handle_dropped();
                }
            }
            Notice::Announced { broadcast, descriptor, stats } => {
                let transfer = Arc::new(Transfer::new(broadcast, descriptor, stats, false));
                self.lock().transfers.insert(broadcast, Arc::clone(&transfer));
                // Without a receiver the group's handle is gone, and the node is about to leave.
                let _ = self.offers.send(transfer);
            }
            Notice::Complete { broadcast, length, object_hash, finished } => {
                if let Some(transfer) = self.transfer(broadcast) {
                    transfer.completed(length, object_hash, finished);
                }
            }
            Notice::WrongHash { broadcast } => {
                if let Some(transfer) = self.transfer(broadcast) {
                    transfer.set_cause(Error::WrongHash);
                }
            }
            Notice::StoreFailed { broadcast, error } => {
                if let Some(transfer) = self.transfer(broadcast) {
                    transfer.set_cause(Error::Store(error));
                }
            }
            Notice::JoinFailed { error } => {
                let standing = match error.is_refusal() {
                    true => Standing::Refused(Error::NotAdmitted(error.to_string())),
                    false => Standing::Joining(Some(error.to_string())),
                };
                self.set_standing(standing);
            }
            Notice::BadIdentity { error } => self.set_standing(Standing::Refused(Error::Identity(error))),
            Notice::Ended => self.ended(),
        }
    }
}

impl GroupState {
    fn event(&self, event: Event) {
        match event {
            Event::Failed { broadcast, failure } => {
                let transfer = self.transfer(broadcast);
                if transfer.is_some_and(|transfer| transfer.failed(&failure)) {
                    self.forget(broadcast);
                }
            }
            Event::Released { broadcast } => {
                let transfer = self.transfer(broadcast);
                if transfer.is_some_and(|transfer| transfer.released()) {
                    self.forget(broadcast);
                }
            }
            Event::Result { node, name, cluster, result } => {
                let broadcast = result.broadcast;
                let outcome = result.outcome.as_ref().map(|_| ()).map_err(String::clone);
                if let Some(transfer) = self.transfer(broadcast) {
                    transfer.set_result(node, result);
                }
                self.tell(GroupEvent::NodeResult { broadcast, node, name, cluster, outcome });
            }
            Event::Progress { broadcast, node, pieces } => {
                if let Some(transfer) = self.transfer(broadcast) {
                    transfer.set_progress(node, pieces);
                }
            }
            membership => self.membership_event(membership),
        }
    }

    fn membership_event(&self, event: Event) {
        match event {
            Event::Admitted { node, reason, .. } => {
                let mut inner = self.lock();
                (inner.node.id, inner.node.reason) = (node, reason);
            }
            Event::Assigned { cluster_name, .. } => {
                self.lock().node.cluster = cluster_name;
                self.set_standing(Standing::Member);
            }
            Event::Refused { refusal } => {
                let reason = match refusal {
                    Refusal::Full => "the group has all the nodes that it may have",
                    Refusal::Closing => "the group is ending; ask for the ticket of another one",
                    Refusal::Invalid => "the coordinator finds the request invalid; use the same mobcast at both ends",
                };
                self.set_standing(Standing::Refused(Error::NotAdmitted(reason.into())));
            }
            Event::CoordinatorLost => {
                if !matches!(*self.standing.borrow(), Standing::Joining(_)) {
                    self.tell(GroupEvent::CoordinatorLost);
                }
            }
            Event::CoordinatorChanged { node, own } => self.tell(GroupEvent::CoordinatorChanged { node, own }),
            Event::MemberJoined { node, name, cluster, reason } => {
                let info = NodeInfo { id: node, name: name.clone(), cluster: cluster.clone(), reason: reason.clone() };
                self.lock().members.insert(node, Member { info, lost: false });
                self.tell(GroupEvent::MemberJoined { node, name, cluster, reason });
            }
            Event::MemberLost { node, name } => {
                self.lock().members.entry(node).and_modify(|member| member.lost = true);
                self.tell(GroupEvent::MemberLost { node, name });
            }
            Event::RootNeeded { broadcast } => {
                if let Some(transfer) = self.transfer(broadcast) {
                    transfer.set_may_leave(false);
                }
                self.tell(GroupEvent::RootNeeded { broadcast });
            }
            Event::RootMayLeave { broadcast } => {
                if let Some(transfer) = self.transfer(broadcast) {
                    transfer.set_may_leave(true);
                }
                self.tell(GroupEvent::RootMayLeave { broadcast });
            }
            Event::PeerDropped { node, reason } => {
                self.tell(GroupEvent::PeerDropped { node, reason: reason.to_string() });
            }
            Event::Measured(measurement) => self.measured(*measurement),
            Event::Unplanned { strategy, reason } => self.tell(GroupEvent::Unplanned { strategy, reason }),
            // The events of broadcasts are looked after by the caller, or have notices of their own.
            Event::Announced { .. }
            | Event::Complete { .. }
            | Event::Failed { .. }
            | Event::Released { .. }
            | Event::Result { .. }
            | Event::Progress { .. } => {}
        }
    }

    fn measured(&self, measurement: Measurement) {
        let measurement = Arc::new(measurement);
        self.measured.send_replace(Some(Arc::clone(&measurement)));
        self.tell(GroupEvent::Measured { measurement });
    }

    /// The first refusal counts, and so does the end.
    fn set_standing(&self, standing: Standing) {
        self.standing.send_if_modified(|now| {
            let open = matches!(now, Standing::Joining(_));
            if open {
                *now = standing;
            }
            open
        });
    }

    fn ended(&self) {
        self.standing.send_replace(Standing::Ended);
        let mut inner = self.lock();
        inner.events = None;
        inner.transfers.values().for_each(|transfer| transfer.left());
    }
}
