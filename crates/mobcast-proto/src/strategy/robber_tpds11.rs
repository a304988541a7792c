//! `robber-tpds11`: Robber as it was published (den Burger and Kielmann, TPDS 22(2), 2011), with the details of its reference
//! implementation. As `mob-hpdc07`, but a share is only what a node begins with. What is left of it that nobody was asked
//! for is *gold*, wanted from local and global peers; all else that is missing is *silver*, wanted from local peers alone. A
//! node without gold steals the first half of a local peer's.
//!
//! `docs/strategies/robber-tpds11.md` tells what is the authors' and what is ours.

use std::collections::BTreeMap;
use std::ops::Range;

use super::message::StrategyMessage;
use super::plan::{Plan, PlanError, PlanInput};
use super::published::links::Links;
use super::published::{Exchange, PIECE_BYTES};
use super::theft::Theft;
use super::{Strategy, StrategyEvent, StrategyKind};
use crate::content::have::{RUNS_PER_FRAME, Run, runs_of};
use crate::fetch::swarm::Swarm;
use crate::random::mix2;
use crate::time::{Duration, Time};
use crate::units::{LinkId, PieceIndex};

/// The entry of the registry.
pub const KIND: StrategyKind = StrategyKind {
    name: "robber-tpds11",
    summary: "Robber as published: MOB whose members steal half of what another one has left to import",
    make: || Box::new(RobberTpds11::default()),
    planner: Some(plan),
    needs_network: false,
    piece_size: Some(PIECE_BYTES),
    in_parts: false,
};

/// Local peers that a node has at least, where there are so many.
const LOCAL_PEERS_MIN: usize = 5;
/// Global peers that a node has at least, where there are so many to choose from.
const GLOBAL_PEERS_MIN: usize = 5;
/// Links are drawn so often until all nodes hang together.
const DRAWS: u64 = 10;
/// How much is left is told again at most this often, unless it was nothing or has become nothing.
const WORK_INTERVAL: Duration = Duration::from_millis(500);
/// Whoever does not answer a thief within this is not waited for.
const STEAL_PATIENCE: Duration = Duration::from_secs(1);

/// The strategy's state at one node.
#[derive(Default)]
pub struct RobberTpds11 {
    exchange: Exchange,
    /// Local peers that have said that they found work, and how much of it was left.
    workers: BTreeMap<LinkId, u32>,
    theft: Theft,
    /// How much gold the local peers were told of, and when.
    told: u32,
    told_at: Time,
}

impl Strategy for RobberTpds11 {
    fn handle(&mut self, event: StrategyEvent<'_>, swarm: &mut Swarm) {
        self.exchange.handle(&event, swarm);
        match event {
            StrategyEvent::PeerUp(peer) if self.told > 0 && self.exchange.is_local(swarm, peer) => {
                swarm.tell(peer, StrategyMessage::Work { left: self.told });
            }
            StrategyEvent::PeerDown(peer) => {
                self.workers.remove(&peer);
                self.theft.forget(peer);
            }
            // Whoever has become a peer by it has not been told.
            StrategyEvent::AssignmentChanged => self.told = 0,
            StrategyEvent::Message { peer, message } if self.exchange.is_local(swarm, peer) => {
                self.message(swarm, peer, message);
            }
            StrategyEvent::Timeout => {
                if let Some(victim) = self.theft.give_up(swarm.now(), STEAL_PATIENCE) {
                    self.workers.remove(&victim);
                }
            }
            _ => {}
        }
        self.look_for_work(swarm);
        self.tell_work(swarm);
    }

    fn explain(&self, swarm: &Swarm, piece: PieceIndex) -> String {
        let gold = self.exchange.unasked_count(swarm);
        let (workers, theft) = (&self.workers, &self.theft);
        format!("{}; {gold} gold, workers {workers:?}, {theft:?}", self.exchange.explain(swarm, piece))
    }

    fn check_invariants(&self, swarm: &Swarm) {
        self.exchange.check_invariants(swarm);
        assert!(!self.theft.is_under_way() || !swarm.in_root_cluster(), "the root's cluster steals");
    }
}

impl RobberTpds11 {
    fn message(&mut self, swarm: &mut Swarm, peer: LinkId, message: &StrategyMessage) {
        match message {
            StrategyMessage::Work { left: 0 } => drop(self.workers.remove(&peer)),
            StrategyMessage::Work { left } => drop(self.workers.insert(peer, *left)),
            StrategyMessage::Steal { pieces_max, .. } => self.give(swarm, peer, *pieces_max),
            StrategyMessage::Grant { pieces } => self.take(swarm, peer, pieces),
            _ => {}
        }
    }

    /// Without gold, a node steals from a random local peer that has some, if there is anything left to ask for.
    fn look_for_work(&mut self, swarm: &mut Swarm) {
        let busy = self.theft.is_under_way() || swarm.is_paused() || !self.exchange.imports();
        if busy || !self.exchange.is_settled(swarm) || !swarm.has_unasked() || self.exchange.unasked_count(swarm) > 0 {
            return;
        }
        if self.exchange.global_links(swarm).is_empty() {
            return;
        }
        // Half of one piece is none.
        let workers: Vec<LinkId> = self.workers.iter().filter(|(_, left)| **left > 1).map(|(&link, _)| link).collect();
        if workers.is_empty() {
            return;
        }
        let victim = workers[swarm.random.below(workers.len())];
        self.theft.begin(victim, swarm.now());
        // The thief's rate would matter to a victim that shares by it; here it gives half.
        swarm.tell(victim, StrategyMessage::Steal { rate_bytes_per_s: 0, pieces_max: u32::MAX });
    }

    /// A local peer steals: it gets the first half of the gold. Not while it may be about to learn of its own new share, with
    /// which it begins anew.
    fn give(&mut self, swarm: &mut Swarm, thief: LinkId, pieces_max: u32) {
        let gold = if self.exchange.is_settled(swarm) { self.exchange.unasked(swarm) } else { Vec::new() };
        let count = (gold.len() / 2).min(pieces_max as usize);
        let mut booty = runs_of(gold[..count].iter().copied());
        booty.truncate(RUNS_PER_FRAME);
        booty.iter().flat_map(|run| run.pieces()).for_each(|piece| self.exchange.give_away(piece, thief));
        let gave = !booty.is_empty();
        swarm.tell(thief, StrategyMessage::Grant { pieces: booty });
        if gave {
            self.exchange.tell_desires(swarm);
        }
    }

    /// A victim gives: its pieces are gold here.
    fn take(&mut self, swarm: &mut Swarm, victim: LinkId, pieces: &[Run]) {
        if !self.theft.end(victim) {
            return;
        }
        if !self.exchange.imports() || pieces.is_empty() {
            self.workers.remove(&victim);
        } else if self.exchange.add_work(swarm, pieces) {
            self.exchange.tell_desires(swarm);
            // Before others hear of the gold and steal it.
            self.exchange.fill_all(swarm);
        }
    }

    /// Tells local peers how much gold is left here.
    fn tell_work(&mut self, swarm: &mut Swarm) {
        let left = if self.exchange.is_settled(swarm) { self.exchange.unasked_count(swarm) } else { 0 };
        let turned = (left > 0) != (self.told > 0);
        if !turned && (left == self.told || swarm.now().since(self.told_at) < WORK_INTERVAL) {
            return;
        }
        (self.told, self.told_at) = (left, swarm.now());
        for link in self.exchange.local_links(swarm) {
            swarm.tell(link, StrategyMessage::Work { left });
        }
    }
}

fn plan(input: &PlanInput<'_>) -> Result<Plan, PlanError> {
    Ok(drawn_until_connected(|draw| drawn(input, mix2(input.seed, draw))).into_plan())
}

/// The first links that connect everybody, or else the last ones.
fn drawn_until_connected<'a>(draw: impl Fn(u64) -> Links<'a>) -> Links<'a> {
    let mut links = draw(0);
    for number in 1..DRAWS {
        if links.is_connected() {
            break;
        }
        links = draw(number);
    }
    links
}

/// Each node, one after the other, takes peers until it has enough; whoever took it before counts.
fn drawn<'a>(input: &PlanInput<'a>, seed: u64) -> Links<'a> {
    let mut links = Links::new(input, seed);
    for own in links.ranges() {
        for position in own.clone() {
            let local = links.drawn(position, own.clone());
            join_until(&mut links, position, local, LOCAL_PEERS_MIN, true);
            let global = one_of_each(&links, position, &own);
            join_until(&mut links, position, global.into_iter(), GLOBAL_PEERS_MIN, false);
        }
    }
    links
}

/// A node's candidates in the other clusters, in an order by chance: in each a random one of those with proportional ranks. That is the
/// least of several numbers: ordered by it, the largest clusters would come first.
fn one_of_each(links: &Links<'_>, position: usize, own: &Range<usize>) -> Vec<usize> {
    let ranges = links.ranges();
    let others = ranges.iter().filter(|range| *range != own && !range.is_empty());
    let in_range = others.map(|other| proportional_ranks(position - own.start, own.len(), other));
    let drawn = in_range.filter_map(|range| range.min_by_key(|&to| links.chance(position, to)));
    let mut candidates: Vec<usize> = drawn.collect();
    candidates.sort_by_key(|&to| mix2(links.chance(position, to), 1));
    candidates
}

fn join_until(
    links: &mut Links<'_>,
    position: usize,
    candidates: impl Iterator<Item = usize>,
    least: usize,
    local: bool,
) {
    for to in candidates {
        if links.degree(position, local) >= least {
            return;
        }
        links.join(position, to);
    }
}

/// The positions of another cluster that lie where a rank lies in its own one of `size`: from floor(r s_y / s_x) up to
/// ceil((r + 1) s_y / s_x).
fn proportional_ranks(rank: usize, size: usize, other: &Range<usize>) -> Range<usize> {
    let (first, end) = (rank * other.len() / size, ((rank + 1) * other.len()).div_ceil(size));
    other.start + first..other.start + end
}

#[cfg(test)]
mod tests;
