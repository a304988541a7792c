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
        mob sim-fluid: 9fa1e4859b75eccf
        mob sim-packet: 51854a8bd227ed9f
        mob sim-packet-bbr: 940b52c71395f11a
        mob sim-packet-reno: 83a0b735034e3f89
        mob-hpdc07 sim-fluid: 2a628f9842efb363
        mob-hpdc07 sim-packet: 8c997c0ba0f2a939
        mob-hpdc07 sim-packet-bbr: 48b2c688fe491715
        mob-hpdc07 sim-packet-reno: 44f4367a2cae4a24
        robber-tpds11 sim-fluid: ae3ff0bdd36804db
        robber-tpds11 sim-packet: ebfed4499cbd8df6
        robber-tpds11 sim-packet-bbr: d2046ad09b390a24
        robber-tpds11 sim-packet-reno: 781acb8298ac0c56
        flat sim-fluid: f7d65d4bf7ab024e
        flat sim-packet: e111989d68362241
        flat sim-packet-bbr: 5dfaed85543e6ab5
        flat sim-packet-reno: 4da23b5eea0f032c
        chain sim-fluid: 7d4b1184c4364a3b
        chain sim-packet: ca3d21f1c2898fe4
        chain sim-packet-bbr: 045a572246289b0f
        chain sim-packet-reno: e48bcadc068f1e6f
        binomial sim-fluid: bc675fc93daf2322
        binomial sim-packet: 7f87d4d11d2bac08
        binomial sim-packet-bbr: 138796663332efe3
        binomial sim-packet-reno: b71dcd441f8e8ffa
        scatter-allgather sim-fluid: 3f8088581c1a8d30
        scatter-allgather sim-packet: c0853bb90bb5ba58
        scatter-allgather sim-packet-bbr: f51fd298db1e58d7
        scatter-allgather sim-packet-reno: 0ac12052cc67c617
        two-trees sim-fluid: f7a550e6c596d8e6
        two-trees sim-packet: 5574a94dd75f2743
        two-trees sim-packet-bbr: 2e31653927a72ff2
        two-trees sim-packet-reno: 49a58b00040946a4
        magpie sim-fluid: b110c1fd783714f3
        magpie sim-packet: 9a6b97d23f9ec032
        magpie sim-packet-bbr: f85af9fb8f4bad0c
        magpie sim-packet-reno: d9e83786f80dabac
        fpfr sim-fluid: 00140a236d8043d8
        fpfr sim-packet: 1b99f22e31548cd9
        fpfr sim-packet-bbr: cdfffe2426dc1c21
        fpfr sim-packet-reno: d215675c749a7305
        balanced sim-fluid: b785b2e653904690
        balanced sim-packet: afa122048e8a44f1
        balanced sim-packet-bbr: 27b05a40f399fab9
        balanced sim-packet-reno: 94d9285c141f9ff5
        optimal-trees sim-fluid: f41308c7d10ae33b
        optimal-trees sim-packet: 39683c5a0198caee
        optimal-trees sim-packet-bbr: 9de6f01a2d513791
        optimal-trees sim-packet-reno: 224645a5f602f6a7
        bittorrent sim-fluid: 4d1b6c3429a54f7f
        bittorrent sim-packet: 25b9823bfad0fd54
        bittorrent sim-packet-bbr: f0d788e13a43c11c
        bittorrent sim-packet-reno: 2453fc341fd19dfc
        bittorrent-rarest sim-fluid: 87dc878b75b8f8c3
        bittorrent-rarest sim-packet: 4d127eec9f399bcf
        bittorrent-rarest sim-packet-bbr: dc2fa26ddfac44d7
        bittorrent-rarest sim-packet-reno: f98ab12f965b4b5e
        bittorrent-biased sim-fluid: 12f8898e3b6acce1
        bittorrent-biased sim-packet: c4711ebe6df7b007
        bittorrent-biased sim-packet-bbr: 27e52796ec032d76
        bittorrent-biased sim-packet-reno: 1145538daf61ad11
        stripes Ns2Reno: 73b1795ef4afd55b
        stripes Cubic: 16f027a5016d4efb
        stripes Bbr: 2e811072cc4a6c1f
        faults 7: 86d855aa6a5ecac3
    "#]]
    .assert_eq(&hashes);
}
