//! `cargo xtask fuzz`: runs the fuzz targets by hand, guided by coverage, and keeps what they reach as a small corpus. It
//! compiles them with the counters that libFuzzer steers by; the stable compiler can do that. CI replays the corpus by
//! an ordinary test and needs none of this.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::repository;

/// What `cargo xtask fuzz --help` prints.
pub const HELP: &str = "\
cargo xtask fuzz [TARGET] [--seconds N]    look for new inputs, 300 seconds for each target
cargo xtask fuzz TARGET --replay FILE      feed one input again, with a backtrace

Targets: frame, payload_header, ticket, manifest, tree, member, coordinator. fuzz/README.md says more.
";

const TARGETS: [&str; 7] = ["frame", "payload_header", "ticket", "manifest", "tree", "member", "coordinator"];
const SECONDS: u32 = 300;
/// Counters at every edge, a table of what they belong to, and the values that are compared: libFuzzer's food.
const INSTRUMENT: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";
/// Findings that were mended keep their inputs under names that begin like this; minimising leaves them alone.
const REGRESSION: &str = "regression-";
/// Inputs kept for each target, beside those of findings.
const KEPT_MAX: usize = 180;
/// Bytes of them.
const KEPT_BYTES_MAX: u64 = 280_000;

/// What the command line asks for.
enum Task<'a> {
    Look { targets: Vec<&'a str>, seconds: u32 },
    Replay { target: &'a str, file: &'a str },
}

/// Carries out what the words behind `fuzz` say; none if they say nothing that is known.
pub fn run(words: &[&str]) -> Option<bool> {
    let task = parse(words)?;
    let done = build().and_then(|engine| match task {
        Task::Replay { target, file } => replay(&engine, target, file),
        Task::Look { targets, seconds } => {
            let sound = targets.into_iter().map(|target| look(&engine, target, seconds));
            sound.collect::<io::Result<Vec<bool>>>().map(|sound| !sound.contains(&false))
        }
    });
    Some(done.unwrap_or_else(|error| {
        println!("fuzzing ends: {error}");
        false
    }))
}

fn parse<'a>(words: &[&'a str]) -> Option<Task<'a>> {
    let (targets, options) = match words.split_first() {
        Some((target, options)) if TARGETS.contains(target) => (vec![*target], options),
        _ => (TARGETS.to_vec(), words),
    };
    match (options, &targets[..]) {
        ([], _) => Some(Task::Look { targets, seconds: SECONDS }),
        (["--seconds", seconds], _) => Some(Task::Look { targets, seconds: seconds.parse().ok().filter(|n| *n > 0)? }),
        (["--replay", file], [target]) => Some(Task::Replay { target, file }),
        _ => None,
    }
}

// ---- The engine ----

/// Compiles the targets with their engine. In a directory of their own, because every library is compiled anew.
fn build() -> io::Result<PathBuf> {
    let host = host()?;
    let root = repository::root();
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--package", "mobcast-fuzz", "--features", "engine", "--target", &host])
        .args(["--target-dir", "target/fuzz"])
        .envs([("RUSTFLAGS", INSTRUMENT), ("CARGO_PROFILE_RELEASE_LTO", "off")])
        .envs([("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true"), ("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true")])
        .current_dir(&root)
        .status()?;
    if !status.success() {
        return Err(io::Error::other("the targets do not compile"));
    }
    Ok(root.join("target/fuzz").join(host).join("release/mobcast-fuzz"))
}

/// The name of this machine's kind. Naming it keeps the counters out of what runs while compiling.
fn host() -> io::Result<String> {
    let output = Command::new("rustc").arg("-vV").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| io::Error::other("rustc -vV names no host"))
}

fn engine(path: &Path, target: &str) -> Command {
    let mut command = Command::new(path);
    command.env("MOBCAST_FUZZ_TARGET", target).args(["-rss_limit_mb=1024", "-timeout=10"]);
    command.current_dir(repository::root());
    command
}

fn replay(path: &Path, target: &str, file: &str) -> io::Result<bool> {
    let file = std::env::current_dir()?.join(file);
    Ok(engine(path, target).arg(file).env("RUST_BACKTRACE", "1").status()?.success())
}

// ---- Looking ----

/// Looks for new inputs of one target, then makes the corpus small again; true if nothing was found to be wrong.
fn look(path: &Path, target: &str, seconds: u32) -> io::Result<bool> {
    let root = repository::root();
    let (corpus, findings) = (root.join("fuzz/corpus").join(target), root.join("fuzz/findings"));
    let work = root.join("target/fuzz/corpus").join(target);
    [&corpus, &findings, &work].into_iter().try_for_each(fs::create_dir_all)?;
    println!("== {target}: {seconds} s");
    let mut command = engine(path, target);
    command.args([format!("-max_total_time={seconds}"), format!("-max_len={}", input_bytes_max(target))]);
    command.arg(format!("-artifact_prefix={}/{target}-", findings.display()));
    command.args(["-print_final_stats=1", "-len_control=20", "-use_value_profile=1"]).args([&work, &corpus]);
    let summary = watch(command)?;
    println!("{target}: {} inputs tried, {} edges covered", summary.executions, summary.edges);
    if let Some(finding) = &summary.finding {
        println!("{}", summary.words.join("\n"));
        println!("{target} has a finding. Feed it again with\n  cargo xtask fuzz {target} --replay {finding}");
        println!("When it is mended, keep it: mv {finding} fuzz/corpus/{target}/{REGRESSION}WHAT-IT-WAS");
    }
    minimise(path, target, &work, &corpus)?;
    Ok(summary.finding.is_none())
}

/// Inputs that are longer show nothing more; the same numbers as in `fuzz/src/lib.rs`.
fn input_bytes_max(target: &str) -> u32 {
    match target {
        "frame" => 4096,
        "payload_header" => 32,
        "ticket" => 512,
        "manifest" => 1024,
        _ => 2048,
    }
}

/// What a run of the engine has come to.
#[derive(Default)]
struct Summary {
    executions: String,
    edges: String,
    finding: Option<String>,
    /// What it said before it stopped at a finding.
    words: Vec<String>,
}

impl Summary {
    fn read(&mut self, line: &str) {
        let after = |key: &str| line.split_once(key).and_then(|(_, rest)| rest.split_whitespace().next());
        if let Some(edges) = after(" cov: ") {
            self.edges = edges.to_owned();
        } else if let Some(executions) = after("stat::number_of_executed_units:") {
            self.executions = executions.to_owned();
        } else if let Some(file) = after("Test unit written to ") {
            self.finding = Some(file.to_owned());
        } else if line.contains("panicked at") || !self.words.is_empty() && self.words.len() < 6 {
            self.words.push(line.to_owned());
        }
    }
}

fn watch(mut command: Command) -> io::Result<Summary> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut summary = Summary::default();
    for line in BufReader::new(child.stderr.take().expect("stderr is piped")).split(b'\n') {
        summary.read(&String::from_utf8_lossy(&line?));
    }
    if !child.wait()?.success() && summary.finding.is_none() {
        return Err(io::Error::other(format!("the engine fails: {}", summary.words.join(" "))));
    }
    Ok(summary)
}

/// Replaces the corpus by few of all known inputs that cover the same edges about as often.
fn minimise(path: &Path, target: &str, work: &Path, corpus: &Path) -> io::Result<()> {
    let small = repository::root().join("target/fuzz/small").join(target);
    if small.exists() {
        fs::remove_dir_all(&small)?;
    }
    fs::create_dir_all(&small)?;
    let mut command = engine(path, target);
    command.arg("-set_cover_merge=1").arg(format!("-max_len={}", input_bytes_max(target)));
    let done = command.args([&small, work, corpus]).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if !done.success() {
        return Err(io::Error::other(format!("the inputs of {target} cannot be minimised")));
    }
    for entry in fs::read_dir(corpus)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(REGRESSION) {
            fs::remove_file(entry.path())?;
        }
    }
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(&small)? {
        let entry = entry?;
        found.push((entry.metadata()?.len(), entry.path()));
    }
    let (mut inputs, mut bytes) = (0, 0);
    for (size, path) in few(found) {
        fs::copy(&path, corpus.join(path.file_name().unwrap_or_default()))?;
        (inputs, bytes) = (inputs + 1, bytes + size);
    }
    println!("{target}: {inputs} inputs of {bytes} bytes kept");
    Ok(())
}

/// As many as the repository keeps: long inputs reach the most.
fn few(mut found: Vec<(u64, PathBuf)>) -> Vec<(u64, PathBuf)> {
    found.sort_by(|a, b| b.cmp(a));
    let mut bytes = 0;
    let fits = |(size, _): &(u64, PathBuf)| {
        bytes += size;
        bytes <= KEPT_BYTES_MAX
    };
    found.into_iter().take(KEPT_MAX).take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_command_line_are_understood() {
        assert!(matches!(parse(&[]), Some(Task::Look { targets, seconds: 300 }) if targets == TARGETS));
        let one = parse(&["tree", "--seconds", "7"]);
        assert!(matches!(one, Some(Task::Look { targets, seconds: 7 }) if targets == ["tree"]));
        assert!(matches!(parse(&["tree", "--replay", "x"]), Some(Task::Replay { target: "tree", file: "x" })));
        for wrong in [
            &["trees"][..],
            &["--replay", "x"],
            &["tree", "--seconds"],
            &["tree", "--seconds", "x"],
            &["--seconds", "0"],
        ] {
            assert!(parse(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn targets_are_those_of_the_fuzz_crate() {
        let source = include_str!("../../fuzz/src/lib.rs");
        for target in TARGETS {
            let entry = format!("name: \"{target}\", input_bytes_max: {},", input_bytes_max(target));
            assert!(source.contains(&entry) && HELP.contains(target), "{target}");
        }
        assert_eq!(source.matches("Target { name: ").count(), TARGETS.len());
    }

    #[test]
    fn few_inputs_are_kept_and_long_ones_first() {
        let found = |sizes: &[u64]| sizes.iter().map(|&size| (size, PathBuf::from(size.to_string()))).collect();
        let sizes = |kept: Vec<(u64, PathBuf)>| kept.into_iter().map(|(size, _)| size).collect::<Vec<_>>();
        assert_eq!(sizes(few(found(&[3, 1, 2]))), [3, 2, 1]);
        assert_eq!(few(found(&[1; 1_000])).len(), KEPT_MAX);
        assert_eq!(few(found(&[KEPT_BYTES_MAX / 2; 5])).len(), 2);
    }

    #[test]
    fn what_the_engine_says_is_read() {
        let mut summary = Summary::default();
        for line in [
            "#4096\tNEW    cov: 120 ft: 300 corp: 4/12b exec/s: 0 rss: 30Mb",
            "thread '<unnamed>' panicked at src/x.rs:1:2:",
            "attempt to subtract with overflow",
            "Test unit written to fuzz/findings/tree-crash-1",
            "stat::number_of_executed_units: 5000",
        ] {
            summary.read(line);
        }
        assert_eq!((summary.executions.as_str(), summary.edges.as_str()), ("5000", "120"));
        assert_eq!(summary.finding.as_deref(), Some("fuzz/findings/tree-crash-1"));
        assert_eq!(summary.words.len(), 2);
    }
}
