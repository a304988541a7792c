//! The protocol of mobcast as a function: inputs with the time go in, outputs come out. No sockets, files, clock,
//! threads or dice are in here; real sockets (`mobcast-net`) and the simulator (`mobcast-sim`) drive the same code.
//!
//! | module | what it decides |
//! |---|---|
//! | [`wire`] | what goes on the wire: frames, their encoding, total decoding |
//! | [`content`] | what an object is: kinds, pieces, the rolling signed manifest, have-sets |
//! | [`group`] | who is in, who is whose peer, who has which share |
//! | [`strategy`] | who asks whom for what: one file for each strategy |
//! | [`fetch`] | which piece next, and the books about what was asked of whom |
//! | [`flow`] | how much at a time, and who is served first |
//! | [`broadcast`] | one broadcast at one node: manifest, pieces, result |
//! | [`node`] | dispatches inputs to all of these |
//! | [`io`] | what the core asks its driver to do |
//! | [`limits`] | how much of anything there may be |
//! | [`units`], [`time`], [`random`], [`sorted_map`] | the types everything else is written in |

#![forbid(unsafe_code)]

pub mod broadcast;
pub mod content;
pub mod fetch;
pub mod flow;
pub mod group;
pub mod io;
pub mod limits;
pub mod node;
pub mod random;
pub mod sorted_map;
pub mod strategy;
pub mod time;
pub mod units;
pub mod wire;

pub(crate) use node::text_within;
pub use time::{Duration, Time};
pub use units::*;
