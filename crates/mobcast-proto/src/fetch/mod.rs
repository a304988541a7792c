//! What to fetch next: which piece, how much, from whom. [`swarm::Swarm`] keeps the books for one broadcast,
//! [`picker`] chooses among pieces; strategies decide with both.

pub mod open;
pub mod peer;
pub mod picker;
pub mod swarm;
