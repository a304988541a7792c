//! Balanced trees by search: the room is filled in several ways, the best packing is kept, and parts of it are taken
//! out and filled again while that raises the total.

use std::collections::BTreeMap;

use super::UNLIMITED_BYTES_PER_S as UNLIMITED;
use super::cuts::least_rate;
use super::room::{Edge, Room, Tree, total};
use super::search::{Order, Search, fill};

/// Every search; each is made with narrow trees at once and after wide ones.
const SEARCHES: [Search; 5] = [
    Search::DepthFirst(Order::Index),
    Search::DepthFirst(Order::IndexReversed),
    Search::DepthFirst(Order::WidestLink),
    Search::DepthFirst(Order::BestSender),
    Search::Widest,
];
/// The part of the rate that links admit below which a tree is not looked for if there are wider ones.
const WORTHWHILE_PART: u64 = 10_000;
/// How often a packing is filled again after something was taken out.
const REFILLS_MAX: usize = 1_000;
/// Pairs of clusters that all refills together look at, roughly: each looks at every pair for every tree. A thousand
/// refills of 50 trees of 20 clusters, less than a second.
const PAIRS_LOOKED_AT_MAX: usize = 20_000_000;

/// A way to fill the room.
#[derive(Clone, Copy)]
struct Way {
    search: Search,
    /// Whether trees of high rates are searched for before those of low rates.
    wide_first: bool,
}

/// A packing that minds links and clusters; empty when no way finds a tree.
pub(super) fn pack(room: &Room) -> Vec<Tree> {
    let floor = match least_rate(&room.links_alone(), room.root()) {
        0 => return Vec::new(),
        UNLIMITED.. => 1,
        rate => (rate / WORTHWHILE_PART).max(1),
    };
    let best_above = |floor| ways().map(|way| refilled(room, &[], way, floor)).reduce(better).expect("there are ways");
    match best_above(floor) {
        none if none.is_empty() => best_above(1),
        best => improved(room, best, floor),
    }
}

fn ways() -> impl Iterator<Item = Way> {
    SEARCHES.iter().flat_map(|&search| [false, true].map(|wide_first| Way { search, wide_first }))
}

/// Of two packings the one with the higher total, then the one with fewer trees, then the first.
fn better(first: Vec<Tree>, second: Vec<Tree>) -> Vec<Tree> {
    let is_better = total(&second) > total(&first) || total(&second) == total(&first) && second.len() < first.len();
    if is_better { second } else { first }
}

/// The kept trees and those for which the rest of the room is enough.
fn refilled(room: &Room, kept: &[Tree], way: Way, floor: u64) -> Vec<Tree> {
    let mut room = room.clone();
    kept.iter().for_each(|tree| room.reserve(tree));
    let mut trees = kept.to_vec();
    let mut passing = if way.wide_first { widest_link(&room).max(floor) } else { floor };
    loop {
        trees.extend(fill(&mut room, way.search, passing));
        if passing == floor || total(&trees) >= UNLIMITED {
            return merged(trees);
        }
        passing = (passing / 2).max(floor);
    }
}

fn widest_link(room: &Room) -> u64 {
    room.links_alone().links().map(|(_, _, rate)| rate).max().unwrap_or(0)
}

/// Each tree once, with the sum of its rates.
fn merged(trees: Vec<Tree>) -> Vec<Tree> {
    let mut places: BTreeMap<Vec<Edge>, usize> = BTreeMap::new();
    let mut once: Vec<Tree> = Vec::new();
    for tree in trees {
        let mut sorted = tree.edges.clone();
        sorted.sort_unstable();
        let place = *places.entry(sorted).or_insert(once.len());
        match once.get_mut(place) {
            Some(same) => same.rate = same.rate.saturating_add(tree.rate).min(UNLIMITED),
            None => once.push(tree),
        }
    }
    once
}

/// Takes parts out of a packing and fills the room again, while that makes it better.
fn improved(room: &Room, mut best: Vec<Tree>, floor: u64) -> Vec<Tree> {
    let pairs_each = room.vertices() * room.vertices() * (best.len() + 1);
    let mut refills_left = (PAIRS_LOOKED_AT_MAX / pairs_each).min(REFILLS_MAX);
    while total(&best) < UNLIMITED {
        let tries = kept_parts(&best).flat_map(|kept| ways().map(move |way| (kept.clone(), way)));
        let found = tries.take(refills_left).enumerate().find_map(|(made, (kept, way))| {
            let packing = refilled(room, &kept, way, floor);
            (total(&packing) > total(&best)).then_some((made + 1, packing))
        });
        let Some((made, packing)) = found else { break };
        refills_left -= made;
        best = packing;
    }
    best
}

/// What to leave of a packing: half of each tree, and all trees but one.
fn kept_parts(trees: &[Tree]) -> impl Iterator<Item = Vec<Tree>> + '_ {
    let halves = trees.iter().map(|tree| Tree { rate: tree.rate / 2, edges: tree.edges.clone() });
    let without = |left_out: usize| {
        let others = trees.iter().enumerate().filter(move |(place, _)| *place != left_out);
        others.map(|(_, tree)| tree.clone()).collect()
    };
    std::iter::once(halves.filter(|tree| tree.rate > 0).collect()).chain((0..trees.len()).map(without))
}
