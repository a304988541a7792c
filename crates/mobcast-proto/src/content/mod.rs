//! What is broadcast: objects, their pieces, the manifest that proves them, and who has which.

pub mod object;
pub mod tree;

pub use object::{Descriptor, FileMeta, ObjectKind};
