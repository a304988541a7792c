//! Being told to stop: by Ctrl-C, by `kill`, by a terminal that closes. A lab is removed in any case, so whoever makes one
//! asks here between two steps, and waits here where it would sleep.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
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
                let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
                match kinds.map(signal) {
                    [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] => {
                        let _ = ready.send(Ok(()));
                        tokio::select! {
                            _ = interrupt.recv() => {}
                            _ = terminate.recv() => {}
                            _ = hangup.recv() => {}
                        }
                        // Nobody may be left who asks.
                        let _ = tell.send(true);
                    }
                    failed => drop(ready.send(failed.into_iter().collect::<Result<Vec<_>, _>>().map(drop))),
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

    /// Sleeps, and ends with an error if it is meanwhile.
    pub fn sleep(&self, time: Duration) -> Result<(), LabError> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(LabError::at("timer"))?;
        // The time is over, or it happened.
        let _ = runtime.block_on(async { tokio::time::timeout(time, self.happened()).await });
        self.check()
    }
}
