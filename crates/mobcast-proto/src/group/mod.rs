//! Who belongs together: tickets, membership, the coordinator and its bounded assignments.

pub mod ticket;
