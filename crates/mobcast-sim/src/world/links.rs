//! How nodes come to be linked: dials that take their time, and arrive or do not.

use mobcast_proto::io::{Dial, PeerIdentity};
use mobcast_proto::wire::Frame;
use mobcast_proto::{Duration, LinkId, NodeId, Time};

use super::cuts::DIAL_AGAIN;
use super::{Due, World, node_at};
use crate::network::{Delivery, FlowId, NodeIndex};

/// Ways through the network until the one who is dialled has a link: a round trip for TCP, one for TLS, and the greeting, with
/// which this node's frames come. One way later the other end has it too.
const HANDSHAKE_DELAYS: u64 = 5;

impl World {
    pub(super) fn dial(&mut self, from: NodeIndex, link: LinkId, dial: &Dial, greeting: Vec<Frame>) {
        let now = self.network.now();
        let (addresses, expected) = match dial {
            Dial::Join { addresses } => {
                self.machines[from.0 as usize].join_dials += 1;
                (addresses, None)
            }
            Dial::Member { node, addresses } => (addresses, Some(*node)),
        };
        let opened = self.machines[from.0 as usize].life;
        self.machines[from.0 as usize].dialling.insert(link, greeting);
        let to = addresses.first().and_then(|&a| node_at(a)).filter(|to| (to.0 as usize) < self.machines.len());
        let delay = to.and_then(|to| self.network.delay(from, to));
        match (to, delay) {
            (Some(to), Some(delay)) if self.network.is_running(to) => {
                self.network.schedule(
                    now + delay.times(HANDSHAKE_DELAYS),
                    Due::DialArrives { from, link, to, expected, opened },
                );
            }
            _ => {
                let at = now + delay.unwrap_or(Duration::from_millis(1)).times(2);
                self.network.schedule(at, Due::DialDone { from, link, to: None, opened });
            }
        }
    }

    pub(super) fn dial_arrives(
        &mut self,
        now: Time,
        from: NodeIndex,
        link: LinkId,
        to: NodeIndex,
        expected: Option<NodeId>,
        life: u32,
    ) {
        if !self.alive(from, life) || !self.machines[from.0 as usize].dialling.contains_key(&link) {
            return;
        }
        if self.is_cut(from, to) {
            let again = Due::DialArrives { from, link, to, expected, opened: life };
            self.network.schedule(now + DIAL_AGAIN, again);
            return;
        }
        // A machine that was admitted twice is not any more who it was before: the handshake fails.
        let node = &self.machines[to.0 as usize].node;
        let found = expected.is_none_or(|expected| node.id() == Some(expected));
        let opened = found.then(|| self.network.open(from, to).ok()).flatten();
        let Some(flow) = opened else {
            self.network.schedule(now, Due::DialDone { from, link, to: None, opened: life });
            return;
        };
        let delay = self.network.delay(from, to).unwrap_or_default();
        // What it says of itself it says now: it may have died, and come back as another one, before that is read.
        let answer = self.machines[to.0 as usize].node.hello(0);
        self.machines[from.0 as usize].half_open.insert(flow, (link, answer));
        let done = Due::DialDone { from, link, to: Some((to, flow)), opened: life };
        self.network.schedule(now + delay, done);
        let hello = self.machines[from.0 as usize].node.hello(0);
        let greeting = self.machines[from.0 as usize].dialling.get_mut(&link).map(std::mem::take).unwrap_or_default();
        let identity = match expected {
            None => PeerIdentity::Joiner,
            Some(_) => PeerIdentity::Member { node: hello.node, cluster: hello.cluster },
        };
        let local = self.local(to);
        let machine = &mut self.machines[to.0 as usize];
        let accepted = machine.node.accept_link(local, identity, &hello);
        machine.flows.insert(accepted, flow.reverse());
        machine.links.insert(flow.reverse(), accepted);
        self.drain(to);
        for frame in greeting {
            self.machines[to.0 as usize].node.handle_frame(local, accepted, frame);
            self.drain(to);
        }
    }

    pub(super) fn dial_done(
        &mut self,
        now: Time,
        from: NodeIndex,
        link: LinkId,
        to: Option<(NodeIndex, FlowId)>,
        life: u32,
    ) {
        if !self.alive(from, life) {
            return;
        }
        if to.is_some_and(|(to, _)| self.is_cut(from, to)) {
            self.network.schedule(now + DIAL_AGAIN, Due::DialDone { from, link, to, opened: life });
            return;
        }
        self.dial_answered(now, from, link, to);
    }

    fn dial_answered(&mut self, now: Time, from: NodeIndex, link: LinkId, to: Option<(NodeIndex, FlowId)>) {
        self.note(now, from, 5);
        let mut answer = |flow: FlowId| Some((self.machines[from.0 as usize].half_open.remove(&flow)?.1, flow));
        let answered = to.and_then(|(_, flow)| answer(flow));
        if to.is_some() && answered.is_none() {
            return;
        }
        if self.machines[from.0 as usize].dialling.remove(&link).is_none() {
            // Given up meanwhile: the other end learns it.
            to.into_iter().for_each(|(_, flow)| self.network.close(flow));
            return;
        }
        let other = to.map(|(to, _)| to.0);
        self.tell(Some(from), || match other {
            Some(other) => format!("is linked to machine {other}"),
            None => "dials in vain".to_owned(),
        });
        let now = self.local(from);
        let machine = &mut self.machines[from.0 as usize];
        match answered {
            Some((hello, flow)) => {
                machine.flows.insert(link, flow);
                machine.links.insert(flow, link);
                let identity = PeerIdentity::Member { node: hello.node, cluster: hello.cluster };
                machine.node.handle_link_up(now, link, identity, &hello);
            }
            None => machine.node.handle_link_down(now, link),
        }
        self.drain(from);
    }

    /// What comes over a link whose dial is not done has been sent after what would end it, and comes after it, even if the
    /// network was cut in the meantime.
    pub(super) fn finish_dial(&mut self, now: Time, delivery: Delivery) {
        let flow = delivery.flow.reverse();
        let machine = &self.machines[delivery.to.0 as usize];
        if let Some(&(link, _)) = machine.half_open.get(&flow) {
            self.dial_answered(now, delivery.to, link, Some((delivery.from, flow)));
        }
    }

    /// A node has no use for a link.
    pub(super) fn close_link(&mut self, index: NodeIndex, link: LinkId) {
        let machine = &mut self.machines[index.0 as usize];
        machine.dialling.remove(&link);
        if let Some(flow) = machine.flows.remove(&link) {
            machine.links.remove(&flow);
            machine.in_driver.remove(&link);
            machine.frames_waiting.gone(flow);
            self.network.close(flow);
        }
    }
}
