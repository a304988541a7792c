//! A rival as a file: how another program is started, and how the end of its broadcast is seen.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::error::{FileError, Text, stem};

/// A program that mobcast is compared with. Commands run in [`RivalFile::directory`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RivalFile {
    /// The file's name without extension.
    pub name: String,
    /// Where the file lies, with the scripts that the commands name.
    pub directory: PathBuf,
    /// One line for tables.
    pub title: String,
    /// The Debian packages that it needs.
    pub packages: Vec<String>,
    /// A command that prints its version in one line.
    pub version: Vec<String>,
    /// Whether it works inside one cluster only, as multicast does.
    pub one_cluster: bool,
    /// A command that is run once before the first run; none if nothing is to be built.
    pub prepare: Option<Vec<String>>,
    /// The command at the root.
    pub root: Vec<String>,
    /// The command at each receiver, started before the root; none if the root starts everything.
    pub receiver: Option<Vec<String>>,
    /// Whether the root waits until every receiver has printed `ready`.
    pub wait_for_receivers: bool,
    /// When the clock of a run starts.
    pub clock: Clock,
    /// Whether it makes `LAB_ROUNDS` broadcasts after one that does not count, and prints `round SECONDS` for each.
    pub rounds: bool,
}

/// When the clock of a run starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// When the root's command is started.
    #[default]
    Spawn,
    /// When the root prints `start`.
    Announced,
}

impl RivalFile {
    /// Reads and checks a file. The error names line, key and mend.
    pub fn load(path: &Path) -> Result<RivalFile, FileError> {
        build(&Text::read(path)?, path)
    }

    /// As [`RivalFile::load`], from a text; `path` stands for the file.
    pub fn parse(text: &str, path: &Path) -> Result<RivalFile, FileError> {
        build(&Text { file: path.display().to_string(), text: text.to_owned() }, path)
    }
}

type Command = Spanned<Vec<String>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    title: String,
    #[serde(default)]
    packages: Vec<String>,
    version: Command,
    #[serde(default)]
    one_cluster: bool,
    prepare: Option<Command>,
    root: Command,
    receiver: Option<Command>,
    wait_for_receivers: Option<Spanned<bool>>,
    #[serde(default)]
    clock: Clock,
    #[serde(default)]
    rounds: bool,
}

fn build(text: &Text, path: &Path) -> Result<RivalFile, FileError> {
    let raw: Raw = text.parse()?;
    let command = |given: &Command| text.filled(given).map(<[String]>::to_vec);
    let receiver = raw.receiver.as_ref().map(command).transpose()?;
    if let Some(wait) = raw.wait_for_receivers.as_ref().filter(|wait| *wait.get_ref() && receiver.is_none()) {
        return Err(text.error(wait.span(), "nothing is run at the receivers: give `receiver`, or leave this key out"));
    }
    Ok(RivalFile {
        name: stem(path),
        directory: path.parent().map(Path::to_path_buf).unwrap_or_default(),
        title: raw.title,
        packages: raw.packages,
        version: command(&raw.version)?,
        one_cluster: raw.one_cluster,
        prepare: raw.prepare.as_ref().map(command).transpose()?,
        root: command(&raw.root)?,
        wait_for_receivers: raw.wait_for_receivers.is_some_and(Spanned::into_inner),
        receiver,
        clock: raw.clock,
        rounds: raw.rounds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = "title = \"x\"\nversion = [\"x\", \"-V\"]\nroot = [\"x\"]\n";

    #[test]
    fn what_is_left_out_has_its_default() {
        let rival = RivalFile::parse(MINIMAL, Path::new("rivals/x.toml")).unwrap();
        assert_eq!((rival.name.as_str(), rival.directory.as_path()), ("x", Path::new("rivals")));
        assert_eq!((rival.clock, rival.receiver, rival.wait_for_receivers), (Clock::Spawn, None, false));
    }

    #[test]
    fn mistakes_are_shown_with_line_and_key() {
        let error =
            |more: &str| RivalFile::parse(&format!("{MINIMAL}{more}\n"), Path::new("x.toml")).unwrap_err().to_string();
        assert!(error("wait_for_receivers = true").starts_with("x.toml:4: wait_for_receivers: nothing is run"));
        assert!(error("receiver = []").starts_with("x.toml:4: receiver: the list is empty"));
        assert!(error("clock = \"sundial\"").starts_with("x.toml:4: clock: unknown variant `sundial`"));
    }
}
