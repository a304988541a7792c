//! The table that people read, and the JSON that programs read.

use std::fmt::Write;

use serde_json::{Value, json};

use super::Scenario;
use super::samples::{Bound, Goal, Results, Spread};

/// Medians with their spread, and then the goals.
pub fn table(scenarios: &[&Scenario], results: &Results) -> String {
    let mut text = String::new();
    for scenario in scenarios {
        let _ = writeln!(text, "\n{}: {}", scenario.name, scenario.about);
        for (subject, quantity) in results.rows(scenario.name) {
            let Some(spread) = Spread::of(&results.values(scenario.name, subject, quantity)) else { continue };
            let Spread { median, min, max } = spread;
            let (name, unit) = (quantity.name, quantity.unit);
            let _ = writeln!(text, "  {subject:24} {name:16} {median:9.3} {unit:5} ({min:.3} to {max:.3})");
        }
        for goal in scenario.goals {
            let _ = writeln!(text, "  {}", goal_line(goal, Spread::of(&results.values_of(scenario.name, goal))));
        }
    }
    text
}

fn goal_line(goal: &Goal, spread: Option<Spread>) -> String {
    let (relation, limit) = match goal.bound {
        Bound::AtLeast(least) => ("at least", least),
        Bound::AtMost(most) => ("at most", most),
    };
    let what = match goal.beside {
        Some(beside) => format!("{} by {beside}'s", goal.quantity.name),
        None => format!("{} ({})", goal.quantity.name, goal.quantity.unit),
    };
    let verdict = match spread {
        None => "not measured".into(),
        Some(Spread { median, .. }) => {
            format!("{median:.3} {}", if goal.bound.admits(median) { "reached" } else { "MISSED" })
        }
    };
    format!("goal: {}, {what} {relation} {limit:.3}: {verdict}", goal.subject)
}

/// Every sample, every median, every goal.
pub fn json(scenarios: &[&Scenario], results: &Results) -> Value {
    let spread = |values: &[f64]| {
        Spread::of(values).map(|Spread { median, min, max }| json!({ "median": median, "min": min, "max": max }))
    };
    let scenarios = scenarios.iter().map(|scenario| {
        let rows = results.rows(scenario.name).into_iter().map(|(subject, quantity)| {
            let values = results.values(scenario.name, subject, quantity);
            let (name, unit) = (quantity.name, quantity.unit);
            json!({ "subject": subject, "quantity": name, "unit": unit, "spread": spread(&values), "rounds": values })
        });
        let goals = scenario.goals.iter().map(|goal| {
            let values = results.values_of(scenario.name, goal);
            let reached = Spread::of(&values).map(|spread| goal.bound.admits(spread.median));
            let (at_least, at_most) = match goal.bound {
                Bound::AtLeast(least) => (Some(least), None),
                Bound::AtMost(most) => (None, Some(most)),
            };
            json!({
                "subject": goal.subject, "quantity": goal.quantity.name, "beside": goal.beside,
                "at_least": at_least, "at_most": at_most, "spread": spread(&values), "reached": reached,
            })
        });
        json!({ "scenario": scenario.name, "figures": rows.collect::<Vec<_>>(), "goals": goals.collect::<Vec<_>>() })
    });
    json!({ "scenarios": scenarios.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::super::samples::THROUGHPUT;
    use super::*;

    const GOAL: Goal =
        Goal { subject: "mobcast", quantity: THROUGHPUT, beside: Some("socat"), bound: Bound::AtLeast(0.7) };

    #[test]
    fn a_goal_says_whether_it_is_reached() {
        let line = |values: &[f64]| goal_line(&GOAL, Spread::of(values));
        assert!(line(&[0.8]).ends_with("at least 0.700: 0.800 reached"), "{}", line(&[0.8]));
        assert!(line(&[0.6]).ends_with("MISSED"));
        assert!(line(&[]).ends_with("not measured"));
    }
}
