//! What the coordinator tells a node: its own bounded view of the group, and the credential that proves who it is.
//! A node never needs the whole membership.

use std::net::{IpAddr, SocketAddr};

use crate::content::slots::SlotSet;
use crate::group::gauge::ProbeOrder;
use crate::group::place::PlanPlace;
use crate::limits::{
    ADDRESSES_MAX, CLUSTERS_MAX, GLOBAL_PEERS_MAX, LINKS_MAX, LOCAL_PEERS_MAX, NAME_BYTES_MAX, PLANS_MAX,
    PROBE_ORDERS_MAX, SUCCESSORS,
};
use crate::units::{ClusterId, GroupId, NodeId, PublicKey};
use crate::wire::codec::{DecodeError, Reader, Writer};

/// Where a peer stands and how it is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerAddress {
    /// The peer.
    pub node: NodeId,
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its rank in its cluster.
    pub rank: u32,
    /// Where it listens; empty if it can only dial out.
    pub addresses: Vec<SocketAddr>,
}

/// A node's view of the group, renewed by the coordinator when something changes that concerns it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// Of the coordinator that gives it; one of another coordinator is ignored.
    pub term: u32,
    /// Grows with each round of assignments in the group; an older one is ignored.
    pub epoch: u32,
    /// The node that it is for.
    pub node: NodeId,
    /// Its cluster.
    pub cluster: ClusterId,
    /// The cluster's name, for reports.
    pub cluster_name: String,
    /// Its rank in its cluster.
    pub rank: u32,
    /// Nodes in its cluster.
    pub cluster_size: u32,
    /// All clusters that have nodes.
    pub clusters: Vec<ClusterId>,
    /// The node above it in the control tree; none for the coordinator.
    pub parent: Option<PeerAddress>,
    /// Peers in its own cluster that it connects to.
    pub local_peers: Vec<PeerAddress>,
    /// Peers in other clusters that it connects to.
    pub global_peers: Vec<PeerAddress>,
    /// Peers in other clusters, among all that it is linked to, that it exchanges with first; empty until that is settled.
    pub counterparts: Vec<NodeId>,
    /// Whether members of the group take each other's word about broadcasts, instead of signatures.
    pub trusts_members: bool,
    /// Its share: the slots whose pieces it imports into its cluster.
    pub slots: SlotSet,
    /// Who takes over when the coordinator goes, in this order.
    pub successors: Vec<PeerAddress>,
    /// Its place in the plans that strategies of the group follow.
    pub plans: Vec<PlanPlace>,
    /// Peers that it connects to because of them.
    pub plan_peers: Vec<PeerAddress>,
    /// Its part in a measurement of the network, while there is one. Peers that it needs for it are among `plan_peers`.
    pub probes: Vec<ProbeOrder>,
}

/// The authority's word that a node has a key. It is also the delegation by which the node may be root.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Credential {
    /// The group.
    pub group: GroupId,
    /// The node.
    pub node: NodeId,
    /// The node's own key.
    pub key: PublicKey,
    /// Seconds since 1970 after which it is void.
    pub expires_unix_s: u64,
}

impl PeerAddress {
    /// Writes the address.
    pub fn write(&self, w: &mut Writer) {
        w.node(self.node).cluster(self.cluster).u32(self.rank);
        write_addresses(w, &self.addresses);
    }

    /// Reads what [`PeerAddress::write`] wrote.
    pub fn read(r: &mut Reader<'_>) -> Result<PeerAddress, DecodeError> {
        Ok(PeerAddress { node: r.node()?, cluster: r.cluster()?, rank: r.u32()?, addresses: read_addresses(r)? })
    }
}

/// Writes a list of addresses.
pub fn write_addresses(w: &mut Writer, addresses: &[SocketAddr]) {
    w.list(addresses, |w, address| {
        match address.ip() {
            IpAddr::V4(ip) => w.u8(4).raw(&ip.octets()),
            IpAddr::V6(ip) => w.u8(6).raw(&ip.octets()),
        };
        w.u16(address.port());
    });
}

/// Reads what [`write_addresses`] wrote.
pub fn read_addresses(r: &mut Reader<'_>) -> Result<Vec<SocketAddr>, DecodeError> {
    r.list("addresses", ADDRESSES_MAX, |r| {
        let ip = match r.u8()? {
            4 => IpAddr::from(r.array::<4>()?),
            6 => IpAddr::from(r.array::<16>()?),
            value => return Err(DecodeError::Unknown { what: "kind of address", value: u64::from(value) }),
        };
        Ok(SocketAddr::new(ip, r.u16()?))
    })
}

impl Assignment {
    /// Writes the assignment; these bytes are what the authority signs.
    pub fn write(&self, w: &mut Writer) {
        let peers = |w: &mut Writer, peers: &[PeerAddress]| {
            w.list(peers, |w, peer| peer.write(w));
        };
        w.u32(self.term).u32(self.epoch).node(self.node).cluster(self.cluster).string(&self.cluster_name);
        w.u32(self.rank).u32(self.cluster_size);
        w.list(&self.clusters, |w, &cluster| {
            w.cluster(cluster);
        });
        w.option(self.parent.as_ref(), |w, parent| parent.write(w));
        peers(w, &self.local_peers);
        peers(w, &self.global_peers);
        w.list(&self.counterparts, |w, &node| {
            w.node(node);
        });
        w.bool(self.trusts_members);
        self.slots.write(w);
        peers(w, &self.successors);
        w.list(&self.plans, |w, plan| plan.write(w));
        peers(w, &self.plan_peers);
        w.list(&self.probes, |w, order| order.write(w));
    }

    /// The bytes of [`Assignment::write`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut w = Writer::new();
        self.write(&mut w);
        w.into_bytes()
    }

    /// Reads what [`Assignment::write`] wrote.
    pub fn read(r: &mut Reader<'_>) -> Result<Assignment, DecodeError> {
        Ok(Assignment {
            term: r.u32()?,
            epoch: r.u32()?,
            node: r.node()?,
            cluster: r.cluster()?,
            cluster_name: r.string("name of the cluster", NAME_BYTES_MAX)?,
            rank: r.u32()?,
            cluster_size: r.u32()?,
            clusters: r.list("clusters", CLUSTERS_MAX, Reader::cluster)?,
            parent: r.option(PeerAddress::read)?,
            local_peers: r.list("local peers", LOCAL_PEERS_MAX, PeerAddress::read)?,
            global_peers: r.list("global peers", GLOBAL_PEERS_MAX, PeerAddress::read)?,
            counterparts: r.list("counterparts", GLOBAL_PEERS_MAX, Reader::node)?,
            trusts_members: r.bool()?,
            slots: SlotSet::read(r)?,
            successors: r.list("successors", SUCCESSORS, PeerAddress::read)?,
            plans: r.list("plans", PLANS_MAX, PlanPlace::read)?,
            plan_peers: r.list("peers of plans", LINKS_MAX, PeerAddress::read)?,
            probes: r.list("orders of a measurement", PROBE_ORDERS_MAX, ProbeOrder::read)?,
        })
    }
}

impl Credential {
    /// The bytes that the authority signs.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut w = Writer::new();
        self.write(&mut w);
        w.into_bytes()
    }

    /// Writes the credential.
    pub fn write(&self, w: &mut Writer) {
        w.raw(&self.group.0).node(self.node).raw(&self.key.0).u64(self.expires_unix_s);
    }

    /// Reads what [`Credential::write`] wrote.
    pub fn read(r: &mut Reader<'_>) -> Result<Credential, DecodeError> {
        Ok(Credential { group: r.group()?, node: r.node()?, key: r.public_key()?, expires_unix_s: r.u64()? })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::group::gauge::ProbeRole;

    pub(crate) fn assignment() -> Assignment {
        let peer = |node: u32, address: &str| PeerAddress {
            node: NodeId(node),
            cluster: ClusterId(node % 2),
            rank: node / 2,
            addresses: vec![address.parse().unwrap()],
        };
        Assignment {
            term: 0,
            epoch: 3,
            node: NodeId(9),
            cluster: ClusterId(1),
            cluster_name: "leiden".into(),
            rank: 4,
            cluster_size: 16,
            clusters: vec![ClusterId(0), ClusterId(1)],
            parent: Some(peer(1, "10.0.0.1:7777")),
            local_peers: vec![peer(3, "[fd00::3]:1"), peer(5, "10.0.0.5:2")],
            global_peers: vec![peer(2, "10.0.0.2:3")],
            counterparts: vec![NodeId(2)],
            trusts_members: false,
            slots: SlotSet::all().take(256),
            successors: vec![],
            plans: vec![crate::group::place::tests::place()],
            plan_peers: vec![peer(7, "10.0.0.7:4")],
            probes: vec![ProbeOrder { number: 5, peer: NodeId(7), role: ProbeRole::Ask }],
        }
    }

    #[test]
    fn an_assignment_travels() {
        let original = assignment();
        let bytes = original.to_bytes();
        let mut r = Reader::new(&bytes);
        assert_eq!(Assignment::read(&mut r).unwrap(), original);
        assert!(r.end().is_ok());
    }
}
