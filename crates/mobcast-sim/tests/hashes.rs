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
        mob sim-fluid: bf6895890ad379e1
        mob sim-packet: df9f342025198ce7
        mob sim-packet-bbr: 779076ea227fea07
        mob sim-packet-reno: b1e1f80f713b51bd
        mob-hpdc07 sim-fluid: 38f418c91a5d9ae2
        mob-hpdc07 sim-packet: 6afc1480a10f5e88
        mob-hpdc07 sim-packet-bbr: 703debe388fde775
        mob-hpdc07 sim-packet-reno: 32f310dc2d9c1b47
        robber-tpds11 sim-fluid: 8a30756374797a0d
        robber-tpds11 sim-packet: 0cb907a92fd8fd22
        robber-tpds11 sim-packet-bbr: 18deee933397a11d
        robber-tpds11 sim-packet-reno: 7c12b69f44524a61
        flat sim-fluid: ed169ece14a6155f
        flat sim-packet: 93f7a260e9ae55dc
        flat sim-packet-bbr: 8c68f2f827c1be5a
        flat sim-packet-reno: 3e4e1251ff737e03
        chain sim-fluid: e042588b53fa5f9b
        chain sim-packet: 61b38582688a4f1e
        chain sim-packet-bbr: 88d00ee9a22a3c18
        chain sim-packet-reno: a52238b757ad2236
        binomial sim-fluid: 89c5b38dd9010de5
        binomial sim-packet: 26c404d375691fb9
        binomial sim-packet-bbr: ef45760a23d7ab67
        binomial sim-packet-reno: 5bbdf134d18af1ae
        scatter-allgather sim-fluid: d5ee39e8e2435dae
        scatter-allgather sim-packet: f77a1c495df4b10f
        scatter-allgather sim-packet-bbr: a1a41b881f757d87
        scatter-allgather sim-packet-reno: 5470534cbd2c190d
        magpie sim-fluid: 165bb18d8730489f
        magpie sim-packet: 83def73217620771
        magpie sim-packet-bbr: 79be5e126aff6513
        magpie sim-packet-reno: 7e4bf8387aad4b74
        fpfr sim-fluid: ede60dcb5d01e6d9
        fpfr sim-packet: 76424de00c1b0329
        fpfr sim-packet-bbr: c3571406b7a1d62c
        fpfr sim-packet-reno: 61df07bb0187a7cb
        balanced sim-fluid: 46a7ecd4d7299bc7
        balanced sim-packet: cfd5d2c57ad91be6
        balanced sim-packet-bbr: 407f1f889fe21f59
        balanced sim-packet-reno: a3f1055cc49135e4
        optimal-trees sim-fluid: bd3fe617005ee2b9
        optimal-trees sim-packet: 3857673469010801
        optimal-trees sim-packet-bbr: 6f1ec708558fac20
        optimal-trees sim-packet-reno: 9f98df584e139940
        bittorrent sim-fluid: 5bc76fcb83c8e484
        bittorrent sim-packet: 4cbb86d7a1ec7394
        bittorrent sim-packet-bbr: 96aa6631c63c2085
        bittorrent sim-packet-reno: e715c61022fc445a
        bittorrent-rarest sim-fluid: 1f555f6ac0e8cde1
        bittorrent-rarest sim-packet: 11a3afbfa715ac9e
        bittorrent-rarest sim-packet-bbr: 81a195cf17bb1813
        bittorrent-rarest sim-packet-reno: 01bfaa3638aa8cc0
        bittorrent-biased sim-fluid: 8474eb5ed3aa78d0
        bittorrent-biased sim-packet: f99f1cec32efbdd4
        bittorrent-biased sim-packet-bbr: c958f2463921aa93
        bittorrent-biased sim-packet-reno: d0e3612fcd967984
        faults 7: 78604d9125f5b5ea
    "#]]
    .assert_eq(&hashes);
}
