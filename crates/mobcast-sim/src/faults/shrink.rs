//! Which faults matter: a plan that fails is tried with less and less (delta debugging: Zeller, Hildebrandt, IEEE TSE 2002),
//! as long as the same check fails. Fewer faults first, then without lies, wrong clocks and slow disks, then a smaller object,
//! then fewer nodes.

use super::plan::{Plan, Reduction};
use super::{Summary, Violation, replay};

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
    run: &'a dyn Fn(Plan) -> Result<Summary, Violation>,
    best: Shrunk,
}

/// Tries to leave away more than `reduction` does of a plan, which with that ends with `violation`.
pub fn shrink(plan: &Plan, reduction: &Reduction, violation: &Violation) -> Shrunk {
    shrink_with(plan, reduction, violation, &|plan| replay(plan, 0).result)
}

fn shrink_with(
    plan: &Plan,
    reduction: &Reduction,
    violation: &Violation,
    run: &dyn Fn(Plan) -> Result<Summary, Violation>,
) -> Shrunk {
    let left = plan.clone().reduced(reduction);
    let all = left.faults.iter().map(|timed| timed.number).collect();
    let reduction = Reduction { only: Some(all), ..reduction.clone() };
    let mut search = Search { plan, run, best: Shrunk { reduction, violation: violation.clone(), runs: 0 } };
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
        match (self.run)(plan) {
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
        let plan = self.plan.clone().reduced(&self.best.reduction);
        let mut bytes = plan.broadcasts.iter().map(|planned| planned.bytes).max().unwrap_or(0);
        while bytes > 1 && self.try_with(|reduction| reduction.bytes = Some(bytes / 2)) {
            bytes /= 2;
        }
    }

    fn fewer_nodes(&mut self) {
        let mut nodes = self.plan.clone().reduced(&self.best.reduction).nodes();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::plan::Fault;

    /// Fails while a machine below the sixth stands still and the object has a kilobyte.
    fn run(plan: Plan) -> Result<Summary, Violation> {
        let stands = plan.faults.iter().any(|timed| matches!(timed.fault, Fault::Pause(node, _) if node < 6));
        let kind = if plan.nodes() < 3 { "small" } else { "stands" };
        let violation =
            Violation { kind: kind.into(), what: String::new(), at: Default::default(), state: String::new() };
        let large = plan.broadcasts.iter().any(|planned| planned.bytes >= 1_000);
        if stands && large { Err(violation) } else { Ok(Summary::default()) }
    }

    #[test]
    fn what_does_not_matter_is_left_away() {
        let of = |seed: &u64| {
            let plan = Plan::of(*seed);
            plan.nodes() > 12
                && plan.faults.len() > 6
                && plan.broadcasts.len() == 1
                && plan.broadcasts[0].root == 0
                && run(plan).is_err()
        };
        let seed = (0..).find(of).expect("some seed is like that");
        let plan = Plan::of(seed);
        let from = Reduction { strategy: Some("chain".into()), honest: true, ..Reduction::default() };
        let violation = run(plan.clone()).unwrap_err();
        let Shrunk { reduction, violation, runs } = shrink_with(&plan, &from, &violation, &run);
        assert_eq!(violation.kind, "stands", "another failure is not taken for this one");
        assert!(runs < RUNS_MAX, "{runs} runs");
        assert_eq!(
            (reduction.strategy.as_deref(), reduction.honest),
            (Some("chain"), true),
            "what was left away stays so"
        );
        let left = plan.reduced(&reduction);
        let [Fault::Pause(node, _)] = left.faults.iter().map(|timed| &timed.fault).collect::<Vec<_>>()[..] else {
            panic!("one fault matters: {left}");
        };
        assert_eq!(left.nodes(), 3.max(node + 1), "{left}");
        let bytes = left.broadcasts[0].bytes;
        assert!((1_000..2_000).contains(&bytes), "{bytes} bytes");
        assert!(run(left).is_err());
    }
}
