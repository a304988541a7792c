//! The loop of the network: one event after the other, its own and its user's, and what each does to the flows.

use super::base::{Event, Phase};
use super::medium::Medium;
use super::{Delivery, FlowId, Happening, Network};
use crate::link::Sent;
use mobcast_proto::Time;

impl<T> Network<T> {
    /// Goes on to the next happening; `None` when nothing is left to happen.
    pub fn step(&mut self) -> Option<(Time, Happening<T>)> {
        loop {
            if self.step_packets() {
                continue;
            }
            if let Medium::Fluid(fluid) = &mut self.medium {
                fluid.arm(&mut self.base);
            }
            let (at, event) = self.base.events.pop()?;
            debug_assert!(at >= self.base.now, "time runs forwards");
            self.base.now = at;
            self.base.events_total += 1;
            let happening = match event {
                Event::Arrives(flow, sent) => self.on_arrives(flow, sent),
                Event::Closes(flow) => self.on_closes(flow),
                Event::Drained(flow) => Some(Happening::Drained(FlowId(flow))),
                Event::Due(event) => Some(Happening::Due(event)),
                Event::Leaves(_) | Event::Widens(_) | Event::Settle | Event::Levy => {
                    self.on_fluid(&event);
                    None
                }
            };
            if let Some(happening) = happening {
                return Some((at, happening));
            }
        }
    }

    /// Moves packets, if something happens to them before anything else does.
    fn step_packets(&mut self) -> bool {
        let Medium::Packet(packets) = &mut self.medium else { return false };
        let Some(at_ns) = packets.next_time_ns() else { return false };
        if self.base.events.next_time().is_some_and(|other| other.0 <= at_ns) {
            return false;
        }
        packets.step(&mut self.base);
        true
    }

    fn on_fluid(&mut self, event: &Event<T>) {
        let Medium::Fluid(fluid) = &mut self.medium else { return };
        match event {
            Event::Leaves(flow) => fluid.look(&mut self.base, *flow),
            Event::Widens(flow) => fluid.widen(&mut self.base, *flow),
            Event::Settle => fluid.settle(&mut self.base),
            _ => fluid.levy(),
        }
    }

    fn on_arrives(&mut self, id: u32, sent: Sent) -> Option<Happening<T>> {
        if self.base.phase(id) == Phase::Closed {
            return None;
        }
        self.base.count_in(id, sent);
        let (from, to) = self.ends(FlowId(id));
        let Sent { tag, bytes, class } = sent;
        Some(Happening::Delivered(Delivery { flow: FlowId(id), from, to, tag, bytes, class }))
    }

    fn on_closes(&mut self, flow: u32) -> Option<Happening<T>> {
        if self.base.phase(flow) == Phase::Closed {
            return None;
        }
        self.kill(flow);
        Some(Happening::Closed { node: self.base.flows[flow as usize].to, flow: FlowId(flow) })
    }
}
