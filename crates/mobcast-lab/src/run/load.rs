//! How busy the machine is while a run goes on.

/// What the machine's counters say at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    at_ns: u64,
    /// Ticks of all processors: busy, and all.
    ticks: (u64, u64),
    /// Microseconds in which something waited for a processor.
    waited_us: u64,
}

impl Load {
    /// Of this moment.
    pub fn now() -> Load {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let pressure = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
        Load {
            at_ns: crate::clock::monotonic_ns(),
            ticks: parse_ticks(&stat).unwrap_or_default(),
            waited_us: parse_pressure(&pressure).unwrap_or(0),
        }
    }

    /// Seconds since `before`.
    pub fn seconds_since(&self, before: &Load) -> f64 {
        (self.at_ns - before.at_ns).max(1) as f64 / 1e9
    }

    /// Percent of the processors that was busy since `before`, and of the time in which something waited for one.
    pub fn since(&self, before: &Load) -> (f64, f64) {
        let busy = (self.ticks.0 - before.ticks.0) as f64;
        let all = (self.ticks.1 - before.ticks.1).max(1) as f64;
        let time_us = (self.at_ns - before.at_ns).max(1) as f64 / 1e3;
        (100.0 * busy / all, 100.0 * (self.waited_us - before.waited_us) as f64 / time_us)
    }
}

/// The line `cpu` of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; what follows is part of the first.
fn parse_ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).map(|field| field.parse().unwrap_or(0)).collect();
    let all: u64 = ticks.iter().sum();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((all - idle, all))
}

fn parse_pressure(pressure: &str) -> Option<u64> {
    pressure.lines().find_map(|line| line.strip_prefix("some ")?.rsplit_once("total=")?.1.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read() {
        assert_eq!(parse_ticks("cpu  10 0 20 60 5 1 2 2 0 0\ncpu0 1 2\n"), Some((35, 100)));
        let pressure = "some avg10=1.00 avg60=0.5 avg300=0.1 total=1234\nfull avg10=0 avg60=0 avg300=0 total=9\n";
        assert_eq!(parse_pressure(pressure), Some(1234));
        let before = Load { at_ns: 0, ticks: (10, 100), waited_us: 0 };
        let after = Load { at_ns: 2_000_000_000, ticks: (60, 200), waited_us: 500_000 };
        assert_eq!(after.since(&before), (50.0, 25.0));
    }
}
