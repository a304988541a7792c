//! libFuzzer around one target, which the environment variable `MOBCAST_FUZZ_TARGET` names. Started by
//! `cargo xtask fuzz`, which compiles it with the counters that libFuzzer steers by.

#![no_main]
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use mobcast_fuzz::{TARGETS, Target, find};

static TARGET: OnceLock<Target> = OnceLock::new();

fn chosen() -> Target {
    let name = std::env::var("MOBCAST_FUZZ_TARGET").unwrap_or_default();
    find(&name).unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("MOBCAST_FUZZ_TARGET must be one of {}", names.join(", "));
        std::process::exit(2);
    })
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.get_or_init(chosen).run)(data));
