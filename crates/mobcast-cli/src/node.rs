//! What `send` and `recv` have in common: their place in the group, and what they say about it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::pin::pin;
use std::time::Duration;

use mobcast::{Broadcast, Error, ErrorClass, Group, GroupEvent, GroupOptions, Measurement, NodeId, NodeReport};

use crate::args::{Listen, NodeArgs, OutputArgs};
use crate::failure::{Failure, Outcome, Status};
use crate::interrupt::Interrupt;
use crate::output::print_json;
use crate::progress::Screen;

/// A clean end takes no longer than this: people press Ctrl-C a second time after about a second.
const GOODBYE_MAX: Duration = Duration::from_millis(800);
/// What takes longer than a goodbye can is the removal of partial state.
const REMOVAL_SAID_AFTER: Duration = Duration::from_secs(1);
/// Links whose rates are shown in a line; in the report they all are.
const LINKS_SHOWN: usize = 12;
/// The report is a matter of counters and of a lock; this is for a machine that is very busy, or stands still for a while.
const REPORT_MAX: Duration = Duration::from_secs(30);
/// Who has interrupted the command waits for its last line no longer than this.
const LINE_MAX_INTERRUPTED: Duration = Duration::from_millis(100);
/// Who has interrupted the command and asked for its report waits for that no longer than this.
const REPORT_MAX_INTERRUPTED: Duration = Duration::from_secs(1);

/// What became of the broadcast is not known.
const NO_REPORT: &str = "the report was not made in time: this machine is overloaded, or mobcast hangs";

impl NodeArgs {
    /// The flags in the library's words.
    pub fn options(&self) -> GroupOptions {
        let mut options = GroupOptions { cluster: self.cluster.clone(), plain: self.plain, ..GroupOptions::default() };
        options.listen = self.listen.map(socket_address);
        options.max_rate_bytes_per_s = self.max_rate;
        options.advertise = self.advertise.iter().map(|a| SocketAddr::new(a.address, a.port.unwrap_or(0))).collect();
        if let Some(name) = &self.name {
            options.name = name.clone();
        }
        options
    }
}

/// All addresses are those of IPv6, which take IPv4 as well, unless the machine has no IPv6.
fn socket_address(listen: Listen) -> SocketAddr {
    match listen {
        Listen::At(address) => address,
        Listen::Port(port) => {
            let all = IpAddr::from(Ipv6Addr::UNSPECIFIED);
            let has_ipv6 = TcpListener::bind((all, 0)).is_ok();
            SocketAddr::new(if has_ipv6 { all } else { Ipv4Addr::UNSPECIFIED.into() }, port)
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        if error.is_broken_pipe() {
            return Failure::new(Status::LocalIo, "standard output was closed by its reader before everything arrived");
        }
        let status = match error.class() {
            ErrorClass::Failed => Status::Failed,
            ErrorClass::NotAdmitted => Status::NotAdmitted,
            ErrorClass::Usage => Status::Usage,
            ErrorClass::Incomplete => Status::Incomplete,
            ErrorClass::LocalIo => Status::LocalIo,
        };
        Failure::new(status, error)
    }
}

/// What happens in the group, in a line for the person; none for what the progress shows anyway.
pub fn describe(event: &GroupEvent) -> Option<String> {
    match event {
        GroupEvent::MemberJoined { name, cluster, reason, .. } => {
            Some(format!("joined {name}: cluster {cluster} ({reason})"))
        }
        GroupEvent::MemberLost { name, .. } => Some(format!("left {name}")),
        GroupEvent::NodeResult { name, outcome: Err(reason), .. } => Some(format!("failed {name}: {reason}")),
        GroupEvent::NodeResult { outcome: Ok(()), .. } => None,
        GroupEvent::Measured { measurement } => Some(measured(measurement)),
        GroupEvent::Unplanned { strategy, reason } => {
            Some(format!("warning: no plan for {strategy}, so nodes fetch from whoever has a piece: {reason}"))
        }
        GroupEvent::PeerDropped { node, reason } => {
            let peer = node.map_or("an unknown peer".to_owned(), |node| format!("{node}"));
            Some(format!("dropped {peer}: {reason}"))
        }
        GroupEvent::RootMayLeave { .. } => {
            Some("the source may leave: every piece is held by two others, or by every receiver".into())
        }
        GroupEvent::RootNeeded { .. } => {
            Some("the source is needed again: somebody has joined, and others who had everything are gone".into())
        }
        GroupEvent::CoordinatorChanged { node: NodeId(0), own: true } => {
            Some("others had taken this node for gone: it collects the results again".into())
        }
        GroupEvent::CoordinatorChanged { own: true, .. } => {
            Some("the sender is gone: this node takes its place and collects the results".into())
        }
        GroupEvent::CoordinatorChanged { node: NodeId(0), .. } => Some("the sender is there again".into()),
        GroupEvent::CoordinatorChanged { node, .. } => Some(format!("the sender is gone: {node} takes its place")),
        GroupEvent::CoordinatorLost => Some("the sender cannot be reached any more".into()),
    }
}

/// What came of a measurement of the network and what it cost, in a line.
fn measured(measurement: &Measurement) -> String {
    let Measurement { network, took, bytes, probes, problems } = measurement;
    let (size, seconds) = (crate::quantity::show_size(*bytes), took.as_secs_f64());
    let problems = problems.join("; ");
    let cost = format!("{probes} probes, {size} in {seconds:.1} s");
    let Some(network) = network else {
        return format!("warning: the network could not be measured ({cost}): {problems}; use --gauge FILE");
    };
    let clusters = network.clusters();
    let rates: Vec<String> = network
        .wan_links()
        .map(|(from, to, link)| {
            let [from, to] = [from, to].map(|index| &clusters[index.as_usize()].name);
            format!("{from} to {to} {:.1}", link.rate_bytes_per_s.unwrap_or(0) as f64 / 1e6)
        })
        .collect();
    let links = match rates.len() {
        0 => "one cluster".to_owned(),
        1..=LINKS_SHOWN => format!("{} MB/s", rates.join(", ")),
        count => format!("{count} links between {} clusters", clusters.len()),
    };
    let rest = if problems.is_empty() { String::new() } else { format!("; not measured: {problems}") };
    format!("measured the network: {links} ({cost}){rest}")
}

/// The last words: a line for the person, the report for programs. Both are about a broadcast that may have failed.
pub async fn conclude(
    broadcast: &Broadcast,
    output: OutputArgs,
    screen: &mut Screen,
    interrupt: &mut Interrupt,
) -> Outcome {
    let is_interrupted = interrupt.is_heard();
    let patience = if output.json { REPORT_MAX_INTERRUPTED } else { LINE_MAX_INTERRUPTED };
    let report = match in_time(broadcast.report(), patience, is_interrupted, interrupt.wait()).await {
        Some(report) => report,
        // It would only have been a line for the person, who does not want to wait.
        None if interrupt.is_heard() && !output.json => return Ok(()),
        None => return Err(Failure::new(Status::Failed, NO_REPORT)),
    };
    if is_received(&report, broadcast.id().root) {
        screen.say(&summary(&report));
    }
    if output.json { print_json(&report) } else { Ok(()) }
}

/// Whether this node has received the object, or, where it is the root and has it anyway, some other node.
fn is_received(report: &mobcast::Report, root: NodeId) -> bool {
    let mut nodes = report.nodes.iter();
    // A node knows of its own sockets alone.
    let is_own = |node: &NodeReport| node.wire.is_some();
    let by_root = report.nodes.iter().any(|node| is_own(node) && node.number == root.0);
    nodes.any(|node| node.verified && node.number != root.0 && (by_root || is_own(node)))
}

/// A report, unless it takes longer than it may: `patience`, once it is interrupted.
async fn in_time<T>(
    report: impl Future<Output = T>,
    patience: Duration,
    is_interrupted: bool,
    interrupted: impl Future<Output = ()>,
) -> Option<T> {
    let mut report = pin!(report);
    if !is_interrupted {
        tokio::select! {
            report = &mut report => return Some(report),
            () = tokio::time::sleep(REPORT_MAX) => return None,
            () = interrupted => {}
        }
    }
    tokio::time::timeout(patience, report).await.ok()
}

fn summary(report: &mobcast::Report) -> String {
    let mobcast::Report { bytes, seconds, throughput_mb_s, object_hash, .. } = report;
    let size = crate::quantity::show_size(*bytes);
    let mut line = format!("verified {size} in {seconds:.2} s ({throughput_mb_s:.0} MB/s), BLAKE3 {object_hash}");
    for (cluster, copies) in &report.wan_copies {
        line += &format!(", {cluster} imported {copies:.3} copies");
    }
    line
}

/// Leaves the group, as politely as the time allows.
pub async fn leave(group: Group) {
    let _ = tokio::time::timeout(GOODBYE_MAX, group.leave()).await;
}

/// Leaves the group and nothing behind: removing a partial tree may take longer than a goodbye. Who interrupts it has to clean up.
pub async fn leave_nothing(group: Group, screen: &mut Screen, interrupt: &mut Interrupt) {
    let mut leaving = pin!(group.leave());
    if tokio::time::timeout(REMOVAL_SAID_AFTER, leaving.as_mut()).await.is_err() {
        // Whoever was impatient before did not know what it takes.
        while tokio::time::timeout(Duration::ZERO, interrupt.wait()).await.is_ok() {}
        screen.say("removing what has arrived; interrupted once more, it stays");
        tokio::select! {
            () = leaving => (),
            () = interrupt.wait() => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mobcast::{Report, WireReport};

    #[test]
    fn a_port_alone_means_all_addresses() {
        let address = socket_address(Listen::Port(7777));
        assert!(address.ip().is_unspecified() && address.port() == 7777);
    }

    /// A report that takes so long.
    async fn report_after(time: Duration) -> &'static str {
        tokio::time::sleep(time).await;
        "report"
    }

    #[tokio::test(start_paused = true)]
    async fn a_report_has_time_unless_the_command_was_interrupted() {
        let (patience, busy) = (LINE_MAX_INTERRUPTED, 2 * LINE_MAX_INTERRUPTED);
        let never = std::future::pending;
        assert_eq!(in_time(report_after(busy), patience, false, never()).await, Some("report"));
        assert_eq!(in_time(report_after(busy), patience, true, never()).await, None);
        let meanwhile = std::future::ready(());
        assert_eq!(in_time(report_after(busy), patience, false, meanwhile).await, None, "interrupted meanwhile");
        assert_eq!(in_time(std::future::ready("report"), patience, true, never()).await, Some("report"));
        assert_eq!(in_time(report_after(2 * REPORT_MAX), patience, false, never()).await, None);
        let wanted = in_time(report_after(busy), REPORT_MAX_INTERRUPTED, true, never()).await;
        assert_eq!(wanted, Some("report"), "whoever asked for it has a little more patience");
    }

    #[test]
    fn only_what_was_received_is_said_to_be_verified() {
        let node = |number, is_own: bool, verified| NodeReport {
            number,
            verified,
            wire: is_own.then(WireReport::default),
            ..NodeReport::default()
        };
        let is_received = |nodes: Vec<NodeReport>| is_received(&Report { nodes, ..Report::default() }, NodeId(0));
        let root = || node(0, true, true);
        assert!(!is_received(vec![root(), node(1, false, false), node(2, false, false)]), "its receivers have failed");
        assert!(is_received(vec![root(), node(1, false, false), node(2, false, true)]));
        assert!(is_received(vec![node(2, true, true)]));
        assert!(!is_received(vec![node(0, false, true), node(1, false, true), node(2, true, false)]), "others have it");
    }

    #[test]
    fn each_class_of_errors_has_its_status() {
        let status = |error: Error| Failure::from(error).status;
        assert_eq!(status(Error::NotAdmitted("the ticket has expired".into())), Status::NotAdmitted);
        assert_eq!(status(Error::Incomplete("gone".into())), Status::Incomplete);
        assert_eq!(status(Error::Aborted("changed".into())), Status::Failed);
    }
}
