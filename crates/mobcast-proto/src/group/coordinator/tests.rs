//! The coordinator's decisions: who is admitted where, with which peers and which share.

use super::*;
use crate::group::assignment::PeerAddress;
use crate::limits::{GLOBAL_PEERS_MAX, LOCAL_MESH_MAX, LOCAL_PEERS_MAX, LOCAL_PEERS_TOLD};
use proptest::prelude::*;

fn join(name: &str, cluster: Option<&str>) -> Join {
    Join {
        name: name.into(),
        cluster: cluster.map(str::to_owned),
        addresses: vec!["10.0.0.1:7077".parse().unwrap()],
        key: PublicKey([1; 32]),
    }
}

/// A coordinator with its clock, the assignments that it gave, and what else it decided.
struct Group {
    coordinator: Coordinator,
    now: Time,
    views: BTreeMap<NodeId, Assignment>,
    admitted: BTreeMap<LinkId, (NodeId, String)>,
    probes: BTreeMap<LinkId, Vec<ClusterId>>,
    refused: Vec<LinkId>,
    unplanned: Vec<(&'static str, String)>,
    measured: Vec<Measurement>,
}

impl Group {
    fn found() -> Group {
        Group::found_for(Overlays::default())
    }

    fn found_for(overlays: Overlays) -> Group {
        let addresses = vec!["10.0.0.1:7077".parse().unwrap()];
        let coordinator =
            Coordinator::new("root".into(), Some("a".into()), addresses, PublicKey([0; 32]), 1, overlays, false);
        let mut group = Group {
            coordinator,
            now: Time::ZERO,
            views: BTreeMap::new(),
            admitted: BTreeMap::new(),
            probes: BTreeMap::new(),
            refused: Vec::new(),
            unplanned: Vec::new(),
            measured: Vec::new(),
        };
        group.drain();
        group
    }

    /// Takes all decisions, on links that are never too full for a view.
    fn drain(&mut self) {
        loop {
            self.take_decisions();
            let asked = self.coordinator.views_sent(self.now);
            if asked.is_empty() {
                return;
            }
            for child in asked {
                self.coordinator.way_clear(child, self.now);
            }
        }
    }

    fn take_decisions(&mut self) {
        while let Some(decision) = self.coordinator.poll_decision() {
            match decision {
                Decision::Assign { assignment } => {
                    let node = assignment.node;
                    let before = self.views.insert(node, *assignment);
                    assert!(before.is_none_or(|old| old.epoch < self.views[&node].epoch), "epochs grow");
                }
                Decision::Admit { link, node, reason, .. } => {
                    self.admitted.insert(link, (node, reason));
                }
                Decision::Probe { link, leaders } => {
                    self.probes.insert(link, leaders.iter().map(|leader| leader.cluster).collect());
                }
                Decision::Refuse { link, .. } => self.refused.push(link),
                Decision::Unplanned { strategy, reason } => self.unplanned.push((strategy, reason)),
                Decision::Measured(measurement) => self.measured.push(*measurement),
            }
        }
    }

    /// Lets everything that is due happen.
    fn settle(&mut self) {
        while let Some(at) = self.coordinator.timeout() {
            self.now = self.now.max(at);
            self.coordinator.handle_timeout(self.now);
            self.drain();
        }
    }

    fn join_all(&mut self, joins: impl IntoIterator<Item = Join>) {
        for (i, join) in joins.into_iter().enumerate() {
            let link = LinkId(1_000 + self.admitted.len() as u32 + i as u32);
            self.coordinator.handle_join(self.now, link, join);
        }
        self.drain();
        self.settle();
    }

    /// Checks what must hold of all views together.
    fn check(&self) {
        let members: Vec<NodeId> = self.coordinator.members().collect();
        let mut shares: BTreeMap<ClusterId, usize> = BTreeMap::new();
        for &node in &members {
            let view = &self.views[&node];
            *shares.entry(view.cluster).or_default() += view.slots.count();
            assert!(view.local_peers.len() <= LOCAL_PEERS_MAX && view.global_peers.len() <= GLOBAL_PEERS_MAX);
            let told = view.local_peers.iter().chain(&view.global_peers).chain(&view.parent);
            assert!(told.clone().all(|peer| members.contains(&peer.node) && peer.node != node), "{node}");
            assert!(view.local_peers.iter().all(|peer| peer.cluster == view.cluster));
            assert!(view.global_peers.iter().all(|peer| peer.cluster != view.cluster));
            let on_top = node == NodeId(0);
            assert_eq!(view.parent.is_none(), on_top, "{node} has no place in the tree");
            assert!(on_top || self.coordinator.path_to(node).last() == Some(&node));
        }
        for (cluster, slots) in shares {
            assert_eq!(slots, SLOTS, "the slots of {cluster}");
        }
    }
}

#[test]
fn the_choice_of_strategies_reckons_with_the_control_tree_that_there_is() {
    let mut group = Group::found();
    // The last clusters find no room at the coordinator.
    let small = ["c", "d", "e", "f", "g", "h", "i"].map(|cluster| (cluster, 2));
    for (cluster, nodes) in [("a", 39), ("b", 12)].into_iter().chain(small) {
        (0..nodes).for_each(|i| group.join_all([join(&format!("{cluster}{i}"), Some(cluster))]));
    }
    let order = group.coordinator.order();
    let place = |node: NodeId| (0..order.len()).find(|&position| order.node(position) == node);
    let parent = |position| group.coordinator.parent_of(order.node(position)).and_then(place);
    let there: Vec<Option<usize>> = (0..order.len()).map(parent).collect();
    assert_eq!(there, crate::strategy::choice::control_tree(&order).parents);
}

#[test]
fn named_clusters_share_their_slots_evenly_and_are_linked_with_each_other() {
    let mut group = Group::found();
    group.join_all((0..47).map(|i| join(&format!("n{i}"), Some(["a", "b", "c"][i % 3]))));
    group.check();
    assert_eq!(group.views.len(), 48);
    for view in group.views.values() {
        assert_eq!(view.clusters.len(), 3, "everybody knows all clusters");
        assert!((15..=17).contains(&view.cluster_size));
        let count = view.slots.count();
        assert!((SLOTS / 32..=SLOTS / 8).contains(&count), "{} has {count} slots", view.node);
    }
    for pair in [(0, 1), (0, 2), (1, 2)] {
        let crosses = |view: &Assignment, peer: &PeerAddress| {
            (view.cluster.0.min(peer.cluster.0), view.cluster.0.max(peer.cluster.0)) == pair
        };
        let links = group.views.values().flat_map(|v| v.global_peers.iter().filter(|p| crosses(v, p))).count();
        assert!((16..=32).contains(&links), "{links} links between the clusters {pair:?}");
    }
    assert!(group.admitted.values().all(|(_, reason)| reason.contains("--cluster")));
}

#[test]
fn a_root_alone_in_its_cluster_is_not_linked_to_everybody() {
    let mut group = Group::found();
    group.join_all((0..200).map(|i| join(&format!("n{i}"), Some("b"))));
    group.check();
    let root = NodeId(0);
    let linked = group.views.values().filter(|v| v.global_peers.iter().any(|p| p.node == root)).count();
    assert!(linked <= GLOBAL_PEERS_MAX, "{linked}");
    let without_link = |v: &&Assignment| v.cluster != ClusterId(0) && v.global_peers.is_empty();
    assert!(group.views.values().filter(without_link).all(|v| v.slots.count() == 0), "only importers have a share");
}

#[test]
fn a_third_of_the_places_below_the_coordinator_are_for_other_clusters() {
    let mut group = Group::found();
    group.join_all((0..40).map(|i| join(&format!("n{i}"), Some("a"))));
    let below = |group: &Group| {
        let mut below: BTreeMap<NodeId, usize> = BTreeMap::new();
        let parents = group.views.values().filter_map(|view| view.parent.as_ref());
        parents.for_each(|parent| *below.entry(parent.node).or_default() += 1);
        (below.remove(&NodeId(0)), below.into_values().max())
    };
    assert_eq!(below(&group), (Some(10), Some(8)));
    group.join_all((0..10).map(|i| join(&format!("m{i}"), Some(&format!("c{i}")))));
    group.check();
    assert_eq!(below(&group), (Some(16), Some(8)), "later ones hang below members of others");
}

#[test]
fn a_joining_node_measures_itself_against_leaders_and_joins_the_near_one() {
    let mut group = Group::found();
    group.join_all([join("far", Some("b"))]);
    group.coordinator.handle_join(group.now, LinkId(1), join("n", None));
    group.drain();
    assert_eq!(group.probes[&LinkId(1)], [ClusterId(0), ClusterId(1)]);
    let rtts = [(ClusterId(0), Some(20_000)), (ClusterId(1), Some(150))];
    group.coordinator.handle_probed(group.now, LinkId(1), &rtts);
    group.settle();
    let (node, reason) = group.admitted[&LinkId(1)].clone();
    assert_eq!(group.views[&node].cluster, ClusterId(1));
    assert!(reason.contains("joined b: 150 µs away"), "{reason}");
}

#[test]
fn a_cluster_that_is_found_has_no_name_that_somebody_has_given() {
    let mut group = Group::found();
    group.join_all([join("n1", Some("cluster-2")), join("n2", Some("cluster-3"))]);
    group.coordinator.handle_join(group.now, LinkId(1), join("far", None));
    group.drain();
    answer_all(&mut group, |_, _, _| 20_000);
    let names: Vec<&str> = group.views.values().map(|view| view.cluster_name.as_str()).collect();
    assert_eq!(names, ["a", "cluster-2", "cluster-3", "cluster-4"]);
    let clusters: BTreeSet<ClusterId> = group.views.values().map(|view| view.cluster).collect();
    assert_eq!(clusters.len(), 4, "each has a number of its own");
}

#[test]
fn where_there_is_no_room_for_another_cluster_the_report_says_so() {
    let mut group = Group::found();
    group.join_all((1..=CLUSTERS_MAX).map(|i| join(&format!("n{i}"), Some(&format!("c{i}")))));
    group.join_all([join("again", Some("c7"))]);
    let reasons: Vec<&str> = group.admitted.values().map(|(_, reason)| reason.as_str()).collect();
    let crowded = "put into c255, because a group has 256 clusters at most; otherwise named by --cluster c256";
    assert_eq!(reasons[CLUSTERS_MAX - 2..], ["named by --cluster c255", crowded, "named by --cluster c7"]);
}

#[test]
fn two_far_nodes_that_come_together_found_one_cluster() {
    let mut group = Group::found();
    for link in [1, 2] {
        group.coordinator.handle_join(group.now, LinkId(link), join("n", None));
        group.drain();
    }
    group.coordinator.handle_probed(group.now, LinkId(1), &[(ClusterId(0), Some(20_000))]);
    group.settle();
    group.coordinator.handle_probed(group.now, LinkId(2), &[(ClusterId(0), Some(20_000))]);
    group.drain();
    assert_eq!(group.probes[&LinkId(2)], [ClusterId(1)], "it is asked about the cluster founded meanwhile");
    group.coordinator.handle_probed(group.now, LinkId(2), &[(ClusterId(1), Some(100))]);
    group.settle();
    let clusters: Vec<ClusterId> =
        [1, 2].iter().map(|&link| group.views[&group.admitted[&LinkId(link)].0].cluster).collect();
    assert_eq!(clusters, [ClusterId(1), ClusterId(1)]);
}

/// Answers everybody who is asked to measure until all have a place. `rtt_us` gives the time from a link to a cluster.
fn answer_all(group: &mut Group, rtt_us: impl Fn(&Group, LinkId, ClusterId) -> u64) {
    loop {
        let asked = std::mem::take(&mut group.probes);
        for (&link, clusters) in &asked {
            let rtts: Vec<_> = clusters.iter().map(|&c| (c, Some(rtt_us(group, link, c)))).collect();
            group.coordinator.handle_probed(group.now, link, &rtts);
            group.drain();
        }
        if asked.is_empty() {
            match group.coordinator.timeout() {
                None => return,
                Some(at) => {
                    group.now = at;
                    group.coordinator.handle_timeout(at);
                    group.drain();
                }
            }
        }
    }
}

/// The clusters, as links of their members, that nodes are put into which join together: `site` gives the site of link `n`, the root's is 0, sites are
/// `between_us` apart.
fn found_clusters(joiners: u32, site: impl Fn(u32) -> u32, between_us: u64) -> Vec<Vec<u32>> {
    let mut group = Group::found();
    (0..joiners).for_each(|n| group.coordinator.handle_join(group.now, LinkId(n), join(&format!("n{n}"), None)));
    group.drain();
    answer_all(&mut group, |group, link, cluster| {
        let leader = group.views.values().filter(|view| view.cluster == cluster).map(|view| view.node).min().unwrap();
        let leader_link = group.admitted.iter().find(|(_, (node, _))| *node == leader).map(|(link, _)| link.0);
        let near = leader_link.map_or(0, &site) == site(link.0);
        (if near { 100 } else { between_us }) + u64::from(link.0 * 7 % 50)
    });
    group.check();
    let mut clusters: BTreeMap<ClusterId, Vec<u32>> = BTreeMap::new();
    for (link, (node, _)) in &group.admitted {
        clusters.entry(group.views[node].cluster).or_default().push(link.0);
    }
    clusters.into_values().collect()
}

#[test]
fn sites_half_a_millisecond_apart_are_told_by_what_all_measured() {
    let alternating = found_clusters(15, |n| (n + 1) % 2, 600);
    assert_eq!(alternating, [[1, 3, 5, 7, 9, 11, 13].to_vec(), [0, 2, 4, 6, 8, 10, 12, 14].to_vec()]);
    let three = found_clusters(12, |n| n % 3, 900);
    assert_eq!(three.len(), 3, "{three:?}");
    assert!(three.iter().all(|nodes| nodes.iter().all(|n| n % 3 == nodes[0] % 3)), "{three:?}");
}

#[test]
fn more_sites_than_are_measured_at_a_time_are_found() {
    for between_us in [900, 20_000] {
        let clusters = found_clusters(120, |n| n % 40, between_us);
        let is_site = |nodes: &Vec<u32>| nodes.len() == 3 && nodes.iter().all(|n| n % 40 == nodes[0] % 40);
        assert!(clusters.len() == 40 && clusters.iter().all(is_site), "{between_us} µs apart: {clusters:?}");
    }
}

#[test]
fn nodes_of_one_site_that_are_all_half_a_millisecond_away_stay_together() {
    assert_eq!(found_clusters(9, |_| 1, 600).len(), 1, "no difference shows a border");
}

#[test]
fn one_slow_measurement_of_a_busy_machine_founds_no_cluster() {
    let mut group = Group::found();
    (0..4).for_each(|n| group.coordinator.handle_join(group.now, LinkId(n), join("n", None)));
    group.drain();
    for (link, rtt) in [(0, 100), (1, 110), (2, 120), (3, 900)] {
        group.coordinator.handle_probed(group.now, LinkId(link), &[(ClusterId(0), Some(rtt))]);
    }
    group.drain();
    assert!(!group.admitted.contains_key(&LinkId(3)), "it waits for company");
    answer_all(&mut group, |_, _, _| 115);
    assert!(group.views.values().all(|view| view.cluster == ClusterId(0)), "measured again, it is near");
}

#[test]
fn what_was_not_asked_for_does_not_count() {
    let mut group = Group::found();
    group.coordinator.handle_join(group.now, LinkId(1), join("n", None));
    group.drain();
    for _ in 0..100 {
        group.coordinator.handle_probed(group.now, LinkId(1), &[(ClusterId(7), Some(1)), (ClusterId(0), Some(600))]);
    }
    let known = &group.coordinator.clusters[&ClusterId(0)].rtts;
    assert_eq!(known.iter().collect::<Vec<_>>(), [(&LinkId(1), &Duration::from_micros(600))]);
    assert!(group.admitted.is_empty(), "answers that nobody asked for decide nothing");
}

#[test]
fn nobody_has_the_top_alone_where_others_are_around_it() {
    for (others, has_another) in [(2, false), (3, true)] {
        let mut group = Group::found();
        group.join_all((0..6).map(|i| join(&format!("b{i}"), Some("b"))));
        group.join_all((0..others).map(|i| join(&format!("a{i}"), Some("a"))));
        group.check();
        let links = group.views.values().flat_map(|v| v.global_peers.iter().map(|peer| [v.node, peer.node]));
        let beside_top: BTreeSet<NodeId> = links.filter(|link| !link.contains(&NodeId(0))).flatten().collect();
        let in_b = group.views.values().filter(|view| view.cluster == ClusterId(1));
        let all = in_b.map(|view| view.node).all(|node| beside_top.contains(&node));
        assert_eq!(all, has_another, "{others} others");
    }
}

#[test]
fn who_waits_for_company_and_goes_is_forgotten() {
    let mut group = Group::found();
    group.coordinator.handle_join(group.now, LinkId(1), join("n", None));
    group.coordinator.handle_probed(group.now, LinkId(1), &[(ClusterId(0), Some(600))]);
    group.drain();
    assert!(group.admitted.is_empty(), "600 µs is neither clearly near nor far");
    assert!(group.coordinator.timeout().is_some());
    group.coordinator.handle_joiner_gone(LinkId(1));
    assert_eq!(group.coordinator.timeout(), None);
}

#[test]
fn a_cluster_of_seventeen_is_a_full_mesh_and_a_larger_one_is_not() {
    let mut group = Group::found();
    group.join_all((0..LOCAL_MESH_MAX).map(|i| join(&format!("n{i}"), Some("b"))));
    let linked = |group: &Group| {
        let mut links: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
        for (node, view) in &group.views {
            for peer in &view.local_peers {
                links.entry(*node).or_default().insert(peer.node);
                links.entry(peer.node).or_default().insert(*node);
            }
        }
        links.values().map(BTreeSet::len).collect::<Vec<_>>()
    };
    assert_eq!(linked(&group), vec![LOCAL_MESH_MAX - 1; LOCAL_MESH_MAX]);
    group.join_all((0..30).map(|i| join(&format!("m{i}"), Some("b"))));
    group.check();
    assert!(linked(&group).iter().all(|&peers| peers >= LOCAL_PEERS_TOLD), "{:?}", linked(&group));
    let newest = group.views.values().next_back().unwrap();
    assert!(newest.local_peers.len() < LOCAL_MESH_MAX, "later ones are told some of the peers");
}

#[test]
fn who_has_lost_a_counterpart_gets_another_one() {
    let mut group = Group::found();
    group.join_all((0..7).map(|i| join(&format!("n{i}"), Some(if i < 3 { "a" } else { "b" }))));
    let of = |group: &Group, cluster| {
        let members: Vec<&Assignment> =
            group.views.values().filter(|view| view.cluster == ClusterId(cluster)).collect();
        members.into_iter().map(|view| (view.node, view.counterparts.clone())).collect::<BTreeMap<_, _>>()
    };
    let before = of(&group, 1);
    assert!(before.len() == 4 && before.values().all(|counterparts| counterparts.len() == 1), "{before:?}");
    let lost =
        before.values().flatten().copied().find(|node| *node != NodeId(0)).expect("three of them are not the root");
    assert!(group.coordinator.handle_lost(group.now, lost));
    group.views.remove(&lost);
    group.settle();
    let after = of(&group, 1);
    assert!(after.values().all(|counterparts| counterparts.len() == 1 && counterparts[0] != lost), "{after:?}");
    let kept = before.iter().filter(|(node, counterparts)| after[*node] == **counterparts).count();
    assert_eq!(kept, 3, "the other pairs stay together");
    group.check();
}

#[test]
fn a_member_whom_two_accuse_loses_its_share() {
    let mut group = Group::found();
    group.join_all((0..8).map(|i| join(&format!("n{i}"), Some("b"))));
    let accused = NodeId(3);
    assert!(group.views[&accused].slots.count() > 0);
    group.coordinator.handle_accused(NodeId(4), accused);
    group.coordinator.handle_accused(NodeId(4), accused);
    group.drain();
    assert!(group.views[&accused].slots.count() > 0, "one accuser is not enough");
    group.coordinator.handle_accused(NodeId(5), accused);
    group.drain();
    assert_eq!(group.views[&accused].slots.count(), 0);
    group.check();
}

#[test]
fn whoever_accuses_the_others_is_not_named_in_their_place() {
    let mut group = Group::found();
    group.join_all((0..6).map(|i| join(&format!("n{i}"), Some("a"))));
    assert_eq!(group.coordinator.successors(), [1, 2].map(NodeId));
    (1..=5).for_each(|accused| group.coordinator.handle_accused(NodeId(6), NodeId(accused)));
    group.drain();
    assert_eq!(group.coordinator.successors(), []);
    assert!(group.views.values().all(|view| view.successors.is_empty()));
    group.coordinator.handle_lost(group.now, NodeId(1));
    assert_eq!(group.coordinator.successors(), [], "the next place is that of another one who is accused");
}

#[test]
fn a_link_admits_one_node() {
    let mut group = Group::found();
    group.join_all([join("one", Some("a"))]);
    let link = *group.admitted.keys().next().unwrap();
    group.coordinator.handle_join(group.now, link, join("two", Some("a")));
    group.drain();
    assert_eq!(group.refused, [link]);
    assert_eq!(group.admitted.len(), 1);
}

#[test]
fn nobody_is_admitted_to_a_group_that_closes() {
    let mut group = Group::found();
    group.coordinator.close();
    group.join_all([join("late", Some("a"))]);
    assert_eq!(group.refused.len(), 1);
}

#[test]
fn who_cannot_be_dialled_is_told_to_dial() {
    let mut group = Group::found();
    group.join_all([join("closed", Some("b")), join("open", Some("b"))]);
    group.settle();
    let (closed, open) = (NodeId(1), NodeId(2));
    let told = |group: &Group, node: NodeId| -> Vec<NodeId> {
        group.views[&node].local_peers.iter().map(|peer| peer.node).collect()
    };
    assert_eq!(told(&group, open), [closed]);
    group.coordinator.handle_unreachable(open, closed);
    group.drain();
    assert_eq!((told(&group, open), told(&group, closed)), (vec![], vec![open]));
    // It was in vain, too: nobody tries again.
    group.coordinator.handle_unreachable(closed, open);
    group.drain();
    assert_eq!((told(&group, open), told(&group, closed)), (vec![], vec![]));
}

/// New assignments while nodes join one by one, 25 ms apart, and leave again, 2 ms apart.
fn assignments(joiners: u32, clusters: &[&str]) -> (usize, usize) {
    let mut group = Group::found();
    let count = |group: &mut Group, until: Time| {
        while let Some(at) = group.coordinator.timeout().filter(|&at| at <= until) {
            group.coordinator.handle_timeout(at);
        }
        let mut assigned = 0;
        while let Some(decision) = group.coordinator.poll_decision() {
            assigned += usize::from(matches!(decision, Decision::Assign { .. }));
        }
        assigned
    };
    let (mut joining, mut leaving) = (0, 0);
    for i in 0..joiners {
        group.now += Duration::from_millis(25);
        let cluster = clusters[i as usize % clusters.len()];
        group.coordinator.handle_join(group.now, LinkId(i), join(&format!("n{i}"), Some(cluster)));
        let now = group.now;
        joining += count(&mut group, now);
    }
    group.now += Duration::from_secs(1);
    let now = group.now;
    joining += count(&mut group, now);
    for node in group.coordinator.members().skip(1).collect::<Vec<_>>() {
        group.now += Duration::from_millis(2);
        let now = group.now;
        leaving += count(&mut group, now);
        group.coordinator.handle_lost(now, node);
    }
    (joining, leaving)
}

#[test]
fn who_joins_or_leaves_alone_has_few_others_told() {
    for (joiners, clusters, per_joiner, per_leaver) in
        [(64, &["a"] as &[_], 8, 4), (63, &["a", "b", "c", "d"], 5, 4), (500, &["a", "b", "c", "d"], 12, 24)]
    {
        let (joining, leaving) = assignments(joiners, clusters);
        let joiners = joiners as usize;
        assert!(joining <= per_joiner * joiners, "{joining} for {joiners} that join {clusters:?}");
        assert!(leaving <= per_leaver * joiners, "{leaving} for {joiners} that leave {clusters:?}");
    }
}

proptest! {
    #[test]
    fn views_stay_consistent_whoever_comes_and_goes(
        // More than the coordinator carries itself, and than make a mesh.
        before in 0usize..50,
        steps in proptest::collection::vec((any::<bool>(), 0usize..60, 0usize..4), 1..60)
    ) {
        let mut group = Group::found();
        group.join_all((0..before).map(|i| join(&format!("b{i}"), Some(["a", "b"][i % 2]))));
        group.check();
        let mut orphans: BTreeSet<NodeId> = BTreeSet::new();
        for (i, (comes, which, cluster)) in steps.into_iter().enumerate() {
            if comes {
                group.join_all([join(&format!("n{i}"), Some(["a", "b", "c", "d"][cluster]))]);
            } else {
                let members: Vec<NodeId> = group.coordinator.members().collect();
                let node = members[which % members.len()];
                group.coordinator.handle_lost(group.now, node);
                group.drain();
                group.settle();
            }
            orphans.extend(group.coordinator.members().filter(|&n| n != NodeId(0) && group.coordinator.path_to(n).is_empty()));
            for node in std::mem::take(&mut orphans) {
                group.coordinator.handle_orphan(node);
                group.drain();
            }
            // Members that lost a parent or a peer were told.
            let members: BTreeSet<NodeId> = group.coordinator.members().collect();
            group.views.retain(|node, _| members.contains(node));
            group.check();
        }
    }
}

#[test]
fn the_first_is_admitted_at_once_and_rounds_grow_rarer_while_more_come() {
    let mut group = Group::found();
    let ms = Duration::from_millis;
    let mut rounds = Vec::new();
    for (at, link) in (0..100).map(ms).zip(1..) {
        group.coordinator.handle_join(Time::ZERO + at, LinkId(link), join(&format!("n{link}"), Some("a")));
        let admitted = group.admitted.len();
        if group.coordinator.timeout().is_some_and(|due| due <= Time::ZERO + at) {
            group.coordinator.handle_timeout(Time::ZERO + at);
        }
        group.drain();
        if group.admitted.len() > admitted {
            rounds.push(at);
        }
    }
    assert_eq!(rounds, [0, 2, 6, 14, 30, 50, 70, 90].map(ms));
    group.now = Time::ZERO + ms(200);
    group.settle();
    let later = group.now + ms(21);
    for (at, due) in [(later, later), (later + ms(1), later + ms(2))] {
        let link = LinkId(1_000 + group.admitted.len() as u32);
        group.coordinator.handle_join(at, link, join("late", Some("a")));
        let earliest = group.coordinator.timeout();
        assert_eq!(earliest, Some(due), "after a pause it begins anew");
        group.coordinator.handle_timeout(due);
        group.drain();
        assert!(group.admitted.contains_key(&link));
    }
}

mod plans;
