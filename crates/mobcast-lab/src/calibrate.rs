//! How well links are emulated on this machine: each property set, and measured from the nodes with plain sockets.
//!
//! | module | what it holds |
//! |---|---|
//! | [`traffic`] | streams and datagrams between nodes |

use std::time::{Duration, Instant};

use mobcast_topology::{Change, Cluster, ClusterIndex, LinkRef, PayloadFactor, Scenario, Topology, WanLink};
use serde::Serialize;

use crate::cli::{CalibrateArgs, say};
use crate::error::LabError;
use crate::hub::control::Links;
use crate::interrupt::Interrupt;
use crate::lab::{Lab, LabNode};
use crate::run::load::Load;
use crate::run::process;
use traffic::{Datagrams, Streams, median};

pub mod traffic;

const A: ClusterIndex = ClusterIndex(0);
const B: ClusterIndex = ClusterIndex(1);
const C: ClusterIndex = ClusterIndex(2);
const MS: u64 = 1_000_000;
/// Rates of links, in bytes per second.
const RATES: [u64; 4] = [800_000, 3_000_000, 10_000_000, 100_000_000];
/// What all links together carry where the hub is to show what it can.
const TOTAL: u64 = 100_000_000;
/// Streams of TCP.
const STREAMS: [usize; 2] = [1, 8];
/// One-way delays, in milliseconds.
const DELAYS_MS: [u64; 3] = [0, 10, 50];
/// Losses, in packets of a million.
const LOSSES: [u32; 3] = [1_000, 10_000, 50_000];
/// Datagrams sent for one measurement of loss: 1 % is then known within some 2 %.
const DATAGRAMS: u32 = 200_000;
/// Time in which TCP finds its rate.
const FINDING: Duration = Duration::from_secs(4);
/// What a change of rate may take, in milliseconds.
const CHANGE_MAX_MS: f64 = 100.0;

/// One property.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measured {
    /// What was measured.
    pub what: String,
    /// The value that was set.
    pub set: f64,
    /// The value that was seen.
    pub seen: f64,
    /// Its unit.
    pub unit: &'static str,
    /// How far the second is from the first, in percent; of changes, what they took in milliseconds.
    pub off: f64,
    /// What is allowed of that.
    pub allowed: f64,
    /// What the machine did meanwhile, where that matters.
    pub note: String,
}

impl Measured {
    /// Whether it is as good as it must be.
    pub fn is_good(&self) -> bool {
        self.off.abs() <= self.allowed
    }
}

/// Measures everything and prints it.
pub fn run(args: &CalibrateArgs) -> Result<(), LabError> {
    let time = Duration::from_secs_f64(args.seconds);
    let interrupt = Interrupt::watch()?;
    crate::lab::say_crashed();
    let name = format!("calibrate-{}", std::process::id());
    let mut bench = Bench { lab: Lab::build(&topology(), &name, true, &interrupt)?, time, interrupt };
    let mut all = Vec::new();
    let mut add = |measured: Vec<Measured>| {
        if !args.json {
            measured.iter().try_for_each(|measured| say(in_words(measured)))?;
        }
        all.extend(measured);
        Ok::<(), LabError>(())
    };
    for rate in RATES {
        for streams in STREAMS {
            add(vec![bench.goodput(rate, streams)?])?;
        }
    }
    for delay in DELAYS_MS {
        add(vec![bench.round_trip(delay)?])?;
    }
    for loss in LOSSES {
        add(vec![bench.loss(loss)?])?;
    }
    add(bench.changes()?)?;
    add(vec![bench.cross_talk()?])?;
    add(vec![bench.together()?])?;
    if args.json {
        say(serde_json::to_string(&all).expect("plain data"))?;
    }
    let bad = all.iter().filter(|measured| !measured.is_good()).count();
    if bad == 0 { Ok(()) } else { Err(LabError::Failed(format!("{bad} properties are not as they must be"))) }
}

fn in_words(measured: &Measured) -> String {
    let Measured { what, set, seen, unit, off, allowed, note } = measured;
    let verdict = if measured.is_good() { "good" } else { "NOT GOOD" };
    let off = if *unit == "ms to take effect" { String::new() } else { format!("{off:+.2} % ") };
    format!("{what:<44} set {set:>9.3}  seen {seen:>9.3} {unit:<18} {off}(allowed {allowed:.1}) {verdict}{note}")
}

/// Three clusters of two nodes, of which each measurement sets the links.
fn topology() -> Topology {
    let mut topology = Topology::new();
    topology.payload_factor = PayloadFactor::ETHERNET_TCP;
    for name in ["A", "B", "C"] {
        topology.add_cluster(Cluster::new(name, 2)).expect("the names differ");
    }
    for (one, other) in [(A, B), (A, C), (B, C)] {
        topology.link_both(one, other, WanLink::new(100_000_000, 10 * MS)).expect("they are there");
    }
    topology
}

struct Bench {
    lab: Lab,
    time: Duration,
    interrupt: Interrupt,
}

impl Bench {
    fn node(&self, name: &str) -> &LabNode {
        self.lab.node(name).expect("the topology has it")
    }

    /// The links between all clusters become this one; these changes happen.
    fn set(&self, link: WanLink, changes: &[Change]) -> Result<(), LabError> {
        self.interrupt.check()?;
        let mut topology = topology();
        for (one, other) in [(A, B), (A, C), (B, C)] {
            topology.link_both(one, other, link).expect("they are there");
        }
        self.lab.begin(Links::new(&Scenario { topology, changes: changes.to_vec() }, 1))
    }

    fn goodput(&mut self, rate: u64, count: usize) -> Result<Measured, LabError> {
        self.set(WanLink::new(rate, 10 * MS), &[])?;
        let streams = Streams::start(self.node("A1"), self.node("B1"), count)?;
        let what = format!("goodput, {count} streams, {} MB/s, 20 ms", rate as f64 / 1e6);
        self.filled(&[streams], what, rate, 3.0)
    }

    /// What arrives through streams that fill links of so much together, and what the hub does meanwhile.
    fn filled(&self, streams: &[Streams], what: String, rate: u64, allowed: f64) -> Result<Measured, LabError> {
        self.interrupt.sleep(FINDING)?;
        let (hub, load, start) = (self.hub_cpu(), Load::now(), Instant::now());
        let seen = self.rate_bytes_per_s(streams)?;
        let busy = Load::now().since(&load).processors;
        let hub = 100.0 * (self.hub_cpu() - hub) / start.elapsed().as_secs_f64();
        let late = self.lab.counts()?.late_ms(0.99);
        let set = PayloadFactor::ETHERNET_TCP.of(rate) as f64;
        Ok(Measured {
            what,
            set: set / 1e6,
            seen: seen / 1e6,
            unit: "MB/s",
            off: 100.0 * (seen / set - 1.0),
            allowed,
            note: format!("; hub {hub:.0} % of a core, 99 of 100 late by at most {late} ms; machine {busy:.0} % busy"),
        })
    }

    /// What arrives through streams, per second, in the time of a measurement.
    fn rate_bytes_per_s(&self, streams: &[Streams]) -> Result<f64, LabError> {
        let received = || streams.iter().map(Streams::received).sum::<u64>();
        let (before, start) = (received(), Instant::now());
        self.interrupt.sleep(self.time)?;
        Ok((received() - before) as f64 / start.elapsed().as_secs_f64())
    }

    fn hub_cpu(&self) -> f64 {
        self.lab.hub_pid().map_or(0.0, process::cpu_seconds)
    }

    fn round_trip(&mut self, delay_ms: u64) -> Result<Measured, LabError> {
        self.set(WanLink::new(10_000_000, delay_ms * MS), &[])?;
        let datagrams = Datagrams::open(self.node("A1"), self.node("B1"))?;
        let times = datagrams.round_trips_ms(50)?;
        let (set, seen) = (2.0 * delay_ms as f64, median(times));
        // One millisecond, or 5 %.
        let allowed = if set > 0.0 { (100.0 / set).max(5.0) } else { 100.0 };
        let off = 100.0 * if set > 0.0 { seen / set - 1.0 } else { seen };
        Ok(Measured { what: format!("round trip, {set} ms"), set, seen, unit: "ms", off, allowed, note: String::new() })
    }

    fn loss(&mut self, per_million: u32) -> Result<Measured, LabError> {
        let link = WanLink { loss_per_million: per_million, ..WanLink::new(100_000_000, MS) };
        self.set(link, &[])?;
        let datagrams = Datagrams::open(self.node("A1"), self.node("B1"))?;
        let arrived = datagrams.flood(DATAGRAMS)?;
        let (set, seen) = (f64::from(per_million) / 1e4, 100.0 * (1.0 - f64::from(arrived) / f64::from(DATAGRAMS)));
        Ok(Measured {
            what: format!("loss of {DATAGRAMS} datagrams"),
            set,
            seen,
            unit: "%",
            off: 100.0 * (seen / set - 1.0),
            allowed: 10.0,
            note: String::new(),
        })
    }

    /// All links at once, as much together as one core is to carry.
    fn together(&mut self) -> Result<Measured, LabError> {
        const PAIRS: [(&str, &str); 6] =
            [("A1", "B1"), ("B2", "A2"), ("A2", "C1"), ("C2", "A1"), ("B1", "C2"), ("C1", "B2")];
        let rate = TOTAL / PAIRS.len() as u64;
        self.set(WanLink::new(rate, 10 * MS), &[])?;
        let streams = PAIRS.map(|(from, to)| Streams::start(self.node(from), self.node(to), 4));
        let streams = streams.into_iter().collect::<Result<Vec<Streams>, LabError>>()?;
        let what = format!("goodput of six links of {:.1} MB/s together", rate as f64 / 1e6);
        // Each carries the acknowledgements of the one that comes back, too.
        self.filled(&streams, what, rate * PAIRS.len() as u64, 3.0 + 2.0)
    }

    /// A link that is kept full by datagrams is made slower, then faster.
    fn changes(&mut self) -> Result<Vec<Measured>, LabError> {
        const STEPS: [(u64, u64); 2] = [(1_500, 3_000_000), (3_000, 10_000_000)];
        let link = LinkRef::Wan { from: A, to: B };
        let changes = STEPS.map(|(ms, rate)| Change { at_ns: ms * MS, link, rate_bytes_per_s: Some(rate) });
        let datagrams = Datagrams::open(self.node("A1"), self.node("B1"))?;
        self.set(WanLink::new(10_000_000, MS), &changes)?;
        let arrivals = datagrams.arrivals(Duration::from_millis(4_500), 14_000_000)?;
        let measured = STEPS.map(|(at_ms, rate)| {
            let seen = traffic::takes_effect_ms(&arrivals, at_ms, rate as f64);
            Measured {
                what: format!("change of rate to {} MB/s", rate as f64 / 1e6),
                set: 0.0,
                seen,
                unit: "ms to take effect",
                off: seen,
                allowed: CHANGE_MAX_MS,
                note: String::new(),
            }
        });
        Ok(measured.into())
    }

    /// Goodput of one link, alone and while others are full.
    fn cross_talk(&mut self) -> Result<Measured, LabError> {
        self.set(WanLink::new(10_000_000, 10 * MS), &[])?;
        let streams = [Streams::start(self.node("A1"), self.node("B1"), 4)?];
        self.interrupt.sleep(FINDING)?;
        let alone = self.rate_bytes_per_s(&streams)?;
        // None of them the other way, where the acknowledgements of this one go and theirs would come.
        let others = [("A2", "C1"), ("C2", "B2"), ("C1", "A2")];
        let others: Result<Vec<Streams>, LabError> =
            others.map(|(from, to)| Streams::start(self.node(from), self.node(to), 4)).into_iter().collect();
        let others = others?;
        self.interrupt.sleep(FINDING)?;
        let beside = self.rate_bytes_per_s(&streams)?;
        drop(others);
        Ok(Measured {
            what: "goodput while three other links are full".into(),
            set: alone / 1e6,
            seen: beside / 1e6,
            unit: "MB/s",
            off: 100.0 * (beside / alone - 1.0),
            allowed: 2.0,
            note: String::new(),
        })
    }
}
