//! What a lab consists of: a namespace for each node, one with a bridge for each cluster, addresses, and the lines for
//! `ip` and `tc` that make it. Pure: it is made elsewhere.
//!
//! Node `n` of the lab, in cluster `c`, has the address 10.100.c.n: nodes are counted through all clusters, because a card's
//! queues go by the last number. A second network card has one of 10.101.c.n, used for routing alone: programs see one
//! address, and what goes to other clusters takes the second card.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::Path;

use mobcast_topology::{Cluster, ClusterIndex, Topology, WanNic};

use crate::error::LabError;
use crate::hub::carry::DEVICE;

/// The second number of every address, and that of second cards.
const NETWORK: u8 = 100;
const WAN_NETWORK: u8 = 101;
/// The last number of a switch's address.
const SWITCH: u8 = 254;
/// Nodes of a cluster, and clusters, at most: what addresses have room for.
pub const COUNT_MAX: usize = 250;

/// What a network card's rate is counted in: frames, which are longer than their IP packets.
const FRAME_BYTES: u64 = 1_514;
const PACKET_BYTES: u64 = 1_500;
/// What a switch holds for a port.
const PORT_QUEUE_BYTES: u64 = 512_000;
/// Queues of a node's own card, which are served by turns: the last number of a packet's destination tells which is its, and
/// up to 16 nodes have one each. Linux does the same by flow, in `fq_codel` and `fq`, one of which is the default nearly everywhere. With a single queue a flow's part
/// would be what it holds of the queue, and TCP keeps it at that (small queues, `tcp_limit_output_bytes`).
const QUEUES: u64 = 16;
/// What such a queue holds.
const QUEUE_BYTES: u64 = 128_000;
/// Bytes of a packet that is many, at most and at least.
const LARGE_PACKET_BYTES: std::ops::RangeInclusive<u64> = 3_000..=65_536;

/// A node of a lab.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodePlan {
    /// Cluster's name and number.
    pub name: String,
    /// Its cluster.
    pub cluster: ClusterIndex,
    /// The cluster's name.
    pub cluster_name: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its network namespace.
    pub namespace: String,
}

/// A lab.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LabPlan {
    /// In the order of clusters; the first one is the root.
    pub nodes: Vec<NodePlan>,
    /// The namespace of each cluster's switch.
    pub switches: Vec<String>,
    /// Lines for `ip` and `tc`, in order: the tool, the namespace, the lines.
    pub before_hub: Vec<(&'static str, Option<String>, String)>,
    /// The same, once the hub has made its devices.
    pub after_hub: Vec<(&'static str, Option<String>, String)>,
}

/// What all namespaces of a lab begin with, and those of no other lab: names of labs have no dots.
pub fn prefix(lab: &str) -> String {
    format!("mobcast-lab-{lab}.")
}

/// The lab of a namespace, if it is a lab's.
pub fn lab_of(namespace: &str) -> Option<String> {
    let (lab, _) = namespace.strip_prefix("mobcast-lab-")?.split_once('.')?;
    Some(lab.to_owned())
}

/// The cluster of an address of the lab.
pub fn cluster_of(address: [u8; 4]) -> Option<ClusterIndex> {
    match address {
        [10, NETWORK, cluster, _] if cluster > 0 => Some(ClusterIndex(u32::from(cluster) - 1)),
        _ => None,
    }
}

/// Whether there can be a lab with the topology that this file says, or why not.
pub fn check(topology: &Topology, file: &Path) -> Result<(), LabError> {
    plan(topology, "check").map(drop).map_err(|error| LabError::Usage(format!("{}: {error}", file.display())))
}

/// Says what a topology asks of a lab in vain: whoever asks for latency expects to see what it does.
pub fn say_without_effect(topology: &Topology) {
    let usual_ns = Cluster::new("", 1).lan_delay_ns;
    if let Some(far) = topology.clusters().iter().find(|cluster| cluster.lan_delay_ns > usual_ns) {
        eprintln!("lan_delay_ms: a lab has no latency inside cluster {}: mobcast-sim takes account of it", far.name);
    }
}

/// The plan for a topology, in a lab of this name.
pub fn plan(topology: &Topology, lab: &str) -> Result<LabPlan, LabError> {
    if let Some(fabric) = topology.clusters().iter().find(|cluster| cluster.fabric_bytes_per_s.is_some()) {
        // The optimum counts with it.
        let name = &fabric.name;
        let remedy = "leave the key away, or simulate it with mobcast-sim";
        return Err(LabError::Usage(format!("cluster {name} has fabric_mb_per_s, which a lab cannot limit: {remedy}")));
    }
    let prefix = prefix(lab);
    let mut plan = LabPlan { nodes: Vec::new(), switches: Vec::new(), before_hub: Vec::new(), after_hub: Vec::new() };
    if topology.clusters().len() > COUNT_MAX {
        return Err(LabError::Usage(format!("a lab has addresses for {COUNT_MAX} clusters")));
    }
    for (cluster, spec) in topology.indices().zip(topology.clusters()) {
        if spec.nodes as usize > COUNT_MAX {
            let name = &spec.name;
            let message = format!("a lab has addresses for {COUNT_MAX} nodes of cluster {name}: simulate more of them");
            return Err(LabError::Usage(message));
        }
        plan.switches.push(format!("{prefix}switch-{}", spec.name));
        let before = plan.nodes.len();
        plan.nodes.extend((0..spec.nodes as usize).map(|node| NodePlan {
            name: format!("{}{}", spec.name, node + 1),
            cluster,
            cluster_name: spec.name.clone(),
            address: address(NETWORK, cluster, ((before + node) % COUNT_MAX) as u8 + 1),
            namespace: format!("{prefix}{}{}", spec.name, node + 1),
        }));
    }
    let mut names: Vec<&str> = plan.nodes.iter().map(|node| node.name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(LabError::Usage(format!("two nodes would be called {}: rename a cluster", pair[0])));
    }
    plan.write(topology);
    Ok(plan)
}

impl LabPlan {
    fn write(&mut self, topology: &Topology) {
        let mut made = String::new();
        for namespace in self.switches.iter().chain(self.nodes.iter().map(|node| &node.namespace)) {
            let _ = writeln!(made, "netns add {namespace}");
        }
        for node in &self.nodes {
            let (switch, number) = (&self.switches[node.cluster.as_usize()], node.address.octets()[3]);
            let wan_nic = topology.clusters()[node.cluster.as_usize()].wan_nic;
            for (port, device) in [("lan", "eth0"), ("wan", "eth1")].iter().take(1 + usize::from(wan_nic.is_some())) {
                let namespace = &node.namespace;
                let network = if *port == "lan" { NETWORK } else { WAN_NETWORK };
                let hardware = hardware_address(address(network, node.cluster, number));
                let _ = writeln!(
                    made,
                    "link add {port}{number} netns {switch} type veth \
                     peer name {device} address {hardware} netns {namespace}"
                );
            }
        }
        self.before_hub.push(("ip", None, made));
        for cluster in topology.indices() {
            self.write_switch(topology, cluster);
        }
        for node in self.nodes.clone() {
            self.write_node(topology, &node);
        }
    }

    fn write_switch(&mut self, topology: &Topology, cluster: ClusterIndex) {
        let spec = &topology.clusters()[cluster.as_usize()];
        let namespace = self.switches[cluster.as_usize()].clone();
        let own = self.nodes.iter().filter(|node| node.cluster == cluster);
        let numbers: Vec<u8> = own.map(|node| node.address.octets()[3]).collect();
        let bridges: &[(&str, u8)] =
            if spec.wan_nic.is_some() { &[("lan", NETWORK), ("wan", WAN_NETWORK)] } else { &[("lan", NETWORK)] };
        let (mut lines, mut shaping) = ("link set lo up\n".to_owned(), String::new());
        let card = |rate_bytes_per_s| Card { rate_bytes_per_s, burst_ns: spec.nic_burst_ns };
        let routed = bridges[bridges.len() - 1];
        for (name, network) in bridges {
            let hardware = hardware_address(address(*network, cluster, SWITCH));
            let _ =
                writeln!(lines, "link add {name} address {hardware} type bridge mcast_snooping 0\nlink set {name} up");
            for number in &numbers {
                let _ = writeln!(lines, "link set {name}{number} master {name} up");
            }
        }
        let _ = writeln!(lines, "address add {}/24 brd + dev {}", address(routed.1, cluster, SWITCH), routed.0);
        numbers.iter().for_each(|&number| neighbour(&mut lines, routed.0, address(routed.1, cluster, number)));
        for number in &numbers {
            shape(&mut lines, &mut shaping, &format!("lan{number}"), Queueing::Single, card(spec.nic_in_bytes_per_s));
            if let Some(WanNic { in_bytes_per_s, .. }) = spec.wan_nic {
                shape(&mut lines, &mut shaping, &format!("wan{number}"), Queueing::Single, card(in_bytes_per_s));
                let (to, via) = (address(NETWORK, cluster, *number), address(WAN_NETWORK, cluster, *number));
                let _ = writeln!(lines, "route add {to}/32 via {via} dev wan");
            }
        }
        self.before_hub.push(("ip", Some(namespace.clone()), lines));
        self.before_hub.push(("tc", Some(namespace.clone()), shaping));
        let lines = format!("link set {DEVICE} txqueuelen 2000 up\nroute add 10.{NETWORK}.0.0/16 dev {DEVICE}\n");
        self.after_hub.push(("ip", Some(namespace), lines));
    }

    fn write_node(&mut self, topology: &Topology, node: &NodePlan) {
        let spec = &topology.clusters()[node.cluster.as_usize()];
        let (mut lines, mut shaping) = ("link set lo up\nlink set eth0 up\n".to_owned(), String::new());
        let card = |rate_bytes_per_s| Card { rate_bytes_per_s, burst_ns: spec.nic_burst_ns };
        let number = node.address.octets()[3];
        let _ = writeln!(lines, "address add {}/24 brd + dev eth0", node.address);
        let others = self.nodes.iter().filter(|other| other.cluster == node.cluster && *other != node);
        others.for_each(|other| neighbour(&mut lines, "eth0", other.address));
        shape(&mut lines, &mut shaping, "eth0", Queueing::Fair, card(spec.nic_out_bytes_per_s));
        if let Some(WanNic { out_bytes_per_s, .. }) = spec.wan_nic {
            let wan = address(WAN_NETWORK, node.cluster, number);
            let _ = writeln!(lines, "link set eth1 up\naddress add {wan}/24 dev eth1");
            shape(&mut lines, &mut shaping, "eth1", Queueing::Fair, card(out_bytes_per_s));
            let via = address(WAN_NETWORK, node.cluster, SWITCH);
            neighbour(&mut lines, "eth1", via);
            let _ = writeln!(lines, "route add default via {via} dev eth1 src {}", node.address);
        } else {
            let via = address(NETWORK, node.cluster, SWITCH);
            neighbour(&mut lines, "eth0", via);
            let _ = writeln!(lines, "route add default via {via} dev eth0");
        }
        lines.push_str("route add 224.0.0.0/4 dev eth0\n");
        self.before_hub.push(("ip", Some(node.namespace.clone()), lines));
        self.before_hub.push(("tc", Some(node.namespace.clone()), shaping));
    }
}

fn address(network: u8, cluster: ClusterIndex, number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, network, cluster.0 as u8 + 1, number)
}

/// The hardware address that goes with an address.
fn hardware_address(address: Ipv4Addr) -> String {
    let [_, network, cluster, number] = address.octets();
    format!("02:6d:{network:02x}:00:{cluster:02x}:{number:02x}")
}

/// A line that makes a neighbour known for good. The kernel looks few of them up for the whole machine: 1,024 by default,
/// which four clusters of 16 nodes exceed, and then packets are dropped.
fn neighbour(ip: &mut String, device: &str, neighbour: Ipv4Addr) {
    let hardware = hardware_address(neighbour);
    let _ = writeln!(ip, "neighbour add {neighbour} lladdr {hardware} nud permanent dev {device}");
}

/// How packets wait for a device.
enum Queueing {
    /// All in one queue, as in a switch.
    Single,
    /// In [`QUEUES`] queues, as in a host.
    Fair,
}

/// One direction of a network card.
#[derive(Clone, Copy)]
struct Card {
    rate_bytes_per_s: Option<u64>,
    /// What it sends in this time may leave at once.
    burst_ns: u64,
}

/// So many of so many parts of a number, which is at most the largest there is.
fn part(number: u64, parts: u64, of: u64) -> u64 {
    u64::try_from(u128::from(number) * u128::from(parts) / u128::from(of)).unwrap_or(u64::MAX)
}

/// Lines that limit what a device sends. Packets that are many are made no longer than what the card sends in a moment.
fn shape(ip: &mut String, tc: &mut String, device: &str, queueing: Queueing, card: Card) {
    let Some(rate) = card.rate_bytes_per_s else { return };
    let frames = part(rate, FRAME_BYTES, PACKET_BYTES);
    let in_a_moment = part(frames, card.burst_ns, 1_000_000_000);
    let large = in_a_moment.clamp(*LARGE_PACKET_BYTES.start(), *LARGE_PACKET_BYTES.end());
    let burst = in_a_moment.max(2 * FRAME_BYTES);
    let _ = writeln!(ip, "link set {device} gso_max_size {large}");
    let default = match queueing {
        Queueing::Single => "1",
        Queueing::Fair => "10",
    };
    let _ = writeln!(tc, "qdisc add dev {device} root handle 1: htb default {default}");
    let bits = frames.saturating_mul(8);
    let class = |parent: &str, id: &str, bits: u64| {
        format!("class add dev {device} parent {parent} classid {id} htb rate {bits}bit")
    };
    let _ = writeln!(tc, "{} burst {burst} cburst {burst}", class("1:", "1:1", bits));
    match queueing {
        Queueing::Single => {
            let _ = writeln!(tc, "qdisc add dev {device} parent 1:1 bfifo limit {PORT_QUEUE_BYTES}");
        }
        Queueing::Fair => {
            let turn = large.max(FRAME_BYTES);
            for queue in 0..QUEUES {
                let id = format!("1:{:x}", 0x10 + queue);
                let class = class("1:1", &id, bits / QUEUES);
                let _ = writeln!(tc, "{class} ceil {bits}bit burst {burst} cburst {burst} quantum {turn}");
                let _ = writeln!(tc, "qdisc add dev {device} parent {id} bfifo limit {QUEUE_BYTES}");
                let last_bits = format!("match u32 {queue:#x} {:#x} at 16", QUEUES - 1);
                let _ =
                    writeln!(tc, "filter add dev {device} parent 1: protocol ip prio 1 u32 {last_bits} flowid {id}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mobcast_topology::WanLink;
    use mobcast_topology::network::NIC_BURST_NS;

    fn topology() -> Topology {
        let mut topology = Topology::new();
        let a = topology.add_cluster(Cluster::new("A", 2).with_nic(12_500_000)).unwrap();
        let mut cluster = Cluster::new("B", 1);
        cluster.wan_nic = Some(WanNic { out_bytes_per_s: Some(3_000_000), in_bytes_per_s: None });
        let b = topology.add_cluster(cluster).unwrap();
        topology.link_both(a, b, WanLink::new(1_000_000, 0)).unwrap();
        topology
    }

    fn lines_of<'a>(plan: &'a LabPlan, tool: &str, namespace: &str) -> &'a str {
        let of = |(t, n, _): &&(&str, Option<String>, String)| *t == tool && n.as_deref() == Some(namespace);
        &plan.before_hub.iter().find(of).unwrap().2
    }

    #[test]
    fn nodes_are_counted_through_all_clusters() {
        let plan = plan(&topology(), "x").unwrap();
        let names: Vec<(&str, String)> =
            plan.nodes.iter().map(|node| (node.name.as_str(), node.address.to_string())).collect();
        let expected = [("A1", "10.100.1.1"), ("A2", "10.100.1.2"), ("B1", "10.100.2.3")];
        assert_eq!(names, expected.map(|(name, address)| (name, address.to_owned())));
        assert_eq!(cluster_of([10, 100, 2, 1]), Some(ClusterIndex(1)));
        assert_eq!(cluster_of([10, 101, 2, 1]), None);
        assert_eq!(cluster_of([10, 100, 0, 1]), None);
    }

    #[test]
    fn network_cards_are_limited_on_both_sides() {
        let plan = plan(&topology(), "x").unwrap();
        let out = lines_of(&plan, "tc", "mobcast-lab-x.A2");
        assert!(out.contains("htb rate 100933328bit burst 25233 cburst 25233"), "{out}");
        let into = lines_of(&plan, "tc", "mobcast-lab-x.switch-A");
        assert_eq!(into.matches("htb rate").count(), 2, "{into}");
        assert_eq!(into.matches("bfifo").count(), 2, "a switch's port has one queue: {into}");
    }

    #[test]
    fn what_a_card_sends_at_once_is_the_topology_s() {
        let mut topology = topology();
        topology.cluster_mut(ClusterIndex(0)).expect("it is there").nic_burst_ns = 4 * NIC_BURST_NS;
        let plan = plan(&topology, "x").unwrap();
        assert!(lines_of(&plan, "tc", "mobcast-lab-x.A2").contains("burst 100933 cburst 100933"));
        assert!(lines_of(&plan, "tc", "mobcast-lab-x.switch-A").contains("burst 100933 cburst 100933"));
        let long = lines_of(&plan, "ip", "mobcast-lab-x.A2");
        assert!(long.contains("gso_max_size 65536"), "{long}");
    }

    #[test]
    fn a_card_of_any_rate_has_a_limit() {
        let limit = |rate: u64| {
            let (mut ip, mut tc) = (String::new(), String::new());
            let card = Card { rate_bytes_per_s: Some(rate), burst_ns: NIC_BURST_NS };
            shape(&mut ip, &mut tc, "eth0", Queueing::Single, card);
            tc
        };
        let fast = limit(15_000_000_000_000);
        assert!(fast.contains("htb rate 121120000000000bit burst 30280000000 "), "{fast}");
        let endless = limit(u64::MAX);
        assert!(endless.contains(&format!("htb rate {}bit burst ", u64::MAX)), "{endless}");
    }

    #[test]
    fn a_card_serves_destinations_by_turns() {
        let plan = plan(&topology(), "x").unwrap();
        let out = lines_of(&plan, "tc", "mobcast-lab-x.A2");
        assert_eq!(out.matches("bfifo").count(), QUEUES as usize, "{out}");
        let filters: Vec<&str> = out.lines().filter(|line| line.starts_with("filter")).collect();
        assert_eq!(filters.len(), QUEUES as usize, "every last number has a queue: {out}");
        assert!(filters[3].ends_with("match u32 0x3 0xf at 16 flowid 1:13"), "{}", filters[3]);
        assert!(out.contains("classid 1:13 htb rate 6308333bit ceil 100933328bit"), "{out}");
    }

    #[test]
    fn neighbours_are_known_for_good() {
        let plan = plan(&topology(), "x").unwrap();
        let node = lines_of(&plan, "ip", "mobcast-lab-x.A2");
        let known: Vec<&str> = node.lines().filter(|line| line.starts_with("neighbour add")).collect();
        assert_eq!(known.len(), 2, "the other node and the switch: {node}");
        assert!(known[0].contains("10.100.1.1 lladdr 02:6d:64:00:01:01 nud permanent"), "{}", known[0]);
        let switch = lines_of(&plan, "ip", "mobcast-lab-x.switch-B");
        assert!(switch.contains("neighbour add 10.101.2.3 lladdr 02:6d:65:00:02:03 nud permanent dev wan"), "{switch}");
    }

    #[test]
    fn a_second_card_takes_what_goes_to_other_clusters() {
        let plan = plan(&topology(), "x").unwrap();
        let node = lines_of(&plan, "ip", "mobcast-lab-x.B1");
        assert!(node.contains("route add default via 10.101.2.254 dev eth1 src 10.100.2.3"), "{node}");
        let switch = lines_of(&plan, "ip", "mobcast-lab-x.switch-B");
        assert!(switch.contains("route add 10.100.2.3/32 via 10.101.2.3 dev wan"), "{switch}");
        assert_eq!(lines_of(&plan, "tc", "mobcast-lab-x.switch-B"), "", "only its way out has a limit");
    }

    #[test]
    fn no_lab_takes_another_s_namespaces_for_its_own() {
        assert!(!"mobcast-lab-x-2.A1".starts_with(&prefix("x")), "names of labs may begin alike");
        assert_eq!(lab_of("mobcast-lab-x-2.switch-A"), Some("x-2".to_owned()));
        assert_eq!(lab_of("mobcast-x.A1"), None);
    }

    #[test]
    fn what_cannot_be_emulated_is_refused() {
        let mut topology = topology();
        topology.cluster_mut(ClusterIndex(0)).unwrap().fabric_bytes_per_s = Some(1_000_000);
        let error = plan(&topology, "x").unwrap_err();
        assert!(error.status() == 2 && error.to_string().contains("fabric_mb_per_s"), "{error}");
    }

    #[test]
    fn names_that_would_be_the_same_are_refused() {
        let mut topology = Topology::new();
        topology.add_cluster(Cluster::new("A", 11)).unwrap();
        topology.add_cluster(Cluster::new("A1", 1)).unwrap();
        assert!(plan(&topology, "x").unwrap_err().to_string().contains("A11"));
        topology.cluster_mut(ClusterIndex(1)).unwrap().nodes = 251;
        assert_eq!(plan(&topology, "x").unwrap_err().status(), 2);
    }
}
