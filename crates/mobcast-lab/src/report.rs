//! Tables and charts from the lines that runs have written, in the manner of the MOB paper's Figures 4 and 5. The same
//! lines give the same bytes; what runs are, and what an optimum is, is the topology crate's.
//!
//! | file | what it holds |
//! |---|---|
//! | `lines` | files of lines read, also those that an interrupted run left |
//! | `summary` | runs of one case put together: medians, who is void or failed and why |
//! | `table` | the Markdown tables |
//! | `chart` | what stands where in a bar chart |
//! | `svg` | the shapes of a chart as text |
//! | `compare` | lab and simulator side by side |
//! | `striping` | tables and charts of transfers over several connections |
//! | `sizes` | throughput over the size of the object |
//! | `curves` | what stands where in a line chart |

mod chart;
mod compare;
mod curves;
mod lines;
mod sizes;
mod striping;
pub mod summary;
mod svg;
mod table;
#[cfg(test)]
mod tests;

pub use chart::charts;
pub use compare::compare;
pub use lines::{Lines, ReportError, read, read_noting};
pub use striping::{striping_charts, striping_markdown};
pub use table::markdown;
