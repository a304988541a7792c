//! Small topologies and experiments as files, for the tests of runs from files.
#![allow(dead_code, reason = "each test file uses its part")]

use std::fmt::Write;
use std::path::PathBuf;

use tempfile::TempDir;

/// A directory of scenarios as the repository's, with one topology `net` and one experiment.
pub struct Scenarios {
    dir: TempDir,
}

impl Scenarios {
    /// With these texts.
    pub fn new(topology: &str, experiment: &str) -> Scenarios {
        let scenarios = Scenarios { dir: TempDir::new().expect("temporary files can be made") };
        scenarios.add("topologies/net.toml", topology);
        scenarios.add("experiments/experiment.toml", &format!("title = \"test\"\ntopology = \"net\"\n{experiment}"));
        scenarios
    }

    /// Writes a file.
    pub fn add(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("names have a directory")).expect("directories can be made");
        std::fs::write(path, text).expect("files can be written");
    }

    /// The experiment's file.
    pub fn experiment(&self) -> PathBuf {
        self.path("experiments/experiment.toml")
    }

    /// A file's place.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// M2 of the papers as a file: four clusters of four nodes, 20 ms of round trip.
pub fn m2() -> String {
    let links = [("A", "B", 3.0), ("A", "C", 4.0), ("A", "D", 3.0), ("B", "C", 3.0), ("B", "D", 4.0), ("C", "D", 8.0)];
    network(&["A", "B", "C", "D"].map(|name| (name, 4, "")), &links)
}

/// Clusters with further keys, and symmetric links in MB/s of 10 ms.
pub fn network(clusters: &[(&str, u32, &str)], links: &[(&str, &str, f64)]) -> String {
    let mut text = "title = \"test\"\n".to_owned();
    for (name, nodes, keys) in clusters {
        let _ = writeln!(text, "[[cluster]]\nname = \"{name}\"\nnodes = {nodes}\n{keys}");
    }
    for (a, b, rate) in links {
        let _ = writeln!(text, "[[link]]\nbetween = [\"{a}\", \"{b}\"]");
        let _ = writeln!(text, "rate_mb_per_s = {rate:?}\none_way_delay_ms = 10.0");
    }
    text
}

/// Another program, as a file.
pub const RIVAL: &str = "title = \"cat\"
packages = [\"coreutils\"]
version = [\"cat\", \"--version\"]
root = [\"cat\"]
";
