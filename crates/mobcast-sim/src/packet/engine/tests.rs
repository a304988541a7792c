//! The engine by hand-reckoned examples.

use super::*;

const MS: u64 = 1_000_000;
const SIZES: PacketSizes = PacketSizes { data_bytes: 1_000, ack_bytes: 40 };

/// A line of 1 MB/s and 50 ms each way.
fn line(limit: Limit, tcp: TcpSettings) -> (Engine, PortIndex, PortIndex) {
    let mut engine = Engine::new(tcp, SIZES);
    let settings = PortSettings::new(Some(1_000_000), 50 * MS).with_limit(limit);
    let (forward, back) = (engine.add_port(settings), engine.add_port(settings));
    (engine, forward, back)
}

#[test]
fn one_segment_takes_a_round_trip() {
    let (mut engine, forward, back) = line(Limit::None, TcpSettings::ns2(64));
    let connection = engine.open(&[forward], &[back], 1);
    assert!(engine.run(u64::MAX));
    // 1 ms for the segment, 40 µs for its acknowledgement, and the way there and back.
    assert_eq!(engine.done_at_ns(connection), Some(101 * MS + 40_000));
}

#[test]
fn a_window_below_the_product_of_rate_and_time_limits_the_rate() {
    let (mut engine, forward, back) = line(Limit::None, TcpSettings::ns2(16));
    let connection = engine.open(&[forward], &[back], 1_600);
    assert!(engine.run(u64::MAX));
    // Slow start, then 16 segments in each of 100 round trips of 101.04 ms.
    let seconds = engine.done_at_ns(connection).expect("it is done") as f64 / 1e9;
    assert!((10.1..10.7).contains(&seconds), "{seconds}");
}

#[test]
fn a_window_above_it_fills_the_line() {
    let (mut engine, forward, back) = line(Limit::None, TcpSettings::ns2(256));
    let connection = engine.open(&[forward], &[back], 10_000);
    assert!(engine.run(u64::MAX));
    let seconds = engine.done_at_ns(connection).expect("it is done") as f64 / 1e9;
    assert!((10.0..10.8).contains(&seconds), "{seconds}");
    assert_eq!(engine.sender(connection).counters().resent, 0);
}

#[test]
fn a_short_queue_loses_packets_and_all_arrive() {
    let (mut engine, forward, back) = line(Limit::Packets(10), TcpSettings::ns2(256));
    let connections = [0; 4].map(|_| engine.open(&[forward], &[back], 1_000));
    assert!(engine.run(u64::MAX));
    let dropped = engine.counters(forward).dropped;
    assert!(dropped > 20, "{dropped}");
    for connection in connections {
        assert!(engine.sender(connection).is_done());
    }
    let resent: u64 = connections.iter().map(|c| engine.sender(*c).counters().resent).sum();
    assert!(resent >= dropped, "{resent} {dropped}");
}

#[test]
fn packets_under_way_keep_their_path_when_the_connection_gets_another() {
    let (mut engine, forward, back) = line(Limit::None, TcpSettings::ns2(64));
    let [access, far] = [0; 2].map(|_| engine.add_port(PortSettings::new(Some(1_000_000), 0)));
    let connection = engine.open(&[forward], &[back], 3);
    // The first segment is on the line, then its acknowledgement.
    engine.run(10 * MS);
    engine.reroute(connection, &[access, forward], &[back]);
    engine.run(60 * MS);
    engine.reroute(connection, &[access, forward], &[far, back]);
    engine.run(101 * MS + 39_999);
    assert_eq!(engine.sender(connection).acknowledged(), 0);
    engine.run(101 * MS + 40_000);
    assert_eq!(engine.sender(connection).acknowledged(), 1, "after a round trip, as if nothing had changed");
    let packets = |engine: &Engine| [forward, access, back, far].map(|port| engine.counters(port).packets);
    assert_eq!(packets(&engine), [1, 2, 1, 0], "the other two are in the first port of the longer path");
    assert!(engine.run(u64::MAX));
    assert_eq!(packets(&engine), [3, 2, 3, 2], "each takes each port of its path once");
}

#[test]
fn the_same_path_again_is_no_other_path() {
    let (mut engine, forward, back) = line(Limit::None, TcpSettings::ns2(64));
    let connection = engine.open(&[forward], &[back], 1);
    (0..1_000).for_each(|_| engine.reroute(connection, &[forward], &[back]));
    assert!(engine.connections[0].former.is_empty());
}

#[test]
fn the_same_calls_give_the_same_packets() {
    let run = |segments| {
        let (mut engine, forward, back) = line(Limit::Packets(7), TcpSettings::ns2(64));
        for _ in 0..5 {
            engine.open(&[forward], &[back], segments);
        }
        engine.run(u64::MAX);
        (engine.trace_hash(), engine.events_total())
    };
    assert_eq!(run(500), run(500));
    assert_ne!(run(500), run(501));
}

#[test]
fn delayed_acknowledgements_halve_their_number() {
    let acks = |delayed_ack_ns| {
        let (mut engine, forward, back) = line(Limit::None, TcpSettings { delayed_ack_ns, ..TcpSettings::ns2(64) });
        engine.open(&[forward], &[back], 1_000);
        assert!(engine.run(u64::MAX));
        engine.counters(back).packets
    };
    let (all, half) = (acks(None), acks(Some(200 * MS)));
    assert_eq!(all, 1_000);
    assert!((500..520).contains(&half), "{half}");
}

#[test]
fn cubic_fills_a_line_that_has_a_queue() {
    let (mut engine, forward, back) = line(Limit::Packets(100), TcpSettings::linux(4_000));
    let connection = engine.open(&[forward], &[back], 30_000);
    assert!(engine.run(u64::MAX));
    let seconds = engine.done_at_ns(connection).expect("it is done") as f64 / 1e9;
    assert!((30.0..31.5).contains(&seconds), "{seconds}: {:?}", engine.sender(connection).counters());
    assert_eq!(engine.sender(connection).counters().timeouts, 0);
}

#[test]
fn cubic_connections_share_a_line_and_all_arrives() {
    let (mut engine, forward, back) = line(Limit::Packets(20), TcpSettings::linux(4_000));
    let connections = [0; 5].map(|_| engine.open(&[forward], &[back], 2_000));
    assert!(engine.run(u64::MAX));
    let ends = connections.map(|c| engine.done_at_ns(c).expect("it is done") as f64 / 1e9);
    assert!(ends.iter().all(|end| (3.0..14.0).contains(end)), "{ends:?}");
    assert!(engine.counters(forward).dropped > 0);
}

/// Seconds for 30,000 segments over a line that loses one packet of a hundred.
fn seconds_with_loss(tcp: TcpSettings) -> f64 {
    let mut engine = Engine::new(tcp, SIZES);
    let clean = PortSettings::new(Some(1_000_000), 50 * MS).with_limit(Limit::Packets(100));
    let forward = engine.add_port(PortSettings { loss_per_million: 10_000, seed: 7, ..clean });
    let back = engine.add_port(clean);
    let connection = engine.open(&[forward], &[back], 30_000);
    assert!(engine.run(u64::MAX));
    engine.done_at_ns(connection).expect("it is done") as f64 / 1e9
}

#[test]
fn bbr_does_not_take_losses_by_chance_for_a_full_line_and_cubic_does() {
    let (bbr, cubic) = (seconds_with_loss(TcpSettings::bbr(4_000)), seconds_with_loss(TcpSettings::linux(4_000)));
    println!("{bbr:.1} s with BBR, {cubic:.1} s with CUBIC, 30 s at best");
    assert!(bbr < 34.0, "{bbr}");
    assert!(cubic > 2.0 * bbr, "{cubic}");
}

#[test]
fn bbr_keeps_a_queue_short_that_cubic_fills() {
    let longest = |tcp| {
        let (mut engine, forward, back) = line(Limit::Packets(100), tcp);
        engine.open(&[forward], &[back], 30_000);
        let mut longest = 0;
        // From the end of the start on.
        for step in 20..250 {
            engine.run(step * 100 * MS);
            longest = longest.max(engine.queue(forward, engine.now_ns()).0);
        }
        (longest, engine.counters(forward).dropped)
    };
    let (bbr, cubic) = (longest(TcpSettings::bbr(4_000)), longest(TcpSettings::linux(4_000)));
    println!("longest queue and drops: {bbr:?} with BBR, {cubic:?} with CUBIC");
    assert!(bbr.0 < cubic.0 / 2 && cubic.0 >= 95, "{bbr:?} {cubic:?}");
}

/// [`Engine::run`] for connections that are given their segments by and by, which it takes for done.
fn run_watched(engine: &mut Engine, until_ns: u64) {
    while engine.next_time_ns().is_some_and(|at_ns| at_ns <= until_ns) {
        engine.step();
    }
    engine.set_now(until_ns);
}

#[test]
fn what_comes_through_a_port_again_is_counted_and_what_was_lost_before_it_is_not() {
    let repeated = |cut_before: bool| {
        let (mut engine, forward, back) = line(Limit::None, TcpSettings::linux(64));
        let [near, far] = [0; 2].map(|_| engine.add_port(PortSettings::new(Some(1_000_000), 0)));
        engine.count_repeated(forward);
        let cut = if cut_before { near } else { far };
        engine.set_rate(cut, Some(0));
        let connection = engine.open_watched(&[near, forward, far], &[back], None);
        engine.supply(connection, [1_000, 240]);
        run_watched(&mut engine, 500 * MS);
        engine.set_rate(cut, Some(1_000_000));
        run_watched(&mut engine, 5_000 * MS);
        let sender = engine.sender(connection);
        assert_eq!((sender.is_done(), sender.counters().resent), (true, 2), "both after a timeout");
        engine.repeated_bytes(forward)
    };
    assert_eq!((repeated(false), repeated(true)), (960 + 200, 0), "without headers of 40 bytes");
}

#[test]
fn a_window_that_the_own_card_holds_back_does_not_grow_without_end() {
    let mut engine = Engine::new(TcpSettings::linux(4_000), SIZES);
    let card = engine.add_port(PortSettings::new(Some(1_000_000), 0));
    let [forward, back] = [0; 2].map(|_| engine.add_port(PortSettings::new(None, 50 * MS)));
    let connection = engine.open_watched(&[card, forward], &[back], Some(4));
    engine.supply(connection, [1_000; 5_000]);
    run_watched(&mut engine, 4_000 * MS);
    // A segment in each of the 100 ms of a round trip, and a few in the card: the window is at most twice that.
    let window = engine.sender(connection).window();
    assert!((100.0..250.0).contains(&window), "{window}");
}

#[test]
fn what_was_sent_in_vain_keeps_its_size_on_its_way() {
    let mut engine = Engine::new(TcpSettings::linux(64), SIZES);
    let [forward, back] = [0; 2].map(|_| engine.add_port(PortSettings::new(Some(1_000_000), 600 * MS)));
    let far = engine.add_port(PortSettings::new(Some(1_000_000), 0));
    let connection = engine.open_watched(&[forward, far], &[back], None);
    engine.supply(connection, [240]);
    run_watched(&mut engine, 5_000 * MS);
    // The first timeout is a second, the round trip 1.2: what goes out again reaches the second port after the acknowledgement.
    assert_eq!(engine.sender(connection).counters().resent, 1);
    let PortCounters { packets, bytes, .. } = engine.counters(far);
    assert_eq!((packets, bytes), (2, 480));
}

#[test]
fn what_left_by_another_port_takes_no_place_in_the_card() {
    let mut engine = Engine::new(TcpSettings::linux(64), SIZES);
    let [forward, back] = [0; 2].map(|_| engine.add_port(PortSettings::new(None, 1_000 * MS)));
    let connection = engine.open_watched(&[forward], &[back], None);
    engine.supply(connection, [1_000; 8]);
    let card = engine.add_port(PortSettings::new(Some(1_000_000), 0));
    engine.reroute(connection, &[card, forward], &[back]);
    engine.set_local(connection, Some(1));
    engine.supply(connection, [1_000; 2]);
    run_watched(&mut engine, 500 * MS);
    assert_eq!(engine.counters(card).packets, 2);
}
