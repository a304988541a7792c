//! What the network is like, for strategies that plan for it (the gauge of den Burger and Kielmann, HPDC 2007, section 3.2).

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use mobcast_topology::Topology;
use mobcast_topology::files::TopologyFile;

use crate::Error;

/// A description of the network between clusters.
#[derive(Clone)]
pub struct Gauge(pub(crate) Arc<Topology>);

impl Gauge {
    /// Reads a topology file, as the simulator and the lab take them (`scenarios/topologies/`). Clusters are told apart by their
    /// names.
    pub fn read(path: &Path) -> Result<Gauge, Error> {
        let file = TopologyFile::load(path).map_err(|error| Error::Gauge(error.to_string()))?;
        Ok(Gauge(Arc::new(file.topology)))
    }
}

impl fmt::Debug for Gauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.clusters().iter().map(|cluster| cluster.name.as_str()).collect();
        write!(f, "Gauge(clusters {})", names.join(", "))
    }
}
