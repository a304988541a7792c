//! Who is linked to whom: the control tree, a random graph of bounded degree inside each cluster, and links between
//! clusters spread evenly over their nodes. Only the coordinator has it.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::pairing::spread;
use crate::limits::{
    COORDINATOR_CHILDREN_MAX, COORDINATOR_LOCAL_CHILDREN_MAX, GLOBAL_PEERS_MAX, GLOBAL_PEERS_TOLD, LOCAL_MESH_MAX,
    LOCAL_PEERS_MAX, LOCAL_PEERS_TOLD, TREE_CHILDREN_MAX,
};
use crate::random::Random;
use crate::sorted_map::SortedMap;
use crate::units::{ClusterId, NodeId};

/// With so many others in its cluster, the top need not be anybody's only link to it.
const TOP_COMPANY: usize = 3;
/// In larger clusters counterparts are not looked for: spreading takes time that grows with the square of their size.
const PAIRED_MAX: usize = 512;
/// Attempts to find a peer with room by chance before all are looked through.
const TRIES: usize = 32;

/// Members of another cluster among which the one with the fewest links is chosen.
const CHOICE: usize = 64;

#[derive(Default)]
struct Vertex {
    cluster: ClusterId,
    dialable: bool,
    parent: Option<NodeId>,
    children: BTreeSet<NodeId>,
    /// Peers that this node dials, and those that dial it.
    told: BTreeSet<NodeId>,
    accepted: BTreeSet<NodeId>,
    /// How many of both are in each cluster.
    peers_in: SortedMap<ClusterId, usize>,
}

impl Vertex {
    fn degree(&self, local: bool) -> usize {
        let inside = self.links_to(self.cluster);
        if local { inside } else { self.told.len() + self.accepted.len() - inside }
    }

    fn links_to(&self, cluster: ClusterId) -> usize {
        self.peers_in.get(&cluster).copied().unwrap_or(0)
    }

    fn forget(&mut self, peer: NodeId, cluster: ClusterId) {
        if self.told.remove(&peer) || self.accepted.remove(&peer) {
            *self.peers_in.get_or_default(cluster) -= 1;
        }
    }
}

/// The links of a group.
pub struct Graph {
    /// The top of the control tree: the coordinator.
    top: NodeId,
    vertices: BTreeMap<NodeId, Vertex>,
    /// Nodes without a parent, but for the top.
    orphans: BTreeSet<NodeId>,
    /// Pairs of nodes, the lower one first, of which one has dropped the other for breaking the protocol.
    estranged: BTreeSet<(NodeId, NodeId)>,
    /// Nodes that nobody is put below, and nobody is told to connect to.
    shunned: BTreeSet<NodeId>,
    /// For each ordered pair of clusters, where the search for the next peer starts.
    cursors: BTreeMap<(ClusterId, ClusterId), usize>,
    /// Who exchanges with whom of another cluster first; each pair stands here both ways.
    pairs: BTreeSet<(NodeId, NodeId)>,
    /// Who has dialled whom in vain: a firewall lets nobody in, or nobody from there.
    in_vain: BTreeSet<(NodeId, NodeId)>,
    /// In each cluster, the first member that may have room for another child: those before it have none.
    with_room: BTreeMap<ClusterId, NodeId>,
}

impl Graph {
    /// No links yet. `top` will be the top of the control tree.
    pub fn new(top: NodeId) -> Graph {
        let (orphans, estranged, shunned) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let (cursors, pairs, in_vain) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let (vertices, with_room) = (BTreeMap::new(), BTreeMap::new());
        Graph { top, vertices, orphans, estranged, shunned, cursors, pairs, in_vain, with_room }
    }

    /// Nodes in it.
    pub fn node_count(&self) -> usize {
        self.vertices.len()
    }

    /// Two nodes are not linked any more, and will not be: neither as peers nor in the control tree.
    pub fn estrange(&mut self, a: NodeId, b: NodeId) {
        self.estranged.insert((a.min(b), a.max(b)));
        for (from, to) in [(a, b), (b, a)] {
            self.disconnect(from, to);
            if self.parent(from) == Some(to) {
                self.detach(from);
            }
        }
    }

    /// Nobody is put below `node` any more, nor told to connect to it.
    pub fn shun(&mut self, node: NodeId) {
        self.shunned.insert(node);
    }

    fn are_estranged(&self, a: NodeId, b: NodeId) -> bool {
        self.estranged.contains(&(a.min(b), a.max(b)))
    }

    /// A node without links. Only a dialable one is ever told to others.
    pub fn add(&mut self, node: NodeId, cluster: ClusterId, dialable: bool) {
        self.vertices.insert(node, Vertex { cluster, dialable, ..Vertex::default() });
        if node != self.top {
            self.orphans.insert(node);
        }
    }

    /// Removes a node; returns who lost a peer with it. Children become orphans.
    pub fn remove(&mut self, node: NodeId) -> Vec<NodeId> {
        self.detach(node);
        self.orphans.remove(&node);
        let Some(vertex) = self.vertices.remove(&node) else { return Vec::new() };
        self.in_vain.retain(|&(from, to)| from != node && to != node);
        self.pairs.retain(|&(a, b)| a != node && b != node);
        for child in vertex.children {
            self.vertex_mut(child).parent = None;
            self.orphans.insert(child);
        }
        for &peer in vertex.told.iter().chain(&vertex.accepted) {
            self.vertex_mut(peer).forget(node, vertex.cluster);
        }
        vertex.told.into_iter().chain(vertex.accepted).collect()
    }

    /// The node above `node` in the control tree.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.vertices.get(&node)?.parent
    }

    /// Nodes that have no place in the control tree, the lowest first.
    pub fn orphans(&self) -> Vec<NodeId> {
        self.orphans.iter().copied().collect()
    }

    /// The nodes below `node` in the control tree, the lowest first.
    pub fn children(&self, node: NodeId) -> Vec<NodeId> {
        self.vertices.get(&node).map(|vertex| vertex.children.iter().copied().collect()).unwrap_or_default()
    }

    /// Peers of its own cluster that `node` dials.
    pub fn told_local(&self, node: NodeId) -> Vec<NodeId> {
        self.told(node, true)
    }

    /// Peers of other clusters that `node` dials.
    pub fn told_global(&self, node: NodeId) -> Vec<NodeId> {
        self.told(node, false)
    }

    /// Whether `node` has a link to another cluster.
    pub fn has_global(&self, node: NodeId) -> bool {
        self.degree(node, false) > 0
    }

    /// Nodes from the top's child down to `node`; empty for the top and for orphans.
    pub fn path_from_top(&self, node: NodeId) -> Vec<NodeId> {
        let mut path = Vec::new();
        let mut at = node;
        while at != self.top {
            path.push(at);
            match self.parent(at) {
                Some(parent) => at = parent,
                None => return Vec::new(),
            }
        }
        path.reverse();
        path
    }

    /// Takes `node` from its parent.
    pub fn detach(&mut self, node: NodeId) {
        if let Some(parent) = self.vertices.get_mut(&node).and_then(|v| v.parent.take()) {
            let vertex = self.vertex_mut(parent);
            vertex.children.remove(&node);
            let cluster = vertex.cluster;
            let first = self.with_room.entry(cluster).or_insert(parent);
            *first = parent.min(*first);
            self.orphans.insert(node);
        }
    }

    /// Puts `node` below `parent`.
    pub fn set_parent(&mut self, node: NodeId, parent: NodeId) {
        self.vertex_mut(node).parent = Some(parent);
        self.vertex_mut(parent).children.insert(node);
        self.orphans.remove(&node);
    }

    /// The place for `node` in the control tree: below a member of its own cluster, so that what goes down the tree
    /// enters each cluster once; the first of a cluster goes below the coordinator. Earlier members come first, which
    /// keeps the tree shallow; `members` are in the order of their numbers.
    pub fn find_parent(&mut self, node: NodeId, cluster: ClusterId, members: &[NodeId]) -> NodeId {
        let top = self.top;
        let top_children = self.vertices[&top].children.len();
        let near_top = self.vertices[&top].cluster == cluster && top_children < COORDINATOR_LOCAL_CHILDREN_MAX;
        if near_top {
            return top;
        }
        // Most are full in a large cluster: they are passed over once.
        let first = self.with_room.get(&cluster).copied().unwrap_or_default();
        let from = members.partition_point(|&member| member < first);
        let is_full = |member: &&NodeId| self.vertices[member].children.len() >= TREE_CHILDREN_MAX;
        let rest = &members[from + members[from..].iter().take_while(is_full).count()..];
        self.with_room.extend(rest.first().map(|&first| (cluster, first)));
        if let Some(parent) = rest.iter().copied().find(|&member| self.can_adopt(member, node)) {
            return parent;
        }
        if top_children < COORDINATOR_CHILDREN_MAX {
            return top;
        }
        // A tree of over 16 clusters hangs the later ones below members of the earlier ones.
        self.vertices.keys().copied().find(|&other| self.can_adopt(other, node)).unwrap_or(top)
    }

    /// Whether `parent` has room for `node` and hangs at the top itself, not below `node`.
    fn can_adopt(&self, parent: NodeId, node: NodeId) -> bool {
        let vertex = &self.vertices[&parent];
        parent != node
            && parent != self.top
            && vertex.dialable
            && !self.shunned.contains(&parent)
            && !self.are_estranged(parent, node)
            && !self.in_vain.contains(&(node, parent))
            && vertex.children.len() < TREE_CHILDREN_MAX
            && !self.path_from_top(parent).is_empty()
            && !self.path_from_top(parent).contains(&node)
    }

    /// Gives `node` all members of its own cluster as peers, or [`LOCAL_PEERS_TOLD`] of them in a cluster of over
    /// [`LOCAL_MESH_MAX`]. There a newcomer comes between peers that are linked and lose that link: so all keep as many as before,
    /// and the graph stays as random as if it had been drawn for all at once (Law and Siu, INFOCOM 2003). If newcomers chose
    /// peers instead, the first ones would have most, and be linked to each other. Whoever lacks peers later gets random ones.
    ///
    /// Returns whether it got any, and who was told of links that are taken back.
    pub fn connect_local(&mut self, node: NodeId, members: &[NodeId], random: &mut Random) -> (bool, Vec<NodeId>) {
        let mesh = members.len() <= LOCAL_MESH_MAX;
        let before = self.degree(node, true);
        let target = if mesh { members.len() } else { LOCAL_PEERS_TOLD };
        let mut parted = Vec::new();
        let mut tries = 0;
        if before == 0 && !mesh {
            parted.extend(self.relieve_parent(node, random));
        }
        while before == 0 && !mesh && self.degree(node, true) + 2 <= target && tries < TRIES {
            tries += 1;
            parted.extend(self.come_between(node, members[random.below(members.len())], random));
        }
        let mut missing = target.saturating_sub(self.degree(node, true));
        tries = 0;
        while missing > 0 && tries < TRIES && !mesh {
            tries += 1;
            let peer = members[random.below(members.len())];
            if self.can_link(node, peer, LOCAL_PEERS_MAX) {
                self.link(node, peer);
                missing -= 1;
            }
        }
        for &peer in members {
            if missing == 0 {
                break;
            }
            if self.can_link(node, peer, LOCAL_PEERS_MAX) {
                self.link(node, peer);
                missing -= 1;
            }
        }
        (self.degree(node, true) > before, parted)
    }

    /// The link to the parent carries payload as well: for it, the parent leaves one of its peers to `node`. Returns who of the
    /// two was told of the other, if it is possible.
    fn relieve_parent(&mut self, node: NodeId, random: &mut Random) -> Option<NodeId> {
        let parent =
            self.parent(node).filter(|parent| self.vertices[parent].cluster == self.vertices[&node].cluster)?;
        let other = self.random_local_peer(parent, random)?;
        if !self.can_link(node, other, usize::MAX) {
            return None;
        }
        let told = self.part(parent, other);
        self.link(node, other);
        Some(told)
    }

    /// Puts `node` between `peer` and one of its local peers; returns who of the two was told of the other, if it is possible.
    fn come_between(&mut self, node: NodeId, peer: NodeId, random: &mut Random) -> Option<NodeId> {
        let other = self.random_local_peer(peer, random)?;
        // Both keep as many links as they have, so that it does not matter how many these are.
        let possible = |to| self.can_link(node, to, usize::MAX);
        if !possible(peer) || !possible(other) {
            return None;
        }
        let told = self.part(peer, other);
        self.link(node, peer);
        self.link(node, other);
        Some(told)
    }

    fn random_local_peer(&self, node: NodeId, random: &mut Random) -> Option<NodeId> {
        let vertex = &self.vertices[&node];
        let peers = vertex.told.iter().chain(&vertex.accepted);
        let local: Vec<NodeId> = peers.copied().filter(|peer| self.vertices[peer].cluster == vertex.cluster).collect();
        local.get(random.below(local.len().max(1))).copied()
    }

    /// Two peers are none any more; returns which of them was told to dial the other.
    fn part(&mut self, a: NodeId, b: NodeId) -> NodeId {
        let (from, to) = if self.vertices[&a].told.contains(&b) { (a, b) } else { (b, a) };
        self.unlink(from, to);
        from
    }

    /// Gives `node` one peer in each other cluster (a random [`GLOBAL_PEERS_TOLD`] of them, if there are more), by
    /// turns over the cluster's members: proportional ranks, as in Robber (TPDS 2011), whatever the order of joining. One beside
    /// the top, where the top has at least [`TOP_COMPANY`] others around it.
    /// True if it got any.
    pub fn connect_global<'a>(
        &mut self,
        node: NodeId,
        own: ClusterId,
        others: &[ClusterId],
        members: impl Fn(ClusterId) -> &'a [NodeId] + 'a,
        random: &mut Random,
    ) -> bool {
        let vertex = &self.vertices[&node];
        let neighbours = vertex.told.iter().chain(&vertex.accepted);
        // Who has a link to the top gets another one there: the root, which it mostly is, may have enough to do inside.
        let company = |cluster: ClusterId| members(cluster).len() > TOP_COMPANY;
        let counts = |peer: &&NodeId| **peer != self.top || !company(self.vertices[*peer].cluster);
        let connected: BTreeSet<ClusterId> =
            neighbours.filter(counts).map(|peer| self.vertices[peer].cluster).collect();
        let mut wanted: Vec<ClusterId> = others.iter().copied().filter(|c| !connected.contains(c)).collect();
        let linked = others.len() - wanted.len();
        if wanted.len() + linked > GLOBAL_PEERS_TOLD {
            random.shuffle(&mut wanted);
            wanted.truncate(GLOBAL_PEERS_TOLD.saturating_sub(linked));
        }
        let mut gained = false;
        for cluster in wanted {
            if let Some(peer) = self.next_global(node, own, cluster, members(cluster)) {
                self.link(node, peer);
                gained = true;
            }
        }
        gained
    }

    /// Peers in other clusters that `node` exchanges with first.
    pub fn counterparts(&self, node: NodeId) -> Vec<NodeId> {
        self.paired_with(node).filter(|&peer| self.are_linked(node, peer)).collect()
    }

    /// Spreads the nodes of each two clusters over each other ([`crate::group::pairing`]), with new links where that needs them.
    /// Returns those whose counterparts have changed.
    pub fn pair_clusters(&mut self, clusters: &[&[NodeId]]) -> BTreeSet<NodeId> {
        let mut pairs: BTreeSet<(NodeId, NodeId)> = BTreeSet::new();
        if clusters.len() <= GLOBAL_PEERS_TOLD + 1 {
            for (i, &one) in clusters.iter().enumerate() {
                for &other in &clusters[i + 1..] {
                    let (many, few) = if one.len() >= other.len() { (one, other) } else { (other, one) };
                    // With more, a node of the smaller cluster would need more links than it may have.
                    if many.len() > PAIRED_MAX || many.len() > few.len() * GLOBAL_PEERS_MAX {
                        continue;
                    }
                    pairs.extend(self.spread(many, few).into_iter().flat_map(|(a, b)| [(a, b), (b, a)]));
                }
            }
        }
        let changed = pairs.symmetric_difference(&self.pairs).map(|&(node, _)| node).collect();
        self.pairs = pairs;
        changed
    }

    fn spread(&mut self, many: &[NodeId], few: &[NodeId]) -> BTreeMap<NodeId, NodeId> {
        let towards = few.first().map(|peer| self.vertices[peer].cluster);
        let is_there = |peer: &NodeId| self.vertices.get(peer).map(|vertex| vertex.cluster) == towards;
        let with = |&node: &NodeId| Some((node, self.paired_with(node).find(is_there)?));
        let before = many.iter().filter_map(with).collect();
        let linked: BTreeSet<(NodeId, NodeId)> = many
            .iter()
            .flat_map(|&node| {
                let vertex = &self.vertices[&node];
                vertex.told.iter().chain(&vertex.accepted).map(move |&peer| (node, peer))
            })
            .collect();
        let link = |node: NodeId, peer: NodeId| {
            // Whoever can be connected to is the one that is.
            let ways = [(node, peer), (peer, node)];
            let way = ways.into_iter().find(|&(from, to)| self.can_link(from, to, GLOBAL_PEERS_MAX));
            way.into_iter().for_each(|(from, to)| self.link(from, to));
            way.is_some()
        };
        spread(many, few, &before, |node, peer| linked.contains(&(node, peer)), link)
    }

    fn paired_with(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.pairs.range((node, NodeId(0))..=(node, NodeId(u32::MAX))).map(|&(_, peer)| peer)
    }

    /// Whether two nodes have a link: as peers, or in the control tree.
    pub fn are_neighbours(&self, a: NodeId, b: NodeId) -> bool {
        self.are_linked(a, b) || self.parent(a) == Some(b) || self.parent(b) == Some(a)
    }

    fn are_linked(&self, a: NodeId, b: NodeId) -> bool {
        self.vertices.get(&a).is_some_and(|vertex| vertex.told.contains(&b) || vertex.accepted.contains(&b))
    }

    /// Takes back that `node` dials `peer`, which it has done in vain; false if it was not told to.
    pub fn disconnect(&mut self, node: NodeId, peer: NodeId) -> bool {
        let told = self.vertices.get(&node).is_some_and(|vertex| vertex.told.contains(&peer));
        if told {
            self.unlink(node, peer);
            self.in_vain.insert((node, peer));
        }
        told
    }

    /// Takes `node` from a parent that it has dialled in vain, and will not be put below again.
    pub fn leave_unreached(&mut self, node: NodeId, parent: NodeId) {
        self.in_vain.insert((node, parent));
        self.detach(node);
    }

    /// Has `peer` dial `node`, which has dialled it in vain: who cannot be reached may reach others. False if that is
    /// not possible either.
    pub fn turn_round(&mut self, node: NodeId, peer: NodeId) -> bool {
        let cluster = |node| self.vertices.get(node).map(|vertex| vertex.cluster);
        let possible = match (cluster(&node), cluster(&peer)) {
            (Some(a), Some(b)) if a == b => self.can_link(peer, node, LOCAL_PEERS_MAX),
            (Some(_), Some(_)) => self.can_link(peer, node, GLOBAL_PEERS_MAX),
            _ => false,
        };
        if possible {
            self.link(peer, node);
        }
        possible
    }

    fn next_global(&mut self, node: NodeId, own: ClusterId, other: ClusterId, members: &[NodeId]) -> Option<NodeId> {
        let start = self.cursors.get(&(own, other)).copied().unwrap_or(0);
        let turn = |i: usize| members[(start + i) % members.len()];
        let offset = (0..members.len().min(CHOICE))
            .filter(|&i| self.can_link(node, turn(i), GLOBAL_PEERS_MAX))
            .min_by_key(|&i| (self.vertices[&turn(i)].links_to(own), i))?;
        self.cursors.insert((own, other), start + offset + 1);
        Some(turn(offset))
    }

    fn can_link(&self, node: NodeId, peer: NodeId, degree_max: usize) -> bool {
        let (from, to) = (&self.vertices[&node], &self.vertices[&peer]);
        let local = from.cluster == to.cluster;
        node != peer
            && to.dialable
            && !self.shunned.contains(&peer)
            && !self.are_estranged(node, peer)
            && !self.in_vain.contains(&(node, peer))
            && !from.told.contains(&peer)
            && !from.accepted.contains(&peer)
            && to.degree(local) < degree_max
            && from.degree(local) < degree_max
    }

    /// `node` dials `peer`, unless one of them dials the other already.
    pub fn restore_link(&mut self, node: NodeId, peer: NodeId) {
        let known = self.vertices.contains_key(&peer) && node != peer;
        if known && !self.vertices[&node].told.contains(&peer) && !self.vertices[&node].accepted.contains(&peer) {
            self.link(node, peer);
        }
    }

    fn link(&mut self, node: NodeId, peer: NodeId) {
        let (own, other) = (self.vertices[&node].cluster, self.vertices[&peer].cluster);
        let vertex = self.vertex_mut(node);
        vertex.told.insert(peer);
        *vertex.peers_in.get_or_default(other) += 1;
        let vertex = self.vertex_mut(peer);
        vertex.accepted.insert(node);
        *vertex.peers_in.get_or_default(own) += 1;
    }

    fn unlink(&mut self, node: NodeId, peer: NodeId) {
        let (own, other) = (self.vertices[&node].cluster, self.vertices[&peer].cluster);
        self.vertex_mut(node).forget(peer, other);
        self.vertex_mut(peer).forget(node, own);
    }

    fn told(&self, node: NodeId, local: bool) -> Vec<NodeId> {
        let vertex = &self.vertices[&node];
        vertex.told.iter().copied().filter(|peer| (self.vertices[peer].cluster == vertex.cluster) == local).collect()
    }

    fn degree(&self, node: NodeId, local: bool) -> usize {
        self.vertices[&node].degree(local)
    }

    fn vertex_mut(&mut self, node: NodeId) -> &mut Vertex {
        self.vertices.get_mut(&node).expect("links lead to nodes of the graph")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_members_with_room_are_the_parents_also_where_room_has_come_again() {
        let (top, cluster) = (NodeId(0), ClusterId(1));
        let mut graph = Graph::new(top);
        graph.add(top, ClusterId(0), true);
        let mut members: Vec<NodeId> = Vec::new();
        let put = |graph: &mut Graph, members: &[NodeId], node: NodeId| {
            let parent = graph.find_parent(node, cluster, members);
            graph.set_parent(node, parent);
            parent.0
        };
        for node in (1..=100).map(NodeId) {
            graph.add(node, cluster, true);
            members.push(node);
            let expected = if node.0 == 1 { 0 } else { 1 + (node.0 - 2) / TREE_CHILDREN_MAX as u32 };
            assert_eq!(put(&mut graph, &members, node), expected, "{node}");
        }
        graph.remove(NodeId(5));
        members.retain(|member| *member != NodeId(5));
        let parents = [34, 35].map(|orphan| put(&mut graph, &members, NodeId(orphan)));
        assert_eq!(parents, [1, 13]);
    }
}
