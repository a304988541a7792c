//! A sign of life of a long run: every ten seconds of real time, how far it is.
#![allow(clippy::disallowed_types, reason = "the person who waits has real time")]

use std::time::{Duration, Instant};

use mobcast_sim::network::NodeIndex;
use mobcast_sim::world::World;

/// How often a line is printed.
const EVERY: Duration = Duration::from_secs(10);
/// Steps between two looks at the clock.
const STEPS: u32 = 4_096;

/// What has been said of many cases of a moment each.
pub struct Cases {
    said_at: Instant,
    all: usize,
}

impl Cases {
    /// The first one begins.
    pub fn begin(all: usize) -> Cases {
        Cases { said_at: Instant::now(), all }
    }

    /// After each case.
    pub fn look(&mut self, done: usize) {
        if self.said_at.elapsed() >= EVERY {
            self.said_at = Instant::now();
            eprintln!("    … {done} of {} cases", self.all);
        }
    }
}

/// What has been said of a run.
pub struct Progress {
    said_at: Instant,
    steps: u32,
}

impl Progress {
    /// The run begins.
    pub fn begin() -> Progress {
        Progress { said_at: Instant::now(), steps: 0 }
    }

    /// After each step.
    pub fn look(&mut self, world: &World) {
        self.steps += 1;
        if self.steps < STEPS {
            return;
        }
        self.steps = 0;
        if self.said_at.elapsed() < EVERY {
            return;
        }
        self.said_at = Instant::now();
        let running = (0..world.machines.len()).filter(|&i| world.network.is_running(NodeIndex(i as u32))).count();
        let (now, complete) = (world.network.now().as_secs_f64(), world.completions());
        eprintln!("    … {now:.2} s of virtual time, {complete} of {running} nodes are complete");
    }
}
