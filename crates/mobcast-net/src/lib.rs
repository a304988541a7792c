//! The driver of the protocol on a real machine: sockets, TLS, timers, hashing threads, disk. It decides nothing.

pub mod channel;
pub mod driver;
pub mod store;
pub mod tls;
