//! What Robber does at a node, and the links that are drawn for it.

use std::cell::Cell;

use super::*;
use crate::content::slots::SlotSet;
use crate::strategy::plan::tests::{order, plan as planned};
use crate::strategy::published::tests::{Bench, run};

const LOCAL: u32 = Bench::<RobberTpds11>::LOCAL;
const OTHER_LOCAL: u32 = Bench::<RobberTpds11>::OTHER_LOCAL;
const GLOBAL: u32 = Bench::<RobberTpds11>::GLOBAL;
const OTHER_GLOBAL: u32 = Bench::<RobberTpds11>::OTHER_GLOBAL;
const STEAL: StrategyMessage = StrategyMessage::Steal { rate_bytes_per_s: 0, pieces_max: u32::MAX };

fn bench(position: u32, pieces: u32) -> Bench<RobberTpds11> {
    Bench::new(position, pieces)
}

fn grants(bench: &mut Bench<RobberTpds11>) -> Vec<Vec<Run>> {
    let grant = |(_, message)| match message {
        StrategyMessage::Grant { pieces } => Some(pieces),
        _ => None,
    };
    bench.messages().into_iter().filter_map(grant).collect()
}

fn steals(bench: &mut Bench<RobberTpds11>) -> Vec<u32> {
    bench.messages().into_iter().filter(|(_, message)| *message == STEAL).map(|(link, _)| link).collect()
}

/// A node whose whole share was asked for: the last three of nine pieces.
fn without_gold() -> Bench<RobberTpds11> {
    let mut bench = bench(4, 9);
    bench.have(GLOBAL, run(6, 3));
    assert_eq!(bench.requests().len(), 3);
    bench.messages();
    bench
}

#[test]
fn global_peers_have_proportional_ranks() {
    let ranks = |rank, size, other: usize| proportional_ranks(rank, size, &(10..10 + other));
    assert_eq!([0, 1].map(|rank| ranks(rank, 2, 3)), [10..12, 11..13]);
    assert_eq!([0, 1, 2].map(|rank| ranks(rank, 3, 2)), [10..11, 10..12, 11..12]);
    assert_eq!((ranks(2, 4, 4), ranks(3, 4, 32)), (12..13, 34..42));
    let plan = planned(plan, &[4, 32]);
    for position in 4..36 {
        assert_eq!(plan.peers[position].iter().filter(|&&to| to < 4).collect::<Vec<_>>(), [&((position - 4) / 8)]);
    }
}

/// A node of a cluster of two chooses among the first ten of twenty.
#[test]
fn any_of_the_proportional_ranks_is_a_candidate() {
    let order = order(&[2, 20]);
    let candidates = |seed: u64| {
        let links = Links::new(&PlanInput { order: &order, network: None, seed }, seed);
        one_of_each(&links, 0, &(0..2))
    };
    let mut times = [0; 10];
    (0..500).flat_map(candidates).for_each(|to| times[to - 2] += 1);
    assert!(times.iter().all(|times| (25..80).contains(times)), "{times:?} where 50 each are expected");
}

/// Of ten other clusters, five of one node and five of 32.
#[test]
fn global_peers_are_as_likely_in_small_clusters_as_in_large_ones() {
    let order = order(&[1, 1, 1, 1, 1, 1, 32, 32, 32, 32, 32]);
    let mut times = [0; 10];
    for seed in 0..400 {
        let links = Links::new(&PlanInput { order: &order, network: None, seed }, seed);
        for to in one_of_each(&links, 0, &(0..1)).into_iter().take(GLOBAL_PEERS_MIN) {
            times[if to < 6 { to - 1 } else { 5 + (to - 6) / 32 }] += 1;
        }
    }
    assert!(times.iter().all(|times| (160..240).contains(times)), "{times:?} where 200 each are expected");
}

#[test]
fn who_has_five_global_peers_takes_no_more() {
    let plan = planned(plan, &[1; 30]);
    assert!(plan.peers.iter().all(|peers| peers.len() >= 5));
    // Whoever was taken by enough others takes none itself: 186 ends of links.
    let ends: usize = plan.peers.iter().map(Vec::len).sum();
    assert!((150..200).contains(&ends), "{ends} ends of links");
}

#[test]
fn other_groups_have_other_links() {
    let order = order(&[20, 20]);
    let drawn = |seed: u64| plan(&PlanInput { order: &order, network: None, seed }).expect("it needs no network");
    assert_ne!(drawn(1).peers, drawn(2).peers);
}

#[test]
fn links_are_drawn_until_all_hang_together_but_ten_times_at_most() {
    let order = order(&[2]);
    let input = PlanInput { order: &order, network: None, seed: 1 };
    let drawn = |connected_at: u64| {
        let draws = Cell::new(0);
        let links = drawn_until_connected(|draw| {
            let mut links = Links::new(&input, draw);
            assert_eq!(draws.replace(draw + 1), draw, "every draw is another one");
            if draw >= connected_at {
                links.join(0, 1);
            }
            links
        });
        (links.is_connected(), draws.get())
    };
    assert_eq!([0, 1, 9, 10].map(drawn), [(true, 1), (true, 2), (true, 10), (false, 10)]);
}

#[test]
fn every_node_has_five_local_peers_and_five_global_ones_and_all_hang_together() {
    let sizes = [20; 8];
    let plan = planned(plan, &sizes);
    for (position, peers) in plan.peers.iter().enumerate() {
        let local = peers.iter().filter(|&&to| to / 20 == position / 20).count();
        assert!(local >= 5 && peers.len() - local >= 5, "{position}: {peers:?}");
    }
    // Whoever was taken by enough others takes none itself: 62 links in a cluster of 20, where five for each were 87.
    let of_own = |(position, peers): (usize, &Vec<usize>)| peers.iter().filter(|&&to| to / 20 == position / 20).count();
    let ends: usize = plan.peers.iter().enumerate().map(of_own).sum();
    assert!(
        (8 * 2 * 55..8 * 2 * 68).contains(&ends),
        "{ends} ends of links within clusters, where six for each were 8 * 2 * 74"
    );
    let (mut reached, mut next) = (std::collections::BTreeSet::from([0]), vec![0]);
    while let Some(position) = next.pop() {
        next.extend(plan.peers[position].iter().copied().filter(|&to| reached.insert(to)));
    }
    assert_eq!(reached.len(), 160);
}

#[test]
fn a_local_have_turns_gold_to_silver() {
    // The share is 6..9 of nine.
    let mut bench = bench(4, 9);
    bench.have(LOCAL, run(6, 1));
    assert_eq!(bench.requests(), [(LOCAL, 6)]);
    bench.have(GLOBAL, run(0, 9));
    let mut asked = bench.requests();
    asked.sort_unstable();
    assert_eq!(asked, [(GLOBAL, 7), (GLOBAL, 8)], "silver is not asked of global peers");
}

#[test]
fn half_of_what_nobody_was_asked_for_is_stolen_and_the_desire_is_told_again() {
    // The share is 20..30 of thirty.
    let mut bench = bench(4, 30);
    assert_eq!(bench.last_desire(), [run(20, 10)]);
    bench.have(GLOBAL, run(20, 1));
    bench.requests();
    bench.say(LOCAL, STEAL);
    let said = bench.messages();
    let granted = StrategyMessage::Grant { pieces: vec![run(21, 4)] };
    assert!(said.contains(&(LOCAL, granted)), "the first half of nine: {said:?}");
    let desire = StrategyMessage::Desire { pieces: vec![run(20, 1), run(25, 5)] };
    assert!(said.contains(&(GLOBAL, desire)), "{said:?}");
    bench.have(GLOBAL, run(21, 4));
    assert_eq!(bench.requests(), [], "what was stolen is silver");
}

#[test]
fn a_thief_gets_no_more_than_it_would_take() {
    let mut bench = bench(4, 30);
    bench.say(LOCAL, StrategyMessage::Steal { rate_bytes_per_s: 0, pieces_max: 3 });
    assert_eq!(grants(&mut bench), [vec![run(20, 3)]]);
}

#[test]
fn the_last_piece_is_not_stolen() {
    let mut bench = bench(4, 3);
    bench.say(LOCAL, STEAL);
    assert_eq!(grants(&mut bench), [Vec::<Run>::new()]);
}

#[test]
fn who_has_no_gold_steals_from_a_local_peer_that_has_found_work() {
    let mut bench = without_gold();
    bench.say(OTHER_LOCAL, StrategyMessage::Work { left: 4 });
    assert_eq!(steals(&mut bench), [OTHER_LOCAL]);
    bench.say(OTHER_LOCAL, StrategyMessage::Grant { pieces: vec![run(0, 2)] });
    assert_eq!(bench.last_desire(), [run(0, 2), run(6, 3)], "the booty, and what is on its way");
    bench.have(GLOBAL, run(0, 9));
    let mut asked = bench.requests();
    asked.sort_unstable();
    assert_eq!(asked, [(GLOBAL, 0), (GLOBAL, 1)]);
    assert_eq!(steals(&mut bench), [OTHER_LOCAL], "and again when that is asked for");
    bench.say(OTHER_LOCAL, StrategyMessage::Grant { pieces: Vec::new() });
    assert_eq!(steals(&mut bench), [0; 0], "nobody is known to have any");
}

/// A local peer says that it has a piece, and does not serve it: who is to import it is who has it as its work now.
#[test]
fn what_was_stolen_is_the_thief_s_to_import_also_after_a_false_have() {
    let mut thief = without_gold();
    thief.say(OTHER_LOCAL, StrategyMessage::Work { left: 4 });
    thief.say(OTHER_LOCAL, StrategyMessage::Grant { pieces: vec![run(0, 2)] });
    thief.have(LOCAL, run(0, 1));
    assert_eq!(thief.requests(), [(LOCAL, 0)]);
    thief.reject(LOCAL, 0);
    thief.have(GLOBAL, run(0, 1));
    assert_eq!(thief.requests(), [(GLOBAL, 0)]);
    // The share is 20..30 of thirty, of which five are given away.
    let mut victim = bench(4, 30);
    victim.say(LOCAL, STEAL);
    victim.have(OTHER_LOCAL, run(20, 1));
    assert_eq!(victim.requests(), [(OTHER_LOCAL, 20)]);
    victim.reject(OTHER_LOCAL, 20);
    victim.have(GLOBAL, run(20, 1));
    assert_eq!(victim.requests(), [], "the thief imports it");
}

#[test]
fn what_was_given_to_a_peer_that_is_gone_is_to_be_imported_again() {
    // The share is 20..30 of thirty.
    let mut bench = bench(4, 30);
    bench.say(LOCAL, STEAL);
    bench.have(GLOBAL, run(20, 5));
    assert_eq!(bench.requests(), [], "the thief imports it");
    bench.messages();
    bench.leave(LOCAL);
    let wanted = StrategyMessage::Interest { slots: SlotSet::none(), pieces: vec![run(20, 5)] };
    assert!(bench.messages().contains(&(OTHER_GLOBAL, wanted)));
    assert_eq!(bench.requests().len(), 5);
}

/// A local peer has a piece of the booty already, and is lost before it has passed it on.
#[test]
fn booty_that_was_at_hand_is_the_thief_s_all_the_same() {
    let mut bench = without_gold();
    bench.have(LOCAL, run(0, 1));
    bench.have(GLOBAL, run(0, 2));
    bench.say(OTHER_LOCAL, StrategyMessage::Work { left: 4 });
    bench.say(OTHER_LOCAL, StrategyMessage::Grant { pieces: vec![run(0, 2)] });
    assert_eq!(bench.requests(), [(LOCAL, 0), (GLOBAL, 1)]);
    bench.leave(LOCAL);
    assert_eq!(bench.requests(), [(GLOBAL, 0)]);
}

/// A global peer had the booty already: it is asked for all of it before anybody is told that there is gold to be stolen.
#[test]
fn booty_is_asked_for_before_others_hear_of_it() {
    let mut bench = without_gold();
    bench.have(GLOBAL, run(0, 2));
    assert_eq!(bench.requests(), [], "it is silver");
    bench.say(OTHER_LOCAL, StrategyMessage::Work { left: 4 });
    bench.say(OTHER_LOCAL, StrategyMessage::Grant { pieces: vec![run(0, 2)] });
    assert_eq!(bench.requests().len(), 2);
    let told = bench.messages();
    assert!(!told.iter().any(|(_, m)| matches!(m, StrategyMessage::Work { left: 1.. })), "{told:?}");
}

#[test]
fn who_has_gold_does_not_steal_and_nobody_is_robbed_of_what_is_not_there() {
    let mut bench = bench(4, 9);
    bench.say(LOCAL, StrategyMessage::Work { left: 4 });
    assert_eq!(steals(&mut bench), [0; 0]);
    let mut bench = without_gold();
    bench.say(LOCAL, StrategyMessage::Work { left: 1 });
    assert_eq!(steals(&mut bench), [0; 0], "half of one is none");
    bench.say(LOCAL, STEAL);
    assert_eq!(grants(&mut bench), [Vec::<Run>::new()]);
}

/// There is nothing left to be asked for.
#[test]
fn who_has_asked_for_all_that_it_lacks_does_not_steal() {
    let mut bench = bench(4, 6);
    bench.have(LOCAL, run(0, 4));
    bench.have(GLOBAL, run(0, 6));
    assert_eq!(bench.requests().len(), 6);
    bench.say(OTHER_LOCAL, StrategyMessage::Work { left: 40 });
    assert_eq!(steals(&mut bench), [0; 0]);
}

#[test]
fn local_peers_are_told_of_work_that_was_stolen() {
    let mut bench = without_gold();
    bench.say(LOCAL, StrategyMessage::Work { left: 12 });
    bench.say(LOCAL, StrategyMessage::Grant { pieces: vec![run(0, 6)] });
    let told = bench.messages();
    for local in [LOCAL, OTHER_LOCAL] {
        assert!(told.contains(&(local, StrategyMessage::Work { left: 6 })), "{told:?}");
    }
}

#[test]
fn nobody_is_robbed_while_others_may_not_know_of_the_same_plan() {
    let mut bench = bench(4, 30);
    bench.place(2, 1, 2);
    bench.messages();
    bench.say(LOCAL, STEAL);
    assert_eq!(grants(&mut bench), [Vec::<Run>::new()]);
    bench.pass(Duration::from_millis(100));
    let found = bench.messages().contains(&(LOCAL, StrategyMessage::Work { left: 15 }));
    assert!(found, "then it says what there is");
    bench.say(LOCAL, STEAL);
    assert_eq!(grants(&mut bench), [vec![run(15, 7)]]);
}

#[test]
fn nobody_can_press_work_on_a_node() {
    let mut bench = without_gold();
    bench.say(LOCAL, StrategyMessage::Grant { pieces: vec![run(0, 2)] });
    bench.have(GLOBAL, run(0, 2));
    assert_eq!(bench.requests(), [], "it has not stolen");
}

#[test]
fn a_victim_that_does_not_answer_is_forgotten() {
    let mut bench = without_gold();
    bench.say(LOCAL, StrategyMessage::Work { left: 4 });
    assert_eq!(steals(&mut bench), [LOCAL]);
    bench.say(OTHER_LOCAL, StrategyMessage::Work { left: 4 });
    bench.pass(Duration::from_millis(999));
    assert_eq!(steals(&mut bench), [0; 0], "it has a second");
    bench.pass(Duration::from_millis(1));
    assert_eq!(steals(&mut bench), [OTHER_LOCAL]);
    bench.say(LOCAL, StrategyMessage::Grant { pieces: vec![run(0, 2)] });
    bench.have(GLOBAL, run(0, 2));
    assert_eq!(bench.requests().len(), 2, "what it gives after all, nobody else would import");
}

#[test]
fn who_has_no_global_peers_does_not_steal() {
    for (alone, stolen_from) in [(false, vec![LOCAL]), (true, vec![])] {
        let mut bench = without_gold();
        (6..9).for_each(|piece| bench.serve(GLOBAL, piece));
        for link in [GLOBAL, OTHER_GLOBAL].into_iter().filter(|_| alone) {
            bench.leave(link);
        }
        bench.say(LOCAL, StrategyMessage::Work { left: 4 });
        assert_eq!(steals(&mut bench), stolen_from, "without global peers: {alone}");
    }
}

#[test]
fn the_root_s_cluster_never_steals() {
    let mut bench = bench(1, 9);
    bench.say(LOCAL, StrategyMessage::Work { left: 4 });
    bench.have(LOCAL, run(0, 1));
    bench.pass(WORK_INTERVAL);
    assert_eq!(steals(&mut bench), [0; 0]);
}

#[test]
fn local_peers_are_told_when_gold_is_found_and_when_it_is_gone_and_seldom_in_between() {
    let work = |bench: &mut Bench<RobberTpds11>| {
        let work = |(link, message)| match message {
            StrategyMessage::Work { left } if link == LOCAL => Some(left),
            _ => None,
        };
        bench.messages().into_iter().filter_map(work).collect::<Vec<_>>()
    };
    let mut bench = bench(4, 30);
    assert_eq!(work(&mut bench), [10]);
    bench.have(GLOBAL, run(20, 3));
    assert_eq!(work(&mut bench), [0; 0]);
    bench.pass(Duration::from_millis(390));
    assert_eq!(work(&mut bench), [0; 0], "not half a second has passed");
    bench.pass(Duration::from_millis(110));
    assert_eq!(work(&mut bench), [7]);
    bench.have(GLOBAL, run(20, 10));
    (0..8).for_each(|_| {
        bench.requests();
        let next = bench.asked[0].1;
        bench.serve_asked(next);
    });
    assert_eq!(work(&mut bench), [0], "all was asked for");
}

#[test]
fn the_next_piece_is_any_of_those_that_are_wanted() {
    // Rank 0 of three: the first six of 18 pieces.
    let times = Bench::<RobberTpds11>::first_pieces(2);
    assert!(times.iter().all(|times| (60..150).contains(times)), "{times:?} where 100 each are expected");
}

#[test]
fn the_victim_is_any_of_those_that_have_found_work() {
    let mut times = [0; 2];
    for seed in 0..100 {
        let mut bench = bench(4, 9);
        bench.swarm.random = crate::random::Random::new(seed);
        // How much is left does not matter.
        bench.say(LOCAL, StrategyMessage::Work { left: 2 });
        bench.say(OTHER_LOCAL, StrategyMessage::Work { left: 40 });
        // With that the whole share is asked for, and there is no gold.
        bench.have(GLOBAL, run(6, 3));
        times[usize::from(steals(&mut bench) == [OTHER_LOCAL])] += 1;
    }
    assert!(times.iter().all(|times| (30..70).contains(times)), "{times:?} where 50 each are expected");
}

/// Robber has no end game either: what somebody was asked for is not asked of others who have it.
#[test]
fn nobody_is_asked_for_what_another_one_was_asked_for() {
    let mut bench = bench(4, 6);
    bench.have(LOCAL, run(0, 4));
    bench.have(GLOBAL, run(0, 6));
    assert_eq!(bench.requests().len(), 6);
    bench.have(OTHER_LOCAL, run(0, 6));
    bench.have(OTHER_GLOBAL, run(0, 6));
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.requests(), []);
}

#[test]
fn at_most_five_requests_are_in_flight_to_a_peer() {
    let mut bench = bench(4, 60);
    bench.have(GLOBAL, run(0, 60));
    bench.have(LOCAL, run(0, 40));
    let asked = bench.requests();
    let to = |link: u32| asked.iter().filter(|(l, _)| *l == link).count();
    assert_eq!((to(GLOBAL), to(LOCAL)), (5, 5));
}
