//! A line with a drop-tail queue before it: packets leave in the order in which they came, one after the other at the
//! line's rate, and arrive one delay later. Promises exact integer times; knows nothing of what a packet is.

use std::collections::VecDeque;

use mobcast_proto::random::mix2;

/// What a queue holds at most, besides the packet that is leaving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Packets of any size, as in ns-2.
    Packets(u32),
    /// Bytes, as in a switch.
    Bytes(u64),
    /// Whatever comes.
    None,
}

/// What a port is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortSettings {
    /// Bytes per second; none for a line that takes no time, zero for one that is cut.
    pub rate_bytes_per_s: Option<u64>,
    /// Nanoseconds that a packet is on its way after it has left.
    pub delay_ns: u64,
    /// What the queue holds.
    pub limit: Limit,
    /// Packets that are lost by chance, of a million.
    pub loss_per_million: u32,
    /// From which it follows which ones.
    pub seed: u64,
}

impl PortSettings {
    /// A line of this rate and delay whose queue is never full, and which loses nothing.
    pub fn new(rate_bytes_per_s: Option<u64>, delay_ns: u64) -> PortSettings {
        PortSettings { rate_bytes_per_s, delay_ns, limit: Limit::None, loss_per_million: 0, seed: 0 }
    }

    /// The same line with a queue.
    pub fn with_limit(self, limit: Limit) -> PortSettings {
        PortSettings { limit, ..self }
    }
}

/// What a port has seen.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PortCounters {
    /// Packets that were taken, but for those that a cut of the line took away.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that found the queue full.
    pub dropped: u64,
    /// Packets that were lost by chance, or because the line was cut.
    pub lost: u64,
    /// Bytes of the packets that were dropped or lost.
    pub gone_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry<P> {
    leaves_at_ns: u64,
    bytes: u32,
    packet: P,
}

/// A port whose packets are `P`.
#[derive(Debug)]
pub struct Port<P> {
    settings: PortSettings,
    /// Packets in the queue, leaving, and on their way.
    packets: VecDeque<Entry<P>>,
    /// How many of them have left, by the last look.
    left: usize,
    /// Bytes of those that have not.
    waiting_bytes: u64,
    /// When the line is free.
    free_at_ns: u64,
    cut: bool,
    /// Packets that were handed to it.
    offered: u64,
    counters: PortCounters,
}

impl<P: Copy> Port<P> {
    /// An idle port. With a rate of zero the line is cut, until it is given another one.
    pub fn new(settings: PortSettings) -> Port<P> {
        Port {
            settings: PortSettings { rate_bytes_per_s: settings.rate_bytes_per_s.filter(|rate| *rate > 0), ..settings },
            packets: VecDeque::new(),
            left: 0,
            waiting_bytes: 0,
            free_at_ns: 0,
            cut: settings.rate_bytes_per_s == Some(0),
            offered: 0,
            counters: PortCounters::default(),
        }
    }

    /// Takes a packet, or drops it because the queue is full; whether it was taken.
    pub fn push(&mut self, now_ns: u64, bytes: u32, packet: P) -> bool {
        self.look(now_ns);
        self.offered += 1;
        if self.cut || self.is_unlucky() {
            self.counters.lost += 1;
            self.counters.gone_bytes += u64::from(bytes);
            return false;
        }
        if !self.has_room(bytes) {
            self.counters.dropped += 1;
            self.counters.gone_bytes += u64::from(bytes);
            return false;
        }
        self.counters.packets += 1;
        self.counters.bytes += u64::from(bytes);
        self.waiting_bytes += u64::from(bytes);
        self.free_at_ns = self.free_at_ns.max(now_ns) + self.time_for(bytes);
        self.packets.push_back(Entry { leaves_at_ns: self.free_at_ns, bytes, packet });
        true
    }

    /// When the next packet arrives at the other end.
    pub fn next_arrival_ns(&self) -> Option<u64> {
        self.packets.front().map(|entry| entry.leaves_at_ns + self.settings.delay_ns)
    }

    /// The next packet, if it has arrived.
    pub fn pop(&mut self, now_ns: u64) -> Option<P> {
        if self.next_arrival_ns()? > now_ns {
            return None;
        }
        let entry = self.packets.pop_front()?;
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => self.waiting_bytes -= u64::from(entry.bytes),
        }
        Some(entry.packet)
    }

    /// Changes the rate of the line: what has not left leaves at the new one. A rate of zero cuts it: everything that has not
    /// left is lost (and given back), as is what comes until there is a rate again.
    pub fn set_rate(&mut self, now_ns: u64, rate_bytes_per_s: Option<u64>) -> Vec<P> {
        self.look(now_ns);
        self.cut = rate_bytes_per_s == Some(0);
        if self.cut {
            let gone = (self.packets.len() - self.left) as u64;
            let bytes = std::mem::take(&mut self.waiting_bytes);
            self.counters.packets -= gone;
            self.counters.bytes -= bytes;
            self.counters.lost += gone;
            self.counters.gone_bytes += bytes;
            self.free_at_ns = now_ns;
            return self.packets.drain(self.left..).map(|entry| entry.packet).collect();
        }
        let (before, after) = (self.settings.rate_bytes_per_s, rate_bytes_per_s);
        self.settings.rate_bytes_per_s = rate_bytes_per_s;
        self.free_at_ns = now_ns;
        for i in self.left..self.packets.len() {
            let entry = self.packets[i];
            // What is left of the packet that is leaving takes its time in proportion.
            let time = match (i == self.left, before, after) {
                (true, Some(before), Some(after)) => {
                    let rest = u128::from(entry.leaves_at_ns.saturating_sub(now_ns));
                    (rest * u128::from(before) / u128::from(after)) as u64
                }
                _ => self.time_for(entry.bytes),
            };
            self.free_at_ns += time;
            self.packets[i].leaves_at_ns = self.free_at_ns;
        }
        Vec::new()
    }

    /// Changes what the queue holds; what waits goes on waiting.
    pub fn set_limit(&mut self, limit: Limit) {
        self.settings.limit = limit;
    }

    /// The rate of the line, in bytes per second; of one that is cut, the last one that it had.
    pub fn rate_bytes_per_s(&self) -> Option<u64> {
        self.settings.rate_bytes_per_s
    }

    /// Packets that wait or are leaving.
    pub fn waiting(&mut self, now_ns: u64) -> usize {
        self.look(now_ns);
        self.packets.len() - self.left
    }

    /// Packets that wait or are leaving, and their bytes.
    pub fn queue(&self, now_ns: u64) -> (u64, u64) {
        let waiting = self.packets.range(self.left..).filter(|entry| entry.leaves_at_ns > now_ns);
        waiting.fold((0, 0), |(packets, bytes), entry| (packets + 1, bytes + u64::from(entry.bytes)))
    }

    /// What the port has seen.
    pub fn counters(&self) -> PortCounters {
        self.counters
    }

    fn is_unlucky(&self) -> bool {
        let dice = mix2(self.settings.seed, self.offered) % 1_000_000;
        dice < u64::from(self.settings.loss_per_million)
    }

    fn has_room(&self, bytes: u32) -> bool {
        let waiting = self.packets.len() - self.left;
        match self.settings.limit {
            _ if waiting == 0 => true,
            Limit::None => true,
            Limit::Packets(most) => waiting <= most as usize,
            Limit::Bytes(most) => {
                let leaving = self.packets.get(self.left).map_or(0, |entry| u64::from(entry.bytes));
                self.waiting_bytes - leaving + u64::from(bytes) <= most
            }
        }
    }

    fn time_for(&self, bytes: u32) -> u64 {
        self.settings.rate_bytes_per_s.map_or(0, |rate| (u64::from(bytes) * 1_000_000_000).div_ceil(rate))
    }

    fn look(&mut self, now_ns: u64) {
        while let Some(entry) = self.packets.get(self.left).filter(|entry| entry.leaves_at_ns <= now_ns) {
            self.waiting_bytes -= u64::from(entry.bytes);
            self.left += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A kilobyte takes a millisecond, and 10 ms on its way.
    fn port(limit: Limit) -> Port<u32> {
        Port::new(PortSettings::new(Some(1_000_000), 10 * MS).with_limit(limit))
    }

    fn arrivals(port: &mut Port<u32>) -> Vec<(u32, u64)> {
        std::iter::from_fn(|| port.next_arrival_ns().map(|at| (port.pop(at).expect("it has arrived"), at / MS)))
            .collect()
    }

    #[test]
    fn packets_leave_one_after_the_other() {
        let mut port = port(Limit::None);
        for packet in 0..3 {
            assert!(port.push(0, 1_000, packet));
        }
        assert!(port.push(7 * MS, 1_000, 3));
        assert_eq!(arrivals(&mut port), [(0, 11), (1, 12), (2, 13), (3, 18)]);
    }

    #[test]
    fn the_packet_that_is_leaving_takes_no_place_in_the_queue() {
        let mut port = port(Limit::Packets(2));
        let taken: Vec<bool> = (0..5).map(|packet| port.push(0, 1_000, packet)).collect();
        assert_eq!(taken, [true, true, true, false, false]);
        assert!(!port.push(MS - 1, 1_000, 9));
        assert!(port.push(MS, 1_000, 9), "one has left and is on its way");
        assert_eq!((port.queue(MS), port.waiting(MS)), ((3, 3_000), 3));
        let counters = PortCounters { packets: 4, bytes: 4_000, dropped: 3, lost: 0, gone_bytes: 3_000 };
        assert_eq!(port.counters(), counters);
    }

    #[test]
    fn a_queue_of_bytes_holds_bytes() {
        let mut port = port(Limit::Bytes(1_500));
        assert!(port.push(0, 1_000, 0), "leaves at once");
        assert!(port.push(0, 1_000, 1));
        assert!(!port.push(0, 600, 2));
        assert!(port.push(0, 500, 3));
        assert_eq!(arrivals(&mut port), [(0, 11), (1, 12), (3, 12)]);
        assert!(port.push(99 * MS, 4_000, 4), "an idle line takes any packet");
        assert_eq!(port.waiting_bytes, 4_000);
    }

    #[test]
    fn a_new_rate_counts_for_what_has_not_left() {
        let mut port = port(Limit::None);
        for packet in 0..3 {
            port.push(0, 1_000, packet);
        }
        port.set_rate(3 * MS / 2, Some(500_000));
        assert_eq!(arrivals(&mut port), [(0, 11), (1, 12), (2, 14)], "half a packet in 1 ms, a whole one in 2");
        port.push(100 * MS, 1_000, 3);
        port.set_rate(101 * MS, None);
        assert_eq!(arrivals(&mut port), [(3, 111)], "a line without limit takes no time");
    }

    #[test]
    fn a_cut_line_loses_what_has_not_left() {
        let mut port = port(Limit::None);
        (0..3).for_each(|packet| assert!(port.push(0, 1_000, packet)));
        port.set_rate(3 * MS / 2, Some(0));
        assert!(!port.push(2 * MS, 1_000, 3));
        port.set_rate(5 * MS, Some(1_000_000));
        assert!(port.push(5 * MS, 1_000, 4));
        assert_eq!(arrivals(&mut port), [(0, 11), (4, 16)]);
        let counters = PortCounters { packets: 2, bytes: 2_000, dropped: 0, lost: 3, gone_bytes: 3_000 };
        assert_eq!(port.counters(), counters, "the two that waited are lost, and not taken");
    }

    #[test]
    fn a_line_may_be_cut_from_the_start() {
        let mut port: Port<u32> = Port::new(PortSettings::new(Some(0), 10 * MS));
        assert!(!port.push(0, 1_000, 0));
        port.set_rate(5 * MS, Some(1_000_000));
        assert!(port.push(5 * MS, 1_000, 1));
        assert_eq!(arrivals(&mut port), [(1, 16)]);
    }

    #[test]
    fn chance_takes_its_part() {
        let settings = PortSettings { loss_per_million: 100_000, seed: 7, ..PortSettings::new(None, 0) };
        let mut port: Port<u32> = Port::new(settings);
        let taken = (0..10_000).filter(|&packet| port.push(u64::from(packet), 1_000, packet)).count();
        assert!((8_900..9_100).contains(&taken), "{taken}");
    }
}
