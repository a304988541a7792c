//! Messages between the strategies of two nodes, beyond what every strategy needs (have, request, cancel, payload).

use crate::content::have::{Run, read_runs, write_runs};
use crate::content::slots::SlotSet;
use crate::units::ClusterId;
use crate::wire::codec::{DecodeError, Reader, Writer};

/// One message of a strategy to the same strategy on a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StrategyMessage {
    /// Tell me of the pieces of these slots, and of these single pieces, when you have them.
    Interest {
        /// Slots; replaces what was said before.
        slots: SlotSet,
        /// Single pieces; added to what was said before.
        pieces: Vec<Run>,
    },
    /// Fetch the pieces of these slots from me first; others of my peers fetch the rest.
    Share {
        /// Slots; replaces what was said before.
        slots: SlotSet,
    },
    /// How much of the sender's share is left, for those who look for work.
    Backlog {
        /// Pieces of its share that it has not asked anybody for.
        unrequested: u32,
        /// Its import rate, bytes per second.
        rate_bytes_per_s: u64,
    },
    /// Give me some of your share.
    Steal {
        /// The thief's import rate, bytes per second.
        rate_bytes_per_s: u64,
        /// Pieces that it would take at most.
        pieces_max: u32,
    },
    /// These pieces of my share are yours; none if nothing is left to give.
    Grant {
        /// The pieces.
        pieces: Vec<Run>,
    },
    /// I have asked another cluster for these pieces, although they may be in your share.
    Importing {
        /// The pieces.
        pieces: Vec<Run>,
    },
    /// This cluster, the root's, was asked for these pieces by another one.
    Leaving {
        /// The cluster that asked.
        to: ClusterId,
        /// The pieces.
        pieces: Vec<Run>,
    },
    /// I do not serve you for the time being.
    Choke,
    /// I serve you.
    Unchoke,
    /// The sender has so many pieces to import that it has not asked anybody for: others may steal some.
    Work {
        /// How many; none if there is nothing to steal.
        left: u32,
    },
    /// Tell me of these pieces when you have them, and of no others.
    Desire {
        /// The pieces; they replace what was said before.
        pieces: Vec<Run>,
    },
    /// You have pieces that I want.
    Interested,
    /// You have no piece that I want.
    NotInterested,
}

impl StrategyMessage {
    /// Writes the message.
    pub fn write(&self, w: &mut Writer) {
        match self {
            StrategyMessage::Interest { slots, pieces } => {
                w.u8(0);
                slots.write(w);
                write_runs(w, pieces);
            }
            StrategyMessage::Share { slots } => {
                w.u8(1);
                slots.write(w);
            }
            StrategyMessage::Backlog { unrequested, rate_bytes_per_s } => {
                w.u8(2).varint(u64::from(*unrequested)).varint(*rate_bytes_per_s);
            }
            StrategyMessage::Steal { rate_bytes_per_s, pieces_max } => {
                w.u8(3).varint(*rate_bytes_per_s).varint(u64::from(*pieces_max));
            }
            StrategyMessage::Grant { pieces } => {
                w.u8(4);
                write_runs(w, pieces);
            }
            StrategyMessage::Importing { pieces } => {
                w.u8(7);
                write_runs(w, pieces);
            }
            StrategyMessage::Leaving { to, pieces } => {
                w.u8(8).cluster(*to);
                write_runs(w, pieces);
            }
            StrategyMessage::Choke => {
                w.u8(5);
            }
            StrategyMessage::Unchoke => {
                w.u8(6);
            }
            StrategyMessage::Work { left } => {
                w.u8(9).varint(u64::from(*left));
            }
            StrategyMessage::Desire { pieces } => {
                w.u8(10);
                write_runs(w, pieces);
            }
            StrategyMessage::Interested => {
                w.u8(11);
            }
            StrategyMessage::NotInterested => {
                w.u8(12);
            }
        }
    }

    /// Reads what [`StrategyMessage::write`] wrote.
    pub fn read(r: &mut Reader<'_>) -> Result<StrategyMessage, DecodeError> {
        Ok(match r.u8()? {
            0 => StrategyMessage::Interest { slots: SlotSet::read(r)?, pieces: read_runs(r)? },
            1 => StrategyMessage::Share { slots: SlotSet::read(r)? },
            2 => StrategyMessage::Backlog { unrequested: r.varint_u32("backlog")?, rate_bytes_per_s: r.varint()? },
            3 => StrategyMessage::Steal { rate_bytes_per_s: r.varint()?, pieces_max: r.varint_u32("pieces to steal")? },
            4 => StrategyMessage::Grant { pieces: read_runs(r)? },
            5 => StrategyMessage::Choke,
            6 => StrategyMessage::Unchoke,
            7 => StrategyMessage::Importing { pieces: read_runs(r)? },
            8 => StrategyMessage::Leaving { to: r.cluster()?, pieces: read_runs(r)? },
            9 => StrategyMessage::Work { left: r.varint_u32("work")? },
            10 => StrategyMessage::Desire { pieces: read_runs(r)? },
            11 => StrategyMessage::Interested,
            12 => StrategyMessage::NotInterested,
            value => return Err(DecodeError::Unknown { what: "strategy message", value: u64::from(value) }),
        })
    }
}
