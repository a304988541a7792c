//! Ctrl-C, the polite kill and a terminal that is gone: the wish that a command ends.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Failure, Outcome, Status};

/// SIGINT, SIGTERM and SIGHUP, from when this is made until the process ends.
pub struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
    /// None if it was ignored at the start, as `nohup` has it.
    hang_up: Option<Signal>,
    is_heard: bool,
}

impl Interrupt {
    /// From here on, none of them kills the process.
    pub fn new() -> Outcome<Interrupt> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::new(Status::Failed, format_args!("cannot wait for signals: {error}")))
        };
        // A file that becomes larger than it may is an error of its writer, who says so and cleans up.
        drop(listen(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        let hang_up = if ignores_hang_up() { None } else { Some(listen(SignalKind::hangup())?) };
        Ok(Interrupt {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up,
            is_heard: false,
        })
    }

    /// Whether one of them has come so far, as [`Interrupt::wait`] told.
    pub fn is_heard(&self) -> bool {
        self.is_heard
    }

    /// Waits for one of them. May be dropped and called again without losing one.
    pub async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => (),
            _ = self.terminate.recv() => (),
            Some(()) = async { self.hang_up.as_mut()?.recv().await } => (),
        }
        self.is_heard = true;
    }
}

/// Whether this process ignores SIGHUP so far, as the system tells in a mask of all ignored signals; SIGHUP is the lowest bit.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
