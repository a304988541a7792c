//! The protocol of mobcast as a function: inputs with the time go in, outputs come out. No sockets, files, clock,
//! threads or dice are in here; real sockets (`mobcast-net`) and the simulator (`mobcast-sim`) drive the same code.
//!
//! | module | what it decides |
//! |---|---|
//! | [`wire`] | what goes on the wire: frames, their encoding, total decoding |
//! | [`content`] | what an object is: kinds, pieces, the rolling signed manifest, have-sets |
//! | [`limits`] | how much of anything there may be |
//! | [`units`], [`time`], [`random`] | the types everything else is written in |

#![forbid(unsafe_code)]

pub mod content;
pub mod group;
pub mod limits;
pub mod random;
pub mod time;
pub mod units;
pub mod wire;

pub use time::{Duration, Time};
pub use units::*;
