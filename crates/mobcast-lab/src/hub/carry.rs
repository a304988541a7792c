//! The hub at work: reads packets from the devices in the clusters' namespaces, hands them to the [`Switch`], and writes
//! them where and when it says.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use mobcast_topology::{Change, ClusterIndex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::control::{Answer, Counts, LinkCounts, Links, Request};
use super::packet::Packet;
use super::switch::{Delivery, Switch};
use super::tun;
use crate::clock::monotonic_ns;
use crate::namespace::in_namespace;

/// The device through which a cluster's switch reaches the hub.
pub const DEVICE: &str = "hub";
/// Packets taken from a device before those that are due get their turn.
const TAKEN_MAX: usize = 32;
/// How often the counters are noted.
pub const SAMPLE_NS: u64 = 100_000_000;
/// So many are kept, an hour of them: then every second one, and half as many from there on.
const SAMPLES_MAX: usize = 36_000;
/// After a turn in which there was something to do, the next one begins so much later: many packets then share a wake-up.
const REST: Duration = Duration::from_micros(150);
/// Classes of lateness: the last one holds what is later than a second.
const CLASSES: usize = 22;
/// How long somebody may take to say what he wants.
const PATIENCE: Duration = Duration::from_secs(2);

struct Hub {
    devices: Vec<File>,
    switch: Switch,
    changes: Vec<Change>,
    next_sample_ns: u64,
    sample_ns: u64,
    counts: Counts,
    /// Whether a packet came or left in this turn.
    moved: bool,
    buffer: Vec<u8>,
    head: Vec<u8>,
}

/// Makes a device in each of these namespaces, one for each cluster, says `ready` on standard output, and carries packets
/// until it is told to end, or until standard input ends if it is `attached`.
pub fn run(namespaces: &[String], socket: &Path, attached: bool) -> io::Result<()> {
    let devices: io::Result<Vec<File>> =
        namespaces.iter().map(|namespace| in_namespace(namespace, || tun::device(DEVICE))?).collect();
    let listener = UnixListener::bind(socket)?;
    println!("ready");
    io::stdout().flush()?;
    let mut hub = Hub {
        devices: devices?,
        switch: Switch::new(&mobcast_topology::Topology::new(), &[], 0),
        changes: Vec::new(),
        next_sample_ns: 0,
        sample_ns: SAMPLE_NS,
        counts: Counts::default(),
        moved: false,
        buffer: vec![0; tun::READ_BYTES_MAX],
        head: Vec::new(),
    };
    let stdin = io::stdin();
    loop {
        hub.work(monotonic_ns());
        if std::mem::take(&mut hub.moved) {
            std::thread::sleep(REST);
        }
        let ready = {
            let mut fds: Vec<BorrowedFd<'_>> = hub.devices.iter().map(AsFd::as_fd).collect();
            fds.push(listener.as_fd());
            if attached {
                fds.push(stdin.as_fd());
            }
            wait(&fds, hub.next_ns().saturating_sub(monotonic_ns()))?
        };
        let (packets, other) = ready.split_at(hub.devices.len());
        for (cluster, _) in packets.iter().enumerate().filter(|(_, ready)| **ready) {
            hub.take_packets(ClusterIndex(cluster as u32))?;
        }
        if other[0] && hub.listen(&listener.accept()?.0)? || other.get(1).copied().unwrap_or(false) {
            return Ok(());
        }
    }
}

/// Which of these can be read, after at most this time.
fn wait(fds: &[BorrowedFd<'_>], time_ns: u64) -> io::Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let time = Timespec::try_from(Duration::from_nanos(time_ns)).expect("short");
    match poll(&mut polled, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect())
}

impl Hub {
    /// When something is to be done next.
    fn next_ns(&self) -> u64 {
        let change = self.changes.last().map(|change| self.counts.begun_ns + change.at_ns);
        [self.switch.next_ns(), change, Some(self.next_sample_ns)].into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// Everything that is due.
    fn work(&mut self, now: u64) {
        while let Some(change) = self.changes.last().copied() {
            let at = self.counts.begun_ns + change.at_ns;
            if at > now {
                break;
            }
            self.deliver(at);
            self.changes.pop();
            self.counts.changes += u32::from(self.switch.set_rate(at, change.link, change.rate_bytes_per_s));
        }
        self.deliver(now);
        if self.next_sample_ns <= now {
            let unique = self.switch.counters().map(|(.., counters)| counters.unique_bytes).collect();
            self.counts.samples.push((now - self.counts.begun_ns.min(now), unique));
            if self.counts.samples.len() == SAMPLES_MAX {
                let mut kept = false;
                self.counts.samples.retain(|_| {
                    kept = !kept;
                    kept
                });
                self.sample_ns *= 2;
            }
            self.next_sample_ns = now - now % self.sample_ns + self.sample_ns;
        }
    }

    /// Writes what lands by `until_ns`.
    fn deliver(&mut self, until_ns: u64) {
        let Hub { devices, switch, head, counts, moved, .. } = self;
        switch.advance(until_ns, |Delivery { to, due_ns, segment }| {
            *moved = true;
            let payload = segment.write(head);
            let parts = [IoSlice::new(head), IoSlice::new(payload)];
            // A device that is down or full loses packets, as on any line.
            let written = (&devices[to.as_usize()]).write_vectored(&parts);
            counts.refused += u64::from(written.is_err());
            let late_ns = monotonic_ns().saturating_sub(due_ns);
            counts.late_max_ns = counts.late_max_ns.max(late_ns);
            let class = (u64::BITS - (late_ns / 1_000).leading_zeros()) as usize;
            counts.late[class.min(CLASSES - 1)] += 1;
        });
    }

    fn take_packets(&mut self, from: ClusterIndex) -> io::Result<()> {
        for _ in 0..TAKEN_MAX {
            let bytes = match (&self.devices[from.as_usize()]).read(&mut self.buffer) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The device is not up yet.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => return Ok(()),
                Err(error) => return Err(error),
            };
            self.moved = true;
            let Some(packet) = Packet::parse(&self.buffer[..bytes]) else { continue };
            let [_, to] = packet.addresses();
            if let Some(to) = crate::plan::cluster_of(to) {
                self.switch.arrive(monotonic_ns(), from, to, &packet);
            }
        }
        Ok(())
    }

    /// Does what somebody asks for; true if that is to end. Who does not say it in time, or says what is no request, is
    /// left without an answer.
    fn listen(&mut self, stream: &UnixStream) -> io::Result<bool> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        let Ok(_) = BufReader::new(stream).read_line(&mut line) else { return Ok(false) };
        let (answer, end) = match serde_json::from_str(&line) {
            Ok(Request::Begin(links)) => {
                self.begin(&links);
                (Answer::Begun, false)
            }
            Ok(Request::Read) => (Answer::Counts(Box::new(self.counts())), false),
            Ok(Request::End) => (Answer::Ending, true),
            Err(_) => return Ok(false),
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        // Who has gone does not want to know.
        let _ = (&*stream).write_all(text.as_bytes());
        Ok(end)
    }

    fn begin(&mut self, links: &Links) {
        let (scenario, seed) = links.scenario();
        self.switch = Switch::new(&scenario.topology, &scenario.changes, seed);
        self.changes = latest_first(scenario.changes);
        let begun_ns = monotonic_ns();
        self.counts = Counts { begun_ns, late: vec![0; CLASSES], ..Counts::default() };
        (self.next_sample_ns, self.sample_ns) = (begun_ns, SAMPLE_NS);
    }

    fn counts(&self) -> Counts {
        let links = self.switch.counters().map(|(from, to, counters)| LinkCounts { from: from.0, to: to.0, counters });
        Counts { links: links.collect(), ..self.counts.clone() }
    }
}

/// Changes in the order in which they are taken, from the end. Of several at the same time the last one in the file comes last, and
/// wins.
fn latest_first(mut changes: Vec<Change>) -> Vec<Change> {
    changes.sort_by_key(|change| change.at_ns);
    changes.reverse();
    changes
}

/// Asks the hub behind this socket.
pub fn ask(socket: &Path, request: &Request) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(socket)?;
    let mut text = serde_json::to_string(request)?;
    text.push('\n');
    stream.write_all(text.as_bytes())?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

#[cfg(test)]
mod tests {
    use mobcast_topology::{ClusterIndex, LinkRef};

    use super::*;

    #[test]
    fn of_changes_at_the_same_time_the_last_one_wins() {
        let link = LinkRef::Wan { from: ClusterIndex(0), to: ClusterIndex(1) };
        let change = |at_ns, rate| Change { at_ns, link, rate_bytes_per_s: Some(rate) };
        let mut changes = latest_first(vec![change(5, 1), change(9, 4), change(5, 2), change(0, 3)]);
        let taken = std::iter::from_fn(|| changes.pop()).filter_map(|change| change.rate_bytes_per_s);
        assert_eq!(taken.collect::<Vec<_>>(), [3, 1, 2, 4]);
    }
}
