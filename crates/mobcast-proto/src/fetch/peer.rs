//! What a node knows of itself and of each peer, as far as a strategy needs it.

use std::collections::BTreeSet;

use crate::content::have::{HaveSet, Run};
use crate::content::slots::SlotSet;
use crate::fetch::swarm::Swarm;
use crate::flow::window::Window;
use crate::group::place::PlanPlace;
use crate::limits::HAVE_INTERVAL;
use crate::time::{Duration, Time};
use crate::units::{ClusterId, LinkId, NodeId, PieceIndex};

/// A few have-messages wait this long for company: a frame costs both ends more than the pieces in it…
const HAVE_PATIENCE: Duration = HAVE_INTERVAL.times(3);
/// …and at least this long times the square of the peers that are told: members of a cluster that are all linked send less than 1,700
/// such frames a second together, however many they are…
const HAVE_PATIENCE_PER_PAIR: Duration = Duration::from_micros(600);
/// …and no longer than this…
const HAVE_PATIENCE_MAX: Duration = Duration::from_millis(300);
/// …while pieces are no larger than this. What a larger one takes of both ends is that much more than what a frame does.
const HAVE_PIECE: u32 = 128 << 10;
/// As many as this have company enough, and go after [`HAVE_INTERVAL`].
const HAVE_COMPANY: usize = 16;
/// So does this part of all that the peer has been told of: at the start every piece is worth a message.
const HAVE_COMPANY_PART: usize = 8;
/// No piece waits longer than this part of the time until the node expects to have everything: near the end there is little else to
/// fetch meanwhile.
const HAVE_PATIENCE_PART: u64 = 4;

/// Where a node stands in the group, as far as a strategy needs it.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// The node.
    pub node: NodeId,
    /// Its cluster.
    pub cluster: ClusterId,
    /// The cluster of the broadcast's root, while the root is there.
    pub root_cluster: Option<ClusterId>,
    /// Nodes in its cluster.
    pub cluster_size: u32,
    /// All clusters.
    pub clusters: Vec<ClusterId>,
    /// The node's rank in its cluster.
    pub rank: u32,
    /// Peers in other clusters that the node exchanges with first.
    pub counterparts: BTreeSet<NodeId>,
    /// The node's share.
    pub slots: SlotSet,
    /// The node's place in the plan of the broadcast's strategy, if that has one and the group was founded for it.
    pub plan: Option<PlanPlace>,
    /// Since when the node has its share in that plan.
    pub placed_at: Time,
}

/// Whom a node tells what it has, and of what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Audience {
    /// Peers that are told.
    pub(super) peers: usize,
    /// Bytes of a piece.
    pub(super) piece_size: u32,
    /// How long what this node lacks may take to come; nothing once all was asked for, because the last pieces have no company to
    /// wait for. None where nobody can say.
    pub(super) rest: Option<Duration>,
}

impl Audience {
    /// How long a few have-messages wait for company.
    pub(super) fn patience(self) -> Duration {
        let pairs = (self.peers as u64).pow(2);
        let small = HAVE_PATIENCE.max(HAVE_PATIENCE_PER_PAIR.times(pairs).min(HAVE_PATIENCE_MAX));
        let large = u64::from(self.piece_size / HAVE_PIECE).max(1);
        let by_rest = self.rest.map_or(small, |rest| Duration(rest.0 / HAVE_PATIENCE_PART));
        Duration(small.0 / large).min(by_rest).max(HAVE_INTERVAL)
    }
}

/// Chunks have at least [`CHUNK_BYTES_MIN`](crate::limits::CHUNK_BYTES_MIN) bytes but for the last one of what was asked for, or of a part of
/// it: whoever sends less than this on the average…
const CHUNK_BYTES_MEAN_MIN: u64 = 1 << 10;
/// …beside so many chunks for each request…
const CHUNKS_PER_REQUEST: u64 = 4;
/// …and this many once, keeps its peer busy with crumbs.
const CHUNKS_AT_LEAST: u64 = 64;

/// How the payload of a peer has come.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// What it was asked for, in requests.
    pub(super) requests: u64,
    count: u64,
    bytes: u64,
}

impl Chunks {
    /// A chunk has come. Whether so many are so small that this is no honest sender's.
    pub(super) fn add(&mut self, bytes: u32) -> bool {
        self.count += 1;
        self.bytes += u64::from(bytes);
        self.count > CHUNKS_AT_LEAST + CHUNKS_PER_REQUEST * self.requests + self.bytes / CHUNK_BYTES_MEAN_MIN
    }
}

/// A peer in a broadcast. First what is looked at of every peer whenever a piece is stored, so that it lies together.
#[derive(Debug)]
pub struct SwarmPeer {
    /// The pieces that it has, as it says.
    pub have: HaveSet,
    pub(super) announced: HaveSet,
    /// Ascending: few, because they do not wait long.
    pub(super) to_announce: Vec<PieceIndex>,
    pub(super) flushed_at: Option<Time>,
    /// What was asked of it.
    pub window: Window,
    /// How its payload has come.
    pub(super) chunks: Chunks,
    /// How often it has had a hand, unasked, in a piece that was wrong more than once.
    pub(super) strikes: u32,
    /// Payload bytes that the driver was given for it, ever.
    pub sent_bytes: u64,
    /// The node.
    pub node: NodeId,
    /// Its cluster.
    pub cluster: ClusterId,
    /// Manifest batches that it has.
    pub batches: u32,
    pub(super) batches_announced: u32,
    /// Whether its cluster is this node's.
    pub local: bool,
}

impl SwarmPeer {
    /// A peer of which nothing is known but where it stands.
    pub(super) fn new(node: NodeId, cluster: ClusterId, local: bool) -> SwarmPeer {
        SwarmPeer {
            node,
            cluster,
            local,
            have: HaveSet::new(),
            window: Window::default(),
            chunks: Chunks::default(),
            strikes: 0,
            sent_bytes: 0,
            batches: 0,
            announced: HaveSet::new(),
            to_announce: Vec::new(),
            batches_announced: 0,
            flushed_at: None,
        }
    }

    /// The peer is to be told of a piece.
    pub(super) fn add_news(&mut self, piece: PieceIndex) {
        if let Err(at) = self.to_announce.binary_search(&piece) {
            self.to_announce.insert(at, piece);
        }
    }

    /// The peer need not be told of these pieces any more, given in ascending order.
    pub(super) fn remove_news(&mut self, runs: &[Run]) {
        let run_before = |piece: PieceIndex| runs[..runs.partition_point(|run| run.first <= piece)].last();
        let is_among = |piece: PieceIndex| run_before(piece).is_some_and(|run| piece.0 < run.first.0 + run.count);
        self.to_announce.retain(|&piece| !is_among(piece));
    }

    pub(super) fn has_news(&self, batches: u32) -> bool {
        !self.to_announce.is_empty() || self.has_news_of_batches(batches)
    }

    fn has_news_of_batches(&self, batches: u32) -> bool {
        batches > self.batches_announced && batches > self.batches
    }

    /// When to tell this peer what is new; a few pieces wait as long as the audience's patience, unless there are new batches.
    pub(super) fn flush_due(&self, now: Time, patience: Duration, batches: u32) -> Time {
        let company = (self.announced.count() as usize / HAVE_COMPANY_PART).clamp(1, HAVE_COMPANY);
        let in_company = self.to_announce.len() >= company || self.has_news_of_batches(batches);
        let interval = if in_company { HAVE_INTERVAL } else { patience };
        self.flushed_at.map_or(now, |at| (at + interval).max(now))
    }
}

impl Swarm {
    /// The round-trip time of a link was measured.
    pub(crate) fn handle_rtt(&mut self, link: LinkId, rtt: Duration) {
        let Some(peer) = self.peers.get_mut(&link) else { return };
        peer.window.handle_rtt(rtt);
        let local = || self.peers.values().filter(|peer| peer.local);
        let nearest = local().filter_map(|peer| peer.window.rtt_measured()).min();
        self.peers.values_mut().filter(|peer| peer.local).for_each(|peer| peer.window.set_nearest(nearest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_wait_for_company_by_what_the_peer_was_told_before() {
        let audience = Audience { peers: 15, piece_size: 32 << 10, rest: None };
        let patience = HAVE_PATIENCE_PER_PAIR.times(15 * 15);
        for (told, news, interval) in [
            (0, 1, HAVE_INTERVAL),
            (15, 1, HAVE_INTERVAL),
            (16, 1, patience),
            (16, 2, HAVE_INTERVAL),
            (10_000, 15, patience),
            (10_000, 16, HAVE_INTERVAL),
        ] {
            let mut peer = SwarmPeer::new(NodeId(1), ClusterId(0), true);
            for piece in 0..told {
                peer.announced.insert(PieceIndex(piece));
            }
            peer.to_announce = (told..told + news).map(PieceIndex).collect();
            assert_eq!(peer.flush_due(Time::ZERO, audience.patience(), 0), Time::ZERO, "the first goes at once");
            peer.flushed_at = Some(Time::ZERO);
            assert_eq!(
                peer.flush_due(Time::ZERO, audience.patience(), 0),
                Time::ZERO + interval,
                "{news} behind {told}"
            );
            let last = Audience { rest: Some(Duration::ZERO), ..audience };
            assert_eq!(
                peer.flush_due(Time::ZERO, last.patience(), 0),
                Time::ZERO + HAVE_INTERVAL,
                "nothing comes behind them"
            );
        }
    }

    #[test]
    fn the_nearer_the_end_the_less_a_piece_waits() {
        let mut peer = SwarmPeer::new(NodeId(1), ClusterId(0), true);
        (0..100).for_each(|piece| assert!(peer.announced.insert(PieceIndex(piece))));
        peer.add_news(PieceIndex(100));
        peer.flushed_at = Some(Time::ZERO);
        let due = |rest: Option<Duration>, piece_size: u32| {
            peer.flush_due(Time::ZERO, Audience { peers: 20, piece_size, rest }.patience(), 0).since(Time::ZERO)
        };
        let (ms, small) = (Duration::from_millis, 32 << 10);
        assert_eq!(due(None, small), ms(240));
        assert_eq!(due(Some(ms(60_000)), small), ms(240));
        assert_eq!(due(Some(ms(400)), small), ms(100));
        assert_eq!(due(Some(ms(4)), small), HAVE_INTERVAL);
        assert_eq!(due(Some(ms(60_000)), 4 << 20), HAVE_INTERVAL, "large pieces are worth a frame each");
    }

    #[test]
    fn new_batches_do_not_wait_for_pieces() {
        let mut peer = SwarmPeer::new(NodeId(1), ClusterId(0), true);
        peer.flushed_at = Some(Time::ZERO);
        let due = |peer: &SwarmPeer, batches| peer.flush_due(Time::ZERO, HAVE_PATIENCE_MAX, batches);
        assert_eq!(due(&peer, 0), Time::ZERO + HAVE_PATIENCE_MAX);
        assert_eq!(due(&peer, 1), Time::ZERO + HAVE_INTERVAL);
        peer.batches = 1;
        assert_eq!(due(&peer, 1), Time::ZERO + HAVE_PATIENCE_MAX, "it has them itself");
    }
}
