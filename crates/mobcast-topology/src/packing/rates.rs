//! A rate for each ordered pair of vertices, row by row: dense, because topologies of clusters are.

/// Rates from each vertex to each other one; zero where there is no link.
#[derive(Clone)]
pub(super) struct Rates {
    vertices: usize,
    rows: Vec<u64>,
}

impl Rates {
    pub(super) fn new(vertices: usize) -> Rates {
        Rates { vertices, rows: vec![0; vertices * vertices] }
    }

    pub(super) fn vertices(&self) -> usize {
        self.vertices
    }

    pub(super) fn get(&self, from: usize, to: usize) -> u64 {
        self.rows[from * self.vertices + to]
    }

    pub(super) fn at(&mut self, from: usize, to: usize) -> &mut u64 {
        &mut self.rows[from * self.vertices + to]
    }

    /// The rates from a vertex to all vertices, in order.
    pub(super) fn row(&self, from: usize) -> &[u64] {
        &self.rows[from * self.vertices..][..self.vertices]
    }

    pub(super) fn row_mut(&mut self, from: usize) -> &mut [u64] {
        &mut self.rows[from * self.vertices..][..self.vertices]
    }

    pub(super) fn copy_from(&mut self, other: &Rates) {
        self.rows.copy_from_slice(&other.rows);
    }

    /// Every pair with a rate above zero, by sender, then receiver.
    pub(super) fn links(&self) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        let pairs = (0..self.vertices).flat_map(|from| (0..self.vertices).map(move |to| (from, to)));
        pairs.map(|(from, to)| (from, to, self.get(from, to))).filter(|(_, _, rate)| *rate > 0)
    }

    /// What all links into a set carry.
    pub(super) fn entering(&self, inside: &[bool]) -> u64 {
        let entering = self.links().filter(|(from, to, _)| inside[*to] && !inside[*from]);
        entering.fold(0u64, |sum, (_, _, rate)| sum.saturating_add(rate))
    }

    /// What all links from a vertex carry.
    pub(super) fn leaving_vertex(&self, vertex: usize) -> u64 {
        self.row(vertex).iter().fold(0u64, |sum, rate| sum.saturating_add(*rate))
    }

    /// What all links to a vertex carry.
    pub(super) fn entering_vertex(&self, vertex: usize) -> u64 {
        (0..self.vertices).fold(0u64, |sum, from| sum.saturating_add(self.get(from, vertex)))
    }
}
