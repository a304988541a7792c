//! A connection as the engine keeps it, and its packets under way.

use std::collections::VecDeque;

use super::HOPS_MAX;
use crate::packet::tcp::{Ack, Receiver, Sender};

/// The way of a connection's packets, in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Path {
    pub ports: [u32; HOPS_MAX],
    pub hops: u8,
}

/// A packet under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub connection: u32,
    pub content: Content,
    pub hop: u8,
    /// Which of its connection's routes it takes to the end.
    pub route: u8,
}

/// What a packet carries.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    /// The segment of this number.
    Segment(u32),
    Ack(Ack),
}

#[derive(Debug)]
pub(super) struct Connection {
    pub sender: Sender,
    pub receiver: Receiver,
    /// The paths of segments and acknowledgements that leave from here on.
    pub forward: Path,
    pub back: Path,
    /// Those before, in order, for the packets that left then.
    pub former: Vec<(Path, Path)>,
    /// How many those are.
    pub route: u8,
    /// The one valid entry of each timer in the event queue.
    pub sender_timer_ns: Option<u64>,
    pub receiver_timer_ns: Option<u64>,
    pub done_at_ns: Option<u64>,
    /// Bytes on the line of segments from `sizes_from` on; empty if all are full.
    pub sizes: VecDeque<u32>,
    pub sizes_from: u32,
    /// Its owner gives it more as there is room.
    pub watched: bool,
    /// Segments in its first port that have not left, and how many may be.
    pub local: u32,
    pub local_max: u32,
    pub closed: bool,
}

impl Connection {
    pub fn size_of(&self, segment: u32) -> Option<u32> {
        let place = segment.checked_sub(self.sizes_from)?;
        self.sizes.get(place as usize).copied()
    }

    /// Sizes of segments that are never sent again are not kept.
    pub fn forget_sizes(&mut self) {
        let acknowledged = self.sender.acknowledged();
        let gone = (acknowledged - self.sizes_from) as usize;
        self.sizes.drain(..gone.min(self.sizes.len()));
        self.sizes_from = acknowledged;
    }

    /// A packet that leaves now.
    pub fn packet(&self, connection: u32, content: Content) -> Packet {
        Packet { connection, content, hop: 0, route: self.route }
    }

    pub fn path(&self, packet: Packet) -> &Path {
        match packet.content {
            _ if packet.route != self.route => self.former_path(packet),
            Content::Segment(_) => &self.forward,
            Content::Ack(_) => &self.back,
        }
    }

    #[cold]
    fn former_path(&self, packet: Packet) -> &Path {
        let (forward, back) = &self.former[usize::from(packet.route)];
        match packet.content {
            Content::Segment(_) => forward,
            Content::Ack(_) => back,
        }
    }
}
