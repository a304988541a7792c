//! What is broadcast: objects, their pieces, the manifest that proves them, and who has which.

pub mod announcement;
pub mod hashed;
pub mod have;
pub mod manifest;
pub mod object;
pub mod piece_size;
pub mod slots;
pub mod tree;

pub use announcement::{Announcement, Whole};
pub use hashed::HashedObject;
pub use object::{Descriptor, FileMeta, ObjectKind};
