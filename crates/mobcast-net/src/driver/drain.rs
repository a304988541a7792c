//! Sinks that are written in order: a thread for each writes out what has arrived without a gap, and may be held up by
//! the pipe for as long as the pipe likes.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use mobcast_proto::BroadcastId;
use tokio::sync::mpsc;

use super::input::Input;
use crate::store::{ObjectSink, StoreError};

/// The thread of one sink. Dropping it ends the thread, at the latest when the pipe takes what it has been given.
#[derive(Debug)]
pub struct Drainer {
    signal: Arc<Signal>,
}

#[derive(Debug, Default)]
struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    news: bool,
    ended: bool,
}

/// Tells a [`Drainer`] that more has arrived.
#[derive(Clone, Debug)]
pub struct Doorbell(Arc<Signal>);

impl Drainer {
    /// For a sink that has to be drained.
    pub fn start(
        broadcast: BroadcastId,
        sink: Arc<ObjectSink>,
        inputs: mpsc::Sender<Input>,
    ) -> std::io::Result<Drainer> {
        let signal = Arc::new(Signal::default());
        let seen = Arc::clone(&signal);
        let work = move || {
            while seen.wait() {
                match sink.drain_ready() {
                    Ok(_) => {}
                    Err(StoreError::Stopped) => return,
                    Err(error) => {
                        // If the node's task is gone, nobody wants to know.
                        let failed = Input::StoreFailed { broadcast, error: Arc::new(error) };
                        let _ = inputs.blocking_send(failed);
                        return;
                    }
                }
            }
        };
        std::thread::Builder::new().name("mobcast-drain".into()).spawn(work)?;
        Ok(Drainer { signal })
    }

    /// What rings it.
    pub fn doorbell(&self) -> Doorbell {
        Doorbell(Arc::clone(&self.signal))
    }
}

impl Drop for Drainer {
    fn drop(&mut self) {
        self.signal.set(|state| state.ended = true);
    }
}

impl Doorbell {
    /// More has arrived.
    pub fn ring(&self) {
        self.0.set(|state| state.news = true);
    }
}

impl Signal {
    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Waits for news; false when it is time to end.
    fn wait(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let quiet = |state: &mut State| !state.news && !state.ended;
        let mut state = self.changed.wait_while(state, quiet).unwrap_or_else(PoisonError::into_inner);
        state.news = false;
        !state.ended
    }
}
