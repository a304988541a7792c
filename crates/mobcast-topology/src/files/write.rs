//! A topology as the text of a file that says the same.

use std::fmt::Write as _;

use crate::network::{Cluster, NIC_BURST_NS, PayloadFactor, QueueLimit, Topology, WanLink};

/// The text of a topology file that reads back as this network. Rates below one byte per second cannot be written, and become
/// one: a link that is cut is there all the same.
pub fn topology_text(title: &str, topology: &Topology) -> String {
    let mut text = format!("title = {title:?}\n");
    if topology.payload_factor == PayloadFactor::ONE {
        text += "payload_factor = \"one\"\n";
    }
    if let Some(vary) = topology.links_vary {
        let _ = writeln!(text, "links_vary = {vary}");
    }
    topology.clusters().iter().for_each(|cluster| write_cluster(&mut text, cluster));
    for (from, to, link) in topology.wan_links() {
        let [from, to] = [from, to].map(|index| topology.clusters()[index.as_usize()].name.as_str());
        let _ = write!(text, "\n[[link]]\nfrom = {from:?}\nto = {to:?}\n");
        write_link(&mut text, &link);
    }
    text
}

fn write_cluster(text: &mut String, cluster: &Cluster) {
    let _ = write!(text, "\n[[cluster]]\nname = {:?}\nnodes = {}\n", cluster.name, cluster.nodes);
    let wan = cluster.wan_nic;
    write_rate(text, "nic_out_mb_per_s", cluster.nic_out_bytes_per_s);
    write_rate(text, "nic_in_mb_per_s", cluster.nic_in_bytes_per_s);
    if cluster.nic_burst_ns != NIC_BURST_NS {
        let _ = writeln!(text, "nic_burst_ms = {:?}", milliseconds(cluster.nic_burst_ns));
    }
    write_rate(text, "wan_nic_out_mb_per_s", wan.and_then(|nic| nic.out_bytes_per_s));
    write_rate(text, "wan_nic_in_mb_per_s", wan.and_then(|nic| nic.in_bytes_per_s));
    write_rate(text, "access_out_mb_per_s", cluster.access_out_bytes_per_s);
    write_rate(text, "access_in_mb_per_s", cluster.access_in_bytes_per_s);
    write_rate(text, "fabric_mb_per_s", cluster.fabric_bytes_per_s);
    let _ = writeln!(text, "lan_delay_ms = {:?}", milliseconds(cluster.lan_delay_ns));
}

fn write_link(text: &mut String, link: &WanLink) {
    write_rate(text, "rate_mb_per_s", link.rate_bytes_per_s);
    let _ = writeln!(text, "one_way_delay_ms = {:?}", milliseconds(link.one_way_delay_ns));
    if link.loss_per_million > 0 {
        let _ = writeln!(text, "loss_percent = {:?}", f64::from(link.loss_per_million) / 10_000.0);
    }
    match link.queue {
        QueueLimit::Bytes(bytes) => _ = writeln!(text, "queue_bytes = {bytes}"),
        QueueLimit::Nanoseconds(ns) => _ = writeln!(text, "queue_ms = {:?}", milliseconds(ns)),
        QueueLimit::TwiceBdp => {}
    }
}

fn write_rate(text: &mut String, key: &str, rate_bytes_per_s: Option<u64>) {
    if let Some(rate) = rate_bytes_per_s {
        let _ = writeln!(text, "{key} = {:?}", rate.max(1) as f64 / 1e6);
    }
}

fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::TopologyFile;
    use crate::network::ClusterIndex;
    use crate::preset;

    #[test]
    fn what_is_written_reads_back() {
        let mut all = preset::m2_slow(4);
        (all.payload_factor, all.links_vary) = (PayloadFactor::ETHERNET_TCP, Some(false));
        let a = all.cluster_mut(ClusterIndex(0)).expect("there are four");
        a.nic_out_bytes_per_s = Some(12_345_678);
        (a.access_in_bytes_per_s, a.nic_burst_ns) = (Some(1), 20_500_000);
        a.wan_nic = Some(crate::network::WanNic { out_bytes_per_s: Some(1_250_000), in_bytes_per_s: None });
        a.fabric_bytes_per_s = Some(999_999_999_999);
        a.lan_delay_ns = 33_000;
        let mut link = WanLink::new(7_654_321, 12_500_000);
        (link.loss_per_million, link.queue) = (12_500, QueueLimit::Bytes(123_456));
        all.link(ClusterIndex(0), ClusterIndex(1), link).expect("both are there");
        link.queue = QueueLimit::Nanoseconds(50_000_000);
        all.link(ClusterIndex(1), ClusterIndex(0), link).expect("both are there");
        let text = topology_text("a \"title\"", &all);
        let read = TopologyFile::parse(&text, "all.toml").expect("it was written for this");
        assert_eq!((read.title.as_str(), read.topology), ("a \"title\"", all));
    }
}
