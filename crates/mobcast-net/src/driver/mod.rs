//! The driver of the protocol on a real machine: it feeds [`mobcast_proto::node::Node`] from sockets, files, hashing
//! threads and a clock, and does what it says. It decides nothing.

/// The port that the founder of a group listens on, if it is free.
pub const DEFAULT_PORT: u16 = 7077;
