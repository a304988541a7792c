//! Threads that may block: hashing and writing of pieces, reading of spans. Their number is fixed; what they are given
//! to do waits in a queue that the givers bound (open pieces, spans of links).

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;

/// A fixed number of threads with one queue. Dropping it lets them end after what they are doing.
#[derive(Debug)]
pub struct Workers {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    stopped: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("jobs", &self.lock().jobs.len()).finish()
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job; none when it is time to end.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Workers {
    /// `count` threads called `name`.
    pub fn start(name: &str, count: usize) -> io::Result<Workers> {
        let mut workers = Workers { queue: Arc::new(Queue::default()), threads: Vec::new() };
        for _ in 0..count {
            let queue = Arc::clone(&workers.queue);
            let work = move || {
                while let Some(job) = queue.next() {
                    job();
                }
            };
            workers.threads.push(std::thread::Builder::new().name(name.to_owned()).spawn(work)?);
        }
        Ok(workers)
    }

    /// Something to do. Dropped undone if the threads have been stopped.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.queue.lock();
        if !state.stopped {
            state.jobs.push_back(Box::new(job));
            drop(state);
            self.queue.changed.notify_one();
        }
    }

    /// Drops what waits and lets the threads end after what they are doing.
    pub fn stop(&self) {
        let mut state = self.queue.lock();
        state.stopped = true;
        let dropped = std::mem::take(&mut state.jobs);
        drop(state);
        self.queue.changed.notify_all();
        // Outside of the lock: jobs may hold anything, a handle of these threads as well.
        drop(dropped);
    }

    /// Waits for the threads to end; to be called after [`Workers::stop`], and not on one of them.
    pub fn join(mut self) {
        self.stop();
        for thread in std::mem::take(&mut self.threads) {
            // A job that panicked has said so already.
            let _ = thread.join();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_are_done_by_several_threads_and_the_rest_is_dropped() {
        let workers = Workers::start("test", 2).expect("threads");
        let (sender, receiver) = mpsc::channel();
        // Each waits for the other.
        let barrier = Arc::new(std::sync::Barrier::new(2));
        for i in 0..2 {
            let (sender, barrier) = (sender.clone(), Arc::clone(&barrier));
            workers.run(move || {
                barrier.wait();
                sender.send(i).expect("the test listens");
            });
        }
        let mut done: Vec<i32> = receiver.iter().take(2).collect();
        done.sort_unstable();
        assert_eq!(done, [0, 1]);
        workers.stop();
        workers.run(|| panic!("nothing runs after the end"));
        workers.join();
    }
}
