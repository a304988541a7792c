//! Copies one big thing to many machines, as fast as the networks between them allow.
//!
//! A [`Group`] is the set of processes that can broadcast to each other. One founds it and is its coordinator, the
//! others join it by the [`Ticket`]. Any member may be the root of a [`Broadcast`]: it gives a [`Source`] (file,
//! directory, bytes, reader, generated data), the others are told by an [`Offer`] and give a [`Sink`] each.
//!
//! ```no_run
//! # async fn root() -> Result<(), mobcast::Error> {
//! use mobcast::{BroadcastOptions, Group, GroupOptions, Source};
//!
//! let group = Group::create(GroupOptions::default()).await?;
//! println!("{}", group.ticket().expect("the founder has the ticket"));
//! let mut broadcast = group.broadcast(Source::path("weights.bin"), BroadcastOptions::default()).await?;
//! broadcast.released().await?;
//! group.leave().await;
//! # Ok(())
//! # }
//! ```
//!
//! Everything runs on the caller's tokio runtime, which needs its timers and its I/O enabled; more than one worker
//! thread lets sealing and opening use more than one processor. Disk and hashing have threads of their own, whose
//! number does not grow with the number of peers.
//!
//! | module | what |
//! |---|---|
//! | `group` | founding, joining, leaving; offers |
//! | `broadcast` | one broadcast: progress, completion, release, report |
//! | `calibrate` | what this machine costs, for the automatic choice |
//! | `gauge` | what the network is like, for strategies that plan for it |
//! | `source`, `sink` | where bytes come from and go to |
//! | `state`, `transfer` | what the driver's notices say, kept for the above |
//! | `options`, `report`, `events`, `error` | the words in which the above speak |

#![forbid(unsafe_code)]

mod broadcast;
mod calibrate;
mod error;
mod events;
mod gauge;
mod group;
mod options;
mod report;
mod sink;
mod source;
mod state;
mod transfer;

pub use broadcast::{Broadcast, Completed, NodeProgress, NodeState, Offer, Progress};
pub use calibrate::calibrate;
pub use error::{Error, ErrorClass};
pub use events::{EventStream, GroupEvent};
pub use gauge::Gauge;
pub use group::{Group, NodeInfo};
pub use mobcast_net::store::{StoreError, default_spool_dir};
pub use mobcast_proto::content::ObjectKind;
pub use mobcast_proto::group::gauge::Measurement;
pub use mobcast_proto::group::ticket::{Ticket, TicketError};
pub use mobcast_proto::strategy::choice::{AUTO, Choice, Costs};
pub use mobcast_proto::strategy::{STRATEGIES, StrategyKind};
pub use mobcast_proto::{BroadcastId, Digest, NodeId};
pub use options::{BroadcastOptions, DEFAULT_PORT, GroupOptions, SinkOptions};
pub use report::{ChoiceReport, GaugeLink, GaugeReport, LinkReport, NodeReport, Report, WireReport};
pub use sink::Sink;
pub use source::Source;
