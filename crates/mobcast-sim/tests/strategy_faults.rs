//! Every strategy among faults: what must hold holds, and whoever can be complete is, whatever was published about deaths. A few seeds
//! here; `mobcast-sim faults --strategy all` runs as many as are asked for.

use mobcast_proto::strategy::STRATEGIES;
use mobcast_sim::faults;
use mobcast_sim::faults::plan::{Plan, Reduction};

/// Of each strategy, each with its own plan of faults.
const SEEDS: u64 = 4;

#[test]
fn every_strategy_bears_faults() {
    for seed in 0..SEEDS * STRATEGIES.len() as u64 {
        // In turn by the seed.
        let reduction = Reduction { strategy: Some("all".into()), ..Reduction::default() };
        let plan = Plan::of(500_000 + seed).reduced(&reduction);
        let name = plan.broadcasts[0].strategy;
        if let Err(violation) = faults::replay(plan, 0).result {
            panic!("{name}, seed {}: {}: {}", 500_000 + seed, violation.kind, violation.what);
        }
    }
}
