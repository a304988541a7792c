//! The command `mobcast-lab`.

#![forbid(unsafe_code)]

fn main() {}
