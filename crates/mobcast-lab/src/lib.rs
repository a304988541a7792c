//! Emulated networks from Linux namespaces, experiments on them with mobcast and its rivals, and reports. It runs
//! released programs and knows no protocol.
//!
//! | module | what it holds |
//! |---|---|
//! | [`plan`] | what a lab consists of: pure |
//! | [`lab`] | a lab in operation: made, found again, removed |
//! | [`namespace`] | network namespaces |
//! | [`hub`] | the WAN links, in a process of their own |
//! | [`interrupt`] | being told to stop |
//! | [`run`] | experiments: programs on nodes, what they did, what it cost |
//! | [`calibrate`] | how well links are emulated |
//! | [`report`] | tables and charts from the lines that runs have written |
//! | [`cli`] | the command line |

#![deny(unsafe_code)]

pub mod calibrate;
pub mod cli;
pub mod clock;
pub mod error;
pub mod hub;
pub mod interrupt;
pub mod lab;
pub mod namespace;
pub mod plan;
pub mod report;
pub mod run;
