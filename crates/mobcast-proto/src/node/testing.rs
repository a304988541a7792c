//! Nodes for the tests of this module's files.

use crate::content::announcement::Announcement;
use crate::content::object::{Descriptor, FileMeta, ObjectKind};
use crate::group::assignment::Credential;
use crate::group::place::PlanPlace;
use crate::io::{Output, PeerIdentity, Token};
use crate::strategy::Registry;
use crate::strategy::overlay::Overlays;
use crate::time::Time;
use crate::units::{BroadcastId, ClusterId, GroupId, LinkId, NodeId, PublicKey, Signature};
use crate::wire::frame::Hello;

use super::{Broadcast, Node, NodeConfig};

const GROUP: GroupId = GroupId([7; 16]);
const KEY: PublicKey = PublicKey([8; 32]);

fn config(name: &str) -> NodeConfig {
    NodeConfig {
        group: GROUP,
        name: name.into(),
        cluster: None,
        addresses: Vec::new(),
        key: KEY,
        plain: false,
        seed: 1,
        registry: Registry::default(),
        overlays: Overlays::default(),
        trusts_members: false,
    }
}

/// A node that asks to be admitted.
pub(crate) fn joiner() -> Node {
    Node::join(config("late"), vec!["127.0.0.1:7077".parse().expect("an address")], Time::ZERO)
}

/// A coordinator, alone so far.
pub(crate) fn founder() -> Node {
    let credential = Credential { group: GROUP, node: NodeId(0), key: KEY, expires_unix_s: u64::MAX };
    let mut node = Node::found(config("founder"), credential, Signature([0; 64]), Time::ZERO);
    outputs(&mut node);
    node
}

/// All that a node wants done now.
pub(crate) fn outputs(node: &mut Node) -> Vec<Output> {
    std::iter::from_fn(|| node.poll_output()).collect()
}

/// A link that a member has made to the node is up.
pub(crate) fn linked(node: &mut Node, member: NodeId) -> LinkId {
    let identity = PeerIdentity::Member { node: member, cluster: ClusterId(0) };
    let hello = Hello { node: member, ..node.hello(0) };
    node.accept_link(Time::ZERO, identity, &hello)
}

/// Bytes of a piece of [`descriptor`]'s.
pub(crate) const PIECE_BYTES: u32 = 16 << 10;

/// An object of so many pieces.
pub(crate) fn descriptor(strategy: &str, pieces: u32) -> Descriptor {
    Descriptor {
        kind: ObjectKind::Bytes,
        name: Vec::new(),
        meta: FileMeta::default(),
        length: Some(u64::from(pieces) * u64::from(PIECE_BYTES)),
        index_length: 0,
        piece_size: PIECE_BYTES,
        strategy: strategy.into(),
    }
}

/// What the root of an object says of it, by a member of another cluster.
pub(crate) fn announcement(node: &Node, root: NodeId, descriptor: Descriptor) -> Announcement {
    let credential =
        Credential { group: node.config.group, node: root, key: PublicKey([2; 32]), expires_unix_s: u64::MAX };
    let (credential_signature, signature) = (Signature([1; 64]), Signature([1; 64]));
    Announcement { cluster: ClusterId(7), descriptor, credential, credential_signature, signature }
}

/// The coordinator gives the node a place in a plan.
pub(crate) fn give_place(node: &mut Node, place: PlanPlace) {
    node.membership.assignment.as_mut().expect("it is a member").plans.push(place);
}

/// What is to be verified, if there is something.
pub(crate) fn to_verify(outputs: &[Output]) -> Option<Token> {
    outputs.iter().find_map(|output| match output {
        Output::Verify { token, .. } => Some(*token),
        _ => None,
    })
}

/// A broadcast of a node's.
pub(crate) fn broadcast_of(node: &mut Node, id: BroadcastId) -> &mut Broadcast {
    node.broadcasts.get_mut(&id).expect("it is known")
}
