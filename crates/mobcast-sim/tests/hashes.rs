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
        mob sim-fluid: 32b0ac217e6dd201
        mob sim-packet: e5bd1b6c9e1efd99
        mob sim-packet-bbr: c70d76ae69e95f29
        mob sim-packet-reno: 0cc4ba32b5f80504
        mob-hpdc07 sim-fluid: 09b3376bc0ee974e
        mob-hpdc07 sim-packet: fc3784bba310c4ee
        mob-hpdc07 sim-packet-bbr: 95df023db128567b
        mob-hpdc07 sim-packet-reno: 1697e40023e05455
        robber-tpds11 sim-fluid: 1e11d84d4964c578
        robber-tpds11 sim-packet: 365bbb8b8b19899a
        robber-tpds11 sim-packet-bbr: 67e71352f424b794
        robber-tpds11 sim-packet-reno: c71a2d2f6caf3ecf
        flat sim-fluid: f74b3fc43f74db98
        flat sim-packet: d58ee585b7d74901
        flat sim-packet-bbr: fa6009d847b62da7
        flat sim-packet-reno: cf3c9c729a3659d7
        chain sim-fluid: cda351da24241f54
        chain sim-packet: 02352a9f1926ee1d
        chain sim-packet-bbr: 641b7abce2957aa3
        chain sim-packet-reno: 5efbc94153442fdd
        binomial sim-fluid: 3c7455c0e74fa763
        binomial sim-packet: 8d9e5753e6b10ae2
        binomial sim-packet-bbr: 22b520a960dca43d
        binomial sim-packet-reno: 8cbb515b2435135a
        scatter-allgather sim-fluid: 9aa8a93d2473e253
        scatter-allgather sim-packet: a8b16380f4705197
        scatter-allgather sim-packet-bbr: 165f4898da3c51f9
        scatter-allgather sim-packet-reno: eba6c40b60536c22
        magpie sim-fluid: 44c84bd5b32e1239
        magpie sim-packet: 94b0b6073718addb
        magpie sim-packet-bbr: 333ef67bdf3cb3a5
        magpie sim-packet-reno: 56f71e3d7e7ed6e0
        fpfr sim-fluid: fce9ef42094c57ee
        fpfr sim-packet: b001d3de429721a8
        fpfr sim-packet-bbr: c7b921950466b7b3
        fpfr sim-packet-reno: 42f8f41b2a25d343
        balanced sim-fluid: 15eba0cedb73ad79
        balanced sim-packet: 08aa640da6f6ad4a
        balanced sim-packet-bbr: 21aefe91360835aa
        balanced sim-packet-reno: 6789ddbe3d65dbc6
        optimal-trees sim-fluid: 37980150896237c2
        optimal-trees sim-packet: e550a1dec2a192b9
        optimal-trees sim-packet-bbr: d1f11339e10fb959
        optimal-trees sim-packet-reno: e9ced034e3f4408f
        bittorrent sim-fluid: 884d6d8957f39170
        bittorrent sim-packet: 6d47336fce98ccd7
        bittorrent sim-packet-bbr: 8603248cb5247efe
        bittorrent sim-packet-reno: 09654a723cbfe9ba
        bittorrent-rarest sim-fluid: 28f6dd6dae27d987
        bittorrent-rarest sim-packet: 743f640a47cb5c34
        bittorrent-rarest sim-packet-bbr: 7049f5d7c4b60faf
        bittorrent-rarest sim-packet-reno: d32409b9af879683
        bittorrent-biased sim-fluid: 441520d9ca213be4
        bittorrent-biased sim-packet: 6d0c70ba9e447dfd
        bittorrent-biased sim-packet-bbr: 1fd5ef8bec09ba14
        bittorrent-biased sim-packet-reno: be35688fa95e90bd
        faults 7: 9c4515c8d464902a
    "#]]
    .assert_eq(&hashes);
}
