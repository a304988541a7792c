//! What comes out of rounds: samples, their medians, and what they should be.

use std::collections::BTreeMap;

/// What a number is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Quantity {
    /// As the table and the JSON call it.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
}

/// Bytes delivered to all receivers together, by the time from the receivers' start to the last one's end.
pub const THROUGHPUT: Quantity = Quantity { name: "throughput", unit: "GB/s" };
/// Processor time of all processes, user and system, by bytes delivered.
pub const PROCESSOR: Quantity = Quantity { name: "processor time", unit: "s/GB" };
/// Largest resident memory of any one process.
pub const MEMORY: Quantity = Quantity { name: "peak memory", unit: "MiB" };

/// One number of one round.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// Whose: the command in one of its modes, or a reference.
    pub subject: &'static str,
    /// Of what.
    pub quantity: Quantity,
    /// The number.
    pub value: f64,
}

/// What should come out.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// Whose.
    pub subject: &'static str,
    /// Of what.
    pub quantity: Quantity,
    /// The number itself, or its ratio to another subject's of the same round.
    pub beside: Option<&'static str>,
    /// How large.
    pub bound: Bound,
}

/// How large a number should be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Bound {
    /// No less.
    AtLeast(f64),
    /// No more.
    AtMost(f64),
}

impl Bound {
    /// Whether `value` is within it.
    pub fn admits(self, value: f64) -> bool {
        match self {
            Bound::AtLeast(least) => value >= least,
            Bound::AtMost(most) => value <= most,
        }
    }
}

/// All samples of a run.
#[derive(Default, Debug)]
pub struct Results {
    rounds: BTreeMap<&'static str, Vec<Vec<Sample>>>,
}

impl Results {
    /// Whether no round was whole.
    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    /// The samples of one more round.
    pub fn add_round(&mut self, scenario: &'static str, samples: Vec<Sample>) {
        self.rounds.entry(scenario).or_default().push(samples);
    }

    /// Subjects and quantities of a scenario, in the order in which they were measured.
    pub fn rows(&self, scenario: &str) -> Vec<(&'static str, Quantity)> {
        let first = self.rounds.get(scenario).and_then(|rounds| rounds.first());
        first.into_iter().flatten().map(|sample| (sample.subject, sample.quantity)).collect()
    }

    /// One number of each round.
    pub fn values(&self, scenario: &str, subject: &str, quantity: Quantity) -> Vec<f64> {
        let of_round = |samples: &Vec<Sample>| {
            let matches = |sample: &&Sample| sample.subject == subject && sample.quantity == quantity;
            samples.iter().find(matches).map(|sample| sample.value)
        };
        self.rounds.get(scenario).into_iter().flatten().filter_map(of_round).collect()
    }

    /// What a goal is about, of each round; empty if its reference was left out.
    pub fn values_of(&self, scenario: &str, goal: &Goal) -> Vec<f64> {
        let own = self.values(scenario, goal.subject, goal.quantity);
        let Some(beside) = goal.beside else { return own };
        let theirs = self.values(scenario, beside, goal.quantity);
        own.iter().zip(&theirs).map(|(own, theirs)| own / theirs).collect()
    }
}

/// Median, smallest and largest of some numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// None of no numbers.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Spread { median, min, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_one_round() {
        let mut results = Results::default();
        for (own, theirs) in [(1.0, 2.0), (3.0, 3.0), (1.0, 4.0)] {
            let sample = |subject, value| Sample { subject, quantity: THROUGHPUT, value };
            results.add_round("x", vec![sample("own", own), sample("theirs", theirs)]);
        }
        let goal = Goal { subject: "own", quantity: THROUGHPUT, beside: Some("theirs"), bound: Bound::AtLeast(0.5) };
        assert_eq!(results.values_of("x", &goal), [0.5, 1.0, 0.25]);
        let spread = Spread::of(&results.values_of("x", &goal)).expect("three rounds");
        assert_eq!(spread, Spread { median: 0.5, min: 0.25, max: 1.0 });
        assert!(goal.bound.admits(spread.median) && !goal.bound.admits(spread.min));
    }

    #[test]
    fn an_even_number_of_rounds_has_a_median() {
        assert_eq!(Spread::of(&[4.0, 1.0]).map(|spread| spread.median), Some(2.5));
        assert_eq!(Spread::of(&[]), None);
    }
}
