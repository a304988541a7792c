//! Searches for one spanning tree in the room that is left, and filling the room with trees that a search finds.

use std::cmp::Reverse;

use super::UNLIMITED_BYTES_PER_S as UNLIMITED;
use super::room::{Edge, Room, Tree};

/// In which order a depth-first search tries the neighbours of a cluster. Those that are alike are tried by index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// By index.
    Index,
    /// By index, the highest first.
    IndexReversed,
    /// The link with most left first.
    WidestLink,
    /// The neighbour that can send most first.
    BestSender,
}

/// How a tree is searched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Search {
    /// From the root as deep as it goes, then back.
    DepthFirst(Order),
    /// Prim's rule: always the edge that can have the highest rate, from anywhere in the tree.
    Widest,
}

impl Search {
    /// A spanning tree whose rate is at least `floor`, if this search finds one. One of a single cluster has no edges.
    pub(super) fn tree(self, room: &Room, floor: u64) -> Option<Vec<Edge>> {
        let mut growth = Growth::new(room, floor);
        match self {
            Search::DepthFirst(order) => growth.visit(room.root(), order),
            Search::Widest => while growth.take_widest() {},
        }
        (growth.edges.len() + 1 == room.vertices()).then_some(growth.edges)
    }
}

/// Takes trees of at least `floor` out of `room` until the search finds none. A tree without limit ends it.
pub(super) fn fill(room: &mut Room, search: Search, floor: u64) -> Vec<Tree> {
    let mut trees = Vec::new();
    while let Some(edges) = search.tree(room, floor) {
        let tree = Tree { rate: room.rate_of(&edges), edges };
        room.reserve(&tree);
        let unlimited = tree.rate >= UNLIMITED;
        trees.push(tree);
        if unlimited {
            break;
        }
    }
    trees
}

/// A tree on its way to span all clusters.
struct Growth<'a> {
    room: &'a Room,
    floor: u64,
    inside: Vec<bool>,
    children: Vec<u64>,
    edges: Vec<Edge>,
}

impl Growth<'_> {
    fn new(room: &Room, floor: u64) -> Growth<'_> {
        let mut inside = vec![false; room.vertices()];
        inside[room.root()] = true;
        Growth { room, floor, inside, children: vec![0; room.vertices()], edges: Vec::new() }
    }

    /// The rate that the edge could have as one more of its sender's.
    fn rate_of(&self, edge: Edge) -> u64 {
        self.room.edge_rate(edge, self.children[edge.0] + 1)
    }

    fn is_open(&self, edge: Edge) -> bool {
        !self.inside[edge.1] && self.rate_of(edge) >= self.floor
    }

    fn take(&mut self, edge: Edge) {
        self.inside[edge.1] = true;
        self.children[edge.0] += 1;
        self.edges.push(edge);
    }

    fn visit(&mut self, from: usize, order: Order) {
        for to in order.neighbours(self.room, from) {
            if self.is_open((from, to)) {
                self.take((from, to));
                self.visit(to, order);
            }
        }
    }

    fn take_widest(&mut self) -> bool {
        let vertices = 0..self.room.vertices();
        let senders = vertices.clone().filter(|from| self.inside[*from]);
        let edges = senders.flat_map(|from| vertices.clone().map(move |to| (from, to)));
        let open = edges.filter(|edge| self.is_open(*edge));
        let Some(edge) = open.max_by_key(|edge| (self.rate_of(*edge), Reverse(*edge))) else { return false };
        self.take(edge);
        true
    }
}

impl Order {
    fn neighbours(self, room: &Room, from: usize) -> Vec<usize> {
        let mut neighbours: Vec<usize> = (0..room.vertices()).filter(|to| room.link(from, *to) > 0).collect();
        match self {
            Order::Index => {}
            Order::IndexReversed => neighbours.reverse(),
            Order::WidestLink => neighbours.sort_by_key(|to| Reverse(room.link(from, *to))),
            Order::BestSender => neighbours.sort_by_key(|to| Reverse(room.out(*to))),
        }
        neighbours
    }
}
