//! A node's place in a plan: what the coordinator tells it of the trees that a strategy follows.

use crate::limits::{LINKS_MAX, NAME_BYTES_MAX, TREES_MAX};
use crate::strategy::plan::Split;
use crate::units::NodeId;
use crate::wire::codec::{DecodeError, Reader, Writer};

/// A child in a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeChild {
    /// Which node.
    pub node: NodeId,
    /// What the tree adds to the rate at which this node sends it pieces at most, bytes per second.
    pub rate_bytes_per_s: Option<u64>,
}

/// A node's place in one tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreePlace {
    /// The tree's part of the object, among those of all trees.
    pub weight: u64,
    /// Edges from the root.
    pub depth: u32,
    /// The node above; none for the root.
    pub parent: Option<NodeId>,
    /// The nodes below.
    pub children: Vec<TreeChild>,
}

/// A node's place in the plan of one strategy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanPlace {
    /// The strategy's name.
    pub strategy: String,
    /// The root of all its trees.
    pub root: NodeId,
    /// This node's number in the plan's order; the root has 0.
    pub position: u32,
    /// Nodes in the plan.
    pub nodes: u32,
    /// The position from which this node's rank counts: the first of its cluster, and as many further on as do not import before it.
    pub cluster_first: u32,
    /// Nodes of this node's cluster in the plan among which it is to import; none if it is not.
    pub cluster_size: u32,
    /// Which piece goes down which tree.
    pub split: Split,
    /// The trees.
    pub trees: Vec<TreePlace>,
    /// Whom the plan makes it a peer of, besides its parents and children.
    pub peers: Vec<NodeId>,
}

impl PlanPlace {
    /// The node's rank among those of its cluster that import, from zero on.
    pub fn rank(&self) -> u32 {
        self.position.saturating_sub(self.cluster_first)
    }

    /// Writes the place.
    pub fn write(&self, w: &mut Writer) {
        w.string(&self.strategy).node(self.root).u32(self.position).u32(self.nodes);
        w.u32(self.cluster_first).u32(self.cluster_size);
        w.u8(match self.split {
            Split::RoundRobin => 0,
            Split::Weighted => 1,
            Split::Parts => 2,
        });
        w.list(&self.trees, |w, tree| tree.write(w));
        w.list(&self.peers, |w, &peer| {
            w.node(peer);
        });
    }

    /// Reads what [`PlanPlace::write`] wrote.
    pub fn read(r: &mut Reader<'_>) -> Result<PlanPlace, DecodeError> {
        Ok(PlanPlace {
            strategy: r.string("name of the strategy", NAME_BYTES_MAX)?,
            root: r.node()?,
            position: r.u32()?,
            nodes: r.u32()?,
            cluster_first: r.u32()?,
            cluster_size: r.u32()?,
            split: match r.u8()? {
                0 => Split::RoundRobin,
                1 => Split::Weighted,
                2 => Split::Parts,
                value => return Err(DecodeError::Unknown { what: "split", value: u64::from(value) }),
            },
            trees: r.list("trees", TREES_MAX, TreePlace::read)?,
            peers: r.list("peers", LINKS_MAX, Reader::node)?,
        })
    }
}

impl TreePlace {
    fn write(&self, w: &mut Writer) {
        w.varint(self.weight).varint(u64::from(self.depth));
        w.option(self.parent.as_ref(), |w, &parent| {
            w.node(parent);
        });
        w.list(&self.children, |w, child| {
            w.node(child.node);
            w.option(child.rate_bytes_per_s.as_ref(), |w, &rate| {
                w.varint(rate);
            });
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<TreePlace, DecodeError> {
        Ok(TreePlace {
            weight: r.varint()?,
            depth: r.varint_u32("depth")?,
            parent: r.option(Reader::node)?,
            children: r.list("children", LINKS_MAX, |r| {
                Ok(TreeChild { node: r.node()?, rate_bytes_per_s: r.option(Reader::varint)? })
            })?,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn place() -> PlanPlace {
        let child = |node: u32, rate_bytes_per_s| TreeChild { node: NodeId(node), rate_bytes_per_s };
        PlanPlace {
            strategy: "balanced".into(),
            root: NodeId(0),
            position: 3,
            nodes: 9,
            cluster_first: 2,
            cluster_size: 4,
            split: Split::Weighted,
            trees: vec![
                TreePlace { weight: 4_000_000, depth: 0, parent: None, children: vec![child(1, Some(4_000_000))] },
                TreePlace {
                    weight: 1,
                    depth: 2,
                    parent: Some(NodeId(2)),
                    children: vec![child(5, None), child(6, None)],
                },
            ],
            peers: vec![NodeId(8)],
        }
    }

    #[test]
    fn a_place_travels() {
        let mut w = Writer::new();
        place().write(&mut w);
        let bytes = w.into_bytes();
        let mut r = Reader::new(&bytes);
        assert_eq!(PlanPlace::read(&mut r).unwrap(), place());
        assert_eq!(place().rank(), 1);
        assert!(r.end().is_ok());
    }
}
