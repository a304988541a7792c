//! Resident memory of the command, whatever it carries: objects five times as large as what a node may take, in the
//! largest pieces there are, and a directory whose index is too large for memory. `cargo xtask bench` does the same with
//! larger ones.

mod common;

use std::ffi::OsStr;
use std::path::Path;

use common::*;

/// What `NODE_MEMORY_BYTES_MAX` of the core says, KiB.
const NODE_MEMORY_KIB_MAX: u64 = 96 << 10;

/// The most memory that each process has had until they ended, KiB. The system keeps the peak, so that nothing is missed
/// between two looks but what is new in the last moment.
fn peaks(processes: &[Process]) -> Vec<u64> {
    let mut peaks = vec![0; processes.len()];
    loop {
        let mut running = false;
        for (process, peak) in processes.iter().zip(&mut peaks) {
            let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap_or_default();
            // A process that has ended has no memory, and none of these lines.
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            if let Some(line) = line {
                *peak = line.trim().trim_end_matches(" kB").parse().expect("a number of KiB");
                running = true;
            }
        }
        if !running {
            return peaks;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// One root and receivers with these arguments; everybody's peak.
fn peaks_of_a_broadcast(dir: &Path, object: &OsStr, send: &[&str], receivers: &[Vec<&OsStr>]) -> Vec<u64> {
    let ticket = dir.join("ticket");
    let from = format!("@{}", ticket.display());
    let count = receivers.len().to_string();
    let mut root = mobcast();
    root.args(["send", "--quiet", "--listen", "127.0.0.1:0", "--receivers", &count, "--ticket-file"]).arg(&ticket);
    let mut processes = vec![Process::start("send", root.args(send).arg(object))];
    for receiver in receivers {
        processes.push(Process::start("recv", mobcast().args(["recv", "--quiet", &from]).args(receiver)));
    }
    let peaks = peaks(&processes);
    processes.into_iter().for_each(|process| drop(process.succeeds()));
    println!("peaks of root and receivers: {peaks:?} KiB");
    peaks
}

fn assert_bounded(peaks: &[u64]) {
    assert!(peaks.iter().all(|&peak| peak > 1 << 10), "a process takes more than a megabyte: {peaks:?}");
    assert!(peaks.iter().all(|&peak| peak <= NODE_MEMORY_KIB_MAX), "over {NODE_MEMORY_KIB_MAX} KiB: {peaks:?}");
}

/// One receiver writes a file, the other one keeps nothing.
#[test]
fn memory_does_not_grow_with_the_object() {
    let dir = tempfile::tempdir().expect("tempdir");
    let copy = dir.path().join("copy");
    let receivers: [Vec<&OsStr>; 2] = [vec![copy.as_os_str()], vec!["--verify-only".as_ref()]];
    let object = OsStr::new("synthetic:512MiB");
    assert_bounded(&peaks_of_a_broadcast(dir.path(), object, &["--piece-size", "16MiB"], &receivers));
    assert_eq!(std::fs::metadata(&copy).expect("a file").len(), 512 << 20);
}

#[test]
fn memory_does_not_grow_with_the_files_of_a_directory() {
    let dir = tempfile::tempdir().expect("tempdir");
    let source = dir.path().join("source");
    std::fs::create_dir(&source).expect("mkdir");
    // An index of over 1 MiB goes through a temporary file.
    (0..10_000)
        .for_each(|i| std::fs::write(source.join(format!("{i:06}-{}", "x".repeat(150))), [7; 1000]).expect("write"));
    let copies = [dir.path().join("copy-1"), dir.path().join("copy-2")];
    let receivers = copies.each_ref().map(|copy| vec![copy.as_os_str()]);
    assert_bounded(&peaks_of_a_broadcast(dir.path(), source.as_os_str(), &[], &receivers));
    for copy in &copies {
        assert_eq!(std::fs::read_dir(copy).expect("a directory").count(), 10_000);
    }
}
