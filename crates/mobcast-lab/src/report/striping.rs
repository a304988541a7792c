//! Tables and charts of transfers over several connections, in the manner of the striping paper's Figures 1 and 3 to 14.

use std::collections::BTreeSet;
use std::fmt::Write;

use mobcast_topology::record::{StripingRecord, StripingSample};

use super::curves::{Curve, Plot, Scale};

/// What one chart or table is about: nodes, rate of the line, queue. Numbers as text, so that they can be compared.
type Place = (u32, String, u32);

fn place(record: &StripingRecord) -> Place {
    (record.nodes, record.between_mbit_per_s.to_string(), record.queue_packets)
}

/// The places in the order in which they first appear, each with its records.
fn places(records: &[StripingRecord]) -> Vec<(Place, Vec<&StripingRecord>)> {
    let mut places: Vec<(Place, Vec<&StripingRecord>)> = Vec::new();
    for record in records {
        match places.iter_mut().find(|(there, _)| *there == place(record)) {
            Some((_, members)) => members.push(record),
            None => places.push((place(record), vec![record])),
        }
    }
    places
}

/// Groups of an experiment's lines, in the order of lines.
fn experiments(records: &[StripingRecord]) -> impl Iterator<Item = &[StripingRecord]> {
    records.chunk_by(|a, b| a.striping == b.striping)
}

fn nodes_text(nodes: u32) -> String {
    if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") }
}

/// Markdown tables of seconds: a row for each round-trip time, a column for each number of stripes.
pub fn striping_markdown(records: &[StripingRecord]) -> String {
    let mut text = String::new();
    for experiment in experiments(records) {
        let _ = writeln!(text, "## {}\n", experiment[0].striping);
        for ((nodes, rate, queue), members) in places(experiment) {
            let stripes: BTreeSet<u32> = members.iter().map(|record| record.stripes).collect();
            let heading = format!("{}, {rate} Mbit/s, queues of {queue} packets", nodes_text(nodes));
            let _ = writeln!(text, "{heading}; seconds by stripes of a node:\n");
            let _ = write!(text, "| RTT ms |");
            text.extend(stripes.iter().map(|count| format!(" {count} |")));
            let _ = writeln!(text, "\n|--:|{}", "--:|".repeat(stripes.len()));
            for (rtt, row) in by_rtt(&members) {
                let _ = write!(text, "| {rtt} |");
                for count in &stripes {
                    let found = row.iter().find(|record| record.stripes == *count);
                    let cell = found.and_then(|record| record.seconds).map_or("–".into(), |s| format!("{s:.1}"));
                    let _ = write!(text, " {cell} |");
                }
                text.push('\n');
            }
            text.push('\n');
        }
    }
    text
}

fn by_rtt<'a>(members: &[&'a StripingRecord]) -> Vec<(String, Vec<&'a StripingRecord>)> {
    let mut rows: Vec<(String, Vec<&StripingRecord>)> = Vec::new();
    for record in members {
        let rtt = record.round_trip_ms.to_string();
        match rows.iter_mut().find(|(there, _)| *there == rtt) {
            Some((_, row)) => row.push(record),
            None => rows.push((rtt, vec![record])),
        }
    }
    rows
}

/// Charts as (file name, SVG).
pub fn striping_charts(records: &[StripingRecord]) -> Vec<(String, String)> {
    let mut charts = Vec::new();
    for experiment in experiments(records) {
        let name = &experiment[0].striping;
        if experiment.iter().any(|record| !record.samples.is_empty()) {
            charts.extend(over_time(experiment));
            continue;
        }
        for ((nodes, rate, queue), members) in places(experiment) {
            charts.push((format!("{name}-{nodes}-{rate}-{queue}.svg"), by_stripes(nodes, &rate, queue, &members)));
        }
        let rtts: BTreeSet<String> = experiment.iter().map(|record| record.round_trip_ms.to_string()).collect();
        if rtts.len() > 1 {
            charts.push((format!("{name}-best.svg"), best_by_latency(experiment)));
        }
    }
    charts
}

/// Points from left to right.
fn in_order(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = points.collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// Seconds over the number of stripes, a curve for each round-trip time.
fn by_stripes(nodes: u32, rate: &str, queue: u32, members: &[&StripingRecord]) -> String {
    let curve = |(rtt, row): (String, Vec<&StripingRecord>)| Curve {
        label: format!("{rtt} ms"),
        points: in_order(row.iter().filter_map(|record| Some((f64::from(record.stripes), record.seconds?)))),
    };
    let plot = Plot {
        title: format!("{}, {rate} Mbit/s, queues of {queue} packets", nodes_text(nodes)),
        x: "stripes of a node",
        y: "seconds",
        across: Scale::Linear,
        scale: Scale::Logarithmic,
        curves: by_rtt(members).into_iter().map(curve).collect(),
    };
    plot.draw()
}

/// The number of stripes with the shortest time over the round-trip time, a curve for each network.
fn best_by_latency(experiment: &[StripingRecord]) -> String {
    let queues: BTreeSet<u32> = experiment.iter().map(|record| record.queue_packets).collect();
    let queue_text = |queue| if queues.len() > 1 { format!(", queues of {queue}") } else { String::new() };
    let curve = |((nodes, rate, queue), members): (Place, Vec<&StripingRecord>)| {
        let best = |row: Vec<&StripingRecord>| {
            let ended = row.into_iter().filter_map(|record| Some((record.seconds?, record)));
            let least = ended.min_by(|a, b| a.0.total_cmp(&b.0))?.1;
            Some((least.round_trip_ms, f64::from(least.stripes)))
        };
        let points = in_order(by_rtt(&members).into_iter().filter_map(|(_, row)| best(row)));
        Curve { label: format!("{}, {rate} Mbit/s{}", nodes_text(nodes), queue_text(queue)), points }
    };
    let plot = Plot {
        title: "The number of stripes with the shortest time".to_owned(),
        x: "round-trip time, ms",
        y: "stripes of a node",
        across: Scale::Linear,
        scale: Scale::Linear,
        curves: places(experiment).into_iter().map(curve).collect(),
    };
    plot.draw()
}

/// Congestion window and queue, and what was sent, over time.
fn over_time(experiment: &[StripingRecord]) -> Vec<(String, String)> {
    let network = |record: &StripingRecord| {
        let (rate, rtt, nodes) = (record.between_mbit_per_s, record.round_trip_ms, nodes_text(record.nodes));
        format!("{rate} Mbit/s, {rtt} ms, {nodes}")
    };
    let all = |record: &StripingRecord| format!("{}, queues of {}", network(record), record.queue_packets);
    let one_network = experiment.iter().all(|record| all(record) == all(&experiment[0]));
    let curves = |label: &'static str, y: fn(&StripingSample) -> f64| {
        experiment.iter().map(move |record| {
            let points = record.samples.iter().map(|sample| (sample.seconds, y(sample))).collect();
            let place = if one_network { String::new() } else { format!(", {}", all(record)) };
            Curve { label: format!("{label}, {} stripes{place}", record.stripes), points }
        })
    };
    let plot = |title: &str, y, curves: Vec<Curve>| {
        let place = if one_network { format!(": {}", network(&experiment[0])) } else { String::new() };
        Plot { title: format!("{title}{place}"), x: "seconds", y, across: Scale::Linear, scale: Scale::Linear, curves }
            .draw()
    };
    let windows = curves("congestion window", |sample| sample.window_packets)
        .chain(curves("queue between the routers", |sample| sample.queue_packets as f64));
    let sent = curves("sent", |sample| sample.sent_packets as f64)
        .chain(curves("sent again", |sample| sample.resent_packets as f64));
    let name = &experiment[0].striping;
    vec![
        (format!("{name}-window.svg"), plot("Window and queue", "packets", windows.collect())),
        (format!("{name}-sent.svg"), plot("Packets sent", "packets", sent.collect())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(stripes: u32, round_trip_ms: f64, seconds: Option<f64>) -> StripingRecord {
        StripingRecord {
            striping: "striping-x".into(),
            nodes: 8,
            between_mbit_per_s: 10.0,
            round_trip_ms,
            stripes,
            queue_packets: 50,
            seconds,
            sent_packets: 1,
            resent_packets: 0,
            dropped_at_cards: 0,
            dropped_between: 0,
            timeouts: 0,
            events: 1,
            trace_hash: "0".into(),
            samples: Vec::new(),
        }
    }

    #[test]
    fn a_table_has_a_row_for_each_latency() {
        let records = [record(1, 20.0, Some(5.04)), record(4, 20.0, None), record(1, 40.0, Some(60.0))];
        let table = striping_markdown(&records);
        assert!(table.contains("| 20 | 5.0 | – |\n| 40 | 60.0 | – |"), "{table}");
    }

    #[test]
    fn there_is_a_chart_for_each_network_and_one_of_the_best() {
        let records = [record(1, 20.0, Some(5.0)), record(4, 20.0, Some(3.0)), record(1, 40.0, Some(60.0))];
        let charts = striping_charts(&records);
        let names: Vec<&str> = charts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["striping-x-8-10-50.svg", "striping-x-best.svg"]);
        assert!(charts[1].1.contains("8 nodes, 10 Mbit/s"), "{}", charts[1].1);
    }

    #[test]
    fn samples_make_curves_over_time() {
        let sample = |seconds| StripingSample {
            seconds,
            window_packets: 4.0,
            sent_packets: 10,
            resent_packets: 1,
            queue_packets: 2,
        };
        let record = StripingRecord { samples: vec![sample(0.0), sample(1.0)], ..record(1, 20.0, Some(1.0)) };
        let charts = striping_charts(&[record]);
        assert_eq!(charts.len(), 2);
        assert!(charts[1].1.contains("sent again, 1 stripes"), "{}", charts[1].1);
    }
}
