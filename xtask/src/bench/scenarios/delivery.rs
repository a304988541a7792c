//! A file from one machine to others, from tmpfs to tmpfs: throughput, processor time and memory, beside what copies the
//! same file without verifying it (socat), what touches no file (iperf3), and the other swarm (libtorrent).

use super::super::network::Network;
use super::super::programs::{self, Object, Payload, Program};
use super::super::samples::{Bound, Goal, MEMORY, PROCESSOR, Quantity, Sample, THROUGHPUT};
use super::super::{Scenario, Setting};

/// The command with `--plain`.
const PLAIN: &str = "mobcast --plain";
/// The command as it is by default.
const TLS: &str = "mobcast";
const SOCAT: &str = "socat";
const IPERF3: &str = "iperf3";
const LIBTORRENT: &str = "libtorrent";

/// Resident memory of a node, MiB: `NODE_MEMORY_BYTES_MAX`.
const MEMORY_MAX: Bound = Bound::AtMost(96.0);

const fn goal(subject: &'static str, quantity: Quantity, beside: Option<&'static str>, bound: Bound) -> Goal {
    Goal { subject, quantity, beside, bound }
}

const STAR_GOALS: &[Goal] = &[
    goal(PLAIN, THROUGHPUT, Some(SOCAT), Bound::AtLeast(0.7)),
    goal(PLAIN, PROCESSOR, Some(LIBTORRENT), Bound::AtMost(0.333)),
    goal(PLAIN, MEMORY, None, MEMORY_MAX),
    goal(TLS, THROUGHPUT, Some(SOCAT), Bound::AtLeast(0.5)),
    goal(TLS, PROCESSOR, Some(LIBTORRENT), Bound::AtMost(0.5)),
    goal(TLS, MEMORY, None, MEMORY_MAX),
];

/// One receiver, on a wire.
pub const ONE_TO_ONE: Scenario = Scenario {
    name: "one-to-one",
    about: "a file of 2 GiB to one receiver over a veth pair",
    references: &[Program::Socat, Program::Iperf3, Program::Libtorrent],
    goals: &[
        goal(PLAIN, THROUGHPUT, Some(SOCAT), Bound::AtLeast(0.7)),
        goal(PLAIN, PROCESSOR, None, Bound::AtMost(1.2)),
        goal(PLAIN, MEMORY, None, MEMORY_MAX),
        goal(TLS, THROUGHPUT, Some(SOCAT), Bound::AtLeast(0.5)),
        goal(TLS, THROUGHPUT, Some(LIBTORRENT), Bound::AtLeast(4.0)),
        goal(TLS, PROCESSOR, None, Bound::AtMost(1.7)),
        goal(TLS, MEMORY, None, MEMORY_MAX),
    ],
    round: |setting| {
        let network = Network::wire()?;
        let bytes = setting.bytes_or(2 << 30);
        let mut samples = Vec::new();
        if setting.has(Program::Iperf3) {
            samples.extend(programs::iperf3(&network, bytes)?.samples(IPERF3));
        }
        samples.extend(deliver(setting, &network, bytes)?);
        Ok(samples)
    },
};

/// Four receivers, on a switch.
pub const ONE_TO_FOUR: Scenario = Scenario {
    name: "one-to-four",
    about: "a file of 2 GiB to four receivers on a switch",
    references: &[Program::Socat, Program::Libtorrent],
    goals: STAR_GOALS,
    round: |setting| deliver(setting, &Network::switch(5)?, setting.bytes_or(2 << 30)),
};

/// Fifteen receivers, on a switch.
pub const ONE_TO_FIFTEEN: Scenario = Scenario {
    name: "one-to-fifteen",
    about: "a file of 512 MiB to fifteen receivers on a switch",
    references: &[Program::Socat, Program::Libtorrent],
    goals: STAR_GOALS,
    round: |setting| deliver(setting, &Network::switch(16)?, setting.bytes_or(512 << 20)),
};

/// Each round begins with another one, so that nobody is always the first, who finds caches and memory cold.
fn deliver(setting: &Setting, network: &Network, bytes: u64) -> Result<Vec<Sample>, String> {
    let object = Object::make(setting, bytes)?;
    let mut subjects = vec![PLAIN, TLS];
    subjects.extend(setting.has(Program::Socat).then_some(SOCAT));
    subjects.extend(setting.has(Program::Libtorrent).then_some(LIBTORRENT));
    let first = setting.round as usize % subjects.len();
    subjects.rotate_left(first);
    let mut samples = Vec::new();
    for subject in subjects {
        let run = match subject {
            PLAIN => programs::mobcast_files(setting, network, &object, Payload::Plain),
            TLS => programs::mobcast_files(setting, network, &object, Payload::Tls),
            SOCAT => programs::socat(setting, network, &object),
            _ => programs::libtorrent(setting, network, &object),
        };
        samples.extend(run?.samples(subject));
    }
    Ok(samples)
}
