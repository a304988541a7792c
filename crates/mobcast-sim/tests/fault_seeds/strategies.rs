//! The same with other strategies than `mob`: what they, or the group under them, did wrong.

use mobcast_proto::Duration;
use mobcast_sim::faults::plan::{Fault, Planned};
use mobcast_sim::network::Stop;
use mobcast_sim::world::mischief::Mischief;
use mobcast_topology::{ClusterIndex, LinkRef};

use super::{holds, ms, object, plan};

#[test]
fn seed_420129_a_founder_misses_the_children_of_a_node_that_follow_another_coordinator() {
    let links = [
        (8_500, 6),
        (2_500, 43),
        (5_000, 53),
        (9_000, 17),
        (8_500, 8),
        (8_500, 33),
        (3_000, 46),
        (7_000, 58),
        (4_000, 33),
        (9_000, 24),
        (500, 32),
        (2_000, 21),
        (2_000, 24),
        (3_500, 24),
        (9_000, 1),
    ];
    let clusters = [(4, 39), (4, 59), (1, 67), (2, 58), (3, 65), (4, 67)];
    let faults =
        [(75, Fault::Unplug(4, Duration::from_millis(6_557))), (322, Fault::Pause(0, Duration::from_millis(16_600)))];
    let flat = Planned { strategy: "flat", ..object(0, 1, 530_199, 16) };
    holds(plan(420_129, &clusters, &links), &[flat], &faults);
}

#[test]
fn seed_420481_a_founder_misses_a_child_that_follows_another_coordinator() {
    let links = [
        (1_000, 44),
        (10_000, 34),
        (2_000, 5),
        (1_500, 50),
        (8_000, 18),
        (8_000, 44),
        (4_000, 55),
        (3_000, 37),
        (8_000, 48),
        (3_500, 30),
        (5_000, 25),
        (8_500, 1),
        (7_500, 28),
        (7_500, 37),
        (10_000, 14),
    ];
    let clusters = [(1, 11), (2, 75), (2, 61), (2, 55), (2, 5), (3, 72)];
    let faults = [
        (757, Fault::Join(ClusterIndex(3))),
        (936, Fault::Pause(0, Duration::from_millis(16_300))),
        (3_656, Fault::Pause(5, Duration::from_millis(15_400))),
    ];
    let binomial = Planned { strategy: "binomial", ..object(0, 0, 13_954_862, 64) };
    holds(plan(420_481, &clusters, &links), &[binomial], &faults);
}

/// Over a thin link that eighty connections share, chunks took longer than the patience of who had asked for them. What came late was not
/// taken, and asked for again elsewhere.
#[test]
fn seed_2223015_what_comes_over_a_thin_link_after_it_was_asked_of_others_counts() {
    let rate = Fault::Rate(LinkRef::Wan { from: ClusterIndex(0), to: ClusterIndex(1) }, 200_000);
    let faults = [(103, Fault::Join(ClusterIndex(0))), (812, rate)];
    let objects = [object(0, 0, 645_951, 64), object(1_861, 0, 645_951, 32)];
    let objects = objects.map(|object| Planned { strategy: "bittorrent", ..object });
    let summary = holds(plan(2_223_015, &[(8, 40), (9, 81)], &[(10_000, 51)]), &objects, &faults);
    assert_eq!(summary.gave_up, 0);
}

/// Members in need took all peers in other clusters for mute, because a link was thin for a while, and never asked them again.
#[test]
fn seed_2223873_a_mute_peer_is_asked_again() {
    let (one, two) = (ClusterIndex(0), ClusterIndex(1));
    let faults = [
        (913, Fault::Loss(one, two, 50, Duration::from_millis(5_242))),
        (1_651, Fault::Cut(two, one, Duration::from_millis(11_400))),
        (4_052, Fault::Rate(LinkRef::Wan { from: one, to: two }, 2_200_000)),
        (7_729, Fault::Join(one)),
    ];
    let objects = [object(0, 8, 3_538_208, 32), object(1_698, 0, 7_951_691, 64), object(58, 0, 981_011, 64)];
    let objects = objects.map(|object| Planned { strategy: "mob-hpdc07", ..object });
    let summary = holds(plan(2_223_873, &[(14, 104), (8, 87)], &[(7_000, 49)]), &objects, &faults);
    assert_eq!(summary.gave_up, 0);
}

/// The coordinator put a member below one that it had dropped, before it had heard of that; the member took the link to the coordinator for
/// one that it needs no more, and had no way up left.
#[test]
fn seed_2319396_who_is_put_below_a_member_that_it_has_dropped_keeps_to_the_coordinator() {
    let links = [(8_000, 34), (7_000, 36), (4_500, 28)];
    let mut plan = plan(2_319_396, &[(6, 93), (8, 104), (2, 26)], &links);
    plan.malicious = Some((6, Mischief::ForgedBatches));
    let faults =
        [(281, Fault::Pause(0, Duration::from_millis(269))), (283, Fault::Pause(1, Duration::from_millis(7_220)))];
    let robber = Planned { strategy: "robber-tpds11", ..object(0, 0, 181_004, 16) };
    let summary = holds(plan, &[robber], &faults);
    assert_eq!((summary.complete, summary.gave_up), (15, 0));
}

/// While the coordinator stood still, a member lost its parent and ended. What it had said before came over that parent when the coordinator
/// had given it another one, and was taken for a sign that it is there.
#[test]
fn seed_2322187_what_a_member_said_before_it_was_moved_does_not_show_that_it_lives() {
    let links = [(3_500, 19), (5_500, 38), (9_500, 53), (1_500, 2), (5_000, 9), (2_500, 17)];
    let mut plan = plan(2_322_187, &[(7, 90), (6, 16), (4, 92), (4, 15)], &links);
    plan.malicious = Some((17, Mischief::ForgedBatches));
    let faults = [(569, Fault::Pause(0, Duration::from_millis(1_048))), (1_545, Fault::Stop(18, Stop::Reset))];
    let magpie = Planned { strategy: "magpie", ..object(0, 0, 8_238_805, 32) };
    let summary = holds(plan, &[magpie], &faults);
    assert!(summary.end < ms(40_000), "{:?}", summary.end);
}

/// The root stood still, its successor took over, alone, and took the link to the root for one that it needs no more: it gave up what the root
/// still had.
#[test]
fn seed_2615997_a_new_coordinator_keeps_its_links_to_members_that_it_does_not_know() {
    let faults = [(500, Fault::Pause(0, Duration::from_millis(2_287))), (708, Fault::Break(1, 0))];
    let biased = Planned { strategy: "bittorrent-biased", ..object(0, 0, 1_290_024, 16) };
    let summary = holds(plan(2_615_997, &[(1, 102), (1, 10)], &[(6_000, 37)]), &[biased], &faults);
    assert_eq!((summary.complete, summary.gave_up), (2, 0));
}

/// The founder, which was the root, stood still; its successor took over, alone, and gave up what the founder, which never steps down, and its
/// group had.
#[test]
fn seed_2723668_a_founder_that_comes_back_takes_its_group_back() {
    let links = [
        (10_000, 10),
        (8_500, 51),
        (1_500, 15),
        (500, 42),
        (1_500, 57),
        (2_000, 51),
        (9_500, 45),
        (1_000, 9),
        (9_500, 39),
        (7_000, 30),
    ];
    let faults = [(32, Fault::Pause(0, Duration::from_millis(6_569))), (169, Fault::Break(1, 0))];
    let packed = Planned { strategy: "optimal-trees", ..object(0, 0, 4_839_165, 16) };
    let summary = holds(plan(2_723_668, &[(2, 92), (1, 76), (1, 27), (1, 75), (1, 12)], &links), &[packed], &faults);
    assert_eq!((summary.complete, summary.gave_up), (6, 0));
}

/// The same among two nodes, each of which is the root of a broadcast: here it was the founder that gave up.
#[test]
fn seed_3105295_what_the_root_that_took_over_had_comes_with_it() {
    let faults = [
        (102, Fault::StallDisk(0, Duration::from_millis(20_900))),
        (676, Fault::Pause(0, Duration::from_millis(4_776))),
        (1_199, Fault::Join(ClusterIndex(0))),
        (1_515, Fault::Break(0, 1)),
    ];
    let of = |at, root, kib| Planned { strategy: "bittorrent", ..object(at, root, 408_030, kib) };
    let summary = holds(plan(3_105_295, &[(2, 7)], &[]), &[of(0, 0, 16), of(66, 1, 32), of(1_284, 0, 16)], &faults);
    assert_eq!(summary.gave_up, 0);
}

/// The founder stood still for longer than a silence is borne: nobody had a link to it when it came back.
#[test]
fn seed_3301432_a_successor_looks_for_the_founder() {
    let links = [(5_500, 42), (8_500, 38), (9_000, 7)];
    let fpfr = Planned { strategy: "fpfr", ..object(0, 0, 808_286, 32) };
    let faults = [(18, Fault::Pause(0, Duration::from_millis(18_900)))];
    let summary = holds(plan(3_301_432, &[(2, 13), (2, 75), (2, 56)], &links), &[fpfr], &faults);
    assert_eq!((summary.complete, summary.gave_up), (6, 0));
}

/// The successor had a member, which was linked to the founder, and died; the founder gave it places of a term that was over for it.
#[test]
fn seed_3305709_who_is_given_a_place_by_the_founder_tells_it_of_the_successor() {
    let faults = [
        (492, Fault::Join(ClusterIndex(1))),
        (738, Fault::Pause(0, Duration::from_millis(4_585))),
        (813, Fault::Break(1, 0)),
        (1_284, Fault::Join(ClusterIndex(1))),
        (1_808, Fault::Rate(LinkRef::Wan { from: ClusterIndex(0), to: ClusterIndex(1) }, 1_900_000)),
        (5_012, Fault::Stop(1, Stop::Silent)),
    ];
    let mob = Planned { strategy: "mob-hpdc07", ..object(0, 0, 8_924_136, 32) };
    let summary = holds(plan(3_305_709, &[(1, 53), (1, 68)], &[(8_500, 6)]), &[mob], &faults);
    assert_eq!(summary.gave_up, 0);
}

/// The root died, and ten nodes asked everybody in the other cluster for five pieces each, over a link that took half a minute for that: what came
/// after two seconds they did not wait for, and asked for again.
#[test]
fn seed_2906794_who_is_slow_to_help_is_given_more_time() {
    let cut = Fault::Cut(ClusterIndex(1), ClusterIndex(0), Duration::from_millis(660));
    let lossy = Fault::Loss(ClusterIndex(1), ClusterIndex(0), 50, Duration::from_millis(18_700));
    let slow = Fault::Rate(LinkRef::Wan { from: ClusterIndex(0), to: ClusterIndex(1) }, 200_000);
    let faults = [
        (175, cut),
        (689, lossy),
        (722, Fault::Join(ClusterIndex(0))),
        (1_340, Fault::Stop(0, Stop::Silent)),
        (1_901, slow),
    ];
    let robber = Planned { strategy: "robber-tpds11", ..object(0, 0, 6_675_093, 32) };
    let summary = holds(plan(2_906_794, &[(8, 101), (10, 78)], &[(6_000, 34)]), &[robber], &faults);
    assert!(summary.end < ms(60_000), "{:?}", summary.end);
}

/// Sixteen members without a root, each of which gets a copy of its own of another broadcast over a thin link, got nothing of this one for half a
/// minute, and gave up what others had.
#[test]
fn seed_8036562_a_link_that_is_busy_with_another_broadcast_is_waited_for() {
    let (from, to) = (ClusterIndex(0), ClusterIndex(1));
    let faults = [
        (102, Fault::Rate(LinkRef::Wan { from, to }, 500_000)),
        (1_026, Fault::Cut(from, to, Duration::from_millis(6_966))),
        (3_379, Fault::Rate(LinkRef::Wan { from, to }, 200_000)),
        (3_574, Fault::Stop(0, Stop::Silent)),
    ];
    let plan = plan(8_036_562, &[(21, 100), (16, 29)], &[(7_500, 49)]);
    let other = Planned { strategy: "bittorrent-rarest", ..object(0, 0, 657_699, 16) };
    let summary = holds(plan, &[other, object(240, 0, 657_699, 32)], &faults);
    assert_eq!(summary.gave_up, 0);
}
