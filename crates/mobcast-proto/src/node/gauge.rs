//! A node's part in a measurement of the network: it asks another member for filler and measures how fast that comes, or gives
//! filler to one. Filler is asked for and sent as a piece of a broadcast is, so that it takes the way that payload takes; only
//! members that the coordinator has told each other of exchange it, and no more than a probe needs.

use crate::flow::probe::Probe;
use crate::flow::upload::Upload;
use crate::group::gauge::{ProbeOrder, ProbeResult, ProbeRole, Reading};
use crate::group::report::Report;
use crate::io::CloseReason;
use crate::limits::{FILLER_BYTES_MAX, PROBE_BYTES_MAX};
use crate::time::{Duration, Time};
use crate::units::{BroadcastId, ByteRange, LinkId, NodeId, PieceIndex};
use crate::wire::frame::Frame;

use super::Node;

/// A probe without a result after this is given up: for a link that has to be made, and the longest transfer.
const PATIENCE: Duration = Duration::from_secs(9);
/// How often is looked whether the link is up and its round trip measured.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Whoever refuses may not have been told yet.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);
/// The first request is repeated after this if nothing comes at all.
const KNOCK_PAUSE: Duration = Duration::from_secs(2);
/// What is asked for first.
const KNOCK_BYTES: u32 = 16 << 10;
/// What a node serves at most of one probe: a probe's bytes, and first requests.
const SERVED_BYTES_MAX: u64 = PROBE_BYTES_MAX + 64 * KNOCK_BYTES as u64;

/// What a node does of a measurement.
#[derive(Default)]
pub(super) struct Gauging {
    orders: Vec<ProbeOrder>,
    asking: Option<Asking>,
    /// Filler served of the present order.
    served_bytes: u64,
}

/// A probe by this node.
struct Asking {
    number: u32,
    peer: NodeId,
    since: Time,
    state: State,
}

enum State {
    /// Waits for the link, and for the first bytes.
    Knocking {
        again_at: Time,
    },
    Probing {
        link: LinkId,
        probe: Box<Probe>,
    },
}

impl Gauging {
    pub(super) fn timeout(&self) -> Option<Time> {
        let asking = self.asking.as_ref()?;
        let given_up = asking.since + PATIENCE;
        Some(match asking.state {
            State::Knocking { again_at } => again_at.min(given_up),
            State::Probing { .. } => given_up,
        })
    }

    fn serves(&self, node: Option<NodeId>) -> bool {
        let mut orders = self.orders.iter();
        node.is_some() && orders.any(|order| order.role == ProbeRole::Serve && Some(order.peer) == node)
    }
}

impl Node {
    /// At the coordinator: has the members measure the network between their clusters, for the strategies that the group was
    /// founded for; [`crate::io::Event::Measured`] follows. Once, if they are about it already. False elsewhere.
    pub fn measure(&mut self, now: Time) -> bool {
        self.set_now(now);
        let Some(coordinator) = &mut self.coordinator else { return false };
        coordinator.measure(now);
        self.drain_coordinator();
        true
    }

    /// The node's assignment is renewed.
    pub(super) fn probes_assigned(&mut self) {
        let orders = self.assignment().map(|assignment| assignment.probes.clone()).unwrap_or_default();
        let old = std::mem::replace(&mut self.gauging.orders, orders);
        let of = |orders: &[ProbeOrder], role| orders.iter().copied().find(|order| order.role == role);
        let [asked, served] =
            [ProbeRole::Ask, ProbeRole::Serve].map(|role| (of(&old, role), of(&self.gauging.orders, role)));
        if served.0 != served.1 {
            self.gauging.served_bytes = 0;
            self.uploads.remove_broadcast(BroadcastId::FILLER);
        }
        if asked.0 != asked.1 {
            self.end_probe();
            let since = self.now;
            let state = State::Knocking { again_at: since };
            self.gauging.asking = asked.1.map(|ProbeOrder { number, peer, .. }| Asking { number, peer, since, state });
            self.look_after_probe();
        }
    }

    /// Time has passed.
    pub(super) fn look_after_probe(&mut self) {
        let now = self.now;
        let Some(asking) = &self.gauging.asking else { return };
        let link = self.link_to(asking.peer);
        if now.since(asking.since) >= PATIENCE {
            return self.report_probe(None);
        }
        let rtt = link.and_then(|link| self.rtt_of(link));
        let Some(asking) = &mut self.gauging.asking else { return };
        match &mut asking.state {
            State::Probing { link: used, .. } if link != Some(*used) => {
                asking.state = State::Knocking { again_at: now + LOOK_INTERVAL };
            }
            State::Knocking { again_at } if *again_at <= now => {
                *again_at = now + if rtt.is_some() { KNOCK_PAUSE } else { LOOK_INTERVAL };
                if let (Some(link), Some(_)) = (link, rtt) {
                    self.request_filler(link, KNOCK_BYTES);
                }
            }
            _ => {}
        }
    }

    /// Filler has arrived.
    pub(super) fn filler_arrived(&mut self, link: LinkId, bytes: u32) {
        let now = self.now;
        let rtt = self.rtt_of(link);
        let from = self.member_at(link);
        let Some(asking) = self.gauging.asking.as_mut().filter(|asking| Some(asking.peer) == from) else {
            return self.stray_arrived(link, bytes);
        };
        match &mut asking.state {
            State::Probing { link: used, probe } if *used == link => {
                if let Some(rate_bytes_per_s) = probe.handle_received(now, u64::from(bytes)) {
                    let reading = rtt.map(|rtt| Reading { rate_bytes_per_s, rtt });
                    return self.report_probe(reading);
                }
            }
            State::Knocking { .. } if rtt.is_some() => {
                let probe = Box::new(Probe::new(rtt.unwrap_or_default()));
                asking.state = State::Probing { link, probe };
            }
            _ => return,
        }
        self.ask_for_filler();
    }

    fn ask_for_filler(&mut self) {
        while let Some(Asking { state: State::Probing { link, probe }, .. }) = &mut self.gauging.asking {
            let link = *link;
            let Some(bytes) = probe.next_request() else { return };
            self.request_filler(link, bytes);
        }
    }

    fn request_filler(&mut self, link: LinkId, bytes: u32) {
        let (broadcast, range) = (BroadcastId::FILLER, ByteRange { start: 0, end: bytes });
        self.send(link, Frame::Request { broadcast, piece: PieceIndex(0), range });
    }

    /// A request for filler is refused: the other node has not been told yet, or has given what it may.
    pub(super) fn filler_refused(&mut self, link: LinkId) {
        let from = self.member_at(link);
        let again_at = self.now + REFUSED_PAUSE;
        match self.gauging.asking.as_mut().filter(|asking| Some(asking.peer) == from).map(|asking| &mut asking.state) {
            Some(State::Knocking { again_at: at }) => *at = again_at,
            Some(State::Probing { .. }) => self.report_probe(None),
            None => {}
        }
    }

    /// A member asks for filler.
    pub(super) fn filler_requested(&mut self, link: LinkId, piece: PieceIndex, range: ByteRange) {
        let broadcast = BroadcastId::FILLER;
        let bytes = u64::from(range.len());
        let fits = piece == PieceIndex(0) && range.end <= FILLER_BYTES_MAX;
        let is_within = fits && self.gauging.served_bytes + bytes <= SERVED_BYTES_MAX;
        if !is_within || !self.gauging.serves(self.member_at(link)) {
            return self.send(link, Frame::Reject { broadcast, piece });
        }
        self.gauging.served_bytes += bytes;
        if !self.uploads.add(link, Upload { broadcast, piece, range }, 0) {
            return self.drop_peer(link, CloseReason::Violation("asks for more than a node may have open".into()));
        }
        self.drain_uploads();
    }

    /// The probe is over.
    fn report_probe(&mut self, reading: Option<Reading>) {
        let Some(asking) = &self.gauging.asking else { return };
        let bytes = match &asking.state {
            State::Probing { probe, .. } => probe.received(),
            State::Knocking { .. } => 0,
        };
        let result = ProbeResult { number: asking.number, bytes, reading };
        self.end_probe();
        self.report(Report::Probed(result));
    }

    /// Takes back what is still asked for.
    fn end_probe(&mut self) {
        let Some(asking) = self.gauging.asking.take() else { return };
        if let State::Probing { link, .. } = asking.state
            && self.member_at(link).is_some()
        {
            self.send(link, Frame::Cancel { broadcast: BroadcastId::FILLER, piece: PieceIndex(0) });
        }
    }

    /// At the coordinator: a member reports a probe.
    pub(super) fn probe_reported(&mut self, from: NodeId, result: ProbeResult) {
        let now = self.now;
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.handle_probe_result(now, from, result);
        }
        self.drain_coordinator();
    }
}
