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
        mob sim-fluid: 048fe2903a6caabb
        mob sim-packet: e673e086c3423e80
        mob sim-packet-bbr: 75157cb6e878ff10
        mob sim-packet-reno: 5419f945d9cc62a1
        mob-hpdc07 sim-fluid: 0e4dc7da0aadc856
        mob-hpdc07 sim-packet: 4ba5dc851fd17352
        mob-hpdc07 sim-packet-bbr: 67efb31e566a6031
        mob-hpdc07 sim-packet-reno: d827eec66abb241f
        robber-tpds11 sim-fluid: f8a10bf3ac3ac8a8
        robber-tpds11 sim-packet: b8055532dbc429c3
        robber-tpds11 sim-packet-bbr: 0ea9a51482509e64
        robber-tpds11 sim-packet-reno: dd86a9fd14bd59b2
        flat sim-fluid: 1ffa38a8f1c55b43
        flat sim-packet: 025142e039abb135
        flat sim-packet-bbr: f42a4a36d9c2b3cf
        flat sim-packet-reno: 4462a072f054fda9
        chain sim-fluid: 68a3c904caa31c2c
        chain sim-packet: 48383eb6475c989e
        chain sim-packet-bbr: 6197e6048c47ee5d
        chain sim-packet-reno: 650d95c7d9d5e870
        binomial sim-fluid: 00f22df18527c96c
        binomial sim-packet: 089d6a96fab03d77
        binomial sim-packet-bbr: 8cce8adb13e275e7
        binomial sim-packet-reno: 3fb763bd95048588
        scatter-allgather sim-fluid: 54d32a22e97ec4fc
        scatter-allgather sim-packet: f254d382b9beb787
        scatter-allgather sim-packet-bbr: 66faa9e26a73373d
        scatter-allgather sim-packet-reno: 30770f9139b9dc66
        magpie sim-fluid: b37cc31820897af0
        magpie sim-packet: 349f4b442b8f6ec0
        magpie sim-packet-bbr: b999d2d41fff6983
        magpie sim-packet-reno: 7fdffd4805cf5e2a
        fpfr sim-fluid: 6c62a4e8a8f9e397
        fpfr sim-packet: 150c393a5f907104
        fpfr sim-packet-bbr: b29155b0db09b416
        fpfr sim-packet-reno: afd18ff0cfafe562
        balanced sim-fluid: c1ffa0b62988508d
        balanced sim-packet: 25077328041f2cd1
        balanced sim-packet-bbr: f0cad0688be01319
        balanced sim-packet-reno: 371532cadc21fbe8
        optimal-trees sim-fluid: 936eca049dd685fd
        optimal-trees sim-packet: cd24e3d8f97d6445
        optimal-trees sim-packet-bbr: 5dc3efad66a3b697
        optimal-trees sim-packet-reno: e119acbdab3ca851
        bittorrent sim-fluid: 11011a658e4e72ed
        bittorrent sim-packet: ef3fd466ae8769b7
        bittorrent sim-packet-bbr: 2add7789f33c5f45
        bittorrent sim-packet-reno: c38890891b090e8b
        bittorrent-rarest sim-fluid: ee4eade75008b212
        bittorrent-rarest sim-packet: a7cad90215b722f7
        bittorrent-rarest sim-packet-bbr: db81eac56d72885e
        bittorrent-rarest sim-packet-reno: 9a378737a49a42fd
        bittorrent-biased sim-fluid: bd355fd1ad991910
        bittorrent-biased sim-packet: a1fb416407ff8029
        bittorrent-biased sim-packet-bbr: 20685885015ebb20
        bittorrent-biased sim-packet-reno: 2af3045dc80b028a
        faults 7: c85bf9e5813c388d
    "#]]
    .assert_eq(&hashes);
}
