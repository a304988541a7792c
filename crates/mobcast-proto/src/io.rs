//! What the core asks its driver to do, and what it tells the application. Inputs are the `handle_*` methods of
//! [`crate::node::Node`]; after each of them the driver drains [`crate::node::Node::poll_output`] completely.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::content::hashed::HashedObject;
use crate::content::object::Descriptor;
use crate::group::assignment::Credential;
use crate::group::gauge::Measurement;
use crate::group::report::NodeResult;
use crate::group::succession::Secret;
use crate::time::Duration;
use crate::units::{
    BroadcastId, ByteRange, ClusterId, Digest, GroupId, LinkId, NodeId, PieceIndex, PublicKey, Signature,
};
use crate::wire::frame::{Frame, Refusal};

/// Room for so many outputs is kept where they wait for the driver; what a crowd of them took is given back when few wait again.
pub(crate) const OUTPUTS_KEPT: usize = 16;

/// Names a request to the driver's signature service; comes back with the answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Token(pub u64);

/// Whose key signs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signer {
    /// The group's authority; only the coordinator's driver has its key.
    Authority,
    /// The node's own key.
    Node,
}

/// A signature to be checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// Whose signature it should be; none for the group's authority.
    pub key: Option<PublicKey>,
    /// What was signed.
    pub message: Vec<u8>,
    /// The signature.
    pub signature: Signature,
}

/// Whom to connect to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Dial {
    /// The coordinator, by a node that is not admitted yet.
    Join {
        /// Where it listens, from the ticket.
        addresses: Vec<SocketAddr>,
    },
    /// A member.
    Member {
        /// Who must answer.
        node: NodeId,
        /// Where it listens.
        addresses: Vec<SocketAddr>,
    },
}

/// Who is at the other end of a link, as the handshake has proved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerIdentity {
    /// A node with the ticket's bootstrap certificate, which may ask to be admitted and nothing else.
    Joiner,
    /// A member.
    Member {
        /// Which one.
        node: NodeId,
        /// Its cluster, as it says.
        cluster: ClusterId,
    },
}

/// Why a link is closed by the core.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CloseReason {
    /// Nothing to do for it any more.
    #[error("no longer needed")]
    Unneeded,
    /// Both sides connected at once; the other link stays.
    #[error("another link to the same node exists")]
    Duplicate,
    /// The limit of links is reached.
    #[error("too many links")]
    Full,
    /// Nothing arrived for too long.
    #[error("silent for {0}")]
    Silent(Duration),
    /// The peer broke the protocol.
    #[error("{0}")]
    Violation(String),
}

/// What the driver has to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send a control frame.
    Send {
        /// To whom.
        link: LinkId,
        /// The frame.
        frame: Frame,
    },
    /// Send one control frame to several peers, as `Send` does to one.
    SendToAll {
        /// To whom, in this order.
        links: Vec<LinkId>,
        /// The frame.
        frame: Frame,
    },
    /// Send a part of a piece, in chunks; then call [`crate::node::Node::handle_sent`].
    SendPayload {
        /// To whom.
        link: LinkId,
        /// The broadcast.
        broadcast: BroadcastId,
        /// The piece.
        piece: PieceIndex,
        /// The bytes of it.
        range: ByteRange,
    },
    /// Stop sending this piece at the next chunk, if it is being sent.
    CancelPayload {
        /// To whom.
        link: LinkId,
        /// The broadcast.
        broadcast: BroadcastId,
        /// The piece.
        piece: PieceIndex,
    },
    /// Connect; then call `handle_link_up` or `handle_link_down` with this link.
    Connect {
        /// The link's name from here on.
        link: LinkId,
        /// To whom.
        dial: Dial,
        /// What is to arrive right behind this node's [`Hello`](crate::wire::frame::Hello), before the peer's is known here.
        greeting: Vec<Frame>,
    },
    /// Another link to the same node takes over from this one: pass on the frames that still come over it, but no payload.
    Retire {
        /// The link.
        link: LinkId,
    },
    /// Close a link, after what was sent on it. No `handle_link_down` follows.
    Close {
        /// The link.
        link: LinkId,
        /// Why.
        reason: CloseReason,
    },
    /// Measure the round-trip time to these addresses (the shortest of several); then call `handle_probed`.
    Probe {
        /// What to name in the answer.
        cluster: ClusterId,
        /// Any of these.
        addresses: Vec<SocketAddr>,
    },
    /// Sign; then call `handle_signed`.
    Sign {
        /// What to name in the answer.
        token: Token,
        /// With which key.
        signer: Signer,
        /// The message.
        message: Vec<u8>,
    },
    /// Check signatures; then call `handle_verified`.
    Verify {
        /// What to name in the answer.
        token: Token,
        /// All must hold.
        checks: Vec<Check>,
    },
    /// Make a certificate for a node's key and sign its credential; then call `handle_certified`.
    Certify {
        /// The credential; the driver fills in when it expires.
        credential: Credential,
    },
    /// Send the authority's key, in a frame [`Frame::Entrust`] with these children, over a link to a successor.
    Entrust {
        /// To whom.
        link: LinkId,
        /// The coordinator's children in the control tree.
        children: Vec<NodeId>,
    },
    /// Keep the authority's key: from now on this node may be asked to sign as the authority.
    Keep {
        /// What the coordinator's driver has sent.
        authority: Secret,
    },
    /// The node is admitted: from here on it is known by this.
    Identity {
        /// Its credential.
        credential: Credential,
        /// The authority's signature over it.
        signature: Signature,
        /// Its certificate (DER).
        certificate: Vec<u8>,
    },
    /// Hashes of pieces, verified: the driver may accept their payload.
    Hashes {
        /// The broadcast.
        broadcast: BroadcastId,
        /// The first piece.
        first: PieceIndex,
        /// Its hash and those of the following ones, shared with the manifest: there are too many to have them twice.
        hashes: Arc<[Digest]>,
        /// Length of the whole object, with the final hashes.
        length: Option<u64>,
    },
    /// All bytes of a piece have arrived: check them against the hash and store them; then call `handle_stored`,
    /// `handle_forged` or `handle_wrong`.
    VerifyPiece {
        /// The broadcast.
        broadcast: BroadcastId,
        /// The piece.
        piece: PieceIndex,
    },
    /// Payload of a piece that is not complete is no longer wanted: its buffer can go.
    DropPiece {
        /// The broadcast.
        broadcast: BroadcastId,
        /// The piece.
        piece: PieceIndex,
    },
    /// Take this as the only piece of an object, compare its hash and store it, as for `VerifyPiece`.
    StoreWhole {
        /// The broadcast.
        broadcast: BroadcastId,
        /// Its bytes.
        object: HashedObject,
    },
    /// Tell the application.
    Event(Event),
}

/// What the application learns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// This node is a member of the group.
    Admitted {
        /// The group.
        group: GroupId,
        /// Its identity.
        node: NodeId,
        /// Why it is in its cluster.
        reason: String,
    },
    /// This node has its view of the group, for the first time or renewed.
    Assigned {
        /// Its cluster.
        cluster: ClusterId,
        /// The cluster's name.
        cluster_name: String,
    },
    /// This node is not admitted.
    Refused {
        /// Why.
        refusal: Refusal,
    },
    /// The coordinator cannot be reached, or went away.
    CoordinatorLost,
    /// A successor has taken over from a coordinator that is gone, the founder has come back and taken its group back, or a coordinator
    /// that was told to be lost is reached again.
    CoordinatorChanged {
        /// The new coordinator; node 0 is the founder.
        node: NodeId,
        /// Whether that is this node, which collects the results from here on.
        own: bool,
    },
    /// A broadcast exists. The application answers with `accept` or `decline`.
    Announced {
        /// The broadcast.
        broadcast: BroadcastId,
        /// What is broadcast.
        descriptor: Descriptor,
    },
    /// Every piece is stored and verified.
    Complete {
        /// The broadcast.
        broadcast: BroadcastId,
        /// Bytes of the object.
        length: u64,
        /// BLAKE3 of the object, as the root signed it.
        object_hash: Digest,
    },
    /// The broadcast ends without success at this node.
    Failed {
        /// The broadcast.
        broadcast: BroadcastId,
        /// Why.
        failure: Failure,
    },
    /// Nobody needs this node for this broadcast any more.
    Released {
        /// The broadcast.
        broadcast: BroadcastId,
    },
    /// At the coordinator: a node has joined, or (at a new coordinator) was a member before.
    MemberJoined {
        /// The node.
        node: NodeId,
        /// What it calls itself.
        name: String,
        /// Its cluster's name.
        cluster: String,
        /// Why it is in that cluster.
        reason: String,
    },
    /// At the coordinator: a node is gone.
    MemberLost {
        /// The node.
        node: NodeId,
        /// What it called itself.
        name: String,
    },
    /// At the coordinator: a node's result.
    Result {
        /// The node.
        node: NodeId,
        /// What it calls itself.
        name: String,
        /// Its cluster's name.
        cluster: String,
        /// The result.
        result: NodeResult,
    },
    /// At the coordinator: every piece is receipted by two holders outside the root, or by all receivers where there
    /// are fewer. From here on the transfer completes without the root.
    RootMayLeave {
        /// The broadcast.
        broadcast: BroadcastId,
    },
    /// At the coordinator: a member has joined, or those who held the pieces have gone, and the root is needed again
    /// after all.
    RootNeeded {
        /// The broadcast.
        broadcast: BroadcastId,
    },
    /// At the coordinator: how far a node is.
    Progress {
        /// The broadcast.
        broadcast: BroadcastId,
        /// The node.
        node: NodeId,
        /// Pieces stored and verified.
        pieces: u32,
    },
    /// At the coordinator: the network is measured, as far as it could be, and members are told their places in plans for it.
    Measured(Box<Measurement>),
    /// At the coordinator: there is no plan for a strategy that the group was founded for, so that nodes fetch from whoever has
    /// a piece.
    Unplanned {
        /// The strategy.
        strategy: &'static str,
        /// Why.
        reason: String,
    },
    /// A peer was dropped because it broke the protocol or was silent.
    PeerDropped {
        /// The peer, where it is known.
        node: Option<NodeId>,
        /// Why.
        reason: CloseReason,
    },
}

/// Why a broadcast ends without success.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// The root gave it up.
    #[error("the sender gave up: {0}")]
    Aborted(String),
    /// No peer is left that could provide what is missing.
    #[error("the sender and all peers with the missing data are gone: {}", how_much(*missing, *pieces))]
    Incomplete {
        /// Pieces that are missing.
        missing: u32,
        /// Pieces known of; more may have been to come.
        pieces: u32,
    },
    /// This node cannot store it.
    #[error("{0}")]
    Local(String),
}

/// What is missing, in words. Of a stream whose end was not heard of, nothing that is known need be missing.
fn how_much(missing: u32, pieces: u32) -> String {
    match missing {
        0 => format!("all {pieces} pieces that were announced are here, and its end is missing"),
        _ => format!("{missing} of {pieces} pieces are missing"),
    }
}
