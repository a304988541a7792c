//! All WAN links of a topology: takes packets that leave a cluster, loses and delays them as the links do, and says when
//! which packet enters which cluster. Sans-IO: time is an argument, chance comes from a seed.
//!
//! A packet passes its cluster's access link, the link of the pair of clusters, and the other cluster's access link, as
//! far as these have limits: each is a queue of its own. It is lost by chance before all of them, and delayed behind
//! them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use mobcast_topology::{Change, ClusterIndex, LinkRef, QueueLimit, Topology, WanLink};
use serde::{Deserialize, Serialize};

use super::packet::{Packet, Segment};
use super::pipe::Pipe;
use super::streams::Streams;

/// What a segment may take of a link's time, so that it does not show as a burst.
const SEGMENT_NS_MAX: u64 = 1_100_000;
/// Packets in a segment at most: 64 KiB.
const SEGMENT_PACKETS_MAX: usize = 44;
/// Bytes of a packet on the wire.
const PACKET_BYTES: u64 = 1_500;

/// A segment on its way.
#[derive(Clone, Debug)]
pub struct Travelling {
    /// What travels.
    pub segment: Segment,
    /// Its pair of clusters.
    pair: usize,
    /// How many queues are behind it.
    stage: usize,
}

/// A segment that enters a cluster.
#[derive(Debug)]
pub struct Delivery {
    /// The cluster that it enters.
    pub to: ClusterIndex,
    /// When it does, in nanoseconds.
    pub due_ns: u64,
    /// What it is.
    pub segment: Segment,
}

/// What one direction of a WAN link has carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counters {
    /// IP bytes that left its queue.
    pub bytes: u64,
    /// Packets that did.
    pub packets: u64,
    /// Bytes of data in them, those of TCP streams once.
    pub unique_bytes: u64,
    /// Bytes of TCP data that had left it before.
    pub repeated_bytes: u64,
    /// Packets for which there was no room in a queue.
    pub lost_in_queue: u64,
    /// Packets lost by chance.
    pub lost_by_chance: u64,
}

#[derive(Debug)]
struct Pair {
    from: ClusterIndex,
    to: ClusterIndex,
    link: WanLink,
    /// Indices of the pipes that its packets pass.
    stages: Vec<usize>,
    /// Which of these is the link itself.
    counted_at: usize,
    /// Behind the queues, in order.
    flying: VecDeque<(u64, Segment)>,
    chance: u64,
    counters: Counters,
    streams: Streams,
}

/// Something that is due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// The head of a pipe is through, if its generation is still this one.
    Pipe(usize, u32),
    /// The first of those that fly in a pair lands.
    Landing(usize),
}

/// The links of a topology.
#[derive(Debug)]
pub struct Switch {
    pairs: Vec<Pair>,
    /// By sender and receiver.
    index: Vec<Vec<Option<usize>>>,
    pipes: Vec<Pipe>,
    links: Vec<LinkRef>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
}

impl Switch {
    /// The links as the topology has them, with nothing on them, and those that `changes` will limit.
    pub fn new(topology: &Topology, changes: &[Change], seed: u64) -> Switch {
        let clusters = topology.clusters().len();
        let mut switch = Switch {
            pairs: Vec::new(),
            index: vec![vec![None; clusters]; clusters],
            pipes: Vec::new(),
            links: Vec::new(),
            events: BinaryHeap::new(),
            order: 0,
        };
        // Whoever gets a limit only later has a queue from the beginning, for the largest one.
        let access = |link: LinkRef| {
            let later =
                changes.iter().filter(|change| change.link == link).filter_map(|change| change.rate_bytes_per_s).max();
            let rate = topology.rate_bytes_per_s(link);
            rate.or(later).map(|of_queue| (link, rate, of_queue.max(1)))
        };
        let ways_out: Vec<_> = topology.indices().map(|c| access(LinkRef::AccessOut(c))).collect();
        let ways_in: Vec<_> = topology.indices().map(|c| access(LinkRef::AccessIn(c))).collect();
        let pipe_of = |switch: &mut Switch, way: Option<(LinkRef, Option<u64>, u64)>| {
            let (link, rate, of_queue) = way?;
            let limit =
                WanLink { queue: QueueLimit::TwiceBdp, ..WanLink::new(of_queue, ACCESS_DELAY_NS) }.queue_bytes();
            Some(switch.add_pipe(link, rate, limit))
        };
        let ways_out: Vec<_> = ways_out.into_iter().map(|way| pipe_of(&mut switch, way)).collect();
        let ways_in: Vec<_> = ways_in.into_iter().map(|way| pipe_of(&mut switch, way)).collect();
        for (from, to, link) in topology.wan_links() {
            let own = switch.add_pipe(LinkRef::Wan { from, to }, link.rate_bytes_per_s, link.queue_bytes());
            let stages: Vec<usize> =
                ways_out[from.as_usize()].into_iter().chain([own]).chain(ways_in[to.as_usize()]).collect();
            let counted_at = stages.iter().position(|stage| *stage == own).expect("its own is among them");
            let chance = mix(seed ^ mix(u64::from(from.0) << 32 | u64::from(to.0)));
            switch.index[from.as_usize()][to.as_usize()] = Some(switch.pairs.len());
            switch.pairs.push(Pair {
                from,
                to,
                link,
                stages,
                counted_at,
                flying: VecDeque::new(),
                chance,
                counters: Counters::default(),
                streams: Streams::default(),
            });
        }
        switch
    }

    fn add_pipe(&mut self, link: LinkRef, rate_bytes_per_s: Option<u64>, limit_bytes: u64) -> usize {
        self.pipes.push(Pipe::new(rate_bytes_per_s, limit_bytes));
        self.links.push(link);
        self.pipes.len() - 1
    }

    /// A packet leaves cluster `from` for cluster `to`. It is lost where there is no such link.
    pub fn arrive(&mut self, now_ns: u64, from: ClusterIndex, to: ClusterIndex, packet: &Packet) {
        let row = self.index.get(from.as_usize());
        let Some(pair) = row.and_then(|row| *row.get(to.as_usize())?) else { return };
        let together = self.packets_together(pair);
        let count = packet.count();
        let mut start = 0;
        while start < count {
            if self.is_lost(pair) {
                start += 1;
                continue;
            }
            let mut end = start + 1;
            let mut lost = false;
            while end < count && end - start < together && !lost {
                lost = self.is_lost(pair);
                end += usize::from(!lost);
            }
            let segment = packet.segment(start..end);
            self.enter(now_ns, Travelling { segment, pair, stage: 0 });
            start = end + usize::from(lost);
        }
    }

    /// How many packets may travel as one without being seen as a burst on the slowest link of the way.
    fn packets_together(&self, pair: usize) -> usize {
        let rates = self.pairs[pair].stages.iter().filter_map(|stage| self.pipes[*stage].rate_bytes_per_s());
        let Some(slowest) = rates.min() else { return SEGMENT_PACKETS_MAX };
        let bytes = u128::from(slowest) * u128::from(SEGMENT_NS_MAX) / 1_000_000_000;
        usize::try_from(bytes / u128::from(PACKET_BYTES)).unwrap_or(usize::MAX).clamp(1, SEGMENT_PACKETS_MAX)
    }

    fn is_lost(&mut self, pair: usize) -> bool {
        let pair = &mut self.pairs[pair];
        if pair.link.loss_per_million == 0 {
            return false;
        }
        pair.chance = pair.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let lost = mix(pair.chance) % 1_000_000 < u64::from(pair.link.loss_per_million);
        pair.counters.lost_by_chance += u64::from(lost);
        lost
    }

    fn enter(&mut self, now_ns: u64, travelling: Travelling) {
        let pair = travelling.pair;
        let Some(&pipe) = self.pairs[pair].stages.get(travelling.stage) else {
            return self.fly(now_ns, pair, travelling.segment);
        };
        let generation = self.pipes[pipe].generation;
        if let Err(lost) = self.pipes[pipe].offer(now_ns, travelling) {
            self.pairs[pair].counters.lost_in_queue += lost.segment.packets();
        } else if self.pipes[pipe].generation != generation {
            self.schedule_pipe(pipe);
        }
    }

    fn fly(&mut self, now_ns: u64, pair: usize, segment: Segment) {
        let due_ns = now_ns + self.pairs[pair].link.one_way_delay_ns;
        let flying = &mut self.pairs[pair].flying;
        flying.push_back((due_ns, segment));
        if flying.len() == 1 {
            self.schedule(due_ns, Event::Landing(pair));
        }
    }

    fn schedule_pipe(&mut self, pipe: usize) {
        let at = self.pipes[pipe].ready_at_ns();
        if let Some(at) = at {
            self.schedule(at, Event::Pipe(pipe, self.pipes[pipe].generation));
        }
    }

    fn schedule(&mut self, at_ns: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at_ns, self.order, event)));
    }

    /// When something is due next.
    pub fn next_ns(&self) -> Option<u64> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    /// Lets everything happen that is due by `now_ns`, each at its own time, and hands over what enters a cluster.
    pub fn advance(&mut self, now_ns: u64, mut deliver: impl FnMut(Delivery)) {
        while let Some(&Reverse((at, _, event))) = self.events.peek().filter(|Reverse((at, ..))| *at <= now_ns) {
            self.events.pop();
            match event {
                Event::Pipe(pipe, generation) => self.pipe_ready(at, pipe, generation),
                Event::Landing(pair) => self.land(at, pair, &mut deliver),
            }
        }
    }

    fn pipe_ready(&mut self, at_ns: u64, pipe: usize, generation: u32) {
        if self.pipes[pipe].generation != generation {
            return;
        }
        let Some(mut travelling) = self.pipes[pipe].take(at_ns) else { return };
        self.schedule_pipe(pipe);
        let pair = &mut self.pairs[travelling.pair];
        if travelling.stage == pair.counted_at {
            pair.count(&travelling.segment);
        }
        travelling.stage += 1;
        self.enter(at_ns, travelling);
    }

    fn land(&mut self, at_ns: u64, pair: usize, deliver: &mut impl FnMut(Delivery)) {
        let Pair { to, flying, .. } = &mut self.pairs[pair];
        if let Some((due_ns, segment)) = flying.pop_front() {
            deliver(Delivery { to: *to, due_ns, segment });
        }
        let next = flying.front().map(|(due, _)| *due);
        if let Some(due) = next {
            self.schedule(due.max(at_ns), Event::Landing(pair));
        }
    }

    /// Another rate for a link, from `now_ns` on. False if the topology gave that link no queue.
    pub fn set_rate(&mut self, now_ns: u64, link: LinkRef, rate_bytes_per_s: Option<u64>) -> bool {
        let Some(pipe) = self.links.iter().position(|other| *other == link) else { return false };
        self.pipes[pipe].set_rate(now_ns, rate_bytes_per_s);
        self.schedule_pipe(pipe);
        true
    }

    /// What each link has carried, by sender, then receiver.
    pub fn counters(&self) -> impl Iterator<Item = (ClusterIndex, ClusterIndex, Counters)> + '_ {
        self.pairs.iter().map(|pair| (pair.from, pair.to, pair.counters))
    }
}

/// The delay for which the queue of an access link is reckoned, one way: 5 ms.
const ACCESS_DELAY_NS: u64 = 5_000_000;

impl Pair {
    fn count(&mut self, segment: &Segment) {
        self.counters.bytes += segment.wire_bytes();
        self.counters.packets += segment.packets();
        self.counters.unique_bytes += segment.datagram_bytes();
        if let Some((key, sequence, bytes)) = segment.stream() {
            let first = self.streams.pass(key, sequence, bytes);
            self.counters.unique_bytes += first;
            self.counters.repeated_bytes += u64::from(bytes) - first;
        }
    }
}

/// The output function of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::super::packet::tests::tcp;
    use super::*;
    use mobcast_topology::Cluster;

    const A: ClusterIndex = ClusterIndex(0);
    const B: ClusterIndex = ClusterIndex(1);
    const MS: u64 = 1_000_000;
    /// IP bytes of a full packet of these tests.
    const FULL: u64 = 1_500;

    fn two(link: WanLink) -> Topology {
        let mut topology = Topology::new();
        topology.add_cluster(Cluster::new("a", 1)).unwrap();
        topology.add_cluster(Cluster::new("b", 1)).unwrap();
        topology.link_both(A, B, link).unwrap();
        topology
    }

    /// A large packet of so many full ones, `number` of its stream.
    fn large(number: u32, packets: usize) -> Packet {
        let payload = packets * 1_448;
        Packet::parse(&tcp(0, 1, number * payload as u32, payload, 1_448)).unwrap()
    }

    /// Everything that lands by `until_ns`: when, and how many packets.
    fn landed(switch: &mut Switch, until_ns: u64) -> Vec<(u64, u64)> {
        let mut landed = Vec::new();
        switch.advance(until_ns, |d| landed.push((d.due_ns, d.segment.packets())));
        landed
    }

    #[test]
    fn a_link_takes_its_time_and_then_its_delay() {
        // 1.5 MB/s: a packet takes a millisecond.
        let mut switch = Switch::new(&two(WanLink::new(1_500_000, 10 * MS)), &[], 1);
        switch.arrive(5 * MS, A, B, &large(0, 3));
        assert_eq!(switch.next_ns(), Some(6 * MS));
        assert_eq!(landed(&mut switch, 100 * MS), [(16 * MS, 1), (17 * MS, 1), (18 * MS, 1)]);
        let (_, _, counters) = switch.counters().next().unwrap();
        assert_eq!((counters.bytes, counters.packets, counters.unique_bytes), (3 * FULL, 3, 3 * 1_448));
    }

    #[test]
    fn fast_links_carry_large_segments() {
        let mut switch = Switch::new(&two(WanLink::new(150_000_000, MS)), &[], 1);
        switch.arrive(0, A, B, &large(0, 44));
        assert_eq!(landed(&mut switch, 10 * MS), [(MS + 440_000, 44)]);
        let mut unlimited = Switch::new(&two(WanLink::new(None, MS)), &[], 1);
        unlimited.arrive(0, A, B, &large(0, 44));
        assert_eq!(landed(&mut unlimited, 10 * MS), [(MS, 44)]);
    }

    #[test]
    fn a_full_queue_loses_what_comes_on_top() {
        let link = WanLink { queue: QueueLimit::Bytes(10 * FULL), ..WanLink::new(1_500_000, 0) };
        let mut switch = Switch::new(&two(link), &[], 1);
        switch.arrive(0, A, B, &large(0, 25));
        assert_eq!(landed(&mut switch, 1_000 * MS).len(), 10);
        let (_, _, counters) = switch.counters().next().unwrap();
        assert_eq!((counters.lost_in_queue, counters.packets), (15, 10));
        switch.arrive(1_000 * MS, A, B, &large(0, 5));
        landed(&mut switch, 2_000 * MS);
        let (_, _, counters) = switch.counters().next().unwrap();
        assert_eq!((counters.unique_bytes, counters.repeated_bytes), (10 * 1_448, 5 * 1_448));
    }

    #[test]
    fn a_change_of_rate_reaches_the_packet_under_way() {
        let mut switch = Switch::new(&two(WanLink::new(1_500_000, 0)), &[], 1);
        switch.arrive(0, A, B, &large(0, 4));
        assert_eq!(landed(&mut switch, 1_500_000), [(MS, 1)]);
        assert!(switch.set_rate(1_500_000, LinkRef::Wan { from: A, to: B }, Some(0)), "half of the second is through");
        assert_eq!((landed(&mut switch, 50 * MS), switch.next_ns()), (vec![], None));
        switch.set_rate(50 * MS, LinkRef::Wan { from: A, to: B }, Some(750_000));
        assert_eq!(landed(&mut switch, 100 * MS), [(51 * MS, 1), (53 * MS, 1), (55 * MS, 1)]);
        assert!(!switch.set_rate(0, LinkRef::AccessOut(A), Some(1)), "there is no such queue");
    }

    #[test]
    fn access_links_are_shared_by_pairs() {
        let mut topology = two(WanLink::new(None, MS));
        let c = topology.add_cluster(Cluster::new("c", 1)).unwrap();
        topology.link_both(A, c, WanLink::new(None, MS)).unwrap();
        topology.cluster_mut(A).unwrap().access_out_bytes_per_s = Some(1_500_000);
        let mut switch = Switch::new(&topology, &[], 1);
        switch.arrive(0, A, B, &large(0, 2));
        switch.arrive(0, A, c, &large(0, 2));
        assert_eq!(landed(&mut switch, 100 * MS).last(), Some(&(5 * MS, 1)), "four packets, one after the other");
    }

    #[test]
    fn chance_follows_the_seed_and_the_set_value() {
        let lossy = WanLink { loss_per_million: 20_000, ..WanLink::new(150_000_000, 0) };
        let run = |seed| {
            let mut switch = Switch::new(&two(lossy), &[], seed);
            for number in 0..2_500 {
                switch.arrive(u64::from(number) * 10 * MS, A, B, &large(number, 40));
                landed(&mut switch, u64::from(number) * 10 * MS + 9 * MS);
            }
            switch.counters().next().unwrap().2
        };
        let counters = run(7);
        assert!((1_800..2_200).contains(&counters.lost_by_chance), "2 % of 100,000: {}", counters.lost_by_chance);
        assert_eq!(counters.packets + counters.lost_by_chance, 100_000);
        assert_eq!(counters.unique_bytes, counters.packets * 1_448);
        assert_eq!((run(7), run(7) == run(8)), (counters, false));
    }

    #[test]
    fn an_access_link_that_is_limited_only_later_has_a_queue_from_the_beginning() {
        let topology = two(WanLink::new(None, MS));
        let link = LinkRef::AccessOut(ClusterIndex(0));
        let change = Change { at_ns: 5 * MS, link, rate_bytes_per_s: Some(1_000_000) };
        assert!(Switch::new(&topology, &[change], 1).set_rate(5 * MS, link, change.rate_bytes_per_s));
        assert!(!Switch::new(&topology, &[], 1).set_rate(5 * MS, link, change.rate_bytes_per_s), "nobody has named it");
    }
}
