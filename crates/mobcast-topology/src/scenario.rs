//! A topology plus changes over time, as data. Who applies the changes, and how, is left to the simulator and the lab.

use crate::network::{LinkRef, Topology};

/// One capacity set to another value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// When, in nanoseconds from the start of the run.
    pub at_ns: u64,
    /// Which link.
    pub link: LinkRef,
    /// Its capacity from then on, in bytes per second; `None` lifts the limit, zero cuts the link.
    pub rate_bytes_per_s: Option<u64>,
}

/// A topology and what happens to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario {
    /// The network at the start.
    pub topology: Topology,
    /// In the order of their times.
    pub changes: Vec<Change>,
}

impl Scenario {
    /// A network that stays as it is.
    pub fn steady(topology: Topology) -> Scenario {
        Scenario { topology, changes: Vec::new() }
    }

    /// `first` until `at_ns` nanoseconds, then every link as in `second`, which has the same clusters.
    pub fn switch(first: Topology, second: &Topology, at_ns: u64) -> Scenario {
        let changes = links(&first)
            .filter(|link| first.rate_bytes_per_s(*link) != second.rate_bytes_per_s(*link))
            .map(|link| Change { at_ns, link, rate_bytes_per_s: second.rate_bytes_per_s(link) })
            .collect();
        Scenario { topology: first, changes }
    }
}

/// Every shared link of a topology.
fn links(topology: &Topology) -> impl Iterator<Item = LinkRef> + '_ {
    let wan = topology.wan_links().map(|(from, to, _)| LinkRef::Wan { from, to });
    let own = topology.indices().flat_map(|c| [LinkRef::AccessOut(c), LinkRef::AccessIn(c), LinkRef::Fabric(c)]);
    wan.chain(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset;

    #[test]
    fn fast_to_slow_changes_four_links() {
        let scenario = Scenario::switch(preset::m2_fast(1), &preset::m2_slow(1), 30_000_000_000);
        assert_eq!(scenario.changes.len(), 4, "AD and BC, both directions");
        assert!(scenario.changes.iter().all(|c| c.rate_bytes_per_s == Some(800_000)));
    }
}
