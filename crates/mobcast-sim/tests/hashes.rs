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
        mob sim-fluid: a2b71bf0e2f076fa
        mob sim-packet: ad146eb4aa691b1f
        mob sim-packet-bbr: 8bd2f9a71f8f4684
        mob sim-packet-reno: ff1fa3440fcddc2a
        mob-hpdc07 sim-fluid: b0358a137680622b
        mob-hpdc07 sim-packet: 105d116b527fd7f4
        mob-hpdc07 sim-packet-bbr: d71d8cfacd549be5
        mob-hpdc07 sim-packet-reno: fc28da735852cd0a
        robber-tpds11 sim-fluid: 7ded260e5aae07d0
        robber-tpds11 sim-packet: 4554709c43126602
        robber-tpds11 sim-packet-bbr: eb9c3dade65231e5
        robber-tpds11 sim-packet-reno: e967032ca410c0bf
        flat sim-fluid: b862d6f111bf895f
        flat sim-packet: 22222252d9890f5a
        flat sim-packet-bbr: 48fc7df05ef04fbd
        flat sim-packet-reno: 9b1e5313f7d18d08
        chain sim-fluid: 5e78332281c9dc4e
        chain sim-packet: 74384a9256fa043c
        chain sim-packet-bbr: f1c3a89d71180f89
        chain sim-packet-reno: 22b50934a400b1ec
        binomial sim-fluid: ea618d598959cc12
        binomial sim-packet: b5702c899670e2f3
        binomial sim-packet-bbr: d2190aeac5b33227
        binomial sim-packet-reno: 08523e0eca633484
        scatter-allgather sim-fluid: 6e6ee3bf8c34b839
        scatter-allgather sim-packet: feaa1fcdb0ab8dee
        scatter-allgather sim-packet-bbr: c94cde799b49bbc4
        scatter-allgather sim-packet-reno: 25c2f95399cb0125
        magpie sim-fluid: 51d2e811d6aaf6a9
        magpie sim-packet: b9ef233c0cf11eed
        magpie sim-packet-bbr: f23e06263dfea05a
        magpie sim-packet-reno: 087e815c85a411d0
        fpfr sim-fluid: a5d32805fc7c65cd
        fpfr sim-packet: 6dc0b0ce61164598
        fpfr sim-packet-bbr: c34415a7755f7933
        fpfr sim-packet-reno: a704125cf0ca88e3
        balanced sim-fluid: 4113a7fd701b1390
        balanced sim-packet: 46d65b23f99fbcd1
        balanced sim-packet-bbr: 47a83324bcb8ca18
        balanced sim-packet-reno: 5c704e06fd80107d
        optimal-trees sim-fluid: b0ebb0d2989bcbb3
        optimal-trees sim-packet: 01e690d4e488d98f
        optimal-trees sim-packet-bbr: ccb26be9d473b6d8
        optimal-trees sim-packet-reno: c2c1bf1c3352c83e
        bittorrent sim-fluid: 5d5a6c4af35585fe
        bittorrent sim-packet: 492eb604b9e081b3
        bittorrent sim-packet-bbr: 0a84593f5fbd4001
        bittorrent sim-packet-reno: 2c60f525da42c056
        bittorrent-rarest sim-fluid: 7780b8983e7bc447
        bittorrent-rarest sim-packet: 4d396509e57b6858
        bittorrent-rarest sim-packet-bbr: c481ef2da038f1c0
        bittorrent-rarest sim-packet-reno: ce4ce40ce26e0ac7
        bittorrent-biased sim-fluid: bf04f84058303ccb
        bittorrent-biased sim-packet: 03802b836a691f6b
        bittorrent-biased sim-packet-bbr: f7f0878a69aaeeee
        bittorrent-biased sim-packet-reno: 1b2495116d78d51b
        faults 7: 573ca776f34f7b18
    "#]]
    .assert_eq(&hashes);
}
