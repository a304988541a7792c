//! Emulated networks from Linux namespaces, experiments on them with mobcast and its rivals, and reports. It runs
//! released programs and knows no protocol.
//!
//! | module | what it holds |
//! |---|---|
//! | `report` | tables and charts from the lines that runs have written |

pub mod report;
