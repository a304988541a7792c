//! One link to a peer: a task that reads and a task that writes. They carry bytes; what they mean is the core's to
//! say.
//!
//! | file | what |
//! |---|---|
//! | [`queue`] | what waits to be written, shared with the node's task |
//! | [`reader`] | frames to the core, payload to its place |
//! | [`writer`] | frames first, then payload a chunk at a time |
//! | [`pipe`] | pages of a file on their way to a socket |
//! | [`spans`] | payload read ahead from the store |

pub mod pipe;
pub mod queue;
pub mod reader;
pub mod spans;
pub mod writer;

use crate::channel::ChannelError;

/// Why a link ended.
#[derive(Debug, thiserror::Error)]
pub enum LinkEnd {
    /// The peer has closed it.
    #[error("the peer closed the link")]
    Closed,
    /// The connection or its cryptography failed.
    #[error("{0}")]
    Channel(#[from] ChannelError),
    /// The peer sent something that is no frame.
    #[error("the peer sent what is no frame: {0}")]
    Malformed(#[from] mobcast_proto::wire::codec::DecodeError),
    /// The peer does not read what it is sent.
    #[error("the peer does not read: {0} bytes of control frames wait for it")]
    Congested(usize),
}

impl LinkEnd {
    /// Whether the peer broke the protocol, as opposed to going away.
    pub fn is_violation(&self) -> bool {
        match self {
            LinkEnd::Closed => false,
            LinkEnd::Malformed(_) | LinkEnd::Congested(_) => true,
            LinkEnd::Channel(error) => match error {
                ChannelError::Tampered
                | ChannelError::Misbehaved(_)
                | ChannelError::Malformed(_)
                | ChannelError::PlainNotPermitted => true,
                ChannelError::Io(_)
                | ChannelError::Truncated
                | ChannelError::Alert(_)
                | ChannelError::Interrupted
                | ChannelError::Closed
                | ChannelError::Keys(_) => false,
            },
        }
    }
}
