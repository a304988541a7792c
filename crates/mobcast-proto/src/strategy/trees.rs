//! Carrying out a plan of trees: every strategy whose file only plans runs on this. A node asks its parent in each tree for the
//! tree's pieces, in their order and before the parent has them; the parent passes each on when it is stored. So data
//! flows down the trees as if it were pushed, and nobody is sent more than it can take.
//!
//! A plan knows nothing of what goes wrong. Where a parent is gone, or is silent (`trees/silence.rs`), a node asks all its
//! neighbours what they have, and fetches from them what its parent does not send. The published algorithms have no such
//! thing.

use std::collections::{BTreeMap, BTreeSet};

use crate::content::have::bits_of;
use crate::fetch::open::OpenPiece;
use crate::fetch::peer::SwarmPeer;
use crate::fetch::picker::pick;
use crate::fetch::swarm::Swarm;
use crate::group::place::{PlanPlace, TreePlace};
use crate::strategy::help::{self, MUTE_FOR};
use crate::strategy::message::StrategyMessage;
use crate::strategy::plan::Split;
use crate::strategy::{Strategy, StrategyEvent};
use crate::time::{Duration, Time};
use crate::units::{LinkId, NodeId, PieceIndex};

use rejecting::Rejecting;
use silence::Silence;

/// Whoever has missed something for this long from a parent that is silent asks its neighbours for help, and its parent when that has
/// sent nothing for as long.
const HELP_AFTER: Duration = Duration::from_secs(1);
/// So many pieces of each tree are asked for in advance whatever the parent's window: a node that is scheduled late does not leave its
/// parent with nothing to send.
const AHEAD: usize = 8;
/// So many of one parent, of all its trees together, beyond its window, and no more than this part of the pieces that may be open: should it
/// fall silent, the others are asked on.
const AHEAD_OF_PARENT: usize = 256;
const PART_OF_PARENT: usize = 4;
/// Of parts of which several come from one parent, so many pieces are asked for in turn. So whoever is at the end of a scatter has
/// something to pass on soon, however long it takes; and the few parts that are a piece longer than others do not have that go around last.
const PART_TURN: u32 = 2;
/// Batches of the manifest that begin before this hash come down all trees, so that each begins as soon as it can. Later ones come
/// down one: a node would be sent them by each of its parents, most of them in other clusters.
const HASHES_EVERYWHERE: u32 = 256;
/// How often a node looks whether it has to.
const TICK: Duration = Duration::from_millis(250);

mod rejecting;
mod silence;

/// Makes one for a broadcast.
pub(super) fn make() -> Box<dyn Strategy> {
    Box::new(Trees::default())
}

/// The strategy's state at one node.
#[derive(Default)]
pub struct Trees {
    /// For each tree, the first piece that may not have been asked for.
    cursors: Vec<u32>,
    /// Which trees are asked for in which order.
    order: Vec<usize>,
    /// Peers that want to hear of every piece.
    listeners: BTreeSet<LinkId>,
    /// Whether this node has asked for help, and fetches from whoever has a piece.
    in_need: bool,
    /// Peers that were asked in vain, since when they are not asked, and what they had sent until then, bytes: until they send more,
    /// or for some time.
    mute: BTreeMap<LinkId, (Time, u64)>,
    rejecting: Rejecting,
    silence: Silence,
    /// Since when a parent that something is missing from has been gone, or silent.
    troubled_since: Option<Time>,
    /// When it was last so.
    troubled_at: Time,
    /// Bytes received at the last look, and when that changed.
    arrived: (u64, Time),
    next_tick: Time,
}

impl Strategy for Trees {
    fn handle(&mut self, event: StrategyEvent<'_>, swarm: &mut Swarm) {
        match event {
            StrategyEvent::Started => {
                self.arrived.1 = swarm.now();
                self.take_place(swarm);
                swarm.wake_at(swarm.now() + TICK);
            }
            StrategyEvent::Resumed => self.fill(swarm),
            StrategyEvent::PeerUp(peer) => self.peer_up(swarm, peer),
            StrategyEvent::PeerDown(peer) => {
                self.listeners.remove(&peer);
                self.mute.remove(&peer);
                self.rejecting.forget(peer);
                self.silence.forget(peer);
                self.start_over(swarm);
            }
            StrategyEvent::Have { peer, .. } => self.fetch_from(swarm, peer),
            StrategyEvent::PiecesKnown(_) => self.fill(swarm),
            StrategyEvent::PieceStored(piece) => {
                let listeners: Vec<LinkId> = self.listeners.iter().copied().collect();
                listeners.into_iter().for_each(|link| swarm.announce(link, piece));
                self.fill(swarm);
            }
            StrategyEvent::PieceWrong(_) => self.start_over(swarm),
            StrategyEvent::RequestRejected { peer, .. } => {
                self.rejecting.note(swarm, peer);
                self.start_over(swarm);
            }
            StrategyEvent::PieceWanted { .. } => {}
            StrategyEvent::LinkMeasured(peer) => {
                self.mute.remove(&peer);
                self.fill(swarm);
                self.fetch_from(swarm, peer);
            }
            StrategyEvent::Message { peer, message: StrategyMessage::Interest { .. } } => self.listen(swarm, peer),
            StrategyEvent::Message { .. } => {}
            StrategyEvent::Timeout => self.tick(swarm),
            StrategyEvent::AssignmentChanged => {
                self.take_place(swarm);
                self.leave_former_parents(swarm);
                self.start_over(swarm);
            }
        }
    }

    fn speaks_first(&self) -> bool {
        true
    }

    fn takes_requests_ahead(&self) -> bool {
        true
    }

    fn manifest_children(&self, swarm: &Swarm, first: PieceIndex) -> Vec<LinkId> {
        let links = links_by_node(swarm);
        let children = manifest_trees(swarm, first).flat_map(|tree| &tree.children).map(|child| child.node);
        let children: BTreeSet<NodeId> = children.collect();
        children.iter().filter_map(|node| links.get(node).copied()).collect()
    }

    fn manifest_parents(&self, swarm: &Swarm) -> Vec<LinkId> {
        if self.in_need {
            return Vec::new();
        }
        let trees = manifest_trees(swarm, PieceIndex(swarm.known()));
        let parents: BTreeSet<NodeId> = trees.filter_map(|tree| tree.parent).collect();
        swarm.peers().filter(|(_, peer)| parents.contains(&peer.node)).map(|(link, _)| link).collect()
    }

    fn explain(&self, swarm: &Swarm, piece: PieceIndex) -> String {
        let parent = plan_of(swarm).and_then(|plan| plan.tree_of(swarm, piece).parent);
        let linked = parent.is_some_and(|node| links_by_node(swarm).contains_key(&node));
        format!("its parent for it is {parent:?} (linked: {linked}); goes by whoever has it: {}", self.in_need)
    }
}

impl Trees {
    fn peer_up(&mut self, swarm: &mut Swarm, peer: LinkId) {
        self.greet(swarm, peer);
        self.limit_rates(swarm);
        self.fill(swarm);
    }

    /// Asks a peer what it has, if this node may fetch from it what it was not sent.
    fn greet(&mut self, swarm: &mut Swarm, peer: LinkId) {
        let node = swarm.peer(peer).map(|p| p.node);
        let next = |plan: &PlanPlace| plan.trees.iter().any(|tree| node.is_some_and(|node| tree.leads_to(node)));
        if self.in_need || turned(swarm).is_some_and(next) {
            help::ask(swarm, peer);
        }
    }

    /// A peer wants to hear of all that this node has and will have.
    fn listen(&mut self, swarm: &mut Swarm, peer: LinkId) {
        if self.listeners.insert(peer) {
            help::announce_all(swarm, peer);
        }
    }

    /// The node has its place in the plan, or another one.
    fn take_place(&mut self, swarm: &mut Swarm) {
        let trees = plan_of(swarm).map_or(&[][..], |plan| &plan.trees);
        let in_parts = plan_of(swarm).is_some_and(|plan| plan.split_of(swarm) == Split::Parts);
        self.cursors = vec![0; trees.len()];
        self.order = (0..trees.len()).collect();
        if in_parts {
            // Of pieces whose turn it is, those near the root come first: a ring passes on what it got last.
            self.order.sort_by_key(|&tree| trees[tree].depth);
        }
        self.limit_rates(swarm);
        if swarm.standing.plan.is_none() && swarm.standing.node != swarm.id.root {
            self.ask_all_for_help(swarm);
        }
        swarm.links().into_iter().for_each(|link| self.greet(swarm, link));
    }

    /// Takes back what was asked of those who are not parents any more, where not a byte has come.
    fn leave_former_parents(&self, swarm: &mut Swarm) {
        let Some(plan) = plan_of(swarm).filter(|_| !self.in_need) else { return };
        let (links, lottery) = (links_by_node(swarm), plan.lottery(swarm));
        let parent = |piece: PieceIndex| links.get(&plan.trees[lottery.tree_of(piece)].parent?).copied();
        let untouched = swarm.open().filter(|(_, open)| open.is_empty());
        let asked = untouched.flat_map(|(piece, open)| open.parts.iter().map(move |part| (part.peer, piece)));
        let former: Vec<_> = asked.filter(|&(link, piece)| parent(piece) != Some(link)).collect();
        former.into_iter().for_each(|(link, piece)| swarm.cancel(link, piece));
    }

    /// Limits each child to what its trees take together, and nobody else.
    fn limit_rates(&self, swarm: &mut Swarm) {
        let rates = children(swarm);
        for (node, link) in links_by_node(swarm) {
            swarm.limit_rate(link, rates.get(&node).copied().flatten());
        }
    }

    /// What was asked for may be missing again.
    fn start_over(&mut self, swarm: &mut Swarm) {
        self.cursors.iter_mut().for_each(|cursor| *cursor = 0);
        self.fill(swarm);
        for link in swarm.links() {
            self.fetch_from(swarm, link);
        }
    }

    /// Asks parents for what comes next.
    fn fill(&mut self, swarm: &mut Swarm) {
        let Some(plan) = plan_of(swarm) else { return };
        let known = swarm.askable();
        let links = links_by_node(swarm);
        let parents: Vec<Option<LinkId>> = plan.trees.iter().map(|tree| links.get(&tree.parent?).copied()).collect();
        let lottery = plan.lottery(swarm);
        // What came late may lie in the middle of a piece, and one gap is asked for at a time: the next one is missing again.
        for (piece, _) in swarm.open().filter(|(piece, _)| swarm.is_missing(*piece)) {
            let cursor = &mut self.cursors[lottery.tree_of(piece)];
            *cursor = piece.0.min(*cursor);
        }
        let mut asked = Asked::new(swarm, &lottery);
        let free = |tree: usize, parent: &LinkId| {
            let pauses = self.mute.contains_key(parent) || self.rejecting.pauses(swarm, *parent);
            !pauses && asked.has_room(swarm, tree, *parent)
        };
        let of_parent = |&tree: &usize| Some((tree, parents[tree].filter(|parent| free(tree, parent))?));
        let requests: Vec<(usize, LinkId)> = self.order.iter().filter_map(of_parent).collect();
        // Trees that share a parent are asked for in turn, by the number of their next piece in the object, or in its part.
        let mut next: BTreeSet<(u32, usize)> = BTreeSet::new();
        for (place, &(tree, _)) in requests.iter().enumerate() {
            let piece = lottery.next(tree, self.cursors[tree], known, |piece| swarm.is_missing(piece));
            self.cursors[tree] = piece.unwrap_or(known);
            next.extend(piece.map(|piece| (lottery.turn_of(tree, piece), place)));
        }
        while let Some((_, place)) = next.pop_first() {
            let (tree, parent) = requests[place];
            if !asked.has_room(swarm, tree, parent) {
                continue;
            }
            let piece = PieceIndex(self.cursors[tree]);
            if swarm.is_missing(piece) && swarm.request(parent, piece) {
                asked.count(tree, parent);
            }
            let following = lottery.next(tree, piece.0 + 1, known, |piece| swarm.is_missing(piece));
            self.cursors[tree] = following.unwrap_or(known);
            next.extend(following.map(|piece| (lottery.turn_of(tree, piece), place)));
        }
    }

    /// Fetches from a peer what it has and the parent does not send.
    fn fetch_from(&mut self, swarm: &mut Swarm, peer: LinkId) {
        if self.mute.contains_key(&peer) {
            return;
        }
        // Also where all that may be open is asked of those who are silent.
        while swarm.window_has_room(peer) {
            let Some(piece) = self.next_from(swarm, peer) else { return };
            if let Some(open) = swarm.open_piece(piece) {
                let asked: Vec<LinkId> = open.parts.iter().map(|part| part.peer).collect();
                for link in asked {
                    self.mute.insert(link, (swarm.now(), sent_by(swarm, link)));
                    self.silence.note_in_vain(swarm, link);
                    swarm.cancel(link, piece);
                }
            }
            if !swarm.request(peer, piece) {
                return;
            }
        }
    }

    /// The next piece to fetch from a peer that is not to be asked in the plan's order: a random one, and from another cluster
    /// rather one that nobody in this cluster says to have, so that members fetch different ones.
    fn next_from(&self, swarm: &mut Swarm, peer: LinkId) -> Option<PieceIndex> {
        let state = swarm.peer(peer)?;
        let turned = turned(swarm).is_some();
        if !self.in_need && !turned {
            return None;
        }
        let (links, known) = (links_by_node(swarm), swarm.askable());
        let plan = swarm.standing.plan.as_ref().filter(|plan| !plan.trees.is_empty());
        let plan = plan.map(|plan| (plan, plan.lottery(swarm)));
        let leads_there: Vec<bool> =
            plan.iter().flat_map(|(plan, _)| &plan.trees).map(|tree| tree.leads_to(state.node)).collect();
        let silent = |link: LinkId| self.is_silent(swarm, link);
        let is_lost = |tree: &TreePlace| {
            let parent = tree.parent.filter(|_| !turned).and_then(|node| links.get(&node).copied());
            parent.is_none_or(|parent| parent == peer || silent(parent))
        };
        let lost: Option<Vec<bool>> = plan.as_ref().map(|(plan, _)| plan.trees.iter().map(is_lost).collect());
        let stuck = |open: &OpenPiece| open.parts.iter().all(|part| part.peer != peer && silent(part.peer));
        // Mostly there is nothing to take over, and all that the peer has need not be looked at to find that out.
        let nothing_is_lost = lost.as_ref().is_some_and(|lost| !lost.contains(&true));
        if nothing_is_lost && !swarm.open().any(|(_, open)| stuck(open)) {
            return None;
        }
        let mut random = swarm.random.clone();
        let may_fetch = |piece: PieceIndex| {
            let tree = plan.as_ref().map(|(_, lottery)| lottery.tree_of(piece));
            if !self.in_need && !tree.is_some_and(|tree| leads_there[tree]) {
                return false;
            }
            match swarm.open_piece(piece).filter(|open| !open.parts.is_empty()) {
                Some(open) => stuck(open),
                None => {
                    let is_lost = tree.zip(lost.as_ref()).is_none_or(|(tree, lost)| lost[tree]);
                    let open = swarm.open_piece(piece);
                    is_lost && open.map_or_else(|| swarm.has_open_room(), |open| !open.is_complete())
                }
            }
        };
        let useful = |word: usize| {
            let candidates = state.have.word(word) & !swarm.have().word(word);
            let wanted = bits_of(word, candidates).filter(|&piece| piece.0 < known && may_fetch(piece));
            wanted.fold(0, |bits, piece| bits | 1 << (piece.0 % 64))
        };
        let score = |piece: PieceIndex| u64::from(!state.local && swarm.local_copies(piece) > 0);
        let chosen = pick(&mut random, state.have.word_count(), useful, score);
        swarm.random = random;
        chosen
    }

    /// Whether a peer was asked, and sends nothing.
    fn is_silent(&self, swarm: &Swarm, link: LinkId) -> bool {
        self.mute.contains_key(&link) || self.rejecting.contains(swarm, link) || self.silence.is_silent(swarm, link)
    }

    fn tick(&mut self, swarm: &mut Swarm) {
        if swarm.now() < self.next_tick {
            return swarm.wake_at(self.next_tick);
        }
        if swarm.is_complete() {
            return;
        }
        self.next_tick = swarm.now() + TICK;
        swarm.wake_at(self.next_tick);
        let now = swarm.now();
        self.mute.retain(|&link, (since, sent)| now.since(*since) < MUTE_FOR && *sent == sent_by(swarm, link));
        self.silence.look(swarm);
        let arrived = swarm.traffic().in_lan + swarm.traffic().in_wan;
        if self.arrived.0 != arrived {
            self.arrived = (arrived, now);
        }
        if !self.is_troubled(swarm) {
            self.troubled_since = None;
            self.leave_help_if_served(swarm);
        } else {
            self.troubled_at = now;
            if now.since(*self.troubled_since.get_or_insert(now)) >= HELP_AFTER {
                self.ask_all_for_help(swarm);
            }
        }
        if self.in_need {
            self.start_over(swarm);
        } else {
            self.fill(swarm);
        }
    }

    /// Whether a parent from which something is missing is gone, or was asked and sends nothing; without parents, whether nobody has sent
    /// anything for a while.
    fn is_troubled(&self, swarm: &Swarm) -> bool {
        if swarm.have().count() == swarm.known() {
            return false;
        }
        let Some(plan) = plan_of(swarm) else {
            let sends =
                |peer: &SwarmPeer| peer.window.outstanding() > 0 && peer.window.stalled_for(swarm.now()) < HELP_AFTER;
            let lately = swarm.now().since(self.arrived.1) < HELP_AFTER;
            return !lately && !swarm.peers().any(|(_, peer)| sends(peer));
        };
        let (links, lottery) = (links_by_node(swarm), plan.lottery(swarm));
        let silent = |link: &LinkId| self.is_silent(swarm, *link);
        let bereft = |tree: &usize| {
            let parent = plan.trees[*tree].parent.and_then(|node| links.get(&node));
            let lacks = |piece: PieceIndex| !swarm.have().contains(piece);
            parent.is_none_or(silent) && lottery.next(*tree, 0, swarm.known(), lacks).is_some()
        };
        let stuck = |open: &OpenPiece| {
            !open.parts.is_empty() && !open.is_complete() && open.parts.iter().all(|part| silent(&part.peer))
        };
        (0..plan.trees.len()).any(|tree| bereft(&tree)) || swarm.open().any(|(_, open)| stuck(open))
    }

    /// Who has a place in the plan, and parents that have sent what was asked of them for a while, goes by the plan again.
    fn leave_help_if_served(&mut self, swarm: &mut Swarm) {
        let Some(plan) = plan_of(swarm).filter(|_| self.in_need) else { return };
        let links = links_by_node(swarm);
        let mut parents = plan.trees.iter().map(|tree| links.get(&tree.parent?));
        let sends = |&link: &LinkId| !self.is_silent(swarm, link) && self.silence.has_sent(swarm, link);
        let all_send = parents.all(|link| link.is_some_and(sends));
        if all_send && swarm.now().since(self.troubled_at) >= HELP_AFTER {
            self.in_need = false;
            self.start_over(swarm);
        }
    }

    /// Asks everybody, unless it goes by whoever has a piece already.
    fn ask_all_for_help(&mut self, swarm: &mut Swarm) {
        if !std::mem::replace(&mut self.in_need, true) {
            help::ask_all(swarm);
        }
    }
}

/// What a node has asked its parents for and not received in full, in requests.
struct Asked {
    of_tree: Vec<usize>,
    of_parent: BTreeMap<LinkId, usize>,
    /// The most that is asked of a parent beyond its window.
    most: usize,
}

impl Asked {
    fn new(swarm: &Swarm, lottery: &Lottery) -> Asked {
        let most = AHEAD_OF_PARENT.min(swarm.open_max() / PART_OF_PARENT).max(AHEAD);
        let mut asked = Asked { of_tree: vec![0; lottery.sums.len()], of_parent: BTreeMap::new(), most };
        for (piece, open) in swarm.open() {
            let tree = lottery.tree_of(piece);
            open.parts.iter().for_each(|part| asked.count(tree, part.peer));
        }
        asked
    }

    fn count(&mut self, tree: usize, parent: LinkId) {
        self.of_tree[tree] += 1;
        *self.of_parent.entry(parent).or_insert(0) += 1;
    }

    /// Whether a parent may be asked for another piece of a tree.
    fn has_room(&self, swarm: &Swarm, tree: usize, parent: LinkId) -> bool {
        let few = self.of_tree[tree] < AHEAD && self.of_parent.get(&parent).is_none_or(|&asked| asked < self.most);
        swarm.has_room(parent) || (few && swarm.has_open_room())
    }
}

/// The node's place, if the plan is for broadcasts from this root.
fn plan_of(swarm: &Swarm) -> Option<&PlanPlace> {
    swarm.standing.plan.as_ref().filter(|plan| plan.root == swarm.id.root && !plan.trees.is_empty())
}

/// The trees down which the batch of the manifest that begins with the hash of piece `first` comes.
fn manifest_trees(swarm: &Swarm, first: PieceIndex) -> impl Iterator<Item = &TreePlace> {
    let trees = plan_of(swarm).map_or(&[][..], |plan| &plan.trees);
    // All nodes find the same one: the first of the heaviest.
    let heaviest = trees.iter().rev().max_by_key(|tree| tree.weight);
    trees.iter().filter(move |_| first.0 < HASHES_EVERYWHERE).chain(heaviest)
}

/// The node's place, if the broadcast has another root than the plan: then pieces go through the trees away from it, whichever
/// way that is.
fn turned(swarm: &Swarm) -> Option<&PlanPlace> {
    swarm.standing.plan.as_ref().filter(|plan| plan.root != swarm.id.root && !plan.trees.is_empty())
}

/// The nodes that are below this one in any tree, with the rates at which they are sent all of it; none if nobody limits one.
fn children(swarm: &Swarm) -> BTreeMap<NodeId, Option<u64>> {
    let mut rates: BTreeMap<NodeId, Option<u64>> = BTreeMap::new();
    for child in plan_of(swarm).into_iter().flat_map(|plan| &plan.trees).flat_map(|tree| &tree.children) {
        let sum = |rate: u64, before: Option<u64>| Some(rate.saturating_add(before?));
        let limit = child.rate_bytes_per_s;
        rates.entry(child.node).and_modify(|rate| *rate = limit.and_then(|limit| sum(limit, *rate))).or_insert(limit);
    }
    rates
}

/// Payload bytes that a peer has sent.
fn sent_by(swarm: &Swarm, link: LinkId) -> u64 {
    swarm.peer(link).map_or(0, |peer| peer.window.delivered())
}

fn links_by_node(swarm: &Swarm) -> BTreeMap<NodeId, LinkId> {
    swarm.peers().map(|(link, peer)| (peer.node, link)).collect()
}

/// Which tree each piece of an object goes down.
struct Lottery {
    split: Split,
    /// Sums of the trees' weights up to each.
    sums: Vec<u64>,
    /// Pieces of the whole object, where the split needs to know.
    pieces: u32,
}

impl Lottery {
    fn tree_of(&self, piece: PieceIndex) -> usize {
        let trees = self.sums.len();
        match self.split {
            Split::RoundRobin => piece.as_usize() % trees,
            Split::Parts => {
                let part = u64::from(piece.0) * trees as u64 / u64::from(self.pieces.max(1));
                (part as usize).min(trees - 1)
            }
            Split::Weighted => {
                // The multiples of the golden ratio fall evenly on the circle, so that every stretch of the object is divided
                // in proportion (Knuth, The Art of Computer Programming 3, 6.4).
                let place = u64::from(piece.0).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let ticket = ((u128::from(place) * u128::from(self.sums[trees - 1])) >> 64) as u64;
                self.sums.partition_point(|&sum| sum <= ticket).min(trees - 1)
            }
        }
    }

    /// The first piece of a tree from `from` on, below `known`, that is `missing`.
    fn next(&self, tree: usize, from: u32, known: u32, missing: impl Fn(PieceIndex) -> bool) -> Option<u32> {
        let (from, until) = match self.split {
            Split::Parts => (from.max(self.part_start(tree)), known.min(self.part_start(tree + 1))),
            _ => (from, known),
        };
        (from..until).find(|&piece| self.tree_of(PieceIndex(piece)) == tree && missing(PieceIndex(piece)))
    }

    /// When it is a piece's turn among those of trees that share a parent.
    fn turn_of(&self, tree: usize, piece: u32) -> u32 {
        match self.split {
            Split::Parts => (piece - self.part_start(tree)) / PART_TURN,
            _ => piece,
        }
    }

    /// The first piece of a part.
    fn part_start(&self, tree: usize) -> u32 {
        (tree as u64 * u64::from(self.pieces)).div_ceil(self.sums.len() as u64) as u32
    }
}

impl PlanPlace {
    /// The split that holds for an object, from its beginning to its end: without its length nobody knows where its parts end.
    fn split_of(&self, swarm: &Swarm) -> Split {
        match self.split {
            Split::Parts if swarm.is_stream() || swarm.total().is_none() => Split::RoundRobin,
            split => split,
        }
    }

    fn lottery(&self, swarm: &Swarm) -> Lottery {
        let sums = self.trees.iter().scan(0u64, |sum, tree| {
            *sum = sum.saturating_add(tree.weight);
            Some(*sum)
        });
        Lottery { split: self.split_of(swarm), sums: sums.collect(), pieces: swarm.total().unwrap_or(0) }
    }

    /// The node's place in the tree that a piece goes down.
    ///
    /// # Panics
    /// If the plan has no trees.
    fn tree_of(&self, swarm: &Swarm, piece: PieceIndex) -> &TreePlace {
        &self.trees[self.lottery(swarm).tree_of(piece)]
    }
}

impl TreePlace {
    /// Whether a node is right above or below.
    fn leads_to(&self, node: NodeId) -> bool {
        self.parent == Some(node) || self.children.iter().any(|child| child.node == node)
    }
}

#[cfg(test)]
mod tests;
