//! Functions of a screen, files of one thought.

use super::Finding;
use crate::masked::{Function, functions, mask, without_tests};
use crate::repository::TextFile;

/// Lines of a file, tests at its end included.
const FILE_LINES_MAX: usize = 600;
/// Lines of a function.
const FUNCTION_LINES_MAX: usize = 60;

/// A file or function that may be longer, up to a size of its own, for a reason.
struct Allowed {
    path: &'static str,
    /// None for the file itself.
    function: Option<&'static str>,
    lines_max: usize,
    reason: &'static str,
}

const ALLOWED: &[Allowed] = &[
    Allowed {
        path: "crates/mobcast-proto/src/wire/frame.rs",
        function: Some("write_body"),
        lines_max: 100,
        reason: "one arm for each frame, in the order of the format: read beside docs/wire-format.md",
    },
    Allowed {
        path: "crates/mobcast-proto/src/node/broadcasts.rs",
        function: Some("member_frame"),
        lines_max: 80,
        reason: "one arm for each frame, which only dispatches",
    },
];

/// Checks all sources. Functions in tests may be long: a test reads as an experiment, from top to bottom.
pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let sources: Vec<&TextFile> = files.iter().filter(|file| file.is("rs")).collect();
    let mut findings: Vec<Finding> = sources.iter().flat_map(|file| check_file(file, ALLOWED)).collect();
    findings.extend(check_allowed(&sources, ALLOWED));
    findings
}

fn check_file(file: &TextFile, allowed: &[Allowed]) -> Vec<Finding> {
    let limit = |function: Option<&str>, limit: usize| {
        let entry = allowed.iter().find(|entry| entry.path == file.path && entry.function == function);
        entry.map_or(limit, |entry| entry.lines_max)
    };
    let mut findings = Vec::new();
    let (lines, lines_max) = (file.text.lines().count(), limit(None, FILE_LINES_MAX));
    if lines > lines_max {
        let mend = "split it by decision into files of one thought, or name the reason in ALLOWED of xtask's sizes.rs";
        findings.push(Finding::new(&file.path, format!("{lines} lines are more than {lines_max}"), mend));
    }
    for Function { name, line, lines } in long_functions(file) {
        let lines_max = limit(Some(&name), FUNCTION_LINES_MAX);
        if lines > lines_max {
            let mend = "give its steps names of their own, or name the reason in ALLOWED of xtask's sizes.rs";
            let problem = format!("{name} has {lines} lines, more than {lines_max}");
            findings.push(Finding::new(format!("{}:{line}", file.path), problem, mend));
        }
    }
    findings
}

fn long_functions(file: &TextFile) -> Vec<Function> {
    if file.is_test() {
        return Vec::new();
    }
    let mut found = functions(&without_tests(&mask(&file.text)));
    found.retain(|function| function.lines > FUNCTION_LINES_MAX);
    found
}

/// An exception that is not needed any more hides the next one.
fn check_allowed(sources: &[&TextFile], allowed: &[Allowed]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for entry in allowed {
        let what = entry.function.unwrap_or("the file");
        let place = format!("xtask/src/tidy/sizes.rs: {} ({what})", entry.path);
        let needed = sources.iter().filter(|file| file.path == entry.path).any(|file| match entry.function {
            None => file.text.lines().count() > FILE_LINES_MAX,
            Some(name) => long_functions(file).iter().any(|function| function.name == name),
        });
        if !needed {
            findings.push(Finding::new(&place, "the exception is not needed", "remove it from ALLOWED"));
        }
        if entry.reason.len() < 20 {
            findings.push(Finding::new(&place, "the exception has no reason", "say why it may be longer"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const REASON: &str = "one arm for each of many kinds";

    fn file(path: &str, text: String) -> TextFile {
        TextFile { path: path.into(), text }
    }

    fn function_of(lines: usize) -> String {
        format!("//! X.\n\nfn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn long_files_are_found() {
        assert_eq!(check_file(&file("a/src/x.rs", "//\n".repeat(FILE_LINES_MAX)), &[]), []);
        assert_eq!(check_file(&file("a/src/x.rs", "//\n".repeat(FILE_LINES_MAX + 1)), &[]).len(), 1);
        assert_eq!(check_file(&file("a/tests/x.rs", "//\n".repeat(FILE_LINES_MAX + 1)), &[]).len(), 1);
    }

    #[test]
    fn long_functions_are_found_outside_of_tests() {
        assert_eq!(check_file(&file("a/src/x.rs", function_of(FUNCTION_LINES_MAX)), &[]), []);
        let found = check_file(&file("a/src/x.rs", function_of(FUNCTION_LINES_MAX + 1)), &[]);
        assert_eq!(found.first().map(|finding| finding.place.as_str()), Some("a/src/x.rs:3"));
        assert_eq!(check_file(&file("a/tests/x.rs", function_of(FUNCTION_LINES_MAX + 1)), &[]), []);
    }

    #[test]
    fn an_exception_has_a_size_of_its_own_and_a_reason() {
        let allowed = |reason| [Allowed { path: "a/src/x.rs", function: Some("long"), lines_max: 70, reason }];
        let (fits, exceeds) = (file("a/src/x.rs", function_of(70)), file("a/src/x.rs", function_of(71)));
        assert_eq!(check_file(&fits, &allowed(REASON)), []);
        assert_eq!(check_file(&exceeds, &allowed(REASON)).len(), 1);
        assert_eq!(check_allowed(&[&fits], &allowed(REASON)), []);
        assert_eq!(check_allowed(&[&fits], &allowed("")).len(), 1);
        assert_eq!(check_allowed(&[&file("a/src/x.rs", function_of(9))], &allowed(REASON)).len(), 1);
        assert_eq!(check_allowed(&[], &allowed(REASON)).len(), 1, "the file is gone");
    }
}
