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
        mob sim-fluid: f81114e3bc71cad4
        mob sim-packet: 7d3e894eb379b4f8
        mob sim-packet-bbr: e1ee88dcf5589b76
        mob sim-packet-reno: 543747e275087fdc
        mob-hpdc07 sim-fluid: 183d016a6ab0555c
        mob-hpdc07 sim-packet: 5213e520546e861a
        mob-hpdc07 sim-packet-bbr: 4106a3258a8050bf
        mob-hpdc07 sim-packet-reno: d90314bbbd34645b
        robber-tpds11 sim-fluid: 5cef69eb5beb8a99
        robber-tpds11 sim-packet: 803e40fbedaff480
        robber-tpds11 sim-packet-bbr: d930a01b86573f48
        robber-tpds11 sim-packet-reno: 3160edc063e34360
        flat sim-fluid: 2a7aa29628868878
        flat sim-packet: 951e6b98ce11afcd
        flat sim-packet-bbr: d3aa3b74a8d36e99
        flat sim-packet-reno: 67ec6d01d00a1eed
        chain sim-fluid: b358e2221977ef2e
        chain sim-packet: 6b3601c0e5c6f9de
        chain sim-packet-bbr: bf99798863aedb47
        chain sim-packet-reno: 1880dffe9c8fbb58
        binomial sim-fluid: 34b521e585541335
        binomial sim-packet: 3f65aa7aa5cfb5b1
        binomial sim-packet-bbr: 764e54cc522baa38
        binomial sim-packet-reno: f31284a894e57b74
        scatter-allgather sim-fluid: 48695154427eff48
        scatter-allgather sim-packet: 51c7d023e0caa3bb
        scatter-allgather sim-packet-bbr: 3ca53250c3b19884
        scatter-allgather sim-packet-reno: 1131f8337b276694
        magpie sim-fluid: e3f3fe437da177c4
        magpie sim-packet: d7529f8a9fe0cbb3
        magpie sim-packet-bbr: a25334404386aa05
        magpie sim-packet-reno: 3d2acabc60d89c55
        fpfr sim-fluid: 6ab7131671d4763d
        fpfr sim-packet: f61a66e45c6db147
        fpfr sim-packet-bbr: 3623460b2303496c
        fpfr sim-packet-reno: c2cd8569db79d9d4
        balanced sim-fluid: 281ee13eac4db623
        balanced sim-packet: 314d8a62cce81580
        balanced sim-packet-bbr: 49d65b8d3a6b408d
        balanced sim-packet-reno: c0b1df855b3ed9fc
        optimal-trees sim-fluid: 42a36af9ebd57037
        optimal-trees sim-packet: b7bb49b252e07113
        optimal-trees sim-packet-bbr: 33f09657d0de5c04
        optimal-trees sim-packet-reno: ce328509c990eb35
        bittorrent sim-fluid: d03b7ad84c7d6762
        bittorrent sim-packet: 61b4a2dd66df35d1
        bittorrent sim-packet-bbr: afe238b962c7641c
        bittorrent sim-packet-reno: 1021badf46a102a3
        bittorrent-rarest sim-fluid: 7546cb1b840848f0
        bittorrent-rarest sim-packet: b3d4b7d60abf5869
        bittorrent-rarest sim-packet-bbr: d21aeb6c5fe91d56
        bittorrent-rarest sim-packet-reno: 6061273bb942572e
        bittorrent-biased sim-fluid: 9cd145d82ea463dc
        bittorrent-biased sim-packet: 5e119408c8810721
        bittorrent-biased sim-packet-bbr: 5eab3eceda32e622
        bittorrent-biased sim-packet-reno: cdf461b9b9aeaea9
        faults 7: eb1aec6136ae19ca
    "#]]
    .assert_eq(&hashes);
}
