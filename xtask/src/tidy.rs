//! Rules of the house that can be checked are checked here. Each finding says where, what, and how to mend it.

use std::fmt;

use crate::repository::{self, TextFile};

mod dependencies;
mod documents;
mod messages;
mod sizes;
mod sources;

/// A rule that is broken somewhere.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    /// A path, with a line where that is known.
    place: String,
    /// What is wrong.
    problem: String,
    /// What to do.
    mend: String,
}

impl Finding {
    fn new(place: impl Into<String>, problem: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { place: place.into(), problem: problem.into(), mend: mend.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    {}", self.place, self.problem, self.mend)
    }
}

/// Looks at the whole repository and prints what it finds; true if that is nothing.
pub fn run() -> bool {
    match findings() {
        Err(problem) => {
            println!("tidy cannot look: {problem}");
            false
        }
        Ok(findings) => {
            findings.iter().for_each(|finding| println!("{finding}"));
            findings.is_empty()
        }
    }
}

fn findings() -> Result<Vec<Finding>, String> {
    let root = repository::root();
    let files = repository::read_texts(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    let crates = dependencies::read(&root)?;
    let mut findings = dependencies::check(&crates);
    findings.extend(sources::check(&crates, &files));
    findings.extend(sizes::check(&files));
    findings.extend(documents::check(&files, |path| root.join(path).exists()));
    findings.extend(messages::check(&files));
    findings.sort();
    Ok(findings)
}

/// The file at `path`.
fn find<'a>(files: &'a [TextFile], path: &str) -> Option<&'a TextFile> {
    files.iter().find(|file| file.path == path)
}

/// Where `word` stands alone in `text`, not as a part of a longer word.
fn whole_words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = text[..at].chars().next_back().is_some_and(part_of_word);
        let after = text[at + word.len()..].chars().next().is_some_and(part_of_word);
        !(before && word.starts_with(part_of_word) || after && word.ends_with(part_of_word))
    })
}

/// The line of the byte at `at`, from 1.
fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_tells_place_problem_and_mend() {
        let finding = Finding::new("a.rs:1", "is wrong", "mend it");
        assert_eq!(finding.to_string(), "a.rs:1: is wrong\n    mend it");
    }

    #[test]
    fn parts_of_words_are_no_words() {
        let found = |text: &str, word: &str| whole_words(text, word).collect::<Vec<_>>();
        assert_eq!(found("HashMap, MyHashMap, HashMapX, (HashMap)", "HashMap"), [0, 31]);
        assert_eq!(found("std::thread::spawn", "std::thread"), [0]);
        assert_eq!(found("operand::x rand::x", "rand::"), [11]);
    }
}
