//! The flags of `cargo xtask bench`.

use std::path::PathBuf;

use super::SCENARIOS;
use super::programs::Program;

/// What is measured, how often, and with what.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of scenarios; all if there are none.
    pub scenarios: Vec<String>,
    /// Rounds of each scenario.
    pub rounds: u32,
    /// Bytes of the object, if not the scenario's own.
    pub bytes: Option<u64>,
    /// References that are left out.
    pub without: Vec<Program>,
    /// Where the files lie.
    pub dir: PathBuf,
    /// The command, if it is not to be built.
    pub command: Option<PathBuf>,
    /// Where the JSON goes.
    pub json: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        let (scenarios, without) = Default::default();
        Options { scenarios, rounds: 5, bytes: None, without, dir: "/dev/shm".into(), command: None, json: None }
    }
}

impl Options {
    /// From the words behind `bench`. `Err` is what to print instead of measuring.
    pub fn parse(words: &[&str]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
            match word {
                "--rounds" => {
                    let rounds = value()?.parse().ok().filter(|&rounds| rounds > 0);
                    options.rounds = rounds.ok_or("--rounds wants a number from 1 on")?;
                }
                "--size" => options.bytes = Some(parse_mebibytes(value()?)?),
                "--without" => {
                    let name = value()?;
                    let program = Program::ALL.into_iter().find(|program| program.name() == name);
                    options.without.push(program.ok_or_else(|| format!("no reference is called {name}"))?);
                }
                "--dir" => options.dir = value()?.into(),
                "--command" => options.command = Some(value()?.into()),
                "--json" => options.json = Some(value()?.into()),
                name if SCENARIOS.iter().any(|scenario| scenario.name == name) => options.scenarios.push(name.into()),
                name => return Err(format!("no scenario or flag is called {name}")),
            }
        }
        Ok(options)
    }

    /// Whether a scenario is to be run.
    pub fn chooses(&self, name: &str) -> bool {
        self.scenarios.is_empty() || self.scenarios.iter().any(|chosen| chosen == name)
    }
}

fn parse_mebibytes(text: &str) -> Result<u64, String> {
    let mebibytes: Option<u64> = text.strip_suffix("MiB").and_then(|number| number.parse().ok());
    mebibytes.map(|number| number << 20).ok_or_else(|| "--size wants something like 256MiB".into())
}

/// The text of `--help`.
pub fn help() -> String {
    let scenarios = SCENARIOS.iter().map(|scenario| format!("  {:16} {}\n", scenario.name, scenario.about));
    format!(
        "\
cargo xtask bench [SCENARIO…] [FLAG…]

Runs the released command beside its references and prints medians. Wants root (network namespaces) and a quiet
machine.

{}
  --rounds N        rounds of each scenario (5)
  --size N MiB      another size of the object, like 256MiB
  --without NAME    leave a reference out: {}
  --dir DIR         a tmpfs for the files (/dev/shm)
  --command PATH    a command that is built already, to compare versions (builds this one)
  --json FILE       write all samples and medians to FILE, too
",
        scenarios.collect::<String>(),
        Program::ALL.map(|program| program.name()).join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_scenarios_are_taken_in_any_order() {
        let words = ["--rounds", "3", "one-to-one", "--size", "64MiB", "--without", "socat"];
        let options = Options::parse(&words).expect("these are fine");
        assert_eq!((options.rounds, options.bytes, options.without), (3, Some(64 << 20), vec![Program::Socat]));
        assert_eq!(options.scenarios, ["one-to-one"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for words in [&["--rounds", "0"][..], &["--size", "1GB"], &["two-to-two"], &["--json"], &["--without", "x"]] {
            assert!(Options::parse(words).is_err(), "{words:?}");
        }
    }
}
