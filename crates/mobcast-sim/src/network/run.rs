//! The loop of the network: one event after the other, its own and its user's, and what each does to the flows.

use super::{Delivery, Event, Flow, FlowId, Happening, LEVY_WINDOW, NEVER_NS, Network, Phase};
use crate::fluid::Precision;
use crate::link::{Class, Sent};
use crate::queue::EventQueue;
use mobcast_proto::{Duration, Time};

impl<T> Network<T> {
    /// Goes on to the next happening; `None` when nothing is left to happen.
    pub fn step(&mut self) -> Option<(Time, Happening<T>)> {
        loop {
            self.arm();
            let (at, event) = self.events.pop()?;
            debug_assert!(at >= self.now, "time runs forwards");
            self.now = at;
            self.events_total += 1;
            let happening = match event {
                Event::Leaves(flow) => self.on_leaves(flow),
                Event::Arrives(flow, sent) => self.on_arrives(flow, sent),
                Event::Closes(flow) => self.on_closes(flow),
                Event::Drained(flow) => Some(Happening::Drained(FlowId(flow))),
                Event::Settle => self.on_settle(),
                Event::Levy => self.on_levy(),
                Event::Due(event) => Some(Happening::Due(event)),
            };
            if let Some(happening) = happening {
                return Some((at, happening));
            }
        }
    }

    fn arm(&mut self) {
        if !self.settle_is_due && self.sharing.needs_settling() {
            self.settle_is_due = true;
            self.events.push(next_multiple(self.now, self.settings.quantum), Event::Settle);
        }
        if !self.levy_is_due && self.sharing.has_charges() {
            self.levy_is_due = true;
            self.events.push(next_multiple(self.now, LEVY_WINDOW), Event::Levy);
        }
    }

    fn on_settle(&mut self) -> Option<Happening<T>> {
        self.settle_is_due = false;
        let exact = self.settings.quantum == Duration::ZERO;
        let precision = if exact { Precision::Exact } else { Precision::Quick };
        let Network { sharing, flows, events, now, .. } = self;
        sharing.settle(precision, |id, rate| {
            let flow = &mut flows[id as usize];
            if flow.queue.rate() != rate {
                flow.queue.set_rate(now.0, rate);
                plan_leaving(flow, id, events);
            }
        });
        None
    }

    fn on_levy(&mut self) -> Option<Happening<T>> {
        self.levy_is_due = false;
        self.sharing.levy(LEVY_WINDOW.0);
        None
    }

    fn on_leaves(&mut self, flow: u32) -> Option<Happening<T>> {
        if self.flows[flow as usize].leaves_at_ns != self.now.0 {
            return None;
        }
        self.flows[flow as usize].leaves_at_ns = NEVER_NS;
        while let Some(sent) = self.flows[flow as usize].queue.pop_sent(self.now.0) {
            self.dispatch(flow, sent);
            let state = &self.flows[flow as usize];
            let drained = sent.class == Class::Payload && state.queue.payload_messages() == 0;
            if self.settings.report_drained && drained && state.phase == Phase::Open {
                self.events.push(self.now, Event::Drained(flow));
            }
        }
        self.after_removal(flow);
        None
    }

    fn on_arrives(&mut self, id: u32, sent: Sent) -> Option<Happening<T>> {
        let flow = &self.flows[id as usize];
        if flow.phase == Phase::Closed {
            return None;
        }
        let (from, to) = (flow.from, flow.to);
        let traffic = &mut self.nodes[to.0 as usize].traffic;
        if flow.across_wan { &mut traffic.wan_in } else { &mut traffic.lan_in }.count(sent);
        let pair = self.cluster(from).as_usize() * self.sites.len() + self.cluster(to).as_usize();
        self.pair_traffic[pair].count(sent);
        let Sent { tag, bytes, class } = sent;
        Some(Happening::Delivered(Delivery { flow: FlowId(id), from, to, tag, bytes, class }))
    }

    fn on_closes(&mut self, flow: u32) -> Option<Happening<T>> {
        if self.flows[flow as usize].phase == Phase::Closed {
            return None;
        }
        self.kill(flow);
        Some(Happening::Closed { node: self.flows[flow as usize].to, flow: FlowId(flow) })
    }

    /// A message has left: count it and let it arrive one delay later.
    pub(super) fn dispatch(&mut self, id: u32, sent: Sent) {
        let flow = &self.flows[id as usize];
        let left_at_ns = self.now.0.max(flow.express_until_ns);
        self.events.push(Time(left_at_ns.saturating_add(flow.delay_ns)), Event::Arrives(id, sent));
        let traffic = &mut self.nodes[flow.from.0 as usize].traffic;
        if flow.across_wan { &mut traffic.wan_out } else { &mut traffic.lan_out }.count(sent);
    }

    /// Something was taken out of a flow's queue: go on with the rest, or go idle.
    pub(super) fn after_removal(&mut self, flow: u32) {
        let state = &mut self.flows[flow as usize];
        if !state.active {
            return;
        }
        if !state.queue.is_empty() {
            return self.plan_leaving(flow);
        }
        self.silence(flow);
        if self.flows[flow as usize].phase == Phase::Closing {
            self.announce_close(flow);
        }
    }

    pub(super) fn announce_close(&mut self, id: u32) {
        let flow = &self.flows[id as usize];
        let left_at_ns = self.now.0.max(flow.express_until_ns);
        self.events.push(Time(left_at_ns.saturating_add(flow.delay_ns)), Event::Closes(id));
    }

    /// Ends a flow: nothing leaves it, nothing arrives from it.
    pub(super) fn kill(&mut self, flow: u32) {
        self.silence(flow);
        let state = &mut self.flows[flow as usize];
        if state.phase != Phase::Closed {
            state.phase = Phase::Closed;
            let from = state.from;
            self.nodes[from.0 as usize].flows.retain(|other| *other != flow);
        }
    }

    /// Empties a flow's queue and takes it out of the sharing.
    pub(super) fn silence(&mut self, flow: u32) {
        let state = &mut self.flows[flow as usize];
        state.queue.clear();
        state.leaves_at_ns = NEVER_NS;
        if state.active {
            state.active = false;
            self.sharing.stop(flow);
        }
    }

    pub(super) fn plan_leaving(&mut self, flow: u32) {
        plan_leaving(&mut self.flows[flow as usize], flow, &mut self.events);
    }
}

/// Schedules the moment when the next message of a flow leaves. An entry that is too early finds nothing to do and
/// plans again, so a flow that slows down costs nothing until then.
fn plan_leaving<T>(flow: &mut Flow, id: u32, events: &mut EventQueue<Event<T>>) {
    if let Some(at_ns) = flow.queue.next_end_ns().filter(|at_ns| *at_ns < flow.leaves_at_ns) {
        flow.leaves_at_ns = at_ns;
        events.push(Time(at_ns), Event::Leaves(id));
    }
}

/// The first multiple of `quantum` after `now`; `now` itself when the quantum is zero.
fn next_multiple(now: Time, quantum: Duration) -> Time {
    if quantum == Duration::ZERO { now } else { Time((now.0 / quantum.0 + 1) * quantum.0) }
}
