//! How connections and queues of the packet model stood over time, in the forms of ns-2, which plotting tools know: for each change of a
//! connection's window or count of segments sent again, a line as of a traced variable of an agent; for each queue that has anything
//! new, one as of a monitored queue. Looking changes nothing of the run.

use std::collections::BTreeMap;
use std::io::{self, Write};

use mobcast_proto::{Duration, Time};
use mobcast_topology::{ClusterIndex, LinkRef, Topology};

use crate::network::{FlowId, Network, NodeIndex, Place, QueueState};

/// Writes what it sees of a run.
#[derive(Debug)]
pub struct NsTrace<W> {
    every: Duration,
    next_look: Time,
    /// Each with its cluster's.
    nodes: Vec<(String, ClusterIndex)>,
    clusters: Vec<String>,
    /// The window in thousandths of a segment, and segments sent again, as last written.
    connections_seen: BTreeMap<FlowId, (u64, u64)>,
    queues_seen: Vec<QueueState>,
    connections: W,
    queues: W,
    result: io::Result<()>,
}

impl<W: Write> NsTrace<W> {
    /// Looks at a run in this network so often. To `connections` it writes
    /// `SECONDS FROM FLOW TO FLOW cwnd_|nrexmitpack_ VALUE`, windows and what was sent again in segments; to `queues`,
    /// `SECONDS FROM TO BYTES PACKETS ARRIVED LEFT DROPPED BYTES_ARRIVED BYTES_LEFT BYTES_DROPPED`, where the first two numbers are
    /// what waits. What arrived has left, was dropped or waits; what chance or a cut took was dropped, too.
    /// A node's own card lies between the node and its cluster, as `A1 A` and `A A1`; `A wan` is an access link.
    pub fn new(topology: &Topology, every: Duration, connections: W, queues: W) -> NsTrace<W> {
        let clusters = topology.indices().zip(topology.clusters());
        let nodes = clusters.flat_map(|(i, c)| (1..=c.nodes).map(move |number| (format!("{}{number}", c.name), i)));
        NsTrace {
            every,
            next_look: Time::ZERO,
            nodes: nodes.collect(),
            clusters: topology.clusters().iter().map(|cluster| cluster.name.clone()).collect(),
            connections_seen: BTreeMap::new(),
            queues_seen: Vec::new(),
            connections,
            queues,
            result: Ok(()),
        }
    }

    /// Takes note of how things stand, if it is time to.
    pub fn look<T>(&mut self, network: &Network<T>) {
        if network.now() < self.next_look || self.result.is_err() {
            return;
        }
        self.next_look = network.now() + self.every;
        self.result = self.write(network);
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// The first one that writing gave.
    pub fn finish(mut self) -> io::Result<()> {
        self.result?;
        self.connections.flush()?;
        self.queues.flush()
    }

    fn write<T>(&mut self, network: &Network<T>) -> io::Result<()> {
        let seconds = network.now().as_secs_f64();
        for state in network.connections() {
            let seen = ((state.window_segments * 1e3) as u64, state.counters.resent);
            let before = self.connections_seen.insert(state.flow, seen);
            let name = |node: NodeIndex| &self.nodes[node.0 as usize].0;
            let (from, to, flow) = (name(state.from), name(state.to), state.flow.0);
            let connection = format!("{seconds:.5} {from} {flow} {to} {flow}");
            if before.is_none_or(|(window, _)| window != seen.0) {
                writeln!(self.connections, "{connection} cwnd_ {:.3}", state.window_segments)?;
            }
            if before.is_none_or(|(_, resent)| resent != seen.1) {
                writeln!(self.connections, "{connection} nrexmitpack_ {}", state.counters.resent)?;
            }
        }
        let queues = network.queues();
        for (i, queue) in queues.iter().enumerate() {
            if self.queues_seen.get(i).is_some_and(|before| before == queue) {
                continue;
            }
            let (from, to) = self.ends(queue.place);
            let ((waiting, waiting_bytes), counters) = (queue.waiting, queue.counters);
            let (left, bytes_left) = (counters.packets - waiting, counters.bytes - waiting_bytes);
            let (dropped, bytes_dropped) = (counters.dropped + counters.lost, counters.gone_bytes);
            let (arrived, bytes_arrived) = (counters.packets + dropped, counters.bytes + bytes_dropped);
            let counts = format!("{arrived} {left} {dropped} {bytes_arrived} {bytes_left} {bytes_dropped}");
            writeln!(self.queues, "{seconds:.5} {from} {to} {waiting_bytes} {waiting} {counts}")?;
        }
        self.queues_seen = queues;
        Ok(())
    }

    fn ends(&self, place: Place) -> (String, String) {
        let cluster = |cluster: ClusterIndex| self.clusters[cluster.as_usize()].clone();
        let wan = || "wan".to_owned();
        match place {
            Place::Shared(LinkRef::Wan { from, to }) => (cluster(from), cluster(to)),
            Place::Shared(LinkRef::AccessOut(at)) => (cluster(at), wan()),
            Place::Shared(LinkRef::AccessIn(at)) => (wan(), cluster(at)),
            Place::Shared(LinkRef::Fabric(at)) => (cluster(at), cluster(at)),
            Place::Card { node: at, second, out } => {
                let (name, site) = &self.nodes[at.0 as usize];
                let beyond = if second { wan() } else { cluster(*site) };
                if out { (name.clone(), beyond) } else { (beyond, name.clone()) }
            }
        }
    }
}
