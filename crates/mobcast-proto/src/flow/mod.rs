//! How fast: rates, round-trip times, request windows, and the order in which requests are served.

pub mod held;
pub mod probe;
pub mod upload;
pub mod window;
