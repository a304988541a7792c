//! A node in clusters of two (the root's) and three, for the tests of what was published: the node's position is the test's, its
//! links lead to two local and two global peers and to one that the plan does not name.

use super::*;
use crate::fetch::open::OpenPiece;
use crate::group::place::PlanPlace;
use crate::io::Output;
use crate::strategy::Strategy;
use crate::strategy::plan::Split;
use crate::units::{BroadcastId, ByteRange, ClusterId, NodeId};
use crate::wire::frame::Frame;

/// When the broadcast begins.
pub(in crate::strategy) const BEGUN_AT: Time = Time(1_000_000_000);

/// A run of pieces.
pub(in crate::strategy) fn run(first: u32, count: u32) -> Run {
    Run { first: PieceIndex(first), count }
}

/// A node with its strategy, and what it has done.
pub(in crate::strategy) struct Bench<S> {
    pub(in crate::strategy) swarm: Swarm,
    pub(in crate::strategy) strategy: S,
    /// Requests that are not served: link and piece.
    pub(in crate::strategy) asked: Vec<(u32, u32)>,
    outputs: Vec<Output>,
}

impl<S: Strategy + Default> Bench<S> {
    pub(in crate::strategy) const LOCAL: u32 = 1;
    pub(in crate::strategy) const OTHER_LOCAL: u32 = 2;
    pub(in crate::strategy) const GLOBAL: u32 = 3;
    pub(in crate::strategy) const OTHER_GLOBAL: u32 = 4;
    /// A local peer by the control tree alone.
    pub(in crate::strategy) const TREE: u32 = 5;
    pub(in crate::strategy) const LINKS: [u32; 5] = [1, 2, 3, 4, 5];

    /// A node whose share has settled, in a broadcast of so many pieces, all known.
    pub(in crate::strategy) fn new(position: u32, pieces: u32) -> Bench<S> {
        let mut bench = Bench::unsettled(position, pieces);
        bench.pass(SETTLED_AFTER);
        bench
    }

    pub(in crate::strategy) fn unsettled(position: u32, pieces: u32) -> Bench<S> {
        Bench::placed_since(BEGUN_AT, position, pieces)
    }

    /// A node that has had its place since that moment, when the broadcast begins.
    pub(in crate::strategy) fn placed_since(placed_at: Time, position: u32, pieces: u32) -> Bench<S> {
        let mut bench = Bench::of(position, Some(u64::from(pieces) * u64::from(PIECE_BYTES)), placed_at);
        bench.know(pieces);
        bench
    }

    /// A node whose share has settled, in a stream of which nothing is known.
    pub(in crate::strategy) fn stream(position: u32) -> Bench<S> {
        let mut bench = Bench::of(position, None, BEGUN_AT);
        bench.pass(SETTLED_AFTER);
        bench
    }

    fn of(position: u32, length: Option<u64>, placed_at: Time) -> Bench<S> {
        let swarm = Swarm::new(BroadcastId::default(), PIECE_BYTES, 0, length, 1);
        let mut bench = Bench { swarm, strategy: S::default(), asked: Vec::new(), outputs: Vec::new() };
        let cluster = ClusterId(u32::from(position >= 2));
        bench.swarm.standing.node = NodeId(50);
        bench.swarm.standing.root_cluster = Some(ClusterId(0));
        bench.swarm.standing.cluster = cluster;
        let (first, size) = if position < 2 { (0, 2) } else { (2, 3) };
        bench.swarm.standing.plan = Some(bench.placed(first, position - first, size));
        bench.swarm.standing.placed_at = placed_at;
        bench.swarm.set_now(BEGUN_AT);
        bench.strategy.handle(StrategyEvent::Started, &mut bench.swarm);
        bench.swarm.set_paused(false);
        bench.strategy.handle(StrategyEvent::Resumed, &mut bench.swarm);
        Self::LINKS.into_iter().for_each(|link| bench.join(link));
        bench.drain();
        bench
    }

    /// A peer's link comes up.
    pub(in crate::strategy) fn join(&mut self, link: u32) {
        let (far, cluster) = (matches!(link, 3 | 4), self.swarm.standing.cluster);
        let of = if far { ClusterId(1 - cluster.0) } else { cluster };
        self.swarm.add_peer(LinkId(link), NodeId(link), of);
        self.event(StrategyEvent::PeerUp(LinkId(link)));
    }

    fn placed(&self, cluster_first: u32, rank: u32, cluster_size: u32) -> PlanPlace {
        PlanPlace {
            strategy: "published".into(),
            root: NodeId(0),
            position: cluster_first + rank,
            nodes: 5,
            cluster_first,
            cluster_size,
            split: Split::RoundRobin,
            trees: Vec::new(),
            peers: [1, 2, 3, 4].map(NodeId).to_vec(),
        }
    }

    /// The plan gives the node another place.
    pub(in crate::strategy) fn place(&mut self, cluster_first: u32, rank: u32, cluster_size: u32) {
        self.swarm.standing.plan = Some(self.placed(cluster_first, rank, cluster_size));
        self.swarm.standing.placed_at = self.swarm.now();
        self.event(StrategyEvent::AssignmentChanged);
    }

    /// Hashes of more pieces are known.
    pub(in crate::strategy) fn know(&mut self, pieces: u32) {
        let run = self.swarm.add_known(pieces, 1, None);
        self.event(StrategyEvent::PiecesKnown(run));
    }

    pub(in crate::strategy) fn event(&mut self, event: StrategyEvent<'_>) {
        self.strategy.handle(event, &mut self.swarm);
        self.strategy.check_invariants(&self.swarm);
        self.swarm.check_invariants();
        self.drain();
    }

    pub(in crate::strategy) fn say(&mut self, link: u32, message: StrategyMessage) {
        self.event(StrategyEvent::Message { peer: LinkId(link), message: &message });
    }

    /// A peer has pieces.
    pub(in crate::strategy) fn have(&mut self, link: u32, run: Run) {
        let news = self.swarm.add_have(LinkId(link), 1, &[run]);
        self.event(StrategyEvent::Have { peer: LinkId(link), pieces: &news });
    }

    /// A peer is gone.
    pub(in crate::strategy) fn leave(&mut self, link: u32) {
        self.swarm.remove_peer(LinkId(link));
        self.asked.retain(|(asked, _)| *asked != link);
        self.event(StrategyEvent::PeerDown(LinkId(link)));
    }

    /// A peer will not serve a request.
    pub(in crate::strategy) fn reject(&mut self, link: u32, piece: u32) {
        self.swarm.add_rejected(LinkId(link), PieceIndex(piece));
        self.event(StrategyEvent::RequestRejected { peer: LinkId(link), piece: PieceIndex(piece) });
    }

    /// A piece arrives from a peer that was asked for it, and is stored.
    pub(in crate::strategy) fn serve(&mut self, link: u32, piece: u32) {
        self.asked.retain(|asked| *asked != (link, piece));
        self.swarm.add_payload(LinkId(link), PieceIndex(piece), ByteRange::whole(PIECE_BYTES));
        self.swarm.add_stored(PieceIndex(piece));
        self.event(StrategyEvent::PieceStored(PieceIndex(piece)));
    }

    /// The same from whoever was asked.
    pub(in crate::strategy) fn serve_asked(&mut self, piece: u32) {
        let (link, _) = *self.asked.iter().find(|(_, asked)| *asked == piece).expect("somebody was asked for it");
        self.serve(link, piece);
    }

    pub(in crate::strategy) fn pass(&mut self, time: Duration) {
        let end = self.swarm.now() + time;
        while self.swarm.now() < end {
            self.swarm.set_now((self.swarm.now() + Duration::from_millis(50)).min(end));
            self.event(StrategyEvent::Timeout);
        }
    }

    /// How often each of six pieces that a global peer has is the first one asked of it, of 600 seeds. `position` is that of a node whose
    /// share they are.
    pub(in crate::strategy) fn first_pieces(position: u32) -> [usize; 6] {
        let mut times = [0; 6];
        for seed in 0..600 {
            let mut bench = Bench::<S>::new(position, 18);
            bench.swarm.random = crate::random::Random::new(seed);
            bench.have(Self::GLOBAL, run(0, 6));
            times[bench.requests()[0].1 as usize] += 1;
        }
        times
    }

    fn drain(&mut self) {
        self.outputs.extend(self.swarm.take_outputs());
    }

    /// What was sent of one kind, taken off.
    fn sent<T>(&mut self, select: impl Fn(LinkId, &Frame) -> Option<T>) -> Vec<T> {
        self.drain();
        let mut found = Vec::new();
        self.outputs.retain(|output| {
            let one = match output {
                Output::Send { link, frame } => select(*link, frame),
                _ => None,
            };
            let is_other = one.is_none();
            found.extend(one);
            is_other
        });
        found
    }

    /// Requests since the last look: link and piece.
    pub(in crate::strategy) fn requests(&mut self) -> Vec<(u32, u32)> {
        let asked = self.sent(|link, frame| match frame {
            Frame::Request { piece, .. } => Some((link.0, piece.0)),
            _ => None,
        });
        self.asked.extend(&asked);
        asked
    }

    /// Requests taken back since the last look: link and piece.
    pub(in crate::strategy) fn cancelled(&mut self) -> Vec<(u32, u32)> {
        self.sent(|link, frame| match frame {
            Frame::Cancel { piece, .. } => Some((link.0, piece.0)),
            _ => None,
        })
    }

    /// Lets time pass in which a peer sends a piece that it was asked for each fifth of a second.
    pub(in crate::strategy) fn pass_served(&mut self, link: u32, time: Duration) {
        let end = self.swarm.now() + time;
        while self.swarm.now() < end {
            self.pass(Duration::from_millis(200));
            let next = *self.in_flight(link).first().expect("it was asked for something");
            self.serve(link, next);
        }
    }

    /// Pieces that were asked of a peer and have not come.
    pub(in crate::strategy) fn in_flight(&self, link: u32) -> Vec<u32> {
        let asked_of = |open: &OpenPiece| open.parts.iter().any(|part| part.peer == LinkId(link));
        self.swarm.open().filter(|(_, open)| asked_of(open)).map(|(piece, _)| piece.0).collect()
    }

    /// Pieces announced since the last look: link and piece.
    pub(in crate::strategy) fn announced(&mut self) -> Vec<(u32, u32)> {
        self.swarm.set_now(self.swarm.now() + Duration::from_secs(1));
        self.swarm.flush();
        let told = self.sent(|link, frame| match frame {
            Frame::Have { pieces, .. } => Some((link.0, pieces.clone())),
            _ => None,
        });
        let each = |(link, runs): (u32, Vec<Run>)| {
            runs.into_iter().flat_map(move |run| run.pieces().map(move |piece| (link, piece.0)))
        };
        told.into_iter().flat_map(each).collect()
    }

    /// Messages since the last look: link and message.
    pub(in crate::strategy) fn messages(&mut self) -> Vec<(u32, StrategyMessage)> {
        self.sent(|link, frame| match frame {
            Frame::Strategy { message, .. } => Some((link.0, message.clone())),
            _ => None,
        })
    }

    /// How many frames of whatever kind were sent since the last look.
    pub(in crate::strategy) fn frames(&mut self) -> usize {
        self.sent(|_, frame| Some(frame.clone())).len()
    }

    /// The pieces that a global peer was told of last.
    pub(in crate::strategy) fn last_desire(&mut self) -> Vec<Run> {
        let desire = |(link, message)| match message {
            StrategyMessage::Desire { pieces } if link == Self::GLOBAL => Some(pieces),
            _ => None,
        };
        self.messages().into_iter().filter_map(desire).next_back().expect("it has told one")
    }

    /// Links over which help was asked for since the last look.
    pub(in crate::strategy) fn help_asked(&mut self) -> Vec<u32> {
        let help = |(link, message)| match message {
            StrategyMessage::Interest { slots, .. } if slots == SlotSet::all() => Some(link),
            _ => None,
        };
        self.messages().into_iter().filter_map(help).collect()
    }
}

#[test]
fn the_last_of_many_shares_ends_with_the_last_piece() {
    let last = Place { rank: 9_999, size: 10_000, imports: true };
    let share = last.share(crate::limits::PIECES_MAX);
    assert_eq!((share.len(), share.end), (53, crate::limits::PIECES_MAX));
}
