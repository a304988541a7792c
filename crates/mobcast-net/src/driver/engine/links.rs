//! Opening and closing links.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mobcast_proto::io::{CloseReason, Dial, Event, PeerIdentity};
use mobcast_proto::wire::Frame;
use mobcast_proto::{BroadcastId, ClusterId, LinkId, NodeId, PieceIndex};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::Engine;
use crate::channel::socket::probe_rtt;
use crate::driver::Notice;
use crate::driver::dial::{DialError, DialPlan, Established, dial};
use crate::driver::input::Input;
use crate::driver::link::LinkEnd;
use crate::driver::link::queue::LinkQueue;
use crate::driver::link::reader::Reader;
use crate::driver::link::writer::Writer;
use crate::tls::Expected;

/// A link that is closed has this long to send what waits.
const CLOSE_TIME: Duration = Duration::from_millis(400);
/// And its peer this long to close as well: closing with bytes unread would destroy what is still on its way.
const PEER_CLOSE_TIME: Duration = Duration::from_millis(150);
/// Round trips measured to each address.
const PROBE_TRIES: u32 = 4;

/// A dial under way. Dropping it gives it up.
pub struct OpenDial {
    joining: bool,
    task: AbortHandle,
}

impl Drop for OpenDial {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A link that is up. Dropping it cuts it off.
pub struct OpenLink {
    /// What waits to be written.
    pub queue: Arc<LinkQueue>,
    peer: Option<NodeId>,
    address: SocketAddr,
    reader: AbortOnDrop,
    writer: AbortOnDrop,
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Engine {
    /// Looks where others reach this node, if that was not known so far: it was started before its network. Before it asks to be
    /// admitted, as then it says so.
    pub(super) fn find_addresses(&mut self) {
        let Some((plan, bound)) = self.unreached.as_ref().filter(|_| self.node.id().is_none()) else { return };
        let addresses = plan.advertised(*bound);
        if !addresses.is_empty() {
            self.node.set_addresses(addresses);
            self.unreached = None;
        }
    }

    pub(super) fn connect(&mut self, link: LinkId, target: Dial, greeting: Vec<Frame>) {
        let hello = self.node.hello(0);
        let (identity, expected, addresses) = match target {
            Dial::Join { addresses } => (self.keys.joiner(), Expected::Coordinator, addresses),
            Dial::Member { node, addresses } => (self.keys.member(), Expected::Node(node), addresses),
        };
        let joining = expected == Expected::Coordinator;
        let inputs = self.inputs.clone();
        let Some(identity) = identity.cloned() else {
            // The core dials as what it is; without an identity for it there is a bug, but no reason to stop.
            warn!(%link, "no identity to dial with");
            let failed = Input::DialFailed { link, error: DialError::NoAddress };
            let task = tokio::spawn(async move { drop(inputs.send(failed).await) });
            self.dials.insert(link, OpenDial { joining, task: task.abort_handle() });
            return;
        };
        let plan = DialPlan { identity, expected, addresses, hello, greeting };
        let task = tokio::spawn(async move {
            let input = match dial(plan).await {
                Ok(established) => Input::LinkUp { link, established: Box::new(established) },
                Err(error) => Input::DialFailed { link, error },
            };
            // If the node's task is gone, nobody needs the link.
            let _ = inputs.send(input).await;
        });
        self.dials.insert(link, OpenDial { joining, task: task.abort_handle() });
    }

    pub(super) fn dialled(&mut self, link: LinkId, established: Established) {
        // The core may have given the dial up meanwhile.
        let Some(dial) = self.dials.remove(&link) else { return };
        let (identity, hello) = (established.identity, established.hello.clone());
        self.open_link(link, established, dial.joining);
        self.node.handle_link_up(self.clock.now(), link, identity, &hello);
        self.drain();
    }

    pub(super) fn accepted(&mut self, established: Established) {
        let (identity, hello) = (established.identity, established.hello.clone());
        let link = self.node.accept_link(self.clock.now(), identity, &hello);
        self.open_link(link, established, false);
        self.drain();
    }

    pub(super) fn dial_failed(&mut self, link: LinkId, error: DialError) {
        let Some(dial) = self.dials.remove(&link) else { return };
        debug!(%link, %error, "dial failed");
        if dial.joining {
            self.tell(Notice::JoinFailed { error: Arc::new(error) });
        }
        self.node.handle_link_down(self.clock.now(), link);
        self.drain();
    }

    fn open_link(&mut self, link: LinkId, established: Established, joining: bool) {
        let Established { identity, hello, address, sender, mut receiver } = established;
        let plain = self.plain && hello.plain;
        if plain {
            receiver.permit_plain();
        }
        let peer = match identity {
            PeerIdentity::Member { node, .. } => Some(node),
            PeerIdentity::Joiner => None,
        };
        info!(%link, %address, peer = ?peer, plain, "link up");
        if peer.is_some() {
            self.pieces.admit(link);
        }
        self.ledger.open(link, identity, joining, Arc::clone(receiver.counters()));
        let queue = Arc::new(LinkQueue::new(self.frames_waiting.clone()));
        let inputs = self.inputs.clone();
        let (pieces, places) = (Arc::clone(&self.pieces), Arc::clone(&self.frames_arrived));
        let reader = Reader::new(link, receiver, pieces, places, inputs.clone());
        let reader = tokio::spawn(async move {
            let end = reader.run().await;
            // If the node's task is gone, so is the link.
            let _ = inputs.send(Input::LinkDown { link, end }).await;
        });
        let inputs = self.inputs.clone();
        let writer = Writer::new(link, sender, Arc::clone(&queue), self.writers.clone(), plain);
        let writer = tokio::spawn(async move {
            if let Err(end) = writer.run().await {
                let _ = inputs.send(Input::LinkDown { link, end }).await;
            }
        });
        let (reader, writer) = (AbortOnDrop(reader), AbortOnDrop(writer));
        self.links.insert(link, OpenLink { queue, peer, address, reader, writer });
    }

    pub(super) fn link_down(&mut self, link: LinkId, end: LinkEnd) {
        // Closed from this side already, or reported by the other half.
        let Some(open) = self.links.remove(&link) else { return };
        self.look_at_links();
        self.ledger.close(link);
        let lost = self.pieces.bar(link);
        if end.is_violation() {
            warn!(%link, address = %open.address, peer = ?open.peer, %end, "peer dropped");
            let reason = CloseReason::Violation(end.to_string());
            self.tell(Notice::Event(Event::PeerDropped { node: open.peer, reason }));
        } else {
            info!(%link, address = %open.address, peer = ?open.peer, %end, "link down");
        }
        // Before others are asked for what is missing of these.
        self.lost(lost);
        self.node.handle_link_down(self.clock.now(), link);
        self.drain();
    }

    /// Nothing more is taken from a link that the core has left.
    pub(super) fn bar(&mut self, link: LinkId) {
        let lost = self.pieces.bar(link);
        self.lost(lost);
    }

    /// The core hears which pieces have to come again because bytes of a link that is gone lay in them.
    fn lost(&mut self, pieces: Vec<(BroadcastId, PieceIndex)>) {
        let now = self.clock.now();
        for of_one in pieces.chunk_by(|a, b| a.0 == b.0) {
            let pieces: Vec<PieceIndex> = of_one.iter().map(|&(_, piece)| piece).collect();
            self.node.handle_lost(now, of_one[0].0, &pieces);
        }
    }

    /// Closes a link after what waits on it.
    pub(super) fn close(&mut self, link: LinkId, reason: &CloseReason) {
        self.dials.remove(&link);
        let Some(open) = self.links.remove(&link) else { return };
        self.ledger.close(link);
        self.bar(link);
        info!(%link, address = %open.address, peer = ?open.peer, %reason, "link closed");
        open.queue.close();
        self.closing.spawn(async move {
            let OpenLink { mut reader, mut writer, .. } = open;
            if timeout(CLOSE_TIME, &mut writer.0).await.is_ok() {
                let _ = timeout(PEER_CLOSE_TIME, &mut reader.0).await;
            }
        });
    }

    pub(super) fn probe(&mut self, cluster: ClusterId, addresses: Vec<SocketAddr>) {
        let inputs = self.inputs.clone();
        self.tasks.spawn(async move {
            let mut probes = JoinSet::new();
            addresses.into_iter().for_each(|address| drop(probes.spawn(probe_rtt(address, PROBE_TRIES))));
            let rtt = probes.join_all().await.into_iter().flatten().min();
            // If the node's task is gone, nobody wants to know.
            let _ = inputs.send(Input::Probed { cluster, rtt }).await;
        });
    }
}
