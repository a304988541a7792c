//! How busy the machine is while a run goes on.

/// What the machine's counters say at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    at_ns: u64,
    ticks: Ticks,
    /// Microseconds in which something waited for a processor.
    waited_us: u64,
}

/// Time of all processors, in clock ticks.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Ticks {
    /// In which they did something, or would have if the host had let them.
    busy: u64,
    /// Of which a virtual machine's host gave them to others.
    stolen: u64,
    all: u64,
}

/// How busy the machine was over a time, in percent of it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Busy {
    /// Of the processors, how much was busy or stolen.
    pub processors: f64,
    /// Of the processors, what a virtual machine's host took away.
    pub stolen: f64,
    /// Of the time, in how much something waited for a processor.
    pub waited: f64,
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

    /// What happened since `before`.
    pub fn since(&self, before: &Load) -> Busy {
        let all = (self.ticks.all - before.ticks.all).max(1) as f64;
        let percent = |now: u64, then: u64| 100.0 * now.saturating_sub(then) as f64 / all;
        let time_us = (self.at_ns - before.at_ns).max(1) as f64 / 1e3;
        Busy {
            processors: percent(self.ticks.busy, before.ticks.busy),
            stolen: percent(self.ticks.stolen, before.ticks.stolen),
            waited: 100.0 * (self.waited_us - before.waited_us) as f64 / time_us,
        }
    }
}

/// The line `cpu` of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; what follows is part of the first.
fn parse_ticks(stat: &str) -> Option<Ticks> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).map(|field| field.parse().unwrap_or(0)).collect();
    let all: u64 = ticks.iter().sum();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some(Ticks { busy: all - idle, stolen: *ticks.get(7)?, all })
}

fn parse_pressure(pressure: &str) -> Option<u64> {
    pressure.lines().find_map(|line| line.strip_prefix("some ")?.rsplit_once("total=")?.1.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read() {
        let ticks = Ticks { busy: 35, stolen: 2, all: 100 };
        assert_eq!(parse_ticks("cpu  10 0 20 60 5 1 2 2 0 0\ncpu0 1 2\n"), Some(ticks));
        let pressure = "some avg10=1.00 avg60=0.5 avg300=0.1 total=1234\nfull avg10=0 avg60=0 avg300=0 total=9\n";
        assert_eq!(parse_pressure(pressure), Some(1234));
        let before = Load { at_ns: 0, ticks: Ticks { busy: 10, stolen: 1, all: 100 }, waited_us: 0 };
        let after = Load { at_ns: 2_000_000_000, ticks: Ticks { busy: 60, stolen: 5, all: 200 }, waited_us: 500_000 };
        assert_eq!(after.since(&before), Busy { processors: 50.0, stolen: 4.0, waited: 25.0 });
    }
}
