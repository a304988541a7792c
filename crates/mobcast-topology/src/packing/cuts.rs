//! Cuts that part clusters from the root, by maximum flows after Dinic. `crate::flow` does the same for sparse graphs;
//! here thousands of flows are asked for in networks where nearly every pair is linked, most of them only whether they
//! reach a given value, and several sources are merged into one by adding up rows.

use super::UNLIMITED_BYTES_PER_S as UNLIMITED;
use super::rates::Rates;

/// The least maximum flow from the root to another vertex; `UNLIMITED` when nothing limits it.
pub(super) fn least_rate(rates: &Rates, root: usize) -> u64 {
    let (mut flow, mut least) = (Flow::new(rates.vertices()), UNLIMITED);
    let mut rates = rates.clone();
    // A least cut has a first vertex in any order: with all those before it among the sources, that vertex's maximum
    // flow is what enters the cut.
    for sink in (0..rates.vertices()).filter(|vertex| *vertex != root) {
        least = least.min(flow.maximum(&rates, root, sink, least));
        merge(&mut rates, sink, root);
    }
    least
}

/// The maximum flow to `sink` from the root and `source` (which may be the root) together, or `enough` if it is more.
pub(super) fn rate_up_to(rates: Rates, root: usize, source: usize, sink: usize, enough: u64) -> u64 {
    flow_of_two(rates, root, source, sink, enough).0
}

/// A least set around `sink` that keeps it from the root and from `source` (which may be the root), if less than
/// `enough` enters it.
pub(super) fn cut_below(rates: Rates, root: usize, source: usize, sink: usize, enough: u64) -> Option<Vec<bool>> {
    let (rate, flow) = flow_of_two(rates, root, source, sink, enough);
    let is_inside = |(vertex, depth): (usize, &usize)| vertex != source && *depth == UNREACHED;
    (rate < enough).then(|| flow.depth.iter().enumerate().map(is_inside).collect())
}

fn flow_of_two(mut rates: Rates, root: usize, source: usize, sink: usize, enough: u64) -> (u64, Flow) {
    if source != root {
        merge(&mut rates, source, root);
    }
    let mut flow = Flow::new(rates.vertices());
    (flow.maximum(&rates, root, sink, enough), flow)
}

/// Makes one vertex of two: `root` sends what `vertex` sends, and nothing goes to or from `vertex`.
fn merge(rates: &mut Rates, vertex: usize, root: usize) {
    for to in 0..rates.vertices() {
        let sent = std::mem::take(rates.at(vertex, to));
        let rate = rates.at(root, to);
        *rate = rate.saturating_add(sent).min(UNLIMITED);
        *rates.at(to, vertex) = 0;
    }
    *rates.at(root, root) = 0;
}

const UNREACHED: usize = usize::MAX;

/// The work space of a maximum flow.
struct Flow {
    residual: Rates,
    /// Links from the source in the residual network.
    depth: Vec<usize>,
    /// The neighbour that each vertex tries next.
    next: Vec<usize>,
    queue: Vec<usize>,
}

impl Flow {
    fn new(vertices: usize) -> Flow {
        let [depth, next] = [UNREACHED, 0].map(|value| vec![value; vertices]);
        Flow { residual: Rates::new(vertices), depth, next, queue: Vec::with_capacity(vertices) }
    }

    /// A maximum flow, or one of `enough`. If it is less, the vertices with a depth are the source's side of a least
    /// cut.
    fn maximum(&mut self, rates: &Rates, source: usize, sink: usize, enough: u64) -> u64 {
        self.residual.copy_from(rates);
        let mut total = 0;
        while total < enough && self.find_depths(source, sink) {
            self.next.fill(0);
            total += self.push(source, sink, enough - total);
        }
        total
    }

    /// Whether the sink can be reached; vertices beyond it may stay without a depth.
    fn find_depths(&mut self, source: usize, sink: usize) -> bool {
        self.depth.fill(UNREACHED);
        self.depth[source] = 0;
        self.queue.clear();
        self.queue.push(source);
        let mut done = 0;
        while let Some(&from) = self.queue.get(done) {
            done += 1;
            for (to, rate) in self.residual.row(from).iter().enumerate() {
                if *rate > 0 && self.depth[to] == UNREACHED {
                    self.depth[to] = self.depth[from] + 1;
                    self.queue.push(to);
                }
            }
            if self.depth[sink] != UNREACHED {
                return true;
            }
        }
        false
    }

    /// Sends up to `amount` on from a vertex, along links that lead one deeper.
    fn push(&mut self, from: usize, sink: usize, amount: u64) -> u64 {
        if from == sink {
            return amount;
        }
        let mut sent = 0;
        while self.next[from] < self.next.len() {
            let to = self.next[from];
            let residual = self.residual.get(from, to);
            if residual > 0 && self.depth[to] == self.depth[from].wrapping_add(1) {
                let pushed = self.push(to, sink, residual.min(amount - sent));
                *self.residual.at(from, to) -= pushed;
                *self.residual.at(to, from) += pushed;
                sent += pushed;
                if sent == amount {
                    return sent;
                }
            }
            self.next[from] += 1;
        }
        sent
    }
}
