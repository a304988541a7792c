//! Peels trees off the rates of links, after Lovász's proof of Edmonds' theorem: as long as at least `rate` enters
//! every set without the root, a tree of some weight can be taken away so that at least `rate - weight` enters every
//! set.
//!
//! A tree grows from the root edge by edge. It may cross a cut, that is, enter a set, several times, but then its
//! weight is limited: what enters the set besides `rate` pays for all times but the first. The edge that keeps the
//! weight highest is taken, after a maximum flow has shown that no cut is hurt. A cut that is hurt is remembered: for
//! all further trees it limits the edges that cross it, without a flow. So each cut costs one flow that fails, and each
//! edge one that succeeds.

use std::cmp::Reverse;

use super::cuts::{cut_below, least_rate};
use super::rates::Rates;
use super::room::{Edge, Tree};

/// The part of the rate that may be left over.
const LEFT_PART: u64 = 10_000;

/// Trees that together have the rate of the least cut, less 1/10,000 at most. Empty when a vertex cannot be reached.
pub(super) fn peel(rates: Rates, root: usize) -> Vec<Tree> {
    let rate = least_rate(&rates, root);
    let mut peeling = Peeling { root, rate, left: rates, cuts: Vec::new() };
    let mut trees = Vec::new();
    while peeling.rate > rate / LEFT_PART {
        trees.push(peeling.take_tree());
    }
    trees
}

/// What is left when some trees have been taken.
struct Peeling {
    root: usize,
    /// At least so much of `left` enters every set without the root.
    rate: u64,
    left: Rates,
    cuts: Vec<KnownCut>,
}

/// A set without the root that some tree would have entered too often.
struct KnownCut {
    inside: Vec<bool>,
    /// What enters it above the rate.
    spare: u64,
    /// How often the growing tree enters it.
    entered: u64,
}

/// A tree on its way to span all vertices.
struct Growth {
    inside: Vec<bool>,
    edges: Vec<Edge>,
    weight: u64,
    /// The highest weight that each edge admits, as far as known.
    limits: Rates,
}

impl Peeling {
    fn take_tree(&mut self) -> Tree {
        let mut growth = self.seedling();
        while growth.edges.len() + 1 < self.left.vertices() {
            let (edge, weight) = growth.best_edge();
            assert!(weight > 0, "by Lovász's theorem some edge can be added");
            match self.cut_hurt_by(&growth, edge, weight) {
                None => self.add(&mut growth, edge, weight),
                Some(cut) => self.remember(&mut growth, cut),
            }
        }
        let tree = Tree { rate: growth.weight, edges: growth.edges };
        self.take(&tree);
        tree
    }

    fn seedling(&mut self) -> Growth {
        self.cuts.iter_mut().for_each(|cut| cut.entered = 0);
        let mut inside = vec![false; self.left.vertices()];
        inside[self.root] = true;
        Growth { inside, edges: Vec::new(), weight: self.rate, limits: self.left.clone() }
    }

    /// A set that too little would enter for the rest of the rate if the edge were added at this weight.
    fn cut_hurt_by(&self, growth: &Growth, (from, to): Edge, weight: u64) -> Option<Vec<bool>> {
        let mut left = self.left.clone();
        growth.edges.iter().for_each(|&(from, to)| *left.at(from, to) -= weight);
        cut_below(left, self.root, from, to, self.rate)
    }

    fn add(&mut self, growth: &mut Growth, (from, to): Edge, weight: u64) {
        growth.inside[to] = true;
        growth.edges.push((from, to));
        growth.weight = weight;
        for cut in self.cuts.iter_mut().filter(|cut| cut.is_entered_by((from, to))) {
            cut.entered += 1;
            growth.mind(cut);
        }
    }

    fn remember(&mut self, growth: &mut Growth, inside: Vec<bool>) {
        let spare = self.left.entering(&inside) - self.rate;
        let mut cut = KnownCut { inside, spare, entered: 0 };
        cut.entered = growth.edges.iter().filter(|edge| cut.is_entered_by(**edge)).count() as u64;
        growth.mind(&cut);
        self.cuts.push(cut);
    }

    fn take(&mut self, tree: &Tree) {
        tree.edges.iter().for_each(|&(from, to)| *self.left.at(from, to) -= tree.rate);
        self.rate -= tree.rate;
        for cut in &mut self.cuts {
            cut.spare -= tree.rate * (cut.entered - 1);
        }
    }
}

impl KnownCut {
    fn is_entered_by(&self, (from, to): Edge) -> bool {
        self.inside[to] && !self.inside[from]
    }
}

impl Growth {
    /// The edge out of the tree that keeps the weight highest, and that weight. Of several, the one with the highest
    /// limit of its own, then the first.
    fn best_edge(&self) -> (Edge, u64) {
        let vertices = 0..self.inside.len();
        let senders = vertices.clone().filter(|from| self.inside[*from]);
        let edges = senders.flat_map(|from| vertices.clone().map(move |to| (from, to)));
        let leaving = edges.filter(|(_, to)| !self.inside[*to]);
        let best = leaving.max_by_key(|&(from, to)| (self.limits.get(from, to), Reverse((from, to))));
        let (from, to) = best.expect("some vertex is outside");
        ((from, to), self.limits.get(from, to).min(self.weight))
    }

    /// Limits the edges that enter the cut: with one more, the spare rate has to pay for all that entered before.
    fn mind(&mut self, cut: &KnownCut) {
        let limit = cut.spare / cut.entered;
        if limit >= self.weight {
            return;
        }
        for from in (0..self.inside.len()).filter(|from| !cut.inside[*from]) {
            let row = self.limits.row_mut(from).iter_mut().zip(&cut.inside);
            row.filter(|(_, inside)| **inside).for_each(|(known, _)| *known = limit.min(*known));
        }
    }
}
