//! The driver of the protocol in a simulated network: virtual time, shared links, invariants checked after every step.

#![forbid(unsafe_code)]

pub mod experiment;
pub mod faults;
pub mod fluid;
pub mod link;
pub mod network;
pub mod packet;
pub mod queue;
pub mod run;
pub mod striping;
pub mod world;
