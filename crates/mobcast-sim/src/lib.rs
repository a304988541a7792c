//! The driver of the protocol in a simulated network: virtual time, shared links, invariants checked after every step.
