//! What crossed a node's sockets, link by link: the counters of its channels, those of closed links included, and how
//! each link stood when it was looked at last. Only the node's task has it; the counting itself is the channels'.
//!
//! A connection counts from when it is a link: one that was refused, or given up before its greeting, never does.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Sub};
use std::sync::Arc;

use mobcast_proto::io::PeerIdentity;
use mobcast_proto::limits::LINKS_MAX;
use mobcast_proto::node::view::LinkView;
use mobcast_proto::{ClusterId, LinkId, NodeId};

use crate::channel::Counters;

/// TCP connections of a link.
const STREAMS: u32 = 1;

/// All bytes that a node's sockets have taken and given, by where the peer is. A peer whose cluster is not known counts
/// as one of another cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WireTraffic {
    /// Received from other clusters.
    pub in_wan: u64,
    /// Received from the own cluster.
    pub in_lan: u64,
    /// Sent to other clusters.
    pub out_wan: u64,
    /// Sent within the own cluster.
    pub out_lan: u64,
}

/// Bytes that crossed one or several links.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkBytes {
    /// Payload received.
    pub payload_in: u64,
    /// Payload sent.
    pub payload_out: u64,
    /// Everything received, as the socket gave it.
    pub wire_in: u64,
    /// Everything sent, as the socket took it.
    pub wire_out: u64,
}

/// The link to one peer, over all the connections that it has had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkSummary {
    /// The peer.
    pub peer: NodeId,
    /// Its cluster, as it says.
    pub cluster: ClusterId,
    /// TCP connections at a time.
    pub streams: u32,
    /// What crossed it.
    pub bytes: LinkBytes,
    /// How it stands, or stood before it was closed.
    pub view: LinkView,
}

/// The books of all links of a node.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Links that are up, and those that were: of members the last [`LINKS_MAX`].
    links: BTreeMap<LinkId, Entry>,
    /// What all others carried, by the peers' cluster.
    folded: BTreeMap<Option<ClusterId>, LinkBytes>,
}

#[derive(Debug)]
struct Entry {
    peer: Option<NodeId>,
    cluster: Option<ClusterId>,
    /// Whether it only served to admit one of the two.
    is_joining: bool,
    is_open: bool,
    counters: Arc<Counters>,
    view: LinkView,
    /// What had crossed it at the last look of [`Ledger::lately`].
    seen: LinkBytes,
}

impl Ledger {
    /// A link is up. `is_joining` if this node has made it in order to be admitted.
    pub fn open(&mut self, link: LinkId, identity: PeerIdentity, is_joining: bool, counters: Arc<Counters>) {
        self.fold();
        let (peer, cluster) = match identity {
            PeerIdentity::Member { node, cluster } => (Some(node), Some(cluster)),
            PeerIdentity::Joiner => (None, None),
        };
        let (view, seen) = Default::default();
        let is_joining = is_joining || peer.is_none();
        self.links.insert(link, Entry { peer, cluster, is_joining, is_open: true, counters, view, seen });
    }

    /// The joiner at the other end of a link is admitted.
    pub fn admit(&mut self, link: LinkId, cluster: Option<ClusterId>) {
        if let Some(entry) = self.links.get_mut(&link) {
            entry.cluster = entry.cluster.or(cluster);
        }
    }

    /// A link is closed, or about to be.
    pub fn close(&mut self, link: LinkId) {
        if let Some(entry) = self.links.get_mut(&link) {
            entry.is_open = false;
        }
    }

    /// How the links stand. Those that the core has forgotten stay as they were.
    pub fn look(&mut self, views: &BTreeMap<LinkId, LinkView>) {
        for (link, view) in views {
            if let Some(entry) = self.links.get_mut(link).filter(|entry| entry.is_open) {
                entry.view = *view;
            }
        }
    }

    /// What crossed the links of a node of cluster `own`.
    pub fn wire(&self, own: Option<ClusterId>) -> WireTraffic {
        let links = self.links.values().map(|entry| (entry.cluster, entry.bytes()));
        let folded = self.folded.iter().map(|(&cluster, &bytes)| (cluster, bytes));
        let mut traffic = WireTraffic::default();
        for (cluster, LinkBytes { wire_in, wire_out, .. }) in links.chain(folded) {
            if cluster.is_some() && cluster == own {
                traffic.in_lan += wire_in;
                traffic.out_lan += wire_out;
            } else {
                traffic.in_wan += wire_in;
                traffic.out_wan += wire_out;
            }
        }
        traffic
    }

    /// The links to members, in their order: of the open ones and those closed last, [`LINKS_MAX`] at most.
    pub fn summaries(&self) -> Vec<LinkSummary> {
        let mut peers: BTreeMap<NodeId, (bool, LinkId, LinkSummary)> = BTreeMap::new();
        for (&link, entry) in self.links.iter().filter(|(_, entry)| !entry.is_joining) {
            let (Some(peer), Some(cluster)) = (entry.peer, entry.cluster) else { continue };
            let mut bytes = entry.bytes();
            let former = peers.get(&peer);
            former.into_iter().for_each(|(.., former)| bytes += former.bytes);
            // Of two, the open one tells more, and else the later one.
            let current =
                (entry.is_open, link, LinkSummary { peer, cluster, streams: STREAMS, bytes, view: entry.view });
            let kept = match former {
                Some(&(true, link, summary)) if !entry.is_open => (true, link, LinkSummary { bytes, ..summary }),
                _ => current,
            };
            peers.insert(peer, kept);
        }
        let mut kept: Vec<_> = peers.into_values().collect();
        kept.sort_by_key(|&(is_open, link, _)| std::cmp::Reverse((is_open, link)));
        kept.truncate(LINKS_MAX);
        kept.sort_by_key(|(.., summary)| summary.peer);
        kept.into_iter().map(|(.., summary)| summary).collect()
    }

    /// The open links to members, with what crossed each since the last call.
    pub fn lately(&mut self) -> Vec<(LinkId, LinkSummary)> {
        let open = self.links.iter_mut().filter(|(_, entry)| entry.is_open && !entry.is_joining);
        let lately = open.filter_map(|(&link, entry)| {
            let (peer, cluster) = entry.peer.zip(entry.cluster)?;
            let so_far = entry.bytes();
            let bytes = so_far - std::mem::replace(&mut entry.seen, so_far);
            Some((link, LinkSummary { peer, cluster, streams: STREAMS, bytes, view: entry.view }))
        });
        lately.collect()
    }

    /// Keeps of closed links only so many, and only their sums of the others. One that still says goodbye stays.
    fn fold(&mut self) {
        let closed = |entry: &Entry| !entry.is_open && Arc::strong_count(&entry.counters) == 1;
        let members = self.links.values().filter(|entry| closed(entry) && !entry.is_joining).count();
        let mut surplus = members.saturating_sub(LINKS_MAX);
        let folded = &mut self.folded;
        self.links.retain(|_, entry| {
            let goes = closed(entry) && (entry.is_joining || surplus > 0);
            if goes {
                surplus -= usize::from(!entry.is_joining);
                *folded.entry(entry.cluster).or_default() += entry.bytes();
            }
            !goes
        });
    }
}

impl Entry {
    fn bytes(&self) -> LinkBytes {
        LinkBytes {
            payload_in: self.counters.payload_received(),
            payload_out: self.counters.payload_sent(),
            wire_in: self.counters.received(),
            wire_out: self.counters.sent(),
        }
    }
}

impl AddAssign for LinkBytes {
    fn add_assign(&mut self, other: LinkBytes) {
        self.payload_in += other.payload_in;
        self.payload_out += other.payload_out;
        self.wire_in += other.wire_in;
        self.wire_out += other.wire_out;
    }
}

impl Sub for LinkBytes {
    type Output = LinkBytes;

    fn sub(self, other: LinkBytes) -> LinkBytes {
        LinkBytes {
            payload_in: self.payload_in - other.payload_in,
            payload_out: self.payload_out - other.payload_out,
            wire_in: self.wire_in - other.wire_in,
            wire_out: self.wire_out - other.wire_out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: ClusterId = ClusterId(0);
    const THERE: ClusterId = ClusterId(1);

    fn member(node: u32, cluster: ClusterId) -> PeerIdentity {
        PeerIdentity::Member { node: NodeId(node), cluster }
    }

    /// Opens a link over which so much has come in; its channel is gone at once if it is to be `closed`.
    fn open(ledger: &mut Ledger, link: u32, identity: PeerIdentity, bytes: usize, closed: bool) {
        let counters = Arc::new(Counters::default());
        counters.add_received(bytes);
        ledger.open(LinkId(link), identity, false, counters);
        if closed {
            ledger.close(LinkId(link));
        }
    }

    #[test]
    fn links_count_by_the_peers_cluster_and_strangers_as_of_another() {
        let mut ledger = Ledger::default();
        open(&mut ledger, 0, member(1, HERE), 1, false);
        open(&mut ledger, 1, member(2, THERE), 10, true);
        open(&mut ledger, 2, PeerIdentity::Joiner, 100, true);
        open(&mut ledger, 3, PeerIdentity::Joiner, 1_000, false);
        ledger.admit(LinkId(3), Some(HERE));
        let traffic = ledger.wire(Some(HERE));
        assert_eq!((traffic.in_lan, traffic.in_wan), (1_001, 110));
        assert_eq!(ledger.wire(None).in_wan, 1_111, "who has no cluster has everything from elsewhere");
    }

    #[test]
    fn nothing_is_lost_of_links_that_come_and_go() {
        let mut ledger = Ledger::default();
        for link in 0..1_000 {
            open(&mut ledger, link, member(link, THERE), 1, true);
        }
        assert!(ledger.links.len() <= LINKS_MAX + 1, "{} entries", ledger.links.len());
        assert_eq!(ledger.wire(Some(HERE)).in_wan, 1_000);
        let summaries = ledger.summaries();
        assert_eq!((summaries.len(), summaries[0].peer), (LINKS_MAX, NodeId(936)), "the last ones");
    }

    #[test]
    fn two_connections_to_a_peer_are_one_link() {
        let mut ledger = Ledger::default();
        open(&mut ledger, 0, member(1, HERE), 1, false);
        open(&mut ledger, 1, member(1, HERE), 2, true);
        let view = LinkView { requests: 3, ..LinkView::default() };
        ledger.look(&BTreeMap::from([(LinkId(0), view), (LinkId(1), LinkView::default())]));
        let summaries = ledger.summaries();
        assert_eq!(summaries.len(), 1);
        assert_eq!((summaries[0].bytes.wire_in, summaries[0].view.requests), (3, 3), "as the open one stands");
    }

    #[test]
    fn a_second_look_shows_what_came_since_the_first() {
        let mut ledger = Ledger::default();
        let counters = Arc::new(Counters::default());
        ledger.open(LinkId(0), member(1, HERE), false, Arc::clone(&counters));
        let looks = [5, 7].map(|bytes| {
            counters.add_received(bytes);
            ledger.lately()[0].1.bytes.wire_in
        });
        assert_eq!(looks, [5, 7]);
    }
}
