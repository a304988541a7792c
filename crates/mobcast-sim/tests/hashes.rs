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
        mob sim-fluid: da8c0ca654fdc38d
        mob sim-packet: f9bf7dc8a8eabe8a
        mob sim-packet-bbr: 73b7814b97a76902
        mob sim-packet-reno: 226cb47a9acdd38e
        mob-hpdc07 sim-fluid: 9a8baf1008b6f311
        mob-hpdc07 sim-packet: b3c8cf740bcac706
        mob-hpdc07 sim-packet-bbr: 519d80bcb007d204
        mob-hpdc07 sim-packet-reno: 6f53c821b7ae6822
        robber-tpds11 sim-fluid: c3d29831286cf363
        robber-tpds11 sim-packet: a4e25d5a8bac1230
        robber-tpds11 sim-packet-bbr: d248047a12848fbc
        robber-tpds11 sim-packet-reno: 3baa9e2fd4e9a747
        flat sim-fluid: 0e5a8dd287c2f4ad
        flat sim-packet: 0f8c2a5ae4aa560b
        flat sim-packet-bbr: 228c99cbb760faa3
        flat sim-packet-reno: a9ca01e65ed12852
        chain sim-fluid: 24d9592d94fa9325
        chain sim-packet: 033c187f771bfad9
        chain sim-packet-bbr: 2d66f6189c88ce21
        chain sim-packet-reno: 5fa539a1b11f1d69
        binomial sim-fluid: 8539c07550be6a0d
        binomial sim-packet: f429f82abeceb54c
        binomial sim-packet-bbr: 512f76a0c8fcd9fd
        binomial sim-packet-reno: d532d87cc1ac1f3c
        scatter-allgather sim-fluid: fb346f2c38d4dd79
        scatter-allgather sim-packet: 566fb37f7545bc36
        scatter-allgather sim-packet-bbr: 1bd094044624aa5b
        scatter-allgather sim-packet-reno: f03f516312f2e520
        magpie sim-fluid: 1736afdc117ceaaf
        magpie sim-packet: 0a5d26c37ba3d99f
        magpie sim-packet-bbr: 3d32f213be448b43
        magpie sim-packet-reno: abe33eeafed10321
        fpfr sim-fluid: 97a60f33294e149a
        fpfr sim-packet: 59e3b35344bee625
        fpfr sim-packet-bbr: d655cd1a771af1a9
        fpfr sim-packet-reno: c4bfda7cf086abff
        balanced sim-fluid: ee44530c7e1d91f4
        balanced sim-packet: 577771bee3a34033
        balanced sim-packet-bbr: 599e37cae59b332d
        balanced sim-packet-reno: 0217115710317dac
        optimal-trees sim-fluid: 7a7c9cb55bdc80a9
        optimal-trees sim-packet: 3ca7de7749e809a4
        optimal-trees sim-packet-bbr: eb9334ef2efbcce1
        optimal-trees sim-packet-reno: acff86f23262f9a5
        bittorrent sim-fluid: 08fdade571803124
        bittorrent sim-packet: d083c79b7b9c8a27
        bittorrent sim-packet-bbr: 81a8c5786b235cde
        bittorrent sim-packet-reno: a0a02f3e2804fb54
        bittorrent-rarest sim-fluid: f0f37b520c4e7336
        bittorrent-rarest sim-packet: b2a3435d96787a3a
        bittorrent-rarest sim-packet-bbr: 702384e6b360deae
        bittorrent-rarest sim-packet-reno: 0eb86abc4cd0b089
        bittorrent-biased sim-fluid: a7d8a47004863402
        bittorrent-biased sim-packet: dc8e02ed13a95f08
        bittorrent-biased sim-packet-bbr: 794cd59865d32232
        bittorrent-biased sim-packet-reno: 14814e6a93be1e85
        faults 7: 3cce5067bcb8272b
    "#]]
    .assert_eq(&hashes);
}
