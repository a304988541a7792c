//! What a flow passes between two nodes: the sender's network card, its cluster's access link, the link between the clusters,
//! the other access link, the receiver's card; inside a cluster, the two cards and what is between them. Which flow takes
//! which is the same in every model of the network; what such a part is (`R`), the model says.

use mobcast_topology::{Cluster, ClusterIndex, LinkRef, Topology, WanLink, WanNic};

use super::NodeIndex;

/// A part of the network.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// What a card sends.
    NicOut,
    /// What a card receives.
    NicIn,
    /// A cluster's way to and from all others.
    Access,
    /// Between the cards of a cluster, with this one-way delay in nanoseconds.
    Inside(u64),
    /// Between two clusters.
    Wan(WanLink),
}

/// Where a part of the network is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// One direction of a node's card.
    Card {
        /// The node.
        node: NodeIndex,
        /// Its second card, for other clusters.
        second: bool,
        /// What it sends, not what it receives.
        out: bool,
    },
    /// A link that nodes share.
    Shared(LinkRef),
}

/// A network card; a direction that is not modelled has no limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Card<R> {
    pub way_out: Option<R>,
    pub way_in: Option<R>,
}

#[derive(Clone, Copy, Debug)]
struct Site<R> {
    access_out: Option<R>,
    access_in: Option<R>,
    inside: Option<R>,
}

#[derive(Clone, Copy, Debug)]
struct Cards<R> {
    site: usize,
    card: Card<R>,
    /// A second card, for other clusters.
    wan_card: Option<Card<R>>,
}

/// All ways of a network.
#[derive(Debug)]
pub(super) struct Ways<R> {
    sites: Vec<Site<R>>,
    /// By sending, then receiving cluster.
    wan: Vec<Option<R>>,
    nodes: Vec<Cards<R>>,
}

impl<R: Copy> Ways<R> {
    /// Those of a network without nodes. `add` makes a part of this rate in bytes per second, if the model has it.
    pub fn new(topology: &Topology, mut add: impl FnMut(Part, Option<u64>) -> Option<R>) -> Ways<R> {
        let sites = topology.clusters().iter().map(|cluster| Site {
            access_out: cluster.access_out_bytes_per_s.and_then(|rate| add(Part::Access, Some(rate))),
            access_in: cluster.access_in_bytes_per_s.and_then(|rate| add(Part::Access, Some(rate))),
            inside: add(Part::Inside(cluster.lan_delay_ns), cluster.fabric_bytes_per_s),
        });
        let sites: Vec<Site<R>> = sites.collect();
        let mut wan = vec![None; sites.len() * sites.len()];
        for (from, to, link) in topology.wan_links() {
            wan[from.as_usize() * sites.len() + to.as_usize()] = add(Part::Wan(link), link.rate_bytes_per_s);
        }
        Ways { sites, wan, nodes: Vec::new() }
    }

    /// Adds a node with its cluster's cards.
    pub fn add_node(
        &mut self,
        index: ClusterIndex,
        cluster: &Cluster,
        mut add: impl FnMut(Part, Option<u64>) -> Option<R>,
    ) {
        let mut card = |out: Option<u64>, into: Option<u64>| Card {
            way_out: out.and_then(|rate| add(Part::NicOut, Some(rate))),
            way_in: into.and_then(|rate| add(Part::NicIn, Some(rate))),
        };
        let first = card(cluster.nic_out_bytes_per_s, cluster.nic_in_bytes_per_s);
        let wan_card = cluster.wan_nic.map(|nic: WanNic| card(nic.out_bytes_per_s, nic.in_bytes_per_s));
        self.nodes.push(Cards { site: index.as_usize(), card: first, wan_card });
    }

    /// A part that all nodes of a cluster share.
    pub fn shared(&mut self, link: LinkRef) -> &mut Option<R> {
        match link {
            LinkRef::Wan { from, to } => &mut self.wan[from.as_usize() * self.sites.len() + to.as_usize()],
            LinkRef::AccessOut(cluster) => &mut self.sites[cluster.as_usize()].access_out,
            LinkRef::AccessIn(cluster) => &mut self.sites[cluster.as_usize()].access_in,
            LinkRef::Fabric(cluster) => &mut self.sites[cluster.as_usize()].inside,
        }
    }

    /// A node's first card.
    pub fn card(&mut self, node: NodeIndex) -> &mut Card<R> {
        &mut self.nodes[node.0 as usize].card
    }

    /// All parts that there are, shared ones first.
    pub fn parts(&self) -> impl Iterator<Item = (Place, R)> + '_ {
        let cluster = |i: usize| ClusterIndex(i as u32);
        let sites = self.sites.iter().enumerate().flat_map(move |(i, site)| {
            let at = cluster(i);
            let parts = [(LinkRef::AccessOut(at), site.access_out), (LinkRef::AccessIn(at), site.access_in)];
            parts.into_iter().chain([(LinkRef::Fabric(at), site.inside)])
        });
        let wan = self.wan.iter().enumerate().map(move |(i, part)| {
            let (from, to) = (cluster(i / self.sites.len()), cluster(i % self.sites.len()));
            (LinkRef::Wan { from, to }, *part)
        });
        let cards = self.nodes.iter().enumerate().flat_map(|(i, cards)| {
            let node = NodeIndex(i as u32);
            let both = [(false, Some(cards.card)), (true, cards.wan_card)];
            both.into_iter().filter_map(|(second, card)| Some((second, card?))).flat_map(move |(second, card)| {
                [(true, card.way_out), (false, card.way_in)]
                    .map(|(out, part)| (Place::Card { node, second, out }, part))
            })
        });
        let shared = sites.chain(wan).map(|(link, part)| (Place::Shared(link), part));
        shared.chain(cards).filter_map(|(place, part)| Some((place, part?)))
    }

    /// Whether what leaves `from` for `to` waits in a card of its own first.
    pub fn begins_with_card(&self, from: NodeIndex, to: NodeIndex) -> bool {
        self.cards(from, to).0.way_out.is_some()
    }

    /// The parts between two nodes, in order.
    pub fn path(&self, from: NodeIndex, to: NodeIndex) -> Vec<R> {
        let (near, far) = (self.nodes[from.0 as usize].site, self.nodes[to.0 as usize].site);
        let between = if near == far {
            [self.sites[near].inside, None, None]
        } else {
            [self.sites[near].access_out, self.wan[near * self.sites.len() + far], self.sites[far].access_in]
        };
        let (sending, receiving) = self.cards(from, to);
        [sending.way_out].into_iter().chain(between).chain([receiving.way_in]).flatten().collect()
    }

    fn cards(&self, from: NodeIndex, to: NodeIndex) -> (Card<R>, Card<R>) {
        let (sender, receiver) = (&self.nodes[from.0 as usize], &self.nodes[to.0 as usize]);
        let card = |cards: &Cards<R>| cards.wan_card.filter(|_| sender.site != receiver.site).unwrap_or(cards.card);
        (card(sender), card(receiver))
    }
}
