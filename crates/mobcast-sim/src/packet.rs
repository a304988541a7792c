//! The packet model: every packet waits in drop-tail queues, and TCP behaves as it does. For networks whose queues and losses
//! matter more than their size; the fluid model ([`crate::fluid`]) is for thousands of nodes.
//!
//! | module | what |
//! |---|---|
//! | [`port`] | a line with a drop-tail queue before it |
//! | [`tcp`] | the sending and the receiving end of a connection, without any network |
//! | [`engine`] | ports, connections over paths of ports, and the events that join them |
//!
//! Each packet costs one event for each port that it crosses: a port knows when a packet leaves as soon as it takes it,
//! because those before it are known. The event queue holds one entry for each port with packets, and one for each running timer.

pub mod engine;
pub mod port;
pub mod tcp;
