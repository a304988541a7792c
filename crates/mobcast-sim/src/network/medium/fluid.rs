//! The fluid model: flows have rates, which they share as [`crate::fluid`] says, and messages leave at these rates.

use mobcast_proto::{Duration, Time};
use mobcast_topology::{Cluster, ClusterIndex, LinkRef, Topology};

use crate::fluid::{Precision, RATE_UNITS, ResourceIndex, Sharing};
use crate::link::{Cancelled, Class, SendQueue, Sent};
use crate::network::base::{Base, Event, Phase};
use crate::network::medium::slow_start::SlowStart;
use crate::network::ways::{Part, Ways};
use crate::network::{EXPRESS_BYTES_MAX, FlowId, LEVY_WINDOW, NodeIndex, Settings};
use crate::queue::EventQueue;

const NEVER_NS: u64 = u64::MAX;
/// A flow without slow start.
const OPEN: u32 = u32::MAX;

/// What a flow is here.
#[derive(Debug)]
struct Lane {
    active: bool,
    /// Its number among the windows that open, or [`OPEN`].
    window: u32,
    /// Time of the one valid [`Event::Leaves`] in the queue, or the end of time.
    leaves_at_ns: u64,
    /// When the last message beside the sharing has left: nothing after it leaves earlier.
    express_until_ns: u64,
    queue: SendQueue,
}

/// The model.
#[derive(Debug)]
pub(in crate::network) struct Fluid {
    quantum: Duration,
    window_bytes: Option<u64>,
    slow_start: bool,
    /// Windows of flows between clusters.
    windows: Vec<SlowStart>,
    sharing: Sharing,
    ways: Ways<ResourceIndex>,
    lanes: Vec<Lane>,
    settle_is_due: bool,
    levy_is_due: bool,
}

/// Only what has a limit is shared.
fn limited(sharing: &mut Sharing) -> impl FnMut(Part, Option<u64>) -> Option<ResourceIndex> + '_ {
    |_, rate| rate.map(|rate| sharing.add_resource(Some(rate)))
}

/// Commands.
impl Fluid {
    pub fn new(topology: &Topology, settings: Settings) -> Fluid {
        let mut sharing = Sharing::default();
        let ways = Ways::new(topology, limited(&mut sharing));
        Fluid {
            quantum: settings.quantum,
            window_bytes: settings.window_bytes,
            slow_start: settings.slow_start,
            windows: Vec::new(),
            sharing,
            ways,
            lanes: Vec::new(),
            settle_is_due: false,
            levy_is_due: false,
        }
    }

    pub fn add_node(&mut self, index: ClusterIndex, cluster: &Cluster) {
        self.ways.add_node(index, cluster, limited(&mut self.sharing));
    }

    pub fn open<T>(&mut self, base: &Base<T>, flow: u32) {
        let (there, back) = (&base.flows[flow as usize], &base.flows[(flow ^ 1) as usize]);
        let round_trip = Duration(there.delay_ns + back.delay_ns);
        let mut window = OPEN;
        if self.slow_start && there.across_wan && round_trip > Duration::ZERO {
            window = self.windows.len() as u32;
            self.windows.push(SlowStart::new(base.now, round_trip));
        }
        let cap = self.cap(window, round_trip);
        let id = self.sharing.add_flow(&self.ways.path(there.from, there.to), cap);
        debug_assert_eq!((id, id as usize), (flow, self.lanes.len()));
        let queue = SendQueue::default();
        self.lanes.push(Lane { active: false, window, leaves_at_ns: NEVER_NS, express_until_ns: 0, queue });
    }

    /// What windows leave to a flow, bytes per second.
    fn cap(&self, window: u32, round_trip: Duration) -> Option<u64> {
        let fixed = self.window_bytes.map(|bytes| mobcast_proto::time::rate_bytes_per_s(bytes, round_trip));
        let opening = self.windows.get(window as usize).and_then(SlowStart::cap_bytes_per_s);
        fixed.into_iter().chain(opening).min()
    }

    fn set_cap<T>(&mut self, base: &Base<T>, flow: u32) {
        let (there, back) = (&base.flows[flow as usize], &base.flows[(flow ^ 1) as usize]);
        let cap = self.cap(self.lanes[flow as usize].window, Duration(there.delay_ns + back.delay_ns));
        self.sharing.set_cap(flow, cap);
    }

    /// A flow begins to send.
    fn begin<T>(&mut self, base: &mut Base<T>, flow: u32) {
        let Some(window) = self.windows.get_mut(self.lanes[flow as usize].window as usize) else { return };
        let another = window.begin(base.now);
        if let Some(at) = window.take_due(base.now) {
            base.events.push(at, Event::Widens(flow));
        }
        if another {
            self.set_cap(base, flow);
        }
    }

    /// A round trip is over, in which a flow's window was what limited it.
    pub fn widen<T>(&mut self, base: &mut Base<T>, flow: u32) {
        let lane = &self.lanes[flow as usize];
        let Some(window) = self.windows.get_mut(lane.window as usize) else { return };
        window.widen(lane.active.then(|| self.sharing.rate(flow) / RATE_UNITS));
        if lane.active {
            if let Some(at) = window.take_due(base.now) {
                base.events.push(at, Event::Widens(flow));
            }
            self.set_cap(base, flow);
        }
    }

    pub fn send<T>(&mut self, base: &mut Base<T>, flow: u32, sent: Sent) {
        if sent.class == Class::Control && !self.lanes[flow as usize].active && self.send_express(base, flow, sent) {
            return;
        }
        if !self.lanes[flow as usize].active {
            self.begin(base, flow);
        }
        let lane = &mut self.lanes[flow as usize];
        match sent.class {
            Class::Control => lane.queue.push_control(base.now.0, sent.tag, sent.bytes),
            Class::Payload => lane.queue.push_payload(base.now.0, sent.tag, sent.bytes),
        }
        if !lane.active {
            lane.active = true;
            self.sharing.start(flow);
            lane.queue.set_rate(base.now.0, self.sharing.rate(flow));
        }
        plan_leaving(lane, flow, &mut base.events);
    }

    /// Sends a small control message beside the sharing, if the model allows.
    fn send_express<T>(&mut self, base: &mut Base<T>, flow: u32, sent: Sent) -> bool {
        if self.quantum == Duration::ZERO || sent.bytes > EXPRESS_BYTES_MAX {
            return false;
        }
        let rate = self.sharing.prospective_rate(flow);
        if rate == 0 {
            return false;
        }
        self.sharing.charge(flow, u64::from(sent.bytes));
        let lane = &mut self.lanes[flow as usize];
        let units = u64::from(sent.bytes) * RATE_UNITS * 1_000_000_000;
        lane.express_until_ns = lane.express_until_ns.max(base.now.0).saturating_add(units.div_ceil(rate));
        self.dispatch(base, flow, sent);
        true
    }

    pub fn cancel<T>(&mut self, base: &mut Base<T>, flow: u32, tag: u64) -> Cancelled {
        let result = self.lanes[flow as usize].queue.cancel(base.now.0, tag);
        self.after_removal(base, flow);
        result
    }

    pub fn finish<T>(&mut self, base: &mut Base<T>, flow: u32) {
        let lane = &mut self.lanes[flow as usize];
        lane.queue.drop_waiting_payload(base.now.0);
        if lane.active {
            self.after_removal(base, flow);
        } else {
            self.announce_close(base, flow);
        }
    }

    pub fn abort<T>(&mut self, base: &mut Base<T>, flow: u32) {
        let announced = base.phase(flow) != Phase::Open && !self.lanes[flow as usize].active;
        if !announced {
            self.silence(flow);
            self.announce_close(base, flow);
        }
    }

    pub fn silence(&mut self, flow: u32) {
        let lane = &mut self.lanes[flow as usize];
        lane.queue.clear();
        lane.leaves_at_ns = NEVER_NS;
        if lane.active {
            lane.active = false;
            self.sharing.stop(flow);
        }
    }

    pub fn set_rate<T>(&mut self, base: &Base<T>, link: LinkRef, rate_bytes_per_s: Option<u64>) {
        match *self.ways.shared(link) {
            Some(resource) => self.sharing.set_capacity(resource, rate_bytes_per_s),
            None if rate_bytes_per_s.is_some() => {
                *self.ways.shared(link) = Some(self.sharing.add_resource(rate_bytes_per_s));
                self.reroute_all(base);
            }
            None => {}
        }
    }

    pub fn set_nic<T>(&mut self, base: &Base<T>, node: NodeIndex, out: Option<u64>, into: Option<u64>) {
        let card = self.ways.card(node);
        for (direction, rate) in [(&mut card.way_out, out), (&mut card.way_in, into)] {
            let resource = *direction.get_or_insert_with(|| self.sharing.add_resource(rate));
            self.sharing.set_capacity(resource, rate);
        }
        self.reroute_all(base);
    }

    /// A resource that had no limit has one: lead every living flow across it.
    fn reroute_all<T>(&mut self, base: &Base<T>) {
        for (flow, from, to) in base.living() {
            self.sharing.reroute(flow.0, &self.ways.path(from, to));
        }
    }
}

/// Looking.
impl Fluid {
    pub fn rate_bytes_per_s(&self, flow: FlowId) -> u64 {
        self.lanes[flow.0 as usize].queue.rate() / RATE_UNITS
    }

    pub fn payload_bytes(&self, flow: u32) -> u64 {
        self.lanes[flow as usize].queue.payload_bytes()
    }

    pub fn payload_messages(&self, flow: u32) -> usize {
        self.lanes[flow as usize].queue.payload_messages()
    }

    pub fn turns_total(&self) -> u64 {
        self.sharing.turns_total()
    }
}

/// Events.
impl Fluid {
    /// Plans the settling of rates, if something has changed.
    pub fn arm<T>(&mut self, base: &mut Base<T>) {
        if !self.settle_is_due && self.sharing.needs_settling() {
            self.settle_is_due = true;
            base.events.push(next_multiple(base.now, self.quantum), Event::Settle);
        }
        if !self.levy_is_due && self.sharing.has_charges() {
            self.levy_is_due = true;
            base.events.push(next_multiple(base.now, LEVY_WINDOW), Event::Levy);
        }
    }

    pub fn settle<T>(&mut self, base: &mut Base<T>) {
        self.settle_is_due = false;
        let precision = if self.quantum == Duration::ZERO { Precision::Exact } else { Precision::Quick };
        let Fluid { sharing, lanes, .. } = self;
        sharing.settle(precision, |id, rate| {
            let lane = &mut lanes[id as usize];
            if lane.queue.rate() != rate {
                lane.queue.set_rate(base.now.0, rate);
                plan_leaving(lane, id, &mut base.events);
            }
        });
    }

    pub fn levy(&mut self) {
        self.levy_is_due = false;
        self.sharing.levy(LEVY_WINDOW.0);
    }

    /// A message may have left.
    pub fn look<T>(&mut self, base: &mut Base<T>, flow: u32) {
        if self.lanes[flow as usize].leaves_at_ns != base.now.0 {
            return;
        }
        self.lanes[flow as usize].leaves_at_ns = NEVER_NS;
        while let Some(sent) = self.lanes[flow as usize].queue.pop_sent(base.now.0) {
            self.dispatch(base, flow, sent);
            if sent.class == Class::Payload && self.lanes[flow as usize].queue.payload_messages() == 0 {
                base.report_drained(flow);
            }
        }
        self.after_removal(base, flow);
    }

    /// A message has left: count it and let it arrive one delay later.
    fn dispatch<T>(&mut self, base: &mut Base<T>, flow: u32, sent: Sent) {
        let at = self.arrival(base, flow);
        if let Some(window) = self.windows.get_mut(self.lanes[flow as usize].window as usize) {
            window.note_sending(base.now);
        }
        base.events.push(at, Event::Arrives(flow, sent));
        base.count_out(flow, sent);
    }

    fn announce_close<T>(&self, base: &mut Base<T>, flow: u32) {
        let at = self.arrival(base, flow);
        base.events.push(at, Event::Closes(flow));
    }

    /// When that arrives which leaves now.
    fn arrival<T>(&self, base: &Base<T>, flow: u32) -> Time {
        let left_at_ns = base.now.0.max(self.lanes[flow as usize].express_until_ns);
        Time(left_at_ns.saturating_add(base.flows[flow as usize].delay_ns))
    }

    /// Something was taken out of a flow's queue: go on with the rest, or go idle.
    fn after_removal<T>(&mut self, base: &mut Base<T>, flow: u32) {
        let lane = &mut self.lanes[flow as usize];
        if !lane.active {
            return;
        }
        if !lane.queue.is_empty() {
            return plan_leaving(lane, flow, &mut base.events);
        }
        self.silence(flow);
        if base.phase(flow) == Phase::Closing {
            self.announce_close(base, flow);
        }
    }
}

/// Schedules the moment when the next message of a flow leaves. An entry that is too early finds nothing to do and
/// plans again, so a flow that slows down costs nothing until then.
fn plan_leaving<T>(lane: &mut Lane, flow: u32, events: &mut EventQueue<Event<T>>) {
    if let Some(at_ns) = lane.queue.next_end_ns().filter(|at_ns| *at_ns < lane.leaves_at_ns) {
        lane.leaves_at_ns = at_ns;
        events.push(Time(at_ns), Event::Leaves(flow));
    }
}

/// The first multiple of `quantum` after `now`; `now` itself when the quantum is zero.
fn next_multiple(now: Time, quantum: Duration) -> Time {
    if quantum == Duration::ZERO { now } else { Time((now.0 / quantum.0 + 1) * quantum.0) }
}
