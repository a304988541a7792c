//! Links that break, and links that carry nothing for a while, between two clusters or all of one machine. Of those nobody is told: what was sent waits, as
//! TCP repeats it, and goes on when the cut heals; who dials asks again every second.

use mobcast_proto::Duration;
use mobcast_topology::{ClusterIndex, LinkRef};

use super::World;
use crate::network::{FlowId, NodeIndex};

/// A dial that is lost on its way is repeated after this.
pub(super) const DIAL_AGAIN: Duration = Duration::from_secs(1);

impl World {
    /// Nothing passes between two clusters until [`World::heal_clusters`].
    ///
    /// # Panics
    /// If no link leads from one to the other.
    pub fn cut_clusters(&mut self, a: ClusterIndex, b: ClusterIndex) {
        self.cuts.insert((a, b));
        self.cuts.insert((b, a));
        self.set_rates(a, b, [0, 0]);
    }

    /// The links between two clusters carry `rate` bytes per second again, in each direction.
    ///
    /// # Panics
    /// If no link leads from one to the other.
    pub fn heal_clusters(&mut self, a: ClusterIndex, b: ClusterIndex, rates: [u64; 2]) {
        self.cuts.remove(&(a, b));
        self.cuts.remove(&(b, a));
        self.set_rates(a, b, rates);
    }

    fn set_rates(&mut self, a: ClusterIndex, b: ClusterIndex, [out, back]: [u64; 2]) {
        for (from, to, rate) in [(a, b, out), (b, a, back)] {
            self.network.set_rate(LinkRef::Wan { from, to }, Some(rate)).expect("cuts name existing links");
        }
    }

    /// Nothing leaves a machine or reaches it, until [`World::plug_in`]. False if that is so already, or it does not run.
    pub fn unplug(&mut self, index: NodeIndex) -> bool {
        let before = std::mem::replace(&mut self.machines[index.0 as usize].unplugged, true);
        self.network.set_nic(index, Some(0), Some(0));
        !before && self.network.is_running(index)
    }

    /// The machine's card carries `rate` bytes per second again, in each direction.
    pub fn plug_in(&mut self, index: NodeIndex, rate: u64) {
        self.machines[index.0 as usize].unplugged = false;
        self.network.set_nic(index, Some(rate), Some(rate));
    }

    /// Whether nothing passes between two machines.
    pub fn is_cut(&self, from: NodeIndex, to: NodeIndex) -> bool {
        let unplugged = [from, to].into_iter().any(|node| self.machines[node.0 as usize].unplugged);
        unplugged || self.cuts.contains(&(self.network.cluster(from), self.network.cluster(to)))
    }

    /// Every link between two machines breaks, as if something between them had forgotten it; both notice. Returns how
    /// many there were.
    pub fn cut_links(&mut self, a: NodeIndex, b: NodeIndex) -> usize {
        let now = self.network.now();
        let flows: Vec<FlowId> = self.machines[a.0 as usize].links.keys().collect();
        let broken: Vec<FlowId> = flows.into_iter().filter(|flow| self.network.ends(*flow) == (a, b)).collect();
        for &flow in &broken {
            self.network.close(flow);
            self.link_gone(now, a, flow);
        }
        broken.len()
    }
}
