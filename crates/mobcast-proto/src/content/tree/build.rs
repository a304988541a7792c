//! Building a tree entry by entry, with every rule checked. Both the scan of a source and the decoding of an index
//! come through here, so that what one sends the other accepts.

use std::cmp::Ordering;

use super::*;

/// Collects the entries of a tree, in the order of their paths.
#[derive(Clone, Debug, Default)]
pub struct TreeBuilder {
    tree: Tree,
    last_path: Vec<u8>,
    /// The directories among the ancestors of the last entry, itself included: the length of each one's path, which
    /// is a prefix of `last_path`, and its entry.
    ancestors: Vec<(usize, u32)>,
}

impl TreeBuilder {
    /// An empty tree; the first entry must be the root: an empty path, a directory.
    pub fn new() -> TreeBuilder {
        TreeBuilder::default()
    }

    /// The path of the last entry; empty before the second.
    pub(super) fn last_path(&self) -> &[u8] {
        &self.last_path
    }

    /// Adds an entry and returns its number. Paths come sorted component by component (a directory directly before
    /// what it holds, its entries by the bytes of their names).
    pub fn push(&mut self, path: &[u8], attributes: Attributes, kind: EntryKind) -> Result<u32, TreeError> {
        if self.tree.entries.len() >= TREE_ENTRIES_MAX {
            return Err(TreeError::TooManyEntries);
        }
        let entry = self.tree.len();
        let parent = self.check(path, attributes, &kind).map_err(|problem| TreeError::Entry { entry, problem })?;
        self.tree.content_length += match kind {
            EntryKind::File { size, .. } if size > 0 => {
                self.tree.content_entries.push(entry);
                self.tree.content_starts.push(self.tree.content_length);
                size
            }
            _ => 0,
        };
        if matches!(kind, EntryKind::Directory) {
            self.ancestors.push((path.len(), entry));
        }
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let (name_start, name_len) = (self.tree.names.len() as u64, name.len() as u8);
        self.tree.names.extend_from_slice(name);
        self.tree.entries.push(TreeEntry { kind, attributes, parent, name_start, name_len });
        self.last_path.clear();
        self.last_path.extend_from_slice(path);
        Ok(entry)
    }

    /// The parent's entry, if all rules hold.
    fn check(&mut self, path: &[u8], attributes: Attributes, kind: &EntryKind) -> Result<u32, EntryProblem> {
        if attributes.mode > 0o7777 || attributes.modified_ns >= 1_000_000_000 {
            return Err(EntryProblem::Attributes);
        }
        self.check_kind(kind)?;
        if self.tree.is_empty() || path.is_empty() {
            let is_root = self.tree.is_empty() && path.is_empty() && *kind == EntryKind::Directory;
            return if is_root { Ok(0) } else { Err(EntryProblem::Root) };
        }
        check_path(path)?;
        if compare_paths(&self.last_path, path) != Ordering::Less {
            return Err(EntryProblem::Order);
        }
        self.parent_of(path).ok_or(EntryProblem::Parent)
    }

    fn check_kind(&self, kind: &EntryKind) -> Result<(), EntryProblem> {
        match kind {
            EntryKind::Directory => Ok(()),
            EntryKind::File { size, .. } => {
                let sum = self.tree.content_length.checked_add(*size);
                if sum.is_some_and(|sum| sum <= OBJECT_BYTES_MAX) { Ok(()) } else { Err(EntryProblem::Size) }
            }
            EntryKind::Symlink { target } if target.is_empty() || target.len() > PATH_BYTES_MAX => {
                Err(EntryProblem::LinkTarget)
            }
            EntryKind::Symlink { target } if target.contains(&0) => Err(EntryProblem::Nul),
            EntryKind::Symlink { .. } => Ok(()),
            EntryKind::HardLink { target } => match self.tree.entries.get(*target as usize).map(|entry| &entry.kind) {
                Some(EntryKind::File { .. }) => Ok(()),
                _ => Err(EntryProblem::HardLinkTarget),
            },
        }
    }

    /// Drops the ancestors that are not above `path`; the last one left is its parent, if nothing is missing between.
    fn parent_of(&mut self, path: &[u8]) -> Option<u32> {
        let last_path = &self.last_path;
        let is_above = |len: usize| len == 0 || (path.get(len) == Some(&b'/') && path.starts_with(&last_path[..len]));
        while self.ancestors.last().is_some_and(|&(len, _)| !is_above(len)) {
            self.ancestors.pop();
        }
        let parent_len = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        self.ancestors.last().and_then(|&(len, entry)| (len == parent_len).then_some(entry))
    }

    /// The finished tree. A tree has at least its root.
    pub fn finish(self) -> Result<Tree, TreeError> {
        if self.tree.is_empty() {
            return Err(TreeError::Entry { entry: 0, problem: EntryProblem::Root });
        }
        Ok(self.tree)
    }
}

fn check_path(path: &[u8]) -> Result<(), EntryProblem> {
    if path.len() > PATH_BYTES_MAX {
        return Err(EntryProblem::PathLength);
    }
    if path[0] == b'/' {
        return Err(EntryProblem::Absolute);
    }
    if path.contains(&0) {
        return Err(EntryProblem::Nul);
    }
    path.split(|&byte| byte == b'/').try_for_each(check_component)
}

fn check_component(component: &[u8]) -> Result<(), EntryProblem> {
    match component {
        b"" | b"." | b".." => Err(EntryProblem::Component),
        long if long.len() > COMPONENT_BYTES_MAX => Err(EntryProblem::ComponentLength),
        _ => Ok(()),
    }
}

/// The order of paths, component by component: the slash counts as the smallest byte, which no path else has.
fn compare_paths(a: &[u8], b: &[u8]) -> Ordering {
    let key = |&byte: &u8| if byte == b'/' { 0 } else { byte };
    a.iter().map(key).cmp(b.iter().map(key))
}
