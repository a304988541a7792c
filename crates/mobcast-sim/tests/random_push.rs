//! A strategy of one's own, from `docs/strategies/README.md`: the file, the registry's line, and a run.

use std::collections::BTreeMap;

use mobcast_proto::fetch::picker::pick;
use mobcast_proto::fetch::swarm::Swarm;
use mobcast_proto::strategy::{Registry, Strategy, StrategyEvent, StrategyKind};
use mobcast_proto::{Duration, LinkId, PieceIndex, Time};
use mobcast_sim::experiment::Experiment;
use mobcast_topology::{Cluster, Scenario, Topology};

// ---- The file ----

/// `random-push`: whoever has a piece sends it to peers that lack it, at random and unasked.
pub const KIND: StrategyKind = StrategyKind {
    name: "random-push",
    summary: "whoever has a piece sends it to peers that lack it, at random",
    make: || Box::new(RandomPush::default()),
    planner: None,
    needs_network: false,
    piece_size: None,
    in_parts: false,
};

/// Each peer is sent a piece so often…
const TICK: Duration = Duration::from_millis(5);
/// …and the same one not again for so long.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Default)]
struct RandomPush {
    pushed: BTreeMap<(LinkId, PieceIndex), Time>,
    next_tick: Time,
}

impl Strategy for RandomPush {
    fn handle(&mut self, event: StrategyEvent<'_>, swarm: &mut Swarm) {
        match event {
            StrategyEvent::Started | StrategyEvent::Resumed => swarm.wake_at(swarm.now()),
            StrategyEvent::PeerUp(peer) => {
                let all: Vec<PieceIndex> = swarm.have().iter().collect();
                all.into_iter().for_each(|piece| swarm.announce(peer, piece));
            }
            StrategyEvent::PieceStored(piece) => {
                swarm.links().into_iter().for_each(|link| swarm.announce(link, piece));
            }
            StrategyEvent::PeerDown(peer) => self.pushed.retain(|(link, _), _| *link != peer),
            StrategyEvent::Timeout => self.push_to_all(swarm),
            _ => {}
        }
    }

    fn takes_pushed_pieces(&self) -> bool {
        true
    }
}

impl RandomPush {
    fn push_to_all(&mut self, swarm: &mut Swarm) {
        let now = swarm.now();
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            self.pushed.retain(|_, at| now.since(*at) < PATIENCE);
            for link in swarm.links() {
                let mut random = swarm.random.clone();
                let Some(peer) = swarm.peer(link) else { continue };
                let useful = |word: usize| swarm.have().word(word) & !peer.have.word(word);
                let score = |piece: PieceIndex| u64::from(self.pushed.contains_key(&(link, piece)));
                let chosen = pick(&mut random, swarm.have().word_count(), useful, score);
                swarm.random = random;
                if let Some(piece) = chosen.filter(|&piece| !self.pushed.contains_key(&(link, piece))) {
                    self.pushed.insert((link, piece), now);
                    swarm.push(link, piece);
                }
            }
        }
        swarm.wake_at(self.next_tick);
    }
}

// ---- The registry's line ----

const STRATEGIES: &[StrategyKind] = &[KIND];

// ---- A run ----

#[test]
fn a_strategy_of_ones_own_brings_everything_to_everybody() {
    let mut topology = Topology::new();
    topology.add_cluster(Cluster::new("a", 8).with_nic(50_000_000)).expect("it is the first");
    let mut experiment = Experiment::new(Scenario::steady(topology), 4_000_000, 1);
    (experiment.strategy, experiment.registry) = ("random-push".into(), Registry(STRATEGIES));
    experiment.piece_size = Some(32 << 10);
    let outcome = experiment.run();
    assert_eq!(outcome.stuck, None);
    assert!(outcome.complete.iter().all(Option::is_some), "{:?}", outcome.complete);
    assert_eq!(outcome.trace_hash, experiment.run().trace_hash, "the same seed gives the same run");
}
