//! Inputs: handed to the core, with the time, and then whatever it wants is carried out.

use mobcast_proto::wire::Frame;
use mobcast_proto::{BroadcastId, Duration};
use tracing::trace;

use super::{Engine, Flow};
use crate::driver::Notice;
use crate::driver::input::{Command, Input};

impl Engine {
    pub(super) fn handle(&mut self, input: Input) -> Flow {
        let now = self.clock.now();
        match input {
            Input::Command(command) => return self.command(command),
            Input::LinkUp { link, established } => self.dialled(link, *established),
            Input::DialFailed { link, error } => self.dial_failed(link, error),
            Input::Accepted(established) => self.accepted(*established),
            Input::LinkDown { link, end } => self.link_down(link, end),
            Input::Frame { link, .. } | Input::Payload { link, .. } | Input::Sent { link }
                if !self.links.contains_key(&link) => {}
            Input::Frame { link, frame, place } => {
                trace!(%link, ?frame, "receive");
                if let Frame::Reject { broadcast, piece } = *frame {
                    self.pieces.expect_no_more(link, broadcast, piece);
                }
                self.node.handle_frame(now, link, *frame);
                drop(place);
            }
            Input::Payload { link, broadcast, piece, range } => {
                self.node.handle_payload(now, link, broadcast, piece, range);
            }
            Input::Sent { link } => self.node.handle_sent(now, link),
            Input::Judged { broadcast, piece, verdict } => self.judged(broadcast, piece, verdict),
            Input::StoreFailed { broadcast, error } => self.store_failed(broadcast, error),
            Input::ServingFailed { broadcast, error } => self.serving_failed(broadcast, error),
            Input::Hashed { broadcast, hashes } => {
                hashes.into_iter().for_each(|hash| self.node.handle_hashed(now, broadcast, hash));
            }
            Input::SourceEnd { broadcast, last, length, object_hash } => {
                self.node.handle_source_end(now, broadcast, last, length, object_hash);
            }
            Input::Finished { broadcast, result } => self.finished(broadcast, result),
            Input::Probed { cluster, rtt } => {
                let rtt = rtt.map(|rtt| Duration(rtt.as_nanos() as u64));
                self.node.handle_probed(now, cluster, rtt);
            }
        }
        self.drain();
        Flow::On
    }

    fn unclaimed(&mut self, broadcast: BroadcastId) {
        self.tell(Notice::Unclaimed { broadcast });
        self.node.abort(self.clock.now(), broadcast, "its root has stopped waiting for it".into());
    }

    fn command(&mut self, command: Command) -> Flow {
        let now = self.clock.now();
        match command {
            Command::Broadcast { descriptor, source, whole, receivers, answer } => {
                let started = self.start_broadcast(*descriptor, source, whole, receivers);
                // Whoever asked may have stopped waiting.
                if let Err(Some(unheard)) = answer.send(started) {
                    self.unclaimed(unheard);
                }
            }
            Command::Unclaimed { broadcast } => self.unclaimed(broadcast),
            Command::Accept { broadcast, sink } => self.accept(broadcast, sink),
            Command::Decline { broadcast, reason } => {
                self.node.decline(now, broadcast, reason);
                self.drain();
                self.end_transfer(broadcast);
            }
            Command::Abort { broadcast, reason } => self.node.abort(now, broadcast, reason),
            Command::Forget { broadcast } => {
                self.node.forget(now, broadcast);
                self.end_transfer(broadcast);
            }
            Command::View { broadcast, answer } => {
                // Whoever asked may have stopped waiting.
                let _ = answer.send(self.view(broadcast));
            }
            Command::Choose { object, costs, answer } => {
                let _ = answer.send(self.node.choose(object, &costs));
            }
            Command::Measure { answer } => {
                let _ = answer.send(self.node.measure(now));
            }
            Command::Leave { done } => return Flow::Leave(Some(done)),
        }
        self.drain();
        Flow::On
    }
}
