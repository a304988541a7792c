//! Who is who: keys, certificates, and what of them is believed.
//!
//! - [`keys`]: a node's Ed25519 key and signatures.
//! - [`authority`]: the group's certificate authority, which lives with the coordinator.
//! - [`bootstrap`]: the identity that the secret of a ticket yields; good for joining and nothing else.
//! - [`identity`]: the settings of TLS for both ends, made from the above.
//! - [`peer`]: whom a verified certificate names.
//!
//! A certificate binds a key to the names below; nothing else in it is read. There are no host names: a node is
//! reached at whatever address works, and known by its certificate.
//!
//! | name in the certificate | whose |
//! |---|---|
//! | `n7.GROUP.mobcast` | node 7 of the group (its id in hex) |
//! | `coordinator.GROUP.mobcast` | the coordinator, besides its own node's name |
//! | `joiner.GROUP.mobcast` | whoever has the ticket; signed by the bootstrap key instead of the authority |
//!
//! Invariant: who a peer is follows from its verified certificate alone, never from what it says.

pub mod authority;
pub mod bootstrap;
mod der;
pub mod identity;
pub mod keys;
mod names;
pub mod peer;
mod settings;
mod verify;

pub use authority::{Authority, Certificate, Role};
pub use bootstrap::JoinSecret;
pub use identity::{Identity, Membership, ServerIdentity};
pub use keys::{NodeKey, verify as verify_signature};
pub(crate) use names::server as server_name;
pub use peer::{Expected, PeerIdentity};

/// What the system refused while a key or certificate was made.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The kernel gave no random bytes.
    #[error("the system gives no random bytes: check that getrandom(2) is permitted here")]
    NoRandomness,
    /// A certificate could not be made.
    #[error("the certificate could not be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// Stored keys or certificates that do not belong together.
    #[error("the stored identity is damaged: join the group again")]
    Damaged,
    /// rustls refuses the settings.
    #[error("the settings of TLS are refused: {0}")]
    Tls(#[from] rustls::Error),
}
