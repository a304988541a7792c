//! What is measured: one module for each thing, one entry for each row of the table.

use super::Scenario;

mod brought;
mod control;
mod delivery;
mod directory;
mod latency;
mod memory;

/// All scenarios, in the order of the table.
pub static SCENARIOS: &[Scenario] = &[
    delivery::ONE_TO_ONE,
    delivery::ONE_TO_FOUR,
    delivery::ONE_TO_FIFTEEN,
    memory::LARGE_OBJECT,
    latency::START_UP,
    latency::SMALL_OBJECT,
    directory::DIRECTORY,
    control::CONTROL_TRAFFIC,
];
