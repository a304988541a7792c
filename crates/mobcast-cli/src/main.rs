//! The command `mobcast`.

fn main() {}
