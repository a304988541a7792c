//! The frames of the protocol. Every byte string decodes to a frame or to a named error; no frame is longer than
//! [`FRAME_BYTES_MAX`]. `docs/wire-format.md` describes them for readers who do not read Rust.

use std::net::SocketAddr;

use crate::content::announcement::{Announcement, WHOLE_BYTES_MAX, Whole};
use crate::content::have::{Run, read_runs, write_runs};
use crate::content::manifest::Batch;
use crate::content::slots::SlotSet;
use crate::group::assignment::{Assignment, Credential, read_addresses, write_addresses};
use crate::group::report::{RECEIPT_RUNS_MAX, SignedReport};
use crate::group::succession::{Secret, Succession, read_children, write_nodes};
use crate::limits::{ADDRESSES_MAX, FRAME_BYTES_MAX, NAME_BYTES_MAX, PROBES_MAX};
use crate::strategy::message::StrategyMessage;
use crate::units::{BroadcastId, ByteRange, ClusterId, GroupId, NodeId, PieceIndex, PublicKey, Signature};
use crate::wire::codec::{DecodeError, Reader, Writer};

/// Version of the protocol; peers of another version are refused with both numbers named.
pub const PROTOCOL_VERSION: u16 = 1;
/// First bytes of the first frame of every stream, for all versions.
pub const MAGIC: [u8; 8] = *b"mobcast\0";

/// Most frames are no longer than this.
const SMALL_FRAME_BYTES: usize = 64;
/// What an object in one frame has beside its bytes, as a rule.
const WHOLE_PROOF_BYTES: usize = 512;

/// The first frame in each direction of every stream. Its first ten bytes (after the type) are the same in all
/// versions: magic and version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The sender's version.
    pub version: u16,
    /// The group that it means.
    pub group: GroupId,
    /// Who it is; checked against its certificate. [`NodeId`] `u32::MAX` for a node that is not admitted yet.
    pub node: NodeId,
    /// Its cluster; 0 also while it has no place yet, so that what the coordinator says of it counts more.
    pub cluster: ClusterId,
    /// Which stream of the link this is.
    pub stream: u16,
    /// Whether it lets payload bytes travel in the clear; both sides must.
    pub plain: bool,
}

/// The node id in the [`Hello`] of a node that is not admitted yet.
pub const NODE_UNKNOWN: NodeId = NodeId(u32::MAX);

/// A request to be admitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Join {
    /// What the node calls itself, for reports.
    pub name: String,
    /// The cluster that its user named.
    pub cluster: Option<String>,
    /// Where it listens; empty if it can only dial out.
    pub addresses: Vec<SocketAddr>,
    /// Its own key.
    pub key: PublicKey,
}

/// A cluster leader that a joining node may measure itself against.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leader {
    /// The cluster.
    pub cluster: ClusterId,
    /// Where its leader listens.
    pub addresses: Vec<SocketAddr>,
}

/// Why a node is not admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The group has all the nodes it may have.
    Full,
    /// The group is ending.
    Closing,
    /// The request breaks a rule of the protocol.
    Invalid,
}

/// One control frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// First frame of a stream.
    Hello(Hello),
    /// A joining node asks the coordinator to be admitted.
    Join(Join),
    /// The coordinator asks a joining node for its round-trip times to cluster leaders.
    Probe {
        /// The leaders, at most [`PROBES_MAX`].
        leaders: Vec<Leader>,
    },
    /// The answer: the shortest round-trip time to each leader in microseconds, none if it does not answer.
    Probed {
        /// In the order of the question.
        rtts_us: Vec<(ClusterId, Option<u64>)>,
    },
    /// The coordinator admits a node.
    Admit {
        /// The authority's word for the node's key.
        credential: Credential,
        /// Over the credential.
        signature: Signature,
        /// The node's X.509 certificate (DER) for TLS.
        certificate: Vec<u8>,
        /// Why it is in its cluster, in words.
        reason: String,
    },
    /// The coordinator does not admit a node.
    Refuse {
        /// Why.
        refusal: Refusal,
    },
    /// Too many nodes ask the coordinator to be admitted: this one should ask again later.
    Later {
        /// After so long, in milliseconds.
        after_ms: u32,
    },
    /// The coordinator gives a node its view of the group.
    Assign {
        /// The view.
        assignment: Box<Assignment>,
        /// The authority's signature over it.
        signature: Signature,
    },
    /// A frame for a node further down the control tree.
    Routed {
        /// Nodes on the way, the last one is its receiver.
        path: Vec<NodeId>,
        /// The encoded frame.
        frame: Vec<u8>,
    },
    /// Asks for a [`Frame::WayClear`] as soon as the [`Frame::Routed`] before it have reached the last relays on their ways.
    CheckWay {
        /// Comes back in the answer.
        token: u64,
    },
    /// Answers a [`Frame::CheckWay`].
    WayClear {
        /// The question's token.
        token: u64,
    },
    /// Reports on their way up the control tree.
    Reports {
        /// The reports.
        reports: Vec<SignedReport>,
    },
    /// The coordinator entrusts a successor with the authority's key, and tells whom to expect when it takes over.
    Entrust {
        /// The authority's key. The link is sealed.
        authority: Secret,
        /// The coordinator's children in the control tree.
        children: Vec<NodeId>,
    },
    /// There is a new coordinator; goes down the control tree, and to orphans.
    Succession {
        /// Which one.
        succession: Succession,
        /// The authority's signature.
        signature: Signature,
    },
    /// The sender's way up the control tree leads nowhere any more, and no successor has shown itself.
    Adrift,
    /// The slots of the sender's assignment, for its peers in the same cluster whose assignments are older.
    Holding {
        /// Term of the assignment.
        term: u32,
        /// Epoch of the assignment.
        epoch: u32,
        /// The sender's share.
        slots: SlotSet,
    },
    /// A broadcast exists; flooded over all links.
    Announce {
        /// The broadcast.
        broadcast: BroadcastId,
        /// What it is, with its proof.
        announcement: Box<Announcement>,
    },
    /// A manifest batch.
    Batch {
        /// The batch.
        batch: Batch,
        /// The root's signature.
        signature: Signature,
    },
    /// Send the manifest batches from one up to another: those of them that are in the first one's part.
    WantBatches {
        /// The broadcast.
        broadcast: BroadcastId,
        /// Number of the first batch wanted.
        from: u32,
        /// One past the last batch that is wanted.
        until: u32,
    },
    /// What the sender has got since its last such frame.
    Have {
        /// The broadcast.
        broadcast: BroadcastId,
        /// Manifest batches that it has.
        batches: u32,
        /// Pieces.
        pieces: Vec<Run>,
    },
    /// Send a part of a piece.
    Request {
        /// The broadcast.
        broadcast: BroadcastId,
        /// The piece.
        piece: PieceIndex,
        /// The bytes of it.
        range: ByteRange,
    },
    /// A request is taken back.
    Cancel {
        /// The broadcast.
        broadcast: BroadcastId,
        /// The piece, with all requests for it.
        piece: PieceIndex,
    },
    /// A request will not be served.
    Reject {
        /// The broadcast.
        broadcast: BroadcastId,
        /// The piece.
        piece: PieceIndex,
    },
    /// A message between strategies.
    Strategy {
        /// The broadcast.
        broadcast: BroadcastId,
        /// The message.
        message: StrategyMessage,
    },
    /// An object of one piece: announcement, manifest, data in one frame, pushed along the control tree.
    Whole {
        /// The broadcast.
        broadcast: BroadcastId,
        /// All of it.
        whole: Box<Whole>,
    },
    /// The root gives a broadcast up; flooded.
    Abort {
        /// The broadcast.
        broadcast: BroadcastId,
        /// Why, in words.
        reason: String,
        /// The root's signature.
        signature: Signature,
    },
    /// The authority says that all have the object, or that no more is to come: nodes may go; flooded.
    Release {
        /// The broadcast.
        broadcast: BroadcastId,
        /// The authority's signature.
        signature: Signature,
    },
    /// The authority says that the root is gone for good; goes down the control tree.
    RootLost {
        /// The broadcast.
        broadcast: BroadcastId,
        /// The authority's signature.
        signature: Signature,
    },
    /// Asks for a [`Frame::Pong`].
    Ping {
        /// Comes back in the answer.
        token: u64,
    },
    /// Answers a [`Frame::Ping`].
    Pong {
        /// The question's token.
        token: u64,
    },
    /// The sender is leaving on purpose.
    Bye,
    /// There are two links between sender and receiver: the sender's frames come over the other one from here on.
    Retire,
}

/// Longest text of a reason, bytes.
pub const TEXT_BYTES_MAX: usize = 1024;
/// Longest certificate, bytes; ours have about 400.
const CERTIFICATE_BYTES_MAX: usize = 4096;
/// Longest path down the control tree: `COORDINATOR_CHILDREN_MAX * TREE_CHILDREN_MAX^4` nodes need five steps; broken
/// places in the tree may make it deeper.
const PATH_MAX: usize = 32;
/// Reports of one frame.
pub const REPORTS_PER_FRAME: usize = 64;
/// Bytes of the reports of one frame, so that the longest one still fits behind others.
pub const REPORTS_BYTES_MAX: usize = FRAME_BYTES_MAX / 2;

impl Frame {
    /// The byte by which the frame starts.
    fn type_byte(&self) -> u8 {
        match self {
            Frame::Hello(_) => 0x01,
            Frame::Join(_) => 0x02,
            Frame::Probe { .. } => 0x03,
            Frame::Probed { .. } => 0x04,
            Frame::Admit { .. } => 0x05,
            Frame::Refuse { .. } => 0x06,
            Frame::Assign { .. } => 0x07,
            Frame::Routed { .. } => 0x08,
            Frame::Reports { .. } => 0x09,
            Frame::Entrust { .. } => 0x0a,
            Frame::Succession { .. } => 0x0b,
            Frame::Adrift => 0x0c,
            Frame::Holding { .. } => 0x0d,
            Frame::Later { .. } => 0x0e,
            Frame::Announce { .. } => 0x10,
            Frame::Batch { .. } => 0x11,
            Frame::WantBatches { .. } => 0x12,
            Frame::Have { .. } => 0x13,
            Frame::Request { .. } => 0x14,
            Frame::Cancel { .. } => 0x15,
            Frame::Reject { .. } => 0x16,
            Frame::Strategy { .. } => 0x17,
            Frame::Whole { .. } => 0x18,
            Frame::Abort { .. } => 0x19,
            Frame::Release { .. } => 0x1a,
            Frame::RootLost { .. } => 0x1b,
            Frame::Ping { .. } => 0x20,
            Frame::Pong { .. } => 0x21,
            Frame::Bye => 0x22,
            Frame::Retire => 0x23,
            Frame::CheckWay { .. } => 0x24,
            Frame::WayClear { .. } => 0x25,
        }
    }

    /// The frame as bytes, type byte first.
    pub fn encode(&self) -> Vec<u8> {
        let payload_bytes = match self {
            Frame::Whole { whole, .. } => whole.data.len() + WHOLE_PROOF_BYTES,
            _ => 0,
        };
        let mut w = Writer::with_capacity(SMALL_FRAME_BYTES + payload_bytes);
        w.u8(self.type_byte());
        self.write_body(&mut w);
        let bytes = w.into_bytes();
        assert!(bytes.len() <= FRAME_BYTES_MAX, "a frame of type {:#x} has {} bytes", bytes[0], bytes.len());
        bytes
    }

    fn write_body(&self, w: &mut Writer) {
        match self {
            Frame::Hello(hello) => {
                w.raw(&MAGIC).u16(hello.version).raw(&hello.group.0).node(hello.node).cluster(hello.cluster);
                w.u16(hello.stream).bool(hello.plain);
            }
            Frame::Join(join) => {
                w.string(&join.name).option(join.cluster.as_deref(), |w, name| {
                    w.string(name);
                });
                write_addresses(w, &join.addresses);
                w.raw(&join.key.0);
            }
            Frame::Probe { leaders } => {
                w.list(leaders, |w, leader| write_addresses(w.cluster(leader.cluster), &leader.addresses));
            }
            Frame::Probed { rtts_us } => {
                w.list(rtts_us, |w, (cluster, rtt_us)| {
                    w.cluster(*cluster).option(*rtt_us, |w, us| {
                        w.varint(us);
                    });
                });
            }
            Frame::Admit { credential, signature, certificate, reason } => {
                credential.write(w);
                w.raw(&signature.0).bytes(certificate).string(crate::text_within(reason, TEXT_BYTES_MAX));
            }
            Frame::Refuse { refusal } => {
                w.u8(match refusal {
                    Refusal::Full => 0,
                    Refusal::Closing => 1,
                    Refusal::Invalid => 2,
                });
            }
            Frame::Later { after_ms } => drop(w.u32(*after_ms)),
            Frame::Assign { assignment, signature } => {
                assignment.write(w);
                w.raw(&signature.0);
            }
            Frame::Routed { path, frame } => {
                w.list(path, |w, &node| {
                    w.node(node);
                });
                w.bytes(frame);
            }
            Frame::Reports { reports } => {
                w.list(reports, |w, report| report.write(w));
            }
            Frame::Entrust { authority, children } => {
                authority.write(w);
                write_nodes(w, children);
            }
            Frame::Succession { succession, signature } => {
                succession.write(w);
                w.raw(&signature.0);
            }
            Frame::Holding { term, epoch, slots } => slots.write(w.u32(*term).u32(*epoch)),
            Frame::Announce { broadcast, announcement } => announcement.write(w.broadcast(*broadcast)),
            Frame::Batch { batch, signature } => {
                batch.write(w);
                w.raw(&signature.0);
            }
            Frame::WantBatches { broadcast, from, until } => {
                w.broadcast(*broadcast).u32(*from).u32(*until);
            }
            Frame::Have { broadcast, batches, pieces } => {
                write_runs(w.broadcast(*broadcast).varint(u64::from(*batches)), pieces)
            }
            Frame::Request { broadcast, piece, range } => {
                w.broadcast(*broadcast).piece(*piece).u32(range.start).u32(range.end);
            }
            Frame::Cancel { broadcast, piece } | Frame::Reject { broadcast, piece } => {
                w.broadcast(*broadcast).piece(*piece);
            }
            Frame::Strategy { broadcast, message } => message.write(w.broadcast(*broadcast)),
            Frame::Whole { broadcast, whole } => whole.write(w.broadcast(*broadcast)),
            Frame::Abort { broadcast, reason, signature } => {
                w.broadcast(*broadcast).string(crate::text_within(reason, TEXT_BYTES_MAX)).raw(&signature.0);
            }
            Frame::Release { broadcast, signature } | Frame::RootLost { broadcast, signature } => {
                w.broadcast(*broadcast).raw(&signature.0);
            }
            Frame::Ping { token } | Frame::Pong { token } | Frame::CheckWay { token } | Frame::WayClear { token } => {
                w.u64(*token);
            }
            Frame::Adrift | Frame::Bye | Frame::Retire => {}
        }
    }

    /// Reads one frame, which must fill `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Frame, DecodeError> {
        if bytes.len() > FRAME_BYTES_MAX {
            let value = bytes.len() as u64;
            return Err(DecodeError::Limit { what: "frame", value, limit: FRAME_BYTES_MAX as u64 });
        }
        let mut r = Reader::new(bytes);
        let frame = Frame::read(&mut r)?;
        r.end()?;
        Ok(frame)
    }

    fn read(r: &mut Reader<'_>) -> Result<Frame, DecodeError> {
        Ok(match r.u8()? {
            0x01 => Frame::Hello(read_hello(r)?),
            0x02 => Frame::Join(Join {
                name: r.string("name of the node", NAME_BYTES_MAX)?,
                cluster: r.option(|r| r.string("name of the cluster", NAME_BYTES_MAX))?,
                addresses: read_addresses(r)?,
                key: r.public_key()?,
            }),
            0x03 => Frame::Probe {
                leaders: r.list("leaders", PROBES_MAX, |r| {
                    Ok(Leader { cluster: r.cluster()?, addresses: read_addresses(r)? })
                })?,
            },
            0x04 => Frame::Probed {
                rtts_us: r.list("probes", PROBES_MAX, |r| Ok((r.cluster()?, r.option(Reader::varint)?)))?,
            },
            0x05 => Frame::Admit {
                credential: Credential::read(r)?,
                signature: r.signature()?,
                certificate: r.bytes("certificate", CERTIFICATE_BYTES_MAX)?.to_vec(),
                reason: r.string("reason", TEXT_BYTES_MAX)?,
            },
            0x06 => Frame::Refuse { refusal: read_refusal(r)? },
            0x07 => Frame::Assign { assignment: Box::new(Assignment::read(r)?), signature: r.signature()? },
            0x08 => Frame::Routed {
                path: r.list("steps of a path", PATH_MAX, Reader::node)?,
                frame: r.bytes("routed frame", FRAME_BYTES_MAX)?.to_vec(),
            },
            0x09 => Frame::Reports { reports: r.list("reports", REPORTS_PER_FRAME, SignedReport::read)? },
            0x0a => Frame::Entrust { authority: Secret::read(r)?, children: read_children(r)? },
            0x0b => Frame::Succession { succession: Succession::read(r)?, signature: r.signature()? },
            0x0c => Frame::Adrift,
            0x0d => Frame::Holding { term: r.u32()?, epoch: r.u32()?, slots: SlotSet::read(r)? },
            0x0e => Frame::Later { after_ms: r.u32()? },
            0x10 => Frame::Announce { broadcast: r.broadcast()?, announcement: Box::new(Announcement::read(r)?) },
            0x11 => Frame::Batch { batch: Batch::read(r)?, signature: r.signature()? },
            0x12 => Frame::WantBatches { broadcast: r.broadcast()?, from: r.u32()?, until: r.u32()? },
            0x13 => Frame::Have { broadcast: r.broadcast()?, batches: r.varint_u32("batches")?, pieces: read_runs(r)? },
            0x14 => read_request(r)?,
            0x15 => Frame::Cancel { broadcast: r.broadcast()?, piece: r.piece()? },
            0x16 => Frame::Reject { broadcast: r.broadcast()?, piece: r.piece()? },
            0x17 => Frame::Strategy { broadcast: r.broadcast()?, message: StrategyMessage::read(r)? },
            0x18 => Frame::Whole { broadcast: r.broadcast()?, whole: Box::new(Whole::read(r)?) },
            0x19 => Frame::Abort {
                broadcast: r.broadcast()?,
                reason: r.string("reason", TEXT_BYTES_MAX)?,
                signature: r.signature()?,
            },
            0x1a => Frame::Release { broadcast: r.broadcast()?, signature: r.signature()? },
            0x1b => Frame::RootLost { broadcast: r.broadcast()?, signature: r.signature()? },
            0x20 => Frame::Ping { token: r.u64()? },
            0x21 => Frame::Pong { token: r.u64()? },
            0x22 => Frame::Bye,
            0x23 => Frame::Retire,
            0x24 => Frame::CheckWay { token: r.u64()? },
            0x25 => Frame::WayClear { token: r.u64()? },
            value => return Err(DecodeError::Unknown { what: "frame", value: u64::from(value) }),
        })
    }
}

fn read_hello(r: &mut Reader<'_>) -> Result<Hello, DecodeError> {
    if r.array::<8>()? != MAGIC {
        return Err(DecodeError::Malformed("greeting: this is not a mobcast peer"));
    }
    let version = r.u16()?;
    if version != PROTOCOL_VERSION {
        // What follows may have another form: the caller compares versions and refuses.
        r.take_rest();
        let (group, node, cluster) = (GroupId::default(), NODE_UNKNOWN, ClusterId::default());
        return Ok(Hello { version, group, node, cluster, stream: 0, plain: false });
    }
    Ok(Hello { version, group: r.group()?, node: r.node()?, cluster: r.cluster()?, stream: r.u16()?, plain: r.bool()? })
}

fn read_refusal(r: &mut Reader<'_>) -> Result<Refusal, DecodeError> {
    match r.u8()? {
        0 => Ok(Refusal::Full),
        1 => Ok(Refusal::Closing),
        2 => Ok(Refusal::Invalid),
        value => Err(DecodeError::Unknown { what: "refusal", value: u64::from(value) }),
    }
}

fn read_request(r: &mut Reader<'_>) -> Result<Frame, DecodeError> {
    let (broadcast, piece) = (r.broadcast()?, r.piece()?);
    let range = ByteRange { start: r.u32()?, end: r.u32()? };
    if range.is_empty() {
        return Err(DecodeError::Malformed("empty request"));
    }
    Ok(Frame::Request { broadcast, piece, range })
}

const _: () = assert!(WHOLE_BYTES_MAX as usize + 2_048 < FRAME_BYTES_MAX);
const _: () = assert!(ADDRESSES_MAX * 19 * PROBES_MAX < FRAME_BYTES_MAX);
const _: () = assert!(REPORTS_BYTES_MAX + RECEIPT_RUNS_MAX * 6 + 200 < FRAME_BYTES_MAX);
