//! The files of the repository that are looked at: everything under its root but build results and what begins with
//! a dot. Read once; checks work on the texts, so that tests can give them texts of their own.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Directories that hold no sources.
const SKIPPED: [&str; 1] = ["target"];
/// Kinds of files whose text is read.
const TEXTS: [&str; 5] = ["rs", "md", "toml", "sh", "py"];

/// A file with its text.
#[derive(Clone, Debug)]
pub struct TextFile {
    /// Relative to the root, with `/`.
    pub path: String,
    /// What is in it.
    pub text: String,
}

impl TextFile {
    /// Whether the path ends with `.extension`.
    pub fn is(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|e| e == extension)
    }

    /// Whether it is only compiled for tests: in a `tests` directory, or a module file `tests.rs`.
    pub fn is_test(&self) -> bool {
        let parts: Vec<&str> = self.path.split('/').collect();
        parts.contains(&"tests") || parts.last() == Some(&"tests.rs")
    }

    /// The directory of its crate, like `crates/mobcast-proto`.
    pub fn crate_dir(&self) -> Option<&str> {
        let (dir, _) = self.path.split_once("/src/")?;
        Some(dir)
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a directory of the repository").to_owned()
}

/// What cargo has built for this repository: a path like `release/mobcast`.
pub fn built(path: &str) -> PathBuf {
    target(std::env::var_os("CARGO_TARGET_DIR")).join(path)
}

/// Where cargo, which is run in the root, puts what it builds.
fn target(variable: Option<OsString>) -> PathBuf {
    root().join(variable.unwrap_or("target".into()))
}

/// All text files, in fixed order.
pub fn read_texts(root: &Path) -> io::Result<Vec<TextFile>> {
    let mut files = Vec::new();
    walk(root, root, &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn walk(root: &Path, dir: &Path, files: &mut Vec<TextFile>) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if name.starts_with('.') || SKIPPED.contains(&&*name) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            walk(root, &path, files)?;
        } else if is_text(&path) {
            let relative = path.strip_prefix(root).expect("walked from the root");
            let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
            files.push(TextFile { path: relative.to_string_lossy().into_owned(), text });
        }
    }
    Ok(())
}

fn is_text(path: &Path) -> bool {
    let by_extension = path.extension().and_then(|e| e.to_str()).is_some_and(|e| TEXTS.contains(&e));
    by_extension || path.file_name().is_some_and(|name| name == "Makefile")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> TextFile {
        TextFile { path: path.into(), text: String::new() }
    }

    #[test]
    fn this_file_is_found() {
        let files = read_texts(&root()).unwrap();
        let this = files.iter().find(|file| file.path == "xtask/src/repository.rs").unwrap();
        assert_eq!((this.crate_dir(), this.is_test(), this.is("rs")), (Some("xtask"), false, true));
        assert!(files.iter().all(|file| !file.path.starts_with("target/")));
    }

    #[test]
    fn what_is_built_is_where_cargo_puts_it() {
        assert_eq!(target(None), root().join("target"));
        assert_eq!(target(Some("/elsewhere".into())), Path::new("/elsewhere"));
        assert_eq!(target(Some("other".into())), root().join("other"));
    }

    #[test]
    fn tests_are_told_by_their_path() {
        assert!(file("crates/x/tests/all.rs").is_test() && file("crates/x/src/a/tests.rs").is_test());
        assert!(!file("crates/x/src/testing.rs").is_test());
    }
}
