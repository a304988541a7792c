//! The two models of the network, under one set of commands. Each holds one lane for each flow, by the flow's number.

pub(super) mod fluid;
pub(super) mod packet;
mod slow_start;

use fluid::Fluid;
use mobcast_topology::{Change, Cluster, ClusterIndex, LinkRef, Topology};
use packet::Packets;

use super::base::Base;
use super::{Model, NodeIndex, Settings};
use crate::link::{Cancelled, Sent};

/// The model that a network has.
#[derive(Debug)]
pub(super) enum Medium {
    Fluid(Box<Fluid>),
    Packet(Box<Packets>),
}

/// The same command for either model.
macro_rules! either {
    ($medium:expr, $model:ident => $command:expr) => {
        match $medium {
            Medium::Fluid($model) => $command,
            Medium::Packet($model) => $command,
        }
    };
}

impl Medium {
    pub fn new(topology: &Topology, settings: Settings) -> Medium {
        match settings.model {
            Model::Fluid => Medium::Fluid(Box::new(Fluid::new(topology, settings))),
            Model::Packet(tcp) => Medium::Packet(Box::new(Packets::new(topology, tcp, settings.seed))),
        }
    }

    /// Says which rates links will be given. The fluid model has no queues to prepare.
    pub fn expect(&mut self, changes: &[Change]) {
        if let Medium::Packet(packets) = self {
            packets.expect(changes);
        }
    }

    pub fn add_node(&mut self, index: ClusterIndex, cluster: &Cluster) {
        either!(self, model => model.add_node(index, cluster));
    }

    /// The next flow, and the way back of what it carries.
    pub fn open<T>(&mut self, base: &Base<T>, flow: u32) {
        either!(self, model => model.open(base, flow));
    }

    pub fn send<T>(&mut self, base: &mut Base<T>, flow: u32, sent: Sent) {
        either!(self, model => model.send(base, flow, sent));
    }

    pub fn cancel<T>(&mut self, base: &mut Base<T>, flow: u32, tag: u64) -> Cancelled {
        either!(self, model => model.cancel(base, flow, tag))
    }

    /// Payload that has not begun is dropped; when the rest has left, the other end is told.
    pub fn finish<T>(&mut self, base: &mut Base<T>, flow: u32) {
        either!(self, model => model.finish(base, flow));
    }

    /// All that waits is dropped, and the other end is told.
    pub fn abort<T>(&mut self, base: &mut Base<T>, flow: u32) {
        either!(self, model => model.abort(base, flow));
    }

    /// Nothing leaves a flow any more, and nothing of it arrives.
    pub fn silence(&mut self, flow: u32) {
        either!(self, model => model.silence(flow));
    }

    /// The link exists, and the topology knows of its rate already.
    pub fn set_rate<T>(&mut self, base: &Base<T>, link: LinkRef, rate_bytes_per_s: Option<u64>) {
        either!(self, model => model.set_rate(base, link, rate_bytes_per_s));
    }

    pub fn set_nic<T>(&mut self, base: &Base<T>, node: NodeIndex, out: Option<u64>, into: Option<u64>) {
        either!(self, model => model.set_nic(base, node, out, into));
    }

    pub fn payload_bytes(&self, flow: u32) -> u64 {
        either!(self, model => model.payload_bytes(flow))
    }

    pub fn payload_messages(&self, flow: u32) -> usize {
        either!(self, model => model.payload_messages(flow))
    }
}
