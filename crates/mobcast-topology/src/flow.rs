//! Maximum flow by Dinic's algorithm, for the few dozen vertices of a topology of clusters.

use std::collections::VecDeque;

/// A capacity that never binds; the sum of a thousand of them still fits.
pub(crate) const UNLIMITED: u64 = u64::MAX >> 10;

struct Arc {
    to: usize,
    residual: u64,
}

/// A directed graph with capacities. Each arc's partner of the opposite direction has the next index (xor 1).
pub(crate) struct FlowGraph {
    arcs: Vec<Arc>,
    leaving: Vec<Vec<usize>>,
}

impl FlowGraph {
    pub(crate) fn new(vertices: usize) -> FlowGraph {
        FlowGraph { arcs: Vec::new(), leaving: vec![Vec::new(); vertices] }
    }

    pub(crate) fn arc(&mut self, from: usize, to: usize, capacity: u64) {
        self.leaving[from].push(self.arcs.len());
        self.arcs.push(Arc { to, residual: capacity.min(UNLIMITED) });
        self.leaving[to].push(self.arcs.len());
        self.arcs.push(Arc { to: from, residual: 0 });
    }

    /// The value of a maximum flow; the residual capacities stay in the graph.
    pub(crate) fn maximum(&mut self, source: usize, sink: usize) -> u64 {
        let mut total = 0u64;
        loop {
            let depth = self.depths(source);
            if depth[sink] == usize::MAX {
                return total;
            }
            let mut tried = vec![0; self.leaving.len()];
            loop {
                let pushed = self.push(source, sink, UNLIMITED, &depth, &mut tried);
                if pushed == 0 {
                    break;
                }
                total = total.saturating_add(pushed);
                if total >= UNLIMITED {
                    return UNLIMITED;
                }
            }
        }
    }

    /// After [`FlowGraph::maximum`]: which vertices lie on the source's side of a minimum cut.
    pub(crate) fn source_side(&self, source: usize) -> Vec<bool> {
        self.depths(source).into_iter().map(|depth| depth != usize::MAX).collect()
    }

    fn depths(&self, source: usize) -> Vec<usize> {
        let mut depth = vec![usize::MAX; self.leaving.len()];
        depth[source] = 0;
        let mut open = VecDeque::from([source]);
        while let Some(vertex) = open.pop_front() {
            for arc in self.leaving[vertex].iter().map(|&index| &self.arcs[index]) {
                if arc.residual > 0 && depth[arc.to] == usize::MAX {
                    depth[arc.to] = depth[vertex] + 1;
                    open.push_back(arc.to);
                }
            }
        }
        depth
    }

    fn push(&mut self, from: usize, sink: usize, limit: u64, depth: &[usize], tried: &mut [usize]) -> u64 {
        if from == sink {
            return limit;
        }
        while let Some(&index) = self.leaving[from].get(tried[from]) {
            let Arc { to, residual } = self.arcs[index];
            if residual > 0 && depth[to] == depth[from] + 1 {
                let pushed = self.push(to, sink, limit.min(residual), depth, tried);
                if pushed > 0 {
                    self.arcs[index].residual -= pushed;
                    self.arcs[index ^ 1].residual += pushed;
                    return pushed;
                }
            }
            tried[from] += 1;
        }
        0
    }
}
