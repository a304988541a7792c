//! Where the bytes of objects come from and go to: sources, sinks, and the hashing of pieces between them.
//!
//! Everything here but [`AtHand`] blocks and is called on threads made for it; several threads may use one source
//! or sink at the same time. Offsets are bytes of the object. Nothing here knows of peers, and nothing is verified here: a
//! sink is given verified pieces, each once, in any order.
//!
//! | module | what it is |
//! |---|---|
//! | [`source`] | what a root reads: file, device, directory, memory, generated data, stream |
//! | [`sink`] | what a receiver writes and serves from: file, device, directory, memory, pipe, nothing |
//! | [`pieces`] | BLAKE3 values of pieces and of whole objects |
//! | [`synthetic`] | generated data |
//!
//! Invariants: no open follows a symbolic link beneath a destination; partial data never has the name of the
//! finished thing; the finished name appears after the data is on disk.

mod at_hand;
mod beneath;
mod error;
pub mod pieces;
pub mod sink;
pub mod source;
mod spool;
mod stamp;
pub mod synthetic;

pub use at_hand::{AtHand, is_in_memory};
pub use error::StoreError;
pub use pieces::{ObjectHasher, PieceHash, PieceHasher, hash_piece, object_hash};
pub use sink::{Finished, ObjectSink, SinkOptions, SinkTarget};
pub use source::{Available, ObjectSource, SourceDescription, StreamFeeder};
pub use spool::default_spool_dir;
pub use synthetic::synthetic_fill;
