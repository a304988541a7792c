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
        mob sim-fluid: 59393d618a4bd0bd
        mob sim-packet: f42ae6be0731a604
        mob sim-packet-bbr: c78c6bfbc6b7b511
        mob sim-packet-reno: 04771002f560fa1e
        faults 7: 89454e903ef4984d
    "#]]
    .assert_eq(&hashes);
}
