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
        mob sim-fluid: 2d0472b764625aed
        mob sim-packet: 2e12cab90de6ba74
        mob sim-packet-bbr: f17ca4b954d58214
        mob sim-packet-reno: 78fe59c5908eb57c
        mob-hpdc07 sim-fluid: 5f06087f786d21d4
        mob-hpdc07 sim-packet: e642d8b0bf5159a6
        mob-hpdc07 sim-packet-bbr: 0db897b0a2167e7a
        mob-hpdc07 sim-packet-reno: d2fd11621173f488
        robber-tpds11 sim-fluid: 3bdd32cbae0554d1
        robber-tpds11 sim-packet: 923a44e99c43f56e
        robber-tpds11 sim-packet-bbr: 19422789e5c796b9
        robber-tpds11 sim-packet-reno: c2997c4a4df366e3
        flat sim-fluid: 8ff89554b502bcf0
        flat sim-packet: 7e044150b8a33529
        flat sim-packet-bbr: 85f078017d55e23a
        flat sim-packet-reno: 853bd9b6744862c4
        chain sim-fluid: 68c8958bf0c8c63e
        chain sim-packet: 2057ad49f89d392d
        chain sim-packet-bbr: f53cf51621e3b995
        chain sim-packet-reno: 73c39615bcb55577
        binomial sim-fluid: 9a0e9ea3ce7d63f6
        binomial sim-packet: b5ce02f84da1d126
        binomial sim-packet-bbr: cd84c095d49ec9cb
        binomial sim-packet-reno: 11404f78b6d7e3a0
        scatter-allgather sim-fluid: d7b4b7b6b5b6b65a
        scatter-allgather sim-packet: 03651cdf0a8ccc88
        scatter-allgather sim-packet-bbr: 9a781e6ca827baea
        scatter-allgather sim-packet-reno: 17a52a315271b9de
        magpie sim-fluid: e76f698ebd1e5ffd
        magpie sim-packet: 42d04d0d0fc1bb6a
        magpie sim-packet-bbr: 078daccc399c908e
        magpie sim-packet-reno: 86adb147d0f64c5a
        fpfr sim-fluid: 724e2ed076dbf3bb
        fpfr sim-packet: 6cdd2a3710e58a8f
        fpfr sim-packet-bbr: 5d7893d9ddac1235
        fpfr sim-packet-reno: 848e51fda0969dc4
        balanced sim-fluid: d9a4bc325fac1d7a
        balanced sim-packet: bb5b1fd88aa337df
        balanced sim-packet-bbr: 92359a98f017f712
        balanced sim-packet-reno: 65ffadc13fc41763
        optimal-trees sim-fluid: 5b61146e9607d3f5
        optimal-trees sim-packet: 7381db85dec18ee6
        optimal-trees sim-packet-bbr: ec9258d677659135
        optimal-trees sim-packet-reno: 94561729f943fe6e
        bittorrent sim-fluid: 4b1f94566ad2da1d
        bittorrent sim-packet: 1f6398ff780f8b90
        bittorrent sim-packet-bbr: db459ae2a5fd627b
        bittorrent sim-packet-reno: abac622274d1296d
        bittorrent-rarest sim-fluid: 8b5039018e188761
        bittorrent-rarest sim-packet: 73a6d620f01e175a
        bittorrent-rarest sim-packet-bbr: 021390b9a148de93
        bittorrent-rarest sim-packet-reno: 3b20ffc5a8e5f694
        bittorrent-biased sim-fluid: 278f761e8615d64c
        bittorrent-biased sim-packet: 796d209c43236800
        bittorrent-biased sim-packet-bbr: 4c062f1124df828d
        bittorrent-biased sim-packet-reno: 7ef11cbf3e24be1d
        faults 7: 5629fd917b761684
    "#]]
    .assert_eq(&hashes);
}
