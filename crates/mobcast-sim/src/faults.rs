//! The faults machine: groups in which everything goes wrong that may, while something is broadcast. Nodes join, die (the
//! coordinator too), start again and stand still; links change, break, lose packets and are cut; disks stall, clocks are
//! wrong, a member lies. All of it follows from a seed. `docs/faults.md` says what is checked, and how a failure is replayed.
//!
//! A run has two phases. While faults come, the world checks safety after each step. When they have stopped, everybody who
//! can complete has to do so within a bound of virtual time that follows from the plan ([`plan::Plan::bound`]).
//!
//! | module | what |
//! |---|---|
//! | `plan` | a run as data, and in words |
//! | `draw` | what is drawn from a seed |
//! | `run` | one run of a plan |
//! | `verdict` | what must hold at its end |
//! | `caught` | the world's panics as values |
//! | `shrink` | which faults matter |

use std::panic::AssertUnwindSafe;

use mobcast_proto::{Duration, Time};

mod caught;
mod draw;
pub mod plan;
mod run;
pub mod shrink;
mod verdict;

use plan::Plan;
use run::Run;

/// What a run has after the last fault beside the transfer itself: two silent deaths in a row are noticed after 10 seconds
/// each, a successor waits for others as long, and whoever gets nothing any more waits 10 seconds before it gives up; all
/// that once again, because one of them may be noticed in the middle of another.
pub const SLACK: Duration = Duration::from_secs(100);
/// The transfer may take so many times what it takes on the slowest link of all.
pub const SLACK_FACTOR: u64 = 6;

/// What came out of a run in which all held that must.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Machines that were started.
    pub machines: u32,
    /// Pieces of all objects.
    pub pieces: u32,
    /// Faults of the plan.
    pub faults: u32,
    /// Faults that did something while a broadcast was under way.
    pub hit: u32,
    /// Machines that were stopped.
    pub stopped: u32,
    /// Whether the founder was among them.
    pub coordinator_died: bool,
    /// Whether the root of a broadcast was, while it was root.
    pub root_died: bool,
    /// Copies that were complete at the end.
    pub complete: u32,
    /// Copies that were given up.
    pub gave_up: u32,
    /// Virtual time of the end.
    pub end: Time,
    /// A number that any difference in what happened changes.
    pub trace_hash: u64,
}

/// Something that must not be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which check has found it: a place in the source, or a word.
    pub kind: String,
    /// What was seen.
    pub what: String,
    /// Virtual time.
    pub at: Time,
    /// Everybody's state then, in words.
    pub state: String,
}

/// A run with its last happenings.
#[derive(Clone, Debug)]
pub struct Replay {
    /// How it ended.
    pub result: Result<Summary, Violation>,
    /// What happened last, in words.
    pub told: Vec<String>,
}

/// Runs what follows from a seed.
///
/// # Errors
/// What was violated.
pub fn run(seed: u64) -> Result<Summary, Violation> {
    replay(Plan::of(seed), 0).result
}

/// Runs a plan, and keeps the last happenings in words.
pub fn replay(plan: Plan, happenings: usize) -> Replay {
    let mut run = None;
    let result = caught::catch(AssertUnwindSafe(|| {
        let run = run.insert(Run::start(plan, happenings));
        run.finish().map(|()| run.summary())
    }));
    let told = run.iter().flat_map(|run| run.world.trace().map(ToString::to_string)).collect();
    let result = result.unwrap_or_else(|panic| {
        let at = run.as_ref().map_or(Time::ZERO, |run| run.world.network.now());
        // The world stands as it was left: it can be looked at once more, but not too closely.
        let state = caught::catch(AssertUnwindSafe(|| run.as_ref().map(Run::describe))).ok().flatten();
        Err(Violation { kind: panic.place, what: panic.message, at, state: state.unwrap_or_default() })
    });
    Replay { result, told }
}

impl Run {
    fn summary(&self) -> Summary {
        let seen = |f: &dyn Fn(&crate::world::Seen, mobcast_proto::BroadcastId) -> bool| {
            self.ids()
                .map(|id| self.concerned(id).filter(|&i| f(&self.world.machines[i].seen, id)).count())
                .sum::<usize>()
        };
        Summary {
            machines: self.world.machines.len() as u32,
            pieces: self.plan.pieces(),
            faults: self.plan.faults.len() as u32,
            hit: self.hit,
            stopped: self.stopped.len() as u32,
            coordinator_died: self.stopped.contains_key(&0),
            root_died: !self.roots_gone.is_empty(),
            complete: seen(&|seen, id| seen.complete.contains_key(&id)) as u32,
            gave_up: seen(&|seen, id| seen.failed.contains_key(&id)) as u32,
            end: self.world.network.now(),
            trace_hash: self.world.trace_hash(),
        }
    }
}
