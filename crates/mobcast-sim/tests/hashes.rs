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
        mob sim-fluid: 9a20ad9822bcef99
        mob sim-packet: 3e161266ed0a7d16
        mob sim-packet-bbr: e707845a8e7643c4
        mob sim-packet-reno: ed77d50c5ae8b797
        mob-hpdc07 sim-fluid: aab074d4bf9707f0
        mob-hpdc07 sim-packet: 3671477c515afac0
        mob-hpdc07 sim-packet-bbr: 71e14ac2b86e5dab
        mob-hpdc07 sim-packet-reno: 25fb8ad4164c8967
        robber-tpds11 sim-fluid: 08d8e703f01706da
        robber-tpds11 sim-packet: 49a20cdf12c881e0
        robber-tpds11 sim-packet-bbr: 6fb87c8b8de3a004
        robber-tpds11 sim-packet-reno: a7c6218cd87b6bbd
        flat sim-fluid: ffe146345469da72
        flat sim-packet: 6f87bc249bb4a63e
        flat sim-packet-bbr: 82691c2593567b54
        flat sim-packet-reno: 7be629e0dd54a900
        chain sim-fluid: bdd7a3a036ead0d4
        chain sim-packet: f41fd8733aa43846
        chain sim-packet-bbr: cc57ac7bc913247e
        chain sim-packet-reno: 137a9ef46ea9fe33
        binomial sim-fluid: 0d30d8a774571783
        binomial sim-packet: d0b565e6e74048d8
        binomial sim-packet-bbr: 030757ec5c73c63e
        binomial sim-packet-reno: 596be057963c9a22
        scatter-allgather sim-fluid: 7eb7d2075c19f373
        scatter-allgather sim-packet: 05afd4916a1710d8
        scatter-allgather sim-packet-bbr: 8004a2bfaf10acde
        scatter-allgather sim-packet-reno: dce3093ea822ad39
        magpie sim-fluid: cc733aafe807ba96
        magpie sim-packet: c8df64e0e788cf3b
        magpie sim-packet-bbr: 82a987e519d6b726
        magpie sim-packet-reno: 97958417477e6fc9
        fpfr sim-fluid: 350937dc8b11be25
        fpfr sim-packet: 45af61d67ac69e07
        fpfr sim-packet-bbr: 31bf34cf9c8b42e9
        fpfr sim-packet-reno: d45d4880aeda692f
        balanced sim-fluid: 2f22c19df9f8366a
        balanced sim-packet: b70f740e28523385
        balanced sim-packet-bbr: f5b90e77fa2e80fb
        balanced sim-packet-reno: 6544adc9ccc97b99
        optimal-trees sim-fluid: dae94fe6ac2fa577
        optimal-trees sim-packet: 2b20433545b9d703
        optimal-trees sim-packet-bbr: 5d4eece6c2a49d39
        optimal-trees sim-packet-reno: a08e859452e92a61
        bittorrent sim-fluid: 20bd87aa0ba59dc1
        bittorrent sim-packet: 71b46566ea0aff8c
        bittorrent sim-packet-bbr: b59e00996f9d39f3
        bittorrent sim-packet-reno: b60166e36b1b0c33
        bittorrent-rarest sim-fluid: 91e3ef499ab4ea0d
        bittorrent-rarest sim-packet: f89ae574c146491e
        bittorrent-rarest sim-packet-bbr: 6e9bbee5b5b0ba5a
        bittorrent-rarest sim-packet-reno: d26bce7f5c343e3b
        bittorrent-biased sim-fluid: 78853d68289b1240
        bittorrent-biased sim-packet: 053d896287ea9cf8
        bittorrent-biased sim-packet-bbr: e800918c3546cca3
        bittorrent-biased sim-packet-reno: 5efccff32bb5e50f
        faults 7: 54fb4ae67d351959
    "#]]
    .assert_eq(&hashes);
}
