//! Every input that the fuzz targets were ever steered to or stumbled over, once more.

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use mobcast_fuzz::{TARGETS, Target, find};

/// Inputs of one target: enough for what they reach, and few enough for everybody who clones the repository.
const INPUTS_MAX: usize = 200;
/// Bytes of the inputs of one target.
const INPUT_BYTES_MAX: u64 = 300_000;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn inputs(target: Target) -> Vec<PathBuf> {
    let dir = corpus().join(target.name);
    let entries = fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    paths
}

fn replay(name: &str) {
    let target = find(name).expect("a target");
    let inputs = inputs(target);
    assert!(!inputs.is_empty(), "{name} has no inputs: cargo xtask fuzz {name}");
    for path in &inputs {
        let data = fs::read(path).expect("readable");
        let outcome = catch_unwind(|| (target.run)(&data));
        assert!(outcome.is_ok(), "{name} fails on {}: see above", path.display());
    }
    println!("{name}: {} inputs", inputs.len());
}

#[test]
fn frame() {
    replay("frame");
}

#[test]
fn payload_header() {
    replay("payload_header");
}

#[test]
fn ticket() {
    replay("ticket");
}

#[test]
fn manifest() {
    replay("manifest");
}

#[test]
fn tree() {
    replay("tree");
}

#[test]
fn member() {
    replay("member");
}

#[test]
fn coordinator() {
    replay("coordinator");
}

#[test]
fn every_corpus_has_its_target_and_stays_small() {
    let dirs = fs::read_dir(corpus()).expect("there").map(|entry| entry.expect("readable").file_name());
    let dirs: BTreeSet<String> = dirs.map(|name| name.to_string_lossy().into_owned()).collect();
    let names: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(dirs, names, "each target has a directory and a test above");
    for target in TARGETS {
        let inputs = inputs(target);
        let bytes: u64 = inputs.iter().map(|path| path.metadata().expect("readable").len()).sum();
        assert!(inputs.len() <= INPUTS_MAX && bytes <= INPUT_BYTES_MAX, "{}: {} inputs", target.name, inputs.len());
    }
}
