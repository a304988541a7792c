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
        mob sim-fluid: 5278f5c19335f069
        mob sim-packet: d9a2fd95624d9a84
        mob sim-packet-bbr: 2a1176cb03f09495
        mob sim-packet-reno: 0e7df0b6458acaf8
        mob-hpdc07 sim-fluid: fa92911e45de25f0
        mob-hpdc07 sim-packet: a353a33c62aeb586
        mob-hpdc07 sim-packet-bbr: 66546f74bbe86ce7
        mob-hpdc07 sim-packet-reno: ba1c03a03881c068
        robber-tpds11 sim-fluid: 77b4f19dace4bab8
        robber-tpds11 sim-packet: 7edeba8621bcc8aa
        robber-tpds11 sim-packet-bbr: f31a7d3da2da5f33
        robber-tpds11 sim-packet-reno: cdd0ee7b180be408
        flat sim-fluid: 37983adeee105712
        flat sim-packet: 9b37a6215176ff5e
        flat sim-packet-bbr: 8c768a29849f5b11
        flat sim-packet-reno: e6caaabd2ac315d4
        chain sim-fluid: 31c168c7e73f588e
        chain sim-packet: 0110028148be0b03
        chain sim-packet-bbr: c8a4a799b53bd58b
        chain sim-packet-reno: 7e5473d432575129
        binomial sim-fluid: a70cea0141fee55e
        binomial sim-packet: 3197e39a90ee3e6f
        binomial sim-packet-bbr: 13beaba49d8fd6c4
        binomial sim-packet-reno: ec87bc0d7b5d1d3a
        scatter-allgather sim-fluid: 721697eb778666eb
        scatter-allgather sim-packet: 1467cadd3c65f2cc
        scatter-allgather sim-packet-bbr: 8be0db23c5e646f8
        scatter-allgather sim-packet-reno: 31fabf2b26d1760c
        magpie sim-fluid: 5fdfe6abeb8fa68d
        magpie sim-packet: e06a03aa76e5f07c
        magpie sim-packet-bbr: 464ec966d817457c
        magpie sim-packet-reno: 69a7af252b682a4c
        fpfr sim-fluid: de95e62adc3bcc5f
        fpfr sim-packet: 57848aee67cc65e2
        fpfr sim-packet-bbr: 63f6d9827c469586
        fpfr sim-packet-reno: 84a7facf1ba91e8f
        balanced sim-fluid: 3be73435fb267a46
        balanced sim-packet: 8741db6b600fe694
        balanced sim-packet-bbr: cccad8eddebf144f
        balanced sim-packet-reno: 6216de117ebc3e9d
        optimal-trees sim-fluid: b35b60c4201e169d
        optimal-trees sim-packet: 83978b62f40db429
        optimal-trees sim-packet-bbr: 7047eb31a73fcf52
        optimal-trees sim-packet-reno: 2b7d00456c0873fa
        bittorrent sim-fluid: 2f4fb4465d0b3557
        bittorrent sim-packet: 6d47336fce98ccd7
        bittorrent sim-packet-bbr: 8603248cb5247efe
        bittorrent sim-packet-reno: 09654a723cbfe9ba
        bittorrent-rarest sim-fluid: d9d30a20a33ed813
        bittorrent-rarest sim-packet: 743f640a47cb5c34
        bittorrent-rarest sim-packet-bbr: 7049f5d7c4b60faf
        bittorrent-rarest sim-packet-reno: d32409b9af879683
        bittorrent-biased sim-fluid: 28d2c33bbe6eaa8a
        bittorrent-biased sim-packet: 6d0c70ba9e447dfd
        bittorrent-biased sim-packet-bbr: 1fd5ef8bec09ba14
        bittorrent-biased sim-packet-reno: be35688fa95e90bd
        faults 7: 1609933015cb822d
    "#]]
    .assert_eq(&hashes);
}
