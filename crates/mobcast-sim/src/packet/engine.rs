//! Ports, connections over paths of ports, and the one loop that moves packets between them. Promises that the same calls
//! give the same packets at the same nanosecond.

mod connection;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use mobcast_proto::random::mix2;

use super::port::{Limit, Port, PortCounters, PortSettings};
use super::tcp::{Ack, Receiver, Sender, TcpSettings};
use connection::{Connection, Content, Given, Packet, Path};

/// Ports from one end of a connection to the other, at most: card, access and link between clusters, access and card.
pub const HOPS_MAX: usize = 5;

/// A port, by the order of adding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PortIndex(pub u32);

/// A connection, by the order of opening.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ConnectionIndex(pub u32);

/// Bytes of packets on the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketSizes {
    /// Of one with a segment.
    pub data_bytes: u32,
    /// Of one with an acknowledgement alone.
    pub ack_bytes: u32,
}

/// What the owner of a connection wants to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// The receiver has more segments in order than before: so many.
    Arrived {
        /// The connection.
        connection: ConnectionIndex,
        /// Segments in order, from the first on.
        segments: u32,
    },
    /// So little waits to be sent for the first time that there is room for more.
    Room(ConnectionIndex),
}

/// Segments that may wait to be sent for the first time before [`Note::Room`] is told: 128 KiB, as the driver lets
/// sockets hold.
pub const UNSENT_SEGMENTS: u32 = 90;

/// What an entry of the event queue is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Due {
    Port(u32),
    SenderTimer(u32),
    ReceiverTimer(u32),
}

/// Connections over ports, in virtual time.
#[derive(Debug)]
pub struct Engine {
    tcp: TcpSettings,
    sizes: PacketSizes,
    now_ns: u64,
    /// By time, then by the order of insertion.
    events: BinaryHeap<Reverse<(u64, u64, Due)>>,
    inserted: u64,
    ports: Vec<Port<Packet>>,
    /// The one valid entry of each port in the event queue.
    port_due_ns: Vec<Option<u64>>,
    /// Of each port, bytes of data that had come through before; none if that is not counted.
    repeated_bytes: Vec<Option<u64>>,
    connections: Vec<Connection>,
    open: usize,
    notes: VecDeque<Note>,
    events_total: u64,
    trace: u64,
}

impl Engine {
    /// An engine without ports, at time zero.
    pub fn new(tcp: TcpSettings, sizes: PacketSizes) -> Engine {
        Engine {
            tcp,
            sizes,
            now_ns: 0,
            events: BinaryHeap::new(),
            inserted: 0,
            ports: Vec::new(),
            port_due_ns: Vec::new(),
            repeated_bytes: Vec::new(),
            connections: Vec::new(),
            open: 0,
            notes: VecDeque::new(),
            events_total: 0,
            trace: 0,
        }
    }

    /// Adds a port.
    pub fn add_port(&mut self, settings: PortSettings) -> PortIndex {
        self.ports.push(Port::new(settings));
        self.port_due_ns.push(None);
        self.repeated_bytes.push(None);
        PortIndex((self.ports.len() - 1) as u32)
    }

    /// Counts from here on what watched connections send through a port again. No path may have two such ports.
    pub fn count_repeated(&mut self, port: PortIndex) {
        self.repeated_bytes[port.0 as usize] = Some(0);
    }

    /// Opens a connection, whose segments take the ports of `forward` and whose acknowledgements those of `back`, and gives it
    /// `segments` to send. There is no handshake: the first segments leave at once.
    ///
    /// # Panics
    /// If a path is empty, or longer than [`HOPS_MAX`].
    pub fn open(&mut self, forward: &[PortIndex], back: &[PortIndex], segments: u32) -> ConnectionIndex {
        let mut sender = Sender::new(self.tcp);
        sender.supply(segments);
        self.connections.push(Connection {
            sender,
            receiver: Receiver::new(self.tcp),
            forward: path(forward),
            back: path(back),
            former: Vec::new(),
            route: 0,
            sender_timer_ns: None,
            receiver_timer_ns: None,
            done_at_ns: None,
            given: VecDeque::new(),
            given_from: 0,
            watched: false,
            local: 0,
            local_max: u32::MAX,
            closed: false,
        });
        let index = (self.connections.len() - 1) as u32;
        self.open += 1;
        self.advance(index);
        ConnectionIndex(index)
    }

    /// Opens a connection that is given its segments by and by, with [`Engine::supply`]; its [`Note`]s are told. At most
    /// `local_segments` of it wait in its first port, which then must have no delay.
    pub fn open_watched(
        &mut self,
        forward: &[PortIndex],
        back: &[PortIndex],
        local_segments: Option<u32>,
    ) -> ConnectionIndex {
        let connection = self.open(forward, back, 0);
        let state = &mut self.connections[connection.0 as usize];
        state.watched = true;
        state.local_max = local_segments.unwrap_or(u32::MAX);
        connection
    }

    /// Gives a watched connection segments of these sizes, in bytes on the line.
    pub fn supply(&mut self, connection: ConnectionIndex, sizes: impl IntoIterator<Item = u32>) {
        let state = &mut self.connections[connection.0 as usize];
        let before = state.given.len();
        state.given.extend(sizes.into_iter().map(|bytes| Given { bytes, crossed: false }));
        let segments = (state.given.len() - before) as u32;
        state.sender.supply(segments);
        self.advance(connection.0);
    }

    /// Whether a watched connection has room for more.
    pub fn has_room(&self, connection: ConnectionIndex) -> bool {
        self.connections[connection.0 as usize].sender.unsent() < UNSENT_SEGMENTS
    }

    /// Ends a connection: its packets vanish where they arrive, its timers are void.
    pub fn close(&mut self, connection: ConnectionIndex) {
        self.connections[connection.0 as usize].closed = true;
    }

    /// Changes the rate of a port, in bytes per second; none for no limit, zero to cut it.
    pub fn set_rate(&mut self, port: PortIndex, rate_bytes_per_s: Option<u64>) {
        for packet in self.ports[port.0 as usize].set_rate(self.now_ns, rate_bytes_per_s) {
            self.leave_first(packet);
        }
        self.plan(port.0);
    }

    /// Changes what the queue of a port holds.
    pub fn set_limit(&mut self, port: PortIndex, limit: Limit) {
        self.ports[port.0 as usize].set_limit(limit);
    }

    /// Changes how many of a connection's segments wait in its first port at most.
    pub fn set_local(&mut self, connection: ConnectionIndex, local_segments: Option<u32>) {
        let state = &mut self.connections[connection.0 as usize];
        let local_max = local_segments.unwrap_or(u32::MAX);
        if local_max != state.local_max {
            state.local_max = local_max;
            self.advance(connection.0);
        }
    }

    /// Leads the packets that a connection sends from here on across other ports; those under way keep theirs.
    ///
    /// # Panics
    /// If a connection is led across other ports more than 255 times: each port of its paths comes into being once.
    pub fn reroute(&mut self, connection: ConnectionIndex, forward: &[PortIndex], back: &[PortIndex]) {
        let state = &mut self.connections[connection.0 as usize];
        let (forward, back) = (path(forward), path(back));
        if (forward, back) == (state.forward, state.back) {
            return;
        }
        state.route = state.route.checked_add(1).expect("a connection is led across other ports at most 255 times");
        state.former.push((state.forward, state.back));
        if forward.ports[0] != state.forward.ports[0] {
            state.local = 0;
        }
        (state.forward, state.back) = (forward, back);
    }

    /// When the next packet arrives somewhere, or a timer runs out; none if there is nothing on its way.
    pub fn next_time_ns(&self) -> Option<u64> {
        self.events.peek().map(|&Reverse((at_ns, ..))| at_ns)
    }

    /// Goes on to a time before which, or at which, nothing is due.
    pub fn set_now(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// Handles what is due next.
    pub fn step(&mut self) {
        if let Some(Reverse((at_ns, _, due))) = self.events.pop() {
            self.now_ns = at_ns;
            self.handle(due);
        }
    }

    /// What a watched connection's owner was not told yet.
    pub fn next_note(&mut self) -> Option<Note> {
        self.notes.pop_front()
    }

    /// The rate of a port, in bytes per second.
    pub fn port_rate_bytes_per_s(&self, port: PortIndex) -> Option<u64> {
        self.ports[port.0 as usize].rate_bytes_per_s()
    }

    /// Goes on until everything is acknowledged, or `until_ns`; whether everything is.
    pub fn run(&mut self, until_ns: u64) -> bool {
        while self.open > 0 {
            let Some(&Reverse((at_ns, _, due))) = self.events.peek() else { break };
            if at_ns > until_ns {
                break;
            }
            self.events.pop();
            self.now_ns = at_ns;
            self.handle(due);
        }
        if self.open > 0 {
            self.now_ns = self.now_ns.max(until_ns);
        }
        self.open == 0
    }

    /// Virtual time, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// When everything that a connection was given was acknowledged.
    pub fn done_at_ns(&self, connection: ConnectionIndex) -> Option<u64> {
        self.connections[connection.0 as usize].done_at_ns
    }

    /// The sending end of a connection.
    pub fn sender(&self, connection: ConnectionIndex) -> &Sender {
        &self.connections[connection.0 as usize].sender
    }

    /// What a port has seen.
    pub fn counters(&self, port: PortIndex) -> PortCounters {
        self.ports[port.0 as usize].counters()
    }

    /// Bytes of data that came out of a port and had come out of it before, if that is counted.
    pub fn repeated_bytes(&self, port: PortIndex) -> u64 {
        self.repeated_bytes[port.0 as usize].unwrap_or(0)
    }

    /// Packets that wait in a port or are leaving it, and their bytes, at a time before which nothing is due any more.
    pub fn queue(&self, port: PortIndex, now_ns: u64) -> (u64, u64) {
        self.ports[port.0 as usize].queue(now_ns)
    }

    /// Packets that wait in a port or are leaving it.
    pub fn waiting(&mut self, port: PortIndex) -> usize {
        self.ports[port.0 as usize].waiting(self.now_ns)
    }

    /// Packets that arrived at the end of a port, and timers that ran out.
    pub fn events_total(&self) -> u64 {
        self.events_total
    }

    /// A number that any difference in what arrived, where and when, changes.
    pub fn trace_hash(&self) -> u64 {
        self.trace
    }
}

/// The loop.
impl Engine {
    fn handle(&mut self, due: Due) {
        match due {
            Due::Port(port) => self.arrive(port),
            Due::SenderTimer(connection) => self.sender_timer(connection),
            Due::ReceiverTimer(connection) => self.receiver_timer(connection),
        }
    }

    /// The next packets of a port are at its other end.
    fn arrive(&mut self, port: u32) {
        if self.port_due_ns[port as usize] != Some(self.now_ns) {
            return;
        }
        self.port_due_ns[port as usize] = None;
        while let Some(packet) = self.ports[port as usize].pop(self.now_ns) {
            self.events_total += 1;
            self.note_crossing(port, packet);
            self.take(packet);
        }
        self.plan(port);
    }

    /// A packet has come out of a port.
    fn note_crossing(&mut self, port: u32, packet: Packet) {
        let Some(repeated) = &mut self.repeated_bytes[port as usize] else { return };
        let Content::Segment(segment) = packet.content else { return };
        let connection = &mut self.connections[packet.connection as usize];
        if connection.cross(segment) {
            *repeated += u64::from(packet.bytes.saturating_sub(self.sizes.ack_bytes));
        }
    }

    /// A packet goes on, or has arrived.
    fn take(&mut self, mut packet: Packet) {
        self.leave_first(packet);
        packet.hop += 1;
        let connection = &mut self.connections[packet.connection as usize];
        if connection.closed {
            return;
        }
        let path = connection.path(packet);
        if packet.hop < path.hops {
            let port = path.ports[usize::from(packet.hop)];
            return self.push(packet, port);
        }
        let (kind, number) = match packet.content {
            Content::Segment(number) => (0, number),
            Content::Ack(Ack { expected, .. }) => (1, expected),
        };
        let what = u64::from(number) << 32 | u64::from(packet.connection) << 1 | kind;
        self.trace = mix2(self.trace, mix2(self.now_ns, what));
        match packet.content {
            Content::Ack(ack) => {
                connection.sender.handle_ack(self.now_ns, ack);
                self.advance(packet.connection);
            }
            Content::Segment(segment) => {
                let before = connection.receiver.received();
                let ack = connection.receiver.handle_segment(self.now_ns, segment);
                let segments = connection.receiver.received();
                if connection.watched && segments > before {
                    self.notes.push_back(Note::Arrived { connection: ConnectionIndex(packet.connection), segments });
                }
                self.acknowledge(packet.connection, ack);
            }
        }
    }

    fn push(&mut self, packet: Packet, port: u32) {
        if self.ports[port as usize].push(self.now_ns, packet.bytes, packet) {
            self.enter_first(packet);
            self.plan(port);
        }
    }

    /// Sees to it that the event queue knows when a port's next packet arrives.
    fn plan(&mut self, port: u32) {
        let next = self.ports[port as usize].next_arrival_ns();
        let due = &mut self.port_due_ns[port as usize];
        if let Some(at_ns) = next.filter(|at_ns| due.is_none_or(|due| *at_ns < due)) {
            *due = Some(at_ns);
            self.insert(at_ns, Due::Port(port));
        }
    }

    /// A packet waits in its first port.
    fn enter_first(&mut self, packet: Packet) {
        if packet.hop == 0 && matches!(packet.content, Content::Segment(_)) {
            self.connections[packet.connection as usize].local += 1;
        }
    }

    /// A packet has left its first port, or was lost in it: there may be place for the next one.
    fn leave_first(&mut self, packet: Packet) {
        if packet.hop > 0 || !matches!(packet.content, Content::Segment(_)) {
            return;
        }
        let connection = &mut self.connections[packet.connection as usize];
        if connection.path(packet).ports[0] != connection.forward.ports[0] {
            return;
        }
        connection.local -= 1;
        if connection.local + 1 == connection.local_max && !connection.closed {
            self.advance(packet.connection);
        }
    }

    fn insert(&mut self, at_ns: u64, due: Due) {
        self.inserted += 1;
        self.events.push(Reverse((at_ns, self.inserted, due)));
    }

    /// Lets out what a sender may send, and sets its timer.
    fn advance(&mut self, index: u32) {
        let now_ns = self.now_ns;
        loop {
            let connection = &mut self.connections[index as usize];
            if connection.local >= connection.local_max {
                connection.sender.note_held();
                break;
            }
            let Some(segment) = connection.sender.poll(now_ns) else { break };
            let bytes = connection.size_of(segment).unwrap_or(self.sizes.data_bytes);
            let packet = connection.packet(index, Content::Segment(segment), bytes);
            let port = connection.forward.ports[0];
            self.push(packet, port);
        }
        let connection = &mut self.connections[index as usize];
        if connection.watched {
            connection.forget_given();
            if connection.sender.unsent() < UNSENT_SEGMENTS {
                self.notes.push_back(Note::Room(ConnectionIndex(index)));
            }
        } else if connection.done_at_ns.is_none() && connection.sender.is_done() {
            connection.done_at_ns = Some(now_ns);
            self.open -= 1;
        }
        self.plan_sender_timer(index);
    }

    /// An entry that is too early finds nothing to do and plans again, so that moving a deadline costs nothing.
    fn plan_sender_timer(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        let Some(at_ns) = connection.sender.deadline_ns() else { return };
        if connection.sender_timer_ns.is_none_or(|due| at_ns < due) {
            connection.sender_timer_ns = Some(at_ns);
            self.insert(at_ns, Due::SenderTimer(index));
        }
    }

    fn sender_timer(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if connection.sender_timer_ns != Some(self.now_ns) {
            return;
        }
        self.events_total += 1;
        connection.sender_timer_ns = None;
        if connection.closed {
            return;
        }
        connection.sender.handle_timeout(self.now_ns);
        self.advance(index);
    }

    fn acknowledge(&mut self, index: u32, ack: Option<Ack>) {
        if let Some(ack) = ack {
            let connection = &self.connections[index as usize];
            let packet = connection.packet(index, Content::Ack(ack), self.sizes.ack_bytes);
            let port = connection.back.ports[0];
            self.push(packet, port);
        }
        let connection = &mut self.connections[index as usize];
        let Some(at_ns) = connection.receiver.deadline_ns() else { return };
        if connection.receiver_timer_ns.is_none_or(|due| at_ns < due) {
            connection.receiver_timer_ns = Some(at_ns);
            self.insert(at_ns, Due::ReceiverTimer(index));
        }
    }

    fn receiver_timer(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if connection.receiver_timer_ns != Some(self.now_ns) {
            return;
        }
        self.events_total += 1;
        connection.receiver_timer_ns = None;
        if connection.closed {
            return;
        }
        let ack = connection.receiver.handle_timeout(self.now_ns);
        self.acknowledge(index, ack);
    }
}

fn path(ports: &[PortIndex]) -> Path {
    assert!((1..=HOPS_MAX).contains(&ports.len()), "a path has 1 to {HOPS_MAX} ports");
    let mut path = Path { ports: [0; HOPS_MAX], hops: ports.len() as u8 };
    for (hop, port) in ports.iter().enumerate() {
        path.ports[hop] = port.0;
    }
    path
}

#[cfg(test)]
mod tests;
