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
        mob sim-fluid: 67edcb77ebb58bc7
        mob sim-packet: da8d9110089c240a
        mob sim-packet-bbr: c1160b24c25ba8c0
        mob sim-packet-reno: e1eb16e6a059d772
        mob-hpdc07 sim-fluid: acc92490973de313
        mob-hpdc07 sim-packet: cb78d23716a691aa
        mob-hpdc07 sim-packet-bbr: 39a4f8aed42c4ce0
        mob-hpdc07 sim-packet-reno: e5d6255d4e3f12df
        robber-tpds11 sim-fluid: 5edfb92e43638774
        robber-tpds11 sim-packet: bd26960edd2801a1
        robber-tpds11 sim-packet-bbr: fc6f6bc2df70bce1
        robber-tpds11 sim-packet-reno: b167552b261eaa93
        flat sim-fluid: 8897c1ecafbe02fe
        flat sim-packet: 0c5a61062515216e
        flat sim-packet-bbr: aa26bf174c5fe3f3
        flat sim-packet-reno: bbddb1457053c442
        chain sim-fluid: ceadc1060c03aa37
        chain sim-packet: 5908a4a2e52ca040
        chain sim-packet-bbr: 7afcc35ebcb21130
        chain sim-packet-reno: d4f7084de4dac548
        binomial sim-fluid: 4160b9793eb4e8dc
        binomial sim-packet: c0881d8dad0c508f
        binomial sim-packet-bbr: d90e1af854ace2e4
        binomial sim-packet-reno: f709bc2bb6565dd7
        scatter-allgather sim-fluid: 2c59f0b0e4331284
        scatter-allgather sim-packet: dd09f9cf28ac0a95
        scatter-allgather sim-packet-bbr: 807214c0559f7640
        scatter-allgather sim-packet-reno: 3df4d7bd393f242e
        magpie sim-fluid: 1ca0be06a7f05132
        magpie sim-packet: 57b5b75f3dde7fdb
        magpie sim-packet-bbr: a8392a71ad887ecc
        magpie sim-packet-reno: 9da9f2f361470b81
        fpfr sim-fluid: 4532c705bb7f71c3
        fpfr sim-packet: b7f7b15367df2553
        fpfr sim-packet-bbr: bd6389c32aea1c71
        fpfr sim-packet-reno: acf8b3d076932f47
        balanced sim-fluid: 7da36d49acfd2098
        balanced sim-packet: 12ce783ab30276e4
        balanced sim-packet-bbr: 9e5cad83b0111dd1
        balanced sim-packet-reno: 23957a7676308429
        optimal-trees sim-fluid: 9199d828084e44fd
        optimal-trees sim-packet: ff75a5b9a0f8528f
        optimal-trees sim-packet-bbr: 6d07b3da423e6999
        optimal-trees sim-packet-reno: 72669ab0b9cb2aae
        bittorrent sim-fluid: 0e3efad88fadfb6e
        bittorrent sim-packet: 5b3bc896a639ac55
        bittorrent sim-packet-bbr: 1bd890dd993046f8
        bittorrent sim-packet-reno: 87df7a18abbf9c96
        bittorrent-rarest sim-fluid: 8ac16d5c56aecb07
        bittorrent-rarest sim-packet: cb3f37811b4d96bf
        bittorrent-rarest sim-packet-bbr: 2d420469f3d98d32
        bittorrent-rarest sim-packet-reno: cce469b2ea010c43
        bittorrent-biased sim-fluid: f3eeb2a7406c9554
        bittorrent-biased sim-packet: 16d15155423ef2d1
        bittorrent-biased sim-packet-bbr: 00db19b76aaa1f5d
        bittorrent-biased sim-packet-reno: b2aa746e301fa475
        faults 7: 78604d9125f5b5ea
    "#]]
    .assert_eq(&hashes);
}
