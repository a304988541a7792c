//! Rust source in which comments and the contents of texts are blanks, so that a search finds code only, with every
//! line where it was. Not a parser: it knows as much of the language as finding functions needs.

/// A function that has a body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of the keyword `fn`, from 1.
    pub line: usize,
    /// Lines from there to the closing brace, both included.
    pub lines: usize,
}

/// Replaces comments and the contents of texts and characters by blanks.
pub fn mask(source: &str) -> String {
    let mut masked = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let (length, keep) = token(rest, masked.chars().next_back());
        let (taken, tail) = rest.split_at(length.max(first.len_utf8()));
        if keep {
            masked.push_str(taken);
        } else {
            masked.extend(taken.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
        rest = tail;
    }
    masked
}

/// The length of what `rest` begins with, and whether it is code. `before` is the character in front of it.
fn token(rest: &str, before: Option<char>) -> (usize, bool) {
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), false);
    }
    if rest.starts_with("/*") {
        return (block_comment(rest), false);
    }
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if !in_word && let Some(length) = raw_text(rest) {
        return (length, false);
    }
    if rest.starts_with('"') {
        return (quoted(rest, '"'), false);
    }
    if rest.starts_with('\'')
        && let Some(length) = character(rest)
    {
        return (length, false);
    }
    (0, true)
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// `r"…"`, `r#"…"#`, `br"…"` and so on.
fn raw_text(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix("br").or_else(|| rest.strip_prefix("cr")).or_else(|| rest.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let opening = rest.len() - body.len();
    Some(body.find(&end).map_or(rest.len(), |at| opening + at + end.len()))
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A character like `'a'` or `'\n'`; none if the quote begins a lifetime.
fn character(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        return Some(quoted(rest, '\''));
    }
    let (at, second) = chars.next()?;
    (second == '\'').then_some(at + 1)
}

/// Replaces every module that is only compiled for tests (`#[cfg(test)] mod name { … }`) by blanks.
pub fn without_tests(masked: &str) -> String {
    let mut code = masked.to_owned();
    while let Some(start) = code.find("#[cfg(test)]") {
        let rest = &code[start..];
        let ends_first = |a: Option<usize>, b: Option<usize>| a.is_some_and(|a| b.is_none_or(|b| a < b));
        let (brace, semicolon) = (rest.find('{'), rest.find(';'));
        let end = if ends_first(brace, semicolon) {
            start + brace.and_then(|at| closing_brace(rest, at)).map_or(rest.len(), |at| at + 1)
        } else {
            start + semicolon.map_or(rest.len(), |at| at + 1)
        };
        let blank: String = code[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(start..end, &blank);
    }
    code
}

/// Functions with a body, in the order of their first lines.
pub fn functions(masked: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, _) in masked.match_indices("fn ") {
        let begins = masked[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_');
        let name: String = masked[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if !begins || name.is_empty() {
            continue;
        }
        let Some(open) = body(masked, at) else { continue };
        let close = closing_brace(masked, open).unwrap_or(masked.len() - 1);
        let line = masked[..at].matches('\n').count() + 1;
        found.push(Function { name, line, lines: masked[at..close].matches('\n').count() + 1 });
    }
    found
}

/// Where the body of the function at `at` opens; none if it has none.
fn body(masked: &str, at: usize) -> Option<usize> {
    let mut depth = 0;
    for (offset, c) in masked[at..].char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ';' if depth == 0 => return None,
            '{' if depth == 0 => return Some(at + offset),
            _ => {}
        }
    }
    None
}

fn closing_brace(masked: &str, open: usize) -> Option<usize> {
    let mut depth = 0;
    for (offset, c) in masked[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(open + offset),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_texts_are_blank() {
        let source = "let a = \"x // {\"; // b\nlet c = '{'; /* d /* e */ f */ let g: &'static str = r#\"h \"}\"#;\n";
        let masked = mask(source);
        assert_eq!(masked.len(), source.len());
        assert_eq!(masked.split_whitespace().collect::<Vec<_>>().join(" "), {
            "let a = ; let c = ; let g: &'static str = ;"
        });
    }

    #[test]
    fn quotes_inside_of_texts_and_characters_do_not_end_them() {
        for source in [r#"("\"{", 1)"#, r"('\'', '{', 1)", r#"(b"{\\", 1)"#, r#"('"', b'{', 1)"#] {
            let masked = mask(source);
            assert!(masked.ends_with(", 1)") && !masked.contains('{'), "{source}: {masked}");
        }
    }

    #[test]
    fn functions_are_found_with_their_lengths() {
        let source =
            "trait A {\n    fn b(&self, c: [u8; 4]);\n    fn d() -> fn() {\n        todo\n    }\n}\nfn e() {}\n";
        let found = functions(&mask(source));
        let expected = [("d", 3, 3), ("e", 7, 1)];
        let expected = expected.map(|(name, line, lines)| Function { name: name.into(), line, lines });
        assert_eq!(found, expected);
    }

    #[test]
    fn test_modules_are_left_out() {
        let source = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { {} }\n}\nfn c() {}\n#[cfg(test)]\nmod d;\n";
        let names: Vec<String> = functions(&without_tests(&mask(source))).into_iter().map(|f| f.name).collect();
        assert_eq!(names, ["a", "c"]);
    }
}
