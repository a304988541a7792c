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
    /// On the line.
    pub bytes: u32,
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

/// A segment that a connection was given by and by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    /// Bytes on the line.
    pub bytes: u32,
    /// Whether it has come through a port of [`super::Engine::count_repeated`].
    pub crossed: bool,
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
    /// The segments from `given_from` on; empty if all are full.
    pub given: VecDeque<Given>,
    pub given_from: u32,
    /// Its owner gives it more as there is room.
    pub watched: bool,
    /// Segments in its first port that have not left, and how many may be.
    pub local: u32,
    pub local_max: u32,
    pub closed: bool,
}

impl Connection {
    pub fn size_of(&self, segment: u32) -> Option<u32> {
        let place = segment.checked_sub(self.given_from)?;
        self.given.get(place as usize).map(|given| given.bytes)
    }

    /// A segment has come through a port of [`super::Engine::count_repeated`]; whether it had before.
    pub fn cross(&mut self, segment: u32) -> bool {
        // What is acknowledged has arrived once.
        let Some(place) = segment.checked_sub(self.given_from) else { return true };
        let given = self.given.get_mut(place as usize);
        given.is_some_and(|given| std::mem::replace(&mut given.crossed, true))
    }

    /// What is known of segments that are never sent again is not kept.
    pub fn forget_given(&mut self) {
        let acknowledged = self.sender.acknowledged();
        let gone = (acknowledged - self.given_from) as usize;
        self.given.drain(..gone.min(self.given.len()));
        self.given_from = acknowledged;
    }

    /// A packet that leaves now.
    pub fn packet(&self, connection: u32, content: Content, bytes: u32) -> Packet {
        Packet { connection, content, bytes, hop: 0, route: self.route }
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
