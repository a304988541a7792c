//! The secure channel between two nodes: frames and payload over one TCP connection.
//!
//! rustls makes the handshake (TLS 1.3, both sides with certificates of [`crate::tls`]) and keeps the key schedule;
//! the records are sealed and opened here, with ring (`docs/decisions/record-layer.md` says why). What the records
//! carry is a stream of items, one behind the other without regard to where records end:
//!
//! ```text
//! control frame   length: u32, big-endian, 1 to FRAME_BYTES_MAX | frame: its first byte is the type
//! payload, sealed length: u32 = 22 | payload header, type 0xf0  | the chunk: range.len() bytes
//! payload, plain  length: u32 = 22 | payload header, type 0xf0  | end of the record; then the chunk on the TCP
//!                                                                 stream itself, outside of all records
//! ```
//!
//! Items begin a record and records are filled (16 KiB) before the next one begins, as long as one call sends them, so
//! that many small frames cost one record. Type `0xf1` is the welcome: the accepting side's first item, by which the
//! connecting side knows that it has been let in; it is never seen outside of the handshake. The reader of a plain
//! chunk must have permitted plain payload ([`Receiver::permit_plain`]); it is an error otherwise.
//!
//! | file | what |
//! |---|---|
//! | [`handshake`](connect) | from a TCP connection to an authenticated channel, within [`HANDSHAKE_TIME`] |
//! | `record` | sealing and opening records; nonces, types, padding |
//! | `rekey` | the next keys, for both directions |
//! | [`Sender`], [`Receiver`] | the two halves, for two tasks; they share counters and, when keys change, the key schedule |
//! | `pacing` | has the kernel spread what goes far over the round trip |
//! | [`socket`] | settings of TCP, listening, measuring a round trip |

mod counters;
mod error;
mod handshake;
#[cfg(target_os = "linux")]
mod pacing;
mod receiver;
mod record;
mod rekey;
mod sender;
pub mod socket;
#[cfg(test)]
pub(crate) mod tests;

use std::time::Duration;

pub use counters::Counters;
pub use error::{ChannelError, HandshakeError};
pub(crate) use handshake::{Met, meet};
pub use handshake::{accept, connect, connect_with_greeting};
pub use receiver::{Incoming, Receiver};
pub use sender::Sender;

/// What both ends name in the handshake. The number is that of this module's framing; the version of the protocol is
/// in the greeting, so that two nodes that differ can tell each other.
pub const ALPN: &[u8] = b"mobcast/1";
/// From the first byte to the welcome.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// Type byte of the welcome.
pub(crate) const WELCOME_TYPE: u8 = 0xf1;
/// The number before each item.
const LENGTH_BYTES: usize = 4;
