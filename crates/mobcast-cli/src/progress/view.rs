//! What progress looks like: text made from a snapshot, and nothing else.

use std::time::Duration;

use crate::output::printable;
use crate::quantity::{show_rate, show_size, show_time};

/// How far a broadcast is, as this process knows it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Snapshot {
    /// Bytes that are verified, of `length`: the receiver's own, or those of the receivers on average.
    pub bytes: u64,
    /// Bytes of the object, where known.
    pub length: Option<u64>,
    /// Bytes per second in the last seconds.
    pub rate_bytes_per_s: u64,
    /// Receivers that have everything.
    pub nodes_complete: usize,
    /// Receivers of whom a result is expected.
    pub nodes: usize,
    /// The receivers of each cluster, where known.
    pub clusters: Vec<ClusterProgress>,
}

/// How far the receivers of one cluster are.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClusterProgress {
    /// Its name.
    pub name: String,
    /// Receivers in it.
    pub nodes: usize,
    /// Those that have everything.
    pub nodes_complete: usize,
    /// Bytes that its receivers have, on average.
    pub bytes: u64,
}

/// Cells of a bar.
const BAR_CELLS: usize = 24;
/// Clusters that get a line of their own; a terminal has 24 lines.
const CLUSTER_LINES_MAX: usize = 16;

impl Snapshot {
    /// The whole in one line, for a log.
    pub fn line(&self) -> String {
        let mut parts = vec![self.amount(), show_rate(self.rate_bytes_per_s)];
        parts.extend(self.time_left().map(|left| format!("{} left", show_time(left))));
        if self.nodes > 0 {
            parts.push(format!("{} of {} nodes done", self.nodes_complete, self.nodes));
        }
        parts.join(", ")
    }

    /// One line with a bar for the whole and one for each cluster, none wider than `width` characters.
    pub fn bars(&self, width: usize) -> Vec<String> {
        let mut lines = vec![format!("{} {}", bar(fraction(self.bytes, self.length)), self.line())];
        let name_width = self.clusters.iter().map(|cluster| cluster.name.chars().count()).max().unwrap_or(0);
        for cluster in self.clusters.iter().take(CLUSTER_LINES_MAX) {
            let bar = bar(fraction(cluster.bytes, self.length));
            let ClusterProgress { name, nodes, nodes_complete, .. } = cluster;
            let name = printable(name);
            lines.push(format!("{bar} {name:name_width$}  {nodes_complete} of {nodes} nodes done"));
        }
        if let Some(more) = self.clusters.len().checked_sub(CLUSTER_LINES_MAX).filter(|&more| more > 0) {
            lines.push(format!("and {more} more clusters"));
        }
        lines.into_iter().map(|line| line.chars().take(width).collect()).collect()
    }

    fn amount(&self) -> String {
        match self.length {
            Some(length) => format!("{} of {}", show_size(self.bytes), show_size(length)),
            None => show_size(self.bytes),
        }
    }

    fn time_left(&self) -> Option<Duration> {
        let left = self.length?.checked_sub(self.bytes).filter(|&left| left > 0)?;
        let seconds = left.checked_div(self.rate_bytes_per_s)?;
        // Nobody believes a longer forecast.
        (seconds < 86_400).then_some(Duration::from_secs(seconds.max(1)))
    }
}

fn fraction(bytes: u64, length: Option<u64>) -> Option<f64> {
    match length? {
        0 => Some(1.0),
        length => Some((bytes as f64 / length as f64).min(1.0)),
    }
}

fn bar(fraction: Option<f64>) -> String {
    let Some(fraction) = fraction else {
        return format!("[{}]", "·".repeat(BAR_CELLS));
    };
    // Rounded down: a full bar means complete.
    let full = (fraction * BAR_CELLS as f64) as usize;
    format!("[{}{}] {:3.0}%", "━".repeat(full), " ".repeat(BAR_CELLS - full), (fraction * 100.0).floor())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn snapshot() -> Snapshot {
        let cluster = |name: &str, nodes_complete, bytes| ClusterProgress {
            name: name.to_owned(),
            nodes: 4,
            nodes_complete,
            bytes,
        };
        Snapshot {
            bytes: 134_217_728,
            length: Some(268_435_456),
            rate_bytes_per_s: 12_500_000,
            nodes_complete: 5,
            nodes: 8,
            clusters: vec![cluster("ams", 4, 268_435_456), cluster("tokyo", 1, 20_000_000)],
        }
    }

    #[test]
    fn bars_show_the_whole_and_each_cluster() {
        expect![[r#"
            [━━━━━━━━━━━━            ]  50% 134 MB of 268 MB, 12.5 MB/s, 10 s left, 5 of 8 nodes done
            [━━━━━━━━━━━━━━━━━━━━━━━━] 100% ams    4 of 4 nodes done
            [━                       ]   7% tokyo  1 of 4 nodes done"#]]
        .assert_eq(&snapshot().bars(100).join("\n"));
    }

    #[test]
    fn a_line_never_exceeds_the_terminal() {
        let bars = snapshot().bars(20);
        assert!(!bars.is_empty() && bars.iter().all(|line| line.chars().count() <= 20), "{bars:?}");
    }

    #[test]
    fn a_stream_has_no_length() {
        let stream = Snapshot { length: None, nodes: 0, clusters: Vec::new(), ..snapshot() };
        assert_eq!(stream.line(), "134 MB, 12.5 MB/s");
        assert_eq!(stream.bars(100), ["[························] 134 MB, 12.5 MB/s"]);
    }

    #[test]
    fn nothing_is_forecast_without_a_rate() {
        let still = Snapshot { rate_bytes_per_s: 0, ..snapshot() };
        assert_eq!(still.line(), "134 MB of 268 MB, 0 B/s, 5 of 8 nodes done");
    }

    #[test]
    fn many_clusters_do_not_fill_the_screen() {
        let mut many = snapshot();
        many.clusters = vec![many.clusters[0].clone(); 30];
        assert_eq!(many.bars(80).len(), 1 + CLUSTER_LINES_MAX + 1);
        assert_eq!(many.bars(80).last().map(String::as_str), Some("and 14 more clusters"));
    }
}
