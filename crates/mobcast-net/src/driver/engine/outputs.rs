//! Outputs: what the core wants done.

use std::sync::Arc;
use std::time::Instant;

use mobcast_proto::content::object::piece_offset;
use mobcast_proto::group::assignment::Credential;
use mobcast_proto::group::succession::Secret;
use mobcast_proto::io::{Event, Output};
use mobcast_proto::wire::Frame;
use mobcast_proto::{BroadcastId, ByteRange, LinkId, PieceIndex};
use tracing::{debug, info, trace, warn};

use super::Engine;
use crate::driver::Notice;
use crate::driver::link::LinkEnd;
use crate::driver::link::queue::{Part, WaitingFrame};
use crate::driver::store::Store;
use crate::tls::Certificate;

impl Engine {
    /// Carries out everything that the core wants, including what it wants next because of it.
    pub(super) fn drain(&mut self) {
        loop {
            while let Some(output) = self.node.poll_output() {
                self.carry_out(output);
            }
            let Some((link, waiting)) = self.congested.pop() else { return };
            if self.links.contains_key(&link) {
                self.link_down(link, LinkEnd::Congested(waiting));
            }
        }
    }

    fn carry_out(&mut self, output: Output) {
        let now = self.clock.now();
        match output {
            Output::Send { link, frame } => self.send(link, &frame),
            Output::SendToAll { links, frame } => {
                trace!(?links, ?frame, "send to all");
                let frame = self.frames_waiting.frame(frame.encode());
                links.into_iter().for_each(|link| self.queue_frame(link, Arc::clone(&frame)));
            }
            Output::SendPayload { link, broadcast, piece, range } => self.send_payload(link, broadcast, piece, range),
            Output::CancelPayload { link, broadcast, piece } => {
                let unbegun = self.links.get(&link).map_or(0, |open| open.queue.cancel(broadcast, piece));
                (0..unbegun).for_each(|_| self.node.handle_sent(now, link));
            }
            Output::Connect { link, dial, greeting } => self.connect(link, dial, greeting),
            Output::Retire { link } => self.bar(link),
            Output::Close { link, reason } => self.close(link, &reason),
            Output::Probe { cluster, addresses } => self.probe(cluster, addresses),
            Output::Sign { token, signer, message } => match self.keys.sign(signer, &message) {
                Some(signature) => self.node.handle_signed(now, token, signature),
                None => warn!("asked to sign as the authority, whose key this node does not have"),
            },
            Output::Verify { token, checks } => {
                let valid = self.keys.verify(&checks);
                self.node.handle_verified(now, token, valid);
            }
            Output::Certify { credential } => self.certify(credential),
            Output::Identity { certificate, .. } => {
                if let Err(error) = self.keys.become_member(Certificate(certificate)) {
                    self.tell(Notice::BadIdentity { error: Arc::new(error) });
                }
            }
            Output::Entrust { link, children } => match self.keys.authority_secret() {
                Some(secret) => self.send(link, &Frame::Entrust { authority: Secret(secret), children }),
                None => warn!("asked to hand over the authority's key, which this node does not have"),
            },
            Output::Keep { authority } => match self.keys.keep_authority(&authority.0) {
                Ok(()) => debug!("entrusted with the authority's key"),
                Err(error) => warn!(%error, "the coordinator has handed over a key that is not the authority's"),
            },
            Output::Hashes { broadcast, first, hashes, length } => {
                self.pieces.add_hashes(broadcast, first, hashes, length);
            }
            Output::VerifyPiece { broadcast, piece } => {
                match self.pieces.take_full(broadcast, piece) {
                    Some(full) => self.store(full),
                    // A chunk was passed over because another link was bringing it, and then did not.
                    None => self.not_whole(broadcast, piece),
                }
            }
            Output::StoreWhole { broadcast, object } => match self.pieces.take_whole(broadcast, object) {
                Some(full) => self.store(full),
                None => self.node.handle_wrong(now, broadcast, PieceIndex(0), false),
            },
            Output::DropPiece { broadcast, piece } => self.pieces.drop_piece(broadcast, piece),
            Output::Event(event) => self.event(event),
        }
    }

    fn send(&mut self, link: LinkId, frame: &Frame) {
        trace!(%link, ?frame, "send");
        match frame {
            Frame::Admit { credential, .. } => self.ledger.admit(link, self.node.member_cluster(credential.node)),
            Frame::Request { broadcast, piece, .. } => self.pieces.expect(link, *broadcast, *piece),
            Frame::Cancel { broadcast, piece } => self.pieces.expect_no_more(link, *broadcast, *piece),
            _ => {}
        }
        self.queue_frame(link, self.frames_waiting.frame(frame.encode()));
    }

    fn queue_frame(&mut self, link: LinkId, frame: Arc<WaitingFrame>) {
        let Some(open) = self.links.get(&link) else { return };
        if let Err(waiting) = open.queue.push_frame(Instant::now(), frame) {
            self.congested.push((link, waiting));
        }
    }

    fn send_payload(&mut self, link: LinkId, broadcast: BroadcastId, piece: PieceIndex, range: ByteRange) {
        if broadcast == BroadcastId::FILLER {
            return self.send_filler(link, piece, range);
        }
        let Some(open) = self.links.get(&link) else { return };
        let store = self.transfers.get(&broadcast).and_then(|transfer| transfer.serving());
        match store {
            Some((store, stats, piece_size)) => {
                let offset = piece_offset(piece, piece_size);
                open.queue.push_part(Part::new((broadcast, piece, range), offset, store, stats));
            }
            None => {
                self.send(link, &Frame::Reject { broadcast, piece });
                self.node.handle_sent(self.clock.now(), link);
            }
        }
    }

    /// Filler goes the way of payload.
    fn send_filler(&mut self, link: LinkId, piece: PieceIndex, range: ByteRange) {
        let Some(open) = self.links.get(&link) else { return };
        open.queue.push_part(Part::new((BroadcastId::FILLER, piece, range), 0, Store::Filler, Arc::default()));
    }

    fn not_whole(&mut self, broadcast: BroadcastId, piece: PieceIndex) {
        debug!(%broadcast, %piece, "a piece is not whole and has to come again");
        self.node.handle_wrong(self.clock.now(), broadcast, piece, false);
    }

    fn certify(&mut self, credential: Credential) {
        match self.keys.certify(credential) {
            Ok(Some((credential, signature, Certificate(certificate)))) => {
                self.node.handle_certified(self.clock.now(), credential, signature, certificate);
            }
            Ok(None) => warn!("asked to certify a node without the authority's key"),
            Err(error) => warn!(%error, node = %credential.node, "cannot certify a node; it will ask again"),
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Announced { broadcast, descriptor } => self.announced(broadcast, descriptor),
            Event::Complete { broadcast, length, object_hash } => self.complete(broadcast, length, object_hash),
            Event::Failed { broadcast, ref failure } => {
                info!(%broadcast, %failure, "failed");
                self.tell(Notice::Event(event));
                self.end_transfer(broadcast);
            }
            Event::Assigned { .. } => {
                self.show_doorway();
                self.tell(Notice::Event(event));
            }
            Event::RootMayLeave { broadcast } => {
                self.tell(Notice::Event(event));
                self.root_may_leave(broadcast);
            }
            Event::RootNeeded { broadcast } => {
                self.tell(Notice::Event(event));
                self.root_needed(broadcast);
            }
            Event::CoordinatorChanged { own: false, .. } => {
                debug!(?event, "event");
                self.tell(Notice::Event(event));
                // A coordinator that follows another one forgets what it has told its own application.
                self.all_roots_needed();
            }
            event => {
                debug!(?event, "event");
                self.tell(Notice::Event(event));
            }
        }
    }

    /// From the first assignment on the node's greeting names its cluster, and others may connect.
    fn show_doorway(&mut self) {
        match self.keys.doorway(self.node.hello(0)) {
            Ok(Some(doorway)) => drop(self.doorway.send_replace(Some(Arc::new(doorway)))),
            Ok(None) => {}
            Err(error) => self.tell(Notice::BadIdentity { error: Arc::new(error) }),
        }
    }
}
