//! What every model of the network has: time, the event queue, nodes, flows with their ends and phases, and what is counted.

use mobcast_proto::Time;
use mobcast_topology::{ClusterIndex, Topology};

use super::{FlowId, NodeIndex, NodeTraffic, Settings, Traffic};
use crate::link::Sent;
use crate::queue::EventQueue;

#[derive(Debug)]
pub(super) enum Event<T> {
    /// The message under way on a flow may have left.
    Leaves(u32),
    /// A round trip of a flow in slow start is over.
    Widens(u32),
    Arrives(u32, Sent),
    Closes(u32),
    Drained(u32),
    Settle,
    Levy,
    Due(T),
}

#[derive(Debug)]
pub(super) struct Node {
    pub cluster: ClusterIndex,
    pub running: bool,
    /// Flows that leave the node and are not closed.
    pub flows: Vec<u32>,
    pub traffic: NodeTraffic,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Open,
    /// The sending end has closed; what has begun still goes out.
    Closing,
    Closed,
}

#[derive(Debug)]
pub(super) struct Flow {
    pub from: NodeIndex,
    pub to: NodeIndex,
    pub phase: Phase,
    pub across_wan: bool,
    pub delay_ns: u64,
}

/// The common part of a network.
#[derive(Debug)]
pub(super) struct Base<T> {
    pub now: Time,
    pub settings: Settings,
    pub topology: Topology,
    pub events: EventQueue<Event<T>>,
    pub nodes: Vec<Node>,
    pub flows: Vec<Flow>,
    pair_traffic: Vec<Traffic>,
    pub events_total: u64,
}

impl<T> Base<T> {
    pub fn new(topology: &Topology, settings: Settings) -> Base<T> {
        let clusters = topology.clusters().len();
        Base {
            now: Time::ZERO,
            settings,
            topology: topology.clone(),
            events: EventQueue::new(),
            nodes: Vec::new(),
            flows: Vec::new(),
            pair_traffic: vec![Traffic::default(); clusters * clusters],
            events_total: 0,
        }
    }

    pub fn cluster(&self, node: NodeIndex) -> ClusterIndex {
        self.nodes[node.0 as usize].cluster
    }

    pub fn phase(&self, flow: u32) -> Phase {
        self.flows[flow as usize].phase
    }

    pub fn pair_traffic(&mut self, from: ClusterIndex, to: ClusterIndex) -> &mut Traffic {
        &mut self.pair_traffic[from.as_usize() * self.topology.clusters().len() + to.as_usize()]
    }

    pub fn pair_traffic_of(&self, from: ClusterIndex, to: ClusterIndex) -> Traffic {
        self.pair_traffic[from.as_usize() * self.topology.clusters().len() + to.as_usize()]
    }

    pub fn add_flow(&mut self, from: NodeIndex, to: NodeIndex, delay_ns: u64) -> u32 {
        let id = self.flows.len() as u32;
        let across_wan = self.cluster(from) != self.cluster(to);
        self.nodes[from.0 as usize].flows.push(id);
        self.flows.push(Flow { from, to, phase: Phase::Open, across_wan, delay_ns });
        id
    }

    /// A message has left its node.
    pub fn count_out(&mut self, flow: u32, sent: Sent) {
        let Flow { from, across_wan, .. } = self.flows[flow as usize];
        let traffic = &mut self.nodes[from.0 as usize].traffic;
        if across_wan { &mut traffic.wan_out } else { &mut traffic.lan_out }.count(sent);
    }

    /// A message has arrived.
    pub fn count_in(&mut self, flow: u32, sent: Sent) {
        let Flow { from, to, across_wan, .. } = self.flows[flow as usize];
        let traffic = &mut self.nodes[to.0 as usize].traffic;
        if across_wan { &mut traffic.wan_in } else { &mut traffic.lan_in }.count(sent);
        let (near, far) = (self.cluster(from), self.cluster(to));
        self.pair_traffic(near, far).count(sent);
    }

    /// The last payload message of a flow has left.
    pub fn report_drained(&mut self, flow: u32) {
        if self.settings.report_drained && self.phase(flow) == Phase::Open {
            self.events.push(self.now, Event::Drained(flow));
        }
    }

    /// Nothing arrives from a flow any more.
    pub fn end(&mut self, flow: u32) {
        let state = &mut self.flows[flow as usize];
        if state.phase != Phase::Closed {
            state.phase = Phase::Closed;
            let from = state.from;
            self.nodes[from.0 as usize].flows.retain(|other| *other != flow);
        }
    }

    /// Flows that are not closed, with their ends.
    pub fn living(&self) -> impl Iterator<Item = (FlowId, NodeIndex, NodeIndex)> + '_ {
        let living = self.flows.iter().enumerate().filter(|(_, flow)| flow.phase != Phase::Closed);
        living.map(|(id, flow)| (FlowId(id as u32), flow.from, flow.to))
    }
}
