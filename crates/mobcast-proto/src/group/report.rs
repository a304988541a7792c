//! What nodes tell the coordinator, over the control tree: who is lost, who cannot be reached, and in the end each
//! node's result (MOB, HPDC 2007, section 3.1, phase 4: the final acknowledgement over a tree).

use crate::content::have::{Run, read_runs, write_runs};
use crate::group::gauge::ProbeResult;
use crate::group::succession::Standing;
use crate::limits::NAME_BYTES_MAX;
use crate::units::{BroadcastId, Digest, NodeId, Signature};
use crate::wire::codec::{DecodeError, Reader, Writer};

/// Runs of one receipt: at most six bytes each, together half a frame.
pub const RECEIPT_RUNS_MAX: usize = 4_000;

/// One report of one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Report {
    /// The node has its place in the control tree.
    Ready {
        /// Of the assignment that it has: a later one may have been lost on the way.
        epoch: u32,
    },
    /// The node has an assignment.
    Assigned {
        /// Of the last one that has come.
        epoch: u32,
    },
    /// A child in the control tree is gone.
    Lost {
        /// The child.
        node: NodeId,
    },
    /// A peer that the node was told to connect to cannot be reached.
    Unreachable {
        /// The peer.
        node: NodeId,
    },
    /// A peer was dropped because it broke the protocol.
    Violation {
        /// The peer.
        node: NodeId,
    },
    /// The node is done with a broadcast.
    Result(NodeResult),
    /// The node has stored and verified these pieces since its last receipt.
    Receipt {
        /// The broadcast.
        broadcast: BroadcastId,
        /// The pieces, at most [`RECEIPT_RUNS_MAX`] runs.
        pieces: Vec<Run>,
    },
    /// All that a new coordinator must know of the node; takes the place of [`Report::Ready`] from the second term on.
    Standing(Box<Standing>),
    /// What became of a probe that the node had to make.
    Probed(ProbeResult),
}

/// How a broadcast ended for one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeResult {
    /// The broadcast.
    pub broadcast: BroadcastId,
    /// Complete with this object hash, or failed for this reason.
    pub outcome: Result<Digest, String>,
    /// Microseconds from the node's first word of the broadcast to its end.
    pub elapsed_us: u64,
    /// Payload that crossed its links.
    pub traffic: Traffic,
}

/// Payload bytes of one node and one broadcast. WAN links are those to other clusters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Received from other clusters.
    pub in_wan: u64,
    /// Received from the own cluster.
    pub in_lan: u64,
    /// Sent to other clusters.
    pub out_wan: u64,
    /// Sent within the own cluster.
    pub out_lan: u64,
    /// Received twice or in vain; part of the first two.
    pub wasted: u64,
}

/// A report with the signature of the node that makes it, so that relays cannot change it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignedReport {
    /// The node that reports.
    pub from: NodeId,
    /// The report.
    pub report: Report,
    /// Over [`SignedReport::body`], with the key of the node's credential.
    pub signature: Signature,
}

impl SignedReport {
    /// The bytes that are signed.
    pub fn body(from: NodeId, report: &Report) -> Vec<u8> {
        let mut w = Writer::new();
        w.node(from);
        report.write(&mut w);
        w.into_bytes()
    }

    /// Bytes that the report takes in a frame.
    pub fn encoded_len(&self) -> usize {
        let mut w = Writer::new();
        self.write(&mut w);
        w.len()
    }

    /// Writes the report with its signature.
    pub fn write(&self, w: &mut Writer) {
        w.node(self.from);
        self.report.write(w);
        w.raw(&self.signature.0);
    }

    /// Reads what [`SignedReport::write`] wrote.
    pub fn read(r: &mut Reader<'_>) -> Result<SignedReport, DecodeError> {
        Ok(SignedReport { from: r.node()?, report: Report::read(r)?, signature: r.signature()? })
    }
}

impl Report {
    fn write(&self, w: &mut Writer) {
        match self {
            Report::Ready { epoch } => {
                w.u8(0).u32(*epoch);
            }
            Report::Assigned { epoch } => {
                w.u8(8).u32(*epoch);
            }
            Report::Lost { node } => {
                w.u8(1).node(*node);
            }
            Report::Unreachable { node } => {
                w.u8(2).node(*node);
            }
            Report::Violation { node } => {
                w.u8(5).node(*node);
            }
            Report::Result(result) => {
                w.u8(3);
                result.write(w);
            }
            Report::Receipt { broadcast, pieces } => write_runs(w.u8(4).broadcast(*broadcast), pieces),
            Report::Standing(standing) => standing.write(w.u8(6)),
            Report::Probed(result) => result.write(w.u8(7)),
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Report, DecodeError> {
        match r.u8()? {
            0 => Ok(Report::Ready { epoch: r.u32()? }),
            1 => Ok(Report::Lost { node: r.node()? }),
            2 => Ok(Report::Unreachable { node: r.node()? }),
            3 => NodeResult::read(r).map(Report::Result),
            5 => Ok(Report::Violation { node: r.node()? }),
            4 => Ok(Report::Receipt { broadcast: r.broadcast()?, pieces: read_runs(r)? }),
            6 => Standing::read(r).map(|standing| Report::Standing(Box::new(standing))),
            7 => ProbeResult::read(r).map(Report::Probed),
            8 => Ok(Report::Assigned { epoch: r.u32()? }),
            value => Err(DecodeError::Unknown { what: "report", value: u64::from(value) }),
        }
    }
}

/// Longest reason of a failure that is reported, bytes.
pub const REASON_BYTES_MAX: usize = 2 * NAME_BYTES_MAX;

impl NodeResult {
    fn write(&self, w: &mut Writer) {
        w.broadcast(self.broadcast);
        match &self.outcome {
            Ok(hash) => w.u8(0).raw(&hash.0),
            Err(reason) => w.u8(1).string(crate::text_within(reason, REASON_BYTES_MAX)),
        };
        let t = &self.traffic;
        for value in [self.elapsed_us, t.in_wan, t.in_lan, t.out_wan, t.out_lan, t.wasted] {
            w.varint(value);
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<NodeResult, DecodeError> {
        let broadcast = r.broadcast()?;
        let outcome = match r.u8()? {
            0 => Ok(r.digest()?),
            1 => Err(r.string("reason", REASON_BYTES_MAX)?),
            value => return Err(DecodeError::Unknown { what: "outcome", value: u64::from(value) }),
        };
        let elapsed_us = r.varint()?;
        let traffic = Traffic {
            in_wan: r.varint()?,
            in_lan: r.varint()?,
            out_wan: r.varint()?,
            out_lan: r.varint()?,
            wasted: r.varint()?,
        };
        Ok(NodeResult { broadcast, outcome, elapsed_us, traffic })
    }
}
