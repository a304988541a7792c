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
use mobcast_topology::{Cluster, ClusterIndex, Scenario, Topology, WanLink, preset};

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
fn packets_that_are_lost_by_chance_follow_the_seed() {
    let hash = |seed| {
        let mut topology = Topology::new();
        for name in ["a", "b"] {
            topology.add_cluster(Cluster::new(name, 1)).expect("the names differ");
        }
        let link = WanLink { loss_per_million: 20_000, ..WanLink::new(1_000_000, 10_000_000) };
        topology.link_both(ClusterIndex(0), ClusterIndex(1), link).expect("they are there");
        let mut experiment = Experiment::new(Scenario::steady(topology), 1_000_000, seed);
        experiment.network.model = PACKET;
        // The machines roll the same dice each time: what differs is the network.
        experiment.settings.seed = 1;
        let outcome = experiment.run();
        assert_eq!((outcome.stuck, outcome.complete.contains(&None)), (None, false));
        outcome.trace_hash
    };
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
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
        mob sim-fluid: 529b9161070e22df
        mob sim-packet: 7839c8ae6e8dfb36
        mob sim-packet-bbr: c3921c6b6c0364d7
        mob sim-packet-reno: 426c4add7f8bfe20
        mob-hpdc07 sim-fluid: 0d453d9f7594930c
        mob-hpdc07 sim-packet: a0746e144e651fb1
        mob-hpdc07 sim-packet-bbr: a480abf7a4ee6c8b
        mob-hpdc07 sim-packet-reno: d0b7e0a690c55043
        robber-tpds11 sim-fluid: 5e6cf4a68dce4102
        robber-tpds11 sim-packet: 36d5f6a5656ad9a7
        robber-tpds11 sim-packet-bbr: 2880cc18619572bd
        robber-tpds11 sim-packet-reno: ee9340536f37b5a4
        flat sim-fluid: ae3d0c36485a5e84
        flat sim-packet: 422f607c6dd94ace
        flat sim-packet-bbr: d22fca38ea3ddaf2
        flat sim-packet-reno: bb5cc9eca57e25db
        chain sim-fluid: fc294d689808e12c
        chain sim-packet: 0db4afc6aa5ea342
        chain sim-packet-bbr: 070744602310f861
        chain sim-packet-reno: 5c2440926069288d
        binomial sim-fluid: c0368a455138e24f
        binomial sim-packet: 3e60a126bbc26650
        binomial sim-packet-bbr: 68a81b4ef7544a2e
        binomial sim-packet-reno: ed07848ef4d96c26
        scatter-allgather sim-fluid: 8ed9f679938ec4d3
        scatter-allgather sim-packet: c9b4e663ce7c5609
        scatter-allgather sim-packet-bbr: 744dcd9c6206b8bd
        scatter-allgather sim-packet-reno: 16eda3a0f79e6a24
        magpie sim-fluid: a52c357ba9d617dd
        magpie sim-packet: 5c20f79ab6714a34
        magpie sim-packet-bbr: fe89b807f59af2f1
        magpie sim-packet-reno: 3bc1f279723f44fb
        fpfr sim-fluid: cc47903b82a35ca8
        fpfr sim-packet: 4a9a0bdb35f2c0f0
        fpfr sim-packet-bbr: 0d9bc81881bbd531
        fpfr sim-packet-reno: ed8b0da0cf8850e0
        balanced sim-fluid: 7c740ba53dd1783e
        balanced sim-packet: 10aaef966062de7e
        balanced sim-packet-bbr: 984d7e7f7ded2774
        balanced sim-packet-reno: 92457281de376142
        optimal-trees sim-fluid: 6923dd2d2a3ab00a
        optimal-trees sim-packet: 037a36f465648897
        optimal-trees sim-packet-bbr: 398358e14ce62f25
        optimal-trees sim-packet-reno: d2776b6efc7caf6a
        bittorrent sim-fluid: ddac304b4ba51c43
        bittorrent sim-packet: dbf4e1e78bd35d15
        bittorrent sim-packet-bbr: de4096442e0381cd
        bittorrent sim-packet-reno: c8492a3ee61048e0
        bittorrent-rarest sim-fluid: e09c28ece589e5a0
        bittorrent-rarest sim-packet: 1c75d50f76516955
        bittorrent-rarest sim-packet-bbr: 3d58c354d1d502c1
        bittorrent-rarest sim-packet-reno: 51cb0bebb39488c1
        bittorrent-biased sim-fluid: 04b9d4f86d7f05ff
        bittorrent-biased sim-packet: 60c76c4c38e8e90a
        bittorrent-biased sim-packet-bbr: f3daf0269a6af616
        bittorrent-biased sim-packet-reno: daeefe46b3884ba3
        faults 7: 010f04249ad628c4
    "#]]
    .assert_eq(&hashes);
}
