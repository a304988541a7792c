//! What the lab says to its hub, and what the hub answers: one JSON line each, over a Unix socket.

use mobcast_topology::{Change, Cluster, ClusterIndex, LinkRef, QueueLimit, Scenario, Topology, WanLink};
use serde::{Deserialize, Serialize};

use super::switch::Counters;

/// What the hub is asked.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// The links become these, empty; counters start at zero; changes happen from this moment on.
    Begin(Links),
    /// What the counters hold.
    Read,
    /// The hub ends.
    End,
}

/// What the hub answers.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// Links and counters are set.
    Begun,
    /// What the counters hold.
    Counts(Box<Counts>),
    /// The hub ends.
    Ending,
}

/// The links of a scenario. Clusters go by their number.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Links {
    seed: u64,
    access_out: Vec<Option<u64>>,
    access_in: Vec<Option<u64>>,
    wan: Vec<Link>,
    changes: Vec<(u64, LinkName, Option<u64>)>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Link {
    from: u32,
    to: u32,
    rate_bytes_per_s: Option<u64>,
    one_way_delay_ns: u64,
    loss_per_million: u32,
    queue_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
enum LinkName {
    Wan(u32, u32),
    AccessOut(u32),
    AccessIn(u32),
}

impl Links {
    /// The links of a scenario and their changes. What only the simulator has, is left out.
    pub fn new(scenario: &Scenario, seed: u64) -> Links {
        let topology = &scenario.topology;
        let wan = topology.wan_links().map(|(from, to, link)| Link {
            from: from.0,
            to: to.0,
            rate_bytes_per_s: link.rate_bytes_per_s,
            one_way_delay_ns: link.one_way_delay_ns,
            loss_per_million: link.loss_per_million,
            queue_bytes: link.queue_bytes(),
        });
        let change = |change: &Change| {
            let name = match change.link {
                LinkRef::Wan { from, to } => LinkName::Wan(from.0, to.0),
                LinkRef::AccessOut(cluster) => LinkName::AccessOut(cluster.0),
                LinkRef::AccessIn(cluster) => LinkName::AccessIn(cluster.0),
                LinkRef::Fabric(_) => return None,
            };
            Some((change.at_ns, name, change.rate_bytes_per_s))
        };
        Links {
            seed,
            access_out: topology.clusters().iter().map(|c| c.access_out_bytes_per_s).collect(),
            access_in: topology.clusters().iter().map(|c| c.access_in_bytes_per_s).collect(),
            wan: wan.collect(),
            changes: scenario.changes.iter().filter_map(change).collect(),
        }
    }

    /// As a scenario again, with clusters named by their number, and the seed.
    pub fn scenario(&self) -> (Scenario, u64) {
        let mut topology = Topology::new();
        for (number, (out, into)) in self.access_out.iter().zip(&self.access_in).enumerate() {
            let mut cluster = Cluster::new(number.to_string(), 1);
            (cluster.access_out_bytes_per_s, cluster.access_in_bytes_per_s) = (*out, *into);
            topology.add_cluster(cluster).expect("numbers are unique");
        }
        for link in &self.wan {
            let (from, to) = (ClusterIndex(link.from), ClusterIndex(link.to));
            let queue = QueueLimit::Bytes(link.queue_bytes);
            let loss_per_million = link.loss_per_million;
            let link =
                WanLink { queue, loss_per_million, ..WanLink::new(link.rate_bytes_per_s, link.one_way_delay_ns) };
            // A link between clusters that are not there carries nothing anyway.
            let _ = topology.link(from, to, link);
        }
        let changes = self.changes.iter().map(|&(at_ns, name, rate_bytes_per_s)| {
            let link = match name {
                LinkName::Wan(from, to) => LinkRef::Wan { from: ClusterIndex(from), to: ClusterIndex(to) },
                LinkName::AccessOut(cluster) => LinkRef::AccessOut(ClusterIndex(cluster)),
                LinkName::AccessIn(cluster) => LinkRef::AccessIn(ClusterIndex(cluster)),
            };
            Change { at_ns, link, rate_bytes_per_s }
        });
        (Scenario { topology, changes: changes.collect() }, self.seed)
    }
}

/// What has passed since `Begin`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// When `Begin` was, on the machine's monotonic clock, in nanoseconds.
    pub begun_ns: u64,
    /// Each link of a pair of clusters.
    pub links: Vec<LinkCounts>,
    /// At each time (nanoseconds since `Begin`), the unique bytes of each link in the order of `links`.
    pub samples: Vec<(u64, Vec<u64>)>,
    /// Changes of rates that took place.
    pub changes: u32,
    /// Packets that left the hub, by how late they were: below 2^i microseconds at `[i]`, and not below 2^(i-1).
    pub late: Vec<u64>,
    /// The latest of them, in nanoseconds.
    pub late_max_ns: u64,
    /// Packets that a device did not take.
    pub refused: u64,
}

/// One direction of the link between two clusters, which go by their numbers.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LinkCounts {
    /// The sending cluster.
    pub from: u32,
    /// The receiving cluster.
    pub to: u32,
    /// What it has carried.
    #[serde(flatten)]
    pub counters: Counters,
}

impl Counts {
    /// Milliseconds by which a packet was late in `part` of the cases at most (upper end of its class).
    pub fn late_ms(&self, part: f64) -> f64 {
        let total: u64 = self.late.iter().sum();
        let mut seen = 0;
        for (class, count) in self.late.iter().enumerate() {
            seen += count;
            if seen as f64 >= part * total as f64 {
                return (1u64 << class) as f64 / 1_000.0;
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mobcast_topology::preset;

    #[test]
    fn links_survive_the_socket() {
        let mut scenario = Scenario::switch(preset::m2_fast(2), &preset::m2_slow(2), 9);
        scenario.topology.cluster_mut(ClusterIndex(1)).unwrap().access_in_bytes_per_s = Some(5);
        scenario.changes.push(Change { at_ns: 10, link: LinkRef::AccessIn(ClusterIndex(1)), rate_bytes_per_s: None });
        let text = serde_json::to_string(&Links::new(&scenario, 3)).unwrap();
        let (again, seed) = serde_json::from_str::<Links>(&text).unwrap().scenario();
        assert_eq!((seed, &again.changes), (3, &scenario.changes));
        for (from, to, link) in scenario.topology.wan_links() {
            let other = again.topology.wan(from, to).unwrap();
            assert_eq!(other.rate_bytes_per_s, link.rate_bytes_per_s);
            assert_eq!((other.one_way_delay_ns, other.queue_bytes()), (link.one_way_delay_ns, link.queue_bytes()));
        }
        assert_eq!(again.topology.clusters()[1].access_in_bytes_per_s, Some(5));
    }

    #[test]
    fn lateness_is_told_by_classes() {
        let counts = Counts { late: vec![90, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1], ..Counts::default() };
        assert_eq!((counts.late_ms(0.5), counts.late_ms(0.99), counts.late_ms(1.0)), (0.001, 1.024, 4.096));
    }
}
