//! How the coordinator's role passes on: what the authority says of a new coordinator, what a successor is entrusted
//! with beforehand, and what each member tells a new coordinator, so that it can rebuild the group from that
//! (design: vocabulary, group).

use std::net::SocketAddr;

use crate::group::assignment::{Assignment, Credential, PeerAddress, read_addresses, write_addresses};
use crate::limits::{BROADCASTS_MAX, COORDINATOR_CHILDREN_MAX, LINKS_MAX, NAME_BYTES_MAX};
use crate::units::{BroadcastId, NodeId, Signature};
use crate::wire::codec::{DecodeError, Reader, Writer};

/// Longest form of an authority's secret, bytes; ours has 49.
const SECRET_BYTES_MAX: usize = 256;

/// Says who is coordinator from now on. Signed by the authority, whose key only coordinators and their successors have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Succession {
    /// Grows by one with each coordinator; the founder's is 0, and a later one when it has come back.
    pub term: u32,
    /// The new coordinator, and where it listens.
    pub coordinator: PeerAddress,
}

/// The authority's key on its way to a successor, in a form that only drivers understand.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A member as a new coordinator must know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The authority's word for the member's key.
    pub credential: Credential,
    /// Over the credential.
    pub credential_signature: Signature,
    /// What it calls itself.
    pub name: String,
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
    /// Its last assignment: cluster, share, peers, parent.
    pub assignment: Assignment,
    /// The authority's signature over the assignment.
    pub assignment_signature: Signature,
    /// Its children in the control tree.
    pub children: Vec<NodeId>,
    /// Members that it has dropped because they broke the protocol.
    pub banned: Vec<NodeId>,
    /// Broadcasts that were over for it before it heard of the new coordinator, the latest ones.
    pub over: Vec<BroadcastId>,
}

impl Succession {
    /// Whether this one holds against another: a later term, or the lower of two nodes that claim the same one.
    pub fn prevails_over(&self, other: &Succession) -> bool {
        let rank = |s: &Succession| (s.term, std::cmp::Reverse(s.coordinator.node));
        rank(self) > rank(other)
    }

    /// The bytes that the authority signs.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut w = Writer::new();
        self.write(&mut w);
        w.into_bytes()
    }

    /// Writes it.
    pub fn write(&self, w: &mut Writer) {
        self.coordinator.write(w.u32(self.term));
    }

    /// Reads what [`Succession::write`] wrote.
    pub fn read(r: &mut Reader<'_>) -> Result<Succession, DecodeError> {
        Ok(Succession { term: r.u32()?, coordinator: PeerAddress::read(r)? })
    }
}

impl Secret {
    /// Writes it.
    pub fn write(&self, w: &mut Writer) {
        w.bytes(&self.0);
    }

    /// Reads what [`Secret::write`] wrote.
    pub fn read(r: &mut Reader<'_>) -> Result<Secret, DecodeError> {
        Ok(Secret(r.bytes("secret", SECRET_BYTES_MAX)?.to_vec()))
    }
}

/// Writes nodes.
pub fn write_nodes(w: &mut Writer, nodes: &[NodeId]) {
    w.list(nodes, |w, &node| {
        w.node(node);
    });
}

/// Reads the children that a successor of the coordinator is told of.
pub fn read_children(r: &mut Reader<'_>) -> Result<Vec<NodeId>, DecodeError> {
    r.list("children", LINKS_MAX.max(COORDINATOR_CHILDREN_MAX), Reader::node)
}

impl Standing {
    /// Writes it.
    pub fn write(&self, w: &mut Writer) {
        self.credential.write(w);
        w.raw(&self.credential_signature.0).string(&self.name);
        write_addresses(w, &self.addresses);
        self.assignment.write(w);
        w.raw(&self.assignment_signature.0);
        write_nodes(w, &self.children);
        write_nodes(w, &self.banned);
        w.list(&self.over, |w, &broadcast| {
            w.broadcast(broadcast);
        });
    }

    /// Reads what [`Standing::write`] wrote.
    pub fn read(r: &mut Reader<'_>) -> Result<Standing, DecodeError> {
        Ok(Standing {
            credential: Credential::read(r)?,
            credential_signature: r.signature()?,
            name: r.string("name of the node", NAME_BYTES_MAX)?,
            addresses: read_addresses(r)?,
            assignment: Assignment::read(r)?,
            assignment_signature: r.signature()?,
            children: read_children(r)?,
            banned: r.list("dropped members", LINKS_MAX, Reader::node)?,
            over: r.list("broadcasts that are over", BROADCASTS_MAX, Reader::broadcast)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::ClusterId;

    fn succession(term: u32, node: u32) -> Succession {
        let coordinator = PeerAddress { node: NodeId(node), cluster: ClusterId(0), rank: 0, addresses: vec![] };
        Succession { term, coordinator }
    }

    #[test]
    fn the_later_term_prevails_and_of_one_term_the_lower_node() {
        assert!(succession(2, 9).prevails_over(&succession(1, 1)));
        assert!(succession(1, 1).prevails_over(&succession(1, 2)));
        assert!(!succession(1, 2).prevails_over(&succession(1, 1)));
        assert!(!succession(1, 1).prevails_over(&succession(1, 1)));
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert!(!format!("{:?}", Secret(vec![42; 49])).contains("42"));
    }
}
