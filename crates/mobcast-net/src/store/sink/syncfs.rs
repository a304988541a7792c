//! Whether syncing a whole file system tells of data that could not be written. Linux does from 5.8 on; before, only syncing
//! the file itself does.

use std::sync::OnceLock;

/// The first version that tells.
const TELLS_SINCE: (u32, u32) = (5, 8);

/// Whether this kernel's `syncfs` tells of errors. If its version cannot be found, it is taken for an old one.
pub(super) fn syncfs_tells_errors() -> bool {
    static TELLS: OnceLock<bool> = OnceLock::new();
    *TELLS.get_or_init(|| {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        tells_errors(&release)
    })
}

fn tells_errors(release: &str) -> bool {
    version(release).is_some_and(|version| version >= TELLS_SINCE)
}

/// The first two numbers of a release such as `5.15.0-91-generic`.
fn version(release: &str) -> Option<(u32, u32)> {
    let (major, rest) = release.split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_understood() {
        let versions = ["5.7.19", "5.8.0-rc1", "6.1\n", "4.18.0-553.el8_10.x86_64", "10.0.1", "5.10+"].map(version);
        assert_eq!(versions, [(5, 7), (5, 8), (6, 1), (4, 18), (10, 0), (5, 10)].map(Some));
        for odd in ["", "6", "x.y", "5.", "5.x", "-1.2"] {
            assert_eq!(version(odd), None, "{odd:?}");
        }
        let tells = ["4.18.0", "5.7.19", "5.8.0", "6.1", "10.0.1", "odd"].map(tells_errors);
        assert_eq!(tells, [false, false, true, true, true, false]);
    }
}
