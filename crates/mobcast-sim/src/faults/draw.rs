//! What is drawn from a seed: sizes that keep a run short, and faults at the times at which a transfer of that size is
//! probably under way.

use std::collections::BTreeSet;

use mobcast_proto::content::announcement::WHOLE_BYTES_MAX;
use mobcast_proto::limits::{OPEN_PIECES_BYTES_MAX, SUCCESSORS};
use mobcast_proto::random::{Random, mix2};
use mobcast_proto::strategy::STRATEGIES;
use mobcast_proto::{Duration, Time};
use mobcast_topology::{Cluster, ClusterIndex, LinkRef, Topology, WanLink};

use super::plan::{Fault, Plan, Planned, Timed};
use super::verdict::STANDS_AFTER;
use crate::network::Stop;
use crate::world::clock::Clock;
use crate::world::mischief::MISCHIEFS;

const MB: u64 = 1_000_000;
/// Most machines at the start.
const NODES_MAX: usize = 40;
/// Most clusters.
const CLUSTERS_MAX: usize = 6;
/// Nodes are there and have their places within this.
const JOINING: Duration = Duration::from_millis(600);
/// Interruptions of this length at most are not noticed, or do no harm.
const SHORT_MS_MAX: usize = 8_000;
/// Long ones begin where a silent peer is given up.
const LONG_MS_MIN: usize = 10_000;
const LONG_MS_MAX: usize = 25_000;
/// Stirs the seed for what is drawn beside the rest.
const VARIETY: u64 = 0x6f74_6865_7277_6973;
/// Pieces of an object that has more than may be open at a node.
const LARGE_PIECE_BYTES: u32 = 1 << 20;
/// Clocks run this much fast or slow at most, in millionths.
const CLOCK_PPM_MAX: usize = 100;

/// What follows from a seed.
pub(super) fn plan(seed: u64) -> Plan {
    let mut random = Random::new(seed);
    let topology = topology(&mut random);
    let nodes = topology.nodes() as u32;
    let broadcasts = broadcasts(&mut random, nodes);
    let mut plan = Plan {
        seed,
        topology,
        broadcasts,
        malicious: None,
        clocks: Vec::new(),
        slow_disks: Vec::new(),
        faults: Vec::new(),
    };
    if nodes > 3 && random.below(5) == 0 {
        let node = random.below(nodes as usize) as u32;
        let mischief = MISCHIEFS[random.below(MISCHIEFS.len())];
        // What a malicious coordinator or root can do is another question (docs/security.md): it is none of the first
        // successors.
        let honest = node <= SUCCESSORS as u32 || plan.broadcasts.iter().any(|planned| planned.root == node);
        plan.malicious = (!honest).then_some((node, mischief));
    }
    if random.below(2) == 0 {
        plan.clocks = (0..nodes).map(|_| clock(&mut random)).collect();
    }
    if random.below(5) == 0 {
        let node = random.below(nodes as usize) as u32;
        plan.slow_disks.push((node, Duration::from_millis(1 + random.below(30) as u64)));
    }
    let horizon = JOINING + expected(&plan).times(5).min(Duration::from_secs(60));
    let mut faults = Faults { random, nodes, horizon_ms: (horizon.as_micros() / 1_000) as usize, list: Vec::new() };
    faults.draw(&plan);
    let mut list = faults.list;
    list.sort_by_key(|(at, _)| *at);
    plan.faults = list.into_iter().zip(0..).map(|((at, fault), number)| Timed { number, at, fault }).collect();
    vary(&mut plan);
    plan
}

/// What is drawn beside all that, from numbers of its own, so that the rest of a plan does not depend on it: other strategies, one
/// object in a frame or with more than may be open, and now and then nothing that goes wrong but what a successor has to bear alone.
fn vary(plan: &mut Plan) {
    let random = &mut Random::new(mix2(plan.seed, VARIETY));
    for planned in &mut plan.broadcasts {
        let strategy = random.below(STRATEGIES.len());
        if random.below(2) == 0 {
            planned.strategy = STRATEGIES[strategy].name;
        }
    }
    let chosen = random.below(plan.broadcasts.len());
    let planned = &mut plan.broadcasts[chosen];
    match random.below(40) {
        0..=3 => {
            let bytes_max = WHOLE_BYTES_MAX.min(u64::from(planned.piece_size));
            (planned.bytes, planned.whole) = (1 + random.below(bytes_max as usize) as u64, true);
        }
        4 => {
            planned.piece_size = LARGE_PIECE_BYTES;
            planned.bytes = OPEN_PIECES_BYTES_MAX + random.below(OPEN_PIECES_BYTES_MAX as usize / 2) as u64;
            planned.whole = false;
        }
        _ => {}
    }
    if random.below(12) == 0 {
        late_death_of_the_coordinator(plan, random);
    }
    wholes_wait_for_the_group(plan, random);
}

/// A frame is passed on only to who is there already; later ones ask for pieces. A root that stops early begins when it did.
fn wholes_wait_for_the_group(plan: &mut Plan, random: &mut Random) {
    for planned in plan.broadcasts.iter_mut().filter(|planned| planned.whole && planned.at < STANDS_AFTER) {
        let at = STANDS_AFTER + Duration::from_millis(random.below(500) as u64);
        let stops =
            |timed: &Timed| timed.at <= at && matches!(timed.fault, Fault::Stop(node, _) if node == planned.root);
        if !plan.faults.iter().any(stops) {
            planned.at = at;
        }
    }
}

/// The coordinator dies in the middle of a broadcast of a group that stands, and links between clusters change: no more goes wrong.
fn late_death_of_the_coordinator(plan: &mut Plan, random: &mut Random) {
    plan.malicious = None;
    plan.slow_disks.clear();
    plan.faults.retain(|timed| matches!(timed.fault, Fault::Rate(..) | Fault::Loss(..)));
    let at = STANDS_AFTER + Duration::from_millis(1 + random.below(500) as u64);
    let nodes = plan.nodes() as usize;
    plan.broadcasts[0].at = at;
    for planned in plan.broadcasts.iter_mut().filter(|planned| planned.root == 0 && nodes > 1) {
        planned.root = 1 + random.below(nodes - 1) as u32;
    }
    let middle = (expected(plan).as_micros() / 1_000).clamp(100, 10_000) as usize;
    let stop = if random.below(2) == 0 { Stop::Silent } else { Stop::Reset };
    let number = plan.faults.iter().map(|timed| timed.number + 1).max().unwrap_or(0);
    let at = at + Duration::from_millis(random.below(2 * middle) as u64);
    plan.faults.push(Timed { number, at, fault: Fault::Stop(0, stop) });
    plan.faults.sort_by_key(|timed| timed.at);
}

fn clock(random: &mut Random) -> Clock {
    let ahead = match random.below(3) {
        0 => Duration::ZERO,
        _ => Duration::from_millis(random.below(10_000_000) as u64),
    };
    Clock { ahead, fast_ppm: random.below(2 * CLOCK_PPM_MAX + 1) as i32 - CLOCK_PPM_MAX as i32 }
}

fn topology(random: &mut Random) -> Topology {
    let nodes = match random.below(8) {
        0 => 2 + random.below(5),
        1 => 24 + random.below(NODES_MAX - 23),
        _ => 7 + random.below(17),
    };
    let clusters = 1 + random.below(CLUSTERS_MAX.min(nodes));
    let mut sizes = vec![1u32; clusters];
    (clusters..nodes).for_each(|_| sizes[random.below(clusters)] += 1);
    let mut topology = Topology::new();
    for (i, nodes) in sizes.into_iter().enumerate() {
        let nic = (5 + random.below(100)) as u64 * MB;
        topology.add_cluster(Cluster::new(format!("c{i}"), nodes).with_nic(nic)).expect("names are unique");
    }
    for a in 0..clusters as u32 {
        for b in a + 1..clusters as u32 {
            let rate = (1 + random.below(20)) as u64 * MB / 2;
            let one_way_delay_ns = (1 + random.below(60)) as u64 * 1_000_000;
            let link = WanLink::new(rate, one_way_delay_ns);
            topology.link_both(ClusterIndex(a), ClusterIndex(b), link).expect("clusters exist");
        }
    }
    topology
}

fn broadcasts(random: &mut Random, nodes: u32) -> Vec<Planned> {
    let count = if random.below(5) == 0 { 2 + random.below(2) } else { 1 };
    let mut planned = Vec::new();
    for i in 0..count {
        let root = if random.below(10) < 6 { 0 } else { random.below(nodes as usize) as u32 };
        let at = if i == 0 { Time::ZERO } else { Time(random.below(3_000) as u64 * 1_000_000) };
        let strategy = STRATEGIES[0].name;
        let piece_size = (16 << 10) << [0, 0, 0, 1, 1, 2][random.below(6)];
        let pieces = match random.below(10) {
            0 => 1 + random.below(16),
            _ => 60 + random.below(240) / count,
        };
        let bytes = (pieces as u64 - 1) * u64::from(piece_size) + 1 + random.below(piece_size as usize) as u64;
        let whole = random.below(2) == 0 && bytes <= WHOLE_BYTES_MAX.min(u64::from(piece_size));
        planned.push(Planned { root, at, bytes, piece_size, strategy, whole });
    }
    planned
}

/// About what the transfers take without faults: each cluster imports over all its links, and every card passes on what
/// it gets.
fn expected(plan: &Plan) -> Duration {
    let bytes: u64 = plan.broadcasts.iter().map(|planned| planned.bytes).sum();
    let imports = |to: ClusterIndex| -> u64 {
        let links = plan.topology.wan_links().filter(|(_, b, _)| *b == to);
        links.filter_map(|(_, _, link)| link.rate_bytes_per_s).sum()
    };
    let cards = plan.topology.clusters().iter().filter_map(|cluster| cluster.nic_in_bytes_per_s).min();
    let wan = plan.topology.indices().map(imports).filter(|rate| *rate > 0).min();
    let rate = wan.into_iter().chain(cards).min().unwrap_or(MB);
    Duration::for_bytes(bytes, rate)
}

struct Faults {
    random: Random,
    nodes: u32,
    horizon_ms: usize,
    list: Vec<(Time, Fault)>,
}

impl Faults {
    fn when(&mut self) -> Time {
        // Most of them early: what comes first makes what follows later.
        let within = if self.random.below(3) == 0 { self.horizon_ms } else { self.horizon_ms / 3 };
        Time(self.random.below(within.max(1)) as u64 * 1_000_000)
    }

    fn node(&mut self) -> u32 {
        self.random.below(self.nodes as usize) as u32
    }

    /// Now and then longer than a silent peer is borne.
    fn interruption(&mut self) -> Duration {
        let ms = match self.random.below(6) {
            0 => LONG_MS_MIN + self.random.below(LONG_MS_MAX - LONG_MS_MIN),
            1 | 2 => 50 + self.random.below(1_000),
            _ => 200 + self.random.below(SHORT_MS_MAX - 200),
        };
        Duration::from_millis(ms as u64)
    }

    fn push(&mut self, at: Time, fault: Fault) {
        self.list.push((at, fault));
    }

    fn draw(&mut self, plan: &Plan) {
        let clusters = plan.topology.clusters().len();
        for _ in 0..self.random.below(4) {
            let (at, cluster) = (self.when(), ClusterIndex(self.random.below(clusters) as u32));
            self.push(at, Fault::Join(cluster));
        }
        self.stops(plan);
        for _ in 0..self.random.below(3) {
            let (at, node, time) = (self.when(), self.node(), self.interruption());
            self.push(at, Fault::Pause(node, time));
        }
        for _ in 0..self.random.below(2) {
            let (at, node, time) = (self.when(), self.node(), self.interruption());
            self.push(at, Fault::StallDisk(node, time));
        }
        for _ in 0..self.random.below(3) {
            let (at, a, b) = (self.when(), self.node(), self.node());
            self.push(at, Fault::Break(a, b));
        }
        if self.random.below(4) == 0 {
            let (at, node, time) = (self.when(), self.node(), self.interruption());
            self.push(at, Fault::Unplug(node, time));
        }
        if clusters > 1 {
            self.between_clusters(plan);
        }
    }

    fn stops(&mut self, plan: &Plan) {
        let mut dead: BTreeSet<u32> = BTreeSet::new();
        for _ in 0..self.random.below(4) {
            // The coordinator more often than others.
            let node = if self.random.below(3) == 0 { 0 } else { self.node() };
            if dead.len() as u32 + 2 > self.nodes || !dead.insert(node) {
                continue;
            }
            let stop = if self.random.below(2) == 0 { Stop::Silent } else { Stop::Reset };
            let mut at = self.when();
            // A root is soon rid of what it has.
            if plan.broadcasts.iter().any(|planned| planned.root == node) && self.random.below(2) == 0 {
                at = Time(at.0 / 4);
            }
            self.push(at, Fault::Stop(node, stop));
            if node != 0 && self.random.below(2) == 0 {
                let pause = Duration::from_millis(100 + self.random.below(15_000) as u64);
                self.push(at + pause, Fault::Restart(node));
            }
        }
    }

    fn between_clusters(&mut self, plan: &Plan) {
        let links: Vec<(ClusterIndex, ClusterIndex)> = plan.topology.wan_links().map(|(a, b, _)| (a, b)).collect();
        let pair = |random: &mut Random| links[random.below(links.len())];
        for _ in 0..self.random.below(5) {
            let (at, (from, to)) = (self.when(), pair(&mut self.random));
            let rate = (2 + self.random.below(40)) as u64 * MB / 10;
            self.push(at, Fault::Rate(LinkRef::Wan { from, to }, rate));
        }
        for _ in 0..self.random.below(3) {
            let (at, (a, b)) = (self.when(), pair(&mut self.random));
            let permille = [5, 20, 50, 100, 200][self.random.below(5)];
            let time = Duration::from_millis(200 + self.random.below(20_000) as u64);
            self.push(at, Fault::Loss(a, b, permille, time));
        }
        for _ in 0..self.random.below(3) {
            let (at, (a, b), time) = (self.when(), pair(&mut self.random), self.interruption());
            self.push(at, Fault::Cut(a, b, time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::mischief::Mischief;

    #[test]
    fn seeds_are_various() {
        let plans: Vec<Plan> = (0..500).map(plan).collect();
        let strategies: BTreeSet<&str> =
            plans.iter().flat_map(|plan| &plan.broadcasts).map(|planned| planned.strategy).collect();
        assert_eq!(strategies.len(), STRATEGIES.len(), "{strategies:?}");
        let count = |of: &dyn Fn(&Plan) -> bool| plans.iter().filter(|plan| of(plan)).count();
        let whole = count(&|plan| plan.broadcasts.iter().any(|planned| planned.whole));
        let large = count(&|plan| plan.broadcasts.iter().any(|planned| planned.bytes >= OPEN_PIECES_BYTES_MAX));
        let mixed =
            count(&|plan| plan.broadcasts.iter().any(|planned| planned.strategy != plan.broadcasts[0].strategy));
        let alone = count(&|plan| {
            let mild = |fault: &Fault| matches!(fault, Fault::Rate(..) | Fault::Loss(..) | Fault::Stop(0, _));
            let late = |timed: &Timed| {
                mild(&timed.fault) && (timed.at > STANDS_AFTER || !matches!(timed.fault, Fault::Stop(..)))
            };
            plan.malicious.is_none() && plan.stopped().contains(&0) && plan.faults.iter().all(late)
        });
        assert!(whole >= 30 && large >= 5 && mixed >= 30 && alone >= 25, "{whole}, {large}, {mixed}, {alone}");
        let lies = |mischief: Mischief| count(&|plan| plan.malicious.is_some_and(|(_, own)| own == mischief));
        assert!(MISCHIEFS.map(lies).iter().all(|&plans| plans >= 4), "{:?}", MISCHIEFS.map(lies));
    }

    #[test]
    fn every_fault_is_in_many_plans() {
        let kinds: [fn(&Fault) -> bool; 10] = [
            |fault| matches!(fault, Fault::Join(_)),
            |fault| matches!(fault, Fault::Stop(..)),
            |fault| matches!(fault, Fault::Restart(_)),
            |fault| matches!(fault, Fault::Pause(..)),
            |fault| matches!(fault, Fault::StallDisk(..)),
            |fault| matches!(fault, Fault::Break(..)),
            |fault| matches!(fault, Fault::Rate(..)),
            |fault| matches!(fault, Fault::Loss(..)),
            |fault| matches!(fault, Fault::Cut(..)),
            |fault| matches!(fault, Fault::Unplug(..)),
        ];
        let plans: Vec<Plan> = (0..500).map(plan).collect();
        let has = |plan: &Plan, is: fn(&Fault) -> bool| plan.faults.iter().any(|timed| is(&timed.fault));
        let counts = kinds.map(|is| plans.iter().filter(|plan| has(plan, is)).count());
        assert!(counts.iter().all(|&plans| plans >= 50), "{counts:?}");
    }
}
