//! A directory of many small files, beside tar writing into tar.

use std::path::Path;
use std::time::Instant;

use super::super::network::Network;
use super::super::process::Running;
use super::super::programs::Program;
use super::super::samples::{Bound, Goal, MEMORY, Quantity, Sample};
use super::super::{Scenario, Setting};

const MOBCAST: &str = "mobcast";
const TAR: &str = "tar c | tar x";
const DIRECTORIES: usize = 100;
const FILES_EACH: usize = 1000;
const FILE_BYTES: usize = 4096;

/// Files by the time from the start of the first process, before the source is scanned, to the end of the last one.
const FILES: Quantity = Quantity { name: "files", unit: "1/s" };

/// 100,000 files.
pub const DIRECTORY: Scenario = Scenario {
    name: "directory",
    about: "100,000 files of 4 KiB, from tmpfs to tmpfs, over a veth pair",
    references: &[Program::Tar],
    goals: &[
        Goal { subject: MOBCAST, quantity: FILES, beside: Some(TAR), bound: Bound::AtLeast(0.5) },
        Goal { subject: MOBCAST, quantity: MEMORY, beside: None, bound: Bound::AtMost(96.0) },
    ],
    round: |setting| {
        let network = Network::wire()?;
        let source = setting.dir.path().join("many-files");
        if !source.exists() {
            fill(&source).map_err(|error| format!("{}: {error}", source.display()))?;
        }
        let mut samples = Vec::new();
        let copy = setting.dir.path().join("many-copies");
        if setting.has(Program::Tar) {
            samples.push(tar(&network, &source, &copy)?);
            take_away(&copy)?;
        }
        samples.extend(mobcast(setting, &network, &source, &copy)?);
        take_away(&copy)?;
        Ok(samples)
    },
};

fn fill(source: &Path) -> std::io::Result<()> {
    let mut block = vec![0; FILE_BYTES];
    for directory in 0..DIRECTORIES {
        let path = source.join(format!("directory-{directory:03}"));
        std::fs::create_dir_all(&path)?;
        for file in 0..FILES_EACH {
            let number = (directory * FILES_EACH + file) as u64;
            block.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&(number + 1).to_le_bytes()));
            std::fs::write(path.join(format!("file-{file:05}.dat")), &block)?;
        }
    }
    Ok(())
}

fn rate(subject: &'static str, seconds: f64) -> Sample {
    Sample { subject, quantity: FILES, value: (DIRECTORIES * FILES_EACH) as f64 / seconds }
}

fn tar(network: &Network, source: &Path, copy: &Path) -> Result<Sample, String> {
    std::fs::create_dir(copy).map_err(|error| format!("{}: {error}", copy.display()))?;
    let script = format!("tar c -C {} . | tar x -C {}", source.display(), copy.display());
    let start = Instant::now();
    Running::start(network.machine(0), "sh", ["-c", &script])?.wait()?;
    Ok(rate(TAR, start.elapsed().as_secs_f64()))
}

fn mobcast(setting: &Setting, network: &Network, source: &Path, copy: &Path) -> Result<Vec<Sample>, String> {
    let listen = format!("{}:7077", Network::ip_address(0));
    let (source, copy) = (source.to_string_lossy(), copy.to_string_lossy());
    let start = Instant::now();
    let send = ["send", "--quiet", "--receivers", "1", "--listen", &listen, &source];
    let sender = Running::start(network.machine(0), &setting.mobcast, send)?;
    let ticket = sender.line()?;
    let receiver = Running::start(network.machine(1), &setting.mobcast, ["recv", "--quiet", &ticket, &copy])?;
    let usage = receiver.wait()?.and(sender.wait()?);
    let memory = usage.memory_bytes as f64 / f64::from(1 << 20);
    Ok(vec![rate(MOBCAST, start.elapsed().as_secs_f64()), Sample { subject: MOBCAST, quantity: MEMORY, value: memory }])
}

/// Removes a copy, which must have every file.
fn take_away(copy: &Path) -> Result<(), String> {
    let cannot = |error: std::io::Error| format!("{}: {error}", copy.display());
    let mut files = 0;
    for directory in std::fs::read_dir(copy).map_err(cannot)? {
        files += std::fs::read_dir(directory.map_err(cannot)?.path()).map_err(cannot)?.count();
    }
    if files != DIRECTORIES * FILES_EACH {
        return Err(format!("{} has {files} files", copy.display()));
    }
    std::fs::remove_dir_all(copy).map_err(cannot)
}
