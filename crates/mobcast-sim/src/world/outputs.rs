//! What a node wants done, and how it is done here.

use std::net::SocketAddr;

use mobcast_proto::content::manifest::{SignatureDomain, signed_message};
use mobcast_proto::group::succession::Secret;
use mobcast_proto::io::{Check, Event, Output, Signer};
use mobcast_proto::wire::Frame;
use mobcast_proto::{BroadcastId, ByteRange, ClusterId, Duration, LinkId, NodeId, PieceIndex, Time};

use super::mischief::Mischief;
use super::{AUTHORITY, CHUNK_OVERHEAD_BYTES, Due, FRAME_OVERHEAD_BYTES, Message, Sending, World, node_at, sign};
use crate::link::Class;
use crate::network::NodeIndex;

impl World {
    /// Does what a node wants done, until it wants nothing more, and sets its timer.
    pub(super) fn drain(&mut self, index: NodeIndex) {
        if !self.network.is_running(index) {
            return;
        }
        while let Some(output) = self.machines[index.0 as usize].node.poll_output() {
            self.carry_out(index, output);
        }
        self.check_signed(index);
        if self.settings.check_every > 0 && self.steps.is_multiple_of(self.settings.check_every) {
            self.machines[index.0 as usize].node.check_invariants();
        }
        let due = self.machines[index.0 as usize].node.poll_timeout();
        let at = self.machines[index.0 as usize].clock.when(due).max(self.network.now());
        let machine = &mut self.machines[index.0 as usize];
        match machine.timer {
            Some((set, _)) if set <= at => {}
            other => {
                if let Some((_, token)) = other {
                    self.network.unschedule(token);
                }
                let token = self.network.schedule(at, Due::Timer(index));
                self.machines[index.0 as usize].timer = Some((at, token));
            }
        }
    }

    fn carry_out(&mut self, index: NodeIndex, output: Output) {
        match output {
            Output::SendToAll { links, frame } => {
                let sends = links.into_iter().map(|link| Output::Send { link, frame: frame.clone() });
                sends.for_each(|send| self.carry_out(index, send));
            }
            Output::Send { link, frame } => {
                self.check_frame(index, &frame);
                let frame = self.machines[index.0 as usize].tampered(frame);
                let flow = self.told.is_some().then(|| self.machines[index.0 as usize].flows.get(&link).copied());
                if let Some(to) = flow.flatten().map(|flow| self.network.ends(flow).1) {
                    self.tell_frame(index, to, &frame);
                }
                let bytes = frame.encode();
                let size = bytes.len() as u32 + FRAME_OVERHEAD_BYTES;
                self.transmit(index, link, size, Message::Frame(bytes), Class::Control);
            }
            Output::SendPayload { link, broadcast, piece, range } => {
                self.check_held(index, broadcast, piece, "serves");
                self.send_payload(index, link, broadcast, piece, range);
            }
            Output::CancelPayload { link, broadcast, piece } => self.cancel_payload(index, link, broadcast, piece),
            Output::DropPiece { .. } | Output::Retire { .. } => {}
            Output::Hashes { broadcast, first, hashes, .. } => {
                self.check_announced(index, broadcast);
                self.check_hashes(index, broadcast, first, &hashes, "goes by");
            }
            Output::Connect { link, dial, greeting } => {
                greeting.iter().for_each(|frame| self.check_frame(index, frame));
                self.dial(index, link, &dial, greeting);
            }
            Output::Close { link, reason } => {
                let flow = self.machines[index.0 as usize].flows.get(&link).copied();
                if let Some((_, other)) = flow.map(|flow| self.network.ends(flow)) {
                    self.tell(Some(index), || format!("closes its link to machine {}: {reason}", other.0));
                }
                self.close_link(index, link);
            }
            Output::Probe { cluster, addresses } => self.probe(index, cluster, &addresses),
            Output::Sign { .. }
            | Output::Verify { .. }
            | Output::Certify { .. }
            | Output::Identity { .. }
            | Output::Entrust { .. }
            | Output::Keep { .. } => self.use_keys(index, output),
            Output::VerifyPiece { broadcast, piece } => self.store(index, broadcast, piece),
            Output::StoreWhole { broadcast, object } => {
                self.check_whole(index, broadcast, &object);
                self.store(index, broadcast, PieceIndex(0));
            }
            Output::Event(event) => {
                self.tell_event(index, &event);
                self.check_event(index, &event);
                self.event(index, event);
            }
        }
    }

    fn probe(&mut self, index: NodeIndex, cluster: ClusterId, addresses: &[SocketAddr]) {
        let opened = self.machines[index.0 as usize].life;
        let to = addresses.first().and_then(|&a| node_at(a)).filter(|&to| self.network.is_running(to));
        let to = to.filter(|&to| !self.is_cut(index, to));
        let rtt = to.and_then(|to| self.network.delay(index, to)).map(|delay| delay.times(2));
        let at = self.network.now() + rtt.unwrap_or(Duration::from_secs(2));
        self.network.schedule(at, Due::Probed { node: index, cluster, rtt, opened });
    }

    fn store(&mut self, index: NodeIndex, broadcast: BroadcastId, piece: PieceIndex) {
        self.check_announced(index, broadcast);
        let (at, opened) = (self.stored_at(index), self.machines[index.0 as usize].life);
        self.network.schedule(at, Due::Stored { node: index, broadcast, piece, opened });
    }

    /// When a piece that is handed to the disk is stored.
    fn stored_at(&mut self, index: NodeIndex) -> Time {
        let now = self.network.now();
        let machine = &mut self.machines[index.0 as usize];
        let begins = now.max(machine.disk_stalls_until);
        let Some(slow) = machine.slow_disk else { return begins + self.settings.store_time };
        machine.disk_free_at = begins.max(machine.disk_free_at) + slow;
        machine.disk_free_at
    }

    /// What needs keys.
    fn use_keys(&mut self, index: NodeIndex, output: Output) {
        let now = self.local(index);
        match output {
            Output::Sign { token, signer, message } => {
                let signed_by = match signer {
                    Signer::Authority => {
                        assert!(self.machines[index.0 as usize].authority, "signs with a key that it does not have");
                        self.note_signed(&message);
                        AUTHORITY
                    }
                    Signer::Node => self.machines[index.0 as usize].key,
                };
                self.signatures += 1;
                let signature = sign(signed_by, &message);
                self.machines[index.0 as usize].node.handle_signed(now, token, signature);
            }
            Output::Verify { token, checks } => {
                let valid = |check: &Check| sign(check.key.unwrap_or(AUTHORITY), &check.message) == check.signature;
                let all = checks.iter().all(valid);
                self.check_valid(index, all);
                self.machines[index.0 as usize].node.handle_verified(now, token, all);
            }
            Output::Certify { mut credential } => {
                credential.expires_unix_s = u64::MAX;
                let message = signed_message(SignatureDomain::Credential, self.group, &credential.to_bytes());
                let signature = sign(AUTHORITY, &message);
                self.machines[index.0 as usize].node.handle_certified(now, credential, signature, Vec::new());
            }
            Output::Identity { .. } => {}
            Output::Entrust { link, children } => {
                let frame = Frame::Entrust { authority: Secret(AUTHORITY.0.to_vec()), children };
                self.carry_out(index, Output::Send { link, frame });
            }
            Output::Keep { authority } => {
                assert_eq!(authority.0, AUTHORITY.0, "the authority's key arrives as it was sent");
                self.machines[index.0 as usize].authority = true;
            }
            other => unreachable!("{other:?} needs no keys"),
        }
    }

    /// A driver has no place for what belongs to a broadcast that it has not heard of.
    fn check_announced(&self, index: NodeIndex, broadcast: BroadcastId) {
        let announced = &self.machines[index.0 as usize].seen.announced;
        assert!(announced.contains(&broadcast), "{broadcast} is spoken of before it is announced");
    }

    fn transmit(
        &mut self,
        index: NodeIndex,
        link: LinkId,
        bytes: u32,
        message: Message,
        class: Class,
    ) -> Option<usize> {
        let &flow = self.machines[index.0 as usize].flows.get(&link)?;
        let tag = self.free.pop().unwrap_or_else(|| {
            self.messages.push(None);
            self.messages.len() - 1
        });
        self.messages[tag] = Some(message);
        if class == Class::Control {
            self.check_frames_waiting(index, flow, bytes);
        }
        self.network.send(flow, bytes, tag as u64, class);
        Some(tag)
    }

    fn send_payload(
        &mut self,
        index: NodeIndex,
        link: LinkId,
        broadcast: BroadcastId,
        piece: PieceIndex,
        range: ByteRange,
    ) {
        let machine = &mut self.machines[index.0 as usize];
        if !machine.flows.contains_key(&link) {
            return;
        }
        if machine.malicious == Some(Mischief::Mute) {
            return;
        }
        let forged = machine.malicious == Some(Mischief::WrongPieces);
        let mut tags = Vec::new();
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + self.settings.chunk_bytes_max);
            let chunk = ByteRange { start, end };
            let message = Message::Payload { broadcast, piece, range: chunk, forged };
            tags.extend(self.transmit(index, link, chunk.len() + CHUNK_OVERHEAD_BYTES, message, Class::Payload));
            start = end;
        }
        let machine = &mut self.machines[index.0 as usize];
        machine.in_driver.get_or_default(link).push(Sending { broadcast, piece, tags });
    }

    fn event(&mut self, index: NodeIndex, event: Event) {
        let (now, local) = (self.network.now(), self.local(index));
        let machine = &mut self.machines[index.0 as usize];
        match event {
            Event::Announced { broadcast, .. } => {
                machine.seen.announced.insert(broadcast);
                if !machine.undecided {
                    machine.node.accept(local, broadcast);
                }
            }
            Event::Complete { broadcast, .. } => {
                machine.seen.complete.insert(broadcast, now);
                self.completions += 1;
                self.completed.extend(machine.node.id().map(|node| (broadcast, node)));
                if machine.node.id() != Some(broadcast.root) {
                    machine.node.confirm(local, broadcast);
                }
                if machine.forgetful {
                    machine.node.forget(local, broadcast);
                }
            }
            Event::Failed { broadcast, failure } => {
                machine.seen.failed.insert(broadcast, failure.to_string());
                machine.seen.failed_at.insert(broadcast, now);
            }
            Event::Released { broadcast } => {
                machine.seen.released.insert(broadcast, now);
            }
            Event::RootNeeded { broadcast } => drop(machine.seen.may_leave.remove(&broadcast)),
            Event::RootMayLeave { broadcast } => {
                machine.seen.may_leave.insert(broadcast, now);
            }
            // The founder has taken its group back.
            Event::CoordinatorChanged { node: NodeId(0), .. } => machine.seen.coordinator_since = None,
            Event::CoordinatorChanged { own: true, .. } => machine.seen.coordinator_since = Some(now),
            Event::Result { node, result, .. } => {
                machine.seen.results.insert((result.broadcast, node), result.outcome.is_ok());
            }
            Event::Admitted { reason, .. } => machine.seen.reason = reason,
            Event::Assigned { cluster_name, .. } => machine.seen.cluster = cluster_name,
            Event::Measured(measurement) => machine.seen.measured = Some(*measurement),
            Event::Unplanned { strategy, reason } => machine.seen.unplanned.push(format!("{strategy}: {reason}")),
            Event::PeerDropped { reason, .. } => machine.seen.dropped.push(reason.to_string()),
            _ => {}
        }
    }
}
