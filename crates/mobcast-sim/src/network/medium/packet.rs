//! The packet model: each flow is a TCP connection of [`crate::packet`], with its segments on the way there and its
//! acknowledgements on the way back. Messages wait in their order until the connection has room; then they are cut into
//! segments, and a message has arrived when its last segment is in order at the receiver.
//!
//! **Approximations.** Connections have no handshake (a dial takes its time elsewhere) and end with one packet, which is not
//! lost when its node is. Applications read at once. A host's own card lets no connection have more than a moment's
//! packets in its queue, as Linux does (`tcp_limit_output_bytes`, "TCP small queues"); it serves packets as they come, where
//! Linux would serve connections in turns. Segments are never merged or split on their way.

use std::collections::{BTreeMap, VecDeque};

use mobcast_proto::Time;
use mobcast_proto::random::mix2;
use mobcast_topology::{Change, Cluster, ClusterIndex, LinkRef, QueueLimit, Topology, WanLink};

use crate::link::{Cancelled, Class, Sent};
use crate::network::base::{Base, Event};
use crate::network::ways::{Part, Ways};
use crate::network::{ConnectionState, NodeIndex, PACKET_HEADER_BYTES, QueueState, WanPackets};
use crate::packet::engine::{ConnectionIndex, Engine, Note, PacketSizes, PortIndex};
use crate::packet::port::{Limit, PortSettings};
use crate::packet::tcp::TcpSettings;

/// Bytes of an IP packet on Ethernet, and those that it carries.
const PACKET_BYTES: u32 = 1_500;
const SEGMENT_BYTES: u32 = PACKET_BYTES - PACKET_HEADER_BYTES;
/// The segment that ends a connection.
const END_BYTES: u32 = 1;
/// What a switch lets wait in front of a card, as in the lab.
const PORT_QUEUE_BYTES: u64 = 512_000;
/// The delay for which the queue of an access link is reckoned, one way, as in the lab.
const ACCESS_DELAY_NS: u64 = 5_000_000;
/// A connection's packets in the queue of its own card: what the card sends in so much time, but a few in any case.
const LOCAL_NS: u64 = 1_000_000;
const LOCAL_SEGMENTS_MIN: u64 = 4;
/// A control message waits behind no more of a payload message.
const CHUNK_SEGMENTS: u32 = 12;

/// What comes to its end with a segment.
#[derive(Clone, Copy, Debug)]
enum Mark {
    Message(Sent),
    End,
}

/// What a flow is here.
#[derive(Debug, Default)]
struct Lane {
    control: VecDeque<Sent>,
    payload: VecDeque<Sent>,
    /// Bytes of the first payload message that the connection has.
    begun: u32,
    /// What the connection has, with the number of segments up to its end.
    given: VecDeque<(u32, Mark)>,
    segments: u32,
    ending: bool,
    ended: bool,
    closed: bool,
}

/// The model.
#[derive(Debug)]
pub(in crate::network) struct Packets {
    engine: Engine,
    ways: Ways<PortIndex>,
    /// For which rate the queue of each access link is reckoned: the largest that is known of.
    access_rates: BTreeMap<LinkRef, u64>,
    /// By flow, which is also the number of its connection.
    lanes: Vec<Lane>,
    /// Of the latest port. Each follows from the one before, so that no two networks have a port in common.
    seed: u64,
    /// Sizes of the segments that are being cut.
    sizes: Vec<u32>,
}

/// Makes ports of parts of the network.
fn ports<'a>(engine: &'a mut Engine, seed: &'a mut u64) -> impl FnMut(Part, Option<u64>) -> Option<PortIndex> + 'a {
    |part, rate| {
        *seed = mix2(*seed, 1);
        let settings = match part {
            Part::NicOut => PortSettings::new(rate, 0),
            Part::NicIn => PortSettings::new(rate, 0).with_limit(Limit::Bytes(PORT_QUEUE_BYTES)),
            Part::Access => PortSettings::new(rate, 0).with_limit(access_queue(rate)),
            Part::Inside(delay_ns) => PortSettings::new(rate, delay_ns).with_limit(Limit::Bytes(PORT_QUEUE_BYTES)),
            Part::Wan(link) => PortSettings {
                loss_per_million: link.loss_per_million,
                seed: *seed,
                ..PortSettings::new(rate, link.one_way_delay_ns).with_limit(Limit::Bytes(link.queue_bytes()))
            },
        };
        let port = engine.add_port(settings);
        if matches!(part, Part::Wan(_)) {
            engine.count_repeated(port);
        }
        Some(port)
    }
}

fn access_queue(rate_bytes_per_s: Option<u64>) -> Limit {
    let link = WanLink { queue: QueueLimit::TwiceBdp, ..WanLink::new(rate_bytes_per_s, ACCESS_DELAY_NS) };
    Limit::Bytes(link.queue_bytes())
}

/// Commands.
impl Packets {
    pub fn new(topology: &Topology, tcp: TcpSettings, mut seed: u64) -> Packets {
        let sizes = PacketSizes { data_bytes: PACKET_BYTES, ack_bytes: PACKET_HEADER_BYTES };
        let mut engine = Engine::new(tcp, sizes);
        let ways = Ways::new(topology, ports(&mut engine, &mut seed));
        let access = topology.indices().flat_map(|c| [LinkRef::AccessOut(c), LinkRef::AccessIn(c)]);
        let access_rates = access.filter_map(|link| Some((link, topology.rate_bytes_per_s(link)?))).collect();
        Packets { engine, ways, access_rates, lanes: Vec::new(), seed, sizes: Vec::new() }
    }

    pub fn expect(&mut self, changes: &[Change]) {
        for change in changes {
            self.reckon_queue(change.link, change.rate_bytes_per_s);
        }
    }

    fn reckon_queue(&mut self, link: LinkRef, rate_bytes_per_s: Option<u64>) {
        let (LinkRef::AccessOut(_) | LinkRef::AccessIn(_), Some(rate)) = (link, rate_bytes_per_s) else { return };
        let most = self.access_rates.entry(link).or_default();
        if rate <= *most {
            return;
        }
        *most = rate;
        if let Some(port) = *self.ways.shared(link) {
            self.engine.set_limit(port, access_queue(Some(rate)));
        }
    }

    pub fn add_node(&mut self, index: ClusterIndex, cluster: &Cluster) {
        self.ways.add_node(index, cluster, ports(&mut self.engine, &mut self.seed));
    }

    pub fn open<T>(&mut self, base: &Base<T>, flow: u32) {
        let (from, to) = (base.flows[flow as usize].from, base.flows[flow as usize].to);
        let (forward, back) = (self.ways.path(from, to), self.ways.path(to, from));
        let local = self.local_segments(from, to);
        self.engine.set_now(base.now.0);
        let connection = self.engine.open_watched(&forward, &back, local);
        debug_assert_eq!(connection, ConnectionIndex(flow));
        self.lanes.push(Lane::default());
    }

    /// A connection's segments that may wait in its sender's own card; none if that has no limit.
    fn local_segments(&self, from: NodeIndex, to: NodeIndex) -> Option<u32> {
        let card = *self.ways.path(from, to).first().filter(|_| self.ways.begins_with_card(from, to))?;
        let rate = self.engine.port_rate_bytes_per_s(card)?;
        Some(segments_in_a_moment(rate))
    }

    pub fn send<T>(&mut self, base: &mut Base<T>, flow: u32, sent: Sent) {
        let lane = &mut self.lanes[flow as usize];
        match sent.class {
            Class::Control => lane.control.push_back(sent),
            Class::Payload => lane.payload.push_back(sent),
        }
        self.give(base, flow);
    }

    pub fn cancel<T>(&mut self, _base: &mut Base<T>, flow: u32, tag: u64) -> Cancelled {
        let lane = &mut self.lanes[flow as usize];
        let waiting = |message: &(usize, &Sent)| message.1.tag == tag && (message.0 > 0 || lane.begun == 0);
        if let Some((place, _)) = lane.payload.iter().enumerate().find(waiting) {
            lane.payload.remove(place);
            return Cancelled::Removed;
        }
        let under_way = |(_, mark): &(u32, Mark)| matches!(mark, Mark::Message(sent) if sent.tag == tag && sent.class == Class::Payload);
        let begun = lane.begun > 0 && lane.payload.front().is_some_and(|sent| sent.tag == tag);
        if begun || lane.given.iter().any(under_way) { Cancelled::Begun } else { Cancelled::Absent }
    }

    pub fn finish<T>(&mut self, base: &mut Base<T>, flow: u32) {
        let lane = &mut self.lanes[flow as usize];
        lane.payload.truncate(usize::from(lane.begun > 0));
        lane.ending = true;
        self.give(base, flow);
    }

    pub fn abort<T>(&mut self, base: &mut Base<T>, flow: u32) {
        let lane = &mut self.lanes[flow as usize];
        lane.control.clear();
        lane.payload.clear();
        lane.begun = 0;
        lane.ending = true;
        self.give(base, flow);
    }

    pub fn silence(&mut self, flow: u32) {
        self.lanes[flow as usize] = Lane { closed: true, ..Lane::default() };
        self.engine.close(ConnectionIndex(flow));
    }

    pub fn set_rate<T>(&mut self, base: &Base<T>, link: LinkRef, rate_bytes_per_s: Option<u64>) {
        self.engine.set_now(base.now.0);
        self.reckon_queue(link, rate_bytes_per_s);
        match (*self.ways.shared(link), rate_bytes_per_s) {
            (Some(port), rate) => self.engine.set_rate(port, rate),
            (None, None) => {}
            // Links and the insides of clusters have ports in any case.
            (None, Some(_)) => {
                let limit = access_queue(self.access_rates.get(&link).copied());
                let settings = PortSettings::new(None, 0).with_limit(limit);
                let port = self.engine.add_port(settings);
                self.engine.set_rate(port, rate_bytes_per_s);
                *self.ways.shared(link) = Some(port);
                self.reroute_all(base);
            }
        }
    }

    pub fn set_nic<T>(&mut self, base: &Base<T>, node: NodeIndex, out: Option<u64>, into: Option<u64>) {
        self.engine.set_now(base.now.0);
        let card = self.ways.card(node);
        let limits = [Limit::None, Limit::Bytes(PORT_QUEUE_BYTES)];
        for ((direction, rate), limit) in [(&mut card.way_out, out), (&mut card.way_in, into)].into_iter().zip(limits) {
            let engine = &mut self.engine;
            let port = *direction.get_or_insert_with(|| engine.add_port(PortSettings::new(None, 0).with_limit(limit)));
            engine.set_rate(port, rate);
        }
        self.reroute_all(base);
    }

    fn reroute_all<T>(&mut self, base: &Base<T>) {
        for (flow, from, to) in base.living() {
            let (forward, back) = (self.ways.path(from, to), self.ways.path(to, from));
            let local = self.local_segments(from, to);
            self.engine.reroute(ConnectionIndex(flow.0), &forward, &back);
            self.engine.set_local(ConnectionIndex(flow.0), local);
        }
    }
}

/// Looking.
impl Packets {
    pub fn payload_bytes(&self, flow: u32) -> u64 {
        let lane = &self.lanes[flow as usize];
        lane.payload.iter().map(|sent| u64::from(sent.bytes)).sum()
    }

    pub fn payload_messages(&self, flow: u32) -> usize {
        self.lanes[flow as usize].payload.len()
    }

    pub fn events_total(&self) -> u64 {
        self.engine.events_total()
    }

    /// Connections that are not closed.
    pub fn connections<T>(&self, base: &Base<T>) -> impl Iterator<Item = ConnectionState> {
        base.living().map(|(flow, from, to)| {
            let sender = self.engine.sender(ConnectionIndex(flow.0));
            let (window_segments, counters) = (sender.window(), sender.counters());
            ConnectionState { flow, from, to, window_segments, counters }
        })
    }

    /// All queues.
    pub fn queues<T>(&self, base: &Base<T>) -> impl Iterator<Item = QueueState> {
        let now_ns = base.now.0;
        self.ways.parts().map(move |(place, port)| {
            let (waiting, counters) = (self.engine.queue(port, now_ns), self.engine.counters(port));
            QueueState { place, waiting, counters }
        })
    }

    /// What the link between two clusters has carried: not what still waits for it.
    pub fn wan<T>(&mut self, base: &Base<T>, from: ClusterIndex, to: ClusterIndex) -> Option<WanPackets> {
        let port = (*self.ways.shared(LinkRef::Wan { from, to }))?;
        let (counters, waiting) = (self.engine.counters(port), self.engine.queue(port, base.now.0));
        Some(WanPackets {
            packets: counters.packets - waiting.0,
            bytes: counters.bytes - waiting.1,
            repeated_bytes: self.engine.repeated_bytes(port),
            lost_in_queue: counters.dropped,
            lost_by_chance: counters.lost,
        })
    }
}

/// Events.
impl Packets {
    /// When something happens to a packet next.
    pub fn next_time_ns(&self) -> Option<u64> {
        self.engine.next_time_ns()
    }

    /// Lets the next thing happen to packets.
    pub fn step<T>(&mut self, base: &mut Base<T>) {
        self.engine.step();
        base.now = Time(self.engine.now_ns());
        while let Some(note) = self.engine.next_note() {
            match note {
                Note::Room(connection) => self.give(base, connection.0),
                Note::Arrived { connection, segments } => self.arrived(base, connection.0, segments),
            }
        }
    }

    fn arrived<T>(&mut self, base: &mut Base<T>, flow: u32, segments: u32) {
        let given = &mut self.lanes[flow as usize].given;
        while let Some(&(_, mark)) = given.front().filter(|(until, _)| *until <= segments) {
            given.pop_front();
            let event = match mark {
                Mark::Message(sent) => Event::Arrives(flow, sent),
                Mark::End => Event::Closes(flow),
            };
            base.events.push(base.now, event);
        }
    }

    /// Gives a connection what waits, as long as it has room: control first, payload in chunks.
    fn give<T>(&mut self, base: &mut Base<T>, flow: u32) {
        let Packets { engine, lanes, sizes, .. } = self;
        let lane = &mut lanes[flow as usize];
        let connection = ConnectionIndex(flow);
        engine.set_now(base.now.0);
        while !lane.closed && lane.has_something() && engine.has_room(connection) {
            lane.cut(base, flow, sizes);
            engine.supply(connection, sizes.drain(..));
        }
    }
}

impl Lane {
    fn has_something(&self) -> bool {
        !self.control.is_empty() || !self.payload.is_empty() || (self.ending && !self.ended)
    }

    /// Cuts all control messages and a chunk of payload into segments.
    fn cut<T>(&mut self, base: &mut Base<T>, flow: u32, sizes: &mut Vec<u32>) {
        let before = self.segments;
        let mut bytes = 0;
        while let Some(sent) = self.control.pop_front() {
            // A control message comes with the headers of a packet of its own.
            bytes += sent.bytes.saturating_sub(PACKET_HEADER_BYTES).max(1);
            self.given.push_back((before + bytes.div_ceil(SEGMENT_BYTES), Mark::Message(sent)));
            base.count_out(flow, sent);
        }
        // All segments are full but the last one of what waits.
        let mut chunk = CHUNK_SEGMENTS * SEGMENT_BYTES - bytes % SEGMENT_BYTES;
        while let Some(sent) = self.payload.front().copied().filter(|_| chunk > 0) {
            let part = (sent.bytes - self.begun).min(chunk);
            chunk -= part;
            bytes += part;
            self.begun += part;
            if self.begun == sent.bytes {
                self.begun = 0;
                self.payload.pop_front();
                self.given.push_back((before + bytes.div_ceil(SEGMENT_BYTES), Mark::Message(sent)));
                base.count_out(flow, sent);
                if self.payload.is_empty() {
                    base.report_drained(flow);
                }
            }
        }
        if self.ending && !self.ended && self.payload.is_empty() {
            self.ended = true;
            bytes += END_BYTES;
            self.given.push_back((before + bytes.div_ceil(SEGMENT_BYTES), Mark::End));
        }
        let segments = bytes.div_ceil(SEGMENT_BYTES);
        self.segments += segments;
        let full = (0..segments).map(|i| (bytes - i * SEGMENT_BYTES).min(SEGMENT_BYTES) + PACKET_HEADER_BYTES);
        sizes.extend(full);
    }
}

/// Packets that a card sends in a moment: so many may wait in it, and a few in any case.
fn segments_in_a_moment(rate_bytes_per_s: u64) -> u32 {
    let bytes = u128::from(rate_bytes_per_s) * u128::from(LOCAL_NS) / 1_000_000_000;
    let segments = bytes / u128::from(PACKET_BYTES);
    u32::try_from(segments.max(u128::from(LOCAL_SEGMENTS_MIN))).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_card_that_a_file_may_have_has_a_queue_of_its_moment() {
        let megabyte = 1_000_000;
        assert_eq!(segments_in_a_moment(megabyte), 4);
        assert_eq!(segments_in_a_moment(125 * megabyte), 83);
        assert_eq!(segments_in_a_moment(1_000_000_000 * megabyte), 666_666_666);
    }
}
