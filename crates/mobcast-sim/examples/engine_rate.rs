//! How fast the network engine is by itself: 1,000 nodes in 8 clusters, 10,000 links, every node keeping a few requests
//! for 128 KiB outstanding at peers chosen at random, without any protocol. For profiling.
//!
//! `cargo run --release -p mobcast-sim --example engine_rate [MESSAGES] [QUANTUM_US] [NODES] [REQUESTS_PER_NODE]`

use mobcast_proto::random::Random;
use mobcast_proto::{Duration, Time};
use mobcast_sim::link::Class;
use mobcast_sim::network::{FlowId, Happening, Network, NodeIndex, Settings};
use mobcast_topology::{Cluster, ClusterIndex, preset};

const CLUSTERS: u32 = 8;
const LINKS_PER_NODE: usize = 10;
const PIECE_BYTES: u32 = 128 * 1024;
const REQUEST_BYTES: u32 = 64;
const NIC_BYTES_PER_S: u64 = 125_000_000;
const WAN_BYTES_PER_S: u64 = 12_500_000;
const WAN_DELAY_NS: u64 = 10_000_000;

fn main() {
    let number = |position: usize, default: u64| {
        std::env::args().nth(position).map_or(default, |text| text.parse().expect("arguments are whole numbers"))
    };
    let messages = number(1, 1_000_000);
    let settings = Settings { quantum: Duration::from_micros(number(2, 1_000)), ..Settings::default() };
    let (nodes, requests) = (number(3, 1_000) as usize, number(4, 8) as usize);
    let mut random = Random::new(1);
    let (mut network, flows) = build(settings, nodes, &mut random);
    for flows in flows.iter().filter(|flows| !flows.is_empty()) {
        (0..requests).for_each(|_| request(&mut network, flows, &mut random));
    }
    let delivered = pull(&mut network, &flows, messages, &mut random);
    print(&network, delivered);
}

type Flows = Vec<Vec<FlowId>>;

/// The network, and for each node the flows that lead from it to its peers.
fn build(settings: Settings, count: usize, random: &mut Random) -> (Network<()>, Flows) {
    let cluster = Cluster::new("", 0).with_nic(NIC_BYTES_PER_S);
    let topology = preset::full_mesh(CLUSTERS, &cluster, WAN_BYTES_PER_S, WAN_DELAY_NS);
    let mut network = Network::new(&topology, settings);
    let nodes: Vec<NodeIndex> =
        (0..count).map(|i| network.add_node(ClusterIndex(i as u32 % CLUSTERS)).expect("the cluster exists")).collect();
    let mut flows = vec![Vec::new(); count];
    for (i, node) in nodes.iter().enumerate() {
        for link in 0..LINKS_PER_NODE {
            // Two thirds of the links stay in the cluster.
            let stride = if link % 3 == 2 { 1 } else { CLUSTERS as usize };
            let peer = (i + stride * (1 + random.below(count / CLUSTERS as usize - 1))) % count;
            if let Ok(flow) = network.open(*node, nodes[peer]) {
                flows[i].push(flow);
                flows[peer].push(flow.reverse());
            }
        }
    }
    (network, flows)
}

fn request(network: &mut Network<()>, flows: &[FlowId], random: &mut Random) {
    network.send(flows[random.below(flows.len())], REQUEST_BYTES, 0, Class::Control);
}

/// Answers requests with pieces and pieces with requests until `messages` pieces have arrived.
fn pull(network: &mut Network<()>, flows: &Flows, messages: u64, random: &mut Random) -> u64 {
    let mut delivered = 0;
    while delivered < messages {
        let Some((_, Happening::Delivered(delivery))) = network.step() else { break };
        match delivery.class {
            Class::Control => network.send(delivery.flow.reverse(), PIECE_BYTES, 1, Class::Payload),
            Class::Payload => {
                delivered += 1;
                request(network, &flows[delivery.to.0 as usize], random);
            }
        }
    }
    delivered
}

fn print(network: &Network<()>, delivered: u64) {
    let Time(now_ns) = network.now();
    let seconds = now_ns as f64 / 1e9;
    let mb_per_s = delivered as f64 * f64::from(PIECE_BYTES) / 1e6 / seconds;
    let clusters = || (0..CLUSTERS).map(ClusterIndex);
    let wan_bytes: u64 = clusters()
        .flat_map(|from| clusters().filter(move |to| *to != from).map(move |to| (from, to)))
        .map(|(from, to)| network.pair_traffic(from, to).payload_bytes)
        .sum();
    println!("{delivered} pieces of {PIECE_BYTES} bytes in {seconds:.2} s of virtual time: {mb_per_s:.0} MB/s");
    println!("{:.0} MB/s of them between clusters", wan_bytes as f64 / 1e6 / seconds);
    println!("{} events, {} balancing steps", network.events_total(), network.turns_total());
}
