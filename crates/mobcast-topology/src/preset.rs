//! Networks that experiments refer to by name. The MOB paper's own figure is lost; its matrix here ("M2") satisfies
//! every constraint that the paper's text gives. MB/s are 10^6 bytes per second.

use crate::network::{Cluster, ClusterIndex, Topology, WanLink};

/// One-way delay of the M2 links: half the paper's round-trip time of 20 ms.
pub const M2_ONE_WAY_DELAY_NS: u64 = 10_000_000;

/// M2, scenario `fast`: AB 3, AC 4, AD 3, BC 3, BD 4, CD 8 MB/s. Root in A; optimum 10.0 MB/s.
pub fn m2_fast(nodes_per_cluster: u32) -> Topology {
    m2(nodes_per_cluster, 3_000_000)
}

/// M2, scenario `slow`: as `fast` with AD and BC at 0.8 MB/s. Optimum 7.8 MB/s.
pub fn m2_slow(nodes_per_cluster: u32) -> Topology {
    m2(nodes_per_cluster, 800_000)
}

fn m2(nodes_per_cluster: u32, ad_and_bc_bytes_per_s: u64) -> Topology {
    let changing = ad_and_bc_bytes_per_s;
    symmetric(
        &["A", "B", "C", "D"].map(|name| Cluster::new(name, nodes_per_cluster)),
        &[
            (0, 1, 3_000_000),
            (0, 2, 4_000_000),
            (0, 3, changing),
            (1, 2, changing),
            (1, 3, 4_000_000),
            (2, 3, 8_000_000),
        ],
        M2_ONE_WAY_DELAY_NS,
    )
}

/// A network of `clusters` with the given pairs linked at `(a, b, rate in bytes per second)` in both directions, all
/// with the same one-way delay in nanoseconds. Panics when a name comes twice or a pair names a cluster that is not
/// there: presets are written by us.
pub fn symmetric(clusters: &[Cluster], pairs: &[(u32, u32, u64)], one_way_delay_ns: u64) -> Topology {
    let mut topology = Topology::new();
    for cluster in clusters {
        topology.add_cluster(cluster.clone()).expect("a preset's names are unique");
    }
    for &(a, b, rate) in pairs {
        let link = WanLink::new(rate, one_way_delay_ns);
        topology.link_both(ClusterIndex(a), ClusterIndex(b), link).expect("a preset's pairs exist");
    }
    topology
}

/// `clusters` alike clusters of `template`, named c0, c1, …, with every pair linked at `rate_bytes_per_s` in both
/// directions and the same one-way delay in nanoseconds.
pub fn full_mesh(clusters: u32, template: &Cluster, rate_bytes_per_s: u64, one_way_delay_ns: u64) -> Topology {
    let named: Vec<Cluster> = (0..clusters).map(|i| Cluster { name: format!("c{i}"), ..template.clone() }).collect();
    let pairs: Vec<(u32, u32, u64)> =
        (0..clusters).flat_map(|a| (a + 1..clusters).map(move |b| (a, b, rate_bytes_per_s))).collect();
    symmetric(&named, &pairs, one_way_delay_ns)
}
