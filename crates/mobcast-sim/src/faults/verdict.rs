//! What must hold at the end of a run, when faults have stopped: everybody has heard of everything, nobody hangs, nobody gave up what it
//! could have had, and the results are known to whoever collects them. What must hold on the way is the world's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use mobcast_proto::group::assignment::Assignment;
use mobcast_proto::limits::{PING_INTERVAL, SILENCE_MAX};
use mobcast_proto::{BroadcastId, Duration, NodeId, PieceIndex, Time};
use mobcast_topology::LinkRef;

use super::plan::{Fault, Plan, Planned, Timed};
use super::run::{Run, rate_with_loss};
use super::{SLACK, SLACK_FACTOR, Violation};
use crate::network::NodeIndex;

/// By then everyone who was there from the beginning has its place, and successors are named.
pub(super) const STANDS_AFTER: Time = Time(2_000_000_000);
/// Two silences that are not farther apart than this may count as one: what waited in between has not all arrived.
const SILENCES_APART: Duration = Duration::from_secs(1);
/// What was released by the coordinator's word may be on its way for so long after its death.
const RELEASE_ON_ITS_WAY: Duration = Duration::from_secs(5);
/// Who has somebody beside it that has everything gets it within this, if it can get it at all.
const HELPED_WITHIN: Duration = Duration(2 * SILENCE_MAX.0);
/// Longer silences may be taken for a death: the last sign of life may be as old as a ping when one begins.
const SILENCE_BORNE: Duration = Duration(SILENCE_MAX.0 - PING_INTERVAL.0 - SILENCES_APART.0);

impl Plan {
    /// From the end of the last fault on a run has this long: [`SLACK`] for all that is noticed by silence, and
    /// [`SLACK_FACTOR`] times what all objects take on the slowest link, and on the slowest disk; with strategies that may send every node
    /// a copy of its own over that link, as many times as there are nodes, if those are more.
    pub fn bound(&self) -> Duration {
        let copies = |planned: &Planned| match sends_a_copy_to_each(planned.strategy) {
            true => u64::from(self.nodes()).div_ceil(SLACK_FACTOR).max(1),
            false => 1,
        };
        let bytes: u64 = self.broadcasts.iter().map(|planned| planned.bytes * copies(planned)).sum();
        let transfer = Duration::for_bytes(bytes, self.slowest_rate());
        let disk = self.slow_disks.iter().map(|(_, time)| time.times(u64::from(self.pieces()))).max();
        SLACK + transfer.times(SLACK_FACTOR) + disk.unwrap_or_default()
    }

    /// The lowest rate that any card or link has at any time, in bytes per second, cuts not counted.
    fn slowest_rate(&self) -> u64 {
        let cards = self.topology.clusters().iter().filter_map(|cluster| cluster.nic_in_bytes_per_s);
        let links = self.topology.wan_links().filter_map(|(_, _, link)| link.rate_bytes_per_s);
        let changed = self.faults.iter().filter_map(|timed| match timed.fault {
            Fault::Rate(_, rate) => Some(rate),
            Fault::Loss(from, to, permille, _) => {
                let delay_ns = self.topology.wan(from, to).map_or(0, |link| link.one_way_delay_ns);
                Some(rate_with_loss(permille, Duration(2 * delay_ns)))
            }
            _ => None,
        });
        cards.chain(links).chain(changed).min().unwrap_or(1)
    }

    /// Whether two machines of the start were out of each other's sight for so long that one may take the other for dead.
    fn are_severed(&self, a: u32, b: u32) -> bool {
        // A machine that stands still for long finds that its own time has passed.
        Self::beyond_bearing(self.silences(a, b)).is_some()
    }

    /// Whether a machine's disk stores nothing for so long that others may give up what only this machine has received: until when.
    fn disk_stands(&self, node: u32) -> Option<Time> {
        let stands = |timed: &&Timed| matches!(timed.fault, Fault::StallDisk(who, _) if who == node);
        Self::beyond_bearing(self.faults.iter().filter(stands).map(|timed| (timed.at, timed.until())).collect())
    }

    /// When the first of silences ends that, with what belongs together, is longer than is borne.
    fn beyond_bearing(silences: Vec<(Time, Time)>) -> Option<Time> {
        let mut whole: Vec<(Time, Time)> = Vec::new();
        for (from, until) in silences {
            match whole.last_mut().filter(|(_, end)| from <= *end + SILENCES_APART) {
                Some((_, end)) => *end = until.max(*end),
                None => whole.push((from, until)),
            }
        }
        whole.into_iter().find(|(from, until)| until.since(*from) >= SILENCE_BORNE).map(|(_, until)| until)
    }
}

/// Whether a link between clusters may carry a copy for each node behind it: the published algorithm is so.
fn sends_a_copy_to_each(strategy: &str) -> bool {
    strategy == "flat" || strategy.starts_with("bittorrent")
}

impl Run {
    pub(super) fn hangs(&self, deadline: Time) -> Violation {
        let open = self.ids().find(|&id| !self.is_settled(id));
        let lacks = |i: &usize, id: BroadcastId| !self.world.machines[*i].seen.complete.contains_key(&id);
        let unsettled = |id: BroadcastId| self.concerned(id).filter(move |&i| !self.has_settled(i, id));
        let who = open.and_then(|id| unsettled(id).find(|i| lacks(i, id)).or_else(|| unsettled(id).next()));
        let what = match (open, who) {
            (Some(id), Some(node)) => {
                let seen = &self.world.machines[node].seen;
                let lacks =
                    if seen.complete.contains_key(&id) { "is not released from" } else { "is not complete with" };
                format!("machine {node} {lacks} {id} by {deadline:?}")
            }
            _ => format!("a broadcast has not begun by {deadline:?}"),
        };
        self.violation("hangs", what)
    }

    pub(super) fn violation(&self, kind: &str, what: String) -> Violation {
        Violation { kind: kind.to_owned(), what, at: self.world.network.now(), state: self.describe() }
    }

    /// Looks at what has become of everybody.
    pub(super) fn judge(&self) -> Result<(), Violation> {
        for id in self.ids() {
            if let Some(i) = self.gave_up_too_soon(id) {
                let why = &self.world.machines[i].seen.failed[&id];
                return Err(self.violation("gave up", format!("machine {i} gave {id} up, and need not have: {why}")));
            }
            if let Some(node) = self.uncollected(id) {
                let what = format!("nobody has collected the result of machine {node} for {id}");
                return Err(self.violation("uncollected", what));
            }
            if let Some(i) = self.unheard(id) {
                return Err(self.violation("unheard", format!("machine {i} has never heard of {id}")));
            }
        }
        match self.outside() {
            Some(i) => Err(self.violation("outside", format!("machine {i} is not a member, and the founder lives"))),
            None => Ok(()),
        }
    }

    /// A node that gave up although its root lives, or all pieces are there.
    fn gave_up_too_soon(&self, id: BroadcastId) -> Option<usize> {
        // With the coordinator and its successors dead, nobody gives those a new peer who have lost theirs.
        let led = self.concerned(id).any(|i| self.leads(i) || self.ought_to_lead(i));
        let root = self.begun.iter().position(|begun| *begun == Some(id)).map(|i| &self.plan.broadcasts[i]);
        let root = root.expect("it has begun");
        // What waited for a disk for longer than a silence is borne came too late for the others; who has it all only since that disk
        // has come back may have it from there.
        let back = self.concerned(id).filter_map(|i| self.plan.disk_stands(i as u32)).min();
        let complete = |i: usize| self.world.machines[i].seen.complete.get(&id);
        let late = |i: usize| complete(i).is_some_and(|at| back.is_some_and(|back| *at >= back));
        let in_time = || self.concerned(id).filter(|&i| self.plan.disk_stands(i as u32).is_none() && !late(i));
        let has = |i: usize| complete(i).is_some();
        let root_gone = self.roots_gone.contains(&id);
        // Whether the root, or all that is left of its object, is among machines.
        let among = |some: &dyn Fn(usize) -> bool| {
            let holders = || in_time().filter(|&i| some(i));
            let held = |piece: u32| holders().any(|i| self.world.machines[i].holds(id, PieceIndex(piece)));
            let root_there = !root_gone && some(root.root as usize);
            root_there || holders().any(has) || (0..root.pieces()).all(held)
        };
        if !led || !among(&|_| true) {
            return None;
        }
        let holders = || (0..self.world.machines.len()).filter(|&i| self.world.machines[i].stored(id).is_some());
        // Somebody in its sight had everything, and long enough.
        let helped = |i: usize| {
            let given_up = self.world.machines[i].seen.failed_at.get(&id);
            // Nobody needs help before the root is gone, or this one is there.
            let stirs = |timed: &&Timed| matches!(timed.fault, Fault::Stop(..) | Fault::Join(_) | Fault::Restart(_));
            let stirred = self.plan.faults.iter().filter(stirs).map(|timed| timed.at).max().unwrap_or_default();
            let early = |at: Time| given_up.is_some_and(|given_up| at.max(stirred) + HELPED_WITHIN <= *given_up);
            let beside = |other: usize| !self.severed(i, other) && complete(other).is_some_and(|at| early(*at));
            self.concerned(id).any(beside)
        };
        let led = |i: usize| i == 0 || self.world.machines[i].seen.coordinator_since.is_some();
        let all = || 0..self.world.machines.len();
        let leaders: Vec<usize> = all().filter(|&i| led(i)).collect();
        let needed: Vec<usize> = all().filter(|&i| led(i) || i == root.root as usize).collect();
        // What a coordinator said last may have been lost with it, for a whole cluster.
        let lost = |i: usize| {
            let near = self.within_reach(i);
            let led = near.iter().any(|&other| self.leads(other) || self.ought_to_lead(other));
            !led || !among(&|other| near.contains(&other))
        };
        let excused = |i: usize| {
            let apart = |other: usize| self.severed(i, other);
            let unled = || leaders.iter().any(|&leader| self.severed(leader, root.root as usize));
            let betrayed = || self.is_led_by_whom_it_dropped(i);
            let unhelped = || root_gone && holders().any(apart) && !helped(i);
            needed.iter().any(|&other| apart(other)) || unled() || unhelped() || betrayed() || lost(i)
        };
        self.concerned(id).find(|&i| self.world.machines[i].seen.failed.contains_key(&id) && !excused(i))
    }

    fn leads(&self, i: usize) -> bool {
        !self.world.machines[i].node.members().is_empty()
    }

    /// Whether the malicious member has become coordinator, and a machine has caught it before: nobody gives that one peers.
    fn is_led_by_whom_it_dropped(&self, i: usize) -> bool {
        let Some((malicious, _)) = self.plan.malicious else { return false };
        let liar = &self.world.machines[malicious as usize];
        let dropped = liar.node.id().is_some_and(|liar| self.world.machines[i].node.has_dropped(liar));
        liar.seen.coordinator_since.is_some() && dropped
    }

    /// Whether a machine lives that knows itself for a successor, has what a successor needs, and was in everybody's sight: if nobody leads, it has to.
    fn ought_to_lead(&self, i: usize) -> bool {
        let node = &self.world.machines[i].node;
        let named = node
            .assignment()
            .is_some_and(|assignment| assignment.successors.iter().any(|successor| Some(successor.node) == node.id()));
        let runs = |i: usize| self.world.network.is_running(NodeIndex(i as u32));
        // Whoever stood still itself says nothing of this one.
        let in_sight = |other: usize| self.severed(other, other) || !self.severed(i, other);
        let may = named && self.world.machines[i].authority;
        may && runs(i) && !self.severed(i, i) && (0..self.world.machines.len()).all(in_sight)
    }

    /// The living machines that a machine may come to hear of: one of two was told of the other, or there are machines between them of
    /// which that holds one by one.
    fn within_reach(&self, from: usize) -> BTreeSet<usize> {
        let told = |i: usize| -> BTreeSet<NodeId> {
            let node = &self.world.machines[i].node;
            let peers = node.assignment().into_iter().flat_map(|assignment| {
                let Assignment { local_peers, global_peers, plan_peers, successors, .. } = assignment;
                let lists = [local_peers, global_peers, plan_peers, successors];
                assignment.parent.iter().chain(lists.into_iter().flatten()).map(|peer| peer.node)
            });
            peers.chain(node.members().into_iter().map(|(node, ..)| node)).collect()
        };
        let runs = |&i: &usize| self.world.network.is_running(NodeIndex(i as u32));
        let living: BTreeMap<usize, BTreeSet<NodeId>> =
            (0..self.world.machines.len()).filter(runs).map(|i| (i, told(i))).collect();
        let knows = |a: &usize, b: &usize| self.world.machines[*b].node.id().is_some_and(|id| living[a].contains(&id));
        let (mut reached, mut next) = (BTreeSet::from([from]), vec![from]);
        while let Some(i) = next.pop() {
            let known = living.keys().filter(|other| knows(&i, other) || knows(other, &i)).copied();
            let new: Vec<usize> = known.filter(|other| reached.insert(*other)).collect();
            next.extend(new);
        }
        reached
    }

    fn severed(&self, a: usize, b: usize) -> bool {
        let nodes = self.plan.nodes() as usize;
        // A late machine shares the fate of its cluster.
        let of_start = |i: usize| {
            let cluster = self.world.network.cluster(NodeIndex(i as u32));
            if i < nodes {
                Some(i as u32)
            } else {
                (0..nodes as u32).find(|&node| self.plan.cluster_of(node) == cluster)
            }
        };
        match (of_start(a), of_start(b)) {
            (Some(a), Some(b)) => self.plan.are_severed(a, b),
            _ => true,
        }
    }

    /// A node whose result the successor of a coordinator does not know; nothing else having gone wrong than that the
    /// coordinator died when the group stood.
    pub(super) fn uncollected(&self, id: BroadcastId) -> Option<usize> {
        let stood = |timed: &Timed| match &timed.fault {
            Fault::Stop(0, _) => timed.at > STANDS_AFTER,
            Fault::Rate(LinkRef::Wan { .. }, _) | Fault::Loss(..) => true,
            _ => false,
        };
        let died = self.stopped.contains_key(&0) && self.plan.faults.iter().all(stood) && self.plan.malicious.is_none();
        if !died {
            return None;
        }
        let key_known = |key: (BroadcastId, NodeId)| {
            let mut coordinators = self.world.machines.iter().filter(|m| m.seen.coordinator_since.is_some());
            coordinators.any(|machine| machine.seen.results.contains_key(&key))
        };
        let collected = |i: usize| {
            let node = self.world.machines[i].node.id();
            node.is_some_and(|node| node == id.root || key_known((id, node)))
        };
        // Whom the old coordinator has released, it knew the result of. Whoever waits in vain for another one lets itself go at last.
        let taken_over = self.world.machines.iter().filter_map(|machine| machine.seen.coordinator_since).min();
        let until = taken_over.unwrap_or_else(|| self.stopped[&0] + RELEASE_ON_ITS_WAY);
        let before = |at: &Time| *at < until;
        let over = |i: usize| self.world.machines[i].seen.released.get(&id).is_some_and(before);
        self.concerned(id).filter(|&i| !over(i)).find(|&i| !collected(i))
    }

    /// A member that has not heard of a broadcast, although it was one when that began, and nothing was ever between it, the root and the
    /// founder for long, all of which live. With another coordinator, or a malicious member, it is not expected.
    pub(super) fn unheard(&self, id: BroadcastId) -> Option<usize> {
        let begun = self.begun.iter().position(|begun| *begun == Some(id))?;
        let root = self.plan.broadcasts[begun].root as usize;
        let lives = |i: usize| !self.stopped.contains_key(&(i as u32));
        let succeeded = self.world.machines.iter().any(|machine| machine.seen.coordinator_since.is_some());
        let led = [0, root].into_iter().all(lives) && !self.severed(0, root) && !succeeded;
        if !led || self.plan.malicious.is_some() {
            return None;
        }
        let in_sight = |i: usize| lives(i) && [0, root].into_iter().all(|other| !self.severed(i, other));
        let present = self.present.get(&id).into_iter().flatten().copied();
        present.filter(|&i| in_sight(i)).find(|&i| !self.world.machines[i].seen.announced.contains(&id))
    }

    /// A machine that was not admitted although the founder was there all the time, and it had the time for it.
    fn outside(&self) -> Option<usize> {
        self.outsider().filter(|_| self.is_patience_over())
    }

    /// A machine that is not a member although the founder was there all the time.
    pub(super) fn outsider(&self) -> Option<usize> {
        if self.stopped.contains_key(&0) {
            return None;
        }
        let runs = |i: &usize| self.world.network.is_running(NodeIndex(*i as u32));
        (0..self.world.machines.len()).filter(runs).find(|&i| self.world.machines[i].node.assignment().is_none())
    }

    /// Whether whoever waits for the founder's answer has waited for long enough.
    pub(super) fn is_patience_over(&self) -> bool {
        self.world.network.now().since(self.plan.faults_end()) >= SLACK
    }

    /// Everybody's state in words.
    pub(super) fn describe(&self) -> String {
        let mut text = String::new();
        for (i, machine) in self.world.machines.iter().enumerate() {
            if !self.world.network.is_running(NodeIndex(i as u32)) {
                continue;
            }
            let assignment = machine.node.assignment();
            let parent = assignment.and_then(|a| a.parent.as_ref().map(|parent| parent.node));
            let (id, links, members) = (machine.node.id(), machine.node.link_count(), machine.node.members().len());
            let _ = write!(text, "\n  machine {i} ({id:?}, parent {parent:?}, {links} links");
            if let Some(since) = machine.seen.coordinator_since {
                let _ = write!(text, ", coordinator since {since:?}");
            }
            if members > 0 {
                let _ = write!(text, ", {members} members");
            }
            text.push(')');
            if !machine.seen.dropped.is_empty() {
                let _ = write!(text, " has dropped peers: {}", machine.seen.dropped.join("; "));
            }
            let waiting = machine.node.link_views().into_values().map(|view| view.waiting_bytes);
            let waiting: Vec<u64> = waiting.filter(|bytes| *bytes > 0).collect();
            if !waiting.is_empty() {
                let (links, bytes) = (waiting.len(), waiting.iter().sum::<u64>());
                let _ = write!(text, ", keeps {links} peers waiting for {bytes} bytes");
            }
            self.ids().for_each(|id| self.describe_broadcast(i, id, &mut text));
        }
        text
    }

    fn describe_broadcast(&self, i: usize, id: BroadcastId, text: &mut String) {
        let machine = &self.world.machines[i];
        let seen = &machine.seen;
        let Some(progress) = machine.node.progress(id) else {
            let _ = write!(text, "\n    {id}: has not heard of it");
            return;
        };
        let _ = write!(text, "\n    {id}: {} of {} known pieces", progress.pieces, progress.known);
        if let Some(at) = seen.complete.get(&id) {
            let _ = write!(text, ", complete at {at:?}");
        }
        if let Some(at) = seen.released.get(&id) {
            let _ = write!(text, ", released at {at:?}");
        }
        if let Some(why) = seen.failed.get(&id) {
            let _ = write!(text, ", given up: {why}");
        }
        let missing = machine.node.broadcast_state(id).and_then(|state| {
            let known = state.swarm().known();
            let piece = (0..known).map(PieceIndex).find(|&piece| !state.swarm().have().contains(piece))?;
            Some(format!(", {piece}: {}", state.explain(piece)))
        });
        text.push_str(&missing.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests;
