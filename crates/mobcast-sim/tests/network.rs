//! The simulated network by hand-computed examples: who sends what to whom, and when it must arrive.

use mobcast_proto::{Duration, Time};
use mobcast_sim::link::{Cancelled, Class};
use mobcast_sim::network::{
    FlowId, Happening, Model, Network, NetworkError, NodeIndex, Place, Settings, Stop, Traffic,
};
use mobcast_sim::run::PACKET;
use mobcast_topology::{Change, Cluster, ClusterIndex, LinkRef, Topology, WanNic, preset};

const MS: u64 = 1_000_000;
const EXACT: Settings = Settings {
    model: Model::Fluid,
    seed: 1,
    quantum: Duration::ZERO,
    window_bytes: None,
    slow_start: false,
    report_drained: false,
};
const A: ClusterIndex = ClusterIndex(0);
const B: ClusterIndex = ClusterIndex(1);
const WAN: LinkRef = LinkRef::Wan { from: A, to: B };

/// Clusters a and b, 1 MB/s (a byte takes a microsecond) and 10 ms between them, 1 ms inside.
fn two_clusters() -> Topology {
    let cluster = |name| Cluster::new(name, 0).with_lan_delay(MS);
    preset::symmetric(&[cluster("a"), cluster("b")], &[(0, 1, 1_000_000)], 10 * MS)
}

fn network(settings: Settings, nodes: [u32; 2]) -> (Network<u64>, Vec<NodeIndex>) {
    let mut network = Network::new(&two_clusters(), settings);
    let clusters = nodes.iter().zip([A, B]).flat_map(|(count, cluster)| vec![cluster; *count as usize]);
    let nodes = clusters.map(|cluster| network.add_node(cluster).unwrap()).collect();
    (network, nodes)
}

/// Everything that happens, as (microseconds, tag or scheduled number).
fn run(network: &mut Network<u64>) -> Vec<(u64, u64)> {
    let mut seen = Vec::new();
    while let Some((at, happening)) = network.step() {
        match happening {
            Happening::Delivered(delivery) => seen.push((at.0 / 1_000, delivery.tag)),
            Happening::Due(number) => seen.push((at.0 / 1_000, number)),
            Happening::Closed { .. } | Happening::Drained(_) => {}
        }
    }
    seen
}

fn run_until(network: &mut Network<u64>, at_ms: u64) {
    network.schedule(Time(at_ms * MS), u64::MAX);
    while let Some((_, happening)) = network.step() {
        if happening == Happening::Due(u64::MAX) {
            return;
        }
    }
}

#[test]
fn a_message_takes_its_bytes_and_the_delay() {
    let (mut network, nodes) = network(EXACT, [2, 1]);
    let wan = network.open(nodes[0], nodes[2]).unwrap();
    let lan = network.open(nodes[0], nodes[1]).unwrap();
    network.send(wan, 100_000, 1, Class::Payload);
    network.send(lan, 100_000, 2, Class::Payload);
    assert_eq!(run(&mut network), [(1_000, 2), (110_000, 1)], "nothing limits the cluster's own links");
}

#[test]
fn flows_share_the_link_and_the_one_that_stays_takes_all() {
    let (mut network, nodes) = network(EXACT, [2, 2]);
    let first = network.open(nodes[0], nodes[2]).unwrap();
    let second = network.open(nodes[1], nodes[3]).unwrap();
    network.send(first, 100_000, 1, Class::Payload);
    network.send(second, 50_000, 2, Class::Payload);
    // Half each until 100 ms; then 50,000 bytes are left of the first.
    assert_eq!(run(&mut network), [(110_000, 2), (160_000, 1)]);
    assert_eq!(network.pair_traffic(A, B), Traffic { payload_bytes: 150_000, control_bytes: 0 });
    assert_eq!(network.node_traffic(nodes[0]).wan_out.payload_bytes, 100_000);
    assert_eq!(network.node_traffic(nodes[3]).wan_in.payload_bytes, 50_000);
}

#[test]
fn a_second_card_binds_between_clusters_and_not_inside() {
    let mut topology = two_clusters();
    let half = WanNic { out_bytes_per_s: Some(500_000), in_bytes_per_s: None };
    topology.cluster_mut(A).unwrap().wan_nic = Some(half);
    topology.cluster_mut(A).unwrap().nic_out_bytes_per_s = Some(2_000_000);
    let mut network: Network<u64> = Network::new(&topology, EXACT);
    let [first, second, far] = [A, A, B].map(|cluster| network.add_node(cluster).unwrap());
    let wan = network.open(first, far).unwrap();
    let lan = network.open(first, second).unwrap();
    network.send(wan, 100_000, 1, Class::Payload);
    network.send(lan, 100_000, 2, Class::Payload);
    network.send(wan.reverse(), 100_000, 3, Class::Payload);
    // Inside at the 2 MB/s of the first card, outwards at the 0.5 MB/s of the second, inwards at the link's 1 MB/s.
    assert_eq!(run(&mut network), [(51_000, 2), (110_000, 3), (210_000, 1)]);
}

#[test]
fn the_directions_of_a_link_do_not_share() {
    let (mut network, nodes) = network(EXACT, [1, 1]);
    let flow = network.open(nodes[0], nodes[1]).unwrap();
    network.send(flow, 100_000, 1, Class::Payload);
    network.send(flow.reverse(), 100_000, 2, Class::Payload);
    assert_eq!(run(&mut network), [(110_000, 1), (110_000, 2)]);
}

#[test]
fn a_capacity_changes_in_the_middle_of_a_transfer() {
    let (mut network, nodes) = network(EXACT, [1, 1]);
    let flow = network.open(nodes[0], nodes[1]).unwrap();
    network.send(flow, 100_000, 1, Class::Payload);
    run_until(&mut network, 50);
    network.set_rate(WAN, Some(0)).unwrap();
    run_until(&mut network, 70);
    network.set_rate(WAN, Some(500_000)).unwrap();
    assert_eq!(run(&mut network), [(180_000, 1)], "50 ms, cut for 20 ms, 100 ms at half the rate, 10 ms delay");
}

#[test]
fn a_link_without_a_limit_can_be_given_one() {
    let (mut network, nodes) = network(EXACT, [2, 2]);
    let flow = network.open(nodes[0], nodes[2]).unwrap();
    network.send(flow, 100_000, 1, Class::Payload);
    run_until(&mut network, 50);
    network.set_rate(LinkRef::AccessOut(A), Some(100_000)).unwrap();
    run_until(&mut network, 150);
    network.set_nic(nodes[2], None, Some(10_000));
    run_until(&mut network, 250);
    network.set_nic(nodes[2], None, None);
    network.set_rate(LinkRef::AccessOut(A), None).unwrap();
    // 50,000 + 10,000 + 1,000 bytes, then 39,000 at the full rate.
    assert_eq!(run(&mut network), [(299_000, 1)]);
}

#[test]
fn control_overtakes_waiting_payload() {
    for settings in [EXACT, Settings::default()] {
        let (mut network, nodes) = network(settings, [1, 1]);
        let flow = network.open(nodes[0], nodes[1]).unwrap();
        for tag in [1, 2, 3] {
            network.send(flow, 20_000, tag, Class::Payload);
        }
        network.send(flow, 1_000, 4, Class::Control);
        assert_eq!(run(&mut network), [(11_000, 4), (31_000, 1), (51_000, 2), (71_000, 3)]);
        let traffic = network.pair_traffic(A, B);
        assert_eq!(traffic, Traffic { payload_bytes: 60_000, control_bytes: 1_000 });
    }
}

#[test]
fn control_beside_the_sharing_keeps_its_order_and_is_paid_for() {
    let (mut network, nodes) = network(Settings::default(), [2, 2]);
    let busy = network.open(nodes[0], nodes[2]).unwrap();
    let quiet = network.open(nodes[1], nodes[3]).unwrap();
    network.send(busy, 1_000_000, 1, Class::Payload);
    run_until(&mut network, 5);
    network.send(quiet, 4_000, 2, Class::Control);
    network.send(quiet, 10, 3, Class::Control);
    network.send(quiet, 10, 4, Class::Payload);
    let seen = run(&mut network);
    let tags: Vec<u64> = seen.iter().map(|(_, tag)| *tag).collect();
    assert_eq!(tags, [2, 3, 4, 1]);
    assert_eq!(seen[0], (23_000, 2), "half of the link would be its share");
    let end = seen[3].0;
    assert!((1_013_500..1_015_500).contains(&end), "4,020 bytes of the others delay the large one, not {end}");
}

#[test]
fn a_cancelled_message_leaves_its_place_to_the_next() {
    let (mut network, nodes) = network(EXACT, [1, 1]);
    let flow = network.open(nodes[0], nodes[1]).unwrap();
    for tag in [1, 2, 3] {
        network.send(flow, 10_000, tag, Class::Payload);
    }
    run_until(&mut network, 5);
    assert_eq!(network.cancel(flow, 1), Cancelled::Begun);
    assert_eq!(network.cancel(flow, 2), Cancelled::Removed);
    assert_eq!(network.queued_payload_messages(flow), 2);
    assert_eq!(run(&mut network), [(20_000, 1), (30_000, 3)]);
}

#[test]
fn a_silent_stop_makes_everything_of_the_node_vanish() {
    let (mut network, nodes) = network(EXACT, [2, 2]);
    let dying = network.open(nodes[0], nodes[2]).unwrap();
    let living = network.open(nodes[1], nodes[2]).unwrap();
    network.send(dying, 1_000, 1, Class::Payload);
    network.send(dying, 100_000, 2, Class::Payload);
    network.send(living, 100_000, 3, Class::Payload);
    network.send(dying.reverse(), 1_000, 4, Class::Payload);
    run_until(&mut network, 10);
    network.stop_node(nodes[0], Stop::Silent);
    // Half the link until 10 ms, then the whole: 5,000 + 95,000.
    assert_eq!(run(&mut network), [(115_000, 3)]);
    assert_eq!(network.open(nodes[0], nodes[1]), Err(NetworkError::Stopped(nodes[0])));
    network.send(dying, 10, 5, Class::Control);
    assert_eq!(run(&mut network), [], "what is sent to nobody vanishes");
    network.restart_node(nodes[0]);
    assert!(network.open(nodes[0], nodes[1]).is_ok());
}

/// (microseconds, who, which flow) of every close.
fn closes(network: &mut Network<u64>) -> Vec<(u64, NodeIndex, FlowId)> {
    let happenings = std::iter::from_fn(|| network.step());
    let closes = happenings.filter_map(|(at, happening)| match happening {
        Happening::Closed { node, flow } => Some((at.0 / 1_000, node, flow)),
        _ => None,
    });
    closes.collect()
}

#[test]
fn a_reset_tells_every_peer_after_the_delay() {
    let (mut network, nodes) = network(EXACT, [2, 1]);
    let wan = network.open(nodes[0], nodes[2]).unwrap();
    let lan = network.open(nodes[1], nodes[0]).unwrap();
    network.send(wan, 1_000, 1, Class::Payload);
    run_until(&mut network, 2);
    network.stop_node(nodes[0], Stop::Reset);
    assert_eq!(closes(&mut network), [(3_000, nodes[1], lan.reverse()), (12_000, nodes[2], wan)]);
    assert_eq!(network.node_traffic(nodes[2]).wan_in.payload_bytes, 1_000, "it had left before the stop");
}

#[test]
fn closing_lets_control_and_what_has_begun_go_out() {
    let (mut network, nodes) = network(EXACT, [1, 1]);
    let flow = network.open(nodes[0], nodes[1]).unwrap();
    network.send(flow, 10_000, 1, Class::Payload);
    network.send(flow, 10_000, 2, Class::Payload);
    network.send(flow.reverse(), 1_000, 3, Class::Payload);
    run_until(&mut network, 5);
    network.send(flow, 100, 4, Class::Control);
    network.close(flow);
    network.close(flow);
    assert_eq!(closes(&mut network), [(20_100, nodes[1], flow)]);
    assert_eq!(network.pair_traffic(A, B), Traffic { payload_bytes: 10_000, control_bytes: 100 });
    assert_eq!(network.pair_traffic(B, A), Traffic::default(), "the closing end reads no more");
}

#[test]
fn a_window_limits_a_flow_by_its_round_trip() {
    let (mut network, nodes) = network(Settings { window_bytes: Some(10_000), ..EXACT }, [1, 1]);
    let flow = network.open(nodes[0], nodes[1]).unwrap();
    network.send(flow, 100_000, 1, Class::Payload);
    assert_eq!(run(&mut network), [(210_000, 1)], "10,000 bytes in 20 ms are 500,000 a second");
}

#[test]
fn a_window_opens_twice_as_far_in_each_round_trip_and_anew_after_a_pause() {
    let clusters = [Cluster::new("a", 0), Cluster::new("b", 0)];
    let far = preset::symmetric(&clusters, &[(0, 1, 2_896_000)], 50 * MS);
    let mut network: Network<u64> = Network::new(&far, Settings { slow_start: true, ..EXACT });
    let nodes = [A, B].map(|cluster| network.add_node(cluster).unwrap());
    let flow = network.open(nodes[0], nodes[1]).unwrap();
    // Two windows of 14,480 bytes in 100 ms, then 4, 8 and 16: 28,960, 86,880, 202,720 and 434,400 bytes after 400 ms. 32 were
    // more than the link carries, which from then on takes 28,960 in 10 ms.
    for (bytes, tag) in [(28_960, 1), (57_920, 2), (115_840, 3), (231_680, 4), (289_600, 5)] {
        network.send(flow, bytes, tag, Class::Payload);
    }
    assert_eq!(run(&mut network), [(150_000, 1), (250_000, 2), (350_000, 3), (450_000, 4), (550_000, 5)]);
    // Open for as long as it is in use.
    network.send(flow, 28_960, 6, Class::Payload);
    assert_eq!(run(&mut network), [(560_000 + 50_000, 6)]);
    network.schedule(Time(2_000 * MS), 0);
    assert_eq!(run(&mut network), [(2_000_000, 0)]);
    network.send(flow, 28_960, 7, Class::Payload);
    assert_eq!(run(&mut network), [(2_150_000, 7)]);
}

#[test]
fn scheduled_events_come_in_order_and_can_be_taken_back() {
    let (mut network, _) = network(EXACT, [1, 1]);
    network.schedule(Time(3_000), 3);
    let token = network.schedule(Time(2_000), 2);
    network.schedule(Time(1_000), 1);
    assert_eq!(network.unschedule(token), Some(2));
    assert_eq!(run(&mut network), [(1, 1), (3, 3)]);
    assert_eq!(network.unschedule(token), None);
}

#[test]
fn draining_is_reported_on_request() {
    let (mut network, nodes) = network(Settings { report_drained: true, ..EXACT }, [1, 1]);
    let flow = network.open(nodes[0], nodes[1]).unwrap();
    network.send(flow, 1_000, 1, Class::Payload);
    network.send(flow, 1_000, 2, Class::Payload);
    let (at, first) = network.step().unwrap();
    assert_eq!((at, first), (Time(2 * MS), Happening::Drained(flow)));
}

/// 40 waves of messages among 40 nodes with network cards, sizes and ends from a fixed pattern. Returns the network
/// when all is quiet, and the time at which the last payload message arrived.
fn busy_network(settings: Settings) -> (Network<u64>, Time) {
    let cluster = Cluster::new("", 0).with_nic(1_000_000);
    let mut network = Network::new(&preset::full_mesh(4, &cluster, 800_000, 5 * MS), settings);
    let nodes: Vec<NodeIndex> = (0..40).map(|i| network.add_node(ClusterIndex(i % 4)).unwrap()).collect();
    let pairs = (0..40).flat_map(|i| [1, 2, 8, 12].map(|step| (i, (i + step) % 40)));
    let flows: Vec<FlowId> = pairs.map(|(i, j)| network.open(nodes[i], nodes[j]).unwrap()).collect();
    (0..40).for_each(|wave| {
        network.schedule(Time(wave * 50 * MS), wave);
    });
    let mut random = mobcast_proto::random::Random::new(1);
    let mut last = Time::ZERO;
    while let Some((at, happening)) = network.step() {
        match happening {
            Happening::Due(wave) => {
                for _ in 0..40 {
                    let flow = flows[random.below(flows.len())];
                    network.send(flow, 10_000 + random.below(50_000) as u32, wave, Class::Payload);
                }
            }
            Happening::Delivered(delivery) if delivery.class == Class::Payload => {
                last = at;
                network.send(delivery.flow.reverse(), 200, 0, Class::Control);
            }
            _ => {}
        }
    }
    (network, last)
}

#[test]
fn a_millisecond_of_quantum_changes_the_end_by_less_than_a_percent() {
    let (exact, exact_end) = busy_network(EXACT);
    let (quick, quick_end) = busy_network(Settings::default());
    let difference = exact_end.0.abs_diff(quick_end.0);
    assert!(difference * 100 < exact_end.0, "{exact_end:?} exactly, {quick_end:?} with a quantum");
    let clusters = || (0..4).map(ClusterIndex);
    for (from, to) in clusters().flat_map(|from| clusters().map(move |to| (from, to))) {
        assert_eq!(exact.pair_traffic(from, to), quick.pair_traffic(from, to));
        let capacity = 800_000 * (quick_end.0 / MS) / 1_000;
        assert!(from == to || quick.pair_traffic(from, to).payload_bytes <= capacity * 101 / 100);
    }
}

#[test]
fn equal_calls_give_equal_happenings() {
    let trace = |settings| {
        let (mut network, nodes) = network(settings, [3, 3]);
        for i in 0..9 {
            let flow = network.open(nodes[i % 3], nodes[3 + i / 3]).unwrap();
            network.send(flow, 10_000 + 777 * i as u32, i as u64, Class::Payload);
        }
        let all: Vec<_> = std::iter::from_fn(|| network.step()).collect();
        all
    };
    assert_eq!(trace(EXACT), trace(EXACT));
    assert_eq!(trace(Settings::default()), trace(Settings::default()));
    let summary = || {
        let (network, last) = busy_network(Settings::default());
        (network.events_total(), network.turns_total(), last)
    };
    assert_eq!(summary(), summary());
}

#[test]
fn queues_of_packets_are_told_as_they_are_at_that_time() {
    let (mut network, nodes) = network(Settings { model: PACKET, ..EXACT }, [1, 1]);
    let flow = network.open(nodes[0], nodes[1]).unwrap();
    // Ten segments of 1,448 bytes are a first window. Each takes 1.5 ms with its headers, and arrives 10 ms later.
    network.send(flow, 14_480, 1, Class::Payload);
    run_until(&mut network, 7);
    let wan = network.queues().into_iter().find(|queue| queue.place == Place::Shared(WAN)).unwrap();
    assert_eq!(wan.waiting, (6, 9_000), "four have left, though none has arrived");
    let carried = network.wan_packets(A, B).unwrap();
    assert_eq!((carried.packets, carried.bytes), (4, 6_000));
}

#[test]
fn an_access_link_has_a_queue_for_the_largest_rate_that_it_will_have() {
    let counted = |largest| {
        let (mut network, nodes) = network(Settings { model: PACKET, ..EXACT }, [1, 1]);
        let link = LinkRef::AccessOut(A);
        network.expect(&[Change { at_ns: 1_000 * MS, link, rate_bytes_per_s: Some(largest) }]);
        network.set_rate(link, Some(1_000_000)).unwrap();
        for tag in 0..10 {
            let flow = network.open(nodes[0], nodes[1]).unwrap();
            network.send(flow, 14_480, tag, Class::Payload);
        }
        let access = network.queues().into_iter().find(|queue| queue.place == Place::Shared(link)).unwrap();
        (access.counters.packets, access.counters.dropped)
    };
    // 100 packets of 1,500 bytes: one leaves, 64 fit into the shortest queue, all into one of 20 ms at 10 MB/s.
    assert_eq!((counted(1_000_000), counted(10_000_000)), ((65, 35), (100, 0)));
}

#[test]
fn a_card_that_changes_lets_wait_what_it_sends_in_a_moment() {
    let (mut network, nodes) = network(Settings { model: PACKET, ..EXACT }, [1, 1]);
    let flow = network.open(nodes[0], nodes[1]).unwrap();
    let mut waits_at = |out, tag| {
        network.set_nic(nodes[0], out, None);
        network.send(flow, 14_480, tag, Class::Payload);
        let card = Place::Card { node: nodes[0], second: false, out: true };
        network.queues().into_iter().find(|queue| queue.place == card).unwrap().waiting.0
    };
    // A card that there was not, of four packets in a moment, then one that sends eight in a millisecond.
    assert_eq!((waits_at(Some(1_000_000), 1), waits_at(Some(12_000_000), 2)), (4, 8));
}

#[test]
fn impossible_links_are_refused() {
    let mut topology = two_clusters();
    let island = topology.add_cluster(Cluster::new("island", 1)).unwrap();
    let mut network: Network<()> = Network::new(&topology, EXACT);
    let a = network.add_node(A).unwrap();
    let far = network.add_node(island).unwrap();
    assert_eq!(network.open(a, far), Err(NetworkError::NoLink(A, island)));
    assert_eq!(network.open(a, a), Err(NetworkError::ToItself(a)));
    assert_eq!(network.add_node(ClusterIndex(3)), Err(NetworkError::NoSuchCluster(ClusterIndex(3))));
    let nowhere = LinkRef::Wan { from: A, to: island };
    assert_eq!(network.set_rate(nowhere, Some(1)), Err(NetworkError::NoLink(A, island)));
}
