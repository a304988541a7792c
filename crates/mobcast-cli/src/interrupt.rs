//! Ctrl-C and the polite kill: the wish that a command ends.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Failure, Outcome, Status};

/// SIGINT and SIGTERM, from when this is made until the process ends.
pub struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupt {
    /// From here on, neither signal kills the process.
    pub fn new() -> Outcome<Interrupt> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::new(Status::Failed, format_args!("cannot wait for signals: {error}")))
        };
        Ok(Interrupt { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Waits for one of them. May be dropped and called again without losing one.
    pub async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => (),
            _ = self.terminate.recv() => (),
        }
    }
}
