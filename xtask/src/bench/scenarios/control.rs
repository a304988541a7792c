//! What the protocol's own words take beside payload, in the simulator: the same figures on every machine.

use super::super::Scenario;
use super::super::samples::{Bound, Goal, Quantity, Sample};
use super::brought::{cargo, number_behind};

const SMALL_GROUP: &str = "16 nodes, 1 MiB pieces";
const LARGE_GROUP: &str = "64 nodes, 64 KiB pieces";

/// Control bytes on all links, by payload bytes.
const OF_PAYLOAD: Quantity = Quantity { name: "control", unit: "%" };
/// Control bytes on WAN links, by all bytes on them.
const OF_WAN: Quantity = Quantity { name: "control on WANs", unit: "%" };

/// One run, as the simulator is deterministic; rounds repeat it.
pub const CONTROL_TRAFFIC: Scenario = Scenario {
    name: "control-traffic",
    about: "bytes of control frames beside payload, in the simulator",
    references: &[],
    goals: &[
        Goal { subject: SMALL_GROUP, quantity: OF_PAYLOAD, beside: None, bound: Bound::AtMost(0.5) },
        Goal { subject: LARGE_GROUP, quantity: OF_WAN, beside: None, bound: Bound::AtMost(1.0) },
    ],
    round: |_| {
        let output = cargo(&["run", "--package", "mobcast-sim", "--example", "control_traffic"], &[])?;
        let small = number_behind(&output, "control by payload ")?;
        let large = number_behind(&output, "control on WAN links by all bytes ")?;
        let sample = |subject, quantity, fraction: f64| Sample { subject, quantity, value: fraction * 100.0 };
        Ok(vec![sample(SMALL_GROUP, OF_PAYLOAD, small), sample(LARGE_GROUP, OF_WAN, large)])
    },
};
