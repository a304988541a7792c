//! For which strategies a group is founded. That decides whom its nodes are linked to: the mesh that `mob` works on, and the
//! links of each plan.

use std::sync::Arc;

use mobcast_topology::Topology;
use thiserror::Error;

use super::plan::PlanError;
use super::{Registry, STRATEGIES, StrategyKind};
use crate::limits::PLANS_MAX;

const _: () = assert!(STRATEGIES.len() <= PLANS_MAX);

/// The links that a group's nodes have because of the strategies it is founded for.
#[derive(Clone, Debug)]
pub struct Overlays {
    /// Whether nodes are linked to peers of their own and of other clusters, for strategies without a plan.
    pub mesh: bool,
    /// Strategies with plans.
    pub plans: Vec<&'static StrategyKind>,
    /// The network, for planners that need to know it.
    pub network: Option<Arc<Topology>>,
    /// Whether the members will measure it, once they are there.
    pub measures: bool,
}

impl Default for Overlays {
    fn default() -> Overlays {
        Overlays { mesh: true, plans: Vec::new(), network: None, measures: false }
    }
}

/// Why a group cannot be founded for a strategy.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum OverlayError {
    /// There is none of this name.
    #[error("there is no strategy {name:?}; choose one of: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// It cannot plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// More plans than a member is told of.
    #[error("a group is for at most {PLANS_MAX} strategies that plan, not {count}: found another group for the others")]
    TooMany {
        /// Strategies with plans.
        count: usize,
    },
}

impl Overlays {
    /// The links for these strategies.
    pub fn of(strategies: &[&str], network: Option<Arc<Topology>>) -> Result<Overlays, OverlayError> {
        Overlays::within(Registry::default(), strategies, network)
    }

    /// The links for these strategies in a group that measures its network itself.
    pub fn measuring(registry: Registry, strategies: &[&str]) -> Result<Overlays, OverlayError> {
        // Plans wait until it has.
        let empty = Some(Arc::new(Topology::new()));
        Ok(Overlays { network: None, measures: true, ..Overlays::within(registry, strategies, empty)? })
    }

    /// The same, where nodes know other strategies.
    pub fn within(
        registry: Registry,
        strategies: &[&str],
        network: Option<Arc<Topology>>,
    ) -> Result<Overlays, OverlayError> {
        let mut overlays = Overlays { mesh: false, plans: Vec::new(), network, measures: false };
        for name in strategies {
            let kind = registry.named(name)?;
            if kind.needs_network && overlays.network.is_none() {
                return Err(PlanError::NoNetwork { strategy: kind.name }.into());
            }
            if kind.planner.is_none() {
                overlays.mesh = true;
            } else if !overlays.plans.iter().any(|other| other.name == kind.name) {
                overlays.plans.push(kind);
            }
        }
        match overlays.plans.len() {
            count if count > PLANS_MAX => Err(OverlayError::TooMany { count }),
            _ => Ok(overlays),
        }
    }

    /// Whether a broadcast by this strategy has the links that it needs.
    pub fn carry(&self, kind: &StrategyKind) -> bool {
        match kind.planner {
            None => self.mesh,
            Some(_) => self.plans.iter().any(|other| other.name == kind.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::find;

    #[test]
    fn a_group_has_the_links_of_the_strategies_it_is_for() {
        let overlays = Overlays::of(&["chain", "flat", "chain"], None).unwrap();
        assert_eq!((overlays.mesh, overlays.plans.len()), (false, 2));
        let carried = |name: &str| overlays.carry(find(name).unwrap());
        assert_eq!(["chain", "flat", "mob", "binomial"].map(carried), [true, true, false, false]);
        assert!(Overlays::default().carry(find("mob").unwrap()));
    }

    #[test]
    fn what_cannot_be_is_said() {
        let error = |names: &[&str]| Overlays::of(names, None).map(|_| ()).map_err(|error| error.to_string());
        let unknown = error(&["mobb"]).unwrap_err();
        assert!(unknown.starts_with("there is no strategy \"mobb\"; choose one of: mob, "), "{unknown}");
        let needs = error(&["balanced"]).unwrap_err();
        assert!(needs.contains("balanced") && needs.contains("--gauge FILE or --gauge measure"), "{needs}");
    }

    #[test]
    fn a_group_is_for_no_more_strategies_than_a_member_is_told_of() {
        let name = |i: usize| -> &'static str { format!("chain-{i}").leak() };
        let kind = |i| StrategyKind { name: name(i), ..crate::strategy::chain::KIND };
        let own: &'static [StrategyKind] = Vec::leak((0..=PLANS_MAX).map(kind).collect());
        let names: Vec<&str> = own.iter().map(|kind| kind.name).collect();
        assert!(Overlays::within(Registry(own), &names[1..], None).is_ok());
        let error = Overlays::within(Registry(own), &names, None).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("at most 16 strategies that plan, not 17"), "{error}");
    }

    #[test]
    fn who_measures_the_network_need_not_know_it() {
        let overlays = Overlays::measuring(Registry::default(), &["balanced"]).unwrap();
        assert!(overlays.measures && overlays.network.is_none() && overlays.carry(find("balanced").unwrap()));
    }
}
