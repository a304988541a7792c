//! The measurement of the network between a group's clusters (the gauge that measures), at the coordinator: who measures what
//! when, and what network comes of it. How one link is measured is [`crate::flow::probe`]'s; carrying orders to members and
//! reports back is the coordinator's.
//!
//! Each cluster has a representative, not the root where it has company. In the first round, one pair of nodes in each cluster
//! measures the cards; then, in about as many rounds as there are clusters, each cluster measures one other at a time, and is measured
//! by another one: no two probes share a card or a link in the same direction, and none goes against another one. A pair that does
//! not come to a result is tried again by other nodes, a few times.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mobcast_topology::{Cluster, ClusterIndex, Topology, WanLink};

use crate::strategy::plan::Order;
use crate::time::{Duration, Time};
use crate::units::NodeId;
use crate::wire::codec::{DecodeError, Reader, Writer};

/// A pair of nodes that has no result after this is given up: longer than the asking one tries.
const ATTEMPT_PATIENCE: Duration = Duration::from_secs(10);
/// Attempts for a pair of clusters, by other nodes each time where there are others.
const TRIES: u32 = 3;
/// The whole may take so long, and as much again for each round: twice what a round takes with slow links.
const PATIENCE: Duration = Duration::from_secs(30);
const PATIENCE_PER_ROUND: Duration = Duration::from_secs(8);

/// What a node does in a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeRole {
    /// It asks for filler, and measures how fast that comes.
    Ask,
    /// It gives filler to the other one.
    Serve,
}

/// A node's part in a probe, as the coordinator tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeOrder {
    /// The probe: each has its own.
    pub number: u32,
    /// The other node.
    pub peer: NodeId,
    /// What this one does.
    pub role: ProbeRole,
}

impl ProbeOrder {
    /// Writes the order.
    pub fn write(&self, w: &mut Writer) {
        w.u32(self.number).node(self.peer).u8(match self.role {
            ProbeRole::Ask => 0,
            ProbeRole::Serve => 1,
        });
    }

    /// Reads what [`ProbeOrder::write`] wrote.
    pub fn read(r: &mut Reader<'_>) -> Result<ProbeOrder, DecodeError> {
        let (number, peer) = (r.u32()?, r.node()?);
        let role = match r.u8()? {
            0 => ProbeRole::Ask,
            1 => ProbeRole::Serve,
            value => return Err(DecodeError::Unknown { what: "part in a probe", value: u64::from(value) }),
        };
        Ok(ProbeOrder { number, peer, role })
    }
}

/// What a probe has measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// Payload that arrived, bytes per second.
    pub rate_bytes_per_s: u64,
    /// The shortest round-trip time.
    pub rtt: Duration,
}

/// What became of a probe, as the node that asked reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeResult {
    /// Which probe.
    pub number: u32,
    /// Filler that arrived.
    pub bytes: u64,
    /// What was measured; none if the other node did not answer.
    pub reading: Option<Reading>,
}

impl ProbeResult {
    /// Writes the result.
    pub fn write(&self, w: &mut Writer) {
        w.u32(self.number).varint(self.bytes).option(self.reading.as_ref(), |w, reading| {
            w.varint(reading.rate_bytes_per_s).varint(reading.rtt.as_micros());
        });
    }

    /// Reads what [`ProbeResult::write`] wrote.
    pub fn read(r: &mut Reader<'_>) -> Result<ProbeResult, DecodeError> {
        let reading =
            |r: &mut Reader<'_>| Ok(Reading { rate_bytes_per_s: r.varint()?, rtt: Duration::from_micros(r.varint()?) });
        Ok(ProbeResult { number: r.u32()?, bytes: r.varint()?, reading: r.option(reading)? })
    }
}

/// What came of a measurement, and what it cost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measurement {
    /// The network, in payload bytes per second; none if there was no way to some cluster.
    pub network: Option<Arc<Topology>>,
    /// How long it took.
    pub took: Duration,
    /// Filler that was sent for it.
    pub bytes: u64,
    /// Probes, repeated ones included.
    pub probes: u32,
    /// What could not be measured, in words.
    pub problems: Vec<String>,
}

/// A measurement under way.
#[derive(Clone, Debug)]
pub struct Gauge {
    began: Time,
    deadline: Time,
    /// By name, in the order of plans.
    clusters: Vec<String>,
    pairs: Vec<Pair>,
    round: usize,
    numbers: u32,
    bytes: u64,
    /// In how many attempts that failed each node was, since its last success: others are tried first.
    failures: BTreeMap<NodeId, u32>,
}

/// A cluster that asks another one, or itself.
#[derive(Clone, Debug)]
struct Pair {
    round: usize,
    asks: usize,
    serves: usize,
    tries: u32,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Waiting,
    Running(Attempt),
    Done(Option<Reading>),
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    number: u32,
    asks: NodeId,
    serves: NodeId,
    since: Time,
    /// Whether the one that serves connects to the other one, which could not connect to it.
    turned: bool,
}

// ---- Making and reading ----

impl Gauge {
    /// A measurement of these clusters.
    pub fn new(now: Time, order: &Order, numbers: u32) -> Gauge {
        let count = order.clusters().len();
        let mut pairs = Vec::new();
        let pair = |round, asks, serves| Pair { round, asks, serves, tries: 0, state: State::Waiting };
        let with_company = (0..count).filter(|&cluster| order.clusters()[cluster].nodes.len() > 1);
        pairs.extend(with_company.map(|cluster| pair(0, cluster, cluster)));
        let mut rounds = 0;
        for distance in 1..count {
            // Those who are opposite each other measure one after the other: acknowledgements that wait behind payload slow TCP down.
            let first = if 2 * distance == count { distance } else { count };
            for turn in [0..first, first..count].into_iter().filter(|turn| !turn.is_empty()) {
                rounds += 1;
                pairs.extend(turn.map(|asks| pair(rounds, asks, (asks + distance) % count)));
            }
        }
        Gauge {
            began: now,
            deadline: now + PATIENCE + PATIENCE_PER_ROUND.times(count as u64),
            clusters: order.clusters().iter().map(|cluster| cluster.name.clone()).collect(),
            pairs,
            round: 0,
            numbers,
            bytes: 0,
            failures: BTreeMap::new(),
        }
    }

    /// Numbers of probes that are taken.
    pub fn numbers(&self) -> u32 {
        self.numbers
    }

    /// When [`Gauge::advance`] wants to be called.
    pub fn timeout(&self) -> Time {
        let waits = |pair: &Pair| pair.round == self.round && matches!(pair.state, State::Waiting);
        if self.pairs.iter().any(waits) {
            return Time::ZERO;
        }
        let running = self.attempts().map(|attempt| attempt.since + ATTEMPT_PATIENCE).min();
        running.map_or(Time::ZERO, |at| at.min(self.deadline))
    }

    /// Whether there is nothing left to measure.
    pub fn is_over(&self) -> bool {
        self.pairs.iter().all(|pair| matches!(pair.state, State::Done(_)))
    }

    /// What each node that takes part has to do.
    pub fn orders(&self) -> BTreeMap<NodeId, Vec<ProbeOrder>> {
        let mut orders: BTreeMap<NodeId, Vec<ProbeOrder>> = BTreeMap::new();
        for &Attempt { number, asks, serves, .. } in self.attempts() {
            orders.entry(asks).or_default().push(ProbeOrder { number, peer: serves, role: ProbeRole::Ask });
            orders.entry(serves).or_default().push(ProbeOrder { number, peer: asks, role: ProbeRole::Serve });
        }
        orders
    }

    /// Pairs of nodes that need a link, who connects first.
    pub fn dials(&self) -> impl Iterator<Item = (NodeId, NodeId)> + '_ {
        self.attempts().map(|attempt| match attempt.turned {
            true => (attempt.serves, attempt.asks),
            false => (attempt.asks, attempt.serves),
        })
    }

    fn attempts(&self) -> impl Iterator<Item = &Attempt> {
        self.pairs.iter().filter_map(|pair| match &pair.state {
            State::Running(attempt) => Some(attempt),
            _ => None,
        })
    }
}

// ---- Inputs ----

impl Gauge {
    /// A node reports; false if it was not asked.
    pub fn handle_result(&mut self, from: NodeId, result: ProbeResult) -> bool {
        let ours = |pair: &&mut Pair| match pair.state {
            State::Running(attempt) => (attempt.number, attempt.asks) == (result.number, from),
            _ => false,
        };
        let Some(pair) = self.pairs.iter_mut().find(ours) else { return false };
        self.bytes = self.bytes.saturating_add(result.bytes);
        let ends = pair.give_up();
        if let Some(reading) = result.reading {
            pair.state = State::Done(Some(reading));
            self.failures.retain(|node, _| !ends.contains(node));
        } else {
            self.blame(ends);
        }
        true
    }

    /// A node is gone.
    pub fn handle_lost(&mut self, node: NodeId) {
        self.fail_where(|attempt| attempt.asks == node || attempt.serves == node);
    }

    /// A node cannot connect to another one.
    pub fn handle_unreachable(&mut self, from: NodeId, to: NodeId) {
        let ends = BTreeSet::from([from, to]);
        self.fail_where(|attempt| BTreeSet::from([attempt.asks, attempt.serves]) == ends);
    }

    fn fail_where(&mut self, is_hit: impl Fn(&Attempt) -> bool) {
        let is_hit = |pair: &&mut Pair| matches!(&pair.state, State::Running(attempt) if is_hit(attempt));
        let blamed: Vec<NodeId> = self.pairs.iter_mut().filter(is_hit).flat_map(Pair::give_up).collect();
        self.blame(blamed);
    }

    fn blame(&mut self, nodes: Vec<NodeId>) {
        nodes.into_iter().for_each(|node| *self.failures.entry(node).or_default() += 1);
    }

    /// Gives up what has lasted too long, and begins what can begin. True if somebody's orders have changed.
    pub fn advance(&mut self, now: Time, order: &Order) -> bool {
        self.fail_where(|attempt| now.since(attempt.since) >= ATTEMPT_PATIENCE);
        let is_late = now >= self.deadline;
        for pair in self.pairs.iter_mut().filter(|pair| is_late && !matches!(pair.state, State::Done(_))) {
            pair.state = State::Done(None);
        }
        let mut changed = is_late || self.is_over();
        while !self.is_over() {
            for at in 0..self.pairs.len() {
                if self.pairs[at].round == self.round && matches!(self.pairs[at].state, State::Waiting) {
                    self.begin(now, at, order);
                    changed = true;
                }
            }
            if self.attempts().next().is_some() {
                break;
            }
            self.round += 1;
            changed = true;
        }
        changed
    }

    /// Has a pair of clusters measured by the nodes whose turn it is.
    fn begin(&mut self, now: Time, at: usize, order: &Order) {
        let pair = &self.pairs[at];
        let asks = self.candidates(pair.asks, order).first().copied();
        let serves = self.candidates(pair.serves, order).into_iter().find(|&node| Some(node) != asks);
        let pair = &mut self.pairs[at];
        pair.state = match (asks, serves) {
            (Some(asks), Some(serves)) if pair.tries < TRIES => {
                pair.tries += 1;
                let number = self.numbers;
                self.numbers = self.numbers.wrapping_add(1);
                State::Running(Attempt { number, asks, serves, since: now, turned: pair.tries.is_multiple_of(2) })
            }
            _ => State::Done(None),
        };
    }

    /// The nodes of a cluster, those first who should speak for it: who has failed least, and not the root, who has enough to do.
    fn candidates(&self, cluster: usize, order: &Order) -> Vec<NodeId> {
        let cluster = order.clusters().iter().find(|other| other.name == self.clusters[cluster]);
        let mut nodes = cluster.map(|cluster| cluster.nodes.clone()).unwrap_or_default();
        nodes.sort_by_key(|node| (self.failures.get(node).copied(), *node == order.node(0)));
        nodes
    }
}

impl Pair {
    /// The attempt has ended. Returns who was to make it.
    fn give_up(&mut self) -> Vec<NodeId> {
        match std::mem::replace(&mut self.state, State::Waiting) {
            State::Running(attempt) => vec![attempt.asks, attempt.serves],
            _ => Vec::new(),
        }
    }
}

// ---- The end ----

impl Gauge {
    /// What came of it, with the nodes that there are.
    pub fn conclude(&self, now: Time, order: &Order) -> Measurement {
        let is_missing = |pair: &&Pair| matches!(pair.state, State::Done(None));
        let problems: Vec<String> = self.pairs.iter().filter(is_missing).map(|pair| self.in_words(pair)).collect();
        let network = self.network(order);
        let is_whole = reaches_all(&network);
        Measurement {
            network: is_whole.then(|| Arc::new(network)),
            took: now.since(self.began),
            bytes: self.bytes,
            probes: self.pairs.iter().map(|pair| pair.tries).sum(),
            problems,
        }
    }

    fn in_words(&self, pair: &Pair) -> String {
        let (asks, serves) = (&self.clusters[pair.asks], &self.clusters[pair.serves]);
        match pair.asks == pair.serves {
            true => format!("within {asks}: no answer in {} tries", pair.tries),
            false => format!("from {serves} to {asks}: no answer in {} tries", pair.tries),
        }
    }

    /// What was measured, by who asked and who served.
    fn readings(&self) -> BTreeMap<(usize, usize), Reading> {
        let reading = |pair: &Pair| match pair.state {
            State::Done(reading) => Some(((pair.asks, pair.serves), reading?)),
            _ => None,
        };
        self.pairs.iter().filter_map(reading).collect()
    }

    fn network(&self, order: &Order) -> Topology {
        let mut network = Topology::new();
        let count = self.clusters.len();
        let readings = self.readings();
        let read = |asks: usize, serves: usize| readings.get(&(asks, serves)).copied();
        // Of a node without company nobody knows what its card carries: as much as the fastest of others.
        let fastest = (0..count).filter_map(|c| read(c, c)).map(|reading| reading.rate_bytes_per_s).max();
        for (at, name) in self.clusters.iter().enumerate() {
            let nodes = order.clusters().iter().find(|cluster| cluster.name == *name).map_or(0, |c| c.nodes.len());
            let mut cluster = Cluster::new(name.clone(), nodes as u32);
            let local = read(at, at);
            if let Some(reading) = local {
                cluster = cluster.with_lan_delay(reading.rtt.0 / 2);
            }
            let card = local.map(|reading| reading.rate_bytes_per_s).or(fastest);
            // It carries at least what a link to another cluster was seen to carry.
            let links = (0..count).flat_map(|other| [read(at, other), read(other, at)]);
            let most = links.flatten().map(|reading| reading.rate_bytes_per_s).max();
            if let Some(rate) = card.map(|rate| rate.max(most.unwrap_or(0))) {
                cluster = cluster.with_nic(rate);
            }
            let added = network.add_cluster(cluster);
            debug_assert!(added.is_ok(), "an order has no two clusters of one name");
        }
        let index = |at: usize| ClusterIndex(at as u32);
        for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
            if let Some(reading) = read(to, from).filter(|_| from != to) {
                let link = WanLink::new(reading.rate_bytes_per_s.max(1), reading.rtt.0 / 2);
                let linked = network.link(index(from), index(to), link);
                debug_assert!(linked.is_ok(), "both clusters were just added");
            }
        }
        network
    }
}

/// Whether the root's cluster, the first one, has a way to every other one that still has nodes.
fn reaches_all(network: &Topology) -> bool {
    let mut reached = BTreeSet::from([ClusterIndex(0)]);
    let mut next = vec![ClusterIndex(0)];
    while let Some(from) = next.pop() {
        next.extend(network.indices().filter(|&to| network.wan(from, to).is_some() && reached.insert(to)));
    }
    network.indices().zip(network.clusters()).all(|(index, cluster)| cluster.nodes == 0 || reached.contains(&index))
}

#[cfg(test)]
mod tests;
