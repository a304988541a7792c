//! What is counted of the messages that pass through the network.

use super::{FlowId, NodeIndex, Place};
use crate::link::{Class, Sent};
use crate::packet::port::PortCounters;
use crate::packet::tcp::SenderCounters;

/// Bytes of the two classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Bytes of payload messages.
    pub payload_bytes: u64,
    /// Bytes of control messages.
    pub control_bytes: u64,
}

impl Traffic {
    pub(super) fn count(&mut self, sent: Sent) {
        match sent.class {
            Class::Control => self.control_bytes += u64::from(sent.bytes),
            Class::Payload => self.payload_bytes += u64::from(sent.bytes),
        }
    }
}

/// What one node has sent (whole messages that have left) and received (messages delivered).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeTraffic {
    /// From other clusters.
    pub wan_in: Traffic,
    /// To other clusters.
    pub wan_out: Traffic,
    /// From the own cluster.
    pub lan_in: Traffic,
    /// To the own cluster.
    pub lan_out: Traffic,
}

/// What a link between clusters has carried and lost in the packet model, with all headers of IP and above.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WanPackets {
    /// Packets that left its queue.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of data that came out of it and had come out of it before.
    pub repeated_bytes: u64,
    /// Packets that found its queue full.
    pub lost_in_queue: u64,
    /// Packets lost by chance, or because it was cut.
    pub lost_by_chance: u64,
}

/// How a TCP connection of the packet model stands.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ConnectionState {
    /// Its flow.
    pub flow: FlowId,
    /// Who sends.
    pub from: NodeIndex,
    /// Who receives.
    pub to: NodeIndex,
    /// The congestion window, in segments.
    pub window_segments: f64,
    /// What the sender has done so far.
    pub counters: SenderCounters,
}

/// How a queue of the packet model stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueState {
    /// Before which line it is.
    pub place: Place,
    /// Packets that wait or are leaving, and their bytes.
    pub waiting: (u64, u64),
    /// What it has taken and dropped so far.
    pub counters: PortCounters,
}
