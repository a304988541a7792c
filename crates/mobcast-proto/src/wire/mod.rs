//! What goes on the wire: control frames, payload headers, and the codec of both.

pub mod codec;
pub mod frame;
pub mod payload;

#[cfg(test)]
mod tests;

pub use frame::{Frame, Hello, NODE_UNKNOWN, PROTOCOL_VERSION};
pub use payload::PayloadHeader;
