//! Being told to stop: by Ctrl-C, by `kill`, by a terminal that closes. A lab is removed in any case, so whoever makes one
//! asks here between two steps, and waits here where it would sleep.

use std::task::Poll;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::error::LabError;

/// Whether this process was told to stop.
#[derive(Clone, Debug)]
pub struct Interrupt {
    told: watch::Receiver<bool>,
}

impl Interrupt {
    /// From here on a signal does not end the process: it is told here.
    pub fn watch() -> Result<Interrupt, LabError> {
        let (tell, told) = watch::channel(false);
        let (ready, registered) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let signals = async {
                // What is ignored, as of a terminal that closes under `nohup`, stays so.
                let ignored = ignored();
                let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
                let watched = kinds.into_iter().filter(|kind| ignored & (1 << (kind.as_raw_value() - 1)) == 0);
                match watched.map(signal).collect::<Result<Vec<Signal>, _>>() {
                    Ok(mut signals) => {
                        let _ = ready.send(Ok(()));
                        let any = std::future::poll_fn(|context| {
                            let came = signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
                            if came { Poll::Ready(()) } else { Poll::Pending }
                        });
                        any.await;
                        // Nobody may be left who asks.
                        let _ = tell.send(true);
                    }
                    Err(error) => drop(ready.send(Err(error))),
                }
            };
            match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(signals),
                Err(error) => drop(ready.send(Err(error))),
            }
        });
        let done = registered.recv().unwrap_or(Err(std::io::ErrorKind::BrokenPipe.into()));
        done.map_err(LabError::at("signals")).map(|()| Interrupt { told })
    }

    /// An error if it was.
    pub fn check(&self) -> Result<(), LabError> {
        if *self.told.borrow() { Err(LabError::Interrupted) } else { Ok(()) }
    }

    /// Returns when it is.
    pub async fn happened(&self) {
        let mut told = self.told.clone();
        if told.wait_for(|told| *told).await.is_err() {
            // Who would tell is gone.
            std::future::pending().await
        }
    }

    /// Sleeps, and ends with an error if it is meanwhile. For code without a runtime: with one, wait for
    /// [`Interrupt::happened`].
    ///
    /// # Panics
    /// Inside a runtime.
    pub fn sleep(&self, time: Duration) -> Result<(), LabError> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(LabError::at("timer"))?;
        // The time is over, or it happened.
        let _ = runtime.block_on(async { tokio::time::timeout(time, self.happened()).await });
        self.check()
    }
}

/// The signals that this process ignores, as bits: the first one is that of signal 1.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.unwrap_or(0)
}
