//! A network as clusters of alike nodes and directed links between clusters. Promises that what a [`Topology`] holds is
//! consistent (names unique, links between existing clusters); leaves to others what the numbers lead to.

use std::fmt;
use thiserror::Error;

/// A cluster of a topology, by its place in [`Topology::clusters`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct ClusterIndex(pub u32);

impl ClusterIndex {
    /// For indexing a `Vec`.
    pub fn as_usize(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ClusterIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cluster {}", self.0)
    }
}

/// Nodes with fast links between them, all alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cluster {
    /// Unique in its topology.
    pub name: String,
    /// Nodes at the start.
    pub nodes: u32,
    /// What one node's network card sends, in bytes per second.
    pub nic_out_bytes_per_s: Option<u64>,
    /// What one node's network card receives, in bytes per second.
    pub nic_in_bytes_per_s: Option<u64>,
    /// What a network card sends in this time, in nanoseconds, may leave it at once. Of emulated cards alone: how often they are looked at
    /// is what they take of a processor.
    pub nic_burst_ns: u64,
    /// A second network card in each node that carries what goes to other clusters and comes from them, so that the
    /// first one is left to the cluster's own network; none if one card carries everything.
    pub wan_nic: Option<WanNic>,
    /// What the cluster sends to all other clusters together, in bytes per second.
    pub access_out_bytes_per_s: Option<u64>,
    /// What the cluster receives from all other clusters together, in bytes per second.
    pub access_in_bytes_per_s: Option<u64>,
    /// What the cluster's own switches carry between its nodes, all together, in bytes per second.
    pub fabric_bytes_per_s: Option<u64>,
    /// One-way delay between two nodes of the cluster, in nanoseconds.
    pub lan_delay_ns: u64,
}

/// [`Cluster::nic_burst_ns`] where nothing else is said.
pub const NIC_BURST_NS: u64 = 2_000_000;

impl Cluster {
    /// A cluster whose nodes nothing limits but the WAN, with a delay of 50 µs between them.
    pub fn new(name: impl Into<String>, nodes: u32) -> Cluster {
        Cluster {
            name: name.into(),
            nodes,
            nic_out_bytes_per_s: None,
            nic_in_bytes_per_s: None,
            nic_burst_ns: NIC_BURST_NS,
            wan_nic: None,
            access_out_bytes_per_s: None,
            access_in_bytes_per_s: None,
            fabric_bytes_per_s: None,
            lan_delay_ns: 50_000,
        }
    }

    /// The same cluster with network cards of `rate_bytes_per_s` in each direction.
    pub fn with_nic(mut self, rate_bytes_per_s: u64) -> Cluster {
        self.nic_out_bytes_per_s = Some(rate_bytes_per_s);
        self.nic_in_bytes_per_s = Some(rate_bytes_per_s);
        self
    }

    /// The name of a node, counted from 1: `A1` is the first of cluster `A`.
    pub fn node_name(&self, number: u32) -> String {
        format!("{}{number}", self.name)
    }

    /// The same cluster with an access link of `rate_bytes_per_s` in each direction.
    pub fn with_access(mut self, rate_bytes_per_s: u64) -> Cluster {
        self.access_out_bytes_per_s = Some(rate_bytes_per_s);
        self.access_in_bytes_per_s = Some(rate_bytes_per_s);
        self
    }

    /// The same cluster with a one-way delay of `delay_ns` nanoseconds between its nodes.
    pub fn with_lan_delay(mut self, delay_ns: u64) -> Cluster {
        self.lan_delay_ns = delay_ns;
        self
    }
}

/// A network card for traffic with other clusters alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WanNic {
    /// What it sends, in bytes per second.
    pub out_bytes_per_s: Option<u64>,
    /// What it receives, in bytes per second.
    pub in_bytes_per_s: Option<u64>,
}

/// One direction of the link between two clusters, shared by all their nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WanLink {
    /// Capacity in bytes per second.
    pub rate_bytes_per_s: Option<u64>,
    /// One-way delay in nanoseconds.
    pub one_way_delay_ns: u64,
    /// Packets that are lost by chance, of a million.
    pub loss_per_million: u32,
    /// How much may wait for the link; what comes on top is lost.
    pub queue: QueueLimit,
}

impl WanLink {
    /// A link of this rate in bytes per second (none: no limit) and one-way delay in nanoseconds that loses nothing by
    /// chance, with the usual queue.
    pub fn new(rate_bytes_per_s: impl Into<Option<u64>>, one_way_delay_ns: u64) -> WanLink {
        let rate_bytes_per_s = rate_bytes_per_s.into();
        WanLink { rate_bytes_per_s, one_way_delay_ns, loss_per_million: 0, queue: QueueLimit::TwiceBdp }
    }

    /// Bytes that may wait for the link at its present rate.
    pub fn queue_bytes(&self) -> u64 {
        let rate = self.rate_bytes_per_s.unwrap_or(UNLIMITED_QUEUE_RATE);
        match self.queue {
            QueueLimit::Bytes(bytes) => bytes,
            QueueLimit::Nanoseconds(time_ns) => bytes_in(rate, time_ns),
            QueueLimit::TwiceBdp => bytes_in(rate, 4 * self.one_way_delay_ns).max(QUEUE_BYTES_MIN),
        }
    }
}

/// The shortest queue that [`QueueLimit::TwiceBdp`] stands for: 64 packets of 1,500 bytes.
const QUEUE_BYTES_MIN: u64 = 96_000;
/// What is taken for the rate of a link without limit where a queue is counted in time: 10 Gbit/s.
const UNLIMITED_QUEUE_RATE: u64 = 1_250_000_000;

fn bytes_in(rate_bytes_per_s: u64, time_ns: u64) -> u64 {
    u64::try_from(u128::from(rate_bytes_per_s) * u128::from(time_ns) / 1_000_000_000).unwrap_or(u64::MAX)
}

/// The length of a drop-tail queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueLimit {
    /// In bytes.
    Bytes(u64),
    /// What the link carries in this time, in nanoseconds.
    Nanoseconds(u64),
    /// Twice the product of rate and round-trip time, at least 96 kB.
    TwiceBdp,
}

/// The part of a link's bytes that is payload, as a ratio of integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PayloadFactor {
    /// Payload bytes… Not zero.
    pub numerator: u32,
    /// …in so many bytes on the link. Not zero.
    pub denominator: u32,
}

impl PayloadFactor {
    /// Every byte is payload: the fluid simulator.
    pub const ONE: PayloadFactor = PayloadFactor { numerator: 1, denominator: 1 };
    /// TCP with timestamps over Ethernet: 1,448 bytes of payload in an IP packet of 1,500.
    pub const ETHERNET_TCP: PayloadFactor = PayloadFactor { numerator: 1448, denominator: 1500 };

    /// The payload rate of a link that carries `rate_bytes_per_s`.
    pub fn of(self, rate_bytes_per_s: u64) -> u64 {
        let rate = u128::from(rate_bytes_per_s) * u128::from(self.numerator) / u128::from(self.denominator);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// The bytes on a link that carry so many bytes of payload.
    pub fn on_the_wire(self, payload_bytes: u64) -> u64 {
        let bytes = u128::from(payload_bytes) * u128::from(self.denominator);
        u64::try_from(bytes.div_ceil(u128::from(self.numerator))).unwrap_or(u64::MAX)
    }
}

/// A capacity that nodes share, by its place in the network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LinkRef {
    /// The link between two clusters, one direction.
    Wan {
        /// Sending cluster.
        from: ClusterIndex,
        /// Receiving cluster.
        to: ClusterIndex,
    },
    /// A cluster's way out to all others.
    AccessOut(ClusterIndex),
    /// A cluster's way in from all others.
    AccessIn(ClusterIndex),
    /// A cluster's own switches.
    Fabric(ClusterIndex),
}

/// Why a topology cannot be built. The message names the mend.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum TopologyError {
    /// Two clusters of one name.
    #[error("cluster {0:?} is there twice: give each cluster its own name")]
    NameTaken(String),
    /// A cluster that is not there.
    #[error("{0} does not exist: add it before the links that touch it")]
    NoSuchCluster(ClusterIndex),
    /// A link from a cluster to itself.
    #[error("{0} is linked to itself: inside a cluster set fabric_bytes_per_s and lan_delay_ns")]
    LinkToItself(ClusterIndex),
}

/// Clusters and the directed links between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    clusters: Vec<Cluster>,
    /// Row by row: the link from cluster `i` to cluster `j` at `wan[i][j]`.
    wan: Vec<Vec<Option<WanLink>>>,
    /// Share of payload in what links carry.
    pub payload_factor: PayloadFactor,
    /// Whether links are known to become faster and slower while a broadcast runs, so that what is planned for them does not hold for long, or
    /// known not to; none where nobody knows.
    pub links_vary: Option<bool>,
}

impl Default for Topology {
    fn default() -> Self {
        Topology::new()
    }
}

impl Topology {
    /// A network without clusters, in which every byte is payload.
    pub fn new() -> Topology {
        Topology { clusters: Vec::new(), wan: Vec::new(), payload_factor: PayloadFactor::ONE, links_vary: None }
    }

    /// Adds a cluster that has no links yet.
    pub fn add_cluster(&mut self, cluster: Cluster) -> Result<ClusterIndex, TopologyError> {
        if self.clusters.iter().any(|other| other.name == cluster.name) {
            return Err(TopologyError::NameTaken(cluster.name));
        }
        let index = ClusterIndex(u32::try_from(self.clusters.len()).expect("clusters fit 32 bits"));
        self.clusters.push(cluster);
        for row in &mut self.wan {
            row.push(None);
        }
        self.wan.push(vec![None; self.clusters.len()]);
        Ok(index)
    }

    /// Sets the link from `from` to `to`, one direction.
    pub fn link(&mut self, from: ClusterIndex, to: ClusterIndex, link: WanLink) -> Result<(), TopologyError> {
        for cluster in [from, to] {
            if cluster.as_usize() >= self.clusters.len() {
                return Err(TopologyError::NoSuchCluster(cluster));
            }
        }
        if from == to {
            return Err(TopologyError::LinkToItself(from));
        }
        self.wan[from.as_usize()][to.as_usize()] = Some(link);
        Ok(())
    }

    /// Sets the links between `a` and `b` in both directions to the same values.
    pub fn link_both(&mut self, a: ClusterIndex, b: ClusterIndex, link: WanLink) -> Result<(), TopologyError> {
        self.link(a, b, link)?;
        self.link(b, a, link)
    }

    /// All clusters, in the order of adding.
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// One cluster, for changing what it holds; its name stays the caller's care.
    pub fn cluster_mut(&mut self, cluster: ClusterIndex) -> Option<&mut Cluster> {
        self.clusters.get_mut(cluster.as_usize())
    }

    /// Every index, in order.
    pub fn indices(&self) -> impl Iterator<Item = ClusterIndex> + use<> {
        (0..self.clusters.len() as u32).map(ClusterIndex)
    }

    /// The cluster of this name.
    pub fn find(&self, name: &str) -> Option<ClusterIndex> {
        self.indices().find(|index| self.clusters[index.as_usize()].name == name)
    }

    /// The link from `from` to `to`, if there is one.
    pub fn wan(&self, from: ClusterIndex, to: ClusterIndex) -> Option<WanLink> {
        *self.wan.get(from.as_usize())?.get(to.as_usize())?
    }

    /// Every link with its ends, by sending then receiving cluster.
    pub fn wan_links(&self) -> impl Iterator<Item = (ClusterIndex, ClusterIndex, WanLink)> + '_ {
        self.indices()
            .flat_map(move |from| self.indices().filter_map(move |to| self.wan(from, to).map(|link| (from, to, link))))
    }

    /// Nodes of all clusters at the start.
    pub fn nodes(&self) -> u64 {
        self.clusters.iter().map(|cluster| u64::from(cluster.nodes)).sum()
    }

    /// The capacity of a shared link, in bytes per second; `None` when it is unlimited. Links that do not exist carry
    /// nothing.
    pub fn rate_bytes_per_s(&self, link: LinkRef) -> Option<u64> {
        let cluster = |index: ClusterIndex| self.clusters.get(index.as_usize());
        match link {
            LinkRef::Wan { from, to } => self.wan(from, to).map_or(Some(0), |wan| wan.rate_bytes_per_s),
            LinkRef::AccessOut(index) => cluster(index).map_or(Some(0), |c| c.access_out_bytes_per_s),
            LinkRef::AccessIn(index) => cluster(index).map_or(Some(0), |c| c.access_in_bytes_per_s),
            LinkRef::Fabric(index) => cluster(index).map_or(Some(0), |c| c.fabric_bytes_per_s),
        }
    }

    /// Sets the capacity of a shared link that exists.
    pub fn set_rate(&mut self, link: LinkRef, rate_bytes_per_s: Option<u64>) -> Result<(), TopologyError> {
        match link {
            LinkRef::Wan { from, to } => {
                let row = self.wan.get_mut(from.as_usize()).ok_or(TopologyError::NoSuchCluster(from))?;
                let wan = row.get_mut(to.as_usize()).ok_or(TopologyError::NoSuchCluster(to))?;
                if let Some(wan) = wan {
                    wan.rate_bytes_per_s = rate_bytes_per_s;
                }
            }
            LinkRef::AccessOut(index) => self.existing(index)?.access_out_bytes_per_s = rate_bytes_per_s,
            LinkRef::AccessIn(index) => self.existing(index)?.access_in_bytes_per_s = rate_bytes_per_s,
            LinkRef::Fabric(index) => self.existing(index)?.fabric_bytes_per_s = rate_bytes_per_s,
        }
        Ok(())
    }

    fn existing(&mut self, index: ClusterIndex) -> Result<&mut Cluster, TopologyError> {
        self.cluster_mut(index).ok_or(TopologyError::NoSuchCluster(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_directed_and_checked() {
        let mut topology = Topology::new();
        let a = topology.add_cluster(Cluster::new("a", 2)).unwrap();
        let b = topology.add_cluster(Cluster::new("b", 3)).unwrap();
        let link = WanLink::new(5, 7);
        topology.link(a, b, link).unwrap();
        assert_eq!(topology.wan(a, b), Some(link));
        assert_eq!(topology.wan(b, a), None);
        assert_eq!(topology.rate_bytes_per_s(LinkRef::Wan { from: b, to: a }), Some(0), "no link carries nothing");
        assert_eq!(topology.link(a, a, link), Err(TopologyError::LinkToItself(a)));
        assert_eq!(topology.link(a, ClusterIndex(2), link), Err(TopologyError::NoSuchCluster(ClusterIndex(2))));
        assert_eq!(topology.add_cluster(Cluster::new("a", 1)), Err(TopologyError::NameTaken("a".into())));
        assert_eq!((topology.nodes(), topology.find("b")), (5, Some(b)));
    }

    #[test]
    fn a_change_of_rate_is_seen_through_the_reference() {
        let mut topology = Topology::new();
        let a = topology.add_cluster(Cluster::new("a", 2)).unwrap();
        for link in [LinkRef::AccessOut(a), LinkRef::AccessIn(a), LinkRef::Fabric(a)] {
            assert_eq!(topology.rate_bytes_per_s(link), None);
            topology.set_rate(link, Some(9)).unwrap();
            assert_eq!(topology.rate_bytes_per_s(link), Some(9));
        }
    }

    #[test]
    fn the_payload_of_ethernet_is_a_little_less() {
        assert_eq!(PayloadFactor::ETHERNET_TCP.of(1_500_000), 1_448_000);
        assert_eq!(PayloadFactor::ONE.of(u64::MAX), u64::MAX);
    }
}
