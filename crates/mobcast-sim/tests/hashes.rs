//! A seed is a run: the same again, another one for another seed, and the same in a build with other optimisations and without checks
//! of arithmetic (CI runs this file in both profiles). Whoever changes the protocol or a model sees new numbers here:
//! `UPDATE_EXPECT=1 cargo test -p mobcast-sim --test hashes`.

use std::fmt::Write as _;

use expect_test::expect;
use mobcast_proto::strategy::STRATEGIES;
use mobcast_sim::experiment::Experiment;
use mobcast_sim::faults;
use mobcast_sim::network::Model;
use mobcast_sim::run::{PACKET, PACKET_BBR, PACKET_RENO, instrument};
use mobcast_topology::{Scenario, preset};

const MODELS: [Model; 4] = [Model::Fluid, PACKET, PACKET_BBR, PACKET_RENO];

fn hash(strategy: &str, model: Model, seed: u64) -> u64 {
    let mut experiment = Experiment::new(Scenario::steady(preset::m2_fast(4)), 6_000_000, seed);
    experiment.strategy = strategy.to_owned();
    experiment.network.model = model;
    let outcome = experiment.run();
    assert_eq!((outcome.stuck, outcome.complete.contains(&None)), (None, false));
    outcome.trace_hash
}

#[test]
fn the_same_seed_is_the_same_run_again_and_another_one_is_not() {
    for strategy in STRATEGIES {
        for model in MODELS {
            let of = |seed| hash(strategy.name, model, seed);
            assert_eq!(of(1), of(1), "{} {}", strategy.name, instrument(model));
            assert_ne!(of(1), of(2), "{} {}", strategy.name, instrument(model));
        }
    }
}

#[test]
fn a_seed_is_the_same_run_in_every_build() {
    let mut hashes = String::new();
    for strategy in STRATEGIES {
        for model in MODELS {
            let hash = hash(strategy.name, model, 1);
            writeln!(hashes, "{} {}: {hash:016x}", strategy.name, instrument(model)).expect("a string takes it");
        }
    }
    let faults = faults::run(7).expect("it holds").trace_hash;
    writeln!(hashes, "faults 7: {faults:016x}").expect("a string takes it");
    expect![[r#"
        mob sim-fluid: b8be524ac31da6db
        mob sim-packet: afca224c056074d5
        mob sim-packet-bbr: c653181f32f229e1
        mob sim-packet-reno: 316c2f542081126f
        mob-hpdc07 sim-fluid: a12396286f190e6c
        mob-hpdc07 sim-packet: 477ff24c4c0fd9e1
        mob-hpdc07 sim-packet-bbr: 15e593fdabc986c8
        mob-hpdc07 sim-packet-reno: 9bf65d389f025b2c
        robber-tpds11 sim-fluid: 8c588c6cc1c8fcbe
        robber-tpds11 sim-packet: 974856348e8f5dcc
        robber-tpds11 sim-packet-bbr: 2436058d076a5c79
        robber-tpds11 sim-packet-reno: 3675dcee91775c63
        flat sim-fluid: 67b51c92d2f61194
        flat sim-packet: eba96f9fbe0ad809
        flat sim-packet-bbr: c7b8018719590b7c
        flat sim-packet-reno: 7503f8cc002dd1cc
        chain sim-fluid: 2298d128c18c27ce
        chain sim-packet: 5533bc7f09be5abf
        chain sim-packet-bbr: f230138aba21eedd
        chain sim-packet-reno: 1f56536ef0e1e87b
        binomial sim-fluid: 2e05248f89a71d43
        binomial sim-packet: 6af0c2a1c555b313
        binomial sim-packet-bbr: 32fd4483aaa87c35
        binomial sim-packet-reno: 2876cf0ffb172649
        scatter-allgather sim-fluid: e9154874209abb65
        scatter-allgather sim-packet: 3253189bd9f50864
        scatter-allgather sim-packet-bbr: 41307d8a3e1e7490
        scatter-allgather sim-packet-reno: 83b613c9a5380b33
        magpie sim-fluid: 5fdbf659277667fa
        magpie sim-packet: e2f4299e2fa92220
        magpie sim-packet-bbr: b025236daad0926e
        magpie sim-packet-reno: 5f0fe373d0ed2fba
        fpfr sim-fluid: 0a166b8a3a41527d
        fpfr sim-packet: c23107db9b05c000
        fpfr sim-packet-bbr: bf2fb3c8eca2227e
        fpfr sim-packet-reno: fd70bea2bc9bb5ed
        balanced sim-fluid: 1e04d23162e52739
        balanced sim-packet: bd9eae5c6ed5297f
        balanced sim-packet-bbr: 7e7fc98475c28619
        balanced sim-packet-reno: 61bd72ec1b7a78ce
        optimal-trees sim-fluid: 5996f20ecbafe26a
        optimal-trees sim-packet: 0a5627dc164549d2
        optimal-trees sim-packet-bbr: 887241ea88f4c9be
        optimal-trees sim-packet-reno: aeae4a84fb94920c
        bittorrent sim-fluid: 18b3180bb89b4390
        bittorrent sim-packet: cf662dbf6106cedb
        bittorrent sim-packet-bbr: fe0751dbd1c42d49
        bittorrent sim-packet-reno: 914bbd8a05ef28fd
        bittorrent-rarest sim-fluid: 63ba77a037778845
        bittorrent-rarest sim-packet: b90a412be738da91
        bittorrent-rarest sim-packet-bbr: 83c4468c2e87da67
        bittorrent-rarest sim-packet-reno: cd6e48b3d2c9e24f
        bittorrent-biased sim-fluid: b7b5a43580dd2ea9
        bittorrent-biased sim-packet: e36e926fca8f2e4a
        bittorrent-biased sim-packet-bbr: f315140b222eb970
        bittorrent-biased sim-packet-reno: 6aa602c19ffccbda
        faults 7: 3bfae4eb9c1a2d3e
    "#]]
    .assert_eq(&hashes);
}
