//! Who belongs together: tickets, membership, the coordinator and its bounded assignments.

pub mod assignment;
pub mod coordinator;
pub mod discovery;
pub mod gauge;
mod graph;
mod pairing;
pub mod place;
pub mod receipts;
pub mod report;
pub mod succession;
pub mod ticket;
