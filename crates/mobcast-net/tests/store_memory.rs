//! Memory that a flat directory of many files takes. Alone in its process, whose peak is measured.

use std::fs;

use mobcast_net::store::ObjectSource;

const FILES: u64 = 100_000;
/// The tree, and either its index or the names that are still to be looked at.
const BYTES_PER_FILE_MAX: u64 = 220;

/// The most memory that this process has had, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux");
    peak.trim().trim_end_matches(" kB").parse::<u64>().expect("a number of KiB") << 10
}

#[test]
fn a_flat_directory_takes_little_more_than_its_tree() {
    let dir = tempfile::tempdir().expect("tempdir");
    for file in 0..FILES {
        fs::File::create(dir.path().join(format!("{file:08}"))).expect("made");
    }
    let before = peak();
    let source = ObjectSource::open(dir.path()).expect("open");
    let per_file = (peak() - before) / FILES;
    println!("{per_file} bytes per file, index {} bytes", source.description().index_length);
    assert!(per_file <= BYTES_PER_FILE_MAX, "{per_file} bytes per file");
}
