//! What a node asks of whom, by its place in a plan, and what it does when a parent fails.

use super::rejecting::REJECTED_FOR;
use super::*;
use crate::content::manifest::End;
use crate::content::slots::SlotSet;
use crate::group::place::{TreeChild, TreePlace};
use crate::io::Output;
use crate::limits::{OPEN_PIECES_BYTES_MAX, SILENCE_MAX};
use crate::units::{BroadcastId, ByteRange, ClusterId};
use crate::wire::frame::Frame;

const PIECE: u32 = 16 << 10;

fn place(split: Split, trees: &[(u64, u32, Option<u32>)]) -> PlanPlace {
    let tree = |&(weight, depth, parent): &(u64, u32, Option<u32>)| {
        let children = vec![TreeChild { node: NodeId(9), rate_bytes_per_s: Some(weight) }];
        TreePlace { weight, depth, parent: parent.map(NodeId), children }
    };
    let (strategy, trees) = ("chain".into(), trees.iter().map(tree).collect());
    PlanPlace {
        strategy,
        root: NodeId(0),
        position: 5,
        nodes: 10,
        cluster_first: 0,
        cluster_size: 10,
        split,
        trees,
        peers: Vec::new(),
    }
}

/// A node with parents 1 and 2 and child 9, on links of the same numbers, that knows of `pieces` pieces.
fn swarm(plan: Option<PlanPlace>, pieces: u32) -> (Swarm, Trees) {
    limited(plan, pieces, OPEN_PIECES_BYTES_MAX)
}

/// The same, of whose pieces so many bytes may be open.
fn limited(plan: Option<PlanPlace>, pieces: u32, open_limit: u64) -> (Swarm, Trees) {
    let length = Some(u64::from(pieces) * u64::from(PIECE));
    let mut swarm = Swarm::new(BroadcastId::default(), PIECE, 0, length, 1);
    swarm.standing.node = NodeId(5);
    swarm.standing.root_cluster = Some(ClusterId(0));
    swarm.standing.plan = plan;
    swarm.set_open_limit(open_limit);
    for link in [1, 2, 9] {
        swarm.add_peer(LinkId(link), NodeId(link), ClusterId(0));
    }
    let mut trees = Trees::default();
    trees.handle(StrategyEvent::Started, &mut swarm);
    swarm.set_paused(false);
    let run = swarm.add_known(pieces, 1, None);
    trees.handle(StrategyEvent::PiecesKnown(run), &mut swarm);
    (swarm, trees)
}

/// The pieces that were asked of each link, in order.
fn requests(swarm: &mut Swarm) -> Vec<(u32, u32)> {
    let asked = |output: Output| match output {
        Output::Send { link, frame: Frame::Request { piece, .. } } => Some((link.0, piece.0)),
        _ => None,
    };
    swarm.take_outputs().filter_map(asked).collect()
}

/// Who was asked what it has.
fn asked_what_they_have(swarm: &mut Swarm) -> Vec<u32> {
    let asked = |output: Output| match output {
        Output::Send { link, frame: Frame::Strategy { message: StrategyMessage::Interest { .. }, .. } } => Some(link.0),
        _ => None,
    };
    swarm.take_outputs().filter_map(asked).collect()
}

fn help_asked(swarm: &mut Swarm) -> bool {
    asked_what_they_have(swarm).contains(&9)
}

fn say_have(swarm: &mut Swarm, trees: &mut Trees, peer: u32, count: u32) {
    let run = crate::content::have::Run { first: PieceIndex(0), count };
    let pieces = swarm.add_have(LinkId(peer), 1, &[run]);
    trees.handle(StrategyEvent::Have { peer: LinkId(peer), pieces: &pieces }, swarm);
}

fn pass_time(swarm: &mut Swarm, trees: &mut Trees, time: Duration) {
    let end = swarm.now() + time;
    while swarm.now() < end {
        swarm.set_now(swarm.now() + TICK);
        trees.handle(StrategyEvent::Timeout, swarm);
    }
}

#[test]
fn pieces_are_asked_for_in_order_before_the_parent_has_them() {
    let (mut swarm, _) = swarm(Some(place(Split::RoundRobin, &[(1, 1, Some(1))])), 3);
    assert!(swarm.peer(LinkId(1)).unwrap().have.is_empty(), "the parent has said nothing");
    assert_eq!(requests(&mut swarm), [(1, 0), (1, 1), (1, 2)]);
}

#[test]
fn two_trees_take_turns() {
    let (mut swarm, _) = swarm(Some(place(Split::RoundRobin, &[(1, 1, Some(1)), (1, 1, Some(2))])), 4);
    assert_eq!(requests(&mut swarm), [(1, 0), (2, 1), (1, 2), (2, 3)]);
}

/// A parent far down in one tree gets its pieces later than those of another in which it is near the root.
#[test]
fn what_one_tree_waits_for_holds_up_no_other() {
    let same_parent = [(1, 1, Some(1)); 3];
    let (mut swarm, _) = swarm(Some(place(Split::RoundRobin, &same_parent)), 90);
    let asked = requests(&mut swarm);
    for tree in 0..3 {
        assert_eq!(asked.iter().filter(|(_, piece)| piece % 3 == tree).count(), AHEAD, "of tree {tree}: {asked:?}");
    }
}

#[test]
fn no_parent_is_asked_ahead_for_more_than_its_part() {
    let trees: Vec<_> = (0..40).map(|tree| (1, 1, Some(1 + tree % 2))).collect();
    let plan = place(Split::RoundRobin, &trees);
    let (mut swarm, _) = limited(Some(plan), 400, 80 * u64::from(PIECE));
    let asked = requests(&mut swarm);
    let of_parent = [1, 2].map(|parent| asked.iter().filter(|(link, _)| *link == parent).count());
    assert_eq!(of_parent, [20, 20], "a quarter of the 80 that may be open");
}

/// Whoever has asked a silent parent for all that may be open can still be helped.
#[test]
fn a_parent_that_falls_silent_with_all_that_may_be_open_is_passed_over() {
    let plan = place(Split::RoundRobin, &[(1, 1, Some(1))]);
    let (mut swarm, mut trees) = limited(Some(plan), 8, 4 * u64::from(PIECE));
    assert_eq!(requests(&mut swarm).len(), 4, "all that may be open");
    pass_time(&mut swarm, &mut trees, SILENCE_MAX + HELP_AFTER + HELP_AFTER);
    say_have(&mut swarm, &mut trees, 9, 8);
    pass_time(&mut swarm, &mut trees, HELP_AFTER);
    assert!(requests(&mut swarm).contains(&(9, 0)), "the other one has it");
}

#[test]
fn parts_come_in_the_order_of_a_ring() {
    // The second half is this node's own and comes from the root, the first half around the ring.
    let (mut swarm, _) = swarm(Some(place(Split::Parts, &[(1, 7, Some(1)), (1, 2, Some(2))])), 4);
    assert_eq!(requests(&mut swarm), [(2, 2), (2, 3), (1, 0), (1, 1)]);
}

#[test]
fn a_parent_is_asked_for_two_pieces_of_each_part_in_turn() {
    let (mut swarm, _) = swarm(Some(place(Split::Parts, &[(1, 3, Some(1)), (1, 1, Some(1)), (1, 2, Some(1))])), 9);
    let asked: Vec<u32> = requests(&mut swarm).into_iter().map(|(_, piece)| piece).collect();
    assert_eq!(asked, [3, 4, 6, 7, 0, 1, 5, 8, 2]);
}

/// A stream's end is known at last; that must not deal out anew what has been dealt out.
#[test]
fn parts_of_a_stream_come_in_turn_to_its_end() {
    let plan = place(Split::Parts, &[(1, 7, Some(1)), (1, 2, Some(1)), (1, 3, Some(1))]);
    let mut swarm = Swarm::new(BroadcastId::default(), PIECE, 0, None, 1);
    swarm.standing.node = NodeId(5);
    swarm.standing.plan = Some(plan);
    swarm.add_peer(LinkId(1), NodeId(1), ClusterId(0));
    let mut trees = Trees::default();
    trees.handle(StrategyEvent::Started, &mut swarm);
    swarm.set_paused(false);
    let mut asked: Vec<u32> = Vec::new();
    let mut told = |swarm: &mut Swarm, event: StrategyEvent| {
        trees.handle(event, swarm);
        asked.extend(requests(swarm).into_iter().map(|(_, piece)| piece));
    };
    let run = swarm.add_known(27, 1, None);
    told(&mut swarm, StrategyEvent::PiecesKnown(run));
    let end = End { length: 27 * u64::from(PIECE), object_hash: Default::default() };
    let run = swarm.add_known(0, 2, Some(end));
    told(&mut swarm, StrategyEvent::PiecesKnown(run));
    for piece in (0..24).map(PieceIndex) {
        swarm.add_payload(LinkId(1), piece, ByteRange::whole(PIECE));
        swarm.add_stored(piece);
        told(&mut swarm, StrategyEvent::PieceStored(piece));
    }
    asked.sort_unstable();
    assert_eq!(asked, (0..27).collect::<Vec<_>>(), "each once, and none is forgotten");
}

#[test]
fn every_stretch_is_divided_by_the_weights() {
    let (swarm, _) = swarm(Some(place(Split::Weighted, &[(4, 1, Some(1)), (1, 1, Some(2)), (4, 1, Some(1))])), 1);
    let lottery = plan_of(&swarm).unwrap().lottery(&swarm);
    for start in [0u32, 100, 5_000] {
        let mut counts = [0u32; 3];
        (start..start + 90).for_each(|piece| counts[lottery.tree_of(PieceIndex(piece))] += 1);
        let near = |count: u32, ideal: u32| count.abs_diff(ideal) <= 3;
        assert!(near(counts[0], 40) && near(counts[1], 10) && near(counts[2], 40), "{counts:?} from {start} on");
    }
}

#[test]
fn children_are_limited_to_what_their_trees_take_together() {
    let (mut swarm, _) = swarm(Some(place(Split::Weighted, &[(4, 1, Some(1)), (3, 1, Some(2))])), 1);
    assert_eq!(swarm.take_rate_limits().last(), Some(&(LinkId(9), Some(7))));
    let mut unlimited = place(Split::Weighted, &[(4, 1, Some(1)), (3, 1, Some(2))]);
    unlimited.trees[0].children[0].rate_bytes_per_s = None;
    let (mut swarm, mut trees) = self::swarm(Some(unlimited), 1);
    assert_eq!(swarm.take_rate_limits().last(), Some(&(LinkId(9), None)));
    swarm.standing.plan = None;
    trees.handle(StrategyEvent::AssignmentChanged, &mut swarm);
    let lifted = swarm.take_rate_limits();
    assert!(lifted.contains(&(LinkId(9), None)), "who is no child any more is not limited: {lifted:?}");
}

#[test]
fn the_first_hashes_come_down_all_trees_and_the_others_down_the_heaviest() {
    let mut place = place(Split::Weighted, &[(3, 1, Some(1)), (4, 1, Some(2)), (4, 1, Some(2))]);
    for (tree, child) in [(0, 1), (1, 9), (2, 2)] {
        place.trees[tree].children[0].node = NodeId(child);
    }
    let (swarm, trees) = swarm(Some(place), 1);
    let sent = |first: u32| trees.manifest_children(&swarm, PieceIndex(first));
    assert_eq!(sent(0), [LinkId(1), LinkId(2), LinkId(9)]);
    assert_eq!(sent(HASHES_EVERYWHERE), [LinkId(9)], "of two that are as heavy, the first");
}

#[test]
fn batches_are_left_to_parents_as_long_as_there_are_any() {
    let trees_of =
        |first: Option<u32>, heaviest: Option<u32>| place(Split::Weighted, &[(3, 1, first), (4, 1, heaviest)]);
    let left_to = |place: &PlanPlace, known: u32| {
        let (swarm, trees) = swarm(Some(place.clone()), known);
        trees.manifest_parents(&swarm).into_iter().map(|link| link.0).collect::<Vec<_>>()
    };
    let both = trees_of(Some(1), Some(2));
    assert_eq!([1, HASHES_EVERYWHERE].map(|known| left_to(&both, known)), [vec![1, 2], vec![2]]);
    // Node 7 is not linked: what comes down all trees still comes, and nothing else.
    let one = trees_of(Some(1), Some(7));
    assert_eq!([1, HASHES_EVERYWHERE].map(|known| left_to(&one, known)), [vec![1], vec![]]);
    let (mut swarm, mut trees) = swarm(Some(both.clone()), 1);
    trees.in_need = true;
    assert_eq!(trees.manifest_parents(&swarm), [], "who is in need asks anybody");
    trees.in_need = false;
    swarm.standing.plan = Some(PlanPlace { root: NodeId(4), ..both });
    assert_eq!(trees.manifest_parents(&swarm), [], "in a broadcast of another root nobody is sent any");
}

#[test]
fn who_has_lost_its_parent_asks_its_neighbours_and_fetches_from_them() {
    let (mut swarm, mut trees) = swarm(Some(place(Split::RoundRobin, &[(1, 1, Some(1))])), 2);
    swarm.remove_peer(LinkId(1));
    trees.handle(StrategyEvent::PeerDown(LinkId(1)), &mut swarm);
    pass_time(&mut swarm, &mut trees, HELP_AFTER);
    assert!(!help_asked(&mut swarm), "another parent may come any moment");
    pass_time(&mut swarm, &mut trees, HELP_AFTER);
    assert!(help_asked(&mut swarm));
    let news = swarm.add_have(LinkId(9), 1, &[crate::content::have::Run { first: PieceIndex(1), count: 1 }]);
    trees.handle(StrategyEvent::Have { peer: LinkId(9), pieces: &news }, &mut swarm);
    assert_eq!(requests(&mut swarm), [(9, 1)]);
}

#[test]
fn a_parent_that_sends_is_left_to_send_and_one_that_is_silent_is_not() {
    let (mut swarm, mut trees) = swarm(Some(place(Split::RoundRobin, &[(1, 1, Some(1))])), 2);
    requests(&mut swarm);
    for _ in 0..6 {
        pass_time(&mut swarm, &mut trees, TICK + TICK);
        let start = swarm.open_piece(PieceIndex(0)).unwrap().received_bytes();
        swarm.add_payload(LinkId(1), PieceIndex(0), ByteRange { start, end: start + 1 });
    }
    assert!(asked_what_they_have(&mut swarm).is_empty(), "it sends, though slowly");
    pass_time(&mut swarm, &mut trees, HELP_AFTER + TICK);
    assert_eq!(asked_what_they_have(&mut swarm), [1], "it may have nothing to send");
    pass_time(&mut swarm, &mut trees, SILENCE_MAX + HELP_AFTER + TICK);
    assert!(help_asked(&mut swarm), "it does not say");
    say_have(&mut swarm, &mut trees, 2, 2);
    assert_eq!(requests(&mut swarm), [(2, 0), (2, 1)], "both were asked of the silent parent");
}

#[test]
fn a_parent_that_has_nothing_to_send_is_waited_for_and_one_that_has_is_not() {
    for has in 1..=2 {
        let (mut swarm, mut trees) = swarm(Some(place(Split::RoundRobin, &[(1, 1, Some(1))])), 2);
        swarm.add_payload(LinkId(1), PieceIndex(0), ByteRange::whole(PIECE));
        swarm.add_stored(PieceIndex(0));
        trees.handle(StrategyEvent::PieceStored(PieceIndex(0)), &mut swarm);
        pass_time(&mut swarm, &mut trees, HELP_AFTER + TICK);
        assert_eq!(asked_what_they_have(&mut swarm), [1]);
        say_have(&mut swarm, &mut trees, 1, has);
        pass_time(&mut swarm, &mut trees, HELP_AFTER.times(4));
        assert_eq!(help_asked(&mut swarm), has == 2, "it has {has} of the two pieces");
    }
}

#[test]
fn a_parent_that_has_nothing_to_send_is_not_waited_for_for_ever() {
    let (mut swarm, mut trees) = swarm(Some(place(Split::RoundRobin, &[(1, 1, Some(1))])), 2);
    swarm.add_payload(LinkId(1), PieceIndex(0), ByteRange::whole(PIECE));
    swarm.add_stored(PieceIndex(0));
    trees.handle(StrategyEvent::PieceStored(PieceIndex(0)), &mut swarm);
    say_have(&mut swarm, &mut trees, 1, 1);
    pass_time(&mut swarm, &mut trees, SILENCE_MAX.times(2));
    assert!(!help_asked(&mut swarm), "it may wait for its own parent");
    pass_time(&mut swarm, &mut trees, SILENCE_MAX + HELP_AFTER.times(2));
    assert!(help_asked(&mut swarm));
}

#[test]
fn without_the_root_nobody_is_waited_for() {
    let (mut swarm, mut trees) = swarm(Some(place(Split::RoundRobin, &[(1, 1, Some(1))])), 2);
    swarm.standing.root_cluster = None;
    pass_time(&mut swarm, &mut trees, HELP_AFTER.times(2) + TICK + TICK);
    assert!(help_asked(&mut swarm), "who gets nothing for ten seconds gives up");
}

#[test]
fn who_was_silent_once_is_waited_for_again_when_it_has_sent_something() {
    let pieces = 2 * AHEAD as u32;
    let (mut swarm, mut trees) = swarm(Some(place(Split::RoundRobin, &[(1, 1, Some(1))])), pieces);
    pass_time(&mut swarm, &mut trees, SILENCE_MAX + HELP_AFTER.times(2) + TICK);
    say_have(&mut swarm, &mut trees, 2, 1);
    assert!(trees.is_silent(&swarm, LinkId(1)), "the neighbour was asked instead");
    pass_time(&mut swarm, &mut trees, MUTE_FOR + HELP_AFTER);
    assert!(trees.is_silent(&swarm, LinkId(1)), "a second is enough");
    let asked = swarm.open().find(|(_, open)| open.parts.iter().any(|part| part.peer == LinkId(1)));
    let piece = asked.expect("it is asked again").0;
    // Less than leaves room for another request.
    swarm.add_payload(LinkId(1), piece, ByteRange { start: 0, end: 1 });
    pass_time(&mut swarm, &mut trees, HELP_AFTER.times(2));
    assert!(!trees.is_silent(&swarm, LinkId(1)));
}

#[test]
fn the_slower_a_parent_the_longer_it_may_take_for_a_piece() {
    for (took, patient) in [(Duration::from_millis(10), false), (Duration::from_secs(2), true)] {
        let (mut swarm, mut trees) = swarm(Some(place(Split::RoundRobin, &[(1, 1, Some(1))])), 2);
        swarm.set_now(swarm.now() + took);
        swarm.add_payload(LinkId(1), PieceIndex(0), ByteRange::whole(PIECE));
        swarm.add_stored(PieceIndex(0));
        trees.handle(StrategyEvent::PieceStored(PieceIndex(0)), &mut swarm);
        say_have(&mut swarm, &mut trees, 1, 2);
        pass_time(&mut swarm, &mut trees, HELP_AFTER.times(4));
        assert_eq!(help_asked(&mut swarm), !patient, "the first piece took {took:?}");
    }
}

#[test]
fn without_a_place_a_node_asks_all_at_once() {
    let (mut swarm, _) = swarm(None, 1);
    assert!(help_asked(&mut swarm), "the coordinator may never give it one");
}

#[test]
fn who_asks_for_help_is_told_of_what_there_is_and_what_comes() {
    let (mut swarm, mut trees) = swarm(Some(place(Split::RoundRobin, &[(1, 1, Some(1))])), 2);
    swarm.add_payload(LinkId(1), PieceIndex(0), ByteRange::whole(PIECE));
    swarm.add_stored(PieceIndex(0));
    trees.handle(StrategyEvent::PieceStored(PieceIndex(0)), &mut swarm);
    let message = StrategyMessage::Interest { slots: SlotSet::all(), pieces: Vec::new() };
    trees.handle(StrategyEvent::Message { peer: LinkId(9), message: &message }, &mut swarm);
    swarm.set_now(swarm.now() + Duration::from_secs(1));
    swarm.flush();
    let told = swarm.take_outputs().any(|output| {
        matches!(&output, Output::Send { link: LinkId(9), frame: Frame::Have { pieces, .. } } if !pieces.is_empty())
    });
    assert!(told);
}

#[test]
fn another_parent_is_asked_for_what_the_former_one_has_not_begun_to_send() {
    let (mut swarm, mut trees) = swarm(Some(place(Split::RoundRobin, &[(1, 1, Some(1))])), 2);
    requests(&mut swarm);
    swarm.add_payload(LinkId(1), PieceIndex(0), ByteRange { start: 0, end: 1 });
    swarm.standing.plan = Some(place(Split::RoundRobin, &[(1, 1, Some(2))]));
    trees.handle(StrategyEvent::AssignmentChanged, &mut swarm);
    assert_eq!(requests(&mut swarm), [(2, 1)], "piece 0 is on its way");
}

#[test]
fn a_broadcast_of_another_root_goes_through_the_trees_whichever_way_leads_away_from_it() {
    let mut plan = place(Split::RoundRobin, &[(1, 1, Some(1)), (1, 1, Some(2))]);
    plan.root = NodeId(7);
    let (mut swarm, mut trees) = swarm(Some(plan), 2);
    assert!(requests(&mut swarm).is_empty(), "nobody is above");
    let all = [crate::content::have::Run { first: PieceIndex(0), count: 2 }];
    for (peer, expected) in [(1, vec![(1, 0)]), (9, vec![(9, 1)]), (2, vec![])] {
        let news = swarm.add_have(LinkId(peer), 1, &all);
        trees.handle(StrategyEvent::Have { peer: LinkId(peer), pieces: &news }, &mut swarm);
        assert_eq!(requests(&mut swarm), expected, "from {peer}: of its own tree alone, and nothing twice");
    }
}

/// Its neighbours have announced nothing, so that it has asked for nothing: a first piece may be long on its way down a chain.
#[test]
fn in_a_broadcast_of_another_root_who_has_had_nothing_for_two_seconds_asks_all() {
    let mut plan = place(Split::RoundRobin, &[(1, 1, Some(1))]);
    plan.root = NodeId(7);
    let (mut swarm, mut trees) = swarm(Some(plan), 2);
    let asked_a_stranger = |swarm: &mut Swarm| asked_what_they_have(swarm).contains(&2);
    for arrives in [true, false] {
        pass_time(&mut swarm, &mut trees, Duration::from_millis(1_750));
        assert!(!asked_a_stranger(&mut swarm));
        if arrives {
            swarm.add_payload(LinkId(1), PieceIndex(0), ByteRange::whole(PIECE));
            swarm.add_stored(PieceIndex(0));
            trees.handle(StrategyEvent::PieceStored(PieceIndex(0)), &mut swarm);
        }
    }
    pass_time(&mut swarm, &mut trees, HELP_AFTER);
    assert!(asked_a_stranger(&mut swarm));
}

#[test]
fn who_was_asked_in_vain_is_not_asked_again_soon() {
    let (mut swarm, mut trees) = swarm(Some(place(Split::RoundRobin, &[(1, 1, Some(1))])), 1);
    let all = [crate::content::have::Run { first: PieceIndex(0), count: 1 }];
    requests(&mut swarm);
    pass_time(&mut swarm, &mut trees, SILENCE_MAX + HELP_AFTER.times(2) + TICK);
    let news = swarm.add_have(LinkId(2), 1, &all);
    trees.handle(StrategyEvent::Have { peer: LinkId(2), pieces: &news }, &mut swarm);
    assert_eq!(requests(&mut swarm), [(2, 0)]);
    swarm.remove_peer(LinkId(2));
    trees.handle(StrategyEvent::PeerDown(LinkId(2)), &mut swarm);
    assert!(requests(&mut swarm).is_empty(), "its parent has sent nothing before");
    pass_time(&mut swarm, &mut trees, MUTE_FOR);
    assert_eq!(requests(&mut swarm), [(1, 0)]);
    say_have(&mut swarm, &mut trees, 9, 1);
    assert!(requests(&mut swarm).is_empty(), "the parent may send it");
    pass_time(&mut swarm, &mut trees, HELP_AFTER + TICK);
    assert_eq!(requests(&mut swarm), [(9, 0)], "it is not waited for as long as at first");
}

#[test]
fn who_has_asked_for_help_goes_by_the_plan_again_when_its_parent_sends() {
    let (mut swarm, mut trees) = swarm(Some(place(Split::RoundRobin, &[(1, 1, Some(1))])), 4);
    pass_time(&mut swarm, &mut trees, SILENCE_MAX + HELP_AFTER.times(2) + TICK);
    assert!(trees.in_need);
    requests(&mut swarm);
    for piece in [0, 1].map(PieceIndex) {
        swarm.add_payload(LinkId(1), piece, ByteRange::whole(PIECE));
        swarm.add_stored(piece);
        trees.handle(StrategyEvent::LinkMeasured(LinkId(1)), &mut swarm);
        trees.handle(StrategyEvent::PieceStored(piece), &mut swarm);
        pass_time(&mut swarm, &mut trees, HELP_AFTER.min(TICK.times(2)));
    }
    assert!(!trees.in_need, "its parent sends");
    assert!(trees.manifest_parents(&swarm).contains(&LinkId(1)), "and is waited for, also with the manifest");
    pass_time(&mut swarm, &mut trees, SILENCE_MAX.times(3) + HELP_AFTER.times(2) + TICK);
    assert!(trees.in_need, "it does so no more");
}

#[test]
fn who_has_asked_for_help_does_without_a_parent_that_rejects() {
    let (mut swarm, mut trees) = swarm(Some(place(Split::RoundRobin, &[(1, 1, Some(1))])), 3);
    swarm.add_payload(LinkId(1), PieceIndex(0), ByteRange::whole(PIECE));
    swarm.add_stored(PieceIndex(0));
    trees.handle(StrategyEvent::LinkMeasured(LinkId(1)), &mut swarm);
    trees.handle(StrategyEvent::PieceStored(PieceIndex(0)), &mut swarm);
    let reject = |swarm: &mut Swarm, trees: &mut Trees| {
        for piece in [1, 2].map(PieceIndex).into_iter().filter(|&piece| swarm.is_asked_for(piece)).collect::<Vec<_>>() {
            swarm.add_rejected(LinkId(1), piece);
            trees.handle(StrategyEvent::RequestRejected { peer: LinkId(1), piece }, swarm);
        }
    };
    reject(&mut swarm, &mut trees);
    for _ in 0..8 {
        pass_time(&mut swarm, &mut trees, TICK);
        reject(&mut swarm, &mut trees);
    }
    assert!(trees.in_need);
    for piece in [1, 2].map(PieceIndex) {
        swarm.add_own(piece);
        trees.handle(StrategyEvent::PieceStored(piece), &mut swarm);
    }
    pass_time(&mut swarm, &mut trees, HELP_AFTER.times(2));
    assert!(trees.in_need, "nothing is missing, and the next piece would not come either");
}

#[test]
fn a_root_that_has_all_that_is_known_is_in_no_need() {
    let (mut swarm, mut trees) = swarm(Some(place(Split::RoundRobin, &[(0, 1, None)])), 0);
    swarm.add_known(4, 2, None);
    (0..4).map(PieceIndex).for_each(|piece| swarm.add_own(piece));
    assert!(!trees.is_troubled(&swarm));
    pass_time(&mut swarm, &mut trees, SILENCE_MAX);
    assert!(!trees.in_need);
}

#[test]
fn a_piece_of_which_the_middle_came_late_is_asked_for_to_its_end() {
    let (mut swarm, mut trees) = swarm(Some(place(Split::RoundRobin, &[(1, 1, Some(1))])), 1);
    let (piece, from, to) = (PieceIndex(0), PIECE / 4, PIECE / 2);
    swarm.add_payload(LinkId(2), piece, ByteRange { start: from, end: to });
    swarm.cancel(LinkId(1), piece);
    trees.handle(StrategyEvent::AssignmentChanged, &mut swarm);
    swarm.add_payload(LinkId(1), piece, ByteRange { start: 0, end: from });
    swarm.take_outputs();
    trees.handle(StrategyEvent::LinkMeasured(LinkId(1)), &mut swarm);
    let rest = swarm.open_piece(piece).expect("half of it is there").parts.iter().map(|part| part.rest);
    assert_eq!(rest.collect::<Vec<_>>(), [ByteRange { start: to, end: PIECE }]);
}

/// As one that has given the broadcast up does, at once and for every piece; or one that does not know of it yet.
#[test]
fn a_parent_that_rejects_requests_is_asked_again_after_pauses_that_grow() {
    let (mut swarm, mut trees) = swarm(Some(place(Split::RoundRobin, &[(1, 1, Some(1))])), 3);
    assert_eq!(requests(&mut swarm), [(1, 0), (1, 1), (1, 2)]);
    let reject = |swarm: &mut Swarm, trees: &mut Trees| {
        for piece in [0, 1, 2].map(PieceIndex) {
            swarm.add_rejected(LinkId(1), piece);
            trees.handle(StrategyEvent::RequestRejected { peer: LinkId(1), piece }, swarm);
        }
        let mut pause = 0;
        while !swarm.take_outputs().any(|output| matches!(output, Output::Send { frame: Frame::Request { .. }, .. })) {
            pass_time(swarm, trees, TICK);
            pause += 1;
        }
        TICK.times(pause)
    };
    let pauses: Vec<Duration> = (0..6).map(|_| reject(&mut swarm, &mut trees)).collect();
    let expected = [500, 1_000, 2_000, 4_000, 8_000, 10_000].map(Duration::from_millis);
    assert_eq!(pauses, expected);
    assert!(trees.in_need, "others may have it");
    // A parent whose window has no room sends, and nobody is told of it.
    swarm.add_payload(LinkId(1), PieceIndex(1), ByteRange { start: 0, end: 1 });
    assert!(!trees.is_silent(&swarm, LinkId(1)), "it has sent something");
    assert_eq!(reject(&mut swarm, &mut trees), REJECTED_FOR, "the pauses begin anew");
}
