//! When a tenth and nine tenths of the object had come in, and how a run's time is taken apart by that. With several
//! clusters, what counts is what each took in from the others; in one cluster alone, what its nodes took in.

use mobcast_proto::{Duration, Time};
use mobcast_topology::record::Phases;
use mobcast_topology::{ClusterIndex, Topology};

use crate::network::{Network, NodeIndex};

/// Imports are looked at so often: the error of the phases.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Whose imports are counted.
#[derive(Clone, Copy, Debug)]
enum Place {
    Cluster(ClusterIndex),
    Node(NodeIndex),
}

/// What is known of a place.
#[derive(Clone, Copy, Debug)]
struct Import {
    place: Place,
    tenth: Option<Time>,
    nine_tenths: Option<Time>,
}

/// Watches a run.
#[derive(Debug)]
pub(super) struct Imports {
    object_bytes: u64,
    clusters: u32,
    next_look: Time,
    imports: Vec<Import>,
}

impl Imports {
    /// For a broadcast from the first cluster of this network.
    pub(super) fn new(topology: &Topology, object_bytes: u64) -> Imports {
        let occupied = |c: &ClusterIndex| topology.clusters()[c.as_usize()].nodes > 0;
        let clusters = topology.indices().skip(1).filter(occupied).map(Place::Cluster);
        let mut places: Vec<Place> = clusters.collect();
        if places.is_empty() {
            places = (1..topology.nodes() as u32).map(|node| Place::Node(NodeIndex(node))).collect();
        }
        let fresh = |place| Import { place, tenth: None, nine_tenths: None };
        Imports {
            object_bytes,
            clusters: topology.clusters().len() as u32,
            next_look: Time::ZERO,
            imports: places.into_iter().map(fresh).collect(),
        }
    }

    /// Takes note of where the imports stand, if it is time to.
    pub(super) fn look<T>(&mut self, network: &Network<T>) {
        let now = network.now();
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK_EVERY;
        let clusters = self.clusters;
        for import in self.imports.iter_mut().filter(|import| import.nine_tenths.is_none()) {
            let bytes = match import.place {
                Place::Node(node) => network.node_traffic(node).lan_in.payload_bytes,
                Place::Cluster(to) => {
                    let others = (0..clusters).map(ClusterIndex).filter(|from| *from != to);
                    others.map(|from| network.pair_traffic(from, to).payload_bytes).sum()
                }
            };
            if u128::from(bytes) * 10 >= u128::from(self.object_bytes) {
                import.tenth.get_or_insert(now);
            }
            if u128::from(bytes) * 10 >= u128::from(self.object_bytes) * 9 {
                import.nine_tenths = Some(now);
            }
        }
    }

    /// The phases of a run that ended at `end` of its clock, which `began` at a time of the network's; with each node's
    /// time. All zero where the object came too fast to be taken apart.
    pub(super) fn phases(&self, began: Time, end: Time, complete: &[Option<Time>]) -> Phases {
        let latest = |which: fn(&Import) -> Option<Time>| {
            let last_node = self.imports.iter().filter_map(|import| match import.place {
                Place::Node(node) => Some((complete[node.0 as usize]?, import)),
                Place::Cluster(_) => None,
            });
            match last_node.max_by_key(|(at, _)| *at) {
                Some((_, import)) => which(import),
                None => self.imports.iter().map(which).max().flatten(),
            }
        };
        match (latest(|import| import.tenth), latest(|import| import.nine_tenths)) {
            (Some(tenth), Some(nine_tenths)) if tenth < nine_tenths => {
                let [tenth, nine_tenths] = [tenth, nine_tenths].map(|at| at.since(began).as_secs_f64());
                taken_apart(self.object_bytes, [tenth, nine_tenths, end.as_secs_f64()])
            }
            _ => Phases::default(),
        }
    }
}

/// The steady rate holds between a tenth and nine tenths; what the first and last tenth took beyond it was lost.
fn taken_apart(object_bytes: u64, [tenth, nine_tenths, end]: [f64; 3]) -> Phases {
    let a_tenth_steadily = (nine_tenths - tenth) / 8.0;
    Phases {
        start_seconds: tenth - a_tenth_steadily,
        steady_mb_per_s: object_bytes as f64 / 1e6 / (10.0 * a_tenth_steadily),
        tail_seconds: end - nine_tenths - a_tenth_steadily,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phases_add_up_to_the_whole() {
        // 100 MB: 10 MB after 3 s, 90 MB after 11 s (10 MB/s), all after 15 s.
        let phases = taken_apart(100_000_000, [3.0, 11.0, 15.0]);
        assert_eq!(phases, Phases { start_seconds: 2.0, steady_mb_per_s: 10.0, tail_seconds: 3.0 });
        assert_eq!(phases.start_seconds + 100.0 / phases.steady_mb_per_s + phases.tail_seconds, 15.0);
    }
}
