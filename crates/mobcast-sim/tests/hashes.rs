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
        mob-hpdc07 sim-fluid: 3b126bf673b32647
        mob-hpdc07 sim-packet: 3a215d93d1dae9c4
        mob-hpdc07 sim-packet-bbr: c47fc51f95e06205
        mob-hpdc07 sim-packet-reno: 385f7b91f08c18c3
        robber-tpds11 sim-fluid: 623e3fae7ca1de5d
        robber-tpds11 sim-packet: 1a81681eff219287
        robber-tpds11 sim-packet-bbr: fd9884b2bdfb8a7b
        robber-tpds11 sim-packet-reno: bebcfd4bbbdb7cd7
        flat sim-fluid: 0143fde50941e5ad
        flat sim-packet: a41879d8a12dad87
        flat sim-packet-bbr: f5ac93c92aaedd58
        flat sim-packet-reno: 853bd9b6744862c4
        chain sim-fluid: 3e77d2be07e09449
        chain sim-packet: 6f3ede6dbf910a03
        chain sim-packet-bbr: 3ea427e1db6b5bfc
        chain sim-packet-reno: 72538bb836576e17
        binomial sim-fluid: 97a996874ef627f7
        binomial sim-packet: 305c5be4b6875d67
        binomial sim-packet-bbr: eec5131c43ad5083
        binomial sim-packet-reno: 65eb955211440623
        scatter-allgather sim-fluid: 71d247469b059376
        scatter-allgather sim-packet: 2cbed48d68030871
        scatter-allgather sim-packet-bbr: 860c8ba9628f8358
        scatter-allgather sim-packet-reno: 8a5f65eed36628d5
        magpie sim-fluid: 82e676d5fa2c8fac
        magpie sim-packet: 5918d818862c7b8c
        magpie sim-packet-bbr: 92d201d57fd4a9e4
        magpie sim-packet-reno: c0c09b257bc8bf73
        fpfr sim-fluid: f3a1b44aaa4d6d82
        fpfr sim-packet: 22a4cb4c1da62743
        fpfr sim-packet-bbr: 436908abe4c24c08
        fpfr sim-packet-reno: d8dc7aa1c8ae3eb9
        balanced sim-fluid: 63d0967f5b9aed21
        balanced sim-packet: 63e17b9f5aa4adce
        balanced sim-packet-bbr: 6e4b025fc36db1ae
        balanced sim-packet-reno: 857a99b0d3f6c6e4
        optimal-trees sim-fluid: 323b379248e85b62
        optimal-trees sim-packet: bb9994cb1602b79b
        optimal-trees sim-packet-bbr: 5fc6a8847f9f4f13
        optimal-trees sim-packet-reno: 2a2bfa7d11866723
        bittorrent sim-fluid: 8db75a2f7cec695e
        bittorrent sim-packet: ba59e5f7aa64762d
        bittorrent sim-packet-bbr: 134790c02671ae9d
        bittorrent sim-packet-reno: bc131ac2323f225e
        bittorrent-rarest sim-fluid: 6fc53ee524cd0645
        bittorrent-rarest sim-packet: de1c5dadd9252155
        bittorrent-rarest sim-packet-bbr: db906ba8d3386ad9
        bittorrent-rarest sim-packet-reno: 347dd6664ccfe8bf
        bittorrent-biased sim-fluid: 6eac315679295536
        bittorrent-biased sim-packet: 030447568fe2f66f
        bittorrent-biased sim-packet-bbr: 199f56e27bd7c263
        bittorrent-biased sim-packet-reno: a7d4f4dd44739d75
        faults 7: 5629fd917b761684
    "#]]
    .assert_eq(&hashes);
}
