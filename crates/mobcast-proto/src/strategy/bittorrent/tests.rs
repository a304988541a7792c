//! What BitTorrent does at a node, rule by rule.

use super::*;
use crate::content::manifest::End;
use crate::group::place::PlanPlace;
use crate::io::Output;
use crate::strategy::find;
use crate::strategy::plan::Split;
use crate::time::{Duration, Time};
use crate::units::{BroadcastId, ByteRange, ClusterId, NodeId};
use crate::wire::frame::Frame;

const PIECE: u32 = 64 << 10;
/// A control-tree link to a node that is no neighbour.
const STRANGER: LinkId = LinkId(9);

/// Node 5 of a broadcast of node 0, that knows of `pieces` pieces of four blocks each. It was told of nodes 1 to 4, on links of
/// the same numbers, and is linked to node 9 as well.
struct Bench {
    swarm: Swarm,
    strategy: Box<dyn Strategy>,
}

impl Bench {
    fn new(name: &str, pieces: u32) -> Bench {
        let mut swarm = Swarm::new(BroadcastId::default(), PIECE, 0, None, 7);
        swarm.standing.node = NodeId(5);
        swarm.standing.root_cluster = Some(ClusterId(0));
        swarm.standing.plan = Some(PlanPlace {
            strategy: "bittorrent".into(),
            root: NodeId(0),
            position: 5,
            cluster_first: 0,
            cluster_size: 1,
            nodes: 10,
            split: Split::RoundRobin,
            trees: Vec::new(),
            peers: (1..5).map(NodeId).collect(),
        });
        let mut bench = Bench { swarm, strategy: (find(name).expect("it is registered").make)() };
        bench.handle(StrategyEvent::Started);
        bench.swarm.set_paused(false);
        bench.handle(StrategyEvent::Resumed);
        for link in [1, 2, 3, 4, 9] {
            bench.join(link);
        }
        let run = bench.swarm.add_known(pieces, 1, None);
        bench.handle(StrategyEvent::PiecesKnown(run));
        bench.sent();
        bench
    }

    /// The root, which has everything.
    fn seed(pieces: u32) -> Bench {
        let mut bench = Bench::new(KIND.name, pieces);
        bench.swarm.standing.node = bench.swarm.id.root;
        bench.with_all(pieces)
    }

    /// A receiver that has got everything.
    fn complete(pieces: u32) -> Bench {
        let mut bench = Bench::new(KIND.name, pieces);
        let end = End { length: u64::from(pieces) * u64::from(PIECE), object_hash: Default::default() };
        let run = bench.swarm.add_known(0, 2, Some(end));
        bench.handle(StrategyEvent::PiecesKnown(run));
        bench.with_all(pieces)
    }

    fn with_all(mut self, pieces: u32) -> Bench {
        for piece in (0..pieces).map(PieceIndex) {
            self.swarm.add_own(piece);
            self.handle(StrategyEvent::PieceStored(piece));
        }
        self.sent();
        self
    }

    fn handle(&mut self, event: StrategyEvent<'_>) {
        self.strategy.handle(event, &mut self.swarm);
        self.swarm.check_invariants();
        self.strategy.check_invariants(&self.swarm);
    }

    fn join(&mut self, link: u32) {
        self.swarm.add_peer(LinkId(link), NodeId(link), ClusterId(link % 2));
        self.handle(StrategyEvent::PeerUp(LinkId(link)));
    }

    fn has(&mut self, link: u32, first: u32, count: u32) {
        let peer = LinkId(link);
        let pieces = self.swarm.add_have(peer, 1, &[Run { first: PieceIndex(first), count }]);
        self.handle(StrategyEvent::Have { peer, pieces: &pieces });
    }

    fn says(&mut self, link: u32, message: StrategyMessage) {
        self.handle(StrategyEvent::Message { peer: LinkId(link), message: &message });
    }

    /// Bytes arrive from a peer: a block of one piece.
    fn arrives(&mut self, link: u32, piece: u32, block: u32) {
        let start = block * BLOCK_BYTES;
        let range = ByteRange { start, end: start + BLOCK_BYTES };
        let arrival = self.swarm.add_payload(LinkId(link), PieceIndex(piece), range);
        assert!(arrival.room, "one request fewer is outstanding");
        self.handle(StrategyEvent::LinkMeasured(LinkId(link)));
        if arrival.complete {
            self.swarm.add_stored(PieceIndex(piece));
            self.handle(StrategyEvent::PieceStored(PieceIndex(piece)));
        }
    }

    /// Lets so many seconds pass.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.swarm.set_now(self.swarm.now() + Duration::from_secs(1));
            if self.swarm.take_wake_up() {
                self.handle(StrategyEvent::Timeout);
            }
        }
    }

    fn sent(&mut self) -> Vec<(u32, Frame)> {
        let frame = |output: Output| match output {
            Output::Send { link, frame } => Some((link.0, frame)),
            _ => None,
        };
        self.swarm.take_outputs().filter_map(frame).collect()
    }

    /// The pieces and blocks that were asked of each link, in order.
    fn requests(&mut self) -> Vec<(u32, u32, u32)> {
        let asked = |(link, frame)| match frame {
            Frame::Request { piece, range, .. } => {
                assert_eq!(range.len(), 16 << 10);
                Some((link, piece.0, range.start / BLOCK_BYTES))
            }
            _ => None,
        };
        self.sent().into_iter().filter_map(asked).collect()
    }

    fn said(&mut self) -> Vec<(u32, StrategyMessage)> {
        let said = |(link, frame)| match frame {
            Frame::Strategy { message, .. } => Some((link, message)),
            _ => None,
        };
        self.sent().into_iter().filter_map(said).collect()
    }

    /// Whom this node serves, as it has told them.
    fn unchoked(&mut self, before: &[u32]) -> Vec<u32> {
        let mut served: Vec<u32> = before.to_vec();
        for (link, message) in self.said() {
            match message {
                StrategyMessage::Choke => served.retain(|&other| other != link),
                StrategyMessage::Unchoke => served.push(link),
                _ => {}
            }
        }
        served.sort_unstable();
        served
    }
}

#[test]
fn nothing_is_asked_of_those_who_choke() {
    let mut bench = Bench::new(KIND.name, 20);
    bench.has(1, 0, 20);
    assert_eq!(bench.requests(), []);
    bench.says(1, StrategyMessage::Unchoke);
    let asked = bench.requests();
    assert!(!asked.is_empty() && asked.iter().all(|(link, ..)| *link == 1), "{asked:?}");
}

#[test]
fn five_requests_of_16_kib_are_outstanding_at_each_peer() {
    let mut bench = Bench::new(KIND.name, 20);
    for link in [1, 2] {
        bench.has(link, 0, 20);
        bench.says(link, StrategyMessage::Unchoke);
        let asked = bench.requests();
        assert_eq!(asked.len(), 5, "{asked:?}");
        assert!(asked.iter().all(|asked| asked.0 == link));
        let (_, piece, block) = asked[0];
        bench.arrives(link, piece, block);
        assert_eq!(bench.requests().len(), 1, "the next one follows when one has come");
    }
}

#[test]
fn a_peer_finishes_the_piece_that_it_has_begun_and_then_what_others_have_left() {
    let mut bench = Bench::new(KIND.name, 3);
    (1..4).for_each(|link| bench.has(link, 0, 3));
    bench.says(1, StrategyMessage::Unchoke);
    let mine = bench.requests();
    let [whole, begun] = [mine[0].1, mine[4].1];
    assert_eq!(mine, [(1, whole, 0), (1, whole, 1), (1, whole, 2), (1, whole, 3), (1, begun, 0)]);
    bench.says(2, StrategyMessage::Unchoke);
    let others = bench.requests();
    let fresh = others[0].1;
    assert!(fresh != whole && fresh != begun, "the other peer is asked for another piece");
    let left = [(2, fresh, 0), (2, fresh, 1), (2, fresh, 2), (2, fresh, 3), (2, begun, 1)];
    assert_eq!(others, left, "until there is none");
    bench.arrives(1, whole, 0);
    assert_eq!(bench.requests(), [(1, begun, 2)]);
    bench.says(2, StrategyMessage::Choke);
    bench.says(3, StrategyMessage::Unchoke);
    let rest = bench.requests();
    let taken: Vec<u32> = rest.iter().filter(|asked| asked.0 == 3).map(|asked| asked.1).collect();
    assert_eq!(taken, [fresh, fresh, fresh, fresh, begun], "what nobody brings any more comes first: {rest:?}");
}

#[test]
fn what_was_asked_of_a_peer_that_chokes_is_asked_of_another_one() {
    let mut bench = Bench::new(KIND.name, 1);
    bench.has(1, 0, 1);
    bench.has(2, 0, 1);
    bench.says(1, StrategyMessage::Unchoke);
    bench.says(2, StrategyMessage::Unchoke);
    assert_eq!(bench.requests(), [(1, 0, 0), (1, 0, 1), (1, 0, 2), (1, 0, 3)]);
    bench.arrives(1, 0, 0);
    bench.says(1, StrategyMessage::Choke);
    let sent = bench.sent();
    let cancelled = |link: u32| sent.iter().filter(|(to, f)| *to == link && matches!(f, Frame::Cancel { .. })).count();
    assert_eq!((cancelled(1), cancelled(2)), (1, 0));
    let asked: Vec<_> = sent.iter().filter(|(_, frame)| matches!(frame, Frame::Request { .. })).collect();
    assert!(asked.len() == 3 && asked.iter().all(|(link, _)| *link == 2), "{asked:?}");
    (1..4).for_each(|block| bench.arrives(2, 0, block));
    assert!(bench.swarm.have().contains(PieceIndex(0)));
}

#[test]
fn only_neighbours_are_told_asked_and_served() {
    let mut bench = Bench::new(KIND.name, 20);
    bench.has(STRANGER.0, 0, 20);
    bench.says(STRANGER.0, StrategyMessage::Unchoke);
    assert_eq!(bench.sent(), []);
    bench.says(STRANGER.0, StrategyMessage::Interested);
    assert_eq!(
        bench.said(),
        [(9, StrategyMessage::Interested), (9, StrategyMessage::Unchoke)],
        "whoever says what it wants has been told of this node"
    );
    bench.says(STRANGER.0, StrategyMessage::Unchoke);
    assert_eq!(bench.requests().len(), 5);
}

#[test]
fn neighbours_are_told_whether_they_have_something_of_use() {
    let mut bench = Bench::new(KIND.name, 1);
    bench.has(1, 0, 1);
    bench.has(2, 0, 1);
    assert_eq!(bench.said(), [(1, StrategyMessage::Interested), (2, StrategyMessage::Interested)]);
    bench.says(1, StrategyMessage::Unchoke);
    (0..4).for_each(|block| bench.arrives(1, 0, block));
    assert_eq!(bench.said(), [(1, StrategyMessage::NotInterested), (2, StrategyMessage::NotInterested)]);
    bench.join(6);
    assert_eq!(bench.said(), [], "node 6 connects to this one, and speaks first");
    bench.swarm.remove_peer(LinkId(1));
    bench.handle(StrategyEvent::PeerDown(LinkId(1)));
    bench.join(1);
    assert_eq!(bench.said(), [(1, StrategyMessage::NotInterested)], "so it learns that it is a neighbour");
}

/// As in the original protocol, whose first message on a connection says so.
#[test]
fn a_new_neighbour_is_told_of_all_pieces() {
    let mut bench = Bench::seed(3);
    bench.swarm.remove_peer(LinkId(1));
    bench.handle(StrategyEvent::PeerDown(LinkId(1)));
    bench.join(1);
    bench.swarm.set_now(bench.swarm.now() + Duration::from_secs(1));
    bench.swarm.flush();
    let told = |(link, frame): (u32, Frame)| match frame {
        Frame::Have { pieces, .. } if link == 1 => pieces,
        _ => Vec::new(),
    };
    let told: Vec<Run> = bench.sent().into_iter().flat_map(told).collect();
    assert_eq!(told, [Run { first: PieceIndex(0), count: 3 }]);
}

#[test]
fn all_neighbours_are_told_of_each_piece_also_those_who_have_it() {
    let mut bench = Bench::new(KIND.name, 2);
    bench.has(1, 0, 2);
    bench.says(1, StrategyMessage::Unchoke);
    let piece = bench.requests()[0].1;
    (0..4).for_each(|block| bench.arrives(1, piece, block));
    bench.swarm.set_now(bench.swarm.now() + Duration::from_secs(1));
    bench.swarm.flush();
    let sent = bench.sent();
    let told = |(link, frame): &(u32, Frame)| match frame {
        Frame::Have { pieces, .. } if !pieces.is_empty() => Some((*link, pieces[0].first.0)),
        _ => None,
    };
    let told: Vec<_> = sent.iter().filter_map(told).collect();
    assert_eq!(told, [1, 2, 3, 4].map(|link| (link, piece)), "but no stranger");
}

/// The first piece that is asked for, for so many seeds: peer 1 has all of them, the others have those that `common` says.
fn first_pieces(name: &str, pieces: u32, common: [(u32, u32); 2], seeds: u64) -> Vec<u32> {
    let first = |seed: u64| {
        let mut bench = Bench::new(name, pieces);
        bench.swarm.random = crate::random::Random::new(seed);
        bench.has(1, 0, pieces);
        (2..).zip(common).for_each(|(link, (first, count))| bench.has(link, first, count));
        // Who is no neighbour does not count.
        bench.has(STRANGER.0, 30, 3);
        bench.says(1, StrategyMessage::Unchoke);
        bench.requests()[0].1
    };
    (0..seeds).map(first).collect()
}

/// Three of 63 pieces have only one neighbour.
#[test]
fn pieces_are_chosen_at_random_or_the_rarest_first() {
    let rare_ones = |kind: &StrategyKind| {
        let chosen = first_pieces(kind.name, 63, [(0, 30), (33, 30)], 200);
        chosen.iter().filter(|piece| (30..33).contains(*piece)).count()
    };
    assert_eq!(rare_ones(&RAREST), 200);
    for kind in [KIND, BIASED] {
        let by_chance = rare_ones(&kind);
        assert!((2..25).contains(&by_chance), "{}: {by_chance} where 9.5 are expected", kind.name);
    }
}

/// A neighbour has a part of a large object, behind a gap.
#[test]
fn a_random_piece_is_any_of_those_that_a_peer_has() {
    let mut times = [0; 4];
    for seed in 0..400 {
        let mut bench = Bench::new(KIND.name, 1_200);
        bench.swarm.random = crate::random::Random::new(seed);
        bench.has(1, 400, 400);
        bench.says(1, StrategyMessage::Unchoke);
        times[(bench.requests()[0].1 as usize - 400) / 100] += 1;
    }
    assert!(times.iter().all(|times| (60..150).contains(times)), "{times:?} where 100 each are expected");
}

#[test]
fn a_piece_that_was_wrong_comes_from_one_peer_as_a_whole() {
    let mut bench = Bench::new(KIND.name, 1);
    bench.has(1, 0, 1);
    bench.has(2, 0, 1);
    bench.says(1, StrategyMessage::Unchoke);
    bench.arrives(1, 0, 0);
    bench.says(2, StrategyMessage::Unchoke);
    bench.says(1, StrategyMessage::Choke);
    for block in 1..4 {
        let range = ByteRange { start: block * BLOCK_BYTES, end: (block + 1) * BLOCK_BYTES };
        bench.swarm.add_payload(LinkId(2), PieceIndex(0), range);
    }
    bench.sent();
    assert_eq!(bench.swarm.add_wrong(PieceIndex(0), true), [], "of two nobody can be blamed");
    bench.handle(StrategyEvent::PieceWrong(PieceIndex(0)));
    let whole = |frame: &Frame| matches!(frame, Frame::Request { range, .. } if *range == ByteRange::whole(PIECE));
    let sent = bench.sent();
    let asked: Vec<_> = sent.iter().filter(|(_, frame)| matches!(frame, Frame::Request { .. })).collect();
    assert!(matches!(asked[..], [(2, frame)] if whole(frame)), "{asked:?}");
}

// ---- Serving ----

#[test]
fn those_who_send_most_are_served() {
    let mut bench = Bench::new(KIND.name, 40);
    (5..8).for_each(|link| bench.join(link));
    (1..8).for_each(|link| bench.says(link, StrategyMessage::Interested));
    let first = bench.unchoked(&[]);
    assert_eq!((&first[..4], first.len()), (&[1, 2, 3, 4][..], 5), "who comes first, and one by chance");
    // Peers 4 to 7 have 1 to 4 pieces to give.
    for (link, first, count) in [(4, 0, 1), (5, 1, 2), (6, 3, 3), (7, 6, 4)] {
        bench.has(link, first, count);
        bench.says(link, StrategyMessage::Unchoke);
        loop {
            let asked =
                bench.swarm.open().next().map(|(piece, open)| (piece.0, open.parts[0].rest.start / BLOCK_BYTES));
            let Some((piece, block)) = asked else { break };
            bench.arrives(link, piece, block);
        }
    }
    let before = bench.unchoked(&first);
    assert_eq!(before, first);
    bench.pass(9);
    assert_eq!(bench.unchoked(&first), first, "not before ten seconds are over");
    bench.pass(1);
    let served = bench.unchoked(&first);
    assert_eq!(served.len(), 5);
    assert!([4, 5, 6, 7].iter().all(|link| served.contains(link)), "{served:?}");
}

#[test]
fn who_has_everything_serves_those_to_whom_it_sends_most() {
    for mut bench in [Bench::seed(4), Bench::complete(4)] {
        (5..8).for_each(|link| bench.join(link));
        (1..8).for_each(|link| bench.says(link, StrategyMessage::Interested));
        let first = bench.unchoked(&[]);
        for link in 4..8 {
            bench.swarm.count_sent(LinkId(link), link * 1_000);
            bench.handle(StrategyEvent::PieceWanted { peer: LinkId(link), piece: PieceIndex(0) });
        }
        bench.pass(10);
        let served = bench.unchoked(&first);
        assert_eq!(served.len(), 5);
        assert!([4, 5, 6, 7].iter().all(|link| served.contains(link)), "{served:?}");
    }
}

/// Peers 4 to 7 were sent most, long ago.
#[test]
fn what_was_sent_before_the_last_two_rounds_does_not_count() {
    let mut bench = Bench::seed(40);
    (5..8).for_each(|link| bench.join(link));
    (1..8).for_each(|link| bench.says(link, StrategyMessage::Interested));
    let first = bench.unchoked(&[]);
    (4..8).for_each(|link| bench.swarm.count_sent(LinkId(link), link * 1_000));
    bench.pass(10);
    let then = bench.unchoked(&first);
    assert!([4, 5, 6, 7].iter().all(|link| then.contains(link)), "{then:?}");
    bench.pass(10);
    let then = bench.unchoked(&then);
    (1..4).for_each(|link| bench.swarm.count_sent(LinkId(link), 100));
    bench.pass(10);
    let served = bench.unchoked(&then);
    assert!([1, 2, 3].iter().all(|link| served.contains(link)), "{served:?}");
}

/// Peers 1 to 4 are served for their rates, and 5 because it came next. After thirty seconds another one is drawn, of 6 to 8.
#[test]
fn who_has_no_piece_is_drawn_three_times_as_often() {
    let serves_newcomer = |seed: u64| {
        let mut bench = Bench::seed(4);
        bench.swarm.random = crate::random::Random::new(seed);
        (5..9).for_each(|link| bench.join(link));
        (1..9).filter(|&link| link != 6).for_each(|link| bench.has(link, 0, 1));
        (1..9).for_each(|link| bench.says(link, StrategyMessage::Interested));
        let first = bench.unchoked(&[]);
        assert_eq!(first, [1, 2, 3, 4, 5]);
        bench.pass(30);
        let served = bench.unchoked(&first);
        assert_eq!((&served[..4], served.len()), (&[1, 2, 3, 4][..], 5));
        served[4] == 6
    };
    let times = (0..300).filter(|&seed| serves_newcomer(seed)).count();
    assert!((150..210).contains(&times), "{times} of 300, where three of five tickets make 180");
}

#[test]
fn nobody_is_served_who_wants_nothing() {
    let mut bench = Bench::seed(40);
    bench.says(1, StrategyMessage::NotInterested);
    assert_eq!(bench.unchoked(&[]), [0; 0]);
    bench.says(1, StrategyMessage::Interested);
    assert_eq!(bench.unchoked(&[]), [1]);
    bench.says(1, StrategyMessage::NotInterested);
    assert_eq!(bench.unchoked(&[1]), [0; 0]);
}

#[test]
fn the_timer_rests_while_nobody_wants_anything() {
    let mut bench = Bench::seed(40);
    bench.pass(25);
    assert_eq!(bench.swarm.timeout().filter(|&at| at > bench.swarm.now()), None);
    bench.says(1, StrategyMessage::Interested);
    let due = Time::ZERO + Duration::from_secs(35);
    assert!(bench.swarm.timeout().is_some_and(|at| at <= due), "{:?}", bench.swarm.timeout());
}

// ---- Help ----

fn asks_for_help(said: &[(u32, StrategyMessage)]) -> Vec<u32> {
    let help = |message: &StrategyMessage| matches!(message, StrategyMessage::Interest { .. });
    said.iter().filter(|(_, message)| help(message)).map(|(link, _)| *link).collect()
}

#[test]
fn who_has_had_nothing_for_long_asks_everybody_until_it_is_served() {
    let mut bench = Bench::new(KIND.name, 4);
    bench.has(1, 0, 2);
    bench.pass(14);
    assert_eq!(bench.requests(), []);
    bench.pass(2);
    let said = bench.sent();
    assert!(said.iter().any(|(link, frame)| *link == 1 && matches!(frame, Frame::Request { .. })), "{said:?}");
    bench.has(9, 2, 2);
    assert!(bench.requests().iter().any(|(link, ..)| *link == 9), "also of strangers");
    bench.has(2, 0, 4);
    bench.says(2, StrategyMessage::Unchoke);
    let asked_of: Vec<LinkId> =
        bench.swarm.open().flat_map(|(_, open)| open.parts.iter().map(|part| part.peer)).collect();
    assert!(!asked_of.is_empty() && asked_of.iter().all(|&link| link == LinkId(2)), "{asked_of:?}");
}

#[test]
fn help_is_asked_of_all_once_and_only_by_who_lacks_something() {
    let mut bench = Bench::new(KIND.name, 4);
    bench.pass(16);
    assert_eq!(asks_for_help(&bench.said()), [1, 2, 3, 4, 9]);
    bench.pass(30);
    assert_eq!(asks_for_help(&bench.said()), [0; 0]);
    bench.join(6);
    assert_eq!(asks_for_help(&bench.said()), [6]);
    let mut seed = Bench::seed(4);
    seed.pass(60);
    assert_eq!(asks_for_help(&seed.said()), [0; 0]);
}

#[test]
fn without_a_root_help_is_asked_before_the_broadcast_is_given_up() {
    let mut bench = Bench::new(KIND.name, 4);
    bench.swarm.standing.root_cluster = None;
    bench.has(1, 0, 2);
    bench.pass(5);
    assert_eq!(asks_for_help(&bench.said()), [0; 0], "what a peer has told of may still come");
    let mut bench = Bench::new(KIND.name, 4);
    bench.swarm.standing.root_cluster = None;
    bench.pass(5);
    assert_eq!(asks_for_help(&bench.said()), [1, 2, 3, 4, 9]);
}

#[test]
fn who_asks_for_help_is_told_of_what_there_is_and_what_comes() {
    let mut bench = Bench::seed(2);
    let interest = StrategyMessage::Interest { slots: crate::content::slots::SlotSet::all(), pieces: Vec::new() };
    bench.says(STRANGER.0, interest);
    bench.swarm.set_now(bench.swarm.now() + Duration::from_secs(1));
    bench.swarm.flush();
    let told = |(link, frame): &(u32, Frame)| {
        *link == STRANGER.0 && matches!(frame, Frame::Have { pieces, .. } if pieces.len() == 1 && pieces[0].count == 2)
    };
    assert!(bench.sent().iter().any(told));
}

#[test]
fn what_a_silent_peer_was_asked_for_is_asked_of_others() {
    let mut bench = Bench::new(KIND.name, 1);
    bench.has(1, 0, 1);
    bench.has(2, 0, 1);
    bench.says(1, StrategyMessage::Unchoke);
    bench.says(2, StrategyMessage::Unchoke);
    assert_eq!(bench.requests().len(), 4);
    bench.pass(4);
    assert_eq!(bench.requests(), []);
    bench.pass(2);
    let asked = bench.requests();
    assert!(asked.len() == 4 && asked.iter().all(|(link, ..)| *link == 2), "{asked:?}");
}

/// Fault seed 2313415: a neighbour that served it for a moment put off for a quarter of a minute what it asked of all others.
#[test]
fn who_was_in_need_and_is_served_for_a_moment_asks_everybody_again_soon() {
    let mut bench = Bench::new(KIND.name, 4);
    bench.has(9, 0, 4);
    bench.pass(16);
    assert!(bench.requests().iter().all(|(link, ..)| *link == 9));
    bench.has(2, 0, 1);
    bench.says(2, StrategyMessage::Unchoke);
    assert_eq!(bench.requests().iter().map(|(link, ..)| *link).collect::<Vec<_>>(), [2; 4], "the rest of one piece");
    (0..4).for_each(|block| bench.arrives(2, 0, block));
    bench.says(2, StrategyMessage::Choke);
    bench.pass(2);
    assert_eq!(bench.requests(), [], "a neighbour may go on");
    bench.pass(2);
    let asked = bench.requests();
    assert!(!asked.is_empty() && asked.iter().all(|(link, ..)| *link == 9), "{asked:?}");
}
