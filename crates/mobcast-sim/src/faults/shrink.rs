//! Which faults matter: a plan that fails is tried with less and less (delta debugging: Zeller, Hildebrandt, IEEE TSE 2002),
//! as long as the same check fails. Fewer faults first, then without lies, wrong clocks and slow disks, then a smaller object,
//! then fewer nodes.

use super::plan::{Plan, Reduction};
use super::{Violation, replay};

/// Runs that a search may take: a few seconds to a minute.
const RUNS_MAX: u32 = 400;

/// A smaller plan that fails in the same way.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// What is left away.
    pub reduction: Reduction,
    /// How it fails.
    pub violation: Violation,
    /// Runs that the search took.
    pub runs: u32,
}

struct Search<'a> {
    plan: &'a Plan,
    best: Shrunk,
}

/// Tries to leave away what does not matter. `violation` is what the plan itself ends with.
pub fn shrink(plan: &Plan, violation: &Violation) -> Shrunk {
    let all = plan.faults.iter().map(|timed| timed.number).collect();
    let reduction = Reduction { only: Some(all), ..Reduction::default() };
    let mut search = Search { plan, best: Shrunk { reduction, violation: violation.clone(), runs: 0 } };
    search.fewer_faults();
    search.try_with(|reduction| reduction.honest = true);
    search.try_with(|reduction| reduction.plain = true);
    search.smaller_object();
    search.fewer_nodes();
    search.fewer_faults();
    search.best
}

impl Search<'_> {
    /// Whether the plan still fails in the same way with what `change` leaves of it; then that is the best there is.
    fn try_with(&mut self, change: impl FnOnce(&mut Reduction)) -> bool {
        let mut reduction = self.best.reduction.clone();
        change(&mut reduction);
        if self.best.runs >= RUNS_MAX || reduction == self.best.reduction {
            return false;
        }
        self.best.runs += 1;
        let plan = self.plan.clone().reduced(&reduction);
        if plan.broadcasts.is_empty() {
            return false;
        }
        match replay(plan, 0).result {
            Err(violation) if violation.kind == self.best.violation.kind => {
                self.best = Shrunk { reduction, violation, runs: self.best.runs };
                true
            }
            _ => false,
        }
    }

    fn faults(&self) -> Vec<usize> {
        self.best.reduction.only.clone().unwrap_or_default()
    }

    /// Leaves away halves of the faults, then quarters, down to single ones.
    fn fewer_faults(&mut self) {
        let mut parts = 2;
        while !self.faults().is_empty() {
            let faults = self.faults();
            let size = faults.len().div_ceil(parts).max(1);
            let shorter = (0..faults.len()).step_by(size).any(|from| {
                let rest: Vec<usize> = faults
                    .iter()
                    .copied()
                    .enumerate()
                    .filter(|(i, _)| !(from..from + size).contains(i))
                    .map(|(_, number)| number)
                    .collect();
                self.try_with(|reduction| reduction.only = Some(rest))
            });
            if !shorter && size == 1 {
                return;
            }
            parts = if shorter { 2.max(parts - 1) } else { parts * 2 };
        }
    }

    fn smaller_object(&mut self) {
        let mut bytes = self.plan.broadcasts.iter().map(|planned| planned.bytes).max().unwrap_or(0);
        while bytes > 1 && self.try_with(|reduction| reduction.bytes = Some(bytes / 2)) {
            bytes /= 2;
        }
    }

    fn fewer_nodes(&mut self) {
        let mut nodes = self.plan.nodes();
        let mut less = nodes / 2;
        while less > 0 && nodes > 2 {
            let fewer = nodes.saturating_sub(less).max(2);
            if self.try_with(|reduction| reduction.nodes = Some(fewer)) {
                nodes = fewer;
            } else {
                less /= 2;
            }
        }
    }
}
