//! The next keys. rustls keeps the key schedule; both halves of a channel share it, and meet here only when keys change
//! (at the earliest every 2^24 records, or when the peer asks).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustls::kernel::KernelConnection;
use rustls::{ConnectionTrafficSecrets, Error};

use super::ChannelError;

/// A traffic secret and the number of its first record.
pub type Secrets = (u64, ConnectionTrafficSecrets);

/// Handshake type of a key update (RFC 8446 section 4.6.3).
const KEY_UPDATE: u8 = 24;
/// The whole message that tells the peer of our next key, and asks for nothing.
pub const KEY_UPDATE_MESSAGE: [u8; 5] = [KEY_UPDATE, 0, 0, 1, 0];

/// Where the next secrets come from.
pub trait KeySchedule: Send {
    /// The next secret for sending.
    fn next_sending(&mut self) -> Result<Secrets, Error>;
    /// The next secret for receiving.
    fn next_receiving(&mut self) -> Result<Secrets, Error>;
}

impl<Data: Send> KeySchedule for KernelConnection<Data> {
    fn next_sending(&mut self) -> Result<Secrets, Error> {
        self.update_tx_secret()
    }

    fn next_receiving(&mut self) -> Result<Secrets, Error> {
        self.update_rx_secret()
    }
}

/// The key schedule of a channel, and the peer's wish that we update our sending key.
pub struct Rekeying {
    schedule: Mutex<Box<dyn KeySchedule>>,
    wanted: AtomicBool,
}

impl Rekeying {
    /// At the end of a handshake.
    pub fn new(schedule: Box<dyn KeySchedule>) -> Rekeying {
        Rekeying { schedule: Mutex::new(schedule), wanted: AtomicBool::new(false) }
    }

    /// The next secret for sending.
    pub fn next_sending(&self) -> Result<Secrets, ChannelError> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner).next_sending().map_err(ChannelError::Keys)
    }

    /// Whether the peer has asked for a new sending key since the last call. Asking twice counts once, as RFC 8446
    /// permits, so that a peer cannot make us queue answers.
    pub fn take_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Relaxed)
    }

    /// Takes a handshake message that came after the handshake; gives the next secret for receiving. Nothing but a key
    /// update is permitted, alone in its record.
    pub fn handle(&self, message: &[u8]) -> Result<Secrets, ChannelError> {
        match *message {
            [KEY_UPDATE, 0, 0, 1, requested @ (0 | 1)] => {
                self.wanted.fetch_or(requested == 1, Ordering::Relaxed);
                let mut schedule = self.schedule.lock().unwrap_or_else(PoisonError::into_inner);
                schedule.next_receiving().map_err(ChannelError::Keys)
            }
            _ => Err(ChannelError::Misbehaved("a handshake message that is not a key update")),
        }
    }
}
