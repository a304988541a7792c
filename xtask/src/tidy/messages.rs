//! The README's troubleshooting names each error that reaches a person at a terminal.

use super::{Finding, find, line_of};
use crate::repository::TextFile;

const README: &str = "README.md";
const HEADING: &str = "## Troubleshooting";
/// Where errors that reach a person are defined, and behind which words in that file. Errors that only stand inside of
/// another one's message are not listed here.
const ERRORS: [(&str, &str); 6] = [
    ("crates/mobcast/src/error.rs", "pub enum Error"),
    ("crates/mobcast-net/src/channel/error.rs", "pub enum HandshakeError"),
    ("crates/mobcast-net/src/store/error.rs", "pub enum StoreError"),
    ("crates/mobcast-net/src/tls/mod.rs", "pub enum IdentityError"),
    ("crates/mobcast-proto/src/group/ticket.rs", "pub enum TicketError"),
    ("crates/mobcast-proto/src/io.rs", "pub enum Failure"),
];
/// Words of a message by which it is looked for.
const WORDS: usize = 4;

/// Checks the messages of all errors.
pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let readme = find(files, README).map_or("", |file| file.text.as_str());
    let troubleshooting = readme.split_once(HEADING).map_or("", |(_, rest)| rest);
    ERRORS.iter().flat_map(|(path, from)| check_file(files, path, from, troubleshooting)).collect()
}

fn check_file(files: &[TextFile], path: &str, from: &str, troubleshooting: &str) -> Vec<Finding> {
    let Some((file, start)) = find(files, path).and_then(|file| Some((file, file.text.find(from)?))) else {
        let mend = "name in ERRORS of xtask's messages.rs where its errors are";
        return vec![Finding::new(path, format!("there is no {from}"), mend)];
    };
    let mut findings = Vec::new();
    for (at, message) in messages(&file.text[start..]) {
        let key = key(&message);
        if !key.is_empty() && !troubleshooting.contains(&key) {
            let place = format!("{path}:{}", line_of(&file.text, start + at));
            let mend = format!("give {key:?} a row with cause and remedy below {HEADING:?}");
            findings.push(Finding::new(place, format!("{README} does not name {message:?}"), mend));
        }
    }
    findings
}

/// The texts of `#[error("…")]` attributes, each with its place.
fn messages(source: &str) -> Vec<(usize, String)> {
    let attributes = source.match_indices("#[error(").map(|(at, start)| (at, source[at + start.len()..].trim_start()));
    attributes.filter_map(|(at, rest)| Some((at, text(rest.strip_prefix('"')?)))).collect()
}

/// A text up to its closing quote.
fn text(rest: &str) -> String {
    let mut text = String::new();
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => text.extend(chars.next()),
            c => text.push(c),
        }
    }
    text
}

/// The first words of the first fixed part that has several; empty for a message that is another one's.
fn key(message: &str) -> String {
    let parts: Vec<&str> = message.split('{').map(|part| part.split_once('}').map_or(part, |(_, rest)| rest)).collect();
    let words = |part: &str| {
        let part = part.split([';', ':', '(']).find(|phrase| phrase.chars().any(char::is_alphabetic)).unwrap_or("");
        part.split_whitespace().take(WORDS).collect::<Vec<_>>().join(" ")
    };
    let phrases: Vec<String> = parts.into_iter().map(words).collect();
    let several = phrases.iter().find(|phrase| phrase.contains(' '));
    several.or_else(|| phrases.iter().max_by_key(|phrase| phrase.len())).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_looked_for_by_its_first_words() {
        assert_eq!(key("cannot {action} {}: {source}"), "cannot");
        assert_eq!(key("{} exists already; {hint}"), "exists already");
        assert_eq!(key("the peer is not {0}: its address may have passed on"), "the peer is not");
        assert_eq!(key("{bytes} bytes arrived before the index was there"), "bytes arrived before the");
        assert_eq!(key("{0}"), "");
    }

    #[test]
    fn every_listed_file_has_messages() {
        let files = crate::repository::read_texts(&crate::repository::root()).unwrap();
        for (path, from) in ERRORS {
            let found = check_file(&files, path, from, "");
            assert!(!found.is_empty() && found.iter().all(|f| f.place.starts_with(&format!("{path}:"))), "{path}");
        }
    }

    #[test]
    fn an_error_without_a_row_is_found() {
        let source = "pub enum Failure {\n    #[error(\"known: {0}\")]\n    A,\n    #[error(\n        \"not \\\"yet\\\" known\"\n    )]\n    B,\n}\n";
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let files = [file("a.rs", source)];
        let found = check_file(&files, "a.rs", "pub enum Failure", "| `known: …` | cause |");
        let places: Vec<&str> = found.iter().map(|finding| finding.place.as_str()).collect();
        assert_eq!(places, ["a.rs:4"]);
        assert_eq!(check_file(&files, "b.rs", "pub enum Failure", "").len(), 1, "the file is gone");
        assert_eq!(check_file(&files, "a.rs", "pub enum Other", "").len(), 1, "the errors are gone");
    }
}
