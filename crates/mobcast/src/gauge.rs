//! What the network is like, for strategies that plan for it (the gauge of den Burger and Kielmann, HPDC 2007, section 3.2).

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use mobcast_topology::Topology;
use mobcast_topology::files::TopologyFile;

use crate::Error;

/// Where the description of the network between clusters comes from.
#[derive(Clone)]
pub struct Gauge(pub(crate) Kind);

#[derive(Clone)]
pub(crate) enum Kind {
    Known(Arc<Topology>),
    Measured,
}

impl Gauge {
    /// Reads a topology file, as the simulator and the lab take them (`scenarios/topologies/`). Clusters are told apart by their
    /// names.
    pub fn read(path: &Path) -> Result<Gauge, Error> {
        let file = TopologyFile::load(path).map_err(|error| Error::Gauge(error.to_string()))?;
        Ok(Gauge(Kind::Known(Arc::new(file.topology))))
    }

    /// The members measure it, by short transfers between their clusters, once they are there: [`crate::Group::measure`], which
    /// the first broadcast to members who are there calls as well.
    pub fn measure() -> Gauge {
        Gauge(Kind::Measured)
    }

    /// Whether the members measure.
    pub fn measures(&self) -> bool {
        matches!(self.0, Kind::Measured)
    }
}

impl fmt::Debug for Gauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kind::Known(topology) = &self.0 else { return f.write_str("Gauge(measured)") };
        let names: Vec<&str> = topology.clusters().iter().map(|cluster| cluster.name.as_str()).collect();
        write!(f, "Gauge(clusters {})", names.join(", "))
    }
}
