//! An experiment with striped connections between two clusters, as a file: `[striping]` instead of a topology, because the
//! network is always the same but for its numbers. What is not given is as in Table 1 of the striping paper.

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::error::{FileError, Text, stem};

/// Bytes per second of a megabit per second.
const BYTES_PER_MBIT: f64 = 125_000.0;
const NODES_MAX: u32 = 1_000;
const STRIPES_MAX: u32 = 1_000;
const PACKETS_MAX: u32 = 1_000_000;
const CASES_MAX: usize = 100_000;

/// An experiment with stripes, checked.
#[derive(Clone, PartialEq, Debug)]
pub struct StripingExperiment {
    /// The file's name without extension.
    pub name: String,
    /// One line for headings.
    pub title: String,
    /// What each node sends.
    pub bytes_per_node: u64,
    /// Bytes of a full packet on the line.
    pub packet_bytes: u32,
    /// How senders behave.
    pub tcp: StripingTcp,
    /// How long a packet may wait for its acknowledgement together with the next one; zero if each is acknowledged by itself. None as
    /// the senders' system has it.
    pub delayed_ack_ns: Option<u64>,
    /// The receiver's window, in packets.
    pub window_packets: u32,
    /// The rate of each node's card, both ways.
    pub card_bytes_per_s: u64,
    /// The longest time that is simulated.
    pub longest_ns: u64,
    /// How often a transfer is looked at; none if only its end counts.
    pub sample_ns: Option<u64>,
    /// What is run, in order.
    pub cases: Vec<StripingCase>,
}

/// How senders behave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StripingTcp {
    /// Reno as in ns-2 2.1b8, as in the paper.
    #[default]
    Ns2Reno,
    /// CUBIC with selective acknowledgements, as in Linux.
    Cubic,
    /// BBR, approximated, with selective acknowledgements.
    Bbr,
}

/// One run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StripingCase {
    /// Nodes that send, each to its own counterpart.
    pub nodes: u32,
    /// The rate of the line between the routers.
    pub between_bytes_per_s: u64,
    /// There and back between the routers.
    pub round_trip_ns: u64,
    /// Connections of each node.
    pub stripes: u32,
    /// Packets that wait before each line at most.
    pub queue_packets: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    striping: Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    nodes: Spanned<Vec<Spanned<u32>>>,
    between_mbit_per_s: Spanned<Vec<Spanned<f64>>>,
    round_trip_ms: Spanned<Vec<Spanned<f64>>>,
    stripes: Spanned<Vec<Spanned<u32>>>,
    queue_packets: Option<Spanned<Vec<Spanned<u32>>>>,
    bytes_per_node: Option<Spanned<u32>>,
    packet_bytes: Option<Spanned<u32>>,
    tcp: Option<StripingTcp>,
    delayed_ack_ms: Option<Spanned<f64>>,
    window_packets: Option<Spanned<u32>>,
    card_mbit_per_s: Option<Spanned<f64>>,
    longest_s: Option<Spanned<f64>>,
    sample_ms: Option<Spanned<f64>>,
}

/// Whether a file is an experiment with stripes: it has a table `[striping]`.
pub fn is_striping(path: &Path) -> Result<bool, FileError> {
    let text = Text::read(path)?;
    Ok(text.text.lines().any(|line| line.trim_start().starts_with("[striping]")))
}

impl StripingExperiment {
    /// The numbers of the paper (Table 1), with queues of 50 packets, which it does not state and ns-2 has by default; without
    /// cases.
    pub fn of_the_paper(name: &str) -> StripingExperiment {
        StripingExperiment {
            name: name.to_owned(),
            title: String::new(),
            bytes_per_node: 8 << 20,
            packet_bytes: 1 << 10,
            tcp: StripingTcp::Ns2Reno,
            delayed_ack_ns: None,
            window_packets: 64,
            card_bytes_per_s: 12_500_000,
            longest_ns: 3_600_000_000_000,
            sample_ns: None,
            cases: Vec::new(),
        }
    }

    /// Reads and checks an experiment. The error names file, line, key and mend.
    pub fn load(path: &Path) -> Result<StripingExperiment, FileError> {
        let text = Text::read(path)?;
        let File { title, striping: table } = text.parse()?;
        let mut experiment = StripingExperiment { title, ..StripingExperiment::of_the_paper(&stem(path)) };
        if let Some(bytes) = &table.bytes_per_node {
            experiment.bytes_per_node = u64::from(text.count(bytes, 1, u32::MAX)?);
        }
        if let Some(bytes) = &table.packet_bytes {
            experiment.packet_bytes = text.count(bytes, 64, 65_535)?;
        }
        experiment.tcp = table.tcp.unwrap_or_default();
        if let Some(time) = &table.delayed_ack_ms {
            // RFC 1122, 4.2.3.2: less than half a second.
            experiment.delayed_ack_ns = Some((text.within(time, 0.0, 500.0, "ms")? * 1e6) as u64);
        }
        if let Some(packets) = &table.window_packets {
            experiment.window_packets = text.count(packets, 1, PACKETS_MAX)?;
        }
        if let Some(rate) = &table.card_mbit_per_s {
            experiment.card_bytes_per_s = text.megabits(rate)?;
        }
        if let Some(time) = &table.longest_s {
            experiment.longest_ns = (text.positive(time)? * 1e9) as u64;
        }
        if let Some(time) = &table.sample_ms {
            experiment.sample_ns = Some((text.within(time, 0.1, 1e6, "ms")? * 1e6) as u64);
        }
        experiment.cases = cases(&text, &table)?;
        Ok(experiment)
    }
}

/// The values, none of which may be there twice.
fn once<T: PartialEq>(text: &Text, values: Vec<(T, Range<usize>)>) -> Result<Vec<T>, FileError> {
    for (place, (value, span)) in values.iter().enumerate() {
        if values[..place].iter().any(|(other, _)| other == value) {
            return Err(text.error(span.clone(), "this value is there twice: leave one out"));
        }
    }
    Ok(values.into_iter().map(|(value, _)| value).collect())
}

/// Every combination, the stripes running fastest.
fn cases(text: &Text, table: &Table) -> Result<Vec<StripingCase>, FileError> {
    let counts = |list: &Spanned<Vec<Spanned<u32>>>, most| -> Result<Vec<u32>, FileError> {
        let counted = |value| Ok((text.count(value, 1, most)?, value.span()));
        once(text, text.filled(list)?.iter().map(counted).collect::<Result<_, _>>()?)
    };
    let nodes = counts(&table.nodes, NODES_MAX)?;
    let stripes = counts(&table.stripes, STRIPES_MAX)?;
    let default_queue = vec![50];
    let queues = table.queue_packets.as_ref().map_or(Ok(default_queue), |list| counts(list, PACKETS_MAX))?;
    let rates = text.filled(&table.between_mbit_per_s)?.iter().map(|rate| Ok((text.megabits(rate)?, rate.span())));
    let rates: Vec<u64> = once(text, rates.collect::<Result<_, _>>()?)?;
    let times = text.filled(&table.round_trip_ms)?.iter().map(|time| Ok((text.milliseconds(time)?, time.span())));
    let times: Vec<u64> = once(text, times.collect::<Result<_, _>>()?)?;
    let mut cases = Vec::new();
    for &nodes in &nodes {
        for &between_bytes_per_s in &rates {
            for &queue_packets in &queues {
                for &round_trip_ns in &times {
                    cases.extend(stripes.iter().map(|&stripes| StripingCase {
                        nodes,
                        between_bytes_per_s,
                        round_trip_ns,
                        stripes,
                        queue_packets,
                    }));
                }
            }
        }
    }
    if cases.len() > CASES_MAX {
        let message = format!("{} cases are more than {CASES_MAX}: make several files of it", cases.len());
        return Err(text.error(table.stripes.span(), message));
    }
    Ok(cases)
}

impl Text {
    /// A rate in Mbit/s, more than zero, as bytes per second.
    fn megabits(&self, value: &Spanned<f64>) -> Result<u64, FileError> {
        Ok((self.within(value, 0.001, 1e9, "Mbit/s")? * BYTES_PER_MBIT).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_does_not_say_is_as_in_the_paper() {
        let directory = tempfile::tempdir().expect("temporary files can be made");
        let path = directory.path().join("s.toml");
        let text =
            "title = \"s\"\n[striping]\nnodes = [8]\nbetween_mbit_per_s = [10]\nround_trip_ms = [20]\nstripes = [4]\n";
        std::fs::write(&path, text).expect("files can be written");
        let experiment = StripingExperiment::load(&path).expect("it is complete");
        let case = StripingCase {
            nodes: 8,
            between_bytes_per_s: 1_250_000,
            round_trip_ns: 20_000_000,
            stripes: 4,
            // Not in the paper: what ns-2 has.
            queue_packets: 50,
        };
        assert_eq!(experiment.cases, [case]);
        let numbers = (experiment.bytes_per_node, experiment.packet_bytes, experiment.window_packets);
        assert_eq!(numbers, (8_388_608, 1_024, 64));
        assert_eq!((experiment.tcp, experiment.card_bytes_per_s), (StripingTcp::Ns2Reno, 12_500_000));
        assert_eq!(experiment.delayed_ack_ns, None, "as in ns-2, which has none");
    }
}
