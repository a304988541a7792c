//! The striping paper's experiment: each node of one cluster sends to its counterpart in another, over several connections
//! ("stripes") at once, through one line between two routers (Ogura, Nakada, Matsuoka, "Evaluation of the inter-cluster data transfer on Grid
//! environment", its Figure 2 and Table 1). Everything starts at time zero, and the transfer takes as long as its slowest stripe.

use mobcast_topology::files::striping::{StripingCase, StripingExperiment, StripingTcp};
use mobcast_topology::record::{StripingRecord, StripingSample};

use crate::packet::engine::{ConnectionIndex, Engine, PacketSizes, PortIndex};
use crate::packet::port::{Limit, PortSettings};
use crate::packet::tcp::TcpSettings;

/// Bytes of an acknowledgement on the line: headers alone.
const ACK_BYTES: u32 = 40;

/// Two clusters behind their routers, and what is sent.
pub struct Dumbbell {
    engine: Engine,
    connections: Vec<ConnectionIndex>,
    cards: Vec<PortIndex>,
    between: PortIndex,
}

impl Dumbbell {
    /// The network of one case, with everything that is to be sent.
    pub fn new(experiment: &StripingExperiment, case: &StripingCase) -> Dumbbell {
        let sizes = PacketSizes { data_bytes: experiment.packet_bytes, ack_bytes: ACK_BYTES };
        let as_usual = match experiment.tcp {
            StripingTcp::Ns2Reno => TcpSettings::ns2(experiment.window_packets),
            StripingTcp::Cubic => TcpSettings::linux(experiment.window_packets),
            StripingTcp::Bbr => TcpSettings::bbr(experiment.window_packets),
        };
        let delayed_ack_ns =
            experiment.delayed_ack_ns.map_or(as_usual.delayed_ack_ns, |ns| Some(ns).filter(|ns| *ns > 0));
        let tcp = TcpSettings { delayed_ack_ns, ..as_usual };
        let mut engine = Engine::new(tcp, sizes);
        let queue = Limit::Packets(case.queue_packets);
        let delay_ns = case.round_trip_ns / 2;
        let port = |rate, delay_ns| PortSettings::new(Some(rate), delay_ns).with_limit(queue);
        let between = engine.add_port(port(case.between_bytes_per_s, delay_ns));
        let back_between = engine.add_port(port(case.between_bytes_per_s, delay_ns));
        let stripe_segments = stripes_of(experiment.bytes_per_node, experiment.packet_bytes, case.stripes);
        let cards: Vec<[PortIndex; 4]> =
            (0..case.nodes).map(|_| [0; 4].map(|_| engine.add_port(port(experiment.card_bytes_per_s, 0)))).collect();
        let mut connections = Vec::new();
        for [sender_out, receiver_in, receiver_out, sender_in] in cards.iter().copied() {
            let (forward, back) = ([sender_out, between, receiver_in], [receiver_out, back_between, sender_in]);
            connections.extend(stripe_segments.iter().map(|&segments| engine.open(&forward, &back, segments)));
        }
        Dumbbell { engine, connections, cards: cards.into_iter().flatten().collect(), between }
    }

    /// Runs to the end, or the longest time that the experiment allows.
    pub fn run(mut self, experiment: &StripingExperiment, case: &StripingCase) -> StripingRecord {
        let mut samples = Vec::new();
        if let Some(interval_ns) = experiment.sample_ns {
            let mut at_ns = 0;
            while at_ns < experiment.longest_ns && !self.engine.run(at_ns) {
                samples.push(self.sample());
                at_ns += interval_ns;
            }
        }
        self.engine.run(experiment.longest_ns);
        if experiment.sample_ns.is_some() {
            samples.push(self.sample());
        }
        self.record(experiment, case, samples)
    }

    fn sample(&mut self) -> StripingSample {
        let (sent_packets, resent_packets) = self.sent();
        StripingSample {
            seconds: self.engine.now_ns() as f64 / 1e9,
            window_packets: self.engine.sender(self.connections[0]).window(),
            sent_packets,
            resent_packets,
            queue_packets: self.engine.waiting(self.between) as u64,
        }
    }

    fn sent(&self) -> (u64, u64) {
        let counters = self.connections.iter().map(|&connection| self.engine.sender(connection).counters());
        counters.fold((0, 0), |(sent, resent), of| (sent + of.sent, resent + of.resent))
    }

    fn record(
        &self,
        experiment: &StripingExperiment,
        case: &StripingCase,
        samples: Vec<StripingSample>,
    ) -> StripingRecord {
        let ends: Option<Vec<u64>> = self.connections.iter().map(|&c| self.engine.done_at_ns(c)).collect();
        let (sent_packets, resent_packets) = self.sent();
        let timeouts = self.connections.iter().map(|&c| u64::from(self.engine.sender(c).counters().timeouts)).sum();
        StripingRecord {
            striping: experiment.name.clone(),
            nodes: case.nodes,
            between_mbit_per_s: mbit_per_s(case),
            round_trip_ms: round_trip_ms(case),
            stripes: case.stripes,
            queue_packets: case.queue_packets,
            seconds: ends.and_then(|ends| ends.into_iter().max()).map(|at_ns| at_ns as f64 / 1e9),
            sent_packets,
            resent_packets,
            dropped_at_cards: self.cards.iter().map(|&port| self.engine.counters(port).dropped).sum(),
            dropped_between: self.engine.counters(self.between).dropped,
            timeouts,
            events: self.engine.events_total(),
            trace_hash: format!("{:016x}", self.engine.trace_hash()),
            samples,
        }
    }
}

/// Runs one case.
pub fn simulate(experiment: &StripingExperiment, case: &StripingCase) -> StripingRecord {
    Dumbbell::new(experiment, case).run(experiment, case)
}

/// Whether a line is of one of the cases of this experiment.
pub fn is_of(record: &StripingRecord, experiment: &StripingExperiment) -> bool {
    let of_case = |case: &StripingCase| {
        (record.nodes, record.stripes, record.queue_packets) == (case.nodes, case.stripes, case.queue_packets)
            && (record.between_mbit_per_s, record.round_trip_ms) == (mbit_per_s(case), round_trip_ms(case))
    };
    record.striping == experiment.name && experiment.cases.iter().any(of_case)
}

fn mbit_per_s(case: &StripingCase) -> f64 {
    case.between_bytes_per_s as f64 / 125_000.0
}

fn round_trip_ms(case: &StripingCase) -> f64 {
    case.round_trip_ns as f64 / 1e6
}

/// Packets of each stripe: as even as whole packets allow.
fn stripes_of(bytes: u64, packet_bytes: u32, stripes: u32) -> Vec<u32> {
    let packets = bytes.div_ceil(u64::from(packet_bytes)) as u32;
    (0..stripes).map(|stripe| packets / stripes + u32::from(stripe < packets % stripes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> StripingExperiment {
        StripingExperiment::of_the_paper("test")
    }

    fn case(nodes: u32, megabits: u64, round_trip_ms: u64, stripes: u32) -> StripingCase {
        StripingCase {
            nodes,
            between_bytes_per_s: megabits * 125_000,
            round_trip_ns: round_trip_ms * 1_000_000,
            stripes,
            queue_packets: 50,
        }
    }

    fn seconds(case: StripingCase) -> f64 {
        simulate(&experiment(), &case).seconds.expect("it comes to its end")
    }

    #[test]
    fn stripes_share_all_packets_evenly() {
        assert_eq!(stripes_of(10_001, 1_000, 4), [3, 3, 3, 2]);
        assert_eq!(stripes_of(2_000, 1_000, 3), [1, 1, 0]);
    }

    #[test]
    fn one_stripe_is_held_back_by_its_window() {
        // 64 KiB in each round trip of 160 ms.
        let seconds = seconds(case(1, 100, 160, 1));
        assert!((20.5..22.5).contains(&seconds), "{seconds}");
    }

    #[test]
    fn the_52nd_stripe_of_a_node_loses_its_first_packet() {
        // 50 packets wait, one is leaving: the 52nd waits for the first timeout of six seconds.
        let [before, after] = [51, 52].map(|stripes| seconds(case(1, 100, 160, stripes)));
        assert!(before < 6.0 && after > 6.0 && after > 1.5 * before, "{before} {after}");
    }

    #[test]
    fn many_stripes_of_many_nodes_collapse() {
        let [few, many] = [4, 64].map(|stripes| seconds(case(8, 10, 20, stripes)));
        assert!(many >= 5.0 * few, "{few} {many}");
    }

    #[test]
    fn a_stripe_without_a_packet_is_done_at_once() {
        let experiment = StripingExperiment { bytes_per_node: 2_048, ..experiment() };
        let result = simulate(&experiment, &case(1, 10, 20, 4));
        assert_eq!(result.sent_packets, 2);
    }

    #[test]
    fn samples_tell_how_the_window_opens() {
        let case = case(1, 100, 160, 1);
        let sampled = StripingExperiment { sample_ns: Some(100_000_000), ..experiment() };
        let StripingRecord { samples, seconds, trace_hash, sent_packets, .. } = simulate(&sampled, &case);
        let plain = simulate(&experiment(), &case);
        assert_eq!((plain.seconds, plain.trace_hash), (seconds, trace_hash), "looking changes nothing");
        assert_eq!(samples[0].window_packets, 1.0);
        let window = samples.iter().map(|sample| sample.window_packets).fold(0.0, f64::max);
        assert!(window >= 64.0, "{window}");
        assert_eq!(samples.last().map(|sample| sample.sent_packets), Some(sent_packets));
        assert_eq!(samples.last().map(|sample| sample.seconds), seconds, "the last one is of the end");
    }

    #[test]
    fn the_last_sample_of_what_takes_too_long_is_of_the_longest_time() {
        let sampled = StripingExperiment { sample_ns: Some(100_000_000), longest_ns: 1_050_000_000, ..experiment() };
        let StripingRecord { samples, seconds, sent_packets, .. } = simulate(&sampled, &case(1, 100, 160, 1));
        let times: Vec<f64> = samples.iter().map(|sample| sample.seconds).collect();
        assert_eq!((seconds, times.len(), &times[10..]), (None, 12, [1.0, 1.05].as_slice()));
        assert_eq!(samples.last().map(|sample| sample.sent_packets), Some(sent_packets));
    }
}
