//! One run of a plan: machines are started, broadcasts begun, faults applied and taken back, until everybody has settled or
//! the bound has passed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mobcast_proto::strategy::Registry;
use mobcast_proto::strategy::overlay::Overlays;
use mobcast_proto::{BroadcastId, Duration, Time};
use mobcast_topology::{ClusterIndex, LinkRef};

use crate::network::{Network, NodeIndex, Settings as NetworkSettings};
use crate::world::{Due, Settings, World};

use super::Violation;
use super::plan::{Fault, Plan};

/// Nodes check their invariants after so many steps.
const CHECK_EVERY: u64 = 16;
/// Whether all is over is looked at after so many steps.
const LOOK_EVERY: u64 = 16;
/// Streams of a link between two clusters, each of which loses packets by itself.
const STREAMS: u64 = 16;
/// Payload bytes of a packet.
const PACKET_BYTES: u64 = 1_448;

/// A run under way.
pub(super) struct Run {
    pub(super) plan: Plan,
    pub(super) world: World,
    /// What has begun, in the order of the plan.
    pub(super) begun: Vec<Option<BroadcastId>>,
    /// Machines that were members when a broadcast began.
    pub(super) present: BTreeMap<BroadcastId, BTreeSet<usize>>,
    /// Roots that were stopped after their broadcast had begun.
    pub(super) roots_gone: BTreeSet<BroadcastId>,
    /// Machines that were ever stopped, and when they first were.
    pub(super) stopped: BTreeMap<u32, Time>,
    /// Faults that did something while a broadcast was under way.
    pub(super) hit: u32,
    /// Beginnings and ends of faults that are still to come.
    steps_left: usize,
    faults_end: Time,
    /// Rates of the links between clusters while nothing is cut or lost.
    rates: BTreeMap<(ClusterIndex, ClusterIndex), u64>,
    /// Pairs that are cut, and how often.
    cuts: BTreeMap<(ClusterIndex, ClusterIndex), u32>,
    /// Packets lost in a thousand between pairs, once for each fault.
    losses: BTreeMap<(ClusterIndex, ClusterIndex), Vec<u32>>,
    /// What all that leaves of the links between pairs, as [`Run::rates_left`] has it.
    left: BTreeMap<(ClusterIndex, ClusterIndex), Option<[u64; 2]>>,
}

impl Run {
    /// Everything is set up, and nothing has happened. `told` happenings are kept in words.
    pub(super) fn start(plan: Plan, told: usize) -> Run {
        let mut world = empty_world(&plan);
        if told > 0 {
            world.keep_trace(told);
        }
        for cluster in plan.topology.indices() {
            for _ in 0..plan.topology.clusters()[cluster.as_usize()].nodes {
                let clock = plan.clocks.get(world.machines.len()).copied().unwrap_or_default();
                let name = plan.topology.clusters()[cluster.as_usize()].name.clone();
                world.start_machine_with(cluster, Some(name), clock);
            }
        }
        if let Some((node, mischief)) = plan.malicious {
            world.machines[node as usize].malicious = Some(mischief);
        }
        for &(node, time) in &plan.slow_disks {
            world.machines[node as usize].slow_disk = Some(time);
        }
        let mut steps_left = 0;
        for (i, timed) in plan.faults.iter().enumerate() {
            world.network.schedule(timed.at, Due::Step(2 * i));
            steps_left += 1;
            if timed.fault.lasts().is_some() {
                world.network.schedule(timed.until(), Due::Step(2 * i + 1));
                steps_left += 1;
            }
        }
        // A broadcast whose time has come is looked for after each step; this is one.
        for planned in &plan.broadcasts {
            world.network.schedule(planned.at, Due::Step(usize::MAX));
        }
        let wan = plan.topology.wan_links();
        let rates = wan.filter_map(|(from, to, link)| Some(((from, to), link.rate_bytes_per_s?))).collect();
        let begun = vec![None; plan.broadcasts.len()];
        let mut run = Run {
            faults_end: plan.faults_end(),
            plan,
            world,
            begun,
            present: BTreeMap::new(),
            roots_gone: BTreeSet::new(),
            stopped: BTreeMap::new(),
            hit: 0,
            steps_left,
            rates,
            cuts: BTreeMap::new(),
            losses: BTreeMap::new(),
            left: BTreeMap::new(),
        };
        run.left = run.rates.keys().filter(|(a, b)| a < b).map(|&(a, b)| ((a, b), run.rates_left(a, b))).collect();
        run
    }

    /// Runs until all is over.
    ///
    /// # Panics
    /// If the world sees something that must not be.
    pub(super) fn finish(&mut self) -> Result<(), Violation> {
        let deadline = self.faults_end + self.plan.bound();
        while !self.is_over() {
            if self.world.network.now() > deadline {
                return if self.all_settled() { self.judge() } else { Err(self.hangs(deadline)) };
            }
            match self.world.step() {
                Some(Some(usize::MAX)) => {}
                Some(Some(step)) if step % 2 == 0 => self.begin_fault(step / 2),
                Some(Some(step)) => self.end_fault(step / 2),
                Some(None) => {}
                None => break,
            }
            self.begin_broadcasts();
        }
        self.judge()
    }

    /// Broadcasts begin when it is time and their roots are members.
    pub(super) fn begin_broadcasts(&mut self) {
        for i in 0..self.plan.broadcasts.len() {
            if self.begun[i].is_some() {
                continue;
            }
            let planned = &self.plan.broadcasts[i];
            let root = NodeIndex(planned.root);
            let member = self.world.machines[root.0 as usize].node.assignment().is_some();
            let able = self.world.network.is_running(root) && !self.world.is_standing(root);
            if self.world.network.now() >= planned.at && member && able && !self.world.is_reading(root) {
                let whole = planned.whole.then(|| vec![7; planned.bytes as usize]);
                let (descriptor, pieces) = (planned.descriptor(), planned.pieces());
                let id = self.world.broadcast(root, descriptor, whole);
                self.begun[i] = Some(id);
                self.present.insert(id, self.members().collect());
                self.world.tell(Some(root), || format!("begins {id}, {pieces} pieces"));
            }
        }
    }

    /// Broadcasts that have begun.
    pub(super) fn ids(&self) -> impl Iterator<Item = BroadcastId> + '_ {
        self.begun.iter().flatten().copied()
    }

    // ---- Faults ----

    fn begin_fault(&mut self, index: usize) {
        self.steps_left -= 1;
        let fault = self.plan.faults[index].fault.clone();
        let number = self.plan.faults[index].number;
        self.world.tell(None, || format!("fault {number}: {fault}"));
        let under_way = self.is_under_way();
        let effective = self.apply(&fault);
        self.hit += u32::from(under_way && effective);
    }

    /// Does what a fault says; whether anything has changed.
    fn apply(&mut self, fault: &Fault) -> bool {
        match *fault {
            Fault::Join(cluster) => {
                let name = self.name_of(cluster);
                self.world.start_machine(cluster, Some(name));
                true
            }
            Fault::Stop(node, stop) => {
                let running = self.world.network.is_running(NodeIndex(node));
                if running {
                    let rooted = (0..self.begun.len()).filter(|&i| self.plan.broadcasts[i].root == node);
                    self.roots_gone.extend(rooted.filter_map(|i| self.begun[i]));
                    self.world.stop_machine(NodeIndex(node), stop);
                    self.stopped.entry(node).or_insert(self.world.network.now());
                }
                running
            }
            Fault::Restart(node) => {
                let stopped = !self.world.network.is_running(NodeIndex(node));
                if stopped {
                    let name = self.name_of(self.plan.cluster_of(node));
                    self.world.restart_machine(NodeIndex(node), Some(name));
                }
                stopped
            }
            Fault::Pause(node, time) => self.world.pause_machine(NodeIndex(node), time),
            Fault::StallDisk(node, time) => {
                let until = self.world.network.now() + time;
                let stalls_until = &mut self.world.machines[node as usize].disk_stalls_until;
                let longer = until > *stalls_until;
                *stalls_until = until.max(*stalls_until);
                longer && self.world.network.is_running(NodeIndex(node))
            }
            Fault::Break(a, b) => self.world.cut_links(NodeIndex(a), NodeIndex(b)) > 0,
            Fault::Unplug(node, _) => self.world.unplug(NodeIndex(node)),
            Fault::Rate(LinkRef::Wan { from, to }, rate) => {
                self.rates.insert((from, to), rate);
                self.set_rates(from, to)
            }
            Fault::Rate(..) => false,
            Fault::Loss(a, b, permille, _) => {
                self.losses.entry(pair(a, b)).or_default().push(permille);
                self.set_rates(a, b)
            }
            Fault::Cut(a, b, _) => {
                *self.cuts.entry(pair(a, b)).or_default() += 1;
                self.set_rates(a, b)
            }
        }
    }

    fn end_fault(&mut self, index: usize) {
        self.steps_left -= 1;
        let number = self.plan.faults[index].number;
        self.world.tell(None, || format!("fault {number} is over"));
        match self.plan.faults[index].fault {
            Fault::Unplug(node, _) => {
                let cluster = &self.plan.topology.clusters()[self.plan.cluster_of(node).as_usize()];
                let rate = cluster.nic_in_bytes_per_s.expect("plans limit all cards");
                self.world.plug_in(NodeIndex(node), rate);
            }
            Fault::Loss(a, b, permille, _) => {
                let losses = self.losses.entry(pair(a, b)).or_default();
                if let Some(at) = losses.iter().position(|other| *other == permille) {
                    losses.remove(at);
                }
                self.set_rates(a, b);
            }
            Fault::Cut(a, b, _) => {
                *self.cuts.entry(pair(a, b)).or_default() -= 1;
                self.set_rates(a, b);
            }
            _ => {}
        }
    }

    fn name_of(&self, cluster: ClusterIndex) -> String {
        self.plan.topology.clusters()[cluster.as_usize()].name.clone()
    }

    /// Gives the links between two clusters the rates that are left of them; whether these are others than before.
    fn set_rates(&mut self, a: ClusterIndex, b: ClusterIndex) -> bool {
        let (a, b) = pair(a, b);
        let rates = self.rates_left(a, b);
        match rates {
            None => self.world.cut_clusters(a, b),
            Some(rates) => self.world.heal_clusters(a, b, rates),
        }
        self.left.insert((a, b), rates) != Some(rates)
    }

    /// What is left of the links between two clusters, in each direction; none if they are cut.
    fn rates_left(&self, a: ClusterIndex, b: ClusterIndex) -> Option<[u64; 2]> {
        if self.cuts.get(&pair(a, b)).is_some_and(|cuts| *cuts > 0) {
            return None;
        }
        let lost = self.losses.get(&pair(a, b)).and_then(|losses| losses.iter().max()).copied().unwrap_or(0);
        Some([(a, b), (b, a)].map(|(from, to)| {
            let delay_ns = self.plan.topology.wan(from, to).map_or(0, |link| link.one_way_delay_ns);
            self.rates[&(from, to)].min(rate_with_loss(lost, Duration(2 * delay_ns)))
        }))
    }

    // ---- The end ----

    /// Whether somebody of whom it is expected has not settled, of a broadcast that has begun.
    fn is_under_way(&self) -> bool {
        self.ids().any(|id| {
            let open = |i: usize| {
                let seen = &self.world.machines[i].seen;
                !seen.complete.contains_key(&id) && !seen.failed.contains_key(&id)
            };
            let heard = self.concerned(id).count();
            heard < 2 || self.concerned(id).any(open)
        })
    }

    /// Machines that live, are members, and have heard of the broadcast: those of which something is expected.
    pub(super) fn concerned(&self, broadcast: BroadcastId) -> impl Iterator<Item = usize> + '_ {
        self.members().filter(move |&i| self.world.machines[i].seen.announced.contains(&broadcast))
    }

    /// Machines that live and are members, but for a malicious one.
    pub(super) fn members(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.world.machines.len()).filter(move |&i| {
            let machine = &self.world.machines[i];
            let member = machine.node.assignment().is_some() && machine.malicious.is_none();
            member && self.world.network.is_running(NodeIndex(i as u32))
        })
    }

    fn is_over(&self) -> bool {
        let early = self.steps_left > 0 || self.world.network.now() < self.faults_end;
        if early || !self.world.steps().is_multiple_of(LOOK_EVERY) {
            return false;
        }
        let begun = (0..self.begun.len()).all(|i| self.begun[i].is_some() || !self.may_begin(i));
        // That somebody has given up may be on its way still.
        begun
            && !self.is_being_taken_over()
            && !self.is_joined_later()
            && self.all_settled()
            && self.ids().all(|id| self.uncollected(id).is_none() && self.unheard(id).is_none())
    }

    /// Whether a machine is not a member, and there is time for it to become one.
    fn is_joined_later(&self) -> bool {
        !self.is_patience_over() && self.outsider().is_some()
    }

    fn all_settled(&self) -> bool {
        self.ids().all(|id| self.is_settled(id))
    }

    /// Whether somebody takes over: what was reported to it is not collected yet.
    fn is_being_taken_over(&self) -> bool {
        let runs = |i: usize| self.world.network.is_running(NodeIndex(i as u32));
        (0..self.world.machines.len()).any(|i| runs(i) && self.world.machines[i].node.is_taking_over())
    }

    /// Whether a broadcast that has not begun still may: its root is a member, or the founder is there to admit it.
    fn may_begin(&self, planned: usize) -> bool {
        let root = NodeIndex(self.plan.broadcasts[planned].root);
        let member = self.world.machines[root.0 as usize].node.assignment().is_some();
        self.world.network.is_running(root) && (member || !self.stopped.contains_key(&0))
    }

    pub(super) fn is_settled(&self, id: BroadcastId) -> bool {
        let is_root = |i: usize| self.world.machines[i].node.id() == Some(id.root);
        let failed = |i: usize| self.world.machines[i].seen.failed.contains_key(&id);
        // A root that has no receivers left, or none but those that have given up, is never told to go.
        let receivers = self.concerned(id).any(|i| !is_root(i) && !failed(i));
        !receivers || self.concerned(id).all(|i| self.has_settled(i, id))
    }

    pub(super) fn has_settled(&self, machine: usize, id: BroadcastId) -> bool {
        let seen = &self.world.machines[machine].seen;
        let may_go = || seen.released.contains_key(&id) || self.is_held_up(id);
        seen.failed.contains_key(&id) || (seen.complete.contains_key(&id) && may_go())
    }

    /// Whether a malicious member keeps everybody waiting for its result: nobody can tell it from one that is slow.
    fn is_held_up(&self, id: BroadcastId) -> bool {
        let Some((node, _)) = self.plan.malicious else { return false };
        let seen = &self.world.machines[node as usize].seen;
        self.world.network.is_running(NodeIndex(node))
            && !seen.complete.contains_key(&id)
            && !seen.failed.contains_key(&id)
    }
}

/// A plan's network with nobody in it yet.
fn empty_world(plan: &Plan) -> World {
    // What a driver sends at first: a node gives up who takes over 15 s for a chunk, as if nothing came.
    let chunk_bytes_max = 16 << 10;
    let settings = NetworkSettings { report_drained: true, ..NetworkSettings::default() };
    let network: Network<Due> = Network::new(&plan.topology, settings);
    let mut world = World::new(
        network,
        Settings { seed: plan.seed, check_every: CHECK_EVERY, chunk_bytes_max, ..Settings::default() },
    );
    let strategies: Vec<&str> = plan.broadcasts.iter().map(|planned| planned.strategy).collect();
    let overlays = Overlays::of(&strategies, Some(Arc::new(plan.topology.clone())));
    world.found_for(Registry::default(), overlays.expect("plans name strategies that there are"));
    world
}

fn pair(a: ClusterIndex, b: ClusterIndex) -> (ClusterIndex, ClusterIndex) {
    (a.min(b), a.max(b))
}

/// What TCP makes of a way on which packets are lost (Mathis et al., CCR 1997): packets a round trip × 1.22 / √loss, for
/// each stream.
pub(super) fn rate_with_loss(permille: u32, round_trip: Duration) -> u64 {
    if permille == 0 {
        return u64::MAX;
    }
    // 1.22 / √(permille / 1000) in hundredths, by whole numbers.
    let hundredths = (14_884_000 / u64::from(permille)).isqrt();
    let per_stream = u128::from(PACKET_BYTES * hundredths) * 10_000_000 / u128::from(round_trip.0.max(1_000));
    (per_stream as u64).saturating_mul(STREAMS).max(1)
}
