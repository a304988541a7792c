//! Whether there is memory enough for a run.

use std::fs;

use mobcast_sim::network::Model;
use mobcast_sim::run::memory::needed_bytes;
use mobcast_topology::files::Planned;

const GIB: f64 = (1_u64 << 30) as f64;
/// Where Linux tells how much memory is free.
const MEMORY: &str = "/proc/meminfo";
/// What the processes of this container may take, and take (cgroup v2).
const GROUP: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"];
/// Of which files that were read make a part, which is given back.
const GROUP_DETAILS: &str = "/sys/fs/cgroup/memory.stat";

/// Whether the greatest of the runs fits.
///
/// # Errors
/// If one does not fit into what is free: what it needs, and what would need less.
pub fn check<'a>(planned: impl Iterator<Item = &'a Planned>, model: Model) -> Result<(), String> {
    let Some(greatest) = planned.max_by_key(|planned| needed_bytes(planned, model)) else { return Ok(()) };
    match free_bytes() {
        Some(free) => fits(needed_bytes(greatest, model), free, &super::name(greatest)),
        // Elsewhere than on Linux nobody knows.
        None => Ok(()),
    }
}

fn fits(needed: u64, free: u64, name: &str) -> Result<(), String> {
    if needed <= free {
        return Ok(());
    }
    let [needed, free] = [needed, free].map(|bytes| bytes as f64 / GIB);
    Err(format!(
        "{name}: would need about {needed:.1} GiB of memory, and {free:.1} GiB are free: fewer nodes or larger pieces \
         need less (so does --model fluid); --force runs it all the same"
    ))
}

fn free_bytes() -> Option<u64> {
    let free = available(&fs::read_to_string(MEMORY).ok()?)?;
    let [max, current] = GROUP.map(|file| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok());
    let given_back = fs::read_to_string(GROUP_DETAILS).ok().and_then(|stat| inactive_file(&stat)).unwrap_or(0);
    let left = max.zip(current).map(|(max, current)| max.saturating_sub(current.saturating_sub(given_back)));
    Some(left.map_or(free, |left| free.min(left)))
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

fn inactive_file(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("inactive_file "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_said_with_both_numbers() {
        let said = fits(20 << 30, 8 << 30, "big").expect_err("it does not fit");
        assert!(said.starts_with("big: would need about 20.0 GiB of memory, and 8.0 GiB are free: "), "{said}");
        assert_eq!(fits(8 << 30, 8 << 30, "big"), Ok(()));
    }

    #[test]
    fn free_memory_is_read_as_linux_tells_it() {
        let told =
            "MemTotal:       24641608 kB\nMemFree:         1000 kB\nMemAvailable:   23000000 kB\nBuffers: 1 kB\n";
        assert_eq!(available(told), Some(23_000_000 << 10));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
        assert_eq!(inactive_file("anon 5\nactive_file 7\ninactive_file 9\n"), Some(9));
    }
}
