//! The simulated network: nodes in clusters, links between nodes, messages on their way, and the one event queue of the
//! simulation, which also holds what its user schedules. Promises that the same calls give the same happenings at the
//! same nanosecond; knows no protocol and rolls no dice.
//!
//! A link is two flows, one for each direction. A flow carries messages in order (control before payload, see
//! [`crate::link`]) at the rate that [`crate::fluid`] gives it, across its sender's network card, the sending cluster's
//! access link, the link between the clusters, the receiving cluster's access link and the receiver's network card;
//! inside a cluster, across the two cards and the cluster's fabric. Nodes with a second card for other clusters use
//! that one towards them, and the first one inside. A message is delivered when its last byte has left and the one-way
//! delay has passed.
//!
//! There are two models ([`Model`]): in the *fluid* one flows share links as liquids do, in the *packet* one each flow is a TCP
//! connection whose packets wait in queues (`medium/packet.rs` says what it leaves out).
//!
//! **Approximations of the fluid model.** Rates are brought up to date at multiples of [`Settings::quantum`]; a quantum of zero makes them
//! exact at every instant. With a quantum, a resource may carry more or less than its capacity between two settlements
//! by the shares of the flows that started or stopped, and up to 1/128 longer. Over a run the errors even out: a
//! millisecond moves the end of the busy network of `tests/network.rs` by 1/8000, and the total throughput of
//! `examples/engine_rate.rs` by up to 1/100. A control message of at most [`EXPRESS_BYTES_MAX`] on an otherwise idle
//! flow does not take part in the sharing: it leaves at the rate that the flow would get, and its bytes are taken from
//! the capacities in the following [`LEVY_WINDOW`] (where they are more than 1/512 of them). There is no
//! loss and no queueing delay. Between clusters a flow's window opens as in TCP's slow start ([`Settings::slow_start`]), twice as much
//! in each round trip until something else limits it, and anew when it has been idle; otherwise, and inside a cluster, where that
//! takes less than a millisecond, a flow has its fair rate at once. A window that stays as it is can be imitated
//! ([`Settings::window_bytes`]).

mod base;
mod medium;
mod run;
mod traffic;
mod ways;

pub use traffic::{ConnectionState, NodeTraffic, QueueState, Traffic, WanPackets};
pub use ways::Place;

use crate::link::{Cancelled, Class, MESSAGE_BYTES_MAX, Sent};
use crate::packet::tcp::TcpSettings;
use crate::queue::Token;
use base::{Base, Event, Node, Phase};
use medium::Medium;
use mobcast_proto::{Duration, Time};
use mobcast_topology::{Change, ClusterIndex, LinkRef, Topology};
use thiserror::Error;

/// The longest control message that may travel beside the sharing, in bytes.
pub const EXPRESS_BYTES_MAX: u32 = 4096;
/// How long bytes beside the sharing are gathered before they are taken from the capacities.
pub const LEVY_WINDOW: Duration = Duration::from_millis(100);

/// Bytes of the headers of IP and TCP in a packet, with time stamps (RFC 9293, 7323).
pub const PACKET_HEADER_BYTES: u32 = 52;

/// A node of the simulated network, by the order of adding. Not the number that a coordinator gives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodeIndex(pub u32);

/// One direction of a link. Never names another one later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FlowId(pub u32);

impl FlowId {
    /// The other direction of the same link.
    pub fn reverse(self) -> FlowId {
        FlowId(self.0 ^ 1)
    }

    /// The number of the link, the same for both directions; links are numbered from 0 in the order of opening.
    pub fn link(self) -> u32 {
        self.0 >> 1
    }
}

/// In which way flows share the network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Model {
    /// As liquids do.
    Fluid,
    /// As TCP connections of these settings do, packet by packet.
    Packet(TcpSettings),
}

/// How the network is simulated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// The model.
    pub model: Model,
    /// Which packets the packet model loses by chance follows from it.
    pub seed: u64,
    /// Rates of the fluid model are settled at multiples of this; zero means at once and exactly.
    pub quantum: Duration,
    /// At most so many bytes per round trip on each flow of the fluid model.
    pub window_bytes: Option<u64>,
    /// Whether windows between clusters open slowly in the fluid model.
    pub slow_start: bool,
    /// Whether [`Happening::Drained`] is reported.
    pub report_drained: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let quantum = Duration::from_millis(1);
        Settings { model: Model::Fluid, seed: 1, quantum, window_bytes: None, slow_start: true, report_drained: false }
    }
}

/// A message that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The flow that carried it.
    pub flow: FlowId,
    /// Who sent it.
    pub from: NodeIndex,
    /// Who has it now.
    pub to: NodeIndex,
    /// Given to [`Network::send`].
    pub tag: u64,
    /// Its length.
    pub bytes: u32,
    /// Its queue.
    pub class: Class,
}

/// What comes out of the one event queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Happening<T> {
    /// A message has arrived.
    Delivered(Delivery),
    /// `node` learns that the other end has closed the link; everything that the other end still sent has arrived.
    Closed {
        /// Who learns it.
        node: NodeIndex,
        /// The flow that has ended, towards `node`.
        flow: FlowId,
    },
    /// The flow's last payload message has left, or is with the sender's kernel in the packet model (only with
    /// [`Settings::report_drained`]).
    Drained(FlowId),
    /// What was given to [`Network::schedule`] is due.
    Due(T),
}

/// How a node goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The machine is gone: what it sent and has not arrived vanishes, nobody is told.
    Silent,
    /// The process ends: its peers see their links closed one delay later, after what had left before.
    Reset,
}

/// Why something cannot be done to the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum NetworkError {
    /// A cluster that the topology does not have.
    #[error("{0} is not in the topology: add it there before the simulation starts")]
    NoSuchCluster(ClusterIndex),
    /// No way between two clusters.
    #[error("no link leads from {0} to {1}: add one to the topology, or do not connect their nodes")]
    NoLink(ClusterIndex, ClusterIndex),
    /// An end that is not running.
    #[error("node {} is stopped: restart it first", .0.0)]
    Stopped(NodeIndex),
    /// Both ends are the same.
    #[error("node {} would be linked to itself: choose another peer", .0.0)]
    ToItself(NodeIndex),
}

/// A network in virtual time. `T` is what its user schedules.
#[derive(Debug)]
pub struct Network<T> {
    base: Base<T>,
    medium: Medium,
}

/// Building and looking.
impl<T> Network<T> {
    /// A network of this shape without nodes, at time zero.
    pub fn new(topology: &Topology, settings: Settings) -> Network<T> {
        Network { base: Base::new(topology, settings), medium: Medium::new(topology, settings) }
    }

    /// Says which rates links will be given with [`Network::set_rate`]: in the packet model the queue of an access link is that of
    /// its largest rate from the beginning.
    pub fn expect(&mut self, changes: &[Change]) {
        self.medium.expect(changes);
    }

    /// Adds a running node with its cluster's network cards.
    pub fn add_node(&mut self, cluster: ClusterIndex) -> Result<NodeIndex, NetworkError> {
        let kind = self.base.topology.clusters().get(cluster.as_usize()).ok_or(NetworkError::NoSuchCluster(cluster))?;
        self.medium.add_node(cluster, kind);
        let traffic = NodeTraffic::default();
        self.base.nodes.push(Node { cluster, running: true, flows: Vec::new(), traffic });
        Ok(NodeIndex((self.base.nodes.len() - 1) as u32))
    }

    /// Virtual time.
    pub fn now(&self) -> Time {
        self.base.now
    }

    /// Nodes added so far, stopped ones too.
    pub fn nodes(&self) -> usize {
        self.base.nodes.len()
    }

    /// The cluster that a node was put into.
    pub fn cluster(&self, node: NodeIndex) -> ClusterIndex {
        self.base.cluster(node)
    }

    /// Whether a node has not been stopped.
    pub fn is_running(&self, node: NodeIndex) -> bool {
        self.base.nodes[node.0 as usize].running
    }

    /// The sending and the receiving end of a flow.
    pub fn ends(&self, flow: FlowId) -> (NodeIndex, NodeIndex) {
        let flow = &self.base.flows[flow.0 as usize];
        (flow.from, flow.to)
    }

    /// One-way delay between two nodes; `None` when there is no way.
    pub fn delay(&self, from: NodeIndex, to: NodeIndex) -> Option<Duration> {
        let (from, to) = (self.cluster(from), self.cluster(to));
        if from == to {
            return Some(Duration(self.base.topology.clusters()[from.as_usize()].lan_delay_ns));
        }
        self.base.topology.wan(from, to).map(|link| Duration(link.one_way_delay_ns))
    }

    /// A flow's present rate in bytes per second in the fluid model; zero while nothing waits, and in the packet model.
    pub fn rate_bytes_per_s(&self, flow: FlowId) -> u64 {
        match &self.medium {
            Medium::Fluid(fluid) => fluid.rate_bytes_per_s(flow),
            Medium::Packet(_) => 0,
        }
    }

    /// Payload bytes that wait on a flow or are under way, whole messages counted; in the packet model, those that are not
    /// with the sender's kernel.
    pub fn queued_payload_bytes(&self, flow: FlowId) -> u64 {
        self.medium.payload_bytes(flow.0)
    }

    /// Payload messages of which the same is true.
    pub fn queued_payload_messages(&self, flow: FlowId) -> usize {
        self.medium.payload_messages(flow.0)
    }

    /// What was delivered from nodes of one cluster to nodes of another, or of the same.
    pub fn pair_traffic(&self, from: ClusterIndex, to: ClusterIndex) -> Traffic {
        self.base.pair_traffic_of(from, to)
    }

    /// What the link from one cluster to another has carried and lost, in the packet model.
    pub fn wan_packets(&mut self, from: ClusterIndex, to: ClusterIndex) -> Option<WanPackets> {
        match &mut self.medium {
            Medium::Fluid(_) => None,
            Medium::Packet(packets) => packets.wan(&self.base, from, to),
        }
    }

    /// The open connections of the packet model, by flow; none in the fluid one.
    pub fn connections(&self) -> Vec<ConnectionState> {
        match &self.medium {
            Medium::Fluid(_) => Vec::new(),
            Medium::Packet(packets) => packets.connections(&self.base).collect(),
        }
    }

    /// The queues of the packet model; none in the fluid one.
    pub fn queues(&self) -> Vec<QueueState> {
        match &self.medium {
            Medium::Fluid(_) => Vec::new(),
            Medium::Packet(packets) => packets.queues(&self.base).collect(),
        }
    }

    /// What a node has sent and received.
    pub fn node_traffic(&self, node: NodeIndex) -> NodeTraffic {
        self.base.nodes[node.0 as usize].traffic
    }

    /// Events handled so far, the network's own included.
    pub fn events_total(&self) -> u64 {
        let of_packets = match &self.medium {
            Medium::Fluid(_) => 0,
            Medium::Packet(packets) => packets.events_total(),
        };
        self.base.events_total + of_packets
    }

    /// Balancing steps of the fluid model so far.
    pub fn turns_total(&self) -> u64 {
        match &self.medium {
            Medium::Fluid(fluid) => fluid.turns_total(),
            Medium::Packet(_) => 0,
        }
    }
}

/// Commands.
impl<T> Network<T> {
    /// Lets `event` come out of [`Network::step`] at `at`, or at once when that is past.
    pub fn schedule(&mut self, at: Time, event: T) -> Token {
        self.base.events.push(at.max(self.base.now), Event::Due(event))
    }

    /// Takes back what was scheduled; `None` when it has come out or was taken back before.
    pub fn unschedule(&mut self, token: Token) -> Option<T> {
        match self.base.events.cancel(token)? {
            Event::Due(event) => Some(event),
            _ => unreachable!("tokens are handed out for scheduled events alone"),
        }
    }

    /// Opens a link, usable at once in both directions (a handshake is messages of its user's). Returns the flow from
    /// `from` to `to`; its reverse leads back.
    pub fn open(&mut self, from: NodeIndex, to: NodeIndex) -> Result<FlowId, NetworkError> {
        if from == to {
            return Err(NetworkError::ToItself(from));
        }
        if let Some(stopped) = [from, to].into_iter().find(|node| !self.is_running(*node)) {
            return Err(NetworkError::Stopped(stopped));
        }
        let no_link = |a, b| NetworkError::NoLink(a, b);
        let (near, far) = (self.cluster(from), self.cluster(to));
        let out = self.delay(from, to).ok_or(no_link(near, far))?;
        let back = self.delay(to, from).ok_or(no_link(far, near))?;
        let flow = self.base.add_flow(from, to, out.0);
        let reverse = self.base.add_flow(to, from, back.0);
        self.medium.open(&self.base, flow);
        self.medium.open(&self.base, reverse);
        Ok(FlowId(flow))
    }

    /// Hands a message to a flow. On a flow that is closed, or whose other end is gone, it vanishes.
    pub fn send(&mut self, flow: FlowId, bytes: u32, tag: u64, class: Class) {
        assert!(u64::from(bytes) <= MESSAGE_BYTES_MAX, "a message has at most {MESSAGE_BYTES_MAX} bytes; split it");
        if self.base.phase(flow.0) == Phase::Open {
            self.medium.send(&mut self.base, flow.0, Sent { tag, bytes, class });
        }
    }

    /// Takes back a payload message that has not begun.
    pub fn cancel(&mut self, flow: FlowId, tag: u64) -> Cancelled {
        self.medium.cancel(&mut self.base, flow.0, tag)
    }

    /// Closes a link from the sending end of `flow`. Payload that has not begun is dropped, what has begun and control
    /// messages still go out, then the other end is told. What is on its way from the other end vanishes.
    pub fn close(&mut self, flow: FlowId) {
        self.kill(flow.reverse().0);
        if self.base.phase(flow.0) == Phase::Open {
            self.base.flows[flow.0 as usize].phase = Phase::Closing;
            self.medium.finish(&mut self.base, flow.0);
        }
    }

    /// Changes the capacity of a shared link, in bytes per second; `None` lifts the limit. Zero cuts it: what is under way
    /// waits in the fluid model, and is lost in the packet model.
    pub fn set_rate(&mut self, link: LinkRef, rate_bytes_per_s: Option<u64>) -> Result<(), NetworkError> {
        if let LinkRef::Wan { from, to } = link
            && self.base.topology.wan(from, to).is_none()
        {
            return Err(NetworkError::NoLink(from, to));
        }
        let (LinkRef::Wan { from, .. } | LinkRef::AccessOut(from) | LinkRef::AccessIn(from) | LinkRef::Fabric(from)) =
            link;
        self.base.topology.set_rate(link, rate_bytes_per_s).map_err(|_| NetworkError::NoSuchCluster(from))?;
        self.medium.set_rate(&self.base, link, rate_bytes_per_s);
        Ok(())
    }

    /// Changes a node's first network card, in bytes per second.
    pub fn set_nic(&mut self, node: NodeIndex, out_bytes_per_s: Option<u64>, in_bytes_per_s: Option<u64>) {
        self.medium.set_nic(&self.base, node, out_bytes_per_s, in_bytes_per_s);
    }

    /// Stops a node: its links end.
    pub fn stop_node(&mut self, node: NodeIndex, stop: Stop) {
        self.base.nodes[node.0 as usize].running = false;
        for flow in self.base.nodes[node.0 as usize].flows.clone() {
            self.kill(flow ^ 1);
            match stop {
                Stop::Silent => self.kill(flow),
                Stop::Reset => {
                    self.medium.abort(&mut self.base, flow);
                    self.base.flows[flow as usize].phase = Phase::Closing;
                }
            }
        }
    }

    /// Lets a stopped node run again, without links.
    pub fn restart_node(&mut self, node: NodeIndex) {
        self.base.nodes[node.0 as usize].running = true;
    }

    /// Ends a flow: nothing leaves it, nothing arrives from it.
    fn kill(&mut self, flow: u32) {
        self.medium.silence(flow);
        self.base.end(flow);
    }
}
