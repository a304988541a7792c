//! Topologies, experiments and rivals as TOML files. What these modules return is complete and checked: names are
//! known, numbers are in range, every pair of clusters has a link. What is wrong with a file is said with its line and
//! key. Running anything is left to the lab and the simulator.
//!
//! | module | file |
//! |---|---|
//! | [`topology`] | `scenarios/topologies/NAME.toml` |
//! | [`experiment`] | `scenarios/experiments/NAME.toml`, and the runs that it asks for ([`plan`]) |
//! | [`rival`] | `scenarios/rivals/NAME.toml` |
//! | [`mod@write`] | a network as the text of a topology file |
//! | [`striping`] | `scenarios/experiments/striping-NAME.toml`: one network, many connections |

pub mod error;
pub mod experiment;
pub mod plan;
pub mod rival;
pub mod striping;
pub mod topology;
mod values;
pub mod write;

pub use error::FileError;
pub use experiment::{Experiment, PIECES_MAX};
pub use plan::{Planned, Program};
pub use rival::{Clock, RivalFile};
pub use striping::{StripingCase, StripingExperiment, StripingTcp};
pub use topology::TopologyFile;
