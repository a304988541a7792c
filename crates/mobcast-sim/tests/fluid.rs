//! The sharing against hand-computed examples and against progressive filling, which raises all rates together until a
//! resource is full, again and again, and is too slow and too simple to be wrong.

use mobcast_sim::fluid::{Precision, RATE_UNITS, ResourceIndex, Sharing};
use proptest::prelude::*;

/// Rates in bytes per second of every flow, `None` for idle ones.
fn settled(sharing: &mut Sharing, flows: u32, precision: Precision) -> Vec<f64> {
    sharing.settle(precision, |_, _| {});
    (0..flows).map(|flow| sharing.rate(flow) as f64 / RATE_UNITS as f64).collect()
}

fn build(capacities: &[u64], paths: &[(Vec<usize>, Option<u64>)]) -> Sharing {
    let mut sharing = Sharing::default();
    let resources: Vec<ResourceIndex> = capacities.iter().map(|rate| sharing.add_resource(Some(*rate))).collect();
    for (path, cap) in paths {
        let path: Vec<ResourceIndex> = path.iter().map(|index| resources[*index]).collect();
        sharing.add_flow(&path, *cap);
    }
    sharing
}

/// Max-min fair rates of the flows that are `active`, by progressive filling.
fn progressive_filling(capacities: &[u64], paths: &[(Vec<usize>, Option<u64>)], active: &[bool]) -> Vec<f64> {
    let mut left: Vec<f64> = capacities.iter().map(|rate| *rate as f64).collect();
    let mut rates = vec![0.0; paths.len()];
    let mut rising = active.to_vec();
    while rising.iter().any(|rises| *rises) {
        let on =
            |r: usize, rising: &[bool]| (0..paths.len()).filter(|f| rising[*f] && paths[*f].0.contains(&r)).count();
        let shares = (0..left.len()).filter(|r| on(*r, &rising) > 0).map(|r| left[r] / on(r, &rising) as f64);
        let caps = (0..paths.len()).filter(|f| rising[*f]).filter_map(|f| Some(paths[f].1? as f64 - rates[f]));
        let step = shares.chain(caps).fold(f64::INFINITY, f64::min).max(0.0);
        for flow in (0..paths.len()).filter(|f| rising[*f]) {
            rates[flow] += step;
            paths[flow].0.iter().for_each(|r| left[*r] -= step);
        }
        let full: Vec<bool> =
            left.iter().zip(capacities).map(|(left, all)| *left <= 1e-9 * *all as f64 + 1e-6).collect();
        for flow in 0..paths.len() {
            let capped = paths[flow].1.is_some_and(|cap| rates[flow] >= cap as f64 - 1e-6);
            rising[flow] &= !capped && !paths[flow].0.iter().any(|r| full[*r]);
        }
    }
    rates
}

#[test]
fn a_flow_held_back_elsewhere_leaves_its_share_to_the_others() {
    // The classic line: one flow over both links, one flow on each.
    let paths = [(vec![0, 1], None), (vec![0], None), (vec![1], None)];
    let mut sharing = build(&[900, 2_000], &paths);
    (0..3).for_each(|flow| sharing.start(flow));
    assert_eq!(settled(&mut sharing, 3, Precision::Exact), [450.0, 450.0, 1_550.0]);
    sharing.stop(1);
    assert_eq!(settled(&mut sharing, 3, Precision::Exact), [900.0, 0.0, 1_100.0]);
    sharing.set_cap(0, Some(100));
    assert_eq!(settled(&mut sharing, 3, Precision::Exact), [100.0, 0.0, 1_900.0]);
    sharing.set_capacity(ResourceIndex(1), Some(0));
    assert_eq!(settled(&mut sharing, 3, Precision::Exact), [0.0, 0.0, 0.0], "a cut link carries nothing");
    sharing.set_capacity(ResourceIndex(1), None);
    let rates = settled(&mut sharing, 3, Precision::Exact);
    assert_eq!(rates[0], 100.0);
    assert!(rates[2] >= 1e12, "nothing limits it");
}

#[test]
fn a_flow_that_stops_and_starts_between_two_settlements_keeps_its_rate() {
    let mut sharing = build(&[1_000], &[(vec![0], None), (vec![0], None)]);
    (0..2).for_each(|flow| sharing.start(flow));
    settled(&mut sharing, 2, Precision::Quick);
    let turns = sharing.turns_total();
    sharing.stop(1);
    sharing.start(1);
    assert_eq!(settled(&mut sharing, 2, Precision::Quick), [500.0, 500.0]);
    assert_eq!(sharing.turns_total(), turns, "nothing was recomputed");
}

#[test]
fn a_starting_flow_takes_what_is_left_and_at_least_an_equal_share() {
    let mut sharing = build(&[1_000], &[(vec![0], Some(300)), (vec![0], None), (vec![0], None)]);
    sharing.start(0);
    settled(&mut sharing, 3, Precision::Quick);
    assert_eq!(sharing.prospective_rate(1), 700 * RATE_UNITS);
    sharing.start(1);
    assert_eq!(sharing.rate(1), 700 * RATE_UNITS);
    sharing.start(2);
    assert_eq!(sharing.rate(2), 1_000 * RATE_UNITS / 3);
}

#[test]
fn charged_bytes_are_taken_from_the_next_window() {
    let mut sharing = build(&[1_000], &[(vec![0], None), (vec![0], None)]);
    sharing.start(0);
    settled(&mut sharing, 2, Precision::Exact);
    sharing.charge(1, 20);
    assert!(sharing.levy(100_000_000), "something is to be given back");
    assert_eq!(settled(&mut sharing, 2, Precision::Exact), [800.0, 0.0]);
    assert!(!sharing.levy(100_000_000));
    assert_eq!(settled(&mut sharing, 2, Precision::Exact), [1_000.0, 0.0]);
}

prop_compose! {
    fn network()(resources in 1usize..8)(
        capacities in prop::collection::vec(prop_oneof![1_000u64..100_000, Just(5_000), Just(0)], resources),
        paths in prop::collection::vec(
            (prop::collection::btree_set(0..resources, 1..=resources.min(5)), prop::option::weighted(0.2, 10u64..20_000)),
            1..30,
        ),
        steps in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8, 0u64..50_000), 1..60),
    ) -> (Vec<u64>, Vec<(Vec<usize>, Option<u64>)>, Vec<(prop::sample::Index, u8, u64)>) {
        let paths = paths.into_iter().map(|(path, cap)| (path.into_iter().collect(), cap)).collect();
        (capacities, paths, steps)
    }
}

/// How near to the fair rates quick ones come to rest.
const NEAR: f64 = 1.0 / 64.0;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn exact_rates_are_those_of_progressive_filling((mut capacities, paths, steps) in network()) {
        let mut sharing = build(&capacities, &paths);
        let mut active = vec![false; paths.len()];
        for (index, what, value) in steps {
            if what == 0 {
                let resource = index.index(capacities.len());
                capacities[resource] = value;
                sharing.set_capacity(ResourceIndex(resource as u32), Some(value));
            } else {
                let flow = index.index(paths.len());
                active[flow] = !active[flow];
                if active[flow] { sharing.start(flow as u32) } else { sharing.stop(flow as u32) }
            }
            if what == 7 {
                continue; // Several changes may come between two settlements.
            }
            let rates = settled(&mut sharing, paths.len() as u32, Precision::Exact);
            let expected = progressive_filling(&capacities, &paths, &active);
            for (rate, fair) in rates.iter().zip(&expected) {
                // Each flow may lose a sixteenth of a byte per second to rounding, and leave it to the others.
                prop_assert!((rate - fair).abs() <= 4.0 + 1e-6 * fair, "{:?} instead of {:?}", rates, expected);
            }
            prop_assert!(!sharing.needs_settling());
        }
    }

    #[test]
    fn quick_rates_come_to_rest_near_the_fair_ones((capacities, paths, steps) in network()) {
        let mut sharing = build(&capacities, &paths);
        let mut active = vec![false; paths.len()];
        for (index, ..) in steps {
            let flow = index.index(paths.len());
            active[flow] = !active[flow];
            if active[flow] { sharing.start(flow as u32) } else { sharing.stop(flow as u32) }
            sharing.settle(Precision::Quick, |_, _| {});
        }
        let mut calls = 0;
        while sharing.needs_settling() {
            sharing.settle(Precision::Quick, |_, _| {});
            calls += 1;
            prop_assert!(calls < 1_000, "does not come to rest");
        }
        let rates = settled(&mut sharing, paths.len() as u32, Precision::Quick);
        for (resource, capacity) in capacities.iter().enumerate() {
            let crossing = paths.iter().zip(&rates).filter(|((path, _), _)| path.contains(&resource));
            let load: f64 = crossing.map(|(_, rate)| rate).sum();
            prop_assert!(load <= *capacity as f64 * (1.0 + 1.0 / 128.0) + 1.0, "{load} on {capacity}");
        }
        // Max-min fairness (Bertsekas and Gallager, Data Networks, 6.5.2), as near as it is promised: whoever is below its cap has a bottleneck, a resource
        // that is full and of which nobody has more.
        let on = |resource: usize| paths.iter().zip(&rates).filter(move |((path, _), _)| path.contains(&resource));
        let is_bottleneck = |resource: usize, rate: f64| {
            let (load, most) = on(resource).fold((0.0, 0.0_f64), |(load, most), (_, rate)| (load + rate, most.max(*rate)));
            load >= capacities[resource] as f64 * (1.0 - NEAR) - 1.0 && rate >= most * (1.0 - NEAR) - 1.0
        };
        for (((path, cap), &rate), _) in paths.iter().zip(&rates).zip(&active).filter(|(_, active)| **active) {
            let is_capped = cap.is_some_and(|cap| rate >= cap as f64 * (1.0 - NEAR));
            let fair = is_capped || path.iter().any(|&resource| is_bottleneck(resource, rate));
            prop_assert!(fair, "{rate} on {path:?} of {rates:?} on {capacities:?}");
        }
    }
}
