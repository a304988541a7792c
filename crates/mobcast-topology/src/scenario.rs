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

    /// The network as it is at the start, after the changes of time zero: what whoever looks at it then sees.
    pub fn at_start(&self) -> Topology {
        self.phases().next().map_or_else(|| self.topology.clone(), |(_, topology)| topology)
    }

    /// What somebody who has measured the network at the start and knows whether it will change says of it.
    pub fn gauge(&self) -> Topology {
        let mut network = self.at_start();
        network.links_vary = Some(network.links_vary == Some(true) || self.phases().nth(1).is_some());
        network
    }

    /// The network over time: from when on, in nanoseconds, and how it is then. The first phase begins at 0; changes of
    /// one time make one phase. Changes of links that do not exist are passed over.
    pub fn phases(&self) -> impl Iterator<Item = (u64, Topology)> + '_ {
        let mut topology = self.topology.clone();
        let mut rest = self.changes.as_slice();
        let mut start_ns = Some(0);
        std::iter::from_fn(move || {
            let at_ns = start_ns?;
            while let Some((change, later)) = rest.split_first().filter(|(change, _)| change.at_ns <= at_ns) {
                let _ = topology.set_rate(change.link, change.rate_bytes_per_s);
                rest = later;
            }
            start_ns = rest.first().map(|change| change.at_ns);
            Some((at_ns, topology.clone()))
        })
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

    #[test]
    fn a_gauge_says_whether_links_change_later_on() {
        let vary = |at_ns| Scenario::switch(preset::m2_fast(1), &preset::m2_slow(1), at_ns).gauge().links_vary;
        assert_eq!((vary(30), vary(0)), (Some(true), Some(false)));
        assert_eq!(Scenario::steady(preset::m2_fast(1)).gauge().links_vary, Some(false));
    }

    #[test]
    fn phases_begin_where_something_changes() {
        let scenario = Scenario::switch(preset::m2_fast(1), &preset::m2_slow(1), 30);
        let phases: Vec<_> = scenario.phases().collect();
        assert_eq!(phases, [(0, preset::m2_fast(1)), (30, preset::m2_slow(1))]);
        let at_once = Scenario::switch(preset::m2_fast(1), &preset::m2_slow(1), 0);
        assert_eq!(at_once.phases().collect::<Vec<_>>(), [(0, preset::m2_slow(1))]);
    }
}
