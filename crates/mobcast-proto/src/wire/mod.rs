//! What goes on the wire.

pub mod codec;
