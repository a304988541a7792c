//! What all programs of a node cost, by the namespace that they run in: rivals start others, some of them on other nodes.

use std::collections::BTreeMap;
use std::os::linux::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::process::{Usage, cpu_seconds_alone, memory_bytes};
use crate::lab::LabNode;
use crate::namespace;

/// How often processes are looked at. What ends between two looks is known as it was at the last one.
const LOOK: Duration = Duration::from_millis(250);

/// Looks at the processes of all nodes until it is ended.
#[derive(Debug)]
pub struct Census {
    seen: Arc<Mutex<Seen>>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Processor time of each process, by its node and number.
    cpu_seconds: BTreeMap<(usize, u32), f64>,
    /// By node, the most resident memory that its processes had together; what they share counts for each.
    peak_memory_bytes: BTreeMap<usize, u64>,
}

impl Census {
    /// Begins to look.
    pub fn start(nodes: &[LabNode]) -> Census {
        let of = |(number, node): (usize, &LabNode)| Some((namespace::inode(&node.namespace).ok()?, number));
        let node_of: BTreeMap<u64, usize> = nodes.iter().enumerate().filter_map(of).collect();
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut look = tokio::time::interval(LOOK);
            loop {
                look.tick().await;
                shared.lock().unwrap_or_else(PoisonError::into_inner).look(&node_of);
            }
        });
        Census { seen, task }
    }

    /// Ends, and says what each of so many nodes has cost.
    pub fn end(self, nodes: usize) -> Vec<Usage> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |node: usize| Usage {
            cpu_seconds: seen.cpu_seconds.range((node, 0)..=(node, u32::MAX)).map(|(_, seconds)| seconds).sum(),
            peak_memory_bytes: seen.peak_memory_bytes.get(&node).copied().unwrap_or(0),
        };
        (0..nodes).map(of).collect()
    }
}

impl Drop for Census {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Seen {
    fn look(&mut self, node_of: &BTreeMap<u64, usize>) {
        let Ok(entries) = std::fs::read_dir("/proc") else { return };
        let mut memory: BTreeMap<usize, u64> = BTreeMap::new();
        for pid in entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok()) {
            // A process may end at any moment, and is then left out.
            let Ok(network) = std::fs::metadata(Path::new("/proc").join(format!("{pid}/ns/net"))) else { continue };
            let Some(&node) = node_of.get(&network.st_ino()) else { continue };
            self.cpu_seconds.extend(cpu_seconds_alone(pid).map(|seconds| ((node, pid), seconds)));
            *memory.entry(node).or_default() += memory_bytes(pid);
        }
        for (node, bytes) in memory {
            let peak = self.peak_memory_bytes.entry(node).or_default();
            *peak = bytes.max(*peak);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_in_a_namespace_is_counted_for_its_node() {
        let own = std::fs::metadata("/proc/self/ns/net").expect("Linux has it").st_ino();
        let mut seen = Seen::default();
        seen.look(&[(own, 3)].into());
        assert!(seen.cpu_seconds.contains_key(&(3, std::process::id())), "this process is there");
        assert!(seen.peak_memory_bytes[&3] >= memory_bytes(std::process::id()) / 2);
        let mut none = Seen::default();
        none.look(&[(0, 3)].into());
        assert!(none.cpu_seconds.is_empty());
    }
}
