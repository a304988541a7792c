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
//! **Approximations.** Rates are brought up to date at multiples of [`Settings::quantum`]; a quantum of zero makes them
//! exact at every instant. With a quantum, a resource may carry more or less than its capacity between two settlements
//! by the shares of the flows that started or stopped, and up to 1/128 longer. Over a run the errors even out: a
//! millisecond moves the end of the busy network of `tests/network.rs` by 1/8000, and the total throughput of
//! `examples/engine_rate.rs` by up to 1/100. A control message of at most [`EXPRESS_BYTES_MAX`] on an otherwise idle
//! flow does not take part in the sharing: it leaves at the rate that the flow would get, and its bytes are taken from
//! the capacities in the following [`LEVY_WINDOW`] (where they are more than 1/512 of them). There is no slow start, no
//! loss and no queueing delay: a flow has its fair rate at once. A window or a shaper can be imitated by a cap
//! ([`Settings::window_bytes`], [`Network::set_cap`]).

mod run;
mod traffic;

pub use traffic::{NodeTraffic, Traffic};

use crate::fluid::{RATE_UNITS, ResourceIndex, Sharing};
use crate::link::{Cancelled, Class, MESSAGE_BYTES_MAX, SendQueue, Sent};
use crate::queue::{EventQueue, Token};
use mobcast_proto::{Duration, Time};
use mobcast_topology::{ClusterIndex, LinkRef, Topology, WanNic};
use thiserror::Error;

/// The longest control message that may travel beside the sharing, in bytes.
pub const EXPRESS_BYTES_MAX: u32 = 4096;
/// How long bytes beside the sharing are gathered before they are taken from the capacities.
pub const LEVY_WINDOW: Duration = Duration::from_millis(100);

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

/// How the network is simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Rates are settled at multiples of this; zero means at once and exactly.
    pub quantum: Duration,
    /// At most so many bytes per round trip on each flow.
    pub window_bytes: Option<u64>,
    /// Whether [`Happening::Drained`] is reported.
    pub report_drained: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { quantum: Duration::from_millis(1), window_bytes: None, report_drained: false }
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
    /// The flow's last payload message has left (only with [`Settings::report_drained`]).
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

#[derive(Debug)]
enum Event<T> {
    /// The message under way on a flow may have left.
    Leaves(u32),
    Arrives(u32, Sent),
    Closes(u32),
    Drained(u32),
    Settle,
    Levy,
    Due(T),
}

#[derive(Debug)]
struct Node {
    cluster: ClusterIndex,
    card: Card,
    /// A second card, for other clusters.
    wan_card: Option<Card>,
    running: bool,
    /// Flows that leave the node and are not closed.
    flows: Vec<u32>,
    traffic: NodeTraffic,
}

/// A network card; a direction without a resource has no limit.
#[derive(Clone, Copy, Debug, Default)]
struct Card {
    way_out: Option<ResourceIndex>,
    way_in: Option<ResourceIndex>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Site {
    access_out: Option<ResourceIndex>,
    access_in: Option<ResourceIndex>,
    fabric: Option<ResourceIndex>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Open,
    /// The sending end has closed; what has begun still goes out.
    Closing,
    Closed,
}

#[derive(Debug)]
struct Flow {
    from: NodeIndex,
    to: NodeIndex,
    phase: Phase,
    across_wan: bool,
    active: bool,
    delay_ns: u64,
    /// Time of the one valid [`Event::Leaves`] in the queue, or the end of time.
    leaves_at_ns: u64,
    /// When the last message beside the sharing has left: nothing after it leaves earlier.
    express_until_ns: u64,
    queue: SendQueue,
}

const NEVER_NS: u64 = u64::MAX;

/// A network in virtual time. `T` is what its user schedules.
#[derive(Debug)]
pub struct Network<T> {
    now: Time,
    settings: Settings,
    topology: Topology,
    events: EventQueue<Event<T>>,
    sharing: Sharing,
    sites: Vec<Site>,
    /// By sending, then receiving cluster.
    wan: Vec<Option<ResourceIndex>>,
    pair_traffic: Vec<Traffic>,
    nodes: Vec<Node>,
    flows: Vec<Flow>,
    settle_is_due: bool,
    levy_is_due: bool,
    events_total: u64,
}

/// Building and looking.
impl<T> Network<T> {
    /// A network of this shape without nodes, at time zero.
    pub fn new(topology: &Topology, settings: Settings) -> Network<T> {
        let mut sharing = Sharing::default();
        let mut limited = |rate: Option<u64>| rate.map(|rate| sharing.add_resource(Some(rate)));
        let clusters = topology.clusters().len();
        let sites = topology.clusters().iter().map(|cluster| Site {
            access_out: limited(cluster.access_out_bytes_per_s),
            access_in: limited(cluster.access_in_bytes_per_s),
            fabric: limited(cluster.fabric_bytes_per_s),
        });
        let sites = sites.collect();
        let mut wan = vec![None; clusters * clusters];
        for (from, to, link) in topology.wan_links() {
            wan[from.as_usize() * clusters + to.as_usize()] = limited(link.rate_bytes_per_s);
        }
        Network {
            now: Time::ZERO,
            settings,
            topology: topology.clone(),
            events: EventQueue::new(),
            sharing,
            sites,
            wan,
            pair_traffic: vec![Traffic::default(); clusters * clusters],
            nodes: Vec::new(),
            flows: Vec::new(),
            settle_is_due: false,
            levy_is_due: false,
            events_total: 0,
        }
    }

    /// Adds a running node with its cluster's network cards.
    pub fn add_node(&mut self, cluster: ClusterIndex) -> Result<NodeIndex, NetworkError> {
        let kind = self.topology.clusters().get(cluster.as_usize()).ok_or(NetworkError::NoSuchCluster(cluster))?;
        let mut limited = |rate: Option<u64>| rate.map(|rate| self.sharing.add_resource(Some(rate)));
        let card = Card { way_out: limited(kind.nic_out_bytes_per_s), way_in: limited(kind.nic_in_bytes_per_s) };
        let second = |nic: WanNic| Card { way_out: limited(nic.out_bytes_per_s), way_in: limited(nic.in_bytes_per_s) };
        let wan_card = kind.wan_nic.map(second);
        let traffic = NodeTraffic::default();
        self.nodes.push(Node { cluster, card, wan_card, running: true, flows: Vec::new(), traffic });
        Ok(NodeIndex((self.nodes.len() - 1) as u32))
    }

    /// Virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Nodes added so far, stopped ones too.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The cluster that a node was put into.
    pub fn cluster(&self, node: NodeIndex) -> ClusterIndex {
        self.nodes[node.0 as usize].cluster
    }

    /// Whether a node has not been stopped.
    pub fn is_running(&self, node: NodeIndex) -> bool {
        self.nodes[node.0 as usize].running
    }

    /// The sending and the receiving end of a flow.
    pub fn ends(&self, flow: FlowId) -> (NodeIndex, NodeIndex) {
        let flow = &self.flows[flow.0 as usize];
        (flow.from, flow.to)
    }

    /// One-way delay between two nodes; `None` when there is no way.
    pub fn delay(&self, from: NodeIndex, to: NodeIndex) -> Option<Duration> {
        let (from, to) = (self.cluster(from), self.cluster(to));
        if from == to {
            return Some(Duration(self.topology.clusters()[from.as_usize()].lan_delay_ns));
        }
        self.topology.wan(from, to).map(|link| Duration(link.one_way_delay_ns))
    }

    /// A flow's present rate in bytes per second; zero while nothing waits.
    pub fn rate_bytes_per_s(&self, flow: FlowId) -> u64 {
        self.flows[flow.0 as usize].queue.rate() / RATE_UNITS
    }

    /// Payload bytes that wait on a flow or are under way, whole messages counted.
    pub fn queued_payload_bytes(&self, flow: FlowId) -> u64 {
        self.flows[flow.0 as usize].queue.payload_bytes()
    }

    /// Payload messages that wait on a flow or are under way.
    pub fn queued_payload_messages(&self, flow: FlowId) -> usize {
        self.flows[flow.0 as usize].queue.payload_messages()
    }

    /// What was delivered from nodes of one cluster to nodes of another, or of the same.
    pub fn pair_traffic(&self, from: ClusterIndex, to: ClusterIndex) -> Traffic {
        self.pair_traffic[from.as_usize() * self.sites.len() + to.as_usize()]
    }

    /// What a node has sent and received.
    pub fn node_traffic(&self, node: NodeIndex) -> NodeTraffic {
        self.nodes[node.0 as usize].traffic
    }

    /// Events handled so far, the network's own included.
    pub fn events_total(&self) -> u64 {
        self.events_total
    }

    /// Balancing steps of the sharing so far.
    pub fn turns_total(&self) -> u64 {
        self.sharing.turns_total()
    }
}

/// Commands.
impl<T> Network<T> {
    /// Lets `event` come out of [`Network::step`] at `at`, or at once when that is past.
    pub fn schedule(&mut self, at: Time, event: T) -> Token {
        self.events.push(at.max(self.now), Event::Due(event))
    }

    /// Takes back what was scheduled; `None` when it has come out or was taken back before.
    pub fn unschedule(&mut self, token: Token) -> Option<T> {
        match self.events.cancel(token)? {
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
        let round_trip = out + back;
        let cap = self.settings.window_bytes.map(|bytes| mobcast_proto::time::rate_bytes_per_s(bytes, round_trip));
        let flow = self.add_flow(from, to, out, cap);
        self.add_flow(to, from, back, cap);
        Ok(flow)
    }

    fn add_flow(&mut self, from: NodeIndex, to: NodeIndex, delay: Duration, cap: Option<u64>) -> FlowId {
        let id = self.sharing.add_flow(&self.path(from, to), cap);
        debug_assert_eq!(id as usize, self.flows.len());
        self.nodes[from.0 as usize].flows.push(id);
        self.flows.push(Flow {
            from,
            to,
            phase: Phase::Open,
            across_wan: self.cluster(from) != self.cluster(to),
            active: false,
            delay_ns: delay.0,
            leaves_at_ns: NEVER_NS,
            express_until_ns: 0,
            queue: SendQueue::default(),
        });
        FlowId(id)
    }

    /// Hands a message to a flow. On a flow that is closed, or whose other end is gone, it vanishes.
    pub fn send(&mut self, flow: FlowId, bytes: u32, tag: u64, class: Class) {
        assert!(u64::from(bytes) <= MESSAGE_BYTES_MAX, "a message has at most {MESSAGE_BYTES_MAX} bytes; split it");
        let state = &mut self.flows[flow.0 as usize];
        if state.phase != Phase::Open {
            return;
        }
        let sent = Sent { tag, bytes, class };
        if class == Class::Control && !state.active && self.send_express(flow.0, sent) {
            return;
        }
        let state = &mut self.flows[flow.0 as usize];
        match class {
            Class::Control => state.queue.push_control(self.now.0, tag, bytes),
            Class::Payload => state.queue.push_payload(self.now.0, tag, bytes),
        }
        if !state.active {
            state.active = true;
            self.sharing.start(flow.0);
            state.queue.set_rate(self.now.0, self.sharing.rate(flow.0));
        }
        self.plan_leaving(flow.0);
    }

    /// Sends a small control message beside the sharing, if the model allows.
    fn send_express(&mut self, flow: u32, sent: Sent) -> bool {
        if self.settings.quantum == Duration::ZERO || sent.bytes > EXPRESS_BYTES_MAX {
            return false;
        }
        let rate = self.sharing.prospective_rate(flow);
        if rate == 0 {
            return false;
        }
        self.sharing.charge(flow, u64::from(sent.bytes));
        let state = &mut self.flows[flow as usize];
        let units = u64::from(sent.bytes) * RATE_UNITS * 1_000_000_000;
        state.express_until_ns = state.express_until_ns.max(self.now.0).saturating_add(units.div_ceil(rate));
        self.dispatch(flow, sent);
        true
    }

    /// Takes back a payload message that has not begun.
    pub fn cancel(&mut self, flow: FlowId, tag: u64) -> Cancelled {
        let result = self.flows[flow.0 as usize].queue.cancel(self.now.0, tag);
        self.after_removal(flow.0);
        result
    }

    /// Closes a link from the sending end of `flow`. Payload that has not begun is dropped, what has begun and control
    /// messages still go out, then the other end is told. What is on its way from the other end vanishes.
    pub fn close(&mut self, flow: FlowId) {
        self.kill(flow.reverse().0);
        if self.flows[flow.0 as usize].phase != Phase::Open {
            return;
        }
        let state = &mut self.flows[flow.0 as usize];
        state.phase = Phase::Closing;
        state.queue.drop_waiting_payload(self.now.0);
        if state.active {
            self.after_removal(flow.0);
        } else {
            self.announce_close(flow.0);
        }
    }

    /// Limits one flow (a window, a shaper), in bytes per second.
    pub fn set_cap(&mut self, flow: FlowId, cap_bytes_per_s: Option<u64>) {
        self.sharing.set_cap(flow.0, cap_bytes_per_s);
    }

    /// Changes the capacity of a shared link, in bytes per second; `None` lifts the limit.
    pub fn set_rate(&mut self, link: LinkRef, rate_bytes_per_s: Option<u64>) -> Result<(), NetworkError> {
        if let LinkRef::Wan { from, to } = link
            && self.topology.wan(from, to).is_none()
        {
            return Err(NetworkError::NoLink(from, to));
        }
        let (LinkRef::Wan { from, .. } | LinkRef::AccessOut(from) | LinkRef::AccessIn(from) | LinkRef::Fabric(from)) =
            link;
        self.topology.set_rate(link, rate_bytes_per_s).map_err(|_| NetworkError::NoSuchCluster(from))?;
        match *self.resource(link) {
            Some(resource) => self.sharing.set_capacity(resource, rate_bytes_per_s),
            None if rate_bytes_per_s.is_some() => {
                *self.resource(link) = Some(self.sharing.add_resource(rate_bytes_per_s));
                self.reroute_all();
            }
            None => {}
        }
        Ok(())
    }

    /// Changes a node's first network card, in bytes per second.
    pub fn set_nic(&mut self, node: NodeIndex, out_bytes_per_s: Option<u64>, in_bytes_per_s: Option<u64>) {
        let state = &mut self.nodes[node.0 as usize];
        let both = [(&mut state.card.way_out, out_bytes_per_s), (&mut state.card.way_in, in_bytes_per_s)];
        for (direction, rate) in both {
            let resource = *direction.get_or_insert_with(|| self.sharing.add_resource(rate));
            self.sharing.set_capacity(resource, rate);
        }
        self.reroute_all();
    }

    /// Stops a node: its links end.
    pub fn stop_node(&mut self, node: NodeIndex, stop: Stop) {
        self.nodes[node.0 as usize].running = false;
        for flow in self.nodes[node.0 as usize].flows.clone() {
            self.kill(flow ^ 1);
            if stop == Stop::Silent {
                self.kill(flow);
                continue;
            }
            let state = &mut self.flows[flow as usize];
            let announced = state.phase != Phase::Open && !state.active;
            if !announced {
                state.phase = Phase::Closing;
                self.silence(flow);
                self.announce_close(flow);
            }
        }
    }

    /// Lets a stopped node run again, without links.
    pub fn restart_node(&mut self, node: NodeIndex) {
        self.nodes[node.0 as usize].running = true;
    }
}

/// Paths.
impl<T> Network<T> {
    fn resource(&mut self, link: LinkRef) -> &mut Option<ResourceIndex> {
        match link {
            LinkRef::Wan { from, to } => &mut self.wan[from.as_usize() * self.sites.len() + to.as_usize()],
            LinkRef::AccessOut(cluster) => &mut self.sites[cluster.as_usize()].access_out,
            LinkRef::AccessIn(cluster) => &mut self.sites[cluster.as_usize()].access_in,
            LinkRef::Fabric(cluster) => &mut self.sites[cluster.as_usize()].fabric,
        }
    }

    /// The limited resources between two nodes.
    fn path(&self, from: NodeIndex, to: NodeIndex) -> Vec<ResourceIndex> {
        let (sender, receiver) = (&self.nodes[from.0 as usize], &self.nodes[to.0 as usize]);
        let (near, far) = (sender.cluster.as_usize(), receiver.cluster.as_usize());
        let between = if near == far {
            [self.sites[near].fabric, None, None]
        } else {
            let wan = self.wan[near * self.sites.len() + far];
            [self.sites[near].access_out, wan, self.sites[far].access_in]
        };
        let card = |node: &Node| node.wan_card.filter(|_| near != far).unwrap_or(node.card);
        [card(sender).way_out].into_iter().chain(between).chain([card(receiver).way_in]).flatten().collect()
    }

    /// A resource that had no limit has one: lead every living flow across it.
    fn reroute_all(&mut self) {
        for id in 0..self.flows.len() {
            let flow = &self.flows[id];
            if flow.phase != Phase::Closed {
                let path = self.path(flow.from, flow.to);
                self.sharing.reroute(id as u32, &path);
            }
        }
    }
}
