//! The sender's report as a table.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

use crate::failure::{Failure, Outcome, Status};
use crate::quantity::show_size;

/// What the table needs of the report object.
#[derive(Deserialize, Debug)]
pub struct Report {
    /// BLAKE3 of the object, in hex.
    pub object_hash: String,
    bytes: u64,
    seconds: f64,
    throughput_mb_s: f64,
    strategy: String,
    piece_size: u32,
    nodes: Vec<Node>,
    wan_copies: BTreeMap<String, f64>,
}

#[derive(Deserialize, Debug)]
struct Node {
    name: String,
    cluster: String,
    seconds: f64,
    bytes_in_wan: u64,
    bytes_in_lan: u64,
    bytes_out_wan: u64,
    bytes_out_lan: u64,
    verified: bool,
}

impl Report {
    /// Reads what `send --json` printed, and puts the nodes in the order of their names.
    pub fn parse(text: &str) -> Outcome<Report> {
        let mut report: Report = serde_json::from_str(text).map_err(|error| {
            Failure::new(Status::Failed, format_args!("the sender's report cannot be read: {error}"))
        })?;
        report.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(report)
    }

    /// A line for each node, one for each receiving cluster, and the sum.
    pub fn table(&self) -> String {
        let name = self.width("node", |node| &node.name);
        let cluster = self.width("cluster", |node| &node.cluster);
        let mut text = format!(
            "\n{:name$}  {:cluster$}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}\n",
            "node", "cluster", "seconds", "MB/s", "WAN in", "LAN in", "WAN out", "LAN out"
        );
        for node in &self.nodes {
            let (wan_in, lan_in) = (show_size(node.bytes_in_wan), show_size(node.bytes_in_lan));
            let (wan_out, lan_out) = (show_size(node.bytes_out_wan), show_size(node.bytes_out_lan));
            let rate = if node.seconds > 0.0 { self.bytes as f64 / 1e6 / node.seconds } else { 0.0 };
            let mark = if node.verified { "" } else { "  NOT VERIFIED" };
            let _ = writeln!(
                text,
                "{:name$}  {:cluster$}  {:>8.2}  {rate:>8.1}  {wan_in:>8}  {lan_in:>8}  {wan_out:>8}  {lan_out:>8}{mark}",
                node.name, node.cluster, node.seconds
            );
        }
        text.push('\n');
        for (cluster, copies) in &self.wan_copies {
            let _ = writeln!(text, "{cluster} imported {copies:.3} copies of the object");
        }
        let Report { bytes, seconds, throughput_mb_s, strategy, piece_size, object_hash, .. } = self;
        let _ = writeln!(
            text,
            "{} to all nodes in {seconds:.2} s ({throughput_mb_s:.0} MB/s), strategy {strategy}, pieces of {} KiB",
            show_size(*bytes),
            piece_size >> 10
        );
        let _ = writeln!(text, "BLAKE3 {object_hash}");
        text
    }

    fn width(&self, title: &str, text: impl Fn(&Node) -> &str) -> usize {
        self.nodes.iter().map(|node| text(node).chars().count()).chain([title.len()]).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_node() {
        let text = r#"{"object_hash":"ab12","bytes":8000000,"seconds":0.5,"throughput_mb_s":16.0,"strategy":"mob",
            "pieces":8,"piece_size":1048576,"nodes":[
            {"name":"node-03","cluster":"cluster-2","cluster_reason":"named","seconds":0.5,"bytes_in_wan":8000000,
             "bytes_in_lan":0,"bytes_out_wan":0,"bytes_out_lan":0,"verified":false},
            {"name":"node-02","cluster":"cluster-1","cluster_reason":"named","seconds":0.25,"bytes_in_wan":0,
             "bytes_in_lan":8000000,"bytes_out_wan":4000000,"bytes_out_lan":0,"verified":true}],
            "wan_copies":{"cluster-2":1.0}}"#;
        expect![[r#"

            node     cluster     seconds      MB/s    WAN in    LAN in   WAN out   LAN out
            node-02  cluster-1      0.25      32.0       0 B   8.00 MB   4.00 MB       0 B
            node-03  cluster-2      0.50      16.0   8.00 MB       0 B       0 B       0 B  NOT VERIFIED

            cluster-2 imported 1.000 copies of the object
            8.00 MB to all nodes in 0.50 s (16 MB/s), strategy mob, pieces of 1024 KiB
            BLAKE3 ab12
        "#]]
        .assert_eq(&Report::parse(text).expect("a report").table());
    }

    #[test]
    fn what_is_no_report_is_an_error() {
        assert!(Report::parse("").is_err() && Report::parse("{}").is_err());
    }
}
