//! Networks as data, and how fast a broadcast over them can be. Knows no protocol and no sockets: the simulator, the
//! lab and the reports read the same description.
//!
//! | module | what it holds |
//! |---|---|
//! | [`network`] | [`Topology`]: clusters, the links between them, their capacities |
//! | [`scenario`] | capacities that change over time |
//! | [`preset`] | networks that experiments refer to by name |
//! | [`bounds`] | what one broadcast takes at least, in closed form |
//! | [`mod@optimum`] | the highest broadcast rate that a topology admits, and what binds it |
//! | [`mod@optimum::changing`] | the bracket of the optimum where capacities change |
//! | `files` | topologies, experiments and rivals as TOML files (feature `files`) |
//! | `record` | one line for each run of an experiment, as lab and simulator write it (feature `files`) |
//! | [`packing`] | planners of several spanning trees, each with a rate |
//! | [`tree`] | the best single tree, for comparison |
//!
//! Rates are whole bytes per second; `None` means that the resource never binds. Times are nanoseconds.

#![forbid(unsafe_code)]

pub mod bounds;
#[cfg(feature = "files")]
pub mod files;
mod flow;
pub mod network;
pub mod optimum;
pub mod packing;
pub mod preset;
#[cfg(feature = "files")]
pub mod record;
pub mod scenario;
pub mod tree;

pub use network::{
    Cluster, ClusterIndex, LinkRef, PayloadFactor, QueueLimit, Topology, TopologyError, WanLink, WanNic,
};
pub use optimum::changing::{Bracket, bracket};
pub use optimum::{Binding, Optimum, Resource, optimal_rate, optimum};
pub use scenario::{Change, Scenario};
