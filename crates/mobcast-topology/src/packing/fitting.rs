//! Lowers the rates of links until clusters have room for all of them at once, so that a packing of the lowered links
//! oversubscribes nothing. Which links to lower is a choice; this is a heuristic, and the linear program of
//! `crate::optimum` tells how much it loses.

use std::cmp::Reverse;

use super::UNLIMITED_BYTES_PER_S as UNLIMITED;
use super::balanced;
use super::cuts::{least_rate, rate_up_to};
use super::rates::Rates;
use super::room::{Room, Tree};

/// How often what is free is shared among links, and what no cut needs taken back.
const ROUNDS_MAX: usize = 12;
/// A round that raises the rate by less than this part is the last.
const GAIN_PART: u64 = 10_000;
/// How often what is free is shared before it is looked what is needed: a link takes the lesser of its shares at both
/// ends, which leaves something at the other end.
const SHARINGS: usize = 4;

/// Rates of links at which no cluster sends or receives more than it can, and no link carries more than it can or than
/// a packing could use.
pub(super) fn fitted(room: &Room) -> Rates {
    let mut most = room.links_alone();
    let rate = least_rate(&most, room.root());
    lower_to(&mut most, rate);
    if is_within(room, &most) {
        return most;
    }
    let starts = [Rates::new(room.vertices()), used_by(&balanced::pack(room), room.vertices())];
    let [first, second] = starts.map(|start| grown(room, &most, start));
    if second.0 > first.0 { second.1 } else { first.1 }
}

fn lower_to(rates: &mut Rates, most: u64) {
    for vertex in 0..rates.vertices() {
        rates.row_mut(vertex).iter_mut().for_each(|rate| *rate = (*rate).min(most));
    }
}

fn is_within(room: &Room, rates: &Rates) -> bool {
    let within = |vertex| {
        is_limit(room.out(vertex), rates.leaving_vertex(vertex))
            && is_limit(room.into(vertex), rates.entering_vertex(vertex))
    };
    (0..room.vertices()).all(within)
}

fn is_limit(limit: u64, rate: u64) -> bool {
    limit >= UNLIMITED || rate <= limit
}

fn used_by(trees: &[Tree], vertices: usize) -> Rates {
    let mut used = Rates::new(vertices);
    for tree in trees {
        tree.edges.iter().for_each(|(from, to)| *used.at(*from, *to) += tree.rate);
    }
    used
}

/// The rate that the links admit, and their rates, after rounds of sharing and taking back.
fn grown(room: &Room, most: &Rates, mut rates: Rates) -> (u64, Rates) {
    let mut best = (0, rates.clone());
    for _ in 0..ROUNDS_MAX {
        (0..SHARINGS).for_each(|_| share_what_is_free(room, most, &mut rates));
        let rate = least_rate(&rates, room.root());
        let gain = rate.saturating_sub(best.0);
        if gain > 0 {
            best = (rate, rates.clone());
        }
        if gain <= rate / GAIN_PART {
            break;
        }
        take_back(room, &mut rates, rate);
    }
    best
}

/// Raises every link by its share of what is free at its sender and at its receiver, whichever is less. Links share in
/// proportion to what they could still carry.
fn share_what_is_free(room: &Room, most: &Rates, rates: &mut Rates) {
    let mut wanted = most.clone();
    for (from, to, rate) in rates.links() {
        *wanted.at(from, to) = most.get(from, to).saturating_sub(rate);
    }
    let vertices = 0..room.vertices();
    let free = |limit: u64, used: u64| if limit >= UNLIMITED { u64::MAX } else { limit - used };
    let sending: Vec<(u64, u64)> =
        vertices.clone().map(|v| (free(room.out(v), rates.leaving_vertex(v)), wanted.leaving_vertex(v))).collect();
    let receiving: Vec<(u64, u64)> =
        vertices.map(|v| (free(room.into(v), rates.entering_vertex(v)), wanted.entering_vertex(v))).collect();
    for (from, to, rate) in wanted.links() {
        *rates.at(from, to) += part(rate, sending[from]).min(part(rate, receiving[to]));
    }
}

/// The share of one who wants `rate` where all together want `wanted` and there is `free`.
fn part(rate: u64, (free, wanted): (u64, u64)) -> u64 {
    if wanted <= free {
        return rate;
    }
    let share = u128::from(rate) * u128::from(free) / u128::from(wanted);
    u64::try_from(share).expect("a share is at most the whole")
}

/// Lowers links as far as every cut keeps `rate`: first those at the clusters that are fullest, and of these the
/// slowest.
fn take_back(room: &Room, rates: &mut Rates, rate: u64) {
    let sending: Vec<u64> = (0..room.vertices()).map(|v| fullness(room.out(v), rates.leaving_vertex(v))).collect();
    let receiving: Vec<u64> = (0..room.vertices()).map(|v| fullness(room.into(v), rates.entering_vertex(v))).collect();
    let mut links: Vec<(usize, usize, u64)> = rates.links().collect();
    links.sort_by_key(|&(from, to, rate)| (Reverse(sending[from].max(receiving[to])), rate));
    for (from, to, carried) in links {
        let enough = rate.saturating_add(carried);
        let spare = rate_up_to(rates.clone(), room.root(), from, to, enough).saturating_sub(rate);
        *rates.at(from, to) -= spare.min(carried);
    }
}

/// Hundredths of a limit that are used.
fn fullness(limit: u64, used: u64) -> u64 {
    if limit >= UNLIMITED {
        return 0;
    }
    u64::try_from(u128::from(used) * 100 / u128::from(limit.max(1))).expect("no more is used than the limit")
}
