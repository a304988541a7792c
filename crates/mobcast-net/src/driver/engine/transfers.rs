//! The broadcasts of a node: their sources and sinks, and the threads that work for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use mobcast_proto::content::{Descriptor, HashedObject};
use mobcast_proto::{BroadcastId, Digest, PieceIndex};
use tracing::{debug, info, warn};

use super::Engine;
use crate::driver::Notice;
use crate::driver::drain::Drainer;
use crate::driver::input::Input;
use crate::driver::pieces::{FullPiece, Verdict};
use crate::driver::source::SourceReader;
use crate::driver::stats::TransferStats;
use crate::driver::store::Store;
use crate::store::{Finished, ObjectSink, ObjectSource, StoreError};

/// One broadcast at this node.
#[derive(Debug)]
pub struct Transfer {
    piece_size: u32,
    stats: Arc<TransferStats>,
    /// Where its bytes are: at a receiver from when the application has accepted it.
    store: Option<Store>,
    /// Ends the reading of the source.
    stopped: Arc<AtomicBool>,
    drainer: Option<Drainer>,
    /// The object's length and hash, once it is complete.
    end: Option<(u64, Digest)>,
    /// Whether others have every piece and this node is not needed as root, as far as it knows.
    may_leave: bool,
    /// Why a piece of the source could not be served since then.
    unserved: Option<Arc<StoreError>>,
}

impl Transfer {
    fn new(piece_size: u32, store: Option<Store>) -> Transfer {
        let (stats, stopped) = Default::default();
        Transfer { piece_size, stats, store, stopped, drainer: None, end: None, may_leave: false, unserved: None }
    }

    /// What it takes to serve a part of a piece.
    pub fn serving(&self) -> Option<(Store, Arc<TransferStats>, u32)> {
        Some((self.store.clone()?, Arc::clone(&self.stats), self.piece_size))
    }
}

// ---- The root ----

impl Engine {
    pub(super) fn start_broadcast(
        &mut self,
        descriptor: Descriptor,
        source: Arc<ObjectSource>,
        whole: Option<Vec<u8>>,
        receivers: Option<u32>,
    ) -> Option<BroadcastId> {
        let (piece_size, length) = (descriptor.piece_size, descriptor.length);
        let whole = whole.map(|data| HashedObject::of(data.into()));
        let broadcast = self.node.broadcast(self.clock.now(), descriptor.clone(), whole.clone())?;
        if let Some(receivers) = receivers {
            self.node.require_receivers(self.clock.now(), broadcast, receivers);
        }
        let transfer = Transfer::new(piece_size, Some(Store::Source(Arc::clone(&source))));
        if let Some(length) = length {
            transfer.stats.set_length(length, piece_size);
        }
        let stats = Arc::clone(&transfer.stats);
        if let Some(whole) = whole {
            let length = whole.data().len() as u64;
            self.transfers.insert(broadcast, transfer);
            if whole.piece().is_some() {
                stats.add_stored(length);
            }
            self.tell(Notice::Started { broadcast, descriptor, stats });
            let last = whole.piece().into_iter().collect();
            self.node.handle_source_end(self.clock.now(), broadcast, last, length, whole.hash());
            return Some(broadcast);
        }
        let reader = SourceReader {
            broadcast,
            source,
            piece_size,
            inputs: self.inputs.clone(),
            stats: Arc::clone(&stats),
            stopped: Arc::clone(&transfer.stopped),
        };
        self.transfers.insert(broadcast, transfer);
        self.tell(Notice::Started { broadcast, descriptor, stats });
        if let Err(error) = thread::Builder::new().name("mobcast-source".into()).spawn(move || reader.run()) {
            self.node.abort(self.clock.now(), broadcast, format!("cannot start a thread: {error}"));
        }
        Some(broadcast)
    }
}

// ---- Receivers ----

impl Engine {
    pub(super) fn announced(&mut self, broadcast: BroadcastId, descriptor: Descriptor) {
        let transfer = Transfer::new(descriptor.piece_size, None);
        let stats = Arc::clone(&transfer.stats);
        if let Some(length) = descriptor.length {
            stats.set_length(length, descriptor.piece_size);
        }
        self.pieces.announce(broadcast, &descriptor, Arc::clone(&stats));
        self.transfers.insert(broadcast, transfer);
        self.tell(Notice::Announced { broadcast, descriptor, stats });
    }

    pub(super) fn accept(&mut self, broadcast: BroadcastId, sink: Arc<ObjectSink>) {
        // It may have failed meanwhile, of which the application has been told; the sink is then abandoned by its drop.
        let Some(transfer) = self.transfers.get_mut(&broadcast) else { return };
        if sink.is_in_order() {
            match Drainer::start(broadcast, Arc::clone(&sink), self.inputs.clone()) {
                Ok(drainer) => transfer.drainer = Some(drainer),
                Err(error) => {
                    let reason = format!("cannot start a thread: {error}");
                    self.node.decline(self.clock.now(), broadcast, reason);
                    return;
                }
            }
        }
        transfer.store = Some(Store::Sink(Arc::clone(&sink)));
        self.pieces.open(broadcast, sink);
        self.node.accept(self.clock.now(), broadcast);
    }

    /// Has a complete piece verified and stored.
    pub(super) fn store(&mut self, full: FullPiece) {
        let (broadcast, piece) = (full.broadcast, full.piece);
        if self.single && full.is_quick() {
            let verdict = self.pieces.store(full);
            return self.judged(broadcast, piece, verdict);
        }
        let (pieces, inputs) = (Arc::clone(&self.pieces), self.inputs.clone());
        let drainer = self.transfers.get(&broadcast).and_then(|transfer| transfer.drainer.as_ref());
        let doorbell = drainer.map(Drainer::doorbell);
        self.storing.run(move || {
            let verdict = pieces.store(full);
            if let Some(doorbell) = doorbell {
                doorbell.ring();
            }
            // If the node's task is gone, nobody wants to know.
            let _ = inputs.blocking_send(Input::Judged { broadcast, piece, verdict });
        });
    }

    /// A complete piece was verified, and stored if it is right. If it has to come again, what others have brought of it while it was
    /// verified goes as well: the core has counted that for the piece that was wrong, and would blame those who bring the rest.
    pub(super) fn judged(&mut self, broadcast: BroadcastId, piece: PieceIndex, verdict: Verdict) {
        let now = self.clock.now();
        match verdict {
            Verdict::Stored => {
                debug!(%broadcast, %piece, "stored");
                self.node.handle_stored(now, broadcast, piece);
            }
            Verdict::Forged { brought } => {
                warn!(%broadcast, %piece, "a piece is not what the root signed");
                self.pieces.drop_piece(broadcast, piece);
                self.node.handle_forged(now, broadcast, piece, &brought);
            }
            Verdict::TooEarly => {
                self.pieces.drop_piece(broadcast, piece);
                self.node.handle_wrong(now, broadcast, piece, false);
            }
            Verdict::Failed(error) => self.store_failed(broadcast, Arc::new(error)),
        }
    }

    /// The core has every piece. At a receiver, the object is put into its place.
    pub(super) fn complete(&mut self, broadcast: BroadcastId, length: u64, object_hash: Digest) {
        // From here on peers may go. What came in one frame has left no trace at the links.
        if self.transfers.get(&broadcast).is_some_and(|transfer| transfer.stats.has_traffic()) {
            self.look_at_links();
        }
        let Some(transfer) = self.transfers.get_mut(&broadcast) else { return };
        transfer.end = Some((length, object_hash));
        let sink = match &transfer.store {
            Some(Store::Sink(sink)) => Arc::clone(sink),
            _ => {
                self.node.confirm(self.clock.now(), broadcast);
                let finished = Finished::default();
                return self.tell(Notice::Complete { broadcast, length, object_hash, finished });
            }
        };
        if self.pieces.object_hash(broadcast) != Some(object_hash) {
            warn!(%broadcast, "the object is not what its root signed, though its pieces are");
            self.tell(Notice::WrongHash { broadcast });
            let reason = "the object's hash is not the one that its root signed".to_owned();
            return self.node.decline(self.clock.now(), broadcast, reason);
        }
        if sink.ends_at_once() {
            let result = sink.finish(length);
            return self.finished(broadcast, result);
        }
        let inputs = self.inputs.clone();
        let finish = move || {
            let result = sink.finish(length);
            // If the node's task is gone, the object is in its place all the same.
            let _ = inputs.blocking_send(Input::Finished { broadcast, result });
        };
        if let Err(error) = thread::Builder::new().name("mobcast-finish".into()).spawn(finish) {
            self.node.decline(self.clock.now(), broadcast, format!("cannot start a thread: {error}"));
        }
    }

    pub(super) fn finished(&mut self, broadcast: BroadcastId, result: Result<Finished, StoreError>) {
        let Some(transfer) = self.transfers.get_mut(&broadcast) else { return };
        match (result, transfer.end) {
            (Ok(finished), Some((length, object_hash))) => {
                info!(%broadcast, length, %object_hash, "complete");
                transfer.drainer = None;
                self.pieces.remove(broadcast);
                self.node.confirm(self.clock.now(), broadcast);
                self.tell(Notice::Complete { broadcast, length, object_hash, finished });
            }
            (Err(error), _) => self.store_failed(broadcast, Arc::new(error)),
            (Ok(_), None) => {}
        }
    }
}

// ---- What goes wrong, and the end ----

impl Engine {
    /// A peer was refused a piece that cannot be read; the link has said so, and the peer asks somebody else. A receiver has what it
    /// has all the same. The root gives the broadcast up as long as there may be nobody else to ask.
    pub(super) fn serving_failed(&mut self, broadcast: BroadcastId, error: Arc<StoreError>) {
        let Some(transfer) = self.transfers.get_mut(&broadcast) else { return };
        match transfer.store {
            Some(Store::Source(_)) if transfer.may_leave => transfer.unserved = Some(error),
            Some(Store::Source(_)) => self.store_failed(broadcast, error),
            Some(Store::Sink(_) | Store::Filler) | None => {}
        }
    }

    /// The others can complete it among themselves.
    pub(super) fn root_may_leave(&mut self, broadcast: BroadcastId) {
        if let Some(transfer) = self.transfers.get_mut(&broadcast) {
            transfer.may_leave = true;
        }
    }

    /// They cannot any more. Whoever was refused a piece does not ask the root for it again, and would wait for ever.
    pub(super) fn root_needed(&mut self, broadcast: BroadcastId) {
        let Some(transfer) = self.transfers.get_mut(&broadcast) else { return };
        transfer.may_leave = false;
        if let Some(error) = transfer.unserved.take() {
            self.store_failed(broadcast, error);
        }
    }

    /// Nobody says any more whether they can.
    pub(super) fn all_roots_needed(&mut self) {
        let ids: Vec<BroadcastId> = self.transfers.keys().copied().collect();
        ids.into_iter().for_each(|id| self.root_needed(id));
    }

    /// A source cannot be read to its end, or a sink has failed: the root gives the broadcast up for all, a receiver for itself.
    pub(super) fn store_failed(&mut self, broadcast: BroadcastId, error: Arc<StoreError>) {
        let Some(transfer) = self.transfers.get(&broadcast) else { return };
        warn!(%broadcast, %error, "store failed");
        let (now, reason) = (self.clock.now(), error.to_string());
        let is_root = matches!(transfer.store, Some(Store::Source(_)));
        self.tell(Notice::StoreFailed { broadcast, error });
        if is_root {
            self.node.abort(now, broadcast, reason);
        } else {
            self.node.decline(now, broadcast, reason);
        }
    }

    /// Nothing more is read, written or served of a broadcast; what is not finished leaves nothing behind.
    pub(super) fn end_transfer(&mut self, broadcast: BroadcastId) {
        self.pieces.remove(broadcast);
        let Some(transfer) = self.transfers.remove(&broadcast) else { return };
        transfer.stopped.store(true, Ordering::Relaxed);
        match transfer.store {
            Some(Store::Source(source)) => source.stop(),
            Some(Store::Sink(sink)) if sink.ends_at_once() => sink.abandon(),
            // Removing a large partial tree takes a while, and the node's task must not wait for it.
            Some(Store::Sink(sink)) => drop(self.removing.spawn_blocking(move || sink.abandon())),
            Some(Store::Filler) | None => {}
        }
    }
}
