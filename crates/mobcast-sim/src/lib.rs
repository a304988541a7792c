//! The driver of the protocol in a simulated network: virtual time, shared links, invariants checked after every step.
//!
//! | module | what |
//! |---|---|
//! | [`experiment`] | a broadcast in a network with a seed, and what came of it |
//! | [`run`] | one planned run of an experiment's file, and its line of results |
//! | [`faults`] | groups in which everything goes wrong that may: drawn from a seed, run, judged, made smaller |
//! | [`striping`] | transfers over many connections, as in the striping paper |
//! | [`world`] | machines with their nodes and drivers, and what happens to them |
//! | [`network`] | who is connected to whom, over either model: [`fluid`], links shared max-min fairly, or [`packet`], queues and TCP |
//! | [`link`], [`queue`] | the messages that wait on a connection, and the events that wait for their time |

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
