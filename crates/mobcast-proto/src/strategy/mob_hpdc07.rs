//! `mob-hpdc07`: MOB as it was published (den Burger and Kielmann, HPDC 2007, section 3.1). Each node takes five random peers in
//! its cluster, and up to five in other clusters among the nodes whose rank there is its own, modulo the size. It imports
//! its share, a contiguous part of the object, from the latter, and fetches all else from the former. Nothing of the share
//! moves to somebody else while the plan stays and nobody is in need of help.
//!
//! `docs/strategies/mob-hpdc07.md` tells what is the paper's and what is ours.

use super::plan::{Plan, PlanError, PlanInput};
use super::published::links::Links;
use super::published::{Exchange, PIECE_BYTES};
use super::{Strategy, StrategyEvent, StrategyKind};
use crate::fetch::swarm::Swarm;
use crate::units::PieceIndex;

/// The entry of the registry.
pub const KIND: StrategyKind = StrategyKind {
    name: "mob-hpdc07",
    summary: "MOB as published: each member imports a fixed part of the object, with five requests in flight on a link",
    make: || Box::new(MobHpdc07::default()),
    planner: Some(plan),
    needs_network: false,
    piece_size: Some(PIECE_BYTES),
    in_parts: false,
};

/// Local peers to which a node connects.
const LOCAL_PEERS: usize = 5;
/// Global peers to which a node connects.
const GLOBAL_PEERS: usize = 5;

/// The strategy's state at one node.
#[derive(Default)]
pub struct MobHpdc07 {
    exchange: Exchange,
}

impl Strategy for MobHpdc07 {
    fn handle(&mut self, event: StrategyEvent<'_>, swarm: &mut Swarm) {
        self.exchange.handle(&event, swarm);
    }

    fn explain(&self, swarm: &Swarm, piece: PieceIndex) -> String {
        self.exchange.explain(swarm, piece)
    }

    fn check_invariants(&self, swarm: &Swarm) {
        self.exchange.check_invariants(swarm);
    }
}

fn plan(input: &PlanInput<'_>) -> Result<Plan, PlanError> {
    let mut links = Links::new(input, input.seed);
    let ranges = links.ranges();
    for own in &ranges {
        for position in own.clone() {
            let local = links.drawn(position, own.clone());
            links.join_some(position, local, LOCAL_PEERS);
            let rank = position - own.start;
            let others = ranges.iter().filter(|range| *range != own && !range.is_empty());
            let candidates = others.map(|range| range.start + rank % range.len());
            let global = links.drawn(position, candidates);
            links.join_some(position, global, GLOBAL_PEERS);
        }
    }
    Ok(links.into_plan())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::have::Run;
    use crate::content::slots::SlotSet;
    use crate::strategy::message::StrategyMessage;
    use crate::strategy::plan::tests::{order, plan as planned};
    use crate::strategy::published::tests::{BEGUN_AT, Bench, run};
    use crate::time::{Duration, Time};
    use crate::units::{ByteRange, LinkId};

    fn bench(position: u32, pieces: u32) -> Bench<MobHpdc07> {
        Bench::new(position, pieces)
    }

    /// Peers of a position in a range of others.
    fn peers(plan: &Plan, position: usize, among: std::ops::Range<usize>) -> Vec<usize> {
        plan.peers[position].iter().copied().filter(|to| among.contains(to)).collect()
    }

    #[test]
    fn pieces_are_of_32_kib() {
        assert_eq!(KIND.piece_size, Some(32_768));
    }

    #[test]
    fn global_peers_are_those_of_the_same_rank_modulo_the_size() {
        let plan = planned(plan, &[2, 3]);
        assert_eq!(peers(&plan, 0, 2..5), [2, 4], "rank 0: its own choice, and rank 2 modulo 2 chose it");
        assert_eq!(peers(&plan, 1, 2..5), [3]);
        assert_eq!(peers(&plan, 4, 0..2), [0]);
        let plan = planned(super::plan, &[4, 4, 4]);
        for position in 0..12 {
            let global: Vec<usize> = (0..12).filter(|to| to / 4 != position / 4 && to % 4 == position % 4).collect();
            let found: Vec<usize> = plan.peers[position].iter().copied().filter(|to| to / 4 != position / 4).collect();
            assert_eq!(found, global, "position {position}");
        }
    }

    #[test]
    fn five_local_and_five_global_peers_are_chosen_and_all_choices_are_accepted() {
        let plan = planned(plan, &[40]);
        let sum: usize = plan.peers.iter().map(Vec::len).sum();
        assert!(plan.peers.iter().all(|peers| peers.len() >= 5));
        // 40 nodes choose five each; a choice that is mutual is one link.
        assert!((2 * 5 * 40 - 80..=2 * 5 * 40).contains(&sum), "{sum} ends of links");
        // 29 other clusters of one node: five of them are chosen. Four would give 240 ends at most, six some 320.
        let plan = planned(super::plan, &[1; 30]);
        assert!(plan.peers.iter().all(|peers| peers.len() >= 5));
        let sum: usize = plan.peers.iter().map(Vec::len).sum();
        assert!((241..=300).contains(&sum), "{sum} ends of links");
    }

    /// With five choices each, and ten links on average, whoever is everybody's choice would have one to each of the others.
    #[test]
    fn peers_are_chosen_by_chance() {
        for sizes in [&[40][..], &[1; 40]] {
            let order = order(sizes);
            let drawn =
                |seed: u64| plan(&PlanInput { order: &order, network: None, seed }).expect("it needs no network");
            let most = drawn(1).peers.iter().map(Vec::len).max();
            assert!(most < Some(20), "{sizes:?}: one node has {most:?} of 39");
            assert_ne!(drawn(1).peers, drawn(2).peers, "{sizes:?}: other groups have other links");
        }
    }

    #[test]
    fn both_ends_of_a_link_know_of_it() {
        let plan = planned(plan, &[9, 7, 3]);
        for (position, peers) in plan.peers.iter().enumerate() {
            assert!(peers.iter().all(|&to| plan.peers[to].contains(&position)), "position {position}");
        }
    }

    #[test]
    fn shares_are_the_formula_s() {
        // Eight pieces in a cluster of three: 0-1, 2-4, 5-7.
        for (position, share) in [(2, 0..2), (3, 2..5), (4, 5..8)] {
            let mut bench = bench(position, 8);
            assert_eq!(bench.last_desire(), vec![run(share.start, share.len() as u32)], "position {position}");
        }
        // Seven pieces in a cluster of five: the larger shares are spread over the ranks.
        for (rank, share) in [0..1, 1..2, 2..4, 4..5, 5..7].into_iter().enumerate() {
            let mut bench = bench(2, 7);
            bench.place(2, rank as u32, 5);
            assert_eq!(bench.last_desire(), vec![run(share.start, share.len() as u32)], "rank {rank}");
        }
    }

    #[test]
    fn at_most_five_requests_are_in_flight_to_a_peer() {
        let mut bench = bench(2, 100);
        bench.have(Bench::<MobHpdc07>::GLOBAL, run(0, 100));
        assert_eq!(bench.requests().len(), 5);
        let (_, first) = bench.asked[0];
        bench.serve(Bench::<MobHpdc07>::GLOBAL, first);
        assert_eq!(bench.requests().len(), 1, "one for one");
    }

    #[test]
    fn who_had_its_share_before_the_broadcast_began_asks_other_clusters_at_once() {
        let ms = Duration::from_millis;
        for (before, waits) in [(ms(0), ms(100)), (ms(60), ms(40)), (ms(100), ms(0)), (ms(900), ms(0))] {
            let placed_at = Time(BEGUN_AT.0 - before.0);
            let mut bench = Bench::<MobHpdc07>::placed_since(placed_at, 2, 10);
            bench.have(Bench::<MobHpdc07>::GLOBAL, run(0, 10));
            waits_and_asks_for(&mut bench, waits, 3);
        }
    }

    /// Nothing is asked for until so much time has passed, and then so many pieces.
    fn waits_and_asks_for(bench: &mut Bench<MobHpdc07>, waits: Duration, pieces: usize) {
        let asked = |bench: &mut Bench<MobHpdc07>| {
            bench.requests();
            bench.asked.len()
        };
        let before = if waits == Duration::ZERO { pieces } else { 0 };
        assert_eq!(asked(bench), before, "{waits:?}");
        bench.pass(Duration(waits.0.saturating_sub(1)));
        assert_eq!(asked(bench), before, "a moment before {waits:?}");
        bench.pass(Duration(1));
        assert_eq!(asked(bench), pieces, "{waits:?}");
    }

    #[test]
    fn two_seconds_after_the_start_nobody_waits_for_others_to_join() {
        let ms = Duration::from_millis;
        for (after, waits) in [(ms(1_850), ms(100)), (ms(1_950), ms(50)), (ms(2_000), ms(0)), (ms(5_000), ms(0))] {
            let mut bench = Bench::<MobHpdc07>::unsettled(3, 8);
            bench.pass(after);
            bench.place(2, 1, 2);
            bench.have(Bench::<MobHpdc07>::GLOBAL, run(4, 4));
            waits_and_asks_for(&mut bench, waits, 4);
        }
    }

    /// Unlike in `mob` and `bittorrent` nobody is choked: whoever asks for many pieces is refused none, and told nothing.
    #[test]
    fn a_request_is_always_honoured() {
        let mut bench = bench(1, 100);
        for piece in (0..100).map(PieceIndex) {
            bench.swarm.add_own(piece);
            bench.event(StrategyEvent::PieceStored(piece));
        }
        bench.announced();
        bench.frames();
        for link in Bench::<MobHpdc07>::LINKS.map(LinkId) {
            let wanted = |piece| StrategyEvent::PieceWanted { peer: link, piece: PieceIndex(piece) };
            (0..100).map(wanted).for_each(|event| bench.event(event));
        }
        bench.pass(Duration::from_secs(20));
        assert_eq!(bench.frames(), 0);
    }

    #[test]
    fn the_next_piece_is_any_of_those_that_are_wanted() {
        // Rank 0 of three: the first six of 18 pieces.
        let times = Bench::<MobHpdc07>::first_pieces(2);
        assert!(times.iter().all(|times| (60..150).contains(times)), "{times:?} where 100 each are expected");
    }

    #[test]
    fn the_first_piece_of_a_large_share_is_any_of_it() {
        // Rank 1 of three: 400..800 of 1,200 pieces.
        let mut times = [0; 4];
        for seed in 0..400 {
            let mut bench = bench(3, 1_200);
            bench.swarm.random = crate::random::Random::new(seed);
            bench.have(Bench::<MobHpdc07>::GLOBAL, run(0, 1_200));
            times[(bench.requests()[0].1 as usize - 400) / 100] += 1;
        }
        assert!(times.iter().all(|times| (60..150).contains(times)), "{times:?} where 100 each are expected");
    }

    #[test]
    fn the_share_is_asked_of_global_peers_and_the_rest_of_local_ones() {
        // The share is 2..5 of eight.
        let mut bench = bench(3, 8);
        bench.have(Bench::<MobHpdc07>::GLOBAL, run(0, 8));
        let mut asked: Vec<u32> = bench.requests().into_iter().map(|(_, piece)| piece).collect();
        asked.sort_unstable();
        assert_eq!(asked, [2, 3, 4], "and nothing outside it");
        bench.have(Bench::<MobHpdc07>::LOCAL, run(0, 2));
        let mut asked = bench.requests();
        asked.sort_unstable();
        assert_eq!(asked, [(Bench::<MobHpdc07>::LOCAL, 0), (Bench::<MobHpdc07>::LOCAL, 1)]);
    }

    /// MOB has no end game: what somebody was asked for is not asked of others who have it.
    #[test]
    fn nobody_is_asked_for_what_another_one_was_asked_for() {
        // The share is 4..6 of six.
        let mut bench = bench(4, 6);
        bench.have(Bench::<MobHpdc07>::LOCAL, run(0, 4));
        bench.have(Bench::<MobHpdc07>::GLOBAL, run(0, 6));
        assert_eq!(bench.requests().len(), 6);
        bench.have(Bench::<MobHpdc07>::OTHER_LOCAL, run(0, 6));
        bench.have(Bench::<MobHpdc07>::OTHER_GLOBAL, run(0, 6));
        bench.pass(Duration::from_secs(1));
        assert_eq!(bench.requests(), []);
    }

    #[test]
    fn what_a_local_peer_had_is_imported_when_it_is_gone_or_does_not_have_it() {
        type Loss = fn(&mut Bench<MobHpdc07>);
        let losses: [Loss; 2] =
            [|bench| bench.leave(Bench::<MobHpdc07>::LOCAL), |bench| bench.reject(Bench::<MobHpdc07>::LOCAL, 6)];
        for loss in losses {
            let mut bench = bench(3, 9);
            bench.have(Bench::<MobHpdc07>::LOCAL, run(6, 1));
            // The share becomes 6..9, of which a local peer has the first one.
            bench.place(2, 2, 3);
            bench.pass(Duration::from_millis(100));
            assert_eq!(bench.last_desire(), [run(7, 2)]);
            loss(&mut bench);
            let wanted = StrategyMessage::Interest { slots: SlotSet::none(), pieces: vec![run(6, 1)] };
            assert!(bench.messages().contains(&(Bench::<MobHpdc07>::GLOBAL, wanted)), "its announcement is asked for");
            bench.requests();
            bench.have(Bench::<MobHpdc07>::GLOBAL, run(6, 1));
            assert_eq!(bench.requests(), [(Bench::<MobHpdc07>::GLOBAL, 6)]);
        }
    }

    #[test]
    fn a_link_that_the_plan_does_not_name_carries_nothing() {
        let mut bench = bench(3, 8);
        bench.have(Bench::<MobHpdc07>::TREE, run(0, 8));
        assert_eq!(bench.requests(), []);
        bench.have(Bench::<MobHpdc07>::GLOBAL, run(2, 1));
        bench.requests();
        bench.serve(Bench::<MobHpdc07>::GLOBAL, 2);
        assert!(!bench.announced().contains(&(Bench::<MobHpdc07>::TREE, 2)));
    }

    #[test]
    fn local_peers_hear_of_every_piece_and_global_ones_of_what_is_in_their_share() {
        let mut bench = bench(3, 8);
        bench.say(Bench::<MobHpdc07>::GLOBAL, StrategyMessage::Desire { pieces: vec![run(0, 3)] });
        bench.have(Bench::<MobHpdc07>::LOCAL, run(0, 2));
        bench.have(Bench::<MobHpdc07>::OTHER_GLOBAL, run(2, 3));
        bench.requests();
        [1, 2, 3].into_iter().for_each(|piece| bench.serve_asked(piece));
        let announced = bench.announced();
        let to = |link: u32| announced.iter().filter(|(l, _)| *l == link).map(|(_, p)| *p).collect::<Vec<_>>();
        assert_eq!(to(Bench::<MobHpdc07>::OTHER_LOCAL), [1, 2, 3]);
        assert_eq!(to(Bench::<MobHpdc07>::GLOBAL), [1, 2], "3 is in somebody else's share");
        bench.say(Bench::<MobHpdc07>::GLOBAL, StrategyMessage::Desire { pieces: vec![run(3, 1)] });
        assert_eq!(bench.announced(), [(Bench::<MobHpdc07>::GLOBAL, 3)], "when the share has changed");
    }

    /// Global peers have not said what they want: the paper's have-set message asks nobody.
    #[test]
    fn the_root_tells_all_its_peers_everything() {
        let mut bench = bench(0, 8);
        bench.swarm.standing.node = bench.swarm.id.root;
        for piece in (0..8).map(PieceIndex) {
            bench.swarm.add_own(piece);
            bench.event(StrategyEvent::PieceStored(piece));
        }
        let mut announced = bench.announced();
        announced.sort_unstable();
        let peers = [1, 2, 3, 4].into_iter();
        assert_eq!(announced, peers.flat_map(|link| (0..8).map(move |piece| (link, piece))).collect::<Vec<_>>());
    }

    #[test]
    fn nobody_imports_into_the_root_s_cluster() {
        let mut bench = bench(1, 8);
        assert_eq!(bench.last_desire(), []);
        bench.have(Bench::<MobHpdc07>::GLOBAL, run(0, 8));
        assert_eq!(bench.requests(), []);
        bench.have(Bench::<MobHpdc07>::LOCAL, run(0, 8));
        assert_eq!(bench.requests().len(), 5);
    }

    #[test]
    fn a_share_follows_the_plan_and_settles_before_it_is_asked_for() {
        let mut bench = Bench::<MobHpdc07>::unsettled(3, 8);
        bench.have(Bench::<MobHpdc07>::GLOBAL, run(0, 8));
        assert_eq!(bench.requests(), [], "others may be about to join");
        bench.place(2, 1, 2);
        assert_eq!(bench.last_desire(), [run(4, 4)], "the second half");
        bench.pass(Duration::from_millis(200));
        let mut asked: Vec<u32> = bench.requests().into_iter().map(|(_, piece)| piece).collect();
        asked.sort_unstable();
        assert_eq!(asked, [4, 5, 6, 7]);
    }

    #[test]
    fn who_gets_nothing_for_two_seconds_asks_everybody_and_fetches_from_everybody() {
        let mut bench = bench(3, 8);
        bench.have(Bench::<MobHpdc07>::GLOBAL, run(2, 1));
        assert_eq!(bench.requests(), [(Bench::<MobHpdc07>::GLOBAL, 2)]);
        bench.pass(Duration::from_millis(1_800));
        assert_eq!(bench.help_asked(), [0; 0]);
        bench.pass(Duration::from_millis(700));
        assert_eq!(bench.help_asked().len(), Bench::<MobHpdc07>::LINKS.len());
        bench.have(Bench::<MobHpdc07>::TREE, run(0, 3));
        let mut asked = bench.requests();
        asked.sort_unstable();
        assert_eq!(asked.iter().map(|(_, piece)| *piece).collect::<Vec<_>>(), [0, 1, 2], "the silent one's too");
        assert!(asked.iter().all(|(link, _)| *link == Bench::<MobHpdc07>::TREE), "{asked:?}");
    }

    #[test]
    fn a_silent_peer_is_asked_again_after_ten_seconds() {
        let mut bench = bench(3, 8);
        bench.have(Bench::<MobHpdc07>::GLOBAL, run(2, 1));
        assert_eq!(bench.requests(), [(Bench::<MobHpdc07>::GLOBAL, 2)]);
        bench.pass(Duration::from_millis(11_500));
        assert_eq!(bench.requests(), [], "taken back");
        bench.pass(Duration::from_millis(1_500));
        assert_eq!(bench.requests(), [(Bench::<MobHpdc07>::GLOBAL, 2)]);
    }

    #[test]
    fn what_arrives_after_it_was_asked_of_another_peer_counts() {
        let mut bench = bench(3, 8);
        let (slow, other) = (LinkId(Bench::<MobHpdc07>::GLOBAL), LinkId(Bench::<MobHpdc07>::OTHER_GLOBAL));
        let (piece, half) = (PieceIndex(2), PIECE_BYTES / 2);
        let halves = [ByteRange { start: 0, end: half }, ByteRange { start: half, end: PIECE_BYTES }];
        bench.have(slow.0, run(piece.0, 1));
        bench.swarm.add_payload(slow, piece, halves[0]);
        bench.swarm.cancel(slow, piece);
        assert!(bench.swarm.is_missing(piece), "half of it is there, and nobody is asked");
        assert!(bench.swarm.request(other, piece));
        assert!(bench.swarm.add_payload(slow, piece, halves[1]).complete, "what it had sent already");
        bench.swarm.check_invariants();
        assert_eq!((bench.swarm.requests_at(other), bench.swarm.traffic().wasted), (0, 0));
        let again = bench.swarm.add_payload(other, piece, halves[1]);
        assert_eq!((again.complete, bench.swarm.traffic().wasted), (false, u64::from(half)));
    }

    #[test]
    fn what_arrives_when_nobody_is_asked_counts_but_for_the_end_of_a_piece() {
        let mut bench = bench(3, 8);
        let (slow, piece, quarter) = (LinkId(Bench::<MobHpdc07>::GLOBAL), PieceIndex(2), PIECE_BYTES / 4);
        let part = |i: u32| ByteRange { start: i * quarter, end: (i + 1) * quarter };
        bench.have(slow.0, run(piece.0, 1));
        bench.swarm.add_payload(slow, piece, part(0));
        bench.swarm.cancel(slow, piece);
        let late = [1, 2, 3].map(|i| bench.swarm.add_payload(slow, piece, part(i)).complete);
        bench.swarm.check_invariants();
        assert_eq!((late, bench.swarm.is_missing(piece)), ([false; 3], true), "the strategy takes it for missing");
        assert_eq!(bench.swarm.traffic().wasted, u64::from(quarter));
        assert!(bench.swarm.request(slow, piece));
        assert!(bench.swarm.add_payload(slow, piece, part(3)).complete, "the rest alone was asked for");
    }

    #[test]
    fn what_lies_outside_a_piece_does_not_count() {
        let mut bench = bench(3, 8);
        let (liar, piece) = (LinkId(Bench::<MobHpdc07>::GLOBAL), PieceIndex(2));
        bench.have(liar.0, run(piece.0, 1));
        let past = ByteRange { start: 0, end: PIECE_BYTES + 1 };
        assert!(!bench.swarm.add_payload(liar, piece, past).complete);
        bench.swarm.check_invariants();
        assert_eq!(bench.swarm.traffic().wasted, u64::from(past.len()));
        assert!(bench.swarm.add_payload(liar, piece, ByteRange::whole(PIECE_BYTES)).complete);
    }

    /// Two helpers in the other cluster, and nobody else who has anything: the second one is asked for what the first one is not.
    #[test]
    fn help_from_another_cluster_is_five_pieces_divided_among_the_helpers() {
        let mut bench = bench(3, 40);
        let helpers = [Bench::<MobHpdc07>::GLOBAL, Bench::<MobHpdc07>::OTHER_GLOBAL];
        let asked = |bench: &Bench<MobHpdc07>| helpers.map(|helper| bench.in_flight(helper).len());
        bench.pass(Duration::from_secs(3));
        bench.have(helpers[0], run(0, 40));
        assert_eq!(asked(&bench), [5, 0], "who has nothing does not help");
        bench.have(helpers[1], run(0, 40));
        for divided in [[4, 1], [3, 2]] {
            let first = bench.in_flight(helpers[0])[0];
            bench.serve(helpers[0], first);
            assert_eq!(asked(&bench), divided, "one came, another one is asked for");
        }
    }

    /// The link between two clusters was cut for three seconds.
    #[test]
    fn who_is_served_by_its_peers_again_keeps_to_its_share_again() {
        // The share is 100..200 of 300.
        let mut bench = bench(3, 300);
        let globals = [Bench::<MobHpdc07>::GLOBAL, Bench::<MobHpdc07>::OTHER_GLOBAL];
        bench.pass(Duration::from_secs(3));
        assert_eq!(bench.help_asked().len(), Bench::<MobHpdc07>::LINKS.len());
        bench.have(globals[0], run(0, 300));
        bench.pass_served(globals[0], Duration::from_secs(1));
        assert!(bench.in_flight(globals[0]).iter().any(|piece| !(100..200).contains(piece)), "help goes on");
        bench.pass_served(globals[0], Duration::from_secs(2));
        bench.have(globals[1], run(0, 300));
        for global in globals {
            let asked = bench.in_flight(global);
            assert!(asked.len() == 5 && asked.iter().all(|piece| (100..200).contains(piece)), "{asked:?}");
        }
    }

    /// One of two global peers sends nothing of what it was asked for.
    #[test]
    fn help_goes_on_while_a_peer_of_the_plan_is_silent() {
        let mut bench = bench(3, 300);
        bench.have(Bench::<MobHpdc07>::OTHER_GLOBAL, run(0, 300));
        bench.pass(Duration::from_secs(3));
        bench.have(Bench::<MobHpdc07>::GLOBAL, run(0, 300));
        bench.pass_served(Bench::<MobHpdc07>::GLOBAL, Duration::from_secs(5));
        let asked = bench.in_flight(Bench::<MobHpdc07>::GLOBAL);
        assert!(asked.iter().any(|piece| !(100..200).contains(piece)), "{asked:?}");
    }

    /// The member that was to import it may be dead: that is noticed when its links are.
    #[test]
    fn who_has_its_share_and_is_in_need_fetches_that_of_others_while_the_plan_stays() {
        // The share is 30..60 of 90.
        let mut bench = bench(3, 90);
        bench.have(Bench::<MobHpdc07>::GLOBAL, run(0, 90));
        bench.pass_served(Bench::<MobHpdc07>::GLOBAL, Duration::from_secs(6));
        assert_eq!(bench.in_flight(Bench::<MobHpdc07>::GLOBAL), [0; 0], "all of it is there");
        bench.pass(Duration::from_secs(3));
        bench.pass_served(Bench::<MobHpdc07>::GLOBAL, Duration::from_secs(5));
        assert_eq!(bench.in_flight(Bench::<MobHpdc07>::GLOBAL).len(), 5);
    }

    #[test]
    fn help_ends_when_the_plan_changes() {
        type Change = fn(&mut Bench<MobHpdc07>);
        let without_a_global_peer: Change = |bench| {
            bench.swarm.standing.plan.as_mut().expect("it has a place").peers.pop();
            bench.event(StrategyEvent::AssignmentChanged);
        };
        let changes: [Change; 2] = [|bench| bench.place(2, 0, 3), without_a_global_peer];
        for (change, share) in changes.into_iter().zip([0..100, 100..200]) {
            let mut bench = bench(3, 300);
            bench.pass(Duration::from_secs(3));
            bench.have(Bench::<MobHpdc07>::GLOBAL, run(0, 300));
            change(&mut bench);
            bench.pass(Duration::from_millis(200));
            let asked = bench.in_flight(Bench::<MobHpdc07>::GLOBAL);
            assert!(asked.len() == 5 && asked.iter().all(|piece| share.contains(piece)), "{asked:?}");
        }
    }

    #[test]
    fn a_link_that_comes_and_goes_does_not_end_help() {
        let mut bench = bench(3, 300);
        let [silent, helper] = [Bench::<MobHpdc07>::GLOBAL, Bench::<MobHpdc07>::OTHER_GLOBAL];
        bench.pass(Duration::from_secs(3));
        bench.have(helper, run(0, 300));
        let asked = bench.in_flight(helper);
        bench.leave(silent);
        bench.join(silent);
        assert_eq!(bench.in_flight(helper), asked);
        assert!(bench.cancelled().is_empty() && asked.iter().any(|piece| !(100..200).contains(piece)), "{asked:?}");
    }

    #[test]
    fn what_somebody_else_imports_from_here_on_is_taken_back_unless_it_has_begun_to_come() {
        // The share was 3..6 of nine, and becomes 6..9.
        let mut bench = bench(3, 9);
        let global = Bench::<MobHpdc07>::GLOBAL;
        bench.have(global, run(0, 9));
        assert_eq!(bench.in_flight(global), [3, 4, 5]);
        bench.swarm.add_payload(LinkId(global), PieceIndex(4), ByteRange { start: 0, end: 1 });
        bench.place(2, 2, 3);
        assert_eq!(bench.cancelled(), [(global, 3), (global, 5)]);
        bench.pass(Duration::from_millis(100));
        assert_eq!(bench.in_flight(global), [4, 6, 7, 8]);
    }

    /// It has two seconds the first time, and four the second time, ten seconds after the first ones were over.
    #[test]
    fn a_peer_that_was_silent_is_given_twice_as_long_the_next_time() {
        let mut bench = bench(3, 40);
        bench.pass(Duration::from_secs(3));
        bench.have(Bench::<MobHpdc07>::GLOBAL, run(0, 40));
        let open = |bench: &Bench<MobHpdc07>| bench.swarm.requests_at(LinkId(Bench::<MobHpdc07>::GLOBAL));
        let mut held = Vec::new();
        for _ in 0..24 {
            held.push(open(&bench) > 0);
            bench.pass(Duration::from_secs(1));
        }
        let changes: Vec<usize> = (1..24).filter(|&second| held[second] != held[second - 1]).collect();
        let [given_up, again, given_up_again] = changes[..] else { panic!("{held:?}") };
        assert!(held[0] && (2..=3).contains(&given_up), "{held:?}");
        assert!((10..=11).contains(&(again - given_up)), "{held:?}");
        assert!((4..=5).contains(&(given_up_again - again)), "{held:?}");
    }

    /// It is left alone for ten seconds in between.
    #[test]
    fn the_patience_with_a_silent_peer_doubles_up_to_32_seconds() {
        let mut bench = bench(3, 40);
        bench.pass(Duration::from_secs(3));
        bench.have(Bench::<MobHpdc07>::GLOBAL, run(0, 40));
        let mut held = Vec::new();
        for _ in 0..150 {
            held.push(bench.swarm.requests_at(LinkId(Bench::<MobHpdc07>::GLOBAL)) > 0);
            bench.pass(Duration::from_secs(1));
        }
        let waits: Vec<usize> = held.chunk_by(|a, b| a == b).filter(|run| run[0]).map(<[bool]>::len).collect();
        assert_eq!(waits.len(), 6, "{waits:?}");
        for (seconds, patience) in waits.iter().zip([2, 4, 8, 16, 32, 32]) {
            assert!((patience..=patience + 1).contains(seconds), "{waits:?}");
        }
    }

    #[test]
    fn who_asks_for_help_is_told_of_everything() {
        let mut bench = bench(3, 8);
        bench.have(Bench::<MobHpdc07>::GLOBAL, run(2, 1));
        bench.requests();
        bench.serve_asked(2);
        bench.announced();
        let help = StrategyMessage::Interest { slots: SlotSet::all(), pieces: Vec::<Run>::new() };
        bench.say(Bench::<MobHpdc07>::TREE, help);
        assert_eq!(bench.announced(), [(Bench::<MobHpdc07>::TREE, 2)]);
    }

    #[test]
    fn the_pieces_of_a_stream_are_dealt_out_in_turns() {
        let mut bench = Bench::<MobHpdc07>::stream(3);
        bench.know(7);
        bench.have(Bench::<MobHpdc07>::GLOBAL, run(0, 7));
        let mut asked: Vec<u32> = bench.requests().into_iter().map(|(_, piece)| piece).collect();
        asked.sort_unstable();
        assert_eq!(asked, [1, 4], "rank 1 of three");
    }
}
