//! What stands in the documents: links and paths that lead somewhere, a page for each strategy, the glossary's words.

use std::path::{Component, Path, PathBuf};

use super::{Finding, find, line_of, whole_words};
use crate::repository::TextFile;

/// Where strategies are, one file each.
const STRATEGIES: &str = "crates/mobcast-proto/src/strategy/";
const STRATEGY_PAGES: &str = "docs/strategies";
const GLOSSARY: &str = "docs/glossary.md";
/// The heading in the glossary below which words stand that are not used.
const WORDS_NOT_USED: &str = "## Words not used";
/// Pages that speak of others' work in others' words.
const OTHERS_WORDS: [&str; 2] = ["docs/strategies/", "docs/reproducing/"];
/// Where paths begin that are written in full in documents and comments.
const PATHS: [&str; 5] = ["crates/", "docs/", "xtask/", "scenarios/", "bindings/"];

/// Checks all documents, and what comments say of documents. `exists` tells whether a path relative to the root does.
pub fn check(files: &[TextFile], exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = check_strategies(files);
    let words = words_not_used(files);
    if words.is_empty() {
        let mend = format!("keep a table of `| not | say |` below the heading {WORDS_NOT_USED:?}");
        findings.push(Finding::new(GLOSSARY, "no words that are not used", mend));
    }
    for file in files.iter().filter(|file| file.is("md") || file.is("rs")) {
        let prose = prose(file);
        if file.is("md") {
            findings.extend(check_links(file, &prose, files, &exists));
        }
        findings.extend(check_paths(file, &prose, &exists));
        findings.extend(check_words(file, &prose, &words));
    }
    findings
}

/// The text without blocks of code, or of a source only its comments; every line stays where it is.
fn prose(file: &TextFile) -> String {
    let mut fenced = false;
    let mut prose = String::with_capacity(file.text.len());
    for line in file.text.lines() {
        let line = if file.is("rs") { comment(line) } else { line };
        let fence = line.trim_start().starts_with("```");
        if !fence && !fenced {
            prose.push_str(line);
        }
        fenced ^= fence;
        prose.push('\n');
    }
    prose
}

fn comment(line: &str) -> &str {
    let line = line.trim_start();
    if line.starts_with("//") { line.trim_start_matches(['/', '!']) } else { "" }
}

// ---- Links and paths ----

fn check_links(file: &TextFile, prose: &str, files: &[TextFile], exists: &impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, _) in prose.match_indices("](") {
        let Some((target, _)) = prose[at + 2..].split_once(')') else { continue };
        let target = target.split_whitespace().next().unwrap_or_default();
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let place = format!("{}:{}", file.path, line_of(prose, at));
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() { file.path.clone() } else { resolve(&file.path, path) };
        if !exists(&path) {
            findings.push(Finding::new(place, format!("the link to {target} is dead"), format!("there is no {path}")));
        } else if !anchor.is_empty() && find(files, &path).is_some_and(|to| !anchors(to).contains(&anchor.to_owned())) {
            let mend = format!("{path} has no heading of that name");
            findings.push(Finding::new(place, format!("the link to {target} is dead"), mend));
        }
    }
    findings
}

/// The path that `link` in the file `from` means, relative to the root.
fn resolve(from: &str, link: &str) -> String {
    let mut path = PathBuf::new();
    let base = Path::new(from).parent().unwrap_or(Path::new(""));
    for component in base.join(link).components() {
        match component {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path.to_string_lossy().into_owned()
}

/// The names by which the headings of a document are linked to.
fn anchors(file: &TextFile) -> Vec<String> {
    let prose = prose(file);
    let headings = prose.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let name = |heading: &str| {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    headings.map(name).collect()
}

/// Paths in backticks that are written from the root.
fn check_paths(file: &TextFile, prose: &str, exists: &impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in prose.lines().enumerate() {
        for quoted in line.split('`').skip(1).step_by(2) {
            let path = quoted.trim_end_matches('/');
            let path = path.split_once(".rs:").map_or(path, |(stem, _)| &path[..stem.len() + 3]);
            let pattern = path.contains(['<', '*', '{', '…', '$', ' ']) || path.contains("NAME");
            if PATHS.iter().any(|start| quoted.starts_with(start)) && !pattern && !exists(path) {
                let place = format!("{}:{}", file.path, number + 1);
                let mend = "name the file where that is said today, or leave it out";
                findings.push(Finding::new(place, format!("there is no {path}"), mend));
            }
        }
    }
    findings
}

// ---- Strategies ----

fn check_strategies(files: &[TextFile]) -> Vec<Finding> {
    let sources = files.iter().filter(|file| file.path.starts_with(STRATEGIES));
    let names: Vec<String> = sources.flat_map(|file| strategies(&file.text)).collect();
    if names.is_empty() {
        let mend = "keep entries of the form `StrategyKind = StrategyKind { name: \"…\",`, or teach xtask's documents.rs the form";
        return vec![Finding::new(STRATEGIES, "no strategy is registered", mend)];
    }
    let page = |name: &String| format!("{STRATEGY_PAGES}/{name}.md");
    let lacking = names.iter().filter(|name| find(files, &page(name)).is_none());
    let finding = |name: &String| {
        let mend = format!("write {}: idea, rules, parameters, source, when it is best, what was measured", page(name));
        Finding::new(STRATEGIES, format!("the strategy {name} has no page"), mend)
    };
    lacking.map(finding).collect()
}

/// The names of the strategies that a source declares.
fn strategies(source: &str) -> Vec<String> {
    let entries = source.split("StrategyKind = StrategyKind {").skip(1);
    let names = entries.filter_map(|entry| entry.split_once("name: \"")?.1.split_once('"'));
    names.map(|(name, _)| name.to_owned()).collect()
}

// ---- Words ----

/// Words that the glossary rules out, with what to say.
fn words_not_used(files: &[TextFile]) -> Vec<(String, String)> {
    let Some(glossary) = find(files, GLOSSARY) else { return Vec::new() };
    let Some((_, table)) = glossary.text.split_once(WORDS_NOT_USED) else { return Vec::new() };
    let rows = table.lines().skip(1).take_while(|line| !line.starts_with('#')).filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.trim_matches('|').split_once('|'));
    let words = cells.filter(|(not, _)| not.trim() != "not");
    let each = |(not, say): (&str, &str)| {
        let say = say.trim().to_owned();
        not.split(',').map(|word| (word.trim().to_lowercase(), say.clone())).collect::<Vec<_>>()
    };
    words.flat_map(each).collect()
}

fn check_words(file: &TextFile, prose: &str, words: &[(String, String)]) -> Vec<Finding> {
    if file.path == GLOSSARY || OTHERS_WORDS.iter().any(|start| file.path.starts_with(start)) {
        return Vec::new();
    }
    let prose = prose.to_lowercase();
    let mut findings = Vec::new();
    for (word, say) in words {
        let plural = plural(word);
        for at in whole_words(&prose, word).chain(whole_words(&prose, &plural)) {
            let place = format!("{}:{}", file.path, line_of(&prose, at));
            findings.push(Finding::new(place, format!("{word:?} is not a word of {GLOSSARY}"), format!("say: {say}")));
        }
    }
    findings
}

fn plural(word: &str) -> String {
    format!("{word}{}", if word.ends_with("sh") { "es" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.into(), text: text.into() }
    }

    fn links(text: &str) -> Vec<String> {
        let files = [file("docs/a.md", text), file("docs/b.md", "# B\n\n## Two words, and `code`\n")];
        let exists = |path: &str| files.iter().any(|file| file.path == path);
        let found = check_links(&files[0], &prose(&files[0]), &files, &exists);
        found.into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn dead_links_are_found() {
        assert_eq!(links("# A\n[x](b.md) [y](../docs/b.md) [z](https://example.org/x) [w](#a)\n"), [""; 0]);
        assert_eq!(links("[x](b.md#two-words-and-code)\n"), [""; 0]);
        assert_eq!(links("\n[x](c.md)\n"), ["docs/a.md:2"]);
        assert_eq!(links("[x](b.md#three)\n[y](#b)\n"), ["docs/a.md:1", "docs/a.md:2"]);
        assert_eq!(links("```\n[x](c.md)\n```\n"), [""; 0], "an example is no link");
    }

    #[test]
    fn dead_paths_are_found() {
        let found = |path: &str, text: &str| {
            let file = file(path, text);
            check_paths(&file, &prose(&file), &|path| path == "docs/a.md").len()
        };
        assert_eq!(found("README.md", "see `docs/a.md`, `docs/<name>.md`, `crates/*/src`, `src/x`\n"), 0);
        assert_eq!(found("README.md", "see `docs/b.md` and `crates/none/src/lib.rs:12`\n"), 2);
        assert_eq!(found("a/src/x.rs", "//! `docs/b.md` says why.\nconst A: &str = \"`docs/b.md`\";\n"), 1);
    }

    #[test]
    fn a_strategy_without_a_page_is_found() {
        let source =
            |name: &str| format!("pub const KIND: StrategyKind = StrategyKind {{\n    name: \"{name}\",\n}};\n");
        let path = |name: &str| format!("{STRATEGIES}{name}.rs");
        let [mob, flat] = ["mob", "flat"].map(|name| file(&path(name), &source(name)));
        let files = [mob, flat, file("docs/strategies/mob.md", "# mob\n")];
        let found = check_strategies(&files);
        assert_eq!(found.iter().map(|f| f.problem.as_str()).collect::<Vec<_>>(), ["the strategy flat has no page"]);
        assert_eq!(check_strategies(&[]).len(), 1, "no strategy at all is a mistake of the check");
    }

    #[test]
    fn words_that_the_glossary_rules_out_are_found() {
        let text = "# Glossary\n\n## Words not used\n\n| not | say |\n|---|---|\n| seeder, seed node | root |\n";
        let words = words_not_used(&[file(GLOSSARY, text)]);
        assert_eq!(words, [("seeder".into(), "root".into()), ("seed node".into(), "root".into())]);
        let found = |path: &str, text: &str| {
            let file = file(path, text);
            check_words(&file, &prose(&file), &words).len()
        };
        assert_eq!(found("README.md", "A Seeder and a\nseed node, not seeded\n"), 2);
        assert_eq!(found("README.md", "Seeders, seed nodes, and a seeder's\n"), 3);
        assert_eq!(plural("info hash"), "info hashes");
        assert_eq!(found("a/src/x.rs", "//! a seeder\nlet seeder = 1;\n"), 1);
        assert_eq!(found("docs/strategies/bittorrent.md", "a seeder\n") + found(GLOSSARY, text), 0);
    }
}
