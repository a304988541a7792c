//! What stands in the sources: headers, unfinished work, unsafe code, and what the core may not call.

use super::dependencies::Crate;
use super::{Finding, find, line_of, whole_words};
use crate::masked::{mask, without_tests};
use crate::repository::TextFile;

/// The one crate that talks to the kernel; clippy asks for a safety argument at each of its unsafe blocks.
const UNSAFE_ALLOWED: &str = "mobcast-net";
/// Crates of which one module may have unsafe code, with an allowance that says why.
const UNSAFE_IN_ONE_MODULE: [&str; 1] = ["mobcast-lab"];
const FORBID_UNSAFE: &str = "#![forbid(unsafe_code)]";
const DENY_UNSAFE: &str = "#![deny(unsafe_code)]";
const ALLOW_UNSAFE: [&str; 2] = ["allow(unsafe_code", "expect(unsafe_code"];

/// Crates whose runs depend on nothing but their input and their seed.
const DETERMINISTIC: [&str; 2] = ["crates/mobcast-proto", "crates/mobcast-sim"];
/// What makes a run depend on more, and what to use. The first group is searched for in all deterministic crates.
const BANNED: [(&str, &str); 7] = [
    ("Instant::now", "take the time as an argument (mobcast_proto::Time)"),
    ("SystemTime", "take the time as an argument (mobcast_proto::Time)"),
    ("HashMap", "its order is random: use BTreeMap or Vec"),
    ("HashSet", "its order is random: use BTreeSet or a bit set"),
    ("std::thread", "the driver has the threads"),
    ("rand::", "use mobcast_proto::random with a seed that was given"),
    ("std::env", "take a setting as an argument"),
];
/// The simulator's command is none of its models: which thread runs a seed makes no difference to the run.
const COMMAND: &str = "crates/mobcast-sim/src/cli/";
/// Searched for in the core alone: a simulator may have files and print.
const BANNED_IN_CORE: [(&str, &str); 6] = [
    ("TcpStream", "emit an output: the driver has the sockets"),
    ("TcpListener", "emit an output: the driver has the sockets"),
    ("UdpSocket", "emit an output: the driver has the sockets"),
    ("std::fs", "emit an output: the driver has the files"),
    ("println!", "emit an event"),
    ("eprintln!", "emit an event"),
];
const CORE: &str = "crates/mobcast-proto";

/// What clippy.toml of a deterministic crate must ban: clippy sees through imports, the search here does not.
const CLIPPY_BANS: [&str; 9] = [
    "std::collections::HashMap",
    "std::collections::HashSet",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::thread::spawn",
    "std::thread::sleep",
    "std::env::var",
    "std::fs::File::open",
    "std::net::TcpStream::connect",
];

/// Notes that say that something is not finished. Put together here, so that this file does not hold them.
fn unfinished() -> [String; 5] {
    ["TO_DO", "FIX_ME", "XX_X", "to_do!", "unimple_mented!"].map(|word| word.replace('_', ""))
}

/// Checks all sources.
pub fn check(crates: &[Crate], files: &[TextFile]) -> Vec<Finding> {
    let mut findings = check_unsafe(crates, files);
    findings.extend(check_one_unsafe_module(crates, files));
    findings.extend(check_clippy_bans(files));
    for file in files.iter().filter(|file| !file.is("md")) {
        findings.extend(check_unfinished(file));
    }
    for file in files.iter().filter(|file| file.is("rs")) {
        findings.extend(check_header(file));
        findings.extend(check_banned(file));
    }
    findings
}

fn check_unsafe(crates: &[Crate], files: &[TextFile]) -> Vec<Finding> {
    let others = crates.iter().filter(|of| of.name != UNSAFE_ALLOWED);
    let of_root = |of: &Crate, path: &String| find(files, path).map(|root| (of.name.clone(), root));
    let roots = others.flat_map(|of| of.roots.iter().filter_map(move |path| of_root(of, path)));
    let lacking = roots.filter(|(name, root)| {
        let text = mask(&root.text);
        let denied = UNSAFE_IN_ONE_MODULE.contains(&name.as_str()) && text.contains(DENY_UNSAFE);
        !denied && !text.contains(FORBID_UNSAFE)
    });
    let mend = format!("write {FORBID_UNSAFE} below the header; what needs unsafe code belongs into {UNSAFE_ALLOWED}");
    lacking.map(|(_, root)| Finding::new(&root.path, "the crate does not forbid unsafe code", &mend)).collect()
}

/// Allowances of unsafe code beyond the first of a crate that may have one.
fn check_one_unsafe_module(crates: &[Crate], files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for of in crates.iter().filter(|of| UNSAFE_IN_ONE_MODULE.contains(&of.name.as_str())) {
        let sources = format!("{}/src/", of.dir);
        let of_crate = files.iter().filter(|file| file.is("rs") && file.path.starts_with(&sources));
        let allowances = of_crate.flat_map(|file| {
            let code = mask(&file.text);
            let allows = |line: &str| ALLOW_UNSAFE.iter().any(|allow| line.contains(allow));
            let lines = code.lines().enumerate().filter(|(_, line)| allows(line));
            lines.map(|(number, _)| format!("{}:{}", file.path, number + 1)).collect::<Vec<_>>()
        });
        let mend = format!("move it into the module that may, or into {UNSAFE_ALLOWED}");
        findings.extend(allowances.skip(1).map(|place| Finding::new(place, "a second module has unsafe code", &mend)));
    }
    findings
}

fn check_clippy_bans(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for dir in DETERMINISTIC {
        let path = format!("{dir}/clippy.toml");
        let text = find(files, &path).map_or("", |file| file.text.as_str());
        for ban in CLIPPY_BANS.iter().filter(|ban| !text.contains(&format!("path = \"{ban}\""))) {
            let mend = format!("add {{ path = \"{ban}\", reason = … }} to disallowed-types or disallowed-methods");
            findings.push(Finding::new(&path, format!("does not ban {ban}"), mend));
        }
    }
    findings
}

fn check_header(file: &TextFile) -> Vec<Finding> {
    if !file.path.contains("/src/") || file.text.starts_with("//! ") {
        return Vec::new();
    }
    let mend = "begin it with `//! ` and what the file is, what it promises, what it leaves to others";
    vec![Finding::new(&file.path, "has no header", mend)]
}

fn check_unfinished(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for word in unfinished() {
        for at in whole_words(&file.text, &word) {
            let place = format!("{}:{}", file.path, line_of(&file.text, at));
            let mend = "finish it, or open an issue and say in a sentence what holds until then";
            findings.push(Finding::new(place, format!("{word} marks something unfinished"), mend));
        }
    }
    findings
}

fn check_banned(file: &TextFile) -> Vec<Finding> {
    let Some(dir) = file.crate_dir().filter(|dir| DETERMINISTIC.contains(dir)) else { return Vec::new() };
    if file.is_test() || file.path.starts_with(COMMAND) {
        return Vec::new();
    }
    let code = without_tests(&mask(&file.text));
    let core = BANNED_IN_CORE.iter().filter(|_| dir == CORE);
    let mut findings = Vec::new();
    for (word, mend) in BANNED.iter().chain(core) {
        for at in whole_words(&code, word) {
            let place = format!("{}:{}", file.path, line_of(&code, at));
            findings.push(Finding::new(place, format!("{word} makes a run depend on more than its input"), *mend));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.into(), text: text.into() }
    }

    fn banned(path: &str, text: &str) -> usize {
        check_banned(&file(path, text)).len()
    }

    #[test]
    fn a_crate_that_permits_unsafe_code_is_found() {
        let of = |name: &str| Crate { name: name.into(), roots: vec!["a/src/lib.rs".into()], ..Crate::default() };
        let lax = [file("a/src/lib.rs", "//! A.\n// #![forbid(unsafe_code)]\n")];
        let strict = [file("a/src/lib.rs", "//! A.\n\n#![forbid(unsafe_code)]\n")];
        assert_eq!(check_unsafe(&[of("mobcast")], &lax).len(), 1, "a comment does not count");
        assert_eq!(check_unsafe(&[of("mobcast")], &strict), []);
        assert_eq!(check_unsafe(&[of(UNSAFE_ALLOWED)], &lax), []);
        let denied = [file("a/src/lib.rs", "//! A.\n\n#![deny(unsafe_code)]\n")];
        assert_eq!(check_unsafe(&[of(UNSAFE_IN_ONE_MODULE[0])], &denied), []);
        assert_eq!(check_unsafe(&[of("mobcast")], &denied).len(), 1);
    }

    #[test]
    fn a_second_module_with_unsafe_code_is_found() {
        let lab = Crate { name: UNSAFE_IN_ONE_MODULE[0].into(), dir: "lab".into(), ..Crate::default() };
        let module = |name: &str| format!("//! A.\n\n#[allow(unsafe_code, reason = \"it has to\")]\nmod {name};\n");
        let one = [file("lab/src/a.rs", &module("tun")), file("lab/src/b.rs", "//! allow(unsafe_code)\n")];
        assert_eq!(check_one_unsafe_module(std::slice::from_ref(&lab), &one), []);
        let two = [file("lab/src/a.rs", &module("tun")), file("lab/src/c.rs", "//! C.\n\n#![expect(unsafe_code)]\n")];
        let found = check_one_unsafe_module(&[lab], &two);
        assert_eq!(found.iter().map(|finding| finding.place.as_str()).collect::<Vec<_>>(), ["lab/src/c.rs:3"]);
    }

    #[test]
    fn missing_bans_are_found() {
        assert_eq!(check_clippy_bans(&[]).len(), DETERMINISTIC.len() * CLIPPY_BANS.len());
        let all: String = CLIPPY_BANS.iter().map(|ban| format!("{{ path = \"{ban}\" }},\n")).collect();
        let one_less = all.replace("\"std::time::Instant\"", "\"std::time::Instants\"");
        let files = DETERMINISTIC.map(|dir| file(&format!("{dir}/clippy.toml"), &all));
        assert_eq!(check_clippy_bans(&files), []);
        let files = DETERMINISTIC.map(|dir| file(&format!("{dir}/clippy.toml"), &one_less));
        assert_eq!(check_clippy_bans(&files).len(), 2);
    }

    #[test]
    fn a_file_without_a_header_is_found() {
        assert_eq!(check_header(&file("a/src/x.rs", "\n//! X.\n")).len(), 1);
        assert_eq!(check_header(&file("a/src/x.rs", "use std::fmt;\n")).len(), 1);
        assert_eq!(check_header(&file("a/src/x.rs", "//! X.\n")), []);
        assert_eq!(check_header(&file("a/tests/x.rs", "use a;\n")), []);
    }

    #[test]
    fn unfinished_work_is_found() {
        for word in unfinished() {
            let found = check_unfinished(&file("a/src/x.rs", &format!("//! X.\n\nfn a() {{ {word} }}\n")));
            assert_eq!(found.first().map(|f| f.place.as_str()), Some("a/src/x.rs:3"), "{word}");
        }
        assert_eq!(check_unfinished(&file("a/src/x.rs", "//! mktemp makes a name of XXXXXX\n")), []);
    }

    #[test]
    fn what_is_banned_in_the_core_is_found() {
        let core = "crates/mobcast-proto/src/x.rs";
        for (word, _) in BANNED.iter().chain(&BANNED_IN_CORE) {
            let text = format!("//! X.\nfn a() {{ {word} }}\n");
            assert_eq!(banned(core, &text), 1, "{word}");
            assert_eq!(banned(core, &format!("//! {word}\nconst A: &str = \"{word}\";\n")), 0, "{word} in words");
            assert_eq!(banned("crates/mobcast-proto/src/x/tests.rs", &text), 0);
            assert_eq!(banned("crates/mobcast-net/src/x.rs", &text), 0);
            assert_eq!(banned(core, &format!("#[cfg(test)]\nmod tests {{ fn a() {{ {word} }} }}\n")), 0);
        }
        assert_eq!(banned(core, "use std::net::TcpStream;\n"), 1);
        assert_eq!(banned("crates/mobcast-sim/src/x.rs", "fn a() { std::fs::read(b) }\n"), 0);
        assert_eq!(banned("crates/mobcast-sim/src/x.rs", "use std::collections::HashMap;\n"), 1);
        assert_eq!(banned("crates/mobcast-sim/src/cli/x.rs", "use std::thread;\n"), 0);
    }
}
