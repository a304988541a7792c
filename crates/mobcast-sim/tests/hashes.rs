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
use mobcast_sim::striping::simulate;
use mobcast_topology::files::striping::{StripingCase, StripingExperiment, StripingTcp};
use mobcast_topology::record::StripingRecord;
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

/// A run of the striping paper's network, without the protocol.
fn stripes(tcp: StripingTcp, delayed_ack_ns: Option<u64>) -> StripingRecord {
    let paper = StripingExperiment::of_the_paper("stripes");
    let experiment = StripingExperiment { tcp, delayed_ack_ns, bytes_per_node: 1 << 20, ..paper };
    let case = StripingCase {
        nodes: 2,
        between_bytes_per_s: 1_250_000,
        round_trip_ns: 20_000_000,
        stripes: 8,
        queue_packets: 20,
    };
    simulate(&experiment, &case)
}

#[test]
fn stripes_are_the_same_run_again_and_receivers_may_delay_acknowledgements_or_not() {
    let hash = |tcp, delayed| stripes(tcp, delayed).trace_hash;
    let (ns2, cubic) = (StripingTcp::Ns2Reno, StripingTcp::Cubic);
    assert_eq!(hash(ns2, None), hash(ns2, None));
    assert_eq!((hash(ns2, Some(0)), hash(cubic, Some(40_000_000))), (hash(ns2, None), hash(cubic, None)), "as it is");
    assert_ne!(hash(ns2, Some(100_000_000)), hash(ns2, None));
    assert_ne!(hash(cubic, Some(0)), hash(cubic, None));
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
    for tcp in [StripingTcp::Ns2Reno, StripingTcp::Cubic, StripingTcp::Bbr] {
        writeln!(hashes, "stripes {tcp:?}: {}", stripes(tcp, None).trace_hash).expect("a string takes it");
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
        mob-hpdc07 sim-packet-reno: df50a18a8480b931
        robber-tpds11 sim-fluid: 5e6cf4a68dce4102
        robber-tpds11 sim-packet: 36d5f6a5656ad9a7
        robber-tpds11 sim-packet-bbr: 2880cc18619572bd
        robber-tpds11 sim-packet-reno: bdd050e655dddd29
        flat sim-fluid: ae3d0c36485a5e84
        flat sim-packet: 422f607c6dd94ace
        flat sim-packet-bbr: d22fca38ea3ddaf2
        flat sim-packet-reno: 33b1693b0862b27a
        chain sim-fluid: fc294d689808e12c
        chain sim-packet: 0db4afc6aa5ea342
        chain sim-packet-bbr: 070744602310f861
        chain sim-packet-reno: b8232d8c96c0ff2c
        binomial sim-fluid: c0368a455138e24f
        binomial sim-packet: 3e60a126bbc26650
        binomial sim-packet-bbr: 68a81b4ef7544a2e
        binomial sim-packet-reno: be8952ac636f86b0
        scatter-allgather sim-fluid: 8ed9f679938ec4d3
        scatter-allgather sim-packet: c9b4e663ce7c5609
        scatter-allgather sim-packet-bbr: 744dcd9c6206b8bd
        scatter-allgather sim-packet-reno: 1792729ad7871622
        magpie sim-fluid: a52c357ba9d617dd
        magpie sim-packet: 5c20f79ab6714a34
        magpie sim-packet-bbr: fe89b807f59af2f1
        magpie sim-packet-reno: 7c35295b7996531e
        fpfr sim-fluid: cc47903b82a35ca8
        fpfr sim-packet: f9759b419fe64ec2
        fpfr sim-packet-bbr: e2c458e4312569d4
        fpfr sim-packet-reno: 6014d79cbf165ea4
        balanced sim-fluid: 7c740ba53dd1783e
        balanced sim-packet: 1ed073c6821c26b5
        balanced sim-packet-bbr: 6d089d141df37088
        balanced sim-packet-reno: 880ee159ef8de716
        optimal-trees sim-fluid: 6923dd2d2a3ab00a
        optimal-trees sim-packet: 989228f20f9ec317
        optimal-trees sim-packet-bbr: bc881c92c6eb06a1
        optimal-trees sim-packet-reno: cf6e6dfae7fdd828
        bittorrent sim-fluid: ddac304b4ba51c43
        bittorrent sim-packet: dbf4e1e78bd35d15
        bittorrent sim-packet-bbr: de4096442e0381cd
        bittorrent sim-packet-reno: 6ed5ad26cc796a7c
        bittorrent-rarest sim-fluid: e09c28ece589e5a0
        bittorrent-rarest sim-packet: 1c75d50f76516955
        bittorrent-rarest sim-packet-bbr: 3d58c354d1d502c1
        bittorrent-rarest sim-packet-reno: b50a4b376b9102eb
        bittorrent-biased sim-fluid: 04b9d4f86d7f05ff
        bittorrent-biased sim-packet: 60c76c4c38e8e90a
        bittorrent-biased sim-packet-bbr: f3daf0269a6af616
        bittorrent-biased sim-packet-reno: 746edf9b85e61c13
        stripes Ns2Reno: 73b1795ef4afd55b
        stripes Cubic: c8709a631ca8ed25
        stripes Bbr: 8e6ba5fee77bd905
        faults 7: 010f04249ad628c4
    "#]]
    .assert_eq(&hashes);
}
