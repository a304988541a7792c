//! Strategies decide who asks whom for what. Each is one file behind one trait, made by name from a registry, so that
//! the command, the simulator and the lab offer the same list. A strategy sees the swarm through [`Swarm`] and never
//! the wire; what it wants done it says by the swarm's action methods.

mod balanced;
mod binomial;
mod bittorrent;
mod chain;
pub mod choice;
mod flat;
mod fpfr;
mod help;
mod magpie;
pub mod message;
pub mod mob;
pub mod mob_hpdc07;
mod optimal_trees;
pub mod overlay;
mod packed;
pub mod plan;
mod published;
pub mod robber_tpds11;
mod scatter_allgather;
mod theft;
pub mod trees;
mod two_trees;

use crate::content::have::Run;
use crate::content::piece_size::{PieceSizeInput, piece_size_of_parts, strategy_piece_size};
use crate::fetch::swarm::Swarm;
use crate::limits::TREES_MAX;
use crate::units::{ClusterId, LinkId, PieceIndex};
use message::StrategyMessage;
use overlay::OverlayError;
use plan::Planner;

/// Bytes of a segment that a tree passes on, unless told otherwise: that of Open MPI's pipeline for large messages (its `coll_tuned` decision function).
const SEGMENT_BYTES: u32 = 128 << 10;
/// What a node's network card is taken for where nobody has measured, bytes per second: 1 Gbit/s.
const ASSUMED_CARD_BYTES_PER_S: u64 = 125_000_000;
/// What a new TCP connection sends in its first round trip, bytes: ten segments (RFC 6928), paced over half of it, and as many again.
const FIRST_FLIGHT_BYTES: u32 = 2 * 14_480;

/// What a strategy is told.
#[derive(Clone, Debug)]
pub enum StrategyEvent<'a> {
    /// The node has heard of the broadcast. Until [`StrategyEvent::Resumed`] no peer has room: the application has not
    /// said where the object should go, and the others must not wait for this node's share meanwhile.
    Started,
    /// The node may ask for pieces.
    Resumed,
    /// A peer takes part in the broadcast.
    PeerUp(LinkId),
    /// A peer is gone; what was asked of it will not come.
    PeerDown(LinkId),
    /// A peer has these pieces, and did not have them before.
    Have {
        /// The peer.
        peer: LinkId,
        /// The pieces.
        pieces: &'a [Run],
    },
    /// The hashes of these pieces are known: they may be asked for. No pieces, when only the end became known.
    PiecesKnown(Run),
    /// A piece is stored and verified.
    PieceStored(PieceIndex),
    /// A piece was wrong, and is missing again.
    PieceWrong(PieceIndex),
    /// A peer will not serve a request.
    RequestRejected {
        /// The peer.
        peer: LinkId,
        /// The piece.
        piece: PieceIndex,
    },
    /// A peer asked for a piece.
    PieceWanted {
        /// The peer.
        peer: LinkId,
        /// The piece.
        piece: PieceIndex,
    },
    /// Bytes have arrived from a peer, its rate was measured, and its window has room.
    LinkMeasured(LinkId),
    /// The same strategy at a peer says something.
    Message {
        /// The peer.
        peer: LinkId,
        /// What it says.
        message: &'a StrategyMessage,
    },
    /// The time that was asked for by [`Swarm::wake_at`] has come.
    Timeout,
    /// The node's view of the group has changed.
    AssignmentChanged,
}

/// How the nodes of a broadcast exchange pieces.
pub trait Strategy: Send {
    /// Reacts to one event.
    fn handle(&mut self, event: StrategyEvent<'_>, swarm: &mut Swarm);

    /// What a peer in `cluster` is told while the link to it is being made, so that it can answer as soon as it is up: a round trip
    /// sooner than after [`StrategyEvent::PeerUp`].
    fn greeting(&self, _swarm: &Swarm, _cluster: ClusterId) -> Option<StrategyMessage> {
        None
    }

    /// Whether peers in other clusters count as such as soon as a broadcast was announced to them, and not when they have said that they
    /// know of it, a round trip later. What is said to them meanwhile comes behind the announcement.
    fn speaks_first(&self) -> bool {
        false
    }

    /// Whether peers may ask for pieces that are not here yet; they are sent them when they are.
    fn takes_requests_ahead(&self) -> bool {
        false
    }

    /// Whether pieces are taken that were not asked for ([`Swarm::push`]).
    fn takes_pushed_pieces(&self) -> bool {
        false
    }

    /// Peers that are sent the batch of the manifest that begins with the hash of piece `first` without asking.
    fn manifest_children(&self, _swarm: &Swarm, _first: PieceIndex) -> Vec<LinkId> {
        Vec::new()
    }

    /// Peers that send the next batch of the manifest without being asked, if all batches come that way
    /// ([`Strategy::manifest_children`] at the other end): it is left to them for a while before another peer is asked.
    fn manifest_parents(&self, _swarm: &Swarm) -> Vec<LinkId> {
        Vec::new()
    }

    /// What the strategy has in mind for a piece, in words, for those who look for a fault.
    fn explain(&self, _swarm: &Swarm, _piece: PieceIndex) -> String {
        String::new()
    }

    /// What must hold between events, beyond the swarm's own invariants.
    ///
    /// # Panics
    /// If it does not hold: that is a bug of the strategy.
    fn check_invariants(&self, _swarm: &Swarm) {}
}

/// An entry of the registry.
#[derive(Debug)]
pub struct StrategyKind {
    /// By which it is asked for.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Makes one for a broadcast.
    pub make: fn() -> Box<dyn Strategy>,
    /// Plans trees or peers for the whole group; none for a strategy that works on the group's mesh.
    pub planner: Option<Planner>,
    /// Whether the planner has to know the network.
    pub needs_network: bool,
    /// Bytes of a piece, unless told otherwise; chosen automatically if none.
    pub piece_size: Option<u32>,
    /// Whether each node of its plan has a part of the object of its own ([`plan::Split::Parts`]): then a piece is no larger than a part.
    pub in_parts: bool,
}

impl StrategyKind {
    /// Whether it sends down trees that are planned for the whole group.
    pub fn is_tree(&self) -> bool {
        std::ptr::fn_addr_eq(self.make, trees::make as fn() -> Box<dyn Strategy>)
    }
}

/// The piece size of an object that goes by a strategy: its own, unless that were too many pieces, or one chosen automatically.
pub fn piece_size_of(kind: Option<&StrategyKind>, object: PieceSizeInput) -> u32 {
    let own = kind.and_then(|kind| {
        let nodes = object.receivers.filter(|_| kind.in_parts).map(|receivers| u64::from(receivers) + 1);
        let parts = nodes.map(|nodes| nodes.min(TREES_MAX as u64)).zip(object.length);
        let own = kind.piece_size?;
        Some(parts.map_or(own, |(parts, length)| piece_size_of_parts(own, parts, length)))
    });
    strategy_piece_size(own, object)
}

/// All strategies; the first is the default.
pub const STRATEGIES: &[StrategyKind] = &[
    mob::KIND,
    mob_hpdc07::KIND,
    robber_tpds11::KIND,
    flat::KIND,
    chain::KIND,
    binomial::KIND,
    scatter_allgather::KIND,
    two_trees::KIND,
    magpie::KIND,
    fpfr::KIND,
    balanced::KIND,
    optimal_trees::KIND,
    bittorrent::KIND,
    bittorrent::RAREST,
    bittorrent::BIASED,
];

/// The strategies that a node knows. Whoever tries out one of his own gives nodes another registry than [`STRATEGIES`].
#[derive(Clone, Copy, Debug)]
pub struct Registry(pub &'static [StrategyKind]);

impl Default for Registry {
    fn default() -> Registry {
        Registry(STRATEGIES)
    }
}

impl Registry {
    /// Finds a strategy by name.
    pub fn find(self, name: &str) -> Option<&'static StrategyKind> {
        self.0.iter().find(|kind| kind.name == name)
    }

    /// Finds a strategy by name.
    ///
    /// # Errors
    /// If there is none: it names those that there are.
    pub fn named(self, name: &str) -> Result<&'static StrategyKind, OverlayError> {
        self.find(name).ok_or_else(|| OverlayError::Unknown {
            name: name.to_owned(),
            known: self.0.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", "),
        })
    }
}

/// Finds one of [`STRATEGIES`] by name.
pub fn find(name: &str) -> Option<&'static StrategyKind> {
    Registry::default().find(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piece_sizes_are_those_of_the_publications() {
        let of = |name: &str| Registry::default().find(name).and_then(|kind| kind.piece_size);
        // Open MPI's segments, MOB's pieces, those of BitTorrent's client; ours follow from the object.
        let trees = [
            "flat",
            "chain",
            "binomial",
            "scatter-allgather",
            "two-trees",
            "magpie",
            "fpfr",
            "balanced",
            "optimal-trees",
        ];
        for tree in trees {
            assert_eq!(of(tree), Some(131_072), "{tree}");
        }
        for name in ["mob-hpdc07", "robber-tpds11"] {
            assert_eq!(of(name), Some(32_768), "{name}");
        }
        for name in ["bittorrent", "bittorrent-rarest", "bittorrent-biased"] {
            assert_eq!(of(name), Some(262_144), "{name}");
        }
        assert_eq!(of("mob"), None);
    }

    #[test]
    fn a_piece_is_no_larger_than_a_node_s_part() {
        let of = |name: &str, length: u64, receivers: Option<u32>| {
            piece_size_of(find(name), PieceSizeInput { length: Some(length), receivers })
        };
        for (nodes, length) in [(64, 1_048_576_u64), (64, 5_000_000), (2, 100_000), (500, 256 << 14), (256, 99_000_000)]
        {
            let pieces = length.div_ceil(u64::from(of("scatter-allgather", length, Some(nodes - 1))));
            assert!(pieces >= u64::from(nodes.min(256)), "{pieces} pieces of {length} bytes for {nodes} nodes");
        }
        assert_eq!(of("scatter-allgather", 1_000_000, Some(63)), 16_384, "less there is not");
        assert_eq!(of("scatter-allgather", 10_000_000, Some(63)), 131_072, "and more it does not send at a time");
        assert_eq!(of("scatter-allgather", 1_000_000, None), 131_072, "nobody knows how many will come");
        assert_eq!(of("chain", 1_000_000, Some(63)), 131_072);
    }

    /// In clusters of two, four and three.
    #[test]
    fn a_name_makes_the_trees_of_its_algorithm() {
        let plan = |name: &str| plan::tests::plan(find(name).and_then(|kind| kind.planner).expect(name), &[2, 4, 3]);
        let parents = |first: [usize; 8]| std::iter::once(None).chain(first.map(Some)).collect::<Vec<_>>();
        let trees = [
            ("flat", parents([0, 0, 0, 0, 0, 0, 0, 0])),
            ("chain", parents([0, 1, 2, 3, 4, 5, 6, 7])),
            ("binomial", parents([0, 0, 2, 0, 4, 4, 6, 0])),
            ("magpie", parents([0, 0, 2, 2, 4, 0, 6, 6])),
        ];
        for (name, parents) in trees {
            let planned = plan(name).trees;
            assert_eq!((planned.len(), &planned[0].parents), (1, &parents), "{name}");
        }
        let several = |name: &str| (plan(name).trees.len(), plan(name).split);
        assert_eq!(several("scatter-allgather"), (9, plan::Split::Parts));
        assert_eq!(several("two-trees"), (2, plan::Split::RoundRobin));
        let is_tree = |kind: &&StrategyKind| kind.is_tree();
        assert_eq!(STRATEGIES.iter().filter(is_tree).count(), 9);
    }

    /// Thirty clusters of one: MOB's nodes choose five each, Robber's take as many as are lacking to five.
    #[test]
    fn a_name_makes_the_links_and_the_nodes_of_its_algorithm() {
        let swarm = Swarm::new(crate::units::BroadcastId::default(), 32 << 10, 0, Some(1 << 20), 1);
        for (name, links, has_gold) in [("mob-hpdc07", 120..150, false), ("robber-tpds11", 75..100, true)] {
            let kind = find(name).expect(name);
            let planned = plan::tests::plan(kind.planner.expect(name), &[1; 30]);
            let ends: usize = planned.peers.iter().map(Vec::len).sum();
            assert!(links.contains(&(ends / 2)), "{name}: {ends} ends of links");
            assert_eq!((kind.make)().explain(&swarm, PieceIndex(0)).contains("gold"), has_gold, "{name}");
        }
    }
}
