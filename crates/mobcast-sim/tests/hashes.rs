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
    let mut experiment = Experiment::new(Scenario::steady(preset::m2_fast(4)), 20_000_000, seed);
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
        flat sim-fluid: 36460dd49d284a44
        flat sim-packet: 5a77e3fe45f737d7
        flat sim-packet-bbr: c8e247dad5cfc38c
        flat sim-packet-reno: 9e838cd826fdcb13
        chain sim-fluid: bead85b34b81fdb4
        chain sim-packet: a814470391d8baff
        chain sim-packet-bbr: 540804d0d07cbb73
        chain sim-packet-reno: 0fae2dafa4167f27
        binomial sim-fluid: 9830a59eff9d9882
        binomial sim-packet: 1c1fba432b140307
        binomial sim-packet-bbr: 73bc5512ab9382d9
        binomial sim-packet-reno: 7a77cb976cb29dfd
        scatter-allgather sim-fluid: 8a9ea0dc1cefc43c
        scatter-allgather sim-packet: d152fdb6ddad3b17
        scatter-allgather sim-packet-bbr: 1fb0b61d666c9164
        scatter-allgather sim-packet-reno: 330206eb5effe984
        magpie sim-fluid: e4d914bcb2d16d03
        magpie sim-packet: 85224dd9237a3734
        magpie sim-packet-bbr: 5a2361affa4a05c3
        magpie sim-packet-reno: f8af76498167e542
        fpfr sim-fluid: ed7dbb74c97f0066
        fpfr sim-packet: 5a68196c232ad683
        fpfr sim-packet-bbr: 553e982b384c96ef
        fpfr sim-packet-reno: 7b8513ba265caa0d
        balanced sim-fluid: dcbea5313b84042d
        balanced sim-packet: fddddc013805ef17
        balanced sim-packet-bbr: 3ec372507fdf8e5e
        balanced sim-packet-reno: b79db711e1197cde
        optimal-trees sim-fluid: 05cab2945ac4bcb4
        optimal-trees sim-packet: a25955db73902e62
        optimal-trees sim-packet-bbr: 636de5336897a77a
        optimal-trees sim-packet-reno: b764ec061fbff2e7
        faults 7: 0315f59c975bdea5
    "#]]
    .assert_eq(&hashes);
}
